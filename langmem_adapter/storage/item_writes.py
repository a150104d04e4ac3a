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
from langmem_adapter.storage.items import (
    ITEMS,
    PLACES,
    Namespace,
    encode,
    item_id,
    item_vectors,
    items,
    namespaces,
    present,
)
from langmem_adapter.storage.prepared_statements import Prepared, any_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy import Connection

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
