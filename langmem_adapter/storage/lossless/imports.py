"""Lossless import: lines become units of rows, resumable, and under another scope where asked."""

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
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope, shallow
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

_IDS: Final = {"winner", "loser", "relation_id", "source", "target", "history_id", "memory_id", "past_of", "links"}


class Names:
    """Gives lines of one scope another name; the ids are the same ones however often a file is imported."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        self._fields = fields
        self._scope = Scope(**fields) if fields else None
        self._before: dict[str, Any] = {}
        self._conversations: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._fields)

    def apply(self, line: Mapping[str, Any]) -> dict[str, Any] | None:
        """A line under the other name; `None` for sources, whose digests are those of their thread."""
        kind, new, (group, slash, place) = line["kind"], dict(line), line["id"].partition("/")
        if kind == "item":
            raise InvalidInputError("items of the store belong to no scope")
        if kind == "source":
            return None
        if kind in {"message", "note"}:
            new["conversation"] = group = self._conversations.get(group, group)
        else:
            group = self._moved(new, group)
            self._rename_owners(line, new)
        for name in _IDS & new.keys() if kind != "note" else ():
            new[name] = self.new_id(new[name])
        for each in new["memories"] if kind == "relation" else ():
            each["memory_id"] = self.new_id(each.get("memory_id"))
        return {**new, "id": f"{group}{slash}{place}"}

    def _moved(self, new: dict[str, Any], group: str) -> str:
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
        """What stands for an id, or each of a list; the same where there is no other name."""
        if isinstance(value, list):
            return [self.new_id(part) for part in value]
        return id_within(self._scope, f"import {value}") if self._scope and value and isinstance(value, str) else value

    def _rename_owners(self, line: Mapping[str, Any], new: dict[str, Any]) -> None:
        """The scope's own user and agent are known by their ids."""
        ids = [[owner_id(who, scope_of(each) or Scope()) for who in (SELF, ASSISTANT)] for each in (line, new)]
        names = dict(zip(*ids, strict=True))
        keys = {
            owner_key(who, one): owner_key(who, names[one]) for who, one in zip((SELF, ASSISTANT), ids[0], strict=True)
        }
        if line.get("owner") is not None:
            new["name"] = names.get(line["name"], line["name"])
        for each in new.get("names", ()):
            if str(each.get("key")) in keys:
                each.update(key=keys[each["key"]], name=names.get(str(each.get("name")), each.get("name")))
        if isinstance(new.get("keys"), list):
            new["keys"] = [keys.get(key, key) if isinstance(key, str) else key for key in new["keys"]]


_BATCH: Final = 500
_MOST: Final = 5_000  # lines of a batch, where units have many
_LISTED: Final = 1_000
_CACHE: Final = 48_000  # kibibytes
_ROWS: Final = 2**32
_GROUPS: Final = {"relation": "relation_id", "revision": "memory_id"}
"""Kinds of which several lines make a unit, and the field that they have in common."""
_TEXTS: Final = (*SCOPE_FIELDS, "source", "target", "winner", "loser", "conversation")
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
    """What became of the lines of an import, those of earlier attempts at the same file included.

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


@dataclass(frozen=True, slots=True)
class Embedding:
    """The model whose vectors memories get: its fingerprint, what embeds texts, and what is told their number before."""

    fingerprint: str
    embed: Callable[[Sequence[str]], NDArray[Any]]
    announce: Callable[[int], object] = lambda _: None


def take_in(  # noqa: PLR0913 - what `Memory.import_` takes
    database: Database,
    lines: Iterable[bytes | str],
    embedding: Embedding,
    *,
    name: str = "",
    within: Scope | None = None,
    renamed: Mapping[str, str] | None = None,
    dry_run: bool = False,
    rejected: Callable[[RejectedLine], object] = lambda _: None,
    progress: Callable[[int, int], object] = lambda _, __: None,
) -> ImportReport:
    """Import the lines of a lossless export; `Memory.import_` says what the arguments mean."""
    if not isinstance(lines, Iterable) or isinstance(lines, str | bytes):
        raise InvalidInputError("import_ takes the lines of an export: an open file, or what export() gives")
    source = iter(lines)
    with closing(sqlite3.connect("")) as waiting:
        import_ = _Import(database, next(source, b""), embedding, within, renamed or {}, waiting, dry_run=dry_run)
        return import_.run(source, name, rejected, progress)


class _Import:
    def __init__(
        self,
        database: Database,
        first: bytes | str,
        embedding: Embedding,
        within: Scope | None,
        renamed: Mapping[str, str],
        waiting: sqlite3.Connection,
        *,
        dry_run: bool,
    ) -> None:
        head = _as_bytes(first)
        self._head = read_header(head)
        self._database = database
        self._embedding = embedding
        self._within = within
        self._names = Names(renamed)
        self._dry = dry_run
        # Contract: an import within a scope neither moves the position of another one, nor uses its numbers.
        # tests/storage/test_lossless.py::test_import_within_a_scope_leaves_the_position_of_other_imports
        target = json.dumps([*renamed.items(), within and within.named]).encode()
        self._key = f"import:{sha256(head.strip() + target).hexdigest()[:48]}"
        self._digest = sha256()
        self._number = 1
        self._position = _Position(0, {})
        self._kept: dict[tuple[str, Any], Any] = {}
        # Memories wait here for their revisions, which come later in the file.
        self._waiting = waiting
        self._waiting.execute("CREATE TABLE waiting (id TEXT PRIMARY KEY, number INTEGER, line BLOB) WITHOUT ROWID")
        marks = self._head.get("vectors") or {}
        self._uses_vectors = marks.get("memory") == embedding.fingerprint
        self._item_mark = marks.get("item")
        self._dimensions = self._embedded = 0
        self._rejections: list[RejectedLine] = []

    def run(
        self,
        source: Iterator[bytes | str],
        name: str,
        rejected: Callable[[RejectedLine], object],
        progress: Callable[[int, int], object],
    ) -> ImportReport:
        """Take in every line."""
        self._tell, total = rejected, sum(self._head["counts"].values())
        if self._dry:
            with self._database.read() as connection:
                none = _Position(last_seq(connection), {"conversations": 0, "notes": 0})
                self._position = (self._stored(connection) or none).again
        else:
            self._position = self._database.write(partial(self._begin, name=name))
            self._kept |= {("conversation", key): None for key in self._position.refused}
        self._numbers = Numbers(self._position.base, self._head["counts"], self._position.serials)
        resumed = self._position.line
        progress(resumed, total)
        batch: list[ImportUnit] = []
        size = 0
        for unit in self._units(source):
            batch.append(unit)
            size += len(unit.lines)
            if len(batch) == _BATCH or size > _MOST:
                self._write(batch)
                progress(self._number, total)
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
            is_dry_run=self._dry,
            kinds=dict(sorted(self._position.added.items())),
            rejections=tuple(sorted(self._rejections, key=attrgetter("line"))),
        )

    # ── the position ────────────────────────────────────────────────────────────────────────────────────────────────

    def _begin(self, connection: Connection, name: str) -> _Position:
        position, erased = self._stored(connection), erased_until(connection)
        if position is None:
            numbers = Numbers.reserve(connection, self._head["counts"])
            position = _Position(numbers.base, numbers.serials, erased)
        elif position.erased != erased:  # what was here may be gone
            position = replace(position.again, erased=erased)
        position.name = name or position.name
        meta.put(connection, self._key, position.told())
        return position

    def _stored(self, connection: Connection) -> _Position | None:
        """The position of an earlier attempt."""
        stored = meta.get(connection, self._key)
        return None if stored is None else _Position.of(stored)

    def _finish(self) -> None:
        """Forget the position of a file that is done; keep the numbers where it can still be mended or completed."""
        # Contract: nothing of a file is skipped that was not imported, and nothing is numbered anew that was: the position is
        # written with the rows; where lines were rejected the next attempt begins at the first line, with the same numbers.
        # tests/faults/test_lossless.py::test_an_import_that_is_killed_goes_on_where_it_was
        if self._dry:
            return
        if not self._position.counts["rejected"] and not self._problem:
            self._database.write(partial(meta.drop, key=self._key))
        elif self._problem != _CUT:
            self._database.write(partial(meta.put, key=self._key, value=self._position.again.told()))

    # ── lines ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _units(self, source: Iterator[bytes | str]) -> Iterator[ImportUnit]:
        group: list[ImportLine] = []
        end = self._end()
        for line in self._lines(source):
            if group and _group_of(line) != _group_of(group[0]):
                yield self._unit(group, end)
                group = []
            group.append(line)
            end = self._end()
            if line["kind"] not in _GROUPS:
                yield self._unit([group.pop()], end)
        if self._problem == _CUT:  # whether the last unit is whole nobody knows
            return
        if group:
            yield self._unit(group, self._end())
        for (number,) in self._waiting.execute("SELECT number FROM waiting ORDER BY number").fetchall():
            self._reject(number, "the memory has no revision in this file")

    def _lines(self, source: Iterator[bytes | str]) -> Iterator[ImportLine]:
        """The lines that are to be imported; counts all, and notes what is wrong with the file."""
        self._problem = _CUT
        for line in map(_as_bytes, source):
            read, ended = _parsed(line), line.endswith(b"\n")
            if self._problem != _CUT:
                if line.strip():
                    self._reject(self._number + 1, "it stands behind the last line")
            elif isinstance(read, dict) and read.get("kind") == "end":
                if self._number < self._position.line:
                    self._refuse_changed()
                fits = (read.get("lines"), read.get("sha256")) == (self._number - 1, self._digest.hexdigest())
                self._problem = "" if fits else _WRONG
            elif ended or read is not None:  # else it was cut off
                self._number += 1
                self._digest.update(line if ended else line + b"\n")
                checked = self._checked(read, line)
                if self._number > self._position.line:
                    yield from () if checked is None else (checked,)
                elif self._number == self._position.line and self._digest.hexdigest() != self._position.digest:
                    self._refuse_changed()
                elif checked is not None and checked["kind"] == "revision":  # an earlier attempt has used up the memory
                    self._waiting.execute("DELETE FROM waiting WHERE id = ?", (checked["memory_id"],))

    def _refuse_changed(self) -> NoReturn:
        self._database.write(partial(meta.put, key=self._key, value=self._position.again.told()))
        raise InvalidInputError(_CHANGED.format(self._position.line))

    def _checked(self, read: Any, raw: bytes) -> ImportLine | None:
        """A line that may be imported; `None` where it waits, is left out, or is rejected."""
        try:
            if isinstance(read, dict) and read.get("kind") == "memory":  # it is read with its revisions
                id_ = self._names.new_id(check_text(read.get("id"), "id"))
                self._waiting.execute("INSERT INTO waiting VALUES (?, ?, ?)", (id_, self._number, raw))
                return None
            return self._renamed(read, self._number)
        except (LangmemAdapterError, sqlite3.IntegrityError) as error:
            if self._number > self._position.line:
                again = isinstance(error, sqlite3.IntegrityError)
                self._reject(self._number, "another line has the same id" if again else str(error))
            return None

    def _renamed(self, read: Any, number: int) -> ImportLine | None:
        line = _line(read, number)
        if not self._names:
            return line
        renamed = self._names.apply(line)
        return None if renamed is None else _line(renamed, number)

    def _memory_of(self, memory_id: str) -> ImportLine | None:
        found = self._waiting.execute("SELECT number, line FROM waiting WHERE id = ?", (memory_id,)).fetchone()
        if found is None:
            return None
        self._waiting.execute("DELETE FROM waiting WHERE id = ?", (memory_id,))
        try:
            return self._renamed(_parsed(found[1]), found[0])
        except LangmemAdapterError as error:
            self._reject(found[0], str(error))
            return None

    def _end(self) -> tuple[int, str]:
        return self._number, self._digest.hexdigest()

    def _unit(self, lines: Sequence[ImportLine], end: tuple[int, str]) -> ImportUnit:
        kind, group = _group_of(lines[0])
        return ImportUnit(kind, group, lines, end, self._memory_of(group) if kind == "revision" else None)

    def _reject(self, number: int, reason: str) -> None:
        rejection = RejectedLine(number, reason)
        self._position.counts["rejected"] += 1
        if len(self._rejections) < _LISTED:
            self._rejections.append(rejection)
        self._tell(rejection)

    # ── batches ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _write(self, units: Sequence[ImportUnit]) -> None:
        if not units:
            return
        vectors = {} if self._dry else self._vectors(units)
        kept: ChainMap[tuple[str, Any], Any] = ChainMap({}, self._kept)
        try:
            if self._dry:
                with self._database.read() as connection:
                    batch, position = self._carry_out(connection, units, vectors, kept)
            else:
                batch, position = self._database.write(partial(self._post, units=units, vectors=vectors, kept=kept))
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
        self._position = position
        known = kept.maps[0].items()
        self._kept.update(each for each in known if self._dry or each[0][0] == "scope" or each[1] is None)
        for number, reason in sorted(batch.rejected.items()):
            self._reject(number, reason)

    def _post(
        self,
        connection: Connection,
        units: Sequence[ImportUnit],
        vectors: Mapping[str, bytes],
        kept: ChainMap[Any, Any],
    ) -> tuple[ImportBatch, _Position]:
        if connection.dialect.name == "sqlite":  # rows come in the order of their ids, and lie in that of their numbers
            connection.exec_driver_sql(f"PRAGMA cache_size = -{_CACHE}")
        stored = json.loads(meta.get(connection, self._key) or "{}")
        if stored.get("line") != self._position.line:
            raise ConflictError("another process imports this file at the same time; let it finish")
        batch, position = self._carry_out(connection, units, vectors, kept)
        batch.post(meta.language_of(connection), self._embedding.fingerprint, self._item_mark)
        meta.put(connection, self._key, position.told(len(batch.rejected)))
        return batch, position

    def _carry_out(
        self,
        connection: Connection,
        units: Sequence[ImportUnit],
        vectors: Mapping[str, bytes],
        kept: ChainMap[Any, Any],
    ) -> tuple[ImportBatch, _Position]:
        batch = ImportBatch(connection, self._numbers, vectors=vectors, within=self._within, kept=kept)
        for kind, group in groupby(units, key=attrgetter("kind")):
            batch.take(kind, list(group))
        line, digest = units[-1].end
        counts = self._position.counts + Counter(known=batch.known, embedded=self._embedded)
        self._embedded = 0
        refused = self._position.refused + [
            key[1] for key, value in kept.maps[0].items() if key[0] == "conversation" and value is None
        ]
        added = self._position.added + batch.added
        moved = replace(self._position, line=line, digest=digest, counts=counts, added=added, refused=refused)
        return batch, moved

    def _vectors(self, units: Sequence[ImportUnit]) -> dict[str, bytes]:
        """The vectors of memories that are not here yet: those of the file where they fit, else made now."""
        inside = ({} if self._within is None else self._within.named).items()
        lines = [unit.memory for unit in units if unit.memory is not None and inside <= unit.memory.items()]
        with self._database.read() as connection:
            ids = [line["id"] for line in lines]
            here = set(connection.execute(select(memories.c.id).where(any_of(memories.c.id, ids))).scalars())
            self._dimensions = self._dimensions or meta.dimensions(connection) or 0
        new = [line for line in lines if line["id"] not in here]
        texts, embed = list(dict.fromkeys(line["text"] for line in new)), self._embedding.embed
        made: dict[str, bytes] = {}
        if self._uses_vectors and texts:
            self._dimensions = self._dimensions or len(embed(texts[:1])[0])
            made = {line["text"]: vector for line in new if (vector := self._vector_of(line)) is not None}
        if missing := [text for text in texts if text not in made]:
            if not self._position.counts["embedded"]:
                self._embedding.announce(self._head["counts"]["memory"])
            rows = (np.ascontiguousarray(vector, np.float32).tobytes() for vector in embed(missing))
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

    def told(self, rejected: int = 0) -> str:
        """As text for the database."""
        return json.dumps({**shallow(self), "counts": self.counts + Counter(rejected=rejected)})

    @classmethod
    def of(cls, text: str) -> _Position:
        """The inverse of `told`."""
        told = json.loads(text)
        return cls(**{**told, "counts": Counter(told["counts"]), "added": Counter(told["added"])})

    @property
    def again(self) -> _Position:
        """The same numbers, from the first line on."""
        return _Position(self.base, self.serials, self.erased, name=self.name)


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def read_header(line: bytes, most: int = _ROWS) -> dict[str, Any]:
    """Parse and check the first line of an export, which may count at most so many rows."""
    head = _parsed(line.removeprefix(BOM_UTF8))
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


def _parsed(line: bytes) -> Any:
    """The value of a line; `None` where it is no JSON."""
    try:
        return _decode(line.decode())
    except (ValueError, RecursionError):
        return None


def _as_bytes(line: object) -> bytes:
    if not isinstance(line, str | bytes):
        raise InvalidInputError(f"import_ takes lines of bytes or text, not {type(line).__name__}")
    return line.encode(errors="surrogatepass") if isinstance(line, str) else line


def _line(read: Any, number: int) -> ImportLine:
    if not isinstance(read, dict):
        raise InvalidInputError("it is no JSON object")
    kind = KINDS.get(read["kind"]) if isinstance(read.get("kind"), str) else None
    if kind is None:
        raise InvalidInputError(f"unknown kind {quoted(read.get('kind'))}")
    check_text(read.get("id"), "id")
    for name in _TEXTS:
        if read.get(name) is not None:
            check_text(read[name], name)
    line = ImportLine(kind.defaults | read)
    line.number, line.row = number, kind.read(line)
    return line


def _group_of(line: Mapping[str, Any]) -> tuple[str, str]:
    """The kind of a line, and what its id begins with."""
    kind, id_ = line["kind"], line["id"]
    if kind in _GROUPS:
        return kind, line[_GROUPS[kind]]
    if kind == "source":
        return kind, id_[:36]
    return kind, id_.rpartition("/")[0] if kind in {"merge", "message", "note"} else id_


def _is_of_rows(error: StorageError) -> bool:
    """Whether the database refused a row, and not the write as such."""
    kinds = type(getattr(error.__cause__, "orig", None)).__mro__
    return not {kind.__name__ for kind in kinds}.isdisjoint({"IntegrityError", "DataError"})
