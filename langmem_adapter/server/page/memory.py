"""One memory: what it says, how it came to that, who said so; edited, deleted, brought back."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Form, Query, Response, status
from sqlalchemy import Connection

from langmem_adapter.arguments import parse_time
from langmem_adapter.errors import ConflictError, InvalidInputError, MemoryNotFoundError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.escapes import DiffPart, differences
from langmem_adapter.records.graph import Relation
from langmem_adapter.records.results import MemoryItem, Revision, Turn
from langmem_adapter.records.scope import Scope
from langmem_adapter.server.page.layout import PREFIX
from langmem_adapter.server.page.view import AddressScope, Filled, Reading, View, Writing
from langmem_adapter.storage import memories, traces
from langmem_adapter.storage.graph import reads
from langmem_adapter.storage.lexical import split_context
from langmem_adapter.storage.memories import item_of
from langmem_adapter.storage.traces import Trace
from langmem_adapter.twins import beside

_SIMILAR: Final = 5
_STEPS: Final = 50
_TURNS_BEFORE: Final = 2
_MINUTE: Final = "%Y-%m-%dT%H:%M"

Done = Literal["edited", "unchanged", "deleted", "restored"]


class _Asked(AddressScope):
    done: Filled[Done] = None
    before: Filled[int] = None
    similar: bool = False


class _Edit(AddressScope):
    text: str = ""
    metadata: str = ""
    expires: str = ""
    revision: int

    @classmethod
    def of(cls, item: MemoryItem) -> "_Edit":
        """The form as it is before anybody edits."""
        return cls(
            text=item.text,
            metadata=json.dumps(dict(item.metadata), ensure_ascii=False, indent=2) if item.metadata else "",
            expires="" if item.expires_at is None else item.expires_at.strftime(_MINUTE),
            revision=item.revision,
        )


class _Restore(AddressScope):
    revision: int


@dataclass(frozen=True, slots=True)
class _Version:
    """A step of a memory's life: what it changed of the text, the trace of its add, whether the memory can return to it."""

    revision: Revision
    parts: Sequence[DiffPart]
    trace_id: str | None
    can_return: bool


@dataclass(frozen=True, slots=True)
class _Source:
    """Where what a revision of a memory says was said."""

    version: int
    trace_id: str | None = None
    turns: Sequence[Turn] = ()  # what was said, the last of them being the one that says it; none without a trace
    number: int = 0  # which turn of the conversation that is, from 1, of so *many*
    many: int = 0
    words: Sequence[str] = ()  # without a trace: the words that were kept beside the memory, nearest first


@dataclass(frozen=True, slots=True)
class _Life:
    """What is known of one memory."""

    item: MemoryItem  # its current or last version
    stands: bool
    deleted: bool  # whether it was deleted; a memory that is neither current nor deleted was over when it was added
    versions: Sequence[_Version]  # its steps, the newest first
    older: int | None  # the number before which there are more of them; `None` where these are all
    source: _Source | None
    relations: Sequence[Relation]

    @property
    def expired(self) -> bool:
        """Whether it stands, but is past its time."""
        return self.stands and self.item.expires_at is not None and self.item.expires_at <= datetime.now(UTC)

    @property
    def returns_to(self) -> int | None:
        """The revision that a memory which does not stand comes back to; `None` where it is not among those shown."""
        return next((each.revision.revision for each in self.versions if each.can_return), None)


router = APIRouter(prefix=f"{PREFIX}/memories/{{memory_id}}")


async def _shown(view: View, memory_id: str, asked: _Asked, *, edit: _Edit | None = None, wrong: str = "") -> Response:
    fields = view.whose(asked)
    scope = Scope(**fields) if fields else None
    found = await beside(view.memory.parts.reading, _life, memory_id, scope, before=asked.before)
    return view.show(
        "memory",
        fields or found.item.scope.named,
        status=status.HTTP_422_UNPROCESSABLE_CONTENT if wrong else status.HTTP_200_OK,
        life=found,
        metadata={
            name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for name, value in found.item.metadata.items()
        },
        done=asked.done,
        similar=await _similar(view.memory, found.item) if asked.similar else None,
        edit=edit or _Edit.of(found.item),
        wrong=wrong,
    )


@router.get("")
async def one(view: Reading, memory_id: str, asked: Annotated[_Asked, Query()]) -> Response:
    return await _shown(view, memory_id, asked)


@router.post("")
async def edit(view: Writing, memory_id: str, form: Annotated[_Edit, Form()]) -> Response:
    fields = view.whose(form)
    item = await view.memory.aget(memory_id, **fields)
    try:
        if changed := _changed(item, form):
            await view.memory.aupdate(memory_id, **changed, **fields)
    except InvalidInputError as error:
        return await _shown(view, memory_id, _Asked(**fields), edit=form, wrong=str(error))
    return view.go(f"/memories/{memory_id}", fields, done="edited" if changed else "unchanged")


@router.post("/delete")
async def delete(view: Writing, memory_id: str, form: Annotated[AddressScope, Form()]) -> Response:
    fields = view.whose(form)
    await view.memory.adelete(memory_id, **fields)
    return view.go(f"/memories/{memory_id}", fields, done="deleted")


@router.post("/restore")
async def restore(view: Writing, memory_id: str, form: Annotated[_Restore, Form()]) -> Response:
    fields = view.whose(form)
    await view.memory.arestore(memory_id, form.revision, **fields)
    return view.go(f"/memories/{memory_id}", fields, done="restored")


async def _similar(memory: Memory, item: MemoryItem) -> list[MemoryItem]:
    scope: dict[str, Any] = dict(item.scope.named)
    hits = await memory.asearch(item.text, **scope, k=_SIMILAR + 1)
    return [hit.item for hit in hits if hit.id != item.id][:_SIMILAR]


def _changed(item: MemoryItem, form: _Edit) -> dict[str, Any]:
    """What a form asks to change of a memory, if it still is what the form was made of."""
    if form.revision != item.revision:
        raise ConflictError("somebody else changed this memory meanwhile; load the page anew and edit what it says now")
    before = _Edit.of(item)
    changed: dict[str, Any] = {}
    if _lines(form.text) != _lines(before.text):
        changed["text"] = _lines(form.text)
    if _lines(form.metadata) != before.metadata and (metadata := _patch(item.metadata, _object(form.metadata))):
        changed["metadata"] = metadata
    if form.expires != before.expires:
        changed["expires_at"] = parse_time(form.expires, "expires") if form.expires else None
    return changed


def _lines(text: str) -> str:
    """A text as it was before a form sent it, which ends lines in its own way."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"the metadata is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise InvalidInputError('the metadata is no JSON object; write it like {"source": "letter"}')
    return found


def _patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The keys to merge into the metadata, `None` for those to remove."""
    told = {name: json.dumps(value) for name, value in before.items()}
    gone = dict.fromkeys(name for name in before if name not in after)
    return {**gone, **{name: value for name, value in after.items() if told.get(name) != json.dumps(value)}}


def _life(connection: Connection, memory_id: str, scope: Scope | None, *, before: int | None = None) -> _Life:
    """What is known of a memory, also of a deleted one, with its steps before a revision."""
    steps = memories.revisions(connection, memory_id, scope)
    item = _standing(connection, memory_id, scope)
    shown = [step for step in steps if before is None or step.revision < before][-_STEPS:]
    by_moment = traces.of_changes(connection, memory_id, {step.created_at for step in shown}, scope)
    versions = [_version(step, by_moment, stands=item is not None and step is steps[-1]) for step in reversed(shown)]
    said = reads.of_memories(connection, [memory_id], reads.NOW).get(memory_id, ())
    return _Life(
        item=item or _last(connection, steps[-1], scope),
        stands=item is not None,
        deleted=steps[-1].is_deleted,
        versions=versions,
        older=shown[0].revision if shown and shown[0] is not steps[0] else None,
        source=_source(connection, versions, scope),
        relations=list(reads.by_pks(connection, said).values()),
    )


def _standing(connection: Connection, memory_id: str, scope: Scope | None) -> MemoryItem | None:
    try:
        return memories.get(connection, memory_id, scope)
    except MemoryNotFoundError:
        return None


def _last(connection: Connection, step: Revision, scope: Scope | None) -> MemoryItem:
    """A memory as it was in the end."""
    row, _, _ = memories.past(connection, step.memory_id, step.revision, scope)
    return item_of(row, step.stated_at)


def _version(step: Revision, by_moment: Mapping[datetime, str], *, stands: bool) -> _Version:
    return _Version(
        revision=step,
        parts=differences(step.old_text or "", step.new_text or "") if step.old_text else (),
        trace_id=by_moment.get(step.created_at),
        can_return=step.new_text is not None and not stands,
    )


def _source(connection: Connection, versions: Sequence[_Version], scope: Scope | None) -> _Source | None:
    """Where the newest of the steps shown that has a source has it."""
    telling = [each for each in versions if each.revision.new_text is not None]
    traced = next((each for each in telling if each.trace_id is not None), None)
    if traced is not None and traced.trace_id is not None:
        trace = traces.read(connection, traced.trace_id, scope)
        return _said(trace, traced.revision)
    if not telling:
        return None
    step = telling[0].revision
    row, _, _ = memories.past(connection, step.memory_id, step.revision, scope)
    words = split_context(row.context)
    return _Source(step.revision, words=words) if words else None


def _said(trace: Trace, step: Revision) -> _Source:
    """The turn whose fact became this memory, and those right before it."""
    done = zip(trace.decisions, trace.result.results, strict=False)
    facts = [each.fact for each, change in done if change.id == step.memory_id and each.fact is not None]
    if not facts:  # a run of the same name that was repeated did something else
        return _Source(step.revision, trace.id)
    place = trace.facts[facts[-1]].turn
    own = [turn for turn in trace.turns if turn.item == trace.turns[place].item]
    number = own.index(trace.turns[place])
    told = own[max(0, number - _TURNS_BEFORE) : number + 1]
    return _Source(step.revision, trace.id, told, number + 1, len(own))
