"""Relations from files and other graphs: their lines, and their import in batches.

Whoever reads them gives each as `Told`: where it stands there, and the relation with the scope it shall have, or why it is none
(`RefusedRow`), or that nobody believes it there any more (`PastRelation`).

A line at a time is held, of bounded length. A line that cannot be read is told as one that was refused, never left out.
"""

from __future__ import annotations

import csv
import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from langmem_adapter.errors import InvalidInputError, ScopeError
from langmem_adapter.knowledge.arguments import triple_of
from langmem_adapter.records.checks import quoted
from langmem_adapter.records.escapes import unescape_cell
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import IO

    from langmem_adapter.records.graph import LineFormat, Triple
    from langmem_adapter.storage.ledger import Ledger

_BATCH: Final = 500
"""Relations of one transaction: others wait for it."""
_LISTED: Final = 1_000
"""Refusals that a report lists; all of them are counted, and told one by one to whoever asks."""
_ONE: Final = "source and target are one and the same; nothing is related to itself"


@dataclass(frozen=True, slots=True)
class Stated:
    """A relation that is told elsewhere."""

    where: str  # its place there: `"line 7"`
    begins: str  # how it begins there, for a report
    scope: Scope  # the exact scope that it shall have
    triple: Triple  # the relation


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """Something that is no relation, or none that may be taken in.

    Attributes:
        where: Where it stands: `"line 7"`.
        begins: How it begins.
        reason: Why it was refused.
    """

    where: str
    begins: str
    reason: str


@dataclass(frozen=True, slots=True)
class PastRelation:
    """A relation that nobody believes any more where it is told.

    Attributes:
        where: Where it stands.
    """

    where: str


Told: TypeAlias = Stated | RefusedRow | PastRelation


@dataclass(frozen=True, slots=True)
class GraphImportReport:
    """What became of relations from elsewhere; the counts add up to `read`.

    Attributes:
        read: How many were told.
        added: Those that are new.
        widened: Those that were known, and of which more is known now: other dates, more mentions.
        known: Those of which all was known; nothing was written.
        past: Those that nobody believes any more where they were told. What was believed, and when, is the own past of each
            database, which none can take over from another.
        refused: How many were refused.
        refusals: The first thousand of these, with the reasons.
    """

    read: int = 0
    added: int = 0
    widened: int = 0
    known: int = 0
    past: int = 0
    refused: int = 0
    refusals: tuple[RefusedRow, ...] = ()


def take_in(
    ledger: Ledger,
    told: Iterable[Told],
    *,
    refused: Callable[[RefusedRow], object] | None = None,
    progress: Callable[[int], object] | None = None,
) -> GraphImportReport:
    """Take relations in, 500 of them in one transaction, so that however many are told, only these are held.

    Taken in again, they are known: what is known only grows (see `storage.graph.writes`). So whoever was broken off begins
    anew.

    Args:
        ledger: Writes them.
        told: What is told, in order.
        refused: Gets each that is refused, as it comes.
        progress: Gets the number of those that were read, after each transaction.
    """
    counts, refusals, source = Counter[str](), list[RefusedRow](), iter(told)
    while batch := list(islice(source, _BATCH)):
        for became, each in _taken(ledger, batch):
            counts[became] += 1
            if isinstance(each, RefusedRow):
                refusals.extend([each] if len(refusals) < _LISTED else [])
                if refused is not None:
                    refused(each)
        if progress is not None:
            progress(counts.total())
    return GraphImportReport(read=counts.total(), **counts, refusals=tuple(refusals))


def _taken(ledger: Ledger, batch: Sequence[Told]) -> Iterator[tuple[str, Told]]:
    """Take some in, and say of each what became of it."""
    stated: defaultdict[Scope, list[Stated]] = defaultdict(list)
    for each in batch:
        if isinstance(each, Stated):
            stated[each.scope].append(each)
        else:
            yield "past" if isinstance(each, PastRelation) else "refused", each
    for scope, some in stated.items():
        for each, became in zip(some, ledger.take_in(scope, [one.triple for one in some]), strict=True):
            yield ("refused", RefusedRow(each.where, each.begins, _ONE)) if became == "same" else (became, each)


COLUMNS: Final = (
    *SCOPE_FIELDS, "source", "relation", "target", "source_type", "target_type", "valid_from", "valid_to", "mentions",
    "confidence", "recorded_at", "retired_at", "id", "memory_ids",
)  # fmt: skip
"""Columns of the table of relations, and beside `scope` the keys of a line of JSON."""

LINE_ENDINGS: Final[dict[str, LineFormat]] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "csv"}
"""The formats that the ending of a file's name tells."""

_NEEDED: Final = ("source", "relation", "target")
_LONGEST: Final = 1_000_000
"""Bytes of a line."""
_SHOWN: Final = 60
"""Characters of a refused line that a report shows."""
_DELIMITERS: Final = ",;\t"
_NO_LINES: Final = {
    b"\x1f\x8b": "this file is packed; unpack it first, as with gunzip",
    b"PK\x03\x04": "this file is packed, or a workbook; unpack it, or save the sheet as CSV",
    b"\xff\xfe": "this file is UTF-16; save it as UTF-8",
    b"\xfe\xff": "this file is UTF-16; save it as UTF-8",
}
"""What other files begin with."""
_TOO_LONG: Final = f"the line is longer than {_LONGEST:,} bytes"


def told_in(stream: IO[bytes] | IO[str], lines: LineFormat, within: Scope | None) -> Iterator[Told]:
    """What the lines of a file tell, in order.

    Args:
        stream: The file, open for reading; UTF-8 where it gives bytes.
        lines: What they are: `"jsonl"` or `"csv"`.
        within: Whose graph: a line may name further fields of a scope, and none that contradicts. `None` where each line says
            whose it is.

    Raises:
        InvalidInputError: The header of a table lacks a column, or has one that is not known.
    """
    return _objects(stream, within) if lines == "jsonl" else _rows(stream, within)


# ── the lines ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _raw(stream: IO[bytes] | IO[str]) -> Iterator[tuple[int, str | None]]:
    """Lines with their numbers; `None` for one that is too long."""
    number = 0
    while line := stream.readline(_LONGEST + 1):
        number += 1
        whole = len(line) <= _LONGEST
        while len(line) > _LONGEST and line[-1] not in {10, "\n"}:
            line = stream.readline(_LONGEST + 1)
        yield number, _decoded(line, first=number == 1) if whole else None


def _decoded(line: bytes | str, *, first: bool) -> str:
    for mark, what in _NO_LINES.items():
        if first and isinstance(line, bytes) and line.startswith(mark):
            raise InvalidInputError(f"{what}; what is read are lines in UTF-8")
    # What is no UTF-8 becomes lone surrogates, which no name may hold.
    text = line.decode("utf-8", "surrogateescape") if isinstance(line, bytes) else line
    return text.removeprefix("\ufeff") if first else text


def _objects(stream: IO[bytes] | IO[str], within: Scope | None) -> Iterator[Told]:
    for number, line in _raw(stream):
        where = f"line {number}"
        if line is None:
            yield RefusedRow(where, "", _TOO_LONG)
        elif line.strip():
            yield _told(where, line.strip(), partial(_object, line.strip()), within)


def _object(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except json.JSONDecodeError as error:
        raise InvalidInputError(f"broken JSON at column {error.colno}: {error.msg}") from None
    except (ValueError, RecursionError):
        raise InvalidInputError("this JSON is nested too deeply, or holds a number of thousands of digits") from None
    if not isinstance(found, dict):
        raise InvalidInputError('a relation is an object: {"source": …, "relation": …, "target": …}')
    scope = found.pop("scope", None) or {}
    if not isinstance(scope, dict) or not scope.keys() <= {*SCOPE_FIELDS}:
        raise InvalidInputError(f"scope is an object with {', '.join(SCOPE_FIELDS)}, not {quoted(scope)}")
    _refuse_unknown(found)
    return {**scope, **found}


def _rows(stream: IO[bytes] | IO[str], within: Scope | None) -> Iterator[Told]:
    lost: list[RefusedRow] = []
    lines = _texts(stream, lost)
    header = next(lines, "")
    delimiter = max(_DELIMITERS, key=header.count)
    names = _names(header, delimiter)
    reader = csv.reader(lines, delimiter=delimiter)
    while True:
        begin = reader.line_num + 2
        try:
            row = next(reader, None)
            where = _place(begin, reader.line_num + 1)
            told = _told(where, ",".join(row), partial(_cells, names, row), within) if row else None
        except csv.Error as error:
            row, told = [], RefusedRow(_place(begin, reader.line_num + 1), "", f"broken CSV: {error}")
        yield from lost
        lost.clear()
        if told is not None:
            yield told
        if row is None:
            return


def _texts(stream: IO[bytes] | IO[str], lost: list[RefusedRow]) -> Iterator[str]:
    for number, line in _raw(stream):
        if line is None:
            lost.append(RefusedRow(f"line {number}", "", _TOO_LONG))
        yield line or "\n"


def _place(first: int, last: int) -> str:
    """Where a row stands: a quote that nobody closes takes in lines that were meant as others."""
    return f"line {first}" if last <= first else f"lines {first} to {last}"


def _names(header: str, delimiter: str) -> list[str]:
    try:
        names = [name.strip() for name in next(csv.reader([header], delimiter=delimiter), [])]
    except csv.Error as error:
        raise InvalidInputError(f"the first line is no CSV: {error}; lines end with a line feed") from None
    if missing := [name for name in _NEEDED if name not in names]:
        raise InvalidInputError(
            f"the first line names the columns: {', '.join(_NEEDED)} and others; missing: {', '.join(missing)}"
        )
    _refuse_unknown(names)
    if len({*names}) < len(names):
        raise InvalidInputError("a column is there twice; remove one")
    return names


def _refuse_unknown(names: Iterable[str]) -> None:
    if unknown := sorted({*names} - {*COLUMNS}):
        told = ", ".join(map(quoted, unknown))
        raise InvalidInputError(f"{told} has no place in a relation; remove it, or use one of {', '.join(COLUMNS)}")


def _cells(names: list[str], row: list[str]) -> dict[str, Any]:
    if len(row) != len(names):
        raise InvalidInputError(f"{len(row)} cells, where the first line names {len(names)} columns")
    values: dict[str, Any] = {name: unescape_cell(cell) for name, cell in zip(names, row, strict=True) if cell}
    for name, kind, what in (("mentions", int, "a whole number"), ("confidence", float, "a number")):
        try:
            values |= {name: kind(values[name])} if name in values else {}
        except ValueError:
            raise InvalidInputError(f"{name} is {what}, not {quoted(values[name])}") from None
    return values


def _begins(line: str) -> str:
    shown = line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
    return shown.encode(errors="replace").decode()


# ── a relation ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _told(where: str, line: str, read: Callable[[], dict[str, Any]], within: Scope | None) -> Told:
    try:
        values = read()
        if values.get("retired_at") is not None:
            return PastRelation(where)
        return Stated(where, _begins(line), _scope(values, within), _triple(values))
    except (InvalidInputError, ScopeError) as error:
        return RefusedRow(where, _begins(line), str(error))


def _scope(values: Mapping[str, Any], within: Scope | None) -> Scope:
    named = {name: values[name] for name in SCOPE_FIELDS if values.get(name) is not None}
    for name, value in {} if within is None else within.named.items():
        if named.setdefault(name, value) != value:
            raise ScopeError(f"{name} {quoted(named[name])} lies outside {name}={quoted(value)}, which was given")
    return Scope(**named)


def _triple(values: Mapping[str, Any]) -> Triple:
    if missing := [name for name in _NEEDED if values.get(name) in (None, "")]:
        raise InvalidInputError(f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
    return triple_of({name: value for name, value in values.items() if value is not None})
