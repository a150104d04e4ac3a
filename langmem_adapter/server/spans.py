"""What spans of requests may say; FastAPI itself makes them, as part of the trace that a caller is in (`traceparent`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from langmem_adapter import telemetry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["TELEMETRY", "Discreet"]

TELEMETRY: Final[Mapping[str, Any]] = {"logs": False, "operation_spans": False}
"""How FastAPI is told to: without the texts of errors, which may quote a memory, and without its own inner steps."""


class Discreet:
    """Takes path and query from the span of a request: they hold ids, and names of people. The route's template stays.

    Args:
        app: What is behind it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through."""
        trace = telemetry.api()
        if trace is not None and scope["type"] == "http":
            # Now, since the span ends with the answer: what it began with can be written over, not taken back.
            trace.get_current_span().set_attributes({"url.path": "REDACTED", "url.query": "REDACTED"})
        await self._app(scope, receive, send)
