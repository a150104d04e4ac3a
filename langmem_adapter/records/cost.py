"""What an add cost: calls of the chat model, tokens, time; and what texts will cost, about."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from langmem_adapter.records.plain import MAPPING, Form, Portable, forms, several

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["ModelCall", "Usage", "fitting", "tokens_in"]

_BYTES: Final = 4  # of UTF-8 in a token: about right for scripts without an alphabet, too


@dataclass(frozen=True, slots=True)
class ModelCall(Portable):
    """One call of the chat model: what was asked, and what came back.

    Attributes:
        task: What it was for: `"facts_found"`, `"memory_decided"`, `"record steps"`, `"describe image"`, …
        messages: Role and text of each message sent.
        reply: The raw reply as text.
    """

    task: str
    messages: tuple[tuple[str, str], ...]
    reply: str

    _forms = forms(messages=Form(lambda said: list(map(list, said)), lambda told: tuple(map(tuple, told))))


@dataclass(frozen=True, slots=True)
class Usage(Portable):
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
    calls: tuple[ModelCall, ...] = field(default=(), compare=False)

    _forms = forms(milliseconds=MAPPING, calls=several(ModelCall))

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


def tokens_in(text: str) -> int:
    """About how many tokens a text has.

    Example:
        >>> tokens_in("Lives in Lyon"), tokens_in("住在里昂，喜欢绿茶")
        (4, 7)
    """
    return -(-len(text.encode()) // _BYTES)


def fitting(texts: Iterable[str], *, each: int, most: int) -> list[str]:
    """The first of some texts, the most important first, as many as fit into *most* tokens; each is cut to *each* tokens.

    Example:
        >>> fitting(["Lives in Lyon", "Likes tea and everything that goes with it", "Has a dog"], each=6, most=10)
        ['Lives in Lyon', 'Likes tea and everyt…']
    """
    kept: list[str] = []
    for text in texts:
        cut = text if tokens_in(text) <= each else f"{text.encode()[: _BYTES * (each - 1)].decode(errors='ignore')}…"
        most -= tokens_in(cut)
        if most < 0:
            break
        kept.append(cut)
    return kept
