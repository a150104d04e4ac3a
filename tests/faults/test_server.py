"""A server that is killed, doubled, on a full disk, without its database: clear answers, nothing acknowledged lost."""

from __future__ import annotations

import signal
import sqlite3
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from itertools import count
from threading import Event
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest
from sqlalchemy import create_engine, make_url, text

from tests.faults.proxy import Proxy
from tests.serving import served, stopped, within_a_minute

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the faults are made by Linux' own means")

ALICE: Final = {"user_id": "alice"}
PROBLEM: Final = "application/problem+json"
SOON: Final = """
from langmem_adapter.cli.app import main
from langmem_adapter.server.jobs import Workers

Workers.__init__.__kwdefaults__["lease"] = 2.0  # the job of a server that was killed need not wait for half a minute
main()
"""
SMALL: Final = """
import pathlib, signal, sys
from langmem_adapter.cli.app import main
from tests.faults.kernel import small_disk

make_space = small_disk(pathlib.Path(sys.argv.pop(1)), 6 << 20)
signal.signal(signal.SIGUSR1, lambda *_: make_space())
main()
"""
END_ALL: Final = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


class Traffic:
    """Callers that add until the server is gone; what it acknowledged, and what it answered else.

    Args:
        address: Of the server.
        name: Unlike that of any other traffic on this database.
    """

    def __init__(self, address: str, name: str = "fact") -> None:
        self.added: list[str] = []
        self.jobs: dict[str, str] = {}
        self.refused: list[httpx.Response] = []
        self.over = Event()
        self._address = address
        self._name = name
        self._numbers = count()

    @property
    def acknowledged(self) -> list[str]:
        """Every text."""
        return [*self.added, *self.jobs.values()]

    def goes_on(self, already: int) -> bool:
        """Whether more was added than so much."""
        return len(self.added) > already + 5

    def go_on(self) -> None:
        """Add until the server is gone."""
        with httpx.Client(base_url=self._address, timeout=60) as http:
            while not self.over.is_set():
                number = next(self._numbers)
                told = f"{self._name} {number}"
                try:
                    answer = http.post("/v1/memories", params={"wait": number % 3 > 0}, json=fact(told))
                except httpx.TransportError:
                    return
                self._note(told, answer)

    def _note(self, told: str, answer: httpx.Response) -> None:
        if answer.status_code == 201:
            self.added.append(told)
        elif answer.status_code == 202:
            self.jobs[answer.json()["id"]] = told
        else:
            self.refused.append(answer)


@contextmanager
def traffic(address: str, name: str = "fact") -> Iterator[Traffic]:
    """Four callers, until the block ends or the server is gone."""
    calling = Traffic(address, name)
    with ThreadPoolExecutor(4) as threads:
        callers = [threads.submit(calling.go_on) for _ in range(4)]
        try:
            within_a_minute(lambda: len(calling.added) >= 10 or calling.refused)
            yield calling
        finally:
            calling.over.set()
    for caller in callers:
        caller.result()


def fact(told: str) -> dict[str, Any]:
    return {"messages": told, "infer": False, **ALICE}


def added(address: str, told: str) -> httpx.Response:
    return httpx.post(f"{address}/v1/memories", json=fact(told), timeout=60)


def found(address: str, asked: str) -> list[str]:
    answer = httpx.post(f"{address}/v1/search", json={"query": asked, "k": 3, **ALICE}, timeout=60)
    return [hit["text"] for hit in answer.raise_for_status().json()["results"]]


def texts(address: str) -> Counter[str]:
    page = httpx.get(f"{address}/v1/memories", params={"k": 10_000, **ALICE}, timeout=60).raise_for_status().json()
    return Counter(item["text"] for item in page["items"])


def all_done(address: str, jobs: Iterable[str]) -> None:
    with httpx.Client(base_url=address, timeout=60) as http:
        for job in jobs:
            within_a_minute(partial(_is_done, http, job))


def _is_done(http: httpx.Client, job: str) -> bool:
    return bool(http.get(f"/v1/jobs/{job}").json().get("state") == "done")


def unavailable(answer: httpx.Response) -> str:
    """What a server says that can do nothing at the moment."""
    assert (answer.status_code, answer.headers["content-type"]) == (503, PROBLEM), answer.text
    detail = str(answer.json()["detail"])
    assert all(word not in detail for word in ("/", "127.0.0.1", "postgres", ".db")), "it says where the database is"
    return detail


# ── stopped and killed ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_serve_restarted_under_traffic_has_each_acknowledged_add_once(tmp_path: Path, number: int) -> None:
    database = tmp_path / "memory.db"
    with served(database, program=("-c", SOON)) as (first, address), traffic(address) as before:
        first.send(number)
        assert first.end().returncode == (0 if number == signal.SIGTERM else -number)
    assert not before.refused
    with served(database, program=("-c", SOON)) as (second, address):
        all_done(address, before.jobs)
        kept = texts(address)
        stopped(second)
    assert kept.keys() >= {*before.acknowledged}
    assert set(kept.values()) == {1}


# ── two of them ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.getfixturevalue("postgres_url")) if request.param == "postgres" else str(tmp_path / "memory.db")


def test_serve_twice_on_one_database(database: str) -> None:
    with served(database) as (first, one), served(database) as (second, other):
        for number, (here, there) in enumerate([(one, other), (other, one)] * 3):
            assert added(here, f"number {number} is written").status_code == 201
            assert f"number {number} is written" in found(there, f"number {number}")
        with traffic(one, "one") as lost, traffic(other, "other") as kept:
            first.send(signal.SIGKILL)
            first.end()
            within_a_minute(partial(kept.goes_on, len(kept.added)))
        assert not [answer.text for answer in (*lost.refused, *kept.refused)]
        assert texts(other).keys() >= {*lost.added, *kept.added}
        assert set(texts(other).values()) == {1}
        stopped(second)


# ── a database that cannot be written ───────────────────────────────────────────────────────────────────────────────


def test_serve_on_a_full_disk_answers_503_and_recovers(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    with served(folder / "memory.db", program=("-c", SMALL, folder)) as (running, address):
        acknowledged, refusal = _filled_up(address)
        assert "database or disk is full (free some space" in refusal or "disk I/O error" in refusal
        later = "later" + " words" * 6_000  # a job may still find room, its memory does not
        job = httpx.post(f"{address}/v1/memories", params={"wait": False}, json=fact(later))
        told = httpx.post(f"{address}/memories", json=fact("one more" * 10_000))
        assert (told.status_code, list(told.json())) == (503, ["detail"])
        assert found(address, "number 3") and texts(address) == acknowledged
        running.send(signal.SIGUSR1)
        within_a_minute(lambda: added(address, "after space was made").status_code == 201)
        if job.status_code == 202:
            all_done(address, [job.json()["id"]])
            acknowledged[later] += 1
        assert texts(address) == acknowledged + Counter(["after space was made"])
        stopped(running)


def _filled_up(address: str) -> tuple[Counter[str], str]:
    acknowledged = Counter[str]()
    for number in range(500):
        told = f"number {number}{' words' * 6_000}"
        answer = added(address, told)
        if answer.status_code != 201:
            return acknowledged, unavailable(answer)
        acknowledged[told] += 1
    raise AssertionError("the disk never became full")


def test_serve_answers_503_while_locked_and_search_goes_on(tmp_path: Path) -> None:
    database = tmp_path / "memory.db"
    with served(database, LANGMEM_ADAPTER_BUSY_TIMEOUT="0.2") as (running, address):
        added(address, "green tea")
        with closing(sqlite3.connect(database, isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            for answer in (added(address, "meanwhile"), httpx.delete(f"{address}/v1/memories", params=ALICE)):
                assert "another process holds the write lock" in unavailable(answer)
            assert found(address, "green tea") == ["green tea"]
        assert added(address, "afterwards").status_code == 201
        assert texts(address).keys() == {"green tea", "afterwards"}
        stopped(running)


# ── a database that is gone ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[Proxy]:
    with Proxy(str(make_url(postgres_url).query["host"])) as proxy:
        yield proxy


@pytest.mark.postgres
def test_serve_answers_503_without_its_database_and_recovers(postgres_url: str, proxy: Proxy) -> None:
    with served(proxy.url(postgres_url)) as (running, address), httpx.Client(base_url=address, timeout=60) as http:
        assert added(address, "green tea").status_code == 201
        proxy.cut()
        for answer in (added(address, "meanwhile"), http.post("/v1/search", json={"query": "green tea", **ALICE})):
            assert unavailable(answer).startswith("the database ended the connection, or does not answer")
        assert (http.get("/v1/ready").status_code, http.get("/v1/health").status_code) == (503, 200)
        proxy.mend()
        assert found(address, "green tea") == ["green tea"]
        assert added(address, "afterwards").status_code == 201
        assert texts(address).keys() == {"green tea", "afterwards"}
        log = stopped(running)
    assert "StorageError: postgresql+psycopg://" in log and "meanwhile" not in log


@pytest.mark.postgres
def test_serve_loses_no_add_where_connections_are_ended(postgres_url: str) -> None:
    admin = create_engine(postgres_url, isolation_level="AUTOCOMMIT")
    with served(postgres_url) as (running, address):
        with traffic(address) as calling:
            for _ in range(5):
                already = len(calling.added)
                with admin.connect() as connection:
                    connection.execute(text(END_ALL))
                within_a_minute(partial(calling.goes_on, already))
        states = {unavailable(answer) for answer in calling.refused}
        all_done(address, calling.jobs)
        kept = texts(address)
        stopped(running)
    admin.dispose()
    assert kept.keys() >= {*calling.acknowledged}, states
    assert set(kept.values()) == {1}
