"""Import of relations from files and other graphs: their lines, checked, and written in batches.

A reader gives each row as an `ImportRow`: its place, and the relation with the scope that it shall have, or why it is none
(`RefusedRow`), or that it is retired there (`PastRelation`). One line is in memory at a time, of bounded length.
"""

from __future__ import annotations

import csv
import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from langmem_adapter.arguments import bounded, filled, flag, parse_time
from langmem_adapter.errors import InvalidInputError, ScopeError
from langmem_adapter.names import LONGEST_NAME, LONGEST_RELATION, entity_key, owner_role, relation_name
from langmem_adapter.records.checks import check_text, quoted
from langmem_adapter.records.escapes import unescape_cell
from langmem_adapter.records.graph import Triple
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope
from langmem_adapter.storage.tables import MOST_MENTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import IO

    from langmem_adapter.records.graph import LineFormat
    from langmem_adapter.storage.ledger import Ledger

# ── a relation ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def parse_name(name: object, what: str) -> str:
    """The name of an entity; `SELF` and `ASSISTANT` for the words that mean these."""
    text = filled(name, what).strip()
    if len(text) > LONGEST_NAME:
        raise InvalidInputError(f"{what} has {len(text)} characters; a name has at most {LONGEST_NAME}")
    if not entity_key(text):
        raise InvalidInputError(f"{what}={text!r} is no name: it holds nothing but punctuation")
    return owner_role(text) or text


def parse_relation(name: object) -> str:
    """The name of a relation, in the form in which it is kept."""
    text = filled(name, "relation")
    if len(text) > LONGEST_RELATION:
        raise InvalidInputError(f"relation has {len(text)} characters; its name has at most {LONGEST_RELATION}")
    if not (kept := relation_name(text)):
        raise InvalidInputError(f"relation={text!r} holds no word; name it like 'lives in'")
    return kept


def parse_type(kind: object, what: str) -> str:
    """The type of an entity, empty where there is none."""
    return "" if kind is None else check_text(kind, what).strip()


def parse_triple(fields: Mapping[str, Any]) -> Triple:
    """A relation from the fields of a `Triple`; what is left out has its default."""
    since, until = (
        None if fields.get(name) is None else parse_time(fields[name], name) for name in ("valid_from", "valid_to")
    )
    confidence = fields.get("confidence", 1.0)
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 < confidence <= 1:
        raise InvalidInputError(f"confidence is a number above 0 and at most 1, not {quoted(confidence)}")
    triple = Triple(
        source=parse_name(fields.get("source"), "source"),
        relation=parse_relation(fields.get("relation")),
        target=parse_name(fields.get("target"), "target"),
        source_type=parse_type(fields.get("source_type"), "source_type"),
        target_type=parse_type(fields.get("target_type"), "target_type"),
        valid_from=since,
        valid_to=until,
        single=None if fields.get("single") is None else flag(fields["single"], "single"),
        confidence=float(confidence),
        mentions=1 if fields.get("mentions") is None else bounded(fields["mentions"], "mentions", most=MOST_MENTIONS),
    )
    if since is not None and until is not None and since >= until:
        raise InvalidInputError("valid_from must lie before valid_to")
    return triple


# ── import in batches ───────────────────────────────────────────────────────────────────────────────────────────────────

_BATCH: Final = 500  # relations of one transaction: others wait for it
_LISTED: Final = 1_000  # refusals that a report lists
_SAME_ENDS: Final = "source and target are the same entity; name two"


@dataclass(frozen=True, slots=True)
class StatedRelation:
    """A relation of a file or another graph."""

    where: str  # its place there: `"line 7"`
    begins: str  # how it begins there, for a report
    scope: Scope  # the exact scope that it shall have
    triple: Triple  # the relation


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A row that is no relation, or none that may be imported.

    Attributes:
        where: Its place: `"line 7"`.
        begins: How it begins.
        reason: Why it was refused.
    """

    where: str
    begins: str
    reason: str


@dataclass(frozen=True, slots=True)
class PastRelation:
    """A relation that is retired in the graph that it comes from."""

    where: str


ImportRow: TypeAlias = StatedRelation | RefusedRow | PastRelation


@dataclass(frozen=True, slots=True)
class GraphImportReport:
    """The result of an import of relations; the counts add up to `read`.

    Attributes:
        read: How many rows there were.
        added: Those that are new.
        widened: Those that were known, and of which more is known now: other dates, more mentions.
        known: Those of which all was known; nothing was written.
        past: Those that are retired where they come from: recorded times belong to each database.
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


def import_relations(
    ledger: Ledger,
    rows: Iterable[ImportRow],
    *,
    refused: Callable[[RefusedRow], object] | None = None,
    progress: Callable[[int], object] | None = None,
) -> GraphImportReport:
    """Import relations, 500 in one transaction; *refused* gets each refused row, *progress* the number of rows after each."""
    counts, refusals, source = Counter[str](), list[RefusedRow](), iter(rows)
    while batch := list(islice(source, _BATCH)):
        for outcome, row in _import_batch(ledger, batch):
            counts[outcome] += 1
            if isinstance(row, RefusedRow):
                refusals.extend([row] if len(refusals) < _LISTED else [])
                if refused is not None:
                    refused(row)
        if progress is not None:
            progress(counts.total())
    return GraphImportReport(read=counts.total(), **counts, refusals=tuple(refusals))


def _import_batch(ledger: Ledger, batch: Sequence[ImportRow]) -> Iterator[tuple[str, ImportRow]]:
    stated: defaultdict[Scope, list[StatedRelation]] = defaultdict(list)
    for row in batch:
        if isinstance(row, StatedRelation):
            stated[row.scope].append(row)
        else:
            yield "past" if isinstance(row, PastRelation) else "refused", row
    for scope, some in stated.items():
        for each, outcome in zip(some, ledger.take_in(scope, [one.triple for one in some]), strict=True):
            is_same = outcome == "same"
            yield ("refused", RefusedRow(each.where, each.begins, _SAME_ENDS)) if is_same else (outcome, each)


# ── the lines of a file ─────────────────────────────────────────────────────────────────────────────────────────────────

COLUMNS: Final = (
    *SCOPE_FIELDS, "source", "relation", "target", "source_type", "target_type", "valid_from", "valid_to", "mentions",
    "confidence", "recorded_at", "retired_at", "id", "memory_ids",
)  # fmt: skip
"""Columns of the table of relations, and beside `scope` the keys of a line of JSON."""
_NEEDED: Final = ("source", "relation", "target")
_LONGEST: Final = 1_000_000  # bytes of a line
_PREVIEW: Final = 60  # characters of a refused line that a report shows
_DELIMITERS: Final = ",;\t"
_OTHER_FILES: Final = {
    b"\x1f\x8b": "this file is packed; unpack it first, as with gunzip",
    b"PK\x03\x04": "this file is packed, or a workbook; unpack it, or save the sheet as CSV",
    b"\xff\xfe": "this file is UTF-16; save it as UTF-8",
    b"\xfe\xff": "this file is UTF-16; save it as UTF-8",
}
"""What other files begin with."""
_TOO_LONG: Final = f"the line is longer than {_LONGEST:,} bytes"


def read_rows(stream: IO[bytes] | IO[str], form: LineFormat, within: Scope | None) -> Iterator[ImportRow]:
    """The rows of a file, in order; a line may name further fields of the scope *within*, and none that contradicts."""
    return _read_json(stream, within) if form == "jsonl" else _read_table(stream, within)


def _read_lines(stream: IO[bytes] | IO[str]) -> Iterator[tuple[int, str | None]]:
    """Lines with their numbers; `None` for one that is too long."""
    number = 0
    while line := stream.readline(_LONGEST + 1):
        number += 1
        is_whole = len(line) <= _LONGEST
        while len(line) > _LONGEST and line[-1] not in {10, "\n"}:
            line = stream.readline(_LONGEST + 1)
        yield number, _decode(line, is_first=number == 1) if is_whole else None


def _decode(line: bytes | str, *, is_first: bool) -> str:
    for mark, what in _OTHER_FILES.items():
        if is_first and isinstance(line, bytes) and line.startswith(mark):
            raise InvalidInputError(f"{what}; what is read are lines in UTF-8")
    # What is no UTF-8 becomes lone surrogates, which no name may hold.
    text = line.decode("utf-8", "surrogateescape") if isinstance(line, bytes) else line
    return text.removeprefix("\ufeff") if is_first else text


def _read_json(stream: IO[bytes] | IO[str], within: Scope | None) -> Iterator[ImportRow]:
    for number, line in _read_lines(stream):
        if line is None:
            yield RefusedRow(f"line {number}", "", _TOO_LONG)
        elif line.strip():
            yield _row(f"line {number}", line.strip(), partial(_parse_object, line.strip()), within)


def _parse_object(line: str) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except json.JSONDecodeError as error:
        raise InvalidInputError(f"broken JSON at column {error.colno}: {error.msg}") from None
    except (ValueError, RecursionError):
        raise InvalidInputError("this JSON is nested too deeply, or holds a number of thousands of digits") from None
    if not isinstance(fields, dict):
        raise InvalidInputError('a relation is an object: {"source": …, "relation": …, "target": …}')
    scope = fields.pop("scope", None) or {}
    if not isinstance(scope, dict) or not scope.keys() <= {*SCOPE_FIELDS}:
        raise InvalidInputError(f"scope is an object with {', '.join(SCOPE_FIELDS)}, not {quoted(scope)}")
    _refuse_unknown(fields)
    return {**scope, **fields}


def _read_table(stream: IO[bytes] | IO[str], within: Scope | None) -> Iterator[ImportRow]:
    skipped: list[RefusedRow] = []

    def texts() -> Iterator[str]:
        for number, line in _read_lines(stream):
            if line is None:
                skipped.append(RefusedRow(f"line {number}", "", _TOO_LONG))
            yield line or "\n"

    lines = texts()
    header = next(lines, "")
    delimiter = max(_DELIMITERS, key=header.count)
    names = _column_names(header, delimiter)
    reader = csv.reader(lines, delimiter=delimiter)
    cells: list[str] | None = []
    while cells is not None:
        begin = reader.line_num + 2
        try:
            cells = next(reader, None)
            where = _place(begin, reader.line_num + 1)
            row = _row(where, ",".join(cells), partial(_parse_cells, names, cells), within) if cells else None
        except csv.Error as error:
            row = RefusedRow(_place(begin, reader.line_num + 1), "", f"broken CSV: {error}")
        yield from skipped
        skipped.clear()
        if row is not None:
            yield row


def _place(first: int, last: int) -> str:
    """The place of a row: a quote that is not closed takes in lines that were meant as others."""
    return f"line {first}" if last <= first else f"lines {first} to {last}"


def _column_names(header: str, delimiter: str) -> list[str]:
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
        listed = ", ".join(map(quoted, unknown))
        raise InvalidInputError(f"{listed} has no place in a relation; remove it, or use one of {', '.join(COLUMNS)}")


def _parse_cells(names: list[str], cells: list[str]) -> dict[str, Any]:
    if len(cells) != len(names):
        raise InvalidInputError(f"{len(cells)} cells, where the first line names {len(names)} columns")
    values: dict[str, Any] = {name: unescape_cell(cell) for name, cell in zip(names, cells, strict=True) if cell}
    for name, kind, what in (("mentions", int, "a whole number"), ("confidence", float, "a number")):
        try:
            values |= {name: kind(values[name])} if name in values else {}
        except ValueError:
            raise InvalidInputError(f"{name} is {what}, not {quoted(values[name])}") from None
    return values


def _row(where: str, line: str, parse: Callable[[], dict[str, Any]], within: Scope | None) -> ImportRow:
    begins = (line if len(line) <= _PREVIEW else f"{line[:_PREVIEW]}…").encode(errors="replace").decode()
    try:
        values = parse()
        if values.get("retired_at") is not None:
            return PastRelation(where)
        return StatedRelation(where, begins, _scope(values, within), _triple(values))
    except (InvalidInputError, ScopeError) as error:
        return RefusedRow(where, begins, str(error))


def _triple(values: Mapping[str, Any]) -> Triple:
    if missing := [name for name in _NEEDED if values.get(name) in (None, "")]:
        raise InvalidInputError(f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
    return parse_triple({name: value for name, value in values.items() if value is not None})


def _scope(values: Mapping[str, Any], within: Scope | None) -> Scope:
    fields = {name: values[name] for name in SCOPE_FIELDS if values.get(name) is not None}
    for name, value in {} if within is None else within.named.items():
        if fields.setdefault(name, value) != value:
            raise ScopeError(f"{name} {quoted(fields[name])} lies outside {name}={quoted(value)}, which was given")
    return Scope(**fields)
