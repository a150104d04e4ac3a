"""A look at the page: who looks, at whose memories, and how they are answered."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias, TypeVar

from fastapi import Depends, HTTPException, Request, Response
from pydantic import BaseModel, BeforeValidator
from starlette import status

from langmem_adapter.memory.memory import Memory
from langmem_adapter.server.auth import Principal, principal_of
from langmem_adapter.server.page.layout import PREFIX, Shell, base_of, check_form, shell_of
from langmem_adapter.storage.scopes import counts
from langmem_adapter.twins import beside

T = TypeVar("T")


def _filled(given: object) -> object:
    return None if isinstance(given, str) and not given.strip() else given


Filled: TypeAlias = Annotated[T | None, BeforeValidator(_filled)]
"""A field of a form, which a browser sends also where it was left empty."""


class AddressScope(BaseModel):
    """Whose memories an address or a form asks for."""

    user_id: Filled[str] = None
    agent_id: Filled[str] = None
    run_id: Filled[str] = None


@dataclass(frozen=True, slots=True)
class View:
    """A view that somebody asked for."""

    request: Request
    shell: Shell
    who: Principal

    @property
    def memory(self) -> Memory:
        """What is looked at."""
        return self.shell.memory

    def whose(self, asked: AddressScope) -> dict[str, Any]:
        """The scope that an address or a form names, within what is reached: see `Principal.narrowed`."""
        return self.who.narrowed(dict(asked))

    async def shown(self, asked: AddressScope) -> dict[str, Any] | None:
        """The scope to show: the named one, else the caller's own, else the largest; `None` where nothing is kept.

        Raises:
            HTTPException: Whoever may not know who is there has to name somebody first.
        """
        if fields := self.whose(asked):
            return fields
        if not self.who.reaches_everything:
            raise HTTPException(
                status.HTTP_303_SEE_OTHER, headers={"location": f"{base_of(self.request)}{PREFIX}/scopes"}
            )
        found = await beside(self.memory.parts.reading, counts)
        return found[0].scope.named if found else None

    def show(self, name: str, fields: Mapping[str, Any] | None = None, *, status: int = 200, **values: Any) -> Response:
        """The answer: see `Shell.show`."""
        return self.shell.show(self.request, name, self.who, fields, status=status, **values)

    def go(self, path: str, fields: Mapping[str, Any] | None = None, **parameters: Any) -> Response:
        """The answer to a form: another view."""
        return self.shell.go(self.request, path, fields, **parameters)


def _view(right: str | None, *, form: bool = False) -> Callable[..., Any]:
    async def view(request: Request) -> View:
        shell = shell_of(request)
        who = await principal_of(request, shell.visit)
        if form:
            await check_form(request)
        if right is not None:
            who.need(right)
        return View(request, shell, who)

    return view


# Contract: whatever changes something takes `Sending` or `Writing`, which want a form of ours.
# tests/server/page/test_tenants.py::test_every_form_wants_its_token
Looking: TypeAlias = Annotated[View, Depends(_view(None))]
"""Asked for by whoever has logged in; which right it takes depends on what is asked."""
Reading: TypeAlias = Annotated[View, Depends(_view("read"))]
Sending: TypeAlias = Annotated[View, Depends(_view(None, form=True))]
"""The same with a form."""
Writing: TypeAlias = Annotated[View, Depends(_view("write", form=True))]
