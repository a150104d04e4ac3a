"""What must hold after any crash: the journals, the history, the memories, their words and the index tell one story."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from sqlalchemy import func, select

from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.storage import lexical
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.tables import changes, history, memories, scopes, words
from tests.faults.journal import Operation, count, read
from tests.faults.mutants import mutate
from tests.faults.worker import EMBEDDINGS, USER, open_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sqlalchemy import Connection

    from langmem_adapter.memory.memory import Memory
    from tests.faults.journal import Evidence

__all__ = ["examine", "examine_backup"]

_SAMPLES: Final = 5
_EMBEDDINGS: Final = HashEmbeddings(int(EMBEDDINGS.partition(":")[2]))


def examine(database: str, journals: Path, mutant: str | None = None) -> list[str]:
    """Reopen a database whose processes were killed, and compare everything with everything.

    Args:
        database: Where.
        journals: The folder of all journals since the database was made.
        mutant: The promise that the reopened engine breaks.

    Returns:
        What is wrong, in words; nothing if all is well.
    """
    mutate(mutant)
    told = [read(path) for path in sorted(journals.iterdir())]
    operations = [operation for some, _ in told for operation in some]
    problems = [problem for _, seen in told for problem in seen]
    with open_memory(database) as memory:
        report = memory.verify()
        if not report.ok:
            problems.append(f"after reopening, the index differs from the database: {report}")
        problems += _searches(memory)
    problems += _leftovers(database)
    reader = Database(database)
    with reader.read() as connection:
        problems += _journals_and_history(connection, operations)
        problems += _rows(connection)
    reader.close()
    return problems


def examine_backup(database: str, acknowledged: Counter[Evidence]) -> list[str]:
    """Open a backup; what of the operations that were acknowledged before it began is missing, and what does not fit."""
    with open_memory(database) as memory, memory.parts.database.read() as connection:
        report = memory.verify()
        problems = [] if report.ok else [f"the backup's index differs from the backup: {report}"]
        rows = Counter(_evidence(row) for row in connection.execute(select(history)))
        problems += [f"lost: {piece} was acknowledged before the backup" for piece in acknowledged - rows]
        return [*problems, *_rows(connection)]


def _rows(connection: Connection) -> Iterator[str]:
    yield from _history_and_memories(connection)
    yield from _words_and_memories(connection)
    yield from _feed(connection)


# ── journals and history ────────────────────────────────────────────────────────────────────────────────────────────


def _journals_and_history(connection: Connection, operations: Sequence[Operation]) -> Iterator[str]:
    rows = Counter(_evidence(row) for row in connection.execute(select(history)))
    done, unknown = count(operations, "done"), count(operations, "open")
    for piece in rows | done:
        if rows[piece] < done[piece]:
            yield f"lost: {piece} was acknowledged {done[piece]} times, the history has it {rows[piece]} times"
        if rows[piece] > done[piece] + unknown[piece]:
            asked = done[piece] + unknown[piece]
            yield f"phantom: the history has {piece} {rows[piece]} times, at most {asked} times it was asked for"
    for operation in operations:
        there = {rows[piece] > 0 for piece in operation.evidence}
        if len(there) > 1:
            yield f"half: only a part of one transaction is there: {operation.evidence}"


def _evidence(row: Any) -> Evidence:
    if row.reason.startswith("restored"):
        return "RESTORE", row.memory_id
    return row.event, row.memory_id if row.event == "DELETE" else row.new_memory


# ── history, memories, words ────────────────────────────────────────────────────────────────────────────────────────


def _history_and_memories(connection: Connection) -> Iterator[str]:
    replay: dict[str, tuple[str, int, int]] = {}
    lengths: Counter[str] = Counter()
    for row in connection.execute(select(history).order_by(history.c.seq)):
        lengths[row.memory_id] += 1
        if row.revision != lengths[row.memory_id]:
            yield f"revision {row.revision} of {row.memory_id} is the {lengths[row.memory_id]}th in the history"
        if row.is_deleted:
            replay.pop(row.memory_id)
        else:
            replay[row.memory_id] = row.new_memory, row.revision, row.seq
    living = list(connection.execute(select(memories)))
    now = {row.id: (row.text, row.revision, row.seq) for row in living}
    yield from (f"replay: {id_} is {replay.get(id_)}, not {now.get(id_)}" for id_ in _differing(replay, now))
    for row in living:
        vector = np.frombuffer(row.embedding, np.float32)
        if not np.allclose(vector, _EMBEDDINGS.vector(row.text), atol=1e-6):  # it was brought to length 1 once more
            yield f"memory {row.id} has the vector of another text than {row.text!r}"


def _words_and_memories(connection: Connection) -> Iterator[str]:
    expected: set[tuple[Any, ...]] = set()
    lengths: Counter[int] = Counter()
    for row in connection.execute(select(memories)):
        postings = lexical.postings(row._asdict())
        expected |= {tuple(posting[column.name] for column in words.c) for posting in postings}
        lengths[row.scope_id] += postings[0]["length"]
    kept = {tuple(row) for row in connection.execute(select(words))}
    for posting in sorted(kept ^ expected):
        yield f"words: {posting} {'belongs to no memory' if posting in kept else 'is missing'}"
    for row in connection.execute(select(scopes)):
        if row.word_count != lengths[row.id]:
            yield f"scope {row.id} counts {row.word_count} words; it has {lengths[row.id]}"


def _feed(connection: Connection) -> Iterator[str]:
    fed = connection.execute(select(changes.c.seq).order_by(changes.c.seq)).scalars().all()
    told = connection.execute(select(history.c.seq).order_by(history.c.seq)).scalars().all()
    if fed != told or list(fed) != list(range(1, len(fed) + 1)):
        yield f"the change feed has {len(fed)} rows, the history {len(told)}, the last change is {fed[-1:]}"
    nonces = connection.execute(select(func.count(changes.c.nonce.distinct()))).scalar_one()
    if nonces != len(fed):
        yield f"{len(fed)} changes share {nonces} nonces"


def _differing(one: Mapping[str, object], other: Mapping[str, object]) -> list[str]:
    return sorted(key for key in {*one, *other} if one.get(key) != other.get(key))


# ── the way users look ──────────────────────────────────────────────────────────────────────────────────────────────


def _searches(memory: Memory) -> Iterator[str]:
    items = list(memory.get_all(user_id=USER, k=10_000))
    for item in random.sample(items, min(_SAMPLES, len(items))):
        hits = memory.search(item.text, user_id=USER, k=3)
        if item.id not in {hit.id for hit in hits}:
            yield f"a search for {item.text!r} finds {[hit.text for hit in hits]}"


def _leftovers(database: str) -> Iterator[str]:
    if "://" not in database:
        yield from (f"{path} was left behind" for path in Path(database).parent.glob(".*.tmp"))
