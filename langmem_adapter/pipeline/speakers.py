"""Who says a fact, and whom its relations are about: what a named speaker says of himself is said of him, not of the user."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from langmem_adapter.names import named_speaker
from langmem_adapter.pipeline.state import PipelineState, scope_of
from langmem_adapter.records.graph import ASSISTANT, SELF, Triple
from langmem_adapter.records.work import Fact

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["by_name", "said"]


def said(state: PipelineState, place: int) -> Fact:
    """A fact of a run with its speaker, as `names.named_speaker` knows him."""
    fact = Fact.from_json(state["facts"][place])
    if fact.unattributed:
        return fact
    turn = state["turns"][fact.turn]
    return replace(fact, speaker=named_speaker(turn["actor"], turn["role"], scope_of(state)))


def by_name(triples: Iterable[Triple], speaker: str, role: str) -> tuple[Triple, ...]:
    """What somebody says of relations, with his name where he speaks of himself; the scope's own stay as they are."""
    himself = ASSISTANT if role == ASSISTANT else SELF
    names = {himself: speaker or himself}
    return tuple(
        replace(each, source=names.get(each.source, each.source), target=names.get(each.target, each.target))
        for each in triples
    )
