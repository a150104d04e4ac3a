"""Whether a chat model answers questions rightly from what a memory recalls; a judge, which is the same model, compares.

Each answer is appended to a file as soon as it is judged, so that a run that broke off goes on where it stopped.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import HumanMessage, SystemMessage

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.reasoning.free_text import write_text
from langmem_adapter.records.results import tokens_in
from langmem_adapter.records.scope import SCOPE_FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from langchain_core.messages import BaseMessage

    from langmem_adapter.evaluation.questions import EvalQuestion
    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.reasoning.structured_output import Channel

OUTPUT: Final = 60
"""Tokens that an answer and its judgement have, about."""
_ANSWER: Final = (
    "Answer the question from the memories about the user, in one short sentence. Take nothing from elsewhere. If the memories "
    "do not say it, answer: I do not know."
)
_JUDGE: Final = (
    "You compare an answer with the right answer to a question. Other wording is right, and so is more detail; a missing or "
    "contradicting part is wrong. Reply with one word: right or wrong."
)


@dataclass(frozen=True, slots=True)
class AnswerPrompt:
    """A question with what the memory recalls for it."""

    question: EvalQuestion  # the question, with its right `answer`
    memories: str  # what `Memory.recall` gives for it

    @property
    def messages(self) -> list[BaseMessage]:
        """What the model is sent for the answer."""
        memories = self.memories or "There are no memories."
        return [SystemMessage(_ANSWER), HumanMessage(f"{memories}\n\nQuestion: {self.question.text}")]

    def judge_messages(self, answer: str) -> list[BaseMessage]:
        """What the judge is sent."""
        fields = {"question": self.question.text, "right answer": self.question.answer, "answer": answer}
        return [SystemMessage(_JUDGE), HumanMessage(json.dumps(fields, ensure_ascii=False))]

    @property
    def tokens(self) -> int:
        """Tokens that both calls send, about."""
        messages = [*self.messages, *self.judge_messages("")]
        return OUTPUT + sum(tokens_in(message.text) for message in messages)


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """One judged answer."""

    question: str  # the question
    scope: dict[str, str]  # the fields of the scope that was searched
    category: str  # its kind
    right: str  # the right answer
    answer: str  # the model's
    is_right: bool  # what the judge says
    judgement: str  # in the judge's words
    model: str  # who answered
    calls: int  # model calls
    input_tokens: int  # tokens sent
    output_tokens: int  # tokens received


def answer_prompts(
    memory: Memory, questions: Sequence[EvalQuestion], done: Sequence[JudgedAnswer]
) -> list[AnswerPrompt]:
    """The questions that have no answer yet, each with its memories; no model is called."""
    answered = {_key(answer.question, answer.scope) for answer in done}
    open_questions = [each for each in questions if _key(each.text, each.scope.named) not in answered]
    prompts = []
    for each in open_questions:
        scope: dict[str, Any] = {name: each.scope.named.get(name) for name in SCOPE_FIELDS}
        chain = memory.recall(**scope, reference_date=each.time)
        prompts.append(AnswerPrompt(each, str(chain.invoke(each.text)["memories"])))
    return prompts


def run_answers(
    channel: Channel, prompts: Sequence[AnswerPrompt], file: Path, *, progress: Callable[[int], object] = lambda _: None
) -> list[JudgedAnswer]:
    """Let the model answer and judge each prompt, and append each answer to *file*; *progress* is called with 1 after each.

    Raises:
        ModelError: The model cannot be reached or says nothing. The answers so far are in the file.
    """
    answers = []
    for prompt in prompts:
        answers.append(_answer(channel, prompt))
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(asdict(answers[-1]), ensure_ascii=False) + "\n")
        progress(1)
    return answers


def _answer(channel: Channel, prompt: AnswerPrompt) -> JudgedAnswer:
    answer = write_text(channel, prompt.messages, "answer question", "an answer").run()
    judgement = write_text(channel, prompt.judge_messages(answer.text), "judge answer", "a judgement").run()
    usage, question = answer.usage + judgement.usage, prompt.question
    return JudgedAnswer(
        question.text,
        dict(question.scope.named),
        question.category,
        question.answer,
        answer.text,
        judgement.text.strip(" \n.*\"'").casefold().startswith("right"),
        judgement.text,
        channel.name,
        usage.model_calls,
        usage.input_tokens,
        usage.output_tokens,
    )


def read_answers(file: Path, model: str) -> list[JudgedAnswer]:
    """The answers that *model* gave in an earlier run; none where there is no file.

    Raises:
        InvalidInputError: A line is not an answer of such a run.
    """
    if not file.exists():
        return []
    answers = []
    for number, line in enumerate(file.read_text(encoding="utf-8").split("\n"), 1):
        try:
            if line.strip():
                answers.append(JudgedAnswer(**json.loads(line)))
        except (ValueError, TypeError) as error:
            raise InvalidInputError(f"{file}, line {number} is no answer of an earlier run: {error}") from None
    return [answer for answer in answers if answer.model == model]


def _key(question: str, scope: Any) -> tuple[str, ...]:
    return (question, *(f"{name}={value}" for name, value in sorted(scope.items())))
