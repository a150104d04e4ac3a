"""The wordings by which what is asked, and what was told anew, are read: one table for all that read it."""

from __future__ import annotations

from typing import Final

from langmem_adapter.statements.dates import MONTH_NAMES, WEEKDAYS
from langmem_adapter.statements.tables import patterns

__all__ = ["UPDATES"]

UPDATES: Final = patterns("updates", {"MONTHS": MONTH_NAMES, "WEEKDAYS": "|".join(WEEKDAYS)})
