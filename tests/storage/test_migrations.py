from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import text

from langmem_adapter.errors import StorageError
from langmem_adapter.storage import migrations
from langmem_adapter.storage.checkpoints import checkpoints
from langmem_adapter.storage.conversations import conversations
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.items import items
from langmem_adapter.storage.lexical import postings
from langmem_adapter.storage.meta import get, prepare, put
from langmem_adapter.storage.migrations.runner import HEAD, schema_version
from langmem_adapter.storage.tables import metadata
from langmem_adapter.text import TOKENIZER

if TYPE_CHECKING:
    from sqlalchemy import Connection


def empty(connection: Connection) -> None:
    """Take the tables away that a database of these tests on Postgres comes with."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))


def alembic(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    config.attributes["connection"] = connection
    return config


def begin(connection: Connection) -> None:
    """Take back every revision."""
    command.downgrade(alembic(connection), "base")


@pytest.mark.parametrize("grown", [False, True], ids=["at once", "revision by revision"])
def test_a_database_has_exactly_the_tables_of_the_code(database_url: str, grown: bool) -> None:  # noqa: FBT001 - a parameter of the test
    assert checkpoints.metadata is conversations.metadata is items.metadata is metadata
    database = Database(database_url)
    database.setup(empty)
    if grown:
        prepare(database)
        database.setup(begin)
    prepare(database)
    with database.read() as connection:
        assert schema_version(connection) == HEAD
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
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


def test_another_programs_tables_are_left_alone(tmp_path: Path) -> None:
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


def test_words_of_the_memory_count_more_than_those_of_its_source() -> None:
    counts = {row["term"]: row["count"] for row in postings(1, 1, "Likes tea", "I like green tea", datetime.now(UTC))}
    assert counts["tea"] > counts["green"]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_programs_log_hears_of_no_step_of_ours_but_of_its_own(
    database_url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(database_url)
    prepare(database)
    database.setup(begin)
    caplog.clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "alembic"]:
        monkeypatch.delitem(sys.modules, name)  # its import tells things, too
    with caplog.at_level("INFO"):
        prepare(database)
        assert caplog.records == []
        logging.getLogger("alembic.runtime.migration").info("a step of the program's own")
    assert len(caplog.records) == 1
    database.close()
