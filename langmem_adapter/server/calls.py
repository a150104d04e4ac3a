"""The request of a route: the memory, the caller, its right and scope; each query parameter only once."""

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
from langmem_adapter.pipeline.parse import address, is_image
from langmem_adapter.server.auth import Principal, principal_of
from langmem_adapter.server.jobs import Rebuilding, Workers

if TYPE_CHECKING:
    from langmem_adapter.server.auth import Auth

# For the documentation: how a key is shown. `authenticate` reads it.
_KEY: Final = Security(APIKeyHeader(name="X-API-Key", auto_error=False))
_BEARER: Final = Security(HTTPBearer(auto_error=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What all routes of an app share."""

    memory: Memory
    authenticate: "Auth"
    visit: "Auth"  # the same on the web page
    needs_login: bool
    fetch_images: bool  # whether images may be named by addresses
    workers: Workers
    rebuilding: Rebuilding


def service_of(request: Request) -> Service:
    """What the app that answers a request serves."""
    service: Service = request.app.state.service
    return service


@dataclass(frozen=True, slots=True)
class RequestCall:
    """The caller, and the memory that is served."""

    service: Service
    principal: Principal

    @property
    def memory(self) -> Memory:
        """What is served."""
        return self.service.memory

    def check_images(self, messages: Any) -> None:
        """Refuse messages with an image that would have to be fetched: that request would go where the caller chooses."""
        for part in () if self.service.fetch_images else _objects(messages):
            link = address(part) if is_image(part) else None
            if link is not None and not link.lower().startswith("data:"):
                raise InvalidInputError("images are not fetched from addresses here; send them as data: URLs")

    def effective_scope(self, request: BaseModel | Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
        """The scope that a request names, within the caller's: see `Principal.narrowed`."""
        return self.principal.narrowed(dict(request))

    def arguments(self, request: BaseModel, *, exclude_unset: bool = False) -> dict[str, Any]:
        """All fields of a request, for the method of `Memory` that takes the same."""
        return {**request.model_dump(exclude_unset=exclude_unset), **self.effective_scope(request)}


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    """Every object in a JSON value; a body with too many levels to walk is no JSON that the parser lets through."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Mapping):
            yield each
        waiting += each.values() if isinstance(each, Mapping) else each if isinstance(each, list | tuple) else ()


async def once(request: Request) -> None:
    """Refuse a name that a query string gives twice: one would be overlooked, and it may be a field of the scope."""
    counts = Counter(name for name, _ in request.query_params.multi_items())
    if repeated := [name for name, times in counts.items() if times > 1]:
        raise RequestValidationError(
            [{"loc": ("query", n), "msg": "Give it once", "type": "repeated"} for n in repeated]
        )


def _calling(right: str | None) -> Callable[..., Any]:
    async def calling(request: Request, _key: str | None = _KEY, _bearer: object = _BEARER) -> RequestCall:
        service = service_of(request)
        principal = await principal_of(request, service.authenticate)
        if right is not None:
            principal.need(right)
        return RequestCall(service, principal)

    return calling


Anyone: TypeAlias = Annotated[RequestCall, Depends(_calling(None))]
"""A call with any key; which right it takes depends on the request."""
Reads: TypeAlias = Annotated[RequestCall, Depends(_calling("read"))]
"""A call that takes the right to read; the next two, to write, and to what concerns everybody."""
Writes: TypeAlias = Annotated[RequestCall, Depends(_calling("write"))]
Admin: TypeAlias = Annotated[RequestCall, Depends(_calling("admin"))]
