from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from fastapi.testclient import TestClient

from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.scope import Scope
from langmem_adapter.server.app import create_app
from langmem_adapter.storage import keys

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ALICE: Final = Scope(user_id="alice")
HERE: Final = ("127.0.0.1", 50_000)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "memory.db") as memory:
        yield memory


@pytest.fixture
def http(memory: Memory) -> Iterator[TestClient]:
    """A client on this machine, who may do everything."""
    with client(memory, auth="local") as http:
        yield http


def client(memory: Memory, *, loud: bool = True, **options: Any) -> TestClient:
    app = create_app(memory, **{"auth": "keys", **options})
    return TestClient(app, client=HERE, raise_server_exceptions=loud)


def key(memory: Memory, scope: Scope | None = ALICE, *rights: str) -> dict[str, str]:
    """The header with a new key."""
    _, shown = memory.parts.database.write(lambda c: keys.create(c, "test", scope, rights or ("read", "write")))
    return {"X-API-Key": shown}


def remembered(memory: Memory, user: str, **scope: Any) -> str:
    """The id of a new memory of somebody."""
    return str(memory.add(f"I am {user} and I like tea.", user_id=user, infer=False, **scope).results[0].id)
