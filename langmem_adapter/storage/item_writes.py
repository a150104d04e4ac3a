"""The one writer of items: puts, deletions, lifetimes and erasure, each as part of a transaction.

An item that is put again keeps its number and the time it was created; its old vectors go, all of them. Namespaces are made
by the first item in them, and go with the last.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import bindparam, delete, exists, insert, select, update

from langmem_adapter.storage import meta
from langmem_adapter.storage.feed import INSERT_CHANGE, last_seq
from langmem_adapter.storage.items import ITEMS, PLACES, item_vectors, items, namespaces, present
from langmem_adapter.storage.namespaces import Namespace, encode, item_id
from langmem_adapter.storage.prepared_statements import Prepared, any_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from sqlalchemy import Connection

__all__ = ["Put", "drop_vectors", "erase", "give_vectors", "refresh", "sweep", "write"]

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
_EXPIRED: Final = Prepared(
    _KNOWN.where(items.c.expires_at <= bindparam("now")).order_by(items.c.pk).limit(bindparam("limit"))
)
_REFRESH: Final = Prepared(
    update(items)
    .where(items.c.pk == bindparam("_pk"), items.c.seq == bindparam("_seq"))
    .values(expires_at=bindparam("expires_at"))
)
_CHUNK: Final = 500


@dataclass(frozen=True, slots=True, eq=False)
class Put:
    """What shall become of one item.

    Attributes:
        namespace: Where it lies.
        key: Its name there.
        value: A JSON object as text; `None` deletes the item.
        fields: The paths that it is indexed by, as JSON text; `None` for the store's own.
        vectors: Its vectors, float32 bytes.
        ttl: Microseconds that it lives after it was read or written last; `None` for ever.
    """

    namespace: Namespace
    key: str
    value: str | None
    fields: str | None = None
    vectors: Sequence[bytes] = ()
    ttl: int | None = None


def write(connection: Connection, puts: Sequence[Put], *, fingerprint: str | None = None) -> None:
    """Carry out some puts and deletions, no two of them of one item.

    Raises:
        EmbeddingMismatchError: The vectors kept were made by another one.
    """
    if fingerprint is not None and any(put.vectors for put in puts):
        _claim(connection, fingerprint)
    entry = _Entry(connection)
    ids = [item_id(put.namespace, put.key) for put in puts]
    entry.look_up(ids, {encode(put.namespace) for put in puts})
    for name, put in zip(ids, puts, strict=True):
        entry.take(name, put)
    entry.post()


def refresh(connection: Connection, rows: Iterable[Any], now: int) -> None:
    """Let items that were read live on from *now*, unless they were written meanwhile."""
    lives = [{"_pk": row.pk, "_seq": row.seq, "expires_at": now + row.ttl} for row in rows]
    _REFRESH.many(connection, lives)


def sweep(connection: Connection, now: int) -> int:
    """Delete some hundred items that have expired, and tell how many; 0 when there are no more."""
    expired = _EXPIRED.rows(connection, {"now": now, "limit": _CHUNK})
    entry = _Entry(connection)
    for row in expired:
        entry.delete(row)
    entry.post()
    return len(expired)


def erase(connection: Connection) -> int:
    """Remove every item with its vectors, and every namespace; every index is told to forget them.

    Returns:
        How many items there were.
    """
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
    """Give items without vectors theirs, unless they were written, or given vectors, since they were read.

    Args:
        connection: In a write transaction.
        vectors: By the item's number.
        rows: The items as they were read.
        fingerprint: Of the embedding model that made the vectors.

    Raises:
        EmbeddingMismatchError: Vectors of another one were written meanwhile.
    """
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
    """The rows of one write, collected and posted table by table."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._now = present()
        self._seq = last_seq(connection)
        self._namespace_ids: dict[str, int] = {}
        self._known: dict[str, Any] = {}
        self._changes: list[dict[str, Any]] = []
        self._namespaces: list[dict[str, Any]] = []
        self._added: list[dict[str, Any]] = []
        self._updated: list[dict[str, Any]] = []
        self._counted: list[dict[str, Any]] = []
        self._gone: list[dict[str, Any]] = []
        self._vectors: list[dict[str, Any]] = []
        self._old_vectors: list[dict[str, Any]] = []
        self._left: set[int] = set()  # namespaces that may be empty now

    def look_up(self, ids: Sequence[str], paths: Collection[str]) -> None:
        """Read what is known of items and namespaces that are to be written."""
        if ids:
            self._known = {row.id: row for row in _KNOWN_IDS.rows(self._connection, {"ids": ids})}
            self._namespace_ids = {row.path: row.id for row in _NAMESPACES.rows(self._connection, {"paths": paths})}

    def take(self, name: str, put: Put) -> None:
        """Collect the rows of one put or deletion of the item of this id."""
        known = self._known.get(name)
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
        self._gone.append({"pk": known.pk})
        self._left.add(known.namespace_id)

    def give(self, known: Any, vectors: Sequence[bytes]) -> None:
        """Collect the vectors of an item that has none; it counts as unchanged."""
        self._tell(known.pk, len(vectors), "put")
        self._counted.append({"_pk": known.pk, "vectors": len(vectors)})
        self._keep_vectors(vectors, known.pk, known.namespace_id)

    def draw(self, row: int, op: str) -> int:
        """Collect one change and give its number."""
        self._seq += 1
        change = {"seq": self._seq, "nonce": secrets.token_bytes(8), "space": ITEMS.name, "row": row, "op": op}
        self._changes.append(change)
        return self._seq

    def post(self) -> None:
        """Write what was collected."""
        collected = (
            (INSERT_CHANGE, self._changes),
            (_INSERT_NAMESPACE, self._namespaces),
            (_INSERT_ITEM, self._added),
            (_UPDATE_ITEM, self._updated),
            (_COUNT_VECTORS, self._counted),
            (_DELETE_ITEM, self._gone),
            (_DELETE_VECTORS, self._old_vectors),
            (_INSERT_VECTOR, self._vectors),
            (_DELETE_EMPTY, [{"id": namespace_id} for namespace_id in self._left]),
        )
        for statement, rows in collected:
            statement.many(self._connection, rows)

    def _add(self, name: str, put: Put) -> None:
        pk = self._seq + 1  # an item's number is that of its first change
        namespace_id = self._namespace_of(put, pk)
        row = {"pk": pk, "id": name, "namespace_id": namespace_id, "key": put.key, "created_at": self._now}
        self._added.append({**row, **self._written(put, pk, self._now, places=1)})
        self._keep_vectors(put.vectors, pk, namespace_id)

    def _namespace_of(self, put: Put, pk: int) -> int:
        path = encode(put.namespace)
        if path not in self._namespace_ids:
            self._namespace_ids[path] = pk
            self._namespaces.append({"id": pk, "path": path})
        return self._namespace_ids[path]

    def _update(self, put: Put, known: Any) -> None:
        now = max(self._now, known.updated_at + 1)  # also where two puts, or two clocks, tell the same time
        self._updated.append({"_pk": known.pk, **self._written(put, known.pk, now, places=known.vectors)})
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
        self._vectors += [
            {"pk": pk * PLACES + place, "namespace_id": namespace_id, "embedding": vector}
            for place, vector in enumerate(vectors)
        ]

    def _drop_vectors(self, known: Any) -> None:
        if known.vectors:
            self._old_vectors.append({"one": known.pk * PLACES, "end": known.pk * PLACES + known.vectors - 1})
