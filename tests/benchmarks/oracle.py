"""What a chat model that is never wrong leaves wrong behind, because of what it was not shown or how its reply was read.

The pairs of `candidates` are told one after the other: what was known, what is said now, and that again in other words. The
scripted model answers by the pairs alone: what it is shown of a pair it judges rightly, of what it is not shown it knows
nothing. So every fact that ends as NONE without a memory that says it, and every pair of which two memories stand in the end,
is the engine's doing.
"""

from __future__ import annotations

import json
import random
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.memory.memory import Memory
from langmem_adapter.settings import Settings
from langmem_adapter.testing import ScriptedChatModel
from tests.benchmarks.candidates import ASKED, FEW, LANGUAGES, MANY, QUICK_MANY, QUICK_PAIRS, others_of, pairs_of
from tests.benchmarks.material import requested
from tests.benchmarks.measure import report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.benchmarks.candidates import Pair

__all__ = ["bench_oracle"]

AGAIN: Final = "As was said: "


@dataclass(frozen=True, slots=True)
class Told:
    """What came of telling the pairs.

    Attributes:
        false_none: Share of the facts that ended as NONE though no memory says them.
        duplicates: Share of the pairs of which more than one memory stands.
    """

    false_none: float
    duplicates: float


def bench_oracle(*, quick: bool) -> None:
    """Print both shares for each language, for scopes that fit and large ones, without a graph and with one.

    Args:
        quick: Use a few pairs and memories.
    """
    for language, code in LANGUAGES.items():
        pairs, others = pairs_of(code), others_of(code)
        if quick:
            pairs, others = pairs[:QUICK_PAIRS], others[:QUICK_MANY]
        for size, count in {"that fits": FEW, "of 300": MANY}.items():
            for graph in (False, True):
                told = _told(pairs, others[:count], graph=graph)
                name = f"{language}, a scope {size}, graph {'on' if graph else 'off'}"
                report(f"oracle: facts falsely taken as known, {name}", told.false_none, "share", ("<=", 0))
                report(
                    f"oracle: pairs kept twice, {name}", told.duplicates, "share", ("<=", 0) if count == FEW else None
                )


def _told(pairs: Sequence[Pair], others: Sequence[str], *, graph: bool) -> Told:
    dice = random.Random(13)
    news = {pair.new: pair for pair in pairs}

    def answer(messages: list[Any]) -> str:
        return json.dumps(_judged(requested(messages), news), ensure_ascii=False)

    model = ScriptedChatModel(replies=[answer] * (ASKED * len(pairs)))
    lost, twice = [], []
    with Memory(":memory:", model=model, embeddings="hash:512", graph=graph, settings=Settings(trace_days=0)) as memory:
        for number, pair in enumerate(pairs):
            user, place = f"pair {number}", dice.randint(0, len(others))
            texts = [*others[:place], pair.old, *others[place:]]
            memory.add_many([{"messages": text, "infer": False, "user_id": user} for text in texts])
            for said in (pair.new, AGAIN + pair.new):
                memory.add(said, user_id=user)
                standing = {item.text for item in memory.get_all(user_id=user, k=2 * MANY)}
                lost.append(not standing & {pair.new, AGAIN + pair.new})
            twice.append(len(standing & {pair.old, pair.new, AGAIN + pair.new}) > 1)
    return Told(statistics.mean(lost), statistics.mean(twice))


def _judged(shown: dict[str, Any], news: dict[str, Pair]) -> dict[str, Any]:
    if "conversation" in shown:
        return {"facts": [_fact(turn, graph="known_entities" in shown) for turn in shown["conversation"]]}
    ids = {memory["text"]: memory["id"] for memory in shown["memories"]}
    return {"memory": [entry for fact in shown["facts"] for entry in _entries(fact, ids, news)]}


def _fact(turn: dict[str, Any], *, graph: bool) -> dict[str, Any]:
    link = {"source": "user", "relation": "says", "target": turn["text"][-40:]}
    return {"text": turn["text"], "turn": turn["turn"], "date": None, **({"relations": [link]} if graph else {})}


def _entries(fact: dict[str, Any], ids: dict[str, str], news: dict[str, Pair]) -> list[dict[str, Any]]:
    pair = news[fact["text"].removeprefix(AGAIN)]
    entry = {"fact": fact["number"], "id": None, "text": fact["text"], "old_memory": None, "reason": "as it is"}
    if pair.new in ids:
        return [{**entry, "event": "NONE", "id": ids[pair.new]}]
    if pair.old not in ids:
        return [{**entry, "event": "ADD"}]
    if pair.kind == "ends":
        return [{**entry, "event": "DELETE", "id": ids[pair.old], "text": None}, {**entry, "event": "ADD"}]
    return [{**entry, "event": "UPDATE", "id": ids[pair.old]}]
