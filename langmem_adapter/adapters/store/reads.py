"""Getting, searching and listing items within one read transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import groupby, islice, takewhile
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from langgraph.store.base import GetOp, Item, MatchCondition, SearchItem, SearchOp

from langmem_adapter.storage import items
from langmem_adapter.storage.items import PLACES, moment
from langmem_adapter.storage.namespaces import decode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langgraph.store.base import ListNamespacesOp
    from sqlalchemy import Connection

    from langmem_adapter.embedding.embedder import UnitVectors
    from langmem_adapter.filters import Filter
    from langmem_adapter.index.base import VectorView

__all__ = ["Reader"]

Candidates: TypeAlias = Mapping[int, float | None]
"""Numbers of items and their scores, best first."""

_MORE: Final = 4  # times as many candidates, when those that were looked at did not suffice
_FILTERED: Final = 8  # times as many from the beginning, where a filter will drop some
_DECODE: Final = json.JSONDecoder().raw_decode  # nothing stands around what we wrote ourselves
_MOST: Final = 2_000  # rows fetched at a time


class Reader:
    """Answers the operations of one batch from one state of the database.

    Args:
        connection: In a read transaction.
        index: The vectors, brought up to date; `None` where nothing is searched by meaning.
        now: The time of the batch.
        omit_expired: Leave expired items out, though no sweep has deleted them yet.
    """

    def __init__(self, connection: Connection, index: VectorView | None, *, now: int, omit_expired: bool) -> None:
        self.touched: Final[dict[int, Any]] = {}  # rows of items that were read and live on because of it
        self._connection = connection
        self._index = index
        self._now = now
        self._omit_expired = omit_expired

    def get(self, op: GetOp) -> Item | None:
        """One item."""
        row = items.by_key(self._connection, op.namespace, op.key)
        if row is None or not self._lives(row):
            return None
        self._touch(op, [row])
        return Item(value=_value(row), **_named(row))

    def search(self, op: SearchOp, condition: Filter, vector: UnitVectors | None) -> list[SearchItem]:
        """The items under a prefix that meet a condition: nearest first, or those that changed last first.

        A page is cut from the whole ranking; nothing is left out because a filter, or several vectors of one item, took its
        place among too few candidates.
        """
        wanted = op.offset + op.limit
        ids = items.expand(self._connection, op.namespace_prefix)
        if not op.limit or not ids:
            return []
        first = wanted * _FILTERED if condition else wanted
        matching = self._matching(self._candidates(ids, first, vector), condition)
        found = list(islice(matching, op.offset, wanted))
        rows = items.by_pks(self._connection, [pk for pk, _, _ in found])
        self._touch(op, list(rows.values()))
        return [SearchItem(value=value, score=score, **_named(rows[pk])) for pk, value, score in found]

    def namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        """The namespaces that have items, in order; those that are alike up to `max_depth` once."""
        conditions = op.match_conditions or ()
        now = self._now if self._omit_expired else None
        every = items.listed(self._connection, _beginning(conditions), now=now)
        matching = (namespace for namespace in every if all(_matches(each, namespace) for each in conditions))
        distinct = (namespace for namespace, _ in groupby(matching, lambda namespace: namespace[: op.max_depth]))
        return list(islice(distinct, op.offset, op.offset + op.limit))

    # ── candidates ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _candidates(self, ids: Sequence[int], first: int, vector: UnitVectors | None) -> Iterator[Candidates]:
        if vector is not None:
            yield from self._scored(ids, first, vector)
        for pks in items.newest(self._connection, ids, first=first, unindexed=vector is not None):
            yield dict.fromkeys(pks)

    def _scored(self, ids: Sequence[int], first: int, vector: UnitVectors) -> Iterator[Candidates]:
        seen: set[int] = set()
        count = first
        while self._index is not None:
            found = self._index.search(vector, count, scopes=ids)
            pks, scores = (found.pks // PLACES).tolist(), found.scores.tolist()
            # The nearest of an item's vectors has the last word.
            best = dict(zip(reversed(pks), reversed(scores), strict=True))
            yield {pk: best[pk] for pk in pks if pk not in seen}
            if len(pks) < count:
                return
            seen.update(pks)
            count *= _MORE

    def _matching(
        self, candidates: Iterator[Candidates], condition: Filter
    ) -> Iterator[tuple[int, dict[str, Any], float | None]]:
        for scores in candidates:
            remaining = iter(scores)
            while chosen := list(islice(remaining, _MOST)):
                for row in items.values_by_pks(self._connection, chosen):
                    if self._lives(row):
                        value = _value(row)
                        if condition.matches(value):
                            yield row.pk, value, scores[row.pk]

    # ── lifetimes ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _lives(self, row: Any) -> bool:
        return not self._omit_expired or row.expires_at is None or row.expires_at > self._now

    def _touch(self, op: GetOp | SearchOp, rows: Sequence[Any]) -> None:
        if op.refresh_ttl:
            self.touched.update((row.pk, row) for row in rows if row.ttl is not None)


def _value(row: Any) -> dict[str, Any]:
    value: dict[str, Any] = _DECODE(row.value)[0]
    return value


def _named(row: Any) -> dict[str, Any]:
    return {
        "key": row.key,
        "namespace": decode(row.path),
        "created_at": moment(row.created_at),
        "updated_at": moment(row.updated_at),
    }


def _beginning(conditions: Sequence[MatchCondition]) -> tuple[str, ...]:
    """The labels that every namespace in question begins with."""
    prefixes = [each.path for each in conditions if each.match_type == "prefix"]
    known = [tuple(takewhile(lambda label: label != "*", path)) for path in prefixes]
    return max(known, key=len, default=())


def _matches(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    path = tuple(condition.path)
    if len(path) > len(namespace):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(asked in ("*", label) for asked, label in zip(path, part, strict=True))
