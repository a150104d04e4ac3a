"""Long-term memory of a role: messages that it watches become memories, beside the log of all messages.

After MetaGPT's `LongTermMemory` and `MemoryStorage` (seed 002 §2.3), which are not finished there. Here the message and its
memory (`memory_type="message"`) are written in one transaction, so that there is nothing to persist and nothing to lose.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar
from uuid import uuid4

from langchain_core.messages import BaseMessage, HumanMessage

from langmem_adapter.arguments import bounded, each_of, filled, likeness
from langmem_adapter.conversation.working import WorkingMemory, named_drafts, number_of, parse_causes
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.memory.parts import parts_of
from langmem_adapter.records.checks import quoted
from langmem_adapter.records.envelope import speaker_label
from langmem_adapter.records.results import MESSAGE, Decision
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage import memories
from langmem_adapter.storage.conversations import Conversation, TurnFilter, messages_of
from langmem_adapter.storage.write import Write
from langmem_adapter.twins import Plan, awaited, planned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from langmem_adapter.embedding.embedder import UnitVectors
    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.records.results import Hit
    from langmem_adapter.storage.conversations import Draft, StoredTurn

R = TypeVar("R")

MONTH: Final = timedelta(days=30)
_LONGEST: Final = timedelta(days=365_000)
_CHUNK: Final = 500
_MOST: Final = 10_000
_WIDER: Final = 4
_SPOKEN: Final = frozenset({"human", "ai", "chat", "AIMessageChunk", "HumanMessageChunk"})


class Recovered(NamedTuple):
    """Whether a role begins for the first time, and how many messages there are."""

    first: bool
    messages: int


class Similar(NamedTuple):
    """A remembered message, and its calibrated cosine: 0 where two texts have nothing in common, 1 where they are equal."""

    message: BaseMessage
    cosine: float


class Seen(NamedTuple):
    """Why a message is no news: `"exact"`, it is in the log, or `"similar"`, a remembered one (*like*) is near."""

    message: BaseMessage
    why: Literal["exact", "similar"]
    like: Similar | None = None


class News(list[BaseMessage]):
    """The messages that are news, in their order; the others (*seen*), with the reason; and news beyond the limit (*later*)."""

    def __init__(
        self, new: Iterable[BaseMessage] = (), seen: Sequence[Seen] = (), later: Sequence[BaseMessage] = ()
    ) -> None:
        super().__init__(new)
        self.seen = tuple(seen)
        self.later = tuple(later)


def _pinned(plan: Callable[..., Plan[R]]) -> Callable[..., Plan[R]]:
    # Contract: what began for a role ends with it, whichever `recover_memory` takes meanwhile: a copy does it.
    # tests/conversation/test_long_term.py::test_what_is_under_way_stays_with_the_role_that_it_began_for.
    return lambda self, *arguments: plan(copy(self), *arguments)


class LongTermMemory(WorkingMemory):
    """The log of a role; messages that it watches become memories as well, found by meaning later.

    It has every method of `WorkingMemory`. The role is the `agent_id` of its messages and memories, so `Memory.search`, `purge`
    and the rest reach them; facts that an `add` finds never change them.

    Args:
        memory: Where it is kept.
        role_id: The role; `None` until `recover_memory` names it.
        watch: Causes of the messages that become memories: names or classes; `None`: all messages of people and models.
        threshold: Least calibrated cosine, 0 to 1, at which two messages are similar. MetaGPT's 0.1 (squared distance) is 0.95.
        ttl: How long a memory is found; `None` for ever. The log keeps the message.
        ignore_id: See `WorkingMemory`.
        user_id: The user; each user and *run_id* has a separate log and separate memories.

    Raises:
        InvalidInputError: *threshold* is not from 0 to 1, or *ttl* no length of time.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> from langmem_adapter import Memory
        >>> from langmem_adapter.conversation import LongTermMemory
        >>> memory = Memory(":memory:")
        >>> role = LongTermMemory(memory, "engineer", user_id="alice")
        >>> role.recover_memory("engineer").first
        True
        >>> role.add(HumanMessage("Write a command line snake game", id="1"))
        True
        >>> news = role.find_news([HumanMessage("write a command line snake game!", id="2")])
        >>> list(news), news.seen[0].why
        ([], 'similar')
        >>> memory.close()
    """

    def __init__(
        self,
        memory: Memory,
        role_id: str | None = None,
        *,
        watch: Iterable[object] | None = None,
        threshold: float = 0.95,
        ttl: timedelta | None = MONTH,
        ignore_id: bool = False,
        user_id: str | None = None,
        run_id: str | None = None,
    ) -> None:
        super().__init__(ignore_id=ignore_id, watch=watch, memory=memory)
        if ttl is not None and (not isinstance(ttl, timedelta) or not timedelta() < ttl <= _LONGEST):
            raise InvalidInputError(
                f"ttl is a timedelta, how long a memory is found, up to a thousand years, or None; not {quoted(ttl)}"
            )
        self._parts = parts_of(memory, "LongTermMemory")
        self._memory = memory
        self._threshold = likeness(threshold)
        self._ttl = ttl
        self._scope_of = partial(Scope, user_id=user_id, run_id=run_id)
        self._role: Scope | None = None
        if role_id is not None:
            self._set_role(role_id)

    @property
    def is_initialized(self) -> bool:
        """Whether the role is named."""
        return self._role is not None

    @planned
    def recover_memory(self, role_id: str, watch: Iterable[object] | None = None) -> Plan[Recovered]:
        """Go on as this role, with other causes to watch or the present ones; nothing is read or embedded again yet."""
        self._set_role(role_id)
        self.watch = self.watch if watch is None else parse_causes(watch)
        return self._read(lambda log: log.count()).then(lambda number: Recovered(not number, number))

    arecover_memory = awaited(recover_memory)

    @planned
    def persist(self) -> Plan[None]:
        """Write the files of the vector index now. Messages and memories need none of it: each `add` is on disk."""
        return Plan(self._parts.indexer.write_segment).then(lambda _: None)

    apersist = awaited(persist)

    @planned
    def clean(self) -> Plan[None]:
        """`clear`, and forget the role; `Memory.purge(agent_id=...)` erases histories, too."""
        return self._write(self._clear).then(lambda _: setattr(self, "_role", None))

    aclean = awaited(clean)

    @planned
    def find_news(self, observed: Sequence[BaseMessage], k: int = 0, *, limit: int | None = None) -> Plan[News]:
        """Those of some messages that are neither in the log nor like a remembered one; nothing is kept.

        Only what would be remembered is compared by meaning, so that a "yes" elsewhere is no repetition.

        Args:
            observed: The messages.
            k: Look among the latest so many messages of the log only; 0 for all. Memories are always compared.
            limit: At most so much news, the first of it; `None` for all.
        """
        messages, most = each_of(observed, "observed"), None if limit is None else bounded(limit, "limit")
        news = self._find_news(messages, named_drafts(messages), number_of(k, "k"))
        return news.then(lambda news: news if most is None else News(news[:most], news.seen, news[most:]))

    afind_news = awaited(find_news)  # type: ignore[arg-type]  # mypy takes `self` from the base class

    @planned
    def search_similar(self, message: BaseMessage | str, k: int = 4) -> Plan[list[Similar]]:
        """The remembered messages that are as near as the threshold says, nearest first, at most *k*."""
        text = filled(message.text if isinstance(message, BaseMessage) else message, "message")
        return self._find_similar([text], bounded(k)).then(lambda similar: similar[0])

    asearch_similar = awaited(search_similar)

    @planned
    def context(self, k: int = 20, *, query: str | None = None, recalled: int = 5) -> Plan[list[BaseMessage]]:
        """Messages for a model, oldest first: the latest, and before them earlier ones that are remembered.

        Args:
            k: How many of the latest; 0 for all.
            query: What to recall for; by default the last message, where a person says it.
            recalled: How many earlier messages to recall.
        """
        return self._context(number_of(k, "k"), query, bounded(recalled, "recalled"))

    acontext = awaited(context)

    @property
    def _scope(self) -> Scope:
        if self._role is None:
            raise InvalidInputError("no role is named; call recover_memory(role_id) first")
        return self._role

    def _set_role(self, role_id: str) -> None:
        self._role = self._scope_of(agent_id=filled(role_id, "role_id"))

    def _where(self) -> Conversation:
        return Conversation(self._conversation.session, self._scope)

    @_pinned
    def _add_all(self, messages: Sequence[BaseMessage]) -> Plan[list[Draft]]:
        named = named_drafts(messages)
        drafts = [replace(draft, memory_id=str(uuid4())) if self._is_watched(draft) else draft for draft in named]
        new = self._read(lambda log: [drafts[place] for place in self._new_places(log, drafts)])
        return new.and_then(self._write_new)

    def _write_new(self, new: list[Draft]) -> Plan[list[Draft]]:
        texts = [draft.text for draft in new if draft.memory_id]
        carry_out = self._parts.ledger.within(texts)

        def write(vectors: Any) -> Plan[list[Draft]]:
            return self._write(partial(self._add_remembered, new, dict(zip(texts, vectors, strict=True)), carry_out))

        return self._vectors(texts).and_then(write)

    def _add_remembered(
        self, drafts: list[Draft], vectors: dict[str, UnitVectors], carry_out: Callable[..., object], log: Any
    ) -> list[Draft]:
        # Contract: what another process has added since it was looked up is not added again: the write lock is held here.
        # tests/conversation/test_long_term.py::test_h23_two_processes_that_add_the_same_keep_it_once.
        new = self._add_new(drafts, log)
        if decisions := tuple(self._decision(draft) for draft in new if draft.memory_id):
            carry_out(log.connection, Write(decisions, scope=self._scope, vectors=vectors))
        return new

    def _is_watched(self, draft: Draft) -> bool:
        is_watched = draft.role in _SPOKEN if self.watch is None else draft.cause in self.watch
        return is_watched and bool(draft.text.strip())

    def _decision(self, draft: Draft) -> Decision:
        metadata = {"cause_by": draft.cause, "sent_from": draft.sender}
        return Decision(
            "ADD",
            draft.memory_id,
            draft.text,
            "said to the role",
            metadata={name: value for name, value in metadata.items() if value is not None},
            memory_type=MESSAGE,
            actor_id=draft.label,
            role=speaker_label(draft.role),
            expires_at=None if self._ttl is None else datetime.now(UTC) + self._ttl,
            keep_expiry=False,
        )

    def _remove(self, log: Any, turns: Sequence[StoredTurn]) -> None:
        super()._remove(log, turns)
        self._forget(log, turns)

    def _clear(self, log: Any) -> None:
        self._forget(log, log.read())
        super()._clear(log)  # at once: there may be more turns than a database takes positions

    def _forget(self, log: Any, turns: Sequence[StoredTurn]) -> None:
        ids = [turn.memory_id for turn in turns if turn.memory_id is not None]
        current = memories.sequence_numbers(log.connection, ids)
        if present := [id_ for id_ in ids if id_ in current]:
            decisions = (Decision("DELETE", id_, None, "its message was deleted") for id_ in present)
            self._parts.ledger.within()(log.connection, Write(tuple(decisions)))

    @_pinned
    def _find_news(self, messages: list[BaseMessage], drafts: list[Draft], window: int) -> Plan[News]:
        def compare(new: list[int]) -> Plan[News]:
            seen = [Seen(message, "exact") for place, message in enumerate(messages) if place not in {*new}]
            compared = [place for place in new if self._is_watched(drafts[place])]

            def judge(similar: list[list[Similar]]) -> News:
                like = {place: near[0] for place, near in zip(compared, similar, strict=True) if near}
                similar_ones = [Seen(messages[place], "similar", near) for place, near in like.items()]
                return News([messages[place] for place in new if place not in like], [*seen, *similar_ones])

            return self._find_similar([drafts[place].text for place in compared], 1).then(judge)

        return self._read(lambda log: self._new_places(log, drafts, window)).and_then(compare)

    @_pinned
    def _find_similar(self, texts: list[str], k: int) -> Plan[list[list[Similar]]]:
        if not texts:
            return Plan.of([])
        alike = partial(self._parts.searcher.alike, texts, memory_type=MESSAGE, threshold=self._threshold)

        def find(vectors: Any, most: int = k) -> list[list[Similar]]:
            hits = alike(vectors, self._scope, k=most)
            messages = self._messages_of({memory_id for near in hits for memory_id, _ in near})
            own = [[Similar(messages[id_], score) for id_, score in near if id_ in messages][:k] for near in hits]
            # Hits of other scopes within this one, or of no log any more, must not take the places of the log's own.
            is_full = all(len(each) == k or len(near) < most for each, near in zip(own, hits, strict=True))
            return own if is_full else find(vectors, _WIDER * most)

        return self._vectors(texts).and_then(lambda vectors: Plan(partial(find, vectors)))

    def _vectors(self, texts: list[str]) -> Plan[Any]:
        return Plan.calling(self._parts.embedder.vectors, self._parts.embedder.avectors, texts)

    def _messages_of(self, memory_ids: Iterable[str], before: int | None = None) -> dict[str, BaseMessage]:
        """The messages of some memories, oldest first."""
        ids = [*memory_ids]

        def read(log: Any) -> list[StoredTurn]:
            chunks = [ids[start : start + _CHUNK] for start in range(0, len(ids), _CHUNK)]
            return [turn for chunk in chunks for turn in log.read(TurnFilter(memory_ids=chunk, before=before))]

        turns = sorted(self._read(read).run(), key=attrgetter("position"))
        return {str(turn.memory_id): message for turn, message in zip(turns, messages_of(turns), strict=True)}

    @_pinned
    def _context(self, window: int, query: str | None, most: int) -> Plan[list[BaseMessage]]:
        def add_earlier(turns: list[StoredTurn]) -> Plan[list[BaseMessage]]:
            recent = messages_of(turns)
            if not window or len(turns) < window:
                return Plan.of(recent)
            text = query or (recent[-1].text if isinstance(recent[-1], HumanMessage) else "")
            if not text.strip():
                return Plan.of(recent)
            # As many more as the latest could take of it: so the best earlier ones are among them, whatever they take.
            earlier = self._recall_earlier(text, turns[0].position, most, most + len(turns))
            return earlier.then(lambda earlier: [*earlier, *recent])

        return self._read(lambda log: log.read(TurnFilter(last=window or None))).and_then(add_earlier)

    def _recall_earlier(self, text: str, before: int, most: int, k: int) -> Plan[list[BaseMessage]]:
        k = min(k, _MOST)
        options: dict[str, Any] = {"k": k, "memory_type": MESSAGE, **self._scope.named}

        def select(ids: list[str]) -> list[BaseMessage]:
            messages = self._messages_of(ids, before)
            best = [memory_id for memory_id in ids if memory_id in messages][:most]
            return [message for memory_id, message in messages.items() if memory_id in best]

        def widen(hits: Sequence[Hit]) -> Plan[list[BaseMessage]]:
            earlier = Plan(partial(select, [hit.id for hit in hits]))
            if len(hits) < k or k == _MOST:
                return earlier
            wider = partial(self._recall_earlier, text, before, most, _WIDER * k)  # as in `_find_similar`
            return earlier.and_then(lambda messages: Plan.of(messages) if len(messages) == most else wider())

        return Plan.calling(self._memory.search, self._memory.asearch, text, **options).and_then(widen)
