"""Memories of a type (records of work, messages, experiences) beside facts: found by a search, untouched by an add."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

import pytest

from langmem_adapter.maintenance.consolidate import Tidier
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.graph import SELF, Triple
from langmem_adapter.records.results import EXPERIENCE, MESSAGE, PROCEDURAL, UNCLEAR, Decision
from langmem_adapter.records.scope import Scope
from langmem_adapter.settings import Settings
from langmem_adapter.storage.write import Write
from langmem_adapter.testing import ScriptedChatModel
from tests.benchmarks.candidates import DATA
from tests.benchmarks.material import requested

ANN: Final[Any] = {"user_id": "ann"}
TYPES: Final = (PROCEDURAL, MESSAGE, EXPERIENCE)
SIZES: Final = {"small": 0, "large": 150}
"""Facts that stand beside: of so many the large scope is not shown whole."""


def keep(memory: Memory, text: str, memory_type: str) -> str:
    """Write a record; its id."""
    decision = Decision("ADD", None, text, memory_type=memory_type, actor_id="user", role="user")
    return str(memory.parts.edit(lambda: Write((decision,), scope=Scope(**ANN))).run().id)


def crowd(memory: Memory, size: str) -> None:
    texts = (DATA / "others.en.txt").read_text(encoding="utf-8").splitlines()
    memory.add_many([{"messages": text, "infer": False, **ANN} for text in texts[: SIZES[size]]])


def opened(size: str, **options: Any) -> Memory:
    memory = Memory(":memory:", settings=Settings(candidate_tokens=1_000), **options)
    crowd(memory, size)
    return memory


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("kept", "said", "fact"),
    [
        ("Lives in Lyon", "I live in Lyon.", "Lives in Lyon"),
        ("Lives in Lyon", "I live in Oslo.", "Lives in Oslo"),
        ("住在里昂", "我住在里昂。", "住在里昂"),
        ("住在里昂", "我住在奥斯陆。", "住在奥斯陆"),
    ],
)
def test_procedural_a_fact_is_added_whatever_a_record_says(size: str, kept: str, said: str, fact: str) -> None:
    with opened(size) as memory:
        before = [memory.get(keep(memory, kept, memory_type)) for memory_type in TYPES]
        (change,) = memory.add(said, **ANN).results
        assert (change.event, change.text) == ("ADD", fact)
        assert [memory.get(item.id) for item in before] == before


@pytest.mark.parametrize("size", SIZES)
def test_procedural_who_asks_to_forget_a_fact_forgets_no_record(size: str) -> None:
    with opened(size) as memory:
        records = [keep(memory, "Likes rooibos", memory_type) for memory_type in TYPES]
        (change,) = memory.add("Please forget that I like rooibos.", **ANN).results
        assert (change.event, change.reason) == ("NONE", UNCLEAR)
        fact = memory.add("I like rooibos.", **ANN).results[0].id
        (change,) = memory.add("Please forget that I like rooibos.", **ANN).results
        assert (change.event, change.id) == ("DELETE", fact)
        assert {memory.get(record).text for record in records} == {"Likes rooibos"}


@pytest.mark.parametrize("memory_type", TYPES)
def test_procedural_a_chat_model_is_shown_no_record(memory_type: str) -> None:
    """Where nothing but records is known, nothing is known: the fact is added without a second call."""
    model = ScriptedChatModel(replies=[json.dumps({"facts": ["Lives in Oslo"]})])
    with opened("small", model=model) as memory:
        keep(memory, "Lives in Lyon", memory_type)
        (change,) = memory.add("I live in Oslo now.", **ANN).results
        assert (change.event, change.reason) == ("ADD", "nothing is known yet")
        assert "Lyon" not in str(model.calls)


def test_procedural_in_a_crowd_of_records_a_chat_model_is_shown_the_facts() -> None:
    """Three hundred records that are nearer and newer take none of the room of the facts."""

    def judged(messages: list[Any]) -> str:
        (old,) = (known for known in requested(messages)["memories"] if known["text"] == "Lives in Lyon")
        update = {"fact": 0, "event": "UPDATE", "id": old["id"], "text": "Lives in Oslo"}
        return json.dumps({"memory": [update]})

    model = ScriptedChatModel(replies=[json.dumps({"facts": ["Lives in Oslo"]}), judged])
    with opened("large", model=model) as memory:
        fact = memory.add("Lives in Lyon", infer=False, **ANN).results[0].id
        writes = [Decision("ADD", None, f"Lives in Oslo, house {number}", memory_type=MESSAGE) for number in range(300)]
        memory.parts.edit_each([Write((decision,), scope=Scope(**ANN)) for decision in writes]).run()
        (change,) = memory.add("I live in Oslo.", **ANN).results
        assert (change.event, change.id) == ("UPDATE", fact)
        assert "house" not in str(model.calls)


@pytest.mark.parametrize("memory_type", TYPES)
def test_procedural_a_record_is_found_beside_the_facts_and_by_its_type(memory_type: str) -> None:
    with opened("small") as memory:
        record = keep(memory, "Lives in Lyon", memory_type)
        fact = memory.add("I live in Lyon.", **ANN).results[0].id
        assert {hit.id for hit in memory.search("Lyon", **ANN)} == {record, fact}
        assert [hit.id for hit in memory.search("Lyon", memory_type=memory_type, **ANN)] == [record]


@pytest.mark.parametrize("memory_type", TYPES)
def test_procedural_a_newer_record_is_no_newer_version_of_a_fact(memory_type: str) -> None:
    with opened("small") as memory:
        fact = memory.add("I live in Lyon.", timestamp="2020-01-01", **ANN).results[0].id
        record = keep(memory, "Lives in Oslo", memory_type)
        assert [hit.id for hit in memory.search("Do I live in Lyon?", **ANN)] == [fact, record]
        newer = memory.add("Lives in Rome", infer=False, **ANN).results[0].id
        assert [hit.id for hit in memory.search("Do I live in Lyon?", **ANN)] == [newer, fact, record]


@pytest.mark.parametrize("memory_type", TYPES)
def test_procedural_records_that_say_the_same_are_left_to_themselves(memory_type: str) -> None:
    with opened("small") as memory:
        for _ in range(2):
            keep(memory, "Likes tea", memory_type)
        memory.add("Likes tea", infer=False, **ANN)
        assert len(tidied := Tidier(memory).pending(Scope(**ANN))) == 1
        assert Tidier(memory).tidy(tidied[0], Scope(**ANN)).changes == ()


def test_procedural_an_agent_saves_what_only_records_say() -> None:
    with opened("small") as memory:
        for memory_type in TYPES:
            keep(memory, "Likes tea", memory_type)
        (save,) = memory.tools(tools=["save"], **ANN)
        assert [save.invoke({"content": "Likes tea"}).split()[0] for _ in range(2)] == ["ADD", "Already"]


def test_procedural_a_record_that_says_a_relation_is_no_rival_of_a_fact() -> None:
    """What says another value of a relation that can have one only is shown first, but for records."""
    told = (Triple(SELF, "lives_in", "Porto"),)
    with opened("large", graph=True) as memory:
        decision = Decision("ADD", None, "Lives in Porto", memory_type=MESSAGE, relations=told)
        memory.parts.edit(lambda: Write((decision,), scope=Scope(**ANN))).run()
        asked: Any = {"tokens": 1_000, "stated": [Triple(SELF, "resides in", "Braga")]}
        hood = memory.parts.searcher.neighbours(["Xyzzy"], Scope(**ANN), **asked)
        assert "Lives in Porto" not in {known.text for known in hood.known}
        memory.parts.edit(lambda: Write((replace(decision, memory_type=None),), scope=Scope(**ANN))).run()
        crowd(memory, "large")
        hood = memory.parts.searcher.neighbours(["Xyzzy"], Scope(**ANN), **asked)
        assert "Lives in Porto" in {known.text for known in hood.known}
