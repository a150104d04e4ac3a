"""Working memory: the cases A and B of MetaGPT's tests, and what was wrong there (H)."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypedDict
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from pydantic import BaseModel, SecretStr

from langmem_adapter.adapters.chat_history import SQLChatMessageHistory
from langmem_adapter.conversation import Carried, WorkingMemory, carried, latest, register, stamp
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.memory.memory import Memory
from tests.openai_server import OpenAIServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class UserRequirement:
    """What a person asks for."""


class WritePRD:
    """What a product manager does."""


@register
class Goals(BaseModel):
    """A structured payload."""

    goals: list[str]


ASKED = f"{__name__}.UserRequirement"
WROTE = f"{__name__}.WritePRD"


def said(
    text: str, number: str | None = None, *, role: str | None = None, cause: object = UserRequirement
) -> BaseMessage:
    return stamp(HumanMessage(text, id=number), cause_by=cause, label=role)


FIRST = said("test message1", "1", role="user1")
SECOND = said("test message2", "2", role="user2")


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    with Memory(":memory:") as opened:
        yield opened


@pytest.fixture(params=["in this object", "in the database"])
def make(request: pytest.FixtureRequest, memory: Memory) -> Callable[..., WorkingMemory]:
    return WorkingMemory if request.param == "in this object" else partial(WorkingMemory, memory=memory, **anew())


def anew() -> Any:
    """The name of a conversation that nobody else has."""
    return {"session_id": uuid4().hex, "user_id": "alice"}


def texts(messages: object) -> list[str]:
    assert isinstance(messages, list)
    return [message.text for message in messages]


# ── A: short-term ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a1_what_is_added_counts_until_the_newest_is_deleted(make: Callable[..., WorkingMemory]) -> None:
    log = make()
    assert log.add(FIRST)
    assert log.count() == 1
    assert log.delete_newest() == FIRST
    assert log.count() == 0
    assert log.delete_newest() is None


def test_a2_a_batch_is_kept_in_order_under_its_cause(make: Callable[..., WorkingMemory]) -> None:
    log = make()
    assert log.add_batch([FIRST, SECOND, FIRST]) == 2
    assert log.count() == len(log.index[ASKED]) == 2
    assert log.storage == [FIRST, SECOND]


def test_a3_a4_a5_messages_are_found_by_role_words_and_action(make: Callable[..., WorkingMemory]) -> None:
    log = make([FIRST, SECOND])
    assert log.get_by_role("user1") == [FIRST]
    assert log.get_by_content("test message") == log.try_remember("test message") == [FIRST, SECOND]
    assert log.get_by_content("Test message") == []
    assert log.get_by_content("") == [FIRST, SECOND]
    assert log.get_by_action(UserRequirement) == log.get_by_actions({UserRequirement, "Other"}) == [FIRST, SECOND]
    assert log.get_by_action(ASKED) == [FIRST, SECOND]


def test_a6_the_latest_are_given_oldest_first(make: Callable[..., WorkingMemory]) -> None:
    log = make([FIRST, SECOND])
    assert log.get(1) == [SECOND]
    assert log.get(5) == log.get() == [FIRST, SECOND]
    with pytest.raises(InvalidInputError, match="from 0"):
        log.get(-1)


def test_a7_find_news_gives_observed_messages_that_are_not_in_the_log(make: Callable[..., WorkingMemory]) -> None:
    log = make([FIRST, SECOND])
    third = said("test message3", "3")
    assert log.find_news([third, FIRST]) == [third]
    assert log.find_news([FIRST, third], k=1) == [FIRST, third]
    assert log.count() == 2


def test_a8_a_message_is_deleted_and_an_unknown_one_refused(make: Callable[..., WorkingMemory]) -> None:
    log = make([FIRST, SECOND])
    log.delete(FIRST)
    assert log.count() == 1
    assert log.get_by_role("user2") == [SECOND]
    with pytest.raises(ValueError, match="test message1"):
        log.delete(FIRST)


def test_a9_nothing_is_left_of_a_cleared_log(make: Callable[..., WorkingMemory]) -> None:
    log = make([FIRST, SECOND])
    log.clear()
    assert (log.count(), log.index, log.storage) == (0, {}, [])
    assert log.add(FIRST)


# ── B: as plain data ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_b1_b2_a_log_comes_back_from_json_with_its_payloads(make: Callable[..., WorkingMemory], tmp_path: Path) -> None:
    planned = stamp(AIMessage("Goals", id="2"), cause_by=WritePRD, label="Architect", payload=Goals(goals=["a", "b"]))
    file = tmp_path / "log.json"
    file.write_text(json.dumps(make([FIRST, planned]).to_json()), encoding="utf-8")
    again = WorkingMemory.from_json(json.loads(file.read_text(encoding="utf-8")))
    assert again.count() == 2
    assert again.get(2) == [FIRST, planned]
    assert carried(again.get(2)[1]) == Carried(WROTE, label="Architect", payload=Goals(goals=["a", "b"]))
    assert again.index.keys() == {ASKED, WROTE}


def test_b3_a_log_begins_with_a_storage_and_its_index(make: Callable[..., WorkingMemory]) -> None:
    """There an index without its storage, or a storage without its index, gave a log that contradicted itself."""
    assert make([FIRST, SECOND], {ASKED: [FIRST, SECOND]}).count() == 2
    assert WorkingMemory([FIRST]).index == {ASKED: [FIRST]}
    with pytest.raises(InvalidInputError, match="storage does not"):
        WorkingMemory([FIRST], {ASKED: [SECOND]})


# ── H: what was wrong there ──────────────────────────────────────────────────────────────────────────────────────────


def test_h6_equal_messages_of_a_batch_are_one_piece_of_news(make: Callable[..., WorkingMemory]) -> None:
    assert make().find_news([FIRST, FIRST, SECOND]) == [FIRST, SECOND]


def test_h7_several_actions_come_back_in_the_order_of_time(make: Callable[..., WorkingMemory]) -> None:
    log = make([said("1", "1", cause="A"), said("2", "2", cause="B"), said("3", "3", cause="A")])
    assert texts(log.get_by_actions({"B", "A", "C"})) == ["1", "2", "3"]


def test_h8_asking_changes_nothing(make: Callable[..., WorkingMemory]) -> None:
    log = make([FIRST])
    before = log.to_json()
    assert log.get_by_action("nobody did it") == []
    assert log.get_by_position(7) is None
    assert log.get_by_position(-1) == FIRST
    assert log.index.keys() == {ASKED}
    assert log.to_json() == before


def test_h9_without_ids_adding_and_news_agree_and_the_callers_message_stays(make: Callable[..., WorkingMemory]) -> None:
    """There `add` wrote "0" into the caller's message, and `find_news` knew nothing of that."""
    log = make(ignore_id=True)
    again = said("test message1", "other", role="user1")
    assert log.add(FIRST)
    assert not log.add(again)
    assert (FIRST.id, again.id) == ("1", "other")
    assert log.find_news([again]) == []
    log.delete(again)
    assert log.count() == 0


def test_a_message_without_an_id_is_new_each_time_and_gets_one_in_the_log(make: Callable[..., WorkingMemory]) -> None:
    log, yes = make(), HumanMessage("yes")
    assert [log.add(yes), log.add(yes)] == [True, True]
    assert yes.id is None
    assert len({message.id for message in log.storage} - {None}) == 2
    with pytest.raises(InvalidInputError, match="with its id"):
        log.delete(yes)
    log.delete(log.storage[0])
    assert log.count() == 1


def test_what_is_said_often_is_told_apart_by_its_id(make: Callable[..., WorkingMemory]) -> None:
    log = make()
    assert log.add_batch([said("yes", str(number)) for number in range(50)]) == 50
    assert not log.add(said("yes", "7"))
    log.delete(said("yes", "7"))
    assert log.add(said("yes", "7"))
    assert [message.id for message in log.get(1)] == ["7"]


def test_important_is_what_the_watched_causes_brought(make: Callable[..., WorkingMemory]) -> None:
    log = make([FIRST, said("plan", "9", cause=WritePRD)], watch=[WritePRD])
    assert texts(log.important_memory()) == ["plan"]


@pytest.mark.parametrize("name", ["UserRequirement", UserRequirement], ids=str)
def test_one_name_in_place_of_several_is_refused_rather_than_read_letter_by_letter(name: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"write watch=\[\.\.\.\]"):
        WorkingMemory(watch=name)
    with pytest.raises(InvalidInputError, match="actions must be a list"):
        WorkingMemory().get_by_actions(name)
    with pytest.raises(InvalidInputError, match="send_to must be a list"):
        stamp(FIRST, send_to=name)


def test_a_log_in_the_database_is_the_conversation_that_a_chat_history_reads(tmp_path: Path) -> None:
    with Memory(tmp_path / "memory.db") as memory:
        log = WorkingMemory([FIRST], memory=memory, session_id="monday", user_id="alice")
        assert SQLChatMessageHistory("monday", memory, user_id="alice").messages == [FIRST]
        assert WorkingMemory(memory=memory, session_id="monday", user_id="bob").count() == 0
        assert memory.purge(user_id="alice").turns == 1
        assert log.count() == 0


MESSAGES = st.lists(
    st.tuples(st.sampled_from(["你好", "yes", "no"]), st.sampled_from(["1", "2"]), st.sampled_from(["A", "B"])),
    max_size=8,
)


@settings(max_examples=settings().max_examples // 2)
@given(before=MESSAGES, gone=st.lists(st.integers(0, 7)), then=MESSAGES, ignore=st.booleans())
def test_both_kinds_of_log_do_the_same(
    *, memory: Memory, before: list[tuple[str, ...]], gone: list[int], then: list[tuple[str, ...]], ignore: bool
) -> None:
    first, second = ([said(text, number, cause=cause) for text, number, cause in part] for part in (before, then))
    logs = [WorkingMemory(ignore_id=ignore), WorkingMemory(ignore_id=ignore, memory=memory, **anew())]
    for log in logs:
        log.add_batch(first)
        log.delete_newest()
        for found in filter(None, map(log.get_by_position, gone)):
            log.delete(found)
    assert len({str(log.find_news(second, k=2)) for log in logs}) == 1
    assert len({log.add_batch(second) for log in logs}) == 1
    asked = [str([log.storage, log.get_by_actions(["A"]), log.get(3), log.get_by_position(1)]) for log in logs]
    assert asked[0] == asked[1]
    assert all(log.find_news(second) == [] for log in logs)


class NoThreads(ThreadPoolExecutor):
    """Hands no work to a thread."""

    def submit(self, fn: Any, /, *_: Any, **__: Any) -> Any:
        raise AssertionError(f"{fn} was to be done in a thread")


@given(st.lists(st.lists(st.integers(0, 40), max_size=3), max_size=40))
def test_what_tasks_do_without_a_database_is_done_on_the_loop_in_their_order(batches: list[list[int]]) -> None:
    async def use(log: WorkingMemory) -> list[int]:
        asyncio.get_running_loop().set_default_executor(NoThreads())
        return await asyncio.gather(*(log.aadd_batch([said("x", str(one)) for one in batch]) for batch in batches))

    one, other = WorkingMemory(), WorkingMemory()
    assert asyncio.run(use(one)) == [other.add_batch([said("x", str(each)) for each in batch]) for batch in batches]
    assert one.storage == other.storage


@pytest.mark.parametrize("alike", ["ids", "texts", "causes"])
def test_what_a_message_costs_does_not_grow_with_the_log(alike: str) -> None:
    """Calls of functions are counted, of an add, a question for news and a removal."""

    def message(number: int) -> BaseMessage:
        text, id_ = ("yes" if alike == "texts" else f"{number}"), ("1" if alike == "ids" else f"{number}")
        return said(text, id_, cause=WritePRD if alike == "causes" else f"cause {number}")

    def cost(messages: int) -> int:
        log, calls = WorkingMemory(), Counter[str]()
        for each in map(message, range(messages)):
            log.add(each)
        sys.setprofile(lambda _frame, event, _argument: calls.update([event]))
        try:
            log.add(message(messages))
            log.find_news([message(0), message(-1)], k=5)
            log.delete(message(messages // 2))
            log.delete_newest()
        finally:
            sys.setprofile(None)
        assert log.count() == messages - 1
        return calls["call"] + calls["c_call"]

    cost(5)
    assert cost(1_000) < 2 * cost(20)


# ── what a message carries ───────────────────────────────────────────────────────────────────────────────────────────


def test_what_a_message_carries_survives_the_merging_of_a_stream() -> None:
    chunks = [
        stamp(AIMessageChunk(content=text), cause_by="WritePRD", send_to=["b", "a"], payload=Goals(goals=["x"]))
        for text in "ab"
    ]
    merged = add_ai_message_chunks(chunks[0], chunks[1])
    assert merged.text == "ab"
    assert carried(merged) == Carried("WritePRD", send_to=frozenset("ab"), payload=Goals(goals=["x"]))


def test_what_a_message_carries_is_rebuilt_without_importing_what_a_database_names() -> None:
    class Unknown(BaseModel):
        value: int

    assert carried(stamp(HumanMessage("x"), payload=Unknown(value=1))).payload == {"value": 1}
    assert carried(stamp(HumanMessage("x"), payload=[1, "二"])).payload == [1, "二"]
    with pytest.raises(InvalidInputError, match="payload"):
        stamp(HumanMessage("x"), payload=object())
    with pytest.raises(InvalidInputError, match="blank"):
        stamp(HumanMessage("x"), cause_by=" ")


@pytest.mark.parametrize(
    "held",
    [
        *(
            None,
            3,
            "x",
            [],
            {"payload": ["x"]},
            {"payload": [{}]},
            {"payload": [{"schema": "a"}]},
            {"payload": {"a": 1}},
        ),
        *(
            {"payload": [{"schema": [], "value": 1}]},
            {"cause_by": "x"},
            {"cause_by": [{}], "label": [[3]], "send_to": [{}]},
        ),
    ],
    ids=str,
)
def test_what_somebody_else_wrote_in_its_place_hinders_nobody(make: Callable[..., WorkingMemory], held: Any) -> None:
    message = HumanMessage("Hi", id="1", additional_kwargs={"langmem_adapter": held})
    log = make()
    assert log.add(message)
    assert isinstance(carried(log.get()[0]), Carried)
    assert log.get() == [message]
    log.delete(message)
    assert log.count() == 0


def test_the_distinct_values_of_a_field_are_told_apart() -> None:
    values = [1, True, 1, {"a": 1}, {"a": True}, {"a": 1}]
    assert carried(HumanMessage("", additional_kwargs={"langmem_adapter": {"send_to": values}})).send_to == {
        *("1", "True", "{'a': 1}", "{'a': True}")
    }


def test_a_message_whose_payload_does_not_fit_its_model_any_more_is_kept_and_deleted(
    make: Callable[..., WorkingMemory],
) -> None:
    message = stamp(HumanMessage("Hi", id="1"), payload={"goals": 3}, schema=f"{__name__}.Goals")
    log = make()
    assert log.add(message)
    with pytest.raises(InvalidInputError, match="the payload is no"):
        carried(log.get()[0])
    assert log.find_news([message]) == []
    log.delete(message)
    assert log.count() == 0


def test_calls_with_different_broken_arguments_are_different_messages(make: Callable[..., WorkingMemory]) -> None:
    log = make(ignore_id=True)
    for name in ("look", "count"):
        call = {"name": name, "args": "{", "id": "c", "error": None, "type": "invalid_tool_call"}
        assert log.add(AIMessage("", invalid_tool_calls=[call]))
    assert log.count() == 2


def test_a_cause_is_as_long_as_every_database_can_find_it(make: Callable[..., WorkingMemory]) -> None:
    log = make([said("Hi", "1", cause="因" * 512)])
    assert log.get_by_action("因" * 512) == log.get()
    with pytest.raises(InvalidInputError, match="512 are allowed"):
        log.add(said("Ho", "2", cause="因" * 513))


def test_what_cannot_be_used_is_refused_with_a_typed_error(make: Callable[..., WorkingMemory]) -> None:
    log: Any = make()
    for name in ("add_batch", "find_news", "get_by_actions"):
        for value in (None, 3, "UserRequirement"):
            with pytest.raises(InvalidInputError, match="must be a list"):
                getattr(log, name)(value)
    role: Any
    for role in ([], "\ud800", "\x00"):
        with pytest.raises(InvalidInputError, match="role"):
            log.get_by_role(role)
    with pytest.raises(InvalidInputError, match="watch must be a list, not 'UserRequirement'"):
        make(watch="UserRequirement")
    data: Any
    for data in ({}, [], {"storage": [3], "ignore_id": False}, {"storage": [{"type": "x"}], "ignore_id": False}):
        with pytest.raises(InvalidInputError, match="not what to_json gave"):
            WorkingMemory.from_json(data)


def test_no_model_api_is_sent_what_a_message_carries() -> None:
    with OpenAIServer(["Hello!"]) as server:
        model = ChatOpenAI(model="gpt-5-mini", base_url=server.url, api_key=SecretStr("x"))
        model.invoke([stamp(FIRST, sent_from="secret-sender", payload={"secret": "value"})])
        assert "test message1" in str(server.requests[0])
        assert "secret" not in str(server.requests[0])


# ── a channel ────────────────────────────────────────────────────────────────────────────────────────────────────────


class State(TypedDict):
    working: Annotated[list[BaseMessage], latest(3)]


def test_a_channel_keeps_the_latest_and_no_result_without_its_call() -> None:
    graph = StateGraph(State).add_node("wait", lambda _: {}).add_edge(START, "wait").add_edge("wait", END)
    app: Any = graph.compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    call = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "c1"}])
    app.invoke({"working": [FIRST, call, ToolMessage("found", tool_call_id="c1")]}, config)
    state = app.invoke({"working": [SECOND]}, config)
    assert texts(state["working"]) == ["", "found", "test message2"]
    assert carried(state["working"][-1]).label == "user2"
    assert texts(app.invoke({"working": [AIMessage("well")]}, config)["working"]) == ["test message2", "well"]
    assert app.invoke({"working": [RemoveMessage(id=REMOVE_ALL_MESSAGES)]}, config)["working"] == []
