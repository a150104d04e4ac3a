"""Checkpoints of LangGraph threads: reading, writing, copying, removing.

A checkpoint names the version of each channel. A channel's value is stored once per version and shared by all checkpoints that
name it, so a step writes only what it changed. A checkpoint also has the writes of the tasks that ran from it. LangGraph's
objects are rows and bytes here; the adapter packs and unpacks them.

Of a delta channel (LangGraph's `DeltaChannel`) the writes are stored, and only some checkpoints have its value. A read walks
from a checkpoint to its parents and gathers writes until one has a value. So an old checkpoint may be part of a newer state.
"""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import islice, pairwise
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
    delete,
    func,
    insert,
    literal,
    not_,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.storage.queries import Prepared, any_of
from langmem_adapter.storage.tables import metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection

Version: TypeAlias = "str | int | float"
"""Of a channel; it grows with every change."""

_SEPARATOR: Final = "\x1f"
_PAGE: Final = 32  # checkpoints read in one go: each may bring a whole state with it

# Ids are ordered by code points everywhere, as Python compares them, whatever the language of a Postgres database.
_Ordered: Final = Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def _key(*names: str) -> list[Column[Any]]:
    return [Column(name, _Ordered, primary_key=True) for name in names]


# LangGraph's own savers have other names, so both fit into one database. A checkpoint without a state was pruned; it stays as a
# step from a newer one to what its delta channels are rebuilt from.
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

# Without a foreign key: a task's writes may be committed before their checkpoint.
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
    """The key of each channel's value at a version, by channel."""
    return {channel: f"{channel}{_SEPARATOR}{version}" for channel, version in versions.items()}


# ── records ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class Packed(NamedTuple):
    """A serialized value: the serializer's name for the encoding, and the bytes."""

    kind: str
    body: bytes


class ThreadSpace(NamedTuple):
    """A chain of checkpoints: a thread, and its namespace: `""` for the graph, a path for a subgraph."""

    thread_id: str
    ns: str


class Loaded(NamedTuple):
    """A checkpoint with its values and writes."""

    row: Any  # of `checkpoints`
    versions: Mapping[str, Version]  # by channel
    values: Mapping[str, Packed]  # by channel, of those that have one
    writes: Sequence[Any]  # rows of `task_writes`, in the order in which a step applies them


# ── statements ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _inserts(table: Table, *, replace: bool, **values: Callable[[Any], Any]) -> Mapping[str, Prepared]:
    """By dialect: an INSERT that replaces a row with the same key, or leaves it as it is."""
    key = [column.name for column in table.primary_key]
    rest = [column.name for column in table.columns if column.name not in key]
    statements = {}
    for name, dialect in (("sqlite", sqlite), ("postgresql", postgresql)):
        plain: Any = dialect.insert(table)
        new = {column: values.get(column, lambda value: value)(plain.excluded[column]) for column in rest}
        over = plain.on_conflict_do_update(index_elements=key, set_=new)
        statements[name] = Prepared(over if replace else plain.on_conflict_do_nothing(index_elements=key))
    return statements


WHOLE: Final = checkpoints.c.state.is_not(None)
"""The condition that a checkpoint was not pruned."""


def in_space(table: Table) -> ColumnElement[bool]:
    """The condition that a row belongs to a space, with `ThreadSpace._asdict()` as parameters."""
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
    """Write a row of `checkpoints`, within a write transaction; one with the same id is replaced.

    *changed* are the values of the channels that it has changed, by their slots.
    """
    dialect, place = connection.dialect.name, {"thread_id": checkpoint["thread_id"], "ns": checkpoint["ns"]}
    _PUT[dialect].run(connection, checkpoint)
    rows = [place | {"slot": slot} | value._asdict() for slot, value in changed.items()]
    _PUT_VALUES[dialect].run(connection, *rows)


def put_writes(connection: Connection, written: Collection[Mapping[str, Any]]) -> None:
    """Write rows of `task_writes`, within a write transaction; the same row again changes nothing.

    A write with a negative number replaces the one before it.
    """
    for replace, statements in _PUT_WRITES.items():
        rows = [row for row in written if (row["idx"] < 0) is replace]
        statements[connection.dialect.name].run(connection, *rows)


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def get(connection: Connection, space: ThreadSpace, checkpoint_id: str | None) -> Loaded | None:
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
    """A page of checkpoints, newest first, and its last row; `None` where nothing can follow.

    Their columns have the values of *equal*, and they are older than the one with the id *before*; *after* is the last row of
    the page before. *keep* decides by the metadata whether to take a checkpoint; at *most* so many are taken.
    """
    size, row = min(_PAGE, most) if keep is None and most is not None else _PAGE, checkpoints.c
    conditions = [row[name] == value for name, value in equal.items()]
    if before is not None:
        conditions.append(row.id < before)
    if after is not None:  # a copied thread has the ids of its original, and another key
        rest = tuple_(row.thread_id, row.ns) > tuple_(after.thread_id, after.ns)
        conditions += [row.id <= after.id, or_(row.id < after.id, rest)]
    query = select(checkpoints).where(WHOLE, *conditions).order_by(row.id.desc(), row.thread_id, row.ns).limit(size)
    rows = connection.execute(query).all()
    matching = [each for each in rows if keep is None or keep(Packed(each.metadata_kind, each.metadata))][:most]
    is_last = len(rows) < size or len(matching) == most
    return _load(connection, matching), None if is_last else rows[-1]


def values_at(connection: Connection, space: ThreadSpace, slots: Iterable[str]) -> dict[str, Packed]:
    """Values by their slot; a channel may have none at a version."""
    rows = _VALUES.rows(connection, space._asdict() | {"slots": list(slots)})
    return {row.slot: Packed(row.kind, row.body) for row in rows}


def writes_at(
    connection: Connection, space: ThreadSpace, ids: Sequence[str], channels: Sequence[str] | None = None
) -> dict[str, list[Any]]:
    """The writes of tasks at checkpoints, by the checkpoint's id, in the order in which a step applies them."""
    values = space._asdict() | {"ids": ids, "channels": channels}
    writes: dict[str, list[Any]] = defaultdict(list)
    for row in (_WRITES if channels is None else _WRITES_TO).rows(connection, values):
        writes[row.checkpoint_id].append(row)
    return writes


def _load(connection: Connection, rows: Sequence[Any]) -> list[Loaded]:
    """Checkpoints with their values and writes; a value that several share is read once."""
    by_space: dict[ThreadSpace, dict[str, Mapping[str, Version]]] = defaultdict(dict)
    for row in rows:
        by_space[ThreadSpace(row.thread_id, row.ns)][row.id] = json.loads(row.versions)
    loaded: dict[tuple[ThreadSpace, str], Loaded] = {}
    for space, versions_by_id in by_space.items():
        slots = {slot for versions in versions_by_id.values() for slot in slots_of(versions).values()}
        bodies, writes = values_at(connection, space, slots), writes_at(connection, space, list(versions_by_id))
        for one, versions in versions_by_id.items():
            values = {channel: bodies[slot] for channel, slot in slots_of(versions).items() if slot in bodies}
            loaded[space, one] = Loaded(None, versions, values, writes.get(one, []))
    return [loaded[ThreadSpace(row.thread_id, row.ns), row.id]._replace(row=row) for row in rows]


# ── delta channels ──────────────────────────────────────────────────────────────────────────────────────────────────────

_TABLES: Final = (checkpoints, channel_values, task_writes)
_SIGNALS: Final = ("branch:to:", "__start__")  # LangGraph's channels that start a node, which consumes them
_STRIDES: Final = (16, 64, 256)  # ancestors read in one query; most walks are short


class _Node(NamedTuple):
    """A checkpoint as a step of a walk."""

    id: str
    parent_id: str | None
    versions: Mapping[str, Version]
    whole: bool


_STEP: Final = (checkpoints.c.id, checkpoints.c.parent_id, checkpoints.c.versions, WHOLE.label("whole"))


_one: Final = select(*_STEP, literal(1).label("depth")).where(
    in_space(checkpoints), checkpoints.c.id == bindparam("one")
)
_chain: Final = _one.cte("chain", recursive=True)
_parents: Final = select(*_STEP, _chain.c.depth + 1).where(
    in_space(checkpoints), checkpoints.c.id == _chain.c.parent_id, _chain.c.depth < bindparam("stride")
)
_chained: Final = _chain.union_all(_parents)
_ANCESTRY: Final = Prepared(select(*(_chained.c[column.name] for column in _STEP)).order_by(_chained.c.depth))
"""A checkpoint and its nearest ancestors, the checkpoint first."""
_LATEST_OF_THREAD: Final = Prepared(select(func.max(checkpoints.c.id).label("id")).where(in_space(checkpoints), WHOLE))
_STORED: Final = Prepared(
    select(channel_values.c.slot).where(in_space(channel_values), any_of(channel_values.c.slot, "slots"))
)


def histories(
    connection: Connection, space: ThreadSpace, checkpoint_id: str | None, channels: Sequence[str]
) -> dict[str, tuple[Packed | None, list[Any]]]:
    """What delta channels are made of at a checkpoint (`None`: the latest).

    Returns:
        By channel: the value at the nearest ancestor that has one, `None` where the channel began empty; and the rows of
        `task_writes` since then, oldest first, with those of that ancestor and without those of the checkpoint.
    """
    path, seeds = _path_to_seeds(connection, space, checkpoint_id, set(channels))
    bodies = values_at(connection, space, [slot for slot, _ in seeds.values()])
    writes = writes_at(connection, space, path, list(channels))
    since: dict[str, list[Any]] = {channel: [] for channel in channels}
    for depth, one in reversed(list(enumerate(path))):
        for write in writes.get(one, ()):
            if write.channel not in seeds or depth <= seeds[write.channel][1]:
                since[write.channel].append(write)
    return {channel: (bodies[seeds[channel][0]] if channel in seeds else None, since[channel]) for channel in since}


def _path_to_seeds(
    connection: Connection, space: ThreadSpace, checkpoint_id: str | None, channels: set[str]
) -> tuple[list[str], dict[str, tuple[str, int]]]:
    """The ids of the ancestors to be read, and for each channel the slot of its nearest value and its distance."""
    path: list[str] = []
    seeds: dict[str, tuple[str, int]] = {}
    for nodes in _ancestors(connection, space, checkpoint_id):
        slots = [slots_of(_only(node.versions, channels)) for node in nodes]
        values = space._asdict() | {"slots": [slot for by_channel in slots for slot in by_channel.values()]}
        stored = {row.slot for row in _STORED.rows(connection, values)}
        for node, by_channel in zip(nodes, slots, strict=True):
            for channel, slot in by_channel.items():
                if slot in stored:
                    seeds.setdefault(channel, (slot, len(path)))
            path.append(node.id)
            if seeds.keys() == channels:
                return path, seeds
    return path, seeds


def _ancestors(connection: Connection, space: ThreadSpace, checkpoint_id: str | None) -> Iterator[list[_Node]]:
    """The parents of a checkpoint, nearest first, some at a time."""
    start = checkpoint_id or _LATEST_OF_THREAD.first(connection, space._asdict()).id
    seen, strides = set[str](), iter(_STRIDES)
    while start is not None:
        values = space._asdict() | {"one": start, "stride": next(strides, _STRIDES[-1])}
        nodes = [_node(row) for row in _ANCESTRY.rows(connection, values)]
        fresh = [node for node in nodes if node.id not in seen]
        yield fresh if seen else fresh[1:]  # the first of all is the checkpoint itself
        seen.update(node.id for node in fresh)
        start = nodes[-1].parent_id if len(fresh) == len(nodes) > 0 else None  # else the chain is a circle


def _only(versions: Mapping[str, Version], channels: Collection[str]) -> dict[str, Version]:
    return {channel: versions[channel] for channel in channels if channel in versions}


def _node(row: Any) -> _Node:
    return _Node(row.id, row.parent_id, json.loads(row.versions), row.whole)


# ── whole threads ─────────────────────────────────────────────────────────────────────────────────────────────────────


def copy_thread(connection: Connection, source: str, target: str) -> None:
    """Copy everything of a thread, within a write transaction."""
    one = select(literal(1)).limit(1)
    if any(connection.execute(one.where(table.c.thread_id == target)).first() for table in _TABLES):
        raise InvalidInputError(
            f"thread {target!r} has checkpoints or writes already; copy into a new thread id, or "
            f"delete_thread({target!r}) first"
        )
    for table in _TABLES:
        rest = [column for column in table.columns if column.name != "thread_id"]
        rows = select(literal(target), *rest).where(table.c.thread_id == source)
        connection.execute(insert(table).from_select(["thread_id", *(column.name for column in rest)], rows))


def delete_thread(connection: Connection, thread_id: str) -> None:
    for table in _TABLES:
        connection.execute(delete(table).where(table.c.thread_id == thread_id))


def erase(connection: Connection) -> int:
    count, *_ = [connection.execute(delete(table)).rowcount for table in _TABLES]
    return count


# ── removing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def keep_latest(connection: Connection, thread_id: str) -> None:
    """Keep the latest checkpoint of each namespace of a thread, and bare steps with what its delta channels are rebuilt from.

    A bare step is not listed: its own state may need checkpoints that were deleted.
    """
    spaces = select(checkpoints.c.ns).where(checkpoints.c.thread_id == thread_id, WHOLE).distinct()
    for ns in connection.execute(spaces).scalars().all():
        chains = _Chains(connection, ThreadSpace(thread_id, ns))
        latest = max(node.id for node in chains.nodes.values() if node.whole)
        steps, channels = chains.needed_by(latest)
        chains.strip(steps, channels)
        chains.remove(chains.nodes.keys() - {latest, *steps})


def delete_runs(connection: Connection, run_ids: Sequence[str]) -> None:
    """Delete the checkpoints that runs wrote, with the writes and values that only these have."""
    ids_by_space: dict[ThreadSpace, set[str]] = defaultdict(set)
    query = select(checkpoints.c.thread_id, checkpoints.c.ns, checkpoints.c.id).where(
        any_of(checkpoints.c.run_id, "run_ids")
    )
    for row in connection.execute(query, {"run_ids": run_ids}):
        ids_by_space[ThreadSpace(row.thread_id, row.ns)].add(row.id)
    for space, ids in ids_by_space.items():
        chains = _Chains(connection, space)
        chains.refuse_to_strand(ids)
        is_left = any(node.whole for node in chains.nodes.values() if node.id not in ids)
        chains.remove(ids if is_left else chains.nodes.keys())


class _Chains:
    """The checkpoints of one namespace of a thread, without values."""

    def __init__(self, connection: Connection, space: ThreadSpace) -> None:
        self._connection, self._space = connection, space
        self.nodes = {row.id: _node(row) for row in self._rows(*_STEP)}
        self._stored = {row.slot for row in self._rows(channel_values.c.slot)}
        self._written: dict[str, set[str]] = defaultdict(set)
        for row in self._rows(task_writes.c.checkpoint_id, task_writes.c.channel):
            if not row.channel.startswith(_SIGNALS):
                self._written[row.checkpoint_id].add(row.channel)

    def needed_by(self, checkpoint_id: str) -> tuple[list[str], set[str]]:
        """The ancestors that a checkpoint's delta channels are rebuilt from, and these channels.

        A channel is a delta channel where a task wrote to it at a checkpoint, yet no later checkpoint has a value of it.
        """
        path = list(self._path(checkpoint_id))
        versioned = {channel for node in path for channel in node.versions}
        settled, waiting, channels, reach = set[str](), set[str](), set[str](), 0
        for depth, (child, node) in enumerate(pairwise(path), 1):
            settled |= self._valued(child)
            waiting |= (self._written.get(node.id, set()) & versioned) - settled
            channels |= waiting
            reach = depth if waiting else reach
            waiting -= self._valued(node)
        return [node.id for node in path[1 : reach + 1]], channels

    def refuse_to_strand(self, gone: set[str]) -> None:
        """Refuse to remove what the delta channels of a remaining checkpoint are rebuilt from."""
        for node in self.nodes.values():
            is_left = node.whole and node.id not in gone
            # Only where a removed one comes above it before another whole one, which would need it as well.
            above = (one for one in islice(self._path(node.id), 1, None) if one.whole or one.id in gone)
            if not is_left or (first := next(above, None)) is None or first.id not in gone:
                continue
            if not gone.isdisjoint(self.needed_by(node.id)[0]):
                raise InvalidInputError(
                    f"checkpoint {node.id} of thread {self._space.thread_id!r} is rebuilt from what these runs wrote to a "
                    "DeltaChannel; delete the runs after them as well, or the thread with delete_thread; nothing was deleted"
                )

    def strip(self, steps: list[str], channels: set[str]) -> None:
        """Remove from checkpoints everything but what these channels are rebuilt from."""
        bare = dict.fromkeys(("state_kind", "state", "metadata_kind", "metadata"))
        needed = {one: _only(self.nodes[one].versions, channels) for one in steps}
        self.nodes |= {one: self.nodes[one]._replace(versions=versions) for one, versions in needed.items()}
        self._change([{"one": one, "versions": json.dumps(versions), **bare} for one, versions in needed.items()])
        others = not_(any_of(task_writes.c.channel, "channels"))
        self._delete(task_writes.c.checkpoint_id, steps, others, channels=list(channels))

    def remove(self, gone: Collection[str]) -> None:
        """Delete checkpoints, their writes, and the values that no other names; their children get the nearest parent left."""
        left = [node for node in self.nodes.values() if node.id not in gone]
        changes: list[dict[str, str | None]] = []
        for node in left:
            if node.parent_id in gone:
                parents = (one.parent_id for one in self._path(node.id) if one.parent_id not in gone)
                changes.append({"one": node.id, "parent_id": next(parents, None)})
        self._change(changes)
        used = {slot for node in left for slot in slots_of(node.versions).values()}
        self._delete(checkpoints.c.id, gone)
        self._delete(task_writes.c.checkpoint_id, gone)
        self._delete(channel_values.c.slot, self._stored - used)

    def _rows(self, *columns: Any) -> Sequence[Any]:
        table = columns[0].table
        query = select(*columns).where(in_space(table)).distinct()
        return self._connection.execute(query, self._space._asdict()).all()

    def _change(self, values: Sequence[Mapping[str, str | None]]) -> None:
        """Change columns of the checkpoints that "one" names."""
        (thread_id, ns), row = self._space, checkpoints.c
        if values:
            one = row.thread_id == thread_id, row.ns == ns, row.id == bindparam("one")
            self._connection.execute(update(checkpoints).where(*one), values)

    def _delete(self, column: Any, values: Collection[str], *conditions: ColumnElement[bool], **more: Any) -> None:
        rows = delete(column.table).where(in_space(column.table), any_of(column, "values"), *conditions)
        self._connection.execute(rows, {**self._space._asdict(), "values": list(values), **more})

    def _path(self, checkpoint_id: str) -> Iterator[_Node]:
        seen, node = set[str](), self.nodes.get(checkpoint_id)
        while node is not None and node.id not in seen:
            seen.add(node.id)
            yield node
            node = self.nodes.get(node.parent_id or "")

    def _valued(self, node: _Node) -> set[str]:
        return {channel for channel, slot in slots_of(node.versions).items() if slot in self._stored}
