"""One relation of a knowledge graph, and one entity, as chat models write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.names import LONGEST_NAME, LONGEST_RELATION, entity_key, relation_name, speaker
from langmem_adapter.reasoning.listing import inner_or_self, members_of
from langmem_adapter.reasoning.said import degree, first_of, flag, interval, period
from langmem_adapter.reasoning.salvage import UnusableReplyError
from langmem_adapter.records.checks import check_text
from langmem_adapter.records.graph import ASSISTANT, SELF, Triple

if TYPE_CHECKING:
    from langmem_adapter.reasoning.said import Period

__all__ = ["Told", "is_relation", "listed", "told", "types_of"]

_LONGEST_TYPE: Final = 50
_LEAST: Final = 0.01  # of a confidence, which is above 0

_NAME: Final = ("name", "entity", "entity_name", "id", "text")
_TYPE: Final = ("type", "entity_type", "label", "category", "kind")
_SOURCE: Final = ("source", "subject", "head", "source_node", "source_entity")
_TARGET: Final = ("target", "destination", "object", "tail", "target_node", "destination_node", "target_entity")
_RELATION: Final = ("relation", "relationship", "predicate", "relation_type", "relationship_type", "type", "label")
_FACT: Final = ("fact", "fact_index", "fact_idx", "fact_id", "fact_number")
_SINCE: Final = ("valid_from", "valid_at", "since", "start", "start_date")
_UNTIL: Final = ("valid_to", "valid_until", "until", "end", "end_date", "invalid_at")
_PRONOUNS: Final = frozenset(
    "he she it they we you him her them us his hers its their theirs our ours your yours this that these those here there "
    "himself herself itself themselves someone somebody something 他 她 它 他们 她们 它们 我们 咱们 你 您 你们 这 那 这里 那里 "
    "这个 那个 其".split()
)
_FIRST_PERSON: Final = frozenset({"i", "me", "my", "myself", "我", "我自己", "本人"})


@dataclass(frozen=True, slots=True)
class Told:
    """One relation of a reply.

    Attributes:
        triple: It, with as much as could be read.
        fact: Which fact states it, as sent: a number, a text, `None`.
        problems: What could not be read and is left out, worth asking again.
        notes: What was changed.
    """

    triple: Triple
    fact: Any
    problems: tuple[str, ...]
    notes: tuple[str, ...]


def told(item: Any, about: str) -> Told:
    """One relation, read.

    Args:
        item: As sent.
        about: Who "I" is: `"user"` or `"assistant"`.

    Raises:
        ValueError: It is no relation; the text says why, for the model.
    """
    members = _relation_members(item)
    source, source_type = _named(first_of(members, *_SOURCE, "from"), "source", about)
    target, target_type = _named(first_of(members, *_TARGET, "to"), "target", about)
    problems: list[str] = []
    since, until = _dates(members, problems)
    sure, notes = _confidence(first_of(members, "confidence", "certainty", "probability", "score"))
    triple = Triple(
        source,
        _relation(first_of(members, *_RELATION)),
        target,
        source_type or _type(members.get("source_type")),
        target_type or _type(first_of(members, "target_type", "destination_type")),
        valid_from=since,
        valid_to=until,
        ended=_ended(first_of(members, "ended", "is_ended")),
        confidence=sure,
    )
    return Told(triple, first_of(members, *_FACT), tuple(problems), notes)


def types_of(entities: Any) -> dict[str, str]:
    """The types in Mem0's list of entities, by `names.entity_key`; what cannot be read says no type."""
    types: dict[str, str] = {}
    for item in listed(entities):
        members = _readable(item)
        name = first_of(members, *_NAME)
        named = [(name, first_of(members, *_TYPE))] if name is not None else members.items()  # {"Anna": "person"}
        for each, kind in named:
            if isinstance(each, str) and _type(kind):
                types.setdefault(entity_key(speaker(each) or each), _type(kind))
    return types


def listed(value: Any) -> list[Any]:
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


def _opened(value: Any) -> Any:
    """The JSON inside of a string, where it can be read; it is only the graph, so what cannot is told later."""
    try:
        return inner_or_self(value)
    except UnusableReplyError:
        return value


def _readable(item: Any) -> dict[str, Any]:
    """The members of an object by their names in lower case; none of what is no object, or one with a name twice."""
    try:
        return members_of(item) if isinstance(item, dict) else {}
    except UnusableReplyError:
        return {}


def is_relation(item: Any) -> bool:
    """Whether an item says that it is from one thing to another."""
    members = _readable(item)
    return any(name in members for name in _SOURCE) and any(name in members for name in _TARGET)


# ── fields ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _relation_members(item: Any) -> dict[str, Any]:
    if isinstance(item, list) and len(item) == 3:  # noqa: PLR2004 - a triple
        return dict(zip(("source", "relation", "target"), item, strict=True))
    if not isinstance(item, dict):
        raise ValueError(f"must be an object with source, relation and target, not {type(item).__name__}")  # noqa: TRY004 - told like all that is wrong with it
    try:
        return members_of(item)
    except UnusableReplyError as error:
        raise ValueError(error.problem) from None


def _named(value: Any, role: str, about: str) -> tuple[str, str]:
    """A name and, where it stands in an object, its type."""
    members = _readable(value)
    kind = _type(first_of(members, *_TYPE))
    value = first_of(members, *_NAME) if members else value
    if isinstance(value, int | float) and not isinstance(value, bool) and role == "target":
        value = str(value)
    if not isinstance(value, str):
        raise ValueError(f"{role} must be a name, not {type(value).__name__}")  # noqa: TRY004 - told like all that is wrong with it
    return _name(value, role, about), kind


def _name(value: str, role: str, about: str) -> str:
    name = " ".join(check_text(value, role).split())
    if len(name) > LONGEST_NAME:
        raise ValueError(f"{role} has {len(name):,} characters; a name has at most {LONGEST_NAME}")
    if not entity_key(name):
        raise ValueError(f"{role} is empty; it must be a name")
    if name.casefold() in _FIRST_PERSON:
        return ASSISTANT if about == ASSISTANT else SELF
    if name.casefold() in _PRONOUNS:
        raise ValueError(f"{role} is a pronoun, {name!r}; write the name of who or what is meant")
    return speaker(name) or name


def _relation(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f'relation must be a name like "works_at", not {type(value).__name__}')  # noqa: TRY004 - told like all that is wrong with it
    text = check_text(value, "relation").strip()
    name = relation_name(text) if len(text) <= LONGEST_RELATION else text
    if len(name) > LONGEST_RELATION:
        raise ValueError(f"relation has {len(text):,} characters; its name has at most {LONGEST_RELATION}")
    if not name:
        raise ValueError('relation is empty; it must be a name like "works_at"')
    return name


def _type(value: Any) -> str:
    try:
        return " ".join(check_text(value, "type").casefold().split())[:_LONGEST_TYPE].strip()
    except ValueError:
        return ""


def _dates(members: dict[str, Any], problems: list[str]) -> tuple[Any, Any]:
    """From when and until when, as far as they can be read."""
    since, until = _date(members, _SINCE, problems), _date(members, _UNTIL, problems)
    try:
        return interval(since, until)
    except ValueError as error:
        problems.append(str(error))
        return None, None


def _date(members: dict[str, Any], names: tuple[str, ...], problems: list[str]) -> Period | None:
    try:
        return period(first_of(members, *names))
    except ValueError as error:
        problems.append(f"{names[0]}: {error}")
        return None


def _ended(value: Any) -> bool:
    try:
        return flag(value)
    except ValueError as error:
        raise ValueError(f"ended {error}") from None


def _confidence(value: Any) -> tuple[float, tuple[str, ...]]:
    if value is None or value == "":
        return 1.0, ()
    number = degree(value)
    if number is None:
        return 1.0, (f"the confidence {str(value)[:40]!r} is no number and was left out",)
    sure = min(max(number, _LEAST), 1.0)
    return sure, () if sure == number else (f"the confidence {str(value)[:40]!r} was read as {sure}",)
