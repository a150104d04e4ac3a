"""Items of a LangGraph store: namespaces, reads, and the one writer.

A label of a namespace may have any character but NUL. U+0001 ends a label; within one it is written as U+0002 U+0001, and
U+0002 twice. That keeps the order of code points, so everything under a prefix is one range of an index.

An item has any number of vectors: one for each field that is indexed, and for each element of a list. Their numbers follow from
its own, `pk * 65_536 + place`. In the change feed the space `items` names vectors; every change of an item names that of place
0, whether it exists or not. A value is stored as JSON text, so it comes back with its numbers and the order of its keys. Times
and lifetimes are whole microseconds, times since 1970: every put writes several, and every search compares them.
"""

from __future__ import annotations

import time
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from datetime import timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sqlalchemy import (
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    and_,
    bindparam,
    cast,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    text,
    update,
)

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.forks import bounded_cache
from langmem_adapter.records.checks import check_text
from langmem_adapter.storage import meta
from langmem_adapter.storage.feed import INSERT_CHANGE, Space, last_seq, new_change
from langmem_adapter.storage.queries import Prepared, any_of
from langmem_adapter.storage.tables import Number, metadata
from langmem_adapter.storage.timestamps import COUNTED, EPOCH, FIRST, LAST

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

Namespace: TypeAlias = tuple[str, ...]

_END: Final = "\x01"
_ESCAPE: Final = "\x02"
_MAX_BYTES: Final = 2_000  # a row in an index of Postgres may have some more
PLACES: Final = 1 << 16
"""The maximum of vectors of an item."""

# ── namespaces ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@bounded_cache(65_536)
def encode(namespace: Namespace) -> str:
    """The text of a namespace."""
    labels = (check_text(label, "a namespace label") for label in namespace)
    text = "".join(label.replace(_ESCAPE, _ESCAPE * 2).replace(_END, _ESCAPE + _END) + _END for label in labels)
    if (size := len(text.encode())) > _MAX_BYTES:
        raise InvalidInputError(f"this namespace has {size:,} bytes; {_MAX_BYTES:,} are allowed: use a hash of it")
    return text


def item_id(namespace: Namespace, key: str) -> str:
    """The id of an item in the whole store, 20 letters: a hash of its namespace and its key."""
    digest = blake2b(f"{encode(namespace)}\x00{key}".encode(), digest_size=15).digest()
    return urlsafe_b64encode(digest).decode()


@bounded_cache(65_536)
def decode(text: str) -> Namespace:
    labels, label, signs = [], "", iter(text)
    for sign in signs:
        if sign == _END:
            labels.append(label)
            label = ""
        else:
            label += next(signs) if sign == _ESCAPE else sign
    return tuple(labels)


def end_of(prefix: str) -> str:
    """The first text after everything that begins with the text of a namespace, which must have labels."""
    return prefix.removesuffix(_END) + _ESCAPE


# ── tables ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

# The collation is that of code points, on every server: paths must sort as Python sorts their labels.
namespaces: Final = Table(
    "namespaces",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=False),
    Column("path", Text().with_variant(Text(collation="C"), "postgresql"), nullable=False, unique=True),
)

_EXPIRES: Final = text("expires_at IS NOT NULL")

# `id` is the hash of namespace and key, so that keys may have any length. `fields` is the `index` argument of the put as JSON:
# NULL for the store's own fields, [] for none.
items: Final = Table(
    "items",
    metadata,
    Column("pk", Number, primary_key=True, autoincrement=False),
    Column("id", String(20), nullable=False, unique=True),
    Column("namespace_id", Number, ForeignKey("namespaces.id"), nullable=False),
    Column("key", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("fields", Text),
    Column("vectors", Integer, nullable=False),
    Column("created_at", Number, nullable=False, info=COUNTED),
    Column("updated_at", Number, nullable=False, info=COUNTED),
    Column("ttl", Number),
    Column("expires_at", Number, info=COUNTED),
    Column("seq", Number, ForeignKey("changes.seq"), nullable=False),
    Index("ix_items_newest", "namespace_id", "seq"),
    Index("ix_items_expires", "expires_at", sqlite_where=_EXPIRES, postgresql_where=_EXPIRES),
)

item_vectors: Final = Table(
    "item_vectors",
    metadata,
    Column("pk", Number, primary_key=True, autoincrement=False),
    Column("namespace_id", Number, nullable=False),
    Column("embedding", LargeBinary, nullable=False),
)

ITEMS: Final = Space(
    "items",
    item_vectors.c.pk,
    item_vectors.c.namespace_id,
    item_vectors.c.embedding,
    model="embeddings_items",
    remedy="MemoryStore(memory).reindex()",
    sizes=select(items.c.namespace_id, cast(func.sum(items.c.vectors), Number))
    .where(items.c.vectors > 0)
    .group_by(items.c.namespace_id)
    .order_by(items.c.namespace_id),
)
"""Vectors of items, for an index."""

# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

_ROW: Final = select(
    *(items.c[name] for name in "pk key value fields vectors created_at updated_at ttl expires_at seq".split()),
    namespaces.c.path,
).join_from(items, namespaces, namespaces.c.id == items.c.namespace_id)
_BY_ID: Final = Prepared(_ROW.where(items.c.id == bindparam("id")))
_BY_PK: Final = Prepared(_ROW.where(any_of(items.c.pk, "pks")))
_VALUES: Final = Prepared(select(items.c.pk, items.c.value, items.c.expires_at).where(any_of(items.c.pk, "pks")))
_IDS: Final = select(namespaces.c.id).order_by(namespaces.c.id)
_UNDER: Final = namespaces.c.path >= bindparam("begin"), namespaces.c.path < bindparam("end")
_EVERYWHERE: Final = Prepared(_IDS)
_WITHIN: Final = Prepared(_IDS.where(*_UNDER))
_NEWEST: Final = Prepared(
    select(items.c.pk, items.c.seq)
    .where(
        any_of(items.c.namespace_id, "ids"), items.c.seq < bindparam("before"), items.c.vectors <= bindparam("vectors")
    )
    .order_by(items.c.seq.desc())
    .limit(bindparam("limit"))
)
_LIVE: Final = exists().where(
    and_(
        items.c.namespace_id == namespaces.c.id,
        or_(items.c.expires_at.is_(None), items.c.expires_at > bindparam("now")),
    )
)
_PATHS: Final = select(namespaces.c.path).order_by(namespaces.c.path)
_LAST: Final = (1 << 63) - 1
_PAGE: Final = 1_000


def present() -> int:
    return time.time_ns() // 1_000


def moment(at: int) -> datetime:
    """A stored time; the nearest that Python can hold."""
    try:
        return EPOCH + timedelta(microseconds=at)
    except (OverflowError, TypeError):  # SQLite sorts texts after numbers
        return FIRST if isinstance(at, int | float) and at < 0 else LAST


def counted(at: datetime) -> int:
    """A time as items store it."""
    return (at - EPOCH) // EPOCH.resolution


def by_key(connection: Connection, namespace: Namespace, key: str) -> Any:
    """The row of one item, or `None`: the columns of `items` without the namespace's id, and its `path`."""
    return _BY_ID.first(connection, {"id": item_id(namespace, key)})


def by_pks(connection: Connection, pks: Sequence[int]) -> dict[int, Any]:
    return {row.pk: row for row in _BY_PK.rows(connection, {"pks": pks})} if pks else {}


def values_by_pks(connection: Connection, pks: Sequence[int]) -> list[Any]:
    """The pk, value and expires_at of the items that exist, in the order of *pks*."""
    rows = {row.pk: row for row in _VALUES.rows(connection, {"pks": pks})}
    return [rows[pk] for pk in pks if pk in rows]


def after(connection: Connection, pk: int, limit: int) -> list[Any]:
    return list(connection.execute(_ROW.where(items.c.pk > pk).order_by(items.c.pk).limit(limit)))


def count(connection: Connection) -> int:
    return int(connection.execute(select(func.count()).select_from(items)).scalar_one())


def expand(connection: Connection, prefix: Namespace) -> list[int]:
    """Ids of the namespaces that begin with these labels, ascending."""
    if not prefix:
        return [row.id for row in _EVERYWHERE.rows(connection)]
    return [row.id for row in _WITHIN.rows(connection, _range(prefix))]


def newest(connection: Connection, ids: Collection[int], *, first: int, unindexed: bool = False) -> Iterator[list[int]]:
    """Numbers of items in these namespaces, latest change first, in pages; *first* is the length of the first page.

    The transaction has to last until the end; *unindexed* means only items without a vector.
    """
    values: dict[str, Any] = {"ids": list(ids), "before": _LAST, "vectors": 0 if unindexed else PLACES, "limit": first}
    while rows := _NEWEST.rows(connection, values):
        yield [row.pk for row in rows]
        if len(rows) < values["limit"]:
            return
        values |= {"before": rows[-1].seq, "limit": _PAGE}


def listed(connection: Connection, prefix: Namespace, *, now: int | None) -> Iterator[Namespace]:
    """The namespaces that begin with these labels and have an item, in order, while the transaction lasts.

    With *now* an item counts only if it has not expired by then.
    """
    query, values = _PATHS, dict[str, Any]()
    if prefix:
        query, values = query.where(*_UNDER), _range(prefix)
    if now is not None:
        query, values = query.where(_LIVE), {**values, "now": now}
    with connection.execute(query, values, execution_options={"yield_per": _PAGE}) as paths:
        yield from map(decode, paths.scalars())


def _range(prefix: Namespace) -> dict[str, str]:
    begin = encode(prefix)
    return {"begin": begin, "end": end_of(begin)}


# ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

# An item that is put again keeps its number and the time when it was created; its old vectors are deleted. A namespace is
# created with its first item, and deleted with the last.

_CHANGING: Final = "value fields vectors updated_at ttl expires_at seq".split()

_INSERT_NAMESPACE: Final = Prepared(insert(namespaces))
_INSERT_ITEM: Final = Prepared(insert(items))
_INSERT_VECTOR: Final = Prepared(insert(item_vectors))
_UPDATE_ITEM: Final = Prepared(
    update(items).where(items.c.pk == bindparam("_pk")).values({name: bindparam(name) for name in _CHANGING})
)
_DELETE_ITEM: Final = Prepared(delete(items).where(items.c.pk == bindparam("pk")))
_DELETE_VECTORS: Final = Prepared(
    delete(item_vectors).where(item_vectors.c.pk.between(bindparam("one"), bindparam("end")))
)
_DELETE_EMPTY: Final = Prepared(
    delete(namespaces).where(
        namespaces.c.id == bindparam("id"), ~exists().where(items.c.namespace_id == bindparam("id"))
    )
)
_NAMESPACES: Final = Prepared(select(namespaces.c.id, namespaces.c.path).where(any_of(namespaces.c.path, "paths")))
_CURRENT: Final = select(*(items.c[name] for name in ("pk", "id", "namespace_id", "vectors", "updated_at", "seq")))
_BY_IDS: Final = Prepared(_CURRENT.where(any_of(items.c.id, "ids")))
_BY_PKS: Final = Prepared(_CURRENT.where(any_of(items.c.pk, "pks")))
_COUNT_VECTORS: Final = Prepared(
    update(items).where(items.c.pk == bindparam("_pk")).values(vectors=bindparam("vectors"))
)
_REFRESH: Final = Prepared(
    update(items)
    .where(items.c.pk == bindparam("_pk"), items.c.seq == bindparam("_seq"))
    .values(expires_at=bindparam("expires_at"))
)
_CHUNK: Final = 500
_STATEMENTS: Final = (
    INSERT_CHANGE,
    _INSERT_NAMESPACE,
    _INSERT_ITEM,
    _UPDATE_ITEM,
    _COUNT_VECTORS,
    _DELETE_ITEM,
    _DELETE_VECTORS,
    _INSERT_VECTOR,
    _DELETE_EMPTY,
)
"""The statements of a write, in their order."""


@dataclass(frozen=True, slots=True, eq=False)
class Put:
    """The new content of one item."""

    namespace: Namespace
    key: str
    value: str | None  # a JSON object as text; `None` deletes the item
    fields: str | None = None  # the paths that it is indexed by, as JSON text; `None` for the store's own
    vectors: Sequence[bytes] = ()  # float32
    ttl: int | None = None  # its lifetime in microseconds after the last read or write; `None` for ever
    times: tuple[int, int, int | None] | None = (
        None  # created, updated, expires: of an item of another store; `None` for now
    )


def write(connection: Connection, puts: Sequence[Put], *, fingerprint: str | None = None) -> None:
    """Carry out puts and deletions, at most one of each item."""
    if fingerprint is not None and any(put.vectors for put in puts):
        _claim(connection, fingerprint)
    if not puts:
        return
    entry = _Entry(connection)
    ids = [item_id(put.namespace, put.key) for put in puts]
    current = {row.id: row for row in _BY_IDS.rows(connection, {"ids": ids})}
    rows = _NAMESPACES.rows(connection, {"paths": {encode(put.namespace) for put in puts}})
    entry.namespace_ids.update({row.path: row.id for row in rows})
    for id_, put in zip(ids, puts, strict=True):
        if put.value is not None:
            entry.put(id_, put, current.get(id_))
        elif id_ in current:
            entry.delete(current[id_])
    entry.post()


def refresh(connection: Connection, rows: Iterable[Any], now: int) -> None:
    """Extend the lifetime of items that were read, from *now*, unless they were written meanwhile."""
    lives = [{"_pk": row.pk, "_seq": row.seq, "expires_at": now + row.ttl} for row in rows]
    _REFRESH.run(connection, *lives)


def sweep(connection: Connection, now: int) -> int:
    """Delete some hundred expired items, and count them; 0 when there are no more."""
    expired = connection.execute(_CURRENT.where(items.c.expires_at <= now).order_by(items.c.pk).limit(_CHUNK)).all()
    entry = _Entry(connection)
    for row in expired:
        entry.delete(row)
    entry.post()
    return len(expired)


def erase(connection: Connection) -> int:
    """Remove all items with their vectors, and all namespaces, and count the items."""
    _forget_vectors(connection)
    count = connection.execute(delete(items)).rowcount
    connection.execute(delete(namespaces))
    meta.drop(connection, ITEMS.model)
    return count


def drop_vectors(connection: Connection, fingerprint: str) -> None:
    """Remove all vectors; from now on those of another embedding model are stored."""
    _forget_vectors(connection)
    connection.execute(update(items).values(vectors=0))
    meta.put(connection, ITEMS.model, fingerprint)


def give_vectors(
    connection: Connection, vectors: Mapping[int, Sequence[bytes]], rows: Iterable[Any], *, fingerprint: str
) -> None:
    """Give items their vectors by their numbers, unless they were written, or got vectors, since their *rows* were read."""
    _claim(connection, fingerprint)
    seqs = {row.pk: row.seq for row in rows}
    entry = _Entry(connection)
    for current in _BY_PKS.rows(connection, {"pks": list(seqs)}):
        if current.seq == seqs[current.pk] and not current.vectors:
            entry.give(current, vectors[current.pk])
    entry.post()


def _forget_vectors(connection: Connection) -> None:
    entry = _Entry(connection)
    for pk in connection.execute(select(item_vectors.c.pk).order_by(item_vectors.c.pk)).scalars():
        entry.draw(pk, "delete")
    entry.post()
    connection.execute(delete(item_vectors))


def _claim(connection: Connection, fingerprint: str) -> None:
    if not meta.check_embeddings(connection, fingerprint, ITEMS):
        meta.put(connection, ITEMS.model, fingerprint)


class _Entry:
    """The rows of one write, collected by the statement that writes them; *current* is the row of an item that exists."""

    def __init__(self, connection: Connection) -> None:
        self.namespace_ids: dict[str, int] = {}
        self._connection = connection
        self._now = present()
        self._seq = last_seq(connection)
        self._rows: dict[Prepared, list[dict[str, Any]]] = {statement: [] for statement in _STATEMENTS}
        self._left: set[int] = set()  # namespaces that may be empty now

    def put(self, id_: str, put: Put, current: Any) -> None:
        pk = self._seq + 1 if current is None else current.pk  # an item's number is that of its first change
        places = 1 if current is None else current.vectors
        # Also where two puts, or two clocks, have the same time.
        now = self._now if current is None else max(self._now, current.updated_at + 1)
        born, expires = self._now, None if put.ttl is None else self._now + put.ttl
        if put.times is not None:
            born, now, expires = put.times
        values = {
            "value": put.value,
            "fields": put.fields,
            "vectors": len(put.vectors),
            "updated_at": now,
            "ttl": put.ttl,
            "expires_at": expires,
            "seq": self._draw_each(pk, max(places, len(put.vectors)), "put"),
        }
        if current is None:
            namespace_id = self._namespace_id(encode(put.namespace), pk)
            new = {"pk": pk, "id": id_, "namespace_id": namespace_id, "key": put.key, "created_at": born}
            self._rows[_INSERT_ITEM].append(new | values)
        else:
            namespace_id = current.namespace_id
            self._rows[_UPDATE_ITEM].append({"_pk": pk, **values})
            self._drop_vectors(current)
        self._keep_vectors(put.vectors, pk, namespace_id)

    def delete(self, current: Any) -> None:
        self._draw_each(current.pk, current.vectors, "delete")
        self._drop_vectors(current)
        self._rows[_DELETE_ITEM].append({"pk": current.pk})
        self._left.add(current.namespace_id)

    def give(self, current: Any, vectors: Sequence[bytes]) -> None:
        """Collect the vectors of an item that has none; it counts as unchanged."""
        self._draw_each(current.pk, len(vectors), "put")
        self._rows[_COUNT_VECTORS].append({"_pk": current.pk, "vectors": len(vectors)})
        self._keep_vectors(vectors, current.pk, current.namespace_id)

    def draw(self, row: int, op: str) -> int:
        self._seq += 1
        self._rows[INSERT_CHANGE].append(new_change(self._seq, ITEMS.name, row, op))
        return self._seq

    def post(self) -> None:
        self._rows[_DELETE_EMPTY] = [{"id": namespace_id} for namespace_id in self._left]
        for statement, rows in self._rows.items():
            statement.run(self._connection, *rows)

    def _namespace_id(self, path: str, pk: int) -> int:
        if path not in self.namespace_ids:
            self.namespace_ids[path] = pk
            self._rows[_INSERT_NAMESPACE].append({"id": pk, "path": path})
        return self.namespace_ids[path]

    def _draw_each(self, pk: int, places: int, op: str) -> int:
        """Collect a change for each vector that the item has or had, at least for the first; the number of the last."""
        return [self.draw(pk * PLACES + place, op) for place in range(max(places, 1))][-1]

    def _keep_vectors(self, vectors: Sequence[bytes], pk: int, namespace_id: int) -> None:
        self._rows[_INSERT_VECTOR] += [
            {"pk": pk * PLACES + place, "namespace_id": namespace_id, "embedding": vector}
            for place, vector in enumerate(vectors)
        ]

    def _drop_vectors(self, current: Any) -> None:
        if current.vectors:
            one = current.pk * PLACES
            self._rows[_DELETE_VECTORS].append({"one": one, "end": one + current.vectors - 1})
