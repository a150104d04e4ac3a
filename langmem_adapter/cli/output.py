"""Output of commands: data on stdout; errors with exit codes, and progress, on stderr.

Data are a picture on a terminal (Rich), tab-separated lines in a pipe, one JSON envelope with `--json`. Scripts branch on the
exit code, programs that read `--json` on the short code; both are stable.
"""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from contextlib import contextmanager
from enum import IntEnum
from threading import Event, current_thread, main_thread
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from langmem_adapter import errors
from langmem_adapter.records.escapes import CONTROLS, escape
from langmem_adapter.records.scope import as_data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rich.console import RenderableType


class ExitCode(IntEnum):
    """How a command ended."""

    OK = 0
    UNEXPECTED = 1
    USAGE = 2
    NOTHING_FOUND = 3
    CONFIGURATION = 4
    UNREACHABLE = 5
    PARTIAL = 6
    INTERRUPTED = 130


_EXIT_CODES: Final = {
    **dict.fromkeys(("no_database", "not_found", "nothing_found"), ExitCode.NOTHING_FOUND),
    **dict.fromkeys(("address", "configuration", "no_key"), ExitCode.CONFIGURATION),
    "partial": ExitCode.PARTIAL,
    "interrupted": ExitCode.INTERRUPTED,
}


class CommandError(errors.LangmemAdapterError):
    """Why a command ends: a message, a hint what to do, a short code for programs, and an exit code."""

    def __init__(self, message: str, hint: str = "", *, code: str = "usage", exit_code: ExitCode | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code
        self.exit_code = _EXIT_CODES.get(code, ExitCode.USAGE) if exit_code is None else exit_code

    def to_json(self) -> dict[str, str]:
        """As an envelope has it."""
        return {"code": self.code, "message": self.message, "hint": self.hint}


DOCTOR: Final = "langmem-adapter doctor"
"""The default hint."""
_HINTS: Final[dict[type[BaseException], str]] = {
    errors.ScopeError: "name the user with -u NAME (or --agent, --run), or once for all: export LANGMEM_ADAPTER_USER=NAME",
    errors.MemoryNotFoundError: "langmem-adapter list -u NAME shows the ids",
    errors.RelationNotFoundError: "langmem-adapter graph -u NAME shows the ids",
    errors.EntityNotFoundError: "langmem-adapter graph entities -u NAME lists them",
    errors.EmbeddingMismatchError: DOCTOR,
    errors.ModelReplyError: "try again, or another --model",
    errors.ModelTimeoutError: "is the server well? for a slow model: export LANGMEM_ADAPTER_MODEL_TIMEOUT=300",
    errors.ModelError: "try another --model",
    errors.ConflictError: "try again",
    errors.GraphServerError: "",
    errors.StorageError: DOCTOR,
}


def failure_of(error: BaseException) -> CommandError:
    """The message, hint, code and exit code of an error (see `errors.outcome_of`)."""
    if isinstance(error, CommandError):
        return error
    outcome, message = errors.outcome_of(error), str(error)
    hint = next((hint for kind, hint in _HINTS.items() if isinstance(error, kind)), "")
    if outcome.code == "failed":
        hint = DOCTOR
    elif getattr(error, "what", "") == "trace":
        hint = "langmem-adapter trace -u NAME shows the ids"
    elif isinstance(error, errors.ModelError) and error.hint:
        hint, message = error.hint, message.removesuffix(f"; {error.hint}")
    return CommandError(message, hint, code=outcome.code, exit_code=ExitCode(outcome.exit_code))


T = TypeVar("T")

_HIDDEN: Final = re.compile(CONTROLS)
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n"})


class Output:
    """The output of one command."""

    def __init__(self, command: str, *, as_json: bool) -> None:
        self.command = command
        self.as_json = as_json
        self.mode: str | None = None
        self.out = Console(highlight=False, markup=False, emoji=False)
        self.err = Console(highlight=False, markup=False, emoji=False, stderr=True)
        self._began = time.perf_counter()

    @property
    def on_terminal(self) -> bool:
        """Whether stdout is a terminal."""
        return sys.stdout.isatty()

    @property
    def marks(self) -> bool:
        """Whether a diff needs marks, for lack of colour."""
        return self.out.no_color or not self.out.is_terminal

    def show(
        self,
        records: Sequence[T],
        *,
        columns: Sequence[str],
        picture: str | Callable[[Sequence[T]], RenderableType],
        row: Callable[[T], Mapping[str, Any]] | None = None,
        failure: CommandError | None = None,
        **extra: object,
    ) -> None:
        """Print records: these *columns* of their rows in a pipe, a sentence or a *picture* of them on a terminal.

        A *failure* ends the command after that. *extra* are further keys of the envelope; an `error` makes it `"ok": false`, a
        `next` is also printed on stderr.
        """
        extra |= {} if failure is None else {"error": failure.to_json()}
        rows = map(row or (lambda record: record if isinstance(record, dict) else as_data(record)), records)
        if self.as_json:
            self._envelope({"data": list(rows), "count": len(records), **extra})
        elif not self.on_terminal:
            for data in rows:
                sys.stdout.write("\t".join(one_line(data[column]) for column in columns) + "\n")
        elif isinstance(picture, str):
            self.out.print(Text(visible(picture)))
        elif records:
            self.out.print(picture(records))
        if extra.get("next") is not None:
            self.note(f"more: --after {extra['next']}", whole=True)
        if failure is not None:
            self.aside("; ".join(filter(None, (failure.message, failure.hint))), "yellow")
            raise typer.Exit(failure.exit_code)

    def write(self, text: str, **extra: object) -> None:
        """Print a text that is the data, as it is; with `--json` under `"text"`."""
        if self.as_json:
            self._envelope({"data": [{"text": text, **extra}], "count": 1})
        else:
            sys.stdout.write(text)

    def note(self, text: str, style: str = "dim", *, whole: bool = False) -> None:
        """Print a note on stderr; *whole*: without line breaks of ours, so that it can be copied."""
        self._print(Text(visible(text), style=style), whole=whole)

    def aside(self, text: str, style: str = "dim", *, whole: bool = False) -> None:
        """The same, but not with `--json`."""
        if not self.as_json:
            self.note(text, style, whole=whole)

    def fail(self, failure: CommandError) -> None:
        """Print why the command ends."""
        if self.as_json:
            self._envelope({"error": failure.to_json()})
            return
        self._print(Text.assemble(("error: ", "bold red"), visible(failure.message)))
        if failure.hint:
            self._print(Text.assemble(("hint:  ", "bold"), visible(failure.hint)), whole=True)

    def _print(self, text: Text, *, whole: bool = False) -> None:
        self.err.print(text, soft_wrap=whole or not self.err.is_terminal)  # a log keeps one line in one line

    def _envelope(self, body: Mapping[str, object]) -> None:
        envelope = {"ok": "error" not in body, "command": self.command, **body}
        if "data" in body:
            envelope |= {} if self.mode is None else {"mode": self.mode}
            envelope["ms"] = round((time.perf_counter() - self._began) * 1000)
        sys.stdout.write(escape(json.dumps(envelope, ensure_ascii=False)) + "\n")


def counted(number: int, what: str) -> str:
    """A number with its noun: "1 entity", "2,000 entities"."""
    many = f"{what.removesuffix('y')}ies" if what.endswith("y") else f"{what}s"
    return f"{number:,} {what if number == 1 else many}"


def visible(text: str) -> str:
    """A text with its control and direction characters written out, so that it cannot steer a terminal."""
    return _HIDDEN.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def one_line(value: object) -> str:
    """A value as one field of a tab-separated line: backslash, tab and line end are escaped, `None` is empty."""
    if value is None:
        return ""
    plain = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return visible(plain.translate(_ESCAPES))


_EVERY: Final = 5.0  # seconds between two lines, where no bar can be drawn
_LEAST: Final = 50  # fewer steps need no progress


class Steps:
    """A bar with rate and remaining time where stderr is a terminal; else a plain line with the same every few seconds."""

    def __init__(self, output: Output, total: int | None = None, *, what: str) -> None:
        self._output = output
        self._total = total
        self._what = what
        self._done = 0
        self._bar: Progress | None = None
        self._began = self._last = time.monotonic()

    def __enter__(self) -> Self:
        """Begin."""
        self.advance(0)
        return self

    def __exit__(self, *_: object) -> None:
        """End; the bar disappears."""
        if self._bar is not None:
            self._bar.stop()

    def advance(self, steps: int) -> None:
        """Count further steps."""
        self.show(self._done + steps, self._total or 0)

    def show(self, done: int, total: int) -> None:
        """Show how many steps are done, of an unknown number where *total* is 0."""
        self._done, now = max(done, self._done), time.monotonic()
        if max(total, done if total == 0 else 0) < _LEAST:
            return
        rate = f"{self._done / max(now - self._began, 1e-6):.0f}/s"
        if self._output.err.is_terminal:
            self._draw(total, rate)
        elif now - self._last >= _EVERY:
            self._last = now
            left = (now - self._began) * (total - self._done) / max(self._done, 1)
            rest = (f" of {total}", f", {left:.0f} s left") if total else ("", "")
            self._output.note(f"{self._done}{rest[0]} {self._what}, {rate}{rest[1]}")

    def _draw(self, total: int, rate: str) -> None:
        if self._bar is None:
            numbers = (MofNCompleteColumn(), TextColumn("{task.fields[rate]}"), TimeRemainingColumn())
            label = TextColumn("{task.description}")
            self._bar = Progress(label, BarColumn(), *numbers, console=self._output.err, transient=True)
            self._task = self._bar.add_task(self._what, total=total or None, rate="")
            self._bar.start()
        self._bar.update(self._task, completed=self._done, rate=rate)


@contextmanager
def stop_signal(*numbers: int, note: Callable[[], None] = lambda: None) -> Iterator[Event]:
    """An event that the first of these signals sets; a second one has its usual effect."""
    stop = Event()
    before = {number: signal.getsignal(number) for number in numbers}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def handle(*_: object) -> None:
        restore()
        stop.set()
        note()

    if current_thread() is not main_thread():  # others may not handle signals
        yield stop
        return
    for number in numbers:
        signal.signal(number, handle)
    try:
        yield stop
    finally:
        restore()
