"""Checks: what each says, and those that look around a memory and need none: Python, packages, telemetry, disk, its file."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Final, Literal

from langmem_adapter._version import DISTRIBUTION, __version__

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Status = Literal["OK", "WARN", "FAIL"]
SEVERITY: Final[tuple[Status, ...]] = ("OK", "WARN", "FAIL")
"""How a check can end, the worst last."""

_LITTLE: Final = 500 * 1024**2  # bytes
_TRACING: Final = ("LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING", "LANGCHAIN_TRACING_V2")
_NAMED: Final = ("langchain-core", "langgraph", "sqlalchemy", "faiss-cpu")


@dataclass(frozen=True, slots=True)
class Check:
    """What one look found.

    Attributes:
        detail: What was seen.
        fix: What mends it, often a command; empty where nothing is to be mended, or nobody knows.
        cause: Of a failure: whether the configuration is wrong, or something cannot be reached; else empty.
    """

    name: str
    status: Status
    detail: str
    fix: str = ""
    cause: Literal["", "configuration", "unreachable"] = ""


def surroundings() -> Iterator[Check]:
    """Python, the packages, and whether anything is sent away."""
    yield from (_python(), _packages(), _telemetry())


def space(path: Path) -> Check:
    """The room on the disk of a file, which need not exist."""
    folder = _folder_of(path)
    free = shutil.disk_usage(folder).free
    told = f"{free / 1024**3:.1f} GiB free in {folder}"
    if free < _LITTLE:
        return Check("disk", "WARN", told, "make room, or use another disk")
    return Check("disk", "OK", told)


def file_of(path: Path) -> Check | None:
    """What hinders the use of a database's file, or that there is none yet; `None` where it can be opened."""
    folder = _folder_of(path)
    if path.exists():
        if os.access(path, os.W_OK) and os.access(folder, os.W_OK):
            return None
        told, closed = f"{path} or its folder is read-only", [path, folder]
    elif os.access(folder, os.W_OK):
        return Check("database", "OK", f"none at {path} yet; the first add makes it")
    else:
        told, closed = f"cannot be made: {folder} is read-only", [folder]
    return Check("database", "FAIL", told, f"chmod u+w {shlex.join(map(str, closed))}", "unreachable")


def _folder_of(path: Path) -> Path:
    return next(parent for parent in path.absolute().parents if parent.exists())


def _python() -> Check:
    told = (
        f"Python {platform.python_version()}, langmem_adapter {__version__}, {platform.system()} {platform.machine()}"
    )
    return Check("python", "OK", told)


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
    told = ", ".join(f"{name} {versions[name]}" for name in _NAMED if name in versions)
    return Check("packages", "OK", f"{len(needed)} of {len(needed)} as wanted: {told}")


def _version_of(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _telemetry() -> Check:
    tracing = [name for name in _TRACING if os.environ.get(name, "").lower() in {"1", "true"}]
    if tracing:
        told = f"none of our own; but {tracing[0]} is set: LangChain sends every run, texts included, to LangSmith"
        return Check("telemetry", "WARN", told, f"unset {tracing[0]}")
    return Check("telemetry", "OK", "none")
