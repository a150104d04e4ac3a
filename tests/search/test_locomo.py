"""What is found in LoCoMo's development conversations offline, and what stays silent: as `eval conversations` measures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from langmem_adapter.evaluation.conversations import Conversation, read_conversations
from langmem_adapter.evaluation.report import Report, summarise
from langmem_adapter.evaluation.runner import ask, ingest
from langmem_adapter.evaluation.silence import Silence, silence
from langmem_adapter.memory import Memory
from langmem_adapter.settings import Settings

if TYPE_CHECKING:
    from typing import TypeAlias

    Run: TypeAlias = tuple[Report, list[Silence]]

FILE = Path(__file__).resolve().parents[3] / "shared" / "data" / "locomo-dev.json"

pytestmark = [
    pytest.mark.locomo,
    pytest.mark.skipif(not FILE.exists(), reason=f"{FILE} is not there"),
    pytest.mark.xdist_group("locomo"),
]


@pytest.fixture(scope="module")
def conversations() -> list[Conversation]:
    return read_conversations(FILE)


@pytest.fixture(scope="module", params=["hash", "static"])
def run(request: pytest.FixtureRequest, conversations: list[Conversation]) -> Run:
    """One ingest for all figures; each question is asked of one other conversation, `eval` asks all."""
    with Memory(":memory:", embeddings=request.param, settings=Settings(trace_days=0)) as memory:
        sources = ingest(memory, conversations)
        questions = [question for conversation in conversations for question in conversation.questions]
        answers = ask(memory, questions, sources=sources, cuts=())
        return summarise(answers), silence(memory, conversations, answers, others=1)


def test_the_file_is_read_whole(conversations: list[Conversation]) -> None:
    assert [conversation.turns for conversation in conversations] == [419, 680, 681, 509]
    assert sum(len(conversation.questions) for conversation in conversations) == 874
    assert sum(len(conversation.left_out) for conversation in conversations) == 2


def test_ten_hits_hold_the_evidence_and_are_a_small_context(run: Run) -> None:
    found, _ = run
    assert found["overall"].questions == 675
    assert found["overall"]["recall@10"] >= 0.78
    assert found["adversarial"]["recall@10"] >= 0.85
    assert found.tokens <= 550
