"""What travels through the pipeline: plain JSON types only.

Any checkpointer and any strict serializer can keep this state. Vectors are never in it: a resumed run embeds again. The input
is there for parse alone (LangGraph's `EphemeralValue`): a thread's next run must not meet what an earlier one was given.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, NotRequired

from langgraph.channels import EphemeralValue
from langgraph.config import get_stream_writer
from typing_extensions import TypedDict

from langmem_adapter.names import named_speaker
from langmem_adapter.records.cost import Usage
from langmem_adapter.records.scope import Scope
from langmem_adapter.records.work import Fact

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "PipelineInput",
    "PipelineOutput",
    "PipelineState",
    "Task",
    "Work",
    "begun",
    "cost_of",
    "finished",
    "known_texts",
    "said",
    "scope_of",
]


class PipelineInput(TypedDict, total=False):
    """What the graph takes.

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
    """What the graph gives: the work of each stage, in its order."""

    turns: list[dict[str, Any]]
    facts: list[dict[str, Any]]
    candidates: dict[str, Any]
    decisions: list[dict[str, Any]]
    result: dict[str, Any]


class Task(TypedDict):
    """What a run is to do, as parse has read it."""

    key: str  # name of the run within its scope
    scope: dict[str, str]
    infer: bool  # extract facts, or store turns verbatim
    memory_type: str | None  # `None`, or `"procedural_memory"`
    prompt: str | None  # replaces the extraction instructions
    items: list[dict[str, Any]]  # `metadata` and `expires_at` of each conversation
    on_bad_reply: NotRequired[
        str
    ]  # `"raise"`: an unusable reply to the extraction is an error, whatever the setting says
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


def known_texts(state: Mapping[str, Any]) -> dict[str, str]:
    """What the memories say that a run compares with, by their ids."""
    return {memory["id"]: memory["text"] for memory in state.get("candidates", {}).get("known", [])}


def said(state: PipelineState, place: int) -> Fact:
    """A fact of a run with its speaker, as `names.named_speaker` knows him."""
    fact = Fact.from_json(state["facts"][place])
    if fact.unattributed:
        return fact
    turn = state["turns"][fact.turn]
    speaker = named_speaker(turn["actor"], turn["role"], scope_of(state))
    return fact if speaker == fact.speaker else replace(fact, speaker=speaker)


# ── what it costs ──────────────────────────────────────────────────────────────────────────────────────────────────────


def begun(before: float) -> Work:
    """The work of a run that begins now, and on which so many seconds were spent before."""
    return {
        "usage": {},
        "clock": time.time() - before,
        "milliseconds": {},
        "compared": None,
        "attempts": 0,
        "notes": [],
    }


def finished(state: PipelineState, stage: str, changed: Work | None = None, **progress: Any) -> dict[str, Work]:
    """The part of a stage's update that says what it has cost: its time, and what else has *changed* of the work.

    The same goes to `stream_mode="custom"`, with the *progress*: what the stage did, in numbers.
    """
    now, work = time.time(), state["work"]
    spent = round((now - work["clock"]) * 1000, 3)
    total = round(work["milliseconds"].get(stage, 0) + spent, 3)
    get_stream_writer()({"stage": stage, "milliseconds": spent, **progress})
    times = {**work["milliseconds"], stage: total}
    return {"work": {**work, **(changed or {}), "clock": now, "milliseconds": times}}


def cost_of(work: Mapping[str, Any]) -> Usage:
    """What a run has cost, without the calls themselves."""
    return replace(Usage.from_json(work["usage"]), milliseconds=work["milliseconds"], calls=())
