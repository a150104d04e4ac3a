"""Databases that many tests share: making one costs more than most of these tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from langmem_adapter.adapters.checkpointer import SQLAlchemySaver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conformance.calls import Way


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def threads_url(request: pytest.FixtureRequest, shared_url: Callable[[str], str]) -> str:
    """A database for threads on disk or on a server."""
    return shared_url(request.param)


@pytest.fixture
def way(threads_url: str) -> Way:
    """Of two that follow one plan, the async methods on a server and the others on a file."""
    return "async" if threads_url.startswith("postgresql") else "sync"


@pytest.fixture
def saver(threads_url: str) -> Iterator[SQLAlchemySaver]:
    """A checkpointer without threads."""
    with SQLAlchemySaver(threads_url) as opened:
        yield opened
        known = {found.config["configurable"]["thread_id"] for found in opened.list(None)}
        opened.prune(sorted(known), strategy="delete")
