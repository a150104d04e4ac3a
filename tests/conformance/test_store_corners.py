"""Where LangGraph's own stores differ from each other: what ours does, on both databases.

The rows are those in which at least one of `InMemoryStore`, `SqliteStore` and `PostgresStore` surprises; where
`InMemoryStore` does the same as ours, it stands beside it.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.store.base import GetOp, PutOp

from langmem_adapter.errors import FilterError, InvalidInputError
from tests.cases import each
from tests.store_kinds import ALL, OURS, Letters, expiry, set_expiry, shared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from langgraph.store.base import BaseStore, TTLConfig

    from tests.store_kinds import Make, Memories

PAST = datetime(2020, 1, 1, tzinfo=UTC)
SOON = timedelta(seconds=30)
TEN = 10.0  # minutes
INDEX: dict[str, Any] = {"dims": 37, "embed": Letters(), "fields": ["text"]}


@pytest.fixture(scope="module")
def memories(request: pytest.FixtureRequest) -> Iterator[Memories]:
    with shared(request) as opened:
        yield opened


@pytest.fixture(params=OURS)
def make(request: pytest.FixtureRequest, memories: Memories) -> Make:
    return memories.maker(request.param)


@pytest.fixture(params=ALL)
def make_any(request: pytest.FixtureRequest, memories: Memories) -> Make:
    return memories.maker(request.param)


@pytest.fixture
def store(make: Make) -> BaseStore:
    return make(index=INDEX)


def keys(store: BaseStore, **how: Any) -> list[str]:
    return [item.key for item in store.search((), **how)]


class TestPuts:
    def test_created_at_stays_when_an_item_is_put_again(self, store: BaseStore) -> None:
        store.put(("a",), "k", {"n": 1})
        first = store.get(("a",), "k")
        store.put(("a",), "k", {"n": 2})
        second = store.get(("a",), "k")
        assert first is not None and second is not None
        assert second.created_at == first.created_at == first.updated_at < second.updated_at

    def test_the_fields_of_the_configuration_are_the_ones_embedded(self, make_any: Make) -> None:
        letters = Letters()
        store = make_any(index={"dims": 37, "embed": letters, "fields": ["text"]})
        store.put(("a",), "k", {"text": "aaa", "other": "bbb"})
        assert letters.texts == ["aaa"]

    def test_two_items_of_one_batch_may_have_the_same_text(self, store: BaseStore) -> None:
        store.batch([PutOp(("a",), key, {"text": "the same"}) for key in "12"])
        assert {item.key: item.score for item in store.search((), query="the same")} == pytest.approx(
            {"1": 1, "2": 1}, abs=1e-3
        )

    def test_an_item_put_again_without_index_is_no_longer_found_by_meaning(self, store: BaseStore) -> None:
        store.put(("a",), "k", {"text": "aaa"})
        store.put(("a",), "k", {"text": "aaa"}, index=False)
        assert [item.score for item in store.search((), query="a")] == [None]

    @each(
        ("value", "named"),
        [
            ({"when": datetime(2026, 1, 1, tzinfo=UTC)}, "datetime, which is no JSON; convert it"),
            ({"deep": [{"x": {1, 2}}]}, "set, which is no JSON"),
            ({"raw": b"x"}, "bytes, which is no JSON"),
            ({"nan": float("nan")}, "cannot be kept as JSON"),
            ({"far": float("inf")}, "cannot be kept as JSON"),
            ({"nul": "a\x00b"}, "NUL"),
            ({"half": "\ud800"}, "surrogate"),
            ({1: "x"}, "must be a str"),
            (["no", "object"], "must be a mapping"),
            ("text", "must be a mapping"),
        ],
    )
    def test_what_is_no_json_object_is_refused_whole(self, store: BaseStore, value: Any, named: str) -> None:
        with pytest.raises(InvalidInputError, match=named):
            store.batch([PutOp(("a",), "good", {"text": "x"}), PutOp(("a",), "bad", value)])
        assert store.get(("a",), "good") is None

    @each("index", [True, "text", [1], [""], {"fields": ["a"]}])
    def test_an_index_argument_that_means_nothing_is_refused(self, store: BaseStore, index: Any) -> None:
        with pytest.raises(InvalidInputError, match="index must be"):
            store.put(("a",), "k", {"text": "x"}, index=index)

    def test_a_namespace_that_is_too_long_is_refused_with_the_fix(self, store: BaseStore) -> None:
        with pytest.raises(InvalidInputError, match="2,000 are allowed: use a hash"):
            store.put(("x" * 2_500,), "k", {})

    @pytest.mark.parametrize(("namespace", "key"), [(("\ud800",), "k"), (("a",), "\ud800"), (("a",), "a\x00")])
    def test_what_databases_cannot_keep_is_refused_as_a_name(
        self, store: BaseStore, namespace: tuple[str, ...], key: str
    ) -> None:
        with pytest.raises(InvalidInputError):
            store.put(namespace, key, {})
        with pytest.raises(InvalidInputError):
            store.get(namespace, key)


class TestSearches:
    def test_without_a_query_the_latest_change_comes_first(self, store: BaseStore) -> None:
        for key in "1234":
            store.put(("a", key), key, {})
        store.put(("a", "2"), "2", {"n": 2})
        assert keys(store) == ["2", "4", "3", "1"]
        assert keys(store, limit=2, offset=1) == ["4", "3"]

    def test_a_missing_key_is_in_no_order(self, store: BaseStore) -> None:
        store.put(("a",), "has", {"n": 5})
        store.put(("a",), "lacks", {})
        store.put(("a",), "null", {"n": None})
        for operator in ("$gt", "$gte", "$lt", "$lte"):
            assert "lacks" not in keys(store, filter={"n": {operator: 5}}) + keys(store, filter={"n": {operator: "x"}})
        assert keys(store, filter={"n": {"$gte": 5}}) == ["has"]

    def test_a_missing_key_is_not_equal_to_anything(self, make_any: Make) -> None:
        store = make_any()
        store.put(("a",), "lacks", {})
        store.put(("a",), "has", {"n": 5})
        assert keys(store, filter={"n": {"$ne": 5}}) == ["lacks"]

    def test_operators_that_the_others_lack(self, store: BaseStore) -> None:
        store.put(("a",), "1", {"tags": ["x", "y"], "name": "Ann"})
        store.put(("a",), "2", {"tags": ["y"], "name": "Bob"})
        assert keys(store, filter={"name": {"$in": ["Ann", "Cy"]}}) == ["1"]
        assert keys(store, filter={"name": {"$nin": ["Ann"]}}) == ["2"]
        assert keys(store, filter={"tags": {"$contains": "x"}}) == ["1"]
        assert keys(store, filter={"$or": [{"name": "Bob"}, {"tags": {"$contains": "x"}}]}) == ["2", "1"]
        assert keys(store, filter={"missing": {"$exists": False}, "NOT": {"name": "Bob"}}) == ["1"]

    @each("condition", [{"n": {"$near": 1}}, {"$n": 1}, {"n": {"$gt": []}}, {1: 2}, ["n"], "n"])
    def test_a_filter_that_is_not_understood_is_an_error(self, store: BaseStore, condition: Any) -> None:
        with pytest.raises(FilterError) as caught:
            store.search((), filter=condition)
        assert isinstance(caught.value, ValueError)

    @pytest.mark.parametrize("key", ["x') OR '1'='1", "a.b'", '"', "$$", "x` --", "ключ", "%", "metadata"])
    def test_keys_and_values_of_a_filter_are_only_compared(self, store: BaseStore, key: str) -> None:
        store.put(("a",), "other", {"x": 1})
        store.put(("a",), "this", {key: key})
        if key == "$$":
            with pytest.raises(FilterError):
                store.search((), filter={key: key})
        else:
            assert keys(store, filter={key: {"$eq": key}}) == ["this"]
            assert keys(store, filter={"x": {"$eq": key}}) == []

    def test_items_with_several_vectors_fill_the_limit(self, make: Make) -> None:
        store = make(index={**INDEX, "fields": ["parts[*]"]})
        for key in "12345":
            store.put(("a",), key, {"parts": ["aaa"] * 50})
        assert len(store.search((), query="a", limit=5)) == 5
        assert len({item.key for item in store.search((), query="a", limit=4, offset=1)}) == 4

    def test_a_prefix_may_be_a_list(self, store: BaseStore) -> None:
        store.put(("a", "b"), "k", {"text": "aaa"})
        assert [item.key for item in store.search(["a"], query="a")] == ["k"]  # type: ignore[arg-type]
        assert store.list_namespaces(prefix=["a", "*"]) == [("a", "b")]  # type: ignore[arg-type]
        got = store.get(["a", "b"], "k")  # type: ignore[arg-type]
        assert got is not None and got.namespace == ("a", "b")

    @each("how", [{"limit": -1}, {"offset": -1}, {"limit": "10"}, {"limit": True}, {"offset": 10**30}])
    def test_a_page_that_is_none_is_refused(self, store: BaseStore, how: dict[str, Any]) -> None:
        with pytest.raises(InvalidInputError, match="must be a whole number"):
            store.search((), **how)
        with pytest.raises(InvalidInputError, match="must be a whole number"):
            store.list_namespaces(**how)
        store.put(("a",), "k", {"text": "a"})
        assert store.search((), limit=0) == [] and keys(store, query="a", limit=10**9) == ["k"]

    @pytest.mark.parametrize("query", ['"', "a' OR 1=1 --", "NEAR(", "🎻", "x" * 20_000])
    def test_a_query_is_only_text(self, store: BaseStore, query: str) -> None:
        store.put(("a",), "k", {"text": "aaa"})
        assert [item.key for item in store.search((), query=query)] == ["k"]


class TestNamespaces:
    def test_one_without_items_is_not_listed(self, store: BaseStore) -> None:
        assert store.get(("never",), "k") is None and store.search(("never",)) == []
        store.put(("a", "b"), "k", {})
        store.put(("a", "c"), "k", {})
        store.delete(("a", "b"), "k")
        store.delete(("a", "x"), "k")
        assert store.list_namespaces() == [("a", "c")]
        store.put(("a", "b"), "k", {})
        assert store.list_namespaces() == [("a", "b"), ("a", "c")]

    def test_raw_operations_may_use_langgraphs_own_root(self, store: BaseStore) -> None:
        store.batch([PutOp(("langgraph", "x"), "k", {"n": 1})])
        assert store.batch([GetOp(("langgraph", "x"), "k")])[0] is not None
        with pytest.raises(ValueError, match="empty"):
            store.batch([PutOp((), "k", {"n": 1})])

    @pytest.mark.parametrize("op", [None, "get", ("a", "k")])
    def test_what_is_no_operation_is_refused(self, store: BaseStore, op: Any) -> None:
        with pytest.raises(InvalidInputError, match="get, put, search and list"):
            store.batch([op])


class TestLifetimes:
    @pytest.fixture
    def expiring(self, make: Make) -> Callable[..., BaseStore]:
        def opened_with(**ttl: Any) -> BaseStore:
            config: TTLConfig = {"omit_expired": True, **ttl}  # type: ignore[typeddict-item]
            return make(index=INDEX, ttl=config)

        return opened_with

    def test_an_item_that_has_expired_is_not_seen(self, expiring: Callable[..., BaseStore]) -> None:
        store = expiring()
        store.put(("a",), "gone", {"text": "aaa"}, ttl=TEN)
        store.put(("b",), "there", {"text": "ab"}, ttl=TEN)
        assert keys(store, query="a") == ["gone", "there"]
        set_expiry(store, "gone", PAST)
        assert store.get(("a",), "gone") is None
        assert keys(store) == keys(store, query="a") == keys(store, query="a", limit=1) == ["there"]
        assert keys(store, filter={"text": {"$exists": True}}) == ["there"]
        assert store.list_namespaces() == [("b",)]
        assert expiry(store, "gone") == PAST

    def test_pages_leave_no_gap_where_items_expired(self, expiring: Callable[..., BaseStore]) -> None:
        store = expiring()
        for number in range(20):
            store.put(("a",), f"{number:02}", {"text": "a" * (number + 1) + "b"}, ttl=TEN)
        for number in range(1, 20, 2):
            set_expiry(store, f"{number:02}", PAST)
        left = [f"{number:02}" for number in range(18, -1, -2)]
        assert [key for start in (0, 4, 8) for key in keys(store, query="a", limit=4, offset=start)] == left
        assert [key for start in (0, 4, 8) for key in keys(store, limit=4, offset=start)] == left

    def test_one_that_has_expired_is_seen_until_it_is_swept_unless_asked_otherwise(self, make: Make) -> None:
        store: Any = make(index=INDEX)
        store.put(("a",), "k", {"text": "aaa"}, ttl=TEN)
        set_expiry(store, "k", PAST)
        assert keys(store, refresh_ttl=False) == ["k"]
        assert store.sweep_ttl() == 1
        assert keys(store) == keys(store, query="a") == store.list_namespaces() == []
        assert store.sweep_ttl() == 0

    def test_a_sweep_takes_all_that_expired_and_nothing_else(self, make: Make) -> None:
        store: Any = make(index=INDEX)
        store.batch([PutOp(("a", str(n % 7)), str(n), {"text": "a"}, ttl=TEN) for n in range(1_200)])
        store.put(("b",), "ever", {"text": "a"})
        store.put(("b",), "later", {"text": "a"}, ttl=TEN)
        for number in range(1_200):
            if number % 400 == 0:
                set_expiry(store, str(number), PAST)
        assert asyncio.run(store.asweep_ttl()) == 3
        assert len(store.search((), query="a", limit=2_000)) == 1_199

    @pytest.mark.parametrize(
        "how",
        [lambda s: s.get(("a",), "k"), lambda s: s.search(("a",)), lambda s: s.search(("a",), query="a")],
        ids=["get", "search", "query"],
    )
    def test_reading_lets_an_item_live_on(
        self, expiring: Callable[..., BaseStore], how: Callable[[BaseStore], object]
    ) -> None:
        store, now = expiring(), datetime.now(UTC)
        store.put(("a",), "k", {"text": "aaa"}, ttl=TEN)
        before = store.get(("a",), "k", refresh_ttl=False)
        set_expiry(store, "k", now + SOON)
        assert how(store)
        lives = expiry(store, "k")
        assert lives is not None and lives >= now + timedelta(minutes=TEN)
        assert store.get(("a",), "k", refresh_ttl=False) == before

    def test_reading_changes_nothing_where_that_was_asked_for(self, expiring: Callable[..., BaseStore]) -> None:
        for store, how in ((expiring(refresh_on_read=False), {}), (expiring(), {"refresh_ttl": False})):
            store.put(("a",), "k", {"text": "aaa"}, ttl=TEN)
            told: Any = how
            soon = datetime.now(UTC) + SOON
            set_expiry(store, "k", soon)
            assert store.get(("a",), "k", **told)
            assert store.search((), query="a", **told)
            assert expiry(store, "k") == soon

    def test_what_a_page_leaves_out_was_not_read(self, expiring: Callable[..., BaseStore]) -> None:
        store, soon = expiring(), datetime.now(UTC) + SOON
        for key in "12":
            store.put(("a",), key, {"text": "a" * int(key) + "b"}, ttl=TEN)
            set_expiry(store, key, soon)
        assert keys(store, query="a", limit=1) == ["2"]
        assert expiry(store, "1") == soon != expiry(store, "2")

    def test_the_default_lifetime_holds_unless_the_put_says_otherwise(self, expiring: Callable[..., BaseStore]) -> None:
        store, now = expiring(default_ttl=TEN), datetime.now(UTC)
        store.put(("a",), "default", {})
        store.put(("a",), "own", {}, ttl=2 * TEN)
        store.put(("a",), "ever", {}, ttl=None)
        default, own, ever = (expiry(store, key) for key in ("default", "own", "ever"))
        assert default is not None and own is not None and ever is None
        assert now + timedelta(minutes=TEN) <= default < now + timedelta(minutes=2 * TEN) <= own

    def test_putting_again_sets_the_lifetime_anew(self, expiring: Callable[..., BaseStore]) -> None:
        store = expiring()
        store.put(("a",), "k", {"n": 1}, ttl=TEN)
        set_expiry(store, "k", PAST)
        store.put(("a",), "k", {"n": 2}, ttl=TEN)
        got = store.get(("a",), "k")
        assert got is not None and got.value == {"n": 2}
        store.put(("a",), "k", {"n": 3})
        assert expiry(store, "k") is None

    def test_an_item_lives_some_seconds_if_that_is_said(self, expiring: Callable[..., BaseStore]) -> None:
        store = expiring()
        store.put(("a",), "k", {}, ttl=0.0005)
        time.sleep(0.05)
        assert store.get(("a",), "k") is None

    @each("ttl", [0, -1, "10", True, float("nan"), float("inf"), 1e12])
    def test_a_lifetime_that_is_none_is_refused(self, store: BaseStore, ttl: Any) -> None:
        with pytest.raises(InvalidInputError, match="minutes"):
            store.put(("a",), "k", {}, ttl=ttl)

    def test_sweep_interval_minutes_of_a_sweep_in_the_background(self, make: Make) -> None:
        store: Any = make(index=INDEX, ttl={"sweep_interval_minutes": 0.001})
        store.put(("a",), "k", {"text": "aaa"}, ttl=TEN)
        running = store.start_ttl_sweeper()
        assert store.start_ttl_sweeper() is running
        set_expiry(store, "k", PAST)
        deadline = time.monotonic() + 20
        while store.search((), refresh_ttl=False):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert not running.done() and store.stop_ttl_sweeper(20) and running.result(20) is None
        assert store.stop_ttl_sweeper()
        again = store.start_ttl_sweeper(TEN)
        assert again.cancel()
        assert store.stop_ttl_sweeper(20)
