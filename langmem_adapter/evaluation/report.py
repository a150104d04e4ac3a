"""Report of an evaluation run: means by kind of question and by conversation, and the comparison with another run."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from operator import attrgetter
from statistics import fmean
from typing import TYPE_CHECKING, Any

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.evaluation.questions import OVERALL, read_text
from langmem_adapter.evaluation.runner import BUDGET, CONTEXT, interval, ndcg, percentile, recall, reciprocal_rank

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from langmem_adapter.evaluation.runner import QuestionResult


@dataclass(frozen=True, slots=True)
class Measured:
    """One question (see `EvalQuestion`), the ranks of its evidence among ten hits, and the metrics that `measured` gives."""

    where: str
    question: str
    whose: str
    category: str
    apart: bool
    pieces: int
    ranks: tuple[int, ...]
    metrics: Mapping[str, float]

    @property
    def missed(self) -> bool:
        """Whether some of the evidence is not among ten hits."""
        return len(self.ranks) < self.pieces


@dataclass(frozen=True, slots=True)
class Means:
    """Means of the metrics over questions of one category, or of one conversation."""

    category: str
    questions: int
    means: Mapping[str, float]
    apart: bool = False

    def __getitem__(self, metric: str) -> float:
        """The mean of one metric."""
        return self.means[metric]

    def to_json(self) -> dict[str, Any]:
        """As one flat row."""
        means = {metric: round(mean, 4) for metric, mean in self.means.items()}
        return {"category": self.category, "questions": self.questions, **means, "apart": self.apart}


@dataclass(frozen=True, slots=True)
class Report:
    """The results of a run.

    Attributes:
        questions: One by one.
        scores: By kind of question, then overall, then the kinds that are not counted in it.
        conversations: By conversation; of the questions that are counted.
        intervals: Where each overall mean lies with 95 % confidence.
        tokens: Tokens of ten hits as context, on average.
        p50: Median time of a search in milliseconds, embedding the question included.
        p95: Time that 95 of 100 searches stay within.
    """

    questions: tuple[Measured, ...]
    scores: tuple[Means, ...]
    conversations: tuple[Means, ...]
    intervals: Mapping[str, tuple[float, float]]
    tokens: float
    p50: float
    p95: float

    def __getitem__(self, category: str) -> Means:
        """The scores of one kind, or `"overall"`."""
        return {scores.category: scores for scores in self.scores}[category]

    def to_json(self) -> dict[str, Any]:
        """All but the scores, as plain JSON types."""
        return {
            "intervals": {metric: [round(end, 4) for end in ends] for metric, ends in self.intervals.items()},
            "conversations": [scores.to_json() for scores in self.conversations],
            "context_tokens": round(self.tokens, 1),
            "p50_ms": round(self.p50, 2),
            "p95_ms": round(self.p95, 2),
            "questions": [asdict(question) for question in self.questions],
        }


def measured(answer: QuestionResult) -> Measured:
    """The metrics of an answer.

    Beside those of `runner`: `session recall`, the share of the evidence's sessions among ten hits, and `first session`,
    whether the first hit comes from one of them, for evidence in a conversation; `recall@500 tokens`, the recall of a search
    with this `max_tokens`.
    """
    question, ten = answer.question, answer.ranks[CONTEXT]
    metrics = {f"recall@{k}": recall(ranks, question.pieces, k) for k, ranks in sorted(answer.ranks.items())}
    metrics["mrr"] = reciprocal_rank(ten)
    metrics[f"ndcg@{CONTEXT}"] = ndcg(ten, question.pieces, CONTEXT)
    metrics[f"recall@{BUDGET} tokens"] = len(answer.within) / question.pieces
    if question.sessions:
        metrics["session recall"] = recall(answer.sessions, len(question.sessions), CONTEXT)
        metrics["first session"] = float(answer.sessions[:1] == (1,))
    whose = " ".join(question.scope.named.values())
    return Measured(
        question.where, question.text, whose, question.category, question.apart, question.pieces, ten, metrics
    )


def summarise(answers: Sequence[QuestionResult]) -> Report:
    """The report of a run, which has to have answers: else an `InvalidInputError`."""
    if not answers:
        raise InvalidInputError("there is no question to measure with")
    questions = tuple(map(measured, answers))
    together, apart = ([each for each in questions if each.apart == left_out] for left_out in (False, True))
    times = [answer.milliseconds for answer in answers]
    return Report(
        questions,
        tuple(_scores(together, apart)),
        tuple(_grouped(together, attrgetter("whose"))),
        {metric: interval(values) for metric, values in _columns(together).items()},
        fmean(answer.tokens for answer in answers),
        percentile(times, 0.5),
        percentile(times, 0.95),
    )


def _scores(together: Sequence[Measured], apart: Sequence[Measured]) -> Iterator[Means]:
    yield from _grouped(together, attrgetter("category"))
    if together:
        yield _means(OVERALL, together)
    yield from _grouped(apart, attrgetter("category"))


def _grouped(questions: Sequence[Measured], group: Callable[[Measured], str]) -> Iterator[Means]:
    for name in sorted({group(question) for question in questions} - {""}):
        yield _means(name, [question for question in questions if group(question) == name])


def _means(name: str, questions: Sequence[Measured]) -> Means:
    means = {metric: fmean(values) for metric, values in _columns(questions).items()}
    return Means(name, len(questions), means, questions[0].apart)


def _columns(questions: Sequence[Measured]) -> dict[str, list[float]]:
    """The values of each metric that all have."""
    every = [each.metrics for each in questions]
    shared = [metric for metric in next(iter(every), {}) if all(metric in metrics for metrics in every)]
    return {metric: [metrics[metric] for metrics in every] for metric in shared}


# ── beside another run ────────────────────────────────────────────────────────────────────────────────────────────────


def read_run(path: Path) -> list[Measured]:
    """The questions of an earlier run, from what it said with `--json`; an `InvalidInputError` where the file is none."""
    text = read_text(path)
    try:
        rows = json.loads(text)["questions"]
        return [Measured(**{**row, "ranks": tuple(row["ranks"])}) for row in rows]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InvalidInputError(
            f"{path} is no earlier run: write it with `langmem-adapter eval … --json > {path}`"
        ) from error


def differences(now: Sequence[Measured], before: Sequence[Measured]) -> list[dict[str, Any]]:
    """How much better each metric is than in an earlier run: the mean over the questions that both asked, question by question.

    Each row has `low` and `high`, between which the `difference` lies with 95 % confidence. Questions apart do not count.

    Raises:
        InvalidInputError: The two have no question in common.
    """
    earlier = {(each.whose, each.question): each for each in before}
    counted = [each for each in now if not each.apart]
    pairs = [(each, earlier[key]) for each in counted if (key := (each.whose, each.question)) in earlier]
    if not pairs:
        raise InvalidInputError("the two runs have no question in common; measure on the same file")
    new, old = _columns([each for each, _ in pairs]), _columns([each for _, each in pairs])
    return [_difference(metric, values, old[metric]) for metric, values in new.items() if metric in old]


def _difference(metric: str, now: Sequence[float], before: Sequence[float]) -> dict[str, Any]:
    change = [value - old for value, old in zip(now, before, strict=True)]
    mean, low, high = (round(number, 4) for number in (fmean(change), *interval(change)))
    return {"metric": metric, "questions": len(change), "difference": mean, "low": low, "high": high}
