"""Mem0's graph memory on both classes: who turns it on, and the dicts that come of it."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING

from langmem_adapter.adapters.mem0 import Memory, Results

if TYPE_CHECKING:
    import pytest

GRAPH = {"graph_store": {"provider": "sql"}, "history_db_path": ":memory:"}
# The conversation of Mem0's own users: what a model answers to each message, for extraction and for comparison.


def row(source: str, relationship: str, **target: str) -> dict[str, str]:
    return {"source": source, "relationship": relationship, **target}


def test_what_a_message_ends_is_told_as_deleted() -> None:
    memory = Memory.from_config(GRAPH)
    memory.add("I live in Lyon.", user_id="alice")
    added = memory.add("I moved to Oslo.", user_id="alice")
    assert added["relations"] == {
        "deleted_entities": [[row("alice", "lives_in", target="Lyon")]],
        "added_entities": [[row("alice", "lives_in", target="Oslo")]],
    }
    assert (memory.get_all(user_id="alice"))["relations"] == [row("alice", "lives_in", target="Oslo")]
    memory.close()


def test_a_limit_bounds_the_relations_and_a_search_shows_five() -> None:
    memory = Memory.from_config(GRAPH)
    for number in range(7):
        memory.engine.graph.add("Anna", "likes", f"tea {number}", user_id="alice")
    assert len((memory.get_all(user_id="alice"))["relations"]) == 7
    assert len((memory.get_all(user_id="alice", limit=2))["relations"]) == 2
    assert len((memory.search("What does Anna like?", user_id="alice"))["relations"]) == 5
    assert len((memory.search("What does Anna like?", user_id="alice", top_k=2))["relations"]) == 2
    memory.close()


def test_filters_never_show_relations_of_memories_that_they_hide() -> None:
    memory = Memory.from_config(GRAPH)
    for user, city in (("alice", "Lyon"), ("bob", "Oslo"), ("carol", "Rome")):
        memory.add(f"I live in {city}.", user_id=user, agent_id="x", metadata={"city": city})
    scoped = {"AND": [{"user_id": "alice"}, {"agent_id": "x"}]}
    either = {"agent_id": "x", "OR": [{"user_id": "alice"}, {"user_id": "bob"}]}
    for filters, cities in (
        (scoped, {"Lyon"}),
        (either, {"Lyon", "Oslo"}),
        ({"agent_id": "x", "city": "Rome"}, {"Rome"}),
    ):
        found = memory.search("Who lives where?", filters=filters)
        listed = memory.get_all(filters=filters)
        assert {each["destination"] for each in found["relations"]} == cities
        assert {each["target"] for each in listed["relations"]} == cities
    memory.close()


def test_deleting_takes_the_relations_along() -> None:
    memory = Memory.from_config(GRAPH)
    added = memory.add("I live in Lyon.", user_id="alice")
    memory.delete(added[0]["id"])
    assert (memory.get_all(user_id="alice"))["relations"] == []
    for user in ("alice", "bob"):
        memory.add("I live in Lyon.", user_id=user)
        memory.engine.graph.add("Anna", "knows", "Ben", user_id=user)
    memory.delete_all(user_id="alice")
    assert (memory.get_all(user_id="alice"))["relations"] == []
    assert len((memory.get_all(user_id="bob"))["relations"]) == 2
    memory.reset()
    assert (memory.get_all(user_id="bob"))["relations"] == []
    assert memory.engine.stats().entities == 0
    memory.close()


def test_without_a_graph_store_there_are_no_relations_unless_the_settings_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for wanted, keys in (("0", ["results"]), ("1", ["results", "relations"])):
        monkeypatch.setenv("LANGMEM_ADAPTER_GRAPH", wanted)
        memory = Memory.from_config({"history_db_path": ":memory:"})
        assert list((memory.add("I live in Lyon.", user_id="alice")).keys()) == keys
        assert list((memory.search("Lyon", user_id="alice")).keys()) == keys
        memory.close()


def test_results_with_relations_are_copied_whole() -> None:
    result = Results([], relations=[row("a", "likes", target="b")])
    assert pickle.loads(pickle.dumps(result)) == copy.deepcopy(result) == result  # noqa: S301 - our own bytes
    assert result.get("relations") == [row("a", "likes", target="b")] and len(result) == 0
