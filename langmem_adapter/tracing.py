"""Tracing: LangSmith runs, OpenTelemetry spans and operation counts.

They are LangChain runs, so that LangSmith, `astream_events` and every other callback handler show them, and a run that began
inside an agent or a chain hangs there. Where nobody listens, nothing is made: a search pays about ten microseconds for asking.
What a run shows is chosen here; vectors are never in it. Texts are, for a trace without them shows little; LangSmith's own
`LANGSMITH_HIDE_INPUTS=true` and `LANGSMITH_HIDE_OUTPUTS=true` keep them out, of the prompts that memories end up in as well.

Spans follow OpenTelemetry's conventions for memory (`gen_ai.memory.*`, in development there): named by the operation, with
the store and the number of records. Whose memory it is they say with the setting `otel_scopes`; texts only where
OpenTelemetry's own variable asks for them (`settings.wants_content`); what an error says never, since it may quote a memory.

OpenTelemetry is never imported here: a program that wants spans has done so, and set a provider. Any other pays for a look.
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
from langmem_adapter.twins import Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import ModuleType

    from opentelemetry.trace import Span, Tracer, TracerProvider

    from langmem_adapter.records.results import AddResult, Change, Hit, SearchResults
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.twins import Outcome

Q = TypeVar("Q")
R = TypeVar("R")


def run_config(name: str, scope: Scope, mode: str) -> RunnableConfig:
    """How a run is called, and what traces may be searched by: the tag `langmem_adapter`, the scope's fields, `memory_mode`."""
    # nostream: a graph that streams tokens shows those of its own model, not those of a model that works on the memory.
    return {
        "run_name": name,
        "tags": ["langmem_adapter", "nostream"],
        "metadata": {**scope.named, "memory_mode": mode},
    }


def traced(
    plan: Plan[R], config: RunnableConfig, *, inputs: Mapping[str, Any], shown: Callable[[R], Mapping[str, Any]]
) -> Plan[R]:
    """A plan as one run, if anybody listens: with these *inputs*, and what is *shown* of its result."""
    around = var_child_runnable_config.get()
    listening = CallbackManager.configure(around.get("callbacks") if around else None).handlers
    return _recorded(plan, config, inputs, shown) if listening else plan


def stage(plan: Plan[R], name: str, *, inputs: Mapping[str, Any], shown: Callable[[R], Mapping[str, Any]]) -> Plan[R]:
    """A plan as a run below the present one, like `traced`; as it is where there is none that anybody listens to."""
    return _recorded(plan, {"run_name": name}, inputs, shown) if is_heard() else plan


def is_heard() -> bool:
    """Whether anybody listens to the present run."""
    around = var_child_runnable_config.get()
    callbacks: Any = around.get("callbacks") if around else None
    return bool(getattr(callbacks, "handlers", callbacks))


class PlanNode(Runnable[Q, R], Generic[Q, R]):
    """A plan as a Runnable that leaves no run of its own in a trace: the plan's calls appear right below its caller."""

    def __init__(self, plan: Callable[[Q, RunnableConfig | None], Plan[R]]) -> None:
        self._plan = plan

    def invoke(self, input: Q, config: RunnableConfig | None = None, **_: Any) -> R:  # noqa: A002 - LangChain's name
        """The plan's result."""
        return self._plan(input, config).run()

    async def ainvoke(self, input: Q, config: RunnableConfig | None = None, **_: Any) -> R:  # noqa: A002 - LangChain's name
        """The same without blocking the event loop."""
        return await self._plan(input, config).arun()


class OneRun(PlanNode[Q, R]):
    """A plan as a Runnable that is one run in a trace; what the plan calls stands right below it.

    Args:
        plan: From the input to what is done.
        name: Of the run.
        inputs: What the run shows of its input.
        shown: What it shows of its output.
    """

    def __init__(
        self,
        plan: Callable[[Q], Plan[R]],
        name: str,
        *,
        inputs: Callable[[Q], Mapping[str, Any]],
        shown: Callable[[R], Mapping[str, Any]],
    ) -> None:
        def recorded(given: Q, config: RunnableConfig | None) -> Plan[R]:
            return _recorded(plan(given), {"run_name": name, **(config or {})}, inputs(given), shown)

        super().__init__(recorded)
        self.name = name


def shown(hits: Sequence[Hit]) -> dict[str, Any]:
    """What a run shows of memories that were found."""
    return {
        "memories": [{"id": hit.id, "text": hit.text, "score": hit.score, "relevance": hit.relevance} for hit in hits]
    }


def _recorded(
    plan: Plan[R], config: RunnableConfig, inputs: Mapping[str, Any], shown: Callable[[R], Mapping[str, Any]]
) -> Plan[R]:
    """The run shows what it is told to, the caller gets the result itself."""

    def recorded() -> Plan[R]:
        kept: list[R] = []

        def keep(result: R) -> Mapping[str, Any]:
            kept.append(result)
            return shown(result)

        body = plan.then(keep)
        runnable = RunnableLambda(lambda _: body.run(), lambda _: body.arun())
        return Plan.calling(runnable.invoke, runnable.ainvoke, inputs, config).then(lambda _: kept[0])

    return Plan.late(recorded)


OperationName: TypeAlias = Literal["create_memory", "upsert_memory", "update_memory", "delete_memory", "search_memory"]
Record: TypeAlias = "Mapping[str, str | float | None]"

_API: Final = "opentelemetry.trace"
_SCOPE: Final = {"user_id": "user.id", "agent_id": "gen_ai.agent.id", "run_id": "gen_ai.conversation.id"}


@dataclass(frozen=True, slots=True)
class Operation:
    """What is asked of a memory: of whose, of which one, and what is searched for, as far as that is said.

    The conventions' names: an add may create or update, so it is `"upsert_memory"`; verbatim it creates.
    """

    name: OperationName
    scope: Scope | None = None
    record_id: str | None = None
    query: str | None = None


@dataclass(frozen=True, slots=True)
class Tally(Generic[R]):
    """How the result of an operation is read: which memories it found or changed, how many if not these, what it cost."""

    records: Callable[[R], Sequence[Record]] = lambda _: ()
    count: Callable[[R], int] | None = None
    usage: Callable[[R], Usage] = lambda _: Usage()

    def counted(self, result: R) -> int:
        """How many memories it found or changed."""
        return len(self.records(result)) if self.count is None else self.count(result)


@dataclass(frozen=True, slots=True)
class Observed:
    """An operation that has ended, in *seconds*; *error* is the kind of error that it ended in."""

    name: OperationName
    seconds: float
    error: str | None
    count: int = 0
    usage: Usage = Usage()


class Telemetry:
    """Observes the operations of one memory.

    Args:
        store: What spans call the memory: its location, without a password.
        scopes: Whether they say whose memory it is.

    Attributes:
        observers: Told of each operation that has ended, on the thread or event loop that it ended on.

    Example:
        >>> from langmem_adapter import Memory
        >>> with Memory(":memory:") as memory:
        ...     memory.parts.telemetry.observers.append(lambda seen: print(seen.name, seen.count, seen.error))
        ...     added = memory.add("I like tea.", user_id="alice")
        upsert_memory 1 None
    """

    def __init__(self, store: str, *, scopes: bool = False) -> None:
        self.observers: list[Callable[[Observed], None]] = []
        self._store = store
        self._scopes = scopes

    def observed(self, plan: Plan[R], operation: Operation, tally: Tally[R]) -> Plan[R]:
        """A plan that is observed, if anybody looks; *tally* reads its result."""
        if not self.observers and api() is None:
            return plan

        def run() -> R:
            with self._span(operation) as span:
                return plan.told(partial(self._tell, operation, tally, span, time.perf_counter())).run()

        async def arun() -> R:
            with self._span(operation) as span:
                return await plan.told(partial(self._tell, operation, tally, span, time.perf_counter())).arun()

        return Plan(run, arun)

    def _tell(
        self, operation: Operation, tally: Tally[R], span: Span | None, began: float, outcome: Outcome[R]
    ) -> None:
        done = outcome.error is None
        failed = None if done else type(outcome.error).__name__
        told = (tally.counted(outcome.result), tally.usage(outcome.result)) if done else ()
        seen = Observed(operation.name, time.perf_counter() - began, failed, *told)
        for observer in self.observers:
            observer(seen)
        if span is not None and span.is_recording():
            _end(span, seen, tally.records(outcome.result) if done and wants_content() else ())

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
        told = {"gen_ai.operation.name": operation.name, "gen_ai.memory.store.id": self._store}
        if operation.record_id is not None:
            told["gen_ai.memory.record.id"] = operation.record_id
        if operation.scope is not None and self._scopes:
            told |= {_SCOPE[field]: value for field, value in operation.scope.named.items()}
        if operation.query is not None and wants_content():
            told["gen_ai.memory.query.text"] = operation.query
        return told


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


def _end(span: Span, seen: Observed, records: Sequence[Record]) -> None:
    if seen.error is None:
        span.set_attribute("gen_ai.memory.record.count", seen.count)
    else:
        span.set_attribute("error.type", seen.error)
        span.set_status(sys.modules[_API].StatusCode.ERROR)
    if records:  # a list as JSON: spans have no attributes of any other structure
        span.set_attribute("gen_ai.memory.records", json.dumps(list(records), ensure_ascii=False))


# ── how results are read ──────────────────────────────────────────────────────────────────────────────────────────────


def _of_changes(changes: Iterable[Change]) -> list[Record]:
    return [{"id": change.id, "content": change.text} for change in changes if change.event != "NONE"]


def _of_hits(hits: Sequence[Hit]) -> list[Record]:
    return [{"id": hit.id, "content": hit.text, "score": hit.score} for hit in hits]


def _done(ends: Sequence[R | Exception]) -> list[R]:
    return [end for end in ends if not isinstance(end, Exception)]


def _together(results: Sequence[AddResult | Exception]) -> Usage:
    """Of runs that several items shared, each once: these have the same object."""
    return sum({id(result.usage): result.usage for result in _done(results)}.values(), Usage())


ADDED: Final[Tally[AddResult]] = Tally(lambda result: _of_changes(result.results), usage=lambda result: result.usage)
"""Of `add`; facts that changed nothing are not counted."""
ADDED_EACH: Final[Tally[list[AddResult | Exception]]] = Tally(
    lambda results: _of_changes(change for result in _done(results) for change in result.results), usage=_together
)
"""Of `add_many`."""
FOUND: Final[Tally[SearchResults]] = Tally(_of_hits)
"""Of `search`."""
CHANGED: Final[Tally[Change]] = Tally(lambda change: _of_changes([change]), count=lambda _: 1)
"""Of an edit."""
CHANGED_EACH: Final[Tally[list[Change | Exception]]] = Tally(lambda ends: _of_changes(_done(ends)), count=len)
"""Of many edits, those that failed among them: what was attempted is counted."""
COUNTED: Final[Tally[int]] = Tally(count=int)
"""Of what tells a number."""
