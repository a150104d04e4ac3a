"""The interface of every reasoner, and its steps as Runnables.

A reasoner answers two questions: what do these turns say that is worth remembering, and what do these new facts mean for
what is known? Both answers are LangChain Runnables, so sync and async, batching, streaming of progress and tracing come
from one truth. A reasoner sees no ids, no scopes and no database: memories are shown to it as numbers.
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
    """What is worth remembering in these turns?

    Attributes:
        turns: The conversation, in order, system messages included (never a source of facts).
        about: Whose facts are wanted: `"user"`, or `"assistant"` (with `agent_id` and assistant turns; seed 004).
        today: Date of the conversation, so that "yesterday" can become a date.
        prompt: Replaces the reasoner's own instructions, where it has any.
        graph: What the knowledge graph holds already, where entities and relations are wanted as well; else `None`.
        before: Earlier turns of the conversation, oldest first: they help to understand and are never a source.
        tools: Whether what tools returned is a source as well.
        must_read: An unusable reply of a chat model is an error; else the speaker's own words are kept.
        kept: The turns are memories, each of which stands alone and may go without a subject: their relations are wanted.
    """

    turns: tuple[Turn, ...]
    about: str
    today: date
    prompt: str | None = None
    graph: KnownNames | None = None
    before: tuple[Turn, ...] = ()
    tools: bool = False
    kept: bool = False
    must_read: bool = False

    def is_source(self, turn: Turn) -> bool:
        """Whether facts are taken from a turn of the conversation."""
        return bool(turn.text.strip()) and (turn.role == self.about or (self.tools and turn.role == "tool"))


@dataclass(frozen=True, slots=True)
class Extraction:
    """The facts found, in the order of the conversation, in its language, and notes of what was seen and not used.

    Each fact names the turn it came from, as an index into `ExtractInput.turns`; with `ExtractInput.graph` it carries the
    relations that it states.
    """

    facts: tuple[Fact, ...]
    usage: Usage = Usage()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KnownMemory:
    """A memory as a reasoner may see it.

    Attributes:
        number: What stands for its id.
        text: Its text.
        speaker: Whose statement it is, where somebody is named; else blank.
        date: The day of its last statement, in ISO 8601; blank where that says nothing.
    """

    number: int
    text: str
    speaker: str = ""
    date: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What do these facts mean for the memories that any of them may concern, numbered from 0 in this order?

    With *graph*, relations are wanted for texts that differ from their fact's. *alike* are pairs of a fact and a memory, by
    their numbers, that embeddings take for the same statement.
    """

    facts: tuple[Fact, ...]
    known: tuple[KnownMemory, ...]
    graph: bool = False
    alike: frozenset[tuple[int, int | None]] = frozenset()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of one fact.

    Attributes:
        event: `"ADD"`, `"UPDATE"`, `"DELETE"` or `"NONE"`.
        text: The text to keep (ADD, UPDATE); else the fact.
        reason: Why, in a few words that a user can read.
        fact: Index into `Comparison.facts`.
        number: The memory concerned (UPDATE, DELETE, NONE where there is one); never set for ADD.
        relations: What the text says of relations, where that is not what the fact says; `None` takes the fact's.
    """

    event: Event
    text: str
    reason: str
    fact: int
    number: int | None = None
    relations: tuple[Triple, ...] | None = None


@dataclass(frozen=True, slots=True)
class DecideOutput:
    """What becomes of the facts, in their order.

    Every fact has at least one verdict (a contradiction may take two: DELETE of the old, ADD of the new). No memory is
    concerned by two verdicts that change it. *notes* say where the model's reply could not be used.
    """

    verdicts: tuple[Verdict, ...]
    usage: Usage = Usage()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Passage:
    """A text that is to be summed up.

    Attributes:
        text: What was said, oldest first.
        max_tokens: How many tokens its summary may have.
        count: Counts the tokens of a text.
        before: A summary of what came earlier: it helps to understand, and is not repeated.
        keep_language: Whether to say that it is written in the language of the text.
    """

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
    """Writes what a conversation is summed up with. How long a text came out is for the caller to judge."""

    @property
    def mode(self) -> str:
        """`"offline"` (sentences are taken as they are), or the chat model's name."""

    def summarize(self, passage: Passage) -> Plan[Wording]:
        """A text to a shorter one.

        Raises:
            ModelReplyError: The model said nothing.
        """

    def title(self, text: str, max_words: int) -> Plan[Wording]:
        """A text to a title of at most *max_words*, in its language.

        Raises:
            ModelReplyError: The model said nothing.
        """

    def is_related(self, text: str, other: str) -> Plan[tuple[bool, Usage]]:
        """Whether two texts belong together.

        Raises:
            ModelReplyError: The model's reply stayed unreadable after one repair.
        """

    def rewrite(self, sentence: str, context: str) -> Plan[Wording]:
        """A sentence to one that can be understood without its context.

        Raises:
            ModelReplyError: The model said nothing.
        """


@runtime_checkable
class Describer(Protocol):
    """Puts images into words."""

    @property
    def describe(self) -> Runnable[dict[str, Any], Wording]:
        """An OpenAI-style image part (`{"type": "image_url", "image_url": {"url": …}}`) to words; none of a model without eyes.

        Raises:
            ModelReplyError: The model said nothing.
        """


@runtime_checkable
class Reasoner(Protocol):
    """Finds facts and compares them with what is known."""

    @property
    def mode(self) -> str:
        """`"offline"`, or the chat model's name: shown with every result."""

    @property
    def calls_model(self) -> bool:
        """Whether a comparison costs a call; if not, it is asked even where nothing is known."""

    @property
    def summarizer(self) -> Summarizer:
        """Who sums up conversations."""

    @property
    def record(self) -> Runnable[ExtractInput, Extraction]:
        """Turns to one step-by-step record of what was done (procedural memory, seed 004 §1.3), as a single fact.

        Raises:
            ModelReplyError: The model said nothing.
        """

    @property
    def extract(self) -> Runnable[ExtractInput, Extraction]:
        """Turns to facts.

        Raises:
            ModelReplyError: The model's reply stayed unreadable after one repair.
        """

    @property
    def decide(self) -> Runnable[Comparison, DecideOutput]:
        """Facts and known memories to verdicts.

        Raises:
            ModelReplyError: The model's reply stayed unreadable, or unusable, after one repair.
        """


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
