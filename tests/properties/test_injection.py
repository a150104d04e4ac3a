"""Whatever strangers write into keys, values, queries and ids is data: it is not run, matched as a pattern or mixed up."""

from __future__ import annotations

import math
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from langmem_adapter.errors import FilterError, InvalidInputError, LangmemAdapterError, MemoryNotFoundError, ScopeError
from langmem_adapter.memory.memory import Memory
from tests.cases import each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HOSTILE = (
    "x') OR ('1'='1", "' OR 1=1 --", "'; DROP TABLE memories; --", '" OR ""="',
    "a') UNION SELECT embedding FROM memories --", "$.a", "$[0]", "a[*]", "a[0]", '"a"', "a->>'b'",
    "metadata->>'a'", "{a,b}", "@.a", "%", "_", "*", "?", ":now", "%(x)s", "%s", "{0}", "\\", "\\'", "`a`", "a;b",
    "a/*b*/", "--", "\u2019 OR \u20181\u2019=\u20181", "ａ", "a\u200b", "é", "e\u0301", "🦊", "", " ", "a\nb",
    "__class__", "lc",
)  # fmt: skip


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def memory(request: pytest.FixtureRequest, shared_url: Callable[[str], str]) -> Iterator[Memory]:
    """One memory for the whole module: what one test does to it would show in the next."""
    with Memory(shared_url(request.param), embeddings="hash:64") as opened:
        yield opened


@pytest.fixture(scope="module")
def keyed(memory: Memory) -> Memory:
    """Of "keys", one memory for each hostile text: its only key has that name, and `said` has it as a value."""
    memory.add_many(
        [
            {
                "messages": f"fact {n} {text}.",
                "user_id": "keys",
                "infer": False,
                "metadata": {f"k{text}": n, "said": text},
            }
            for n, text in enumerate(HOSTILE)
        ]
    )
    memory.add("fact of somebody else", user_id="other", infer=False, metadata={"said": "x", "kx": 1})
    return memory


def found(memory: Memory, filters: Any, user: str = "keys") -> set[str]:
    """Texts that both ways of looking give."""
    listed = {item.text for item in memory.get_all(user_id=user, filters=filters, k=1000)}
    assert {hit.text for hit in memory.search("fact", user_id=user, filters=filters, k=1000)} == listed
    return listed


def test_a_key_is_a_name_and_nothing_else(keyed: Memory) -> None:
    for n, text in enumerate(HOSTILE):
        assert found(keyed, {f"k{text}": {"exists": True}}) == {f"fact {n} {text}."}
        assert found(keyed, {"OR": [{f"k{text}": n}, {f"k{text}": n + 1}]}) == {f"fact {n} {text}."}
    assert found(keyed, {"OR": [{f"k{text}": n + 1} for n, text in enumerate(HOSTILE)]}) == set()


def test_a_value_is_a_value_and_nothing_else(keyed: Memory) -> None:
    everything = found(keyed, None)
    for n, text in enumerate(HOSTILE):
        only = {f"fact {n} {text}."}
        same: list[Any] = [{"said": way} for way in ({"eq": text}, {"in": [text]}, {"gte": text, "lte": text})]
        others = [{"said": {"ne": text}}, {"said": {"nin": [text]}}]
        for both in ("AND", "OR"):
            assert found(keyed, {both: [*same, {"text": f"fact {n} {text}."}]}) == only
            assert found(keyed, {both: others}) == everything - only
        for word, held in (("contains", text), ("icontains", text.casefold())):
            said = {f"fact {m} {other}." for m, other in enumerate(HOSTILE) if held in _folded(other, word)}
            assert found(keyed, {"said": {word: text}}) == said


def _folded(text: str, word: str) -> str:
    return text.casefold() if word == "icontains" else text


@each("name", ["id", "user_id", "agent_id", "run_id", "actor_id", "role", "memory_type"])
def test_a_value_for_a_field_is_never_a_pattern(keyed: Memory, name: str) -> None:
    for conditions in ([{"eq": text} for text in HOSTILE], [{"in": [text, "' OR 1=1"]} for text in HOSTILE]):
        assert found(keyed, {"OR": [{name: condition} for condition in conditions]}) == set()
    assert len(found(keyed, {"user_id": {"in": ["keys", "*"]}})) == len(HOSTILE)


def test_a_key_that_begins_like_an_operator_is_refused_unless_it_is_reached_by_a_path(keyed: Memory) -> None:
    for key in ("$", "$where", "$.a", "$expr", "$gt"):
        with pytest.raises(FilterError, match=r"metadata\.|under the key"):
            found(keyed, {key: 1})
        assert found(keyed, {f"metadata.{key}": 1}) == set()


@each(
    "filters",
    [
        {1: 1},
        {None: 1},
        {("a",): 1},
        {b"a": 1},
        {"a": {"regex": "x", "eq": 1}},
        {"a": {"$regex": "x"}},
        {"a": {"$where": "1"}},
        {"a": {"$eq; DROP TABLE": 1}},
        {"a": math.nan},
        {"a": {"gt": math.nan}},
        {"a\x00b": 1},
        {"a": "\x00"},
        {"a": "\ud800"},
        {"a": Ellipsis},
        {"a": print},
        {"created_at": "now()"},
        {"created_at": {"gt": "2024-01-01'; --"}},
        "1=1",
        [("a", 1)],
    ],
)
def test_what_is_no_filter_is_an_error_before_anything_is_read(memory: Memory, filters: Any) -> None:
    with pytest.raises(FilterError):
        memory.search("fact", user_id="keys", filters=filters)
    with pytest.raises(FilterError):
        memory.get_all(user_id="keys", filters=filters)


def test_values_of_unlike_types_are_never_equal(memory: Memory) -> None:
    values: list[Any] = [True, 1, "1", None, [1], {"a": 1}, 10**30, "true", 0, False, "", [], {}, -1.5]
    user = uuid.uuid4().hex
    memory.add_many(
        [{"messages": f"fact {n}", "user_id": user, "infer": False, "metadata": {"v": v}} for n, v in enumerate(values)]
    )
    for n, value in enumerate(values):
        members = {"fact 4"} if value == 1 and value is not True else set()  # a list matches what it holds
        assert found(memory, {"v": {"eq": value}}, user) == {f"fact {n}"} | members
    assert found(memory, {"v": {"eq": 1.0}}, user) == {"fact 1", "fact 4"}
    assert found(memory, {"v": {"gt": 10**400}}, user) == set()
    assert found(memory, {"v": {"lt": float("inf")}}, user) == {"fact 1", "fact 6", "fact 8", "fact 13"}


@each("k", ["1", "1; DROP TABLE memories", 0, -1, 10**9, 1.0, None, True])
def test_a_number_of_results_is_a_number(memory: Memory, k: Any) -> None:
    for read in (memory.get_all, lambda **how: memory.search("fact", **how)):
        with pytest.raises(InvalidInputError, match="k must be"):
            read(user_id="keys", k=k)


@each("after", ["' OR 1=1 --", "0", "", "W10=", "eyJhIjoxfQ==", "WyIyMDI0IiwgMV0="])
def test_a_cursor_is_one_of_ours(memory: Memory, after: str) -> None:
    with pytest.raises(InvalidInputError, match="cursor"):
        memory.get_all(user_id="keys", after=after)


# ── queries ───────────────────────────────────────────────────────────────────────────────────────────────────────────

QUERIES = (
    "tea OR coffee", "tea AND NOT coffee", "NEAR(tea coffee, 5)", 'tea "green', '"""', "tea*", "^tea", "-tea",
    "text:tea", "scope:other", "user_id:other tea", "{text} : tea", "tea & coffee | !milk <-> :*", "tea) OR 1=1 --",
    "'; DROP TABLE words; --", "%", "_", "\\", "🦊", "\u202etea", "tea " * 50_000, "x" * 1_000_000,
)  # fmt: skip


def test_a_query_is_just_text(memory: Memory) -> None:
    user = uuid.uuid4().hex
    memory.add_many(
        [
            {"messages": text, "user_id": who, "infer": False}
            for who in (user, "other")
            for text in ("Likes green tea", "Hates coffee", "Owns 100% of a boat_house")
        ]
    )
    for query in QUERIES:
        hits = memory.search(query, user_id=user, k=100)
        assert {hit.item.scope.user_id for hit in hits} <= {user}
        if "tea" in query:
            assert "Likes green tea" in {hit.text for hit in hits}
    plain = [hit.text for hit in memory.search("green tea", user_id=user)]
    assert [hit.text for hit in memory.search('"green" AND (tea)', user_id=user)] == plain


@each("query", ["a\x00b", "\ud800", "", "  ", None, 3, ["tea"]])
def test_a_query_that_is_no_text_is_refused(memory: Memory, query: Any) -> None:
    with pytest.raises(InvalidInputError):
        memory.search(query, user_id="keys")


# ── whose memory it is ────────────────────────────────────────────────────────────────────────────────────────────────

LOOK_ALIKES = (
    *("alice", "Alice", "ALICE", " alice", "alice ", "alice\n", "alic\u0435", "ａlice", "alice\u200b"),
    *("a%", "a_", "ab", "a", "%", "_", "*", "?", "[a-z]", ".*", "a|b", "a|", "|b", "a:b", "a/b", "a.b", "a,b"),
    *(
        "o'hara",
        "o''hara",
        'o"hara',
        "x'; --",
        "' OR '1'='1",
        "$",
        "$.user",
        "null",
        "None",
        "NULL",
        "0",
        "1",
        "01",
        "1.0",
    ),
    *("é", "e\u0301", "ﬁ", "fi", "ß", "ss", "İ", "i", "🦊", "../x", "u" * 512, "u" * 511),
)


def _scopes() -> list[dict[str, Any]]:
    mixed = [{"user_id": "a|b"}, {"user_id": "a", "agent_id": "b"}, {"user_id": "a", "run_id": "b"}]
    mixed += [
        {"agent_id": "alice"},
        {"run_id": "alice"},
        {"user_id": "a|", "agent_id": "b"},
        {"user_id": "a", "agent_id": "|b"},
    ]
    return [*({"user_id": name} for name in LOOK_ALIKES), *mixed]


def test_ids_that_look_alike_are_strangers(memory: Memory) -> None:
    mark = uuid.uuid4().hex
    scopes = [scope for n, scope in enumerate(_scopes()) if scope not in _scopes()[:n]]
    memory.add_many(
        [{"messages": f"secret of {scope}", **scope, "infer": False, "metadata": {mark: 1}} for scope in scopes]
    )
    for scope in scopes:
        mine = {f"secret of {other}" for other in scopes if scope.items() <= other.items()}
        listed = memory.get_all(**scope, filters={mark: 1}, k=1000)
        assert {item.text for item in listed} == mine
        assert {hit.text for hit in memory.search("secret", **scope, filters={mark: 1}, k=1000)} == mine
        assert {item.text for item in memory.get_all(**scope, filters={**scope, mark: 1}, k=1000)} == mine
        name, value = next(iter(scope.items()))
        others = memory.get_all(**scope, filters={"OR": [{name: {"ne": value}}, {name: {"exists": False}}]}, k=1000)
        assert not others

    for gone in ("a%", "Alice", "*"):
        memory.delete_all(user_id=gone)
    left = sum(len(memory.get_all(**scope, filters={mark: 1}, k=1000)) == 0 for scope in scopes)
    assert left == 3


@each("user", ["", " ", "\t\n", "a\x00b", "\ud800", "u" * 513, 1, True, ["alice"], {"$ne": ""}, b"alice"])
def test_an_id_that_is_no_id_is_refused(memory: Memory, user: Any) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: memory.add("Likes tea", user_id=user),
        lambda: memory.search("tea", user_id=user),
        lambda: memory.get_all(user_id=user),
        lambda: memory.delete_all(user_id=user),
        lambda: memory.purge(user_id=user),
    ]
    for call in calls:
        with pytest.raises(ScopeError):
            call()


def test_nothing_is_read_or_erased_without_a_scope(memory: Memory) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: memory.add("Likes tea"),
        lambda: memory.search("tea", filters={"user_id": "keys"}),
        lambda: memory.get_all(filters={"user_id": "*"}),
        memory.delete_all,
        memory.purge,
    ]
    for call in calls:
        with pytest.raises(ScopeError, match="user_id"):
            call()


def test_a_filter_cannot_widen_the_scope(keyed: Memory) -> None:
    wide: list[dict[str, Any]] = [
        {"user_id": "other"},
        {"OR": [{"user_id": "other"}, {"user_id": "keys"}]},
        {"NOT": {"user_id": "keys"}},
        {"user_id": "*"},
        {"user_id": {"nin": []}},
    ]
    for filters in wide:
        assert "fact of somebody else" not in found(keyed, filters)


def test_anothers_id_is_the_same_as_none(keyed: Memory) -> None:
    theirs = keyed.get_all(user_id="other", filters={"said": "x"})[0].id
    errors: dict[str, set[str]] = {}
    for memory_id in (theirs, str(uuid.uuid4()), "' OR 1=1 --", "%"):
        calls: dict[str, Callable[[str], Any]] = {
            "get": lambda one: keyed.get(one, user_id="keys"),
            "update": lambda one: keyed.update(one, "changed", user_id="keys"),
            "delete": lambda one: keyed.delete(one, user_id="keys"),
            "history": lambda one: keyed.history(one, user_id="keys"),
            "restore": lambda one: keyed.restore(one, 1, user_id="keys"),
        }
        for name, call in calls.items():
            with pytest.raises(MemoryNotFoundError) as caught:
                call(memory_id)
            errors.setdefault(name, set()).add(str(caught.value).replace(repr(memory_id), "…"))
    assert {name: len(texts) for name, texts in errors.items()} == dict.fromkeys(errors, 1)
    assert keyed.get(theirs).text == "fact of somebody else"


# ── metadata ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_metadata_that_means_something_elsewhere_is_data_here(memory: Memory) -> None:
    constructor = {"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": "true"}}
    given: dict[str, Any] = {
        "lc": constructor,
        "__class__": "os",
        "__reduce__": ["os.system", ["true"]],
        "user_id": "root",
    }
    user = uuid.uuid4().hex
    memory.add("Likes tea", user_id=user, infer=False, metadata=given)
    item = memory.get_all(user_id=user)[0]
    assert item.metadata == given
    assert item.scope.user_id == user
    assert len(memory.get_all(user_id=user, filters={"metadata.user_id": "root", "lc.type": "constructor"})) == 1


def test_metadata_that_cannot_be_kept_is_refused(memory: Memory) -> None:
    deep: Any = {}
    for _ in range(10_000):
        deep = {"a": deep}
    for bad in (
        {"a": deep},
        {"a": "\ud800"},
        {"a\x00": 1},
        {"a": math.inf},
        {1: 2},
        {"a": {1, 2}},
        "text",
        {"a": Ellipsis},
    ):
        with pytest.raises(LangmemAdapterError):
            memory.add("Likes tea", user_id="keys", infer=False, metadata=bad)  # type: ignore[arg-type]
