"""Erasure of a scope from every table, and the usage of each scope.

Deleting a row is not enough. Its text also stands in the history, in the rows of its words, in the knowledge graph, in what
an add saw (traces) and answered (runs), and its bytes in the write-ahead log and in free pages. `remove` takes it out of every
table in one transaction, `clean` out of the files after that; the files of the vector index are the index's own affair. The
change feed stays, since it holds numbers only: it tells every index, in every process, which rows to forget.

Also here: `Sweeper`, which deletes what is past its `expires_at`. That is an ordinary deletion, and its history stays.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import (
    and_,
    column,
    delete,
    exists,
    false,
    func,
    insert,
    inspect,
    literal,
    or_,
    select,
    table,
    true,
    union_all,
    update,
)

from langmem_adapter.errors import LangmemAdapterError, StorageError
from langmem_adapter.records.results import Change, Decision
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope
from langmem_adapter.storage import checkpoints as threads
from langmem_adapter.storage import item_writes, meta
from langmem_adapter.storage.conversations import conversations, notes, turns
from langmem_adapter.storage.feed import last_seq
from langmem_adapter.storage.jobs import jobs
from langmem_adapter.storage.prepared_statements import any_of
from langmem_adapter.storage.scopes import OWNER, ids_within, of_row, reach, within
from langmem_adapter.storage.tables import (
    ENTITIES,
    MEMORIES,
    RELATIONS,
    api_keys,
    changes,
    entities,
    entity_names,
    history,
    memories,
    metadata,
    reembedded,
    relation_memories,
    relations,
    runs,
    scopes,
    traces,
    words,
)
from langmem_adapter.storage.writes import Write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sqlalchemy import ColumnElement, Connection, Select, Subquery, Table

    from langmem_adapter.storage.database import Database
    from langmem_adapter.storage.feed import Rows
    from langmem_adapter.storage.ledger import Ledger

_PAGE: Final = {"yield_per": 100}
_RAN_FOR: Final = {name: runs.c.scope[name].as_string() for name in SCOPE_FIELDS}


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What is known of a scope that is to be erased, and may stand in traces and runs of others: ids and names."""

    scope: Scope | None = None
    owners: tuple[Scope, ...] = ()
    memories: frozenset[str] = frozenset()
    relations: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()

    def traces(self, connection: Connection) -> int:
        """Remove the traces that show something of it; how many there were."""
        query = select(traces).where(self._seen_by(traces.c))
        with connection.execute(query, execution_options=_PAGE) as rows:
            gone = [row.id for row in rows if self._shows(of_row(row), row.state)]
        return connection.execute(delete(traces).where(any_of(traces.c.id, gone))).rowcount

    def runs(self, connection: Connection) -> int:
        """Take it out of the answers that hold some of it; how many there were.

        The runs stay, without the texts: a run of another scope must still know that it was done.
        """
        query = select(runs.c.key, runs.c.result).where(self._seen_by(_RAN_FOR))
        with connection.execute(query, execution_options=_PAGE) as rows:
            told = [(row.key, row.result, [self._blank(change) for change in row.result]) for row in rows]
        changed = [(key, blank) for key, result, blank in told if blank != result]
        for key, blank in changed:
            connection.execute(update(runs).where(runs.c.key == key).values(result=blank))
        return len(changed)

    def _seen_by(self, owner: Any) -> ColumnElement[bool]:
        """Condition on the three fields, by their names: an add of this owner may have looked at it."""
        if self.scope is None or not self.owners:
            return false()
        fields = ((owner[name], value) for name, value in self.scope.named.items())
        return and_(*(or_(field.is_(None), field == value) for field, value in fields))

    def _shows(self, owner: Scope, state: Mapping[str, Any]) -> bool:
        known = self.memories | self.relations
        if any(text in known for text in _texts(state)):
            return True
        if not any(owner.covers(each) for each in self.owners):
            return False
        # A prompt lists names that the graph knows, and says of none of them whose it is.
        told = "\n".join(_texts(state["work"]["usage"]["calls"]))
        return any(name in told for name in self.names)

    def _blank(self, change: dict[str, Any]) -> dict[str, Any]:
        if change["id"] in self.memories:
            gone = replace(Change.from_json(change), text="", previous_text=None, reason="purged", relations=())
            return gone.to_json()
        kept = [each for each in change.get("relations", ()) if each["relation"]["id"] not in self.relations]
        return change if kept == change.get("relations", []) else {**change, "relations": kept}


def leftovers_of(connection: Connection, scope: Scope) -> Leftovers:
    """What to look for in the traces and runs of others; to be asked before anything is removed."""
    rows = connection.execute(select(scopes).where(within(scope))).all()
    ids = ids_within(scope)
    memories, related, named, called = (
        frozenset[str](connection.execute(select(column).where(column.table.c.scope_id.in_(ids)).distinct()).scalars())
        for column in (history.c.memory_id, relations.c.id, entities.c.name, entity_names.c.name)
    )
    return Leftovers(scope, tuple(map(of_row, rows)), memories, related, named | called)


def ran_for(scope: Scope | None) -> ColumnElement[bool]:
    """Condition on runs: they were of a scope within this one, also those that added nothing."""
    return and_(true(), *(_RAN_FOR[name] == value for name, value in ({} if scope is None else scope.named).items()))


def _texts(value: object) -> Iterator[str]:
    """Every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, Sequence):
        for part in value:
            yield from _texts(part)


_link: Final = relation_memories.c
_of_it: Final = exists().where(_link.relation_id == relations.c.id)


def unsay(connection: Connection, ids: Select[Any], tell: Callable[[Connection, str, Sequence[int]], None]) -> None:
    """Take back what the memories of some scopes say in others, while their history still says which memories are theirs.

    A relation of another scope that one of these memories said as well is that scope's own, names and all, and stays; it
    is believed no longer where no other memory says it. *tell* takes a space of the change feed and the rows that go from it.
    """
    theirs = select(history.c.memory_id).where(history.c.scope_id.in_(ids))
    elsewhere = _link.memory_id.in_(theirs), _link.scope_id.not_in(ids)
    said = connection.execute(select(_link.relation_id).where(*elsewhere).distinct()).scalars().all()
    connection.execute(delete(relation_memories).where(*elsewhere))
    named = any_of(relations.c.id, said)
    # One without any memory was written by hand, and stands.
    silent = relations.c.retired_at.is_(None), _of_it, ~_of_it.where(_link.dropped_at.is_(None))
    connection.execute(update(relations).where(named, *silent).values(retired_at=datetime.now(UTC)))
    tell(connection, RELATIONS, connection.execute(select(relations.c.pk).where(named)).scalars().all())


_log = logging.getLogger("langmem_adapter")

_ERASED: Final = "erased"  # key in `meta`: number of the last change when something was erased last
_DERIVED: Final = f"vectors_{MEMORIES}_"  # beginning of the names of an index's tables inside Postgres
COUNTED: Final = {
    "memories": memories,
    "revisions": history,
    "words": words,
    "entities": entities,
    "traces": traces,
    "runs": runs,
    "turns": turns,
    "notes": notes,
    "keys": api_keys,
    "jobs": jobs,
    "scopes": scopes,
}
"""What an `Erasure` counts row by row."""
_SWEPT: Final = 500  # in one transaction
_PATIENCE: Final = 5.0
_PAUSE: Final = 0.25
_NEVER: Final = 5e7  # minutes, about a century: the calendar has no date that long ago


@dataclass(frozen=True, slots=True)
class Erasure:
    """What an erasure removed.

    Not ours to erase, but for whoever administers them: copies of the files, what a database server keeps outside its tables
    (its own log, replicas, backups), traces sent to LangSmith, threads of a graph, and a vector store that is no longer
    in use; the one in use, and a mirror of the graph, drop what was erased as soon as they follow the change feed.

    Attributes:
        memories: Memories, with their vectors.
        revisions: Rows of their histories.
        words: Rows of their words.
        relations: Relations of the knowledge graph, with all that was ever believed of them.
        entities: Entities of it, with their names.
        traces: Records of what an add saw and did; also those of other scopes that show one of the memories or names.
        runs: Records of what an add answered.
        turns: Messages of conversations.
        notes: What was made of them: summaries, titles.
        keys: Keys of the server that were bound to the scope.
        jobs: Adds that a server was to carry out, or had.
        items: Items of the LangGraph store, which belong to no scope: only where everything is erased.
        checkpoints: Those of LangGraph threads; the same.
        scopes: Scopes, hence names of users, agents and runs.
        files: Files of the vector index, of every embedding model; that of the model in use is written anew.
        freed: Bytes by which SQLite's file and its write-ahead log are smaller.
        remains: What could not be cleaned yet, and what to do about it; empty where nothing remains.
    """

    memories: int = 0
    revisions: int = 0
    words: int = 0
    relations: int = 0
    entities: int = 0
    traces: int = 0
    turns: int = 0
    notes: int = 0
    keys: int = 0
    jobs: int = 0
    items: int = 0
    checkpoints: int = 0
    runs: int = 0
    scopes: int = 0
    files: int = 0
    freed: int = 0
    remains: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether nothing remains."""
        return not self.remains


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def remove(database: Database, scope: Scope | None) -> Erasure:
    """Remove everything within *scope* from the tables, in one transaction; `None` means everything of everybody."""
    return database.write(partial(_remove, scope=scope))


def erased_until(connection: Connection) -> int:
    """Number of the last change when something was erased last; a copy of an older state may hold erased vectors."""
    return int(meta.get(connection, _ERASED) or 0)


def _remove(connection: Connection, scope: Scope | None) -> Erasure:
    strays = Leftovers() if scope is None else leftovers_of(connection, scope)
    for space, kept in ((MEMORIES, memories), (RELATIONS, relations), (ENTITIES, entities)):
        _tell(connection, space, connection.execute(select(kept.c.pk).where(belongs(kept, scope))).scalars().all())
    unsay(connection, select(scopes.c.id).where(reach(scope)), _tell)
    related = connection.execute(related_to(scope)).scalar_one()
    guests = (item_writes.erase(connection), threads.erase(connection)) if scope is None else (0, 0)
    gone = {rows: _delete(connection, rows, belongs(rows, scope)) for rows in reversed(metadata.sorted_tables)}
    counts: dict[str, Any] = {name: gone[rows] for name, rows in COUNTED.items()}
    found = Erasure(**counts, relations=related, items=guests[0], checkpoints=guests[1])
    for name in (reembedded.name, *_derived_tables(connection)):
        copies = table(name, column("pk"))  # one that nobody follows any more would keep its vectors
        _delete(connection, copies, copies.c.pk.not_in(select(memories.c.pk)))
    meta.put(connection, _ERASED, str(last_seq(connection)))
    told = strays.traces(connection), strays.runs(connection)
    return replace(found, traces=found.traces + told[0], runs=found.runs + told[1])


def belongs(rows: Table, scope: Scope | None) -> ColumnElement[bool]:
    """Condition on the rows of a table that are of a scope, or of anybody; nothing else in the database names somebody."""
    if rows is api_keys and scope is None:  # a key that reaches everything names nobody, and whoever erases has one
        return or_(*(api_keys.c[name].is_not(None) for name in SCOPE_FIELDS))
    ids = select(scopes.c.id).where(reach(scope))
    if rows is runs:
        return or_(runs.c.scope_id.in_(ids), ran_for(scope))
    if "scope_id" in rows.c:
        return rows.c.scope_id.in_(ids)
    if "conversation_id" in rows.c:
        return rows.c.conversation_id.in_(select(conversations.c.id).where(reach(scope, conversations)))
    return reach(scope, rows) if set(SCOPE_FIELDS) <= set(rows.c.keys()) else false()


def related_to(scope: Scope | None) -> Select[Any]:
    """How many relations there are, whatever was believed of each."""
    return select(func.count(relations.c.id.distinct())).where(belongs(relations, scope))


def _tell(connection: Connection, space: str, pks: Sequence[int]) -> None:
    rows = [
        {"seq": seq, "nonce": secrets.token_bytes(8), "space": space, "row": pk, "op": "delete"}
        for seq, pk in enumerate(sorted(pks), last_seq(connection) + 1)
    ]
    if rows:
        connection.execute(insert(changes), rows)


def _delete(connection: Connection, rows: Any, condition: ColumnElement[bool]) -> int:
    return connection.execute(delete(rows).where(condition)).rowcount


# ── files ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def clean(database: Database, erased: Erasure, *, patience: float = _PATIENCE) -> Erasure:
    """Leave no trace in the files, after `remove`: rewrite an SQLite file, vacuum the tables of a server.

    SQLite overwrites with zeros whatever it frees (`secure_delete`), but not the copies of rows that stay behind in a page
    when its tree is balanced, so the file is rewritten (`VACUUM`): that takes as long as copying it, and room for a second
    copy. Readers go on meanwhile, writers wait. Then the write-ahead log is emptied.

    Args:
        database: Where something was removed.
        erased: What `remove` reported; it is given back completed.
        patience: Seconds to wait for readers that still need the log.
    """
    remains = [*erased.remains]
    before = _size(database.path)
    if database.dialect == "postgresql":
        with noting(remains, "the server did not vacuum its tables; its autovacuum will, or their owner may"):
            _vacuum_tables(database)
    elif database.path is not None:
        with noting(remains, "the file was not rewritten, so copies may be left in its pages; purge again"):
            database.maintain("VACUUM")
        with noting(remains, "the write-ahead log was not emptied; purge again"):
            remains += _empty_log(database, patience)
    return replace(erased, freed=max(0, before - _size(database.path)), remains=tuple(remains))


@contextmanager
def noting(remains: list[str], what: str) -> Iterator[None]:
    """Add *what* could not be cleaned where a step fails: the rows are gone by then, and who erases must learn the rest."""
    try:
        yield
    except (OSError, LangmemAdapterError) as error:
        remains.append(f"{what} ({error})")


def _empty_log(database: Database, patience: float) -> list[str]:
    end = time.monotonic() + patience
    while database.maintain("PRAGMA wal_checkpoint(TRUNCATE)", timeout=_PAUSE)[0][0]:
        if time.monotonic() > end:
            return [
                "another connection is reading, and keeps what was erased in the write-ahead log; purge again later"
            ]
        time.sleep(_PAUSE / 10)  # whoever wants to write gets a turn
    return []


def _size(path: Path | None) -> int:
    files = () if path is None else (path, path.with_name(f"{path.name}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


def _vacuum_tables(database: Database) -> None:
    with database.read() as connection:
        names = [rows.name for rows in metadata.sorted_tables if rows is not changes] + _derived_tables(connection)
    for name in names:
        database.vacuum(name)


def _derived_tables(connection: Connection) -> list[str]:
    """Tables of vectors that an index keeps inside Postgres, for each length of vectors that there ever was."""
    if connection.dialect.name != "postgresql":
        return []
    return [name for name in inspect(connection).get_table_names() if name.startswith(_DERIVED)]


# ── what has expired ──────────────────────────────────────────────────────────────────────────────────────────────────


class Sweeper:
    """Deletes memories that are past their `expires_at`; they were hidden at once, and their history stays.

    *minutes*: how often `sweep_if_due` looks; 0 and a century or more never sweep unasked.
    """

    def __init__(self, database: Database, ledger: Ledger, *, minutes: float) -> None:
        self._database = database
        self._ledger = ledger
        self._grace = timedelta(minutes=minutes if minutes < _NEVER else 0)
        self._next = 0.0  # at once, when the database is opened

    @property
    def due(self) -> bool:
        """Whether it is time to look."""
        return bool(self._grace) and time.monotonic() >= self._next

    def sweep(self, *, before: datetime | None = None) -> int:
        """Delete and count what has expired, and was written last, by now or *before*.

        Some hundred go at a time, so that nobody waits long for the write lock; those stay deleted where the next ones fail.
        """
        count = 0
        while self._finds(before):
            count += self._database.write(partial(self._delete, before=before))
        return count

    def sweep_if_due(self) -> int:
        """The same, at most every so many minutes. What fails is logged and tried again then: nobody asked for it."""
        if not self.due:
            return 0
        self._next = time.monotonic() + self._grace.total_seconds()
        try:
            return self.sweep(before=datetime.now(UTC) - self._grace)
        except StorageError as error:
            _log.warning("expired memories were not swept: %s", error)
            return 0

    def _finds(self, before: datetime | None) -> bool:
        with self._database.read() as connection:
            return bool(_expired(connection, before, most=1))

    def _delete(self, connection: Connection, before: datetime | None) -> int:
        rows = _expired(connection, before, most=_SWEPT)
        decisions = tuple(Decision("DELETE", row.id, None, "expired", time=row.expires_at) for row in rows)
        return len(self._ledger.within()(connection, Write(decisions)))


def _expired(connection: Connection, before: datetime | None, *, most: int) -> Rows:
    query = select(memories.c.id, memories.c.expires_at).where(memories.c.expires_at <= (before or datetime.now(UTC)))
    if before is not None:  # a memory written with a date long past is shown as expired for a while as well
        query = query.join(history, history.c.seq == memories.c.seq).where(history.c.recorded_at <= before)
    return connection.execute(query.order_by(memories.c.pk).limit(most)).all()


ORDERS: Final = ("name", "memories", "relations", "first", "last")
"""What a list of holders can be sorted by."""

_SUMS: Final[dict[str, Any]] = {"memories": func.sum, "relations": func.sum, "first": func.min, "last": func.max}


@dataclass(frozen=True, slots=True)
class Holder:
    """Somebody who has something here.

    Attributes:
        scope: A read of it sees all that is counted here, whatever its other fields are.
        memories: How many.
        relations: How many that are believed.
        first: The date of the earliest memory, or when the earliest conversation began; `None` where there is neither any more.
        last: When the latest of them changed.
    """

    scope: Scope
    memories: int
    relations: int
    first: datetime | None
    last: datetime | None


def holders(
    connection: Connection,
    field: str,
    scope: Scope | None = None,
    *,
    begins: str = "",
    sort: str = "-memories",
    most: int = 50,
    skipped: int = 0,
) -> list[Holder]:
    """Some of the users, agents or runs (*field*) that have something, or had it and left a history.

    Args:
        connection: A read transaction.
        field: One of `SCOPE_FIELDS`.
        scope: Within which; `None` for everybody.
        begins: How their names begin.
        sort: One of `ORDERS`, then by name; a `-` in front of it reverses the first.
        most: At most so many.
        skipped: How many of the first are left out.
    """
    rows = _named(field, scope, begins)
    found = select(rows.c.name, *_sums(rows)).group_by(rows.c.name)
    by = found.selected_columns[sort.removeprefix("-")]
    order = (by.desc() if sort.startswith("-") else by.asc()).nulls_last()
    query = found.order_by(order, rows.c.name).limit(most).offset(skipped)
    own = {} if scope is None else scope.named
    return [_holder(Scope(**{**own, field: row.name}), row) for row in connection.execute(query)]


def number_of(connection: Connection, field: str, scope: Scope | None = None, *, begins: str = "") -> int:
    """How many there are of `holders`."""
    rows = _named(field, scope, begins)
    return int(connection.execute(select(func.count(rows.c.name.distinct()))).scalar_one())


def holder(connection: Connection, scope: Scope) -> Holder:
    """What is within a scope."""
    rows = _rows(scope).subquery()
    return _holder(scope, connection.execute(select(*_sums(rows))).one())


def held(connection: Connection, scope: Scope) -> Erasure:
    """What an erasure of a scope would remove, as far as a user would ask for it.

    Traces and answers of others that show something of it are not looked for: that takes reading all of them.
    """
    shown = {name: rows for name, rows in COUNTED.items() if name not in {"words", "runs", "scopes"}}
    counts = {name: select(func.count()).select_from(rows).where(belongs(rows, scope)) for name, rows in shown.items()}
    found: dict[str, Any] = {name: connection.execute(query).scalar_one() for name, query in counts.items()}
    return Erasure(**found, relations=connection.execute(related_to(scope)).scalar_one())


# ── rows ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _rows(scope: Scope | None) -> Any:
    """A row for each exact scope, and for each conversation, with what it has."""
    said, nothing = conversations.c, _numbers(literal(0), literal(0))
    talks = select(*(said[name] for name in SCOPE_FIELDS), *nothing, said.created_at, said.updated_at)
    return union_all(_kept().where(_inside(scope, scopes)), talks.where(_inside(scope, conversations)))


def _kept() -> Select[Any]:
    number, first, last = func.count(), func.min(memories.c.created_at), func.max(memories.c.updated_at)
    stated = select(memories.c.scope_id, number.label("number"), first.label("first"), last.label("last"))
    remembered = stated.group_by(memories.c.scope_id).subquery()
    believed = select(relations.c.scope_id, number.label("number")).where(relations.c.retired_at.is_(None))
    related = believed.group_by(relations.c.scope_id).subquery()
    numbers = _numbers(remembered.c.number, related.c.number)
    return (
        select(*OWNER, *numbers, remembered.c.first, remembered.c.last)
        .outerjoin_from(scopes, remembered, remembered.c.scope_id == scopes.c.id)
        .outerjoin(related, related.c.scope_id == scopes.c.id)
    )


def _inside(scope: Scope | None, table: Table) -> ColumnElement[bool]:
    return and_(reach(scope, table), or_(*(table.c[name].is_not(None) for name in SCOPE_FIELDS)))


def _numbers(kept: Any, related: Any) -> tuple[Any, Any]:
    return func.coalesce(kept, 0).label("memories"), func.coalesce(related, 0).label("relations")


def _named(field: str, scope: Scope | None, begins: str) -> Subquery:
    rows = _rows(scope).subquery()
    name = rows.c[field]
    fits = true() if not begins else func.substr(name, 1, len(begins)) == begins
    return select(name.label("name"), *(rows.c[each] for each in _SUMS)).where(and_(name.is_not(None), fits)).subquery()


def _sums(rows: Subquery) -> list[Any]:
    return [join(rows.c[name]).label(name) for name, join in _SUMS.items()]


def _holder(scope: Scope, row: Any) -> Holder:
    return Holder(scope, int(row.memories or 0), int(row.relations or 0), row.first, row.last)
