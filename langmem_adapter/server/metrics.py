"""Metrics for Prometheus (extra `metrics`): requests, operations, tokens, the queue of jobs, the index; without names or ids.

Processes of `serve --workers` count together, in the folder of `PROMETHEUS_MULTIPROC_DIR`; the index is that of the one asked.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from langmem_adapter.errors import InvalidInputError, MissingDependencyError, StorageError
from langmem_adapter.records.checks import quoted
from langmem_adapter.storage import feed, jobs

try:
    from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
    from prometheus_client.core import GaugeMetricFamily
    from prometheus_client.multiprocess import MultiProcessCollector
except ModuleNotFoundError as error:
    raise MissingDependencyError("prometheus_client", extra="metrics") from error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.tracing import Observed

DIRECTORY: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that names the folder in which several processes count together."""
_SECONDS: Final = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """Counts what a server and its memory do."""

    def __init__(self, memory: Memory) -> None:
        folder = os.environ.get(DIRECTORY)
        if folder is not None and not (Path(folder).is_dir() and os.access(folder, os.W_OK | os.X_OK)):
            raise InvalidInputError(
                f"{DIRECTORY} names {quoted(folder)}, which is no writable folder: make it, or unset it"
            )
        own = self._registry = CollectorRegistry()
        self._requests = Histogram(
            "langmem_adapter_http_request_duration_seconds",
            "Time from a request to the end of its answer.",
            ["method", "route", "status"],
            buckets=_SECONDS,
            registry=own,
        )
        self._operations = Histogram(
            "langmem_adapter_operation_duration_seconds",
            "Time of an operation on memories, by the kind of error that it ended in, if any.",
            ["operation", "error"],
            buckets=_SECONDS,
            registry=own,
        )
        self._records = Counter("langmem_adapter_records", "Memories found or changed.", ["operation"], registry=own)
        self._calls = Counter("langmem_adapter_model_calls", "Answered calls of the chat model by adds.", registry=own)
        self._tokens = Counter(
            "langmem_adapter_model_tokens", "Tokens of these calls, as the model reports them.", ["type"], registry=own
        )
        self._parts = memory.parts
        memory.parts.telemetry.observers.append(self._operation)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request, by the template of its route."""
        self._requests.labels(method, route, str(status)).observe(seconds)

    def text(self) -> bytes:
        """All of it in Prometheus' text format; this reads the database."""
        registry = CollectorRegistry()
        if DIRECTORY in os.environ:
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        else:
            registry.register(self._registry)
            ProcessCollector(registry=registry)
        registry.register(self)
        return generate_latest(registry)

    def _operation(self, seen: Observed) -> None:
        self._operations.labels(seen.name, seen.error or "").observe(seen.seconds)
        self._records.labels(seen.name).inc(seen.count)
        if seen.usage.model_calls:
            self._calls.inc(seen.usage.model_calls)
            self._tokens.labels("input").inc(seen.usage.input_tokens)
            self._tokens.labels("output").inc(seen.usage.output_tokens)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The current state of database, queue and index."""
        parts = self._parts
        try:
            queue, last = parts.reading(lambda connection: (jobs.queue(connection), feed.last_seq(connection)))
        except StorageError:
            yield _gauge("database_up", "Whether the database answers.", 0)
            return
        yield _gauge("database_up", "Whether the database answers.", 1)
        waiting = GaugeMetricFamily("langmem_adapter_jobs", "Jobs that have not ended.", labels=["state"])
        waiting.add_metric(["waiting"], queue.waiting)
        waiting.add_metric(["running"], queue.running)
        yield waiting
        yield _gauge("oldest_job_age_seconds", "How long the oldest of those that wait has waited.", queue.oldest)
        index = parts.indexer.index
        yield _gauge("index_vectors", "Vectors in the index.", 0 if index is None else len(index))
        behind = max(last - parts.indexer.applied, 0)
        yield _gauge("index_lag_changes", "Changes that the next search of this process reads first.", behind)


def _gauge(name: str, doc: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"langmem_adapter_{name}", doc, value=value)
