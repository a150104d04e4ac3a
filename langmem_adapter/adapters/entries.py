"""Which messages of a thread belong to the caller: each is noted when it enters, for the scope whose run brought it.

The database holds the notes (`storage.sources`): ids and digests, no text. Where several messages are not noted yet, the
graph's checkpoints tell which of them this run brought.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, Literal

from langchain_core.runnables.config import ensure_config
from langgraph.checkpoint.serde.types import ERROR
from langgraph.constants import CONFIG_KEY_CHECKPOINTER

from langmem_adapter.adapters.threads import human_messages, is_answer, latest_turn, messages_in, summaries
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.scoping import configured
from langmem_adapter.storage import sources
from langmem_adapter.twins import Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from langchain_core.messages import BaseMessage
    from langgraph.checkpoint.base import CheckpointTuple
    from sqlalchemy import Connection

    from langmem_adapter.storage.database import Database
    from langmem_adapter.storage.sources import MessageThread

__all__ = ["Entries", "read_entries", "replaced_by_summary"]

_COMMAND: Final = "00000000-0000-0000-0000-000000000000"  # LangGraph's name for the writes of a `Command`
_USER: Final = ("langgraph_auth_user_id", "user_id")  # where a checkpoint says who ran the graph


@dataclass(frozen=True, slots=True)
class Entries:
    """What is noted of the messages of a thread for one scope, by their ids, or what they say where they have none."""

    thread: MessageThread
    digests: Mapping[str, str]  # of what people say in the thread, in order
    rows: Mapping[str, Any]  # of these, and of others that the caller names
    new: Collection[str]  # the caller's, not noted yet
    edited: Collection[str]
    blocked: Mapping[str, bool]  # never to be remembered for the caller; `True` where it is not theirs

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

    def write(self, database: Database, *, is_shown: bool, ended: Collection[str] = ()) -> Plan[Entries]:
        """Note what is new, that all open ones were shown to a model, and which messages will never be remembered."""
        rows, first = self.rows, {**self.digests, **{name: row.given for name, row in self.rows.items()}}
        unseen = [name for name in self.open_ids if is_shown and name in rows and not rows[name].is_shown]
        notes: dict[str, sources.MessageNote] = {name: (first[name], None, True) for name in unseen}
        notes |= {name: (self.digests[name], None, is_shown) for name in (*self.new, *self.edited)}
        notes |= {name: (first[name], "", self.blocked.get(name, False)) for name in (*self.blocked, *ended)}
        work = partial(sources.note, thread=self.thread, notes=notes, expected=rows)
        written = Plan.calling(database.write, database.awrite, work) if notes else Plan.known(None)
        return written.then(lambda _: self)


def read_entries(
    read: Callable[..., Any],
    messages: Sequence[BaseMessage],
    thread: MessageThread,
    at: Literal["start", "within", "node"],
    *,
    newest: str | None = None,
    also: Collection[str] = (),
    messages_key: str = "messages",
) -> Plan[Entries]:
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

    def find() -> Entries:
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
        return Entries(thread, digests, rows, new, edited, blocked)

    return Plan(find)


def replaced_by_summary(
    messages: Sequence[BaseMessage], ids: Collection[str], shown_ids: Collection[str]
) -> tuple[list[BaseMessage], bool]:
    """The last versions of messages that a summary replaced in a thread, in order; and whether no more will be known.

    Of messages that no model was shown, another version than that before the summary may be one before a redaction.
    """
    left, versions, after, step = {*ids}, [*messages[:0]], messages, -1
    is_complete = ensure_config().get("configurable", {}).get(CONFIG_KEY_CHECKPOINTER) is None
    with suppress(NotImplementedError):
        for at, is_current in _checkpoints(seconds=1.0):
            before = _messages(at.checkpoint["channel_values"].get("messages"))
            is_complete, is_next = is_complete or is_current, at.metadata.get("step") == step - 1
            gone = [message for message in before if message.id in left - {message.id for message in after}]
            if summaries(after) - summaries(before):
                versions = [*(message for message in gone if is_next or message.id in shown_ids), *versions]
            left -= {message.id for message in before}
            if not left:
                break
            after, step = before, at.metadata.get("step", -1)
    return versions, is_complete


def _origins(
    names: Collection[str], texts: Mapping[str, str], last: str | None, within: MessageThread, key: str, *, fails: bool
) -> dict[str, str]:
    """How messages came into a thread: `"input"`, `"command"` or `"node"` of this run, else `"earlier"`.

    An earlier run that names the same user is as if this one. What it still held when it failed is `"failed"`, if *fails*.
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
            if source == "input":  # what is older stood there before the run
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
        return messages_in(values if isinstance(values, list) else [values])
    except InvalidInputError:  # it is no thread of messages
        return []
