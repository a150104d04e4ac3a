"""Checks of an installation and of a database, for `doctor` and `/health`."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import time
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final, Literal

from langmem_adapter._version import DISTRIBUTION, __version__
from langmem_adapter.embedding.models import has_static_embeddings
from langmem_adapter.errors import LangmemAdapterError, ModelError
from langmem_adapter.memory.parts import left_to_defaults, parts_of
from langmem_adapter.pipeline.run import run_of
from langmem_adapter.providers import model_name
from langmem_adapter.reasoning.structured_output import bind_way
from langmem_adapter.storage import meta, tables
from langmem_adapter.storage.meta import poor_models
from langmem_adapter.tracing import run_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import Runnable

    from langmem_adapter.index.indexer import VectorFeed
    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.memory.parts import Parts
    from langmem_adapter.providers import Limits
    from langmem_adapter.settings import Settings
    from langmem_adapter.storage.database import Database

Status = Literal["OK", "WARN", "FAIL"]
SEVERITY: Final[tuple[Status, ...]] = ("OK", "WARN", "FAIL")
"""How a check can end, the worst last."""

_LITTLE: Final = 500 * 1024**2  # bytes
_TRACING: Final = ("LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING", "LANGCHAIN_TRACING_V2")
_NAMED: Final = ("langchain-core", "langgraph", "sqlalchemy", "faiss-cpu")


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check.

    Attributes:
        detail: What was found.
        fix: What fixes it, often a command; else empty.
        cause: Of a failure: a wrong configuration, or something out of reach; else empty.
    """

    name: str
    status: Status
    detail: str
    fix: str = ""
    cause: Literal["", "configuration", "unreachable"] = ""


def surroundings() -> Iterator[Check]:
    """Python, the packages, and whether anything is sent away."""
    system = f"{platform.system()} {platform.machine()}"
    yield Check("python", "OK", f"Python {platform.python_version()}, langmem_adapter {__version__}, {system}")
    yield _packages()
    tracing = [name for name in _TRACING if os.environ.get(name, "").lower() in {"1", "true"}]
    if tracing:
        detail = f"ours: none, but {tracing[0]} is set: LangChain sends every run, texts included, to LangSmith"
        yield Check("telemetry", "WARN", detail, f"unset {tracing[0]}")
    else:
        yield Check("telemetry", "OK", "none")


def space(path: Path) -> Check:
    """Free space on the disk of a file, which need not exist."""
    folder = _folder_of(path)
    free = shutil.disk_usage(folder).free
    detail = f"{free / 1024**3:.1f} GiB free in {folder}"
    return (
        Check("disk", "WARN", detail, "free space on the disk, or use another")
        if free < _LITTLE
        else Check("disk", "OK", detail)
    )


def file_of(path: Path) -> Check | None:
    """Why a database's file cannot be used, or that there is none yet; `None` where it can be opened."""
    folder = _folder_of(path)
    if path.exists():
        if os.access(path, os.W_OK) and os.access(folder, os.W_OK):
            return None
        detail, closed = f"{path} or its folder is read-only", [path, folder]
    elif os.access(folder, os.W_OK):
        return Check("database", "OK", f"none at {path} yet; the first add makes it")
    else:
        detail, closed = f"cannot be made: {folder} is read-only", [folder]
    return Check("database", "FAIL", detail, f"chmod u+w {shlex.join(map(str, closed))}", "unreachable")


def _folder_of(path: Path) -> Path:
    return next(parent for parent in path.absolute().parents if parent.exists())


def _packages() -> Check:
    from packaging.requirements import Requirement  # noqa: PLC0415 - of the packages that are looked for

    try:
        wanted = [Requirement(line) for line in metadata.requires(DISTRIBUTION) or []]
    except metadata.PackageNotFoundError:
        return Check("packages", "WARN", "not installed as a package, so versions are unknown", "pip install -e .")
    needed = [part for part in wanted if part.marker is None or part.marker.evaluate({"extra": ""})]
    versions = {part.name: _version_of(part.name) for part in needed}
    wrong = [
        part
        for part in needed
        if (version := versions[part.name]) is None or not part.specifier.contains(version, prereleases=True)
    ]
    fix = f"pip install {shlex.join(f'{part.name}{part.specifier}' for part in wrong)}"
    if missing := [part.name for part in wrong if versions[part.name] is None]:
        return Check("packages", "FAIL", f"missing: {', '.join(missing)}", fix, "configuration")
    if wrong:
        strange = (f"{part.name} {versions[part.name]}, known good are {part.specifier}" for part in wrong)
        return Check("packages", "WARN", ", ".join(strange), fix)
    main = ", ".join(f"{name} {versions[name]}" for name in _NAMED if name in versions)
    return Check("packages", "OK", f"{len(needed)} of {len(needed)} as wanted: {main}")


def _version_of(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


_MOST_DATES: Final = 5
_STATIC: Final = (
    ", of words and spellings alone; static, offline too, finds more of what is said in other words (recall@10 on LoCoMo "
    "is 0.81 instead of 0.79): "
)
_INSTALL: Final = f"pip install '{DISTRIBUTION}[static]', then "
_REINDEX: Final = "langmem-adapter reindex {}--embeddings static"
_STATEMENT: Final = "My name is Ada and I live in Lyon."
_SLOW: Final = 8.0  # seconds
_CITY: Final = {
    "title": "City",
    "description": "The city that the user lives in.",
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
_CONTEXT_FIELDS: Final = ("max_model_len", "context_length", "context_window", "n_ctx", "n_ctx_train")


def checkup(memory: Memory, *, ask: bool = False) -> Iterator[Check]:
    """Look at everything that an open memory needs, one check after the other; nothing is written.

    All vectors and dates are read, and searches that find changes wait until the vectors are compared.

    Args:
        memory: An open memory.
        ask: Whether its embedding model and its chat model are asked, too; one short sentence then goes there.

    Example:
        >>> from langmem_adapter import Memory
        >>> with Memory(":memory:") as memory:
        ...     statuses = {check.name: check.status for check in checkup(memory)}
        >>> statuses["database"], statuses["index"]
        ('OK', 'OK')
    """
    parts = parts_of(memory, "checkup")
    yield from surroundings()
    yield from defaults(None, None, parts.settings)
    looks = {"database": partial(_data, parts)}
    if ask:
        looks |= {"embeddings": partial(embeddings, memory), "model": partial(model, memory)}
    checks = (check for name, look in looks.items() for check in tried(name, look))
    yield from advised(checks, parts.database.location)


def advised(checks: Iterator[Check], database: str) -> Iterator[Check]:
    """Checks, of hash embeddings with the advice to use static ones in *database*, unless a check failed before."""
    where = f"-d {shlex.quote(database)} " if database else ""
    failed = False
    for check in checks:
        failed = failed or check.status == "FAIL"
        hashed = check.name == "embeddings" and check.detail.startswith("hash:")
        more = f"{_STATIC}{'' if has_static_embeddings() else _INSTALL}{_REINDEX.format(where)}"
        yield replace(check, detail=check.detail + more) if hashed and not failed else check


def defaults(model: Any, embeddings: Any, settings: Settings) -> Iterator[Check]:
    """Defaults of arguments of `Memory` that few users want."""
    for note in left_to_defaults(model, embeddings, settings):
        detail, _, fix = note.partition("; ")
        yield Check("defaults", "WARN", detail, fix)


def stored(database: Database) -> Iterator[Check]:
    """How much a database with a current schema holds, and whether all of its dates can be read."""
    stats = meta.stats(database)
    size = "on a server" if stats.size is None else f"{stats.size / 1024**2:.1f} MiB"
    counts = f"memories {stats.memories}, scopes {stats.scopes}, entities {stats.entities}, relations {stats.relations}"
    yield Check("database", "OK", f"{database.location}: {counts}, {size}; the schema is up to date")
    with database.read() as connection:
        poor = poor_models(connection)
        unreadable = list(meta.unreadable_dates(connection, tables.metadata))
    for name, count in poor.items():
        detail = f"{count} of the last 10 replies of {name} could not be used, so it is asked with the profile small"
        yield Check("replies", "WARN", detail, "choose a larger model, or say model_profile=full")
    if unreadable:
        detail = f"{len(unreadable)} that no program here can hold: {'; '.join(map(str, unreadable[:_MOST_DATES]))}"
        fix = "langmem-adapter update or delete for a memory's id; what else is named, with SQL"
        yield Check("dates", "FAIL", detail, fix, "unreachable")


def index(feed: VectorFeed, path: Path | None) -> Check:
    """Whether an index, brought up to date, is equal to its database; *path* is `None` in memory and on a server."""
    feed.pull()
    result = feed.verify()
    counts = {"too many": result.only_in_index, "missing": result.only_in_database, "differing": result.differing}
    if any(counts.values()):
        wrong = ", ".join(f"{len(ids)} {what}" for what, ids in counts.items())
        made = "it is made again from the database"
        fix = f"restart the program: {made}" if path is None else f"rm {path.with_suffix('')}.*.index    ({made})"
        return Check("index", "FAIL", wrong, fix, "unreachable")
    unchecked = f"; not compared: {', '.join(result.unchecked)}" if result.unchecked else ""
    return Check("index", "OK", f"{result.checked} vectors, equal to the database{unchecked}")


def embeddings(memory: Memory) -> Iterator[Check]:
    """Whether the embedding model answers, with a vector of the right length."""
    (vector,) = memory.parts.embedder.vectors([_STATEMENT])
    (name,) = meta.spelled(memory.parts.fingerprint)
    yield Check("embeddings", "OK", f"{name}: a vector of {len(vector)} numbers")


def model(memory: Memory) -> Iterator[Check]:
    """Whether the chat model answers in a form that can be read, and finds the facts in a plain sentence."""
    parts = memory.parts
    if memory.mode == "offline":
        detail = "offline: stores statements, normalizes the simple ones; "
        yield Check("model", "OK", f"{detail}facts of all of them with --model openai:gpt-5-mini and its key")
        return
    run, start = run_of({"messages": _STATEMENT, "user_id": "doctor"}, parts.longest), time.perf_counter()
    facts = parts.dry_pipeline.invoke(run.state(), run_config("memory.checkup", run.scope, memory.mode))["facts"]
    seconds = time.perf_counter() - start
    speed = f"slow: {seconds:.0f} s" if seconds > _SLOW else f"{seconds:.1f} s"
    if facts:
        detail = f"{memory.mode}: structured output works, {len(facts)} facts in a test sentence, {speed}"
        yield Check("model", "OK", f"{detail}, profile {parts.settings.model_profile}")
    else:
        detail = f"{memory.mode} answered, but found no fact in a plain sentence, {speed}"
        yield Check("model", "WARN", detail, "try another --model")


def abilities(model: BaseChatModel, limits: Limits) -> Iterator[Check]:
    """Whether a chat model follows a JSON schema and calls tools, and how long its context is, by three short requests."""
    for name, way, works in (("schema", "json_schema", "followed"), ("tools", "tools", "called")):
        bound = bind_way(model, _CITY, way)
        why = "the client does not offer it" if bound is None else _hindrance(bound, way, limits)
        elsewhere = f"{why}; replies are read in another way, which costs tokens"
        yield Check(name, "WARN", elsewhere) if why else Check(name, "OK", works)
    size = _context_size(model, limits)
    yield Check("context", "OK", "the server does not say how long it is" if size is None else f"{size:,} tokens")


def _hindrance(bound: Runnable[Any, BaseMessage], way: str, limits: Limits) -> str:
    """Why a way of asking does not work; empty where it does."""
    try:
        reply = limits.plan(partial(bound.invoke, _STATEMENT)).run()
    except ModelError as error:
        return str(error)
    is_used = bool(getattr(reply, "tool_calls", None)) if way == "tools" else reply.text.lstrip().startswith("{")
    return "" if is_used else "not used by the model"


def _context_size(model: BaseChatModel, limits: Limits) -> int | None:
    """Tokens of the model's context, as LangChain's profile or the server's list of models says."""
    profile: Mapping[str, Any] = getattr(model, "profile", None) or {}
    client = getattr(model, "root_client", None)
    if profile.get("max_input_tokens") or client is None:
        return profile.get("max_input_tokens")
    try:
        listed = limits.plan(lambda: client.models.list().data).run()
    except ModelError:
        return None
    entries = [entry for entry in listed if entry.id == model_name(model)] or listed[:1]
    extra = (entries[0].model_extra or {}) if entries else {}
    fields = {**(extra.get("meta") or {}), **extra}
    return next((fields[name] for name in _CONTEXT_FIELDS if isinstance(fields.get(name), int)), None)


def _failed(name: str, error: BaseException) -> Check:
    return Check(name, "FAIL", str(error), cause="unreachable")


def tried(
    name: str, look: Callable[[], Iterator[Check]], failed: Callable[[str, BaseException], Check] = _failed
) -> Iterator[Check]:
    """The checks of one look; *failed* makes a check of its error."""
    try:
        yield from look()
    except LangmemAdapterError as error:
        yield failed(name, error)


def _data(parts: Parts) -> Iterator[Check]:
    path = parts.database.path
    if path is not None:
        yield space(path)
        problem = file_of(path)
        if not path.exists():
            detail = f"{path} is gone, while it is open: what is written now is lost when the last program closes it"
            fix = "put it back from a backup, and restart every program"
            problem = Check("database", "FAIL", detail, fix, "unreachable")
        if problem is not None:
            yield problem
            return
    yield from stored(parts.database)
    yield index(parts.indexer, path)
