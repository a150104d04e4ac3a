"""Requests as spans: part of their caller's trace, and silent about who asked for what."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from langmem_adapter.server.log import JSONLines
from tests.server.conftest import client
from tests.spans import recorded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from starlette.requests import HTTPConnection

    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.server.auth import Principal

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    with recorded(monkeypatch) as kept:
        yield kept


def test_request_span_joins_the_trace_of_its_caller(
    memory: Memory, spans: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    http = client(memory, auth="local")
    with caplog.at_level(logging.INFO, "langmem_adapter.server"):
        http.get("/memories?user_id=zebrafish", headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})
    http.post("/search", json={"query": "zebrafish", "user_id": "zebrafish"})
    listed, searched, request = spans.get_finished_spans()
    assert listed.parent is not None
    assert (f"{listed.context.trace_id:032x}", f"{listed.parent.span_id:016x}") == (TRACE, PARENT)
    assert (listed.name, listed.kind, searched.name) == ("GET /memories", SpanKind.SERVER, "search_memory")
    assert searched.parent == request.context and request.parent is None
    wanted = {"http.request.method": "POST", "http.route": "/search", "http.response.status_code": 200}
    assert wanted.items() <= dict(request.attributes or {}).items()
    assert "zebrafish" not in listed.to_json() + searched.to_json() + request.to_json()
    (line,) = [json.loads(JSONLines().format(record)) for record in caplog.records if record.msg == "request"]
    assert line["trace_id"] == TRACE


def test_span_of_a_failure_is_an_error(memory: Memory, spans: InMemorySpanExporter) -> None:
    async def broken(_: HTTPConnection) -> Principal:
        raise KeyError("zebrafish")

    http = client(memory, auth=broken, loud=False)
    http.get("/memories")
    http.request("BREW", "/zebrafish")
    failed, unknown = spans.get_finished_spans()
    assert (failed.status.status_code, (failed.attributes or {})["error.type"]) == (StatusCode.ERROR, "KeyError")
    assert (unknown.name, unknown.status.status_code) == ("HTTP", StatusCode.UNSET)
    assert "zebrafish" not in failed.to_json() + unknown.to_json()


def test_span_of_a_job_belongs_to_no_request(memory: Memory, spans: InMemorySpanExporter) -> None:
    with client(memory, auth="local") as running:
        http = client(memory, auth="local")
        body = {"messages": "I like tea.", "user_id": "ann"}
        where = http.post("/v1/memories?wait=false", json=body).headers["location"]
        with running.stream("GET", f"{where}/events") as answer:
            assert "event: done" in answer.read().decode()
    begun = [span for span in spans.get_finished_spans() if span.name == "upsert_memory"]
    assert begun and all(job.parent is None for job in begun)  # the loop of the first request may end under it
