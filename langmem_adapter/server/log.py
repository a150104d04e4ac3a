"""Request log: a line of JSON and an OpenTelemetry span for each request, without texts, ids or names."""

from __future__ import annotations

import json
import logging
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter import tracing
from langmem_adapter.errors import ModelError, StorageError
from langmem_adapter.records.checks import redact_urls

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_log: Final = logging.getLogger("langmem_adapter.server")
_FIELDS: Final = "fields"
_OURS: Final = ("langmem_adapter", "uvicorn")
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})  # callers may invent others


class JSONLines(logging.Formatter):
    """A record as one line of JSON; of an error its kind and where it was raised, since its message may quote a memory."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {"time": at, "level": record.levelname, "logger": record.name}
        # The SDK of MCP quotes what clients sent, partly by the root's logger: of its records only where.
        is_ours = record.name.startswith(_OURS) or "mcp" not in Path(record.pathname).parts
        message = record.getMessage() if is_ours else f"{record.pathname}:{record.lineno} {record.funcName}"
        line |= {"message": message, **getattr(record, _FIELDS, {})}
        if (error := record.exc_info[1] if record.exc_info else None) is not None:
            frames = traceback.extract_tb(error.__traceback__)
            line["error"] = type(error).__name__
            line["raised"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        return json.dumps(line, ensure_ascii=False)


class Logged:
    """Writes a line for each request: route, status, time, caller; no path and no query, which hold ids and names."""

    def __init__(self, app: ASGIApp, *, count: Callable[[str, str, int, float], None] | None = None) -> None:
        self._app = app
        self._count = count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, and write it down."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # Now, since the span ends with the answer: what it began with can be written over, not taken back.
        if (trace := tracing.api()) is not None:
            trace.get_current_span().set_attributes({"url.path": "REDACTED", "url.query": "REDACTED"})
        began, status = time.perf_counter(), 500

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            seconds = time.perf_counter() - began
            method, route, state = scope["method"], getattr(scope.get("route"), "path", None), scope.get("state", {})
            fields = {"method": method, "route": route, "status": status, "ms": round(seconds * 1000, 1)}
            fields |= {"request_id": state.get("request_id"), "caller": state.get("caller")}
            if (trace_id := tracing.trace_id()) is not None:
                fields["trace_id"] = trace_id
            _log.info("request", extra={_FIELDS: fields})
            if self._count is not None:
                self._count(method if method in _METHODS else "_OTHER", route or "", status, seconds)


def logged(error: BaseException) -> str:
    """What the log says of an error: nothing that may quote keys or memories, as the words of a provider do."""
    if isinstance(error, ModelError) and error.__cause__ is not None:
        return f"{type(error).__name__}: {error.brief} ({type(error.__cause__).__name__})"
    words = f": {redact_urls(str(error)).partition(chr(10))[0]}" if isinstance(error, StorageError) else ""
    return f"{type(error).__name__}{words}"


def write_log() -> None:
    """Let this process write its log to standard error, as lines of JSON."""
    lines = logging.StreamHandler()
    lines.setFormatter(JSONLines())
    logging.basicConfig(handlers=[lines], level=logging.WARNING)
    for name in _OURS:
        logging.getLogger(name).setLevel(logging.INFO)
