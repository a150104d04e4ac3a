"""Texts as cells of a table that no spreadsheet takes for a formula, and back."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["csv_line", "harmless", "plain"]

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", *"\uff1d\uff0b\uff0d\uff20")  # the last: full-width signs


def harmless(cell: Any) -> Any:
    """A cell that no spreadsheet takes for a formula, which could send what stands beside it elsewhere.

    Example:
        >>> [harmless(cell) for cell in ("=1+1", "'=1", "'tis", -1)]
        ["'=1+1", "''=1", "'tis", -1]
    """
    return f"'{cell}" if isinstance(cell, str) and cell.lstrip("'").startswith(_FORMULA) else cell


def plain(cell: str) -> str:
    """The text that a cell stands for: the inverse of `harmless`.

    Example:
        >>> [plain(cell) for cell in ("'=1+1", "''=1", "'tis")]
        ['=1+1', "'=1", "'tis"]
    """
    return cell[1:] if cell.startswith("'") and harmless(cell[1:]) != cell[1:] else cell


def csv_line(cells: Iterable[Any]) -> str:
    r"""A row of a table as a line of CSV, for spreadsheets.

    Example:
        >>> csv_line(["Anna", "=1+1", None])
        "Anna,'=1+1,\r\n"
    """
    line = io.StringIO()
    csv.writer(line).writerow(map(harmless, cells))
    return line.getvalue()
