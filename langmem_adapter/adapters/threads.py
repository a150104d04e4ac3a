"""What integrations share: scope of a call, latest turn of a thread, recall and remember.

A turn is what was said since the last answer, and the answers to it. A message of the model that calls a tool or has no text
answers nothing: what a failed or interrupted run left open belongs to the next turn. Only people and the model speak in it.
What a tool returned is not remembered, since anybody who can place a text there could otherwise plant a memory; unless the
setting `facts_from_tools` says so.

The database holds the notes (`storage.sources`): ids and digests, no text. Where several messages are not noted yet, the
graph's checkpoints tell which of them this run brought.
"""

from __future__ import annotations

import difflib
import logging
import re
import time
from collections.abc import Mapping
from contextlib import contextmanager, suppress
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
from pydantic import ValidationError

from langmem_adapter.arguments import relevance, tokens
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.memory.parts import parts_of
from langmem_adapter.names import named_speaker, with_speaker
from langmem_adapter.pipeline.messages import results_apart
from langmem_adapter.pipeline.parse import MOST_BEFORE, as_list, message_of, turns_before
from langmem_adapter.records.checks import quoted
from langmem_adapter.records.escapes import DATA_ONLY, escape
from langmem_adapter.scoping import configured, resolve_scope
from langmem_adapter.search.passages import fit_hits
from langmem_adapter.storage import sources
from langmem_adapter.text import text_hash
from langmem_adapter.twins import Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from langchain_core.messages import MessageLikeRepresentation
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple
    from sqlalchemy import Connection

    from langmem_adapter.conversation.summaries import CountTokens
    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.pipeline.background import BackgroundWriter
    from langmem_adapter.records.results import AddResult, Hit, Threshold
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.database import Database
    from langmem_adapter.storage.sources import MessageThread

R = TypeVar("R")

_log = logging.getLogger("langmem_adapter")

OnError: TypeAlias = Literal["raise", "log"]
"""What happens when memory fails: `"raise"` fails the call as well, `"log"` goes on without memory."""


@contextmanager
def making(guest: str, memory: object) -> Iterator[None]:
    """Make a guest of a memory that is one of LangChain's pydantic models: what it says of a field becomes our error."""
    parts_of(memory, guest)
    try:
        yield
    except ValidationError as error:
        told = "; ".join(f"{part['loc'][0]}: {part['msg']}" for part in error.errors())
        raise InvalidInputError(f"{guest} cannot be made; {told}") from None


def only(
    given: Mapping[str, Any],
    known: tuple[str, ...],
    where: str,
    elsewhere: Mapping[str, str] | None = None,
    otherwise: str | None = None,
) -> None:
    """Refuse the first key of a part of a configuration that is not known.

    The error says what to do instead: what *elsewhere* has for certain keys, and for the rest *otherwise*, by default to take a
    known key.
    """
    for key in (key if isinstance(key, str) else quoted(key) for key in given if key not in known):
        near = difflib.get_close_matches(key, known, n=1)
        guess = f"did you mean {near[0]!r}?" if near else otherwise or f"known are {', '.join(known)}"
        raise InvalidInputError(f"{where} has no {key!r} here: {(elsewhere or {}).get(key, guess)}")


def scope_of_call(default: object, config: RunnableConfig | None = None, *, explicit: object = None) -> Scope:
    """The scope that a call works with, anywhere in LangChain or LangGraph: see `resolve_scope`.

    *default* comes from the integration's constructor; *config*, of the call, completes that of the run around it.
    """
    return resolve_scope(explicit=explicit, runtime=_runtime(), config=ensure_config(config), default=default)


def timezone_of_call(config: RunnableConfig | None = None, default: str | None = None) -> dict[str, Any]:
    """The `timezone` of the runtime's context, else of `configurable`, else *default*, as an argument of `Memory`."""
    context = getattr(_runtime(), "context", None)
    named = context.get("timezone") if isinstance(context, Mapping) else getattr(context, "timezone", None)
    zones = (named, ensure_config(config).get("configurable", {}).get("timezone"), default)
    return next(({"timezone": zone} for zone in zones if zone is not None), {})


def thread_of_call() -> str | None:
    """The id of the thread that a call works in; `None` where it has none."""
    thread_id = ensure_config().get("configurable", {}).get("thread_id")
    return None if thread_id in {None, ""} else str(thread_id)


def forgiving(plan: Plan[R], otherwise: R, *, on_error: OnError, doing: str) -> Plan[R]:
    """A plan that, with `on_error="log"`, gives *otherwise* where it fails, and says so in the log, with what it was *doing*.

    LangGraph's `GraphBubbleUp` is no failure: the graph pauses.
    """

    def instead(error: Exception) -> Plan[R] | None:
        if isinstance(error, GraphBubbleUp):
            return None
        _log.error("memory failed to %s; the call goes on without", doing, exc_info=error)
        return Plan.known(otherwise)

    return plan if on_error == "raise" else plan.or_else(instead)


def part_of_state(state: Any, key: str, argument: str) -> Any:
    """What a graph's state, a mapping or an object with attributes, holds under a key; *argument* is what says another one."""
    try:
        return state[key] if isinstance(state, Mapping) else getattr(state, key)
    except (KeyError, AttributeError):
        raise InvalidInputError(
            f"the graph's state has no {quoted(key)}; name another part of it with {argument}=..."
        ) from None


def _runtime() -> object:
    try:
        return get_runtime()
    except (RuntimeError, KeyError):  # no graph is running
        return None


_SENTENCE: Final = re.compile(r"(?<=[.!?。！？])\s*|\n")
_SOURCE: Final = "lc_source"  # LangChain's mark on what a program writes in a person's name: summaries, skills, notices


def latest_turn(messages: str | Sequence[MessageLikeRepresentation]) -> list[BaseMessage]:
    """The latest turn of a thread: what people said since the last answer before it, and the answers to that.

    The thread is given as `Memory.add` takes messages; of the turn those with something in them are given back, in order.

    Example:
        >>> thread = [("human", "Hi"), ("ai", "Hello!"), ("human", "I like tea."), ("ai", "Noted.")]
        >>> [message.text for message in latest_turn(thread)]
        ['I like tea.', 'Noted.']
    """
    return split_latest_turn(messages)[1]


def split_latest_turn(
    messages: str | Sequence[MessageLikeRepresentation], *, tools: bool = False
) -> tuple[list[BaseMessage], list[BaseMessage]]:
    """What was said in a thread before its latest turn, and the turn, with what the *tools* returned; see `latest_turn`."""
    return _split(messages_in(messages), tools=tools)


def _split(thread: Sequence[BaseMessage], *, tools: bool = False) -> tuple[list[BaseMessage], list[BaseMessage]]:
    spoken = [message for message in thread if _is_said(message) or _is_spoken(message, tools=tools)]
    last = max((place for place, message in enumerate(spoken) if _is_said(message)), default=len(spoken))
    first = last
    while first > 0 and not is_answer(spoken[first - 1]):
        first -= 1
    while first < last and not _is_said(spoken[first]):
        first += 1
    return spoken[:first], [message for message in spoken[first:] if _is_said(message) or message.text.strip()]


def messages_in(messages: str | Sequence[MessageLikeRepresentation]) -> list[BaseMessage]:
    """The messages of a thread that is given as `Memory.add` takes them, as LangChain's."""
    nothing = isinstance(messages, list | tuple) and not messages
    numbered = enumerate([] if nothing else as_list(messages), start=1)
    return [part for number, each in numbered for part in results_apart(message_of(each, number), number)]


def turn_of(
    thread: Sequence[BaseMessage], ids: Collection[str], *, tools: bool = False, digest: Callable[[object], str] = str
) -> tuple[list[BaseMessage], list[BaseMessage]]:
    """What was said in a thread before the first of some messages of people, and these, with the answers from there on.

    The *digest* of what it says stands for the id of a message of the latest turn that has none.
    """
    latest = {id(message) for message in _split(thread)[1]}
    known = [each.id or (digest(each.content) if id(each) in latest else None) for each in thread]
    chosen = [_is_said(each) and name in ids for each, name in zip(thread, known, strict=True)]
    first = chosen.index(True) if any(chosen) else len(thread)
    latter = [*zip(thread, chosen, strict=True)][first:]
    turn = [part for part, own in latter if own or (_is_spoken(part, tools=tools) and part.text.strip())]
    return list(thread[:first]), turn


def human_messages(turn: Sequence[BaseMessage]) -> list[BaseMessage]:
    """What people said in a turn."""
    return [message for message in turn if _is_said(message)]


def is_answer(message: BaseMessage) -> bool:
    """Whether a message answers what was said before it: the model says something, and calls no tool."""
    return isinstance(message, AIMessage) and bool(message.text.strip()) and not message.tool_calls


def summaries(thread: Sequence[BaseMessage]) -> frozenset[str | None]:
    """The ids of the summaries that stand in a thread for what was removed."""
    marks = ((message.id, message.additional_kwargs.get(_SOURCE)) for message in thread)
    return frozenset(id_ for id_, mark in marks if mark == "summarization")


def _listing(
    max_tokens: int | None, count_tokens: CountTokens, introduction: str
) -> Callable[[Sequence[Hit], str], str]:
    """How hits, best first, and the question become a list for a prompt, see `search.passages.fit_hits`.

    It has a line `- …` for each hit (`- Nate: …` for a named speaker) below the *introduction*, and is empty without hits.
    """
    most = tokens(max_tokens)

    def count(text: str) -> int:
        return count_tokens([HumanMessage(text)])

    def shown(lines: Sequence[str]) -> str:
        return "\n".join([introduction, *lines] if introduction and lines else lines)

    def listed(hits: Sequence[Hit], question: str) -> str:
        if most is None or not hits:
            return shown([*map(_line, hits)])
        frame = 2 * count("- a") - count("- a\n- a")  # what a message has around its lines
        room = most - count(shown(["- a"])) + count("- a") - frame
        kept = [*map(_line, fit_hits(hits, question, room, cost=lambda line: count(line) - frame, line=_line))]
        while kept and count(shown(kept)) > most:  # lines together may have more than one by one
            kept.pop()
        return shown(kept)

    return listed


def _line(hit: Hit) -> str:
    return f"- {format_hit(hit)}"


def format_hit(hit: Hit) -> str:
    """A memory on one line with its day, so that it cannot pass for the prompt around it: "Ben: Likes tea (2026-05-01)".

    Words that were kept as the user said them are a quotation: `user, 2026-05-01: "I have an exam tomorrow"`.
    """
    item = hit.item
    day = f"{item.updated_at:%Y-%m-%d}"
    if item.is_verbatim:
        speaker = named_speaker(item.actor_id, item.role, item.scope) or item.role or "user"
        quotation = hit.passage.replace('"', "'")
        return escape(" ".join(f'{speaker}, {day}: "{quotation}"'.split()))
    return escape(" ".join(f"{with_speaker(hit.passage, item.actor_id, item.role, item.scope)} ({day})".split()))


def _not_in(thread: Sequence[BaseMessage], hits: Sequence[Hit]) -> list[Hit]:
    """The hits that a thread does not show already: its messages, and words that were kept of them sentence by sentence."""
    hashes = {text_hash(message.text) for message in thread}
    words = "\n".join(" ".join(message.text.split()) for message in thread)

    def is_shown(hit: Hit) -> bool:
        sentences = (" ".join(each.split()) for each in _SENTENCE.split(hit.text))
        return hit.item.hash in hashes or (hit.is_verbatim and all(each in words for each in sentences))

    return [hit for hit in hits if not is_shown(hit)]


def looking_up(
    memory: Memory,
    *,
    threshold: Threshold,
    max_tokens: int | None,
    count_tokens: CountTokens,
    introduction: str = DATA_ONLY,
    **how: Any,
) -> Callable[..., Plan[str]]:
    """How what bears on what people said in a turn is found and listed; nothing where they sent pictures only.

    What the *thread* shows already is left out.
    """
    shown, least = _listing(max_tokens, count_tokens, introduction), relevance(threshold)

    def look(
        turn: Sequence[BaseMessage],
        scope: Scope,
        config: RunnableConfig | None = None,
        *,
        thread: Sequence[BaseMessage] = (),
    ) -> Plan[str]:
        question = "\n".join(message.text for message in human_messages(turn)).strip()
        given: dict[str, Any] = {**how, "threshold": least, "max_tokens": max_tokens, **scope.named}
        given |= timezone_of_call(config, how.get("timezone"))
        if not question:
            return Plan(str)
        found = Plan.calling(memory.search, memory.asearch, question, **given)
        return found.then(lambda hits: shown(_not_in(thread, hits), question))

    return look


def remember_turn(
    memory: Memory,
    turn: Sequence[BaseMessage],
    scope: Scope,
    *,
    writer: BackgroundWriter | None,
    about: str = "user",
    before: Sequence[BaseMessage] = (),
    **options: Any,
) -> Plan[AddResult | None]:
    """Remember a turn, as `latest_turn` gives it; one in which nobody asked anything is not remembered.

    A *writer* does it later, so that there is no result yet. *about* says whose facts: `"user"`, or `"agent"`. What people
    and the model said *before* in the thread helps to understand the turn. The *options* are of `Memory.add`: with a
    `thread_id` each message is remembered once.
    """
    # Where an assistant speaks and an agent is named, `add` takes the facts to be about the assistant.
    answered = about == "agent" or scope.agent_id is None
    said = turn if answered else [message for message in turn if not isinstance(message, AIMessage)]
    if not human_messages(turn):
        return Plan(lambda: None)
    given: dict[str, Any] = {"context": _of(scope, before), **timezone_of_call(), **options, **scope.named}
    if writer is not None:
        return Plan(partial(writer.add, said, **given)).then(lambda _: None)
    return Plan.calling(memory.add, memory.aadd, said, **given)


def _of(scope: Scope, before: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The latest of what was said earlier, without what `add` would refuse a turn for: it is somebody else's, or no text."""
    spoken = [message for message in before if _is_said(message) or isinstance(message, AIMessage)]
    return [message for message in spoken[-MOST_BEFORE:] if _helps(message, scope)]


def _helps(message: BaseMessage, scope: Scope) -> bool:
    try:
        return bool(turns_before([message], scope=scope, time=datetime.now(UTC)))
    except InvalidInputError:
        return False


def _is_spoken(message: BaseMessage, *, tools: bool) -> bool:
    return isinstance(message, (AIMessage, ToolMessage) if tools else AIMessage)


def _is_said(message: BaseMessage) -> bool:
    return isinstance(message, HumanMessage) and _SOURCE not in message.additional_kwargs


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
