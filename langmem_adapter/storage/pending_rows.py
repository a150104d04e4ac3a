"""The rows that one write collects, posted table by table."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sqlalchemy import bindparam, delete, insert, update

from langmem_adapter.storage import lexical
from langmem_adapter.storage.feed import INSERT_CHANGE
from langmem_adapter.storage.prepared_statements import Prepared, any_of
from langmem_adapter.storage.tables import Number, history, memories, scopes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

__all__ = ["PendingRows"]

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
