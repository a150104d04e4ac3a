"""A LangGraph `BaseStore` on our database: durable, searched by meaning, the same on SQLite and Postgres."""

from __future__ import annotations

from langmem_adapter.adapters.store.store import MemoryStore

__all__ = ["MemoryStore"]
