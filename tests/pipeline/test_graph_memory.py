"""An add with a knowledge graph: one call more detailed, none more; relations live and end with the memories that say them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from langmem_adapter.memory.memory import Memory
from langmem_adapter.testing import ScriptedChatModel

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from langmem_adapter.records.graph import Relation
    from langmem_adapter.records.results import AddResult


def extraction(facts: list[str], *relations: tuple[str, str, str, int], **more: Any) -> str:
    named = {name for source, _, target, _ in relations for name in (source, target)}
    return json.dumps(
        {
            "facts": facts,
            "entities": [{"name": name, "type": "thing"} for name in sorted(named)],
            "relations": [
                {"source": source, "relation": relation, "target": target, "fact": fact, **more}
                for source, relation, target, fact in relations
            ],
        }
    )


def decision(*entries: dict[str, Any]) -> str:
    return json.dumps({"memory": list(entries)})


def events(result: AddResult) -> list[tuple[str, str]]:
    return [(change.event, change.relation.text) for each in result.results for change in each.relations]


def standing(memory: Memory) -> set[str]:
    return {relation.text for relation in memory.graph.relations(user_id="desmond") if relation.valid_to is None}


def shown(messages: list[BaseMessage]) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(
        next(line for line in str(messages[-1].content).splitlines() if line.startswith("{"))
    )
    return data


def test_facts_and_relations_come_from_one_call() -> None:
    # The seed's example: "My name is Desmond. I have a sister."
    model = ScriptedChatModel(replies=[extraction(["Has a sister"], ("user", "has", "sister", 0))])
    with Memory(":memory:", model=model, graph=True) as memory:
        result = memory.add("I have a sister.", user_id="desmond")
        assert result.usage.model_calls == 1
        assert [relation.text for relation in result.relations.added] == ["desmond has sister"]
        [relation] = memory.graph.relations(user_id="desmond")
        assert relation.memory_ids == (result.results[0].id,)


def test_graph_two_calls_at_most_where_something_is_known() -> None:
    replies = [
        extraction(["Lives in Berlin"], ("user", "lives_in", "Berlin", 0)),
        extraction(["Lives in Paris"], ("user", "lives_in", "Paris", 0)),
        decision({"id": "0", "text": "Lives in Paris", "event": "UPDATE", "fact": 0}),
    ]
    with Memory(":memory:", model=ScriptedChatModel(replies=replies), graph=True) as memory:
        memory.add("I live in Berlin.", user_id="desmond")
        result = memory.add("I moved to Paris.", user_id="desmond")
        assert result.usage.model_calls == 2
        assert events(result) == [("END", "desmond lives in Berlin"), ("ADD", "desmond lives in Paris")]
        assert [relation.text for relation in result.relations.ended] == ["desmond lives in Berlin"]
        assert not memory.graph.relations(user_id="desmond", as_of="2020-01-01")


def test_graph_a_search_asks_no_model() -> None:
    model = ScriptedChatModel(replies=[extraction(["Ann knows Ben"], ("Ann", "knows", "Ben", 0))])
    with Memory(":memory:", model=model, graph=True) as memory:
        memory.add("Ann knows Ben.", user_id="desmond")
        memory.search("Whom does Ann know?", user_id="desmond")
        memory.graph.search("Whom does Ann know?", user_id="desmond")
        assert len(model.calls) == 1


def test_graph_the_model_is_shown_the_names_that_are_known_of_this_scope_only() -> None:
    def nothing(_: list[BaseMessage]) -> str:
        return extraction([])

    first = extraction(["Ann works at Acme"], ("Ann", "works_at", "Acme", 0))
    model = ScriptedChatModel(replies=[first, nothing, nothing])
    with Memory(":memory:", model=model, graph=True) as memory:
        memory.add("Ann works at Acme.", user_id="desmond")
        memory.add("What does Ann do?", user_id="desmond")
        memory.add("What does Ann do?", user_id="ben")
        told, others = shown(model.calls[1]), shown(model.calls[2])
        assert {entity["name"] for entity in told["known_entities"]} >= {"Ann", "Acme"}
        assert told["known_relations"] == ["works_at"]
        assert others["known_entities"] == others["known_relations"] == []


def test_without_graph_nothing_of_it_is_asked_for_or_written() -> None:
    model = ScriptedChatModel(replies=[json.dumps({"facts": ["Has a sister"]})])
    with Memory(":memory:", model=model) as memory:
        result = memory.add("I have a sister.", user_id="desmond")
        assert '"relations"' not in str(model.calls[0]) and "known_entities" not in str(model.calls[0])
        assert events(result) == []
        assert not memory.graph.relations(user_id="desmond")


def test_graph_what_the_model_contradicts_is_over_and_stays_known() -> None:
    replies = [
        extraction(["Has a dog named Rex"], ("user", "has_dog", "Rex", 0)),
        extraction(["Gave the dog away"], ("user", "has_dog", "Rex", 0), ended=True),
        decision({"id": "0", "text": "Has a dog named Rex", "event": "DELETE", "fact": 0}),
    ]
    with Memory(":memory:", model=ScriptedChatModel(replies=replies), graph=True) as memory:
        memory.add("I have a dog named Rex.", user_id="desmond", timestamp="2024-01-01T00:00:00+00:00")
        result = memory.add("I gave the dog away.", user_id="desmond", timestamp="2025-01-01T00:00:00+00:00")
        assert events(result) == [("END", "desmond has dog Rex")]
        [then] = memory.graph.relations(user_id="desmond", as_of="2024-06-01")
        assert then.valid_to is not None and then.valid_to.year == 2025
        assert not memory.graph.relations(user_id="desmond", as_of="2025-06-01")


def test_a_rewritten_memory_takes_its_old_relations_with_it() -> None:
    replies = [
        extraction(["Plays chess"], ("user", "plays", "chess", 0)),
        extraction(["Plays tennis instead"], ("user", "plays", "tennis", 0)),
        decision({"id": "0", "text": "Plays tennis", "event": "UPDATE", "fact": 0}),
    ]
    with Memory(":memory:", model=ScriptedChatModel(replies=replies), graph=True) as memory:
        memory.add("I play chess.", user_id="desmond")
        memory.add("I play tennis instead now.", user_id="desmond")
        assert standing(memory) == {"desmond plays tennis"}


def test_graph_what_is_said_beside_it_stays() -> None:
    replies = [
        extraction(["Loves pizza"], ("user", "loves", "pizza", 0)),
        extraction(["Loves burgers"], ("user", "loves", "burgers", 0)),
        decision({"id": "9", "text": "Loves burgers", "event": "ADD", "fact": 0}),
    ]
    with Memory(":memory:", model=ScriptedChatModel(replies=replies), graph=True) as memory:
        memory.add("I love pizza.", user_id="desmond")
        memory.add("I love burgers, too.", user_id="desmond")
        assert standing(memory) == {"desmond likes pizza", "desmond likes burgers"}


def test_editing_deleting_and_restoring_a_memory_by_hand_does_the_same_to_its_relations() -> None:
    with Memory(":memory:", graph=True) as memory:
        home = str(memory.add("I live in Berlin.", user_id="desmond").results[0].id)
        changed = memory.update(home, "Lives in Bremen")
        assert [change.event for change in changed.relations] == ["DELETE"]
        restored = memory.restore(home, 1)
        assert [change.relation.text for change in restored.relations] == ["desmond lives in Berlin"]
        deleted = memory.delete(home)
        assert [change.event for change in deleted.relations] == ["DELETE"]
        assert standing(memory) == set()
        memory.restore(home, 1)
        assert standing(memory) == {"desmond lives in Berlin"}


def test_graph_a_repeated_add_changes_nothing_and_says_the_same() -> None:
    with Memory(":memory:", graph=True) as memory:
        once = memory.add("I live in Berlin.", user_id="desmond", idempotency_key="1")
        again = memory.add("I live in Berlin.", user_id="desmond", idempotency_key="1")
        assert again.relations == once.relations
        [relation] = memory.graph.relations(user_id="desmond")
        assert relation.mentions == 1


def test_relations_of_a_broken_reply_are_noted_and_cost_no_fact() -> None:
    broken = json.dumps({"facts": ["Has a sister"], "entities": [], "relations": [{"source": "user", "fact": 0}]})
    with Memory(":memory:", model=ScriptedChatModel(replies=[broken, broken]), graph=True) as memory:
        result = memory.add("I have a sister.", user_id="desmond")
        assert [change.text for change in result.by_event("ADD")] == ["Has a sister"]
        assert result.notes
        assert events(result) == []


def test_each_conversation_of_several_has_its_own_relations() -> None:
    with Memory(":memory:", graph=True) as memory:
        items = [
            {"messages": "I live in Lyon.", "user_id": "desmond"},
            {"messages": "I work at Acme.", "user_id": "desmond"},
        ]
        results: list[Any] = memory.add_many(items)
        assert [[relation.text for relation in result.relations.added] for result in results] == [
            ["desmond lives in Lyon"],
            ["desmond works at Acme"],
        ]


def test_facts_stored_as_said_have_no_relations() -> None:
    with Memory(":memory:", graph=True) as memory:
        assert events(memory.add("I live in Lyon.", user_id="desmond", infer=False)) == []


@pytest.mark.parametrize("answer", ["accept", "reject", "edit"])
def test_a_review_shows_relations_and_decides_on_them(answer: str) -> None:
    with Memory(":memory:", graph=True) as memory:
        graph = memory.build_pipeline(review=True, checkpointer=InMemorySaver())
        thread: Any = {"configurable": {"thread_id": "1"}}
        stopped = graph.invoke({"messages": "I live in Lyon.", "scope": {"user_id": "desmond"}}, thread)
        [told] = stopped["__interrupt__"][0].value["decisions"]
        assert [(each["relation"], each["target"]) for each in told["relations"]] == [("lives_in", "Lyon")]
        edited = {"0": {"action": "edit", "text": "Lives near Grenoble"}}
        graph.invoke(Command(resume=edited if answer == "edit" else answer), thread)
        assert standing(memory) == ({"desmond lives in Lyon"} if answer == "accept" else set())


def test_the_assistants_own_relations_stand_under_its_id() -> None:
    reply = extraction(["Knows French cooking"], ("assistant", "knows", "French cooking", 0))
    with Memory(":memory:", model=ScriptedChatModel(replies=[reply]), graph=True) as memory:
        talk = [{"role": "user", "content": "Hi!"}, {"role": "assistant", "content": "I know French cooking."}]
        result = memory.add(talk, user_id="desmond", agent_id="chef")
        relations: list[Relation] = list(result.relations.added)
        assert [relation.text for relation in relations] == ["chef knows French cooking"]


def test_a_trace_tells_what_was_said_of_relations() -> None:
    with Memory(":memory:", graph=True) as memory:
        result = memory.add("I live in Lyon.", user_id="desmond")
        trace = memory.trace(str(result.trace_id))
        assert trace.facts[0].relations[0].target == "Lyon"
        assert memory.replay(str(result.trace_id)).results[0].event == "NONE"
