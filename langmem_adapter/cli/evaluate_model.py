"""Commands that measure a chat model: `eval prompts` and `eval answers`."""

import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer
from rich.table import Table
from rich.text import Text

from langmem_adapter.cli.evaluate import scratch_memory
from langmem_adapter.cli.failures import CommandError, ExitCode
from langmem_adapter.cli.options import Invocation, option
from langmem_adapter.cli.output import visible
from langmem_adapter.cli.pictures import plain_table
from langmem_adapter.cli.progress import Steps
from langmem_adapter.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.language_models import BaseChatModel

    from langmem_adapter.evaluation.answers import AnswerPrompt, JudgedAnswer
    from langmem_adapter.evaluation.prompts import MemorySystem, PromptCase
    from langmem_adapter.limits import Limits
    from langmem_adapter.reasoning.structured_output import Channel

__all__ = ["answers", "chat_model", "prompts"]

_SHORT: Final = {"updates_right": "upd. right", "updates_wrong": "upd. wrong"}
_HIDDEN: Final = {"system", "facts", "updates"}  # of the table; `--json` has all
_MILLION: Final = 1_000_000
_REPLY: Final = 256  # tokens of an answer, a judgement, or what doctor asks for


def prompts(
    call: Invocation,
    *,
    against: Annotated[Literal["mem0"] | None, option(help="Run the same through an installed Mem0.")] = None,
    kinds: Annotated[str | None, option(metavar="NAME,NAME,…", help="Only these kinds of conversations.")] = None,
    limit: Annotated[int | None, option(metavar="N", min=1, help="Only the first N conversations.")] = None,
) -> None:
    """Measure what your chat model remembers of sixty short conversations.

    English and Chinese: facts, updates, requests to forget, named speakers,
    dates, prompt injection, small talk. What a memory must contain at the end
    is compared word by word; no judge is asked. About 85 adds, each with one
    or two calls of the model. Works in a database of its own that is removed
    afterwards; with -d it stays.

    [bold]Examples[/bold]
    $ langmem-adapter eval prompts --model offline
    $ langmem-adapter eval prompts --model openai:gpt-5-mini --against mem0
    """
    from langmem_adapter.evaluation.prompts import Mem0System, OwnSystem, read_cases

    cases = _chosen(read_cases(), kinds)[:limit]
    with scratch_memory(call) as memory, ExitStack() as folders:
        systems: list[MemorySystem] = [OwnSystem(memory)]
        if against is not None:
            folder = Path(folders.enter_context(tempfile.TemporaryDirectory(prefix="langmem-adapter-mem0-")))
            model, _ = chat_model(call)
            systems.append(Mem0System(model, memory.parts.embedder.embeddings, folder))
        rows, texts = [], {}
        for system in systems:
            scores = _run(call, system, cases)
            rows += [{"system": system.name, **score.to_json()} for score in scores[0]]
            texts[system.name] = scores[1]
        call.output.show(rows, columns=[*rows[0]], picture=_prompts_table, mode=memory.mode, conversations=texts)


def _chosen(cases: "list[PromptCase]", kinds: str | None) -> "list[PromptCase]":
    names = list(dict.fromkeys(case.kind for case in cases))
    wanted = names if kinds is None else [kind.strip() for kind in kinds.split(",")]
    if unknown := [kind for kind in wanted if kind not in names]:
        raise InvalidInputError(f"--kinds: there is no {', '.join(unknown)}; there are {', '.join(names)}")
    return [case for case in cases if case.kind in wanted]


def _run(call: Invocation, system: "MemorySystem", cases: "list[PromptCase]") -> tuple[list[Any], list[dict[str, Any]]]:
    """The sums, and each conversation with the texts that were stored."""
    from langmem_adapter.evaluation.prompts import run_cases, totals

    with Steps(call.output, len(cases), what=f"conversations through {system.name}") as steps:
        scores = run_cases(system, cases, progress=steps.advance)
    each = [
        {
            **score.to_json(),
            "errors": score.errors,
            "turns": [turn["text"] for turn in case.turns],
            "memories": list(score.texts),
        }
        for case, score in zip(cases, scores, strict=True)
    ]
    return totals(scores), each


def _prompts_table(rows: "Sequence[dict[str, Any]]") -> Table:
    columns = [column for column in rows[0] if column not in _HIDDEN]
    systems = {row["system"] for row in rows}
    heads = [*(["system"] if len(systems) > 1 else []), *(_SHORT.get(column, column) for column in columns)]
    table = plain_table(heads, (_cells(row, columns, with_system=len(systems) > 1) for row in rows))
    table.expand = False
    return table


def _cells(row: "dict[str, Any]", columns: "Sequence[str]", *, with_system: bool) -> list[Text]:
    style = "bold" if row["kind"] == "overall" else ""
    values = [*([row["system"]] if with_system else []), *(row[column] for column in columns)]
    return [Text(f"{value:,}" if isinstance(value, int | float) else visible(value), style=style) for value in values]


# ── answers ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def answers(
    call: Invocation,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON lines, in UTF-8.", show_default=False)],
    *,
    out: Annotated[
        Path | None, option(metavar="FILE", help="Where the answers are kept; else FILE.answers.jsonl.")
    ] = None,
    price: Annotated[
        str | None, option(metavar="IN,OUT", help="Dollars per million tokens sent and received, to show the cost.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before the model is called.")] = False,
) -> None:
    """Measure whether your chat model answers rightly from your memories.

    FILE holds a JSON object a line: "question" and "answer", the right one;
    it may have "category", "user_id", "agent_id", "run_id". For each question
    the memories are recalled, the model answers, and the same model judges
    the answer. Calls, tokens and cost are shown before it begins. A run that
    broke off goes on where it stopped.

    [bold]Examples[/bold]
    $ langmem-adapter eval answers mine.jsonl -u alice --model openai:gpt-5-mini
    $ langmem-adapter eval answers mine.jsonl -u alice --price 0.25,2 --yes
    """
    from langmem_adapter.evaluation.answers import answer_prompts, read_answers, run_answers
    from langmem_adapter.evaluation.questions import read_questions
    from langmem_adapter.reasoning.structured_output import Channel

    prices, target = _prices(price), out or file.with_name(f"{file.name}.answers.jsonl")
    questions = read_questions(file, call.scope, answers=True)
    channel = Channel(*chat_model(call))
    done = read_answers(target, channel.name)
    with call.memory() as memory:
        waiting = answer_prompts(memory, questions, done)
    if waiting:
        cost = _cost(waiting, channel, prices)
        if yes:
            call.output.note(cost)
        else:
            call.confirm("make", cost)
    with Steps(call.output, len(waiting), what="questions") as steps:
        made = run_answers(channel, waiting, target, progress=steps.advance)
    asked = {(question.text, tuple(question.scope.named.items())) for question in questions}
    judged = [each for each in (*done, *made) if (each.question, tuple(each.scope.items())) in asked]
    _show_answers(call, judged, target)


def chat_model(call: Invocation) -> "tuple[BaseChatModel, Limits]":
    """The chat model of the settings or of `--model`, and the limits of its calls."""
    from langmem_adapter.limits import limits_of
    from langmem_adapter.providers import reply_bounds
    from langmem_adapter.reasoning.llm import named_model

    name = call.options["model"] or call.settings.model
    if name == "offline":
        raise CommandError(
            "this needs a chat model",
            "add --model, as --model openai:gpt-5-mini, or set LANGMEM_ADAPTER_MODEL",
            code="configuration",
            exit_code=ExitCode.CONFIGURATION,
        )
    model = named_model(name, call.settings)
    bounds = reply_bounds(model, name, call.settings, _REPLY)
    return model.model_copy(update=bounds), limits_of(name, model, call.settings)


def _prices(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        sent, received = map(float, text.split(","))
    except ValueError:
        raise InvalidInputError(f"--price takes two numbers, as 0.25,2, not {text!r}") from None
    return sent, received


def _cost(waiting: "Sequence[AnswerPrompt]", channel: "Channel", prices: tuple[float, float] | None) -> str:
    from langmem_adapter.evaluation.answers import OUTPUT

    sent, received = sum(prompt.tokens for prompt in waiting), OUTPUT * len(waiting)
    money = "" if prices is None else f", about ${(sent * prices[0] + received * prices[1]) / _MILLION:.2f}"
    return f"{2 * len(waiting):,} calls of {channel.name}, about {sent:,} tokens sent and {received:,} received{money}"


def _show_answers(call: Invocation, judged: "Sequence[JudgedAnswer]", target: Path) -> None:
    categories = [*dict.fromkeys(each.category for each in judged if each.category), "overall"]
    rows = []
    for category in categories:
        chosen = [each for each in judged if category in {each.category, "overall"}]
        right = sum(each.is_right for each in chosen)
        rows.append(
            {"category": category, "questions": len(chosen), "right": right, "share": round(right / len(chosen), 4)}
        )
    tokens = {name: sum(getattr(each, name) for each in judged) for name in ("calls", "input_tokens", "output_tokens")}
    picture = partial(_answers_table, title=str(target))
    call.output.show(rows, columns=[*rows[0]], picture=picture, file=str(target), **tokens)


def _answers_table(rows: "Sequence[dict[str, Any]]", *, title: str) -> Table:
    table = plain_table([*rows[0]], ([Text(visible(str(value))) for value in row.values()] for row in rows))
    table.title, table.expand = Text(visible(title)), False
    return table
