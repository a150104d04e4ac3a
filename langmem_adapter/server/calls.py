"""A call as a route sees it: what is served, who calls, that they have the right to, and that nothing is said twice."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from fastapi import Depends, Request, Security
from fastapi.exceptions import RequestValidationError
from fastapi.security import APIKeyHeader, HTTPBearer
from pydantic import BaseModel

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.pipeline.messages import address, is_image
from langmem_adapter.server.auth import Principal, principal_of
from langmem_adapter.server.jobs import Workers

if TYPE_CHECKING:
    from langmem_adapter.server.auth import Auth

# For the documentation: how a key is shown. `authenticate` reads it.
_KEY: Final = Security(APIKeyHeader(name="X-API-Key", auto_error=False))
_BEARER: Final = Security(HTTPBearer(auto_error=False))


@dataclass(frozen=True, slots=True)
class Service:
    """What the routes of one app, Mem0's and ours, share; *fetch_images*: whether images may be named by addresses."""

    memory: Memory
    authenticate: "Auth"
    fetch_images: bool
    workers: Workers


def service_of(request: Request) -> Service:
    """What the app that answers a request serves."""
    service: Service = request.app.state.service
    return service


@dataclass(frozen=True, slots=True)
class RequestCall:
    """Who calls, and what is served."""

    service: Service
    principal: Principal

    @property
    def memory(self) -> Memory:
        """What is served."""
        return self.service.memory

    def check_images(self, messages: Any) -> None:
        """Refuse messages with an image that would have to be fetched: that request would go where the caller chooses."""
        for part in () if self.service.fetch_images else _objects(messages):
            named = address(part) if is_image(part) else None
            if named is not None and not named.lower().startswith("data:"):
                raise InvalidInputError("images are not fetched from addresses here; send them as data: URLs")

    def whose(self, asked: BaseModel | Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
        """The scope that a request names, within what its caller reaches: see `Principal.narrowed`."""
        return self.principal.narrowed(dict(asked))

    def arguments(self, asked: BaseModel) -> dict[str, Any]:
        """All that a request names, for the method of `Memory` that takes the same."""
        return {**asked.model_dump(), **self.whose(asked)}


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    """Every object in a JSON value; a body with too many levels to walk is no JSON that the parser lets through."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Mapping):
            yield each
        waiting += each.values() if isinstance(each, Mapping) else each if isinstance(each, list | tuple) else ()


async def once(request: Request) -> None:
    """Refuse a name that a query string gives twice: one would be overlooked, and it may say whose memories are meant."""
    given = Counter(name for name, _ in request.query_params.multi_items())
    repeated = [name for name, times in given.items() if times > 1]
    if repeated:
        told = {"msg": "Give it once", "type": "repeated"}
        raise RequestValidationError([{"loc": ("query", name), **told} for name in repeated])


def _calling(right: str | None) -> Callable[..., Any]:
    async def calling(request: Request, _key: str | None = _KEY, _bearer: object = _BEARER) -> RequestCall:
        service = service_of(request)
        principal = await principal_of(request, service.authenticate)
        if right is not None:
            principal.need(right)
        return RequestCall(service, principal)

    return calling


Anyone: TypeAlias = Annotated[RequestCall, Depends(_calling(None))]
"""A call of whoever is let in; which right it takes depends on what is asked."""
Reads: TypeAlias = Annotated[RequestCall, Depends(_calling("read"))]
"""A call that takes the right to read; the next two, to write, and to what concerns everybody."""
Writes: TypeAlias = Annotated[RequestCall, Depends(_calling("write"))]
Admin: TypeAlias = Annotated[RequestCall, Depends(_calling("admin"))]
