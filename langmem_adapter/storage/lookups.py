"""What a write finds: where it stands, the memories that it names, the past of those that come back, and their courses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import bindparam, func, select

from langmem_adapter.storage.courses import CourseRows, courses
from langmem_adapter.storage.feed import LAST_SEQ
from langmem_adapter.storage.meta import EMBEDDINGS, LANGUAGE
from langmem_adapter.storage.prepared_statements import Prepared, any_of
from langmem_adapter.storage.scopes import OWNER, key_of, of_row
from langmem_adapter.storage.tables import history, memories, meta, runs, scopes

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from langmem_adapter.storage.writes import Write

__all__ = ["RESULT", "Books", "books", "courses_of", "past_lives", "targets"]

RESULT: Final = select(runs.c.result).where(runs.c.key == bindparam("run"))
"""What a run did."""


class Books(NamedTuple):
    """All that a write has to know beforehand."""

    seq: int
    model: str | None
    language: str | None
    result: list[dict[str, Any]] | None  # of its run, where that was done already
    scope_id: int | None
    compared: int | None  # last change within its scope by a write that had compared


_SCOPE: Final = scopes.c.key == bindparam("scope")
_BOOKS: Final = Prepared(
    select(
        LAST_SEQ.scalar_subquery().label("seq"),
        select(meta.c.value).where(meta.c.key == EMBEDDINGS).scalar_subquery().label("model"),
        select(meta.c.value).where(meta.c.key == LANGUAGE).scalar_subquery().label("language"),
        RESULT.scalar_subquery().label("result"),
        select(scopes.c.id).where(_SCOPE).scalar_subquery().label("scope_id"),
        select(scopes.c.compared).where(_SCOPE).scalar_subquery().label("compared"),
    )
)
_REVISIONS: Final = select(func.max(history.c.revision)).where(history.c.memory_id == memories.c.id).scalar_subquery()
_TARGETS: Final = Prepared(
    select(memories, _REVISIONS.label("revisions"), *OWNER)
    .join_from(memories, scopes, memories.c.scope_id == scopes.c.id)
    .where(any_of(memories.c.id, "ids"))
)
_SEQ: Final = func.max(history.c.seq)
_LAST: Final = func.max(history.c.revision)
_OVER: Final = func.max(memories.c.pk).is_(None)
_HOMES: Final = func.min(history.c.scope_id).label("home"), func.max(history.c.scope_id).label("other")
_PAST_LIVES: Final = (
    select(history.c.memory_id, _SEQ.label("seq"), _LAST.label("last"), _OVER.label("over"), *_HOMES)
    .join_from(history, memories, memories.c.id == history.c.memory_id, isouter=True)
    .where(any_of(history.c.memory_id, "ids"))
    .group_by(history.c.memory_id)
)


def books(connection: Connection, write: Write) -> Books:
    """All that a write has to know beforehand, in one question."""
    scope = None if write.scope is None else key_of(write.scope)
    return Books(*_BOOKS.first(connection, {"run": write.run, "scope": scope}))


def targets(connection: Connection, write: Write) -> dict[str, dict[str, Any]]:
    """The memories that decisions name, as far as the write may see them: their rows, scope and number of revisions."""
    named = ((d.past_of,) if d.event == "ADD" else (d.memory_id, d.heir, d.past_of) for d in write.decisions)
    ids = [id_ for ids in named for id_ in ids if id_ is not None]
    rows = _TARGETS.rows(connection, {"ids": ids}) if ids else []
    found = ({**row._asdict(), "scope": of_row(row)} for row in rows)
    return {row["id"]: row for row in found if write.within is None or write.within.covers(row["scope"])}


def past_lives(connection: Connection, write: Write) -> dict[str, Any]:
    """Of the ids that are added, those that the history knows: the last seq and revision, where, and whether it is over."""
    ids = [d.memory_id for d in write.decisions if d.event == "ADD" and d.memory_id is not None]
    return {life.memory_id: life for life in connection.execute(_PAST_LIVES, {"ids": ids})} if ids else {}


def courses_of(connection: Connection, write: Write) -> dict[str, CourseRows]:
    """The courses that are gone on with, or get a statement of another date."""
    every = any(d.after is not None for d in write.decisions)
    ids = [d.past_of or d.memory_id for d in write.decisions if every or d.past_of or d.dated or d.event == "ADD"]
    return courses(connection, [memory_id for memory_id in ids if memory_id is not None])
