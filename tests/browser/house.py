"""A memory with something to look at in every view, a server for it, and how a browser is started."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Final

import uvicorn

from langmem_adapter.memory.memory import Memory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from starlette.types import ASGIApp

__all__ = ["QUIETLY", "furnished", "serving"]

QUIETLY: Final = [
    "--headless",
    "--no-sandbox",  # whoever runs the tests may be root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

_SAID: Final = (
    ("2025-03-02", "Hi, I am Ada. I live in Kyoto. My dog is called Rex."),
    ("2025-03-09", "I am vegetarian and I like jazz."),
    ("2025-05-11", "My sister Maya works at Globex in Berlin."),
    ("2025-09-10", "I moved to Lyon last week."),
    ("2025-11-20", "I work at Acme as a designer."),
    ("2026-01-15", "My brother Tom lives in Oslo, and his wife is called Ingrid."),
    ("2026-02-03", "I am allergic to peanuts."),
    ("2026-04-18", "I play the cello on Sundays."),
    ("2026-06-30", "I work at Initech now, as a lead designer."),
    ("2026-09-01", "My favourite colour is green."),
)


def furnished(path: Path) -> Memory:
    """A memory of three people, who told it things over a year and a half.

    Args:
        path: Where its database is made.
    """
    memory = Memory(path, graph=True)
    for day, text in _SAID:
        memory.add(text, user_id="ada", timestamp=f"{day}T09:30:00Z")
    memory.add("我住在北京，我喜欢喝茶。", user_id="小明", timestamp="2026-05-01T08:00:00Z")
    memory.add("I like coffee.", user_id="bob", agent_id="guide", timestamp="2026-07-01T08:00:00Z")
    return memory


@contextmanager
def serving(app: ASGIApp) -> Iterator[str]:
    """Serves an app; its address."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, ws="none", lifespan="on"))
        thread = Thread(target=server.run, kwargs={"sockets": [door]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{door.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
