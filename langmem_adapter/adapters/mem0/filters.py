"""Mem0's `filters`, `limit` and `expiration_date`: from its words to the engine's arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from langmem_adapter.errors import FilterError, InvalidInputError, ScopeError
from langmem_adapter.records import SCOPE_FIELDS

__all__ = ["count", "expiry", "scoped"]

_MOST: Final = 10_000
_OURS: Final = frozenset("data hash actor_id role memory_type created_at updated_at expiration_date".split())
_WORDS: Final = frozenset({"OR", "NOT", "$or", "$not", "$and"})


def scoped(
    filters: Mapping[str, Any] | None, *, user_id: str | None, agent_id: str | None, run_id: str | None
) -> dict[str, Any]:
    """Scope and metadata filters as the engine takes them, from arguments and `filters` together.

    `AND` joins what it holds, as a true conjunction: conditions that contradict each other are an error, never the last one.

    Args:
        filters: Scope fields and metadata values that must be equal; `AND` with a list of these.
        user_id: The argument of this name; a different one in *filters* is an error.
        agent_id: The same.
        run_id: The same.

    Raises:
        FilterError: An operator or wildcard, a field that is no metadata, or something that is no filter.
        ScopeError: Two places name different scopes.

    Example:
        >>> scoped({"user_id": "alice", "topic": "food"}, user_id=None, agent_id=None, run_id=None)
        {'user_id': 'alice', 'filters': {'topic': 'food'}}
    """
    scope = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id}
    scope = {name: value for name, value in scope.items() if value is not None}
    metadata: dict[str, Any] = {}
    for key, value in _conditions({} if filters is None else filters):
        if key in SCOPE_FIELDS:
            _join(scope, key, value, ScopeError)
        else:
            _join(metadata, key, value, FilterError)
    return {**scope, "filters": metadata}


def _conditions(filters: object) -> list[tuple[str, Any]]:
    if not isinstance(filters, Mapping):
        raise FilterError(f"filters must be a dict like {{'topic': 'food'}}, not {type(filters).__name__}")
    pairs: list[tuple[str, Any]] = []
    for key, value in filters.items():
        pairs.extend(_joined(value) if key == "AND" else [(key, _plain(key, value))])
    return pairs


def _joined(parts: object) -> list[tuple[str, Any]]:
    if not isinstance(parts, Sequence) or isinstance(parts, str):
        raise FilterError(f"filters: AND takes a list of filters, not {type(parts).__name__}")
    return [pair for part in parts for pair in _conditions(part)]


def _plain(key: object, value: object) -> Any:
    """The value of an equality; anything that Mem0 reads as more than that is refused rather than misread."""
    if not isinstance(key, str):
        raise FilterError(f"filters: a key is a text, not {key!r}")
    if key in _WORDS:
        raise FilterError(f"filters: {key!r} is not supported yet; ask once for each case and join the answers")
    if key in _OURS:
        raise FilterError(
            f"filters: {key!r} is no metadata, and only metadata and scope can be filtered yet; read row[{key!r}]"
        )
    if value == "*":
        raise FilterError(
            f"filters: the wildcard {key}='*' is not supported yet; leave {key!r} out, or give {key}='*' as an argument "
            "if that is the id"
            if key in SCOPE_FIELDS
            else f"filters: the wildcard {key}='*' is not supported yet; compare the key yourself in row['metadata']"
        )
    if isinstance(value, Mapping):
        known = ", ".join(map(repr, value)) or "none"
        raise FilterError(
            f"filters: operators ({known}) on {key!r} are not supported yet; give the value that must be equal"
        )
    if isinstance(value, list | tuple | set):
        raise FilterError(
            f"filters: a list for {key!r} means one of them, which is not supported yet; ask once for each value"
        )
    if key in SCOPE_FIELDS and value is None:
        raise ScopeError(f"filters: {key!r} is None; leave it out or give the id")
    return value


def _join(known: dict[str, Any], key: str, value: Any, error: type[FilterError | ScopeError]) -> None:
    if key in known and (known[key] != value or isinstance(known[key], bool) != isinstance(value, bool)):
        raise error(f"{key} is said twice, as {known[key]!r} and as {value!r}; nothing can be both")
    known[key] = value


def count(limit: int | None, top_k: int | None, default: int) -> int:
    """How many rows: `limit` of Mem0 1.x or `top_k` of 2.x.

    Raises:
        InvalidInputError: Both are given and differ, or it is no number from 1 to 10,000.
    """
    if limit is not None and top_k is not None and limit != top_k:
        raise InvalidInputError(f"limit={limit!r} and top_k={top_k!r} mean the same thing; give one of them")
    name, number = ("top_k", top_k) if limit is None else ("limit", limit)
    if number is None:
        return default
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= _MOST:
        raise InvalidInputError(f"{name} must be a whole number from 1 to {_MOST:,}, not {number!r}")
    return number


def expiry(expiration_date: date | str | None) -> datetime | None:
    """When a memory stops being shown: after its last day, which in Mem0 is a day of UTC; a time is meant exactly.

    Raises:
        InvalidInputError: It is no day and no time.

    Example:
        >>> expiry("2029-12-31")
        datetime.datetime(2030, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)
    """
    if expiration_date is None or isinstance(expiration_date, datetime):
        return expiration_date
    if isinstance(expiration_date, date):
        return _end(expiration_date)
    if not isinstance(expiration_date, str):
        raise InvalidInputError(f"expiration_date is a day like '2029-12-31', not {expiration_date!r}")
    try:
        day = date.fromisoformat(expiration_date)
    except ValueError:
        return _exact(expiration_date)
    return _end(day)


def _end(day: date) -> datetime:
    if day == date.max:
        raise InvalidInputError(
            f"expiration_date={day.isoformat()} has no day after it; leave it out to keep the memory"
        )
    return datetime.combine(day + timedelta(days=1), datetime.min.time(), UTC)


def _exact(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInputError(f"expiration_date is a day like '2029-12-31', not {text!r}") from None
