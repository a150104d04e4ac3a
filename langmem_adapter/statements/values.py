"""Amounts and times that a text gives, by their kind: those of one kind can take each other's place."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from langmem_adapter.statements.chinese_dates import chinese_number
from langmem_adapter.statements.dates import MONTHS, month_of
from langmem_adapter.statements.updates import UPDATES

__all__ = ["KINDS", "values"]

KINDS: Final = {"when": frozenset({"DATE", "CLOCK"}), "how much": frozenset({"PERCENT", "MONEY", "COUNT", "CLOCK"})}
"""The kinds of value that answer a question."""

_VALUE: Final = re.compile(
    "|".join(f"(?P<{kind}>{UPDATES.texts[kind]})" for kind in ("PERCENT", "MONEY", "CLOCK", "DATE", "COUNT")),
    re.IGNORECASE,
)
_CHINESE_DAY: Final = re.compile("(.+)月([^日号]*)")
_DIGITS: Final = re.compile(r"\d+")


@lru_cache(maxsize=4_096)
def values(text: str) -> frozenset[tuple[str, str]]:
    """The amounts and times in a text, each with its kind; a day of the year is one value however it is written.

    Example:
        >>> sorted(values("The budget is now $500 for 3 days, until May 3")), values("会议改到周三")
        ([('COUNT', '3'), ('DATE', 'may 3'), ('MONEY', '$500')], frozenset({('DATE', '周三')}))
        >>> values("3rd of Dec") == values("Dec. 3") == values("12月3日") == {("DATE", "december 3")}
        True
    """
    return frozenset((found.lastgroup or "", _told(found)) for found in _VALUE.finditer(text))


def _told(found: re.Match[str]) -> str:
    text = found[0].lower().strip()
    chinese = _CHINESE_DAY.match(text)
    month = chinese_number(chinese[1]) if chinese else month_of(text)
    if found.lastgroup != "DATE" or month is None or not 1 <= month <= len(MONTHS):
        return text
    day = chinese[2] if chinese else "".join(_DIGITS.findall(text))
    return f"{MONTHS[month - 1].lower()} {chinese_number(day) or ''}".strip()
