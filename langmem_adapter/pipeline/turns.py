"""Turns of adds that would collide: whoever says something near to what another is just saying comes after it.

Without turns both would ask the chat model, and the ledger would send the second one back to ask again: two hundred waiting
adds for one user cost eight hundred calls. Adds that are not near each other, or for different scopes, run side by side. A
turn is a courtesy within one process, never a promise: the ledger's check is what keeps memories right. That is why nobody
waits for ever: a turn that is not ended (a stream that somebody has stopped reading) runs out.
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

__all__ = ["InTurn", "Turns", "turns_of"]


@dataclass(slots=True, eq=False)
class _Turn:
    """One run's turn: what it says, until when others wait for it, and the sign that it has ended."""

    vectors: UnitVectors
    until: float
    ended: Future[None] = field(default_factory=Future)

    def __post_init__(self) -> None:
        self.ended.set_running_or_notify_cancel()  # from here on nobody who waits for it can cancel it


class Turns:
    """The turns of runs, by scope, in the order in which they were taken."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._running: dict[Scope, dict[str, _Turn]] = {}

    def take(self, scope: Scope, key: str, vectors: UnitVectors, *, near: float, lease: float) -> None:
        """Take a turn, or keep that which the run has, and wait until all before it that say something near are over.

        Args:
            scope: Whose memories.
            key: Name of the run.
            vectors: Of its facts, shape (n, dimensions), n at least 1.
            near: Cosine from which on two facts would collide.
            lease: Seconds after which the turn, where it was not ended, is over: it holds nobody up any longer.
        """
        for turn in self._before(scope, key, vectors, near, lease):
            wait([turn.ended], timeout=turn.until - time.monotonic())

    async def atake(self, scope: Scope, key: str, vectors: UnitVectors, *, near: float, lease: float) -> None:
        """The same without blocking the event loop."""
        for turn in self._before(scope, key, vectors, near, lease):
            if not turn.ended.done():
                await asyncio.wait([asyncio.wrap_future(turn.ended)], timeout=turn.until - time.monotonic())

    def leave(self, scope: Scope, key: str) -> None:
        """End the run's turn, if it has one."""
        with self._lock:
            running = self._running.get(scope, {})
            turn = running.pop(key, None)
            if not running:
                self._running.pop(scope, None)
        if turn is not None:
            turn.ended.set_result(None)

    def _before(self, scope: Scope, key: str, vectors: UnitVectors, near: float, lease: float) -> list[_Turn]:
        now = time.monotonic()
        with self._lock:
            running = {name: turn for name, turn in self._running.get(scope, {}).items() if turn.until > now}
            own = running.setdefault(key, _Turn(vectors, now + lease))
            self._running[scope] = running
            earlier = list(takewhile(lambda turn: turn is not own, running.values()))
        return [turn for turn in earlier if float((turn.vectors @ vectors.T).max()) >= near]


_KEPT: Final[WeakValueDictionary[tuple[int, str], Turns]] = WeakValueDictionary()
_KEEPING: Final = Lock()


def turns_of(database: Database) -> Turns:
    """The turns of everybody in this process who writes to the same database."""
    if database.path is None and database.dialect == "sqlite":  # in memory: it is like no other
        return Turns()
    with _KEEPING:
        return _KEPT.setdefault((os.getpid(), database.location), Turns())


class InTurn(Runnable[PipelineState, Step]):
    """A stage within the turn of its run: an error ends the turn, going back to an earlier stage does not.

    Args:
        stage: What is done.
        turns: Who keeps the turns.
        last: Whether the turn ends with this stage.
    """

    def __init__(self, stage: Runnable[PipelineState, Step], turns: Turns, *, last: bool = False) -> None:
        self._stage = stage
        self._turns = turns
        self._last = last

    def invoke(self, input: PipelineState, config: RunnableConfig | None = None, **_: Any) -> Step:  # noqa: A002 - LangChain's name
        """The stage's step."""
        with ExitStack() as end:
            end.callback(self._turns.leave, scope_of(input), input["task"]["key"])
            return self._go_on(end, self._stage.invoke(input, config))

    async def ainvoke(self, input: PipelineState, config: RunnableConfig | None = None, **_: Any) -> Step:  # noqa: A002 - LangChain's name
        """The same without blocking the event loop."""
        with ExitStack() as end:
            end.callback(self._turns.leave, scope_of(input), input["task"]["key"])
            return self._go_on(end, await self._stage.ainvoke(input, config))

    def _go_on(self, end: ExitStack, step: Step) -> Step:
        if not self._last or isinstance(step, Command):
            end.pop_all()
        return step
