"""Jobs: background adds that a server accepted; a worker of any process carries them out.

A worker takes a job with a lease. While the lease lasts and is renewed no other worker takes it; that of a dead worker runs
out. A worker that was only slow does no harm: its write has the job's idempotency key, so the add happens once, and the job
belongs to the worker that took it last. A lease ends by the clock of the machine that reads it. The result of an add is that
of its run (`Ledger.finished`), which a purge reads, and is not stored here again.
"""

from __future__ import annotations

import json
import uuid
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

from sqlalchemy import (
    Column,
    Index,
    Integer,
    String,
    Table,
    Text,
    and_,
    delete,
    func,
    insert,
    or_,
    select,
    true,
    update,
)

from langmem_adapter.errors import ConflictError, LangmemAdapterError
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope, shallow
from langmem_adapter.storage.queries import any_of, read_page
from langmem_adapter.storage.scopes import check_visible, id_within, of_row, reach
from langmem_adapter.storage.tables import metadata
from langmem_adapter.storage.timestamps import UTCDateTime

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection

JobState = Literal["waiting", "running", "done", "failed"]
ADD: Final = "add"
"""The kind of a job that is one add."""
FINISHED: Final[frozenset[JobState]] = frozenset({"done", "failed"})

_RETENTION: Final = timedelta(days=1)  # of jobs that have ended
_MAX_ATTEMPTS: Final = 5
_FAILURE: Final = {"status": 500, "detail": f"{_MAX_ATTEMPTS} workers began this job, and none finished it"}

_CURRENT: Final[ContextVar[tuple[Job, str] | None]] = ContextVar("job", default=None)  # and its owner

# Requests are stored as text, like messages of conversations: JSON types of databases refuse texts that JSON allows.
jobs: Final = Table(
    "jobs",
    metadata,
    Column("id", String(64), primary_key=True),
    *(Column(name, Text, index=True) for name in SCOPE_FIELDS),
    Column("kind", String(16), nullable=False),
    Column("state", String(8), nullable=False),
    Column("request", Text, nullable=False),
    Column("result", Text),
    Column("progress", String(32)),
    Column("error", Text),
    Column("owner", String(64)),
    Column("lease", UTCDateTime),
    Column("attempts", Integer, nullable=False),
    Column("created_at", UTCDateTime, nullable=False),
    Column("updated_at", UTCDateTime, nullable=False),
    Index("ix_jobs_state", "state", "created_at"),
)


class QueueFullError(LangmemAdapterError):
    """Too many jobs are waiting; none was accepted."""


@dataclass(frozen=True, slots=True)
class Job:
    """An add that is carried out later."""

    id: str  # a UUID; the same for the same idempotency key in the same scope
    scope: Scope
    kind: str
    state: JobState
    request: Mapping[str, Any]  # the arguments of the add; after its end the idempotency key alone
    result: Mapping[str, Any] | None  # without its changes, when it is done
    progress: str | None  # the stage of the pipeline that it has reached
    error: Mapping[str, Any] | None  # why it failed: `status` (HTTP's number) and `detail`
    attempts: int  # how many workers began it and did not give it back
    created_at: datetime
    updated_at: datetime  # when it was last taken, renewed or finished

    @property
    def key(self) -> str:
        return str(self.request["idempotency_key"])


def submit(connection: Connection, requests: Sequence[Mapping[str, Any]], most: int) -> list[Job]:
    """Accept all of some adds or none, within a write transaction, and return their jobs in order.

    *requests* are checked arguments of `Memory.add`, of plain JSON types. An idempotency key that named a job of the same
    scope before returns that job; where it failed, it is tried again. Jobs that ended a day ago are removed. Where more than
    *most* would wait, it raises a `QueueFullError`.
    """
    now = datetime.now(UTC)
    connection.execute(delete(jobs).where(jobs.c.state.in_(FINISHED), jobs.c.updated_at < now - _RETENTION))
    rows = [_row(request, now + timedelta(microseconds=place)) for place, request in enumerate(requests)]
    ids = [row["id"] for row in rows]
    connection.execute(delete(jobs).where(any_of(jobs.c.id, ids), jobs.c.state == "failed"))
    present = set(connection.execute(select(jobs.c.id).where(any_of(jobs.c.id, ids))).scalars())
    if new := {row["id"]: row for row in reversed(rows) if row["id"] not in present}:
        connection.execute(insert(jobs), [*new.values()])
    waiting = connection.execute(select(func.count()).where(jobs.c.state == "waiting")).scalar_one()
    if waiting > most:
        raise QueueFullError(
            f"{most:,} jobs may wait, and these would be more: try again later, or wait for the answer"
        )
    by_id = {row.id: _job(row) for row in connection.execute(select(jobs).where(any_of(jobs.c.id, ids)))}
    return [by_id[id_] for id_ in ids]


def _row(request: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    scope = Scope(**{name: request.get(name) for name in SCOPE_FIELDS})
    key = request.get("idempotency_key")
    id_ = str(uuid.uuid4()) if key is None else id_within(scope, f"job:{key}")
    text = json.dumps({**request, "idempotency_key": id_ if key is None else key})
    row = {"id": id_, **shallow(scope), "kind": ADD, "state": "waiting", "request": text, "attempts": 0}
    return {**row, "created_at": now, "updated_at": now}


def read(connection: Connection, job_id: str, scope: Scope | None) -> Job:
    """One job by its id."""
    return _job(
        check_visible(connection.execute(select(jobs).where(jobs.c.id == job_id)).first(), scope, job_id, "job")
    )


def page(
    connection: Connection, scope: Scope | None, *, k: int, state: JobState | None = None, after: str | None = None
) -> tuple[list[Job], str | None]:
    query = select(jobs).where(reach(scope, jobs), true() if state is None else jobs.c.state == state)
    rows, following = read_page(connection, query, jobs.c.created_at, jobs.c.id, k=k, after=after)
    return [_job(row) for row in rows], following


def cancel(connection: Connection, job_id: str, scope: Scope | None) -> None:
    """Remove a job that no worker has begun, within a write transaction.

    Contract: of a cancelled job nothing was, or will be, written; so one that was released after it had begun cannot be
    cancelled either. tests/server/test_jobs.py::test_job_is_either_begun_or_cancelled
    """
    read(connection, job_id, scope)
    is_new = jobs.c.id == job_id, jobs.c.state == "waiting", jobs.c.updated_at == jobs.c.created_at  # `take` sets it
    if not connection.execute(delete(jobs).where(*is_new)).rowcount:
        raise ConflictError(f"the job {job_id} has begun and cannot be cancelled: delete what it adds")


@dataclass(frozen=True, slots=True)
class QueueLength:
    """How many jobs wait, how many are running, and for how many seconds the oldest has waited."""

    waiting: int
    running: int
    oldest: float


def queue(connection: Connection) -> QueueLength:
    query = select(jobs.c.state, func.count(), func.min(jobs.c.created_at)).where(jobs.c.state.not_in(FINISHED))
    counts = {state: (number, since) for state, number, since in connection.execute(query.group_by(jobs.c.state))}
    waiting, since = counts.get("waiting", (0, None))
    oldest = 0.0 if since is None else max((datetime.now(UTC) - since).total_seconds(), 0.0)
    return QueueLength(waiting, counts.get("running", (0, None))[0], oldest)


# ── workers ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def are_ready(connection: Connection) -> bool:
    return connection.execute(select(jobs.c.id).where(_ready(datetime.now(UTC))).limit(1)).first() is not None


def take(connection: Connection, owner: str, lease: float) -> Job | None:
    """Take the oldest job for a lease of some seconds; one that ended too many workers fails."""
    now = datetime.now(UTC)
    for worn in connection.execute(select(jobs).where(_ready(now), jobs.c.attempts >= _MAX_ATTEMPTS)).all():
        _end(connection, _job(worn), {"state": "failed", "error": json.dumps(_FAILURE)})
    oldest = select(jobs.c.id).where(_ready(now)).order_by(jobs.c.created_at, jobs.c.id).limit(1)
    values = {"state": "running", "owner": owner, "lease": now + timedelta(seconds=lease), "updated_at": now}
    change = update(jobs).where(jobs.c.id == oldest.scalar_subquery(), _ready(now))
    row = connection.execute(change.values(**values, attempts=jobs.c.attempts + 1).returning(*jobs.c)).first()
    return None if row is None else _job(row)


def renew(connection: Connection, job: Job, owner: str, lease: float, progress: str | None) -> bool:
    """Renew the lease and note the progress; `False` where the job was erased, or another worker took it."""
    now = datetime.now(UTC)
    values = {"lease": now + timedelta(seconds=lease), "progress": progress, "updated_at": now}
    return bool(connection.execute(update(jobs).where(*_owned(job, owner)).values(**values)).rowcount)


def release(connection: Connection, owner: str) -> int:
    """Give back the jobs of an owner, without an attempt, and count them."""
    owned = (jobs.c.owner == owner, jobs.c.state == "running")
    values = {"state": "waiting", "owner": None, "lease": None, "attempts": jobs.c.attempts - 1}
    return connection.execute(update(jobs).where(*owned).values(values)).rowcount


def finish(
    connection: Connection,
    job: Job,
    owner: str,
    *,
    result: Mapping[str, Any] | None = None,
    error: Mapping[str, Any] | None = None,
) -> bool:
    """End a job and remove its request; `False` where it was no longer *owner*'s."""
    done = {"state": "done", "result": None if result is None else json.dumps(result)}
    end = done if error is None else {"state": "failed", "error": json.dumps(error)}
    return _end(connection, job, end, *_owned(job, owner))


def carry_out(job: Job, owner: str) -> None:
    """From now on, writes of this context succeed only while the job is *owner*'s."""
    _CURRENT.set((job, owner))


def check_of_context() -> Callable[[Connection], object]:
    """A check for a write transaction of this context: `MemoryNotFoundError` where its job was erased or lost."""
    # Contract: what was accepted before a purge is not written after it. The purge deletes the job, and a worker that has not
    # noticed yet looks for it in the transaction that would write. `test_add_for_an_erased_or_lost_job_is_refused`
    current = _CURRENT.get()
    if current is None:
        return lambda _: None
    job, owner = current
    query = select(jobs.c.id, *(jobs.c[name] for name in SCOPE_FIELDS)).where(*_owned(job, owner))
    return lambda connection: check_visible(connection.execute(query).first(), None, job.id, "job")


def _ready(now: datetime) -> ColumnElement[bool]:
    return or_(jobs.c.state == "waiting", and_(jobs.c.state == "running", jobs.c.lease < now))


def _end(connection: Connection, job: Job, end: Mapping[str, Any], *conditions: ColumnElement[bool]) -> bool:
    rest = {"owner": None, "lease": None, "request": json.dumps({"idempotency_key": job.key})}
    change = update(jobs).where(jobs.c.id == job.id, *conditions)
    return bool(connection.execute(change.values(**end, **rest, updated_at=datetime.now(UTC))).rowcount)


def _owned(job: Job, owner: str) -> tuple[ColumnElement[bool], ...]:
    return jobs.c.id == job.id, jobs.c.owner == owner, jobs.c.state == "running"


def _job(row: Any) -> Job:
    values = {name: getattr(row, name) for name in Job.__slots__ if name != "scope"}
    for name in ("request", "result", "error"):
        values[name] = None if values[name] is None else json.loads(values[name])
    return Job(scope=of_row(row), **values)
