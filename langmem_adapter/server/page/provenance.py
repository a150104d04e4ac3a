"""All that is known of one memory, read at once: what it says, how it came to that, who said so."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from langmem_adapter.diffs import Part, differences
from langmem_adapter.errors import MemoryNotFoundError
from langmem_adapter.storage import memories, traces
from langmem_adapter.storage.graph import reads
from langmem_adapter.storage.lexical import parted
from langmem_adapter.storage.past import item_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

    from langmem_adapter.records.graph import Relation
    from langmem_adapter.records.results import MemoryItem, Revision
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.records.work import Turn
    from langmem_adapter.storage.traces import Trace

__all__ = ["Life", "MemorySource", "Version", "life"]

_SHOWN: Final = 50
_BEFORE: Final = 2


@dataclass(frozen=True, slots=True)
class Version:
    """A step of a memory's life: what it changed of the text, the trace of its add, whether the memory can return to it."""

    revision: Revision
    parts: Sequence[Part]
    trace_id: str | None
    can_return: bool


@dataclass(frozen=True, slots=True)
class MemorySource:
    """Where what a revision of a memory says was said.

    Attributes:
        turns: What was said, the last of them being the one that says it; none without a trace.
        number: Which turn of the conversation that is, from 1, of so *many*.
        words: Without a trace: the words that were kept beside the memory, nearest first.
    """

    version: int
    trace_id: str | None = None
    turns: Sequence[Turn] = ()
    number: int = 0
    many: int = 0
    words: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Life:
    """What is known of one memory.

    Attributes:
        item: It as it stands, or stood last.
        deleted: Whether it was deleted; what neither stands nor was deleted was over when it was told.
        versions: Its steps, the newest first.
        older: The number before which there are more of them; `None` where these are all.
    """

    item: MemoryItem
    stands: bool
    deleted: bool
    versions: Sequence[Version]
    older: int | None
    source: MemorySource | None
    relations: Sequence[Relation]

    @property
    def expired(self) -> bool:
        """Whether it stands, but is past its time."""
        return self.stands and self.item.expires_at is not None and self.item.expires_at <= datetime.now(UTC)

    @property
    def returns_to(self) -> int | None:
        """The revision that a memory which does not stand comes back to; `None` where it is not among those shown."""
        return next((each.revision.revision for each in self.versions if each.can_return), None)


def life(connection: Connection, memory_id: str, scope: Scope | None, *, before: int | None = None) -> Life:
    """What is known of a memory, also of a deleted one, with its steps before a revision.

    Raises:
        MemoryNotFoundError: There never was such a memory, or it lies outside *scope*.
    """
    steps = memories.revisions(connection, memory_id, scope)
    item = _standing(connection, memory_id, scope)
    shown = [step for step in steps if before is None or step.revision < before][-_SHOWN:]
    by_moment = traces.of_changes(connection, memory_id, {step.created_at for step in shown}, scope)
    versions = [_version(step, by_moment, stands=item is not None and step is steps[-1]) for step in reversed(shown)]
    said = reads.of_memories(connection, [memory_id], reads.NOW).get(memory_id, ())
    return Life(
        item=item or _last(connection, steps[-1], scope),
        stands=item is not None,
        deleted=steps[-1].is_deleted,
        versions=versions,
        older=shown[0].revision if shown and shown[0] is not steps[0] else None,
        source=_source(connection, versions, scope),
        relations=list(reads.by_pks(connection, said).values()),
    )


def _standing(connection: Connection, memory_id: str, scope: Scope | None) -> MemoryItem | None:
    try:
        return memories.get(connection, memory_id, scope)
    except MemoryNotFoundError:
        return None


def _last(connection: Connection, step: Revision, scope: Scope | None) -> MemoryItem:
    """A memory as it was in the end."""
    row, _, _ = memories.past(connection, step.memory_id, step.revision, scope)
    return item_of(row, step.stated_at)


def _version(step: Revision, by_moment: Mapping[datetime, str], *, stands: bool) -> Version:
    return Version(
        revision=step,
        parts=differences(step.old_text or "", step.new_text or "") if step.old_text else (),
        trace_id=by_moment.get(step.created_at),
        can_return=step.new_text is not None and not stands,
    )


def _source(connection: Connection, versions: Sequence[Version], scope: Scope | None) -> MemorySource | None:
    """Where the newest of the steps shown that has a source has it."""
    telling = [each for each in versions if each.revision.new_text is not None]
    traced = next((each for each in telling if each.trace_id is not None), None)
    if traced is not None and traced.trace_id is not None:
        trace = traces.read(connection, traced.trace_id, scope)
        return _said(trace, traced.revision)
    if not telling:
        return None
    step = telling[0].revision
    row, _, _ = memories.past(connection, step.memory_id, step.revision, scope)
    words = parted(row.context)
    return MemorySource(step.revision, words=words) if words else None


def _said(trace: Trace, step: Revision) -> MemorySource:
    """The turn whose fact became this memory, and those right before it."""
    done = zip(trace.decisions, trace.result.results, strict=False)
    facts = [each.fact for each, change in done if change.id == step.memory_id and each.fact is not None]
    if not facts:  # a run of the same name that was repeated did something else
        return MemorySource(step.revision, trace.id)
    place = trace.facts[facts[-1]].turn
    own = [turn for turn in trace.turns if turn.item == trace.turns[place].item]
    number = own.index(trace.turns[place])
    told = own[max(0, number - _BEFORE) : number + 1]
    return MemorySource(step.revision, trace.id, told, number + 1, len(own))
