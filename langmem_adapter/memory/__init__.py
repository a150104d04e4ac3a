"""`Memory` and its methods; each group of methods is one module."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from langmem_adapter.memory.memory import Memory

__all__ = ["Memory"]


def __getattr__(name: str) -> object:
    """Import `Memory` when it is first used (PEP 562): a module of this package loads without it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.memory"), name)
