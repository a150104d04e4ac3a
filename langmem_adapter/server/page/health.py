"""How the server is: what was checked, how it is set up, and whether its index is what the database says."""

import shlex
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Response
from pydantic import SecretStr

from langmem_adapter.index.base import Verification
from langmem_adapter.maintenance.checks import SEVERITY, Check, space, surroundings
from langmem_adapter.maintenance.checkup import checkup, defaults
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.checks import redact_url
from langmem_adapter.server.page.layout import PREFIX
from langmem_adapter.server.page.view import AddressScope, Looking, Sending, View
from langmem_adapter.settings import Origin, chosen_database
from langmem_adapter.storage import jobs, meta
from langmem_adapter.storage.meta import Stats, spelled
from langmem_adapter.twins import apart, beside


class _Checked(AddressScope):
    ask: bool = False


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
    size = state["stats"].size
    told: dict[str, Any] = {
        "checks": checks,
        "worst": max((check.status for check in checks), key=SEVERITY.index),
        "whole": whole,
        "size": "on a server, or in memory" if size is None else f"{size / 1024**2:,.1f} MiB",
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
    # As a command line names it; what is masked here has to be filled in there.
    location = '"$DATABASE_URL"' if "://" in view.memory.location else shlex.quote(view.memory.location)
    told |= {"index": (await beside(_state, view.memory))["index"], "database": location}
    return view.show("index", view.whose(asked), **told)


def _quick(memory: Memory) -> list[Check]:
    """The checks that take no time and hinder nobody."""
    path = memory.parts.database.path
    return [*surroundings(), *defaults(None, None, memory.settings), *(() if path is None else (space(path),))]


def _state(memory: Memory) -> dict[str, Any]:
    parts = memory.parts
    stats = meta.stats(parts.database)
    return {"stats": stats, "queue": parts.reading(jobs.queue), "index": _index(memory, stats)}


def _index(memory: Memory, stats: Stats) -> dict[str, Any]:
    """The index of this process beside the database; `behind`: changes that the next search reads first."""
    parts = memory.parts
    held = parts.indexer.index
    return {
        "kind": "not open yet" if held is None else type(held).__name__.removesuffix("Index").lower(),
        "vectors": 0 if held is None else len(held),
        "memories": stats.memories,
        "behind": max(0, stats.changes - parts.indexer.applied),
        "model": _model(memory),
    }


def _model(memory: Memory) -> str:
    (name,) = spelled(memory.parts.fingerprint)
    return name


def _configuration(memory: Memory) -> list[dict[str, str]]:
    """Every setting as it is in use: what `Memory` was given itself comes before what its settings say."""
    settings, parts = memory.settings, memory.parts
    told = {name: _told(getattr(settings, name)) for name in type(settings).model_fields}
    told["database"] = _place(str(chosen_database(None, settings)))
    given = {
        "database": _place(memory.location),
        "model": memory.mode,
        "embeddings": _model(memory),
        "graph": _told(parts.uses_graph),
    }
    itself: dict[str, Origin] = {name: "argument" for name, value in given.items() if value != told[name]}
    origins = {**settings.origins, **itself}
    return [{"name": name, "value": value, "origin": origins[name]} for name, value in {**told, **given}.items()]


def _place(database: str) -> str:
    return redact_url(database) if "://" in database or database == ":memory:" else str(Path(database).absolute())


def _told(value: Any) -> str:
    if isinstance(value, SecretStr):
        return "set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else redact_url(str(value))
