"""One thread in the background, for work that nobody waits for: merging an index into a new file."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Background"]


class Background:
    """Runs one piece of work at a time. The thread ends with its work, and never keeps a program from ending.

    Args:
        name: The thread's name, for whoever looks at a running program.

    Example:
        >>> background, done = Background("example"), []
        >>> background.start(lambda: done.append("tidied"))
        True
        >>> background.close()
        >>> done, background.start(done.clear)
        (['tidied'], False)
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    def start(self, work: Callable[[], None]) -> bool:
        """Begin *work* if nothing is running and it is not closed.

        Returns:
            Whether it was begun.
        """
        with self._guard:
            if self._closing.is_set() or (self._thread is not None and self._thread.is_alive()):
                return False
            self._thread = threading.Thread(target=work, name=self._name, daemon=True)
            self._thread.start()
            return True

    def pause(self, seconds: float) -> bool:
        """For the work itself: leave the processor to others, and learn whether to give up because of closing."""
        return self._closing.wait(seconds)

    def wait(self) -> None:
        """Wait until what is running has finished."""
        thread = self._thread
        # Contract: in rounds, so that a Ctrl-C is seen: see `BackgroundWriter`.
        # `test_closing_waits_for_it_and_leaves_everything_written`
        while thread is not None and thread.is_alive():
            thread.join(timeout=1)

    def close(self) -> None:
        """Begin nothing any more, and wait until what is running has finished."""
        with self._guard:
            self._closing.set()
        self.wait()
