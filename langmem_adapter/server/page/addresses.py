"""What an address of the page asks for: whose memories, and which of them."""

from __future__ import annotations

from typing import Annotated, TypeAlias, TypeVar

from pydantic import BaseModel, BeforeValidator

__all__ = ["AddressScope", "Filled"]

T = TypeVar("T")


def _filled(given: object) -> object:
    return None if isinstance(given, str) and not given.strip() else given


Filled: TypeAlias = Annotated[T | None, BeforeValidator(_filled)]
"""A field of a form, which a browser sends also where it was left empty."""


class AddressScope(BaseModel):
    """The scope that an address names."""

    user_id: Filled[str] = None
    agent_id: Filled[str] = None
    run_id: Filled[str] = None
