"""Lexical index: the words of memories as rows, for BM25.

A memory has its own words, those of its context (the messages around the one that it came from), and its date. A row says how
much a word counts; `search.scope_cache` makes scores of them. The context of a long text counts less.
"""

from __future__ import annotations

from collections import Counter
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import bindparam, delete, func, insert, select, update

from langmem_adapter.records.results import tokens_in
from langmem_adapter.statements.dates import MONTHS
from langmem_adapter.statements.periods import days_told
from langmem_adapter.statements.reader import attributes
from langmem_adapter.storage.queries import Prepared, any_of
from langmem_adapter.storage.tables import memories, scopes, words
from langmem_adapter.storage.timestamps import local
from langmem_adapter.text import ENGLISH, marks, text_hash
from langmem_adapter.text import words as terms_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy import Connection

_INSERT: Final = Prepared(insert(words))
_GROW: Final = Prepared(
    update(scopes).where(scopes.c.id == bindparam("_id")).values(word_count=scopes.c.word_count + bindparam("_words"))
)
_LENGTHS: Final = Prepared(
    select(words.c.memory_pk, func.max(words.c.length))
    .where(any_of(words.c.memory_pk, "pks"))
    .group_by(words.c.memory_pk)
)
_FORGET: Final = Prepared(delete(words).where(any_of(words.c.memory_pk, "pks")))
_POSTING: Final = select(words.c.term, words.c.memory_pk, words.c["count"], words.c.length)
_OF_TERMS: Final = Prepared(_POSTING.where(any_of(words.c.scope_id, "scopes"), any_of(words.c.term, "terms")))
_OF_MEMORIES: Final = Prepared(_POSTING.where(any_of(words.c.memory_pk, "pks")))

# How much a word counts (measured together with the weights of `records.ranking`).
WEIGHT: Final = 8
"""The weight of a word of the text itself."""
_CONTEXT_WEIGHTS: Final = (8, 4)  # nearest first
_DATE_WEIGHT: Final = 6
_SHORT: Final = 40  # tokens up to which a text is short, and its context counts in full
_SEPARATOR: Final = "\x1e"  # the record separator, which no keyboard has


class Words:
    """The words of memories and contexts, split and stemmed before the transaction that writes them begins."""

    def __init__(self, texts: Iterable[str] = (), language: str = ENGLISH) -> None:
        self._language = language
        self._split = {part: terms_of(part, language) for text in texts for part in text.split(_SEPARATOR)}

    def of(self, text: str, language: str) -> list[str]:
        terms = self._split.get(text) if language == self._language else None
        return terms_of(text, language) if terms is None else terms


def join_context(texts: Iterable[str]) -> str:
    """Texts around a memory, nearest first, as its `context`."""
    return _SEPARATOR.join(text.replace(_SEPARATOR, " ") for text in texts).rstrip(_SEPARATOR)


def split_context(context: str) -> list[str]:
    return [text for text in context.split(_SEPARATOR) if text.strip()]


def postings(row: Mapping[str, Any], language: str = ENGLISH, words: Words | None = None) -> list[dict[str, Any]]:
    """The rows of one memory; the speaker's day, month and year are words as well.

    A text in the user's own words has no attributes: it is not compared with statements. *row* has its scope_id, pk, text,
    context, created_at, utc_offset and is_verbatim; *words* are those that are split already.
    """
    split = (words or Words()).of
    counts: Counter[str] = Counter()
    text = row["text"]
    tokens = max(_SHORT, tokens_in(text))
    own, time = split(text, language), local(row["created_at"], row["utc_offset"])
    weighted = [
        (split(near, language), round(weight * _SHORT / tokens))
        for near, weight in zip(row["context"].split(_SEPARATOR), _CONTEXT_WEIGHTS, strict=False)
    ]
    weighted.append((own, WEIGHT))
    weighted.append((terms_of(f"{time.day} {MONTHS[time.month - 1]} {time.year}", language), _DATE_WEIGHT))
    for terms, weight in weighted:
        for term in terms if weight else ():
            counts[term] += weight
    length = counts.total()
    counts.update(marks(text, language, own) | days_told(text, time.date()))
    counts.update(() if row["is_verbatim"] else attributes(text))
    return [
        {"scope_id": row["scope_id"], "term": term, "memory_pk": row["pk"], "count": count, "length": length}
        for term, count in counts.items()
    ]


def add(
    connection: Connection, rows: Iterable[Mapping[str, Any]], language: str, words: Words | None = None
) -> Counter[int]:
    """Write the rows of some memories, and return their lengths by scope; arguments as for `postings`."""
    growth: Counter[int] = Counter()
    new: list[dict[str, Any]] = []
    for row in rows:
        own = postings(row, language, words)
        growth[row["scope_id"]] += own[0]["length"]  # each has its date at least
        new += own
    _INSERT.run(connection, *sorted(new, key=itemgetter("scope_id", "term")))  # as they lie in the table
    return growth


def grow_scopes(connection: Connection, growth: Mapping[int, int]) -> None:
    """Add lengths to the statistics of scopes."""
    _GROW.run(connection, *({"_id": id_, "_words": length} for id_, length in growth.items() if length))


def forget(connection: Connection, pks: Sequence[int]) -> dict[int, int]:
    """Remove the rows of some memories, and return their lengths by pk, for the scope's statistics."""
    lengths = dict(_LENGTHS.rows(connection, {"pks": pks}))
    _FORGET.run(connection, {"pks": pks})
    return lengths


def of_terms(connection: Connection, scope_ids: Iterable[int], terms: Iterable[str]) -> list[Any]:
    """Rows of term, memory_pk, count and length: every memory of some scopes that has one of the terms."""
    return _OF_TERMS.rows(connection, {"scopes": list(scope_ids), "terms": list(terms)})


def of_memories(connection: Connection, pks: Iterable[int]) -> list[Any]:
    """The same rows of some memories, with all their terms."""
    return _OF_MEMORIES.rows(connection, {"pks": list(pks)})


def rebuild(connection: Connection, language: str = ENGLISH) -> None:
    """Write all word rows and hashes again, after the tokenizer or the language changed."""
    connection.execute(delete(words))
    connection.execute(update(scopes).values(word_count=0))
    growth: Counter[int] = Counter()
    hashes: list[dict[str, Any]] = []
    columns = memories.c["pk", "scope_id", "text", "context", "created_at", "utc_offset", "is_verbatim"]
    for row in connection.execute(select(*columns)).all():
        growth += add(connection, [row._asdict()], language)
        hashes.append({"_pk": row.pk, "_hash": text_hash(row.text)})
    if hashes:
        hashed = update(memories).where(memories.c.pk == bindparam("_pk")).values(hash=bindparam("_hash"))
        connection.execute(hashed, hashes)
    grow_scopes(connection, growth)
