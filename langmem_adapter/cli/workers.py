"""Processes and connections of `serve`: workers that uvicorn starts and replaces; limits of headers, URLs and connections."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.supervisors import Multiprocess

from langmem_adapter.cli.options import Invocation
from langmem_adapter.cli.output import ExitCode
from langmem_adapter.errors import LangmemAdapterError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping

    from fastapi import FastAPI
    from uvicorn.server import ServerState

    from langmem_adapter.memory.memory import Memory

_log: Final = logging.getLogger("langmem_adapter.server")
_SHUTDOWN: Final = 300  # seconds that running requests have when the server stops
_HEALTHCHECK: Final = 30  # seconds without an answer after which a worker is killed
_MAX_HEADERS: Final = 65_536
_MAX_URL: Final = 8_192
_MAX_FRAMING: Final = 131_072  # bytes of a chunked body that are not data, beside half as many as its data
_MAX_UNREAD: Final = 65_536  # bytes of a body that are dropped after the answer, so that the connection stays usable
_LINGER: Final = 2.0  # seconds in which the client can read the answer before the connection is closed
_SEND_BUFFER: Final = 262_144  # bytes; with the kernel's megabytes a slow client seems to read nothing for minutes
_READ_TIME: Final = 3  # times the timeout of headers: in it the client reads more of an answer
_FORWARDED: Final = "X-Forwarded-For is not read, so all clients of a proxy share one limit: see --forwarded-allow-ips"
_LATE, _LONG_URL, _LONG_HEADERS = 408, 414, 431


# ── processes ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class ServedApp:
    """The arguments of `Invocation`, of its `memory`, and of `create_app`, which can be sent to another process."""

    options: Mapping[str, Any]
    graph: bool | None
    how: Mapping[str, Any]

    def app(self, memory: Memory, *, also: ExitStack | None = None) -> FastAPI:
        """The app of a memory; when it ends, it closes what *also* holds."""
        from langmem_adapter.server.app import create_app

        app = create_app(memory, **self.how)
        app.router.lifespan_context = _stoppable_lifespan(app, also or ExitStack())
        return app

    def __call__(self) -> FastAPI:
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


def serve_alone(app: FastAPI, listener: socket.socket, limits: ConnectionLimits) -> None:
    """Serve in this process until it is stopped; running requests are finished first."""
    with suppress(KeyboardInterrupt):
        uvicorn.Server(_Config(app, limits)).run(sockets=[listener])


def serve_together(served: ServedApp, listener: socket.socket, limits: ConnectionLimits, workers: int) -> None:
    """The same in several processes; one that dies is replaced."""
    with _metrics_folder():
        how: dict[str, Any] = {"workers": workers, "timeout_worker_healthcheck": _HEALTHCHECK}
        Multiprocess(_Config(served, limits, factory=True, **how), sockets=[listener]).run()


class _Config(uvicorn.Config):
    """Uvicorn's rules; it calls `configure_logging` in every process before anything else."""

    def __init__(self, app: Any, limits: ConnectionLimits, **more: Any) -> None:
        more |= {"proxy_headers": bool(limits.proxies), "forwarded_allow_ips": limits.proxies, "http": LimitedProtocol}
        more |= {"ws": "none", "log_config": None, "access_log": False, "server_header": False}
        more |= {"timeout_graceful_shutdown": _SHUTDOWN}
        super().__init__(app, **more)
        self.limits = limits

    def configure_logging(self) -> None:
        from langmem_adapter.server.log import write_log

        super().configure_logging()  # which silences its own log, that writes addresses down
        write_log()
        # Contract: uvicorn waits for the requests under way and then sends itself the signal again; the memory is closed
        # before or after that, in this thread. tests/cli/test_serve.py::test_serve_finishes_running_requests_before_it_stops
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(ExitCode.OK))


def _stoppable_lifespan(app: FastAPI, open_: ExitStack) -> Callable[[FastAPI], Any]:
    """The app's lifespan, in which open event streams end as soon as the process gets a signal to stop."""
    inner = app.router.lifespan_context
    before: dict[int, Any] = {}

    def handle(number: int, frame: Any) -> None:
        app.state.ending = True
        before[number](number, frame)

    @asynccontextmanager
    async def lifespan(running: FastAPI) -> AsyncIterator[Any]:
        # Contract: uvicorn's own handlers are set by now, and are called as well. What waits for the streams waits after that.
        # tests/cli/test_serve.py::test_serve_ends_open_event_streams_when_it_stops
        before.update({number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)})
        try:
            with open_:
                async with inner(running) as state:
                    yield state
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    return lifespan


def _end_with_parent() -> None:
    """End this worker when its parent process has ended."""
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def _metrics_folder() -> Iterator[None]:
    """A folder for the metrics of all processes, unless the environment names one."""
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


# ── connections ───────────────────────────────────────────────────────────────────────────────────────────────────────


class ConnectionLimits(NamedTuple):
    """How many connections a process has, seconds that headers take, and what proxies are believed, joined by commas."""

    connections: int
    timeout: float
    proxies: str


@cache
def _warn_once(message: str) -> None:
    _log.warning(message)


class _Connection(h11.Connection):
    """Reads requests; raises `RemoteProtocolError` for those that are too long, or have no single length."""

    def __init__(self, limits: ConnectionLimits) -> None:
        super().__init__(h11.SERVER, _MAX_HEADERS)
        self._limits = limits
        self.received = self._allowed = 0  # bytes
        self.status = 400

    def receive_data(self, data: bytes) -> None:
        self.received += len(data)
        super().receive_data(data)

    def next_event(self) -> Any:
        before = self.their_state
        try:
            event = super().next_event()
            self._check(event)
        except h11.RemoteProtocolError as error:
            self.status = error.error_status_hint
            is_long = before is h11.IDLE and self.status == _LONG_HEADERS and self.their_state is h11.ERROR
            if is_long and b"\n" not in self.trailing_data[0][:_MAX_URL]:
                self.status = _LONG_URL
            raise
        return event

    def _check(self, event: Any) -> None:
        if isinstance(event, h11.Request):
            if len(event.target) > _MAX_URL:
                raise h11.RemoteProtocolError("long URL", error_status_hint=_LONG_URL)
            _check_headers(event.headers)
            names = {name for name, _ in event.headers}
            # A proxy in front may take another length than h11 does, and what follows for another request (RFC 9112, 6.1).
            if b"transfer-encoding" in names and (b"content-length" in names or event.http_version < b"1.1"):
                raise h11.RemoteProtocolError("two lengths")
            if b"x-forwarded-for" in names and not self._limits.proxies:
                _warn_once(_FORWARDED)
            self._allowed = self.received - len(self.trailing_data[0]) + _MAX_FRAMING
        elif isinstance(event, h11.Data):
            self._allowed += len(event.data) + len(event.data) // 2
        elif event is h11.NEED_DATA and self.their_state is h11.SEND_BODY and self.received > self._allowed:
            raise h11.RemoteProtocolError("too many small chunks")
        elif isinstance(event, h11.EndOfMessage):
            _check_headers(event.headers)


def _check_headers(headers: Iterable[tuple[bytes, bytes]]) -> None:
    if sum(len(name) + len(value) + 4 for name, value in headers) > _MAX_HEADERS:
        raise h11.RemoteProtocolError("long headers", error_status_hint=_LONG_HEADERS)


class LimitedProtocol(H11Protocol):
    """A connection with limits, which are the `limits` of uvicorn's configuration."""

    conn: _Connection

    def __init__(
        self, config: uvicorn.Config, server_state: ServerState, app_state: dict[str, Any], **more: Any
    ) -> None:
        super().__init__(config, server_state, app_state, **more)
        self._limits: ConnectionLimits = getattr(config, "limits")  # noqa: B009 - an attribute of our subclass alone
        self.conn = _Connection(self._limits)
        self._timer: asyncio.TimerHandle | None = None
        self._mark = 0
        self._watcher: asyncio.TimerHandle | None = None
        self._is_ending = False
        self._is_refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Serve a connection, or close it where too many are open."""
        if len(self.connections) >= self._limits.connections:
            _warn_once(f"{self._limits.connections:,} connections are open; further ones are closed")
            self.transport = transport
            transport.abort()
            return
        super().connection_made(transport)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        self._wire = _Transport(transport, self)
        self.transport = cast("asyncio.Transport", self._wire)
        self._watch(-1)
        self._start_timer(self._limits.timeout, self._refuse, _LATE)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self._stop_timer()
        if self._watcher is not None:
            self._watcher.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read what arrived; drop it once the connection is about to be closed."""
        if self._is_ending or self._is_refused:
            return
        if self._is_answered and self.conn.received + len(data) - self._mark > _MAX_UNREAD:
            self._linger()
            return
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE and not self._is_answered and not self._is_ending:
            self._stop_timer()
        elif self._timer is None:  # a part of the headers of a further request
            self._start_timer(self._limits.timeout, self._refuse, _LATE)

    def on_response_complete(self) -> None:
        """Go on with the next request; one that is answered before it is complete gets a little more time."""
        super().on_response_complete()
        if self._is_answered and not self.transport.is_closing():
            self._mark = self.conn.received
            self._start_timer(min(self.timeout_keep_alive, self._limits.timeout), self._linger)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's, which does not know the status
        """Answer a request that cannot be read."""
        self._refuse(self.conn.status)

    def _unsupported_upgrade_warning(self) -> None:
        """Write nothing: there is no WebSocket here, and a client may ask for one."""

    def shutdown(self) -> None:
        """Close the connection, or let its request end first."""
        if not self._is_ending:
            super().shutdown()

    def close(self, transport: asyncio.Transport) -> None:
        """Close the connection; where more of a request may come, once the client had time to read the answer."""
        if self.conn.their_state is h11.SEND_BODY and not self._is_ending:
            self._linger()
        else:
            transport.close()

    @property
    def _is_answered(self) -> bool:
        """Whether the answer is complete and the request is not."""
        return self.conn.their_state is h11.SEND_BODY and self.cycle.response_complete

    def _watch(self, before: int) -> None:
        """Close the connection of a client that reads nothing of an answer; *before*: bytes sent at the last look."""
        unsent = self._wire.get_write_buffer_size()
        sent = self._wire.written - unsent
        if unsent and sent == before:
            self._wire.abort()
            return
        seconds = _READ_TIME * self._limits.timeout
        self._watcher = self.loop.call_later(seconds, self._watch, sent if unsent else -1)

    def _start_timer(self, seconds: float, call: Callable[..., None], *arguments: int) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, call, *arguments)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: int) -> None:
        """Answer, if nothing is answered yet, and close; a connection never used is closed silently.

        Where the app is reading the body it answers itself, since it knows what it did with the part that it has read.
        """
        if self.cycle is not None and not self.cycle.response_complete and self.conn.our_state is h11.SEND_RESPONSE:
            self._is_refused = True
            self.cycle.scope["state"]["refused"] = status
            self.cycle.message_event.set()
            return
        is_unused = self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE} and not is_unused:
            line, body = f"{status} {HTTPStatus(status).phrase}", json.dumps({"detail": HTTPStatus(status).description})
            headers = "content-type: application/json\r\nconnection: close\r\n"
            self.transport.write(f"HTTP/1.1 {line}\r\n{headers}\r\n{body}".encode())
        self._linger()

    def _linger(self) -> None:
        """Send nothing more, drop what arrives, and close soon: to close at once would lose the answer on its way."""
        self._is_ending = True
        self._unset_keepalive_if_required()
        if self.cycle is not None:  # the headers were read
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if not self.transport.is_closing():
            self.flow.resume_reading()
            self.transport.write_eof()
        self._start_timer(_LINGER, self.transport.abort)


class _Transport:
    """A transport that counts what is written, and that its protocol closes."""

    def __init__(self, transport: asyncio.Transport, protocol: LimitedProtocol) -> None:
        self._transport = transport
        self._protocol = protocol
        self.written = 0  # bytes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        self.written += len(data)
        self._transport.write(data)

    def close(self) -> None:
        self._protocol.close(self._transport)
