from __future__ import annotations

import asyncio
import itertools
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import closing, contextmanager, nullcontext, suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import Engine, create_engine, event, insert, select, text

from langmem_adapter.errors import InvalidInputError, MissingDependencyError, StorageError
from langmem_adapter.storage import database as database_module
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.feed import last_seq
from langmem_adapter.storage.migrations import prepare
from langmem_adapter.storage.tables import changes, meta
from tests.programs import Program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import FrameType

    from sqlalchemy import Connection


@pytest.fixture
def database_url(any_url: str) -> str:
    """In memory, too."""
    return any_url


def put(key: str, value: str = "x") -> Callable[[Connection], str]:
    def work(connection: Connection) -> str:
        connection.execute(insert(meta).values(key=key, value=value))
        return key

    return work


def keys(database: Database) -> set[str]:
    with database.read() as connection:
        return set(connection.execute(select(meta.c.key)).scalars()) - {"tokenizer", "language"}


def test_write_each_undoes_a_failed_write_alone(database: Database) -> None:
    def fail(connection: Connection) -> str:
        put("not kept")(connection)
        raise StorageError("after writing")

    before = database.commits
    told = database.write_each([put("before"), fail, put("after")])
    assert [str(one) for one in told] == ["before", "after writing", "after"]
    assert (keys(database), database.commits - before) == ({"before", "after"}, 1)


def test_version_changes_with_every_commit(database_url: str) -> None:
    one = Database(database_url)
    prepare(one)
    before = one.version()
    assert one.version() == before
    one.setup(lambda connection: connection.execute(text("INSERT INTO meta VALUES ('k', 'v')")))
    if one.path is None and one.dialect == "sqlite":
        one.write(put("own"))
    elif one.dialect == "postgresql":
        one.write(lambda c: c.execute(text("INSERT INTO changes VALUES (1, '\\x00', 'memories', 1, 'put')")))
    assert one.version() != before
    one.close()


async def test_awrite_shares_one_commit_and_keeps_errors_apart(database: Database) -> None:
    names = [f"k{i % 150}" for i in range(200)]  # the last 50 repeat earlier keys and must fail alone
    before = database.commits
    results = await asyncio.gather(*(database.awrite(put(name)) for name in names), return_exceptions=True)
    assert [r for r in results if not isinstance(r, str)] and all(isinstance(r, str | StorageError) for r in results)
    assert sum(isinstance(r, StorageError) for r in results) == 50
    assert keys(database) == set(names)
    assert database.commits - before <= 5


def test_write_makes_no_change_visible_after_a_later_one(database_url: str) -> None:
    """Who draws a number holds back whoever would draw the next one, in every process, until it is committed."""
    drawn, go_on, order = threading.Event(), threading.Event(), list[int]()
    with (
        closing(Database(database_url)) as one,
        closing(Database(database_url) if "mem" not in database_url else one) as two,
    ):
        prepare(one)

        def draw(connection: Connection) -> int:
            seq = last_seq(connection) + 1
            connection.execute(insert(changes).values(seq=seq, nonce=b"12345678", space="memories", row=seq, op="put"))
            return seq

        def slowly(connection: Connection) -> int:
            seq = draw(connection)
            drawn.set()
            assert go_on.wait(30)
            return seq

        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(lambda: order.append(one.write(slowly)))
            assert drawn.wait(30)
            second = pool.submit(lambda: order.append(two.write(draw)))
            with pytest.raises(FutureTimeoutError):
                second.result(0.2)
            go_on.set()
            wait([first, second])
        assert order == sorted(order) == [1, 2]


@pytest.mark.parametrize("queue_first", [True, False])
async def test_awrite_raises_a_defect_of_its_own_alone(database: Database, *, queue_first: bool) -> None:
    def defect(connection: Connection) -> None:
        put("defect")(connection)
        raise RecursionError("a defect")

    works = [put("a"), defect, put("b")]
    if queue_first:
        tasks = [asyncio.create_task(database.awrite(work)) for work in works]
        await asyncio.sleep(0)
        assert database.write(put("c")) == "c"
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert [repr(end) for end in ends] == ["'a'", "RecursionError('a defect')", "'b'"]
    else:
        with pytest.raises(RecursionError):
            database.write(defect)
        database.write_each([put("a"), put("b"), put("c")])
    assert keys(database) == {"a", "b", "c"}


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("a listener's"), OSError("a driver's")], ids=repr)
async def test_awrite_acknowledges_only_what_is_committed(database: Database, error: BaseException) -> None:
    def fail(_: Connection) -> None:
        raise error

    task = asyncio.create_task(database.awrite(put("of another")))
    await asyncio.sleep(0)
    event.listen(Engine, "commit", fail)
    try:
        with pytest.raises(KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else StorageError):
            database.write(put("mine"))
    finally:
        event.remove(Engine, "commit", fail)
    with pytest.raises(StorageError, match=r"may be in the database or not; check, or .* idempotency_key"):
        await task
    assert keys(database) == set()
    assert database.write(put("next")) == "next"


async def test_write_interrupted_anywhere_leaves_no_caller_waiting(database: Database) -> None:
    for number in range(60):
        task = asyncio.create_task(database.awrite(put(f"of another {number}")))
        await asyncio.sleep(0)
        mine = None
        with suppress(KeyboardInterrupt), _interrupted(number):
            mine = database.write(put(f"mine {number}"))
        async with asyncio.timeout(60):
            told = (await asyncio.gather(task, return_exceptions=True))[0]
        assert isinstance(told, StorageError) or {told} <= keys(database), number
        assert mine is None or {mine} <= keys(database), number
    assert (mine, told) == ("mine 59", "of another 59"), "a write has more places than were tried"


@contextmanager
def _interrupted(number: int) -> Iterator[None]:
    """Ctrl-C while it writes, at one of the places where Python looks for it: a function begins, a call is over."""
    passed, before = itertools.count(), sys.getprofile()
    modules = {database_module.__file__}

    def look(frame: FrameType, what: str, _: object) -> None:
        here = frame.f_code.co_filename in modules and what in {"call", "c_return"}
        if here and next(passed) == number:
            raise KeyboardInterrupt

    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(before)


async def test_awrite_returns_where_the_loop_has_no_executor(database: Database) -> None:
    full, free = ThreadPoolExecutor(1), threading.Event()
    full.submit(free.wait)
    asyncio.get_running_loop().set_default_executor(full)
    try:
        async with asyncio.timeout(60):
            assert await database.awrite(put("full")) == "full"
            free.set()
            await asyncio.get_running_loop().shutdown_default_executor()
            wanted = {f"gone {number}" for number in range(600)}  # more than one commit takes
            assert set(await asyncio.gather(*(database.awrite(put(name)) for name in wanted))) == wanted
    finally:
        free.set()
    assert keys(database) == {"full", *wanted}


async def test_awrite_cancelled_before_its_turn_writes_nothing(tmp_path: Path) -> None:
    database = Database(tmp_path / "m.db")
    prepare(database)
    with database._writers._flushing:
        task = asyncio.create_task(database.awrite(put("late")))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    database.write(put("other"))
    assert keys(database) == {"other"}
    database.close()


def test_prepare_by_six_processes_at_once(tmp_path: Path) -> None:
    code = (
        "import sys; from langmem_adapter.storage.database import Database;"
        "from langmem_adapter.storage.migrations import prepare; d = Database(sys.argv[1]); prepare(d); d.close()"
    )
    running = [Program("-c", code, tmp_path / "m.db") for _ in range(6)]
    assert [program.end().returncode for program in running] == [0] * 6


def test_database_sets_pragmas_for_durability(tmp_path: Path) -> None:
    database = Database(tmp_path / "m.db")
    with database.read() as connection:
        found = [
            connection.execute(text(f"PRAGMA {name}")).scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "secure_delete")
        ]
    assert found == ["wal", 2, 1, 1]
    database.close()


@pytest.mark.parametrize(
    "where", ["", "   ", "mysql+pymysql://x/y", "not a url://", "host=localhost dbname=x password=secret"]
)
def test_database_refuses_a_name_that_is_none(where: str) -> None:
    with pytest.raises(InvalidInputError):
        Database(where)


def test_database_names_the_extra_of_a_missing_driver() -> None:
    with pytest.raises(MissingDependencyError, match=r"langchain-langmem-adapter\[postgres\]"):
        Database("postgresql+pg8000://localhost/x")


def test_database_refuses_an_sqlite_engine() -> None:
    with pytest.raises(InvalidInputError, match="path"):
        Database(create_engine("sqlite://"))


def test_database_refuses_an_engine_of_another_kind() -> None:
    driver = SimpleNamespace(paramstyle="format", __version__="1.0.0", Error=Exception)
    with pytest.raises(InvalidInputError, match="mysql is not supported; use SQLite or"):
        Database(create_engine("mysql+pymysql://u@h/d", module=driver))


def test_database_location_has_no_password() -> None:
    assert "secret" not in Database("postgresql+psycopg://me:secret@localhost/x").location


def test_prepare_refuses_a_file_that_is_no_database(tmp_path: Path) -> None:
    file = tmp_path / "m.db"
    file.write_bytes(b"this is not a database, it is a text of some length" * 100)
    database = Database(file)
    with pytest.raises(StorageError, match="no SQLite database"):
        prepare(database)
    database.close()


def test_database_names_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="cannot make the folder"):
        Database(tmp_path / "file" / "m.db")


async def test_close_finishes_what_waits(tmp_path: Path) -> None:
    for error in (RecursionError("a defect"), KeyboardInterrupt()):
        database = Database(tmp_path / "m.db")
        prepare(database)

        def work(_: Connection, error: BaseException = error) -> None:
            raise error

        tasks = [asyncio.create_task(database.awrite(each)) for each in (put(f"before {error!r}"), work)]
        await asyncio.sleep(0)
        with pytest.raises(KeyboardInterrupt) if isinstance(error, KeyboardInterrupt) else nullcontext():
            database.close()
        with pytest.raises(StorageError, match="closed"):
            database.version()
        kept, _ = await asyncio.gather(*tasks, return_exceptions=True)
        again = Database(tmp_path / "m.db")
        assert isinstance(kept, StorageError) or kept in keys(again)
        again.close()


def test_write_is_acknowledged_where_close_comes_meanwhile(tmp_path: Path) -> None:
    database = Database(tmp_path / "m.db")
    prepare(database)

    def work(connection: Connection) -> str:
        closing = threading.Thread(target=database.close)
        closing.start()
        closing.join()
        return put("kept")(connection)

    assert database.write(work) == "kept"
    again = Database(tmp_path / "m.db")
    assert "kept" in keys(again)
    again.close()


def test_close_in_memory_waits_for_a_reader() -> None:
    database, begun, end = Database(":memory:"), threading.Event(), threading.Event()
    prepare(database)

    def read() -> int | None:
        with database.read() as connection:
            begun.set()
            end.wait(60)
            return connection.execute(text("SELECT count(*) FROM memories")).scalar()

    with ThreadPoolExecutor(2) as pool:
        reading = pool.submit(read)
        assert begun.wait(60)
        closing = pool.submit(database.close)
        wait([closing], timeout=0.1)
        end.set()
        assert (reading.result(), closing.result()) == (0, None)
    with pytest.raises(StorageError, match="closed"):
        read()


def test_write_is_refused_in_a_forked_child(tmp_path: Path) -> None:
    database = Database(tmp_path / "m.db")
    prepare(database)
    child = os.fork()
    if child == 0:  # pragma: no cover - runs in the child
        try:
            database.write(put("child"))
        except StorageError as error:
            os._exit(0 if "forked" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    database.close()
