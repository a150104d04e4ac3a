"""The two replies that a chat model gives, in the formats of Mem0: `{"facts": [...]}` and `{"memory": [...]}`."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, field_validator, model_validator

from langmem_adapter.reasoning.listing import ReplyModel, inner_or_self, inner_value, members_of
from langmem_adapter.records.checks import check_text
from langmem_adapter.records.work import Event

__all__ = [
    "MOST_FACTS",
    "DecisionReply",
    "Entry",
    "FactsReply",
    "first_of",
    "number_of",
    "statements",
    "text_of",
    "texts_of",
]

MOST_FACTS: Final = 1_000
"""Of one reply."""
_MOST_ENTRIES: Final = 6_000  # a thousand facts, five neighbours of each, and as many additions
_LONGEST_TEXT: Final = 10_000


class FactsReply(ReplyModel):
    """Extraction: short statements, in the language of the conversation."""

    name: ClassVar[str] = "facts_found"
    root: ClassVar[str] = "facts"
    aliases: ClassVar[frozenset[str]] = frozenset(
        {"fact", "memories", "memory", "results", "result", "items", "statements"}
    )
    wire: ClassVar[dict[str, Any]] = {
        "title": name,
        "description": "The facts that were found; an empty list if there are none.",
        "type": "object",
        "properties": {"facts": {"type": "array", "items": {"type": "string"}}},
        "required": ["facts"],
        "additionalProperties": False,
    }

    facts: list[str]

    @classmethod
    def is_entry(cls, value: Any) -> bool:
        """A string, or an object with one text in it."""
        if isinstance(value, str):
            return True
        if not isinstance(value, dict) or cls.root in members_of(value):
            return False
        texts = texts_of(value)
        return len(texts) == 1 and inner_value(texts[0]) is None

    @field_validator("facts", mode="before")
    @classmethod
    def _read(cls, value: Any) -> list[str]:
        return [text for place, item in enumerate(statements(value)) if (text := text_of(item, place))]


class Entry(BaseModel):
    """One line of a decision.

    Attributes:
        id: Number of a known memory, as text; anything for an ADD.
        text: The memory's text after it.
        event: What shall happen.
        old_memory: The memory's text before it, where the model quotes it.
        fact: Number of the new fact that it answers, where the model says so.
        reason: Why, where the model says so.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    text: str
    event: Event
    old_memory: str
    fact: int | None
    reason: str

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError(f"an entry must be an object with id, text and event, not {type(value).__name__}")  # noqa: TRY004 - pydantic collects ValueError
        members = members_of(value)
        fact, text = first_of(members, "fact"), first_of(members, "text", "memory", "new_memory", "content", "data")
        number = number_of(fact)
        if text is None and number is None and isinstance(fact, str):
            text = fact
        return {
            "id": _id(first_of(members, "id", "memory_id", "number", "index", "key")),
            "text": _optional_text(text, "text"),
            "event": _event(members),
            "old_memory": _optional_text(
                first_of(members, "old_memory", "previous_memory", "old_text", "old"), "old_memory"
            ),
            "fact": number,
            "reason": _optional_text(first_of(members, "reason", "why", "explanation"), "reason"),
        }


class DecisionReply(ReplyModel):
    """Decision: what becomes of the known memories, and what is new."""

    name: ClassVar[str] = "memory_decided"
    root: ClassVar[str] = "memory"
    aliases: ClassVar[frozenset[str]] = frozenset(
        {"memories", "results", "result", "decisions", "actions", "items", "events"}
    )
    wire: ClassVar[dict[str, Any]] = {
        "title": name,
        "description": "What becomes of the known memories, and what is added.",
        "type": "object",
        "properties": {
            "memory": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "string", "description": "The memory's id as given; for ADD any new one."},
                        "text": {"type": "string", "description": "The memory's text after the event."},
                        "event": {"type": "string", "enum": ["ADD", "UPDATE", "DELETE", "NONE"]},
                        "old_memory": {"type": ["string", "null"], "description": "For UPDATE: the text before."},
                        "fact": {"type": ["integer", "null"], "description": "Number of the fact it answers."},
                        "reason": {"type": "string", "description": "Why, in a few words."},
                    },
                    "required": ["id", "text", "event", "old_memory", "fact", "reason"],
                    "additionalProperties": False,
                },
            }
        },
        "required": ["memory"],
        "additionalProperties": False,
    }

    memory: list[Entry]

    @classmethod
    def is_entry(cls, value: Any) -> bool:
        """An object with an event, whose `memory`, if it has one, is a text."""
        members = members_of(value) if isinstance(value, dict) else {}
        has_event = any(isinstance(members.get(name, 0), str | None) for name in _EVENT_KEYS)
        return has_event and isinstance(members.get(cls.root), str | None)

    @field_validator("memory", mode="before")
    @classmethod
    def _read(cls, value: Any) -> list[Any]:
        entries = _entries(value)
        if len(entries) > _MOST_ENTRIES:
            raise ValueError(f"{len(entries):,} entries are too many; at most {_MOST_ENTRIES:,}")
        return entries


# ── lists ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def statements(value: Any) -> list[Any]:
    """The items of a list of facts, as sent. `null` holds nothing, so reading it as "none" loses nothing.

    Raises:
        ValueError: It is no list of facts in any disguise, or too long.
    """
    items = _items(value)
    count = sum(bool(item.strip()) if isinstance(item, str) else item is not None for item in items)
    if count > MOST_FACTS:
        raise ValueError(f"{count:,} facts are too many; at most {MOST_FACTS:,}, the most important ones")
    return items


def text_of(item: Any, place: int) -> str:
    """The text of an item of a list of facts, blank for `null`.

    Raises:
        ValueError: It holds no text, or several, or one that cannot be kept.
    """
    texts = [""] if item is None else texts_of(item)
    if len(texts) != 1:
        raise ValueError(f"[{place}] must be a string, not {type(item).__name__}")
    return _short_text(texts[0].strip(), f"facts[{place}]")


def _items(value: Any) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, str):
        return _items_of_text(value)
    if isinstance(value, dict):
        return _items_of_object(value)
    if not isinstance(value, list):
        raise ValueError(f"must be a list of strings, not {type(value).__name__}")  # noqa: TRY004 - pydantic collects ValueError
    return value


def _items_of_text(value: str) -> list[Any]:
    inner = inner_value(value)
    if inner is not None:
        return _items(inner)
    if len(value.strip().splitlines()) > 1:
        raise ValueError("must be a list with one string per fact, not one text of several lines")
    return [value]


def _items_of_object(value: dict[str, Any]) -> list[Any]:
    """One fact as an object, numbered facts, or facts by kind; attributes (`{"name": "Ann"}`) say too little."""
    if len(texts_of(value)) == 1:
        return [value]
    grouped = [(key, inner_or_self(member)) for key, member in value.items()]
    if not all(isinstance(member, list) or (key.isdigit() and isinstance(member, str)) for key, member in grouped):
        raise ValueError("must be a list of strings, each a full statement, not an object")
    return [item for _, member in grouped for item in _items(member)]


def texts_of(value: Any) -> list[str]:
    """The texts in an item of a list of facts: itself, or those members of an object that could be its fact."""
    if isinstance(value, str):
        return [value]
    members = members_of(value) if isinstance(value, dict) else {}
    names = ("fact", "text", "memory", "content", "statement", "value", "data")
    return [member for name in names if isinstance(member := members.get(name), str)]


def _entries(value: Any) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, str) and not value.strip():
        return []
    value = inner_or_self(value)
    if isinstance(value, dict):
        if DecisionReply.is_entry(value):
            return [value]
        if all(isinstance(member, dict) for member in value.values()):  # {"0": {...}, "1": {...}}
            return [{"id": key, **member} for key, member in value.items()]
    if not isinstance(value, list):
        raise ValueError(f"must be a list of objects, not {type(value).__name__}")  # noqa: TRY004 - pydantic collects ValueError
    return [inner_or_self(item) for item in value]


# ── fields ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_EVENT_KEYS: Final = ("event", "action", "operation", "op")
_EVENTS: Final[dict[str, Event]] = {
    **dict.fromkeys(("ADD", "ADDED", "INSERT", "CREATE", "NEW", "添加", "新增", "增加"), "ADD"),
    **dict.fromkeys(("UPDATE", "UPDATED", "MODIFY", "CHANGE", "EDIT", "REPLACE", "MERGE", "更新", "修改"), "UPDATE"),
    **dict.fromkeys(("DELETE", "DELETED", "REMOVE", "REMOVED", "FORGET", "删除"), "DELETE"),
    **dict.fromkeys(
        ("NONE", "NOOP", "NO_OP", "NO_CHANGE", "NOCHANGE", "UNCHANGED", "KEEP", "无变化", "不变", "无"), "NONE"
    ),
}
_ID: Final = re.compile(r"[#\[(\"'\s]*(-?\d{1,9})[\])\"'\s.]*")


def _event(members: dict[str, Any]) -> str:
    named = [members[key] for key in _EVENT_KEYS if key in members]
    if not named:
        raise ValueError("has no event; it must be ADD, UPDATE, DELETE or NONE")
    if named[0] is None:
        return "NONE"
    word = re.sub(r"[\s\-]+", "_", str(named[0]).strip(" \t\r\n\"'.").upper())
    if word not in _EVENTS:
        raise ValueError(f"the event {str(named[0])[:40]!r} is unknown; it must be ADD, UPDATE, DELETE or NONE")
    return _EVENTS[word]


def _id(value: Any) -> str:
    number = number_of(value)
    return str(number) if number is not None else "" if value is None else str(value)[:100]


def number_of(value: Any) -> int | None:
    """The whole number that a value is, or is written as (`"#2"`)."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    plain = _ID.fullmatch(str(value)[:100])
    return int(plain[1]) if plain else None


def _optional_text(value: Any, name: str) -> str:
    return "" if value is None else _short_text(value, name).strip()


def _short_text(value: Any, name: str) -> str:
    text = check_text(value, name)
    if len(text) > _LONGEST_TEXT:
        raise ValueError(
            f"{name} has {len(text):,} characters; a memory is a short statement, at most {_LONGEST_TEXT:,}"
        )
    return text


def first_of(members: dict[str, Any], *names: str) -> Any:
    """The first of these members that is there and not `null`."""
    return next((members[name] for name in names if members.get(name) is not None), None)
