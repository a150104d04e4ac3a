"""Checkpoints of LangGraph threads: what a graph's state was after each step, so that a run can stop, go on, and go back.

A checkpoint names the version of each channel; a channel's value is kept once per version and shared by all checkpoints that
name it, so a step writes only what it changed. Beside a checkpoint stand the writes of the tasks that ran from it.

This module knows rows and bytes only: LangGraph's objects are packed and unpacked by the adapter. Lists of
checkpoints are in `checkpoint_pages`; whole threads, and the way from a checkpoint to its parents, in `threads`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from sqlalchemy import (
    Column,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    and_,
    bindparam,
    func,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite

from langmem_adapter.storage.prepared_statements import Prepared, any_of
from langmem_adapter.storage.tables import metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection

__all__ = [
    "WHOLE",
    "Checkpoint",
    "Loaded",
    "Packed",
    "PendingWrite",
    "ThreadSpace",
    "Version",
    "channel_values",
    "checkpoint_of",
    "checkpoints",
    "get",
    "in_space",
    "load",
    "put",
    "put_writes",
    "slots_of",
    "task_writes",
    "values_at",
    "writes_at",
]

Version: TypeAlias = "str | int | float"
"""Of a channel; it grows with every change."""

_SEPARATOR: Final = "\x1f"

# Ids are ordered by code points everywhere, as Python compares them, whatever the language of a Postgres database.
_Ordered: Final = Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")

# These names are not those of LangGraph's own savers: both may live in one database. A checkpoint without a state is none any
# more: it was pruned, and stays as a step on the way from a younger one to what its delta channels are rebuilt from.
checkpoints: Final = Table(
    "thread_checkpoints",
    metadata,
    Column("thread_id", _Ordered, primary_key=True),
    Column("ns", _Ordered, primary_key=True),
    Column("id", _Ordered, primary_key=True),
    Column("parent_id", _Ordered),
    Column("run_id", Text),
    Column("versions", Text, nullable=False),
    Column("state_kind", Text),
    Column("state", LargeBinary),
    Column("metadata_kind", Text),
    Column("metadata", LargeBinary),
    Index("ix_thread_checkpoints_id", "id"),
    Index("ix_thread_checkpoints_run", "run_id"),
)

channel_values: Final = Table(
    "thread_values",
    metadata,
    Column("thread_id", _Ordered, primary_key=True),
    Column("ns", _Ordered, primary_key=True),
    Column("slot", _Ordered, primary_key=True),  # channel and version, see `slots_of`
    Column("kind", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

# Without a foreign key: a task's writes may be committed before the checkpoint that they belong to.
task_writes: Final = Table(
    "thread_writes",
    metadata,
    Column("thread_id", _Ordered, primary_key=True),
    Column("ns", _Ordered, primary_key=True),
    Column("checkpoint_id", _Ordered, primary_key=True),
    Column("task_id", _Ordered, primary_key=True),
    Column("idx", Integer, primary_key=True, autoincrement=False),
    Column("task_path", _Ordered, nullable=False),
    Column("channel", _Ordered, nullable=False),
    Column("kind", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
)


def slots_of(versions: Mapping[str, Version]) -> dict[str, str]:
    """By channel the key under which its value at a version is kept."""
    return {channel: f"{channel}{_SEPARATOR}{version}" for channel, version in versions.items()}


# ── records ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class Packed(NamedTuple):
    """A value as its serializer made it.

    Attributes:
        kind: The serializer's name for the encoding.
        body: The bytes.
    """

    kind: str
    body: bytes


class ThreadSpace(NamedTuple):
    """Where a chain of checkpoints lies.

    Attributes:
        thread_id: The thread.
        ns: The namespace in it: `""` for the graph itself, a path for its subgraphs.
    """

    thread_id: str
    ns: str


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """One checkpoint without the values of its channels.

    Attributes:
        space: Where it lies.
        id: Its id; ids grow with time.
        parent_id: The one that it came from.
        run_id: The run that wrote it, where its metadata says so.
        versions: The version of each channel.
        state: The rest of it.
        metadata: What is known about it.
    """

    space: ThreadSpace
    id: str
    parent_id: str | None
    run_id: str | None
    versions: Mapping[str, Version]
    state: Packed
    metadata: Packed

    @property
    def slots(self) -> dict[str, str]:
        """Where the value of each channel lies, if there is one."""
        return slots_of(self.versions)


@dataclass(frozen=True, slots=True, eq=False)
class PendingWrite:
    """What a task wrote to a channel.

    Attributes:
        task_id: The task.
        task_path: Where the task stands among those of its step.
        idx: Number of the write within the task; negative ones replace, the others are written once.
        channel: The channel.
        value: What was written.
    """

    task_id: str
    task_path: str
    idx: int
    channel: str
    value: Packed


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """A checkpoint with all that belongs to it.

    Attributes:
        checkpoint: The checkpoint.
        values: The values of its channels, of those that have one.
        writes: What tasks wrote from here on, in the order in which a step applies it.
    """

    checkpoint: Checkpoint
    values: Mapping[str, Packed]
    writes: Sequence[PendingWrite]


# ── statements ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _inserts(table: Table, *, replace: bool, **kept: Callable[[Any], Any]) -> Mapping[str, Prepared]:
    """By dialect: an INSERT that replaces a row with the same key, or leaves it as it is."""
    key = [column.name for column in table.primary_key]
    rest = [column.name for column in table.columns if column.name not in key]
    made = {}
    for name, dialect in (("sqlite", sqlite), ("postgresql", postgresql)):
        plain: Any = dialect.insert(table)
        new = {column: kept.get(column, lambda value: value)(plain.excluded[column]) for column in rest}
        over = plain.on_conflict_do_update(index_elements=key, set_=new)
        made[name] = Prepared(over if replace else plain.on_conflict_do_nothing(index_elements=key))
    return made


WHOLE: Final = checkpoints.c.state.is_not(None)
"""The condition that a checkpoint is more than a step on the way."""


def in_space(table: Table) -> ColumnElement[bool]:
    """The condition that a row lies in a space, which is given as `ThreadSpace._asdict()`."""
    return and_(table.c.thread_id == bindparam("thread_id"), table.c.ns == bindparam("ns"))


# LangGraph may put a checkpoint again that it has resumed: then its parent stays.
_PUT: Final = _inserts(checkpoints, replace=True, parent_id=lambda new: func.coalesce(new, checkpoints.c.parent_id))
_PUT_VALUES: Final = _inserts(channel_values, replace=True)
_PUT_WRITES: Final = {False: _inserts(task_writes, replace=False), True: _inserts(task_writes, replace=True)}

_ONE: Final = Prepared(select(checkpoints).where(in_space(checkpoints), WHOLE, checkpoints.c.id == bindparam("one")))
_LATEST: Final = Prepared(
    select(checkpoints).where(in_space(checkpoints), WHOLE).order_by(checkpoints.c.id.desc()).limit(1)
)
_VALUES: Final = Prepared(
    select(channel_values.c.slot, channel_values.c.kind, channel_values.c.body).where(
        in_space(channel_values), any_of(channel_values.c.slot, "slots")
    )
)
_ORDER: Final = (task_writes.c.checkpoint_id, task_writes.c.task_path, task_writes.c.task_id, task_writes.c.idx)
_WRITTEN_AT: Final = (
    select(task_writes).where(in_space(task_writes), any_of(task_writes.c.checkpoint_id, "ids")).order_by(*_ORDER)
)
_WRITES: Final = Prepared(_WRITTEN_AT)
_WRITES_TO: Final = Prepared(_WRITTEN_AT.where(any_of(task_writes.c.channel, "channels")))


# ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def put(connection: Connection, checkpoint: Checkpoint, changed: Mapping[str, Packed]) -> None:
    """Keep a checkpoint, within a write transaction.

    Args:
        connection: In a write transaction.
        checkpoint: The checkpoint; one with the same id is replaced.
        changed: Values of the channels that this checkpoint has changed, by their slots.
    """
    dialect, space = connection.dialect.name, checkpoint.space._asdict()
    row = space | {
        "id": checkpoint.id,
        "parent_id": None if checkpoint.parent_id == checkpoint.id else checkpoint.parent_id,
        "run_id": checkpoint.run_id,
        "versions": json.dumps(checkpoint.versions, separators=(",", ":")),
        "state_kind": checkpoint.state.kind,
        "state": checkpoint.state.body,
        "metadata_kind": checkpoint.metadata.kind,
        "metadata": checkpoint.metadata.body,
    }
    _PUT[dialect].run(connection, row)
    rows = [space | {"slot": slot} | value._asdict() for slot, value in changed.items()]
    _PUT_VALUES[dialect].many(connection, rows)


def put_writes(connection: Connection, space: ThreadSpace, checkpoint_id: str, written: Iterable[PendingWrite]) -> None:
    """Keep what a task wrote, within a write transaction: the same task may say it again, that changes nothing."""
    place = space._asdict() | {"checkpoint_id": checkpoint_id}
    rows: dict[bool, list[dict[str, Any]]] = defaultdict(list)
    for one in written:
        row = {"task_id": one.task_id, "task_path": one.task_path, "idx": one.idx, "channel": one.channel}
        rows[one.idx < 0].append(place | row | one.value._asdict())
    for replace, these in rows.items():
        _PUT_WRITES[replace][connection.dialect.name].many(connection, these)


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def get(connection: Connection, space: ThreadSpace, checkpoint_id: str | None) -> Loaded | None:
    """One checkpoint by its id, or the latest."""
    if checkpoint_id is None:
        row = _LATEST.first(connection, space._asdict())
    else:
        row = _ONE.first(connection, space._asdict() | {"one": checkpoint_id})
    return None if row is None else load(connection, [checkpoint_of(row)])[0]


def values_at(connection: Connection, space: ThreadSpace, slots: Iterable[str]) -> dict[str, Packed]:
    """Values by their slot; a channel may have none at a version."""
    rows = _VALUES.rows(connection, space._asdict() | {"slots": list(slots)})
    return {row.slot: Packed(row.kind, row.body) for row in rows}


def writes_at(
    connection: Connection, space: ThreadSpace, ids: Sequence[str], channels: Sequence[str] | None = None
) -> dict[str, list[PendingWrite]]:
    """What tasks wrote at checkpoints, by the checkpoint's id, in the order in which a step applies it."""
    asked = space._asdict() | {"ids": ids}
    rows = (
        _WRITES.rows(connection, asked)
        if channels is None
        else _WRITES_TO.rows(connection, asked | {"channels": channels})
    )
    found: dict[str, list[PendingWrite]] = defaultdict(list)
    for row in rows:
        value = Packed(row.kind, row.body)
        found[row.checkpoint_id].append(PendingWrite(row.task_id, row.task_path, row.idx, row.channel, value))
    return found


def checkpoint_of(row: Any) -> Checkpoint:
    """A row of `checkpoints` as a record."""
    return Checkpoint(
        space=ThreadSpace(row.thread_id, row.ns),
        id=row.id,
        parent_id=row.parent_id,
        run_id=row.run_id,
        versions=json.loads(row.versions),
        state=Packed(row.state_kind, row.state),
        metadata=Packed(row.metadata_kind, row.metadata),
    )


def load(connection: Connection, found: Sequence[Checkpoint]) -> list[Loaded]:
    """Values and writes of checkpoints, a value that several of them share once."""
    by_space: dict[ThreadSpace, list[Checkpoint]] = defaultdict(list)
    for one in found:
        by_space[one.space].append(one)
    bodies, written = {}, {}
    for space, these in by_space.items():
        bodies[space] = values_at(connection, space, {slot for one in these for slot in one.slots.values()})
        written[space] = writes_at(connection, space, [one.id for one in these])
    return [Loaded(one, _held(one, bodies[one.space]), written[one.space].get(one.id, [])) for one in found]


def _held(checkpoint: Checkpoint, bodies: Mapping[str, Packed]) -> dict[str, Packed]:
    return {channel: bodies[slot] for channel, slot in checkpoint.slots.items() if slot in bodies}
