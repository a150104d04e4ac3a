"""The ledger: the one writer of memories, history, words and relations.

Every change of memories (pipeline, direct edit, CLI) is a list of `Decision`s given to `Ledger.apply`. One apply is one
transaction: change feed, memories, history, words and the scope's statistics agree after every commit. Indexes follow the feed.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from sqlalchemy import insert

from langmem_adapter.arguments import Longest
from langmem_adapter.errors import ConflictError, LangmemAdapterError
from langmem_adapter.filters import EVERYTHING
from langmem_adapter.records.results import Change, Decision
from langmem_adapter.storage import jobs, memories, meta, sources, traces
from langmem_adapter.storage.lexical import Words
from langmem_adapter.storage.queries import Prepared
from langmem_adapter.storage.scopes import id_within
from langmem_adapter.storage.tables import runs
from langmem_adapter.storage.write import RESULT, Write, WriteContext, WriteRows, load_write_context
from langmem_adapter.text import ENGLISH
from langmem_adapter.twins import Plan, awaited, planned, run_in_executor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from langmem_adapter.filters import Filter
    from langmem_adapter.records.graph import RelationChange, Triple
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.database import Database
    from langmem_adapter.storage.graph.writes import Taken

T = TypeVar("T")

_INSERT_RUN: Final = Prepared(insert(runs))


class Ledger:
    """Carries out decisions, each list in one transaction."""

    def __init__(self, database: Database, *, fingerprint: str, longest: Longest | None = None) -> None:
        self.database: Final = database
        self._fingerprint = fingerprint
        self._longest = longest or Longest()
        self._language = ENGLISH

    def check(self, write: Write) -> None:
        """Refuse texts that are too long for a memory, before they are embedded; `apply` does so, too."""
        for decision in write.decisions:
            if decision.event in {"ADD", "UPDATE"} and decision.text is not None:
                self._longest.check_text(decision.text, "the text of a memory")

    def apply(self, write: Write) -> tuple[Change, ...]:
        """Carry out a list of decisions in one transaction, and return the change that each made, in order.

        It raises a `ConflictError` where a memory changed since `Decision.seen`, another write that compared the same memories
        came between, or the id of an ADD is not free.
        """
        return self.database.write(self._work(write))

    async def aapply(self, write: Write) -> tuple[Change, ...]:
        """The async twin of `apply`; waiting tasks share one commit."""
        return await self.database.awrite(await run_in_executor(self._work, write))

    def apply_each(self, writes: Sequence[Write]) -> list[tuple[Change, ...] | LangmemAdapterError]:
        """Carry out several lists of decisions, which share a commit; each ends with what `apply` gives or raises."""
        return self.database.write_each([self._work(write) for write in writes])

    def within(self, texts: Sequence[str] = ()) -> Callable[[Connection, Write], tuple[Change, ...]]:
        """A function that carries out writes of some texts within the caller's transaction."""
        return partial(self._carry_out, Words(texts, self._language))

    @planned
    def delete_all(self, scope: Scope, *, reason: str, filters: Filter = EVERYTHING) -> Plan[int]:
        """Delete every memory within *scope* that a filter matches when the write begins, and count them."""

        def work(connection: Connection) -> int:
            ids = memories.ids(connection, scope, filters=filters)
            write = Write(tuple(Decision("DELETE", memory_id, None, reason) for memory_id in ids))
            return len(_apply(connection, write, load_write_context(connection, write), Words()))

        return self.writing(work)

    adelete_all = awaited(delete_all)

    def writing(self, work: Callable[[Connection], T]) -> Plan[T]:
        """A plan that runs *work* in a write transaction, as `storage.graph.edits` do."""
        # Contract: no task blocks a thread while it waits for its turn: threads are few, and reads need them.
        # tests/test_concurrency.py::test_tasks_read_while_others_wait_for_the_write_lock
        return Plan.calling(self.database.write, self.database.awrite, work)

    @planned
    def relate(
        self, scope: Scope, triples: Sequence[Triple], *, time: datetime | None = None
    ) -> Plan[tuple[RelationChange, ...]]:
        """State relations without a memory, and return their changes; none for a relation of an entity to itself.

        *scope* is their exact scope; its own entities may be named by their ids (`names.owner_name`).
        """
        return self.writing(lambda connection: _rows_of(connection, scope).relate(scope, triples, time))

    arelate = awaited(relate)

    @planned
    def take_in(self, scope: Scope, triples: Sequence[Triple]) -> Plan[list[Taken]]:
        """Import relations from another graph with their dates, mentions and confidence.

        A second import changes nothing. See `storage.graph.writes`.
        """
        return self.writing(lambda connection: _rows_of(connection, scope).take_in(scope, triples))

    def finished(self, scope: Scope, key: str) -> tuple[Change, ...] | None:
        """The changes of the run with this key in this exact scope; `None` without a run."""
        with self.database.read() as connection:
            result = connection.execute(RESULT, {"run": id_within(scope, key)}).scalar()
        return None if result is None else tuple(map(Change.from_json, result))

    def _work(self, write: Write) -> Callable[[Connection], tuple[Change, ...]]:
        """The work of a write transaction; words are split here, before it begins."""
        texts = [text for d in write.decisions for text in (d.text, d.context) if d.event in {"ADD", "UPDATE"} and text]
        # Contract: the language in the database decides, not that of the last write: words of another are split once more
        # within the transaction.
        # tests/search/test_languages.py::test_who_has_it_open_follows_with_the_next_search_and_the_next_write.
        carry_out, check = self.within(texts), jobs.check_of_context()

        def work(connection: Connection) -> tuple[Change, ...]:
            check(connection)
            return carry_out(connection, write)

        return work

    def _carry_out(self, words: Words, connection: Connection, write: Write) -> tuple[Change, ...]:
        self.check(write)
        context = load_write_context(connection, write)
        self._language = context.language or ENGLISH
        if write.vectors and not meta.fits(connection, context.model, self._fingerprint):
            meta.put(connection, meta.EMBEDDINGS, self._fingerprint)
        return _apply(connection, write, context, words)


def _rows_of(connection: Connection, scope: Scope) -> WriteRows:
    write = Write((), scope=scope, within=scope)
    return WriteRows(connection, write, load_write_context(connection, write), Words())


def _apply(connection: Connection, write: Write, context: WriteContext, words: Words) -> tuple[Change, ...]:
    if context.result is not None:
        return tuple(map(Change.from_json, context.result))
    # Contract: of two writes that compared within the same memories, each without having seen the other's, the second one
    # compares again. A write that compared with nothing (turns stored as they are, an edit by hand) is no conflict: it could as
    # well have been written right after this. tests/storage/test_ledger.py::
    # test_apply_refuses_a_write_that_did_not_compare_with_a_later_one.
    is_changing = any(decision.event != "NONE" or decision.dated for decision in write.decisions)
    if is_changing and write.seen is not None and context.compared is not None and context.compared > write.seen:
        raise ConflictError(f"change {context.compared} was written meanwhile and was not compared with: try again")
    rows = WriteRows(connection, write, context, words)
    places = sorted(range(len(write.decisions)), key=lambda place: _order(write.decisions[place]))
    by_place = {place: rows.carry_out(place, write.decisions[place]) for place in places}
    changes = [by_place[place] for place in range(len(places))]
    rows.post()
    if write.thread is not None and write.scope is not None:
        changes_of = ((d.source, changes[place], rows.seq_of(place)) for place, d in enumerate(write.decisions))
        sources.record(connection, sources.MessageThread(write.scope, write.thread), write.digests, changes_of)
    relations = rows.relations()
    result = tuple(replace(each, relations=relations.get(place, each.relations)) for place, each in enumerate(changes))
    if rows.run is not None and write.trace is not None:
        traces.keep(connection, rows.run, write.trace, result, now=rows.now)
    if rows.run is not None and write.decisions:
        scope = None if write.scope is None else write.scope.named
        row = {"key": rows.run, "scope_id": rows.scope_id, "created_at": rows.now, "scope": scope}
        _INSERT_RUN.run(connection, {**row, "result": [change.to_json() for change in result]})
    return result


def _order(decision: Decision) -> tuple[int, float]:
    """A late statement comes after the statement that it precedes, and a deletion after everything else of its memory."""
    if decision.after is not None:
        return 2, 0.0 if decision.time is None else -decision.time.timestamp()
    return 1 if decision.past_of is not None else 3 * (decision.event == "DELETE"), 0.0
