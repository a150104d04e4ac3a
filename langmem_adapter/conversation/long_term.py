"""Long-term memory of a role: what it watches is remembered for good, beside the log of all that was said.

After MetaGPT's `LongTermMemory` and `MemoryStorage` (seed 002 §2.3), which say themselves that they are not finished. Here the
message and its memory are written in one transaction, so that there is nothing to persist and nothing to lose; the memory is
one of the database's own (`memory_type="message"`), embedded by its model and found by its index.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, Final, Literal, NamedTuple, ParamSpec, TypeVar
from uuid import uuid4

from langchain_core.messages import BaseMessage, HumanMessage

from langmem_adapter.arguments import bounded, each_of, filled, likeness
from langmem_adapter.conversation.working import WorkingMemory, causes_of, named_drafts, number_of
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.memory.parts import parts_of
from langmem_adapter.records.checks import quoted
from langmem_adapter.records.envelope import speaker_label
from langmem_adapter.records.results import MESSAGE, Decision
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage import memories
from langmem_adapter.storage.conversations import Conversation, Which, messages_of
from langmem_adapter.storage.writes import Write
from langmem_adapter.twins import Plan, awaited, planned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from langmem_adapter.embedding.embedder import UnitVectors
    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.records.results import Hit
    from langmem_adapter.storage.conversations import Draft, StoredTurn

P = ParamSpec("P")
R = TypeVar("R")

MONTH: Final = timedelta(days=30)
_LONGEST: Final = timedelta(days=365_000)
_CHUNK: Final = 500
_MOST: Final = 10_000
_WIDER: Final = 4
_SAID: Final = frozenset({"human", "ai", "chat", "AIMessageChunk", "HumanMessageChunk"})


class Recovered(NamedTuple):
    """What a role finds when it begins.

    Attributes:
        first: Whether it is the first time.
        messages: How many messages there are.
    """

    first: bool
    messages: int


class Similar(NamedTuple):
    """A message that is remembered, and how near it lies.

    Attributes:
        message: The message.
        cosine: Calibrated, of its vector and that of what was asked: 0 where they have nothing in common, 1 if equal.
    """

    message: BaseMessage
    cosine: float


class Seen(NamedTuple):
    """Why a message is no news.

    Attributes:
        message: The message that was observed.
        why: `"exact"`: it is in the log; `"similar"`: a remembered one lies near.
        like: That one.
    """

    message: BaseMessage
    why: Literal["exact", "similar"]
    like: Similar | None = None


class News(list[BaseMessage]):
    """The messages that are news, in their order.

    Attributes:
        seen: The others, each with the reason.
        later: What is news as well, beyond the limit.
    """

    def __init__(
        self, new: Iterable[BaseMessage] = (), seen: Sequence[Seen] = (), later: Sequence[BaseMessage] = ()
    ) -> None:
        super().__init__(new)
        self.seen = tuple(seen)
        self.later = tuple(later)


def _pinned(
    plan: Callable[Concatenate[LongTermMemory, P], Plan[R]],
) -> Callable[Concatenate[LongTermMemory, P], Plan[R]]:
    """The plan for the role of now.

    Contract: what began for a role ends with it, whichever `recover_memory` takes meanwhile: a copy does it.
    tests/conversation/test_long_term.py::test_what_is_under_way_stays_with_the_role_that_it_began_for.
    """

    def pinned(self: LongTermMemory, /, *args: P.args, **kwargs: P.kwargs) -> Plan[R]:
        return plan(copy(self), *args, **kwargs)

    return pinned


class LongTermMemory(WorkingMemory):
    """The log of a role; what it watches becomes a memory as well, found by meaning when it is long out of sight.

    Every operation of `WorkingMemory` is here too. The role is the `agent_id` of its messages and memories, so `Memory.search`,
    `purge` and the rest reach them; facts that an `add` finds never change them.

    Args:
        memory: Where it is kept.
        role_id: Whose memory; `None` until `recover_memory` says it.
        watch: Causes whose messages are remembered for good: names or classes; `None`: whatever people and models say.
        threshold: Least calibrated cosine, 0 to 1, at which two messages are similar. MetaGPT's .1 (squared distance) is .95.
        ttl: How long a memory is found; `None` for ever. The log keeps the message.
        ignore_id: See `WorkingMemory`.
        user_id: Whose role it is.
        run_id: The run; each has a log and memories of its own.

    Raises:
        InvalidInputError: *threshold* is not from 0 to 1, or *ttl* no length of time.
        ScopeError: A field of the scope is blank.

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
        self._whose = partial(Scope, user_id=user_id, run_id=run_id)
        self._role: Scope | None = None
        if role_id is not None:
            self._take(role_id)

    @property
    def is_initialized(self) -> bool:
        """Whether it is known whose memory it is."""
        return self._role is not None

    @planned
    def recover_memory(self, role_id: str, watch: Iterable[object] | None = None) -> Plan[Recovered]:
        """Begin where this role stopped, whatever ended it; nothing is read or embedded again before it is asked for.

        Args:
            role_id: Whose memory; any text, it names no file.
            watch: Another choice of causes; `None` keeps the present one.

        Returns:
            Whether it is the first time, and how many messages there are.

        Raises:
            InvalidInputError: *role_id* is empty.
        """
        self._take(role_id)
        self.watch = self.watch if watch is None else causes_of(watch)
        return self._reading(lambda log: log.count()).then(lambda number: Recovered(not number, number))

    arecover_memory = awaited(recover_memory)

    @planned
    def persist(self) -> Plan[None]:
        """Write the files of the vector index now. Messages and memories need none of it: each `add` is on disk."""
        return Plan(self._parts.indexer.write_segment).then(lambda _: None)

    apersist = awaited(persist)

    @planned
    def clean(self) -> Plan[None]:
        """`clear`, and know no longer whose memory it is; `Memory.purge(agent_id=...)` erases histories, too."""
        return self._writing(self._clear).then(lambda _: setattr(self, "_role", None))

    aclean = awaited(clean)

    @planned
    def find_news(self, observed: Sequence[BaseMessage], k: int = 0, *, limit: int | None = None) -> Plan[News]:
        """Those of some messages that are neither in the log nor like anything remembered; nothing is kept.

        Only what would be remembered is compared by meaning, so that a "yes" elsewhere is no repetition.

        Args:
            observed: What was observed.
            k: Look among the latest so many messages of the log only; 0 for all. Memories are always looked at.
            limit: At most so much news, the first of it; `None` for all.

        Returns:
            The news, with why the others are none, and what is beyond the limit.

        Raises:
            InvalidInputError: An argument cannot be used, or it is not known yet whose memory it is.
            EmbeddingMismatchError: The database's vectors are of another model.
        """
        messages = each_of(observed, "observed")
        drafts = named_drafts(messages)
        most = None if limit is None else bounded(limit, "limit")
        return self._news(messages, drafts, number_of(k, "k")).then(partial(_cut, most=most))

    afind_news = awaited(find_news)  # type: ignore[arg-type]  # mypy takes `self` from the base class, whose name this is

    @planned
    def search_similar(self, message: BaseMessage | str, k: int = 4) -> Plan[list[Similar]]:
        """The remembered messages that are as near as the threshold says, nearest first.

        Args:
            message: A message, or a text.
            k: At most so many.

        Raises:
            InvalidInputError: An argument cannot be used, or it is not known yet whose memory it is.
            EmbeddingMismatchError: The database's vectors are of another model.
        """
        text = filled(message.text if isinstance(message, BaseMessage) else message, "message")
        return self._near([text], bounded(k)).then(lambda found: found[0])

    asearch_similar = awaited(search_similar)

    @planned
    def context(self, k: int = 20, *, query: str | None = None, recalled: int = 5) -> Plan[list[BaseMessage]]:
        """What to show a model: the latest messages, and before them what is remembered of the time before.

        Args:
            k: How many of the latest; 0 for all.
            query: What to recall for; by default the last message, where a person says it.
            recalled: How many to recall, none of them among the latest.

        Returns:
            Messages, oldest first, each once.

        Raises:
            InvalidInputError: An argument cannot be used, or it is not known yet whose memory it is.
        """
        return self._shown(number_of(k, "k"), query, bounded(recalled, "recalled"))

    acontext = awaited(context)

    @property
    def _scope(self) -> Scope:
        if self._role is None:
            raise InvalidInputError("it is not known whose memory this is; call recover_memory(role_id) first")
        return self._role

    def _take(self, role_id: str) -> None:
        self._role = self._whose(agent_id=filled(role_id, "role_id"))

    def _where(self) -> Conversation:
        return Conversation(self._conversation.session, self._scope)

    @_pinned
    def _adding(self, messages: Sequence[BaseMessage]) -> Plan[list[Draft]]:
        given = named_drafts(messages)
        drafts = [replace(draft, memory_id=str(uuid4())) if self._lasts(draft) else draft for draft in given]
        new = self._reading(lambda log: [drafts[place] for place in self._new(log, drafts)])
        return new.and_then(self._keeping)

    def _keeping(self, new: list[Draft]) -> Plan[list[Draft]]:
        texts = [draft.text for draft in new if draft.memory_id]
        carry_out = self._parts.ledger.within(texts)
        return self._vectors(texts).and_then(
            lambda found: self._writing(partial(self._keep, new, dict(zip(texts, found, strict=True)), carry_out))
        )

    def _keep(
        self, drafts: list[Draft], vectors: dict[str, UnitVectors], carry_out: Callable[..., object], log: Any
    ) -> list[Draft]:
        # Contract: what another process has added since it was looked up is not added again: the write lock is held here.
        # tests/conversation/test_long_term.py::test_h23_two_processes_that_add_the_same_keep_it_once.
        new = self._add(drafts, log)
        if lasting := tuple(self._decision(draft) for draft in new if draft.memory_id):
            carry_out(log.connection, Write(lasting, scope=self._scope, vectors=vectors))
        return new

    def _lasts(self, draft: Draft) -> bool:
        watched = draft.role in _SAID if self.watch is None else draft.cause in self.watch
        return watched and bool(draft.text.strip())

    def _decision(self, draft: Draft) -> Decision:
        expires_at = None if self._ttl is None else datetime.now(UTC) + self._ttl
        told = {"cause_by": draft.cause, "sent_from": draft.sender}
        return Decision(
            "ADD",
            draft.memory_id,
            draft.text,
            "said to the role",
            metadata={name: value for name, value in told.items() if value is not None},
            memory_type=MESSAGE,
            actor_id=draft.label,
            role=speaker_label(draft.role),
            expires_at=expires_at,
            keep_expiry=False,
        )

    def _take_out(self, log: Any, turns: Sequence[StoredTurn]) -> None:
        super()._take_out(log, turns)
        self._forget(log, turns)

    def _clear(self, log: Any) -> None:
        self._forget(log, log.read())
        super()._clear(log)  # at once: there may be more turns than a database takes positions

    def _forget(self, log: Any, turns: Sequence[StoredTurn]) -> None:
        ids = [turn.memory_id for turn in turns if turn.memory_id is not None]
        standing = memories.sequence_numbers(log.connection, ids)
        decisions = tuple(Decision("DELETE", each, None, "its message was deleted") for each in ids if each in standing)
        if decisions:
            self._parts.ledger.within()(log.connection, Write(decisions))

    @_pinned
    def _news(self, messages: list[BaseMessage], drafts: list[Draft], window: int) -> Plan[News]:
        unknown = self._reading(lambda log: self._new(log, drafts, window))
        return unknown.and_then(lambda new: self._judged(messages, drafts, new))

    def _judged(self, messages: list[BaseMessage], drafts: list[Draft], new: list[int]) -> Plan[News]:
        unknown = set(new)
        exact = [Seen(message, "exact") for place, message in enumerate(messages) if place not in unknown]
        compared = [place for place in new if self._lasts(drafts[place])]

        def judge(found: list[list[Similar]]) -> News:
            like = {place: near[0] for place, near in zip(compared, found, strict=True) if near}
            seen = [*exact, *(Seen(messages[place], "similar", near) for place, near in like.items())]
            return News([messages[place] for place in new if place not in like], seen)

        return self._near([drafts[place].text for place in compared], 1).then(judge)

    @_pinned
    def _near(self, texts: list[str], k: int) -> Plan[list[list[Similar]]]:
        if not texts:
            return Plan.known([])
        scope = self._scope

        def look_up(vectors: Any, most: int = k) -> list[list[Similar]]:
            found = self._parts.searcher.alike(
                texts, vectors, scope, memory_type=MESSAGE, k=most, threshold=self._threshold
            )
            said = self._said({memory_id for near in found for memory_id, _ in near})
            mine = [[Similar(said[each], score) for each, score in near if each in said][:k] for near in found]
            # What other scopes within this one remember, or nobody's log holds any more, must not take the places of its own.
            full = all(len(own) == k or len(near) < most for own, near in zip(mine, found, strict=True))
            return mine if full else look_up(vectors, _WIDER * most)

        return self._vectors(texts).and_then(lambda found: Plan(partial(look_up, found)))

    def _vectors(self, texts: list[str]) -> Plan[Any]:
        return Plan.calling(self._parts.embedder.vectors, self._parts.embedder.avectors, texts)

    def _said(self, memory_ids: Iterable[str], before: int | None = None) -> dict[str, BaseMessage]:
        """The messages of some memories, oldest first."""
        ids = [*memory_ids]

        def read(log: Any) -> list[StoredTurn]:
            parts = [ids[start : start + _CHUNK] for start in range(0, len(ids), _CHUNK)]
            found = [turn for part in parts for turn in log.read(Which(memory_ids=part, before=before))]
            return sorted(found, key=lambda turn: int(turn.position))

        turns: list[StoredTurn] = self._reading(read).run()
        return {str(turn.memory_id): message for turn, message in zip(turns, messages_of(turns), strict=True)}

    @_pinned
    def _shown(self, window: int, query: str | None, most: int) -> Plan[list[BaseMessage]]:
        def shown(turns: list[StoredTurn]) -> Plan[list[BaseMessage]]:
            recent = messages_of(turns)
            if not window or len(turns) < window:
                return Plan.known(recent)
            asked = query or (recent[-1].text if isinstance(recent[-1], HumanMessage) else "")
            return self._recalled(asked, turns, most, most + len(turns)).then(lambda found: [*found, *recent])

        return self._reading(lambda log: log.read(Which(last=window or None))).and_then(shown)

    def _recalled(self, text: str, recent: list[StoredTurn], most: int, k: int) -> Plan[list[BaseMessage]]:
        if not text.strip():
            return Plan.known([])
        # As many more as the latest could take of it: so the best of the time before are among them, whatever they take.
        k = min(k, _MOST)
        options: dict[str, Any] = {"k": k, "memory_type": MESSAGE, **self._scope.named}

        def enough(hits: Sequence[Hit]) -> Plan[list[BaseMessage]]:
            earlier = Plan(partial(self._earlier, [hit.id for hit in hits], recent[0].position, most))
            if len(hits) < k or k == _MOST:
                return earlier
            wider = partial(self._recalled, text, recent, most, _WIDER * k)  # as in `_near`
            return earlier.and_then(lambda said: Plan.known(said) if len(said) == most else wider())

        return Plan.calling(self._memory.search, self._memory.asearch, text, **options).and_then(enough)

    def _earlier(self, ids: list[str], before: int, most: int) -> list[BaseMessage]:
        said = self._said(ids, before)
        best = [memory_id for memory_id in ids if memory_id in said][:most]
        return [message for memory_id, message in said.items() if memory_id in best]


def _cut(news: News, most: int | None) -> News:
    return news if most is None else News(news[:most], news.seen, news[most:])
