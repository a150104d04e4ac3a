"""The processes behind `serve`: one that is this very process, or several that uvicorn starts, watches and replaces."""

import logging
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

import uvicorn
from uvicorn.supervisors import Multiprocess

from langmem_adapter.cli.options import Invocation
from langmem_adapter.cli.output import ExitCode
from langmem_adapter.errors import LangmemAdapterError
from langmem_adapter.server.connections import ConnectionLimits, LimitedProtocol

if TYPE_CHECKING:
    from fastapi import FastAPI

    from langmem_adapter.memory.memory import Memory

_log: Final = logging.getLogger("langmem_adapter.server")
_PATIENCE: Final = 300  # seconds that requests under way have when the server is told to stop
_SIGN_OF_LIFE: Final = 30  # seconds within which a worker must show one; it is killed otherwise


@dataclass(frozen=True)
class ServedApp:
    """What is served: arguments of `Invocation`, of its `memory`, and of `create_app`, which another process can be given."""

    options: Mapping[str, Any]
    graph: bool | None
    how: Mapping[str, Any]

    def app(self, memory: "Memory", *, also: ExitStack | None = None) -> "FastAPI":
        """The app of a memory; when it ends, it closes what *also* holds."""
        from langmem_adapter.server.app import create_app

        app = create_app(memory, **self.how)
        app.router.lifespan_context = _until_told(app, also or ExitStack())
        return app

    def __call__(self) -> "FastAPI":
        """The app of a worker, which opens the memory itself and closes it when it ends."""
        Thread(target=_end_with_parent, daemon=True, name="parent").start()
        call = Invocation("serve", dict(self.options))
        with ExitStack() as open_:
            try:
                memory = open_.enter_context(call.memory(create=True, quiet=True, graph=self.graph))
            except LangmemAdapterError as error:
                _log.error("a worker cannot open the memory: %s", error)
                sys.exit(ExitCode.UNREACHABLE)
            return self.app(memory, also=open_.pop_all())


def serve_alone(app: "FastAPI", listener: socket.socket, limits: ConnectionLimits) -> None:
    """Serve in this process until it is told to stop; what is under way is then done first."""
    with suppress(KeyboardInterrupt):
        uvicorn.Server(_Config(app, limits)).run(sockets=[listener])


def serve_together(served: ServedApp, listener: socket.socket, limits: ConnectionLimits, workers: int) -> None:
    """The same in several processes; one that dies is replaced."""
    with _counting_together():
        how: dict[str, Any] = {"workers": workers, "timeout_worker_healthcheck": _SIGN_OF_LIFE}
        Multiprocess(_Config(served, limits, factory=True, **how), sockets=[listener]).run()


_RULES: Final[Mapping[str, Any]] = {
    "http": LimitedProtocol,
    "ws": "none",
    "log_config": None,
    "access_log": False,
    "server_header": False,
    "timeout_graceful_shutdown": _PATIENCE,
}


class _Config(uvicorn.Config):
    """Uvicorn's rules; it calls `configure_logging` in every process before anything else."""

    def __init__(self, app: Any, limits: ConnectionLimits, **more: Any) -> None:
        more |= {"proxy_headers": bool(limits.proxies), "forwarded_allow_ips": limits.proxies}
        super().__init__(app, **_RULES, **more)
        self.limits = limits

    def configure_logging(self) -> None:
        from langmem_adapter.server.log import write_log

        super().configure_logging()  # which silences a log of its own, that writes addresses down
        write_log()
        # Contract: uvicorn waits for the requests under way and then sends itself the signal again; the memory is closed
        # before or after that, in this thread. tests/cli/test_serve.py::test_what_is_under_way_is_done_before_it_stops
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(ExitCode.OK))


def _until_told(app: "FastAPI", open_: ExitStack) -> Callable[["FastAPI"], Any]:
    """The app's lifespan, in which open event streams end as soon as the process is told to stop."""
    inner = app.router.lifespan_context

    def stop() -> None:
        app.state.ending = True

    @asynccontextmanager
    async def lifespan(running: "FastAPI") -> AsyncIterator[Any]:
        with open_, _hearing(stop):
            async with inner(running) as state:
                yield state

    return lifespan


@contextmanager
def _hearing(stop: Callable[[], None]) -> Iterator[None]:
    # Contract: uvicorn's own handlers stand by now, and are called as well. What waits for the streams waits after that.
    # tests/cli/test_serve.py::test_an_open_event_stream_ends_with_the_server
    before: dict[int, Any] = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def heard(number: int, frame: Any) -> None:
        stop()
        before[number](number, frame)

    for number in before:
        signal.signal(number, heard)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_with_parent() -> None:
    """Without whoever watches it, and would tell it to stop, a worker ends."""
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def _counting_together() -> Iterator[None]:
    """A folder in which the processes count together, if they count at all; somebody else's where one is named."""
    name = "PROMETHEUS_MULTIPROC_DIR"  # its reader may not be installed
    if name in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="langmem-adapter-") as folder:
        os.environ[name] = folder
        try:
            yield
        finally:
            del os.environ[name]
