"""Reindex: changing the embedding model of a database, while others go on using it.

Vectors of two models cannot be compared, so all of them change at once: the new ones are made in batches and kept aside, and
one transaction puts them in the place of the old ones, together with the model's fingerprint and a change per memory in the
feed, so that every index follows. Until then all searches use the old vectors; afterwards a program with the old model gets
an `EmbeddingMismatchError` at the next search or write.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import and_, delete, func, insert, select, update

from langmem_adapter.arguments import bounded
from langmem_adapter.embedding.embedder import Embedder
from langmem_adapter.embedding.models import embedding_limits, fingerprint, resolve_embeddings
from langmem_adapter.errors import ConflictError
from langmem_adapter.index.generations import erase_index_files
from langmem_adapter.settings import Settings, chosen_database
from langmem_adapter.storage import meta
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.feed import insert_changes
from langmem_adapter.storage.migrations import prepare
from langmem_adapter.storage.tables import MEMORIES, memories, reembedded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from langchain_core.embeddings import Embeddings
    from sqlalchemy import URL, Connection, Engine, Row

_TARGET: Final = "reindex"  # key in `meta`: fingerprint of the model that the vectors kept aside are made with
_PATIENT: Final = 3  # rounds after which what others write meanwhile is embedded while they wait

_LACKING: Final = (
    select(memories.c.pk, memories.c.seq, memories.c.text)
    .outerjoin(reembedded, and_(reembedded.c.pk == memories.c.pk, reembedded.c.seq == memories.c.seq))
    .where(reembedded.c.pk.is_(None))
    .order_by(memories.c.pk)
)
_READY: Final = (
    select(func.count())
    .select_from(memories)
    .join(reembedded, and_(reembedded.c.pk == memories.c.pk, reembedded.c.seq == memories.c.seq))
)
_COUNT: Final = select(func.count()).select_from(memories)
_NEWEST: Final = select(func.max(memories.c.pk))


@dataclass(frozen=True, slots=True)
class Reindexed:
    """What a change of embedding model did.

    Attributes:
        memories: Memories that have a vector of the new model now.
        embedded: Vectors that this call made; more than that if memories changed meanwhile.
        resumed: Vectors that were there already, made by a call that was interrupted.
        before: Fingerprint of the model before; `None` in a database that never held a memory.
        after: Fingerprint of the model now.
    """

    memories: int
    embedded: int
    resumed: int
    before: str | None
    after: str


def reindex(
    database: str | Path | URL | Engine | None,
    embeddings: str | Embeddings,
    *,
    batch: int = 256,
    progress: Callable[[int, int], None] | None = None,
    settings: Settings | None = None,
) -> Reindexed:
    """Give every memory a vector of another embedding model.

    Others may read and write meanwhile, with the old model. Interrupted at any moment, it goes on where it stopped when it is
    called again with the same model; called with the model in use, it drops what was prepared.

    Args:
        database: As for `Memory`.
        embeddings: The new model: LangChain `Embeddings`, or a name as in `"openai:text-embedding-3-small"`, `"static"`.
        batch: Texts embedded in one call, and kept in one transaction; 1 to 10,000.
        progress: Called after each batch with the number of memories done and of all.
        settings: `base_url`, `api_key` and the rest; `None` reads environment and configuration files.

    Raises:
        InvalidInputError: An argument is not understood, or the model returned unusable vectors.
        ConflictError: Another reindex, to another model, began meanwhile; this one's work was dropped.
        StorageError: The database failed; what was prepared is kept.

    Example:
        >>> import tempfile
        >>> from langmem_adapter import Memory
        >>> path = f"{tempfile.mkdtemp()}/memory.db"
        >>> with Memory(path, embeddings="hash:64") as memory:
        ...     added = memory.add("I live in Lyon.", user_id="alice")
        >>> reindex(path, "hash:128")
        Reindexed(memories=1, embedded=1, resumed=0, before='hash:64/2', after='hash:128/2')
        >>> with Memory(path, embeddings="hash:128") as memory:
        ...     memory.search("Where does she live?", user_id="alice")[0].text
        'Lives in Lyon'
    """
    bounded(batch, "batch")
    settings = settings or Settings()
    vectors = resolve_embeddings(embeddings, settings)
    embedder = Embedder(vectors, dimensions=None, cached=batch, limits=embedding_limits(embeddings, vectors, settings))
    opened = Database(chosen_database(database, settings), **settings.database_options)
    with closing(opened):
        prepare(opened)
        return _Change(opened, embedder, fingerprint(vectors), batch, progress or (lambda *_: None)).carry_out()


@dataclass(slots=True)
class _Change:
    """One change of model, from the first batch to the switch."""

    database: Database
    embedder: Embedder
    target: str
    batch: int
    progress: Callable[[int, int], None]
    embedded: int = 0

    def carry_out(self) -> Reindexed:
        before = self.database.write(self._begin)
        resumed, total = self._progress()
        if before != self.target and total:  # without a memory, every model is welcome
            for turn in count():
                self._prepare()
                if self.database.write(partial(self._switch, most=self._most(turn))):
                    break
            if (
                self.database.path is not None
            ):  # the next program that opens the database makes an index of the new model
                erase_index_files(self.database.path)
            total = self._progress()[1]
            self.progress(total, total)
        return Reindexed(total, self.embedded, resumed, before, self.target)

    def _most(self, turn: int) -> int:
        """How many are embedded while writers wait: more with every round, so that no writer is too fast for it."""
        return self.batch << (turn - _PATIENT) if turn >= _PATIENT else 0

    def _begin(self, connection: Connection) -> str | None:
        before = meta.get(connection, meta.EMBEDDINGS)
        needed = before != self.target and connection.execute(_COUNT).scalar_one() > 0
        if not needed or meta.get(connection, _TARGET) != self.target:
            connection.execute(delete(reembedded))
        if needed:
            meta.put(connection, _TARGET, self.target)
        else:
            meta.drop(connection, _TARGET)
        return before

    def _progress(self) -> tuple[int, int]:
        with self.database.read() as connection:
            ready, every = (int(connection.execute(query).scalar_one()) for query in (_READY, _COUNT))
        return ready, every

    def _prepare(self) -> None:
        done, total = self._progress()
        for rows in self._lacking():
            self.database.write(partial(self._keep, rows=rows, vectors=self._vectors(rows)))
            done += len(rows)
            self.progress(min(done, total), total)

    def _lacking(self) -> Iterator[Sequence[Row[Any, Any, Any]]]:
        """Batch by batch, those that are there by now; what steady writers add meanwhile is for another round."""
        with self.database.read() as connection:
            newest = connection.execute(_NEWEST).scalar()
        after = -1
        while True:
            some = _LACKING.where(memories.c.pk > after, memories.c.pk <= newest).limit(self.batch)
            with self.database.read() as connection:
                rows = connection.execute(some).all()
            if not rows:
                return
            yield rows
            after = rows[-1].pk

    def _vectors(self, rows: Sequence[Row[Any, Any, Any]]) -> list[bytes]:
        self.embedded += len(rows)
        return [vector.tobytes() for vector in self.embedder.vectors([row.text for row in rows])]

    def _keep(self, connection: Connection, rows: Sequence[Row[Any, Any, Any]], vectors: Sequence[bytes]) -> None:
        if not self._wanted(connection):
            return
        pks = [row.pk for row in rows]
        # What was deleted, or erased, while it was embedded must not be kept.
        alive = dict(connection.execute(select(memories.c.pk, memories.c.seq).where(memories.c.pk.in_(pks))).all())
        connection.execute(delete(reembedded).where(reembedded.c.pk.in_(pks)))
        pairs = zip(rows, vectors, strict=True)
        kept = [{"pk": r.pk, "seq": r.seq, "embedding": vector} for r, vector in pairs if alive.get(r.pk) == r.seq]
        if kept:
            connection.execute(insert(reembedded), kept)

    def _wanted(self, connection: Connection) -> bool:
        """Whether the switch is still to come; another process may have worked on the same."""
        target = meta.get(connection, _TARGET)
        if target == self.target:
            return True
        if meta.get(connection, meta.EMBEDDINGS) == self.target:
            return False
        raise ConflictError(
            f"another reindex began, to {target or 'the model in use'}; this one, to {self.target}, ends"
        )

    def _switch(self, connection: Connection, most: int) -> bool:
        """Change over, unless more than *most* memories lack a vector; up to so many are embedded while writers wait."""
        if not self._wanted(connection):
            return True
        rows = connection.execute(_LACKING.limit(most + 1)).all()
        if len(rows) > most:
            return False
        if rows:
            self._keep(connection, rows, self._vectors(rows))
        pks = connection.execute(select(memories.c.pk).order_by(memories.c.pk)).scalars().all()
        insert_changes(connection, MEMORIES, pks, "put")
        new = select(reembedded.c.embedding).where(reembedded.c.pk == memories.c.pk).scalar_subquery()
        connection.execute(update(memories).values(embedding=new))
        connection.execute(delete(reembedded))
        meta.put(connection, meta.EMBEDDINGS, self.target)
        meta.drop(connection, _TARGET)
        return True
