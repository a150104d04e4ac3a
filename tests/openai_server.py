"""A small local server that speaks OpenAI's chat and embeddings protocol, for tests with the real client.

    with OpenAIServer([{"facts": []}, 429, "plain text"]) as server:
        settings = Settings(base_url=server.url)

A step of the script is served to one chat request, in order; a function of the request serves all of them. Embeddings need
no script: they are hash vectors, the same for the same text for ever.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np

from langmem_adapter.embedding.models import HashEmbeddings

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Failure", "OpenAIServer", "Page", "Request", "Stalled"]


@dataclass(frozen=True)
class Failure:
    """An HTTP error.

    Attributes:
        status: Its code.
        message: The text of the error body.
        headers: Sent along; by default the client is told to retry without waiting.
    """

    status: int
    message: str = "scripted failure"
    headers: dict[str, str] = field(default_factory=lambda: {"retry-after-ms": "1"})


@dataclass(frozen=True)
class Page:
    """What a web server sends that is no model: HTML."""

    text: str = "<html><body>It works!</body></html>"


@dataclass(frozen=True)
class Stalled:
    """A response that begins, goes on a byte at a time, and does not end before the test says so."""

    until: Event


@dataclass(frozen=True)
class Request:
    """What a client sent."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str]


Odd: TypeAlias = Failure | Page | Stalled
Step: TypeAlias = str | dict[str, Any] | int | Odd
"""A text; a message (`content`, `tool_calls`, `refusal`, `finish_reason`); any other object: that JSON, sent in the way the
request asks for (tool call or text); a status."""
Script: TypeAlias = Sequence[Step] | Callable[[dict[str, Any]], Step]

_MESSAGE_KEYS = {"content", "tool_calls", "refusal", "finish_reason"}


class OpenAIServer:
    """The server, as a context manager; it listens on a free port of 127.0.0.1.

    Args:
        chat: The script for chat requests.
        dimensions: Length of vectors where a request does not say.
        vectors: What goes wrong with requests for embeddings, if anything does; or a function of the request's body that says
            so for each.
        supports: Ways of asking that are served; `response_format` or `tools` get a 400 that names them if left out.
    """

    def __init__(
        self,
        chat: Script = (),
        *,
        dimensions: int = 64,
        vectors: Odd | Callable[[dict[str, Any]], Odd | None] | None = None,
        supports: Sequence[str] = ("response_format", "tools"),
    ) -> None:
        self._chat = chat
        self._dimensions = dimensions
        self.vectors = vectors
        self._supports = set(supports)
        self._lock = Lock()
        self._served = 0
        self._requests: list[Request] = []
        self._server = _Listening(self.answer)
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def requests(self) -> list[Request]:
        with self._lock:
            return list(self._requests)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, request: Request) -> dict[str, Any] | Odd:
        """The body of a response, or a failure."""
        with self._lock:
            self._requests.append(request)
        if request.path.endswith("/embeddings"):
            wrong = self.vectors(request.body) if callable(self.vectors) else self.vectors
            return wrong or self._embeddings(request.body)
        if not request.path.endswith("/chat/completions"):
            return Failure(404, f"no such path: {request.path}")
        for name in ("response_format", "tools"):
            if name in request.body and name not in self._supports:
                return Failure(400, f"{name} is not supported by this server")
        return self._completion(self._step(request.body), request.body)

    def _step(self, body: dict[str, Any]) -> Step:
        if callable(self._chat):
            return self._chat(body)
        with self._lock:
            place, self._served = self._served, self._served + 1
        return self._chat[place] if place < len(self._chat) else Failure(418, "the script has run out")

    def _completion(self, step: Step, body: dict[str, Any]) -> dict[str, Any] | Odd:
        if isinstance(step, int):
            return Failure(step)
        if isinstance(step, Odd):
            return step
        message = _message(step, body)
        ending = message.pop("finish_reason", "tool_calls" if message.get("tool_calls") else "stop")
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": body.get("model", "scripted"),
            "choices": [{"index": 0, "finish_reason": ending, "message": message}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        }

    def _embeddings(self, body: dict[str, Any]) -> dict[str, Any]:
        given = body["input"]
        texts = [given] if isinstance(given, str) else [item if isinstance(item, str) else str(item) for item in given]
        vectors = HashEmbeddings(body.get("dimensions") or self._dimensions).embed_documents(texts)
        packed = [_base64(vector) if body.get("encoding_format") == "base64" else vector for vector in vectors]
        return {
            "object": "list",
            "model": body.get("model"),
            "data": [{"object": "embedding", "index": place, "embedding": each} for place, each in enumerate(packed)],
            "usage": {"prompt_tokens": len(texts), "total_tokens": len(texts)},
        }


class _Listening(ThreadingHTTPServer):
    def __init__(self, answer: Callable[[Request], dict[str, Any] | Odd]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer


class _Handler(BaseHTTPRequestHandler):
    server: _Listening
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        headers = {name.casefold(): value for name, value in self.headers.items()}
        response = self.server.answer(Request(self.path, body, headers))
        if isinstance(response, Odd):
            self._send_odd(response)
        elif body.get("stream"):
            self._send(200, _events(response), "text/event-stream", {})
        else:
            self._send(200, json.dumps(response), "application/json", {})

    def _send_odd(self, response: Odd) -> None:
        if isinstance(response, Failure):
            told = {"error": {"message": response.message, "type": "invalid_request_error", "code": None}}
            self._send(response.status, json.dumps(told), "application/json", response.headers)
        elif isinstance(response, Page):
            self._send(200, response.text, "text/html", {})
        else:
            self._stall(response.until)

    def _stall(self, until: Event) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        with suppress(OSError):  # the client has gone
            while not until.wait(0.01):
                self.wfile.write(b" ")
        self.close_connection = True

    def _send(self, status: int, text: str, kind: str, headers: dict[str, str]) -> None:
        body = text.encode()
        self.send_response(status)
        every = {"Content-Type": kind, "Content-Length": str(len(body)), "Connection": "close", **headers}
        for name, value in every.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's word
        """Stay quiet."""


def _message(step: str | dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    if isinstance(step, str):
        return {"role": "assistant", "content": step}
    if step.keys() & _MESSAGE_KEYS:
        return {"role": "assistant", "content": None, **step}
    if body.get("tools"):
        return {"role": "assistant", "content": None, "tool_calls": [_call(body["tools"][0]["function"]["name"], step)]}
    return {"role": "assistant", "content": json.dumps(step, ensure_ascii=False)}


def _call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    told = json.dumps(arguments, ensure_ascii=False)
    return {"id": "call_1", "type": "function", "function": {"name": name, "arguments": told}}


def _events(completion: dict[str, Any]) -> str:
    choice = completion["choices"][0]
    message = choice["message"]
    calls = [{"index": place, **call} for place, call in enumerate(message.get("tool_calls") or ())]
    delta = {**message, **({"tool_calls": calls} if calls else {})}
    base = {**completion, "object": "chat.completion.chunk"}
    chunks = [
        {**base, "usage": None, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**base, "usage": None, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]},
        {**base, "choices": []},
    ]
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"


def _base64(vector: list[float]) -> str:
    return base64.b64encode(np.asarray(vector, "<f4").tobytes()).decode()
