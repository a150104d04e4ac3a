"""How a saver comes by its database."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from sqlalchemy import URL, Engine

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.meta import prepare
from langmem_adapter.twins import beside

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

__all__ = ["Closable", "Done", "Opening", "opened"]


class Closable(Protocol):
    """What can be closed, sync and async."""

    def close(self) -> None:
        """Close it."""

    async def aclose(self) -> None:
        """The same."""


S = TypeVar("S", bound=Closable)


def opened(where: object) -> tuple[Database, bool]:
    """A database, ready to be used.

    Args:
        where: What `SQLAlchemySaver` takes.

    Returns:
        The database, and whether it is lent: that of a `Memory` is the memory's to close.

    Raises:
        InvalidInputError: It is nothing of that kind.
        StorageError: It cannot be opened.
    """
    # A memory is known by its parts: importing it, with all that it needs, is not needed here.
    lent = getattr(getattr(where, "engine", None), "database", None)
    if isinstance(lent, Database):
        return lent, True
    if not isinstance(where, str | Path | URL | Engine):
        raise InvalidInputError(
            f"a {type(where).__name__} is no database; give a path, ':memory:', a URL, a Postgres Engine or a Memory"
        )
    with ExitStack() as undo:
        database = Database(where)
        undo.callback(database.close)
        prepare(database)
        undo.pop_all()
    return database, False


class Opening(AbstractContextManager[S], AbstractAsyncContextManager[S], Generic[S]):
    """Opens something for a `with` statement, and in a worker thread for an `async with` statement.

    Args:
        opener: Opens it.
    """

    def __init__(self, opener: Callable[[], S]) -> None:
        self._opener = opener

    def __enter__(self) -> S:
        """Open."""
        self._open = self._opener()
        return self._open

    def __exit__(self, *_: object) -> None:
        """Close."""
        self._open.close()

    async def __aenter__(self) -> S:
        """Open, beside the event loop."""
        self._open = await beside(self._opener)
        return self._open

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        await self._open.aclose()


class Done:
    """What may be awaited, and need not be."""

    def __await__(self) -> Generator[Any, None, None]:
        """At once."""
        yield from ()
