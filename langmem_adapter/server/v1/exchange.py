"""Export and import: streams of lines, so that neither side holds all of the memories."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from operator import itemgetter
from tempfile import TemporaryFile
from typing import Annotated, Any, Final
from uuid import UUID, uuid5

from fastapi import APIRouter, Header, HTTPException, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import AliasChoices, Field, ValidationError
from starlette.requests import ClientDisconnect

from langmem_adapter.errors import InvalidInputError, LangmemAdapterError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.results import MemoryItem, Page
from langmem_adapter.records.scope import Scope, as_data
from langmem_adapter.server.calls import Reads, RequestCall, Writes
from langmem_adapter.server.problems import OURS, Streamed, answer_of
from langmem_adapter.server.v1 import answers, requests
from langmem_adapter.server.v1.requests import Moment, ScopeFields
from langmem_adapter.storage.lossless.imports import ImportReport, read_header
from langmem_adapter.twins import run_in_executor

LINES: Final = "application/x-ndjson"
"""The media type of JSON lines."""
PAGE_SIZE: Final = 500
"""How many memories an export reads at a time."""
_BATCH: Final = 100
_FEW_ROWS: Final = 2**20  # the first line may count as many, and one more for each byte of the body
_KEYS: Final = UUID("0b1c6a55-52f4-4f0e-9a57-7c2f8f3d1b6e")  # of lines: no key of an add is one of them
_MOST_ERRORS: Final = 1_000
_EXPORT: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "A memory a line, as JSON.", "content": {LINES: {"schema": {"type": "string"}}}}
}
_IMPORT: Final = {"requestBody": {"required": True, "content": {LINES: {"schema": {"type": "string"}}}}}


class Line(ScopeFields):
    """A line of an import: a memory as an export wrote it, or a text with its scope."""

    text: str
    metadata: dict[str, Any] | None = None
    role: str | None = None
    actor_id: str | None = None
    created_at: str | float | None = Field(None, validation_alias=AliasChoices("created_at", "create_time"))
    timezone: str | None = Field(None, description="IANA name of the zone of times without an offset.")
    expires_at: Moment | None = None
    memory_type: None = Field(None, description="Records of an agent or a conversation cannot be imported.")
    # What an export says beside this is made anew.
    id: str | None = None
    updated_at: Moment | None = None
    revision: int | None = None
    hash: str | None = None
    is_verbatim: bool | None = None

    def item(self) -> dict[str, Any]:
        """The arguments of its add, without the scope."""
        message = {"role": self.role or "user", "content": self.text}
        if self.actor_id not in {None, message["role"]}:
            message["name"] = str(self.actor_id)
        fields = {"metadata": self.metadata, "timestamp": self.created_at, "expires_at": self.expires_at}
        return {"messages": [message], "infer": False, "timezone": self.timezone, **fields}


router = APIRouter(prefix=OURS, tags=["exchange"])


@router.get("/export", summary="Export memories", response_class=StreamingResponse, responses=_EXPORT)
async def export(call: Reads, request: Request, query: Annotated[requests.Export, Query()]) -> StreamingResponse:
    """Every memory of a scope, the newest statement first, as JSON lines; with `format=full` all that the scope has."""
    check = partial(call.service.authenticate, request)
    if query.format == "full":
        lines = await call.memory.aexport(everything=query.everything, vectors=query.vectors, **_scope_of(call, query))
        return Streamed(_parts(lines, check), media_type=LINES)
    how: dict[str, Any] = {"include_expired": query.include_expired, "k": PAGE_SIZE, **call.effective_scope(query)}
    first = await call.memory.aget_all(**how)
    return Streamed(exported(call.memory, first, how, check), media_type=LINES)


@router.post(
    "/import",
    summary="Import memories",
    response_model=answers.ImportResponse | answers.FullImportResponse,
    openapi_extra=_IMPORT,
)
async def take_in(
    call: Writes,
    request: Request,
    query: Annotated[requests.Import, Query()],
    idempotency_key: Annotated[str | None, Header()] = None,
) -> Any:
    """Add a memory for each JSON line, word for word, at its own date; a line that cannot be used is reported and left out.

    With `format=full` the lines are those of an export with `format=full`, and everything is made as it was: ids, history,
    relations, conversations. Sent again, everything is known; what was cut off goes on where it stopped.

    The header `Idempotency-Key` names the import: repeated, it adds nothing twice. An import that fails answers with
    `resume_line`: send the file from that line on, with `first_line` set to it, and the same key.
    """
    if query.format == "full":
        return await _take_in_full(call, query, request, idempotency_key or "")
    import_ = _Import(call, idempotency_key, request, query.first_line)
    request.state.progress = lambda: {**import_.report(), "resume_line": import_.resume_line}
    try:
        async for line in _lines(request.stream()):
            await import_.take(line)
    except (HTTPException, ClientDisconnect):  # the body is too long, too slow or cut off: what arrived is kept
        await import_.write()
        raise
    await import_.write()
    return import_.report()


def _scope_of(call: RequestCall, query: requests.Export | requests.Import) -> dict[str, Any]:
    """The scope that is exchanged without loss: none for everything, which only an admin of everything may have."""
    if query.everything:
        call.principal.need_everything()
        return {}
    return Scope(**call.effective_scope(query)).named


async def _parts(lines: AsyncIterator[bytes], check: Callable[[], Awaitable[object]]) -> AsyncIterator[bytes]:
    part: list[bytes] = []
    async for line in lines:
        part.append(line)
        if len(part) == PAGE_SIZE:
            await check()
            yield b"".join(part)
            part = []
    yield b"".join(part)


async def _take_in_full(call: RequestCall, query: requests.Import, request: Request, name: str) -> ImportReport:
    fields = _scope_of(call, query)
    with TemporaryFile() as body:
        async for piece in request.stream():
            await run_in_executor(body.write, piece)
        await call.service.authenticate(request)
        size = body.tell()
        body.seek(0)
        read_header(await run_in_executor(body.readline), _FEW_ROWS + size)
        body.seek(0)
        return await call.memory.aimport_(body, dry_run=query.dry_run, name=name, **fields)


class _Import:
    """An import under way: lines become adds, some at a time; with a *key* repeating it adds nothing twice."""

    def __init__(self, call: RequestCall, key: str | None, request: Request, first_line: int) -> None:
        self._call = call
        self._key = key
        self._request = request
        self._number = first_line - 1
        self._batch: dict[int, dict[str, Any]] = {}
        self._imported = self._refused = 0
        self._errors: list[dict[str, Any]] = []
        self.resume_line = first_line

    def report(self) -> dict[str, Any]:
        """What became of the lines."""
        errors = sorted(self._errors, key=itemgetter("line"))
        return {"imported": self._imported, "refused": self._refused, "errors": errors}

    async def take(self, line: bytes) -> None:
        """Read a line; a blank one is none."""
        self._number += 1
        if line.strip():
            try:
                self._batch[self._number] = self._item(line)
            except LangmemAdapterError as error:
                self._refuse(self._number, error)
        if len(self._batch) == _BATCH:
            await self.write()

    async def write(self) -> None:
        """Add what was read since the last time; `NobodyError` where the key was revoked meanwhile."""
        await self._call.service.authenticate(self._request)
        batch, self._batch = self._batch, {}
        for number, end in zip(batch, await self._call.memory.aadd_many(list(batch.values())), strict=True):
            if isinstance(end, Exception):
                self._refuse(number, end)
            elif not end:
                self._refuse(number, InvalidInputError("; ".join(end.notes) or "there is nothing to keep in it"))
            else:
                self._imported += 1
        self.resume_line = self._number + 1

    def _item(self, line: bytes) -> dict[str, Any]:
        try:
            read = Line.model_validate_json(line)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "the line"
            raise InvalidInputError(f"{where}: {first['msg']}") from None
        key = None if self._key is None else str(uuid5(_KEYS, f"{self._key}:{self._number}"))
        return {**read.item(), **self._call.effective_scope(read), "idempotency_key": key}

    def _refuse(self, number: int, error: Exception) -> None:
        self._refused += 1
        if len(self._errors) < _MOST_ERRORS:
            self._errors.append({"line": number, **answer_of(error, self._request.state.request_id)})


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = bytearray()
    async for piece in pieces:
        rest += piece
        if b"\n" in piece:
            *lines, rest = rest.split(b"\n")
            for line in lines:
                yield bytes(line)
    if rest:
        yield bytes(rest)


def as_line(item: MemoryItem) -> bytes:
    """A memory as a line of an export."""
    return json.dumps(as_data(item), ensure_ascii=False).encode() + b"\n"


async def exported(
    memory: Memory,
    page: Page,
    how: Mapping[str, Any],
    check: Callable[[], Awaitable[object]],
    line: Callable[[MemoryItem], bytes] = as_line,
) -> AsyncIterator[bytes]:
    """A page of `get_all(**how)` and those that follow it, as lines; *check* authenticates again before each."""
    while True:
        yield b"".join(map(line, page))
        if page.next is None:
            return
        await check()
        page = await memory.aget_all(**how, after=page.next)
