"""Memories and changes written straight into the tables, as the ledger does, without texts and words."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, func, insert, select, update

from langmem_adapter.storage.tables import changes, memories, metadata, scopes

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from langmem_adapter.index.base import Vectors
    from langmem_adapter.storage.database import Database

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Book:
    """Writes memories and their changes straight into the tables, as the ledger does."""

    def __init__(self, database: Database) -> None:
        self.database = database
        database.setup(metadata.create_all)

    def put(self, vectors: Vectors, scope: int = 1) -> list[int]:
        return self.database.write(partial(put, vectors=vectors, scope=scope))

    def change(self, pk: int, vector: Vectors) -> None:
        self.database.write(partial(_change, pk=pk, vector=vector))

    def remove(self, *pks: int) -> None:
        self.database.write(partial(_remove, pks=pks))


def record(connection: Connection, row: int | None, op: str, space: str = "memories") -> int:
    seq = _next(connection)
    connection.execute(insert(changes), _line(seq, row or seq, op, space))
    return seq


def _next(connection: Connection) -> int:
    return int(connection.execute(select(func.coalesce(func.max(changes.c.seq), 0))).scalar_one()) + 1


def _line(seq: int, row: int, op: str, space: str = "memories") -> dict[str, Any]:
    return {"seq": seq, "nonce": secrets.token_bytes(8), "space": space, "row": row, "op": op}


def put(connection: Connection, vectors: Vectors, scope: int) -> list[int]:
    if connection.execute(select(scopes.c.id).where(scopes.c.id == scope)).scalar() is None:
        row = {"id": scope, "key": str(scope), "user_id": str(scope), "word_count": 0}
        connection.execute(insert(scopes), row)
    pks = list(range(first := _next(connection), first + len(vectors)))
    if pks:
        connection.execute(insert(changes), [_line(pk, pk, "put") for pk in pks])
        connection.execute(
            insert(memories), [_memory(pk, vector, scope) for pk, vector in zip(pks, vectors, strict=True)]
        )
    return pks


def _memory(pk: int, vector: Vectors, scope: int) -> dict[str, Any]:
    texts = {"text": "t", "context": "", "metadata": {}, "hash": "h", "created_at": NOW, "updated_at": NOW}
    numbers = {"pk": pk, "id": str(pk), "scope_id": scope, "seq": pk, "revision": 1}
    return {**texts, **numbers, "embedding": vector.tobytes()}


def _change(connection: Connection, pk: int, vector: Vectors) -> None:
    seq = record(connection, pk, "put")
    connection.execute(update(memories).where(memories.c.pk == pk).values(embedding=vector.tobytes(), seq=seq))


def _remove(connection: Connection, pks: tuple[int, ...]) -> None:
    for pk in pks:
        record(connection, pk, "delete")
        connection.execute(delete(memories).where(memories.c.pk == pk))
