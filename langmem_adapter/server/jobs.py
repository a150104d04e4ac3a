"""Background work of the server: workers carry out adds sent with `wait=false`, as tasks on its event loop; rebuilds."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager, suppress
from contextvars import Context, copy_context
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.runnables.config import var_child_runnable_config

from langmem_adapter.errors import LangmemAdapterError, ModelError, StorageError
from langmem_adapter.pipeline.run import run_of
from langmem_adapter.records.results import AddResult, Usage
from langmem_adapter.server.log import logged
from langmem_adapter.server.problems import answer_of
from langmem_adapter.storage import jobs
from langmem_adapter.twins import in_thread, run_in_executor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from concurrent.futures import Future

    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.storage.jobs import Job

_log = logging.getLogger("langmem_adapter.server")
_TICK: Final = 0.2  # seconds between two looks at how far a job is
_LOOK: Final = 1.0  # seconds between two looks for jobs that another process accepted, or left behind
_AT_ONCE: Final = 4
_MOST_WAITING: Final = 1_000


class Workers:
    """Some workers for the jobs of one memory; other processes may have some for the same database.

    They begin with the app's lifespan, or with the first job: a mounted app has no lifespan. Another worker takes a job after
    *lease* seconds without a renewal; *most* jobs may wait.
    """

    def __init__(self, memory: Memory, *, lease: float = 30.0, most: int = _MOST_WAITING) -> None:
        self._memory = memory
        self._lease = lease
        self._most = most
        self._tasks: list[asyncio.Task[None]] = []
        self._called = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Work until the end of the block; a job that is under way then goes back into the queue."""
        self._start()
        try:
            yield
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def submit(self, requests: Sequence[Mapping[str, Any]]) -> list[Job]:
        """Accept all of some adds or none, each a mapping of `Memory.add`'s arguments of plain JSON types."""
        parts = self._memory.parts
        await run_in_executor(lambda: [run_of(request, parts.longest) for request in requests])
        accepted = await parts.database.awrite(partial(jobs.submit, requests=requests, most=self._most))
        self._start()
        self._called.set()
        return accepted

    def _start(self) -> None:
        # Contract: tasks end with their event loop; on another one there are new ones.
        # tests/server/test_jobs.py::test_app_without_lifespan_carries_out_jobs
        if all(task.done() for task in self._tasks):
            self._called = asyncio.Event()
            # In a new context: they may begin within a request, and jobs of others do not belong to its trace.
            begin = partial(asyncio.create_task, context=Context())
            self._tasks = [begin(self._work(uuid4().hex)) for _ in range(_AT_ONCE)]

    async def _work(self, owner: str) -> None:
        parts = self._memory.parts
        try:
            while not parts.database.closed:
                try:
                    self._called.clear()
                    job = None
                    if await run_in_executor(parts.reading, jobs.are_ready):
                        job = await parts.database.awrite(partial(jobs.take, owner=owner, lease=self._lease))
                    if job is not None:
                        self._called.set()  # there may be more, for the others
                        await self._carry_out(job, owner)
                        continue
                except StorageError as error:
                    _log.warning("jobs wait, since the database cannot be used: %s", logged(error))
                    await self._release(owner)
                    await asyncio.sleep(_LOOK)
                with suppress(TimeoutError):
                    # Contract: not `wait_for`, which overlooks a cancellation on Python 3.11.
                    # tests/server/test_jobs.py::test_workers_end_at_any_moment_after_a_job_came
                    async with asyncio.timeout(_LOOK):
                        await self._called.wait()
        except asyncio.CancelledError:
            await self._release(owner)
            raise

    async def _release(self, owner: str) -> None:
        with suppress(StorageError):  # then the lease runs out
            await self._memory.parts.database.awrite(partial(jobs.release, owner=owner))

    async def _carry_out(self, job: Job, owner: str) -> None:
        stages = _Stages()
        around = copy_context()
        around.run(var_child_runnable_config.set, {"callbacks": [stages]})
        around.run(jobs.carry_out, job, owner)
        work = asyncio.create_task(self._memory.aadd(**job.request), context=around)
        try:
            if not await self._keep_lease(work, stages, job, owner):
                return  # erased, or another worker's by now
        finally:
            work.cancel()
            await asyncio.wait({work})
        await self._finish(job, owner, work)

    async def _keep_lease(self, work: asyncio.Task[AddResult], stages: _Stages, job: Job, owner: str) -> bool:
        """Renew the lease and store the progress until the work ends; whether the job stayed this worker's."""
        stage, clock = None, asyncio.get_running_loop().time
        due = clock() + self._lease / 3
        while not (await asyncio.wait({work}, timeout=_TICK))[0]:
            if stages.reached == stage and clock() < due:
                continue
            stage, due = stages.reached, clock() + self._lease / 3
            renew = partial(jobs.renew, job=job, owner=owner, lease=self._lease, progress=stage)
            if not await self._memory.parts.database.awrite(renew):
                return False
        return True

    async def _finish(self, job: Job, owner: str, work: asyncio.Task[AddResult]) -> None:
        error = work.exception()
        if isinstance(error, StorageError):
            raise error  # the job is released, and another worker tries again
        if isinstance(error, ModelError):
            _log.warning("job %s: %s", job.id, logged(error))
        elif error is not None and not isinstance(error, LangmemAdapterError):
            _log.error("job %s: %s", job.id, type(error).__name__, exc_info=error)
        end: dict[str, Any] = {}
        if error is None:  # the changes are those of its run, see `result_of`
            done = work.result()
            usage = {**done.usage.to_json(), "calls": []}
            end["result"] = {"mode": done.mode, "usage": usage, "notes": list(done.notes), "trace_id": done.trace_id}
        else:
            end["error"] = answer_of(error, job.id)
        await self._memory.parts.database.awrite(partial(jobs.finish, job=job, owner=owner, **end))


class _Stages(AsyncCallbackHandler):
    """Follows which stage of the pipeline is reached."""

    def __init__(self) -> None:
        self.reached: str | None = None

    async def on_chain_start(
        self,
        serialized: dict[str, Any],  # noqa: ARG002 - LangChain's signature
        inputs: dict[str, Any],  # noqa: ARG002 - the same
        *,
        metadata: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """A part of the pipeline begins."""
        self.reached = (metadata or {}).get("langgraph_node", self.reached)


def result_of(memory: Memory, job: Job) -> AddResult | None:
    """The result of a job; `None` before it is done."""
    if job.result is None:
        return None
    changes = memory.parts.ledger.finished(job.scope, job.key) or ()
    usage, notes = Usage.from_json(job.result["usage"]), tuple(job.result["notes"])
    return AddResult(changes, job.result["mode"], usage, notes, job.result["trace_id"])


class Rebuilding:
    """Rebuilds the index of a memory, one time after the other; *progress* is for the template."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._lock = Lock()
        self.progress: dict[str, Any] | None = None

    def begin(self) -> None:
        """Begin, unless it is under way."""
        with self._lock:
            if self.progress is None or not self.progress["running"]:
                self._report(0, 0)
                in_thread(self._rebuild).add_done_callback(self._end)

    def _rebuild(self) -> int:
        indexer = self._memory.parts.indexer
        number = indexer.rebuild(self._report)
        indexer.write_segment()  # the file beside the database may be what was wrong
        return number

    def _report(self, done: int, total: int) -> None:
        self.progress = {"running": True, "done": done, "total": total}

    def _end(self, work: Future[int]) -> None:
        error = work.exception()
        if error is None:
            self.progress = {"running": False, "done": work.result(), "error": ""}
            return
        _log.error("the index was not rebuilt: %s", type(error).__name__, exc_info=error)
        text = str(error) if isinstance(error, LangmemAdapterError) else "something went wrong here; the log has it"
        self.progress = {"running": False, "error": text}
