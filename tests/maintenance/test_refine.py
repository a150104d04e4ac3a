"""A model states what offline mode kept: what is added, what ends, what stays, and that it may be interrupted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from langmem_adapter.errors import InvalidInputError, ModelReplyError
from langmem_adapter.maintenance.refine import refine
from langmem_adapter.memory.memory import Memory
from langmem_adapter.testing import ScriptedChatModel

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_core.messages import BaseMessage

SAID = ("We climbed Ben Nevis, and Tom broke his leg.", "It never stops raining here.", "The bins go out on Tuesday.")
FACTS = {SAID[0]: ["Climbed Ben Nevis", "Tom broke his leg"], SAID[1]: [], SAID[2]: ["The bins go out on Tuesday"]}


def data_in(messages: list[BaseMessage]) -> dict[str, Any]:
    lines = str(messages[1].content).splitlines()
    shown: dict[str, Any] = json.loads(next(line for line in lines if line.startswith("{")))
    return shown


class Model:
    """A chat model that finds `FACTS`, adds every one, and remembers what it was shown."""

    def __init__(self) -> None:
        self.shown: list[dict[str, Any]] = []
        self.chat = ScriptedChatModel(replies=[self.reply] * 20)

    def reply(self, messages: list[BaseMessage]) -> str:
        shown = data_in(messages)
        self.shown.append(shown)
        if "conversation" in shown:
            told = [(turn["text"], number) for number, turn in enumerate(shown["conversation"])]
            facts = [{"text": fact, "turn": turn} for text, turn in told for fact in FACTS.get(text, [])]
            return json.dumps({"facts": facts})
        return json.dumps({"memory": [{"id": "new", "text": fact["text"], "event": "ADD"} for fact in shown["facts"]]})


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A database with three kept texts, a tidy fact and a message that was stored as it is."""
    with Memory(tmp_path / "m.db") as memory:
        for number, text in enumerate(SAID):
            message = {"role": "user", "content": text, "name": "Ann"}
            memory.add(message, user_id="alice", timestamp=f"2026-05-0{3 - number}T12:00:00Z", metadata={"a": 1})
        memory.add("I live in Lyon.", user_id="alice")
        memory.add("I like tea.", user_id="alice", infer=False)
        memory.add("We danced all night.", user_id="bob")
    return tmp_path / "m.db"


def texts(memory: Memory, user: str = "alice") -> set[str]:
    return {item.text for item in memory.get_all(user_id=user)}


def test_refine_states_kept_texts_as_facts_and_ends_them(kept: Path) -> None:
    model = Model()
    with Memory(kept, model=model.chat) as memory:
        originals = {item.text: item.id for item in memory.get_all(user_id="alice")}
        done = refine(memory, user_id="alice")
        assert (done.memories, done.facts, done.ended, done.kept, done.left) == (3, 3, 1, 2, 0)
        assert (done.calls, done.mode) == (2, "scripted")
        tidy = {"Lives in Lyon", "I like tea."}
        assert texts(memory) == {*FACTS[SAID[0]], *SAID[1:], *tidy}
        last = memory.history(originals[SAID[0]])[-1]
        assert (last.is_deleted, last.reason) == (True, "stated as 2 facts")
        fact = next(item for item in memory.get_all(user_id="alice") if item.text == "Climbed Ben Nevis")
        assert (fact.actor_id, f"{fact.updated_at:%F}", dict(fact.metadata)) == ("Ann", "2026-05-03", {"a": 1})
        assert not fact.is_verbatim
        shown = [turn["text"] for turn in model.shown[0]["conversation"]]
        assert shown == list(SAID[::-1])  # oldest first
        assert texts(memory, "bob") == {"We danced all night."}


def test_refine_reads_no_text_twice(kept: Path) -> None:
    model = Model()
    with Memory(kept, model=model.chat) as memory:
        refine(memory, user_id="alice")
        asked = len(model.shown)
        assert refine(memory, user_id="alice").memories == 0
        assert len(model.shown) == asked


def test_refine_in_a_dry_run_says_how_many_calls_and_does_nothing(kept: Path) -> None:
    model = Model()
    with Memory(kept, model=model.chat) as memory:
        before = memory.stats().changes
        done = refine(memory, user_id="alice", batch=2, dry_run=True)
        assert (done.memories, done.calls, done.is_dry_run) == (3, 4, True)
        assert refine(memory, user_id="alice", limit=1, dry_run=True).left == 2
        assert (memory.stats().changes, model.shown) == (before, [])


def test_refine_with_keep_leaves_the_texts_beside_their_facts(kept: Path) -> None:
    with Memory(kept, model=Model().chat) as memory:
        done = refine(memory, user_id="alice", keep=True)
        assert (done.ended, done.kept) == (0, 3)
        assert {*SAID, *FACTS[SAID[0]]} <= texts(memory)
        assert refine(memory, user_id="alice").memories == 0


def test_refine_that_is_interrupted_goes_on(kept: Path) -> None:
    model = Model()
    replies: list[Any] = [model.reply, "no reply at all", "no reply at all"]
    with Memory(kept, model=ScriptedChatModel(replies=replies)) as memory, pytest.raises(ModelReplyError):
        refine(memory, user_id="alice", batch=1)
    with Memory(kept, model=model.chat) as memory:
        assert refine(memory, user_id="alice", batch=1).memories == 2
        assert texts(memory) == {*FACTS[SAID[0]], *SAID[1:], "Lives in Lyon", "I like tea."}


def test_refine_needs_a_chat_model(kept: Path) -> None:
    with Memory(kept) as memory, pytest.raises(InvalidInputError, match="chat model"):
        refine(memory, user_id="alice")


def test_refine_reads_a_text_again_once_it_was_kept_anew(kept: Path) -> None:
    with Memory(kept, model=Model().chat) as memory:
        refine(memory, user_id="alice")
        (rain,) = [item for item in memory.get_all(user_id="alice") if item.text == SAID[1]]
        edited = memory.update(rain.id, "It rains here.", user_id="alice")
        assert not memory.get(str(edited.id)).is_verbatim
    with Memory(kept) as memory:
        memory.add(SAID[1], user_id="alice")
    with Memory(kept, model=Model().chat) as memory:
        assert refine(memory, user_id="alice", dry_run=True).memories == 1
