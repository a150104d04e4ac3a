"""Lossless export: a database, or a scope of it, as lines."""

from __future__ import annotations

import json
from array import array
from bisect import bisect_right
from collections import defaultdict
from datetime import UTC, datetime
from hashlib import sha256
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import String, false, func, null, select, true

from langmem_adapter.records.scope import SCOPE_FIELDS
from langmem_adapter.storage import meta
from langmem_adapter.storage.feed import VECTORS
from langmem_adapter.storage.items import ITEMS, PLACES, decode, item_vectors, items
from langmem_adapter.storage.lossless.kinds import KINDS, id_column, line_id, text_of
from langmem_adapter.storage.queries import any_of
from langmem_adapter.storage.scopes import OWNER, ids_within, reach
from langmem_adapter.storage.sources import source_memories
from langmem_adapter.storage.tables import relations, scopes

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterator, Sequence

    from sqlalchemy import Column, ColumnElement, Connection, FromClause, Select

    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.database import Database
    from langmem_adapter.storage.lossless.kinds import LineKind

FORMAT: Final = "langmem_adapter"
VERSION: Final = 1
_PAGE: Final = 1_000
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
        self._ranks: dict[Column[int], array[int]] | None = {} if ranks else None

    def header(self) -> dict[str, Any]:
        """The first line."""
        queries = {name: self._select(kind).with_only_columns(func.count()) for name, kind in KINDS.items()}
        counts = {name: int(self._connection.execute(query).scalar_one()) for name, query in queries.items()}
        head = {"format": FORMAT, "version": VERSION, "exported_at": datetime.now(UTC).isoformat()}
        head |= {"scopes": None if self._scope is None else [self._scope.named], "counts": counts}
        models = {"memory": VECTORS.model, "item": ITEMS.model}
        marks = {name: meta.get(self._connection, key) for name, key in models.items()}
        return {**head, "vectors": marks} if self._vectors else head

    def read(self, kind: LineKind, *conditions: ColumnElement[bool]) -> Iterator[dict[str, Any]]:
        """The lines of a kind, sorted by their ids in code-point order."""
        order = [self._in_code_points(part) for part in (kind.start, kind.end) if part is not None]
        query = self._select(kind).where(*conditions).order_by(*order)
        complete = getattr(self, f"_complete_{kind.name}", None)
        with self._connection.execute(query, execution_options={"yield_per": _PAGE}) as result:
            for rows in result.partitions():
                lines = [self._line(kind, row) for row in rows]
                self._add_children(kind, rows, lines)
                if complete is not None:
                    complete(lines)
                yield from lines

    def of(
        self, kind: LineKind, groups: Collection[str], places: Collection[Any] = ()
    ) -> dict[str, list[dict[str, Any]]]:
        """The lines of some groups, by these; with *places* only those."""
        listed = ((kind.start, groups), (kind.end, places))
        lines = self.read(kind, *(any_of(column, values) for column, values in listed if column is not None and values))
        return {group: list(own) for group, own in groupby(lines, key=lambda line: kind.group_of(line["id"]))}

    def _select(self, kind: LineKind) -> Select[Any]:
        """The rows of a kind: start and end of the id, what the list needs, scope, columns, ids of references, and more."""
        parents = [] if kind.child is None else [kind.table.c[name] for name in kind.child.parents.values()]
        more = [null() if name == "_vector" and not self._vectors else column for name, column in kind.more.items()]
        end, owner = null() if kind.end is None else kind.end, OWNER if kind.is_owned else []
        columns = [kind.start, end, *parents, *owner, *kind.columns, *map(id_column, kind.aliases.values()), *more]
        tables: FromClause = kind.table
        for column, (name, _) in kind.references.items():
            other = kind.aliases[name]
            tables = tables.outerjoin(other, next(iter(other.primary_key)) == kind.table.c[column])
        if kind.is_owned:
            tables = tables.join(scopes, scopes.c.id == kind.table.c.scope_id)
        query = select(*(column.label(f"c{number}") for number, column in enumerate(columns)))
        return query.select_from(tables).where(self._within(kind))

    def _within(self, kind: LineKind) -> ColumnElement[bool]:
        if self._scope is None:
            return true()
        if kind.is_owned:
            return kind.table.c.scope_id.in_(ids_within(self._scope))
        return false() if kind.table is items else reach(self._scope, kind.start.table)

    def _in_code_points(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        is_text = isinstance(column.type, String) and self._connection.dialect.name == "postgresql"
        return column.collate("C") if is_text else column

    def _line(self, kind: LineKind, row: Sequence[Any]) -> dict[str, Any]:
        start = 2 if kind.child is None else 2 + len(kind.child.parents)
        values = islice(row, start, None)
        line = {"kind": kind.name, "id": line_id(row[0], row[1])}
        if kind.is_owned:
            line |= zip(SCOPE_FIELDS, values, strict=False)
        line |= kind.write(values, self._rank)
        return line | dict(zip(chain(kind.aliases, kind.more), values, strict=True))

    def _rank(self, column: Column[int], number: int) -> int:
        """How many exported rows have this number in a column, or a smaller one."""
        if self._ranks is None:
            return 0
        if column not in self._ranks:
            kind = next(kind for kind in KINDS.values() if kind.table is column.table)
            query = self._select(kind).with_only_columns(column).order_by(column)
            rows = self._connection.execute(query, execution_options={"yield_per": 10 * _PAGE})
            self._ranks[column] = array("q", rows.scalars())
        return bisect_right(self._ranks[column], number)

    # ── fields of other tables ──────────────────────────────────────────────────────────────────────────────────────

    def _add_children(self, kind: LineKind, rows: Sequence[Any], lines: Sequence[dict[str, Any]]) -> None:
        """Add the objects of a list, sorted by their first field; of lines with a count the first has the list."""
        child = kind.child
        if child is None:
            return
        keys = [tuple(row[2 : 2 + len(child.parents)]) for row in rows]
        columns = [child.table.c[name] for name in child.parents]
        wanted = (any_of(column, set(values)) for column, values in zip(columns, zip(*keys, strict=True), strict=True))
        objects = defaultdict(list)
        for row in self._connection.execute(select(*columns, *child.columns).where(*wanted)):
            key, values = tuple(row[: len(columns)]), islice(row, len(columns), None)
            objects[key].append(child.write(values, self._rank))
        name = child.names[1 if child.order else 0]
        for row, key, line in zip(rows, keys, lines, strict=True):
            own = objects[key] if row[1] in {None, 1, line.get("message_id")} else []
            line[child.name] = sorted(own, key=itemgetter(name))

    def _complete_item(self, lines: list[dict[str, Any]]) -> None:
        numbers = [[line.pop(name) for name in ("_pk", "_path", "_count")] for line in lines]
        pks = [pk * PLACES + place for pk, _, count in numbers for place in range(count if self._vectors else 0)]
        query = select(item_vectors.c.pk, item_vectors.c.embedding).where(any_of(item_vectors.c.pk, pks))
        vectors = {row.pk: row.embedding for row in self._connection.execute(query)} if pks else {}
        for line, (pk, path, count) in zip(lines, numbers, strict=True):
            line |= {"born": self._rank(items.c.pk, pk), "namespace": list(decode(path))}
            if self._vectors:
                places = (vectors.get(pk * PLACES + place) for place in range(count))
                line["vectors"] = [text_of(vector) for vector in places if vector is not None]

    def _complete_memory(self, lines: list[dict[str, Any]]) -> None:
        key, message = source_memories.c.memory_id, source_memories.c.message_id
        messages = defaultdict(set)
        query = select(key, message).where(any_of(key, [line["id"] for line in lines]))
        for memory_id, message_id in self._connection.execute(query):
            messages[memory_id].add(message_id)
        for line in lines:
            vector, line["sources"] = line.pop("_vector"), sorted(messages.get(line["id"], ()))
            if self._vectors:
                line["vector"] = text_of(vector)

    def _complete_merge(self, lines: list[dict[str, Any]]) -> None:
        for line in lines:
            moved = line.pop("_moved")
            rows = ([None if pk is None else self._rank(relations.c.pk, pk) for pk in pair] for pair in moved["rows"])
            line |= {"rows": list(rows), "links": moved["links"], "keys": moved["keys"]}
