"""One memory: what it says, its life, where it came from; edited, deleted, brought back."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Form, Query, Response, status

from langmem_adapter.arguments import parse_time
from langmem_adapter.errors import ConflictError, InvalidInputError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.results import MemoryItem
from langmem_adapter.records.scope import Scope
from langmem_adapter.server.page.layout import PREFIX
from langmem_adapter.server.page.provenance import life
from langmem_adapter.server.page.view import AddressScope, Filled, Reading, View, Writing
from langmem_adapter.twins import beside

__all__ = ["router"]

_SIMILAR: Final = 5
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


router = APIRouter(prefix=f"{PREFIX}/memories/{{memory_id}}")


async def _shown(view: View, memory_id: str, asked: _Asked, *, edit: _Edit | None = None, wrong: str = "") -> Response:
    fields = view.whose(asked)
    scope = Scope(**fields) if fields else None
    found = await beside(view.memory.engine.reading, life, memory_id, scope, before=asked.before)
    return view.show(
        "memory",
        fields or found.item.scope.named,
        status=status.HTTP_422_UNPROCESSABLE_CONTENT if wrong else status.HTTP_200_OK,
        life=found,
        metadata={name: _written(value) for name, value in found.item.metadata.items()},
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


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


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
