"""A server with its own mind: its settings, its locks, and the connections that it ends."""

from __future__ import annotations

import asyncio
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pytest
from langchain_core.vectorstores import InMemoryVectorStore
from sqlalchemy import URL, Engine, NullPool, bindparam, create_engine, event, insert, make_url, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine

from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.errors import InvalidInputError, StorageError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.settings import Settings
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.queries import Prepared
from langmem_adapter.storage.tables import meta
from langmem_adapter.twins import attempt
from tests.cases import each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from sqlalchemy import Connection

pytestmark = pytest.mark.postgres

LAST: Final = "9999-12-31T23:59:59+00:00"
OWN: Final = {
    "timezone": "Asia/Tokyo",
    "datestyle": "German",
    "client_encoding": "LATIN1",
    "default_transaction_isolation": "serializable",
}


@pytest.mark.parametrize("own_engine", [False, True])
def test_memory_ignores_settings_of_the_server(postgres_url: str, *, own_engine: bool) -> None:
    engine = create_engine(postgres_url)
    with engine.begin() as connection:
        for name, value in OWN.items():
            connection.execute(text(f"ALTER DATABASE \"{engine.url.database}\" SET {name} = '{value}'"))
    engine.dispose()
    with Memory(engine if own_engine else postgres_url, embeddings="hash:64") as memory:
        for number in range(8):  # the driver prepares what it sees more than five times
            memory.add(f"I like tea {number} 🍵", user_id="a", infer=False, expires_at=LAST)
        assert [hit.text for hit in memory.search("tea 3", user_id="a", k=1)] == ["I like tea 3 🍵"]
        listed = memory.get_all(user_id="a")
        assert {str(item.expires_at) for item in listed} == {LAST.replace("T", " ")}
        assert len(listed) == 8
        if own_engine:
            with engine.connect() as connection:
                assert {name: connection.execute(text(f"SHOW {name}")).scalar() for name in OWN} == {
                    **OWN,
                    "datestyle": "German, DMY",
                }


def test_busy_timeout_ends_the_wait_for_another_writer(postgres_url: str) -> None:
    standing, free = threading.Event(), threading.Event()
    one = Database(postgres_url, busy_timeout=float("inf"))

    def stand(_: Connection) -> None:
        standing.set()
        free.wait()

    thread = threading.Thread(target=one.write, args=(stand,))
    thread.start()
    standing.wait()
    try:
        with Memory(postgres_url, embeddings="hash:64", settings=Settings(busy_timeout=0.1)) as memory:
            with pytest.raises(StorageError, match="busy_timeout") as caught:
                memory.add("I like tea.", user_id="a", infer=False)
            assert caught.value.transient
            assert not memory.get_all(user_id="a").items
    finally:
        free.set()
        thread.join()
        one.close()


_ANY: Final = text("SELECT 1")
_PREPARED: Final = Prepared(meta.select().where(meta.c.key == bindparam("name")))


@pytest.mark.parametrize(
    "then",
    [lambda c: c.execute(_ANY), lambda c: _PREPARED.rows(c, {"name": "x"}), lambda _: None],
    ids=["plain", "prepared", "at the commit"],
)
async def test_storage_error_is_transient_after_a_lost_connection(
    postgres_url: str, then: Callable[[Connection], object]
) -> None:
    database, server = Database(postgres_url), create_engine(postgres_url, isolation_level="AUTOCOMMIT")

    def cut_off(connection: Connection) -> None:
        pid = connection.execute(text("SELECT pg_backend_pid()")).scalar()
        with server.connect() as other:
            assert other.execute(text("SELECT pg_terminate_backend(:pid, 10000)"), {"pid": pid}).scalar()

    def work(connection: Connection) -> None:
        cut_off(connection)
        then(connection)

    def later(connection: Connection) -> None:
        for _ in range(2):
            then(connection)

    told = await asyncio.gather(*(database.awrite(part) for part in (work, later, later)), return_exceptions=True)

    def read() -> None:
        with database.read() as connection:
            work(connection)
            connection.execute(_ANY)

    with pytest.raises(StorageError) as caught:
        read()
    assert all(isinstance(error, StorageError) and error.transient for error in (*told, caught.value)), told
    assert database.write(lambda connection: connection.execute(_ANY).scalar()) == 1
    database.close()
    server.dispose()


def test_storage_error_says_whether_a_refused_connection_is_transient(postgres_url: str) -> None:
    def told(url: str) -> bool:
        with pytest.raises(StorageError) as caught:
            Memory(url, embeddings="hash:64")
        return caught.value.transient

    assert told("postgresql://127.0.0.1:9/x")  # as while the server starts anew
    assert not told(make_url(postgres_url).set(database="nobody_made_it").render_as_string(hide_password=False))


def test_write_says_unknown_where_the_server_is_lost_in_a_commit(postgres_url: str) -> None:
    engine, server = create_engine(postgres_url), create_engine(postgres_url)
    database = Database(engine)

    def lose(connection: Connection) -> None:
        number = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar()
        with server.connect() as other:
            other.execute(text("SELECT pg_terminate_backend(:number, 60000)"), {"number": number})

    event.listen(engine, "commit", lose)
    with pytest.raises(StorageError, match="may be in the database or not") as caught:
        database.write(lambda _: None)
    event.remove(engine, "commit", lose)
    assert caught.value.transient
    assert database.write(lambda _: "again") == "again"
    database.close()
    server.dispose()


def test_database_sets_timeouts_of_libpq(postgres_url: str) -> None:
    bounds = {"connect_timeout": "10", "keepalives_idle": "30", "tcp_user_timeout": "30000"}
    own = make_url(postgres_url).update_query_dict({"connect_timeout": "3", "tcp_user_timeout": "0"})
    for url, wanted in ((make_url(postgres_url), bounds), (own, {**bounds, **dict(own.query)})):
        told: dict[str, str] = {}
        database = Database(url)
        with database.read() as connection:
            told |= connection.connection.dbapi_connection.info.get_parameters()  # type: ignore[union-attr]
        database.close()
        assert {name: told[name] for name in wanted} == wanted


# ── connections ───────────────────────────────────────────────────────────────────────────────────────────────────────

THRESHOLDS: Final[list[tuple[str | None, int | None, int | None]]] = [
    (None, 5, 5), (None, None, None), ("0", None, 0), ("7", 5, 7), ("None", 5, None), ("none", 5, None),
]  # fmt: skip


@each(("in_url", "setting", "wanted"), THRESHOLDS)
def test_prepare_threshold_of_the_url_comes_before_the_setting(
    postgres_url: str, in_url: str | None, setting: int | None, wanted: int | None
) -> None:
    url = make_url(postgres_url)
    if in_url is not None:
        url = url.update_query_dict({"prepare_threshold": in_url})
    database = Database(url, **Settings(prepare_threshold=setting).database_options)
    for _ in range(3):
        assert database.write(lambda connection: connection.execute(_ANY).scalar()) == 1
        with database.read() as connection:
            assert connection.connection.dbapi_connection.prepare_threshold == wanted  # type: ignore[union-attr]
    database.close()


@each(
    ("query", "message"),
    [
        *(({"prepare_threshold": value}, "a number from 0, or None") for value in ("-1", "x", "", "0.5", ("1", "2"))),
        *(({name: "1"}, f"cannot say {name}") for name in ("autocommit", "context", "row_factory", "cursor_factory")),
    ],
)
def test_database_refuses_parameters_that_no_url_can_have(query: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Database(make_url("postgresql+psycopg://127.0.0.1:9/x").update_query_dict(query))


@each("name", ["pool_size", "max_overflow", "pool_timeout"])
def test_pool_size_in_the_url_is_named_as_a_setting(postgres_url: str, name: str) -> None:
    database = Database(make_url(postgres_url).update_query_dict({name: "3"}))
    with pytest.raises(StorageError, match=r"pool_size, max_overflow and pool_timeout are settings"):
        database.write(lambda _: None)
    database.close()


@each("encoding", ["SQL_ASCII", "LATIN1"])
def test_add_of_what_the_encoding_of_a_database_cannot_hold_names_utf8(postgres_server: str, encoding: str) -> None:
    engine = create_engine(postgres_server, isolation_level="AUTOCOMMIT")
    name = f"t{uuid4().hex}"
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0 LOCALE 'C'"))
        try:
            with Memory(engine.url.set(database=name), embeddings="hash:64", index="exact") as memory:
                memory.add("I like tea", user_id="a", infer=False)
                with pytest.raises(StorageError, match=r"cannot hold this text: .*UTF8"):
                    memory.add("I like tea 🍵", user_id="a", infer=False)
                assert [item.text for item in memory.get_all(user_id="a")] == ["I like tea"]
        finally:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


def test_add_to_a_database_that_is_only_read_names_target_session_attrs(postgres_url: str) -> None:
    engine = create_engine(postgres_url)
    with Memory(postgres_url, embeddings="hash:64", index="exact") as memory:
        memory.add("I like tea", user_id="a", infer=False)
        with engine.begin() as connection:
            connection.execute(text(f"ALTER DATABASE {engine.url.database} SET default_transaction_read_only = on"))
    engine.dispose()
    with Memory(postgres_url, embeddings="hash:64", index="exact") as memory:
        assert len(memory.search("tea", user_id="a")) == 1
        with pytest.raises(StorageError, match="target_session_attrs=read-write") as caught:
            memory.add("I like coffee", user_id="a", infer=False)
        assert not caught.value.transient


@each("driver", ["asyncpg", "psycopg_async", "aiopg"])
def test_database_names_the_driver_to_use_instead_of_asyncio(driver: str) -> None:
    with pytest.raises(InvalidInputError, match=rf"{driver} .*write postgresql\+psycopg://"):
        Memory(f"postgresql+{driver}://ada:s3cret@127.0.0.1:9/x")


def test_database_refuses_engines_without_transactions(postgres_url: str) -> None:
    engine = create_async_engine(postgres_url)
    for given in (engine, engine.sync_engine):
        with pytest.raises(InvalidInputError, match=r"asyncio alone; write postgresql\+psycopg://"):
            Memory(given)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="without AUTOCOMMIT"):
        Memory(create_engine(postgres_url, isolation_level="AUTOCOMMIT", poolclass=NullPool))


@pytest.fixture
def role(postgres_url: str) -> Iterator[tuple[URL, Engine]]:
    """The address of the database for a role that owns nothing, and the owner's engine."""
    name, owner = f"r{uuid4().hex}", create_engine(postgres_url)
    with owner.begin() as connection:
        connection.execute(text(f"CREATE ROLE {name} LOGIN"))
        connection.execute(text(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {name}"))
        connection.execute(text(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {name}"))
    yield owner.url.set(username=name), owner
    with owner.begin() as connection:
        connection.execute(text(f"DROP OWNED BY {name}; DROP ROLE {name}"))
    owner.dispose()


@each(
    ("pool", "hint"),
    [
        ({}, "lower the settings pool_size and max_overflow"),
        ({"pool_size": 3, "max_overflow": 0}, ""),
        ({"pool_size": 1, "max_overflow": 0}, ""),
        ({"pool_size": 1, "max_overflow": 0, "pool_timeout": 0.01}, "raise the settings pool_size"),
    ],
)
def test_pool_size_keeps_within_the_connections_of_a_role(
    role: tuple[URL, Engine], pool: dict[str, Any], hint: str
) -> None:
    url, owner = role
    with owner.begin() as connection:
        connection.execute(text(f"ALTER ROLE {url.username} CONNECTION LIMIT 3"))
    refused = Event()

    def read(database: Database) -> None:
        try:
            with database.read() as connection:
                connection.execute(_ANY)
                if hint:  # connections stay open until one is refused
                    refused.wait(60)
        except StorageError:
            refused.set()
            raise

    database = Database(url, **Settings(**pool).database_options)
    with ThreadPoolExecutor(8) as threads:
        errors = [done.exception() for done in [threads.submit(read, database) for _ in range(8)]]
    database.close()
    failures = [error for error in errors if error is not None]
    assert bool(failures) is bool(hint), failures
    assert all(isinstance(error, StorageError) and error.transient and hint in str(error) for error in failures), (
        failures
    )


@each(
    ("change", "advice"),
    [
        ("REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {role}", "permission denied .*let an owner GRANT this role"),
        ("ALTER ROLE {role} SET search_path = nowhere", "search_path names no schema that exists"),
        ("ALTER ROLE {role} SET statement_timeout = 1", "statement_timeout or an administrator ended it"),
    ],
)
def test_storage_error_of_postgres_says_what_to_change(role: tuple[URL, Engine], change: str, advice: str) -> None:
    url, owner = role
    with owner.begin() as connection:
        connection.execute(text(change.format(role=url.username)))
    create = "CREATE TABLE t (x int)" if "search_path" in change else "SELECT pg_sleep(60), count(*) FROM memories"
    database = Database(url)
    with pytest.raises(StorageError, match=advice) as caught:
        database.write(lambda connection: connection.execute(text(create)))
    assert not caught.value.transient
    database.close()
    with owner.begin() as connection:
        connection.execute(text(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {url.username}"))
        connection.execute(text(f"ALTER ROLE {url.username} RESET ALL"))


def test_prepare_names_tables_hidden_by_row_level_security(role: tuple[URL, Engine]) -> None:
    url, owner = role

    def execute(*statements: str) -> None:
        with owner.begin() as connection:
            for statement in statements:
                connection.execute(text(statement))

    def hidden() -> str:
        error = attempt(Memory, url, embeddings="hash:64").error
        return "" if error is None else str(error)

    execute("ALTER TABLE alembic_version ENABLE ROW LEVEL SECURITY", "ALTER TABLE memories ENABLE ROW LEVEL SECURITY")
    assert "hides every row of alembic_version, memories" in hidden()
    execute(
        "CREATE POLICY p ON alembic_version USING (true)", "CREATE POLICY p ON memories FOR INSERT WITH CHECK (true)"
    )
    assert "hides every row of memories" in hidden()
    execute(f"CREATE POLICY q ON memories TO {url.username} USING (true)")
    with Memory(url, embeddings="hash:64") as memory:
        memory.add("I like tea.", user_id="a", infer=False)
        assert [hit.text for hit in memory.search("tea", user_id="a")] == ["I like tea."]
    with Memory(owner, embeddings="hash:64") as memory:  # security does not hold for the owner
        assert len(memory.get_all(user_id="a").items) == 1
    execute("DELETE FROM alembic_version")
    assert "alembic_version, which names the schema, is empty" in str(
        attempt(Memory, owner, embeddings="hash:64").error
    )


# ── texts of errors ───────────────────────────────────────────────────────────────────────────────────────────────────


def whole(error: BaseException | None) -> str:
    """What a log would have of an error, with all that it came from."""
    return "".join(traceback.format_exception(error)) if error is not None else ""


QUOTED: Final = "a row of another tenant"
ROW: Final = {"key": QUOTED, "value": QUOTED}


@each("how", ["core", "prepared", "shared commit", "own engine", "parameter"])
def test_storage_error_has_no_detail_of_postgres(
    new_postgres: Callable[[], AbstractContextManager[str]], how: str
) -> None:
    prepared = Prepared(insert(meta).values(key=bindparam("key"), value=bindparam("value")))

    def again(connection: Connection) -> None:
        if how == "prepared":
            prepared.run(connection, ROW)
        elif how == "parameter":
            connection.execute(text("SELECT :value FROM no_such_table WHERE :key = ''"), ROW)
        else:
            connection.execute(insert(meta), ROW)

    with new_postgres() as url:
        database = Database(create_engine(url) if how == "own engine" else url)
        database.write(lambda connection: connection.execute(insert(meta), ROW))
        error = database.write_each([again, lambda _: None] if how == "shared commit" else [again])[0]
        database.close()
    assert isinstance(error, StorageError)
    assert ("does not exist" if how == "parameter" else "duplicate key value") in str(error)
    assert QUOTED not in whole(error)
    assert QUOTED not in repr(error.__cause__)


class AsyncpgError(Exception):
    """As asyncpg makes its errors."""

    def __init__(self, message: str, detail: str) -> None:
        super().__init__(message)
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.args[0]}\nDETAIL:  {self.__dict__.get('detail')}"


class Quoting(InMemoryVectorStore):
    """A store in Postgres that quotes rows where a write fails."""

    fail: Callable[[], None]

    def add_documents(self, *_: Any, **__: Any) -> list[str]:
        """Fail."""
        self.fail()
        return []


@each("driver", ["psycopg", "asyncpg", "asyncpg, wrapped"])
def test_storage_error_of_a_vector_store_has_no_detail_of_postgres(postgres_url: str, driver: str) -> None:
    def fail() -> None:
        error = AsyncpgError("duplicate key value", f"Key (key)=({QUOTED}) already exists.")
        if driver == "asyncpg":
            raise error
        if driver != "psycopg":
            adapted = OSError(str(error))
            adapted.__cause__ = error
            raise DBAPIError("INSERT", ROW, adapted) from adapted
        with engine.begin() as connection:
            connection.execute(insert(meta), [ROW, ROW])

    engine, store = create_engine(postgres_url), Quoting(HashEmbeddings(64))
    store.fail = fail
    with Memory(":memory:", embeddings=HashEmbeddings(64), index=store) as memory:
        memory.add("I like tea.", user_id="a", infer=False)
        with pytest.raises(StorageError, match=r"Quoting failed: .*duplicate key value") as caught:
            memory.search("tea", user_id="a")
    engine.dispose()
    assert QUOTED not in whole(caught.value)


def test_close_during_a_read_or_write_closes_the_connection_in_use(postgres_url: str) -> None:
    used: list[Any] = []

    def close_early(database: Database, connection: Connection) -> None:
        used.append(connection.connection.dbapi_connection)
        database.close()

    database = Database(postgres_url)
    database.write(partial(close_early, database))
    database = Database(postgres_url)
    with database.read() as connection:
        close_early(database, connection)
    assert [connection.closed for connection in used] == [True, True]
