"""Backfill of the knowledge graph: memories from before it, and those stored as they are, are read for relations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Unpack

from langmem_adapter.arguments import bounded
from langmem_adapter.errors import InvalidInputError, LangmemAdapterError, ModelReplyError
from langmem_adapter.names import entity_key, mentions_whole_name, name_speaker, named_speaker
from langmem_adapter.reasoning.base import ExtractInput, KnownNames
from langmem_adapter.records.checks import quoted
from langmem_adapter.records.graph import ASSISTANT, SELF
from langmem_adapter.records.results import FORGET, Change, Decision, Turn, Usage
from langmem_adapter.records.scope import Scope, shallow
from langmem_adapter.statements.reader import read
from langmem_adapter.storage.graph import hints
from langmem_adapter.storage.write import Write
from langmem_adapter.tracing import run_config
from langmem_adapter.twins import Plan, awaited, planned, steps

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import Connection

    from langmem_adapter.reasoning.base import Extraction, Reasoner
    from langmem_adapter.records.graph import Triple
    from langmem_adapter.records.scope import ScopeArguments
    from langmem_adapter.storage.database import Database
    from langmem_adapter.storage.graph.hints import UnreadMemory
    from langmem_adapter.storage.ledger import Ledger
    from langmem_adapter.twins import PlanSteps

_LETTERS: Final = 24_000  # of one batch, about 6,000 tokens; a longer memory is a separate batch
_MOST: Final = 200
_WHY: Final = "read for the knowledge graph"
_UNPLACED: Final = "a relation was left out: the model did not say which memory states it"

Progress = Callable[[int, int], object]


@dataclass(frozen=True, slots=True)
class FailedBatch:
    """Memories for which the chat model gave no usable reply; the next backfill asks again.

    Attributes:
        memory_ids: Which.
        error: What was wrong with the reply.
    """

    memory_ids: tuple[str, ...]
    error: str


@dataclass(frozen=True, slots=True)
class BackfillReport:
    """What a backfill did; those of several batches are added up with `+`.

    Attributes:
        read: Memories that were read, and that no backfill reads again.
        relations: How many of them state a relation.
        added: Relations that are new.
        ended: Relations that ended, or were bounded.
        skipped: Memories that changed, went, or were read by others meanwhile.
        left: Memories that are still to be read: those beyond *limit*, and those that failed.
        failed: Batches without a usable reply.
        notes: What was not used, and why.
        usage: Model calls and tokens.
        mode: `"offline"`, or the chat model's name.
    """

    read: int = 0
    relations: int = 0
    added: int = 0
    ended: int = 0
    skipped: int = 0
    left: int = 0
    failed: tuple[FailedBatch, ...] = ()
    notes: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    mode: str = "offline"

    def __add__(self, other: BackfillReport) -> BackfillReport:
        """Both together."""
        mine, its = shallow(self), shallow(other)
        return BackfillReport(**{name: its[name] if name == "mode" else mine[name] + its[name] for name in mine})


class GraphBackfill:
    """The method of `GraphMemory` that reads memories for relations."""

    _database: Database
    _ledger: Ledger
    _reasoner: Reasoner | None

    @planned
    def backfill(
        self,
        *,
        batch: int = 20,
        limit: int | None = None,
        progress: Progress | None = None,
        **fields: Unpack[ScopeArguments],
    ) -> Plan[BackfillReport]:
        """Read memories for the relations that they state: those from before the graph, and those stored with `infer=False`.

        A memory that states relations already is left alone, and so is one that was read before, until its text changes.
        Records (`memory_type`) and expired memories are left out. Relations hold from the date on which their memory was
        said, and end with it, like those of an `add`.

        Others may read and write meanwhile. Every memory is read and its relations are written in one transaction: an
        interrupted backfill goes on where it stopped when it is called again.

        Args:
            batch: Memories read with one call of the chat model, 1 to 200; fewer where they are long. Those of two exact
                scopes are never shown together. Without a chat model the rules read them.
            limit: Read at most so many; by default all.
            progress: Called after each batch with the number of memories done and of all.

        Returns:
            How much was read and written, what failed, and what it cost.

        Raises:
            ModelTimeoutError: The chat model did not answer in time; what was read before is kept.

        Example:
            >>> from langmem_adapter import Memory
            >>> memory = Memory(":memory:")
            >>> added = memory.add("I work at Acme.", user_id="alice")
            >>> memory.graph.backfill(user_id="alice").added
            1
            >>> [relation.text for relation in memory.graph.relations(user_id="alice")]
            ['alice works at Acme']
            >>> memory.close()
        """
        if self._reasoner is None:
            raise InvalidInputError("this graph has no reasoner to read memories; take Memory(…).graph")
        if progress is not None and not callable(progress):
            raise InvalidInputError(f"progress is a function of two numbers, not {quoted(progress)}")
        scope, size = Scope(**fields), bounded(batch, "batch", most=_MOST)
        most = None if limit is None else bounded(limit, "limit", most=10**9)
        show = progress or (lambda _, __: None)
        return _Backfill(self._database, self._ledger.within(), self._reasoner, scope, show).plan(size, most)

    abackfill = awaited(backfill)


@dataclass(slots=True)
class _Backfill:
    """One backfill, batch after batch."""

    database: Database
    carry_out: Callable[[Connection, Write], tuple[Change, ...]]
    reasoner: Reasoner
    scope: Scope
    progress: Progress
    done: int = 0

    @steps
    def plan(self, size: int, limit: int | None) -> PlanSteps[BackfillReport]:
        every = yield from Plan(partial(self.database.fetch, hints.list_unread, self.scope))
        rows = every[:limit]
        report = BackfillReport(left=len(every) - len(rows), mode=self.reasoner.mode)
        keyed = (((row.scope_id, _about(row.role)), row.pk, row.letters) for row in rows)
        for pks in batches_of(keyed, size, _LETTERS):  # of one scope and one point of view
            report += yield from self._read(pks)
            self.done += len(pks)
            self.progress(self.done, len(rows))
        return report

    def _load(self, pks: Sequence[int]) -> tuple[list[UnreadMemory], KnownNames]:
        with self.database.read() as connection:
            unread = hints.load_unread(connection, pks)
            if not unread or not self.reasoner.calls_model:
                return unread, KnownNames()
            texts = (memory.text for memory in unread)
            return unread, KnownNames(*hints.load_names(connection, unread[0].scope, texts))

    @steps
    def _read(self, pks: Sequence[int]) -> PlanSteps[BackfillReport]:
        """Read some memories of one exact scope and one role."""
        unread, names = yield from Plan(partial(self._load, pks))
        gone = BackfillReport(skipped=len(pks) - len(unread), mode=self.reasoner.mode)
        if not unread:
            return gone
        about = _about(unread[0].role)
        turns = tuple(Turn(about, each.text, _speaker(each) or about, each.since, dated=True) for each in unread)
        question = ExtractInput(turns, about, turns[-1].time.date(), graph=names, kept=True, must_read=True)
        extract, config = self.reasoner.extract, run_config("memory.graph.backfill", self.scope, self.reasoner.mode)
        try:
            extraction = yield from Plan.calling(extract.invoke, extract.ainvoke, question, config)
        except ModelReplyError as error:
            failed = FailedBatch(tuple(memory.id for memory in unread), str(error))
            return replace(gone, left=len(unread), failed=(failed,))
        stated, notes = _assign(unread, question, extraction)
        works = [partial(self._state, memory, triples) for memory, triples in zip(unread, stated, strict=True)]
        ends = yield from Plan.in_new_thread(partial(self.database.write_each, works))
        report = replace(gone, notes=(*extraction.notes, *notes), usage=extraction.usage)
        return report + _count(ends, self.reasoner.mode)

    def _state(self, memory: UnreadMemory, triples: tuple[Triple, ...], connection: Connection) -> Change | None:
        """Write what one memory states; `None` where it is not as it was read."""
        # Contract: the mark and the relations are one transaction, and the mark is set before anything is written. So nothing
        # is written twice, also by two that read at the same time, or after a kill.
        # tests/knowledge/test_backfill.py::test_backfill_by_two_at_once_writes_everything_once.
        if not hints.mark_read(connection, memory):
            return None
        nothing = Decision("NONE", memory.id, memory.text, _WHY, time=memory.since, relations=triples)
        if not triples:
            return Change(memory.id, memory.text, "NONE", reason=_WHY)
        return self.carry_out(connection, Write((nothing,), within=memory.scope))[0]


def batches_of(rows: Iterable[tuple[object, int, int]], size: int, most: int) -> Iterator[list[int]]:
    """Pks of *rows* (key, pk, letters) that are read together: neighbours with one key, at most *size* and *most* letters."""
    for _, alike in groupby(rows, key=itemgetter(0)):
        batch, total = list[int](), 0
        for _, pk, letters in alike:
            if batch and (len(batch) == size or total + letters > most):
                yield batch
                batch, total = [], 0
            batch.append(pk)
            total += letters
        yield batch


def _about(role: str | None) -> str:
    return ASSISTANT if role == ASSISTANT else SELF


def _speaker(memory: UnreadMemory) -> str:
    return named_speaker(memory.actor, memory.role, memory.scope)


def _assign(
    unread: Sequence[UnreadMemory], question: ExtractInput, extraction: Extraction
) -> tuple[list[tuple[Triple, ...]], list[str]]:
    """The relations of each memory; two in the same words state the same, and a request to forget states nothing."""
    stated: dict[tuple[str, str], dict[Triple, None]] = {}
    notes: list[str] = []
    for fact, triple in [(each, one) for each in extraction.facts for one in each.relations]:
        # A fact is known to be of its turn, unless it belongs to the whole conversation and has all of it as its context.
        is_of_turn = question.turns[fact.turn].text.startswith(fact.context)
        memory = unread[fact.turn] if is_of_turn else _find_naming(triple, unread)
        if memory is None:
            notes.append(_UNPLACED)
        elif not fact.text.startswith(FORGET):
            (named,) = name_speaker([_correct_subject(triple, memory.text)], _speaker(memory), question.about)
            stated.setdefault((memory.text, _speaker(memory)), {})[named] = None
    return [tuple(stated.get((memory.text, _speaker(memory)), ())) for memory in unread], notes


def _correct_subject(triple: Triple, text: str) -> Triple:
    """A relation of what its memory says it of, not of the user: "Tom lives in Rome" is about Tom."""
    stated = [one for one in read(text).relations if entity_key(one.target) == entity_key(triple.target)]
    is_own = triple.source not in {SELF, ASSISTANT} or any(one.source == SELF for one in stated)
    return triple if is_own or not stated else replace(triple, source=stated[0].source)


def _find_naming(triple: Triple, unread: Sequence[UnreadMemory]) -> UnreadMemory | None:
    """The only memory that names both ends of a relation; the scope's own go without a name."""
    names = [name for name in (triple.source, triple.target) if name not in {SELF, ASSISTANT}]
    naming = [memory for memory in unread if all(mentions_whole_name(memory.text, name) for name in names)]
    return naming[0] if len(naming) == 1 else None


def _count(ends: Sequence[Change | LangmemAdapterError | None], mode: str) -> BackfillReport:
    for end in ends:
        if isinstance(end, LangmemAdapterError):
            raise end
    changes = [end for end in ends if isinstance(end, Change)]
    events = [change.event for each in changes for change in each.relations]
    return BackfillReport(
        read=len(changes),
        relations=sum(bool(each.relations) for each in changes),
        added=events.count("ADD"),
        ended=events.count("END"),
        skipped=len(ends) - len(changes),
        mode=mode,
    )
