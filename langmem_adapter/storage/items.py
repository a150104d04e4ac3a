"""Items of a LangGraph store: namespaces, reads, and the one writer.

A label may hold any character but NUL, so no character is free to stand between two labels. U+0001 ends a label, and where
it is part of one it is written as U+0002 U+0001 (and U+0002 twice). That keeps the order of code points, hence everything
under a prefix is one range of an index, whatever stands in the labels: no LIKE, no pattern, no other case.

An item has any number of vectors: one for each field that is indexed, and for each element of a list. The numbers of its
vectors follow from its own, `pk * 65_536 + place`, so that whoever finds a vector knows the item without asking. In the change
feed the space `items` names vectors; that of place 0 is named by every change of an item, whether it has a vector or not.

A value is kept as JSON text on both databases: what comes back is what was put, with its numbers and the order of its keys.
Times and lifetimes are whole microseconds, times since 1970: every put writes several, and every search compares them.
"""

from __future__ import annotations

import secrets
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
from langmem_adapter.storage.feed import INSERT_CHANGE, Space, last_seq
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
_LONGEST: Final = 2_000  # bytes; a row in an index of Postgres may have some more
_KEPT: Final = 65_536


@bounded_cache(_KEPT)
def encode(namespace: Namespace) -> str:
    """The text of a namespace.

    Raises:
        InvalidInputError: A label is no text that databases can keep, or all of them are too long.
    """
    labels = (check_text(label, "a namespace label") for label in namespace)
    text = "".join(label.replace(_ESCAPE, _ESCAPE * 2).replace(_END, _ESCAPE + _END) + _END for label in labels)
    if (size := len(text.encode())) > _LONGEST:
        raise InvalidInputError(f"this namespace has {size:,} bytes; {_LONGEST:,} are allowed, use a hash of it")
    return text


def item_id(namespace: Namespace, key: str) -> str:
    """The name of an item in the whole store, 20 letters long: a hash of its namespace and its key."""
    digest = blake2b(f"{encode(namespace)}\x00{key}".encode(), digest_size=15).digest()
    return urlsafe_b64encode(digest).decode()


@bounded_cache(_KEPT)
def decode(text: str) -> Namespace:
    """The namespace of a text, the inverse of `encode`."""
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


PLACES: Final = 1 << 16
"""So many vectors an item may have."""


# The collation is that of code points, on every server: paths must sort as Python sorts their labels.
namespaces: Final = Table(
    "namespaces",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=False),
    Column("path", Text().with_variant(Text(collation="C"), "postgresql"), nullable=False, unique=True),
)

_EXPIRES: Final = text("expires_at IS NOT NULL")

# `id` is the hash of namespace and key, so that keys may be of any length, and many are looked up at once. `fields` is the
# `index` argument of the put as JSON: NULL for the store's own fields, [] for none.
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
    """The time as items keep it."""
    return time.time_ns() // 1_000


def moment(at: int) -> datetime:
    """A time that was kept; the nearest that Python can hold."""
    try:
        return EPOCH + timedelta(microseconds=at)
    except (OverflowError, TypeError):  # SQLite sorts texts after numbers
        return FIRST if isinstance(at, int | float) and at < 0 else LAST


def by_key(connection: Connection, namespace: Namespace, key: str) -> Any:
    """The row of one item, or `None`: the columns of `items` but the namespace's id, and its `path`."""
    return _BY_ID.first(connection, {"id": item_id(namespace, key)})


def by_pks(connection: Connection, pks: Sequence[int]) -> dict[int, Any]:
    """The same rows by their numbers."""
    return {row.pk: row for row in _BY_PK.rows(connection, {"pks": pks})} if pks else {}


def values_by_pks(connection: Connection, pks: Sequence[int]) -> list[Any]:
    """Only pk, value and expires_at of those that exist, in the order given: enough to tell which are wanted."""
    rows = {row.pk: row for row in _VALUES.rows(connection, {"pks": pks})}
    return [rows[pk] for pk in pks if pk in rows]


def after(connection: Connection, pk: int, limit: int) -> list[Any]:
    """The same rows, ascending by their numbers, of the items after one."""
    return list(connection.execute(_ROW.where(items.c.pk > pk).order_by(items.c.pk).limit(limit)))


def count(connection: Connection) -> int:
    """How many items there are."""
    return int(connection.execute(select(func.count()).select_from(items)).scalar_one())


def expand(connection: Connection, prefix: Namespace) -> list[int]:
    """Ids of every namespace that begins with these labels, itself included, ascending."""
    if not prefix:
        return [row.id for row in _EVERYWHERE.rows(connection)]
    return [row.id for row in _WITHIN.rows(connection, _range(prefix))]


def newest(connection: Connection, ids: Collection[int], *, first: int, unindexed: bool = False) -> Iterator[list[int]]:
    """Numbers of items in these namespaces, that changed last first, page by page, the first of a length of its own.

    The transaction has to last as long as they are asked for; *unindexed* means only those without a vector.
    """
    asked = {"ids": list(ids), "before": _LAST, "vectors": 0 if unindexed else PLACES}
    limit = first
    while rows := _NEWEST.rows(connection, {**asked, "limit": limit}):
        yield [row.pk for row in rows]
        if len(rows) < limit:
            return
        asked["before"], limit = rows[-1].seq, _PAGE


def listed(connection: Connection, prefix: Namespace, *, now: int | None) -> Iterator[Namespace]:
    """Every namespace that begins with these labels and has an item, in order, while the transaction lasts.

    *now* leaves out namespaces whose items have all expired by then; `None` counts these, too.
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


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

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
_KNOWN: Final = select(*(items.c[name] for name in ("pk", "id", "namespace_id", "vectors", "updated_at", "seq")))
_KNOWN_IDS: Final = Prepared(_KNOWN.where(any_of(items.c.id, "ids")))
_KNOWN_PKS: Final = Prepared(_KNOWN.where(any_of(items.c.pk, "pks")))
_COUNT_VECTORS: Final = Prepared(
    update(items).where(items.c.pk == bindparam("_pk")).values(vectors=bindparam("vectors"))
)
_REFRESH: Final = Prepared(
    update(items)
    .where(items.c.pk == bindparam("_pk"), items.c.seq == bindparam("_seq"))
    .values(expires_at=bindparam("expires_at"))
)
_CHUNK: Final = 500
_POSTED: Final = (
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
    """What shall become of one item."""

    namespace: Namespace
    key: str
    value: str | None
    """A JSON object as text; `None` deletes the item."""
    fields: str | None = None
    """The paths that it is indexed by, as JSON text; `None` for the store's own."""
    vectors: Sequence[bytes] = ()
    """Float32 bytes."""
    ttl: int | None = None
    """Microseconds that it lives after it was read or written last; `None` for ever."""


def write(connection: Connection, puts: Sequence[Put], *, fingerprint: str | None = None) -> None:
    """Carry out some puts and deletions, no two of them of one item.

    Raises:
        EmbeddingMismatchError: The vectors kept were made by another one.
    """
    if fingerprint is not None and any(put.vectors for put in puts):
        _claim(connection, fingerprint)
    if not puts:
        return
    entry = _Entry(connection)
    ids = [item_id(put.namespace, put.key) for put in puts]
    known = {row.id: row for row in _KNOWN_IDS.rows(connection, {"ids": ids})}
    places = _NAMESPACES.rows(connection, {"paths": {encode(put.namespace) for put in puts}})
    entry.namespace_ids.update({row.path: row.id for row in places})
    for name, put in zip(ids, puts, strict=True):
        entry.take(name, put, known.get(name))
    entry.post()


def refresh(connection: Connection, rows: Iterable[Any], now: int) -> None:
    """Let items that were read live on from *now*, unless they were written meanwhile."""
    lives = [{"_pk": row.pk, "_seq": row.seq, "expires_at": now + row.ttl} for row in rows]
    _REFRESH.run(connection, *lives)


def sweep(connection: Connection, now: int) -> int:
    """Delete some hundred items that have expired, and tell how many; 0 when there are no more."""
    expired = connection.execute(_KNOWN.where(items.c.expires_at <= now).order_by(items.c.pk).limit(_CHUNK)).all()
    entry = _Entry(connection)
    for row in expired:
        entry.delete(row)
    entry.post()
    return len(expired)


def erase(connection: Connection) -> int:
    """Remove every item with its vectors, and every namespace; every index is told so. How many items there were."""
    _forget_vectors(connection)
    count = connection.execute(delete(items)).rowcount
    connection.execute(delete(namespaces))
    meta.drop(connection, ITEMS.model)
    return count


def drop_vectors(connection: Connection, fingerprint: str) -> None:
    """Remove the vectors of every item; from now on those of another embedding model are kept."""
    _forget_vectors(connection)
    connection.execute(update(items).values(vectors=0))
    meta.put(connection, ITEMS.model, fingerprint)


def give_vectors(
    connection: Connection, vectors: Mapping[int, Sequence[bytes]], rows: Iterable[Any], *, fingerprint: str
) -> None:
    """Give items, as they were read, their vectors by their numbers, unless they were written, or given some, since then."""
    _claim(connection, fingerprint)
    seqs = {row.pk: row.seq for row in rows}
    entry = _Entry(connection)
    for known in _KNOWN_PKS.rows(connection, {"pks": list(seqs)}):
        if known.seq == seqs[known.pk] and not known.vectors:
            entry.give(known, vectors[known.pk])
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
    """The rows of one write, collected by the statement that writes them."""

    def __init__(self, connection: Connection) -> None:
        self.namespace_ids: dict[str, int] = {}
        self._connection = connection
        self._now = present()
        self._seq = last_seq(connection)
        self._rows: dict[Prepared, list[dict[str, Any]]] = {statement: [] for statement in _POSTED}
        self._left: set[int] = set()  # namespaces that may be empty now

    def take(self, name: str, put: Put, known: Any) -> None:
        """Collect the rows of one put or deletion of the item of this id; *known* is what is there, or `None`."""
        if put.value is None:
            if known is not None:
                self.delete(known)
        elif known is None:
            self._add(name, put)
        else:
            self._update(put, known)

    def delete(self, known: Any) -> None:
        """Collect the rows of one deletion."""
        self._tell(known.pk, known.vectors, "delete")
        self._drop_vectors(known)
        self._rows[_DELETE_ITEM].append({"pk": known.pk})
        self._left.add(known.namespace_id)

    def give(self, known: Any, vectors: Sequence[bytes]) -> None:
        """Collect the vectors of an item that has none; it counts as unchanged."""
        self._tell(known.pk, len(vectors), "put")
        self._rows[_COUNT_VECTORS].append({"_pk": known.pk, "vectors": len(vectors)})
        self._keep_vectors(vectors, known.pk, known.namespace_id)

    def draw(self, row: int, op: str) -> int:
        """Collect one change and give its number."""
        self._seq += 1
        change = {"seq": self._seq, "nonce": secrets.token_bytes(8), "space": ITEMS.name, "row": row, "op": op}
        self._rows[INSERT_CHANGE].append(change)
        return self._seq

    def post(self) -> None:
        """Write what was collected."""
        self._rows[_DELETE_EMPTY] = [{"id": namespace_id} for namespace_id in self._left]
        for statement, rows in self._rows.items():
            statement.run(self._connection, *rows)

    def _add(self, name: str, put: Put) -> None:
        pk = self._seq + 1  # an item's number is that of its first change
        path = encode(put.namespace)
        if path not in self.namespace_ids:
            self.namespace_ids[path] = pk
            self._rows[_INSERT_NAMESPACE].append({"id": pk, "path": path})
        namespace_id = self.namespace_ids[path]
        row = {"pk": pk, "id": name, "namespace_id": namespace_id, "key": put.key, "created_at": self._now}
        self._rows[_INSERT_ITEM].append({**row, **self._written(put, pk, self._now, places=1)})
        self._keep_vectors(put.vectors, pk, namespace_id)

    def _update(self, put: Put, known: Any) -> None:
        now = max(self._now, known.updated_at + 1)  # also where two puts, or two clocks, tell the same time
        self._rows[_UPDATE_ITEM].append({"_pk": known.pk, **self._written(put, known.pk, now, places=known.vectors)})
        self._drop_vectors(known)
        self._keep_vectors(put.vectors, known.pk, known.namespace_id)

    def _written(self, put: Put, pk: int, now: int, *, places: int) -> Mapping[str, Any]:
        return {
            "value": put.value,
            "fields": put.fields,
            "vectors": len(put.vectors),
            "updated_at": now,
            "ttl": put.ttl,
            "expires_at": None if put.ttl is None else self._now + put.ttl,
            "seq": self._tell(pk, max(places, len(put.vectors)), "put"),
        }

    def _tell(self, pk: int, places: int, op: str) -> int:
        """Collect a change for each vector that the item has or had, at least for the first; the number of the last."""
        return [self.draw(pk * PLACES + place, op) for place in range(max(places, 1))][-1]

    def _keep_vectors(self, vectors: Sequence[bytes], pk: int, namespace_id: int) -> None:
        self._rows[_INSERT_VECTOR] += [
            {"pk": pk * PLACES + place, "namespace_id": namespace_id, "embedding": vector}
            for place, vector in enumerate(vectors)
        ]

    def _drop_vectors(self, known: Any) -> None:
        if known.vectors:
            one = known.pk * PLACES
            self._rows[_DELETE_VECTORS].append({"one": one, "end": one + known.vectors - 1})
