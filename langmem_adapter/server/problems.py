"""Errors as answers: `{"detail"}` on Mem0's routes, problem details (RFC 9457) on ours, HTML on the page."""

from __future__ import annotations

import json
import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from langmem_adapter.errors import LangmemAdapterError, outcome_of
from langmem_adapter.records.checks import redact_urls
from langmem_adapter.server.auth import ForbiddenError, NobodyError
from langmem_adapter.server.log import logged
from langmem_adapter.storage.jobs import QueueFullError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import Send

_log = logging.getLogger("langmem_adapter.server")

OURS: Final = "/v1"
"""Where our own routes begin."""
PAGE: Final = "/ui"
"""Where the web page is."""
_MOST_PROBLEMS: Final = 100  # that an answer lists: a body may have millions
_STATUS: Final = {NobodyError: 401, ForbiddenError: 403, QueueFullError: 429}  # the others: `errors.outcome_of`


def answer_errors(app: FastAPI) -> None:
    """Let an app answer every error in the form of the route that it happened on."""
    app.add_exception_handler(LangmemAdapterError, _answer_own)
    app.add_exception_handler(HTTPException, _answer_http)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(ClientDisconnect, _answer_disconnect)
    app.add_exception_handler(Exception, _answer_unexpected)


def problem(request: Request, status: int, detail: Any, headers: Mapping[str, str] | None = None) -> Response:
    """An error as an answer; *detail*: what is wrong, and what to do, a list where several fields are."""
    path = request.url.path.removeprefix(request.scope.get("root_path", ""))
    more = dict(headers or {})
    if is_page(path):
        view: Response = request.app.state.refuse(request, status, detail, more)
        return view
    if status == HTTPStatus.UNAUTHORIZED:
        more["www-authenticate"] = "Bearer"
    if not path.startswith(f"{OURS}/"):
        return _EscapedJSON({"detail": detail}, status, more)
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    if not isinstance(detail, str):
        body |= {"detail": "the request is not understood", "errors": detail}
    body["instance"] = f"urn:request:{request.state.request_id}"
    if hasattr(request.state, "progress"):  # part of the work is done
        body |= request.state.progress()
    return _EscapedJSON(body, status, more, media_type="application/problem+json")


def is_page(path: str) -> bool:
    """Whether a path of the app is one of the web page's."""
    return f"{path}/".startswith(f"{PAGE}/")


class _EscapedJSON(JSONResponse):
    """JSON that may quote what was sent: half of a surrogate pair, which UTF-8 does not have, becomes its escape."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, ensure_ascii=False).encode(errors="backslashreplace")


class Streamed(StreamingResponse):
    """An answer that is sent in parts; where it cannot go on it breaks off, which every client notices."""

    async def stream_response(self, send: Send) -> None:
        """Send the parts; an error leaves the answer without its end."""
        try:
            await super().stream_response(send)
        except LangmemAdapterError as error:
            _log.warning("an answer was broken off: %s", logged(error))


def answer_of(error: BaseException, number: str) -> dict[str, Any]:
    """HTTP's `status` and the `detail` of an error; of an unexpected one only its *number* in the log."""
    if not isinstance(error, LangmemAdapterError):
        return {"status": 500, "detail": f"something went wrong here; the log has it under {number}"}
    status = next((status for kind, status in _STATUS.items() if isinstance(error, kind)), outcome_of(error).status)
    return {"status": status, "detail": redact_urls(error.brief)}


def _answer_own(request: Request, error: Exception) -> Response:
    answer = answer_of(error, request.state.request_id)
    if answer["status"] >= HTTPStatus.INTERNAL_SERVER_ERROR:
        _log.warning("%s: %s", request.state.request_id, logged(error))
    wait = {"retry-after": "10"} if answer["status"] == HTTPStatus.TOO_MANY_REQUESTS else {}
    return problem(request, answer["status"], answer["detail"], wait)


def _answer_http(request: Request, error: Any) -> Response:
    return problem(request, error.status_code, error.detail, error.headers)


def _answer_invalid(request: Request, error: Any) -> Response:
    # What was sent is not sent back: it may be a secret in the wrong place.
    errors = error.errors()[:_MOST_PROBLEMS]
    detail = [{"loc": [*each["loc"]], "msg": each["msg"], "type": each["type"]} for each in errors]
    return problem(request, HTTPStatus.UNPROCESSABLE_ENTITY, detail)


def _answer_disconnect(request: Request, _: Exception) -> Response:
    _log.warning("%s: the client broke off", request.state.request_id)
    return problem(request, HTTPStatus.BAD_REQUEST, "the body was broken off")  # only for the log


def _answer_unexpected(request: Request, error: Exception) -> Response:
    number, answer = request.state.request_id, answer_of(error, request.state.request_id)
    _log.error("%s: %s", number, type(error).__name__, exc_info=error)
    # This answer does not pass the guard, which adds the request id otherwise.
    return problem(request, answer["status"], answer["detail"], {"x-request-id": number})
