"""Tidying memories: those that say the same become one, those that a later one contradicts go.

An `add` compares each new fact with what is known, so a scope stays tidy by itself; what is stored as said, imported or edited
by hand does not. Here each memory, oldest first, is told once more to the older ones of its own exact scope, and the reasoner
that decides in the pipeline decides. A memory that another one says already is deleted, with that reason in its history; the
one that stays takes over metadata that it lacks, and lives as long as the longer-lived of the two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.errors import ConflictError, MemoryNotFoundError, ModelReplyError
from langmem_adapter.memory.parts import parts_of
from langmem_adapter.names import entity_key, named_speaker
from langmem_adapter.reasoning.base import Comparison, DecideOutput, FactDecision, KnownMemory
from langmem_adapter.records.results import FORGET, Change, Decision, Fact, Usage
from langmem_adapter.storage import memories
from langmem_adapter.storage.write import Write

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.records.results import MemoryItem
    from langmem_adapter.records.scope import Scope

__all__ = ["Tidied", "Tidier"]

_PAGE: Final = 1_000


@dataclass(frozen=True, slots=True)
class Tidied:
    """What became of one memory, or of several, added up with `+`.

    Attributes:
        changes: What was done, or would be.
        compared: Memories that had something older beside them.
        skipped: Ids of memories left as they are, because somebody changed them meanwhile, or the chat model's reply could not
            be used; the next run sees to them.
        usage: Model calls and tokens.
    """

    changes: tuple[Change, ...] = ()
    compared: int = 0
    skipped: tuple[str, ...] = ()
    usage: Usage = Usage()

    @property
    def ids(self) -> tuple[str, ...]:
        """The memories concerned."""
        return tuple(change.id for change in self.changes if change.id is not None)

    def __add__(self, other: Tidied) -> Tidied:
        """Both together."""
        return Tidied(
            self.changes + other.changes,
            self.compared + other.compared,
            self.skipped + other.skipped,
            self.usage + other.usage,
        )


@dataclass(frozen=True, slots=True)
class _Seen:
    item: MemoryItem
    seq: int
    shown: str = ""


class Tidier:
    """Tidies a memory, one item at a time; each in one transaction, which is given up where others were quicker.

    It may run beside everything else and be stopped at any moment. A second run over the same scope finds nothing to do, as
    far as the reasoner judges alike.

    Args:
        memory: Whose memories, whose reasoner and whose setting `candidate_tokens`.

    Example:
        >>> from langmem_adapter import Memory, Scope
        >>> memory = Memory(":memory:")
        >>> for said in ("Likes tea", "Lives in Lyon", "likes tea!"):
        ...     added = memory.add(said, user_id="alice", infer=False)
        >>> tidier, alice = Tidier(memory), Scope("alice")
        >>> done = sum((tidier.tidy(memory_id, alice) for memory_id in tidier.pending(alice)), Tidied())
        >>> [(change.event, change.text, change.reason) for change in done.changes]
        [('DELETE', 'likes tea!', 'consolidated: the same words as an older memory')]
        >>> memory.close()
    """

    def __init__(self, memory: Memory) -> None:
        self._parts = parts_of(memory, "Tidier")
        self._memory = memory

    def pending(self, scope: Scope) -> list[str]:
        """The memories to go through, oldest statement first; records and texts in the user's own words are none.

        Args:
            scope: The fields named must be equal; every exact scope within is tidied by itself.
        """
        told = sorted(self._all(scope), key=lambda item: (item.updated_at, item.created_at))
        return [item.id for item in told if item.memory_type is None and not item.is_verbatim]

    def tidy(self, memory_id: str, within: Scope, *, dry_run: bool = False, without: Collection[str] = ()) -> Tidied:
        """Compare one memory with older ones, as an add would compare a fact, and do what follows.

        Args:
            memory_id: The memory.
            within: A memory outside this scope is none, and nothing outside it is touched.
            dry_run: Say what would be done, and do nothing.
            without: Memories to leave out: those that a dry run has already dealt with.

        Raises:
            StorageError: The database failed.
        """
        new, older = self._look(memory_id, within, without)
        if new is None or not older or new.item.text.startswith(FORGET):
            return Tidied()
        try:
            answer = self._judge(new.item, older)
        except ModelReplyError:
            return Tidied((), 1, (memory_id,))
        if answer.notes:
            return Tidied((), 1, (memory_id,), answer.usage)
        decisions = _decisions(new, older, answer.decisions)
        if dry_run:
            return Tidied(_foretold(decisions, [new, *older]), 1, (), answer.usage)
        try:
            return Tidied(self._apply(decisions, new.item.scope), 1, (), answer.usage)
        except (ConflictError, MemoryNotFoundError):
            return Tidied((), 1, (memory_id,), answer.usage)

    def _all(self, scope: Scope) -> Iterator[MemoryItem]:
        named: dict[str, Any] = scope.named
        page = self._memory.get_all(k=_PAGE, **named)
        yield from page
        while page.next is not None:
            page = self._memory.get_all(k=_PAGE, after=page.next, **named)
            yield from page

    def _look(self, memory_id: str, within: Scope, without: Collection[str]) -> tuple[_Seen | None, list[_Seen]]:
        """The memory and the older ones that it is compared with; no memory where it is gone, or lies elsewhere."""
        seen = {} if memory_id in without else self._seen([memory_id])
        if memory_id not in seen or not within.covers(seen[memory_id].item.scope):
            return None, []
        item = seen[memory_id].item
        tokens = self._parts.settings.candidate_tokens
        hood = self._parts.searcher.neighbours([item.text], item.scope, tokens=tokens)
        texts = {known.id: known.text for known in hood.known if known.id not in without}
        seen = self._seen([memory_id, *texts])
        known = [replace(seen[each], shown=text) for each, text in texts.items() if each in seen]
        return seen.get(memory_id), [each for each in known if _is_older(each.item, item)]

    def _seen(self, ids: Sequence[str]) -> dict[str, _Seen]:
        with self._parts.database.read() as connection:  # one look: a text and the number of its last change
            numbers = memories.sequence_numbers(connection, ids)
            return {each: _Seen(memories.get(connection, each), seq) for each, seq in numbers.items()}

    def _judge(self, item: MemoryItem, older: Sequence[_Seen]) -> DecideOutput:
        for number, each in enumerate(older):
            if each.item.hash == item.hash:
                return DecideOutput((FactDecision("NONE", item.text, "the same words as an older memory", 0, number),))
        known = tuple(KnownMemory(number, each.shown) for number, each in enumerate(older))
        comparison = Comparison((Fact(item.text, 0),), known)
        return self._parts.reasoner.decide.invoke(comparison, {"run_name": "memory.consolidate"})

    def _apply(self, decisions: Sequence[Decision], scope: Scope) -> tuple[Change, ...]:
        if not decisions:
            return ()
        texts = [decision.text for decision in decisions if decision.event == "UPDATE" and decision.text is not None]
        vectors = dict(zip(texts, self._parts.embedder.vectors(texts), strict=True))
        changes = self._parts.ledger.apply(Write(tuple(decisions), within=scope, vectors=vectors))
        return tuple(change for change in changes if change.event != "NONE")


def _is_older(known: MemoryItem, item: MemoryItem) -> bool:
    same_place = (
        known.scope == item.scope and known.memory_type == item.memory_type and _said_by(known) == _said_by(item)
    )
    return same_place and (known.updated_at, known.id) < (item.updated_at, item.id)


def _said_by(item: MemoryItem) -> str:
    return entity_key(named_speaker(item.actor_id, item.role, item.scope))


def _decisions(new: _Seen, older: Sequence[_Seen], decisions: Sequence[FactDecision]) -> list[Decision]:
    """What follows; what was not shown whole is not rewritten."""
    made: list[Decision] = []
    for decision in decisions:
        if decision.number is None or decision.event == "ADD":  # it says something of its own
            continue
        reason, known = f"consolidated: {decision.reason}", older[decision.number]
        if decision.event == "UPDATE" and known.shown != known.item.text:
            continue
        if decision.event == "DELETE":
            made.append(Decision("DELETE", known.item.id, None, reason, time=new.item.updated_at, seen=known.seq))
            continue
        kept = _kept(known, new.item, decision.text if decision.event == "UPDATE" else None, reason)
        made += [kept, Decision("DELETE", new.item.id, None, reason, seen=new.seq, successor_id=known.item.id)]
    return list({decision.memory_id: decision for decision in made}.values())


def _kept(known: _Seen, gone: MemoryItem, text: str | None, reason: str) -> Decision:
    """What the memory that stays takes over from the one that goes. Where it has all: NONE, which still fails if it changed."""
    item = known.item
    lacking = {key: value for key, value in gone.metadata.items() if key not in item.metadata}
    ends = [item.expires_at, gone.expires_at]
    expires_at = None if None in ends else max(end for end in ends if end is not None)
    if (text is None or text == item.text) and not lacking and expires_at == item.expires_at:
        return Decision("NONE", item.id, item.text, reason, seen=known.seq)
    changed = Decision("UPDATE", item.id, text, reason, metadata=lacking or None, time=gone.updated_at, seen=known.seq)
    return replace(changed, expires_at=expires_at, keep_expiry=False)


def _foretold(decisions: Sequence[Decision], seen: Sequence[_Seen]) -> tuple[Change, ...]:
    texts = {each.item.id: each.item.text for each in seen}
    changes = []
    for each in decisions:
        if each.memory_id is not None and each.event != "NONE":
            text = texts[each.memory_id]
            before = text if each.event == "UPDATE" else None
            changes.append(Change(each.memory_id, each.text or text, each.event, before, each.reason))
    return tuple(changes)
