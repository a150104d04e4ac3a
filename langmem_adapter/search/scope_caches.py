"""The caches of scopes that are in use, kept in step with the database."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final

import numpy as np

from langmem_adapter.search.scope_cache import Postings, ScopeCache, ScopeColumns
from langmem_adapter.storage import follow, lexical, meta, scope_rows
from langmem_adapter.storage.scopes import expand
from langmem_adapter.storage.tables import MEMORIES

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from sqlalchemy import Connection

    from langmem_adapter.records.scope import Scope
    from langmem_adapter.search.scope_cache import Load
    from langmem_adapter.storage.database import Database

__all__ = ["CachedAt", "ScopeCaches", "loader"]

_MOST: Final = 20_000_000
"""Numbers that all caches together may hold (some 160 MB); the one that was longest not used goes first."""


@dataclass(frozen=True, slots=True, eq=False)
class CachedAt:
    """The cache of a scope as it stood at one moment.

    Attributes:
        cursor: The last change that it contains.
        version: What `Database.version` said before it was read or looked at last.
    """

    cache: ScopeCache
    scope_ids: tuple[int, ...]
    cursor: follow.Cursor
    version: Hashable


class _Kept:
    """The latest standing of a scope; one thread at a time brings it up to date."""

    def __init__(self) -> None:
        self.lock: Final = Lock()
        self.standing: CachedAt | None = None
        self.size = 0  # as it was counted last


class ScopeCaches:
    """Keeps the cache of each scope that is searched, up to a bound. Safe to use from many threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._kept: OrderedDict[Scope, _Kept] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def of(self, scope: Scope, version: Hashable) -> CachedAt:
        """The cache of a scope, brought up to date where somebody committed anything since `Database.version` gave *version*.

        Not to be called inside a `Database.read` block: it opens its own.
        """
        with self._lock:
            kept = self._kept.setdefault(scope, _Kept())
            self._kept.move_to_end(scope)
        standing = kept.standing
        if standing is not None and standing.version == version:
            return standing
        with kept.lock:
            standing = kept.standing
            if standing is None or standing.version != version:
                # Contract: read in one's turn, so that a cache never goes back; and who looks up words for it begins later, so
                # he sees all that it holds. `test_who_reads_later_waits_for_his_turn`,
                # `test_what_was_read_in_an_older_state_hides_nothing`
                with self._database.read() as connection:
                    standing = kept.standing = _caught_up(connection, scope, version, standing)
        self._shed(scope, kept, standing.cache.size)
        return standing

    def forget(self) -> None:
        """Keep nothing any longer."""
        with self._lock:
            self._kept.clear()
            self._size = 0

    def _shed(self, scope: Scope, grown: _Kept, size: int) -> None:
        with self._lock:
            if self._kept.get(scope) is grown:  # else it was shed or forgotten meanwhile
                self._size += size - grown.size
                grown.size = size
            while self._size > _MOST and len(self._kept) > 1:
                self._size -= self._kept.popitem(last=False)[1].size


def loader(connect: Callable[[], Connection], scope_ids: tuple[int, ...]) -> Load:
    """Reads the words of some scopes, in a transaction that begins where there is something to read."""
    return lambda terms: lexical.of_terms(connect(), scope_ids, terms)


def _caught_up(connection: Connection, scope: Scope, version: Hashable, old: CachedAt | None) -> CachedAt:
    language = meta.language_of(connection)
    changed = None if old is None else follow.changed(connection, old.cursor, MEMORIES, scope_rows.MOST)
    if old is None or changed is None or old.cache.language != language:
        return _read(connection, scope, version, language)
    cursor, pks = follow.last(connection), np.array(changed, np.int64)
    rows = scope_rows.of_memories(connection, changed) if changed else []
    scope_ids = _joined(connection, scope, old.scope_ids, {row.scope_id for row in rows})
    rows = [row for row in rows if row.scope_id in scope_ids]
    if not rows and not np.isin(old.cache.columns.pks, pks).any():
        return CachedAt(old.cache, scope_ids, cursor, version)
    old.cache.postings.patch(pks, lexical.of_memories(connection, [row.pk for row in rows]))
    words = scope_rows.word_count(connection, scope_ids)
    cache = ScopeCache(
        old.cache.columns.changed(pks, rows), words=words, postings=old.cache.postings, language=language
    )
    return CachedAt(cache, scope_ids, cursor, version)


def _read(connection: Connection, scope: Scope, version: Hashable, language: str) -> CachedAt:
    scope_ids = expand(connection, scope)
    rows = ScopeColumns.of(scope_rows.of_scopes(connection, scope_ids))
    cache = ScopeCache(rows, words=scope_rows.word_count(connection, scope_ids), postings=Postings(), language=language)
    return CachedAt(cache, scope_ids, follow.last(connection), version)


def _joined(connection: Connection, scope: Scope, known: tuple[int, ...], changed: set[int]) -> tuple[int, ...]:
    strange = changed.difference(known)
    if not strange:
        return known
    names = scope_rows.scopes_of(connection, strange)
    return tuple(sorted({*known, *(id_ for id_, name in names.items() if scope.covers(name))}))
