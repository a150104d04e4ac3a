"""Reading memories: as they are now, their history, and their timeline (`as_of`, `known_at`).

Every row of the history says what was true from its `valid_from` on: from the date of a statement, or from the moment of an
edit by hand; a deletion says that it was over. The course of a memory are its own rows and those whose `past_of` names it:
statements that were told when a later one stood already. What was true at a moment is what the row says that begins last,
among those that do not begin after it; of two that begin together, that which was written last. So the order in which
statements of different dates are told does not matter. The memory that stands is the end of its course: nothing is written
to it that begins before its `updated_at`, which is the `valid_from` of its last row.

Both are asked of the courses of memories (`storage.memories`). What was *known* by a moment are the rows that had been
recorded by then: somebody who says in June that he moved in May was known to live at the old place until June. What was
*true* at a moment is what the last row says that begins by then: he lived at the new place from May on, as is known since
June. Without such a moment it is what stood, the end of each course. What was purged was never known.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

from sqlalchemy import Integer, Row, Select, and_, bindparam, case, func, or_, select, true

from langmem_adapter.arguments import parse_time
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.filters import EVERYTHING, filter_values
from langmem_adapter.records.checks import quoted
from langmem_adapter.records.results import Decision, MemoryItem, Revision
from langmem_adapter.storage import pushdown
from langmem_adapter.storage.moments import local
from langmem_adapter.storage.pages import listed, newest
from langmem_adapter.storage.prepared_statements import Prepared, any_of
from langmem_adapter.storage.scopes import OWNER, ids_within, of_row, reach, seen, within
from langmem_adapter.storage.tables import history, memories, scopes, words
from langmem_adapter.text import meaningful, text_hash
from langmem_adapter.text import words as split

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import tzinfo

    import numpy as np
    from numpy.typing import NDArray
    from sqlalchemy import ColumnElement, Connection, Subquery

    from langmem_adapter.filters import Filter
    from langmem_adapter.records.results import Event
    from langmem_adapter.records.scope import Scope

COURSE: Final = func.coalesce(history.c.past_of, history.c.memory_id)
"""The memory that a row of the history belongs to the course of."""

_READ: Final = (
    select(COURSE.label("course"), *(history.c[name] for name in ("memory_id", "valid_from", "seq", "new_memory")))
    .where(or_(any_of(history.c.memory_id, "ids"), any_of(history.c.past_of, "ids")))
    .order_by(history.c.valid_from, history.c.seq)
)
_BEGINS: Final = attrgetter("valid_from")
_ORDER: Final = attrgetter("valid_from", "seq")


class Step(NamedTuple):
    """A row of a course; where it is a deletion it has no text."""

    memory_id: str
    valid_from: datetime
    seq: int
    text: str | None


@dataclass(slots=True)
class CourseRows:
    """The rows of a course, in the order of what they say."""

    steps: list[Step] = field(default_factory=list)

    @property
    def began(self) -> datetime | None:
        """The date of its first statement."""
        return next((step.valid_from for step in self.steps if step.text is not None), None)

    @property
    def last(self) -> datetime | None:
        """The date of its last one."""
        return self.steps[-1].valid_from if self.steps else None

    def at(self, moment: datetime) -> Step | None:
        """What it says of a moment."""
        place = bisect_right(self.steps, moment, key=_BEGINS)
        return self.steps[place - 1] if place else None

    def after(self, moment: datetime) -> datetime | None:
        """The date of the next statement after a moment."""
        place = bisect_right(self.steps, moment, key=_BEGINS)
        return self.steps[place].valid_from if place < len(self.steps) else None

    def until(self, valid_from: datetime, seq: int) -> datetime | None:
        """When that was over which a row says: with the row that comes next."""
        place = bisect_right(self.steps, (valid_from, seq), key=_ORDER)
        return self.steps[place].valid_from if place < len(self.steps) else None

    def said(self, moment: datetime, text: str | None) -> Step | None:
        """The row of a date that says this."""
        return next((step for step in self.steps if (step.valid_from, step.text) == (moment, text)), None)

    def put(self, row: Mapping[str, Any], valid_from: datetime, text: str | None) -> None:
        """Give a new row its place."""
        insort(self.steps, Step(row["id"], valid_from, row["seq"], text), key=_ORDER)


def courses(connection: Connection, ids: Collection[str]) -> dict[str, CourseRows]:
    """The courses of some memories; an empty one for what is not known."""
    found = {memory_id: CourseRows() for memory_id in ids}
    for row in connection.execute(_READ, {"ids": ids}) if ids else ():
        if row.course in found:
            found[row.course].steps.append(Step(row.memory_id, row.valid_from, row.seq, row.new_memory))
    return found


AnyRow: TypeAlias = "Row[*tuple[Any, ...]]"

_COPIED: Final = "context metadata memory_type actor_id role expires_at is_verbatim utc_offset".split()
_SHOWN: Final = [column for column in memories.c if column.name not in {"embedding", "context", "scope_id", "seq"}]
_ITEM: Final = select(*_SHOWN, *OWNER).join_from(memories, scopes, memories.c.scope_id == scopes.c.id)
_BY_PKS: Final = Prepared(_ITEM.where(any_of(memories.c.pk, "pks")))
_LETTERS: Final = func.length(memories.c.text).label("letters")
_LAST: Final = [*(memories.c[name] for name in "pk id seq updated_at utc_offset actor_id role".split()), _LETTERS]
_BEGINNING: Final = func.substr(memories.c.text, 1, bindparam("letters", type_=Integer)).label("text")
_TEXTS: Final = Prepared(select(*_LAST, _BEGINNING).where(any_of(memories.c.pk, "pks")).order_by(memories.c.pk))


def get(connection: Connection, memory_id: str, scope: Scope | None = None) -> MemoryItem:
    """One memory by its id.

    Raises:
        MemoryNotFoundError: There is none, or it lies outside *scope*.
    """
    return _item(seen(connection.execute(_ITEM.where(memories.c.id == memory_id)).first(), scope, memory_id))


def best(connection: Connection, pks: Sequence[int]) -> dict[int, MemoryItem]:
    """Memories by pk; those that are gone are missing."""
    return {row.pk: _item(row) for row in _BY_PKS.rows(connection, {"pks": pks})}


def extent(connection: Connection, scope: Scope, most: int) -> tuple[int, int]:
    """How many facts within *scope* are compared, and how many letters they have; no more than *most* are looked at."""
    some = select(func.length(memories.c.text).label("letters")).where(_compared(scope)).limit(most).subquery()
    count, letters = connection.execute(select(func.count(), func.sum(some.c.letters)).select_from(some)).one()
    return count, letters or 0


def every_text(connection: Connection, scope: Scope) -> list[AnyRow]:
    """The pk, id, seq, updated_at, utc_offset, actor_id, role and text of every fact within *scope* that is compared."""
    return list(connection.execute(select(*_LAST, memories.c.text).where(_compared(scope)).order_by(memories.c.pk)))


def texts(connection: Connection, pks: Iterable[int], letters: int) -> list[Any]:
    """The same of some memories; of texts of more than so many letters the beginning, with an ellipsis at its end."""
    rows = _TEXTS.rows(connection, {"pks": list(pks), "letters": letters + 1})
    return [row if len(row.text) <= letters else row._replace(text=row.text[: letters - 1] + "…") for row in rows]


def sequence_numbers(connection: Connection, ids: Sequence[str]) -> dict[str, int]:
    """Number of each memory's last change, by id."""
    return dict(connection.execute(select(memories.c.id, memories.c.seq).where(any_of(memories.c.id, ids))).all())


def equal_texts(connection: Connection, scope: Scope, hashes: Sequence[str]) -> dict[str, list[int]]:
    """Pks of the facts within *scope* that have one of some normalised hashes, by hash: of each speaker's the oldest."""
    found: dict[str, list[int]] = {}
    oldest = func.min(memories.c.pk)
    query = select(memories.c.hash, oldest).where(_facts(scope), any_of(memories.c.hash, "hashes")).order_by(oldest)
    query = query.group_by(memories.c.hash, memories.c.actor_id, memories.c.role)
    for digest, pk in connection.execute(query, {"hashes": hashes}):
        found.setdefault(digest, []).append(pk)
    return found


def latest(connection: Connection, scope: Scope, count: int, *, compared: bool = False) -> list[int]:
    """Pks of the facts within *scope* that changed last, latest first; all of them, or those that are compared."""
    facts = _compared(scope) if compared else _facts(scope)
    query = select(memories.c.pk).where(facts).order_by(memories.c.seq.desc()).limit(count)
    return list(connection.execute(query).scalars())


def embeddings(connection: Connection, ids: Sequence[str]) -> dict[str, bytes]:
    """The vectors of some memories, by their ids."""
    rows = connection.execute(select(memories.c.id, memories.c.embedding).where(any_of(memories.c.id, ids)))
    return {row.id: row.embedding for row in rows}


def compared(connection: Connection, pks: Sequence[int]) -> list[int]:
    """Those of some memories that are compared, in the order given."""
    query = select(memories.c.pk).where(any_of(memories.c.pk, pks), memories.c.is_verbatim.is_(False))
    kept = set(connection.execute(query).scalars())
    return [pk for pk in pks if pk in kept]


def holding(connection: Connection, scope: Scope, text: str, language: str, most: int) -> list[str]:
    """Texts in the user's own words within *scope* that hold every word of a text which carries meaning, the latest first."""
    terms = sorted(meaningful(split(text, language), language))
    if not terms:
        return []
    posted = select(words.c.memory_pk).where(words.c.scope_id.in_(ids_within(scope)), any_of(words.c.term, terms))
    posted = posted.group_by(words.c.memory_pk).having(func.count() == len(terms))
    query = select(memories.c.text).where(memories.c.pk.in_(posted), memories.c.is_verbatim, lasting())
    texts = connection.execute(query.order_by(memories.c.pk.desc()).limit(10 * most)).scalars()
    return [each for each in texts if set(terms) <= set(split(each, language))][:most]


def matching(
    connection: Connection,
    scope: Scope,
    *,
    filters: Filter = EVERYTHING,
    memory_type: str | None = None,
    include_expired: bool = False,
) -> list[int]:
    """Pks of the memories within *scope* that a filter holds for, ascending."""
    where = and_(within(scope) if include_expired else _visible(scope), *_typed(memory_type))
    return [row.pk for row in _chosen(connection, memories.c.pk, where, filters)]


def ids(connection: Connection, scope: Scope, *, filters: Filter = EVERYTHING) -> list[str]:
    """Ids of the memories within *scope* that a filter holds for, expired ones too, oldest first."""
    return [row.id for row in _chosen(connection, memories.c.id, within(scope), filters)]


def with_text(connection: Connection, scope: Scope, text: str, memory_type: str) -> list[MemoryItem]:
    """The memories of a type within *scope* whose text is this one, letter by letter, newest first."""
    same = memories.c.hash == text_hash(text), memories.c.text == text
    query = _ITEM.where(_visible(scope), *_typed(memory_type), *same).order_by(memories.c.pk.desc())
    return [_item(row) for row in connection.execute(query)]


def page(
    connection: Connection,
    scope: Scope | None,
    *,
    k: int,
    after: str | None = None,
    filters: Filter = EVERYTHING,
    memory_type: str | None = None,
    include_expired: bool = False,
) -> tuple[list[MemoryItem], str | None]:
    """Memories within *scope* (`None`: of everybody), newest statement first, and the cursor of the next page.

    Raises:
        InvalidInputError: The cursor is none of ours.
    """
    query = _ITEM.where(reach(scope), true() if include_expired else lasting(), *_typed(memory_type))
    query, order = query.where(*pushdown.conditions(filters)), (memories.c.created_at, memories.c.pk)
    rows, following = listed(connection, query, *order, k=k, after=after, fits=_fitting(filters))
    return [_item(row) for row in rows], following


def revisions(connection: Connection, memory_id: str, scope: Scope | None = None) -> list[Revision]:
    """The history of one memory, in the order in which it was written; also of a deleted one."""
    rows = _past(connection, memory_id, scope)
    known = courses(connection, {row.past_of or row.memory_id for row in rows})
    ends = [known[row.past_of or row.memory_id].until(row.valid_from, row.seq) for row in rows]
    return [
        Revision(
            seq=row.seq,
            memory_id=row.memory_id,
            event=cast("Event", row.event),
            old_text=row.old_memory,
            new_text=row.new_memory,
            created_at=local(row.recorded_at, row.utc_offset),
            actor_id=row.actor_id,
            role=row.role,
            is_deleted=bool(row.is_deleted),
            reason=row.reason,
            revision=row.revision,
            id=row.id,
            stated_at=local(row.created_at, row.utc_offset),
            valid_from=local(row.valid_from, row.utc_offset),
            valid_to=end and local(end, row.utc_offset),
        )
        for row, end in zip(rows, ends, strict=True)
    ]


def past(
    connection: Connection, memory_id: str, revision: int, scope: Scope | None = None
) -> tuple[AnyRow, Scope, int]:
    """The history row of one revision, the scope it belongs to, and the number of the memory's last change.

    Raises:
        MemoryNotFoundError: There never was such a memory, or it lies outside *scope*.
        InvalidInputError: It has no such revision; the message names those it has.
    """
    rows = _past(connection, memory_id, scope)
    for row in rows:
        if row.revision == revision:
            return row, of_row(row), rows[-1].seq
    raise InvalidInputError(f"memory {memory_id} has no revision {quoted(revision)}; it has 1 to {rows[-1].revision}")


def contents(connection: Connection, memory_id: str) -> list[AnyRow]:
    """The history rows in which a memory itself changed, in order; none where it never was, or was erased."""
    return [row for row in _history(connection, memory_id) if row.past_of is None and row.event != "NONE"]


def restored(row: AnyRow, event: Event, reason: str, *, seen: int) -> Decision:
    """The decision that makes a memory what a row of its history says."""
    copied = {name: getattr(row, name) for name in _COPIED}
    how: dict[str, Any] = {"keep_expiry": False, "replace_metadata": True, "seen": seen}
    return Decision(event, row.memory_id, row.new_memory, reason, **copied, **how)


def _past(connection: Connection, memory_id: str, scope: Scope | None) -> list[AnyRow]:
    rows = _history(connection, memory_id)
    seen(rows[0] if rows else None, scope, memory_id)
    return rows


def _history(connection: Connection, memory_id: str) -> list[AnyRow]:
    query = select(history, *OWNER).join_from(history, scopes, history.c.scope_id == scopes.c.id)
    return list(connection.execute(query.where(history.c.memory_id == memory_id).order_by(history.c.seq)))


def _visible(scope: Scope) -> Any:
    return and_(memories.c.scope_id.in_(ids_within(scope)), lasting())


def lasting() -> ColumnElement[bool]:
    """That a memory has not expired."""
    return or_(memories.c.expires_at.is_(None), memories.c.expires_at > datetime.now(UTC))


def _facts(scope: Scope) -> Any:
    return and_(_visible(scope), memories.c.memory_type.is_(None))


def _compared(scope: Scope) -> Any:
    """Facts but for texts that are kept in the user's words: nothing but an equal text is compared with those."""
    return and_(_facts(scope), memories.c.is_verbatim.is_(False))


def _typed(memory_type: str | None) -> list[ColumnElement[bool]]:
    return [] if memory_type is None else [memories.c.memory_type == memory_type]


def _chosen(connection: Connection, column: Any, where: Any, filters: Filter) -> Iterator[AnyRow]:
    read = dict.fromkeys(["metadata", *pushdown.columns_read(filters)]) if filters else {}
    columns = (pushdown.COLUMNS[name] for name in read)
    query = select(column, memories.c.utc_offset, *columns).join_from(memories, scopes)
    query = query.where(where, *pushdown.conditions(filters)).order_by(memories.c.pk)
    with connection.execute(query, execution_options={"yield_per": 1000}) as rows:
        yield from filter(_fitting(filters), rows) if filters else rows


def _fitting(filters: Filter) -> Callable[[AnyRow], bool] | None:
    values = pushdown.values_reader(filters)
    return (lambda row: filters.matches(values(row))) if filters else None


_DATES: Final = ("created_at", "updated_at")
_AS_KEPT: Final = [field.name for field in fields(MemoryItem) if field.name not in {"scope", *_DATES}]


def _item(row: AnyRow) -> MemoryItem:
    times: dict[str, Any] = {name: local(getattr(row, name), row.utc_offset) for name in _DATES}
    return MemoryItem(scope=of_row(row), **times, **{name: getattr(row, name) for name in _AS_KEPT})


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
    fits = _fitting_past(filters)
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
    rows, following = listed(connection, query, *order, k=k, after=after, fits=_fitting_past(filters))
    return [item_of(row, row.began) for row in rows], following


def standing_vectors(connection: Connection, found: Sequence[PastMemory]) -> dict[int, NDArray[np.float32]]:
    """Vectors of those that still have the text that they had then, by `PastMemory.pk`; the others must be embedded again."""
    import numpy as np  # noqa: PLC0415 - commands that list memories start without it

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


def _fitting_past(filters: Filter) -> Callable[[AnyRow], bool] | None:
    return (lambda row: filters.matches(filter_values(item_of(row, row.began)))) if filters else None


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
