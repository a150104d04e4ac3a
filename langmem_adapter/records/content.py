"""Content parts of messages, as vendors write them: which of them are text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["plain_content"]

_REASONING: Final = ("reasoning", "reasoning_content", "thinking", "thought", "redacted_thinking", "summary_text")
_WRAPPERS: Final = ("document", "guardContent", "citationsContent", "audio")


def plain_content(content: Any) -> Any:
    """Content of a message with each part that holds text as `{"type": "text", "text": …}`; the rest as it is.

    Text is a `text` whatever the part's type, the transcript of audio, a document that comes as text; no reasoning.

    Example:
        >>> plain_content([{"text": "I live in Oslo."}, {"type": "reasoning", "text": "Hm."}])
        [{'type': 'text', 'text': 'I live in Oslo.'}, {'type': 'reasoning', 'text': 'Hm.'}]
    """
    return [_plain_part(part) for part in content] if isinstance(content, list) else content


def _plain_part(part: Any) -> Any:
    if not isinstance(part, Mapping) or part.get("type") in _REASONING or part.get("thought") is True:
        return part
    if part.get("type") == "text" and isinstance(part.get("text"), str):
        return part
    inner = next((part[key] for key in _WRAPPERS if isinstance(part.get(key), Mapping)), part)
    holder = inner["source"] if isinstance(inner.get("source"), Mapping) else inner
    data = holder.get("data") if holder.get("type") == "text" else None if holder is part else holder.get("content")
    text = next((each for each in (holder.get("text"), holder.get("transcript"), data) if each is not None), None)
    if isinstance(text, Mapping):  # OpenAI's assistants and Bedrock's guardrails nest it
        text = text.get("value", text.get("text"))
    if isinstance(text, list):
        texts = [each.get("text") if isinstance(each, Mapping) else each for each in text]
        text = "\n".join(each for each in texts if isinstance(each, str)) or None
    return {"type": "text", "text": text} if isinstance(text, str) else part
