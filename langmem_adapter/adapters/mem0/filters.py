"""Mem0's `filters`, `limit` and `expiration_date`: from its words to the engine's arguments."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, TypeAlias

from langmem_adapter.arguments import bounded, parse_time
from langmem_adapter.errors import FilterError, InvalidInputError, ScopeError
from langmem_adapter.filters import LOGIC, parse
from langmem_adapter.records.checks import DEEPEST, quoted
from langmem_adapter.records.scope import SCOPE_FIELDS

__all__ = ["Id", "beyond_scope", "count", "dated", "either", "expiry", "named", "scoped", "tidy"]

Id: TypeAlias = str | int | None
"""A user, an agent or a run: a number means its digits, blanks around it do not count."""

_ELSEWHERE: Final = {
    "data": "called 'text' here",
    "expiration_date": "called 'expires_at' here, which is a time",
    "hash": "made of other parts here; compare the 'text'",
}
_ANYBODY: Final = (
    "leave it out beside another id, or give {'exists': True}, for any; {'eq': '*'} for the one of that name"
)
_LONGEST: Final = 10**512  # an id has no more letters


def named(user_id: Any, agent_id: Any, run_id: Any) -> dict[str, Any]:
    """The fields of a scope as the engine takes them."""
    return dict(zip(SCOPE_FIELDS, map(_id, (user_id, agent_id, run_id)), strict=True))


def _id(value: Any) -> Any:
    digits = isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LONGEST
    return str(value) if digits else value.strip() if isinstance(value, str) else value


def tidy(filters: Any) -> Any:
    """Filters, with ids as `named` makes them; too deep ones are a `FilterError`, the id `"*"` is a `ScopeError`."""
    try:
        return _tidied(filters, "AND")
    except RecursionError:
        raise FilterError(f"a filter may be nested {DEEPEST} deep; flatten it") from None


def _tidied(part: Any, key: str) -> Any:
    if isinstance(part, Mapping):
        if stars := [name for name in SCOPE_FIELDS if key in LOGIC and _id(part.get(name)) == "*"]:
            raise ScopeError(f"filters: {stars[0]!r} is '*', which may mean two things: {_ANYBODY}")
        return {name: _tidied(each, key if key in SCOPE_FIELDS else name) for name, each in part.items()}
    if isinstance(part, list | tuple):
        return [_tidied(each, key) for each in part]
    return _id(part) if key in SCOPE_FIELDS else part


def scoped(filters: Mapping[str, Any] | None, *, user_id: Id, agent_id: Id, run_id: Id) -> dict[str, Any]:
    """Scope and filters as the engine takes them, from arguments and `filters` together.

    The scope is what surely holds: scope fields that are to be equal, at the top or within `AND`. Everything else is the
    engine's own filter language, which is also Mem0's. Contradictions are errors, never settled by the last one.

    Raises:
        FilterError: It is no filter (give it to `tidy` first), or names a field that has another name here.
        ScopeError: Two places name different scopes.
    """
    scope = {name: value for name, value in named(user_id, agent_id, run_id).items() if value is not None}
    wanted = parse(filters, objects=False)
    for key in wanted.fields & _ELSEWHERE.keys():
        raise FilterError(
            f"filters: {key!r} is {_ELSEWHERE[key]}; a key of the metadata of this name is 'metadata.{key}'"
        )
    for condition in wanted.conditions:
        if condition.key in SCOPE_FIELDS and condition.operator == "eq":
            _join(scope, condition.key, condition.operand)
    return {**scope, "filters": filters}


def beyond_scope(filters: Mapping[str, Any] | None) -> bool:
    """Whether filters ask for more than a scope, so that of the graph only what the memories found say can be shown."""
    wanted = parse(filters, objects=False)
    known = {condition.key for condition in wanted.conditions if condition.operator == "eq"}
    return not wanted.fields <= known & {*SCOPE_FIELDS}


def _join(scope: dict[str, Any], key: str, value: Any) -> None:
    if value is None:
        raise ScopeError(f"filters: {quoted(key)} is None; leave it out or give the id")
    if scope.setdefault(key, value) != value:
        raise ScopeError(f"{key} is said twice, as {quoted(scope[key])} and as {quoted(value)}; nothing can be both")


def count(limit: int | None, top_k: int | None, default: int) -> int:
    """How many rows, 0 to 10,000: `limit` of Mem0 1.x or `top_k` of 2.x, which may not differ."""
    number = either("limit", limit, "top_k", top_k)
    return default if number is None else bounded(number, "top_k" if limit is None else "limit", least=0)


def dated(metadata: Mapping[str, Any] | None, timestamp: Any) -> tuple[Mapping[str, Any] | None, Any]:
    """Metadata and timestamp of an add: `created_at` in the metadata is the time of the conversation."""
    if not isinstance(metadata, Mapping) or metadata.get("created_at") is None:
        return metadata, timestamp
    if timestamp is not None:
        raise InvalidInputError("timestamp and metadata['created_at'] both date the memory; give one of them")
    return {key: value for key, value in metadata.items() if key != "created_at"}, metadata["created_at"]


def either(name: str, value: Any, other: str, same: Any) -> Any:
    """The one that is given of two arguments that mean the same thing, and may not differ."""
    if value is not None and same is not None and value != same:
        raise InvalidInputError(f"{name} and {other} mean the same thing and differ; give one of them")
    return same if value is None else value


def expiry(expiration_date: date | str | None) -> datetime | None:
    """When a memory stops being shown: after its last day, which in Mem0 is a day of UTC; a time is meant exactly."""
    if expiration_date is None or isinstance(expiration_date, datetime):
        return expiration_date
    if isinstance(expiration_date, date):
        return _end(expiration_date)
    if not isinstance(expiration_date, str):
        raise InvalidInputError(f"expiration_date is a day like '2029-12-31', not {quoted(expiration_date)}")
    try:
        day = date.fromisoformat(expiration_date)
    except ValueError:
        return parse_time(expiration_date, "expiration_date")
    return _end(day)


def _end(day: date) -> datetime:
    if day == date.max:
        raise InvalidInputError(
            f"expiration_date={day.isoformat()} has no day after it; leave it out to keep the memory"
        )
    return datetime.combine(day + timedelta(days=1), datetime.min.time(), UTC)
