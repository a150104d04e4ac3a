"""The state of the pipeline's graph, its stages as graph nodes, and the scope check of each.

Any checkpointer and any strict serializer can keep this state. Vectors are never in it: a resumed run embeds again. The input
is there for parse alone (LangGraph's `EphemeralValue`): a thread's next run must not see the input of an earlier one.

Between two stages a `Command`, `update_state` or a `resume` can change the state. Its scope is compared with the call, in one
place, before the stage sees any of it.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, NotRequired, Protocol, TypeAlias, cast

from langchain_core.runnables.config import ensure_config
from langgraph.channels import EphemeralValue
from langgraph.config import get_stream_writer
from langgraph.runtime import get_runtime
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.names import named_speaker
from langmem_adapter.records.results import Decision, Fact, Turn, Usage
from langmem_adapter.records.scope import Scope
from langmem_adapter.scoping import resolve_again, resolve_scope
from langmem_adapter.search.searcher import Neighbourhood
from langmem_adapter.twins import Plan, steps

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from langchain_core.runnables import Runnable, RunnableConfig
    from langgraph.types import Command

    from langmem_adapter.arguments import Longest
    from langmem_adapter.embedding.embedder import Embedder
    from langmem_adapter.reasoning.base import Describer, Reasoner
    from langmem_adapter.search.searcher import Searcher
    from langmem_adapter.settings import Settings
    from langmem_adapter.storage.ledger import Ledger
    from langmem_adapter.twins import PlanSteps


class PipelineInput(TypedDict, total=False):
    """The input of the graph.

    Attributes:
        messages: The conversation: a `str`, a message, or a list of messages (LangChain's, or OpenAI-style dicts).
        context: Earlier turns, in the same forms; they help to understand *messages* and are no source.
        items: Instead of *messages*: several conversations of one scope, each a dict with `messages` and, as it likes,
            `context`, `metadata`, `timestamp`, `timezone`, `expires_at`; they share one run, one transaction and *scope*.
        scope: `{"user_id": …, "agent_id": …, "run_id": …}`, at least one.
        infer: Extract facts (the default), or store each turn verbatim.
        memory_type: `"procedural_memory"` makes one step-by-step record of the conversation.
        prompt: Replaces the extraction instructions for this run.
        metadata: JSON object kept with every memory that comes from *messages*.
        timestamp: Date of the conversation, ISO 8601; default now.
        timezone: IANA name of the zone of times without an offset, and of "today".
        expires_at: When the memories expire, ISO 8601.
        key: Names the run within its scope, as `idempotency_key` does in `Memory.add`: a run that is repeated with the same
            key and scope changes nothing.
    """

    messages: Annotated[Any, EphemeralValue]
    context: Annotated[Any, EphemeralValue]
    items: Annotated[list[dict[str, Any]], EphemeralValue]
    scope: Annotated[dict[str, str], EphemeralValue]
    infer: Annotated[bool, EphemeralValue]
    memory_type: Annotated[str | None, EphemeralValue]
    prompt: Annotated[str | None, EphemeralValue]
    metadata: Annotated[dict[str, Any] | None, EphemeralValue]
    timestamp: Annotated[str | None, EphemeralValue]
    timezone: Annotated[str | None, EphemeralValue]
    expires_at: Annotated[str | None, EphemeralValue]
    key: Annotated[str | None, EphemeralValue]


class PipelineOutput(TypedDict, total=False):
    """The output of the graph: the work of each stage, in its order."""

    turns: list[dict[str, Any]]
    facts: list[dict[str, Any]]
    candidates: dict[str, Any]
    decisions: list[dict[str, Any]]
    result: dict[str, Any]


class Task(TypedDict):
    """The arguments of a run, as parse has read them."""

    key: str  # name of the run within its scope
    scope: dict[str, str]
    infer: bool  # extract facts, or store turns verbatim
    memory_type: str | None  # `None`, or `"procedural_memory"`
    prompt: str | None  # replaces the extraction instructions
    items: list[dict[str, Any]]  # `metadata` and `expires_at` of each conversation
    on_bad_reply: NotRequired[str]  # `"raise"`: an unusable extraction is an error, whatever the setting says
    thread: NotRequired[str]  # the `thread_id` of the messages
    digests: NotRequired[dict[str, str]]  # what each of them says, by its id; see `storage.sources`


class Work(TypedDict, total=False):
    """What a run has cost and been through."""

    usage: dict[str, Any]  # model calls and tokens so far
    clock: float  # when the last stage ended, Unix seconds
    milliseconds: dict[str, float]  # time spent in each stage so far
    compared: str | None  # digest of the candidates that the decisions were made for
    attempts: int  # how often the run went back to retrieve
    notes: list[list[str]]  # for each conversation, what was seen in it and not used


class PipelineState(PipelineInput, PipelineOutput, total=False):
    """Everything between the two."""

    task: Task  # what to do
    before: list[dict[str, Any]]  # earlier turns of the conversations, the latest of each
    work: Work  # what it has cost and been through


def scope_of(state: PipelineState) -> Scope:
    """The scope of a run."""
    return Scope(**state["task"]["scope"])


def memory_texts(state: Mapping[str, Any]) -> dict[str, str]:
    """The texts of the memories that a run compares with, by their ids."""
    return {memory["id"]: memory["text"] for memory in state.get("candidates", {}).get("known", [])}


def fact_of(state: PipelineState, place: int) -> Fact:
    """A fact of a run with its speaker, as `names.named_speaker` names him."""
    fact = Fact.from_json(state["facts"][place])
    if fact.unattributed:
        return fact
    turn = state["turns"][fact.turn]
    speaker = named_speaker(turn["actor"], turn["role"], scope_of(state))
    return fact if speaker == fact.speaker else replace(fact, speaker=speaker)


# ── what it costs ──────────────────────────────────────────────────────────────────────────────────────────────────────


def start_work(seconds: float) -> Work:
    """The work of a run that begins now, after so many *seconds* that were spent on it before."""
    clock = time.time() - seconds
    return {"usage": {}, "clock": clock, "milliseconds": {}, "compared": None, "attempts": 0, "notes": []}


def finish_stage(state: PipelineState, stage: str, changed: Work | None = None, **progress: Any) -> dict[str, Work]:
    """A stage's time, and what else *changed* of the work; `stream_mode="custom"` gets it with the *progress* in numbers."""
    now, work = time.time(), state["work"]
    spent = round((now - work["clock"]) * 1000, 3)
    total = round(work["milliseconds"].get(stage, 0) + spent, 3)
    get_stream_writer()({"stage": stage, "milliseconds": spent, **progress})
    times = {**work["milliseconds"], stage: total}
    return {"work": {**work, **(changed or {}), "clock": now, "milliseconds": times}}


def cost_of(work: Mapping[str, Any]) -> Usage:
    """What a run has cost, without the calls themselves."""
    return replace(Usage.from_json(work["usage"]), milliseconds=work["milliseconds"], calls=())


StateEdit: TypeAlias = dict[str, Any]
"""What a node changes in a graph's state."""
NodeResult: TypeAlias = "StateEdit | Command[Any]"
"""An update, and perhaps where to go with it."""
Planner: TypeAlias = "Callable[[PipelineState, RunnableConfig | None], Plan[NodeResult]]"
"""From the state to what a stage does."""


class StageParts(Protocol):
    """The parts of a memory that the stages use."""

    settings: Settings
    longest: Longest
    uses_graph: bool
    reasoner: Reasoner
    describer: Describer | None
    searcher: Searcher
    embedder: Embedder
    ledger: Ledger


class Ask(NamedTuple):
    """Inputs of a Runnable, side by side."""

    runnable: Runnable[Any, Any]
    inputs: Sequence[Any]


Thoughts: TypeAlias = "Generator[Ask, list[Any], NodeResult]"


def thinking(think: Callable[[PipelineState], Thoughts]) -> Planner:
    """A stage that computes off the event loop; each `outputs = yield Ask(…)` in it asks a model."""

    def resume(thoughts: Thoughts, outputs: Any) -> Ask | NodeResult:
        try:
            return thoughts.send(outputs)
        except StopIteration as end:
            return cast("NodeResult", end.value)

    @steps
    def plan(state: PipelineState, config: RunnableConfig | None) -> PlanSteps[NodeResult]:
        thoughts = think(state)
        step = yield from Plan(partial(resume, thoughts, None))
        while isinstance(step, Ask):
            outputs = yield from Plan.calling(step.runnable.batch, step.runnable.abatch, list(step.inputs), config)
            step = yield from Plan(partial(resume, thoughts, outputs))
        return step

    return plan


def for_caller(stage: Planner, check: Callable[[PipelineState, RunnableConfig], PipelineState]) -> Planner:
    """A stage on the state as *check* (`begin_run` or `resume_run`) returns it for the caller."""

    @steps
    def plan(state: PipelineState, config: RunnableConfig | None) -> PlanSteps[NodeResult]:
        checked = yield from Plan(partial(check, state, ensure_config(config)))
        return (yield from stage(checked, config))

    return plan


def begin_run(state: PipelineState, config: RunnableConfig) -> PipelineState:
    """A run begins: its scope follows `resolve_scope`, with the input's `scope` as the argument."""
    runtime = get_runtime()
    scope = resolve_scope(explicit=state.get("scope"), runtime=runtime, config=config)
    return {**state, "scope": resolve_again(scope, runtime=runtime, config=config).named}


def resume_run(state: PipelineState, config: RunnableConfig) -> PipelineState:
    """A run goes on: the call is for the scope that it was begun for, and the state is of one run."""
    try:
        scope = _checked_scope(state)
    except (KeyError, TypeError, ValueError) as error:
        problem = "the state is not that of one run; begin a new run"
        raise InvalidInputError(f"{problem} with messages") from error
    resolve_again(scope, runtime=get_runtime(), config=config)
    return state


_TYPES: Final[Mapping[str, Any]] = {
    "task": Task,
    "turns": list[Turn],
    "before": list[Turn],
    "facts": list[Fact],
    "candidates": Neighbourhood | None,
    "decisions": list[Decision],
    "work": Work,
}
_adapter: Final = cache(TypeAdapter)


def _checked_scope(state: PipelineState) -> Scope:
    """The scope, once all of the state was read as the stages read it: what they could not read is an error here."""
    parts: dict[str, Any] = {**state, "candidates": {**state["candidates"]} or None}
    for name, kind in _TYPES.items():
        records = _adapter(kind).validate_json(json.dumps(parts[name]), strict=True)
        for record, plain in zip(records, parts[name], strict=True) if isinstance(records, list) else ():
            record.from_json(plain)
    _ = Usage() + Usage.from_json({name: parts["work"][name] for name in start_work(0)}["usage"])
    turns, facts, memories = state["turns"], state["facts"], state["candidates"].get("known", ())
    places: list[tuple[int | None, Sequence[Any]]] = [(turn["item"], state["task"]["items"]) for turn in turns]
    places += [(fact["turn"], turns) for fact in facts]
    places += [(decision.get("fact"), facts) for decision in state["decisions"]]
    places += [(place, memories) for own in state["candidates"].get("equal", ()) for place in own]
    if not all(place is None or 0 <= place < len(whole) for place, whole in places):
        raise ValueError("a part names a place of another, which that has not")
    return scope_of(state)
