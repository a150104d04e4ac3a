"""A provider of OpenTelemetry for a test: what it is told is kept."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

__all__ = ["recorded"]


@contextmanager
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Record the spans of a block."""
    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    with monkeypatch.context() as patch:  # a process has one provider for good; this one is for a test
        patch.setattr(trace, "get_tracer_provider", lambda: provider)
        yield kept
    provider.shutdown()
