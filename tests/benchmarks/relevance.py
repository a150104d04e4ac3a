"""What each number of relevance is worth, and where the threshold of prompts lies.

    $ python tests/benchmarks/relevance.py static

It reads LoCoMo, MemoryBank and the users' turns of BEAM (`../shared/data`), and asks each conversation its own questions and
those of three others. For the numbers that are kept, and for each one a step up and down, it prints the area under the curve
(own questions against foreign ones, by the relevance of the best hit), the share of foreign questions below the threshold at
which .95 of the own are answered, and that threshold; "renamed" with the speakers of this conversation put in. Last,
how far that threshold moves with the conversation left out.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a program, its neighbours are found all the same
from langmem_adapter.evaluation.runner import auroc, best, ingest, renamed, silent
from langmem_adapter.memory.memory import Memory
from langmem_adapter.search import relevance
from tests.benchmarks.weights import read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from langmem_adapter.evaluation.questions import Dialogue

    Told = Mapping[str, Sequence[float]]

__all__ = ["table", "told"]

STEPS: Final = {
    "_WORDS": (0.7, 0.9),
    "_ALONE": (0.5, 0.7),
    "_RELATED": (0.3, 0.5),
    "_COMMON": (0.5, 1.5),
    "_BY_ANOTHER": (0.7, 1.0),
}
_OTHERS: Final = 3
_EVERY: Final = 3  # of their questions the first, the fourth …


def told(memory: Memory, conversation: Dialogue, others: Sequence[Dialogue]) -> dict[str, list[float]]:
    """The relevance of the best hit for a conversation's own questions, for foreign ones, and for these renamed."""

    def asked(question: str) -> float:
        return best(memory.search(question, user_id=conversation.id, k=10))

    foreign = [(other, each.text) for other in others for each in other.questions[::_EVERY] if not each.apart]
    named = [renamed(text, other.speakers, conversation.speakers) for other, text in foreign if other.speakers]
    return {
        "own": [asked(each.text) for each in conversation.questions if not each.apart],
        "foreign": [asked(text) for _, text in foreign],
        "renamed": [asked(text) for text in named],
    }


def _each(memory: Memory, conversations: Sequence[Dialogue]) -> Iterator[dict[str, list[float]]]:
    around = [*conversations, *conversations]
    for place, conversation in enumerate(conversations, 1):
        yield told(memory, conversation, around[place : place + min(_OTHERS, len(conversations) - 1)])


def _joined(runs: Sequence[Told]) -> dict[str, list[float]]:
    return {kind: [score for run in runs for score in run[kind]] for kind in ("own", "foreign", "renamed")}


def _line(name: str, scores: Told) -> str:
    ways = [(kind, scores[kind]) for kind in ("foreign", "renamed") if scores[kind]]
    shown = [
        f"{kind} {auroc(scores['own'], each):.3f}, silent {silent(scores['own'], each)[1]:.3f}" for kind, each in ways
    ]
    return f"  {name:18} {' · '.join(shown)} · threshold {silent(scores['own'], scores['foreign'])[0]:.2f}"


def table(name: str, conversations: Sequence[Dialogue], embeddings: str) -> Iterator[str]:
    """The lines for one data set and one kind of embeddings."""
    yield f"{name}, {embeddings}"
    with Memory(":memory:", embeddings=embeddings) as memory:
        ingest(memory, conversations)
        runs = list(_each(memory, conversations))
        yield _line("as it is", _joined(runs))
        for number, value in ((number, value) for number, values in STEPS.items() for value in values):
            with patch.object(relevance, number, value):
                yield _line(f"{number} {value:g}", _joined(list(_each(memory, conversations))))
    left = [_joined([*runs[:out], *runs[out + 1 :]]) for out in range(len(runs))]
    at = sorted(silent(scores["own"], scores["foreign"])[0] for scores in left)
    yield f"  with any one conversation left out the threshold is {at[0]:.2f} to {at[-1]:.2f}"


if __name__ == "__main__":
    given = sys.argv[1] if len(sys.argv) > 1 else "hash:512"
    for line in (line for name, conversations in read().items() for line in table(name, conversations, given)):
        print(line)  # noqa: T201 - this program prints
