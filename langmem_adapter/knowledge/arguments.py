"""What callers give to the knowledge graph, checked."""

from __future__ import annotations

from datetime import UTC, datetime

from langmem_adapter.arguments import filled, flag, memory_id_of, parse_time
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.names import LONGEST_NAME, LONGEST_RELATION, entity_key, relation_name, speaker
from langmem_adapter.records.checks import check_text, quoted
from langmem_adapter.storage.graph.reads import When

__all__ = [
    "confidence_of",
    "moment",
    "name_of",
    "relation_id_of",
    "relation_of",
    "type_of",
    "when_of",
]


def name_of(name: object, what: str) -> str:
    """The name of an entity; `SELF` and `ASSISTANT` for the words that mean these."""
    text = filled(name, what).strip()
    if len(text) > LONGEST_NAME:
        raise InvalidInputError(f"{what} has {len(text)} characters; a name has at most {LONGEST_NAME}")
    if not entity_key(text):
        raise InvalidInputError(f"{what}={text!r} is no name: it holds nothing but punctuation")
    return speaker(text) or text


def relation_of(name: object) -> str:
    """The name of a relation, in the form in which it is kept."""
    text = filled(name, "relation")
    if len(text) > LONGEST_RELATION:
        raise InvalidInputError(f"relation has {len(text)} characters; its name has at most {LONGEST_RELATION}")
    if not (known := relation_name(text)):
        raise InvalidInputError(f"relation={text!r} holds no word; name it like 'lives in'")
    return known


def type_of(kind: object, what: str) -> str:
    """The type of an entity, empty where nobody says."""
    return "" if kind is None else check_text(kind, what).strip()


def confidence_of(confidence: object) -> float:
    """How sure a relation is."""
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 < confidence <= 1:
        raise InvalidInputError(f"confidence is a number above 0 and at most 1, not {quoted(confidence)}")
    return float(confidence)


def relation_id_of(relation_id: object) -> str:
    """The id of a relation."""
    return memory_id_of(relation_id, whose="a relation's id")


def moment(value: object, what: str) -> datetime | None:
    """A point in time, where one is given."""
    return None if value is None else parse_time(value, what)


def when_of(as_of: object, known_at: object, *, history: bool = False) -> When:
    """Now where nothing is said; with the history everything."""
    past = flag(history, "history")
    held = datetime.now(UTC) if as_of is None and not past else moment(as_of, "as_of")
    return When(held, moment(known_at, "known_at"), past)
