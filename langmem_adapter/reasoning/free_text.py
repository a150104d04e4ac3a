"""What a chat model is asked for in plain words: a record of what was done, and what an image shows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import BaseMessage, HumanMessage

from langmem_adapter.errors import InvalidInputError, ModelReplyError
from langmem_adapter.reasoning.base import Description, Extraction
from langmem_adapter.reasoning.messages import usage_of
from langmem_adapter.reasoning.prompts import DESCRIBE, record_messages
from langmem_adapter.records.checks import check_text
from langmem_adapter.records.work import Fact

if TYPE_CHECKING:
    from langmem_adapter.reasoning.base import ExtractInput
    from langmem_adapter.reasoning.structured_output import Channel
    from langmem_adapter.twins import Plan

__all__ = ["description", "plain_text", "record"]

_FENCE: Final = re.compile(r"\A\s*```[\w-]*[ \t]*\n(.*?)\n?[ \t]*```\s*\Z", re.DOTALL)
_THOUGHT: Final = re.compile(r"<think>.*?</think>", re.DOTALL | re.IGNORECASE)


def record(channel: Channel, question: ExtractInput) -> Plan[Extraction]:
    """Turns to one step-by-step record, as a single verbatim fact; `ModelReplyError` where the model writes nothing."""
    messages = record_messages(question)

    def read(reply: BaseMessage) -> Extraction:
        fact = Fact(plain_text(reply, channel.name, "a record"), len(question.turns) - 1, verbatim=True)
        return Extraction((fact,), usage_of("record steps", messages, reply))

    return channel.say(messages).then(read)


def description(channel: Channel, image: dict[str, Any]) -> Plan[Description]:
    """An image part to words; `ModelReplyError` where the model says nothing."""

    def read(reply: BaseMessage) -> Description:
        text = plain_text(reply, channel.name, "what an image shows")
        return Description(text, usage_of("describe image", [HumanMessage(DESCRIBE)], reply))

    return channel.say([HumanMessage([{"type": "text", "text": DESCRIBE}, image])]).then(read)


def plain_text(reply: BaseMessage, name: str, what: str) -> str:
    """The text without a code fence around it and without a model's audible thinking."""
    refusal = reply.additional_kwargs.get("refusal")
    plain = _THOUGHT.sub("", reply.text).strip()
    text = _FENCE.sub(r"\1", plain).strip()
    if refusal or not text:
        raise ModelReplyError(f"{name} did not say {what}; nothing was changed", reply=str(refusal or reply.text))
    try:
        return check_text(text, f"what {name} said")
    except InvalidInputError as error:
        raise ModelReplyError(f"{error}; nothing was changed", reply=reply.text) from None
