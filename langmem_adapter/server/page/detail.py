"""One memory: what it says, its life, where it came from; edited, deleted, brought back."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Form, Query, Request, Response, status
from pydantic import BaseModel

from langmem_adapter.arguments import parse_time
from langmem_adapter.errors import ConflictError, InvalidInputError
from langmem_adapter.memory import Memory
from langmem_adapter.records.results import MemoryItem
from langmem_adapter.records.scope import Scope
from langmem_adapter.server.auth import Principal
from langmem_adapter.server.page.asking import Filled, Whose
from langmem_adapter.server.page.life import life
from langmem_adapter.server.page.session import check_form
from langmem_adapter.server.page.shell import PREFIX, Shell
from langmem_adapter.twins import beside

__all__ = ["router"]

_SIMILAR: Final = 5
_MINUTE: Final = "%Y-%m-%dT%H:%M"

Done = Literal["edited", "unchanged", "deleted", "restored"]


class _Asked(Whose):
    done: Filled[Done] = None
    before: Filled[int] = None
    similar: bool = False


class _Edit(BaseModel):
    text: str = ""
    metadata: str = ""
    expires: str = ""
    revision: int
    user_id: Filled[str] = None
    agent_id: Filled[str] = None
    run_id: Filled[str] = None

    @classmethod
    def of(cls, item: MemoryItem) -> "_Edit":
        """The form as it is before anybody edits."""
        return cls(
            text=item.text,
            metadata=json.dumps(dict(item.metadata), ensure_ascii=False, indent=2) if item.metadata else "",
            expires="" if item.expires_at is None else item.expires_at.strftime(_MINUTE),
            revision=item.revision,
        )


class _Restore(Whose):
    revision: int


def router(memory: Memory, caller: Any, shell: Shell) -> APIRouter:
    """The view, and what its forms do.

    Args:
        memory: What is shown.
        caller: The default of a parameter that gets the `Principal`.
        shell: Makes the answers.
    """
    routes = APIRouter(prefix=f"{PREFIX}/memories/{{memory_id}}")
    ours = [Depends(check_form)]

    async def show(
        request: Request, memory_id: str, asked: _Asked, who: Principal, *, edit: _Edit | None = None, wrong: str = ""
    ) -> Response:
        fields = who.narrowed(asked.model_dump())
        found = await beside(
            memory.engine.reading, life, memory_id, Scope(**fields) if fields else None, before=asked.before
        )
        return shell.show(
            request,
            "memory",
            who,
            fields or found.item.scope.named,
            status=status.HTTP_422_UNPROCESSABLE_CONTENT if wrong else status.HTTP_200_OK,
            life=found,
            metadata={name: _shown(value) for name, value in found.item.metadata.items()},
            done=asked.done,
            similar=await _similar(memory, found.item) if asked.similar else None,
            edit=edit or _Edit.of(found.item),
            wrong=wrong,
        )

    @routes.get("")
    async def one(
        request: Request, memory_id: str, asked: Annotated[_Asked, Query()], who: Principal = caller
    ) -> Response:
        who.need("read")
        return await show(request, memory_id, asked, who)

    @routes.post("", dependencies=ours)
    async def edit(
        request: Request, memory_id: str, form: Annotated[_Edit, Form()], who: Principal = caller
    ) -> Response:
        who.need("write")
        fields = who.narrowed(form.model_dump())
        item = await memory.aget(memory_id, **fields)
        try:
            if changed := _changed(item, form):
                await memory.aupdate(memory_id, **changed, **fields)
        except InvalidInputError as error:
            return await show(request, memory_id, _Asked(**fields), who, edit=form, wrong=str(error))
        return shell.go(request, f"/memories/{memory_id}", fields, done="edited" if changed else "unchanged")

    @routes.post("/delete", dependencies=ours)
    async def delete(
        request: Request, memory_id: str, form: Annotated[Whose, Form()], who: Principal = caller
    ) -> Response:
        who.need("write")
        fields = who.narrowed(form.model_dump())
        await memory.adelete(memory_id, **fields)
        return shell.go(request, f"/memories/{memory_id}", fields, done="deleted")

    @routes.post("/restore", dependencies=ours)
    async def restore(
        request: Request, memory_id: str, form: Annotated[_Restore, Form()], who: Principal = caller
    ) -> Response:
        who.need("write")
        fields = who.narrowed(form.model_dump())
        await memory.arestore(memory_id, form.revision, **fields)
        return shell.go(request, f"/memories/{memory_id}", fields, done="restored")

    return routes


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


async def _similar(memory: Memory, item: MemoryItem) -> list[MemoryItem]:
    scope: dict[str, Any] = dict(item.scope.named)
    hits = await memory.asearch(item.text, **scope, k=_SIMILAR + 1)
    return [hit.item for hit in hits if hit.id != item.id][:_SIMILAR]


def _changed(item: MemoryItem, form: _Edit) -> dict[str, Any]:
    """What a form asks to change of a memory.

    Raises:
        ConflictError: The memory is not any more what the form was made of.
        InvalidInputError: A field cannot be read.
    """
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
