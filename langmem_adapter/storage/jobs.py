"""Jobs: adds that somebody asked a server for and does not wait for; any worker of any process carries them out.

A job is taken with a lease: until that is over, and as long as it is renewed, nobody else takes it; a worker that dies lets it
run out. A worker that only seemed dead does no harm: whatever it writes carries the job's idempotency key, so the add happens
once, and the job belongs to whoever took it last. A lease ends by the clock of the machine that looks at it.

What an add did is not kept here a second time: it is the answer of its run (`Ledger.finished`), which a purge looks through.
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
from langmem_adapter.storage.moments import UTCDateTime
from langmem_adapter.storage.pages import listed
from langmem_adapter.storage.prepared_statements import any_of
from langmem_adapter.storage.scopes import id_within, of_row, reach, seen
from langmem_adapter.storage.tables import metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection

JobState = Literal["waiting", "running", "done", "failed"]
ADD: Final = "add"
"""The kind of a job that is one add."""
FINISHED: Final[frozenset[JobState]] = frozenset({"done", "failed"})

_KEPT: Final = timedelta(days=1)  # how long a job can be asked for after its end
_MOST_ATTEMPTS: Final = 5
_GIVEN_UP: Final = {"status": 500, "detail": f"{_MOST_ATTEMPTS} workers began this job, and none came to its end"}

_CARRIED_OUT: Final[ContextVar[tuple[Job, str] | None]] = ContextVar("job", default=None)  # and its owner

# Requests are kept as text, like messages of conversations: JSON types of databases refuse texts that JSON allows.
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
    """Too many jobs wait already; none was accepted."""


@dataclass(frozen=True, slots=True)
class Job:
    """An add that is carried out later.

    Attributes:
        id: A UUID in text form; the same for the same idempotency key in the same scope.
        request: The arguments of the add; after its end the idempotency key alone.
        result: What is told of it beside its changes, when it is done.
        progress: The stage of the pipeline that it has reached.
        error: Why it failed: `status` (HTTP's number) and `detail`.
        attempts: How many workers began it and did not give it back.
        updated_at: When it last went on.
    """

    id: str
    scope: Scope
    kind: str
    state: JobState
    request: Mapping[str, Any]
    result: Mapping[str, Any] | None
    progress: str | None
    error: Mapping[str, Any] | None
    attempts: int
    created_at: datetime
    updated_at: datetime

    @property
    def key(self) -> str:
        """Under which the ledger knows the add."""
        return str(self.request["idempotency_key"])


def submit(connection: Connection, requests: Sequence[Mapping[str, Any]], most: int) -> list[Job]:
    """Accept all of some adds or none, within a write transaction; their jobs, in order. What ended a day ago is dropped.

    *requests* are checked arguments of `Memory.add`, of plain JSON types. One whose idempotency key named a job of the same
    scope before is that job; where it failed, it is tried again.

    Raises:
        QueueFullError: More than *most* would wait.
    """
    now = datetime.now(UTC)
    connection.execute(delete(jobs).where(jobs.c.state.in_(FINISHED), jobs.c.updated_at < now - _KEPT))
    rows = [_row(request, now + timedelta(microseconds=place)) for place, request in enumerate(requests)]
    known = _known(connection, [row["id"] for row in rows])
    if new := {row["id"]: row for row in reversed(rows) if row["id"] not in known}:
        connection.execute(insert(jobs), [*new.values()])
    waiting = connection.execute(select(func.count()).where(jobs.c.state == "waiting")).scalar_one()
    if waiting > most:
        raise QueueFullError(
            f"{most:,} jobs may wait, and these would be more; try again later, or wait for the answer"
        )
    found = _found(connection, [row["id"] for row in rows])
    return [found[row["id"]] for row in rows]


def _row(request: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    scope = Scope(**{name: request.get(name) for name in SCOPE_FIELDS})
    given = request.get("idempotency_key")
    number = str(uuid.uuid4()) if given is None else id_within(scope, f"job:{given}")
    text = json.dumps({**request, "idempotency_key": number if given is None else given})
    row = {"id": number, **shallow(scope), "kind": ADD, "state": "waiting", "request": text, "attempts": 0}
    return {**row, "created_at": now, "updated_at": now}


def _known(connection: Connection, ids: Sequence[str]) -> set[str]:
    """Those of some jobs that are to stay: one that failed is tried again."""
    found = _found(connection, ids)
    failed = [job.id for job in found.values() if job.state == "failed"]
    connection.execute(delete(jobs).where(any_of(jobs.c.id, failed)))
    return found.keys() - failed


def _found(connection: Connection, ids: Sequence[str]) -> dict[str, Job]:
    return {row.id: _job(row) for row in connection.execute(select(jobs).where(any_of(jobs.c.id, ids)))}


def read(connection: Connection, job_id: str, scope: Scope | None) -> Job:
    """One job by its id.

    Raises:
        MemoryNotFoundError: There is none, or it lies outside *scope*.
    """
    return _job(seen(connection.execute(select(jobs).where(jobs.c.id == job_id)).first(), scope, job_id, "job"))


def page(
    connection: Connection, scope: Scope | None, *, k: int, state: JobState | None = None, after: str | None = None
) -> tuple[list[Job], str | None]:
    """Jobs within *scope* (`None`: of everybody), the newest first, and the cursor of the next page.

    Raises:
        InvalidInputError: The cursor is none of ours.
    """
    wanted = true() if state is None else jobs.c.state == state
    rows, following = listed(
        connection, select(jobs).where(reach(scope, jobs), wanted), jobs.c.created_at, jobs.c.id, k=k, after=after
    )
    return [_job(row) for row in rows], following


def cancel(connection: Connection, job_id: str, scope: Scope | None) -> None:
    """Drop a job that nobody has begun, within a write transaction.

    Contract: whoever is told that it is cancelled can rely on it that nothing of it was, or will be, written; so one that was
    put back after it had begun cannot be cancelled either.
    tests/server/test_jobs.py::test_a_job_is_either_begun_or_cancelled

    Raises:
        MemoryNotFoundError: There is none, or it lies outside *scope*.
        ConflictError: It has begun.
    """
    read(connection, job_id, scope)
    unbegun = jobs.c.id == job_id, jobs.c.state == "waiting", jobs.c.updated_at == jobs.c.created_at  # since `take`
    if not connection.execute(delete(jobs).where(*unbegun)).rowcount:
        raise ConflictError(f"the job {job_id} has begun and cannot be cancelled; what it adds can be deleted")


@dataclass(frozen=True, slots=True)
class QueueLength:
    """How many jobs nobody has taken, how many somebody has, and for how many seconds the oldest has waited."""

    waiting: int
    running: int
    oldest: float


def queue(connection: Connection) -> QueueLength:
    """How much there is to do, in everybody's name."""
    found = connection.execute(
        select(jobs.c.state, func.count(), func.min(jobs.c.created_at))
        .where(jobs.c.state.not_in(FINISHED))
        .group_by(jobs.c.state)
    )
    counted = {state: (number, since) for state, number, since in found}
    waiting, since = counted.get("waiting", (0, None))
    oldest = 0.0 if since is None else max((datetime.now(UTC) - since).total_seconds(), 0.0)
    return QueueLength(waiting, counted.get("running", (0, None))[0], oldest)


# ── workers ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def are_ready(connection: Connection) -> bool:
    """Whether there is a job to take."""
    return connection.execute(select(jobs.c.id).where(_ready(datetime.now(UTC))).limit(1)).first() is not None


def take(connection: Connection, owner: str, lease: float) -> Job | None:
    """Take the job that has waited longest for a lease of some seconds; one that killed too many workers is given up."""
    now = datetime.now(UTC)
    worn = and_(_ready(now), jobs.c.attempts >= _MOST_ATTEMPTS)
    for left in connection.execute(select(jobs).where(worn)).all():
        _end(connection, _job(left), {"state": "failed", "error": json.dumps(_GIVEN_UP)})
    oldest = select(jobs.c.id).where(_ready(now)).order_by(jobs.c.created_at, jobs.c.id).limit(1)
    taken = {"state": "running", "owner": owner, "lease": now + timedelta(seconds=lease), "updated_at": now}
    change = update(jobs).where(jobs.c.id == oldest.scalar_subquery(), _ready(now))
    row = connection.execute(change.values(**taken, attempts=jobs.c.attempts + 1).returning(*jobs.c)).first()
    return None if row is None else _job(row)


def renew(connection: Connection, job: Job, owner: str, lease: float, progress: str | None) -> bool:
    """Keep a job, and say how far it is; whether it is still theirs: nobody else took it, nobody erased it."""
    now = datetime.now(UTC)
    kept = {"lease": now + timedelta(seconds=lease), "progress": progress, "updated_at": now}
    return bool(connection.execute(update(jobs).where(*_theirs(job, owner)).values(**kept)).rowcount)


def release(connection: Connection, owner: str) -> int:
    """Put back what somebody holds, for the next worker; that they took it counts for nothing. How many there were."""
    theirs = (jobs.c.owner == owner, jobs.c.state == "running")
    as_before = {"state": "waiting", "owner": None, "lease": None, "attempts": jobs.c.attempts - 1}
    return connection.execute(update(jobs).where(*theirs).values(as_before)).rowcount


def finish(
    connection: Connection,
    job: Job,
    owner: str,
    *,
    result: Mapping[str, Any] | None = None,
    error: Mapping[str, Any] | None = None,
) -> bool:
    """End a job, and forget what it was asked; whether it was still theirs."""
    told = None if result is None else json.dumps(result)
    end = {"state": "done", "result": told} if error is None else {"state": "failed", "error": json.dumps(error)}
    return _end(connection, job, end, *_theirs(job, owner))


def carry_out(job: Job, owner: str) -> None:
    """From now on, let what this context writes be written only while the job is *owner*'s."""
    _CARRIED_OUT.set((job, owner))


def check_of_context() -> Callable[[Connection], object]:
    """What a write transaction of this context calls first: `MemoryNotFoundError` where its job was erased, or lost."""
    # Contract: what was accepted before a purge is not written after it. The purge deletes the job, and a worker that has not
    # noticed yet looks for it in the transaction that would write. `test_add_for_a_job_that_was_erased_or_lost_is_refused`
    current = _CARRIED_OUT.get()
    if current is None:
        return lambda _: None
    job, owner = current
    wanted = select(jobs.c.id, *(jobs.c[name] for name in SCOPE_FIELDS)).where(*_theirs(job, owner))
    return lambda connection: seen(connection.execute(wanted).first(), None, job.id, "job")


def _ready(now: datetime) -> ColumnElement[bool]:
    return or_(jobs.c.state == "waiting", and_(jobs.c.state == "running", jobs.c.lease < now))


def _end(connection: Connection, job: Job, end: Mapping[str, Any], *still: ColumnElement[bool]) -> bool:
    left = {"owner": None, "lease": None, "request": json.dumps({"idempotency_key": job.key})}
    change = update(jobs).where(jobs.c.id == job.id, *still)
    return bool(connection.execute(change.values(**end, **left, updated_at=datetime.now(UTC))).rowcount)


def _theirs(job: Job, owner: str) -> tuple[ColumnElement[bool], ...]:
    return jobs.c.id == job.id, jobs.c.owner == owner, jobs.c.state == "running"


def _job(row: Any) -> Job:
    told: dict[str, Any] = {name: getattr(row, name) for name in _PLAIN}
    told |= {name: None if (text := getattr(row, name)) is None else json.loads(text) for name in _TEXTS}
    return Job(scope=of_row(row), **told)


_TEXTS: Final = ("request", "result", "error")
_PLAIN: Final = ("id", "kind", "state", "progress", "attempts", "created_at", "updated_at")
