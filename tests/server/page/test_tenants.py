"""Two tenants and every view: whatever an address or a form names, one sees and changes nothing of the other's.

The views come from the app's own routes, so that a new one is tried without being written down here.
"""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import pytest
from fastapi import FastAPI

from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope
from langmem_adapter.server.page import router
from tests.server.conftest import client, key
from tests.server.page.test_entrance import logged_in, token
from tests.server.test_tenants import UNKNOWN, Tenant, state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastapi.testclient import TestClient

NAMES: Final = ("user_id", "agent_id", "run_id", "entity", "after", "memory_id", "trace_id", "id", "q", "to")
FILLED: Final = {"text": "I like coffee.", "revision": "1", "confirm": "bob", "name": "bob", "metadata": "{}"}
OPEN: Final = {"/ui/login", "/ui/logout", "/ui/theme", "/ui", "/ui/"}


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    with Memory(":memory:", graph=True) as memory:
        yield memory


@pytest.fixture(scope="module")
def bob(memory: Memory) -> Tenant:
    scope: dict[str, Any] = {"user_id": "bob", "agent_id": "agent-of-bob", "run_id": "run-of-bob"}
    result = memory.add("I have a sister named Xylophone.", **scope)
    relation = memory.graph.add("bob", "likes", "xylophones", **scope).relation
    ids = (str(result.results[0].id), str(result.trace_id), relation.id)
    return Tenant("bob", "xylophone", (*scope.items(), *(("id", each) for each in ids)), {})


@pytest.fixture(scope="module")
def alice(memory: Memory) -> Iterator[TestClient]:
    """Her browser, logged in with a key for everything that is hers."""
    memory.add("I have a sister named Zebra.", user_id="alice")
    with client(memory, loud=False) as http:
        logged_in(http, key(memory, Scope(user_id="alice"), "read", "write", "admin")["X-API-Key"])
        yield http


def views() -> list[tuple[str, str]]:
    """Method and path of every view that needs somebody to have logged in."""
    app = FastAPI()
    app.include_router(router)
    paths = app.openapi()["paths"]
    return [(method.upper(), path) for path, methods in paths.items() if path not in OPEN for method in methods]


def test_no_view_leaves_the_scope_of_its_key(memory: Memory, alice: TestClient, bob: Tenant) -> None:
    before, csrf, tried = state(memory, bob), token(alice, "/ui/memories"), 0
    for method, path in views():
        for kind, named in bob.ids:
            for answer, told in _answers(alice, method, path, (kind, named), csrf):
                assert answer.status_code < 500, told
                assert bob.canary not in answer.text.casefold(), told
                tried += 1
    assert state(memory, bob) == before
    assert tried > 50


def test_foreign_ids_look_like_unknown_ids(memory: Memory, alice: TestClient, bob: Tenant) -> None:
    csrf = token(alice, "/ui/memories")
    for method, path in views():
        if "{" not in path:
            continue
        for kind, named in bob.ids:
            his, nobodys = (_sent(alice, method, _filled(path, each), csrf, {}) for each in (named, UNKNOWN))
            assert (his.status_code, _told(his, named)) == (nobodys.status_code, _told(nobodys, UNKNOWN)), (path, kind)


def _told(answer: Any, named: str) -> str:
    main = re.search(r"<main.*</main>", answer.text, re.DOTALL)
    return (main[0] if main else answer.text).replace(named, "")


def test_every_view_needs_a_login(memory: Memory) -> None:
    with client(memory) as http:
        csrf = token(http, "/ui/login")
        for method, path in views():
            answer = _sent(http, method, _filled(path, UNKNOWN), csrf, {})
            assert answer.status_code == 303, f"{method} {path}"
            assert answer.headers["location"].startswith("/ui/login"), f"{method} {path}"


def test_repeated_parameter_of_a_view_is_refused(alice: TestClient) -> None:
    for method, path in views():
        if method == "GET":
            answer = alice.get(f"{_filled(path, UNKNOWN)}?user_id=bob&user_id=alice")
            assert (answer.status_code, "Give it once" in answer.text) == (422, True), path


def test_every_form_needs_its_token(memory: Memory, alice: TestClient) -> None:
    for method, path in views():
        if method != "GET":
            answer = _sent(alice, method, _filled(path, UNKNOWN), "", {})
            assert (answer.status_code, "load the page again" in answer.text) == (403, True), path


def _answers(
    http: TestClient, method: str, path: str, identity: tuple[str, str], csrf: str
) -> Iterator[tuple[Any, str]]:
    kind, named = identity
    filled = _filled(path, named)
    if filled != path:
        yield _sent(http, method, filled, csrf, {}), f"{method} {filled}"
    names = [name for name in NAMES if name not in SCOPE_FIELDS or name == kind]
    for name, in_form in product(names, (False, True) if method != "GET" else (False,)):
        given = {name: named}
        form, query = (given, {}) if in_form else ({}, given)
        yield _sent(http, method, _filled(path, UNKNOWN), csrf, form, query), f"{method} {path} {name}={named}"


def _sent(
    http: TestClient, method: str, path: str, csrf: str, form: dict[str, str], query: dict[str, str] | None = None
) -> Any:
    data = {**FILLED, **form, "csrf": csrf} if method != "GET" else None
    return http.request(method, path, params=query or {}, data=data, follow_redirects=False)


def _filled(path: str, named: str) -> str:
    return re.sub(r"\{[^}]*\}", named, path)
