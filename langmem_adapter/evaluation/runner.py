"""One evaluation run: conversations go into a memory, questions are searched, what is found is noted down."""

from __future__ import annotations

import time
import unicodedata
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.errors import InvalidInputError, MemoryNotFoundError
from langmem_adapter.evaluation.metrics import context_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from langmem_adapter.evaluation.conversations import Dialogue, Session
    from langmem_adapter.evaluation.questions import EvalQuestion
    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.records.results import Hit

__all__ = ["BUDGET", "CONTEXT", "MemoryOrigin", "QuestionResult", "ask", "best", "check", "ingest"]

CONTEXT: Final = 10
"""Hits of the search whose order, size and time are measured: what `Memory.search` gives unasked."""
BUDGET: Final = 500
"""Tokens of a smaller context, of which the evidence is measured, too."""
_MOST: Final = 100  # hits that `BUDGET` tokens may be filled with
_NAMED: Final = 5  # absent memories in one message


@dataclass(slots=True)
class MemoryOrigin:
    """Where a memory comes from: ids of the turns that it stands for, and the numbers of their sessions."""

    turns: set[str] = field(default_factory=set)
    sessions: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """What one question found.

    Attributes:
        ranks: For each number of hits asked for, the ranks of the evidence among them; see `metrics`.
        sessions: The same for the sessions that hold the evidence, among ten hits.
        within: The ranks of the evidence among the hits of a search for `BUDGET` tokens.
        relevance: Of the most relevant hit.
        tokens: Tokens of the ten hits as context.
        milliseconds: Time of the search for ten hits, embedding the question included.
    """

    question: EvalQuestion
    ranks: Mapping[int, tuple[int, ...]]
    sessions: tuple[int, ...] = ()
    within: tuple[int, ...] = ()
    relevance: float = 0.0
    tokens: int = 0
    milliseconds: float = 0.0


def ingest(
    memory: Memory,
    conversations: Sequence[Dialogue],
    *,
    infer: bool = False,
    progress: Callable[[int], object] = lambda _: None,
) -> dict[str, MemoryOrigin]:
    """Put conversations into a memory, one add per session; the conversation is the user, the speakers are actors.

    Each turn is kept word for word, and stands for itself. With *infer* facts are extracted: one counts for the turn that it
    was found in, and for every later one that says the same; an update for the turn that brought it alone: where it joined two,
    recall is a lower bound. *progress* is called with the number of turns of each session.

    Raises:
        InvalidInputError: The memory knows one of the users, or *infer* is given to a memory that keeps no traces.
    """
    _refuse_known(memory, conversations)
    sources: dict[str, MemoryOrigin] = defaultdict(MemoryOrigin)
    for conversation in conversations:
        for number, session in enumerate(conversation.sessions):
            said = [{"role": turn.role, "content": turn.text, "name": turn.speaker} for turn in session.turns]
            result = memory.add(said, user_id=conversation.id, timestamp=session.time, infer=infer)
            if infer:
                _trace(memory, result.trace_id, (number, session), sources)
            else:
                for change, turn in zip(result.results, session.turns, strict=True):
                    sources[str(change.id)] = MemoryOrigin({turn.id}, {number})
            progress(len(session.turns))
    return dict(sources)


def _refuse_known(memory: Memory, conversations: Sequence[Dialogue]) -> None:
    known = {count.scope.user_id for count in memory.scopes()}
    for talk in conversations:
        if talk.id in known:
            told = f"{memory.location} has memories of {talk.id} already"
            raise InvalidInputError(f"{told}; measure in a database of its own")


def _trace(memory: Memory, trace_id: str | None, told: tuple[int, Session], sources: dict[str, MemoryOrigin]) -> None:
    if trace_id is None:
        raise InvalidInputError("without traces nobody knows which turn a fact comes from; set trace_days above 0")
    trace, (number, session) = memory.trace(trace_id), told
    for decision, change in zip(trace.decisions, trace.result.results, strict=True):
        if change.id is None or decision.fact is None:
            continue
        if change.event != "NONE":
            sources[change.id] = MemoryOrigin()
        sources[change.id].turns.add(session.turns[trace.facts[decision.fact].turn].id)
        sources[change.id].sessions.add(number)


def check(memory: Memory, questions: Sequence[EvalQuestion]) -> None:
    """Raise an `InvalidInputError` where memories that questions expect are not there: they would only lower the numbers."""
    absent = [
        f"{question.where}: {memory_id}"
        for question in questions
        for memory_id in question.evidence
        if not _is_there(memory, memory_id, question.scope.named)
    ]
    if absent:
        more = f", and {len(absent) - _NAMED} more" if len(absent) > _NAMED else ""
        raise InvalidInputError(f"no such memory in that scope: {'; '.join(absent[:_NAMED])}{more}")


def _is_there(memory: Memory, memory_id: str, whose: Mapping[str, str]) -> bool:
    try:
        memory.get(memory_id, **whose)
    except MemoryNotFoundError:
        return False
    return True


def ask(
    memory: Memory,
    questions: Sequence[EvalQuestion],
    *,
    sources: Mapping[str, MemoryOrigin] | None = None,
    cuts: Sequence[int] = (5, 10, 20),
    progress: Callable[[int], object] = lambda _: None,
) -> list[QuestionResult]:
    """Search every question, once for each number of hits and once for `BUDGET` tokens.

    Args:
        memory: Where to search.
        questions: What to search.
        sources: What each memory stands for, as `ingest` gives it; without it each stands for itself.
        cuts: Numbers of hits.
        progress: Called with 1 after each question.
    """
    answers = []
    for question in questions:
        answers.append(_answer(memory, question, sources, cuts))
        progress(1)
    return answers


def best(hits: Sequence[Hit]) -> float:
    """The relevance of the most relevant hit: a threshold above it would have silenced all; 0 where there is none."""
    return max((hit.relevance for hit in hits), default=0.0)


def _answer(
    memory: Memory, question: EvalQuestion, sources: Mapping[str, MemoryOrigin] | None, cuts: Sequence[int]
) -> QuestionResult:
    whose: dict[str, Any] = {**question.scope.named, "reference_date": question.time}
    began = time.perf_counter()
    context = memory.search(question.text, k=CONTEXT, **whose)
    milliseconds = (time.perf_counter() - began) * 1_000
    lists = {k: context if k == CONTEXT else memory.search(question.text, k=k, **whose) for k in {*cuts, CONTEXT}}
    return QuestionResult(
        question,
        {k: _ranks(_held(question, hits, sources)) for k, hits in lists.items()},
        _ranks([[number in _source(hit, sources).sessions for hit in context] for number in question.sessions]),
        _ranks(_held(question, memory.search(question.text, k=_MOST, max_tokens=BUDGET, **whose), sources)),
        best(context),
        context_tokens(context),
        milliseconds,
    )


def _held(question: EvalQuestion, hits: Sequence[Hit], sources: Mapping[str, MemoryOrigin] | None) -> list[list[bool]]:
    """For each piece of evidence, whether each hit brings it."""
    brought = [_source(hit, sources).turns for hit in hits]
    told = [_folded(hit.text) for hit in hits] if question.contains else []
    held = [[piece in turns for turns in brought] for piece in question.evidence]
    return held + [[_folded(piece) in text for text in told] for piece in question.contains]


def _source(hit: Hit, sources: Mapping[str, MemoryOrigin] | None) -> MemoryOrigin:
    return MemoryOrigin({hit.id}) if sources is None else sources.get(hit.id, MemoryOrigin())


def _ranks(held: Sequence[Sequence[bool]]) -> tuple[int, ...]:
    return tuple(sorted(list(each).index(True) + 1 for each in held if True in each))


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
