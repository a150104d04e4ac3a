"""Relations taken over from elsewhere: a file, another graph.

They are a copy of what is known there, no statement made now. So nothing is ended or withdrawn for them, not even where
somebody has one such target at a time, and what is known here already only grows: the same triple at the same time is one
relation, which holds as long as either of the two says, and was mentioned as often as the one that counted more. A date that is
left open there changes none that is known here. Taken over twice, nothing changes (a join, in the sense of Shapiro et al.,
Conflict-free Replicated Data Types, 2011; tests/knowledge/test_exchange.py::test_what_was_loaded_once_is_known).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from langmem_adapter.storage.graph.beliefs import Belief, believed
from langmem_adapter.storage.graph.claims import ends, normal
from langmem_adapter.storage.graph.spans import Span
from langmem_adapter.storage.graph.tables import BY_HAND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langmem_adapter.names import End
    from langmem_adapter.records.graph import Triple
    from langmem_adapter.storage.graph.beliefs import Home
    from langmem_adapter.storage.graph.rows import GraphRows

__all__ = ["Taken", "take_in"]

Ends: TypeAlias = "tuple[End, End]"
Taken: TypeAlias = Literal["added", "widened", "known", "same"]
"""What became of one: it is new, more is known of it now, all of it was known, its two ends are one and the same thing."""


def take_in(rows: GraphRows, home: Home, triples: Sequence[Triple]) -> list[Taken]:
    """Take relations over into one exact scope, and say of each what became of it; *rows* are to be posted afterwards."""
    taking = _Taking(rows, home)
    told = [(ends(triple, home.scope), normal(triple)) for triple in triples]
    taking.look([two for two, _ in told])
    return [taking.take(two, triple) for two, triple in told]


@dataclass(frozen=True, slots=True)
class _Taking:
    rows: GraphRows
    home: Home

    def look(self, pairs: Sequence[Ends]) -> None:
        """Read what is known between some ends."""
        self.rows.read_names({self.home.id}, {end.key for two in pairs for end in two})
        known = [[self.rows.names.get((self.home.id, end.key)) for end in two] for two in pairs]
        pks = {(one.pk, other.pk) for one, other in known if one is not None and other is not None}
        self.rows.read_between(pks | {(other, one) for one, other in pks})
        self.rows.read_support({belief.id for belief in self.rows.beliefs})

    def take(self, two: Ends, triple: Triple) -> Taken:
        """Take one over."""
        source, target = (self.rows.names.get((self.home.id, end.key)) for end in two)
        if two[0].key == two[1].key or (source is not None and source is target):  # they may have been merged
            return "same"
        if source is None or target is None:
            return self._add(two, triple)
        held = self.rows.beliefs.between([source], triple.relation, [target])
        in_time = sorted(held, key=lambda each: each.span.begins)
        return self._join(two, in_time, triple) if held else self._add(two, triple)

    def _add(self, two: Ends, triple: Triple) -> Taken:
        source = self.rows.node(self.home, two[0], triple.source_type, self.rows.now)
        target = self.rows.node(self.home, two[1], triple.target_type, self.rows.now)
        for node in (source, target):
            node.mentions += triple.mentions - 1
        span = Span(triple.valid_from, triple.valid_to)
        claim = believed(self.home, source, triple, target, span, self.rows.now)
        self.rows.link(self.rows.believe(claim, span), BY_HAND, self.rows.now)
        return "added"

    def _join(self, two: Ends, held: Sequence[Belief], triple: Triple) -> Taken:
        """What is known of it grows by what is told; the first of several that this joins takes the others in."""
        span = _resolved(held, triple)
        if span is None:
            return "known"
        alike = [belief for belief in held if belief.span.meets(span)]
        if not alike:
            return self._add(two, triple)
        for belief in alike:
            span = span.joined(belief.span)
        first = alike[0]
        mentions = max(sum(belief.mentions for belief in alike), triple.mentions)
        confidence = max(triple.confidence, *(belief.confidence for belief in alike))
        if (span, mentions, confidence) == (first.span, first.mentions, first.confidence):
            return "known"
        first.mentions, first.confidence, first.changed = mentions, confidence, True
        if span != first.span:
            self.rows.link(self.rows.join(alike, span), BY_HAND, self.rows.now)
        return "widened"


def _resolved(held: Sequence[Belief], triple: Triple) -> Span | None:
    """When a relation holds that is told, with the dates that are known where it leaves them open; `None`: all is known.

    What is *held* of the same triple is in the order of time, and no two of it meet.
    """
    start, end = triple.valid_from, triple.valid_to
    if start is None and end is None:
        known = any(each.mentions >= triple.mentions and each.confidence >= triple.confidence for each in held)
        return None if known else held[-1].span
    if start is not None and end is None:
        within = [each.span.end for each in held if each.span.begins <= start < each.span.ends]
        later = [each.span.start for each in held if each.span.begins > start]
        end = next(iter([*within, *later]), None)
    elif start is None and end is not None:
        within = [each.span.start for each in held if each.span.begins < end <= each.span.ends]
        earlier = [each.span.end for each in reversed(held) if each.span.ends < end]
        start = next(iter([*within, *earlier]), None)
    return Span(start, end)
