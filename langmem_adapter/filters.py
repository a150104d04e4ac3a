"""The filter language: one reading of LangGraph's and Mem0's filters, the same for every index and database.

A filter is a mapping; all its entries must hold. Operators may be written with or without a leading `$`:

    {"topic": "food"}                     equal, like {"topic": {"eq": "food"}}
    {"topic": ["food", "home"]}           one of these (Mem0), or this very list (LangGraph)
    {"tags": "food"}                      holds for the tags ["food", "home"], too
    {"topic": "*"}                        has a value (Mem0), like {"topic": {"exists": True}}; the text itself is {"eq": "*"}
    {"age": {"gte": 18, "lt": 65}}        every operator holds
    {"address": {"city": "Oslo"}}         an object with this city; other keys do not matter (LangGraph)
    {"address.city": "Oslo"}              the same, unless there is a key "address.city", which comes first
    {"age": {"gtee": 18}}                 an error: it looks like an operator; a key of that name is "age.gtee"
    {"AND": [{…}, {…}]}                   every one holds
    {"OR": [{…}, {…}]}                    at least one holds
    {"NOT": {…}} or {"NOT": [{…}, {…}]}   none of them holds

What an operator asks of a value *v*, and what it says of null. A key that is missing reads as null.

    operator            holds where                                                              null or missing
    eq x      ne x      v equals x, or is a list with a member that does; or not                 equals `None` only
    in […]    nin […]   the same, of one of them; or of none of them                             equals `None` only
    gt gte lt lte x     both are numbers, both are times, or both are texts, in this order       never
    contains x          x is a part of the text v, or equals an element of the list v            never
    icontains x         the same for a text x, whatever the case                                 never
    exists True/False   v is there and not null, or the contrary                                 False

Equality is that of JSON: 1 equals 1.0, `True` is no number, lists and objects are compared as a whole. Times are datetimes
and texts like `2024-05-01T12:00:00+02:00`; without a zone they are UTC. A day (`2024-05-01`, or a `date`) is its start at the
UTC offset of the time that it is compared with: the day of who spoke. Two texts are ordered as times if both are times, else by
code point, and they are equal only letter by letter.

A filter of memories reads the memory's own fields (`FIELDS`) before the metadata. `metadata.role` names a key of the
metadata that shares its name with one of them. A field that is not set is null.

Filters are evaluated here, in Python, since databases disagree on what equal JSON values are (1, 1.0, true, nested
objects) and vector stores know part of the operators only; no key and no value ever becomes a part of an SQL text.
"""

from __future__ import annotations

import difflib
import math
import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from langmem_adapter.errors import FilterError, InvalidInputError
from langmem_adapter.records.checks import DEEPEST, check_text
from langmem_adapter.records.scope import SCOPE_FIELDS

if TYPE_CHECKING:
    from langmem_adapter.records.results import MemoryItem

Test: TypeAlias = Callable[[Any], bool]

ORDER: Final = {"gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le}
"""Operators that put values in an order."""
OPERATORS: Final = ("eq", "ne", *ORDER, "in", "nin", "contains", "icontains", "exists")
"""All of them, without `$`."""

_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?", re.ASCII)
_LONGEST_DATE: Final = 40


def parse_moment(value: object, *, wall: bool = False) -> datetime | None:
    """The time that a value means, in UTC; with *wall* what a clock shows there, as if it were UTC. `None` if it is none."""
    if isinstance(value, str):
        return _read_date(value, wall) if len(value) <= _LONGEST_DATE else None
    if isinstance(value, datetime):
        return _in_utc(value, wall)
    return datetime(value.year, value.month, value.day, tzinfo=UTC) if isinstance(value, date) else None


@lru_cache(maxsize=65_536)  # the same rows are compared again with every search
def _read_date(text: str, wall: bool) -> datetime | None:  # noqa: FBT001 - a key of the cache
    try:
        return _in_utc(datetime.fromisoformat(text), wall) if _DATE.fullmatch(text) else None
    except ValueError:
        return None


def _in_utc(value: datetime, wall: bool) -> datetime | None:  # noqa: FBT001 - as `parse_moment` says
    try:
        return value.replace(tzinfo=UTC) if wall or value.tzinfo is None else value.astimezone(UTC)
    except OverflowError:  # the first or last hours of the calendar, in another zone
        return None


def is_day(operand: object) -> bool:
    """Whether an operand names a day without a time."""
    if isinstance(operand, str):
        return len(operand) == len("2024-05-01") and parse_moment(operand) is not None
    return isinstance(operand, date) and not isinstance(operand, datetime)


def comparison(name: str, operand: Any) -> Test:
    """What one of `OPERATORS` asks of a value; the operand is plain JSON or a datetime, of the kind that the operator takes."""
    match name:
        case "eq" | "ne":
            test: Test = _OneOf([operand])
        case "in" | "nin":
            test = _OneOf(operand)
        case "contains":
            test = _containing(operand)
        case "icontains":
            test = _containing_in_any_case(operand)
        case "exists":
            return (lambda value: value is not None) if operand else (lambda value: value is None)
        case _:
            return _ordered(ORDER[name], operand)
    return (lambda value: not test(value)) if name in {"ne", "nin"} else test


class _OneOf:
    """Whether a value equals one of these, or is a list with a member that does."""

    __slots__ = ("_moments", "_others", "_plain", "_times")

    def __init__(self, operands: Sequence[Any]) -> None:
        self._plain = frozenset(value for value in operands if _hashed(value))
        # A datetime given means the texts of that time too; a text given means datetimes, of texts but itself.
        points = [(value, (is_day(value), parse_moment(value, wall=is_day(value)))) for value in operands]
        self._moments = frozenset(point for _, point in points if point[1] is not None)
        self._times = frozenset(point for value, point in points if isinstance(value, date))
        self._others = [value for value in operands if not _hashed(value) and not isinstance(value, date)]

    def __call__(self, value: Any) -> bool:
        return self.equals(value) or (isinstance(value, list | tuple) and any(map(self.equals, value)))

    def equals(self, value: Any) -> bool:
        """Whether the value itself equals one of these."""
        if _hashed(value) and value in self._plain:
            return True
        if self._moments and isinstance(value, datetime):
            return any((wall, parse_moment(value, wall=wall)) in self._moments for wall in (False, True))
        if self._times and isinstance(value, str):
            return any((wall, parse_moment(value, wall=wall)) in self._times for wall in (False, True))
        return any(_same(other, value) for other in self._others)


def _hashed(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _same(one: Any, other: Any) -> bool:
    """Equality of JSON."""
    if one is None or isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list):
        pairs = zip(one, other, strict=False) if isinstance(other, list | tuple) else ()
        return isinstance(other, list | tuple) and len(one) == len(other) and all(_same(*pair) for pair in pairs)
    if isinstance(one, dict):
        return isinstance(other, Mapping) and one.keys() == other.keys() and all(_same(one[k], other[k]) for k in one)
    return bool(one == other)


def _ordered(compare: Callable[[Any, Any], bool], operand: Any) -> Test:
    if isinstance(operand, int | float):
        return lambda value: _hashed(value) and not isinstance(value, str) and compare(value, operand)
    when, wall = parse_moment(operand), is_day(operand)
    if when is None:
        return lambda value: isinstance(value, str) and compare(value, operand)

    def test(value: Any) -> bool:
        at = parse_moment(value, wall=wall)
        if at is not None:
            return compare(at, when)
        return isinstance(value, str) and isinstance(operand, str) and compare(value, operand)

    return test


def _containing(operand: Any) -> Test:
    equals = _OneOf([operand]).equals

    def test(value: Any) -> bool:
        if isinstance(value, str):
            return isinstance(operand, str) and operand in value
        return isinstance(value, list | tuple) and any(map(equals, value))

    return test


def _containing_in_any_case(operand: str) -> Test:
    folded = operand.casefold()

    def test(value: Any) -> bool:
        if isinstance(value, str):
            return folded in value.casefold()
        return isinstance(value, list | tuple) and any(
            isinstance(part, str) and part.casefold() == folded for part in value
        )

    return test


FIELDS: Final = (
    *("id", "text", *SCOPE_FIELDS, "memory_type", "actor_id", "role"),
    *("created_at", "updated_at", "expires_at", "metadata"),
)
"""What a filter of memories reads from the memory itself, before its metadata; `metadata` is all of that."""
TIMES: Final = frozenset({"created_at", "updated_at", "expires_at"})
"""Those that are times, hence are compared with times only."""

Values: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Condition:
    """One key, one operator, one operand."""

    key: str  # a key, or a path with dots
    operator: str  # without the `$`; a plain value is `"eq"`, `"*"` is `"exists"`, a plain list is `"in"`
    operand: Any  # plain JSON, or a datetime or date where one was given
    test: Test = field(repr=False, compare=False)  # whether it holds for a value

    def __call__(self, values: Values) -> bool:
        """Whether it holds."""
        return self.test(values[self.key] if self.key in values else _reach(values, self.key))


@dataclass(frozen=True, slots=True)
class Inside:
    """A filter on the object under a key."""

    key: str
    part: Node

    def __call__(self, values: Values) -> bool:  # noqa: D102 - the class says it
        inner = _reach(values, self.key)
        return isinstance(inner, Mapping) and self.part(inner)


@dataclass(frozen=True, slots=True)
class Group:
    """Parts that are tried until one gives *until*, which decides the *outcome*: AND, OR or NOT."""

    parts: tuple[Node, ...]
    until: bool
    outcome: bool

    def __call__(self, values: Values) -> bool:  # noqa: D102 - the class says it
        for part in self.parts:  # all() and any() with a generator take three times as long
            if part(values) == self.until:
                return self.outcome
        return not self.outcome


Node: TypeAlias = "Condition | Inside | Group"

_AND: Final = {"until": False, "outcome": False}


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter that was understood; make one with `parse_filter`. It is true if it asks for anything at all.

    Example:
        >>> from langmem_adapter.filters import parse_filter
        >>> adult = parse_filter({"age": {"gte": 18}, "OR": [{"city": "Oslo"}, {"city": {"exists": False}}]})
        >>> [adult.matches(values) for values in ({"age": 18}, {"age": 17}, {"age": 30, "city": "Rome"})]
        [True, False, False]
        >>> sorted(adult.fields), adult.conditions
        (['age', 'city'], (Condition(key='age', operator='gte', operand=18),))
    """

    conditions: tuple[Condition, ...]  # those that must always hold, by which a query of a database may be narrowed
    fields: frozenset[str]  # every key it reads, as written
    _root: Node = field(repr=False)

    def matches(self, values: Values) -> bool:
        """Whether it holds for these values: plain JSON and datetimes; for a memory what `filter_values` gives."""
        return self._root(values)

    def __bool__(self) -> bool:
        """Whether it asks for anything."""
        return bool(self.fields)


def filter_values(item: MemoryItem) -> dict[str, Any]:
    """What a filter reads of a memory: its metadata, and before these its own fields."""
    own = {name: getattr(item, name) for name in FIELDS if name not in SCOPE_FIELDS}
    return {**item.metadata, **own, **{name: getattr(item.scope, name) for name in SCOPE_FIELDS}}


def _reach(values: Values, key: str) -> Any:
    while key not in values:
        head, dot, key = key.partition(".")
        inner = values.get(head)
        if not dot or not isinstance(inner, Mapping):
            return None
        values = inner
    return values[key]


EVERYTHING: Final = Filter((), frozenset(), Group((), **_AND))
"""The filter that asks for nothing."""


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


def parse_filter(
    filters: Mapping[str, Any] | None, *, fields: Collection[str] = FIELDS, objects: bool = True
) -> Filter:
    """Read a filter, whole: what is not understood is a `FilterError`, never a condition that is left out.

    *fields* are the keys that mean fields of a memory. Without *objects* a mapping holds operators only, as in Mem0.

    Example:
        >>> parse_filter({"age": {"$gtt": 3}})
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
    if isinstance(node, Group) and not node.until:
        return [condition for part in node.parts for condition in _certain(part)]
    return []


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
        return _all(nodes) if word == "AND" else Group(nodes, until=True, outcome=word == "OR")

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
            if (when := parse_moment(value)) is None:
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
    return parts[0] if len(parts) == 1 else Group(parts, **_AND)


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
    wrong = [name for name in unknown if name not in LOGIC and (name.startswith("$") or _nearest(name, _CLOSE))]
    if wrong or (unknown and (plain or len(unknown) < len(names))):
        raise FilterError(f"filter on {_short(key)}: {_unknown(key, (wrong or unknown)[0])}")
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
        return f"write the operator {key!r} under the key that it compares: {{'age': {{{key!r}: …}}}}"
    near = difflib.get_close_matches(key.lower()[:_LONGEST], LOGIC, 1)
    fix = f", did you mean {near[0]!r}?" if near else "; there are $and, $or, $not."
    return f"{_short(key)} is no operator{fix} A key of the metadata that begins with $ is 'metadata.$…'"


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
    # A plain list is the one value that the field may be equal to.
    wrong = [
        value for value in operands if value is not None and not isinstance(value, list) and parse_moment(value) is None
    ]
    if wrong or name in {"contains", "icontains"}:
        raise FilterError(f"{name!r} compares a time here; give a datetime, or a text like '2024-05-01T12:00:00Z'")
