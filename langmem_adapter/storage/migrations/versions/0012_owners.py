"""The user and the agent of a scope become entities under a key of their own, which no name has.

Until now they were known by the spelling of their ids. Whoever was first called exactly as the id is taken for its owner, with
all that was said of either; nothing tells apart any more what was said of a namesake.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from alembic import op

from langmem_adapter.names import owner_key
from langmem_adapter.records.graph import ASSISTANT, SELF

if TYPE_CHECKING:
    from collections.abc import Iterator

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

names = sa.table("entity_names", *map(sa.column, ("scope_id", "key", "name", "entity_pk")))
entities = sa.table("entities", *map(sa.column, ("pk", "scope_id", "name", "owner")))
scopes = sa.table("scopes", *map(sa.column, ("id", "user_id", "agent_id")))
merges = sa.table("merges", *map(sa.column, ("pk", "scope_id")), sa.column("moved", sa.JSON))


def upgrade() -> None:
    op.add_column("entities", sa.Column("owner", sa.String(16)))
    connection = op.get_bind()
    for who, scope_id, owner in list(_owners(connection)):
        called = owner or who
        of_it = entities.c.scope_id == scope_id, entities.c.name == called, entities.c.owner.is_(None)
        first = connection.execute(sa.select(sa.func.min(entities.c.pk)).where(*of_it)).scalar_one()
        found = names.c.scope_id == scope_id, names.c.name == called, names.c.key.not_like("\\_%", escape="\\")
        old = connection.execute(sa.select(names.c.key).where(*found)).scalar()
        if first is None or old is None:
            continue
        connection.execute(sa.update(entities).where(entities.c.pk == first).values(owner=who))
        connection.execute(sa.update(names).where(*found).values(key=owner_key(who, owner)))
        _rename_in_merges(connection, scope_id, old, owner_key(who, owner))


def _owners(connection: sa.Connection) -> Iterator[tuple[str, int, str | None]]:
    graphs = scopes.c.id.in_(sa.select(entities.c.scope_id))
    for row in connection.execute(sa.select(scopes).where(graphs).order_by(scopes.c.id)):
        yield SELF, row.id, row.user_id
        yield ASSISTANT, row.id, row.agent_id


def _rename_in_merges(connection: sa.Connection, scope_id: int, old: str, new: str) -> None:
    """A merge of theirs can still be undone."""
    for pk, told in list(
        connection.execute(sa.select(merges.c.pk, merges.c.moved).where(merges.c.scope_id == scope_id))
    ):
        moved: dict[str, Any] = json.loads(told) if isinstance(told, str) else told
        if old in moved["keys"]:
            keys = [new if key == old else key for key in moved["keys"]]
            connection.execute(sa.update(merges).where(merges.c.pk == pk).values(moved={**moved, "keys": keys}))


def downgrade() -> None:
    """The keys stay, so that older code meets new entities of the same names."""
    op.drop_column("entities", "owner")
