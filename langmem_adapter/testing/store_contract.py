"""`StoreContract`: what every LangGraph `BaseStore` must do, as a pytest class, sync and async."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pytest
from langchain_core.embeddings import Embeddings
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["StoreContract"]

_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz0123456789"
_NAMESPACES: Final = [tuple(path.split("/")) for path in ("a/b/c", "a/b/d/e", "a/b/d/i", "a/b/f", "a/c/f", "xa/f")]
_NAMES: Final = ["a%", "a_", "ab", "A%", "a*", "a?", "a[b]", "a%\n", "a\\%", "a'b", "%", "_", "é", "ключ", "\U0010ffff"]


class _Letters(Embeddings):
    """Counts letters: vectors that can be worked out by hand."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return [float(text.lower().count(letter)) for letter in _LETTERS] + [0.001]


def _cosine(one: str, other: str) -> float:
    a, b = _Letters().embed_documents([one, other])
    return float(sum(x * y for x, y in zip(a, b, strict=True)) / (sum(x * x for x in a) * sum(y * y for y in b)) ** 0.5)


class _Store:
    """Calls the methods of a store, or their async twins in one event loop."""

    def __init__(self, store: BaseStore, runner: asyncio.Runner | None) -> None:
        self._store = store
        self._runner = runner

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if self._runner is None:
            return getattr(self._store, name)  # type: ignore[no-any-return]
        runner, method = self._runner, getattr(self._store, f"a{name}")

        async def run(*given: Any, **named: Any) -> Any:
            return await method(*given, **named)

        return lambda *given, **named: runner.run(run(*given, **named))

    def keys(self, *given: Any, **how: Any) -> list[str]:
        """The keys that a search finds, in order."""
        return [item.key for item in self.search(*given, **how)]

    def scores(self, *given: Any, **how: Any) -> dict[str, Any]:
        """The scores that a search finds, by key."""
        return {item.key: item.score for item in self.search(*given, **how)}


class StoreContract:
    """Tests of a LangGraph store: subclass it, and give it a fixture that makes empty stores.

    Attributes:
        modes: Which methods are tested: "sync", "async" or both.
        differs: Tests that the store does not pass, with the reason; one that passes nevertheless fails.

    Example:
        >>> class TestMyStore(StoreContract):
        ...     modes = ("sync",)
        ...     differs = {"test_keys_are_no_patterns": "an empty key is refused"}
        ...
        ...     @pytest.fixture
        ...     def make_store(self):
        ...         from langgraph.store.memory import InMemoryStore
        ...
        ...         return lambda index=None: InMemoryStore(index=index)
    """

    modes: ClassVar[tuple[str, ...]] = ("sync", "async")
    differs: ClassVar[Mapping[str, str]] = {}

    @pytest.fixture
    def make_store(self) -> Callable[..., BaseStore]:
        """A function that makes an empty store; `index` is LangGraph's `IndexConfig`, or `None` for no vectors."""
        raise NotImplementedError("give the class a fixture make_store")

    @pytest.fixture(params=["sync", "async"])
    def make(
        self, request: pytest.FixtureRequest, make_store: Callable[..., BaseStore]
    ) -> Iterator[Callable[..., Any]]:
        """Makes stores that are called in one mode; differences are marked."""
        unknown = {*self.modes} - {"sync", "async"} | {test for test in self.differs if not hasattr(self, test)}
        if unknown or not self.modes:
            pytest.fail(f"modes are 'sync' and 'async', differs names tests: {sorted(unknown)}", pytrace=False)
        if request.param not in self.modes:
            pytest.skip(f"not tested: {request.param}")
        name = request.node.originalname
        if name in self.differs:
            request.applymarker(pytest.mark.xfail(reason=self.differs[name], strict=True))
        if request.param == "sync":
            yield lambda **how: _Store(make_store(**how), None)
        else:
            with asyncio.Runner() as runner:

                async def make_inside(**how: Any) -> BaseStore:
                    return make_store(**how)

                yield lambda **how: _Store(runner.run(make_inside(**how)), runner)

    @pytest.fixture
    def store(self, make: Callable[..., Any]) -> Any:
        """A store without vectors."""
        return make()

    @pytest.fixture
    def meaning(self, make: Callable[..., Any]) -> Callable[..., Any]:
        """Makes stores that are searched by the letters of some fields."""
        return lambda *fields: make(index={"dims": 37, "embed": _Letters(), "fields": list(fields) or ["text"]})

    # ── batches, namespaces, keys ───────────────────────────────────────────────────────────────────────────────────

    def test_batch_gives_results_in_order_and_reads_the_state_before_its_puts(self, store: Any) -> None:
        store.put(("a",), "1", {"n": 1})
        puts = [PutOp(("b",), "2", {"n": 2}), PutOp(("a",), "1", {"n": 3})]
        names, *empty, item, items = store.batch([ListNamespacesOp(), *puts, GetOp(("a",), "1"), SearchOp(("a",))])
        assert names == [("a",)] and empty == [None, None] and isinstance(item, Item)
        assert item.value == {"n": 1} and item.namespace == ("a",) and [each.value for each in items] == [{"n": 1}]
        assert store.get(("a",), "1").value == {"n": 3} and store.batch([]) == []

    def test_batch_keeps_the_last_put_of_a_key(self, store: Any) -> None:
        for values in [({"n": 1}, {"n": 2}), ({"n": 3}, None), (None, {"n": 4})]:
            store.batch([PutOp(("a",), "k", value) for value in values])
            item = store.get(("a",), "k")
            assert (None if item is None else item.value) == values[-1]

    def test_labels_and_keys_are_no_patterns(self, store: Any) -> None:
        for label in _NAMES:
            store.put((label, "x"), label, {"label": label})
        store.put(("a", "xy"), "k" * 5_000, {})
        for label in _NAMES:
            assert [item.value for item in store.search((label, "x"))] == [{"label": label}]
            assert store.list_namespaces(prefix=(label, "x")) == [(label, "x")]
            item = store.get((label, "x"), label)
            assert (item.namespace, item.key) == ((label, "x"), label)
        assert store.get(("a", "xy"), "k" * 5_000) is not None

    def test_list_namespaces_matches_whole_labels_from_both_ends(self, store: Any) -> None:
        for namespace in _NAMESPACES:
            store.put(namespace, "k", {})
        assert store.list_namespaces(prefix=("a", "*", "f")) == [("a", "b", "f"), ("a", "c", "f")]
        assert store.list_namespaces(suffix=("d", "*")) == [("a", "b", "d", "e"), ("a", "b", "d", "i")]
        assert store.list_namespaces(suffix=("a", "f")) == []
        both = (MatchCondition("prefix", ("a",)), MatchCondition("prefix", ("*", "c")))
        assert store.batch([ListNamespacesOp(match_conditions=both)]) == [[("a", "c", "f")]]
        assert store.list_namespaces(prefix=("a", "b"), max_depth=3)[:2] == [("a", "b", "c"), ("a", "b", "d")]
        assert {item.namespace for item in store.search(("a", "b"))} == set(_NAMESPACES[:4])

    def test_list_namespaces_sorts_by_labels_and_pages(self, store: Any) -> None:
        every = sorted([("a-b",), ("a", "z"), ("a",), ("a!",), ("a b",), ("B",), ("ä",), ("b", "a")])
        for namespace in every:
            store.put(namespace, "k", {})
        pages = [store.list_namespaces(limit=3, offset=start) for start in (0, 3, 6, 9)]
        assert [name for page in pages for name in page] == store.list_namespaces() == every

    def test_put_refuses_what_is_no_namespace(self, store: Any) -> None:
        for namespace in [(), ("",), ("a.b",), ("a", ""), (1,), ("langgraph", "x")]:
            with pytest.raises(InvalidNamespaceError):
                store.put(namespace, "k", {})

    # ── values ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_get_gives_the_value_as_it_was_put(self, store: Any) -> None:
        value: dict[str, Any] = {
            "text": 'Grüße, 世界 🎻 \t\n"quoted" \\',
            "numbers": [0, -1, 1.5, 1e300, 2**60],
            "none": None,
        }
        value |= {"yes": True, "nested": {"b": {"list": [[], {}, [1, [2]]]}, "a": ""}, "": "empty", "$x.y": "odd"}
        store.put(("a",), "k", value)
        item = store.get(("a",), "k")
        assert item.value == value and list(item.value) == list(value)
        assert [type(number) for number in item.value["numbers"]] == [int, int, float, float, int]

    def test_put_again_keeps_created_at_and_moves_updated_at(self, store: Any) -> None:
        items = []
        for number in range(5):
            store.put(("a",), "k", {"n": number})
            items.append(store.get(("a",), "k"))
        updated = [item.updated_at for item in items]
        assert all(time.utcoffset() is not None for time in updated) and updated == sorted(set(updated))
        assert {item.created_at for item in items} == {updated[0]}

    def test_delete_and_put_again(self, store: Any) -> None:
        for number in (1, 2):
            store.delete(("a",), "k")
            assert store.get(("a",), "k") is None and store.search(("a",)) == []
            store.put(("a",), "k", {"n": number})
            assert [item.value for item in store.search(("a",))] == [{"n": number}]

    def test_search_filters_before_it_pages(self, store: Any) -> None:
        for number in range(10):
            store.put(("n",), str(number), {"n": number, "odd": bool(number % 2)})
        conditions: list[dict[str, Any]] = [{"n": 3}, {"odd": True, "n": {"$gt": 5}}, {"n": {"$ne": 4}}]
        conditions += [{"n": {"$gte": 3, "$lt": 6}}, {"nothing": 1}, {}]
        for condition, expected in zip(conditions, ["3", "79", "012356789", "345", "", "0123456789"], strict=True):
            assert sorted(store.keys(("n",), filter=condition, limit=20)) == list(expected)
        pages = [store.keys(("n",), filter={"odd": True}, limit=2, offset=start) for start in (0, 2, 4, 6)]
        assert [len(page) for page in pages] == [2, 2, 1, 0]

    # ── search by meaning ───────────────────────────────────────────────────────────────────────────────────────────

    def test_search_scores_with_the_best_cosine_of_an_item(self, meaning: Callable[..., Any]) -> None:
        store = meaning("title", "notes[*].text")
        store.put(("t",), "1", {"title": "aaa", "notes": [{"text": "bbb"}, {"text": "bc"}, {"other": 1}]})
        store.put(("t",), "2", {"title": "ab"})
        for query in ("a", "b", "c", "abc"):
            best = {"1": max(_cosine(query, text) for text in ("aaa", "bbb", "bc")), "2": _cosine(query, "ab")}
            assert store.scores(("t",), query=query) == pytest.approx(best, abs=1e-3)
            assert store.keys(("t",), query=query) == sorted(best, key=lambda key: -best[key])

    def test_search_lists_items_without_vectors_last(self, meaning: Callable[..., Any]) -> None:
        store = meaning("text")
        store.put(("t",), "none", {"text": "aaa"}, index=False)
        store.put(("t",), "plain", {"text": "ab"})
        assert store.keys(("t",), query="a", limit=1) == ["plain"]
        assert store.keys(("t",), query="a") == ["plain", "none"]
        assert store.scores(("t",), query="a")["none"] is None

    def test_put_again_replaces_the_vectors(self, meaning: Callable[..., Any]) -> None:
        store = meaning()
        store.put(("t",), "1", {"text": "aaa"})
        store.put(("t",), "1", {"text": "bbb", "title": "ccc"}, index=["title"])
        assert store.scores(("t",), query="c") == pytest.approx({"1": 1}, abs=1e-3)
        store.delete(("t",), "1")
        assert store.search(("t",), query="b") == []

    def test_search_ranks_what_fits_filter_and_prefix_page_by_page(self, meaning: Callable[..., Any]) -> None:
        store = meaning()
        for number in range(25):
            store.put(("t", "x"), f"{number:02}", {"text": "a" * (24 - number) + "b" * number, "even": number % 2 == 0})
        store.put(("tx",), "other", {"text": "b"})
        assert store.keys(("t",), query="b", filter={"even": True}, limit=3) == ["24", "22", "20"]
        pages = [store.keys(("t",), query="b", limit=10, offset=start) for start in (0, 10, 20, 30)]
        assert [key for page in pages for key in page] == [f"{number:02}" for number in range(24, -1, -1)]

    def test_search_without_an_index_ignores_the_query(self, store: Any) -> None:
        store.put(("t",), "1", {"text": "aaa"})
        assert store.scores(("t",), query="a") == {"1": None}
