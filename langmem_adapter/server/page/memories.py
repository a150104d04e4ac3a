"""Page of memories: list, search, first screen, one memory with its history and source, export."""

import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from operator import itemgetter
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from fastapi import APIRouter, Form, Query, Response
from sqlalchemy import Connection

from langmem_adapter.arguments import parse_time
from langmem_adapter.errors import ConflictError, InvalidInputError, MemoryNotFoundError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.escapes import MEMORY_COLUMNS, differences, memory_line
from langmem_adapter.records.results import MemoryItem, Revision
from langmem_adapter.records.scope import Scope
from langmem_adapter.search.relevance import RELEVANT
from langmem_adapter.server.page.layout import (
    Filled,
    Looking,
    Reading,
    ScopeForm,
    View,
    Writing,
    pieces,
)
from langmem_adapter.server.problems import PAGE, Streamed
from langmem_adapter.server.v1.exchange import LINES, PAGE_SIZE, exported
from langmem_adapter.storage import memories, traces
from langmem_adapter.storage.erasure import list_usage
from langmem_adapter.storage.graph import reads
from langmem_adapter.storage.lexical import split_context
from langmem_adapter.storage.scopes import counts
from langmem_adapter.twins import run_in_executor

_PAGE: Final = 50
_HITS: Final = 20
_USER: Final = "me"
_FEW: Final = 5  # memories; with less the examples are shown
_SIMILAR: Final = 5
_REVISIONS: Final = 50
_TURNS_BEFORE: Final = 2
_MINUTE: Final = "%Y-%m-%dT%H:%M"
_LONGEST: Final = 80
_BOM: Final = "\ufeff".encode()  # without it spreadsheets take UTF-8 for something else
_EVIDENCE: Final = {
    "meaning": "its vector is near that of the question",
    "words": "words of the question, or related ones, are in it or in the turns before it",
    "speaker": "the question asks about who said it",
    "time": "the question asks about its time",
    "window": "it was said in the time that the question names, or tells of it",
    "recency": "how new it is",
    "newer": "a newer value of the same attribute comes first",
    "graph": "the knowledge graph leads to it from who is asked about",
}

router = APIRouter(prefix=PAGE)


_ADA: Final = {"language": "en", "user": "ada"}
_EXAMPLES: Final = [  # with the user of an empty database
    {
        "text": "Hi! I am Ada. I live in Kyoto, I have a dog called Rex, and I am vegetarian.",
        "shows": "one sentence becomes several memories",
        **_ADA,
    },
    {"text": "I moved to Lyon last week.", "shows": "after the first: an update, at the date that was meant", **_ADA},
    {"text": "我叫小明，住在北京，喜欢喝茶。", "shows": "the same in Chinese", "language": "zh", "user": "小明"},
    {"text": "我上个月搬到上海了。", "shows": "after the one before: an update", "language": "zh", "user": "小明"},
]


class _ListQuery(ScopeForm):
    q: Filled[str] = None
    type: Filled[str] = None
    as_of: Filled[str] = None
    after: Filled[str] = None
    expired: bool = False


class _AddForm(ScopeForm):
    text: str
    verbatim: bool = False


@router.get("")
@router.get("/")
async def home(view: Looking) -> Response:
    return view.go("/memories")


@router.get("/memories")
async def list_memories(view: Reading, query: Annotated[_ListQuery, Query()]) -> Response:
    scope = await view.scope_to_show(query)
    if scope is None:
        return view.show("start", user=_USER, others=(), **_first_screen(view))
    began = time.perf_counter()
    rows, after = await (_page if query.q is None else _search)(view.memory, query, scope)
    milliseconds = (time.perf_counter() - began) * 1000
    total = sum(each.memories for each in await run_in_executor(view.memory.parts.reading, counts, Scope(**scope)))
    if not (total or rows or query.q or query.type or query.as_of or query.after):
        others: list[Any] = []
        if view.principal.reaches_everything:
            others = await run_in_executor(view.memory.parts.reading, list_usage, "user_id", most=_FEW)
        return view.show("start", scope, others=[each for each in others if each.memories], **_first_screen(view))
    values: dict[str, Any] = {"query": query, "rows": rows, "after": after, "total": total, "ms": milliseconds}
    return view.show("memories", scope, **values, evidence=_EVIDENCE, examples=_EXAMPLES if total < _FEW else ())


@router.post("/memories")
async def add(view: Writing, form: Annotated[_AddForm, Form()]) -> Response:
    scope = view.effective_scope(form)
    added = await view.memory.aadd(form.text, **scope, infer=not form.verbatim)
    return view.go("/memories" if added.trace_id is None else f"/traces/{added.trace_id}", scope)


def _first_screen(view: View) -> dict[str, Any]:
    """Examples, and the database's location for callers who may see it on Health."""
    is_shown = view.principal.reaches_everything and "://" not in view.memory.location
    return {
        "examples": _EXAMPLES,
        "database": json.dumps(view.memory.location if is_shown else "…", ensure_ascii=False),
    }


async def _page(memory: Memory, query: _ListQuery, scope: dict[str, Any]) -> tuple[list[dict[str, Any]], str | None]:
    filters = None if query.type is None else {"memory_type": query.type}
    how: dict[str, Any] = {"filters": filters, "as_of": query.as_of, "include_expired": query.expired}
    page = await memory.aget_all(**scope, **how, k=_PAGE, after=query.after)
    return [{"item": item, "relevance": None} for item in page], page.next


async def _search(memory: Memory, query: _ListQuery, scope: dict[str, Any]) -> tuple[list[dict[str, Any]], str | None]:
    how: dict[str, Any] = {"memory_type": query.type, "as_of": query.as_of, "explain": True}
    hits = await memory.asearch(query.q or "", **scope, **how, k=_HITS)
    best = max((hit.score for hit in hits), default=0.0)  # which fills the bar of its evidence
    rows = []
    for hit in hits:
        parts = {name: value for name, value in (hit.explanation.parts if hit.explanation else {}).items() if value > 0}
        bar = tuple(pieces(dict(sorted(parts.items(), key=itemgetter(1), reverse=True)), best))
        rows.append({"item": hit.item, "relevance": hit.relevance, "parts": bar})
    return rows, None


class _MemoryQuery(ScopeForm):
    done: Filled[Literal["edited", "unchanged", "deleted", "restored"]] = None
    before: Filled[int] = None
    similar: bool = False


class _EditForm(ScopeForm):
    text: str = ""
    metadata: str = ""
    expires: str = ""
    revision: int

    @classmethod
    def of(cls, item: MemoryItem) -> "_EditForm":
        """The form before an edit."""
        return cls(
            text=item.text,
            metadata=json.dumps(dict(item.metadata), ensure_ascii=False, indent=2) if item.metadata else "",
            expires="" if item.expires_at is None else item.expires_at.strftime(_MINUTE),
            revision=item.revision,
        )


class _RestoreForm(ScopeForm):
    revision: int


@router.get("/memories/{memory_id}")
async def show_memory(view: Reading, memory_id: str, query: Annotated[_MemoryQuery, Query()]) -> Response:
    return await _show(view, memory_id, query)


@router.post("/memories/{memory_id}")
async def edit(view: Writing, memory_id: str, form: Annotated[_EditForm, Form()]) -> Response:
    scope = view.effective_scope(form)
    item = await view.memory.aget(memory_id, **scope)
    try:
        if changes := _changes(item, form):
            await view.memory.aupdate(memory_id, **changes, **scope)
    except InvalidInputError as error:
        return await _show(view, memory_id, _MemoryQuery(**scope), edit=form, wrong=str(error))
    return view.go(f"/memories/{memory_id}", scope, done="edited" if changes else "unchanged")


@router.post("/memories/{memory_id}/delete")
async def delete(view: Writing, memory_id: str, form: Annotated[ScopeForm, Form()]) -> Response:
    scope = view.effective_scope(form)
    await view.memory.adelete(memory_id, **scope)
    return view.go(f"/memories/{memory_id}", scope, done="deleted")


@router.post("/memories/{memory_id}/restore")
async def restore(view: Writing, memory_id: str, form: Annotated[_RestoreForm, Form()]) -> Response:
    scope = view.effective_scope(form)
    await view.memory.arestore(memory_id, form.revision, **scope)
    return view.go(f"/memories/{memory_id}", scope, done="restored")


async def _show(
    view: View, memory_id: str, query: _MemoryQuery, *, edit: _EditForm | None = None, wrong: str = ""
) -> Response:
    fields = view.effective_scope(query)
    scope = Scope(**fields) if fields else None
    values = await run_in_executor(view.memory.parts.reading, _memory_values, memory_id, scope, before=query.before)
    item: MemoryItem = values["item"]
    similar = None
    if query.similar:
        own: dict[str, Any] = dict(item.scope.named)
        hits = await view.memory.asearch(item.text, **own, k=_SIMILAR + 1, threshold=RELEVANT)
        similar = [hit.item for hit in hits if hit.id != item.id][:_SIMILAR]
    metadata = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in item.metadata.items()
    }
    return view.show(
        "memory",
        fields or item.scope.named,
        status=422 if wrong else 200,
        memory=values,
        metadata=metadata,
        done=query.done,
        similar=similar,
        edit=edit or _EditForm.of(item),
        wrong=wrong,
    )


def _changes(item: MemoryItem, form: _EditForm) -> dict[str, Any]:
    """The fields that a form changes; `ConflictError` where the memory is no longer what the form shows."""
    if form.revision != item.revision:
        raise ConflictError("this memory has changed meanwhile: load the page again and edit it again")
    before = _EditForm.of(item)
    changes: dict[str, Any] = {}
    if _lines(form.text) != _lines(before.text):
        changes["text"] = _lines(form.text)
    if _lines(form.metadata) != before.metadata and (patch := _metadata_patch(item.metadata, form.metadata)):
        changes["metadata"] = patch
    if form.expires != before.expires:
        changes["expires_at"] = parse_time(form.expires, "expires") if form.expires else None
    return changes


def _lines(text: str) -> str:
    """A text as it was before a form sent it, which ends lines in its own way."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _metadata_patch(before: Mapping[str, Any], text: str) -> dict[str, Any]:
    """The keys to merge into the metadata, `None` for those to remove."""
    try:
        after = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"the metadata is no JSON: {error}") from None
    if not isinstance(after, dict):
        raise InvalidInputError('the metadata is no JSON object; write it like {"source": "letter"}')
    old = {name: json.dumps(value) for name, value in before.items()}
    removed = dict.fromkeys(name for name in before if name not in after)
    return {**removed, **{name: value for name, value in after.items() if old.get(name) != json.dumps(value)}}


def _memory_values(
    connection: Connection, memory_id: str, scope: Scope | None, *, before: int | None = None
) -> dict[str, Any]:
    """The values of the template: a memory, also a deleted one, with its revisions before a number."""
    revisions = memories.revisions(connection, memory_id, scope)
    try:
        item, is_current = memories.get(connection, memory_id, scope), True
    except MemoryNotFoundError:
        row, _, _ = memories.past(connection, memory_id, revisions[-1].revision, scope)
        item, is_current = memories.item_of(row, revisions[-1].stated_at), False
    page = [each for each in revisions if before is None or each.revision < before][-_REVISIONS:]
    trace_ids = traces.of_changes(connection, memory_id, {each.created_at for each in page}, scope)
    versions: list[dict[str, Any]] = [
        {
            "revision": each,
            "parts": differences(each.old_text, each.new_text or "") if each.old_text else (),
            "trace_id": trace_ids.get(each.created_at),
            "can_return": each.new_text is not None and not (is_current and each is revisions[-1]),
        }
        for each in reversed(page)
    ]
    relation_pks = reads.of_memories(connection, [memory_id], reads.NOW).get(memory_id, ())
    return {
        "item": item,  # its current or last version
        "is_current": is_current,
        "is_deleted": revisions[-1].is_deleted,  # one that is neither current nor deleted was over when it was added
        "is_expired": is_current and item.expires_at is not None and item.expires_at <= datetime.now(UTC),
        "returns_to": next((each["revision"].revision for each in versions if each["can_return"]), None),
        "versions": versions,  # the newest first
        "older": page[0].revision if page and page[0] is not revisions[0] else None,
        "source": _source(connection, versions, scope),
        "relations": list(reads.by_pks(connection, relation_pks).values()),
    }


def _source(
    connection: Connection, versions: Sequence[Mapping[str, Any]], scope: Scope | None
) -> dict[str, Any] | None:
    """The messages that the newest version with a source comes from; without a trace the stored words, nearest first."""
    texts: list[tuple[Revision, str | None]] = [
        (each["revision"], each["trace_id"]) for each in versions if each["revision"].new_text is not None
    ]
    for revision, trace_id in texts:
        if trace_id is not None:
            trace = traces.read(connection, trace_id, scope)
            return {"version": revision.revision, "trace_id": trace.id, **_source_turns(trace, revision)}
    if not texts:
        return None
    revision = texts[0][0]
    row, _, _ = memories.past(connection, revision.memory_id, revision.revision, scope)
    words = split_context(row.context)
    return {"version": revision.revision, "trace_id": None, "turns": (), "words": words} if words else None


def _source_turns(trace: traces.Trace, revision: Revision) -> dict[str, Any]:
    """The turn with the fact that became this memory, and those right before it."""
    pairs = zip(trace.decisions, trace.result.results, strict=False)
    facts = [each.fact for each, change in pairs if change.id == revision.memory_id and each.fact is not None]
    if not facts:  # a run of the same name that was repeated did something else
        return {"turns": (), "words": ()}
    turn = trace.turns[trace.facts[facts[-1]].turn]
    conversation = [each for each in trace.turns if each.item == turn.item]
    number = conversation.index(turn)
    turns = conversation[max(0, number - _TURNS_BEFORE) : number + 1]
    return {"turns": turns, "words": (), "number": number + 1, "many": len(conversation)}


class _ExportQuery(ScopeForm):
    format: Literal["jsonl", "csv"] = "jsonl"


@router.get("/export")
async def export(view: Reading, query: Annotated[_ExportQuery, Query()]) -> Streamed:
    fields = view.effective_scope(query)
    how: dict[str, Any] = {**fields, "include_expired": True, "k": PAGE_SIZE}
    check = partial(view.service.visit, view.request)
    first = await view.memory.aget_all(**how)
    headers = {"content-disposition": f"attachment; {file_name(Scope(**fields), query.format)}"}
    if query.format == "jsonl":
        return Streamed(exported(view.memory, first, how, check), media_type=LINES, headers=headers)
    rows = exported(view.memory, first, how, check, lambda item: memory_line(item).encode())
    return Streamed(_with_head(rows), media_type="text/csv; charset=utf-8; header=present", headers=headers)


def file_name(scope: Scope, ending: str) -> str:
    """The parameters of `Content-Disposition` (RFC 6266) with the scope in the file's name."""
    values = "-".join(scope.named.values())
    plain = "".join(each if each.isalnum() or each in "._-@" else "_" for each in values)[:_LONGEST]
    whole = f"memories-{plain}.{ending}"
    short = whole if whole.isascii() else f"memories.{ending}"
    return f"filename=\"{short}\"; filename*=UTF-8''{quote(whole)}"


async def _with_head(rows: Any) -> Any:
    yield _BOM + MEMORY_COLUMNS.encode()
    async for part in rows:
        yield part
