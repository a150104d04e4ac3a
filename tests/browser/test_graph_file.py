"""The picture of the graph that `graph.export` writes, opened from a disk without a network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from langmem_adapter.memory.memory import Memory
    from tests.browser.conftest import Visit


def test_graph_html_file_is_drawn_and_needs_no_network(
    memory: Memory, tmp_path: Path, visit: Callable[..., Visit]
) -> None:
    hostile = "</script><script>alert(1)</script>"
    memory.graph.add("ada", "lives in", "里昂", user_id="ada", valid_from="2020-01-01")
    memory.graph.add("ada", "lives in", "Oslo", user_id="ada", valid_from="2024-01-01")
    memory.graph.add("ada", "knows", hostile, user_id="ada", valid_from="2022-01-01")
    path = tmp_path / "graph.html"
    memory.graph.export(path, user_id="ada")

    seen = visit(offline=True)
    seen.page.goto(path.as_uri())
    expect(seen.page.get_by_role("heading", level=1)).to_have_text("Knowledge graph of user ada")
    expect(seen.page.locator("figcaption span:has(svg)")).to_have_text(["person", "other", "holds", "ended"])
    names = seen.page.locator("#picture .nodes a > text")
    expect(names).to_have_count(4)
    assert sorted(names.all_text_contents()) == sorted(["ada", "里昂", "Oslo", "</script><script>alert(1…"])
    rows = seen.page.locator("#ties tbody tr:visible th + td + td")
    expect(rows).to_have_text([hostile, "Oslo", "里昂"], use_inner_text=True)
    for _ in range(2):
        seen.page.get_by_role("button", name="previous change").click()
    expect(seen.page.locator("#moment")).to_have_text("2022-01-01")
    expect(rows).to_have_text([hostile, "里昂"], use_inner_text=True)
    seen.page.locator("#picture .nodes a").first.click(force=True)

    seen.page.set_viewport_size({"width": 390, "height": 844})
    assert seen.page.evaluate("document.querySelector('#ties').scrollWidth <= document.documentElement.clientWidth")
    assert seen.page.url == path.as_uri()
    assert (seen.said, seen.asked) == ([], {"file://"})
    found = Axe().run(seen.page)
    assert found.violations_count == 0, found.generate_report()
