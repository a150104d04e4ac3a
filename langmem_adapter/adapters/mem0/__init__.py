"""Mem0's names, parameters and dict shapes, on our engine: a program changes its import line and nothing else.

    from mem0 import Memory                            →  from langmem_adapter.adapters.mem0 import Memory
    from mem0 import AsyncMemory                       →  from langmem_adapter.adapters.mem0 import AsyncMemory

Programs for every version of Mem0 run: 0.0.x iterates the result and reads `row["text"]`, 1.x passes `user_id` and reads
`result["results"]`, 2.x passes `filters={"user_id": …}` and `top_k`. What Mem0 ignores (an unknown key of the configuration, an
argument, a filter) is an error here, with the way to do it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from langmem_adapter.adapters.mem0.configs.base import MemoryConfig
from langmem_adapter.adapters.mem0.graph_import import aimport_graph, import_graph
from langmem_adapter.adapters.mem0.memory import AsyncMemory, Memory
from langmem_adapter.adapters.mem0.shapes import Results, Row

__all__ = ["AsyncMemory", "Memory", "MemoryConfig", "Results", "Row", "aimport_graph", "import_graph"]

_HOSTED: Final = "it speaks to Mem0's hosted platform; Memory and AsyncMemory keep everything in your own database"
_ELSEWHERE: Final = {
    "MemoryClient": _HOSTED,
    "AsyncMemoryClient": _HOSTED,
    "Mem0": "for memory within a chat call there is langmem_adapter.MemoryMiddleware",
}

if not TYPE_CHECKING:  # a checker must still find wrong names

    def __getattr__(name: str) -> object:
        """What to use in place of Mem0's other names."""
        if name in _ELSEWHERE:  # an AttributeError would lose its text in `from … import …`
            raise ImportError(f"{name} is not here: {_ELSEWHERE[name]}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
