"""`/docs` in the hands of somebody who reads it and tries a call out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

from fastapi import FastAPI

from langmem_adapter.records.scope import Scope
from langmem_adapter.server.app import create_app
from langmem_adapter.storage import keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Locator, Page
    from starlette.types import ASGIApp

    from langmem_adapter.memory.memory import Memory
    from tests.browser.conftest import Visit

Served: TypeAlias = "Callable[[ASGIApp], str]"
Visiting: TypeAlias = "Callable[..., Visit]"


def test_docs_try_out_a_call_and_forget_the_key(memory: Memory, served: Served, visit: Visiting) -> None:
    memory.add("她喜欢绿茶。", user_id="alice", infer=False)
    _, key = memory.parts.database.write(lambda c: keys.create(c, "test", Scope(user_id="alice"), ("read",)))
    address = served(create_app(memory, auth="keys"))
    seen = visit()
    page = seen.page
    page.goto(f"{address}/docs")
    _authorize(page, key)
    assert _tried(_operation(page, "/search"))["results"][0]["memory"] == "她喜欢绿茶。"
    assert (seen.asked, seen.said) == ({address}, [])

    page.goto("about:blank")
    page.goto(f"{address}/docs")
    refused = _tried(_operation(page, "/search"), status="401")
    assert refused == {"detail": "give a valid key, as X-API-Key or as Authorization: Bearer"}


def test_docs_work_in_a_mounted_app_on_a_phone(memory: Memory, served: Served, visit: Visiting) -> None:
    outer = FastAPI()
    outer.mount("/memory", create_app(memory, auth="local"))
    address = served(outer)
    seen = visit(viewport={"width": 390, "height": 800}, color_scheme="dark")
    seen.page.goto(f"{address}/memory/docs")
    assert _tried(_operation(seen.page, "/search"))["results"] == []
    assert (seen.asked, seen.said) == ({address}, [])
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 390
    for scheme in ("dark", "light"):
        seen.page.emulate_media(color_scheme=scheme)
        assert _contrast(_operation(seen.page, "/memories/{memory_id}").locator(".opblock-summary-path").first) > 4.5


def _operation(page: Page, path: str) -> Locator:
    return page.locator(".opblock", has=page.locator(f'.opblock-summary-path[data-path="{path}"]'))


def _authorize(page: Page, key: str) -> None:
    page.get_by_role("button", name="Authorize").click()
    dialog = page.locator(".dialog-ux")
    dialog.get_by_label("Value:").first.fill(key)
    dialog.get_by_role("button", name="Apply credentials").first.click()
    dialog.get_by_role("button", name="Close").first.click()


def _tried(operation: Locator, *, status: str = "200") -> Any:
    operation.locator(".opblock-summary-control").click()
    operation.get_by_role("button", name="Try it out").click()
    operation.get_by_role("button", name="Execute").click()
    answer = operation.locator(".live-responses-table .response")
    assert answer.locator(".response-col_status").inner_text().startswith(status)
    return json.loads(answer.locator(".highlight-code code").first.inner_text())


def _contrast(text: Locator) -> float:
    """How text stands out from what is behind it, by WCAG 2: 1 to 21."""
    letters, behind = (_luminance(colour) for colour in text.evaluate(_COLOURS))
    return (max(letters, behind) + 0.05) / (min(letters, behind) + 0.05)


def _luminance(colour: list[float]) -> float:
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


_COLOURS = """element => {
  const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const behind = [];
  for (let each = element; each; each = each.parentElement) behind.unshift(getComputedStyle(each).backgroundColor);
  const shown = colours => {
    for (paint.fillStyle of colours) paint.fillRect(0, 0, 1, 1);
    return [...paint.getImageData(0, 0, 1, 1).data].slice(0, 3).map(part => part / 255);
  };
  return [shown([...behind, getComputedStyle(element).color]), shown(behind)];
}"""
