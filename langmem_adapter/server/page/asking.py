"""What an address of the page asks for: whose memories, and which of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

from pydantic import BaseModel, BeforeValidator

from langmem_adapter.records.scope import SCOPE_FIELDS, Scope
from langmem_adapter.storage.scopes import counts
from langmem_adapter.twins import beside

if TYPE_CHECKING:
    from langmem_adapter.memory import Memory
    from langmem_adapter.server.auth import Principal

__all__ = ["Filled", "Whose", "total", "whose"]

T = TypeVar("T")


def _filled(given: object) -> object:
    return None if isinstance(given, str) and not given.strip() else given


Filled: TypeAlias = Annotated[T | None, BeforeValidator(_filled)]
"""A field of a form, which a browser sends also where it was left empty."""


class Whose(BaseModel):
    """The scope that an address names."""

    user_id: Filled[str] = None
    agent_id: Filled[str] = None
    run_id: Filled[str] = None


async def whose(memory: Memory, who: Principal, asked: Whose) -> dict[str, Any] | None:
    """The fields of the scope to show: the named one, else the caller's own, else the largest that there is.

    Returns:
        Arguments for the methods of `Memory`; `None` where nothing is named and nothing is kept.

    Raises:
        ForbiddenError: Somebody else's is named.
    """
    fields = who.narrowed({name: getattr(asked, name) for name in SCOPE_FIELDS})
    if fields:
        return fields
    found = await beside(memory.engine.reading, counts)
    return found[0].scope.named if found else None


async def total(memory: Memory, fields: dict[str, Any]) -> int:
    """How many memories a scope has."""
    found = await beside(memory.engine.reading, counts, Scope(**fields))
    return sum(each.memories for each in found)
