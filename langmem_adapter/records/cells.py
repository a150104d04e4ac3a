"""Texts as cells of a table that no spreadsheet takes for a formula, and back."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["csv_line", "harmless", "plain"]

# Spreadsheets read a formula at the start, and after what may separate cells or lines; the last signs are full-width.
_START: Final = r"(?:\A|(?<=[;\t\r\n]))"
_FORMULA: Final = r"(?='*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])"
_UNSAFE: Final = re.compile(_START + _FORMULA)
_SAFE: Final = re.compile(f"{_START}'{_FORMULA}")


def harmless(cell: Any) -> Any:
    """A cell that no spreadsheet takes for a formula, which could send what stands beside it elsewhere.

    Example:
        >>> [harmless(cell) for cell in ("=1+1", "'=1", "'tis", -1, ";=1")]
        ["'=1+1", "''=1", "'tis", -1, ";'=1"]
    """
    return _UNSAFE.sub("'", cell) if isinstance(cell, str) else cell


def plain(cell: str) -> str:
    """The text that a cell stands for: the inverse of `harmless`.

    Example:
        >>> [plain(cell) for cell in ("'=1+1", "''=1", "'tis")]
        ['=1+1', "'=1", "'tis"]
    """
    return _SAFE.sub("", cell)


def csv_line(cells: Iterable[Any]) -> str:
    r"""A row of a table as a line of CSV, for spreadsheets.

    Example:
        >>> csv_line(["Anna", "=1+1", None])
        "Anna,'=1+1,\r\n"
    """
    line = io.StringIO()
    csv.writer(line).writerow(map(harmless, cells))
    return line.getvalue()
