"""Evaluation data: conversations and questions, from LoCoMo's format or JSON lines.

No data set comes with this package. LoCoMo (Maharana et al. 2024, arXiv:2402.17753, github.com/snap-research/locomo) is
CC BY-NC 4.0: fetch it from its authors. Others, such as MemoryBank and BEAM, are brought into the plain form.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.errors import InvalidInputError, LangmemAdapterError
from langmem_adapter.records.checks import check_text
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

OVERALL: Final = "overall"
"""The name under which all categories together are reported."""

_KEYS: Final = ("question", "expected", "contains", "answer", "category", *SCOPE_FIELDS)


@dataclass(frozen=True, slots=True)
class EvalQuestion:
    """A question, and the evidence of a right hit."""

    text: str  # the question
    scope: Scope  # the scope that is searched
    where: str  # its place in its file, in words
    evidence: tuple[str, ...] = ()  # ids of the memories, or of the turns they came from, that have to be found
    contains: tuple[str, ...] = ()  # texts that have to be found within a hit; case does not matter
    sessions: tuple[int, ...] = ()  # the numbers of the sessions of a conversation that hold the evidence
    category: str = ""  # its kind, which gets a row in the report; empty for none
    apart: bool = False  # left out of the overall numbers
    time: datetime | None = None  # when it is asked; `None` for now
    answer: str = ""  # the right answer in words, for `eval answers`

    @property
    def pieces(self) -> int:
        """How many pieces of evidence have to be found."""
        return len(self.evidence) + len(self.contains)


def read_questions(path: Path, scope: Mapping[str, str] | None = None, *, answers: bool = False) -> list[EvalQuestion]:
    """Read one's own questions: a JSON object a line, as `langmem-adapter eval questions --help` says.

    *scope* is for lines that name none; with *answers* each line needs an "answer" instead of what a hit has to be.
    """
    questions = list(_lines(path, scope or {}, answers=answers))
    if not questions:
        raise InvalidInputError(f'{path} holds no question; write one a line: {{"question": …, "contains": [text]}}')
    return questions


def _lines(path: Path, scope: Mapping[str, str], *, answers: bool) -> Iterator[EvalQuestion]:
    # Not splitlines(): JSON texts may hold U+2028 and its kin, which are no line ends there.
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            yield _question(json.loads(line), scope, f"line {number}", answers=answers)
        except json.JSONDecodeError as error:
            raise InvalidInputError(
                f"{path}, line {number}: broken JSON at column {error.colno}: {error.msg}"
            ) from None
        except (LangmemAdapterError, RecursionError) as error:
            raise InvalidInputError(f"{path}, line {number}: {error}") from None


def _question(data: object, scope: Mapping[str, str], where: str, *, answers: bool) -> EvalQuestion:
    if not isinstance(data, dict):
        raise InvalidInputError('expected an object: {"question": …, "expected": [ids] or "contains": [texts]}')
    for key in data:
        if key not in _KEYS:
            raise InvalidInputError(f"unknown key {key!r}; write one of {', '.join(_KEYS)}")
    expected, contains = (_texts(data.get(key, []), f'"{key}"') for key in ("expected", "contains"))
    answer = check_text(data.get("answer", ""), '"answer"')
    if answers and not answer.strip():
        raise InvalidInputError('"answer" is missing: give the right answer in words')
    if not answers and not expected + contains:
        raise InvalidInputError(
            '"expected" is missing: give "expected": [memory ids], or "contains": [texts of a right hit]'
        )
    named = {name: data[name] for name in SCOPE_FIELDS if data.get(name) is not None}
    text, category = _text_and_category(data, "category")
    return EvalQuestion(text, Scope(**{**scope, **named}), where, expected, contains, category=category, answer=answer)


def _text_and_category(row: Mapping[str, Any], key: str, where: str = "") -> tuple[str, str]:
    """The text of a question, and its kind, which its row has under *key*."""
    text = check_text(row.get("question"), f'{where}"question"')
    if not text.strip():
        raise InvalidInputError(f'{where}"question" is blank')
    category = check_text("" if row.get(key) is None else row[key], f'{where}"{key}"')
    if category == OVERALL:
        raise InvalidInputError(f'{where}"{key}" cannot be {OVERALL!r}, which means all of them')
    return text, category


def _texts(value: object, name: str) -> tuple[str, ...]:
    """Texts, each once, one alone for a list of it."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) and text.strip() for text in texts):
        raise InvalidInputError(f"{name} must be a list of texts, none of them blank")
    return tuple(dict.fromkeys(texts))


def read_text(path: Path) -> str:
    """The text of a file; an `InvalidInputError` where it cannot be read, or is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InvalidInputError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{path} is not UTF-8 at byte {error.start}; convert it first") from None


_CATEGORIES: Final[Mapping[int, str]] = {
    1: "multi-hop",
    2: "temporal",
    3: "open-domain",
    4: "single-hop",
    5: "adversarial",
}
"""What LoCoMo's numbers of question categories mean; several published tables have them mixed up."""

_ADVERSARIAL: Final = 5  # has no answer, only evidence; not counted among the others
_EVIDENCE: Final = re.compile(r"D\W{0,2}(\d+)\s*:\s*(\d+)")
_SESSION: Final = re.compile(r"session_(\d+)")
_DATE: Final = "%I:%M %p on %d %B, %Y"


@dataclass(frozen=True, slots=True)
class Utterance:
    """One turn of a conversation, with the caption of a shared photo."""

    id: str
    speaker: str | None
    text: str
    role: str = "user"


@dataclass(frozen=True, slots=True)
class Session:
    """Turns of one time; `None` where it is unknown."""

    time: datetime | None
    turns: tuple[Utterance, ...]


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A conversation over many sessions, with questions about it."""

    id: str  # its id, which serves as the user's
    sessions: tuple[Session, ...]  # its sessions, in order
    questions: tuple[EvalQuestion, ...]  # questions with usable evidence
    left_out: tuple[str, ...] = ()  # questions that cannot be scored, and why
    unusable: tuple[str, ...] = ()  # pieces of evidence that name no turn, of questions that have others

    @property
    def turns(self) -> int:
        """How many turns it has."""
        return sum(len(session.turns) for session in self.sessions)

    @property
    def speakers(self) -> tuple[str, ...]:
        """The names of the speakers, in order of their first turn."""
        return tuple(dict.fromkeys(turn.speaker for each in self.sessions for turn in each.turns if turn.speaker))


def read_conversations(path: Path, *, roles: Iterable[str] = ("user", "assistant")) -> list[Dialogue]:
    """Read a JSON list of conversations: LoCoMo's own format (`locomo10.json` or a part of it), or the plain one.

    The plain one: each with `user`, `sessions` (`time` in ISO 8601 or null, `turns` with `id`, `text`, and optionally `role`
    and `speaker`), `questions` (`question`, `gold`: ids of turns, optionally `cat`, and `time`: when it is asked). Only turns
    of these *roles* are read.
    """
    try:
        samples = json.loads(read_text(path))
    except (json.JSONDecodeError, RecursionError) as error:
        raise InvalidInputError(f"{path} is no JSON: {error}") from None
    if not isinstance(samples, list) or not samples or not all(isinstance(sample, dict) for sample in samples):
        raise InvalidInputError(f"{path} holds no conversations: expected a JSON list of objects")
    try:
        read = [_conversation(_plain(sample) if "sample_id" in sample else sample, {*roles}) for sample in samples]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        problem = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise InvalidInputError(f"{path} holds no conversations that can be read: {problem}") from None
    if len({talk.id for talk in read}) < len(read):
        raise InvalidInputError(f"{path} has two conversations with one id; each needs its own")
    return read


def _conversation(sample: Mapping[str, Any], roles: set[str]) -> Dialogue:
    """A conversation with the turns of these roles, and the questions with evidence among them."""
    name = str(sample["user"])
    sessions = tuple(each for session in sample["sessions"] if (each := _session(session, roles)).turns)
    places = {turn.id: number for number, session in enumerate(sessions) for turn in session.turns}
    kept, left_out, unusable = [], [], []
    for number, row in enumerate(sample["questions"], 1):
        where = f"question {number} of {name}"
        text, category = _text_and_category(row, "cat", f"{where}: ")
        gold = _texts(row["gold"], f'{where}: "gold"')
        evidence = tuple(turn for turn in gold if turn in places)
        if not evidence:
            left_out.append(f"{where} names no turn: {text}")
            continue
        unusable += [f"{where}: {turn!r} is no turn" for turn in gold if turn not in places]
        question = EvalQuestion(
            *(text, Scope(user_id=name), where, evidence),
            sessions=tuple(sorted({places[turn] for turn in evidence})),
            category=category,
            apart=row.get("apart") is True,
            time=datetime.fromisoformat(row["time"]) if row.get("time") else None,
        )
        kept.append(question)
    return Dialogue(name, sessions, tuple(kept), tuple(left_out), tuple(unusable))


def _session(session: Mapping[str, Any], roles: set[str]) -> Session:
    time = datetime.fromisoformat(session["time"]) if session["time"] else None
    turns = (
        Utterance(turn["id"], turn.get("speaker"), turn["text"].strip(), turn.get("role") or "user")
        for turn in session["turns"]
    )
    return Session(time, tuple(turn for turn in turns if turn.text and turn.role in roles))


def _plain(sample: Mapping[str, Any]) -> dict[str, Any]:
    """A conversation of LoCoMo's in the plain form."""
    name, conversation = sample["sample_id"], sample["conversation"]
    sessions = []
    for number in sorted(int(match[1]) for key in conversation if (match := _SESSION.fullmatch(key))):
        turns = []
        for turn in conversation[f"session_{number}"]:
            photo = f" [shares a photo: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
            turns.append({"id": turn["dia_id"], "speaker": turn["speaker"], "text": f"{turn['text']}{photo}"})
        time = datetime.strptime(conversation[f"session_{number}_date_time"], _DATE).replace(tzinfo=UTC)
        sessions.append({"time": time.isoformat(), "turns": turns})
    questions = [_plain_question(f"question {number} of {name}", qa) for number, qa in enumerate(sample["qa"], 1)]
    return {"user": name, "sessions": sessions, "questions": questions}


def _plain_question(where: str, qa: Mapping[str, Any]) -> dict[str, Any]:
    """A question; ids are repaired that are written together ("D8:6; D9:17"), with zeros ("D30:05") or a sign ("D:11:26")."""
    category = qa["category"]
    if category not in _CATEGORIES:
        raise ValueError(f"{where} has the category {category!r}; write 1 to 5")
    gold = []
    for written in qa.get("evidence") or ():
        gold += [f"D{int(session)}:{int(turn)}" for session, turn in _EVIDENCE.findall(written)] or [written]
    ids, is_apart = [each for each in gold if each.strip()], category == _ADVERSARIAL
    return {"question": qa["question"], "gold": ids, "cat": _CATEGORIES[category], "apart": is_apart}
