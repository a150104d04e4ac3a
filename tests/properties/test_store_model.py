"""`MemoryStore` against a dict and plain arithmetic, for any sequence of operations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.store.base import ListNamespacesOp, PutOp, SearchOp

from langmem_adapter.adapters.store import MemoryStore
from langmem_adapter.memory.memory import Memory
from langmem_adapter.storage.items import decode, encode, end_of, erase
from tests.store_kinds import Letters, cosine

if TYPE_CHECKING:
    from collections.abc import Iterator

Name = tuple[str, ...]

LABELS = st.sampled_from(["a", "ab", "a%", "A", "a\x01", "*", "é"])
NAMESPACES = st.lists(LABELS, min_size=1, max_size=3).map(tuple)
TEXTS = st.text("abc ", max_size=6)
PUTS = st.builds(
    PutOp,
    NAMESPACES,
    st.sampled_from("123"),
    st.none() | st.fixed_dictionaries({"text": TEXTS, "n": st.integers(0, 3), "tags": st.lists(TEXTS, max_size=3)}),
    st.sampled_from([None, False, ["tags[*]"], ["text", "tags[0]"]]),
    ttl=st.none(),
)


@pytest.fixture(scope="module")
def store() -> Iterator[MemoryStore]:
    with Memory(":memory:") as memory:
        yield MemoryStore(memory, {"dims": 37, "embed": Letters(), "fields": ["text"]})


@dataclass
class Model:
    """What a store is, in a few lines."""

    items: dict[tuple[Name, str], tuple[dict[str, Any], list[str]]] = field(default_factory=dict)

    def put(self, op: PutOp) -> None:
        self.items.pop((op.namespace, op.key), None)  # what is put last stands last
        if op.value is not None:
            value = dict(op.value)
            texts = {
                "None": [value["text"]],
                "False": [],
                "['tags[*]']": value["tags"],
                "['text', 'tags[0]']": [value["text"], *value["tags"][:1]],
            }
            embedded = [text for text in texts[str(op.index)] if text.strip()]
            self.items[op.namespace, op.key] = value, embedded

    def under(self, prefix: Name) -> list[tuple[Name, str]]:
        return [name for name in reversed(self.items) if name[0][: len(prefix)] == prefix]

    def score(self, name: tuple[Name, str], query: str) -> float | None:
        return max((cosine(query, text) for text in self.items[name][1]), default=None)


@settings(max_examples=30)
@given(
    batches=st.lists(st.lists(PUTS, max_size=6), min_size=1, max_size=4),
    prefix=st.lists(LABELS, max_size=2).map(tuple),
    query=st.text("abc", min_size=1, max_size=4),
    page=st.tuples(st.integers(0, 6), st.integers(0, 4)),
    number=st.none() | st.integers(0, 3),
)
def test_it_does_what_a_dict_and_a_sort_do(
    store: MemoryStore, batches: list[list[PutOp]], prefix: Name, query: str, page: tuple[int, int], number: int | None
) -> None:
    store._database.write(erase)
    model, (limit, offset) = Model(), page
    for batch in batches:
        store.batch(batch)
        for op in {(op.namespace, op.key): op for op in batch}.values():
            model.put(op)
    condition = None if number is None else {"n": {"$lte": number}}
    allowed = [name for name in model.under(prefix) if number is None or model.items[name][0]["n"] <= number]

    latest, found, listed = store.batch(
        [
            SearchOp(prefix, condition, limit, offset),
            SearchOp(prefix, condition, 100, 0, query),
            ListNamespacesOp(limit=limit, offset=offset),
        ]
    )
    told: Any = latest
    assert [(item.namespace, item.key) for item in told] == allowed[offset : offset + limit]
    assert listed == sorted({namespace for namespace, _ in model.items})[offset : offset + limit]

    scored: Any = found
    expected = {name: model.score(name, query) for name in allowed}
    assert {(item.namespace, item.key): item.score for item in scored} == {
        name: None if score is None else pytest.approx(score, abs=1e-5) for name, score in expected.items()
    }
    scores = [item.score for item in scored]
    ranked = [score for score in scores if score is not None]
    assert ranked == sorted(ranked, reverse=True) and None not in scores[: len(ranked)]
    pages: Any = [store.search(prefix, query=query, filter=condition, limit=2, offset=start) for start in (0, 2, 4)]
    assert [item.key for part in pages for item in part] == [item.key for item in scored][:6]


ANY_LABELS = st.lists(
    st.text(st.characters(exclude_characters="\x00.", exclude_categories=["Cs"]), min_size=1), max_size=4
)


@given(ANY_LABELS, ANY_LABELS)
def test_namespaces_sort_and_begin_with_each_other_as_their_texts_do(one: list[str], other: list[str]) -> None:
    a, b = tuple(one), tuple(other)
    assert decode(encode(a)) == a
    assert (encode(a) < encode(b)) == (a < b)
    assert encode(b).startswith(encode(a)) == (b[: len(a)] == a)
    if a:
        assert (encode(a) <= encode(b) < end_of(encode(a))) == (b[: len(a)] == a)
