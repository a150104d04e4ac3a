"""`langmem-adapter serve` in a process of its own, for tests that call it."""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from tests.programs import COMMAND, Program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["served", "stopped", "within_a_minute"]


def within_a_minute(what: Callable[[], Any]) -> Any:
    """What a function returns once that is true."""
    until = time.monotonic() + 60
    while not (found := what()):
        assert time.monotonic() < until, "it never came"
        time.sleep(0.01)
    return found


@contextmanager
def served(
    database: object, *options: str, program: tuple[object, ...] = COMMAND, **more: str
) -> Iterator[tuple[Program, str]]:
    """A server, which the block must stop or kill, and its address.

    Args:
        database: Its path or URL.
        options: Of `serve`.
        program: Arguments of Python that come before those of the command.
        more: Variables of its environment.
    """
    running = Program(*program, "-d", database, "serve", "--port", "0", *options, **more)
    try:
        address = within_a_minute(lambda: running.said().strip() or not running.runs())
        assert isinstance(address, str), running.end().stderr
        yield running, address
    except BaseException:
        with suppress(ValueError):  # it has been stopped
            running.send(signal.SIGKILL)
            running.end()
        raise


def stopped(running: Program, number: int = signal.SIGTERM) -> str:
    """Tell a server to stop, and wait until it has; what it wrote to its standard error."""
    running.send(number)
    done = running.end()
    assert done.returncode == 0, done.stderr
    return done.stderr
