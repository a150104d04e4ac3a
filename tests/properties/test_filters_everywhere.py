"""Every index and both databases give exactly what a plain filter over all memories gives, in the same order."""

from __future__ import annotations

import os
import random
import uuid
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_qdrant import QdrantVectorStore
from qdrant_client import QdrantClient, models

from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.filters import TIMES
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.results import Decision
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage.write import Write
from tests.filter_language import FIELD_TEXTS, FIELD_TIMES, KEYS, MEMORY_FILTERS, SAMPLES, START, dollars, holds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from langchain_core.vectorstores import VectorStore

    from langmem_adapter.records.results import MemoryItem

ALICE = Scope(user_id="alice")
SCOPES = (ALICE, Scope(user_id="alice", run_id="1"), Scope(user_id="alice", agent_id="bot", run_id="Alice"))
OTHERS = (Scope(user_id="Alice"), Scope(user_id="alice*"), Scope(agent_id="bot"))
WORDS = "tea coffee Oslo Rome cat dog red blue one two three 茶 猫 Straße".split()
DIMENSIONS = 64
QUERIES = ("red cat in Oslo", "tea", "who has a 猫?", "no word of this: zyzzyva")

# ── the same memories everywhere ──────────────────────────────────────────────────────────────────────────────────────


@cache
def _decisions() -> list[tuple[Scope, Decision]]:
    dice = random.Random(4)
    made = []
    for number in range(70):
        metadata = {key: dice.choice(SAMPLES) for key in dice.sample(KEYS, dice.randint(0, 5))}
        if number % 5 == 0:
            metadata["role"] = dice.choice(["boss", "user"])
        decision = Decision(
            "ADD",
            str(uuid.UUID(int=dice.getrandbits(128), version=4)),
            f"{' '.join(dice.sample(WORDS, dice.randint(1, 5)))} {number}",
            metadata=metadata,
            memory_type=dice.choice([None, "fact", "procedural_memory"]),
            actor_id=dice.choice([None, "alice", "bob", "b%b"]),
            role=dice.choice([None, "user", "assistant"]),
            time=START + timedelta(hours=dice.randint(0, 20)),
            expires_at=dice.choice([None, datetime(2100, 1, 1, tzinfo=UTC)]),
            keep_expiry=False,
        )
        made.append((dice.choice([*SCOPES] * 3 + [*OTHERS]), decision))
    return made


def _fill(memory: Memory) -> None:
    engine = memory.parts
    texts = [str(decision.text) for _, decision in _decisions()]
    vectors = dict(zip(texts, engine.embedder.vectors(texts), strict=True))
    for scope in (*SCOPES, *OTHERS):
        mine = tuple(decision for where, decision in _decisions() if where == scope)
        engine.ledger.apply(Write(mine, scope=scope, vectors=vectors))
        changed = tuple(
            Decision("UPDATE", decision.memory_id, None, metadata={"b": 1}, time=START + timedelta(hours=6))
            for decision in mine[::4]
        )
        engine.ledger.apply(Write(changed, scope=scope))


# ── where they are kept ───────────────────────────────────────────────────────────────────────────────────────────────


class Places:
    """Memories on the same two databases, each with an index of another kind."""

    def __init__(self, url: Callable[[str], str], undo: ExitStack) -> None:
        self._url = url
        self._undo = undo
        self._open: dict[str, Memory] = {}

    def __getitem__(self, name: str) -> Memory:
        """`"exact on sqlite"`, opened when it is first asked for."""
        if name not in self._open:
            kind, _, database = name.partition(" on ")
            index: Any = self._qdrant() if kind == "qdrant" else kind
            memory = Memory(self._url(database), embeddings=f"hash:{DIMENSIONS}", index=index)
            self._undo.callback(memory.close)
            if not memory.get_all(user_id="alice"):
                _fill(memory)
            self._open[name] = memory
        return self._open[name]

    def _qdrant(self) -> VectorStore:
        client = QdrantClient(":memory:")
        self._undo.callback(client.close)
        shape = models.VectorParams(size=DIMENSIONS, distance=models.Distance.COSINE)
        client.create_collection("memories", vectors_config=shape)
        return QdrantVectorStore(client, "memories", HashEmbeddings(DIMENSIONS))


@pytest.fixture(scope="module")
def places(shared_url: Callable[[str], str]) -> Iterator[Places]:
    with ExitStack() as undo:
        yield Places(shared_url, undo)


ORACLE = "exact on sqlite"
INDEXES = {
    "sqlite": (ORACLE, "faiss on sqlite", "qdrant on sqlite"),
    "postgres": ("faiss on postgres", "pgvector on postgres"),
}
EVERYWHERE = [*INDEXES["sqlite"], *(pytest.param(place, marks=pytest.mark.postgres) for place in INDEXES["postgres"])]


def _values(item: MemoryItem) -> dict[str, Any]:
    """What a filter reads, put together by hand."""
    scope = {"user_id": item.scope.user_id, "agent_id": item.scope.agent_id, "run_id": item.scope.run_id}
    said = {"memory_type": item.memory_type, "actor_id": item.actor_id, "role": item.role}
    times = {"created_at": item.created_at, "updated_at": item.updated_at, "expires_at": item.expires_at}
    return {**item.metadata, **scope, **said, **times, "id": item.id, "text": item.text, "metadata": item.metadata}


@cache
def _all(places: Places) -> list[MemoryItem]:
    return [*places[ORACLE].get_all(user_id="alice", k=1000)]


@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
@given(wanted=MEMORY_FILTERS, query=st.sampled_from(QUERIES))
@settings(max_examples=1_000 if os.environ.get("FAULTS") == "long" else 40)
def test_it_gives_what_a_plain_filter_over_all_memories_gives(
    places: Places, database: str, wanted: dict[str, Any], query: str
) -> None:
    expected = [item for item in _all(places) if holds(wanted, _values(item))]
    ranked = places[ORACLE].search(query, user_id="alice", filters=wanted, k=100)
    assert {hit.id: hit.item for hit in ranked} == {item.id: item for item in expected}
    scores = {hit.id: hit.score for hit in ranked}
    for place in INDEXES[database]:
        listed = places[place].get_all(user_id="alice", filters=wanted, k=1000)
        assert [*listed] == expected
        found = places[place].search(query, user_id="alice", filters=wanted, k=100)
        assert {hit.id: hit.item for hit in found} == {item.id: item for item in expected}
        # The same order; where two scores agree to the fifth digit, the sums of two programs may differ in their last bits.
        assert [scores[hit.id] for hit in found] == pytest.approx([hit.score for hit in ranked], abs=1e-5)


@pytest.mark.parametrize("place", EVERYWHERE)
@given(wanted=MEMORY_FILTERS, size=st.integers(1, 7))
@settings(max_examples=8)
def test_pages_and_short_lists_are_cut_from_what_the_filter_leaves(
    places: Places, place: str, wanted: dict[str, Any], size: int
) -> None:
    memory = places[place]
    expected = [item for item in _all(places) if holds(wanted, _values(item))]
    seen: list[MemoryItem] = []
    after: str | None = None
    for _ in range(100):
        page = memory.get_all(user_id="alice", filters=dollars(wanted), k=size, after=after)
        seen, after = [*seen, *page], page.next
        if after is None:
            break
    assert seen == expected
    hits = memory.search("red cat", user_id="alice", filters=dollars(wanted), k=size)
    assert len(hits) == min(size, len(expected))
    assert {hit.id for hit in hits} <= {item.id for item in expected}


@pytest.mark.parametrize("place", [EVERYWHERE[0], EVERYWHERE[3]])
def test_each_condition_on_a_field_holds_where_it_should(places: Places, place: str) -> None:
    kept = _all(places)
    operands = {**FIELD_TEXTS, **dict.fromkeys(TIMES, FIELD_TIMES), "id": (kept[0].id, kept[0].id.upper())}
    for name, some in operands.items():
        for wanted in _single(name, some):
            expected = [item for item in kept if holds(wanted, _values(item))]
            assert [*places[place].get_all(user_id="alice", filters=wanted, k=1000)] == expected, wanted


def _single(name: str, operands: Sequence[Any]) -> Iterator[dict[str, Any]]:
    for operator in ("eq", "ne", "gt", "gte", "lt", "lte"):
        yield from ({name: {operator: operand}} for operand in operands)
    for operator in ("in", "nin"):
        yield from ({name: {operator: list(operands[:size])}} for size in (0, 1, 2))
        yield {name: {operator: [operands[0], None]}}
    yield from ({name: None}, {name: "*"}, {name: {"ne": None}}, {name: {"exists": False}})


def test_the_memories_put_the_filters_to_the_test(places: Places) -> None:
    kept = _all(places)
    assert 45 <= len(kept) <= 70
    assert {item.scope for item in kept} == set(SCOPES)
    assert len({item.updated_at == item.created_at for item in kept}) == 2
    for name, texts in FIELD_TEXTS.items():
        held = [sum(holds({name: {"icontains": each}}, _values(item)) for item in kept) for each in texts]
        assert any(count > 0 for count in held) and not all(count == len(kept) for count in held)
