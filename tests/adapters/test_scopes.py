"""Scopes of all integrations: each reads what was written for the scope of the call, and nothing of a foreign scope."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langgraph.graph import MessagesState, StateGraph

from langmem_adapter.adapters import mem0
from langmem_adapter.adapters.chat_history import SQLChatMessageHistory
from langmem_adapter.adapters.classic import ConversationMemory
from langmem_adapter.adapters.middleware import MemoryMiddleware
from langmem_adapter.adapters.nodes import experience_node, recall_node, remember_node
from langmem_adapter.adapters.retriever import MemoryRetriever, recall
from langmem_adapter.adapters.roles import RoleNodes
from langmem_adapter.adapters.tools import create_memory_tools
from langmem_adapter.conversation import BrainMemory, ExperienceMemory, LongTermMemory, WorkingMemory, reflect
from langmem_adapter.errors import InvalidInputError, MemoryNotFoundError, ScopeError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.testing import ScriptedChatModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from langchain_core.documents import Document

TEA = "I like tea."
ANN, BOB = {"user_id": "ann"}, {"user_id": "bob"}
GUIDE = {"user_id": "ann", "agent_id": "guide"}
FOREIGN: list[tuple[dict[str, str], dict[str, str]]] = [
    (ANN, BOB),
    (ANN, {"user_id": "*"}),
    (GUIDE, {"user_id": "ann", "agent_id": "coach"}),
    (GUIDE, {"user_id": "bob", "agent_id": "guide"}),
    ({**ANN, "run_id": "1"}, {**ANN, "run_id": "2"}),
]


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    with Memory(":memory:", embeddings="hash:64") as opened:
        yield opened


def add(memory: Memory, scope: dict[str, Any]) -> None:
    memory.add(TEA, **scope)


def config(scope: dict[str, Any]) -> Any:
    return {"configurable": scope}


def ask_agent(memory: Memory, scope: dict[str, Any], text: str = "What do I like?") -> str:
    model = ScriptedChatModel(replies=[lambda messages: str(messages[-1].content)])
    agent: Any = create_agent(model, middleware=[MemoryMiddleware(memory)])
    return str(agent.invoke({"messages": text}, config(scope))["messages"][-1].text)


def run_node(node: Any, state: dict[str, Any], scope: dict[str, Any]) -> Any:
    graph: Any = StateGraph(cast("Any", dict)).add_node("node", node)
    return graph.set_entry_point("node").set_finish_point("node").compile().invoke(state, config(scope))


def use_tool(memory: Memory, kind: Any, scope: dict[str, Any], **arguments: str) -> str:
    (tool,) = create_memory_tools(memory, tools=[kind], threshold=None)
    return str(tool.invoke(arguments, config(scope)))


def documents(found: list[Document]) -> str:
    return "\n".join(document.page_content for document in found)


def chain(memory: Memory, scope: dict[str, Any]) -> ConversationMemory:
    return ConversationMemory(memory=memory, **scope)


def role(memory: Memory, scope: dict[str, Any]) -> LongTermMemory:
    fields: dict[str, Any] = {name: scope.get(name) for name in ("user_id", "run_id")}
    return LongTermMemory(memory, scope.get("agent_id", "engineer"), **fields)


def run_role(memory: Memory, scope: dict[str, Any]) -> None:
    graph = StateGraph(MessagesState).add_node("keep", RoleNodes(memory, "engineer").keep)
    compiled = graph.set_entry_point("keep").set_finish_point("keep").compile()
    compiled.invoke({"messages": [HumanMessage(TEA)]}, config(scope))


def pool(memory: Memory, scope: dict[str, Any]) -> ExperienceMemory:
    return ExperienceMemory(memory, "t", **scope)


def in_mem0(memory: Memory, scope: dict[str, Any]) -> Any:
    own = mem0.Memory(mem0.MemoryConfig(history_db_path=":memory:"))
    own._engine = memory  # the one of the module: opening one for each case takes long
    return own


@dataclass(frozen=True)
class Integration:
    """How it writes "I like tea." for a scope, and what it shows for a scope."""

    write: Callable[[Memory, dict[str, Any]], object]
    read: Callable[[Memory, dict[str, Any]], str]


def texts(messages: list[Any]) -> str:
    return "\n".join(message.text for message in messages)


INTEGRATIONS: dict[str, Integration] = {
    "Memory.search": Integration(add, lambda memory, scope: str(memory.search("What do I like?", **scope))),
    "Memory.get_all": Integration(add, lambda memory, scope: str(list(memory.get_all(**scope)))),
    "MemoryMiddleware": Integration(lambda memory, scope: ask_agent(memory, scope, TEA), ask_agent),
    "recall_node": Integration(
        lambda memory, scope: run_node(remember_node(memory), {"messages": TEA}, scope),
        lambda memory, scope: str(
            run_node(recall_node(memory, threshold=None), {"messages": "What do I like?"}, scope)["memories"]
        ),
    ),
    "create_memory_tools": Integration(
        lambda memory, scope: use_tool(memory, "save", scope, content=TEA),
        lambda memory, scope: use_tool(memory, "search", scope, query="tea"),
    ),
    "MemoryRetriever": Integration(
        add,
        lambda memory, scope: documents(MemoryRetriever(memory=memory).invoke("What do I like?", config(scope))),
    ),
    "recall": Integration(
        add,
        lambda memory, scope: str(recall(memory, threshold=None).invoke("What do I like?", config(scope))["memories"]),
    ),
    "ConversationMemory": Integration(
        lambda memory, scope: chain(memory, scope).save_context({"input": TEA}, {"output": "Noted."}),
        lambda memory, scope: str(chain(memory, scope).load_memory_variables({"input": "What do I like?"})),
    ),
    "SQLChatMessageHistory": Integration(
        lambda memory, scope: SQLChatMessageHistory("s", memory, **scope).add_user_message(TEA),
        lambda memory, scope: texts(SQLChatMessageHistory("s", memory, **scope).messages),
    ),
    "WorkingMemory": Integration(
        lambda memory, scope: WorkingMemory([HumanMessage(TEA)], memory=memory, session_id="w", **scope),
        lambda memory, scope: texts(WorkingMemory(memory=memory, session_id="w", **scope).storage),
    ),
    "BrainMemory": Integration(
        lambda memory, scope: BrainMemory(memory, "b", **scope).add_talk(TEA),
        lambda memory, scope: texts(BrainMemory(memory, "b", **scope).history),
    ),
    "LongTermMemory": Integration(
        lambda memory, scope: role(memory, scope).add(HumanMessage(TEA)),
        lambda memory, scope: texts([each.message for each in role(memory, scope).search_similar(TEA)]),
    ),
    "ExperienceMemory": Integration(
        lambda memory, scope: pool(memory, scope).add("What do I like?", TEA),
        lambda memory, scope: str(pool(memory, scope).query("What do I like?")),
    ),
    "reflect": Integration(
        lambda memory, scope: memory.add("Tea is what I like.", infer=False, **scope),
        lambda memory, scope: reflect(memory, "Tea", **scope).text,
    ),
    "mem0.Memory": Integration(
        lambda memory, scope: in_mem0(memory, scope).add(TEA, **scope),
        lambda memory, scope: str(in_mem0(memory, scope).search("What do I like?", **scope)["results"]),
    ),
}


def unique(scope: dict[str, str], mark: str) -> dict[str, Any]:
    """Users of one case alone."""
    return {name: f"{mark} {value}" if name == "user_id" else value for name, value in scope.items()}


@pytest.mark.parametrize("name", INTEGRATIONS)
def test_each_integration_shows_nothing_of_a_foreign_user_id_agent_id_or_run_id(memory: Memory, name: str) -> None:
    integration = INTEGRATIONS[name]
    for own, foreign in FOREIGN:
        mark = uuid4().hex
        integration.write(memory, unique(own, mark))
        assert "tea" in integration.read(memory, unique(own, mark)).lower(), own
        shown = integration.read(memory, unique(foreign, mark)).lower().replace("what do i like?", "")
        assert "likes tea" not in shown and "like tea" not in shown and "tea is" not in shown, foreign


CALLED = ("MemoryMiddleware", "recall_node", "create_memory_tools", "MemoryRetriever", "recall")


@pytest.mark.parametrize("name", CALLED)
def test_a_call_of_an_integration_without_a_scope_or_against_the_signed_in_user_is_a_scope_error(
    memory: Memory, name: str
) -> None:
    integration = INTEGRATIONS[name]
    for scope in ({}, {"user_id": " "}, {"langgraph_auth_user_id": "ann", "user_id": "bob"}):
        for call in (integration.write, integration.read):
            if call is not add:
                with pytest.raises(ScopeError, match="user"):
                    call(memory, scope)
    assert "likes tea" not in integration.read(memory, {"langgraph_auth_user_id": uuid4().hex}).lower()


@pytest.mark.parametrize("name", ["ConversationMemory", "BrainMemory", "ExperienceMemory", "reflect", "mem0.Memory"])
def test_an_integration_made_without_a_scope_is_a_scope_error(memory: Memory, name: str) -> None:
    with pytest.raises(ScopeError):
        INTEGRATIONS[name].read(memory, {})


def test_experience_node_and_role_nodes_take_the_scope_of_the_call(memory: Memory) -> None:
    mark = uuid4().hex
    ann, bob = unique(ANN, mark), unique(BOB, mark)
    experiences = ExperienceMemory(memory, "ask", user_id="nobody")
    experiences.add("capital", "Paris", score=10)
    node = experience_node(experiences, lambda _: "unknown", tag="ask")
    assert [node.invoke({"request": "capital"}, config(scope))["response"] for scope in ({}, ann)] == [
        "Paris",
        "unknown",
    ]
    run_role(memory, ann)
    for scope, count in ((ann, 1), (bob, 0)):
        assert LongTermMemory(memory, "engineer", user_id=scope["user_id"]).count() == count
    with pytest.raises(ScopeError, match="user_id"):
        run_role(memory, {})


@pytest.mark.parametrize("operation", ["get", "history", "update", "delete", "restore"])
def test_memory_id_of_a_foreign_scope_is_not_found(memory: Memory, operation: str) -> None:
    mark = uuid4().hex
    (change,) = memory.add(TEA, **unique(GUIDE, mark)).results
    options: dict[str, dict[str, Any]] = {"update": {"text": "Likes coffee"}, "restore": {"revision": 1}}
    for foreign in (BOB, {"user_id": "ann", "agent_id": "coach"}):
        with pytest.raises(MemoryNotFoundError):
            getattr(memory, operation)(change.id, **options.get(operation, {}), **unique(foreign, mark))
    for kind in ("update", "forget"):
        content = {"content": "Likes coffee"} if kind == "update" else {}
        refusal = use_tool(memory, kind, unique(BOB, mark), memory_id=str(change.id), **content)
        assert "no memory" in refusal and str(change.id) in refusal
    assert [item.text for item in memory.get_all(**unique(GUIDE, mark))] == ["Likes tea"]


def test_a_run_and_a_state_of_a_foreign_scope_are_refused_by_the_pipeline(memory: Memory) -> None:
    graph = memory.build_pipeline()
    with pytest.raises((ScopeError, InvalidInputError)):
        graph.invoke({"messages": [TEA], "scope": ANN}, config({"langgraph_auth_user_id": "bob"}))
