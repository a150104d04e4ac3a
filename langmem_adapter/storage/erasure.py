"""Erasure (purge) of a scope from every table, the sweep of expired memories, and the usage of each scope.

The text of a memory is also in its history, its word rows, the knowledge graph, traces and runs, and its bytes are in the
write-ahead log and in free pages. `remove` erases it from every table in one transaction, then `clean` from the files; the
vector index erases its own files. The change feed stays: it has numbers only, and tells every index which rows to drop.
"""

from __future__ import annotations

import logging
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
from langmem_adapter.storage import items, meta
from langmem_adapter.storage.conversations import conversations, notes, turns
from langmem_adapter.storage.feed import insert_changes, last_seq
from langmem_adapter.storage.jobs import jobs
from langmem_adapter.storage.queries import any_of
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
from langmem_adapter.storage.write import Write

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import ColumnElement, Connection, Select, Subquery, Table

    from langmem_adapter.storage.database import Database
    from langmem_adapter.storage.feed import Rows
    from langmem_adapter.storage.ledger import Ledger

_log = logging.getLogger("langmem_adapter")

_ERASED: Final = "erased"  # key in `meta`: number of the last change when something was erased last
_DERIVED: Final = f"vectors_{MEMORIES}_"  # beginning of the names of an index's tables inside Postgres
_COUNTED: Final = {
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
_PAGE: Final = {"yield_per": 100}
_RUN_SCOPE: Final = {name: runs.c.scope[name].as_string() for name in SCOPE_FIELDS}
_PATIENCE: Final = 5.0
_PAUSE: Final = 0.25


@dataclass(frozen=True, slots=True)
class Erasure:
    """What an erasure removed.

    It does not reach copies of the files, what a database server keeps outside its tables (its log, replicas, backups), traces
    sent to LangSmith, and a vector store that is no longer in use. The one in use, and a mirror of the
    graph, drop what was erased as soon as they follow the change feed.

    Attributes:
        memories: Memories, with their vectors.
        revisions: Rows of their histories.
        words: Rows of their words.
        relations: Relations of the knowledge graph, with their histories.
        entities: Its entities, with their names.
        traces: Traces of adds, also those of other scopes that show one of the memories or names.
        runs: Results of adds.
        turns: Messages of conversations.
        notes: Summaries and titles of conversations.
        keys: API keys that were bound to the scope.
        jobs: Adds that a server had accepted.
        items: Items of the LangGraph store. They have no scope, so only `Memory.reset` erases them.
        checkpoints: Checkpoints of LangGraph threads; the same.
        scopes: Scopes, hence names of users, agents and runs.
        files: Files of the vector index, of every embedding model; that of the model in use is written again.
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
        return not self.remains


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def remove(database: Database, scope: Scope | None) -> Erasure:
    """Remove everything within *scope* from the tables, in one transaction; `None` means all scopes."""
    return database.write(partial(_remove, scope=scope))


def erased_until(connection: Connection) -> int:
    """The number of the last change at the last erasure; a copy of an older state may have erased vectors."""
    return int(meta.get(connection, _ERASED) or 0)


def erasure_preview(connection: Connection, scope: Scope) -> Erasure:
    """What an erasure of a scope would remove, without words, runs and scopes, and without traces of other scopes."""
    tables = {name: rows for name, rows in _COUNTED.items() if name not in {"words", "runs", "scopes"}}
    queries = {
        name: select(func.count()).select_from(rows).where(belongs(rows, scope)) for name, rows in tables.items()
    }
    counts: dict[str, Any] = {name: connection.execute(query).scalar_one() for name, query in queries.items()}
    return Erasure(**counts, relations=_count_relations(connection, scope))


def _remove(connection: Connection, scope: Scope | None) -> Erasure:
    traces_of_others = None if scope is None else _TracesOfOthers(connection, scope)
    for space, rows in ((MEMORIES, memories), (RELATIONS, relations), (ENTITIES, entities)):
        pks = connection.execute(select(rows.c.pk).where(belongs(rows, scope))).scalars().all()
        insert_changes(connection, space, sorted(pks), "delete")
    _retract_statements(connection, select(scopes.c.id).where(reach(scope)))
    more: dict[str, Any] = {"relations": _count_relations(connection, scope)}
    if scope is None:
        more |= {"items": items.erase(connection), "checkpoints": threads.erase(connection)}
    counts = {rows: _delete(connection, rows, belongs(rows, scope)) for rows in reversed(metadata.sorted_tables)}
    more |= {name: counts[rows] for name, rows in _COUNTED.items()}
    for name in (reembedded.name, *_derived_tables(connection)):
        copies = table(name, column("pk"))  # a copy without a follower would keep its vectors
        _delete(connection, copies, copies.c.pk.not_in(select(memories.c.pk)))
    meta.put(connection, _ERASED, str(last_seq(connection)))
    if traces_of_others is not None:
        more["traces"] += traces_of_others.remove(connection)
        more["runs"] += traces_of_others.blank_runs(connection)
    return Erasure(**more)


def belongs(rows: Table, scope: Scope | None) -> ColumnElement[bool]:
    """The condition that a row of a table belongs to a scope, or to any; no other rows name a user, an agent or a run."""
    if rows is api_keys and scope is None:  # a key that reaches everything stays: the caller has one
        return or_(*(api_keys.c[name].is_not(None) for name in SCOPE_FIELDS))
    ids = select(scopes.c.id).where(reach(scope))
    if rows is runs:  # also those that added nothing
        names = {} if scope is None else scope.named
        return or_(runs.c.scope_id.in_(ids), and_(true(), *(_RUN_SCOPE[name] == names[name] for name in names)))
    if "scope_id" in rows.c:
        return rows.c.scope_id.in_(ids)
    if "conversation_id" in rows.c:
        return rows.c.conversation_id.in_(select(conversations.c.id).where(reach(scope, conversations)))
    return reach(scope, rows) if set(SCOPE_FIELDS) <= set(rows.c.keys()) else false()


def _count_relations(connection: Connection, scope: Scope | None) -> int:
    query = select(func.count(relations.c.id.distinct())).where(belongs(relations, scope))
    return int(connection.execute(query).scalar_one())


def _delete(connection: Connection, rows: Any, condition: ColumnElement[bool]) -> int:
    return connection.execute(delete(rows).where(condition)).rowcount


def _retract_statements(connection: Connection, ids: Select[Any]) -> None:
    """Retract what the memories of some scopes state in others, while the history still has them.

    A relation of another scope belongs to that scope and stays; where no other memory states it, it is retired.
    """
    link, is_stated = relation_memories.c, exists().where(relation_memories.c.relation_id == relations.c.id)
    own = select(history.c.memory_id).where(history.c.scope_id.in_(ids))
    elsewhere = link.memory_id.in_(own), link.scope_id.not_in(ids)
    relation_ids = connection.execute(select(link.relation_id).where(*elsewhere).distinct()).scalars().all()
    connection.execute(delete(relation_memories).where(*elsewhere))
    retracted = any_of(relations.c.id, relation_ids)
    # A relation without any memory was written by hand and stays.
    unstated = relations.c.retired_at.is_(None), is_stated, ~is_stated.where(link.dropped_at.is_(None))
    connection.execute(update(relations).where(retracted, *unstated).values(retired_at=datetime.now(UTC)))
    pks = connection.execute(select(relations.c.pk).where(retracted)).scalars().all()
    insert_changes(connection, RELATIONS, sorted(pks), "delete")


class _TracesOfOthers:
    """Traces and runs of other scopes that show something of a scope; made before it is erased."""

    def __init__(self, connection: Connection, scope: Scope) -> None:
        ids = ids_within(scope)
        memory_ids, relation_ids, *names = (
            set(connection.execute(select(column).where(column.table.c.scope_id.in_(ids)).distinct()).scalars())
            for column in (history.c.memory_id, relations.c.id, entities.c.name, entity_names.c.name)
        )
        self._scope = scope
        self._scopes = [of_row(row) for row in connection.execute(select(scopes).where(within(scope)))]
        self._memory_ids: set[str] = memory_ids
        self._relation_ids: set[str] = relation_ids
        self._names: set[str] = set().union(*names)

    def remove(self, connection: Connection) -> int:
        with connection.execute(select(traces).where(self._could_read(traces.c)), execution_options=_PAGE) as rows:
            ids = [row.id for row in rows if self._shows(of_row(row), row.state)]
        return connection.execute(delete(traces).where(any_of(traces.c.id, ids))).rowcount

    def blank_runs(self, connection: Connection) -> int:
        """Remove the texts from results of runs, and count those; the runs stay, so that none is done twice."""
        query = select(runs.c.key, runs.c.result).where(self._could_read(_RUN_SCOPE))
        with connection.execute(query, execution_options=_PAGE) as rows:
            results = [(row.key, row.result, [self._blank(change) for change in row.result]) for row in rows]
        changed = [(key, blank) for key, result, blank in results if blank != result]
        for key, blank in changed:
            connection.execute(update(runs).where(runs.c.key == key).values(result=blank))
        return len(changed)

    def _could_read(self, columns: Any) -> ColumnElement[bool]:
        if not self._scopes:
            return false()
        fields = ((columns[name], value) for name, value in self._scope.named.items())
        return and_(*(or_(field.is_(None), field == value) for field, value in fields))

    def _shows(self, scope: Scope, state: Mapping[str, Any]) -> bool:
        if any(text in self._memory_ids or text in self._relation_ids for text in _texts(state)):
            return True
        if not any(scope.covers(each) for each in self._scopes):
            return False
        # A prompt lists names of the graph without their scopes.
        prompts = "\n".join(_texts(state["work"]["usage"]["calls"]))
        return any(name in prompts for name in self._names)

    def _blank(self, change: dict[str, Any]) -> dict[str, Any]:
        if change["id"] in self._memory_ids:
            blank = replace(Change.from_json(change), text="", previous_text=None, reason="purged", relations=())
            return blank.to_json()
        rest = [each for each in change.get("relations", ()) if each["relation"]["id"] not in self._relation_ids]
        return change if rest == change.get("relations", []) else {**change, "relations": rest}


def _texts(value: object) -> Iterator[str]:
    """Every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | Sequence):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(part)


# ── files ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def clean(database: Database, erased: Erasure, *, patience: float = _PATIENCE) -> Erasure:
    """Clean the files after `remove`: rewrite an SQLite file, vacuum the tables of a server. Returns *erased*, completed.

    SQLite overwrites what it frees with zeros (`secure_delete`), but not the copies of rows that stay in a page when its tree
    is balanced. So the file is rewritten (`VACUUM`), which takes as long as a copy and needs the space of one. Readers go on
    meanwhile, writers wait. Then the write-ahead log is emptied; *patience* is how many seconds to wait for its readers.
    """
    remains = [*erased.remains]
    before = _size(database.path)
    if database.dialect == "postgresql":
        with noting(remains, "the server did not vacuum its tables; its autovacuum will, or their owner may"):
            with database.read() as connection:
                names = [rows.name for rows in metadata.sorted_tables if rows is not changes]
                names += _derived_tables(connection)
            for name in names:
                database.vacuum(name)
    elif database.path is not None:
        with noting(remains, "the file was not rewritten, so copies may be left in its pages; purge again"):
            database.maintain("VACUUM")
        with noting(remains, "the write-ahead log was not emptied; purge again"):
            remains += _empty_log(database, patience)
    return replace(erased, freed=max(0, before - _size(database.path)), remains=tuple(remains))


@contextmanager
def noting(remains: list[str], what: str) -> Iterator[None]:
    """Add *what* could not be cleaned where a step fails: the rows are erased by then, and the caller must know the rest."""
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
        time.sleep(_PAUSE / 10)  # writers get a turn
    return []


def _size(path: Path | None) -> int:
    files = () if path is None else (path, path.with_name(f"{path.name}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


def _derived_tables(connection: Connection) -> list[str]:
    """Tables of vectors that an index keeps inside Postgres, one for each length of vectors."""
    if connection.dialect.name != "postgresql":
        return []
    return [name for name in inspect(connection).get_table_names() if name.startswith(_DERIVED)]


# ── expired memories ──────────────────────────────────────────────────────────────────────────────────────────────────

_BATCH: Final = 500  # memories that are swept in one transaction
_NEVER: Final = 5e7  # minutes, about a century: the calendar has no date that long ago


class Sweeper:
    """Deletes memories that are past their `expires_at`, which hides them at once; their history stays.

    *minutes*: how often `sweep_if_due` sweeps; 0 and a century or more mean never.
    """

    def __init__(self, database: Database, ledger: Ledger, *, minutes: float) -> None:
        self._database = database
        self._ledger = ledger
        self._grace = timedelta(minutes=minutes if minutes < _NEVER else 0)
        self._next = 0.0  # at once, when the database is opened

    @property
    def due(self) -> bool:
        return bool(self._grace) and time.monotonic() >= self._next

    def sweep(self, *, before: datetime | None = None) -> int:
        """Delete and count what has expired, and was written last, by now or *before*.

        Each transaction deletes some hundred, so that other writers wait only briefly.
        """
        count = 0
        while True:
            with self._database.read() as connection:
                if not _expired(connection, before, most=1):
                    return count
            count += self._database.write(partial(self._delete, before=before))

    def sweep_if_due(self) -> int:
        """The same, at most every so many minutes. A failure is logged, and the next sweep tries again."""
        if not self.due:
            return 0
        self._next = time.monotonic() + self._grace.total_seconds()
        try:
            return self.sweep(before=datetime.now(UTC) - self._grace)
        except StorageError as error:
            _log.warning("expired memories were not swept: %s", error)
            return 0

    def _delete(self, connection: Connection, before: datetime | None) -> int:
        rows = _expired(connection, before, most=_BATCH)
        decisions = tuple(Decision("DELETE", row.id, None, "expired", time=row.expires_at) for row in rows)
        return len(self._ledger.within()(connection, Write(decisions)))


def _expired(connection: Connection, before: datetime | None, *, most: int) -> Rows:
    query = select(memories.c.id, memories.c.expires_at).where(memories.c.expires_at <= (before or datetime.now(UTC)))
    if before is not None:  # a memory written with an old date is listed as expired for a while as well
        query = query.join(history, history.c.seq == memories.c.seq).where(history.c.recorded_at <= before)
    return connection.execute(query.order_by(memories.c.pk).limit(most)).all()


# ── usage ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

SORT_KEYS: Final = ("name", "memories", "relations", "first", "last")
"""What `list_usage` can sort by."""

_SUMS: Final[dict[str, Any]] = {"memories": func.sum, "relations": func.sum, "first": func.min, "last": func.max}


@dataclass(frozen=True, slots=True)
class ScopeUsage:
    """What a user, an agent or a run has."""

    scope: Scope  # a read of it sees all that is counted here
    memories: int
    relations: int  # current and ended
    first: datetime | None  # when the earliest memory or conversation began; `None` where there is neither any more
    last: datetime | None  # when the latest of them changed


def list_usage(
    connection: Connection,
    field: str,
    scope: Scope | None = None,
    *,
    begins: str = "",
    sort: str = "-memories",
    most: int = 50,
    skipped: int = 0,
) -> list[ScopeUsage]:
    """The usage of users, agents or runs that have something, or had it and left a history."""
    rows = _usage_rows(scope, field, begins)
    query = select(rows.c[field].label("name"), *_sums(rows)).group_by(rows.c[field])
    key = query.selected_columns[sort.removeprefix("-")]
    order = (key.desc() if sort.startswith("-") else key.asc()).nulls_last()
    query = query.order_by(order, rows.c[field]).limit(most).offset(skipped)
    own = {} if scope is None else scope.named
    return [_usage(Scope(**{**own, field: row.name}), row) for row in connection.execute(query)]


def count_names(connection: Connection, field: str, scope: Scope | None = None, *, begins: str = "") -> int:
    """The number of users, agents or runs that `list_usage` lists."""
    rows = _usage_rows(scope, field, begins)
    return int(connection.execute(select(func.count(rows.c[field].distinct()))).scalar_one())


def scope_usage(connection: Connection, scope: Scope) -> ScopeUsage:
    return _usage(scope, connection.execute(select(*_sums(_usage_rows(scope)))).one())


def _usage_rows(scope: Scope | None, field: str | None = None, begins: str = "") -> Subquery:
    """A row for each exact scope, and for each conversation, with its numbers; where *field* has a name that so begins."""
    number, first, last = func.count(), func.min(memories.c.created_at), func.max(memories.c.updated_at)
    stated = select(memories.c.scope_id, number.label("number"), first.label("first"), last.label("last"))
    by_scope = stated.group_by(memories.c.scope_id).subquery()
    related = select(relations.c.scope_id, number.label("number")).where(relations.c.retired_at.is_(None))
    related_by_scope = related.group_by(relations.c.scope_id).subquery()
    numbers = [
        func.coalesce(counts.c.number, 0).label(name)
        for name, counts in (("memories", by_scope), ("relations", related_by_scope))
    ]
    of_scopes = (
        select(*OWNER, *numbers, by_scope.c.first, by_scope.c.last)
        .outerjoin_from(scopes, by_scope, by_scope.c.scope_id == scopes.c.id)
        .outerjoin(related_by_scope, related_by_scope.c.scope_id == scopes.c.id)
    )
    owner, dates = (
        [conversations.c[name] for name in SCOPE_FIELDS],
        [conversations.c.created_at, conversations.c.updated_at],
    )
    zeros = literal(0).label("memories"), literal(0).label("relations")
    selects = ((of_scopes, scopes), (select(*owner, *zeros, *dates), conversations))
    every = union_all(*(query.where(reach(scope, rows), *_has_name(rows, field, begins)) for query, rows in selects))
    return every.subquery()


def _has_name(rows: Table, field: str | None, begins: str) -> list[ColumnElement[bool]]:
    if field is None:
        return [or_(*(rows.c[name].is_not(None) for name in SCOPE_FIELDS))]
    return [rows.c[field].is_not(None), func.substr(rows.c[field], 1, len(begins)) == begins]


def _sums(rows: Subquery) -> list[Any]:
    return [join(rows.c[name]).label(name) for name, join in _SUMS.items()]


def _usage(scope: Scope, row: Any) -> ScopeUsage:
    return ScopeUsage(scope, int(row.memories or 0), int(row.relations or 0), row.first, row.last)
