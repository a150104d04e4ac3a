"""What the graph tells of any moment, as it was believed at any moment, is what a plain list of days would tell."""

from __future__ import annotations

import copy
import os
import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.errors import EntityNotFoundError, InvalidInputError
from langmem_adapter.records.graph import Triple
from langmem_adapter.records.results import Decision
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.graph import edits
from langmem_adapter.storage.ledger import Ledger
from langmem_adapter.storage.migrations import prepare
from langmem_adapter.storage.tables import entities, relation_memories, relations, scopes
from langmem_adapter.storage.write import Write
from tests.storage.graph.small_graph import by_hand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Said: TypeAlias = tuple[str, str, str]

LONG: Final = os.environ.get("FAULTS") == "long"
DAYS: Final = 6
BEFORE, AFTER = -1, DAYS  # the day that stands for all earlier ones, and the one for all later
SINGLE: Final = {"lives_in", "married_to"}
SYMMETRIC: Final = {"married_to", "knows"}
OPPOSITES: Final = {"likes": "dislikes", "dislikes": "likes"}
NAMES: Final = ("Ann", "Bea", "Cid")


def limits(short: int, *, long: int) -> settings:
    """How many examples."""
    return settings(
        max_examples=long if LONG else short,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )


def date(day: int) -> datetime:
    return datetime(2020, 1, 1, tzinfo=UTC) + timedelta(days=day)


# ── the list of days ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Known:
    """That something holds on some days, all in a row."""

    said: Said
    days: set[int]


@dataclass
class Days:
    """What is believed, day by day; it knows no intervals."""

    known: list[Known] = field(default_factory=list)

    def at(self, day: int) -> set[Said]:
        return {each.said for each in self.known if day in each.days}

    def state(self, said: Said, since: int | None, until: int | None, today: int) -> None:
        if until is None:
            days = self._forward(said, today if since is None else since)
        elif since is not None or today < until:
            days = set(range(today if since is None else since, until))
        else:
            days = self._backward(said, until)
        self._believe(said, days)

    def over(self, said: Said, day: int) -> None:
        """It holds no longer from a day on."""
        same = [each for each in self.known if each.said == said and min(each.days) <= day]
        for each in same:
            each.days -= set(range(day, AFTER + 1))
        self._tidy()
        if not same:  # it was something: as much of the time before as is not known otherwise
            taken = {held for rival in self._rivals(said) for held in rival.days}
            runs = _runs(set(range(BEFORE, day)) - taken)
            self._believe(said, runs[-1] if runs else set())

    def end(self, known: Known, day: int) -> None:
        known.days -= set(range(day, AFTER + 1))
        self._tidy()

    def merge(self, loser: str, winner: str) -> None:
        moved, self.known = self.known, []
        for each in moved:
            source, relation, target = (winner if part == loser else part for part in each.said)
            if source != target:
                self._join(ordered(source, relation, target), each.days)

    def _forward(self, said: Said, first: int) -> set[int]:
        """From a day until something begins that cannot hold beside it."""
        begins = {min(rival.days) for rival in self._rivals(said)}
        return set(range(first, min((day for day in begins if day > first), default=AFTER + 1)))

    def _backward(self, said: Said, end: int) -> set[int]:
        """The days before one, back to where something ended that cannot hold beside it."""
        ends = {max(rival.days) + 1 for rival in self._rivals(said)}
        return set(range(max((day for day in ends if day < end), default=BEFORE), end))

    def _rivals(self, said: Said) -> list[Known]:
        others = [each for each in self.known if each.said != said]
        source, relation, target = said
        opposite = (source, OPPOSITES.get(relation), target)
        return [each for each in others if each.said == opposite or (relation in SINGLE and _compete(each.said, said))]

    def _believe(self, said: Said, days: set[int]) -> None:
        for rival in self._rivals(said):
            rival.days -= days
        self._tidy()
        if days:
            self._join(said, days)

    def _join(self, said: Said, days: set[int]) -> None:
        near = {day + step for day in days for step in (-1, 0, 1)}
        same = [each for each in self.known if each.said == said and each.days & near]
        self.known = [each for each in self.known if each not in same]
        self.known.append(Known(said, days.union(*(each.days for each in same))))

    def _tidy(self) -> None:
        self.known = [Known(each.said, run) for each in self.known for run in _runs(each.days)]


def _compete(one: Said, other: Said) -> bool:
    if one[1] != other[1]:
        return False
    return bool({one[0], one[2]} & {other[0], other[2]}) if one[1] in SYMMETRIC else one[0] == other[0]


def _runs(days: set[int]) -> list[set[int]]:
    starts = [day for day in sorted(days) if day - 1 not in days]
    ends = [day for day in sorted(days) if day + 1 not in days]
    return [set(range(start, end + 1)) for start, end in zip(starts, ends, strict=True)]


def ordered(source: str, relation: str, target: str) -> Said:
    swapped = relation in SYMMETRIC and source > target
    return (target, relation, source) if swapped else (source, relation, target)


# ── what is done ────────────────────────────────────────────────────────────────────────────────────────────────────────

WHO, NAME, DAY, PLACE = (
    st.sampled_from((0, 0, 0, 1)),
    st.sampled_from(NAMES),
    st.integers(0, DAYS - 1),
    st.integers(0, 9),
)
ENDS = st.sampled_from((("Ann", "Bea"), ("Ann", "Bea"), ("Bea", "Ann"), ("Ann", "Cid"), ("Cid", "Bea"), ("Cid", "Cid")))
RELATION = st.sampled_from(sorted(SINGLE | SYMMETRIC | set(OPPOSITES)))
MAYBE = st.none() | DAY
STEPS: Final = st.lists(
    st.one_of(
        *(
            st.tuples(st.just("state"), WHO, ENDS, RELATION, MAYBE, MAYBE, DAY) for _ in range(6)
        ),  # one alone counts once
        st.tuples(st.just("over"), WHO, ENDS, RELATION, st.booleans(), DAY),
        st.tuples(st.just("end"), WHO, PLACE, DAY),
        st.tuples(st.just("withdraw"), WHO, PLACE),
        st.tuples(st.just("merge"), WHO, NAME, NAME),
        st.tuples(st.just("split"), WHO, NAME),
    ),
    min_size=6,
    max_size=24,
)


class World:
    """Two scopes in a database, and their lists of days."""

    def __init__(self, database: Database) -> None:
        self.ledger = Ledger(database, fingerprint="hash:32/2")
        self.scopes = [Scope(user_id=str(uuid.uuid4())) for _ in range(2)]
        self.days = [Days(), Days()]
        self.names = [{name: name for name in NAMES} for _ in range(2)]  # who has a name
        self.merges: list[list[tuple[str, list[str], tuple[set[Any], Days], int]]] = [[], []]
        self.steps = [0, 0]
        self.ever_merged = [False, False]
        self.saved: list[tuple[datetime, list[Days]]] = []

    def do(self, kind: str, who: int, *rest: Any) -> None:
        self.steps[who] += 1
        getattr(self, kind)(who, *rest)
        self.saved.append((datetime.now(UTC), copy.deepcopy(self.days)))

    def state(
        self, who: int, ends: tuple[str, str], relation: str, since: int | None, until: int | None, today: int
    ) -> None:
        until = None if since is not None and until is not None and since >= until else until
        dated = Triple(ends[0], relation, ends[1], valid_from=_date_or_none(since), valid_to=_date_or_none(until))
        said = self._relate(who, dated, today)
        if said is not None:
            self.days[who].state(said, since, until, today)

    def over(self, who: int, ends: tuple[str, str], relation: str, dated: bool, day: int) -> None:  # noqa: FBT001 - by place
        triple = Triple(ends[0], relation, ends[1], ended=True, valid_to=date(day) if dated else None)
        said = self._relate(who, triple, day)
        if said is None:
            return
        known = any(each.said == said and min(each.days) <= day for each in self.days[who].known)
        if dated and not known:  # then the end was stated, and stands against others
            self.days[who].state(said, None, day, day)
        else:
            self.days[who].over(said, day)

    def end(self, who: int, place: int, day: int) -> None:
        row = self._some(who, place)
        if row is None:
            return
        known = self._known(who, row)
        if max(known.days) < day:
            with pytest.raises(InvalidInputError):
                by_hand(self.ledger, edits.end, row.id, at=date(day))
            return
        by_hand(self.ledger, edits.end, row.id, at=date(day), within=self.scopes[who])
        self.days[who].end(known, day)

    def withdraw(self, who: int, place: int) -> None:
        row = self._some(who, place)
        if row is not None:
            by_hand(self.ledger, edits.withdraw, row.id)
            self.days[who].known.remove(self._known(who, row))

    def merge(self, who: int, name: str, into: str) -> None:
        before = believed(self.rows(who)), copy.deepcopy(self.days[who])
        try:
            by_hand(self.ledger, edits.merge, name, into, within=self.scopes[who])
        except (EntityNotFoundError, InvalidInputError):
            return
        names = self.names[who]
        loser, winner = names[name], names[into]
        theirs = [each for each in NAMES if names[each] == loser]
        names.update(dict.fromkeys(theirs, winner))
        self.days[who].merge(loser, winner)
        self.merges[who].append((loser, theirs, before, self.steps[who]))
        self.ever_merged[who] = True

    def split(self, who: int, name: str) -> None:
        try:
            by_hand(self.ledger, edits.split, name, within=self.scopes[who])
        except EntityNotFoundError:
            assert not any(name in theirs for _, theirs, *_ in self.merges[who])
            return
        merge = next(each for each in reversed(self.merges[who]) if name in each[1])
        self.merges[who].remove(merge)
        loser, theirs, before, step = merge
        self.names[who].update(dict.fromkeys(theirs, loser))
        if step == self.steps[who] - 1:
            then, self.days[who] = before
            assert believed(self.rows(who)) == then
        else:
            self.days[who].known = [Known(_said(row), _days(row)) for row in self.rows(who) if row.retired_at is None]

    # ── what is there ───────────────────────────────────────────────────────────────────────────────────────────────

    def rows(self, who: int) -> list[Any]:
        one, other = entities.alias("one"), entities.alias("other")
        query = (
            select(relations, one.c.name.label("source"), other.c.name.label("target"))
            .join(scopes, scopes.c.id == relations.c.scope_id)
            .join(one, one.c.pk == relations.c.source_pk)
            .join(other, other.c.pk == relations.c.target_pk)
            .where(scopes.c.user_id == self.scopes[who].user_id)
            .order_by(relations.c.pk)
        )
        with self.ledger.database.read() as connection:
            return list(connection.execute(query))

    def _relate(self, who: int, triple: Triple, today: int) -> Said | None:
        self.ledger.relate(self.scopes[who], [triple], time=date(today))
        source, target = self.names[who][triple.source], self.names[who][triple.target]
        return None if source == target else ordered(source, triple.relation, target)

    def _some(self, who: int, place: int) -> Any:
        rows = [row for row in self.rows(who) if row.retired_at is None]
        return rows[place % len(rows)] if rows else None

    def _known(self, who: int, row: Any) -> Known:
        return next(each for each in self.days[who].known if each.said == _said(row) and each.days == _days(row))


def _date_or_none(day: int | None) -> datetime | None:
    return None if day is None else date(day)


def _said(row: Any) -> Said:
    return ordered(row.source, row.relation, row.target)


def _days(row: Any) -> set[int]:
    first = BEFORE if row.valid_from is None else (row.valid_from - date(0)).days
    return set(range(first, AFTER + 1 if row.valid_to is None else (row.valid_to - date(0)).days))


def believed(rows: Sequence[Any]) -> set[tuple[Any, ...]]:
    return {
        (row.id, row.source_pk, row.relation, row.target_pk, row.valid_from, row.valid_to, row.mentions, row.confidence)
        for row in rows
        if row.retired_at is None
    }


# ── what must hold ──────────────────────────────────────────────────────────────────────────────────────────────────────


def check(world: World) -> None:
    both = [world.rows(0), world.rows(1)]
    assert not {row.id for row in both[0]} & {row.id for row in both[1]}
    for who, rows in enumerate(both):
        for known_at, lists in world.saved:
            then = [
                row
                for row in rows
                if row.recorded_at <= known_at < (row.retired_at or datetime.max.replace(tzinfo=UTC))
            ]
            for day in range(BEFORE, AFTER + 1):
                told = [_said(row) for row in then if day in _days(row)]
                assert sorted(told) == sorted(lists[who].at(day)), (who, day)  # as a list: nothing twice
                if not world.ever_merged[who]:
                    assert not [pair for pair in combinations(told, 2) if pair[0][1] in SINGLE and _compete(*pair)]
        check_lives(rows)


def check_lives(rows: Sequence[Any]) -> None:
    lives: defaultdict[str, list[Any]] = defaultdict(list)
    for row in rows:
        lives[row.id].append(row)
        assert row.retired_at is None or row.recorded_at < row.retired_at
        assert row.valid_from is None or row.valid_to is None or row.valid_from < row.valid_to
    for beliefs in lives.values():
        assert len({(row.scope_id, row.relation) for row in beliefs}) == 1
        for earlier, later in pairwise(beliefs):
            assert earlier.retired_at is not None
            assert earlier.retired_at <= later.recorded_at


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def shared(request: pytest.FixtureRequest, shared_url: Callable[[str], str]) -> Iterator[Database]:
    database = Database(shared_url(request.param))
    prepare(database)
    yield database
    database.close()


@given(steps=STEPS)
@limits(25, long=4000)
def test_every_moment_as_known_at_every_moment_is_what_a_list_of_days_tells(
    shared: Database, steps: list[tuple[Any, ...]]
) -> None:
    world = World(shared)
    for step in steps:
        world.do(*step)
    check(world)


# ── memories that say it ────────────────────────────────────────────────────────────────────────────────────────────────

EMBEDDINGS: Final = HashEmbeddings(32)
WORDS = st.sets(st.sampled_from("tea jazz chess opera".split()), min_size=1)
LIVES: Final = st.lists(
    st.one_of(
        *(st.tuples(st.just("add"), WORDS) for _ in range(2)),
        st.tuples(st.just("rewrite"), PLACE, WORDS, st.booleans()),
        st.tuples(st.just("edit"), PLACE, WORDS),
        st.tuples(st.just("delete"), PLACE, st.booleans()),
        st.tuples(st.just("restore"), PLACE, PLACE),
    ),
    min_size=3,
    max_size=20,
)


@dataclass
class Life:
    """A memory: the words of its texts so far, those it says, and those it ever said."""

    texts: list[set[str]]
    says: set[str]
    ever: set[str]
    lives: bool = True


class Memories:
    """The memories of one user, of what she likes."""

    def __init__(self, database: Database) -> None:
        self.scope = Scope(user_id=str(uuid.uuid4()))
        self.ledger = Ledger(database, fingerprint="hash:32/2")
        self.lives: dict[str, Life] = {}
        self.day = 0

    def do(self, kind: str, *rest: Any) -> None:
        self.day += 1
        getattr(self, kind)(*rest)

    def add(self, words: set[str]) -> None:
        memory_id = str(uuid.uuid4())
        self.lives[memory_id] = Life([words], set(words), set(words))
        self._apply("ADD", memory_id, words, words, date(self.day))

    def rewrite(self, place: int, words: set[str], all_of_it: bool) -> None:  # noqa: FBT001 - by place
        memory_id, life = self._some(place, lives=True)
        if life is not None:
            stated = words if all_of_it else set(sorted(words)[:1])
            life.says = (life.says & words) | stated
            life.ever |= stated
            self._apply("UPDATE", memory_id, words, stated, date(self.day))
            life.texts.append(words)

    def edit(self, place: int, words: set[str]) -> None:
        memory_id, life = self._some(place, lives=True)
        if life is not None:
            life.says = life.says if words == life.texts[-1] else life.ever & words
            self._apply("UPDATE", memory_id, words, set(), None)
            life.texts.append(words)

    def delete(self, place: int, by_hand: bool) -> None:  # noqa: FBT001 - by place
        memory_id, life = self._some(place, lives=True)
        if life is not None:
            life.lives, life.says = False, set()
            self._apply("DELETE", memory_id, None, set(), None if by_hand else date(self.day))

    def restore(self, place: int, text: int) -> None:
        memory_id, life = self._some(place, lives=False)
        if life is not None:
            words = life.texts[text % len(life.texts)]
            life.lives, life.says = True, life.ever & words
            life.texts.append(words)
            self._apply("ADD", memory_id, words, set(), date(0))

    def _some(self, place: int, *, lives: bool) -> tuple[str, Life | None]:
        some = [(memory_id, life) for memory_id, life in self.lives.items() if life.lives == lives]
        return some[place % len(some)] if some else ("", None)

    def _apply(
        self, event: Any, memory_id: str, words: set[str] | None, stated: set[str], time: datetime | None
    ) -> None:
        text = None if words is None else f"Likes {' and '.join(sorted(words))}"
        triples = tuple(Triple("user", "likes", word) for word in sorted(stated))
        decision = Decision(event, memory_id, text, time=time, relations=triples)
        vectors = {} if text is None else {text: EMBEDDINGS.vector(text)}
        self.ledger.apply(Write((decision,), scope=self.scope, within=self.scope, vectors=vectors))

    def said(self) -> dict[str, set[str]]:
        """Who says what, among what holds now."""
        links, of = relation_memories.c, relations.c
        query = (
            select(entities.c.name, links.memory_id)
            .join_from(relations, entities, entities.c.pk == of.target_pk)
            .join(scopes, scopes.c.id == of.scope_id)
            .outerjoin(relation_memories, (links.relation_id == of.id) & links.dropped_at.is_(None))
            .where(scopes.c.user_id == self.scope.user_id, of.retired_at.is_(None), of.valid_to.is_(None))
        )
        found: defaultdict[str, set[str]] = defaultdict(set)
        with self.ledger.database.read() as connection:
            for name, memory_id in connection.execute(query):
                found[name].add(memory_id)
        return dict(found)

    def expected(self) -> dict[str, set[str]]:
        found: defaultdict[str, set[str]] = defaultdict(set)
        for memory_id, life in self.lives.items():
            for word in life.says:
                found[word].add(memory_id)
        return dict(found)


TAKEN_IN: Final = [  # what a memory once said was joined with another's, which then was withdrawn
    ("add", {"jazz", "tea"}),
    ("rewrite", 0, {"tea"}, False),
    ("add", {"jazz", "tea"}),
    ("rewrite", 1, {"tea"}, False),
    ("delete", 0, False),
    ("restore", 0, 0),
    ("delete", 0, True),
    ("edit", 0, {"jazz", "tea"}),
]


@example(TAKEN_IN)
@given(steps=LIVES)
@limits(12, long=1500)
def test_a_relation_holds_as_long_as_a_memory_says_it(shared: Database, steps: list[tuple[Any, ...]]) -> None:
    memories = Memories(shared)
    for step in steps:
        memories.do(*step)
        assert memories.said() == memories.expected()
