"""Checkpoints of LangGraph threads: what a graph's state was after each step, so that a run can stop, go on, and go back.

A checkpoint names the version of each channel; a channel's value is kept once per version and shared by all checkpoints that
name it, so a step writes only what it changed. Beside a checkpoint stand the writes of the tasks that ran from it.

This module knows rows and bytes only: LangGraph's objects are packed and unpacked by the adapter. Whole threads, and the way
from a checkpoint to its parents, are in `threads`.
"""

from __future__ import annotations

import json
from collections import defaultdict
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
    or_,
    select,
    tuple_,
)
from sqlalchemy.dialects import postgresql, sqlite

from langmem_adapter.storage.prepared_statements import Prepared, any_of
from langmem_adapter.storage.tables import metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection

__all__ = [
    "WHOLE",
    "Loaded",
    "Packed",
    "ThreadSpace",
    "Version",
    "channel_values",
    "checkpoints",
    "get",
    "in_space",
    "page",
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
_PAGE: Final = 32  # checkpoints read in one go: each may bring a whole state with it

# Ids are ordered by code points everywhere, as Python compares them, whatever the language of a Postgres database.
_Ordered: Final = Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def _key(*names: str) -> list[Column[Any]]:
    return [Column(name, _Ordered, primary_key=True) for name in names]


# These names are not those of LangGraph's own savers: both may live in one database. A checkpoint without a state is none any
# more: it was pruned, and stays as a step on the way from a younger one to what its delta channels are rebuilt from.
checkpoints: Final = Table(
    "thread_checkpoints",
    metadata,
    *_key("thread_id", "ns", "id"),
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
    *_key("thread_id", "ns", "slot"),  # channel and version, see `slots_of`
    Column("kind", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

# Without a foreign key: a task's writes may be committed before the checkpoint that they belong to.
task_writes: Final = Table(
    "thread_writes",
    metadata,
    *_key("thread_id", "ns", "checkpoint_id", "task_id"),
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
    """A value as its serializer made it: the serializer's name for the encoding, and the bytes."""

    kind: str
    body: bytes


class ThreadSpace(NamedTuple):
    """Where a chain of checkpoints lies: a thread, and the namespace in it: `""` for the graph, a path for its subgraphs."""

    thread_id: str
    ns: str


class Loaded(NamedTuple):
    """A checkpoint with all that belongs to it."""

    row: Any  # its row of `checkpoints`
    versions: Mapping[str, Version]  # the version of each channel
    values: Mapping[str, Packed]  # the values of its channels, of those that have one
    writes: Sequence[Any]  # rows of `task_writes` from here on, in the order in which a step applies them


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


def put(connection: Connection, checkpoint: Mapping[str, Any], changed: Mapping[str, Packed]) -> None:
    """Keep a checkpoint, a row of `checkpoints`, within a write transaction; one with the same id is replaced.

    *changed* are the values of the channels that it has changed, by their slots.
    """
    dialect, place = connection.dialect.name, {"thread_id": checkpoint["thread_id"], "ns": checkpoint["ns"]}
    _PUT[dialect].run(connection, checkpoint)
    rows = [place | {"slot": slot} | value._asdict() for slot, value in changed.items()]
    _PUT_VALUES[dialect].run(connection, *rows)


def put_writes(connection: Connection, written: Collection[Mapping[str, Any]]) -> None:
    """Keep rows of `task_writes`, within a write transaction: the same task may say it again, that changes nothing.

    A write with a negative number replaces the one before it, the others are written once.
    """
    for replace, statements in _PUT_WRITES.items():
        rows = [row for row in written if (row["idx"] < 0) is replace]
        statements[connection.dialect.name].run(connection, *rows)


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def get(connection: Connection, space: ThreadSpace, checkpoint_id: str | None) -> Loaded | None:
    """One checkpoint by its id, or the latest."""
    if checkpoint_id is None:
        row = _LATEST.first(connection, space._asdict())
    else:
        row = _ONE.first(connection, space._asdict() | {"one": checkpoint_id})
    return None if row is None else _load(connection, [row])[0]


def page(
    connection: Connection,
    equal: Mapping[str, str],
    before: str | None,
    *,
    after: Any = None,
    keep: Callable[[Packed], bool] | None = None,
    most: int | None = None,
) -> tuple[list[Loaded], Any]:
    """Some of the checkpoints that are wanted, newest first, and where this page ended; `None` where nothing can follow.

    Their rows hold what *equal* says, and are older than the one with the id *before*; *after* is where the page before ended.
    *keep* looks at the metadata and says whether to take a checkpoint; at *most* so many are wanted.
    """
    size = min(_PAGE, most) if keep is None and most is not None else _PAGE
    wanted = [checkpoints.c[name] == value for name, value in equal.items()]
    older = [] if before is None else [checkpoints.c.id < before]
    order = (checkpoints.c.id.desc(), checkpoints.c.thread_id, checkpoints.c.ns)
    query = select(checkpoints).where(WHOLE, *wanted, *older, *_beyond(after)).order_by(*order).limit(size)
    scanned = connection.execute(query).all()
    kept = [row for row in scanned if keep is None or keep(Packed(row.metadata_kind, row.metadata))][:most]
    done = len(scanned) < size or len(kept) == most
    return _load(connection, kept), None if done else scanned[-1]


def _beyond(last: Any) -> list[ColumnElement[bool]]:
    if last is None:
        return []
    row = checkpoints.c  # a copied thread has the ids of its original: they are told apart by the rest of the key
    return [row.id <= last.id, or_(row.id < last.id, tuple_(row.thread_id, row.ns) > tuple_(last.thread_id, last.ns))]


def values_at(connection: Connection, space: ThreadSpace, slots: Iterable[str]) -> dict[str, Packed]:
    """Values by their slot; a channel may have none at a version."""
    rows = _VALUES.rows(connection, space._asdict() | {"slots": list(slots)})
    return {row.slot: Packed(row.kind, row.body) for row in rows}


def writes_at(
    connection: Connection, space: ThreadSpace, ids: Sequence[str], channels: Sequence[str] | None = None
) -> dict[str, list[Any]]:
    """What tasks wrote at checkpoints, by the checkpoint's id, in the order in which a step applies it."""
    asked = space._asdict() | {"ids": ids, "channels": channels}
    found: dict[str, list[Any]] = defaultdict(list)
    for row in (_WRITES if channels is None else _WRITES_TO).rows(connection, asked):
        found[row.checkpoint_id].append(row)
    return found


def _load(connection: Connection, rows: Sequence[Any]) -> list[Loaded]:
    """Checkpoints with their values and writes, a value that several of them share once."""
    by_space: dict[ThreadSpace, dict[str, Mapping[str, Version]]] = defaultdict(dict)
    for row in rows:
        by_space[ThreadSpace(row.thread_id, row.ns)][row.id] = json.loads(row.versions)
    found: dict[ThreadSpace, tuple[dict[str, Packed], dict[str, list[Any]]]] = {}
    for space, these in by_space.items():
        slots = {slot for versions in these.values() for slot in slots_of(versions).values()}
        found[space] = values_at(connection, space, slots), writes_at(connection, space, list(these))

    def loaded(row: Any) -> Loaded:
        space = ThreadSpace(row.thread_id, row.ns)
        (bodies, written), versions = found[space], by_space[space][row.id]
        values = {channel: bodies[slot] for channel, slot in slots_of(versions).items() if slot in bodies}
        return Loaded(row, versions, values, written.get(row.id, []))

    return [loaded(row) for row in rows]
