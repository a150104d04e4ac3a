"""Memories as a stream of lines, so that neither side holds all of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.records.plain import as_data

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.records.results import MemoryItem, Page

__all__ = ["LINES", "PAGE", "as_line", "exported"]

LINES: Final = "application/x-ndjson"
"""The media type of JSON lines."""
PAGE: Final = 500
"""How many memories an export reads at a time."""


def as_line(item: MemoryItem) -> bytes:
    """A memory as a line of an export."""
    return json.dumps(as_data(item), ensure_ascii=False).encode() + b"\n"


async def exported(
    memory: Memory, page: Page, how: Mapping[str, Any], line: Callable[[MemoryItem], bytes] = as_line
) -> AsyncIterator[bytes]:
    """A page of memories and those that follow it, read with the arguments *how* of `Memory.get_all`, as lines."""
    while True:
        yield b"".join(map(line, page))
        if page.next is None:
            return
        page = await memory.aget_all(**how, after=page.next)
