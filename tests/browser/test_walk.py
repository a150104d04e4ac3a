"""Every view of the page that a link leads to: in both themes, on a desk and on a phone, with and without scripts."""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe

from langmem_adapter.server.app import create_app
from tests.browser.house import furnished

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Page

    from langmem_adapter.memory import Memory

DESK: Final = {"width": 1280, "height": 900}
PHONE: Final = {"width": 390, "height": 844}
VIEWS: Final = frozenset(
    {
        "/ui/memories",
        "/ui/memories/*",
        "/ui/graph",
        "/ui/traces",
        "/ui/traces/*",
        "/ui/scopes",
        "/ui/scopes/forget",
        "/ui/health",
    }
)
OVERFLOW: Final = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with furnished(tmp_path / "memory.db") as memory:
        yield memory


@pytest.fixture
def address(memory: Memory, served: Callable[..., str]) -> str:
    return served(create_app(memory, auth="local"))


def walked(page: Page, address: str) -> Iterator[str]:
    """Go to one view of each kind that links lead to, from the first one on; what kind it is, while it is looked at."""
    seen: set[str] = set()
    ahead = deque([f"{address}/ui/memories?user_id=ada"])
    while ahead:
        where = ahead.popleft()
        if (kind := _kind(where)) in seen:
            continue
        seen.add(kind)
        answer = page.goto(where, wait_until="networkidle")
        assert answer is not None and answer.status == 200, where
        links = (urljoin(page.url, link) for link in page.locator("a[href]:not([download])").evaluate_all(_HREFS))
        ahead.extend(link for link in links if link.startswith(f"{address}/ui/"))
        yield kind


_HREFS: Final = "links => links.map(link => link.getAttribute('href'))"


def _kind(where: str) -> str:
    return re.sub(r"(?<=/)[0-9a-f-]{16,}", "*", urlsplit(where).path)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_every_view_is_whole(address: str, visit: Callable[..., Any], theme: str, size: dict[str, int]) -> None:
    visitor = visit(color_scheme=theme, viewport=size)
    axe = Axe()
    seen = set()
    for kind in walked(visitor.page, address):
        seen.add(kind)
        assert visitor.page.evaluate(OVERFLOW) <= 0, f"{kind} is wider than its window"
        assert visitor.page.locator("h1").count() == 1, kind
        found = axe.run(visitor.page)
        assert found.violations_count == 0, f"{kind}\n{found.generate_report()}"
    assert seen >= VIEWS
    assert (visitor.said, visitor.asked) == ([], {address})


def test_without_scripts_every_view_is_there(address: str, visit: Callable[..., Any]) -> None:
    page = visit(java_script_enabled=False).page
    seen = set()
    for kind in walked(page, address):
        seen.add(kind)
        assert page.locator("h1").is_visible(), kind
    assert seen >= VIEWS
