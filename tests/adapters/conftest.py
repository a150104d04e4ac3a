"""A memory with nothing in it, for every integration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from langmem_adapter.memory.memory import Memory

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory(":memory:") as opened:
        yield opened
