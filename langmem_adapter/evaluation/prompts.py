"""Evaluation of a chat model: memories of sixty short conversations, also of an installed Mem0, and answers from memories.

`eval prompts` compares every stored text with what a right memory contains and with what must be gone; no judge is asked. In
`eval answers` the model judges its answers; each is appended to a file, so that a run that broke off goes on where it stopped.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module, resources
from typing import TYPE_CHECKING, Any, Final, Protocol

from langchain_core.messages import HumanMessage, SystemMessage

from langmem_adapter.errors import InvalidInputError, LangmemAdapterError, MissingDependencyError
from langmem_adapter.reasoning.free_text import write_text
from langmem_adapter.records.results import Usage, tokens_in
from langmem_adapter.records.scope import SCOPE_FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from langchain_core.embeddings import Embeddings
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage

    from langmem_adapter.evaluation.questions import EvalQuestion
    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.reasoning.structured_output import Channel

_MEM0_ERRORS: Final = (ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError)
_MOST: Final = 1_000


@dataclass(frozen=True, slots=True)
class PromptCase:
    """One short conversation."""

    kind: str  # what it tests: facts, several, update, forget, speakers, dates, injection, small talk, answers
    # each is one `add`: `text`, and maybe the speaker's `name`, the `assistant`'s message before it, a `timestamp`
    turns: tuple[Mapping[str, str], ...]
    # what memories contain at the end: all words in one text; `a|b` is either, `!a` is not, and `_` is a space
    facts: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()  # what no memory contains at the end, in the same form


@dataclass(frozen=True, slots=True)
class PromptScore:
    """What one conversation came to, or several together."""

    kind: str  # of the conversations
    facts: int = 0  # how many facts a memory should have
    right: int = 0  # those that a memory states
    wrong: int = 0  # memories that state none of them
    copied: int = 0  # memories that state only what an earlier one states
    updates: int = 0  # statements that should have ended
    ended: int = 0  # those that no memory states any more
    errors: Mapping[str, int] = field(default_factory=dict)  # adds that raised, by the name of the error's class
    usage: Usage = field(default_factory=Usage)  # model calls and tokens
    seconds: float = 0.0  # time of the adds
    texts: tuple[str, ...] = ()  # the memories at the end

    def to_json(self) -> dict[str, Any]:
        """As one flat row."""
        return {
            "kind": self.kind,
            "facts": self.facts,
            "right": self.right,
            "missed": self.facts - self.right,
            "wrong": self.wrong,
            "copied": self.copied,
            "updates": self.updates,
            "updates_right": self.ended,
            "updates_wrong": self.updates - self.ended,
            "errors": sum(self.errors.values()),
            "calls": self.usage.model_calls,
            "tokens": self.usage.input_tokens + self.usage.output_tokens,
            "seconds": round(self.seconds, 2),
        }


class MemorySystem(Protocol):
    """What is measured: a memory that conversations go into."""

    name: str

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What an add may raise, which is counted."""

    def add(self, messages: list[dict[str, str]], user_id: str, timestamp: str | None) -> Usage:
        """Remember messages and say what it cost."""

    def texts(self, user_id: str) -> list[str]:
        """Every memory of a user, with its speaker's name where it has one."""


class OwnSystem:
    """A `Memory` of this package."""

    name = "langmem_adapter"
    errors: tuple[type[Exception], ...] = (LangmemAdapterError,)

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def add(self, messages: list[dict[str, str]], user_id: str, timestamp: str | None) -> Usage:
        """Remember messages."""
        return self._memory.add(messages, user_id=user_id, timestamp=timestamp).usage

    def texts(self, user_id: str) -> list[str]:
        """Every memory, oldest first."""
        items = self._memory.get_all(user_id=user_id, k=_MOST)
        return [
            item.text if item.actor_id == item.role else f"{item.actor_id}: {item.text}" for item in reversed([*items])
        ]


class Mem0System:
    """An installed Mem0 with the same model, which has to speak OpenAI's protocol, and embeddings, in an empty folder."""

    def __init__(self, model: BaseChatModel, embeddings: Embeddings, folder: Path) -> None:
        from langchain_openai.chat_models.base import BaseChatOpenAI  # noqa: PLC0415 - slow to import, and offline needs none

        os.environ.setdefault("MEM0_TELEMETRY", "False")
        os.environ.setdefault("MEM0_DIR", str(folder))
        try:
            mem0 = import_module("mem0")
        except ImportError as error:
            raise MissingDependencyError("--against mem0 needs Mem0: pip install mem0ai") from error
        if not isinstance(model, BaseChatOpenAI):
            raise InvalidInputError("--against mem0 needs a chat model that speaks OpenAI's protocol, as openai:NAME")
        client, dimensions = model.root_client, len(embeddings.embed_query("size"))
        llm = {"model": model.model_name, "api_key": client.api_key, "openai_base_url": str(client.base_url)}
        llm["temperature"] = 0.0
        store = {"path": str(folder / "qdrant"), "collection_name": "eval", "embedding_model_dims": dimensions}
        config = {
            "llm": {"provider": "openai", "config": llm},
            "embedder": {"provider": "langchain", "config": {"model": embeddings, "embedding_dims": dimensions}},
            "vector_store": {"provider": "qdrant", "config": store},
            "history_db_path": str(folder / "history.db"),
        }
        self._mem0 = mem0.Memory.from_config(config)
        self._usage = Usage()
        completions = self._mem0.llm.client.chat.completions
        create = completions.create

        def counted(**arguments: Any) -> Any:
            reply = create(**arguments)
            self._usage += Usage(1, reply.usage.prompt_tokens, reply.usage.completion_tokens)
            return reply

        completions.create = counted
        self.name = f"mem0 {mem0.__version__}"
        self.errors: tuple[type[Exception], ...] = (*_MEM0_ERRORS, import_module("openai").OpenAIError)

    def add(self, messages: list[dict[str, str]], user_id: str, timestamp: str | None) -> Usage:
        """Remember messages; without their time, which Mem0 1.x cannot be given."""
        del timestamp
        self._usage = Usage()
        self._mem0.add(messages, user_id=user_id)
        return self._usage

    def texts(self, user_id: str) -> list[str]:
        """Every memory, oldest first."""
        try:
            reply = self._mem0.get_all(filters={"user_id": user_id}, top_k=_MOST)  # 2.x
        except TypeError:
            reply = self._mem0.get_all(user_id=user_id, limit=_MOST)
        items = sorted(reply["results"], key=lambda item: item["created_at"])
        return [f"{item['actor_id']}: {item['memory']}" if item.get("actor_id") else item["memory"] for item in items]


def read_cases() -> list[PromptCase]:
    """The conversations that come with the package."""
    text = resources.files(__package__).joinpath("prompts.jsonl").read_text(encoding="utf-8")
    rows = map(json.loads, text.splitlines())
    return [PromptCase(row["kind"], *(tuple(row[name]) for name in ("turns", "facts", "ended"))) for row in rows]


def run_cases(
    system: MemorySystem, cases: Sequence[PromptCase], *, progress: Callable[[int], object] = lambda _: None
) -> list[PromptScore]:
    """Put each conversation into the memory and score it; *progress* is called with 1 after each."""
    scores = []
    for number, case in enumerate(cases, 1):
        scores.append(_score(system, case, f"eval-prompts-{number}"))
        progress(1)
    return scores


def _score(system: MemorySystem, case: PromptCase, user_id: str) -> PromptScore:
    errors, usage, start = Counter[str](), Usage(), time.perf_counter()
    for turn in case.turns:
        try:
            usage += system.add([*_messages(turn)], user_id, turn.get("timestamp"))
        except system.errors as error:
            errors[type(error).__name__] += 1
    seconds = time.perf_counter() - start
    texts = system.texts(user_id)
    covered: set[str] = set()
    copied = wrong = 0
    for text in texts:
        facts = {fact for fact in case.facts if states(text, fact)}
        copied += bool(facts) and facts <= covered
        covered |= facts
        wrong += not facts and not any(states(text, end) for end in case.ended)
    return PromptScore(
        case.kind,
        facts=len(case.facts),
        right=len(covered),
        wrong=wrong,
        copied=copied,
        updates=len(case.ended),
        ended=sum(not any(states(text, end) for text in texts) for end in case.ended),
        errors=errors,
        usage=usage,
        seconds=seconds,
        texts=tuple(texts),
    )


def _messages(turn: Mapping[str, str]) -> Iterator[dict[str, str]]:
    if "assistant" in turn:
        yield {"role": "assistant", "content": turn["assistant"]}
    yield {"role": "user", "content": turn["text"], **({"name": turn["name"]} if "name" in turn else {})}


def states(text: str, fact: str) -> bool:
    """Whether a text contains what a fact of a `PromptCase` requires.

    Example:
        >>> states("Moved from Ghent to Antwerp", "antwerp moved|lives"), states("Moved to Antwerp", "moved !antwerp")
        (True, False)
    """
    folded = text.casefold()

    def holds(requirement: str) -> bool:
        words = requirement.removeprefix("!").replace("_", " ").casefold().split("|")
        return any(word in folded for word in words) is not requirement.startswith("!")

    return all(map(holds, fact.split()))


def totals(scores: Sequence[PromptScore]) -> list[PromptScore]:
    """The sums of each kind, in the order of the conversations, and of all as `"overall"`."""
    sums = []
    for kind in [*dict.fromkeys(score.kind for score in scores), "overall"]:
        chosen = [score for score in scores if kind in {score.kind, "overall"}]
        counts = ("facts", "right", "wrong", "copied", "updates", "ended", "seconds")
        numbers: dict[str, Any] = {name: sum(getattr(score, name) for score in chosen) for name in counts}
        errors = sum((Counter(score.errors) for score in chosen), Counter[str]())
        usage = sum((score.usage for score in chosen), Usage())
        sums.append(PromptScore(kind, **numbers, errors=errors, usage=replace(usage, calls=())))
    return sums


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
    """Let the model answer and judge each prompt, and append each answer to *file*; *progress* is called with 1 after each."""
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
    """The answers that *model* gave in an earlier run; none where there is no file."""
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
