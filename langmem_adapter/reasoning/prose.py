"""What a chat model is asked for in plain words: a record of what was done, and what an image shows."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableLambda

from langmem_adapter.errors import ModelReplyError
from langmem_adapter.reasoning.base import Description, Extraction, Question
from langmem_adapter.reasoning.calls import usage_of
from langmem_adapter.reasoning.prompts import DESCRIBE, record_messages
from langmem_adapter.records.work import Fact

if TYPE_CHECKING:
    from langchain_core.language_models.chat_models import BaseChatModel

__all__ = ["describing", "recording", "without_fences"]

_FENCE: Final = re.compile(r"\A\s*```[\w-]*[ \t]*\n(.*?)\n?[ \t]*```\s*\Z", re.DOTALL)
_THOUGHT: Final = re.compile(r"<think>.*?</think>", re.DOTALL | re.IGNORECASE)


def recording(model: BaseChatModel, name: str) -> Runnable[Question, Extraction]:
    """Turns to one step-by-step record, as a single verbatim fact.

    Args:
        model: Who writes it.
        name: Its name, for the error.

    Raises:
        ModelReplyError: It wrote nothing.
    """
    return RunnableLambda(partial(_record, model, name), name="record steps")


def describing(model: BaseChatModel, name: str) -> Runnable[dict[str, Any], Description]:
    """An image part to words.

    Args:
        model: Who looks at it.
        name: Its name, for the error.

    Raises:
        ModelReplyError: It said nothing.
    """
    return RunnableLambda(partial(_describe, model, name), name="describe image")


def without_fences(text: str) -> str:
    r"""A text without a code fence around it and without a model's audible thinking.

    Example:
        >>> without_fences("<think>hm</think>```markdown\n1. Opened the page\n```")
        '1. Opened the page'
    """
    plain = _THOUGHT.sub("", text).strip()
    fenced = _FENCE.match(plain)
    return fenced[1].strip() if fenced else plain


def _record(model: BaseChatModel, name: str, question: Question) -> Runnable[Any, Extraction]:
    messages = record_messages(question)

    def read(reply: BaseMessage) -> Extraction:
        text = _told(reply, name, "a record")
        return Extraction(
            (Fact(text, len(question.turns) - 1, verbatim=True),), usage_of("record steps", messages, reply)
        )

    return _asked(messages) | model | RunnableLambda(read, name="read the record")


def _describe(model: BaseChatModel, name: str, image: dict[str, Any]) -> Runnable[Any, Description]:
    messages: list[BaseMessage] = [HumanMessage([{"type": "text", "text": DESCRIBE}, image])]

    def read(reply: BaseMessage) -> Description:
        text = _told(reply, name, "what an image shows")
        return Description(text, usage_of("describe image", [HumanMessage(DESCRIBE)], reply))

    return _asked(messages) | model | RunnableLambda(read, name="read the description")


def _asked(messages: list[BaseMessage]) -> Runnable[Any, list[BaseMessage]]:
    return RunnableLambda(lambda _: messages, name="prompt")


def _told(reply: BaseMessage, name: str, what: str) -> str:
    refusal = reply.additional_kwargs.get("refusal") if isinstance(reply, AIMessage) else None
    text = without_fences(reply.text)
    if refusal or not text:
        raise ModelReplyError(f"{name} did not say {what}; nothing was changed", reply=str(refusal or reply.text))
    return text
