"""A real browser, and real servers for it: what a page does in the hands of somebody who looks at it."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import sync_playwright

from langmem_adapter.memory.memory import Memory
from tests.browser.house import QUIETLY, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, ConsoleMessage, Page
    from starlette.types import ASGIApp


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "memory.db", graph=True) as memory:
        yield memory


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser; not of the session, since asynchronous tests of this process cannot run beside Playwright's loop."""
    found = shutil.which("chromium")
    if found is None:
        missing = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        missing("no chromium; install it: apt-get install chromium fonts-noto-cjk")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=QUIETLY)
        yield browser
        browser.close()


@pytest.fixture
def served() -> Iterator[Callable[[ASGIApp], str]]:
    """Serves apps until the test ends: takes one, gives its address."""
    with ExitStack() as undo:
        yield lambda app: undo.enter_context(serving(app))


@pytest.fixture
def visit(chromium: Browser) -> Iterator[Callable[..., Visit]]:
    """Opens pages until the test ends: takes options of Playwright's `new_context`."""
    with ExitStack() as undo:
        yield lambda **options: undo.enter_context(_visiting(chromium, options))


@dataclass
class Visit:
    """A page in a browser of its own, and what it did that was not asked of it.

    Attributes:
        page: Where to go, look and click.
        said: What came to the console, refusals of the content security policy among it, and errors of scripts.
        asked: Addresses, as `http://127.0.0.1:8765`, of whom it sent requests to.
    """

    page: Page
    said: list[str] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.add(_origin(request.url)))

    def _hear(self, message: ConsoleMessage) -> None:
        self.said.append(f"{message.type}: {message.text}")


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


@contextmanager
def _visiting(browser: Browser, options: dict[str, Any]) -> Iterator[Visit]:
    with browser.new_context(**options) as context:
        context.set_default_timeout(60_000)  # of a machine that is busy with other tests
        yield Visit(context.new_page())
