"""The queue of adds that would collide: whoever says something near to what another is just saying comes after it.

Without it both would ask the chat model, and the ledger would send the second one back to ask again: two hundred waiting
adds for one user cost eight hundred calls. Adds that are not near each other, or for different scopes, run side by side. A
place in the queue is a courtesy within one process, never a promise: the ledger's check is what keeps memories right. That is
why nobody waits for ever: a place that is not left (a stream that somebody has stopped reading) runs out.
"""

from __future__ import annotations

import asyncio
import os
import time
from concurrent.futures import Future, wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from langchain_core.runnables import Runnable
from langgraph.types import Command

from langmem_adapter.forks import Lock
from langmem_adapter.pipeline.stage import Step
from langmem_adapter.pipeline.state import PipelineState, scope_of

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from langmem_adapter.embedding.embedder import UnitVectors
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.database import Database

__all__ = ["InQueue", "Queue", "queue_of"]


@dataclass(slots=True, eq=False)
class _Place:
    """One run's place: what it says, until when others wait for it, and the sign that it has been left."""

    vectors: UnitVectors
    until: float
    ended: Future[None] = field(default_factory=Future)

    def __post_init__(self) -> None:
        self.ended.set_running_or_notify_cancel()  # from here on nobody who waits for it can cancel it


class Queue:
    """The places of runs, by scope, in the order in which they were taken."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._running: dict[Scope, dict[str, _Place]] = {}

    def take(self, scope: Scope, key: str, vectors: UnitVectors, *, near: float, lease: float) -> None:
        """Take a place, or keep that which the run has, and wait until all before it that say something near are over.

        Args:
            scope: Whose memories.
            key: Name of the run.
            vectors: Of its facts, shape (n, dimensions), n at least 1.
            near: Cosine from which on two facts would collide.
            lease: Seconds after which the place, where it was not left, is over: it holds nobody up any longer.
        """
        for place in self._before(scope, key, vectors, near, lease):
            wait([place.ended], timeout=place.until - time.monotonic())

    async def atake(self, scope: Scope, key: str, vectors: UnitVectors, *, near: float, lease: float) -> None:
        """The same without blocking the event loop."""
        for place in self._before(scope, key, vectors, near, lease):
            if not place.ended.done():
                await asyncio.wait([asyncio.wrap_future(place.ended)], timeout=place.until - time.monotonic())

    def leave(self, scope: Scope, key: str) -> None:
        """Leave the run's place, if it has one."""
        with self._lock:
            running = self._running.get(scope, {})
            place = running.pop(key, None)
            if not running:
                self._running.pop(scope, None)
        if place is not None:
            place.ended.set_result(None)

    def _before(self, scope: Scope, key: str, vectors: UnitVectors, near: float, lease: float) -> list[_Place]:
        now = time.monotonic()
        with self._lock:
            running = {name: place for name, place in self._running.get(scope, {}).items() if place.until > now}
            own = running.setdefault(key, _Place(vectors, now + lease))
            self._running[scope] = running
            earlier = list(takewhile(lambda place: place is not own, running.values()))
        return [place for place in earlier if float((place.vectors @ vectors.T).max()) >= near]


_KEPT: Final[WeakValueDictionary[tuple[int, str], Queue]] = WeakValueDictionary()
_KEEPING: Final = Lock()


def queue_of(database: Database) -> Queue:
    """The queue of everybody in this process who writes to the same database."""
    if database.path is None and database.dialect == "sqlite":  # in memory: it is like no other
        return Queue()
    with _KEEPING:
        return _KEPT.setdefault((os.getpid(), database.location), Queue())


class InQueue(Runnable[PipelineState, Step]):
    """A stage of a run that has a place in the queue: an error leaves it, going back to an earlier stage does not.

    Args:
        stage: What is done.
        queue: Who keeps the places.
        last: Whether the place is left after this stage.
    """

    def __init__(self, stage: Runnable[PipelineState, Step], queue: Queue, *, last: bool = False) -> None:
        self._stage = stage
        self._queue = queue
        self._last = last

    def invoke(self, input: PipelineState, config: RunnableConfig | None = None, **_: Any) -> Step:  # noqa: A002 - LangChain's name
        """The stage's step."""
        with ExitStack() as end:
            end.callback(self._queue.leave, scope_of(input), input["task"]["key"])
            return self._go_on(end, self._stage.invoke(input, config))

    async def ainvoke(self, input: PipelineState, config: RunnableConfig | None = None, **_: Any) -> Step:  # noqa: A002 - LangChain's name
        """The same without blocking the event loop."""
        with ExitStack() as end:
            end.callback(self._queue.leave, scope_of(input), input["task"]["key"])
            return self._go_on(end, await self._stage.ainvoke(input, config))

    def _go_on(self, end: ExitStack, step: Step) -> Step:
        if not self._last or isinstance(step, Command):
            end.pop_all()
        return step
