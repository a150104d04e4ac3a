"""The command `doctor`: is everything in place? Each check says OK, WARN or FAIL, and the command that mends it."""

import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import typer
from rich.table import Table
from rich.text import Text

from langmem_adapter.cli.options import Invocation
from langmem_adapter.cli.output import DOCTOR, CommandError, ExitCode, failure_of, visible
from langmem_adapter.errors import InvalidInputError, MissingDependencyError
from langmem_adapter.maintenance.checks import Check, file_of, space, surroundings
from langmem_adapter.records.checks import redact_url, redact_urls

if TYPE_CHECKING:
    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.settings import Settings
    from langmem_adapter.storage.database import Database

_SECONDS: Final = 8.0  # for a database that may hang
_TRUST: Final = "export LANGMEM_ADAPTER_TRUST_FOLDER=true    (if the folder is yours)"
_STYLES: Final = {"OK": "green", "WARN": "yellow", "FAIL": "bold red"}
_CODES: Final = {"": ExitCode.OK, "configuration": ExitCode.CONFIGURATION, "unreachable": ExitCode.UNREACHABLE}


def doctor(call: Invocation) -> None:
    """Check Python, packages, database, index, embeddings, model and disk.

    Nothing is sent anywhere, unless a model or an embedding service is set
    up: then one short sentence goes there, within the setting model_timeout.
    With --model, four calls also show whether it follows a JSON schema and
    calls tools, and how long its context is. Exit code 4 for a broken
    configuration, 5 for a database or model out of reach.

    [bold]Examples[/bold]
    $ langmem-adapter doctor
    $ langmem-adapter doctor -d memory.db --model openai:gpt-5-mini
    """
    checks: list[Check] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # each is a line of the report
        for check in _checks(call):
            checks.append(check)
            if not call.output.as_json:
                _show(call, [check])
    if call.output.as_json:
        _show(call, checks)
    raise typer.Exit(max(_CODES[check.cause] for check in checks))


def _show(call: Invocation, checks: list[Check]) -> None:
    columns = ("status", "name", "detail", "fix")
    call.output.show(checks, columns=columns, picture=_picture, row=lambda each: {n: getattr(each, n) for n in columns})
    sys.stdout.flush()  # whoever reads a pipe sees it now


def _checks(call: Invocation) -> Iterator[Check]:
    yield from surroundings()
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", UserWarning)
            settings = call.settings
    except CommandError as error:
        yield Check("settings", "FAIL", str(error), "unset it, or mend the file", "configuration")
        return
    yield Check(
        "settings", "OK", f"model {redact_url(call.options['model'] or settings.model)}, index {settings.index}"
    )
    yield from (Check("folder", "WARN", str(warning.message), _TRUST) for warning in told)
    from langmem_adapter.maintenance.checkup import defaults

    yield from defaults(call.options["model"], call.options["embeddings"], settings)
    with suppress(CommandError):  # which the check of the database tells
        if call.path is not None:
            yield space(call.path)
    yield from _slow(call, settings)


def _database(call: Invocation) -> Iterator[Check]:
    hindered = None if call.path is None else file_of(call.path)
    if hindered is not None:
        yield hindered
        return
    from langmem_adapter.maintenance.checkup import stored

    with call.database(create=True, quiet=True) as database:
        yield from stored(database)
        yield from _index(call, database)


def _index(call: Invocation, database: "Database") -> Iterator[Check]:
    from langmem_adapter.index.indexer import open_feed
    from langmem_adapter.maintenance.checkup import index
    from langmem_adapter.storage import meta

    with database.read() as connection:
        mark, dimensions = _mark(call) or meta.get(connection, meta.EMBEDDINGS), meta.dimensions(connection)
    if mark is not None:
        every, kind = call.settings.merge_after, call.settings.index
        with closing(open_feed(database, kind, fingerprint=mark, dimensions=dimensions, merge_after=every)) as feed:
            yield index(feed, database.path)


def _mark(call: Invocation) -> str | None:
    """Whose vectors are wanted; `None` where there are no such embeddings, which their own check tells."""
    from langmem_adapter.embedding.models import fingerprint, resolve_embeddings

    try:
        return fingerprint(resolve_embeddings(call.options["embeddings"] or call.settings.embeddings, call.settings))
    except (InvalidInputError, MissingDependencyError):
        return None


def _slow(call: Invocation, settings: "Settings") -> Iterator[Check]:
    """What may hang, side by side: each in a thread that is left behind when its time is over."""
    from langmem_adapter.maintenance import checkup
    from langmem_adapter.twins import in_thread

    def begin(name: str, look: Callable[[], Iterator[Check]]) -> Future[list[Check]]:
        return in_thread(lambda: list(checkup.tried(name, look, _failed)))

    begun = {"database": begin("database", partial(_database, call))}
    # In throw-away memories, so that nothing of this reaches anybody's data, and one does not need the other.
    settings = settings.model_copy(update={"model_retries": 0})
    chosen = {name: call.options[name] or getattr(settings, name) for name in ("embeddings", "model")}
    parts = {"model": "offline", "embeddings": "hash"}
    for name, look in {"embeddings": checkup.embeddings, "model": checkup.model}.items():
        begun[name] = begin(name, partial(_within, look, **{**parts, name: chosen[name]}, settings=settings))
    yield from checkup.advised(_ends(call, begun, settings.model_timeout), redact_urls(call.options["database"] or ""))
    if (
        call.options["model"] not in {None, "offline"}
        and begun["model"].done()
        and begun["model"].result()[0].status != "FAIL"
    ):
        yield from checkup.tried("model", partial(_abilities, call), _failed)


def _abilities(call: Invocation) -> Iterator[Check]:
    from langmem_adapter.cli.evaluate import chat_model
    from langmem_adapter.maintenance.checkup import abilities

    model, limits = chat_model(call)
    yield from abilities(model, limits)


def _ends(call: Invocation, begun: dict[str, Future[list[Check]]], timeout: float) -> Iterator[Check]:
    """The checks in their order; a model is given its own time, which a cold one on a small machine needs."""
    start = time.monotonic()
    for name, end in begun.items():
        seconds = _SECONDS if name == "database" else max(_SECONDS, timeout + 1)
        with call.output.err.status(f"{name} …"):
            wait([end], max(0.0, start + seconds - time.monotonic()))
        if end.done():
            yield from end.result()
        else:
            detail = f"no answer within {seconds:g} seconds"
            yield Check(name, "FAIL", detail, "see whether its server is well", "unreachable")


def _within(look: "Callable[[Memory], Iterator[Check]]", **parts: Any) -> Iterator[Check]:
    from langmem_adapter.memory.memory import Memory

    with Memory(":memory:", **parts) as memory:
        yield from look(memory)


def _failed(name: str, error: BaseException) -> Check:
    failure = failure_of(error)
    unreachable = failure.exit_code is ExitCode.UNREACHABLE
    hint = "" if failure.hint == DOCTOR else failure.hint
    return Check(name, "FAIL", failure.message, hint, "unreachable" if unreachable else "configuration")


def _picture(checks: Sequence[Check]) -> Table:
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
