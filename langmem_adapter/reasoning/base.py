"""The interface of reasoners: turns become facts, facts and memories become decisions, both as LangChain Runnables.

A reasoner sees no ids, no scopes and no database: memories are numbers to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from langmem_adapter.records.results import Usage
from langmem_adapter.tracing import OneRun

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date

    from langchain_core.runnables import Runnable

    from langmem_adapter.records.graph import Triple
    from langmem_adapter.records.results import Event, Fact, Turn
    from langmem_adapter.twins import Plan


@dataclass(frozen=True, slots=True)
class KnownNames:
    """Names that a reasoner should use again: entities with their types (empty where unknown), most often stated first."""

    entities: tuple[tuple[str, str], ...] = ()
    relations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExtractInput:
    """A conversation to extract facts from."""

    turns: tuple[Turn, ...]  # system messages included, which are never a source of facts
    about: str  # `"user"`, or `"assistant"` (with `agent_id` and assistant turns; seed 004)
    today: date  # of the conversation, so that "yesterday" can become a date
    prompt: str | None = None  # replaces the reasoner's own instructions
    graph: KnownNames | None = None  # names of the knowledge graph, where relations are wanted as well
    before: tuple[Turn, ...] = ()  # earlier turns, oldest first: they help to understand and are never a source
    tools: bool = False  # whether results of tools are a source as well
    kept: bool = False  # the turns are memories, perhaps without a subject: their relations are wanted
    must_read: bool = False  # an unusable reply of a chat model is an error; else the speaker's own words are kept

    def is_source(self, turn: Turn) -> bool:
        """Whether facts are taken from a turn of the conversation."""
        return bool(turn.text.strip()) and (turn.role == self.about or (self.tools and turn.role == "tool"))


@dataclass(frozen=True, slots=True)
class Extraction:
    """Facts in the order and the language of the conversation, and notes on what was not used."""

    facts: tuple[Fact, ...]
    usage: Usage = Usage()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KnownMemory:
    """A memory as a reasoner may see it: a number for its id, its text, and where they matter speaker and last day (ISO)."""

    number: int
    text: str
    speaker: str = ""
    date: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Facts, and the memories that any of them may concern, numbered from 0 in this order."""

    facts: tuple[Fact, ...]
    memories: tuple[KnownMemory, ...]
    graph: bool = False  # whether relations are wanted for texts that differ from their fact's
    alike: frozenset[tuple[int, int | None]] = (
        frozenset()
    )  # a fact and a memory that embeddings take for the same statement


@dataclass(frozen=True, slots=True)
class FactDecision:
    """What becomes of one fact."""

    event: Event
    text: str  # to keep (ADD, UPDATE); else the fact
    reason: str  # in a few words that a user can read
    fact: int  # index into `Comparison.facts`
    number: int | None = None  # the memory concerned; never set for ADD
    relations: tuple[Triple, ...] | None = None  # what the text says of relations; `None` takes the fact's


@dataclass(frozen=True, slots=True)
class DecideOutput:
    """What becomes of the facts, in their order: at least one decision for each, no two for one memory."""

    decisions: tuple[FactDecision, ...]
    usage: Usage = Usage()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Passage:
    """A text to summarize, oldest first, in at most *max_tokens* as *count* counts them; *before* is not repeated."""

    text: str
    max_tokens: int
    count: Callable[[str], int]
    before: str = ""
    keep_language: bool = False


@dataclass(frozen=True, slots=True)
class Wording:
    """A text that was written: a summary, a title, a sentence, what an image shows."""

    text: str
    usage: Usage = Usage()


class Summarizer(Protocol):
    """Writes summaries and titles; a model that says nothing is a `ModelReplyError`. The caller judges the length."""

    @property
    def mode(self) -> str:
        """`"offline"` (sentences are taken as they are), or the chat model's name."""

    def summarize(self, passage: Passage) -> Plan[Wording]:
        """A text to a shorter one."""

    def title(self, text: str, max_words: int) -> Plan[Wording]:
        """A text to a title of at most *max_words*, in its language."""

    def is_related(self, text: str, other: str) -> Plan[tuple[bool, Usage]]:
        """Whether two texts belong together."""

    def rewrite(self, sentence: str, context: str) -> Plan[Wording]:
        """A sentence to one that can be understood without its context."""


@runtime_checkable
class Describer(Protocol):
    """Puts images into words."""

    @property
    def describe(self) -> Runnable[dict[str, Any], Wording]:
        """An OpenAI-style image part (`{"type": "image_url", …}`) to words; none of a model without eyes."""


@runtime_checkable
class Reasoner(Protocol):
    """Extracts facts and compares them with memories; a reply that stays unusable is a `ModelReplyError`."""

    @property
    def mode(self) -> str:
        """`"offline"`, or the chat model's name: shown with every result."""

    @property
    def calls_model(self) -> bool:
        """Whether a comparison costs a call; if not, it runs even where there are no memories."""

    @property
    def summarizer(self) -> Summarizer:
        """Writes summaries and titles."""

    @property
    def record(self) -> Runnable[ExtractInput, Extraction]:
        """Turns to one step-by-step record of what was done (procedural memory, seed 004 §1.3), as a single fact."""

    @property
    def extract(self) -> Runnable[ExtractInput, Extraction]:
        """Turns to facts."""

    @property
    def decide(self) -> Runnable[Comparison, DecideOutput]:
        """Facts and memories to decisions."""


_LONGEST: Final = 100  # letters of an image's address that a trace shows


def make_extract(plan: Callable[[ExtractInput], Plan[Extraction]], name: str) -> Runnable[ExtractInput, Extraction]:
    """A Runnable from turns to facts, or to a record; a trace calls its run *name*."""
    return OneRun(plan, name, inputs=_show_question, summarize=_show_extraction)


def make_decide(plan: Callable[[Comparison], Plan[DecideOutput]], name: str) -> Runnable[Comparison, DecideOutput]:
    """A Runnable from facts and memories to decisions."""
    return OneRun(plan, name, inputs=_show_comparison, summarize=_show_decisions)


def make_describe(plan: Callable[[dict[str, Any]], Plan[Wording]], name: str) -> Runnable[dict[str, Any], Wording]:
    """A Runnable from an image to words; the run of the model below it has the whole image."""
    return OneRun(
        plan,
        name,
        inputs=lambda image: {"image": image["image_url"]["url"][:_LONGEST]},
        summarize=lambda words: {"text": words.text},
    )


def _show_question(question: ExtractInput) -> dict[str, Any]:
    before = {"before": [_show_turn(turn) for turn in question.before]} if question.before else {}
    return {**before, "turns": [_show_turn(turn) for turn in question.turns], "about": question.about}


def _show_turn(turn: Turn) -> dict[str, Any]:
    calls = [{"name": call.name, "arguments": call.arguments} for call in turn.calls]
    return {"role": turn.role, "name": turn.actor, "text": turn.text, **({"calls": calls} if calls else {})}


def _show_extraction(extraction: Extraction) -> dict[str, Any]:
    facts: list[dict[str, Any]] = []
    for fact in extraction.facts:
        relations = [f"{triple.source} {triple.relation} {triple.target}" for triple in fact.relations]
        facts.append({"text": fact.text, "turn": fact.turn, **({"relations": relations} if relations else {})})
    return {"facts": facts}


def _show_comparison(comparison: Comparison) -> dict[str, Any]:
    memories = {str(memory.number): memory.text for memory in comparison.memories}
    return {"facts": [fact.text for fact in comparison.facts], "memories": memories}


def _show_decisions(output: DecideOutput) -> dict[str, Any]:
    names = ("fact", "event", "number", "text", "reason")
    return {"decisions": [{name: getattr(decision, name) for name in names} for decision in output.decisions]}
