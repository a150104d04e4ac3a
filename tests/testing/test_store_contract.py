"""`StoreContract` runs for our store and for LangGraph's own; where these differ is marked, and stays so until they change."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from langgraph.store.memory import InMemoryStore

from langmem_adapter.testing import StoreContract
from tests.store_kinds import OURS, shared

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.store_kinds import Make, Memories

pytest_plugins = ["pytester"]


@pytest.fixture(scope="module")
def memories(request: pytest.FixtureRequest) -> Iterator[Memories]:
    with shared(request) as opened:
        yield opened


class TestMemoryStore(StoreContract):
    @pytest.fixture(params=OURS)
    def make_store(self, request: pytest.FixtureRequest, memories: Memories) -> Make:
        return memories.maker(request.param)


class TestInMemoryStore(StoreContract):
    differs: ClassVar = {
        "test_put_again_keeps_created_at_and_moves_updated_at": "a second put is a new item with a date of its own"
    }

    @pytest.fixture
    def make_store(self) -> Make:
        return lambda index=None: InMemoryStore(index=index)


class TestSqliteStore(StoreContract):
    modes = ("sync",)  # its async methods are those of another class
    differs: ClassVar = {
        "test_list_namespaces_sorts_by_labels_and_pages": "namespaces are sorted as text, not label by label",
        "test_put_again_keeps_created_at_and_moves_updated_at": "dates are whole seconds without an offset",
        "test_search_lists_items_without_vectors_last": "a query does not find items without vectors",
        "test_search_ranks_what_fits_filter_and_prefix_page_by_page": "later pages of a ranking come up short",
    }

    @pytest.fixture
    def make_store(self, tmp_path: Path) -> Iterator[Make]:
        kind = pytest.importorskip("langgraph.store.sqlite").SqliteStore
        driver: Any = (
            sqlite3 if hasattr(sqlite3.Connection, "enable_load_extension") else pytest.importorskip("pysqlite3")
        )
        opened: list[Any] = []

        def make(index: Any = None) -> Any:
            file = str(tmp_path / f"{len(opened)}.db")
            opened.append(driver.connect(file, check_same_thread=False, isolation_level=None))
            # It reads the fields from a key that its documentation does not name.
            store = kind(opened[-1], index=index and {**index, "text_fields": index["fields"]})
            store.setup()
            return store

        yield make
        for connection in opened:
            connection.close()


def test_store_contract_refuses_names_that_it_does_not_know(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest
        from langgraph.store.memory import InMemoryStore
        from langmem_adapter.testing import StoreContract

        class Base(StoreContract):
            @pytest.fixture
            def make_store(self):
                return lambda index=None: InMemoryStore(index=index)

        class TestModes(Base):
            modes = ("both",)

        class TestNone(Base):
            modes = ()

        class TestDiffers(Base):
            differs = {"test_gone": "it had another name"}
    """)
    done = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-k", "test_delete_and_put_again")
    done.assert_outcomes(errors=6)
    done.stdout.fnmatch_lines(["*differs names tests: *test_gone*"])
