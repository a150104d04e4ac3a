"""Reading the entities of the knowledge graph, the most mentioned first."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import BigInteger, Integer, bindparam, exists, or_, select, tuple_, union

from langmem_adapter.records.graph import Entity
from langmem_adapter.records.results import EntityPage
from langmem_adapter.storage.cursors import HIGHEST, cursor, parse_cursor
from langmem_adapter.storage.graph.people import People
from langmem_adapter.storage.graph.statements import NAMES_OF, NODES
from langmem_adapter.storage.graph.tables import ENDS, entities, relations
from langmem_adapter.storage.prepared_statements import Prepared, any_of
from langmem_adapter.storage.scopes import expand, of_row

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sqlalchemy import Connection

    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.graph.reads import When

__all__ = ["by_pks", "page"]

_FIRST: Final = (2**31 - 1, HIGHEST)


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
    values = {**when.values, "scopes": scope_ids, "mentions": place[0], "last": place[1], "k": k + 1, "kind": kind}
    if len(scope_ids) == 1 and not when.past:
        statement = _ranked(when.shape, typed=kind is not None, unrelated=unrelated)
        values["scope"] = scope_ids[0]
    else:
        statement = _every(when.shape, unrelated=unrelated)
    pks = [pk for (pk,) in statement.rows(connection, values)]
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
    for row in NODES.rows(connection, {"pks": people.everyone(pks)}) if pks else ():
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
    for pk, key, name in NAMES_OF.rows(connection, {"pks": pks}) if pks else ():
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


@cache
def _every(shape: When, *, unrelated: bool) -> Prepared:
    if unrelated:
        return Prepared(
            select(entities.c.pk).where(any_of(entities.c.scope_id, "scopes"), entities.c.merged_into.is_(None))
        )
    chosen = any_of(relations.c.scope_id, "scopes"), *shape.conditions
    return Prepared(union(*(select(end).where(*chosen) for end in ENDS)))


@cache
def _ranked(shape: When, *, typed: bool, unrelated: bool) -> Prepared:
    """Of an exact scope no more are read than a page holds."""
    order = entities.c.mentions, entities.c.pk
    # The numbers are those of a cursor, hence of anybody.
    after = tuple_(*order) < tuple_(*(bindparam(name, type_=BigInteger) for name in ("mentions", "last")))
    chosen = [entities.c.scope_id == bindparam("scope"), entities.c.merged_into.is_(None), after]
    if typed:
        chosen.append(entities.c.type == bindparam("kind"))
    if not unrelated:
        chosen.append(or_(*(exists().where(end == entities.c.pk, *shape.conditions) for end in ENDS)))
    query = select(entities.c.pk).where(*chosen).order_by(*(column.desc() for column in order))
    return Prepared(query.limit(bindparam("k", type_=Integer)))
