"""Options that every command shares, also in front of its name, and the `Invocation` that a command gets for them."""

from __future__ import annotations

import inspect
import warnings
from contextlib import closing, contextmanager
from functools import partial, wraps
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, Final, ParamSpec

import typer

from langmem_adapter.arguments import memory_id_of
from langmem_adapter.cli.output import DOCTOR, CommandError, ExitCode, Output, failure_of, one_line
from langmem_adapter.errors import InvalidInputError, LangmemAdapterError, MissingDependencyError
from langmem_adapter.forks import cached_property
from langmem_adapter.records.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from sqlalchemy import Column, Connection

    from langmem_adapter.embedding.embedder import Embedder
    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.settings import Settings
    from langmem_adapter.storage.database import Database
    from langmem_adapter.storage.scopes import ScopeCount

P = ParamSpec("P")

_ID_LENGTH: Final = 36
_LEAST: Final = 4  # characters of an id that may stand for it
_LISTED: Final = 8

option: Final = partial(typer.Option, show_default=False)
"""An option that is left out where it is not given."""
_how: Final = partial(option, rich_help_panel="Where and how")
_scope_option: Final = partial(option, metavar="ID", rich_help_panel="Scope")

GraphOption = Annotated[
    bool | None, option("--graph/--no-graph", help="Use the knowledge graph; else LANGMEM_ADAPTER_GRAPH decides.")
]
AsOfDate = Annotated[str | None, option(metavar="TIME", help="What was true then, ISO 8601.")]
KnownAt = Annotated[str | None, option(metavar="TIME", help="What this database knew by then, ISO 8601.")]
Timezone = Annotated[
    str | None, option(metavar="NAME", help='Zone of times without an offset and of "today", as Asia/Shanghai.')
]
FilterOption = Annotated[
    str | None, option("--filter", metavar="JSON", help="Conditions on metadata and fields of memories.")
]
Limit = Annotated[int, typer.Option("-k", "--limit", min=1, max=10_000, help="At most so many.")]
After = Annotated[str | None, option(metavar="CURSOR", help="Go on after this page's cursor.")]

_SCOPE: Final[dict[str, Any]] = {
    "user": Annotated[str | None, _scope_option("--user", "-u", envvar="LANGMEM_ADAPTER_USER", help="The user.")],
    "agent": Annotated[str | None, _scope_option("--agent", help="The agent.")],
    "run": Annotated[str | None, _scope_option("--run", help="The run or session.")],
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
    """One run of a command: the values of the shared options, and its output."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self.output = Output(name, as_json=options["as_json"])
        self.scope: dict[str, Any] = {  # Any, so that mypy accepts it as keyword arguments
            f"{name}_id": options[name] for name in _SCOPE if options.get(name) is not None
        }
        self.options = options

    @property
    def within(self) -> Scope | None:
        """The scope that an id must lie in, where one is named."""
        return Scope(**self.scope) if self.scope else None

    @cached_property
    def settings(self) -> Settings:
        """Environment and configuration files, read once; a `CommandError` where they do not fit."""
        from langmem_adapter.settings import Settings

        with _configured():
            return Settings(**{"trust_folder": True} if self.options["trust_folder"] else {})

    @property
    def chosen(self) -> str | Path:
        """The database, as it is named."""
        from langmem_adapter.settings import chosen_database

        return chosen_database(self.options["database"], self.settings)

    @property
    def path(self) -> Path | None:
        """The SQLite file, `None` in memory and on a server; a `CommandError` where it is no database."""
        from langmem_adapter.storage.drivers import path_of, url_of

        with _configured():
            return path_of(url_of(self.chosen))

    def embedder(self) -> Embedder:
        """The embedding model, without a memory."""
        from langmem_adapter.embedding.embedder import Embedder
        from langmem_adapter.embedding.models import embedding_limits, resolve_embeddings

        name = self.options["embeddings"] or self.settings.embeddings
        vectors = resolve_embeddings(name, self.settings)
        return Embedder(vectors, dimensions=None, limits=embedding_limits(name, vectors, self.settings))

    def refuse_absent(self) -> None:
        """Raise an error where there is no database: a mistyped path holds nothing."""
        from langmem_adapter.storage.sqlite import identity

        if self.path is not None and identity(self.path) is None:
            raise CommandError(
                f"there is no database at {self.path}",
                'the first add makes it: langmem-adapter add "I live in Lyon" -u alice',
                code="no_database",
            )

    @contextmanager
    def memory(self, *, create: bool = False, quiet: bool = False, graph: bool | None = None) -> Iterator[Memory]:
        """The opened memory, which is made only with *create*; prints its mode and location on stderr, unless *quiet*."""
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
    def scoped_memory(
        self, *, create: bool = False, graph: bool | None = None
    ) -> Iterator[tuple[Memory, dict[str, Any]]]:
        """The opened memory, and the scope as keyword arguments."""
        with self.memory(create=create, graph=graph) as memory:
            yield memory, self.effective_scope(memory.scopes)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A read transaction of the database alone: no model and no index is imported."""
        with self.database() as database, database.read() as connection:
            yield connection

    @contextmanager
    def database(self, *, create: bool = False, quiet: bool = False) -> Iterator[Database]:
        """The database alone; *create* and *quiet* as for `memory`."""
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

    def full_id(self, connection: Connection, ids: Column[str], prefix: str) -> str:
        """A full id as it is, else the only id within the scope that begins with *prefix*."""
        from langmem_adapter.storage.scopes import ids_with_prefix

        if len(memory_id_of(prefix, name="an id")) >= _ID_LENGTH:
            return prefix
        if len(prefix) < _LEAST:
            raise InvalidInputError(f"{prefix!r} is too short for an id; give at least {_LEAST} characters of it")
        matches = ids_with_prefix(connection, ids, prefix, self.within, most=_LISTED + 1)
        if prefix in matches or not matches:
            return prefix
        if len(matches) > 1:
            hint = "\n".join(["these do:", *matches[:_LISTED], *(["and others"] if len(matches) > _LISTED else [])])
            raise CommandError(f"several ids begin with {prefix}; give more characters", hint, code="ambiguous")
        return matches[0]

    def confirm(self, verb: str, what: str) -> None:
        """Ask before something that cannot be undone; a no ends the command, and so does an input that is no terminal."""
        if self.output.as_json or not (self.output.on_terminal and self.output.err.is_terminal):
            hint = "add --yes in scripts"
            raise CommandError(f"this would {verb} {what}", hint, code="confirmation_needed")
        if not typer.confirm(f"{verb.capitalize()} {what}?", err=True):
            self.output.note(f"nothing was done: did not {verb} {what}")
            raise typer.Exit(ExitCode.OK)

    def effective_scope(self, scopes: Callable[[], Sequence[ScopeCount]]) -> dict[str, Any]:
        """The scope as keyword arguments; without one, an error names those that exist."""
        if self.scope:
            return self.scope
        counts = scopes()
        hint = scopes_in_words(counts) if counts else "export LANGMEM_ADAPTER_USER=NAME sets the user once for all"
        raise CommandError("the scope is missing: give -u/--user, --agent or --run", hint, code="scope")

    def scope_in(self, connection: Connection) -> Scope:
        """The same as a `Scope`, of a database alone."""
        from langmem_adapter.storage import scopes

        return Scope(**self.effective_scope(partial(scopes.counts, connection)))

    def tell_empty(self, what: str, connection: Connection) -> None:
        """Print that there is none of it, and which scopes exist."""
        from langmem_adapter.storage import scopes

        self.output.note(f"no {what} of {named(self.scope)}; {scopes_in_words(scopes.counts(connection))}")


@contextmanager
def _configured() -> Iterator[None]:
    """Turn wrong settings into an error of the configuration."""
    try:
        yield
    except (InvalidInputError, MissingDependencyError) as error:
        raise CommandError(str(error), DOCTOR, code="configuration") from error


def scopes_in_words(scopes: Sequence[ScopeCount], most: int = 8) -> str:
    """The scopes that have memories, in words."""
    words = ", ".join(f"{named(count.scope.named)} ({count.memories})" for count in scopes[:most])
    more = f" and {len(scopes) - most} more" if len(scopes) > most else ""
    return f"there are memories of {words}{more}" if scopes else "the database is empty"


def named(scope: Mapping[str, str]) -> str:
    """A scope in words on one line: `user=alice run=7`."""
    return " ".join(f"{name.removesuffix('_id')}={one_line(value)}" for name, value in scope.items())


def flags(options: Mapping[str, Any]) -> list[str]:
    """Options with a value, as they are typed."""
    words = []
    for name, value in options.items():
        flag = f"--{name.removeprefix('as_').replace('_', '-')}"
        words += [flag] if value is True else [flag, str(value)] if value else []
    return words


def command(function: Callable[Concatenate[Invocation, P], None], *, scoped: bool = True) -> Callable[..., None]:
    """Give a command the shared options, a *scoped* one also those of the scope."""
    shared = {**_SCOPE, **_SHARED} if scoped else _SHARED

    @wraps(function)
    def run(ctx: typer.Context, **values: Any) -> None:
        options = {name: values.pop(name) for name in shared}
        before = ctx.find_root().params
        chosen = {name: before.get(name) if value in (None, False) else value for name, value in options.items()}
        call = Invocation(path_of_command(ctx), chosen | {"as_json": bool(chosen["as_json"])})
        with _reporting(call.output):
            function(call, **values)  # type: ignore[call-arg]

    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    return _with_options(run, [context, *own], shared)


def before_commands(function: Callable[..., None]) -> Callable[..., None]:
    """Give the program the shared options, so that they may come before a command's name."""

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
def _reporting(output: Output) -> Iterator[None]:
    """The one place where errors become exit codes, and warnings notes without a place in the code."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: output.note(f"warning: {message}", "yellow")
            yield
    except KeyboardInterrupt:
        failure = CommandError("interrupted", code="interrupted")
    except LangmemAdapterError as error:
        failure = failure_of(error)
    else:
        return
    output.fail(failure)
    raise typer.Exit(failure.exit_code)


def path_of_command(ctx: typer.Context) -> str:
    """The name of a command, behind that of its group; empty for the program itself."""
    return " ".join(str(each.info_name) for each in (ctx.parent, ctx) if each is not None and each.parent is not None)
