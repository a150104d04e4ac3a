"""What a search costs beside the least that the same answer can cost, and whether other users' memories slow it down.

Started by `run.py` as a program of its own, since numpy's products run on one thread, as every search does. Vectors of the
questions are in the embedder's cache: embedding them belongs to the model. Databases are filled past the engine, with all the
rows that it would write but for the history; texts are those of conversations, others' memories are drawn from a pool.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import statistics
import sys
import tempfile
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a program, its neighbours are found all the same
from langmem_adapter.embedding.models import HashEmbeddings, fingerprint
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage import lexical, meta
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.migrations import prepare
from langmem_adapter.storage.scopes import key_of
from langmem_adapter.text import content_words, text_hash
from tests.benchmarks.measure import Size as Rounds
from tests.benchmarks.measure import apart, ratio, report, side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    Places = NDArray[np.int64]
    Floats = NDArray[np.float64]

__all__ = ["bench_search"]


@dataclass(frozen=True)
class Size:
    """How much is measured: memories of all and of each user who asks, questions, and how often they are asked."""

    memories: int = 100_000
    users: tuple[int, ...] = (600, 10_000)
    few: int = 10_000
    many: int = 1_000_000
    own: int = 600
    pool: int = 4_000
    questions: int = 40
    rounds: int = 15


QUICK: Final = Size(memories=300, users=(20, 50), few=60, many=300, own=20, pool=20, questions=2, rounds=1)
WIDE: Final = 512  # the offline default
NARROW: Final = 64  # for the million, to spare disk and memory
K: Final = 10


def bench_search(*, quick: bool) -> None:
    """Run this program; its lines are printed between the caller's own."""
    apart(__file__, quick=quick)


# ── what was said, and what is asked ──────────────────────────────────────────────────────────────────────────────────

NAMES: Final = ("Anna", "Ben")
WHEN: Final = (
    "Last weekend|Yesterday|In July|On Monday morning|After work|Two years ago|This winter|Before breakfast".split("|")
)
WHO: Final = "I|my sister|our neighbour|my friend Carla|the new teacher|my uncle|his daughter|my boss".split("|")
DID: Final = "repaired|painted|bought|sold|found|borrowed|photographed|cleaned|lost|described".split("|")
KIND: Final = "old|green|broken|wooden|tiny|expensive|heavy|blue|strange|famous".split("|")
THING: Final = (
    "bicycle|piano|lantern|garden|violin|boat|camera|kitchen|bookshelf|guitar|bridge|statue|carpet|window|engine|telescope|"
    "teapot|greenhouse|motorbike|fountain"
).split("|")
PLACE: Final = "harbour|bakery|library|station|market|orchard|castle|museum|hospital|river|school|stadium".split("|")
CITY: Final = "Lisbon|Oslo|Kyoto|Lima|Rome|Cairo|Boston|Vienna|Delhi|Bergen".split("|")


class Draft(NamedTuple):
    """A memory before it has a number."""

    text: str
    context: str
    actor: str
    time: datetime


def said(luck: random.Random) -> str:
    """Something that people say; one in eight asks."""
    who, did, kind, thing, place, city = (luck.choice(words) for words in (WHO, DID, KIND, THING, PLACE, CITY))
    if luck.random() < 1 / 8:
        return f"Have you heard who {did} the {kind} {thing} near the {place} in {city}?"
    return f"{luck.choice(WHEN)} {who} {did} the {kind} {thing} near the {place} in {city}."


def conversation(count: int) -> Iterator[Draft]:
    """What two people say by turns, twenty turns a day; each turn stands beside the one before."""
    luck, before = random.Random(count), ""
    for number in range(count):
        text = said(luck)
        time = datetime(2024, 1, 1, 18, tzinfo=UTC) + timedelta(days=number // 20, minutes=number % 20)
        yield Draft(text, lexical.join_context(["", before]), NAMES[number % 2], time)
        before = text


def questions(count: int) -> list[str]:
    """What is asked by turns: when somebody spoke of something, and who did something somewhere."""
    luck = random.Random(1)
    forms = (
        lambda: f"When did {luck.choice(NAMES)} talk about the {luck.choice(KIND)} {luck.choice(THING)}?",
        lambda: f"Who {luck.choice(DID)} the {luck.choice(THING)} near the {luck.choice(PLACE)}?",
    )
    return [forms[number % 2]() for number in range(count)]


# ── filling ───────────────────────────────────────────────────────────────────────────────────────────────────────────

TIME: Final = "%Y-%m-%d %H:%M:%S.%f"
FAST: Final = ("journal_mode=OFF", "synchronous=OFF", "foreign_keys=OFF", "secure_delete=OFF", "cache_size=-200000")
TABLES: Final = """
    CREATE TEMP TABLE drafts (number INTEGER PRIMARY KEY, text, context, hash, embedding, actor, time);
    CREATE TEMP TABLE terms (draft, term, count, length, PRIMARY KEY (draft, term)) WITHOUT ROWID;
    CREATE TEMP TABLE given (pk INTEGER PRIMARY KEY, scope INTEGER, draft INTEGER);
"""
CHANGES: Final = """
    INSERT INTO changes (seq, nonce, space, row, op) SELECT pk, randomblob(8), 'memories', pk, 'put' FROM given
"""
MEMORIES: Final = """
    INSERT INTO memories (pk, id, scope_id, text, context, metadata, actor_id, role, hash, embedding, created_at, updated_at,
        seq, revision)
    SELECT pk, printf('%08x-0000-4000-8000-%012x', pk, pk), scope, text, context, '{}', actor, 'user', hash, embedding, time,
        time, pk, 1
    FROM given JOIN drafts ON number = draft ORDER BY pk
"""
WORDS: Final = """
    INSERT INTO words (scope_id, term, memory_pk, count, length)
    SELECT scope, term, pk, count, length FROM given JOIN terms ON terms.draft = given.draft
    WHERE scope BETWEEN ? AND ? ORDER BY scope, term, pk
"""
SCOPES: Final = "INSERT INTO scopes (id, key, user_id, word_count) VALUES (?, ?, ?, ?)"


def user(count: int) -> str:
    """Who has so many memories and is measured."""
    return f"user with {count}"


def filled(path: Path, size: Size, total: int, users: Sequence[int], vectors: HashEmbeddings) -> Path:
    """A database of that many memories: those of each measured user, evenly spread among those of the others."""
    database = Database(path)
    prepare(database)
    mark = fingerprint(vectors)
    database.write(lambda connection: meta.put(connection, meta.EMBEDDINGS, mark))
    database.close()
    raw = sqlite3.connect(path, isolation_level=None)
    for pragma in FAST:
        raw.execute(f"PRAGMA {pragma}")
    raw.executescript(TABLES)
    raw.execute("BEGIN")
    pool = [draft._replace(context="") for draft in conversation(size.pool)]
    lengths = _drafted(raw, [*pool, *(draft for count in users for draft in conversation(count))], vectors)
    scopes, drafts = _dealt(raw, size, total, users, lengths)
    raw.executemany(
        "INSERT INTO given VALUES (?, ?, ?)", zip(range(1, total + 1), scopes.tolist(), drafts.tolist(), strict=True)
    )
    raw.execute("CREATE INDEX temp.given_scope ON given (scope)")
    raw.execute(CHANGES)
    raw.execute(MEMORIES)
    for some in np.array_split(np.unique(scopes), max(1, total // 20_000)):
        raw.execute(WORDS, (int(some[0]), int(some[-1])))
    raw.execute("COMMIT")
    raw.close()
    Memory(path, embeddings=vectors).close()  # from now on it opens with a snapshot of its vectors, in order
    return path


def _drafted(raw: sqlite3.Connection, drafts: Sequence[Draft], vectors: HashEmbeddings) -> Places:
    """Keep drafts with their vectors and words; tell how many words each has."""
    unmarked = {"scope_id": 0, "utc_offset": 0, "is_verbatim": False}
    terms = [
        lexical.postings({**unmarked, "pk": number, "text": text, "context": context, "created_at": time})
        for number, (text, context, _, time) in enumerate(drafts)
    ]
    raw.executemany(
        "INSERT INTO drafts VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            (number, text, context, text_hash(text), vectors.vector(text).tobytes(), actor, time.strftime(TIME))
            for number, (text, context, actor, time) in enumerate(drafts)
        ),
    )
    raw.executemany(
        "INSERT INTO terms VALUES (:memory_pk, :term, :count, :length)", (row for rows in terms for row in rows)
    )
    return np.array([rows[0]["length"] for rows in terms])


def _dealt(
    raw: sqlite3.Connection, size: Size, total: int, users: Sequence[int], lengths: Places
) -> tuple[Places, Places]:
    """Scope and draft of each memory, in the order of their numbers; the scopes are written down."""
    others = total - sum(users)
    owners = np.concatenate([np.repeat(np.arange(len(users)), users), len(users) + np.arange(others) // size.own])
    drafts = np.concatenate(
        [size.pool + np.arange(sum(users)), np.random.default_rng(1).integers(size.pool, size=others)]
    )
    age = np.concatenate([(np.arange(count) + 0.5) / count for count in (*users, others)])
    order = np.argsort(age, kind="stable")
    owners, drafts = owners[order], drafts[order]
    _, first = np.unique(owners, return_index=True)
    words = np.bincount(owners, lengths[drafts]).astype(int)
    names = [*map(user, users), *(f"other {number}" for number in range(len(first) - len(users)))]
    keys = [key_of(Scope(user_id=name)) for name in names]
    raw.executemany(SCOPES, zip((first + 1).tolist(), keys, names, words.tolist(), strict=True))
    return first[owners] + 1, drafts


# ── the least that it can cost ────────────────────────────────────────────────────────────────────────────────────────

OWN: Final = "scope_id = (SELECT id FROM scopes WHERE user_id = ?)"
ROW: Final = (
    "SELECT m.id, m.text, m.metadata, m.memory_type, m.actor_id, m.role, m.hash, m.created_at, m.updated_at, m.expires_at, "
    "m.revision, s.user_id, s.agent_id, s.run_id FROM memories m JOIN scopes s ON s.id = m.scope_id WHERE m.pk "
)
ONE: Final = f"{ROW} = ?"
TEN: Final = f"{ROW} IN ({', '.join('?' * K)})"


class Plain:
    """One user's memories in plain numpy and raw SQLite: product, BM25, weighted sum, rows of the ten best.

    Args:
        path: The database.
        user: Whose memories.
        vectors: Makes the questions' vectors, once.
    """

    def __init__(self, path: Path, user: str, vectors: HashEmbeddings) -> None:
        self._raw = sqlite3.connect(path, isolation_level=None)
        self._embed = cache(vectors.vector)
        scope, words = self._one("SELECT id, word_count FROM scopes WHERE user_id = ?", user)
        kept = self._all("SELECT pk, embedding FROM memories WHERE scope_id = ? ORDER BY pk", scope)
        self._pks = np.array([pk for pk, _ in kept])
        self._vectors = np.stack([np.frombuffer(embedding, np.float32) for _, embedding in kept])
        self._count = len(kept)
        self._average = words / self._count
        rows = self._all("SELECT term, memory_pk, count, length FROM words WHERE scope_id = ? ORDER BY term", scope)
        self._postings = {term: self._posting(list(held)) for term, held in groupby(rows, key=itemgetter(0))}

    def one_by_one(self, question: str) -> list[Any]:
        """The rows of the ten best, each fetched by itself."""
        return [self._one(ONE, pk) for pk in self._best(question)]

    def at_once(self, question: str) -> list[Any]:
        """The rows of the ten best, fetched by one statement."""
        return self._all(TEN, *self._best(question))

    def close(self) -> None:
        """Let go of the database."""
        self._raw.close()

    def _best(self, question: str) -> list[int]:
        meaning, words = self._vectors @ self._embed(question), self._words(content_words(question))
        scores = 0.3 * meaning / max(meaning.max(), 1e-9) + 0.7 * words / max(words.max(), 1e-9)
        best: list[int] = self._pks[np.argpartition(-scores, K)[:K]].tolist()
        return best

    def _words(self, terms: set[str]) -> Floats:
        scores = np.zeros(self._count)
        for places, counts, lengths in (self._postings[term] for term in terms if term in self._postings):
            idf = np.log1p((self._count - len(places) + 0.5) / (len(places) + 0.5))
            scores[places] += idf * counts * 7 / (counts + 6 * (0.25 + 0.75 * lengths / self._average))
        return scores

    def _posting(self, rows: list[Any]) -> tuple[Places, Floats, Floats]:
        _, pks, counts, lengths = zip(*rows, strict=True)
        return np.searchsorted(self._pks, pks), np.array(counts, float), np.array(lengths, float)

    def _one(self, statement: str, *values: object) -> Any:
        return self._raw.execute(statement, values).fetchone()

    def _all(self, statement: str, *values: object) -> list[Any]:
        return self._raw.execute(statement, values).fetchall()


# ── measuring ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def bench_least(folder: Path, size: Size) -> None:
    """A search against the least that it can cost, for users of several sizes."""
    vectors, asked = HashEmbeddings(WIDE), questions(size.questions)
    path = filled(folder / "users.db", size, size.memories, size.users, vectors)
    with Memory(path, embeddings=vectors) as memory:
        for count in size.users:
            rounds = Rounds(rounds=size.rounds, calls=1)
            with closing(Plain(path, user(count), vectors)) as one, closing(Plain(path, user(count), vectors)) as other:
                ways = [partial(_each, way, asked) for way in (one.one_by_one, other.at_once)]
                engine, least, less = side_by_side(rounds, searching(memory, count, asked), *ways)
            name, bare = f"search, {count:,} of {size.memories:,} memories", "product, BM25 and ten rows"
            report(f"{name}: CPU to {bare} fetched raw", ratio(engine.cpu, least.cpu), "x", ("<=", 3))
            report(f"{name}: CPU to {bare} fetched by one statement", ratio(engine.cpu, less.cpu), "x")
            report(f"{name}: CPU", statistics.median(engine.cpu) * 1000 / len(asked), "ms")


def bench_growth(folder: Path, size: Size) -> None:
    """The same user's search among many memories of others against the same among few."""
    vectors, asked = HashEmbeddings(NARROW), questions(size.questions)
    few, many = (filled(folder / f"{total}.db", size, total, [size.own], vectors) for total in (size.few, size.many))
    with Memory(few, embeddings=vectors) as small, Memory(many, embeddings=vectors) as large:
        works = (searching(memory, size.own, asked) for memory in (small, large))
        before, after = side_by_side(Rounds(rounds=size.rounds, calls=1), *works)
    name = f"search, {size.own} of {size.many:,} memories to {size.own} of {size.few:,}"
    report(f"{name}: CPU", ratio(after.cpu, before.cpu), "x", ("<=", 1.3))
    report(f"{name}: wall", ratio(after.wall, before.wall), "x")


def searching(memory: Memory, count: int, asked: Sequence[str]) -> Callable[[], object]:
    """Ask everything once, as that user; the first time, vectors and words are not yet in memory."""
    return partial(_each, partial(memory.search, user_id=user(count), k=K), asked)


def _each(search: Callable[[str], object], asked: Sequence[str]) -> None:
    for question in asked:
        search(question)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser(description="Measures searches and prints JSON lines.")
    parser.add_argument("--quick", action="store_true", help="see that it runs; the numbers mean nothing")
    size = QUICK if parser.parse_args(arguments).quick else Size()
    for bench in (bench_least, bench_growth):
        with tempfile.TemporaryDirectory(prefix="langmem-bench-") as folder:  # one after the other: they are large
            bench(Path(folder), size)


if __name__ == "__main__":
    main()
