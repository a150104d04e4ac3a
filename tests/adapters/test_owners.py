"""Who said a message of a thread: each is remembered once, for the user whose run brought it, or for nobody."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import PIIDetectionError, PIIMiddleware, before_model
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command

from langmem_adapter.adapters.checkpointer import SQLAlchemySaver
from langmem_adapter.adapters.classic import ConversationMemory
from langmem_adapter.adapters.middleware import MemoryContext, MemoryMiddleware
from langmem_adapter.adapters.nodes import recall_node, remember_node
from langmem_adapter.memory.memory import Memory
from langmem_adapter.testing import ScriptedChatModel
from tests.adapters.test_turns import (
    ADDRESS,
    ALICE,
    BOB,
    MAIL,
    Agent,
    State,
    approval,
    calling,
    closed,
    graph_with,
    kept,
    moderated,
    on,
    places,
    redacted,
    sources,
    summarizing,
    texts,
)
from tests.cases import each

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from langchain_core.messages import BaseMessage

FAILS = ConnectionError("no model")


@pytest.fixture
def memory() -> Any:
    with Memory(":memory:") as opened:
        yield opened


def plain_agent(memory: Memory, *replies: Any, others: Any = ()) -> Any:
    model = ScriptedChatModel(replies=[*replies, *["Noted."] * 9], modes="tools")
    return create_agent(model, middleware=[MemoryMiddleware(memory), *others], context_schema=MemoryContext)


def plain_graph(memory: Memory, *replies: Any) -> Any:
    graph = graph_with(memory, [*(AIMessage(each) if isinstance(each, str) else each for each in replies)])
    graph.checkpointer = None
    return graph


def around(inner: Any) -> Any:
    graph: Any = StateGraph(State, context_schema=MemoryContext).add_node("agent", inner).add_edge(START, "agent")
    return graph.compile(checkpointer=InMemorySaver())


def without_recall(memory: Memory, *replies: Any) -> Any:
    answers = [*replies]

    def answer(state: State) -> dict[str, Any]:
        reply = answers.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return {"messages": [AIMessage(reply)]}

    graph: Any = StateGraph(State, context_schema=MemoryContext).add_node("answer", answer)
    graph.add_node("remember", remember_node(memory)).add_edge(START, "answer").add_edge("answer", "remember")
    return graph.compile(checkpointer=InMemorySaver())


MADE: dict[str, Callable[..., Any]] = {
    "an agent": plain_agent,
    "an agent that is a node": lambda memory, *replies: around(plain_agent(memory, *replies)),
    "an agent that blocks": lambda memory, *_: around(plain_agent(memory, others=[blocks_first()])),
    "an agent with a checkpointer": lambda memory, *replies: Agent(memory, *replies).graph,
    "nodes": plain_graph,
    "nodes with a checkpointer": lambda memory, *replies: graph_with(
        memory, [AIMessage(each) if isinstance(each, str) else each for each in replies]
    ),
    "remember_node alone": without_recall,
}


def blocks_first() -> Any:
    return PIIMiddleware("word", detector="tea", strategy="block")


@each("name", MADE)
@each("with_ids", [True, False])
def test_memory_never_takes_what_another_user_said(*, name: str, with_ids: bool) -> None:
    with Memory(":memory:") as memory:
        graph = MADE[name](memory, FAILS, *["Noted."] * 8)
        sent: list[BaseMessage] = []
        for number, (said, context) in enumerate(
            (("I like tea.", ALICE), ("I live in Oslo.", BOB), ("I am vegetarian.", ALICE))
        ):
            new = HumanMessage(said, id=f"m{number}" if with_ids else None)
            sent += [new]
            # without a checkpointer the client sends the thread as a whole
            whole = [each.model_copy(update={} if with_ids else {"id": None}) for each in sent]
            with suppress(ConnectionError, PIIDetectionError):
                graph.invoke({"messages": [new] if graph.checkpointer else whole}, on(), context=context)
                sent += [AIMessage("Noted.", id=f"a{number}")]
        assert texts(memory, "bob") == ["Lives in Oslo"]
        kept_for_alice = ["I like tea.", "I am vegetarian."]
        if name in {"an agent that blocks", "remember_node alone"} or not (with_ids or graph.checkpointer):
            kept_for_alice = kept_for_alice[1:]
        assert sources(memory) == kept_for_alice
        assert texts(memory, "alice") == (
            ["Is vegetarian", "Likes tea"] if len(kept_for_alice) == 2 else ["Is vegetarian"]
        )


@each("mode", ["values", "updates", "messages"])
@each("first", [True, False])
def test_memory_never_takes_the_message_of_a_closed_stream_of_another_user(*, mode: str, first: bool) -> None:
    with Memory(":memory:") as memory:
        agent = Agent(memory)
        if not first:
            agent.say("I am vegetarian.")
        stream = agent.graph.stream({"messages": "I like tea."}, on(), context=BOB, stream_mode=mode)
        next(stream)
        stream.close()
        agent.say("I live in Oslo.")
        agent.say("I like beer.", context=BOB)
        agent.say("I like milk.")
        assert "Likes tea" not in texts(memory)
        assert sources(memory)[-2:] == ["I live in Oslo.", "I like milk."]
        assert sources(memory, "bob") == [*(["I like tea."] if mode != "values" else []), "I like beer."]


@each("before", ["Nothing.", None])
def test_memory_middleware_remembers_a_closed_stream_after_a_run_of_another_user(*, before: str | None) -> None:
    with Memory(":memory:") as memory:
        agent = Agent(memory, before=[moderated])
        if before:
            agent.say(before)
        closed("values")(agent)
        for said, context in (("I hate the secret.", BOB), ("I like beer.", BOB), ("I live in Oslo.", ALICE)):
            agent.say(said, context=context)
        assert sources(memory)[-2:] == ["I like tea.", "I live in Oslo."]
        assert sources(memory, "bob") == ["I like beer."]


@each("others", [[], [summarizing(1)]])
def test_memory_keeps_nothing_of_what_is_blocked_for_another_user_of_the_thread(*, others: list[Any]) -> None:
    with Memory(":memory:") as memory:
        agent = Agent(memory, after=[*others, PIIMiddleware("word", detector="secret", strategy="block")])
        agent.say("I like tea.")
        with pytest.raises(PIIDetectionError):
            agent.say("I hate the secret.")
        for said, context in (("I like beer.", BOB), ("I like wine.", BOB), ("I live in Oslo.", ALICE)):
            agent.say(said, context=context)
        assert (sources(memory), sources(memory, "bob")) == (
            ["I like tea.", "I live in Oslo."],
            ["I like beer.", "I like wine."],
        )
        assert "secret" not in kept(memory)


@each("field", ["agent_id", "run_id"])
def test_memory_middleware_remembers_a_message_for_one_agent_and_run_alone(*, field: str) -> None:
    with Memory(":memory:") as memory:
        agent = Agent(memory)
        for said, value in (("I like tea.", "a"), ("I live in Oslo.", "b"), ("I am vegetarian.", "a")):
            config = {"configurable": {"thread_id": "t", "user_id": "alice", field: value}}
            agent.graph.invoke({"messages": said}, config)
        assert texts(memory) == ["Is vegetarian", "Likes tea", "Lives in Oslo"]


def test_remember_node_alone_takes_a_failed_turn_of_the_user_that_configurable_names(memory: Memory) -> None:
    graph = without_recall(memory, FAILS, *["Noted."] * 8)
    for said, user in (("I like tea.", "alice"), ("I live in Oslo.", "alice"), ("I like beer.", "bob")):
        with suppress(ConnectionError):
            graph.invoke({"messages": said}, {"configurable": {"thread_id": "t", "user_id": user}})
    assert (sources(memory), sources(memory, "bob")) == (["I like tea.", "I live in Oslo."], ["I like beer."])


def test_conversation_memory_remembers_for_each_caller_of_a_session_what_they_said(memory: Memory) -> None:
    chat = ConversationMemory(memory=memory, session_id="team")
    for said, user in (("I like tea.", "alice"), ("I live in Oslo.", "bob"), ("I am vegetarian.", "alice")):
        each_chat = chat.model_copy(update={"user_id": user})
        each_chat.save_context({"input": [HumanMessage(said, id=said)]}, {"output": "Noted."})
    assert (texts(memory), texts(memory, "bob")) == (["Is vegetarian", "Likes tea"], ["Lives in Oslo"])


def test_memory_of_two_users_of_a_thread_on_postgres_and_sqlite(database_url: str) -> None:
    with Memory(database_url) as memory:
        agent = Agent(memory, FAILS, *["Noted."] * 9)
        with suppress(ConnectionError):
            agent.say("I like tea.")
        for said, context in (("I like tea.", BOB), ("I live in Oslo.", ALICE), ("I live in Oslo.", BOB)):
            agent.say(said, context=context)
        assert texts(memory) == texts(memory, "bob") == ["Likes tea", "Lives in Oslo"]


# ── summaries ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@each("place", [0, 1])
@each("durability", ["sync", "async"])
def test_what_is_redacted_before_a_summary_is_remembered_redacted(*, place: int, durability: str) -> None:
    with Memory(":memory:") as memory:
        before, after = ([redacted, summarizing(1)], []) if place == 0 else ([], [redacted, summarizing(1)])
        agent = Agent(memory, before=before, after=after)
        given: Any = {"messages": [HumanMessage(said) for said in (MAIL, "I live in Oslo.", "I like wine.", "Hello?")]}
        agent.graph.invoke(given, on(), context=ALICE, durability=durability)
        agent.say("I am vegetarian.")
        assert sorted(sources(memory)) == sorted(
            [MAIL.replace(ADDRESS, "(hidden)"), "I live in Oslo.", "I like wine.", "Hello?", "I am vegetarian."]
        )
        assert ADDRESS not in kept(memory)


def test_another_process_remembers_what_was_summarised_before_it_was_remembered(tmp_path: Path) -> None:
    def process(said: list[str], reply: Any) -> None:
        with Memory(tmp_path / "m.db") as memory:
            agent = Agent(memory, *reply, saver=SQLAlchemySaver(memory), after=[summarizing(1)])
            with suppress(ConnectionError):
                agent.say(*said)

    process(["I like tea."], [calling("broken")])
    process(["I like beer.", "I like wine."], [calling("broken")])
    process(["I live in Oslo."], ["Noted."])
    with Memory(tmp_path / "m.db") as memory:
        assert sources(memory) == ["I like tea.", "I like beer.", "I like wine.", "I live in Oslo."]


def test_what_a_middleware_removes_before_a_summary_is_never_remembered(memory: Memory) -> None:
    @before_model
    def removes(state: Any, runtime: Any) -> Any:
        return {"messages": [RemoveMessage(id=each.id) for each in state["messages"] if "secret" in each.text]}

    agent = Agent(memory, before=[removes, summarizing(1)])
    agent.say("I hate the secret.", *(f"I like {what}." for what in ("tea", "beer", "wine")), "Hello?")
    agent.say("I live in Oslo.")
    expected = {"I like tea.", "I like beer.", "I like wine.", "Hello?", "I live in Oslo."}
    assert set(sources(memory)) == expected and len(sources(memory)) == len(expected)
    assert "secret" not in kept(memory)


def test_a_closed_turn_is_remembered_after_a_turn_that_a_middleware_ended(memory: Memory) -> None:
    agent = Agent(memory, after=[moderated])
    closed("updates")(agent)
    agent.say("I hate the secret.")
    agent.say("I live in Oslo.")
    assert sources(memory) == ["I like tea.", "I live in Oslo."]


@each("place", [0, 1])
def test_an_edit_that_is_summarised_before_the_model_saw_it_supersedes_the_older_text(*, place: int) -> None:
    with Memory(":memory:") as memory:
        agent = Agent(memory, **places(summarizing(1))[place])
        agent.say(HumanMessage("I am allergic to peanuts.", id="q"))
        agent.say(
            HumanMessage("I am allergic to walnuts.", id="q"),
            HumanMessage("I like tea."),
            HumanMessage("I live in Oslo."),
        )
        assert texts(memory) == ["Is allergic to walnuts", "Likes tea", "Lives in Oslo"]


# ── interrupts ────────────────────────────────────────────────────────────────────────────────────────────────────────

APPROVED = {"decisions": [{"type": "approve"}]}


def with_command(graph: Any, said: str) -> None:
    graph.invoke(Command(resume=APPROVED, update={"messages": [HumanMessage(said)]}), on(), context=ALICE)


def with_update_state(graph: Any, said: str) -> None:
    graph.update_state(on(), {"messages": [HumanMessage(said)]}, as_node="HumanInTheLoopMiddleware.after_model")
    graph.invoke(None, on(), context=ALICE)


@each("add", [with_command, with_update_state])
@each("place", [0, 1])
@each("saved", [True, False])
def test_a_message_that_is_added_during_an_interrupt_is_remembered_once(*, add: Any, place: int, saved: bool) -> None:
    with Memory(":memory:") as memory:
        saver = SQLAlchemySaver(memory) if saved else None
        agent = Agent(memory, calling(), *["Noted."] * 9, saver=saver, **places(approval())[place])
        agent.say("I like tea.")
        add(agent.graph, "I live in Oslo.")
        agent.say("I am vegetarian.")
        assert sources(memory) == ["I like tea.", "I live in Oslo.", "I am vegetarian."]


@each("durability", ["sync", "async"])
@each("named", [{}, {"user_id": "alice"}])
def test_memory_never_takes_what_another_user_added_to_a_run_that_was_closed(*, durability: Any, named: Any) -> None:
    with Memory(":memory:") as memory:
        agent = Agent(memory, calling(), *["Noted."] * 9, after=[approval()])
        agent.say("I like beer.", context=BOB)
        added: Command[Any] = Command(resume=APPROVED, update={"messages": [HumanMessage("I like tea.")]})
        stream = agent.graph.stream(added, on(), context=BOB, stream_mode="values", durability=durability)
        next(stream)
        stream.close()
        config = {"configurable": {"thread_id": "t", **named}}
        agent.say("I live in Oslo.", config=config)
        agent.say("I am vegetarian.", config=config)
        agent.say("I like wine.", context=BOB)
        assert sources(memory) == ["I live in Oslo.", "I am vegetarian."]
        assert sources(memory, "bob") == ["I like beer.", "I like wine."]


def test_what_a_middleware_says_in_a_persons_name_is_not_remembered(memory: Memory) -> None:
    @before_model
    def reminds(state: Any, runtime: Any) -> Any:
        return (
            {"messages": [HumanMessage("I like poison.")]} if isinstance(state["messages"][-1], HumanMessage) else None
        )

    agent = Agent(memory, after=[reminds])
    agent.say("I like tea.")
    agent.say("I live in Oslo.")
    assert sources(memory) == ["I like tea.", "I live in Oslo."]


# ── agents within agents ──────────────────────────────────────────────────────────────────────────────────────────────


def blocking() -> Any:
    return PIIMiddleware("word", detector="secret", strategy="block")


def test_memory_middleware_around_a_tool_whose_agent_blocks_remembers_what_was_said_once(memory: Memory) -> None:
    inner: Any = create_agent(ScriptedChatModel(replies=["Yes."] * 9, modes="tools"), middleware=[blocking()])

    @tool
    def ask(what: str) -> str:
        """Ask the other agent."""
        return str(inner.invoke({"messages": what})["messages"][-1].text)

    asks = [
        AIMessage("", tool_calls=[{"name": "ask", "args": {"what": what}, "id": what}]) for what in ("secret", "tea")
    ]
    model = ScriptedChatModel(replies=[asks[0], asks[1], "Noted.", "Noted."], modes="tools")
    middleware = [MemoryMiddleware(memory)]
    agent: Any = create_agent(
        model, [ask], middleware=middleware, context_schema=MemoryContext, checkpointer=InMemorySaver()
    )
    for said in ("I like tea.", "I live in Oslo.", "I am vegetarian."):
        with suppress(PIIDetectionError):
            agent.invoke({"messages": said}, on(), context=ALICE)
    assert sources(memory) == ["I like tea.", "I live in Oslo.", "I am vegetarian."]


def test_nodes_around_an_agent_that_redacts_remember_the_redacted_text(memory: Memory) -> None:
    model = ScriptedChatModel(replies=["Noted."] * 9, modes="tools")
    inner = create_agent(model, middleware=[PIIMiddleware("email")])
    graph: Any = StateGraph(State, context_schema=MemoryContext).add_node("recall", recall_node(memory))
    graph.add_node("agent", inner).add_node("remember", remember_node(memory))
    graph.add_edge(START, "recall").add_edge("recall", "agent").add_edge("agent", "remember")
    graph = graph.compile(checkpointer=InMemorySaver())
    for said in (MAIL, "I live in Oslo."):
        graph.invoke({"messages": said}, on(), context=ALICE)
    assert ADDRESS not in kept(memory) and len(sources(memory)) == 2


@each("durability", ["sync", "exit"])
def test_a_message_whose_run_was_killed_is_remembered_once_when_it_is_sent_again(*, durability: Any) -> None:
    with Memory(":memory:") as memory:
        agent, said = Agent(memory), HumanMessage("I like tea.", id="1")
        killed = agent.graph.stream(
            {"messages": [said]}, on(), context=ALICE, stream_mode="updates", durability=durability
        )
        next(killed)  # a process that is killed here writes no more checkpoints
        saver = agent.graph.checkpointer
        again = Agent(memory, saver=InMemorySaver() if durability == "exit" else saver)
        again.say(said)
        again.say(said, HumanMessage("I live in Oslo.", id="2"))
        assert sources(memory) == ["I like tea.", "I live in Oslo."]
        killed.close()
