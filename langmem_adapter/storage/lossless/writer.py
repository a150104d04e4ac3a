"""The second writer beside the ledger: takes rows that another database wrote, once they fit what the ledger guarantees."""

from __future__ import annotations

import json
import secrets
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import messages_from_dict
from sqlalchemy import exists, func, insert, not_, select, text, update

from langmem_adapter.errors import InvalidInputError, LangmemAdapterError
from langmem_adapter.records.checks import check_text, json_object
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope
from langmem_adapter.storage import lexical, meta
from langmem_adapter.storage.conversations import Conversation, conversations
from langmem_adapter.storage.feed import INSERT_CHANGE, last_seq
from langmem_adapter.storage.items import ITEMS, PLACES, encode, item_id, item_vectors, namespaces
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
from langmem_adapter.storage.queries import any_of
from langmem_adapter.storage.scopes import ids_within, key_of
from langmem_adapter.storage.sources import MessageThread, source_memories
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
    metadata,
    relation_memories,
    scopes,
)
from langmem_adapter.text import text_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence

    from sqlalchemy import Connection, Table

_UNCOMPARED: Final = {"order", "born", "hash", "rows", "sources", "vector", "vectors"}
"""Fields that say the same in other words, or where a row stands in one database."""
_NUMBERED: Final = ("revision", "entity", "relation", "merge", "item", "item", "scope", "scope")
_BORN: Final = 5  # places among these
_SCOPES: Final = 6
_MOST: Final = 2**46  # the numbers of an item's vectors are 65,536 times as large
_EVENTS: Final = {"ADD", "UPDATE", "DELETE", "NONE"}
_OTHER: Final = "it is here already, with other content"
_SECOND: Final = "its scope has a history of its own here; purge that first, or import under another name"
_NO_CONVERSATION: Final = "its conversation is not here"
_NAMED: Final = {"conversation", "scope", "source"}  # their ids follow from a scope and a name
_SERIALS: Final = ("conversations", "notes")


class ImportLine(dict[str, Any]):
    """A line as an object, with its number in the file and the values of its row."""

    number: int
    row: dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class ImportUnit:
    """Lines that are taken together or not at all: a memory and its revisions, the rows of a relation, any other line."""

    kind: str
    group: str  # what the ids of its lines begin with
    lines: Sequence[ImportLine]
    end: tuple[int, str]  # the number of the last line of the file that is done with it, and the digest up to there
    memory: ImportLine | None = None

    @property
    def all_lines(self) -> list[ImportLine]:
        """Its lines, and that of the memory."""
        return [*self.lines, *([] if self.memory is None else [self.memory])]


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers that an import has for its rows: of the change feed, and of the two tables that count by themselves."""

    base: int
    counts: Mapping[str, int]
    serials: Mapping[str, int]

    @property
    def top(self) -> int:
        """The last of the feed."""
        return self.base + sum(self.counts[kind] for kind in _NUMBERED)

    def of(self, place: int, order: int) -> int:
        """The number of a row, by its place among rows of its kind."""
        return self.base + [0, *accumulate(self.counts[kind] for kind in _NUMBERED)][place] + order

    @classmethod
    def reserve(cls, connection: Connection, counts: Mapping[str, int]) -> Numbers:
        """Take numbers for so many rows, within a write transaction."""
        # Contract: whoever follows the feed never misses a row: the numbers of an import lie below one that is written with
        # the reservation, so what others write comes after them; rows that use them are named again at the end of the feed
        # with the commit that brings them, under numbers drawn as every writer draws his.
        # tests/storage/test_lossless.py::test_indexes_follow_import_while_others_write
        numbers = cls(last_seq(connection), counts, {name: _serial(connection, name, counts) for name in _SERIALS})
        if numbers.top >= _MOST:
            raise InvalidInputError("the first line counts more rows than a database can number")
        _mark(connection, [numbers.top + 1])
        return numbers


def _serial(connection: Connection, name: str, counts: Mapping[str, int]) -> int:
    number = counts[name.removesuffix("s")]
    if connection.dialect.name == "postgresql":
        begun = f"setval(pg_get_serial_sequence('{name}', 'id'), nextval(pg_get_serial_sequence('{name}', 'id')) + :n)"
        return int(connection.execute(text(f"SELECT {begun}"), {"n": number}).scalar_one()) - number
    last = connection.execute(text("SELECT seq FROM sqlite_sequence WHERE name = :t"), {"t": name}).scalar()
    write = "INSERT INTO sqlite_sequence (name, seq) VALUES (:t, :n)"
    if last is not None:
        write = "UPDATE sqlite_sequence SET seq = :n WHERE name = :t"
    connection.execute(text(write), {"t": name, "n": (last or 0) + number})
    return int(last or 0)


def _mark(connection: Connection, seqs: Iterable[int]) -> None:
    """Let the feed have these numbers, which name no row."""
    rows = [{"seq": seq, "nonce": secrets.token_bytes(8), "space": "imports", "row": 0, "op": "put"} for seq in seqs]
    INSERT_CHANGE.run(connection, *rows)


def scope_of(line: Mapping[str, Any]) -> Scope | None:
    """The scope that a line names; `None` where it names none."""
    named = _named(line)
    return Scope(*named) if any(each is not None for each in named) else None


def _named(line: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(line.get(name) for name in SCOPE_FIELDS)


class ImportBatch:
    """Some units on their way into a database: `take` checks them and collects their rows, `post` writes these.

    Args:
        connection: A transaction; of a dry run one that reads.
        numbers: The numbers of the import.
        vectors: The vectors of memories, by their texts.
        within: The scope that all must lie in; `None` for any.
        kept: What earlier batches have made, which a dry run does not write: entities, conversations, scopes.
    """

    # Contract: a row that this writer takes fits what `Ledger.apply` guarantees. A memory has all of its revisions, counted
    # from 1 without a gap, in the order of their numbers and in one scope; it is there if its last change left it, with its
    # text; nothing ends before it begins; no relation, course or merge joins two scopes; of a relation one row is
    # believed. Of a unit with a line that does not fit nothing is taken.
    # `test_import_takes_no_row_that_breaks_a_guarantee_of_the_ledger`
    def __init__(
        self,
        connection: Connection,
        numbers: Numbers,
        *,
        vectors: Mapping[str, bytes],
        within: Scope | None,
        kept: MutableMapping[tuple[str, Any], Any],
    ) -> None:
        self.added: Counter[str] = Counter()
        self.known = 0
        self.rejected: dict[int, str] = {}
        self._connection = connection
        self._numbers = numbers
        self._vectors = vectors
        self._within = within
        self._kept = kept
        self._reader = LineReader(connection, ranks=False)
        self._rows: defaultdict[Table, list[dict[str, Any]]] = defaultdict(list)
        self._told: list[tuple[str, int]] = []
        self._homes: dict[str, int] = {}  # the scopes of memories that are here, or that rows here name
        self._merged: list[dict[str, int]] = []
        self._outside: set[str] = set()  # memories that lie outside the scope that is imported

    # ── what becomes of units ───────────────────────────────────────────────────────────────────────────────────────

    def take(self, kind: str, units: Sequence[ImportUnit]) -> None:
        """Check units of one kind against each other's rows here, and collect what is new."""
        groups, place = {unit.group for unit in units}, {"message": "position", "source": "message_id"}.get(kind)
        places = () if place is None else [unit.lines[0].row[place] for unit in units]
        here = self._reader.of(KINDS[kind], groups, places)
        standing = self._reader.of(KINDS["memory"], groups) if kind == "revision" else {}
        build: Callable[[ImportUnit], None] = getattr(self, f"_take_{kind}")
        self._meet(kind, units)
        for unit in units:
            stored = [*here.get(unit.group, ()), *standing.get(unit.group, ())]
            lines = unit.all_lines
            same = {line["id"]: line for line in stored if line["kind"] != "memory"}
            if unit.kind not in {"revision", "relation"}:
                stored = [same[lines[0]["id"]]] if lines[0]["id"] in same and not self._is_own(unit) else []
            before = {table: len(rows) for table, rows in self._rows.items()}, len(self._told), len(self._merged)
            try:
                # Contract: whether a row of another scope is here is not told to who may import one scope.
                # tests/server/test_import.py::test_import_of_a_full_export_makes_the_same_again
                # tests/storage/test_lossless.py::test_import_within_a_scope_tells_nothing_of_rows_of_another_one
                self._check_within(lines)
                if kind in _NAMED and stored and _named(stored[0]) != _named(lines[0]):
                    stored = []  # what is built refuses such an id, as it does where there is no row
                if stored and _bare(lines) == _bare(stored):
                    self.known += len(lines)
                    continue
                if stored:
                    raise InvalidInputError(_OTHER)
                build(unit)
            except LangmemAdapterError as error:
                self._forget(*before)
                self.rejected |= dict.fromkeys((line.number for line in lines), str(error))
                if kind == "conversation":
                    self._kept[kind, unit.group] = None
            else:
                self.added[kind] += len(unit.lines)
                self.added["memory"] += unit.memory is not None

    def _check_within(self, lines: Iterable[ImportLine]) -> None:
        for line in lines if self._within is not None else ():
            told = line["kind"] in {"message", "note"}
            scope = self._conversation_of(line)[2] if told else scope_of(line)
            if self._within is None or scope is None or not self._within.covers(scope):
                raise InvalidInputError(_NO_CONVERSATION if told else "it lies outside the scope that is imported")

    def _is_own(self, unit: ImportUnit) -> bool:
        """Whether it is a scope that this import has made."""
        if unit.kind != "scope":
            return False
        try:
            return self._numbers.base < self._scope(unit.lines[0]) <= self._numbers.top
        except LangmemAdapterError:
            return False

    def _forget(self, rows: Mapping[Table, int], told: int, merged: int) -> None:
        for table in self._rows.keys() - {scopes}:  # a scope may be there without rows
            del self._rows[table][rows.get(table, 0) :]
        del self._told[told:], self._merged[merged:]

    def post(self, language: str, fingerprint: str, item_mark: str | None) -> None:
        """Write what was collected: memories with vectors of the first model, items with those of the second."""
        connection, rows = self._connection, self._rows
        if rows[memories] and not meta.fits(connection, meta.get(connection, meta.EMBEDDINGS), fingerprint):
            meta.put(connection, meta.EMBEDDINGS, fingerprint)
        if item_mark and rows[item_vectors] and not meta.check_embeddings(connection, item_mark, ITEMS):
            meta.put(connection, ITEMS.model, item_mark)
        seqs = {row["seq"] for table in (history, memories, KINDS["item"].table) for row in rows[table]}
        there = connection.execute(select(changes.c.seq).where(any_of(changes.c.seq, seqs))) if seqs else ()
        _mark(connection, sorted(seqs.difference(seq for (seq,) in there)))
        for table in metadata.sorted_tables:
            if rows[table]:
                if "seq" in table.c:
                    rows[table].sort(key=itemgetter("seq"))
                connection.execute(insert(table), rows[table])
        self._post_words(language)
        first = last_seq(connection) + 1
        for row in self._merged:
            connection.execute(update(entities).where(entities.c.pk == row["loser"]).values(merged_into=row["winner"]))
        told = dict.fromkeys(self._told)
        named = (
            {"seq": seq, "nonce": secrets.token_bytes(8), "space": s, "row": pk}
            for seq, (s, pk) in enumerate(told, first)
        )
        INSERT_CHANGE.run(connection, *({**row, "op": "put"} for row in named))

    def _post_words(self, language: str) -> None:
        grown: Counter[int] = Counter()
        postings = [lexical.postings(row, language) for row in self._rows[memories]]
        ordered = sorted(chain.from_iterable(postings), key=itemgetter("scope_id", "term"))
        lexical.INSERT_WORDS.run(self._connection, *ordered)
        for first, *_ in postings:
            grown[first["scope_id"]] += first["length"]
        for scope_id, count in grown.items():
            longer = update(scopes).where(scopes.c.id == scope_id).values(word_count=scopes.c.word_count + count)
            self._connection.execute(longer)

    # ── scopes ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _scope(self, line: Mapping[str, Any]) -> int:
        """The number of the scope that a line is of, which it may be added to."""
        key = ("scope", _named(line))
        if key not in self._kept:
            scope = Scope(*key[1])
            self._kept[key] = self._new_scope(scope, key_of(scope))
        if self._kept[key] is None:
            raise InvalidInputError(_SECOND)
        return int(self._kept[key])

    def _new_scope(self, scope: Scope, key: str) -> int | None:
        row = self._connection.execute(select(scopes.c.id).where(scopes.c.key == key)).first()
        base, top = self._numbers.base, self._numbers.top
        if row is not None:
            own = base < row.id <= top
            numbers = {history: history.c.seq, entities: entities.c.pk}
            written = (
                exists().where(table.c.scope_id == row.id, not_(number.between(base + 1, top))).select()
                for table, number in numbers.items()
            )
            return int(row.id) if own or not any(self._connection.execute(each).scalar() for each in written) else None
        taken = select(func.max(scopes.c.id)).where(scopes.c.id.between(base + 1, top))
        last = self._connection.execute(taken).scalar() or self._numbers.of(_SCOPES, 0)
        number = last + len(self._rows[scopes]) + 1
        if number > top:
            raise InvalidInputError("there are more scopes than the first line counts")
        fields = {name: getattr(scope, name) for name in SCOPE_FIELDS}
        self._rows[scopes].append({"id": number, "key": key, **fields, "word_count": 0, "compared": None})
        return number

    # ── conversations ───────────────────────────────────────────────────────────────────────────────────────────────

    def _take_conversation(self, unit: ImportUnit) -> None:
        (line,) = unit.lines
        row = line.row
        scope = scope_of(row)
        if Conversation(row["session"], scope).key != line["id"]:
            raise InvalidInputError("its id is not that of its session and scope")
        number = self._numbers.serials["conversations"] + order_of(line, "order", self._numbers.counts["conversation"])
        self._rows[conversations].append({**row, "key": line["id"], "id": number})
        self._kept["conversation", line["id"]] = number, row["last"], scope

    def _conversation_of(self, line: Mapping[str, Any]) -> tuple[int, int, Scope | None]:
        key = ("conversation", check_text(line.get("conversation"), "conversation"))
        if key not in self._kept:
            row = self._connection.execute(select(conversations).where(conversations.c.key == key[1])).first()
            self._kept[key] = None if row is None else (row.id, row.last, scope_of(row._asdict()))
        if self._kept[key] is None or not str(line["id"]).startswith(f"{key[1]}/"):
            raise InvalidInputError(_NO_CONVERSATION)
        number, last, scope = self._kept[key]
        return number, last, scope

    def _take_message(self, unit: ImportUnit) -> None:
        (line,) = unit.lines
        row, (number, last, _) = line.row, self._conversation_of(line)
        if not 1 <= row["position"] <= last or line["id"] != line_id(line["conversation"], row["position"]):
            raise InvalidInputError("its position is not one of its conversation")
        try:
            message = json.loads(row["message"])
            json_object(message, "message")
            messages_from_dict([message])
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise InvalidInputError("message is not the JSON of a LangChain message") from None
        self._rows[KINDS["message"].table].append({**row, "conversation_id": number})

    def _take_note(self, unit: ImportUnit) -> None:
        (line,) = unit.lines
        row, (number, _, _) = line.row, self._conversation_of(line)
        serial = self._numbers.serials["notes"] + order_of(line, "order", self._numbers.counts["note"])
        self._rows[KINDS["note"].table].append({**row, "conversation_id": number, "id": serial})

    # ── the knowledge graph ─────────────────────────────────────────────────────────────────────────────────────────

    def _meet(self, kind: str, units: Sequence[ImportUnit]) -> None:
        """Read the entities and the scopes of the memories that relations and merges name."""
        lines = [line for unit in units if kind in {"relation", "merge", "source"} for line in unit.lines]
        ids = {line.get(name) for line in lines for name in ("source", "target", "winner", "loser")}
        texts = {id_ for id_ in ids if isinstance(id_, str) and ("entity", id_) not in self._kept}
        chosen = select(entities.c.id, entities.c.pk, entities.c.scope_id, entities.c.merged_into)
        for row in self._connection.execute(chosen.where(any_of(entities.c.id, texts))) if texts else ():
            self._kept["entity", row.id] = row.pk, row.scope_id
            self._kept["merged", row.pk] = row.merged_into
        rows = [line.row for unit in units if kind == "revision" for line in unit.lines]
        named = {row[name] for row in rows for name in ("memory_id", "past_of")} - {None}
        named |= (
            {each.get("memory_id") for line in lines for each in objects_of(line, "memories")}
            if kind in {"relation", "source"}
            else set()
        )
        texts = {id_ for id_ in named if isinstance(id_, str) and "\0" not in id_}
        if kind == "source":
            if self._within is not None:
                outside = history.c.scope_id.not_in(ids_within(self._within))
                chosen = select(history.c.memory_id).where(any_of(history.c.memory_id, texts), outside)
                self._outside.update(self._connection.execute(chosen).scalars())
            return
        for column in (history.c.memory_id, history.c.past_of, relation_memories.c.memory_id) if texts else ():
            homes = select(column, column.table.c.scope_id).where(any_of(column, texts)).distinct()
            self._homes.update((id_, scope_id) for id_, scope_id in self._connection.execute(homes))

    def _number(self, place: int, line: Mapping[str, Any], name: str = "order") -> int:
        return self._numbers.of(place, order_of(line, name, self._numbers.counts[_NUMBERED[place]]))

    def _take_entity(self, unit: ImportUnit) -> None:
        (line,) = unit.lines
        pk, scope_id = self._number(1, line), self._scope(line)
        row = line.row
        self._rows[entities].append({**row, "id": line["id"], "pk": pk, "scope_id": scope_id, "merged_into": None})
        names = [NAMES.read(name) for name in objects_of(line, "names")]
        self._rows[entity_names] += [{**name, "scope_id": scope_id, "entity_pk": pk} for name in names]
        self._told.append((ENTITIES, pk))
        self._kept["entity", line["id"]] = pk, scope_id

    def _entity_of(self, line: Mapping[str, Any], name: str, scope_id: int) -> int:
        pk, of_scope = self._kept.get(("entity", line.get(name)), (0, None))
        if of_scope != scope_id:
            raise InvalidInputError(f"its {name} is not here, or of another scope")
        return int(pk)

    def _take_relation(self, unit: ImportUnit) -> None:
        scope_id, standing, numbers = self._scope(unit.lines[0]), 0, []
        for place, line in enumerate(unit.lines, 1):
            if line["id"] != line_id(unit.group, place) or _named(line) != _named(unit.lines[0]):
                raise InvalidInputError(f"row {place} of the relation is missing, or of another scope")
            row = line.row
            _check_span(row)
            numbers.append(self._number(2, line))
            standing += row["retired_at"] is None
            ends = {f"{name}_pk": self._entity_of(line, name, scope_id) for name in ("source", "target")}
            self._rows[KINDS["relation"].table].append({**row, **ends, "pk": numbers[-1], "scope_id": scope_id})
        if standing > 1 or numbers != sorted(set(numbers)):
            raise InvalidInputError("rows of the relation contradict each other")
        support = [SUPPORT.read(each) for line in unit.lines for each in objects_of(line, "memories")]
        self._refuse_others((each["memory_id"] for each in support), scope_id)
        self._homes |= dict.fromkeys((each["memory_id"] for each in support), scope_id)
        more = {"relation_id": unit.group, "scope_id": scope_id}
        self._rows[relation_memories] += [{**each, **more} for each in support]
        self._told += [(RELATIONS, number) for number in numbers]

    def _refuse_others(self, ids: Iterable[str], scope_id: int) -> None:
        """Refuse what would join two scopes: another one has, or names, memories of these ids."""
        if any(self._homes.get(id_, scope_id) != scope_id for id_ in ids if id_ != BY_HAND):
            raise InvalidInputError("a memory that it names is of another scope")

    def _take_merge(self, unit: ImportUnit) -> None:
        (line,) = unit.lines
        row, scope_id = line.row, self._scope(line)
        two = {name: self._entity_of(line, name, scope_id) for name in ("winner", "loser")}
        moved: dict[str, Any] = {name: line.get(name) for name in ("rows", "links", "keys")}
        self._check_moved(moved)
        of = self._numbers.of
        moved["rows"] = [[of(2, old), None if new is None else of(2, new)] for old, new in moved["rows"]]
        if row["undone_at"] is None:
            pk: int | None = two["winner"]
            while pk is not None and pk != two["loser"]:
                if ("merged", pk) not in self._kept:
                    chosen = select(entities.c.merged_into).where(entities.c.pk == pk)
                    self._kept["merged", pk] = self._connection.execute(chosen).scalar()
                pk = self._kept["merged", pk]
            if pk is not None or self._kept.get(("merged", two["loser"])) is not None:
                raise InvalidInputError("the entity is merged into another one already, or into itself")
            self._kept["merged", two["loser"]] = two["winner"]
            self._merged.append(two)
        pks = {"pk": self._number(3, line), **{f"{name}_pk": pk for name, pk in two.items()}}
        self._rows[KINDS["merge"].table].append({**row, **pks, "scope_id": scope_id, "moved": moved})

    def _check_moved(self, moved: Mapping[str, Any]) -> None:
        most = self._numbers.counts["relation"]
        try:
            rows = all(1 <= old <= most and (new is None or 1 <= new <= most) for old, new in moved["rows"])
            fits = rows and all(check_text(part, "links") for a, b in moved["links"] for part in (a, b))
            fits = fits and all(check_text(key, "keys") for key in moved["keys"])
        except (TypeError, ValueError):
            fits = False
        if not fits:
            raise InvalidInputError("what the merge moved cannot be read")

    # ── memories ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _take_revision(self, unit: ImportUnit) -> None:
        scope_id, rows, memory = self._scope(unit.lines[0]), [], unit.memory
        for place, line in enumerate(unit.lines, 1):
            row = line.row
            if line["id"] != line_id(unit.group, place) or row["revision"] != place:
                raise InvalidInputError(f"revision {place} of the memory is missing")
            if _named(line) != _named(unit.lines[0]):
                raise InvalidInputError("its revisions are of two scopes")
            _check_span(row)
            _check_event(row)
            rows.append({**row, "seq": self._number(0, line), "scope_id": scope_id})
        if any(one["seq"] >= next_["seq"] for one, next_ in pairwise(rows)) or rows[0]["event"] != "ADD":
            raise InvalidInputError("its revisions are in another order than they were written")
        courses = {unit.group, *(row["past_of"] for row in rows if row["past_of"] is not None)}
        if BY_HAND in courses:  # it means more than this scope
            raise InvalidInputError("a memory that it names has no id")
        self._refuse_others(courses, scope_id)
        own = [row for row in rows if row["past_of"] is None and row["event"] != "NONE"]
        text = own[-1]["new_memory"] if own else None
        if text != (None if memory is None else memory.get("text")):
            raise InvalidInputError("its revisions do not end with what the memory says")
        if memory is not None:
            self._put_memory(memory, rows, _named(unit.lines[0]))
        self._homes |= dict.fromkeys(courses, scope_id)
        self._rows[history] += rows

    def _put_memory(self, line: ImportLine, revisions: Sequence[Mapping[str, Any]], scope: tuple[Any, ...]) -> None:
        row, last = line.row, self._number(0, line)
        if _named(line) != scope or line.get("revisions") != len(revisions):
            raise InvalidInputError("the memory has not all of its revisions")
        if row["revision"] > len(revisions) or last < max(each["seq"] for each in revisions if each["past_of"] is None):
            raise InvalidInputError("the memory is older than its revisions")
        pk = max(each["seq"] for each in revisions if each["event"] == "ADD")
        made = {
            "id": line["id"],
            "pk": pk,
            "seq": last,
            "scope_id": revisions[0]["scope_id"],
            "hash": text_hash(row["text"]),
        }
        self._rows[memories].append({**row, **made, "embedding": self._vectors.get(row["text"], b"")})
        self._told.append((MEMORIES, pk))

    # ── what belongs to none of these ───────────────────────────────────────────────────────────────────────────────

    def _take_item(self, unit: ImportUnit) -> None:
        (line,) = unit.lines
        row, labels = line.row, line.get("namespace")
        if not isinstance(labels, list):
            raise InvalidInputError("namespace must be a list of labels")
        path = encode(tuple(check_text(label, "namespace") for label in labels))
        if item_id(tuple(labels), row["key"]) != line["id"]:
            raise InvalidInputError("its id is not that of its namespace and key")
        _check_json(row["value"], dict, "value")
        if row["fields"] is not None:
            _check_json(row["fields"], list, "fields")
        pk = self._number(_BORN, line, "born")
        if ("namespace", path) not in self._kept:
            chosen = select(namespaces.c.id).where(namespaces.c.path == path)
            self._kept["namespace", path] = self._connection.execute(chosen).scalar() or pk
            if self._kept["namespace", path] == pk:
                self._rows[namespaces].append({"id": pk, "path": path})
        namespace_id = self._kept["namespace", path]
        vectors = self._vectors_of(line)
        made = {"id": line["id"], "pk": pk, "seq": self._number(4, line), "namespace_id": namespace_id}
        self._rows[KINDS["item"].table].append({**row, **made, "vectors": len(vectors)})
        for place, vector in enumerate(vectors):
            number = {"pk": pk * PLACES + place, "namespace_id": namespace_id}
            self._rows[item_vectors].append({**number, "embedding": vector})
        self._told += [(ITEMS.name, pk * PLACES + place) for place in range(max(1, len(vectors)))]

    def _vectors_of(self, line: ImportLine) -> list[bytes]:
        listed, key = line.get("vectors", []), ("size", "vectors")
        if not isinstance(listed, list) or len(listed) > PLACES:
            raise InvalidInputError(f"vectors must be a list of up to {PLACES:,}")
        if listed and key not in self._kept:
            here = self._connection.execute(select(item_vectors.c.embedding).limit(1)).scalar()
            self._kept[key] = len(here or as_vector(listed[0], "vectors", None))
        return [as_vector(each, "vectors", self._kept[key]) for each in listed]

    def _take_scope(self, unit: ImportUnit) -> None:
        (line,) = unit.lines
        if line["id"] != key_of(scope_of(line) or Scope()):
            raise InvalidInputError("its id is not that of its fields")
        self._scope(line)

    def _take_source(self, unit: ImportUnit) -> None:
        (line,) = unit.lines
        row = line.row
        scope = scope_of(row) or Scope()
        thread = MessageThread(scope, row["thread_id"]).key
        if line["id"] != line_id(thread, row["message_id"]):
            raise InvalidInputError("its id is not that of its thread and message")
        self._rows[KINDS["source"].table].append({**row, "thread": thread})
        for each in objects_of(line, "memories"):
            if each.get("memory_id") in self._outside:
                raise InvalidInputError("a memory that it names lies outside the scope that is imported")
            seq = self._numbers.of(0, order_of(each, "order", self._numbers.counts["revision"], least=0))
            link = {"thread": thread, "message_id": row["message_id"], "seq": seq}
            self._rows[source_memories].append({**LINKS.read(each), **link})


# ── looking at lines ────────────────────────────────────────────────────────────────────────────────────────────────────


def _bare(lines: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What lines say, whatever database they come from."""
    told = ({name: _plain(value) for name, value in line.items() if name not in _UNCOMPARED} for line in lines)
    bare = ({name: value for name, value in line.items() if value not in (None, False)} for line in told)
    return sorted(bare, key=lambda line: (str(line.get("kind")), str(line.get("id"))))


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [{k: v for k, v in each.items() if k != "order"} if isinstance(each, dict) else each for each in value]
    return value


def _check_span(row: Mapping[str, Any]) -> None:
    begins, ends = row["valid_from"], row["valid_to"]
    if begins is not None and ends is not None and ends < begins:
        raise InvalidInputError("it ends before it begins")


def _check_event(row: Mapping[str, Any]) -> None:
    deleted = row["event"] == "DELETE"
    if row["event"] not in _EVENTS or row["is_deleted"] != int(deleted) or (row["new_memory"] is None) != deleted:
        raise InvalidInputError(f"event {row['event']!r} does not fit the rest of the revision")


def _check_json(value: str, kind: type, name: str) -> None:
    try:
        read = json.loads(value)
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, kind):
        raise InvalidInputError(f"{name} is not the JSON of a {kind.__name__}")
    json_object({name: read}, name)
