"""Writing relations: what decisions and imports state, and which relations end with them.

A relation holds as long as a memory states it. So the decision about a memory (it is added, rewritten, deleted) is the
decision about its relations, made once: no model is asked a second time. Spelling and dates are compared here, within the
transaction: the same triple is one more mention, an employer ends where the next begins, a late message bounds itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from langmem_adapter.names import (
    EntityReference,
    drops_name,
    entity_key,
    is_single,
    is_symmetric,
    mentions_whole_name,
    opposite_relation,
    relation_end,
    relation_name,
)
from langmem_adapter.records.graph import RelationChange, RelationEvent
from langmem_adapter.storage.graph.rows import RelationRow, Span
from langmem_adapter.storage.tables import BY_HAND

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import datetime

    from langmem_adapter.records.graph import Relation, Triple
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.graph.rows import EntityNode, GraphRows, ScopeRow


@dataclass(frozen=True, slots=True)
class Claims:
    """What one decision states and retracts."""

    scope_row: ScopeRow  # of its memory; where it states relations without a memory, their scope
    time: datetime  # the date of the statement
    triples: tuple[Triple, ...] = ()  # what is stated
    memory_id: str | None = None  # by which memory; `None` for relations that are written by hand
    before: str | None = None  # the memory's text before; `None` where it is new
    after: str | None = None  # its text after; `None` where it is deleted
    by_hand: bool = False  # edited or deleted by hand: what it no longer states was never true, instead of being over
    returns: bool = False  # it was there before, and comes back
    successor_id: str | None = None  # the memory that states from now on what this one stated
    gap: Span | None = None  # when the memory said something else, or nothing, before it began to say what it says now
    speaker: str = ""  # the named speaker of the memory (`names.named_speaker`), who is not in its text

    @property
    def retracts(self) -> bool:
        """Whether the memory may state no longer what it stated, or state again what it did not."""
        changes = self.returns or self.gap is not None or self.before not in {None, self.after}
        return self.memory_id is not None and changes


def normal(triple: Triple) -> Triple:
    return replace(triple, relation=relation_name(triple.relation))


def ends(triple: Triple, scope: Scope) -> tuple[EntityReference, EntityReference]:
    return relation_end(triple.source, scope), relation_end(triple.target, scope)


def relates_two(triple: Triple, scope: Scope) -> bool:
    source, target = ends(triple, scope)
    return source.key != target.key


def single(triple: Triple) -> bool:
    return is_single(triple.relation) if triple.single is None else triple.single


def carry_out(rows: GraphRows, claims: Sequence[Claims], within: Collection[int]) -> list[tuple[RelationChange, ...]]:
    """Carry out what some decisions state and retract, in order, compared with the relations of some scopes.

    The graph's *rows* are empty, and are posted afterwards. For each decision it gives what became of relations in the end;
    those that gave way come before the one that they gave way to.
    """
    claims = [replace(each, triples=tuple(map(normal, each.triples))) for each in claims]
    retracting = [str(each.memory_id) for each in claims if each.retracts]
    if retracting:
        rows.read_mentions(retracting)
    _look_up(rows, [_key_of(triple, each.scope_row) for each in claims for triple in each.triples], within)
    return [RelationWriter(rows, within).write(each) for each in claims]


# ── what a claim is compared with ───────────────────────────────────────────────────────────────────────────────────────


class _Key(NamedTuple):
    """A relation that is about to be written: its scope, the keys of its ends, its name."""

    scope_id: int
    source: str
    relation: str
    target: str
    single: bool


def _key_of(triple: Triple, scope_row: ScopeRow) -> _Key:
    source, target = ends(triple, scope_row.scope)
    return _Key(scope_row.id, source.key, triple.relation, target.key, single(triple))


def _look_up(rows: GraphRows, keys: Collection[_Key], within: Collection[int]) -> None:
    """Read what some relations have to be compared with, and which memories state all that was read."""
    if keys:
        rows.read_names(
            {*within, *(key.scope_id for key in keys)}, {end for key in keys for end in (key.source, key.target)}
        )
        pks = {key: [[node.pk for node in rows.by_key[end]] for end in (key.source, key.target)] for key in keys}
        pairs = {(one, other) for sources, targets in pks.values() for one in sources for other in targets}
        rows.read_between(pairs | {(other, one) for one, other in pairs})
        rivals = {key: ends for key, ends in pks.items() if key.single}
        mutual = {pk for key, ends in rivals.items() if is_symmetric(key.relation) for each in ends for pk in each}
        sources = {pk for sources, _ in rivals.values() for pk in sources}
        rows.read_of_ends(sources | mutual, mutual, {key.relation for key in rivals})
    rows.read_support({row.id for row in rows.relations})


def _valid_time(triple: Triple, time: datetime) -> tuple[Span, bool, bool]:
    """When a triple holds; whether it is stated since when, and until when."""
    start, stop = triple.valid_from, triple.valid_to
    if triple.ended:
        over = stop or time
        start = start if start is not None and start < over else None
        return Span(start, over), start is not None, stop is not None
    if stop is None or (start is not None and start >= stop):
        return Span(start or time, None), True, False
    since = start or (time if time < stop else None)
    return Span(since, stop), since is not None, True


def _names(claims: Claims, row: RelationRow) -> list[str]:
    """The names by which a text would speak of a relation; a user, an agent or the speaker goes without."""
    speaker = entity_key(claims.speaker)
    return [each.name for each in (row.source, row.target) if each.owner is None and each.key != speaker]


def _is_retracted(claims: Claims, row: RelationRow | None) -> bool:
    """Whether the memory states a relation no longer; of one that is retired only the memory's end tells."""
    if claims.after is None or row is None:
        return claims.after is None
    return any(drops_name(claims.before or "", claims.after, name) for name in _names(claims, row))


def _is_stated_again(claims: Claims, text: str | None, row: RelationRow) -> bool:
    """Whether the text states what an older one stated; what that did not name is stated where both are the same."""
    return claims.after == text or all(mentions_whole_name(claims.after or "", name) for name in _names(claims, row))


# ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Claim(NamedTuple):
    """That a relation holds: the row it would be, and how far its dates go.

    Where `starts`, its begin is stated, and where `ends`, its end. Stated dates win over those of other relations; the rest
    yields to them.
    """

    row: RelationRow
    starts: bool
    ends: bool
    single: bool


class RelationWriter:
    """Changes the rows of one write, for one decision."""

    def __init__(self, rows: GraphRows, within: Collection[int] = ()) -> None:
        self._rows = rows
        self._within = within
        self._before: dict[str, Relation | None] = {}  # the relations that it touched, as they were

    def write(self, claims: Claims) -> tuple[RelationChange, ...]:
        if claims.before not in {None, claims.after}:
            self._retract(claims)
        if claims.gap is not None:
            self._interrupt(claims, claims.gap)
        if claims.returns or (claims.by_hand and claims.after is not None):
            self._state_again(claims)
        for triple in claims.triples:
            self._state(triple, claims)
        return self.changes()

    def changes(self) -> tuple[RelationChange, ...]:
        changes = (self._change(relation_id, before) for relation_id, before in self._before.items())
        return tuple(change for change in changes if change is not None)

    def _change(self, relation_id: str, before: Relation | None) -> RelationChange | None:
        row = self._rows.relations.of_id(relation_id)
        if row is None:  # one that this decision had begun is not reported
            return None if before is None else RelationChange("DELETE", replace(before, retired_at=self._rows.now))
        return RelationChange(_event(before, row.span), self._rows.record(row))

    def _touch(self, relation_id: str) -> None:
        """Note a relation before it is changed; the one that was touched last comes last."""
        if relation_id in self._before:
            self._before[relation_id] = self._before.pop(relation_id)
        else:
            row = self._rows.relations.of_id(relation_id)
            self._before[relation_id] = None if row is None else self._rows.record(row)

    def _retract(self, claims: Claims) -> None:
        for link in self._rows.mentions(str(claims.memory_id)):
            row = self._rows.relations.of_id(link.relation_id)
            if link.dropped_at is not None or not _is_retracted(claims, row):
                continue
            if row is not None:
                self._touch(row.id)
            self._rows.drop(link)
            if row is None:  # it was withdrawn by hand
                continue
            if claims.successor_id is not None:
                self._rows.link(row, claims.successor_id, self._rows.now)
            if self._rows.supporting_memory_ids(row.id):  # another memory states it, too
                del self._before[row.id]
            elif claims.by_hand:
                self.become(row)
            else:
                self.end(row, claims.time)

    def _interrupt(self, claims: Claims, gap: Span) -> None:
        """What this memory alone states did not hold for a while."""
        for link in self._rows.mentions(str(claims.memory_id)):
            row = self._rows.relations.of_id(link.relation_id)
            is_alone = link.dropped_at is None and len(self._rows.supporting_memory_ids(link.relation_id)) == 1
            if is_alone and row is not None and row.span.overlaps(gap):
                self.become(row, *row.span.without(gap))

    def end(self, row: RelationRow, at: datetime) -> None:
        """End a relation; it is withdrawn where it would begin then or later."""
        if row.span.ends > at:
            self.become(row, *(() if row.span.begins >= at else (row.span.until(at),)))

    def become(self, row: RelationRow, *spans: Span) -> None:
        """Leave of a relation a shorter span, two of them, or nothing."""
        self._touch(row.id)
        self._rows.retire(row)
        for number, span in enumerate(spans):
            part = self._rows.add(row, span, relation_id=None if number else row.id)
            if number:
                self._before[part.id] = None
                self._rows.hand_on(row.id, part)

    def _state_again(self, claims: Claims) -> None:
        """A memory that comes back states again what it stated when it was dropped, as far as its text still does."""
        links = self._rows.mentions(str(claims.memory_id))
        dropped = [link for link in links if link.dropped_at not in {None, self._rows.now}]
        if not dropped:
            return
        texts = self._rows.old_texts(str(claims.memory_id))
        retired = self._rows.last_retired([link.relation_id for link in dropped])
        keys = [
            _Key(row.scope_id, row.source.key, row.relation, row.target.key, is_single(row.relation))
            for row in retired.values()
        ]
        _look_up(self._rows, keys, self._within)
        for link in dropped:
            row = retired.get(link.relation_id) or self._rows.relations.of_id(link.relation_id)
            if row is not None and link.dropped_at in texts and _is_stated_again(claims, texts[link.dropped_at], row):
                self._return(row, claims)

    def _return(self, retired: RelationRow, claims: Claims) -> None:
        """Bring back what was retired when the last memory dropped it; what was retired otherwise stays so."""
        dropped = {link.dropped_at for link in self._rows.links[retired.id].values()} - {None}
        if retired.retired_at in dropped:
            source, target = map(self._rows.current, (retired.source, retired.target))
            row = replace(retired, source=source, target=target, retired_at=None, changed=False)
            claim = _Claim(row, retired.span.start is not None, ends=False, single=is_single(retired.relation))
            self._place(claim, claims)
            return
        current = self._rows.relations.of_id(retired.id)
        if current is not None:
            self._support(current, claims)
            return
        # It may have been joined with another of the same kind while no memory stated it, and that dropped in its turn.
        joined = [row for row in self._same(retired) if row.span.meets(retired.span)]
        last = self._rows.last_retired([row.id for row in joined])
        for row in joined:
            self._return(last.get(row.id, row), claims)

    def _state(self, triple: Triple, claims: Claims) -> None:
        scope_row, time = claims.scope_row, claims.time
        if not relates_two(triple, scope_row.scope):
            return
        one, other = ends(triple, scope_row.scope)
        source = self._rows.node(scope_row, one, triple.source_type, time)
        target = self._rows.node(scope_row, other, triple.target_type, time)
        if source is target:  # they were merged: nothing is related to itself
            return
        span, starts, finishes = _valid_time(triple, time)
        row = new_row(self._rows, scope_row, source, triple, target, span)
        claim = _Claim(row, starts, finishes, single(triple))
        if triple.ended:
            self._state_end(claim, claims)
        else:
            self._place(claim, claims)

    def _state_end(self, claim: _Claim, claims: Claims) -> None:
        """It is stated that something is over: it ends, and what was not known of it is written down."""
        over = claim.row.span.ends
        same = [row for row in self._same(claim.row) if row.span.meets(claim.row.span)]
        for row in same:
            if row.span.begins <= over:
                self.end(row, over)
        if not same or claim.starts:
            self._place(claim, claims)

    def _place(self, claim: _Claim, claims: Claims) -> None:
        """Give a claim its place among the current relations."""
        rivals = self._rivals(claim)
        # This very write may have ended one when a claim was stated that goes on: the claim may have begun before that.
        spans = [each.span for each in rivals if not (each.new and each.span.end == claims.time < claim.row.span.ends)]
        span = claim.row.span.giving_way(spans, at_start=not claim.starts, at_end=not claim.ends)
        if span is None:
            return
        for rival in rivals:
            if rival.span.overlaps(span):
                self.become(rival, *rival.span.without(span))
        same = [row for row in self._same(claim.row) if row.span.meets(span)]
        here = [row for row in same if row.scope_id == claim.row.scope_id] or same[:1]
        if here:
            self._mention(here, claim.row, span, claims)
        else:
            id_ = claim.row.id  # of what comes back; its relation may be current again meanwhile
            added = self._rows.add(claim.row, span, relation_id=None if self._rows.relations.of_id(id_) else id_)
            self._before[added.id] = None
            self._support(added, claims)

    def _mention(self, same: Sequence[RelationRow], claim: RelationRow, span: Span, claims: Claims) -> None:
        """What is stated is known already, at least in part."""
        first, *more = same
        for row in same:
            span = span.joined(row.span)
            self._touch(row.id)
        self._touch(first.id)
        again = 0 if claim.id else 1  # what comes back was counted when it was stated
        first.mentions, first.changed = sum(row.mentions for row in same) + again, True
        first.confidence = max(claim.confidence, *(row.confidence for row in same))
        self._support(first if not more and first.span == span else self._rows.join(same, span), claims)

    def _support(self, row: RelationRow, claims: Claims) -> None:
        self._touch(row.id)
        if claims.memory_id is None:
            self._rows.link(row, BY_HAND, self._rows.now)
        elif claims.after is not None:
            self._rows.link(row, claims.memory_id, self._rows.now)

    def _same(self, row: RelationRow) -> list[RelationRow]:
        return self._between(row, row.relation)

    def _rivals(self, claim: _Claim) -> list[RelationRow]:
        """Relations that cannot hold together with it."""
        row = claim.row
        opposite = opposite_relation(row.relation)
        rivals = [] if opposite is None else self._between(row, opposite)
        if claim.single:
            mutual = is_symmetric(row.relation)
            nodes = [*self._rows.namesakes(row.source), *(self._rows.namesakes(row.target) if mutual else ())]
            same = {each.pk for each in self._same(row)}
            others = self._near(row, self._rows.relations.of_ends(nodes, row.relation, mutual=mutual))
            rivals += [each for each in others if each.pk not in same]
        return rivals

    def _between(self, row: RelationRow, relation: str) -> list[RelationRow]:
        sources, targets = self._rows.namesakes(row.source), self._rows.namesakes(row.target)
        return self._near(row, self._rows.relations.between(sources, relation, targets))

    def _near(self, claim: RelationRow, rows: Iterable[RelationRow]) -> list[RelationRow]:
        return [row for row in rows if row.scope_id in {*self._within, claim.scope_id}]


def new_row(
    rows: GraphRows, scope_row: ScopeRow, source: EntityNode, triple: Triple, target: EntityNode, span: Span
) -> RelationRow:
    """What a triple states of two entities; it has no number yet."""
    ends = source, triple.relation, target
    return RelationRow(0, "", scope_row.id, *ends, span, rows.now, triple.mentions, triple.confidence)


def _event(before: Relation | None, after: Span) -> RelationEvent:
    if before is None:
        return "ADD"
    was = Span(before.valid_from, before.valid_to)
    return "END" if after.ends < was.ends else "NONE" if after == was else "UPDATE"


# ── relations of another graph ──────────────────────────────────────────────────────────────────────────────────────────

Taken: TypeAlias = Literal["added", "widened", "known", "same"]
"""What became of one: it is new, more is known of it now, all of it was known, its two ends are one and the same thing."""


def take_in(rows: GraphRows, scope_row: ScopeRow, triples: Sequence[Triple]) -> list[Taken]:
    """Take relations of another graph over into one exact scope; gives what became of each. *rows* are posted afterwards.

    They are a copy of what is known there, no statement made now: nothing is ended or withdrawn for them, and what is known
    here only grows. The same triple at the same time is one relation, which holds as long as either of the two says, and was
    mentioned as often as the one that counted more. A date that is left open there changes none here. Taken over twice, nothing
    changes (a join, in the sense of Shapiro et al., Conflict-free Replicated Data Types, 2011;
    tests/knowledge/test_exchange.py::test_load_twice_changes_nothing).
    """
    taking = _Taking(rows, scope_row)
    pairs = [(ends(triple, scope_row.scope), normal(triple)) for triple in triples]
    taking.look_up([both for both, _ in pairs])
    return [taking.take(both, triple) for both, triple in pairs]


@dataclass(frozen=True, slots=True)
class _Taking:
    rows: GraphRows
    scope_row: ScopeRow

    def look_up(self, pairs: Sequence[tuple[EntityReference, EntityReference]]) -> None:
        self.rows.read_names({self.scope_row.id}, {end.key for both in pairs for end in both})
        nodes = [self._nodes(both) for both in pairs]
        pks = {(one.pk, other.pk) for one, other in nodes if one is not None and other is not None}
        self.rows.read_between(pks | {(other, one) for one, other in pks})
        self.rows.read_support({row.id for row in self.rows.relations})

    def _nodes(self, both: tuple[EntityReference, EntityReference]) -> list[EntityNode | None]:
        return [self.rows.names.get((self.scope_row.id, end.key)) for end in both]

    def take(self, both: tuple[EntityReference, EntityReference], triple: Triple) -> Taken:
        source, target = self._nodes(both)
        if both[0].key == both[1].key or (source is not None and source is target):  # they may have been merged
            return "same"
        if source is None or target is None:
            return self._add(both, triple)
        rows = self.rows.relations.between([source], triple.relation, [target])
        return (
            self._join(both, sorted(rows, key=lambda row: row.span.begins), triple) if rows else self._add(both, triple)
        )

    def _add(self, both: tuple[EntityReference, EntityReference], triple: Triple) -> Taken:
        source = self.rows.node(self.scope_row, both[0], triple.source_type, self.rows.now)
        target = self.rows.node(self.scope_row, both[1], triple.target_type, self.rows.now)
        for node in (source, target):
            node.mentions += triple.mentions - 1
        span = Span(triple.valid_from, triple.valid_to)
        row = new_row(self.rows, self.scope_row, source, triple, target, span)
        self.rows.link(self.rows.add(row, span), BY_HAND, self.rows.now)
        return "added"

    def _join(
        self, both: tuple[EntityReference, EntityReference], rows: Sequence[RelationRow], triple: Triple
    ) -> Taken:
        """What is known of it grows by the triple; the first of several that this joins takes the others in."""
        span = _span_beside(rows, triple)
        if span is None:
            return "known"
        alike = [row for row in rows if row.span.meets(span)]
        if not alike:
            return self._add(both, triple)
        for row in alike:
            span = span.joined(row.span)
        first = alike[0]
        mentions = max(sum(row.mentions for row in alike), triple.mentions)
        confidence = max(triple.confidence, *(row.confidence for row in alike))
        if (span, mentions, confidence) == (first.span, first.mentions, first.confidence):
            return "known"
        first.mentions, first.confidence, first.changed = mentions, confidence, True
        if span != first.span:
            self.rows.link(self.rows.join(alike, span), BY_HAND, self.rows.now)
        return "widened"


def _span_beside(rows: Sequence[RelationRow], triple: Triple) -> Span | None:
    """When a triple holds, with the dates that are known here where it leaves them open; `None`: all is known.

    *rows* of the same triple are in the order of time, and no two of them meet.
    """
    start, end = triple.valid_from, triple.valid_to
    if start is None and end is None:
        is_known = any(each.mentions >= triple.mentions and each.confidence >= triple.confidence for each in rows)
        return None if is_known else rows[-1].span
    if start is not None and end is None:
        within = [each.span.end for each in rows if each.span.begins <= start < each.span.ends]
        later = [each.span.start for each in rows if each.span.begins > start]
        end = next(iter([*within, *later]), None)
    elif start is None and end is not None:
        within = [each.span.start for each in rows if each.span.begins < end <= each.span.ends]
        earlier = [each.span.end for each in reversed(rows) if each.span.ends < end]
        start = next(iter([*within, *earlier]), None)
    return Span(start, end)
