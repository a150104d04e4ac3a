"""The command `doctor`: checks of the installation and the database, each OK, WARN or FAIL with the command that fixes it."""

import stat
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.table import Table
from rich.text import Text

from langmem_adapter.cli.options import Invocation
from langmem_adapter.cli.output import DOCTOR, CommandError, ExitCode, failure_of, visible
from langmem_adapter.errors import InvalidInputError, MissingDependencyError
from langmem_adapter.records.checks import redact_url, redact_urls

if TYPE_CHECKING:
    from pathlib import Path

    from langmem_adapter.maintenance.checkup import Check
    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.settings import Settings

_SECONDS: Final = 8.0  # timeout of the database
_TRUST: Final = "export LANGMEM_ADAPTER_TRUST_FOLDER=true    (if the folder is yours)"
_STYLES: Final = {"OK": "green", "WARN": "yellow", "FAIL": "bold red"}
_CODES: Final = {"": ExitCode.OK, "configuration": ExitCode.CONFIGURATION, "unreachable": ExitCode.UNREACHABLE}


def doctor(
    call: Invocation, fix: Annotated[bool, typer.Option("--fix", help="Fix what can be fixed here.")] = False
) -> None:
    """Check Python, packages, database, index, embeddings, model and disk.

    Nothing is sent anywhere, unless a model or an embedding service is set
    up: then one short sentence goes there, within the setting model_timeout.
    With --model, four calls also show whether it follows a JSON schema and
    calls tools, and how long its context is. Exit code 4 for a broken
    configuration, 5 for a database or model out of reach. --fix makes an index
    again that differs from the database, and a read-only database writable.

    [bold]Examples[/bold]
    $ langmem-adapter doctor
    $ langmem-adapter doctor --fix
    $ langmem-adapter doctor -d memory.db --model openai:gpt-5-mini
    """
    checks: list[Any] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # each is a line of the report
        for check in _checks(call, fix=fix):
            checks.append(check)
            if not call.output.as_json:
                _show(call, [check])
    if call.output.as_json:
        _show(call, checks)
    raise typer.Exit(max(_CODES[check.cause] for check in checks))


def _show(call: Invocation, checks: list["Check"]) -> None:
    columns = ("status", "name", "detail", "fix")
    call.output.show(checks, columns=columns, picture=_picture, row=lambda each: {n: getattr(each, n) for n in columns})
    sys.stdout.flush()  # shown at once in a pipe


def _checks(call: Invocation, *, fix: bool) -> Iterator["Check"]:
    from langmem_adapter.maintenance import checkup
    from langmem_adapter.maintenance.checkup import Check

    yield from checkup.surroundings()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            settings = call.settings
    except CommandError as error:
        yield Check("settings", "FAIL", str(error), "unset it, or correct the file", "configuration")
        return
    yield Check(
        "settings", "OK", f"model {redact_url(call.options['model'] or settings.model)}, index {settings.index}"
    )
    yield from (Check("folder", "WARN", str(warning.message), _TRUST) for warning in caught)
    yield from checkup.defaults(call.options["model"], call.options["embeddings"], settings)
    with suppress(CommandError):  # which the check of the database shows
        if call.path is not None:
            yield checkup.space(call.path)
    yield from _slow(call, settings, fix=fix)


def _database(call: Invocation, *, fix: bool) -> Iterator["Check"]:
    from langmem_adapter.embedding.models import fingerprint, resolve_embeddings
    from langmem_adapter.index.indexer import open_feed
    from langmem_adapter.maintenance.checkup import file_of, index, stored
    from langmem_adapter.storage import meta

    if fix and call.path is not None and call.path.exists():
        _make_writable(call.path)
    problem = None if call.path is None else file_of(call.path)
    if problem is not None:
        yield problem
        return
    with call.database(create=True, quiet=True) as database:
        yield from stored(database)
        with database.read() as connection:
            mark, dimensions = meta.get(connection, meta.EMBEDDINGS), meta.dimensions(connection)
        with suppress(InvalidInputError, MissingDependencyError):  # which the check of the embeddings shows
            name = call.options["embeddings"] or call.settings.embeddings
            mark = fingerprint(resolve_embeddings(name, call.settings))
        if mark is not None:
            every, kind = call.settings.merge_after, call.settings.index
            with closing(open_feed(database, kind, fingerprint=mark, dimensions=dimensions, merge_after=every)) as feed:
                check = index(feed, database.path)
                if fix and check.status == "FAIL":
                    count = feed.rebuild()
                    check = index(feed, database.path)
                    check = replace(check, detail=f"{check.detail}; made again with {count} vectors")
                yield check


def _make_writable(path: "Path") -> None:
    from langmem_adapter.storage.drivers import SQLITE_HEADER

    with suppress(OSError):  # it belongs to another user; the check of the file says so
        with path.open("rb") as file:
            is_database = file.read(len(SQLITE_HEADER)) == SQLITE_HEADER
        for each in (path, path.parent) if is_database else ():
            each.chmod(each.stat().st_mode | stat.S_IWUSR)


def _slow(call: Invocation, settings: "Settings", *, fix: bool) -> Iterator["Check"]:
    """The checks that may hang, each in a thread that is abandoned at its timeout."""
    from langmem_adapter.maintenance import checkup
    from langmem_adapter.twins import in_thread

    def begin(name: str, look: Callable[[], Iterator["Check"]]) -> Future[list["Check"]]:
        return in_thread(lambda: list(checkup.tried(name, look, _failed)))

    begun = {"database": begin("database", partial(_database, call, fix=fix))}
    # In separate memories, so that the data stay untouched, and one check does not need the other.
    settings = settings.model_copy(update={"model_retries": 0})
    chosen = {name: call.options[name] or getattr(settings, name) for name in ("embeddings", "model")}
    parts = {"model": "offline", "embeddings": "hash"}
    for name, look in {"embeddings": checkup.embeddings, "model": checkup.model}.items():
        begun[name] = begin(name, partial(_within, look, **{**parts, name: chosen[name]}, settings=settings))
    yield from checkup.advised(_ends(call, begun, settings.model_timeout), redact_urls(call.options["database"] or ""))
    end = begun["model"]
    if call.options["model"] not in {None, "offline"} and end.done() and end.result()[0].status != "FAIL":
        from langmem_adapter.cli.evaluate import chat_model

        yield from checkup.tried("model", lambda: checkup.abilities(*chat_model(call)), _failed)


def _ends(call: Invocation, begun: dict[str, Future[list["Check"]]], timeout: float) -> Iterator["Check"]:
    """The checks in their order; a model has its own timeout, which a cold one on a small machine needs."""
    from langmem_adapter.maintenance.checkup import Check

    start = time.monotonic()
    for name, end in begun.items():
        seconds = _SECONDS if name == "database" else max(_SECONDS, timeout + 1)
        with call.output.err.status(f"{name} …"):
            wait([end], max(0.0, start + seconds - time.monotonic()))
        if end.done():
            yield from end.result()
        else:
            detail = f"no answer within {seconds:g} seconds"
            yield Check(name, "FAIL", detail, "check its server", "unreachable")


def _within(look: "Callable[[Memory], Iterator[Check]]", **parts: Any) -> Iterator["Check"]:
    from langmem_adapter.memory.memory import Memory

    with Memory(":memory:", **parts) as memory:
        yield from look(memory)


def _failed(name: str, error: BaseException) -> "Check":
    from langmem_adapter.maintenance.checkup import Check

    failure = failure_of(error)
    unreachable = failure.exit_code is ExitCode.UNREACHABLE
    hint = "" if failure.hint == DOCTOR else failure.hint
    return Check(name, "FAIL", failure.message, hint, "unreachable" if unreachable else "configuration")


def _picture(checks: Sequence["Check"]) -> Table:
    grid = Table.grid(padding=(0, 2), expand=True)
    grid.add_column(no_wrap=True, width=4)
    grid.add_column(no_wrap=True, width=10)
    grid.add_column(ratio=1, overflow="fold")
    for check in checks:
        detail = Text(visible(check.detail))
        if check.fix:
            detail.append(f"\nfix: {visible(check.fix)}", style="bold")
        grid.add_row(Text(check.status, style=_STYLES[check.status]), Text(check.name), detail)
    return grid
