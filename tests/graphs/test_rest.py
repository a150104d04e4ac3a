"""The REST routes as LangGraph's server mounts them: who is signed in there, and who is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi.testclient import TestClient
from starlette.authentication import AuthCredentials, AuthenticationBackend, SimpleUser, UnauthenticatedUser
from starlette.middleware.authentication import AuthenticationMiddleware

from langmem_adapter.records.scope import Scope
from langmem_adapter.storage import keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.authentication import BaseUser
    from starlette.requests import HTTPConnection


class Names(AuthenticationBackend):
    """Whoever says a name has it, as one of LangGraph's users has an identity."""

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, BaseUser]:
        name = conn.headers.get("authorization", "").removeprefix("Bearer ")
        return AuthCredentials(), User(name) if name else UnauthenticatedUser()


class User(SimpleUser):
    @property
    def identity(self) -> str:
        return self.username


def test_who_is_signed_in_reaches_their_own_memories_and_others_need_a_key(load: Callable[[str], Any]) -> None:
    module = load("rest")
    memory = module.shared_memory()
    with TestClient(AuthenticationMiddleware(module.app, backend=Names())) as http:
        alice, bob = {"Authorization": "Bearer alice"}, {"Authorization": "Bearer bob"}
        where = http.post("/memory/v1/memories?wait=false", json={"messages": "我喜欢绿茶。"}, headers=alice).headers[
            "location"
        ]
        assert http.get(f"{where}/events", headers=alice).text.count("event: done") == 1
        (item,) = http.get("/memory/v1/memories", headers=alice).json()["items"]
        assert item["user_id"] == "alice"
        assert http.get(f"/memory/v1/memories/{item['id']}", headers=bob).status_code == 404
        assert http.get("/memory/v1/memories?user_id=alice", headers=bob).status_code == 403
        assert http.get("/memory/v1/memories?user_id=alice").status_code == 401
        _, shown = memory.parts.database.write(lambda c: keys.create(c, "test", Scope(user_id="alice"), ["read"]))
        assert http.get("/memory/v1/memories", headers={"X-API-Key": shown}).json()["items"] == [item]
        assert http.get("/memory/v1/memories", headers={"X-API-Key": shown, **bob}).json()["items"] == []
        assert http.get("/memory/docs").status_code == 200
