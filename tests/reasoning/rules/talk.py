"""What the rules find in the conversations of public data sets, turn by turn, in an order that no rule can choose."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from langmem_adapter.evaluation.conversations import read_conversations
from langmem_adapter.memory.memory import Memory
from langmem_adapter.reasoning.base import ExtractInput
from langmem_adapter.reasoning.rules.reasoner import RuleReasoner
from langmem_adapter.records.work import Turn
from langmem_adapter.settings import Settings
from tests.beside import DATA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langmem_adapter.evaluation.conversations import Session

__all__ = ["SOURCES", "Found", "Overwrite", "Talk", "digest", "found", "overwrites", "talks"]

SOURCES: Final = ("locomo-dev", "memorybank-en", "memorybank-zh")


@dataclass(frozen=True, slots=True)
class Talk:
    """One session: the ids of its turns, and what was said."""

    whose: str
    ids: tuple[str, ...]
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """A fact, and the turn it was found in."""

    source: str
    turn: str
    text: str


@dataclass(frozen=True, slots=True)
class Overwrite:
    """A memory that a later session changed or took away."""

    source: str
    turn: str
    event: str
    before: str
    after: str


def digest(text: str) -> str:
    """A short name for a text, which does not tell it."""
    return sha256(text.encode()).hexdigest()[:16]


def talks(source: str) -> list[Talk]:
    """The sessions of a data set, in order; a LoCoMo speaker is a named user."""
    return [
        Talk(whose.id, tuple(f"{whose.id} {turn.id}" for turn in session.turns), tuple(_turns(session)))
        for whose in read_conversations(DATA / f"{source}.json")
        for session in whose.sessions
    ]


def _turns(session: Session) -> Iterator[Turn]:
    time = session.time or datetime(2023, 5, 1, tzinfo=UTC)
    return (Turn(turn.role, turn.text, turn.speaker or turn.role, time) for turn in session.turns)


def found(source: str) -> list[Found]:
    """All facts of a data set: turns in the order of a hash of their ids, the facts of a turn in the order of its words."""
    facts = (fact for talk in talks(source) for fact in _of(source, talk))
    return sorted(facts, key=lambda fact: sha256(f"{source} {fact.turn}".encode()).digest())


def _of(source: str, talk: Talk) -> Iterator[Found]:
    asked = ExtractInput(talk.turns, "user", talk.turns[-1].time.date())
    for fact in RuleReasoner().extract.invoke(asked).facts:
        yield Found(source, talk.ids[fact.turn], fact.text)


def overwrites(source: str) -> Iterator[Overwrite]:
    """Every UPDATE and DELETE when the sessions of a data set are added in order, one scope per conversation."""
    with Memory(":memory:", settings=Settings(trace_days=0)) as memory:
        for talk in talks(source):
            time = talk.turns[0].time
            for change in memory.add(
                [_message(turn) for turn in talk.turns], user_id=talk.whose, timestamp=time
            ).results:
                if change.event in {"UPDATE", "DELETE"}:
                    before = change.previous_text or change.text
                    yield Overwrite(source, f"{talk.whose} {time.date()}", change.event, before, change.text)


def _message(turn: Turn) -> dict[str, str]:
    named = {"name": turn.actor} if turn.actor != turn.role else {}
    return {"role": turn.role, "content": turn.text, **named}
