"""Lossless import: lines of an export become rows again, resumable, and under another scope where asked."""

from __future__ import annotations

import json
import sqlite3
from codecs import BOM_UTF8
from collections import ChainMap, Counter
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import numpy as np
from sqlalchemy import select

from langmem_adapter.errors import ConflictError, InvalidInputError, LangmemAdapterError, StorageError
from langmem_adapter.names import owner_id, owner_key
from langmem_adapter.records.checks import check_text, quoted
from langmem_adapter.records.graph import ASSISTANT, SELF
from langmem_adapter.records.scope import Scope, shallow
from langmem_adapter.storage import meta
from langmem_adapter.storage.erasure import erased_until
from langmem_adapter.storage.feed import last_seq
from langmem_adapter.storage.lossless.export import FORMAT, VERSION
from langmem_adapter.storage.lossless.kinds import KINDS, as_vector, parse_line, scope_of
from langmem_adapter.storage.lossless.writer import GROUPED, ImportBatch, Numbers
from langmem_adapter.storage.queries import any_of
from langmem_adapter.storage.scopes import id_within
from langmem_adapter.storage.tables import memories

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from langmem_adapter.storage.database import Database
    from langmem_adapter.storage.lossless.kinds import ImportLine
    from langmem_adapter.storage.lossless.writer import ImportUnit

T = TypeVar("T")

_BATCH: Final = 500  # units of one transaction
_MOST: Final = 5_000  # lines of a batch, where units have many
_LISTED: Final = 1_000
_CACHE: Final = 24_000  # kibibytes
_CHECKPOINT: Final = 16_000  # pages of the write-ahead log: a third less is written than with SQLite's 1,000
_ROWS: Final = 2**32
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
        stored = json.loads(meta.get(connection, key) or "null")
        return stored and cls(**{**stored, "counts": Counter(stored["counts"]), "added": Counter(stored["added"])})

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
    """Imports the lines of a lossless export into a database, once.

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
        first = next(source, b"")
        self._head = read_header(first)
        self._scope_names = _ScopeNames(self.renamed)
        # Contract: an import within a scope neither moves the position of another one, nor uses its numbers.
        # tests/storage/test_lossless.py::test_import_within_a_scope_leaves_the_position_of_other_imports
        target = json.dumps([*self.renamed.items(), self.within and self.within.named]).encode()
        self._key = f"import:{sha256(first.strip() + target).hexdigest()[:48]}"
        self._digest, self._number, self._problem = sha256(), 1, _CUT
        self._dimensions = self._embedded = 0
        self._rejections: list[RejectedLine] = []
        self._position = self._begin()
        self._numbers = Numbers(self._position.base, self._head["counts"], self._position.serials)
        self._kept: dict[tuple[str, Any], Any] = {("conversations", key): None for key in self._position.refused}
        resumed, total = self._position.line, sum(self._head["counts"].values())
        self.progress(resumed, total)
        with closing(sqlite3.connect("")) as self._waiting:
            # Memories wait here for their revisions, which come later in the file.
            self._waiting.execute("CREATE TABLE waiting (id TEXT PRIMARY KEY, number INTEGER, line BLOB) WITHOUT ROWID")
            batch: list[ImportUnit] = []
            size = 0
            for unit in self._units(source):
                batch.append(unit)
                size += len(unit)
                if len(batch) == _BATCH or size > _MOST:
                    self._write(batch)
                    self.progress(self._number, total)
                    batch, size = [], 0
            self._write(batch)
        self._finish()
        counts, added = self._position.counts, self._position.added
        return ImportReport(
            lines=self._number - 1,
            added=sum(added.values()),
            **{each: counts[each] for each in ("known", "rejected", "embedded")},
            resumed_at=resumed + 1 if resumed > 1 else 0,
            problem=self._problem,
            is_dry_run=self.dry_run,
            kinds=dict(sorted(added.items())),
            rejections=tuple(sorted(self._rejections, key=attrgetter("line"))),
        )

    # ── the position ────────────────────────────────────────────────────────────────────────────────────────────────

    def _begin(self) -> _Position:
        def begin(connection: Connection) -> _Position:
            position, erased = _Position.load(connection, self._key), erased_until(connection)
            if self.dry_run:
                return (position or _Position(last_seq(connection), {"conversation": 0, "note": 0})).restarted()
            if position is None:
                numbers = Numbers.reserve(connection, self._head["counts"])
                position = _Position(numbers.base, numbers.serials, erased)
            elif position.erased != erased:  # what was here may be gone
                position = position.restarted(erased=erased)
            position.name = self.name or position.name
            position.save(connection, self._key)
            return position

        return self._transact(begin)

    def _transact(self, work: Callable[[Connection], T]) -> T:
        """Run work in a transaction, which of a dry run only reads."""
        if self.dry_run:
            with self.database.read() as connection:
                return work(connection)
        return self.database.write(work)

    def _finish(self) -> None:
        """Forget the position of a file that is done; keep the numbers where it can still be mended or completed."""
        # Contract: nothing of a file is skipped that was not imported, and nothing is numbered anew that was: the position is
        # written with the rows; where lines were rejected the next attempt begins at the first line, with the same numbers.
        # tests/faults/test_lossless.py::test_an_import_that_is_killed_goes_on_where_it_was
        if not self._position.counts["rejected"] and not self._problem and not self.dry_run:
            self.database.write(partial(meta.drop, key=self._key))
        elif self._problem != _CUT:
            self._restart()

    def _restart(self) -> None:
        if not self.dry_run:
            self.database.write(partial(self._position.restarted().save, key=self._key))

    def _refuse_changed(self) -> NoReturn:
        self._restart()
        raise InvalidInputError(_CHANGED.format(self._position.line))

    # ── lines ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _units(self, source: Iterator[bytes]) -> Iterator[ImportUnit]:
        for (kind, group), lines in groupby(self._lines(source), key=lambda line: (line["kind"], line.group)):
            if kind not in GROUPED:
                yield from ([line] for line in lines)
                continue
            unit = list(lines)
            if self._is_read and self._problem == _CUT:  # the last unit may not be whole
                return
            yield [*(self._pop_memories(group) if kind == "revision" else ()), *unit]
        if self._problem != _CUT:
            for (number,) in self._waiting.execute("SELECT number FROM waiting ORDER BY number").fetchall():
                self._reject(number, "the memory has no revision in this file")

    def _lines(self, source: Iterator[bytes]) -> Iterator[ImportLine]:
        """The lines that are to be imported; counts all, and notes what is wrong with the file."""
        self._is_read = False
        for raw in source:
            value, has_end = _parse(raw), raw.endswith(b"\n")
            if self._problem != _CUT:
                if raw.strip():
                    self._reject(self._number + 1, "it comes after the last line")
            elif isinstance(value, dict) and value.get("kind") == "end":
                if self._number < self._position.line:
                    self._refuse_changed()
                fits = (value.get("lines"), value.get("sha256")) == (self._number - 1, self._digest.hexdigest())
                self._problem = "" if fits else _WRONG
            elif has_end or value is not None:  # else it was cut off
                self._number += 1
                self._digest.update(raw if has_end else raw + b"\n")
                line = self._check(value, raw)
                if self._number > self._position.line:
                    yield from () if line is None else (line,)
                elif self._number == self._position.line and self._digest.hexdigest() != self._position.digest:
                    self._refuse_changed()
                elif line is not None and line["kind"] == "revision":  # an earlier attempt has used up the memory
                    self._waiting.execute("DELETE FROM waiting WHERE id = ?", (line["memory_id"],))
        self._is_read = True

    def _check(self, value: Any, raw: bytes) -> ImportLine | None:
        """A line that may be imported; `None` where it waits, is left out, or is rejected."""
        try:
            if isinstance(value, dict) and value.get("kind") == "memory":  # it is read with its revisions
                id_ = self._scope_names.new_id(check_text(value.get("id"), "id"))
                self._waiting.execute("INSERT INTO waiting VALUES (?, ?, ?)", (id_, self._number, raw))
                return None
            line = self._scope_names.apply(parse_line(value, self._number))
        except sqlite3.IntegrityError:
            reason = "another line has the same id"
        except LangmemAdapterError as error:
            reason = str(error)
        else:
            if line is not None:
                line.digest = self._digest.hexdigest()
            return line
        if self._number > self._position.line:
            self._reject(self._number, reason)
        return None

    def _pop_memories(self, memory_id: str) -> Iterator[ImportLine]:
        query = "DELETE FROM waiting WHERE id = ? RETURNING number, line"
        for number, raw in self._waiting.execute(query, (memory_id,)).fetchall():
            try:
                yield from filter(None, [self._scope_names.apply(parse_line(_parse(raw), number))])
            except LangmemAdapterError as error:
                self._reject(number, str(error))

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
        new = [line for unit in units for line in unit if line["kind"] == "memory"]
        vectors = {} if self.dry_run else self._vectors(new)
        try:
            position, rejected = self._transact(partial(self._carry_out, units=units, vectors=vectors, kept=kept))
        except StorageError as error:
            if not _is_of_rows(error):
                raise
            if len(units) == 1:
                for line in units[0]:
                    self._reject(line.number, "the database refuses it: another row has its id, or its number")
            else:
                for unit in units:
                    self._write([unit])
            return
        self._position, self._embedded = position, 0
        self._kept.update(
            each for each in kept.maps[0].items() if self.dry_run or each[0][0] == "scope" or each[1] is None
        )
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
            if connection.dialect.name == "sqlite":  # rows come in the order of their ids, not of their numbers
                connection.exec_driver_sql(f"PRAGMA cache_size = -{_CACHE}")
                connection.exec_driver_sql(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT}")
            stored = _Position.load(connection, self._key)
            if stored is None or stored.line != self._position.line:
                raise ConflictError("another process imports this file at the same time; let it finish")
        batch = ImportBatch(connection, self._numbers, vectors, self.within, kept)
        for kind, group in groupby(units, key=lambda unit: unit[-1]["kind"]):
            batch.take(kind, list(group))
        last, before = units[-1][-1], self._position
        new = Counter(known=batch.unchanged, embedded=self._embedded, rejected=len(batch.rejected))
        refused = [key[1] for key, value in kept.maps[0].items() if key[0] == "conversations" and value is None]
        position = replace(
            before,
            line=last.number,
            digest=last.digest,
            counts=before.counts + new,
            added=before.added + batch.added,
            refused=before.refused + refused,
        )
        if not self.dry_run:
            batch.post(meta.language_of(connection), self.fingerprint, (self._head.get("vectors") or {}).get("item"))
            position.save(connection, self._key)
        return position, batch.rejected

    def _vectors(self, lines: Sequence[ImportLine]) -> dict[str, bytes]:
        """The vectors of memories that are not here yet: those of the file where they fit, else made now."""
        inside = ({} if self.within is None else self.within.named).items()
        lines = [line for line in lines if inside <= line.items()]
        with self.database.read() as connection:
            here = select(memories.c.id).where(any_of(memories.c.id, [line["id"] for line in lines]))
            ids = set(connection.execute(here).scalars())
            self._dimensions = self._dimensions or meta.dimensions(connection) or 0
        new = [line for line in lines if line["id"] not in ids]
        made: dict[str, bytes] = {}
        if new and (self._head.get("vectors") or {}).get("memory") == self.fingerprint:
            self._dimensions = self._dimensions or len(self.embed([new[0]["text"]])[0])
            for line in new:
                with suppress(InvalidInputError):
                    vector = as_vector(line.get("vector"), "vector", 4 * self._dimensions)
                    made |= {line["text"]: vector} if any(vector) else {}
        missing = list(dict.fromkeys(line["text"] for line in new if line["text"] not in made))
        if missing:
            if not self._position.counts["embedded"]:
                self.announce(self._head["counts"]["memory"])
            rows = (np.ascontiguousarray(vector, np.float32).tobytes() for vector in self.embed(missing))
            made |= zip(missing, rows, strict=True)
        self._embedded = len(missing)
        return made


class _ScopeNames:
    """Gives lines of one scope another name; the ids are the same ones however often a file is imported."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        self._fields = fields
        self._scope = Scope(**fields) if fields else None
        self._before: dict[str, Any] = {}
        self._conversations: dict[str, str] = {}

    def apply(self, line: ImportLine) -> ImportLine | None:
        """A line under the other name; `None` for sources: their digests are those of their thread."""
        if self._scope is None:
            return line
        kind, new, group = KINDS[line["kind"]], dict(line), line.group
        if kind.name == "item":
            raise InvalidInputError("items of the store belong to no scope")
        if kind.name == "source":
            return None
        if kind.name in {"message", "note"}:
            new["conversation"] = group = self._conversations.get(group, group)
        else:
            self._name_scope(new)
            self._rename_owners(line, new)
            new["id"] = group = self.new_id(group) if kind.id_of is None else kind.id_of(new)
            if kind.name == "conversation":
                self._conversations[line["id"]] = group
        for name in _IDS & new.keys() if kind.name != "note" else ():
            new[name] = self.new_id(new[name])
        if kind.name == "relation":
            new["memories"] = [{**each, "memory_id": self.new_id(each["memory_id"])} for each in new["memories"]]
        return parse_line({**new, "id": group + line["id"][len(line.group) :]}, line.number)

    def _name_scope(self, new: dict[str, Any]) -> None:
        for name, value in self._fields.items():
            if new.get(name) is None or self._before.setdefault(name, new[name]) != new[name]:
                one = quoted(self._before.get(name))
                raise InvalidInputError(f"its {name} is not {one}; only one scope can get another name")
            new[name] = value

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
            if each["key"] in keys:
                each.update(key=keys[each["key"]], name=names.get(each["name"], each["name"]))
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


def _is_of_rows(error: StorageError) -> bool:
    """Whether the database refused a row, and not the write as such."""
    kinds = type(getattr(error.__cause__, "orig", None)).__mro__
    return not {kind.__name__ for kind in kinds}.isdisjoint({"IntegrityError", "DataError"})
