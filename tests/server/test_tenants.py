"""Two tenants, every route, every parameter that can name something of somebody else.

The routes come from the OpenAPI document, so that a new one is tried without being written down here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import pytest

from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope
from langmem_adapter.storage import jobs
from tests.server.conftest import client, key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fastapi.testclient import TestClient

METHODS: Final = ("get", "post", "put", "patch", "delete")
NAMING: Final = ("after", "before", "cursor", "filters", "idempotency_key", "ids", "key")
UNKNOWN: Final = str(UUID(int=7))


@dataclass(frozen=True)
class Tenant:
    """Somebody with memories, relations and a key for everything that is theirs."""

    name: str
    canary: str
    ids: tuple[
        tuple[str, str], ...
    ]  # which kind, and the id: "user_id", "agent_id", "run_id", or "id" for anything else
    headers: dict[str, str]


@dataclass(frozen=True)
class Attempt:
    """One call that names something."""

    method: str
    path: str
    query: dict[str, Any]
    body: Any
    headers: dict[str, str]

    def naming(self, old: str, new: str) -> Attempt:
        """The same call, which names something else."""
        query, body, headers = (_replaced(part, old, new) for part in (self.query, self.body, self.headers))
        return Attempt(self.method, self.path.replace(old, new), query, body, headers)


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    with Memory(":memory:", graph=True) as memory:
        yield memory


@pytest.fixture(scope="module")
def tenants(memory: Memory) -> dict[str, Tenant]:
    return {name: _settled(memory, name, canary) for name, canary in (("alice", "zebrafish"), ("bob", "xylophone"))}


def _settled(memory: Memory, name: str, canary: str) -> Tenant:
    scope: dict[str, Any] = {"user_id": name, "agent_id": f"agent-of-{name}", "run_id": f"run-of-{name}"}
    result = memory.add(f"I have a sister named {canary}.", **scope)
    relation = memory.graph.add(name, "likes", f"{canary}s", **scope).relation
    others = (str(result.results[0].id), str(result.trace_id), relation.id, _ended_job(memory, canary, scope))
    headers = key(memory, Scope(user_id=name), "read", "write", "admin")
    return Tenant(name, canary, (*scope.items(), *(("id", each) for each in others)), headers)


def _ended_job(memory: Memory, canary: str, scope: dict[str, Any]) -> str:
    """A job that no worker takes any more, and that tells something."""
    write, told = memory.parts.database.write, {"status": 400, "detail": canary}
    write(partial(jobs.submit, requests=[{"messages": canary, **scope}], most=9))
    job = write(partial(jobs.take, owner="test", lease=60))
    assert job is not None and write(partial(jobs.finish, job=job, owner="test", error=told))
    return job.id


@pytest.fixture(scope="module")
def http(memory: Memory) -> Iterator[TestClient]:
    with client(memory, loud=False) as http:
        yield http


def test_no_route_leaves_the_scope_of_its_key(memory: Memory, http: TestClient, tenants: dict[str, Tenant]) -> None:
    caller, other = tenants["alice"], tenants["bob"]
    before = state(memory, other)
    document, tried = http.get("/openapi.json").json(), 0
    unknown = {repr(each): each for kind, _ in other.ids for each in attempts(document, kind, UNKNOWN)}
    missing = {shown: sent(http, each, caller).status_code for shown, each in unknown.items()}
    for kind, named in other.ids:
        for attempt in attempts(document, kind, named):
            answer = sent(http, attempt, caller)
            told = f"{attempt} gave {answer.status_code}: {answer.text}"
            assert answer.status_code < 500, told
            assert other.canary not in answer.text, told
            assert answer.status_code == missing[repr(attempt.naming(named, UNKNOWN))], told
            tried += 1
        assert state(memory, other) == before, f"one of the calls that name {named} changed something"
    assert tried > 50


def test_every_route_needs_a_key(http: TestClient) -> None:
    open_to_all = {"/v1/health", "/v1/ready"}
    for path, methods in http.get("/openapi.json").json()["paths"].items():
        for method in filter(methods.__contains__, METHODS):
            answer = http.request(method, path.replace("{", "").replace("}", ""), json={})
            assert answer.status_code in ({200} if path in open_to_all else {401}), f"{method} {path}: {answer.text}"


def state(memory: Memory, tenant: Tenant) -> object:
    """All that somebody has."""
    items = memory.get_all(user_id=tenant.name, k=1_000).items
    steps = [memory.history(item.id) for item in items]
    relations = [(one.id, one.text, one.valid_to) for one in memory.graph.relations(user_id=tenant.name)]
    scope = Scope(user_id=tenant.name)
    asked_for = memory.parts.reading(jobs.page, scope, k=9)
    return items, steps, relations, asked_for, memory.traces(user_id=tenant.name, k=1_000)


def sent(http: TestClient, attempt: Attempt, caller: Tenant) -> Any:
    """The answer to a call."""
    headers = {**attempt.headers, **caller.headers}
    return http.request(attempt.method, attempt.path, params=attempt.query, json=attempt.body, headers=headers)


def attempts(document: Mapping[str, Any], kind: str, named: str) -> Iterator[Attempt]:
    """Every call of every route that names something, in each place that may hold an id of this kind."""
    for path, methods in document["paths"].items():
        for method in filter(methods.__contains__, METHODS):
            yield from _of_operation(document, method.upper(), path, methods[method], kind, named)


def _of_operation(
    document: Mapping[str, Any], method: str, path: str, operation: Mapping[str, Any], kind: str, named: str
) -> Iterator[Attempt]:
    parameters = operation.get("parameters", [])
    body = _example(document, operation)
    for filled in _paths(path, [each for each in parameters if each["in"] == "path"], named):
        if filled != path:
            yield Attempt(method, filled, {}, body, {})
        for each in parameters:
            if each["in"] in {"query", "header"} and _names(each["name"], kind):
                query, headers = ({each["name"]: named} if each["in"] == place else {} for place in ("query", "header"))
                yield Attempt(method, filled, query, body, headers)
        for changed in _bodies(document, operation, body, kind, named):
            yield Attempt(method, filled, {}, changed, {})


def _paths(path: str, parameters: list[Any], named: str) -> Iterator[str]:
    choices = [[(each["name"], value) for value in each["schema"].get("enum", [named])] for each in parameters]
    for chosen in product(*choices):
        filled = path
        for name, value in chosen:
            filled = filled.replace(f"{{{name}}}", value)
        yield filled


def _bodies(
    document: Mapping[str, Any], operation: Mapping[str, Any], body: Any, kind: str, named: str
) -> Iterator[Any]:
    for name in sorted(_properties(document, _schema(operation))):
        if name == "filters":
            yield {**body, name: {kind: named}}
            yield {**body, name: {"OR": [{kind: named}, {kind: {"ne": ""}}]}}
            yield {**body, name: {"NOT": [{kind: {"ne": named}}]}}
        elif _names(name, kind):
            yield {**body, name: [named] if name.endswith("ids") else named}


def _names(parameter: str, kind: str = "") -> bool:
    """Whether a parameter holds an id, of this kind if of one of the scope's."""
    plain = parameter.lower().replace("-", "_")
    if plain in SCOPE_FIELDS:
        return kind in {plain, ""}
    return plain in NAMING or plain.endswith(("_id", "_ids")) or plain == "id"


def _schema(operation: Mapping[str, Any]) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = (
        operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    )
    return schema


def _properties(document: Mapping[str, Any], schema: Mapping[str, Any]) -> set[str]:
    return {name for each in _schemas(document, schema) for name in each.get("properties", {})}


def _example(document: Mapping[str, Any], operation: Mapping[str, Any]) -> Any:
    """What the documentation says one may send, without what names somebody."""
    shown = next((each["examples"][0] for each in _schemas(document, _schema(operation)) if "examples" in each), None)
    return {name: value for name, value in shown.items() if not _names(name)} if isinstance(shown, dict) else {}


def _schemas(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield schema
    if "$ref" in schema:
        yield from _schemas(document, document["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    for each in schema.get("anyOf", ()):
        yield from _schemas(document, each)


def _replaced(value: Any, old: str, new: str) -> Any:
    if isinstance(value, dict):
        return {name: _replaced(part, old, new) for name, part in value.items()}
    if isinstance(value, list):
        return [_replaced(part, old, new) for part in value]
    return new if value == old else value
