"""Calls of tools in messages, and their results: found in whichever form they come, and brought into one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import HumanMessage, ToolMessage

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import check_nesting, check_text, quoted
from langmem_adapter.records.content import plain_content
from langmem_adapter.records.work import ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_core.messages import BaseMessage

__all__ = ["is_tool_call", "results_apart", "tool_calls_of"]

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
