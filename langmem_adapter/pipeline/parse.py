"""Parse: any input becomes turns.

Roles, speakers, times and texts are told apart here and nowhere else. What a turn cannot carry (an image that nobody
described, an empty message) is said in its notes, never silently lost.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import BaseMessage, BaseMessageChunk, convert_to_messages, message_chunk_to_message

from langmem_adapter.arguments import Longest, filled, local_time
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.pipeline.messages import (
    address,
    chat_message,
    image_parts,
    is_image,
    is_tool_call,
    results_apart,
    tool_calls_of,
    unwrap,
)
from langmem_adapter.pipeline.state import Ask, StateEdit, begun, finished, thinking
from langmem_adapter.records.checks import check_metadata, check_text, plain_content, quoted, zone_of
from langmem_adapter.records.results import PROCEDURAL, Turn, Usage, take_fitting_texts
from langmem_adapter.records.scope import Scope
from langmem_adapter.scoping import check_owner

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from langmem_adapter.pipeline.state import PipelineState, Planner
    from langmem_adapter.reasoning.base import Describer, Wording

_ROLES: Final = {
    "human": "user",
    "user": "user",
    "ai": "assistant",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}
_TIME_KEYS: Final = ("timestamp", "created_at", "create_time")  # the last: of exports of ChatGPT
_TIMES: Final = ("timestamp", "expires_at")
OF_ITEM: Final = ("messages", "context", "metadata", "timestamp", "timezone", "expires_at")
MOST_BEFORE: Final = 20
"""Earlier turns that help to understand a conversation."""
_TOKENS_BEFORE: Final = 1_000  # of all of them
_TOKENS_OF_ONE: Final = 250  # so that one long answer does not hide what was said before it


def parse_stage(describer: Describer | None, longest: Longest) -> Planner:
    """The first stage: `messages` (or `items`) to `turns`; those of `Memory.add` were read before it began.

    Without a *describer*, which is called once for each image, images are left to the notes.
    """
    return thinking(partial(_parse, describer, longest))


class ParsedConversation(dict[str, Any]):
    """One conversation of a run as it was given (`OF_ITEM`), which traces and streams show, and beside it what was read of it.

    A caller that loses the rest on the way reads it once more. It holds no scope: a run asks its own.
    """

    __slots__ = ("before", "seconds", "thread", "turns")

    def __init__(
        self, given: Mapping[str, Any], before: Sequence[Turn], turns: Sequence[Turn], seconds: float = 0.0
    ) -> None:
        super().__init__(given)
        self.before, self.turns, self.seconds = before, turns, seconds
        self.thread: Mapping[str, Any] = {}  # more of `Task`: its thread, where it has one


def conversation_of(
    given: Mapping[str, Any],
    *,
    scope: Scope,
    longest: Longest,
    verbatim: bool,
    descriptions: Mapping[str, str] | None = None,
) -> ParsedConversation:
    """Read a conversation: the one place where its messages become turns.

    Args:
        given: Its `messages` and, where wanted, the rest of `OF_ITEM`.
        scope: Of the memories.
        longest: How long messages may be, and their time zone where nothing else names one.
        verbatim: Whether they are kept as they are.
        descriptions: Words for images, by their address.

    Raises:
        InvalidInputError: Something cannot be used; the message says what.
    """
    began, kept = perf_counter(), {name: given.get(name) for name in OF_ITEM}
    if kept["metadata"] is not None:
        kept["metadata"] = check_metadata(kept["metadata"])
    zone = zone_of(kept["timezone"], longest.timezone)
    times = {name: local_time(kept[name], name, zone) for name in _TIMES if kept[name] is not None}
    time = times.get("timestamp") or datetime.now(UTC).astimezone(zone)
    kept |= {name: moment.isoformat() for name, moment in times.items()}
    turns = turns_of(
        kept["messages"],
        scope=scope,
        time=time,
        zone=zone,
        longest=longest,
        verbatim=verbatim,
        descriptions=descriptions,
    )
    before = turns_before(kept["context"], scope=scope, time=time, zone=zone, verbatim=verbatim)
    turns = [replace(turn, dated=True) for turn in turns] if "timestamp" in times else turns
    return ParsedConversation(kept, before, turns, perf_counter() - began)


def _numbered(turns: Iterable[Sequence[Turn]]) -> list[dict[str, Any]]:
    return [{**turn.to_json(), "item": number} for number, own in enumerate(turns) for turn in own]


def turns_of(  # noqa: PLR0913 - each is a knob of its own
    messages: object,
    *,
    scope: Scope,
    time: datetime,
    zone: tzinfo | None = UTC,
    longest: Longest | None = None,
    verbatim: bool = False,
    may_be_empty: bool = False,
    descriptions: Mapping[str, str] | None = None,
) -> list[Turn]:
    """Turns of one conversation; see `conversation_of`.

    Args:
        messages: A `str`, a dict, a LangChain message, or a sequence of these.
        scope: Of the memories; a message that names its owner itself must name this one.
        time: The time of messages that carry none of their own (keys `timestamp`, `created_at` or `create_time`).
        zone: Of times without an offset; `None` is the system's.
        longest: How long they may be; default as the settings' defaults say.
        verbatim: Whether each becomes a memory as it is, but for system messages.
        may_be_empty: Whether it is a part of a conversation, in which others may say something.
        descriptions: Words for images, by their address.
    """
    longest = longest or Longest()
    numbered = list(_turns(messages, scope, time, zone, descriptions or {}))
    for number, turn in numbered:
        check = longest.check_text if verbatim and turn.role != "system" else longest.check_message
        check(turn.text, f"message {number}")
        if turn.calls:
            called = "".join(call.name + call.arguments for call in turn.calls)
            longest.check_message(turn.text + called, f"message {number}, with its tool calls,")
    if not may_be_empty and all(turn.notes == (_no_text(number),) for number, turn in numbered):
        raise InvalidInputError("there is nothing to remember: every message is empty")
    return [turn for _, turn in numbered]


def turns_before(
    context: object, *, scope: Scope, time: datetime, zone: tzinfo | None = UTC, verbatim: bool = False
) -> list[Turn]:
    """The turns before a conversation: at most 20, of about 1,000 tokens, of which one may have 250; the latest of them."""
    if context is None or (isinstance(context, list | tuple) and not context):
        return []
    if verbatim:
        raise InvalidInputError(
            "context helps to find facts, and infer=False keeps messages as they are; leave one out"
        )
    try:
        turns = [turn for _, turn in _turns(context, scope, time, zone, {})]
    except InvalidInputError as error:
        raise InvalidInputError(f"in context, {error}") from None
    latest = [turn for turn in turns if turn.text and turn.role != "system"][: -MOST_BEFORE - 1 : -1]
    texts = take_fitting_texts((turn.text for turn in latest), each=_TOKENS_OF_ONE, most=_TOKENS_BEFORE)
    plain = [replace(turn, text=text, notes=(), calls=()) for turn, text in zip(latest, texts, strict=False)]
    return plain[::-1]


def _turns(
    messages: object, scope: Scope, time: datetime, zone: tzinfo | None, descriptions: Mapping[str, str]
) -> Iterator[tuple[int, Turn]]:
    """Each turn with the number of its message."""
    for number, message in enumerate(as_list(messages), start=1):
        if isinstance(message, str):  # of the user; quicker than a message of LangChain
            text = check_text(message, f"message {number}").strip()
            yield number, Turn("user", text, "user", time, notes=() if text else (_no_text(number),))
            continue
        converted = message_of(message, number)
        check_owner(converted, scope, f"message {number}")
        for part in results_apart(converted, number):
            yield number, _turn(unwrap(message), part, number, time, zone, descriptions)


def _parse(describer: Describer | None, longest: Longest, state: PipelineState) -> StateEdit | Ask:
    items = _items(state)
    state = {**state, "work": begun(sum(item.seconds for item in items if isinstance(item, ParsedConversation)))}
    looked_at = () if describer is None else items
    images = {url: part for item in looked_at for url, part in image_parts(item.get("messages")).items()}
    if describer is None or not images:
        return _parsed(longest, state, items, [], [])
    unread = [dict(item) for item in items]  # with words for its images, a conversation says more
    return Ask(describer.describe, list(images.values()), partial(_parsed, longest, state, unread, list(images)))


def _parsed(
    longest: Longest,
    state: PipelineState,
    items: list[dict[str, Any]],
    urls: list[str],
    described: list[Wording],
) -> StateEdit:
    scope = Scope(**state.get("scope", {}))
    how: dict[str, Any] = {"scope": scope.named, "key": key_of(state.get("key")), "infer": state.get("infer", True)}
    how |= {"memory_type": state.get("memory_type"), "prompt": state.get("prompt")}
    for given in state.get("items") or ():  # images are described in copies, which have no thread
        how |= given.thread if isinstance(given, ParsedConversation) else {}
    for number, item in enumerate(items, start=1):
        check_owner(item, scope, f"item {number}")
    words = {url: description.text for url, description in zip(urls, described, strict=True)}
    verbatim = is_verbatim(how["infer"], how["memory_type"])
    read = partial(conversation_of, scope=scope, longest=longest, verbatim=verbatim, descriptions=words)
    told = [item if isinstance(item, ParsedConversation) else read(item) for item in items]
    turns = _numbered(each.turns for each in told)
    usage = sum((description.usage for description in described), Usage())
    return {
        "task": {**how, "items": [{name: each[name] for name in ("metadata", "expires_at")} for each in told]},
        "turns": turns,
        "before": _numbered(each.before for each in told),
        # What an earlier run of the same thread left behind.
        "facts": [],
        "candidates": {},
        "decisions": [],
        "result": {},
        **finished(state, "parse", {"usage": usage.to_json()}, turns=len(turns)),
    }


def key_of(named: object, what: str = "key") -> str:
    """What names an add: the name given, else a new one; *what* it is called in the error."""
    return str(uuid.uuid4()) if named is None else filled(named, what)


def _items(state: PipelineState) -> list[dict[str, Any]]:
    items = state.get("items")
    if not items:
        return [{name: state.get(name) for name in OF_ITEM}]
    if state.get("messages") is not None or state.get("context") is not None:
        raise InvalidInputError("give the graph messages or items, not both; the context of an item stands in it")
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        raise InvalidInputError(f"items must be a list of dicts, each with its messages, not {quoted(items)}")
    return items


def is_verbatim(infer: bool, memory_type: str | None) -> bool:  # noqa: FBT001 - as it stands in the state
    """Whether an add keeps messages as they are: neither facts of them, nor a record."""
    return not infer and memory_type != PROCEDURAL


def as_list(messages: object) -> Sequence[object]:
    """The messages of a conversation, in whichever way it was given."""
    is_pair = isinstance(messages, tuple) and len(messages) == 2 and messages[0] in tuple(_ROLES)  # noqa: PLR2004 - role, text
    if is_pair or isinstance(messages, str | Mapping | BaseMessage):
        return [messages]
    if isinstance(messages, Sequence) and not isinstance(messages, bytes | bytearray):
        if not messages:
            raise InvalidInputError("there is nothing to remember: the list of messages is empty")
        return messages
    raise InvalidInputError(f"messages must be a str, a message or a list of messages, not {type(messages).__name__}")


def _turn(
    message: object,
    converted: BaseMessage,
    number: int,
    time: datetime,
    zone: tzinfo | None,
    descriptions: Mapping[str, str],
) -> Turn:
    role = _role(converted, number)
    calls = tool_calls_of(message, converted, number) if role == "assistant" else ()
    text, unread = _text(converted, number, descriptions, calling=bool(calls))
    own = next(filter(lambda time: time is not None, map(converted.additional_kwargs.get, _TIME_KEYS)), None)
    return Turn(
        role=role,
        text=check_text(text, f"message {number}").strip(),
        actor=check_text(converted.name or role, f"the name in message {number}"),
        time=time if own is None else local_time(own, f"the time of message {number}", zone),
        notes=unread or (() if text.strip() or calls else (_no_text(number),)),
        calls=calls,
        answers=check_text(getattr(converted, "tool_call_id", None) or "", f"the tool_call_id of message {number}"),
        failed=getattr(converted, "status", None) == "error",
        dated=own is not None,
        id=check_text(converted.id or "", f"the id of message {number}"),
    )


def _no_text(number: int) -> str:
    return f"message {number} has no text"


def message_of(message: object, number: int) -> BaseMessage:
    """One message of a conversation, in whichever way it was given, as LangChain's; *number* is its place, for the error."""
    if isinstance(message, Mapping):
        message = chat_message(unwrap(message), number)
    elif isinstance(message, tuple | list) and len(message) == 2:  # noqa: PLR2004 - role and text
        message = chat_message(dict(zip(("role", "content"), message, strict=True)), number)
    elif not isinstance(message, str | BaseMessage | tuple | list):
        raise InvalidInputError(
            f"message {number} is a {type(message).__name__}; give a str, a dict or a LangChain message"
        )
    try:
        converted = convert_to_messages([message])[0]
        converted = message_chunk_to_message(converted) if isinstance(converted, BaseMessageChunk) else converted
    except (ValueError, TypeError, NotImplementedError, LookupError, AttributeError) as error:
        raise InvalidInputError(f"message {number} cannot be read: {error}") from None
    _check_fields(converted, number)
    return _plain(converted)


def _plain(message: BaseMessage) -> BaseMessage:
    """The same message with every part that holds text as LangChain's text, and the transcript of audio as its content."""
    audio, content = message.additional_kwargs.get("audio"), plain_content(message.content)
    if not content and isinstance(audio, Mapping) and isinstance(audio.get("transcript"), str):
        content = audio["transcript"]
    return message if content is message.content else message.model_copy(update={"content": content})


def _check_fields(message: BaseMessage, number: int) -> None:
    # LangChain checks them when a message is made, not when they are set.
    parts = [message.content] if isinstance(message.content, str) else message.content
    if not isinstance(parts, list) or not all(isinstance(part, str | Mapping) for part in parts):
        raise InvalidInputError(f"the content of message {number} is a text or a list of texts and dicts")
    if not isinstance(message.additional_kwargs, Mapping):
        raise InvalidInputError(
            f"the additional_kwargs of message {number} are a dict, not {quoted(message.additional_kwargs)}"
        )


def _role(message: BaseMessage, number: int) -> str:
    kind = message.type if message.type != "chat" else getattr(message, "role", "")
    if not isinstance(kind, str) or kind.lower() not in _ROLES:
        raise InvalidInputError(
            f"message {number} has the role {quoted(kind)}; known are user, assistant, system, tool"
        )
    return _ROLES[kind.lower()]


def _text(
    message: BaseMessage, number: int, descriptions: Mapping[str, str], *, calling: bool
) -> tuple[str, tuple[str, ...]]:
    if isinstance(message.content, str):
        return message.content, ()
    texts: list[str] = []
    notes: list[str] = []
    for part in message.content:
        if isinstance(part, str):
            texts.append(part)
        elif part.get("type") == "text":
            texts.append(check_text(part.get("text") or "", f"a text part of message {number}"))
        elif is_image(part) and (words := descriptions.get(address(part) or "")) is not None:
            texts += [f"[image: {words}]"] if words else []
            notes += (
                [] if words else [f"an image in message {number} was not looked at; the chat model takes no images"]
            )
        elif not (calling and is_tool_call(part)):
            notes.append(_unread(part, number))
    return "\n".join(texts), tuple(notes)


def _unread(part: Mapping[str, Any], number: int) -> str:
    if is_image(part):
        return f"an image in message {number} was not looked at; Memory(vision=True) describes images"
    return f"a part of type {quoted(part.get('type', next(iter(part), None)))} in message {number} was not read"
