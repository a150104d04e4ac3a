"""The cache of a scope: times, speakers and BM25 postings of its memories as arrays, kept in step with the database.

Statistics (number of memories, average length, document frequency) are those of the searched scopes alone, so another
tenant's texts do not change a ranking. Words are scored by BM25 (Robertson and Zaragoza 2009, "The Probabilistic Relevance
Framework: BM25 and Beyond"), with Lucene's idf, which is never negative.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from datetime import date, timedelta
from functools import reduce
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from langmem_adapter.forks import cached_property
from langmem_adapter.index.indexer import Follower
from langmem_adapter.storage import feed, lexical, meta, scopes
from langmem_adapter.storage.lexical import WEIGHT
from langmem_adapter.storage.scopes import expand
from langmem_adapter.storage.tables import MEMORIES
from langmem_adapter.text import ENGLISH, members

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.database import Database

Places: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Load: TypeAlias = "Callable[[Sequence[str]], list[Any]]"
"""Reads the rows (term, memory_pk, count, length) of some terms."""

_K1: Final = 0.75 * WEIGHT
_B: Final = 0.75
_NEVER: Final = np.inf
_NOBODY: Final = frozenset({"user", "assistant", "human", "ai", "system", "tool"})  # roles, no names
_MOST_TERMS: Final = 4_096
_MOST_PATCHES: Final = 32


@dataclass(frozen=True, slots=True, eq=False)
class Posting:
    """The memories that hold a term: pks, how much it counts there, and their length; each of shape (n,)."""

    pks: Places
    counts: Floats
    lengths: Floats

    @classmethod
    def of(cls, rows: Sequence[Any]) -> Posting:
        """From rows (term, memory_pk, count, length) of one term."""
        _, pks, counts, lengths = zip(*rows, strict=True) if rows else ((),) * 4
        return cls(np.array(pks, np.int64), np.array(counts, np.float64), np.array(lengths, np.float64))

    def at(self, places: Any) -> Posting:
        """Some of its memories."""
        return Posting(self.pks[places], self.counts[places], self.lengths[places])

    @classmethod
    def joined(cls, postings: Sequence[Posting]) -> Posting:
        """All memories of several."""
        pks, counts, lengths = zip(*((each.pks, each.counts, each.lengths) for each in postings), strict=True)
        return cls(np.concatenate(pks), np.concatenate(counts), np.concatenate(lengths))


class Postings:
    """The postings of terms, brought up to date when they are asked for again. Safe to use from many threads."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Posting, int]] = {}
        self._patches: list[tuple[Places, dict[str, list[Any]]]] = []
        self._dropped = 0  # patches that nothing kept needs any more; versions count them all
        self._lock = Lock()

    def of(self, terms: Iterable[str], load: Load, since: int) -> dict[str, Posting]:
        """The postings of some terms; what is not here yet is loaded in one go, in a state not older than a `version`."""
        wanted, loaded = list(terms), dict[str, Posting]()
        while True:
            with self._lock:
                missing = [term for term in wanted if term not in self._kept and term not in loaded]
                if not missing:
                    return {term: self._current(term) if term in self._kept else loaded[term] for term in wanted}
            # Without the lock: in memory, the thread that patches holds the one connection that loading waits for.
            rows: dict[str, list[Any]] = {term: [] for term in missing}
            for row in load(missing):
                rows[row[0]].append(row)
            loaded |= {term: Posting.of(each) for term, each in rows.items()}
            with self._lock:
                if since >= self._dropped:  # else what has changed since is not known any more: for this time only
                    if len(self._kept) + len(wanted) > _MOST_TERMS:
                        self._kept = {term: self._kept[term] for term in wanted if term in self._kept}
                    self._kept |= {term: (loaded[term], since) for term in missing}

    def patch(self, changed: Places, rows: Iterable[Any]) -> None:
        """Take note of memories that changed, and the rows that they have now."""
        fresh: dict[str, list[Any]] = {}
        for row in rows:
            fresh.setdefault(row[0], []).append(row)
        with self._lock:
            self._patches.append((changed, fresh))
            if len(self._patches) > _MOST_PATCHES:
                self._dropped = self.version
                self._kept.clear()
                self._patches.clear()

    @property
    def version(self) -> int:
        """How many patches it knows."""
        return self._dropped + len(self._patches)

    def __len__(self) -> int:
        """How many entries all the postings have together."""
        with self._lock:
            return sum(len(posting.pks) for posting, _ in self._kept.values())

    def _current(self, term: str) -> Posting:
        posting, version = self._kept[term]
        if version < self.version:
            for changed, fresh in self._patches[version - self._dropped :]:
                stays = ~np.isin(posting.pks, changed)
                if term in fresh or not stays.all():
                    posting = Posting.joined([posting.at(stays), Posting.of(fresh.get(term, []))])
            self._kept[term] = (posting, self.version)
        return posting


@dataclass(frozen=True, slots=True, eq=False)
class ScopeColumns:
    """What is known of every memory of a scope, ascending by pk; each array of shape (n,)."""

    pks: Places
    scopes: Places
    created: Floats  # when each was first said, Unix seconds
    updated: Floats  # when the latest statement was made
    offsets: Floats  # of the latest statement, seconds east of UTC; NaN where unknown
    expiry: Floats  # infinite where it does not expire
    speakers: Places  # index into *names*
    kinds: Places  # of its memory type, index into *names*
    names: tuple[str | None, ...]  # speakers and memory types, `None` among them

    @classmethod
    def of(cls, rows: Iterable[Any], names: tuple[str | None, ...] = ()) -> ScopeColumns:
        """From rows of `storage.scopes`, in any order."""
        codes: dict[str | None, int] = {name: code for code, name in enumerate(names)}
        table = [
            (
                row.pk,
                row.scope_id,
                row.created_at.timestamp(),
                row.updated_at.timestamp(),
                np.nan if row.utc_offset is None else 60 * row.utc_offset,
                _NEVER if row.expires_at is None else row.expires_at.timestamp(),
                codes.setdefault(row.actor_id, len(codes)),
                codes.setdefault(row.memory_type, len(codes)),
            )
            for row in rows
        ]
        columns = zip(*table, strict=True) if table else ((),) * len(_COLUMNS)
        arrays = dict(zip(_COLUMNS, map(np.array, columns, _COLUMNS.values()), strict=True))
        order = np.argsort(arrays["pks"])
        return cls(**{name: array[order] for name, array in arrays.items()}, names=tuple(codes))

    def local(self, now: datetime) -> Floats:
        """*created* and *updated* as the speakers' clocks showed them; with an unknown offset, as the clock of *now* does."""
        zone = (now.utcoffset() or timedelta()).total_seconds()
        return np.array([self.created, self.updated]) + np.where(np.isnan(self.offsets), zone, self.offsets)

    def changed(self, pks: Places, rows: Iterable[Any]) -> ScopeColumns:
        """The same after some memories changed; *rows* are those of them that are still there."""
        new = ScopeColumns.of(rows, self.names)
        stays = ~np.isin(self.pks, pks)
        order = np.argsort(np.concatenate([self.pks[stays], new.pks]), kind="stable")
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(self, name)[stays], getattr(new, name)])[order] for name in _COLUMNS
        }
        return ScopeColumns(**columns, names=new.names)


_COLUMNS: Final[dict[str, Any]] = {
    **dict.fromkeys(("pks", "scopes"), np.int64),
    **dict.fromkeys(("created", "updated", "offsets", "expiry"), np.float64),
    **dict.fromkeys(("speakers", "kinds"), np.int64),
}


class ScopeCache:
    """The memories of one scope, each with a place; it never changes, a changed scope gets another one."""

    def __init__(self, columns: ScopeColumns, *, words: int, postings: Postings, language: str = ENGLISH) -> None:
        self.columns: Final = columns
        self.language: Final = language
        self.postings: Final = postings
        self._since: Final = postings.version
        self._average: Final = max(1.0, words / max(1, len(columns.pks)))
        self._scores: dict[str, tuple[Places, Floats]] = {}
        self._marks: dict[str, NDArray[np.bool_]] = {}

    def __len__(self) -> int:
        """How many memories."""
        return len(self.columns.pks)

    @property
    def size(self) -> int:
        """About how many numbers it holds."""
        return 8 * len(self) + 6 * len(self.postings)

    # ── of every memory ─────────────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def recency(self) -> Floats:
        """How recent each memory's latest statement is among all of them, 0 (oldest) to 1; equal times are equal."""
        times = self.columns.updated
        return np.searchsorted(np.sort(times), times) / max(1, len(times) - 1)

    @cached_property
    def years(self) -> list[int]:
        """The years in which memories were said, and those around them, in which what they tell of may lie."""
        years = np.unique(self.columns.created.astype("datetime64[s]").astype("datetime64[Y]").astype(np.int64) + 1970)
        around = np.unique(np.concatenate([years - 1, years, years + 1]))
        return [year for year in around.tolist() if date.min.year < year < date.max.year]

    @cached_property
    def names(self) -> dict[str, NDArray[np.bool_]]:
        """Which memories are statements of each named speaker, by the name in small letters."""
        codes = np.unique(self.columns.speakers).tolist()
        named = [(name.casefold(), code) for code in codes if (name := self.columns.names[code])]
        return {name: self.columns.speakers == code for name, code in named if name not in _NOBODY}

    def stated_by(self, names: Iterable[str]) -> NDArray[np.bool_] | None:
        """Which memories are statements of any of some speakers; `None` where they are none of those who speak, or all."""
        masks = [self.names[name] for name in names if name in self.names]
        return reduce(np.logical_or, masks) if 0 < len(masks) < len(self.names) else None

    @cached_property
    def _first_end(self) -> float:
        return float(self.columns.expiry.min(initial=_NEVER))

    @cached_property
    def _all_facts(self) -> bool:
        return bool(self._of_type(None).all())

    def _of_type(self, memory_type: str | None) -> NDArray[np.bool_]:
        codes = [code for code, name in enumerate(self.columns.names) if name == memory_type]
        return np.isin(self.columns.kinds, codes)

    def current(self, now: float, memory_type: str | None = None, *, facts: bool = False) -> NDArray[np.bool_] | None:
        """Which memories of a type, or facts (without one) only, have not expired at a time (Unix seconds); `None` for all."""
        every_type = memory_type is None and (self._all_facts or not facts)
        if self._first_end > now and every_type:
            return None
        current: NDArray[np.bool_] = self.columns.expiry > now
        return current if every_type else current & self._of_type(memory_type)

    # ── words ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def words(self, terms: Iterable[str], groups: Iterable[str], *, related: float, load: Load) -> Floats:
        """BM25 scores of every memory, by place; a memory with any word of a group holds the group, which counts *related*."""
        terms, groups = set(terms), set(groups)
        self._prepare([*terms, *groups], load)
        scores = np.zeros(len(self))
        for term in sorted(terms):
            places, worth = self._scores[term]
            scores[places] += worth
        for group in sorted(groups) if related else ():
            places, worth = self._scores[group]
            scores[places] += related * worth
        return scores

    def holders(self, terms: Sequence[str], load: Load) -> list[Places]:
        """For each term the pks of the memories that hold it."""
        postings = self.postings.of(terms, load, self._since)
        return [postings[term].pks for term in terms]

    def flags(self, terms: Iterable[str], places: Places, load: Load) -> Iterator[tuple[NDArray[np.bool_], int]]:
        """For each term, or group of related words, which of the memories at some places hold it, and how many of all."""
        wanted = list(terms)
        self._prepare(wanted, load)
        flags = np.zeros(len(self), np.bool_)
        for term in wanted:
            holders = self._scores[term][0]
            flags[holders] = True
            yield flags[places], len(holders)
            flags[holders] = False

    def marked(self, mark: str, load: Load) -> NDArray[np.bool_]:
        """Which memories bear a mark (`text.marks`)."""
        if mark not in self._marks:
            (pks,) = self.holders([mark], load)
            self._marks[mark] = np.isin(self.columns.pks, pks)
        return self._marks[mark]

    def _prepare(self, terms: Iterable[str], load: Load) -> None:
        words = {term: members(term, self.language) for term in terms if term not in self._scores}
        if not words:
            return
        postings = self.postings.of({word for each in words.values() for word in each}, load, self._since)
        for term, each in words.items():
            each_posting = [postings[word] for word in each]
            self._scores[term] = self._score(each_posting[0] if len(each_posting) == 1 else _unite(each_posting))

    def _score(self, posting: Posting) -> tuple[Places, Floats]:
        places = np.searchsorted(self.columns.pks, posting.pks)
        here = places < len(self)  # another thread may know newer memories already
        here[here] = self.columns.pks[places[here]] == posting.pks[here]
        places, counts, lengths = places[here], posting.counts[here], posting.lengths[here]
        idf = np.log1p((len(self) - len(places) + 0.5) / (len(places) + 0.5))
        return places, idf * counts * (_K1 + 1) / (counts + _K1 * (1 - _B + _B * lengths / self._average))


def _unite(postings: Sequence[Posting]) -> Posting:
    """The memories that any of some terms names, each once, by the term that counts most in it."""
    every = Posting.joined(postings)
    order = np.lexsort((-every.counts, every.pks))
    first = np.concatenate([[True], np.diff(every.pks[order]) != 0])[: len(order)]
    return every.at(order[first])


_MOST: Final = 20_000_000
"""Numbers that all caches together may hold (some 160 MB); the one that was longest not used goes first."""


@dataclass(frozen=True, slots=True, eq=False)
class CachedAt:
    """The cache of a scope at one moment."""

    cache: ScopeCache
    scope_ids: tuple[int, ...]
    cursor: feed.Cursor  # the last change that it contains


class _ScopeFollower(Follower):
    """Keeps the cache of one scope."""

    def __init__(self, database: Database, scope: Scope) -> None:
        super().__init__()
        self._database, self._scope = database, scope
        self.state: CachedAt  # from the first time on
        self.size = 0  # as it was counted last

    def _follow(self) -> int:
        # Contract: read in one's turn, so that a cache never goes back; and who looks up words for it begins later, so he sees
        # all that it holds. `test_who_reads_later_waits_for_his_turn`, `test_what_was_read_in_an_older_state_hides_nothing`
        with self._database.read() as connection:
            self.state = _update(connection, self._scope, getattr(self, "state", None))
        return 1


class ScopeCaches:
    """Keeps the cache of each scope that is searched, up to a bound. Safe to use from many threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._followers: OrderedDict[Scope, _ScopeFollower] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def of(self, scope: Scope, version: Hashable) -> CachedAt:
        """The cache of a scope as of *version* or later. Not to be called inside a `Database.read` block: it opens its own."""
        with self._lock:
            follower = self._followers.setdefault(scope, _ScopeFollower(self._database, scope))
            self._followers.move_to_end(scope)
        with follower.lock:
            grown, state = follower.catch_up(lambda: version), follower.state
        if grown:
            self._shed(scope, follower, state.cache.size)
        return state

    def forget(self) -> None:
        """Keep nothing any longer."""
        with self._lock:
            self._followers.clear()
            self._size = 0

    def _shed(self, scope: Scope, grown: _ScopeFollower, size: int) -> None:
        with self._lock:
            if self._followers.get(scope) is grown:  # else it was shed or forgotten meanwhile
                self._size += size - grown.size
                grown.size = size
            while self._size > _MOST and len(self._followers) > 1:
                self._size -= self._followers.popitem(last=False)[1].size


def posting_loader(connect: Callable[[], Connection], scope_ids: tuple[int, ...]) -> Load:
    """Reads the words of some scopes, in a transaction that begins where there is something to read."""
    return lambda terms: lexical.of_terms(connect(), scope_ids, terms)


def _update(connection: Connection, scope: Scope, old: CachedAt | None) -> CachedAt:
    language, cursor = meta.language_of(connection), feed.last(connection)
    changed = None if old is None else feed.changed(connection, old.cursor, MEMORIES, scopes.MOST)
    if old is None or changed is None or old.cache.language != language:
        scope_ids = expand(connection, scope)
        columns, postings = ScopeColumns.of(scopes.of_scopes(connection, scope_ids)), Postings()
    else:
        rows = scopes.of_memories(connection, changed) if changed else []
        scope_ids = _cover(connection, scope, old.scope_ids, {row.scope_id for row in rows})
        rows, pks = [row for row in rows if row.scope_id in scope_ids], np.array(changed, np.int64)
        if not rows and not np.isin(old.cache.columns.pks, pks).any():
            return CachedAt(old.cache, scope_ids, cursor)
        columns, postings = old.cache.columns.changed(pks, rows), old.cache.postings
        postings.patch(pks, lexical.of_memories(connection, [row.pk for row in rows]))
    words = scopes.word_count(connection, scope_ids)
    return CachedAt(ScopeCache(columns, words=words, postings=postings, language=language), scope_ids, cursor)


def _cover(connection: Connection, scope: Scope, covered: tuple[int, ...], changed: set[int]) -> tuple[int, ...]:
    """The ids of the scopes within *scope*: those so far, and those of changed memories."""
    names = scopes.scopes_of(connection, changed.difference(covered)) if changed.difference(covered) else {}
    return tuple(sorted({*covered, *(id_ for id_, name in names.items() if scope.covers(name))}))
