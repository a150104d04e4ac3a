"""The rows that sources yield, and the one writer that makes memories, store items and messages of them, 1,000 at a time."""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import accumulate, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, TypeVar
from urllib.parse import quote
from uuid import UUID, uuid4, uuid5

from langgraph.store.base import InvalidNamespaceError, PutOp
from sqlalchemy import create_engine, insert, select
from sqlalchemy.exc import DBAPIError

from langmem_adapter.adapters.store import FieldIndex, Operations, vector_bytes
from langmem_adapter.arguments import parse_time
from langmem_adapter.errors import InvalidInputError, LangmemAdapterError, StorageError
from langmem_adapter.records.checks import redact_urls
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope, as_iso, shallow
from langmem_adapter.storage import conversations, items, meta
from langmem_adapter.storage.conversations import Conversation, TurnFilter, drafts_of
from langmem_adapter.storage.drivers import path_of, url_of
from langmem_adapter.storage.feed import last_seq
from langmem_adapter.storage.lossless.kinds import KINDS, line_id, parse_line
from langmem_adapter.storage.lossless.writer import ImportBatch, Numbers
from langmem_adapter.storage.queries import any_of
from langmem_adapter.storage.scopes import key_of
from langmem_adapter.storage.tables import history, runs, scopes
from langmem_adapter.text import text_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from langchain_core.messages import BaseMessage
    from sqlalchemy import Connection

    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.storage.lossless.writer import ImportUnit

T = TypeVar("T")

DAMAGE: Final = (
    *(LangmemAdapterError, AttributeError, IndexError, KeyError),
    *(NotImplementedError, OverflowError, RecursionError, TypeError, ValueError),
)
"""What reading damaged data raises."""
NO_OWNER: Final = "that names no user, agent or run; -u NAME takes it"
HISTORY_OF_REJECTED: Final = "history of a memory that was rejected"
_BATCH: Final = 1_000
_PAGE: Final = 1_000
_LISTED: Final = 1_000
_LONGEST_ID: Final = 64
_MARKS: Final = UUID("0c1f2b52-6c0f-5a0e-8f0e-6d61726b6564")
_OTHER_SCOPE: Final = "a memory with this id belongs to another user here"
_HEADER: Final = 100
_MODES: Final = slice(18, 20)  # of the header: which journal those who write and read need


@dataclass(frozen=True, slots=True)
class RevisionRow:
    """A revision of a memory: its text from a time on; `id` is that of the source's history row, where it has one."""

    event: str
    text: str | None
    time: datetime
    id: str | None = None
    actor_id: str | None = None
    role: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRow:
    """A memory with its history, the oldest revision first; it is deleted where the last one is a DELETE."""

    kind: ClassVar = "memories"
    place: str
    id: str
    scope: Scope
    revisions: Sequence[RevisionRow]
    created_at: datetime
    updated_at: datetime
    metadata: Mapping[str, Any] = field(default_factory=dict)
    memory_type: str | None = None
    actor_id: str | None = None
    role: str | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemRow:
    """An item of a LangGraph store; *ttl* in minutes."""

    kind: ClassVar = "items"
    place: str
    namespace: tuple[str, ...]
    key: str
    value: Mapping[str, Any]
    created_at: datetime
    updated_at: datetime
    ttl: float | None
    expires_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRow:
    """A message of a conversation; the message has an id."""

    kind: ClassVar = "messages"
    place: str
    session: str
    scope: Scope
    message: BaseMessage
    created_at: datetime


@dataclass(frozen=True, slots=True)
class SkippedRow:
    """A row that is left out with a reason that many share, or rejected because it cannot be read."""

    place: str
    reason: str
    kind: str = "messages"
    is_rejected: bool = False


SourceRow: TypeAlias = MemoryRow | ItemRow | ChatRow | SkippedRow


@dataclass(slots=True)
class MigrationReport:
    """What became of the rows of a source: each that was read is added, unchanged, left out or rejected."""

    read: Counter[str] = field(default_factory=Counter)  # by kind
    added: Counter[str] = field(default_factory=Counter)
    unchanged: Counter[str] = field(default_factory=Counter)  # here already, or deleted here since
    left_out: Counter[str] = field(default_factory=Counter)  # by reason
    rejected: int = 0
    lost: Counter[str] = field(default_factory=Counter)  # parts of rows that have no place here
    users: Counter[str] = field(default_factory=Counter)
    is_dry_run: bool = False
    rejections: tuple[SkippedRow, ...] = ()  # the first thousand


class Migration:
    """Takes rows of a source into a memory, and reports what became of each; a *dry_run* writes nothing.

    A row that was taken before is known by its id and is left alone, also where it was changed or deleted here since.
    *rejected* is called with each row that could not be taken, *progress* with the number of rows so far.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        dry_run: bool = False,
        rejected: Callable[[SkippedRow], object] = lambda _: None,
        progress: Callable[[int], object] = lambda _: None,
    ) -> None:
        self.report = MigrationReport(is_dry_run=dry_run)
        self._parts = memory.parts
        self._fields = FieldIndex(self._parts.embedder, self._parts.fingerprint, ["$"])  # as MemoryStore(memory) has it
        self._rejected = rejected
        self._progress = progress

    def take(self, rows: Iterable[SourceRow]) -> MigrationReport:
        """Take every row."""
        source = iter(rows)
        takers: dict[type, Callable[[list[Any]], None]] = {
            MemoryRow: self._take_memories,
            ItemRow: self._take_items,
            ChatRow: self._take_messages,
        }
        while batch := list(islice(source, _BATCH)):
            groups: defaultdict[type, list[Any]] = defaultdict(list)
            for row in batch:
                self.report.read[row.kind] += 1
                self.report.read["revisions"] += _revisions(row)
                if isinstance(row, SkippedRow):
                    self.skip(row)
                else:
                    groups[type(row)].append(row)
            for kind, group in groups.items():
                takers[kind](group)
            self.step()
        return self.report

    def step(self) -> None:
        """Show the progress."""
        self._progress(self.report.read.total())

    def count(self, kind: str, *, is_new: bool) -> None:
        """Count a row that its source has taken itself."""
        self.report.read[kind] += 1
        (self.report.added if is_new else self.report.unchanged)[kind] += 1

    def skip(self, row: SkippedRow) -> None:
        """Count a row that is not taken, and keep it where it was rejected."""
        if row.is_rejected:
            self.report.rejected += 1
            self.report.rejections += (row,) if len(self.report.rejections) < _LISTED else ()
            self._rejected(row)
        else:
            self.report.left_out[row.reason] += 1

    def _reject(self, row: Any, reason: object) -> None:
        self.skip(SkippedRow(row.place, str(reason), is_rejected=True))
        if revisions := _revisions(row):
            self.report.left_out[HISTORY_OF_REJECTED] += revisions

    def _run(self, work: Callable[[Connection], T]) -> T:
        """Run work in a transaction, which of a dry run only reads."""
        if self.report.is_dry_run:
            with self._parts.database.read() as connection:
                return work(connection)
        return self._parts.database.write(work)

    def _count_users(self, rows: Iterable[MemoryRow | ChatRow]) -> None:
        for row in rows:
            self.report.users[" ".join(f"{name[:-3]}={value}" for name, value in row.scope.named.items())] += 1

    # Contract: an item or a thread that was taken and deleted here since does not come back; its mark is written with it.
    # tests/migration/test_langgraph.py::test_migrate_langgraph_leaves_items_and_threads_alone_that_were_deleted
    def mark(self, ids: Collection[str], write: Callable[[Connection], object] = lambda _: None) -> None:
        """Write the rows of items and threads, and in the same transaction that these are taken."""

        def work(connection: Connection) -> None:
            write(connection)
            now, keys = datetime.now(UTC), map(_mark, set(ids) - _marked(connection, ids))
            if rows := [{"key": key, "created_at": now, "result": []} for key in keys]:
                connection.execute(insert(runs), rows)

        if not self.report.is_dry_run:
            self._parts.database.write(work)

    def is_marked(self, id_: str) -> bool:
        """Whether a thread was taken before."""
        with self._parts.database.read() as connection:
            return bool(_marked(connection, [id_]))

    def _take_memories(self, rows: list[MemoryRow]) -> None:
        history_ids = [each.id for row in rows for each in row.revisions if _is_usable(each.id)]
        with self._parts.database.read() as connection:
            query = select(history.c.memory_id, scopes.c.key).join(scopes, scopes.c.id == history.c.scope_id)
            chosen = connection.execute(query.where(any_of(history.c.memory_id, [row.id for row in rows])))
            here = {row.memory_id: row.key for row in chosen}
            chosen = connection.execute(select(history.c.id).where(any_of(history.c.id, history_ids)))
            used = {row.id for row in chosen}
        new: dict[str, tuple[ImportUnit, MemoryRow]] = {}
        for row in rows:
            if row.id in new or here.get(row.id, key_of(row.scope)) != key_of(row.scope):
                self._reject(row, "another memory has the same id" if row.id in new else _OTHER_SCOPE)
            elif row.id in here:
                self.report.unchanged.update(memories=1, revisions=_revisions(row))
            else:
                try:
                    new[row.id] = _unit(row, used), row
                except LangmemAdapterError as error:
                    self._reject(row, error)
        taken = self._import(list(new.values())) if new else []
        self.report.added.update(memories=len(taken), revisions=sum(map(_revisions, taken)))
        self._count_users(taken)

    def _import(self, units: list[tuple[ImportUnit, MemoryRow]]) -> list[MemoryRow]:
        """Take units through the writer of lossless imports; the rows of those that were taken."""
        number = 0
        for unit, _ in units:
            for line in sorted(unit, key=lambda line: line["kind"] == "memory"):  # it has that of its last revision
                number += line["kind"] == "revision"
                line.number = line.row["seq"] = number
        counts = dict.fromkeys(KINDS, 0) | {"scope": len(units), "revision": number}
        parts, is_dry_run, vectors = self._parts, self.report.is_dry_run, dict[str, bytes]()
        if not is_dry_run:
            texts = list(dict.fromkeys(unit[0]["text"] for unit, _ in units if unit[0]["kind"] == "memory"))
            made = parts.embedder.vectors(texts) if texts else ()
            vectors = {text: vector_bytes(each) for text, each in zip(texts, made, strict=True)}

        def post(connection: Connection) -> ImportBatch:
            none = Numbers(last_seq(connection), counts, {"conversation": 0, "note": 0})
            numbers = none if is_dry_run else Numbers.reserve(connection, counts)
            batch = ImportBatch(connection, numbers, vectors=vectors, within=None, kept={}, extends=True)
            batch.take("revision", [unit for unit, _ in units])
            if not is_dry_run:
                batch.post(meta.language_of(connection), parts.fingerprint, None)
            return batch

        rejected = self._run(post).rejected
        for unit, row in units:
            if unit[0].number in rejected:
                self._reject(row, rejected[unit[0].number])
        return [row for unit, row in units if unit[0].number not in rejected]

    def _take_items(self, rows: list[ItemRow]) -> None:
        ids = [items.item_id(row.namespace, row.key) for row in rows]
        with self._parts.database.read() as connection:
            here = _marked(connection, ids) | _present(connection, ids)
        new: dict[str, tuple[ItemRow, PutOp]] = {}
        for id_, row in zip(ids, rows, strict=True):
            if id_ in here or id_ in new:
                self.report.unchanged["items"] += 1
                continue
            op = PutOp(row.namespace, row.key, dict(row.value), ttl=row.ttl)
            try:
                Operations([op], self._fields)
            except (LangmemAdapterError, InvalidNamespaceError, OverflowError) as error:
                self._reject(row, error)
            else:
                new[id_] = row, op
        self.report.added["items"] += len(new)
        if self.report.is_dry_run:
            return
        work, puts = Operations([op for _, op in new.values()], self._fields), dict[str, items.Put]()
        for (id_, (row, _)), put in zip(new.items(), work.puts(self._parts.embedder.vectors(work.texts)), strict=True):
            expires = None if row.expires_at is None else items.counted(row.expires_at)
            puts[id_] = replace(put, times=(items.counted(row.created_at), items.counted(row.updated_at), expires))

        def write(connection: Connection) -> None:
            meanwhile = _present(connection, puts)
            chosen = [put for id_, put in puts.items() if id_ not in meanwhile]
            items.write(connection, chosen, fingerprint=self._fields.mark)

        self.mark(puts, write)

    def _take_messages(self, rows: list[ChatRow]) -> None:
        talks: defaultdict[Conversation, dict[str | None, tuple[ChatRow, Any]]] = defaultdict(dict)
        for row in rows:
            try:
                talk, draft = Conversation(row.session, row.scope), drafts_of([row.message])[0]
            except LangmemAdapterError as error:
                self._reject(row, error)
            else:
                self.report.unchanged["messages"] += row.message.id in talks[talk]
                talks[talk].setdefault(row.message.id, (row, draft))

        def append(connection: Connection) -> list[ChatRow]:
            taken = []
            for talk, members in talks.items():
                stored = conversations.read(connection, talk, TurnFilter(message_ids=list(members)))
                here = {turn.message_id for turn in stored}
                new = [each for id_, each in members.items() if id_ not in here]
                if not self.report.is_dry_run:
                    times = [row.created_at for row, _ in new]
                    conversations.append(connection, talk, [draft for _, draft in new], times)
                taken += [row for row, _ in new]
            return taken

        taken = self._run(append)
        self.report.added["messages"] += len(taken)
        self.report.unchanged["messages"] += sum(map(len, talks.values())) - len(taken)
        self._count_users(taken)


def _mark(id_: str) -> str:
    return str(uuid5(_MARKS, id_))


def _marked(connection: Connection, ids: Iterable[str]) -> set[str]:
    keys = {_mark(id_): id_ for id_ in ids}
    return {keys[row.key] for row in connection.execute(select(runs.c.key).where(any_of(runs.c.key, list(keys))))}


def _present(connection: Connection, ids: Iterable[str]) -> set[str]:
    return {row.id for row in connection.execute(select(items.items.c.id).where(any_of(items.items.c.id, list(ids))))}


def _revisions(row: Any) -> int:
    """How many rows of the source's history a row has."""
    return sum(each.id is not None for each in row.revisions) if isinstance(row, MemoryRow) else 0


def _is_usable(id_: str | None) -> bool:
    return id_ is not None and 0 < len(id_) <= _LONGEST_ID and id_.isprintable()


def _unit(row: MemoryRow, used: set[str]) -> ImportUnit:
    """The lines of a memory, as an export has them; *used* are the ids of history rows that are not free."""
    now = as_iso(datetime.now(UTC))
    dates = {name: as_iso(getattr(row, name)) for name in ("created_at", "expires_at")}
    shared = {**shallow(row.scope), **dates, "metadata": dict(row.metadata), "memory_type": row.memory_type}
    shared |= {"context": "", "is_verbatim": False, "actor_id": row.actor_id, "role": row.role}
    lines, texts = [], [None, *(each.text for each in row.revisions)]
    times = accumulate((each.time for each in row.revisions), max)
    for place, (revision, moment) in enumerate(zip(row.revisions, times, strict=True), 1):
        id_, time, is_end = revision.id or "", as_iso(moment), revision.event == "DELETE"
        if not _is_usable(id_) or id_ in used:
            id_ = str(uuid4())
        used.add(id_)
        line = dict[str, Any](kind="revision", id=line_id(row.id, place), memory_id=row.id, history_id=id_)
        line |= {"revision": place, "event": revision.event, "old_memory": texts[place - 1]}
        line |= {"new_memory": None if is_end else revision.text, "is_deleted": int(is_end), "reason": revision.reason}
        line |= {"updated_at": None if revision.event == "ADD" else time, "valid_from": time, "recorded_at": now}
        own = {name: value for name in ("actor_id", "role") if (value := getattr(revision, name))}
        lines.append(parse_line({**shared, **line, **own}, place))
    if row.revisions[-1].event != "DELETE":
        line = {"kind": "memory", "id": row.id, "text": texts[-1], "updated_at": as_iso(row.updated_at)}
        line |= {"hash": text_hash(texts[-1] or ""), "revision": len(lines), "revisions": len(lines)}
        lines.insert(0, parse_line({**shared, **line}, len(lines)))
    return lines


def owner_of(fields: Mapping[str, Any], owner: Scope | None) -> Scope | None:
    """The scope of a row: what its fields name, else the owner of rows that name none."""
    named = {name: str(fields[name]) for name in SCOPE_FIELDS if fields.get(name)}
    return Scope(**named) if named else owner


def row_or_rejection(place: str, kind: str, make: Callable[[], SourceRow]) -> SourceRow:
    """The row that a function makes; a rejected one where the source's data are damaged."""
    try:
        return make()
    except DAMAGE as error:
        return SkippedRow(place, str(error), kind, is_rejected=True)


def time_of(value: object) -> datetime | None:
    """A time of a source: ISO 8601, seconds since 1970 or a `datetime`, in UTC where it has no offset; `None` where empty."""
    if value is None or value == "":
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return parse_time(value if is_number or isinstance(value, datetime) else str(value), "time")


def read_only(path: Path) -> sqlite3.Connection:
    """An SQLite file, opened read-only."""
    # Contract: the source's bytes are unchanged, and no file is made beside it. SQLite makes a -wal file to read a database
    # of that mode, unless it may take the file as it is; it may where no -wal file says that another program is there.
    # tests/migration/test_mem0.py::test_migrate_mem0_leaves_the_source_unchanged_while_mem0_holds_its_lock
    with path.open("rb") as file:
        is_wal = file.read(_HEADER)[_MODES] == b"\2\2"
    still = "&immutable=1" if is_wal and not Path(f"{path}-wal").exists() else ""
    connection = sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?mode=ro{still}", uri=True, check_same_thread=False
    )
    # Contract: text that is no UTF-8 costs its row, not the migration.
    # tests/migration/test_mem0.py::test_migrate_mem0_rejects_a_damaged_history_row_alone
    connection.text_factory = lambda content: content.decode(errors="surrogateescape")
    return connection


@contextmanager
def open_source(address: str | Path) -> Iterator[Connection]:
    """An SQLite file or Postgres database of another program, opened read-only for one transaction."""
    url = url_of(address)
    path = path_of(url)
    if path is not None and not path.is_file():
        raise InvalidInputError(f"there is no file {path}")
    engine = create_engine(url) if path is None else create_engine("sqlite://", creator=lambda: read_only(path))
    reading: dict[str, Any] = (
        {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True} if path is None else {}
    )
    try:
        with engine.connect().execution_options(yield_per=_PAGE, **reading) as connection:
            yield connection
    except DBAPIError as error:
        raise StorageError(f"the source cannot be read: {redact_urls(str(error.orig))}") from error
    finally:
        engine.dispose()
