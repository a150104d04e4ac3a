"""Questions to measure with, and how a right hit is told: JSON lines of one's own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from langmem_adapter.errors import InvalidInputError, LangmemAdapterError
from langmem_adapter.records.checks import check_text
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime
    from pathlib import Path

__all__ = ["OVERALL", "EvalQuestion", "check_category", "check_question", "check_texts", "read_questions", "read_text"]

OVERALL: Final = "overall"
"""The name under which all categories together are reported."""

_KEYS: Final = ("question", "expected", "contains", "answer", "category", *SCOPE_FIELDS)


@dataclass(frozen=True, slots=True)
class EvalQuestion:
    """A question, and how to tell a right hit.

    Attributes:
        text: The question.
        scope: Whose memories are searched.
        where: Where it stands in its file, in words.
        evidence: Ids of the memories, or of the turns they came from, that have to be found.
        contains: Texts that have to be found within a hit; case does not matter.
        sessions: The numbers of the sessions that hold the evidence, where it lies in a conversation.
        category: Its kind, for a row of its own in the report; empty for none.
        apart: Left out of the overall numbers.
        time: When it is asked; `None` for now.
        answer: The right answer in words, for `eval answers`.
    """

    text: str
    scope: Scope
    where: str
    evidence: tuple[str, ...] = ()
    contains: tuple[str, ...] = ()
    sessions: tuple[int, ...] = ()
    category: str = ""
    apart: bool = False
    time: datetime | None = None
    answer: str = ""

    @property
    def pieces(self) -> int:
        """How many pieces of evidence have to be found."""
        return len(self.evidence) + len(self.contains)


def read_questions(path: Path, whose: Mapping[str, str] | None = None, *, answers: bool = False) -> list[EvalQuestion]:
    """Read one's own questions: a JSON object a line, as `langmem-adapter eval questions --help` says.

    Args:
        path: The file, in UTF-8.
        whose: Fields of the scope for lines that do not name them.
        answers: Whether each line needs an "answer" rather than what a hit has to be.

    Raises:
        InvalidInputError: It cannot be read, holds no question, or a line cannot be used; the message names the line.
    """
    questions = list(_lines(path, whose or {}, answers=answers))
    if not questions:
        raise InvalidInputError(f'{path} holds no question; write one a line: {{"question": …, "contains": [text]}}')
    return questions


def _lines(path: Path, whose: Mapping[str, str], *, answers: bool) -> Iterator[EvalQuestion]:
    # Not splitlines(): JSON texts may hold U+2028 and its kin, which are no line ends there.
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            yield _question(json.loads(line), whose, f"line {number}", answers=answers)
        except json.JSONDecodeError as error:
            raise InvalidInputError(
                f"{path}, line {number}: broken JSON at column {error.colno}: {error.msg}"
            ) from None
        except (LangmemAdapterError, RecursionError) as error:
            raise InvalidInputError(f"{path}, line {number}: {error}") from None


def _question(data: object, whose: Mapping[str, str], where: str, *, answers: bool) -> EvalQuestion:
    if not isinstance(data, dict):
        raise InvalidInputError('expected an object: {"question": …, "expected": [ids] or "contains": [texts]}')
    for key in data:
        if key not in _KEYS:
            raise InvalidInputError(f"unknown key {key!r}; known are {', '.join(_KEYS)}")
    expected, contains = (check_texts(data.get(key, []), f'"{key}"') for key in ("expected", "contains"))
    answer = check_text(data.get("answer", ""), '"answer"')
    if answers and not answer.strip():
        raise InvalidInputError('what is right? give "answer": the right answer in words')
    if not answers and not expected + contains:
        raise InvalidInputError('what is right? give "expected": [memory ids], or "contains": [texts of a right hit]')
    named = {name: data[name] for name in SCOPE_FIELDS if data.get(name) is not None}
    category = check_category(data.get("category", ""), '"category"')
    text = check_question(data.get("question"), '"question"')
    return EvalQuestion(text, Scope(**{**whose, **named}), where, expected, contains, category=category, answer=answer)


def check_question(value: object, name: str) -> str:
    """The text of a question, which its file calls so; an `InvalidInputError` where it is none, or blank."""
    text = check_text(value, name)
    if not text.strip():
        raise InvalidInputError(f"{name} is blank")
    return text


def check_category(value: object, name: str) -> str:
    """A kind of question; an `InvalidInputError` where it is no text, or means all of them."""
    category = check_text(value, name)
    if category == OVERALL:
        raise InvalidInputError(f"{name} cannot be {OVERALL!r}, which means all of them")
    return category


def check_texts(value: object, name: str) -> tuple[str, ...]:
    """Texts, each once, one alone for a list of it; an `InvalidInputError` where they are none, or one is blank."""
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
