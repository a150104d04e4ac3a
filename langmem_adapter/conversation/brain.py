"""Brain memory: a conversation of any length within a fixed number of tokens, with summary and title.

After MetaGPT's `BrainMemory` (seed 002 §2.4); the operations keep their names. Four levels: messages, windows of them, the
running summary of all windows, the title. A summary covers positions of the database, not ids of messages; the messages stay.
A summary is kept only if what it was made of is unchanged, so that of two writers one begins again; a model that fails changes
nothing.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage, messages_from_dict

from langmem_adapter.arguments import bounded, each_of, filled, flag, one_of
from langmem_adapter.conversation.summaries import about_tokens, count_older, format_message, split_texts
from langmem_adapter.conversation.transcript import Due, State, StoredConversation
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.memory.parts import parts_of
from langmem_adapter.records.checks import check_text
from langmem_adapter.records.scope import Scope, ScopeArguments
from langmem_adapter.storage.conversations import Conversation, Note, drafts_of, redis_key
from langmem_adapter.tracing import run_config, traced
from langmem_adapter.twins import Plan, awaited, declare_options, planned

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from langmem_adapter.conversation.summaries import CountTokens
    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.records.results import Usage

R = TypeVar("R")

_TAG: Final = r"\[([A-Z]+)\]:\s*(.+)"
_KINDS: Final = ("window", "summary", "title", "knowledge", "talk")  # of notes
_LEAST: Final = 100
_MOST: Final = 1_000_000
_WORDS: Final = 10_000
_LETTERS: Final = 4  # of a token, of most texts
_LEAD: Final = "Summary of the conversation so far:\n"

_tokens: Final = partial(bounded, least=_LEAST, most=_MOST)


class BrainMemory:
    """A conversation of any length within a fixed number of tokens: recent messages as they are, older ones summed up.

    Each change is one transaction; there is nothing to save. Threads, tasks and processes may share a conversation.
    `Memory.purge` erases it with its scope. Every method has an async twin with an `a` in front of its name. With the setting
    `redis_url`, copies of what is not summed up yet are kept in Redis as well.

    Args:
        memory: Where it is kept; its chat model sums up, or, without one, rules take sentences as they are.
        chat_id: Name of the conversation.
        window: Tokens that are summed up at once.
        max_tokens: Tokens that the running summary of `context` may have.
        count_tokens: Counts the tokens of messages, as a model's `get_num_tokens_from_messages`; by default about.
        user_id: The user; likewise *agent_id* and *run_id*; at least one is needed.

    Example:
        >>> from langmem_adapter import Memory
        >>> from langmem_adapter.conversation import BrainMemory
        >>> from langmem_adapter.conversation.summaries import about_tokens
        >>> with Memory(":memory:") as memory:
        ...     brain = BrainMemory(memory, "monday", user_id="alice")
        ...     new = [brain.add_talk(f"Lily has {number} apples.") for number in range(100)]
        ...     context = brain.context(max_tokens=300)
        ...     context[0].text.splitlines()[0], context[-1].text, about_tokens(context) <= 300
        ('Summary of the conversation so far:', 'Lily has 99 apples.', True)
    """

    @declare_options(ScopeArguments)
    def __init__(
        self,
        memory: Memory,
        chat_id: str,
        *,
        window: int = 2_000,
        max_tokens: int = 500,
        count_tokens: CountTokens = about_tokens,
        **scope: Unpack[ScopeArguments],
    ) -> None:
        parts = parts_of(memory, "BrainMemory(memory, chat_id)")
        self._scope: Final = Scope(**scope)
        self._chat: Final = filled(chat_id, "chat_id")
        self._max_tokens: Final = _tokens(max_tokens, "max_tokens")
        self._tokens: Final = count_tokens
        self._reading: Final = parts.reading
        self._summarizer: Final = parts.reasoner.summarizer
        size, conversation = _tokens(window, "window"), Conversation(chat_id, self._scope)
        self._stored: Final = StoredConversation(parts, conversation, window=size, count=self._count)

    # ── messages, knowledge and last talk ───────────────────────────────────────────────────────────────────────────

    @planned
    def add_history(self, message: BaseMessage) -> Plan[bool]:
        """Add a message at the end, and say whether it is new: one with the same id and content is not added twice."""
        return self._append(message)

    aadd_history = awaited(add_history)

    @planned
    def add_talk(self, message: BaseMessage | str) -> Plan[bool]:
        """Add what the user says; see `add_history`."""
        return self._append(_as_message(HumanMessage, message))

    aadd_talk = awaited(add_talk)

    @planned
    def add_answer(self, message: BaseMessage | str) -> Plan[bool]:
        """Add what the assistant says; see `add_history`."""
        return self._append(_as_message(AIMessage, message))

    aadd_answer = awaited(add_answer)

    @planned
    def set_last_talk(self, talk: str) -> Plan[None]:
        """Keep the last words of the user, for `pop_last_talk`."""
        return self._stored.keep(Note(kind="talk", text=check_text(talk, "talk")))

    aset_last_talk = awaited(set_last_talk)

    @planned
    def pop_last_talk(self) -> Plan[str | None]:
        """Remove the last talk and return it; `None` where there is none."""
        return self._stored.write(self._stored.pop_talk)

    apop_last_talk = awaited(pop_last_talk)

    @planned
    def add_knowledge(self, knowledge: BaseMessage | str) -> Plan[None]:
        """Pin a text that no summary changes; `context` leaves it out: show a model `get_knowledge` beside it."""
        text = knowledge.text if isinstance(knowledge, BaseMessage) else knowledge
        return self._stored.keep(Note(kind="knowledge", text=filled(text, "knowledge")))

    aadd_knowledge = awaited(add_knowledge)

    @planned
    def set_history_summary(self, history_summary: str) -> Plan[None]:
        """Replace the running summary with your own; it covers all messages there are."""
        text = check_text(history_summary, "history_summary")
        return self._stored.write(partial(self._stored.cover, text))

    aset_history_summary = awaited(set_history_summary)

    @planned
    def clear(self) -> Plan[None]:
        """Remove the messages, and all that was made of them."""
        return self._stored.clear()

    aclear = awaited(clear)

    @planned
    def get_history(self) -> Plan[list[BaseMessage]]:
        """The messages that are not summed up yet, oldest first."""
        return self._stored.state().then(lambda state: state.messages)

    aget_history = awaited(get_history)

    @planned
    def get_historical_summary(self) -> Plan[str]:
        """The running summary of what came before; empty where there is none."""
        return self._stored.state().then(lambda state: state.text)

    aget_historical_summary = awaited(get_historical_summary)

    @planned
    def get_history_text(self) -> Plan[str]:
        """The running summary and the messages behind it as text, but for the latest: that is the present talk."""

        def join(state: State) -> str:
            return "\n".join(filter(None, [state.text, *(message.text for message in state.messages[:-1])]))

        return self._stored.state().then(join)

    aget_history_text = awaited(get_history_text)

    @planned
    def get_knowledge(self) -> Plan[str]:
        """The pinned texts, line by line."""
        return self._stored.notes("knowledge").then(lambda notes: "\n".join(note.text for note in notes))

    aget_knowledge = awaited(get_knowledge)

    @planned
    def exists(self, text: str) -> Plan[bool]:
        """Whether a message that is not summed up yet says exactly this."""
        return self._stored.state().then(lambda state: any(turn.text == text for turn in state.turns))

    aexists = awaited(exists)

    @planned
    def notes(self, kind: str) -> Plan[list[Note]]:
        """What was made of the conversation, oldest first, each with the range of positions that it covers.

        The *kind* is `"window"`, `"summary"`, `"title"`, `"knowledge"` or `"talk"`. `Memory.trace(note.trace_id)` shows how a
        summary or a title was made.
        """
        return self._stored.notes(one_of(kind, _KINDS, "kind"))

    anotes = awaited(notes)

    @property
    def history(self) -> list[BaseMessage]:
        """See `get_history`."""
        return self.get_history()

    @property
    def historical_summary(self) -> str:
        """See `get_historical_summary`."""
        return self.get_historical_summary()

    @property
    def history_text(self) -> str:
        """See `get_history_text`."""
        return self.get_history_text()

    @property
    def is_history_available(self) -> bool:
        """Whether there are messages, or a summary of them."""
        state = self._stored.state().run()
        return bool(state.text or state.turns)

    @property
    def knowledge(self) -> list[str]:
        """The pinned texts, in order."""
        return [note.text for note in self._stored.notes("knowledge").run()]

    @property
    def last_talk(self) -> str | None:
        """The last talk; see `set_last_talk`."""
        return next((note.text for note in reversed(self._stored.notes("talk").run())), None)

    @last_talk.setter
    def last_talk(self, talk: str) -> None:
        self.set_last_talk(talk)

    @planned
    def dumps(self) -> Plan[str]:
        """Summary, messages behind it, knowledge and last talk as JSON; no setting, no key."""
        return Plan(partial(self._reading, self._stored.dump))

    adumps = awaited(dumps)

    @planned
    def loads(self, data: str | Mapping[str, Any]) -> Plan[None]:
        """Begin with what `dumps` returned, or with the same as a dict, where nothing is kept yet."""
        try:
            dump: Any = json.loads(data) if isinstance(data, str) else data
            drafts = drafts_of(messages_from_dict(list(dump["history"])))
            texts = {
                "summary": filter(None, [check_text(dump["historical_summary"], "historical_summary")]),
                "knowledge": [check_text(text, "knowledge") for text in each_of(dump["knowledge"], "knowledge")],
                "talk": [] if dump["last_talk"] is None else [check_text(dump["last_talk"], "last_talk")],
            }
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise InvalidInputError(f"this is not what dumps gave: {type(error).__name__}: {error}") from None
        notes = [Note(kind=kind, text=text) for kind, each in texts.items() for text in each]
        return self._stored.write(partial(self._stored.begin, drafts, notes))

    aloads = awaited(loads)

    # ── summaries and titles ────────────────────────────────────────────────────────────────────────────────────────

    @planned
    def context(self, max_tokens: int = 4_000) -> Plan[list[BaseMessage]]:
        """What a chat model should read: the running summary as a system message, and all messages behind it.

        Where they do not fit into *max_tokens*, the older messages go into the summary first, the call of a tool always with
        its results. A latest message that is too long by itself goes into it, too. The cost does not grow with the length of
        the conversation.

        Raises:
            InvalidInputError: A call that waits for its tool does not fit.
            ModelReplyError: A summary came out blank or too long, also when asked again; nothing was changed.
            ConflictError: Others kept changing the conversation.
        """
        plan: Plan[list[BaseMessage]] = self._stored.sum_up(partial(self._fit, _tokens(max_tokens, "max_tokens")))
        return self._trace(plan, "context", lambda messages: {"messages": [*map(format_message, messages)]})

    acontext = awaited(context)

    def _fit(self, budget: int, state: State) -> Due | list[BaseMessage]:
        """The context, or what has to be summed up for it: then the rest fills half of the budget at most."""
        summary = [SystemMessage(f"{_LEAD}{state.text}")] if state.text else []
        context: list[BaseMessage] = [*summary, *_without_lone_results(state.messages)]
        if not context or self._tokens(context) <= budget:
            return context
        frame = self._tokens([SystemMessage(_LEAD)])
        most = min(self._max_tokens, budget // 2 - frame)
        older = state.closed[: count_older(state.units, self._tokens, (budget - frame - most) // 2)]
        if not older and self._count(state.text) <= most:
            raise InvalidInputError(
                f"a call that waits for its tool has more than {budget - most} tokens; allow more with max_tokens"
            )
        return Due(older, most)

    @planned
    def summarize(self, max_words: int = 200, keep_language: bool = False, limit: int = -1) -> Plan[str]:  # noqa: FBT001, FBT002 - as in MetaGPT
        """Sum up all there is, and go on from there; the messages stay in the database.

        Args:
            max_words: About how many words the summary may have.
            keep_language: Tell a chat model to write in the language of the conversation.
            limit: Where all of it has fewer tokens, it is given as it is and nothing is changed.

        Returns:
            The summary; empty where there is nothing. Errors as for `context`.
        """
        most = bounded(max_words, "max_words", most=_WORDS) * 4 // 3 + self._count("")

        def due(state: State) -> Due | str:
            whole = "\n".join([state.text, *map(format_message, state.messages)]).strip()
            if self._count(whole) < limit:
                return whole
            if not state.closed and self._count(state.text) <= most:
                return state.text
            return Due(state.closed, most, flag(keep_language, "keep_language"))

        return self._trace(self._stored.sum_up(due, str), "summarize", lambda text: {"summary": text})

    asummarize = awaited(summarize)

    @planned
    def get_title(self, max_words: int = 5) -> Plan[str]:
        """A title of the running summary, or of the beginning without one, kept until that changes; "New" of nothing."""
        words = bounded(max_words, "max_words", most=100)

        def find_title(state: State) -> Plan[str]:
            text = state.text
            if not text:  # about as much of the first messages as a summary would be long, and no more tokens
                text = "\n".join(map(format_message, state.messages))[: _LETTERS * self._max_tokens].strip()
                lengths = range(1, len(text) + 1)
                fitting = bisect_right(lengths, self._max_tokens, key=lambda length: self._count(text[:length]))
                text = text[:fitting].strip()
            if not text:
                return Plan.of("New")
            return self._stored.title(state, text, words, self._summarizer.title(text, words))

        return self._trace(self._stored.state().and_then(find_title), "get_title", lambda title: {"title": title})

    aget_title = awaited(get_title)

    @planned
    def is_related(self, text1: str, text2: str) -> Plan[bool]:
        """Whether two texts belong together."""
        texts = filled(text1, "text1"), filled(text2, "text2")
        plan: Plan[tuple[bool, Usage]] = Plan.late(lambda: self._summarizer.is_related(*texts))
        return self._trace(plan.then(lambda reply: reply[0]), "is_related", lambda related: {"related": related})

    ais_related = awaited(is_related)

    @planned
    def rewrite(self, sentence: str, context: str) -> Plan[str]:
        """A sentence as it can be understood without its context."""
        texts = filled(sentence, "sentence"), check_text(context, "context")
        plan = Plan.late(lambda: self._summarizer.rewrite(*texts)).then(lambda wording: wording.text)
        return self._trace(plan, "rewrite", lambda text: {"sentence": text})

    arewrite = awaited(rewrite)

    @staticmethod
    def extract_info(input_string: str, pattern: str = _TAG) -> tuple[str | None, str]:
        r"""A tag in front of a text and the text, whatever its lines; no tag and the input where there is none.

        Example:
            >>> from langmem_adapter.conversation import BrainMemory
            >>> BrainMemory.extract_info("[TALK]: Hello\nyou"), BrainMemory.extract_info("[TALK]Hello")
            (('TALK', 'Hello\nyou'), (None, '[TALK]Hello'))
        """
        match = re.match(pattern, input_string, re.DOTALL)
        return (match[1], match[2]) if match else (None, input_string)

    @staticmethod
    def to_int(value: object, default: int) -> int:
        """A whole number, or the default for what is none."""
        try:
            return int(value)  # type: ignore[call-overload, no-any-return]  # that is the question
        except (TypeError, ValueError):
            return default

    @staticmethod
    def to_redis_key(prefix: str, user_id: str, chat_id: str) -> str:
        """A key for your own cache; two users or chats never share one, whatever signs are in their names."""
        return redis_key(prefix, user_id, chat_id)

    split_texts = staticmethod(split_texts)

    def _append(self, message: BaseMessage) -> Plan[bool]:
        (draft,) = drafts_of([message])
        return self._stored.write(partial(self._stored.append, draft))

    def _count(self, text: str) -> int:
        return self._tokens([HumanMessage(text)])

    def _trace(self, plan: Plan[R], name: str, format_output: Any) -> Plan[R]:
        config = run_config(f"brain.{name}", self._scope, self._summarizer.mode)
        return traced(plan, config, inputs={"chat": self._chat}, summarize=format_output)


def _as_message(kind: type[BaseMessage], message: BaseMessage | str) -> BaseMessage:
    """A message of that kind; one of another kind keeps its content, its id, its name and what it carries."""
    if isinstance(message, str):
        return kind(content=filled(message, "message"))
    if not isinstance(message, BaseMessage) or isinstance(message, kind):
        return message
    fields = {"id": message.id, "name": message.name, "additional_kwargs": message.additional_kwargs}
    return kind(content=message.content, **fields)


def _without_lone_results(messages: Iterable[BaseMessage]) -> Iterator[BaseMessage]:
    """The messages; a tool's result as text where its call was summed up already, since no model API takes it alone."""
    calls = set[str | None]()
    for message in messages:
        calls |= {call["id"] for call in message.tool_calls} if isinstance(message, AIMessage) else set()
        is_alone = isinstance(message, ToolMessage) and message.tool_call_id not in calls
        yield HumanMessage(format_message(message), id=message.id) if is_alone else message
