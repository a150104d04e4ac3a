"""Traces, cost, progress, retries: what one can see of a run."""

from __future__ import annotations

import json
import logging
from itertools import count
from math import fsum
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import update

from langmem_adapter.errors import InvalidInputError, MemoryNotFoundError, ModelError, ModelReplyError, ScopeError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.pipeline import parse
from langmem_adapter.pipeline.run import RETRIES
from langmem_adapter.records.results import AddResult
from langmem_adapter.records.scope import Scope
from langmem_adapter.settings import Settings
from langmem_adapter.storage import tables, traces
from langmem_adapter.testing import ScriptedChatModel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

FACTS = '{"facts": ["Lives in Rome"]}'
MOVED = '{"memory": [{"id": "0", "text": "Lives in Oslo", "event": "UPDATE", "reason": "moved"}]}'
BACK = '{"memory": [{"id": "0", "text": "Lives in Rome", "event": "UPDATE", "reason": "back"}]}'


@pytest.fixture
def memory(database_url: str) -> Iterator[Memory]:
    model = ScriptedChatModel(replies=[FACTS, '{"facts": ["Lives in Oslo"]}', "what?", MOVED, FACTS, BACK])
    with Memory(database_url, model=model) as opened:
        yield opened


def test_a_trace_shows_what_every_stage_saw_and_produced(memory: Memory) -> None:
    memory.add("I live in Rome.", user_id="a")
    result = memory.add("I live in Oslo.", user_id="a")
    trace = memory.trace(str(result.trace_id))
    assert [turn.text for turn in trace.turns] == ["I live in Oslo."]
    assert [fact.text for fact in trace.facts] == ["Lives in Oslo"]
    assert [known["text"] for known in trace.candidates["known"]] == ["Lives in Rome"]
    assert [(d.event, d.reason) for d in trace.decisions] == [("UPDATE", "moved")]
    assert [call.reply for call in trace.calls][1:] == ["what?", MOVED]
    assert "Lives in Rome" in trace.calls[1].messages[-1][1]
    assert trace.result.results == result.results
    assert (trace.result.mode, result.mode) == ("scripted", "scripted")
    assert set(trace.result.usage.milliseconds) == {"parse", "extract", "retrieve", "decide"}
    assert memory.history(str(result.results[0].id))[-1].reason == "moved"


def test_trace_the_cost_is_told_with_every_result(memory: Memory) -> None:
    first, second = memory.add("I live in Rome.", user_id="a"), memory.add("I live in Oslo.", user_id="a")
    assert (first.usage.model_calls, second.usage.model_calls) == (1, 3)
    assert second.usage.input_tokens > 0 and second.usage.output_tokens > 0
    assert list(second.usage.milliseconds) == ["parse", "extract", "retrieve", "decide", "apply"]
    assert second.usage.calls == ()


def test_trace_the_time_of_parse_is_that_of_reading_the_messages_wherever_they_are_read(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    hour = count(step=3_600)
    monkeypatch.setattr(parse, "perf_counter", lambda: next(hour))
    one, other = memory.add_many([{"messages": "I live in Rome.", "user_id": "a"}, {"messages": "Hi.", "user_id": "a"}])
    assert isinstance(one, AddResult) and isinstance(other, AddResult)
    assert one.usage.milliseconds["parse"] // 3_600_000 == 2


def test_a_trace_is_kept_even_where_nothing_was_found(tmp_path: Path) -> None:
    with Memory(tmp_path / "m.db") as memory:
        result = memory.add("Hello there!", user_id="a")
        assert memory.trace(str(result.trace_id)).facts == ()


def test_trace_id_of_another_tenant_is_not_found(memory: Memory) -> None:
    result = memory.add("I live in Rome.", user_id="a")
    assert memory.trace(str(result.trace_id), user_id="a").scope.user_id == "a"
    for arguments in ({"user_id": "b"}, {"agent_id": "a"}):
        with pytest.raises(MemoryNotFoundError):
            memory.trace(str(result.trace_id), **arguments)
    for ask in (memory.trace, memory.replay):
        with pytest.raises(MemoryNotFoundError, match="no trace 'nothing' here"):
            ask("nothing")
        with pytest.raises(InvalidInputError, match="a trace's id is a text"):
            ask(7)  # type: ignore[arg-type]


def test_trace_a_change_leads_to_the_add_that_made_it(memory: Memory) -> None:
    first, second = memory.add("I live in Rome.", user_id="a"), memory.add("I live in Oslo.", user_id="a")
    home = str(first.results[0].id)
    memory.update(home, "Lives in Bergen")
    moments = [revision.created_at for revision in memory.history(home)]

    def ask(memory_id: str, moments: Sequence[datetime], scope: Scope | None) -> Mapping[datetime, str]:
        return memory.parts.reading(traces.of_changes, memory_id, moments, scope)

    found = ask(home, moments, Scope(user_id="a"))
    assert [found.get(moment) for moment in moments] == [first.trace_id, second.trace_id, None]
    assert found == ask(home, moments, None)
    assert ask("another", moments, None) == ask(home, [], None) == ask(home, moments, Scope(user_id="b")) == {}


def test_trace_the_adds_of_a_scope_are_listed_without_their_states(memory: Memory) -> None:
    first, second = memory.add("I live in Rome.", user_id="a"), memory.add("I live in Oslo.", user_id="a", run_id="r")
    memory.add([("system", "Be kind."), ("user", "记" * 500)], user_id="b", infer=False)
    newer, older = memory.traces(user_id="a")
    assert (older.id, older.said, older.facts, dict(older.events)) == (first.trace_id, "I live in Rome.", 1, {"ADD": 1})
    assert (newer.id, newer.scope, newer.mode) == (second.trace_id, Scope(user_id="a", run_id="r"), "scripted")
    assert newer.created_at >= older.created_at
    usage = second.usage
    assert (newer.model_calls, newer.input_tokens) == (usage.model_calls, usage.input_tokens)
    assert newer.milliseconds == round(fsum(memory.trace(newer.id).result.usage.milliseconds.values()), 3)
    (verbatim,) = memory.traces(user_id="b")
    assert (verbatim.said, verbatim.model_calls) == ("记" * 200, 0)
    page = memory.traces(user_id="a", k=1)
    assert [*page, *memory.traces(user_id="a", k=1, after=page.next)] == [newer, older]
    assert memory.traces(user_id="a", run_id="r", k=1).items == (newer,)
    assert memory.traces(agent_id="a").items == ()
    for user in (None, " "):
        with pytest.raises(ScopeError):
            memory.traces(user_id=user)
    with pytest.raises(InvalidInputError, match="cursor"):
        memory.traces(user_id="a", after="page 2")


def test_a_purge_takes_the_traces_of_a_scope_alone(memory: Memory) -> None:
    memory.add("I live in Rome.", user_id="a", agent_id="x", infer=False)
    memory.add("Hello there!", user_id="b", infer=False)
    assert memory.purge(agent_id="x").traces == 1
    assert [len(memory.traces(user_id=user)) for user in ("a", "b")] == [0, 1]


def test_a_replay_thinks_again_and_writes_nothing(memory: Memory) -> None:
    result = memory.add("I live in Rome.", user_id="a")
    memory.add("I live in Oslo.", user_id="a")
    before = memory.stats()
    again = memory.replay(str(result.trace_id))
    assert [(c.event, c.text, c.reason) for c in again.results] == [
        ("ADD", "Lives in Rome", "the later statement wins")
    ]
    assert again.notes == ("a dry run: nothing was written",)
    assert (memory.stats().memories, memory.stats().changes) == (before.memories, before.changes)


async def test_a_trace_without_turns_is_not_replayed(memory: Memory) -> None:
    trace_id = str(memory.add("I live in Rome.", user_id="a").trace_id)
    empty = {**memory.trace(trace_id).state, "turns": []}
    memory.parts.database.write(lambda connection: connection.execute(update(tables.traces).values(state=empty)))
    with pytest.raises(InvalidInputError, match="nothing to remember"):
        memory.replay(trace_id)
    with pytest.raises(InvalidInputError, match="nothing to remember"):
        await memory.areplay(trace_id)


async def test_a_replay_of_many_kinds_of_turns_works_async(tmp_path: Path) -> None:
    said: list[Any] = [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "I like tea.", "name": "Ann"},
        {"role": "tool", "content": "42", "tool_call_id": "1"},
        {"role": "assistant", "content": "Noted."},
    ]
    async with Memory(tmp_path / "m.db") as memory:
        result = await memory.aadd(said, user_id="a")
        again = await memory.areplay(str(result.trace_id))
        assert [change.event for change in again.results] == ["NONE"]
        assert (await memory.atrace(str(result.trace_id))).turns[1].actor == "Ann"


def test_trace_retention_is_a_setting(tmp_path: Path) -> None:
    with Memory(tmp_path / "m.db", settings=Settings(trace_days=0)) as memory:
        assert memory.add("I like tea.", user_id="a").trace_id is None
    with Memory(tmp_path / "m.db", settings=Settings(trace_days=1e-9)) as memory:
        old = memory.add("I like milk.", user_id="a")
        memory.add("I like go.", user_id="a")
        with pytest.raises(MemoryNotFoundError):
            memory.trace(str(old.trace_id))


def test_a_reset_removes_traces_as_well(tmp_path: Path) -> None:
    with Memory(tmp_path / "m.db") as memory:
        result = memory.add("I like tea.", user_id="a")
        memory.reset()
        with pytest.raises(MemoryNotFoundError):
            memory.trace(str(result.trace_id))


def test_trace_no_text_of_a_memory_is_logged_at_info(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    model = ScriptedChatModel(replies=[FACTS, "x", "y"])
    with Memory(tmp_path / "m.db", model=model, on_bad_reply="raise") as memory:
        memory.add("I live in Rome.", user_id="a")
        memory.search("Rome", user_id="a")
        with pytest.raises(ModelReplyError):
            memory.add("I live in Rome, still.", user_id="a")
    assert "Rome" not in caplog.text


def test_trace_progress_can_be_streamed(memory: Memory) -> None:
    graph = memory.build_pipeline()
    said = {"messages": "I live in Rome.", "scope": {"user_id": "a"}}
    told = list(graph.stream(said, stream_mode="custom"))
    assert [step["stage"] for step in told] == ["parse", "extract", "retrieve", "decide", "apply"]
    assert told[1]["facts"] == 1
    assert told[4]["changes"] == 1


class LimitError(Exception):
    """As the clients of model vendors raise it."""

    def __init__(self, status_code: int) -> None:
        super().__init__(f"HTTP {status_code}")
        self.status_code = status_code


@pytest.mark.parametrize("error", [LimitError(429), LimitError(503), ConnectionError("reset"), TimeoutError()])
def test_trace_a_passing_failure_of_the_model_is_tried_again(tmp_path: Path, error: Exception) -> None:
    model = ScriptedChatModel(replies=[error, FACTS])
    with Memory(tmp_path / "m.db", model=model) as memory:
        assert memory.add("I live in Rome.", user_id="a").results[0].text == "Lives in Rome"
    assert len(model.calls) == 2


@pytest.mark.parametrize(("error", "calls"), [(LimitError(500), 3), (LimitError(401), 1), (ValueError("bad"), 1)])
def test_trace_a_lasting_failure_reaches_the_caller_and_nothing_is_written(
    tmp_path: Path, error: Exception, calls: int
) -> None:
    model = ScriptedChatModel(replies=[error] * 5)
    with Memory(tmp_path / "m.db", model=model) as memory:
        with pytest.raises(ModelError) as caught:
            memory.add("I live in Rome.", user_id="a")
        assert caught.value.__cause__ is error
        assert memory.stats().changes == 0
    assert len(model.calls) == calls


def test_trace_our_own_refusals_are_never_tried_again() -> None:
    assert callable(RETRIES.retry_on) and not RETRIES.retry_on(ModelReplyError("bad"))


def test_the_state_of_a_trace_is_plain_json(memory: Memory) -> None:
    result = memory.add("I live in Rome.", user_id="a")
    state = memory.trace(str(result.trace_id)).state
    assert json.loads(json.dumps(state)) == state
