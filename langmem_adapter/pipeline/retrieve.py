"""Retrieve: the facts meet the memories that could concern them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from langmem_adapter.names import by_name
from langmem_adapter.pipeline.clock import finished
from langmem_adapter.pipeline.speakers import said
from langmem_adapter.pipeline.stage import Update, WorkingStage
from langmem_adapter.pipeline.state import PipelineState, scope_of
from langmem_adapter.twins import beside

if TYPE_CHECKING:
    from langmem_adapter.embedding.embedder import Embedder
    from langmem_adapter.pipeline.queue import Queue
    from langmem_adapter.records.graph import Triple
    from langmem_adapter.search.searcher import Searcher

__all__ = ["retrieve_stage"]


def retrieve_stage(searcher: Searcher, embedder: Embedder, queue: Queue, *, tokens: int, lease: float) -> WorkingStage:
    """The third stage: `facts` to `candidates`; all facts are embedded in one batch, compared within the fields given."""

    def compared(state: PipelineState) -> Update:
        stated = [triple for place in range(len(state["facts"])) for triple in _stated(state, place)]
        hood = searcher.neighbours(_texts(state), scope_of(state), tokens=tokens, stated=stated)
        return {"candidates": _plain(asdict(hood)), **finished(state, "retrieve", memories=hood.shown)}

    def retrieve(state: PipelineState) -> Update:
        embedder.vectors(_texts(state))  # before its turn comes: apply finds them in the cache
        queue.take(scope_of(state), state["task"]["key"], lease=lease)
        return compared(state)

    async def aretrieve(state: PipelineState) -> Update:
        await embedder.avectors(_texts(state))
        await queue.atake(scope_of(state), state["task"]["key"], lease=lease)
        return await beside(compared, state)

    return WorkingStage(retrieve, aretrieve)


def _stated(state: PipelineState, place: int) -> tuple[Triple, ...]:
    fact = said(state, place)
    return by_name(fact.relations, fact.speaker, state["turns"][fact.turn]["role"])


def _texts(state: PipelineState) -> list[str]:
    return [fact["text"] for fact in state["facts"]]


def _plain(value: Any) -> Any:
    # JSON knows no tuples; a checkpoint would turn them into lists, and the state must look the same before and after.
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, tuple | list) else value
