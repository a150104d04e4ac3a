"""Retrieve: the facts meet the memories that could concern them."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.names import by_name
from langmem_adapter.pipeline.state import finished, said, scope_of
from langmem_adapter.twins import Plan

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from langmem_adapter.pipeline.queue import Queue
    from langmem_adapter.pipeline.stage import NodeResult, Planner, StageParts
    from langmem_adapter.pipeline.state import PipelineState
    from langmem_adapter.records.graph import Triple

__all__ = ["retrieve_stage"]


_ALIKE: Final = 0.6
"""Likeness of two statements that say the same. Of eight pairs that do ("Works in nursing", "Is a nurse") three reach it with
static embeddings, of nine that do not ("Hates tea", "Likes tea") none."""


def retrieve_stage(parts: StageParts, queue: Queue, *, lease: float) -> Planner:
    """The third stage: `facts` to `candidates`; all facts are embedded in one batch, compared within the fields given.

    Others of its scope wait for a run for *lease* seconds, to be compared with what it adds.
    """
    embedder = parts.embedder

    def compared(state: PipelineState) -> NodeResult:
        stated = [triple for place in range(len(state["facts"])) for triple in _stated(state, place)]
        tokens = parts.settings.candidate_tokens
        hood = parts.searcher.neighbours(_texts(state), scope_of(state), tokens=tokens, stated=stated)
        if parts.reasoner.calls_model:
            hood = replace(hood, alike=tuple(map(tuple, parts.searcher.same(_texts(state), hood, _ALIKE))))
        return {"candidates": _plain(asdict(hood)), **finished(state, "retrieve", memories=hood.shown)}

    def plan(state: PipelineState, _: RunnableConfig | None) -> Plan[NodeResult]:
        # Before its turn comes: apply finds them in the cache.
        embedded = Plan.calling(embedder.vectors, embedder.avectors, _texts(state))
        place = scope_of(state), state["task"]["key"]
        queued = embedded.and_then(lambda _: Plan.calling(queue.take, queue.atake, *place, lease=lease))
        return queued.and_then(lambda _: Plan(partial(compared, state)))

    return plan


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
