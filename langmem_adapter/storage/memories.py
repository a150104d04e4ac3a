"""Reading memories: as they are now, their history, and as they were (`as_of`, `known_at`).

A row of the history says what was true from its `valid_from` on: the date of a statement, or the time of an edit. A deletion
ends it. The timeline of a memory is its own rows and those that name it in `past_of`: statements that were added late and
dated before the current one. At a moment the row that begins last, among those that do not begin after it, is true; of two that
begin together, the one written last. So the order in which statements of different dates are added does not matter. The
current memory is the end of its timeline: nothing is written to it that begins before its `updated_at`.

`known_at` sees the rows that had been recorded by then: a user who says in June that he moved in May was known to live at the
old place until June. `as_of` sees what was true then: he lived at the new place from May on. Without `as_of` it is the end of
each timeline. Purged rows were never known.
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
from langmem_adapter.storage.queries import (
    COLUMNS,
    Prepared,
    any_of,
    filter_columns,
    filter_conditions,
    read_page,
    values_reader,
)
from langmem_adapter.storage.scopes import OWNER, check_visible, ids_within, of_row, reach, within
from langmem_adapter.storage.tables import history, memories, scopes, words
from langmem_adapter.storage.timestamps import bounded, local
from langmem_adapter.text import meaningful, text_hash
from langmem_adapter.text import words as split

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import tzinfo

    import numpy as np
    from numpy.typing import NDArray
    from sqlalchemy import ColumnElement, Connection

    from langmem_adapter.filters import Filter
    from langmem_adapter.records.results import Event
    from langmem_adapter.records.scope import Scope

AnyRow: TypeAlias = "Row[*tuple[Any, ...]]"
_STREAM: Final = {"yield_per": 1000}

# ── timelines ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_TIMELINE: Final = func.coalesce(history.c.past_of, history.c.memory_id)  # the memory that has the row in its timeline
_STEPS: Final = (
    select(_TIMELINE.label("owner"), *(history.c[name] for name in ("memory_id", "valid_from", "seq", "new_memory")))
    .where(or_(any_of(history.c.memory_id, "ids"), any_of(history.c.past_of, "ids")))
    .order_by(history.c.valid_from, history.c.seq)
)
_BEGINNING: Final = attrgetter("valid_from")
_ORDER: Final = attrgetter("valid_from", "seq")


class Step(NamedTuple):
    """A row of a timeline; a deletion has no text."""

    memory_id: str
    valid_from: datetime
    seq: int
    text: str | None


@dataclass(slots=True)
class MemoryTimeline:
    """The rows of a timeline, in the order of their dates."""

    steps: list[Step] = field(default_factory=list)

    @property
    def began(self) -> datetime | None:
        return next((step.valid_from for step in self.steps if step.text is not None), None)

    @property
    def last(self) -> datetime | None:
        return self.steps[-1].valid_from if self.steps else None

    def at(self, moment: datetime) -> Step | None:
        """The row that is true at a moment."""
        place = bisect_right(self.steps, moment, key=_BEGINNING)
        return self.steps[place - 1] if place else None

    def after(self, moment: datetime) -> datetime | None:
        """The date of the next row after a moment."""
        return self._date(bisect_right(self.steps, moment, key=_BEGINNING))

    def until(self, valid_from: datetime, seq: int) -> datetime | None:
        """When a row ends: the date of the next one."""
        return self._date(bisect_right(self.steps, (valid_from, seq), key=_ORDER))

    def _date(self, place: int) -> datetime | None:
        return self.steps[place].valid_from if place < len(self.steps) else None

    def find(self, moment: datetime, text: str | None) -> Step | None:
        """The row of a date with a text."""
        return next((step for step in self.steps if (step.valid_from, step.text) == (moment, text)), None)

    def put(self, row: Mapping[str, Any], valid_from: datetime, text: str | None) -> None:
        insort(self.steps, Step(row["id"], valid_from, row["seq"], text), key=_ORDER)


def timelines(connection: Connection, ids: Collection[str]) -> dict[str, MemoryTimeline]:
    """The timelines of some memories; an empty one for an unknown id."""
    by_id = {memory_id: MemoryTimeline() for memory_id in ids}
    for row in connection.execute(_STEPS, {"ids": ids}) if ids else ():
        if row.owner in by_id:
            by_id[row.owner].steps.append(Step(row.memory_id, row.valid_from, row.seq, row.new_memory))
    return by_id


# ── current memories ────────────────────────────────────────────────────────────────────────────────────────────────────

_ITEM_COLUMNS: Final = [
    column for column in memories.c if column.name not in {"embedding", "context", "scope_id", "seq"}
]
_ITEM: Final = select(*_ITEM_COLUMNS, *OWNER).join_from(memories, scopes, memories.c.scope_id == scopes.c.id)
_BY_PKS: Final = Prepared(_ITEM.where(any_of(memories.c.pk, "pks")))
_LETTERS: Final = func.length(memories.c.text).label("letters")
_TEXT_COLUMNS: Final = [
    *(memories.c[name] for name in "pk id seq updated_at utc_offset actor_id role".split()),
    _LETTERS,
]
_FIRST_LETTERS: Final = func.substr(memories.c.text, 1, bindparam("letters", type_=Integer)).label("text")
_TEXTS: Final = Prepared(
    select(*_TEXT_COLUMNS, _FIRST_LETTERS).where(any_of(memories.c.pk, "pks")).order_by(memories.c.pk)
)
_DATES: Final = ("created_at", "updated_at")
_AS_STORED: Final = [each.name for each in fields(MemoryItem) if each.name not in {"scope", *_DATES}]


def get(connection: Connection, memory_id: str, scope: Scope | None = None) -> MemoryItem:
    """One memory by its id."""
    return _item(check_visible(connection.execute(_ITEM.where(memories.c.id == memory_id)).first(), scope, memory_id))


def by_pks(connection: Connection, pks: Sequence[int]) -> dict[int, MemoryItem]:
    return {row.pk: _item(row) for row in _BY_PKS.rows(connection, {"pks": pks})}


def extent(connection: Connection, scope: Scope, most: int) -> tuple[int, int]:
    """The number of compared facts within *scope* and of their letters; at most *most* facts are read."""
    some = select(_LETTERS).where(_compared(scope)).limit(most).subquery()
    count, letters = connection.execute(select(func.count(), func.sum(some.c.letters)).select_from(some)).one()
    return count, letters or 0


def every_text(connection: Connection, scope: Scope) -> list[AnyRow]:
    """The pk, id, seq, updated_at, utc_offset, actor_id, role and text of every compared fact within *scope*."""
    return list(
        connection.execute(select(*_TEXT_COLUMNS, memories.c.text).where(_compared(scope)).order_by(memories.c.pk))
    )


def texts(connection: Connection, pks: Iterable[int], letters: int) -> list[Any]:
    """The same columns of some memories; a longer text is cut after so many letters and ends with an ellipsis."""
    rows = _TEXTS.rows(connection, {"pks": list(pks), "letters": letters + 1})
    return [row if len(row.text) <= letters else row._replace(text=row.text[: letters - 1] + "…") for row in rows]


def sequence_numbers(connection: Connection, ids: Sequence[str]) -> dict[str, int]:
    return dict(connection.execute(select(memories.c.id, memories.c.seq).where(any_of(memories.c.id, ids))).all())


def equal_texts(connection: Connection, scope: Scope, hashes: Sequence[str]) -> dict[str, list[int]]:
    """Pks of the facts within *scope* that have one of some normalised hashes, by hash: of each speaker's the oldest."""
    oldest = func.min(memories.c.pk)
    query = select(memories.c.hash, oldest).where(_facts(scope), any_of(memories.c.hash, "hashes")).order_by(oldest)
    query = query.group_by(memories.c.hash, memories.c.actor_id, memories.c.role)
    by_hash: dict[str, list[int]] = {}
    for digest, pk in connection.execute(query, {"hashes": hashes}):
        by_hash.setdefault(digest, []).append(pk)
    return by_hash


def latest(connection: Connection, scope: Scope, count: int, *, compared: bool = False) -> list[int]:
    """Pks of the facts within *scope* that changed last, latest first; all facts, or the compared ones."""
    facts = _compared(scope) if compared else _facts(scope)
    query = select(memories.c.pk).where(facts).order_by(memories.c.seq.desc()).limit(count)
    return list(connection.execute(query).scalars())


def embeddings(connection: Connection, ids: Sequence[str]) -> dict[str, bytes]:
    return dict(connection.execute(select(memories.c.id, memories.c.embedding).where(any_of(memories.c.id, ids))).all())


def compared(connection: Connection, pks: Sequence[int]) -> list[int]:
    """The compared facts among some memories, in the same order."""
    query = select(memories.c.pk).where(any_of(memories.c.pk, pks), memories.c.is_verbatim.is_(False))
    kept = set(connection.execute(query).scalars())
    return [pk for pk in pks if pk in kept]


def holding(connection: Connection, scope: Scope, text: str, language: str, most: int) -> list[str]:
    """Texts in the user's own words within *scope* that have every meaningful word of *text*, the latest first."""
    terms = sorted(meaningful(split(text, language), language))
    if not terms:
        return []
    pks = select(words.c.memory_pk).where(words.c.scope_id.in_(ids_within(scope)), any_of(words.c.term, terms))
    pks = pks.group_by(words.c.memory_pk).having(func.count() == len(terms))
    query = select(memories.c.text).where(memories.c.pk.in_(pks), memories.c.is_verbatim, lasting())
    rows = connection.execute(query.order_by(memories.c.pk.desc()).limit(10 * most)).scalars()
    return [each for each in rows if set(terms) <= set(split(each, language))][:most]


def matching(
    connection: Connection,
    scope: Scope,
    *,
    filters: Filter = EVERYTHING,
    memory_type: str | None = None,
    include_expired: bool = False,
) -> list[int]:
    """Pks of the memories within *scope* that a filter matches, ascending."""
    where = and_(within(scope) if include_expired else _visible(scope), *_of_type(memory_type))
    return [row.pk for row in _filtered(connection, memories.c.pk, where, filters)]


def ids(connection: Connection, scope: Scope, *, filters: Filter = EVERYTHING) -> list[str]:
    """Ids of the memories within *scope* that a filter matches, expired ones too, oldest first."""
    return [row.id for row in _filtered(connection, memories.c.id, within(scope), filters)]


def with_text(connection: Connection, scope: Scope, text: str, memory_type: str) -> list[MemoryItem]:
    """The memories of a type within *scope* with exactly this text, newest first."""
    same = memories.c.hash == text_hash(text), memories.c.text == text
    query = _ITEM.where(_visible(scope), *_of_type(memory_type), *same).order_by(memories.c.pk.desc())
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
    """Memories within *scope* (`None`: all), newest statement first, and the cursor of the next page."""
    query = _ITEM.where(reach(scope), true() if include_expired else lasting(), *_of_type(memory_type))
    query, order = query.where(*filter_conditions(filters)), (memories.c.created_at, memories.c.pk)
    rows, following = read_page(connection, query, *order, k=k, after=after, matches=_matches(filters))
    return [_item(row) for row in rows], following


def lasting() -> ColumnElement[bool]:
    return or_(memories.c.expires_at.is_(None), memories.c.expires_at > datetime.now(UTC))


def _visible(scope: Scope) -> Any:
    return and_(memories.c.scope_id.in_(ids_within(scope)), lasting())


def _facts(scope: Scope) -> Any:
    return and_(_visible(scope), memories.c.memory_type.is_(None))


def _compared(scope: Scope) -> Any:
    """Facts without the texts in the user's own words, which only an equal text is compared with."""
    return and_(_facts(scope), memories.c.is_verbatim.is_(False))


def _of_type(memory_type: str | None) -> list[ColumnElement[bool]]:
    return [] if memory_type is None else [memories.c.memory_type == memory_type]


def _filtered(connection: Connection, column: Any, where: Any, filters: Filter) -> Iterator[AnyRow]:
    names = dict.fromkeys(["metadata", *filter_columns(filters)]) if filters else {}
    query = select(column, memories.c.utc_offset, *(COLUMNS[name] for name in names)).join_from(memories, scopes)
    query = query.where(where, *filter_conditions(filters)).order_by(memories.c.pk)
    with connection.execute(query, execution_options=_STREAM) as rows:
        yield from filter(_matches(filters), rows) if filters else rows


def _matches(filters: Filter) -> Callable[[AnyRow], bool] | None:
    values = values_reader(filters)
    return (lambda row: filters.matches(values(row))) if filters else None


def _item(row: AnyRow) -> MemoryItem:
    times: dict[str, Any] = {name: local(getattr(row, name), row.utc_offset) for name in _DATES}
    return MemoryItem(scope=of_row(row), **times, **{name: getattr(row, name) for name in _AS_STORED})


# ── history ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

_RESTORED: Final = "context metadata memory_type actor_id role expires_at is_verbatim utc_offset".split()


def revisions(connection: Connection, memory_id: str, scope: Scope | None = None) -> list[Revision]:
    """The history of one memory, in the order in which it was written; also of a deleted one."""
    rows = _visible_history(connection, memory_id, scope)
    by_owner = timelines(connection, {row.past_of or row.memory_id for row in rows})
    ends = [by_owner[row.past_of or row.memory_id].until(row.valid_from, row.seq) for row in rows]
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
    """The history row of one revision, its scope, and the number of the memory's last change."""
    rows = _visible_history(connection, memory_id, scope)
    for row in rows:
        if row.revision == revision:
            return row, of_row(row), rows[-1].seq
    raise InvalidInputError(f"memory {memory_id} has no revision {quoted(revision)}; it has 1 to {rows[-1].revision}")


def contents(connection: Connection, memory_id: str) -> list[AnyRow]:
    """The history rows that changed a memory itself, in order; none for an id that is unknown or purged."""
    return [row for row in _history(connection, memory_id) if row.past_of is None and row.event != "NONE"]


def restored(row: AnyRow, event: Event, reason: str, *, seen: int) -> Decision:
    """The decision that restores a memory from a row of its history."""
    copied = {name: getattr(row, name) for name in _RESTORED}
    options: dict[str, Any] = {"keep_expiry": False, "replace_metadata": True, "seen": seen}
    return Decision(event, row.memory_id, row.new_memory, reason, **copied, **options)


def _visible_history(connection: Connection, memory_id: str, scope: Scope | None) -> list[AnyRow]:
    rows = _history(connection, memory_id)
    check_visible(rows[0] if rows else None, scope, memory_id)
    return rows


def _history(connection: Connection, memory_id: str) -> list[AnyRow]:
    query = select(history, *OWNER).join_from(history, scopes, history.c.scope_id == scopes.c.id)
    return list(connection.execute(query.where(history.c.memory_id == memory_id).order_by(history.c.seq)))


# ── the past ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class AsOf:
    """A moment of the past, in valid time, in recorded time, or in both; with a time zone."""

    as_of: datetime | None = None  # what was true then; `None`: the end of each timeline
    known_at: datetime | None = None  # what was recorded by then; `None`: everything


def parse_as_of(as_of: object, known_at: object, zone: tzinfo | None = UTC) -> AsOf | None:
    """The moment that a caller names, without an offset in *zone*; `None` where there is none."""
    values = {"as_of": as_of, "known_at": known_at}
    moments = {name: parse_time(value, name, zone) for name, value in values.items() if value is not None}
    return AsOf(**moments) if moments else None


@dataclass(frozen=True, slots=True)
class PastMemory:
    pk: int  # a memory that was deleted and restored has a new one
    context: str
    item: MemoryItem


def memories_as_of(
    connection: Connection, scope: Scope, when: AsOf, *, filters: Filter = EVERYTHING, memory_type: str | None = None
) -> list[PastMemory]:
    """Every memory within *scope* as it was, newest statement first, without those that had expired by then."""
    query = _as_of_query(scope, when, include_expired=False)
    query = query.order_by(bounded(query.selected_columns.began).desc(), query.selected_columns.pk.desc())
    if memory_type is not None:
        query = query.where(history.c.memory_type == memory_type)
    with connection.execute(query, execution_options=_STREAM) as rows:
        matching_rows = filter(_matches_past(filters), rows) if filters else rows
        return [PastMemory(row.pk, row.context, item_of(row, row.began)) for row in matching_rows]


def page_as_of(
    connection: Connection,
    scope: Scope,
    when: AsOf,
    *,
    k: int,
    after: str | None = None,
    filters: Filter = EVERYTHING,
    include_expired: bool = False,
) -> tuple[list[MemoryItem], str | None]:
    """`page` as it was: the same order, and cursors of the same kind."""
    query = _as_of_query(scope, when, include_expired=include_expired)
    order = query.selected_columns.began, query.selected_columns.pk
    rows, following = read_page(connection, query, *order, k=k, after=after, matches=_matches_past(filters))
    return [item_of(row, row.began) for row in rows], following


def current_vectors(connection: Connection, past: Sequence[PastMemory]) -> dict[int, NDArray[np.float32]]:
    """Vectors of the memories that still have their past text, by `PastMemory.pk`; the others must be embedded again."""
    import numpy as np  # noqa: PLC0415 - commands that list memories start without it

    by_id = {each.item.id: each for each in past}
    query = select(memories.c.id, memories.c.text, memories.c.embedding).where(any_of(memories.c.id, by_id))
    same = (row for row in connection.execute(query) if row.text == by_id[row.id].item.text)
    return {by_id[row.id].pk: np.frombuffer(row.embedding, np.float32) for row in same}


def _as_of_query(scope: Scope, when: AsOf, *, include_expired: bool) -> Select[Any]:
    # The rows that were known and had begun, the last one of each timeline first, and when each timeline began.
    begins = history.c.valid_from
    order = func.row_number().over(partition_by=_TIMELINE, order_by=(begins.desc(), history.c.seq.desc()))
    began = func.min(case((history.c.is_deleted == 0, begins))).over(partition_by=_TIMELINE)
    rows = select(history.c.seq, order.label("place"), began.label("began")).where(
        history.c.scope_id.in_(ids_within(scope)),
        *([] if when.known_at is None else [history.c.recorded_at <= when.known_at]),
        *([] if when.as_of is None else [begins <= when.as_of]),
    )
    ends = rows.subquery()
    # Contract: changes of one memory are written in the order of `seq`, whatever the clocks of their writers say; so a change
    # that was recorded by then proves its ADD. `test_known_at_works_where_clocks_of_writers_disagree`
    adds = history.alias()
    is_add = adds.c.memory_id == history.c.memory_id, adds.c.event == "ADD", adds.c.seq <= history.c.seq
    query = (
        select(history, select(func.max(adds.c.seq)).where(*is_add).scalar_subquery().label("pk"), ends.c.began, *OWNER)
        .join_from(ends, history, history.c.seq == ends.c.seq)
        .join(scopes, history.c.scope_id == scopes.c.id)
        .where(ends.c.place == 1, history.c.is_deleted == 0, _lasts(history.c.valid_to, when.as_of))
    )
    return query if include_expired else query.where(_lasts(history.c.expires_at, when.as_of or when.known_at))


def _lasts(end: ColumnElement[datetime | None], moment: datetime | None) -> ColumnElement[bool]:
    return end.is_(None) if moment is None else or_(end.is_(None), end > moment)


def _matches_past(filters: Filter) -> Callable[[AnyRow], bool] | None:
    return (lambda row: filters.matches(filter_values(item_of(row, row.began)))) if filters else None


def item_of(row: AnyRow, began: datetime) -> MemoryItem:
    """A row of the history as the memory that it was; a deletion has the text from before."""
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
