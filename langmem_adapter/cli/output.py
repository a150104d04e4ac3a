"""What a command says, and where: data on stdout, everything else on stderr.

Data take one of three shapes: a picture on a terminal (Rich), tab-separated lines in a pipe, one JSON envelope with
`--json`. Texts of memories come from anywhere, so their control characters are made visible before a terminal sees them.
"""

from __future__ import annotations

import json
import re
import sys
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rich.console import Console
from rich.text import Text

from langmem_adapter.records.escapes import CONTROLS, escape
from langmem_adapter.records.plain import as_data

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import RenderableType

    from langmem_adapter.cli.failures import CommandError

T = TypeVar("T")

__all__ = ["Output", "counted", "one_line", "visible"]

_HIDDEN: Final = re.compile(CONTROLS)
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n"})


class Output:
    """The three shapes of one command's output; *as_json* is the last of them."""

    def __init__(self, command: str, *, as_json: bool) -> None:
        self.command = command
        self.as_json = as_json
        self.mode: str | None = None
        self.out = Console(highlight=False, markup=False, emoji=False)
        self.err = Console(highlight=False, markup=False, emoji=False, stderr=True)
        self._began = time.perf_counter()

    @property
    def on_terminal(self) -> bool:
        """Whether somebody looks at stdout."""
        return sys.stdout.isatty()

    @property
    def marks(self) -> bool:
        """Whether a diff needs marks, since there is no colour to carry it."""
        return self.out.no_color or not self.out.is_terminal

    def show(
        self,
        found: Sequence[T],
        *,
        columns: Sequence[str],
        picture: str | Callable[[Sequence[T]], RenderableType],
        row: Callable[[T], Mapping[str, Any]] | None = None,
        **extra: object,
    ) -> None:
        """Say what was found; a terminal gets nothing where that is nothing.

        Args:
            found: Records, or rows of JSON types.
            columns: Keys of the rows that a tab-separated line has, in order.
            picture: What a terminal shows: a sentence, or what makes a picture of them.
            row: Makes a row of a record; `None`: by its fields.
            **extra: Further keys of the envelope; an `error` among them makes it say `"ok": false`, a `next` is told on stderr.
        """
        rows = map(row or _fields, found)
        if self.as_json:
            self._envelope({"data": list(rows), "count": len(found), **extra})
        elif not self.on_terminal:
            for data in rows:
                sys.stdout.write("\t".join(one_line(data[column]) for column in columns) + "\n")
        elif isinstance(picture, str):
            self.out.print(Text(visible(picture)))
        elif found:
            self.out.print(picture(found))
        if extra.get("next") is not None:
            self.note(f"more: --after {extra['next']}", whole=True)

    def write(self, text: str, **extra: object) -> None:
        """Say a text that is the data, line by line as it is, on a terminal and in a pipe; with `--json` under `"text"`."""
        if self.as_json:
            self._envelope({"data": [{"text": text, **extra}], "count": 1})
        else:
            sys.stdout.write(text)

    def note(self, text: str, style: str = "dim", *, whole: bool = False) -> None:
        """Say something that is no data, on stderr; *whole* where it is to be copied: then the terminal alone breaks lines."""
        self._tell(Text(visible(text), style=style), whole=whole)

    def aside(self, text: str, style: str = "dim", *, whole: bool = False) -> None:
        """The same, unless there is an envelope, which says it too or has no need of it."""
        if not self.as_json:
            self.note(text, style, whole=whole)

    def fail(self, failure: CommandError) -> None:
        """Say why the command ends here."""
        if self.as_json:
            self._envelope({"error": failure.to_json()})
            return
        self._tell(Text.assemble(("error: ", "bold red"), visible(failure.message)))
        if failure.hint:
            self._tell(Text.assemble(("hint:  ", "bold"), visible(failure.hint)), whole=True)

    def _tell(self, text: Text, *, whole: bool = False) -> None:
        self.err.print(text, soft_wrap=whole or not self.err.is_terminal)  # a log keeps one line in one line

    def _envelope(self, body: Mapping[str, object]) -> None:
        envelope = {"ok": "error" not in body, "command": self.command, **body}
        if "data" in body:
            envelope |= {} if self.mode is None else {"mode": self.mode}
            envelope["ms"] = round((time.perf_counter() - self._began) * 1000)
        sys.stdout.write(escape(json.dumps(envelope, ensure_ascii=False)) + "\n")


def _fields(record: Any) -> Mapping[str, Any]:
    return record if isinstance(record, dict) else as_data(record)


def counted(number: int, what: str) -> str:
    """So many of something: "1 entity", "2,000 entities"."""
    many = f"{what.removesuffix('y')}ies" if what.endswith("y") else f"{what}s"
    return f"{number:,} {what if number == 1 else many}"


def visible(text: str) -> str:
    """A text with its control and direction characters written out, so that it cannot steer a terminal."""
    return _HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def one_line(value: object) -> str:
    """A value as one field of a tab-separated line: backslash, tab and line end are escape, nothing becomes empty."""
    if value is None:
        return ""
    plain = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return visible(plain.translate(_ESCAPES))
