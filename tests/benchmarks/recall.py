"""How much of the evidence the first ten hits hold, on each data set: what is kept offline, BM25, and each part of the ranking.

It reads the files in `../shared/data`; a data set that is not there is skipped, which stderr says. Differences are paired by
question; their unit holds the 95 % interval. An interval without 0 is a change.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from langmem_adapter.evaluation.runner import interval, recall, reciprocal_rank
from langmem_adapter.text import meaningful, words
from tests.benchmarks.measure import report
from tests.benchmarks.weights import FILES, Bench, Found, read

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from langmem_adapter.evaluation.questions import Dialogue

__all__ = ["bench_recall", "bm25"]

GOALS: Final[dict[str, tuple[Literal[">="], float]]] = {
    "locomo-dev recall@10": (">=", 0.79),
    "realtalk-dev recall@10": (">=", 0.59),
    "beam-dev recall@10": (">=", 0.6),
    "memdaily-dev recall@10": (">=", 0.935),
    "memdaily-dev MRR": (">=", 0.96),
}
PARTS: Final = ("related", "speaker", "time", "window")
K1, B = 1.2, 0.75


def bench_recall(*, quick: bool) -> None:
    """Print the lines of each data set that is there.

    Args:
        quick: Use two sessions of one short conversation of each, and three questions.
    """
    sets, users = read(), read(roles=("user",))
    for name in FILES:
        if name not in sets:
            print(f"recall, {name}: skipped, ../shared/data/{name}.json is not there", file=sys.stderr)  # noqa: T201 - this program prints
            continue
        talks, spoken = (_beginning(each) if quick else each for each in (sets[name], users[name]))
        with tempfile.TemporaryDirectory(prefix="langmem-recall-") as folder:
            _report_parts(name, talks, Path(folder))
        _report_offline(name, spoken)


def _size(talk: Dialogue) -> int:
    return talk.turns


def _beginning(talks: Sequence[Dialogue]) -> list[Dialogue]:
    shortest = min(talks, key=_size)
    questions = [question for question in shortest.questions if question.category != "adversarial"]
    return [replace(shortest, sessions=shortest.sessions[:2], questions=tuple(questions[:3]))]


def _bench(name: str, talks: Sequence[Dialogue], folder: Path, *, infer: bool = False) -> Bench:
    return Bench(folder, {name: talks}, "hash:512", infer=infer)


def _report_offline(name: str, talks: Sequence[Dialogue]) -> None:
    """What the offline default finds of the users' messages; of an assistant's it keeps tidy facts only."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        offline = _bench(name, talks, Path(one), infer=True)
        found, kept = offline.found({}), _bench(name, talks, Path(other)).found({})
    ratio = found.recall.mean() / max(kept.recall.mean(), 1e-9)
    report(f"recall, {name}, offline default to infer=False: recall@10", ratio, "x", (">=", 0.98))
    memories = offline.memories / sum(map(_size, talks))
    report(f"recall, {name}, offline default: memories per message", memories, "x", ("<=", 1.3))
    _report_change(f"recall, {name}, offline default beside infer=False", found, kept)
    _report_change(f"recall, {name}, BM25 with stop words beside offline default", bm25(talks), found)


def _report_parts(name: str, talks: Sequence[Dialogue], folder: Path) -> None:
    verbatim = _bench(name, talks, folder)
    found = verbatim.found({})
    for measure, values in (("recall@10", found.recall), ("MRR", found.first)):
        report(f"recall, {name}, infer=False: {measure}", values.mean(), "share", GOALS.get(f"{name} {measure}"))
    _report_change(f"recall, {name}, BM25 with stop words beside infer=False", bm25(talks), found)
    for part in PARTS:
        _report_change(f"recall, {name}, without {part}", verbatim.found({part: 0}), found)
    _report_change(f"recall, {name}, without words", verbatim.found({"words": 0}), found)
    _report_change(f"recall, {name}, without meaning", verbatim.found({"words": 1}), found)


def _report_change(name: str, found: Found, beside: Found) -> None:
    for measure, change in (("recall@10", found.recall - beside.recall), ("MRR", found.first - beside.first)):
        low, high = interval(change.tolist())
        report(f"{name}: {measure}", change.mean(), f"share, 95 % interval {low:+.3f} to {high:+.3f}")


def bm25(talks: Sequence[Dialogue]) -> Found:
    """What BM25 finds with stemmed words, stop words left out."""
    shares, firsts = [], []
    for talk in talks:
        turns = [turn for session in talk.sessions for turn in session.turns]
        texts = [Counter(_terms(turn.text)) for turn in turns]
        for question in talk.questions:
            if question.category == "adversarial":
                continue
            order = np.argsort(-_scores(texts, _terms(question.text)), kind="stable")[:10].tolist()
            best = [turns[place].id for place in order]
            ranks = sorted(best.index(piece) + 1 for piece in question.evidence if piece in best)
            shares.append(recall(ranks, len(question.evidence), 10))
            firsts.append(reciprocal_rank(ranks))
    return Found(np.array(shares), np.array(firsts))


def _terms(text: str) -> list[str]:
    terms = words(text)
    kept = meaningful(terms)
    return [term for term in terms if term in kept]


def _scores(texts: Sequence[Counter[str]], query: Sequence[str]) -> NDArray[np.float64]:
    lengths = np.array([text.total() for text in texts])
    scores = np.zeros(len(texts))
    for term in set(query):
        counts = np.array([text[term] for text in texts])
        holders = np.count_nonzero(counts)
        idf = math.log1p((len(texts) - holders + 0.5) / (holders + 0.5))
        scores += idf * counts * (K1 + 1) / (counts + K1 * (1 - B + B * lengths / max(1.0, lengths.mean())))
    return scores
