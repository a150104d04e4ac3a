"""Child processes for the fault tests, forked from a server that has everything imported: one costs milliseconds."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from contextlib import chdir
from multiprocessing import forkserver
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.faults.kernel import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkServerProcess

__all__ = ["call", "start"]

_FORKS: Final = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        "langmem_adapter.cli.app",
        "langmem_adapter.index.faiss",
        "langmem_adapter.mirror.mirror",
        "langmem_adapter.server.app",
        "uvicorn",
        "tests.faults.warm",
    ]
)
_ROOT: Final = Path(__file__).parents[2]


def start(function: Callable[..., object], *arguments: object) -> ForkServerProcess:
    """Start a child that runs a function; whoever starts it kills or joins it."""
    with chdir(_ROOT):  # from where it finds `tests`
        forkserver.ensure_running()
    process = _FORKS.Process(target=_run, args=(function, arguments), daemon=True)
    process.start()
    return process


def call(function: Callable[..., Any], *arguments: object, seconds: float = 60) -> Any:
    """What a function returns when a child runs it; an error there is an `AssertionError` here."""
    receiving, sending = _FORKS.Pipe(duplex=False)
    process = start(_answer, sending, function, arguments)
    sending.close()
    try:
        assert receiving.poll(seconds), f"{function.__name__} took longer than {seconds} seconds"
        error, result = receiving.recv()
    except EOFError:
        process.join()
        raise AssertionError(f"{function.__name__} died with exit code {process.exitcode}") from None
    finally:
        process.kill()
        process.join()
        process.close()
        receiving.close()
    assert error is None, error
    return result


def _run(function: Callable[..., object], arguments: tuple[object, ...]) -> None:
    die_with_parent(os.getppid())
    function(*arguments)


def _answer(sending: Connection, function: Callable[..., Any], arguments: tuple[object, ...]) -> None:
    try:
        sending.send((None, function(*arguments)))
    except BaseException:  # noqa: BLE001 - whatever it is, the parent raises it
        sending.send((traceback.format_exc(), None))
