"""The reasoner of a chat model, and the reasoner for "offline", "openai:gpt-5-mini" or a chat model."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from langchain_core.language_models.chat_models import BaseChatModel

from langmem_adapter.errors import InvalidInputError, ModelContextError
from langmem_adapter.names import entity_key
from langmem_adapter.providers import (
    Limits,
    limits_of,
    make_with_timeout,
    model_name,
    provider_errors,
    reply_bounds,
    server_options,
)
from langmem_adapter.reasoning.base import (
    Comparison,
    DecideOutput,
    ExtractInput,
    Extraction,
    FactDecision,
    KnownNames,
    make_decide,
    make_describe,
    make_extract,
)
from langmem_adapter.reasoning.free_text import LLMSummarizer, description, record, record_of_steps
from langmem_adapter.reasoning.prompts import comparison_messages, example_words, extraction_messages
from langmem_adapter.reasoning.reader import QUESTION, additions, read_decision, read_facts, sources
from langmem_adapter.reasoning.replies import (
    DecisionReply,
    FactsReply,
    GraphDecisionReply,
    GraphReply,
    SmallFactsReply,
    UnusableReplyError,
    complete_items,
)
from langmem_adapter.reasoning.rules import RuleReasoner
from langmem_adapter.reasoning.structured_output import Channel, full_text, structured
from langmem_adapter.records.checks import check_text, redact_url
from langmem_adapter.records.results import FORGET, Fact
from langmem_adapter.statements.dates import dated, dated_chinese
from langmem_adapter.statements.reader import expanded, third_person, without_speaker
from langmem_adapter.text import content_words, is_cjk, text_hash, words
from langmem_adapter.twins import Plan, steps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from langchain_core.messages import AIMessage

    from langmem_adapter.reasoning.base import Reasoner
    from langmem_adapter.records.results import Turn
    from langmem_adapter.settings import BadReply, ModelProfile, Settings
    from langmem_adapter.storage.meta import ReplyLog
    from langmem_adapter.twins import PlanSteps


class LLMReasoner:
    """Extracts facts and compares them with memories by asking any LangChain chat model. See `Reasoner`, `Describer`.

    Two calls an add on the clean path, in the reply formats of Mem0 (Chhikara et al. 2025, arXiv:2504.19413): one for
    the facts, and with them the relations for a knowledge graph; one for the decisions. A reply that cannot be used is
    sent back once with what was wrong. No call is needed without a message of the wanted role, or without a memory.

    For the prompts, *profile* and *on_bad_reply* see `Memory`; *bounds* are fields of the model that bound its replies,
    the second for the profile small.
    """

    calls_model: Final = True

    def __init__(  # noqa: PLR0913 - each is one option
        self,
        model: BaseChatModel,
        *,
        fact_extraction_prompt: str | None = None,
        update_memory_prompt: str | None = None,
        graph_prompt: str | None = None,
        limits: Limits | None = None,
        on_bad_reply: BadReply = "raise",
        profile: ModelProfile = "full",
        bounds: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {}),
    ) -> None:
        if not isinstance(model, BaseChatModel):
            raise InvalidInputError(f"the model must be a LangChain chat model, not {type(model).__name__}")
        self._fact_prompt = _checked(fact_extraction_prompt, "fact_extraction_prompt")
        self._update_prompt = _checked(update_memory_prompt, "update_memory_prompt")
        self._graph_prompt = _checked(graph_prompt, "graph_prompt")
        self._keeps = on_bad_reply == "keep"
        self._profile: Final = profile
        limits = limits or Limits(model_name(model))
        self._channel, self._small = (Channel(model, limits, each) for each in bounds)
        self.mode: Final = self._channel.name
        self.extract: Final = make_extract(self._extract, "extract facts")
        self.decide: Final = make_decide(self._compare, "compare facts")
        self.record: Final = make_extract(self._record, "record steps")
        self.summarizer: Final = LLMSummarizer(self._channel)
        self.describe: Final = make_describe(partial(description, self._channel), "describe image")

    def keep_history(self, replies: ReplyLog) -> None:
        """Note replies from now on, for the profile "auto"."""
        self._channel.replies = replies

    @property
    def profile(self) -> Literal["full", "small"]:
        """The profile in use."""
        if self._profile == "auto":
            return "small" if self._channel.replies is not None and self._channel.replies.is_poor else "full"
        return self._profile

    def _record(self, question: ExtractInput) -> Plan[Extraction]:
        is_small = self.profile == "small" and question.prompt is None
        return Plan(partial(record_of_steps, question)) if is_small else record(self._channel, question)

    @steps
    def _extract(self, question: ExtractInput) -> PlanSteps[Extraction]:
        if not sources(question):
            return Extraction(())
        try:
            return (yield from self._extract_whole(question))
        except ModelContextError:
            if len(question.turns) == 1 and len(question.turns[0].text) < _SHORTEST:
                raise
            return (yield from self._in_parts(question))

    @steps
    def _extract_whole(self, question: ExtractInput) -> PlanSteps[Extraction]:
        if self.profile == "full":
            return (yield from self._ask(question))
        if question.kept:
            return (yield from Plan(partial(_RULES.extract.invoke, question)))
        if question.prompt or self._fact_prompt or question.about != "user" or question.tools:
            return (yield from self._ask(replace(question, graph=None), small=True))
        certain, words, rest = _split(question)
        extraction = (yield from self._ask(rest, small=True)) if words else Extraction(())
        return (yield from Plan(partial(_merge, question, certain, words, extraction)))

    @steps
    def _ask(self, question: ExtractInput, *, small: bool = False) -> PlanSteps[Extraction]:
        channel = self._small if small else self._channel
        schema = SmallFactsReply if small else FactsReply if question.graph is None else GraphReply
        messages = extraction_messages(question, self._fact_prompt, relations=self._graph_prompt, small=small)
        read = partial(read_facts, question, example_words(messages[0].text))
        keep = partial(_kept_words, question, schema, read) if self._keeps and not question.must_read else None
        extraction: Extraction
        extraction, usage = yield from structured(channel, schema, read, messages, keep=keep, repairs=not small)
        return replace(extraction, usage=usage)

    @steps
    def _in_parts(self, question: ExtractInput) -> PlanSteps[Extraction]:
        """A conversation that the model's context is too small for, in two halves."""
        turns, middle = question.turns, len(question.turns) // 2
        text = turns[0].text
        cut = max(text.rfind(mark, 0, len(text) // 2 + 1) for mark in "\n .。") + 1 or len(text) // 2
        pieces = [(replace(turns[0], text=piece),) for piece in (text[:cut], text[cut:])]
        halves = [turns[:middle], turns[middle:]] if middle else pieces

        def read_half(half: Sequence[Turn], before: Sequence[Turn]) -> Plan[Extraction]:
            most = min(_SHORTEST, sum(len(turn.text) for turn in half) // 4)  # else a half is as long as the whole
            context = (replace(turn, text=turn.text[-most:]) for turn in before[-1:] if most)
            return self._extract(replace(question, turns=tuple(half), before=tuple(context)))

        one = yield from read_half(halves[0], question.before)
        other = yield from read_half(halves[1], halves[0])
        facts = (*one.facts, *(replace(fact, turn=fact.turn + middle) for fact in other.facts))
        notes = dict.fromkeys((*one.notes, *other.notes, _IN_PARTS))
        return Extraction(facts, one.usage + other.usage, tuple(notes))

    @steps
    def _compare(self, comparison: Comparison) -> PlanSteps[DecideOutput]:
        if not comparison.memories or not comparison.facts:
            return DecideOutput(additions(comparison, "nothing was known yet"))
        if self.profile == "small" and self._update_prompt is None:
            return (yield from Plan(partial(_decide_small, comparison)))
        schema = GraphDecisionReply if comparison.graph else DecisionReply
        messages = comparison_messages(comparison, self._update_prompt)
        read, notes = partial(read_decision, comparison, example_words(messages[0].text)), list[str]()

        def keep(why: str, _: AIMessage) -> tuple[FactDecision, ...]:
            notes.append(f"{why}; what is new was added, and nothing was changed")
            return additions(comparison, "the model's decision could not be used; added so that it is not lost")

        reply = yield from structured(self._channel, schema, read, messages, keep=keep if self._keeps else None)
        return DecideOutput(*reply, tuple(notes))


def _kept_words(
    question: ExtractInput,
    schema: type[FactsReply],
    read: Callable[[FactsReply], tuple[Extraction, Sequence[str]]],
    why: str,
    reply: AIMessage,
) -> Extraction:
    """The complete items of a reply that could not be used, where there are any; else the speaker's own words."""
    items = complete_items(full_text(reply), schema.root)
    with suppress(UnusableReplyError):
        extraction, _ = read(schema.of([{schema.root: items[:-1] if reply.tool_calls else items}]))
        if extraction.facts:
            note = f"{why}; complete facts that were kept: {len(extraction.facts)}"
            return replace(extraction, notes=(*extraction.notes, note))
    kept = _RULES.extract.invoke(question)
    return replace(kept, notes=(f"{why}; what was said is kept in its own words",))


def _checked(prompt: str | None, name: str) -> str | None:
    if prompt is not None and not check_text(prompt, name).strip():
        raise InvalidInputError(f"{name} is blank; leave it out to use the built-in instructions")
    return prompt


_IN_PARTS: Final = "the conversation is longer than the model's context; it was read in parts"
_SHORTEST: Final = 1_000  # letters; a shorter message is not read in parts
_OFFLINE: Final = "offline"
_FORMS: Final = "write 'offline', or 'provider:name' as in 'openai:gpt-5-mini'"


def resolve_model(model: str | BaseChatModel, settings: Settings, **prompts: str | None) -> Reasoner:
    """The reasoner for a model: `"offline"`, a name for LangChain's `init_chat_model`, or a chat model, which is used as it is.

    Example:
        >>> from langmem_adapter.settings import Settings
        >>> resolve_model("offline", Settings()).mode
        'offline'
    """
    if model == _OFFLINE:
        if any(prompts.values()):
            raise InvalidInputError("prompts are instructions for a chat model; also give model='openai:…' or the like")
        return RuleReasoner()
    chat_model = make_with_timeout(partial(named_model, model, settings), settings) if isinstance(model, str) else model
    full, small = (
        reply_bounds(chat_model, model, settings, most) if isinstance(model, str) else {} for most in (4_096, 256)
    )
    return LLMReasoner(
        chat_model,
        limits=limits_of(model, chat_model, settings),
        on_bad_reply=settings.on_bad_reply,
        profile=settings.model_profile,
        bounds=(full, small),
        **prompts,
    )


def named_model(name: str, settings: Settings, **parameters: Any) -> BaseChatModel:
    """The chat model of a name, at the server and with the key of the settings."""
    from langchain.chat_models import init_chat_model  # noqa: PLC0415 - langchain is slow to import, and offline needs none

    with provider_errors(f"model {redact_url(name)!r}", form=_FORMS):
        chat_model: BaseChatModel = init_chat_model(name, **server_options(name, settings), **parameters)
    return chat_model


# ── the profile of small models ─────────────────────────────────────────────────────────────────────────────────────────────

# Such a model copies, repeats and invents. So rules take what is certain from it: requests to forget, statements that the
# table of attributes reads whole, small talk, questions and requests. The model reads the rest, in one call. It may shorten and
# split what is said, and no more: where its facts say less than three quarters of a message, the speaker's words are kept.

_RULES: Final = RuleReasoner()
_LAST: Final = 4  # earlier messages that are shown
_POINTS_BACK: Final = re.compile(
    r"\b(?:he|she|it|they|him|her|them|his|hers|its|their|there|that one|this|these|those)\b|[他她它那这]",
    re.IGNORECASE,
)
_OWN: Final = re.compile(r"^(?:my|our|the|about|that)\s+|^我们?的?", re.IGNORECASE)
_MOST_NAMED: Final = 3
_SHORT_ANSWER: Final = 3  # content words of an answer that its question completes
_SAYS: Final = re.compile(r"\b(?i:i|i'm|im|me|my|mine|we|us|our)\b|[我俺咱]|\d|(?<!^)[A-Z]")
"""A message without the speaker, a number and a name, of which the model says nothing, either, is small talk."""


WordsLeft: TypeAlias = dict[int, list[Fact]]
"""What is left of each turn, in the speaker's words."""


def _split(question: ExtractInput) -> tuple[list[Fact], WordsLeft, ExtractInput]:
    """What rules are certain of; what they would keep in the speaker's words, and short answers; the question about these."""
    facts = _RULES.extract.invoke(question).facts
    kept: WordsLeft = {}
    turns: list[Turn] = []
    before: list[Turn] = []
    earlier = [*question.before]
    for place, turn in enumerate(question.turns):
        own = [fact for fact in facts if fact.turn == place]
        quoted = [fact for fact in own if fact.is_quotation]
        is_short = question.is_source(turn) and own == quoted and len(content_words(turn.text)) <= _SHORT_ANSWER
        asks = QUESTION.findall(earlier[-1].text)[-1:] if earlier and is_short else []
        if quoted or asks:
            kept[place] = [Fact(f"{asks[0].strip()} {turn.text}", place, is_quotation=True)] if asks else quoted
            turns.append(turn if asks else replace(turn, text=" ".join(fact.text for fact in quoted)))
            before = earlier[-_LAST:] if asks or _POINTS_BACK.search(turn.text) else before
        earlier += [turn] if turn.role != "system" else []
    rest = replace(question, turns=tuple(turns), before=tuple(before), graph=None)
    return [fact for fact in facts if not fact.is_quotation], kept, rest


def _shortens(text: str, message: str) -> bool:
    """Whether a message has all words of a text, in this order."""
    left = iter(_words(message))
    return all(word in left for word in _words(text))


def _words(text: str) -> list[str]:
    return [letter for letter in text if letter.isalnum()] if is_cjk(text) else words(text)


def _merge(question: ExtractInput, certain: Sequence[Fact], kept: WordsLeft, extraction: Extraction) -> Extraction:
    """The facts of the rules and of the model, those of each turn where its words say most of them."""
    words_of = {place: " ".join(fact.text for fact in own) for place, own in kept.items()}
    accepted: WordsLeft = {place: [] for place in words_of}
    for fact in extraction.facts:
        place = next((place for place in words_of if _shortens(fact.text, words_of[place])), None)
        if place is not None and not QUESTION.fullmatch(fact.text):
            accepted[place] += _tidied(fact, question.turns[place], place)
    is_empty = len(words_of) == 1 and not extraction.facts and not extraction.notes
    facts = [*certain]
    for place, own in accepted.items():
        turn, stated = question.turns[place], content_words(" ".join(fact.text for fact in own))
        is_answer = words_of[place] != turn.text and words_of[place].endswith(turn.text)
        needed = content_words(words_of[place]) - (content_words(turn.text) if is_answer else set())
        is_talk = is_empty and not is_answer and not _SAYS.search(turn.text)
        facts += own if is_talk or (own and 4 * len(needed & stated) >= 3 * len(needed)) else kept[place]
    distinct = {(question.turns[fact.turn].actor, text_hash(fact.text)): fact for fact in reversed(facts)}.values()
    contents = [(fact.turn, content_words(fact.text), fact) for fact in distinct]
    whole = [fact for turn, words, fact in contents if not any(turn == t and words < more for t, more, _ in contents)]
    related = (_related(fact, question) for fact in sorted(whole, key=lambda fact: fact.turn))
    return replace(extraction, facts=tuple(related))


def _decide_small(comparison: Comparison) -> DecideOutput:
    """What the table of attributes says; a request to forget that it does not read ends the facts with all of its words."""
    output = _RULES.decide.invoke(comparison)
    changed = {decision.number for decision in output.decisions if decision.event in {"UPDATE", "DELETE"}}
    decisions: list[FactDecision] = []
    for decision in output.decisions:
        fact, named = comparison.facts[decision.fact], set[int]()
        if decision.event == "NONE" and fact.text.startswith(FORGET):
            named = _memories_named(fact, comparison) - changed
        ends = (
            FactDecision("DELETE", fact.text, "asked to forget it", decision.fact, number) for number in sorted(named)
        )
        decisions += [*ends] or [decision]
        changed |= named
    return replace(output, decisions=tuple(decisions))


def _memories_named(fact: Fact, comparison: Comparison) -> set[int]:
    """The memories of the same speaker that hold all words of a request to forget; none where these are many."""
    words = content_words(_OWN.sub("", fact.text.removeprefix(FORGET)))
    of_speaker = [memory for memory in comparison.memories if entity_key(memory.speaker) == entity_key(fact.speaker)]
    named = {memory.number for memory in of_speaker if words and words <= content_words(memory.text)}
    return named if len(named) <= _MOST_NAMED else set()


def _tidied(fact: Fact, turn: Turn, place: int) -> Sequence[Fact]:
    """A fact in the words of the table of attributes where that reads it, with its days as dates."""
    alone = ExtractInput((replace(turn, text=fact.text, role="user"),), "user", turn.time.date())
    tidy = () if fact.is_quotation else _RULES.extract.invoke(alone).facts
    if tidy and not any(each.is_quotation or each.text.startswith(FORGET) for each in tidy):
        return [replace(each, turn=place) for each in tidy]
    if fact.is_quotation:
        return [replace(fact, turn=place)]
    plain = without_speaker(fact.text) if is_cjk(fact.text) else third_person(expanded(fact.text))
    text = dated(dated_chinese(plain or fact.text, alone.today), alone.today)
    return [
        replace(fact, text=f"{text[:1].upper()}{text[1:]}", turn=place, context=turn.text[:500], unattributed=False)
    ]


def _related(fact: Fact, question: ExtractInput) -> Fact:
    """A fact with the relations that rules read in it, where a graph is kept."""
    if question.graph is None or fact.relations or fact.is_quotation or fact.text.startswith(FORGET):
        return fact
    turns = (replace(question.turns[fact.turn], text=fact.text),)
    (read,) = _RULES.extract.invoke(replace(question, turns=turns, before=(), graph=KnownNames(), kept=True)).facts
    return replace(fact, relations=read.relations)
