"""Summaries of long threads, in an agent of langchain and in graphs of LangGraph."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langmem_adapter.adapters.middleware import MemoryMiddleware
from langmem_adapter.adapters.summarizing import summarize_node, summarizer
from langmem_adapter.adapters.threads import human_messages
from langmem_adapter.conversation.summaries import about_tokens
from langmem_adapter.errors import InvalidInputError, ModelReplyError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.testing import ScriptedChatModel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LEAD = "Here is a summary of the conversation to date:"
THREAD: Any = {"configurable": {"thread_id": "t"}}


def data_of(call: Sequence[BaseMessage]) -> dict[str, str]:
    """What a model was shown to sum up."""
    data: dict[str, str] = json.loads(str(call[1].content).split("\n\n")[1])
    return data


def scripted(*replies: Any) -> ScriptedChatModel:
    """A model for summaries; without replies it gives the beginning of each text."""
    return ScriptedChatModel(replies=replies or [lambda messages: data_of(messages)["text"][:60]] * 200)


def shortened(memory: Memory, model: ScriptedChatModel, **how: Any) -> Any:
    """An agent whose threads langchain's middleware shortens by our summaries."""
    how = {"trigger": ("tokens", 400), "keep": ("messages", 2), **how}
    plug = summarizer(memory, max_tokens=100, window=400)
    middleware = SummarizationMiddleware(model, summarizer=plug, trim_tokens_to_summarize=None, **how)
    return create_agent(model, middleware=[middleware], checkpointer=InMemorySaver())


@pytest.fixture
def offline() -> Iterator[Memory]:
    with Memory(":memory:") as opened:
        yield opened


# ── langchain's middleware ───────────────────────────────────────────────────────────────────────────────────────────


def test_summarizer_reads_long_threads_in_windows() -> None:
    """Where no human message stands in the last 4,000 tokens, langchain throws all away unless told not to trim."""
    looked = AIMessage("", tool_calls=[{"name": "read", "args": {}, "id": "1"}])
    thread = [
        HumanMessage("My boat is red."),
        looked,
        ToolMessage("page " * 8_000, tool_call_id="1"),
        AIMessage("Read."),
    ]
    asking = [*thread, HumanMessage("Go on.")]
    bare = SummarizationMiddleware(scripted("?"), trigger=("tokens", 400), keep=("messages", 2))
    losing: Any = create_agent(ScriptedChatModel(replies=["."]), middleware=[bare])
    assert "too long to summarize" in losing.invoke({"messages": [*asking]})["messages"][0].text
    model = scripted()
    with Memory(":memory:", model=model) as memory:
        kept = shortened(memory, ScriptedChatModel(replies=["Fine."])).invoke({"messages": asking}, THREAD)["messages"]
    assert kept[0].text.startswith(f"{LEAD}\n\nuser: My boat is red.")
    assert [message.text for message in kept[1:]] == ["Read.", "Go on.", "Fine."]
    assert sum(data_of(call)["text"].count("page") for call in model.calls) >= 8_000
    assert all(about_tokens([HumanMessage(data_of(call)["text"])]) <= 400 for call in model.calls)


async def test_a_summary_grows_on_and_is_not_summed_up_again() -> None:
    answers = ScriptedChatModel(replies=["Noted."] * 8)
    model = ScriptedChatModel(replies=["FIRST.", "SECOND."])
    with Memory(":memory:", model=model) as memory:
        agent = shortened(memory, answers, trigger=("messages", 5))
        for number in range(4):
            said = f"In town {number} I ate noodles. " * 20
            thread = (await agent.ainvoke({"messages": said}, THREAD))["messages"]
    first, second = (data_of(call) for call in model.calls)
    assert ("before" in first, second["before"]) == (False, "FIRST.")
    assert LEAD not in second["text"]
    assert thread[0].text == f"{LEAD}\n\nFIRST.\nSECOND."


@pytest.mark.parametrize("failing", [OSError("no such host"), ""])
def test_a_summary_that_cannot_be_had_leaves_the_thread_as_it_is(failing: Any) -> None:
    thread = [HumanMessage("A boat. " * 300, id="1"), AIMessage("Noted.", id="2"), HumanMessage("Go on.", id="3")]
    with Memory(":memory:", model=ScriptedChatModel(replies=[failing] * 3)) as memory:
        agent = shortened(memory, ScriptedChatModel(replies=["."]))
        with pytest.raises((OSError, ModelReplyError)):
            agent.invoke({"messages": thread}, THREAD)
        assert [message.text for message in agent.get_state(THREAD).values["messages"]] == [one.text for one in thread]


def test_what_is_remembered_of_a_shortened_thread_is_what_people_said(offline: Memory) -> None:
    """A summary is a human message by its type alone."""
    model = ScriptedChatModel(replies=["Noted."] * 3)
    plug = SummarizationMiddleware(
        model,
        summarizer=summarizer(offline),
        trigger=("messages", 3),
        keep=("messages", 1),
        trim_tokens_to_summarize=None,
    )
    agent: Any = create_agent(
        model,
        middleware=[plug, MemoryMiddleware(offline, user_id="ann", on_error="raise")],
        checkpointer=InMemorySaver(),
    )
    for said in ("I live in Lyon.", "I am vegetarian."):
        thread = agent.invoke({"messages": said}, THREAD)["messages"]
    assert thread[0].text.startswith(LEAD)
    assert [message.text for message in human_messages(thread)] == ["I am vegetarian."]
    assert {item.text for item in offline.get_all(user_id="ann")} == {"Lives in Lyon", "Is vegetarian"}


# ── the node ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def graph_of(memory: Memory, answer: Any = None, checkpointer: Any = None, **how: Any) -> Any:
    graph = StateGraph(MessagesState).add_node("shorten", summarize_node(memory, **{"max_tokens": 200, **how}))
    graph.add_edge(START, "shorten")
    if answer is not None:
        graph.add_node("answer", answer).add_edge("shorten", "answer")
    return graph.compile(checkpointer=checkpointer)


def calling(number: int, results: int) -> list[BaseMessage]:
    calls = [{"name": "look", "args": {"at": number}, "id": f"{number}.{each}"} for each in range(results)]
    return [
        AIMessage("", tool_calls=calls),
        *(ToolMessage(f"Thing {each} of {number}.", tool_call_id=f"{number}.{each}") for each in range(results)),
    ]


units = st.one_of(
    st.builds(lambda words: [HumanMessage("晴天 sun " * words)], st.integers(1, 40)),
    st.builds(lambda words: [AIMessage("Rain. " * words)], st.integers(1, 40)),
    st.builds(calling, st.integers(0, 10**6), st.integers(1, 4)),
)


@settings(max_examples=25)
@given(parts=st.lists(units, min_size=1, max_size=20), led=st.booleans())
def test_summarize_node_fits_max_tokens_and_keeps_calls_with_their_results(
    parts: list[list[BaseMessage]], *, led: bool, shared: Memory
) -> None:
    system = [SystemMessage("Be brief.")] if led else []
    thread = [*system, *(message for part in parts for message in part)]
    state = graph_of(shared, max_tokens=300).invoke({"messages": thread})["messages"]
    texts = [message.text for message in thread]
    summed = [message for message in state if message.text.startswith(LEAD)]
    kept = [message.text for message in state[len(system) + len(summed) :]]
    assert kept == texts[len(texts) - len(kept) :]
    assert len(kept) >= len(parts[-1])
    assert [message.text for message in state[: len(system)]] == ["Be brief."] * led
    asked = {call["id"] for message in state if isinstance(message, AIMessage) for call in message.tool_calls}
    assert asked == {message.tool_call_id for message in state if isinstance(message, ToolMessage)}
    assert bool(summed) == (about_tokens(thread) > 300 and len(parts) > 1)
    assert about_tokens(state) <= max(300, about_tokens(parts[-1]) + 75 + about_tokens(system))


@pytest.fixture(scope="module")
def shared() -> Iterator[Memory]:
    with Memory(":memory:", embeddings="hash:64") as opened:
        yield opened


def test_summarize_node_leaves_a_short_thread_as_it_is() -> None:
    model = ScriptedChatModel()
    with Memory(":memory:", model=model) as memory:
        thread = [HumanMessage("Hi", id="1"), AIMessage("Hello.", id="2")]
        assert graph_of(memory).invoke({"messages": thread})["messages"] == thread
    assert model.calls == []


async def test_a_thread_goes_on_for_as_long_as_it_likes_and_the_summary_with_it() -> None:
    model = ScriptedChatModel(replies=[f"S{number}." for number in range(20)])
    with Memory(":memory:", model=model) as memory:
        seen: list[int] = []

        def answer(state: MessagesState) -> dict[str, Any]:
            seen.append(about_tokens(state["messages"]))
            return {"messages": [AIMessage("Noted.")]}

        graph = graph_of(memory, answer, InMemorySaver())
        for number in range(40):
            state = await graph.ainvoke({"messages": [("human", f"第{number}天我在杭州吃面，天气很好。")]}, THREAD)
    assert max(seen) <= 200
    told = [data_of(call) for call in model.calls]
    assert [data.get("before", "") for data in told[:3]] == ["", "S0.", "S0.\nS1."]
    shown = "".join(data["text"] for data in told) + "".join(message.text for message in state["messages"])
    assert all(shown.count(f"第{number}天") == 1 for number in range(40))


def test_a_graph_that_streams_tokens_shows_none_of_the_summary() -> None:
    thread = [HumanMessage(f"In town {number} I ate noodles.") for number in range(40)]
    with Memory(":memory:", model=scripted()) as memory:
        streamed = list(graph_of(memory).stream({"messages": thread}, stream_mode="messages"))
    assert [message for message, _ in streamed if isinstance(message, AIMessage)] == []


def test_a_failure_is_raised_and_the_state_stays() -> None:
    thread = [HumanMessage(f"In town {number} I ate noodles.", id=str(number)) for number in range(40)]
    with Memory(":memory:", model=ScriptedChatModel(replies=[OSError("no such host")])) as memory:
        graph = graph_of(memory, checkpointer=InMemorySaver())
        with pytest.raises(OSError, match="no such host"):
            graph.invoke({"messages": thread}, THREAD)
        assert graph.get_state(THREAD).values["messages"] == thread


@pytest.mark.parametrize("wrong", [{"max_tokens": 0}, {"window": "7"}, {"keep_language": 1}, {"messages_key": 7}])
def test_arguments_that_cannot_be_used_are_refused(offline: Memory, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(wrong))):
        summarize_node(offline, **wrong)
