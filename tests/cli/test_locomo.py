import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.beside import LOCOMO

Process = Callable[..., Any]

pytestmark = [
    pytest.mark.locomo,
    pytest.mark.skipif(not LOCOMO.exists(), reason=f"{LOCOMO} is not there"),
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def sample() -> dict[str, Any]:
    samples: list[dict[str, Any]] = json.loads(LOCOMO.read_text(encoding="utf-8"))
    return samples[0]


@pytest.fixture
def lines(sample: dict[str, Any], tmp_path: Path) -> Path:
    """The conversation as JSON lines: speakers as names, dates of the sessions as timestamps."""
    file = tmp_path / "conversation.jsonl"
    file.write_text("".join(json.dumps(message) + "\n" for message in messages(sample)), encoding="utf-8")
    return file


def messages(sample: dict[str, Any]) -> Iterator[dict[str, Any]]:
    conversation = sample["conversation"]
    number = 1
    while f"session_{number}" in conversation:
        said = datetime.strptime(conversation[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y").replace(
            tzinfo=UTC
        )
        for turn in conversation[f"session_{number}"]:
            yield {"role": "user", "content": turn["text"], "name": turn["speaker"], "timestamp": said.isoformat()}
        number += 1


def test_hundreds_of_turns_are_kept_word_for_word_and_found_by_another_process(
    process: Process, lines: Path, sample: dict[str, Any]
) -> None:
    turns = list(messages(sample))
    added = json.loads(process("add", "--no-infer", "-f", lines, "-u", "locomo", "--json").stdout)
    assert len(turns) > 300
    assert [row["text"] for row in added["data"]] == [turn["content"].strip() for turn in turns]
    listed = _all(process)
    assert sorted((i["actor_id"], i["created_at"], i["text"]) for i in listed) == sorted(
        (turn["name"], turn["timestamp"], turn["content"].strip()) for turn in turns
    )
    assert _found(process, sample) >= 0.5


def test_facts_of_hundreds_of_turns_are_extracted_offline_and_found_by_another_process(
    process: Process, lines: Path, sample: dict[str, Any]
) -> None:
    added = json.loads(process("add", "-f", lines, "-u", "locomo", "--json").stdout)
    assert added["mode"] == "offline"
    assert added["failed"] == []
    kept = _all(process)
    assert len(kept) > 20
    assert {item["text"] for item in kept} <= {row["text"] for row in added["data"]}
    hit = json.loads(process("search", kept[0]["text"], "-u", "locomo", "-k", "1", "--json").stdout)["data"][0]
    assert hit["text"] == kept[0]["text"]


def _all(process: Process) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = json.loads(process("list", "-u", "locomo", "--limit", "10000", "--json").stdout)[
        "data"
    ]
    return items


def _found(process: Process, sample: dict[str, Any]) -> float:
    # Questions with one piece of evidence: is the turn that answers among the first twenty?
    said = {
        turn["dia_id"]: turn["text"].strip()
        for name, turns in sample["conversation"].items()
        if name.startswith("session_") and isinstance(turns, list)
        for turn in turns
    }
    questions = [qa for qa in sample["qa"] if qa["category"] == 4 and len(qa["evidence"]) == 1][:6]
    right = 0
    for qa in questions:
        hits = json.loads(process("search", qa["question"], "-u", "locomo", "-k", "20", "--json").stdout)["data"]
        right += said[qa["evidence"][0]] in {hit["text"] for hit in hits}
    return right / len(questions)
