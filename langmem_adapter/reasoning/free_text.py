"""Summaries, titles, procedural records and image descriptions, with a chat model and without."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import BaseMessage, HumanMessage

from langmem_adapter.errors import InvalidInputError, ModelError, ModelReplyError
from langmem_adapter.providers import refuses_images
from langmem_adapter.reasoning.base import Extraction, Passage, Wording
from langmem_adapter.reasoning.prompts import (
    DESCRIBE,
    instructions,
    record_messages,
    related_messages,
    rewrite_messages,
    summary_messages,
    title_messages,
)
from langmem_adapter.reasoning.replies import RelatedReply
from langmem_adapter.reasoning.structured_output import Channel, structured, usage_of
from langmem_adapter.records.checks import check_text
from langmem_adapter.records.results import Fact, Usage
from langmem_adapter.text import content_words, is_cjk, subjects, text_hash
from langmem_adapter.tracing import stage
from langmem_adapter.twins import Plan, steps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langmem_adapter.reasoning.base import ExtractInput
    from langmem_adapter.records.results import Turn
    from langmem_adapter.twins import PlanSteps

_EXTRACT_SENTENCE: Final = re.compile(r"(?:[^.!?。！？]++|[.!?]++(?!\s))++(?:[.!?]++|[。！？]++)?+|[.!?。！？]++")
_SPEAKER: Final = re.compile(r"\w[\w .@-]{0,40}[:：]\s*")
_CLOSING: Final = " \t\n.,;:!?。，、；：！？…"
_RELATED: Final = 1 / 3


class RuleSummarizer:
    """Summarizes offline by taking sentences as they are, those with the most frequent words; `rewrite` changes nothing.

    Example:
        >>> RuleSummarizer().title("user: My sister Jesica moved to Lyon last week. Fine!", 5).run().text
        'My sister Jesica moved to'
    """

    mode: Final = "offline"

    def summarize(self, passage: Passage) -> Plan[Wording]:
        """The sentences that say most, as many as fit; the beginning of one where none fits."""
        return Plan(lambda: Wording(_extract(passage)))

    def title(self, text: str, max_words: int) -> Plan[Wording]:
        """The first words of the sentence that says most; in scripts without spaces two letters make a word."""
        return Plan(lambda: Wording(_title(text, max_words)))

    def is_related(self, text: str, other: str) -> Plan[tuple[bool, Usage]]:
        """Whether a third of what the shorter one is about is in the other as well."""
        one, two = subjects(text), subjects(other)
        fewer = min(len(one), len(two))
        return Plan.of((fewer > 0 and len(one & two) >= _RELATED * fewer, Usage()))

    def rewrite(self, sentence: str, context: str) -> Plan[Wording]:  # noqa: ARG002 - see the class
        """The sentence as it is."""
        return Plan.of(Wording(sentence))


def _extract(passage: Passage) -> str:
    sentences = _sentences(passage.text)
    kept: set[int] = set()
    for place in _ranked(sentences):
        if passage.count(_joined(sentences, kept | {place})) <= passage.max_tokens:
            kept.add(place)
    if kept:
        return _joined(sentences, kept)
    text, fits = passage.text.strip(), 0  # as much of the text as fits, by halving
    step = len(text)
    while step := step // 2:
        if passage.count(text[: fits + step]) <= passage.max_tokens:
            fits += step
    return text[: max(1, fits)].strip()


def _sentences(text: str) -> list[str]:
    """Each behind its speaker, and once: of equal ones the last."""
    parts: list[str] = []
    for line in map(str.strip, text.splitlines()):
        named = _SPEAKER.match(line)
        speaker = named[0] if named else ""
        pieces = map(str.strip, _EXTRACT_SENTENCE.findall(line[len(speaker) :]))
        parts += [f"{speaker}{piece}" for piece in pieces if piece.strip(_CLOSING)]
    last = {text_hash(part): place for place, part in enumerate(parts)}
    return [parts[place] for place in sorted(last.values())]


def _ranked(sentences: Sequence[str]) -> list[int]:
    """Places of the sentences, the one that says most first; of equal ones the later."""
    contents = [content_words(sentence) for sentence in sentences]
    often = Counter(word for words in contents for word in words)
    weights = [math.fsum(math.log1p(often[word]) for word in words) / math.sqrt(len(words) + 1) for words in contents]
    return sorted(range(len(sentences)), key=lambda place: (weights[place], place), reverse=True)


def _joined(sentences: Sequence[str], kept: set[int]) -> str:
    return "\n".join(sentences[place] for place in sorted(kept))


def _title(text: str, max_words: int) -> str:
    sentences = [_SPEAKER.sub("", sentence) for sentence in _sentences(text)] or [text]
    best = sentences[_ranked(sentences)[0]].strip(_CLOSING)
    title = best[: 2 * max_words] if is_cjk(best) else " ".join(best.split()[:max_words])
    return title.strip(_CLOSING)


# ── records of what was done ────────────────────────────────────────────────────────────────────────────────────────────────

_STEPS: Final = {"user": "Request", "assistant": "Agent Action", "tool": "Action Result"}


def record_of_steps(question: ExtractInput) -> Extraction:
    """A numbered list of what was said, called and returned, word for word; rules do not summarize."""
    turns = [turn for turn in question.turns if turn.role in _STEPS]
    steps: list[str] = []
    called: dict[str, int] = {}
    for turn in turns:
        if turn.text or turn.answers:
            steps.append(f"**{_step(turn, called)}**: {turn.text}")
        for call in turn.calls:
            steps.append(f"**Agent Action**: {call.name}({call.arguments})")
            called |= {call.id: len(steps)} if call.id else {}
    if not steps:
        return Extraction(())
    texts = [turn.text for turn in sorted(turns, key=lambda turn: turn.role != "user") if turn.text]
    head = [f"**Task Objective**: {text}" for text in texts[:1]]
    head += [f"**Instructions**: {turn.text}" for turn in question.turns if turn.role == "system" and turn.text]
    numbered = (f"{number}. {step}" for number, step in enumerate(steps, start=1))
    text = "\n".join((*head, "", *numbered)).strip()
    return Extraction((Fact(text, len(question.turns) - 1, verbatim=True),))


def _step(turn: Turn, called: Mapping[str, int]) -> str:
    name = "Errors" if turn.failed else _STEPS[turn.role]
    if turn.role == "tool" and turn.answers in called:
        return f"{name} of step {called[turn.answers]}"
    return f"{name} of {turn.actor}" if turn.role == "tool" and turn.actor != turn.role else name


_QUOTES: Final = "\"'“”‘’「」《》*# \n"
_FENCE: Final = re.compile(r"\A\s*```[\w-]*[ \t]*\n(.*?)\n?[ \t]*```\s*\Z", re.DOTALL)
_SHORT: Final = 3  # words; a heading is no sentence
_LONGEST: Final = 90_000  # letters of a record, within the default of `max_text`
_SENTENCE: Final = re.compile(r"[^.!?。！？\n]++[.!?。！？]*+\s*+|[.!?。！？\n]++")
_THOUGHT: Final = re.compile(r"<think>.*?(?:</think>|(?P<open>\Z))", re.DOTALL | re.IGNORECASE)


@steps
def record(channel: Channel, question: ExtractInput) -> PlanSteps[Extraction]:
    """Turns to one step-by-step record, as a single verbatim fact; `ModelReplyError` where the model writes nothing."""
    written = yield from write_text(channel, record_messages(question), "record steps", "a record")
    text, notes = (written.text, []) if question.prompt else _completed(written.text, question)
    return Extraction((Fact(text, len(question.turns) - 1, verbatim=True),), written.usage, tuple(notes))


def _completed(text: str, question: ExtractInput) -> tuple[str, list[str]]:
    """A record without sentences of our instructions, and with the results of tools that it leaves out or shortens; notes."""
    own = {_plain(sentence) for turn in question.turns for sentence in _SENTENCE.findall(turn.text)}
    ours = map(_plain, _SENTENCE.findall(instructions("record")))
    orders = {sentence for sentence in ours if len(sentence.split()) > _SHORT} - own
    lines: list[str] = []
    for line in text.split("\n"):
        kept = "".join(part for part in _SENTENCE.findall(line) if _plain(part) not in orders)
        lines += [kept] if kept.strip() or not line.strip() else []
    names = {call.id: call.name for turn in question.turns for call in turn.calls}
    notes, whole, room = list[str](), _plain(text), _LONGEST - len(text)
    for turn in question.turns:
        name = names.get(turn.answers) or turn.actor
        room -= len(turn.text) if (is_missing := turn.role == "tool" and _plain(turn.text) not in whole) else 0
        if is_missing and room > 0:
            lines.append(f"**Action Result** ({name}): {turn.text}")
        elif is_missing:
            notes.append(f"the record is long; it leaves out the result of {name}, {len(turn.text):,} letters")
    return "\n".join(lines).strip() or text, notes


def _plain(text: str) -> str:
    return " ".join(text.split())


@steps
def description(channel: Channel, image: dict[str, Any]) -> PlanSteps[Wording]:
    """An image part to words, to none where the model takes no images; `ModelReplyError` where it says nothing."""
    if channel.is_blind:
        return Wording("")
    request = HumanMessage([{"type": "text", "text": DESCRIBE}, image])
    try:
        return (yield from write_text(channel, [request], "describe image", "what an image shows"))
    except ModelError as error:
        channel.is_blind = channel.is_blind or refuses_images(error.__cause__ or error)
        if not channel.is_blind:
            raise
        return Wording("")


@steps
def write_text(channel: Channel, messages: list[BaseMessage], task: str, what: str) -> PlanSteps[Wording]:
    """What the model writes, without a code fence around it and without its audible thinking."""
    reply = yield from channel.say(messages)
    refusal = reply.additional_kwargs.get("refusal")
    plain = _THOUGHT.sub(lambda match: "" if match["open"] is None else match[0], reply.text).strip()
    text = _FENCE.sub(r"\1", plain).strip()
    if refusal or not text:
        problem = f"{channel.name} did not say {what}; nothing was changed"
        raise ModelReplyError(problem, reply=str(refusal or reply.text))
    try:
        return Wording(check_text(text, f"what {channel.name} said"), usage_of(task, messages, reply))
    except InvalidInputError as error:
        raise ModelReplyError(f"{error}; nothing was changed", reply=reply.text) from None


class LLMSummarizer:
    """Summarizes with a chat model, one call for each text. See `Summarizer`."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.mode: Final = channel.name

    def summarize(self, passage: Passage) -> Plan[Wording]:
        """One call; see `Summarizer.summarize`."""
        return self._written("summarize", summary_messages(passage), text=passage.text, before=passage.before)

    def title(self, text: str, max_words: int) -> Plan[Wording]:
        """One call; see `Summarizer.title`. Its first line counts, without quotation marks around it."""

        def read(wording: Wording) -> Wording:
            line = wording.text.strip().splitlines()[0]
            return Wording(line.strip(_QUOTES) or line, wording.usage)

        return self._written("give a title", title_messages(text, max_words), text=text).then(read)

    def is_related(self, text: str, other: str) -> Plan[tuple[bool, Usage]]:
        """One call, and one repair where it is needed; see `Summarizer.is_related`."""

        def read(reply: RelatedReply, _: object) -> tuple[bool, Sequence[str]]:
            return reply.related, ()

        plan = structured(self._channel, RelatedReply, read, related_messages(text, other))
        inputs = {"first": text, "second": other}
        return stage(plan, "judge relatedness", inputs=inputs, summarize=lambda answer: {"related": answer[0]})

    def rewrite(self, sentence: str, context: str) -> Plan[Wording]:
        """One call; see `Summarizer.rewrite`."""
        return self._written("rewrite", rewrite_messages(sentence, context), sentence=sentence, context=context)

    def _written(self, task: str, messages: list[BaseMessage], **inputs: str) -> Plan[Wording]:
        plan = write_text(self._channel, messages, task, f"what it was asked ({task})")
        return stage(plan, task, inputs=inputs, summarize=lambda wording: {"text": wording.text})
