"""Whether a new fact meets the memory that it changes: the share of pairs whose old memory is shown to the chat model.

`data/` holds pairs of an old memory and a new fact that contradicts, refines or ends it, one JSON line each; in the first
half of each file the two share no word but a name. The old memory stands at any age among other memories of one person, none
of which the new fact concerns. The scripted model finds the fact as it was said, and says of it that it is known.

As a program of its own it measures other embeddings in whatever environment has them:
`python tests/benchmarks/candidates.py --embeddings huggingface:FOLDER_OF_THE_MODEL`.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a program, its neighbours are found all the same
from langmem_adapter.memory.memory import Memory
from langmem_adapter.settings import Settings
from langmem_adapter.testing import ScriptedChatModel
from tests.benchmarks.material import requested
from tests.benchmarks.measure import report

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "ASKED",
    "FEW",
    "LANGUAGES",
    "MANY",
    "QUICK_MANY",
    "QUICK_PAIRS",
    "Pair",
    "bench_candidates",
    "others_of",
    "pairs_of",
]

OFFLINE: Final = "hash"
OFFLINE_GOAL: Final = 0.65
MODEL_GOAL: Final = 0.93
LANGUAGES: Final = {"English": "en", "Chinese": "zh"}
MANY, FEW, QUICK_PAIRS, QUICK_MANY = 300, 20, 4, 40
SENT_BEFORE: Final = {
    "en": {40: 980, 1_000: 1_152},
    "zh": {40: 1_113, 1_000: 1_179},
}  # five memories shown for each fact
ASKED: Final = 20  # replies at hand for each fact, more than any way of deciding asks for
DATA: Final = Path(__file__).with_name("data")


@dataclass(frozen=True, slots=True)
class Pair:
    """What was known, what is said now, and what that does: it `"contradicts"`, `"refines"` or `"ends"` it."""

    old: str
    new: str
    kind: str


def bench_candidates(*, quick: bool, embeddings: str = OFFLINE) -> None:
    """Print, for each language, how many old memories are shown, and what else is shown with them.

    Args:
        quick: Use a few pairs and memories.
        embeddings: A name that `Memory` knows.
    """
    for language, code in LANGUAGES.items():
        pairs, others = pairs_of(code), others_of(code)
        if quick:
            pairs, others = pairs[:QUICK_PAIRS], others[:QUICK_MANY]
        few, many = (_shown(pairs, others[:count], embeddings) for count in (FEW, MANY))
        goal = OFFLINE_GOAL if embeddings == OFFLINE else MODEL_GOAL
        half = len(pairs) if quick else len(pairs) // 2
        whole = statistics.mean(map(len, many)) / (1 + len(others))
        told: dict[str, tuple[float, tuple[Literal[">="], float] | None]] = {
            "old memories shown of a scope that fits": (_share(pairs, few), (">=", 1)),
            "old memories shown of a large scope": (_share(pairs, many), (">=", goal)),
            "those that share no word with the fact but a name": (_share(pairs[:half], many[:half]), None),
            "of a large scope shown with each fact": (whole, None),
        }
        for name, (value, wanted) in told.items():
            report(f"candidates: {name}, {language}, {embeddings}", value, "share", wanted)
        for count, before in SENT_BEFORE[code].items():
            if not quick or count < MANY:
                value, name = (
                    _sent(pairs[:FEW], others, count, embeddings),
                    f"candidates: tokens sent per add, {language}",
                )
                report(f"{name}, beside {count:,} memories", value, "tokens", ("<=", 2.5 * before))


def pairs_of(code: str) -> list[Pair]:
    """The pairs of a language."""
    lines = (DATA / f"pairs.{code}.jsonl").read_text(encoding="utf-8").splitlines()
    return [Pair(**json.loads(line)) for line in lines]


def others_of(code: str) -> list[str]:
    """Memories of the same person that no pair concerns."""
    return (DATA / f"others.{code}.txt").read_text(encoding="utf-8").splitlines()


def _shown(pairs: Sequence[Pair], others: Sequence[str], embeddings: str) -> list[set[str]]:
    """For each pair the memories that were shown, of a scope with its old memory somewhere among the others."""
    dice = random.Random(13)
    model = ScriptedChatModel(replies=[_answer] * (ASKED * len(pairs)))
    seen: list[set[str]] = []
    with Memory(":memory:", model=model, embeddings=embeddings, settings=Settings(trace_days=0)) as memory:
        for number, pair in enumerate(pairs):
            user, place = f"pair {number}", dice.randint(0, len(others))
            texts = [*others[:place], pair.old, *others[place:]]
            memory.add_many([{"messages": text, "infer": False, "user_id": user} for text in texts])
            before = len(model.calls)
            memory.add(pair.new, user_id=user)
            requests = [requested(messages) for messages in model.calls[before:]]
            seen.append({known["text"] for request in requests for known in request.get("memories", ())})
    return seen


def _sent(pairs: Sequence[Pair], others: Sequence[str], count: int, embeddings: str) -> float:
    """Tokens sent per add, a quarter of the letters, where so many memories are known."""
    known = islice((f"{text} {turn}" for turn in range(count) for text in others), count)
    model = ScriptedChatModel(replies=[_answer] * (ASKED * len(pairs)))
    with Memory(":memory:", model=model, embeddings=embeddings, settings=Settings(trace_days=0)) as memory:
        memory.add_many([{"messages": text, "infer": False, "user_id": "one"} for text in known])
        return statistics.mean(memory.add(pair.new, user_id="one").usage.input_tokens for pair in pairs)


def _answer(messages: list[Any]) -> str:
    shown = requested(messages)
    if "conversation" in shown:
        return json.dumps({"facts": [turn["text"] for turn in shown["conversation"]]})
    known = shown["memories"][0]
    return json.dumps({"memory": [{"id": known["id"], "text": known["text"], "event": "NONE", "fact": 0}]})


def _share(pairs: Sequence[Pair], shown: Sequence[set[str]]) -> float:
    return statistics.mean(pair.old in texts for pair, texts in zip(pairs, shown, strict=True))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measures which memories a new fact is compared with.")
    parser.add_argument("--quick", action="store_true", help="see that it runs; the numbers mean nothing")
    parser.add_argument("--embeddings", default=OFFLINE, help="a name that Memory knows")
    given = parser.parse_args()
    bench_candidates(quick=given.quick, embeddings=given.embeddings)


if __name__ == "__main__":
    main()
