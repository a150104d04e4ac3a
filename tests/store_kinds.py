"""Stores of each kind for the tests: ours on both databases, and LangGraph's own as the reference where that one is right."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest
from langchain_core.embeddings import Embeddings
from langgraph.store.memory import InMemoryStore
from sqlalchemy import select, update

from langmem_adapter.adapters.store import MemoryStore
from langmem_adapter.memory.memory import Memory
from langmem_adapter.storage.items import erase, items, moment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from langgraph.store.base import BaseStore

    Make = Callable[..., BaseStore]

POSTGRES = pytest.param("postgres", marks=pytest.mark.postgres)
OURS = ("sqlite", POSTGRES)
ALL = ("inmemory", *OURS)

_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


class Letters(Embeddings):
    """Counts letters: vectors that a test can work out by hand. It remembers what it was asked to embed."""

    fingerprint = "letters"

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed_query(self, text: str) -> list[float]:
        self.texts.append(text)
        return [float(text.lower().count(letter)) for letter in _LETTERS] + [0.001]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


def cosine(one: str, other: str) -> float:
    """What the score of one text for another must be."""
    a, b = Letters().embed_documents([one, other])
    product = sum(x * y for x, y in zip(a, b, strict=True))
    return float(product / (sum(x * x for x in a) * sum(y * y for y in b)) ** 0.5)


class Memories:
    """A memory on each kind of database, opened when a test first wants it, and used by many tests one after the other.

    Args:
        url: Gives the database of a kind.
    """

    def __init__(self, url: Callable[[str], str]) -> None:
        self._url = url
        self._stack = ExitStack()
        self._opened: dict[str, Memory] = {}

    def maker(self, kind: str) -> Make:
        """A function that makes empty stores: `"inmemory"`, or ours on `"sqlite"` or `"postgres"`, all over one memory."""
        if kind == "inmemory":
            return lambda index=None: InMemoryStore(index=index)
        if kind not in self._opened:
            self._opened[kind] = self._stack.enter_context(Memory(self._url(kind)))
        memory = self._opened[kind]
        memory.parts.database.write(erase)
        return lambda index=None, ttl=None: MemoryStore(memory, index=False if index is None else index, ttl=ttl)

    def close(self) -> None:
        """Close them all."""
        self._stack.close()


@contextmanager
def shared(request: pytest.FixtureRequest) -> Iterator[Memories]:
    """Memories for all tests of a module."""
    memories = Memories(request.getfixturevalue("shared_url"))
    try:
        yield memories
    finally:
        memories.close()


def set_expiry(store: BaseStore, key: str, when: datetime) -> None:
    """Let the items of a key expire at another time than they would, so that no test has to wait."""
    assert isinstance(store, MemoryStore)
    change = update(items).where(items.c.key == key).values(expires_at=int(when.timestamp() * 1_000_000))
    store._database.write(lambda connection: connection.execute(change))


def expiry(store: BaseStore, key: str) -> datetime | None:
    """When the item of a key expires."""
    assert isinstance(store, MemoryStore)
    with store._database.read() as connection:
        found = connection.execute(select(items.c.expires_at).where(items.c.key == key)).scalar_one()
    return None if found is None else moment(found)
