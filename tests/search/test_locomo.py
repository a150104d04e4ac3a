"""What the offline default finds in LoCoMo's development conversations, measured as `langmem-adapter eval locomo` does."""

from __future__ import annotations

from pathlib import Path

import pytest

from langmem_adapter.evaluation.datasets import read_locomo
from langmem_adapter.evaluation.report import Report, summarise
from langmem_adapter.evaluation.runner import ask, ingest
from langmem_adapter.memory import Memory
from langmem_adapter.settings import Settings

FILE = Path(__file__).resolve().parents[3] / "shared" / "data" / "locomo-dev.json"

pytestmark = [pytest.mark.locomo, pytest.mark.skipif(not FILE.exists(), reason=f"{FILE} is not there")]


@pytest.fixture(scope="module")
def report() -> Report:
    conversations = read_locomo(FILE)
    with Memory(":memory:", settings=Settings(trace_days=0)) as memory:
        sources = ingest(memory, conversations)
        questions = [question for conversation in conversations for question in conversation.questions]
        return summarise(ask(memory, questions, sources=sources, cuts=()))


def test_the_file_is_read_whole() -> None:
    conversations = read_locomo(FILE)
    assert [conversation.turns for conversation in conversations] == [419, 680, 681, 509]
    assert sum(len(conversation.questions) for conversation in conversations) == 874
    assert sum(len(conversation.left_out) for conversation in conversations) == 2


def test_ten_hits_hold_the_evidence(report: Report) -> None:
    assert report["overall"].questions == 675
    assert report["overall"].recall[10] >= 0.78
    assert report["adversarial"].recall[10] >= 0.85


def test_ten_hits_are_a_small_context(report: Report) -> None:
    assert report.tokens <= 550
