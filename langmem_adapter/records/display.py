"""How results are displayed: one line in `repr`, a table in notebooks (`_repr_html_`)."""

from __future__ import annotations

from datetime import datetime
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_WIDTH = 80  # letters of a text in one line


class OneLine:
    """A record with a one-line `repr`, made of its `cells`: the first is its text."""

    __slots__ = ()

    def cells(self) -> Mapping[str, Any]:
        """The fields to display, by name; `None` is left out."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """The class, the text, and the other cells."""
        (_, text), *others = self.cells().items()
        text = text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
        rest = "".join(f", {name}={_plain(value)!r}" for name, value in others if value is not None)
        return f"{type(self).__name__}({text!r}{rest})"


class Table:
    """A sequence of records that a notebook displays as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return html_table(record.cells() for record in self)  # type: ignore[attr-defined]


def html_table(rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows as an HTML table, every text escaped; cells that are `None` everywhere are left out."""
    rows = [*rows]
    names = [
        name
        for name in dict.fromkeys(name for row in rows for name in row)
        if any(row.get(name) is not None for row in rows)
    ]
    if not names:
        return "<p>no results</p>"
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = (
        "".join(f"<td>{'' if row.get(name) is None else escape(str(_plain(row[name])))}</td>" for name in names)
        for row in rows
    )
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{cells}</tr>' for cells in body)}</table>"


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.date().isoformat()
    return round(value, 3) if isinstance(value, float) else value
