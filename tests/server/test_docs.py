"""The page of all routes, and the document that it is made of."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any, Final

from fastapi import FastAPI
from fastapi.testclient import TestClient

from langmem_adapter.server.app import create_app
from tests.server.conftest import HERE, client

if TYPE_CHECKING:
    from langmem_adapter.memory import Memory

METHODS: Final = {"get", "post", "put", "patch", "delete"}


class Elements(HTMLParser):
    """Every element of a page, with its attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_the_page_shows_every_operation_with_an_example(http: TestClient) -> None:
    page, document = http.get("/docs").text, http.get("/openapi.json").json()
    for path, methods in document["paths"].items():
        for method in METHODS & methods.keys():
            summary = methods[method]["summary"]
            assert re.search(rf"<b class=\"{method}\">{method.upper()}</b> <code>{re.escape(path)}</code> <span>", page)
            assert f"<span>{summary}</span>" in page
    assert "What can I cook for her?" in page and "Is vegetarian" in page


def test_the_page_runs_no_script_and_asks_nobody_else(http: TestClient) -> None:
    answer = http.get("/docs")
    elements = Elements(answer.text).found
    addresses = [value for _, given in elements for name in ("href", "src") if (value := given.get(name))]
    assert all(tag != "script" and "style" not in given for tag, given in elements)
    assert all(value.startswith(("#", "http://testserver/")) for value in addresses)
    assert not any(name.startswith("on") for _, given in elements for name in given)
    (style,) = (given["href"] for tag, given in elements if tag == "link")
    sheet = http.get(str(style))
    assert (sheet.status_code, sheet.headers["content-type"]) == (200, "text/css; charset=utf-8")
    assert "url(" not in sheet.text and "@import" not in sheet.text


def test_who_comes_to_the_root_is_shown_the_page(http: TestClient) -> None:
    answer = http.get("/", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (307, "http://testserver/docs")
    assert http.get("/static/../app.py").status_code == 404
    assert http.get("/static/%2e%2e/app.py").status_code == 404


def test_it_is_found_below_another_app_as_well(memory: Memory) -> None:
    outer = FastAPI()
    outer.mount("/memory", create_app(memory, auth="local"))
    http = TestClient(outer, client=HERE)
    page = http.get("/memory/")
    assert page.url.path == "/memory/docs"
    assert "http://testserver/memory/static/docs.css" in page.text
    assert http.get("/memory/static/docs.css").status_code == 200
    assert http.post("/memory/memories", json={"messages": "I like tea", "user_id": "a"}).status_code == 200


def test_every_answer_of_an_example_is_of_the_documented_form(http: TestClient) -> None:
    document: dict[str, Any] = http.get("/openapi.json").json()
    for path in ("/memories", "/search"):
        sent = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        (example,) = document["components"]["schemas"][sent.rpartition("/")[2]]["examples"]
        assert http.post(path, json=example).status_code == 200


def test_the_document_says_how_a_key_is_shown(memory: Memory) -> None:
    document = client(memory).get("/openapi.json").json()
    assert {scheme["type"] for scheme in document["components"]["securitySchemes"].values()} == {"apiKey", "http"}
    assert document["paths"]["/search"]["post"]["security"]
