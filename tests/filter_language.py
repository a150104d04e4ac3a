"""Random filters and values, and the slow, plain reading of the filter language that the real one is compared with."""

from __future__ import annotations

import operator
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

from hypothesis import strategies as st

OPERATORS = ("eq", "ne", "gt", "gte", "lt", "lte", "in", "nin", "contains", "icontains", "exists")
KEYS = ("a", "b", "tags", "when", "box", "box.a", "a.b", "x') OR ('1'='1", "%", "_")

# Few values, so that filters hold now and then, and look-alikes of every type.
TEXTS = st.sampled_from(
    [
        "",
        "a",
        "A",
        "b",
        "ab",
        "aB",
        "1",
        "*",
        "%",
        "Straße",
        "STRASSE",
        "2024-01-01",
        "2024-01-01T00:00:00Z",
        "2024-01-01T01:00:00+02:00",
        "2024-01-02 03:04",
        "2024-13-01",
        "20240101",
    ]
)
NUMBERS = st.sampled_from([0, 1, 2, -1, 1.0, 1.5, 10**20])
SCALARS = st.one_of(TEXTS, NUMBERS, st.booleans(), st.none())
JSON = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=2),
    st.dictionaries(st.sampled_from(["a", "b", "a.b"]), SCALARS | st.lists(SCALARS, max_size=1), max_size=2),
)
VALUES = st.dictionaries(st.sampled_from(KEYS), JSON, max_size=5)
MOMENTS = st.sampled_from(
    [
        datetime(2024, 1, 1, tzinfo=UTC),
        datetime(2024, 1, 1),  # noqa: DTZ001 - without a zone it is UTC
        datetime(2024, 1, 2, 5, 4, tzinfo=timezone(timedelta(hours=2))),
        date(2024, 1, 1),
    ]
)


START = datetime(2024, 1, 1, tzinfo=UTC)
SAMPLES: list[Any] = [
    *(None, True, 0, 1, 1.5, "", "a", "A", "1", "*", "%", "2024-01-01", "2024-01-01T01:00:00+02:00", ["a", 1], []),
    *({"a": 1}, {"a": "A", "b": [1]}, {"a.b": 1.0}, {"a": {"b": 1}}),
]


def conditions(values: st.SearchStrategy[Any] = JSON) -> st.SearchStrategy[Any]:
    """What may stand under a key."""
    return st.one_of(
        values,
        st.dictionaries(st.sampled_from(["eq", "ne", "contains"]), values, min_size=1, max_size=2),
        st.dictionaries(st.sampled_from(["gt", "gte", "lt", "lte"]), TEXTS | NUMBERS | MOMENTS, min_size=1, max_size=2),
        st.dictionaries(st.sampled_from(["in", "nin"]), st.lists(values | MOMENTS, max_size=3), min_size=1, max_size=2),
        st.fixed_dictionaries({"icontains": TEXTS}),
        st.fixed_dictionaries({"exists": st.booleans()}),
        MOMENTS,
    )


PLAIN: st.SearchStrategy[dict[str, Any]] = st.dictionaries(st.sampled_from(KEYS), conditions(), min_size=1, max_size=2)


def filters(plain: st.SearchStrategy[dict[str, Any]] = PLAIN) -> st.SearchStrategy[dict[str, Any]]:
    """Filters that are right, nested a few levels deep, in bare words."""
    return st.recursive(
        plain,
        lambda parts: st.one_of(
            st.dictionaries(st.sampled_from(["AND", "OR", "NOT"]), st.lists(parts, min_size=1, max_size=3), min_size=1),
            st.tuples(plain, parts).map(lambda pair: {**pair[0], "NOT": pair[1]}),
        ),
        max_leaves=5,
    )


# Some of what is asked for exists, some is a look-alike of it.
FIELD_TEXTS = {
    "user_id": ("alice", "Alice", "alic%"),
    "agent_id": ("bot", "Bot"),
    "run_id": ("1", "Alice"),
    "memory_type": ("fact", "procedural_memory"),
    "actor_id": ("alice", "bob", "b_b"),
    "role": ("user", "assistant"),
    "text": ("cat", "CAT", "'; DROP TABLE memories; --"),
    "metadata.role": ("boss", "user"),
}
_HOURS = [START + timedelta(hours=hours) for hours in (-1, 0, 5, 6, 7, 30)]
FIELD_TIMES = [*_HOURS, *(moment.isoformat() for moment in _HOURS), "2024-01-01", "2024-01-02"]


def _texts(name: str) -> st.SearchStrategy[dict[str, Any]]:
    some = st.sampled_from(FIELD_TEXTS[name])
    return st.one_of(
        some,
        st.none(),
        st.just("*"),
        st.lists(some, min_size=1, max_size=2),
        st.dictionaries(
            st.sampled_from(["eq", "ne", "gt", "lte", "contains", "icontains"]), some, min_size=1, max_size=2
        ),
        st.dictionaries(st.sampled_from(["in", "nin"]), st.lists(some | st.none(), max_size=2), min_size=1, max_size=2),
        st.fixed_dictionaries({"exists": st.booleans()}),
    ).map(lambda condition: {name: condition})


def _times(name: str) -> st.SearchStrategy[dict[str, Any]]:
    some = st.sampled_from(FIELD_TIMES)
    return st.one_of(
        some,
        st.none(),
        st.dictionaries(st.sampled_from(["eq", "ne", "gt", "gte", "lt", "lte"]), some, min_size=1, max_size=2),
        st.fixed_dictionaries({"in": st.lists(some, max_size=3)}),
        st.fixed_dictionaries({"exists": st.booleans()}),
    ).map(lambda condition: {name: condition})


MEMORY_FILTERS = filters(
    st.one_of(
        PLAIN, st.one_of(*map(_texts, FIELD_TEXTS)), st.one_of(*map(_times, ("created_at", "updated_at", "expires_at")))
    )
)


def dollars(value: Any) -> Any:
    """The same filter with `$` before every word that may have one."""
    if isinstance(value, list):
        return [dollars(part) for part in value]
    if not isinstance(value, dict):
        return value
    return {_dollar(name): _within(name, part) for name, part in value.items()}


def _dollar(name: str) -> str:
    return f"${name.lower()}" if name in {*OPERATORS, "AND", "OR", "NOT"} else name


def _within(name: str, part: Any) -> Any:
    return part if name in OPERATORS else dollars(part)  # an operand is a value, whatever its keys


# ── the plain reading ─────────────────────────────────────────────────────────────────────────────────────────────────


def holds(wanted: dict[str, Any], values: dict[str, Any]) -> bool:
    """Whether a filter in bare words holds."""
    return all(_entry(key, under, values) for key, under in wanted.items())


def _entry(key: str, under: Any, values: dict[str, Any]) -> bool:
    if key in {"AND", "OR", "NOT"}:
        told = [holds(part, values) for part in ([under] if isinstance(under, dict) else under)]
        return {"AND": all(told), "OR": any(told), "NOT": not any(told)}[key]
    found = _find(values, key)
    if isinstance(under, dict) and under and set(under) <= set(OPERATORS):
        return all(_operator(name, found, operand) for name, operand in under.items())
    if isinstance(under, dict):
        return isinstance(found, dict) and holds(under, found)
    if isinstance(under, list):
        return _means(found, under) or any(_means(found, part) for part in under)
    return found is not None if under == "*" else _means(found, under)


def _find(values: Any, key: str) -> Any:
    if not isinstance(values, dict):
        return None
    if key in values:
        return values[key]
    head, dot, rest = key.partition(".")
    return _find(values.get(head), rest) if dot else None


def _operator(name: str, found: Any, operand: Any) -> bool:
    match name:
        case "eq" | "ne":
            return _means(found, operand) == (name == "eq")
        case "in" | "nin":
            return any(_means(found, part) for part in operand) == (name == "in")
        case "exists":
            return (found is not None) is bool(operand)
        case "contains" | "icontains":
            return _contains(found, operand, str.casefold if name == "icontains" else str)
        case _:
            return _ordered(name, found, operand)


def _contains(found: Any, operand: Any, folded: Any) -> bool:
    if isinstance(found, str):
        return isinstance(operand, str) and folded(operand) in folded(found)
    if folded is str.casefold:
        return isinstance(found, list) and folded(operand) in [folded(part) for part in found if isinstance(part, str)]
    return isinstance(found, list) and any(_equal(part, operand) for part in found)


def _ordered(name: str, one: Any, other: Any) -> bool:
    pairs = [(one, other)] if _is_number(one) and _is_number(other) else []
    if isinstance(one, str | date) and isinstance(other, str | date):
        pairs = [(_when(one), _when(other))]
        if None in pairs[0]:
            pairs = [(one, other)] if isinstance(one, str) and isinstance(other, str) else []
    compare: Any = {"gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le}[name]
    return any(compare(*pair) for pair in pairs)


def _means(found: Any, wanted: Any) -> bool:
    return _equal(found, wanted) or (isinstance(found, list) and any(_equal(part, wanted) for part in found))


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, date) or isinstance(other, date):
        return _when(one) is not None and _when(one) == _when(other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return set(one) == set(other) and all(_equal(one[key], other[key]) for key in one)
    return bool(one == other) and (type(one) is type(other) or (_is_number(one) and _is_number(other)))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _when(value: Any) -> datetime | None:
    if isinstance(value, str) and value[4:5] == "-":
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value
    return None
