"""A new graph in a database that the tests of a module share, of either kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from langmem_adapter.storage.database import Database
from langmem_adapter.storage.ledger import Ledger
from langmem_adapter.storage.migrations import prepare
from tests.storage.graph.small_graph import Graph

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def shared_database(request: pytest.FixtureRequest, shared_url: Callable[[str], str]) -> Iterator[Database]:
    """Open, with its tables."""
    database = Database(shared_url(request.param))
    prepare(database)
    yield database
    database.close()


@pytest.fixture
def graph(shared_database: Database) -> Graph:
    """The graph of a new user."""
    return Graph(Ledger(shared_database, fingerprint="hash:64/2"))
