"""From a mapping to a `Filter`, or to an error that names the fix."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import date
from typing import Any, Final

from langmem_adapter.errors import FilterError, InvalidInputError
from langmem_adapter.filters.operators import OPERATORS, ORDER, comparison, is_day, moment
from langmem_adapter.filters.tree import (
    EVERYTHING,
    FIELDS,
    TIMES,
    AllOf,
    Condition,
    Filter,
    Inside,
    Node,
    NoneOf,
    SomeOf,
)
from langmem_adapter.records.checks import DEEPEST, check_text

__all__ = ["LOGIC", "parse"]

LOGIC: Final = {name: word for word in ("AND", "OR", "NOT") for name in (word, f"${word.lower()}")}
_MOST_PARTS: Final = 1_000
_MOST_VALUES: Final = 10_000
_LONGEST: Final = 60  # of a name in an error
_CLOSE: Final = 0.85  # "gtee" is that near to "gte", "city" to none
_OTHERS: Final = {
    **dict.fromkeys(("=", "==", "equal", "equals", "equalto"), "eq"),
    **dict.fromkeys(("!=", "<>", "neq", "notequal", "notequals", "notequalto"), "ne"),
    **dict.fromkeys((">", "greaterthan"), "gt"),
    **dict.fromkeys((">=", "ge", "greaterthanorequal", "greaterthanorequals", "greaterthanorequalto"), "gte"),
    **dict.fromkeys(("<", "lessthan"), "lt"),
    **dict.fromkeys(("<=", "le", "lessthanorequal", "lessthanorequals", "lessthanorequalto"), "lte"),
    **dict.fromkeys(("between", "range"), "gte"),  # and "lte"
    **dict.fromkeys(("anyof", "oneof", "isin"), "in"),
    **dict.fromkeys(("notin", "noneof"), "nin"),
    **dict.fromkeys(("like", "ilike", "regex", "regexp", "startswith", "endswith", "beginswith"), "icontains"),
    **dict.fromkeys(("notlike", "notcontains", "elemmatch", "containsany", "containsall"), "contains"),
    **dict.fromkeys(("isnull", "isnotnull", "notnull", "notexists"), "exists"),
}
"""What other filter languages call our operators, in small letters without spaces, dashes and underscores."""


def parse(filters: Mapping[str, Any] | None, *, fields: Collection[str] = FIELDS, objects: bool = True) -> Filter:
    """Read a filter, whole: what is not understood is an error, never a condition that is left out.

    Args:
        filters: A filter as in the table of `langmem_adapter.filters`; `None` and `{}` hold for everything.
        fields: Keys that mean fields of a memory, whose kinds are known; `()` where other things than memories are filtered.
        objects: Whether a mapping under a key may be a filter on the object there; in Mem0 it holds operators only.

    Raises:
        FilterError: An operator is unknown, an operand is not of its kind, a key is no text, `AND`, `OR` or `NOT` is empty,
            it is nested deeper than `checks.DEEPEST` or has more than 1,000 conditions or 10,000 values.

    Example:
        >>> parse({"age": {"$gtt": 3}})
        Traceback (most recent call last):
        langmem_adapter.errors.FilterError: filter on 'age': '$gtt' is no operator, did you mean '$gt'? There are eq, ...
    """
    if filters is None:
        return EVERYTHING
    root = _Reader(objects=objects).mapping(filters, 0, frozenset(fields))
    return Filter(tuple(_certain(root)), frozenset(_keys(root)), root)


def _certain(node: Node) -> list[Condition]:
    if isinstance(node, Condition):
        return [node]
    return [found for part in node.parts for found in _certain(part)] if isinstance(node, AllOf) else []


def _keys(node: Node) -> list[str]:
    if isinstance(node, Condition | Inside):
        return [node.key]
    return [key for part in node.parts for key in _keys(part)]


class _Reader:
    """Reads one filter, and counts what it holds."""

    def __init__(self, *, objects: bool) -> None:
        self._objects = objects
        self._parts = 0
        self._values = 0

    def mapping(self, filters: object, depth: int, fields: frozenset[str]) -> Node:
        """All entries of a filter; *fields* are the keys that mean a field of the memory."""
        if not isinstance(filters, Mapping):
            raise FilterError(f"a filter is a mapping like {{'topic': 'food'}}, not {_kind(filters)}")
        if depth > DEEPEST:
            raise FilterError(f"a filter may be nested {DEEPEST} deep; flatten it")
        return _all(self._entry(_key(key), value, depth, fields) for key, value in filters.items())

    def _entry(self, key: str, value: object, depth: int, fields: frozenset[str]) -> Node:
        if key in LOGIC:
            return self._logic(key, value, depth, fields)
        if key.startswith("$"):
            raise FilterError(_misplaced(key))
        if key.lower() in {"and", "or", "not", "nor"} and _is_logic(value):
            raise FilterError(f"{key!r} is no operator: write AND, OR, NOT, or for a key {{{key!r}: {{'eq': …}}}}")
        plain = key != "metadata" and (key in fields or not self._objects)
        if isinstance(value, Mapping) and not _has_operators(key, value, plain=plain):
            self._count()
            return Inside(key, self.mapping(value, depth + 1, frozenset()))
        return _all(
            self._condition(key, name, operand, timed=key in fields & TIMES) for name, operand in _conditions(value)
        )

    def _logic(self, key: str, value: Any, depth: int, fields: frozenset[str]) -> Node:
        word = LOGIC[key]
        parts = [value] if word == "NOT" and isinstance(value, Mapping) else value
        if not _filters(parts):
            raise FilterError(f"{key} takes a list of filters, none empty, like {{{key!r}: [{{'topic': 'food'}}]}}")
        nodes = tuple(self.mapping(part, depth + 1, fields) for part in parts)
        return _all(nodes) if word == "AND" else SomeOf(nodes) if word == "OR" else NoneOf(nodes)

    def _condition(self, key: str, name: str, operand: object, *, timed: bool) -> Condition:
        self._count()
        try:
            plain = self._operand(name, operand)
            if timed and name != "exists":
                _check_times(name, plain)
            return Condition(key, name, plain, comparison(name, plain))
        except FilterError as error:
            raise FilterError(f"filter on {_short(key)}: {error}") from None

    def _operand(self, name: str, operand: object) -> Any:
        if name in {"in", "nin"}:
            if not isinstance(operand, list | tuple | set | frozenset):
                raise FilterError(f"{name!r} takes a list of values, not {_kind(operand)}; write [value]")
            return [self._value(value) for value in operand]
        if name == "exists" and not isinstance(operand, bool):
            raise FilterError(f"'exists' takes True or False, not {_kind(operand)}")
        if name == "icontains" and not isinstance(operand, str):
            raise FilterError(f"'icontains' takes a text, not {_kind(operand)}; use 'contains'")
        if name in ORDER and (isinstance(operand, bool) or not isinstance(operand, int | float | str | date)):
            raise FilterError(f"{name!r} takes a number, a text or a time, not {_kind(operand)}")
        return self._value(operand)

    def _value(self, value: object) -> Any:
        if isinstance(value, date):
            if (when := moment(value)) is None:
                raise FilterError("this time lies outside the calendar of UTC; give another one")
            return value if is_day(value) else when
        return self._plain(value, 0)

    def _plain(self, value: object, depth: int) -> Any:
        """A copy as plain JSON."""
        self._count_value(depth)
        if isinstance(value, str):
            return _text(value, "a value")
        if isinstance(value, float) and math.isnan(value):
            raise FilterError("NaN equals nothing; use {'exists': False} for what has no value")
        if value is None or isinstance(value, int | float):
            return value
        if isinstance(value, list | tuple):
            return [self._plain(part, depth + 1) for part in value]
        if isinstance(value, Mapping):
            return {_key(key): self._plain(part, depth + 1) for key, part in value.items()}
        raise FilterError(f"a value is plain JSON or a time, not {_kind(value)}; convert it")

    def _count(self) -> None:
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise FilterError(f"a filter may have {_MOST_PARTS:,} conditions; use 'in' for many values of one key")

    def _count_value(self, depth: int) -> None:
        self._values += 1
        if self._values > _MOST_VALUES:
            raise FilterError(f"a filter may hold {_MOST_VALUES:,} values; ask in several steps")
        if depth > DEEPEST:
            raise FilterError(f"a value may be nested {DEEPEST} deep; compare a part of it")


def _all(nodes: Iterable[Node]) -> Node:
    parts = tuple(nodes)
    return parts[0] if len(parts) == 1 else AllOf(parts)


def _filters(parts: object) -> bool:
    """Whether this is a list of filters that ask for something."""
    return isinstance(parts, list | tuple) and bool(parts) and all(isinstance(part, Mapping) and part for part in parts)


def _is_logic(value: object) -> bool:
    """Whether this is what `AND`, `OR` and `NOT` take, and no condition."""
    if isinstance(value, Mapping):
        return bool(value) and not any(_key(name).removeprefix("$") in OPERATORS for name in value)
    return _filters(value)


def _conditions(value: object) -> list[tuple[str, object]]:
    """The operators of a value, without `$`, and their operands."""
    if isinstance(value, Mapping):
        return [(name.removeprefix("$"), operand) for name, operand in value.items()]
    if isinstance(value, list | tuple | set | frozenset):
        values = list(value)
        whole = [] if any(isinstance(part, date) for part in values) else [values]  # what is stored holds no datetimes
        return [("in", values + whole)]
    return [("exists", True)] if isinstance(value, str) and value == "*" else [("eq", value)]


def _has_operators(key: str, value: Mapping[Any, object], *, plain: bool) -> bool:
    """Whether a mapping under a key holds operators; otherwise it is a filter on the object there, if one can be there."""
    names = [_key(name) for name in value]
    unknown = [name for name in names if name.removeprefix("$") not in OPERATORS]
    meant = [name for name in unknown if name not in LOGIC and (name.startswith("$") or _nearest(name, _CLOSE))]
    if meant or (unknown and (plain or len(unknown) < len(names))):
        raise FilterError(f"filter on {_short(key)}: {_unknown(key, (meant or unknown)[0])}")
    return bool(names) and not unknown


def _unknown(key: str, name: str) -> str:
    sign = "$" if name.startswith("$") else ""
    near = _nearest(name, 0.6)
    fix = f", did you mean {sign + near!r}?" if near else "."
    path = f"; a key of that name is {_short(f'{key}.{name}')}"
    return f"{_short(name)} is no operator{fix} There are {', '.join(OPERATORS)}{path}"


def _nearest(name: str, least: float) -> str | None:
    """The operator that a word means, most likely: by its name elsewhere, or letter by letter."""
    word = re.sub(r"[ _-]", "", name.removeprefix("$").lower()[:_LONGEST])
    return _OTHERS.get(word) or next(iter(difflib.get_close_matches(word, OPERATORS, 1, least)), None)


def _misplaced(key: str) -> str:
    if key[1:] in OPERATORS:
        return f"the operator {key!r} stands under the key that it compares: {{'age': {{{key!r}: …}}}}"
    near = difflib.get_close_matches(key.lower()[:_LONGEST], LOGIC, 1)
    fix = f", did you mean {near[0]!r}?" if near else "; there are $and, $or, $not."
    return f"{_short(key)} is no word of filters{fix} A key of the metadata that begins with $ is 'metadata.$…'"


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise FilterError(f"a key of a filter is a text, not {_kind(key)}")
    return _text(key, "a key")


def _text(text: str, name: str) -> str:
    try:
        return check_text(text, name)
    except InvalidInputError as error:
        raise FilterError(str(error)) from None


def _short(name: str) -> str:
    return repr(name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…")


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__


def _check_times(name: str, operand: Any) -> None:
    operands = operand if isinstance(operand, list) else [operand]
    # A plain list stands in itself, as the one value that it may be equal to.
    wrong = [value for value in operands if value is not None and not isinstance(value, list) and moment(value) is None]
    if wrong or name in {"contains", "icontains"}:
        raise FilterError(f"{name!r} compares a time here; give a datetime, or a text like '2024-05-01T12:00:00Z'")
