"""Alembic's entry: revisions run on the connection, and in the transaction, that `runner` hands over."""

from __future__ import annotations

from alembic import context

from langmem_adapter.storage.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
context.run_migrations()
