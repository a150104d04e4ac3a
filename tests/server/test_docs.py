"""The page of all routes, and the document that it shows; `tests/browser/test_docs.py` looks at it."""

from __future__ import annotations

import re
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

import langmem_adapter.server
from langmem_adapter.server.app import create_app
from tests.server.conftest import HERE

if TYPE_CHECKING:
    from langmem_adapter.memory.memory import Memory


class Elements(HTMLParser):
    """Every element of a page, with its attributes, and the text of its scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.inline = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.inline += data.strip() if self.cdata_elem else ""


def test_docs_list_every_operation_without_scripts(http: TestClient) -> None:
    page, document = http.get("/docs").text, http.get("/openapi.json").json()
    listed = page.partition("<noscript>")[2]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert f"<code>{method.upper()} {path}</code> {operation['summary']}" in listed


@pytest.mark.parametrize("below", ["", "/memory"])
def test_docs_load_nothing_from_elsewhere_and_have_nothing_inline(memory: Memory, below: str) -> None:
    app, outer = create_app(memory, auth="local"), FastAPI()
    outer.mount("/memory", app)
    http = TestClient(outer if below else app, client=HERE)
    assert http.get(f"{below}/").url.path == f"{below}/ui/memories"
    answer = http.get(f"{below}/docs")
    page = Elements(answer.text)
    addresses = {value for _, given in page.found for name in ("href", "src") if (value := given.get(name))} - {
        "data:,"
    }
    assert len(addresses) == 5
    assert {http.get(str(answer.url.join(address))).status_code for address in addresses} == {200}
    assert not page.inline
    assert not any(name == "style" or name.startswith("on") for _, given in page.found for name in given)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'self'" in policy and "unsafe" not in policy


def test_static_files_are_cached_and_no_other_file_is_served(http: TestClient) -> None:
    first = http.get("/static/docs.js")
    again = http.get("/static/docs.js", headers={"if-none-match": first.headers["etag"]})
    assert (first.headers["cache-control"], again.status_code) == ("no-cache", 304)
    assert http.get("/static/../app.py").status_code == 404
    assert http.get("/static/%2e%2e/app.py").status_code == 404


def test_vendored_files_are_the_published_ones() -> None:
    (package,) = langmem_adapter.server.__path__
    vendor = Path(package) / "static" / "vendor"
    told = re.findall(r"`([\w./-]+)` \| `([0-9a-f]{64})`", (vendor / "README.md").read_text("utf-8"))
    assert {name: sha256((vendor / name).read_bytes()).hexdigest() for name, _ in told} == dict(told)
    assert {str(file.relative_to(vendor)) for kind in ("js", "css") for file in vendor.rglob(f"*.{kind}")} == {
        *dict(told)
    }


def test_openapi_examples_get_documented_responses(http: TestClient) -> None:
    document: dict[str, Any] = http.get("/openapi.json").json()
    for path in ("/memories", "/search"):
        sent = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        (example,) = document["components"]["schemas"][sent.rpartition("/")[2]]["examples"]
        assert http.post(path, json=example).status_code == 200
    assert {scheme["type"] for scheme in document["components"]["securitySchemes"].values()} == {"apiKey", "http"}
    assert document["paths"]["/search"]["post"]["security"]
