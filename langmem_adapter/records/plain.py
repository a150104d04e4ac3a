"""Records as plain JSON types, and back."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from langmem_adapter.records.scope import SCOPE_FIELDS, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_names: Final[Callable[[type], tuple[str, ...]]] = cache(
    lambda kind: tuple(part.name for part in dataclasses.fields(kind))
)


def shallow(record: Any) -> dict[str, Any]:
    """The fields of a slotted dataclass, in order, as they are."""
    return {name: getattr(record, name) for name in record.__slots__}


def as_iso(value: datetime | None) -> str | None:
    """A time as ISO 8601 text in UTC."""
    return None if value is None else value.astimezone(UTC).isoformat()


class Form(NamedTuple):
    """How a value becomes plain JSON types, and back; `None` stays."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


TIME: Final = Form(as_iso, datetime.fromisoformat)
LOCAL_TIME: Final = Form(datetime.isoformat, datetime.fromisoformat)
"""A time with its UTC offset, which says what day it was."""
LIST: Final = Form(list, tuple)
MAPPING: Final = Form(dict, dict)


def forms(**fields: Form) -> Mapping[str, Form]:
    """How the fields of a record that are no plain JSON become that."""
    return fields


class Portable:
    """A slotted dataclass that travels through the pipeline's state as plain JSON types."""

    __slots__ = ()
    _forms = forms()

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        told = shallow(self)
        for name, form in self._forms.items():
            if told[name] is not None:
                told[name] = form.write(told[name])
        return told

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`; what is missing has its default."""
        given = {**data}
        for name, form in cls._forms.items():
            if given.get(name) is not None:
                given[name] = form.read(given[name])
        return cls(**given)


def several(kind: type[Portable]) -> Form:
    """A tuple of such records."""
    return Form(lambda parts: [part.to_json() for part in parts], lambda told: tuple(map(kind.from_json, told)))


def as_data(record: Any) -> dict[str, Any]:
    """A record of `langmem_adapter.records` as plain JSON types; a scope becomes its three fields."""
    data: dict[str, Any] = {}
    for name in _names(type(record)):
        value = getattr(record, name)
        if isinstance(value, Scope):
            data.update({field: getattr(value, field) for field in SCOPE_FIELDS})
        elif isinstance(value, datetime):
            data[name] = value.isoformat()
        else:
            data[name] = _plain(value)
    return data


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return as_data(value)
    return [_plain(part) for part in value] if isinstance(value, tuple) else value
