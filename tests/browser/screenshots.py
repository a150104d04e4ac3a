"""Takes the pictures that README shows: `make screenshots`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

from playwright.sync_api import sync_playwright

from langmem_adapter.server.app import create_app
from tests.browser.house import QUIETLY, furnished, serving

PICTURES: Final = Path(__file__).parents[2] / "examples" / "pictures"
WIDTH: Final = 1200
VIEWS: Final[tuple[tuple[str, Literal["light", "dark"], int, str], ...]] = (
    ("memories", "light", 800, "/ui/memories?user_id=ada&q=where+does+she+live"),
    ("memory", "light", 800, "/ui/memories/{moved}?user_id=ada"),
    ("graph", "dark", 800, "/ui/graph?user_id=ada"),
    ("trace", "light", 1060, "/ui/traces/{trace}?user_id=ada"),
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
            for name, theme, height, path in VIEWS:
                with browser.new_context(color_scheme=theme, viewport={"width": WIDTH, "height": height}) as context:
                    page = context.new_page()
                    page.goto(f"{address}{path.format(**named)}", wait_until="networkidle")
                    page.screenshot(path=PICTURES / f"{name}.png")


if __name__ == "__main__":
    main()
