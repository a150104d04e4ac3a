"""Mem0's methods, each written once as a plan: what it asks of the engine, and which dict comes of the answer.

`doors` makes the blocking and the awaited methods of them.
"""

from __future__ import annotations

from functools import partial
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, TypeVar

from langmem_adapter.adapters.mem0 import shapes
from langmem_adapter.adapters.mem0.providers import ChatReranker
from langmem_adapter.adapters.mem0.shapes import (
    Results,
    Row,
    beyond_scope,
    count,
    dated,
    either,
    expiry,
    named,
    scoped,
    tidy,
)
from langmem_adapter.errors import InvalidInputError, MemoryNotFoundError
from langmem_adapter.twins import Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import date, datetime

    from langchain_core.documents import BaseDocumentCompressor

    from langmem_adapter.adapters.mem0.shapes import Id
    from langmem_adapter.memory.memory import Memory as Engine
    from langmem_adapter.records.graph import Relation
    from langmem_adapter.records.results import AddResult, Revision

R = TypeVar("R")

_FEW: Final = (
    20  # rows where the caller names no number, and the threshold, as in Mem0 2.x: its scope is in the filters
)
_THRESHOLD: Final = 0.1
_MANY: Final = 100  # rows in Mem0 1.x, which has no threshold: its scope is in arguments
_MOST = 10_000  # relations among which those of the memories found are looked for
_RELATIONS = 5  # what its search shows of the graph at most, whatever the limit

_NO_RERANKER: Final = "no reranker is configured: the rows stand in the order of the search"


class Guest(Protocol):
    """What a plan needs of the object that it belongs to."""

    @property
    def engine(self) -> Engine:
        """Our memory, which does the work."""

    @property
    def bare(self) -> bool:
        """Whether results are lists (`version="v1.0"`)."""

    @property
    def shows_graph(self) -> bool:
        """Whether results have `"relations"`."""

    @property
    def reranker(self) -> BaseDocumentCompressor | None:
        """What orders the best hits once more (`reranker`)."""


class Calls(Guest):
    """The plans. Nobody is of this class: the doors take its functions one by one, each with its own way to wait."""

    def add(  # noqa: PLR0913 - Mem0's parameters
        self: Guest,
        messages: Any = None,
        user_id: Id = None,
        agent_id: Id = None,
        run_id: Id = None,
        metadata: Mapping[str, Any] | None = None,
        filters: Mapping[str, Any] | None = None,
        prompt: str | None = None,
        *,
        data: Any = None,
        infer: bool = True,
        memory_type: str | None = None,
        timestamp: datetime | str | float | None = None,
        expiration_date: date | str | None = None,
    ) -> Plan[Any]:
        """Remember what a conversation says.

        Args:
            messages: A text, a dict with `role` and `content`, or a list of these; LangChain messages too.
            user_id: Whose memory it is; at least one of the three is needed. A number means its digits.
            agent_id: The agent. Where the assistant speaks in *messages*, the facts are about the assistant.
            run_id: The run or session.
            metadata: A JSON object, kept with every memory that comes of it; `"created_at"` in it is the *timestamp*.
            filters: Has a place here in Mem0 0.x; refused where it says anything.
            prompt: Replaces the instructions, this time; needs a chat model.
            data: The messages, in the words of Mem0 0.0.x.
            infer: `False` stores each non-system message as it is.
            memory_type: `"procedural_memory"`, with *agent_id*: one step-by-step record of what the agent did.
            timestamp: When the conversation took place.
            expiration_date: The last day on which the memories are shown, in UTC.

        Returns:
            `{"results": [{"id", "memory", "event"}]}`, with `"previous_memory"` on an UPDATE, and `"actor_id"` and
            `"role"` with `infer=False`. As with Mem0 1.x, facts that changed nothing (NONE) are not listed; `engine.add`
            lists them, with reasons. With a graph there is also `"relations": {"deleted_entities": [[relation]],
            "added_entities": [[relation]]}`, a list for each `{"source", "relationship", "target"}` that ended or is new.

        Raises:
            ScopeError: No field of the scope is given, or one is blank.
            InvalidInputError: An argument or message cannot be used.
            ModelReplyError: With `on_bad_reply="raise"`, the chat model's reply stayed unreadable; nothing was written.
        """
        if filters:
            raise InvalidInputError("add() compares with all that its scope holds and takes no filters; leave them out")
        told = either("messages", messages, "data", data)
        if told is None:
            raise InvalidInputError("add() needs messages: a text, a dict with role and content, or a list of these")
        metadata, timestamp = dated(metadata, timestamp)
        given: dict[str, Any] = {"metadata": metadata, "infer": infer, "prompt": prompt, "timestamp": timestamp}
        until = expiry(expiration_date)
        arguments = {**given, **named(user_id, agent_id, run_id), "memory_type": memory_type, "expires_at": until}

        added = Plan.calling(self.engine.add, self.engine.aadd, told, **arguments)
        if infer:
            return added.then(partial(_added, self, None))
        return added.and_then(lambda result: _steps(self, result).then(lambda steps: _added(self, steps, result)))

    def search(  # noqa: PLR0913 - Mem0's parameters
        self: Guest,
        query: str,
        user_id: Id = None,
        agent_id: Id = None,
        run_id: Id = None,
        limit: int | None = None,
        filters: Mapping[str, Any] | None = None,
        *,
        top_k: int | None = None,
        threshold: float | EllipsisType | None = ...,
        rerank: bool | None = None,
        explain: bool = False,
        show_expired: bool = False,
        reference_date: date | str | float | None = None,
    ) -> Plan[Any]:
        """Find memories by meaning and words.

        Args:
            query: A question or statement.
            user_id: Whose memories; one of the three is needed, here or in *filters*. `"*"` is a name (in filters an error).
            agent_id: The agent.
            run_id: The run or session.
            limit: At most so many, up to 10,000; by default 20 where the scope is in *filters* (Mem0 2.x), else 100 (1.x).
            filters: Mem0's filters on scope fields, metadata and fields of the memory: see `langmem_adapter.filters`.
            top_k: The limit, in the words of Mem0 2.x.
            threshold: Least relevance, 0 to 1; by default 0.1 where the scope is in *filters*, else none, as with `None`. It is
                the `score` in the rows, which orders them where no reranker does, and compares between queries.
            rerank: Whether the reranker of the configuration orders the best once more; by default it does where there is one.
                `True` without one adds `"notes"` to the result.
            explain: Give each row `"score_details"`: `"semantic_score"` (a calibrated cosine), `"bm25_score"`,
                `"entity_boost"`, `"final_score"` (the score) and `"threshold"`, all of 0 to 1; `"parts"` is what each kind of
                evidence added to `"raw_score"`, which chose the rows.
            show_expired: Whether expired memories are found as well, until they are swept.
            reference_date: When it is asked, which "last week" in the query is told from; by default now.

        Returns:
            `{"results": [row, …]}`, best first; a row has `"id"`, `"memory"`, `"hash"`, `"metadata"`, `"score"`,
            `"created_at"`, `"updated_at"`, and those of `"user_id"`, `"agent_id"`, `"run_id"`, `"actor_id"`, `"role"`,
            `"attributed_to"`, `"expiration_date"` that are set; `"rerank_score"` where a reranker ordered them.
            With a graph there is also `"relations"`: the five best `{"source", "relationship", "destination"}`, best first.
            With filters on more than the scope only what the memories found say is among them.

        Raises:
            ScopeError: No scope is given, or two that contradict each other.
            FilterError: A filter cannot be understood.
            InvalidInputError: An argument cannot be used.
        """
        filters, is_recent = tidy(filters), user_id is agent_id is run_id is None
        where = scoped(filters, user_id=user_id, agent_id=agent_id, run_id=run_id)
        most = count(limit, top_k, _FEW if is_recent else _MANY)
        if threshold is ...:
            threshold = _THRESHOLD if is_recent else None
        order = None if rerank is False else self.reranker
        order = order.fresh() if isinstance(order, ChatReranker) else order
        how: dict[str, Any] = {"threshold": threshold, "rerank": order, "explain": explain}
        how |= {"reference_date": reference_date, "include_expired": show_expired}
        found = Plan.calling(self.engine.search, self.engine.asearch, query, **{**where, **how, "k": most or 1})
        rows = found.then(partial(shapes.found, threshold=threshold, reranked=order is not None)).then(_first(most))

        def related(k: int) -> Plan[Sequence[Relation]]:
            graph = self.engine.graph
            return Plan.calling(graph.search, graph.asearch, query, k=k, **_scope(where))

        result = _beside(self, rows, related, filters, min(most, _RELATIONS), "destination")
        notes = order.notes if isinstance(order, ChatReranker) else [_NO_RERANKER] if rerank and order is None else []
        return result.then(lambda result: _noted(result, notes))

    def get_all(
        self: Guest,
        user_id: Id = None,
        agent_id: Id = None,
        run_id: Id = None,
        limit: int | None = None,
        *,
        top_k: int | None = None,
        filters: Mapping[str, Any] | None = None,
        show_expired: bool = False,
    ) -> Plan[Any]:
        """All memories of a scope, the newest statement first.

        Args:
            user_id: Whose memories; one of the three is needed, here or in *filters*. `"*"` is a name (in filters an error).
            agent_id: The agent.
            run_id: The run or session.
            limit: At most so many, up to 10,000; by default 20 where the scope is in *filters* (Mem0 2.x), else 100 (1.x).
            top_k: The same, in the words of Mem0 2.x.
            filters: Mem0's filters on scope fields, metadata and fields of the memory: see `langmem_adapter.filters`.
            show_expired: Whether expired memories are listed as well.

        Returns:
            `{"results": [row, …]}`, with the rows of `search` without `"score"`. With a graph there is also `"relations"`: as
            many `{"source", "relationship", "target"}` that hold now, the newest first; with filters as in `search`.

        Raises:
            ScopeError: No scope is given, or two that contradict each other.
            FilterError: A filter cannot be understood.
            InvalidInputError: An argument cannot be used.
        """
        filters, is_recent = tidy(filters), user_id is agent_id is run_id is None
        where = scoped(filters, user_id=user_id, agent_id=agent_id, run_id=run_id)
        most = count(limit, top_k, _FEW if is_recent else _MANY)
        arguments = {**where, "k": most or 1, "include_expired": show_expired}
        rows = (
            Plan.calling(self.engine.get_all, self.engine.aget_all, **arguments).then(shapes.listed).then(_first(most))
        )

        def related(k: int) -> Plan[Sequence[Relation]]:
            graph = self.engine.graph
            return Plan.calling(graph.relations, graph.arelations, k=k, **_scope(where))

        return _beside(self, rows, related, filters, most, "target")

    def get(self: Guest, memory_id: str) -> Plan[Row | None]:
        """One memory by its id, an expired one too; `None` where there is none.

        Args:
            memory_id: Its id.

        Returns:
            A row as `search` gives it, with `"score"` `None`.
        """
        found: Plan[Row | None] = Plan.calling(self.engine.get, self.engine.aget, memory_id).then(shapes.one)
        return _if_known(found, None)

    def update(
        self: Guest,
        memory_id: str,
        data: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expiration_date: date | str | EllipsisType | None = ...,
        *,
        text: str | None = None,
    ) -> Plan[dict[str, str]]:
        """Change a memory by hand.

        Args:
            memory_id: Its id.
            data: The new text, in the words of Mem0 1.x.
            metadata: Keys to merge into its metadata; a value of `None` removes a key.
            expiration_date: The last day on which it is shown; `None` means it stays.
            text: The new text, in the words of Mem0 2.x; it goes before *data*.

        Raises:
            MemoryNotFoundError: There is none.
            InvalidInputError: There is nothing to change, or an argument cannot be used.
        """
        new_text = data if text is None else text
        if new_text is None and metadata is None and expiration_date is ...:
            raise InvalidInputError("update() has nothing to change: give data, metadata or expiration_date")
        until = expiration_date if isinstance(expiration_date, EllipsisType) else expiry(expiration_date)
        new: dict[str, Any] = {"text": new_text, "metadata": metadata, "expires_at": until}
        changed = Plan.calling(self.engine.update, self.engine.aupdate, memory_id, **new)
        return changed.then(lambda _: {"message": "Memory updated successfully!"})

    def delete(self: Guest, memory_id: str) -> Plan[dict[str, str]]:
        """Delete a memory; its history stays.

        Args:
            memory_id: Its id.

        Raises:
            MemoryNotFoundError: There is none.
        """
        gone = Plan.calling(self.engine.delete, self.engine.adelete, memory_id)
        return gone.then(lambda _: {"message": "Memory deleted successfully!"})

    def delete_all(self: Guest, user_id: Id = None, agent_id: Id = None, run_id: Id = None) -> Plan[dict[str, str]]:
        """Delete every memory of a scope, in one transaction, then every relation of its graph; their history stays.

        Args:
            user_id: Whose memories; at least one of the three is needed. `"*"` is a user like any other, not everybody.
            agent_id: The agent.
            run_id: The run or session.

        Raises:
            ScopeError: No field of the scope is given; to delete everything there is `reset`.
        """
        scope = named(user_id, agent_id, run_id)
        graph = self.engine.graph
        by_hand = Plan.calling(graph.delete_all, graph.adelete_all, **scope)
        gone = Plan.calling(self.engine.delete_all, self.engine.adelete_all, **scope).and_then(lambda _: by_hand)
        return gone.then(lambda _: {"message": "Memories deleted successfully!"})

    def history(self: Guest, memory_id: str) -> Plan[list[dict[str, Any]]]:
        """Every change of a memory, oldest first; a deleted memory's too. An unknown id has none.

        Args:
            memory_id: Its id.

        Returns:
            Dicts with the keys `"id"`, `"memory_id"`, `"old_memory"`, `"new_memory"`, `"event"`, `"created_at"`,
            `"updated_at"`, `"is_deleted"`, `"actor_id"`, `"role"`.
        """
        steps = Plan.calling(self.engine.history, self.engine.ahistory, memory_id)
        return _if_known(steps.then(lambda found: [shapes.revision(step) for step in found]), [])

    def reset(
        self: Guest,
        user_id: Id | EllipsisType = ...,
        agent_id: Id | EllipsisType = ...,
        run_id: Id | EllipsisType = ...,
    ) -> Plan[None]:
        """Remove every memory and relation of everybody, or of one scope, with its history.

        Args:
            user_id: Whose; left out, with the next two, it is everybody. `None` is nobody, never everybody.
            agent_id: The agent.
            run_id: The run or session.

        Raises:
            ScopeError: The scope that is given is `None` or blank.
        """
        given = (user_id, agent_id, run_id)
        if all(field is ... for field in given):
            return Plan(self.engine.reset, self.engine.areset).then(lambda _: None)
        scope = named(*(None if field is ... else field for field in given))
        return Plan.calling(self.engine.purge, self.engine.apurge, **scope).then(lambda _: None)

    def chat(self: Guest, query: str) -> Plan[NoReturn]:
        """Not there, as in Mem0.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(
            "chat() is no part of a memory; search() for what is known and ask your chat model with it"
        )


for _plan in filter(callable, vars(Calls).values()):
    _plan.__qualname__ = _plan.__name__  # Python's own errors speak of `add`, which is what was called


def _results(self: Guest, rows: list[Row], relations: Any = None) -> Any:
    # Any: which of the two it is depends on the configuration, and a program of either age must pass a type checker.
    return rows if self.bare else Results(rows, relations)


def _if_known(plan: Plan[R], otherwise: R) -> Plan[R]:
    return plan.or_else(lambda error: Plan.known(otherwise) if isinstance(error, MemoryNotFoundError) else None)


def _steps(self: Guest, result: AddResult) -> Plan[list[Revision]]:
    """The first step of the history of each memory that was added."""
    ids = [change.id for change in result.results if change.id is not None]
    read = Plan.each(lambda each: Plan.calling(self.engine.history, self.engine.ahistory, each), ids)
    return read.then(lambda histories: [steps[0] for steps in histories])


def _added(self: Guest, steps: Sequence[Revision] | None, result: AddResult) -> Any:
    rows = shapes.changes(result.results)
    told = shapes.related(result.relations) if self.shows_graph else None
    return _results(self, rows if steps is None else shapes.verbatim(rows, steps), told)


def _noted(result: Any, notes: Sequence[str]) -> Any:
    if notes and isinstance(result, Results):
        result["notes"] = list(notes)
    return result


def _first(most: int) -> Callable[[Sequence[R]], list[R]]:
    return lambda rows: list(rows[:most])


def _scope(where: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in where.items() if name != "filters"}


def _beside(
    self: Guest,
    found: Plan[list[Row]],
    related: Callable[[int], Plan[Sequence[Relation]]],
    filters: Mapping[str, Any] | None,
    most: int,
    target: str,
) -> Plan[Any]:
    """The rows that are found, and beside them what the graph says."""
    if not self.shows_graph:
        return found.then(lambda rows: _results(self, rows))
    if not beyond_scope(filters):
        best = related(most or 1).then(_first(most))
        return found.and_then(lambda rows: best.then(partial(_with_relations, self, rows, target)))

    def of_these(rows: list[Row]) -> Plan[Any]:
        ids = {row["id"] for row in rows}
        said = related(_MOST).then(lambda all_: [each for each in all_ if not ids.isdisjoint(each.memory_ids)][:most])
        return said.then(partial(_with_relations, self, rows, target))

    return found.and_then(of_these)


def _with_relations(self: Guest, rows: list[Row], target: str, relations: Sequence[Relation]) -> Any:
    return _results(self, rows, shapes.relations(relations, target=target))
