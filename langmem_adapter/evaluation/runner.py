"""An evaluation run, its metrics (recall, MRR, abstention), its report, and the comparison with another run.

A hit is judged by the pieces of evidence that it brings. `ranks` holds, for each piece that was found, the rank (from 1) of
the first hit that brings it, in ascending order; pieces that were not found are missing from it.

A question about one conversation is asked of others, as it is, and with the names of its speakers replaced by the names of
those who speak there: only what was said can then tell that nothing is known.
"""

from __future__ import annotations

import json
import math
import re
import time
import unicodedata
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from operator import attrgetter
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from langchain_core.messages import HumanMessage
from langchain_core.messages.utils import count_tokens_approximately

from langmem_adapter.errors import InvalidInputError, MemoryNotFoundError
from langmem_adapter.evaluation.questions import OVERALL, read_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from langmem_adapter.evaluation.questions import Dialogue, EvalQuestion, Session
    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.records.results import Hit

_DRAWS: Final = 2_000


def recall(ranks: Sequence[int], pieces: int, k: int) -> float:
    """The share of the evidence, of 1 or more *pieces*, that is among the first *k* hits."""
    return sum(rank <= k for rank in ranks) / pieces


def reciprocal_rank(ranks: Sequence[int]) -> float:
    """One divided by the rank of the first hit with evidence, 0 where there is none; its mean is the MRR."""
    return 1 / ranks[0] if ranks else 0.0


def ndcg(ranks: Sequence[int], pieces: int, k: int = 10) -> float:
    """Normalised discounted cumulative gain of the first *k* hits, with binary relevance (Järvelin and Kekäläinen 2002).

    A memory that was made of several turns may bring several pieces at once: these count as if they came one right after
    the other, so that 1 stays the best there is. A second hit with a piece already found adds nothing.
    """
    last = gain = 0.0
    for rank in ranks:
        last = max(rank, last + 1)
        gain += 1 / math.log2(last + 1) if last <= k else 0
    return gain / sum(1 / math.log2(rank + 1) for rank in range(1, min(pieces, k) + 1))


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that at least so large a share (above 0) of all values does not exceed (nearest rank)."""
    return sorted(values)[math.ceil(share * len(values)) - 1]


def context_tokens(hits: Sequence[Hit]) -> int:
    """Tokens of a prompt's context that lists hits with date and speaker, by LangChain's approximate count.

    That count takes four characters for a token, which is about right for English and too few tokens for Chinese.
    """
    lines = (f"- {hit.item.created_at:%Y-%m-%d} {hit.item.actor_id or ''}: {hit.text}" for hit in hits)
    return count_tokens_approximately([HumanMessage("\n".join(lines))])


def auroc(own: Sequence[float], foreign: Sequence[float]) -> float:
    """The chance that a question of one's own scores higher than a foreign one; equal scores count half."""
    ordered = np.sort(foreign)
    below, up_to = (np.searchsorted(ordered, own, side) for side in ("left", "right"))
    return float(np.mean(below + up_to) / (2 * len(ordered)))


def silent(own: Sequence[float], foreign: Sequence[float], answered: float = 0.95) -> tuple[float, float]:
    """The highest threshold that keeps so large a share of one's own questions, and the share of foreign ones below it."""
    threshold = -percentile([-score for score in own], answered)
    return threshold, float(np.mean(np.asarray(foreign) < threshold))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Where the mean lies with 95 % confidence, by a bootstrap over the values with a fixed seed.

    Of differences between two runs, question by question, it is the paired interval: one without 0 is a change.
    """
    array = np.asarray(values, float)
    rng = np.random.default_rng(0)
    means = [array[rng.integers(0, len(array), len(array))].mean() for _ in range(_DRAWS)]
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


CONTEXT: Final = 10
"""Hits of the measured search: the default of `Memory.search`."""
BUDGET: Final = 500
"""Tokens of a smaller context, of which the evidence is measured, too."""
_MOST: Final = 100  # hits that `BUDGET` tokens may be filled with
_NAMED: Final = 5  # absent memories in one message


@dataclass(slots=True)
class MemoryOrigin:
    """Where a memory comes from: ids of the turns that it stands for, and the numbers of their sessions."""

    turns: set[str] = field(default_factory=set)
    sessions: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """The result of one question."""

    question: EvalQuestion
    # for each number of hits asked for, the ranks of the evidence among them; see `metrics`
    ranks: Mapping[int, tuple[int, ...]]
    sessions: tuple[int, ...] = ()  # the same for the sessions that hold the evidence, among ten hits
    within: tuple[int, ...] = ()  # the ranks of the evidence among the hits of a search for `BUDGET` tokens
    relevance: float = 0.0  # of the most relevant hit
    tokens: int = 0  # tokens of the ten hits as context
    milliseconds: float = 0.0  # time of the search for ten hits, embedding the question included


def ingest(
    memory: Memory,
    conversations: Sequence[Dialogue],
    *,
    infer: bool = False,
    progress: Callable[[int], object] = lambda _: None,
) -> dict[str, MemoryOrigin]:
    """Put conversations into a memory, one add per session; the conversation is the user, the speakers are actors.

    Each turn is kept word for word, and stands for itself. With *infer* facts are extracted: one counts for the turn that it
    was found in, and for every later one that says the same; an update for the turn that brought it alone: where it joined two,
    recall is a lower bound. *progress* is called with the number of turns of each session.

    Raises:
        InvalidInputError: The memory knows one of the users, or *infer* is given to a memory that keeps no traces.
    """
    users = {count.scope.user_id for count in memory.scopes()}
    if existing := [talk.id for talk in conversations if talk.id in users]:
        problem = f"{memory.location} has memories of {existing[0]} already"
        raise InvalidInputError(f"{problem}; measure in an empty database")
    sources: dict[str, MemoryOrigin] = defaultdict(MemoryOrigin)
    for conversation in conversations:
        for number, session in enumerate(conversation.sessions):
            messages = [{"role": turn.role, "content": turn.text, "name": turn.speaker} for turn in session.turns]
            result = memory.add(messages, user_id=conversation.id, timestamp=session.time, infer=infer)
            if infer:
                _trace(memory, result.trace_id, number, session, sources)
            else:
                for change, turn in zip(result.results, session.turns, strict=True):
                    sources[str(change.id)] = MemoryOrigin({turn.id}, {number})
            progress(len(session.turns))
    return dict(sources)


def _trace(
    memory: Memory, trace_id: str | None, number: int, session: Session, sources: dict[str, MemoryOrigin]
) -> None:
    if trace_id is None:
        raise InvalidInputError("the turn of a fact is read from traces, which are off: set trace_days above 0")
    trace = memory.trace(trace_id)
    for decision, change in zip(trace.decisions, trace.result.results, strict=True):
        if change.id is None or decision.fact is None:
            continue
        if change.event != "NONE":
            sources[change.id] = MemoryOrigin()
        sources[change.id].turns.add(session.turns[trace.facts[decision.fact].turn].id)
        sources[change.id].sessions.add(number)


def check(memory: Memory, questions: Sequence[EvalQuestion]) -> None:
    """Raise an `InvalidInputError` where memories that questions expect are not there: they would only lower the numbers."""
    absent = []
    for question in questions:
        for memory_id in question.evidence:
            try:
                memory.get(memory_id, **question.scope.named)
            except MemoryNotFoundError:
                absent.append(f"{question.where}: {memory_id}")
    if absent:
        more = f", and {len(absent) - _NAMED} more" if len(absent) > _NAMED else ""
        raise InvalidInputError(f"no such memory in that scope: {'; '.join(absent[:_NAMED])}{more}")


def ask(
    memory: Memory,
    questions: Sequence[EvalQuestion],
    *,
    sources: Mapping[str, MemoryOrigin] | None = None,
    cuts: Sequence[int] = (5, 10, 20),
    progress: Callable[[int], object] = lambda _: None,
) -> list[QuestionResult]:
    """Search every question, once for each number of hits and once for `BUDGET` tokens.

    Args:
        memory: Where to search.
        questions: What to search.
        sources: What each memory stands for, as `ingest` gives it; without it each stands for itself.
        cuts: Numbers of hits.
        progress: Called with 1 after each question.
    """
    answers = []
    for question in questions:
        answers.append(_answer(memory, question, sources, cuts))
        progress(1)
    return answers


def best(hits: Sequence[Hit]) -> float:
    """The relevance of the most relevant hit: a threshold above it would have silenced all; 0 where there is none."""
    return max((hit.relevance for hit in hits), default=0.0)


def _answer(
    memory: Memory, question: EvalQuestion, sources: Mapping[str, MemoryOrigin] | None, cuts: Sequence[int]
) -> QuestionResult:
    how: dict[str, Any] = {**question.scope.named, "reference_date": question.time}
    began = time.perf_counter()
    context = memory.search(question.text, k=CONTEXT, **how)
    milliseconds = (time.perf_counter() - began) * 1_000
    lists = {k: context if k == CONTEXT else memory.search(question.text, k=k, **how) for k in {*cuts, CONTEXT}}
    return QuestionResult(
        question,
        {k: _ranks(_matches(question, hits, sources)) for k, hits in lists.items()},
        _ranks([[number in _source(hit, sources).sessions for hit in context] for number in question.sessions]),
        _ranks(_matches(question, memory.search(question.text, k=_MOST, max_tokens=BUDGET, **how), sources)),
        best(context),
        context_tokens(context),
        milliseconds,
    )


def _matches(
    question: EvalQuestion, hits: Sequence[Hit], sources: Mapping[str, MemoryOrigin] | None
) -> list[list[bool]]:
    """For each piece of evidence, whether each hit brings it."""
    turns = [_source(hit, sources).turns for hit in hits]
    texts = [_folded(hit.text) for hit in hits] if question.contains else []
    by_id = [[piece in each for each in turns] for piece in question.evidence]
    return by_id + [[_folded(piece) in text for text in texts] for piece in question.contains]


def _source(hit: Hit, sources: Mapping[str, MemoryOrigin] | None) -> MemoryOrigin:
    return MemoryOrigin({hit.id}) if sources is None else sources.get(hit.id, MemoryOrigin())


def _ranks(matches: Sequence[Sequence[bool]]) -> tuple[int, ...]:
    return tuple(sorted(list(each).index(True) + 1 for each in matches if True in each))


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


@dataclass(frozen=True, slots=True)
class Silence:
    """How well the relevance of the best hit separates own questions from foreign ones."""

    names: str  # `"as asked"`, or `"replaced"`
    own: int  # how many questions about the conversation itself there are
    foreign: int  # how many about others
    auroc: float  # the chance that a question about this user has the more relevant hit
    threshold: float  # the highest that answers 0.95 of the questions about this user
    silent: float  # the share of foreign ones that get nothing with it

    def to_json(self) -> dict[str, Any]:
        """As one flat row."""
        return {key: round(value, 4) if isinstance(value, float) else value for key, value in asdict(self).items()}


def silence(
    memory: Memory,
    conversations: Sequence[Dialogue],
    answers: Sequence[QuestionResult],
    *,
    others: int,
    progress: Callable[[int, int], object] = lambda *_: None,
) -> list[Silence]:
    """Ask each question of the *others* that follow its own conversation: as it is, and with all names of speakers replaced.

    The *memory* is what `runner.ingest` filled with these conversations; answers to questions apart are left out. *progress* is
    called with the number of questions that were asked, and that of all. There is a row for each way of asking; none without
    a user or a question, and no second where a speaker has no name.
    """
    own = [answer.relevance for answer in answers if not answer.question.apart]
    foreign = list(_foreign(conversations, answers, others))
    have_names = all(talk.speakers for talk in conversations)
    ways = (("as asked", "replaced") if have_names else ("as asked",)) if foreign else ()
    rows = []
    for way, names in enumerate(ways):
        scores = []
        for place, (text, theirs, ours) in enumerate(foreign, way * len(foreign) + 1):
            query = text if names == "as asked" else renamed(text, theirs.speakers, ours.speakers)
            scores.append(best(memory.search(query, user_id=ours.id, k=CONTEXT)))
            progress(place, len(ways) * len(foreign))
        rows.append(Silence(names, len(own), len(scores), auroc(own, scores), *silent(own, scores)))
    return rows


def renamed(text: str, theirs: Sequence[str], ours: Sequence[str]) -> str:
    """A text with the names of some speakers in the place of others, in order.

    Example:
        >>> renamed("Is Mira's cat older than Theo's?", ["Mira", "Theo"], ["Ada", "Ben"])
        "Is Ada's cat older than Ben's?"
    """
    names = {name: ours[place % len(ours)] for place, name in enumerate(theirs)}
    pattern = "|".join(map(re.escape, names))
    return re.sub(rf"(?<![A-Za-z])(?:{pattern})(?![A-Za-z])", lambda match: names[match[0]], text)


def _foreign(
    conversations: Sequence[Dialogue], answers: Sequence[QuestionResult], others: int
) -> Iterator[tuple[str, Dialogue, Dialogue]]:
    """Questions with the conversation that they are about, and another that they are asked of."""
    for place, theirs in enumerate(conversations):
        following = [*conversations[place + 1 :], *conversations[:place]][:others]
        questions = [each.question for each in answers if each.question.scope.user_id == theirs.id]
        yield from ((question.text, theirs, ours) for ours in following for question in questions if not question.apart)


# ── report ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Measured:
    """One question (see `EvalQuestion`), the ranks of its evidence among ten hits, and the metrics that `measured` gives."""

    where: str
    question: str
    scope: str
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
    """The results of a run."""

    questions: tuple[Measured, ...]  # one by one
    scores: tuple[Means, ...]  # by kind of question, then overall, then the kinds that are not counted in it
    conversations: tuple[Means, ...]  # by conversation; of the questions that are counted
    intervals: Mapping[str, tuple[float, float]]  # where each overall mean lies with 95 % confidence
    tokens: float  # tokens of ten hits as context, on average
    p50: float  # median time of a search in milliseconds, embedding the question included
    p95: float  # time that 95 of 100 searches stay within

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
    scope = " ".join(question.scope.named.values())
    return Measured(
        question.where, question.text, scope, question.category, question.apart, question.pieces, ten, metrics
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
        tuple(_grouped(together, attrgetter("scope"))),
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
    earlier = {(each.scope, each.question): each for each in before}
    counted = [each for each in now if not each.apart]
    pairs = [(each, earlier[key]) for each in counted if (key := (each.scope, each.question)) in earlier]
    if not pairs:
        raise InvalidInputError("the two runs have no question in common; measure on the same file")
    new, old = _columns([each for each, _ in pairs]), _columns([each for _, each in pairs])
    return [_difference(metric, values, old[metric]) for metric, values in new.items() if metric in old]


def _difference(metric: str, now: Sequence[float], before: Sequence[float]) -> dict[str, Any]:
    change = [value - old for value, old in zip(now, before, strict=True)]
    mean, low, high = (round(number, 4) for number in (fmean(change), *interval(change)))
    return {"metric": metric, "questions": len(change), "difference": mean, "low": low, "high": high}
