"""What the vector index costs at a million memories, as ratios to numpy, to plain files and to FAISS' own index.

Started by `run.py` as a program of its own: resident memory is that of the index alone, and numpy's products run on one
thread, as every search does. Scopes are searched in turn, so that neither side finds its rows in the processor's cache, as
for the users of a large database; lines that end in "again and again" ask the same scope each time.
"""

from __future__ import annotations

import argparse
import gc
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a program, its neighbours are found all the same
from langmem_adapter.index.base import Batch
from langmem_adapter.index.faiss import FaissIndex
from langmem_adapter.index.generations import Generations
from langmem_adapter.index.indexer import Indexer, open_index
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.migrations import prepare
from tests.benchmarks.measure import apart, report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from langmem_adapter.index.base import Pks, Vectors

__all__ = ["bench_index"]

Goal: TypeAlias = "tuple[Literal['<=', '>='], float]"

D: Final = 384
MARK: Final = "bench:384/1"
NOBODY: Final = np.empty(0, np.int64)
BLOCK: Final = 10_000
NEVER: Final = 10**9
NOW: Final = "2026-01-01 00:00:00.000000"


@dataclass(frozen=True)
class Size:
    """How much is measured: memories, and scopes of each number of memories."""

    rows: int = 1_000_000
    scopes: tuple[tuple[int, int], ...] = ((100, 400), (1_000, 100), (10_000, 20))
    starts: int = 2
    plain: int = 200_000
    calls: int = 200


QUICK: Final = Size(rows=4_000, scopes=((100, 4), (1_000, 2)), starts=1, plain=1_000, calls=3)


def bench_index(*, quick: bool) -> None:
    """Run this program; its lines are printed between the caller's own."""
    apart(__file__, quick=quick)


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


# ── material ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def scopes_of(size: Size) -> Pks:
    """The scope of each memory: numbered 1000, 1001, … for each size of scope, the rest in one; in any order."""
    parts = [np.full(rows, _first(rows) + n) for rows, count in size.scopes for n in range(count)]
    parts.append(np.full(size.rows - sum(map(len, parts)), 1))
    return np.random.default_rng(1).permutation(np.concatenate(parts))


def _first(rows: int) -> int:
    return rows * 1_000


def unit_vectors(rows: int) -> Iterator[Vectors]:
    """So many vectors, in blocks: one block of random ones, shifted, since making numbers takes longer than storing them."""
    plain = np.random.default_rng(2).standard_normal((BLOCK, D), dtype=np.float32)
    block = plain / np.linalg.norm(plain, axis=1, keepdims=True)
    for start in range(0, rows, BLOCK):
        yield np.roll(block, start // BLOCK, axis=1)[: rows - start]


def filled(path: Path, size: Size) -> None:
    """A database with that many memories, written past the engine: texts and words are of no matter here."""
    database = Database(path)
    prepare(database)
    database.close()
    scopes = scopes_of(size)
    raw = sqlite3.connect(path, isolation_level=None)
    for pragma in ("synchronous=OFF", "foreign_keys=OFF", "secure_delete=OFF", "wal_autocheckpoint=100000"):
        raw.execute(f"PRAGMA {pragma}")
    raw.execute("BEGIN")
    for scope in np.unique(scopes).tolist():
        raw.execute("INSERT INTO scopes VALUES (?, ?, ?, NULL, NULL, 0, NULL)", (scope, str(scope), str(scope)))
    for number, vectors in enumerate(unit_vectors(size.rows)):
        _write(raw, number * BLOCK + 1, scopes[number * BLOCK : (number + 1) * BLOCK].tolist(), vectors)
    raw.execute("COMMIT")
    raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    raw.close()


def _write(raw: sqlite3.Connection, first: int, scopes: list[int], vectors: Vectors) -> None:
    pks, nonces = range(first, first + len(scopes)), os.urandom(8 * len(scopes))
    raw.executemany(
        "INSERT INTO changes (seq, nonce, space, row, op) VALUES (?, ?, 'memories', ?, 'put')",
        ((pk, nonces[8 * n : 8 * n + 8], pk) for n, pk in enumerate(pks)),
    )
    raw.executemany(
        "INSERT INTO memories (pk, id, scope_id, text, context, metadata, hash, embedding, created_at, updated_at, seq, "
        "revision) VALUES (?, ?, ?, 'A fact of some forty letters, no more.', '', '{}', ?, ?, ?, ?, ?, 1)",
        (
            (pk, f"{pk:032x}", scope, f"{pk:016x}", vector.tobytes(), NOW, NOW, pk)
            for pk, scope, vector in zip(pks, scopes, vectors, strict=True)
        ),
    )


# ── opening ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def opened(path: Path) -> Indexer:
    """The index as a program gets it at its start."""
    return Indexer(Database(path), partial(open_index, "faiss"), fingerprint=MARK, merge_after=NEVER)


def bench_open(path: Path, size: Size) -> FaissIndex:
    """Rebuild, merge and opening by turns; the index that stays is the one from the files."""
    files, query = Generations.for_database(path, MARK), next(unit_vectors(1))[0]
    rebuilds, writes, opens, resident = [], [], [], 0.0
    index: FaissIndex | None = None
    for _ in range(size.starts):
        index = None
        files.remove()
        gc.collect()
        begun = time.perf_counter()
        indexer = opened(path)
        rebuilds.append(time.perf_counter() - begun)
        writes.append(seconds(indexer.write_segment))
        del indexer
        gc.collect()
        before, begun = _resident(), time.perf_counter()
        indexer = opened(path)
        assert isinstance(indexer.index, FaissIndex) and indexer.failures == 0
        index = indexer.index
        index.search(query, 10, scopes=[_first(size.scopes[0][0])])
        opens.append(time.perf_counter() - begun)
        resident = (_resident() - before) / (size.rows * D * 4)
        del indexer
    assert index is not None and len(index) == size.rows
    written = sum(file.stat().st_size for file in path.parent.glob("*.faiss"))
    copies = [seconds(partial(_plain_write, path.with_name("plain"), written)) for _ in range(size.starts)]
    where = f"{size.rows:,} memories"
    report(f"open and first answer, {where}: wall to the rebuild", min(opens) / min(rebuilds), "x", ("<=", 0.1))
    report(f"open and first answer, {where}, page cache warm: wall", min(opens) * 1000, "ms")
    report(f"rebuild from SQL, {where}: wall", min(rebuilds), "s")
    report(f"resident memory after opening, {where}: to the vectors' bytes", resident, "x", ("<=", 0.2))
    report(f"generation written, {where}: wall to writing and syncing as many bytes", min(writes) / min(copies), "x")
    report(f"generation written, {where}: wall", min(writes), "s")
    return index


def _plain_write(path: Path, size: int) -> None:
    block = os.urandom(1 << 20)
    with path.open("wb") as file:
        for _ in range(size >> 20):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    path.unlink()


def _resident() -> int:
    """Bytes of memory in use, where the system tells (Linux)."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


# ── searching ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def bench_kernel(index: FaissIndex, size: Size, state: str) -> None:
    """The whole search in the index against numpy's product alone, on a contiguous copy of the scope's rows."""
    everyone = index.pks()
    owners = index.scopes_of(everyone)
    goal: Goal = ("<=", 2.5)
    for rows, count in size.scopes:
        numbers = [_first(rows) + n for n in range(count)]
        matrices = [index.vectors(everyone[owners == number]) for number in numbers]
        name = f"search among {rows:,} in scope of {size.rows:,}, {state}: wall to numpy's product"
        report(name, _by_turns(index, numbers, matrices, max(2, size.calls // count)), "x", goal)
        if state == "in order":
            report(f"{name}, again and again", _by_turns(index, numbers[:1], matrices[:1], size.calls), "x")


def _by_turns(index: FaissIndex, numbers: list[int], matrices: list[Vectors], rounds: int) -> float:
    query, search, product = next(unit_vectors(BLOCK))[77], [], []
    for number, matrix in list(zip(numbers, matrices, strict=True)) * rounds:
        product.append(seconds(lambda: matrix @ query))  # noqa: B023 - called at once
        search.append(seconds(lambda: index.search(query, 10, scopes=[number])))  # noqa: B023 - as above
    return statistics.median(search) / statistics.median(product)


def bench_tail(index: FaissIndex, size: Size) -> None:
    """What rows cost that have come since the segment was made."""
    rng = np.random.default_rng(3)
    gone = rng.choice(index.pks(), size.rows // 20, replace=False)
    scopes = rng.permutation(index.scopes_of(gone))
    first = int(index.pks()[-1]) + 1
    for start, vectors in zip(range(0, len(gone), BLOCK), unit_vectors(len(gone)), strict=True):
        part = slice(start, start + BLOCK)
        pks = np.arange(first + start, first + start + len(vectors))
        index.update(Batch(pks, scopes[part].copy(), np.ascontiguousarray(vectors), gone[part].copy()))
    bench_kernel(index, size, "a twentieth replaced")


# ── single changes, and the look for news ─────────────────────────────────────────────────────────────────────────────


def bench_changes(size: Size) -> None:
    """One memory changed or deleted, against FAISS' own `remove_ids`."""
    import faiss

    vectors = np.concatenate(list(unit_vectors(size.plain)))
    plain, ours = faiss.IndexFlatIP(D), FaissIndex(D)
    plain.add(vectors)
    pks = np.arange(1, size.plain + 1)
    ours.adopt(Batch(pks, pks % 100, vectors.copy(), NOBODY))
    one = vectors[:1].copy()
    numbers = np.random.default_rng(4).choice(size.plain - 100, size.calls, replace=False)
    one_id = faiss.IDSelectorRange(5, 6)
    removed = [seconds(lambda: plain.remove_ids(one_id)) for _ in range(max(3, size.calls // 20))]
    updated = [seconds(partial(ours.update, _put(int(n) + 1, int(n) % 100, one))) for n in numbers]
    deleted = [seconds(partial(ours.update, _gone(int(n) + 1))) for n in numbers]
    where = f"among {size.plain:,}"
    baseline = statistics.median(removed)
    goal: Goal = (">=", 100)
    report(f"one vector replaced {where}: times less than remove_ids", baseline / statistics.median(updated), "x", goal)
    report(f"one vector deleted {where}: times less than remove_ids", baseline / statistics.median(deleted), "x", goal)


def _put(pk: int, scope: int, vector: Vectors) -> Batch:
    return Batch(np.array([pk]), np.array([scope]), vector, NOBODY)


def _gone(pk: int) -> Batch:
    return Batch(NOBODY, NOBODY, np.empty((0, D), np.float32), np.array([pk]))


def bench_poll(path: Path, size: Size) -> None:
    """The look for news before every search, against the driver alone."""
    database, raw = Database(path), sqlite3.connect(path)
    database.version()
    news, pragma = [], []
    for _ in range(size.calls * 20):
        news.append(seconds(database.version))
        pragma.append(seconds(lambda: raw.execute("PRAGMA data_version").fetchone()))
    raw.close()
    database.close()
    report(
        "look for news: wall to PRAGMA data_version",
        statistics.median(news) / statistics.median(pragma),
        "x",
        ("<=", 5),
    )
    report("look for news: wall", statistics.median(news) * 1e6, "us")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser(description="Measures the vector index and prints JSON lines.")
    parser.add_argument("--quick", action="store_true", help="see that it runs; the numbers mean nothing")
    size = QUICK if parser.parse_args(arguments).quick else Size()
    bench_changes(size)
    with tempfile.TemporaryDirectory(prefix="langmem-bench-") as folder:
        path = Path(folder) / "million.db"
        filled(path, size)
        bench_poll(path, size)
        index = bench_open(path, size)
        bench_kernel(index, size, "in order")
        bench_tail(index, size)


if __name__ == "__main__":
    main()
