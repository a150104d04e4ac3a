"""Locks that a forked child finds free."""

from __future__ import annotations

import os
import threading
from typing import Final
from weakref import WeakSet

__all__ = ["Lock"]


class Lock:
    """A lock for what the whole process shares, so that a child forked while another thread holds it does not wait for ever.

    Contract: what it guards is whole at every moment, or harmless where it is not, since the child goes on with it as it
    was. Proven by tests/test_forks.py.

    Example:
        >>> lock = Lock()
        >>> with lock:
        ...     pass
    """

    def __init__(self) -> None:
        self.renew()
        _EVERY.add(self)

    def renew(self) -> None:
        """Be free, whoever held it."""
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        """Wait for it."""
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        """Let go."""
        self._lock.release()


_EVERY: Final[WeakSet[Lock]] = WeakSet()


def _in_child() -> None:
    for lock in list(_EVERY):
        lock.renew()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_in_child)
