"""What each weight of a search is worth, and which values conversations choose that are judged by none of their own questions.

    $ python tests/benchmarks/weights.py static

It reads LoCoMo, REALTALK, MemoryBank, MemDaily and the users' messages of BEAM (`../shared/data`). For each weight it prints
what a search loses without it, and which value is best on all data sets but one, for each one in turn: a weight that changes
with the data set left out is chance. Last, how well the values chosen so do on the data sets left out, beside the defaults.

The weight of the graph is not among them: these conversations are kept word for word, which makes no graph.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a program, its neighbours are found all the same
from langmem_adapter.evaluation.questions import read_conversations
from langmem_adapter.evaluation.runner import ingest, interval, recall, reciprocal_rank
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.ranking import Ranking
from langmem_adapter.settings import Settings
from tests.beside import DATA

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.embeddings import Embeddings
    from numpy.typing import NDArray

    from langmem_adapter.evaluation.questions import Dialogue

    Values = Mapping[str, float]

__all__ = ["FILES", "Bench", "Found", "read", "told"]

FILES: Final = ("locomo-dev", "realtalk-dev", "beam-dev", "memorybank-en", "memorybank-zh", "memdaily-dev")
TRIED: Final[Mapping[str, tuple[float, ...]]] = {
    "words": (0.5, 0.6, 0.65, 0.68, 0.7, 0.75, 0.8),
    "related": (0, 0.2, 0.4, 0.6),
    "speaker": (0, 0.2, 0.25, 0.3, 0.35, 0.4),
    "time": (0, 0.2, 0.3, 0.4),
    "window": (0, 0.3, 0.4, 0.5, 0.6, 1),
}


def read(folder: Path = DATA, *, roles: Sequence[str] = ("user", "assistant")) -> dict[str, list[Dialogue]]:
    """The messages of these roles of each data set; of BEAM always the users', its answers are long."""
    return {
        name: read_conversations(folder / f"{name}.json", roles=("user",) if name == "beam-dev" else roles)
        for name in FILES
        if (folder / f"{name}.json").exists()
    }


@dataclass(frozen=True)
class Found:
    """What each question found: the share of its evidence among ten hits, and one by the rank of the first; shape (n,)."""

    recall: NDArray[np.float64]
    first: NDArray[np.float64]


class Bench:
    """Conversations in a database, which is searched with one ranking after another.

    Args:
        folder: Where the database is made.
        sets: Conversations by data set.
        embeddings: By whose vectors.
        infer: Keep what the offline mode makes of the messages, not the messages themselves.
    """

    def __init__(
        self, folder: Path, sets: Mapping[str, Sequence[Dialogue]], embeddings: str | Embeddings, *, infer: bool = False
    ) -> None:
        self._path, self._embeddings, self._trace_days = folder / "weights.db", embeddings, int(infer)
        named = [
            (name, question)
            for name, conversations in sets.items()
            for conversation in conversations
            for question in conversation.questions
            if question.category != "adversarial"
        ]
        self.questions = [question for _, question in named]
        self.sets = np.array([name for name, _ in named])
        self.folds = np.array(
            [name.partition("-")[0] for name in self.sets.tolist()]
        )  # MemoryBank's two are one data set
        self._kept: dict[tuple[tuple[str, float], ...], Found] = {}
        with self._memory(Ranking()) as memory:
            every = [each for conversations in sets.values() for each in conversations]
            self._sources = ingest(memory, every, infer=infer)
            self.memories = memory.stats().memories
            suited = Ranking().suited(memory.parts.fingerprint)
        self.defaults: Values = {name: getattr(suited, name) for name in TRIED}

    def found(self, values: Values) -> Found:
        """What all questions find with some weights, the rest at their defaults."""
        key = tuple(sorted({**self.defaults, **values}.items()))
        if key not in self._kept:
            with self._memory(Ranking(**dict(key))) as memory:
                self._kept[key] = self._ask(memory)
        return self._kept[key]

    def worth(self, found: Found, of: NDArray[np.bool_]) -> float:
        """How good it is for some questions: the mean of both measures, each data set counting alike."""
        both = (found.recall + found.first) / 2
        return float(np.mean([both[of & (self.sets == name)].mean() for name in np.unique(self.sets[of])]))

    def chosen(self, fold: str) -> dict[str, float]:
        """The best value of each weight, the others at their defaults, for all data sets but one; of equals the default."""
        rest = self.folds != fold
        return {
            name: max(values, key=lambda v: (self.worth(self.found({name: v}), rest), v == self.defaults[name]))
            for name, values in TRIED.items()
        }

    def _memory(self, ranking: Ranking) -> Memory:
        return Memory(
            self._path, embeddings=self._embeddings, settings=Settings(ranking=ranking, trace_days=self._trace_days)
        )

    def _ask(self, memory: Memory) -> Found:
        shares, firsts = [], []
        for question in self.questions:
            hits = memory.search(question.text, user_id=question.scope.user_id, reference_date=question.time)
            turns = [self._sources[hit.id].turns for hit in hits]
            held = [[piece in brought for brought in turns] for piece in question.evidence]
            ranks = sorted(each.index(True) + 1 for each in held if True in each)
            shares.append(recall(ranks, len(question.evidence), 10))
            firsts.append(reciprocal_rank(ranks))
        return Found(np.array(shares), np.array(firsts))


def told(bench: Bench) -> list[str]:
    """What each weight is worth, what is chosen without each data set, and how that does on it."""
    folds = np.unique(bench.folds).tolist()
    chosen = {fold: bench.chosen(fold) for fold in folds}
    lines = [f"{name:14}{_means(bench, bench.found({}), name)}" for name in np.unique(bench.sets)]
    for name in TRIED:
        spread = ", ".join(
            f"{value:g} ({n})" for value, n in Counter(each[name] for each in chosen.values()).most_common()
        )
        lines += [f"{name:13}{bench.defaults[name]:<5g}chosen: {spread}"]
        lines += [f"    without it: {_lost(bench, name)}"] if 0 in TRIED[name] else []
    lost = {fold: (bench.found(values), bench.folds == fold) for fold, values in chosen.items()}
    ours = np.mean([bench.worth(bench.found({}), of) for _, of in lost.values()])
    return [
        *lines,
        f"left out: {np.mean([bench.worth(*each) for each in lost.values()]):.4f}, with the defaults {ours:.4f}",
    ]


def _means(bench: Bench, found: Found, name: str) -> str:
    of = bench.sets == name
    return f"recall@10 {found.recall[of].mean():.3f}  MRR {found.first[of].mean():.3f}  ({of.sum()} questions)"


def _lost(bench: Bench, weight: str) -> str:
    """What is lost without a weight, by data set; with a star where that is more than chance (a paired 95 % interval)."""
    with_it, without = bench.found({}), bench.found({weight: 0})
    parts = []
    for name in np.unique(bench.sets):
        of = bench.sets == name
        for measure, change in (("r", without.recall - with_it.recall), ("MRR", without.first - with_it.first)):
            low, high = interval(change[of].tolist())
            parts.append(f"{name} {measure} {change[of].mean():+.3f}{'*' if low > 0 or high < 0 else ''}")
    return "  ".join(parts)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="langmem-weights-") as place:
        print("\n".join(told(Bench(Path(place), read(), sys.argv[1] if len(sys.argv) > 1 else "hash:512"))))  # noqa: T201 - this program prints
