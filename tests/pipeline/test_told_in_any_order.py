"""Dated statements may be told in any order and in any number of adds: what is live, and what was true when, are the same."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from langmem_adapter.memory.memory import Memory
from langmem_adapter.settings import Settings
from langmem_adapter.testing import ScriptedChatModel
from tests.benchmarks.material import requested

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langmem_adapter.records.graph import Relation

YEARS: Final = range(2001, 2013)
SAID: Final = {
    "I live in {}.": ("Rome", "Oslo", "Lyon"),
    "I work at {}.": ("Acme", "Globex", "Initech"),
    "My favourite colour is {}.": ("blue", "green", "red"),
    "我住在{}。": ("罗马", "奥斯陆", "里昂"),
}

Statement = tuple[int, str]


@st.composite
def tellings(draw: st.DrawFn) -> tuple[list[Statement], list[list[Statement]], bool]:
    """Statements in the order of their dates; the same in another order, in several adds; whether by `add_many`."""
    wording, values = draw(st.sampled_from(sorted(SAID.items())))
    years = sorted(draw(st.sets(st.sampled_from(YEARS), min_size=1, max_size=6)))
    statements = [(year, wording.format(draw(st.sampled_from(values)))) for year in years]
    mixed = draw(st.permutations(statements))
    cuts = sorted(draw(st.sets(st.integers(1, len(mixed)), max_size=3)) | {0, len(mixed)})
    return statements, [mixed[start:end] for start, end in itertools.pairwise(cuts)], draw(st.booleans())


def obeying(messages: list[Any]) -> str:
    """A model that keeps what was said, in its own words, and takes each new value for an update of the old one."""
    shown = requested(messages)
    if "conversation" in shown:
        facts = [
            {
                "text": turn["text"].removeprefix("I ").strip(".。").capitalize(),
                "turn": turn["turn"],
                "date": None,
                "relations": [],
            }
            for turn in shown["conversation"]
        ]
        return json.dumps({"facts": facts})
    known = {memory["text"]: memory["id"] for memory in shown["memories"]}
    entries = []
    for fact in shown["facts"]:
        event = "NONE" if fact["text"] in known else "UPDATE" if known else "ADD"
        number = known.get(fact["text"], next(iter(known.values()), None))
        entries.append({"fact": fact["number"], "event": event, "id": number, "text": fact["text"]})
    return json.dumps({"memory": entries})


@dataclass
class Lives:
    """A memory in which every telling has a user of its own."""

    memory: Memory
    count: int = 0

    def told(self, parts: Sequence[Sequence[Statement]], *, many: bool = False) -> Any:
        """What stands after all was told, with its dates; what was true in each year of it; the relations, with their dates."""
        self.count += 1
        ann: dict[str, Any] = {"user_id": f"ann {self.count}"}
        for part in parts:
            messages = [{"role": "user", "content": text, "timestamp": f"{year}-01-01"} for year, text in part]
            if many:
                self.memory.add_many([{"messages": [message], **ann} for message in messages])
            else:
                self.memory.add(messages, **ann)
        live = [(item.text, item.created_at, item.updated_at) for item in self.memory.get_all(**ann)]
        told = sorted(year for part in parts for year, _ in part)
        moments = [datetime(year, 7, 1, tzinfo=UTC) for year in (YEARS[0] - 1, *told)]
        then = [[item.text for item in self.memory.get_all(**ann, as_of=moment)] for moment in moments]
        stated = self.memory.graph.relations(**ann, history=True)
        return live, then, {_shown(each) for each in stated if each.retired_at is None}


def _shown(relation: Relation) -> tuple[str, str, datetime | None, datetime | None]:
    return relation.relation, relation.target, relation.valid_from, relation.valid_to


@pytest.fixture(scope="module", params=["rules", "rules and graph", "chat model", "chat model, a fact a call"])
def lives(request: pytest.FixtureRequest) -> Iterator[Lives]:
    model = ScriptedChatModel(replies=[obeying] * 100_000) if request.param.startswith("chat") else None
    graph, settings = request.param == "rules and graph", Settings(trace_days=0)
    with pytest.MonkeyPatch.context() as patch:
        if request.param.endswith("a call"):
            patch.setattr("langmem_adapter.pipeline.decide.AT_ONCE", 1)
        with Memory(":memory:", model=model, embeddings="hash", graph=graph, settings=settings) as memory:
            yield Lives(memory)
            assert memory.verify().ok


@given(told=tellings())
@settings(max_examples=settings().max_examples // 2, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_timestamp_whatever_is_told_first_the_same_comes_of_it(
    lives: Lives, told: tuple[list[Statement], list[list[Statement]], bool]
) -> None:
    statements, parts, many = told
    in_order = lives.told([[statement] for statement in statements])
    assert lives.told(parts, many=many) == in_order
    assert [text for text, _, _ in in_order[0]] == [in_order[1][-1][0]]


# ── what one add says of one memory ─────────────────────────────────────────────────────────────────────────────────────


def dated(*statements: Statement) -> list[dict[str, str]]:
    return [{"role": "user", "content": text, "timestamp": f"{year}-05-01"} for year, text in statements]


def years(memory: Memory, *asked: int) -> list[list[str]]:
    return [[item.text for item in memory.get_all(user_id="ann", as_of=f"{year}-07-01")] for year in asked]


def swapping(wanted: dict[str, str]) -> ScriptedChatModel:
    """A model that does with the one memory it is shown what is wanted for a fact, and adds the others."""

    def reply(messages: list[Any]) -> str:
        shown = requested(messages)
        if "conversation" in shown:
            return json.dumps(
                {"facts": [{"text": turn["text"], "turn": turn["turn"]} for turn in shown["conversation"]]}
            )
        number = next((memory["id"] for memory in shown["memories"]), None)
        return json.dumps(
            {
                "memory": [
                    {**fact, "fact": fact["number"], "event": wanted[fact["text"]], "id": number}
                    for fact in shown["facts"]
                ]
            }
        )

    return ScriptedChatModel(replies=[reply] * 100)


@pytest.mark.parametrize(
    ("said", "live", "then"),
    [
        (((2027, "I no longer live in Oslo."), (2026, "I live in Oslo.")), [], [[], ["Oslo"], ["Oslo"], []]),
        (((2026, "I live in Oslo."), (2027, "I no longer live in Oslo.")), [], [[], ["Oslo"], ["Oslo"], []]),
        (((2027, "I live in Oslo."), (2026, "I no longer live in Oslo.")), ["Oslo"], [[], ["Oslo"], [], ["Oslo"]]),
        (
            ((2024, "I live in Rome."), (2026, "I live in Oslo."), (2027, "I no longer live in Oslo.")),
            [],
            [["Rome"], ["Oslo"], ["Oslo"], []],
        ),
    ],
)
@pytest.mark.parametrize("graph", [False, True])
def test_timestamp_a_memory_is_confirmed_preceded_and_ended_in_one_add(
    said: Sequence[Statement], live: list[str], then: list[list[str]], *, graph: bool
) -> None:
    with Memory(":memory:", graph=graph) as memory:
        memory.add(dated((2025, "I live in Oslo.")), user_id="ann")
        memory.add(dated(*said), user_id="ann")
        assert [item.text for item in memory.get_all(user_id="ann")] == [f"Lives in {home}" for home in live]
        assert years(memory, 2024, 2025, 2026, 2027) == [[f"Lives in {home}" for home in homes] for homes in then]
        assert memory.verify().ok


def test_timestamp_what_is_said_several_times_in_one_add_began_with_the_first_of_them() -> None:
    with Memory(":memory:") as memory:
        told = dated((2012, "I have a dog."), (2005, "I have a dog."), (2014, "I have a dog."))
        changes = memory.add(told, user_id="ann").results
        assert [change.event for change in changes] == ["ADD", "NONE", "NONE"]
        [item] = memory.get_all(user_id="ann")
        assert {change.id for change in changes} == {item.id}
        assert (item.created_at.year, item.updated_at.year) == (2005, 2014)
        memory.add(dated(*[(year, "I no longer have a dog.") for year in (2015, 2016)]), user_id="ann")
        assert years(memory, 2004, 2005, 2014, 2016) == [[], ["Has a dog"], ["Has a dog"], []]


@pytest.mark.parametrize("answer", [{"2": "reject"}, {"1": "reject"}, "accept"], ids=str)
def test_timestamp_who_rejects_what_was_said_last_keeps_what_was_said_before(answer: Any) -> None:
    with Memory(":memory:") as memory:
        pipeline, thread = memory.build_pipeline(review=True, checkpointer=InMemorySaver()), {"thread_id": "1"}
        told = dated((2020, "I live in Rome."), (2022, "I live in Oslo."), (2024, "I live in Lyon."))
        pipeline.invoke({"messages": told, "scope": {"user_id": "ann"}}, {"configurable": thread})
        pipeline.invoke(Command(resume=answer), {"configurable": thread})
        homes = {"2020": "Rome", "2022": "Oslo", "2024": "Lyon"}
        for number in answer if isinstance(answer, dict) else ():
            homes.pop(["2020", "2022", "2024"][int(number)])
        stood = [
            max((year, home) for year, home in homes.items() if int(year) < asked)[1] for asked in (2021, 2023, 2025)
        ]
        assert years(memory, 2020, 2022, 2024) == [[f"Lives in {home}"] for home in stood]
        assert len(memory.get_all(user_id="ann")) == 1


def test_timestamp_who_says_the_same_later_in_one_add_stands() -> None:
    with Memory(":memory:", model=swapping({"Vivo en Roma": "UPDATE"}), embeddings="hash") as memory:
        memory.add(dated((2020, "Vivo en Madrid")), user_id="ann")
        memory.add(dated((2024, "Vivo en Roma"), (2026, "Vivo en Madrid")), user_id="ann")
        assert years(memory, 2021, 2025, 2027) == [["Vivo en Madrid"], ["Vivo en Roma"], ["Vivo en Madrid"]]


@pytest.mark.parametrize(("event", "kept"), [("UPDATE", "Lyon"), ("DELETE", None)])
def test_timestamp_what_was_changed_once_more_on_the_same_day_was_never_said(
    monkeypatch: pytest.MonkeyPatch, event: str, kept: str | None
) -> None:
    monkeypatch.setattr("langmem_adapter.pipeline.decide.AT_ONCE", 1)
    with Memory(":memory:", model=swapping({"Roma": "UPDATE", "Lyon": event}), embeddings="hash") as memory:
        home = str(memory.add(dated((2020, "Madrid")), user_id="ann").results[0].id)
        changes = memory.add(dated((2022, "Roma"), (2022, "Lyon")), user_id="ann").results
        assert [(change.event, change.text) for change in changes[:2]] == [
            ("NONE", "Roma"),
            (event, kept or "Madrid"),
        ]
        assert [revision.new_text for revision in memory.history(home)] == ["Madrid", kept]
