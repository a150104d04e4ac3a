"""The rows that sources yield, and the one writer that makes memories, store items and messages of them, 1,000 at a time."""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar
from urllib.parse import quote
from uuid import uuid4

from sqlalchemy import create_engine, select
from sqlalchemy.exc import DBAPIError

from langmem_adapter.adapters.store import FieldIndex, vector_bytes
from langmem_adapter.arguments import parse_time
from langmem_adapter.errors import InvalidInputError, LangmemAdapterError, StorageError
from langmem_adapter.records.checks import check_text, json_object, redact_urls
from langmem_adapter.records.scope import as_iso, shallow
from langmem_adapter.storage import conversations, meta
from langmem_adapter.storage.conversations import Conversation, TurnFilter, drafts_of
from langmem_adapter.storage.drivers import path_of, url_of
from langmem_adapter.storage.feed import last_seq
from langmem_adapter.storage.items import item_id, items
from langmem_adapter.storage.lossless.export import KINDS, line_id, text_of
from langmem_adapter.storage.lossless.imports import parse_line
from langmem_adapter.storage.lossless.writer import ImportBatch, ImportLine, ImportUnit, Numbers
from langmem_adapter.storage.queries import any_of
from langmem_adapter.storage.scopes import key_of
from langmem_adapter.storage.tables import history, scopes
from langmem_adapter.text import text_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from langchain_core.messages import BaseMessage
    from sqlalchemy import Connection

    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.records.scope import Scope

T = TypeVar("T")

_BATCH: Final = 1_000
_MINUTE: Final = 60_000_000  # microseconds
_OTHER_SCOPE: Final = "a memory with this id belongs to another user here"
_PAGE: Final = 1_000
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


_COUNTED: Final = {MemoryRow: "memories", ItemRow: "items", ChatRow: "messages"}


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
        self._fields = FieldIndex(
            memory.parts.embedder, memory.parts.fingerprint, ["$"]
        )  # as MemoryStore(memory) has it
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
                if isinstance(row, SkippedRow):
                    self.report.read[row.kind] += 1
                    self.skip(row)
                else:
                    groups[type(row)].append(row)
            for kind, group in groups.items():
                self.report.read[_COUNTED[kind]] += len(group)
                self.report.read["revisions"] += sum(map(_revisions, group))
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
            self._rejected(row)
        else:
            self.report.left_out[row.reason] += 1

    def _reject(self, row: Any, reason: object) -> None:
        self.skip(SkippedRow(row.place, str(reason), is_rejected=True))
        if revisions := _revisions(row):
            self.report.left_out["history of a memory that was rejected"] += revisions

    def _with_ids(self, rows: Sequence[Any], id_of: Callable[[Any], str]) -> tuple[list[Any], list[str]]:
        """The rows with an id that can be looked up, and the ids; others are rejected."""
        pairs = []
        for row in rows:
            try:
                pairs.append((row, id_of(row)))
            except LangmemAdapterError as error:
                self._reject(row, error)
        return [row for row, _ in pairs], [id_ for _, id_ in pairs]

    def _take_memories(self, rows: list[MemoryRow]) -> None:
        rows, _ = self._with_ids(rows, lambda row: check_text(row.id, "id"))
        with self._parts.database.read() as connection:
            query = select(history.c.memory_id, scopes.c.key).join(scopes, scopes.c.id == history.c.scope_id)
            chosen = connection.execute(query.where(any_of(history.c.memory_id, [row.id for row in rows])))
            here = {row.memory_id: row.key for row in chosen}
        new: dict[str, MemoryRow] = {}
        for row in rows:
            if row.id in new or here.get(row.id, key_of(row.scope)) != key_of(row.scope):
                self._reject(row, "another memory has the same id" if row.id in new else _OTHER_SCOPE)
            elif row.id in here:
                self.report.unchanged.update(memories=1, revisions=_revisions(row))
            else:
                new[row.id] = row
        units, vectors = self._units(list(new.values())), dict[str, bytes]()
        if not self.report.is_dry_run:
            texts = list(dict.fromkeys(unit.memory["text"] for unit, _ in units if unit.memory is not None))
            made = self._parts.embedder.vectors(texts) if texts else ()
            vectors = {text: vector_bytes(each) for text, each in zip(texts, made, strict=True)}
        taken = self._import(units, vectors)
        self.report.added.update(memories=len(taken), revisions=sum(map(_revisions, taken)))
        self._count_users(taken)

    def _units(self, rows: Sequence[MemoryRow]) -> list[tuple[ImportUnit, MemoryRow]]:
        now, number, units = as_iso(datetime.now(UTC)), 0, []
        own_ids = {id_ for row in rows for id_ in _history_ids(row)}
        with self._parts.database.read() as connection:
            taken_ids = set(connection.execute(select(history.c.id).where(any_of(history.c.id, own_ids))).scalars())
        for row in rows:
            start = number
            try:
                lines: list[ImportLine] = []
                before: str | None = None
                shared = _shared_fields(row)
                for place, revision in enumerate(row.revisions, 1):
                    number += 1
                    time, is_deleted = as_iso(revision.time), revision.event == "DELETE"
                    line = {"kind": "revision", "id": line_id(row.id, place), "order": number, "revision": place}
                    line |= {"history_id": _history_ids(row)[place - 1], "memory_id": row.id, "event": revision.event}
                    if line["history_id"] in taken_ids:  # another memory's, here or in the source
                        line["history_id"] = str(uuid4())
                    taken_ids.add(line["history_id"])
                    line |= {"old_memory": before, "new_memory": None if is_deleted else revision.text}
                    line |= {"updated_at": None if revision.event == "ADD" else time, "valid_from": time}
                    line |= {"recorded_at": now, "reason": revision.reason, "is_deleted": int(is_deleted)}
                    own = {"actor_id": revision.actor_id, "role": revision.role}
                    lines.append(parse_line({**shared, **line, **{k: v for k, v in own.items() if v}}, number))
                    before = revision.text
                memory = None
                if row.revisions[-1].event != "DELETE":
                    line = {
                        "kind": "memory",
                        "id": row.id,
                        "order": number,
                        "text": before,
                        "hash": text_hash(before or ""),
                    }
                    line |= {"updated_at": as_iso(row.updated_at), "revision": len(lines), "revisions": len(lines)}
                    memory = parse_line({**shared, **line}, number)
                units.append((ImportUnit("revision", row.id, lines, memory), row))
            except LangmemAdapterError as error:
                number = start  # numbers have no gap: those of other rows follow
                self._reject(row, error)
        return units

    def _import(self, units: list[tuple[ImportUnit, Any]], vectors: Mapping[str, bytes]) -> list[Any]:
        """Take units through the writer of lossless imports; the rows of those that were taken."""
        counts = dict.fromkeys(KINDS, 0) | dict.fromkeys(("item", "scope"), len(units))
        counts["revision"] = sum(len(unit.lines) for unit, _ in units)
        parts, is_dry_run = self._parts, self.report.is_dry_run

        def post(connection: Connection) -> ImportBatch:
            none = Numbers(last_seq(connection), counts, {"conversation": 0, "note": 0})
            numbers = none if is_dry_run else Numbers.reserve(connection, counts)
            batch = ImportBatch(connection, numbers, vectors=vectors, within=None, kept={}, extends=True)
            batch.take(units[0][0].kind, [unit for unit, _ in units])
            if not is_dry_run:
                batch.post(meta.language_of(connection), parts.fingerprint, parts.fingerprint)
            return batch

        rejected = self._run(post).rejected if units else {}
        for unit, row in units:
            if unit.lines[0].number in rejected:
                self._reject(row, rejected[unit.lines[0].number])
        return [row for unit, row in units if unit.lines[0].number not in rejected]

    def _run(self, work: Callable[[Connection], T]) -> T:
        """Run work in a transaction, which of a dry run only reads."""
        if self.report.is_dry_run:
            with self._parts.database.read() as connection:
                return work(connection)
        return self._parts.database.write(work)

    def _count_users(self, rows: Iterable[MemoryRow | ChatRow]) -> None:
        for row in rows:
            self.report.users[" ".join(f"{name[:-3]}={value}" for name, value in row.scope.named.items())] += 1

    def _take_items(self, rows: list[ItemRow]) -> None:
        rows, ids = self._with_ids(rows, lambda row: item_id(row.namespace, check_text(row.key, "key")))
        with self._parts.database.read() as connection:
            here = set(connection.execute(select(items.c.id).where(any_of(items.c.id, ids))).scalars())
        new = [(row, id_) for row, id_ in zip(rows, ids, strict=True) if id_ not in here]
        self.report.unchanged["items"] += len(rows) - len(new)
        texts: list[list[str]] = [[] for _ in new]
        if not self.report.is_dry_run:
            texts = [self._fields.texts(row.value, None, f"the item {row.key!r}") for row, _ in new]
        flat = list(chain.from_iterable(texts))
        vectors = iter(self._parts.embedder.vectors(flat) if flat else ())
        units: list[tuple[ImportUnit, Any]] = []
        for (row, id_), own in zip(new, texts, strict=True):
            number = len(units) + 1
            line: dict[str, Any] = {"kind": "item", "id": id_, "namespace": list(row.namespace), "key": row.key}
            line |= {name: as_iso(getattr(row, name)) for name in ("created_at", "updated_at", "expires_at")}
            line |= {"order": number, "born": number, "vectors": [text_of(vector_bytes(next(vectors))) for _ in own]}
            try:
                line["ttl"] = None if row.ttl is None else max(1, round(row.ttl * _MINUTE))
                line["value"] = json_object(dict(row.value), "the value")
                units.append((ImportUnit("item", id_, [parse_line(line, number)]), row))
            except (LangmemAdapterError, OverflowError, ValueError) as error:
                self._reject(row, error)
        self.report.added["items"] += len(self._import(units, {}))

    def _take_messages(self, rows: list[ChatRow]) -> None:
        talks: defaultdict[Conversation, list[tuple[ChatRow, Any]]] = defaultdict(list)
        for row in rows:
            try:
                talks[Conversation(row.session, row.scope)].append((row, drafts_of([row.message])[0]))
            except LangmemAdapterError as error:
                self._reject(row, error)

        def append(connection: Connection) -> list[list[tuple[ChatRow, Any]]]:
            taken = []
            for talk, members in talks.items():
                ids = {row.message.id: (row, draft) for row, draft in members}
                stored = conversations.read(connection, talk, TurnFilter(message_ids=list(ids)))
                here = {turn.message_id for turn in stored}
                new = [each for id_, each in ids.items() if id_ not in here]
                if not self.report.is_dry_run:
                    times = [row.created_at for row, _ in new]
                    conversations.append(connection, talk, [draft for _, draft in new], times)
                taken.append(new)
            return taken

        taken = [row for members in self._run(append) for row, _ in members]
        self.report.added["messages"] += len(taken)
        self.report.unchanged["messages"] += sum(map(len, talks.values())) - len(taken)
        self._count_users(taken)


def _history_ids(row: MemoryRow) -> list[str]:
    ids = ((place, str(each.id or "")) for place, each in enumerate(row.revisions, 1))
    return [id_ if id_ and id_.isprintable() else line_id(row.id, place) for place, id_ in ids]


def _revisions(row: Any) -> int:
    """How many rows of the source's history a row has."""
    return sum(each.id is not None for each in row.revisions) if isinstance(row, MemoryRow) else 0


def _shared_fields(row: MemoryRow) -> dict[str, Any]:
    """What the line of a memory and those of its revisions have in common."""
    dates = {name: as_iso(getattr(row, name)) for name in ("created_at", "expires_at")}
    more = {"metadata": dict(row.metadata), "memory_type": row.memory_type, "context": "", "is_verbatim": False}
    return {**shallow(row.scope), **dates, **more, "actor_id": row.actor_id, "role": row.role}


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
