"""Parse: any input becomes turns.

Roles, speakers, times and texts are told apart here and nowhere else. What a turn cannot carry (an image that nobody
described, an empty message) is said in its notes, never silently lost.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import BaseMessage, BaseMessageChunk, convert_to_messages, message_chunk_to_message

from langmem_adapter.arguments import Longest, filled, parse_time
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.pipeline.clock import begun, finished
from langmem_adapter.pipeline.images import address, image_parts, is_image, parts_of
from langmem_adapter.pipeline.stage import Ask, AskingStage, Update
from langmem_adapter.pipeline.tool_calls import is_tool_call, results_apart, tool_calls_of
from langmem_adapter.records.checks import check_metadata, check_text, quoted
from langmem_adapter.records.cost import Usage, fitting
from langmem_adapter.records.scope import Scope
from langmem_adapter.records.work import PROCEDURAL, Turn
from langmem_adapter.scoping import check_owner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langmem_adapter.pipeline.state import PipelineState, Task
    from langmem_adapter.reasoning.base import Describer, Wording

__all__ = [
    "MOST_BEFORE",
    "OF_ITEM",
    "as_list",
    "is_verbatim",
    "key_of",
    "message_of",
    "parse_stage",
    "turns_before",
    "turns_of",
]

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
_TEXT_PARTS: Final = ("text", "input_text", "output_text")  # compared, never hashed: a type may be anything
_TIME_KEYS: Final = ("timestamp", "created_at")
OF_ITEM: Final = ("messages", "context", "metadata", "timestamp", "expires_at")
MOST_BEFORE: Final = 20
"""Earlier turns that help to understand a conversation."""
_TOKENS_BEFORE: Final = 1_000  # of all of them
_TOKENS_OF_ONE: Final = 250  # so that one long answer does not hide what was said before it


def parse_stage(describer: Describer | None, longest: Longest) -> AskingStage:
    """The first stage: `messages` (or `items`) to `turns`.

    Args:
        describer: Puts images into words, one call each; `None` leaves them to the notes.
        longest: How long messages may be.
    """
    return AskingStage(partial(_parse, describer, longest))


def turns_of(
    messages: object,
    *,
    scope: Scope,
    time: datetime,
    longest: Longest | None = None,
    verbatim: bool = False,
    item: int = 0,
    descriptions: Mapping[str, str] | None = None,
) -> list[Turn]:
    """Turns of one conversation.

    Args:
        messages: A `str`, a dict, a LangChain message, or a sequence of these.
        scope: Whose memories; a message that names its owner itself must name this one.
        time: When it was said, for messages that carry no time of their own (keys `timestamp` or `created_at`).
        longest: How long they may be; default as the settings' defaults say.
        verbatim: Whether each becomes a memory as it is, but for system messages.
        item: Number of the conversation within the run.
        descriptions: Words for images, by their address.

    Raises:
        InvalidInputError: It is empty, too long, holds something that is no message, or is somebody else's; the text says
            which.
    """
    longest = longest or Longest()
    numbered = list(_turns(messages, scope, time, item, descriptions or {}))
    for number, turn in numbered:
        check = longest.check_text if verbatim and turn.role != "system" else longest.check_message
        check(turn.text, f"message {number}")
        if turn.calls:
            called = "".join(call.name + call.arguments for call in turn.calls)
            longest.check_message(turn.text + called, f"message {number}, with its tool calls,")
    if all(turn.notes == (_no_text(number),) for number, turn in numbered):
        raise InvalidInputError("there is nothing to remember: every message is empty")
    return [turn for _, turn in numbered]


def turns_before(context: object, *, scope: Scope, time: datetime, verbatim: bool = False, item: int = 0) -> list[Turn]:
    """The turns before a conversation: at most 20, of about 1,000 tokens, of which one may have 250; the latest of them.

    Args:
        context: As the messages of `turns_of`; `None` and an empty list are none.
        scope: Whose memories; a message that names its owner itself must name this one.
        time: When it was said, for messages that carry no time of their own.
        verbatim: Whether the conversation is kept as it is, so that there is nothing to understand.
        item: Number of the conversation within the run.

    Raises:
        InvalidInputError: It cannot be read, is somebody else's, or is of no use.
    """
    if context is None or (isinstance(context, list | tuple) and not context):
        return []
    if verbatim:
        raise InvalidInputError(
            "context helps to find facts, and infer=False keeps messages as they are; leave one out"
        )
    try:
        turns = [turn for _, turn in _turns(context, scope, time, item, {})]
    except InvalidInputError as error:
        raise InvalidInputError(f"in context, {error}") from None
    latest = [turn for turn in turns if turn.text and turn.role != "system"][: -MOST_BEFORE - 1 : -1]
    texts = fitting((turn.text for turn in latest), each=_TOKENS_OF_ONE, most=_TOKENS_BEFORE)
    plain = [replace(turn, text=text, notes=(), calls=()) for turn, text in zip(latest, texts, strict=False)]
    return plain[::-1]


def _turns(
    messages: object, scope: Scope, time: datetime, item: int, descriptions: Mapping[str, str]
) -> Iterator[tuple[int, Turn]]:
    """Each turn with the number of its message."""
    for number, message in enumerate(as_list(messages), start=1):
        if isinstance(message, str):  # the user speaks; told without a detour by LangChain's messages
            told = check_text(message, f"message {number}").strip()
            yield number, Turn("user", told, "user", time, item, () if told else (_no_text(number),))
            continue
        converted = message_of(message, number)
        check_owner(converted, scope, f"message {number}")
        for part in results_apart(converted, number):
            yield number, _turn(message, part, number, time, item, descriptions)


def _parse(describer: Describer | None, longest: Longest, state: PipelineState) -> Update | Ask:
    state = {**state, "work": begun()}
    items = _items(state)
    images = {url: part for item in items for url, part in image_parts(item.get("messages")).items()}
    if describer is None or not images:
        return _parsed(longest, state, items, [], [])
    return Ask(describer.describe, list(images.values()), partial(_parsed, longest, state, items, list(images)))


def _parsed(
    longest: Longest,
    state: PipelineState,
    items: list[dict[str, Any]],
    urls: list[str],
    described: list[Wording],
) -> Update:
    descriptions = {url: description.text for url, description in zip(urls, described, strict=True)}
    scope = Scope(**state.get("scope", {}))
    task = _task(state, scope, items)
    verbatim = is_verbatim(task["infer"], task["memory_type"])
    read = partial(_told, scope=scope, descriptions=descriptions, verbatim=verbatim, longest=longest)
    told = [read(item, number) for number, item in enumerate(items)]
    turns = [turn for _, own in told for turn in own]
    before = [turn for earlier, _ in told for turn in earlier]
    usage = sum((description.usage for description in described), Usage())
    return {
        "task": task,
        "turns": [turn.to_json() for turn in turns],
        "before": [turn.to_json() for turn in before],
        # What an earlier run of the same thread left behind.
        "facts": [],
        "candidates": {},
        "decisions": [],
        "result": {},
        **finished(state, "parse", {"usage": usage.to_json()}, turns=len(turns)),
    }


def _task(state: PipelineState, scope: Scope, items: list[dict[str, Any]]) -> Task:
    return {
        "key": key_of(state.get("key")),
        "scope": scope.named,
        "infer": state.get("infer", True),
        "memory_type": state.get("memory_type"),
        "prompt": state.get("prompt"),
        "items": [{name: item.get(name) for name in ("metadata", "expires_at")} for item in items],
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


def _told(
    item: Mapping[str, Any],
    number: int,
    *,
    scope: Scope,
    descriptions: Mapping[str, str],
    verbatim: bool,
    longest: Longest,
) -> tuple[list[Turn], list[Turn]]:
    """What was said before a conversation, and in it."""
    check_owner(item, scope, f"item {number + 1}")
    if item.get("metadata") is not None:
        check_metadata(item["metadata"])
    if item.get("expires_at") is not None:
        parse_time(item["expires_at"], "expires_at")
    time = datetime.now(UTC) if item.get("timestamp") is None else parse_time(item["timestamp"], "timestamp")
    earlier = turns_before(item.get("context"), scope=scope, time=time, verbatim=verbatim, item=number)
    said = turns_of(
        item.get("messages"), scope=scope, time=time, longest=longest, verbatim=verbatim, item=number,
        descriptions=descriptions,
    )  # fmt: skip
    dated = item.get("timestamp") is not None
    return earlier, [replace(turn, dated=dated or turn.dated) for turn in said]


def is_verbatim(infer: bool, memory_type: str | None) -> bool:  # noqa: FBT001 - as it stands in the state
    """Whether an add keeps messages as they are: neither facts of them, nor a record."""
    return not infer and memory_type != PROCEDURAL


def as_list(messages: object) -> Sequence[object]:
    """The messages of a conversation, in whichever way it was given.

    Raises:
        InvalidInputError: It is no conversation, or one without messages.
    """
    if isinstance(messages, str | Mapping | BaseMessage) or _is_pair(messages):
        return [messages]
    if isinstance(messages, Sequence) and not isinstance(messages, bytes | bytearray):
        if not messages:
            raise InvalidInputError("there is nothing to remember: the list of messages is empty")
        return messages
    raise InvalidInputError(f"messages must be a str, a message or a list of messages, not {type(messages).__name__}")


def _is_pair(messages: object) -> bool:
    """Whether it is one message in LangChain's short form: `("user", "I like tea.")`."""
    return isinstance(messages, tuple) and len(messages) == 2 and messages[0] in tuple(_ROLES)  # noqa: PLR2004 - role and text


def _turn(
    message: object, converted: BaseMessage, number: int, time: datetime, item: int, descriptions: Mapping[str, str]
) -> Turn:
    role = _role(converted, number)
    calls = tool_calls_of(message, converted, number) if role == "assistant" else ()
    text, unread = _text(converted, number, descriptions, calling=bool(calls))
    own = next((converted.additional_kwargs[key] for key in _TIME_KEYS if key in converted.additional_kwargs), None)
    return Turn(
        role=role,
        text=check_text(text, f"message {number}").strip(),
        actor=check_text(converted.name or role, f"the name in message {number}"),
        time=time if own is None else parse_time(own, f"the time of message {number}"),
        item=item,
        notes=unread or (() if text.strip() or calls else (_no_text(number),)),
        calls=calls,
        answers=check_text(getattr(converted, "tool_call_id", None) or "", f"the tool_call_id of message {number}"),
        failed=getattr(converted, "status", None) == "error",
        dated=own is not None,
    )


def _no_text(number: int) -> str:
    return f"message {number} has no text"


def message_of(message: object, number: int) -> BaseMessage:
    """One message of a conversation, in whichever way it was given, as LangChain's.

    Args:
        message: A text (of the user), a dict, a pair of role and text, or a LangChain message.
        number: Its place in the conversation, for the error.

    Raises:
        InvalidInputError: It is none, or one whose fields were set to what no message holds.
    """
    if isinstance(message, Mapping):
        message = _whole(message, number)
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
    return converted


def _whole(message: Mapping[str, Any], number: int) -> dict[str, Any]:
    """A dict that LangChain reads; among its `tool_calls` it would refuse broken arguments, and models write such."""
    content, calls = message.get("content"), message.get("tool_calls")
    if content is None and not calls and not message.get("function_call"):
        raise InvalidInputError(f"message {number} has no content; give a dict with role and content")
    whole: dict[str, Any] = {"role": "user"} if "role" not in message and "type" not in message else {}
    whole |= {name: part for name, part in message.items() if name != "tool_calls"}
    if calls:
        whole["additional_kwargs"] = {**(message.get("additional_kwargs") or {}), "tool_calls": calls}
    return {**whole, "content": parts_of(content) if isinstance(content, Mapping) else content}


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
        elif part.get("type") in _TEXT_PARTS:
            texts.append(check_text(part.get("text") or "", f"a text part of message {number}"))
        elif is_image(part) and (words := descriptions.get(address(part) or "")) is not None:
            texts.append(f"[image: {words}]")
        elif not (calling and is_tool_call(part)):
            notes.append(_unread(part, number))
    return "\n".join(texts), tuple(notes)


def _unread(part: Mapping[str, Any], number: int) -> str:
    if is_image(part):
        return f"an image in message {number} was not looked at; Memory(vision=True) describes images"
    return f"a part of type {quoted(part.get('type'))} in message {number} was not read"
