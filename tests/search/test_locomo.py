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


def test_ten_hits_hold_the_evidence_and_are_a_small_context() -> None:
    found = report()
    assert found["overall"].questions == 675
    assert found["overall"].recall[10] >= 0.78
    assert found["adversarial"].recall[10] >= 0.85
    assert found.tokens <= 550
