"""The ledger: the one writer of memories, history, words and relations.

Whoever wants to change memories (the pipeline, a direct edit, the CLI, an import) ends in a list of `Decision`s given to
`Ledger.apply`. One apply is one transaction: the change feed, the memories, their history, their words and the scope's
statistics agree after every commit, or nothing happened. Indexes are not told; they pull.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sqlalchemy import insert

from langmem_adapter.arguments import Longest
from langmem_adapter.errors import ConflictError, LangmemAdapterError
from langmem_adapter.filters import EVERYTHING
from langmem_adapter.records.results import Change, Decision
from langmem_adapter.storage import jobs, memories, meta, sources, traces
from langmem_adapter.storage.lexical import Words
from langmem_adapter.storage.prepared_statements import Prepared
from langmem_adapter.storage.scopes import id_within
from langmem_adapter.storage.tables import runs
from langmem_adapter.storage.write import RESULT, Books, WriteRows, books
from langmem_adapter.storage.writes import Write
from langmem_adapter.text import ENGLISH
from langmem_adapter.twins import Plan, awaited, beside, planned

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
        """Refuse texts that are too long for a memory, before anything is done for them; `apply` does so, too."""
        for decision in write.decisions:
            if decision.event in {"ADD", "UPDATE"} and decision.text is not None:
                self._longest.check_text(decision.text, "the text of a memory")

    def apply(self, write: Write) -> tuple[Change, ...]:
        """Carry out a list of decisions and return what became of each, in order, once it is committed.

        Raises:
            ConflictError: A memory named changed since it was seen, or somebody else who compared has written since then
                within the same memories, or the id of an ADD is not free.
            MemoryNotFoundError: A memory named does not exist, or lies outside `Write.within`.
            InvalidInputError: A decision cannot be carried out as it is.
            EmbeddingMismatchError: The vectors kept were made by another embedding model.
            StorageError: The database refused or failed.
        """
        return self.database.write(self._ready(write))

    async def aapply(self, write: Write) -> tuple[Change, ...]:
        """The async twin of `apply`; waiting tasks share one commit."""
        return await self.database.awrite(await beside(self._ready, write))

    def apply_each(self, writes: Sequence[Write]) -> list[tuple[Change, ...] | LangmemAdapterError]:
        """Carry out several lists of decisions, which share a commit; each ends with what `apply` gives or raises."""
        return self.database.write_each([self._ready(write) for write in writes])

    def within(self, texts: Sequence[str] = ()) -> Callable[[Connection, Write], tuple[Change, ...]]:
        """A way to carry out writes of some texts, whose words are split here, within a transaction of the caller's."""
        return partial(self._carry_out, Words(texts, self._language))

    @planned
    def delete_all(self, scope: Scope, *, reason: str, filters: Filter = EVERYTHING) -> Plan[int]:
        """Delete every memory within *scope* that a filter holds for when the write begins, and count them."""
        return self.writing(partial(_delete_all, scope=scope, reason=reason, filters=filters))

    adelete_all = awaited(delete_all)

    def writing(self, work: Callable[[Connection], T]) -> Plan[T]:
        """A plan that writes in a transaction of its own, as `storage.graph.edits` do."""
        # Contract: no task holds a thread while it waits for its turn: those are few, and whoever reads needs one.
        # tests/test_concurrency.py::test_tasks_read_while_others_wait_for_the_write_lock
        return Plan.calling(self.database.write, self.database.awrite, work)

    # ── the knowledge graph, by hand ────────────────────────────────────────────────────────────────────────────────

    @planned
    def relate(
        self, scope: Scope, triples: Sequence[Triple], *, time: datetime | None = None
    ) -> Plan[tuple[RelationChange, ...]]:
        """State relations without a memory, and give what became of them; nothing for a relation of something to itself.

        *scope* is their exact scope; its own things may be named by their ids (`names.owner_name`).
        """
        write = Write((), scope=scope, within=scope)
        return self.writing(lambda c: WriteRows(c, write, books(c, write), Words()).relate(scope, triples, time))

    arelate = awaited(relate)

    @planned
    def take_in(self, scope: Scope, triples: Sequence[Triple]) -> Plan[list[Taken]]:
        """Take relations over from another graph, as they are told there: dates, mentions, how sure they are.

        Taken over twice, nothing changes: what is known here only grows. See `storage.graph.writes`.
        """
        write = Write((), scope=scope, within=scope)
        return self.writing(lambda c: WriteRows(c, write, books(c, write), Words()).take_in(scope, triples))

    def finished(self, scope: Scope, key: str) -> tuple[Change, ...] | None:
        """What the run of this key did in this exact scope; `None` if there was none."""
        with self.database.read() as connection:
            kept = connection.execute(RESULT, {"run": id_within(scope, key)}).scalar()
        return None if kept is None else _read(kept)

    def _ready(self, write: Write) -> Callable[[Connection], tuple[Change, ...]]:
        """The write as what the transaction has to do; the words of its texts are split here, before others wait."""
        texts = [text for d in write.decisions for text in (d.text, d.context) if d.event in {"ADD", "UPDATE"} and text]
        # Contract: the language that stands in the database decides, not this one, which is that of the last write: words
        # of another are split once more within the transaction.
        # tests/search/test_languages.py::test_who_has_it_open_follows_with_the_next_search_and_the_next_write.
        carry_out, check = self.within(texts), jobs.check_of_context()

        def work(connection: Connection) -> tuple[Change, ...]:
            check(connection)
            return carry_out(connection, write)

        return work

    def _carry_out(self, words: Words, connection: Connection, write: Write) -> tuple[Change, ...]:
        self.check(write)
        known = books(connection, write)
        self._language = known.language or ENGLISH
        if write.vectors and not meta.fits(connection, known.model, self._fingerprint):
            meta.put(connection, meta.EMBEDDINGS, self._fingerprint)
        return _apply(connection, write, known, words)


def _apply(connection: Connection, write: Write, known: Books, words: Words) -> tuple[Change, ...]:
    if known.result is not None:
        return _read(known.result)
    _refuse_if_others_compared(write, known.compared)
    entry = WriteRows(connection, write, known, words)
    places = sorted(range(len(write.decisions)), key=lambda place: _turn(write.decisions[place]))
    carried = {place: entry.carry_out(place, write.decisions[place]) for place in places}
    done = [carried[place] for place in range(len(places))]
    entry.post()
    if write.thread is not None and write.scope is not None:
        changes_of = ((d.source, done[place], entry.seq_of(place)) for place, d in enumerate(write.decisions))
        sources.record(connection, sources.MessageThread(write.scope, write.thread), write.digests, changes_of)
    relations = entry.relations()
    result = tuple(
        replace(change, relations=relations[place]) if place in relations else change
        for place, change in enumerate(done)
    )
    if entry.run is not None and write.trace is not None:
        traces.keep(connection, entry.run, write.trace, result, now=entry.now)
    if entry.run is not None and write.decisions:
        named = None if write.scope is None else write.scope.named
        row = {"key": entry.run, "scope_id": entry.scope_id, "created_at": entry.now, "scope": named}
        _INSERT_RUN.run(connection, {**row, "result": [change.to_json() for change in result]})
    return result


def _turn(decision: Decision) -> tuple[int, float]:
    """What takes its place in a course comes after what it comes before, and a memory goes when all of it is told."""
    if decision.after is not None:
        return 2, 0.0 if decision.time is None else -decision.time.timestamp()
    return 1 if decision.past_of is not None else 3 * (decision.event == "DELETE"), 0.0


def _read(result: list[dict[str, Any]]) -> tuple[Change, ...]:
    return tuple(Change.from_json(change) for change in result)


def _refuse_if_others_compared(write: Write, compared: int | None) -> None:
    # Contract: of two writes that compared within the same memories, each without having seen the other's, the second one
    # compares again. What was compared with nothing (turns stored as they are, an edit by hand) is no conflict: it could as
    # well have been written right after this. tests/storage/test_ledger.py::
    # test_who_compared_without_having_seen_what_was_written_meanwhile_compares_again.
    changing = any(decision.event != "NONE" or decision.dated for decision in write.decisions)
    if changing and write.seen is not None and compared is not None and compared > write.seen:
        raise ConflictError(f"change {compared} was written meanwhile and should have been compared with; try again")


def _delete_all(connection: Connection, scope: Scope, reason: str, filters: Filter) -> int:
    ids = memories.ids(connection, scope, filters=filters)
    decisions = tuple(Decision("DELETE", memory_id, None, reason) for memory_id in ids)
    write = Write(decisions)
    return len(_apply(connection, write, books(connection, write), Words()))
