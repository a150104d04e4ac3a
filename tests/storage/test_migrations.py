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
from sqlalchemy import text, update

from langmem_adapter.adapters.chat_history import SQLChatMessageHistory
from langmem_adapter.conversation import WorkingMemory
from langmem_adapter.errors import StorageError
from langmem_adapter.memory import Memory
from langmem_adapter.storage import migrations
from langmem_adapter.storage.checkpoints import checkpoints
from langmem_adapter.storage.conversations import conversations
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.items import items
from langmem_adapter.storage.lexical import postings
from langmem_adapter.storage.meta import get, prepare, put
from langmem_adapter.storage.migrations.runner import HEAD, schema_version
from langmem_adapter.storage.tables import history, memories, metadata
from langmem_adapter.text import TOKENIZER

if TYPE_CHECKING:
    from sqlalchemy import Connection


_UPDATES = update(history).where(history.c.event == "UPDATE")


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
    """Take back what came since the first revision."""
    command.downgrade(alembic(connection), "0012")


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


def test_a_database_of_the_revision_before_keeps_what_it_holds_and_dates_it(database_url: str) -> None:
    with Memory(database_url) as memory:
        added = memory.add("I live in Lyon.", user_id="a", timestamp="2024-05-01")
        home = str(added.results[0].id)
        memory.update(home, "Lives in Oslo")
        memory.add("I like tea.", user_id="a", timestamp="2022-05-01")
        memory.add("你好", user_id="b", run_id="r")  # of a scope that has no row

        def known() -> object:
            return (
                memory.get_all(user_id="a"),
                memory.history(home),
                memory.traces(user_id="a"),
                memory.traces(run_id="r"),
            )

        before = known()
        memory.engine.database.setup(lambda connection: command.downgrade(alembic(connection), "0012"))
        prepare(memory.engine.database)
        assert known() == before
        assert memory.trace(str(added.trace_id), user_id="a").result.results == added.results
        then = {year: memory.get_all(user_id="a", as_of=f"{year}-06-01") for year in (2021, 2022, 2024)}
        assert [[item.text for item in page] for page in then.values()] == [
            [],
            ["Likes tea"],
            ["Lives in Lyon", "Likes tea"],
        ]
        memory.add("I like jazz.", user_id="a")
        memory.delete(home)
        assert [revision.event for revision in memory.history(home)] == ["ADD", "UPDATE", "DELETE"]


def test_what_was_said_before_turns_could_be_found_by_cause_is_still_there(database_url: str) -> None:
    with Memory(database_url) as memory:
        history = SQLChatMessageHistory("s", memory, user_id="a")
        history.add_user_message("你好")
        memory.engine.database.setup(lambda connection: command.downgrade(alembic(connection), "0013"))
        prepare(memory.engine.database)
        history.add_ai_message("Hello!")
        log = WorkingMemory(memory=memory, session_id="s", user_id="a")
        assert log.get() == history.messages
        assert [message.text for message in log.get_by_role("assistant")] == ["Hello!"]


def test_no_revision_of_before_begins_earlier_than_the_one_that_it_followed(database_url: str) -> None:
    with Memory(database_url) as memory:
        home = str(memory.add("Lives in Lyon", user_id="a", infer=False, timestamp="2024-05-01").results[0].id)
        memory.update(home, "Lives in Oslo")
        database = memory.engine.database
        database.setup(lambda connection: command.downgrade(alembic(connection), "0012"))
        early = {"updated_at": datetime(2020, 1, 1, tzinfo=UTC)}  # what was told late had won
        database.write(lambda connection: connection.execute(update(memories).values(early)))
        database.write(lambda connection: connection.execute(_UPDATES.values(early)))
        prepare(database)
        assert [item.text for item in memory.get_all(user_id="a", as_of="2024-06-01")] == ["Lives in Oslo"]
        assert memory.get_all(user_id="a", known_at="2100-01-01").items == memory.get_all(user_id="a").items


def test_the_seeds_columns_stand_in_the_history(database: Database) -> None:
    seed = "id memory_id old_memory new_memory event created_at updated_at is_deleted actor_id role"
    with database.read() as connection:
        assert connection.execute(text(f"select {seed.replace(' ', ', ')} from history")).all() == []


@pytest.mark.parametrize(("version", "told"), [("9999", "newer"), ("0011", "never released")])
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
