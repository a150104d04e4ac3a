"""Summaries and records without a model: the sentences that say most, the steps of what was done, as they stand."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from langmem_adapter.reasoning.base import Extraction, Wording
from langmem_adapter.records.cost import Usage
from langmem_adapter.records.work import Fact
from langmem_adapter.text import content_words, is_cjk, subjects, text_hash
from langmem_adapter.twins import Plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from langmem_adapter.reasoning.base import ExtractInput, Passage
    from langmem_adapter.records.work import Turn

__all__ = ["RuleSummarizer", "record_of_steps"]

_SENTENCE: Final = re.compile(r"(?:[^.!?。！？]++|[.!?]++(?!\s))++(?:[.!?]++|[。！？]++)?+|[.!?。！？]++")
_SPEAKER: Final = re.compile(r"\w[\w .@-]{0,40}[:：]\s*")
_CLOSING: Final = " \t\n.,;:!?。，、；：！？…"
_RELATED: Final = 1 / 3


class RuleSummarizer:
    """Takes sentences as they are. See `Summarizer`; the same answer every time, nothing sent anywhere.

    It understands nothing: which sentences say most is told by how often their words occur in the text, what stands twice is
    taken once, and what fits least is left out. It writes no sentence of its own: `rewrite` leaves one as
    it is.

    Example:
        >>> RuleSummarizer().title("user: My sister Jesica moved to Lyon last week. Fine!", 5).run().text
        'My sister Jesica moved to'
    """

    mode: Final = "offline"

    def summarize(self, passage: Passage) -> Plan[Wording]:
        """The sentences that say most, as many as fit; the beginning of one where none fits."""
        return Plan(lambda: Wording(_extract(passage)))

    def title(self, text: str, max_words: int) -> Plan[Wording]:
        """The first words of the sentence that says most; in scripts without spaces two letters make a word."""
        return Plan(lambda: Wording(_title(text, max_words)))

    def is_related(self, text: str, other: str) -> Plan[tuple[bool, Usage]]:
        """Whether a third of what the shorter one is about is in the other as well."""
        return Plan.known((_shares(subjects(text), subjects(other)), Usage()))

    def rewrite(self, sentence: str, context: str) -> Plan[Wording]:  # noqa: ARG002 - see the class
        """The sentence as it is."""
        return Plan.known(Wording(sentence))


def _extract(passage: Passage) -> str:
    said = _sentences(passage.text)
    kept: set[int] = set()
    for place in _ranked(said):
        if passage.count(_joined(said, kept | {place})) <= passage.max_tokens:
            kept.add(place)
    return _joined(said, kept) if kept else _beginning(passage)


def _sentences(text: str) -> list[str]:
    """Each behind whoever says it, and once: of those that say the same, the last."""
    parts = [part for line in text.splitlines() for part in _of_line(line.strip())]
    last = {text_hash(part): place for place, part in enumerate(parts)}
    return [parts[place] for place in sorted(last.values())]


def _of_line(line: str) -> Iterator[str]:
    named = _SPEAKER.match(line)
    speaker = named[0] if named else ""
    for found in _SENTENCE.findall(line[len(speaker) :]):
        if found.strip(_CLOSING):
            yield f"{speaker}{found.strip()}"


def _ranked(said: Sequence[str]) -> list[int]:
    """Places of the sentences, the one that says most first; of equal ones the later."""
    told = [content_words(sentence) for sentence in said]
    often = Counter(word for words in told for word in words)
    weights = [math.fsum(math.log1p(often[word]) for word in words) / math.sqrt(len(words) + 1) for words in told]
    return sorted(range(len(said)), key=lambda place: (weights[place], place), reverse=True)


def _joined(said: Sequence[str], kept: set[int]) -> str:
    return "\n".join(said[place] for place in sorted(kept))


def _beginning(passage: Passage) -> str:
    """As much of the text as fits, found by halving."""
    text, fits = passage.text.strip(), 0
    step = len(text)
    while step := step // 2:
        if passage.count(text[: fits + step]) <= passage.max_tokens:
            fits += step
    return text[: max(1, fits)].strip()


def _title(text: str, max_words: int) -> str:
    said = [_SPEAKER.sub("", sentence) for sentence in _sentences(text)] or [text]
    best = said[_ranked(said)[0]].strip(_CLOSING)
    title = best[: 2 * max_words] if is_cjk(best) else " ".join(best.split()[:max_words])
    return title.strip(_CLOSING)


def _shares(one: frozenset[str], other: frozenset[str]) -> bool:
    fewer = min(len(one), len(other))
    return fewer > 0 and len(one & other) >= _RELATED * fewer


# ── records of what was done ────────────────────────────────────────────────────────────────────────────────────────────────

_STEPS: Final = {"user": "Request", "assistant": "Agent Action", "tool": "Action Result"}


def record_of_steps(question: ExtractInput) -> Extraction:
    """A numbered list of what was said, called and returned, word for word; rules do not summarise."""
    turns = [turn for turn in question.turns if turn.role in _STEPS]
    steps = [f"{number}. {step}" for number, step in enumerate(_steps(turns), start=1)]
    if not steps:
        return Extraction(())
    texts = [turn.text for turn in sorted(turns, key=lambda turn: turn.role != "user") if turn.text]
    head = [f"**Task Objective**: {text}" for text in texts[:1]]
    head += [f"**Instructions**: {turn.text}" for turn in question.turns if turn.role == "system" and turn.text]
    text = "\n".join((*head, "", *steps)).strip()
    return Extraction((Fact(text, len(question.turns) - 1, verbatim=True),))


def _steps(turns: Iterable[Turn]) -> list[str]:
    steps: list[str] = []
    called: dict[str, int] = {}
    for turn in turns:
        if turn.text or turn.answers:
            steps.append(f"**{_step(turn, called)}**: {turn.text}")
        for call in turn.calls:
            steps.append(f"**Agent Action**: {call.name}({call.arguments})")
            called |= {call.id: len(steps)} if call.id else {}
    return steps


def _step(turn: Turn, called: Mapping[str, int]) -> str:
    name = "Errors" if turn.failed else _STEPS[turn.role]
    if turn.role != "tool":
        return name
    if turn.answers in called:
        return f"{name} of step {called[turn.answers]}"
    return name if turn.actor == turn.role else f"{name} of {turn.actor}"
