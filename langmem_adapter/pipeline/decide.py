"""Decide, the fourth stage of the pipeline: facts and the memories near them become decisions.

The dates of the turns decide, where they were given, and no reasoner does. On equal dates, and without a date, the statement
added last wins. So dated statements may be added in any order, in one add or in many.

What needs no judgement is decided here: verbatim turns are added, the same words twice are NONE, and without memories a
fact is added. The rest goes to the reasoner, which sees memories as numbers; only numbers that it saw can come back as ids.

The speaker is settled here, whatever the reasoner: what a named speaker says of himself is stored under that name, and
neither changes nor ends, nor is it taken for, another speaker's statement. All speakers without a name are one, the scope's
own (`names.named_speaker`). A memory that was not shown whole is not rewritten.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from hashlib import blake2b
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from langmem_adapter.arguments import parse_time
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.names import entity_key, name_speaker
from langmem_adapter.pipeline.state import Ask, StateEdit, fact_of, finish_stage, thinking
from langmem_adapter.reasoning.base import Comparison, FactDecision, KnownMemory
from langmem_adapter.records.results import FORGET, PROCEDURAL, UNCLEAR, Decision, Event, Fact, Turn, Usage
from langmem_adapter.statements.reader import read, single_valued
from langmem_adapter.statements.tables import ATTRIBUTES
from langmem_adapter.storage.lexical import join_context
from langmem_adapter.text import text_hash

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from langmem_adapter.pipeline.state import PipelineState, Planner, Thoughts, Work
    from langmem_adapter.reasoning.base import DecideOutput, Reasoner
    from langmem_adapter.records.graph import Triple

_LATER: Final = "the later statement wins"
_BEFORE: Final = 2
_QUOTED: Final = 80  # letters of a text that a reason names
_LONGEST: Final = 2_000  # letters of each: every memory of a turn keeps its own copy
AT_ONCE: Final = 50
"""Facts that a chat model is asked about in one call; what becomes of them is part of the next."""


@dataclass(frozen=True, slots=True)
class ResolvedDecision:
    """A decision with places in the state for its fact and memory, not the numbers that the reasoner saw."""

    fact: int  # place of the fact
    event: Event
    text: str  # the text to keep, or the fact's
    reason: str
    memory: int | None = None  # place of the memory concerned
    relations: tuple[Triple, ...] | None = None  # what the text says of relations, where that is not what the fact says
    past: bool = False  # the memory stays; the statement was true before it
    after: int | None = None  # place of the later fact, of which the current memory comes


def decide_stage(reasoner: Reasoner, *, graph: bool) -> Planner:
    """The fourth stage: `facts` and `candidates` to `decisions`; with *graph*, rewritten texts tell their relations."""
    return thinking(partial(_decide, reasoner, graph))


def _decide(reasoner: Reasoner, graph: bool, state: PipelineState) -> Thoughts:  # noqa: FBT001 - a setting
    facts = [fact_of(state, place) for place in range(len(state["facts"]))]
    usage, notes = Usage.from_json(state["work"]["usage"]), list[str]()
    if not facts or facts[0].verbatim:
        why = "a record of what was done" if state["task"]["memory_type"] == PROCEDURAL else "stored as said"
        kept = [ResolvedDecision(place, "ADD", fact.text, why) for place, fact in enumerate(facts)]
        return _finish(state, facts, kept, usage)
    if state["work"]["compared"] == _digest(state):  # back from a conflict that touched nothing shown
        return finish_stage(state, "decide", decisions=len(state["decisions"]))
    if len(state["candidates"].get("equal", ())) < len(facts):  # the state was changed from outside
        raise InvalidInputError("not all facts were compared with memories; go on with retrieve")
    replaced = _replaced_facts(facts, state["turns"])
    resolved, unsettled = _settle(facts, replaced, state["candidates"], ask_always=not reasoner.calls_model)
    unsettled.sort(key=lambda place: _time_of(facts[place], state["turns"]))
    most = AT_ONCE if reasoner.calls_model else max(1, len(unsettled))
    for start in range(0, len(unsettled), most):
        now, candidates = unsettled[start : start + most], _candidates(state, facts, resolved)
        answers = yield Ask(reasoner.decide, [_comparison(state, facts, now, candidates, graph=graph)])
        answer: DecideOutput = answers[0]
        decisions = [
            (replace(each, fact=now[each.fact]), None if each.number is None else candidates[each.number])
            for each in answer.decisions
        ]
        for decision, memory in _permitted(facts, decisions):
            _fold(resolved, decision, memory)
        usage += answer.usage
        notes += answer.notes
    before = state["work"].get("notes") or [[]]  # a note on a decision concerns every conversation of the run
    work: Work = {**state["work"], "notes": [[*own, *notes] for own in before]}
    return _resolve({**state, "work": work}, facts, resolved, usage)


def _settle(
    facts: Sequence[Fact], replaced: Mapping[int, int], candidates: Mapping[str, Any], *, ask_always: bool
) -> tuple[list[ResolvedDecision], list[int]]:
    """Decisions that need no judgement, and the places of the facts that do."""
    settled = [
        ResolvedDecision(place, "ADD", facts[place].text, _LATER, after=after) for place, after in replaced.items()
    ]
    unsettled: list[int] = []
    first: dict[tuple[str, str], int] = {}
    for place, fact in enumerate(facts):
        if place in replaced:
            continue
        words = (entity_key(fact.speaker), text_hash(fact.text))
        wish, same = fact.text.startswith(FORGET), candidates["equal"][place]
        equal = next((n for n in same if _same_speaker(fact, candidates["known"][n]["speaker"])), None)
        if wish and equal is not None and equal >= candidates["shown"] and words not in first:
            settled.append(ResolvedDecision(place, "DELETE", fact.text, "asked to forget it", equal))
        elif equal is not None and not wish:
            settled.append(ResolvedDecision(place, "NONE", fact.text, "already known, in the same words", equal))
        elif words in first:
            settled.append(ResolvedDecision(place, "NONE", fact.text, "said twice", after=first[words]))
        elif fact.is_quotation and not ask_always:
            settled.append(ResolvedDecision(place, "ADD", fact.text, "kept in the speaker's words"))
        else:
            unsettled.append(place)
        first.setdefault(words, place)
    if ask_always or candidates["shown"]:
        return settled, unsettled
    new = (ResolvedDecision(place, "ADD", facts[place].text, "nothing is known yet") for place in unsettled)
    return [*settled, *new], []


# ── statements with dates ───────────────────────────────────────────────────────────────────────────────────────────────


def _replaced_facts(facts: Sequence[Fact], turns: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    """The dated facts of which a later one of the same run names another value, each with the place of the latest such fact."""
    latest: dict[tuple[str, str, str], int] = {}
    about: dict[int, tuple[str, str, str]] = {}
    for place, fact in enumerate(facts):
        attribute = None if fact.unattributed or fact.text.startswith(FORGET) else single_valued(fact.text)
        if attribute is None:
            continue
        about[place] = key = (entity_key(fact.speaker), *attribute)
        if key not in latest or _time_of(fact, turns) >= _time_of(facts[latest[key]], turns):
            latest[key] = place
    dates = {place: _date_of(facts[place], turns) for place in about}
    return {
        place: latest[key]
        for place, key in about.items()
        if (date := dates[place]) is not None and date < _time_of(facts[latest[key]], turns)
    }


def _order_by_date(
    decisions: Sequence[ResolvedDecision],
    facts: Sequence[Fact],
    turns: Sequence[Mapping[str, Any]],
    memories: Sequence[Mapping[str, Any]],
) -> list[ResolvedDecision]:
    """Decisions, in the order of the facts, that change nothing which was said after their fact."""
    named = {decision.memory for decision in decisions if decision.memory is not None}
    since = {number: parse_time(memories[number]["since"], "since") for number in named}  # last dates
    for decision in decisions:
        date = _date_of(facts[decision.fact], turns)
        if decision.event == "NONE" and decision.memory is not None and date is not None:
            since[decision.memory] = max(since[decision.memory], date)
    ordered: list[ResolvedDecision] = []
    for place, of_fact in groupby(decisions, key=attrgetter("fact")):
        date, own = _date_of(facts[place], turns), list(of_fact)
        changed = {decision.memory for decision in own if decision.event in {"UPDATE", "DELETE"}}
        later = {memory for memory in changed if memory is not None and date is not None and date < since[memory]}
        ordered += _decide_late(own, facts[place], later) if later else own
    return ordered


def _decide_late(decisions: Sequence[ResolvedDecision], fact: Fact, later: set[int]) -> Iterator[ResolvedDecision]:
    """What becomes of a fact where memories were said later."""
    first = next(decision for decision in decisions if decision.memory in later)
    plain = replace(first, event="ADD", text=fact.text, reason=_LATER, relations=None)
    if fact.text.startswith(FORGET):
        yield replace(first, event="NONE", text=fact.text, reason=UNCLEAR, memory=None)
    elif all(decision.event not in {"ADD", "UPDATE"} for decision in decisions):
        yield from (replace(decision, reason=_LATER, past=decision.memory in later) for decision in decisions)
    elif first.event == "UPDATE" and read(fact.text).attribute in ATTRIBUTES["MANY"]:
        yield replace(plain, memory=None, reason="both can be true")
    else:
        for decision in decisions:
            if decision.memory is not None and decision.memory not in later and decision.event != "NONE":
                yield replace(decision, event="DELETE", relations=None)
        yield replace(plain, past=True)


def _time_of(fact: Fact, turns: Sequence[Mapping[str, Any]]) -> datetime:
    return datetime.fromisoformat(turns[fact.turn]["time"])


def _date_of(fact: Fact, turns: Sequence[Mapping[str, Any]]) -> datetime | None:
    return _time_of(fact, turns) if turns[fact.turn].get("dated") else None


# ── the reasoner, fifty facts at a time ─────────────────────────────────────────────────────────────────────────────────


class _Candidate(NamedTuple):
    """A memory as the reasoner sees it: one that is stored, or one that an earlier fact of the run adds."""

    text: str
    speaker: str
    date: str
    memory: int | None = None
    added: ResolvedDecision | None = None
    cut: bool = False


def _candidates(state: PipelineState, facts: Sequence[Fact], resolved: Sequence[ResolvedDecision]) -> list[_Candidate]:
    """The memories as the decisions so far leave them: those that are to be, too, and none that is to go."""
    candidates = state["candidates"]
    changed = {decision.memory: decision for decision in resolved if decision.event in {"UPDATE", "DELETE"}}
    memories: list[_Candidate] = []
    for number, memory in enumerate(candidates["known"][: candidates["shown"]]):
        if number not in changed or changed[number].event == "UPDATE":
            text = memory["text"] if number not in changed else changed[number].text
            memories.append(_Candidate(text, memory["speaker"], memory["since"][:10], number, cut=memory["cut"]))
    for each in resolved:
        if each.event == "ADD" and each.after is None:
            fact = facts[each.fact]
            memories.append(_Candidate(each.text, fact.speaker, state["turns"][fact.turn]["time"][:10], added=each))
    return memories


def _comparison(
    state: PipelineState, facts: Sequence[Fact], now: Sequence[int], candidates: Sequence[_Candidate], *, graph: bool
) -> Comparison:
    days = [state["turns"][facts[place].turn]["time"][:10] for place in now]
    dated = len({*days, *(memory.date for memory in candidates)}) > 1  # one day for all says nothing, and costs tokens
    alike = state["candidates"].get("alike", ())  # the memories that embeddings take for the same statement
    return Comparison(
        facts=tuple(
            replace(facts[place], date=facts[place].date or day) if dated else facts[place]
            for place, day in zip(now, days, strict=True)
        ),
        memories=tuple(
            KnownMemory(number, memory.text, memory.speaker, memory.date if dated else "")
            for number, memory in enumerate(candidates)
        ),
        graph=graph,
        alike=frozenset(
            (number, place)
            for number, fact in enumerate(now)
            for place, memory in enumerate(candidates)
            if fact < len(alike) and memory.memory is not None and memory.memory in alike[fact]
        ),
    )


def _fold(resolved: list[ResolvedDecision], decision: FactDecision, memory: _Candidate | None) -> None:
    """Put a decision with those before it, so that no memory is changed twice and none is added to be changed."""
    place = memory and memory.memory
    new = ResolvedDecision(decision.fact, decision.event, decision.text, decision.reason, place, decision.relations)
    if memory is None or decision.event == "NONE":
        resolved.append(new)
        return
    event: Event = "ADD" if decision.event == "UPDATE" else "NONE"
    why = "taken back later in the same add" if event == "NONE" else "said more fully later in the same add"
    folded = {
        each.fact for each in resolved if each is memory.added or (each.event == "UPDATE" and each.memory == place)
    }
    for number, before in enumerate(resolved):
        if before.after in folded or (before.fact in folded and before.event in {"ADD", "UPDATE"}):
            after = decision.fact if event == "ADD" else before.after
            resolved[number] = replace(before, event=event, reason=why, memory=None, relations=None, after=after)
    resolved.append(new if memory.added is None else replace(new, event=event))


def _permitted(
    facts: Sequence[Fact], decisions: Sequence[tuple[FactDecision, _Candidate | None]]
) -> list[tuple[FactDecision, _Candidate | None]]:
    """Decisions without those on memories that stay as they are, whatever is judged: their facts are added instead."""
    judged = [
        (d, memory, "" if memory is None else _refusal(facts[d.fact], d.event, memory)) for d, memory in decisions
    ]
    unwritten = {d.number: why for d, _, why in judged if why and d.event == "UPDATE"}
    judged = [(d, m, why or (unwritten.get(d.number, "") if d.event == "NONE" else "")) for d, m, why in judged]
    kept = [(d, memory) for d, memory, why in judged if not why]
    answered = {d.fact for d, _ in kept if d.event != "DELETE"}
    lost = {d.fact: why for d, _, why in reversed(judged) if why and d.fact not in answered}
    return kept + [(FactDecision("ADD", facts[place].text, reason, place), None) for place, reason in lost.items()]


def _refusal(fact: Fact, event: Event, memory: _Candidate) -> str:
    """Why a memory is not touched; blank where it may be."""
    if not _same_speaker(fact, memory.speaker):
        fact_of, memory_of = (name or "an unnamed speaker" for name in (fact.speaker, memory.speaker))
        return f"a fact of {fact_of} does not change a memory of {memory_of}"
    if fact.unattributed and event in {"UPDATE", "DELETE"}:
        return "several people speak, and the speaker of this fact is unknown"
    return "the memory is too long for the prompt, so it stays" if event == "UPDATE" and memory.cut else ""


def _same_speaker(fact: Fact, speaker: str) -> bool:
    return entity_key(fact.speaker) == entity_key(speaker)


# ── decisions for the ledger ────────────────────────────────────────────────────────────────────────────────────────────


def _resolve(
    state: PipelineState, facts: Sequence[Fact], decisions: Sequence[ResolvedDecision], usage: Usage
) -> StateEdit:
    """What asks to forget something never becomes a memory, and names the texts it may mean; dates have the last word."""
    resolved: list[ResolvedDecision] = []
    for decision in sorted(decisions, key=attrgetter("fact")):
        text = facts[decision.fact].text
        if decision.event != "DELETE" and text.startswith(FORGET):
            texts = state["candidates"].get("holding", {}).get(str(decision.fact), ())
            quoted = ", ".join(f"“{each[:_QUOTED]}”" for each in texts)
            reason = decision.reason if decision.event == "NONE" else UNCLEAR
            reason += f"; kept texts with these words: {quoted}" if quoted else ""
            resolved.append(ResolvedDecision(decision.fact, "NONE", text, reason))
        else:
            resolved.append(decision)
    return _finish(state, facts, _order_by_date(resolved, facts, state["turns"], state["candidates"]["known"]), usage)


def _finish(
    state: PipelineState, facts: Sequence[Fact], decisions: Sequence[ResolvedDecision], usage: Usage
) -> StateEdit:
    counts = Counter(fact.turn for fact in facts)
    made = [
        _decision(state, facts[each.fact], each, alone=counts[facts[each.fact].turn] == 1).to_json()
        for each in decisions
    ]
    changed: Work = {"usage": usage.to_json(), "compared": _digest(state)}
    work = finish_stage(state, "decide", changed, decisions=len(made))
    return {"decisions": made, **work}


def _decision(state: PipelineState, fact: Fact, decision: ResolvedDecision, *, alone: bool) -> Decision:
    turn = Turn.from_json(state["turns"][fact.turn])
    target = None if decision.memory is None else state["candidates"]["known"][decision.memory]
    past = target["id"] if target and decision.past else None
    source: dict[str, Any] = {}
    if decision.event in {"ADD", "UPDATE"}:
        item = state["task"]["items"][turn.item]
        expires_at = item.get("expires_at")
        source = {
            "context": _context(fact, state["turns"], alone=alone),
            "metadata": item.get("metadata"),
            "memory_type": state["task"]["memory_type"],
            "actor_id": turn.role if fact.unattributed else turn.actor,
            "role": turn.role,
            "expires_at": None if expires_at is None else parse_time(expires_at, "expires_at"),
            "keep_expiry": expires_at is None,
        }
    return Decision(
        event=decision.event,
        memory_id=target["id"] if target and not (past and decision.event == "ADD") else None,
        text=decision.text,
        reason=decision.reason,
        fact=decision.fact,
        time=turn.time,
        seen=target["seq"] if target else None,
        relations=name_speaker(_relations(decision, fact, turn.time), fact.speaker, turn.role),
        past_of=past,
        after=decision.after,
        dated=turn.dated,
        source=turn.id or None,
        is_verbatim=fact.is_quotation and decision.event == "ADD",
        **source,
    )


def _relations(decision: ResolvedDecision, fact: Fact, time: datetime) -> tuple[Triple, ...]:
    """The relations of the memory; a deleted one states at most ended ones. What begins or ends today in UTC does so by now."""
    relations: list[Triple] = []
    for triple in fact.relations if decision.relations is None else decision.relations:
        ends = {"valid_from": triple.valid_from, "valid_to": triple.valid_to}
        today: dict[str, Any] = {
            name: time for name, day in ends.items() if day is not None and day > time and day.date() == time.date()
        }
        if decision.event != "DELETE" or triple.ended:
            relations.append(replace(triple, **today) if len(today) == 1 else triple)
    return tuple(relations)


def _context(fact: Fact, turns: Sequence[Mapping[str, Any]], *, alone: bool) -> str:
    """The context of a fact, nearest first: the turn that it *alone* came from, and those right before it.

    An answer rarely repeats the words of its question: kept beside the memory, they are more words to find it by (LoCoMo's
    evidence task, recall@10 0.60 to 0.69). The words of a turn with several facts belong to one of them each.
    """
    own = turns[fact.turn]
    texts = [fact.context] if alone and fact.context and not fact.verbatim else []
    before = reversed(turns[max(0, fact.turn - _BEFORE) : fact.turn])
    texts += (turn["text"] for turn in before if turn["item"] == own["item"] and turn["role"] != "system")
    return join_context(text[:_LONGEST] for text in texts[:_BEFORE])


def _digest(state: PipelineState) -> str:
    candidates = {name: part for name, part in state.get("candidates", {}).items() if name != "seen"}
    return blake2b(json.dumps(candidates, sort_keys=True).encode(), digest_size=16).hexdigest() if candidates else ""
