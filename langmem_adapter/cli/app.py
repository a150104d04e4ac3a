"""The command line `langmem-adapter` and its commands."""

import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from langmem_adapter._version import __version__
from langmem_adapter.cli import evaluate, graph, migrate, options
from langmem_adapter.cli import serve as keys
from langmem_adapter.cli.add import add
from langmem_adapter.cli.change import delete, purge, refine, reindex, restore, update
from langmem_adapter.cli.demo import demo
from langmem_adapter.cli.doctor import doctor
from langmem_adapter.cli.evaluate import conversations, questions
from langmem_adapter.cli.exchange import backup, copy, export, import_
from langmem_adapter.cli.look import history, list_, prompts, search, show, trace, users
from langmem_adapter.cli.output import CommandError, ExitCode, Output
from langmem_adapter.cli.serve import mcp, serve
from langmem_adapter.cli.setup import config, init
from langmem_adapter.records.checks import redact_urls


class _Group(TyperGroup):
    """A group that prints wrong usage on stderr, or as an envelope with `--json`."""

    def main(  # type: ignore[override]  # everybody names the others
        self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **extra: Any
    ) -> Any:
        """Run a command and end the process with its exit code."""
        as_json = "--json" in (sys.argv if args is None else args)
        try:
            code = super().main(args, standalone_mode=False, **extra)
        except typer.Abort:
            code = ExitCode.INTERRUPTED
        except typer.TyperException as error:
            code = _refuse(error, as_json=as_json)
        if not standalone_mode:
            return code
        sys.exit(code if isinstance(code, int) else ExitCode.OK)


app = typer.Typer(
    name="langmem-adapter",
    cls=_Group,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


# They have no scope.
_UNSCOPED: Final = (
    *(backup, config, copy, doctor, init, prompts, reindex, serve, users),
    *(conversations, evaluate.prompts, keys.list_, keys.revoke, migrate.threads),
)


def _add_commands(group: typer.Typer, *functions: Callable[..., None]) -> typer.Typer:
    for function in functions:
        name = function.__name__.rstrip("_")
        group.command(name)(options.command(function, scoped=function not in _UNSCOPED))
    return group


_add_commands(
    *(app, init, demo, add, search, list_, show, history, users, trace, update, delete, restore, purge),
    *(export, import_, refine, reindex, backup, copy, doctor, config, prompts, serve, mcp),
)
_graph = _add_commands(
    typer.Typer(
        cls=graph.GraphGroup, help="Look at the knowledge graph, or edit it: graph -u NAME, graph ENTITY -u NAME."
    ),
    *(graph.show, graph.entities, graph.path, graph.search),
    *(graph.add, graph.end, graph.delete, graph.merge, graph.split),
    *(graph.mirror, graph.export, graph.import_),
    *(graph.backfill, graph.suggest),
)
_keys = typer.Typer(no_args_is_help=True, help="Say who may call the server.")
_eval = typer.Typer(
    no_args_is_help=True, help="Measure how well memories are found, and what a chat model makes of them."
)
app.add_typer(_graph, name="graph")
_migrate = typer.Typer(no_args_is_help=True, help="Move memories, items, threads and chats here from other programs.")
app.add_typer(_add_commands(_migrate, migrate.mem0, migrate.langgraph, migrate.threads, migrate.chat), name="migrate")
app.add_typer(_add_commands(_keys, keys.create, keys.list_, keys.revoke), name="keys")
app.add_typer(_add_commands(_eval, conversations, questions, evaluate.prompts, evaluate.answers), name="eval")


def _version(is_set: bool) -> None:
    if is_set:
        typer.echo(f"langmem-adapter {__version__}")
        raise typer.Exit


@app.callback()
@options.before_commands
def _shared(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Long-term memory for LangChain and LangGraph: facts from conversations, kept up to date, searchable, with history.

    Works without a key and without a network, and always shows who decides:
    the offline rules or your model.

    [bold]Begin here[/bold]
    $ langmem-adapter demo
    $ langmem-adapter add "I live in Lyon and I have a dog" -u alice
    $ langmem-adapter search where does she live -u alice
    $ langmem-adapter COMMAND --help

    [bold]Exit codes[/bold]
    0 done · 1 unexpected · 2 wrong usage · 3 nothing found · 4 configuration
    5 database or model out of reach · 6 some items failed · 130 interrupted
    """


def main() -> None:
    """Entry point of the console script."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal in another encoding gets escapes instead of a crash
            stream.reconfigure(errors="backslashreplace")
    app()


def _refuse(error: typer.TyperException, *, as_json: bool) -> int:
    error.message = redact_urls(error.message)  # it quotes what was typed
    if not as_json:
        from typer.rich_utils import rich_format_error

        rich_format_error(error)  # type: ignore[arg-type]  # click's own kind, which Typer keeps to itself
        return error.exit_code
    where: typer.Context | None = getattr(error, "ctx", None)
    failure = CommandError(error.format_message(), "langmem-adapter COMMAND --help")
    Output("" if where is None else options.path_of_command(where), as_json=True).fail(failure)
    return error.exit_code
