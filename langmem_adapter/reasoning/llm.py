"""The reasoner that asks a chat model."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from langchain_core.language_models.chat_models import BaseChatModel

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.limits import Limits, model_name
from langmem_adapter.reasoning.base import Answer, Comparison, Description, Extraction, Question, Verdict
from langmem_adapter.reasoning.graph_replies import GraphReply
from langmem_adapter.reasoning.prompts import comparison_messages, extraction_messages
from langmem_adapter.reasoning.prose import description, record
from langmem_adapter.reasoning.relations import Finding, Findings, GraphReader, distinct
from langmem_adapter.reasoning.replies import DecisionReply, FactsReply
from langmem_adapter.reasoning.runs import comparing, describing, finding
from langmem_adapter.reasoning.structured import Channel, Reply, structured
from langmem_adapter.reasoning.verdicts import verdicts_of
from langmem_adapter.records.checks import check_text
from langmem_adapter.records.work import Fact
from langmem_adapter.text import content_words, text_hash
from langmem_adapter.twins import Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import Runnable

    from langmem_adapter.records.work import Turn

__all__ = ["LLMReasoner"]

_LONGEST_CONTEXT: Final = 500


class LLMReasoner:
    """Finds facts and compares them with what is known by asking any LangChain chat model.

    Two calls an add on the clean path, in the reply formats of Mem0 (Chhikara et al. 2025, arXiv:2504.19413): one for
    the facts, and with them the relations for a knowledge graph where one is kept; one for what the facts mean. A reply
    that cannot be used is sent back once with what was wrong. Two cases need no call: nobody of the wanted role spoke, or
    nothing is known to compare with.

    Args:
        model: Any chat model; it needs neither tool calls nor structured output.
        fact_extraction_prompt: Instructions for finding facts instead of ours; conversation and reply format are added.
        update_memory_prompt: Instructions for comparing instead of ours; memories, facts and reply format are added.
        limits: How long a call may take, and how often it is asked again; `None` takes the defaults.

    Raises:
        InvalidInputError: *model* is no chat model, or a prompt is blank.

    Example:
        >>> from langmem_adapter.testing import ScriptedChatModel
        >>> LLMReasoner(ScriptedChatModel(replies=['{"facts": []}'])).mode
        'scripted'
    """

    def __init__(
        self,
        model: BaseChatModel,
        *,
        fact_extraction_prompt: str | None = None,
        update_memory_prompt: str | None = None,
        limits: Limits | None = None,
    ) -> None:
        if not isinstance(model, BaseChatModel):
            raise InvalidInputError(f"the model must be a LangChain chat model, not {type(model).__name__}")
        self._fact_prompt = _checked(fact_extraction_prompt, "fact_extraction_prompt")
        self._update_prompt = _checked(update_memory_prompt, "update_memory_prompt")
        self._channel = Channel(model, limits or Limits(model_name(model)))
        self._extract = finding(self._find, "extract facts")
        self._decide = comparing(self._compare, "compare facts")
        self._record = finding(partial(record, self._channel), "record steps")
        self._describe = describing(partial(description, self._channel), "describe image")

    @property
    def mode(self) -> str:
        """The model's name."""
        return self._channel.name

    @property
    def calls_model(self) -> bool:
        """Comparing costs a call."""
        return True

    @property
    def record(self) -> Runnable[Question, Extraction]:
        """Turns to one step-by-step record. See `Reasoner.record`."""
        return self._record

    @property
    def describe(self) -> Runnable[dict[str, Any], Description]:
        """An image to words. See `Describer.describe`."""
        return self._describe

    @property
    def extract(self) -> Runnable[Question, Extraction]:
        """Turns to facts. See `Reasoner.extract`."""
        return self._extract

    @property
    def decide(self) -> Runnable[Comparison, Answer]:
        """Facts and known memories to verdicts. See `Reasoner.decide`."""
        return self._decide

    def _find(self, question: Question) -> Plan[Extraction]:
        if not _sources(question):
            return Plan.known(Extraction(()))

        def attribute(reply: Reply[Findings]) -> Extraction:
            return Extraction(_facts(reply.value.facts, question), reply.usage, reply.value.notes)

        return self._asking(question)(extraction_messages(question, self._fact_prompt)).then(attribute)

    def _asking(self, question: Question) -> Callable[[list[BaseMessage]], Plan[Reply[Findings]]]:
        if question.graph is None:
            return structured(self._channel, FactsReply, lambda reply, _last: _without_graph(reply))
        reader = GraphReader(question.about)
        return structured(self._channel, GraphReply, reader.read, reader.fallback)

    def _compare(self, comparison: Comparison) -> Plan[Answer]:
        if not comparison.known or not comparison.facts:
            return Plan.known(Answer(_additions(comparison)))

        def read(reply: DecisionReply, last: bool) -> tuple[Verdict, ...]:  # noqa: FBT001 - the reader's signature
            return verdicts_of(comparison, reply, last=last)

        def answer(reply: Reply[tuple[Verdict, ...]]) -> Answer:
            return Answer(reply.value, reply.usage)

        ask = structured(self._channel, DecisionReply, read)
        return ask(comparison_messages(comparison, self._update_prompt)).then(answer)


def _checked(prompt: str | None, name: str) -> str | None:
    if prompt is not None and not check_text(prompt, name).strip():
        raise InvalidInputError(f"{name} is blank; leave it out to use the built-in instructions")
    return prompt


# ── facts and the turns that they come from ──────────────────────────────────────────────────────────────────────────


def _sources(question: Question) -> list[int]:
    return [place for place, turn in enumerate(question.turns) if question.is_source(turn)]


def _without_graph(reply: FactsReply) -> Findings:
    return Findings(tuple(map(Finding, distinct(reply.facts))))


def _facts(found: Sequence[Finding], question: Question) -> tuple[Fact, ...]:
    told = {place: content_words(question.turns[place].text) for place in _sources(question)}
    places = [_turn_of(finding.text, told) for finding in found]
    return tuple(
        Fact(finding.text, place, _context(question.turns[place]), relations=finding.relations)
        for finding, place in zip(found, places, strict=True)
    )


def _turn_of(text: str, told: dict[int, set[str]]) -> int:
    wanted = content_words(text)
    return max(told, key=lambda place: (len(wanted & told[place]), place))


def _context(turn: Turn) -> str:
    return turn.text[:_LONGEST_CONTEXT]


def _additions(comparison: Comparison) -> tuple[Verdict, ...]:
    first: dict[str, int] = {}
    verdicts: list[Verdict] = []
    for number, fact in enumerate(comparison.facts):
        if first.setdefault(text_hash(fact.text), number) == number:
            verdicts.append(Verdict("ADD", fact.text, "nothing was known yet", number))
        else:
            verdicts.append(Verdict("NONE", fact.text, "said twice", number))
    return tuple(verdicts)
