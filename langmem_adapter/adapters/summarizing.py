"""Summaries of long threads: for langchain's `SummarizationMiddleware`, and as a node of any LangGraph graph.

Both read all that is to be summed up, in windows, and extend the earlier summary instead of summing it up again. The call of
a tool and its results stay together. Where a summary fails, nothing is replaced.
"""

from __future__ import annotations

from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import BaseMessage, HumanMessage, RemoveMessage, SystemMessage, convert_to_messages
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from langmem_adapter.adapters.threads import read_state
from langmem_adapter.arguments import bounded, flag
from langmem_adapter.conversation.summaries import about_tokens, count_older, pieces_of, split_units, summarize
from langmem_adapter.memory.parts import parts_of
from langmem_adapter.records.checks import check_text
from langmem_adapter.tracing import OneRun, PlanNode
from langmem_adapter.twins import Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.runnables import Runnable

    from langmem_adapter.conversation.summaries import CountTokens
    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.pipeline.state import StateEdit

__all__ = ["summarize_node", "summarizer"]

_MOST: Final = 10_000_000
_MARK: Final = {"lc_source": "summarization"}  # LangChain's mark: a summary is no message of a person
_ALL: Final = RemoveMessage(id=REMOVE_ALL_MESSAGES)
_LEAD: Final = "Here is a summary of the conversation to date:\n\n"  # LangChain's as well: each takes up the other's


def summarizer(
    memory: Memory,
    *,
    max_tokens: int = 1_000,
    window: int = 4_000,
    count_tokens: CountTokens = about_tokens,
    keep_language: bool = True,
) -> Runnable[Sequence[BaseMessage], str]:
    """A Runnable from messages to a summary: by the memory's chat model, or offline by sentences taken as they are.

    Give it to langchain's `SummarizationMiddleware(model, summarizer=summarizer(memory), trim_tokens_to_summarize=None)`: its
    trimming hides long threads from a summary.

    Args:
        memory: The memory, for its model; nothing is read from it or written to it.
        max_tokens: Tokens that the summary may have.
        window: Tokens that are read at once; what is longer is read in several windows.
        count_tokens: Counts them.
        keep_language: Tell a chat model to write in the language of the messages.

    Raises:
        InvalidInputError: An argument cannot be used. Later, by the call: ModelReplyError where the summary came out blank or
            too long, also when asked again.

    Example:
        >>> from langmem_adapter import Memory
        >>> memory = Memory(":memory:")
        >>> print(summarizer(memory).invoke([HumanMessage("I am vegetarian.")]))
        user: I am vegetarian.
        >>> memory.close()
    """
    who = parts_of(memory, "summarizer").reasoner.summarizer
    options: dict[str, Any] = {
        "max_tokens": bounded(max_tokens, "max_tokens", most=_MOST),
        "window": bounded(window, "window", most=_MOST),
        "count": partial(_tokens, count_tokens),
        "keep_language": flag(keep_language, "keep_language"),
    }

    def plan(messages: Sequence[BaseMessage]) -> Plan[str]:
        earlier, rest = _split_summary(messages)
        pieces = pieces_of(split_units(enumerate(rest, start=1)))
        made = Plan.late(partial(summarize, who, pieces, before=earlier, **options))
        return made.then(lambda summary: summary.text)

    run = OneRun(
        plan, "summarize", inputs=lambda messages: {"messages": [*messages]}, summarize=lambda text: {"text": text}
    )
    # nostream: a graph that streams tokens shows only those of its model.
    return run.with_config({"tags": ["langmem_adapter", "nostream"]})


def summarize_node(
    memory: Memory,
    *,
    messages_key: str = "messages",
    max_tokens: int = 8_000,
    window: int = 4_000,
    count_tokens: CountTokens = about_tokens,
    keep_language: bool = True,
) -> Runnable[Any, StateEdit]:
    """A node that keeps a thread short: its older messages become a summary, once it has more than so many tokens.

    Put it before the model. The summary is a human message in front of the latest messages, marked as LangChain marks it. It
    takes a quarter of *max_tokens* at most, and the latest messages three eighths; system messages in front stay. The latest
    message, or the latest call of tools with its results, is never summed up. A failure is raised, and the thread stays.

    Args:
        memory: The memory, for its model; nothing is read from it or written to it.
        messages_key: Where the state has the messages; their reducer is LangGraph's `add_messages`, or ours, `latest`.
        max_tokens: Tokens that the thread may have.
        window: See `summarizer`.
        count_tokens: The same.
        keep_language: The same.

    Example:
        >>> from langmem_adapter import Memory
        >>> memory = Memory(":memory:")
        >>> thread = [("human", f"In town number {number} I ate noodles.") for number in range(20)]
        >>> messages = summarize_node(memory, max_tokens=100).invoke({"messages": thread})["messages"]
        >>> messages[1].text.splitlines()[0], messages[-1].text
        ('Here is a summary of the conversation to date:', 'In town number 19 I ate noodles.')
        >>> memory.close()
    """
    check_text(messages_key, "messages_key")
    budget = bounded(max_tokens, "max_tokens", most=_MOST)
    options: dict[str, Any] = {"window": window, "count_tokens": count_tokens, "keep_language": keep_language}
    run = summarizer(memory, max_tokens=max(1, budget // 4 - _tokens(count_tokens, _LEAD)), **options)

    def plan(state: Any, _: object) -> Plan[StateEdit]:
        messages = convert_to_messages(read_state(state, messages_key, "messages_key"))
        system = [*takewhile(lambda message: isinstance(message, SystemMessage), messages)]
        rest = messages[len(system) :]
        units = split_units(enumerate(rest))
        place = min(count_older(units, count_tokens, budget * 3 // 8), len(units) - 1)
        older = [message for unit in units[:place] for _, message in unit]
        if count_tokens(messages) <= budget or not _split_summary(older)[1]:
            return Plan.of({})

        def edit(text: str) -> StateEdit:
            summary = HumanMessage(f"{_LEAD}{text}", additional_kwargs=_MARK)
            return {messages_key: [_ALL, *system, summary, *rest[len(older) :]]}

        return Plan.calling(run.invoke, run.ainvoke, older).then(edit)

    return PlanNode(plan)


def _split_summary(messages: Sequence[BaseMessage]) -> tuple[str, Sequence[BaseMessage]]:
    """The summary that a thread begins with, if it does, and the rest."""
    if messages and messages[0].additional_kwargs.get("lc_source") == _MARK["lc_source"]:
        return messages[0].text.removeprefix(_LEAD), messages[1:]
    return "", messages


def _tokens(count_tokens: CountTokens, text: str) -> int:
    return count_tokens([HumanMessage(text)])
