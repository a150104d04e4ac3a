"""`SQLAlchemySaver`: the state of LangGraph threads in our database."""

from __future__ import annotations

import secrets
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from sqlalchemy import URL
from sqlalchemy import Engine as SQLEngine

from langmem_adapter.adapters.checkpointer.methods import Checkpoints
from langmem_adapter.adapters.checkpointer.serializer import checked
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.settings import Settings
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.meta import prepare
from langmem_adapter.twins import Plan, awaited, beside, planned

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Generator

    from langgraph.checkpoint.serde.base import SerializerProtocol

    from langmem_adapter.memory.memory import Memory

__all__ = ["SQLAlchemySaver"]

S = TypeVar("S", bound="SQLAlchemySaver")


class _Opening(AbstractContextManager[S], AbstractAsyncContextManager[S]):
    """Opens a saver for a `with` statement, and in a worker thread for an `async with` statement."""

    def __init__(self, opener: Callable[[], S]) -> None:
        self._opener = opener

    def __enter__(self) -> S:
        self._open = self._opener()
        return self._open

    def __exit__(self, *_: object) -> None:
        self._open.close()

    async def __aenter__(self) -> S:
        self._open = await beside(self._opener)
        return self._open

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()


class _Done:
    """What may be awaited, and need not be."""

    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


class SQLAlchemySaver(Checkpoints, BaseCheckpointSaver[str]):
    """A LangGraph checkpointer: keeps the state of threads, so that a graph can stop, go on, and go back in time.

    The whole of `BaseCheckpointSaver`, in one class for sync and async graphs, on SQLite and Postgres. A step writes the
    channels that it changed, in one transaction, and everybody who waits shares a commit. Any number of threads, tasks and
    processes may use one database; it may be that of a `Memory`, whose tables stand beside these.

    A value comes back as it was put in, or there is an error: a type that LangGraph's strict msgpack does not know must be
    allowed. With an `EncryptedSerializer` states, writes and metadata are encrypted; ids of threads, checkpoints, runs and
    tasks and names of channels are not.

    Args:
        database: A path (SQLite), `":memory:"`, an SQLAlchemy URL, a Postgres `Engine`, or a `Memory` to share its database.
        serde: LangGraph's serializer for states; `None` is its strict one, `JsonPlusSerializer(allowed_msgpack_modules=None)`.

    Raises:
        InvalidInputError: The database is not understood, or the serializer falls back to pickle.
        MissingDependencyError: The driver is not installed.
        StorageError: The database cannot be opened.

    Example:
        >>> from langgraph.graph import START, MessagesState, StateGraph
        >>> builder = StateGraph(MessagesState)
        >>> _ = builder.add_node("greet", lambda state: {"messages": [("ai", "Hello!")]})
        >>> _ = builder.add_edge(START, "greet")
        >>> with SQLAlchemySaver(":memory:") as saver:
        ...     graph = builder.compile(checkpointer=saver)
        ...     thread = {"configurable": {"thread_id": "ada@example.com"}}
        ...     for said in ("Hi!", "Me again."):
        ...         state = graph.invoke({"messages": [("human", said)]}, thread)
        >>> [message.content for message in state["messages"]]
        ['Hi!', 'Hello!', 'Me again.', 'Hello!']
    """

    def __init__(
        self, database: str | Path | URL | SQLEngine | Memory, *, serde: SerializerProtocol | None = None
    ) -> None:
        super().__init__(serde=serde or JsonPlusSerializer(allowed_msgpack_modules=None))
        self._checked = checked(self.serde)
        self._database, self._lent = _opened(database)

    # ── opening and closing ─────────────────────────────────────────────────────────────────────────────────────────

    @classmethod
    def from_conn_string(cls, conn_string: str, *, serde: SerializerProtocol | None = None) -> _Opening[Self]:
        """A saver that is open within a `with` or an `async with` statement.

        Args:
            conn_string: A path (SQLite), `":memory:"` or an SQLAlchemy URL.
            serde: See the class.

        Example:
            >>> with SQLAlchemySaver.from_conn_string(":memory:") as saver:
            ...     saver.get({"configurable": {"thread_id": "1"}}) is None
            True
        """
        return _Opening(partial(cls, conn_string, serde=serde))

    def setup(self) -> Awaitable[None]:
        """Nothing is left to do: tables are made when the database is opened. May be awaited, as with LangGraph's savers."""
        return _Done()

    @planned
    def close(self) -> Plan[None]:
        """Close the database, unless it is that of a `Memory`; the object is of no use afterwards."""
        return Plan(lambda: None if self._lent else self._database.close())

    aclose = awaited(close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> Self:
        """The same saver, on the same database, that allows more types.

        Args:
            extra_allowlist: Module and name of each type, like `[("app.models", "Trip")]`.
        """
        clone: Self = super().with_allowlist(extra_allowlist)  # type: ignore[assignment] # a shallow copy of this one
        if clone is not self:
            clone._checked = checked(clone.serde)
        return clone

    def get_next_version(self, current: str | None, channel: None) -> str:  # noqa: ARG002 - LangGraph fixes the signature
        """The version after this one: a number that grows as text, and chance, so that two branches do not share one.

        Args:
            current: The version before; `None` for the first.
            channel: Not used.
        """
        number = 0 if current is None else int(str(current).split(".", maxsplit=1)[0])
        return f"{number + 1:032}.{secrets.randbelow(10**16):016}"


def _opened(where: object) -> tuple[Database, bool]:
    """A database, ready to be used, and whether it is lent: that of a `Memory` is the memory's to close."""
    # A memory is known by its parts: importing it, with all that it needs, is not needed here.
    lent = getattr(getattr(where, "parts", None), "database", None)
    if isinstance(lent, Database):
        return lent, True
    if not isinstance(where, str | Path | URL | SQLEngine):
        raise InvalidInputError(
            f"a {type(where).__name__} is no database; give a path, ':memory:', a URL, a Postgres Engine or a Memory"
        )
    with ExitStack() as undo:
        database = Database(where, **Settings().database_options)
        undo.callback(database.close)
        prepare(database)
        undo.pop_all()
    return database, False
