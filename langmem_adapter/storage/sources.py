"""Sources: which messages of a thread were remembered, and which memories came of each.

A scope, a thread and an id identify a message. Two digests are stored instead of its text: of what was remembered, and of what
came in. A middleware may redact a message before it is remembered, and a client may send the first version again; any other
text is an edit. A message is noted when it enters the thread, for the scope of the run that brought it; it has no digest until
it is remembered, and an empty one where it never will be.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sqlalchemy import (
    Boolean,
    Column,
    ForeignKeyConstraint,
    Index,
    String,
    Table,
    Text,
    bindparam,
    delete,
    insert,
    select,
    true,
    update,
)

from langmem_adapter.errors import ConflictError, InvalidInputError
from langmem_adapter.records.checks import quoted
from langmem_adapter.records.results import Decision
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope, shallow
from langmem_adapter.storage import memories
from langmem_adapter.storage.queries import Prepared, any_of
from langmem_adapter.storage.scopes import id_within, of_row
from langmem_adapter.storage.tables import Number, metadata
from langmem_adapter.storage.timestamps import UTCDateTime
from langmem_adapter.storage.write import Write

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from sqlalchemy import Connection

    from langmem_adapter.records.results import Change, Event

_EDITED: Final = "the message that it came from was edited"
_RESTORED: Final = f"{_EDITED}; back to what it said before"

MessageNote: TypeAlias = tuple[str, str | None, bool]
"""Of a message: the digest of what came in, that of what is remembered, and whether a model saw it.

An empty second digest means that it is never remembered: with `False` it was refused, with `True` it is not of this scope.
"""

sources: Final = Table(
    "sources",
    metadata,
    Column("thread", String(64), primary_key=True),
    Column("message_id", Text, primary_key=True),
    Column("thread_id", Text, nullable=False),
    *(Column(name, Text) for name in SCOPE_FIELDS),
    Column("given", String(32), nullable=False),
    Column("digest", String(32)),
    Column("is_shown", Boolean, nullable=False, server_default=true()),  # to a model
    Column("created_at", UTCDateTime, nullable=False),
    Index("ix_sources_thread_id", "thread_id"),
)

# `seq` is that of the revision; a later one where the message only repeats a memory.
source_memories: Final = Table(
    "source_memories",
    metadata,
    Column("thread", String(64), primary_key=True),
    Column("message_id", Text, primary_key=True),
    Column("memory_id", String(64), primary_key=True),
    Column("seq", Number, nullable=False),
    ForeignKeyConstraint(["thread", "message_id"], ["sources.thread", "sources.message_id"], ondelete="CASCADE"),
    Index("ix_source_memories_memory", "memory_id"),
)

_SOURCE: Final = sources.c.thread == bindparam("thread")
_MESSAGES: Final = Prepared(select(sources).where(_SOURCE, any_of(sources.c.message_id, "ids")))
_INSERT: Final = Prepared(insert(sources))
_INSERT_MEMORIES: Final = Prepared(insert(source_memories))
_SET: Final = Prepared(
    update(sources)
    .where(_SOURCE, sources.c.message_id == bindparam("message"))
    .values(given=bindparam("given"), digest=bindparam("digest"), is_shown=bindparam("is_shown"))
)


class RememberedError(ConflictError):
    """Another run has remembered one of the messages meanwhile."""


@dataclass(frozen=True, slots=True)
class MessageThread:
    """A thread of messages within one scope."""

    scope: Scope
    thread_id: str

    @property
    def key(self) -> str:
        return id_within(self.scope, f"thread {self.thread_id}")

    def digest(self, content: object) -> str:
        """The digest of a message's content; those of other threads cannot be compared with it."""
        try:
            plain = json.dumps(content, sort_keys=True, default=str)
        except ValueError:  # Python writes no number of more than 4,300 digits
            raise InvalidInputError(f"the content of a message cannot be read: it has {quoted(content)}") from None
        return blake2b(plain.encode(), key=self.key.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Edits:
    """The edited messages of a thread, and the writes that retract their older texts."""

    thread: MessageThread
    remembered_ids: Collection[str]  # of messages that are remembered as they are
    ids: Mapping[str, str]  # messages that were remembered with another text, and their current digests
    writes: Sequence[Write]  # one decision each


def messages_of(connection: Connection, thread: MessageThread, ids: Collection[str]) -> dict[str, Any]:
    rows = _MESSAGES.rows(connection, {"thread": thread.key, "ids": list(ids)})
    return {row.message_id: row for row in rows}


def of_other_users(
    connection: Connection, thread: MessageThread, contents: Mapping[str, object], newest: str | None
) -> dict[str, set[str]]:
    """The notes of other users' runs about messages with these contents, by message id.

    `"own"`: it is theirs; `"refused"`: it is theirs, and a middleware may have blocked it; `"foreign"`: it is not theirs.
    While a note waits to be remembered, it is compared by text with all but the *newest* message: clients may send no ids.
    """
    if not contents:
        return {}
    of_others = sources.c.thread_id == thread.thread_id, sources.c.user_id != thread.scope.user_id
    same = any_of(sources.c.message_id, list(contents)) | sources.c.digest.is_(None)
    kinds = defaultdict[str, set[str]](set)
    for row in connection.execute(select(sources).where(*of_others, same)):
        owner, is_open = MessageThread(of_row(row), row.thread_id), row.digest is None
        kind = "own" if row.digest or (is_open and row.is_shown) else "foreign" if row.is_shown else "refused"
        for name in {row.message_id, *(contents.keys() - {newest} if is_open else ())} & contents.keys():
            if owner.digest(contents[name]) in {row.given, row.digest}:
                kinds[name].add(kind)
    return kinds


def is_edited(row: Any, digest: str) -> bool:
    return row.digest is not None and digest not in {row.digest, row.given}


def note(
    connection: Connection, thread: MessageThread, notes: Mapping[str, MessageNote], expected: Mapping[str, Any]
) -> None:
    """Note messages that are not remembered; rows that differ from the *expected* ones stay."""
    # Contract: what another run noted or remembered meanwhile stays.
    # tests/adapters/test_turns.py::test_parallel_runs_of_one_thread_remember_each_message_once
    rows = messages_of(connection, thread, notes)
    same = {name: each for name, each in notes.items() if rows.get(name) == expected.get(name)}
    _put(connection, thread, rows, same)


def record(
    connection: Connection,
    thread: MessageThread,
    digests: Mapping[str, str],
    changes: Iterable[tuple[str | None, Change, int]],
) -> None:
    """Note that messages are remembered, and their *changes*, each with the id of a message and the number of its revision."""
    # Contract: of two runs, in any processes, that remember one message of a thread, the second one writes nothing.
    # tests/adapters/test_turns.py::test_parallel_runs_of_one_thread_remember_each_message_once
    rows = messages_of(connection, thread, digests)
    if any(row.digest is not None for row in rows.values()):
        raise RememberedError("a message of the thread was remembered by another run; try again")
    first = {name: rows[name].given if name in rows else digest for name, digest in digests.items()}
    _put(connection, thread, rows, {name: (first[name], digest, True) for name, digest in digests.items()})
    seqs = {(message, change.id): seq for message, change, seq in changes if message in digests and change.id}
    links = [{"message_id": message, "memory_id": memory, "seq": seq} for (message, memory), seq in seqs.items()]
    _INSERT_MEMORIES.run(connection, *({"thread": thread.key, **link} for link in links))


def edits(connection: Connection, thread: MessageThread, digests: Mapping[str, str]) -> Edits:
    """Find edited messages, and what retracts their older texts.

    A memory that came of such messages alone is deleted; one that they changed or deleted is restored. What other messages
    stated of the memory since then, and edits by hand, stay.
    """
    rows = messages_of(connection, thread, digests)
    edited = {name: digests[name] for name, row in rows.items() if is_edited(row, digests[name])}
    remembered_ids = {name for name, row in rows.items() if row.digest is not None and name not in edited}
    links = source_memories.c
    of_open = links.thread == thread.key, any_of(links.message_id, list(rows.keys() - remembered_ids))
    own = connection.execute(select(source_memories).where(*of_open)).all()
    statements: defaultdict[str, list[Any]] = defaultdict(list)
    same = any_of(links.memory_id, [row.memory_id for row in own])
    for row in connection.execute(select(source_memories).where(same)):
        statements[row.memory_id].append((row.seq, row in own))
    writes = [_retraction(connection, memory_id, seqs, thread.scope) for memory_id, seqs in statements.items()]
    ids = {**{row.message_id: rows[row.message_id].given for row in own}, **edited}
    return Edits(thread, remembered_ids, ids, [write for write in writes if write is not None])


def reopen(connection: Connection, edits: Edits) -> None:
    """Note that edited messages are not remembered yet, and remove the links to their memories."""
    _put(connection, edits.thread, edits.ids, {name: (digest, None, True) for name, digest in edits.ids.items()})
    own = source_memories.c.thread == edits.thread.key, any_of(source_memories.c.message_id, list(edits.ids))
    connection.execute(delete(source_memories).where(*own))


def _retraction(
    connection: Connection, memory_id: str, statements: Sequence[tuple[int, bool]], within: Scope
) -> Write | None:
    """A write that retracts the last revisions of a memory which only edited messages state (`True` in *statements*)."""
    contents = memories.contents(connection, memory_id)
    revisions: list[Any] = []  # without those that were retracted before, and their retractions
    for row in contents:
        while row.reason == _RESTORED and revisions and revisions[-1].new_memory != row.new_memory:
            revisions.pop()
        revisions += [] if row.reason == _RESTORED else [row]
    last, end = (revisions[-1] if revisions else None), math.inf
    while revisions and {own for seq, own in statements if revisions[-1].seq <= seq < end} == {True}:
        end = revisions.pop().seq
    if last is None or end == math.inf or not within.covers(of_row(last)):
        return None
    revision, restores = contents[-1].seq, bool(revisions) and revisions[-1].event != "DELETE"
    if not restores and last.event == "DELETE":
        return None
    decision = Decision("DELETE", memory_id, None, _EDITED, seen=revision)
    if restores:
        event: Event = "ADD" if last.event == "DELETE" else "UPDATE"
        decision = memories.restored(revisions[-1], event, _RESTORED, seen=revision)
    return Write((decision,), scope=of_row(last), within=within)


def _put(
    connection: Connection, thread: MessageThread, present: Collection[str], notes: Mapping[str, MessageNote]
) -> None:
    """Write the notes of messages, and replace those of messages that are *present*."""
    new = {"thread_id": thread.thread_id, "created_at": datetime.now(UTC), **shallow(thread.scope)}
    columns = ("given", "digest", "is_shown")
    rows = {name: {"thread": thread.key, **dict(zip(columns, each, strict=True))} for name, each in notes.items()}
    _INSERT.run(connection, *({**new, **row, "message_id": name} for name, row in rows.items() if name not in present))
    _SET.run(connection, *({**row, "message": name} for name, row in rows.items() if name in present))
