"""Lossless export: the kinds of lines, and how a database is read as lines.

A line is a row of a table, or of two, with the columns in the order of the table: a new column is carried by itself. `without`
names the columns that are not, each with what stands in their place; `NOT_CARRIED` names the tables that are left out.
Numbers of this database (`pk`, `seq`) are not carried: `order` counts the rows of a kind in the order of such a number, from 1.
"""

from __future__ import annotations

import json
import math
from array import array
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from itertools import count, groupby
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from sqlalchemy import JSON, BigInteger, Boolean, Float, Integer, LargeBinary, and_, false, func, null, select, true

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
    from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence

    from sqlalchemy import Column, ColumnElement, Connection, FromClause, Select, Table

    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.database import Database

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


_PAGE: Final = 1_000
_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_winner, _loser, _source, _target = (entities.alias(name) for name in ("winner", "loser", "source", "target"))


@dataclass(frozen=True, slots=True, eq=False)
class _Query:
    """How the rows of a kind are read. Its first column is what their ids begin with, the second what their order is by."""

    group: ColumnElement[str]
    number: ColumnElement[int] | None = None
    place: ColumnElement[Any] | None = None  # the end of the id
    counted: bool = False  # or the id ends with the place of the row in its group
    more: tuple[ColumnElement[Any], ...] = ()
    joins: tuple[tuple[FromClause, ColumnElement[bool]], ...] = ()


_talk: Final = (conversations, conversations.c.id == turns.c.conversation_id)
_noted: Final = (conversations, conversations.c.id == notes.c.conversation_id)
_revisions: Final = select(func.count()).where(history.c.memory_id == memories.c.id).scalar_subquery()
_QUERIES: Final = {
    "conversation": _Query(conversations.c.key, conversations.c.id),
    "entity": _Query(
        entities.c.id,
        entities.c.pk,
        more=(entities.c.pk, _winner.c.id),
        joins=((_winner, _winner.c.pk == entities.c.merged_into),),
    ),
    "item": _Query(
        items.c.id,
        items.c.seq,
        more=(items.c.pk, namespaces.c.path, items.c.vectors),
        joins=((namespaces, namespaces.c.id == items.c.namespace_id),),
    ),
    "memory": _Query(memories.c.id, memories.c.seq, more=(_revisions, memories.c.embedding)),
    "merge": _Query(
        _loser.c.id,
        merges.c.pk,
        counted=True,
        more=(_winner.c.id, merges.c.moved),
        joins=((_loser, _loser.c.pk == merges.c.loser_pk), (_winner, _winner.c.pk == merges.c.winner_pk)),
    ),
    "message": _Query(conversations.c.key, place=turns.c.position, joins=(_talk,)),
    "note": _Query(conversations.c.key, notes.c.id, counted=True, joins=(_noted,)),
    "relation": _Query(
        relations.c.id,
        relations.c.pk,
        counted=True,
        more=(_source.c.id, _target.c.id),
        joins=(
            (_source, _source.c.pk == relations.c.source_pk),
            (_target, _target.c.pk == relations.c.target_pk),
        ),
    ),
    "revision": _Query(history.c.memory_id, history.c.seq, counted=True),
    "scope": _Query(scopes.c.key),
    "source": _Query(sources.c.thread, place=sources.c.message_id, more=(sources.c.message_id,)),
}
_NUMBERS: Final = {name: query.number for name, query in _QUERIES.items() if query.number is not None}
_BORN: Final = "born"


def line_id(group: str, place: int | str) -> str:
    """The id of a line that is one of a group; numbers sort as they count."""
    return f"{group}/{place:09d}" if isinstance(place, int) else f"{group}/{place}"


def export_lines(database: Database, scope: Scope | None, *, vectors: bool = False) -> Generator[bytes, None, None]:
    """The lines of a lossless export, in one read transaction, which lasts until the last of them is taken."""
    # Contract: all lines show one moment, and nobody who writes waits for the reader: the transaction is REPEATABLE READ on
    # Postgres, a snapshot of the write-ahead log on SQLite. A database in memory has one connection, so it is read at once.
    # tests/storage/test_lossless.py::test_an_export_shows_one_moment_and_blocks_no_writer
    with database.read() as connection:
        lines = _lines(LineReader(connection, scope, vectors=vectors))
        if database.path is not None or database.dialect != "sqlite":
            yield from lines
        rest = list(lines)
    yield from rest


def _lines(reader: LineReader) -> Iterator[bytes]:
    yield _encode(reader.header()).encode() + b"\n"
    digest, number = sha256(), 0
    for kind in KINDS.values():
        for line in reader.read(kind):
            written = _encode(line).encode() + b"\n"
            digest.update(written)
            number += 1
            yield written
    yield _encode({"kind": "end", "lines": number, "sha256": digest.hexdigest()}).encode() + b"\n"


class LineReader:
    """Rows as lines, within a scope or of everybody.

    Args:
        connection: A transaction.
        scope: `None` for everybody, and what belongs to no scope.
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
        head = {"format": FORMAT, "version": VERSION, "exported_at": datetime.now(UTC).isoformat()}
        head |= {"scopes": None if self._scope is None else [self._scope.named]}
        head |= {"counts": {name: self._count(kind) for name, kind in KINDS.items()}}
        models = {"memory": VECTORS.model, "item": ITEMS.model}
        marks = {name: meta.get(self._connection, key) for name, key in models.items()}
        return {**head, "vectors": marks} if self._vectors else head

    def read(self, kind: LineKind, *chosen: ColumnElement[bool]) -> Iterator[dict[str, Any]]:
        """The lines of a kind, sorted by their ids in code-point order."""
        query, complete = _QUERIES[kind.name], self._completing.get(kind.name)
        owned, after = "scope_id" in kind.table.c, 3 + len(query.more)
        for rows in self._pages(self._select(kind, query).where(self._within(kind), *chosen), query):
            lines = []
            for row in rows:
                id_ = row[0] if row[2] is None else line_id(row[0], row[2])
                line = {"kind": kind.name, "id": id_}
                if owned:
                    line |= zip(SCOPE_FIELDS, row[after:], strict=False)
                if kind.numbered:
                    line["order"] = self._rank(kind.name, row[1])
                lines.append(line | kind.told(tuple(row[after + 3 * owned :])))
            if complete is not None:
                complete(self, lines, [row[3:after] for row in rows])
            yield from lines

    def of(
        self, kind: LineKind, groups: Collection[str], places: Collection[Any] = ()
    ) -> dict[str, list[dict[str, Any]]]:
        """The lines of some groups, by what their ids begin with; with *places* only those."""
        query = _QUERIES[kind.name]
        chosen = [any_of(query.group, list(groups))]
        if query.place is not None:
            chosen.append(any_of(query.place, list(places)))
        parted = groupby(self.read(kind, *chosen), key=lambda line: line["id"][: _cut(line["id"], query)])
        return {group: list(lines) for group, lines in parted}

    def _select(self, kind: LineKind, query: _Query) -> Select[Any]:
        owned = "scope_id" in kind.table.c
        more = [null() if column is memories.c.embedding and not self._vectors else column for column in query.more]
        head = (null() if column is None else column for column in (query.group, query.number, query.place))
        columns = [*head, *more, *(OWNER if owned else ()), *kind.columns]
        chosen = select(*(column.label(f"c{number}") for number, column in enumerate(columns))).select_from(kind.table)
        for table, condition in query.joins:
            chosen = chosen.outerjoin(table, condition)
        return chosen.join(scopes, scopes.c.id == kind.table.c.scope_id) if owned else chosen

    def _pages(self, chosen: Select[Any], query: _Query) -> Iterator[list[list[Any]]]:
        order = [_code_points(query.group, self._connection)]
        if query.place is not None:
            text = query.place is sources.c.message_id
            order.append(_code_points(query.place, self._connection) if text else query.place)
        elif query.counted and query.number is not None:
            order.append(query.number)
        last, places = None, count(1)
        executed = self._connection.execute(chosen.order_by(*order), execution_options={"yield_per": _PAGE})
        with executed:
            for part in executed.partitions():
                rows = [list(row) for row in part]
                for row in rows if query.counted else ():
                    if row[0] != last:
                        last, places = row[0], count(1)
                    row[2] = next(places)
                yield rows

    def _within(self, kind: LineKind) -> ColumnElement[bool]:
        if self._scope is None:
            return true()
        if "scope_id" in kind.table.c:
            return kind.table.c.scope_id.in_(ids_within(self._scope))
        if kind.name in {"conversation", "message", "note"}:
            return reach(self._scope, conversations)
        return false() if kind.table is items else reach(self._scope, kind.table)

    # ── numbers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _count(self, kind: LineKind) -> int:
        if kind.name in _NUMBERS:
            return len(self._numbers(kind.name))
        chosen = self._select(kind, _QUERIES[kind.name]).where(self._within(kind)).subquery()
        return int(self._connection.execute(select(func.count()).select_from(chosen)).scalar_one())

    def _numbers(self, name: str) -> array[int]:
        if self._ranks is None:
            return array("q")
        if name not in self._ranks:
            kind = KINDS["item" if name == _BORN else name]
            number = items.c.pk if name == _BORN else _NUMBERS[name]
            chosen = select(number).where(self._within(kind)).order_by(number)
            if kind.name == "note":
                chosen = chosen.join(*_noted)
            found = self._connection.execute(chosen, execution_options={"yield_per": 10 * _PAGE})
            self._ranks[name] = array("q", found.scalars())
        return self._ranks[name]

    def _rank(self, name: str, number: int) -> int:
        """How many rows of a kind have this number or a smaller one."""
        return bisect_right(self._numbers("revision" if name == "memory" else name), number)

    # ── what stands in other tables ─────────────────────────────────────────────────────────────────────────────────

    def _children(
        self, kind: LineKind, key: ColumnElement[Any], keys: Iterable[Any], *more: Any
    ) -> dict[Any, list[Any]]:
        """The rows of a table that belong to some others, by these: the columns *more*, and then the fields."""
        chosen = select(key, *more, *kind.columns).where(any_of(key, list(keys)))
        found: dict[Any, list[Any]] = {}
        for row in self._connection.execute(chosen):
            found.setdefault(row[0], []).append((*row[1 : 1 + len(more)], kind.told(tuple(row[1 + len(more) :]))))
        return found

    def _entity(self, lines: list[dict[str, Any]], rows: Sequence[Any]) -> None:
        names = self._children(NAMES, entity_names.c.entity_pk, [pk for pk, _ in rows])
        for line, (pk, winner) in zip(lines, rows, strict=True):
            line["winner"] = winner
            line["names"] = sorted((name for (name,) in names.get(pk, ())), key=lambda name: name["key"])

    def _item(self, lines: list[dict[str, Any]], rows: Sequence[Any]) -> None:
        pks = [pk * PLACES + place for pk, _, number in rows for place in range(number if self._vectors else 0)]
        chosen = select(item_vectors.c.pk, item_vectors.c.embedding).where(any_of(item_vectors.c.pk, pks))
        found = self._connection.execute(chosen).all() if pks else []
        vectors = {row.pk: row.embedding for row in found}
        for line, (pk, path, number) in zip(lines, rows, strict=True):
            line |= {"born": self._rank(_BORN, pk), "namespace": list(decode(path))}
            if self._vectors:
                places = (vectors.get(pk * PLACES + place) for place in range(number))
                line["vectors"] = [text_of(vector) for vector in places if vector is not None]

    def _memory(self, lines: list[dict[str, Any]], rows: Sequence[Any]) -> None:
        key, message = source_memories.c.memory_id, source_memories.c.message_id
        found = self._connection.execute(select(key, message).where(any_of(key, [line["id"] for line in lines])))
        told: dict[str, set[str]] = {}
        for memory_id, message_id in found:
            told.setdefault(memory_id, set()).add(message_id)
        for line, (revisions, vector) in zip(lines, rows, strict=True):
            line |= {"revisions": revisions, "sources": sorted(told.get(line["id"], ()))}
            if self._vectors:
                line["vector"] = text_of(vector)

    def _merge(self, lines: list[dict[str, Any]], rows: Sequence[Any]) -> None:
        rank = partial(self._rank, "relation")
        for line, (winner, moved) in zip(lines, rows, strict=True):
            line |= {"winner": winner, "loser": line["id"].rpartition("/")[0]}
            line["rows"] = [[rank(old), None if new is None else rank(new)] for old, new in moved["rows"]]
            line |= {"links": moved["links"], "keys": moved["keys"]}

    def _message(self, lines: list[dict[str, Any]], _: Sequence[Any]) -> None:
        for line in lines:
            line["conversation"] = line["id"].rpartition("/")[0]

    def _relation(self, lines: list[dict[str, Any]], rows: Sequence[Any]) -> None:
        firsts = [line["relation_id"] for line in lines if line["id"].endswith("/000000001")]
        memories_of = self._children(SUPPORT, relation_memories.c.relation_id, firsts)
        for line, (source, target) in zip(lines, rows, strict=True):
            support = memories_of.pop(line["relation_id"], ())
            listed = sorted((each for (each,) in support), key=lambda each: each["memory_id"])
            line |= {"source": source, "target": target, "memories": listed}

    def _source(self, lines: list[dict[str, Any]], rows: Sequence[Any]) -> None:
        threads = {line["id"][:_UUID] for line in lines}
        seq, message = source_memories.c.seq, source_memories.c.message_id
        chosen = and_(any_of(source_memories.c.thread, threads), any_of(message, [each for (each,) in rows]))
        columns = select(source_memories.c.thread, message, seq, *LINKS.columns).where(chosen)
        told: dict[str, list[dict[str, Any]]] = {}
        for thread, message_id, number, *values in self._connection.execute(columns):
            link = {"order": self._rank("revision", number), **LINKS.told(tuple(values))}
            told.setdefault(line_id(thread, message_id), []).append(link)
        for line in lines:
            line["memories"] = sorted(told.get(line["id"], ()), key=lambda link: link["memory_id"])

    _completing: Final[dict[str, Callable[..., None]]] = {
        "entity": _entity,
        "item": _item,
        "memory": _memory,
        "merge": _merge,
        "message": _message,
        "note": _message,
        "relation": _relation,
        "source": _source,
    }


_UUID: Final = 36


def _cut(id_: str, query: _Query) -> int:
    """Where what an id begins with ends."""
    if query.place is sources.c.message_id:
        return _UUID
    return id_.rindex("/") if query.counted or query.place is not None else len(id_)


def _code_points(column: ColumnElement[Any], connection: Connection) -> ColumnElement[Any]:
    return column.collate("C") if connection.dialect.name == "postgresql" else column
