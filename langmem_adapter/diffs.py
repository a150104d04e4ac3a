"""What differs between two texts, word by word."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from itertools import groupby
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DiffKind: TypeAlias = Literal["same", "gone", "came"]
DiffPart: TypeAlias = tuple[DiffKind, str]

_KINDS: Final[tuple[DiffKind, ...]] = ("same", "gone", "came")
_WORDS: Final = re.compile("\\s+|[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]|\\w+|[^\\w\\s]")
_MOST: Final = 300  # words: the time that a comparison takes may grow with the square of it
_ALIKE: Final = 0.25  # of the letters of what lies between; below that, words that happen to be equal only confuse


def differences(old: str, new: str) -> list[DiffPart]:
    """Two texts as one, in parts that stayed, went or came; an ideograph is a word.

    Args:
        old: The text before.
        new: The text after.

    Example:
        >>> differences("Lives in Kyoto with Rex", "Lives in Lyon with Rex")
        [('same', 'Lives in '), ('gone', 'Kyoto'), ('came', 'Lyon'), ('same', ' with Rex')]
        >>> differences("住在京都", "住在里昂")
        [('same', '住在'), ('gone', '京都'), ('came', '里昂')]
    """
    before, after = _WORDS.findall(old), _WORDS.findall(new)
    begin = _alike(before, after)
    end = _alike(before[begin:][::-1], after[begin:][::-1])
    middle = _compared(before[begin : len(before) - end], after[begin : len(after) - end])
    same: list[DiffPart] = [("same", "".join(before[:begin])), ("same", "".join(before[len(before) - end :]))]
    return _joined([same[0], *middle, same[1]])


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    """With how many words both begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _compared(before: Sequence[str], after: Sequence[str]) -> list[DiffPart]:
    whole: list[DiffPart] = [("gone", "".join(before)), ("came", "".join(after))]
    if max(len(before), len(after)) > _MOST:
        return whole
    parts: list[DiffPart] = []
    for kind, i, j, k, m in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        gone, came = "".join(before[i:j]), "".join(after[k:m])
        parts += [("same", gone)] if kind == "equal" and not gone.isspace() else [("gone", gone), ("came", came)]
    same = _letters(text for kind, text in parts if kind == "same")
    return parts if 2 * same >= _ALIKE * (_letters(before) + _letters(after)) else whole


def _letters(texts: Iterable[str]) -> int:
    return sum(len("".join(text.split())) for text in texts)


def _joined(parts: Sequence[DiffPart]) -> list[DiffPart]:
    """Of what went and came without a word between them, first all that went."""
    joined: list[DiffPart] = []
    for _, run in groupby(parts, key=lambda part: part[0] == "same"):
        told = list(run)
        joined += ((kind, "".join(text for each, text in told if each == kind)) for kind in _KINDS)
    return [part for part in joined if part[1]]
