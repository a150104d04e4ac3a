"""A chat model's message: what it says, what it cost, and the reply that it holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeVar

from langchain_core.messages import AIMessage, BaseMessage

from langmem_adapter.reasoning.json_text import DeclinedError, UnusableReplyError, decoded, json_values
from langmem_adapter.reasoning.replies import ReplyModel
from langmem_adapter.records.cost import ModelCall, Usage

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["full_text", "read_reply", "usage_of"]

_CUT_OFF: Final = frozenset({"length", "max_tokens", "max_output_tokens"})
_DECLINED: Final = frozenset({"content_filter", "refusal", "safety", "prohibited_content", "blocklist"})

M = TypeVar("M", bound=ReplyModel)


def full_text(message: BaseMessage) -> str:
    """What a message says; of tool calls, their arguments."""
    calls = [*message.tool_calls, *message.invalid_tool_calls] if isinstance(message, AIMessage) else []
    arguments = [
        call["args"] if isinstance(call["args"], str) else json.dumps(call["args"], ensure_ascii=False, default=str)
        for call in calls
    ]
    return "\n".join(filter(None, (message.text, *arguments)))


def usage_of(task: str, messages: Sequence[BaseMessage], reply: BaseMessage) -> Usage:
    """What one call cost, as far as the model told, and what was said on both sides."""
    tokens: Any = (reply.usage_metadata if isinstance(reply, AIMessage) else None) or {}
    said = full_text(reply).encode(errors="replace").decode().replace("\x00", "?")  # for a trace, as databases keep it
    call = ModelCall(task, tuple((message.type, message.text) for message in messages), said)
    return Usage(1, tokens.get("input_tokens", 0), tokens.get("output_tokens", 0), calls=(call,))


def read_reply(message: AIMessage, schema: type[M]) -> M:
    """Read a reply out of the tool calls of a message, or else out of its text.

    Raises:
        UnusableReplyError: Neither holds a complete reply of that form; the text tells the model why.
    """
    _refuse_declined(message)
    is_cut_off = _ending(message) in _CUT_OFF
    try:
        calls = [call["args"] for call in message.tool_calls]
        calls += [decoded(call["args"]) for call in message.invalid_tool_calls]
        is_called = any(calls) and not is_cut_off  # streaming clients complete the brackets of a cut call
        return schema.of(calls, joined=True) if is_called else schema.of(_in_text(message))
    except UnusableReplyError:
        if is_cut_off:
            raise UnusableReplyError(
                "the reply was cut off at the length limit; send the same, complete but shorter"
            ) from None
        raise


def _in_text(message: AIMessage) -> list[Any]:
    if not message.text.strip():
        raise UnusableReplyError("the reply is empty")
    return json_values(message.text)


def _refuse_declined(message: AIMessage) -> None:
    blocks: list[Any] = message.content if isinstance(message.content, list) else []
    refusals = [block.get("refusal") for block in blocks if isinstance(block, dict) and block.get("type") == "refusal"]
    why = message.additional_kwargs.get("refusal") or next(iter(refusals), None)
    if why or refusals or _ending(message) in _DECLINED:
        raise DeclinedError(f"the model declined ({str(why or _ending(message))[:200]})")


def _ending(message: AIMessage) -> str:
    reasons = (message.response_metadata.get(key) for key in ("finish_reason", "stop_reason", "done_reason"))
    return next((reason.casefold() for reason in reasons if isinstance(reason, str)), "")
