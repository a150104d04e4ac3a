"""`Memory`, its parts wired together once, and each group of its methods in a module of its own."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from langmem_adapter.memory.memory import Memory

__all__ = ["Memory"]


def __getattr__(name: str) -> object:
    """`Memory` is imported when it is asked for (PEP 562): who takes a part of this room alone needs no more."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.memory"), name)
