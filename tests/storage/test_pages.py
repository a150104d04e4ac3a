"""Pages: whatever their sizes, they hold everything once, in one order."""

from __future__ import annotations

import base64
import json
import uuid
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.filters import parse_filter
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.results import Decision
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.ledger import Ledger
from langmem_adapter.storage.memories import page
from langmem_adapter.storage.migrations import prepare
from langmem_adapter.storage.write import Write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from langmem_adapter.records.results import MemoryItem

ALICE = Scope(user_id="alice")
START = datetime(2024, 1, 1, tzinfo=UTC)


def _filled(database: Database) -> Database:
    vector = HashEmbeddings(64).vector("fact")
    ledger = Ledger(database, fingerprint="hash:64/1")
    for scope, count in ((ALICE, 40), (Scope(user_id="bob"), 5)):
        decisions = tuple(
            Decision(
                "ADD",
                str(uuid.uuid4()),
                f"fact {n}",
                metadata={"odd": n % 2},
                time=START + timedelta(microseconds=n * n % 11),  # many of them at the same moment
                expires_at=START if n == 7 else None,
                keep_expiry=False,
            )
            for n in range(count)
        )
        ledger.apply(Write(decisions, scope=scope, vectors={f"fact {n}": vector for n in range(count)}))
    return database


@pytest.fixture(scope="module")
def crowd() -> Iterator[Database]:
    database = Database(":memory:")
    prepare(database)
    yield _filled(database)
    database.close()


@given(
    sizes=st.lists(st.integers(1, 45), min_size=1, max_size=5), odd=st.none() | st.integers(0, 2), late=st.booleans()
)
def test_page_of_any_size_has_everything_once_in_order(
    crowd: Database, sizes: list[int], odd: int | None, *, late: bool
) -> None:
    filters = parse_filter(None if odd is None else {"odd": odd})
    seen: list[MemoryItem] = []
    after: str | None = None
    with crowd.read() as connection:
        whole, following = page(connection, ALICE, k=10_000, filters=filters, include_expired=late)
        for turn in range(100):
            size = sizes[turn % len(sizes)]
            items, after = page(connection, ALICE, k=size, after=after, filters=filters, include_expired=late)
            assert len(items) == size or after is None
            seen += items
            if after is None:
                break
    assert following is None
    assert seen == whole
    assert len(whole) == {None: 40, 0: 20, 1: 20, 2: 0}[odd] - (not late and odd in {None, 1})
    assert [item.created_at for item in whole] == sorted((item.created_at for item in whole), reverse=True)


def test_page_is_stable_while_memories_are_added(database: Database) -> None:
    _filled(database)
    with database.read() as connection:
        first, after = page(connection, ALICE, k=10)
        whole, _ = page(connection, ALICE, k=100)
    newest = Decision("ADD", str(uuid.uuid4()), "fact 1", time=START + timedelta(days=1))
    vectors = {"fact 1": HashEmbeddings(64).vector("fact")}
    Ledger(database, fingerprint="hash:64/1").apply(Write((newest,), scope=ALICE, vectors=vectors))
    with database.read() as connection:
        rest, _ = page(connection, ALICE, k=100, after=after)
    assert first + rest == whole


@given(st.text(max_size=40))
def test_a_cursor_of_somebody_else_is_refused(crowd: Database, cursor: str) -> None:
    with crowd.read() as connection, pytest.raises(InvalidInputError, match="cursor"):
        page(connection, ALICE, k=3, after=cursor)


@pytest.mark.parametrize(
    "cursor", ["bnVsbA==", "WzFd", "WyIyMDI0IiwgMSwgMl0=", "eyJhIjogMX0=", "WzEsIDJd", "WyJcdWQ4MDAiLCAxXQ=="]
)
def test_json_that_is_no_cursor_is_refused_too(crowd: Database, cursor: str) -> None:
    with crowd.read() as connection, pytest.raises(InvalidInputError, match="cursor"):
        page(connection, ALICE, k=3, after=cursor)


def test_a_cursor_works_only_on_what_one_may_see(crowd: Database) -> None:
    with crowd.read() as connection:
        _, after = page(connection, ALICE, k=1)
        items, _ = page(connection, Scope(user_id="bob"), k=100, after=after)
    assert {item.scope for item in items} == {Scope(user_id="bob")}


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_no_forged_cursor_is_more_than_no_cursor(shared_url: Callable[[str], str], kind: str) -> None:
    with Memory(shared_url(kind), embeddings="hash:64") as memory:
        memory.add("I live in Lyon.", user_id="a")
        reads: list[Callable[..., object]] = [
            memory.get_all,
            partial(memory.get_all, known_at=START),
            memory.graph.relations,
            memory.graph.entities,
        ]
        date = "2024-01-01 00:00:00+00:00"
        for number in (2**63, -(2**63) - 1, 10**30, 1e300, float("inf"), True):
            for place in ([date, number], [number], [number, 1], [1, number], [date, str(number)]):
                for read in reads:
                    with pytest.raises(InvalidInputError, match="cursor"):
                        read(user_id="a", after=_cursor(place))
        for number in (2**63 - 1, 1 - 2**63):
            memory.get_all(user_id="a", after=_cursor([date, number]))
            memory.graph.entities(user_id="a", after=_cursor([number, number]))


def _cursor(place: Sequence[object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()
