"""`model_profile`: what a small chat model is asked, and when "auto" takes a model for one."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from langmem_adapter.maintenance.checkup import checkup
from langmem_adapter.memory.memory import Memory
from langmem_adapter.reasoning.prompts import instructions
from langmem_adapter.storage.meta import ReplyLog, poor_models
from langmem_adapter.testing import ScriptedChatModel
from tests.cases import each

if TYPE_CHECKING:
    from pathlib import Path


def facts(*items: Any) -> str:
    return json.dumps({"facts": [{"text": item} for item in items]}, ensure_ascii=False)


def small(*replies: Any, **options: Any) -> tuple[ScriptedChatModel, Memory]:
    model = ScriptedChatModel(replies=replies, modes="json_schema")
    return model, Memory(":memory:", model=model, embeddings="hash:64", model_profile="small", **options)


def texts(memory: Memory) -> set[str]:
    return {item.text.rstrip(".。") for item in memory.get_all(user_id="u")}


def test_model_profile_a_small_model_is_asked_once_an_add_in_few_words() -> None:
    model, memory = small(facts("Plays the violin in an orchestra"), facts("Sold the red bicycle"))
    with memory:
        memory.add("My violin and I are at home in an orchestra.", user_id="u")
        result = memory.add("The red bicycle has found a buyer: sold.", user_id="u")
        assert result.usage.model_calls == 1
    (system, asked), *_ = model.calls
    assert system.text == instructions("small").replace("{who}", "user") and len(system.text) / 4 <= 250
    assert len(model.calls) == 2 and "facts" not in asked.text and "violin" not in model.calls[1][1].text


POLO = "Water polo, three times a week, is my thing."
SHORT = "Water polo, three times a week"
RULES: list[tuple[str, list[str], set[str], int]] = [
    ("Good morning! How are you today?", [], set(), 0),
    ("What is the capital of Australia?", [], set(), 0),
    ("My name is Ana and I live in Porto.", [], {"Name is Ana", "Lives in Porto"}, 0),
    (POLO, [facts(SHORT)], {SHORT}, 1),
    (POLO, [facts(*[SHORT] * 9)], {SHORT}, 1),
    (POLO, [facts("Plays water polo three times a week")], {POLO.rstrip(".")}, 1),
    (POLO, [facts("Is a student at Shanghai University")], {POLO.rstrip(".")}, 1),
    (POLO, ["no json"], {POLO.rstrip(".")}, 1),
]


@each(("message", "replies", "expected", "calls"), RULES)
def test_model_profile_in_the_small_profile_rules_read_what_is_certain_and_no_statement_is_lost(
    message: str, replies: list[str], expected: set[str], calls: int
) -> None:
    model, memory = small(*replies)
    with memory:
        memory.add(message, user_id="u")
        assert (texts(memory), len(model.calls)) == (expected, calls)


def test_model_profile_in_the_small_profile_the_note_of_a_bad_reply_names_no_repair() -> None:
    _, memory = small("no json")
    with memory:
        (note,) = memory.add(POLO, user_id="u").notes
        assert "could not be used: " in note and "repair" not in note


def test_model_profile_in_the_small_profile_requests_to_forget_need_no_model() -> None:
    model, memory = small()
    with memory:
        memory.add("I love hiking.", user_id="u")
        result = memory.add("Please forget that I love hiking.", user_id="u")
        assert [change.event for change in result.results] == ["DELETE"] and not texts(memory) and not model.calls


FORGOTTEN = [
    (
        "At ten the dentist has an appointment for me.",
        "At ten the dentist has an appointment for me",
        "Forget my dentist appointment.",
    ),
    ("我有一只猫，叫小白。", "我有一只猫，叫小白", "请忘记我的猫。"),
]


@each(("message", "found", "request"), FORGOTTEN)
def test_model_profile_in_the_small_profile_a_request_to_forget_ends_the_fact_that_has_its_words(
    message: str, found: str, request: str
) -> None:
    _, memory = small(facts(found))
    with memory:
        memory.add(message, user_id="u")
        result = memory.add(request, user_id="u")
        assert [change.event for change in result.results] == ["DELETE"] and not texts(memory)


def test_model_profile_in_the_small_profile_the_table_of_attributes_decides() -> None:
    model, memory = small()
    with memory:
        for message in ("I live in Porto.", "I live in Lisbon."):
            result = memory.add(message, user_id="u")
        assert [(change.event, change.previous_text) for change in result.results] == [("UPDATE", "Lives in Porto")]
        assert not model.calls


def test_model_profile_a_short_answer_is_read_with_the_question_before_it() -> None:
    model, memory = small(facts("Likes jazz"))
    with memory:
        memory.add("Yes, very much.", context=[("assistant", "Do you like jazz?")], user_id="u")
        assert texts(memory) == {"Likes jazz"} and "Do you like jazz?" in model.calls[0][1].text


def test_model_profile_a_short_answer_that_the_model_does_not_state_is_kept_with_its_question() -> None:
    _, memory = small(facts())
    with memory:
        memory.add("Wednesdays.", context=[("assistant", "On which day do you sing?")], user_id="u")
        assert texts(memory) == {"On which day do you sing? Wednesdays"}


def test_model_profile_an_own_update_memory_prompt_keeps_the_call_for_the_decision() -> None:
    decided = json.dumps({"memory": [{"fact": 0, "event": "ADD", "text": "Lives in Lisbon"}]})
    model, memory = small(decided, update_memory_prompt="Be strict.")
    with memory:
        for message in ("I live in Porto.", "I live in Lisbon."):
            memory.add(message, user_id="u")
        assert texts(memory) == {"Lives in Porto", "Lives in Lisbon"} and model.calls[0][0].text == "Be strict."


def test_model_profile_auto_takes_a_model_for_small_after_3_unusable_replies_and_the_database_keeps_that(
    tmp_path: Path,
) -> None:
    path = tmp_path / "m.db"

    def opened(*replies: str, profile: Any = "auto") -> tuple[ScriptedChatModel, Memory]:
        model = ScriptedChatModel(replies=replies)
        return model, Memory(path, model=model, embeddings="hash:64", model_profile=profile)

    full = facts("Likes tea")
    _, memory = opened("no", full, *[full] * 9, "no", full, "no", full, "no", full)
    with memory:
        for _ in range(13):
            memory.add("I like tea.", user_id="u")
        assert memory.parts.reasoner.profile == "small"  # type: ignore[attr-defined]
    model, memory = opened()
    with memory:
        memory.add("I live in Lyon.", user_id="u")
        assert not model.calls
        (check,) = [check for check in checkup(memory) if check.name == "replies"]
        assert check.detail.startswith("3 of the last 10 replies of scripted could not be used")
    model, memory = opened(full, profile="full")
    with memory:
        memory.add("I like tea.", user_id="u")
        assert len(model.calls) == 1


def test_model_profile_replies_of_two_at_once_are_all_counted(tmp_path: Path) -> None:
    with Memory(tmp_path / "m.db") as memory:
        database = memory.parts.database
        logs = [ReplyLog(database, "m") for _ in range(2)]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda place: logs[place % 2].note(usable=False), range(10)))
        with database.read() as connection:
            assert poor_models(connection) == {"m": 10}


def test_model_profile_a_model_that_is_read_costs_the_database_no_row_for_its_replies(tmp_path: Path) -> None:
    model = ScriptedChatModel(replies=[facts("Likes tea")] * 3)
    with Memory(tmp_path / "m.db", model=model, embeddings="hash:64") as memory:
        commits = memory.parts.database.commits
        memory.add("I like tea.", user_id="u")
        memory.add("I like tea.", user_id="u")
        assert memory.parts.database.commits - commits == 2


@pytest.mark.parametrize("profile", ["small", "full"])
def test_model_profile_in_both_profiles_a_speakers_facts_are_their_own(profile: Any) -> None:
    cities = {"Nate": "Boston", "Jo": "Denver"}
    talk = [{"role": "user", "name": name, "content": f"{city} is where I live."} for name, city in cities.items()]
    found = [{"text": f"Lives in {city}", "turn": turn, "date": None} for turn, city in enumerate(cities.values())]
    model = ScriptedChatModel(replies=[json.dumps({"facts": found})])
    with Memory(":memory:", model=model, embeddings="hash:64", model_profile=profile) as memory:
        memory.add(talk, user_id="u")
        stored = {(str(item.actor_id), item.text) for item in memory.get_all(user_id="u")}
    assert len(stored) == 2 and all(cities[name] in text for name, text in stored)
