"""Postgres behind PgBouncer, as it is often deployed: no session belongs to a client."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from sqlalchemy import create_engine, text

from langmem_adapter.adapters.checkpointer import SQLAlchemySaver
from langmem_adapter.errors import StorageError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.settings import Settings
from langmem_adapter.storage.database import Database
from langmem_adapter.twins import attempt
from tests.cases import each
from tests.pooler import pooled

pytestmark = pytest.mark.postgres

THREADS: Final = 8


def use(memory: Memory, saver: SQLAlchemySaver, user: str) -> None:
    config: Any = {"configurable": {"thread_id": user, "checkpoint_ns": ""}}
    for number in range(6):  # the driver prepares a statement that it has run five times
        memory.add(f"I live in City{number}.", user_id=user)
        assert memory.search("Where do I live?", user_id=user)
        assert memory.graph.relations(user_id=user)
        checkpoint = empty_checkpoint()
        config = saver.put(config, checkpoint, {"step": number}, {})
        saver.put_writes(config, [("answer", number)], "task")
        found = saver.get_tuple(config)
        assert found is not None
        assert found.checkpoint["id"] == checkpoint["id"]


def test_prepare_threshold_none_serves_eight_threads_through_pgbouncer(postgres_url: str) -> None:
    with pooled(postgres_url, size=2) as pooler:
        url = pooler.update_query_dict({"prepare_threshold": "None"})
        with (
            Memory(url, embeddings="hash:64", graph=True) as memory,
            SQLAlchemySaver(url) as saver,
            ThreadPoolExecutor(THREADS) as threads,
        ):
            for done in [threads.submit(use, memory, saver, f"user {number}") for number in range(THREADS)]:
                done.result()
            for number in range(THREADS):
                assert [item.text for item in memory.get_all(user_id=f"user {number}")] == ["Lives in City5"]
            assert memory.verify().ok


@pytest.mark.parametrize("how", ["setting", "environment", "engine"])
def test_prepare_threshold_is_read_from_everywhere(
    how: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pooled(postgres_url, size=1) as url:
        settings = Settings(prepare_threshold=None) if how == "setting" else None
        database: Any = url
        if how == "engine":
            database = create_engine(url, connect_args={"prepare_threshold": None})
        elif how == "environment":
            monkeypatch.setenv("LANGMEM_ADAPTER_PREPARE_THRESHOLD", "none")
        with (
            Memory(database, embeddings="hash:64", graph=True, settings=settings) as memory,
            SQLAlchemySaver(memory if how == "setting" else database) as saver,
        ):
            use(memory, saver, "alice")
            use(memory, saver, "bob")


@pytest.mark.parametrize("index", ["exact", "pgvector"])
def test_purge_vacuums_behind_a_pooler_and_sets_nothing(postgres_url: str, index: Any) -> None:
    settings = Settings(prepare_threshold=None, busy_timeout=0.2)
    direct = create_engine(postgres_url)
    with (
        pooled(postgres_url, size=1) as url,
        Memory(url, embeddings="hash:64", index=index, settings=settings) as memory,
    ):
        session = create_engine(url, connect_args={"prepare_threshold": None})
        memory.add("I live in Lyon.", user_id="alice", infer=False)
        assert memory.search("Lyon", user_id="alice")
        assert memory.purge(user_id="alice").remains == ()
        with session.connect() as connection:
            values = {name: connection.execute(text(f"SHOW {name}")).scalar() for name in ("lock_timeout", "TimeZone")}
        assert values["lock_timeout"] == "0"
        memory.add("I live in Oslo.", user_id="alice", infer=False)
        with direct.begin() as connection:
            connection.execute(text("LOCK TABLE history IN SHARE UPDATE EXCLUSIVE MODE"))
            (remaining,) = memory.purge(user_id="alice").remains
        assert "lock not available" in remaining
        session.dispose()
    direct.dispose()


def read(database: Database, times: int = 1) -> None:
    for _ in range(times):
        with database.read() as connection:
            assert connection.execute(text("SELECT 1")).scalar() == 1


def test_a_mixed_up_prepared_statement_names_prepare_threshold(postgres_url: str) -> None:
    direct = create_engine(postgres_url, isolation_level="AUTOCOMMIT")
    with pooled(postgres_url, size=1) as url:
        one, other = Database(url, prepare_threshold=3), Database(url, prepare_threshold=3)
        read(one, 6)
        with pytest.raises(StorageError, match=r"already exists .*\?prepare_threshold=None") as caught:
            read(other, 6)
        assert not caught.value.transient
        with direct.connect() as connection:
            connection.execute(
                text("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
                     "AND datname = current_database()")
            )  # fmt: skip
        errors = [error for _ in range(3) if (error := attempt(read, one).error) is not None]
        assert "does not exist (a pooler" in str(errors[-1])
        assert "?prepare_threshold=None" in str(errors[-1])  # an earlier one may tell of the connection that has ended
        one.close()
        other.close()
    direct.dispose()


REFUSED: Final[list[tuple[str, dict[str, str], str]]] = [
    ("statement", {}, "set PgBouncer's pool_mode to transaction"),
    ("transaction", {"options": "-c search_path=public"}, "ignore_startup_parameters"),
]


@each(("mode", "query", "fix"), REFUSED)
def test_database_names_the_setting_that_pgbouncer_refuses(
    postgres_server: str, mode: str, query: dict[str, str], fix: str
) -> None:
    with pooled(postgres_server, mode=mode) as url, pytest.raises(StorageError, match=fix) as caught:
        Memory(url.update_query_dict(query), embeddings="hash:64")
    assert not caught.value.transient


def test_database_names_pool_size_where_a_pooler_is_full(postgres_server: str) -> None:
    with pooled(postgres_server, clients=1) as url:
        one, other = Database(url), Database(url)
        with one.read():
            with pytest.raises(StorageError, match="pool_size") as caught:
                read(other)
            assert caught.value.transient
        one.close()
        other.close()
