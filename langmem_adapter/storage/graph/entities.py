"""Reading the entities of the knowledge graph, the most mentioned first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import BigInteger, exists, literal, or_, select, tuple_, union

from langmem_adapter.records.graph import Entity
from langmem_adapter.records.results import EntityPage
from langmem_adapter.storage.cursors import HIGHEST, cursor, parse_cursor
from langmem_adapter.storage.graph.people import People
from langmem_adapter.storage.graph.tables import ENDS, ENTITIES_OF, entities, entity_names, relations
from langmem_adapter.storage.prepared_statements import any_of
from langmem_adapter.storage.scopes import expand, of_row

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sqlalchemy import Connection, Executable, Select

    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.graph.reads import When

__all__ = ["by_pks", "page"]

_FIRST: Final = (2**31 - 1, HIGHEST)
_ENTITIES: Final = ENTITIES_OF.where(any_of(entities.c.pk, "pks")).order_by(entities.c.pk)
_NAMES: Final = (
    select(entity_names.c.entity_pk, entity_names.c.key, entity_names.c.name)
    .where(any_of(entity_names.c.entity_pk, "pks"))
    .order_by(entity_names.c.entity_pk, entity_names.c.key)
)


def page(
    connection: Connection,
    scope: Scope,
    when: When,
    *,
    k: int,
    kind: str | None = None,
    unrelated: bool = False,
    after: str | None = None,
) -> EntityPage:
    """Entities within *scope*, the most mentioned first; `GraphMemory.entities` says what the arguments mean.

    Raises:
        InvalidInputError: The cursor is none of ours.
    """
    scope_ids = expand(connection, scope)
    people = People(connection, scope_ids)
    place = _FIRST if after is None else parse_cursor(after, int, int)
    query: Executable
    if len(scope_ids) == 1 and not when.past:
        query = _ranked(when, place, k, kind=kind, unrelated=unrelated).where(entities.c.scope_id == scope_ids[0])
    elif unrelated:
        query = select(entities.c.pk).where(any_of(entities.c.scope_id, "scopes"), entities.c.merged_into.is_(None))
    else:
        query = union(*(select(end).where(any_of(relations.c.scope_id, "scopes"), *when.conditions) for end in ENDS))
    pks: Sequence[int] = connection.execute(query, {"scopes": scope_ids}).scalars().all()
    groups = _groups(connection, people, pks).values()
    ranked = sorted((group for group in groups if kind in {None, _type(group)}), key=_place, reverse=True)
    ranked = [group for group in ranked if _place(group) < tuple(place)]
    following = cursor(*_place(ranked[k - 1])) if len(ranked) > k else None
    return EntityPage(tuple(_entities(connection, people, ranked[:k])), following)


def by_pks(connection: Connection, people: People, pks: Collection[int]) -> dict[int, Entity]:
    """Entities, each once for all that are one with it, by the least pk of these."""
    groups = _groups(connection, people, pks)
    return dict(zip(groups, _entities(connection, people, list(groups.values())), strict=True))


def _groups(connection: Connection, people: People, pks: Collection[int]) -> dict[int, list[Any]]:
    """The rows of those that are one, oldest first, but for rows that were merged into another."""
    groups: dict[int, list[Any]] = {}
    for row in connection.execute(_ENTITIES, {"pks": people.everyone(pks)}) if pks else ():
        if row.merged_into is None:
            groups.setdefault(people.who(row.pk), []).append(row)
    return groups


def _place(group: Sequence[Any]) -> tuple[int, int]:
    """Where a group stands in the order: by its mentions, and by its age."""
    return sum(row.mentions for row in group), group[0].pk


def _type(group: Sequence[Any]) -> str:
    return next((row.type for row in group if row.type), "")


def _entities(connection: Connection, people: People, groups: Sequence[Sequence[Any]]) -> list[Entity]:
    names: dict[int, dict[str, str]] = {}
    pks = [row.pk for group in groups for row in group]
    for pk, key, name in connection.execute(_NAMES, {"pks": pks}) if pks else ():
        names.setdefault(people.who(pk), {}).setdefault(key, name)
    return [_entity(group, names.get(people.who(group[0].pk), {})) for group in groups]


def _entity(group: Sequence[Any], names: dict[str, str]) -> Entity:
    """One entity of those that are one; it is called what the oldest is called."""
    oldest = group[0]
    return Entity(
        id=oldest.id,
        name=oldest.name,
        type=_type(group),
        scope=of_row(oldest),
        aliases=tuple(name for name in names.values() if name != oldest.name),
        mentions=_place(group)[0],
        created_at=min(row.created_at for row in group),
        updated_at=max(row.updated_at for row in group),
    )


def _ranked(when: When, place: Sequence[int], k: int, *, kind: str | None, unrelated: bool) -> Select[tuple[int]]:
    """Of an exact scope no more are read than a page holds."""
    order = entities.c.mentions, entities.c.pk
    # The numbers are those of a cursor, hence of anybody.
    after = tuple_(*order) < tuple_(*(literal(number, BigInteger) for number in place))
    query = select(entities.c.pk).where(entities.c.merged_into.is_(None), after)
    if kind is not None:
        query = query.where(entities.c.type == kind)
    if not unrelated:
        query = query.where(or_(*(exists().where(end == entities.c.pk, *when.conditions) for end in ENDS)))
    return query.order_by(*(column.desc() for column in order)).limit(k + 1)
