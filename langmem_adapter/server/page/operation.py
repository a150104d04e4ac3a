"""Page of the operator: login, traces, scopes, forgetting a scope, health, index."""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from math import fsum
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Form, Query, Response
from pydantic import Field, SecretStr

from langmem_adapter.index.base import Verification
from langmem_adapter.maintenance.checkup import SEVERITY, Check, checkup, defaults, space, surroundings
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.checks import redact_url
from langmem_adapter.records.escapes import DiffPart, differences
from langmem_adapter.records.results import Change, Turn
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope
from langmem_adapter.server.auth import Principal
from langmem_adapter.server.page.layout import (
    COOKIE,
    THEME,
    THEMES,
    YEAR,
    Filled,
    Looking,
    Reading,
    ScopeForm,
    Sending,
    View,
    Visiting,
    check_form,
    pieces,
    put_cookie,
    session_of,
)
from langmem_adapter.server.problems import PAGE
from langmem_adapter.settings import chosen_database
from langmem_adapter.storage import erasure, jobs, keys, meta
from langmem_adapter.storage.erasure import SORT_KEYS, Erasure
from langmem_adapter.storage.traces import Trace, TracePage
from langmem_adapter.twins import run_in_executor, run_in_new_thread

router = APIRouter(prefix=PAGE)


# ── login and theme ───────────────────────────────────────────────────────────────────────────────────────────────────


@router.get("/login")
async def login(view: Visiting, to: str = "") -> Response:
    return view.show("login", to=to, wrong=False) if view.service.needs_login else view.go("/memories")


@router.post("/login", dependencies=[Depends(check_form)])
async def enter(view: Visiting, key: Annotated[str, Form()], to: Annotated[str, Form()] = "") -> Response:
    api_key = await run_in_executor(view.memory.parts.reading, keys.find, key.strip())
    if api_key is None:
        return view.show("login", to=to, wrong=True, status=HTTPStatus.UNAUTHORIZED)
    secret = await view.memory.parts.database.awrite(partial(keys.begin, key=api_key))
    answer = view.go(_own_path(to))
    put_cookie(view.request, answer, COOKIE, secret, seconds=int(keys.LASTS.total_seconds()))
    return answer


@router.post("/logout", dependencies=[Depends(check_form)])
async def leave(view: Visiting) -> Response:
    await view.memory.parts.database.awrite(partial(keys.end, secret=session_of(view.request)))
    answer = view.go("/login")
    put_cookie(view.request, answer, COOKIE, "", seconds=0)
    return answer


@router.post("/theme", dependencies=[Depends(check_form)])
async def theme(view: Visiting, theme: Annotated[str, Form()], to: Annotated[str, Form()] = "") -> Response:
    answer = view.go(_own_path(to))
    put_cookie(view.request, answer, THEME, theme if theme in THEMES else THEMES[0], seconds=YEAR)
    return answer


def _own_path(to: str) -> str:
    """The view that a form leads back to, never another site's page."""
    _, _, path = to.partition(PAGE)
    return path if path.startswith("/") and not path.startswith("//") and "\\" not in path else "/memories"


# ── traces ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_STAGES: Final = ("parse", "extract", "retrieve", "decide", "apply")
_STAGE_OF_TASK: Final = {
    "describe image": "parse",
    "facts_found": "extract",
    "record steps": "extract",
    "memory_decided": "decide",
}


class _TracesQuery(ScopeForm):
    after: Filled[str] = None


@router.get("/traces")
async def list_traces(view: Reading, query: Annotated[_TracesQuery, Query()]) -> Response:
    scope = await view.scope_to_show(query)
    page = TracePage() if scope is None else await view.memory.atraces(**scope, after=query.after)
    days = view.memory.settings.trace_days
    return view.show("traces", scope, page=page, days=days, is_first=query.after is None)


@router.get("/traces/{trace_id}")
async def show_trace(view: Reading, trace_id: str, query: Annotated[ScopeForm, Query()]) -> Response:
    scope = view.effective_scope(query)
    trace = await view.memory.atrace(trace_id, **scope)
    return view.show("trace", scope or trace.scope.named, trace=trace, run=_run_view(trace))


def _run_view(trace: Trace) -> dict[str, Any]:
    """The values of the template beside the trace; facts and turns are numbered from 1."""
    candidates: list[dict[str, str]] = trace.candidates.get("known", [])
    times, results = trace.result.usage.milliseconds, trace.result.results
    total = fsum(times.values())
    stages = {}
    for piece in pieces({name: times.get(name, 0.0) for name in _STAGES}, total):
        name = piece["name"]
        calls = [call for call in trace.calls if _STAGE_OF_TASK.get(call.task) == name]
        stages[name] = {"milliseconds": times.get(name), "piece": piece, "calls": calls}
    return {
        "text": next((turn.text for turn in trace.turns if turn.role != "system" and turn.text), ""),
        "stages": stages,
        "milliseconds": total,
        "conversations": _conversations(trace),
        "facts": list(enumerate(trace.facts, 1)),
        "verbatim": any(fact.verbatim for fact in trace.facts),
        "candidates": candidates[: trace.candidates.get("shown", 0)],
        "outcomes": _outcomes(trace, {each["id"]: each for each in candidates}),
        "events": Counter(change.event for change in results),
        "changes": [change for change in results if change.event != "NONE" or change.relations],
        "others": [call for call in trace.calls if call.task not in _STAGE_OF_TASK],
        "is_note": "extract" not in times,  # a conversation was summed up
    }


def _conversations(trace: Trace) -> list[dict[str, Any]]:
    """Each conversation that parse read: earlier turns, its own with their numbers, and what was not used."""
    notes = trace.state["work"].get("notes", [])
    before = [Turn.from_json(each) for each in trace.state.get("before", ())]
    return [
        {
            "before": [turn for turn in before if turn.item == item],
            "turns": [(number, turn) for number, turn in enumerate(trace.turns, 1) if turn.item == item],
            "notes": [note for each in notes[item : item + 1] for note in each],
        }
        for item in sorted({turn.item for turn in trace.turns})
    ]


def _outcomes(trace: Trace, candidates: Mapping[str, Mapping[str, str]]) -> list[dict[str, Any]]:
    """Each decision, and what it changes of the text of a memory."""
    results: Sequence[Change | None] = trace.result.results
    if len(results) != len(trace.decisions):  # the result of an earlier run of this name
        results = [None] * len(trace.decisions)
    outcomes = []
    for decision, change in zip(trace.decisions, results, strict=True):
        target = candidates.get(decision.memory_id or decision.past_of or "")
        before = (change and change.previous_text) or (target["text"] if target else "")
        parts: Sequence[DiffPart] = ()
        if decision.event == "UPDATE" and decision.text is not None:
            parts = differences(before, decision.text)
        elif decision.event == "DELETE":
            parts = [("gone", change.text if change else before)]
        number = None if decision.fact is None else decision.fact + 1
        outcomes.append({"number": number, "decision": decision, "parts": parts, "target": target})
    return outcomes


# ── scopes ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_PAGE: Final = 50
_MOST_PAGES: Final = 1_000_000
_CONFIRMATION: Final = "forget"
_LONGEST: Final = 64
_RIGHTS: Final = {"delete": "write", "erase": "admin"}


class _ScopesQuery(ScopeForm):
    by: Literal["user", "agent", "run"] = "user"
    begins: Filled[str] = None
    sort: str = Field("-memories", pattern=f"^-?({'|'.join(SORT_KEYS)})$")
    page: int = Field(1, ge=1, le=_MOST_PAGES)


class _ForgetForm(ScopeForm):
    how: Literal["delete", "erase"]
    name: str = ""


@router.get("/scopes")
async def list_scopes(view: Reading, query: Annotated[_ScopesQuery, Query()]) -> Response:
    scope = view.effective_scope(query)
    result = await run_in_executor(view.memory.parts.reading, _scopes, query, view.principal)
    return view.show("scopes", scope, query=query, **result, size=_PAGE, names=SCOPE_FIELDS)


def _scopes(connection: Any, query: _ScopesQuery, who: Principal) -> dict[str, Any]:
    """A page of the list, and how many there are of each kind; without the right admin the key's own scope."""
    if "admin" not in who.rights:
        rows = [] if who.scope is None else [erasure.scope_usage(connection, who.scope)]
        return {"rows": rows, "numbers": {}, "total": len(rows)}
    number, field, begins = erasure.count_names, f"{query.by}_id", query.begins or ""
    how: dict[str, Any] = {"sort": query.sort, "most": _PAGE, "skipped": (query.page - 1) * _PAGE}
    rows = erasure.list_usage(connection, field, who.scope, begins=begins, **how)
    numbers = {name.removesuffix("_id"): number(connection, name, who.scope) for name in SCOPE_FIELDS}
    total = number(connection, field, who.scope, begins=begins) if begins else numbers[query.by]
    return {"rows": rows, "numbers": numbers, "total": total}


@router.get("/scopes/forget")
async def ask_to_forget(view: Looking, query: Annotated[ScopeForm, Query()]) -> Response:
    view.principal.need("write")
    return await _ask(view, view.effective_scope(query))


@router.post("/scopes/forget")
async def forget(view: Sending, form: Annotated[_ForgetForm, Form()]) -> Response:
    view.principal.need(_RIGHTS[form.how])
    fields = view.effective_scope(form)
    if form.name.strip() != _word_to_type(Scope(**fields)):
        return await _ask(view, fields, wrong=form.how)
    # Shown at once and not after a redirect: the key of who erases may be gone with the rest.
    # tests/server/page/test_scopes.py::test_forget_page_answers_after_erasing_the_callers_key
    if form.how == "erase":
        removed, left = await view.memory.apurge(**fields), {}
    else:
        removed, left = Erasure(memories=await view.memory.adelete_all(**fields)), fields
    return view.show("forgotten", left, removed=removed, how=form.how, named=fields)


async def _ask(view: View, fields: dict[str, Any], wrong: str = "") -> Response:
    scope = Scope(**fields)
    usage = await run_in_executor(view.memory.parts.reading, erasure.erasure_preview, scope)
    status = HTTPStatus.UNPROCESSABLE_ENTITY if wrong else HTTPStatus.OK
    return view.show("forget", fields, status=status, usage=usage, word=_word_to_type(scope), wrong=wrong)


def _word_to_type(scope: Scope) -> str:
    """The name of the scope, unless no keyboard has it."""
    name = " / ".join(value.strip() for value in scope.named.values())
    return name if name.isprintable() and len(name) <= _LONGEST else _CONFIRMATION


# ── health ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class _CheckForm(ScopeForm):
    ask: bool = False


@router.get("/health")
async def health(view: Looking, query: Annotated[ScopeForm, Query()]) -> Response:
    if not view.principal.reaches_everything:
        return view.show("health", view.effective_scope(query), state=None)
    return await _show_health(view, query, await run_in_executor(_quick_checks, view.memory), whole=False)


@router.post("/health")
async def check(view: Sending, form: Annotated[_CheckForm, Form()]) -> Response:
    view.principal.need_everything()
    checks = await run_in_new_thread(lambda: list(checkup(view.memory, ask=form.ask)))
    return await _show_health(view, form, checks, whole=True)


async def _show_health(view: View, form: ScopeForm, checks: list[Check], *, whole: bool) -> Response:
    state = await run_in_executor(_state, view.memory)
    size = state["stats"].size
    return view.show(
        "health",
        view.effective_scope(form),
        state=state,
        checks=checks,
        worst=max((check.status for check in checks), key=SEVERITY.index),
        whole=whole,
        size="on a server, or in memory" if size is None else f"{size / 1024**2:,.1f} MiB",
        location=view.memory.location,
        settings=_settings_in_use(view.memory),
    )


@router.get("/health/index")
async def index(view: Looking, query: Annotated[ScopeForm, Query()]) -> Response:
    view.principal.need_everything()
    return await _show_index(view, query)


@router.post("/health/verify")
async def verify(view: Sending, form: Annotated[ScopeForm, Form()]) -> Response:
    view.principal.need_everything()
    return await _show_index(view, form, await view.memory.averify())


@router.post("/health/rebuild")
async def rebuild(view: Sending, form: Annotated[ScopeForm, Form()]) -> Response:
    view.principal.need_everything()
    view.service.rebuilding.begin()
    return view.go("/health/index", view.effective_scope(form))


async def _show_index(view: View, form: ScopeForm, verified: Verification | None = None) -> Response:
    # As a command line names it; what is masked here has to be filled in there.
    location = '"$DATABASE_URL"' if "://" in view.memory.location else shlex.quote(view.memory.location)
    index = (await run_in_executor(_state, view.memory))["index"]
    values = {"progress": view.service.rebuilding.progress, "verified": verified, "index": index, "database": location}
    return view.show("index", view.effective_scope(form), **values)


def _quick_checks(memory: Memory) -> list[Check]:
    """The checks that take no time and lock nothing."""
    path = memory.parts.database.path
    return [*surroundings(), *defaults(None, None, memory.settings), *(() if path is None else (space(path),))]


def _state(memory: Memory) -> dict[str, Any]:
    """The database, the queue, and the index of this process; `behind`: changes that the next search reads first."""
    parts = memory.parts
    stats, vectors = meta.stats(parts.database), parts.indexer.index
    index = {
        "kind": "not open yet" if vectors is None else type(vectors).__name__.removesuffix("Index").lower(),
        "vectors": 0 if vectors is None else len(vectors),
        "memories": stats.memories,
        "behind": max(0, stats.changes - parts.indexer.applied),
        "model": meta.spelled(parts.fingerprint)[0],
    }
    return {"stats": stats, "queue": parts.reading(jobs.queue), "index": index}


def _settings_in_use(memory: Memory) -> list[dict[str, str]]:
    """Every setting in use: an argument of `Memory` overrides its settings."""
    settings, parts = memory.settings, memory.parts
    configured = {name: _setting_text(getattr(settings, name)) for name in type(settings).model_fields}
    configured["database"] = _database_text(str(chosen_database(None, settings)))
    actual = {
        "database": _database_text(memory.location),
        "model": memory.mode,
        "embeddings": meta.spelled(parts.fingerprint)[0],
        "graph": _setting_text(parts.uses_graph),
    }
    rows = []
    for name, value in {**configured, **actual}.items():
        origin = settings.origins[name] if value == configured[name] else "argument"
        rows.append({"name": name, "value": value, "origin": origin})
    return rows


def _database_text(database: str) -> str:
    return redact_url(database) if "://" in database or database == ":memory:" else str(Path(database).absolute())


def _setting_text(value: Any) -> str:
    if isinstance(value, SecretStr):
        return "set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else redact_url(str(value))
