"""A lock for many readers or one writer: native code that reads vectors while they move crashes the process."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ReadWriteLock"]


class ReadWriteLock:
    """Many readers at once, or one writer alone. Waiting writers go first, so that steady searches cannot starve an update.

    Not re-entrant: a thread that holds it, in whichever way, must not ask for it again.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())  # its lock is held while somebody writes
        self._readers = 0
        self._waiting = 0

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Hold it together with other readers."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting)
            self._readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold it alone."""
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: not self._readers)
            finally:
                self._waiting -= 1
                self._changed.notify_all()
            yield
