"""Calls of tools in messages, and their results: found in whichever form they come, and brought into one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import HumanMessage, ToolMessage

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import check_nesting, check_text, quoted
from langmem_adapter.records.work import ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_core.messages import BaseMessage

__all__ = ["is_tool_call", "results_apart", "tool_calls_of"]

_PARTS: Final = (
    "tool_call", "invalid_tool_call", "server_tool_call",  # LangChain
    "tool_use", "server_tool_use", "mcp_tool_use",  # Anthropic
    "function_call", "custom_tool_call", "mcp_call",  # OpenAI
)  # fmt: skip
_NESTED: Final = ("function", "custom")
_ARGUMENTS: Final = ("arguments", "args", "input")
_IDS: Final = ("call_id", "id")


def is_tool_call(part: Mapping[str, Any]) -> bool:
    """Whether a content part is a call of a tool, in any of the forms that LangChain, OpenAI and Anthropic know."""
    return part.get("type") in _PARTS


def tool_calls_of(given: object, message: BaseMessage, number: int) -> tuple[ToolCall, ...]:
    """The tools that a message calls, each once, with the arguments as they were written.

    Args:
        given: The message as the caller gave it.
        message: The same as LangChain's.
        number: Its place in the conversation, for the error.

    Raises:
        InvalidInputError: One is no call, or has arguments that are no JSON.
    """
    found: dict[object, ToolCall] = {}
    for raw in _raw(given, message, f"the tool calls of message {number}"):
        call = _read(raw, f"a tool call in message {number}")
        found.setdefault(call.id or call, call)
    return tuple(found.values())


def results_apart(message: BaseMessage, number: int) -> list[BaseMessage]:
    """A message without the results of tools that Anthropic's form puts among what a person says, and these before it.

    Raises:
        InvalidInputError: A result does not say what it answers, or has no content that a message may have.
    """
    parts = message.content if isinstance(message, HumanMessage) and not isinstance(message.content, str) else []
    results = [part for part in parts if isinstance(part, Mapping) and part.get("type") == "tool_result"]
    if not results:
        return [message]
    rest = [part for part in parts if part not in results]
    try:
        apart: list[BaseMessage] = [
            ToolMessage(
                part.get("content") or "",
                tool_call_id=part.get("tool_use_id"),
                status="error" if part.get("is_error") else "success",
                additional_kwargs=message.additional_kwargs,
            )
            for part in results
        ]
    except ValueError as error:
        raise InvalidInputError(f"a tool's result in message {number} cannot be read: {error}") from None
    return [*apart, message.model_copy(update={"content": rest})] if rest else apart


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
    inner = next((raw[key] for key in _NESTED if key in raw), raw) if isinstance(raw, Mapping) else None
    if not isinstance(raw, Mapping) or not isinstance(inner, Mapping):
        raise InvalidInputError(f"{name} is a dict with the name of the tool and its arguments, not {quoted(raw)}")
    arguments = next((inner[key] for key in _ARGUMENTS if inner.get(key) is not None), "")
    return ToolCall(
        name=check_text(inner.get("name") or "", f"the name of {name}"),
        arguments=check_text(_written(arguments, name), f"the arguments of {name}"),
        id=check_text(next((raw[key] for key in _IDS if raw.get(key)), ""), f"the id of {name}"),
    )


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
