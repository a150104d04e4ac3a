"""Reading the knowledge graph: page by page, by walking, by a question, as a drawing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.arguments import bounded, filled, flag
from langmem_adapter.knowledge import draw, views
from langmem_adapter.knowledge.arguments import relation_of, when_of
from langmem_adapter.records.checks import check_text
from langmem_adapter.records.scope import Scope
from langmem_adapter.search.query import Query
from langmem_adapter.storage.graph import reads as graph_entities
from langmem_adapter.storage.graph import reads as graph_reads
from langmem_adapter.tracing import run_config, shown, stage, traced
from langmem_adapter.twins import Plan, awaited, planned

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langmem_adapter.knowledge.draw import DrawForm
    from langmem_adapter.records.graph import Neighbour, Relation
    from langmem_adapter.records.results import EntityPage, Hit, RelationPage
    from langmem_adapter.search.searcher import Searcher
    from langmem_adapter.storage.database import Database

_MOST_HOPS: Final = 5
_LONGEST_PATH: Final = 10
_LEAST_HITS: Final = 20  # memories that a search for relations looks at


class GraphReads:
    """The part of `GraphMemory` that reads."""

    _database: Database
    _searcher: Searcher
    _mode: str

    @planned
    def relations(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        entity: str | None = None,
        relation: str | None = None,
        as_of: datetime | str | None = None,
        known_at: datetime | str | None = None,
        history: bool = False,
        k: int = 100,
        after: str | None = None,
    ) -> Plan[RelationPage]:
        """The relations of a scope, the one that was recorded last first, page by page.

        Args:
            user_id: Whose graph; at least one of the three is needed, the others are then free.
            agent_id: The agent.
            run_id: The run or session.
            entity: Only relations of the thing of this name, at either end.
            relation: Only relations of this name.
            as_of: Those that held at that moment, datetime or ISO 8601; default now.
            known_at: What was believed at that moment; default now. Give it to read page after page of one state.
            history: Everything that was ever believed, about any time. Moments that are given still bound it: *known_at* to
                what had been recorded by then, *as_of* to what held then.
            k: Relations of a page, 1 to 10,000.
            after: The `next` of the page before.

        Returns:
            A sequence of relations, with `next` where there are more.

        Raises:
            ScopeError: No field of the scope is given, or one is blank.
            InvalidInputError: An argument cannot be used.
        """
        how: dict[str, Any] = {
            "k": bounded(k),
            "entity": None if entity is None else filled(entity, "entity"),
            "relation": None if relation is None else relation_of(relation),
            "after": after,
        }
        when = when_of(as_of, known_at, history=history)
        return self._plan(graph_reads.page, Scope(user_id, agent_id, run_id), when, **how)

    arelations = awaited(relations)

    @planned
    def entities(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        type: str | None = None,  # noqa: A002 - what the record calls it
        as_of: datetime | str | None = None,
        known_at: datetime | str | None = None,
        unrelated: bool = False,
        k: int = 100,
        after: str | None = None,
    ) -> Plan[EntityPage]:
        """The entities of a scope that have a relation, the one that is mentioned most often first, page by page.

        Args:
            user_id: Whose graph; at least one of the three is needed, the others are then free.
            agent_id: The agent.
            run_id: The run or session.
            type: Only entities of this type.
            as_of: A relation that held at that moment, datetime or ISO 8601; default now.
            known_at: A relation that was believed at that moment; default now.
            unrelated: Those that have none as well.
            k: Entities of a page, 1 to 10,000.
            after: The `next` of the page before.

        Returns:
            A sequence of entities, with `next` where there are more.

        Raises:
            ScopeError: No field of the scope is given, or one is blank.
            InvalidInputError: An argument cannot be used.
        """
        kind = None if type is None else check_text(type, "type")
        lone = flag(unrelated, "unrelated")
        how: dict[str, Any] = {"k": bounded(k), "kind": kind, "unrelated": lone, "after": after}
        when = when_of(as_of, known_at)
        return self._plan(graph_entities.entity_page, Scope(user_id, agent_id, run_id), when, **how)

    aentities = awaited(entities)

    @planned
    def neighbours(
        self,
        entity: str,
        *,
        hops: int = 1,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        as_of: datetime | str | None = None,
        known_at: datetime | str | None = None,
        k: int = 100,
    ) -> Plan[list[Neighbour]]:
        """Who and what is related to an entity, and to these in turn; relations are followed in both directions.

        Args:
            entity: Its name.
            hops: How many relations away, 1 to 5.
            user_id: Whose graph; at least one of the three is needed, the others are then free.
            agent_id: The agent.
            run_id: The run or session.
            as_of: By relations that held at that moment, datetime or ISO 8601; default now.
            known_at: By those that were believed at that moment; default now.
            k: At most so many, 1 to 10,000: the nearest. Of an entity with very many relations the newest are followed.

        Returns:
            The neighbours, nearest first, each with the relations that lead to it; none of an unknown entity.

        Raises:
            ScopeError: No field of the scope is given, or one is blank.
            InvalidInputError: An argument cannot be used.

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
        scope, when = Scope(user_id, agent_id, run_id), when_of(as_of, known_at)
        return self._plan(views.neighbours, scope, when, filled(entity, "entity"), **how)

    aneighbours = awaited(neighbours)

    @planned
    def path(
        self,
        source: str,
        target: str,
        *,
        max_hops: int = 4,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        as_of: datetime | str | None = None,
        known_at: datetime | str | None = None,
    ) -> Plan[list[Relation]]:
        """How two entities are connected: the relations on a shortest way, followed in both directions.

        Args:
            source: Name of the one.
            target: Name of the other.
            max_hops: At most so many relations, 1 to 10.
            user_id: Whose graph; at least one of the three is needed, the others are then free.
            agent_id: The agent.
            run_id: The run or session.
            as_of: By relations that held at that moment, datetime or ISO 8601; default now.
            known_at: By those that were believed at that moment; default now.

        Returns:
            The relations, from *source* on; none where there is no such way, or both are one. Of several ways of the same
            length it is always the same one.

        Raises:
            ScopeError: No field of the scope is given, or one is blank.
            InvalidInputError: An argument cannot be used.
        """
        ends = filled(source, "source"), filled(target, "target")
        most = bounded(max_hops, "max_hops", most=_LONGEST_PATH)
        return self._plan(views.path, Scope(user_id, agent_id, run_id), when_of(as_of, known_at), *ends, most=most)

    apath = awaited(path)

    @planned
    def search(
        self,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        k: int = 10,
    ) -> Plan[list[Relation]]:
        """Find the relations that hold now by a question: by names, by words, and by the memories that answer it.

        Args:
            query: A question or statement.
            user_id: Whose graph; at least one of the three is needed, the others are then free.
            agent_id: The agent.
            run_id: The run or session.
            k: At most so many, 1 to 10,000.

        Returns:
            The relations, best first. No chat model is asked; the question is turned into a vector once.

        Raises:
            ScopeError: No field of the scope is given, or one is blank.
            InvalidInputError: An argument cannot be used.
        """
        scope, text = Scope(user_id, agent_id, run_id), filled(query, "query")
        asked = Query(text, scope, k=max(_LEAST_HITS, bounded(k)))
        hits = Plan.calling(self._searcher.search, self._searcher.asearch, asked)
        plan = hits.and_then(lambda best: self._found(scope, text, best, k))
        config = run_config("memory.graph.search", scope, self._mode)
        return traced(plan, config, inputs={"query": text, "k": k}, shown=_shown)

    asearch = awaited(search)

    @planned
    def draw(
        self,
        *,
        format: DrawForm = "mermaid",  # noqa: A002 - the plain word
        entity: str | None = None,
        hops: int = 2,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        as_of: datetime | str | None = None,
        known_at: datetime | str | None = None,
    ) -> Plan[str]:
        """The graph as a drawing in text, of at most 400 entities; `export` writes all of it.

        Args:
            format: `"mermaid"` (for Markdown), `"dot"` (for Graphviz), or `"graphml"` (for Gephi, yEd, networkx).
            entity: Draw what lies around it; by default the newest relations of the scope.
            hops: How far around it, 1 to 5.
            user_id: Whose graph; at least one of the three is needed, the others are then free.
            agent_id: The agent.
            run_id: The run or session.
            as_of: Draw what held at that moment, datetime or ISO 8601; by default everything, and what does not hold now is
                dashed, with its dates.
            known_at: Draw what was believed at that moment; default now.

        Returns:
            The drawing; where something was left out, it says so.

        Raises:
            ScopeError: No field of the scope is given, or one is blank.
            InvalidInputError: An argument cannot be used.

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
        form, when = draw.checked(format), when_of(as_of, known_at, ever=True)
        centre = None if entity is None else filled(entity, "entity")
        how = {"hops": bounded(hops, "hops", most=_MOST_HOPS)}
        plan = self._plan(views.drawn, Scope(user_id, agent_id, run_id), when, centre, **how)
        return plan.then(lambda seen: draw.drawing(seen[0], form, when.held or datetime.now(UTC), cut=seen[1]))

    adraw = awaited(draw)

    def _found(self, scope: Scope, query: str, hits: Sequence[Hit], k: int) -> Plan[list[Relation]]:
        plan = self._plan(views.found, scope, when_of(None, None), query, [hit.id for hit in hits], k=k)
        return stage(plan, "relate", inputs=shown(hits), shown=_shown)

    def _plan(self, read: Callable[..., Any], *arguments: Any, **options: Any) -> Plan[Any]:
        def run() -> Any:
            with self._database.read() as connection:
                return read(connection, *arguments, **options)

        return Plan(run)


def _shown(relations: Sequence[Relation]) -> dict[str, Any]:
    return {"relations": [{"id": relation.id, "text": relation.text} for relation in relations]}
