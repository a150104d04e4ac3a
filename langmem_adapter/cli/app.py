"""The command `langmem-adapter`: its commands put together, and the one place where errors become exit codes."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from langmem_adapter._version import __version__
from langmem_adapter.addresses import cleaned
from langmem_adapter.cli import graph, graph_edit, graph_exchange, keys
from langmem_adapter.cli.add import add
from langmem_adapter.cli.change import delete, purge, reindex, update
from langmem_adapter.cli.demo import demo
from langmem_adapter.cli.doctor import doctor
from langmem_adapter.cli.evaluate import conversations, questions
from langmem_adapter.cli.failures import CommandError, ExitCode, failure_of, known_errors
from langmem_adapter.cli.look import history, list_, search, show
from langmem_adapter.cli.mcp import mcp
from langmem_adapter.cli.options import DatabaseOption, EmbeddingsOption, JsonOption, ModelOption, TrustOption, command
from langmem_adapter.cli.output import Output
from langmem_adapter.cli.prompts import prompts
from langmem_adapter.cli.serve import serve
from langmem_adapter.cli.trace import trace

__all__ = ["app", "main"]


class _Group(TyperGroup):
    """A group that tells our errors in our way: readable on stderr, as an envelope with `--json`, never as a traceback."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command and end the process with its exit code."""
        arguments = list(sys.argv[1:] if args is None else args)
        try:
            code = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except typer.Abort:
            code = ExitCode.INTERRUPTED
        except typer.TyperException as error:
            code = _refuse(error, arguments)
        except known_errors() as error:
            code = _fail(failure_of(error), arguments)
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


def _named(*functions: Callable[..., None]) -> dict[str, Callable[..., None]]:
    return {function.__name__.rstrip("_"): function for function in functions}


_COMMANDS: Final = _named(
    demo, add, search, list_, show, history, trace, update, delete, purge, reindex, doctor, prompts, serve, mcp
)
_KEYS: Final = _named(keys.create, keys.list_, keys.revoke)
_EVALUATIONS: Final = _named(conversations, questions)
_GRAPH: Final = _named(
    graph.show,
    graph.entities,
    graph.path,
    graph.search,
    graph_edit.add,
    graph_edit.end,
    graph_edit.delete,
    graph_edit.merge,
    graph_edit.split,
    graph_exchange.mirror,
    graph_exchange.export,
    graph_exchange.import_,
    graph_edit.backfill,
    graph_edit.suggest,
)
_GROUPS: Final = {
    "graph": (_GRAPH, "Look at the knowledge graph, or edit it: graph -u NAME, graph ENTITY -u NAME."),
    "keys": (_KEYS, "Say who may call the server."),
    "eval": (_EVALUATIONS, "Measure how well memories are found."),
}
_KINDS: Final = {"graph": graph.GraphGroup}
_NOBODYS: Final = (doctor, prompts, reindex, conversations, serve, keys.list_, keys.revoke)  # they are about no scope


def _put_together(group: typer.Typer, commands: Mapping[str, Callable[..., None]]) -> typer.Typer:
    for name, function in commands.items():
        group.command(name)(command(function, scoped=function not in _NOBODYS))
    return group


_put_together(app, _COMMANDS)
for _name, (_commands, _help) in _GROUPS.items():
    _group = typer.Typer(cls=_KINDS.get(_name), no_args_is_help=_name not in _KINDS)
    app.add_typer(_put_together(_group, _commands), name=_name, help=_help)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"langmem-adapter {__version__}")
        raise typer.Exit


@app.callback()
def _shared(
    database: DatabaseOption = None,
    model: ModelOption = None,
    embeddings: EmbeddingsOption = None,
    trust_folder: TrustOption = False,
    as_json: JsonOption = False,
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


def _refuse(error: typer.TyperException, arguments: list[str]) -> int:
    error.message = cleaned(error.message)  # it quotes what was typed
    if "--json" not in arguments:
        from typer.rich_utils import rich_format_error

        rich_format_error(error)  # type: ignore[arg-type]  # click's own kind, which Typer keeps to itself
        return error.exit_code
    hint = "langmem-adapter COMMAND --help"
    return _fail(CommandError(error.format_message(), hint, exit_code=ExitCode(error.exit_code)), arguments)


def _fail(failure: CommandError, arguments: list[str]) -> int:
    Output(_asked(arguments), as_json="--json" in arguments).fail(failure)
    return failure.exit_code


def _asked(arguments: list[str]) -> str:
    """The command that the arguments name, with its group."""
    following = iter(arguments)
    name = next((word for word in following if word in _COMMANDS or word in _GROUPS), "")
    within = _GROUPS[name][0] if name in _GROUPS else ()
    return f"{name} {next((word for word in following if word in within), '')}".strip()
