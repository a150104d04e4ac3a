"""The long-term memory of a role as nodes of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

from langmem_adapter.adapters.roles import RoleNodes
from langmem_adapter.conversation import LongTermMemory
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.scoping import MemoryContext

if TYPE_CHECKING:
    from collections.abc import Iterator

THREAD: Any = {"configurable": {"thread_id": "t"}}
ALICE = MemoryContext(user_id="alice")


class State(MessagesState, total=False):
    """A thread, and what is news of it."""

    news: list[AnyMessage]


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory(":memory:") as opened:
        yield opened


def working(role: RoleNodes, work: Any = None, checkpointer: Any = None) -> Any:
    """A role that observes, works and keeps what was said."""
    graph = StateGraph(State, context_schema=MemoryContext)
    graph.add_node("look", role.find_news).add_node("keep", role.keep).add_node("work", work or done)
    graph.add_conditional_edges("look", role.has_news, {"news": "work", "nothing new": END})
    graph.add_edge(START, "look").add_edge("work", "keep").add_edge("keep", END)
    return graph.compile(checkpointer=checkpointer)


def done(state: State) -> dict[str, Any]:
    return {"messages": [AIMessage("Done: " + ", ".join(message.text for message in state["news"]))]}


async def test_news_key_has_the_news_and_similar_messages_end_there(memory: Memory) -> None:
    graph = working(RoleNodes(memory, "engineer"))
    first = graph.invoke({"messages": "写一个贪吃蛇游戏"}, context=ALICE)
    again = await graph.ainvoke({"messages": "写一个贪吃蛇游戏！"}, context=ALICE)
    other = await graph.ainvoke({"messages": "Write a 2048 web game"}, context=ALICE)
    assert first["messages"][-1].text == "Done: 写一个贪吃蛇游戏"
    assert (again["news"], len(again["messages"])) == ([], 1)
    assert other["messages"][-1].text == "Done: Write a 2048 web game"


def test_each_message_of_a_thread_is_news_once_and_answers_are_none(memory: Memory) -> None:
    graph = working(RoleNodes(memory, "engineer", user_id="alice"), checkpointer=InMemorySaver())
    graph.invoke({"messages": "Write a snake game"}, THREAD)
    state = graph.invoke({"messages": "Paint the walls in red"}, THREAD)
    assert [message.text for message in state["news"]] == ["Paint the walls in red"]
    log = LongTermMemory(memory, "engineer", user_id="alice")
    assert log.get() == state["messages"]


def test_g14_a_run_that_dies_at_work_has_its_news_again(memory: Memory) -> None:
    failing = iter([OSError("no such host")])

    def work(state: State) -> dict[str, Any]:
        for error in failing:
            raise error
        return done(state)

    graph = working(RoleNodes(memory, "engineer", user_id="alice"), work)
    with pytest.raises(OSError, match="no such host"):
        graph.invoke({"messages": [HumanMessage("Write a snake game", id="1")]})
    assert graph.invoke({"messages": [HumanMessage("Write a snake game", id="1")]})["messages"][-1].text.startswith(
        "Done"
    )


@pytest.mark.parametrize(
    "wrong",
    [{"role_id": " "}, {"threshold": 7}, {"ttl": 7}, {"limit": 0}, {"news_key": 7}, {"watch": "UserRequirement"}],
)
def test_arguments_that_cannot_be_used_are_refused(memory: Memory, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(wrong))):
        RoleNodes(memory, **{"role_id": "engineer", **wrong})
