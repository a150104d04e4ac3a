"""Which messages of a thread are remembered, and in which version: real agents with the middleware that LangChain ships."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest
from fastapi.testclient import TestClient
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ModelRetryMiddleware,
    PIIDetectionError,
    PIIMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
    ToolRetryMiddleware,
    before_agent,
    before_model,
    wrap_model_call,
)
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.types import Command
from sqlalchemy import select

from langmem_adapter.adapters.checkpointer import SQLAlchemySaver
from langmem_adapter.adapters.classic import ConversationMemory
from langmem_adapter.adapters.middleware import MemoryContext, MemoryMiddleware
from langmem_adapter.adapters.nodes import recall_node, remember_node
from langmem_adapter.adapters.threads import latest_turn
from langmem_adapter.memory.memory import Memory
from langmem_adapter.server.app import create_app
from langmem_adapter.storage.tables import metadata
from langmem_adapter.testing import ScriptedChatModel
from tests.cases import each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from langchain_core.messages import BaseMessage

ALICE = MemoryContext("alice")
BOB = MemoryContext("bob")
ADDRESS = "jo.frost@example.org"
MAIL = f"My email is {ADDRESS} and I like tea."


@tool
def look_up(what: str) -> str:
    """Look it up."""
    if what == "broken":
        raise ConnectionError("no network")
    return f"nothing about {what}"


def calling(what: str = "tea", id_: str = "1") -> AIMessage:
    return AIMessage("", tool_calls=[{"name": "look_up", "args": {"what": what}, "id": id_}])


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory(":memory:") as opened:
        yield opened


def on(thread: str = "t", **more: Any) -> Any:
    return {"configurable": {"thread_id": thread}, **more}


class Agent:
    """An agent on one memory, and the messages that its provider was sent."""

    def __init__(
        self,
        memory: Memory,
        *replies: Any,
        before: Sequence[Any] = (),
        after: Sequence[Any] = (),
        saver: Any = None,
        **how: Any,
    ) -> None:
        self.memory = memory
        self.model = ScriptedChatModel(replies=replies or ["Noted."] * 20, modes="tools")
        self.graph: Any = create_agent(
            self.model,
            [look_up],
            middleware=[*before, MemoryMiddleware(memory, **how), *after],
            context_schema=MemoryContext,
            checkpointer=saver or InMemorySaver(),
        )

    def say(self, *said: Any, context: MemoryContext = ALICE, config: Any = None) -> Any:
        given = [HumanMessage(each) if isinstance(each, str) else each for each in said]
        return self.graph.invoke({"messages": given} if given else None, config or on(), context=context)

    async def hear(self, said: str, thread: str = "t", *, sync: bool) -> None:
        """A message of Alice."""
        if sync:
            self.say(said, config=on(thread))
        else:
            await self.graph.ainvoke({"messages": said}, on(thread), context=ALICE)

    def sent(self) -> str:
        """All that the provider was sent."""
        return "\n".join(message.text for call in self.model.calls for message in call)


def texts(memory: Memory, user: str = "alice") -> list[str]:
    return sorted(item.text for item in memory.get_all(user_id=user))


def sources(memory: Memory, user: str = "alice") -> list[str]:
    """What the user said in each add, in order: every message that was a source of facts."""
    traces = [memory.trace(each.id) for each in memory.traces(user_id=user, k=1000)]
    return [turn.text for trace in reversed(traces) for turn in trace.turns if turn.role == "user"]


def kept(memory: Memory) -> str:
    """All that the database holds but for LangGraph's threads."""
    with memory.parts.database.read() as connection:
        tables = [each for each in metadata.sorted_tables if not each.name.startswith("thread_")]
        return "\n".join(str(row._mapping) for each in tables for row in connection.execute(select(each)))


def private(agent: Agent, config: Any = None) -> dict[str, Any]:
    """What the middleware keeps in the thread."""
    checkpoint = agent.graph.checkpointer.get(config or on())
    return {name: value for name, value in checkpoint["channel_values"].items() if name.startswith("memory_")}


# ── what answers ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_latest_turn_begins_after_the_last_answer_and_a_call_of_a_tool_answers_nothing() -> None:
    h, a = HumanMessage, AIMessage
    table: list[tuple[list[BaseMessage], list[str]]] = [
        ([h("one"), calling(), h("two")], ["one", "two"]),
        ([h("one"), calling(), AIMessage(""), h("two"), a("yes")], ["one", "two", "yes"]),
        ([h("one"), a("let me see", tool_calls=calling().tool_calls), h("two")], ["one", "let me see", "two"]),
        (
            [h("nil"), a("yes"), h("one"), AIMessage([{"type": "reasoning", "reasoning": "hm"}]), h("two")],
            ["one", "two"],
        ),
        ([h("nil"), a("yes"), h("one")], ["one"]),
        ([a("hello"), calling(), h("one"), a("yes")], ["one", "yes"]),
        ([a("hello")], []),
    ]
    for thread, turn in table:
        assert [message.text for message in latest_turn(thread)] == turn


# ── redaction ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@before_model
def redacted(state: Any, runtime: Any) -> dict[str, Any]:
    said = [each for each in state["messages"] if ADDRESS in each.text]
    return {"messages": [each.model_copy(update={"content": each.text.replace(ADDRESS, "(hidden)")}) for each in said]}


def mixed(cases: Iterable[Any]) -> list[tuple[Any, int, bool, bool]]:
    """Each case before and after the memory's middleware, with both savers, sync and async; not each with each."""
    return [(case, place, (at + place) % 2 == 0, at % 2 == 0) for at, case in enumerate(cases) for place in (0, 1)]


def places(other: Any) -> list[dict[str, list[Any]]]:
    return [{"before": [other]}, {"after": [other]}]


@each(("strategy", "place", "saved", "sync"), mixed(["redact", "mask", "hash", None]))
async def test_memory_middleware_remembers_and_recalls_what_other_middleware_redacts(
    *, strategy: Any, place: int, saved: bool, sync: bool
) -> None:
    with Memory(":memory:") as memory:
        other = redacted if strategy is None else PIIMiddleware("email", strategy=strategy)
        saver = SQLAlchemySaver(memory) if saved else None
        agent = Agent(memory, **places(other)[place], saver=saver)
        question = "What is my email? What do I like?"
        for said, thread in ((MAIL, "t"), (question, "t"), (question, "another")):
            await agent.hear(said, thread, sync=sync)
        assert any("tea" in text for text in texts(memory))
        assert "tea" in agent.model.calls[2][-1].text.partition("\n\n")[2]
        leaks = kept(memory), agent.sent(), str(private(agent)), repr(memory.search("email", user_id="alice"))
        assert not any(ADDRESS in each for each in leaks)
        assert sources(memory)[0].startswith("My email is ") and len(sources(memory)) == 3


def test_memory_turns_in_the_state_are_ids_alone(memory: Memory) -> None:
    agent = Agent(memory)
    agent.say("I like tea.")
    agent.say("I live in Lyon.")
    shown = json.dumps(private(agent))
    assert "tea" not in shown and "Lyon" not in shown and "alice" not in shown
    assert set(private(agent)) == {"memory_turns"}


def raises(error: Exception) -> Any:
    def hook(state: Any, runtime: Any) -> None:
        if "secret" in state["messages"][-1].text:
            raise error

    return hook


@before_model(can_jump_to=["end"])
def moderated(state: Any, runtime: Any) -> Any:
    last = state["messages"][-1]
    return {"messages": [RemoveMessage(id=last.id)], "jump_to": "end"} if "secret" in last.text else None


@before_model
def removed(state: Any, runtime: Any) -> Any:
    return {"messages": [RemoveMessage(id=each.id) for each in state["messages"] if "secret" in each.text]}


@before_agent(can_jump_to=["end"])
def guarded(state: Any, runtime: Any) -> Any:
    blocked = "secret" in state["messages"][-1].text
    return {"messages": [AIMessage("I cannot do that.")], "jump_to": "end"} if blocked else None


@before_model(can_jump_to=["end"])
def ended(state: Any, runtime: Any) -> Any:
    return guarded.before_agent(state, runtime)


BLOCKERS: dict[str, Callable[[], AgentMiddleware[Any, Any, Any]]] = {
    "PII": lambda: PIIMiddleware("word", detector="secret", strategy="block"),
    "raises": lambda: before_model(raises(ValueError("no"))),
    "raises first": lambda: before_agent(raises(ValueError("no"))),
    "moderated": lambda: moderated,
    "removed": lambda: removed,
    "guarded": lambda: guarded,
    "ended": lambda: ended,
}


@each(("blocker", "place", "saved", "sync"), mixed(BLOCKERS))
async def test_memory_middleware_never_remembers_what_another_blocks_or_removes(
    *, blocker: str, place: int, saved: bool, sync: bool
) -> None:
    with Memory(":memory:") as memory:
        saver = SQLAlchemySaver(memory) if saved else None
        agent = Agent(memory, **places(BLOCKERS[blocker]())[place], saver=saver)
        await agent.hear("I like tea.", sync=sync)
        with suppress(PIIDetectionError, ValueError):
            await agent.hear("I hate the secret.", sync=sync)
        for said in ("I live in Lyon.", "I am vegetarian."):
            await agent.hear(said, sync=sync)
        assert texts(memory) == ["Is vegetarian", "Likes tea", "Lives in Lyon"]
        assert not any("secret" in each for each in (kept(memory), str(private(agent))))
        assert sources(memory) == ["I like tea.", "I live in Lyon.", "I am vegetarian."]


# ── turns that did not end ────────────────────────────────────────────────────────────────────────────────────────────


def approval() -> Any:
    return HumanInTheLoopMiddleware(interrupt_on={"look_up": True})


def closed(mode: str) -> Callable[[Agent], None]:
    config = {
        "configurable": {"thread_id": "t", "user_id": "alice"}
    }  # which the first checkpoint holds, unlike the context

    def close(agent: Agent) -> None:
        stream = agent.graph.stream({"messages": "I like tea."}, config, context=ALICE, stream_mode=mode)
        next(stream)
        stream.close()

    return close


def failed(error: type[Exception], **config: Any) -> Callable[[Agent], None]:
    def fail(agent: Agent) -> None:
        with pytest.raises(error):
            agent.say("I like tea.", config=on(**config))

    return fail


UNENDED: dict[str, tuple[list[Any], list[Any], Callable[[Agent], Any]]] = {
    "a tool fails": ([], [calling("broken")], failed(ConnectionError)),
    "the model fails": ([], [ConnectionError("no model")], failed(ConnectionError)),
    "the recursion limit": (
        [],
        [calling(id_=str(n)) for n in range(9)],
        failed(GraphRecursionError, recursion_limit=8),
    ),
    "no approval": ([approval()], [calling()], lambda agent: agent.say("I like tea.")),
    "closed, messages": ([], ["Noted."], closed("messages")),
    "closed, updates": ([], ["Noted."], closed("updates")),
    "closed, values": ([], ["Noted."], closed("values")),
}


@each(("name", "place", "saved", "sync"), mixed(UNENDED))
async def test_memory_middleware_remembers_a_turn_that_did_not_end_with_the_next(
    *, name: str, place: int, saved: bool, sync: bool
) -> None:
    others, replies, begin = UNENDED[name]
    with Memory(":memory:") as memory:
        around: dict[str, Any] = {("before", "after")[place]: others}
        saver = SQLAlchemySaver(memory) if saved else None
        agent = Agent(memory, *replies, *["Noted."] * 9, saver=saver, **around)
        begin(agent)
        agent.model.replies = [*replies[: len(agent.model.calls)], *["Noted."] * 9]
        assert texts(memory) == []
        await agent.hear("Hello? I live in Oslo.", sync=sync)
        await agent.hear("I am vegetarian.", sync=sync)
        assert sources(memory) == ["I like tea.", "Hello? I live in Oslo.", "I am vegetarian."]
        assert texts(memory) == ["Is vegetarian", "Likes tea", "Lives in Oslo"]


def test_memory_middleware_of_another_process_goes_on_with_a_turn_that_did_not_end(tmp_path: Path) -> None:
    for said, reply in (("I like tea.", ConnectionError("no model")), ("I live in Oslo.", "Noted.")):
        with Memory(tmp_path / "m.db") as memory:
            agent = Agent(memory, reply, saver=SQLAlchemySaver(memory))
            try:
                agent.say(said)
            except ConnectionError:
                assert texts(memory) == []
    with Memory(tmp_path / "m.db") as memory:
        assert texts(memory) == ["Likes tea", "Lives in Oslo"]


def test_memory_that_fails_to_remember_does_so_with_the_next_turn(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent(memory)
    with monkeypatch.context() as broken:
        broken.setattr(memory, "add", raises_on_add)
        agent.say("I like tea.")
    assert texts(memory) == []
    agent.say("I live in Oslo.")
    assert sources(memory) == ["I like tea.", "I live in Oslo."]


def raises_on_add(*_: Any, **__: Any) -> None:
    raise ConnectionError("the embedding server is down")


def test_memory_middleware_remembers_what_was_summarised_before_it_was_answered_in_order(memory: Memory) -> None:
    fails = [calling("broken", str(number)) for number in range(3)]
    agent = Agent(memory, *fails, *["Noted."] * 3, before=[summarizing(1)])
    for said in ("I like tea.", "I like beer.", "I like wine."):
        with pytest.raises(ConnectionError):
            agent.say(said)
    agent.say("I live in Oslo.")
    assert sources(memory) == ["I like tea.", "I like beer.", "I like wine.", "I live in Oslo."]


@each(("place", "saved"), [(0, False), (1, True)])
def test_memory_middleware_remembers_what_was_summarised_before_the_model_saw_it(*, place: int, saved: bool) -> None:
    with Memory(":memory:") as memory:
        agent = Agent(memory, saver=SQLAlchemySaver(memory) if saved else None, **places(summarizing(1))[place])
        agent.say("I like tea.", "I like beer.", "I like wine.", "I live in Oslo.")
        agent.say("I am vegetarian.")
        assert sources(memory) == ["I like tea.", "I like beer.", "I like wine.", "I live in Oslo.", "I am vegetarian."]


def test_what_was_summarised_before_the_model_saw_it_in_no_checkpoint_is_named_in_the_log(
    memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    agent = Agent(memory, before=[summarizing(1)])
    agent.graph.checkpointer = None
    agent.say("I like tea.", "I like beer.", "I like wine.", "I live in Oslo.")
    assert sources(memory) == ["I live in Oslo."]
    assert "3 messages were summarised before the model saw them" in caplog.text


@each("mode", ["updates", "values"])
def test_a_closed_turn_is_remembered_also_where_the_next_is_blocked(mode: str) -> None:
    with Memory(":memory:") as memory:
        agent = Agent(memory, after=[PIIMiddleware("word", detector="secret", strategy="block")])
        closed(mode)(agent)
        with pytest.raises(PIIDetectionError):
            agent.say("I hate the secret.")
        agent.say("I live in Oslo.")
        assert sources(memory) == ["I like tea.", "I live in Oslo."]
        assert "secret" not in kept(memory)


async def test_a_cancelled_task_and_a_closed_async_stream_are_remembered_with_the_next_turn(memory: Memory) -> None:
    called = asyncio.Event()

    @wrap_model_call
    async def waits(request: Any, handler: Any) -> Any:
        if len(request.messages) == 1:
            called.set()
            await asyncio.Event().wait()
        return await handler(request)

    agent = Agent(memory, after=[waits])
    task = asyncio.create_task(agent.graph.ainvoke({"messages": "I like tea."}, on(), context=ALICE))
    await called.wait()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    stream = agent.graph.astream({"messages": "I live in Oslo."}, on(), context=ALICE, stream_mode="messages")
    await anext(stream)
    await stream.aclose()
    await agent.hear("I am vegetarian.", sync=False)
    assert sources(memory) == ["I like tea.", "I live in Oslo.", "I am vegetarian."]


def test_without_a_checkpointer_a_thread_that_is_sent_whole_is_remembered_once(memory: Memory) -> None:
    agent: Any = create_agent(
        ScriptedChatModel(replies=["Noted."] * 9, modes="tools"),
        middleware=[MemoryMiddleware(memory), PIIMiddleware("email")],
        context_schema=MemoryContext,
    )
    thread: list[BaseMessage] = []
    for place, said in enumerate((MAIL, "I live in Oslo.", "I am vegetarian.")):
        thread += [HumanMessage(said, id=f"h{place}")]
        agent.invoke({"messages": thread}, on(), context=ALICE)
        thread += [AIMessage("Noted.", id=f"a{place}")]
    assert [text.split()[1] for text in sources(memory)] == ["email", "live", "am"]
    assert ADDRESS not in kept(memory)


def test_an_agent_within_a_graph_remembers_a_failed_turn_with_the_next(memory: Memory) -> None:
    agent = Agent(memory, "Noted.", ConnectionError("no model"), *["Noted."] * 9)
    agent.graph.checkpointer = None
    around = StateGraph(State, context_schema=MemoryContext).add_node("agent", agent.graph)
    graph: Any = around.add_edge(START, "agent").compile(checkpointer=InMemorySaver())
    for said in ("I like tea.", "I live in Oslo.", "I am vegetarian."):
        with suppress(ConnectionError):
            graph.invoke({"messages": said}, on(), context=ALICE)
    assert sources(memory) == ["I like tea.", "I live in Oslo.", "I am vegetarian."]


# ── exactly once ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_run_that_is_resumed_retried_or_travelled_back_to_remembers_each_message_once(memory: Memory) -> None:
    agent = Agent(memory, ConnectionError("no model"), calling(), *["Noted."] * 20, after=[approval()])
    with pytest.raises(ConnectionError):
        agent.say(HumanMessage("I like tea.", id="tea"))
    agent.say()  # again from where it failed, up to the approval
    approved: Command[Any] = Command(resume={"decisions": [{"type": "approve"}]})
    await agent.graph.ainvoke(approved, on(), context=ALICE)
    assert sources(memory) == ["I like tea."]
    agent.say(HumanMessage("I live in Oslo.", id="oslo"))
    for past in list(agent.graph.get_state_history(on())):
        if past.next and not any(task.interrupts for task in past.tasks):
            agent.graph.invoke(None, past.config, context=ALICE)
    agent.say(HumanMessage("I live in Oslo.", id="oslo"))
    assert sources(memory) == ["I like tea.", "I live in Oslo."]


@pytest.mark.parametrize("background", [False, True])
def test_parallel_runs_of_one_thread_remember_each_message_once(tmp_path: Path, *, background: bool) -> None:
    with Memory(tmp_path / "m.db") as memory:
        how: dict[str, Any] = {"background": memory.background(after=60) if background else False}
        agent, same = Agent(memory, **how), HumanMessage("I like tea.", id="1")
        own = [HumanMessage(f"I like {what}.", id=what) for what in ("beer", "wine", "milk")]
        with ThreadPoolExecutor(4) as pool:
            runs = [pool.submit(agent.say, same, each) for each in own]
            runs += [pool.submit(agent.say, same) for _ in range(3)]
            assert all(run.result() for run in runs)
        if background:
            how["background"].drain()
        assert sorted(sources(memory)) == ["I like beer.", "I like milk.", "I like tea.", "I like wine."]


# ── with other middleware ─────────────────────────────────────────────────────────────────────────────────────────────

MANY: list[Any] = [calling(id_=str(number)) for number in range(4)]


def retried(*_: Any) -> Any:
    return ConnectionError("try again")


OTHERS: dict[str, tuple[Callable[[], Any], list[Any]]] = {
    "summaries": (lambda: summarizing(2), ["Noted."] * 3),
    "a summary within a turn": (lambda: summarizing(2), [*MANY, "Noted.", *MANY, "Noted.", "Noted."]),
    "todos": (TodoListMiddleware, ["Noted."] * 3),
    "tool retries": (lambda: ToolRetryMiddleware(max_retries=1, initial_delay=0), [calling("broken"), *["Noted."] * 3]),
    "model retries": (lambda: ModelRetryMiddleware(initial_delay=0), [retried, retried, *["Noted."] * 3]),
    "a model that gives up": (lambda: ModelRetryMiddleware(max_retries=0), [retried, *["Noted."] * 2]),
}


def summarizing(keep: int) -> Any:
    model = ScriptedChatModel(replies=["The user likes poison."] * 99)
    return SummarizationMiddleware(model, trigger=("messages", 4), keep=("messages", keep))


@each(("name", "place", "saved", "sync"), mixed(OTHERS))
async def test_memory_middleware_remembers_each_message_once_beside_others(
    *, name: str, place: int, saved: bool, sync: bool
) -> None:
    make, replies = OTHERS[name]
    with Memory(":memory:") as memory:
        agent = Agent(memory, *replies, saver=SQLAlchemySaver(memory) if saved else None, **places(make())[place])
        for said in ("I like tea.", "I live in Oslo.", "I am vegetarian."):
            await agent.hear(said, sync=sync)
        assert sources(memory) == ["I like tea.", "I live in Oslo.", "I am vegetarian."]


# ── edits ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

PEANUTS, WALNUTS = (HumanMessage(f"I am allergic to {what}.", id="q") for what in ("peanuts", "walnuts"))


def forked(agent: Agent) -> None:
    first = [each for each in agent.graph.get_state_history(on()) if each.next == ("model",)][-1]
    config = agent.graph.update_state(first.config, {"messages": [WALNUTS]})
    agent.graph.invoke(None, config, context=ALICE)


def forked_at_the_start(agent: Agent) -> None:
    first = [*agent.graph.get_state_history(on())][-1]
    agent.graph.invoke({"messages": [WALNUTS]}, first.config, context=ALICE)


@each("edit", [forked, forked_at_the_start, lambda agent: agent.say(WALNUTS)])
@each(("redacting", "saved"), [(False, True), (True, False)])
def test_an_edited_question_supersedes_what_came_of_the_older_text(*, edit: Any, redacting: bool, saved: bool) -> None:
    with Memory(":memory:") as memory:
        others = [PIIMiddleware("email")] if redacting else []
        agent = Agent(memory, before=others, saver=SQLAlchemySaver(memory) if saved else None)
        agent.say(PEANUTS)
        (old,) = memory.get_all(user_id="alice")
        edit(agent)
        assert texts(memory) == ["Is allergic to walnuts"]
        assert [(each.event, each.reason) for each in memory.history(old.id)][1:] == [
            ("DELETE", "the message that it came from was edited")
        ]
        agent.say("I live in Oslo.")
        assert sources(memory) == ["I am allergic to peanuts.", "I am allergic to walnuts.", "I live in Oslo."]


def test_a_client_that_sends_the_unredacted_text_again_edits_nothing(memory: Memory) -> None:
    agent = Agent(memory, after=[PIIMiddleware("email")])
    agent.say(HumanMessage(MAIL, id="1"))
    agent.say(HumanMessage(MAIL, id="1"), HumanMessage("I live in Oslo.", id="2"))
    assert ADDRESS not in kept(memory)
    assert len(sources(memory)) == 2


def add(memory: Memory, text: str, id_: str = "1", thread: str | None = "t", user: str = "alice") -> Any:
    return memory.add([HumanMessage(text, id=id_), AIMessage("Noted.")], user_id=user, thread_id=thread)


EDITS: dict[str, tuple[list[tuple[Any, ...]], list[str]]] = {
    "an addition": ([("I like tea.",), ("I like beer.",)], ["Likes beer"]),
    "part of it": (
        [("I like tea. I live in Oslo.",), ("I like beer. I live in Oslo.",)],
        ["Likes beer", "Lives in Oslo"],
    ),
    "an update": ([("I live in Oslo.", "0"), ("I live in Rome.",), ("Where is Rome?",)], ["Lives in Oslo"]),
    "the updated one": (
        [("I live in Oslo.", "0"), ("I live in Rome.",), ("Where is Rome?",), ("Where is Oslo?", "0")],
        [],
    ),
    "a later update": ([("I live in Oslo.", "0"), ("I live in Rome.",), ("Where is Oslo?", "0")], ["Lives in Rome"]),
    "a wish to forget": ([("I like tea.", "0"), ("Please forget that I like tea.",), ("Hi!",)], ["Likes tea"]),
    "said by another": ([("I like tea.",), ("I like tea.", "2"), ("I like beer.",)], ["Likes beer", "Likes tea"]),
    "said by others, edited": ([("I like tea.",), ("I like tea.", "2"), ("Hi!",), ("Hello!", "2")], []),
    "the same": ([("I like tea.",), ("I like tea.",)], ["Likes tea"]),
    "another thread": ([("I like tea.",), ("I like beer.", "1", "u")], ["Likes beer", "Likes tea"]),
    "another user": ([("I like tea.",), ("I like beer.", "1", "t", "bob")], ["Likes tea"]),
    "no thread": ([("I like tea.", "1", None), ("I like beer.", "1", None)], ["Likes beer", "Likes tea"]),
    "back again": ([("I like tea.",), ("I like beer.",), ("I like tea.",)], ["Likes tea"]),
}


@each("name", EDITS)
def test_add_of_an_edited_message_of_a_thread(name: str) -> None:
    said, expected = EDITS[name]
    with Memory(":memory:") as memory:
        for arguments in said:
            add(memory, *arguments)
        assert texts(memory) == expected


def test_add_of_an_edited_message_on_postgres_and_sqlite(database_url: str) -> None:
    with Memory(database_url) as memory:
        memory.add([HumanMessage("I live in Oslo.", id="0")], user_id="a", thread_id="t")
        memory.add([HumanMessage("I live in Rome.", id="1")], user_id="a", thread_id="t")
        changes = memory.add([HumanMessage("I like tea.", id="1")], user_id="a", thread_id="t").results
        assert [(each.event, each.text) for each in changes] == [("UPDATE", "Lives in Oslo"), ("ADD", "Likes tea")]
        again = memory.add([HumanMessage("I like tea.", id="1")], user_id="a", thread_id="t")
        assert again.results == () and "remembered before" in again.notes[0]
        (refused,) = memory.add_many([{"messages": "I like tea.", "user_id": "a", "thread_id": "t"}])
        assert "thread_id" in str(refused)
        memory.purge(user_id="a")
        with memory.parts.database.read() as connection:
            for name in ("sources", "source_memories"):
                assert connection.execute(select(metadata.tables[name])).all() == []


# ── nodes of any graph ────────────────────────────────────────────────────────────────────────────────────────────────


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    memories: str


def graph_with(memory: Memory, answers: list[Any], **how: Any) -> Any:
    def answer(state: State) -> dict[str, Any]:
        reply = answers.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return {"messages": [reply]}

    graph = StateGraph(State, context_schema=MemoryContext).add_node("recall", recall_node(memory))
    graph.add_node("answer", answer).add_node("remember", remember_node(memory, **how))
    graph.add_edge(START, "recall").add_edge("recall", "answer").add_edge("answer", "remember").add_edge(
        "remember", END
    )
    return graph.compile(checkpointer=InMemorySaver())


@each("sync", [True, False])
@each("background", [False, True])
async def test_remember_node_begins_after_the_last_message_that_was_remembered(*, sync: bool, background: bool) -> None:
    with Memory(":memory:") as memory:
        how = {"background": memory.background(after=60)} if background else {}
        answers = [AIMessage("Hi!"), ConnectionError("no"), calling(), AIMessage("Yes."), AIMessage("Yes.")]
        graph = graph_with(memory, answers, **how)
        oslo = [HumanMessage("I live in Oslo.", id="o")]
        for said in ("Hello!", "I like tea.", "I am vegetarian.", oslo, oslo):
            try:
                if sync:
                    graph.invoke({"messages": said}, on(), context=ALICE)
                else:
                    await graph.ainvoke({"messages": said}, on(), context=ALICE)
            except ConnectionError:
                continue
        for past in [each for each in graph.get_state_history(on()) if each.next == ("remember",)]:
            graph.invoke(None, past.config, context=ALICE)
        if background:
            how["background"].drain()
        assert sources(memory) == ["Hello!", "I like tea.", "I am vegetarian.", "I live in Oslo."]
        assert len(memory.traces(user_id="alice")) == (1 if background else 3)


def test_remember_node_takes_an_edit_from_a_fork(memory: Memory) -> None:
    graph = graph_with(memory, [AIMessage("Noted.")] * 9)
    graph.invoke({"messages": [PEANUTS]}, on(), context=ALICE)
    graph.invoke({"messages": "I live in Oslo."}, on(), context=ALICE)
    first = [each for each in graph.get_state_history(on()) if each.next == ("answer",)][-1]
    graph.invoke(None, graph.update_state(first.config, {"messages": [WALNUTS]}), context=ALICE)
    assert texts(memory) == ["Is allergic to walnuts", "Lives in Oslo"]
    graph.invoke({"messages": [PEANUTS]}, on("t"), context=ALICE)
    assert texts(memory) == ["Is allergic to peanuts", "Lives in Oslo"]


# ── chains, and the routes ────────────────────────────────────────────────────────────────────────────────────────────


@each("background", [False, True])
async def test_conversation_memory_keeps_ids_by_scope_and_session(*, background: bool) -> None:
    with Memory(":memory:") as memory:
        how: dict[str, Any] = {"background": memory.background(after=60)} if background else {}
        chat = ConversationMemory(memory=memory, user_id="alice", session_id="s", **how)
        for said in (PEANUTS, PEANUTS, WALNUTS, HumanMessage("I live in Oslo.", id="o")):
            chat.save_context({"input": [said]}, {"output": "Noted."})
            await chat.asave_context({"input": [said]}, {"output": "Noted."})
        other = ConversationMemory(memory=memory, user_id="alice", session_id="other")
        if background:
            how["background"].drain()
        assert texts(memory) == ["Is allergic to walnuts", "Lives in Oslo"]
        other.save_context({"input": [PEANUTS]}, {"output": "Noted."})
        chat.save_context({"input": "I like tea."}, {"output": "Noted."})
        if background:
            how["background"].drain()
        assert texts(memory) == ["Is allergic to peanuts", "Is allergic to walnuts", "Likes tea", "Lives in Oslo"]


def test_a_route_takes_a_thread_id_and_ids_of_messages(memory: Memory) -> None:
    with TestClient(create_app(memory, auth="local"), client=("127.0.0.1", 50_000)) as http:
        events = []
        for what in ("peanuts", "peanuts", "walnuts"):
            said = {"role": "user", "content": f"I am allergic to {what}.", "id": "q"}
            answer = http.post("/v1/memories", json={"messages": [said], "user_id": "alice", "thread_id": "t"})
            events.append([(each["event"], each["text"]) for each in answer.json()["results"]])
    assert events == [
        [("ADD", "Is allergic to peanuts")],
        [],
        [("DELETE", "Is allergic to peanuts"), ("ADD", "Is allergic to walnuts")],
    ]
    assert texts(memory) == ["Is allergic to walnuts"]
