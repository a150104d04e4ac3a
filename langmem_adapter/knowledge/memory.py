"""`GraphMemory`: reads, searches, drawings and edits of the knowledge graph, and its mirror."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Unpack

from langmem_adapter.arguments import bounded, filled, flag, memory_id_of, optional_scope, parse_time
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.knowledge import draw, walk
from langmem_adapter.knowledge.backfill import GraphBackfill
from langmem_adapter.knowledge.exchange import GraphExchange
from langmem_adapter.knowledge.imports import parse_name, parse_relation, parse_triple
from langmem_adapter.knowledge.suggestions import GraphSuggestions
from langmem_adapter.records.checks import check_text
from langmem_adapter.records.scope import Scope
from langmem_adapter.search.query import Query
from langmem_adapter.storage.graph import edits
from langmem_adapter.storage.graph import reads as graph_reads
from langmem_adapter.storage.graph.reads import GraphTime
from langmem_adapter.tracing import describe_hits, run_config, stage, traced
from langmem_adapter.twins import Plan, awaited, planned

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from neo4j import Driver

    from langmem_adapter.embedding.embedder import Embedder
    from langmem_adapter.knowledge.draw import DrawForm
    from langmem_adapter.mirror.mirror import Mirror
    from langmem_adapter.mirror.target import Dialect
    from langmem_adapter.reasoning.base import Reasoner
    from langmem_adapter.records.graph import Neighbour, Relation, RelationChange
    from langmem_adapter.records.results import EntityPage, Hit, RelationPage
    from langmem_adapter.records.scope import ScopeArguments
    from langmem_adapter.search.searcher import Searcher
    from langmem_adapter.storage.database import Database
    from langmem_adapter.storage.ledger import Ledger

_MOST_HOPS: Final = 5
_LONGEST_PATH: Final = 10
_LEAST_HITS: Final = 20  # memories that a search for relations looks at
_RELATION: Final = "a relation's id"


class GraphMemory(GraphExchange, GraphBackfill, GraphSuggestions):
    """The knowledge graph of the memories: entities, and relations between them with their times; `Memory.graph`.

    With `Memory(graph=True)` every `add` writes into it what its facts state; everything can be written by hand as well. A
    relation has a valid time and a recorded time: `as_of` asks about the first, `known_at` about the second, and both mean now
    where nothing is said. Nothing is ever overwritten.

    Names are compared without case, width, articles and Dr. The user of a scope is one entity, shown by the `user_id`. Its
    names are "I", "me", "user" and the exact `user_id`; any other spelling is another entity.
    The same holds for the agent. A read names fields of a scope, the others are free; entities with one name in two scopes
    are one to the reader. Every method has an async twin with an `a` in front of its name, and raises a `ScopeError` where a
    field of the scope is missing or blank, an `InvalidInputError` where an argument cannot be used.

    Args:
        database: The database.
        ledger: Writes it.
        searcher: Finds the memories that answer a question.
        reasoner: Reads memories for relations, for `backfill`.
        embedder: Makes vectors of names, for suggestions and mirrors.

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

    # ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @planned
    def add(
        self,
        source: str,
        relation: str,
        target: str,
        *,
        source_type: str | None = None,
        target_type: str | None = None,
        valid_from: datetime | str | None = None,
        valid_to: datetime | str | None = None,
        confidence: float = 1.0,
        single: bool | None = None,
        **fields: Unpack[ScopeArguments],
    ) -> Plan[RelationChange]:
        """Add a relation by hand; it stays until it is ended or deleted by hand, or another takes its place.

        Args:
            source: Name of the first entity, up to 200 characters.
            relation: A verb, up to 100 characters: `"lives in"` and `"lives_in"` are the same.
            target: Name of the second entity.
            source_type: Type of the first entity (`"person"`); known types stay.
            target_type: Type of the second.
            valid_from: Since when it holds, datetime or ISO 8601; default now, or unknown where *valid_to* lies in the past.
            valid_to: Until when it held; by default it still does.
            confidence: Above 0 and at most 1.
            single: Whether the source has one such target at a time, so that this one ends another; by default the name of the
                relation tells (`lives_in` and `works_at` do, `likes` does not).
            **fields: `user_id`, `agent_id`, `run_id`: the exact scope of the relation.

        Returns:
            What became of it: `"ADD"`, `"UPDATE"` (other dates), or `"NONE"` (it was known; one more mention).
        """
        values: dict[str, Any] = {"source": source, "relation": relation, "target": target, "single": single}
        values |= {"source_type": source_type, "target_type": target_type, "confidence": confidence}
        values |= {"valid_from": valid_from, "valid_to": valid_to}
        scope, triple = Scope(**fields), parse_triple(values)
        return Plan.calling(self._ledger.relate, self._ledger.arelate, scope, [triple]).then(_last_change)

    aadd = awaited(add)

    @planned
    def end(
        self,
        relation_id: str,
        *,
        at: datetime | str | None = None,
        **fields: Unpack[ScopeArguments],
    ) -> Plan[RelationChange]:
        """End a relation; its history stays.

        Args:
            relation_id: Its id.
            at: The end of its valid time, datetime or ISO 8601; default now.

        Raises:
            RelationNotFoundError: There is no such current relation.
            InvalidInputError: It had ended by then.
        """
        scope, time = optional_scope(fields), None if at is None else parse_time(at, "at")
        id_ = memory_id_of(relation_id, name=_RELATION)
        return self._ledger.writing(partial(edits.end, relation_id=id_, at=time, within=scope))

    aend = awaited(end)

    @planned
    def delete(self, relation_id: str, **fields: Unpack[ScopeArguments]) -> Plan[RelationChange]:
        """Delete a relation that was wrong; its history stays.

        Raises:
            RelationNotFoundError: There is no such current relation.
        """
        scope, id_ = optional_scope(fields), memory_id_of(relation_id, name=_RELATION)
        return self._ledger.writing(partial(edits.withdraw, relation_id=id_, within=scope))

    adelete = awaited(delete)

    @planned
    def delete_all(self, **fields: Unpack[ScopeArguments]) -> Plan[int]:
        """Withdraw every relation of a scope, and give their number; memories stay as they are."""
        return self._ledger.writing(partial(edits.withdraw_all, scope=Scope(**fields)))

    adelete_all = awaited(delete_all)

    @planned
    def merge(
        self,
        name: str,
        into: str,
        **fields: Unpack[ScopeArguments],
    ) -> Plan[int]:
        """Merge two entities: the first name stands for the second entity from now on.

        Args:
            name: The entity that goes.
            into: The entity that stays.

        Returns:
            How many relations were moved.

        Raises:
            EntityNotFoundError: No entity has the first name.
            InvalidInputError: They are one already, or a name cannot be used.
        """
        scope = Scope(**fields)
        loser, winner = parse_name(name, "name"), parse_name(into, "into")
        return self._ledger.writing(partial(edits.merge, name=loser, into=winner, within=scope))

    amerge = awaited(merge)

    @planned
    def split(self, name: str, **fields: Unpack[ScopeArguments]) -> Plan[int]:
        """Undo the last `merge` of this name; what was stated since then stays with the other entity.

        Args:
            name: The entity that had gone.

        Returns:
            How many relations came back.

        Raises:
            EntityNotFoundError: No entity of this name was merged.
            InvalidInputError: The name cannot be used.
        """
        scope = Scope(**fields)
        return self._ledger.writing(partial(edits.split, name=parse_name(name, "name"), within=scope))

    asplit = awaited(split)

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @planned
    def relations(
        self,
        *,
        entity: str | None = None,
        relation: str | None = None,
        as_of: datetime | str | None = None,
        known_at: datetime | str | None = None,
        history: bool = False,
        k: int = 100,
        after: str | None = None,
        **fields: Unpack[ScopeArguments],
    ) -> Plan[RelationPage]:
        """The relations of a scope, the newest recorded first, page by page.

        Args:
            entity: Only relations of this entity, at either end.
            relation: Only relations of this name.
            as_of: Those that held at that moment, datetime or ISO 8601; default now.
            known_at: Those recorded and not retired at that moment; default now. Give it to read page after page of one state.
            history: All that were ever recorded, about any time. *known_at* and *as_of* still bound it.
            k: Relations of a page, 1 to 10,000.
            after: The `next` of the page before.

        Returns:
            A sequence of relations, with `next` where there are more.
        """
        how: dict[str, Any] = {"k": bounded(k), "after": after}
        how |= {"entity": None if entity is None else filled(entity, "entity")}
        how |= {"relation": None if relation is None else parse_relation(relation)}
        when = GraphTime.parse(as_of, known_at, history=history)
        return self._plan(graph_reads.page, Scope(**fields), when, **how)

    arelations = awaited(relations)

    @planned
    def entities(
        self,
        *,
        type: str | None = None,  # noqa: A002 - what the record calls it
        as_of: datetime | str | None = None,
        known_at: datetime | str | None = None,
        unrelated: bool = False,
        k: int = 100,
        after: str | None = None,
        **fields: Unpack[ScopeArguments],
    ) -> Plan[EntityPage]:
        """The entities of a scope that have a relation, the most mentioned first, page by page.

        Args:
            type: Only entities of this type.
            as_of: With a relation that held at that moment, datetime or ISO 8601; default now.
            known_at: With a relation known at that moment; default now.
            unrelated: Those without a relation as well.
            k: Entities of a page, 1 to 10,000.
            after: The `next` of the page before.

        Returns:
            A sequence of entities, with `next` where there are more.
        """
        kind = None if type is None else check_text(type, "type")
        how: dict[str, Any] = {"k": bounded(k), "kind": kind, "unrelated": flag(unrelated, "unrelated"), "after": after}
        when = GraphTime.parse(as_of, known_at)
        return self._plan(graph_reads.entity_page, Scope(**fields), when, **how)

    aentities = awaited(entities)

    @planned
    def neighbours(
        self,
        entity: str,
        *,
        hops: int = 1,
        as_of: datetime | str | None = None,
        known_at: datetime | str | None = None,
        k: int = 100,
        **fields: Unpack[ScopeArguments],
    ) -> Plan[list[Neighbour]]:
        """The entities that are related to one, and to these in turn; relations are followed in both directions.

        Args:
            entity: Its name.
            hops: How many relations away, 1 to 5.
            as_of: By relations that held at that moment, datetime or ISO 8601; default now.
            known_at: By those known at that moment; default now.
            k: At most so many, 1 to 10,000: the nearest. Of an entity with very many relations the newest are followed.

        Returns:
            The neighbours, nearest first, each with the relations that lead to it; none of an unknown entity.

        Example:
            >>> from langmem_adapter import Memory
            >>> memory = Memory(":memory:")
            >>> for source, relation, target in [("Anna", "married to", "Ben"), ("Ben", "works at", "Acme")]:
            ...     added = memory.graph.add(source, relation, target, user_id="alice")
            >>> [(near.entity.name, near.hops) for near in memory.graph.neighbours("Anna", hops=2, user_id="alice")]
            [('Ben', 1), ('Acme', 2)]
            >>> [relation.text for relation in memory.graph.path("Anna", "Acme", user_id="alice")]
            ['Anna married to Ben', 'Ben works at Acme']
            >>> memory.close()
        """
        how = {"hops": bounded(hops, "hops", most=_MOST_HOPS), "k": bounded(k)}
        scope, when = Scope(**fields), GraphTime.parse(as_of, known_at)
        return self._plan(walk.neighbours, scope, when, filled(entity, "entity"), **how)

    aneighbours = awaited(neighbours)

    @planned
    def path(
        self,
        source: str,
        target: str,
        *,
        max_hops: int = 4,
        as_of: datetime | str | None = None,
        known_at: datetime | str | None = None,
        **fields: Unpack[ScopeArguments],
    ) -> Plan[list[Relation]]:
        """The shortest path between two entities; relations are followed in both directions.

        Args:
            source: The first entity.
            target: The second.
            max_hops: At most so many relations, 1 to 10.
            as_of: By relations that held at that moment, datetime or ISO 8601; default now.
            known_at: By those known at that moment; default now.

        Returns:
            The relations, from *source* on; none where there is no path, or both are one.
        """
        ends = filled(source, "source"), filled(target, "target")
        most = bounded(max_hops, "max_hops", most=_LONGEST_PATH)
        return self._plan(walk.path, Scope(**fields), GraphTime.parse(as_of, known_at), *ends, most=most)

    apath = awaited(path)

    @planned
    def search(
        self,
        query: str,
        *,
        k: int = 10,
        **fields: Unpack[ScopeArguments],
    ) -> Plan[list[Relation]]:
        """Search the relations that hold now: by names, by words, and by the memories that answer the query.

        Args:
            query: A question or statement.
            k: At most so many, 1 to 10,000.

        Returns:
            The relations, best first. No chat model is called; the query is embedded once.
        """
        scope, text = Scope(**fields), filled(query, "query")
        memories = Query(text, scope, k=max(_LEAST_HITS, bounded(k)))
        hits = Plan.calling(self._searcher.search, self._searcher.asearch, memories)
        plan = hits.and_then(lambda best: self._relate(scope, text, best, k))
        config = run_config("memory.graph.search", scope, self._mode)
        return traced(plan, config, inputs={"query": text, "k": k}, summarize=_trace_output)

    asearch = awaited(search)

    @planned
    def draw(
        self,
        *,
        format: DrawForm = "mermaid",  # noqa: A002 - the plain word
        entity: str | None = None,
        hops: int = 2,
        as_of: datetime | str | None = None,
        known_at: datetime | str | None = None,
        **fields: Unpack[ScopeArguments],
    ) -> Plan[str]:
        """The graph as a drawing in text, of at most 400 entities; `export` writes all of it.

        Args:
            format: `"mermaid"` (for Markdown), `"dot"` (for Graphviz), or `"graphml"` (for Gephi, yEd, networkx).
            entity: Draw what lies around it; by default the newest relations of the scope.
            hops: How far around it, 1 to 5.
            as_of: What held at that moment, datetime or ISO 8601; by default everything, ended relations dashed, with dates.
            known_at: What was known at that moment; default now.

        Returns:
            The drawing; it says where something was left out.

        Example:
            >>> from langmem_adapter import Memory
            >>> memory = Memory(":memory:")
            >>> added = memory.graph.add("Anna", "lives in", "Lyon", user_id="alice")
            >>> print(memory.graph.draw(user_id="alice"))
            flowchart LR
              n0["Anna"]
              n1["Lyon"]
              n0 -->|"lives in"| n1
            <BLANKLINE>
            >>> memory.close()
        """
        form, when = draw.check_form(format), GraphTime.parse(as_of, known_at, ever=True)
        centre = None if entity is None else filled(entity, "entity")
        how = {"hops": bounded(hops, "hops", most=_MOST_HOPS)}
        plan = self._plan(walk.drawn, Scope(**fields), when, centre, **how)
        return plan.then(lambda drawn: draw.drawing(drawn[0], form, when.as_of or datetime.now(UTC), cut=drawn[1]))

    adraw = awaited(draw)

    def _relate(self, scope: Scope, query: str, hits: Sequence[Hit], k: int) -> Plan[list[Relation]]:
        plan = self._plan(walk.search, scope, GraphTime.parse(None, None), query, [hit.id for hit in hits], k=k)
        return stage(plan, "relate", inputs=describe_hits(hits), summarize=_trace_output)

    def _plan(self, read: Callable[..., Any], *arguments: Any, **options: Any) -> Plan[Any]:
        return Plan(partial(self._database.fetch, read, *arguments, **options))

    # ── another database ────────────────────────────────────────────────────────────────────────────────────────────

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
        """A mirror of this graph in Neo4j or Memgraph, to read in Cypher.

        `mirror.run_once()` connects and brings it up to date, `mirror.follow(stop)` keeps it so; a memory never waits for it.

        Args:
            driver: A `neo4j.Driver`, or an address like `bolt://localhost:7687`.
            user_id: The user; without any of the three the graph of all scopes.
            agent_id: The agent.
            run_id: The run or session.
            database: The database there; `None` for the server's default.
            username: For an address; by default `NEO4J_USERNAME` and `NEO4J_PASSWORD` are read from the environment.
            password: With *username*.
            embeddings: Give each node an `embedding` of its name, by this memory's model.
            dialect: `"neo4j"` or `"memgraph"`; `None` asks the server.
            label: Of the nodes; LangChain's and Mem0's graphs use `"__Entity__"`.

        Raises:
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

        scope = optional_scope({"user_id": user_id, "agent_id": agent_id, "run_id": run_id})
        login = {"username": username, "password": password}
        embedder = self._embedder if flag(embeddings, "embeddings") else None
        return Mirror(
            self._database, driver, name=database, embedder=embedder, dialect=dialect, label=label, scope=scope, **login
        )


def _last_change(changes: Sequence[RelationChange]) -> RelationChange:
    """The change of the relation itself, which comes after those that gave way."""
    if not changes:
        raise InvalidInputError("source and target are the same entity; nothing was written")
    return changes[-1]


def _trace_output(relations: Sequence[Relation]) -> dict[str, Any]:
    return {"relations": [{"id": relation.id, "text": relation.text} for relation in relations]}
