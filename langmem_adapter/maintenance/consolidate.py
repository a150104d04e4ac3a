"""Consolidation of memories: duplicates become one, and those that a later one contradicts are deleted.

An `add` compares each new fact with memories; texts stored verbatim, imported or edited by hand are not compared. Here each
memory, oldest first, is compared with the older ones of its exact scope by the reasoner of the pipeline. A duplicate is
deleted, with that reason in its history; the memory that stays takes over missing metadata and the later expiry.
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

_PAGE: Final = 1_000


@dataclass(frozen=True, slots=True)
class Tidied:
    """The result for one memory, or for several, added up with `+`.

    Attributes:
        changes: The changes, in a dry run those that would be made.
        compared: Memories that were compared with older ones.
        skipped: Ids of memories that changed meanwhile, or for which the chat model's reply could not be used; the next run
            compares them.
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
        return Tidied(
            self.changes + other.changes,
            self.compared + other.compared,
            self.skipped + other.skipped,
            self.usage + other.usage,
        )


@dataclass(frozen=True, slots=True)
class _Version:
    item: MemoryItem
    seq: int
    excerpt: str = ""


class Tidier:
    """Tidies a memory, one item at a time, each in one transaction; an item that changed meanwhile is skipped.

    It may run beside everything else and be stopped at any moment. A second run over the same scope finds nothing to do, as
    far as the reasoner judges alike.

    Args:
        memory: The memory, with its reasoner and its setting `candidate_tokens`.

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
        """The memories to go through, oldest statement first; records and texts in the user's own words are none."""
        items = sorted(self._all(scope), key=lambda item: (item.updated_at, item.created_at))
        return [item.id for item in items if item.memory_type is None and not item.is_verbatim]

    def tidy(self, memory_id: str, within: Scope, *, dry_run: bool = False, without: Collection[str] = ()) -> Tidied:
        """Compare one memory with older ones, as an add compares a fact, and apply the decisions."""
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
            return Tidied(_planned_changes(decisions, [new, *older]), 1, (), answer.usage)
        try:
            return Tidied(self._apply(decisions, new.item.scope), 1, (), answer.usage)
        except (ConflictError, MemoryNotFoundError):
            return Tidied((), 1, (memory_id,), answer.usage)

    def _all(self, scope: Scope) -> Iterator[MemoryItem]:
        named: dict[str, Any] = scope.named
        after: str | None = ""
        while after is not None:
            page = self._memory.get_all(k=_PAGE, after=after or None, **named)
            yield from page
            after = page.next

    def _look(self, memory_id: str, within: Scope, without: Collection[str]) -> tuple[_Version | None, list[_Version]]:
        """The memory and the older ones that it is compared with; no memory where it is gone, or lies elsewhere."""
        seen = {} if memory_id in without else self._seen([memory_id])
        if memory_id not in seen or not within.covers(seen[memory_id].item.scope):
            return None, []
        item = seen[memory_id].item
        tokens = self._parts.settings.candidate_tokens
        hood = self._parts.searcher.neighbours([item.text], item.scope, tokens=tokens)
        texts = {each.id: each.text for each in hood.known if each.id not in without}
        seen = self._seen([memory_id, *texts])
        others = [replace(seen[each], excerpt=text) for each, text in texts.items() if each in seen]
        return seen.get(memory_id), [each for each in others if _is_older(each.item, item)]

    def _seen(self, ids: Sequence[str]) -> dict[str, _Version]:
        with self._parts.database.read() as connection:  # one look: a text and the number of its last change
            numbers = memories.sequence_numbers(connection, ids)
            return {each: _Version(memories.get(connection, each), seq) for each, seq in numbers.items()}

    def _judge(self, item: MemoryItem, older: Sequence[_Version]) -> DecideOutput:
        for number, each in enumerate(older):
            if each.item.hash == item.hash:
                return DecideOutput((FactDecision("NONE", item.text, "the same words as an older memory", 0, number),))
        candidates = tuple(KnownMemory(number, each.excerpt) for number, each in enumerate(older))
        comparison = Comparison((Fact(item.text, 0),), candidates)
        return self._parts.reasoner.decide.invoke(comparison, {"run_name": "memory.consolidate"})

    def _apply(self, decisions: Sequence[Decision], scope: Scope) -> tuple[Change, ...]:
        if not decisions:
            return ()
        texts = [decision.text for decision in decisions if decision.event == "UPDATE" and decision.text is not None]
        vectors = dict(zip(texts, self._parts.embedder.vectors(texts), strict=True))
        changes = self._parts.ledger.apply(Write(tuple(decisions), within=scope, vectors=vectors))
        return tuple(change for change in changes if change.event != "NONE")


def _is_older(other: MemoryItem, item: MemoryItem) -> bool:
    """Whether the other one is older, of the same scope, type and speaker."""
    keys = [
        (each.scope, each.memory_type, entity_key(named_speaker(each.actor_id, each.role, each.scope)))
        for each in (other, item)
    ]
    return keys[0] == keys[1] and (other.updated_at, other.id) < (item.updated_at, item.id)


def _decisions(new: _Version, older: Sequence[_Version], verdicts: Sequence[FactDecision]) -> list[Decision]:
    """The decisions; a text that was shown in part is not rewritten."""
    made: list[Decision] = []
    for verdict in verdicts:
        if verdict.number is None or verdict.event == "ADD":  # it states something new
            continue
        reason, other = f"consolidated: {verdict.reason}", older[verdict.number]
        if verdict.event == "UPDATE" and other.excerpt != other.item.text:
            continue
        if verdict.event == "DELETE":
            made.append(Decision("DELETE", other.item.id, None, reason, time=new.item.updated_at, seen=other.seq))
            continue
        merged = _merged(other, new.item, verdict.text if verdict.event == "UPDATE" else None, reason)
        made += [merged, Decision("DELETE", new.item.id, None, reason, seen=new.seq, successor_id=other.item.id)]
    return list({decision.memory_id: decision for decision in made}.values())


def _merged(other: _Version, duplicate: MemoryItem, text: str | None, reason: str) -> Decision:
    """The update of the memory that stays. Where it has everything: NONE, which still fails if it changed."""
    item = other.item
    lacking = {key: value for key, value in duplicate.metadata.items() if key not in item.metadata}
    ends = [item.expires_at, duplicate.expires_at]
    expires_at = None if None in ends else max(end for end in ends if end is not None)
    if (text is None or text == item.text) and not lacking and expires_at == item.expires_at:
        return Decision("NONE", item.id, item.text, reason, seen=other.seq)
    changed = Decision(
        "UPDATE", item.id, text, reason, metadata=lacking or None, time=duplicate.updated_at, seen=other.seq
    )
    return replace(changed, expires_at=expires_at, keep_expiry=False)


def _planned_changes(decisions: Sequence[Decision], seen: Sequence[_Version]) -> tuple[Change, ...]:
    texts = {each.item.id: each.item.text for each in seen}
    changes = []
    for each in decisions:
        if each.memory_id is not None and each.event != "NONE":
            text = texts[each.memory_id]
            before = text if each.event == "UPDATE" else None
            changes.append(Change(each.memory_id, each.text or text, each.event, before, each.reason))
    return tuple(changes)
