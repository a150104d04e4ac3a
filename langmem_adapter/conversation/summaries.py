"""How what was said becomes a summary of at most so many tokens.

What was said is cut into windows: messages whole where they fit, a call of a tool always with its answers, a longer message in
parts. Each window becomes a summary of at most its share; these, behind the summary of what came before, are joined, and
summed up again where they are too long. A text that fits is taken as it is, without a call.

Every summary has to be shorter than its text by a quarter, or to fit: so the rounds are few, whatever a model says. One that
is not is asked for once more, shorter; then the whole is refused, and nothing was written yet.
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

__all__ = [
    "CountTokens",
    "Piece",
    "Summary",
    "Unit",
    "about_tokens",
    "before_latest",
    "is_open",
    "pieces_of",
    "split_texts",
    "summarized",
    "told",
    "units",
]

CountTokens: TypeAlias = Callable[[list[BaseMessage]], int]
"""Tokens of some messages: `about_tokens`, or a model's `get_num_tokens_from_messages`."""

Unit: TypeAlias = "list[tuple[int, BaseMessage]]"
"""Messages that may not be parted, each with its position."""

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
    given = list(messages)
    beyond = sum(len(message.text.encode()) - len(message.text) for message in given)
    return count_tokens_approximately(given) + beyond // _BYTES


@dataclass(frozen=True, slots=True)
class Piece:
    """A text, and the positions of the first and the last message in it."""

    text: str
    first: int = 0
    last: int = 0


def told(message: BaseMessage) -> str:
    """A message as a line of a talk: who speaks, what is said, which tools are called.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> told(HumanMessage("Hi!", name="Ann")), told(AIMessage("Hello."))
        ('Ann: Hi!', 'assistant: Hello.')
    """
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    asked = [f"[calls {call['name']}({json.dumps(call['args'], ensure_ascii=False, default=str)})]" for call in calls]
    return f"{message.name or label_of(message)}: {' '.join([message.text, *asked]).strip()}"


def units(messages: Iterable[tuple[int, BaseMessage]]) -> list[Unit]:
    """Messages that belong together: what tools returned stays with their call, whatever others said between them."""
    together: list[Unit] = []
    asked: dict[str | None, int] = {}  # the unit of each call
    for position, message in messages:
        if isinstance(message, ToolMessage) and together:
            start = asked.get(message.tool_call_id, len(together) - 1)
            together[start:] = [[each for unit in together[start:] for each in unit]]
            together[-1].append((position, message))
        else:
            together.append([(position, message)])
        asked |= dict.fromkeys(_calls(together[-1]), len(together) - 1)
    return together


def is_open(unit: Unit) -> bool:
    """Whether a unit waits for what a tool returns."""
    return not _calls(unit) <= {message.tool_call_id for _, message in unit if isinstance(message, ToolMessage)}


def _calls(unit: Iterable[tuple[int, BaseMessage]]) -> set[str | None]:
    return {call["id"] for _, message in unit if isinstance(message, AIMessage) for call in message.tool_calls}


def before_latest(together: Sequence[Unit], tokens: CountTokens, room: int) -> int:
    """How many units stand in front of the latest ones, which have so much room."""
    place = len(together)
    while place and (room := room - tokens([message for _, message in together[place - 1]])) >= 0:
        place -= 1
    return place


def pieces_of(together: Iterable[Unit]) -> list[Piece]:
    """Units as texts."""
    return [Piece("\n".join(told(message) for _, message in unit), unit[0][0], unit[-1][0]) for unit in together]


def split_texts(text: str, window_size: int = _USUAL) -> list[str]:
    """A text as windows of so many letters, each beginning with the last twenty of the one before.

    Args:
        text: Any text.
        window_size: Letters of a window; 500 where it is no positive number. Windows of twenty and less do not overlap.

    Example:
        >>> [len(window) for window in split_texts("x" * 60, 40)]
        [40, 40]
    """
    size = window_size if window_size > 0 else _USUAL
    step = size - _OVERLAP if size > _OVERLAP else size
    ends = max(1, len(text) - size + step)
    return [text[start : start + size] for start in range(0, ends, step)]


@dataclass(frozen=True, slots=True)
class Summary:
    """What was said, in few words, and the summaries of the windows it was made from; none where the text fitted."""

    text: str
    usage: Usage = Usage()
    windows: tuple[Piece, ...] = ()
    made_by: str = ""


def summarized(
    summarizer: Summarizer,
    pieces: Sequence[Piece],
    *,
    max_tokens: int,
    window: int,
    count: Callable[[str], int],
    before: str = "",
    keep_language: bool = False,
) -> Plan[Summary]:
    """Sum up what was said, and the summary of what came *before*, in *max_tokens*, reading *window* tokens at once.

    Raises:
        ModelReplyError: When the plan is carried out: a summary was blank, or no shorter than its text, also when asked again.
        ModelTimeoutError: There was no answer in time.
    """
    whole = _joined([before, *(piece.text for piece in pieces)])
    if count(whole) <= max_tokens:
        return Plan.known(Summary(whole))
    work = _Work(summarizer, max_tokens, window, count, keep_language)
    return work.windows(pieces, before).and_then(partial(work.merged, before))


@dataclass(frozen=True, slots=True)
class _Work:
    """One summary under way."""

    summarizer: Summarizer
    max_tokens: int
    window: int
    count: Callable[[str], int]
    keep_language: bool

    def windows(self, pieces: Sequence[Piece], before: str = "") -> Plan[Summary]:
        """Each window as a summary of at most its share."""
        cut = self._cut(pieces)
        parts = len(cut) + bool(before)
        share = min(
            self.max_tokens, max(self.max_tokens // parts - 1, self.window // _SHARES)
        )  # line ends cost as well
        plan = Plan.each(partial(self._one, share, before), cut)
        return plan.then(
            lambda made: Summary(
                _joined([wording.text for wording in made]),
                sum((wording.usage for wording in made), Usage()),
                tuple(replace(piece, text=wording.text) for piece, wording in zip(cut, made, strict=True)),
                self.summarizer.mode,
            )
        )

    def merged(self, before: str, made: Summary) -> Plan[Summary]:
        """The windows behind what came before, summed up again until they fit."""
        whole = _joined([before, made.text])
        if self.count(whole) <= self.max_tokens:
            return Plan.known(replace(made, text=whole))
        parts = [Piece(text) for text in (before, *(piece.text for piece in made.windows)) if text]

        def again(shorter: Summary) -> Plan[Summary]:
            if self.count(shorter.text) >= self.count(whole):
                raise self._refused(whole, self.count(shorter.text), self.max_tokens)
            return self.merged("", replace(shorter, usage=made.usage + shorter.usage))

        return self.windows(parts).and_then(again).then(lambda last: replace(last, windows=made.windows))

    def _one(self, share: int, before: str, piece: Piece) -> Plan[Wording]:
        tokens = self.count(piece.text)
        if tokens <= share:
            return Plan.known(Wording(piece.text))
        passage = Passage(piece.text, share, self.count, before, self.keep_language)
        enough = max(share, tokens * 3 // 4)

        def judged(first: Wording) -> Plan[Wording]:
            if self.count(first.text) <= share:
                return Plan.known(first)
            again = self.summarizer.summarize(replace(passage, max_tokens=max(1, share // 2)))
            return again.then(partial(self._shorter, piece.text, enough, first))

        return self.summarizer.summarize(passage).and_then(judged)

    def _shorter(self, text: str, enough: int, first: Wording, second: Wording) -> Wording:
        best = min(first, second, key=lambda wording: self.count(wording.text))
        if (tokens := self.count(best.text)) > enough:
            raise self._refused(text, tokens, enough)
        return Wording(best.text, first.usage + second.usage)

    def _refused(self, text: str, tokens: int, most: int) -> ModelReplyError:
        return ModelReplyError(
            f"{self.summarizer.mode} summed up {self.count(text)} tokens in {tokens}, also when asked again, where at most "
            f"{most} are wanted; nothing was changed. Allow more with max_tokens, or choose a model that keeps to a length",
            reply=text,
        )

    def _cut(self, pieces: Iterable[Piece]) -> list[Piece]:
        """Windows: pieces whole where they fit."""
        cut: list[Piece] = []
        for piece in (part for whole in pieces for part in self._parts(whole)):
            both = _together(cut[-1], piece) if cut else piece
            if cut and self.count(both.text) <= self.window:
                cut[-1] = both
            else:
                cut.append(piece)
        return cut

    def _parts(self, piece: Piece) -> Iterator[Piece]:
        """A piece that is longer than a window in several."""
        letters = len(piece.text) * self.window // max(1, self.count(piece.text))
        if letters >= len(piece.text) or len(piece.text) == 1:
            yield piece
            return
        for text in split_texts(piece.text, max(1, letters)):
            yield from self._parts(replace(piece, text=text))


def _together(one: Piece, other: Piece) -> Piece:
    return Piece(_joined([one.text, other.text]), one.first or other.first, other.last)


def _joined(texts: Iterable[str]) -> str:
    return "\n".join(text for text in texts if text)
