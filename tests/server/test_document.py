"""Requests made from what `/openapi.json` says: none of them breaks the server, and every answer is one that it tells of."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_adapter.memory import Memory
from langmem_adapter.server.v1.answers import Problem
from tests.server.conftest import client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastapi.testclient import TestClient
    from hypothesis.strategies import DataObject, SearchStrategy

_JSON: SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
_TEXTS = (
    st.sampled_from(["alice", "I like tea.", "我喜欢绿茶", "", " ", "2024-05-01T00:00:00Z", "x\x00", "a/../b?c#d"])
    | st.text()
)


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    with Memory(":memory:", graph=True) as memory:
        yield memory


@pytest.fixture(scope="module")
def http(memory: Memory) -> TestClient:
    """Without a lifespan: workers that go on between two requests would disturb Hypothesis, which owns `random`."""
    http = client(memory, auth="local")
    http.post("/v1/memories", json={"messages": "I like tea.", "user_id": "alice"})
    return http


@settings(max_examples=150, derandomize=True)
@given(data=st.data())
def test_no_request_breaks_the_server_or_gets_an_answer_that_the_document_does_not_tell_of(
    http: TestClient, memory: Memory, data: DataObject
) -> None:
    document = _document(http)
    path, method, operation = data.draw(st.sampled_from(_operations(http)))
    kept = [*(item.id for item in memory.get_all(user_id="alice")), "none"][0]
    ids = _TEXTS.filter(bool) | st.none()
    query: dict[str, Any] = {}
    headers: dict[str, str] = {}
    for parameter in operation.get("parameters", ()):
        schema = parameter["schema"]
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", quote(data.draw(ids) or kept, safe=""))
        elif data.draw(st.booleans()) and parameter["in"] == "query":
            query[parameter["name"]] = data.draw(_values(schema, document))
        elif parameter["in"] == "header" and data.draw(st.booleans()):
            headers[parameter["name"]] = data.draw(st.sampled_from(["k", "key 2", ""]))
    content = operation.get("requestBody", {}).get("content", {})
    body = _body(data, content, document)
    if "application/json" in content:
        headers["content-type"] = "application/json"
    answer = http.request(method, path, params=_plain(query), content=body, headers=headers)

    assert answer.status_code < 500, answer.text
    if answer.status_code < 400:
        assert str(answer.status_code) in operation["responses"]
    elif answer.status_code not in {404, 405} or answer.headers["content-type"] == "application/problem+json":
        assert Problem.model_validate(answer.json()).status == answer.status_code


def _body(data: DataObject, content: dict[str, Any], document: dict[str, Any]) -> bytes | None:
    if "application/json" in content:
        value = data.draw(_values(content["application/json"]["schema"], document) | _JSON)
        return json.dumps(value).encode()
    if content:
        lines = st.lists(st.text() | st.builds(json.dumps, _JSON), max_size=3)
        return "\n".join(data.draw(lines)).encode(errors="replace")
    return None


def _plain(query: dict[str, Any]) -> dict[str, str]:
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in query.items()}
    return {name: text.encode(errors="replace").decode() for name, text in texts.items()}


@cache
def _document(http: TestClient) -> dict[str, Any]:
    document: dict[str, Any] = http.get("/openapi.json").json()
    return document


def _operations(http: TestClient) -> list[tuple[str, str, dict[str, Any]]]:
    paths = _document(http)["paths"].items()
    return [(path, method, how) for path, each in paths if path.startswith("/v1/") for method, how in each.items()]


def _values(schema: dict[str, Any], document: dict[str, Any]) -> SearchStrategy[Any]:
    """Values that a schema allows, and a few that it does not."""
    if "$ref" in schema:
        return _values(document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], document)
    if "anyOf" in schema:
        return st.one_of(*(_values(each, document) for each in schema["anyOf"]))
    if schema.get("type") == "object" and "properties" in schema:
        return _objects(schema, document)
    if schema.get("type") == "array":
        most = 3 if "items" in schema else 2
        return st.lists(_values(schema.get("items", {}), document), min_size=schema.get("minItems", 0), max_size=most)
    if schema.get("format") == "date-time":
        return st.datetimes().map(lambda moment: f"{moment.isoformat()}Z") | _TEXTS
    kinds = {
        "string": _TEXTS,
        "integer": st.integers(min_value=schema.get("minimum", -5), max_value=min(schema.get("maximum", 50), 50)),
        "number": st.floats(min_value=-1, max_value=1),
        "boolean": st.booleans(),
        "null": st.none(),
        "object": st.dictionaries(st.text(max_size=5), _JSON, max_size=3),
    }
    return kinds.get(schema.get("type", ""), _JSON)


def _objects(schema: dict[str, Any], document: dict[str, Any]) -> SearchStrategy[dict[str, Any]]:
    each = {name: _values(part, document) for name, part in schema["properties"].items()}
    each = {**each, **({"user_id": st.just("alice") | each["user_id"]} if "user_id" in each else {})}
    needed = {name: each.pop(name) for name in schema.get("required", ())}
    return st.fixed_dictionaries(needed, optional=each)
