"""Mem0's names, parameters and dict shapes, on our engine: a program changes its import line and nothing else.

    from mem0 import Memory                            →  from langmem_adapter.adapters.mem0 import Memory
    from mem0 import AsyncMemory                       →  from langmem_adapter.adapters.mem0 import AsyncMemory

Programs of every age of Mem0 are meant: 0.0.x walks over the result and reads `row["text"]`, 1.x passes `user_id` and reads
`result["results"]`, 2.x passes `filters={"user_id": …}` and `top_k`. What Mem0 would overlook (a key of the configuration, an
argument, a filter that its store does not know) is an error here, with the way to do it.
"""

from __future__ import annotations

from langmem_adapter.adapters.mem0.config import MemoryConfig
from langmem_adapter.adapters.mem0.doors import AsyncMemory, Memory
from langmem_adapter.adapters.mem0.shapes import Results, Row

__all__ = ["AsyncMemory", "Memory", "MemoryConfig", "Results", "Row"]
