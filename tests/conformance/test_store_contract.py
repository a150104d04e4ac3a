"""What every LangGraph store must do, after the tests of LangGraph's own stores; run for ours and for `InMemoryStore`.

What that one does otherwise is in `test_store_corners.py`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchItem,
    SearchOp,
)

from tests.cases import each
from tests.store_kinds import ALL, Letters, cosine, shared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from langgraph.store.base import BaseStore, Op

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


class TestBatch:
    def test_results_come_in_the_order_of_the_operations(self, store: BaseStore) -> None:
        store.put(("a",), "1", {"n": 1})
        list_op = ListNamespacesOp()
        ops: list[Op] = [
            list_op,
            GetOp(("a",), "1"),
            PutOp(("b",), "2", {"n": 2}),
            SearchOp(("a",)),
            GetOp(("a",), "none"),
        ]
        listed, got, put, found, missing = store.batch(ops)
        assert listed == [("a",)]
        assert isinstance(got, Item) and got.value == {"n": 1} and got.namespace == ("a",)
        assert put is None and missing is None
        assert isinstance(found, list) and [item.key for item in found] == ["1"]  # type: ignore[union-attr]

    def test_reads_see_the_state_before_the_batch(self, store: BaseStore) -> None:
        store.put(("a",), "1", {"n": 1})
        ops: list[Op] = [
            PutOp(("a",), "1", {"n": 2}),
            PutOp(("a",), "2", {"n": 3}),
            GetOp(("a",), "1"),
            SearchOp(("a",)),
        ]
        *_, got, found = store.batch(ops)
        assert isinstance(got, Item) and got.value == {"n": 1}
        assert [item.value for item in found] == [{"n": 1}]  # type: ignore[union-attr]
        assert {item.key: item.value for item in store.search(("a",))} == {"1": {"n": 2}, "2": {"n": 3}}

    def test_the_last_put_of_a_key_wins(self, store: BaseStore) -> None:
        store.batch([PutOp(("a",), "k", {"n": 1}), PutOp(("a",), "k", {"n": 2})])
        got = store.get(("a",), "k")
        assert got is not None and got.value == {"n": 2}
        store.batch([PutOp(("a",), "k", {"n": 3}), PutOp(("a",), "k", None)])
        assert store.get(("a",), "k") is None
        store.batch([PutOp(("a",), "k", None), PutOp(("a",), "k", {"n": 4})])
        assert store.get(("a",), "k") is not None

    def test_nothing_comes_of_nothing(self, store: BaseStore) -> None:
        assert store.batch([]) == []

    def test_async_gives_the_same(self, make: Make, letters: Letters) -> None:
        index = {"dims": 37, "embed": letters, "fields": ["text"]}
        store = make(index=index)

        async def work() -> list[Any]:
            await store.aput(("u",), "1", {"text": "aaa"})
            await store.aput(("u",), "2", {"text": "bbb"})
            await store.adelete(("u",), "none")
            got, found, listed = await store.abatch([GetOp(("u",), "1"), SearchOp((), query="b"), ListNamespacesOp()])
            assert got == await store.aget(("u",), "1")
            assert keys(await store.asearch(("u",), query="b", limit=1)) == ["2"]
            assert listed == await store.alist_namespaces() == [("u",)]
            return [got, found]

        got, found = asyncio.run(work())
        assert got == store.get(("u",), "1")
        assert scores(found) == scores(store.search((), query="b"))


class TestNamespaces:
    def test_a_prefix_ends_with_a_label(self, store: BaseStore) -> None:
        for namespace in (("a", "b"), ("a", "bc"), ("a", "b", "c"), ("ab",)):
            store.put(namespace, "k", {})
        assert {item.namespace for item in store.search(("a", "b"))} == {("a", "b"), ("a", "b", "c")}
        assert set(store.list_namespaces(prefix=("a", "b"))) == {("a", "b"), ("a", "b", "c")}

    def test_no_prefix_means_everything(self, store: BaseStore) -> None:
        for namespace in (("a",), ("b", "c")):
            store.put(namespace, "k", {})
        assert {item.namespace for item in store.search(())} == {("a",), ("b", "c")}

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

    def test_keys_are_no_patterns(self, store: BaseStore) -> None:
        names = ["k", "K", "%", "_", "k%", "k\n", "k'", "", "ключ", "k" * 5_000]
        store.batch([PutOp(("a",), name, {"name": name}) for name in names])
        for name in names:
            got = store.get(("a",), name)
            assert got is not None and got.value == {"name": name} and got.key == name
        store.delete(("a",), "%")
        assert len(store.search(("a",), limit=100)) == len(names) - 1

    def test_listing_matches_whole_labels_from_both_ends(self, store: BaseStore) -> None:
        every = [
            ("a", "b", "c"),
            ("a", "b", "d", "e"),
            ("a", "b", "d", "i"),
            ("a", "b", "f"),
            ("a", "c", "f"),
            ("xa", "f"),
        ]
        for namespace in every:
            store.put(namespace, "k", {})
        assert store.list_namespaces(prefix=("a", "*", "f")) == [("a", "b", "f"), ("a", "c", "f")]
        assert store.list_namespaces(prefix=("*", "b", "d")) == [("a", "b", "d", "e"), ("a", "b", "d", "i")]
        assert store.list_namespaces(suffix=("f",)) == [("a", "b", "f"), ("a", "c", "f"), ("xa", "f")]
        assert store.list_namespaces(suffix=("d", "*")) == [("a", "b", "d", "e"), ("a", "b", "d", "i")]
        assert store.list_namespaces(suffix=("a", "f")) == []
        assert store.list_namespaces(prefix=("a",), suffix=("b", "*", "*")) == [
            ("a", "b", "d", "e"),
            ("a", "b", "d", "i"),
        ]
        both = (MatchCondition("prefix", ("a",)), MatchCondition("prefix", ("*", "c")))
        assert store.batch([ListNamespacesOp(match_conditions=both)]) == [[("a", "c", "f")]]

    def test_listing_cuts_at_the_depth_and_names_each_once(self, store: BaseStore) -> None:
        for namespace in (("a", "b", "c"), ("a", "b", "d", "e"), ("a", "b", "d", "i"), ("a", "c", "f"), ("b",)):
            store.put(namespace, "k", {})
        assert store.list_namespaces(prefix=("a", "b"), max_depth=3) == [("a", "b", "c"), ("a", "b", "d")]
        assert store.list_namespaces(max_depth=1) == [("a",), ("b",)]
        assert store.list_namespaces(max_depth=10**30) == store.list_namespaces()
        assert store.list_namespaces(max_depth=2, limit=1, offset=1) == [("a", "c")]

    def test_listing_is_sorted_by_labels_and_paged(self, store: BaseStore) -> None:
        every = [("a-b",), ("a", "z"), ("a",), ("a!",), ("a b",), ("B",), ("ä",), ("a\x01",), ("a", "\x01"), ("b", "a")]
        for namespace in every:
            store.put(namespace, "k", {})
        assert store.list_namespaces() == sorted(every)
        assert [store.list_namespaces(limit=4, offset=start) for start in (0, 4, 8, 12)] == [
            sorted(every)[start : start + 4] for start in (0, 4, 8, 12)
        ]

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
    def test_a_value_comes_back_as_it_was_put(self, store: BaseStore) -> None:
        value = {
            "text": 'Grüße, 世界 🎻 \t\n"quoted" \\ \'',
            "numbers": [0, -1, 1.5, 1e300, 2**60, 0.1],
            "none": None,
            "yes": True,
            "nested": {"b": {"list": [[], {}, [1, [2]]]}, "a": ""},
            "": "empty key",
            "$x.y": "odd key",
        }
        store.put(("a",), "k", value)
        got = store.get(("a",), "k")
        assert got is not None and got.value == value
        assert list(got.value) == list(value)
        assert [type(number) for number in got.value["numbers"]] == [int, int, float, float, int, float]

    def test_updated_at_only_ever_grows(self, store: BaseStore) -> None:
        seen = []
        for number in range(20):
            store.put(("a",), "k", {"n": number})
            item = store.get(("a",), "k")
            assert item is not None and item.updated_at.utcoffset() is not None
            seen.append(item.updated_at)
        assert seen == sorted(set(seen))

    def test_delete_and_put_again(self, store: BaseStore) -> None:
        store.put(("a",), "k", {"n": 1})
        store.delete(("a",), "k")
        assert store.get(("a",), "k") is None and store.search(("a",)) == []
        store.delete(("a",), "k")
        store.put(("a",), "k", {"n": 2})
        assert [item.value for item in store.search(("a",))] == [{"n": 2}]

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

    def test_a_page_is_cut_from_what_matches(self, filled: BaseStore) -> None:
        pages = [keys(filled.search(("n",), filter={"odd": True}, limit=2, offset=start)) for start in (0, 2, 4, 6)]
        assert [len(page) for page in pages] == [2, 2, 1, 0]
        assert sorted(key for page in pages for key in page) == list("13579")


class TestMeaning:
    def test_the_score_is_the_cosine(self, meaning: Callable[..., BaseStore]) -> None:
        store = meaning()
        for key, text in {"1": "aab", "2": "bbc", "3": "xyz"}.items():
            store.put(("t",), key, {"text": text})
        found = store.search(("t",), query="ab")
        assert keys(found) == ["1", "2", "3"]
        assert scores(found) == pytest.approx({"1": cosine("ab", "aab"), "2": cosine("ab", "bbc"), "3": 0}, abs=1e-3)

    def test_fields_say_what_is_embedded(self, meaning: Callable[..., BaseStore], letters: Letters) -> None:
        meaning("text", "more.title").put(("t",), "1", {"text": "aaa", "more": {"title": "bbb"}, "secret": "ccc"})
        assert sorted(letters.texts) == ["aaa", "bbb"]

    def test_index_fields_dollar_embeds_the_whole_value_unescaped(
        self, meaning: Callable[..., BaseStore], letters: Letters
    ) -> None:
        meaning("$").put(("t",), "1", {"b": "Grüße 世界", "a": 1})
        assert letters.texts == ['{"a": 1, "b": "Grüße 世界"}']

    def test_an_item_scores_with_the_best_of_its_vectors(self, meaning: Callable[..., BaseStore]) -> None:
        store = meaning("title", "notes[*].text")
        store.put(("t",), "1", {"title": "aaa", "notes": [{"text": "bbb"}, {"text": "bc"}, {"other": 1}]})
        store.put(("t",), "2", {"title": "ab"})
        for query in ("a", "b", "c", "abc"):
            best = {"1": max(cosine(query, text) for text in ("aaa", "bbb", "bc")), "2": cosine(query, "ab")}
            found = store.search(("t",), query=query)
            assert scores(found) == pytest.approx(best, abs=1e-3)
            assert keys(found) == sorted(best, key=lambda key: -best[key])

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

    def test_an_update_replaces_the_vectors(self, meaning: Callable[..., BaseStore]) -> None:
        store = meaning()
        store.put(("t",), "1", {"text": "aaa"})
        store.put(("t",), "1", {"text": "bbb"})
        assert scores(store.search(("t",), query="a")) == pytest.approx({"1": 0}, abs=1e-3)
        assert scores(store.search(("t",), query="b")) == pytest.approx({"1": 1}, abs=1e-3)
        store.delete(("t",), "1")
        assert store.search(("t",), query="b") == []

    def test_a_filter_narrows_what_is_ranked(self, meaning: Callable[..., BaseStore]) -> None:
        store = meaning()
        for number in range(60):
            store.put(("t",), str(number), {"text": "a" * (60 - number) + "b" * number, "even": number % 2 == 0})
        found = store.search(("t",), query="b", filter={"even": True}, limit=3)
        assert keys(found) == ["58", "56", "54"]
        assert keys(store.search(("t",), query="b", filter={"text": "a" * 60}, limit=3)) == ["0"]

    def test_pages_follow_the_ranking(self, meaning: Callable[..., BaseStore]) -> None:
        store = meaning()
        for number in range(25):
            store.put(("t",), f"{number:02}", {"text": "a" * (24 - number) + "b" * number})
        pages = [keys(store.search(("t",), query="b", limit=10, offset=start)) for start in (0, 10, 20, 30)]
        assert [key for page in pages for key in page] == [f"{number:02}" for number in range(24, -1, -1)]

    def test_only_the_prefix_is_searched(self, meaning: Callable[..., BaseStore]) -> None:
        store = meaning()
        for namespace in (("u", "1"), ("u", "12"), ("u", "1", "x"), ("v", "1")):
            store.put(namespace, "k", {"text": "aaa"})
        assert {item.namespace for item in store.search(("u", "1"), query="a")} == {("u", "1"), ("u", "1", "x")}

    def test_without_an_index_a_query_is_ignored(self, store: BaseStore) -> None:
        store.put(("t",), "1", {"text": "aaa"})
        assert scores(store.search(("t",), query="a")) == {"1": None}


def test_a_put_is_seen_by_the_next_search(make: Make, letters: Letters) -> None:
    store = make(index={"dims": 37, "embed": letters, "fields": ["text"]})
    for number in range(30):
        store.put(("t",), str(number), {"text": "a"})
        assert len(store.search(("t",), query="a", limit=100)) == number + 1
