"""Whose a trace is, and what a list shows of it, without its whole state."""

from __future__ import annotations

from collections import Counter
from math import fsum
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

SCOPE = ("user_id", "agent_id", "run_id")
json = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
traces = sa.table(
    "traces",
    *(sa.column(name, sa.Text) for name in ("id", *SCOPE)),
    *(sa.column(name, json) for name in ("state", "summary")),
)


def upgrade() -> None:
    for name in SCOPE:
        op.add_column("traces", sa.Column(name, sa.Text))
    op.add_column("traces", sa.Column("summary", json))
    fill()
    op.drop_index("ix_traces_created", "traces")
    # SQLite makes the table anew for this, and in this order: what a list reads lies in front of the state.
    order = [("id", *SCOPE, "created_at", "summary", "state")]
    with op.batch_alter_table("traces", partial_reordering=order) as batch:
        batch.alter_column("summary", existing_type=json, nullable=False)
    for name in SCOPE:
        op.create_index(f"ix_traces_{name}", "traces", [name, "created_at", "id"])
    op.create_index("ix_traces_created", "traces", ["created_at", "id"])


def fill() -> None:
    connection = op.get_bind()
    for number in connection.execute(sa.select(traces.c.id)).scalars().all():
        mine = traces.c.id == number
        state = connection.execute(sa.select(traces.c.state).where(mine)).scalar_one()
        named = {name: state["task"]["scope"].get(name) for name in SCOPE}
        connection.execute(sa.update(traces).where(mine).values(**named, summary=summary(state)))


def summary(state: dict[str, Any]) -> dict[str, Any]:
    work = state["work"]
    return {
        "mode": state["mode"],
        "said": next((turn["text"] for turn in state["turns"] if turn["role"] != "system"), "")[:200],
        "facts": len(state["facts"]),
        "events": Counter(change["event"] for change in state["results"]),
        **{name: work["usage"].get(name, 0) for name in ("model_calls", "input_tokens", "output_tokens")},
        "milliseconds": fsum(work["milliseconds"].values()),
    }


def downgrade() -> None:
    for name in ("created", *SCOPE):
        op.drop_index(f"ix_traces_{name}", "traces")
    for name in ("summary", *SCOPE):
        op.drop_column("traces", name)
    op.create_index("ix_traces_created", "traces", ["created_at"])
