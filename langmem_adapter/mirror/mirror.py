"""`Mirror` keeps a graph database in step with the knowledge graph by the change feed."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Self, get_args

from langmem_adapter.arguments import one_of, seconds
from langmem_adapter.errors import InvalidInputError, LangmemAdapterError
from langmem_adapter.forks import Lock
from langmem_adapter.mirror import target as rows
from langmem_adapter.mirror.target import Dialect, Mark, MirrorBatch, Overtaken, Target, open_driver, server_name
from langmem_adapter.records.checks import quoted
from langmem_adapter.storage import feed
from langmem_adapter.storage.scopes import key_of
from langmem_adapter.storage.tables import ENTITIES, RELATIONS
from langmem_adapter.twins import Plan, attempt, awaited, planned

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event
    from types import TracebackType

    from neo4j import Driver

    from langmem_adapter.embedding.embedder import Embedder
    from langmem_adapter.mirror.target import Phase
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.database import Database

_log = logging.getLogger("langmem_adapter")
_SPACES: Final = (ENTITIES, RELATIONS)
_CHANGES: Final = 2_000  # followed in one transaction
_ROWS: Final = 1_000  # filled in by one
_LONGEST_PAUSE: Final = 60.0  # seconds between two tries while the server is away
_DOUBLED: Final = 10  # times that the pause between them is doubled, at most


@dataclass(frozen=True, slots=True)
class MirrorReport:
    """What a run of the mirror did.

    Attributes:
        entities: Nodes that were written.
        relations: Relations that were written.
        removed: Entities that are no more.
        rebuilt: Whether the target was filled anew: for the first time, or because it belongs to another history.
        applied: Number of the last change that the target shows; 0 where nothing ever changed.
    """

    entities: int = 0
    relations: int = 0
    removed: int = 0
    rebuilt: bool = False
    applied: int = 0

    @property
    def changed(self) -> bool:
        return self.rebuilt or bool(self.entities or self.relations or self.removed)


class Mirror:
    """Keeps a property graph in Neo4j or Memgraph in step with the knowledge graph; `Memory.graph.mirror` makes one.

    It follows the change feed, reads the rows that have changed, and writes them in transactions that each move a mark in the
    target as well: interrupted, it goes on where it stopped, and nothing comes twice. Where the target's mark is not part of
    this database's history (a backup was restored here or there), what it had written is written anew. It never writes to the
    memory's database, and touches nothing in the target that is not its own.

    Entities are nodes of one label, with `lineage` (which database), `pk` (which row), `id`, `name`, `aliases`, `type`,
    `user_id`, `agent_id`, `run_id`, `mentions`, `created`, `updated`, and `merged_into`, the `pk` of the entity that it became
    part of. Relations have their name as type, `lineage`, `pk`, `id`, the same three ids, `valid_from`, `valid_to`,
    `recorded_at`, `retired_at`, `mentions`, `confidence` and `memory_ids`: one for each recorded row, so
    `WHERE r.retired_at IS NULL` gives the current ones.

    Attributes:
        applied: Number of the last change that the target is known to show; 0 until it is filled.
        steps: Marks of the target that were read or written: it grows as long as the mirror gets on.
    """

    def __init__(
        self,
        database: Database,
        driver: Driver | str,
        *,
        name: str | None = None,
        scope: Scope | None = None,
        username: str | None = None,
        password: str | None = None,
        embedder: Embedder | None = None,
        dialect: str | None = None,
        label: str = "Entity",
    ) -> None:
        if not isinstance(label, str) or not label.isidentifier():
            raise InvalidInputError(f"label is one word, as in 'Entity', not {quoted(label)}")
        spoken: Dialect | None = None if dialect is None else one_of(dialect, get_args(Dialect), "dialect")
        self._database = database
        self._scope = scope
        self._embedder = embedder
        self._about = f"{label}/{'' if scope is None else key_of(scope)}/{embedder is not None}"
        self._driver, self._is_own = open_driver(driver, username, password)
        within = {} if scope is None else scope.named
        self._target = Target(self._driver, server_name(driver), name, spoken, label, within)
        self._lock = Lock()
        self._goes_well = False
        self._report = MirrorReport()  # of the run under way
        self._filled: tuple[int, int] | None = None  # rows done and of all, counted once in a run
        self.applied = self.steps = 0

    def close(self) -> None:
        """Bring the target up to date once more, where the last run went well, and close the connection of an address.

        A run that is under way ends first. If the target does not get everything, the log says how far it is.
        """
        try:
            if self._goes_well:
                self.run_once()
        except LangmemAdapterError as error:
            _log.warning("the graph is mirrored up to change %d, and not to its end: %s", self.applied, error)
        finally:
            if self._is_own:
                self._driver.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @planned
    def run_once(self, *, progress: Callable[[int, int], None] | None = None) -> Plan[MirrorReport]:
        """Bring the target up to date.

        Args:
            progress: Called with the number of rows done and of all, while the target is filled.

        Raises:
            StorageError: One of the two databases refused or failed, the target with a `GraphServerError`; what was
                written until then stays, and the next run goes on there.
        """
        return Plan.in_new_thread(partial(self._run, progress or (lambda _, __: None)))

    arun_once = awaited(run_once)

    def follow(
        self,
        stop: Event,
        *,
        every: float = 2.0,
        progress: Callable[[int, int], None] | None = None,
        report: Callable[[MirrorReport], None] | None = None,
    ) -> bool:
        """Keep the target up to date until it is stopped.

        A server that is away is logged once and tried again, after pauses of up to a minute; once a run has succeeded, so is
        whatever else fails. A server that takes a call and never answers is waited for: give it a daemon thread.

        Args:
            stop: Ends it, once the run that is under way has ended.
            every: Seconds between two looks at the change feed.
            progress: As for `run_once`.
            report: Called with the report of each run that changed something.

        Returns:
            Whether the last run went well; true where there was none.

        Raises:
            LangmemAdapterError: The first run failed for a reason that does not pass by itself.
        """
        every, missed, has_run = seconds(every, "every"), 0, False
        while not stop.is_set():
            try:
                result = self.run_once(progress=progress)
            except LangmemAdapterError as error:
                if not (has_run or getattr(error, "transient", False)):
                    raise
                _log.log(logging.DEBUG if missed else logging.WARNING, "the graph is not mirrored: %s", error)
                missed += 1
            else:
                missed, has_run = 0, True
                if report is not None and result.changed:
                    report(result)
            stop.wait(min(every * 2 ** min(missed, _DOUBLED), max(every, _LONGEST_PAUSE)))
        return not missed

    def _run(self, progress: Callable[[int, int], None]) -> MirrorReport:
        with self._lock:
            self._goes_well = False
            self._report, self._filled = MirrorReport(), None
            with self._database.read() as connection:
                birth, newest = feed.birth(connection), feed.last(connection)
            if birth is not None:  # else nothing ever happened here
                self._target.lineage = birth.hex()
                about = f"{self._target.lineage}/{self._about}"
                self._target.key = blake2b(about.encode(), digest_size=16).hexdigest()
                start = Mark(newest.applied, newest.nonce.hex(), "clear")
                while not self._carry_out(start, progress):  # another process writes the same: go on from where that is
                    self._filled = None
            self._goes_well = True
            return self._report

    def _carry_out(self, start: Mark, progress: Callable[[int, int], None]) -> bool:
        try:
            mark = self._begin(start)
            while mark.phase != "follow":
                mark = self._clear(mark) if mark.phase == "clear" else self._fill(mark, progress)
            applied = self._follow_feed(mark)
        except Overtaken:
            return False
        self._report = replace(self._report, applied=applied)
        return True

    def _begin(self, start: Mark) -> Mark:
        """The mark in the target, a new one where it is not of this history."""
        mark = self._target.mark()
        with self._database.read() as connection:
            if mark is not None and feed.is_known(connection, mark.cursor):
                self._note(mark)
                return mark
        self._report = replace(self._report, rebuilt=True)
        self._target.prepare()
        return self._write(mark, start, MirrorBatch())

    def _note(self, mark: Mark) -> None:
        self.steps += 1
        self.applied = mark.applied if mark.phase == "follow" else 0

    def _write(self, was: Mark | None, now: Mark, batch: MirrorBatch) -> Mark:
        if self._embedder is not None and batch.nodes:
            vectors = self._embedder.vectors([node["properties"]["name"] for node in batch.nodes])
            for node, vector in zip(batch.nodes, vectors.tolist(), strict=True):
                node["properties"]["embedding"] = vector
        self._target.write(was, now, batch)
        self._note(now)
        self._report = replace(
            self._report,
            entities=self._report.entities + len(batch.nodes),
            relations=self._report.relations + batch.ties,
            removed=self._report.removed + len(batch.gone),
        )
        return now

    def _clear(self, mark: Mark) -> Mark:
        now = mark.moved("clear", 0)
        if self._target.clear(mark, now):
            return now
        return self._write(now, now.moved("entities", 0), MirrorBatch())

    def _fill(self, mark: Mark, progress: Callable[[int, int], None]) -> Mark:
        with self._database.read() as connection:
            batch, last = rows.after(connection, self._scope, mark.phase, mark.place, _ROWS)
            done, total = self._filled or rows.progress(connection, self._scope, mark.phase, mark.place)
        following: Phase = "relations" if mark.phase == "entities" else "follow"
        now = mark.moved(mark.phase, last) if last is not None else mark.moved(following, 0)
        now = self._write(mark, now, batch)
        done += len(batch.nodes) + batch.ties
        self._filled = done, max(done, total)  # more may have come since they were counted
        progress(*self._filled)
        return now

    def _follow_feed(self, mark: Mark) -> int:
        """Follow the feed to its end; the mark moves with what is written, and once more at the end."""
        now = mark
        while (step := self._next(now.cursor)) is not None:
            named, batch = step
            now = Mark(named.cursor.applied, named.cursor.nonce.hex())
            if batch.nodes or batch.relations or batch.gone:
                mark = self._write(mark, now, batch)
        if now is not mark:
            self._write(mark, now, MirrorBatch())
        return now.applied

    def _next(self, cursor: feed.Cursor) -> tuple[feed.NamedRows, MirrorBatch] | None:
        with self._database.read() as connection:
            named = feed.named(connection, cursor, _SPACES, _CHANGES)
            return None if named is None else (named, rows.batch_of(connection, self._scope, named.rows))


_AGAIN: Final = 60.0  # seconds after which what was refused is tried once more
_PATIENCE: Final = 30.0  # seconds that closing waits for a server that does not get on


class MirrorThread:
    """Keeps a mirror up to date in the background, looks at the change feed *every* so many seconds, and closes it in the end.

    If the graph server fails, the memory does not notice: the log says what went wrong, and it is tried again.
    """

    def __init__(self, mirror: Mirror, *, every: float = 1.0) -> None:
        self._mirror = mirror
        self._every = every
        self._stop = threading.Event()
        self._logged = ""
        # A daemon: what is missing there is mirrored when the memory is next opened, so no program has to wait for it.
        self._thread = threading.Thread(target=self._work, name="langmem-mirror", daemon=True)
        self._thread.start()
        self._process = os.getpid()
        atexit.register(self._end)  # many a program never closes its memory: `test_background.py`

    def close(self) -> None:
        """Mirror what is left, unless the server is away, and end; without it where the server stops answering."""
        atexit.unregister(self._end)
        self._stop.set()
        steps, until = -1, 0.0
        while self._thread.is_alive() and (steps != self._mirror.steps or time.monotonic() < until):
            if steps != self._mirror.steps:
                steps, until = self._mirror.steps, time.monotonic() + _PATIENCE
            self._thread.join(1)  # in rounds, so that a Ctrl-C is seen: see `BackgroundWriter`
        if self._thread.is_alive():
            _log.warning(
                "the graph is mirrored up to change %d; the rest follows when the memory is opened again",
                self._mirror.applied,
            )

    def _end(self) -> None:
        if os.getpid() == self._process:  # a forked child has no such thread, and its lock may be held for ever
            self.close()

    def _work(self) -> None:
        goes_well = True
        with self._mirror:
            while not self._stop.is_set():
                goes_well = self._attempt(lambda: self._mirror.follow(self._stop, every=self._every))
                self._stop.wait(_AGAIN)
            if goes_well:
                self._attempt(self._mirror.run_once)

    def _attempt(self, work: Callable[[], object]) -> bool:
        outcome = attempt(work)
        if outcome.error is not None:
            message = str(outcome.error)
            level = logging.DEBUG if message == self._logged else logging.WARNING
            _log.log(level, "the graph is not mirrored now: %s", message)
            self._logged = message
        return outcome.error is None and bool(outcome.result)
