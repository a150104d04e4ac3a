"""Working memory: an ordered log of messages; also as a channel of LangGraph state.

After MetaGPT's `Memory` (seed 002 §2.2); the operations keep their names. Differences: it never changes the caller's
messages, reads create nothing, several causes come back in the order of time, `add` and `find_news` agree, and the log may lie
in the database, where several processes share it.
"""

from __future__ import annotations

import json
import sys
from bisect import bisect_left
from collections import defaultdict
from datetime import UTC, datetime
from functools import partial
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar, Unpack
from uuid import uuid4

from langchain_core.messages import BaseMessage, ToolMessage, messages_from_dict
from langgraph.graph.message import add_messages

from langmem_adapter.arguments import bounded, each_of, flag, optional_scope
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.forks import Lock
from langmem_adapter.memory.parts import parts_of
from langmem_adapter.records.checks import check_text, quoted
from langmem_adapter.records.envelope import cause_name, cause_names, speaker_label
from langmem_adapter.records.scope import ScopeArguments, shallow
from langmem_adapter.storage import conversations
from langmem_adapter.storage.conversations import (
    EVERY,
    LOOKED_UP,
    Conversation,
    Draft,
    StoredTurn,
    TurnFilter,
    drafts_of,
    messages_of,
)
from langmem_adapter.twins import Plan, awaited, declare_options, planned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sqlalchemy import Connection

    from langmem_adapter.memory.memory import Memory


number_of: Final = partial(bounded, least=0, most=sys.maxsize)
"""A number of messages, 0 for all."""
_CHUNK: Final = 500  # values of one IN: databases bound their number
_position: Final = attrgetter("position")

T = TypeVar("T")


class DatabaseLog:
    """The turns of a conversation in the database, within a transaction."""

    def __init__(self, connection: Connection, conversation: Conversation) -> None:
        self.connection = connection
        self.append = partial(conversations.append, connection, conversation)
        self.read = partial(conversations.read, connection, conversation)
        self.nth = partial(conversations.nth, connection, conversation)
        self.count = partial(conversations.count, connection, conversation)
        self.remove = partial(conversations.remove, connection, conversation)
        self.clear = partial(conversations.clear, connection, conversation)


class ObjectLog:
    """Turns in this object, in order, and by the fields that they are looked up by."""

    # Contract: where a child is forked in the middle of a change, it may have a turn twice, and it misses none: each turn of
    # `_by` is in `_turns`. tests/test_forks.py::test_a_log_that_another_thread_holds_is_free_in_a_child

    def __init__(self) -> None:
        self.lock: Final = Lock()
        self._last = 0
        self.clear()

    def append(self, drafts: Sequence[Draft]) -> None:
        """Add drafts at the end."""
        for draft in drafts:
            self._last += 1
            turn = StoredTurn(**shallow(draft), position=self._last, created_at=datetime.now(UTC))
            self._turns.append(turn)
            for name, turns in self._by.items():
                turns[getattr(turn, name)][turn.position] = turn

    def read(self, which: TurnFilter = EVERY) -> list[StoredTurn]:
        """The turns that fit, oldest first."""
        among = [(self._by[name], values) for name, values in which.values]
        candidates = [[turns[value].values() for value in turns.keys() & values] for turns, values in among]
        fewest = min(candidates, key=lambda parts: sum(map(len, parts)), default=[self._turns])
        newest = merge(*map(reversed, fewest), key=_position, reverse=True)
        return [*islice(filter(which.matches, newest), which.last)][::-1]

    def nth(self, place: int) -> StoredTurn | None:
        """The turn at a place, counted from 0, or from the end where it is negative."""
        return self._turns[place] if -len(self._turns) <= place < len(self._turns) else None

    def count(self) -> int:
        """How many turns there are."""
        return len(self._turns)

    def remove(self, positions: Sequence[int]) -> None:
        """Remove turns."""
        for position in positions:
            place = bisect_left(self._turns, position, key=_position)
            for name, turns in self._by.items():
                value = getattr(self._turns[place], name)
                turns[value].pop(position, None)
                if not turns[value]:
                    del turns[value]
            del self._turns[place]

    def clear(self) -> None:
        """Remove all turns."""
        self._by = {name: defaultdict[str | None, dict[int, StoredTurn]](dict) for name in LOOKED_UP}
        self._turns: list[StoredTurn] = []


Log: TypeAlias = DatabaseLog | ObjectLog


class WorkingMemory:
    """An ordered log of LangChain messages, read by speaker, words, cause and place.

    Each message is kept once. By default two are the same if they have the same id and content; one without an id is new each
    time, and gets an id in the log. Every method has an async twin with an `a` in front of its name.

    Args:
        storage: Messages to begin with.
        index: The same messages by cause, as MetaGPT has them; it is only checked, since messages carry their causes.
        ignore_id: Messages with the same content are the same.
        watch: Causes that matter most (`important_memory`): names or classes; `None` for any.
        memory: Keep the log in this memory's database; `None` keeps it in this object.
        session_id: Name of the conversation there.
        user_id: Its user; likewise *agent_id* and *run_id*; `SQLChatMessageHistory` reads the same conversation.

    Raises:
        InvalidInputError: A message cannot be kept as it is, or *index* holds one that *storage* does not.

    Example:
        >>> from langchain_core.messages import AIMessage, HumanMessage
        >>> from langmem_adapter.conversation import WorkingMemory, stamp
        >>> log = WorkingMemory()
        >>> log.add(stamp(HumanMessage("Write a snake game.", id="1"), cause_by="UserRequirement"))
        True
        >>> log.add(stamp(AIMessage("Goals: ...", id="2"), cause_by="WritePRD", label="Product manager"))
        True
        >>> [message.text for message in log.get_by_action("WritePRD")]
        ['Goals: ...']
        >>> [message.text for message in log.find_news([HumanMessage("Make it red.", id="3")])]
        ['Make it red.']
    """

    @declare_options(ScopeArguments)
    def __init__(
        self,
        storage: Iterable[BaseMessage] = (),
        index: Mapping[str, Sequence[BaseMessage]] | None = None,
        *,
        ignore_id: bool = False,
        watch: Iterable[object] | None = None,
        memory: Memory | None = None,
        session_id: str = "default",
        **scope: Unpack[ScopeArguments],
    ) -> None:
        self.ignore_id = flag(ignore_id, "ignore_id")
        self.watch = parse_causes(watch)
        self._conversation = Conversation(session_id, optional_scope(scope))
        self._log = ObjectLog()
        self._database = None if memory is None else parts_of(memory, type(self).__name__).database
        if first := list(storage):
            self.add_batch(first)
        for cause, messages in (index or {}).items():
            if self.find_news(messages):
                raise InvalidInputError(f"index holds a message by {quoted(cause)} that storage does not; add it there")

    @planned
    def add(self, message: BaseMessage) -> Plan[bool]:
        """Add a message at the end, and say whether it is new; one that is in the log already stays where it is."""
        return self._add_all([message]).then(bool)

    aadd = awaited(add)

    @planned
    def add_batch(self, messages: Sequence[BaseMessage]) -> Plan[int]:
        """Add messages in order, all of them or none, and count those that are new."""
        return self._add_all(messages).then(len)

    aadd_batch = awaited(add_batch)

    @planned
    def delete(self, message: BaseMessage) -> Plan[None]:
        """Remove a message, the first of those that are the same; one that is not there is an error."""
        (draft,) = drafts_of([message])

        def delete(log: Log) -> None:
            equal = (turn for turn in log.read(self._which_alike([draft])) if self._key(turn) == self._key(draft))
            if (turn := next(equal, None)) is None:
                has_key = draft.message_id is not None or self.ignore_id
                hint = "" if has_key else "; give it as `get` returns it, with its id"
                raise InvalidInputError(f"there is no message {quoted(draft.text)} to delete{hint}")
            self._remove(log, [turn])

        return self._write(delete)

    adelete = awaited(delete)

    @planned
    def delete_newest(self) -> Plan[BaseMessage | None]:
        """Remove the newest message and return it; `None` where there is none."""

        def delete_newest(log: Log) -> BaseMessage | None:
            if (turn := log.nth(-1)) is not None:
                self._remove(log, [turn])
            return _message(turn)

        return self._write(delete_newest)

    adelete_newest = awaited(delete_newest)

    @planned
    def clear(self) -> Plan[None]:
        """Remove all messages, and what was made of them."""
        return self._write(self._clear)

    aclear = awaited(clear)

    @planned
    def get(self, k: int = 0) -> Plan[list[BaseMessage]]:
        """The latest *k* messages, oldest first; 0 for all."""
        return self._select(TurnFilter(last=number_of(k, "k") or None))

    aget = awaited(get)

    @planned
    def get_by_role(self, role: str) -> Plan[list[BaseMessage]]:
        """The messages of a speaker: the label that they are stamped with, else "user", "assistant", "system" or "tool"."""
        return self._select(TurnFilter(label=speaker_label(check_text(role, "role"))))

    aget_by_role = awaited(get_by_role)

    @planned
    def get_by_content(self, content: str) -> Plan[list[BaseMessage]]:
        """The messages with this exact text in their content."""
        return self._select(TurnFilter(holding=check_text(content, "content")))

    aget_by_content = awaited(get_by_content)

    @planned
    def try_remember(self, keyword: str) -> Plan[list[BaseMessage]]:
        """The same as `get_by_content`, by MetaGPT's other name."""
        return self._select(TurnFilter(holding=check_text(keyword, "keyword")))

    atry_remember = awaited(try_remember)

    @planned
    def get_by_action(self, action: object) -> Plan[list[BaseMessage]]:
        """The messages that an action brought about: its name, or its class."""
        return self._select(TurnFilter(causes={cause_name(action, "action")}))

    aget_by_action = awaited(get_by_action)

    @planned
    def get_by_actions(self, actions: Iterable[object]) -> Plan[list[BaseMessage]]:
        """The messages that any of some actions brought about, in the order of the log."""
        return self._select(TurnFilter(causes=cause_names(actions, "actions")))

    aget_by_actions = awaited(get_by_actions)

    @planned
    def important_memory(self) -> Plan[list[BaseMessage]]:
        """The messages of the watched causes; all where none are watched."""
        return self._select(TurnFilter(causes=self.watch))

    aimportant_memory = awaited(important_memory)

    @planned
    def get_by_position(self, position: int) -> Plan[BaseMessage | None]:
        """The message at a place, counted from 0, or from the end where it is negative; `None` where there is none."""
        place = bounded(position, "position", least=-sys.maxsize, most=sys.maxsize)
        return self._read(lambda log: _message(log.nth(place)))

    aget_by_position = awaited(get_by_position)

    @planned
    def count(self) -> Plan[int]:
        """How many messages there are."""
        return self._read(lambda log: log.count())

    acount = awaited(count)

    @planned
    def find_news(self, observed: Sequence[BaseMessage], k: int = 0) -> Plan[Sequence[BaseMessage]]:
        """Those of some messages that are not in the log, or not among its latest *k*, each once; nothing is kept."""
        messages, window = each_of(observed, "observed"), number_of(k, "k")
        drafts = named_drafts(messages)
        return self._read(lambda log: [messages[place] for place in self._new_places(log, drafts, window)])

    afind_news = awaited(find_news)

    @property
    def storage(self) -> list[BaseMessage]:
        """All messages, oldest first."""
        return self.get()

    @property
    def index(self) -> dict[str, list[BaseMessage]]:
        """The messages that say what caused them, by cause."""
        index: defaultdict[str, list[BaseMessage]] = defaultdict(list)
        for turn in self._read(lambda log: log.read()).run():
            if turn.cause is not None:
                index[turn.cause] += messages_of([turn])
        return dict(index)

    def to_json(self) -> dict[str, Any]:
        """All of it as plain JSON types."""
        turns = self._read(lambda log: log.read()).run()
        return {"storage": [json.loads(turn.message) for turn in turns], "ignore_id": self.ignore_id}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`, in this object's own log."""
        try:
            messages, ignore_id = messages_from_dict(each_of(data["storage"], "storage")), data["ignore_id"]
        except (ValueError, TypeError, LookupError) as error:
            raise InvalidInputError(f"this is not what to_json gave: {type(error).__name__}: {error}") from None
        return cls(messages, ignore_id=ignore_id)

    def _add_all(self, messages: Sequence[BaseMessage]) -> Plan[list[Draft]]:
        return self._write(partial(self._add_new, named_drafts(messages)))

    def _add_new(self, drafts: Sequence[Draft], log: Log) -> list[Draft]:
        new = [drafts[place] for place in self._new_places(log, drafts)]
        log.append(new)
        return new

    def _new_places(self, log: Log, drafts: Sequence[Draft], window: int = 0) -> list[int]:
        """Places of those that are not in the log, nor before in the list."""
        newest = log.read(TurnFilter(last=window)) if window else []
        after = newest[0].position - 1 if newest else 0
        places, keys = [], set[tuple[str | None, str | None]]()
        for start in range(0, len(drafts), _CHUNK):
            chunk = drafts[start : start + _CHUNK]
            keys |= {self._key(turn) for turn in log.read(self._which_alike(chunk, after))}
            for place, draft in enumerate(chunk, start):
                if self._key(draft) not in keys:
                    keys.add(self._key(draft))
                    places.append(place)
        return places

    def _which_alike(self, drafts: Sequence[Draft], after: int = 0) -> TurnFilter:
        """Turns that could be the same as some drafts; of a text that is said often only those with one of the ids."""
        fingerprints = {str(draft.fingerprint) for draft in drafts}
        ids = None if self.ignore_id else {draft.message_id for draft in drafts}
        return TurnFilter(after=after, fingerprints=fingerprints, message_ids=ids)

    def _key(self, draft: Draft) -> tuple[str | None, str | None]:
        return (None if self.ignore_id else draft.message_id), draft.fingerprint

    def _clear(self, log: Log) -> None:
        log.clear()

    def _remove(self, log: Log, turns: Sequence[StoredTurn]) -> None:
        log.remove([turn.position for turn in turns])

    def _select(self, which: TurnFilter) -> Plan[list[BaseMessage]]:
        return self._read(lambda log: log.read(which)).then(messages_of)

    def _where(self) -> Conversation:
        return self._conversation

    def _read(self, work: Callable[[Log], T]) -> Plan[T]:
        if self._database is None:
            return self._use_object_log(work)
        database, conversation = self._database, self._where()

        def read() -> T:
            with database.read() as connection:
                return work(DatabaseLog(connection, conversation))

        return Plan(read)

    def _write(self, work: Callable[[Log], T]) -> Plan[T]:
        if self._database is None:
            return self._use_object_log(work)
        conversation = self._where()  # of now: a role may take another one before the write is carried out

        def write(connection: Connection) -> T:
            return work(DatabaseLog(connection, conversation))

        return Plan.calling(self._database.write, self._database.awrite, write)

    def _use_object_log(self, work: Callable[[Log], T]) -> Plan[T]:
        def run(_: None) -> T:
            with self._log.lock:
                return work(self._log)

        return Plan.of(None).then(run)  # on the loop: in a thread, others would overtake it


def _message(turn: StoredTurn | None) -> BaseMessage | None:
    return None if turn is None else messages_of([turn])[0]


def named_drafts(messages: Iterable[BaseMessage]) -> list[Draft]:
    """Messages, ready to be kept: one without an id has a new one there."""

    def name(message: BaseMessage) -> BaseMessage:
        is_unnamed = isinstance(message, BaseMessage) and message.id is None
        return message.model_copy(update={"id": str(uuid4())}) if is_unnamed else message

    return drafts_of([name(message) for message in each_of(messages, "messages")])


def parse_causes(watch: Iterable[object] | None) -> frozenset[str] | None:
    """Causes by their names; `None` for any."""
    return None if watch is None else cause_names(watch, "watch")


def latest(k: int = 100) -> Callable[[Sequence[BaseMessage], Sequence[BaseMessage]], list[BaseMessage]]:
    """A reducer that appends messages as LangGraph's `add_messages` does, and keeps the latest.

    A result of a tool goes with its call, since no model API takes one without the other. To clear the channel, after a task
    say, return `[RemoveMessage(id=REMOVE_ALL_MESSAGES)]`.

    Example:
        >>> from typing import Annotated, TypedDict
        >>> class State(TypedDict):
        ...     working: Annotated[list[BaseMessage], latest(20)]
        >>> [message.text for message in latest(1)([], ["one", "two"])]
        ['two']
    """
    most = bounded(k, "k")

    def reduce(left: Sequence[BaseMessage], right: Sequence[BaseMessage]) -> list[BaseMessage]:
        new = [message.model_copy() if isinstance(message, BaseMessage) else message for message in _as_list(right)]
        messages: Any = add_messages(_as_list(left), new)
        recent: list[BaseMessage] = messages[-most:]
        while recent and isinstance(recent[0], ToolMessage):
            recent = recent[1:]
        return recent

    return reduce


def _as_list(messages: Any) -> list[Any]:
    return list(messages) if isinstance(messages, list | tuple) else [messages]
