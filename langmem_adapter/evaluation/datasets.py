"""Conversations and questions to measure with: files of LoCoMo's format, and JSON lines of one's own questions.

No data set comes with this package. LoCoMo (Maharana et al. 2024, arXiv:2402.17753, github.com/snap-research/locomo) is
CC BY-NC 4.0: fetch it from its authors.
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
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

__all__ = ["CATEGORIES", "OVERALL", "Conversation", "Question", "Session", "Utterance", "read_locomo", "read_questions"]

CATEGORIES: Final[Mapping[int, str]] = {
    1: "multi-hop",
    2: "temporal",
    3: "open-domain",
    4: "single-hop",
    5: "adversarial",
}
"""What LoCoMo's numbers of question categories mean; several published tables have them mixed up."""
OVERALL: Final = "overall"
"""The name under which all categories together are reported."""

_ADVERSARIAL: Final = 5  # has no answer, only evidence; nobody counts it among the others
_EVIDENCE: Final = re.compile(r"D\W{0,2}(\d+)\s*:\s*(\d+)")
_SESSION: Final = re.compile(r"session_(\d+)")
_DATE: Final = "%I:%M %p on %d %B, %Y"
_KEYS: Final = ("question", "expected", "contains", "category", *SCOPE_FIELDS)


@dataclass(frozen=True, slots=True)
class Utterance:
    """What somebody said in one turn.

    Attributes:
        id: Its id within the conversation.
        speaker: Who said it.
        text: The words, and the caption of a photo that was shared with them.
    """

    id: str
    speaker: str
    text: str


@dataclass(frozen=True, slots=True)
class Session:
    """Turns that followed each other at one time."""

    time: datetime
    turns: tuple[Utterance, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and how to tell a right hit.

    Attributes:
        text: The question.
        scope: Whose memories are searched.
        where: Where it stands in its file, in words.
        evidence: Ids of the memories, or of the turns they came from, that have to be found.
        contains: Texts that have to be found within a hit; case does not matter.
        category: Its kind, for a row of its own in the report; empty for none.
        apart: Left out of the overall numbers.
    """

    text: str
    scope: Scope
    where: str
    evidence: tuple[str, ...] = ()
    contains: tuple[str, ...] = ()
    category: str = ""
    apart: bool = False

    @property
    def pieces(self) -> int:
        """How many pieces of evidence have to be found."""
        return len(self.evidence) + len(self.contains)


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation over many sessions, with questions about it.

    Attributes:
        id: Its id, which serves as the user's.
        sessions: Its sessions, in order.
        questions: Those whose evidence is known.
        left_out: Questions that cannot be scored, and why.
        unusable: Pieces of evidence that name no turn, of questions that have others.
    """

    id: str
    sessions: tuple[Session, ...]
    questions: tuple[Question, ...]
    left_out: tuple[str, ...] = ()
    unusable: tuple[str, ...] = ()

    @property
    def turns(self) -> int:
        """How many turns it has."""
        return sum(len(session.turns) for session in self.sessions)


# ── LoCoMo ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def read_locomo(path: Path) -> list[Conversation]:
    """Read a file of LoCoMo's own format, `locomo10.json` or a part of it.

    A turn that shares a photo has its caption at the end. Ids of evidence are repaired where they are written together
    (`"D8:6; D9:17"`), with zeros (`"D30:05"`) or a sign too many (`"D:11:26"`).

    Args:
        path: The file: a JSON list of conversations with `sample_id`, `conversation` and `qa`.

    Raises:
        InvalidInputError: It cannot be read, or something is missing; the message says where.
    """
    try:
        samples = json.loads(_read(path))
    except (json.JSONDecodeError, RecursionError) as error:
        raise InvalidInputError(f"{path} is no JSON: {error}") from None
    if not isinstance(samples, list) or not samples:
        raise InvalidInputError(f"{path} is no LoCoMo file: expected a JSON list of conversations")
    try:
        conversations = {talk.id: talk for talk in map(_conversation, samples)}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        problem = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise InvalidInputError(f"{path} is no LoCoMo file: {problem}") from None
    if len(conversations) < len(samples):
        raise InvalidInputError(f"{path} has two conversations with one sample_id; each needs its own")
    return list(conversations.values())


def _conversation(sample: Mapping[str, Any]) -> Conversation:
    name, told = str(sample["sample_id"]), sample["conversation"]
    numbers = sorted(int(found[1]) for key in told if (found := _SESSION.fullmatch(key)))
    sessions = tuple(_session(told[f"session_{n}"], told[f"session_{n}_date_time"]) for n in numbers)
    known = {turn.id for session in sessions for turn in session.turns}
    asked = [_asked(name, number, qa, known) for number, qa in enumerate(sample["qa"], 1)]
    questions = tuple(question for question, _ in asked if question.evidence)
    left_out = (f"{question.where} names no turn: {question.text}" for question, _ in asked if not question.evidence)
    unusable = (
        f"{question.where}: {bad!r} is no turn" for question, wrong in asked if question.evidence for bad in wrong
    )
    return Conversation(
        name, tuple(session for session in sessions if session.turns), questions, tuple(left_out), tuple(unusable)
    )


def _session(turns: list[dict[str, Any]], date: str) -> Session:
    said = (Utterance(turn["dia_id"], turn["speaker"], _words(turn)) for turn in turns)
    time = datetime.strptime(date, _DATE).replace(tzinfo=UTC)
    return Session(time, tuple(turn for turn in said if turn.text))


def _words(turn: Mapping[str, Any]) -> str:
    caption = turn.get("blip_caption")
    return f"{turn['text']} [shares a photo: {caption}]".strip() if caption else turn["text"].strip()


def _asked(name: str, number: int, qa: Mapping[str, Any], known: Collection[str]) -> tuple[Question, list[str]]:
    category = qa["category"]
    if category not in CATEGORIES:
        raise ValueError(f"question {number} of {name} has the category {category!r}; known are 1 to 5")
    evidence: dict[str, None] = {}
    wrong: list[str] = []
    for written in qa.get("evidence") or ():
        found = [f"D{int(session)}:{int(turn)}" for session, turn in _EVIDENCE.findall(written)]
        evidence.update(dict.fromkeys(turn for turn in found if turn in known))
        wrong += [turn for turn in found or [written] if turn not in known]
    question = Question(
        qa["question"],
        Scope(user_id=name),
        f"question {number} of {name}",
        tuple(evidence),
        category=CATEGORIES[category],
        apart=category == _ADVERSARIAL,
    )
    return question, wrong


# ── one's own questions ───────────────────────────────────────────────────────────────────────────────────────────────


def read_questions(path: Path, whose: Mapping[str, str] | None = None) -> list[Question]:
    """Read one's own questions: a JSON object a line.

    `question` is the question; `expected` lists ids of the memories that have to be found, `contains` texts that have to be
    found within a hit; one of the two is needed. `category` gives a row of its own; `user_id`, `agent_id`, `run_id` say
    whose memories are searched.

    Args:
        path: The file, in UTF-8.
        whose: Fields of the scope for lines that do not name them.

    Raises:
        InvalidInputError: It cannot be read, holds no question, or a line cannot be used; the message names the line.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "mine.jsonl")
        ...     _ = file.write_text('{"question": "Where does she live?", "contains": ["Lyon"]}')
        ...     read_questions(file, {"user_id": "ada"})[0].contains
        ('Lyon',)
    """
    questions = list(_lines(path, whose or {}))
    if not questions:
        raise InvalidInputError(f'{path} holds no question; write one a line: {{"question": …, "contains": [text]}}')
    return questions


def _lines(path: Path, whose: Mapping[str, str]) -> Iterator[Question]:
    # Not splitlines(): JSON texts may hold U+2028 and its kin, which are no line ends there.
    for number, line in enumerate(_read(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            yield _question(json.loads(line), whose, f"line {number}")
        except json.JSONDecodeError as error:
            raise InvalidInputError(
                f"{path}, line {number}: broken JSON at column {error.colno}: {error.msg}"
            ) from None
        except (LangmemAdapterError, RecursionError) as error:
            raise InvalidInputError(f"{path}, line {number}: {error}") from None


def _question(data: object, whose: Mapping[str, str], where: str) -> Question:
    if not isinstance(data, dict):
        raise InvalidInputError('expected an object: {"question": …, "expected": [ids] or "contains": [texts]}')
    for key in data:
        if key not in _KEYS:
            raise InvalidInputError(f"unknown key {key!r}; known are {', '.join(_KEYS)}")
    expected, contains = _texts(data, "expected"), _texts(data, "contains")
    if not expected + contains:
        raise InvalidInputError('what is right? give "expected": [memory ids], or "contains": [texts of a right hit]')
    named = {name: data[name] for name in SCOPE_FIELDS if data.get(name) is not None}
    category = check_text(data.get("category", ""), '"category"')
    if category == OVERALL:
        raise InvalidInputError(f'"category" cannot be {OVERALL!r}, which means all of them')
    text = check_text(data.get("question"), '"question"')
    if not text.strip():
        raise InvalidInputError('"question" is blank')
    return Question(text, Scope(**{**whose, **named}), where, expected, contains, category)


def _texts(data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = data.get(key, [])
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) and text.strip() for text in texts):
        raise InvalidInputError(f'"{key}" must be a list of texts, none of them blank')
    return tuple(dict.fromkeys(texts))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InvalidInputError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{path} is not UTF-8 at byte {error.start}; convert it first") from None
