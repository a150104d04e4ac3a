from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Column, MetaData, Text, text

from langmem_adapter.errors import StorageError
from langmem_adapter.storage import migrations
from langmem_adapter.storage.checkpoints import checkpoints
from langmem_adapter.storage.conversations import conversations
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.items import items
from langmem_adapter.storage.lexical import postings
from langmem_adapter.storage.meta import get, put
from langmem_adapter.storage.migrations import HEAD, prepare, schema_version
from langmem_adapter.storage.tables import metadata
from langmem_adapter.text import TOKENIZER

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

FIRST = "0100"


def empty(connection: Connection) -> None:
    """Take the tables away that a database of these tests on Postgres comes with."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))


def as_released(connection: Connection) -> None:
    """Make the tables of the first release."""
    empty(connection)
    frozen = Path(__file__).parent / "schema" / f"{FIRST}.{connection.dialect.name}.sql"
    for statement in frozen.read_text(encoding="utf-8").split(";\n"):
        connection.exec_driver_sql(statement) if statement else None
    connection.execute(text("INSERT INTO alembic_version VALUES (:first)"), {"first": FIRST})


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> MetaData:
    """The tables of a later release, which has one revision more and a column for it."""
    revision = {"9998": lambda op: op.add_column("memories", Column("made_up", Text()))}
    monkeypatch.setattr(migrations, "REVISIONS", migrations.REVISIONS | revision)
    monkeypatch.setattr(migrations, "HEAD", "9998")
    tables = MetaData()
    for table in metadata.sorted_tables:
        table.to_metadata(tables)
    tables.tables["memories"].append_column(Column("made_up", Text))
    return tables


@pytest.mark.parametrize("make", [empty, as_released], ids=["a new one", "one of the first release"])
def test_prepare_makes_exactly_the_tables_of_the_code(database_url: str, make: Callable[[Connection], None]) -> None:
    assert checkpoints.metadata is conversations.metadata is items.metadata is metadata
    database = Database(database_url)
    database.setup(make)
    prepare(database)
    with database.read() as connection:
        assert schema_version(connection) == HEAD
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    database.close()


def test_migrate_runs_a_new_revision_and_keeps_rows(database_url: str, later: MetaData) -> None:
    database = Database(database_url)
    database.setup(as_released)
    database.write(lambda connection: put(connection, "mine", "kept"))
    prepare(database)
    with database.read() as connection:
        assert schema_version(connection) == "9998"
        assert get(connection, "mine") == "kept"
        assert compare_metadata(MigrationContext.configure(connection), later) == []
    database.close()


def test_the_seeds_columns_stand_in_the_history(database: Database) -> None:
    seed = "id memory_id old_memory new_memory event created_at updated_at is_deleted actor_id role"
    with database.read() as connection:
        assert connection.execute(text(f"select {seed.replace(' ', ', ')} from history")).all() == []


@pytest.mark.parametrize(("version", "told"), [("9999", "newer"), ("0019", "never released")])
def test_a_database_of_a_version_that_is_not_known_is_refused(tmp_path: Path, version: str, told: str) -> None:
    database = Database(tmp_path / "m.db")
    prepare(database)
    database.write(lambda c: c.execute(text(f"UPDATE alembic_version SET version_num = '{version}'")))
    with pytest.raises(StorageError, match=told):
        prepare(database)
    database.close()


def test_prepare_refuses_tables_of_another_program(tmp_path: Path) -> None:
    database = Database(tmp_path / "m.db")
    database.setup(lambda c: c.execute(text("CREATE TABLE memories (mine TEXT)")))
    with pytest.raises(StorageError, match="another program"):
        prepare(database)
    database.close()


def test_another_tokenizer_version_writes_the_words_anew(database: Database) -> None:
    def spoil(connection: object) -> None:
        put(connection, "tokenizer", "0")  # type: ignore[arg-type]

    database.write(spoil)
    prepare(database)
    with database.read() as connection:
        assert get(connection, "tokenizer") == TOKENIZER


def test_postings_weigh_the_text_above_its_context() -> None:
    memory = {
        "scope_id": 1,
        "pk": 1,
        "text": "Likes tea",
        "context": "I like green tea",
        "created_at": datetime.now(UTC),
    }
    memory |= {"utc_offset": 0, "is_verbatim": False}
    counts = {row["term"]: row["count"] for row in postings(memory)}
    assert counts["tea"] > counts["green"]
