"""Dialects of SQLAlchemy that are equal to each other, so that the databases of a test run compile each statement once.

An engine has a dialect and a cache of its own. To open a memory, write one message and search compiles some thirty
statements, a third of what it costs; the tests open thousands of memories, and their servers are one and the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.util import LRUCache

if TYPE_CHECKING:
    from sqlalchemy import Engine

__all__ = ["Postgres", "SQLite", "register"]

_COMPILED: LRUCache[Any, Any] = LRUCache(4_000)


class _Equal:
    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    @classmethod
    def engine_created(cls, engine: Engine) -> None:
        """Give it the cache of all."""
        engine.update_execution_options(compiled_cache=_COMPILED)


class SQLite(_Equal, SQLiteDialect_pysqlite):
    """SQLite, as often as one likes."""

    supports_statement_cache = True


class Postgres(_Equal, PGDialect_psycopg):
    """The server of the tests."""

    supports_statement_cache = True


def register() -> None:
    """Let every engine that is made from now on have one of these."""
    for name in ("sqlite", "sqlite.pysqlite"):
        registry.register(name, __name__, SQLite.__name__)
    registry.register("postgresql.psycopg", __name__, Postgres.__name__)
