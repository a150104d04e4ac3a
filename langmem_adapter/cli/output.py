"""Output of commands: data on stdout, errors with exit codes and progress on stderr.

Scripts branch on the exit code, programs that read `--json` on the short code; both stay the same for ever.

Data take one of three shapes: a picture on a terminal (Rich), tab-separated lines in a pipe, one JSON envelope with
`--json`. Texts of memories come from anywhere, so their control characters are made visible before a terminal sees them.
"""

from __future__ import annotations

import json
import re
import signal
import sys
import threading
import time
from contextlib import contextmanager, suppress
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from langmem_adapter import errors
from langmem_adapter.records.escapes import CONTROLS, escape
from langmem_adapter.records.scope import as_data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType

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


class CommandError(errors.LangmemAdapterError):
    """Why a command cannot go on: a message, a hint to do something about it, a short code for programs, and an exit code."""

    def __init__(
        self, message: str, hint: str = "", *, code: str = "usage", exit_code: ExitCode = ExitCode.USAGE
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code
        self.exit_code = exit_code

    def to_json(self) -> dict[str, str]:
        """As an envelope has it."""
        return {"code": self.code, "message": self.message, "hint": self.hint}


DOCTOR: Final = "langmem-adapter doctor"
"""The hint where nothing better is known."""
_TOO_MANY: Final = 429
_UNREACHABLE: Final = "model_unreachable", ExitCode.UNREACHABLE
_CONFIGURATION: Final = "model_configuration", ExitCode.CONFIGURATION
_SCOPE: Final = "name the user with -u NAME (or --agent, --run), or once for all: export LANGMEM_ADAPTER_USER=NAME"
_SLOW: Final = "is the server well? for a slow model: export LANGMEM_ADAPTER_MODEL_TIMEOUT=300"
_KINDS: Final[tuple[tuple[type[BaseException], str, ExitCode, str], ...]] = (
    (errors.ScopeError, "scope", ExitCode.USAGE, _SCOPE),
    (errors.FilterError, "filter", ExitCode.USAGE, ""),
    (errors.InvalidInputError, "invalid_input", ExitCode.USAGE, ""),
    (errors.MemoryNotFoundError, "not_found", ExitCode.NOTHING_FOUND, "langmem-adapter list -u NAME shows the ids"),
    (errors.RelationNotFoundError, "not_found", ExitCode.NOTHING_FOUND, "langmem-adapter graph -u NAME shows the ids"),
    (
        errors.EntityNotFoundError,
        "not_found",
        ExitCode.NOTHING_FOUND,
        "langmem-adapter graph entities -u NAME lists them",
    ),
    (errors.MissingDependencyError, "missing_dependency", ExitCode.CONFIGURATION, ""),
    (errors.EmbeddingMismatchError, "embedding_mismatch", ExitCode.CONFIGURATION, DOCTOR),
    (errors.ModelReplyError, "model_reply", ExitCode.UNREACHABLE, "try again, or another --model"),
    (errors.ModelTimeoutError, "model_unreachable", ExitCode.UNREACHABLE, _SLOW),
    (errors.ModelError, *_CONFIGURATION, "try another --model"),
    (errors.ConflictError, "conflict", ExitCode.UNREACHABLE, "try again"),
    (errors.GraphServerError, "graph_server", ExitCode.UNREACHABLE, ""),
    (errors.StorageError, "storage", ExitCode.UNREACHABLE, DOCTOR),
)
_LISTING: Final = {"trace": "langmem-adapter trace -u NAME shows the ids"}
"""The hint where something else than a memory is not found."""


def failure_of(error: BaseException) -> CommandError:
    """What to show for an error, and how to end."""
    if isinstance(error, CommandError):
        return error
    if isinstance(error, errors.ModelError) and error.hint:
        passes = error.transient or error.status == _TOO_MANY  # so does a quota, once it is paid for
        code, exit_code = _UNREACHABLE if passes else _CONFIGURATION
        message = str(error).removesuffix(f"; {error.hint}")
        return CommandError(message, error.hint, code=code, exit_code=exit_code)
    for kind, code, exit_code, hint in _KINDS:
        if isinstance(error, kind):
            listing = _LISTING.get(getattr(error, "what", ""), hint)
            return CommandError(str(error), listing, code=code, exit_code=exit_code)
    return CommandError(str(error), DOCTOR, code="failed", exit_code=ExitCode.CONFIGURATION)


T = TypeVar("T")


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


_EVERY: Final = 5.0  # seconds between two lines, where no bar can be drawn
_LEAST: Final = 50  # fewer steps need no progress


class Steps:
    """A bar with rate and remaining time where stderr is a terminal; else a plain line with the same every few seconds.

    Args:
        output: Whose stderr.
        total: How many steps there are; `None` where only `show` tells it.
        what: What a step is, in the plural.
    """

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
        """End; the bar goes, the numbers are told by the command."""
        if self._bar is not None:
            self._bar.stop()

    def advance(self, steps: int) -> None:
        """So many steps more are done."""
        self.show(self._done + steps, self._total or 0)

    def show(self, done: int, total: int) -> None:
        """So many of so many are done."""
        self._done, now = max(done, self._done), time.monotonic()
        if total < _LEAST:
            return
        rate = f"{self._done / max(now - self._began, 1e-6):.0f}/s"
        if self._output.err.is_terminal:
            self._draw(total, rate)
        elif now - self._last >= _EVERY:
            self._last = now
            left = (now - self._began) * (total - self._done) / max(self._done, 1)
            self._output.note(f"{self._done} of {total} {self._what}, {rate}, {left:.0f} s left")

    def _draw(self, total: int, rate: str) -> None:
        if self._bar is None:
            numbers = (MofNCompleteColumn(), TextColumn("{task.fields[rate]}"), TimeRemainingColumn())
            told = TextColumn("{task.description}")
            self._bar = Progress(told, BarColumn(), *numbers, console=self._output.err, transient=True)
            self._task = self._bar.add_task(self._what, total=total, rate="")
            self._bar.start()
        self._bar.update(self._task, completed=self._done, rate=rate)


class Patience:
    """Turns the first Ctrl-C into a wish to stop, so that what is under way is finished; the second one breaks it off.

    Attributes:
        asked: Whether somebody wants to stop.
    """

    def __init__(self, output: Output) -> None:
        self.asked = False
        self._breaks = False
        self._output = output
        self._mine = threading.current_thread() is threading.main_thread()  # others may not handle signals

    def __enter__(self) -> Self:
        """Listen."""
        if self._mine:
            self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        """Give Ctrl-C its usual meaning back."""
        if self._mine:
            signal.signal(signal.SIGINT, self._before)

    @contextmanager
    def breakable(self) -> Iterator[None]:
        """Work that the second Ctrl-C breaks off; what comes before and after it ends by itself, and is waited for."""
        self._breaks = True
        with suppress(KeyboardInterrupt):
            yield
        self._breaks = False

    def _ask(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self.asked and self._breaks:
            raise KeyboardInterrupt
        if not self.asked:
            self.asked = True
            self._output.note("finishing what is under way; press Ctrl-C again to break it off", "yellow")
