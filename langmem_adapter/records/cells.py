"""Texts as cells of a table that no spreadsheet takes for a formula, and back."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["harmless", "plain"]

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
