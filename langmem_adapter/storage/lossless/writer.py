"""Lossless import: the second writer beside the ledger takes rows of another database that fit the ledger's guarantees."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, chain, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from langchain_core.messages import messages_from_dict
from sqlalchemy import func, insert, not_, select, update

from langmem_adapter.errors import InvalidInputError, LangmemAdapterError
from langmem_adapter.records.checks import check_text, json_object, quoted
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope, shallow
from langmem_adapter.storage import lexical, meta
from langmem_adapter.storage.conversations import conversations, last_number, notes, set_number
from langmem_adapter.storage.feed import INSERT_CHANGE, VECTORS, last_seq, new_change
from langmem_adapter.storage.items import ITEMS, PLACES, encode, item_vectors, items, namespaces
from langmem_adapter.storage.lossless.export import LineReader
from langmem_adapter.storage.lossless.kinds import KINDS, as_vector, id_column, line_id, scope_fields, scope_of
from langmem_adapter.storage.queries import Prepared, any_of
from langmem_adapter.storage.scopes import ids_within, key_of
from langmem_adapter.storage.tables import (
    BY_HAND,
    ENTITIES,
    MEMORIES,
    RELATIONS,
    changes,
    entities,
    history,
    memories,
    merges,
    metadata,
    relation_memories,
    relations,
    scopes,
)
from langmem_adapter.text import text_hash

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence

    from sqlalchemy import Column, Connection, Table

    from langmem_adapter.storage.lossless.kinds import ImportLine, LineKind

_TableRow: TypeAlias = "tuple[Table, dict[str, Any]]"
ImportUnit: TypeAlias = "Sequence[ImportLine]"
"""Lines of one kind and one group, in their order, which are taken together or not at all; a memory is before its revisions."""

GROUPED: Final = {"relation", "revision"}
"""Kinds of which several lines make a unit."""
_UNCOMPARED: Final = {"order", "born", "hash", "rows", "sources", "vector", "vectors"}
"""Fields that say the same in other words, or the place of a row in one database."""
_BLOCKS: Final = (history.c.seq, entities.c.pk, relations.c.pk, merges.c.pk, items.c.seq, items.c.pk, scopes.c.id)
_SERIALS: Final = {"conversation": conversations.c.id, "note": notes.c.id}
_SPACES: Final[dict[str, Table]] = {MEMORIES: memories, ENTITIES: entities, RELATIONS: relations}
_MOST: Final = 2**46  # the numbers of an item's vectors are 65,536 times as large
_EVENTS: Final = {"ADD", "UPDATE", "DELETE", "NONE"}
_OTHER: Final = "it is here already, with other content"
_SECOND: Final = "its scope has another history here; purge that first, or import under another name"
_OUTSIDE: Final = "it lies outside the scope that is imported"


class Numbers:
    """The numbers that an import has for its rows: of the change feed, and of the two tables that count by themselves."""

    def __init__(self, base: int, counts: Mapping[str, int], serials: Mapping[str, int]) -> None:
        tables = {kind.table: counts[name] for name, kind in KINDS.items()}
        self._sizes = {column: tables[column.table] for column in (*_BLOCKS, *_SERIALS.values())}
        self._sizes[scopes.c.id] *= 2  # rows may name scopes that have no line
        self.base: Final = base
        self.serials: Final = serials
        *starts, self.top = accumulate((self._sizes[block] for block in _BLOCKS), initial=base)
        self.starts: Final = dict(zip(_BLOCKS, starts, strict=True))
        self.starts.update({_SERIALS[name]: start for name, start in serials.items()})

    def at(self, column: Column[int], place: object, name: str = "order", *, least: int = 1) -> int:
        """The number of the row at a place among those of an export."""
        if type(place) is not int or not least <= place <= self._sizes[column]:
            raise InvalidInputError(
                f"{name} must be a number from {least} to {self._sizes[column]:,}, not {quoted(place)}"
            )
        return self.starts[column] + place

    @classmethod
    def reserve(cls, connection: Connection, counts: Mapping[str, int]) -> Numbers:
        """Take numbers for so many rows, within a write transaction."""
        # Contract: a reader of the feed never misses a row: the numbers of an import lie below one that is written with
        # the reservation, so what others write comes after them; rows that use them are named again at the end of the feed
        # with the commit that brings them, under numbers drawn as every writer draws them.
        # tests/storage/test_lossless.py::test_indexes_follow_import_while_others_write
        serials = {name: last_number(connection, column.table) for name, column in _SERIALS.items()}
        numbers = cls(last_seq(connection), counts, serials)
        if numbers.top >= _MOST:
            raise InvalidInputError("the first line counts more rows than a database can number")
        for name, column in _SERIALS.items():
            set_number(connection, column.table, serials[name] + counts[name])
        INSERT_CHANGE.run(connection, new_change(numbers.top + 1, "imports", 0, "put"))
        return numbers


@dataclass(slots=True, eq=False)
class ImportBatch:
    """Some units on their way into a database: `take` checks them and collects their rows, `post` writes these.

    Args:
        connection: A transaction; of a dry run one that reads.
        numbers: The numbers of the import.
        vectors: The vectors of memories, by their texts.
        within: The scope that all must lie in; `None` for any.
        kept: What batches have read or made: scopes, and rows that lines name by their ids. A dry run writes none of them.
        extends: Whether a scope that has a history here gets more; the numbers must then be of this transaction.
    """

    # Contract: a row that this writer takes fits what `Ledger.apply` guarantees. A memory has all of its revisions, counted
    # from 1 without a gap, in the order of their numbers and in one scope; it is there if its last change left it, with its
    # text; nothing ends before it begins; no relation, past or merge joins two scopes; of a relation one row is
    # current. Of a unit with a line that does not fit nothing is taken.
    # `test_import_takes_no_row_that_breaks_a_guarantee_of_the_ledger`
    connection: Connection
    numbers: Numbers
    vectors: Mapping[str, bytes]
    within: Scope | None
    kept: MutableMapping[tuple[str, Any], Any]
    extends: bool = False
    added: Counter[str] = field(default_factory=Counter)
    unchanged: int = 0
    rejected: dict[int, str] = field(default_factory=dict)
    _rows: defaultdict[Table, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    _homes: dict[str, int] = field(default_factory=dict)  # the scopes of memories that are here, or that rows here name
    _outside: set[str] = field(default_factory=set)  # memories that lie outside the scope that is imported

    def take(self, name: str, units: Sequence[ImportUnit]) -> None:
        """Check units of one kind against each other's rows here, and collect what is new."""
        kind = KINDS[name]
        stored = self._stored(kind, units)
        self._look_up(kind, [line for unit in units for line in unit])
        for unit in units:
            try:
                rows = self._new_rows(kind, unit, stored.get(unit[-1].group, []))
            except LangmemAdapterError as error:
                self.rejected |= dict.fromkeys((line.number for line in unit), str(error))
                if kind.table is conversations:
                    self.kept[conversations.name, unit[0].group] = None
                continue
            if rows is None:
                self.unchanged += len(unit)
                continue
            for table, row in rows:
                self._rows[table].append(row)
            self.added.update(line["kind"] for line in unit)

    def post(self, language: str, fingerprint: str, item_mark: str | None) -> None:
        """Write what was collected: memories with vectors of the first model, items with those of the second."""
        connection, rows = self.connection, self._rows
        for space, mark, table in ((VECTORS, fingerprint, memories), (ITEMS, item_mark, item_vectors)):
            if mark and rows[table] and not meta.check_embeddings(connection, mark, space):
                meta.put(connection, space.model, mark)
        seqs = {row["seq"] for table in (history, memories, items) for row in rows[table]}
        present = connection.execute(select(changes.c.seq).where(any_of(changes.c.seq, seqs))).scalars()
        INSERT_CHANGE.run(
            connection, *(new_change(seq, "imports", 0, "put") for seq in sorted(seqs.difference(present)))
        )
        for table in metadata.sorted_tables:
            if "seq" in table.c:
                rows[table].sort(key=itemgetter("seq"))
            _insert(table).run(connection, *rows[table])
        lexical.grow_scopes(connection, lexical.add(connection, rows[memories], language))
        for row in rows[merges]:
            if row["undone_at"] is None:
                loser = entities.c.pk == row["loser_pk"]
                connection.execute(update(entities).where(loser).values(merged_into=row["winner_pk"]))
        named = [(space, row["pk"]) for space, table in _SPACES.items() for row in rows[table]]
        for row in rows[items]:
            named += [(ITEMS.name, row["pk"] * PLACES + place) for place in range(max(1, row["vectors"]))]
        last = last_seq(connection)
        INSERT_CHANGE.run(connection, *(new_change(seq, *each, "put") for seq, each in enumerate(named, last + 1)))

    # ── what is here ────────────────────────────────────────────────────────────────────────────────────────────────

    def _stored(self, kind: LineKind, units: Sequence[ImportUnit]) -> dict[str, list[dict[str, Any]]]:
        """The lines that are here of the same groups."""
        reader, groups = LineReader(self.connection, ranks=False), {unit[-1].group for unit in units}
        places = [unit[0].row[kind.place] for unit in units] if kind.place in kind.table.c else []
        stored = reader.of(kind, groups, places)
        for group, lines in reader.of(KINDS["memory"], groups).items() if kind.table is history else ():
            stored[group] = [*lines, *stored.get(group, ())]
        return stored

    def _look_up(self, kind: LineKind, lines: Sequence[ImportLine]) -> None:
        """Read the rows that lines name, and the scopes of the memories that they name."""
        for name, table in kind.references.values():
            ids = {line[name] for line in lines if line.get(name) is not None}
            for row in self.connection.execute(select(table).where(any_of(id_column(table), ids))).mappings():
                self.kept.setdefault((table.name, row[id_column(table)]), _short(row))
        ids = {line.row[name] for line in lines for name in ("memory_id", "past_of") if name in line.row} - {None}
        ids |= {each["memory_id"] for line in lines for each in line.children if "memory_id" in each}
        if not ids:
            return
        if self.within is not None:
            outside = history.c.scope_id.not_in(ids_within(self.within))
            query = select(history.c.memory_id).where(any_of(history.c.memory_id, ids), outside)
            self._outside.update(self.connection.execute(query).scalars())
        for column in (history.c.memory_id, history.c.past_of, relation_memories.c.memory_id):
            homes = select(column, column.table.c.scope_id).where(any_of(column, ids)).distinct()
            self._homes.update((id_, scope_id) for id_, scope_id in self.connection.execute(homes))

    def _scope_number(self, line: ImportLine) -> int | None:
        """The number of a line's scope, which is made where there is none; `None` where it has another history here."""
        fields = scope_fields(line)
        if ("scope", fields) not in self.kept:
            self.kept["scope", fields] = self._find_scope(Scope(*fields))
        number: int | None = self.kept["scope", fields]
        return number

    def _find_scope(self, scope: Scope) -> int | None:
        key, base, top = key_of(scope), self.numbers.base, self.numbers.top
        number: int | None = self.connection.execute(select(scopes.c.id).where(scopes.c.key == key)).scalar()
        if number is not None:
            is_own = self.extends or base < number <= top
            foreign = (
                select(column).where(column.table.c.scope_id == number, not_(column.between(base + 1, top))).limit(1)
                for column in (history.c.seq, entities.c.pk)
            )
            return number if is_own or not any(self.connection.execute(query).first() for query in foreign) else None
        last = self.connection.execute(select(func.max(scopes.c.id)).where(scopes.c.id.between(base + 1, top))).scalar()
        number = (last or self.numbers.starts[scopes.c.id]) + len(self._rows[scopes]) + 1
        if number > top:
            raise InvalidInputError("there are more scopes than the first line counts")
        # It stays where the unit is rejected: a scope may be there without rows.
        self._rows[scopes].append({"id": number, "key": key, **shallow(scope), "word_count": 0, "compared": None})
        return number

    # ── checks and rows ─────────────────────────────────────────────────────────────────────────────────────────────

    def _new_rows(self, kind: LineKind, unit: ImportUnit, here: Sequence[dict[str, Any]]) -> list[_TableRow] | None:
        """The rows of a unit; `None` where it is here already."""
        # Contract: whether a row of another scope is here is not shown to a caller who may import one scope.
        # tests/server/test_import.py::test_import_of_a_full_export_makes_the_same_again
        # tests/storage/test_lossless.py::test_import_within_a_scope_tells_nothing_of_rows_of_another_one
        if not all(self._is_within(line) for line in unit):
            raise InvalidInputError(_OUTSIDE)
        first = unit[0]
        if kind.name not in GROUPED:
            here = [line for line in here if line["id"] == first["id"]]
        if kind.table is scopes and self.numbers.base < (self._scope_number(first) or 0) <= self.numbers.top:
            return []
        if here and _comparable(unit) == _comparable(here):
            return None
        if here:
            raise InvalidInputError(_OTHER)
        if any(scope_fields(line) != scope_fields(first) for line in unit):
            raise InvalidInputError("its lines are of two scopes")
        rows = [row for line in unit for row in self._rows_of(KINDS[line["kind"]], line)]
        if kind.name in GROUPED:
            own = [row for table, row in rows if table is kind.table]
            ids = [line["id"] for line in unit if line["kind"] == kind.name]
            if ids != [line_id(first.group, place) for place, _ in enumerate(ids, 1)]:
                raise InvalidInputError(f"one {kind.name} of {len(ids)} is missing, or in another place")
            if any(one[kind.order] >= other[kind.order] for one, other in pairwise(own)):
                raise InvalidInputError("its lines are in another order than they were written")
            check: Any = getattr(self, f"_check_{kind.name}s")
            check(unit, own, rows[0][1])
        return rows

    def _is_within(self, line: ImportLine) -> bool:
        if self.within is None:
            return True
        is_talk = line["kind"] in {"message", "note"}
        scope = scope_of((self.kept.get((conversations.name, line["conversation"])) or {}) if is_talk else line)
        return scope is not None and self.within.covers(scope)

    def _rows_of(self, kind: LineKind, line: ImportLine) -> Iterator[_TableRow]:
        """The row of a line and those of its list, with the numbers that they, and what they name, have here."""
        row: dict[str, Any] = {**dict.fromkeys(kind.table.c.keys()), **self._numbered(kind, line.row, line)}
        if kind.group in kind.table.c:
            row[kind.group] = line.group
        for column, (name, table) in kind.references.items():
            other = self.kept.get((table.name, line.get(name)))
            if other is None or other.get("scope_id") != row.get("scope_id"):
                raise InvalidInputError(f"its {name} is not here, or of another scope")
            row[column] = other[next(iter(table.primary_key)).key]
        begins, ends = row.get("valid_from"), row.get("valid_to")
        if begins is not None and ends is not None and ends < begins:
            raise InvalidInputError("it ends before it begins")
        yield kind.table, row
        complete: Any = getattr(self, f"_complete_{kind.name}", None)
        yield from (complete and complete(line, row)) or ()
        if kind.table in {conversations, entities}:
            self.kept[kind.table.name, line["id"]] = _short(row)
        if (child := kind.child) is not None:
            parents = {name: row[own] for name, own in child.parents.items()}
            yield from ((child.table, {**self._numbered(child, each, line), **parents}) for each in line.children)

    def _numbered(self, fields: LineKind, row: Mapping[str, Any], line: ImportLine) -> dict[str, Any]:
        row = {**row}
        if fields.counted is not None:
            row[fields.order] = self.numbers.at(fields.counted, row[fields.order], least=0 if fields.parents else 1)
        if fields.is_owned:
            row["scope_id"] = self._scope_number(line)
            if row["scope_id"] is None:
                raise InvalidInputError(_SECOND)
        return row

    def _refuse_others(self, ids: Iterable[str], scope_id: int) -> None:
        """Refuse what would join two scopes: another one has, or names, memories of these ids."""
        if any(self._homes.get(id_, scope_id) != scope_id for id_ in ids if id_ != BY_HAND):
            raise InvalidInputError("a memory that it names is of another scope")
        self._homes |= dict.fromkeys(ids, scope_id)

    def _complete_message(self, line: ImportLine, row: Mapping[str, Any]) -> None:
        last = self.kept[conversations.name, line["conversation"]]["last"]
        if not 1 <= row["position"] <= last or line["id"] != line_id(line["conversation"], row["position"]):
            raise InvalidInputError("its position is not one of its conversation")
        try:
            message = _read_json(row["message"], dict)
            json_object(message, "message")
            messages_from_dict([message])
        except (ValueError, TypeError, KeyError, AttributeError):
            raise InvalidInputError("message is not the JSON of a LangChain message") from None

    def _complete_source(self, line: ImportLine, _: object) -> None:
        if not self._outside.isdisjoint(each["memory_id"] for each in line.children):
            raise InvalidInputError("a memory that it names lies outside the scope that is imported")

    def _complete_merge(self, line: ImportLine, row: dict[str, Any]) -> None:
        pk = relations.c.pk
        try:
            rows = [
                (self.numbers.at(pk, old), None if new is None else self.numbers.at(pk, new))
                for old, new in line["rows"]
            ]
            for text in chain(*((one, other) for one, other in line["links"]), line["keys"]):
                check_text(text, "links")
        except (TypeError, ValueError, KeyError):
            raise InvalidInputError("what the merge moved cannot be read") from None
        row["moved"] = {"rows": rows, "links": line["links"], "keys": line["keys"]}
        if row["undone_at"] is None:
            last: int | None = row["winner_pk"]
            while last is not None and last != row["loser_pk"]:
                last = self._winner_of(last)
            if last is not None or self._winner_of(row["loser_pk"]) is not None:
                raise InvalidInputError("the entity is merged into another one already, or into itself")
            self.kept["merged", row["loser_pk"]] = row["winner_pk"]

    def _winner_of(self, pk: int) -> int | None:
        if ("merged", pk) not in self.kept:
            query = select(entities.c.merged_into).where(entities.c.pk == pk)
            self.kept["merged", pk] = self.connection.execute(query).scalar()
        winner: int | None = self.kept["merged", pk]
        return winner

    def _complete_item(self, line: ImportLine, row: dict[str, Any]) -> Iterator[_TableRow]:
        for name, kind in (("value", dict), ("fields", list)):
            if row[name] is not None:
                json_object({name: _read_json(row[name], kind)}, name)
        pk, path = self.numbers.at(items.c.pk, line.get("born"), "born"), encode(tuple(line["namespace"]))
        vectors, key = line.get("vectors", []), ("size", "vectors")
        if not isinstance(vectors, list) or len(vectors) > PLACES:
            raise InvalidInputError(f"vectors must be a list of up to {PLACES:,}")
        if vectors and key not in self.kept:
            here = self.connection.execute(select(item_vectors.c.embedding).limit(1)).scalar()
            self.kept[key] = len(here or as_vector(vectors[0], "vectors", None))
        embeddings = [as_vector(each, "vectors", self.kept[key]) for each in vectors]
        if ("namespace", path) not in self.kept:
            query = select(namespaces.c.id).where(namespaces.c.path == path)
            self.kept["namespace", path] = self.connection.execute(query).scalar() or pk
            if self.kept["namespace", path] == pk:
                yield namespaces, {"id": pk, "path": path}
        row |= {"pk": pk, "namespace_id": self.kept["namespace", path], "vectors": len(vectors)}
        for place, vector in enumerate(embeddings):
            own = {"pk": pk * PLACES + place, "namespace_id": row["namespace_id"]}
            yield item_vectors, {**own, "embedding": vector}

    def _complete_revision(self, _: object, row: Mapping[str, Any]) -> None:
        is_deleted = row["event"] == "DELETE"
        fits = row["is_deleted"] == int(is_deleted) and (row["new_memory"] is None) == is_deleted
        if row["event"] not in _EVENTS or not fits:
            raise InvalidInputError(f"event {row['event']!r} does not fit the rest of the revision")

    def _check_relations(self, unit: ImportUnit, rows: Sequence[dict[str, Any]], _: object) -> None:
        if sum(row["retired_at"] is None for row in rows) > 1:
            raise InvalidInputError("rows of the relation contradict each other")
        self._refuse_others([each["memory_id"] for line in unit for each in line.children], rows[0]["scope_id"])

    def _check_revisions(self, unit: ImportUnit, rows: Sequence[dict[str, Any]], memory: dict[str, Any]) -> None:
        if [row["revision"] for row in rows] != [*range(1, len(rows) + 1)] or rows[0]["event"] != "ADD":
            raise InvalidInputError("its revisions are in another order than they were written")
        ids = {unit[0].group, *(row["past_of"] for row in rows if row["past_of"] is not None)}
        if BY_HAND in ids:  # it means more than this scope
            raise InvalidInputError("a memory that it names has no id")
        own = [row for row in rows if row["past_of"] is None]
        texts = [row["new_memory"] for row in own if row["event"] != "NONE"]
        if (texts[-1] if texts else None) != memory.get("text"):
            raise InvalidInputError("its revisions do not end with what the memory says")
        if unit[0]["kind"] == "memory":
            if unit[0].get("revisions") != len(rows) or memory["revision"] > len(rows):
                raise InvalidInputError("the memory has not all of its revisions")
            if memory["seq"] < own[-1]["seq"]:
                raise InvalidInputError("the memory is older than its revisions")
            memory["pk"] = [row["seq"] for row in rows if row["event"] == "ADD"][-1]
            memory |= {"hash": text_hash(memory["text"]), "embedding": self.vectors.get(memory["text"], b"")}
        self._refuse_others(ids, rows[0]["scope_id"])


@cache
def _insert(table: Table) -> Prepared:
    return Prepared(insert(table))


def _short(row: Mapping[Any, Any]) -> dict[str, Any]:
    """What other rows need of one that they name."""
    return {name: row[name] for name in ("pk", "id", "scope_id", "last", *SCOPE_FIELDS) if name in row}


def _comparable(lines: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What lines say, whatever database they come from."""
    plain = ({name: _without_order(value) for name, value in line.items() if name not in _UNCOMPARED} for line in lines)
    bare = ({name: value for name, value in line.items() if value not in (None, False)} for line in plain)
    return sorted(bare, key=lambda line: (str(line.get("kind")), str(line.get("id"))))


def _without_order(value: Any) -> Any:
    if isinstance(value, list):
        return [{k: v for k, v in each.items() if k != "order"} if isinstance(each, dict) else each for each in value]
    return value


def _read_json(text: str, kind: type) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, kind):
        raise InvalidInputError(f"{text[:60]!r} is not the JSON of a {kind.__name__}")
    return value
