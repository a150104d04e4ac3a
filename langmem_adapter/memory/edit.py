"""Editing memories by hand: update, delete, restore, purge."""

from __future__ import annotations

from functools import partial
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Final, Unpack

from langmem_adapter.arguments import each_of, filled, memory_id_of, optional_scope, parse_time
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.memory.parts import MemoryMixin, each_or_refused
from langmem_adapter.records.checks import check_metadata, parse_timezone
from langmem_adapter.records.results import Decision
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope
from langmem_adapter.storage import memories
from langmem_adapter.storage.write import Write
from langmem_adapter.tracing import CHANGED, CHANGED_EACH, COUNTED, Operation, Tally
from langmem_adapter.twins import Plan, arguments_of, awaited, planned

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, tzinfo

    from sqlalchemy import Connection

    from langmem_adapter.records.results import Change
    from langmem_adapter.records.scope import ScopeArguments
    from langmem_adapter.storage.erasure import Erasure


class EditMethods(MemoryMixin):
    """The methods of `Memory` that edit and erase."""

    @planned
    def update(
        self,
        memory_id: str,
        text: str | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
        expires_at: datetime | str | EllipsisType | None = ...,
        **fields: Unpack[ScopeArguments],
    ) -> Plan[Change]:
        """Change a memory by hand; the new text is true from now on.

        Args:
            memory_id: Its id.
            text: The new text; `None` keeps it.
            metadata: Keys to merge into its metadata; a value of `None` removes a key.
            expires_at: When it expires; `None` never. Without it the expiry stays.

        Raises:
            InvalidInputError: There is nothing to change, the text is longer than the setting `max_text`, or
                an argument cannot be used.
        """
        zone, within = parse_timezone(self.parts.settings.timezone), optional_scope(fields)
        write = _updating(zone, memory_id, text=text, metadata=metadata, expires_at=expires_at, within=within)
        operation = Operation("update_memory", write.within, memory_id)
        return self.parts.telemetry.observed(self.parts.edit(lambda: write), operation, CHANGED)

    aupdate = awaited(update)

    @planned
    def update_many(self, items: Sequence[Mapping[str, Any]]) -> Plan[list[Change | Exception]]:
        """Change many memories by hand in one commit; each succeeds or fails separately.

        Args:
            items: Each a mapping of `update`'s arguments.

        Returns:
            For each item, in order, its change or its error.

        Example:
            >>> from langmem_adapter import Memory
            >>> memory = Memory(":memory:")
            >>> tea = memory.add("I like tea.", user_id="bob").results[0].id
            >>> changed, unknown = memory.update_many(
            ...     [{"memory_id": tea, "text": "Likes green tea"}, {"memory_id": "?", "text": "x"}]
            ... )
            >>> changed.text, type(unknown).__name__
            ('Likes green tea', 'MemoryNotFoundError')
            >>> memory.close()
        """
        read = partial(_updating_item, parse_timezone(self.parts.settings.timezone))
        plan = self.parts.edit_each(each_or_refused("update_many", read, each_of(items, "items")))
        return self.parts.telemetry.observed(plan, Operation("update_memory"), CHANGED_EACH)

    aupdate_many = awaited(update_many)

    @planned
    def delete(self, memory_id: str, **fields: Unpack[ScopeArguments]) -> Plan[Change]:
        """Delete a memory. Its history stays; `restore` brings it back."""
        write = _deleting(optional_scope(fields), memory_id)
        operation = Operation("delete_memory", write.within, memory_id)
        return self.parts.telemetry.observed(self.parts.edit(lambda: write), operation, CHANGED)

    adelete = awaited(delete)

    @planned
    def delete_many(
        self, memory_ids: Sequence[str], **fields: Unpack[ScopeArguments]
    ) -> Plan[list[Change | Exception]]:
        """Delete many memories in one commit; each succeeds or fails separately. Their history stays.

        Args:
            memory_ids: Their ids.

        Returns:
            For each id, in order, its change or its error.
        """
        scope = optional_scope(fields)
        writes = each_or_refused("delete_many", partial(_deleting, scope), each_of(memory_ids, "memory_ids"))
        plan = self.parts.edit_each(writes)
        return self.parts.telemetry.observed(plan, Operation("delete_memory", scope), CHANGED_EACH)

    adelete_many = awaited(delete_many)

    @planned
    def delete_all(self, **fields: Unpack[ScopeArguments]) -> Plan[int]:
        """Delete every memory of a scope, in one transaction; their history stays.

        Returns:
            How many there were.
        """
        scope, ledger = Scope(**fields), self.parts.ledger
        reason = "all of its scope was deleted by hand"
        plan = Plan.calling(ledger.delete_all, ledger.adelete_all, scope, reason=reason)
        return self.parts.telemetry.observed(plan, Operation("delete_memory", scope), COUNTED)

    adelete_all = awaited(delete_all)

    @planned
    def restore(self, memory_id: str, revision: int, **fields: Unpack[ScopeArguments]) -> Plan[Change]:
        """Set a memory back to an earlier revision, also after its deletion, as a new revision.

        A statement that was already over when it was added exists only in the past; restoring revision 1 makes it current.

        Args:
            memory_id: Its id.
            revision: Which of its revisions, from 1.

        Raises:
            InvalidInputError: It has no such revision, or that revision is its deletion.
            ConflictError: Another writer changed, restored or erased it at the same time.
        """
        scope = optional_scope(fields)
        plan = self.parts.edit(partial(self.parts.reading, _restoring, memory_id_of(memory_id), revision, scope))
        return self.parts.telemetry.observed(plan, Operation("update_memory", scope, memory_id), CHANGED)

    arestore = awaited(restore)

    @planned
    def purge(self, **fields: Unpack[ScopeArguments]) -> Plan[Erasure]:
        """Erase a scope: memories, vectors, history, the graph, traces, conversations, jobs, API keys and names.

        LangGraph threads (checkpoints) and store items have no scope, so they stay. Erase those of a user first, with
        `saver.delete_thread(id)` and `store.delete(namespace, key)`.

        Nothing can be restored. Afterwards no file of the database contains a byte of it: the write-ahead log is emptied, an
        SQLite file is rewritten (this takes the time and the space of a copy, while writers wait), index files are replaced.
        Messages that a background writer still holds, and adds of other processes at this moment, come after the purge and
        stay; a job of the server does not.

        Returns:
            What was removed, and what remains: another process still reads it, or a file could not be cleaned.

        Example:
            >>> from langmem_adapter import Memory
            >>> memory = Memory(":memory:")
            >>> change = memory.add("I live in Lyon.", user_id="alice").results[0]
            >>> memory.purge(user_id="alice").revisions, memory.purge(user_id="alice").revisions
            (1, 0)
            >>> memory.close()
        """
        scope = Scope(**fields)
        plan = Plan.in_new_thread(partial(self.parts.erase, scope))
        return self.parts.telemetry.observed(plan, Operation("delete_memory", scope), _ERASED)

    apurge = awaited(purge)

    @planned
    def reset(self) -> Plan[Erasure]:
        """Erase every scope, as `purge` does for one, and all LangGraph threads and store items.

        Returns:
            What was removed.
        """
        return self.parts.telemetry.observed(
            Plan.in_new_thread(partial(self.parts.erase, None)), Operation("delete_memory"), _ERASED
        )

    areset = awaited(reset)

    @planned
    def sweep(self) -> Plan[int]:
        """Delete every expired memory; their history stays.

        This also happens automatically, when a memory is opened and with its writes: see `Settings.sweep_minutes`.

        Returns:
            How many there were.
        """
        return Plan.in_new_thread(self.parts.sweeper.sweep)

    asweep = awaited(sweep)


_ERASED: Final[Tally[Erasure]] = Tally(count=lambda erased: erased.memories)
_UPDATE: Final = frozenset(("memory_id", "text", "metadata", "expires_at", *SCOPE_FIELDS))


def _updating(
    zone: tzinfo | None,
    memory_id: object,
    *,
    text: object = None,
    metadata: object = None,
    expires_at: object = ...,
    within: Scope | None,
) -> Write:
    keeps = isinstance(expires_at, EllipsisType)
    if text is None and metadata is None and keeps:
        raise InvalidInputError("nothing to change: give a text, metadata or expires_at")
    decision = Decision(
        event="UPDATE",
        memory_id=memory_id_of(memory_id),
        text=None if text is None else filled(text, "text"),
        reason="edited by hand",
        metadata=None if metadata is None else check_metadata(metadata),
        expires_at=None if keeps or expires_at is None else parse_time(expires_at, "expires_at", zone),
        keep_expiry=keeps,
    )
    return Write((decision,), within=within)


def _updating_item(zone: tzinfo | None, item: object) -> Write:
    arguments = dict(arguments_of(item, "update", _UPDATE))
    fields = {name: arguments.pop(name, None) for name in SCOPE_FIELDS}
    return _updating(zone, arguments.pop("memory_id", None), **arguments, within=optional_scope(fields))


def _deleting(within: Scope | None, memory_id: object) -> Write:
    return Write((Decision("DELETE", memory_id_of(memory_id), None, "deleted by hand"),), within=within)


def _restoring(connection: Connection, memory_id: str, revision: int, within: Scope | None) -> Write:
    row, scope, last = memories.past(connection, memory_id, revision, within)
    current = memories.sequence_numbers(connection, [memory_id])
    if row.new_memory is None:
        raise InvalidInputError(f"revision {revision} of memory {memory_id} is its deletion; use delete()")
    seen = current.get(memory_id, last)
    decision = memories.restored(row, "UPDATE" if current else "ADD", f"restored from revision {revision}", seen=seen)
    return Write((decision,), scope=scope, within=within)
