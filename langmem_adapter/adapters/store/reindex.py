"""Embedding every item anew, when the model or the fields of a store have changed."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.adapters.store.fields import as_bytes
from langmem_adapter.storage import items
from langmem_adapter.storage.item_writes import drop_vectors, give_vectors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langmem_adapter.adapters.store.fields import FieldIndex, Index
    from langmem_adapter.storage.database import Database

__all__ = ["reindex"]

_BATCH: Final = 256


def reindex(database: Database, fields: FieldIndex, progress: Callable[[int, int], None] | None) -> int:
    """Drop the vectors of every item, and make them anew; see `MemoryStore.reindex`."""
    database.write(partial(drop_vectors, fingerprint=fields.mark))
    with database.read() as connection:
        total = items.count(connection)
    last = done = indexed = 0
    while rows := _after(database, last):
        vectors = _vectors(fields, rows)
        database.write(partial(give_vectors, vectors=vectors, rows=rows, fingerprint=fields.mark))
        last, done, indexed = rows[-1].pk, done + len(rows), indexed + sum(map(bool, vectors.values()))
        if progress is not None:
            progress(done, max(total, done))
    return indexed


def _after(database: Database, pk: int) -> list[Any]:
    with database.read() as connection:
        return items.after(connection, pk, _BATCH)


def _vectors(fields: FieldIndex, rows: Sequence[Any]) -> dict[int, list[bytes]]:
    texts = {row.pk: fields.texts(json.loads(row.value), _index(row), f"the item {row.key!r}") for row in rows}
    made = iter(fields.embedder.vectors([text for found in texts.values() for text in found]))
    return {pk: [as_bytes(next(made)) for _ in found] for pk, found in texts.items()}


def _index(row: Any) -> Index:
    index: Index = None if row.fields is None else json.loads(row.fields) or False
    return index
