"""One thread in the background, for work that nobody waits for: merging an index into a new file."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Background"]


class Background:
    """Runs one piece of work at a time, in a thread that never keeps a program from ending."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    def start(self, work: Callable[[], None]) -> bool:
        """Begin *work* if nothing is running and it is not closed, and tell whether it was begun."""
        with self._guard:
            if self._closed or (self._thread is not None and self._thread.is_alive()):
                return False
            self._thread = threading.Thread(target=work, name=self._name, daemon=True)
            self._thread.start()
            return True

    def wait(self) -> None:
        """Wait until what is running has finished."""
        thread = self._thread
        while thread is not None and thread.is_alive():  # in rounds, for the same reason as `BackgroundWriter`
            thread.join(timeout=1)

    def close(self) -> None:
        """Begin nothing any more, and wait until what is running has finished."""
        with self._guard:
            self._closed = True
        self.wait()
