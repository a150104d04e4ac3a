"""The commands `eval conversations`, `eval questions`, `eval prompts` and `eval answers`."""

import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer
from rich.table import Table
from rich.text import Text

from langmem_adapter.cli.options import Invocation, named, option, scopes_in_words
from langmem_adapter.cli.output import CommandError, Steps, visible
from langmem_adapter.cli.pictures import plain_table
from langmem_adapter.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from langchain_core.language_models import BaseChatModel

    from langmem_adapter.evaluation.prompts import JudgedAnswer, MemorySystem, PromptCase, PromptScore
    from langmem_adapter.evaluation.questions import Dialogue, EvalQuestion
    from langmem_adapter.evaluation.runner import MemoryOrigin, QuestionResult, Report
    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.providers import Limits

_NAMED: Final = 10  # missed questions that a terminal shows
_MOST: Final = 1_000
_SHORT: Final = {"mrr": "MRR", "recall@500 tokens": "r@500t", "session recall": "session", "first session": "first"}
"""What a terminal shows beside recall by number of hits; `--json` has all."""

CutsOption = Annotated[str, typer.Option("-k", "--k", metavar="N,N,…", help="Numbers of hits to measure recall at.")]
AgainstOption = Annotated[
    Path | None, option(metavar="FILE.json", help="Compare, question by question, with an earlier run's --json.")
]


def conversations(
    call: Invocation,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON: LoCoMo's, or plain.", show_default=False)],
    *,
    infer: Annotated[bool, typer.Option("--infer", help="Extract facts; else turns are kept word for word.")] = False,
    user_turns: Annotated[bool, typer.Option("--user-turns", help="Leave out what the assistant said.")] = False,
    limit: Annotated[int | None, option(metavar="N", min=1, help="Only the first N conversations.")] = None,
    categories: Annotated[str | None, option(metavar="NAME,NAME,…", help="Only these kinds of questions.")] = None,
    others: Annotated[int, typer.Option(metavar="N", min=0, help="Of how many others each question is asked.")] = 3,
    k: CutsOption = "5,10,20",
    against: AgainstOption = None,
) -> None:
    """Measure on conversations: is the turn that answers among the hits?

    FILE is LoCoMo's locomo10.json or a part of it (CC BY-NC 4.0, not shipped
    with this package: github.com/snap-research/locomo), or a JSON list of
    {"user", "sessions": [{"time", "turns": [{"id", "role", "text"}]}],
    "questions": [{"question", "gold": ["id of a turn"], "cat", "time"}]}. LoCoMo's
    adversarial kind is not counted in the overall numbers.

    Each question is asked of other conversations, too: how well does the
    relevance of the best hit tell that nothing is known there? Works in a
    new database that is removed afterwards; with -d it stays. The time
    of a search includes the embedding of the question.

    [bold]Examples[/bold]
    $ langmem-adapter eval conversations locomo10.json --json > hash.json
    $ export LANGMEM_ADAPTER_EMBEDDINGS=static
    $ langmem-adapter eval conversations locomo10.json --against hash.json
    $ langmem-adapter eval conversations beam.json --user-turns --limit 1
    """
    from langmem_adapter.evaluation.questions import read_conversations
    from langmem_adapter.evaluation.runner import ingest, read_run, silence

    cuts, before = _numbers(k), None if against is None else read_run(against)
    talks = read_conversations(file, roles=("user",) if user_turns else ("user", "assistant"))[:limit]
    selected = [question for talk in talks for question in talk.questions]
    if not selected:
        raise InvalidInputError(f"{file} has no question that names a turn")
    names = _names(categories, "--categories", sorted({question.category for question in selected} - {""}))
    if categories is not None:
        selected = [question for question in selected if question.category in names]
    turns = sum(talk.turns for talk in talks)
    with scratch_memory(call) as memory:
        with Steps(call.output, turns, what="turns") as steps:
            sources = ingest(memory, talks, infer=infer, progress=steps.advance)
        answers = _ask(call, memory, selected, cuts, sources)
        with Steps(call.output, what="foreign questions") as steps:
            silences = silence(memory, talks, answers, others=others, progress=steps.show)
        how = "facts extracted" if infer else "turns kept word for word"
        extra = {"turns": turns, "infer": infer, **_left_out(call, talks)}
        title = f"{file.name}, {how}"
        _report(call, memory, answers, before, title=title, group="conversation", silence=silences, **extra)
        if others and not silences:
            call.output.aside("foreign questions: none, since there is no other conversation to ask them of")


def questions(
    call: Invocation,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON lines, in UTF-8.", show_default=False)],
    k: CutsOption = "5,10,20",
    against: AgainstOption = None,
) -> None:
    """Measure with your own questions on your memories.

    FILE holds a JSON object a line: "question", and either "expected", a list
    of ids of the memories that have to be found, or "contains", a list of
    texts that have to be found within hits. A line may have a "category", and
    "user_id", "agent_id", "run_id" in place of -u, --agent, --run. Nothing is
    written. Questions with evidence outside the first ten hits are listed.

    [bold]Examples[/bold]
    $ langmem-adapter eval questions mine.jsonl -u alice
    $ langmem-adapter eval questions mine.jsonl -u alice -k 1,3,10
    $ langmem-adapter eval questions mine.jsonl --json > before.json
    $ langmem-adapter eval questions mine.jsonl --against before.json
    """
    from langmem_adapter.evaluation.questions import read_questions
    from langmem_adapter.evaluation.runner import check, read_run

    cuts, before = _numbers(k), None if against is None else read_run(against)
    selected = read_questions(file, call.scope)
    with call.memory() as memory:
        counts = memory.scopes()
        for question in selected:
            if not any(question.scope.covers(count.scope) for count in counts):
                raise CommandError(
                    f"{question.where}: there are no memories of {named(question.scope.named)}",
                    scopes_in_words(counts),
                    code="nothing_found",
                )
        check(memory, selected)
        answers = _ask(call, memory, selected, cuts)
        _report(call, memory, answers, before, title=file.name, group="scope", silence=[])
    missed = [each for each in answers if each.missed]
    if missed:
        summary = f"{len(missed)} of {len(answers)} questions did not find everything within ten hits"
        call.output.aside(summary, "yellow")
    for each in missed[:_NAMED]:
        call.output.aside(f"{each.where}: {len(each.ranks)} of {each.pieces} found · {each.question}")
    if len(missed) > _NAMED:
        call.output.aside(f"and {len(missed) - _NAMED} more; --json names all")


def _numbers(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and 1 <= int(part) <= _MOST for part in parts):
        raise InvalidInputError(f"-k takes numbers from 1 to {_MOST:,} with commas between them, not {text!r}")
    return sorted({int(part) for part in parts})


def _names(text: str | None, option: str, existing: list[str]) -> list[str]:
    """The names of an option; without it all that exist."""
    names = existing if text is None else [name.strip() for name in text.split(",")]
    if unknown := sorted({*names} - {*existing}):
        raise InvalidInputError(f"{option}: there is no {', '.join(unknown)}; there are {', '.join(existing)}")
    return names


@contextmanager
def scratch_memory(call: Invocation) -> "Iterator[Memory]":
    """A memory in a folder that is removed afterwards, or in the database that `-d` names."""
    with tempfile.TemporaryDirectory(prefix="langmem-adapter-eval-") as folder:
        if call.options["database"] is None:
            call.options["database"] = str(Path(folder) / "memory.db")
        with call.memory(create=True) as memory:
            yield memory


def _ask(
    call: Invocation,
    memory: "Memory",
    questions: "Sequence[EvalQuestion]",
    cuts: "Sequence[int]",
    sources: "dict[str, MemoryOrigin] | None" = None,
) -> "list[QuestionResult]":
    from langmem_adapter.evaluation.runner import ask

    with Steps(call.output, len(questions), what="questions") as steps:
        return ask(memory, questions, sources=sources, cuts=cuts, progress=steps.advance)


def _report(
    call: Invocation,
    memory: "Memory",
    answers: "Sequence[QuestionResult]",
    before: "list[QuestionResult] | None",
    *,
    title: str,
    group: str,
    silence: list[dict[str, Any]],
    **extra: object,
) -> None:
    """Show the report, with the range of its metrics over the conversations or scopes, which *group* names."""
    from langmem_adapter.evaluation.runner import differences, summarise

    report, embeddings = summarise(answers), memory.parts.fingerprint
    changed = [] if before is None else differences(answers, before)
    more = {**report.to_json(), "embeddings": embeddings, "silence": silence, "against": changed, **extra}
    columns = [column for column in report.scores[0] if column != "apart"]
    call.output.show(
        report.scores, columns=columns, picture=lambda rows: _scores_table(rows, f"{title} · {embeddings}"), **more
    )
    for line in _notes(report, silence, changed, group):
        call.output.aside(line)


def _notes(
    report: "Report", silence: list[dict[str, Any]], changed: list[dict[str, Any]], group: str
) -> "Iterator[str]":
    yield f"context of ten hits {report.tokens:.0f} tokens (approximate)"
    yield f"a search {report.p50:.1f} ms, 95 % within {report.p95:.1f} ms"
    for metric, (low, high) in report.intervals.items():
        each_of = [row[metric] for row in report.conversations]
        spread = f", {min(each_of):.3f} to {max(each_of):.3f} by {group}" if len(each_of) > 1 else ""
        yield f"{metric} {low:.3f} to {high:.3f} (95 %){spread}"
    for row in silence:
        yield (
            "foreign questions, names {names}: AUROC {auroc:.3f}; {silent:.3f} of {foreign:,} silent "
            "at relevance {threshold:.2f}, where 0.95 of the user's are answered"
        ).format(**row)
    for row in changed:
        yield f"{row['metric']} {row['difference']:+.3f} ({row['low']:+.3f} to {row['high']:+.3f}) against the earlier run"


def _scores_table(rows: "Sequence[dict[str, Any]]", title: str) -> Table:
    metrics = [name for name in rows[0] if name in _SHORT or name.removeprefix("recall@").isdecimal()]
    cells = []
    for row in rows:
        name = f"({row['category']})" if row["apart"] else row["category"]
        cells.append([name, row["questions"], *(f"{row[metric]:.3f}" for metric in metrics)])
    return _table(
        ["questions", "n", *(_SHORT.get(name, name.replace("recall", "r")) for name in metrics)], cells, title
    )


def _table(columns: "Sequence[str]", rows: "Iterable[Sequence[object]]", title: str = "") -> Table:
    """A table as wide as its cells; the row "overall" is bold, and one in parentheses dim."""
    table = plain_table(columns, ())
    for row in rows:
        style = "bold" if "overall" in row[:2] else "dim" if str(row[0]).startswith("(") else ""
        cells = (f"{value:,}" if isinstance(value, int | float) else visible(str(value)) for value in row)
        table.add_row(*(Text(cell, style=style) for cell in cells))
    table.title, table.expand = Text(visible(title)) if title else None, False
    return table


def _left_out(call: Invocation, talks: "Sequence[Dialogue]") -> dict[str, list[str]]:
    left_out = [line for talk in talks for line in talk.left_out]
    unusable = [line for talk in talks for line in talk.unusable]
    for line in (*(f"left out: {line}" for line in left_out), *(f"evidence not used: {line}" for line in unusable)):
        call.output.aside(line, "yellow")
    return {"left_out": left_out, "unusable": unusable}


_SHORT_COLUMNS: Final = {"updates_right": "upd. right", "updates_wrong": "upd. wrong"}
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
    or two calls of the model. Works in a new database that is removed
    afterwards; with -d it stays.

    [bold]Examples[/bold]
    $ langmem-adapter eval prompts --model offline
    $ langmem-adapter eval prompts --model openai:gpt-5-mini --against mem0
    """
    from langmem_adapter.evaluation.prompts import Mem0System, OwnSystem, read_cases, run_cases, totals

    cases = read_cases()
    names = _names(kinds, "--kinds", list(dict.fromkeys(case.kind for case in cases)))
    cases = [case for case in cases if case.kind in names][:limit]
    with scratch_memory(call) as memory, ExitStack() as folders:
        systems: list[MemorySystem] = [OwnSystem(memory)]
        if against is not None:
            folder = Path(folders.enter_context(tempfile.TemporaryDirectory(prefix="langmem-adapter-mem0-")))
            model, _ = chat_model(call)
            systems.append(Mem0System(model, memory.parts.embedder.embeddings, folder))
        rows: list[dict[str, Any]] = []
        texts = {}
        for system in systems:
            with Steps(call.output, len(cases), what=f"conversations through {system.name}") as steps:
                scores = run_cases(system, cases, progress=steps.advance)
            rows += [{"system": system.name, **score.to_json()} for score in totals(scores)]
            texts[system.name] = [_conversation(case, score) for case, score in zip(cases, scores, strict=True)]
        call.output.show(rows, columns=[*rows[0]], picture=_prompts_table, mode=memory.mode, conversations=texts)


def _conversation(case: "PromptCase", score: "PromptScore") -> dict[str, Any]:
    """A conversation with the texts that were stored."""
    turns = [turn["text"] for turn in case.turns]
    return {**score.to_json(), "errors": score.errors, "turns": turns, "memories": list(score.texts)}


def _prompts_table(rows: "Sequence[dict[str, Any]]") -> Table:
    several = len({row["system"] for row in rows}) > 1
    columns = [*(["system"] if several else []), *(column for column in rows[0] if column not in _HIDDEN)]
    heads = [_SHORT_COLUMNS.get(column, column) for column in columns]
    return _table(heads, ([row[column] for column in columns] for row in rows))


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
    from langmem_adapter.evaluation.prompts import OUTPUT, answer_prompts, read_answers, run_answers
    from langmem_adapter.evaluation.questions import read_questions
    from langmem_adapter.reasoning.structured_output import Channel

    try:
        prices = None if price is None else dict(zip(("in", "out"), map(float, price.split(",")), strict=True))
    except ValueError:
        raise InvalidInputError(f"--price takes two numbers, as 0.25,2, not {price!r}") from None
    target = out or file.with_name(f"{file.name}.answers.jsonl")
    questions = read_questions(file, call.scope, answers=True)
    channel = Channel(*chat_model(call))
    done = read_answers(target, channel.name)
    with call.memory() as memory:
        waiting = answer_prompts(memory, questions, done)
    if waiting:
        sent, received = sum(prompt.tokens for prompt in waiting), OUTPUT * len(waiting)
        cost = f"{2 * len(waiting):,} calls of {channel.name}, about {sent:,} tokens sent and {received:,} received"
        if prices:
            cost += f", about ${(sent * prices['in'] + received * prices['out']) / _MILLION:.2f}"
        if yes:
            call.output.note(cost)
        else:
            call.confirm("make", cost)
    with Steps(call.output, len(waiting), what="questions") as steps:
        made = run_answers(channel, waiting, target, progress=steps.advance)
    current = {(question.text, tuple(question.scope.named.items())) for question in questions}
    judged = [each for each in (*done, *made) if (each.question, tuple(each.scope.items())) in current]
    _show_answers(call, judged, target)


def chat_model(call: Invocation) -> "tuple[BaseChatModel, Limits]":
    """The chat model of the settings or of `--model`, and the limits of its calls."""
    from langmem_adapter.providers import limits_of, reply_bounds
    from langmem_adapter.reasoning.llm import named_model

    name = call.options["model"] or call.settings.model
    if name == "offline":
        raise CommandError(
            "this needs a chat model",
            "add --model, as --model openai:gpt-5-mini, or set LANGMEM_ADAPTER_MODEL",
            code="configuration",
        )
    model = named_model(name, call.settings)
    bounds = reply_bounds(model, name, call.settings, _REPLY)
    return model.model_copy(update=bounds), limits_of(name, model, call.settings)


def _show_answers(call: Invocation, judged: "Sequence[JudgedAnswer]", target: Path) -> None:
    rows = []
    for category in [*dict.fromkeys(each.category for each in judged if each.category), "overall"]:
        chosen = [each.is_right for each in judged if category in {each.category, "overall"}]
        counts = {"questions": len(chosen), "right": sum(chosen), "share": round(sum(chosen) / len(chosen), 4)}
        rows.append({"category": category, **counts})
    tokens = {name: sum(getattr(each, name) for each in judged) for name in ("calls", "input_tokens", "output_tokens")}
    columns = [*rows[0]]

    def picture(rows: "Sequence[dict[str, Any]]") -> Table:
        return _table(columns, ([str(value) for value in row.values()] for row in rows), str(target))

    call.output.show(rows, columns=columns, picture=picture, file=str(target), **tokens)
