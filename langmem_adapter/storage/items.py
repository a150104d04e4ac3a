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

import time
from base64 import urlsafe_b64encode
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
    exists,
    func,
    or_,
    select,
    text,
)

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.forks import bounded_cache
from langmem_adapter.records.checks import check_text
from langmem_adapter.storage.feed import Space
from langmem_adapter.storage.moments import COUNTED, EPOCH, FIRST, LAST
from langmem_adapter.storage.prepared_statements import Prepared, any_of
from langmem_adapter.storage.tables import Number, metadata

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
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
