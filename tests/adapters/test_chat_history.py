"""The messages of a session: as they were given, in order, each session by itself, on every database."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import settings as how
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import ConfigurableFieldSpec
from langchain_core.runnables.history import RunnableWithMessageHistory

from langmem_adapter.adapters.chat_history import SQLChatMessageHistory
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.testing import ScriptedChatModel
from tests.programs import Program

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ALICE = "alice@example.com"

EVERY_KIND: list[BaseMessage] = [
    SystemMessage("Be brief.", id="s1"),
    HumanMessage("What is on it?", name="alice", id="h1"),
    HumanMessage(
        [
            {"type": "text", "text": "图 👩‍👩‍👧"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"}},
        ]
    ),
    AIMessage(
        [{"type": "reasoning", "reasoning": "Let me look.", "index": 0}, {"type": "text", "text": "", "annotations": []}],
        id="run-1",
        tool_calls=[{"name": "look", "args": {"b": 1.5, "a": {"deep": [None, True, 10**20]}}, "id": "c1"}],
        invalid_tool_calls=[{"name": "look", "args": "{bad", "id": "c2", "error": "no JSON", "type": "invalid_tool_call"}],
        usage_metadata={
            "input_tokens": 9,
            "output_tokens": 3,
            "total_tokens": 12,
            "input_token_details": {"cache_read": 4},
            "output_token_details": {"reasoning": 2},
        },
        response_metadata={"model_name": "m", "logprobs": None, "finish_reason": "tool_calls"},
        additional_kwargs={"tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]},
    ),
    ToolMessage("a cat", tool_call_id="c1", name="look", artifact={"pixels": [1, 2]}, status="error"),
    FunctionMessage(content="4", name="add"),
    ChatMessage(content="Hm.", role="critic"),
    AIMessageChunk(content="par", tool_call_chunks=[{"name": "look", "args": '{"a', "id": "c3", "index": 0}]),
    AIMessage(""),
    RemoveMessage(id="h1"),
]  # fmt: skip


@pytest.fixture
def memory(database_url: str) -> Iterator[Memory]:
    with Memory(database_url) as opened:
        yield opened


def history(memory: Memory, session: str = "s1", **whose: Any) -> SQLChatMessageHistory:
    return SQLChatMessageHistory(session, memory, **whose)


def texts(messages: list[BaseMessage]) -> list[str]:
    return [message.text for message in messages]


# ── what comes back ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_kind_of_message_comes_back_as_it_was(memory: Memory) -> None:
    history(memory).add_messages(EVERY_KIND)
    again = history(memory).messages
    assert again == EVERY_KIND
    assert [type(message) for message in again] == [type(message) for message in EVERY_KIND]
    assert list(again[3].tool_calls[0]["args"]) == ["b", "a"]  # type: ignore[attr-defined]


PLAIN = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PLAIN, inner, max_size=3),
    max_leaves=8,
)
OBJECT = st.dictionaries(PLAIN, JSON, max_size=3)
BLOCK = st.fixed_dictionaries({"type": st.sampled_from(["text", "image", "reasoning", "x-own"]), "text": PLAIN})
CONTENT = PLAIN | st.lists(PLAIN | BLOCK, max_size=3)
COMMON = {"content": CONTENT, "id": st.none() | PLAIN, "name": st.none() | PLAIN, "response_metadata": OBJECT}
CALL = st.fixed_dictionaries(
    {"name": PLAIN, "args": OBJECT, "id": st.none() | PLAIN, "type": st.just("tool_call")},
)
COUNT = st.integers(0, 10**9)
USAGE = st.fixed_dictionaries({"input_tokens": COUNT, "output_tokens": COUNT, "total_tokens": COUNT})
MESSAGES = st.one_of(
    st.builds(HumanMessage, **COMMON),
    st.builds(SystemMessage, **COMMON),
    st.builds(ChatMessage, **COMMON, role=PLAIN),
    st.builds(ToolMessage, **COMMON, tool_call_id=PLAIN, artifact=JSON, status=st.sampled_from(["success", "error"])),
    st.builds(AIMessage, **COMMON, tool_calls=st.lists(CALL, max_size=2), usage_metadata=st.none() | USAGE),
)


@pytest.fixture(scope="module")
def kept() -> Iterator[Memory]:
    with Memory(":memory:") as opened:
        yield opened


@how(max_examples=30)
@given(st.lists(MESSAGES, max_size=4))
def test_whatever_a_message_holds_comes_back_equal(kept: Memory, messages: list[BaseMessage]) -> None:
    session = history(kept, "any")
    session.clear()
    session.add_messages(messages)
    assert session.messages == messages


class Sighed(HumanMessage):
    """A class of somebody's own."""


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (ToolMessage("x", tool_call_id="c", artifact=Document("a page")), "message 2 holds a Document"),
        (HumanMessage([{"type": "image", "data": b"\x89PNG"}]), "message 2 holds a bytes"),
        (AIMessage("x", response_metadata={"logprob": float("-inf")}), "message 2 cannot be kept as JSON"),
        (HumanMessage("a\x00b"), "NUL"),
        (HumanMessage("a\ud800b"), "surrogate"),
        (Sighed(content="x"), "message 2 is a Sighed, which would come back as HumanMessage"),
        ("just text", "message 2 is a str: pass a LangChain message"),
    ],
)
def test_what_would_not_come_back_is_refused_and_nothing_is_kept(kept: Memory, message: Any, reason: str) -> None:
    session = history(kept, "refused")
    with pytest.raises(InvalidInputError, match=reason):
        session.add_messages([HumanMessage("before"), message])
    assert session.messages == []


# ── sessions ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_it_is_there_when_the_file_is_opened_again(tmp_path: Path) -> None:
    with Memory(tmp_path / "m.db") as memory:
        history(memory, user_id=ALICE).add_messages(EVERY_KIND)
    with Memory(tmp_path / "m.db") as memory:
        assert history(memory, user_id=ALICE).messages == EVERY_KIND


def test_last_limits_the_messages_that_are_read(memory: Memory) -> None:
    history(memory).add_messages([HumanMessage(str(number)) for number in range(5)])
    assert texts(history(memory, last=2).messages) == ["3", "4"]
    assert len(history(memory).messages) == 5


@pytest.mark.parametrize("session", ["", "  ", 7, "a\x00"])
def test_session_id_is_a_text_that_is_not_blank(kept: Memory, session: Any) -> None:
    with pytest.raises(InvalidInputError, match="session_id"):
        history(kept, session)


def test_a_window_of_no_size_is_refused(kept: Memory) -> None:
    with pytest.raises(InvalidInputError, match="last must be"):
        history(kept, last=0)


# ── many writers ──────────────────────────────────────────────────────────────────────────────────────────────────────


def in_order(messages: list[BaseMessage], writers: int, each: int) -> bool:
    """Whether each writer's messages stand in the order of writing, and its pairs together."""
    told = [message.text.split(":") for message in messages]
    pairs = all(told[place][0] == told[place + 1][0] for place in range(0, len(told), 2))
    mine = [[int(number) for who, number in told if who == str(writer)] for writer in range(writers)]
    return pairs and mine == [list(range(each))] * writers


def pair(writer: int, number: int) -> list[BaseMessage]:
    return [HumanMessage(f"{writer}:{number}"), AIMessage(f"{writer}:{number + 1}")]


def test_threads_keep_their_order_and_their_pairs(memory: Memory) -> None:
    def write(writer: int) -> None:
        for number in range(0, 20, 2):
            history(memory).add_messages(pair(writer, number))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert in_order(history(memory).messages, 4, 20)


async def test_waiting_tasks_share_a_commit() -> None:
    with Memory(":memory:") as memory:
        before = memory.parts.database.version()
        await asyncio.gather(*(history(memory).aadd_messages(pair(writer, 0)) for writer in range(50)))
        assert in_order(await history(memory).aget_messages(), 50, 2)
        assert int(memory.parts.database.version()) - int(before) <= 10  # type: ignore[call-overload]


WRITER = """
import sys
from langchain_core.messages import AIMessage, HumanMessage
from langmem_adapter.storage.conversations import Conversation, append
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.conversations import drafts_of

database, writer = Database(sys.argv[1]), sys.argv[2]
for number in range(0, 40, 2):
    drafts = drafts_of([HumanMessage(f"{writer}:{number}"), AIMessage(f"{writer}:{number + 1}")])
    database.write(lambda connection: append(connection, Conversation("s1"), drafts))
database.close()
"""


def test_processes_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with Memory(path) as memory:
        started = [Program("-c", WRITER, path, writer) for writer in range(2)]
        assert [program.end().returncode for program in started] == [0, 0]
        assert in_order(history(memory).messages, 2, 40)


# ── RunnableWithMessageHistory ────────────────────────────────────────────────────────────────────────────────────────

PROMPT = ChatPromptTemplate.from_messages([MessagesPlaceholder("history"), ("human", "{input}")])
# LangChain deprecates the class that this history is made for, at its constructor; it works until 2.0.
deprecated = pytest.mark.filterwarnings("ignore:RunnableWithMessageHistory is deprecated")


def chat(memory: Memory, model: ScriptedChatModel) -> RunnableWithMessageHistory:
    def session(session_id: str, user_id: str) -> SQLChatMessageHistory:
        return SQLChatMessageHistory(session_id, memory, user_id=user_id)

    fields = [ConfigurableFieldSpec(id=name, annotation=str) for name in ("session_id", "user_id")]
    return RunnableWithMessageHistory(
        PROMPT | model,
        session,
        input_messages_key="input",
        history_messages_key="history",
        history_factory_config=fields,
    )


def of(user: str, session: str = "s1") -> Any:
    return {"configurable": {"session_id": session, "user_id": user}}


@deprecated
def test_a_chain_reads_and_writes_it(memory: Memory) -> None:
    model = ScriptedChatModel(replies=["Hello Ann.", "Hello Bob.", "You are Ann."])
    chain = chat(memory, model)
    chain.invoke({"input": "I am Ann."}, of(ALICE))
    chain.invoke({"input": "I am Bob."}, of("bob"))
    chain.invoke({"input": "Who am I?"}, of(ALICE))
    assert texts(model.calls[2]) == ["I am Ann.", "Hello Ann.", "Who am I?"]
    assert texts(history(memory, user_id="bob").messages) == ["I am Bob.", "Hello Bob."]
    assert history(memory, user_id=ALICE).messages[-1].usage_metadata is not None  # type: ignore[attr-defined]


@deprecated
def test_a_model_alone_may_be_wrapped(memory: Memory) -> None:
    model = ScriptedChatModel(replies=["1", "2"])
    chain = RunnableWithMessageHistory(model, lambda session_id: SQLChatMessageHistory(session_id, memory))
    for said in ("a", "b"):
        chain.invoke([HumanMessage(said)], {"configurable": {"session_id": "s1"}})
    assert texts(history(memory).messages) == ["a", "1", "b", "2"]
