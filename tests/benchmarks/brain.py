"""What a conversation of thousands of turns costs at its end beside what it cost at its beginning.

Two thousand turns of LoCoMo, one conversation behind the other (invented ones where the file does not lie beside the checkout),
go through an agent that reads what `BrainMemory` gives it under a fixed budget of tokens, and keeps its answers there; the
models are scripted: one sums up by the beginning of what it reads, the other answers.
"""

from __future__ import annotations

import json
import time
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypedDict

from langgraph.graph import START, StateGraph

from langmem_adapter.conversation import BrainMemory
from langmem_adapter.conversation.summaries import about_tokens
from langmem_adapter.evaluation.questions import read_conversations
from langmem_adapter.memory.memory import Memory
from langmem_adapter.testing import ScriptedChatModel
from tests.beside import LOCOMO

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_core.messages import BaseMessage

__all__ = ["bench_brain"]

_BUDGET: Final = 1_500
_TURNS: Final = 2_000


def bench_brain(report: Callable[..., None], *, quick: bool) -> None:
    """Print how often the context was over its budget, and the cost of the last quarter of turns to that of the second.

    Args:
        report: Prints a line.
        quick: Only some turns.
    """
    said = _said()[: 100 if quick else _TURNS]
    model = ScriptedChatModel(replies=[_shortened] * len(said))
    seconds, over = list[float](), 0
    with Memory(":memory:", model=model, embeddings="hash:64") as memory:
        brain = BrainMemory(memory, "bench", user_id="bench", window=800, max_tokens=400)
        agent = _agent(brain, ScriptedChatModel(replies=["I see."] * len(said)))
        for text in said:
            begun = time.process_time()
            shown = agent.invoke({"said": text})["shown"]
            seconds.append(time.process_time() - begun)
            over += shown > _BUDGET
    quarter = len(said) // 4
    report(f"brain: contexts of {len(said)} turns over a budget of {_BUDGET} tokens", over, "turns", ("<=", 0))
    cost = sum(seconds[-quarter:]) / sum(seconds[quarter : 2 * quarter])
    report("brain: CPU of the last quarter of turns to the second", cost, "x", ("<=", 1.2))
    report("brain: model calls for each hundred turns", 100 * len(model.calls) / len(said), "calls")


class _State(TypedDict):
    said: str
    shown: int


def _agent(brain: BrainMemory, model: ScriptedChatModel) -> Any:
    def answer(state: _State) -> dict[str, int]:
        brain.add_talk(state["said"])
        context = brain.context(_BUDGET)
        brain.add_answer(model.invoke(context))
        return {"shown": about_tokens(context)}

    return StateGraph(_State).add_node("answer", answer).add_edge(START, "answer").compile()


def _said() -> list[str]:
    if not LOCOMO.exists():
        return [f"In week {number} I saw {number} herons at the lake, and then it rained." for number in range(_TURNS)]
    sessions = chain.from_iterable(conversation.sessions for conversation in read_conversations(LOCOMO))
    return [f"{one.speaker}: {one.text}" for session in sessions for one in session.turns]


def _shortened(messages: list[BaseMessage]) -> str:
    data: dict[str, Any] = json.loads(str(messages[1].content).split("\n\n")[1])
    return str(data["text"][:600])
