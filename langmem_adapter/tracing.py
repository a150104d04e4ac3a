"""Tracing: LangSmith runs, OpenTelemetry spans and operation counts.

Adds and searches are LangChain runs: LangSmith, `astream_events` and every callback handler show them, below the run of the
agent or chain that calls. Without a handler no run is made. Vectors are never part of a run. Texts are; LangSmith's
`LANGSMITH_HIDE_INPUTS=true` and `LANGSMITH_HIDE_OUTPUTS=true` hide them.

Spans follow OpenTelemetry's conventions for memory (`gen_ai.memory.*`): the operation, the store, the number of records. The
scope is added with the setting `otel_scopes`, texts where OpenTelemetry's own variable allows them
(`settings.wants_content`). The text of an error is never added, since it may quote a memory.

OpenTelemetry is not imported here: a program that wants spans has imported it and set a provider.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, TypeVar

from langchain_core.callbacks import CallbackManager
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.runnables.config import RunnableConfig, var_child_runnable_config

from langmem_adapter._version import __version__
from langmem_adapter.records.results import Usage
from langmem_adapter.settings import wants_content
from langmem_adapter.twins import Plan, steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import ModuleType

    from opentelemetry.trace import Span, Tracer, TracerProvider

    from langmem_adapter.records.results import AddResult, Change, Hit, SearchResults
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.twins import Outcome, PlanSteps

Q = TypeVar("Q")
R = TypeVar("R")


def run_config(name: str, scope: Scope, mode: str) -> RunnableConfig:
    """How a run is called, and what traces may be searched by: the tag `langmem_adapter`, the scope's fields, `memory_mode`."""
    # nostream: a graph that streams tokens shows those of its model, not those of a model that works on the memory.
    return {
        "run_name": name,
        "tags": ["langmem_adapter", "nostream"],
        "metadata": {**scope.named, "memory_mode": mode},
    }


def traced(
    plan: Plan[R], config: RunnableConfig, *, inputs: Mapping[str, Any], summarize: Callable[[R], Mapping[str, Any]]
) -> Plan[R]:
    """A plan as one run: outputs are what *summarize* makes of its result. Without a callback handler, the plan itself."""
    around = var_child_runnable_config.get()
    handlers = CallbackManager.configure(around.get("callbacks") if around else None).handlers
    return _with_run(plan, config, inputs, summarize) if handlers else plan


def stage(
    plan: Plan[R], name: str, *, inputs: Mapping[str, Any], summarize: Callable[[R], Mapping[str, Any]]
) -> Plan[R]:
    """A plan as a run below the current run, like `traced`."""
    return _with_run(plan, {"run_name": name}, inputs, summarize) if has_handlers() else plan


def has_handlers() -> bool:
    """Whether a callback handler follows the current run."""
    around = var_child_runnable_config.get()
    callbacks: Any = around.get("callbacks") if around else None
    return bool(getattr(callbacks, "handlers", callbacks))


class PlanNode(Runnable[Q, R], Generic[Q, R]):
    """A plan as a Runnable without a run: calls of the plan are children of its caller's run."""

    def __init__(self, plan: Callable[[Q, RunnableConfig | None], Plan[R]]) -> None:
        self._plan = plan

    def invoke(self, input: Q, config: RunnableConfig | None = None, **_: Any) -> R:  # noqa: A002 - LangChain's name
        """The plan's result."""
        return self._plan(input, config).run()

    async def ainvoke(self, input: Q, config: RunnableConfig | None = None, **_: Any) -> R:  # noqa: A002 - LangChain's name
        """The same without blocking the event loop."""
        return await self._plan(input, config).arun()


class OneRun(PlanNode[Q, R]):
    """A plan as a Runnable that is one run in a trace; calls of the plan are its children."""

    def __init__(
        self,
        plan: Callable[[Q], Plan[R]],
        name: str,
        *,
        inputs: Callable[[Q], Mapping[str, Any]],
        summarize: Callable[[R], Mapping[str, Any]],
    ) -> None:
        def with_run(value: Q, config: RunnableConfig | None) -> Plan[R]:
            return _with_run(plan(value), {"run_name": name, **(config or {})}, inputs(value), summarize)

        super().__init__(with_run)
        self.name = name


def describe_hits(hits: Sequence[Hit]) -> dict[str, Any]:
    """The outputs of a search's run."""
    return {
        "memories": [{"id": hit.id, "text": hit.text, "score": hit.score, "relevance": hit.relevance} for hit in hits]
    }


@steps
def _with_run(
    plan: Plan[R], config: RunnableConfig, inputs: Mapping[str, Any], summarize: Callable[[R], Mapping[str, Any]]
) -> PlanSteps[R]:
    """The run gets the summary, the caller the result itself."""
    results: list[R] = []

    def summarize_result(result: R) -> Mapping[str, Any]:
        results.append(result)
        return summarize(result)

    body = plan.then(summarize_result)
    runnable = RunnableLambda(lambda _: body.run(), lambda _: body.arun())
    yield from Plan.calling(runnable.invoke, runnable.ainvoke, inputs, config)
    return results[0]


OperationName: TypeAlias = Literal["create_memory", "upsert_memory", "update_memory", "delete_memory", "search_memory"]
Record: TypeAlias = "Mapping[str, str | float | None]"

_API: Final = "opentelemetry.trace"
_SCOPE: Final = {"user_id": "user.id", "agent_id": "gen_ai.agent.id", "run_id": "gen_ai.conversation.id"}


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation by OpenTelemetry's name: an add is `"upsert_memory"`, with `infer=False` it is `"create_memory"`."""

    name: OperationName
    scope: Scope | None = None
    record_id: str | None = None
    query: str | None = None


@dataclass(frozen=True, slots=True)
class Tally(Generic[R]):
    """How to count the result of an operation: its records, their number, and its model usage."""

    records: Callable[[R], Sequence[Record]] = lambda _: ()
    count: Callable[[R], int] | None = None
    usage: Callable[[R], Usage] = lambda _: Usage()

    def count_records(self, result: R) -> int:
        """The number of memories in the result."""
        return len(self.records(result)) if self.count is None else self.count(result)


@dataclass(frozen=True, slots=True)
class Observed:
    """A finished operation; *error* is the name of its error's class."""

    name: OperationName
    seconds: float
    error: str | None
    count: int = 0
    usage: Usage = Usage()


class Telemetry:
    """Observes the operations of one memory: *observers* are called with each, on the thread or event loop where it ended.

    Example:
        >>> from langmem_adapter import Memory
        >>> with Memory(":memory:") as memory:
        ...     memory.parts.telemetry.observers.append(lambda done: print(done.name, done.count, done.error))
        ...     added = memory.add("I like tea.", user_id="alice")
        upsert_memory 1 None
    """

    def __init__(self, store: str, *, scopes: bool = False) -> None:
        self.observers: list[Callable[[Observed], None]] = []
        self._store = store
        self._scopes = scopes

    def observed(self, plan: Plan[R], operation: Operation, tally: Tally[R]) -> Plan[R]:
        """A plan with a span and a report to the observers, if there are any."""
        return self._observed(plan, operation, tally) if self.observers or api() is not None else plan

    @steps
    def _observed(self, plan: Plan[R], operation: Operation, tally: Tally[R]) -> PlanSteps[R]:
        with self._span(operation) as span:
            return (yield from plan.tap(partial(self._report, operation, tally, span, time.perf_counter())))

    def _report(
        self, operation: Operation, tally: Tally[R], span: Span | None, began: float, outcome: Outcome[R]
    ) -> None:
        failed, seconds = outcome.error is not None, time.perf_counter() - began
        error = type(outcome.error).__name__ if failed else None
        counts = () if failed else (tally.count_records(outcome.result), tally.usage(outcome.result))
        observed = Observed(operation.name, seconds, error, *counts)
        for observer in self.observers:
            observer(observed)
        if span is not None and span.is_recording():
            _end(span, observed, () if failed or not wants_content() else tally.records(outcome.result))

    def _span(self, operation: Operation) -> AbstractContextManager[Span | None]:
        trace = api()
        if trace is None:
            return nullcontext()
        return _tracer(trace.get_tracer_provider()).start_as_current_span(
            operation.name,
            attributes=self._attributes(operation),
            record_exception=False,
            set_status_on_exception=False,
        )

    def _attributes(self, operation: Operation) -> dict[str, str]:
        attributes = {"gen_ai.operation.name": operation.name, "gen_ai.memory.store.id": self._store}
        if operation.record_id is not None:
            attributes["gen_ai.memory.record.id"] = operation.record_id
        if operation.scope is not None and self._scopes:
            attributes |= {_SCOPE[field]: value for field, value in operation.scope.named.items()}
        if operation.query is not None and wants_content():
            attributes["gen_ai.memory.query.text"] = operation.query
        return attributes


def api() -> ModuleType | None:
    """OpenTelemetry's tracing, where the program has set it up."""
    trace = sys.modules.get(_API)
    if trace is None or isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return None
    return trace


def trace_id() -> str | None:
    """Of the trace that this call is part of, as logs write it; `None` outside of one."""
    trace = api()
    context = None if trace is None else trace.get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context is not None and context.is_valid else None


@lru_cache(maxsize=1)
def _tracer(provider: TracerProvider) -> Tracer:
    return provider.get_tracer("langmem_adapter", __version__)


def _end(span: Span, observed: Observed, records: Sequence[Record]) -> None:
    if observed.error is None:
        span.set_attribute("gen_ai.memory.record.count", observed.count)
    else:
        span.set_attribute("error.type", observed.error)
        span.set_status(sys.modules[_API].StatusCode.ERROR)
    if records:  # a list as JSON: spans have no attributes of any other structure
        span.set_attribute("gen_ai.memory.records", json.dumps(list(records), ensure_ascii=False))


# ── counting results ──────────────────────────────────────────────────────────────────────────────────────────────


def _of_changes(changes: Iterable[Change]) -> list[Record]:
    return [{"id": change.id, "content": change.text} for change in changes if change.event != "NONE"]


def _of_hits(hits: Sequence[Hit]) -> list[Record]:
    return [{"id": hit.id, "content": hit.text, "score": hit.score} for hit in hits]


def _results(outcomes: Sequence[R | Exception]) -> list[R]:
    return [outcome for outcome in outcomes if not isinstance(outcome, Exception)]


def _sum_usage(results: Sequence[AddResult | Exception]) -> Usage:
    """The usage of each run once: items of one run have the same object."""
    return sum({id(result.usage): result.usage for result in _results(results)}.values(), Usage())


ADDED: Final[Tally[AddResult]] = Tally(lambda result: _of_changes(result.results), usage=lambda result: result.usage)
"""`add`, without facts that changed nothing."""
ADDED_EACH: Final[Tally[list[AddResult | Exception]]] = Tally(
    lambda results: _of_changes(change for result in _results(results) for change in result.results), usage=_sum_usage
)
SEARCHED: Final[Tally[SearchResults]] = Tally(_of_hits)
CHANGED: Final[Tally[Change]] = Tally(lambda change: _of_changes([change]), count=lambda _: 1)
CHANGED_EACH: Final[Tally[list[Change | Exception]]] = Tally(
    lambda outcomes: _of_changes(_results(outcomes)), count=len
)
"""Many edits; those that failed are counted too."""
COUNTED: Final[Tally[int]] = Tally(count=int)
