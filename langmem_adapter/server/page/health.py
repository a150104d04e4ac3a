"""How the server is: what was checked, how it is set up, and whether its index is what the database says."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Response
from pydantic import SecretStr

from langmem_adapter.addresses import shown
from langmem_adapter.index.base import Verification
from langmem_adapter.maintenance.checks import SEVERITY, Check, space, surroundings
from langmem_adapter.maintenance.checkup import checkup, defaults
from langmem_adapter.memory.memory import Memory
from langmem_adapter.server.page.addresses import AddressScope
from langmem_adapter.server.page.layout import PREFIX
from langmem_adapter.server.page.view import Looking, Sending, View
from langmem_adapter.settings import Origin, chosen_database
from langmem_adapter.storage import jobs, meta
from langmem_adapter.storage.meta import Stats, spelled
from langmem_adapter.twins import apart, beside

__all__ = ["router"]


class _Checked(AddressScope):
    ask: bool = False


@dataclass(frozen=True, slots=True)
class _Index:
    """The index of this process beside the database.

    Attributes:
        kind: Which one.
        vectors: How many it holds.
        memories: How many it should.
        behind: Changes that the next search reads first.
        model: Of its vectors.
    """

    kind: str
    vectors: int
    memories: int
    behind: int
    model: str


@dataclass(frozen=True, slots=True)
class _Setting:
    """One line of the configuration."""

    name: str
    value: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class _State:
    """What is shown of a server that is well enough to say it."""

    stats: Stats
    queue: jobs.QueueLength
    index: _Index


router = APIRouter(prefix=PREFIX)


@router.get("/health")
async def health(view: Looking, asked: Annotated[AddressScope, Query()]) -> Response:
    if not view.who.reaches_everything:
        return view.show("health", view.whose(asked), state=None)
    return await _checked(view, asked, await beside(_quick, view.memory), whole=False)


@router.post("/health")
async def check(view: Sending, asked: Annotated[_Checked, Form()]) -> Response:
    view.who.need_everything()
    found = await apart(lambda: list(checkup(view.memory, ask=asked.ask)))
    return await _checked(view, asked, found, whole=True)


async def _checked(view: View, asked: AddressScope, checks: list[Check], *, whole: bool) -> Response:
    state = await beside(_state, view.memory)
    told: dict[str, Any] = {
        "checks": checks,
        "worst": max((check.status for check in checks), key=SEVERITY.index),
        "whole": whole,
        "size": _size(state.stats.size),
        "location": view.memory.location,
        "settings": _configuration(view.memory),
    }
    return view.show("health", view.whose(asked), state=state, **told)


@router.get("/health/index")
async def index(view: Looking, asked: Annotated[AddressScope, Query()]) -> Response:
    view.who.need_everything()
    return await _index_told(view, asked)


@router.post("/health/verify")
async def verify(view: Sending, asked: Annotated[AddressScope, Form()]) -> Response:
    view.who.need_everything()
    return await _index_told(view, asked, await view.memory.averify())


@router.post("/health/rebuild")
async def rebuild(view: Sending, asked: Annotated[AddressScope, Form()]) -> Response:
    view.who.need_everything()
    view.shell.rebuilding.begin()
    return view.go("/health/index", view.whose(asked))


async def _index_told(view: View, asked: AddressScope, verified: Verification | None = None) -> Response:
    told: dict[str, Any] = {"standing": view.shell.rebuilding.standing, "verified": verified}
    told |= {"index": await beside(_index, view.memory), "database": _typed(view.memory.location)}
    return view.show("index", view.whose(asked), **told)


def _quick(memory: Memory) -> list[Check]:
    """The checks that take no time and hinder nobody."""
    path = memory.engine.database.path
    return [*surroundings(), *defaults(None, None, memory.settings), *(() if path is None else (space(path),))]


def _state(memory: Memory) -> _State:
    engine = memory.engine
    return _State(meta.stats(engine.database), engine.reading(jobs.queue), _index(memory))


def _index(memory: Memory) -> _Index:
    engine = memory.engine
    stats, held = meta.stats(engine.database), engine.indexer.index
    behind = max(0, stats.changes - engine.indexer.applied)
    (model,) = spelled(engine.fingerprint)
    kind = "not open yet" if held is None else type(held).__name__.removesuffix("Index").lower()
    return _Index(kind, 0 if held is None else len(held), stats.memories, behind, model)


def _configuration(memory: Memory) -> list[_Setting]:
    """Every setting as it is in use: what `Memory` was given itself comes before what its settings say."""
    settings, engine = memory.settings, memory.engine
    (embeddings,) = spelled(engine.fingerprint)
    told = {name: _told(getattr(settings, name)) for name in type(settings).model_fields}
    told["database"] = _place(str(chosen_database(None, settings)))
    given = {
        "database": _place(memory.location),
        "model": memory.mode,
        "embeddings": embeddings,
        "graph": _told(engine.uses_graph),
    }
    itself: dict[str, Origin] = {name: "argument" for name, value in given.items() if value != told[name]}
    origins = {**settings.origins, **itself}
    return [_Setting(name, value, origins[name]) for name, value in {**told, **given}.items()]


def _typed(location: str) -> str:
    """A database as a command line names it; what is masked here has to be filled in there."""
    return '"$DATABASE_URL"' if "://" in location else shlex.quote(location)


def _size(size: int | None) -> str:
    return "on a server, or in memory" if size is None else f"{size / 1024**2:,.1f} MiB"


def _place(database: str) -> str:
    return shown(database) if "://" in database or database == ":memory:" else str(Path(database).absolute())


def _told(value: Any) -> str:
    if isinstance(value, SecretStr):
        return "set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else shown(str(value))
