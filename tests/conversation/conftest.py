"""A Redis server on a free port of this machine, which keeps nothing on disk."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(scope="session")
def redis_program() -> str:
    """The path of `redis-server`; CI must have it, elsewhere tests that need it are skipped."""
    program = shutil.which("redis-server")
    if program is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(
            "redis-server is not installed (apt-get install redis-server)"
        )
    return str(program)


@pytest.fixture
def redis_server(redis_program: str) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts a server on a port; all of them are stopped at the end."""
    started: list[subprocess.Popen[bytes]] = []

    def start(port: int, *options: str) -> subprocess.Popen[bytes]:
        arguments = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", *options]
        started.append(subprocess.Popen([redis_program, *arguments], stdout=subprocess.DEVNULL))
        _wait_for(port)
        return started[-1]

    yield start
    for server in started:
        server.kill()
        server.wait()


@pytest.fixture
def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _wait_for(port: int) -> None:
    for _ in range(600):
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail("redis-server did not begin to listen")
