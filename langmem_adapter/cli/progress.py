"""Progress on stderr, and an interrupt that loses nothing."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from langmem_adapter.cli.output import Output

__all__ = ["Patience", "Steps"]

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
