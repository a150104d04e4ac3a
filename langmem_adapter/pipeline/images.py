"""Images in messages: found, told apart, and brought into one form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import BaseMessage

__all__ = ["address", "image_parts", "is_image", "parts_of"]

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
