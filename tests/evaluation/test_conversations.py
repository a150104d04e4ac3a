"""Files of conversations, in LoCoMo's format and in the plain one."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.evaluation.questions import read_conversations

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_read_conversations_reads_locomo(locomo_file: Callable[..., Path]) -> None:
    (talk,) = read_conversations(locomo_file())
    assert (talk.id, talk.turns) == ("talk-1", 4)
    assert [session.time for session in talk.sessions] == [
        datetime(2023, 5, 8, 13, 56, tzinfo=UTC),
        datetime(2024, 3, 3, 9, 5, tzinfo=UTC),
    ]
    assert [[turn.id for turn in session.turns] for session in talk.sessions] == [["D1:1", "D1:2"], ["D2:1", "D2:2"]]
    photo = talk.sessions[1].turns[1]
    assert (photo.speaker, photo.text) == ("Mira", "Look at this! [shares a photo: a photo of a green kayak]")
    assert [(each.where, each.category, each.apart, each.evidence) for each in talk.questions] == [
        ("question 1 of talk-1", "single-hop", False, ("D1:1",)),
        ("question 2 of talk-1", "multi-hop", False, ("D2:1", "D1:2")),
        ("question 3 of talk-1", "open-domain", False, ("D2:2",)),
        ("question 6 of talk-1", "adversarial", True, ("D1:1",)),
    ]
    assert talk.left_out == (
        "question 4 of talk-1 names no turn: Who is Theo's aunt?",
        "question 5 of talk-1 names no turn: When did it rain?",
    )
    assert talk.unusable == ("question 3 of talk-1: 'D' is no turn",)


@pytest.mark.parametrize(
    ("written", "turns"),
    [
        (["D1:1 D1:2 D2:1"], ("D1:1", "D1:2", "D2:1")),
        (["D1:1,D1:2"], ("D1:1", "D1:2")),
        (["D:1:1"], ("D1:1",)),
        (["D01:02"], ("D1:2",)),
        (["D1:1", "D1:1"], ("D1:1",)),
    ],
)
def test_read_conversations_reads_every_form_of_evidence(
    locomo_file: Callable[..., Path], sample: dict[str, Any], written: list[str], turns: tuple[str, ...]
) -> None:
    sample["qa"] = [{"question": "?", "evidence": written, "category": 1}]
    assert read_conversations(locomo_file())[0].questions[0].evidence == turns


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "is no JSON"),
        ("{}", "expected a JSON list of objects"),
        ("[]", "expected a JSON list of objects"),
        ("[3]", "expected a JSON list of objects"),
        ("[{}]", "'user' is missing"),
        ('[{"user": "a", "sessions": [{"time": null, "turns": [{"id": "1"}]}], "questions": []}]', "'text' is missing"),
        ('[{"user": "a", "sessions": [{"time": "soon", "turns": []}], "questions": []}]', "'soon'"),
        ('[{"user": "a", "sessions": [], "questions": [{"question": "?"}]}]', "'gold' is missing"),
        ('[{"sample_id": "a", "qa": []}]', "'conversation' is missing"),
        ('[{"sample_id": "a", "qa": [], "conversation": {"session_1": []}}]', "'session_1_date_time' is missing"),
        ('[{"sample_id": "a", "qa": [], "conversation": {"session_1": [], "session_1_date_time": "x"}}]', "'x'"),
        ('[{"sample_id": "a", "qa": [{"question": "?", "category": 6}], "conversation": {}}]', "category 6"),
    ],
)
def test_read_conversations_refuses_other_formats(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "f.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInputError, match=told):
        read_conversations(file)


def test_read_conversations_refuses_repeated_ids(locomo_file: Callable[..., Path], sample: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="two conversations with one id"):
        read_conversations(locomo_file(sample, sample))


PLAIN: dict[str, Any] = {
    "user": "mei",
    "sessions": [
        {"time": "2024-03-03T09:00:00+00:00", "turns": [
            {"id": "1u", "speaker": None, "role": "user", "text": "我住在上海 "},
            {"id": "1a", "speaker": None, "role": "assistant", "text": "上海很美！"},
        ]},
        {"time": None, "turns": [{"id": "2a", "role": "assistant", "text": "又见面了"}]},
        {"time": "2024-03-04T09:00:00+08:00", "turns": [{"id": "3u", "text": "我养了一只猫"}]},
    ],
    "questions": [
        {"question": "我住在哪里？", "gold": ["1u"], "cat": "home"},
        {"question": "你怎么说？", "gold": ["1a", "2a", "3u"]},
        {"question": "你说了什么？", "gold": "2a"},
    ],
}  # fmt: skip


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    file = tmp_path / "plain.json"
    file.write_text(json.dumps([PLAIN]), encoding="utf-8")
    return file


def test_read_conversations_reads_the_plain_format(plain: Path) -> None:
    (talk,) = read_conversations(plain)
    assert (talk.id, talk.turns, talk.speakers) == ("mei", 4, ())
    assert [session.time for session in talk.sessions] == [
        datetime(2024, 3, 3, 9, tzinfo=UTC), None, datetime(2024, 3, 4, 1, tzinfo=UTC),
    ]  # fmt: skip
    assert [(turn.text, turn.role) for turn in talk.sessions[0].turns] == [
        ("我住在上海", "user"),
        ("上海很美！", "assistant"),
    ]
    assert [(question.category, question.sessions) for question in talk.questions] == [
        ("home", (0,)),
        ("", (0, 1, 2)),
        ("", (1,)),
    ]


def test_read_conversations_takes_roles(plain: Path) -> None:
    (talk,) = read_conversations(plain, roles=["user"])
    assert [[turn.id for turn in session.turns] for session in talk.sessions] == [["1u"], ["3u"]]
    assert [(question.evidence, question.sessions) for question in talk.questions] == [(("1u",), (0,)), (("3u",), (1,))]
    assert talk.left_out == ("question 3 of mei names no turn: 你说了什么？",)
    assert talk.unusable == ("question 2 of mei: '1a' is no turn", "question 2 of mei: '2a' is no turn")


def test_read_conversations_names_an_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"cannot read .*absent.json: No such file"):
        read_conversations(tmp_path / "absent.json")
    (tmp_path / "latin.json").write_bytes(b"\xe9")
    with pytest.raises(InvalidInputError, match="not UTF-8 at byte 0"):
        read_conversations(tmp_path / "latin.json")


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"cat": 3}, '"cat" must be a str'),
        ({"cat": "overall"}, "means all of them"),
        ({"gold": 12}, '"gold" must be a list of texts'),
        ({"gold": ["1u", 12]}, '"gold" must be a list of texts'),
        ({"question": " "}, '"question" is blank'),
        ({"question": 3}, '"question" must be a str'),
    ],
)
def test_read_conversations_names_a_wrong_question(tmp_path: Path, row: dict[str, Any], told: str) -> None:
    asked = [PLAIN["questions"][0], {**PLAIN["questions"][0], **row}]
    (tmp_path / "plain.json").write_text(json.dumps([{**PLAIN, "questions": asked}]), encoding="utf-8")
    with pytest.raises(InvalidInputError, match=f"question 2 of mei: .*{told}"):
        read_conversations(tmp_path / "plain.json")
