"""A server with its own mind: its settings, its locks, and the connections that it ends."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Final

import pytest
from sqlalchemy import bindparam, create_engine, event, make_url, text

from langmem_adapter.errors import StorageError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.settings import Settings
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.prepared_statements import Prepared
from langmem_adapter.storage.tables import meta

if TYPE_CHECKING:
    from collections.abc import Callable

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
def test_what_a_server_sets_changes_nothing(postgres_url: str, *, own_engine: bool) -> None:
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


def test_a_writer_that_stands_still_stops_nobody_for_ever(postgres_url: str) -> None:
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
async def test_a_lost_connection_is_a_passing_failure(postgres_url: str, then: Callable[[Connection], object]) -> None:
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


def test_who_cannot_connect_is_told_whether_it_may_pass(postgres_url: str) -> None:
    def told(url: str) -> bool:
        with pytest.raises(StorageError) as caught:
            Memory(url, embeddings="hash:64")
        return caught.value.transient

    assert told("postgresql://127.0.0.1:9/x")  # as while the server starts anew
    assert not told(make_url(postgres_url).set(database="nobody_made_it").render_as_string(hide_password=False))


def test_who_loses_the_server_in_a_commit_is_told_that_nothing_is_known(postgres_url: str) -> None:
    engine, server = create_engine(postgres_url), create_engine(postgres_url)
    database = Database(engine)

    def lose(connection: Connection) -> None:
        number = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar()
        with server.connect() as other:
            other.execute(text("SELECT pg_terminate_backend(:number, 60000)"), {"number": number})

    event.listen(engine, "commit", lose)
    with pytest.raises(StorageError, match="not known whether it was written") as caught:
        database.write(lambda _: None)
    event.remove(engine, "commit", lose)
    assert caught.value.transient
    assert database.write(lambda _: "again") == "again"
    database.close()
    server.dispose()


def test_a_server_that_the_network_does_not_lead_to_any_more_is_not_waited_for(postgres_url: str) -> None:
    bounds = {"connect_timeout": "10", "keepalives_idle": "30", "tcp_user_timeout": "30000"}
    own = make_url(postgres_url).update_query_dict({"connect_timeout": "3", "tcp_user_timeout": "0"})
    for url, wanted in ((make_url(postgres_url), bounds), (own, {**bounds, **dict(own.query)})):
        told: dict[str, str] = {}
        database = Database(url)
        with database.read() as connection:
            told |= connection.connection.dbapi_connection.info.get_parameters()  # type: ignore[union-attr]
        database.close()
        assert {name: told[name] for name in wanted} == wanted
