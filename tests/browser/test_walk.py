"""Every view of the page that a link leads to: in both themes, on a desk and on a phone, with and without scripts."""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from langmem_adapter.memory.memory import Memory
from langmem_adapter.server.app import create_app
from tests.browser.house import furnished

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Page

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
        answer = page.goto(where)
        assert answer is not None and answer.status == 200, where
        links = (urljoin(page.url, link) for link in page.locator("a[href]:not([download])").evaluate_all(_HREFS))
        ahead.extend(link for link in links if link.startswith(f"{address}/ui/"))
        yield kind


_HREFS: Final = "links => links.map(link => link.getAttribute('href'))"


def _kind(where: str) -> str:
    return re.sub(r"(?<=/)[0-9a-f-]{16,}", "*", urlsplit(where).path)


def look_over(page: Page, what: str) -> None:
    """Nothing sticks out of the window, there is one title, and axe finds no barrier."""
    page.wait_for_load_state()
    assert page.evaluate(OVERFLOW) <= 0, f"{what} is wider than its window"
    assert page.locator("h1").count() == 1, what
    found = Axe().run(page)
    assert found.violations_count == 0, f"{what}\n{found.generate_report()}"


@pytest.mark.parametrize(("theme", "size"), [("dark", DESK), ("light", PHONE)], ids=["dark desk", "light phone"])
def test_every_view_has_no_defect(address: str, visit: Callable[..., Any], theme: str, size: dict[str, int]) -> None:
    visitor = visit(color_scheme=theme, viewport=size)
    seen = set()
    for kind in walked(visitor.page, address):
        seen.add(kind)
        look_over(visitor.page, kind)
    assert seen >= VIEWS
    assert (visitor.said, visitor.asked) == ([], {address})


def test_every_view_works_without_scripts(address: str, visit: Callable[..., Any]) -> None:
    page = visit(java_script_enabled=False).page
    seen = set()
    for kind in walked(page, address):
        seen.add(kind)
        assert page.locator("h1").is_visible(), kind
    assert seen >= VIEWS


@pytest.mark.parametrize(("theme", "size"), [("light", DESK), ("dark", PHONE)], ids=["light desk", "dark phone"])
def test_every_state_of_a_view_has_no_defect(
    memory: Memory, address: str, visit: Callable[..., Any], theme: str, size: dict[str, int]
) -> None:
    page = visit(color_scheme=theme, viewport=size).page
    (item,) = memory.search("likes jazz", user_id="ada", k=1)
    page.goto(f"{address}/ui/memories/{item.id}?user_id=ada")
    page.get_by_text("Delete…").click()
    look_over(page, "about to delete")
    page.get_by_text("Edit", exact=True).click()
    page.get_by_label("Metadata").fill("no JSON")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_be_visible()
    look_over(page, "an edit that was refused")
    page.get_by_text("Delete…").click()
    page.get_by_role("button", name="Delete it").click()
    expect(page.get_by_role("status")).to_contain_text("Deleted")
    look_over(page, "a deleted memory")
    page.goto(f"{address}/ui/scopes/forget?user_id=bob")
    for name, what in (("Bob", "a refusal to forget"), ("bob", "forgotten")):
        page.get_by_role("textbox").last.fill(name)
        page.get_by_role("button", name="Erase for good").click()
        look_over(page, what)
    for path in ("/memories/nothing", "/memories?user_id=nobody", "/traces?user_id=nobody", "/graph?entity=nobody"):
        page.goto(f"{address}/ui{path}")
        look_over(page, path)
    page.goto(f"{address}/ui/health")
    page.get_by_role("button", name="Check database and index").click()
    look_over(page, "checked")


@pytest.mark.parametrize(("theme", "size"), [("dark", DESK), ("light", PHONE)], ids=["dark desk", "light phone"])
def test_login_pages_have_no_defect(
    tmp_path: Path, served: Callable[..., str], visit: Callable[..., Any], theme: str, size: dict[str, int]
) -> None:
    page = visit(color_scheme=theme, viewport=size).page
    with Memory(tmp_path / "empty.db") as empty:
        page.goto(f"{served(create_app(empty, auth='local'))}/ui")
        look_over(page, "the first screen")
        page.goto(f"{served(create_app(empty, auth='keys'))}/ui")
        look_over(page, "the login")
        page.get_by_role("textbox", name="Key").fill("lma_nothing")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_be_visible()
        look_over(page, "a login that was refused")


def test_forced_colors_show_the_current_view(address: str, visit: Callable[..., Any]) -> None:
    page = visit(forced_colors="active").page
    page.goto(f"{address}/ui/graph?user_id=ada")
    for chosen, other in (("Graph", "Traces"), ("hops: 2", "hops: 1")):
        shown, plain = (page.get_by_role("link", name=name).evaluate(_BEHIND) for name in (chosen, other))
        assert shown != plain, chosen
    shown, plain = (page.get_by_role("button", name=f"{name} theme").evaluate(_BEHIND) for name in ("auto", "dark"))
    assert shown != plain


_BEHIND: Final = "element => getComputedStyle(element).backgroundColor"
