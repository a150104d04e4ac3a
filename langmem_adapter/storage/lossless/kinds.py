"""Lossless export and import: the kinds of lines, as one table that the export, the import and their checks read.

A line is a row of a table with its columns in the order of the table. A new column is carried by itself, if it is nullable, or
a Boolean with a server default: a file of an older version lacks it. Numbers of one database are not carried: `order` counts
the rows of a kind in the order of such a number, from 1. A number that names another row is carried as the id of that row.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from sqlalchemy import JSON, BigInteger, Boolean, Float, Integer, func, select

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import check_metadata, check_text, quoted
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope, as_iso
from langmem_adapter.storage.conversations import Conversation, conversations, notes, turns
from langmem_adapter.storage.items import item_id, items, moment, namespaces
from langmem_adapter.storage.scopes import key_of
from langmem_adapter.storage.sources import MessageThread, source_memories, sources
from langmem_adapter.storage.tables import (
    entities,
    entity_names,
    history,
    memories,
    merges,
    relation_memories,
    relations,
    scopes,
)
from langmem_adapter.storage.timestamps import COUNTED, EPOCH, UTCDateTime

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from sqlalchemy import Column, ColumnElement, FromClause, Table

COUNT: Final = "count"
"""The place of lines that have a count at the end of the id."""
_UUID: Final = 36


class ImportLine(dict[str, Any]):
    """A line as an object.

    Attributes:
        number: Its number in the file.
        digest: Of the lines up to it.
        group: What its id begins with.
        row: The values of its row, see `LineKind.read`.
        children: The same of each object in its list.
    """

    number: int
    digest: str
    group: str
    row: dict[str, Any]
    children: list[dict[str, Any]]


@dataclass(eq=False)
class LineKind:
    """A kind of line, or of the objects of a list in a line: columns of a table as fields of a JSON object."""

    name: str  # the kind of the line, or the field with the list
    table: Table
    order: str = ""  # the column with numbers that the field `order` stands for
    counted: Column[int] | None = None  # the column with the numbers that it counts, by default the same one
    group: str = ""  # the column, or the field of a reference, that its ids begin with
    place: str = ""  # the column that they end with, `COUNT`, or nothing
    omitted: Collection[str] = ()  # columns that are no fields, beside numbers and ids
    renamed: Mapping[str, str] = field(default_factory=dict)  # columns with another name
    references: Mapping[str, tuple[str, Table]] = field(default_factory=dict)
    """Columns with numbers of other rows, each with the field for its id, and the table."""
    child: LineKind | None = None  # the objects of the list in a line
    parents: Mapping[str, str] = field(default_factory=dict)
    """Of a list: columns that repeat a column of the line's row."""
    more: Mapping[str, ColumnElement[Any]] = field(default_factory=dict)  # columns of which `LineReader` makes fields
    made: Collection[str] = ()  # these fields
    id_of: Callable[[Mapping[str, Any]], str] | None = None  # the id of a line, where it follows from other fields

    def __post_init__(self) -> None:
        """Derive the fields from the columns."""
        columns = self.table.c
        self.is_owned = "scope_id" in columns
        own_ids = () if self.place else (self.group,)
        without = {*self.omitted, *self.parents, *self.references, *own_ids, self.order, "scope_id"}
        self._codecs = [
            (column, self.renamed.get(column.key, column.key), *_codec(column))
            for column in columns
            if column.key not in without
        ]
        self.columns = [column for column in (columns.get(self.order),) if column is not None]
        self.columns += [column for column, *_ in self._codecs]
        """What `write` takes the values of."""
        if self.order and self.counted is None:
            self.counted = columns[self.order]
        self.aliases = {name: table.alias(name) for name, table in self.references.values()}
        """The tables of references, by their fields."""
        is_other = self.group in self.aliases
        self.start: Any = id_column(self.aliases[self.group]) if is_other else columns.get(self.group)
        """The column that ids begin with."""
        self.end: Any = columns.get(self.place)
        """The column that ids end with."""
        if self.place == COUNT:
            self.end = func.row_number().over(partition_by=self.start, order_by=columns[self.order])
        self.names = [*(["order"] if self.order else []), *(name for _, name, *_ in self._codecs)]
        self._texts = [name for name in ("id", *SCOPE_FIELDS, *self.aliases) if name not in self.names]
        lists = () if self.child is None else (self.child.name,)
        self.fields = {"kind", *self._texts, *self.names, *self.made, *lists}
        if not self.is_owned:
            self.fields -= {*SCOPE_FIELDS} - {*self.names}
        self._defaults = {
            name: str(column.server_default.arg) == "true"  # type: ignore[attr-defined]  # an attribute of each that we give
            for column, name, *_ in self._codecs
            if column.server_default is not None and isinstance(column.type, Boolean)
        }
        """Fields that an older file may lack, each a boolean, with their values then."""

    def group_of(self, id_: str) -> str:
        """What an id begins with."""
        if not self.place:
            return id_
        return id_[:_UUID] if self.place == "message_id" else id_.rpartition("/")[0]

    def write(self, values: Iterator[Any], rank: Callable[[Column[int], int], int]) -> dict[str, Any]:
        """The fields of a row, of the next values in the order of `columns`; *rank* counts the rows up to a number.

        It takes no value beyond its own columns: the caller goes on with the same iterator.
        """
        fields = {} if self.counted is None else {"order": rank(self.counted, next(values))}
        for (_, name, write, _), value in zip(self._codecs, values, strict=False):
            fields[name] = value if value is None or write is None else write(value)
        return fields

    def read(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The values of a row by its columns; in place of the number is `order`.

        Raises:
            InvalidInputError: A value is missing, or does not fit.
        """
        row = {self.order: fields.get("order")} if self.order else {}
        for column, name, _, read in self._codecs:
            value = fields.get(name)
            if value is None and not column.nullable:
                raise InvalidInputError(f"{name} is missing")
            row[column.key] = None if value is None else read(value, name)
        return row

    def parse(self, fields: Mapping[str, Any], number: int) -> ImportLine:
        """Check the fields of a line, and read the values of its row.

        Raises:
            InvalidInputError: A field is unknown or missing, its value does not fit, or the id is not that of the fields.
        """
        if not fields.keys() <= self.fields:
            raise InvalidInputError(f"unknown field {quoted(min(fields.keys() - self.fields))}")
        check_text(fields.get("id"), "id")
        for name in self._texts:
            if fields.get(name) is not None:
                check_text(fields[name], name)
        line = ImportLine({**self._defaults, **fields})
        line.number, line.row, line.group = number, self.read(line), self.group_of(line["id"])
        line.children = []
        if self.child is not None:
            objects = line.get(self.child.name)
            if not isinstance(objects, list) or not all(isinstance(each, dict) for each in objects):
                raise InvalidInputError(f"{self.child.name} must be a list of objects")
            line.children = [self.child.read(each) for each in objects]
        if self.id_of is None and self.place:
            fits = line.get(self.renamed.get(self.group, self.group)) == line.group
        else:
            fits = self.id_of is None or line["id"] == self.id_of(line)
        if not fits:
            raise InvalidInputError("its id is not that of its fields")
        return line


def parse_line(value: object, number: int) -> ImportLine:
    """Check a line of a file, and read the values of its row.

    Raises:
        InvalidInputError: It is no line of an export.
    """
    if not isinstance(value, dict):
        raise InvalidInputError("it is no JSON object")
    kind = KINDS.get(value["kind"]) if isinstance(value.get("kind"), str) else None
    if kind is None:
        raise InvalidInputError(f"unknown kind {quoted(value.get('kind'))}")
    return kind.parse(value, number)


def id_column(table: FromClause) -> ColumnElement[Any]:
    """The column of the ids by which lines refer to the rows of a table."""
    return table.c["key" if "key" in table.c else "id"]


def line_id(group: str, place: int | str | None) -> str:
    """The id of a line that is one of a group; numbers sort as they count."""
    if place is None:
        return group
    return f"{group}/{place:09d}" if isinstance(place, int) else f"{group}/{place}"


def scope_fields(line: Mapping[str, Any]) -> tuple[Any, ...]:
    """The fields of the scope of a line."""
    return line.get("user_id"), line.get("agent_id"), line.get("run_id")


def scope_of(line: Mapping[str, Any]) -> Scope | None:
    """The scope; `None` where the line names none."""
    fields = scope_fields(line)
    return Scope(*fields) if any(each is not None for each in fields) else None


# ── values ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _codec(column: Column[Any]) -> tuple[Callable[[Any], Any] | None, Callable[[Any, str], Any]]:
    """How a value of a column is written to a line and read from it; `None` writes it as it is."""
    kind: Any = column.type
    if column.info is COUNTED:
        return lambda count: as_iso(moment(count)), lambda value, name: (_time(value, name) - EPOCH) // EPOCH.resolution
    if isinstance(kind, UTCDateTime):
        return as_iso, _time
    if isinstance(kind, JSON):
        return _sorted, lambda value, _: {} if value == {} else check_metadata(value)
    if isinstance(kind, Boolean | Float | Integer):
        return None, partial(_number, kind)
    return None, partial(_text, getattr(kind, "length", None))


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


def _time(value: object, name: str) -> datetime:
    try:
        time = datetime.fromisoformat(value)  # type: ignore[arg-type]  # a TypeError is an answer, too
        if time.tzinfo is not None:
            return time if time.tzinfo is UTC else time.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        pass
    raise InvalidInputError(f"{name} is no ISO 8601 time with an offset: {quoted(value)}")


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(part) for part in value] if isinstance(value, list) else value


def text_of(vector: bytes) -> str:
    """A vector as base64 text."""
    return b64encode(vector).decode()


def as_vector(value: object, name: str, size: int | None) -> bytes:
    """The vector of base64 text, which has *size* bytes."""
    try:
        vector = b64decode(check_text(value, name), validate=True)
    except (Base64Error, ValueError):
        raise InvalidInputError(f"{name} is no base64") from None
    if len(vector) != (size or len(vector)) or len(vector) % 4 or not np.isfinite(np.frombuffer(vector, "f4")).all():
        raise InvalidInputError(f"{name} has another size than others here, or holds NaN or infinity")
    return vector


# ── the kinds ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _conversation_id(line: Mapping[str, Any]) -> str:
    return Conversation(line["session"], scope_of(line)).key


def _scope_id(line: Mapping[str, Any]) -> str:
    return key_of(scope_of(line) or Scope())


def _item_id(line: Mapping[str, Any]) -> str:
    labels = line.get("namespace")
    if not isinstance(labels, list):
        raise InvalidInputError("namespace must be a list of labels")
    return item_id(tuple(check_text(label, "namespace") for label in labels), line["key"])


def _source_id(line: Mapping[str, Any]) -> str:
    return line_id(MessageThread(scope_of(line) or Scope(), line["thread_id"]).key, line["message_id"])


_winner: Final = entities.alias()
_WINNER: Final = select(_winner.c.id).where(_winner.c.pk == entities.c.merged_into).scalar_subquery()
_PATH: Final = select(namespaces.c.path).where(namespaces.c.id == items.c.namespace_id).scalar_subquery()
_REVISIONS: Final = select(func.count()).where(history.c.memory_id == memories.c.id).scalar_subquery()
_TALK: Final[Any] = {"group": "conversation", "references": {"conversation_id": ("conversation", conversations)}}
_THREAD: Final = {"thread": "thread", "message_id": "message_id"}
_NAMES: Final = LineKind("names", entity_names, parents={"entity_pk": "pk"})
_SUPPORT: Final = LineKind("memories", relation_memories, parents={"relation_id": "id"})
_LINKS: Final = LineKind("memories", source_memories, "seq", history.c.seq, parents=_THREAD)

KINDS: Final[Mapping[str, LineKind]] = {
    kind.name: kind
    for kind in (  # in code-point order, as in a file
        LineKind("conversation", conversations, "id", group="key", id_of=_conversation_id),
        LineKind(
            *("entity", entities, "pk"),
            group="id",
            omitted=("merged_into",),
            more={"winner": _WINNER},
            made=("winner",),
            child=_NAMES,
        ),
        LineKind(
            *("item", items, "seq"),
            group="id",
            omitted=("pk", "namespace_id", "vectors"),
            more={"_pk": items.c.pk, "_path": _PATH, "_count": items.c.vectors},
            made=("born", "namespace", "vectors"),
            id_of=_item_id,
        ),
        LineKind(
            *("memory", memories, "seq", history.c.seq),
            group="id",
            omitted=("pk", "embedding"),
            more={"revisions": _REVISIONS, "_vector": memories.c.embedding},
            made=("revisions", "sources", "vector"),
        ),
        LineKind(
            *("merge", merges, "pk"),
            group="loser",
            place=COUNT,
            omitted=("moved",),
            references={"winner_pk": ("winner", entities), "loser_pk": ("loser", entities)},
            more={"_moved": merges.c.moved},
            made=("rows", "links", "keys"),
        ),
        LineKind("message", turns, place="position", **_TALK),
        LineKind("note", notes, "id", place=COUNT, renamed={"kind": "note"}, **_TALK),
        LineKind(
            *("relation", relations, "pk"),
            group="id",
            place=COUNT,
            references={"source_pk": ("source", entities), "target_pk": ("target", entities)},
            child=_SUPPORT,
            renamed={"id": "relation_id"},
        ),
        LineKind("revision", history, "seq", group="memory_id", place=COUNT, renamed={"id": "history_id"}),
        LineKind("scope", scopes, group="key", omitted=("id", "word_count", "compared"), id_of=_scope_id),
        LineKind(
            *("source", sources),
            group="thread",
            place="message_id",
            omitted=("thread",),
            child=_LINKS,
            id_of=_source_id,
        ),
    )
}
