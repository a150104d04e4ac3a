"""The reply of a chat model that is asked for facts and for the relations that they state.

`{"facts": [...], "entities": [...], "relations": [...]}`, and what weak models make of it: Mem0's words for the same, relations
inside of facts, triples as lists. Only the facts are checked here. What cannot be read of the graph is told, item by item,
so that it can be asked for again or left out without costing a fact.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pydantic import Field, field_validator

from langmem_adapter.reasoning.listing import ReplyModel, inner_or_self
from langmem_adapter.reasoning.replies import FactsReply, statements, text_of, texts_of
from langmem_adapter.reasoning.salvage import UnusableReplyError
from langmem_adapter.reasoning.triples import entity, is_relation, readable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["GraphReply", "Stated", "entities_of", "relations_of"]

_SEVERAL: Final = "\x00several"  # marks a reply joined from several, each of which counts its own facts


@dataclass(frozen=True, slots=True)
class Stated:
    """One item of the list of facts.

    Attributes:
        text: The fact; blank where the item holds none.
        item: As it was sent: an object may hold relations as well.
    """

    text: str
    item: Any = None


class GraphReply(ReplyModel):
    """Extraction with relations. Everything but the facts is kept as it was sent."""

    name: ClassVar[str] = "graph_found"
    root: ClassVar[str] = FactsReply.root
    aliases: ClassVar[frozenset[str]] = FactsReply.aliases
    further: ClassVar[Mapping[str, frozenset[str]]] = MappingProxyType(
        {
            "entities": frozenset({"entity", "nodes", "named_entities"}),
            "relations": frozenset({"relation", "relationships", "relationship", "triples", "triplets", "edges"}),
        }
    )
    wire: ClassVar[dict[str, Any]] = {
        "title": name,
        "description": "The facts that were found and the relations that they state; empty lists if there are none.",
        "type": "object",
        "properties": {
            "facts": {"type": "array", "items": {"type": "string"}},
            "entities": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}, "type": {"type": "string"}},
                    "required": ["name", "type"],
                    "additionalProperties": False,
                },
            },
            "relations": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "source": {"type": "string"},
                        "relation": {"type": "string"},
                        "target": {"type": "string"},
                        "fact": {"type": ["integer", "null"], "description": "Number of the fact, from 0."},
                        "valid_from": {"type": ["string", "null"], "description": "ISO 8601, or null."},
                        "valid_to": {"type": ["string", "null"], "description": "ISO 8601, or null."},
                        "ended": {"type": "boolean", "description": "Whether it holds no longer."},
                        "confidence": {"type": ["number", "null"], "description": "0 to 1."},
                    },
                    "required": [
                        *("source", "relation", "target", "fact"),
                        *("valid_from", "valid_to", "ended", "confidence"),
                    ],
                    "additionalProperties": False,
                },
            },
        },
        "required": ["facts", "entities", "relations"],
        "additionalProperties": False,
    }

    facts: list[Stated]
    entities: Any = None
    relations: Any = None
    several: bool = Field(default=False, alias=_SEVERAL)

    @property
    def is_silent(self) -> bool:
        """Whether it says nothing of relations, not even that there are none."""
        return "relations" not in self.model_fields_set and not any(_nested(stated.item) for stated in self.facts)

    @classmethod
    def is_entry(cls, value: Any) -> bool:
        """A string, or an object with one text in it that is no relation."""
        return FactsReply.is_entry(value) and not is_relation(value)

    @classmethod
    def _joined(cls, shapes: list[dict[str, Any]]) -> dict[str, Any]:
        several = sum(cls.root in shape for shape in shapes) > 1 or any(shape.get(_SEVERAL) for shape in shapes)
        return {**super()._joined(shapes), **({_SEVERAL: True} if several else {})}

    @field_validator("facts", mode="before")
    @classmethod
    def _read(cls, value: Any) -> list[Stated]:
        return [Stated(_text(item, place), item) for place, item in enumerate(statements(value))]


def relations_of(reply: GraphReply) -> Iterator[tuple[Any, int | None]]:
    """Every relation, as sent, with the place of the fact that it stood in.

    Mem0 calls its list of relations "entities"; those are found as well.
    """
    for item in _listed(reply.relations):
        yield item, None
    for item in _listed(reply.entities):
        if is_relation(item):
            yield item, None
    for place, stated in enumerate(reply.facts):
        for item in _nested(stated.item):
            yield item, place


def entities_of(reply: GraphReply) -> Iterator[tuple[str, str] | str]:
    """Keys and types; in the place of one that cannot be read, what is wrong with it."""
    sent = [reply.entities, *(members.get("entities") for members in (readable(each.item) for each in reply.facts))]
    for item in (item for part in sent for item in _listed(part)):
        if not is_relation(item):
            yield from entity(item)


# ── lists ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _text(item: Any, place: int) -> str:
    return "" if is_relation(item) and not texts_of(item) else text_of(item, place)


def _opened(value: Any) -> Any:
    """The JSON inside of a string, where it can be read; it is only the graph, so what cannot is told later."""
    try:
        return inner_or_self(value)
    except UnusableReplyError:
        return value


def _listed(value: Any) -> list[Any]:
    """The items of a list; an object may be one item, or items by number; lists of lists of objects are one."""
    value = _opened(value)
    if value is None or value in ("", {}):
        return []
    if isinstance(value, dict):
        numbered = all(isinstance(member, dict) for member in value.values()) and not is_relation(value)
        return [*value.values()] if numbered else [value]
    if not isinstance(value, list):
        return [value]
    items = [_opened(item) for item in value if item is not None]
    return [part for item in items for part in (item if _is_list_of_objects(item) else [item])]


def _is_list_of_objects(item: Any) -> bool:
    return isinstance(item, list) and all(isinstance(part, dict) for part in item)


def _nested(item: Any) -> list[Any]:
    """The relations inside of a fact that is an object, or that it is itself."""
    members = readable(item)
    names = ("relations", *GraphReply.further["relations"])
    lists = [members[name] for name in sorted(names) if isinstance(_opened(members.get(name)), list | dict)]
    return [*([item] if is_relation(item) else []), *(part for each in lists for part in _listed(each))]
