"""Retrieve: each fact meets its nearest memories."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from langmem_adapter.pipeline.clock import finished
from langmem_adapter.pipeline.stage import Update, WorkingStage
from langmem_adapter.pipeline.state import PipelineState, scope_of
from langmem_adapter.text import refers_back

if TYPE_CHECKING:
    from langmem_adapter.embedding.embedder import Embedder
    from langmem_adapter.pipeline.queue import Queue
    from langmem_adapter.search.searcher import Searcher

__all__ = ["retrieve_stage"]


def retrieve_stage(
    searcher: Searcher, embedder: Embedder, queue: Queue, *, limit: int, near: float, lease: float
) -> WorkingStage:
    """The third stage: `facts` to `candidates`; all facts are embedded in one batch, compared within the fields given.

    Args:
        searcher: Finds neighbours.
        embedder: Makes vectors.
        queue: Keeps the order of runs that say something near.
        limit: Memories that each fact is compared with.
        near: Cosine from which on what another run is just adding is waited for, to be compared with.
        lease: Seconds for which others wait for this run.
    """

    def compared(state: PipelineState) -> Update:
        referring = [refers_back(fact["text"]) or refers_back(fact["context"]) for fact in state["facts"]]
        hood = searcher.neighbours(_texts(state), scope_of(state), limit=limit, referring=referring)
        candidates = {**_plain(asdict(hood)), "referring": referring}
        return {"candidates": candidates, **finished(state, "retrieve", memories=len(hood.known))}

    def retrieve(state: PipelineState) -> Update:
        vectors = embedder.vectors(_texts(state))
        queue.take(scope_of(state), state["task"]["key"], vectors, near=near, lease=lease)
        return compared(state)

    async def aretrieve(state: PipelineState) -> Update:
        vectors = await embedder.avectors(_texts(state))
        await queue.atake(scope_of(state), state["task"]["key"], vectors, near=near, lease=lease)
        return await asyncio.to_thread(compared, state)

    return WorkingStage(retrieve, aretrieve)


def _texts(state: PipelineState) -> list[str]:
    return [fact["text"] for fact in state["facts"]]


def _plain(value: Any) -> Any:
    # JSON knows no tuples; a checkpoint would turn them into lists, and the state must look the same before and after.
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, tuple | list) else value
