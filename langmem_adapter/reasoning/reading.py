"""A reply out of a raw message: tool calls, text, blocks, broken calls, whatever part of it holds one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeVar

from langmem_adapter.reasoning.listing import ReplyModel
from langmem_adapter.reasoning.salvage import Found, UnusableReplyError, json_values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_core.messages import AIMessage

__all__ = ["quote", "read_reply"]

_QUOTED: Final = 8_000  # a reply of a megabyte is not sent back in full
_CUT_OFF: Final = frozenset({"length", "max_tokens", "max_output_tokens"})
_DECLINED: Final = frozenset({"content_filter", "refusal", "safety", "prohibited_content", "blocklist"})

M = TypeVar("M", bound=ReplyModel)


def read_reply(message: AIMessage, schema: type[M]) -> M:
    """Read a reply out of whatever part of a message holds it.

    Args:
        message: A chat model's answer, however badly formed.
        schema: The form it should have.

    Raises:
        UnusableReplyError: No part of it is a complete reply of that form; the text tells the model why.
    """
    _refuse_declined(message)
    problems: list[UnusableReplyError] = []
    for source in (_in_tool_calls, _in_content, _in_leftovers):
        try:
            found = source(message)
            if found is not None:
                return schema.of(found, joined=source is _in_tool_calls)
        except UnusableReplyError as error:
            problems.append(error)
    if _ending(message) in _CUT_OFF:
        raise UnusableReplyError("the reply was cut off at the length limit; send the same, complete but shorter")
    if problems:
        raise problems[0]
    raise UnusableReplyError("the reply is empty")


def _refuse_declined(message: AIMessage) -> None:
    refusal = message.additional_kwargs.get("refusal")
    blocks = [block for block in _blocks(message) if isinstance(block, dict) and block.get("type") == "refusal"]
    if refusal or blocks or _ending(message) in _DECLINED:
        why = refusal or next((block.get("refusal") for block in blocks), None) or _ending(message)
        raise UnusableReplyError(f"the model declined ({str(why)[:200]})", final=True)


def _in_tool_calls(message: AIMessage) -> Found | None:
    calls = [call["args"] for call in message.tool_calls]
    broken = [_one(call.get("args") or "") for call in message.invalid_tool_calls]
    if calls and _ending(message) in _CUT_OFF:  # streaming clients complete the brackets of a cut call
        raise UnusableReplyError("the reply was cut off")
    return Found((*calls, *broken)) if calls or broken else None


def _in_content(message: AIMessage) -> Found | None:
    text = _text(message)
    return json_values(text) if text.strip() else None


def _in_leftovers(message: AIMessage) -> Found | None:
    """Parts that clients keep without turning them into content or tool calls."""
    texts = [*_old_calls(message.additional_kwargs)]
    values = [
        block[key] for block in _blocks(message) if isinstance(block, dict) for key in ("input", "json") if key in block
    ]
    values = [*map(_one, texts), *(_one(value) if isinstance(value, str) else value for value in values)]
    return Found(tuple(values)) if values else None


def _old_calls(extra: dict[str, Any]) -> Iterator[str]:
    calls = [extra.get("function_call"), *(call.get("function") for call in extra.get("tool_calls") or ())]
    for call in calls:
        if isinstance(call, dict) and isinstance(call.get("arguments"), str):
            yield call["arguments"]


def _one(text: str) -> Any:
    found = json_values(text)
    if len(found.values) != 1:
        raise UnusableReplyError(f"the arguments of the call are no JSON object: {found.damage or text[:100]!r}")
    return found.values[0]


def _ending(message: AIMessage) -> str:
    for key in ("finish_reason", "stop_reason", "done_reason"):
        reason = message.response_metadata.get(key)
        if isinstance(reason, str):
            return reason.casefold()
    return ""


def _blocks(message: AIMessage) -> list[Any]:
    return message.content if isinstance(message.content, list) else []


def _text(message: AIMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    return "".join(block if isinstance(block, str) else _block_text(block) for block in message.content)


def _block_text(block: dict[Any, Any]) -> str:
    text = block.get("text") if block.get("type") in {"text", "output_text"} else None
    return text if isinstance(text, str) else ""


def quote(message: AIMessage) -> str:
    """What a message said, tool calls included, cut to a length that can be sent back."""
    calls = [json.dumps(call["args"], ensure_ascii=False, default=str) for call in message.tool_calls]
    broken = [call.get("args") or "" for call in message.invalid_tool_calls]
    told = "\n".join(part for part in (_text(message), *calls, *broken) if part.strip())
    return told if len(told) <= _QUOTED else f"{told[:_QUOTED]} …"
