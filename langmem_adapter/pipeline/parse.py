"""Parse, the first stage of the pipeline: messages of any vendor become turns.

Roles, speakers, times, texts, images, tool calls and their results are read here and nowhere else. What a turn cannot carry (an
image without a description, an empty message) is in its notes, never silently lost.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import (
    BaseMessage,
    BaseMessageChunk,
    HumanMessage,
    ToolMessage,
    convert_to_messages,
    message_chunk_to_message,
)

from langmem_adapter.arguments import Longest, filled, local_time
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.pipeline.state import Ask, finish_stage, start_work, thinking
from langmem_adapter.records.checks import (
    check_metadata,
    check_nesting,
    check_text,
    parse_timezone,
    plain_content,
    quoted,
)
from langmem_adapter.records.results import PROCEDURAL, ToolCall, Turn, Usage, take_fitting_texts
from langmem_adapter.records.scope import Scope
from langmem_adapter.scoping import check_owner

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from langmem_adapter.pipeline.state import PipelineState, Planner, StateEdit, Thoughts
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
    """The first stage: `messages` (or `items`) to `turns`; a *describer* is called once for each image."""
    return thinking(partial(_parse, describer, longest))


class ParsedConversation(dict[str, Any]):
    """One conversation of a run as the caller gave it (`OF_ITEM`), with its turns; a caller that loses them reads it again."""

    __slots__ = ("before", "seconds", "thread", "turns")

    def __init__(
        self, item: Mapping[str, Any], before: Sequence[Turn], turns: Sequence[Turn], seconds: float = 0.0
    ) -> None:
        super().__init__(item)
        self.before, self.turns, self.seconds = before, turns, seconds
        self.thread: Mapping[str, Any] = {}  # more of `Task`: its thread, where it has one


def conversation_of(
    item: Mapping[str, Any],
    *,
    scope: Scope,
    longest: Longest,
    verbatim: bool,
    descriptions: Mapping[str, str] | None = None,
) -> ParsedConversation:
    """Read a conversation (`OF_ITEM`): the one place where its messages become turns."""
    began, kept = perf_counter(), {name: item.get(name) for name in OF_ITEM}
    if kept["metadata"] is not None:
        kept["metadata"] = check_metadata(kept["metadata"])
    zone = parse_timezone(kept["timezone"], longest.timezone)
    times = {name: local_time(kept[name], name, zone) for name in _TIMES if kept[name] is not None}
    time = times.get("timestamp") or datetime.now(UTC).astimezone(zone)
    kept |= {name: moment.isoformat() for name, moment in times.items()}
    how: dict[str, Any] = {"scope": scope, "time": time, "zone": zone, "verbatim": verbatim}
    turns = turns_of(kept["messages"], longest=longest, descriptions=descriptions, **how)
    before = turns_before(kept["context"], **how)
    turns = [replace(turn, dated=True) for turn in turns] if "timestamp" in times else turns
    return ParsedConversation(kept, before, turns, perf_counter() - began)


def _numbered(turns: Iterable[Sequence[Turn]]) -> list[dict[str, Any]]:
    return [{**turn.to_json(), "item": number} for number, own in enumerate(turns) for turn in own]


def turns_of(  # noqa: PLR0913 - each is one option
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
    """Turns of one conversation; *time* is that of messages without their own, *zone* that of times without an offset.

    With *verbatim* each becomes a memory as it is, but for system messages. A part of a conversation *may_be_empty*.
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


def _parse(describer: Describer | None, longest: Longest, state: PipelineState) -> Thoughts:
    items = _items(state)
    state = {**state, "work": start_work(sum(item.seconds for item in items if isinstance(item, ParsedConversation)))}
    looked_at = () if describer is None else items
    images = {url: part for item in looked_at for url, part in image_parts(item.get("messages")).items()}
    described: list[Wording] = []
    if describer is not None and images:
        items = [dict(item) for item in items]  # with words for its images, a conversation says more
        described = yield Ask(describer.describe, list(images.values()))
    words = {url: description.text for url, description in zip(images, described, strict=True)}
    usage = sum((description.usage for description in described), Usage())
    return _parsed(longest, state, items, words, usage)


def _parsed(
    longest: Longest, state: PipelineState, items: list[dict[str, Any]], words: Mapping[str, str], usage: Usage
) -> StateEdit:
    scope = Scope(**state.get("scope", {}))
    how: dict[str, Any] = {"scope": scope.named, "key": key_of(state.get("key")), "infer": state.get("infer", True)}
    how |= {"memory_type": state.get("memory_type"), "prompt": state.get("prompt")}
    for item in state.get("items") or ():  # images are described in copies, which have no thread
        how |= item.thread if isinstance(item, ParsedConversation) else {}
    for number, item in enumerate(items, start=1):
        check_owner(item, scope, f"item {number}")
    verbatim = is_verbatim(how["infer"], how["memory_type"])
    read = partial(conversation_of, scope=scope, longest=longest, verbatim=verbatim, descriptions=words)
    parsed = [item if isinstance(item, ParsedConversation) else read(item) for item in items]
    turns = _numbered(each.turns for each in parsed)
    return {
        "task": {**how, "items": [{name: each[name] for name in ("metadata", "expires_at")} for each in parsed]},
        "turns": turns,
        "before": _numbered(each.before for each in parsed),
        # What an earlier run of the same thread left behind.
        "facts": [],
        "candidates": {},
        "decisions": [],
        "result": {},
        **finish_stage(state, "parse", {"usage": usage.to_json()}, turns=len(turns)),
    }


def key_of(name: object, what: str = "key") -> str:
    """The name of an add: the caller's, else a new one; *what* it is called in the error."""
    return str(uuid.uuid4()) if name is None else filled(name, what)


def _items(state: PipelineState) -> list[dict[str, Any]]:
    items = state.get("items")
    if not items:
        return [{name: state.get(name) for name in OF_ITEM}]
    if state.get("messages") is not None or state.get("context") is not None:
        raise InvalidInputError("give the graph messages or items, not both; the context of an item belongs into it")
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        raise InvalidInputError(f"items must be a list of dicts, each with its messages, not {quoted(items)}")
    return items


def is_verbatim(infer: bool, memory_type: str | None) -> bool:  # noqa: FBT001 - as in the state
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
            kind = quoted(part.get("type", next(iter(part), None)))
            unread = f"a part of type {kind} in message {number} was not read"
            unseen = f"an image in message {number} was not looked at; Memory(vision=True) describes images"
            notes.append(unseen if is_image(part) else unread)
    return "\n".join(texts), tuple(notes)


# ── content, images, tool calls and results of all vendors ──────────────────────────────────────────────────────────────────

_IMAGE_PARTS: Final = ("image", "image_url", "input_image")


def parts_of(content: object) -> Sequence[Any]:
    """The parts of a message's content: a list as it is, a lone part (seed 004 §1.4) as a list of one."""
    if isinstance(content, Mapping):
        return [content]
    return content if isinstance(content, Sequence) and not isinstance(content, str) else []


def is_image(part: object) -> bool:
    """Whether a content part is an image, in any of the forms that LangChain and OpenAI know."""
    return isinstance(part, Mapping) and part.get("type") in _IMAGE_PARTS


def address(part: Mapping[str, Any]) -> str | None:
    """The URL or data URL of an image part; `None` where it has none (a file id of some provider)."""
    url = part.get("image_url", part.get("url"))
    url = url.get("url") if isinstance(url, Mapping) else url
    if isinstance(url, str) and url:
        return url
    data = part.get("base64", part.get("data"))
    return f"data:{part.get('mime_type', 'image/jpeg')};base64,{data}" if isinstance(data, str) and data else None


def image_parts(messages: object) -> dict[str, dict[str, Any]]:
    """Every image of a conversation once, by its address, as OpenAI-style content parts."""
    images: dict[str, dict[str, Any]] = {}
    for message in messages if isinstance(messages, Sequence) and not isinstance(messages, str) else [messages]:
        content = message.content if isinstance(message, BaseMessage) else None
        content = message.get("content") if isinstance(message, Mapping) else content
        for part in parts_of(content):
            if is_image(part) and (url := address(part)) is not None:
                nested = part.get("image_url")
                detail = nested.get("detail") if isinstance(nested, Mapping) else part.get("detail")
                more = {"detail": detail} if isinstance(detail, str) else {}
                images[url] = {"type": "image_url", "image_url": {"url": url, **more}}
    return images


# OpenAI, LangChain · Google, Vercel · LlamaIndex · ShareGPT · Cohere
_CONTENT: Final = ("content", "parts", "blocks", "value", "message", "text")
_ASSISTANTS: Final = ("model", "gpt", "chatgpt", "chatbot")
_TOOLS: Final = ("tool", "function", "observation", "function_response")
_ITEMS: Final = ("reasoning", "item_reference", "compaction", "mcp_list_tools", "mcp_approval_request")


def unwrap(message: Any) -> Any:
    """A message without the wrapper of `dumpd` and `messages_to_dict` (LangChain), or of a choice (OpenAI)."""
    if not isinstance(message, Mapping) or message.keys() & {"role", "content"}:
        return message
    inner, path = message.get("kwargs", message.get("data", message.get("message"))), message.get("id")
    kind = path[-1] if "lc" in message and isinstance(path, list) and path else message.get("type")
    return {"type": kind, **inner} if isinstance(inner, Mapping) else message


def chat_message(message: Mapping[str, Any], number: int) -> dict[str, Any]:
    """A message with `role` and `content`, which is empty where it is missing or null.

    LangChain refuses broken arguments of `tool_calls`, and models write such: they go to `additional_kwargs`. An item of
    OpenAI's Responses format becomes a message with the item as its only part, or the result of a tool.
    """
    kind = message.get("type") if "role" not in message else None
    if isinstance(kind, str) and kind.endswith("_output"):
        output = message.get("output")
        message = {**message, "role": "tool", "tool_call_id": message.get("call_id"), "content": output}
    elif isinstance(kind, str) and (kind in _ITEMS or kind.endswith("_call")):
        message = {"role": "assistant", "content": [dict(message)]}
    key = next((key for key in _CONTENT if message.get(key)), "content")
    if not message.keys() & {"role", "from", "type", *_CONTENT}:
        raise InvalidInputError(f"message {number} has no content; give a dict with role and content")
    role, content, calls = _role_name(message), message.get(key) or "", message.get("tool_calls")
    used = (key, "content", "role", "from", "type", "tool_calls")
    whole = {name: part for name, part in message.items() if name not in used}
    if role == "tool":
        name = whole.get("name") or whole.pop("tool_name", None)
        status = "error" if whole.get("status") == "error" else None  # LangChain refuses words of others
        whole |= {"name": name, "tool_call_id": whole.get("tool_call_id") or "", "status": status}
    if calls:
        whole["additional_kwargs"] = {**(message.get("additional_kwargs") or {}), "tool_calls": calls}
    return {**whole, "role": role, "content": parts_of(content) if isinstance(content, Mapping) else content}


def _role_name(message: Mapping[str, Any]) -> Any:
    role = message.get("role", message.get("from", message.get("type", "user")))
    if not isinstance(role, str):
        return role
    role = role.lower().removesuffix("chunk").removesuffix("message")
    return "assistant" if role in _ASSISTANTS else "tool" if role in _TOOLS else role or "user"


_PARTS: Final = (
    "tool_call", "invalid_tool_call", "server_tool_call",  # LangChain
    "tool_use", "server_tool_use", "mcp_tool_use",  # Anthropic
    "function_call", "custom_tool_call", "mcp_call",  # OpenAI
    "tool-call",  # Vercel
)  # fmt: skip
_WRAPPED: Final = ("toolUse", "functionCall", "function_call")  # Bedrock, Google
_NESTED: Final = ("function", "custom", *_WRAPPED)
_NAMES: Final = ("name", "toolName")
_ARGUMENTS: Final = ("arguments", "args", "input")
_IDS: Final = ("call_id", "id", "toolUseId", "toolCallId")
_RESULTS: Final = ("toolResult", "functionResponse", "function_response")  # Bedrock, Google
_RESULT_PARTS: Final = (
    "tool_result",
    "tool-result",
)  # Anthropic, Vercel; compared, never hashed: a type may be anything


def is_tool_call(part: Mapping[str, Any]) -> bool:
    """Whether a content part is a call of a tool, in any vendor's form."""
    return part.get("type") in _PARTS or any(isinstance(part.get(key), Mapping) for key in _WRAPPED)


def tool_calls_of(original: object, message: BaseMessage, number: int) -> tuple[ToolCall, ...]:
    """The tools that a message (*original* as the caller gave it) calls, each once, with the arguments as they were written."""
    calls: dict[object, ToolCall] = {}
    for raw in _raw(original, message, f"the tool calls of message {number}"):
        call = _tool_call(raw, f"a tool call in message {number}")
        calls.setdefault(call.id or call, call)
    return tuple(calls.values())


def results_apart(message: BaseMessage, number: int) -> list[BaseMessage]:
    """A message without the results of tools that some vendors put among what a person says, and these before it."""
    has_parts = isinstance(message, HumanMessage | ToolMessage) and not isinstance(message.content, str)
    parts = message.content if has_parts else ()
    read = [(part, _result(part, f"a tool's result in message {number}")) for part in parts]
    rest = [part for part, result in read if result is None]
    try:
        own = message.additional_kwargs
        apart: list[BaseMessage] = [ToolMessage(**each, additional_kwargs=own) for _, each in read if each is not None]
    except ValueError as error:
        raise InvalidInputError(f"a tool's result in message {number} cannot be read: {error}") from None
    if not apart:
        return [message]
    return [*apart, message.model_copy(update={"content": rest})] if rest else apart


def _result(part: object, name: str) -> Mapping[str, Any] | None:
    """The fields of a `ToolMessage` where a part holds a tool's result: Anthropic's, Bedrock's, Google's or Vercel's."""
    if not isinstance(part, Mapping):
        return None
    result = next((part[key] for key in _RESULTS if isinstance(part.get(key), Mapping)), part)
    if result is part and part.get("type") not in _RESULT_PARTS:
        return None
    content = _first(result, ("content", "response", "output", "result"))
    if isinstance(content, Mapping) and "value" in content:  # Vercel's {"type": "text", "value": …}
        content = content["value"]
    failed = result.get("is_error") or result.get("status") == "error"
    return {
        "content": plain_content(content) if isinstance(content, list) else _written(content, name),
        "tool_call_id": result.get("tool_use_id") if part.get("type") == "tool_result" else _first(result, _IDS),
        "status": "error" if failed else "success",
    }


def _raw(original: object, message: BaseMessage, name: str) -> Iterator[object]:
    own = message.additional_kwargs
    listed = [
        call
        for key in ("tool_calls", "invalid_tool_calls")
        for call in _listed(original.get(key) if isinstance(original, Mapping) else getattr(message, key, None), name)
    ]
    yield from listed or _listed(own.get("tool_calls"), name)
    yield from (part for part in message.content if isinstance(part, Mapping) and is_tool_call(part))
    if own.get("function_call"):  # OpenAI's, before there were several
        yield own["function_call"]


def _listed(calls: object, name: str) -> Sequence[object]:
    if calls is not None and not isinstance(calls, list | tuple):
        raise InvalidInputError(f"{name} are a list of dicts, not {quoted(calls)}")
    return calls or ()


def _tool_call(raw: object, name: str) -> ToolCall:
    inner = next((raw[key] for key in _NESTED if raw.get(key) is not None), raw) if isinstance(raw, Mapping) else None
    if not isinstance(raw, Mapping) or not isinstance(inner, Mapping):
        raise InvalidInputError(f"{name} is a dict with the name of the tool and its arguments, not {quoted(raw)}")
    arguments = next((inner[key] for key in _ARGUMENTS if inner.get(key) is not None), "")
    return ToolCall(
        name=check_text(_first(inner, _NAMES), f"the name of {name}"),
        arguments=check_text(_written(arguments, name), f"the arguments of {name}"),
        id=check_text(_first(raw, _IDS) or _first(inner, _IDS), f"the id of {name}"),
    )


def _first(call: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((call[key] for key in keys if call.get(key)), "")


def _written(arguments: object, name: str) -> str:
    if isinstance(arguments, str):
        return arguments
    check_nesting(arguments, f"the arguments of {name}")
    try:
        return json.dumps(arguments, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"the arguments of {name} are no JSON: {error}; convert them, to text for example"
        ) from None
