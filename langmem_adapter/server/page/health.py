"""How the server is: what was checked, how it is set up, and whether its index is what the database says."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Query, Request, Response
from pydantic import SecretStr

from langmem_adapter.addresses import shown
from langmem_adapter.index.base import Verification
from langmem_adapter.maintenance.checks import SEVERITY, Check, space, surroundings
from langmem_adapter.maintenance.checkup import checkup, defaults
from langmem_adapter.memory import Memory
from langmem_adapter.server.auth import ForbiddenError, Principal
from langmem_adapter.server.page.asking import Whose
from langmem_adapter.server.page.rebuilding import Rebuilding
from langmem_adapter.server.page.session import check_form
from langmem_adapter.server.page.shell import PREFIX, Shell
from langmem_adapter.settings import Origin, chosen_database
from langmem_adapter.storage import jobs, meta
from langmem_adapter.storage.meta import Stats, spelled
from langmem_adapter.twins import beside

__all__ = ["router"]


class _Checked(Whose):
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
    queue: jobs.Queue
    index: _Index


def router(memory: Memory, caller: Any, shell: Shell) -> APIRouter:
    """The views.

    Args:
        memory: What is looked at.
        caller: The default of a parameter that gets the `Principal`.
        shell: Makes the answers.
    """
    routes, rebuilding = APIRouter(prefix=PREFIX), Rebuilding(memory)

    async def index(request: Request, who: Principal, asked: Whose, verified: Verification | None = None) -> Response:
        _need_all(who)
        state, fields = await beside(_index, memory), who.narrowed(asked.model_dump())
        told: dict[str, Any] = {
            "standing": rebuilding.standing,
            "verified": verified,
            "database": _typed(memory.location),
        }
        return shell.show(request, "index", who, fields, index=state, **told)

    async def shown(request: Request, who: Principal, asked: Whose, checks: list[Check], *, whole: bool) -> Response:
        state = await beside(_state, memory)
        worst = max((check.status for check in checks), key=SEVERITY.index)
        told: dict[str, Any] = {
            "size": _size(state.stats.size),
            "location": memory.location,
            "settings": _configuration(memory),
        }
        found: dict[str, Any] = {"checks": checks, "worst": worst, "whole": whole}
        return shell.show(request, "health", who, who.narrowed(asked.model_dump()), state=state, **found, **told)

    @routes.get("/health")
    async def health(request: Request, asked: Annotated[Whose, Query()], who: Principal = caller) -> Response:
        if not _may_look(who):
            return shell.show(request, "health", who, who.narrowed(asked.model_dump()), state=None)
        return await shown(request, who, asked, await beside(_quick, memory), whole=False)

    @routes.post("/health", dependencies=[Depends(check_form)])
    async def check(request: Request, asked: Annotated[_Checked, Form()], who: Principal = caller) -> Response:
        _need_all(who)
        found = await beside(lambda: list(checkup(memory, ask=asked.ask)))
        return await shown(request, who, asked, found, whole=True)

    @routes.get("/health/index")
    async def looked_at(request: Request, asked: Annotated[Whose, Query()], who: Principal = caller) -> Response:
        return await index(request, who, asked)

    @routes.post("/health/verify", dependencies=[Depends(check_form)])
    async def verify(request: Request, asked: Annotated[Whose, Form()], who: Principal = caller) -> Response:
        _need_all(who)
        return await index(request, who, asked, await memory.averify())

    @routes.post("/health/rebuild", dependencies=[Depends(check_form)])
    async def rebuild(request: Request, asked: Annotated[Whose, Form()], who: Principal = caller) -> Response:
        _need_all(who)
        fields = who.narrowed(asked.model_dump())
        rebuilding.begin()
        return shell.go(request, "/health/index", fields)

    return routes


def _may_look(who: Principal) -> bool:
    """Whether somebody may know how the server is: what is told counts everybody's."""
    return "admin" in who.rights and who.scope is None


def _need_all(who: Principal) -> None:
    who.need("admin")
    if not _may_look(who):
        raise ForbiddenError("this needs a key that reaches everything")


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
