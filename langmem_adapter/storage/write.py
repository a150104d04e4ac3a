"""Writing memories: `Write`, its decisions in order, and the rows that they become.

`storage.ledger` calls this within its transaction.
"""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import bindparam, delete, func, insert, select, update

from langmem_adapter.errors import ConflictError, EmbeddingMismatchError, InvalidInputError, MemoryNotFoundError
from langmem_adapter.names import named_speaker, owner_name
from langmem_adapter.records.results import Change, Decision, Event
from langmem_adapter.records.scope import shallow
from langmem_adapter.storage import lexical
from langmem_adapter.storage.feed import INSERT_CHANGE, LAST_SEQ, new_change
from langmem_adapter.storage.graph.rows import GraphRows, ScopeRow, Span
from langmem_adapter.storage.graph.writes import Claims, carry_out, relates_two, take_in
from langmem_adapter.storage.memories import MemoryTimeline, timelines
from langmem_adapter.storage.meta import EMBEDDINGS, LANGUAGE
from langmem_adapter.storage.queries import Prepared, any_of
from langmem_adapter.storage.scopes import OWNER, between, expand, id_within, key_of, of_row
from langmem_adapter.storage.tables import MEMORIES, Number, history, memories, meta, runs, scopes
from langmem_adapter.storage.timestamps import offset_minutes
from langmem_adapter.text import ENGLISH, text_hash

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from langmem_adapter.records.graph import RelationChange, Triple
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.graph.writes import Taken
    from langmem_adapter.storage.traces import TraceDraft


@dataclass(frozen=True, slots=True, eq=False)
class Write:
    """A list of decisions, and what the ledger needs to carry them out."""

    decisions: tuple[Decision, ...]  # in order; no memory is changed by two of them
    scope: Scope | None = None  # of new memories and of the run; needed where there is an ADD, a key or a trace
    within: Scope | None = None  # fields that every memory must match; `None` where the ids were read without a scope
    vectors: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)  # unit vectors of all new texts
    seen: int | None = None  # number of the last change that was taken into account; `None`: compared with nothing
    key: str | None = None  # names the run within `scope`; a second write of it gives the first one's result
    trace: TraceDraft | None = None  # what to keep of the run, even where nothing else is written; it needs a key
    related: bool = False  # whether the texts have been read for relations, so that they need not be read again
    thread: str | None = None  # the thread of the messages that the run remembers
    digests: Mapping[str, str] = field(default_factory=dict)  # of those messages, by their ids: see `storage.sources`

    def __post_init__(self) -> None:
        if (self.key is None or self.scope is None) and not (self.key is None and self.trace is None):
            raise InvalidInputError("a run and its trace are named by a key within a scope: pass both")

    @property
    def run(self) -> str | None:
        """The id of the run, and of its trace; `None` where it has no name."""
        return None if self.key is None or self.scope is None else id_within(self.scope, self.key)

    @property
    def new_ids(self) -> list[str | None]:
        """The ids of the memories that decisions of a run add, by their places: a repeated run gives the same ones."""
        run = None if self.run is None else uuid.UUID(self.run)
        return [None if run is None else str(uuid.uuid5(run, str(place))) for place in range(len(self.decisions))]


# ── rows to be written ──────────────────────────────────────────────────────────────────────────────────────────────────

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
_COMPARED: Final = Prepared(
    update(scopes).where(any_of(scopes.c.key, "keys")).values(compared=bindparam("seq", type_=Number))
)


@dataclass(slots=True, eq=False)
class _PendingRows:
    """The rows that one write adds to the tables, changes and deletes."""

    seq: int  # the last number that was drawn from the change feed
    changes: list[dict[str, Any]] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    scopes: list[dict[str, Any]] = field(default_factory=list)
    compared: set[str] = field(default_factory=set)  # keys of the scopes from the run's to those of changed memories
    removed: list[int] = field(default_factory=list)
    _added: list[dict[str, Any]] = field(default_factory=list)
    _updated: dict[int, dict[str, Any]] = field(default_factory=dict)
    _new_words: dict[int, Mapping[str, Any]] = field(default_factory=dict)  # memories that need new word rows
    _old_words: dict[int, int] = field(default_factory=dict)  # scopes of the memories that lose their word rows

    def draw(self) -> int:
        self.seq += 1
        return self.seq

    def add(self, row: dict[str, Any]) -> None:
        self._added.append(row)
        self._new_words[row["pk"]] = row

    def change(self, old: Mapping[str, Any], row: Mapping[str, Any]) -> None:
        if any(row[name] != old[name] for name in ("text", "context", "created_at", "utc_offset")):
            self._old_words[row["pk"]] = row["scope_id"]
            self._new_words[row["pk"]] = row
        self._updated[row["pk"]] = {"_pk": row["pk"], **{name: row[name] for name in _CHANGING}}

    def remove(self, row: Mapping[str, Any]) -> None:
        self.removed.append(row["pk"])
        self._old_words[row["pk"]] = row["scope_id"]
        self._new_words.pop(row["pk"], None)

    def post(self, connection: Connection, language: str, words: lexical.Words) -> None:
        INSERT_CHANGE.run(connection, *self.changes)
        if self.scopes:
            connection.execute(insert(scopes), self.scopes)
        _INSERT_MEMORY.run(connection, *self._added)
        _UPDATE_MEMORY.run(connection, *self._updated.values())
        if self.removed:
            _DELETE_MEMORIES.run(connection, {"pks": self.removed})
        _INSERT_HISTORY.run(connection, *self.history)
        if self.compared:
            _COMPARED.run(connection, {"keys": list(self.compared), "seq": self.seq})
        growth: Counter[int] = Counter()
        if self._old_words:
            for pk, length in lexical.forget(connection, list(self._old_words)).items():
                growth[self._old_words[pk]] -= length
        growth.update(lexical.add(connection, self._new_words.values(), language, words))
        lexical.grow_scopes(connection, growth)


# ── what a write reads first ────────────────────────────────────────────────────────────────────────────────────────────


class WriteContext(NamedTuple):
    seq: int
    model: str | None
    language: str | None
    result: list[dict[str, Any]] | None  # of its run, where that was done already
    scope_id: int | None
    compared: int | None  # last change within its scope by a write that had compared
    used_ids: int  # how many revisions have one of the ids that its run would give


RESULT: Final = select(runs.c.result).where(runs.c.key == bindparam("run"))
"""What a run did."""
_SCOPE: Final = scopes.c.key == bindparam("scope")
_USED: Final = select(func.count()).where(any_of(history.c.memory_id, "new_ids"))
_CONTEXT: Final = Prepared(
    select(
        LAST_SEQ.scalar_subquery().label("seq"),
        select(meta.c.value).where(meta.c.key == EMBEDDINGS).scalar_subquery().label("model"),
        select(meta.c.value).where(meta.c.key == LANGUAGE).scalar_subquery().label("language"),
        RESULT.scalar_subquery().label("result"),
        select(scopes.c.id).where(_SCOPE).scalar_subquery().label("scope_id"),
        select(scopes.c.compared).where(_SCOPE).scalar_subquery().label("compared"),
        _USED.scalar_subquery().label("used_ids"),
    )
)
_REVISIONS: Final = select(func.max(history.c.revision)).where(history.c.memory_id == memories.c.id).scalar_subquery()
_TARGETS: Final = Prepared(
    select(memories, _REVISIONS.label("revisions"), *OWNER)
    .join_from(memories, scopes, memories.c.scope_id == scopes.c.id)
    .where(any_of(memories.c.id, "ids"))
)
_LAST_REVISIONS: Final = (
    select(
        history.c.memory_id,
        func.max(history.c.seq).label("seq"),
        func.max(history.c.revision).label("revision"),
        func.max(memories.c.pk).is_(None).label("is_over"),
        func.min(history.c.scope_id).label("scope_id"),
        func.max(history.c.scope_id).label("other_scope_id"),
    )
    .join_from(history, memories, memories.c.id == history.c.memory_id, isouter=True)
    .where(any_of(history.c.memory_id, "ids"))
    .group_by(history.c.memory_id)
)


def load_write_context(connection: Connection, write: Write) -> WriteContext:
    new_ids = write.new_ids
    added = [new_ids[place] for place, each in enumerate(write.decisions) if each.event == "ADD"]
    scope = None if write.scope is None else key_of(write.scope)
    values = {"run": write.run, "scope": scope, "new_ids": [id_ for id_ in added if id_ is not None]}
    return WriteContext(*_CONTEXT.first(connection, values))


def _load_targets(connection: Connection, write: Write) -> dict[str, dict[str, Any]]:
    """The memories that decisions name, within the write's scope: their rows, scope and number of revisions."""
    ids = [
        id_
        for each in write.decisions
        for id_ in ((each.past_of,) if each.event == "ADD" else (each.memory_id, each.successor_id, each.past_of))
        if id_ is not None
    ]
    rows = ({**row._asdict(), "scope": of_row(row)} for row in (_TARGETS.rows(connection, {"ids": ids}) if ids else ()))
    return {row["id"]: row for row in rows if write.within is None or write.within.covers(row["scope"])}


def _last_revisions(connection: Connection, write: Write) -> dict[str, Any]:
    """The last revision of each id that an ADD names, where the history has it."""
    ids = [each.memory_id for each in write.decisions if each.event == "ADD" and each.memory_id is not None]
    return {row.memory_id: row for row in connection.execute(_LAST_REVISIONS, {"ids": ids})} if ids else {}


def _load_timelines(connection: Connection, write: Write) -> dict[str, MemoryTimeline]:
    """The timelines that decisions continue, or add a statement of another date to."""
    every = any(each.after is not None for each in write.decisions)
    ids = [
        each.past_of or each.memory_id
        for each in write.decisions
        if every or each.past_of or each.dated or each.event == "ADD"
    ]
    return timelines(connection, [memory_id for memory_id in ids if memory_id is not None])


# ── carrying out decisions ──────────────────────────────────────────────────────────────────────────────────────────────

_OWN: Final = "seq scope_id revision context metadata memory_type expires_at".split()
_COPIED: Final = (*_OWN, "created_at", "utc_offset", "is_verbatim")


class WriteRows:
    """Carries out the decisions of one write, each on the rows that the ones before it leave."""

    def __init__(self, connection: Connection, write: Write, context: WriteContext, words: lexical.Words) -> None:
        self.now = datetime.now(UTC)
        self.scope_id: int | None = context.scope_id
        self.run: Final = write.run
        self._connection = connection
        self._write = write
        self._rows: Final = _PendingRows(context.seq)
        self._language = context.language or ENGLISH
        self._words = words
        # Contract: an id in use is not given again: who guesses a key may have imported a memory with the id that its run would
        # give. tests/storage/test_ledger.py::test_apply_survives_an_imported_memory_with_the_id_of_its_run
        self._new_ids = [None] * len(write.decisions) if context.used_ids else write.new_ids
        self._targets = _load_targets(connection, write)
        self._last_revisions = _last_revisions(connection, write)
        self._current_rows = dict(self._targets)  # as this write leaves them
        self._timelines = _load_timelines(connection, write)
        self._changed_ids: set[str] = set()
        self._place = -1  # of the current decision
        self._seqs: dict[int, int] = {}  # of the revisions that decisions made, by their places
        self._fact_outcomes: dict[int, str | None] = {}  # ids of memories by the places of facts
        self._claims: dict[int, Claims] = {}  # what decisions state and retract of relations, by their places

    def carry_out(self, place: int, decision: Decision) -> Change:
        """Collect the rows of the decision at a place of the list."""
        self._place = place
        after, decision = decision.after, self._place_in_time(decision)
        match decision.event:
            case _ if decision.past_of is not None:
                change = self._add_to_past(decision, decision.past_of)
            case "ADD":
                change = self._add(self._with_id(decision))
            case "UPDATE":
                change = self._update(decision)
            case "DELETE":
                change = self._delete(decision)
            case "NONE":
                change = self._keep(decision)
        if decision.fact is not None and decision.event != "DELETE":
            self._fact_outcomes[decision.fact] = decision.past_of or change.id
            if after is not None and self._fact_outcomes.get(after) is None:  # it stands for the fact that it names
                self._fact_outcomes[after] = self._fact_outcomes[decision.fact]
        return change

    def seq_of(self, place: int) -> int:
        """The number of the revision that a decision made; for one that made none, a later one than its memory has."""
        return self._seqs.get(place, self._rows.seq)

    def relations(self) -> dict[int, tuple[RelationChange, ...]]:
        """Carry out what decisions state of relations, after `post`: the changes by the places of the decisions."""
        if not self._claims:
            return {}
        within = self._write.within
        scope_ids = () if within is None else expand(self._connection, within)
        rows = GraphRows(self._connection, self.now, self._rows.draw)
        claims = dict(sorted(self._claims.items(), key=lambda each: (each[1].time, each[0])))
        changes = carry_out(rows, list(claims.values()), scope_ids)
        rows.post()
        return dict(zip(claims, changes, strict=True))

    def relate(self, scope: Scope, triples: Sequence[Triple], time: datetime | None) -> tuple[RelationChange, ...]:
        """State relations without a memory; the scope's own entities may be named by their ids."""
        of_two = tuple(triple for triple in _with_names(triples, scope) if relates_two(triple, scope))
        if not of_two:  # and a scope that is new takes its number from the first entity
            return ()
        scope_row = ScopeRow(self._scope_id(scope, self._rows.seq + 1), scope)
        self._claims[0] = Claims(scope_row, time or self.now, of_two, by_hand=True)
        self.post()
        return self.relations()[0]

    def take_in(self, scope: Scope, triples: Sequence[Triple]) -> list[Taken]:
        """Import relations and return what became of each; the scope's own entities may be named by their ids."""
        triples = _with_names(triples, scope)
        if not any(relates_two(triple, scope) for triple in triples):
            return ["same"] * len(triples)
        scope_row = ScopeRow(self._scope_id(scope, self._rows.seq + 1), scope)
        self.post()
        rows = GraphRows(self._connection, self.now, self._rows.draw)
        results = take_in(rows, scope_row, triples)
        rows.post()
        return results

    def post(self) -> None:
        self._rows.post(self._connection, self._language, self._words)

    def _add(self, decision: Decision) -> Change:
        if decision.text is None or self._write.scope is None:
            raise InvalidInputError("an ADD needs the text of the new memory and its scope: pass both")
        last = self._last_revisions.get(str(decision.memory_id))
        seq = self._rows.draw()
        since = begins = decision.time or self.now
        if last is not None:  # a deleted memory comes back, and continues its timeline
            timeline = self._timelines[last.memory_id]
            since = max(since, timeline.last or since)
            begins = timeline.began or since
        row: dict[str, Any] = {
            "pk": seq,
            "id": decision.memory_id,
            "scope_id": self._scope_id(self._write.scope, seq),
            **_content(decision),
            "hash": text_hash(decision.text),
            "embedding": self._embedding(decision.text),
            "created_at": begins,
            "updated_at": since,
            "utc_offset": _offset(decision, offset_minutes(self.now.astimezone())),
            "seq": seq,
            "revision": 1 if last is None else last.revision + 1,
            "related": int(self._write.related),
        }
        self._rows.add(row)
        self._timelines.setdefault(row["id"], MemoryTimeline())
        self._record(row, "ADD", None, row["text"], decision)
        current = {**row, "scope": self._write.scope, "revisions": row["revision"]}
        self._targets[row["id"]] = self._current_rows[row["id"]] = current
        self._claim(decision, current, None, row["text"], returns=row["revision"] > 1)
        return Change(row["id"], row["text"], "ADD", reason=decision.reason)

    def _update(self, decision: Decision) -> Change:
        old = self._target(decision, is_changing=True)
        row = self._next_revision(
            old,
            text=old["text"] if decision.text is None else decision.text,
            context=old["context"] if decision.context is None else decision.context,
            metadata=_merged_metadata(old["metadata"], decision),
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
        self._claim(decision, row, old["text"], row["text"])
        return Change(row["id"], row["text"], "UPDATE", previous_text=old["text"], reason=decision.reason)

    def _delete(self, decision: Decision) -> Change:
        old = self._target(decision, is_changing=True)
        if decision.successor_id is not None and decision.successor_id not in self._targets:
            raise MemoryNotFoundError(decision.successor_id)
        row = self._next_revision(old, **self._since(decision, old))
        self._rows.remove(row)
        self._record(row, "DELETE", old["text"], None, decision)
        self._claim(decision, row, old["text"], None)
        return Change(row["id"], old["text"], "DELETE", reason=decision.reason)

    def _keep(self, decision: Decision) -> Change:
        if decision.memory_id is not None:
            row = self._target(decision)
            if decision.dated:
                text = (row if decision.after is None else self._current_rows[row["id"]])["text"]
                timeline, time = self._timelines[row["id"]], decision.time or self.now
                others = (step.valid_from for step in timeline.steps if step.valid_from > time and step.text != text)
                if (until := next(others, None)) is not None:
                    decision = replace(decision, relations=_closed(decision.relations, until))
                self._add_date(decision, text)
            self._claim(decision, row, row["text"], row["text"])
        return Change(decision.memory_id, decision.text or "", "NONE", reason=decision.reason)

    def _place_in_time(self, decision: Decision) -> Decision:
        if decision.after is None:
            return decision
        memory_id = self._fact_outcomes.get(decision.after)
        if memory_id is None:
            return replace(decision, after=None)
        current = self._current_rows[memory_id]
        if text_hash(current["text"]) == text_hash(decision.text or ""):
            return replace(decision, event="NONE", memory_id=memory_id)
        if decision.event == "NONE" or (decision.time or self.now) >= current["updated_at"]:
            return replace(decision, event="NONE", memory_id=memory_id, dated=False)
        return replace(decision, past_of=memory_id)

    def _add_date(self, decision: Decision, text: str) -> None:
        """The memory's statement was made at one more date."""
        old, timeline, time = self._at_date(decision, str(decision.memory_id))
        is_last = time >= old["updated_at"]
        if is_last and text != old["text"]:  # this list of decisions has a newer text for it
            return
        if timeline.find(time, text) is not None:
            return
        now = {"seq": self._rows.draw(), "created_at": min(old["created_at"], time)}
        date = {"updated_at": time, "utc_offset": offset_minutes(time), "revision": old["revisions"] + 1}
        row = {**(old if is_last else self._targets[old["id"]]), **now, **date}
        self._put(old, row if is_last else {**old, **now}, revisions=row["revision"])
        self._record(row, "NONE", text, text, decision)

    def _add_to_past(self, decision: Decision, past_of: str) -> Change:
        """A statement that was added late and dated before the current one; or the end of what was true then."""
        if decision.event not in {"ADD", "DELETE"}:
            raise InvalidInputError(f"{decision.event} cannot change the past of a memory: use ADD or DELETE")
        old, timeline, time = self._at_date(decision, past_of)
        until, before = timeline.after(time), timeline.at(time)
        text = None if decision.event == "DELETE" else decision.text
        if until is None:
            raise InvalidInputError(
                f"{time} is not before the last statement of memory {past_of}: change the memory itself"
            )
        if (step := timeline.find(time, text)) is not None:
            return Change(step.memory_id, decision.text or "", "NONE", reason=decision.reason)
        gap = Span(time, until)
        row = self._next_revision(old, created_at=time, updated_at=time, utc_offset=offset_minutes(time))
        if text is None:
            self._put(old, {**old, "seq": row["seq"]}, revisions=row["revision"])
            ended = before and before.text
            self._record(row, "DELETE", ended, None, decision)
            self._claim(replace(decision, memory_id=row["id"]), row, None, None, gap=gap)
            text = ended or decision.text or row["text"]
            return Change(row["id"], text, "DELETE", reason=decision.reason, valid_to=decision.time)
        row |= {"id": self._with_id(decision).memory_id, "revision": 1, **_content(decision)}
        self._put(old, {**old, "seq": row["seq"], "created_at": min(old["created_at"], time)})
        self._record(row, "ADD", None, text, decision, until=until)
        claim = replace(decision, memory_id=past_of, relations=_closed(decision.relations, until))
        self._claim(claim, row, None, None, gap=gap)
        return Change(row["id"], text, "ADD", reason=decision.reason, valid_to=until)

    def _at_date(self, decision: Decision, memory_id: str) -> tuple[dict[str, Any], MemoryTimeline, datetime]:
        old = self._target(replace(decision, memory_id=memory_id))
        is_removed = old["pk"] in self._rows.removed
        if decision.time is None or is_removed or (decision.event == "ADD" and decision.text is None):
            raise InvalidInputError(
                "a statement of the past needs a date, a text and a memory that exists: pass all three"
            )
        return self._current_rows[memory_id], self._timelines[memory_id], decision.time

    def _since(self, decision: Decision, old: Mapping[str, Any]) -> dict[str, Any]:
        """The date from which a change counts: never before the one that it follows. An edit keeps the user's offset."""
        time, offset = decision.time or self.now, old["utc_offset"]
        later = {"updated_at": time, "utc_offset": _offset(decision, offset)}
        return later if time > old["updated_at"] else {"updated_at": old["updated_at"], "utc_offset": offset}

    def _with_id(self, decision: Decision) -> Decision:
        """An ADD with the id of its memory: a new one, or that of a memory which comes back."""
        if decision.memory_id is None:
            return replace(decision, memory_id=self._new_ids[self._place] or str(uuid.uuid4()))
        if self.run is not None:
            raise InvalidInputError("a run does not choose the ids of its memories: leave memory_id of an ADD out")
        last = self._last_revisions.get(decision.memory_id)
        # Contract: a restore has read the memory in another transaction; one that was restored, or erased, since then does not
        # come back a second time. test_of_several_who_restore_a_memory_at_once_one_succeeds.
        if decision.seen is not None and (last is None or last.seq != decision.seen):
            raise ConflictError(f"memory {decision.memory_id} changed after it was read: try again")
        is_free = last is None or (last.is_over and last.scope_id == last.other_scope_id == self.scope_id)
        if not is_free or decision.memory_id in self._changed_ids:
            raise ConflictError(f"the id {decision.memory_id} is not free: leave it out to have a new one")
        return decision

    def _target(self, decision: Decision, *, is_changing: bool = False) -> dict[str, Any]:
        row = self._targets.get(str(decision.memory_id))
        if decision.seen is not None and (row is None or row["seq"] != decision.seen):
            raise ConflictError(f"memory {decision.memory_id} changed after it was read: try again")
        if row is None:
            raise MemoryNotFoundError(str(decision.memory_id))
        if is_changing and row["id"] in self._changed_ids:
            raise InvalidInputError(f"memory {row['id']} is changed twice in one list of decisions: change it once")
        return self._current_rows[row["id"]] if is_changing else row

    def _claim(
        self, decision: Decision, row: Mapping[str, Any], before: str | None, after: str | None, **more: Any
    ) -> None:
        """Collect what a decision states and retracts of relations; *more* are fields of `Claims`."""
        scope_row = ScopeRow(row["scope_id"], row["scope"])
        claims = Claims(
            scope_row=scope_row,
            time=decision.time or self.now,
            triples=decision.relations,
            memory_id=decision.memory_id,
            before=before,
            after=after,
            by_hand=decision.time is None,
            successor_id=decision.successor_id,
            speaker=named_speaker(row["actor_id"], row["role"], scope_row.scope),
            **more,
        )
        if claims.triples or claims.retracts:
            self._claims[self._place] = claims

    def _next_revision(self, old: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
        return {**old, "seq": self._rows.draw(), "revision": old["revisions"] + 1, **changes}

    def _scope_id(self, scope: Scope, seq: int) -> int:
        if self.scope_id is None:
            self.scope_id = seq
            new = {"id": seq, "key": key_of(scope), **shallow(scope), "word_count": 0, "compared": None}
            self._rows.scopes.append(new)
        return self.scope_id

    def _embedding(self, text: str) -> bytes:
        vector = self._write.vectors.get(text)
        if vector is None:
            raise EmbeddingMismatchError(f"no vector was prepared for {text[:60]!r}: embed every text before apply")
        return vector.astype("float32").tobytes()

    def _put(self, old: Mapping[str, Any], row: dict[str, Any], *, revisions: int | None = None) -> None:
        """The row is the memory from now on."""
        self._rows.change(old, row)
        self._current_rows[row["id"]] = {**row, "revisions": revisions or max(old["revisions"], row["revision"])}

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
        self._rows.changes.append(new_change(row["seq"], MEMORIES, row["pk"], op))
        self._seqs[self._place] = row["seq"]
        if decision.past_of is None and event != "NONE":
            self._changed_ids.add(row["id"])
        self._mark_compared(row)
        if (timeline := self._timelines.get(decision.past_of or row["id"])) is not None:
            timeline.put(row, row["updated_at"], new)
        self._rows.history.append(
            {
                **{name: row[name] for name in _COPIED},
                "id": str(uuid.uuid4()),
                "memory_id": row["id"],
                "old_memory": old,
                "new_memory": new,
                "event": event,
                "updated_at": {"ADD": None, "DELETE": self.now}.get(event, row["updated_at"]),
                "is_deleted": int(event == "DELETE"),
                "actor_id": decision.actor_id or row["actor_id"],
                "role": decision.role or row["role"],
                "recorded_at": self.now,
                "reason": decision.reason,
                "valid_from": row["updated_at"],
                "valid_to": until,
                "past_of": decision.past_of,
            }
        )

    def _mark_compared(self, row: Mapping[str, Any]) -> None:
        if self._write.seen is None or self._write.scope is None:
            return
        # Contract: the scope of a run that compared has a row, also where it only changed memories of narrower ones: later runs
        # that compare within it rely on its mark. tests/storage/test_ledger.py::
        # test_apply_refuses_a_write_that_did_not_compare_with_a_later_one.
        self._scope_id(self._write.scope, row["seq"])
        self._rows.compared.update(map(key_of, between(self._write.scope, row.get("scope", self._write.scope))))


def _content(decision: Decision) -> dict[str, Any]:
    names = ("text", "memory_type", "actor_id", "role", "expires_at", "is_verbatim")
    copied = {name: getattr(decision, name) for name in names}
    return {**copied, "context": decision.context or "", "metadata": dict(decision.metadata or {})}


def _offset(decision: Decision, default: int | None) -> int | None:
    if decision.time is not None:
        return offset_minutes(decision.time)
    return default if decision.utc_offset is None else decision.utc_offset


def _with_names(triples: Sequence[Triple], scope: Scope) -> list[Triple]:
    return [
        replace(each, source=owner_name(each.source, scope), target=owner_name(each.target, scope)) for each in triples
    ]


def _closed(triples: tuple[Triple, ...], until: datetime) -> tuple[Triple, ...]:
    return tuple(each if each.ended or each.valid_to else replace(each, valid_to=until) for each in triples)


def _merged_metadata(old: Mapping[str, Any], decision: Decision) -> dict[str, Any]:
    if decision.metadata is None or decision.replace_metadata:
        return dict(old if decision.metadata is None else decision.metadata)
    merged = {**old, **decision.metadata}
    return {key: value for key, value in merged.items() if value is not None or key not in decision.metadata}
