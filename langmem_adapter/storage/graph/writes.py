"""Writing relations: what decisions and imports state, and which relations end with them.

A relation stands as long as a memory says it. So the judgement about a memory (it is added, rewritten, deleted) is the
judgement about its relations, made once: no model is asked a second time, and the two can never disagree. What spelling and
dates decide is decided here, within the transaction, where nobody can come between: the same triple is one more mention, an
employer ends where the next begins, a late message bounds itself.

They are a copy of what is known there, no statement made now. So nothing is ended or withdrawn for them, not even where
somebody has one such target at a time, and what is known here already only grows: the same triple at the same time is one
relation, which holds as long as either of the two says, and was mentioned as often as the one that counted more. A date that is
left open there changes none that is known here. Taken over twice, nothing changes (a join, in the sense of Shapiro et al.,
Conflict-free Replicated Data Types, 2011; tests/knowledge/test_exchange.py::test_what_was_loaded_once_is_known).
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
from langmem_adapter.storage.graph.rows import Belief, Span, believed
from langmem_adapter.storage.tables import BY_HAND

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import datetime

    from langmem_adapter.records.graph import Relation, Triple
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.graph.rows import GraphRows, Home


@dataclass(frozen=True, slots=True)
class Claims:
    """What one decision says and unsays."""

    home: Home  # the scope of its memory; where it states relations without a memory, their scope
    time: datetime  # the date of the statement
    triples: tuple[Triple, ...] = ()  # what is stated
    memory_id: str | None = None  # by which memory; `None` for relations that are written by hand
    before: str | None = None  # the memory's text before; `None` where it is new
    after: str | None = None  # its text after; `None` where it is deleted
    by_hand: bool = False  # edited or deleted by hand: what it no longer says was never true, instead of being over
    returns: bool = False  # it was there before, and comes back
    successor_id: str | None = None  # the memory that says from now on what this one said
    gap: Span | None = None  # when the memory said something else, or nothing, before it began to say what it says now
    speaker: str = ""  # the named speaker of the memory (`names.named_speaker`), who is not in its text

    @property
    def unsays(self) -> bool:
        """Whether the memory may no longer say what it said, or say again what it did not."""
        changes = self.returns or self.gap is not None or self.before not in {None, self.after}
        return self.memory_id is not None and changes


def normal(triple: Triple) -> Triple:
    """A triple whose relation has the form in which it is kept."""
    return replace(triple, relation=relation_name(triple.relation))


def ends(triple: Triple, scope: Scope) -> tuple[EntityReference, EntityReference]:
    """A triple's two ends."""
    return relation_end(triple.source, scope), relation_end(triple.target, scope)


def relates_two(triple: Triple, scope: Scope) -> bool:
    """Whether its ends are two things; nothing is related to itself."""
    source, target = ends(triple, scope)
    return source.key != target.key


def single(triple: Triple) -> bool:
    """Whether its source has one such target at a time."""
    return is_single(triple.relation) if triple.single is None else triple.single


def dates(triple: Triple, time: datetime) -> tuple[Span, bool, bool]:
    """When a triple holds; whether somebody said since when, and until when."""
    start, stop = triple.valid_from, triple.valid_to
    if triple.ended:
        over = stop or time
        start = start if start is not None and start < over else None
        return Span(start, over), start is not None, stop is not None
    if stop is None or (start is not None and start >= stop):
        return Span(start or time, None), True, False
    since = start or (time if time < stop else None)
    return Span(since, stop), since is not None, True


# ── its text ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def unsaid(said: Claims, belief: Belief | None) -> bool:
    """Whether the memory says no longer what it said; where that is not believed any more, only its end tells."""
    if said.after is None:
        return True
    if belief is None:
        return False
    return any(drops_name(said.before or "", said.after, name) for name in _named(said, belief))


def still_said(said: Claims, text: str | None, belief: Belief) -> bool:
    """Whether a text says what another one said; what that did not say by name is said where both are the same."""
    return said.after == text or all(mentions_whole_name(said.after or "", name) for name in _named(said, belief))


def _named(said: Claims, belief: Belief) -> list[str]:
    """The names by which a text would speak of a relation; a user, an agent or the speaker goes without."""
    speaker = entity_key(said.speaker)
    return [each.name for each in (belief.source, belief.target) if each.owner is None and each.key != speaker]


def carry_out(rows: GraphRows, told: Sequence[Claims], within: Collection[int]) -> list[tuple[RelationChange, ...]]:
    """Carry out what some decisions say and unsay, in order, compared with the relations of some scopes.

    The graph's *rows* are empty, and are posted afterwards. For each decision it gives what became of relations in the end;
    those that gave way come before the one that they gave way to.
    """
    told = [replace(said, triples=tuple(map(normal, said.triples))) for said in told]
    unsaying = [str(said.memory_id) for said in told if said.unsays]
    if unsaying:
        rows.read_sayings(unsaying)
    _look(rows, [_aim(triple, said.home) for said in told for triple in said.triples], within)
    return [_Writer(rows, within).write(said) for said in told]


def end(rows: GraphRows, belief: Belief, at: datetime) -> tuple[RelationChange, ...]:
    """End a relation at a moment; none where it had ended by then."""
    writer = _Writer(rows, ())
    writer.end(belief, at)
    return writer.changes()


def withdraw(rows: GraphRows, beliefs: Sequence[Belief]) -> tuple[RelationChange, ...]:
    """Believe some relations no longer."""
    writer = _Writer(rows, ())
    for belief in beliefs:
        writer.become(belief)
    return writer.changes()


# ── what it may concern ─────────────────────────────────────────────────────────────────────────────────────────────────


class _Aim(NamedTuple):
    """A relation that is about to be written."""

    home: int
    source: str  # as in said.End.key
    relation: str
    target: str
    single: bool


def _aim(triple: Triple, home: Home) -> _Aim:
    source, target = ends(triple, home.scope)
    return _Aim(home.id, source.key, triple.relation, target.key, single(triple))


def _aim_again(belief: Belief) -> _Aim:
    return _Aim(belief.home_id, belief.source.key, belief.relation, belief.target.key, is_single(belief.relation))


def _look(rows: GraphRows, aims: Collection[_Aim], within: Collection[int]) -> None:
    """Read what some relations have to be compared with, and which memories say all that was read."""
    if aims:
        scope_ids = {*within, *(aim.home for aim in aims)}
        rows.read_names(scope_ids, {key for aim in aims for key in (aim.source, aim.target)})
        known = {aim: [[node.pk for node in rows.called[key]] for key in (aim.source, aim.target)] for aim in aims}
        pairs = {(one, other) for sources, targets in known.values() for one in sources for other in targets}
        rows.read_between(pairs | {(other, one) for one, other in pairs})
        _look_for_rivals(rows, {aim: pks for aim, pks in known.items() if aim.single})
    rows.read_support({belief.id for belief in rows.beliefs})


def _look_for_rivals(rows: GraphRows, known: dict[_Aim, list[list[int]]]) -> None:
    mutual = {pk for aim, pks in known.items() if is_symmetric(aim.relation) for each in pks for pk in each}
    sources = {pk for pks in known.values() for pk in pks[0]}
    rows.read_held(sources | mutual, mutual, {aim.relation for aim in known})


# ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Claim(NamedTuple):
    """That a relation holds: the belief it would be, and how far its dates go.

    Where `starts`, somebody said when it began, and where `ends`, when it ended: those dates stand against what is known of
    others, and the rest gives way to it.
    """

    belief: Belief
    starts: bool
    ends: bool
    single: bool


class _Writer:
    """Changes the rows of one write, for one decision."""

    def __init__(self, rows: GraphRows, within: Collection[int]) -> None:
        self._rows = rows
        self._within = within
        self._before: dict[str, Relation | None] = {}  # what was believed of those relations that it touched

    def write(self, said: Claims) -> tuple[RelationChange, ...]:
        """What one decision does."""
        if said.before not in {None, said.after}:
            self._unsay(said)
        if said.gap is not None:
            self._interrupt(said, said.gap)
        if said.returns or (said.by_hand and said.after is not None):
            self._say_again(said)
        for triple in said.triples:
            self._state(triple, said)
        return self.changes()

    def changes(self) -> tuple[RelationChange, ...]:
        """What became of the relations that it touched."""
        told = (self._change(relation_id, before) for relation_id, before in self._before.items())
        return tuple(change for change in told if change is not None)

    def _change(self, relation_id: str, before: Relation | None) -> RelationChange | None:
        belief = self._rows.beliefs.of_id(relation_id)
        if belief is None:  # what this very decision had begun is not worth a word
            return None if before is None else RelationChange("DELETE", replace(before, retired_at=self._rows.now))
        return RelationChange(_event(before, belief.span), self._rows.record(belief))

    def _touch(self, relation_id: str) -> None:
        """Note what is believed of a relation before it is changed; the one that was touched last comes last."""
        if relation_id in self._before:
            self._before[relation_id] = self._before.pop(relation_id)
        else:
            belief = self._rows.beliefs.of_id(relation_id)
            self._before[relation_id] = None if belief is None else self._rows.record(belief)

    # ── a memory no longer says it ──────────────────────────────────────────────────────────────────────────────────

    def _unsay(self, said: Claims) -> None:
        for link in self._rows.sayings(str(said.memory_id)):
            belief = self._rows.beliefs.of_id(link.relation_id)
            if link.dropped_at is not None or not unsaid(said, belief):
                continue
            if belief is not None:
                self._touch(belief.id)
            self._rows.drop(link)
            if belief is None:  # it was withdrawn by hand
                continue
            if said.successor_id is not None:
                self._rows.link(belief, said.successor_id, self._rows.now)
            if self._rows.speakers(belief.id):  # another memory says it, too
                del self._before[belief.id]
            elif said.by_hand:
                self.become(belief)
            else:
                self.end(belief, said.time)

    def _interrupt(self, said: Claims, gap: Span) -> None:
        """What this memory alone says did not hold for a while."""
        for link in self._rows.sayings(str(said.memory_id)):
            belief = self._rows.beliefs.of_id(link.relation_id)
            alone = link.dropped_at is None and belief is not None and len(self._rows.speakers(link.relation_id)) == 1
            if alone and belief is not None and belief.span.overlaps(gap):
                self.become(belief, *belief.span.without(gap))

    def end(self, belief: Belief, at: datetime) -> None:
        """End a relation; it is withdrawn where it would begin then or later."""
        if belief.span.ends > at:
            self.become(belief, *(() if belief.span.begins >= at else (belief.span.until(at),)))

    def become(self, belief: Belief, *spans: Span) -> None:
        """Leave of a belief a shorter span, two of them, or nothing."""
        self._touch(belief.id)
        self._rows.retire(belief)
        for number, span in enumerate(spans):
            part = self._rows.believe(belief, span, relation_id=None if number else belief.id)
            if number:
                self._before[part.id] = None
                self._rows.hand_on(belief.id, part)

    # ── a memory says it again ──────────────────────────────────────────────────────────────────────────────────────

    def _say_again(self, said: Claims) -> None:
        """A memory that comes back says again what it said when it was dropped, as far as its text still does."""
        links = self._rows.sayings(str(said.memory_id))
        back = [link for link in links if link.dropped_at not in {None, self._rows.now}]
        if not back:
            return
        texts = self._rows.texts(str(said.memory_id))
        once = self._rows.last_retired([link.relation_id for link in back])
        _look(self._rows, [_aim_again(belief) for belief in once.values()], self._within)
        for link in back:
            belief = once.get(link.relation_id) or self._rows.beliefs.of_id(link.relation_id)
            if belief is not None and link.dropped_at in texts and still_said(said, texts[link.dropped_at], belief):
                self._return(belief, said)

    def _return(self, once: Belief, said: Claims) -> None:
        """Believe again what was retired when the last memory dropped it; what was retired otherwise stays so."""
        dropped = {link.dropped_at for link in self._rows.links[once.id].values()} - {None}
        if once.retired_at in dropped:
            source, target = map(self._rows.current, (once.source, once.target))
            claim = replace(once, source=source, target=target, retired_at=None, changed=False)
            self._place(_Claim(claim, once.span.start is not None, ends=False, single=is_single(once.relation)), said)
            return
        standing = self._rows.beliefs.of_id(once.id)
        if standing is not None:
            self._say(standing, said)
            return
        # It may have been joined with another of the same kind while nobody said it, and that dropped in its turn.
        joined = [belief for belief in self._same(once) if belief.span.meets(once.span)]
        retired = self._rows.last_retired([belief.id for belief in joined])
        for belief in joined:
            self._return(retired.get(belief.id, belief), said)

    # ── a memory says it ────────────────────────────────────────────────────────────────────────────────────────────

    def _state(self, triple: Triple, said: Claims) -> None:
        if not relates_two(triple, said.home.scope):
            return
        one, other = ends(triple, said.home.scope)
        source = self._rows.node(said.home, one, triple.source_type, said.time)
        target = self._rows.node(said.home, other, triple.target_type, said.time)
        if source is target:  # they were merged: it is nobody's relation to himself
            return
        span, starts, finishes = dates(triple, said.time)
        belief = believed(said.home, source, triple, target, span, self._rows.now)
        claim = _Claim(belief, starts, finishes, single(triple))
        if triple.ended:
            self._state_end(claim, said)
        else:
            self._place(claim, said)

    def _state_end(self, claim: _Claim, said: Claims) -> None:
        """It is said that something is over: it ends, and what was not known of it is written down."""
        over = claim.belief.span.ends
        same = [belief for belief in self._same(claim.belief) if belief.span.meets(claim.belief.span)]
        for belief in same:
            if belief.span.begins <= over:
                self.end(belief, over)
        if not same or claim.starts:
            self._place(claim, said)

    def _place(self, claim: _Claim, said: Claims) -> None:
        """Give a claim its place among what is believed."""
        rivals = self._rivals(claim)
        spans = [rival.span for rival in rivals if not _made_way(rival, claim, said)]
        span = claim.belief.span.giving_way(spans, at_start=not claim.starts, at_end=not claim.ends)
        if span is None:
            return
        for rival in rivals:
            if rival.span.overlaps(span):
                self.become(rival, *rival.span.without(span))
        same = [belief for belief in self._same(claim.belief) if belief.span.meets(span)]
        here = [belief for belief in same if belief.home_id == claim.belief.home_id] or same[:1]
        if here:
            self._mention(here, claim.belief, span, said)
        else:
            id_ = claim.belief.id  # of what comes back; its relation may have been believed again meanwhile
            added = self._rows.believe(claim.belief, span, relation_id=None if self._rows.beliefs.of_id(id_) else id_)
            self._before[added.id] = None
            self._say(added, said)

    def _mention(self, same: Sequence[Belief], claim: Belief, span: Span, said: Claims) -> None:
        """What is said is believed already, at least in part."""
        first, *more = same
        for belief in same:
            span = span.joined(belief.span)
            self._touch(belief.id)
        self._touch(first.id)
        again = 0 if claim.id else 1  # what comes back was counted when it was said
        first.mentions, first.changed = sum(belief.mentions for belief in same) + again, True
        first.confidence = max(claim.confidence, *(belief.confidence for belief in same))
        self._say(first if not more and first.span == span else self._rows.join(same, span), said)

    def _say(self, belief: Belief, said: Claims) -> None:
        self._touch(belief.id)
        if said.memory_id is None:
            self._rows.link(belief, BY_HAND, self._rows.now)
        elif said.after is not None:
            self._rows.link(belief, said.memory_id, self._rows.now)

    # ── what it is compared with ────────────────────────────────────────────────────────────────────────────────────

    def _same(self, claim: Belief) -> list[Belief]:
        return self._between(claim, claim.relation)

    def _rivals(self, claim: _Claim) -> list[Belief]:
        """What cannot hold beside it."""
        belief = claim.belief
        opposite = opposite_relation(belief.relation)
        rivals = [] if opposite is None else self._between(belief, opposite)
        if claim.single:
            mutual = is_symmetric(belief.relation)
            holders = [*self._rows.equals(belief.source), *(self._rows.equals(belief.target) if mutual else ())]
            held = self._near(belief, self._rows.beliefs.held_by(holders, belief.relation, mutual=mutual))
            same = {each.pk for each in self._same(belief)}
            rivals += [each for each in held if each.pk not in same]
        return rivals

    def _between(self, claim: Belief, relation: str) -> list[Belief]:
        sources, targets = self._rows.equals(claim.source), self._rows.equals(claim.target)
        return self._near(claim, self._rows.beliefs.between(sources, relation, targets))

    def _near(self, claim: Belief, beliefs: Iterable[Belief]) -> list[Belief]:
        scopes = {*self._within, claim.home_id}
        return [belief for belief in beliefs if belief.home_id in scopes]


def _made_way(rival: Belief, claim: _Claim, said: Claims) -> bool:
    """Whether this very write ended it when a claim was said that goes on: the claim may have begun before that was told."""
    return rival.new and rival.span.end == said.time < claim.belief.span.ends


def _event(before: Relation | None, after: Span) -> RelationEvent:
    if before is None:
        return "ADD"
    was = Span(before.valid_from, before.valid_to)
    return "END" if after.ends < was.ends else "NONE" if after == was else "UPDATE"


Ends: TypeAlias = "tuple[EntityReference, EntityReference]"
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
