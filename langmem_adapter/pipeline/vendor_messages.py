"""Messages of all vendors, as dicts that LangChain reads: who speaks, and the content, whatever the keys are called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.pipeline.images import parts_of

__all__ = ["chat_message", "unwrap"]

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
