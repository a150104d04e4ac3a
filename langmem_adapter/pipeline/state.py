"""What travels through the pipeline: plain JSON types only.

Any checkpointer and any strict serializer can keep this state. Vectors are never in it: a resumed run embeds again.
"""

from __future__ import annotations

from typing import Any, Required, TypedDict

from langmem_adapter.records import Scope

__all__ = ["PipelineInput", "PipelineOutput", "PipelineState", "scope_of"]


class PipelineInput(TypedDict, total=False):
    """What the graph takes.

    Attributes:
        messages: The conversation: a `str`, a message, or a list of messages (LangChain's, or OpenAI-style dicts).
        items: Instead of *messages*: several conversations of one scope, each a dict with `messages` and, as it likes,
            `metadata`, `timestamp`, `expires_at`; they share one run and one transaction.
        scope: `{"user_id": …, "agent_id": …, "run_id": …}`, at least one.
        infer: Extract facts (the default), or store each turn verbatim.
        memory_type: `"procedural_memory"` makes one step-by-step record of the conversation.
        prompt: Replaces the extraction instructions for this run.
        metadata: JSON object kept with every memory that comes from *messages*.
        timestamp: Date of the conversation, ISO 8601; default now.
        expires_at: When the memories expire, ISO 8601.
        key: A UUID that names the run; new memories' ids derive from it, and a run that is repeated with the same key
            changes nothing.
    """

    messages: Any
    items: list[dict[str, Any]]
    scope: Required[dict[str, str]]
    infer: bool
    memory_type: str | None
    prompt: str | None
    metadata: dict[str, Any] | None
    timestamp: str | None
    expires_at: str | None
    key: str | None


class PipelineOutput(TypedDict, total=False):
    """What the graph gives: the work of each stage, in its order."""

    turns: list[dict[str, Any]]
    facts: list[dict[str, Any]]
    candidates: dict[str, Any]
    decisions: list[dict[str, Any]]
    result: dict[str, Any]


class PipelineState(PipelineInput, PipelineOutput, total=False):
    """Everything between the two. Parse takes the input out of the state: a thread's next input must not meet it again.

    Attributes:
        run: Name of this run, its `key` or a new one.
        usage: Model calls and tokens so far.
        clock: When the last stage ended, Unix seconds.
        milliseconds: Time spent in each stage so far.
        compared: The candidates that *decisions* were made for.
        attempts: How often the run went back to retrieve.
        conflict: Whether apply refused for a conflict, so that the run has to go back.
    """

    run: str
    usage: dict[str, Any]
    clock: float
    milliseconds: dict[str, float]
    compared: dict[str, Any] | None
    attempts: int
    conflict: bool


def scope_of(state: PipelineState) -> Scope:
    """The scope of a run.

    Raises:
        ScopeError: The state names none.
    """
    return Scope(**state.get("scope", {}))
