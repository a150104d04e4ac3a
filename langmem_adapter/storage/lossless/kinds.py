"""The lines of a lossless export: which kinds there are, which fields each has, and how a value becomes JSON and comes back.

A line is a row of a table, or of two, with the columns in the order of the table: a new column is carried by itself. `without`
names the columns that are not, each with what stands in their place; `NOT_CARRIED` names the tables that are left out.
Numbers of this database (`pk`, `seq`) are not carried: `order` counts the rows of a kind in the order of such a number, from 1.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from sqlalchemy import JSON, BigInteger, Boolean, Float, Integer, LargeBinary

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import check_metadata, check_text, quoted
from langmem_adapter.records.plain import as_iso
from langmem_adapter.records.scope import SCOPE_FIELDS
from langmem_adapter.storage.conversations import conversations, notes, turns
from langmem_adapter.storage.graph.tables import entities, entity_names, merges, relation_memories, relations
from langmem_adapter.storage.items import items, moment
from langmem_adapter.storage.moments import COUNTED, EPOCH, UTCDateTime
from langmem_adapter.storage.sources import source_memories, sources
from langmem_adapter.storage.tables import history, memories, scopes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy import Column, Table

__all__ = ["FORMAT", "KINDS", "LINKS", "NAMES", "NOT_CARRIED", "SUPPORT", "VERSION", "LineKind"]
__all__ += ["as_vector", "objects_of", "order_of", "text_of"]

FORMAT: Final = "langmem_adapter"
VERSION: Final = 1
_STEP: Final = EPOCH.resolution
_SCOPE: Final = {"scope_id": "user_id, agent_id, run_id"}


class LineKind:
    """A kind of lines, or of the objects of a list in a line.

    Args:
        name: What `kind` says.
        table: Where its columns come from.
        without: Columns that are not carried, each with the field that stands in its place, or with why there is none.
        renamed: Columns that have another name in a line.
        more: Fields behind the columns.
    """

    def __init__(
        self,
        name: str,
        table: Table,
        without: Mapping[str, str],
        *,
        renamed: Mapping[str, str] | None = None,
        more: tuple[str, ...] = (),
    ) -> None:
        self.name: Final = name
        self.table: Final = table
        self.without: Final = without
        self.columns: Final = [column for column in table.c if column.key not in without]
        self.fields: Final = [(renamed or {}).get(column.key, column.key) for column in self.columns]
        self.numbered: Final = "order" in without.values()
        head = ["kind", "id", *(SCOPE_FIELDS if "scope_id" in table.c else ()), *(["order"] if self.numbered else [])]
        self.known: Final = {*head, *self.fields, *more}
        self.defaults: Final = {
            name: str(column.server_default.arg) == "true"  # type: ignore[attr-defined]  # an attribute of each that we give
            for name, column in zip(self.fields, self.columns, strict=True)
            if column.server_default is not None
        }
        """Fields that a file of before may lack, each a boolean, with what they are then."""
        self._writers: Final = [_writer(column) for column in self.columns]
        self._readers: Final = [_reader(column) for column in self.columns]

    def told(self, values: tuple[Any, ...]) -> dict[str, Any]:
        """The fields of a row, given the values of `columns`."""
        parts = zip(self.fields, self._writers, values, strict=True)
        return {name: value if write is None or value is None else write(value) for name, write, value in parts}

    def read(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """The values of a row by its columns; a column that the line does not name has its default.

        Raises:
            InvalidInputError: A field is unknown or missing, or its value does not fit.
        """
        if not line.keys() <= self.known:
            raise InvalidInputError(f"unknown field {quoted(min(line.keys() - self.known))}")
        for name in {"names", "memories"} & self.known:
            objects_of(line, name)
        row = {}
        for column, name, read in zip(self.columns, self.fields, self._readers, strict=True):
            value = line.get(name)
            if value is None and not column.nullable:
                raise InvalidInputError(f"{name} is missing")
            row[column.key] = None if value is None else read(value, name)
        return row


# ── values ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _writer(column: Column[Any]) -> Callable[[Any], Any] | None:
    if column.info is COUNTED:
        return lambda count: as_iso(moment(count))
    writers = {UTCDateTime: as_iso, JSON: _sorted, LargeBinary: text_of}
    return next((writer for kind, writer in writers.items() if isinstance(column.type, kind)), None)


def _reader(column: Column[Any]) -> Callable[[Any, str], Any]:
    kind: Any = column.type
    if column.info is COUNTED:
        return lambda value, name: (_moment(value, name) - EPOCH) // _STEP
    readers = {UTCDateTime: _moment, JSON: lambda value, _: check_metadata(value), LargeBinary: as_bytes}
    readers |= dict.fromkeys((Boolean, Float, Integer), partial(_number, kind))
    return next(
        (read for type_, read in readers.items() if isinstance(kind, type_)),
        partial(_text, getattr(kind, "length", None)),
    )


def _text(most: int | None, value: object, name: str) -> str:
    text = check_text(value, name)
    if most is not None and len(text) > most:
        raise InvalidInputError(f"{name} has {len(text):,} letters; {most} are allowed")
    return text


def _number(kind: object, value: object, name: str) -> Any:
    if isinstance(kind, Boolean):
        fits = isinstance(value, bool)
    elif isinstance(kind, Float):
        fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    else:
        most = 2**63 if isinstance(kind, BigInteger) else 2**31
        fits = type(value) is int and -most <= value < most
    if not fits:
        raise InvalidInputError(f"{name} cannot be {quoted(value)}")
    return value


def _moment(value: object, name: str) -> datetime:
    try:
        time = datetime.fromisoformat(check_text(value, name))
        if time.tzinfo is not None:
            return time.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise InvalidInputError(f"{name} is no ISO 8601 time with an offset: {quoted(value)}")


def as_bytes(value: object, name: str) -> bytes:
    """The bytes of base64 text."""
    try:
        return b64decode(check_text(value, name), validate=True)
    except (Base64Error, ValueError):
        raise InvalidInputError(f"{name} is no base64") from None


def text_of(value: bytes) -> str:
    """Bytes as base64 text."""
    return b64encode(value).decode()


def as_vector(value: object, name: str, size: int | None) -> bytes:
    """The vector of base64 text, with as many bytes as others have."""
    vector = as_bytes(value, name)
    if len(vector) != (size or len(vector)) or len(vector) % 4 or not np.isfinite(np.frombuffer(vector, "f4")).all():
        raise InvalidInputError(f"{name} has another size than others here, or holds NaN or infinity")
    return vector


def objects_of(line: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """A list of objects of a line."""
    listed = line.get(name)
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise InvalidInputError(f"{name} must be a list of objects")
    return listed


def order_of(line: Mapping[str, Any], name: str, most: int, *, least: int = 1) -> int:
    """A number up to *most* of a line."""
    value = line.get(name)
    if type(value) is not int or not least <= value <= most:
        raise InvalidInputError(f"{name} must be a number from {least} to {most:,}, not {quoted(value)}")
    return value


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(part) for part in value] if isinstance(value, list) else value


# ── the kinds ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_OF_LINE: Final = "the id of the line"
_DERIVED: Final = "made from the text"

KINDS: Final[Mapping[str, LineKind]] = {
    kind.name: kind
    for kind in (  # in code-point order, as in a file
        LineKind("conversation", conversations, {"id": "order", "key": _OF_LINE}),
        LineKind(
            "entity",
            entities,
            {"pk": "order", "id": _OF_LINE, **_SCOPE, "merged_into": "winner"},
            more=("winner", "names"),
        ),
        LineKind(
            "item",
            items,
            {"pk": "born", "seq": "order", "id": _OF_LINE, "namespace_id": "namespace", "vectors": "its length"},
            more=("born", "namespace", "vectors"),
        ),
        LineKind(
            "memory",
            memories,
            {"pk": "its last ADD", "seq": "order", "id": _OF_LINE, **_SCOPE, "embedding": "vector"},
            more=("revisions", "sources", "vector"),
        ),
        LineKind(
            "merge",
            merges,
            {"pk": "order", **_SCOPE, "winner_pk": "winner", "loser_pk": "loser", "moved": "rows, links, keys"},
            more=("winner", "loser", "rows", "links", "keys"),
        ),
        LineKind("message", turns, {"conversation_id": "conversation"}, more=("conversation",)),
        LineKind(
            "note",
            notes,
            {"id": "order", "conversation_id": "conversation"},
            renamed={"kind": "note"},
            more=("conversation",),
        ),
        LineKind(
            "relation",
            relations,
            {"pk": "order", **_SCOPE, "source_pk": "source", "target_pk": "target"},
            renamed={"id": "relation_id"},
            more=("source", "target", "memories"),
        ),
        LineKind("revision", history, {"seq": "order", **_SCOPE}, renamed={"id": "history_id"}),
        LineKind(
            "scope",
            scopes,
            {
                "id": "as the rows need it",
                "key": _OF_LINE,
                "word_count": _DERIVED,
                "compared": "a mark of writes under way",
            },
        ),
        LineKind("source", sources, {"thread": "user_id, agent_id, run_id, thread_id"}, more=("memories",)),
    )
}
NAMES: Final = LineKind("name", entity_names, {**_SCOPE, "entity_pk": "its line"})
"""The objects of `names` in the line of an entity."""
SUPPORT: Final = LineKind("support", relation_memories, {**_SCOPE, "relation_id": "its line"})
"""The objects of `memories` in the first line of a relation."""
LINKS: Final = LineKind("link", source_memories, {"thread": "its line", "message_id": "its line", "seq": "order"})
"""The objects of `memories` in the line of a source."""

NOT_CARRIED: Final[Mapping[str, str]] = {
    "api_keys": "keys belong to a server",
    "changes": "the change feed numbers the rows of one database",
    "cursors": "how far the indexes of one database have come",
    "item_vectors": "in the line of the item, with vectors",
    "jobs": "work of one server",
    "meta": "facts about one database",
    "namespaces": "in the line of the item",
    "reembedded": "vectors under way",
    "runs": "idempotency keys",
    "sessions": "logins",
    "thread_checkpoints": "checkpoints",
    "thread_values": "checkpoints",
    "thread_writes": "checkpoints",
    "traces": "what an add saw and did",
    "words": _DERIVED,
}
"""Tables that an export leaves out, and why; `copy` carries them."""
