"""The two replies that a chat model gives: the facts of a conversation, and what they mean for the memories.

Each fact carries what belongs to it (its turn, its date, its relations), each entry of a decision the number of its fact. The
shapes of Mem0 are read as well: plain strings as facts, relations in a list of their own, entries without a number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping  # noqa: TC003 - pydantic reads the annotations
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from langmem_adapter.reasoning.listing import ReplyModel, inner_or_self, inner_value, members_of
from langmem_adapter.reasoning.said import first_of, number_of
from langmem_adapter.reasoning.triples import is_relation, listed
from langmem_adapter.records.checks import check_text
from langmem_adapter.records.work import Event

__all__ = ["DecisionReply", "Entry", "FactsReply", "GraphDecisionReply", "GraphReply", "Item", "stated_in"]

_MOST_FACTS: Final = 1_000
_MOST_ENTRIES: Final = 6_000
_LONGEST_TEXT: Final = 10_000
_SEVERAL: Final = "\x00several"  # marks a reply joined from several, each of which counts its own facts
_NULLABLE_TEXT: Final = {"type": ["string", "null"]}


def _record(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The schema of an object, as strict modes want it: every member required, no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
        **more,
    }


def _reply(title: str, description: str, root: str, item: dict[str, Any]) -> dict[str, Any]:
    return _record({root: {"type": "array", "items": item}}, title=title, description=description)


_FACT: Final = {
    "text": {"type": "string"},
    "turn": {"type": "integer", "description": "Number of the turn that says it."},
    "date": {**_NULLABLE_TEXT, "description": "The day it speaks of, in ISO 8601, or null."},
}
_RELATIONS: Final = {
    "type": "array",
    "items": _record(
        {
            "source": {"type": "string"},
            "relation": {"type": "string"},
            "target": {"type": "string"},
            "target_type": _NULLABLE_TEXT,
            "valid_from": {**_NULLABLE_TEXT, "description": "ISO 8601, or null."},
            "valid_to": {**_NULLABLE_TEXT, "description": "ISO 8601, or null."},
            "ended": {"type": "boolean", "description": "Whether it holds no longer."},
        }
    ),
}
_ENTRY: Final = {
    "fact": {"type": ["integer", "null"], "description": "Number of the fact that it answers."},
    "event": {"type": "string", "enum": ["ADD", "UPDATE", "DELETE", "NONE"]},
    "id": {**_NULLABLE_TEXT, "description": "The memory's id as given; for ADD null."},
    "text": {**_NULLABLE_TEXT, "description": "The memory's text after the event."},
    "old_memory": {**_NULLABLE_TEXT, "description": "For UPDATE: the text before."},
    "reason": {"type": "string", "description": "Why, in a few words."},
}


class Item(NamedTuple):
    """One item of the list of facts.

    Attributes:
        text: The fact; blank where the item holds none.
        members: The members of an object that it was sent as; empty for a plain string.
    """

    text: str
    members: Mapping[str, Any]


class FactsReply(ReplyModel):
    """Extraction: short statements, in the language of the conversation, each with its turn and its date."""

    name: ClassVar[str] = "facts_found"
    root: ClassVar[str] = "facts"
    aliases: ClassVar[frozenset[str]] = frozenset(
        {"fact", "memories", "memory", "results", "result", "items", "statements"}
    )
    wire: ClassVar[dict[str, Any]] = _reply(name, "The facts that were found.", root, _record(_FACT))

    facts: list[Item]

    @classmethod
    def is_entry(cls, value: Any) -> bool:
        """A string, or an object with one text in it that is no relation."""
        if isinstance(value, str):
            return True
        if not isinstance(value, dict) or cls.root in members_of(value) or is_relation(value):
            return False
        texts = _texts_of(value)
        return len(texts) == 1 and inner_value(texts[0]) is None

    @field_validator("facts", mode="before")
    @classmethod
    def _read(cls, value: Any) -> list[Item]:
        items = _items(value)
        count = sum(bool(item.strip()) if isinstance(item, str) else item is not None for item in items)
        if count > _MOST_FACTS:
            raise ValueError(f"{count:,} facts are too many; at most {_MOST_FACTS:,}, the most important ones")
        return [_item(item, place) for place, item in enumerate(items)]


class GraphReply(FactsReply):
    """Extraction with the relations that each fact states."""

    name: ClassVar[str] = "graph_found"
    further: ClassVar[Mapping[str, frozenset[str]]] = MappingProxyType(
        {
            "relations": frozenset({"relation", "relationships", "relationship", "triples", "triplets", "edges"}),
            "entities": frozenset({"entity", "nodes", "named_entities"}),
        }
    )
    wire: ClassVar[dict[str, Any]] = _reply(
        name,
        "The facts that were found and the relations they state.",
        "facts",
        _record(_FACT | {"relations": _RELATIONS}),
    )

    relations: Any = None
    entities: Any = None
    several: bool = Field(default=False, alias=_SEVERAL)

    @property
    def is_silent(self) -> bool:
        """Whether it says nothing of relations, not even that there are none."""
        return "relations" not in self.model_fields_set and not any(
            "relations" in item.members or stated_in(item) for item in self.facts
        )

    @classmethod
    def _joined(cls, shapes: list[dict[str, Any]]) -> dict[str, Any]:
        several = sum(cls.root in shape for shape in shapes) > 1 or any(shape.get(_SEVERAL) for shape in shapes)
        return {**super()._joined(shapes), **({_SEVERAL: True} if several else {})}


def stated_in(item: Item) -> list[Any]:
    """The relations inside of a fact that is an object, or that it is itself, as sent."""
    names = sorted({"relations", *GraphReply.further["relations"]} - {"relation", "relationship"})
    own = [item.members] if is_relation(item.members) else []
    return [*own, *(part for name in names for part in listed(item.members.get(name)))]


class Entry(BaseModel):
    """One line of a decision.

    Attributes:
        fact: Number of the new fact that it answers, where the model says so.
        event: What shall happen.
        id: Number of a known memory, as text; anything for an ADD.
        text: The memory's text after it.
        old_memory: The memory's text before it, where the model quotes it.
        reason: Why, where the model says so.
        relations: What the text says of relations, as sent; `None` where the model does not say.
    """

    model_config = ConfigDict(frozen=True)

    fact: int | None
    event: Event
    id: str
    text: str
    old_memory: str
    reason: str
    relations: Any = None

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError(f"an entry must be an object with fact, id, text and event, not {type(value).__name__}")  # noqa: TRY004 - pydantic collects ValueError
        members = members_of(value)
        fact, text = first_of(members, "fact"), first_of(members, "text", "memory", "new_memory", "content", "data")
        number = number_of(fact)
        if text is None and number is None and isinstance(fact, str):
            text = fact
        old = first_of(members, "old_memory", "previous_memory", "old_text", "old")
        return {
            "fact": number,
            "event": _event(members),
            "id": _id(first_of(members, "id", "memory_id", "number", "index", "key")),
            "text": _optional_text(text, "text"),
            "old_memory": _optional_text(old, "old_memory"),
            "reason": _optional_text(first_of(members, "reason", "why", "explanation"), "reason"),
            "relations": members.get("relations"),
        }


class DecisionReply(ReplyModel):
    """Decision: what each fact means for the memories."""

    name: ClassVar[str] = "memory_decided"
    root: ClassVar[str] = "memory"
    aliases: ClassVar[frozenset[str]] = frozenset(
        {"memories", "results", "result", "decisions", "actions", "items", "events"}
    )
    wire: ClassVar[dict[str, Any]] = _reply(name, "One entry for each fact.", root, _record(_ENTRY))

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


class GraphDecisionReply(DecisionReply):
    """Decision with the relations of texts that are not those of their facts."""

    name: ClassVar[str] = "memory_and_graph_decided"
    wire: ClassVar[dict[str, Any]] = _reply(
        name,
        "One entry for each fact.",
        "memory",
        _record(_ENTRY | {"relations": {**_RELATIONS, "type": ["array", "null"]}}),
    )


# ── lists ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _item(item: Any, place: int) -> Item:
    members = members_of(item) if isinstance(item, dict) else {}
    texts = [""] if item is None else _texts_of(item)
    if not texts and is_relation(item):
        texts = [""]
    if len(texts) != 1:
        raise ValueError(f"[{place}] must be a string, not {type(item).__name__}")
    return Item(_short_text(texts[0].strip(), f"facts[{place}]"), members)


def _items(value: Any) -> list[Any]:
    """The items of a list of facts, as sent. `null` holds nothing, so reading it as "none" loses nothing."""
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
    if len(_texts_of(value)) == 1:
        return [value]
    grouped = [(key, inner_or_self(member)) for key, member in value.items()]
    if not all(isinstance(member, list) or (key.isdigit() and isinstance(member, str)) for key, member in grouped):
        raise ValueError("must be a list of strings, each a full statement, not an object")
    return [item for _, member in grouped for item in _items(member)]


def _texts_of(value: Any) -> list[str]:
    """The texts in an item of a list of facts: itself, or those members of an object that could be its fact."""
    if isinstance(value, str):
        return [value]
    members = members_of(value) if isinstance(value, dict) else {}
    names = ("fact", "text", "memory", "content", "statement", "value", "data")
    return [member for name in names if isinstance(member := members.get(name), str)]


def _entries(value: Any) -> list[Any]:
    if value is None or (isinstance(value, str) and not value.strip()):
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


def _optional_text(value: Any, name: str) -> str:
    return "" if value is None else _short_text(value, name).strip()


def _short_text(value: Any, name: str) -> str:
    text = check_text(value, name)
    if len(text) > _LONGEST_TEXT:
        raise ValueError(
            f"{name} has {len(text):,} characters; a memory is a short statement, at most {_LONGEST_TEXT:,}"
        )
    return text
