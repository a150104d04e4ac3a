"""Decide: facts and their neighbours become decisions.

What needs no judgement is decided here: verbatim turns are added, the same words twice are NONE, and where nothing is known a
fact is added. The rest goes to the reasoner, which sees memories as numbers; only numbers it was shown can come back as ids.

Who speaks is settled here, whatever the reasoner: what a named speaker says of himself is said of him and not of the scope's
user, and his statement neither changes nor ends, nor is it taken for, what somebody else said. Who is named is
`names.named_speaker`'s to say; all who are not are one, the scope's own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from langmem_adapter.arguments import parse_time
from langmem_adapter.names import entity_key
from langmem_adapter.pipeline.around import around
from langmem_adapter.pipeline.clock import finished
from langmem_adapter.pipeline.speakers import by_name, said
from langmem_adapter.pipeline.stage import Ask, AskingStage, Update
from langmem_adapter.reasoning.base import Answer, Comparison, Known, Reasoner
from langmem_adapter.records.cost import Usage
from langmem_adapter.records.work import FORGET, PROCEDURAL, Decision, Event, Fact, Turn
from langmem_adapter.text import text_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from langmem_adapter.pipeline.state import PipelineState
    from langmem_adapter.records.graph import Triple

__all__ = ["decide_stage"]


def decide_stage(reasoner: Reasoner, *, graph: bool = False) -> AskingStage:
    """The fourth stage: `facts` and `candidates` to `decisions`.

    Args:
        reasoner: Who judges.
        graph: Whether relations are wanted for texts that the reasoner rewrites.
    """
    return AskingStage(partial(_decide, reasoner, partial(Comparison, graph=graph)))


def _decide(reasoner: Reasoner, compared: Callable[..., Comparison], state: PipelineState) -> Update | Ask:
    facts = [said(state, place) for place in range(len(state["facts"]))]
    if not facts or facts[0].verbatim:
        why = "a record of what was done" if state["task"]["memory_type"] == PROCEDURAL else "stored as said"
        return _decisions(state, [_Placed(place, "ADD", fact.text, why) for place, fact in enumerate(facts)])
    if state["work"]["compared"] == _compared(state):  # back from a conflict
        return finished(state, "decide", decisions=len(state["decisions"]))
    settled, open_facts = _settle(facts, state["candidates"], ask_always=not reasoner.calls_model)
    if not open_facts:
        return _decisions(state, settled)
    comparison = _comparison(facts, open_facts, state["candidates"], compared)
    return Ask(reasoner.decide, [comparison], partial(_judged, state, settled, open_facts))


@dataclass(frozen=True, slots=True)
class _Placed:
    """A verdict whose fact and memory are places in the state, not in what the reasoner was shown."""

    fact: int
    event: Event
    text: str
    reason: str
    known: int | None = None
    relations: tuple[Triple, ...] | None = None


def _settle(
    facts: Sequence[Fact], candidates: Mapping[str, Any], *, ask_always: bool
) -> tuple[list[_Placed], list[int]]:
    """Verdicts that need no judgement, and the places of the facts that do."""
    settled: list[_Placed] = []
    unsettled: list[int] = []
    told: set[tuple[str, str]] = set()
    for place, fact in enumerate(facts):
        words = (entity_key(fact.speaker), text_hash(fact.text))
        equal = next((n for n in candidates["equal"][place] if _are_one(fact, candidates["known"][n])), None)
        if equal is not None:
            settled.append(_Placed(place, "NONE", fact.text, "already known, in the same words", equal))
        elif words in told:
            settled.append(_Placed(place, "NONE", fact.text, "said twice"))
        else:
            unsettled.append(place)
        told.add(words)
    if ask_always or candidates["shown"]:
        return settled, unsettled
    return [*settled, *(_Placed(place, "ADD", facts[place].text, "nothing is known yet") for place in unsettled)], []


def _comparison(
    facts: Sequence[Fact], open_facts: Sequence[int], candidates: Mapping[str, Any], compared: Callable[..., Comparison]
) -> Comparison:
    shown = candidates["known"][: candidates["shown"]]
    return compared(
        facts=tuple(facts[place] for place in open_facts),
        known=tuple(Known(number, memory["text"], memory["speaker"]) for number, memory in enumerate(shown)),
    )


def _judged(state: PipelineState, settled: list[_Placed], open_facts: list[int], answers: Sequence[Answer]) -> Update:
    (answer,) = answers
    judged = [_Placed(open_facts[v.fact], v.event, v.text, v.reason, v.number, v.relations) for v in answer.verdicts]
    usage = Usage.from_json(state["work"]["usage"]) + answer.usage
    placed = sorted(settled + _by_speaker(state, judged), key=lambda verdict: verdict.fact)
    return _decisions(state, placed, usage)


def _by_speaker(state: PipelineState, judged: Sequence[_Placed]) -> list[_Placed]:
    """Verdicts without those on what somebody else said: what the fact's own speaker says is added in their place."""
    facts, known = [said(state, place) for place in range(len(state["facts"]))], state["candidates"]["known"]
    apart = [v for v in judged if v.known is not None and not _are_one(facts[v.fact], known[v.known])]
    kept = [verdict for verdict in judged if verdict not in apart]
    told = {verdict.fact for verdict in kept if verdict.event != "DELETE"}
    lost = {v.fact: known[v.known] for v in reversed(apart) if v.known is not None and v.fact not in told}
    return kept + [
        _Placed(place, "ADD", facts[place].text, f"{_whose(facts[place].speaker)}; {_whose(of['speaker'])} stays")
        for place, of in lost.items()
    ]


def _are_one(fact: Fact, known: Mapping[str, Any]) -> bool:
    return entity_key(fact.speaker) == entity_key(known["speaker"])


def _whose(speaker: str) -> str:
    return f"what {speaker} said" if speaker else "what was said without a name"


def _decisions(state: PipelineState, verdicts: Sequence[_Placed], usage: Usage | None = None) -> Update:
    made = [_decision(state, _granted(verdict, state)) for verdict in verdicts]
    spent = state["work"]["usage"] if usage is None else usage.to_json()
    work = finished(state, "decide", {"usage": spent, "compared": _compared(state)}, decisions=len(made))
    return {"decisions": [decision.to_json() for decision in made], **work}


def _granted(verdict: _Placed, state: PipelineState) -> _Placed:
    """A verdict as it may stand: a wish to forget never becomes a memory, and no text replaces what was not shown whole."""
    text = state["facts"][verdict.fact]["text"]
    if verdict.event in {"DELETE", "NONE"}:
        return verdict
    if text.startswith(FORGET):
        return _Placed(verdict.fact, "NONE", text, "no memory clearly says what is to be forgotten")
    if verdict.known is not None and state["candidates"]["known"][verdict.known]["cut"]:
        return _Placed(verdict.fact, "ADD", text, "the memory that it concerns is too long to be shown, and stays")
    return verdict


def _decision(state: PipelineState, verdict: _Placed) -> Decision:
    fact = said(state, verdict.fact)
    turn = Turn.from_json(state["turns"][fact.turn])
    target = None if verdict.known is None else state["candidates"]["known"][verdict.known]
    plain = Decision(
        event=verdict.event,
        memory_id=target["id"] if target else None,
        text=verdict.text,
        reason=verdict.reason,
        fact=verdict.fact,
        time=turn.time,
        seen=target["seq"] if target else None,
        relations=by_name(_stated(verdict, fact), fact.speaker, turn.role),
    )
    return _with_source(plain, fact, turn, state) if verdict.event in {"ADD", "UPDATE"} else plain


def _stated(verdict: _Placed, fact: Fact) -> tuple[Triple, ...]:
    """What the memory says of relations that is to be; a memory that goes says at most what is over."""
    stated = fact.relations if verdict.relations is None else verdict.relations
    return tuple(triple for triple in stated if triple.ended) if verdict.event == "DELETE" else stated


def _with_source(decision: Decision, fact: Fact, turn: Turn, state: PipelineState) -> Decision:
    item = state["task"]["items"][turn.item]
    expires_at = item.get("expires_at")
    return replace(
        decision,
        context=around(fact, state["turns"]),
        metadata=item.get("metadata"),
        memory_type=state["task"]["memory_type"],
        actor_id=turn.role if fact.unattributed else turn.actor,
        role=turn.role,
        expires_at=None if expires_at is None else parse_time(expires_at, "expires_at"),
        keep_expiry=expires_at is None,
    )


def _compared(state: PipelineState) -> str:
    known = {name: part for name, part in state.get("candidates", {}).items() if name != "seen"}
    return blake2b(json.dumps(known, sort_keys=True).encode(), digest_size=16).hexdigest()
