"""Commands that measure what is found: `eval locomo` and `eval questions`."""

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.bar import Bar
from rich.text import Text

from langmem_adapter.cli.failures import CommandError, ExitCode
from langmem_adapter.cli.options import Call, known_scopes, named, option
from langmem_adapter.cli.output import visible
from langmem_adapter.cli.pictures import plain_table
from langmem_adapter.cli.progress import Steps
from langmem_adapter.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.table import Table

    from langmem_adapter.evaluation.datasets import Conversation, Question
    from langmem_adapter.evaluation.report import Report, Scores
    from langmem_adapter.evaluation.runner import Answer
    from langmem_adapter.memory import Memory

__all__ = ["locomo", "questions"]

_CONTEXT: Final = 10  # hits of a search that nobody gives a number; `evaluation.runner` is imported when it runs
_BAR: Final = 14
_NAMED: Final = 10  # missed questions that a terminal gets to see
_MOST: Final = 1_000

CutsOption = Annotated[str, typer.Option("-k", "--k", metavar="N,N,…", help="Numbers of hits to measure recall at.")]
PlotOption = Annotated[Path | None, option(metavar="FILE.svg", help="Draw the numbers into this file.")]


def locomo(
    call: Call,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="locomo10.json, or a part of it.", show_default=False)],
    infer: Annotated[bool, typer.Option("--infer", help="Extract facts; else turns are kept word for word.")] = False,
    limit: Annotated[int | None, option(metavar="N", min=1, help="Only the first N conversations.")] = None,
    categories: Annotated[str, typer.Option(metavar="N,N,…", help="Only these kinds of questions.")] = "1,2,3,4,5",
    k: CutsOption = "5,10,20",
    plot: PlotOption = None,
) -> None:
    """Measure on LoCoMo: is the turn that answers a question among the hits?

    FILE is LoCoMo's locomo10.json or a part of it; it is CC BY-NC 4.0 and not
    shipped with this package (github.com/snap-research/locomo). Kinds: 1
    multi-hop, 2 temporal, 3 open-domain, 4 single-hop, 5 (adversarial), which
    is not counted in the overall numbers. Works in a database of its own that is
    removed afterwards; with -d it stays. The time of a search includes the
    embedding of the question.

    [bold]Examples[/bold]
    $ langmem-adapter eval locomo locomo10.json
    $ langmem-adapter eval locomo locomo10.json --infer --limit 1 --plot out.svg
    $ langmem-adapter eval locomo locomo10.json --json --embeddings NAME
    """
    from langmem_adapter.evaluation import runner
    from langmem_adapter.evaluation.datasets import CATEGORIES, read_locomo

    cuts, kinds = _numbers(k, "-k", most=_MOST), _numbers(categories, "--categories", most=len(CATEGORIES))
    _refuse_plot(plot)
    conversations = read_locomo(file)[:limit]
    wanted = {CATEGORIES[kind] for kind in kinds}
    asked = [question for talk in conversations for question in talk.questions if question.category in wanted]
    if not asked:
        raise InvalidInputError(f"{file} has no question of these kinds that names a turn")
    turns = sum(talk.turns for talk in conversations)
    with _bench(call) as memory:
        with Steps(call.output, turns, what="turns") as steps:
            sources = runner.ingest(memory, conversations, infer=infer, progress=steps.advance)
        answers = _ask(call, memory, asked, cuts, sources)
        how = "facts extracted" if infer else "turns kept word for word"
        extra = {"conversations": len(conversations), "turns": turns, "infer": infer}
        _report(call, memory, answers, title=f"LoCoMo, {how}", plot=plot, **extra, **_left_out(call, conversations))


def questions(
    call: Call,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON lines, in UTF-8.", show_default=False)],
    k: CutsOption = "5,10,20",
    plot: PlotOption = None,
) -> None:
    """Measure with questions of your own on your own memories.

    FILE holds a JSON object a line: "question", and either "expected", a list
    of ids of the memories that have to be found, or "contains", a list of
    texts that have to be found within hits. A line may have a "category", and
    "user_id", "agent_id", "run_id" in place of -u, --agent, --run. Nothing is
    written. Those whose evidence is not all among ten hits are named.

    [bold]Examples[/bold]
    $ langmem-adapter eval questions mine.jsonl -u alice
    $ langmem-adapter eval questions mine.jsonl -u alice -k 1,3,10 --plot out.svg
    $ langmem-adapter eval questions mine.jsonl --json | jq .missed
    """
    from langmem_adapter.evaluation.datasets import read_questions
    from langmem_adapter.evaluation.runner import check

    cuts = _numbers(k, "-k", most=_MOST)
    _refuse_plot(plot)
    asked = read_questions(file, call.scope)
    with call.memory() as memory:
        _refuse_nobody(memory, asked)
        check(memory, asked)
        answers = _ask(call, memory, asked, cuts)
        _report(call, memory, answers, title=file.name, plot=plot)
        _name_missed(call, answers)


# ── before ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _numbers(text: str, option: str, *, most: int) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and 1 <= int(part) <= most for part in parts):
        raise InvalidInputError(f"{option} takes numbers from 1 to {most:,} with commas between them, not {text!r}")
    return sorted({int(part) for part in parts})


def _refuse_plot(plot: Path | None) -> None:
    # Before the work begins: nobody wants to hear it after an hour.
    if plot is None:
        return
    if plot.suffix.lower() != ".svg":
        raise InvalidInputError(f"--plot writes SVG; name the file {plot.with_suffix('.svg')}")
    if not plot.parent.is_dir():
        raise InvalidInputError(f"--plot: there is no folder {plot.parent}")


def _refuse_nobody(memory: "Memory", asked: "Sequence[Question]") -> None:
    counts = memory.scopes()
    for question in asked:
        if not any(question.scope.covers(count.scope) for count in counts):
            raise CommandError(
                f"{question.where}: there are no memories of {named(question.scope.named)}",
                code="nothing_found",
                exit_code=ExitCode.NOTHING_FOUND,
                hint=known_scopes(memory.scopes()),
            )


# ── the run ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _bench(call: Call) -> "Iterator[Memory]":
    with tempfile.TemporaryDirectory(prefix="langmem-adapter-eval-") as folder:
        if call.options["database"] is None:
            call.options["database"] = str(Path(folder) / "memory.db")
        with call.memory(create=True) as memory:
            yield memory


def _ask(
    call: Call,
    memory: "Memory",
    asked: "Sequence[Question]",
    cuts: "Sequence[int]",
    sources: dict[str, set[str]] | None = None,
) -> "list[Answer]":
    from langmem_adapter.evaluation.runner import ask

    with Steps(call.output, len(asked), what="questions") as steps:
        return ask(memory, asked, sources=sources, cuts=cuts, progress=steps.advance)


# ── what it gave ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _report(
    call: Call, memory: "Memory", answers: "Sequence[Answer]", *, title: str, plot: Path | None, **extra: object
) -> None:
    from langmem_adapter.evaluation.report import missed, summarise

    report = summarise(answers)
    rows = [scores.to_json() for scores in report.scores]
    embeddings = memory.engine.fingerprint
    if plot is not None:
        _draw(plot, report, title, f"{embeddings} · {memory.mode}")
    more = {**report.cost(), "embeddings": embeddings, "missed": missed(answers), **extra}
    columns = [column for column in rows[0] if column != "apart"]
    call.output.show(rows, columns=columns, picture=lambda: _picture(report, f"{title} · {embeddings}"), **more)
    if not call.output.as_json:
        cost = f"context of ten hits {report.tokens:.0f} tokens (approximate)"
        call.output.note(f"{cost} · a search {report.p50:.1f} ms, 95 % within {report.p95:.1f} ms")


def _draw(plot: Path, report: "Report", title: str, below: str) -> None:
    from langmem_adapter.evaluation.plot import svg

    try:
        plot.write_text(svg(report, title, below=below), encoding="utf-8")
    except OSError as error:
        raise InvalidInputError(f"cannot write {plot}: {error.strerror}") from None


def _picture(report: "Report", title: str) -> "Table":
    cuts = tuple(report.scores[0].recall)
    table = plain_table("questions", "n", *(f"r@{k}" for k in cuts), "MRR", f"nDCG@{_CONTEXT}", f"r@{_CONTEXT}")
    table.title = Text(visible(title))
    table.expand = False
    for scores in report.scores:
        _add(table, scores)
    return table


def _add(table: "Table", scores: "Scores") -> None:
    style = "bold" if scores.category == "overall" else "dim" if scores.apart else ""
    name = f"({scores.category})" if scores.apart else scores.category
    numbers = (*scores.recall.values(), scores.mrr, scores.ndcg)
    shares = (Text(f"{number:.3f}", style=style) for number in numbers)
    bar = Bar(1, 0, scores.recall[_CONTEXT], width=_BAR)
    table.add_row(Text(visible(name), style=style), Text(f"{scores.questions:,}", style=style), *shares, bar)


def _left_out(call: Call, conversations: "Sequence[Conversation]") -> dict[str, list[str]]:
    left_out = [line for conversation in conversations for line in conversation.left_out]
    unusable = [line for conversation in conversations for line in conversation.unusable]
    if not call.output.as_json:
        for line in left_out:
            call.output.note(f"left out: {line}", "yellow")
        for line in unusable:
            call.output.note(f"evidence not used: {line}", "yellow")
    return {"left_out": left_out, "unusable": unusable}


def _name_missed(call: Call, answers: "Sequence[Answer]") -> None:
    from langmem_adapter.evaluation.report import missed

    lines = [
        f"{row['where']}: {len(row['ranks'])} of {row['pieces']} found · {row['question']}" for row in missed(answers)
    ]
    if call.output.as_json or not lines:
        return
    call.output.note(f"{len(lines)} of {len(answers)} questions did not find everything within ten hits", "yellow")
    for line in lines[:_NAMED]:
        call.output.note(line)
    if len(lines) > _NAMED:
        call.output.note(f"and {len(lines) - _NAMED} more; --json names all")
