"""What the rules alone make of plain statements and their updates, and whether statements that only look alike both stay.

`data/updates.*.jsonl` holds pairs of a statement that somebody makes about himself and one that he, or in some pairs another
named speaker, makes half a year later. Both are told to an offline `Memory`, and what `get_all` shows before and after the
second decides:

- An update is *made* where something stood before, none of it stands after, something new does (but where the later statement
  only denies, and so keeps nothing), every word of the pair's `keeps` is found in what stands, and none of its `gone` is
  (upper and lower case aside).
- Of two that are alike, anything that stood before and does not after is *overwritten*; *both stay* where something stood,
  all of it still does, and something new beside it.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from langmem_adapter.memory.memory import Memory
from langmem_adapter.reasoning.base import ExtractInput
from langmem_adapter.reasoning.rules import RuleReasoner
from langmem_adapter.records.results import Turn
from tests.benchmarks.candidates import LANGUAGES, QUICK_PAIRS
from tests.benchmarks.measure import report

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["MADE_GOAL", "Outcome", "Said", "bench_updates", "said_of", "told"]

MADE_GOAL: Final = 0.5  # of the pairs whose two statements the attributes read
DATES: Final = ("2026-03-02T09:00:00+00:00", "2026-09-07T09:00:00+00:00")
DATA: Final = Path(__file__).with_name("data")


@dataclass(frozen=True, slots=True)
class Said:
    """Two statements, one after the other.

    Attributes:
        old: What was said first.
        new: What is said later.
        kind: Whether the later updates the first, or only looks alike.
        speakers: Who says each, where they are two.
        keeps: Words that must be found in what stands afterwards.
        gone: Words that must not.
    """

    old: str
    new: str
    kind: Literal["update", "alike"] = "update"
    speakers: tuple[str, str] | None = None
    keeps: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What stood before and after the later statement."""

    said: Said
    before: frozenset[str]
    after: frozenset[str]

    @property
    def made(self) -> bool:
        """Whether the update was made."""
        standing = "\n".join(self.after).casefold()
        closed = bool(self.before) and not self.before & self.after and bool(self.after or not self.said.keeps)
        kept = all(word.casefold() in standing for word in self.said.keeps)
        return closed and kept and not any(word.casefold() in standing for word in self.said.gone)

    @property
    def overwritten(self) -> bool:
        """Whether anything that stood is gone."""
        return not self.before <= self.after

    @property
    def both_stay(self) -> bool:
        """Whether the later statement stands beside all that stood."""
        return bool(self.before) and self.before < self.after


def bench_updates(*, quick: bool) -> None:
    """Print, for each language, which updates are made and which statements are wrongly overwritten.

    Args:
        quick: Use a few pairs.
    """
    for language, code in LANGUAGES.items():
        said = said_of(code)
        updates, alike = ([one for one in said if one.kind == kind] for kind in ("update", "alike"))
        updates = [one for one in updates if is_tidied(one.old) and is_tidied(one.new)]
        if quick:
            updates, alike = updates[:QUICK_PAIRS], alike[:QUICK_PAIRS]
        beside = told(alike)
        lines: dict[str, tuple[Iterable[bool], tuple[Literal["<=", ">="], float] | None]] = {
            "updates made of those that attributes read": ((one.made for one in told(updates)), (">=", MADE_GOAL)),
            "statements that look alike, overwritten": ((one.overwritten for one in beside), ("<=", 0)),
            "statements that look alike, both stay": ((one.both_stay for one in beside), None),
        }
        for name, (outcomes, goal) in lines.items():
            report(f"rules: {name}, {language}", statistics.mean(outcomes), "share", goal)


def is_tidied(text: str) -> bool:
    """Whether the attributes read all that a message states."""
    time = datetime.fromisoformat(DATES[0])
    question = ExtractInput((Turn("user", text, "user", time),), "user", time.date())
    facts = RuleReasoner().extract.invoke(question).facts
    return bool(facts) and not any(fact.is_quotation for fact in facts)


def said_of(code: str) -> list[Said]:
    """The statements of a language."""
    lines = (DATA / f"updates.{code}.jsonl").read_text(encoding="utf-8").splitlines()
    return [_read(json.loads(line)) for line in lines]


def _read(line: dict[str, Any]) -> Said:
    read: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in line.items()}
    return Said(**read)


def told(statements: Iterable[Said]) -> list[Outcome]:
    """Tell each of them to a memory of its own."""
    with Memory(":memory:", model="offline") as memory:
        return [_told(memory, f"pair {number}", said) for number, said in enumerate(statements)]


def _told(memory: Memory, user: str, said: Said) -> Outcome:
    stands = []
    for text, speaker, date in zip((said.old, said.new), said.speakers or (None, None), DATES, strict=True):
        message = {"role": "user", "content": text} | ({} if speaker is None else {"name": speaker})
        memory.add(message, user_id=user, timestamp=date)
        stands.append(frozenset(item.text for item in memory.get_all(user_id=user)))
    return Outcome(said, *stands)
