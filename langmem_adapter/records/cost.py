"""What an add cost: calls of the chat model, tokens, time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from langmem_adapter.records.plain import shallow

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Call", "Usage"]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the chat model: what was asked, and what came back.

    Attributes:
        task: What it was for: `"extract facts"`, `"compare facts"`, …
        messages: Role and text of each message sent.
        reply: The raw reply as text.
    """

    task: str
    messages: tuple[tuple[str, str], ...]
    reply: str

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {"task": self.task, "messages": [list(message) for message in self.messages], "reply": self.reply}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`."""
        return cls(data["task"], tuple((role, text) for role, text in data["messages"]), data["reply"])


@dataclass(frozen=True, slots=True)
class Usage:
    """What one add cost.

    Attributes:
        model_calls: Answered calls of the chat model, repairs included.
        input_tokens: Tokens sent, as far as the model reports them.
        output_tokens: Tokens received, likewise.
        milliseconds: Time spent in each stage, by its name.
        calls: The calls themselves; only within the pipeline and in traces, results leave them out.
    """

    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    milliseconds: Mapping[str, float] = field(default_factory=dict)
    calls: tuple[Call, ...] = field(default=(), compare=False)

    def __add__(self, other: Usage) -> Usage:
        """Both together."""
        stages = {**self.milliseconds, **other.milliseconds}
        return Usage(
            self.model_calls + other.model_calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            {name: self.milliseconds.get(name, 0) + other.milliseconds.get(name, 0) for name in stages},
            self.calls + other.calls,
        )

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        calls = [call.to_json() for call in self.calls]
        return {**shallow(self), "milliseconds": dict(self.milliseconds), "calls": calls}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`."""
        return cls(**{**data, "calls": tuple(Call.from_json(call) for call in data.get("calls", ()))})
