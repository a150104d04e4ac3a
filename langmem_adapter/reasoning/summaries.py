"""Summaries, titles and what belongs to them, asked of a chat model."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from langmem_adapter.reasoning.base import Passage, Wording
from langmem_adapter.reasoning.free_text import plain_text
from langmem_adapter.reasoning.messages import usage_of
from langmem_adapter.reasoning.prompts import related_messages, rewrite_messages, summary_messages, title_messages
from langmem_adapter.reasoning.replies import RelatedReply
from langmem_adapter.reasoning.structured_output import structured
from langmem_adapter.tracing import stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.messages import BaseMessage

    from langmem_adapter.reasoning.structured_output import Channel
    from langmem_adapter.records.cost import Usage
    from langmem_adapter.twins import Plan

__all__ = ["LLMSummarizer"]

_QUOTES: Final = "\"'“”‘’「」《》*# \n"


class LLMSummarizer:
    """Sums up by asking a chat model, one call for each text. See `Summarizer`.

    Args:
        channel: The model.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.mode: Final = channel.name

    def summarize(self, passage: Passage) -> Plan[Wording]:
        """One call; see `Summarizer.summarize`."""
        return self._written("summarize", summary_messages(passage), text=passage.text, before=passage.before)

    def title(self, text: str, max_words: int, language: str = "") -> Plan[Wording]:
        """One call; see `Summarizer.title`."""
        plan = self._written("give a title", title_messages(text, max_words, language), text=text)
        return plan.then(lambda wording: Wording(_bare(wording.text), wording.usage))

    def is_related(self, text: str, other: str) -> Plan[tuple[bool, Usage]]:
        """One call, and one repair where it is needed; see `Summarizer.is_related`."""
        plan = structured(self._channel, RelatedReply, _judgement, related_messages(text, other))
        inputs = {"first": text, "second": other}
        return stage(plan, "judge relatedness", inputs=inputs, shown=lambda told: {"related": told[0]})

    def rewrite(self, sentence: str, context: str) -> Plan[Wording]:
        """One call; see `Summarizer.rewrite`."""
        return self._written("rewrite", rewrite_messages(sentence, context), sentence=sentence, context=context)

    def _written(self, task: str, messages: Sequence[BaseMessage], **inputs: str) -> Plan[Wording]:
        plan = self._channel.say([*messages]).then(partial(self._read, task, messages))
        return stage(plan, task, inputs=inputs, shown=lambda wording: {"text": wording.text})

    def _read(self, task: str, messages: Sequence[BaseMessage], reply: BaseMessage) -> Wording:
        return Wording(plain_text(reply, self.mode, f"what it was asked ({task})"), usage_of(task, messages, reply))


def _bare(title: str) -> str:
    """The first line, without the quotation marks around it."""
    line = title.strip().splitlines()[0]
    return line.strip(_QUOTES) or line


def _judgement(reply: RelatedReply, _: object) -> tuple[bool, Sequence[str]]:
    return reply.related, ()
