"""What `StoreContract` leaves out, after the tests of LangGraph's own stores; run for ours and for `InMemoryStore`.

What that one does otherwise is in `test_store_corners.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langgraph.store.base import (
    InvalidNamespaceError,
    SearchItem,
)

from tests.cases import each
from tests.store_kinds import ALL, Letters, shared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from langgraph.store.base import BaseStore

    from tests.store_kinds import Make, Memories


@pytest.fixture(scope="module")
def memories(request: pytest.FixtureRequest) -> Iterator[Memories]:
    with shared(request) as opened:
        yield opened


@pytest.fixture(params=ALL)
def make(request: pytest.FixtureRequest, memories: Memories) -> Make:
    return memories.maker(request.param)


@pytest.fixture
def store(make: Make) -> BaseStore:
    return make()


@pytest.fixture
def letters() -> Letters:
    return Letters()


@pytest.fixture
def meaning(make: Make, letters: Letters) -> Callable[..., BaseStore]:
    """Stores that are searched by the letters of some fields."""
    return lambda *fields: make(index={"dims": 37, "embed": letters, "fields": list(fields) or ["text"]})


def keys(found: list[SearchItem]) -> list[str]:
    return [item.key for item in found]


def scores(found: list[SearchItem]) -> dict[str, float | None]:
    return {item.key: item.score for item in found}


class TestNamespaces:
    def test_labels_are_no_patterns(self, store: BaseStore) -> None:
        labels = [
            "a%",
            "a_",
            "ab",
            "A%",
            "a*",
            "a?",
            "a[b]",
            "a%\n",
            "a%\x01",
            "a%\x02",
            "a\\%",
            "a'b",
            "%",
            "_",
            "é",
            "é",
        ]
        labels += ["\x01", "\x02", "\x01\x02", "\U0010ffff"]
        for label in labels:
            store.put((label, "x"), "k", {"label": label})
        for label in labels:
            assert [item.value for item in store.search((label,))] == [{"label": label}]
            assert store.list_namespaces(prefix=(label,)) == [(label, "x")]
            got = store.get((label, "x"), "k")
            assert got is not None and got.namespace == (label, "x")

    def test_listing_cuts_at_the_depth_and_names_each_once(self, store: BaseStore) -> None:
        for namespace in (("a", "b", "c"), ("a", "b", "d", "e"), ("a", "b", "d", "i"), ("a", "c", "f"), ("b",)):
            store.put(namespace, "k", {})
        assert store.list_namespaces(prefix=("a", "b"), max_depth=3) == [("a", "b", "c"), ("a", "b", "d")]
        assert store.list_namespaces(max_depth=1) == [("a",), ("b",)]
        assert store.list_namespaces(max_depth=10**30) == store.list_namespaces()
        assert store.list_namespaces(max_depth=2, limit=1, offset=1) == [("a", "c")]

    @each("namespace", [(), ("",), ("a.b",), ("a", ""), (1,), ("langgraph", "x"), ("a\x00",)])
    def test_what_is_no_namespace_is_refused(self, store: BaseStore, namespace: tuple[Any, ...]) -> None:
        with pytest.raises(InvalidNamespaceError):
            store.put(namespace, "k", {})

    @pytest.mark.parametrize("label", ["ann@example.com", "v1.2"])
    def test_a_label_with_a_dot_is_refused_by_every_operation(self, store: BaseStore, label: str) -> None:
        with pytest.raises(InvalidNamespaceError):
            store.get((label,), "k")
        with pytest.raises(InvalidNamespaceError):
            store.search((label,))
        with pytest.raises(InvalidNamespaceError):
            store.list_namespaces(suffix=(label,))


class TestValues:
    def test_updated_at_only_ever_grows(self, store: BaseStore) -> None:
        seen = []
        for number in range(20):
            store.put(("a",), "k", {"n": number})
            item = store.get(("a",), "k")
            assert item is not None and item.updated_at.utcoffset() is not None
            seen.append(item.updated_at)
        assert seen == sorted(set(seen))

    def test_items_tell_themselves_as_json(self, store: BaseStore) -> None:
        store.put(("a", "b"), "k", {"n": 1})
        (found,) = store.search(("a",))
        told = found.dict()
        assert (told["namespace"], told["key"], told["value"], told["score"]) == (["a", "b"], "k", {"n": 1}, None)


class TestFilters:
    @pytest.fixture
    def filled(self, store: BaseStore) -> BaseStore:
        for number in range(10):
            store.put(("n",), str(number), {"n": number, "odd": bool(number % 2), "m": {"p": number % 3, "q": 1}})
        return store

    @each(
        ("condition", "expected"),
        [
            ({"n": 3}, "3"),
            ({"odd": True, "n": {"$gt": 5}}, "79"),
            ({"n": {"$eq": 4}}, "4"),
            ({"n": {"$ne": 4}}, "012356789"),
            ({"n": {"$gte": 3, "$lt": 6}}, "345"),
            ({"n": {"$lte": 2}}, "012"),
            ({"m": {"p": 1}}, "147"),
            ({"m": {"p": {"$gte": 1}, "q": 1}}, "124578"),
            ({"nothing": 1}, ""),
            ({"nothing": {"$ne": 1}}, "0123456789"),
            ({}, "0123456789"),
        ],
    )
    def test_operators(self, filled: BaseStore, condition: dict[str, Any], expected: str) -> None:
        assert sorted(keys(filled.search(("n",), filter=condition, limit=20))) == list(expected)


class TestMeaning:
    def test_fields_say_what_is_embedded(self, meaning: Callable[..., BaseStore], letters: Letters) -> None:
        meaning("text", "more.title").put(("t",), "1", {"text": "aaa", "more": {"title": "bbb"}, "secret": "ccc"})
        assert sorted(letters.texts) == ["aaa", "bbb"]

    def test_index_fields_dollar_embeds_the_whole_value_unescaped(
        self, meaning: Callable[..., BaseStore], letters: Letters
    ) -> None:
        meaning("$").put(("t",), "1", {"b": "Grüße 世界", "a": 1})
        assert letters.texts == ['{"a": 1, "b": "Grüße 世界"}']

    def test_items_with_many_vectors_do_not_take_the_places_of_others(self, meaning: Callable[..., BaseStore]) -> None:
        store = meaning("parts[*]")
        for key in "123":
            store.put(("t",), key, {"parts": [f"{'a' * times}{key}" for times in range(1, 40)]})
        assert sorted(keys(store.search(("t",), query="a", limit=3))) == ["1", "2", "3"]
        assert len(store.search(("t",), query="a", limit=2)) == 2

    def test_a_put_may_name_its_own_fields_or_none(self, meaning: Callable[..., BaseStore]) -> None:
        store = meaning("text")
        store.put(("t",), "own", {"text": "zzz", "title": "aaa"}, index=["title"])
        store.put(("t",), "none", {"text": "aaa"}, index=False)
        store.put(("t",), "lacks", {"other": "aaa"})
        store.put(("t",), "plain", {"text": "ab"})
        found = store.search(("t",), query="a")
        assert keys(found)[:2] == ["own", "plain"]
        assert scores(found[2:]) == {"none": None, "lacks": None}
        got = store.get(("t",), "none")
        assert got is not None and got.value == {"text": "aaa"}
        assert [item.key for item in store.search(("t",), query="a", limit=2)] == ["own", "plain"]

    def test_a_filter_narrows_what_is_ranked(self, meaning: Callable[..., BaseStore]) -> None:
        store = meaning()
        for number in range(60):
            store.put(("t",), str(number), {"text": "a" * (60 - number) + "b" * number, "even": number % 2 == 0})
        found = store.search(("t",), query="b", filter={"even": True}, limit=3)
        assert keys(found) == ["58", "56", "54"]
        assert keys(store.search(("t",), query="b", filter={"text": "a" * 60}, limit=3)) == ["0"]


def test_a_put_is_seen_by_the_next_search(make: Make, letters: Letters) -> None:
    store = make(index={"dims": 37, "embed": letters, "fields": ["text"]})
    for number in range(30):
        store.put(("t",), str(number), {"text": "a"})
        assert len(store.search(("t",), query="a", limit=100)) == number + 1
