"""Group commit: writers wait in a queue, and whoever finds it free commits for all of them (DeWitt et al. 1984).

A hundred waiting writers share one transaction, with a savepoint each, so that each still gets its own result or its own error.
Sync callers flush on their own thread; async callers let a thread of the queue's flush and await their future.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from langmem_adapter.errors import LangmemAdapterError, StorageError
from langmem_adapter.storage.drivers import translated
from langmem_adapter.twins import Outcome, attempt

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from sqlalchemy import Connection

T = TypeVar("T")

_MOST_PER_COMMIT: Final = 512
_UNKNOWN: Final = (
    "this write was broken off, and it is not known whether it was written; look, or repeat it with the same "
    "idempotency_key, which writes nothing twice"
)


@dataclass(slots=True, eq=False)
class _Waiting(Generic[T]):
    """One piece of writing, and who waits for it."""

    work: Callable[[Connection], T]
    future: Future[T] = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)

    @property
    def fresh(self) -> bool:
        """Whether it was neither begun nor given up."""
        return not (self.future.done() or self.future.running())

    def begins(self) -> bool:
        """Whether it is to be done now."""
        return self.fresh and self.future.set_running_or_notify_cancel()

    def end(self, outcome: Outcome[T]) -> None:
        """Tell who waits; who has an end keeps it."""
        if not self.future.running():
            return
        if outcome.error is None:
            self.future.set_result(outcome.result)
        else:
            self.future.set_exception(outcome.error)


class GroupCommit:
    """The queue of one database.

    Args:
        location: Of the database, for errors.
        transaction: A write transaction that waits for other processes for so many seconds; its errors are ours.
        patience: How many seconds each piece of writing waits, from when it was queued.
    """

    def __init__(
        self, location: str, transaction: Callable[[float], AbstractContextManager[Connection]], patience: float
    ) -> None:
        self.commits = 0  # fewer than pieces of writing, where those shared some
        self._patience: Final = patience
        self._location: Final = location
        self._transaction: Final = transaction
        self._queue: deque[_Waiting[Any]] = deque()
        self._flushing = threading.Lock()
        self._beside = threading.Lock()
        self._has_thread = False

    def enqueue(self, work: Callable[[Connection], T]) -> Future[T]:
        """Let a piece of writing wait for whoever flushes next."""
        waiting = _Waiting(work)
        self._queue.append(waiting)
        return waiting.future

    def ended(self, futures: list[Future[T]]) -> list[Future[T]]:
        """The futures of `enqueue`, once each has its end."""
        try:
            for future in futures:
                while not future.done():
                    self._flush()
        finally:  # who is interrupted before its turn writes nothing
            for future in futures:
                future.cancel()
        return futures

    def finish(self) -> None:
        """Commit what waits, but for what is under way."""
        # Contract: a write under way is not waited for, since it may wait for this.
        # `test_a_write_that_is_kept_is_acknowledged_also_where_somebody_closes_meanwhile`
        while any(waiting.fresh for waiting in self._queue.copy()):
            self._flush()

    def flush_beside(self) -> None:
        """Flush on a thread of its own, unless there is one already."""
        # Contract: the commit that a task waits for waits for no thread of others: the executor of a loop may be gone, full or
        # shut down with what it was given. What a task reads before goes there as long as it takes work (`twins.beside`).
        # `test_a_task_gets_its_result_where_the_loop_has_no_executor_any_more`
        try:
            with self._beside:
                if not self._has_thread:  # it looks into the queue once more when it is done
                    threading.Thread(target=self._flush_all, name="langmem-adapter writes").start()
                    self._has_thread = True
        except RuntimeError:  # no thread is to be had: too many of them, or the interpreter ends
            self._flush_all()

    def _flush_all(self) -> None:
        try:
            while self._queue:
                self._flush()
        finally:
            # Contract: an interrupt ends its batch, not the next one's. `test_an_interrupt_anywhere_leaves_nobody_waiting`
            with self._beside:
                self._has_thread = False
            if self._queue:
                self.flush_beside()

    def _flush(self) -> None:
        # Contract: an interrupt may come between any two steps, and nobody waits for ever: who is in the queue leaves it with
        # an end, and is not begun again where it was begun. `test_an_interrupt_anywhere_leaves_nobody_waiting`
        with self._flushing:
            batch = [self._queue[place] for place in range(min(len(self._queue), _MOST_PER_COMMIT))]
            try:
                self._commit([waiting for waiting in batch if waiting.begins()])
            finally:
                for waiting in batch:
                    waiting.end(Outcome(None, StorageError(f"{self._location}: {_UNKNOWN}")))
                while self._queue and self._queue[0].future.done():
                    self._queue.popleft()

    def _commit(self, batch: list[_Waiting[Any]]) -> None:
        # Contract: nothing is acknowledged before its commit has returned. `test_who_is_told_that_it_is_written_finds_it`
        if not batch:
            return
        outcomes: list[Outcome[Any]] = []
        error = attempt(self._commit_all, batch, outcomes).error
        # Contract: a write waits for locks of other processes until `busy_timeout` after it was queued, however often it is
        # tried: those queued later go on waiting. `test_busy_timeout_is_one_deadline`
        while isinstance(error, StorageError) and error.waited and not outcomes and batch:
            expired = sum(waiting.since + self._patience <= time.monotonic() for waiting in batch) or 1
            for waiting in batch[:expired]:
                waiting.end(Outcome(None, error))
            batch = batch[expired:]
            error = attempt(self._commit_all, batch, outcomes).error if batch else error
        if error is None:
            self.commits += 1
        elif not isinstance(error, Exception):  # an interrupt is the caller's own
            raise error
        else:
            outcomes = [Outcome(None, self._broken_off(error) if outcomes else error)] * len(batch)
        for waiting, outcome in zip(batch, outcomes, strict=True):
            waiting.end(outcome)

    def _commit_all(self, batch: list[_Waiting[Any]], outcomes: list[Outcome[Any]]) -> None:
        wait = max(0.0, batch[0].since + self._patience - time.monotonic())
        with self._transaction(wait) as connection:
            # Contract: of writers that share a commit each has its own savepoint; one that is alone needs none, its error rolls
            # the transaction back. `test_who_fails_after_writing_leaves_nothing_in_the_commit_that_he_shares`
            if len(batch) == 1:
                outcomes.append(Outcome(batch[0].work(connection)))
            else:
                outcomes += [self._attempt(connection, waiting) for waiting in batch]

    def _attempt(self, connection: Connection, waiting: _Waiting[Any]) -> Outcome[Any]:
        savepoint = connection.begin_nested()
        outcome = attempt(self._translated, waiting.work, connection)
        if outcome.error is None:
            savepoint.commit()
        elif isinstance(outcome.error, Exception):
            if gone := attempt(savepoint.rollback).error:  # the whole transaction was ended: by SQLite, on a full disk
                raise outcome.error if isinstance(gone, Exception) and isinstance(outcome.error, StorageError) else gone
        else:
            raise outcome.error
        return outcome

    def _translated(self, work: Callable[[Connection], T], connection: Connection) -> T:
        with translated(self._location):
            return work(connection)

    def _broken_off(self, error: Exception) -> Exception:
        """What a commit that failed tells: the database's own word, unless it gave none."""
        if isinstance(error, LangmemAdapterError) and not getattr(error, "transient", False):
            return error
        passing = isinstance(error, StorageError)
        told = StorageError(f"{self._location}: {_UNKNOWN} ({error!r})", transient=passing, brief=_UNKNOWN)
        told.__cause__ = error
        return told
