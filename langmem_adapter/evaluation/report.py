"""What a run measured: scores of each kind of question and of all, the size of the context, the time of a search."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.evaluation.datasets import OVERALL
from langmem_adapter.evaluation.metrics import ndcg, percentile, recall, reciprocal_rank
from langmem_adapter.evaluation.runner import CONTEXT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from langmem_adapter.evaluation.runner import Answer

__all__ = ["Report", "Scores", "missed", "summarise"]


@dataclass(frozen=True, slots=True)
class Scores:
    """Means over questions of one kind.

    Attributes:
        category: Which kind.
        questions: How many.
        recall: Recall by number of hits, in ascending order.
        mrr: Mean reciprocal rank among ten hits.
        ndcg: nDCG@10.
        apart: Not counted in the overall numbers.
    """

    category: str
    questions: int
    recall: Mapping[int, float]
    mrr: float
    ndcg: float
    apart: bool = False

    def to_json(self) -> dict[str, Any]:
        """As one flat row."""
        shares = {f"recall@{k}": round(value, 4) for k, value in self.recall.items()}
        measured = {**shares, "mrr": round(self.mrr, 4), f"ndcg@{CONTEXT}": round(self.ndcg, 4)}
        return {"category": self.category, "questions": self.questions, **measured, "apart": self.apart}


@dataclass(frozen=True, slots=True)
class Report:
    """What a run measured.

    Attributes:
        scores: By kind of question, then overall, then the kinds that are not counted in it.
        tokens: Tokens of ten hits as context, on average.
        p50: Median time of a search in milliseconds, embedding the question included.
        p95: Time that 95 of 100 searches stay within.
    """

    scores: tuple[Scores, ...]
    tokens: float
    p50: float
    p95: float

    def __getitem__(self, category: str) -> Scores:
        """The scores of one kind, or `"overall"`."""
        for scores in self.scores:
            if scores.category == category:
                return scores
        raise KeyError(category)

    def cost(self) -> dict[str, float]:
        """Context and time, as plain JSON types."""
        return {"context_tokens": round(self.tokens, 1), "p50_ms": round(self.p50, 2), "p95_ms": round(self.p95, 2)}


def summarise(answers: Sequence[Answer]) -> Report:
    """The report of a run.

    Raises:
        InvalidInputError: There are none.
    """
    if not answers:
        raise InvalidInputError("there is no question to measure with")
    times = [answer.milliseconds for answer in answers]
    tokens = fmean(answer.tokens for answer in answers)
    return Report(tuple(_scores(answers)), tokens, percentile(times, 0.5), percentile(times, 0.95))


def missed(answers: Iterable[Answer]) -> list[dict[str, Any]]:
    """Questions whose evidence is not all among ten hits, as plain JSON types."""
    return [
        {
            "where": answer.question.where,
            "question": answer.question.text,
            "category": answer.question.category,
            "pieces": answer.question.pieces,
            "ranks": list(answer.ranks[CONTEXT]),
        }
        for answer in answers
        if len(answer.ranks[CONTEXT]) < answer.question.pieces
    ]


def _scores(answers: Sequence[Answer]) -> Iterator[Scores]:
    together = [answer for answer in answers if not answer.question.apart]
    yield from _by_category(together)
    if together:
        yield _mean(OVERALL, together)
    yield from _by_category([answer for answer in answers if answer.question.apart])


def _by_category(answers: Sequence[Answer]) -> Iterator[Scores]:
    for category in sorted({answer.question.category for answer in answers} - {""}):
        yield _mean(category, [answer for answer in answers if answer.question.category == category])


def _mean(category: str, answers: Sequence[Answer]) -> Scores:
    of = [(answer.ranks, answer.question.pieces) for answer in answers]
    return Scores(
        category=category,
        questions=len(answers),
        recall={k: fmean(recall(ranks[k], pieces, k) for ranks, pieces in of) for k in sorted(answers[0].ranks)},
        mrr=fmean(reciprocal_rank(ranks[CONTEXT]) for ranks, _ in of),
        ndcg=fmean(ndcg(ranks[CONTEXT], pieces, CONTEXT) for ranks, pieces in of),
        apart=answers[0].question.apart,
    )
