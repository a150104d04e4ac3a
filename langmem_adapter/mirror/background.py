"""A mirror that is kept up to date by a thread of its own, for as long as a memory is open."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Final

from langmem_adapter.twins import attempt

if TYPE_CHECKING:
    from collections.abc import Callable

    from langmem_adapter.mirror.mirror import Mirror

__all__ = ["Following"]

_log = logging.getLogger("langmem_adapter")

_AGAIN: Final = 60.0  # seconds after which what was refused is tried once more
_PATIENCE: Final = 30.0  # seconds that closing waits for a server that does not get on


class Following:
    """Keeps a mirror up to date in the background, looks at the change feed *every* so many seconds, and closes it in the end.

    If the graph server fails, the memory does not notice: the log says what went wrong, and it is tried again.
    """

    def __init__(self, mirror: Mirror, *, every: float = 1.0) -> None:
        self._mirror = mirror
        self._every = every
        self._stop = threading.Event()
        self._told = ""
        # A daemon: what is missing there is mirrored when the memory is next opened, so no program has to wait for it.
        self._thread = threading.Thread(target=self._work, name="langmem-mirror", daemon=True)
        self._thread.start()
        self._process = os.getpid()
        atexit.register(self._end)  # many a program never closes its memory: `test_background.py`

    def close(self) -> None:
        """Mirror what is left, unless the server is away, and end; without it where the server stops answering."""
        atexit.unregister(self._end)
        self._stop.set()
        steps, until = -1, 0.0
        while self._thread.is_alive() and (steps != self._mirror.steps or time.monotonic() < until):
            if steps != self._mirror.steps:
                steps, until = self._mirror.steps, time.monotonic() + _PATIENCE
            self._thread.join(1)  # in rounds, so that a Ctrl-C is seen: see `BackgroundWriter`
        if self._thread.is_alive():
            _log.warning(
                "the graph is mirrored up to change %d; the rest when the memory is next opened", self._mirror.applied
            )

    def _end(self) -> None:
        if os.getpid() == self._process:  # a forked child has no such thread, and its lock may be held for ever
            self.close()

    def _work(self) -> None:
        goes_well = True
        with self._mirror:
            while not self._stop.is_set():
                goes_well = self._attempt(lambda: self._mirror.follow(self._stop, every=self._every))
                self._stop.wait(_AGAIN)
            if goes_well:
                self._attempt(self._mirror.run_once)

    def _attempt(self, work: Callable[[], object]) -> bool:
        outcome = attempt(work)
        if outcome.error is not None:
            told = str(outcome.error)
            level = logging.DEBUG if told == self._told else logging.WARNING
            _log.log(level, "the graph is not mirrored now: %s", told)
            self._told = told
        return outcome.error is None and bool(outcome.result)
