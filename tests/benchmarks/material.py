"""What benchmarks write and read: prepared decisions, filled databases, the driver alone."""

from __future__ import annotations

import json
import shutil
import sqlite3
import uuid
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.embedding.models import HashEmbeddings, fingerprint
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.results import Decision
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.ledger import Ledger
from langmem_adapter.storage.migrations import prepare
from langmem_adapter.storage.traces import TraceDraft
from langmem_adapter.storage.write import Write

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.benchmarks.measure import Size

__all__ = ["MARK", "SCOPE", "VECTORS", "copied", "fact", "filled", "prepared", "raw", "requested", "said", "writes"]

SCOPE: Final = Scope(user_id="bench")
VECTORS: Final = HashEmbeddings(512)
MARK: Final = fingerprint(VECTORS)
PRAGMAS: Final = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "secure_delete=ON")
NOUNS: Final = "tea coffee bread violin garden bicycle river lantern harbour window orchard library".split()
VERBS: Final = "Likes Owns Sells Paints Repairs Collects Remembers Describes".split()


def fact(number: int) -> str:
    """A short statement, another one for each number."""
    noun, other = NOUNS[number % 12], NOUNS[number // 12 % 12]
    return f"{VERBS[number % 8]} the {noun} beside the {other} of house number {number}"


def said(number: int) -> str:
    """The same as somebody says it of himself."""
    return f"I own {fact(number).partition(' ')[2]}."


def prepared(number: int, *, traced: bool = False) -> Write:
    """One decision with its vector, ready to be applied; *traced* as the pipeline does it, with a run's name and trace."""
    text = fact(number)
    decision = Decision("ADD", None, text, "stored as said", actor_id="user", role="user")
    vectors = {text: VECTORS.vector(text)}
    if not traced:
        return Write((decision,), SCOPE, SCOPE, vectors)
    seen = _seen()
    state = {**seen, "turns": [{**seen["turns"][0], "text": text}], "decisions": [decision.to_json()]}
    return Write((decision,), SCOPE, SCOPE, vectors, key=str(uuid.uuid4()), trace=TraceDraft(30, state))


@cache
def _seen() -> Mapping[str, Any]:
    """What an add of one message sees and does, as the pipeline tells it."""
    with Memory(":memory:") as memory:
        added = memory.add(fact(0), infer=False, **SCOPE.named)  # type: ignore[arg-type]
        assert added.trace_id is not None
        return memory.trace(added.trace_id).state


def writes(*, traced: bool = False) -> Iterator[Write]:
    """Prepared decisions without end."""
    number = 0
    while True:
        number += 1
        yield prepared(number, traced=traced)


def filled(path: Path, size: Size) -> Path:
    """A database with that many memories, *size.scope* of them in our scope."""
    database = Database(path)
    prepare(database)
    ledger = Ledger(database, fingerprint=MARK)
    others = [Scope(user_id=f"user {n}") for n in range(10)]
    for start in range(0, size.memories, 5_000):
        for place, scope in enumerate([SCOPE, *others]):
            numbers = [n for n in range(start, min(start + 5_000, size.memories)) if _owner(n, size) == place]
            decisions = tuple(Decision("ADD", str(uuid.uuid4()), fact(n)) for n in numbers)
            ledger.apply(Write(decisions, scope, scope, {fact(n): VECTORS.vector(fact(n)) for n in numbers}))
    database.close()
    return path


def _owner(number: int, size: Size) -> int:
    """0 for our scope, evenly spread among the others' memories."""
    return 0 if number * size.scope % size.memories < size.scope else 1 + number % 10


def raw(path: Path) -> sqlite3.Connection:
    """The driver alone, with the settings that the engine uses."""
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    return connection


def copied(path: Path, name: str) -> Path:
    """A copy of a closed database."""
    return Path(shutil.copy(path, path.with_name(name)))


def requested(messages: Sequence[Any]) -> dict[str, Any]:
    """The data of a request to a chat model: one JSON object on a line of its own."""
    data: dict[str, Any] = json.loads(
        next(line for line in str(messages[1].content).splitlines() if line.startswith("{"))
    )
    return data
