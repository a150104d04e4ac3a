"""Locks, caches and properties that a forked child can use."""

from __future__ import annotations

import os
import threading
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, overload
from weakref import WeakSet

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Lock:
    """A lock that is free in a forked child, whichever thread held it.

    Contract: what it guards is whole at every moment, or harmless where it is not, since the child goes on with it as it
    was: tests/test_forks.py.
    """

    def __init__(self) -> None:
        self.renew()
        _EVERY.add(self)

    def renew(self) -> None:
        """Release it, whichever thread held it."""
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        """Wait for it."""
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        """Let go."""
        self._lock.release()


class cached_property(Generic[T]):  # noqa: N801 - it stands for functools' own
    """`functools.cached_property` without the lock that it has before Python 3.12.

    That lock is one for all instances of a class, and a child forked while another thread holds it waits for ever.

    Contract: two threads that ask at once may both compute the value, and the later one is kept; let nothing depend on which.
    tests/test_forks.py.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        """Learn where instances keep the value."""
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object, owner: type) -> T | Self:
        """Compute the value, and let the instance's own dictionary answer from now on."""
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value


_EVERY: Final[WeakSet[Lock]] = WeakSet()


def _in_child() -> None:
    for lock in list(_EVERY):
        lock.renew()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_in_child)


F = TypeVar("F", bound="Callable[..., Any]")

_LETTERS: Final = 2_000_000  # of each function; what is kept of a text takes some twenty times as many bytes
_FORGETTING: Final[list[Callable[[], None]]] = []


def bounded_cache(most: int) -> Callable[[F], F]:
    """Keep what a function made of the last *most* texts, and of fewer where they are long."""

    def keeping(function: F) -> F:
        letters = 0

        @wraps(function)
        def compute(*args: Any) -> Any:
            nonlocal letters
            size = len(repr(args))
            letters += size
            if letters > _LETTERS:  # counted here alone: what is kept answers at the speed of C
                letters = size
                kept.cache_clear()
            return function(*args)

        kept: Any = lru_cache(most)(compute)
        _FORGETTING.append(kept.cache_clear)
        return kept  # type: ignore[no-any-return]

    return keeping


def clear_caches() -> None:
    """Let go of all of it, in this process: what was erased may be among the texts."""
    for each in _FORGETTING:
        each()
