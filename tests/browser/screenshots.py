"""Takes the pictures of README and guide, and records the demo: `make screenshots`."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from langmem_adapter.server.app import create_app
from tests.browser.house import QUIETLY, furnished, serving
from tests.programs import COMMAND

PICTURES: Final = Path(__file__).parents[2] / "examples" / "pictures"
WIDTH: Final = 1200
COLUMNS: Final = 88
VIEWS: Final[tuple[tuple[str, Literal["light", "dark"], int, str], ...]] = (
    ("memories", "light", 800, "/ui/memories?user_id=ada&q=where+does+Maya+work"),
    ("memory", "light", 800, "/ui/memories/{moved}?user_id=ada"),
    ("graph", "dark", 800, "/ui/graph?user_id=ada"),
    ("trace", "light", 1060, "/ui/traces/{trace}?user_id=ada"),
)


def record_demo() -> str:
    """The first part of `langmem-adapter demo` on a terminal, as SVG; it loads no fonts from elsewhere."""
    looks = {"FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    with TemporaryDirectory() as folder:
        command = [sys.executable, *COMMAND, "demo", "-d", "memory.db"]
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, **looks}, capture_output=True, text=True, check=True
        )
        output = done.stdout.replace(f"{folder}/", "")
    title, conversation, *_ = re.split(r"\n(?=\S*── )", output)
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text("$ langmem-adapter demo"), Text.from_ansi(f"{title}\n{conversation}"), sep="\n")
    svg = console.export_svg(title="langmem-adapter demo", theme=MONOKAI, unique_id="demo")
    svg = re.sub(r' textLength="[\d.]+"(?=[^>]*>[^<]*[\u3000-\u9fff])', "", svg)  # Rich counts wide characters once
    return re.sub(r"@font-face \{.*?\}\n", "", svg, flags=re.DOTALL)


def main() -> None:
    """Take them all."""
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / "recording.svg").write_text(record_demo(), encoding="utf-8")
    found = shutil.which("chromium")
    if found is None:
        sys.exit("no chromium; install it: apt-get install chromium fonts-noto-cjk")
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
