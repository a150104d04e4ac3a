"""What a chat model is asked for in plain words: a record of what was done, what an image shows, summaries and titles."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import BaseMessage, HumanMessage

from langmem_adapter.errors import InvalidInputError, ModelReplyError
from langmem_adapter.limits import refuses_images
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
from langmem_adapter.records.work import Fact
from langmem_adapter.tracing import stage
from langmem_adapter.twins import Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langmem_adapter.reasoning.base import ExtractInput
    from langmem_adapter.records.cost import Usage

__all__ = ["LLMSummarizer", "description", "record", "write_text"]

_QUOTES: Final = "\"'“”‘’「」《》*# \n"
_FENCE: Final = re.compile(r"\A\s*```[\w-]*[ \t]*\n(.*?)\n?[ \t]*```\s*\Z", re.DOTALL)
_SHORT: Final = 3  # words; a heading is no sentence
_LONGEST: Final = 90_000  # letters of a record, within the default of `max_text`
_SENTENCE: Final = re.compile(r"[^.!?。！？\n]++[.!?。！？]*+\s*+|[.!?。！？\n]++")
_THOUGHT: Final = re.compile(r"<think>.*?(?:</think>|(?P<open>\Z))", re.DOTALL | re.IGNORECASE)


def record(channel: Channel, question: ExtractInput) -> Plan[Extraction]:
    """Turns to one step-by-step record, as a single verbatim fact; `ModelReplyError` where the model writes nothing."""

    def told(made: Wording) -> Extraction:
        text, notes = (made.text, []) if question.prompt else _completed(made.text, question)
        return Extraction((Fact(text, len(question.turns) - 1, verbatim=True),), made.usage, tuple(notes))

    return write_text(channel, record_messages(question), "record steps", "a record").then(told)


def _completed(text: str, question: ExtractInput) -> tuple[str, list[str]]:
    """A record without sentences of our instructions, and with the results of tools that it leaves out or shortens; notes."""
    said = {_plain(sentence) for turn in question.turns for sentence in _SENTENCE.findall(turn.text)}
    ours = map(_plain, _SENTENCE.findall(instructions("record")))
    orders = {sentence for sentence in ours if len(sentence.split()) > _SHORT} - said
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


def description(channel: Channel, image: dict[str, Any]) -> Plan[Wording]:
    """An image part to words, to none where the model takes no images; `ModelReplyError` where it says nothing."""

    def unseen(error: Exception) -> Plan[Wording] | None:
        channel.is_blind = channel.is_blind or refuses_images(error.__cause__ or error)
        return Plan.known(Wording("")) if channel.is_blind else None

    asked = HumanMessage([{"type": "text", "text": DESCRIBE}, image])
    seen = partial(write_text, channel, [asked], "describe image", "what an image shows")
    return Plan.known(Wording("")) if channel.is_blind else seen().or_else(unseen)


def write_text(channel: Channel, messages: list[BaseMessage], task: str, what: str) -> Plan[Wording]:
    """What the model writes, without a code fence around it and without its audible thinking."""

    def read(reply: BaseMessage) -> Wording:
        return Wording(_plain_text(reply, channel.name, what), usage_of(task, messages, reply))

    return channel.say(messages).then(read)


def _plain_text(reply: BaseMessage, name: str, what: str) -> str:
    refusal = reply.additional_kwargs.get("refusal")
    plain = _THOUGHT.sub(lambda match: "" if match["open"] is None else match[0], reply.text).strip()
    text = _FENCE.sub(r"\1", plain).strip()
    if refusal or not text:
        raise ModelReplyError(f"{name} did not say {what}; nothing was changed", reply=str(refusal or reply.text))
    try:
        return check_text(text, f"what {name} said")
    except InvalidInputError as error:
        raise ModelReplyError(f"{error}; nothing was changed", reply=reply.text) from None


class LLMSummarizer:
    """Sums up by asking a chat model, one call for each text. See `Summarizer`."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.mode: Final = channel.name

    def summarize(self, passage: Passage) -> Plan[Wording]:
        """One call; see `Summarizer.summarize`."""
        return self._written("summarize", summary_messages(passage), text=passage.text, before=passage.before)

    def title(self, text: str, max_words: int) -> Plan[Wording]:
        """One call; see `Summarizer.title`."""
        plan = self._written("give a title", title_messages(text, max_words), text=text)
        return plan.then(lambda wording: Wording(_bare(wording.text), wording.usage))

    def is_related(self, text: str, other: str) -> Plan[tuple[bool, Usage]]:
        """One call, and one repair where it is needed; see `Summarizer.is_related`."""
        plan = structured(self._channel, RelatedReply, _judgement, related_messages(text, other))
        inputs = {"first": text, "second": other}
        return stage(plan, "judge relatedness", inputs=inputs, shown=lambda told: {"related": told[0]})

    def rewrite(self, sentence: str, context: str) -> Plan[Wording]:
        """One call; see `Summarizer.rewrite`."""
        return self._written("rewrite", rewrite_messages(sentence, context), sentence=sentence, context=context)

    def _written(self, task: str, messages: list[BaseMessage], **inputs: str) -> Plan[Wording]:
        plan = write_text(self._channel, messages, task, f"what it was asked ({task})")
        return stage(plan, task, inputs=inputs, shown=lambda wording: {"text": wording.text})


def _bare(title: str) -> str:
    """The first line, without the quotation marks around it."""
    line = title.strip().splitlines()[0]
    return line.strip(_QUOTES) or line


def _judgement(reply: RelatedReply, _: object) -> tuple[bool, Sequence[str]]:
    return reply.related, ()
