"""Checks of text, JSON objects and message content that both databases can hold."""

from __future__ import annotations

import json
import reprlib
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from langmem_adapter.addresses import cleaned, shown
from langmem_adapter.errors import InvalidInputError

if TYPE_CHECKING:
    from datetime import tzinfo

DEEPEST: Final = 64
"""Levels of objects and lists in each other. What is read must never need more of the stack than whoever reads has left."""

_JSON: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, default=dict
)  # mappings that are no dicts become such


class _Quote(reprlib.Repr):
    """Hides secrets before it cuts, since half an address cannot be read."""

    def repr_str(self, x: str, level: int) -> str:
        return super().repr_str(shown(x), level)

    def repr_instance(self, x: Any, level: int) -> str:
        told = cleaned(super().repr_instance(x, level))
        return told if len(told) <= self.maxstring else f"{told[: self.maxstring // 2]}..."


_QUOTE: Final = _Quote()
_QUOTE.maxstring, _QUOTE.maxother = 200, sys.maxsize


def quoted(value: object) -> str:
    """What an error shows of a value that somebody gave: its `repr` without the secrets of addresses, cut where it is long."""
    try:
        return _QUOTE.repr(value)
    except ValueError:  # Python writes no number of more than 4,300 digits
        return f"a {type(value).__name__} of thousands of digits"


def check_text(value: object, name: str) -> str:
    """Return *value* if it is a text that both databases can keep.

    Raises:
        InvalidInputError: It is no `str`, holds a NUL character (Postgres refuses it) or a lone surrogate (UTF-8 does).
    """
    if not isinstance(value, str):
        raise InvalidInputError(f"{name} must be a str, not {type(value).__name__}")
    if "\x00" in value:
        raise InvalidInputError(f"{name} holds a NUL character, which databases cannot keep; remove it")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"{name} holds a lone surrogate at position {error.start}, which is not text; decode the source properly"
        ) from None
    return value


def zone_of(timezone: object, default: str | None = None) -> tzinfo | None:
    """The time zone of an IANA name, else of the *default*; `None` is the system's. Unknown is an `InvalidInputError`."""
    name = default if timezone is None else timezone
    if name is None:
        return None
    try:
        return ZoneInfo(check_text(name, "timezone"))
    except (ValueError, OSError, LookupError):
        raise InvalidInputError(
            f"timezone={quoted(name)} is no known time zone; write an IANA name like 'Asia/Shanghai' or 'UTC'"
        ) from None


def check_metadata(value: object) -> dict[str, Any]:
    """Return *value* as a JSON object of its own, if both databases can keep it.

    Args:
        value: A mapping of text keys to JSON values: text, numbers, booleans, `None`, lists and objects of these.

    Raises:
        InvalidInputError: It is something else, holds NaN or infinity, or has more than `DEEPEST` levels.
    """
    copy: dict[str, Any] = json.loads(json_object(value, "metadata"))
    return copy


def json_object(value: object, name: str) -> str:
    """The same object as JSON text; the error calls it *name*."""
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"{name} must be a mapping, not {type(value).__name__}")
    check_nesting(value, name)
    try:
        return check_text(_JSON.encode(_strict(value, name)), name)
    except InvalidInputError:
        raise
    except ValueError as error:
        raise InvalidInputError(f"{name} cannot be kept as JSON: {error}") from None


def check_nesting(value: object, name: str, *, levels: int = DEEPEST) -> None:
    """Refuse a value with more levels of objects and lists in each other than `DEEPEST`; the error calls it *name*."""
    if not isinstance(value, Mapping | list | tuple):
        return
    if not levels:
        raise InvalidInputError(f"{name} is nested deeper than {DEEPEST} levels of objects and lists; flatten it")
    for part in value.values() if isinstance(value, Mapping) else value:
        check_nesting(part, name, levels=levels - 1)


def _strict(value: object, name: str) -> object:
    # json.dumps turns keys into text and tuples into lists without a word; only the second is harmless.
    if isinstance(value, Mapping):
        for key, part in value.items():
            check_text(key, f"a key of {name}")
            _strict(part, name)
    elif isinstance(value, list | tuple):
        for part in value:
            _strict(part, name)
    elif isinstance(value, str):
        check_text(value, name)
    elif value is not None and not isinstance(value, bool | int | float):
        raise InvalidInputError(
            f"{name} holds a {type(value).__name__}, which is no JSON; convert it, to text for example"
        )
    return value


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
