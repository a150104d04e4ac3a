"""What is known about somebody: the case G13 of MetaGPT's tests, and what a reflection rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from langmem_adapter.conversation.experience import ExperienceMemory, reflect
from langmem_adapter.errors import InvalidInputError, ScopeError
from langmem_adapter.memory.memory import Memory

if TYPE_CHECKING:
    from collections.abc import Iterator

TOWN: Final[Any] = {"agent_id": "Isabella"}


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory(":memory:", graph=True) as opened:
        yield opened


def keep(memory: Memory, *texts: str) -> list[str]:
    return [str(memory.add(text, infer=False, **TOWN).results[0].id) for text in texts]


def test_g13_reflect_names_subject_predicate_and_object(memory: Memory) -> None:
    memory.graph.add("Isabella", "plans", "Valentine's party", **TOWN)
    (node,) = reflect(memory, "Isabella", **TOWN).nodes
    assert (node.source, node.relation, node.target) == ("Isabella", "plans", "Valentine's party")


def test_a_reflection_names_the_relations_and_facts_about_one(memory: Memory) -> None:
    known = memory.add("My friend Klaus lives in Oslo.", user_id="maria").results[0]
    said = memory.add("Klaus paints at night.", user_id="maria", infer=False).results[0]
    memory.add("Anna likes tea.", user_id="maria", infer=False)
    about = reflect(memory, "klaus", user_id="maria")
    assert "Klaus lives in Oslo" in {node.text for node in about.nodes}
    assert {memory_id for node in about.nodes for memory_id in node.memory_ids} == {known.id}
    assert {hit.id for hit in about.hits} == {known.id, said.id}
    assert all(f"[{hit.id}]" in about.text for hit in about.hits)
    assert all(node.id in about.text for node in about.nodes)
    assert about.text == reflect(memory, "klaus", user_id="maria").text


def test_nobody_is_taken_for_somebody_whose_name_begins_alike(memory: Memory) -> None:
    keep(memory, *(f"Anna said {number}." for number in range(12)))
    (ann,) = keep(memory, "Ann's cat is called Rex.")
    assert [hit.id for hit in reflect(memory, "Ann", k=1, **TOWN).hits] == [ann]
    assert len(reflect(memory, "ANNA", **TOWN).hits) == 10
    assert reflect(memory, "Bob", **TOWN) == reflect(memory, "Bob", **TOWN)
    assert reflect(memory, "Bob", **TOWN).text == ""


def test_of_the_agent_itself_every_fact_tells_and_no_record(memory: Memory) -> None:
    said = keep(memory, "Opens the cafe at eight.", "Likes Klaus.")
    ExperienceMemory(memory, **TOWN).add("What does Isabella do?", "She bakes.")
    assert {hit.id for hit in reflect(memory, "Isabella", **TOWN).hits} == set(said)


def test_what_cannot_be_asked_is_refused(memory: Memory) -> None:
    with pytest.raises(ScopeError):
        reflect(memory, "Klaus")
    with pytest.raises(InvalidInputError, match="about"):
        reflect(memory, " ", **TOWN)
    with pytest.raises(InvalidInputError, match="k must be"):
        reflect(memory, "Klaus", k=0, **TOWN)
