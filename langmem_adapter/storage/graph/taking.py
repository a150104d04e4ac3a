"""Relations taken over from elsewhere: a file, another graph.

They are a copy of what is known there, no statement made now. So nothing is ended or withdrawn for them, not even where
somebody has one such target at a time, and what is known here already only grows: the same triple at the same time is one
relation, which holds as long as either of the two says, and was mentioned as often as the one that counted more. A date that is
left open there changes none that is known here. Taken over twice, nothing changes (a join, in the sense of Shapiro et al.,
Conflict-free Replicated Data Types, 2011).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from langmem_adapter.storage.graph.beliefs import Belief
from langmem_adapter.storage.graph.said import ends, normal, relates_two
from langmem_adapter.storage.graph.spans import Span
from langmem_adapter.storage.graph.tables import BY_HAND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langmem_adapter.records.graph import Triple
    from langmem_adapter.storage.graph.beliefs import Home, Node
    from langmem_adapter.storage.graph.rows import Rows

__all__ = ["Taken", "take_in"]

Taken: TypeAlias = Literal["added", "widened", "known", "same"]
"""What became of one: it is new, more is known of it now, all of it was known, its two ends are one and the same thing."""


def take_in(rows: Rows, home: Home, triples: Sequence[Triple]) -> list[Taken]:
    """Take relations over into one exact scope, and say of each what became of it.

    Args:
        rows: The graph's rows, empty; they are to be posted afterwards.
        home: The scope.
        triples: The relations.
    """
    taking = _Taking(rows, home)
    told = [normal(triple) for triple in triples]
    taking.look(told)
    return [taking.take(triple) for triple in told]


@dataclass(frozen=True, slots=True)
class _Taking:
    rows: Rows
    home: Home

    def look(self, triples: Sequence[Triple]) -> None:
        """Read what is known of them."""
        keys = [[end.key for end in ends(triple, self.home.scope)] for triple in triples]
        self.rows.read_names({self.home.id}, {key for pair in keys for key in pair})
        known = [[self.rows.names.get((self.home.id, key)) for key in pair] for pair in keys]
        pairs = {(one.pk, other.pk) for one, other in known if one is not None and other is not None}
        self.rows.read_between(pairs | {(other, one) for one, other in pairs})
        self.rows.read_support({belief.id for belief in self.rows.beliefs})

    def take(self, triple: Triple) -> Taken:
        """Take one over."""
        if not relates_two(triple, self.home.scope):
            return "same"
        source, target = (self.rows.names.get((self.home.id, end.key)) for end in ends(triple, self.home.scope))
        if source is not None and source is target:  # they were merged
            return "same"
        alike = [] if source is None or target is None else self._alike(source, target, triple)
        return self._join(alike, triple) if alike else self._add(triple)

    def _alike(self, source: Node, target: Node, triple: Triple) -> list[Belief]:
        span = Span(triple.valid_from, triple.valid_to)
        held = self.rows.beliefs.between([source], triple.relation, [target])
        return [belief for belief in held if belief.span.meets(span)]

    def _add(self, triple: Triple) -> Taken:
        source, target = (
            self.rows.node(self.home, end, kind, self.rows.now)
            for end, kind in zip(ends(triple, self.home.scope), (triple.source_type, triple.target_type), strict=True)
        )
        for node in (source, target):
            node.mentions += triple.mentions - 1
        span = Span(triple.valid_from, triple.valid_to)
        claim = Belief(
            pk=0,
            id="",
            home_id=self.home.id,
            source=source,
            relation=triple.relation,
            target=target,
            span=span,
            recorded_at=self.rows.now,
            mentions=triple.mentions,
            confidence=triple.confidence,
        )
        self.rows.link(self.rows.believe(claim, span), BY_HAND, self.rows.now)
        return "added"

    def _join(self, alike: Sequence[Belief], triple: Triple) -> Taken:
        """What is known of it grows by what is told; the oldest of several that it joins takes the others in."""
        first, *more = alike
        span = _joined(alike, triple)
        mentions = max(sum(belief.mentions for belief in alike), triple.mentions)
        confidence = max(triple.confidence, *(belief.confidence for belief in alike))
        if (span, mentions, confidence) == (first.span, first.mentions, first.confidence):
            return "known"
        first.mentions, first.confidence, first.changed = mentions, confidence, True
        if span != first.span or more:
            self._widen(first, more, span)
        return "widened"

    def _widen(self, first: Belief, more: Sequence[Belief], span: Span) -> None:
        for belief in (first, *more):
            self.rows.retire(belief)
        joined = self.rows.believe(first, span, relation_id=first.id)
        for belief in more:
            for memory_id in self.rows.speakers(belief.id):
                link = self.rows.links[belief.id][memory_id]
                self.rows.link(joined, memory_id, link.created_at)
                self.rows.drop(link)
        self.rows.link(joined, BY_HAND, self.rows.now)


def _joined(alike: Sequence[Belief], triple: Triple) -> Span:
    """When it holds by all that is known: a date that is not told changes none."""
    span = alike[0].span
    for belief in alike[1:]:
        span = span.joined(belief.span)
    start = triple.valid_from if triple.valid_from is not None and triple.valid_from < span.begins else span.start
    end = triple.valid_to if triple.valid_to is not None and triple.valid_to > span.ends else span.end
    return Span(start, end)
