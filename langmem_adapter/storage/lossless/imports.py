"""Lossless import: lines of an export become rows again, resumable, and under another scope where asked."""

from __future__ import annotations

import json
import sqlite3
from codecs import BOM_UTF8
from collections import ChainMap, Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np
from sqlalchemy import select

from langmem_adapter.errors import ConflictError, InvalidInputError, LangmemAdapterError, StorageError
from langmem_adapter.names import owner_id, owner_key
from langmem_adapter.records.checks import check_text, quoted
from langmem_adapter.records.graph import ASSISTANT, SELF
from langmem_adapter.records.scope import Scope, shallow
from langmem_adapter.storage import meta
from langmem_adapter.storage.conversations import Conversation
from langmem_adapter.storage.erasure import erased_until
from langmem_adapter.storage.feed import last_seq
from langmem_adapter.storage.lossless.export import FORMAT, KINDS, VERSION, as_vector
from langmem_adapter.storage.lossless.writer import ImportBatch, ImportLine, ImportUnit, Numbers, scope_of
from langmem_adapter.storage.queries import any_of
from langmem_adapter.storage.scopes import id_within, key_of
from langmem_adapter.storage.tables import memories

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from langmem_adapter.storage.database import Database

_BATCH: Final = 500  # units of one transaction
_MOST: Final = 5_000  # lines of a batch, where units have many
_LISTED: Final = 1_000
_CACHE: Final = 48_000  # kibibytes
_CHECKPOINT: Final = 16_000  # pages of the write-ahead log: a third less is written than with SQLite's 1,000
_ROWS: Final = 2**32
_GROUPED: Final = {"relation", "revision"}
"""Kinds of which several lines make a unit."""
_IDS: Final = {"winner", "loser", "relation_id", "source", "target", "history_id", "memory_id", "past_of", "links"}
_CUT: Final = "the file ends before its last line"
_WRONG: Final = "the digest in the last line is another one: lines were changed, lost or added since the export"
_CHANGED: Final = (
    "{} lines of this file were imported before, and it has changed since then; import it again: it begins anew, and lines "
    "that are here are known"
)


@dataclass(frozen=True, slots=True)
class RejectedLine:
    """A line that was not imported.

    Attributes:
        line: Its number in the file, from 1.
        reason: Why.
    """

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The result of an import, earlier attempts at the same file included.

    Attributes:
        lines: How many were read, without the first and the last.
        added: How many are new here.
        known: How many were here already.
        rejected: How many were not taken.
        embedded: How many texts were embedded.
        resumed_at: The line that it went on from; 0 where it began anew.
        problem: Why the file as a whole is not what was exported; empty where it is.
        is_dry_run: Whether nothing was written.
        kinds: How many of each kind are new.
        rejections: The first thousand lines that were not taken.
    """

    lines: int = 0
    added: int = 0
    known: int = 0
    rejected: int = 0
    embedded: int = 0
    resumed_at: int = 0
    problem: str = ""
    is_dry_run: bool = False
    kinds: Mapping[str, int] = field(default_factory=dict)
    rejections: tuple[RejectedLine, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether all that was exported is here."""
        return not self.rejected and not self.problem


@dataclass(slots=True)
class _Position:
    """How far an import has come, and with which numbers."""

    base: int
    serials: Mapping[str, int]
    erased: int = 0  # the last change when something was erased last
    line: int = 0
    digest: str = ""  # of the lines up to there
    name: str = ""  # of the file
    counts: Counter[str] = field(default_factory=Counter)
    added: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)  # conversations that are others here

    @classmethod
    def load(cls, connection: Connection, key: str) -> _Position | None:
        """The position of an earlier attempt."""
        stored = meta.get(connection, key)
        if stored is None:
            return None
        position = cls(**json.loads(stored))
        position.counts, position.added = Counter(position.counts), Counter(position.added)
        return position

    def save(self, connection: Connection, key: str) -> None:
        """Keep it."""
        meta.put(connection, key, json.dumps(shallow(self)))

    def restarted(self, **changes: Any) -> _Position:
        """The same numbers, from the first line on."""
        return replace(_Position(self.base, self.serials, self.erased, name=self.name), **changes)


def ignore_report(*_: object) -> None:
    """Ignore what an import reports."""


@dataclass(eq=False)
class LosslessImport:
    """Imports the lines of a lossless export into a database.

    Args:
        database: Where to.
        fingerprint: The embedding model of memories.
        embed: Gives the vectors of texts.
        announce: Gets the number of memories before the first text is embedded.
        within: The scope that all lines must lie in; `None` for any.
        renamed: The other name of the one scope that is imported: `{"user_id": "bob"}`.
        name: What the lines are called, for the position that is kept while they are not all imported.
        dry_run: Write nothing, and count.
        rejected: Gets each line that is rejected.
        progress: Gets the number of lines that are done, and of all, after each 500.
    """

    database: Database
    fingerprint: str
    embed: Callable[[Sequence[str]], NDArray[Any]]
    announce: Callable[[int], object] = ignore_report
    within: Scope | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    dry_run: bool = False
    rejected: Callable[[RejectedLine], object] = ignore_report
    progress: Callable[[int, int], object] = ignore_report

    def run(self, lines: Iterable[bytes | str]) -> ImportReport:
        """Take in every line."""
        if not isinstance(lines, Iterable) or isinstance(lines, str | bytes):
            raise InvalidInputError("import_ takes the lines of an export: an open file, or what export() gives")
        source = map(_as_bytes, lines)
        with closing(sqlite3.connect("")) as waiting:
            self._prepare(next(source, b""), waiting)
            return self._run(source)

    def _prepare(self, first: bytes, waiting: sqlite3.Connection) -> None:
        self._head = read_header(first)
        self._scope_names = _ScopeNames(self.renamed)
        # Contract: an import within a scope neither moves the position of another one, nor uses its numbers.
        # tests/storage/test_lossless.py::test_import_within_a_scope_leaves_the_position_of_other_imports
        target = json.dumps([*self.renamed.items(), self.within and self.within.named]).encode()
        self._key = f"import:{sha256(first.strip() + target).hexdigest()[:48]}"
        self._digest = sha256()
        self._number = 1
        self._position = _Position(0, {})
        self._kept: dict[tuple[str, Any], Any] = {}
        # Memories wait here for their revisions, which come later in the file.
        self._waiting = waiting
        self._waiting.execute("CREATE TABLE waiting (id TEXT PRIMARY KEY, number INTEGER, line BLOB) WITHOUT ROWID")
        marks = self._head.get("vectors") or {}
        self._uses_vectors = marks.get("memory") == self.fingerprint
        self._item_mark = marks.get("item")
        self._dimensions = self._embedded = 0
        self._rejections: list[RejectedLine] = []

    def _run(self, source: Iterator[bytes]) -> ImportReport:
        total = sum(self._head["counts"].values())
        if self.dry_run:
            with self.database.read() as connection:
                none = _Position(last_seq(connection), {"conversation": 0, "note": 0})
                self._position = (_Position.load(connection, self._key) or none).restarted()
        else:
            self._position = self.database.write(self._begin)
            self._kept |= {("conversation", key): None for key in self._position.refused}
        self._numbers = Numbers(self._position.base, self._head["counts"], self._position.serials)
        resumed = self._position.line
        self.progress(resumed, total)
        batch: list[ImportUnit] = []
        size = 0
        for unit in self._units(source):
            batch.append(unit)
            size += len(unit.lines)
            if len(batch) == _BATCH or size > _MOST:
                self._write(batch)
                self.progress(self._number, total)
                batch, size = [], 0
        self._write(batch)
        self._finish()
        counts = self._position.counts
        return ImportReport(
            lines=self._number - 1,
            added=sum(self._position.added.values()),
            **{each: counts[each] for each in ("known", "rejected", "embedded")},
            resumed_at=resumed + 1 if resumed > 1 else 0,
            problem=self._problem,
            is_dry_run=self.dry_run,
            kinds=dict(sorted(self._position.added.items())),
            rejections=tuple(sorted(self._rejections, key=attrgetter("line"))),
        )

    # ── the position ────────────────────────────────────────────────────────────────────────────────────────────────

    def _begin(self, connection: Connection) -> _Position:
        position, erased = _Position.load(connection, self._key), erased_until(connection)
        if position is None:
            numbers = Numbers.reserve(connection, self._head["counts"])
            position = _Position(numbers.base, numbers.serials, erased)
        elif position.erased != erased:  # what was here may be gone
            position = position.restarted(erased=erased)
        position.name = self.name or position.name
        position.save(connection, self._key)
        return position

    def _finish(self) -> None:
        """Forget the position of a file that is done; keep the numbers where it can still be mended or completed."""
        # Contract: nothing of a file is skipped that was not imported, and nothing is numbered anew that was: the position is
        # written with the rows; where lines were rejected the next attempt begins at the first line, with the same numbers.
        # tests/faults/test_lossless.py::test_an_import_that_is_killed_goes_on_where_it_was
        if self.dry_run:
            return
        if not self._position.counts["rejected"] and not self._problem:
            self.database.write(partial(meta.drop, key=self._key))
        elif self._problem != _CUT:
            self.database.write(partial(self._position.restarted().save, key=self._key))

    # ── lines ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _units(self, source: Iterator[bytes]) -> Iterator[ImportUnit]:
        for (kind, group), lines in groupby(self._lines(source), key=_group_of):
            if kind not in _GROUPED:
                yield from (ImportUnit(kind, group, [line]) for line in lines)
                continue
            unit = list(lines)
            if self._is_read and self._problem == _CUT:  # the last unit may not be whole
                return
            yield ImportUnit(kind, group, unit, self._pop_memory(group) if kind == "revision" else None)
        for (number,) in self._waiting.execute("SELECT number FROM waiting ORDER BY number").fetchall():
            if self._problem != _CUT:
                self._reject(number, "the memory has no revision in this file")

    def _lines(self, source: Iterator[bytes]) -> Iterator[ImportLine]:
        """The lines that are to be imported; counts all, and notes what is wrong with the file."""
        self._problem, self._is_read = _CUT, False
        for line in source:
            read, has_end = _parse(line), line.endswith(b"\n")
            if self._problem != _CUT:
                if line.strip():
                    self._reject(self._number + 1, "it comes after the last line")
            elif isinstance(read, dict) and read.get("kind") == "end":
                if self._number < self._position.line:
                    self._refuse_changed()
                fits = (read.get("lines"), read.get("sha256")) == (self._number - 1, self._digest.hexdigest())
                self._problem = "" if fits else _WRONG
            elif has_end or read is not None:  # else it was cut off
                self._number += 1
                self._digest.update(line if has_end else line + b"\n")
                checked = self._check(read, line)
                if self._number > self._position.line:
                    yield from () if checked is None else (checked,)
                elif self._number == self._position.line and self._digest.hexdigest() != self._position.digest:
                    self._refuse_changed()
                elif checked is not None and checked["kind"] == "revision":  # an earlier attempt has used up the memory
                    self._waiting.execute("DELETE FROM waiting WHERE id = ?", (checked["memory_id"],))
        self._is_read = True

    def _refuse_changed(self) -> NoReturn:
        self.database.write(partial(self._position.restarted().save, key=self._key))
        raise InvalidInputError(_CHANGED.format(self._position.line))

    def _check(self, read: Any, raw: bytes) -> ImportLine | None:
        """A line that may be imported; `None` where it waits, is left out, or is rejected."""
        try:
            if isinstance(read, dict) and read.get("kind") == "memory":  # it is read with its revisions
                id_ = self._scope_names.new_id(check_text(read.get("id"), "id"))
                self._waiting.execute("INSERT INTO waiting VALUES (?, ?, ?)", (id_, self._number, raw))
                return None
            line = self._rename(read, self._number)
            if line is not None:
                line.digest = self._digest.hexdigest()
        except sqlite3.IntegrityError:
            reason = "another line has the same id"
        except LangmemAdapterError as error:
            reason = str(error)
        else:
            return line
        if self._number > self._position.line:
            self._reject(self._number, reason)
        return None

    def _rename(self, read: Any, number: int) -> ImportLine | None:
        line = parse_line(read, number)
        if not self.renamed:
            return line
        renamed = self._scope_names.apply(line)
        return None if renamed is None else parse_line(renamed, number)

    def _pop_memory(self, memory_id: str) -> ImportLine | None:
        row = self._waiting.execute("DELETE FROM waiting WHERE id = ? RETURNING number, line", (memory_id,)).fetchone()
        try:
            return None if row is None else self._rename(_parse(row[1]), row[0])
        except LangmemAdapterError as error:
            self._reject(row[0], str(error))
            return None

    def _reject(self, number: int, reason: str) -> None:
        self._position.counts["rejected"] += 1
        self._tell(number, reason)

    def _tell(self, number: int, reason: str) -> None:
        rejection = RejectedLine(number, reason)
        if len(self._rejections) < _LISTED:
            self._rejections.append(rejection)
        self.rejected(rejection)

    # ── batches ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _write(self, units: Sequence[ImportUnit]) -> None:
        if not units:
            return
        kept: ChainMap[tuple[str, Any], Any] = ChainMap({}, self._kept)
        work = partial(self._carry_out, units=units, vectors={} if self.dry_run else self._vectors(units), kept=kept)
        try:
            if self.dry_run:
                with self.database.read() as connection:
                    position, rejected = work(connection)
            else:
                position, rejected = self.database.write(work)
        except StorageError as error:
            if not _is_of_rows(error):
                raise
            if len(units) > 1:
                for unit in units:
                    self._write([unit])
            else:
                for line in units[0].all_lines:
                    self._reject(line.number, "the database refuses it: another row has its id, or its number")
            return
        self._position, self._embedded = position, 0
        new = kept.maps[0].items()
        self._kept.update(each for each in new if self.dry_run or each[0][0] == "scope" or each[1] is None)
        for number, reason in sorted(rejected.items()):
            self._tell(number, reason)

    def _carry_out(
        self,
        connection: Connection,
        units: Sequence[ImportUnit],
        vectors: Mapping[str, bytes],
        kept: ChainMap[Any, Any],
    ) -> tuple[_Position, Mapping[int, str]]:
        """Import some units in a transaction; gives the position behind them, and the lines that were rejected."""
        if not self.dry_run:
            if (
                connection.dialect.name == "sqlite"
            ):  # rows come in the order of their ids, and lie in that of their numbers
                connection.exec_driver_sql(f"PRAGMA cache_size = -{_CACHE}")
                connection.exec_driver_sql(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT}")
            stored = _Position.load(connection, self._key)
            if stored is None or stored.line != self._position.line:
                raise ConflictError("another process imports this file at the same time; let it finish")
        batch = ImportBatch(connection, self._numbers, vectors, self.within, kept)
        for kind, group in groupby(units, key=attrgetter("kind")):
            batch.take(kind, list(group))
        last, before = units[-1].lines[-1], self._position
        new = Counter(known=batch.unchanged, embedded=self._embedded, rejected=len(batch.rejected))
        refused = [key[1] for key, value in kept.maps[0].items() if key[0] == "conversation" and value is None]
        position = replace(
            before,
            line=last.number,
            digest=last.digest,
            counts=before.counts + new,
            added=before.added + batch.added,
            refused=before.refused + refused,
        )
        if not self.dry_run:
            batch.post(meta.language_of(connection), self.fingerprint, self._item_mark)
            position.save(connection, self._key)
        return position, batch.rejected

    def _vectors(self, units: Sequence[ImportUnit]) -> dict[str, bytes]:
        """The vectors of memories that are not here yet: those of the file where they fit, else made now."""
        inside = ({} if self.within is None else self.within.named).items()
        lines = [unit.memory for unit in units if unit.memory is not None and inside <= unit.memory.items()]
        with self.database.read() as connection:
            here = select(memories.c.id).where(any_of(memories.c.id, [line["id"] for line in lines]))
            ids = set(connection.execute(here).scalars())
            self._dimensions = self._dimensions or meta.dimensions(connection) or 0
        new = [line for line in lines if line["id"] not in ids]
        texts = list(dict.fromkeys(line["text"] for line in new))
        made: dict[str, bytes] = {}
        if self._uses_vectors and texts:
            self._dimensions = self._dimensions or len(self.embed(texts[:1])[0])
            made = {line["text"]: vector for line in new if (vector := self._vector_of(line)) is not None}
        if missing := [text for text in texts if text not in made]:
            if not self._position.counts["embedded"]:
                self.announce(self._head["counts"]["memory"])
            rows = (np.ascontiguousarray(vector, np.float32).tobytes() for vector in self.embed(missing))
            made |= zip(missing, rows, strict=True)
        self._embedded = len(missing)
        return made

    def _vector_of(self, line: ImportLine) -> bytes | None:
        """The vector of a line, where it is one of the model's."""
        try:
            vector = as_vector(line.get("vector"), "vector", 4 * self._dimensions)
        except InvalidInputError:
            return None
        return vector if any(vector) else None


class _ScopeNames:
    """Gives lines of one scope another name; the ids are the same ones however often a file is imported."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        self._fields = fields
        self._scope = Scope(**fields) if fields else None
        self._before: dict[str, Any] = {}
        self._conversations: dict[str, str] = {}

    def apply(self, line: Mapping[str, Any]) -> dict[str, Any] | None:
        """A line under the other name; `None` for sources: their digests are those of their thread."""
        kind, new, (group, slash, place) = line["kind"], dict(line), line["id"].partition("/")
        if kind == "item":
            raise InvalidInputError("items of the store belong to no scope")
        if kind == "source":
            return None
        if kind in {"message", "note"}:
            new["conversation"] = group = self._conversations.get(group, group)
        else:
            group = self._move(new, group)
            self._rename_owners(line, new)
        for name in _IDS & new.keys() if kind != "note" else ():
            new[name] = self.new_id(new[name])
        for each in new["memories"] if kind == "relation" else ():
            each["memory_id"] = self.new_id(each.get("memory_id"))
        return {**new, "id": f"{group}{slash}{place}"}

    def _move(self, new: dict[str, Any], group: str) -> str:
        """Name the other scope, and give what the id begins with then."""
        for name, value in self._fields.items():
            if new[name] is None or self._before.setdefault(name, new[name]) != new[name]:
                one = quoted(self._before.get(name))
                raise InvalidInputError(f"its {name} is not {one}; only one scope can get another name")
            new[name] = value
        if new["kind"] == "conversation":
            self._conversations[group] = Conversation(new["session"], scope_of(new)).key
            return self._conversations[group]
        return key_of(scope_of(new) or Scope()) if new["kind"] == "scope" else str(self.new_id(group))

    def new_id(self, value: Any) -> Any:
        """The new id for an id, or for each of a list; the same where there is no other name."""
        if isinstance(value, list):
            return [self.new_id(part) for part in value]
        return id_within(self._scope, f"import {value}") if self._scope and value and isinstance(value, str) else value

    def _rename_owners(self, line: Mapping[str, Any], new: dict[str, Any]) -> None:
        """The scope's own user and agent are known by their ids."""
        names, keys = {}, {}
        for who in (SELF, ASSISTANT):
            old, other = (owner_id(who, scope_of(each) or Scope()) for each in (line, new))
            names[old], keys[owner_key(who, old)] = other, owner_key(who, other)
        if line.get("owner") is not None:
            new["name"] = names.get(line["name"], line["name"])
        for each in new.get("names", ()):
            if str(each.get("key")) in keys:
                each.update(key=keys[each["key"]], name=names.get(str(each.get("name")), each.get("name")))
        if isinstance(new.get("keys"), list):
            new["keys"] = [keys.get(key, key) if isinstance(key, str) else key for key in new["keys"]]


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def read_header(line: bytes, most: int = _ROWS) -> dict[str, Any]:
    """Parse and check the first line of an export, which may count at most so many rows."""
    head = _parse(line.removeprefix(BOM_UTF8))
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise InvalidInputError("this is no lossless export: its first line does not say so")
    if head.get("version") != VERSION:
        raise InvalidInputError(f"this export has version {quoted(head.get('version'))}; upgrade to read it")
    counts = head.get("counts")
    if not isinstance(counts, dict) or not all(type(counts.get(name, 0)) is int for name in KINDS):
        raise InvalidInputError("the first line of the export is damaged: it does not count the lines")
    head["counts"] = {name: max(0, counts.get(name, 0)) for name in KINDS}
    # Contract: an import cannot use up the numbers of a database.
    # tests/server/test_import.py::test_import_of_a_full_export_refuses_more_rows_than_its_body_can_hold
    if sum(head["counts"].values()) > most:
        raise InvalidInputError(f"the first line of the export is damaged: it counts more than {most:,} rows")
    marks = head.get("vectors") or {}
    if not isinstance(marks, dict) or not all(mark is None or check_text(mark, "vectors") for mark in marks.values()):
        raise InvalidInputError("the first line of the export is damaged: it does not name the models of the vectors")
    return head


def _refuse(constant: str) -> None:
    raise ValueError(constant)


_decode: Final = json.JSONDecoder(parse_constant=_refuse).decode


def _parse(line: bytes) -> Any:
    """The value of a line; `None` where it is no JSON."""
    try:
        return _decode(line.decode())
    except (ValueError, RecursionError):
        return None


def _as_bytes(line: object) -> bytes:
    if not isinstance(line, str | bytes):
        raise InvalidInputError(f"import_ takes lines of bytes or text, not {type(line).__name__}")
    return line.encode(errors="surrogatepass") if isinstance(line, str) else line


def parse_line(read: Any, number: int) -> ImportLine:
    """Check the fields of a line, and read the values of its row."""
    if not isinstance(read, dict):
        raise InvalidInputError("it is no JSON object")
    kind = KINDS.get(read["kind"]) if isinstance(read.get("kind"), str) else None
    if kind is None:
        raise InvalidInputError(f"unknown kind {quoted(read.get('kind'))}")
    check_text(read.get("id"), "id")
    for name in kind.texts:
        if read.get(name) is not None:
            check_text(read[name], name)
    line = ImportLine(kind.defaults | read)
    line.number, line.row = number, kind.read(line)
    return line


def _group_of(line: Mapping[str, Any]) -> tuple[str, str]:
    """The kind of a line, and what its id begins with."""
    return line["kind"], KINDS[line["kind"]].group_of(line["id"])


def _is_of_rows(error: StorageError) -> bool:
    """Whether the database refused a row, and not the write as such."""
    kinds = type(getattr(error.__cause__, "orig", None)).__mro__
    return not {kind.__name__ for kind in kinds}.isdisjoint({"IntegrityError", "DataError"})
