"""Summaries of conversations in at most so many tokens.

Messages are cut into windows: messages whole where they fit, a call of a tool always with its results, a longer message in
parts. Each window becomes a summary of at most its share; these, behind the earlier summary, are joined, and summed up again
where they are too long. A text that fits is taken as it is, without a call.

Every summary has to be shorter than its text by a quarter, or to fit, so the rounds are few. One that is not is asked for once
more, shorter; then the whole is refused, and nothing was written yet.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.messages.utils import count_tokens_approximately

from langmem_adapter.errors import ModelReplyError
from langmem_adapter.reasoning.base import Passage, Wording
from langmem_adapter.records.envelope import label_of
from langmem_adapter.records.results import Usage
from langmem_adapter.twins import Plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from langmem_adapter.reasoning.base import Summarizer

CountTokens: TypeAlias = Callable[[list[BaseMessage]], int]
"""Tokens of some messages: `about_tokens`, or a model's `get_num_tokens_from_messages`."""

Unit: TypeAlias = "list[tuple[int, BaseMessage]]"
"""Messages that stay together, each with its position."""

_BYTES: Final = 4
_OVERLAP: Final = 20
_USUAL: Final = 500
_SHARES: Final = 4  # a window becomes a quarter of itself at least, however many there are


def about_tokens(messages: Iterable[BaseMessage]) -> int:
    """About how many tokens some messages have: as LangChain counts, but letters by their bytes, as tokenizers see them.

    LangChain's `count_tokens_approximately` takes four letters of any script for a token; four of Chinese are three or more.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> about_tokens([HumanMessage("I live in Lyon.")]), about_tokens([HumanMessage("我住在里昂，喜欢绿茶。")])
        (8, 12)
    """
    each = list(messages)
    extra = sum(len(message.text.encode()) - len(message.text) for message in each)
    return count_tokens_approximately(each) + extra // _BYTES


@dataclass(frozen=True, slots=True)
class Piece:
    """A text, and the positions of the first and the last message in it."""

    text: str
    first: int = 0
    last: int = 0


def format_message(message: BaseMessage) -> str:
    """A message as a line: speaker, text, and the tools that are called.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> format_message(HumanMessage("Hi!", name="Ann")), format_message(AIMessage("Hello."))
        ('Ann: Hi!', 'assistant: Hello.')
    """
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    texts = [f"[calls {call['name']}({json.dumps(call['args'], ensure_ascii=False, default=str)})]" for call in calls]
    return f"{message.name or label_of(message)}: {' '.join([message.text, *texts]).strip()}"


def split_units(messages: Iterable[tuple[int, BaseMessage]]) -> list[Unit]:
    """Messages that belong together: the results of a tool stay with its call, and with all between them."""
    units: list[Unit] = []
    places: dict[str | None, int] = {}  # the unit of each call
    for position, message in messages:
        if isinstance(message, ToolMessage) and units:
            start = places.get(message.tool_call_id, len(units) - 1)
            units[start:] = [[each for unit in units[start:] for each in unit]]
            units[-1].append((position, message))
        else:
            units.append([(position, message)])
        places |= dict.fromkeys(_calls(units[-1]), len(units) - 1)
    return units


def is_open(unit: Unit) -> bool:
    """Whether a unit waits for what a tool returns."""
    return not _calls(unit) <= {message.tool_call_id for _, message in unit if isinstance(message, ToolMessage)}


def _calls(unit: Iterable[tuple[int, BaseMessage]]) -> set[str | None]:
    return {call["id"] for _, message in unit if isinstance(message, AIMessage) for call in message.tool_calls}


def count_older(units: Sequence[Unit], tokens: CountTokens, budget: int) -> int:
    """How many units come before the latest ones that fit into *budget* tokens."""
    place = len(units)
    while place and (budget := budget - tokens([message for _, message in units[place - 1]])) >= 0:
        place -= 1
    return place


def pieces_of(units: Iterable[Unit]) -> list[Piece]:
    """Units as texts."""
    return [Piece("\n".join(format_message(message) for _, message in unit), unit[0][0], unit[-1][0]) for unit in units]


def split_texts(text: str, window_size: int = _USUAL) -> list[str]:
    """A text as windows of so many letters, each beginning with the last twenty of the one before.

    A size of no positive number means 500. Windows of twenty letters and less do not overlap.
    """
    size = window_size if window_size > 0 else _USUAL
    step = size - _OVERLAP if size > _OVERLAP else size
    ends = max(1, len(text) - size + step)
    return [text[start : start + size] for start in range(0, ends, step)]


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary, and those of the windows it was made from; none where the text fitted."""

    text: str
    usage: Usage = Usage()
    windows: tuple[Piece, ...] = ()
    made_by: str = ""


def summarize(
    summarizer: Summarizer,
    pieces: Sequence[Piece],
    *,
    max_tokens: int,
    window: int,
    count: Callable[[str], int],
    before: str = "",
    keep_language: bool = False,
) -> Plan[Summary]:
    """Sum up texts, and the earlier summary *before* them, in *max_tokens*, reading *window* tokens at once.

    A summary that is blank or no shorter than its text, also when asked again, is a `ModelReplyError` of the plan.
    """
    whole = _join([before, *(piece.text for piece in pieces)])
    if count(whole) <= max_tokens:
        return Plan.of(Summary(whole))
    run = _SummaryRun(summarizer, max_tokens, window, count, keep_language)
    return run.sum_up_windows(pieces, before).and_then(partial(run.merge, before))


@dataclass(frozen=True, slots=True)
class _SummaryRun:
    summarizer: Summarizer
    max_tokens: int
    window: int
    count: Callable[[str], int]
    keep_language: bool

    def sum_up_windows(self, pieces: Iterable[Piece], before: str = "") -> Plan[Summary]:
        windows: list[Piece] = []
        for piece in (part for whole in pieces for part in self._split(whole)):
            last = windows[-1] if windows else Piece("")
            both = Piece(_join([last.text, piece.text]), last.first or piece.first, piece.last)
            if windows and self.count(both.text) <= self.window:
                windows[-1] = both
            else:
                windows.append(piece)
        share = self.max_tokens // (len(windows) + bool(before)) - 1  # line ends cost as well
        share = min(self.max_tokens, max(share, self.window // _SHARES))

        def join(wordings: list[Wording]) -> Summary:
            made = tuple(replace(piece, text=each.text) for piece, each in zip(windows, wordings, strict=True))
            usage = sum((each.usage for each in wordings), Usage())
            return Summary(_join(each.text for each in wordings), usage, made, self.summarizer.mode)

        return Plan.each(partial(self._sum_up, share, before), windows).then(join)

    def merge(self, before: str, made: Summary) -> Plan[Summary]:
        """The windows behind the earlier summary, summed up again until they fit."""
        whole = _join([before, made.text])
        if self.count(whole) <= self.max_tokens:
            return Plan.of(replace(made, text=whole))
        parts = [Piece(text) for text in (before, *(piece.text for piece in made.windows)) if text]

        def merge_again(shorter: Summary) -> Plan[Summary]:
            if self.count(shorter.text) >= self.count(whole):
                raise self._too_long(whole, self.count(shorter.text), self.max_tokens)
            return self.merge("", replace(shorter, usage=made.usage + shorter.usage))

        return self.sum_up_windows(parts).and_then(merge_again).then(lambda last: replace(last, windows=made.windows))

    def _sum_up(self, share: int, before: str, piece: Piece) -> Plan[Wording]:
        text, size = piece.text, self.count(piece.text)
        if size <= share:
            return Plan.of(Wording(text))
        passage, most = Passage(text, share, self.count, before, self.keep_language), max(share, size * 3 // 4)

        def check(first: Wording) -> Plan[Wording]:
            if self.count(first.text) <= share:
                return Plan.of(first)
            second = self.summarizer.summarize(replace(passage, max_tokens=max(1, share // 2)))
            return second.then(partial(choose, first))

        def choose(first: Wording, second: Wording) -> Wording:
            best = min(first, second, key=lambda wording: self.count(wording.text))
            if (best_size := self.count(best.text)) > most:
                raise self._too_long(text, best_size, most)
            return Wording(best.text, first.usage + second.usage)

        return self.summarizer.summarize(passage).and_then(check)

    def _too_long(self, text: str, size: int, most: int) -> ModelReplyError:
        return ModelReplyError(
            f"{self.summarizer.mode} summed up {self.count(text)} tokens in {size}, also when asked again, where at most "
            f"{most} are wanted; nothing was changed. Allow more with max_tokens, or choose a model that keeps to a length",
            reply=text,
        )

    def _split(self, piece: Piece) -> Iterator[Piece]:
        """A piece that is longer than a window in several."""
        letters = len(piece.text) * self.window // max(1, self.count(piece.text))
        if letters >= len(piece.text) or len(piece.text) == 1:
            yield piece
            return
        for text in split_texts(piece.text, max(1, letters)):
            yield from self._split(replace(piece, text=text))


def _join(texts: Iterable[str]) -> str:
    return "\n".join(text for text in texts if text)
