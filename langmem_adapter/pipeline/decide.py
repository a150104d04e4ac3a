"""Decide: facts and neighbouring memories become decisions.

The dates of the turns decide, where they were given, and no reasoner does: of statements with the same date, and of those
without one, the one told later wins. So dated statements may be told in any order, in one add or in many.

What needs no judgement is decided here: verbatim turns are added, the same words twice are NONE, and where nothing is known a
fact is added. The rest goes to the reasoner, which sees memories as numbers; only numbers it was shown can come back as ids.

Who speaks is settled here, whatever the reasoner: what a named speaker says of himself is said of him and not of the scope's
user, and his statement neither changes nor ends, nor is it taken for, what somebody else said. Who is named is
`names.named_speaker`'s to say; all who are not are one, the scope's own. Nor is a memory rewritten that was not shown whole.
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
from langmem_adapter.pipeline.state import Ask, StateEdit, finished, said, thinking
from langmem_adapter.reasoning.base import Comparison, DecideOutput, FactDecision, KnownMemory, Reasoner
from langmem_adapter.records.results import FORGET, PROCEDURAL, UNCLEAR, Decision, Event, Fact, Turn, Usage
from langmem_adapter.statements.reader import read, single_valued
from langmem_adapter.statements.tables import MANY
from langmem_adapter.storage.lexical import join_context
from langmem_adapter.text import text_hash

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from langmem_adapter.pipeline.state import PipelineState, Planner, Work
    from langmem_adapter.records.graph import Triple

SAID_LATER: Final = "what was said later stands"


@dataclass(frozen=True, slots=True)
class Placed:
    """A verdict whose fact and memory are places in the state, not in what the reasoner was shown."""

    fact: int  # place of the fact
    event: Event
    text: str  # the text to keep, or the fact's
    reason: str
    known: int | None = None  # place of the memory concerned
    relations: tuple[Triple, ...] | None = None  # what the text says of relations, where that is not what the fact says
    past: bool = False  # the memory stays; the statement was true before it
    after: int | None = None  # place of the later fact, of which the current memory comes


def older(facts: Sequence[Fact], turns: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    """The facts that another fact of the same run has replaced, each with the place of the latest such fact.

    These are dated statements of one speaker about one attribute that has one value at a time: which of them stands needs
    no judgement.
    """
    latest: dict[tuple[str, str, str], int] = {}
    about = {place: key for place, fact in enumerate(facts) if (key := _about(fact)) is not None}
    for place, key in about.items():
        if key not in latest or time_of(facts[place], turns) >= time_of(facts[latest[key]], turns):
            latest[key] = place
    return {
        place: latest[key]
        for place, key in about.items()
        if turns[facts[place].turn].get("dated") and time_of(facts[place], turns) < time_of(facts[latest[key]], turns)
    }


def _about(fact: Fact) -> tuple[str, str, str] | None:
    told = None if fact.unattributed or fact.text.startswith(FORGET) else single_valued(fact.text)
    return told and (entity_key(fact.speaker), *told)


def in_course(
    verdicts: Sequence[Placed],
    facts: Sequence[Fact],
    turns: Sequence[Mapping[str, Any]],
    known: Sequence[Mapping[str, Any]],
) -> list[Placed]:
    """Verdicts, in the order of the facts, that change nothing which was said after their fact."""
    told: list[Placed] = []
    since = _since(verdicts, facts, turns, known)
    for place, of_fact in groupby(verdicts, key=attrgetter("fact")):
        date, own = _date_of(facts[place], turns), list(of_fact)
        named = {verdict.known for verdict in own if verdict.event in {"UPDATE", "DELETE"}}
        late = {known for known in named if known is not None and date is not None and date < since[known]}
        told += _told_late(own, facts[place], late) if late else own
    return told


def _since(
    verdicts: Sequence[Placed],
    facts: Sequence[Fact],
    turns: Sequence[Mapping[str, Any]],
    known: Sequence[Mapping[str, Any]],
) -> dict[int, datetime]:
    """The last dates of the memories that verdicts name: of what is known, or of who says the same in this run."""
    named = {verdict.known for verdict in verdicts if verdict.known is not None}
    since = {number: parse_time(known[number]["since"], "since") for number in named}
    for verdict in verdicts:
        date = _date_of(facts[verdict.fact], turns)
        if verdict.event == "NONE" and verdict.known is not None and date is not None:
            since[verdict.known] = max(since[verdict.known], date)
    return since


def _told_late(verdicts: Sequence[Placed], fact: Fact, late: set[int]) -> Iterator[Placed]:
    """What becomes of a fact beside memories that were said later."""
    stands = next(verdict for verdict in verdicts if verdict.known in late)
    states = next((verdict for verdict in verdicts if verdict.event in {"ADD", "UPDATE"}), None)
    plain = replace(stands, event="ADD", text=fact.text, reason=SAID_LATER, relations=None)
    if fact.text.startswith(FORGET):
        yield replace(stands, event="NONE", text=fact.text, reason=UNCLEAR, known=None)
    elif states is None:
        yield from (replace(verdict, reason=SAID_LATER, past=verdict.known in late) for verdict in verdicts)
    elif stands.event == "UPDATE" and read(fact.text).attribute in MANY:
        yield replace(plain, known=None, reason="both can be true")
    else:
        before = (verdict for verdict in verdicts if verdict.known is not None and verdict.known not in late)
        yield from (replace(verdict, event="DELETE", relations=None) for verdict in before if verdict.event != "NONE")
        yield replace(plain, past=True)


def time_of(fact: Fact, turns: Sequence[Mapping[str, Any]]) -> datetime:
    """When a fact was said."""
    return datetime.fromisoformat(turns[fact.turn]["time"])


def _date_of(fact: Fact, turns: Sequence[Mapping[str, Any]]) -> datetime | None:
    return time_of(fact, turns) if turns[fact.turn].get("dated") else None


_BEFORE: Final = 2
_SHOWN: Final = 80  # letters of a text that is named in a reason
_LONGEST: Final = 2_000  # letters of each: every memory of a turn keeps its own copy
AT_ONCE: Final = 50
"""Facts that a chat model is asked about in one call; what becomes of them is known to the next."""


def decide_stage(reasoner: Reasoner, *, graph: bool) -> Planner:
    """The fourth stage: `facts` and `candidates` to `decisions`; with *graph*, rewritten texts tell their relations."""
    return thinking(partial(_decide, reasoner, graph))


def _decide(reasoner: Reasoner, graph: bool, state: PipelineState) -> StateEdit | Ask:  # noqa: FBT001 - a setting
    facts = [said(state, place) for place in range(len(state["facts"]))]
    if not facts or facts[0].verbatim:
        why = "a record of what was done" if state["task"]["memory_type"] == PROCEDURAL else "stored as said"
        return _told(state, facts, [Placed(place, "ADD", fact.text, why) for place, fact in enumerate(facts)])
    if state["work"]["compared"] == _compared(state):  # back from a conflict that touched nothing shown
        return finished(state, "decide", decisions=len(state["decisions"]))
    if len(state["candidates"].get("equal", ())) < len(facts):  # somebody changed the state
        raise InvalidInputError("not all facts were compared with what is known; go on with retrieve")
    past = older(facts, state["turns"])
    settled, open_facts = _settle(facts, past, state["candidates"], ask_always=not reasoner.calls_model)
    open_facts.sort(key=lambda place: time_of(facts[place], state["turns"]))
    if not open_facts:
        return _decisions(state, facts, settled)
    most = AT_ONCE if reasoner.calls_model else len(open_facts)
    return _ask(_Round(reasoner, graph, state, facts, settled, open_facts, most))


def _settle(
    facts: Sequence[Fact], past: Mapping[int, int], candidates: Mapping[str, Any], *, ask_always: bool
) -> tuple[list[Placed], list[int]]:
    """Verdicts that need no judgement, and the places of the facts that do."""
    settled = [Placed(place, "ADD", facts[place].text, SAID_LATER, after=after) for place, after in past.items()]
    unsettled: list[int] = []
    told: dict[tuple[str, str], int] = {}
    for place, fact in enumerate(facts):
        if place in past:
            continue
        words = (entity_key(fact.speaker), text_hash(fact.text))
        wish, same = fact.text.startswith(FORGET), candidates["equal"][place]
        equal = next((n for n in same if _are_one(fact, candidates["known"][n]["speaker"])), None)
        if wish and equal is not None and equal >= candidates["shown"] and words not in told:
            settled.append(Placed(place, "DELETE", fact.text, "asked to forget it", equal))
        elif equal is not None and not wish:
            settled.append(Placed(place, "NONE", fact.text, "already known, in the same words", equal))
        elif words in told:
            settled.append(Placed(place, "NONE", fact.text, "said twice", after=told[words]))
        elif fact.is_quotation and not ask_always:
            settled.append(Placed(place, "ADD", fact.text, "kept in the speaker's words"))
        else:
            unsettled.append(place)
        told.setdefault(words, place)
    if ask_always or candidates["shown"]:
        return settled, unsettled
    return [*settled, *(Placed(place, "ADD", facts[place].text, "nothing is known yet") for place in unsettled)], []


# ── fifty facts at a time ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Round:
    """Facts that are still to be judged, and what became of those before them."""

    reasoner: Reasoner
    graph: bool
    state: PipelineState
    facts: Sequence[Fact]
    placed: list[Placed]  # what became of facts so far
    open: Sequence[int]  # places of the others
    most: int  # how many of them are judged at once
    usage: Usage = Usage()  # of the answers so far
    notes: tuple[str, ...] = ()

    def shown(self) -> list[_Shown]:
        """The memories as the verdicts so far leave them: those that are to be, too, and none that is to go."""
        candidates = self.state["candidates"]
        changed = {verdict.known: verdict for verdict in self.placed if verdict.event in {"UPDATE", "DELETE"}}
        stored = [
            _Shown(
                memory["text"] if number not in changed else changed[number].text,
                memory["speaker"],
                memory["since"][:10],
                number,
                cut=memory["cut"],
            )
            for number, memory in enumerate(candidates["known"][: candidates["shown"]])
            if number not in changed or changed[number].event == "UPDATE"
        ]
        added = [verdict for verdict in self.placed if verdict.event == "ADD" and verdict.after is None]
        return stored + [_Shown(v.text, self.facts[v.fact].speaker, self.day(v.fact), added=v) for v in added]

    def day(self, place: int) -> str:
        """When a fact was said."""
        day: str = self.state["turns"][self.facts[place].turn]["time"][:10]
        return day

    def dated(self, place: int) -> Fact:
        """A fact with the day that it speaks of, or else that on which it was said."""
        fact = self.facts[place]
        return replace(fact, date=fact.date or self.day(place))


class _Shown(NamedTuple):
    """A memory as it is shown: one that is stored, or one that an earlier fact of the run adds."""

    text: str
    speaker: str
    date: str
    known: int | None = None
    added: Placed | None = None
    cut: bool = False


def _ask(at: _Round) -> Ask:
    shown, now = at.shown(), at.open[: at.most]
    days = {memory.date for memory in shown} | {at.day(place) for place in now}
    told = len(days) > 1  # one day for all says nothing, and costs as many tokens as the texts
    comparison = Comparison(
        facts=tuple(at.dated(place) if told else at.facts[place] for place in now),
        memories=tuple(
            KnownMemory(number, memory.text, memory.speaker, memory.date if told else "")
            for number, memory in enumerate(shown)
        ),
        graph=at.graph,
        alike=frozenset(
            (number, place)
            for number, fact in enumerate(now)
            for place, memory in enumerate(shown)
            if memory.known is not None and memory.known in _alike(at.state, fact)
        ),
    )
    return Ask(at.reasoner.decide, [comparison], partial(_judged, at, shown))


def _alike(state: PipelineState, fact: int) -> Sequence[int]:
    """The memories that embeddings take for the same statement as a fact."""
    alike: Sequence[Sequence[int]] = state["candidates"].get("alike", ())
    return alike[fact] if fact < len(alike) else ()


def _judged(at: _Round, shown: Sequence[_Shown], answers: Sequence[DecideOutput]) -> StateEdit | Ask:
    (answer,) = answers
    verdicts = [
        (replace(v, fact=at.open[v.fact]), None if v.number is None else shown[v.number]) for v in answer.decisions
    ]
    placed = list(at.placed)
    for verdict, memory in _grounded(at.facts, verdicts):
        _fold(placed, verdict, memory)
    at = replace(
        at, placed=placed, open=at.open[at.most :], usage=at.usage + answer.usage, notes=(*at.notes, *answer.notes)
    )
    if at.open:
        return _ask(at)
    usage = Usage.from_json(at.state["work"]["usage"]) + at.usage
    return _decisions(_noted(at.state, at.notes), at.facts, placed, usage)


def _noted(state: PipelineState, notes: Sequence[str]) -> PipelineState:
    """The state with notes on a decision, which concerns every conversation of the run."""
    before = state["work"].get("notes") or [[]]
    work: Work = {**state["work"], "notes": [[*own, *notes] for own in before]}
    return {**state, "work": work}


def _fold(placed: list[Placed], verdict: FactDecision, memory: _Shown | None) -> None:
    """Put a verdict with those before it, so that no memory is changed twice and none is added to be changed."""
    new = Placed(verdict.fact, verdict.event, verdict.text, verdict.reason, memory and memory.known, verdict.relations)
    if memory is None or verdict.event == "NONE":
        placed.append(new)
        return
    why = "taken back later in the same add" if verdict.event == "DELETE" else "said more fully later in the same add"
    after = {"event": "ADD", "after": verdict.fact} if verdict.event == "UPDATE" else {"event": "NONE"}
    folded = {v.fact for v in placed if v is memory.added or (v.event == "UPDATE" and v.known == memory.known)}
    for place, before in enumerate(placed):
        if before.after in folded or (before.fact in folded and before.event in {"ADD", "UPDATE"}):
            placed[place] = replace(before, reason=why, known=None, relations=None, **after)
    if memory.added is None:
        placed.append(new)
    else:
        event: Event = "ADD" if verdict.event == "UPDATE" else "NONE"
        placed.append(replace(new, event=event))


def _grounded(
    facts: Sequence[Fact], verdicts: Sequence[tuple[FactDecision, _Shown | None]]
) -> list[tuple[FactDecision, _Shown | None]]:
    """Verdicts without those on memories that stay as they are, whatever is judged: the facts are added in their place."""
    judged = [(v, memory, "" if memory is None else _stays(facts[v.fact], v.event, memory)) for v, memory in verdicts]
    unwritten = {v.number: why for v, _, why in judged if why and v.event == "UPDATE"}
    judged = [(v, m, why or (unwritten.get(v.number, "") if v.event == "NONE" else "")) for v, m, why in judged]
    kept = [(v, memory) for v, memory, why in judged if not why]
    told = {v.fact for v, _ in kept if v.event != "DELETE"}
    lost = {v.fact: why for v, _, why in reversed(judged) if why and v.fact not in told}
    return kept + [(FactDecision("ADD", facts[place].text, reason, place), None) for place, reason in lost.items()]


def _stays(fact: Fact, event: Event, memory: _Shown) -> str:
    """Why a memory is not touched; blank where it may be."""
    if not _are_one(fact, memory.speaker):
        return f"{_whose(fact.speaker)}; {_whose(memory.speaker)} stays"
    if fact.unattributed and event in {"UPDATE", "DELETE"}:
        return "several people speak, and which of them said it is not known"
    return "a memory too long to be shown whole stays" if event == "UPDATE" and memory.cut else ""


def _are_one(fact: Fact, speaker: str) -> bool:
    return entity_key(fact.speaker) == entity_key(speaker)


def _whose(speaker: str) -> str:
    return f"what {speaker} said" if speaker else "what was said without a name"


def _decisions(
    state: PipelineState, facts: Sequence[Fact], verdicts: Sequence[Placed], usage: Usage | None = None
) -> StateEdit:
    holding = state["candidates"].get("holding", {})
    granted = sorted((_granted(verdict, facts, holding) for verdict in verdicts), key=lambda verdict: verdict.fact)
    return _told(state, facts, in_course(granted, facts, state["turns"], state["candidates"]["known"]), usage)


def _granted(verdict: Placed, facts: Sequence[Fact], holding: Mapping[str, Sequence[str]]) -> Placed:
    """A verdict as it may stand: what asks to forget something never becomes a memory, and names the texts it may mean."""
    text = facts[verdict.fact].text
    if verdict.event == "DELETE" or not text.startswith(FORGET):
        return verdict
    quoted = ", ".join(f"“{each[:_SHOWN]}”" for each in holding.get(str(verdict.fact), ()))
    named = f"; kept texts with these words: {quoted}" if quoted else ""
    return Placed(verdict.fact, "NONE", text, f"{UNCLEAR if verdict.event != 'NONE' else verdict.reason}{named}")


def _told(
    state: PipelineState, facts: Sequence[Fact], verdicts: Sequence[Placed], usage: Usage | None = None
) -> StateEdit:
    told = Counter(fact.turn for fact in facts)
    named = [(facts[verdict.fact], verdict) for verdict in verdicts]
    made = [_decision(state, fact, verdict, alone=told[fact.turn] == 1) for fact, verdict in named]
    spent = state["work"]["usage"] if usage is None else usage.to_json()
    work = finished(state, "decide", {"usage": spent, "compared": _compared(state)}, decisions=len(made))
    return {"decisions": [decision.to_json() for decision in made], **work}


def _decision(state: PipelineState, fact: Fact, verdict: Placed, *, alone: bool) -> Decision:
    turn = Turn.from_json(state["turns"][fact.turn])
    target = None if verdict.known is None else state["candidates"]["known"][verdict.known]
    past = target["id"] if target and verdict.past else None
    source = _source(fact, turn, state, alone=alone) if verdict.event in {"ADD", "UPDATE"} else {}
    return Decision(
        event=verdict.event,
        memory_id=target["id"] if target and not (past and verdict.event == "ADD") else None,
        text=verdict.text,
        reason=verdict.reason,
        fact=verdict.fact,
        time=turn.time,
        seen=target["seq"] if target else None,
        relations=name_speaker(_stated(verdict, fact, turn.time), fact.speaker, turn.role),
        past_of=past,
        after=verdict.after,
        dated=turn.dated,
        source=turn.id or None,
        is_verbatim=fact.is_quotation and verdict.event == "ADD",
        **source,
    )


def _stated(verdict: Placed, fact: Fact, time: datetime) -> tuple[Triple, ...]:
    """What the memory says of relations that is to be; a memory that goes says at most what is over."""
    stated = fact.relations if verdict.relations is None else verdict.relations
    stated = tuple(_started(triple, time) for triple in stated)
    return tuple(triple for triple in stated if triple.ended) if verdict.event == "DELETE" else stated


def _started(triple: Triple, time: datetime) -> Triple:
    """A relation that begins or ends today does so by now: dates are days in UTC, which may begin after the speaker's."""
    ends = {"valid_from": triple.valid_from, "valid_to": triple.valid_to}
    today: dict[str, Any] = {
        name: time for name, day in ends.items() if day is not None and day > time and day.date() == time.date()
    }
    return replace(triple, **today) if len(today) == 1 else triple


def _source(fact: Fact, turn: Turn, state: PipelineState, *, alone: bool) -> dict[str, Any]:
    item = state["task"]["items"][turn.item]
    expires_at = item.get("expires_at")
    return {
        "context": _around(fact, state["turns"], alone=alone),
        "metadata": item.get("metadata"),
        "memory_type": state["task"]["memory_type"],
        "actor_id": turn.role if fact.unattributed else turn.actor,
        "role": turn.role,
        "expires_at": None if expires_at is None else parse_time(expires_at, "expires_at"),
        "keep_expiry": expires_at is None,
    }


def _around(fact: Fact, turns: Sequence[Mapping[str, Any]], *, alone: bool) -> str:
    """What stands around a fact, nearest first: the turn that it *alone* came from, and those right before it.

    An answer rarely repeats the words of its question ("Where did you go?", "To Lyon."): kept beside the memory, they are more
    words to find it by. On LoCoMo's evidence task this is the largest single gain of all (recall@10 .60 to .69). Where a turn
    tells several facts, its words belong to one of them each: whoever asks for one shall not find the other.
    """
    own = turns[fact.turn]
    told = [fact.context] if alone and fact.context and not fact.verbatim else []
    before = reversed(turns[max(0, fact.turn - _BEFORE) : fact.turn])
    told += (turn["text"] for turn in before if turn["item"] == own["item"] and turn["role"] != "system")
    return join_context(text[:_LONGEST] for text in told[:_BEFORE])


def _compared(state: PipelineState) -> str:
    known = {name: part for name, part in state.get("candidates", {}).items() if name != "seen"}
    return blake2b(json.dumps(known, sort_keys=True).encode(), digest_size=16).hexdigest() if known else ""
