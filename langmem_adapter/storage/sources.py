"""Sources: which messages of a thread were remembered, and which memories came of each.

A scope, a thread and an id identify a message. Its text is not kept here, only a digest of what was remembered, and one of
what came in: a middleware may redact a message before it is remembered, and a client may send the first version again.
Any other text is an edit. A message is noted when it enters the thread, for the scope whose run brought it; it has no digest
until it is remembered, and an empty one where it never will be.
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

from langmem_adapter.errors import ConflictError
from langmem_adapter.records.results import Decision
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope
from langmem_adapter.storage import memories
from langmem_adapter.storage.moments import UTCDateTime
from langmem_adapter.storage.prepared_statements import Prepared, any_of
from langmem_adapter.storage.scopes import id_within, of_row
from langmem_adapter.storage.tables import Number, metadata
from langmem_adapter.storage.writes import Write

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from sqlalchemy import Connection

    from langmem_adapter.records.results import Change, Event

_EDITED: Final = "the message that it came from was edited"
_BACK: Final = f"{_EDITED}; back to what it said before"

MessageNote: TypeAlias = tuple[str, str | None, bool]
"""Of a message: the digest of what came in, that of what is remembered, and whether a model was shown it.

An empty digest says that it is never remembered: `False` that it was refused, `True` that it is not of this scope.
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

# `seq` is that of the revision, or, where the message only says what a memory says already, a later one.
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
    """A thread of messages, as one scope knows it."""

    scope: Scope
    thread_id: str

    @property
    def key(self) -> str:
        """What names the thread within its exact scope."""
        return id_within(self.scope, f"thread {self.thread_id}")

    def digest(self, content: object) -> str:
        """What tells one content of a message from another; it cannot be compared with that of another thread."""
        plain = json.dumps(content, sort_keys=True, default=str)
        return blake2b(plain.encode(), key=self.key.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Edits:
    """Which messages of a thread were edited, and what takes back what came of the older texts."""

    thread: MessageThread
    known_ids: Collection[str]  # ids of those that are remembered as they are
    ids: Mapping[str, str]  # those that were remembered with another text, and the digest of each as it is now
    writes: Sequence[Write]  # take back what came of the older texts, one decision each


def messages_of(connection: Connection, thread: MessageThread, ids: Collection[str]) -> dict[str, Any]:
    """The rows of some messages, by their ids; those without a row are missing."""
    rows = _MESSAGES.rows(connection, {"thread": thread.key, "ids": list(ids)})
    return {row.message_id: row for row in rows}


def of_other_users(
    connection: Connection, thread: MessageThread, contents: Mapping[str, object], newest: str | None
) -> dict[str, set[str]]:
    """What is noted, of those messages with these contents, in runs of other users, by their ids.

    `"own"`: it is theirs; `"refused"`: so it is, and a middleware may have blocked it; `"foreign"`: it is not theirs.

    Where it waits to be remembered, one before the *newest* is compared by its text, too: clients may send no ids.
    """
    if not contents:
        return {}
    theirs = sources.c.thread_id == thread.thread_id, sources.c.user_id != thread.scope.user_id
    same = any_of(sources.c.message_id, list(contents)) | sources.c.digest.is_(None)
    notes = defaultdict[str, set[str]](set)
    for row in connection.execute(select(sources).where(*theirs, same)):
        names = {row.message_id, *(contents.keys() - {newest} if row.digest is None else ())} & contents.keys()
        owner = MessageThread(of_row(row), row.thread_id)
        kind = (
            "own" if row.digest or (row.digest is None and row.is_shown) else "foreign" if row.is_shown else "refused"
        )
        for name in (name for name in names if owner.digest(contents[name]) in {row.given, row.digest}):
            notes[name].add(kind)
    return notes


def is_edited(row: Any, digest: str) -> bool:
    """Whether a message was remembered with another text."""
    return row.digest is not None and digest not in {row.digest, row.given}


def note(
    connection: Connection, thread: MessageThread, notes: Mapping[str, MessageNote], expected: Mapping[str, Any]
) -> None:
    """Note messages that are not remembered; those whose rows differ from the *expected* ones are left as they are."""
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
    """Note that messages are remembered now, and what came of them: *changes* with the id of a message and a number.

    Raises:
        RememberedError: Another run has remembered one of them; nothing may be written.
    """
    # Contract: of two runs that remember one message of a thread, in whatever process, the second one writes nothing.
    # tests/adapters/test_turns.py::test_parallel_runs_of_one_thread_remember_each_message_once
    rows = messages_of(connection, thread, digests)
    if any(row.digest is not None for row in rows.values()):
        raise RememberedError("a message of the thread was remembered by another run; try again")
    first = {name: row.given for name, row in rows.items()}
    _put(connection, thread, rows, {name: (first.get(name, each), each, True) for name, each in digests.items()})
    seqs = {(message, change.id): seq for message, change, seq in changes if message in digests and change.id}
    links = [{"message_id": message, "memory_id": memory, "seq": seq} for (message, memory), seq in seqs.items()]
    _INSERT_MEMORIES.run(connection, *({"thread": thread.key, **link} for link in links))


def edits(connection: Connection, thread: MessageThread, digests: Mapping[str, str]) -> Edits:
    """What is noted of some messages, and what takes back what came of the older text of those that were edited.

    A memory that came of such messages alone ends; one that they changed or ended is again what it was. What others have said
    of the memory since then, or done to it, stays.
    """
    rows = messages_of(connection, thread, digests)
    edited = {name: digests[name] for name, row in rows.items() if is_edited(row, digests[name])}
    remembered_ids = {name for name, row in rows.items() if row.digest is not None and name not in edited}
    mine = (
        source_memories.c.thread == thread.key,
        any_of(source_memories.c.message_id, list(rows.keys() - remembered_ids)),
    )
    own = connection.execute(select(source_memories).where(*mine)).all()
    same = any_of(source_memories.c.memory_id, [row.memory_id for row in own])
    statements: defaultdict[str, list[Any]] = defaultdict(list)
    for row in connection.execute(select(source_memories).where(same)):
        statements[row.memory_id].append((row.seq, row in own))
    writes = [_retraction(connection, memory_id, seqs, thread.scope) for memory_id, seqs in statements.items()]
    ids = {**{row.message_id: rows[row.message_id].given for row in own}, **edited}
    return Edits(thread, remembered_ids, ids, [write for write in writes if write is not None])


def reopen(connection: Connection, edits: Edits) -> None:
    """Note that edited messages are not remembered yet, and that nothing comes of what they said before."""
    _put(connection, edits.thread, edits.ids, {name: (given, None, True) for name, given in edits.ids.items()})
    mine = source_memories.c.thread == edits.thread.key, any_of(source_memories.c.message_id, list(edits.ids))
    connection.execute(delete(source_memories).where(*mine))


def _retraction(
    connection: Connection, memory_id: str, statements: Sequence[tuple[int, bool]], within: Scope
) -> Write | None:
    """What takes back the last revisions of a memory that only edited messages state: of these *statements* has `True`."""
    contents = memories.contents(connection, memory_id)
    revisions: list[Any] = []  # without revisions that were taken back before, and those that took them back
    for row in contents:
        while row.reason == _BACK and revisions and revisions[-1].new_memory != row.new_memory:
            revisions.pop()
        revisions += [] if row.reason == _BACK else [row]
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
        decision = memories.restored(revisions[-1], event, _BACK, seen=revision)
    return Write((decision,), scope=of_row(last), within=within)


def _put(
    connection: Connection, thread: MessageThread, present: Collection[str], notes: Mapping[str, MessageNote]
) -> None:
    """Write what is noted of messages; it replaces what was written of those that are *present*."""
    new = {"thread_id": thread.thread_id, "created_at": datetime.now(UTC)}
    new |= {name: getattr(thread.scope, name) for name in SCOPE_FIELDS}
    names = "given", "digest", "is_shown"
    rows = {name: {"thread": thread.key, **dict(zip(names, each, strict=True))} for name, each in notes.items()}
    _INSERT.run(connection, *({**new, **row, "message_id": name} for name, row in rows.items() if name not in present))
    _SET.run(connection, *({**row, "message": name} for name, row in rows.items() if name in present))
