"""Whether a mirror is what the knowledge graph is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.bolt import lineage_of, nodes, relations

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langmem_adapter import Memory
    from tests.bolt import GraphServer

__all__ = ["assert_same", "moment"]

_TIMES = ("valid_from", "valid_to", "recorded_at", "retired_at")


def moment(value: Any) -> datetime | None:
    """A moment as the driver gives it; ArcadeDB keeps no zone."""
    if value is None:
        return None
    native: datetime = value.to_native()
    return native.replace(tzinfo=native.tzinfo or UTC)


def assert_same(memory: Memory, server: GraphServer, users: Iterable[str]) -> tuple[int, int]:
    """Every relation that was ever believed, and every entity, is in the mirror, and nothing else.

    Returns:
        How many entities and relations there are in the mirror.
    """
    lineage = lineage_of(memory)
    mirrored, tied = nodes(server, lineage), relations(server, lineage)
    known = [relation for user in users for relation in memory.graph.relations(user_id=user, history=True, k=10_000)]
    assert sorted(map(_of_tie, tied.values()), key=repr) == sorted(map(_of_relation, known), key=repr)
    named = [one for user in users for one in memory.graph.entities(user_id=user, unrelated=True, k=10_000)]
    alive = [node for node in mirrored.values() if "merged_into" not in node]
    assert sorted(map(_of_node, alive), key=repr) == sorted(map(_of_entity, named), key=repr)
    merged = [node for node in mirrored.values() if "merged_into" in node]
    assert all(node["merged_into"] in mirrored for node in merged)
    return len(mirrored), len(tied)


def _of_relation(relation: Any) -> tuple[Any, ...]:
    values = (relation.id, relation.source, relation.relation, relation.target, relation.mentions, relation.confidence)
    return (*values, relation.scope.user_id, relation.memory_ids, *(getattr(relation, name) for name in _TIMES))


def _of_tie(tie: dict[str, Any]) -> tuple[Any, ...]:
    values = tuple(tie[name] for name in "id source type target mentions confidence user_id".split())
    return (*values, tuple(tie["memory_ids"]), *(moment(tie.get(name)) for name in _TIMES))


def _of_entity(entity: Any) -> tuple[Any, ...]:
    values = entity.id, entity.name, entity.type, entity.mentions, entity.scope.user_id
    return (*values, set(entity.aliases), entity.created_at, entity.updated_at)


def _of_node(node: dict[str, Any]) -> tuple[Any, ...]:
    values = tuple(node[name] for name in "id name type mentions user_id".split())
    return (*values, set(node["aliases"]), moment(node["created"]), moment(node["updated"]))
