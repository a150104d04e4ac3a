"""`as_of` and `known_at`: the history against a list of dated statements; statements that are added late."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.errors import ConflictError, InvalidInputError, MemoryNotFoundError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.results import Change, Decision, Event
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage import memories
from langmem_adapter.storage.ledger import Ledger
from langmem_adapter.storage.memories import AsOf, page_as_of
from langmem_adapter.storage.write import Write

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langmem_adapter.records.results import MemoryItem
    from langmem_adapter.storage.database import Database

TEXTS = "Lives in Lyon", "Lives in Oslo", "Lives in Rome"
DAYS = 9


def day(number: int) -> datetime:
    return datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=number)


@dataclass
class Told:
    """One statement, or an end (a text of `None`), as it was told."""

    date: datetime
    text: str | None


@dataclass
class Home:
    """A course: what was told of it, in this order, and whether it stands."""

    told: list[Told] = field(default_factory=list)
    lives: bool = True

    def at(self, moment: datetime | None = None) -> tuple[str, datetime, datetime] | None:
        begun = [told for told in self.told if moment is None or told.date <= moment]
        last = max(enumerate(begun), key=lambda each: (each[1].date, each[0]), default=(0, None))[1]
        if last is None or last.text is None:
            return None
        return last.text, min(told.date for told in self.told if told.text is not None), last.date

    @property
    def last(self) -> datetime:
        return max(told.date for told in self.told)


class World:
    """One user's homes, in a database and as lists."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.scope = Scope(user_id=str(uuid.uuid4()))
        self.ledger = Ledger(database, fingerprint="hash:32/2")
        self.homes: dict[str, Home] = {}
        self.closed: list[str] = []
        self.saved: list[tuple[datetime, dict[str, list[Told]]]] = []

    def do(self, kind: str, place: int, text: str, number: int) -> None:
        living = [memory_id for memory_id, home in self.homes.items() if home.lives]
        if kind == "add":
            self.begin(str(uuid.uuid4()), day(number), text)
        elif kind == "restore":
            self.restore(place)
        elif living:
            getattr(self, kind)(living[place % len(living)], text, day(number))
        now = datetime.now(UTC)
        self.saved.append((now, {memory_id: list(home.told) for memory_id, home in self.homes.items()}))

    def begin(self, memory_id: str, date: datetime, text: str) -> None:
        self.homes[memory_id] = Home([Told(date, text)])
        self.apply("ADD", memory_id, text, time=date)

    def tell(self, memory_id: str, text: str, date: datetime) -> None:
        """As whoever compares does: what is newer changes the memory, what is older takes its place before."""
        home = self.homes[memory_id]
        if date >= home.last:
            self.apply("UPDATE", memory_id, text, time=date)
        else:
            change = self.apply("ADD", None, text, past_of=memory_id, time=date)
            if Told(date, text) in home.told:
                assert change.event == "NONE"
                return
            assert change.valid_to == min(told.date for told in home.told if told.date > date)
            self.closed.append(str(change.id))
        home.told.append(Told(date, text))

    def repeat(self, memory_id: str, _: str, date: datetime) -> None:
        home = self.homes[memory_id]
        standing = home.at()
        assert standing is not None
        self.apply("NONE", memory_id, standing[0], time=date, dated=True)
        if Told(date, standing[0]) not in home.told:
            home.told.append(Told(date, standing[0]))

    def end(self, memory_id: str, _: str, date: datetime) -> None:
        home = self.homes[memory_id]
        if date < home.last:
            change = self.apply("DELETE", memory_id, None, past_of=memory_id, time=date)
            assert change.valid_to == (date if change.event == "DELETE" else None)
        else:
            self.apply("DELETE", memory_id, None, time=date)
            home.lives = False
        home.told.append(Told(date, None))

    def edit(self, memory_id: str, text: str, _: datetime) -> None:
        self.apply("UPDATE", memory_id, text)
        self.homes[memory_id].told.append(Told(self.item(memory_id).updated_at, text))

    def delete(self, memory_id: str, *_: Any) -> None:
        self.apply("DELETE", memory_id, None)
        with self.database.read() as connection:
            gone = memories.revisions(connection, memory_id)[-1]
        self.homes[memory_id].told.append(Told(gone.valid_from, None))
        self.homes[memory_id].lives = False

    def restore(self, place: int) -> None:
        gone = [memory_id for memory_id, home in self.homes.items() if not home.lives] + self.closed
        if not gone:
            return
        memory_id = gone[place % len(gone)]
        self.apply("ADD", memory_id, TEXTS[0])
        home = self.homes.setdefault(memory_id, Home())
        home.told.append(Told(self.item(memory_id).updated_at, TEXTS[0]))
        home.lives = True
        self.closed = [each for each in self.closed if each != memory_id]

    def apply(self, event: Event, memory_id: str | None, text: str | None, **how: Any) -> Change:
        vectors = {} if text is None else {text: HashEmbeddings(32).vector(text)}
        decision = Decision(event, memory_id, text, **how)
        return self.ledger.apply(Write((decision,), scope=self.scope, within=self.scope, vectors=vectors))[0]

    def item(self, memory_id: str) -> MemoryItem:
        with self.database.read() as connection:
            return memories.get(connection, memory_id, self.scope)

    def seen(self, **when: Any) -> list[tuple[str, datetime, datetime]]:
        with self.database.read() as connection:
            if when:
                items = page_as_of(connection, self.scope, AsOf(**when), k=100)[0]
            else:
                items = memories.page(connection, self.scope, k=100)[0]
        return sorted((item.text, item.created_at, item.updated_at) for item in items)


def expected(homes: dict[str, list[Told]], moment: datetime | None = None) -> list[tuple[str, datetime, datetime]]:
    return sorted(found for told in homes.values() if (found := Home(told).at(moment)) is not None)


STEPS = st.lists(
    st.tuples(
        st.sampled_from("add tell tell tell tell repeat repeat end edit delete restore".split()),
        st.integers(0, 5),
        st.sampled_from(TEXTS),
        st.integers(0, DAYS),
    ),
    min_size=3,
    max_size=14,
)


@given(steps=STEPS)
@settings(max_examples=5)
def test_as_of_and_known_at_equal_a_list_of_dated_statements(shared_database: Database, steps: list[Any]) -> None:
    world = World(shared_database)
    for step in steps:
        world.do(*step)
        assert world.seen() == expected(world.saved[-1][1])
    for known_at, homes in world.saved:
        assert world.seen(known_at=known_at) == expected(homes)
        for number in range(-1, DAYS + 2, 2):
            assert world.seen(as_of=day(number), known_at=known_at) == expected(homes, day(number))
    for number in range(-1, DAYS + 1):
        assert world.seen(as_of=day(number)) == expected(world.saved[-1][1], day(number))


STATEMENTS = st.lists(
    st.tuples(st.integers(0, DAYS), st.sampled_from(TEXTS)), min_size=2, max_size=5, unique_by=lambda x: x[0]
)


@given(statements=STATEMENTS, order=st.randoms(use_true_random=False))
@settings(max_examples=6)
def test_as_of_does_not_depend_on_the_order_of_statements(
    shared_database: Database, statements: list[Any], order: Any
) -> None:
    shuffled = order.sample(statements, len(statements))
    worlds = []
    for told in (sorted(statements), shuffled):
        world, (first, *rest) = World(shared_database), told
        worlds.append(world)
        world.do("add", 0, first[1], first[0])
        for number, text in rest:
            [(standing, *_)] = world.seen()
            world.do("repeat" if text == standing else "tell", 0, text, number)
    one, other = worlds
    assert one.seen() == other.seen()
    for number in range(DAYS + 1):
        assert one.seen(as_of=day(number)) == other.seen(as_of=day(number))


# ── late statements through `Memory` ─────────────────────────────────────────────────────────────────────────────────


def year(number: int) -> datetime:
    return datetime(number, 5, 1, tzinfo=UTC)


@pytest.fixture
def memory(database_url: str) -> Iterator[Memory]:
    with Memory(database_url) as opened:
        yield opened


def apply(memory: Memory, *decisions: Decision, **options: Any) -> tuple[Change, ...]:
    embed = memory.parts.embedder.vectors
    texts = [decision.text for decision in decisions if decision.text and decision.past_of is None]
    vectors = dict(zip(texts, embed(texts), strict=True))
    return memory.parts.ledger.apply(Write(decisions, **{"scope": Scope("ann"), "vectors": vectors, **options}))


def home_of(memory: Memory) -> str:
    added = memory.add("Lives in Oslo", user_id="ann", infer=False, timestamp=year(2026))
    return str(added.results[0].id)


def late(home: str, text: str = "Lives in Kyoto", when: int = 2020, **more: Any) -> Decision:
    return Decision("ADD", None, text, "told late", time=year(when), past_of=home, **more)


def texts(memory: Memory, **when: Any) -> list[str]:
    return [item.text for item in memory.get_all(user_id="ann", **when)]


def test_as_of_finds_a_late_statement_only_in_its_time(memory: Memory) -> None:
    home = home_of(memory)
    (change,) = apply(memory, late(home, metadata={"from": "a letter"}, actor_id="Bob"))
    assert (change.event, change.text, change.reason) == ("ADD", "Lives in Kyoto", "told late")
    assert change.valid_to == year(2026)
    assert Change.from_json(change.to_json()) == change
    assert texts(memory) == ["Lives in Oslo"]
    assert texts(memory, as_of=year(2019)) == []
    [then] = memory.get_all(user_id="ann", as_of=year(2021), filters={"from": "a letter"})
    assert (then.id, then.text, then.actor_id) == (change.id, "Lives in Kyoto", "Bob")
    assert [hit.text for hit in memory.search("Kyoto", user_id="ann", as_of=year(2021))] == ["Lives in Kyoto"]
    assert [hit.text for hit in memory.search("Kyoto", user_id="ann")] == ["Lives in Oslo"]
    with pytest.raises(MemoryNotFoundError):
        memory.get(str(change.id))


def test_search_finds_a_memory_by_the_date_of_a_late_statement(memory: Memory) -> None:
    home = home_of(memory)
    seen = memory.search("May 2020", user_id="ann", explain=True)[0].explanation
    apply(memory, late(home))
    item = memory.get(home)
    assert (item.created_at, item.updated_at, item.revision) == (year(2020), year(2026), 1)
    found = memory.search("May 2020", user_id="ann", explain=True)[0].explanation
    assert seen is not None and found is not None
    assert found.words > seen.words
    assert memory.verify().ok


def test_restore_does_not_begin_before_the_deletion(memory: Memory) -> None:
    added = memory.add("Lives in Oslo", user_id="ann", infer=False, timestamp=year(2100))
    home = str(added.results[0].id)
    memory.update(home, metadata={"seen": True})
    memory.delete(home)
    memory.restore(home, 2)
    assert [revision.valid_from for revision in memory.history(home)] == [year(2100)] * 4
    assert memory.get_all(user_id="ann", known_at=year(2099)).items == memory.get_all(user_id="ann").items


def test_past_of_is_compared_with_seen(memory: Memory) -> None:
    home = home_of(memory)
    seen = memory.history(home)[-1].seq
    apply(memory, late(home, seen=seen))
    with pytest.raises(ConflictError):
        apply(memory, late(home, "Lives in Nara", 2021, seen=seen))
    with pytest.raises(MemoryNotFoundError):
        apply(memory, late(home), within=Scope("bob"))
    with pytest.raises(MemoryNotFoundError):
        apply(memory, late("nobody"))


@pytest.mark.parametrize("when", [2026, 2027])
def test_past_of_refuses_a_statement_that_is_not_older(memory: Memory, when: int) -> None:
    home = home_of(memory)
    for decision in (late(home, when=when), Decision("DELETE", home, None, past_of=home, time=year(when))):
        with pytest.raises(InvalidInputError, match="not before the last statement"):
            apply(memory, decision)
    with pytest.raises(InvalidInputError, match="date"):
        apply(memory, Decision("ADD", None, "Lives in Kyoto", past_of=home))
