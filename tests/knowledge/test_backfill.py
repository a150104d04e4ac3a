"""Reading memories for relations afterwards: what it writes, what it costs, and what hinders it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from langmem_adapter.errors import InvalidInputError, ScopeError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.reasoning.prompts import instructions
from langmem_adapter.testing import ScriptedChatModel
from tests.cases import each
from tests.programs import python

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from langchain_core.messages import BaseMessage

ALICE: dict[str, Any] = {"user_id": "alice"}
TALKS = [
    ("I live in Lyon. I work at Acme.", "2020-05-01"),
    ("My sister Jesica works at Velltex.", "2021-05-01"),
    ("我妹妹叫小红，我喜欢爬山。", "2023-05-01"),
    ("What a nice day it is today!", "2024-05-01"),
]


def believed(memory: Memory, **scope: str) -> list[tuple[object, ...]]:
    """What is believed, with its dates and the texts of the memories that say it."""
    found = memory.graph.relations(**(scope or ALICE), history=True)
    told = [each for each in found if each.retired_at is None]
    return sorted(
        (r.text, r.valid_from, r.valid_to, r.mentions, *(memory.get(m).text for m in r.memory_ids)) for r in told
    )


def shown(messages: list[BaseMessage]) -> list[str]:
    """The memories in a request."""
    data = json.loads(str(messages[-1].content).split("\n\n")[1])
    return [turn["text"] for turn in data["conversation"]]


def works_at(messages: list[BaseMessage]) -> str:
    """A model that understands "works at": of every such memory it says so."""
    link = {"relation": "works_at", "target_type": None, "valid_from": None, "valid_to": None, "ended": False}
    facts = []
    for number, text in enumerate(shown(messages)):
        source, verb, target = text.rpartition("orks at ")
        if verb:
            relation = {**link, "source": source.strip("Ww ") or "user", "target": target}
            facts.append({"text": text, "turn": number, "date": None, "relations": [relation]})
    return json.dumps({"facts": facts})


def stored(url: str, *texts: str, **scope: str) -> None:
    with Memory(url) as memory:
        for number, text in enumerate(texts):
            memory.add(text, infer=False, timestamp=f"2024-01-{number + 1:02}", **(scope or ALICE))


# ── what it writes ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_backfill_reads_memories_from_before_the_graph(database_url: str, tmp_path: Path) -> None:
    with Memory(database_url) as memory, Memory(tmp_path / "other.db", graph=True) as other:
        for said, time in TALKS:
            memory.add(said, timestamp=time, **ALICE)
            other.add(said, timestamp=time, **ALICE)
        assert believed(memory) == []
        done = memory.graph.backfill(**ALICE)
        assert believed(memory) == believed(other) != []
        assert (done.mode, done.left, done.usage.model_calls) == ("offline", 0, 0)
        assert done.added == len(believed(memory))


def test_backfill_relations_end_with_their_memory(database_url: str) -> None:
    stored(database_url, "I work at Acme.", "I live in Lyon.")
    with Memory(database_url) as memory:
        memory.graph.backfill(**ALICE)
        work, home = sorted(memory.get_all(**ALICE), key=lambda item: item.created_at)
        memory.delete(work.id)
        memory.update(home.id, "I live in Oslo.")
        assert believed(memory) == []
        assert memory.graph.backfill(**ALICE).read == 1  # the text is another one
        assert [row[0] for row in believed(memory)] == ["alice lives in Oslo"]
        memory.graph.delete_all(**ALICE)
        assert memory.graph.backfill(**ALICE).read == 0  # what was withdrawn by hand stays so
        assert believed(memory) == []


def test_backfill_dates_a_relation_from_the_first_statement(database_url: str) -> None:
    with Memory(database_url) as memory:
        for time in ("2021-03-01", "2023-03-01"):
            memory.add("I live in Lyon.", timestamp=time, **ALICE)
        memory.graph.backfill(**ALICE)
        (home,) = memory.graph.relations(**ALICE)
        assert home.valid_from is not None
        assert home.valid_from.isoformat() == "2021-03-01T00:00:00+00:00"


async def test_backfill_assigns_relations_to_the_speaker(database_url: str) -> None:
    with Memory(database_url) as memory:
        told = [
            {"role": "user", "name": "Ben", "content": "I live in Lyon."},
            {"role": "user", "content": "我住在上海。"},
        ]
        memory.add(told, infer=False, **ALICE)
        memory.add({"role": "assistant", "content": "I live in Kyoto."}, infer=False, agent_id="bot", **ALICE)
        seen: list[tuple[int, int]] = []
        done = await memory.graph.abackfill(progress=lambda *numbers: seen.append(numbers), batch=1, **ALICE)
        assert (done.read, done.relations, done.added) == (3, 3, 3)
        assert seen == [(1, 3), (2, 3), (3, 3)]
        texts = {relation.text for relation in memory.graph.relations(**ALICE)}
        assert texts == {"Ben lives in Lyon", "alice 住在 上海", "bot lives in Kyoto"}


def test_backfill_states_nothing_of_the_user_from_other_people(database_url: str) -> None:
    stored(database_url, "Tom lives in Rome", "Lives in Oslo")
    link = {"source": "user", "relation": "lives_in", "ended": False}
    relations = [[{**link, "target": "Rome"}], [{**link, "target": "Oslo"}]]
    reply = {"facts": [{"text": "x y", "turn": turn, "relations": each} for turn, each in enumerate(relations)]}
    with Memory(database_url, model=ScriptedChatModel(replies=[json.dumps(reply)])) as memory:
        memory.graph.backfill(**ALICE)
        assert [told[0] for told in believed(memory)] == ["Tom lives in Rome", "alice lives in Oslo"]


def test_backfill_states_nothing_from_a_forget_request(database_url: str) -> None:
    stored(database_url, "Please forget that I live in Lyon.")
    link = {"source": "user", "relation": "lives_in", "target": "Lyon"}
    reply = json.dumps({"facts": [{"text": "Forget: lives in Lyon", "turn": 0, "relations": [link]}]})
    with Memory(database_url, model=ScriptedChatModel(replies=[reply])) as memory:
        assert memory.graph.backfill(**ALICE).read == 1
        assert believed(memory) == []


# ── what it costs ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_backfill_batch_is_one_call_and_reads_each_memory_once(database_url: str) -> None:
    stored(database_url, "Works at Acme", "Good morning", "Ben works at Acme", "Good evening", "Works at Acme")
    model = ScriptedChatModel(replies=[works_at] * 3)
    with Memory(database_url, model=model, fact_extraction_prompt="Names only.") as memory:
        first = memory.graph.backfill(batch=2, limit=4, **ALICE)
        assert (first.read, first.relations, first.left, first.usage.model_calls) == (4, 2, 1, 2)
        second = memory.graph.backfill(**ALICE)
        assert (second.read, second.added, second.left, second.mode) == (1, 0, 0, "scripted")
        assert memory.graph.backfill(**ALICE).read == 0
        assert [len(shown(call)) for call in model.calls] == [2, 2, 1]
        assert all(instructions("kept") in str(call[0].content) for call in model.calls)
        rows = {(text, mentions, len(said)) for text, _, _, mentions, *said in believed(memory)}
        assert rows == {("alice works at Acme", 2, 2), ("Ben works at Acme", 1, 1)}


def test_backfill_skips_memories_that_add_has_read(database_url: str) -> None:
    facts = json.dumps({"facts": [{"text": "Likes chess", "turn": 0, "date": None, "relations": []}]})
    with Memory(database_url, model=ScriptedChatModel(replies=[facts]), graph=True) as memory:
        memory.add("I like chess.", **ALICE)
        assert memory.graph.backfill(**ALICE).read == 0
        memory.add("Good morning", infer=False, **ALICE)
        assert memory.graph.backfill(limit=None, progress=None, user_id="nobody").read == 0


def test_backfill_shows_the_model_one_scope_at_a_time(database_url: str) -> None:
    stored(database_url, "Works at Acme", "Ben works at Acme")
    stored(database_url, "Works at Velltex", user_id="alice", agent_id="bot")
    stored(database_url, "Works at Kestrel", user_id="bob")
    model = ScriptedChatModel(replies=[works_at] * 2)
    with Memory(database_url, model=model) as memory:
        assert memory.graph.backfill(**ALICE).read == 3
        assert sorted(map(shown, model.calls)) == [["Works at Acme", "Ben works at Acme"], ["Works at Velltex"]]
        assert believed(memory, user_id="bob") == []
        assert {r.scope.agent_id for r in memory.graph.relations(**ALICE, entity="Velltex")} == {"bot"}


# ── what hinders it ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_backfill_of_a_bad_reply_fails_its_batch_alone(database_url: str) -> None:
    stored(database_url, "Works at Acme", "Ben works at Acme")
    model = ScriptedChatModel(replies=["no idea", "none", works_at, works_at])
    with Memory(database_url, model=model) as memory:
        done = memory.graph.backfill(batch=1, **ALICE)
        assert (done.read, done.left, len(done.failed)) == (1, 1, 1)
        (lost,) = done.failed
        assert [memory.get(memory_id).text for memory_id in lost.memory_ids] == ["Works at Acme"]
        assert lost.error
        assert memory.graph.backfill(**ALICE).added == 1
        assert len(believed(memory)) == 2


def test_backfill_assigns_an_unplaced_relation_to_the_memory_that_names_both(database_url: str) -> None:
    stored(database_url, "Ben met Anna", "Ben works at Acme", "Anna works at Acme")
    links = [{"source": s, "relation": "knows", "target": t} for s, t in [("Ben", "Anna"), ("Anna", "Kyoto")]]
    reply = json.dumps({"facts": [{"text": link["target"], "relations": [link]} for link in links]})
    with Memory(database_url, model=ScriptedChatModel(replies=[reply, reply])) as memory:
        done = memory.graph.backfill(**ALICE)
        assert [(row[0], row[-1]) for row in believed(memory)] == [("Ben knows Anna", "Ben met Anna")]
        assert any("did not say which memory" in note for note in done.notes)


def test_backfill_skips_memories_that_changed_meanwhile(database_url: str) -> None:
    stored(database_url, "Works at Acme", "Ben works at Acme", "Anna works at Acme")

    def meanwhile(messages: list[BaseMessage]) -> str:
        with Memory(database_url) as other:
            by_text = {item.text: item.id for item in other.get_all(**ALICE)}
            other.update(by_text["Works at Acme"], "Works at Velltex")
            other.delete(by_text["Ben works at Acme"])
        return works_at(messages)

    with Memory(database_url, model=ScriptedChatModel(replies=[meanwhile, works_at])) as memory:
        done = memory.graph.backfill(**ALICE)
        assert (done.read, done.skipped) == (1, 2)
        assert memory.graph.backfill(**ALICE).read == 1
        assert [row[0] for row in believed(memory)] == ["Anna works at Acme", "alice works at Velltex"]


def test_backfill_by_two_at_once_writes_everything_once(database_url: str) -> None:
    stored(database_url, "Works at Acme", "Ben works at Acme")
    inner: list[int] = []

    def beside(messages: list[BaseMessage]) -> str:
        with Memory(database_url, model=ScriptedChatModel(replies=[works_at])) as other:
            inner.append(other.graph.backfill(**ALICE).read)
        return works_at(messages)

    with Memory(database_url, model=ScriptedChatModel(replies=[beside])) as memory:
        done = memory.graph.backfill(**ALICE)
        assert (inner, done.read, done.skipped) == ([2], 0, 2)
        assert [row[3] for row in believed(memory)] == [1, 1]


_KILLED = """
import os, sys
from langmem_adapter import Memory
memory = Memory(sys.argv[1])
memory.graph.backfill(user_id="alice", batch=2, progress=lambda done, _: done == 4 and os._exit(9))
"""


def test_backfill_goes_on_after_a_kill(tmp_path: Path) -> None:
    path = str(tmp_path / "memory.db")
    stored(path, *(f"Person{number} works at Acme" for number in range(7)))
    python("-c", _KILLED, path, code=9)
    with Memory(path) as memory:
        before = len(believed(memory))
        done = memory.graph.backfill(**ALICE)
        assert (done.read, before + done.added) == (3, len(believed(memory)))
        assert {row[3] for row in believed(memory)} <= {1}


@each(
    ("given", "error"),
    [
        ({}, ScopeError),
        ({"user_id": " "}, ScopeError),
        ({**ALICE, "batch": 0}, InvalidInputError),
        ({**ALICE, "batch": 201}, InvalidInputError),
        ({**ALICE, "limit": 0}, InvalidInputError),
        ({**ALICE, "progress": 3}, InvalidInputError),
    ],
)
def test_backfill_refuses_unusable_arguments(
    shared_url: Callable[[str], str], given: Any, error: type[Exception]
) -> None:
    with Memory(shared_url("sqlite")) as memory, pytest.raises(error):
        memory.graph.backfill(**given)
