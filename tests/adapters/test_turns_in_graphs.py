"""Which messages are remembered where graphs are run in other ways: durability, graphs within graphs, several users."""

from __future__ import annotations

import operator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from langchain.agents.middleware import PIIDetectionError, PIIMiddleware
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from langmem_adapter.adapters.middleware import MemoryContext
from langmem_adapter.adapters.nodes import remember_node
from langmem_adapter.memory.memory import Memory
from tests.adapters.test_turns import ALICE, BOB, Agent, State, graph_with, guarded, on, sources, texts
from tests.cases import each

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "I hate the secret."  # noqa: S105 - a message


def blocking() -> Any:
    return PIIMiddleware("word", detector="secret", strategy="block")


@each("sync", [True, False])
@each("durability", ["sync", "async", "exit"])
@each("said", [["I like tea.", SECRET, "I live in Oslo."], [SECRET, "I like tea.", "I live in Oslo."]])
async def test_memory_middleware_and_remember_node_work_with_each_durability(
    *, said: list[str], durability: str, sync: bool
) -> None:
    with Memory(":memory:") as memory:
        agent, graph = Agent(memory, before=[blocking()]).graph, graph_with(memory, [AIMessage("Noted.")] * 9)
        for text in said:
            for each_graph, context in ((agent, ALICE), (graph, BOB)):
                with suppress(PIIDetectionError):
                    given: Any = {"messages": text}, on(str(context.user_id))
                    how: dict[str, Any] = {"context": context, "durability": durability}
                    _ = each_graph.invoke(*given, **how) if sync else await each_graph.ainvoke(*given, **how)
        assert sources(memory) == ["I like tea.", "I live in Oslo."]
        assert sources(memory, "bob") == said


class Asked(TypedDict, total=False):
    messages: str


@each("lasting", [True, None])
@each("parent", [State, Asked])
def test_memory_middleware_within_another_graph_never_remembers_what_another_blocks(
    *, parent: Any, lasting: bool | None
) -> None:
    with Memory(":memory:") as memory:
        inner = Agent(memory, "Noted.", ConnectionError("no model"), *["Noted."] * 9, after=[blocking()]).graph
        inner.checkpointer = lasting

        def call(state: Any) -> Any:
            inner.invoke({"messages": state["messages"]})

        node = inner if parent is State else call
        around = StateGraph(parent, context_schema=MemoryContext).add_node("agent", node).add_edge(START, "agent")
        graph: Any = around.compile(checkpointer=InMemorySaver())
        for said in ("I like tea.", "I am vegetarian.", SECRET, "I live in Oslo.", "I like beer."):
            with suppress(ConnectionError, PIIDetectionError):
                graph.invoke({"messages": said}, on(), context=ALICE)
        failed = [] if parent is Asked and not lasting else ["I am vegetarian."]  # in no state of any graph
        assert sources(memory) == ["I like tea.", *failed, "I live in Oslo.", "I like beer."]


class AsyncSaver(InMemorySaver):
    def get_tuple(self, config: Any) -> Any:
        raise NotImplementedError

    async def aget_tuple(self, config: Any) -> Any:
        return super().get_tuple(config)


async def test_memory_middleware_goes_on_after_a_failed_turn_with_a_saver_that_is_only_async() -> None:
    with Memory(":memory:") as memory:
        agent = Agent(memory, ConnectionError("no model"), *["Noted."] * 9, after=[blocking()], saver=AsyncSaver())
        for said in ("I like tea.", SECRET, "I live in Oslo."):
            with suppress(ConnectionError, PIIDetectionError):
                await agent.hear(said, sync=False)
        assert sources(memory) == ["I like tea.", "I live in Oslo."]


def test_memory_middleware_tells_messages_of_two_threads_with_one_id_apart() -> None:
    with Memory(":memory:") as memory:
        agent = Agent(memory, ConnectionError("no model"), *["Noted."] * 9, after=[guarded])
        with suppress(ConnectionError):
            agent.say(HumanMessage("I like tea.", id="1"), config=on("one"))
        agent.say(HumanMessage(SECRET, id="1"), config=on("two"))
        agent.say(HumanMessage("I live in Oslo.", id="2"), config=on("one"))
        assert sources(memory) == ["I like tea.", "I live in Oslo."]


def test_remember_node_leaves_to_other_users_of_a_thread_what_they_said() -> None:
    with Memory(":memory:") as memory:
        graph = graph_with(memory, [AIMessage("Noted.")] * 9)
        for said, context in (("I like tea.", ALICE), ("I live in Oslo.", BOB), ("I am vegetarian.", ALICE)):
            graph.invoke({"messages": said}, on(), context=context)
        assert (texts(memory), texts(memory, "bob")) == (["Is vegetarian", "Likes tea"], ["Lives in Oslo"])


class Added(TypedDict, total=False):
    messages: Annotated[list[Any], operator.add]


def test_remember_node_remembers_messages_without_ids_once_among_others() -> None:
    with Memory(":memory:") as memory:
        graph: Any = StateGraph(Added, context_schema=MemoryContext).add_node("remember", remember_node(memory))
        graph.add_node("answer", lambda _: {"messages": [{"role": "assistant", "content": "Noted."}]})
        graph = graph.add_edge(START, "answer").add_edge("answer", "remember").compile(checkpointer=InMemorySaver())
        said = ["I live in Oslo.", "I live in Rome.", "I like tea.", "I am vegetarian."]
        contents: Iterator[Any] = iter([said[0], said[1], [{"text": said[2]}], said[3]])
        for number, content in enumerate(contents):
            own = {"id": str(number)} if number in {1, 3} else {}
            graph.invoke({"messages": [{"role": "user", "content": content, **own}]}, on(), context=ALICE)
        assert sources(memory) == said
        assert texts(memory) == ["Is vegetarian", "Likes tea", "Lives in Rome"]
