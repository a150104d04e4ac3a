"""`GraphMemory`: the knowledge graph as users hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langmem_adapter.arguments import flag, scope_if_given
from langmem_adapter.knowledge.backfill import Backfilling
from langmem_adapter.knowledge.exchange import Exchange
from langmem_adapter.knowledge.reads import GraphReads
from langmem_adapter.knowledge.suggestions import Suggesting
from langmem_adapter.knowledge.writes import GraphWrites

if TYPE_CHECKING:
    from neo4j import Driver

    from langmem_adapter.embedding.embedder import Embedder
    from langmem_adapter.mirror.mirror import Mirror
    from langmem_adapter.mirror.target import Dialect
    from langmem_adapter.reasoning.base import Reasoner
    from langmem_adapter.search.searcher import Searcher
    from langmem_adapter.storage.database import Database
    from langmem_adapter.storage.ledger import Ledger


class GraphMemory(GraphWrites, GraphReads, Exchange, Backfilling, Suggesting):
    """The knowledge graph beside the memories: who and what there is, and how one is related to the other, since when.

    Users get it as `Memory.graph`. With `Memory(graph=True)` every `add` writes into it what its facts say; everything can be
    written by hand as well. A relation holds from one time to another, and was believed from one time to another: `as_of`
    asks about the first, `known_at` about the second, and both mean now where nothing is said. Nothing is ever overwritten.

    Names are compared without case, width, articles and Dr. The user of a scope is somebody of his own, shown by his `user_id`:
    "I", "me", "user" and the `user_id` itself, letter by letter, mean him; any other spelling means a namesake, whom
    conversations may tell of. The same holds for the agent. A read names fields of a scope, the others are free; who has the
    same name in two scopes is one to the reader, and so is one user. Every method has an async twin with an `a` in front of
    its name.

    Args:
        database: The truth.
        ledger: Writes it.
        searcher: Finds the memories that answer a question.
        reasoner: Reads memories for relations; without one that cannot be done.
        embedder: Makes vectors of names, for suggestions and for a mirror that wants them.

    Example:
        >>> from langmem_adapter import Memory
        >>> memory = Memory(":memory:")
        >>> lyon = memory.graph.add("Anna", "lives in", "Lyon", user_id="alice", valid_from="2019-05-01")
        >>> oslo = memory.graph.add("Anna", "lives in", "Oslo", user_id="alice", valid_from="2024-03-01")
        >>> [relation.text for relation in memory.graph.relations(user_id="alice", entity="anna")]
        ['Anna lives in Oslo']
        >>> [relation.text for relation in memory.graph.relations(user_id="alice", as_of="2020-01-01")]
        ['Anna lives in Lyon']
        >>> memory.close()
    """

    def __init__(
        self,
        database: Database,
        ledger: Ledger,
        searcher: Searcher,
        *,
        reasoner: Reasoner | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        self._database = database
        self._ledger = ledger
        self._searcher = searcher
        self._reasoner = reasoner
        self._embedder = embedder
        self._mode = "offline" if reasoner is None else reasoner.mode

    def mirror(
        self,
        driver: Driver | str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        database: str | None = None,
        username: str | None = None,
        password: str | None = None,
        embeddings: bool = False,
        dialect: Dialect | None = None,
        label: str = "Entity",
    ) -> Mirror:
        """A mirror of this graph in Neo4j or Memgraph, for whoever wants to look at it there, in Cypher.

        `mirror.run_once()` brings it up to date, `mirror.follow(stop)` keeps it so; a memory never waits for it. Nothing is
        connected before.

        Args:
            driver: A `neo4j.Driver`, or an address like `bolt://localhost:7687`.
            user_id: Whose graph; where no field of the scope is named, everybody's.
            agent_id: The agent.
            run_id: The run or session.
            database: The database there; `None` for the server's default.
            username: For an address; by default `NEO4J_USERNAME` and `NEO4J_PASSWORD` are read from the environment.
            password: The same.
            embeddings: Give each node an `embedding` of its name, by this memory's model.
            dialect: `"neo4j"` or `"memgraph"`; `None` asks the server.
            label: Of the nodes; `"__Entity__"` is what LangChain's and Mem0's graphs call them.

        Raises:
            InvalidInputError: An argument cannot be used.
            MissingDependencyError: The package `neo4j` is not installed (extra `neo4j`).

        Example:
            >>> from langmem_adapter import Memory
            >>> with (
            ...     Memory(":memory:") as memory,
            ...     memory.graph.mirror("bolt://localhost:7687", user_id="alice") as mirror,
            ... ):
            ...     type(mirror).__name__  # and then mirror.run_once()
            'Mirror'
        """
        from langmem_adapter.mirror.mirror import Mirror  # noqa: PLC0415 - its driver takes a while to import

        scope = scope_if_given(user_id, agent_id, run_id)
        login = {"username": username, "password": password}
        embedder = self._embedder if flag(embeddings, "embeddings") else None
        return Mirror(
            self._database, driver, name=database, embedder=embedder, dialect=dialect, label=label, scope=scope, **login
        )
