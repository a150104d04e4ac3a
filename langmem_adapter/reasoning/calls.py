"""What one call of a chat model cost, and the log of it that a trace keeps."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from langchain_core.messages import AIMessage, BaseMessage

from langmem_adapter.records.cost import Call, Usage

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["usage_of"]


def usage_of(task: str, messages: Sequence[BaseMessage], reply: BaseMessage) -> Usage:
    """One call: its tokens, as far as the model told them, and what was said on both sides.

    Args:
        task: What it was for.
        messages: What was sent.
        reply: What came back; of a tool call, its arguments are the text.
    """
    told = reply.usage_metadata if isinstance(reply, AIMessage) else None
    call = Call(task, tuple((message.type, message.text) for message in messages), _text(reply))
    if told is None:
        return Usage(1, calls=(call,))
    return Usage(1, told["input_tokens"], told["output_tokens"], calls=(call,))


def _text(reply: BaseMessage) -> str:
    calls = [*reply.tool_calls, *reply.invalid_tool_calls] if isinstance(reply, AIMessage) else []
    arguments = [
        call["args"] if isinstance(call["args"], str) else json.dumps(call["args"], ensure_ascii=False)
        for call in calls
    ]
    return "\n".join(filter(None, (reply.text, *arguments)))
