"""The one rule for whose memory it is."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage
from langgraph.runtime import Runtime, ServerInfo
from pydantic import BaseModel

from langmem_adapter.adapters.chat_history import SQLChatMessageHistory
from langmem_adapter.adapters.nodes import remember_node
from langmem_adapter.errors import InvalidInputError, ScopeError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.scope import Scope
from langmem_adapter.scoping import MemoryContext, resolve_scope
from tests.cases import each

if TYPE_CHECKING:
    from collections.abc import Callable


class User(dict[str, Any]):
    """What a LangGraph server hands over: attributes and keys."""

    @property
    def identity(self) -> str:
        return str(self["identity"])


class PydanticContext(BaseModel):
    user_id: str
    language: str = "en"


@dataclass
class OwnContext:
    tenant: str
    user_id: str


def signed_in(identity: str, context: object = None) -> Runtime[Any]:
    info = ServerInfo(assistant_id="a", graph_id="g", user=User(identity=identity))  # type: ignore[arg-type]
    return Runtime(context=context, server_info=info)


def configured(**fields: object) -> dict[str, Any]:
    return {"configurable": fields}


ALICE = Scope(user_id="alice")
SERVED = {"assistant_id": "1", "graph_id": "g", "run_id": "0196-run-of-the-server"}

TABLE: list[tuple[str, dict[str, Any], Scope]] = [
    ("argument: a Scope", {"explicit": ALICE}, ALICE),
    ("argument: a mapping", {"explicit": {"user_id": "alice"}}, ALICE),
    ("runtime context: MemoryContext", {"runtime": Runtime(context=MemoryContext("alice"))}, ALICE),
    ("runtime context: a dict", {"runtime": Runtime(context={"user_id": "alice", "x": 1})}, ALICE),
    ("runtime context: a dataclass", {"runtime": Runtime(context=OwnContext("t", "alice"))}, ALICE),
    ("runtime context: pydantic", {"runtime": Runtime(context=PydanticContext(user_id="alice"))}, ALICE),
    ("configurable", {"config": configured(user_id="alice")}, ALICE),
    ("configurable of a tool's runtime", {"runtime": SimpleNamespace(config=configured(user_id="alice"))}, ALICE),
    ("constructor", {"default": ALICE}, ALICE),
    ("an e-mail address", {"config": configured(user_id="a.b+c@example.com")}, Scope(user_id="a.b+c@example.com")),
    ("signed in, by the runtime", {"runtime": signed_in("alice")}, ALICE),
    ("signed in, by configurable", {"config": configured(langgraph_auth_user=User(identity="alice"))}, ALICE),
    ("signed in, as a plain dict", {"config": configured(langgraph_auth_user={"identity": "alice"})}, ALICE),
    ("signed in, by the id alone", {"config": configured(langgraph_auth_user_id="alice")}, ALICE),
    ("signed in and said again", {"runtime": signed_in("alice", MemoryContext("alice"))}, ALICE),
    ("signed in over the constructor", {"runtime": signed_in("alice"), "default": Scope("bob")}, ALICE),
    ("nobody signed in", {"runtime": signed_in("", MemoryContext("alice"))}, ALICE),
    (
        "argument over context over configurable over constructor, field by field",
        {
            "explicit": {"user_id": "from the argument"},
            "runtime": Runtime(context=MemoryContext("no", agent_id="from the context")),
            "config": configured(user_id="no", agent_id="no", run_id="from configurable"),
            "default": Scope("no", "no", "no"),
        },
        Scope("from the argument", "from the context", "from configurable"),
    ),
    ("the constructor completes", {"config": configured(user_id="alice"), "default": Scope(agent_id="guide")},
     Scope("alice", "guide")),
    ("signed in, with an agent", {"runtime": signed_in("alice"), "default": Scope(agent_id="guide")},
     Scope("alice", "guide")),
    ("an agent alone, where the call says so", {"explicit": Scope(agent_id="guide")}, Scope(agent_id="guide")),
    ("a run alone, from the constructor", {"default": Scope(run_id="r")}, Scope(run_id="r")),
    ("a run of one's own", {"config": configured(run_id="r")}, Scope(run_id="r")),
    ("a server's run is no session", {"config": configured(user_id="alice", **SERVED)}, ALICE),
    ("a server's empty user is nobody", {"config": configured(user_id="", **SERVED), "default": ALICE}, ALICE),
]  # fmt: skip


@each(("given_", "scope"), [row[1:] for row in TABLE])
def test_whose_memory_it_is(given_: dict[str, Any], scope: Scope) -> None:
    assert resolve_scope(**given_) == scope


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("nobody says", {}, r"context=MemoryContext\(user_id"),
    ("an empty context", {"runtime": Runtime(context=MemoryContext())}, "user_id is missing"),
    ("nothing but a thread", {"config": configured(thread_id="t")}, "user_id is missing"),
    ("an agent alone, from the constructor", {"default": Scope(agent_id="guide")}, "memories of all its users"),
    ("a number", {"config": configured(user_id=7)}, r"user_id=str\(\.\.\.\)"),
    ("a blank", {"runtime": Runtime(context={"user_id": " "}), "default": ALICE}, "blank"),
    ("empty, from the caller", {"config": configured(user_id=""), "default": ALICE}, "blank"),
    ("signed in, other argument", {"runtime": signed_in("alice"), "explicit": Scope("bob")}, "the argument names"),
    ("signed in, other context", {"runtime": signed_in("alice", MemoryContext("bob"))}, "the runtime context names"),
    ("signed in, other configurable", {"runtime": signed_in("alice"), "config": configured(user_id="bob")},
     "configurable.*names user 'bob'"),
    ("signed in by the id, other context",
     {"config": configured(langgraph_auth_user_id="alice"), "runtime": Runtime(context=MemoryContext("bob"))},
     "signed in"),
    ("signed in without identity", {"config": configured(langgraph_auth_user={"name": "x"}), "default": ALICE},
     "no identity"),
]  # fmt: skip


@each(("given_", "fix"), [row[1:] for row in REFUSED])
def test_what_is_refused_names_the_fix(given_: dict[str, Any], fix: str) -> None:
    with pytest.raises(ScopeError, match=fix):
        resolve_scope(**given_)


_IDS = st.none() | st.sampled_from(["a", "b", "c@example.com"])
_CONTEXTS = st.builds(MemoryContext, _IDS, _IDS, _IDS)


@given(user=st.sampled_from(["a", "b"]), explicit=_CONTEXTS, context=_CONTEXTS, default=_CONTEXTS)
def test_who_is_signed_in_never_sees_anybody_else(
    user: str, explicit: MemoryContext, context: MemoryContext, default: MemoryContext
) -> None:
    contradicted = {explicit.user_id, context.user_id} - {None, user}
    try:
        scope = resolve_scope(explicit=explicit, runtime=signed_in(user, context), default=default)
    except ScopeError:
        assert contradicted
    else:
        assert scope.user_id == user and not contradicted


def _doors(memory: Memory, message: dict[str, Any], whose: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """Every way by which a message comes in."""
    graph, item = memory.build_pipeline(), {"messages": "I like tea.", "user_id": message["user_id"]}
    human = HumanMessage("I like tea.", additional_kwargs={"user_id": message["user_id"]})
    remember: Any = remember_node(memory)
    history = SQLChatMessageHistory("s", memory, **whose)
    return {
        "add": lambda: memory.add(message, **whose),
        "aadd": lambda: asyncio.run(memory.aadd([message], **whose)),
        "add_many": lambda: [_raised(result) for result in memory.add_many([{"messages": message, **whose}])],
        "background": lambda: memory.background().add(message, **whose),
        "the graph": lambda: graph.invoke({"messages": [message], "scope": whose}),
        "the graph's items": lambda: graph.invoke({"items": [item], "scope": whose}),
        "a node": lambda: remember.invoke({"messages": [human]}, {"configurable": whose}),
        "a conversation": lambda: history.add_messages([human]),
    }


def _raised(result: object) -> object:
    if isinstance(result, Exception):
        raise result
    return result


def test_what_names_its_owner_comes_in_by_no_door_for_anybody_else() -> None:
    said = {"role": "user", "content": "I like tea.", "user_id": "ada"}
    with Memory(":memory:") as memory:
        for door, come_in in _doors(memory, said, {"user_id": "bob"}).items():
            with pytest.raises(InvalidInputError, match=r"names user_id 'ada' .* or remove the field"):
                come_in()
            assert memory.stats().changes == 0, door
        for come_in in _doors(memory, said, {"user_id": "ada"}).values():
            come_in()
        assert [scope.scope for scope in memory.scopes()] == [Scope("ada")]
        no_ones = SQLChatMessageHistory("s", memory, agent_id="guide")
        no_ones.add_messages([HumanMessage("Hi", additional_kwargs={"user_id": "ada", "run_id": "r"})])
