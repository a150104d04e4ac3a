"""LangGraph's `BaseCheckpointSaver`, whole, on SQLite and Postgres."""

from __future__ import annotations

from langmem_adapter.adapters.checkpointer.saver import SQLAlchemySaver

__all__ = ["SQLAlchemySaver"]
