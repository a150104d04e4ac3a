"""Amounts and times that a text gives, by their kind: those of one kind can take each other's place."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from langmem_adapter.statements.tables import patterns

__all__ = ["KINDS", "values"]

KINDS: Final = {"when": frozenset({"DATE", "CLOCK"}), "how much": frozenset({"PERCENT", "MONEY", "COUNT", "CLOCK"})}
"""The kinds of value that answer a question."""

_TEXTS: Final = patterns("updates", {}).texts
_VALUE: Final = re.compile(
    "|".join(f"(?P<{kind}>{_TEXTS[kind]})" for kind in ("PERCENT", "MONEY", "CLOCK", "DATE", "COUNT")), re.IGNORECASE
)


@lru_cache(maxsize=4_096)
def values(text: str) -> frozenset[tuple[str, str]]:
    """The amounts and times in a text, each with its kind.

    Example:
        >>> sorted(values("The budget is now $500 for 3 days, until May 3")), values("会议改到周三")
        ([('COUNT', '3'), ('DATE', 'may 3'), ('MONEY', '$500')], frozenset({('DATE', '周三')}))
    """
    return frozenset((found.lastgroup or "", found[0].lower().strip()) for found in _VALUE.finditer(text))
