"""Options that every command shares, written once, and the `Invocation` that a command gets for them.

The shared options (whose memory, which database, which model, `--json`) may also stand before the command's name.
"""

from __future__ import annotations

import inspect
import warnings
from contextlib import closing, contextmanager
from functools import partial, wraps
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, Final, ParamSpec

import typer

from langmem_adapter.arguments import memory_id_of
from langmem_adapter.cli.output import DOCTOR, CommandError, ExitCode, Output, failure_of
from langmem_adapter.errors import InvalidInputError, LangmemAdapterError, MissingDependencyError
from langmem_adapter.forks import cached_property
from langmem_adapter.records.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from sqlalchemy import Column, Connection

    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.settings import Settings
    from langmem_adapter.storage.database import Database
    from langmem_adapter.storage.scopes import ScopeCount

P = ParamSpec("P")

_WHOLE: Final = 36  # characters of an id
_LEAST: Final = 4  # of these may stand for it
_LISTED: Final = 8

option: Final = partial(typer.Option, show_default=False)
"""An option that is left out where it is not given."""
_how: Final = partial(option, rich_help_panel="Where and how")
_whose: Final = partial(option, metavar="ID", rich_help_panel="Whose memory")

GraphOption = Annotated[
    bool | None, option("--graph/--no-graph", help="Use the knowledge graph; else LANGMEM_ADAPTER_GRAPH decides.")
]
AsOfDate = Annotated[str | None, option(metavar="TIME", help="What was true then, ISO 8601.")]
KnownAt = Annotated[str | None, option(metavar="TIME", help="What this database had been told by then.")]
Timezone = Annotated[
    str | None, option(metavar="NAME", help='Zone of times without an offset and of "today", as Asia/Shanghai.')
]
Limit = Annotated[int, typer.Option("-k", "--limit", min=1, max=10_000, help="At most so many.")]
After = Annotated[str | None, option(metavar="CURSOR", help="Go on after this page's cursor.")]

_SCOPE: Final[dict[str, Any]] = {
    "user": Annotated[str | None, _whose("--user", "-u", envvar="LANGMEM_ADAPTER_USER", help="The user.")],
    "agent": Annotated[str | None, _whose("--agent", help="The agent.")],
    "run": Annotated[str | None, _whose("--run", help="The run or session.")],
}
_SHARED: Final[dict[str, Any]] = {
    "database": Annotated[
        str | None, _how("--database", "-d", metavar="PATH", help="SQLite file, or an SQLAlchemy URL.")
    ],
    "model": Annotated[
        str | None, _how("--model", metavar="NAME", help="Chat model, as openai:gpt-5-mini; or offline.")
    ],
    "embeddings": Annotated[
        str | None, _how("--embeddings", metavar="NAME", help="Embedding model; or static, hash:512: offline.")
    ],
    "trust_folder": Annotated[bool, _how("--trust-folder", help="Read ./langmem_adapter.toml, too.")],
    "as_json": Annotated[bool, _how("--json", help="One JSON envelope on stdout.")],
}


class Invocation:
    """One run of a command: the values of the shared options, and where to answer."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self.output = Output(name, as_json=options["as_json"])
        self.scope: dict[str, Any] = {  # Any, so that mypy accepts it as keyword arguments
            f"{name}_id": options[name] for name in _SCOPE if options.get(name) is not None
        }
        self.options = options

    @property
    def within(self) -> Scope | None:
        """The scope that an id must lie in, where any was given."""
        return Scope(**self.scope) if self.scope else None

    @cached_property
    def settings(self) -> Settings:
        """Environment and configuration files, read once; a `CommandError` where they do not fit."""
        from langmem_adapter.settings import Settings

        with _configured():
            return Settings(**{"trust_folder": True} if self.options["trust_folder"] else {})

    @property
    def chosen(self) -> str | Path:
        """The database that is meant, as it was named."""
        from langmem_adapter.settings import chosen_database

        return chosen_database(self.options["database"], self.settings)

    @property
    def path(self) -> Path | None:
        """The SQLite file that is meant, `None` in memory and on a server; a `CommandError` where it is no database."""
        from langmem_adapter.storage.drivers import path_of, url_of

        with _configured():
            return path_of(url_of(self.chosen))

    def refuse_absent(self) -> None:
        """Raise a `CommandError` where there is no database: a mistyped path holds nothing."""
        from langmem_adapter.storage.sqlite import identity

        if self.path is not None and identity(self.path) is None:
            raise CommandError(
                f"there is no database at {self.path}",
                'the first add makes it: langmem-adapter add "I live in Lyon" -u alice',
                code="no_database",
                exit_code=ExitCode.NOTHING_FOUND,
            )

    @contextmanager
    def memory(self, *, create: bool = False, quiet: bool = False, graph: bool | None = None) -> Iterator[Memory]:
        """The opened memory; says on stderr who decides and where the data lie.

        Args:
            create: Make the database where there is none; else that is an error, since a mistyped path holds nothing.
            quiet: Say nothing; the command does it itself.
            graph: Whether facts say their relations, and these lead searches; `None` takes the setting.

        Raises:
            CommandError: The settings do not fit, a part is missing, or there is no database.
        """
        from langmem_adapter.memory.memory import Memory

        if not create:
            self.refuse_absent()
        chosen = {name: self.options[name] for name in ("database", "model", "embeddings")}
        with _configured():
            opened = Memory(**chosen, graph=graph, settings=self.settings)
        with opened as memory:
            self.output.mode = memory.mode
            if not quiet:
                who = "offline: rules, no model" if memory.mode == "offline" else f"model: {memory.mode}"
                self.output.aside(f"{who} · {memory.location}")
            yield memory

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A read transaction, for what is asked of the database alone: no model, no vectors, nothing of them is imported."""
        with self.database() as database, database.read() as connection:
            yield connection

    @contextmanager
    def database(self, *, create: bool = False, quiet: bool = False) -> Iterator[Database]:
        """The database alone, for what needs no model and no vectors; *create* and *quiet* as for `memory`.

        Raises:
            CommandError: The settings do not fit, the driver is missing, or there is no database.
        """
        from langmem_adapter.storage.database import Database
        from langmem_adapter.storage.migrations import migrate

        if not create:
            self.refuse_absent()
        with _configured():
            opened = Database(self.chosen, **self.settings.database_options)
        with closing(opened) as database:
            migrate(database)
            if not quiet:
                self.output.aside(database.location)
            yield database

    def whole_id(self, connection: Connection, ids: Column[str], given: str) -> str:
        """The id that is meant: a whole one as it is, else the only one within the scope that begins so.

        Raises:
            CommandError: Several begin so; the hint lists them.
            InvalidInputError: It is too short to mean one.
        """
        from langmem_adapter.storage.scopes import ids_with_prefix

        if len(memory_id_of(given, whose="an id")) >= _WHOLE:
            return given
        if len(given) < _LEAST:
            raise InvalidInputError(f"{given!r} is too short for an id; give at least {_LEAST} characters of it")
        found = ids_with_prefix(connection, ids, given, self.within, most=_LISTED + 1)
        if given in found:
            return given
        if len(found) > 1:
            more = ["and others"] if len(found) > _LISTED else []
            hint = "\n".join(["these do:", *found[:_LISTED], *more])
            raise CommandError(
                f"several ids begin with {given}; give more of the one that is meant", hint, code="ambiguous"
            )
        return found[0] if found else given

    def whole(self, memory: Memory, ids: Column[str], given: str) -> str:
        """The same, in a transaction of its own."""
        with memory.parts.database.read() as connection:
            return self.whole_id(connection, ids, given)

    def confirm(self, verb: str, what: str) -> None:
        """Ask before something is done that cannot be undone; a no ends the command, and so does nobody to be asked."""
        if self.output.as_json or not (self.output.on_terminal and self.output.err.is_terminal):
            hint = "add --yes where nobody can be asked"
            raise CommandError(f"this would {verb} {what}", hint, code="confirmation_needed")
        if not typer.confirm(f"{verb.capitalize()} {what}?", err=True):
            raise typer.Exit(ExitCode.OK)

    def whose(self, scopes: Callable[[], Sequence[ScopeCount]]) -> dict[str, Any]:
        """The scope, as keyword arguments; where none was given, a `CommandError` names those that exist."""
        if self.scope:
            return self.scope
        counts = scopes()
        hint = known_scopes(counts) if counts else "export LANGMEM_ADAPTER_USER=NAME sets the user once for all"
        raise CommandError("whose memory? give -u/--user, --agent or --run", hint, code="scope")

    def scope_in(self, connection: Connection) -> Scope:
        """The same as a `Scope`, of a database alone."""
        from langmem_adapter.storage import scopes

        return Scope(**self.whose(partial(scopes.counts, connection)))

    def tell_empty(self, what: str, connection: Connection) -> None:
        """Say that there is none of it, and whose memories there are."""
        from langmem_adapter.storage import scopes

        self.output.note(f"no {what} of {named(self.scope)}; {known_scopes(scopes.counts(connection))}")


@contextmanager
def _configured() -> Iterator[None]:
    """What a setting does not allow is an error of the configuration."""
    try:
        yield
    except (InvalidInputError, MissingDependencyError) as error:
        raise CommandError(str(error), DOCTOR, code="configuration", exit_code=ExitCode.CONFIGURATION) from error


def known_scopes(scopes: Sequence[ScopeCount], most: int = 8) -> str:
    """Whose memories there are, in words."""
    told = [f"{named(count.scope.named)} ({count.memories})" for count in scopes]
    more = f" and {len(told) - most} more" if len(told) > most else ""
    return f"there are memories of {', '.join(told[:most])}{more}" if told else "the database is empty"


def named(scope: Mapping[str, str]) -> str:
    """A scope in words: `user=alice run=7`."""
    return " ".join(f"{name.removesuffix('_id')}={value}" for name, value in scope.items())


def flags(options: Mapping[str, Any]) -> list[str]:
    """Options as they are typed, those that were given."""
    words = []
    for name, value in options.items():
        flag = f"--{name.removeprefix('as_').replace('_', '-')}"
        words += [flag] if value is True else [flag, str(value)] if value else []
    return words


def command(function: Callable[Concatenate[Invocation, P], None], *, scoped: bool = True) -> Callable[..., None]:
    """Give a command the shared options; a *scoped* one is about somebody's memory, and can be told whose."""
    shared = {**_SCOPE, **_SHARED} if scoped else _SHARED

    @wraps(function)
    def run(ctx: typer.Context, **values: Any) -> None:
        options = {name: values.pop(name) for name in shared}
        before = ctx.find_root().params
        chosen = {name: before.get(name) if value in (None, False) else value for name, value in options.items()}
        call = Invocation(path_of_command(ctx), chosen | {"as_json": bool(chosen["as_json"])})
        with _failures_told(call.output), _warnings_told(call.output):
            function(call, **values)  # type: ignore[call-arg]

    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    return _with_options(run, [context, *own], shared)


def before_commands(function: Callable[..., None]) -> Callable[..., None]:
    """Give the program the shared options, so that they may stand before a command's name."""

    @wraps(function)
    def run(**values: Any) -> None:
        del values  # a command reads them

    return _with_options(run, inspect.signature(function, eval_str=True).parameters.values(), _SHARED)


def _with_options(
    run: Callable[..., None], own: Iterable[inspect.Parameter], shared: Mapping[str, Any]
) -> Callable[..., None]:
    kind = inspect.Parameter.KEYWORD_ONLY
    added = (inspect.Parameter(name, kind, default=None, annotation=option) for name, option in shared.items())
    parameters = [*(part.replace(kind=kind) for part in own), *added]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {part.name: part.annotation for part in parameters}
    return run


@contextmanager
def _warnings_told(output: Output) -> Iterator[None]:
    """A warning is a line for the user, without a place in the code."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: output.note(f"warning: {message}", "yellow")
        yield


@contextmanager
def _failures_told(output: Output) -> Iterator[None]:
    """The one place where errors become exit codes."""
    try:
        yield
    except KeyboardInterrupt:
        failure = CommandError("interrupted", code="interrupted", exit_code=ExitCode.INTERRUPTED)
    except LangmemAdapterError as error:
        failure = failure_of(error)
    else:
        return
    output.fail(failure)
    raise typer.Exit(failure.exit_code)


def path_of_command(ctx: typer.Context) -> str:
    """The name of a command, behind that of its group; empty for the program itself."""
    return " ".join(str(each.info_name) for each in (ctx.parent, ctx) if each is not None and each.parent is not None)
