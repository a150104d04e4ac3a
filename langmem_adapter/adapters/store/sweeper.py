"""A thread that deletes expired items every few minutes, for as long as somebody wants it."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import TYPE_CHECKING

from langmem_adapter.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TTLSweeper"]

_log = logging.getLogger("langmem_adapter")


class TTLSweeper:
    """Sweeps at once, and then every so many minutes, until it is closed. It never keeps a program from ending.

    Attributes:
        done: Is set when the thread has ended; cancelling it ends the thread.
    """

    def __init__(self, sweep: Callable[[], int], minutes: float) -> None:
        self.done: Future[None] = Future()
        self._sweep = sweep
        self._seconds = minutes * 60
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="langmem-adapter ttl sweeper", daemon=True)
        self.done.add_done_callback(lambda _: self._stopping.set())
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether the thread lives."""
        return self._thread.is_alive()

    def close(self, timeout: float | None = None) -> bool:
        """End the thread, wait for it so many seconds (`None`: until it has ended), and tell whether it has ended."""
        self._stopping.set()
        self._thread.join(timeout)
        return not self.running

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._once()
            self._stopping.wait(self._seconds)
        with suppress(InvalidStateError):  # it was cancelled
            self.done.set_result(None)

    def _once(self) -> None:
        try:
            self._sweep()
        except StorageError as error:  # nobody waits for it: the next sweep tries again
            _log.warning("expired items were not swept: %s", error)
