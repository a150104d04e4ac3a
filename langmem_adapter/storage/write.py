"""Writing memories: the context of a write, its decisions in order, and the rows it posts."""

from __future__ import annotations

import secrets
import uuid
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
from sqlalchemy import bindparam, delete, func, insert, select, update

from langmem_adapter.errors import ConflictError, EmbeddingMismatchError, InvalidInputError, MemoryNotFoundError
from langmem_adapter.names import named_speaker, owner_name
from langmem_adapter.records.results import Change, Decision, Event
from langmem_adapter.records.scope import shallow
from langmem_adapter.storage import lexical
from langmem_adapter.storage.feed import INSERT_CHANGE, LAST_SEQ
from langmem_adapter.storage.graph.rows import GraphRows, Home, Span
from langmem_adapter.storage.graph.writes import Claims, carry_out, relates_two, take_in
from langmem_adapter.storage.memories import CourseRows, courses
from langmem_adapter.storage.meta import EMBEDDINGS, LANGUAGE
from langmem_adapter.storage.moments import minutes_of
from langmem_adapter.storage.prepared_statements import Prepared, any_of
from langmem_adapter.storage.scopes import OWNER, between, expand, key_of, of_row
from langmem_adapter.storage.tables import MEMORIES, Number, history, memories, meta, runs, scopes
from langmem_adapter.text import ENGLISH, text_hash

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

    from langmem_adapter.records.graph import RelationChange, Triple
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.graph.writes import Taken
    from langmem_adapter.storage.writes import Write

_Rows: TypeAlias = "list[dict[str, Any]]"

_INSERT_MEMORY: Final = Prepared(insert(memories))
_DELETE_MEMORIES: Final = Prepared(delete(memories).where(any_of(memories.c.pk, "pks")))
_INSERT_HISTORY: Final = Prepared(insert(history))
_CHANGING: Final = (
    *"text context metadata actor_id role hash embedding created_at updated_at expires_at".split(),
    *"seq revision related is_verbatim utc_offset".split(),
)
_UPDATE_MEMORY: Final = Prepared(
    update(memories).where(memories.c.pk == bindparam("_pk")).values({name: bindparam(name) for name in _CHANGING})
)
_GROW_SCOPE: Final = Prepared(
    update(scopes).where(scopes.c.id == bindparam("_id")).values(word_count=scopes.c.word_count + bindparam("_words"))
)
_COMPARED: Final = Prepared(
    update(scopes).where(any_of(scopes.c.key, "keys")).values(compared=bindparam("seq", type_=Number))
)


@dataclass(slots=True, eq=False)
class PendingRows:
    """What one write is to do to the tables."""

    seq: int  # the last number that was drawn from the change feed
    changes: _Rows = field(default_factory=list)
    history: _Rows = field(default_factory=list)
    scopes: _Rows = field(default_factory=list)
    compared: set[str] = field(default_factory=set)  # keys of the scopes from the run's to those of changed memories
    _added: _Rows = field(default_factory=list)
    _updated: dict[int, dict[str, Any]] = field(default_factory=dict)
    _gone: list[int] = field(default_factory=list)
    _worded: dict[int, Mapping[str, Any]] = field(default_factory=dict)  # the memories whose word rows are to come
    _unworded: dict[int, int] = field(default_factory=dict)  # the scopes of those whose word rows are to go

    def draw(self) -> int:
        """The next number of the change feed."""
        self.seq += 1
        return self.seq

    def add(self, row: dict[str, Any]) -> None:
        """A memory is new."""
        self._added.append(row)
        self._worded[row["pk"]] = row

    def change(self, old: Mapping[str, Any], row: Mapping[str, Any]) -> None:
        """A memory is as this row says from now on."""
        if any(row[name] != old[name] for name in ("text", "context", "created_at", "utc_offset")):
            self._unworded[row["pk"]] = row["scope_id"]
            self._worded[row["pk"]] = row
        self._updated[row["pk"]] = {"_pk": row["pk"], **{name: row[name] for name in _CHANGING}}

    def remove(self, row: Mapping[str, Any]) -> None:
        """A memory goes."""
        self._gone.append(row["pk"])
        self._unworded[row["pk"]] = row["scope_id"]
        self._worded.pop(row["pk"], None)

    def goes(self, row: Mapping[str, Any]) -> bool:
        """Whether a memory goes."""
        return row["pk"] in self._gone

    def post(self, connection: Connection, language: str, words: lexical.Words) -> None:
        """Write what was collected."""
        INSERT_CHANGE.run(connection, *self.changes)
        if self.scopes:
            connection.execute(insert(scopes), self.scopes)
        _INSERT_MEMORY.run(connection, *self._added)
        _UPDATE_MEMORY.run(connection, *self._updated.values())
        if self._gone:
            _DELETE_MEMORIES.run(connection, {"pks": self._gone})
        _INSERT_HISTORY.run(connection, *self.history)
        if self.compared:
            _COMPARED.run(connection, {"keys": list(self.compared), "seq": self.seq})
        self._post_words(connection, language, words)

    def _post_words(self, connection: Connection, language: str, words: lexical.Words) -> None:
        grown: Counter[int] = Counter()
        if self._unworded:
            for pk, length in lexical.forget(connection, list(self._unworded)).items():
                grown[self._unworded[pk]] -= length
        new = [lexical.postings(row, language, words) for row in self._worded.values()]
        lexical.INSERT_WORDS.run(connection, *(posting for postings in new for posting in postings))
        for first, *_ in new:  # each has its date at least
            grown[first["scope_id"]] += first["length"]
        _GROW_SCOPE.run(connection, *({"_id": id_, "_words": count} for id_, count in grown.items() if count))


RESULT: Final = select(runs.c.result).where(runs.c.key == bindparam("run"))
"""What a run did."""


class Books(NamedTuple):
    """All that a write has to know beforehand."""

    seq: int
    model: str | None
    language: str | None
    result: list[dict[str, Any]] | None  # of its run, where that was done already
    scope_id: int | None
    compared: int | None  # last change within its scope by a write that had compared


_SCOPE: Final = scopes.c.key == bindparam("scope")
_BOOKS: Final = Prepared(
    select(
        LAST_SEQ.scalar_subquery().label("seq"),
        select(meta.c.value).where(meta.c.key == EMBEDDINGS).scalar_subquery().label("model"),
        select(meta.c.value).where(meta.c.key == LANGUAGE).scalar_subquery().label("language"),
        RESULT.scalar_subquery().label("result"),
        select(scopes.c.id).where(_SCOPE).scalar_subquery().label("scope_id"),
        select(scopes.c.compared).where(_SCOPE).scalar_subquery().label("compared"),
    )
)
_REVISIONS: Final = select(func.max(history.c.revision)).where(history.c.memory_id == memories.c.id).scalar_subquery()
_TARGETS: Final = Prepared(
    select(memories, _REVISIONS.label("revisions"), *OWNER)
    .join_from(memories, scopes, memories.c.scope_id == scopes.c.id)
    .where(any_of(memories.c.id, "ids"))
)
_SEQ: Final = func.max(history.c.seq)
_LAST: Final = func.max(history.c.revision)
_OVER: Final = func.max(memories.c.pk).is_(None)
_HOMES: Final = func.min(history.c.scope_id).label("home"), func.max(history.c.scope_id).label("other")
_PAST_LIVES: Final = (
    select(history.c.memory_id, _SEQ.label("seq"), _LAST.label("last"), _OVER.label("over"), *_HOMES)
    .join_from(history, memories, memories.c.id == history.c.memory_id, isouter=True)
    .where(any_of(history.c.memory_id, "ids"))
    .group_by(history.c.memory_id)
)


def books(connection: Connection, write: Write) -> Books:
    """All that a write has to know beforehand, in one question."""
    scope = None if write.scope is None else key_of(write.scope)
    return Books(*_BOOKS.first(connection, {"run": write.run, "scope": scope}))


def targets(connection: Connection, write: Write) -> dict[str, dict[str, Any]]:
    """The memories that decisions name, as far as the write may see them: their rows, scope and number of revisions."""
    named = ((d.past_of,) if d.event == "ADD" else (d.memory_id, d.successor_id, d.past_of) for d in write.decisions)
    ids = [id_ for ids in named for id_ in ids if id_ is not None]
    rows = _TARGETS.rows(connection, {"ids": ids}) if ids else []
    found = ({**row._asdict(), "scope": of_row(row)} for row in rows)
    return {row["id"]: row for row in found if write.within is None or write.within.covers(row["scope"])}


def past_lives(connection: Connection, write: Write) -> dict[str, Any]:
    """Of the ids that are added, those that the history knows: the last seq and revision, where, and whether it is over."""
    ids = [d.memory_id for d in write.decisions if d.event == "ADD" and d.memory_id is not None]
    return {life.memory_id: life for life in connection.execute(_PAST_LIVES, {"ids": ids})} if ids else {}


def courses_of(connection: Connection, write: Write) -> dict[str, CourseRows]:
    """The courses that are gone on with, or get a statement of another date."""
    every = any(d.after is not None for d in write.decisions)
    ids = [d.past_of or d.memory_id for d in write.decisions if every or d.past_of or d.dated or d.event == "ADD"]
    return courses(connection, [memory_id for memory_id in ids if memory_id is not None])


_OWN: Final = "seq scope_id revision context metadata memory_type expires_at".split()
_COPIED: Final = (*_OWN, "created_at", "utc_offset", "is_verbatim")


class WriteRows:
    """Carries out the decisions of one write, each beside what the ones before it leave."""

    def __init__(self, connection: Connection, write: Write, books: Books, words: lexical.Words) -> None:
        self.now = datetime.now(UTC)
        self.scope_id: int | None = books.scope_id
        self.run: Final = write.run
        self._connection = connection
        self._write = write
        self._rows: Final = PendingRows(books.seq)
        self._language = books.language or ENGLISH
        self._words = words
        self._targets = targets(connection, write)
        self._past_lives = past_lives(connection, write)
        self._standing = dict(self._targets)  # as this write leaves them
        self._courses = courses_of(connection, write)
        self._touched: set[str] = set()
        self._place = -1  # of the decision at hand
        self._seqs: dict[int, int] = {}  # of the revisions that decisions made, by their places
        self._stands: dict[int, str | None] = {}  # what became of facts: ids by their places
        self._told: dict[int, Claims] = {}  # what decisions say and unsay of relations, by their places

    def carry_out(self, place: int, decision: Decision) -> Change:
        """Collect the rows of one decision, which stands at a place of the list."""
        self._place = place
        after, decision = decision.after, self._placed_in_time(decision)
        change = self._carried_out(decision)
        if decision.fact is not None and decision.event != "DELETE":
            self._stands[decision.fact] = decision.past_of or change.id
            if after is not None and self._stands.get(after) is None:  # what stands in its stead
                self._stands[after] = self._stands[decision.fact]
        return change

    def _carried_out(self, decision: Decision) -> Change:
        match decision.event:
            case _ if decision.past_of is not None:
                return self._add_to_past(decision, decision.past_of)
            case "ADD":
                return self._add(self._born(decision))
            case "UPDATE":
                return self._update(decision)
            case "DELETE":
                return self._delete(decision)
            case "NONE":
                return self._keep(decision)

    def seq_of(self, place: int) -> int:
        """The number of the revision that a decision made; for one that made none, a later one than its memory has."""
        return self._seqs.get(place, self._rows.seq)

    def relations(self) -> dict[int, tuple[RelationChange, ...]]:
        """Carry out what was said of relations, once everything else is posted: by the place of the decision."""
        if not self._told:
            return {}
        within = self._write.within
        scope_ids = () if within is None else expand(self._connection, within)
        rows = GraphRows(self._connection, self.now, self._rows.draw)
        told = dict(sorted(self._told.items(), key=lambda each: (each[1].time, each[0])))
        done = carry_out(rows, list(told.values()), scope_ids)
        rows.post()
        return dict(zip(told, done, strict=True))

    def relate(self, scope: Scope, triples: Sequence[Triple], time: datetime | None) -> tuple[RelationChange, ...]:
        """State relations that no memory says; whoever does may name the scope's own by their ids."""
        of_two = tuple(triple for triple in _meant(triples, scope) if relates_two(triple, scope))
        if not of_two:  # and a scope that is new takes its number from the first entity
            return ()
        home = Home(self._scope(scope, self._rows.seq + 1), scope)
        self._told[0] = Claims(home, time or self.now, of_two, by_hand=True)
        self.post()
        return self.relations()[0]

    def take_in(self, scope: Scope, triples: Sequence[Triple]) -> list[Taken]:
        """Take relations over from elsewhere, and say of each what became of it; the scope's own may be named by their ids."""
        meant = _meant(triples, scope)
        if not any(relates_two(triple, scope) for triple in meant):
            return ["same"] * len(meant)
        home = Home(self._scope(scope, self._rows.seq + 1), scope)
        self.post()
        rows = GraphRows(self._connection, self.now, self._rows.draw)
        done = take_in(rows, home, meant)
        rows.post()
        return done

    def post(self) -> None:
        """Write what was collected."""
        self._rows.post(self._connection, self._language, self._words)

    # ── one decision ────────────────────────────────────────────────────────────────────────────────────────────────

    def _add(self, decision: Decision) -> Change:
        if decision.text is None or self._write.scope is None:
            raise InvalidInputError("an ADD needs the new memory's text and the scope it belongs to")
        life = self._past_lives.get(str(decision.memory_id))
        seq = self._rows.draw()
        since = begins = decision.time or self.now
        if life is not None:  # it comes back, and goes on where it ended
            course = self._courses[life.memory_id]
            since = max(since, course.last or since)
            begins = course.began or since
        row: dict[str, Any] = {
            "pk": seq,
            "id": decision.memory_id,
            "scope_id": self._scope(self._write.scope, seq),
            "text": decision.text,
            "context": decision.context or "",
            **_said_of(decision),
            "hash": text_hash(decision.text),
            "embedding": self._embedding(decision.text),
            "created_at": begins,
            "updated_at": since,
            "utc_offset": _offset_of(decision, minutes_of(self.now.astimezone())),
            "seq": seq,
            "revision": 1 if life is None else life.last + 1,
            "related": int(self._write.related),
        }
        self._rows.add(row)
        self._courses.setdefault(row["id"], CourseRows())
        self._record(row, "ADD", None, row["text"], decision)
        told = {**row, "scope": self._write.scope, "revisions": row["revision"]}
        self._targets[row["id"]] = self._standing[row["id"]] = told
        self._tell(decision, told, None, row["text"], returns=row["revision"] > 1)
        return Change(row["id"], row["text"], "ADD", reason=decision.reason)

    def _update(self, decision: Decision) -> Change:
        old = self._target(decision, changing=True)
        row = self._changed(
            old,
            text=old["text"] if decision.text is None else decision.text,
            context=old["context"] if decision.context is None else decision.context,
            metadata=_merged(old["metadata"], decision),
            actor_id=decision.actor_id or old["actor_id"],
            role=decision.role or old["role"],
            **self._since(decision, old),
            expires_at=old["expires_at"] if decision.keep_expiry else decision.expires_at,
        )
        if row["text"] != old["text"]:
            row.update(hash=text_hash(row["text"]), embedding=self._embedding(row["text"]))
            row.update(related=int(self._write.related), is_verbatim=decision.is_verbatim)
        self._put(old, row)
        self._record(row, "UPDATE", old["text"], row["text"], decision)
        self._tell(decision, row, old["text"], row["text"])
        return Change(row["id"], row["text"], "UPDATE", previous_text=old["text"], reason=decision.reason)

    def _delete(self, decision: Decision) -> Change:
        old = self._target(decision, changing=True)
        if decision.successor_id is not None and decision.successor_id not in self._targets:
            raise MemoryNotFoundError(decision.successor_id)
        row = self._changed(old, **self._since(decision, old))
        self._rows.remove(row)
        self._record(row, "DELETE", old["text"], None, decision)
        self._tell(decision, row, old["text"], None)
        return Change(row["id"], old["text"], "DELETE", reason=decision.reason)

    def _keep(self, decision: Decision) -> Change:
        if decision.memory_id is not None:
            row = self._target(decision)
            if decision.dated:
                text = (row if decision.after is None else self._standing[row["id"]])["text"]
                decision = replace(decision, relations=self._until_another(decision, text))
                self._date(decision, text)
            self._tell(decision, row, row["text"], row["text"])
        return Change(decision.memory_id, decision.text or "", "NONE", reason=decision.reason)

    def _until_another(self, decision: Decision, text: str) -> tuple[Triple, ...]:
        """What is said of relations, until something else was said."""
        course, time = self._courses[str(decision.memory_id)], decision.time or self.now
        others = (step.valid_from for step in course.steps if step.valid_from > time and step.text != text)
        until = next(others, None)
        return decision.relations if until is None else _closed(decision.relations, until)

    # ── a statement of another date ─────────────────────────────────────────────────────────────────────────────────

    def _placed_in_time(self, decision: Decision) -> Decision:
        if decision.after is None:
            return decision
        memory_id = self._stands.get(decision.after)
        if memory_id is None:
            return replace(decision, after=None)
        if text_hash(self._standing[memory_id]["text"]) == text_hash(decision.text or ""):
            return replace(decision, event="NONE", memory_id=memory_id)
        if decision.event == "NONE" or (decision.time or self.now) >= self._standing[memory_id]["updated_at"]:
            return replace(decision, event="NONE", memory_id=memory_id, dated=False)
        return replace(decision, past_of=memory_id)

    def _date(self, decision: Decision, text: str) -> None:
        """What a memory says was said with a date of its own."""
        old, course, time = self._dated(decision, str(decision.memory_id))
        is_last = time >= old["updated_at"]
        if is_last and text != old["text"]:  # this very list says something newer of it
            return
        if course.said(time, text) is not None:
            return
        now = {"seq": self._rows.draw(), "created_at": min(old["created_at"], time)}
        date = {"updated_at": time, "utc_offset": minutes_of(time)}
        row = {**(old if is_last else self._targets[old["id"]]), **now, **date}
        row["revision"] = old["revisions"] + 1
        self._put(old, row if is_last else {**old, **now}, revisions=row["revision"])
        self._record(row, "NONE", text, text, decision)

    def _add_to_past(self, decision: Decision, past_of: str) -> Change:
        """A statement from before what stands, told late; or that something was over before then."""
        if decision.event not in {"ADD", "DELETE"}:
            raise InvalidInputError(f"{decision.event} has no place in the past of another memory; ADD and DELETE have")
        old, course, time = self._dated(decision, past_of)
        until, before, text = course.after(time), course.at(time), None if decision.event == "DELETE" else decision.text
        if until is None:
            raise InvalidInputError(
                f"{time} is not before the last statement of memory {past_of}; change the memory itself"
            )
        if (known := course.said(time, text)) is not None:
            return Change(known.memory_id, decision.text or "", "NONE", reason=decision.reason)
        row = self._changed(old, created_at=time, updated_at=time, utc_offset=minutes_of(time))
        if text is None:
            return self._end_in_past(decision, old, row, Span(time, until), None if before is None else before.text)
        row |= {"id": self._born(decision).memory_id, "revision": 1, "text": text, "context": decision.context or ""}
        row |= _said_of(decision)
        self._put(old, {**old, "seq": row["seq"], "created_at": min(old["created_at"], time)})
        self._record(row, "ADD", None, text, decision, until=until)
        told = replace(decision, memory_id=past_of, relations=_closed(decision.relations, until))
        self._tell(told, row, None, None, gap=Span(time, until))
        return Change(row["id"], text, "ADD", reason=decision.reason, valid_to=until)

    def _end_in_past(
        self, decision: Decision, old: dict[str, Any], row: dict[str, Any], gap: Span, ended: str | None
    ) -> Change:
        self._put(old, {**old, "seq": row["seq"]}, revisions=row["revision"])
        self._record(row, "DELETE", ended, None, decision)
        self._tell(replace(decision, memory_id=row["id"]), row, None, None, gap=gap)
        text = ended or decision.text or row["text"]
        return Change(row["id"], text, "DELETE", reason=decision.reason, valid_to=decision.time)

    def _dated(self, decision: Decision, memory_id: str) -> tuple[dict[str, Any], CourseRows, datetime]:
        old = self._target(replace(decision, memory_id=memory_id))
        if decision.time is None or self._rows.goes(old) or (decision.event == "ADD" and decision.text is None):
            raise InvalidInputError("a statement of the past needs a date, a text and a memory that stands")
        return self._standing[memory_id], self._courses[memory_id], decision.time

    def _since(self, decision: Decision, old: Mapping[str, Any]) -> dict[str, Any]:
        """From when on a change counts: nothing that stands begins before what it follows. An edit keeps the user's offset."""
        time, offset = decision.time or self.now, old["utc_offset"]
        later = {"updated_at": time, "utc_offset": _offset_of(decision, offset)}
        return later if time > old["updated_at"] else {"updated_at": old["updated_at"], "utc_offset": offset}

    def _born(self, decision: Decision) -> Decision:
        """An addition with the id of its memory: a new one of the run's own, or that of a memory which comes back."""
        if decision.memory_id is None:  # the same run gives the same memories, however often it is repeated
            new = uuid.uuid4() if self.run is None else uuid.uuid5(uuid.UUID(self.run), str(self._place))
            return replace(decision, memory_id=str(new))
        if self.run is not None:
            raise InvalidInputError("a run does not choose the ids of its memories; leave memory_id of an ADD out")
        life = self._past_lives.get(decision.memory_id)
        # Contract: who restores has looked in another transaction; a memory that others restored, or erased, since then does
        # not come back a second time. test_of_several_who_restore_a_memory_at_once_one_succeeds.
        if decision.seen is not None and (life is None or life.seq != decision.seen):
            raise ConflictError(f"memory {decision.memory_id} changed after it was looked at; try again")
        is_its_own = life is None or (life.over and life.home == life.other == self.scope_id)
        if not is_its_own or decision.memory_id in self._touched:
            raise ConflictError(f"the id {decision.memory_id} is not free; leave it out to have a new one")
        return decision

    def _target(self, decision: Decision, *, changing: bool = False) -> dict[str, Any]:
        row = self._targets.get(str(decision.memory_id))
        if decision.seen is not None and (row is None or row["seq"] != decision.seen):
            raise ConflictError(f"memory {decision.memory_id} changed after it was looked at; try again")
        if row is None:
            raise MemoryNotFoundError(str(decision.memory_id))
        if changing and row["id"] in self._touched:
            raise InvalidInputError(f"memory {row['id']} is changed twice in one list of decisions")
        return self._standing[row["id"]] if changing else row

    def _tell(
        self,
        decision: Decision,
        row: Mapping[str, Any],
        before: str | None,
        after: str | None,
        *,
        returns: bool = False,
        gap: Span | None = None,
    ) -> None:
        home = Home(row["scope_id"], row["scope"])
        said = Claims(
            home=home,
            time=decision.time or self.now,
            triples=decision.relations,
            memory_id=decision.memory_id,
            before=before,
            after=after,
            by_hand=decision.time is None,
            returns=returns,
            successor_id=decision.successor_id,
            gap=gap,
            speaker=named_speaker(row["actor_id"], row["role"], home.scope),
        )
        if said.triples or said.unsays:
            self._told[self._place] = said

    def _changed(self, old: Mapping[str, Any], **new: Any) -> dict[str, Any]:
        return {**old, "seq": self._rows.draw(), "revision": old["revisions"] + 1, **new}

    # ── their rows ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _scope(self, scope: Scope, seq: int) -> int:
        if self.scope_id is None:
            self.scope_id = seq
            self._rows.scopes.append(
                {"id": seq, "key": key_of(scope), **shallow(scope), "word_count": 0, "compared": None}
            )
        return self.scope_id

    def _embedding(self, text: str) -> bytes:
        vector = self._write.vectors.get(text)
        if vector is None:
            raise EmbeddingMismatchError(f"no vector was prepared for {text[:60]!r}; embed every text before apply")
        return np.ascontiguousarray(vector, np.float32).tobytes()

    def _put(self, old: Mapping[str, Any], row: dict[str, Any], *, revisions: int | None = None) -> None:
        """What stands from now on."""
        self._rows.change(old, row)
        self._standing[row["id"]] = {**row, "revisions": revisions or max(old["revisions"], row["revision"])}

    def _record(
        self,
        row: dict[str, Any],
        event: Event,
        old: str | None,
        new: str | None,
        decision: Decision,
        *,
        until: datetime | None = None,
    ) -> None:
        op = "delete" if event == "DELETE" and decision.past_of is None else "put"
        change = {"seq": row["seq"], "nonce": secrets.token_bytes(8), "space": MEMORIES, "row": row["pk"], "op": op}
        self._rows.changes.append(change)
        self._seqs[self._place] = row["seq"]
        if decision.past_of is None and event != "NONE":
            self._touched.add(row["id"])
        self._mark(row)
        if (course := self._courses.get(decision.past_of or row["id"])) is not None:
            course.put(row, row["updated_at"], new)
        texts = {"old_memory": old, "new_memory": new}
        self._rows.history.append({**self._revision(row, event, decision), **texts, "valid_to": until})

    def _revision(self, row: Mapping[str, Any], event: Event, decision: Decision) -> dict[str, Any]:
        """A row of the history, but for its texts and its end."""
        return {
            **{name: row[name] for name in _COPIED},
            "id": str(uuid.uuid4()),
            "memory_id": row["id"],
            "event": event,
            "updated_at": {"ADD": None, "DELETE": self.now}.get(event, row["updated_at"]),
            "is_deleted": int(event == "DELETE"),
            "actor_id": decision.actor_id or row["actor_id"],
            "role": decision.role or row["role"],
            "recorded_at": self.now,
            "reason": decision.reason,
            "valid_from": row["updated_at"],
            "past_of": decision.past_of,
        }

    def _mark(self, row: Mapping[str, Any]) -> None:
        if self._write.seen is None or self._write.scope is None:
            return
        # Contract: the scope of a run that compared has a row, also where it only changed memories of narrower ones: whoever
        # compares within it relies on its mark. tests/storage/test_ledger.py::
        # test_who_compared_without_having_seen_what_was_written_meanwhile_compares_again.
        self._scope(self._write.scope, row["seq"])
        self._rows.compared.update(map(key_of, between(self._write.scope, row.get("scope", self._write.scope))))


def _said_of(decision: Decision) -> dict[str, Any]:
    copied = {
        name: getattr(decision, name) for name in ("memory_type", "actor_id", "role", "expires_at", "is_verbatim")
    }
    return {**copied, "metadata": dict(decision.metadata or {})}


def _offset_of(decision: Decision, default: int | None) -> int | None:
    if decision.time is not None:
        return minutes_of(decision.time)
    return default if decision.utc_offset is None else decision.utc_offset


def _meant(triples: Sequence[Triple], scope: Scope) -> list[Triple]:
    return [
        replace(each, source=owner_name(each.source, scope), target=owner_name(each.target, scope)) for each in triples
    ]


def _closed(triples: tuple[Triple, ...], until: datetime) -> tuple[Triple, ...]:
    return tuple(each if each.ended or each.valid_to else replace(each, valid_to=until) for each in triples)


def _merged(old: Mapping[str, Any], decision: Decision) -> dict[str, Any]:
    if decision.metadata is None:
        return dict(old)
    if decision.replace_metadata:
        return dict(decision.metadata)
    return {
        key: value
        for key, value in {**old, **decision.metadata}.items()
        if value is not None or key not in decision.metadata
    }
