"""Mem0's methods on both classes: parameters, dicts, errors."""

from __future__ import annotations

import inspect
import json
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from langmem_adapter.adapters.mem0 import AsyncMemory, Memory, MemoryConfig
from langmem_adapter.errors import (
    FilterError,
    InvalidInputError,
    ScopeError,
    UnknownArgumentError,
)
from langmem_adapter.testing import ScriptedChatModel
from tests.cases import each

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

METHODS = "add search get get_all update delete delete_all history reset chat".split()
BASE = {"id", "memory", "hash", "metadata", "created_at", "updated_at"}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    opened = Memory.from_config({"history_db_path": str(tmp_path / "m.db")})
    yield opened
    opened.close()


def texts(memory: Memory, **scope: Any) -> set[str]:
    return {row["text"] for row in memory.get_all(**scope)}


# ── one truth ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@each("name", METHODS)
def test_both_classes_have_the_same_parameters(name: str) -> None:
    one, other = getattr(Memory, name), getattr(AsyncMemory, name)
    assert inspect.signature(one) == inspect.signature(other)
    assert one.__name__ == other.__name__ == name
    assert inspect.iscoroutinefunction(other) and not inspect.iscoroutinefunction(one)
    assert one.__doc__ and other.__doc__


async def test_mem0_1_awaits_from_config_and_mem0_2_does_not() -> None:
    memory = AsyncMemory.from_config({"history_db_path": ":memory:"})
    assert await memory is memory
    async with memory:
        (added,) = await memory.add("I like tea.", user_id="a")
        for rows in (await memory.search("tea", user_id="a"), await memory.get_all(user_id="a")):
            assert [row["id"] for row in rows] == [added["id"]]
    with Memory.from_config({"history_db_path": ":memory:"}) as blocking:
        assert len(blocking.add("I like tea.", user_id="a")) == 1


# ── shapes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_update_carries_the_memory_before_and_none_is_not_listed() -> None:
    replies = [
        {"facts": ["Has a sister"]},
        {"facts": ["Has a sister named Jesica"]},
        {"memory": [{"id": "0", "text": "Has a sister named Jesica", "event": "UPDATE", "old_memory": "Has a sister"}]},
        {"facts": ["Has a sister named Jesica"]},
    ]
    model = ScriptedChatModel(replies=[json.dumps(reply) for reply in replies])
    config = {"llm": {"provider": "langchain", "config": {"model": model}}, "history_db_path": ":memory:"}
    memory = Memory.from_config(config)
    first = memory.add("I have a sister.", user_id="d")
    second = memory.add("My sister's name is Jesica.", user_id="d")
    assert second["results"] == [
        {
            "id": first[0]["id"],
            "memory": "Has a sister named Jesica",
            "event": "UPDATE",
            "previous_memory": "Has a sister",
        }
    ]
    assert memory.add("My sister's name is Jesica.", user_id="d") == {"results": []}
    assert memory.engine.mode == "scripted" and len(model.calls) == 4
    steps = memory.history(first[0]["id"])
    assert [(step["old_memory"], step["new_memory"], step["event"]) for step in steps] == [
        (None, "Has a sister", "ADD"),
        ("Has a sister", "Has a sister named Jesica", "UPDATE"),
    ]
    memory.close()


def test_add_lists_the_words_that_are_kept_where_a_reply_of_the_model_cannot_be_used() -> None:
    model = ScriptedChatModel(replies=["Certainly!", "I cannot say.", "Well."])
    config = {"llm": {"provider": "langchain", "config": {"model": model}}, "history_db_path": ":memory:"}
    memory = Memory.from_config(config)
    words = "The blue folder stays on the upper shelf."
    added = memory.add(words, user_id="d")
    assert [(row["memory"], row["event"]) for row in added["results"]] == [(words, "ADD")]
    assert [row["id"] for row in memory.get_all(user_id="d")] == [added["results"][0]["id"]]
    memory.close()


def test_without_inference_every_message_is_kept_with_its_speaker(memory: Any) -> None:
    messages = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Good morning", "name": "bob"},
        {"role": "assistant", "content": "Good morning"},
    ]
    added = memory.add(messages, user_id="alice", infer=False)
    assert [{key: row[key] for key in row if key != "id"} for row in added] == [
        {"memory": "Good morning", "event": "ADD", "actor_id": "bob", "role": "user"},
        {"memory": "Good morning", "event": "ADD", "actor_id": None, "role": "assistant"},
    ]
    shown = memory.get(added[0]["id"])
    assert shown["actor_id"] == "bob" and shown["role"] == "user"
    assert "actor_id" not in memory.get(added[1]["id"])


def test_rows_have_mem0s_keys(memory: Any) -> None:
    memory.add("I live in Lyon.", user_id="alice", agent_id="guide", metadata={"topic": "home"})
    (found,) = memory.search("Where does she live?", user_id="alice")
    (listed,) = memory.get_all(agent_id="guide")
    got = memory.get(found["id"])
    assert set(found) == BASE | {"score", "user_id", "agent_id", "role", "attributed_to"}
    assert set(listed) == set(found) - {"score"} and got == {**listed, "score": None}
    assert found["memory"] == found["text"] == "Lives in Lyon" and found["score"] > 0
    assert found["metadata"] == {"topic": "home"} and found["user_id"] == "alice" and found["agent_id"] == "guide"
    assert found["updated_at"] == found["created_at"] and found["attributed_to"] == "user"
    memory.update(found["id"], data="Lives in Paris", metadata={"topic": None})
    changed = memory.get(found["id"])
    assert changed["memory"] == "Lives in Paris" and changed["metadata"] is None
    assert changed["updated_at"] > changed["created_at"] == found["created_at"]
    assert changed["hash"] != found["hash"]


def test_messages_and_history_of_edits(memory: Any) -> None:
    (added,) = memory.add("I live in Lyon.", user_id="alice", timestamp="2023-05-01T10:00:00Z")
    which = added["id"]
    assert memory.update(which, "Lives in Paris") == {"message": "Memory updated successfully!"}
    assert memory.update(memory_id=which, text="Lives in Rome") == {"message": "Memory updated successfully!"}
    assert memory.delete(which) == {"message": "Memory deleted successfully!"}
    assert memory.get(which) is None
    steps = memory.history(memory_id=which)
    columns = "id memory_id old_memory new_memory event created_at updated_at is_deleted actor_id role".split()
    assert all(list(step) == columns for step in steps) and len({step["id"] for step in steps}) == 4
    assert [(s["old_memory"], s["new_memory"], s["event"], s["is_deleted"]) for s in steps] == [
        (None, "Lives in Lyon", "ADD", 0),
        ("Lives in Lyon", "Lives in Paris", "UPDATE", 0),
        ("Lives in Paris", "Lives in Rome", "UPDATE", 0),
        ("Lives in Rome", None, "DELETE", 1),
    ]
    assert {step["created_at"] for step in steps} == {"2023-05-01T10:00:00+00:00"}
    assert steps[0]["updated_at"] == steps[0]["created_at"] and all(step["updated_at"] for step in steps[1:])
    json.dumps(steps)


def test_delete_all_deletes_one_scope_and_reset_everything(memory: Any) -> None:
    for user in ("alice", "bob", "*"):
        memory.add("I live in Lyon.", user_id=user)
    assert texts(memory, user_id="*") == {"Lives in Lyon"}
    assert memory.delete_all(user_id="*") == {"message": "Memories deleted successfully!"}
    assert texts(memory, user_id="alice") == texts(memory, user_id="bob") == {"Lives in Lyon"}
    assert memory.delete_all("bob") == {"message": "Memories deleted successfully!"}
    assert texts(memory, user_id="bob") == set()
    assert memory.reset() is None
    assert texts(memory, user_id="alice") == set()


def test_memory_type_procedural_memory_is_one_record() -> None:
    model = ScriptedChatModel(replies=["1. Opened the page. 2. Read the price: 12 euros."])
    config = {"llm": {"provider": "langchain", "config": {"model": model}}, "history_db_path": ":memory:"}
    memory = Memory.from_config(config)
    steps = [{"role": "user", "content": "What does it cost?"}, {"role": "assistant", "content": "12 euros."}]
    (added,) = memory.add(steps, agent_id="shop", memory_type="procedural_memory")
    assert added["event"] == "ADD" and "12 euros" in added["memory"]
    (row,) = memory.get_all(agent_id="shop")
    assert row["metadata"] == {"memory_type": "procedural_memory"}
    with pytest.raises(InvalidInputError, match="memory_type"):
        memory.add(steps, agent_id="shop", memory_type="semantic")
    memory.close()


# ── expiry and bounds ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_expiration_date_is_the_last_day(memory: Any) -> None:
    (kept,) = memory.add("I live in Lyon.", user_id="a", expiration_date="2100-12-31")
    (gone,) = memory.add("I like tea.", user_id="a", expiration_date=date(2020, 1, 1))
    assert (memory.get(kept["id"]))["expiration_date"] == "2100-12-31"
    assert (memory.get(gone["id"]))["expiration_date"] == "2020-01-01"
    assert texts(memory, user_id="a") == {"Lives in Lyon"}
    memory.update(gone["id"], expiration_date=None)
    assert texts(memory, user_id="a") == {"Lives in Lyon", "Likes tea"}
    assert "expiration_date" not in memory.get(gone["id"])
    for wrong in ("soon", 7, date.max):
        with pytest.raises(InvalidInputError, match="expiration_date"):
            memory.add("I like tea.", user_id="a", expiration_date=wrong)


NESTED: Any = {}
for _ in range(10_000):
    NESTED = {"NOT": [NESTED]}


def test_search_has_the_defaults_of_mem0_2_where_the_scope_is_in_filters(memory: Any) -> None:
    memory.add([f"Likes tea of kind {n}" for n in range(25)], user_id="a", infer=False)
    memory.add("I adopted a cat named Miso", user_id="b", infer=False)
    recent: dict[str, Any] = {"filters": {"user_id": "a"}}
    older: dict[str, Any] = {"user_id": "a"}
    assert [len(memory.search("tea", **scope)) for scope in (recent, older)] == [20, 25]
    assert [len(memory.get_all(**scope)) for scope in (recent, older)] == [20, 25]
    other: list[dict[str, Any]] = [{"threshold": 0.1}, {}, {"threshold": None}]
    rows = [memory.search("Which guitar did I buy?", filters={"user_id": "b"}, **each) for each in other]
    assert [len(each) for each in rows] == [0, 0, 1]
    assert len(memory.search("Which guitar did I buy?", user_id="b")) == 1
    for method in (["search", "tea"], ["get_all"]):
        assert (getattr(memory, method[0])(*method[1:], **recent, top_k=0))["results"] == []


def test_search_show_expired_finds_what_has_expired(memory: Any) -> None:
    memory.add("I like tea.", user_id="a", metadata={"n": 1}, expiration_date="2020-01-01")
    for filters in ({"user_id": "a"}, {"user_id": "a", "n": 1}):
        assert len(memory.search("tea", filters=filters)) == 0
        assert [row["memory"] for row in memory.search("tea", filters=filters, show_expired=True)] == ["Likes tea"]


def test_version_1_0_gives_bare_lists() -> None:
    memory = Memory.from_config({"version": "v1.0", "history_db_path": ":memory:"})
    added = memory.add("I live in Lyon.", user_id="alice")
    found = memory.search("Lyon", user_id="alice")
    listed = memory.get_all(user_id="alice")
    assert type(added) is type(found) is type(listed) is list
    assert added[0]["event"] == "ADD" and found[0]["text"] == listed[0]["memory"] == "Lives in Lyon"
    assert not memory.get_all(user_id="bob")
    assert memory.bare
    memory.close()


def test_attributes_db_llm_embedding_model_and_vector_store_are_for_reading() -> None:
    model = ScriptedChatModel(replies=["Hello."])
    memory = Memory.from_config(
        {"llm": {"provider": "langchain", "config": {"model": model}}, "history_db_path": ":memory:"}
    )
    (added,) = memory.add("I like tea.", user_id="a", metadata={"n": 1}, infer=False)
    assert memory.db.get_history(added["id"]) == memory.history(added["id"])
    assert memory.db.get_history("nobody") == []
    assert memory.llm is not None and memory.llm.generate_response([{"role": "user", "content": "Hi"}]) == "Hello."
    assert memory.embedding_model.embed("tea") == memory.embedding_model.embed("tea", "search")
    assert memory.vector_store == "faiss"
    with pytest.raises(AttributeError):
        memory.llm = None  # type: ignore[misc]
    memory.close()


# ── filters ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def filled(memory: Any) -> Any:
    for user in ("alice", "bob"):
        for topic, text in (("food", "Likes tea"), ("home", "Lives in Lyon")):
            memory.add(text, user_id=user, metadata={"topic": topic}, infer=False)
    return memory


def test_filters_carry_the_scope_as_today_and_metadata(filled: Memory) -> None:
    for filters in (
        {"user_id": "alice", "topic": "food"},
        {"AND": [{"user_id": "alice"}, {"topic": "food"}]},
        {"user_id": "alice", "AND": [{"topic": "food"}, {"AND": [{"user_id": "alice"}]}]},
    ):
        for rows in (
            filled.get_all(filters=filters),
            filled.search("tea", filters=filters),
            filled.search("anything", user_id="alice", filters=filters),
        ):
            assert [(row["user_id"], row["memory"]) for row in rows] == [("alice", "Likes tea")]


@each(
    ("filters", "scope"),
    [
        ({"user_id": "bob"}, {"user_id": "alice"}),
        ({"user_id": "alice", "AND": [{"user_id": "bob"}]}, {}),
        ({"AND": [{"run_id": "1"}, {"run_id": "2"}]}, {}),
        ({"topic": "food"}, {}),
        ({}, {}),
        ({"user_id": None}, {}),
        ({"user_id": " "}, {}),
        ({"user_id": True}, {}),
    ],
)
def test_a_scope_that_is_missing_or_contradicts_itself_is_an_error(
    filled: Memory, filters: dict[str, Any], scope: dict[str, str]
) -> None:
    for method in (["get_all"], ["search", "x"]):
        with pytest.raises(ScopeError):
            getattr(filled, method[0])(*method[1:], filters=filters, **scope)


@each(
    ("filters", "homes"),
    [
        ({"OR": [{"topic": "food"}, {"topic": "home"}]}, 2),
        ({"AND": [{"topic": {"ne": "food"}}, {"OR": [{"user_id": "alice"}, {"user_id": "bob"}]}]}, 1),
        ({"topic": {"in": ["home", "work"]}}, 1),
        ({"topic": "*"}, 2),
        ({"user_id": {"exists": True}, "topic": "home"}, 1),
        ({"metadata": {"topic": "*"}, "NOT": [{"metadata": {"user_id": "*"}}]}, 2),
        ({"created_at": {"gte": "2020-01-01"}, "topic": "home"}, 1),
        ({"text": {"contains": "Lyon"}}, 1),
    ],
)
def test_filters_are_those_of_the_engine(filled: Memory, filters: Any, homes: int) -> None:
    for method in (["get_all"], ["search", "x"]):
        rows = getattr(filled, method[0])(*method[1:], user_id="alice", filters=filters)
        assert len(rows) == homes
        assert {row["user_id"] for row in rows} <= {"alice"}


def test_a_star_as_an_id_of_a_filter_reaches_nobody_unasked(filled: Memory) -> None:
    for user, run in (("alice", "1"), ("bob", "1"), ("*", None)):
        filled.add(f"Secret of {user}.", user_id=user, run_id=run, infer=False)
    several: list[dict[str, Any]] = [
        {"user_id": "*", "run_id": "1"},
        {"run_id": "1", "AND": [{"user_id": " * "}]},
        {"user_id": "alice", "OR": [{"topic": "food"}, {"$not": {"agent_id": "*"}}]},
    ]
    for method in (["get_all"], ["search", "secret"]):
        for filters in several:
            with pytest.raises(ScopeError, match=r"_id' is '\*'.*exists"):
                getattr(filled, method[0])(*method[1:], filters=filters)
        rows = getattr(filled, method[0])(*method[1:], filters={"user_id": {"eq": "*"}})
        assert [row["memory"] for row in rows] == ["Secret of *."]


def test_a_wildcard_or_a_choice_names_no_scope(filled: Memory) -> None:
    everybody: list[dict[str, Any]] = [
        {"user_id": {"exists": True}},
        {"user_id": ["alice", "bob"]},
        {"OR": [{"user_id": "alice"}, {"user_id": "bob"}]},
        {"NOT": {"user_id": "carol"}},
        {"user_id": {"ne": "carol"}},
    ]
    for filters in everybody:
        for method in (["get_all"], ["search", "x"]):
            with pytest.raises(ScopeError):
                getattr(filled, method[0])(*method[1:], filters=filters)


@each(
    ("filters", "named"),
    [
        ({"$or": []}, "or"),
        ({"AND": {"topic": "food"}}, "AND"),
        ({"size": {"$gtt": 2}}, "gt"),
        ({"size": {"foo": 1}}, "'foo' is no operator"),
        ({"and": [{"topic": "food"}]}, "'and' is no operator: write AND"),
        ({"data": "Likes tea"}, "'text'"),
        ({"OR": [{"hash": "x"}, {"topic": "food"}]}, "hash"),
        ({"expiration_date": "2024-01-01"}, "expires_at"),
        (["topic"], "mapping"),
        (NESTED, "flatten"),
    ],
)
def test_what_is_no_filter_is_refused_and_named(filled: Memory, filters: Any, named: str) -> None:
    for method in (["get_all"], ["search", "x"]):
        with pytest.raises(FilterError, match=named):
            getattr(filled, method[0])(*method[1:], user_id="alice", filters=filters)


# ── errors ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("method", "options", "hint"),
    [
        (["add", "I like tea."], {"user": "alice"}, "did you mean 'user_id'"),
        (["search", "tea"], {"user_id": "a", "topk": 3}, "did you mean 'top_k'"),
        (["get_all"], {"user_id": "a", "limits": 3}, "did you mean 'limit'"),
        (["delete_all"], {"userid": "a"}, "did you mean 'user_id'"),
    ],
)
def test_unknown_arguments_are_errors_with_a_hint(
    memory: Memory, method: list[str], options: dict[str, Any], hint: str
) -> None:
    with pytest.raises(UnknownArgumentError, match=hint):
        getattr(memory, method[0])(*method[1:], **options)


def test_a_configuration_object_serves_and_a_dict_points_to_from_config() -> None:
    memory = Memory(MemoryConfig(history_db_path=":memory:"))
    assert memory.engine.mode == "offline" and "Memory" in repr(memory)
    memory.close()
    with pytest.raises(InvalidInputError, match="from_config"):
        Memory({"history_db_path": ":memory:"})  # type: ignore[arg-type]
