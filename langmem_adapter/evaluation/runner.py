"""An evaluation run, its metrics (recall, MRR, abstention), its report, and the comparison with another run.

Ranks are those (from 1) of the first hit that brings a piece of evidence, ascending, without the pieces that were not found.
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
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from langmem_adapter.evaluation.questions import Dialogue, EvalQuestion, Session
    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.records.results import Hit

CONTEXT: Final = 10
"""Hits of the measured search: the default of `Memory.search`."""
BUDGET: Final = 500
"""Tokens of a smaller context, of which the evidence is measured, too."""
_MOST: Final = 100  # hits that `BUDGET` tokens may be filled with
_NAMED: Final = 5  # absent memories in one message
_DRAWS: Final = 2_000


def recall(ranks: Sequence[int], pieces: int, k: int) -> float:
    """The share of the evidence, of 1 or more *pieces*, that is among the first *k* hits."""
    return sum(rank <= k for rank in ranks) / pieces


def reciprocal_rank(ranks: Sequence[int]) -> float:
    """One divided by the rank of the first hit with evidence, 0 where there is none; its mean is the MRR."""
    return 1 / ranks[0] if ranks else 0.0


def ndcg(ranks: Sequence[int], pieces: int, k: int = CONTEXT) -> float:
    """Normalised discounted cumulative gain of the first *k* hits, with binary relevance (Järvelin and Kekäläinen 2002)."""
    last = gain = 0.0
    for rank in ranks:
        last = max(rank, last + 1)  # several pieces in one hit count as if they came one right after the other
        gain += 1 / math.log2(last + 1) if last <= k else 0
    return gain / sum(1 / math.log2(rank + 1) for rank in range(1, min(pieces, k) + 1))


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that at least so large a share (above 0) of all values does not exceed (nearest rank)."""
    return sorted(values)[math.ceil(share * len(values)) - 1]


def context_tokens(hits: Sequence[Hit]) -> int:
    """Tokens of a prompt's context that lists hits with date and speaker, at four characters a token."""
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
    """Where the mean lies with 95 % confidence, by a bootstrap over the values with a fixed seed."""
    array = np.asarray(values, float)
    rng = np.random.default_rng(0)
    means = [array[rng.integers(0, len(array), len(array))].mean() for _ in range(_DRAWS)]
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


@dataclass(slots=True)
class MemoryOrigin:
    """Where a memory comes from: ids of the turns that it stands for, and the numbers of their sessions."""

    turns: set[str] = field(default_factory=set)
    sessions: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """A question (see `EvalQuestion`) and what was found for it."""

    where: str
    question: str
    scope: str
    category: str
    apart: bool
    pieces: int
    ranks: tuple[int, ...]  # of the evidence among ten hits
    metrics: Mapping[str, float]
    relevance: float = 0.0  # of the most relevant hit
    tokens: int = 0  # of the ten hits as context
    milliseconds: float = 0.0  # of the search for ten hits, embedding the question included

    @property
    def missed(self) -> bool:
        """Whether some of the evidence is not among ten hits."""
        return len(self.ranks) < self.pieces


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
    """Search every question, once for each number of hits in *cuts* and once for `BUDGET` tokens.

    *sources* says what each memory stands for, as `ingest` returns it; without it each stands for itself. *progress* is called
    with 1 after each question.
    """
    results = []
    for question in questions:
        results.append(_ask(memory, question, sources, cuts))
        progress(1)
    return results


def best(hits: Sequence[Hit]) -> float:
    """The relevance of the most relevant hit: a threshold above it would have silenced all; 0 where there is none."""
    return max((hit.relevance for hit in hits), default=0.0)


def _ask(
    memory: Memory, question: EvalQuestion, sources: Mapping[str, MemoryOrigin] | None, cuts: Sequence[int]
) -> QuestionResult:
    how: dict[str, Any] = {**question.scope.named, "reference_date": question.time}
    began = time.perf_counter()
    ten = memory.search(question.text, k=CONTEXT, **how)
    milliseconds = (time.perf_counter() - began) * 1_000
    metrics = {}
    for k in sorted({*cuts, CONTEXT}):
        hits = ten if k == CONTEXT else memory.search(question.text, k=k, **how)
        metrics[f"recall@{k}"] = recall(_ranks(question, hits, sources), question.pieces, k)
    ranks = _ranks(question, ten, sources)
    metrics |= {"mrr": reciprocal_rank(ranks), f"ndcg@{CONTEXT}": ndcg(ranks, question.pieces)}
    small = memory.search(question.text, k=_MOST, max_tokens=BUDGET, **how)
    metrics[f"recall@{BUDGET} tokens"] = len(_ranks(question, small, sources)) / question.pieces
    if question.sessions:
        sessions = [_origin(hit, sources).sessions for hit in ten]
        first = _first_hits([number in each for each in sessions] for number in question.sessions)
        metrics["session recall"] = recall(first, len(question.sessions), CONTEXT)
        metrics["first session"] = float(first[:1] == (1,))
    return QuestionResult(
        question.where,
        question.text,
        " ".join(question.scope.named.values()),
        question.category,
        question.apart,
        question.pieces,
        ranks,
        metrics,
        best(ten),
        context_tokens(ten),
        milliseconds,
    )


def _ranks(question: EvalQuestion, hits: Sequence[Hit], sources: Mapping[str, MemoryOrigin] | None) -> tuple[int, ...]:
    turns = [_origin(hit, sources).turns for hit in hits]
    texts = [_folded(hit.text) for hit in hits] if question.contains else []
    by_id = [[piece in each for each in turns] for piece in question.evidence]
    return _first_hits(by_id + [[_folded(piece) in text for text in texts] for piece in question.contains])


def _first_hits(matches: Iterable[list[bool]]) -> tuple[int, ...]:
    """The ranks, where *matches* has for each piece of evidence whether each hit brings it."""
    return tuple(sorted(each.index(True) + 1 for each in matches if True in each))


def _origin(hit: Hit, sources: Mapping[str, MemoryOrigin] | None) -> MemoryOrigin:
    return MemoryOrigin({hit.id}) if sources is None else sources.get(hit.id, MemoryOrigin())


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def silence(
    memory: Memory,
    conversations: Sequence[Dialogue],
    results: Sequence[QuestionResult],
    *,
    others: int,
    progress: Callable[[int, int], object] = lambda *_: None,
) -> list[dict[str, Any]]:
    """Ask each question of the *others* that follow its own conversation: as it is, and with all names of speakers replaced.

    The *memory* is what `ingest` filled with these conversations; results of questions apart are left out. *progress* is
    called with the number of questions that were asked, and that of all. There is a row for each way of asking: the AUROC of
    the relevance of the best hit, the `threshold` that answers 0.95 of the user's questions, the share `silent` with it. None
    without a user or a question, and no second where a speaker has no name: only what was said could tell.
    """
    own = [result.relevance for result in results if not result.apart]
    foreign = list(_foreign(conversations, results, others))
    have_names = all(talk.speakers for talk in conversations)
    ways = (("as asked", "replaced") if have_names else ("as asked",)) if foreign else ()
    rows = []
    for way, names in enumerate(ways):
        scores = []
        for place, (text, theirs, ours) in enumerate(foreign, way * len(foreign) + 1):
            query = text if names == "as asked" else renamed(text, theirs.speakers, ours.speakers)
            scores.append(best(memory.search(query, user_id=ours.id, k=CONTEXT)))
            progress(place, len(ways) * len(foreign))
        threshold, share = silent(own, scores)
        values = {"auroc": auroc(own, scores), "threshold": threshold, "silent": share}
        rows.append({"names": names, "own": len(own), "foreign": len(scores), **_rounded(values)})
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
    conversations: Sequence[Dialogue], results: Sequence[QuestionResult], others: int
) -> Iterator[tuple[str, Dialogue, Dialogue]]:
    """Questions with the conversation that they are about, and another that they are asked of."""
    for place, theirs in enumerate(conversations):
        following = [*conversations[place + 1 :], *conversations[:place]][:others]
        questions = [each.question for each in results if each.scope == theirs.id and not each.apart]
        yield from ((question, theirs, ours) for ours in following for question in questions)


@dataclass(frozen=True, slots=True)
class Report:
    """The results of a run; rows have `category`, `questions`, a mean for each metric, and `apart`."""

    questions: Sequence[QuestionResult]
    scores: list[dict[str, Any]]  # by kind of question, then overall, then the kinds that are not counted in it
    conversations: list[dict[str, Any]]  # by conversation; of the questions that are counted
    intervals: Mapping[str, tuple[float, float]]  # where each overall mean lies with 95 % confidence
    tokens: float  # tokens of ten hits as context, on average
    p50: float  # median time of a search in milliseconds, embedding the question included
    p95: float  # time that 95 of 100 searches stay within

    def __getitem__(self, category: str) -> dict[str, Any]:
        """The row of one kind, or `"overall"`."""
        return {row["category"]: row for row in self.scores}[category]

    def to_json(self) -> dict[str, Any]:
        """All but the scores, as plain JSON types."""
        return {
            "intervals": {metric: [round(end, 4) for end in ends] for metric, ends in self.intervals.items()},
            "conversations": self.conversations,
            "context_tokens": round(self.tokens, 1),
            "p50_ms": round(self.p50, 2),
            "p95_ms": round(self.p95, 2),
            "questions": [asdict(question) for question in self.questions],
        }


def summarise(results: Sequence[QuestionResult]) -> Report:
    """The report of a run, which has to have results: else an `InvalidInputError`."""
    if not results:
        raise InvalidInputError("there is no question to measure with")
    together, apart = ([each for each in results if each.apart == is_apart] for is_apart in (False, True))
    overall = [_means(OVERALL, together)] if together else []
    times = [result.milliseconds for result in results]
    return Report(
        results,
        [*_grouped(together, "category"), *overall, *_grouped(apart, "category")],
        _grouped(together, "scope"),
        {metric: interval(values) for metric, values in _columns(together).items()},
        fmean(result.tokens for result in results),
        percentile(times, 0.5),
        percentile(times, 0.95),
    )


def _grouped(results: Sequence[QuestionResult], field: str) -> list[dict[str, Any]]:
    group = attrgetter(field)
    names = sorted({group(result) for result in results} - {""})
    return [_means(name, [result for result in results if group(result) == name]) for name in names]


def _means(name: str, results: Sequence[QuestionResult]) -> dict[str, Any]:
    means = _rounded({metric: fmean(values) for metric, values in _columns(results).items()})
    return {"category": name, "questions": len(results), **means, "apart": results[0].apart}


def _columns(results: Sequence[QuestionResult]) -> dict[str, list[float]]:
    """The values of each metric that all have."""
    every = [each.metrics for each in results]
    shared = [metric for metric in next(iter(every), {}) if all(metric in metrics for metrics in every)]
    return {metric: [metrics[metric] for metrics in every] for metric in shared}


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in values.items()}


def read_run(path: Path) -> list[QuestionResult]:
    """The questions of an earlier run, from what it said with `--json`; an `InvalidInputError` where the file is none."""
    text = read_text(path)
    try:
        return [QuestionResult(**{**row, "ranks": tuple(row["ranks"])}) for row in json.loads(text)["questions"]]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InvalidInputError(
            f"{path} is no earlier run: write it with `langmem-adapter eval … --json > {path}`"
        ) from error


def differences(now: Sequence[QuestionResult], before: Sequence[QuestionResult]) -> list[dict[str, Any]]:
    """How much better each metric is than in an earlier run: the mean over the questions that both asked.

    The `difference` of a row lies between `low` and `high` with 95 % confidence. Questions apart do not count.
    """
    earlier = {(each.scope, each.question): each for each in before}
    counted = [each for each in now if not each.apart]
    pairs = [(each, earlier[key]) for each in counted if (key := (each.scope, each.question)) in earlier]
    if not pairs:
        raise InvalidInputError("the two runs have no question in common; measure on the same file")
    new, old = _columns([each for each, _ in pairs]), _columns([each for _, each in pairs])
    rows = []
    for metric in (metric for metric in new if metric in old):
        change = [value - earlier for value, earlier in zip(new[metric], old[metric], strict=True)]
        low, high = interval(change)
        values = _rounded({"difference": fmean(change), "low": low, "high": high})
        rows.append({"metric": metric, "questions": len(change), **values})
    return rows
