"""Lossless export: the table of line kinds, and a database as lines.

A line is a row of a table with its columns in the order of the table: a new column is carried by itself. `without` names the
columns that are not carried, each with its replacement; `NOT_CARRIED` names the tables that are left out.
Numbers of one database (`pk`, `seq`) are not carried: `order` counts the rows of a kind in the order of such a number, from 1.
"""

from __future__ import annotations

import json
import math
from array import array
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from sqlalchemy import JSON, BigInteger, Boolean, Float, Integer, LargeBinary, String, false, func, null, select, true

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import check_metadata, check_text, quoted
from langmem_adapter.records.scope import SCOPE_FIELDS, as_iso
from langmem_adapter.storage import meta
from langmem_adapter.storage.conversations import conversations, notes, turns
from langmem_adapter.storage.feed import VECTORS
from langmem_adapter.storage.items import ITEMS, PLACES, decode, item_vectors, items, moment, namespaces
from langmem_adapter.storage.queries import any_of
from langmem_adapter.storage.scopes import OWNER, ids_within, reach
from langmem_adapter.storage.sources import source_memories, sources
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
    from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping

    from sqlalchemy import Column, ColumnElement, Connection, FromClause, Select, Table

    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.database import Database

FORMAT: Final = "langmem_adapter"
VERSION: Final = 1
_SCOPE: Final = {"scope_id": "user_id, agent_id, run_id"}


@dataclass(eq=False)
class LineKind:
    """A kind of line, or of the objects of a list in a line: how its rows are read, and which fields it has.

    Args:
        name: The value of `kind`.
        table: The table of its columns.
        without: Columns that are not carried, each with the field in its place, or the reason why there is none.
        group: What the ids of its lines begin with.
        number: What `order` counts.
        place: The end of the id.
        more: Fields of other tables, behind the columns; `LineReader` replaces those that begin with `_`.
        lists: Fields that `LineReader` adds.
        joins: Tables of *more*, each with the column that names its row.
        renamed: Columns that have another name in a line.
    """

    name: str
    table: Table
    without: Mapping[str, str]
    group: ColumnElement[str] | None = None
    number: ColumnElement[int] | None = None
    place: ColumnElement[Any] | None = None
    more: Mapping[str, ColumnElement[Any]] = field(default_factory=dict)
    lists: tuple[str, ...] = ()
    joins: Mapping[FromClause, ColumnElement[Any]] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Derive the fields from the columns."""
        self.columns = [column for column in self.table.c if column.key not in self.without]
        self.fields = [self.renamed.get(column.key, column.key) for column in self.columns]
        self.is_owned = "scope_id" in self.table.c
        self.is_numbered = "order" in self.without.values()
        head = ["kind", "id", *(SCOPE_FIELDS if self.is_owned else ()), *(["order"] if self.is_numbered else [])]
        self.field_names = {*head, *self.fields, *(name for name in self.more if name[0] != "_"), *self.lists}
        self.defaults = {
            name: str(column.server_default.arg) == "true"  # type: ignore[attr-defined]  # an attribute of each that we give
            for name, column in zip(self.fields, self.columns, strict=True)
            if column.server_default is not None
        }
        """Fields that an older file may lack, each a boolean, with their values then."""
        other = {*SCOPE_FIELDS, "source", "target", "winner", "loser", "conversation"}
        self.texts = sorted(other & self.field_names.difference(self.fields))
        """Fields with texts that are no columns."""
        codecs = [_codec(column) for column in self.columns]
        self._writers = [(name, write) for name, (write, _) in zip(self.fields, codecs, strict=True)]
        self._readers = [
            (column.key, name, column.nullable, read)
            for column, name, (_, read) in zip(self.columns, self.fields, codecs, strict=True)
        ]

    def write(self, values: Iterator[Any]) -> dict[str, Any]:
        """The fields of a row, given the values of `columns`."""
        pairs = zip(self._writers, values, strict=False)
        return {name: value if write is None or value is None else write(value) for (name, write), value in pairs}

    def read(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """The values of a row by its columns.

        Raises:
            InvalidInputError: A field is unknown or missing, or its value does not fit.
        """
        if not line.keys() <= self.field_names:
            raise InvalidInputError(f"unknown field {quoted(min(line.keys() - self.field_names))}")
        for name in {"names", "memories"} & self.field_names:
            objects_of(line, name)
        row = {}
        for key, name, is_nullable, read in self._readers:
            value = line.get(name)
            if value is None and not is_nullable:
                raise InvalidInputError(f"{name} is missing")
            row[key] = None if value is None else read(value, name)
        return row

    def group_of(self, id_: str) -> str:
        """What an id begins with."""
        if self.place is None:
            return id_
        return id_[:_UUID] if self.name == "source" else id_.rpartition("/")[0]


_UUID: Final = 36


def line_id(group: str, place: int | str) -> str:
    """The id of a line that is one of a group; numbers sort as they count."""
    return f"{group}/{place:09d}" if isinstance(place, int) else f"{group}/{place}"


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
    if isinstance(kind, LargeBinary):
        return text_of, as_bytes
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
    """The vector of base64 text, which has *size* bytes."""
    vector = as_bytes(value, name)
    if len(vector) != (size or len(vector)) or len(vector) % 4 or not np.isfinite(np.frombuffer(vector, "f4")).all():
        raise InvalidInputError(f"{name} has another size than others here, or holds NaN or infinity")
    return vector


def objects_of(line: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """A list of objects of a line."""
    objects = line.get(name)
    if not isinstance(objects, list) or not all(isinstance(each, dict) for each in objects):
        raise InvalidInputError(f"{name} must be a list of objects")
    return objects


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
_SCOPE_WITHOUT: Final = {
    "id": "as the rows need it",
    "key": _OF_LINE,
    "word_count": _DERIVED,
    "compared": "of writes under way",
}
_winner, _loser, _source, _target = (entities.alias(name) for name in ("winner", "loser", "source", "target"))


def _count_in(group: ColumnElement[str], number: ColumnElement[int]) -> ColumnElement[int]:
    """The place of a row in its group, from 1."""
    return func.row_number().over(partition_by=group, order_by=number)


_revisions: Final = select(func.count()).where(history.c.memory_id == memories.c.id).scalar_subquery()

KINDS: Final[Mapping[str, LineKind]] = {
    kind.name: kind
    for kind in (  # in code-point order, as in a file
        LineKind(
            "conversation", conversations, {"id": "order", "key": _OF_LINE}, conversations.c.key, conversations.c.id
        ),
        LineKind(
            "entity",
            entities,
            {"pk": "order", "id": _OF_LINE, **_SCOPE, "merged_into": "winner"},
            entities.c.id,
            entities.c.pk,
            more={"winner": _winner.c.id, "_pk": entities.c.pk},
            lists=("names",),
            joins={_winner: entities.c.merged_into},
        ),
        LineKind(
            "item",
            items,
            {"pk": "born", "seq": "order", "id": _OF_LINE, "namespace_id": "namespace", "vectors": "its length"},
            items.c.id,
            items.c.seq,
            more={"_pk": items.c.pk, "_path": namespaces.c.path, "_count": items.c.vectors},
            lists=("born", "namespace", "vectors"),
            joins={namespaces: items.c.namespace_id},
        ),
        LineKind(
            "memory",
            memories,
            {"pk": "its last ADD", "seq": "order", "id": _OF_LINE, **_SCOPE, "embedding": "vector"},
            memories.c.id,
            memories.c.seq,
            more={"revisions": _revisions, "_vector": memories.c.embedding},
            lists=("sources", "vector"),
        ),
        LineKind(
            "merge",
            merges,
            {"pk": "order", **_SCOPE, "winner_pk": "winner", "loser_pk": "loser", "moved": "rows, links, keys"},
            _loser.c.id,
            merges.c.pk,
            _count_in(_loser.c.id, merges.c.pk),
            more={"winner": _winner.c.id, "loser": _loser.c.id, "_moved": merges.c.moved},
            lists=("rows", "links", "keys"),
            joins={_loser: merges.c.loser_pk, _winner: merges.c.winner_pk},
        ),
        LineKind(
            "message",
            turns,
            {"conversation_id": "conversation"},
            conversations.c.key,
            place=turns.c.position,
            more={"conversation": conversations.c.key},
            joins={conversations: turns.c.conversation_id},
        ),
        LineKind(
            "note",
            notes,
            {"id": "order", "conversation_id": "conversation"},
            conversations.c.key,
            notes.c.id,
            _count_in(conversations.c.key, notes.c.id),
            more={"conversation": conversations.c.key},
            joins={conversations: notes.c.conversation_id},
            renamed={"kind": "note"},
        ),
        LineKind(
            "relation",
            relations,
            {"pk": "order", **_SCOPE, "source_pk": "source", "target_pk": "target"},
            relations.c.id,
            relations.c.pk,
            _count_in(relations.c.id, relations.c.pk),
            more={"source": _source.c.id, "target": _target.c.id},
            lists=("memories",),
            joins={_source: relations.c.source_pk, _target: relations.c.target_pk},
            renamed={"id": "relation_id"},
        ),
        LineKind(
            "revision",
            history,
            {"seq": "order", **_SCOPE},
            history.c.memory_id,
            history.c.seq,
            _count_in(history.c.memory_id, history.c.seq),
            renamed={"id": "history_id"},
        ),
        LineKind("scope", scopes, _SCOPE_WITHOUT, scopes.c.key),
        LineKind(
            "source",
            sources,
            {"thread": "user_id, agent_id, run_id, thread_id"},
            sources.c.thread,
            place=sources.c.message_id,
            lists=("memories",),
        ),
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


# ── reading rows as lines ───────────────────────────────────────────────────────────────────────────────────────────────

_PAGE: Final = 1_000
_BORN: Final = "born"
_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def export_lines(database: Database, scope: Scope | None, *, vectors: bool = False) -> Generator[bytes, None, None]:
    """The lines of a lossless export, in one read transaction, which lasts until the last of them is taken."""
    # Contract: all lines show one moment, and no writer waits for the reader: the transaction is REPEATABLE READ on
    # Postgres, a snapshot of the write-ahead log on SQLite. A database in memory has one connection, so it is read at once.
    # tests/storage/test_lossless.py::test_export_shows_one_moment_and_blocks_no_writer
    with database.read() as connection:
        lines = _lines(LineReader(connection, scope, vectors=vectors))
        if database.path is not None or database.dialect != "sqlite":
            yield from lines
        rest = list(lines)
    yield from rest


def _lines(reader: LineReader) -> Iterator[bytes]:
    yield _encode(reader.header()).encode() + b"\n"
    digest, number = sha256(), 0
    for line in chain.from_iterable(map(reader.read, KINDS.values())):
        data = _encode(line).encode() + b"\n"
        digest.update(data)
        number += 1
        yield data
    yield _encode({"kind": "end", "lines": number, "sha256": digest.hexdigest()}).encode() + b"\n"


class LineReader:
    """Rows as lines, within a scope or of all scopes.

    Args:
        connection: A transaction.
        scope: `None` for all scopes, and rows without one.
        vectors: Whether lines carry vectors.
        ranks: Whether `order` is counted; without it every `order` is 0.
    """

    def __init__(
        self, connection: Connection, scope: Scope | None = None, *, vectors: bool = False, ranks: bool = True
    ) -> None:
        self._connection = connection
        self._scope = scope
        self._vectors = vectors
        self._ranks: dict[str, array[int]] | None = {} if ranks else None

    def header(self) -> dict[str, Any]:
        """The first line."""
        counts = {}
        for name, kind in KINDS.items():
            query = self._select(kind).with_only_columns(func.count())
            counts[name] = int(self._connection.execute(query).scalar_one())
        scopes_named = None if self._scope is None else [self._scope.named]
        head = {"format": FORMAT, "version": VERSION, "exported_at": datetime.now(UTC).isoformat()}
        head |= {"scopes": scopes_named, "counts": counts}
        models = {"memory": VECTORS.model, "item": ITEMS.model}
        marks = {name: meta.get(self._connection, key) for name, key in models.items()}
        return {**head, "vectors": marks} if self._vectors else head

    def read(self, kind: LineKind, *conditions: ColumnElement[bool]) -> Iterator[dict[str, Any]]:
        """The lines of a kind, sorted by their ids in code-point order."""
        order = [self._in_code_points(part) for part in (kind.group, kind.place) if part is not None]
        query = self._select(kind).where(*conditions).order_by(*order)
        complete = getattr(self, f"_complete_{kind.name}", None)
        with self._connection.execute(query, execution_options={"yield_per": _PAGE}) as result:
            for rows in result.partitions():
                lines = [self._line(kind, iter(row)) for row in rows]
                if complete is not None:
                    complete(lines)
                yield from lines

    def of(
        self, kind: LineKind, groups: Collection[str], places: Collection[Any] = ()
    ) -> dict[str, list[dict[str, Any]]]:
        """The lines of some groups, by these; with *places* only those."""
        listed = ((kind.group, groups), (kind.place, places))
        conditions = [any_of(column, list(values)) for column, values in listed if column is not None and values]
        lines = self.read(kind, *conditions)
        return {group: list(own) for group, own in groupby(lines, key=lambda line: kind.group_of(line["id"]))}

    def _line(self, kind: LineKind, values: Iterator[Any]) -> dict[str, Any]:
        group, number, place = next(values), next(values), next(values)
        line = {"kind": kind.name, "id": group if place is None else line_id(group, place)}
        if kind.is_owned:
            line |= zip(SCOPE_FIELDS, values, strict=False)
        if kind.is_numbered:
            line["order"] = self._rank(kind.name, number)
        line |= kind.write(values)
        line |= zip(kind.more, values, strict=True)
        return line

    def _select(self, kind: LineKind) -> Select[Any]:
        more = [null() if name == "_vector" and not self._vectors else column for name, column in kind.more.items()]
        head = [null() if column is None else column for column in (kind.group, kind.number, kind.place)]
        columns = [*head, *(OWNER if kind.is_owned else ()), *kind.columns, *more]
        tables: FromClause = kind.table
        for table, column in kind.joins.items():
            tables = tables.outerjoin(table, column == next(iter(table.primary_key)))
        if kind.is_owned:
            tables = tables.join(scopes, scopes.c.id == kind.table.c.scope_id)
        query = select(*(column.label(f"c{number}") for number, column in enumerate(columns)))
        return query.select_from(tables).where(self._within(kind))

    def _within(self, kind: LineKind) -> ColumnElement[bool]:
        if self._scope is None:
            return true()
        if kind.is_owned:
            return kind.table.c.scope_id.in_(ids_within(self._scope))
        if kind.table is items:
            return false()
        return reach(self._scope, conversations if kind.name in {"message", "note"} else kind.table)

    def _in_code_points(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        is_text = isinstance(column.type, String) and self._connection.dialect.name == "postgresql"
        return column.collate("C") if is_text else column

    def _rank(self, name: str, number: int) -> int:
        """How many rows of a kind have this number or a smaller one; for `born` how many items have this pk."""
        if self._ranks is None:
            return 0
        name = "revision" if name == "memory" else name
        if name not in self._ranks:
            kind = KINDS["item" if name == _BORN else name]
            column: Any = items.c.pk if name == _BORN else kind.number
            query = self._select(kind).with_only_columns(column).order_by(column)
            rows = self._connection.execute(query, execution_options={"yield_per": 10 * _PAGE})
            self._ranks[name] = array("q", rows.scalars())
        return bisect_right(self._ranks[name], number)

    # ── fields of other tables ──────────────────────────────────────────────────────────────────────────────────────

    def _objects(self, kind: LineKind, key: ColumnElement[Any], keys: Iterable[Any]) -> dict[Any, list[dict[str, Any]]]:
        """The objects of a list, by the rows that they belong to, sorted by their first field."""
        objects = defaultdict(list)
        for row in self._connection.execute(select(key, *kind.columns).where(any_of(key, list(keys)))):
            values = iter(row)
            objects[next(values)].append(kind.write(values))
        for each in objects.values():
            each.sort(key=lambda one: str(one[kind.fields[0]]))
        return objects

    def _complete_entity(self, lines: list[dict[str, Any]]) -> None:
        pks = [line.pop("_pk") for line in lines]
        names = self._objects(NAMES, entity_names.c.entity_pk, pks)
        for line, pk in zip(lines, pks, strict=True):
            line["names"] = names.get(pk, [])

    def _complete_item(self, lines: list[dict[str, Any]]) -> None:
        numbers = [[line.pop(name) for name in ("_pk", "_path", "_count")] for line in lines]
        pks = [pk * PLACES + place for pk, _, count in numbers for place in range(count if self._vectors else 0)]
        query = select(item_vectors.c.pk, item_vectors.c.embedding).where(any_of(item_vectors.c.pk, pks))
        vectors = {row.pk: row.embedding for row in self._connection.execute(query)} if pks else {}
        for line, (pk, path, count) in zip(lines, numbers, strict=True):
            line |= {"born": self._rank(_BORN, pk), "namespace": list(decode(path))}
            if self._vectors:
                places = (vectors.get(pk * PLACES + place) for place in range(count))
                line["vectors"] = [text_of(vector) for vector in places if vector is not None]

    def _complete_memory(self, lines: list[dict[str, Any]]) -> None:
        key, message = source_memories.c.memory_id, source_memories.c.message_id
        messages = defaultdict(set)
        for memory_id, message_id in self._connection.execute(
            select(key, message).where(any_of(key, [line["id"] for line in lines]))
        ):
            messages[memory_id].add(message_id)
        for line in lines:
            vector, line["sources"] = line.pop("_vector"), sorted(messages.get(line["id"], ()))
            if self._vectors:
                line["vector"] = text_of(vector)

    def _complete_merge(self, lines: list[dict[str, Any]]) -> None:
        rank = partial(self._rank, "relation")
        for line in lines:
            moved = line.pop("_moved")
            line["rows"] = [[rank(old), None if new is None else rank(new)] for old, new in moved["rows"]]
            line |= {"links": moved["links"], "keys": moved["keys"]}

    def _complete_relation(self, lines: list[dict[str, Any]]) -> None:
        firsts = [line["relation_id"] for line in lines if line["id"].endswith("/000000001")]
        support = self._objects(SUPPORT, relation_memories.c.relation_id, firsts)
        for line in lines:
            line["memories"] = support.pop(line["relation_id"], [])

    def _complete_source(self, lines: list[dict[str, Any]]) -> None:
        thread, message = source_memories.c.thread, source_memories.c.message_id
        query = select(thread, message, source_memories.c.seq, *LINKS.columns).where(
            any_of(thread, {line["id"][:_UUID] for line in lines}),
            any_of(message, [line["message_id"] for line in lines]),
        )
        links = defaultdict(list)
        for thread_id, message_id, number, *values in self._connection.execute(query):
            link = {"order": self._rank("revision", number), **LINKS.write(iter(values))}
            links[line_id(thread_id, message_id)].append(link)
        for line in lines:
            line["memories"] = sorted(links.get(line["id"], ()), key=lambda link: link["memory_id"])
