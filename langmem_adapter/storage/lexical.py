"""The words of memories as rows: what is written beside each memory, and read back term by term.

A memory is found by its own words, by those of the turns around it (the words that it came from, or what was asked right
before it), and by its date. The rows say how much each counts; who searches makes scores of them (`search.scope_cache`). A long
message speaks for itself: the turns around it count the less, the longer it is.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import bindparam, delete, func, insert, select, update

from langmem_adapter.records.results import tokens_in
from langmem_adapter.statements.dates import MONTHS
from langmem_adapter.statements.parser import attributes
from langmem_adapter.statements.periods import days_told
from langmem_adapter.storage.moments import local
from langmem_adapter.storage.prepared_statements import Prepared, any_of
from langmem_adapter.storage.tables import memories, scopes, words
from langmem_adapter.text import ENGLISH, marks, text_hash
from langmem_adapter.text import words as terms_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy import Connection

INSERT_WORDS: Final = Prepared(insert(words))

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
"""Of a word of the text itself."""
_AROUND_WEIGHTS: Final = (8, 4)  # nearest first
_DATE_WEIGHT: Final = 6
_SHORT: Final = 40  # tokens up to which a message is short, and the turns around it count in full
_BETWEEN: Final = "\x1e"  # the record separator, which no keyboard has


class Words:
    """The words of memories and contexts, split and stemmed before the transaction begins in which they are written."""

    def __init__(self, texts: Iterable[str] = (), language: str = ENGLISH) -> None:
        self._language = language
        self._split = {part: terms_of(part, language) for text in texts for part in text.split(_BETWEEN)}

    def of(self, text: str, language: str) -> list[str]:
        """The words of a text in a language, split now unless they are known."""
        known = self._split.get(text) if language == self._language else None
        return terms_of(text, language) if known is None else known


def joined(around: Iterable[str]) -> str:
    """Texts around a memory, nearest first, as its `context`."""
    return _BETWEEN.join(text.replace(_BETWEEN, " ") for text in around).rstrip(_BETWEEN)


def parted(context: str) -> list[str]:
    """The inverse of `joined`; texts that are blank are left out."""
    return [text for text in context.split(_BETWEEN) if text.strip()]


def postings(row: Mapping[str, Any], language: str = ENGLISH, words: Words | None = None) -> list[dict[str, Any]]:
    """The rows of one memory; the day, month and year when its speaker said it are words as well.

    Of a text that is kept in the user's words no attributes are read: it is no statement to compare others with.

    Args:
        row: Its scope_id, pk, text, context, created_at, utc_offset and is_verbatim.
        language: As for `text.words`.
        words: The words of its texts, where they are split already.
    """
    split = (words or Words()).of
    counts: Counter[str] = Counter()
    text = row["text"]
    tokens = max(_SHORT, tokens_in(text))
    for around, weight in zip(row["context"].split(_BETWEEN), _AROUND_WEIGHTS, strict=False):
        _count(counts, split(around, language), round(weight * _SHORT / tokens))
    own = split(text, language)
    _count(counts, own, WEIGHT)
    time = local(row["created_at"], row["utc_offset"])
    _count(counts, terms_of(f"{time.day} {MONTHS[time.month - 1]} {time.year}", language), _DATE_WEIGHT)
    length = counts.total()
    counts.update(marks(text, language, own) | days_told(text, time.date()))
    counts.update(() if row["is_verbatim"] else attributes(text))
    return [
        {"scope_id": row["scope_id"], "term": term, "memory_pk": row["pk"], "count": count, "length": length}
        for term, count in counts.items()
    ]


def forget(connection: Connection, pks: Sequence[int]) -> dict[int, int]:
    """Remove the rows of some memories, and return their lengths by pk, for the scope's statistics."""
    lengths = dict(_LENGTHS.rows(connection, {"pks": pks}))
    _FORGET.run(connection, {"pks": pks})
    return lengths


def of_terms(connection: Connection, scope_ids: Iterable[int], terms: Iterable[str]) -> list[Any]:
    """Tuples of term, memory_pk, count, length: every memory of some scopes that holds one of the terms."""
    return _OF_TERMS.rows(connection, {"scopes": list(scope_ids), "terms": list(terms)})


def of_memories(connection: Connection, pks: Iterable[int]) -> list[Any]:
    """The same of some memories, with all their terms."""
    return _OF_MEMORIES.rows(connection, {"pks": list(pks)})


def rebuild(connection: Connection, language: str = ENGLISH) -> None:
    """Write all word rows and hashes anew, after the tokenizer or the language changed."""
    connection.execute(delete(words))
    totals: Counter[int] = Counter()
    hashes: list[dict[str, Any]] = []
    columns = memories.c["pk", "scope_id", "text", "context", "created_at", "utc_offset", "is_verbatim"]
    for row in connection.execute(select(*columns)).all():
        rows = postings(row._asdict(), language)
        totals[row.scope_id] += rows[0]["length"]
        hashes.append({"_pk": row.pk, "_hash": text_hash(row.text)})
        connection.execute(insert(words), rows)
    if hashes:
        hashed = update(memories).where(memories.c.pk == bindparam("_pk")).values(hash=bindparam("_hash"))
        connection.execute(hashed, hashes)
    for scope_id, length in totals.items():
        connection.execute(update(scopes).where(scopes.c.id == scope_id).values(word_count=length))


def _count(counts: Counter[str], terms: Iterable[str], weight: int) -> None:
    for term in terms if weight else ():
        counts[term] += weight
