"""Traces: the stages of one add, written in the same transaction as its memories."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import fsum
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import bindparam, delete, insert, or_, select

from langmem_adapter.records.results import AddResult, Change, Decision, Fact, ModelCall, Paged, Turn, Usage
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope
from langmem_adapter.storage.queries import Prepared, read_page
from langmem_adapter.storage.scopes import check_visible, of_row, reach
from langmem_adapter.storage.tables import traces

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sqlalchemy import Connection

_BEGINNING: Final = 200
_LISTED: Final = [column for column in traces.c if column.name != "state"]

_INSERT: Final = Prepared(insert(traces))
# Those past their time, and the one of this name where a run is taken up again.
_DROP: Final = Prepared(
    delete(traces).where(
        or_(
            traces.c.created_at < bindparam("before", type_=traces.c.created_at.type), traces.c.id == bindparam("again")
        )
    )
)


@dataclass(frozen=True, slots=True)
class Trace:
    """The stages of one add.

    Attributes:
        id: The `trace_id` of its result.
        scope: The scope of the add.
        created_at: When it was written.
        turns: The parsed messages.
        facts: The extracted facts.
        candidates: The retrieved memories that the facts were compared with.
        decisions: The decisions, in order.
        calls: Every call of the chat model, with prompt and raw reply.
        result: The result, with its cost.
        state: The whole state of the pipeline, plain JSON.
    """

    id: str
    scope: Scope
    created_at: datetime
    turns: tuple[Turn, ...]
    facts: tuple[Fact, ...]
    candidates: Mapping[str, Any]
    decisions: tuple[Decision, ...]
    calls: tuple[ModelCall, ...]
    result: AddResult
    state: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """What a list shows of one add; `Memory.trace` gives the rest.

    Attributes:
        id: The `trace_id` of its result.
        scope: The scope of the add.
        created_at: When it was written.
        mode: `"offline"` or the chat model's name: who decided.
        said: The beginning of the first message, up to 200 characters.
        facts: How many facts were found.
        events: How many changes there were of each kind: `"ADD"`, `"UPDATE"`, `"DELETE"`, `"NONE"`.
        model_calls: Answered calls of the chat model.
        input_tokens: Tokens sent, as far as the model reports them.
        output_tokens: Tokens received, likewise.
        milliseconds: Time spent in all stages before the memories were written.
    """

    id: str
    scope: Scope
    created_at: datetime
    mode: str
    said: str
    facts: int
    events: Mapping[str, int]
    model_calls: int
    input_tokens: int
    output_tokens: int
    milliseconds: float


@dataclass(frozen=True, slots=True)
class TracePage(Paged[TraceSummary]):
    """What some adds did, and where the next page begins.

    Attributes:
        items: The summaries of this page.
        next: Give it as `after` to read on; `None` on the last page.
    """


@dataclass(frozen=True, slots=True, eq=False)
class TraceDraft:
    """What a run keeps; its id is the run's."""

    days: float  # older traces are deleted when a new one is written
    state: Mapping[str, Any]  # the pipeline's state before apply, plain JSON; its task has the scope


def keep(
    connection: Connection, run: str, draft: TraceDraft, result: tuple[Change, ...], *, now: datetime | None = None
) -> None:
    """Write the trace of a run, with the run's id and time, and delete old ones."""
    # Contract: it has the time of the history rows of its run, by which `of_changes` finds it.
    # tests/pipeline/test_traces.py::test_trace_a_change_leads_to_the_add_that_made_it.
    now = now or datetime.now(UTC)
    _DROP.run(connection, {"before": now - timedelta(days=draft.days), "again": run})
    state = {**draft.state, "results": [change.to_json() for change in result]}
    scope = {name: state["task"]["scope"].get(name) for name in SCOPE_FIELDS}
    usage, milliseconds = state["work"]["usage"], state["work"]["milliseconds"]
    summary = {
        "mode": state["mode"],
        "said": next((turn["text"] for turn in state["turns"] if turn["role"] != "system"), "")[:_BEGINNING],
        "facts": len(state["facts"]),
        "events": Counter(change["event"] for change in state["results"]),
        **{name: usage[name] for name in ("model_calls", "input_tokens", "output_tokens")},
        "milliseconds": round(fsum(milliseconds.values()), 3),
    }
    _INSERT.run(connection, {"id": run, **scope, "created_at": now, "summary": summary, "state": state})


def page(
    connection: Connection, scope: Scope | None, *, k: int, after: str | None = None
) -> tuple[list[TraceSummary], str | None]:
    query, order = select(*_LISTED).where(reach(scope, traces)), (traces.c.created_at, traces.c.id)
    rows, following = read_page(connection, query, *order, k=k, after=after)
    return [TraceSummary(row.id, of_row(row), row.created_at, **row.summary) for row in rows], following


def of_changes(
    connection: Connection, memory_id: str, moments: Collection[datetime], scope: Scope | None
) -> dict[datetime, str]:
    """The ids of the traces within *scope* of the adds that changed a memory, by the times of its changes."""
    query = select(traces.c.id, traces.c.created_at, traces.c.state["results"].label("results"))
    query = query.where(traces.c.created_at.in_(moments), reach(scope, traces))
    rows = connection.execute(query) if moments else ()
    return {row.created_at: row.id for row in rows if any(change["id"] == memory_id for change in row.results)}


def read(connection: Connection, trace_id: str, scope: Scope | None) -> Trace:
    """One trace by its id."""
    row = check_visible(
        connection.execute(select(traces).where(traces.c.id == trace_id)).first(), scope, trace_id, "trace"
    )
    state = row.state
    usage = Usage.from_json(state["work"]["usage"])
    return Trace(
        id=trace_id,
        scope=of_row(row),
        created_at=row.created_at,
        turns=tuple(Turn.from_json(turn) for turn in state["turns"]),
        facts=tuple(Fact.from_json(fact) for fact in state["facts"]),
        candidates=state.get("candidates", {}),
        decisions=tuple(Decision.from_json(decision) for decision in state["decisions"]),
        calls=usage.calls,
        result=AddResult(
            results=tuple(Change.from_json(change) for change in state["results"]),
            mode=state["mode"],
            usage=Usage(usage.model_calls, usage.input_tokens, usage.output_tokens, state["work"]["milliseconds"]),
            trace_id=trace_id,
        ),
        state=state,
    )
