"""Conversations to measure with, and the questions about them: files of LoCoMo's own format, and of a plain one.

No data set comes with this package. LoCoMo (Maharana et al. 2024, arXiv:2402.17753, github.com/snap-research/locomo) is
CC BY-NC 4.0: fetch it from its authors. Others, such as MemoryBank and BEAM, are brought into the plain form.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.evaluation.questions import EvalQuestion, check_category, check_question, check_texts, read_text
from langmem_adapter.records.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

__all__ = ["Dialogue", "Session", "Utterance", "read_conversations"]

_CATEGORIES: Final[Mapping[int, str]] = {
    1: "multi-hop",
    2: "temporal",
    3: "open-domain",
    4: "single-hop",
    5: "adversarial",
}
"""What LoCoMo's numbers of question categories mean; several published tables have them mixed up."""

_ADVERSARIAL: Final = 5  # has no answer, only evidence; nobody counts it among the others
_EVIDENCE: Final = re.compile(r"D\W{0,2}(\d+)\s*:\s*(\d+)")
_SESSION: Final = re.compile(r"session_(\d+)")
_DATE: Final = "%I:%M %p on %d %B, %Y"


@dataclass(frozen=True, slots=True)
class Utterance:
    """What somebody said in one turn.

    Attributes:
        id: Its id within the conversation.
        speaker: Who said it, where there is a name.
        text: The words, and the caption of a photo that was shared with them.
        role: `"user"` or `"assistant"`.
    """

    id: str
    speaker: str | None
    text: str
    role: str = "user"


@dataclass(frozen=True, slots=True)
class Session:
    """Turns that followed each other at one time; `None` where nobody knows when."""

    time: datetime | None
    turns: tuple[Utterance, ...]


@dataclass(frozen=True, slots=True)
class Dialogue:
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
    questions: tuple[EvalQuestion, ...]
    left_out: tuple[str, ...] = ()
    unusable: tuple[str, ...] = ()

    @property
    def turns(self) -> int:
        """How many turns it has."""
        return sum(len(session.turns) for session in self.sessions)

    @property
    def speakers(self) -> tuple[str, ...]:
        """The names of those who speak, in the order in which they begin."""
        return tuple(dict.fromkeys(turn.speaker for each in self.sessions for turn in each.turns if turn.speaker))


def read_conversations(path: Path, *, roles: Iterable[str] = ("user", "assistant")) -> list[Dialogue]:
    """Read a JSON list of conversations: LoCoMo's own format (`locomo10.json` or a part of it), or the plain one.

    The plain one: each with `user`, `sessions` (`time` in ISO 8601 or null, `turns` with `id`, `text`, and optionally `role`
    and `speaker`), `questions` (`question`, `gold`: ids of turns, optionally `cat`).

    In LoCoMo a turn that shares a photo has its caption at the end. Ids of evidence are repaired where they are written
    together (`"D8:6; D9:17"`), with zeros (`"D30:05"`) or a sign too many (`"D:11:26"`).

    Args:
        path: The file.
        roles: Whose turns are read; a session without any of them is left out.

    Raises:
        InvalidInputError: It cannot be read, or something is missing; the message says where.
    """
    try:
        samples = json.loads(read_text(path))
    except (json.JSONDecodeError, RecursionError) as error:
        raise InvalidInputError(f"{path} is no JSON: {error}") from None
    if not isinstance(samples, list) or not samples or not all(isinstance(sample, dict) for sample in samples):
        raise InvalidInputError(f"{path} holds no conversations: expected a JSON list of objects")
    try:
        read = [(_of_locomo if "sample_id" in sample else _of_plain)(sample, {*roles}) for sample in samples]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        problem = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise InvalidInputError(f"{path} holds no conversations that can be read: {problem}") from None
    if len({talk.id for talk in read}) < len(read):
        raise InvalidInputError(f"{path} has two conversations with one id; each needs its own")
    return read


def _conversation(
    name: str, sessions: Iterable[Session], asked: Iterable[tuple[EvalQuestion, list[str]]], roles: set[str]
) -> Dialogue:
    """A conversation of what may be read, and of its questions those whose evidence is there."""
    heard = (replace(each, turns=tuple(turn for turn in each.turns if turn.role in roles)) for each in sessions)
    spoken = tuple(session for session in heard if session.turns)
    where = {turn.id: number for number, session in enumerate(spoken) for turn in session.turns}
    kept, left_out, unusable = [], [], []
    for question, wrong in asked:
        evidence = tuple(turn for turn in question.evidence if turn in where)
        wrong += [turn for turn in question.evidence if turn not in where]
        if evidence:
            sessions_of = tuple(sorted({where[turn] for turn in evidence}))
            kept.append(replace(question, evidence=evidence, sessions=sessions_of))
            unusable += [f"{question.where}: {turn!r} is no turn" for turn in wrong]
        else:
            left_out.append(f"{question.where} names no turn: {question.text}")
    return Dialogue(name, spoken, tuple(kept), tuple(left_out), tuple(unusable))


# ── LoCoMo ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _of_locomo(sample: Mapping[str, Any], roles: set[str]) -> Dialogue:
    name, told = str(sample["sample_id"]), sample["conversation"]
    numbers = sorted(int(found[1]) for key in told if (found := _SESSION.fullmatch(key)))
    sessions = [_session(told[f"session_{n}"], told[f"session_{n}_date_time"]) for n in numbers]
    asked = [_asked(name, number, qa) for number, qa in enumerate(sample["qa"], 1)]
    return _conversation(name, sessions, asked, roles)


def _session(turns: list[dict[str, Any]], date: str) -> Session:
    said = (Utterance(turn["dia_id"], turn["speaker"], _words(turn)) for turn in turns)
    time = datetime.strptime(date, _DATE).replace(tzinfo=UTC)
    return Session(time, tuple(turn for turn in said if turn.text))


def _words(turn: Mapping[str, Any]) -> str:
    caption = turn.get("blip_caption")
    return f"{turn['text']} [shares a photo: {caption}]".strip() if caption else turn["text"].strip()


def _asked(name: str, number: int, qa: Mapping[str, Any]) -> tuple[EvalQuestion, list[str]]:
    category = qa["category"]
    if category not in _CATEGORIES:
        raise ValueError(f"question {number} of {name} has the category {category!r}; known are 1 to 5")
    evidence: dict[str, None] = {}
    wrong: list[str] = []
    for written in qa.get("evidence") or ():
        found = [f"D{int(session)}:{int(turn)}" for session, turn in _EVIDENCE.findall(written)]
        evidence.update(dict.fromkeys(found))
        wrong += [] if found else [written]
    where = f"question {number} of {name}"
    question = EvalQuestion(
        check_question(qa["question"], f'{where}: "question"'),
        Scope(user_id=name),
        where,
        tuple(evidence),
        category=_CATEGORIES[category],
        apart=category == _ADVERSARIAL,
    )
    return question, wrong


# ── the plain form ────────────────────────────────────────────────────────────────────────────────────────────────────


def _of_plain(sample: Mapping[str, Any], roles: set[str]) -> Dialogue:
    name = str(sample["user"])
    sessions = [_plain_session(session) for session in sample["sessions"]]
    asked = [
        _plain_question(name, f"question {number} of {name}", row) for number, row in enumerate(sample["questions"], 1)
    ]
    return _conversation(name, sessions, ((question, []) for question in asked), roles)


def _plain_question(name: str, where: str, row: Mapping[str, Any]) -> EvalQuestion:
    text, gold = check_question(row["question"], f'{where}: "question"'), check_texts(row["gold"], f'{where}: "gold"')
    category = check_category("" if row.get("cat") is None else row["cat"], f'{where}: "cat"')
    return EvalQuestion(text, Scope(user_id=name), where, gold, category=category)


def _plain_session(session: Mapping[str, Any]) -> Session:
    time = datetime.fromisoformat(session["time"]) if session["time"] else None
    said = (
        Utterance(turn["id"], turn.get("speaker"), turn["text"].strip(), turn.get("role") or "user")
        for turn in session["turns"]
    )
    return Session(time, tuple(turn for turn in said if turn.text))
