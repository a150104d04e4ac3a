"""Engines that break one promise each, to prove that the checks would see it.

A mutant exists only in a child process: `mutate` patches the engine there. One that patches a name which is gone fails.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import select

from langmem_adapter.errors import LangmemAdapterError
from langmem_adapter.index.base import Batch
from langmem_adapter.index.faiss import FaissIndex
from langmem_adapter.index.indexer import Indexer
from langmem_adapter.storage import feed, sqlite
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.feed import last_seq
from langmem_adapter.storage.tables import memories

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

__all__ = ["MUTANTS", "mutate"]


def mutate(name: str | None) -> None:
    """Break a promise in this process; `None` leaves the engine as it is."""
    if name is not None:
        MUTANTS[name]()


def _acknowledge_before_commit() -> None:
    def write(self: Database, work: Callable[[Connection], Any]) -> Any:
        answer: Future[Any] = Future()

        def work_and_answer(connection: Connection) -> None:
            answer.set_result(work(connection))
            time.sleep(0.02)

        def commit_later() -> None:
            try:
                self.setup(work_and_answer)
            except LangmemAdapterError as error:
                if not answer.done():
                    answer.set_exception(error)

        threading.Thread(target=commit_later, daemon=True).start()
        return answer.result()

    _replace(Database, "write", write)


def _index_before_commit() -> None:
    indexers: list[Indexer] = []
    opened, written = Indexer.__init__, Database.write

    def __init__(self: Indexer, *arguments: Any, **options: Any) -> None:  # noqa: N807 - it stands in for one
        opened(self, *arguments, **options)
        indexers.append(self)

    def write(self: Database, work: Callable[[Connection], Any]) -> Any:
        def telling(connection: Connection) -> Any:
            before = last_seq(connection)
            result = work(connection)
            for indexer in indexers:
                _tell(indexer, connection, before)
            return result

        return written(self, telling)

    _replace(Indexer, "__init__", __init__)
    _replace(Database, "write", write)


def _tell(indexer: Indexer, connection: Connection, before: int) -> None:
    query = select(memories.c.pk, memories.c.scope_id, memories.c.embedding).where(memories.c.seq > before)
    rows = connection.execute(query).all()
    if indexer.index is not None and rows:
        vectors = np.stack([np.frombuffer(row.embedding, np.float32) for row in rows])
        pks, scopes = (np.array([row[place] for row in rows], np.int64) for place in (0, 1))
        indexer.index.update(Batch(pks, scopes, vectors, np.empty(0, np.int64)))


def _deletes_not_replayed() -> None:
    heard = FaissIndex.update

    def update(self: FaissIndex, batch: Batch) -> None:
        heard(self, dataclasses.replace(batch, gone=np.empty(0, np.int64)))

    _replace(FaissIndex, "update", update)


def _no_lineage_check() -> None:
    _replace(feed, "is_known", lambda *_: True)


def _no_look_before_a_search() -> None:
    _replace(Database, "version", lambda _: 0)


def _forks_unguarded() -> None:
    _replace(sqlite, "_OPEN", _Nothing())
    _replace(Database, "_refuse_loss", lambda *_, **__: None)


class _Nothing(list[Any]):
    def add(self, _: object) -> None:
        """Forget it at once."""

    discard = add


def _replace(owner: object, name: str, new: object) -> None:
    assert hasattr(owner, name), f"{owner!r} has no {name} any more: this mutant changes nothing"
    setattr(owner, name, new)


MUTANTS: dict[str, Callable[[], None]] = {
    "acknowledge before commit": _acknowledge_before_commit,
    "index before commit": _index_before_commit,
    "deletes not replayed": _deletes_not_replayed,
    "no lineage check": _no_lineage_check,
    "no look before a search": _no_look_before_a_search,
    "forks unguarded": _forks_unguarded,
}
