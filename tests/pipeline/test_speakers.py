"""Several people in one conversation: what each says is said of himself, and stands until he himself says otherwise."""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_adapter.maintenance.consolidate import Tidied, Tidier
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.scope import Scope
from langmem_adapter.testing import ScriptedChatModel

if TYPE_CHECKING:
    from collections.abc import Iterator


def said(name: str, text: str) -> dict[str, str]:
    return {"role": "user", "content": text} | ({"name": name} if name else {})


def live(memory: Memory, user: str, *actors: str) -> set[str]:
    return {item.text for item in memory.get_all(user_id=user) if item.actor_id in actors}


def holding(memory: Memory, user: str, source: str) -> set[tuple[str, str]]:
    found = memory.graph.relations(user_id=user)
    return {(each.relation, each.target) for each in found if each.source == source}


def found(city: str) -> str:
    related = {"source": "user", "relation": "lives_in", "target": city, "fact": 0}
    return json.dumps({"facts": [f"Lives in {city}"], "entities": [], "relations": [related]})


def judged(event: str, text: str) -> str:
    return json.dumps({"memory": [{"id": "0", "text": text, "event": event, "fact": 0}]})


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("event", ["rules", "UPDATE", "DELETE", "NONE"])
def test_add_a_statement_changes_ends_and_repeats_what_its_own_speaker_said_alone(event: str, graph: bool) -> None:  # noqa: FBT001
    replies = [found("Boston"), found("Denver"), judged(event, "Lives in Denver")]
    model = "offline" if event == "rules" else ScriptedChatModel(replies=replies)
    with Memory(":memory:", model=model, graph=graph) as memory:
        memory.add(said("Nate", "I live in Boston."), user_id="talk")
        [change] = memory.add(said("Joanna", "I live in Denver."), user_id="talk").results
        assert (change.event, change.text) == ("ADD", "Lives in Denver")
        assert live(memory, "talk", "Nate") == {"Lives in Boston"}
        assert live(memory, "talk", "Joanna") == {"Lives in Denver"}
        if event in {"UPDATE", "NONE"}:
            assert change.reason == "a fact of Joanna does not change a memory of Nate"
        if graph:
            assert holding(memory, "talk", "Nate") == {("lives_in", "Boston")}
            assert holding(memory, "talk", "Joanna") == {("lives_in", "Denver")}


def test_what_an_update_of_somebody_elses_statement_was_to_say_is_not_lost() -> None:
    facts = [{"text": "Lives in Denver", "turn": 0}, {"text": "Lives near a park", "turn": 1}]
    both = [{"fact": 0, "event": "UPDATE", "id": "0", "text": "Lives in Denver near a park"}]
    both += [{"fact": 1, "event": "NONE", "id": "0"}]
    replies = [found("Boston"), json.dumps({"facts": facts}), json.dumps({"memory": both})]
    with Memory(":memory:", model=ScriptedChatModel(replies=replies)) as memory:
        memory.add(said("Nate", "I live in Boston."), user_id="talk")
        memory.add([said("Joanna", "I live in Denver."), said("Nate", "I live near a park.")], user_id="talk")
        assert live(memory, "talk", "Nate") == {"Lives in Boston", "Lives near a park"}
        assert live(memory, "talk", "Joanna") == {"Lives in Denver"}


@pytest.mark.parametrize("rules", [True, False])
def test_add_equal_words_of_two_are_two_statements_and_of_one_only_one(rules: bool) -> None:  # noqa: FBT001
    extraction, update = found("Boston"), judged("UPDATE", "Lives in Boston")
    model = ScriptedChatModel(replies=[extraction, *[extraction, update] * 2, *[extraction] * 6])
    with Memory(":memory:", model="offline" if rules else model) as memory:
        events = [
            memory.add(said(name, "I live in Boston."), user_id="talk").results[0].event
            for name in ("Nate", "Joanna", "", "nate", "Joanna", "", "talk", "TALK", "User")
        ]
        assert events == ["ADD"] * 3 + ["NONE"] * 6
        assert sorted(item.actor_id or "" for item in memory.get_all(user_id="talk")) == ["Joanna", "Nate", "user"]


@pytest.mark.parametrize("graph", [False, True])
def test_add_in_one_conversation_equal_words_of_two_are_two_statements(graph: bool) -> None:  # noqa: FBT001
    lives = {"source": "user", "relation": "lives_in", "target": "Boston"}
    facts = [{"text": "Lives in Boston", "turn": turn, "relations": [lives]} for turn in (0, 1, 2)]
    model = ScriptedChatModel(replies=[json.dumps({"facts": facts})])
    talk = [said(name, "I live in Boston.") for name in ("Nate", "Joanna", "Nate")]
    with Memory(":memory:", model=model, graph=graph) as memory:
        assert [change.event for change in memory.add(talk, user_id="talk").results] == ["ADD", "ADD"]
        assert live(memory, "talk", "Nate") == live(memory, "talk", "Joanna") == {"Lives in Boston"}
        if graph:
            assert holding(memory, "talk", "Nate") == holding(memory, "talk", "Joanna") == {("lives_in", "Boston")}


def test_add_a_model_is_told_who_said_the_memories_and_the_facts() -> None:
    model = ScriptedChatModel(replies=[found("Boston"), found("Denver"), judged("ADD", "Lives in Denver")])
    with Memory(":memory:", model=model) as memory:
        memory.add(said("Nate", "I live in Boston."), user_id="talk")
        memory.add(said("Joanna", "I live in Denver."), user_id="talk")
    assert "Boston" not in str(model.calls[-2][-1].content)
    shown = str(model.calls[-1][-1].content)
    assert '"text": "Lives in Boston", "speaker": "Nate"' in shown
    assert '"text": "Lives in Denver", "speaker": "Joanna"' in shown


def test_add_who_is_called_as_the_user_id_is_the_user() -> None:
    with Memory(":memory:", graph=True) as memory:
        memory.add("I live in Lyon.", user_id="anna")
        memory.add(said("Anna", "I live in Rome."), user_id="anna")
        assert [item.text for item in memory.get_all(user_id="anna")] == ["Lives in Rome"]
        assert holding(memory, "anna", "anna") == {("lives_in", "Rome")}


def test_add_of_an_agent_the_agent_id_counts() -> None:
    def reply(name: str, text: str) -> list[dict[str, str]]:
        return [{"role": "assistant", "name": name, "content": text}]

    with Memory(":memory:", graph=True) as memory:
        for name, city in (("guide", "Lyon"), ("Guide", "Rome"), ("cook", "Paris")):
            memory.add(reply(name, f"I live in {city}."), user_id="anna", agent_id="guide")
        assert holding(memory, "anna", "guide") == {("lives_in", "Rome")}
        assert holding(memory, "anna", "cook") == {("lives_in", "Paris")}


def test_add_tidying_joins_nobodys_words_with_somebody_elses() -> None:
    with Memory(":memory:") as memory:
        for name, text in [("Nate", "Lives in Rome"), ("Jo", "Lives in Rome"), ("Jo", "Lives in Oslo")]:
            memory.add(said(name, text), user_id="talk", infer=False)
        tidier, talk = Tidier(memory), Scope("talk")
        sum((tidier.tidy(each, talk) for each in tidier.pending(talk)), Tidied())
        assert live(memory, "talk", "Nate") == {"Lives in Rome"}
        assert live(memory, "talk", "Jo") == {"Lives in Oslo"}


# ── any sequence of statements ──────────────────────────────────────────────────────────────────────────────────────────

NAMES = ("", "Nate", "Joanna", "Li Wei")
STATEMENTS = (
    "I live in Boston.", "I live in Denver.", "I moved to Rome.", "I work at Acme.", "I like tea.", "I no longer like tea.",
    "I have two cats.", "I have three cats.", "I have a sister.", "Her name is Jesica.", "She lives in Oslo.",
    "My sister Mia lives in Bonn.", "我住在北京。", "我喜欢茶。", "我不再喜欢茶。",
)  # fmt: skip
TALK = st.lists(
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(STATEMENTS)), min_size=1, max_size=3), max_size=4
)
TURN = count()


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    with Memory(":memory:", graph=True) as opened:
        yield opened


@settings(max_examples=8, deadline=None)
@given(talk=TALK)
def test_add_each_speaker_is_remembered_as_if_he_had_a_scope_of_his_own(
    memory: Memory, talk: list[list[tuple[str, str]]]
) -> None:
    turn = next(TURN)
    for together in talk:
        memory.add([said(*each) for each in together], user_id=f"talk {turn}")
        for name in dict.fromkeys(name for name, _ in together):
            memory.add([said(*each) for each in together if each[0] == name], user_id=f"{name} alone {turn}".strip())
    for name in NAMES:
        whole, alone, actor = f"talk {turn}", f"{name} alone {turn}".strip(), name or "user"
        assert live(memory, whole, actor) == live(memory, alone, actor)
        assert holding(memory, whole, name or whole) == holding(memory, alone, name or alone)


@pytest.mark.parametrize("event", ["UPDATE", "DELETE"])
def test_add_what_nobody_is_known_to_have_said_changes_nobodys_memory(event: str) -> None:
    plain = json.dumps({"facts": ["Lives in Denver"]})
    model = ScriptedChatModel(
        replies=[json.dumps({"facts": ["Lives in Boston"]}), plain, judged(event, "Lives in Denver")]
    )
    with Memory(":memory:", model=model) as memory:
        memory.add("I live in Boston.", user_id="talk")
        both = [said("Nate", "Hi!"), said("Joanna", "I live in Denver.")]
        (change,) = memory.add(both, user_id="talk").results
        assert (change.event, change.text) == ("ADD", "Lives in Denver")
        assert {item.text for item in memory.get_all(user_id="talk")} == {"Lives in Boston", "Lives in Denver"}
