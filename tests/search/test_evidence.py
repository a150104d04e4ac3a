"""What speaks for a memory beside its own words and meaning: the messages before it, and how long it is."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.memory.memory import Memory
from langmem_adapter.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

ANN: dict[str, Any] = {"user_id": "ann"}
DAY = datetime(2024, 5, 1, 10, tzinfo=UTC)
PROSE = " ".join(f"Chapter {number} of the manual describes valve {number} and its seal." for number in range(60))


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory(":memory:", settings=Settings(trace_days=0)) as opened:
        yield opened


def tell(memory: Memory, *texts: str, days: float = 0) -> None:
    messages = [{"role": "user", "content": text} for text in texts]
    memory.add(messages, **ANN, infer=False, timestamp=DAY + timedelta(days=days))


def parts(memory: Memory, question: str, **options: Any) -> dict[str, dict[str, float]]:
    """What each kind of evidence added, by the beginning of the text."""
    hits = memory.search(question, **ANN, explain=True, k=10, **options)
    told = {hit.text: hit.explanation for hit in hits}
    return {text[:20]: {**of.parts, "bm25": of.words} for text, of in told.items() if of is not None}


def test_the_turn_before_counts_less_for_a_long_message_than_for_a_short_one(memory: Memory) -> None:
    tell(memory, "How is the harmonium?", "Quite out of tune.")
    tell(memory, "How is the harmonium today?", PROSE, days=9)
    found = parts(memory, "harmonium")
    assert found["Quite out of tune."]["bm25"] > 5 * found[PROSE[:20]]["bm25"] >= 0


def test_equals_come_in_the_same_order_now_and_then() -> None:
    class Dense(HashEmbeddings):
        def vector(self, text: str) -> NDArray[np.float32]:
            return np.random.default_rng(zlib.crc32(text.encode())).normal(0.3, 1, 384).astype(np.float32)

    with Memory(":memory:", embeddings=Dense(384)) as memory:
        memory.add_many([{"messages": "Sees seven foxes", **ANN, "infer": False, "timestamp": "2026-01-01"}] * 7)
        for number in range(8):
            now, then = (memory.search(f"wolf {number}", **ANN, as_of=when) for when in (None, datetime.now(UTC)))
            assert len(now) == 7 and [hit.id for hit in now] == [hit.id for hit in then], number
