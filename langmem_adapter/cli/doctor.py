"""The command `doctor`: is everything in place? Each check says OK, WARN or FAIL, and the command that mends it."""

import os
import platform
import shlex
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import typer
from rich.table import Table
from rich.text import Text

from langmem_adapter._version import DISTRIBUTION, __version__
from langmem_adapter.addresses import shown
from langmem_adapter.cli.failures import DOCTOR, CommandError, ExitCode, Failure, failure_of, known_errors
from langmem_adapter.cli.options import Call
from langmem_adapter.cli.output import visible
from langmem_adapter.errors import InvalidInputError, MissingDependencyError

if TYPE_CHECKING:
    from packaging.requirements import Requirement

    from langmem_adapter.index.base import Verification
    from langmem_adapter.memory import Memory
    from langmem_adapter.settings import Settings
    from langmem_adapter.storage.database import Database
    from langmem_adapter.storage.moments import Unreadable

__all__ = ["doctor"]

_LITTLE: Final = 500 * 1024**2  # bytes
_SHOWN: Final = 5
_SECONDS: Final = 8.0  # for everything that may hang; starting the command takes its time, too
_TRUST: Final = "export LANGMEM_ADAPTER_TRUST_FOLDER=true    (if the folder is yours)"
_OLDEST: Final = (3, 11)
_STYLES: Final = {"OK": "green", "WARN": "yellow", "FAIL": "bold red"}
_TRACING: Final = ("LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING", "LANGCHAIN_TRACING_V2")


@dataclass(frozen=True, slots=True)
class _Check:
    """One line of the report.

    Attributes:
        name: What was looked at.
        status: How it is.
        detail: What was seen.
        fix: The command that mends it; empty where nothing is to be mended.
        exit_code: How the command ends because of it; a failure only.
    """

    name: str
    status: Literal["OK", "WARN", "FAIL"]
    detail: str
    fix: str = ""
    exit_code: ExitCode = ExitCode.OK


def doctor(call: Call) -> None:
    """Check Python, packages, database, index, embeddings, model and disk.

    Nothing is sent anywhere, unless a model or an embedding service is set
    up: then one short sentence goes there. What does not answer in eight
    seconds is told as such. Exit code 4 for a broken configuration, 5 for a
    database or model out of reach.

    [bold]Examples[/bold]
    $ langmem-adapter doctor
    $ langmem-adapter doctor -d memory.db --model openai:gpt-5-mini
    """
    checks: list[_Check] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # each is a line of the report
        for check in _checks(call):
            checks.append(check)
            if not call.output.as_json:
                _show(call, [check])
    if call.output.as_json:
        _show(call, checks)
    worst = max(check.exit_code for check in checks)
    if worst:
        raise typer.Exit(worst)


def _show(call: Call, checks: list[_Check]) -> None:
    call.output.show(
        [{"name": c.name, "status": c.status, "detail": c.detail, "fix": c.fix} for c in checks],
        columns=("status", "name", "detail", "fix"),
        picture=lambda: _picture(checks),
    )
    sys.stdout.flush()  # whoever reads a pipe sees it now


def _checks(call: Call) -> Iterator[_Check]:
    yield _python()
    yield _packages()
    yield _telemetry()
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", UserWarning)
            settings = call.settings
    except CommandError as error:
        yield _Check("settings", "FAIL", str(error), "unset it, or mend the file", ExitCode.CONFIGURATION)
        return
    yield _Check("settings", "OK", f"model {shown(call.options['model'] or settings.model)}, index {settings.index}")
    yield from (_Check("folder", "WARN", str(warning.message), _TRUST) for warning in told)
    yield from _defaults(call, settings)
    with suppress(CommandError):  # which the check of the database tells
        if call.path is not None:
            yield _space(call.path)
    yield from _slow(call, settings)


def _defaults(call: Call, settings: "Settings") -> Iterator[_Check]:
    from langmem_adapter.engine.modes import left_to_defaults

    for told in left_to_defaults(call.options["model"], call.options["embeddings"], settings):
        seen, _, fix = told.partition("; ")
        yield _Check("defaults", "WARN", seen, fix)


def _python() -> _Check:
    told = (
        f"Python {platform.python_version()}, langmem_adapter {__version__}, {platform.system()} {platform.machine()}"
    )
    if sys.version_info < _OLDEST:
        return _Check("python", "FAIL", told, "install Python 3.11 or newer", ExitCode.CONFIGURATION)
    return _Check("python", "OK", told)


def _packages() -> _Check:
    from packaging.requirements import Requirement

    try:
        wanted = [Requirement(line) for line in metadata.requires(DISTRIBUTION) or []]
    except metadata.PackageNotFoundError:
        return _Check("packages", "WARN", "not installed as a package, so versions are unknown", "pip install -e .")
    needed = [part for part in wanted if part.marker is None or part.marker.evaluate({"extra": ""})]
    versions = {part.name: _version_of(part.name) for part in needed}
    missing = [part for part in needed if versions[part.name] is None]
    if missing:
        told = f"missing: {', '.join(part.name for part in missing)}"
        return _Check("packages", "FAIL", told, _installing(missing), ExitCode.CONFIGURATION)
    strange = [part for part in needed if not part.specifier.contains(str(versions[part.name]), prereleases=True)]
    if strange:
        told = ", ".join(f"{part.name} {versions[part.name]}, known good are {part.specifier}" for part in strange)
        return _Check("packages", "WARN", told, _installing(strange))
    named = ("langchain-core", "langgraph", "sqlalchemy", "faiss-cpu")
    told = ", ".join(f"{name} {versions[name]}" for name in named if name in versions)
    return _Check("packages", "OK", f"{len(needed)} of {len(needed)} as wanted: {told}")


def _installing(parts: "list[Requirement]") -> str:
    return f"pip install {' '.join(shlex.quote(f'{part.name}{part.specifier}') for part in parts)}"


def _version_of(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _telemetry() -> _Check:
    tracing = [name for name in _TRACING if os.environ.get(name, "").lower() in {"1", "true"}]
    if tracing:
        told = f"none of our own; but {tracing[0]} is set: LangChain sends every run, texts included, to LangSmith"
        return _Check("telemetry", "WARN", told, f"unset {tracing[0]}")
    return _Check("telemetry", "OK", "none")


def _space(path: Path) -> _Check:
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    free = shutil.disk_usage(folder).free
    told = f"{free / 1024**3:.1f} GiB free in {folder}"
    if free < _LITTLE:
        return _Check("disk", "WARN", told, "make room, or use --database on another disk")
    return _Check("disk", "OK", told)


def _database(call: Call) -> Iterator[_Check]:
    path = call.path
    if path is not None and not path.exists():
        yield _absent(path)
        return
    if path is not None and not (os.access(path, os.W_OK) and os.access(path.absolute().parent, os.W_OK)):
        fix = f"chmod u+w {path} {path.absolute().parent}"
        yield _Check("database", "FAIL", f"{path} or its folder is read-only", fix, ExitCode.UNREACHABLE)
        return
    from langmem_adapter.storage.database import Database

    with closing(Database(call.chosen, busy_timeout=call.settings.busy_timeout)) as database:
        yield from _looked_into(call, database)


def _absent(path: Path) -> _Check:
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not os.access(folder, os.W_OK):
        return _Check(
            "database", "FAIL", f"cannot be made: {folder} is read-only", f"chmod u+w {folder}", ExitCode.UNREACHABLE
        )
    return _Check("database", "OK", f"none at {path} yet; the first add makes it")


def _looked_into(call: Call, database: "Database") -> Iterator[_Check]:
    from langmem_adapter.index.build import open_feed
    from langmem_adapter.storage import meta, moments, tables
    from langmem_adapter.storage.migrations.runner import migrate

    migrate(database)
    stats = meta.stats(database)
    counts = f"memories {stats.memories}, scopes {stats.scopes}, entities {stats.entities}, relations {stats.relations}"
    yield _Check("database", "OK", f"{database.location}: {counts}, {_bytes(stats.size)}; the schema is up to date")
    with database.read() as connection:
        yield from _dates(list(moments.unreadable(connection, tables.metadata)))
        kept, dimensions = meta.get(connection, meta.EMBEDDINGS), meta.dimensions(connection)
    mark = _mark(call) or kept
    if mark is None:
        return
    every = call.settings.snapshot_every
    kind = call.settings.index
    with closing(open_feed(database, kind, fingerprint=mark, dimensions=dimensions, snapshot_every=every)) as feed:
        feed.pull()
        yield _index(feed.verify(), Path(database.location))


def _mark(call: Call) -> str | None:
    """Whose vectors are wanted; `None` where there are no such embeddings, which their own check tells."""
    from langmem_adapter.embedding.resolve import fingerprint, resolve_embeddings

    try:
        return fingerprint(resolve_embeddings(call.options["embeddings"] or call.settings.embeddings, call.settings))
    except (InvalidInputError, MissingDependencyError):
        return None


def _dates(unreadable: "list[Unreadable]") -> Iterator[_Check]:
    if unreadable:
        told = f"{len(unreadable)} that no program here can hold: {'; '.join(map(str, unreadable[:_SHOWN]))}"
        fix = "langmem-adapter update or delete for a memory's id; what else is named, with SQL"
        yield _Check("dates", "FAIL", told, fix, ExitCode.UNREACHABLE)


def _index(found: "Verification", database: Path) -> _Check:
    if not (found.only_in_index or found.only_in_database or found.differing):
        return _Check("index", "OK", f"{found.checked} vectors, equal to the database")
    wrong = (
        f"{len(found.only_in_index)} too many, {len(found.only_in_database)} missing, {len(found.differing)} differing"
    )
    fix = f"rm {database.with_suffix('')}.*.index    (it is made again from the database)"
    return _Check("index", "FAIL", wrong, fix, ExitCode.UNREACHABLE)


def _slow(call: Call, settings: "Settings") -> Iterator[_Check]:
    """What may hang, side by side: each in a thread that is left behind when its time is over."""
    from langmem_adapter.memory import Memory
    from langmem_adapter.twins import in_thread

    begun = {"database": in_thread(partial(_tried, "database", lambda: list(_database(call))))}
    # In throw-away memories, so that nothing of this reaches anybody's data, and one does not need the other.
    brief = {"model_timeout": min(settings.model_timeout, _SECONDS - 1), "model_retries": 0}
    settings = settings.model_copy(update=brief)
    embeddings, model = call.options["embeddings"] or settings.embeddings, call.options["model"] or settings.model
    looks: dict[str, tuple[dict[str, str], Callable[[Memory], _Check]]] = {
        "embeddings": ({"model": "offline", "embeddings": embeddings}, partial(_embeddings, embeddings)),
        "model": ({"model": model, "embeddings": "hash"}, _model),
    }
    for name, (parts, look) in looks.items():
        try:
            memory = Memory(":memory:", **parts, settings=settings)  # type: ignore[arg-type]  # two names
        except known_errors() as error:
            yield _failed(name, failure_of(error))
        else:
            begun[name] = in_thread(partial(_tried, name, partial(_within, memory, look)))
    yield from _ends(call, begun)


def _ends(call: Call, begun: dict[str, Future[list[_Check]]]) -> Iterator[_Check]:
    until = time.monotonic() + _SECONDS
    for name, end in begun.items():
        with call.output.err.status(f"{name} …"):
            wait([end], max(0.0, until - time.monotonic()))
        if end.done():
            yield from end.result()
        else:
            told = f"no answer within {_SECONDS:g} seconds"
            yield _Check(name, "FAIL", told, "see whether its server is well", ExitCode.UNREACHABLE)


def _within(memory: "Memory", look: "Callable[[Memory], _Check]") -> list[_Check]:
    with memory:
        return [look(memory)]


def _embeddings(name: str, memory: "Memory") -> _Check:
    memory.add("The lighthouse keeper plays chess", user_id="doctor", infer=False)
    if not memory.search("chess", user_id="doctor"):
        return _Check(
            "embeddings",
            "FAIL",
            f"{shown(name)}: what was stored is not found",
            "try other --embeddings",
            ExitCode.UNREACHABLE,
        )
    return _Check("embeddings", "OK", f"{shown(name)}: stored and found again")


def _model(memory: "Memory") -> _Check:
    result = memory.add("My name is Ada and I live in Lyon.", user_id="doctor-model")
    if memory.mode == "offline":
        return _Check(
            "model", "OK", "offline: rules, no model; richer facts with --model openai:gpt-5-mini and its key"
        )
    if not result.results:
        told = f"{memory.mode} answered, but found no fact in a plain sentence"
        return _Check("model", "WARN", told, "try another --model")
    return _Check(
        "model", "OK", f"{memory.mode}: structured output works, {len(result.results)} facts in a test sentence"
    )


def _tried(name: str, look: Callable[[], list[_Check]]) -> list[_Check]:
    try:
        return look()
    except known_errors() as error:
        return [_failed(name, failure_of(error))]


def _failed(name: str, failure: Failure) -> _Check:
    code = ExitCode.UNREACHABLE if failure.exit_code is ExitCode.UNREACHABLE else ExitCode.CONFIGURATION
    return _Check(name, "FAIL", failure.message, "" if failure.hint == DOCTOR else failure.hint, code)


def _picture(checks: list[_Check]) -> Any:
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


def _bytes(size: int | None) -> str:
    return "on a server" if size is None else f"{size / 1024**2:.1f} MiB"
