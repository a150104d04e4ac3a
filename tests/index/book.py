"""Memories and changes written straight into the tables, as the ledger does, without words."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from sqlalchemy import delete, insert, select, update

from langmem_adapter.index.base import Batch
from langmem_adapter.storage.feed import insert_changes, last_seq
from langmem_adapter.storage.tables import MEMORIES, memories, metadata, scopes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

    from langmem_adapter.index.base import Vectors
    from langmem_adapter.storage.database import Database

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Book:
    """Commits memories of a database whose tables it makes."""

    def __init__(self, database: Database) -> None:
        self.database = database
        database.setup(metadata.create_all)

    def put(self, vectors: Vectors, scope: int = 1) -> list[int]:
        return self.database.write(partial(put, vectors=vectors, scope=scope))

    def change(self, pk: int, vector: Vectors) -> None:
        self.database.write(partial(_change, pk=pk, vector=vector))

    def remove(self, *pks: int) -> None:
        nothing = np.empty((0, 1), np.float32)
        self.database.write(partial(write_batch, batch=batch_of([], [], nothing, pks)))


def batch_of(pks: Iterable[int], scope_ids: Iterable[int], vectors: Vectors, gone: Iterable[int] = ()) -> Batch:
    made, of, without = (np.fromiter(numbers, np.int64) for numbers in (pks, scope_ids, gone))
    return Batch(made, of, vectors, without)


def put(connection: Connection, vectors: Vectors, scope: int) -> list[int]:
    pks = list(range(first := last_seq(connection) + 1, first + len(vectors)))
    write_batch(connection, batch_of(pks, [scope] * len(pks), vectors))
    return pks


def _change(connection: Connection, pk: int, vector: Vectors) -> None:
    scope = connection.execute(select(memories.c.scope_id).where(memories.c.pk == pk)).scalar_one()
    write_batch(connection, batch_of([pk], [scope], vector[None]))


def write_batch(connection: Connection, batch: Batch) -> None:
    known = set(connection.execute(select(memories.c.pk)).scalars())
    seq, gone = last_seq(connection), [pk for pk in batch.gone.tolist() if pk in known]
    insert_changes(connection, MEMORIES, batch.pks.tolist(), "put")
    insert_changes(connection, MEMORIES, gone, "delete")
    for pk in gone:
        connection.execute(delete(memories).where(memories.c.pk == pk))
    for scope in {*batch.scopes.tolist()} - set(connection.execute(select(scopes.c.id)).scalars()):
        row = {"id": scope, "key": str(scope), "user_id": str(scope), "word_count": 0}
        connection.execute(insert(scopes), row)
    fixed = {"context": "", "metadata": {}, "hash": "h", "created_at": NOW, "updated_at": NOW, "revision": 1}
    rows = zip(batch.pks.tolist(), batch.scopes.tolist(), batch.vectors, strict=True)
    fresh = []
    for place, (pk, scope, vector) in enumerate(rows, 1):
        values = {"scope_id": scope, "text": spell(vector), "embedding": vector.tobytes(), "seq": seq + place}
        if pk in known:
            connection.execute(update(memories).where(memories.c.pk == pk).values(values))
        else:
            fresh.append({"pk": pk, "id": str(pk), **values, **fixed})
    if fresh:
        connection.execute(insert(memories), fresh)


def spell(vector: Vectors) -> str:
    """A text that spells a vector: a store that embeds by itself comes to the same vectors as we do."""
    return vector.astype("<f4").tobytes().hex()
