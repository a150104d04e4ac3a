"""What guests do with a thread of messages: read the latest turn, look up what bears on it, remember it.

A turn is what was said since the last answer, and the answers to it. A message of the model that calls a tool or has no text
answers nothing: what a failed or interrupted run left open belongs to the next turn. Only people and the model speak in it.
What a tool returned is not remembered, since anybody who can place a text there could otherwise plant a memory; unless the
setting `facts_from_tools` says so.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langmem_adapter.adapters.calls import timezone_of_call
from langmem_adapter.arguments import relevance, tokens
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.names import named_speaker, with_speaker
from langmem_adapter.pipeline.parse import MOST_BEFORE, as_list, message_of, turns_before
from langmem_adapter.pipeline.tool_calls import results_apart
from langmem_adapter.records.escapes import DATA_ONLY, escape
from langmem_adapter.search.passages import fitting
from langmem_adapter.text import text_hash
from langmem_adapter.twins import Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from langchain_core.messages import MessageLikeRepresentation
    from langchain_core.runnables import RunnableConfig

    from langmem_adapter.conversation.summaries import CountTokens
    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.pipeline.background import BackgroundWriter
    from langmem_adapter.records.results import AddResult, Hit, Threshold
    from langmem_adapter.records.scope import Scope

__all__ = [
    "format_hit",
    "human_messages",
    "is_answer",
    "latest_turn",
    "looking_up",
    "messages_in",
    "remember_turn",
    "split_latest_turn",
    "summaries",
    "turn_of",
]

_SENTENCE: Final = re.compile(r"(?<=[.!?。！？])\s*|\n")
_SOURCE: Final = "lc_source"  # LangChain's mark on what a program writes in a person's name: summaries, skills, notices


def latest_turn(messages: str | Sequence[MessageLikeRepresentation]) -> list[BaseMessage]:
    """The latest turn of a thread: what people said since the last answer before it, and the answers to that.

    The thread is given as `Memory.add` takes messages; of the turn those with something in them are given back, in order.

    Example:
        >>> thread = [("human", "Hi"), ("ai", "Hello!"), ("human", "I like tea."), ("ai", "Noted.")]
        >>> [message.text for message in latest_turn(thread)]
        ['I like tea.', 'Noted.']
    """
    return split_latest_turn(messages)[1]


def split_latest_turn(
    messages: str | Sequence[MessageLikeRepresentation], *, tools: bool = False
) -> tuple[list[BaseMessage], list[BaseMessage]]:
    """What was said in a thread before its latest turn, and the turn, with what the *tools* returned; see `latest_turn`."""
    return _split(messages_in(messages), tools=tools)


def _split(thread: Sequence[BaseMessage], *, tools: bool = False) -> tuple[list[BaseMessage], list[BaseMessage]]:
    spoken = [message for message in thread if _is_said(message) or _is_spoken(message, tools=tools)]
    last = max((place for place, message in enumerate(spoken) if _is_said(message)), default=len(spoken))
    first = last
    while first > 0 and not is_answer(spoken[first - 1]):
        first -= 1
    while first < last and not _is_said(spoken[first]):
        first += 1
    return spoken[:first], [message for message in spoken[first:] if _is_said(message) or message.text.strip()]


def messages_in(messages: str | Sequence[MessageLikeRepresentation]) -> list[BaseMessage]:
    """The messages of a thread that is given as `Memory.add` takes them, as LangChain's."""
    nothing = isinstance(messages, list | tuple) and not messages
    numbered = enumerate([] if nothing else as_list(messages), start=1)
    return [part for number, each in numbered for part in results_apart(message_of(each, number), number)]


def turn_of(
    thread: Sequence[BaseMessage], ids: Collection[str], *, tools: bool = False, digest: Callable[[object], str] = str
) -> tuple[list[BaseMessage], list[BaseMessage]]:
    """What was said in a thread before the first of some messages of people, and these, with the answers from there on.

    The *digest* of what it says stands for the id of a message of the latest turn that has none.
    """
    latest = {id(message) for message in _split(thread)[1]}
    known = [each.id or (digest(each.content) if id(each) in latest else None) for each in thread]
    chosen = [_is_said(each) and name in ids for each, name in zip(thread, known, strict=True)]
    first = chosen.index(True) if any(chosen) else len(thread)
    latter = [*zip(thread, chosen, strict=True)][first:]
    turn = [part for part, own in latter if own or (_is_spoken(part, tools=tools) and part.text.strip())]
    return list(thread[:first]), turn


def human_messages(turn: Sequence[BaseMessage]) -> list[BaseMessage]:
    """What people said in a turn."""
    return [message for message in turn if _is_said(message)]


def is_answer(message: BaseMessage) -> bool:
    """Whether a message answers what was said before it: the model says something, and calls no tool."""
    return isinstance(message, AIMessage) and bool(message.text.strip()) and not message.tool_calls


def summaries(thread: Sequence[BaseMessage]) -> frozenset[str | None]:
    """The ids of the summaries that stand in a thread for what was removed."""
    marks = ((message.id, message.additional_kwargs.get(_SOURCE)) for message in thread)
    return frozenset(id_ for id_, mark in marks if mark == "summarization")


def _listing(
    max_tokens: int | None, count_tokens: CountTokens, introduction: str
) -> Callable[[Sequence[Hit], str], str]:
    """How hits, best first, and the question become a list for a prompt, see `search.passages.fitting`.

    It has a line `- …` for each hit (`- Nate: …` for a named speaker) below the *introduction*, and is empty without hits.
    """
    most = tokens(max_tokens)

    def count(text: str) -> int:
        return count_tokens([HumanMessage(text)])

    def shown(lines: Sequence[str]) -> str:
        return "\n".join([introduction, *lines] if introduction and lines else lines)

    def listed(hits: Sequence[Hit], question: str) -> str:
        if most is None or not hits:
            return shown([*map(_line, hits)])
        frame = 2 * count("- a") - count("- a\n- a")  # what a message has around its lines
        room = most - count(shown(["- a"])) + count("- a") - frame
        kept = [*map(_line, fitting(hits, question, room, cost=lambda line: count(line) - frame, line=_line))]
        while kept and count(shown(kept)) > most:  # lines together may have more than one by one
            kept.pop()
        return shown(kept)

    return listed


def _line(hit: Hit) -> str:
    return f"- {format_hit(hit)}"


def format_hit(hit: Hit) -> str:
    """A memory on one line with its day, so that it cannot pass for the prompt around it: "Ben: Likes tea (2026-05-01)".

    Words that were kept as the user said them are a quotation: `user, 2026-05-01: "I have an exam tomorrow"`.
    """
    item = hit.item
    day = f"{item.updated_at:%Y-%m-%d}"
    if item.is_verbatim:
        speaker = named_speaker(item.actor_id, item.role, item.scope) or item.role or "user"
        quotation = hit.passage.replace('"', "'")
        return escape(" ".join(f'{speaker}, {day}: "{quotation}"'.split()))
    return escape(" ".join(f"{with_speaker(hit.passage, item.actor_id, item.role, item.scope)} ({day})".split()))


def _not_in(thread: Sequence[BaseMessage], hits: Sequence[Hit]) -> list[Hit]:
    """The hits that a thread does not show already: its messages, and words that were kept of them sentence by sentence."""
    hashes = {text_hash(message.text) for message in thread}
    words = "\n".join(" ".join(message.text.split()) for message in thread)

    def is_shown(hit: Hit) -> bool:
        sentences = (" ".join(each.split()) for each in _SENTENCE.split(hit.text))
        return hit.item.hash in hashes or (hit.is_verbatim and all(each in words for each in sentences))

    return [hit for hit in hits if not is_shown(hit)]


def looking_up(
    memory: Memory,
    *,
    threshold: Threshold,
    max_tokens: int | None,
    count_tokens: CountTokens,
    introduction: str = DATA_ONLY,
    **how: Any,
) -> Callable[..., Plan[str]]:
    """How what bears on what people said in a turn is found and listed; nothing where they sent pictures only.

    What the *thread* shows already is left out.
    """
    shown, least = _listing(max_tokens, count_tokens, introduction), relevance(threshold)

    def look(
        turn: Sequence[BaseMessage],
        scope: Scope,
        config: RunnableConfig | None = None,
        *,
        thread: Sequence[BaseMessage] = (),
    ) -> Plan[str]:
        question = "\n".join(message.text for message in human_messages(turn)).strip()
        given: dict[str, Any] = {**how, "threshold": least, "max_tokens": max_tokens, **scope.named}
        given |= timezone_of_call(config, how.get("timezone"))
        if not question:
            return Plan(str)
        found = Plan.calling(memory.search, memory.asearch, question, **given)
        return found.then(lambda hits: shown(_not_in(thread, hits), question))

    return look


def remember_turn(
    memory: Memory,
    turn: Sequence[BaseMessage],
    scope: Scope,
    *,
    writer: BackgroundWriter | None,
    about: str = "user",
    before: Sequence[BaseMessage] = (),
    **options: Any,
) -> Plan[AddResult | None]:
    """Remember a turn, as `latest_turn` gives it; one in which nobody asked anything is not remembered.

    A *writer* does it later, so that there is no result yet. *about* says whose facts: `"user"`, or `"agent"`. What people
    and the model said *before* in the thread helps to understand the turn. The *options* are of `Memory.add`: with a
    `thread_id` each message is remembered once.
    """
    # Where an assistant speaks and an agent is named, `add` takes the facts to be about the assistant.
    answered = about == "agent" or scope.agent_id is None
    said = turn if answered else [message for message in turn if not isinstance(message, AIMessage)]
    if not human_messages(turn):
        return Plan(lambda: None)
    given: dict[str, Any] = {"context": _of(scope, before), **timezone_of_call(), **options, **scope.named}
    if writer is not None:
        return Plan(partial(writer.add, said, **given)).then(lambda _: None)
    return Plan.calling(memory.add, memory.aadd, said, **given)


def _of(scope: Scope, before: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The latest of what was said earlier, without what `add` would refuse a turn for: it is somebody else's, or no text."""
    spoken = [message for message in before if _is_said(message) or isinstance(message, AIMessage)]
    return [message for message in spoken[-MOST_BEFORE:] if _helps(message, scope)]


def _helps(message: BaseMessage, scope: Scope) -> bool:
    try:
        return bool(turns_before([message], scope=scope, time=datetime.now(UTC)))
    except InvalidInputError:
        return False


def _is_spoken(message: BaseMessage, *, tools: bool) -> bool:
    return isinstance(message, (AIMessage, ToolMessage) if tools else AIMessage)


def _is_said(message: BaseMessage) -> bool:
    return isinstance(message, HumanMessage) and _SOURCE not in message.additional_kwargs
