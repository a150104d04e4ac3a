"""The weights of a search are chosen by conversations, none of which judges what it chose itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from langmem_adapter.evaluation.conversations import read_conversations
from tests.benchmarks import weights

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def conversation(user: str, answer: str) -> dict[str, object]:
    """A question is nearer to the question than what answers it: only the weight against questions puts that right."""
    turns = [
        {"id": "1", "speaker": "Ann", "text": "Where did you buy the red kettle, Ben?"},
        {"id": "2", "speaker": "Ben", "text": answer},
    ]
    asked = {"question": "Where was the red kettle bought?", "gold": ["2"]}
    return {"user": user, "sessions": [{"time": "2024-05-01T10:00:00+00:00", "turns": turns}], "questions": [asked]}


def test_what_is_lost_without_a_weight_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "set.json"
    told = (conversation("a", "At the kettle market."), conversation("b", "My uncle bought the red one."))
    file.write_text(json.dumps(told), encoding="utf-8")
    monkeypatch.setattr(weights, "TRIED", {"question": (0.0, 0.2)})
    bench = weights.Bench(tmp_path, {"set": read_conversations(file)}, "hash:512")
    assert bench.chosen("set 0") == {"question": 0.2}
    lines = weights.told(bench)
    assert lines[0].startswith("set ") and "recall@10 1.000  MRR 1.000" in lines[0]
    assert "without it: set r +0.000  set MRR -0.500*" in lines[2]
    assert lines[-1] == "left out: 1.0000, with the defaults 1.0000"
