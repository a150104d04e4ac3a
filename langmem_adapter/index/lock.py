"""A lock for many readers or one writer: native code that reads vectors while they move crashes the process."""

from __future__ import annotations

import threading

__all__ = ["ReadWriteLock"]


class ReadWriteLock:
    """Many readers at once, or one writer alone. Waiting writers go first, so that steady searches cannot starve an update.

    Not re-entrant: a thread that holds it, in whichever way, must not ask for it again.

    Example:
        >>> lock = ReadWriteLock()
        >>> with lock.reading():
        ...     pass
        >>> with lock.writing():
        ...     pass
    """

    def __init__(self) -> None:
        # Made once, and no generators: those take longer than a search among a hundred vectors.
        state = _State()
        self._reading, self._writing = _Reading(state), _Writing(state)

    def reading(self) -> _Reading:
        """Hold it together with other readers."""
        return self._reading

    def writing(self) -> _Writing:
        """Hold it alone."""
        return self._writing


class _State:
    """Who holds the lock and who waits for it."""

    __slots__ = ("changed", "lock", "readers", "waiting", "writing")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)  # taken through the lock itself, which takes half as long
        self.readers = 0
        self.writing = False
        self.waiting = 0


class _Reading:
    __slots__ = ("_state",)

    def __init__(self, state: _State) -> None:
        self._state = state

    def __enter__(self) -> None:
        state = self._state
        with state.lock:
            while state.writing or state.waiting:
                state.changed.wait()
            state.readers += 1

    def __exit__(self, *_: object) -> None:
        state = self._state
        with state.lock:
            state.readers -= 1
            if not state.readers and state.waiting:
                state.changed.notify_all()


class _Writing:
    __slots__ = ("_state",)

    def __init__(self, state: _State) -> None:
        self._state = state

    def __enter__(self) -> None:
        state = self._state
        with state.lock:
            state.waiting += 1
            try:
                while state.writing or state.readers:
                    state.changed.wait()
                state.writing = True
            finally:
                state.waiting -= 1
                if not state.writing:  # interrupted while waiting: the readers behind it go on
                    state.changed.notify_all()

    def __exit__(self, *_: object) -> None:
        state = self._state
        with state.lock:
            state.writing = False
            state.changed.notify_all()
