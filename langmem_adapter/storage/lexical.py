"""The words of memories as rows, and BM25 over the scopes of one search.

Statistics (number of memories, average length, how many memories hold a term) are those of the searched scopes alone, so
that another tenant's texts change nobody's ranking, and cost nothing either. Scores follow Robertson and Zaragoza (2009,
"The Probabilistic Relevance Framework: BM25 and Beyond"), with the idf that Lucene made common, which is never negative.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from sqlalchemy import delete, func, insert, select

from langmem_adapter.storage.scopes import within
from langmem_adapter.storage.tables import memories, scopes, words
from langmem_adapter.text import words as terms_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from langmem_adapter.records import Scope

__all__ = ["INSERT_WORDS", "bm25", "forget", "postings", "rebuild"]

INSERT_WORDS: Final = insert(words)

_K1: Final = 1.2
_B: Final = 0.4  # short facts: length says little (measured on dialogue turns)
_TEXT_WEIGHT: Final = 2  # a word of the memory itself counts twice, one of the turn that it came from once
_CHUNK: Final = 400


def postings(scope_id: int, pk: int, text: str, context: str) -> list[dict[str, Any]]:
    """The rows of one memory."""
    counts = Counter(terms_of(context))
    for term in terms_of(text):
        counts[term] += _TEXT_WEIGHT
    length = counts.total()
    return [
        {"scope_id": scope_id, "term": term, "memory_pk": pk, "count": count, "length": length}
        for term, count in counts.items()
    ]


def forget(connection: Connection, pks: Sequence[int]) -> dict[int, int]:
    """Remove the rows of some memories.

    Returns:
        Their lengths by pk, for the scope's statistics.
    """
    lengths: dict[int, int] = {}
    for chunk in _chunks(pks):
        found = connection.execute(
            select(words.c.memory_pk, func.max(words.c.length))
            .where(words.c.memory_pk.in_(chunk))
            .group_by(words.c.memory_pk)
        )
        lengths.update(dict(found.all()))
        connection.execute(delete(words).where(words.c.memory_pk.in_(chunk)))
    return lengths


def bm25(connection: Connection, scope: Scope, terms: Iterable[str]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Score the memories within *scope* that hold at least one of the terms.

    Args:
        connection: A read transaction.
        scope: Whose memories.
        terms: From `text.words`; repetitions do not matter.

    Returns:
        Their pks, ascending, shape (n,), and their scores, shape (n,), float32, above 0.
    """
    total, average = _statistics(connection, scope)
    places = {term: place for place, term in enumerate(sorted(set(terms)))}
    rows = _postings_of(connection, scope, list(places))
    if not rows:
        return np.empty(0, np.int64), np.empty(0, np.float32)
    told, holders, counts, lengths = zip(*rows, strict=True)
    term = np.fromiter(map(places.__getitem__, told), np.int64, len(told))
    frequency = np.bincount(term, minlength=len(places))
    idf = np.log1p((total - frequency + 0.5) / (frequency + 0.5))
    count = np.asarray(counts, np.float64)
    norm = _K1 * (1 - _B + _B * np.asarray(lengths, np.float64) / average)
    pks, holder = np.unique(np.asarray(holders, np.int64), return_inverse=True)
    return pks, np.bincount(holder, idf[term] * count * (_K1 + 1) / (count + norm)).astype(np.float32)


def rebuild(connection: Connection) -> int:
    """Write all word rows anew, after the tokenizer changed.

    Returns:
        How many memories were read.
    """
    connection.execute(delete(words))
    totals: Counter[int] = Counter()
    count = 0
    query = select(memories.c.pk, memories.c.scope_id, memories.c.text, memories.c.context)
    for pk, scope_id, text, context in connection.execute(query).all():
        rows = postings(scope_id, pk, text, context)
        totals[scope_id] += rows[0]["length"] if rows else 0
        count += 1
        if rows:
            connection.execute(INSERT_WORDS, rows)
    for scope_id, length in totals.items():
        connection.execute(scopes.update().where(scopes.c.id == scope_id).values(word_count=length))
    return count


def _statistics(connection: Connection, scope: Scope) -> tuple[int, float]:
    sums = select(func.sum(scopes.c.memory_count), func.sum(scopes.c.word_count)).where(within(scope))
    number, length = connection.execute(sums).one()
    return int(number or 0), max(1.0, float(length or 0) / max(1, int(number or 0)))


def _postings_of(connection: Connection, scope: Scope, terms: Sequence[str]) -> list[Any]:
    query = select(words.c.term, words.c.memory_pk, words.c["count"], words.c.length).where(
        words.c.scope_id.in_(select(scopes.c.id).where(within(scope)))
    )
    return [row for chunk in _chunks(terms) for row in connection.execute(query.where(words.c.term.in_(chunk))).all()]


def _chunks(values: Sequence[Any]) -> Iterable[Sequence[Any]]:
    return (values[start : start + _CHUNK] for start in range(0, len(values), _CHUNK))
