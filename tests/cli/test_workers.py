"""`serve --workers`: real processes, which share one database."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from langmem_adapter.memory.memory import Memory
from langmem_adapter.storage import jobs
from tests.programs import COMMAND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="/proc tells who the workers are"),
    pytest.mark.timeout(300),
]


def in_the_end(what: Callable[[], Any]) -> Any:
    until = time.monotonic() + 120
    while not (found := what()):
        assert time.monotonic() < until, "it never came"
        time.sleep(0.02)
    return found


@contextmanager
def served(url: str, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], httpx.Client]]:
    """Two workers, with all their processes ended whatever happens."""
    command = [sys.executable, *COMMAND, "-d", url, "serve", "--port", "0", "--workers", "2", "--metrics"]
    log = (folder / "out").open("wb"), (folder / "err").open("wb")
    running = subprocess.Popen(command, stdout=log[0], stderr=log[1], start_new_session=True)
    try:
        address = in_the_end(lambda: (folder / "out").read_text().strip() or running.poll() is not None)
        assert isinstance(address, str), (folder / "err").read_text()
        with httpx.Client(base_url=address, timeout=120, headers={"Connection": "close"}) as http:
            yield running, http
    finally:
        for each in log:
            each.close()
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()


def workers(parent: int) -> set[int]:
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    told = {int(child): Path(f"/proc/{child}/cmdline").read_bytes() for child in children}
    return {child for child, command in told.items() if b"spawn_main" in command}


def requests(http: httpx.Client, route: str) -> float:
    found = [
        sample.value
        for family in text_string_to_metric_families(http.get("/metrics").text)
        for sample in family.samples
        if sample.name.endswith("_request_duration_seconds_count") and sample.labels["route"] == route
    ]
    return sum(found)


def test_serve_workers_share_a_database_and_are_replaced(tmp_path: Path) -> None:
    url = str(tmp_path / "memory.db")
    with Memory(url) as memory, served(url, tmp_path) as (running, http):
        began = in_the_end(lambda: len(found := workers(running.pid)) == 2 and found)
        said = [f"Word for word {number}" for number in range(6)]
        for text in said[:3]:
            assert http.post("/memories", json={"messages": text, "user_id": "ann", "infer": False}).status_code == 200
        in_the_end(lambda: requests(http, "/memories") == 3)  # counted once it is answered
        os.kill(min(began), signal.SIGKILL)
        now = in_the_end(lambda: len(found := workers(running.pid)) == 2 and min(began) not in found and found)
        assert max(began) in now
        for text in said[3:]:
            body = {"messages": text, "user_id": "ann", "infer": False}
            where = http.post("/v1/memories?wait=false", json=body).headers["location"]
            assert http.get(f"{where}/events").text.count("event: done") == 1
        assert sorted(item.text for item in memory.get_all(user_id="ann")) == said
        in_the_end(lambda: requests(http, "/v1/memories") == 3)
        assert requests(http, "/memories") == 3
        write = memory.parts.database.write
        (held,) = write(partial(jobs.submit, requests=[{"messages": "I like tea.", "user_id": "ann"}], most=9))
        write(partial(jobs.take, owner="somebody", lease=600))
        with http.stream("GET", f"/v1/jobs/{held.id}/events") as events:
            lines = events.iter_lines()
            assert next(lines) == "event: running"
            left = workers(running.pid)
            os.kill(running.pid, signal.SIGTERM)
            assert not [line for line in lines if line.startswith("event:")]
        assert running.wait(120) == 0
        in_the_end(lambda: have_ended(left))


@pytest.mark.postgres
def test_serve_workers_end_with_a_killed_parent(postgres_url: str, tmp_path: Path) -> None:
    with served(postgres_url, tmp_path) as (running, _):
        left = in_the_end(lambda: len(found := workers(running.pid)) == 2 and found)
        running.kill()
        running.wait()
        in_the_end(lambda: have_ended(left))


def have_ended(processes: set[int]) -> bool:
    return not any(Path(f"/proc/{process}/cmdline").exists() for process in processes)
