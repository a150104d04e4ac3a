from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from langmem_adapter.memory.memory import Memory
from tests.server.conftest import client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastapi.testclient import TestClient


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """A memory that the tests of a module share; making an app takes longer than most of them."""
    with Memory(tmp_path_factory.mktemp("page") / "memory.db", graph=True) as memory:
        yield memory


@pytest.fixture(scope="module")
def local(shared: Memory) -> Iterator[TestClient]:
    with client(shared, auth="local") as http:
        yield http


@pytest.fixture(scope="module")
def keyed(shared: Memory) -> Iterator[TestClient]:
    with client(shared) as http:
        yield http


@pytest.fixture
def memory(shared: Memory) -> Memory:
    """An empty one."""
    shared.reset()
    return shared


@pytest.fixture
def http(memory: Memory, local: TestClient) -> TestClient:
    """A browser on this machine, which keeps nothing of another test."""
    local.cookies.clear()
    return local


@pytest.fixture
def guarded(memory: Memory, keyed: TestClient) -> TestClient:
    """A browser that has not logged in yet."""
    keyed.cookies.clear()
    return keyed
