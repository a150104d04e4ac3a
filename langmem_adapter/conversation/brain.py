"""Brain memory: a conversation of any length within a fixed number of tokens, with summary and title.

After MetaGPT's `BrainMemory` (seed 002 §2.4), whose operations keep their names. Four levels: messages, windows of them, the
running summary of all windows, the title. What a summary covers is known by positions that the database gave, not by the ids of
messages; the messages stay. A summary is kept only if it was made of what still stands, so that of two writers one begins
again, and a model that fails leaves everything as it was.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage, messages_from_dict

from langmem_adapter.arguments import bounded, each_of, filled, flag, one_of
from langmem_adapter.conversation.course import Due, State, StoredConversation
from langmem_adapter.conversation.summaries import about_tokens, before_latest, split_texts, told
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.memory.parts import parts_of
from langmem_adapter.records.checks import check_text
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage.cache import redis_key
from langmem_adapter.storage.conversations import Conversation, Note, drafts_of
from langmem_adapter.tracing import run_config, traced
from langmem_adapter.twins import Plan, awaited, planned

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from langmem_adapter.conversation.summaries import CountTokens
    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.records.results import Usage

_TAGGED: Final = r"\[([A-Z]+)\]:\s*(.+)"

_KINDS: Final = ("window", "summary", "title", "knowledge", "talk")  # of notes


class Talk:
    """A conversation that is kept: its messages, knowledge and last talk."""

    def __init__(self, course: StoredConversation) -> None:
        self._course: Final = course

    @planned
    def add_history(self, message: BaseMessage) -> Plan[bool]:
        """Keep a message at the end.

        Args:
            message: Any LangChain message; it is not changed.

        Returns:
            Whether it is new: one that is kept already, under its id and with all that it says, is not kept twice.

        Raises:
            InvalidInputError: It cannot be kept as it is.
        """
        return self._kept(message)

    aadd_history = awaited(add_history)

    @planned
    def add_talk(self, message: BaseMessage | str) -> Plan[bool]:
        """Keep what the user says; see `add_history`."""
        return self._kept(_said_by(HumanMessage, message))

    aadd_talk = awaited(add_talk)

    @planned
    def add_answer(self, message: BaseMessage | str) -> Plan[bool]:
        """Keep what the assistant says; see `add_history`."""
        return self._kept(_said_by(AIMessage, message))

    aadd_answer = awaited(add_answer)

    @planned
    def set_last_talk(self, talk: str) -> Plan[None]:
        """Lay down what the user said last, for `pop_last_talk`."""
        note = Note(kind="talk", text=check_text(talk, "talk"))
        return self._course.writing(partial(self._course.keep, note))

    aset_last_talk = awaited(set_last_talk)

    @planned
    def pop_last_talk(self) -> Plan[str | None]:
        """Take what was laid down last away, and give it; `None` where there is nothing."""
        return self._course.writing(self._course.pop_talk)

    apop_last_talk = awaited(pop_last_talk)

    @planned
    def add_knowledge(self, knowledge: BaseMessage | str) -> Plan[None]:
        """Pin something that no summary changes; `context` leaves it out: show a model `get_knowledge` beside it."""
        text = knowledge.text if isinstance(knowledge, BaseMessage) else knowledge
        note = Note(kind="knowledge", text=filled(text, "knowledge"))
        return self._course.writing(partial(self._course.keep, note))

    aadd_knowledge = awaited(add_knowledge)

    @planned
    def set_history_summary(self, history_summary: str) -> Plan[None]:
        """Put a summary of your own in place of the running one; it covers all messages there are."""
        text = check_text(history_summary, "history_summary")
        return self._course.writing(partial(self._course.cover, text))

    aset_history_summary = awaited(set_history_summary)

    @planned
    def clear(self) -> Plan[None]:
        """Remove the messages, and all that was made of them."""
        return self._course.writing(self._course.clear).and_then(lambda _: Plan(self._course.forget))

    aclear = awaited(clear)

    @planned
    def get_history(self) -> Plan[list[BaseMessage]]:
        """The messages that are not summed up yet, oldest first."""
        return self._course.state().then(lambda state: state.messages)

    aget_history = awaited(get_history)

    @planned
    def get_historical_summary(self) -> Plan[str]:
        """The running summary of what came before; empty where there is none."""
        return self._course.state().then(lambda state: state.text)

    aget_historical_summary = awaited(get_historical_summary)

    @planned
    def get_history_text(self) -> Plan[str]:
        """The running summary and the messages behind it as text, but for the latest: that is the present talk."""
        return self._course.state().then(_history_text)

    aget_history_text = awaited(get_history_text)

    @planned
    def get_knowledge(self) -> Plan[str]:
        """What was pinned, line by line."""
        return self._course.notes("knowledge").then(lambda notes: "\n".join(note.text for note in notes))

    aget_knowledge = awaited(get_knowledge)

    @planned
    def exists(self, text: str) -> Plan[bool]:
        """Whether a message that is not summed up yet says exactly this."""
        return self._course.state().then(lambda state: any(turn.text == text for turn in state.turns))

    aexists = awaited(exists)

    @planned
    def notes(self, kind: str) -> Plan[list[Note]]:
        """What was made of the conversation, oldest first, each with the range of positions that it covers.

        Args:
            kind: `"window"`, `"summary"`, `"title"`, `"knowledge"` or `"talk"`. `Memory.trace(note.trace_id)` shows how a
                summary or a title was made.

        Raises:
            InvalidInputError: *kind* is another one.
        """
        return self._course.notes(one_of(kind, _KINDS, "kind"))

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
        state = self._course.state().run()
        return bool(state.text or state.turns)

    @property
    def knowledge(self) -> list[str]:
        """What was pinned, in order."""
        return [note.text for note in self._course.notes("knowledge").run()]

    @property
    def last_talk(self) -> str | None:
        """What was laid down last; to set it is `set_last_talk`."""
        return next((note.text for note in reversed(self._course.notes("talk").run())), None)

    @last_talk.setter
    def last_talk(self, talk: str) -> None:
        self.set_last_talk(talk)

    @planned
    def dumps(self) -> Plan[str]:
        """The conversation as it stands, as JSON: summary, messages behind it, knowledge, last talk; no setting, no key."""
        return Plan(self._course.dumped)

    adumps = awaited(dumps)

    @planned
    def loads(self, data: str | Mapping[str, Any]) -> Plan[None]:
        """Begin with what `dumps` gave, or with the same as a dict.

        Raises:
            InvalidInputError: It is something else, or this conversation has begun already.
        """
        given = _given(data)
        drafts = drafts_of(given["history"])
        notes = [
            *([Note(kind="summary", text=given["historical_summary"])] if given["historical_summary"] else []),
            *(Note(kind="knowledge", text=text) for text in given["knowledge"]),
            *([] if given["last_talk"] is None else [Note(kind="talk", text=given["last_talk"])]),
        ]
        return self._course.writing(partial(self._course.begin, drafts, notes))

    aloads = awaited(loads)

    @staticmethod
    def extract_info(input_string: str, pattern: str = _TAGGED) -> tuple[str | None, str]:
        r"""A tag in front of a text and the text, whatever its lines; no tag and the input where there is none.

        Example:
            >>> from langmem_adapter.conversation import BrainMemory
            >>> BrainMemory.extract_info("[TALK]: Hello\nyou"), BrainMemory.extract_info("[TALK]Hello")
            (('TALK', 'Hello\nyou'), (None, '[TALK]Hello'))
        """
        found = re.match(pattern, input_string, re.DOTALL)
        return (found[1], found[2]) if found else (None, input_string)

    @staticmethod
    def to_int(value: object, default: int) -> int:
        """A whole number, or the default for what is none.

        Example:
            >>> from langmem_adapter.conversation import BrainMemory
            >>> BrainMemory.to_int("1", 0), BrainMemory.to_int("f81d4fae", 0)
            (1, 0)
        """
        try:
            return int(value)  # type: ignore[call-overload, no-any-return]  # that is the question
        except (TypeError, ValueError):
            return default

    @staticmethod
    def to_redis_key(prefix: str, user_id: str, chat_id: str) -> str:
        """A key for a cache of your own; two users or chats never share one, whatever signs are in their names.

        Example:
            >>> from langmem_adapter.conversation import BrainMemory
            >>> BrainMemory.to_redis_key("chats", "ada", "1:2")
            'chats:ada:1%3A2'
        """
        return redis_key(prefix, user_id, chat_id)

    split_texts = staticmethod(split_texts)

    def _kept(self, message: BaseMessage) -> Plan[bool]:
        (draft,) = drafts_of([message])
        return self._course.writing(partial(self._course.append, draft))


def _said_by(kind: type[BaseMessage], message: BaseMessage | str) -> BaseMessage:
    """A message of that kind; one of another kind keeps its words, its id, its name and what it carries."""
    if isinstance(message, str):
        return kind(content=filled(message, "message"))
    if not isinstance(message, BaseMessage) or isinstance(message, kind):
        return message
    more = {"id": message.id, "name": message.name, "additional_kwargs": message.additional_kwargs}
    return kind(content=message.content, **more)


def _history_text(state: State) -> str:
    texts: Sequence[str] = [message.text for message in state.messages[:-1]]
    return "\n".join(text for text in (state.text, *texts) if text)


def _given(data: object) -> dict[str, Any]:
    try:
        held: Any = json.loads(data) if isinstance(data, str) else data
        talk = held["last_talk"]
        return {
            "history": messages_from_dict(list(held["history"])),
            "historical_summary": check_text(held["historical_summary"], "historical_summary"),
            "knowledge": [check_text(text, "knowledge") for text in each_of(held["knowledge"], "knowledge")],
            "last_talk": None if talk is None else check_text(talk, "last_talk"),
        }
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise InvalidInputError(f"this is not what dumps gave: {type(error).__name__}: {error}") from None


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
