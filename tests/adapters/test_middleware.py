"""Memory in LangChain's `create_agent`, with real agents."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware, wrap_model_call
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from langmem_adapter.adapters.middleware import INTRODUCTION, MemoryContext, MemoryMiddleware
from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.errors import InvalidInputError, ScopeError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.testing import ScriptedChatModel
from tests.cases import undated

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

THREAD: Any = {"configurable": {"thread_id": "t"}}
ALICE = MemoryContext(user_id="alice@example.com")
BOB = MemoryContext(user_id="bob@example.com")


class Broken(HashEmbeddings):
    """Embeddings whose server is down, once it is told so."""

    down = False

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if self.down:
            raise ConnectionError("the embedding server is down")
        return super().embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory(":memory:") as opened:
        yield opened


def answering(*replies: Any) -> ScriptedChatModel:
    return ScriptedChatModel(replies=replies or ["Noted."] * 20, modes="tools")


def agent_with(
    memory: Memory, model: ScriptedChatModel, *, checkpointer: Any = None, own: list[BaseTool] | None = None, **how: Any
) -> Any:
    middleware = [MemoryMiddleware(memory, **how)]
    return create_agent(
        model, tools=own, middleware=middleware, context_schema=MemoryContext, checkpointer=checkpointer
    )


def texts(memory: Memory, context: MemoryContext = ALICE) -> list[str]:
    return sorted(item.text for item in memory.get_all(user_id=context.user_id))


def notes_of(call: list[BaseMessage]) -> list[str]:
    """The memories that a request shows behind the newest human message."""
    newest = next(message for message in reversed(call) if isinstance(message, HumanMessage))
    return undated(newest.text).partition(f"\n\n{INTRODUCTION}\n\n")[2].splitlines()


def sent(messages: Sequence[BaseMessage]) -> str:
    """What a provider is sent, without the closing bracket: what begins alike is read from its cache."""
    told = [
        [message.type, message.tool_calls if isinstance(message, AIMessage) else [], message.content]
        for message in messages
    ]
    return json.dumps(told).removesuffix("]")


def assert_cached(calls: list[list[BaseMessage]], thread: list[BaseMessage]) -> None:
    """The requests of a turn go on from each other, and all of them from the thread up to what was said."""
    requests = [sent(call) for call in calls]
    assert requests[0].startswith(sent(thread).removesuffix("]").removesuffix("]").removesuffix('"'))
    assert all(later.startswith(earlier) for earlier, later in pairwise(requests))


def test_middleware_recalls_in_the_next_thread(memory: Memory) -> None:
    model = answering()
    agent = agent_with(memory, model)
    agent.invoke({"messages": "I am vegetarian and I live in Lyon."}, context=ALICE)
    result = agent.invoke({"messages": "What shall I cook? I am vegetarian."}, context=ALICE)
    assert texts(memory) == ["Is vegetarian", "Lives in Lyon"]
    assert notes_of(model.calls[0]) == []
    assert notes_of(model.calls[1]) == ["- Is vegetarian", "- Lives in Lyon"]
    assert [type(message) for message in result["messages"]] == [HumanMessage, AIMessage]
    assert set(result) == {"messages"}


def test_the_thread_is_not_polluted_and_only_new_messages_are_remembered(memory: Memory) -> None:
    model = answering()
    agent = agent_with(memory, model, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t", "user_id": "alice@example.com"}}
    for said in ("I am vegetarian.", "I live in Lyon.", "What shall I cook?"):
        result = agent.invoke({"messages": said}, config)
    assert [message.text for message in result["messages"]][::2] == [
        "I am vegetarian.",
        "I live in Lyon.",
        "What shall I cook?",
    ]
    turns = [memory.trace(trace).turns for trace in _traces(memory)]
    assert [[turn.text for turn in each] for each in turns] == [
        ["I am vegetarian.", "Noted."],
        ["I live in Lyon.", "Noted."],
        ["What shall I cook?", "Noted."],
    ]


@pytest.mark.parametrize("stop", [{"interrupt_before": ["model"]}, {"interrupt_after": ["model"]}])
async def test_a_turn_is_ended_by_whoever_began_it(memory: Memory, stop: dict[str, Any]) -> None:
    memory.add("I am vegetarian.", user_id=ALICE.user_id)
    model = answering()
    agent = agent_with(memory, model, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    agent.invoke({"messages": "What shall I cook? I live in Lyon."}, config, context=ALICE, **stop)
    asked = len(model.calls)
    for context in (BOB, MemoryContext(ALICE.user_id, agent_id="guide")):
        with pytest.raises(ScopeError, match="begun for another"):
            agent.invoke(None, config, context=context)
        with pytest.raises(ScopeError, match="begun for another"):
            await agent.ainvoke(None, config, context=context)
    assert len(model.calls) == asked
    assert texts(memory, BOB) == []
    agent.invoke(None, config, context=ALICE)
    assert texts(memory) == ["Is vegetarian", "Lives in Lyon"]


def test_what_a_tool_returns_is_not_remembered(memory: Memory) -> None:
    @tool
    def read() -> str:
        """Read it."""
        return "My name is Mallory and I like poison."

    call = AIMessage("", tool_calls=[{"name": "read", "args": {}, "id": "1"}])
    agent = agent_with(memory, answering(call, "Done."), own=[read])
    result = agent.invoke({"messages": "I like tea. Look it up."}, context=ALICE)
    assert any(isinstance(message, ToolMessage) for message in result["messages"])
    assert texts(memory) == ["Likes tea"]


def test_what_a_program_says_in_a_persons_name_is_not_remembered(memory: Memory) -> None:
    skill = HumanMessage("My name is Mallory.", additional_kwargs={"lc_source": "pinned_skill"})
    agent_with(memory, answering()).invoke({"messages": [HumanMessage("I like tea."), skill]}, context=ALICE)
    assert texts(memory) == ["Likes tea"]


# ── where the memories stand ─────────────────────────────────────────────────────────────────────────────────────────


@tool
def look_up(what: str) -> str:
    """Look it up."""
    return f"nothing about {what}"


def looking_up(*calls: str) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": "look_up", "args": {"what": "tea"}, "id": call} for call in calls])


@pytest.fixture
def tasteful(memory: Memory) -> Memory:
    memory.add_many([{"messages": f"Likes {it}", "user_id": ALICE.user_id, "infer": False} for it in _THINGS])
    return memory


def test_a_providers_prompt_cache_holds_over_a_hundred_turns_with_tool_loops(tasteful: Memory) -> None:
    long, short = (looking_up("a", "b"), looking_up("c"), "Noted."), (looking_up("a"), "Noted.")
    loops = [short if turn % 10 else long for turn in range(100)]
    model = answering(*(reply for loop in loops for reply in loop))
    agent: Any = create_agent(
        model, [look_up], system_prompt="You are a cook.",
        middleware=[MemoryMiddleware(tasteful, k=2, background=tasteful.background(after=math.inf))],
        context_schema=MemoryContext,
    )  # fmt: skip
    thread: list[BaseMessage] = []
    for turn, loop in enumerate(loops):
        question = f"What of {_THINGS[turn % 8]}? ({turn})"
        parts: Any = [
            {"type": "text", "text": question},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}},
        ]
        said = HumanMessage(parts if turn % 3 else question)
        told = [SystemMessage("You are a cook."), *thread, said.model_copy()]
        thread = agent.invoke({"messages": [*thread, said]}, context=ALICE)["messages"]
        calls = model.calls[-len(loop) :]
        assert_cached(calls, told)
        assert [place for place, message in enumerate(calls[-1]) if INTRODUCTION in message.text] == [len(told) - 1]
        assert f"- Likes {_THINGS[turn % 8]}" in undated(calls[-1][len(told) - 1].text).splitlines()
    assert INTRODUCTION not in sent(thread) and len(thread) == 10 * 7 + 90 * 4


async def test_they_stay_in_their_place_whatever_happens_in_the_turn(tasteful: Memory) -> None:
    @tool
    def photograph(call: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Show a picture, once somebody agrees."""
        shown = [
            ToolMessage(interrupt("May I?"), tool_call_id=call),
            HumanMessage("A picture of beer."),
        ]
        return Command(update={"messages": shown})

    model = answering(
        AIMessage("", tool_calls=[{"name": "photograph", "args": {}, "id": "1"}]), "Tea.", "Beer.", "Still beer."
    )
    agent = agent_with(tasteful, model, own=[photograph], checkpointer=InMemorySaver())
    await agent.ainvoke({"messages": "What of tea?"}, THREAD, context=ALICE)
    await agent.ainvoke(Command(resume="Yes."), THREAD, context=ALICE)
    result = await agent.ainvoke({"messages": [HumanMessage("And beer?", id="2")]}, THREAD, context=ALICE)
    assert_cached(model.calls[:2], [HumanMessage("What of tea?")])
    assert "- Likes tea" in notes_of(model.calls[1][:1]) and notes_of(model.calls[1]) == []
    assert "- Likes beer" in notes_of(model.calls[2])
    await agent.ainvoke({"messages": []}, THREAD, context=ALICE)  # nobody says anything new
    assert_cached(model.calls[3:], result["messages"][:-1])


def test_where_the_newest_human_message_is_gone_they_follow_the_first_that_is_left(memory: Memory) -> None:
    memory.add("Likes tea", user_id=ALICE.user_id, infer=False)

    @wrap_model_call
    def trimmed(request: Any, handler: Any) -> Any:
        return handler(request.override(messages=request.messages[-2:]))

    summaries: Any = SummarizationMiddleware(
        ScriptedChatModel(replies=["Nothing yet."] * 9), trigger=("messages", 3), keep=("messages", 2)
    )
    for other, first in ((summaries, "Here is a summary of the conversation to date:"), (trimmed, INTRODUCTION)):
        model = answering(looking_up("1"), looking_up("2"), "Tea.")
        two = [other, MemoryMiddleware(memory), MemoryMiddleware(memory, name="b", introduction="B:")]
        agent: Any = create_agent(model, [look_up], middleware=two, context_schema=MemoryContext)
        result = agent.invoke({"messages": "What of tea?"}, context=ALICE)
        assert [call[0].text.count("- Likes tea") for call in model.calls] == [2, 2, 2]
        assert model.calls[2][0].text.startswith(first)
        assert [type(message) for message in model.calls[2]] == [HumanMessage, AIMessage, ToolMessage]
        assert INTRODUCTION not in sent(result["messages"])


async def test_turns_of_many_users_at_once_stay_apart(memory: Memory) -> None:
    model = ScriptedChatModel(replies=[lambda call: "\n".join(notes_of(call)) or "Noted."] * 40)
    agent = agent_with(memory, model)
    users = [MemoryContext(f"u{number}@example.com") for number in range(8)]
    await asyncio.gather(
        *(agent.ainvoke({"messages": f"I like {_THINGS[n]}."}, context=u) for n, u in enumerate(users))
    )
    asked = await asyncio.gather(*(agent.ainvoke({"messages": "What do I like?"}, context=user) for user in users))
    for number, result in enumerate(asked):
        assert result["messages"][-1].text == f"- Likes {_THINGS[number]}"


_THINGS = "tea beer wine milk cheese bread olives plums".split()


def test_on_error_log_lets_the_agent_answer_without_memory(caplog: pytest.LogCaptureFixture) -> None:
    embeddings = Broken(64)
    with Memory(":memory:", embeddings=embeddings) as memory, caplog.at_level(logging.ERROR, "langmem_adapter"):
        agent = agent_with(memory, answering())
        embeddings.down = True
        result = agent.invoke({"messages": "I like tea."}, context=ALICE)
    assert result["messages"][-1].text == "Noted."
    assert [record.message for record in caplog.records if "memory failed" in record.message] == [
        "memory failed to recall; the call goes on without",
        "memory failed to remember; the call goes on without",
    ]
    assert all("tea" not in record.message for record in caplog.records)


async def test_on_error_raise_fails_the_agent() -> None:
    embeddings = Broken(64)
    with Memory(":memory:", embeddings=embeddings) as memory:
        agent = agent_with(memory, answering(), on_error="raise")
        embeddings.down = True
        with pytest.raises(ConnectionError):
            agent.invoke({"messages": "I like tea."}, context=ALICE)
        with pytest.raises(ConnectionError):
            await agent.ainvoke({"messages": "I like tea."}, context=ALICE)


@pytest.mark.parametrize("own", [False, True])
async def test_background_writer_remembers_after_the_turn(memory: Memory, *, own: bool) -> None:
    writer = memory.background(after=60)
    agent = agent_with(memory, answering(), background=writer if own else True)
    await agent.ainvoke({"messages": "I have a sister."}, context=ALICE)
    agent.invoke({"messages": "Her name is Jesica."}, context=ALICE)
    assert texts(memory) == []
    if own:
        writer.drain()
        assert texts(memory) == ["Has a sister named Jesica"]


def test_closing_the_memory_finishes_what_waits_in_the_background(tmp_path: Any) -> None:
    with Memory(tmp_path / "memory.db") as memory:
        agent_with(memory, answering(), background=True).invoke({"messages": "I like tea."}, context=ALICE)
    with Memory(tmp_path / "memory.db") as memory:
        assert texts(memory) == ["Likes tea"]


def test_max_tokens_of_the_middleware_keeps_the_best_memories(memory: Memory) -> None:
    for fact in ("Likes green tea", "Likes tea", "Has a cat"):
        memory.add(fact, user_id=ALICE.user_id, infer=False)
    model = answering()
    agent_with(memory, model, max_tokens=13).invoke({"messages": "What about tea?"}, context=ALICE)
    assert notes_of(model.calls[0]) == ["- Likes tea"]
    agent_with(memory, model, max_tokens=1).invoke({"messages": "What about tea?"}, context=ALICE)
    assert notes_of(model.calls[1]) == []
    with pytest.raises(InvalidInputError, match="max_tokens must be a whole number from 1"):
        agent_with(memory, model, max_tokens=0)
    agent_with(memory, model, max_tokens=None, k=1).invoke({"messages": "What about tea?"}, context=ALICE)
    assert len(notes_of(model.calls[2])) == 1
    agent_with(memory, model, max_tokens=33, count_tokens=lambda messages: len(messages[0].text)).invoke(
        {"messages": "What about tea?"}, context=ALICE
    )
    assert notes_of(model.calls[3]) == ["- Likes tea"]


def test_an_agent_may_have_several_memories(memory: Memory) -> None:
    with Memory(":memory:") as shared:
        shared.add("The house serves oolong tea", user_id="house", infer=False)
        memory.add("I like green tea.", user_id=ALICE.user_id)
        model = answering()
        middleware = [
            MemoryMiddleware(memory, name="own"),
            MemoryMiddleware(shared, name="house", introduction="Of the house:"),
        ]
        agent: Any = create_agent(model, middleware=middleware, context_schema=MemoryContext)
        agent.invoke({"messages": "Which tea?"}, context=ALICE)
        agent.invoke({"messages": "Which tea?"}, context=MemoryContext("house"))
        assert notes_of(model.calls[0]) == ["- Likes green tea"]
        assert undated(model.calls[1][0].text) == "Which tea?\n\nOf the house:\n\n- The house serves oolong tea"


def test_with_an_agent_the_facts_are_the_users_unless_asked_for_its_own(memory: Memory) -> None:
    agent = agent_with(memory, answering("I love jazz."), agent_id="guide")
    agent.invoke({"messages": "I like tea."}, context=ALICE)
    assert [(item.text, item.scope.agent_id) for item in memory.get_all(user_id=ALICE.user_id)] == [
        ("Likes tea", "guide")
    ]
    agent = agent_with(memory, answering("I love jazz."), agent_id="self", about="agent")
    agent.invoke({"messages": "I like tea."}, context=ALICE)
    assert [item.text for item in memory.get_all(agent_id="self")] == ["Loves jazz"]
    with pytest.raises(ScopeError, match="needs an agent"):
        agent_with(memory, answering(), about="agent").invoke({"messages": "Hi"}, context=ALICE)


def test_pictures_alone_are_neither_searched_for_nor_a_failure(memory: Memory) -> None:
    picture = HumanMessage([{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}])
    result = agent_with(memory, answering(), on_error="raise").invoke({"messages": [picture]}, context=ALICE)
    assert result["messages"][-1].text == "Noted."


def test_the_model_may_use_the_memory_by_itself(memory: Memory) -> None:
    call = AIMessage("", tool_calls=[{"name": "save_memory", "args": {"content": "Likes oolong"}, "id": "1"}])
    agent = agent_with(memory, answering(call, "Saved."), tools=True)
    agent.invoke({"messages": "Keep that in mind."}, context=ALICE)
    assert texts(memory) == ["Likes oolong"]
    assert texts(memory, BOB) == []


@pytest.mark.parametrize("wrong", [{"on_error": "ignore"}, {"about": "me"}])
def test_wrong_options_are_refused_at_once(memory: Memory, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(wrong))):
        MemoryMiddleware(memory, **wrong)


def _traces(memory: Memory) -> list[str]:
    with memory.parts.database.read() as connection:
        return [row.id for row in connection.exec_driver_sql("SELECT id FROM traces ORDER BY created_at, rowid")]
