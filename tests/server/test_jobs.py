"""Adds that nobody waits for: done once, whoever dies; told as they go on; seen by their own scope alone; forgotten."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import time
from contextlib import closing
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import Field

from langmem_adapter.errors import ConflictError, MemoryNotFoundError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.scope import Scope
from langmem_adapter.server.app import create_app
from langmem_adapter.server.jobs import Workers, result_of
from langmem_adapter.storage import jobs
from langmem_adapter.testing import ScriptedChatModel
from langmem_adapter.twins import run_in_executor
from tests.cases import each
from tests.faults.processes import start
from tests.server.conftest import ALICE, HERE, client, key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from langmem_adapter.storage.jobs import Job

LEASE = 0.5
_PATIENCE = 60.0


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.getfixturevalue("postgres_url")) if request.param == "postgres" else str(tmp_path / "memory.db")


@pytest.fixture
def memory(url: str) -> Iterator[Memory]:
    with Memory(url) as memory:
        yield memory


def asked(text: str = "I like tea.", user: str = "alice", **more: Any) -> dict[str, Any]:
    return {"messages": text, "user_id": user, **more}


def submitted(memory: Memory, *requests: Mapping[str, Any], most: int = 100) -> list[Job]:
    return memory.parts.database.write(partial(jobs.submit, requests=requests, most=most))


def job(memory: Memory, job_id: str) -> Job:
    found: Job = memory.parts.reading(jobs.read, job_id, None)
    return found


def taken(memory: Memory, owner: str, lease: float = 60) -> Job | None:
    return memory.parts.database.write(partial(jobs.take, owner=owner, lease=lease))


def texts(memory: Memory, user: str = "alice") -> list[str]:
    return [item.text for item in memory.get_all(user_id=user, k=1000)]


async def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE
    while not holds():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


async def ended(memory: Memory, *ids: str, lease: float = 30) -> list[Job]:
    async with Workers(memory, lease=lease).running():
        await until(lambda: all(job(memory, each).state in jobs.FINISHED for each in ids))
    return [job(memory, each) for each in ids]


def test_jobs_are_taken_in_order_by_one_worker_each(memory: Memory) -> None:
    first, second = submitted(memory, asked(), asked("I like jazz."))
    held = [taken(memory, owner) for owner in ("one", "two", "three")]
    assert [each and each.id for each in held] == [first.id, second.id, None]
    assert memory.parts.database.write(partial(jobs.release, owner="one"))
    again = taken(memory, "three")
    assert again is not None and (again.id, again.attempts) == (first.id, 1)


def test_worker_that_lost_a_job_cannot_renew_or_finish_it(memory: Memory) -> None:
    (one,) = submitted(memory, asked())
    taken(memory, "slow", lease=-1)
    assert taken(memory, "next") is not None
    write = memory.parts.database.write
    assert not write(partial(jobs.renew, job=one, owner="slow", lease=60, progress="decide"))
    assert not write(partial(jobs.finish, job=one, owner="slow", result={}))
    assert not write(partial(jobs.release, owner="slow"))
    assert write(partial(jobs.finish, job=one, owner="next", error={"status": 400, "detail": "no"}))
    assert not write(partial(jobs.renew, job=one, owner="next", lease=60, progress=None))
    assert job(memory, one.id).error == {"status": 400, "detail": "no"}


def test_idempotency_key_names_one_job_in_its_scope(memory: Memory) -> None:
    hers, again, his = submitted(memory, *(asked(user=user, idempotency_key="k") for user in ("alice", "alice", "bob")))
    assert hers == again and hers.id != his.id
    taken(memory, "one")
    memory.parts.database.write(partial(jobs.finish, job=hers, owner="one", error={"status": 409, "detail": "busy"}))
    (anew,) = submitted(memory, asked(idempotency_key="k"))
    assert (anew.id, anew.state, anew.attempts, anew.error) == (hers.id, "waiting", 0, None)


def test_full_queue_takes_all_of_some_jobs_or_none(memory: Memory) -> None:
    submitted(memory, asked(), most=2)
    with pytest.raises(jobs.QueueFullError, match="wait"):
        submitted(memory, asked(), asked(), most=2)
    assert taken(memory, "one") is not None and taken(memory, "one") is None


def test_job_that_kills_its_workers_fails(memory: Memory) -> None:
    (one,) = submitted(memory, asked())
    held = [taken(memory, f"worker {number}", lease=-1) for number in range(7)]
    assert [each is not None for each in held] == [True] * 5 + [False] * 2
    assert job(memory, one.id).state == "failed"
    assert texts(memory) == []


def test_job_is_erased_by_purge(memory: Memory) -> None:
    hers, his = submitted(memory, asked("I like Shibboleth tea."), asked(user="bob"))
    assert memory.purge(user_id="alice").jobs == 1
    with pytest.raises(MemoryNotFoundError):
        job(memory, hers.id)
    assert job(memory, his.id) == his
    assert memory.reset().jobs == 1


async def test_job_keeps_the_result_and_drops_the_request(memory: Memory) -> None:
    (one,) = submitted(memory, asked("我喜欢绿茶。", metadata={"from": "chat"}))
    (done,) = await ended(memory, one.id)
    result = result_of(memory, done)
    assert result is not None and [change.event for change in result.results] == ["ADD"]
    assert result.trace_id is not None and memory.trace(result.trace_id).turns[0].text == "我喜欢绿茶。"
    assert (done.state, done.attempts, {*done.request}) == ("done", 1, {"idempotency_key"})
    assert [item.metadata for item in memory.get_all(user_id="alice")] == [{"from": "chat"}]


async def test_failed_job_has_an_error_and_the_next_job_runs(
    memory: Memory, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = ScriptedChatModel(replies=["no JSON", "none either", RuntimeError("the provider is out")])
    with Memory(url, model=wrong, on_bad_reply="raise") as thinking:  # the same database
        first = submitted(memory, asked("secret tea"))[0]
        (unread,) = await ended(thinking, first.id)
        second = submitted(memory, asked("secret tea"))[0]
        (broken,) = await ended(thinking, second.id)
    assert (unread.state, unread.error and unread.error["status"]) == ("failed", 502)
    assert broken.error is not None and broken.error["status"] == 502
    assert broken.error["detail"] == "ScriptedChatModel scripted failed"
    assert f"job {second.id}: ModelError: ScriptedChatModel scripted failed (RuntimeError)" in caplog.messages
    assert "secret tea" not in "".join(record.getMessage() for record in caplog.records)
    assert texts(memory) == []


class Waits(ScriptedChatModel):
    """Never replies; says when it was called, and when that was called off."""

    began: asyncio.Event = Field(default_factory=asyncio.Event)
    called_off: asyncio.Event = Field(default_factory=asyncio.Event)

    async def _agenerate(self, *_: Any, **__: Any) -> Any:
        self.began.set()
        try:
            return await asyncio.Event().wait()
        finally:
            self.called_off.set()


async def test_job_purged_while_it_runs_writes_nothing(memory: Memory, url: str) -> None:
    with Memory(url, model=(model := Waits(replies=[]))) as slow:
        async with Workers(slow, lease=LEASE).running():
            submitted(memory, asked())
            await asyncio.wait_for(model.began.wait(), _PATIENCE)
            await memory.apurge(user_id="alice")
            await asyncio.wait_for(model.called_off.wait(), _PATIENCE)
    assert texts(memory) == []


@each("owner", ["worker", "another"])
def test_add_for_an_erased_or_lost_job_is_refused(memory: Memory, owner: str) -> None:
    (one,) = submitted(memory, asked())
    assert taken(memory, "worker") is not None
    context = copy_context()
    context.run(jobs.carry_out, one, owner)
    if owner == "worker":
        memory.purge(user_id="alice")
    with pytest.raises(MemoryNotFoundError, match=one.id):
        context.run(memory.add, **one.request)
    assert not texts(memory) and not memory.traces(user_id="alice").items


async def test_server_that_ends_releases_its_job(memory: Memory, url: str) -> None:
    (one,) = submitted(memory, asked())
    with Memory(url, model=(model := Waits(replies=[]))) as slow:
        async with Workers(slow).running():
            await asyncio.wait_for(model.began.wait(), _PATIENCE)
            await until(lambda: job(memory, one.id).progress == "extract")
    assert job(memory, one.id).state == "waiting"
    (done,) = await ended(memory, one.id)
    assert (done.state, done.attempts, texts(memory)) == ("done", 1, ["Likes tea"])


async def test_workers_end_at_any_moment_after_a_job_came(tmp_path: Path) -> None:
    """`asyncio.wait_for` of Python 3.11 overlooks a cancellation in the moment in which what it waits for is there."""

    async def end_soon(steps: int) -> None:
        async with (workers := Workers(opened)).running():
            await asyncio.sleep(0.1)  # they find nothing, and wait
            await workers.submit([asked()])
            for _ in range(steps):
                await asyncio.sleep(0)

    with Memory(tmp_path / "memory.db") as opened:
        for steps in range(4):
            ends = asyncio.create_task(end_soon(steps))
            assert await asyncio.wait({ends}, timeout=_PATIENCE) == ({ends}, set())


async def test_job_uses_no_attempt_when_the_database_refuses_the_write(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database = tmp_path / "memory.db"
    with Memory(database) as memory, closing(sqlite3.connect(database)) as raw:
        raw.execute("CREATE TRIGGER refuse BEFORE INSERT ON memories BEGIN SELECT RAISE(ABORT, 'no room'); END")
        (one,) = submitted(memory, asked())
        async with Workers(memory).running():
            await until(lambda: "jobs wait" in caplog.text)
            raw.execute("DROP TRIGGER refuse")
            await until(lambda: job(memory, one.id).state == "done")
        assert (job(memory, one.id).attempts, texts(memory)) == (1, ["Likes tea"])


def work_on(database: str) -> None:
    """Work until killed."""
    with Memory(database) as opened:
        asyncio.run(_work(opened))


async def _work(opened: Memory) -> None:
    async with Workers(opened, lease=LEASE).running():
        await asyncio.sleep(_PATIENCE)


def die_at_work(database: str, *, after_the_write: bool) -> None:
    """Take a job, and be killed before its add is written, or after that and before the job is ended."""

    def die(*_: object, **__: object) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)

    opened = Memory(database)
    if after_the_write:
        jobs.finish = die
    else:
        opened.parts.ledger.aapply = die  # type: ignore[method-assign]
    asyncio.run(_work(opened))


@pytest.mark.parametrize("after_the_write", [False, True])
async def test_job_of_a_killed_worker_is_done_once_by_another(
    tmp_path: Path,
    after_the_write: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    database = str(tmp_path / "memory.db")
    with Memory(database) as memory:
        (one,) = submitted(memory, asked("I like tea.", infer=False))
        dies = start(partial(die_at_work, after_the_write=after_the_write), database)
        await run_in_executor(dies.join, _PATIENCE)
        assert dies.exitcode == -signal.SIGKILL
        assert (job(memory, one.id).state, len(texts(memory))) == ("running", int(after_the_write))
        (done,) = await ended(memory, one.id)
        assert (done.state, texts(memory)) == ("done", ["I like tea."])
        assert done.attempts > 1  # on a busy machine the one that dies may itself be late, and take it twice
        result = result_of(memory, done)
        assert result is not None and [change.text for change in result.results] == ["I like tea."]


async def test_two_workers_share_one_file_and_do_each_job_once(tmp_path: Path) -> None:
    database = str(tmp_path / "memory.db")
    with Memory(database) as memory:
        accepted = submitted(memory, *(asked(f"fact {number}", infer=False) for number in range(30)))
        others = [start(work_on, database) for _ in range(2)]
        try:
            await until(lambda: all(job(memory, each.id).state == "done" for each in accepted))
        finally:
            for other in others:
                other.kill()
                other.join()
        assert sorted(texts(memory)) == sorted(f"fact {number}" for number in range(30))


def test_job_is_either_begun_or_cancelled(memory: Memory) -> None:
    cancel = memory.parts.database.write
    one, two, three = submitted(memory, asked(), asked("I like jazz."), asked(user="bob"))
    with pytest.raises(MemoryNotFoundError):
        cancel(partial(jobs.cancel, job_id=three.id, scope=ALICE))
    cancel(partial(jobs.cancel, job_id=one.id, scope=ALICE))
    held = taken(memory, "worker")
    assert held is not None and held.id == two.id
    with pytest.raises(ConflictError, match="begun"):
        cancel(partial(jobs.cancel, job_id=two.id, scope=None))
    assert (
        memory.parts.database.write(partial(jobs.release, owner="worker")) == 1
    )  # what it did meanwhile may be written
    with pytest.raises(ConflictError, match="begun"):
        cancel(partial(jobs.cancel, job_id=two.id, scope=None))
    with pytest.raises(MemoryNotFoundError):
        cancel(partial(jobs.cancel, job_id=one.id, scope=None))
    assert memory.parts.reading(partial(jobs.page, scope=None, k=9))[0] == [job(memory, three.id), job(memory, two.id)]


on_a_file = pytest.mark.parametrize("url", ["sqlite"], indirect=True)


def events(http: TestClient, where: str, headers: Mapping[str, str]) -> list[str]:
    with http.stream("GET", f"{where}/events", headers=dict(headers)) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        return [line.removeprefix("event: ") for line in answer.iter_lines() if line.startswith("event: ")]


@on_a_file
def test_job_is_accepted_and_visible_in_its_scope_only(memory: Memory) -> None:
    hers, his = key(memory, ALICE), key(memory, Scope(user_id="bob"))
    with client(memory) as http:
        answer = http.post("/v1/memories?wait=false", json={"messages": "I like tea."}, headers=hers)
        assert (answer.status_code, answer.json()["user_id"]) == (202, "alice")
        where = answer.headers["location"]
        assert events(http, where, hers)[-1] == "done"
        told = http.get(where, headers=hers).json()
        assert [change["text"] for change in told["result"]["results"]] == ["Likes tea"]
        for path in (where, f"{where}/events", "/v1/jobs/none"):
            assert http.get(path, headers=his).status_code == 404
        many = {"items": [{"messages": "I like jazz.", "run_id": f"r{number}"} for number in range(3)]}
        answer = http.post("/v1/memories/batch?wait=false", json=many, headers=hers)
        for each in answer.json()["jobs"]:
            assert events(http, f"/v1/jobs/{each['id']}", hers)[-1] == "done"
    assert {item.scope.run_id for item in memory.get_all(user_id="alice")} == {None, "r0", "r1", "r2"}


@on_a_file
def test_jobs_are_listed_and_cancelled_within_their_scope(memory: Memory) -> None:
    hers, his, admins = key(memory, ALICE), key(memory, Scope(user_id="bob")), key(memory, None, "admin")
    reads = key(memory, ALICE, "read")
    first, second, other = submitted(memory, asked(), asked("I like jazz.", run_id="r"), asked(user="bob"))
    http = client(memory)  # without a lifespan nobody carries them out

    def listed(headers: Mapping[str, str], **query: Any) -> list[str]:
        ids, query = [], {"k": 1, **query}
        while True:
            page = http.get("/v1/jobs", params=query, headers=dict(headers)).json()
            ids += [each["id"] for each in page["items"]]
            if page["next"] is None:
                return ids
            query["after"] = page["next"]

    assert listed(hers) == [second.id, first.id]
    assert listed(hers, run_id="r") == listed(admins, run_id="r") == [second.id]
    assert (listed(hers, state="waiting"), listed(hers, state="done")) == ([second.id, first.id], [])
    assert listed(admins) == [other.id, second.id, first.id]
    assert http.get("/v1/jobs", headers=reads).status_code == 403
    assert http.get("/v1/jobs", headers=key(memory, None)).status_code == 403
    assert http.delete(f"/v1/jobs/{first.id}", headers=his).status_code == 404
    assert http.delete(f"/v1/jobs/{first.id}", headers=reads).status_code == 403
    assert http.delete(f"/v1/jobs/{first.id}", headers=hers).status_code == 204
    assert http.get(f"/v1/jobs/{first.id}", headers=hers).status_code == 404
    taken(memory, "worker")
    answer = http.delete(f"/v1/jobs/{second.id}", headers=hers)
    assert (answer.status_code, answer.headers["content-type"]) == (409, "application/problem+json")


@on_a_file
def test_invalid_add_is_refused_before_it_is_a_job_and_a_full_queue_answers_429(memory: Memory) -> None:
    with client(memory, auth="local") as http:
        for body in (asked(""), asked("x", memory_type="odd"), {"messages": "x"}, asked("nul \x00")):
            answer = http.post("/v1/memories?wait=false", json=body)
            assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    assert taken(memory, "one") is None
    submitted(memory, *([asked()] * 1_000), most=1_000)
    answer = client(memory, auth="local").post("/v1/memories?wait=false", json=asked())
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "10")


@on_a_file
def test_app_without_lifespan_carries_out_jobs(memory: Memory) -> None:
    http = client(memory, auth="local")  # no `with`: no lifespan
    where = http.post("/v1/memories?wait=false", json=asked()).headers["location"]
    assert http.get(where).json()["state"] in {"waiting", "running", "done"}
    with http:
        assert events(http, where, {})[-1] == "done"
    assert texts(memory) == ["Likes tea"]
    outer = FastAPI()
    outer.mount("/memory", create_app(memory, auth="local"))
    with TestClient(outer, client=HERE) as mounted:
        where = mounted.post("/memory/v1/memories?wait=false", json=asked()).headers["location"]
        assert where.startswith("/memory/v1/jobs/")
        assert events(mounted, where, {})[-1] == "done"
        assert mounted.get("/memory/v1/jobs/none").headers["content-type"] == "application/problem+json"
