"""The statements by which a write reads and writes the rows of the knowledge graph, prepared once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import ARRAY, BigInteger, ColumnElement, Text, bindparam, func, insert, select, update
from sqlalchemy.ext.compiler import compiles

from langmem_adapter.storage.queries import Prepared, any_of
from langmem_adapter.storage.tables import (
    BELIEVED,
    ENDS,
    ENTITIES_OF,
    entities,
    entity_names,
    history,
    relation_memories,
    relations,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy.sql.compiler import SQLCompiler


class _Between(ColumnElement[bool]):
    """The condition that source and target are one of the pairs of a list: `pairs_of` makes the parameters.

    Two conditions, each with a list of its own, would look into the index for every source with every target.
    """

    inherit_cache = False

    def __init__(self) -> None:
        self.pairs: Final = bindparam("pairs", type_=Text())
        self.sources, self.targets = (bindparam(name, type_=ARRAY(BigInteger)) for name in ("sources", "targets"))


@compiles(_Between, "sqlite")
def _between_json(element: _Between, compiler: SQLCompiler, **options: Any) -> str:
    return _AMONG.format(_FROM_JSON.format(compiler.process(element.pairs, **options)))


@compiles(_Between)
def _between_arrays(element: _Between, compiler: SQLCompiler, **options: Any) -> str:
    # Of arrays, unlike JSON, Postgres knows how long they are.
    lists = (compiler.process(each, **options) for each in (element.sources, element.targets))
    return _AMONG.format(_FROM_ARRAYS.format(*lists))


_FROM_JSON: Final = "SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each({})"
_FROM_ARRAYS: Final = "SELECT * FROM unnest({}, {})"
_AMONG: Final = "(relations.source_pk, relations.target_pk) IN ({})"


def pairs_of(pairs: Collection[tuple[int, int]]) -> dict[str, Any]:
    """The parameters of `BETWEEN`, of either kind of database."""
    return {
        "pairs": json.dumps(list(pairs)),
        "sources": [source for source, _ in pairs],
        "targets": [target for _, target in pairs],
    }


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _relations(*chosen: ColumnElement[bool]) -> Prepared:
    return Prepared(select(relations).where(*chosen))


_names: Final = entity_names.c
_named: Final = any_of(relations.c.relation, "names")
NAMES: Final = Prepared(
    select(_names.scope_id, _names.key, _names.entity_pk).where(
        any_of(_names.scope_id, "scopes"), any_of(_names.key, "keys")
    )
)
NAMES_OF: Final = Prepared(
    select(_names.entity_pk, _names.key, _names.name)
    .where(any_of(_names.entity_pk, "pks"))
    .order_by(_names.entity_pk, _names.key)
)
NODES: Final = Prepared(ENTITIES_OF.where(any_of(entities.c.pk, "pks")).order_by(entities.c.pk))
BETWEEN: Final = _relations(_Between(), BELIEVED)
FROM, TO = (_relations(any_of(end, "pks"), _named, BELIEVED) for end in ENDS)
ALL_OF: Final = tuple(_relations(any_of(end, "pks"), BELIEVED) for end in ENDS)
BY_ID: Final = _relations(any_of(relations.c.id, "ids"), BELIEVED)
BY_PK: Final = _relations(any_of(relations.c.pk, "pks"))
_last: Final = (
    select(relations.c.id, func.max(relations.c.retired_at).label("at"))
    .where(any_of(relations.c.id, "ids"))
    .group_by(relations.c.id)
    .subquery()
)
LAST_RETIRED: Final = Prepared(
    select(relations).join(_last, (relations.c.id == _last.c.id) & (relations.c.retired_at == _last.c.at))
)
LINKS: Final = Prepared(select(relation_memories).where(any_of(relation_memories.c.memory_id, "ids")))
SUPPORT: Final = Prepared(
    select(relation_memories)
    .where(any_of(relation_memories.c.relation_id, "ids"))
    .order_by(relation_memories.c.created_at, relation_memories.c.memory_id)
)
SAID: Final = Prepared(
    select(history.c.recorded_at, history.c.old_memory).where(
        history.c.memory_id == bindparam("memory"), history.c.past_of.is_(None)
    )
)

# ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

INSERT_NODE, INSERT_NAME, INSERT_BELIEF, INSERT_LINK = (
    Prepared(insert(table)) for table in (entities, entity_names, relations, relation_memories)
)
UPDATE_NODE: Final = Prepared(
    update(entities)
    .where(entities.c.pk == bindparam("_pk"))
    .values({name: bindparam(name) for name in ("type", "mentions", "updated_at", "merged_into")})
)
RETIRE: Final = Prepared(
    update(relations).where(relations.c.pk == bindparam("_pk")).values(retired_at=bindparam("_at"))
)
COUNT: Final = Prepared(
    update(relations)
    .where(relations.c.pk == bindparam("_pk"))
    .values(mentions=bindparam("mentions"), confidence=bindparam("confidence"))
)
UPDATE_LINK: Final = Prepared(
    update(relation_memories)
    .where(
        relation_memories.c.relation_id == bindparam("_relation"), relation_memories.c.memory_id == bindparam("_memory")
    )
    .values(dropped_at=bindparam("dropped_at"))
)
