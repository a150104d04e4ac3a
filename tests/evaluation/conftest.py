"""A tiny conversation in LoCoMo's format, written for these tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from langmem_adapter.memory.memory import Memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def sample() -> dict[str, Any]:
    """One conversation of two sessions; the second is written before the first, as keys of an object may be."""
    return {
        "sample_id": "talk-1",
        "conversation": {
            "speaker_a": "Mira",
            "speaker_b": "Theo",
            "session_2_date_time": "9:05 am on 3 March, 2024",
            "session_2": [
                {"speaker": "Theo", "dia_id": "D2:1", "text": "I sold my boat last week."},
                {
                    "speaker": "Mira",
                    "dia_id": "D2:2",
                    "text": "Look at this!",
                    "blip_caption": "a photo of a green kayak",
                    "img_url": ["…"],
                },
            ],
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Mira", "dia_id": "D1:1", "text": "I live in Oslo and I have a cat."},
                {"speaker": "Theo", "dia_id": "D1:2", "text": "My boat is called Sparrow."},
                {"speaker": "Theo", "dia_id": "D1:3", "text": " "},
            ],
            "session_3_date_time": "9:05 am on 4 March, 2024",
        },
        "qa": [
            {"question": "Where does Mira live?", "answer": "Oslo", "evidence": ["D1:1"], "category": 4},
            {"question": "What became of the boat Sparrow?", "evidence": ["D2:1; D1:02"], "category": 1},
            {"question": "What colour is the kayak?", "evidence": ["D:2:2", "D"], "category": 3},
            {"question": "Who is Theo's aunt?", "evidence": [], "category": 2},
            {"question": "When did it rain?", "evidence": ["D9:1", "D1:3"], "category": 2},
            {"question": "Where does Theo live?", "adversarial_answer": "Oslo", "evidence": ["D1:1"], "category": 5},
        ],
    }


@pytest.fixture
def locomo_file(tmp_path: Path, sample: dict[str, Any]) -> Callable[..., Path]:
    """Writes conversations, the tiny one unless told otherwise, into a file of LoCoMo's format."""

    def write(*conversations: Any) -> Path:
        file = tmp_path / "locomo.json"
        file.write_text(json.dumps(list(conversations) or [sample]), encoding="utf-8")
        return file

    return write


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory(":memory:") as opened:
        yield opened
