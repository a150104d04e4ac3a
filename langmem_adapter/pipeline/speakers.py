"""Who says a fact."""

from __future__ import annotations

from dataclasses import replace

from langmem_adapter.names import named_speaker
from langmem_adapter.pipeline.state import PipelineState, scope_of
from langmem_adapter.records.work import Fact

__all__ = ["said"]


def said(state: PipelineState, place: int) -> Fact:
    """A fact of a run with its speaker, as `names.named_speaker` knows him."""
    fact = Fact.from_json(state["facts"][place])
    if fact.unattributed:
        return fact
    turn = state["turns"][fact.turn]
    return replace(fact, speaker=named_speaker(turn["actor"], turn["role"], scope_of(state)))
