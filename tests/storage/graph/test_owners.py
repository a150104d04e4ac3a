"""The user of a scope is somebody of his own, and so is its agent: whoever has the same name is somebody else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from langmem_adapter.memory.memory import Memory
from langmem_adapter.storage.graph.hints import load_names
from langmem_adapter.testing import ScriptedChatModel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.storage.graph.small_graph import Graph


@pytest.fixture
def memory(database_url: str) -> Iterator[Memory]:
    with Memory(database_url, graph=True) as opened:
        yield opened


def texts(memory: Memory, **asked: Any) -> set[str]:
    return {relation.text for relation in memory.graph.relations(**asked)}


def replies() -> Iterator[str]:
    for source, city, fact in [("user", "Lyon", "Lives in Lyon"), ("Anna", "Oslo", "Friend Anna lives in Oslo")]:
        related = {"source": source, "relation": "lives_in", "target": city, "fact": 0}
        yield json.dumps({"facts": [fact], "entities": [], "relations": [related]})
        yield json.dumps({"memory": [{"id": "", "text": fact, "event": "ADD", "fact": 0}]})


@pytest.mark.parametrize("user", ["anna", "Anna"])
@pytest.mark.parametrize("rules", [True, False], ids=["rules", "model"])
def test_relation_of_a_namesake_ends_none_of_the_user(user: str, rules: bool) -> None:  # noqa: FBT001
    told = list(replies())
    model = ScriptedChatModel(replies=[told[0], *told[2:]])
    with Memory(":memory:", model="offline" if rules else model, graph=True) as memory:
        memory.add("I live in Lyon.", user_id=user)
        memory.add("My friend Anna lives in Oslo.", user_id=user)
        for name in ("user", "me", user):
            assert f"{user} lives in Lyon" in texts(memory, user_id=user, entity=name)
            assert "Anna lives in Oslo" not in texts(memory, user_id=user, entity=name)
        assert "Anna lives in Oslo" in texts(memory, user_id=user, entity="ANNA")
        assert f"{user} lives in Lyon" not in texts(memory, user_id=user, entity="ANNA")


def test_relation_of_the_user_to_a_namesake(memory: Memory) -> None:
    memory.graph.add("me", "knows", "Anna", user_id="anna")
    memory.graph.add("Anna", "lives in", "Oslo", user_id="anna")
    [knows, lives] = memory.graph.path("anna", "Oslo", user_id="anna")
    assert (knows.text, lives.text) == ("anna knows Anna", "Anna lives in Oslo")
    assert [near.entity.name for near in memory.graph.neighbours("me", user_id="anna")] == ["Anna"]
    assert memory.graph.draw(user_id="anna").count('["') == 3


def test_user_id_names_the_user_in_calls_and_not_in_conversations(graph: Graph) -> None:
    user = str(graph.scope.user_id)
    graph.said("user lives_in Lyon")
    graph.said(f"{user} lives_in Rome", when=2021)
    assert graph.now() == ["alice lives_in Lyon 2020-2021", "alice lives_in Rome 2021-"]
    graph.add("Somebody of this name lives in Oslo", f"{user} lives_in Oslo", when=2022)
    assert graph.now() == ["alice lives_in Lyon 2020-2021", "alice lives_in Oslo 2022-", "alice lives_in Rome 2021-"]


def test_entity_of_one_user_id_is_one_in_all_scopes(memory: Memory) -> None:
    for run, city in (("1", "Lyon"), ("2", "Rome")):
        memory.graph.add("me", "lives in", city, user_id="anna", agent_id="bot", run_id=run)
        memory.graph.add("me", "lives in", city, user_id="Anna", agent_id="bot", run_id=run)
    assert texts(memory, user_id="anna", entity="me") == {"anna lives in Lyon", "anna lives in Rome"}
    names = [entity.name for entity in memory.graph.entities(agent_id="bot")]
    assert sorted(names) == ["Anna", "Lyon", "Rome", "anna"]
    assert texts(memory, agent_id="bot", entity="anna") == {"anna lives in Lyon", "anna lives in Rome"}
    assert len(texts(memory, agent_id="bot", entity="me")) == 4


def test_user_id_and_agent_id_alike_are_two_entities(memory: Memory) -> None:
    memory.graph.add("user", "named", "Max", user_id="bob", agent_id="bob")
    memory.graph.add("assistant", "named", "Moritz", user_id="bob", agent_id="bob")
    assert texts(memory, user_id="bob", entity="user") == {"bob named Max"}
    assert texts(memory, user_id="bob", entity="assistant") == {"bob named Moritz"}


def test_merge_and_split_of_a_namesake_and_the_user(memory: Memory) -> None:
    memory.graph.add("me", "likes", "tea", user_id="anna")
    memory.graph.add("ANNA", "likes", "cake", user_id="anna")
    assert memory.graph.merge("ANNA", "anna", user_id="anna") == 1
    assert texts(memory, user_id="anna", entity="Anna") == {"anna likes tea", "anna likes cake"}
    assert memory.graph.split("ANNA", user_id="anna") == 1
    assert texts(memory, user_id="anna", entity="me") == {"anna likes tea"}
    memory.graph.merge("me", "ANNA", user_id="anna")
    memory.graph.add("user", "likes", "jazz", user_id="anna")
    assert texts(memory, user_id="anna", entity="me") == {"ANNA likes tea", "ANNA likes cake", "ANNA likes jazz"}
    memory.graph.split("anna", user_id="anna")
    assert texts(memory, user_id="anna", entity="me") == {"anna likes tea"}


def test_load_names_leave_out_user_and_agent(graph: Graph) -> None:
    graph.said("user likes Bob")
    graph.said("assistant likes Bob")
    with graph.ledger.database.read() as connection:
        names, _ = load_names(connection, graph.scope, [str(graph.scope.user_id)])
    assert [name for name, _ in names] == ["Bob"]


def test_update_of_a_named_speaker_keeps_relations_of_that_speaker(memory: Memory) -> None:
    def said(text: str) -> Any:
        return memory.add({"role": "user", "name": "Nate", "content": text}, user_id="talk").results[0]

    boston = said("I live in Boston.")
    memory.update(boston.id, "Lives in Boston, near the river")
    memory.delete(boston.id)
    memory.restore(boston.id, 2)
    assert texts(memory, user_id="talk") == {"Nate lives in Boston"}
