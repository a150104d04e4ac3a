"""What is found in LoCoMo's development conversations offline, and what stays silent: as `eval conversations` measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from langmem_adapter.evaluation.questions import Dialogue, read_conversations
from langmem_adapter.evaluation.runner import Report, ask, ingest, silence, summarise
from langmem_adapter.memory.memory import Memory
from langmem_adapter.settings import Settings
from tests.beside import LOCOMO

if TYPE_CHECKING:
    from typing import TypeAlias

    Run: TypeAlias = tuple["Floors", Report, list[dict[str, Any]]]


@dataclass(frozen=True)
class Floors:
    """A little below what is measured.

    Attributes:
        overall: Of the means over categories 1 to 4.
        adversarial: Of recall@10 of category 5.
        silence: Of the AUROC, and of the silent share of foreign questions where .95 of one's own are answered.
    """

    overall: dict[str, float]
    adversarial: float
    silence: dict[str, tuple[float, float]]


FLOORS = {
    "hash": Floors(
        {"recall@10": 0.75, "mrr": 0.595, "recall@500 tokens": 0.775, "session recall": 0.865, "first session": 0.695},
        0.785,
        {"as asked": (0.945, 0.74), "replaced": (0.82, 0.485)},
    ),
    "static": Floors(
        {"recall@10": 0.795, "mrr": 0.63, "recall@500 tokens": 0.805, "session recall": 0.885, "first session": 0.72},
        0.82,
        {"as asked": (0.95, 0.71), "replaced": (0.83, 0.465)},
    ),
}

pytestmark = [
    pytest.mark.locomo,
    pytest.mark.skipif(not LOCOMO.exists(), reason=f"{LOCOMO} is not there"),
    pytest.mark.xdist_group("locomo"),
]


@pytest.fixture(scope="module")
def conversations() -> list[Dialogue]:
    return read_conversations(LOCOMO)


@pytest.fixture(scope="module", params=FLOORS)
def run(request: pytest.FixtureRequest, conversations: list[Dialogue]) -> Run:
    """The two shortest conversations, ingested once for all figures; `make bench` and `eval` measure all four."""
    conversations = [conversations[0], conversations[3]]
    with Memory(":memory:", embeddings=request.param, settings=Settings(trace_days=0)) as memory:
        sources = ingest(memory, conversations)
        questions = [question for conversation in conversations for question in conversation.questions]
        answers = ask(memory, questions, sources=sources, cuts=())
        return FLOORS[request.param], summarise(answers), silence(memory, conversations, answers, others=1)


def test_ten_hits_hold_the_evidence_and_are_a_small_context(run: Run) -> None:
    floors, found, _ = run
    assert found["overall"]["questions"] == 306
    for metric, floor in floors.overall.items():
        assert found["overall"][metric] >= floor, metric
    assert found["adversarial"]["recall@10"] >= floors.adversarial
    assert found.tokens <= 550


def test_what_is_not_known_is_told_from_what_is_with_foreign_names_and_without(run: Run) -> None:
    floors, _, told = run
    assert [each["names"] for each in told] == [*floors.silence]
    for each in told:
        auroc, silent = floors.silence[each["names"]]
        assert each["auroc"] >= auroc, each
        assert each["silent"] >= silent, each
