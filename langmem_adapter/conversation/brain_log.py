"""What is kept of a conversation, and read of it as it stands: the part of `BrainMemory` that asks no model."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, messages_from_dict

from langmem_adapter.arguments import each_of, filled, one_of
from langmem_adapter.conversation.summaries import split_texts
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import check_text
from langmem_adapter.storage.cache import redis_key
from langmem_adapter.storage.messages import drafts_of
from langmem_adapter.storage.notes import Note
from langmem_adapter.twins import Plan, awaited, planned

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langmem_adapter.conversation.course import State, StoredConversation

__all__ = ["Talk"]

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
