"""Messages of all vendors in one form: content, images, tool calls and their results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import check_nesting, check_text, plain_content, quoted
from langmem_adapter.records.results import ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    """The URL or data URL of an image part; `None` where it has none (a file id of some provider).

    Example:
        >>> address({"type": "image", "base64": "AA==", "mime_type": "image/png"})
        'data:image/png;base64,AA=='
    """
    given = part.get("image_url", part.get("url"))
    if isinstance(given, Mapping):
        given = given.get("url")
    if isinstance(given, str) and given:
        return given
    data = part.get("base64", part.get("data"))
    return f"data:{part.get('mime_type', 'image/jpeg')};base64,{data}" if isinstance(data, str) and data else None


def image_parts(messages: object) -> dict[str, dict[str, Any]]:
    """Every image of a conversation once, by its address, as OpenAI-style content parts."""
    found: dict[str, dict[str, Any]] = {}
    for message in messages if isinstance(messages, Sequence) and not isinstance(messages, str) else [messages]:
        content = message.content if isinstance(message, BaseMessage) else None
        content = message.get("content") if isinstance(message, Mapping) else content
        for part in parts_of(content):
            if is_image(part) and (url := address(part)) is not None:
                found[url] = {"type": "image_url", "image_url": {"url": url, **_detail(part)}}
    return found


def _detail(part: Mapping[str, Any]) -> dict[str, str]:
    nested = part.get("image_url")
    detail = nested.get("detail") if isinstance(nested, Mapping) else part.get("detail")
    return {"detail": detail} if isinstance(detail, str) else {}


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

    Among `tool_calls` LangChain would refuse broken arguments, and models write such: they stand in `additional_kwargs`. An
    item of OpenAI's Responses format becomes a message with the item as its only part, or the result of a tool.
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
    role, content, calls = _role(message), message.get(key) or "", message.get("tool_calls")
    used = (key, "content", "role", "from", "type", "tool_calls")
    whole = {name: part for name, part in message.items() if name not in used}
    if role == "tool":
        name = whole.get("name") or whole.pop("tool_name", None)
        status = "error" if whole.get("status") == "error" else None  # LangChain refuses words of others
        whole |= {"name": name, "tool_call_id": whole.get("tool_call_id") or "", "status": status}
    if calls:
        whole["additional_kwargs"] = {**(message.get("additional_kwargs") or {}), "tool_calls": calls}
    return {**whole, "role": role, "content": parts_of(content) if isinstance(content, Mapping) else content}


def _role(message: Mapping[str, Any]) -> Any:
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


def tool_calls_of(given: object, message: BaseMessage, number: int) -> tuple[ToolCall, ...]:
    """The tools that a message calls, each once, with the arguments as they were written.

    *given* is the message as the caller gave it, *message* the same as LangChain's, *number* its place for the error.
    """
    found: dict[object, ToolCall] = {}
    for raw in _raw(given, message, f"the tool calls of message {number}"):
        call = _read(raw, f"a tool call in message {number}")
        found.setdefault(call.id or call, call)
    return tuple(found.values())


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


def _raw(given: object, message: BaseMessage, name: str) -> Iterator[object]:
    own = message.additional_kwargs
    listed = [
        call
        for key in ("tool_calls", "invalid_tool_calls")
        for call in _listed(given.get(key) if isinstance(given, Mapping) else getattr(message, key, None), name)
    ]
    yield from listed or _listed(own.get("tool_calls"), name)
    yield from (part for part in message.content if isinstance(part, Mapping) and is_tool_call(part))
    if own.get("function_call"):  # OpenAI's, before there were several
        yield own["function_call"]


def _listed(calls: object, name: str) -> Sequence[object]:
    if calls is not None and not isinstance(calls, list | tuple):
        raise InvalidInputError(f"{name} are a list of dicts, not {quoted(calls)}")
    return calls or ()


def _read(raw: object, name: str) -> ToolCall:
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
