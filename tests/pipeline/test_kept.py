"""What is kept with a chat model: nothing that was said is lost in a decision, and relations are those of the stored text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from langmem_adapter.memory.memory import Memory
from langmem_adapter.testing import ScriptedChatModel
from tests.benchmarks.material import requested

ANN = "ann"


def opened(*replies: Any, **options: Any) -> Memory:
    return Memory(":memory:", model=ScriptedChatModel(replies=[json.dumps(reply) for reply in replies]), **options)


def fact(text: str, *relations: tuple[str, str, str]) -> dict[str, Any]:
    links = [dict(zip(("source", "relation", "target"), link, strict=True)) for link in relations]
    return {"text": text, "turn": 0, "date": None, "relations": links}


def entry(event: str, number: int | None, text: str | None, **more: Any) -> dict[str, Any]:
    return {"fact": 0, "event": event, "id": None if number is None else str(number), "text": text, **more}


def texts(memory: Memory) -> set[str]:
    return {item.text for item in memory.get_all(user_id=ANN)}


def held(memory: Memory) -> set[tuple[str, str, str]]:
    relations = memory.graph.relations(user_id=ANN)
    return {(each.source, each.relation, each.target) for each in relations if each.valid_to is None}


@pytest.mark.parametrize("graph", [False, True])
def test_add_what_ends_one_thing_and_begins_another_is_both(*, graph: bool) -> None:
    left = fact("Left Acme for Globex", ("user", "works_at", "Globex"))
    with opened(
        {"facts": [fact("Works at Acme", ("user", "works_at", "Acme"))]},
        {"facts": [left]},
        {"memory": [entry("DELETE", 0, None)]},
        graph=graph,
    ) as memory:
        memory.add("I work at Acme.", user_id=ANN)
        result = memory.add("I left Acme for Globex.", user_id=ANN)
        assert [change.event for change in result.results] == ["DELETE", "ADD"]
        assert texts(memory) == {"Left Acme for Globex"}
        assert held(memory) == ({("ann", "works_at", "Globex")} if graph else set())


def test_add_relations_are_those_of_the_text_that_is_stored() -> None:
    has_dog = {"source": "Jesica", "relation": "has_pet", "target": "dog"}
    with opened(
        {"facts": [fact("Sister is called Jesica", ("user", "has_sister", "Jesica"))]},
        {"facts": [fact("She has a dog", ("she", "has_pet", "dog"))]},
        {"facts": [fact("She has a dog", ("she", "has_pet", "dog"))]},
        {"memory": [entry("ADD", None, "Jesica has a dog", relations=[has_dog])]},
        graph=True,
    ) as memory:
        memory.add("My sister is called Jesica.", user_id=ANN)
        result = memory.add("She has a dog.", user_id=ANN)
        assert "source is a pronoun" in result.notes[0]
        assert texts(memory) == {"Sister is called Jesica", "Jesica has a dog"}
        assert held(memory) == {("ann", "has_sister", "Jesica"), ("Jesica", "has_pet", "dog")}


def asked_to_forget(*entries: dict[str, Any]) -> Memory:
    memory = opened(
        {"facts": [fact("Works at Acme")]}, {"facts": [fact("Forget: works at Acme")]}, {"memory": [*entries]}
    )
    memory.add("I work at Acme.", user_id=ANN)
    return memory


def test_who_asks_to_forget_something_has_it_deleted() -> None:
    with asked_to_forget(entry("DELETE", 0, None)) as memory:
        result = memory.add("Please forget that I work at Acme.", user_id=ANN)
        assert [(change.event, change.text) for change in result.results] == [("DELETE", "Works at Acme")]
        assert texts(memory) == set()
        assert result.notes == ()


@pytest.mark.parametrize(
    "answer",
    [entry("NONE", None, None), entry("ADD", None, "Wants Acme forgotten"), entry("UPDATE", 0, "Forget Acme")],
    ids=["none", "add", "update"],
)
def test_add_what_is_not_clear_is_said_and_changes_nothing(answer: dict[str, Any]) -> None:
    with asked_to_forget(answer) as memory:
        result = memory.add("Please forget Acme.", user_id=ANN)
        assert texts(memory) == {"Works at Acme"}
        assert [change.event for change in result.results] == ["NONE"]
        assert result.notes == ("'Forget: works at Acme': no memory matches the forget request",)


def test_where_nothing_is_known_a_wish_to_forget_becomes_no_memory() -> None:
    with opened({"facts": [fact("Forget: works at Acme")]}) as memory:
        result = memory.add("Please forget Acme.", user_id=ANN)
        assert texts(memory) == set()
        assert len(result.notes) == 1


def test_add_what_only_begins_like_a_wish_is_kept_as_it_is_and_can_be_forgotten() -> None:
    wish = "Forget: buy milk"
    with opened("Forget: ask first", {"facts": [fact(wish)]}, {"memory": [entry("DELETE", 0, None)]}) as memory:
        assert [change.event for change in memory.add(wish, user_id=ANN, infer=False).results] == ["ADD"]
        memory.add("Remove the step.", user_id=ANN, agent_id="bot", memory_type="procedural_memory")
        assert len(texts(memory)) == 2
        memory.add("Forget that I have to buy milk.", user_id=ANN)
        assert wish not in texts(memory)


@pytest.mark.parametrize(
    ("said", "wish", "kept"),
    [
        ("I live in Lyon. I like tea.", "Please forget that I live in Lyon.", {"Likes tea"}),
        ("I live in Lyon. I like tea.", "Forget that I like green tea!", {"Lives in Lyon", "Likes tea"}),
        (
            "I live in Lyon. I like tea.",
            "Forget that I live in Lyon and that I like tea.",
            {"Lives in Lyon", "Likes tea"},
        ),
        ("我住在里昂。我喜欢绿茶。", "请忘掉我住在里昂。", {"喜欢绿茶"}),
        ("我住在里昂。我喜欢绿茶。", "请忘掉我住在巴黎。", {"住在里昂", "喜欢绿茶"}),
    ],
)
def test_the_rules_forget_what_a_memory_says_in_so_many_words(said: str, wish: str, kept: set[str]) -> None:
    with Memory(":memory:") as memory:
        memory.add(said, user_id=ANN)
        result = memory.add(wish, user_id=ANN)
        assert texts(memory) == kept
        assert bool(result.notes) == (not result.by_event("DELETE"))


def keys_and_values(messages: list[Any]) -> str:
    """Statements like "K3 is 17": of each key the newest value stands; every seventh ends what was there before."""
    shown = requested(messages)
    if "conversation" in shown:
        return json.dumps({"facts": [{"text": turn["text"], "turn": turn["turn"]} for turn in shown["conversation"]]})
    assert len(shown["facts"]) <= 50
    ids = {memory["text"].split()[0]: memory["id"] for memory in shown["memories"]}
    entries = []
    for told in shown["facts"]:
        key, _, value = told["text"].split()
        event = "ADD" if key not in ids else "DELETE" if int(value) % 7 == 0 else "UPDATE"
        entries.append({"fact": told["number"], "event": event, "id": ids.get(key), "text": told["text"]})
    return json.dumps({"memory": [{**each, "text": None} if each["event"] == "DELETE" else each for each in entries]})


@pytest.mark.parametrize("known", [1, 30])
def test_add_many_facts_are_judged_fifty_at_a_time_and_each_time_with_what_became_of_those_before(known: int) -> None:
    model = ScriptedChatModel(replies=[keys_and_values] * 400)
    said = [f"K{number % 50} is {number}" for number in range(160)]
    with Memory(":memory:", model=model) as memory:
        memory.add_many([{"messages": f"K{n} is -1", "user_id": ANN, "infer": False} for n in range(known)])
        results = memory.add_many([{"messages": text, "user_id": ANN} for text in said])
        assert not [result for result in results if isinstance(result, Exception)]
        assert len(model.calls) == 160 + 4
        assert {item.text for item in memory.get_all(user_id=ANN, k=200)} == set(said[-50:])
        assert memory.verify().ok
