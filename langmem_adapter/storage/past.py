"""What was true at a moment, and what was known at a moment, read from the history.

Both are asked of the courses of memories (`storage.courses`). What was *known* by a moment are the rows that had been
recorded by then: somebody who says in June that he moved in May was known to live at the old place until June. What was
*true* at a moment is what the last row says that begins by then: he lived at the new place from May on, as is known since
June. Without such a moment it is what stood, the end of each course. What was purged was never known.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import Select, case, func, or_, select

from langmem_adapter.arguments import parse_time
from langmem_adapter.filters import EVERYTHING, values_of
from langmem_adapter.records.results import MemoryItem
from langmem_adapter.storage.courses import COURSE
from langmem_adapter.storage.moments import local
from langmem_adapter.storage.pages import listed, newest
from langmem_adapter.storage.prepared_statements import any_of
from langmem_adapter.storage.scopes import OWNER, ids_within, of_row
from langmem_adapter.storage.tables import history, memories, scopes
from langmem_adapter.text import text_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime, tzinfo

    from numpy.typing import NDArray
    from sqlalchemy import ColumnElement, Connection, Subquery

    from langmem_adapter.filters import Filter
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.memories import AnyRow

__all__ = ["PastMemory", "Then", "item_of", "page_then", "standing_vectors", "then", "then_of"]


@dataclass(frozen=True, slots=True)
class Then:
    """A moment of the past, in one sense or in both; with a time zone."""

    as_of: datetime | None = None  # what was true then; `None`: what stood
    known_at: datetime | None = None  # as far as it was known then; `None`: as far as it is known now


def then_of(as_of: object, known_at: object, zone: tzinfo | None = UTC) -> Then | None:
    """The moment that a caller asks about, without an offset in *zone*; `None` where there is none."""
    given = {"as_of": as_of, "known_at": known_at}
    moments = {name: parse_time(value, name, zone) for name, value in given.items() if value is not None}
    return Then(**moments) if moments else None


@dataclass(frozen=True, slots=True)
class PastMemory:
    """A memory as it was."""

    pk: int  # a memory that was deleted and restored has a new one
    context: str
    item: MemoryItem


def then(
    connection: Connection,
    scope: Scope,
    when: Then,
    *,
    filters: Filter = EVERYTHING,
    memory_type: str | None = None,
) -> list[PastMemory]:
    """Every memory within *scope* as it was, the newest statement first, but for those that had expired by then."""
    query = _query(scope, when, include_expired=False)
    if memory_type is not None:
        query = query.where(history.c.memory_type == memory_type)
    fits = _fitting(filters)
    with connection.execute(query, execution_options={"yield_per": 1000}) as rows:
        return [PastMemory(row.pk, row.context, item_of(row, row.began)) for row in rows if fits is None or fits(row)]


def page_then(
    connection: Connection,
    scope: Scope,
    when: Then,
    *,
    k: int,
    after: str | None = None,
    filters: Filter = EVERYTHING,
    include_expired: bool = False,
) -> tuple[list[MemoryItem], str | None]:
    """`storage.memories.page` as it was: the same order, and cursors of the same kind."""
    query = _query(scope, when, include_expired=include_expired).order_by(None)
    order = query.selected_columns.began, query.selected_columns.pk
    rows, following = listed(connection, query, *order, k=k, after=after, fits=_fitting(filters))
    return [item_of(row, row.began) for row in rows], following


def standing_vectors(connection: Connection, found: Sequence[PastMemory]) -> dict[int, NDArray[np.float32]]:
    """Vectors of those that still have the text that they had then, by `PastMemory.pk`; the others must be embedded again."""
    told = {known.item.id: known for known in found}
    query = select(memories.c.id, memories.c.text, memories.c.embedding).where(any_of(memories.c.id, told))
    kept = (row for row in connection.execute(query) if row.text == told[row.id].item.text)
    return {told[row.id].pk: np.frombuffer(row.embedding, np.float32) for row in kept}


def _query(scope: Scope, when: Then, *, include_expired: bool) -> Select[Any]:
    ends = _ends(scope, when)
    # Contract: changes of one memory are written in the order of `seq`, whatever the clocks of their writers said; so a change
    # that was recorded by then proves its ADD. `test_writers_whose_clocks_disagree_leave_a_past_that_can_be_read`
    added = history.alias()
    pk = (
        select(func.max(added.c.seq))
        .where(added.c.memory_id == history.c.memory_id, added.c.event == "ADD", added.c.seq <= history.c.seq)
        .scalar_subquery()
        .label("pk")
    )
    query = (
        select(history, pk, ends.c.began, *OWNER)
        .join_from(ends, history, history.c.seq == ends.c.seq)
        .join(scopes, history.c.scope_id == scopes.c.id)
        .where(ends.c.place == 1, history.c.is_deleted == 0, _lasts(history.c.valid_to, when.as_of))
        .order_by(*newest(ends.c.began, pk))
    )
    return query if include_expired else query.where(_lasts(history.c.expires_at, when.as_of or when.known_at))


def _ends(scope: Scope, when: Then) -> Subquery:
    """The rows that were known and had begun, the last one of each course first, and when each course began."""
    begins = history.c.valid_from
    order = func.row_number().over(partition_by=COURSE, order_by=(begins.desc(), history.c.seq.desc()))
    began = func.min(case((history.c.is_deleted == 0, begins))).over(partition_by=COURSE)
    rows = select(history.c.seq, order.label("place"), began.label("began")).where(
        history.c.scope_id.in_(ids_within(scope)),
        *([] if when.known_at is None else [history.c.recorded_at <= when.known_at]),
        *([] if when.as_of is None else [begins <= when.as_of]),
    )
    return rows.subquery()


def _lasts(end: ColumnElement[datetime | None], moment: datetime | None) -> ColumnElement[bool]:
    return end.is_(None) if moment is None else or_(end.is_(None), end > moment)


def _fitting(filters: Filter) -> Callable[[AnyRow], bool] | None:
    return (lambda row: filters.matches(values_of(item_of(row, row.began)))) if filters else None


def item_of(row: AnyRow, began: datetime) -> MemoryItem:
    """A row of the history as the memory that it was; one that was deleted says what it said before."""
    text = row.new_memory or row.old_memory or ""
    return MemoryItem(
        id=row.memory_id,
        text=text,
        scope=of_row(row),
        metadata=row.metadata,
        memory_type=row.memory_type,
        actor_id=row.actor_id,
        role=row.role,
        created_at=local(began, row.utc_offset),
        updated_at=local(row.valid_from, row.utc_offset),
        expires_at=row.expires_at,
        revision=row.revision,
        hash=text_hash(text),
        is_verbatim=row.is_verbatim,
    )
