"""What integrations share: scope and thread of a call, its latest turn, and which messages are remembered.

A turn is what people said since the last answer, and the answers to it. A message of the model that calls a tool or has no
text is no answer: what a failed or interrupted run left open belongs to the next turn. What a tool returned is
not remembered, since a text in it could plant a memory; the setting `facts_from_tools` changes that.

The database notes which messages are remembered (`storage.sources`): ids and digests, no text. Where several messages are not
noted yet, the graph's checkpoints say which of them this run brought.
"""

from __future__ import annotations

import difflib
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables.config import ensure_config
from langgraph.checkpoint.serde.types import ERROR
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.errors import GraphBubbleUp
from langgraph.runtime import get_runtime

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.pipeline.parse import MOST_BEFORE, as_list, message_of, results_apart, turns_before
from langmem_adapter.records.checks import quoted
from langmem_adapter.scoping import MemoryContext, SearchOptions, configured, resolve_scope
from langmem_adapter.storage import sources
from langmem_adapter.twins import Plan

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from langchain_core.messages import MessageLikeRepresentation
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple
    from sqlalchemy import Connection

    from langmem_adapter.conversation.summaries import CountTokens
    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.pipeline.background import BackgroundWriter
    from langmem_adapter.records.results import AddResult
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.database import Database
    from langmem_adapter.storage.sources import MessageThread

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")

_log = logging.getLogger("langmem_adapter")

OnError: TypeAlias = Literal["raise", "log"]
"""What happens when memory fails: `"raise"` fails the call as well, `"log"` goes on without memory."""


# ── options ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class RecallOptions(SearchOptions, total=False):
    """`SearchOptions` of an integration that writes memories into a prompt.

    Attributes:
        count_tokens: Counts what *max_tokens* limits; for an exact count give the model's `get_num_tokens_from_messages`.
    """

    count_tokens: CountTokens


def check_keys(
    options: Mapping[str, Any],
    allowed: tuple[str, ...],
    where: str,
    advice: Mapping[str, str] | None = None,
    otherwise: str | None = None,
) -> None:
    """Refuse a key that is not allowed; the error gives the *advice* for it, a similar key, or *otherwise*."""
    for key in (key if isinstance(key, str) else quoted(key) for key in options if key not in allowed):
        near = difflib.get_close_matches(key, allowed, n=1)
        guess = f"did you mean {near[0]!r}?" if near else otherwise or f"known are {', '.join(allowed)}"
        raise InvalidInputError(f"{where} has no {key!r} here: {(advice or {}).get(key, guess)}")


# ── calls ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a call says: its scope, the user's time zone, and the thread that it works in."""

    scope: Scope
    timezone: str | None = None
    thread_id: str | None = None

    @property
    def options(self) -> dict[str, Any]:
        """Scope and time zone as arguments of `Memory`."""
        return {**({} if self.timezone is None else {"timezone": self.timezone}), **self.scope.named}


def resolve_call(
    default: MemoryContext, config: RunnableConfig | None = None, *, explicit: object = None, runtime: object = None
) -> CallContext:
    """Scope, time zone and thread of a call, anywhere in LangChain or LangGraph; see `resolve_scope`."""
    if runtime is None:
        with suppress(RuntimeError, KeyError):  # no graph is running
            runtime = get_runtime()
    config, context = ensure_config(config), getattr(runtime, "context", None)
    configurable = config.get("configurable", {})
    zone = context.get("timezone") if isinstance(context, Mapping) else getattr(context, "timezone", None)
    zones = (zone, configurable.get("timezone"), default.timezone)
    thread_id = configurable.get("thread_id")
    return CallContext(
        resolve_scope(explicit=explicit, runtime=runtime, config=config, default=default),
        next((each for each in zones if each is not None), None),
        None if thread_id in {None, ""} else str(thread_id),
    )


def log_failure(plan: Plan[R], otherwise: R, *, on_error: OnError, action: str) -> Plan[R]:
    """A plan that, with `on_error="log"`, gives *otherwise* where the *action* fails, and logs the error."""

    def recover(error: Exception) -> Plan[R] | None:
        if isinstance(error, GraphBubbleUp):  # no failure: the graph pauses
            return None
        _log.error("memory failed to %s; the call goes on without", action, exc_info=error)
        return Plan.of(otherwise)

    return plan if on_error == "raise" else plan.or_else(recover)


def read_state(state: Any, key: str, argument: str) -> Any:
    """The value of a graph's state, a mapping or an object, under a key; *argument* is what names another key."""
    try:
        return state[key] if isinstance(state, Mapping) else getattr(state, key)
    except (KeyError, AttributeError):
        raise InvalidInputError(
            f"the graph's state has no {quoted(key)}; name another part of it with {argument}=..."
        ) from None


# ── turns ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

_SOURCE: Final = "lc_source"  # LangChain's mark on what a program writes in a person's name: summaries, skills, notices


def latest_turn(messages: str | Sequence[MessageLikeRepresentation]) -> list[BaseMessage]:
    """The latest turn of a thread: what people said since the last answer before it, and the answers to that.

    The thread is given as `Memory.add` takes messages; blank messages are left out.

    Example:
        >>> thread = [("human", "Hi"), ("ai", "Hello!"), ("human", "I like tea."), ("ai", "Noted.")]
        >>> [message.text for message in latest_turn(thread)]
        ['I like tea.', 'Noted.']
    """
    return split_latest_turn(messages)[1]


def split_latest_turn(
    messages: str | Sequence[MessageLikeRepresentation], *, tools: bool = False
) -> tuple[list[BaseMessage], list[BaseMessage]]:
    """The messages before the latest turn of a thread, and the turn, with what the *tools* returned; see `latest_turn`."""
    return _split(parse_thread(messages), tools=tools)


def _split(thread: Sequence[BaseMessage], *, tools: bool = False) -> tuple[list[BaseMessage], list[BaseMessage]]:
    spoken = [message for message in thread if is_human(message) or _is_answer_part(message, tools=tools)]
    last = max((place for place, message in enumerate(spoken) if is_human(message)), default=len(spoken))
    first = last
    while first > 0 and not is_answer(spoken[first - 1]):
        first -= 1
    while first < last and not is_human(spoken[first]):
        first += 1
    return spoken[:first], [message for message in spoken[first:] if is_human(message) or message.text.strip()]


def parse_thread(messages: str | Sequence[MessageLikeRepresentation]) -> list[BaseMessage]:
    """The messages of a thread, given as `Memory.add` takes them, as LangChain's."""
    is_empty = isinstance(messages, list | tuple) and not messages
    numbered = enumerate([] if is_empty else as_list(messages), start=1)
    return [part for number, each in numbered for part in results_apart(message_of(each, number), number)]


def select_turn(
    thread: Sequence[BaseMessage], ids: Collection[str], *, tools: bool = False, digest: Callable[[object], str] = str
) -> tuple[list[BaseMessage], list[BaseMessage]]:
    """The messages before the first of some messages of people, and these, with the answers from there on.

    The *digest* of its content stands for the id of a message of the latest turn that has none.
    """
    latest = {id(message) for message in _split(thread)[1]}
    names = [each.id or (digest(each.content) if id(each) in latest else None) for each in thread]
    chosen = [is_human(each) and name in ids for each, name in zip(thread, names, strict=True)]
    first = chosen.index(True) if any(chosen) else len(thread)
    rest = zip(thread[first:], chosen[first:], strict=True)
    turn = [each for each, own in rest if own or (_is_answer_part(each, tools=tools) and each.text.strip())]
    return list(thread[:first]), turn


def is_human(message: BaseMessage) -> bool:
    """Whether a person said it, not a program in their name."""
    return isinstance(message, HumanMessage) and _SOURCE not in message.additional_kwargs


def human_messages(turn: Sequence[BaseMessage]) -> list[BaseMessage]:
    """What people said in a turn."""
    return [message for message in turn if is_human(message)]


def is_answer(message: BaseMessage) -> bool:
    """Whether a message answers what was said before it: the model says something, and calls no tool."""
    return isinstance(message, AIMessage) and bool(message.text.strip()) and not message.tool_calls


def _is_answer_part(message: BaseMessage, *, tools: bool) -> bool:
    return isinstance(message, (AIMessage, ToolMessage) if tools else AIMessage)


def summary_ids(thread: Sequence[BaseMessage]) -> frozenset[str | None]:
    """The ids of LangChain's summaries in a thread."""
    marks = ((message.id, message.additional_kwargs.get(_SOURCE)) for message in thread)
    return frozenset(id_ for id_, mark in marks if mark == "summarization")


def remember_turn(
    memory: Memory,
    turn: Sequence[BaseMessage],
    call: CallContext,
    *,
    writer: BackgroundWriter | None,
    about: str = "user",
    before: Sequence[BaseMessage] = (),
    **options: Any,
) -> Plan[AddResult | None]:
    """Remember a turn with a message of a person, now or by a *writer*; what was said *before* helps to understand it."""
    # Where an assistant speaks and an agent is named, `add` takes the facts to be about the assistant.
    if about != "agent" and call.scope.agent_id is not None:
        turn = [message for message in turn if not isinstance(message, AIMessage)]
    if not human_messages(turn):
        return Plan.of(None)
    spoken = [message for message in before if is_human(message) or isinstance(message, AIMessage)]
    context = [message for message in spoken[-MOST_BEFORE:] if _is_context(message, call.scope)]
    options |= {"context": context, **call.options}
    if writer is not None:
        return Plan(partial(writer.add, turn, **options)).then(lambda _: None)
    return Plan.calling(memory.add, memory.aadd, turn, **options)


def _is_context(message: BaseMessage, scope: Scope) -> bool:
    """Whether `add` would take it as context: it belongs to this scope, and has text."""
    try:
        return bool(turns_before([message], scope=scope, time=datetime.now(UTC)))
    except InvalidInputError:
        return False


# ── which messages are remembered ─────────────────────────────────────────────────────────────────────────────────────

_COMMAND: Final = "00000000-0000-0000-0000-000000000000"  # LangGraph's name for the writes of a `Command`
_USER: Final = ("langgraph_auth_user_id", "user_id")  # where a checkpoint says who ran the graph


@dataclass(frozen=True, slots=True)
class ThreadNotes:
    """What is noted of the messages of a thread for one scope, by their ids, or digests where they have none."""

    thread: MessageThread
    digests: Mapping[str, str]  # of what people say in the thread, in order
    rows: Mapping[str, Any]  # of these, and of others that the caller names
    new: Collection[str]  # the caller's, not noted yet
    edited: Collection[str]
    blocked: Mapping[str, bool]  # never to be remembered for the caller; `True` where it is another user's

    @property
    def open_ids(self) -> list[str]:
        """Messages in the thread that are the caller's and not remembered, in order."""
        waiting = {name for name, row in self.rows.items() if row.digest is None}
        return [name for name in self.digests if name in {*waiting, *self.new, *self.edited} - {*self.blocked}]

    @property
    def hidden_ids(self) -> set[str]:
        """Messages that do not help to understand others: blocked, or remembered in another version."""
        other = {name for name, row in self.rows.items() if row.digest not in {None, self.digests.get(name)}}
        return (other | {*self.blocked}) - {*self.edited}

    def write(self, database: Database, *, is_shown: bool, ended: Collection[str] = ()) -> Plan[ThreadNotes]:
        """Note new messages, whether a model is shown the open ones, and which messages will never be remembered."""
        rows, first = self.rows, {**self.digests, **{name: row.given for name, row in self.rows.items()}}
        unseen = [name for name in self.open_ids if is_shown and name in rows and not rows[name].is_shown]
        notes: dict[str, sources.MessageNote] = {name: (first[name], None, True) for name in unseen}
        notes |= {name: (self.digests[name], None, is_shown) for name in (*self.new, *self.edited)}
        notes |= {name: (first[name], "", self.blocked.get(name, False)) for name in (*self.blocked, *ended)}
        if not notes:
            return Plan.of(self)
        work = partial(sources.note, thread=self.thread, notes=notes, expected=rows)
        return Plan.calling(database.write, database.awrite, work).then(lambda _: self)


def read_notes(
    read: Callable[..., Any],
    messages: Sequence[BaseMessage],
    thread: MessageThread,
    at: Literal["start", "within", "node"],
    *,
    newest: str | None = None,
    also: Collection[str] = (),
    messages_key: str = "messages",
) -> Plan[ThreadNotes]:
    """Read what is noted of a thread, and find out which other messages the caller brought.

    Within an agent's run (*newest* is the message that it began with), these came with a `Command`: others are of middleware.
    """
    # Contract: a message that entered the thread with a run of another user is not the caller's, however that run ended.
    # tests/adapters/test_owners.py::test_memory_never_takes_what_another_user_said
    contents = {message.id or thread.digest(message.content): message.content for message in human_messages(messages)}
    digests = {name: thread.digest(content) for name, content in contents.items()}
    last = next(reversed(contents), None)

    def rows_and_others(connection: Connection) -> tuple[dict[str, Any], dict[str, set[str]]]:
        rows = sources.messages_of(connection, thread, {*digests, *also})
        rest = {name: content for name, content in contents.items() if name not in rows}
        return rows, sources.of_other_users(connection, thread, rest, last)

    def classify() -> ThreadNotes:
        rows, others = read(rows_and_others)
        first = next((place for place, name in enumerate(digests) if name in rows or name in others), None)
        noted = rows.keys() | {name for name, kinds in others.items() if kinds != {"foreign"}}
        turn = latest_turn(list(messages))
        is_over = at != "node" and any(map(is_answer, turn))  # before: the agent goes on with a thread
        latest = [] if is_over else [*_digests(human_messages(turn), thread)]
        unnoted = latest if first is None else [name for name in [*digests][first:] if name not in noted]
        unseen = {name for name in rows if at == "start" and rows[name].digest is None and not rows[name].is_shown}
        unsure = {*unnoted, *unseen} - ({last} if at != "within" else set())
        origins = _origins(unsure, digests, newest or last, thread, messages_key, fails=at != "node")
        allowed = {"command"} if at == "within" else {"input", "command", "node"}
        new = [name for name in unnoted if origins.get(name, "input") in allowed]
        blocked = {name: True for name, kinds in others.items() if "refused" in kinds and "own" not in kinds}
        if at != "within":
            blocked |= {name: origins.get(name) != "failed" for name in unnoted if name not in new}
            blocked |= {name: False for name in unseen - {last} if origins.get(name, "failed") == "failed"}
        edited = [name for name in digests if name in rows and sources.is_edited(rows[name], digests[name])]
        edited = [name for name in edited if rows[name].digest or name == last]
        return ThreadNotes(thread, digests, rows, new, edited, blocked)

    return Plan(classify)


def find_summarized(
    messages: Sequence[BaseMessage], ids: Collection[str], seen_ids: Collection[str]
) -> tuple[list[BaseMessage], bool]:
    """The last versions of messages that a summary replaced in a thread, in order; and whether no more will be found.

    Of messages that no model has seen, another version than that before the summary may be one before a redaction.
    """
    left, versions, after, step = {*ids}, [*messages[:0]], messages, -1
    is_complete = ensure_config().get("configurable", {}).get(CONFIG_KEY_CHECKPOINTER) is None
    with suppress(NotImplementedError):
        for at, is_current in _checkpoints(seconds=1.0):
            before = _messages(at.checkpoint["channel_values"].get("messages"))
            is_complete, is_next = is_complete or is_current, at.metadata.get("step") == step - 1
            gone = [message for message in before if message.id in left - {message.id for message in after}]
            if summary_ids(after) - summary_ids(before):
                versions = [*(message for message in gone if is_next or message.id in seen_ids), *versions]
            left -= {message.id for message in before}
            if not left:
                break
            after, step = before, at.metadata.get("step", -1)
    return versions, is_complete


def _origins(
    names: Collection[str], texts: Mapping[str, str], last: str | None, within: MessageThread, key: str, *, fails: bool
) -> dict[str, str]:
    """How messages came into a thread: `"input"`, `"command"` or `"node"` of this run, else `"earlier"`.

    An earlier run that names the same user is as if this one. What it still contained when it failed is `"failed"`, if *fails*.
    """
    origins, left, failed, source, is_same, is_earlier = dict[str, str](), {*names}, set[str](), "", False, False
    if not names or ensure_config().get("configurable", {}).get(CONFIG_KEY_CHECKPOINTER) is None:
        return {}
    with suppress(NotImplementedError):  # the saver may have async methods alone
        for at, is_current in _checkpoints():
            present = _digests(_messages(at.checkpoint["channel_values"].get(key)), within)
            source = source or ("loop" if is_current or last in present else "input")
            writes, metadata = at.pending_writes or [], dict[str, Any](at.metadata)
            values = [value for task, channel, value in writes if task == _COMMAND and channel == key]
            updates = {within.digest(message.content) for value in values for message in _messages(value)}
            is_input = "input" in {source, metadata["source"]}  # the first step puts it into the state
            for name in (left & texts.keys()) - present.keys():
                came = "input" if is_input else "command" if source != "loop" or texts[name] in updates else "node"
                is_left = source == "input" and texts[name] in updates  # by a run that was given up
                is_own = not is_left and (not is_earlier or (is_same and came != "node" and name not in failed))
                origins[name] = came if is_own else "failed" if name in failed else "earlier"
            if source == "input":  # older messages were there before the run
                is_earlier, failed = True, set()
            if fails and any(channel == ERROR for _, channel, _ in writes):
                failed |= present.keys()
            is_same = within.scope.user_id in [metadata.get(name, "") for name in _USER]
            is_same = is_same and configured(metadata).items() <= within.scope.named.items()
            left, texts, source = left - origins.keys(), present, metadata["source"]
            if not left:
                return origins
        first = "earlier" if is_earlier else "command" if source else "input"
        return origins | {name: "failed" if is_earlier and name in failed else first for name in left}
    return {}


def _checkpoints(seconds: float = 0.0) -> Iterator[tuple[CheckpointTuple, bool]]:
    """The checkpoint at hand (`True`), for which it waits *seconds*, or the last one that is saved, and all before it."""
    call: Any = ensure_config().get("configurable", {})
    saver, path = call.get(CONFIG_KEY_CHECKPOINTER), str(call.get("checkpoint_ns", "")).split("|")
    lasting = "|".join(takewhile(lambda part: ":" not in part, path))  # a graph within a task begins anew each time
    place, current = {"thread_id": call.get("thread_id"), "checkpoint_ns": lasting}, call.get("checkpoint_map", {})
    here = {**place, "checkpoint_id": current.get(lasting)}
    until = time.monotonic() + seconds
    at = saver and saver.get_tuple({"configurable": here})
    while saver and here["checkpoint_id"] and at is None and time.monotonic() < until:
        time.sleep(0.02)  # LangGraph saves in the background, or at the end of the run
        at = saver.get_tuple({"configurable": here})
    at = saver and (at or saver.get_tuple({"configurable": place}))
    while at is not None:
        yield at, at.checkpoint["id"] == current.get(lasting)
        at = saver.get_tuple(at.parent_config) if at.parent_config else None


def _digests(messages: Sequence[BaseMessage], thread: MessageThread) -> dict[str, str]:
    return {message.id or thread.digest(message.content): thread.digest(message.content) for message in messages}


def _messages(values: Any) -> list[BaseMessage]:
    try:
        return parse_thread(values if isinstance(values, list) else [values])
    except InvalidInputError:  # it is no thread of messages
        return []
