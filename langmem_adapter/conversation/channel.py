"""Working memory as a channel of a LangGraph state: the latest messages of a task, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.graph.message import add_messages

from langmem_adapter.arguments import bounded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["latest"]


def latest(k: int = 100) -> Callable[[Sequence[BaseMessage], Sequence[BaseMessage]], list[BaseMessage]]:
    """A reducer that appends messages as LangGraph's `add_messages` does, and keeps the latest.

    A result of a tool whose call is too old to be kept goes with it, since no model API takes one without the other. To clear
    the channel, after a task say, return `[RemoveMessage(id=REMOVE_ALL_MESSAGES)]`.

    Args:
        k: At most so many messages.

    Raises:
        InvalidInputError: *k* is no number from 1 to 10,000.

    Example:
        >>> from typing import Annotated, TypedDict
        >>> class State(TypedDict):
        ...     working: Annotated[list[BaseMessage], latest(20)]
        >>> [message.text for message in latest(1)([], ["one", "two"])]
        ['two']
    """
    most = bounded(k, "k")

    def reduced(left: Sequence[BaseMessage], right: Sequence[BaseMessage]) -> list[BaseMessage]:
        new = [message.model_copy() if isinstance(message, BaseMessage) else message for message in _listed(right)]
        messages: Any = add_messages(_listed(left), new)
        kept: list[BaseMessage] = messages[-most:]
        while kept and isinstance(kept[0], ToolMessage):
            kept = kept[1:]
        return kept

    return reduced


def _listed(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else [given]
