"""Lossless import: the second writer beside the ledger takes rows of another database that fit the ledger's guarantees."""

from __future__ import annotations

import json
import secrets
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, chain, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from langchain_core.messages import messages_from_dict
from sqlalchemy import exists, func, insert, not_, select, text, update

from langmem_adapter.errors import InvalidInputError, LangmemAdapterError
from langmem_adapter.records.checks import check_text, json_object
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope
from langmem_adapter.storage import lexical, meta
from langmem_adapter.storage.conversations import Conversation, conversations, notes, turns
from langmem_adapter.storage.feed import INSERT_CHANGE, last_seq
from langmem_adapter.storage.items import ITEMS, PLACES, encode, item_id, item_vectors, items, namespaces
from langmem_adapter.storage.lossless.export import (
    KINDS,
    LINKS,
    NAMES,
    SUPPORT,
    LineReader,
    as_vector,
    line_id,
    objects_of,
    order_of,
)
from langmem_adapter.storage.queries import Prepared, any_of
from langmem_adapter.storage.scopes import ids_within, key_of
from langmem_adapter.storage.sources import MessageThread, source_memories, sources
from langmem_adapter.storage.tables import (
    BY_HAND,
    ENTITIES,
    MEMORIES,
    RELATIONS,
    changes,
    entities,
    entity_names,
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

    from sqlalchemy import Connection, Table

_TableRow: TypeAlias = "tuple[Table, dict[str, Any]]"

_UNCOMPARED: Final = {"order", "born", "hash", "rows", "sources", "vector", "vectors"}
"""Fields that say the same in other words, or the place of a row in one database."""
_BLOCKS: Final = ("revision", "entity", "relation", "merge", "item", "born", "scope", "more scopes")
_COUNTED_AS: Final = {"born": "item", "more scopes": "scope"}
_MOST: Final = 2**46  # the numbers of an item's vectors are 65,536 times as large
_EVENTS: Final = {"ADD", "UPDATE", "DELETE", "NONE"}
_OTHER: Final = "it is here already, with other content"
_SECOND: Final = "its scope has another history here; purge that first, or import under another name"
_NO_CONVERSATION: Final = "its conversation is not here"
_OUTSIDE: Final = "it lies outside the scope that is imported"
_NAMED: Final = {"conversation", "scope", "source"}  # their ids follow from a scope and a name


class ImportLine(dict[str, Any]):
    """A line as an object, with its number in the file, the values of its row, and the digest of the lines up to it."""

    number: int
    row: dict[str, Any]
    digest: str


@dataclass(frozen=True, slots=True, eq=False)
class ImportUnit:
    """Lines that are taken together or not at all: a memory and its revisions, the rows of a relation, any other line."""

    kind: str
    group: str  # what the ids of its lines begin with
    lines: Sequence[ImportLine]
    memory: ImportLine | None = None

    @property
    def all_lines(self) -> list[ImportLine]:
        """Its lines, and that of the memory."""
        return [*self.lines, *([] if self.memory is None else [self.memory])]


class Numbers:
    """The numbers that an import has for its rows: of the change feed, and of the two tables that count by themselves."""

    def __init__(self, base: int, counts: Mapping[str, int], serials: Mapping[str, int]) -> None:
        self.base: Final = base
        self.counts: Final[dict[str, int]] = {**counts, **{block: counts[kind] for block, kind in _COUNTED_AS.items()}}
        self.serials: Final = serials
        *starts, self.top = accumulate((self.counts[block] for block in _BLOCKS), initial=base)
        self.starts: Final[dict[str, int]] = {**dict(zip(_BLOCKS, starts, strict=True)), **serials}

    def of(self, line: Mapping[str, Any], block: str, name: str = "order", *, least: int = 1) -> int:
        """The number of a row, by its place among the rows of its kind."""
        return self.starts[block] + order_of(line, name, self.counts[block], least=least)

    @classmethod
    def reserve(cls, connection: Connection, counts: Mapping[str, int]) -> Numbers:
        """Take numbers for so many rows, within a write transaction."""
        # Contract: a reader of the feed never misses a row: the numbers of an import lie below one that is written with
        # the reservation, so what others write comes after them; rows that use them are named again at the end of the feed
        # with the commit that brings them, under numbers drawn as every writer draws them.
        # tests/storage/test_lossless.py::test_indexes_follow_import_while_others_write
        serials = {kind: _reserve_serials(connection, f"{kind}s", counts[kind]) for kind in ("conversation", "note")}
        numbers = cls(last_seq(connection), counts, serials)
        if numbers.top >= _MOST:
            raise InvalidInputError("the first line counts more rows than a database can number")
        _write_changes(connection, {numbers.top + 1: ("imports", 0)})
        return numbers


def _reserve_serials(connection: Connection, table: str, number: int) -> int:
    """Take so many numbers of a table that counts by itself; gives the last one before them."""
    if connection.dialect.name == "postgresql":
        begun = "setval(pg_get_serial_sequence(:t, 'id'), nextval(pg_get_serial_sequence(:t, 'id')) + :n)"
        return int(connection.execute(text(f"SELECT {begun}"), {"t": table, "n": number}).scalar_one()) - number
    last = connection.execute(text("SELECT seq FROM sqlite_sequence WHERE name = :t"), {"t": table}).scalar()
    write = "INSERT INTO sqlite_sequence (name, seq) VALUES (:t, :n)"
    if last is not None:
        write = "UPDATE sqlite_sequence SET seq = :n WHERE name = :t"
    connection.execute(text(write), {"t": table, "n": (last or 0) + number})
    return int(last or 0)


def _write_changes(connection: Connection, rows: Mapping[int, tuple[str, int]]) -> None:
    """Let the feed name rows, each as space and row, under these numbers."""
    named = ({"seq": seq, "space": space, "row": row, "op": "put"} for seq, (space, row) in rows.items())
    INSERT_CHANGE.run(connection, *({**row, "nonce": secrets.token_bytes(8)} for row in named))


def scope_of(line: Mapping[str, Any]) -> Scope | None:
    """The scope that a line names; `None` where it names none."""
    fields = _scope_fields(line)
    return Scope(*fields) if any(each is not None for each in fields) else None


def _scope_fields(line: Mapping[str, Any]) -> tuple[Any, ...]:
    return line.get("user_id"), line.get("agent_id"), line.get("run_id")


@dataclass(slots=True, eq=False)
class ImportBatch:
    """Some units on their way into a database: `take` checks them and collects their rows, `post` writes these.

    Args:
        connection: A transaction; of a dry run one that reads.
        numbers: The numbers of the import.
        vectors: The vectors of memories, by their texts.
        within: The scope that all must lie in; `None` for any.
        kept: What earlier batches have made, which a dry run does not write: entities, conversations, scopes.
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

    # ── checks ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def take(self, kind: str, units: Sequence[ImportUnit]) -> None:
        """Check units of one kind against each other's rows here, and collect what is new."""
        stored = self._stored(kind, units)
        self._look_up(kind, units)
        for unit in units:
            lines = unit.all_lines
            try:
                rows = self._new_rows(unit, lines, stored)
            except LangmemAdapterError as error:
                self.rejected |= dict.fromkeys((line.number for line in lines), str(error))
                if kind == "conversation":
                    self.kept[kind, unit.group] = None
                continue
            if rows is None:
                self.unchanged += len(lines)
                continue
            for table, row in rows:
                self._rows[table].append(row)
            self.added[kind] += len(unit.lines)
            self.added["memory"] += unit.memory is not None

    def _stored(self, kind: str, units: Sequence[ImportUnit]) -> dict[str, list[dict[str, Any]]]:
        """The lines that are here of the same groups."""
        reader, groups = LineReader(self.connection, ranks=False), {unit.group for unit in units}
        place = {"message": "position", "source": "message_id"}.get(kind)
        stored = reader.of(KINDS[kind], groups, [] if place is None else [unit.lines[0].row[place] for unit in units])
        for group, lines in reader.of(KINDS["memory"], groups).items() if kind == "revision" else ():
            stored[group] = [*stored.get(group, ()), *lines]
        return stored

    def _new_rows(
        self, unit: ImportUnit, lines: Sequence[ImportLine], stored: Mapping[str, list[dict[str, Any]]]
    ) -> list[_TableRow] | None:
        """The rows of a unit; `None` where it is here already."""
        here = stored.get(unit.group, [])
        if unit.kind not in {"revision", "relation"}:
            here = [line for line in here if line["id"] == lines[0]["id"] and not self._is_own_scope(unit)]
        # Contract: whether a row of another scope is here is not shown to a caller who may import one scope.
        # tests/server/test_import.py::test_import_of_a_full_export_makes_the_same_again
        # tests/storage/test_lossless.py::test_import_within_a_scope_tells_nothing_of_rows_of_another_one
        self._check_within(lines)
        if unit.kind in _NAMED and here and _scope_fields(here[0]) != _scope_fields(lines[0]):
            here = []  # the builder refuses such an id, as it does where there is no row
        if here and _comparable(lines) == _comparable(here):
            return None
        if here:
            raise InvalidInputError(_OTHER)
        build: Any = getattr(self, f"_build_{unit.kind}")
        return list(build(unit) if unit.kind in {"revision", "relation"} else build(unit.lines[0]))

    def _check_within(self, lines: Iterable[ImportLine]) -> None:
        for line in lines if self.within is not None else ():
            in_conversation = line["kind"] in {"message", "note"}
            scope = self._conversation_of(line)[2] if in_conversation else scope_of(line)
            if self.within is None or scope is None or not self.within.covers(scope):
                raise InvalidInputError(_NO_CONVERSATION if in_conversation else _OUTSIDE)

    def _is_own_scope(self, unit: ImportUnit) -> bool:
        """Whether it is a scope that this import has made."""
        if unit.kind != "scope":
            return False
        try:
            return self.numbers.base < self._scope_id(unit.lines[0]) <= self.numbers.top
        except LangmemAdapterError:
            return False

    # ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def post(self, language: str, fingerprint: str, item_mark: str | None) -> None:
        """Write what was collected: memories with vectors of the first model, items with those of the second."""
        connection, rows = self.connection, self._rows
        if rows[memories] and not meta.fits(connection, meta.get(connection, meta.EMBEDDINGS), fingerprint):
            meta.put(connection, meta.EMBEDDINGS, fingerprint)
        if item_mark and rows[item_vectors] and not meta.check_embeddings(connection, item_mark, ITEMS):
            meta.put(connection, ITEMS.model, item_mark)
        seqs = {row["seq"] for table in (history, memories, items) for row in rows[table]}
        present = connection.execute(select(changes.c.seq).where(any_of(changes.c.seq, seqs))) if seqs else ()
        missing = sorted(seqs.difference(seq for (seq,) in present))
        _write_changes(connection, dict.fromkeys(missing, ("imports", 0)))
        for table in metadata.sorted_tables:
            if rows[table]:
                if "seq" in table.c:
                    rows[table].sort(key=itemgetter("seq"))
                _insert(table).run(connection, *rows[table])
        self._post_words(language)
        for row in rows[merges]:
            if row["undone_at"] is None:
                loser = entities.c.pk == row["loser_pk"]
                connection.execute(update(entities).where(loser).values(merged_into=row["winner_pk"]))
        named = [(space, row["pk"]) for space, table in _SPACES.items() for row in rows[table]]
        named += [
            (ITEMS.name, row["pk"] * PLACES + place) for row in rows[items] for place in range(max(1, row["vectors"]))
        ]
        _write_changes(connection, dict(enumerate(named, last_seq(connection) + 1)))

    def _post_words(self, language: str) -> None:
        lengths: Counter[int] = Counter()
        postings = [lexical.postings(row, language) for row in self._rows[memories]]
        ordered = sorted(chain.from_iterable(postings), key=itemgetter("scope_id", "term"))
        lexical.INSERT_WORDS.run(self.connection, *ordered)
        for first, *_ in postings:
            lengths[first["scope_id"]] += first["length"]
        for scope_id, length in lengths.items():
            longer = update(scopes).where(scopes.c.id == scope_id).values(word_count=scopes.c.word_count + length)
            self.connection.execute(longer)

    # ── scopes ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _build_scope(self, line: ImportLine) -> Iterator[_TableRow]:
        if line["id"] != key_of(scope_of(line) or Scope()):
            raise InvalidInputError("its id is not that of its fields")
        self._scope_id(line)
        yield from ()

    def _scope_id(self, line: Mapping[str, Any]) -> int:
        """The number of the scope that a line is of, which it may be added to."""
        key = ("scope", _scope_fields(line))
        if key not in self.kept:
            scope = Scope(*key[1])
            self.kept[key] = self._find_scope(scope, key_of(scope))
        if self.kept[key] is None:
            raise InvalidInputError(_SECOND)
        return int(self.kept[key])

    def _find_scope(self, scope: Scope, key: str) -> int | None:
        """The number of a scope, which is made where there is none; `None` where it has another history here."""
        row = self.connection.execute(select(scopes.c.id).where(scopes.c.key == key)).first()
        base, top = self.numbers.base, self.numbers.top
        if row is not None:
            is_own = self.extends or base < row.id <= top
            foreign = (
                exists().where(number.table.c.scope_id == row.id, not_(number.between(base + 1, top))).select()
                for number in (history.c.seq, entities.c.pk)
            )
            is_free = is_own or not any(self.connection.execute(each).scalar() for each in foreign)
            return int(row.id) if is_free else None
        last = self.connection.execute(select(func.max(scopes.c.id)).where(scopes.c.id.between(base + 1, top))).scalar()
        number: int = (last or self.numbers.starts["scope"]) + len(self._rows[scopes]) + 1
        if number > top:
            raise InvalidInputError("there are more scopes than the first line counts")
        fields = {name: getattr(scope, name) for name in SCOPE_FIELDS}
        # It stays where the unit is rejected: a scope may be there without rows.
        self._rows[scopes].append({"id": number, "key": key, **fields, "word_count": 0, "compared": None})
        return number

    # ── conversations ───────────────────────────────────────────────────────────────────────────────────────────────

    def _build_conversation(self, line: ImportLine) -> Iterator[_TableRow]:
        scope = scope_of(line.row)
        if Conversation(line.row["session"], scope).key != line["id"]:
            raise InvalidInputError("its id is not that of its session and scope")
        number = self.numbers.of(line, "conversation")
        self.kept["conversation", line["id"]] = number, line.row["last"], scope
        yield conversations, {**line.row, "key": line["id"], "id": number}

    def _conversation_of(self, line: Mapping[str, Any]) -> tuple[int, int, Scope | None]:
        """Number, last position and scope of the conversation of a line."""
        key = ("conversation", check_text(line.get("conversation"), "conversation"))
        if key not in self.kept:
            row = self.connection.execute(select(conversations).where(conversations.c.key == key[1])).first()
            self.kept[key] = None if row is None else (row.id, row.last, scope_of(row._asdict()))
        if self.kept[key] is None or not str(line["id"]).startswith(f"{key[1]}/"):
            raise InvalidInputError(_NO_CONVERSATION)
        number, last, scope = self.kept[key]
        return number, last, scope

    def _build_message(self, line: ImportLine) -> Iterator[_TableRow]:
        row, (number, last, _) = line.row, self._conversation_of(line)
        if not 1 <= row["position"] <= last or line["id"] != line_id(line["conversation"], row["position"]):
            raise InvalidInputError("its position is not one of its conversation")
        try:
            message = json.loads(row["message"])
            json_object(message, "message")
            messages_from_dict([message])
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise InvalidInputError("message is not the JSON of a LangChain message") from None
        yield turns, {**row, "conversation_id": number}

    def _build_note(self, line: ImportLine) -> Iterator[_TableRow]:
        number, _, _ = self._conversation_of(line)
        yield notes, {**line.row, "conversation_id": number, "id": self.numbers.of(line, "note")}

    def _build_source(self, line: ImportLine) -> Iterator[_TableRow]:
        row = line.row
        key = {"thread": MessageThread(scope_of(row) or Scope(), row["thread_id"]).key, "message_id": row["message_id"]}
        if line["id"] != line_id(*key.values()):
            raise InvalidInputError("its id is not that of its thread and message")
        yield sources, {**row, **key}
        for each in objects_of(line, "memories"):
            if each.get("memory_id") in self._outside:
                raise InvalidInputError("a memory that it names lies outside the scope that is imported")
            seq = self.numbers.of(each, "revision", least=0)
            yield source_memories, {**LINKS.read(each), **key, "seq": seq}

    # ── the knowledge graph ─────────────────────────────────────────────────────────────────────────────────────────

    def _look_up(self, kind: str, units: Sequence[ImportUnit]) -> None:
        """Read the entities and the scopes of the memories that lines name."""
        lines = [line for unit in units for line in unit.lines]
        if kind in {"relation", "merge"}:
            names = {line.get(name) for line in lines for name in ("source", "target", "winner", "loser")}
            ids = {id_ for id_ in names if isinstance(id_, str) and ("entity", id_) not in self.kept}
            query = select(entities.c.id, entities.c.pk, entities.c.scope_id, entities.c.merged_into)
            for row in self.connection.execute(query.where(any_of(entities.c.id, ids))) if ids else ():
                self.kept["entity", row.id] = row.pk, row.scope_id
                self.kept["merged", row.pk] = row.merged_into
        named: set[Any] = set()
        if kind == "revision":
            named = {line.row[name] for line in lines for name in ("memory_id", "past_of")}
        elif kind in {"relation", "source"}:
            named = {each.get("memory_id") for line in lines for each in objects_of(line, "memories")}
        ids = {id_ for id_ in named if isinstance(id_, str) and "\0" not in id_}
        if kind == "source":
            if self.within is not None:
                outside = history.c.scope_id.not_in(ids_within(self.within))
                query = select(history.c.memory_id).where(any_of(history.c.memory_id, ids), outside)
                self._outside.update(self.connection.execute(query).scalars())
            return
        for column in (history.c.memory_id, history.c.past_of, relation_memories.c.memory_id) if ids else ():
            homes = select(column, column.table.c.scope_id).where(any_of(column, ids)).distinct()
            self._homes.update((id_, scope_id) for id_, scope_id in self.connection.execute(homes))

    def _refuse_others(self, ids: Iterable[str], scope_id: int) -> None:
        """Refuse what would join two scopes: another one has, or names, memories of these ids."""
        if any(self._homes.get(id_, scope_id) != scope_id for id_ in ids if id_ != BY_HAND):
            raise InvalidInputError("a memory that it names is of another scope")

    def _build_entity(self, line: ImportLine) -> Iterator[_TableRow]:
        pk, scope_id = self.numbers.of(line, "entity"), self._scope_id(line)
        yield entities, {**line.row, "id": line["id"], "pk": pk, "scope_id": scope_id, "merged_into": None}
        for name in objects_of(line, "names"):
            yield entity_names, {**NAMES.read(name), "scope_id": scope_id, "entity_pk": pk}
        self.kept["entity", line["id"]] = pk, scope_id

    def _entity_pks(self, line: Mapping[str, Any], scope_id: int, *names: str) -> dict[str, int]:
        """The entities that a line names in these fields, as columns."""
        pks = {}
        for name in names:
            pk, of_scope = self.kept.get(("entity", line.get(name)), (0, None))
            if of_scope != scope_id:
                raise InvalidInputError(f"its {name} is not here, or of another scope")
            pks[f"{name}_pk"] = int(pk)
        return pks

    def _build_relation(self, unit: ImportUnit) -> Iterator[_TableRow]:
        scope_id, current, numbers = self._scope_id(unit.lines[0]), 0, []
        for place, line in enumerate(unit.lines, 1):
            if line["id"] != line_id(unit.group, place) or not _is_same_scope(line, unit.lines[0]):
                raise InvalidInputError(f"row {place} of the relation is missing, or of another scope")
            _check_span(line.row)
            numbers.append(self.numbers.of(line, "relation"))
            current += line.row["retired_at"] is None
            ends = self._entity_pks(line, scope_id, "source", "target")
            yield relations, {**line.row, **ends, "pk": numbers[-1], "scope_id": scope_id}
        if current > 1 or numbers != sorted(set(numbers)):
            raise InvalidInputError("rows of the relation contradict each other")
        support = [SUPPORT.read(each) for line in unit.lines for each in objects_of(line, "memories")]
        ids = [each["memory_id"] for each in support]
        self._refuse_others(ids, scope_id)
        self._homes |= dict.fromkeys(ids, scope_id)
        for each in support:
            yield relation_memories, {**each, "relation_id": unit.group, "scope_id": scope_id}

    def _build_merge(self, line: ImportLine) -> Iterator[_TableRow]:
        scope_id, pk = self._scope_id(line), self.numbers.of(line, "merge")
        ends = self._entity_pks(line, scope_id, "winner", "loser")
        moved = self._check_moved({name: line.get(name) for name in ("rows", "links", "keys")})
        if line.row["undone_at"] is None:
            self._check_merge(ends["winner_pk"], ends["loser_pk"])
            self.kept["merged", ends["loser_pk"]] = ends["winner_pk"]
        yield merges, {**line.row, **ends, "pk": pk, "scope_id": scope_id, "moved": moved}

    def _check_merge(self, winner: int, loser: int) -> None:
        pk: int | None = winner
        while pk is not None and pk != loser:
            if ("merged", pk) not in self.kept:
                query = select(entities.c.merged_into).where(entities.c.pk == pk)
                self.kept["merged", pk] = self.connection.execute(query).scalar()
            pk = self.kept["merged", pk]
        if pk is not None or self.kept.get(("merged", loser)) is not None:
            raise InvalidInputError("the entity is merged into another one already, or into itself")

    def _check_moved(self, moved: Mapping[str, Any]) -> dict[str, Any]:
        """What a merge moved, with the numbers of relations here."""
        most, start = self.numbers.counts["relation"], self.numbers.starts["relation"]
        try:
            fits = all(1 <= old <= most and (new is None or 1 <= new <= most) for old, new in moved["rows"])
            fits = fits and all(check_text(part, "links") for a, b in moved["links"] for part in (a, b))
            fits = fits and all(check_text(key, "keys") for key in moved["keys"])
        except (TypeError, ValueError):
            fits = False
        if not fits:
            raise InvalidInputError("what the merge moved cannot be read")
        return {**moved, "rows": [[start + old, None if new is None else start + new] for old, new in moved["rows"]]}

    # ── memories ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _build_revision(self, unit: ImportUnit) -> Iterator[_TableRow]:
        scope_id, rows, memory = self._scope_id(unit.lines[0]), [], unit.memory
        for place, line in enumerate(unit.lines, 1):
            if line["id"] != line_id(unit.group, place) or line.row["revision"] != place:
                raise InvalidInputError(f"revision {place} of the memory is missing")
            if not _is_same_scope(line, unit.lines[0]):
                raise InvalidInputError("its revisions are of two scopes")
            _check_span(line.row)
            _check_event(line.row)
            rows.append({**line.row, "seq": self.numbers.of(line, "revision"), "scope_id": scope_id})
        if any(one["seq"] >= next_["seq"] for one, next_ in pairwise(rows)) or rows[0]["event"] != "ADD":
            raise InvalidInputError("its revisions are in another order than they were written")
        ids = {unit.group, *(row["past_of"] for row in rows if row["past_of"] is not None)}
        if BY_HAND in ids:  # it means more than this scope
            raise InvalidInputError("a memory that it names has no id")
        self._refuse_others(ids, scope_id)
        own = [row for row in rows if row["past_of"] is None and row["event"] != "NONE"]
        text = own[-1]["new_memory"] if own else None
        if text != (None if memory is None else memory.get("text")):
            raise InvalidInputError("its revisions do not end with what the memory says")
        if memory is not None:
            if not _is_same_scope(memory, unit.lines[0]):
                raise InvalidInputError(_INCOMPLETE)
            yield memories, self._memory_row(memory, rows)
        self._homes |= dict.fromkeys(ids, scope_id)
        yield from ((history, row) for row in rows)

    def _memory_row(self, line: ImportLine, revisions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        row, last = line.row, self.numbers.of(line, "revision")
        if line.get("revisions") != len(revisions):
            raise InvalidInputError(_INCOMPLETE)
        if row["revision"] > len(revisions) or last < max(each["seq"] for each in revisions if each["past_of"] is None):
            raise InvalidInputError("the memory is older than its revisions")
        made = {
            "id": line["id"],
            "pk": max(each["seq"] for each in revisions if each["event"] == "ADD"),
            "seq": last,
            "scope_id": revisions[0]["scope_id"],
            "hash": text_hash(row["text"]),
        }
        return {**row, **made, "embedding": self.vectors.get(row["text"], b"")}

    # ── items of the LangGraph store ────────────────────────────────────────────────────────────────────────────────

    def _build_item(self, line: ImportLine) -> Iterator[_TableRow]:
        row, labels = line.row, line.get("namespace")
        if not isinstance(labels, list):
            raise InvalidInputError("namespace must be a list of labels")
        path = encode(tuple(check_text(label, "namespace") for label in labels))
        if item_id(tuple(labels), row["key"]) != line["id"]:
            raise InvalidInputError("its id is not that of its namespace and key")
        _check_json(row["value"], dict, "value")
        if row["fields"] is not None:
            _check_json(row["fields"], list, "fields")
        pk, seq, vectors = self.numbers.of(line, "born", "born"), self.numbers.of(line, "item"), self._vectors_of(line)
        if ("namespace", path) not in self.kept:
            query = select(namespaces.c.id).where(namespaces.c.path == path)
            self.kept["namespace", path] = self.connection.execute(query).scalar() or pk
            if self.kept["namespace", path] == pk:
                yield namespaces, {"id": pk, "path": path}
        namespace = {"namespace_id": self.kept["namespace", path]}
        yield items, {**row, "id": line["id"], "pk": pk, "seq": seq, **namespace, "vectors": len(vectors)}
        for place, vector in enumerate(vectors):
            yield item_vectors, {"pk": pk * PLACES + place, **namespace, "embedding": vector}

    def _vectors_of(self, line: ImportLine) -> list[bytes]:
        vectors, key = line.get("vectors", []), ("size", "vectors")
        if not isinstance(vectors, list) or len(vectors) > PLACES:
            raise InvalidInputError(f"vectors must be a list of up to {PLACES:,}")
        if vectors and key not in self.kept:
            here = self.connection.execute(select(item_vectors.c.embedding).limit(1)).scalar()
            self.kept[key] = len(here or as_vector(vectors[0], "vectors", None))
        return [as_vector(each, "vectors", self.kept[key]) for each in vectors]


@cache
def _insert(table: Table) -> Prepared:
    return Prepared(insert(table))


_INCOMPLETE: Final = "the memory has not all of its revisions"
_SPACES: Final[dict[str, Table]] = {MEMORIES: memories, ENTITIES: entities, RELATIONS: relations}


# ── looking at lines ────────────────────────────────────────────────────────────────────────────────────────────────────


def _is_same_scope(line: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return _scope_fields(line) == _scope_fields(other)


def _comparable(lines: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What lines say, whatever database they come from."""
    plain = ({name: _without_order(value) for name, value in line.items() if name not in _UNCOMPARED} for line in lines)
    bare = ({name: value for name, value in line.items() if value not in (None, False)} for line in plain)
    return sorted(bare, key=lambda line: (str(line.get("kind")), str(line.get("id"))))


def _without_order(value: Any) -> Any:
    if isinstance(value, list):
        return [{k: v for k, v in each.items() if k != "order"} if isinstance(each, dict) else each for each in value]
    return value


def _check_span(row: Mapping[str, Any]) -> None:
    begins, ends = row["valid_from"], row["valid_to"]
    if begins is not None and ends is not None and ends < begins:
        raise InvalidInputError("it ends before it begins")


def _check_event(row: Mapping[str, Any]) -> None:
    is_deleted = row["event"] == "DELETE"
    if row["event"] not in _EVENTS or row["is_deleted"] != int(is_deleted) or (row["new_memory"] is None) != is_deleted:
        raise InvalidInputError(f"event {row['event']!r} does not fit the rest of the revision")


def _check_json(value: str, kind: type, name: str) -> None:
    try:
        read = json.loads(value)
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, kind):
        raise InvalidInputError(f"{name} is not the JSON of a {kind.__name__}")
    json_object({name: read}, name)
