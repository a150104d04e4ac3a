"""What a chat model is shown beside new facts, with hash embeddings, which see no meaning."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.graph import SELF, Triple
from langmem_adapter.records.scope import Scope
from langmem_adapter.testing import ScriptedChatModel
from tests.benchmarks.candidates import DATA
from tests.benchmarks.material import requested

ANN: Final[Any] = {"user_id": "ann"}


def lines(name: str) -> list[str]:
    return (DATA / name).read_text(encoding="utf-8").splitlines()


def keeps(messages: list[Any]) -> str:
    """Finds what is said, and adds it."""
    shown = requested(messages)
    if "conversation" in shown:
        return json.dumps({"facts": [turn["text"] for turn in shown["conversation"]]})
    return json.dumps({"memory": [{"event": "ADD", "text": shown["facts"][0]["text"], "fact": 0}]})


@pytest.mark.parametrize("code", ["en", "zh"])
def test_add_a_fact_meets_the_memory_that_it_contradicts_without_sharing_a_word(code: str) -> None:
    pairs = [json.loads(line) for line in lines(f"pairs.{code}.jsonl")][:12]
    model = ScriptedChatModel(replies=[keeps] * 2 * len(pairs))
    with Memory(":memory:", model=model) as memory:
        for number, pair in enumerate(pairs):
            memory.add(pair["old"], user_id=str(number), infer=False)
            memory.add(pair["new"], user_id=str(number))
    shown = [requested(messages).get("memories", [{}])[0].get("text") for messages in model.calls]
    assert shown[1::2] == [pair["old"] for pair in pairs]


def test_add_in_a_crowd_a_fact_meets_another_value_of_its_relation(tmp_path: Any) -> None:
    with Memory(tmp_path / "m.db", graph=True) as memory:
        memory.add("I live in Porto.", **ANN)
        memory.add_many([{"messages": text, "infer": False, **ANN} for text in lines("others.en.txt")])
        moved = Triple(SELF, "resides in", "Braga")
        for stated, found in (([moved], True), ([Triple(SELF, "likes", "Braga")], False), ([], False)):
            hood = memory.parts.searcher.neighbours(["Xyzzy"], Scope(**ANN), tokens=500, stated=stated)
            assert ("Lives in Porto" in {known.text for known in hood.known}) is found


def test_add_what_was_not_shown_whole_is_not_rewritten() -> None:
    def moves(messages: list[Any]) -> str:
        (old,) = (known for known in requested(messages)["memories"] if known["text"].startswith("Lives in Rome"))
        assert old["text"].endswith("…")
        update = {"fact": 0, "event": "UPDATE", "id": old["id"], "text": "Lives in Oslo with Odo and Rex"}
        return json.dumps({"memory": [update, {"fact": 1, "event": "NONE", "id": old["id"]}]})

    whole = "Lives in Rome with Odo. " + "Has plants. " * 50 + "The key lies under the mat."
    model = ScriptedChatModel(replies=[json.dumps({"facts": ["Lives in Oslo", "Has a dog, Rex"]}), moves])
    with Memory(":memory:", model=model) as memory:
        memory.add_many([{"messages": text, "infer": False, **ANN} for text in [*lines("others.en.txt"), whole]])
        changes = memory.add("I live in Oslo now, with Rex, my dog.", **ANN).results
        assert [(each.event, each.text) for each in changes] == [("ADD", "Lives in Oslo"), ("ADD", "Has a dog, Rex")]
        assert whole in {item.text for item in memory.get_all(k=1_000, **ANN)}
