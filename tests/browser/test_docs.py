"""`/docs` as a browser shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langmem_adapter.server.app import create_app

if TYPE_CHECKING:
    from collections.abc import Callable

    from langmem_adapter.memory import Memory
    from tests.browser.conftest import Visit


def test_the_page_opens(memory: Memory, served: Callable[..., str], visit: Callable[..., Visit]) -> None:
    address = served(create_app(memory, auth="local"))
    seen = visit()
    seen.page.goto(f"{address}/docs")
    assert "langmem_adapter" in seen.page.title()
    assert seen.asked == {address}
