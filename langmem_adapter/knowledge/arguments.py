"""What callers give to the knowledge graph, checked."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from langmem_adapter.arguments import bounded, filled, flag, parse_time
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.names import LONGEST_NAME, LONGEST_RELATION, entity_key, owner_role, relation_name
from langmem_adapter.records.checks import check_text, quoted
from langmem_adapter.records.graph import Triple
from langmem_adapter.storage.graph.reads import When
from langmem_adapter.storage.tables import MOST_MENTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping


def name_of(name: object, what: str) -> str:
    """The name of an entity; `SELF` and `ASSISTANT` for the words that mean these."""
    text = filled(name, what).strip()
    if len(text) > LONGEST_NAME:
        raise InvalidInputError(f"{what} has {len(text)} characters; a name has at most {LONGEST_NAME}")
    if not entity_key(text):
        raise InvalidInputError(f"{what}={text!r} is no name: it holds nothing but punctuation")
    return owner_role(text) or text


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


def triple_of(told: Mapping[str, Any]) -> Triple:
    """A relation as somebody tells it, by the names of `Triple`'s fields; what is left out is as it is there."""
    triple = Triple(
        source=name_of(told.get("source"), "source"),
        relation=relation_of(told.get("relation")),
        target=name_of(told.get("target"), "target"),
        source_type=type_of(told.get("source_type"), "source_type"),
        target_type=type_of(told.get("target_type"), "target_type"),
        valid_from=moment(told.get("valid_from"), "valid_from"),
        valid_to=moment(told.get("valid_to"), "valid_to"),
        single=None if told.get("single") is None else flag(told["single"], "single"),
        confidence=_confidence(told.get("confidence", 1.0)),
        mentions=1 if told.get("mentions") is None else bounded(told["mentions"], "mentions", most=MOST_MENTIONS),
    )
    if triple.valid_from is not None and triple.valid_to is not None and triple.valid_from >= triple.valid_to:
        raise InvalidInputError("valid_from must lie before valid_to")
    return triple


def _confidence(confidence: object) -> float:
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 < confidence <= 1:
        raise InvalidInputError(f"confidence is a number above 0 and at most 1, not {quoted(confidence)}")
    return float(confidence)


def moment(value: object, what: str) -> datetime | None:
    """A point in time, where one is given."""
    return None if value is None else parse_time(value, what)


def when_of(as_of: object, known_at: object, *, history: bool = False, ever: bool = False) -> When:
    """What is believed now, and with the history all that was; it holds now or, with either of the two, at any time."""
    past = flag(history, "history")
    held = datetime.now(UTC) if as_of is None and not (past or ever) else moment(as_of, "as_of")
    return When(held, moment(known_at, "known_at"), past)
