"""Passages: hits within a budget of tokens (`max_tokens`).

A short fact is shown whole. Of a long message the sentences are shown that hold the question's words, rare ones first, and
those beside them: on days of dialogue, each one memory, 100 tokens hold 0.55 of the evidence, the first 100 tokens 0.21. A
sentence is shown whole or not at all: a part of "I never want to live in London" may say the opposite.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from langmem_adapter.records.results import tokens_in
from langmem_adapter.statements.tables import patterns
from langmem_adapter.text import ENGLISH, meaningful, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from langmem_adapter.records.results import Hit

# Measured on long messages (BEAM, and dialogues of a day kept as one memory) within 500 and 1,000 tokens: a half shows fewer
# messages that answer, a quarter less of each.
_SHARE: Final = 3
_LEAST: Final = 40  # tokens, below which a part of a message hardly answers
_LONGEST: Final = 60  # tokens of a piece; a longer sentence is cut between its clauses
_AGAIN: Final = 0.5  # what a word is worth in each further piece that holds it
_BESIDE: Final = 0.3  # of its neighbour's worth a piece has, since answers follow questions
_SHORTEST: Final = 15  # tokens of a part of such a sentence, where fewer are wanted
_GAP: Final = " … "
_MARKS: Final = tokens_in(_GAP.strip() * 2 + "  ")
_MOST_PIECES: Final = 1_000
"""About into how many pieces a text is read: short sentences of a long text stay together, so that a hundred thousand letters
of them take no longer than as many of long ones."""

_END: Final = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？；…])[”’』」）]*|\n+")
_CLAUSE: Final = re.compile(r"(?<=[,;:])\s+|(?<=[，；：])")
_ABBREVIATION: Final = patterns("sentences", {})["ABBREVIATION"]
_Piece: TypeAlias = tuple[int, int]
"""Where it begins and ends."""


def fit_hits(
    hits: Sequence[Hit],
    question: str,
    most: int,
    *,
    cost: Callable[[str], int] = tokens_in,
    line: Callable[[Hit], str] = attrgetter("passage"),
    language: str = ENGLISH,
) -> list[Hit]:
    """Hits, best first, that fit into *most* tokens as *cost* counts a *line*; of a long one the passage that answers.

    One hit may have a third of what is left, and what those behind it do not need; the first may have all, if nothing that
    answers fits into less. A hit is left out if no sentence that answers fits. If that leaves nothing, the best hit is shown by
    the first of its sentences that fit; so is one that shares no word with the question.
    """
    kept: list[Hit] = []
    costs = [cost(line(hit)) for hit in hits]
    behind, least = sum(costs), min(_LEAST, most)
    for hit, whole in zip(hits, costs, strict=True):
        behind -= whole
        room = min(most, max(most // _SHARE, least, most - behind))
        rooms = (room,) if kept else (room, most)
        cuts = (_cut(hit, question, each, cost, line, language) for each in rooms if each >= max(least, 1))
        part = hit if whole <= room else next(filter(None, cuts), None)
        if part is not None:
            kept.append(part)
            most -= cost(line(part))
    begun = _cut(hits[0], "", most, cost, line, language) if hits and not kept else None
    return kept if begun is None else [begun]


def _cut(
    hit: Hit, question: str, room: int, cost: Callable[[str], int], line: Callable[[Hit], str], language: str
) -> Hit | None:
    """A hit cut until its line fits, or `None` where nothing of it does."""
    read, most = _Read.of(hit.text, question, room, language), room
    while most > 0:
        part = replace(hit, cut=read.passage(most))
        if not part.passage:
            return None
        if (takes := cost(line(part))) <= room:
            return part
        most = min(most - 1, tokens_in(part.passage) * room // takes)
    return None


@dataclass(frozen=True, slots=True)
class _Read:
    """A text in pieces: the tokens of each, and which of the question's words each holds, of shape (pieces, words)."""

    text: str
    pieces: Sequence[_Piece]
    costs: NDArray[np.int64]
    flags: NDArray[np.bool_]

    @classmethod
    def of(cls, text: str, question: str, most: int, language: str) -> _Read:
        """Read it for a passage of so many tokens."""
        pieces = list(_pieces(text, most))
        parts = [text[begins:ends] for begins, ends in pieces]
        terms = words(question, language)
        wanted = meaningful(terms, language) or set(terms)
        matches = [wanted.intersection(words(part, language)) for part in parts]
        columns = {term: column for column, term in enumerate(sorted(set().union(*matches)))}
        flags = np.zeros((len(pieces), len(columns)), np.bool_)
        for row, here in enumerate(matches):
            flags[row, [columns[term] for term in here]] = True
        return cls(text, pieces, np.array([tokens_in(part) for part in parts]), flags)

    def passage(self, most: int) -> str:
        """What answers best, in at most so many tokens; empty where nothing fits."""
        chosen = self._chosen(most)

        def text_of(number: int) -> str:
            return _join(self.text, [self.pieces[place] for place in chosen[:number]])

        # The marks of what is left out take their tokens, too.
        fits = bisect_right(range(1, len(chosen) + 1), most, key=lambda number: tokens_in(text_of(number)))
        return text_of(fits) if fits else ""

    def _chosen(self, most: int) -> list[int]:
        """Places of pieces that answer, or are next to one that does, best first; in a text without any, of all."""
        number = self.flags.sum(0)
        weights = np.log1p((len(self.pieces) - number + 0.5) / (number + 0.5))
        fits = self.costs + _MARKS <= most
        worth = (self.flags @ weights) * fits
        beside = np.pad(worth, 1)
        worth += _BESIDE * np.maximum(beside[:-2], beside[2:])
        free, left, chosen = fits & ((worth > 0) | (not self.flags.any())), most, list[int]()
        while free.any():
            best = int(np.argmax(np.where(free, worth, -1)))
            chosen.append(best)
            terms = np.flatnonzero(self.flags[best])
            weights[terms] *= _AGAIN
            worth -= self.flags[:, terms] @ weights[terms] * (1 / _AGAIN - 1)
            left -= int(self.costs[best])
            free[best] = False
            free &= self.costs <= left
        return chosen


def _pieces(text: str, most: int) -> Iterator[_Piece]:
    """The sentences and lines of a text; what is longer is cut between clauses, and where there are none between words."""
    begins, short = 0, min(len(text) // _MOST_PIECES, _LONGEST, most * 3 // 4)
    longest = min(_LONGEST, max(_SHORTEST, most * 3 // 4))
    for ends in _ends(text, short):
        tokens = tokens_in(text[begins:ends])
        step = ends - begins if tokens <= _LONGEST else max(1, (ends - begins) * longest // tokens)
        while ends - begins > step:
            middle = _middle(text, begins, begins + step)
            yield begins, middle
            begins = middle
        if ends > begins:
            yield begins, ends
        begins = ends


def _ends(text: str, most: int) -> Iterator[int]:
    """Where sentences end, those together that have at most so many letters."""
    last, near = 0, list[re.Match[str]]()
    for match in chain(_END.finditer(text), (None,)):
        if (len(text) if match is None else match.end()) - last > most:
            end = next((each.end() for each in reversed(near) if not _shortened(text, each)), last)
            if end > last:
                yield end
            last, near = end, []
        near += [] if match is None else [match]
    yield len(text)


def _shortened(text: str, end: re.Match[str]) -> bool:
    """Whether a full stop belongs to a word, as that of "Dr." does."""
    before = text[max(0, end.start() - 11) : end.start()]
    return before.endswith(".") and _ABBREVIATION.search(before[:-1]) is not None


def _middle(text: str, begins: int, ends: int) -> int:
    """Where the last clause ends there; without one, where the last word does."""
    clause = max((match.end() for match in _CLAUSE.finditer(text, begins, ends)), default=0)
    middle = clause if clause > begins else text.rfind(" ", begins, ends) + 1
    return middle if middle > begins else ends


def _join(text: str, pieces: Iterable[_Piece]) -> str:
    runs: list[list[int]] = []
    for begins, ends in sorted(pieces):
        if runs and not text[runs[-1][1] : begins].strip():
            runs[-1][1] = ends
        else:
            runs.append([begins, ends])
    passage = _GAP.join(text[begins:ends].strip() for begins, ends in runs)
    before, after = text[: runs[0][0]].strip(), text[runs[-1][1] :].strip()
    return f"{_GAP.lstrip() if before else ''}{passage}{_GAP.rstrip() if after else ''}"
