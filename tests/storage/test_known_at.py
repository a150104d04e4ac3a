"""What was known at a moment is what a reader was shown at that moment."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select, update

from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.filters import parse_filter
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.results import Decision
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage.ledger import Ledger
from langmem_adapter.storage.memories import AsOf, current_vectors, memories_as_of, page, page_as_of
from langmem_adapter.storage.tables import history
from langmem_adapter.storage.write import Write

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

    from langmem_adapter.records.results import MemoryItem
    from langmem_adapter.storage.database import Database

ALICE = Scope(user_id="alice")


class Diary:
    """Writes memories of one scope, and notes what a reader saw when."""

    def __init__(self, database: Database, scope: Scope = ALICE) -> None:
        self.database = database
        self.scope = scope
        self._ledger = Ledger(database, fingerprint="hash:64/1")

    def apply(self, *decisions: Decision) -> datetime:
        texts = {decision.text for decision in decisions if decision.text is not None}
        vectors = {text: HashEmbeddings(64).vector(text) for text in texts}
        self._ledger.apply(Write(decisions, scope=self.scope, vectors=vectors))
        return datetime.now(UTC)

    def add(self, text: str, **fields: Any) -> str:
        memory_id = str(uuid.uuid4())
        self.apply(Decision("ADD", memory_id, text, **fields))
        return memory_id

    def now(self, **how: Any) -> list[MemoryItem]:
        with self.database.read() as connection:
            return page(connection, self.scope, k=10_000, **how)[0]

    def at(self, moment: datetime, scope: Scope | None = None, **how: Any) -> list[MemoryItem]:
        with self.database.read() as connection:
            return [
                known.item for known in memories_as_of(connection, scope or self.scope, AsOf(known_at=moment), **how)
            ]


@pytest.fixture
def diary(database: Database) -> Diary:
    return Diary(database)


def test_known_at_leaves_out_expired_memories(diary: Diary) -> None:
    now = datetime.now(UTC)
    short = diary.add("Is in a meeting", expires_at=now + timedelta(hours=1), keep_expiry=False)
    after_add = datetime.now(UTC)
    assert [item.id for item in diary.at(after_add)] == [short]
    assert diary.at(now + timedelta(hours=1)) == []
    diary.apply(Decision("UPDATE", short, None, keep_expiry=False))
    assert [item.id for item in diary.at(now + timedelta(hours=1))] == [short]
    assert [item.expires_at for item in diary.at(after_add)] == [now + timedelta(hours=1)]


def test_known_at_stays_within_its_scope(diary: Diary) -> None:
    other = Diary(diary.database, Scope(user_id="Alice"))
    part = Diary(diary.database, Scope(user_id="alice", run_id="1"))
    for each in (diary, other, part):
        each.add(f"Said in {each.scope}")
    now = datetime.now(UTC)
    assert diary.at(now) == diary.now()
    assert len(diary.at(now)) == 2
    assert part.at(now) == part.now()
    assert other.at(now) == other.now()


def test_known_at_filters_read_the_memory_as_it_was(diary: Diary) -> None:
    home = diary.add("Lives in Oslo", metadata={"city": "Oslo"}, memory_type="fact", actor_id="alice")
    diary.add("Has a cat")
    first = datetime.now(UTC)
    diary.apply(Decision("UPDATE", home, "Lives in Rome", metadata={"city": "Rome"}))
    for filters in ({"city": "Oslo"}, {"text": {"icontains": "oslo"}}, {"metadata.city": "Oslo", "actor_id": "alice"}):
        assert [item.id for item in diary.at(first, filters=parse_filter(filters))] == [home]
        assert diary.at(datetime.now(UTC), filters=parse_filter(filters)) == []
    assert [item.id for item in diary.at(first, memory_type="fact")] == [home]
    assert diary.at(first, memory_type="other") == []


def test_current_vectors_has_those_of_unchanged_texts(diary: Diary) -> None:
    stays, changes, goes = (diary.add(text) for text in ("Likes tea", "Lives in Oslo", "Has a cat"))
    moment = datetime.now(UTC)
    diary.apply(Decision("UPDATE", changes, "Lives in Rome"), Decision("DELETE", goes, None))
    with diary.database.read() as connection:
        found = memories_as_of(connection, ALICE, AsOf(known_at=moment))
        vectors = current_vectors(connection, found)
    pks = {known.item.id: known.pk for known in found}
    assert set(pks) == {stays, changes, goes}
    assert list(vectors) == [pks[stays]]
    np.testing.assert_array_equal(vectors[pks[stays]], HashEmbeddings(64).vector("Likes tea"))


@pytest.mark.parametrize("filtered", [False, True])
def test_page_as_of_has_everything_once_in_the_order_of_page(diary: Diary, *, filtered: bool) -> None:
    start = datetime.now(UTC)
    ids = [
        diary.add(
            f"fact {n}",
            time=start + timedelta(seconds=n * n % 7),
            metadata={"odd": n % 2},
            expires_at=start if n == 3 else None,
            keep_expiry=False,
        )
        for n in range(20)
    ]
    filters = parse_filter({"odd": 1} if filtered else None)
    moment, whole, with_expired = datetime.now(UTC), diary.now(filters=filters), diary.now(include_expired=True)
    diary.apply(*(Decision("UPDATE", memory_id, "changed") for memory_id in ids[:10]))
    diary.apply(*(Decision("DELETE", memory_id, None) for memory_id in ids[5:]))
    seen: list[MemoryItem] = []
    after: str | None = None
    with diary.database.read() as connection:
        for _ in range(10):
            items, after = page_as_of(connection, ALICE, AsOf(known_at=moment), k=3, after=after, filters=filters)
            seen += items
            if after is None:
                break
        assert page_as_of(connection, ALICE, AsOf(known_at=moment), k=100, include_expired=True) == (with_expired, None)
        with pytest.raises(InvalidInputError, match="cursor"):
            page_as_of(connection, ALICE, AsOf(known_at=moment), k=3, after="nonsense")
    assert seen == whole
    assert len(whole) == (9 if filtered else 19)


# ── any life of any memories ──────────────────────────────────────────────────────────────────────────────────────────

TEXTS = st.sampled_from(["Likes tea", "Likes coffee", "Lives in Oslo"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), TEXTS, st.integers(-2, 2)),
        st.tuples(st.just("update"), TEXTS, st.integers(0, 5)),
        st.tuples(st.just("describe"), TEXTS, st.integers(0, 5)),
        st.tuples(st.just("delete"), TEXTS, st.integers(0, 5)),
        st.tuples(st.just("restore"), TEXTS, st.integers(0, 5)),
        st.tuples(st.just("clear"), TEXTS, st.just(0)),
    ),
    min_size=2,
    max_size=8,
)


@pytest.fixture
def memory(database_url: str) -> Iterator[Memory]:
    with Memory(database_url) as opened:
        yield opened


def _step(memory: Memory, user: str, ids: list[str], step: tuple[str, str, int]) -> None:
    word, text, number = step
    living = [item.id for item in memory.get_all(user_id=user)]
    if word == "add":
        time = datetime.now(UTC) + timedelta(days=number)
        added = memory.add(text, user_id=user, infer=False, timestamp=time, metadata={"n": number})
        ids.extend(str(change.id) for change in added.results)
    elif word == "clear":
        memory.delete_all(user_id=user)
    elif word == "restore" and ids:
        memory_id = ids[number % len(ids)]
        kept = [revision for revision in memory.history(memory_id) if revision.new_text is not None]
        memory.restore(memory_id, kept[number % len(kept)].revision)
    elif living and word in {"update", "describe", "delete"}:
        memory_id = living[number % len(living)]
        changes: dict[str, Any] = {"update": {"text": text}, "describe": {"metadata": {"n": number}}}
        memory.delete(memory_id) if word == "delete" else memory.update(memory_id, **changes[word])


@given(steps=STEPS)
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_known_at_equals_what_get_all_returned_then(memory: Memory, steps: list[tuple[str, str, int]]) -> None:
    user, ids = uuid.uuid4().hex, list[str]()
    shown = [(datetime.now(UTC), tuple(memory.get_all(user_id=user)))]
    for step in steps:
        _step(memory, user, ids, step)
        shown.append((datetime.now(UTC), tuple(memory.get_all(user_id=user))))
    with memory.parts.database.read() as connection:
        for moment, items in shown:
            assert (
                tuple(known.item for known in memories_as_of(connection, Scope(user_id=user), AsOf(known_at=moment)))
                == items
            )
            assert tuple(page_as_of(connection, Scope(user_id=user), AsOf(known_at=moment), k=100)[0]) == items


@given(steps=STEPS, clocks=st.lists(st.integers(0, 3), min_size=8, max_size=8))
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_known_at_works_where_clocks_of_writers_disagree(
    memory: Memory, steps: list[tuple[str, str, int]], clocks: list[int]
) -> None:
    user, ids, start = uuid.uuid4().hex, list[str](), datetime(2024, 1, 1, tzinfo=UTC)
    for step in steps:
        _step(memory, user, ids, step)

    def spoil(connection: Connection) -> None:
        seqs = connection.execute(select(history.c.seq).where(history.c.memory_id.in_(ids)).order_by(history.c.seq))
        for number, seq in enumerate(seqs.scalars().all()):
            recorded = start + timedelta(hours=clocks[number % len(clocks)])
            connection.execute(update(history).where(history.c.seq == seq).values(recorded_at=recorded))

    memory.parts.database.write(spoil)
    for hour in range(4):
        moment, known = start + timedelta(hours=hour), dict[str, str | None]()
        for memory_id in ids:
            written = [each for each in memory.history(memory_id) if each.created_at <= moment]
            if written and not written[-1].is_deleted:
                known[memory_id] = written[-1].new_text
        first = memory.get_all(user_id=user, known_at=moment, k=1)
        rest = memory.get_all(user_id=user, known_at=moment, after=first.next) if first.next else []
        assert {item.id: item.text for item in (*first, *rest)} == known
        assert {hit.id: hit.text for hit in memory.search("tea", user_id=user, known_at=moment)} == known
