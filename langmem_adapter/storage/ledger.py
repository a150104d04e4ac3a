"""The ledger: the one writer of memories, history and words.

Whoever wants to change memories (the pipeline, a direct edit, the CLI, an import) ends in a list of `Decision`s given to
`Ledger.apply`. One apply is one transaction: the change feed, the memories, their history, their words and the scope's
statistics agree after every commit, or nothing happened. Indexes are not told; they pull.
"""

from __future__ import annotations

import secrets
import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from sqlalchemy import bindparam, delete, func, insert, select, update

from langmem_adapter.errors import (
    ConflictError,
    EmbeddingMismatchError,
    InvalidInputError,
    LangmemAdapterError,
    MemoryNotFoundError,
)
from langmem_adapter.records.work import Change, Decision, Event
from langmem_adapter.storage import lexical, meta, tables, traces
from langmem_adapter.storage.prepared import Prepared, any_of
from langmem_adapter.storage.scopes import key_of, of_row, within
from langmem_adapter.storage.tables import MEMORIES, changes, history, memories, runs, scopes
from langmem_adapter.text import text_hash

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.database import Database
    from langmem_adapter.storage.traces import TraceDraft

__all__ = ["Ledger", "Write", "last_seq"]

_INSERT_CHANGE: Final = Prepared(insert(changes))
_INSERT_MEMORY: Final = Prepared(insert(memories))
_INSERT_HISTORY: Final = Prepared(insert(history))
_INSERT_SCOPE: Final = Prepared(insert(scopes))
_INSERT_RUN: Final = Prepared(insert(runs))
_RESULT: Final = select(runs.c.result).where(runs.c.key == bindparam("run"))
_LAST: Final = select(func.coalesce(func.max(changes.c.seq), 0))
_RUN: Final = Prepared(_RESULT)
_LAST_SEQ: Final = Prepared(_LAST)
# All that a write has to know beforehand, in one question.
_BOOKS: Final = Prepared(
    select(
        _LAST.scalar_subquery().label("seq"),
        select(tables.meta.c.value).where(tables.meta.c.key == meta.EMBEDDINGS).scalar_subquery().label("model"),
        select(tables.meta.c.value).where(tables.meta.c.key == meta.LANGUAGE).scalar_subquery().label("language"),
        _RESULT.scalar_subquery().label("result"),
        select(scopes.c.id).where(scopes.c.key == bindparam("scope")).scalar_subquery().label("scope_id"),
    )
)
_CHANGING: Final = "text context metadata actor_id role hash embedding updated_at expires_at seq revision".split()
_UPDATE_MEMORY: Final = Prepared(
    update(memories).where(memories.c.pk == bindparam("_pk")).values({name: bindparam(name) for name in _CHANGING})
)
_DELETE_MEMORIES: Final = Prepared(delete(memories).where(any_of(memories.c.pk, "pks")))
_GROW_SCOPE: Final = Prepared(
    update(scopes)
    .where(scopes.c.id == bindparam("_id"))
    .values(
        memory_count=scopes.c.memory_count + bindparam("_memories"),
        word_count=scopes.c.word_count + bindparam("_words"),
    )
)
_TARGETS: Final = Prepared(
    select(memories, scopes.c.user_id, scopes.c.agent_id, scopes.c.run_id)
    .join_from(memories, scopes, memories.c.scope_id == scopes.c.id)
    .where(any_of(memories.c.id, "ids"))
)
_LAST_REVISIONS: Final = Prepared(
    select(history.c.memory_id, func.max(history.c.revision))
    .where(any_of(history.c.memory_id, "ids"))
    .group_by(history.c.memory_id)
)


@dataclass(frozen=True, slots=True, eq=False)
class Write:
    """A list of decisions, and what the ledger needs to carry them out.

    Attributes:
        decisions: In order; no memory is changed by two of them.
        scope: The exact scope of new memories; only needed where there is an ADD.
        within: Fields that every memory named must match; `None` where the ids were found another way.
        vectors: The unit vector (float32) of every text that is added or put in place of another.
        seen: Number of the last change that the decisions took into account; `None` skips the check against newcomers.
        near: Cosine from which on a memory written since then makes the decisions stale.
        key: Names the run; a second write of the same key changes nothing and gives the first one's result.
        trace: What to keep of the run that led here; it is written even where nothing else is.
    """

    decisions: tuple[Decision, ...]
    scope: Scope | None = None
    within: Scope | None = None
    vectors: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    seen: int | None = None
    near: float = 1.0
    key: str | None = None
    trace: TraceDraft | None = None


class Ledger:
    """Carries out decisions, each list in one transaction.

    Attributes:
        database: The truth.

    Args:
        database: The truth.
        fingerprint: Of the embedding model that makes the vectors; a database keeps vectors of one model only.
    """

    def __init__(self, database: Database, *, fingerprint: str) -> None:
        self.database: Final = database
        self._fingerprint = fingerprint

    def apply(self, write: Write) -> tuple[Change, ...]:
        """Carry out a list of decisions and return what became of each, in order, once it is committed.

        Raises:
            ConflictError: A memory named changed since it was seen, or one was written that a fact should have been
                compared with.
            MemoryNotFoundError: A memory named does not exist, or lies outside `Write.within`.
            EmbeddingMismatchError: The vectors kept were made by another embedding model.
            StorageError: The database refused or failed.
        """
        return self.database.write(partial(self._carry_out, write))

    async def aapply(self, write: Write) -> tuple[Change, ...]:
        """The async twin of `apply`; waiting tasks share one commit."""
        return await self.database.awrite(partial(self._carry_out, write))

    def apply_each(self, writes: Sequence[Write]) -> list[tuple[Change, ...] | LangmemAdapterError]:
        """Carry out several lists of decisions, which share a commit; each ends with what `apply` gives or raises."""
        return self.database.write_each([partial(self._carry_out, write) for write in writes])

    def delete_all(self, scope: Scope, *, reason: str) -> int:
        """Delete every memory within *scope*, as it stands when the write begins; the history stays.

        Returns:
            How many.
        """
        return self.database.write(partial(_delete_all, scope=scope, reason=reason))

    def finished(self, key: str) -> tuple[Change, ...] | None:
        """What the run of this key did; `None` if there was none."""
        with self.database.read() as connection:
            kept = _RUN.first(connection, {"run": key})
        return None if kept is None else _read(kept.result)

    def _carry_out(self, write: Write, connection: Connection) -> tuple[Change, ...]:
        books = _books(connection, write)
        if write.vectors and not meta.fits(connection, books.model, self._fingerprint):
            meta.put(connection, meta.EMBEDDINGS, self._fingerprint)
        return _apply(connection, write, books)


def last_seq(connection: Connection) -> int:
    """Number of the last change; 0 in an empty database."""
    return int(_LAST_SEQ.first(connection)[0])


def _books(connection: Connection, write: Write) -> Any:
    scope = None if write.scope is None else key_of(write.scope)
    return _BOOKS.first(connection, {"run": write.key, "scope": scope})


def _apply(connection: Connection, write: Write, books: Any) -> tuple[Change, ...]:
    if books.result is not None:
        return _read(books.result)
    if write.seen is not None and write.seen != books.seq:
        _refuse_newcomers(connection, write, write.seen)
    entry = _Entry(connection, write, books)
    result = tuple(entry.carry_out(decision) for decision in write.decisions)
    entry.post()
    if write.trace is not None:
        traces.keep(connection, write.trace, result)
    if write.key is not None:
        row = {"key": write.key, "scope_id": entry.scope_id, "created_at": entry.now, "scope": _named(write.scope)}
        _INSERT_RUN.run(connection, {**row, "result": [change.to_json() for change in result]})
    return result


def _read(result: list[dict[str, Any]]) -> tuple[Change, ...]:
    return tuple(Change.from_json(change) for change in result)


def _named(scope: Scope | None) -> dict[str, str] | None:
    return None if scope is None else scope.named


def _refuse_newcomers(connection: Connection, write: Write, seen: int) -> None:
    facts = [decision.text for decision in write.decisions if decision.event == "ADD" and decision.text is not None]
    if not facts or write.within is None:
        return
    hashes = {text_hash(text) for text in facts}
    known = np.stack([write.vectors[text] for text in facts])
    newcomers = _newcomers(tuple(write.within.named)).rows(connection, {"seen": seen, **write.within.named})
    for memory_id, digest, embedding in newcomers:
        if digest in hashes or float((known @ np.frombuffer(embedding, np.float32)).max()) >= write.near:
            raise ConflictError(
                f"memory {memory_id} was written meanwhile and should have been compared with; try again"
            )


@cache
def _newcomers(fields: tuple[str, ...]) -> Prepared:
    """Memories that changed after number `seen`, in the scopes where these fields have given values."""
    whose = select(scopes.c.id).where(*(scopes.c[name] == bindparam(name) for name in fields))
    query = select(memories.c.id, memories.c.hash, memories.c.embedding)
    return Prepared(query.where(memories.c.seq > bindparam("seen"), memories.c.scope_id.in_(whose)))


class _Entry:
    """The rows of one write, collected in order and posted table by table."""

    def __init__(self, connection: Connection, write: Write, books: Any) -> None:
        self.now = datetime.now(UTC)
        self.scope_id: int | None = books.scope_id
        self._connection = connection
        self._write = write
        self._seq = int(books.seq)
        self._language: str = books.language
        self._targets = _targets(connection, write)
        self._last_revisions = _last_revisions(connection, write)
        self._changes: list[dict[str, Any]] = []
        self._history: list[dict[str, Any]] = []
        self._scopes: list[dict[str, Any]] = []
        self._added: list[dict[str, Any]] = []
        self._updated: list[dict[str, Any]] = []
        self._gone: list[int] = []
        self._new_words: list[dict[str, Any]] = []
        self._old_words: dict[int, int] = {}  # pk → scope id of memories whose word rows are to go
        self._grown: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])

    def carry_out(self, decision: Decision) -> Change:
        """Collect the rows of one decision."""
        match decision.event:
            case "ADD":
                return self._add(decision)
            case "UPDATE":
                return self._update(decision)
            case "DELETE":
                return self._delete(decision)
            case "NONE":
                if decision.memory_id is not None:
                    self._target(decision)
                return Change(decision.memory_id, decision.text or "", "NONE", reason=decision.reason)

    def post(self) -> None:
        """Write what was collected."""
        _INSERT_CHANGE.many(self._connection, self._changes)
        _INSERT_SCOPE.many(self._connection, self._scopes)
        _INSERT_MEMORY.many(self._connection, self._added)
        _UPDATE_MEMORY.many(self._connection, self._updated)
        if self._gone:
            _DELETE_MEMORIES.run(self._connection, {"pks": self._gone})
        _INSERT_HISTORY.many(self._connection, self._history)
        self._post_words()

    def _post_words(self) -> None:
        if self._old_words:
            for pk, length in lexical.forget(self._connection, list(self._old_words)).items():
                self._grown[self._old_words[pk]][1] -= length
        lexical.INSERT_WORDS.many(self._connection, self._new_words)
        grown = [{"_id": id_, "_memories": n, "_words": w} for id_, (n, w) in self._grown.items() if n or w]
        _GROW_SCOPE.many(self._connection, grown)

    # ── one decision ────────────────────────────────────────────────────────────────────────────────────────────────

    def _add(self, decision: Decision) -> Change:
        if decision.memory_id is None or decision.text is None or self._write.scope is None:
            raise InvalidInputError("an ADD needs the new memory's id, its text and the scope it belongs to")
        seq = self._draw()
        time = decision.time or self.now
        row: dict[str, Any] = {
            "pk": seq,
            "id": decision.memory_id,
            "scope_id": self._scope(self._write.scope, seq),
            "text": decision.text,
            "context": decision.context or "",
            "metadata": dict(decision.metadata or {}),
            "memory_type": decision.memory_type,
            "actor_id": decision.actor_id,
            "role": decision.role,
            "hash": text_hash(decision.text),
            "embedding": self._embedding(decision.text),
            "created_at": time,
            "updated_at": time,
            "expires_at": decision.expires_at,
            "seq": seq,
            "revision": self._last_revisions.get(decision.memory_id, 0) + 1,
        }
        self._added.append(row)
        self._index_words(row)
        self._grown[row["scope_id"]][0] += 1
        self._record(row, "put", "ADD", None, row["text"], decision)
        return Change(row["id"], row["text"], "ADD", reason=decision.reason)

    def _update(self, decision: Decision) -> Change:
        old = self._target(decision, changing=True)
        seq = self._draw()
        row: dict[str, Any] = {
            **old,
            "text": old["text"] if decision.text is None else decision.text,
            "context": old["context"] if decision.context is None else decision.context,
            "metadata": _merged(old["metadata"], decision),
            "actor_id": decision.actor_id or old["actor_id"],
            "role": decision.role or old["role"],
            "updated_at": decision.time or self.now,
            "expires_at": old["expires_at"] if decision.keep_expiry else decision.expires_at,
            "seq": seq,
            "revision": old["revision"] + 1,
        }
        if row["text"] != old["text"]:
            row.update(hash=text_hash(row["text"]), embedding=self._embedding(row["text"]))
        if (row["text"], row["context"]) != (old["text"], old["context"]):
            self._old_words[row["pk"]] = row["scope_id"]
            self._index_words(row)
        self._updated.append({"_pk": row["pk"], **{name: row[name] for name in _CHANGING}})
        self._record(row, "put", "UPDATE", old["text"], row["text"], decision)
        return Change(row["id"], row["text"], "UPDATE", previous_text=old["text"], reason=decision.reason)

    def _delete(self, decision: Decision) -> Change:
        old = self._target(decision, changing=True)
        row = {**old, "seq": self._draw(), "revision": old["revision"] + 1}
        self._gone.append(row["pk"])
        self._old_words[row["pk"]] = row["scope_id"]
        self._grown[row["scope_id"]][0] -= 1
        self._record(row, "delete", "DELETE", old["text"], None, decision)
        return Change(row["id"], old["text"], "DELETE", reason=decision.reason)

    def _target(self, decision: Decision, *, changing: bool = False) -> dict[str, Any]:
        row = self._targets.get(str(decision.memory_id))
        if decision.seen is not None and (row is None or row["seq"] != decision.seen):
            raise ConflictError(f"memory {decision.memory_id} changed after it was looked at; try again")
        if row is None:
            raise MemoryNotFoundError(str(decision.memory_id))
        if changing and row["id"] in {entry["memory_id"] for entry in self._history}:
            raise InvalidInputError(f"memory {row['id']} is changed twice in one list of decisions")
        return row

    # ── their rows ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _draw(self) -> int:
        self._seq += 1
        return self._seq

    def _scope(self, scope: Scope, seq: int) -> int:
        if self.scope_id is None:
            self.scope_id = seq
            fields = {"user_id": scope.user_id, "agent_id": scope.agent_id, "run_id": scope.run_id}
            self._scopes.append({"id": seq, "key": key_of(scope), **fields, "memory_count": 0, "word_count": 0})
        return self.scope_id

    def _embedding(self, text: str) -> bytes:
        vector = self._write.vectors.get(text)
        if vector is None:
            raise EmbeddingMismatchError(f"no vector was prepared for {text[:60]!r}; embed every text before apply")
        return np.ascontiguousarray(vector, np.float32).tobytes()

    def _index_words(self, row: dict[str, Any]) -> None:
        new = lexical.postings(
            row["scope_id"], row["pk"], row["text"], row["context"], row["created_at"], self._language
        )
        self._new_words += new
        self._grown[row["scope_id"]][1] += new[0]["length"] if new else 0

    def _record(
        self, row: dict[str, Any], op: str, event: Event, old: str | None, new: str | None, decision: Decision
    ) -> None:
        change = {"seq": row["seq"], "nonce": secrets.token_bytes(8), "space": MEMORIES, "row": row["pk"], "op": op}
        self._changes.append(change)
        copied = {
            name: row[name]
            for name in ("seq", "scope_id", "revision", "context", "metadata", "memory_type", "expires_at")
        }
        self._history.append(
            {
                **copied,
                "id": str(uuid.uuid4()),
                "memory_id": row["id"],
                "old_memory": old,
                "new_memory": new,
                "event": event,
                "created_at": row["created_at"],
                "updated_at": None if event == "ADD" else row["updated_at"] if event == "UPDATE" else self.now,
                "is_deleted": int(event == "DELETE"),
                "actor_id": decision.actor_id or row["actor_id"],
                "role": decision.role or row["role"],
                "recorded_at": self.now,
                "reason": decision.reason,
            }
        )


def _targets(connection: Connection, write: Write) -> dict[str, dict[str, Any]]:
    ids = [d.memory_id for d in write.decisions if d.event != "ADD" and d.memory_id is not None]
    rows = _TARGETS.rows(connection, {"ids": ids}) if ids else []
    return {row.id: row._asdict() for row in rows if write.within is None or write.within.covers(of_row(row))}


def _last_revisions(connection: Connection, write: Write) -> dict[str, int]:
    # A memory that comes back (restore) goes on counting where it stopped. A run of the pipeline makes new ids only.
    if write.key is not None:
        return {}
    ids = [d.memory_id for d in write.decisions if d.event == "ADD"]
    return dict(_LAST_REVISIONS.rows(connection, {"ids": ids})) if ids else {}


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


def _delete_all(connection: Connection, scope: Scope, reason: str) -> int:
    ids = connection.execute(
        select(memories.c.id)
        .where(memories.c.scope_id.in_(select(scopes.c.id).where(within(scope))))
        .order_by(memories.c.pk)
    ).scalars()
    decisions = tuple(Decision("DELETE", memory_id, None, reason) for memory_id in ids)
    write = Write(decisions)
    return len(_apply(connection, write, _books(connection, write)))
