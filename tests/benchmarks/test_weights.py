"""The weights of a search are chosen by conversations, none of which judges what it chose itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.benchmarks import weights

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def conversation(user: str, answer: str) -> dict[str, object]:
    """A question is nearer to another speaker's message than to what answers it: only the speaker's weight puts that right."""
    turns = [
        {"id": "1", "speaker": "Ann", "text": "The red kettle? I bought one red kettle."},
        {"id": "2", "speaker": "Ben", "text": answer},
    ]
    question = {"question": "Which red kettle was bought by Ben?", "gold": ["2"]}
    return {"user": user, "sessions": [{"time": "2024-05-01T10:00:00+00:00", "turns": turns}], "questions": [question]}


def test_what_is_lost_without_a_weight_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"one": "The kettle of the market.", "two": "My uncle sold me the red one."}
    for name, answer in answers.items():
        (tmp_path / f"{name}.json").write_text(json.dumps([conversation(name, answer)]), encoding="utf-8")
    monkeypatch.setattr(weights, "TRIED", {"speaker": (0.0, 1.0)})
    monkeypatch.setattr(weights, "FILES", tuple(answers))
    bench = weights.Bench(tmp_path, weights.read(tmp_path), "hash:512")
    assert bench.chosen("one") == {"speaker": 1.0}
    lines = weights.told(bench)
    assert lines[0].startswith("one ") and "recall@10 1.000" in lines[0]
    assert "without it: one r +0.000  one MRR -0.500*" in lines[3]
    assert lines[-1].startswith("left out: 1.0000, with the defaults ")
