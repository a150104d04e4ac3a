"""What a reasoner does, as Runnables that read well in a trace: turns and facts go in, facts and verdicts come out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.tracing import OneRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_core.runnables import Runnable

    from langmem_adapter.reasoning.base import Comparison, DecideOutput, ExtractInput, Extraction, Wording
    from langmem_adapter.records.work import Fact, Turn
    from langmem_adapter.twins import Plan

__all__ = ["comparing", "describing", "finding"]

_LONGEST: Final = 100


def finding(plan: Callable[[ExtractInput], Plan[Extraction]], name: str) -> Runnable[ExtractInput, Extraction]:
    """Turns to facts, or to a record, by a plan; the run is called *name*."""
    return OneRun(plan, name, inputs=_question, shown=_extraction)


def comparing(plan: Callable[[Comparison], Plan[DecideOutput]], name: str) -> Runnable[Comparison, DecideOutput]:
    """Facts and known memories to verdicts; as `finding` does it."""
    return OneRun(plan, name, inputs=_comparison, shown=_answer)


def describing(plan: Callable[[dict[str, Any]], Plan[Wording]], name: str) -> Runnable[dict[str, Any], Wording]:
    """An image to words; as `finding` does it."""
    return OneRun(plan, name, inputs=_image, shown=lambda words: {"text": words.text})


def _question(question: ExtractInput) -> dict[str, Any]:
    before = {"before": [_turn(turn) for turn in question.before]} if question.before else {}
    return {**before, "turns": [_turn(turn) for turn in question.turns], "about": question.about}


def _turn(turn: Turn) -> dict[str, Any]:
    calls = [{"name": call.name, "arguments": call.arguments} for call in turn.calls]
    return {"role": turn.role, "name": turn.actor, "text": turn.text, **({"calls": calls} if calls else {})}


def _extraction(found: Extraction) -> dict[str, Any]:
    return {"facts": [{"text": fact.text, "turn": fact.turn, **_relations(fact)} for fact in found.facts]}


def _relations(fact: Fact) -> dict[str, Any]:
    told = [f"{triple.source} {triple.relation} {triple.target}" for triple in fact.relations]
    return {"relations": told} if told else {}


def _image(image: dict[str, Any]) -> dict[str, Any]:
    return {"image": image["image_url"]["url"][:_LONGEST]}  # the model's own run has the whole picture


def _comparison(comparison: Comparison) -> dict[str, Any]:
    return {
        "facts": [fact.text for fact in comparison.facts],
        "memories": {str(known.number): known.text for known in comparison.known},
    }


def _answer(answer: DecideOutput) -> dict[str, Any]:
    names = ("fact", "event", "number", "text", "reason")
    return {"verdicts": [{name: getattr(verdict, name) for name in names} for verdict in answer.verdicts]}
