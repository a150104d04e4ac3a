"""Brain memory: a conversation of any length within a fixed number of tokens, its summary and its title.

After MetaGPT's `BrainMemory` (seed 002 §2.4), whose operations keep their names. Four levels: messages, windows of them, the
running summary of all windows, the title. What a summary covers is known by positions that the database gave, not by the ids of
messages; the messages stay. A summary is kept only if it was made of what still stands, so that of two writers one begins
again, and a model that fails leaves everything as it was.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langmem_adapter.arguments import bounded, filled, flag
from langmem_adapter.conversation.brain_log import Talk
from langmem_adapter.conversation.course import Due, State, StoredConversation
from langmem_adapter.conversation.summaries import about_tokens, before_latest, told
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.memory.parts import parts_of
from langmem_adapter.records.checks import check_text
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage.conversations import Conversation
from langmem_adapter.tracing import run_config, traced
from langmem_adapter.twins import Plan, awaited, planned

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from langmem_adapter.conversation.summaries import CountTokens
    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.records.cost import Usage

__all__ = ["BrainMemory"]

R = TypeVar("R")

_LEAST: Final = 100
_MOST: Final = 1_000_000
_WORDS: Final = 10_000
_LETTERS: Final = 4  # of a token, of most texts
_LEAD: Final = "Summary of the conversation so far:\n"
_NEW: Final = "New"


class BrainMemory(Talk):
    """A conversation of any length within a fixed number of tokens: recent messages as they are, older ones summed up.

    Whatever is kept is in the database at once, in one transaction each; there is nothing to save. Threads, tasks and processes
    may share a conversation. Every method has an async twin with an `a` in front of its name. `Memory.purge` erases it with
    its scope.

    Args:
        memory: Where it is kept, and whose chat model sums up; without one, rules take sentences as they are.
        chat_id: Name of the conversation.
        user_id: Whose it is; at least one of the three is needed.
        agent_id: The agent.
        run_id: The run.
        window: Tokens that are summed up at once.
        max_tokens: Tokens that the running summary of `context` may have.
        count_tokens: Counts the tokens of messages, as a model's `get_num_tokens_from_messages`; by default about.

    With the setting `redis_url`, copies of what is not summed up yet are kept in Redis as well.

    Raises:
        InvalidInputError: An argument cannot be used.
        ScopeError: Nobody is named.

    Example:
        >>> from langmem_adapter import Memory
        >>> from langmem_adapter.conversation import BrainMemory
        >>> from langmem_adapter.conversation.summaries import about_tokens
        >>> with Memory(":memory:") as memory:
        ...     brain = BrainMemory(memory, "monday", user_id="alice")
        ...     kept = [brain.add_talk(f"Lily has {number} apples.") for number in range(100)]
        ...     context = brain.context(max_tokens=300)
        ...     context[0].text.splitlines()[0], context[-1].text, about_tokens(context) <= 300
        ('Summary of the conversation so far:', 'Lily has 99 apples.', True)
    """

    def __init__(
        self,
        memory: Memory,
        chat_id: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        window: int = 2_000,
        max_tokens: int = 500,
        count_tokens: CountTokens = about_tokens,
    ) -> None:
        parts = parts_of(memory, "BrainMemory(memory, chat_id)")
        self._scope: Final = Scope(user_id, agent_id, run_id)
        self._chat: Final = filled(chat_id, "chat_id")
        self._max_tokens: Final = _tokens(max_tokens, "max_tokens")
        self._tokens: Final = count_tokens
        self._summarizer: Final = parts.reasoner.summarizer
        window = _tokens(window, "window")
        super().__init__(
            StoredConversation(parts, Conversation(chat_id, self._scope), window=window, count=self._count)
        )

    @planned
    def context(self, max_tokens: int = 4_000) -> Plan[list[BaseMessage]]:
        """What a chat model should read: the running summary as a system message, and all messages behind it.

        Where they do not fit, the older messages go into the summary first, the call of a tool always with its answers; then
        there is room for a while. The latest message goes into it, too, where it is too long by itself: then no message of a
        person follows, and *max_tokens* should be more. What it costs does not grow with the length of the conversation.

        Args:
            max_tokens: Tokens that all of it may have.

        Raises:
            InvalidInputError: *max_tokens* cannot be used, or a call that waits for its tool does not fit.
            ModelReplyError: A summary came out blank or too long, also when asked again; nothing was changed.
            ConflictError: Others kept changing the conversation.
        """
        budget = _tokens(max_tokens, "max_tokens")
        fitting = partial(self._fitting, budget)
        plan: Plan[list[BaseMessage]] = self._course.settled(fitting)
        return self._run(plan, "context", lambda messages: {"messages": [told(message) for message in messages]})

    acontext = awaited(context)

    @planned
    def summarize(self, max_words: int = 200, keep_language: bool = False, limit: int = -1) -> Plan[str]:  # noqa: FBT001, FBT002 - as in MetaGPT
        """Sum up all there is, and go on from there; the messages stay in the database.

        Args:
            max_words: About how many words the summary may have.
            keep_language: Tell a chat model to write in the language of the conversation.
            limit: Where all of it has fewer tokens, it is given as it is and nothing is changed.

        Returns:
            The summary; empty where there is nothing.

        Raises:
            InvalidInputError: An argument cannot be used.
            ModelReplyError: A summary came out blank or too long, also when asked again; nothing was changed.
            ConflictError: Others kept changing the conversation.
        """
        most = bounded(max_words, "max_words", most=_WORDS) * 4 // 3 + self._count("")

        def due(state: State) -> Due | str:
            whole = "\n".join([state.text, *(told(message) for message in state.messages)]).strip()
            if self._count(whole) < limit:
                return whole
            if not state.closed and self._count(state.text) <= most:
                return state.text
            return Due(state.closed, most, flag(keep_language, "keep_language"))

        return self._run(self._course.settled(due, str), "summarize", lambda text: {"summary": text})

    asummarize = awaited(summarize)

    @planned
    def get_title(self, max_words: int = 5) -> Plan[str]:
        """A title, made of the running summary, or of the beginning as long as there is none; kept until that changes.

        Args:
            max_words: Words that it may have.

        Returns:
            The title; "New" where there is nothing yet.

        Raises:
            ModelReplyError: The chat model said nothing.
        """
        words = bounded(max_words, "max_words", most=100)
        course = self._course

        def titled(state: State) -> Plan[str]:
            text = state.text or self._beginning(state)
            if not text:
                return Plan.known(_NEW)
            return course.title(state, text, words, self._summarizer.title(text, words))

        return self._run(course.state().and_then(titled), "get_title", lambda title: {"title": title})

    aget_title = awaited(get_title)

    @planned
    def is_related(self, text1: str, text2: str) -> Plan[bool]:
        """Whether two texts belong together.

        Raises:
            ModelReplyError: The chat model's reply stayed unreadable after one repair.
        """
        texts = filled(text1, "text1"), filled(text2, "text2")
        plan: Plan[tuple[bool, Usage]] = Plan.late(lambda: self._summarizer.is_related(*texts))
        return self._run(plan.then(lambda judged: judged[0]), "is_related", lambda related: {"related": related})

    ais_related = awaited(is_related)

    @planned
    def rewrite(self, sentence: str, context: str) -> Plan[str]:
        """A sentence as it can be understood without its context.

        Raises:
            ModelReplyError: The chat model said nothing.
        """
        texts = filled(sentence, "sentence"), check_text(context, "context")
        plan = Plan.late(lambda: self._summarizer.rewrite(*texts)).then(lambda wording: wording.text)
        return self._run(plan, "rewrite", lambda text: {"sentence": text})

    arewrite = awaited(rewrite)

    def _count(self, text: str) -> int:
        return self._tokens([HumanMessage(text)])

    def _run(self, plan: Plan[R], name: str, shown: Any) -> Plan[R]:
        config = run_config(f"brain.{name}", self._scope, self._summarizer.mode)
        return traced(plan, config, inputs={"chat": self._chat}, shown=shown)

    def _fitting(self, budget: int, state: State) -> Due | list[BaseMessage]:
        """The context, or what has to be summed up for it: then the rest fills half of the room at most."""
        messages = [SystemMessage(f"{_LEAD}{state.text}")] if state.text else []
        context: list[BaseMessage] = [*messages, *_answering(state.messages)]
        if not context or self._tokens(context) <= budget:
            return context
        frame = self._tokens([SystemMessage(_LEAD)])
        most = min(self._max_tokens, budget // 2 - frame)
        older = state.closed[: before_latest(state.units, self._tokens, (budget - frame - most) // 2)]
        if not older and self._count(state.text) <= most:
            raise InvalidInputError(
                f"a call that waits for its tool has more than {budget - most} tokens; allow more with max_tokens"
            )
        return Due(older, most)

    def _beginning(self, state: State) -> str:
        """About as much of the first messages as a summary would be long, and no more tokens."""
        text = "\n".join(told(message) for message in state.messages)[: _LETTERS * self._max_tokens].strip()
        lengths = range(1, len(text) + 1)
        return text[: bisect_right(lengths, self._max_tokens, key=lambda length: self._count(text[:length]))].strip()


_tokens: Final = partial(bounded, least=_LEAST, most=_MOST)


def _answering(messages: Iterable[BaseMessage]) -> Iterator[BaseMessage]:
    """The messages; what a tool returned when its call was summed up already is text, since no model API takes it alone."""
    asked = set[str | None]()
    for message in messages:
        asked |= {call["id"] for call in message.tool_calls} if isinstance(message, AIMessage) else set()
        alone = isinstance(message, ToolMessage) and message.tool_call_id not in asked
        yield HumanMessage(told(message), id=message.id) if alone else message
