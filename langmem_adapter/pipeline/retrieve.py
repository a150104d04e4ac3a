"""Retrieve, the third stage of the pipeline: the memories that each fact could concern; adds of one scope take turns.

Without the queue all of them would ask the chat model, and the ledger would send all but one back to ask again: fifty waiting
adds for one user cost over a thousand calls. Facts are extracted side by side all the same; adds for different scopes, and
those that store turns verbatim, do not wait. A place in the queue is a courtesy within one process: the ledger's check keeps
memories right. So no run waits for ever: a place at the head expires if its run does not go on (a stream that is no longer
read).
"""

from __future__ import annotations

import asyncio
import os
import time
from concurrent.futures import Future, wait
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from langgraph.types import Command

from langmem_adapter.forks import Lock
from langmem_adapter.names import name_speaker
from langmem_adapter.pipeline.state import fact_of, finish_stage, scope_of
from langmem_adapter.twins import Plan, steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.runnables import RunnableConfig

    from langmem_adapter.pipeline.state import NodeResult, PipelineState, Planner, StageParts
    from langmem_adapter.records.graph import Triple
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.database import Database
    from langmem_adapter.twins import PlanSteps


@dataclass(slots=True, eq=False)
class _Place:
    """One run's place: for how long others wait for it once its turn has come, and the sign that it has been left."""

    lease: float
    since: float | None = None  # when its turn came
    ended: Future[None] = field(default_factory=Future)

    def left(self) -> float:
        return self.lease if self.since is None else self.since + self.lease - time.monotonic()

    def turn(self) -> float:
        if self.since is None:
            self.since = time.monotonic()
        return max(0.0, self.left())


class Queue:
    """The places of runs, by scope, in the order in which they were taken."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._running: dict[Scope, dict[str, _Place]] = {}

    def take(self, scope: Scope, key: str, *, lease: float) -> None:
        """Take a place, or keep the run's, and wait until all before it are over, each at most *lease* seconds."""
        own, earlier = self._line_up(scope, key, lease)
        for place in earlier:
            wait([place.ended], timeout=place.turn())
        own.turn()

    async def atake(self, scope: Scope, key: str, *, lease: float) -> None:
        """The same without blocking the event loop."""
        own, earlier = self._line_up(scope, key, lease)
        for place in earlier:
            if not place.ended.done():
                await asyncio.wait([asyncio.wrap_future(place.ended)], timeout=place.turn())
        own.turn()

    def leave(self, scope: Scope, key: str) -> None:
        """Leave the run's place, if it has one."""
        with self._lock:
            running = self._running.get(scope, {})
            place = running.pop(key, None)
            if not running:
                self._running.pop(scope, None)
        if place is not None:
            place.ended.set_result(None)

    def _line_up(self, scope: Scope, key: str, lease: float) -> tuple[_Place, list[_Place]]:
        with self._lock:
            running = {name: place for name, place in self._running.get(scope, {}).items() if place.left() > 0}
            own = running.setdefault(key, _Place(lease))
            self._running[scope] = running
            return own, list(takewhile(lambda place: place is not own, running.values()))


_KEPT: Final[WeakValueDictionary[tuple[int, str], Queue]] = WeakValueDictionary()
_KEEPING: Final = Lock()


def queue_of(database: Database) -> Queue:
    """The queue of all writers to one database in this process."""
    if database.path is None and database.dialect == "sqlite":  # in memory: it is like no other
        return Queue()
    with _KEEPING:
        return _KEPT.setdefault((os.getpid(), database.location), Queue())


def in_queue(stage: Planner, queue: Queue, *, last: bool = False) -> Planner:
    """A stage of a run that has a place in the queue, which an error leaves, and the *last* stage; going back does not."""

    @steps
    def plan(state: PipelineState, config: RunnableConfig | None) -> PlanSteps[NodeResult]:
        leaves = True
        try:
            result = yield from stage(state, config)
            leaves = last and not isinstance(result, Command)
        finally:
            if leaves:
                queue.leave(scope_of(state), state["task"]["key"])
        return result

    return plan


_ALIKE: Final = 0.6
"""Likeness of two statements that say the same. Of eight pairs that do ("Works in nursing", "Is a nurse") three reach it with
static embeddings, of nine that do not ("Hates tea", "Likes tea") none."""


def retrieve_stage(parts: StageParts, queue: Queue, *, lease: float) -> Planner:
    """The third stage: `facts` to `candidates`; others of its scope wait *lease* seconds for a run, to see what it adds."""
    embedder = parts.embedder

    def compare(state: PipelineState, texts: Sequence[str]) -> NodeResult:
        stated: list[Triple] = []
        for place in range(len(texts)):
            fact = fact_of(state, place)
            stated += name_speaker(fact.relations, fact.speaker, state["turns"][fact.turn]["role"])
        tokens = parts.settings.candidate_tokens
        hood = parts.searcher.neighbours(texts, scope_of(state), tokens=tokens, stated=stated)
        if parts.reasoner.calls_model:
            hood = replace(hood, alike=tuple(map(tuple, parts.searcher.same(texts, hood, _ALIKE))))
        return {"candidates": _plain(asdict(hood)), **finish_stage(state, "retrieve", memories=hood.shown)}

    @steps
    def plan(state: PipelineState, _: RunnableConfig | None) -> PlanSteps[NodeResult]:
        texts = [fact["text"] for fact in state["facts"]]
        yield from Plan.calling(embedder.vectors, embedder.avectors, texts)  # before its turn, into the cache
        yield from Plan.calling(queue.take, queue.atake, scope_of(state), state["task"]["key"], lease=lease)
        return (yield from Plan(partial(compare, state, texts)))

    return plan


def _plain(value: Any) -> Any:
    # JSON knows no tuples; a checkpoint would turn them into lists, and the state must look the same before and after.
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, tuple | list) else value
