"""What speaks for a memory beside its own words and meaning: what was told around it, and how long it is."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from langmem_adapter.embedding.hashing import HashEmbeddings
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.ranking import Ranking
from langmem_adapter.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

ANN: dict[str, Any] = {"user_id": "ann"}
DAY = datetime(2024, 5, 1, 10, tzinfo=UTC)
PROSE = " ".join(f"Chapter {number} of the manual describes valve {number} and its seal." for number in range(60))


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory(":memory:", settings=Settings(ranking=Ranking(recency=0, newest_first=False), trace_days=0)) as opened:
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


def test_a_long_message_that_ends_with_a_question_is_hardly_a_question(memory: Memory) -> None:
    tell(memory, "What is a valve?")
    tell(memory, f"{PROSE} Is that right?", days=9)
    found = parts(memory, "valve")
    assert found["What is a valve?"]["question"] == -Ranking().question
    assert -0.1 * Ranking().question < found[PROSE[:20]]["question"] < 0


WHO = "Which harmonium did she repair?"


def conversation(memory: Memory) -> None:
    tell(
        memory,
        "She repaired the harmonium of Saint Bavo.",
        "Oh, lovely.",
        "Tea?",
        "Please.",
        "Good for her.",
        PROSE,
        "Fine.",
    )
    tell(memory, "Hello again.", days=1)


def test_what_is_told_near_an_answer_is_lifted_the_less_the_more_was_told_in_between(memory: Memory) -> None:
    conversation(memory)
    found = parts(memory, WHO)
    lifts = [found[text]["conversation"] for text in ("Oh, lovely.", "Good for her.", "Fine.", "Hello again.")]
    next_to_it, soon, after_much, another_day = lifts
    assert Ranking().conversation > next_to_it > soon > 2 * after_much > another_day == 0


def test_among_thousands_and_in_the_past_the_same_is_lifted(memory: Memory) -> None:
    conversation(memory)
    alone = parts(memory, WHO)["Oh, lovely."]["conversation"]
    entry = {"infer": False, "timestamp": DAY - timedelta(days=2), **ANN}
    memory.add_many([{"messages": f"Entry {number} of the log.", **entry} for number in range(1_100)])
    assert parts(memory, WHO)["Oh, lovely."]["conversation"] == pytest.approx(alone, abs=1e-3)
    now, then = memory.search(WHO, **ANN, k=3), memory.search(WHO, **ANN, k=3, as_of=datetime.now(UTC))
    assert [hit.text for hit in now] == [hit.text for hit in then]
    assert [hit.score for hit in now] == pytest.approx([hit.score for hit in then])


def test_equals_come_in_the_same_order_now_and_then() -> None:
    class Dense(HashEmbeddings):
        def vector(self, text: str) -> NDArray[np.float32]:
            return np.random.default_rng(zlib.crc32(text.encode())).normal(0.3, 1, 384).astype(np.float32)

    with Memory(":memory:", embeddings=Dense(384)) as memory:
        memory.add_many([{"messages": "Sees seven foxes", **ANN, "infer": False, "timestamp": "2026-01-01"}] * 7)
        for number in range(8):
            now, then = (memory.search(f"wolf {number}", **ANN, as_of=when) for when in (None, datetime.now(UTC)))
            assert len(now) == 7 and [hit.id for hit in now] == [hit.id for hit in then], number
