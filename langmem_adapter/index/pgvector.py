"""A vector index inside Postgres, with pgvector: one index for all processes of all machines.

A search within few rows compares all of them; within many it walks the HNSW graph (Malkov and Yashunin, arXiv:1603.09320) with
pgvector's iterative scan, because the plain one drops what the filter refuses. If the walk finds too few, all are compared.
"""

from __future__ import annotations

from contextlib import nullcontext
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from packaging.version import Version
from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    MetaData,
    Table,
    any_,
    bindparam,
    cast,
    delete,
    exists,
    func,
    literal,
    or_,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.exc import DBAPIError

from langmem_adapter.errors import InvalidInputError, MissingDependencyError, StorageError
from langmem_adapter.index.base import Nearest, as_batch, check_batch, check_query, compare_index
from langmem_adapter.storage.drivers import without_rows
from langmem_adapter.storage.feed import TEXTS, VECTORS, all_rows, lock_of
from langmem_adapter.storage.tables import MEMORIES, memories

try:
    from pgvector.sqlalchemy import HALFVEC, VECTOR
except ImportError:
    _MISSING = True
else:
    _MISSING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from sqlalchemy import Connection, Select

    from langmem_adapter.index.base import Batch, Pks, Scores, Vectors, Verification
    from langmem_adapter.storage.database import Database, OpenConnection
    from langmem_adapter.storage.feed import Cursor, Rows

_OLDEST: Final = Version("0.8")  # the first with iterative scans
_MOST_DIMENSIONS: Final = 16_000
_MOST_OF_FULL: Final = 2_000  # a graph holds vectors of so many numbers; of halves, twice as many
_MOST_OF_HALVES: Final = 4_000
_LEAST_EFFORT: Final = 100
_MOST_EFFORT: Final = 1_000

_WALK: Final = text(
    "SELECT set_config('hnsw.iterative_scan', 'strict_order', true), set_config('hnsw.ef_search', :effort, true), "
    "set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), "
    "set_config('enable_sort', 'off', true)"
)


class _Statements:
    def __init__(self, table: Table, dimensions: int) -> None:
        pk, embedding = table.c.pk, table.c.embedding
        self.of_scopes = table.c.scope_id == any_(bindparam("scopes", type_=ARRAY(BigInteger)))
        self.of_pks = pk == any_(bindparam("pks", type_=ARRAY(BigInteger)))
        score = (-embedding.op("<#>", return_type=Float())(bindparam("query", type_=VECTOR(dimensions)))).label("score")
        self.score = select(pk, score)
        # The order is by an expression that no graph serves, so all rows are compared.
        self.exact = self.score.where(self.of_scopes).order_by(score.desc(), pk).limit(bindparam("k"))
        full = dimensions <= _MOST_OF_FULL
        kind = VECTOR(dimensions) if full else HALFVEC(dimensions)
        indexed: Any = embedding if full else cast(embedding, kind)
        distance = indexed.op("<#>", return_type=Float())(bindparam("near", type_=kind))
        self.walk = self.score.where(self.of_scopes).order_by(distance).limit(bindparam("k"))
        some = select(literal(1)).select_from(table).where(self.of_scopes).limit(bindparam("most")).subquery()
        self.rows = select(func.count()).select_from(some)
        put = insert(table)
        new = put.excluded
        # A row that is right already is left alone: every new version of one is another node of the graph.
        changed = or_(table.c.scope_id != new.scope_id, embedding != new.embedding)
        values = {"scope_id": new.scope_id, "embedding": new.embedding}
        self.upsert = put.on_conflict_do_update(index_elements=[pk], set_=values, where=changed)


class PgVectorIndex:
    """A table of vectors in the Postgres that holds the memories; see `require_pgvector`.

    Up to *exact_up_to* rows in the scopes of a search all of them are compared; `None`: always, without a graph. Of vectors
    of more than 2,000 numbers the graph holds halves (`halfvec`), above 4,000 there is none.
    """

    private: Final = False

    def __init__(self, database: Database, dimensions: int, *, exact_up_to: int | None = 10_000) -> None:
        _refuse(database)
        if dimensions > _MOST_DIMENSIONS:
            raise InvalidInputError(
                f"pgvector keeps vectors of at most {_MOST_DIMENSIONS:,} numbers, not {dimensions:,}"
            )
        self.dimensions: Final = dimensions
        self.name: Final = f"vectors_{MEMORIES}_{dimensions}"
        self._table = Table(
            self.name,
            MetaData(),
            Column("pk", BigInteger, primary_key=True, autoincrement=False),
            Column("scope_id", BigInteger, nullable=False, index=True),
            Column("embedding", VECTOR(dimensions), nullable=False),
        )
        self._exact_up_to = exact_up_to if dimensions <= _MOST_OF_HALVES else None
        self._statements = _Statements(self._table, dimensions)
        self._reading: OpenConnection = database.read
        self._writing: OpenConnection = lambda: database.derived(lock_of(self.name))

    def on(self, connection: Connection) -> PgVectorIndex:
        session = partial(nullcontext, connection)
        index = copy(self)
        vars(index).update(_reading=session, _writing=session)
        return index

    def prepare(self, connection: Connection) -> None:
        """Make the table, where it is missing; `require_pgvector` has seen to the extension."""
        self._table.create(connection, checkfirst=True)

    def build_graph(self, connection: Connection) -> None:
        if self._exact_up_to is not None:
            full = self.dimensions <= _MOST_OF_FULL
            what = "embedding vector_ip_ops" if full else f"(embedding::halfvec({self.dimensions})) halfvec_ip_ops"
            connection.execute(text(f"CREATE INDEX IF NOT EXISTS {self.name}_graph ON {self.name} USING hnsw ({what})"))

    def take(self, connection: Connection, rows: Rows) -> None:
        """Bring in changed memories, in a transaction of the feed's."""
        self.on(connection).update(as_batch(rows, self.dimensions))

    def refill(self, connection: Connection, report: Callable[[int], None]) -> None:
        """Bring in every memory; rows that are right already are left alone, and readers see the old ones until the end."""
        there = select(memories.c.pk).where(memories.c.pk == self._table.c.pk)
        connection.execute(delete(self._table).where(~exists(there)))
        done = 0
        for rows in all_rows(connection, TEXTS):
            self.take(connection, rows)
            done += len(rows)
            report(done)
        self.build_graph(connection)  # after the first filling: row by row it takes many times as long

    def holds(self, connection: Connection, cursor: Cursor) -> bool:  # noqa: ARG002 - an external store could lie
        """Whether the table is where the cursor says: always, they are committed together."""
        return True

    def compare(self, connection: Connection) -> Verification:
        return compare_index(self.on(connection), connection, VECTORS)

    def update(self, batch: Batch) -> None:
        check_batch(batch, self.dimensions)
        numbers = zip(batch.pks.tolist(), batch.scopes.tolist(), batch.vectors, strict=True)
        rows = [{"pk": pk, "scope_id": scope, "embedding": vector} for pk, scope, vector in numbers]
        with self._writing() as connection:
            if len(batch.gone):
                connection.execute(delete(self._table).where(self._statements.of_pks), {"pks": batch.gone.tolist()})
            if rows:
                connection.execute(self._statements.upsert, rows)

    def __len__(self) -> int:
        with self._reading() as connection:
            return int(connection.execute(select(func.count()).select_from(self._table)).scalar_one())

    def search(
        self,
        query: Vectors,
        k: int,
        *,
        scopes: Collection[int],
        pks: Pks | None = None,
        ordered: bool = True,  # noqa: ARG002
    ) -> Nearest:
        """The *k* nearest memories within *scopes*, in any case in order; `Found.strategy` tells whether by the graph."""
        query = check_query(query, self.dimensions)
        values = {"query": query, "scopes": [int(scope) for scope in scopes], "k": k}
        with self._reading() as connection:
            exact = self._statements.exact
            if pks is not None:
                values["pks"] = np.unique(pks).tolist()
                return _read_nearest(connection, exact.where(self._statements.of_pks), values, "pgvector exact")
            if not self._is_large(connection, values):
                return _read_nearest(connection, exact, values, "pgvector exact")
            nearest = self._walk(connection, values)
            if len(nearest.pks) == k:
                return nearest
            return _read_nearest(connection, exact, values, "pgvector exact, the graph found too few")

    def _is_large(self, connection: Connection, values: dict[str, Any]) -> bool:
        if self._exact_up_to is None:
            return False
        most = max(self._exact_up_to, values["k"])
        counted = connection.execute(self._statements.rows, {"scopes": values["scopes"], "most": most + 1}).scalar_one()
        return bool(counted > most)

    def _walk(self, connection: Connection, values: dict[str, Any]) -> Nearest:
        effort = min(max(values["k"], _LEAST_EFFORT), _MOST_EFFORT)
        settings = connection.begin_nested()  # rolled back, so that they hold for this one statement
        try:
            connection.execute(_WALK, {"effort": str(effort)})
            near = {**values, "near": values["query"]}
            return _read_nearest(connection, self._statements.walk, near, "pgvector graph (HNSW)")
        finally:
            settings.rollback()

    def scores(self, query: Vectors, pks: Pks) -> Scores:
        values = {"query": check_query(query, self.dimensions), "pks": pks.tolist()}
        query_scores = self._statements.score.where(self._statements.of_pks)
        with self._reading() as connection:
            scores_of: dict[int, float] = dict(connection.execute(query_scores, values).all())
        return np.array([scores_of.get(pk, np.nan) for pk in pks.tolist()], np.float32)

    def vectors(self, pks: Pks) -> Vectors:
        vectors, missing = self._look_up(pks, self._table.c.embedding), np.full(self.dimensions, np.nan)
        return np.array([vectors.get(pk, missing) for pk in pks.tolist()], np.float32).reshape(-1, self.dimensions)

    def pks(self) -> Pks:
        pk = self._table.c.pk
        with self._reading() as connection:
            return np.fromiter(connection.execute(select(pk).order_by(pk)).scalars(), np.int64)

    def scopes_of(self, pks: Pks) -> Pks:
        scopes = self._look_up(pks, self._table.c.scope_id)
        return np.array([scopes.get(pk, -1) for pk in pks.tolist()], np.int64)

    def _look_up(self, pks: Pks, column: Column[Any]) -> dict[int, Any]:
        query = select(self._table.c.pk, column).where(self._statements.of_pks)
        with self._reading() as connection:
            return dict(connection.execute(query, {"pks": pks.tolist()}).all())


def require_pgvector(database: Database) -> None:
    """Make the extension `vector` where it is missing, so that what cannot work shows when a database is opened."""
    _refuse(database)
    version = select(text("extversion")).select_from(text("pg_extension")).where(text("extname = 'vector'"))
    with database.derived(lock_of("vector")) as connection:
        if connection.execute(version).scalar() is None:
            _create_extension(connection)
        installed = str(connection.execute(version).scalar_one())
    if Version(installed) < _OLDEST:
        raise StorageError(
            f"the extension vector is {installed}, needed is {_OLDEST}; install a newer pgvector on the server and let its "
            "administrator run ALTER EXTENSION vector UPDATE"
        )


def _refuse(database: Database) -> None:
    if database.dialect != "postgresql":
        raise InvalidInputError(
            f"index='pgvector' lives in Postgres, and {database.location} is {database.dialect}; give a "
            "postgresql+psycopg:// URL, or choose index='faiss'"
        )
    if _MISSING:
        raise MissingDependencyError("pgvector", extra="postgres")


def _read_nearest(connection: Connection, query: Select[Any], values: dict[str, Any], strategy: str) -> Nearest:
    rows = connection.execute(query, values).all()
    pks = np.fromiter((row.pk for row in rows), np.int64)
    scores = np.fromiter((row.score for row in rows), np.float32)
    order = np.lexsort((pks, -scores))
    return Nearest(pks[order], scores[order], strategy)


def _create_extension(connection: Connection) -> None:
    try:
        with connection.begin_nested():
            connection.execute(text("CREATE EXTENSION IF NOT EXISTS vector"))
    except DBAPIError as error:
        raise StorageError(
            "this Postgres has no extension vector, and it cannot be made from here; install pgvector on the server and "
            f"let its administrator run CREATE EXTENSION vector ({without_rows(error)})"
        ) from error
