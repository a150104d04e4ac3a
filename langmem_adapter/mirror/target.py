"""The graph database that a mirror writes: its mark, and one transaction after the other.

How far a mirror has come is kept in the target itself, on one node, and moves in the same transaction as what it tells of. So
whatever dies between, the two agree; a target that was emptied or restored says so; and the memory's own database is only
read.
"""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

from langmem_adapter.mirror.bolt import COLLISIONS, already_there, manner, translated
from langmem_adapter.mirror.dialects import Statements, dialect_of, schema
from langmem_adapter.storage.follow import Cursor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from neo4j import Driver, ManagedTransaction, Session

    from langmem_adapter.mirror.dialects import Dialect
    from langmem_adapter.mirror.rows import MirrorBatch

__all__ = ["Mark", "Overtaken", "Phase", "Target"]

T = TypeVar("T")

Phase: TypeAlias = Literal["clear", "entities", "relations", "follow"]
_MOST: Final = 1_000  # rows of one statement
_FREED: Final = 10_000  # relations that one transaction removes


class Overtaken(Exception):  # noqa: N818 - no error: somebody else did it
    """Another mirror of the same target came first."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a mirror has come: it removes what is there, fills in entities, then relations, then follows the feed."""

    applied: int  # number of the last change of the feed that it has followed
    nonce: str  # of that change, in hexadecimal digits
    phase: Phase = "follow"
    place: int = 0  # while it fills, the last pk that is in
    turn: str = field(default_factory=lambda: secrets.token_hex(8))  # names the transaction that wrote it

    @property
    def cursor(self) -> Cursor:
        """The same, as readers of the feed have it."""
        return Cursor(self.applied, bytes.fromhex(self.nonce))

    def moved(self, phase: Phase, place: int) -> Mark:
        """The next one of a target that is being filled."""
        return Mark(self.applied, self.nonce, phase, place)


@dataclass(slots=True)
class Target:
    """What a graph database holds of one memory's database."""

    driver: Driver
    where: str  # the server, for people
    database: str | None  # the database's name there; `None` for the server's default
    dialect: Dialect | None  # `None` asks the server
    label: str  # of the nodes
    within: dict[str, str]  # the properties that narrow the mirror to a scope
    key: str = ""  # of the mark
    lineage: str = ""  # which memory's database, as every node and relation bears it
    _manner: dict[str, Any] = field(default_factory=dict)  # of its sessions; `mark` comes first, and learns it
    _say: Statements = field(init=False)

    def __post_init__(self) -> None:
        """Make what is said to the server."""
        self._say = Statements(self.label, tuple(self.within))

    def prepare(self) -> None:
        """Make constraints and indexes, where they are missing.

        Raises:
            GraphServerError: The server cannot be reached, or refused; also of every method below.
        """
        with self._session() as session:
            for statement in schema(self.dialect or dialect_of(self.driver), self.label):
                with already_there():
                    session.run(statement).consume()

    def mark(self) -> Mark | None:
        """How far the mirror has come; `None` where the target knows nothing of it."""
        with translated(self.where):
            self._manner = manner(self.driver)  # connects: a transaction would be tried again for half a minute
        with self._session() as session:
            found = session.execute_read(lambda work: work.run(self._say.read, key=self.key).single())
        return None if found is None else _mark_of(found["mark"])

    def write(self, was: Mark | None, now: Mark, batch: MirrorBatch) -> None:
        """Write a batch and move the mark from what it was read as, in one transaction.

        Raises:
            Overtaken: The mark is another one by now; nothing was written.
        """
        if batch.gone:
            self._loosen(batch.gone)
        self._carry_out(was, now, lambda work: self._put(work, batch))

    def clear(self, was: Mark | None, now: Mark) -> int:
        """Remove some of what the mirror has written, and move the mark, or raise `Overtaken`; of nothing, all is gone."""
        given = {"lineage": self.lineage, "most": _FREED, **self.within}
        return self._carry_out(was, now, lambda work: sum(_gone(work, one, given) for one in self._say.clear))

    def _loosen(self, pks: Sequence[int]) -> None:
        """Take the relations of nodes that go away bit by bit: one transaction could not hold those of a hub."""
        given = {"lineage": self.lineage, "pks": list(pks), "most": _FREED}
        with self._session() as session:
            while session.execute_write(_gone, self._say.loosen, given):
                pass

    def _carry_out(self, was: Mark | None, now: Mark, do: Callable[[ManagedTransaction], T]) -> T:
        # Contract: of two mirrors that read the same mark one alone writes. The first statement writes to the mark, which locks
        # it until the end of the transaction, and only then reads it.
        # tests/mirror/test_mirror.py::test_who_was_overtaken_writes_nothing_that_is_out_of_date.
        def carry_out(work: ManagedTransaction) -> T:
            found = work.run(self._say.claim, key=self.key, turn=now.turn).single(strict=True)["mark"]
            if _mark_of(found) != was:
                raise Overtaken
            done = do(work)
            work.run(self._say.keep, key=self.key, mark=asdict(now)).consume()
            return done

        with self._session() as session:
            try:
                return session.execute_write(carry_out)
            except COLLISIONS as error:  # a server that locks late lets both write, until one of them cannot commit
                if self.mark() != was:
                    raise Overtaken from error
                raise

    @contextmanager
    def _session(self) -> Iterator[Session]:
        with translated(self.where), self.driver.session(database=self.database, **self._manner) as session:
            yield session

    def _put(self, work: ManagedTransaction, batch: MirrorBatch) -> None:
        for pks in _chunks(batch.gone):
            work.run(self._say.gone, lineage=self.lineage, pks=pks).consume()
        for rows in _chunks(batch.nodes):
            work.run(self._say.nodes, lineage=self.lineage, rows=rows).consume()
        for name, ties in batch.relations.items():
            for rows in _chunks(ties):
                work.run(self._say.relations(name), lineage=self.lineage, rows=rows).consume()


def _gone(work: ManagedTransaction, statement: str, given: dict[str, Any]) -> int:
    return int(work.run(statement, given).single(strict=True)["gone"])


def _mark_of(found: dict[str, Any]) -> Mark | None:
    """`None` where the node was made by this very transaction, or by somebody else."""
    try:
        return Mark(**{name: found[name] for name in Mark.__slots__})
    except KeyError:
        return None


def _chunks(rows: Sequence[T]) -> Iterator[list[T]]:
    for start in range(0, len(rows), _MOST):
        yield list(rows[start : start + _MOST])
