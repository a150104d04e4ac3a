"""Takes the pictures that README shows: `make screenshots`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from playwright.sync_api import sync_playwright

from langmem_adapter.server.app import create_app
from tests.browser.house import QUIETLY, furnished, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PICTURES: Final = Path(__file__).parents[2] / "examples" / "pictures"
SIZE: Final = {"width": 1200, "height": 800}
VIEWS: Final = (
    ("memories", "light", "/ui/memories?user_id=ada&q=where+does+she+live"),
    ("memory", "light", "/ui/memories/{moved}?user_id=ada"),
    ("graph", "dark", "/ui/graph?user_id=ada"),
    ("trace", "light", "/ui/traces/{trace}?user_id=ada"),
    ("scopes", "dark", "/ui/scopes?user_id=ada"),
    ("health", "light", "/ui/health?user_id=ada"),
)


def main() -> None:
    """Take them all."""
    found = shutil.which("chromium")
    if found is None:
        sys.exit("no chromium; install it: apt-get install chromium fonts-noto-cjk")
    PICTURES.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder, furnished(Path(folder) / "memory.db") as memory:
        (moved,) = (hit for hit in memory.search("moved to Lyon", user_id="ada", k=1))
        traces = memory.traces(user_id="ada")
        named = {"moved": moved.id, "trace": next(each.id for each in traces if "Lyon" in each.said)}
        with serving(create_app(memory, auth="local")) as address, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=found, args=QUIETLY)
            for name, theme, path in VIEWS:
                _take(browser, f"{address}{path.format(**named)}", theme, PICTURES / f"{name}.png")


def _take(browser: Browser, address: str, theme: str, picture: Path) -> None:
    with browser.new_context(color_scheme="dark" if theme == "dark" else "light", viewport=SIZE) as context:  # type: ignore[arg-type]
        page = context.new_page()
        page.goto(address, wait_until="networkidle")
        page.screenshot(path=picture)


if __name__ == "__main__":
    main()
