"""A filter that was understood: conditions, joined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from langmem_adapter.records.scope import SCOPE_FIELDS

if TYPE_CHECKING:
    from langmem_adapter.filters.operators import Test
    from langmem_adapter.records.results import MemoryItem

__all__ = ["EVERYTHING", "FIELDS", "TIMES", "Condition", "Filter", "values_of"]

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

    def __call__(self, values: Values) -> bool:
        inner = _reach(values, self.key)
        return isinstance(inner, Mapping) and self.part(inner)


@dataclass(frozen=True, slots=True)
class AllOf:
    parts: tuple[Node, ...]

    def __call__(self, values: Values) -> bool:
        for part in self.parts:  # noqa: SIM110 - all() with a generator takes three times as long
            if not part(values):
                return False
        return True


@dataclass(frozen=True, slots=True)
class SomeOf:
    parts: tuple[Node, ...]

    def __call__(self, values: Values) -> bool:
        for part in self.parts:  # noqa: SIM110 - the same
            if part(values):
                return True
        return False


@dataclass(frozen=True, slots=True)
class NoneOf:
    parts: tuple[Node, ...]

    def __call__(self, values: Values) -> bool:
        for part in self.parts:  # noqa: SIM110 - the same
            if part(values):
                return False
        return True


Node: TypeAlias = "Condition | Inside | AllOf | SomeOf | NoneOf"


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter that was understood; make one with `parse`. It is true if it asks for anything at all.

    Attributes:
        conditions: Those that must hold in any case, so that whoever reads from a database may narrow by them.
        fields: Every key it reads, as written.

    Example:
        >>> from langmem_adapter.filters import parse
        >>> adult = parse({"age": {"gte": 18}, "OR": [{"city": "Oslo"}, {"city": {"exists": False}}]})
        >>> [adult.matches(values) for values in ({"age": 18}, {"age": 17}, {"age": 30, "city": "Rome"})]
        [True, False, False]
        >>> sorted(adult.fields), adult.conditions
        (['age', 'city'], (Condition(key='age', operator='gte', operand=18),))
    """

    conditions: tuple[Condition, ...]
    fields: frozenset[str]
    _root: Node = field(repr=False)

    def matches(self, values: Values) -> bool:
        """Whether it holds for these values.

        Args:
            values: Plain JSON under text keys, datetimes too; for a memory what `values_of` gives.
        """
        return self._root(values)

    def __bool__(self) -> bool:
        """Whether it asks for anything."""
        return bool(self.fields)


def values_of(item: MemoryItem) -> dict[str, Any]:
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


EVERYTHING: Final = Filter((), frozenset(), AllOf(()))
"""The filter that asks for nothing."""
