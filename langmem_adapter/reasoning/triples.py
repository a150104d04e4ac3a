"""Relations of a knowledge graph, and dates, as chat models write them: ISO 8601; our names of the members, or Mem0's."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from langmem_adapter.names import LONGEST_NAME, LONGEST_RELATION, entity_key, relation_name, speaker
from langmem_adapter.reasoning.json_text import UnusableReplyError, decoded, members_of
from langmem_adapter.records.checks import check_text
from langmem_adapter.records.graph import ASSISTANT, SELF, Triple

__all__ = ["interval", "is_relation", "period", "relations_in", "triple_of"]

_LONGEST_TYPE: Final = 50
_MEM0: Final = {"relationship": "relation", "destination": "target", "destination_type": "target_type"}
_BOOLEANS: Final = {"true": True, "false": False, "none": False}
_PRONOUNS: Final = frozenset(
    "he she it they we you him her them us his hers its their theirs our ours your yours this that these those here there "
    "himself herself itself themselves someone somebody something 他 她 它 他们 她们 它们 我们 咱们 你 您 你们 这 那 这里 那里 "
    "这个 那个 其".split()
)
_FIRST_PERSON: Final = frozenset({"i", "me", "my", "myself", "我", "我自己", "本人"})


def relations_in(value: Any) -> list[Any]:
    """The items of a list of relations, as sent; one alone may stand without a list."""
    try:
        value = decoded(value)
    except UnusableReplyError:
        return [value]  # it costs no fact: what is wrong with it is told like that of any relation
    if value is None or value in ("", {}):
        return []
    return [item for item in value if item is not None] if isinstance(value, list) else [value]


def is_relation(item: Any) -> bool:
    """Whether an item says that it is from one thing to another."""
    try:
        return {"source", "target"} <= _members(item).keys()
    except ValueError:
        return False


def triple_of(item: Any, about: str) -> tuple[Triple, list[str]]:
    """One relation, and which of its dates cannot be read and are left out; "I" is whom the facts are *about*."""
    members = _members(item)
    problems: list[str] = []
    since, until = _date(members, "valid_from", problems), _date(members, "valid_to", problems)
    try:
        start, end = interval(since, until)
    except ValueError as error:
        problems.append(str(error))
        start, end = None, None
    triple = Triple(
        _name(members, "source", about),
        _relation(members),
        _name(members, "target", about),
        _type(members, "source_type"),
        _type(members, "target_type"),
        valid_from=start,
        valid_to=end,
        ended=_ended(members),
    )
    return triple, problems


def _members(item: Any) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise ValueError(f"must be an object with source, relation and target, not {type(item).__name__}")  # noqa: TRY004 - told like all that is wrong with it
    try:
        members = members_of(item)
    except UnusableReplyError as error:
        raise ValueError(str(error)) from None
    return {_MEM0.get(name, name): member for name, member in members.items()}


def _name(members: dict[str, Any], role: str, about: str) -> str:
    name = " ".join(check_text(members.get(role), role).split())
    if len(name) > LONGEST_NAME:
        raise ValueError(f"{role} has {len(name):,} characters; a name has at most {LONGEST_NAME}")
    if not entity_key(name):
        raise ValueError(f"{role} is empty; it must be a name")
    if name.casefold() in _FIRST_PERSON:
        return ASSISTANT if about == ASSISTANT else SELF
    if name.casefold() in _PRONOUNS:
        raise ValueError(f"{role} is a pronoun, {name!r}; write the name of who or what is meant")
    return speaker(name) or name


def _relation(members: dict[str, Any]) -> str:
    text = check_text(members.get("relation"), "relation").strip()
    name = relation_name(text) if len(text) <= LONGEST_RELATION else text
    if len(name) > LONGEST_RELATION:
        raise ValueError(f"relation has {len(text):,} characters; its name has at most {LONGEST_RELATION}")
    if not name:
        raise ValueError('relation is empty; it must be a name like "works_at"')
    return name


def _type(members: dict[str, Any], name: str) -> str:
    try:
        return " ".join(check_text(members.get(name), name).casefold().split())[:_LONGEST_TYPE].strip()
    except ValueError:
        return ""


def _date(members: dict[str, Any], name: str, problems: list[str]) -> DateSpan | None:
    try:
        return period(members.get(name))
    except ValueError as error:
        problems.append(f"{name}: {error}")
        return None


def _ended(members: dict[str, Any]) -> bool:
    told = str(members.get("ended")).strip().casefold()
    if told not in _BOOLEANS:
        raise ValueError(f"ended must be true or false, not {told[:40]!r}")
    return _BOOLEANS[told]


DateSpan = tuple[datetime, datetime]
"""A stretch of time, half-open: a year, a month, a day; of an exact time, both ends are that time."""

_DATE: Final = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?", re.ASCII)
_NO_DATE: Final = frozenset({"", "null", "none", "unknown", "present"})


def period(value: Any) -> DateSpan | None:
    """The time that a date means, in UTC where no zone is named; `None` where it says that there is no date.

    Raises:
        ValueError: It is no date.

    Example:
        >>> [str(time.date()) for time in period("2019-05")]
        ['2019-05-01', '2019-06-01']
    """
    text = "" if value is None else str(value).strip()
    if text.casefold() in _NO_DATE:
        return None
    try:
        return _period(text)
    except (ValueError, OverflowError):
        raise ValueError(f"{text[:40]!r} is no date in ISO 8601, like 2019, 2019-05 or 2019-05-31") from None


def interval(since: DateSpan | None, until: DateSpan | None) -> tuple[datetime | None, datetime | None]:
    """From when and until when: the beginnings of both; of one period named twice, its beginning and its end.

    Raises:
        ValueError: It ends before it begins.
    """
    start, end = since and since[0], until and until[0]
    if start and until and until[0] <= start:
        end = until[1]
    if start and end and end <= start:
        raise ValueError(f"valid_to ({end.isoformat()}) is not after valid_from ({start.isoformat()})")
    return start, end


def _period(text: str) -> DateSpan:
    told = _DATE.fullmatch(text)
    if told is None:
        time = datetime.fromisoformat(text)
        time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
        return time, time
    year, month, day = (int(part) if part else None for part in told.groups())
    start = datetime(year or 0, month or 1, day or 1, tzinfo=UTC)
    if day is not None:
        return start, start + timedelta(days=1)
    return start, (start + timedelta(days=31 if month else 366)).replace(day=1)
