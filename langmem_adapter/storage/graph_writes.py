"""What a write means for the knowledge graph: relations that memories state, and those that no memory states any more.

A relation stands as long as a memory says it. So the judgement about a memory (it is added, rewritten, deleted) is the
judgement about its relations, made once: no model is asked a second time, and the two can never disagree. What spelling and
dates decide is decided here, within the transaction, where nobody can come between: the same triple is one more mention, an
employer ends where the next begins, a late message bounds itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from langmem_adapter.names import entity_key, is_single, is_symmetric, opposites, relation_name, says
from langmem_adapter.records.graph import ASSISTANT, SELF, RelationChange, RelationEvent, Triple
from langmem_adapter.storage.graph_rows import Belief, Home
from langmem_adapter.storage.spans import Span

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from langmem_adapter.storage.graph_rows import Link, Node, Rows

__all__ = ["Said", "carry_out", "end", "withdraw"]


@dataclass(frozen=True, slots=True)
class Said:
    """What one decision says and unsays.

    Attributes:
        home: The scope of its memory; where it states relations without a memory, the scope that they shall have.
        time: The date of the statement.
        triples: What is stated.
        memory_id: By which memory; `None` for relations that are written by hand.
        before: The memory's text before; `None` where it is new.
        after: Its text after; `None` where it is deleted.
        by_hand: It was edited or deleted by hand: then what it no longer says was never so, instead of being over.
        returns: It was there before, and comes back.
        heir: The memory that says from now on what this one said.
    """

    home: Home
    time: datetime
    triples: tuple[Triple, ...] = ()
    memory_id: str | None = None
    before: str | None = None
    after: str | None = None
    by_hand: bool = False
    returns: bool = False
    heir: str | None = None

    @property
    def unsays(self) -> bool:
        """Whether the memory may no longer say what it said, or say again what it did not."""
        return self.memory_id is not None and (self.returns or self.before not in {None, self.after})


def carry_out(rows: Rows, told: Sequence[Said], within: Collection[int]) -> list[tuple[RelationChange, ...]]:
    """Carry out what some decisions say and unsay, in order.

    Args:
        rows: The graph's rows, empty; they are to be posted afterwards.
        told: What they say.
        within: Numbers of the scopes whose relations it is compared with.

    Returns:
        For each of them, what became of relations.
    """
    told = [replace(said, triples=tuple(map(_normal, said.triples))) for said in told]
    links = _read(rows, told, within)
    writer = _Writer(rows, within)
    return [tuple(writer.write(said, [k for k in links if k.memory_id == said.memory_id])) for said in told]


def end(rows: Rows, relation_id: str, at: datetime) -> list[RelationChange]:
    """End a relation at a moment; none where it had ended by then."""
    return _Writer(rows, ()).end(rows.of_relation(relation_id), at)


def withdraw(rows: Rows, beliefs: Sequence[Belief]) -> list[RelationChange]:
    """Believe some relations no longer."""
    return _Writer(rows, ()).withdraw(beliefs)


def _read(rows: Rows, told: Sequence[Said], within: Collection[int]) -> list[Link]:
    ends = {(said.home.id, entity_key(name)) for said in told for t in said.triples for name in _ends(t, said.home)}
    if ends:
        rows.read_names({*within, *(home for home, _ in ends)}, {key for _, key in ends})
    single = [(said, t) for said in told for t in said.triples if _single(t)]
    if single:
        sources = {pk for said, t in single for pk in _pks(rows, _ends(t, said.home)[0])}
        mutual = {
            pk for said, t in single if is_symmetric(t.relation) for n in _ends(t, said.home) for pk in _pks(rows, n)
        }
        rows.read_relations(sources | mutual, mutual, {t.relation for _, t in single})
    unsaying = [str(said.memory_id) for said in told if said.unsays]
    links = rows.read_links(unsaying) if unsaying else []
    rows.read_support({belief.id for belief in rows.beliefs.values()})
    return links


def _normal(triple: Triple) -> Triple:
    return replace(triple, relation=relation_name(triple.relation))


def _ends(triple: Triple, home: Home) -> tuple[str, str]:
    """The names of a triple's two ends, the speakers' replaced by those of the scope."""
    stands = {SELF: home.scope.user_id or SELF, ASSISTANT: home.scope.agent_id or ASSISTANT}
    return stands.get(triple.source, triple.source), stands.get(triple.target, triple.target)


def _pks(rows: Rows, name: str) -> set[int]:
    key = entity_key(name)
    return {node.pk for (_, known), node in rows.names.items() if known == key}


def _single(triple: Triple) -> bool:
    return is_single(triple.relation) if triple.single is None else triple.single


class _Writer:
    """Changes the rows of one write."""

    def __init__(self, rows: Rows, within: Collection[int]) -> None:
        self._rows = rows
        self._within = within

    def write(self, said: Said, links: Sequence[Link]) -> list[RelationChange]:
        """What one decision does."""
        changes = self._unsay(said, links) if said.before not in {None, said.after} else []
        if said.returns or (said.by_hand and said.after is not None):
            changes += self._say_again(said, links)
        for triple in said.triples:
            changes += self._state(triple, said)
        return changes

    # ── a memory no longer says it ──────────────────────────────────────────────────────────────────────────────────

    def _unsay(self, said: Said, links: Sequence[Link]) -> list[RelationChange]:
        changes: list[RelationChange] = []
        for link in links:
            beliefs = self._rows.of_relation(link.relation_id)
            if link.dropped_at is not None or not beliefs or not _unsaid(said, beliefs[0]):
                continue
            self._rows.drop(link.relation_id, link.memory_id)
            if said.heir is not None:
                self._rows.link(beliefs[0], said.heir, link.created_at)
            if self._rows.speakers(link.relation_id):  # another memory says it, too
                continue
            changes += self.withdraw(beliefs) if said.by_hand else self.end(beliefs, said.time)
        return changes

    def end(self, beliefs: Sequence[Belief], at: datetime) -> list[RelationChange]:
        """End what is believed of a relation; what would begin then or later is withdrawn."""
        changes: list[RelationChange] = []
        for belief in beliefs:
            if belief.span.ends > at:
                changes += self._become(belief, () if belief.span.begins >= at else (belief.span.until(at),))
        return changes

    def withdraw(self, beliefs: Sequence[Belief]) -> list[RelationChange]:
        """Believe it no longer."""
        return [change for belief in beliefs for change in self._become(belief, ())]

    def _say_again(self, said: Said, links: Sequence[Link]) -> list[RelationChange]:
        """A memory that comes back says again what it said when it was dropped."""
        back = [link for link in links if link.dropped_at not in {None, self._rows.now}]
        changes: list[RelationChange] = []
        for once in self._rows.retired([link.relation_id for link in back]) if back else []:
            link = next(link for link in back if link.relation_id == once.id)
            if once.retired_at == link.dropped_at and _still_said(said.after or "", once):
                self._rows.read_around(once)
                changes += self._place(replace(once, retired_at=None, changed=False), said, once.span)
        return changes

    # ── a memory says it ────────────────────────────────────────────────────────────────────────────────────────────

    def _state(self, triple: Triple, said: Said) -> list[RelationChange]:
        source, target = _ends(triple, said.home)
        if entity_key(source) == entity_key(target):
            return []
        nodes = [
            self._rows.node(said.home, name, kind, said.time)
            for name, kind in ((source, triple.source_type), (target, triple.target_type))
        ]
        if nodes[0] is nodes[1]:  # they were merged: it is nobody's relation to himself
            return []
        claim = Belief(
            pk=0,
            id="",
            home_id=said.home.id,
            source=nodes[0],
            relation=triple.relation,
            target=nodes[1],
            span=_span(triple, said.time),
            recorded_at=self._rows.now,
            mentions=1,
            confidence=triple.confidence,
        )
        if triple.ended:
            return self._state_end(claim, said)
        return self._place(claim, said, claim.span, single=_single(triple))

    def _state_end(self, claim: Belief, said: Said) -> list[RelationChange]:
        """It is said that something is over: it ends, or is written down as something that was."""
        same = [belief for belief in self._same(claim) if belief.span.meets(claim.span)]
        running = [belief for belief in same if belief.span.begins < claim.span.ends < belief.span.ends]
        if not same:
            return self._added(claim, claim.span, said)
        return [change for belief in running for change in self._become(belief, (belief.span.until(claim.span.ends),))]

    def _place(self, claim: Belief, said: Said, span: Span, *, single: bool | None = None) -> list[RelationChange]:
        """Give a claim its place among what is believed."""
        others = self._others(claim, single=is_single(claim.relation) if single is None else single)
        span = _bounded(span, [other.span for other in others])
        changes: list[RelationChange] = []
        same = [belief for belief in self._same(claim) if belief.span.meets(span)]
        for belief in same:
            span = span.joined(belief.span)
        span = _bounded(span, [other.span for other in others])
        for other in [*others, *self._opposite(claim)]:
            if other.span.overlaps(span):
                changes += self._become(other, other.span.without(span))
        return [*changes, *(self._mentioned(same, claim, span, said) if same else self._added(claim, span, said))]

    def _added(self, claim: Belief, span: Span, said: Said) -> list[RelationChange]:
        belief = self._rows.believe(claim, span, relation_id=claim.id or None)
        return [self._said_by(belief, said, "ADD")]

    def _mentioned(self, same: Sequence[Belief], claim: Belief, span: Span, said: Said) -> list[RelationChange]:
        first = same[0]
        again = 0 if claim.id else 1  # what comes back was counted when it was said
        first.mentions, first.changed = sum(belief.mentions for belief in same) + again, True
        first.confidence = max(claim.confidence, *(belief.confidence for belief in same))
        if len(same) == 1 and first.span == span:
            return [self._said_by(first, said, "NONE")]
        belief = self._rows.believe(first, span, relation_id=first.id)
        for old in same:
            for memory_id in self._rows.speakers(old.id) if old.id != first.id else ():
                self._rows.link(belief, memory_id, said.time)
            self._rows.retire(old)
        return [self._said_by(belief, said, "UPDATE")]

    def _said_by(self, belief: Belief, said: Said, event: RelationEvent) -> RelationChange:
        if said.memory_id is not None and said.after is not None:
            self._rows.link(belief, said.memory_id, said.time)
        return RelationChange(event, self._rows.record(belief))

    def _become(self, belief: Belief, spans: Sequence[Span]) -> list[RelationChange]:
        """What is left of a belief: nothing, a shorter span, or two."""
        self._rows.retire(belief)
        if not spans:
            return [RelationChange("DELETE", self._rows.record(belief))]
        first, *more = spans
        kept = self._rows.believe(belief, first, relation_id=belief.id)
        later = [self._rows.believe(belief, span) for span in more]
        for part in later:
            for memory_id in self._rows.speakers(belief.id):
                self._rows.link(part, memory_id, belief.recorded_at)
        event: RelationEvent = "END" if first.ends < belief.span.ends else "UPDATE"
        return [
            RelationChange(event, self._rows.record(kept)),
            *(RelationChange("ADD", self._rows.record(p)) for p in later),
        ]

    # ── what it is compared with ────────────────────────────────────────────────────────────────────────────────────

    def _same(self, claim: Belief) -> list[Belief]:
        return [
            belief for belief in self._near(claim, claim.relation) if self._joins(belief, claim.source, claim.target)
        ]

    def _opposite(self, claim: Belief) -> list[Belief]:
        relation = opposites(claim.relation)
        near = self._near(claim, relation) if relation else []
        return [belief for belief in near if self._joins(belief, claim.source, claim.target)]

    def _others(self, claim: Belief, *, single: bool) -> list[Belief]:
        if not single:
            return []
        mutual = is_symmetric(claim.relation)
        ends = [claim.source, claim.target] if mutual else [claim.source]
        near = self._near(claim, claim.relation)
        held = [b for b in near if any(_equal(b.source, e) or (mutual and _equal(b.target, e)) for e in ends)]
        return [belief for belief in held if not self._joins(belief, claim.source, claim.target)]

    def _near(self, claim: Belief, relation: str) -> list[Belief]:
        scopes = {*self._within, claim.home_id}
        return [b for b in self._rows.believed() if b.relation == relation and b.home_id in scopes]

    def _joins(self, belief: Belief, source: Node, target: Node) -> bool:
        if _equal(belief.source, source) and _equal(belief.target, target):
            return True
        return is_symmetric(belief.relation) and _equal(belief.source, target) and _equal(belief.target, source)


def _equal(one: Node, other: Node) -> bool:
    """Whether two entities are the same; in different scopes of one owner by their names."""
    return one is other or (one.home.id != other.home.id and entity_key(one.name) == entity_key(other.name))


def _span(triple: Triple, time: datetime) -> Span:
    if triple.ended:
        over = triple.valid_to or time
        return Span(triple.valid_from if triple.valid_from and triple.valid_from < over else None, over)
    if triple.valid_to is not None and (triple.valid_from is None or triple.valid_from < triple.valid_to):
        return Span(triple.valid_from, triple.valid_to)
    return Span(triple.valid_from or time, None)


def _bounded(span: Span, others: Sequence[Span]) -> Span:
    """A span that gives way to what is known to begin later."""
    later = [other.begins for other in others if span.begins < other.begins < span.ends]
    return span.until(min(later)) if later and span.end is None else span


def _unsaid(said: Said, belief: Belief) -> bool:
    if said.after is None:
        return True
    names = [name for name in (belief.source.name, belief.target.name) if name not in _owners(said.home)]
    return any(says(said.before or "", name) and not says(said.after, name) for name in names)


def _still_said(text: str, belief: Belief) -> bool:
    return says(text, belief.target.name) or says(text, belief.source.name)


def _owners(home: Home) -> set[str]:
    return {name for name in (home.scope.user_id, home.scope.agent_id) if name is not None}
