"""Reading memories for relations that nobody has read for them: those from before the graph, and those stored as said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import groupby
from operator import add, itemgetter
from typing import TYPE_CHECKING, Final

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
from langmem_adapter.storage.graph.hints import known_names
from langmem_adapter.storage.write import Write
from langmem_adapter.tracing import run_config
from langmem_adapter.twins import Plan, awaited, planned

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import Connection

    from langmem_adapter.reasoning.base import Extraction, Reasoner
    from langmem_adapter.records.graph import Triple
    from langmem_adapter.records.results import Fact
    from langmem_adapter.storage.database import Database
    from langmem_adapter.storage.graph.hints import Unread, Waiting
    from langmem_adapter.storage.ledger import Ledger

_LETTERS: Final = 24_000  # of one batch, about 6,000 tokens; a longer memory is a batch of its own
_MOST: Final = 200
_WHY: Final = "read for the knowledge graph"
_UNPLACED: Final = "a relation was left out: the model did not say which memory states it"

Progress = Callable[[int, int], object]


@dataclass(frozen=True, slots=True)
class FailedBatch:
    """Memories about which the chat model gave no reply that could be used; the next backfill asks again.

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
        ended: Relations that are over, or bounded, since then.
        skipped: Memories that changed, went, or were read by others meanwhile.
        left: Memories that are still to be read: those beyond *limit*, and those that failed.
        failed: Batches that came to nothing.
        notes: What was seen and not used, in words.
        usage: Model calls and tokens.
        mode: Who read: `"offline"`, or the chat model's name.
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


class Backfilling:
    """The part of `GraphMemory` that reads memories for relations."""

    _database: Database
    _ledger: Ledger
    _reasoner: Reasoner | None

    @planned
    def backfill(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        batch: int = 20,
        limit: int | None = None,
        progress: Progress | None = None,
    ) -> Plan[BackfillReport]:
        """Read memories for the relations that they state: those from before the graph, and those stored with `infer=False`.

        A memory that states relations already is left alone, and so is one that was read before, whether it stated any or
        not: it is read again when its text has changed. Records (`memory_type`) and expired memories are left out. Relations
        hold from the date on which their memory was said, and end with it, like those of an `add`. What a memory said before it
        was rewritten is not read.

        Others may read and write meanwhile. Every memory is read and its relations are written in one transaction, so
        whoever is interrupted goes on where he stopped by calling again.

        Args:
            user_id: Whose memories; at least one of the three is needed, the others are then free.
            agent_id: The agent.
            run_id: The run or session.
            batch: Memories read with one call of the chat model, 1 to 200; fewer where they are long. Those of two exact
                scopes are never shown together. Without a chat model the rules read them.
            limit: Read at most so many; by default all.
            progress: Called after each batch with the number of memories done and of all.

        Returns:
            How much was read and written, what failed, and what it cost.

        Raises:
            ScopeError: No field of the scope is given, or one is blank.
            InvalidInputError: An argument cannot be used.
            ModelTimeoutError: The chat model did not answer in time; what was read before is kept.
            StorageError: The database refused or failed; the same.

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
        scope, size = Scope(user_id, agent_id, run_id), bounded(batch, "batch", most=_MOST)
        most = None if limit is None else bounded(limit, "limit", most=10**9)
        told = progress or (lambda _, __: None)
        return _Backfill(self._database, self._ledger.within(), self._reasoner, scope, told).plan(size, most)

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

    def plan(self, size: int, limit: int | None) -> Plan[BackfillReport]:
        """Everything."""
        return Plan(self._found).and_then(lambda found: self._all(found[:limit], len(found), size))

    def _found(self) -> list[Waiting]:
        with self.database.read() as connection:
            return hints.unread(connection, self.scope)

    def _all(self, chosen: Sequence[Waiting], found: int, size: int) -> Plan[BackfillReport]:
        nothing, read = BackfillReport(left=found - len(chosen)), partial(self._read, len(chosen))
        rows = (
            ((each.home, _about(each.role)), each.pk, each.letters) for each in chosen
        )  # one scope, one point of view
        reports = Plan.each(read, list(batches_of(rows, size, _LETTERS)))
        return reports.then(lambda done: replace(reduce(add, done, nothing), mode=self.reasoner.mode))

    def _read(self, of: int, pks: Sequence[int]) -> Plan[BackfillReport]:
        """Read some memories of one exact scope and one role."""

        def told(report: BackfillReport) -> BackfillReport:
            self.done += len(pks)
            self.progress(self.done, of)
            return report

        return Plan(partial(self._look, pks)).and_then(partial(self._asked, len(pks))).then(told)

    def _look(self, pks: Sequence[int]) -> tuple[list[Unread], KnownNames]:
        with self.database.read() as connection:
            found = hints.texts(connection, pks)
            if not found or not self.reasoner.calls_model:
                return found, KnownNames()
            said = (memory.text for memory in found)
            return found, KnownNames(*known_names(connection, found[0].scope, said))

    def _asked(self, wanted: int, seen: tuple[list[Unread], KnownNames]) -> Plan[BackfillReport]:
        found, names = seen
        gone = BackfillReport(skipped=wanted - len(found))
        if not found:
            return Plan.known(gone)
        question, config = _question(found, names), run_config("memory.graph.backfill", self.scope, self.reasoner.mode)
        extract = self.reasoner.extract
        asked = Plan.calling(extract.invoke, extract.ainvoke, question, config)
        answered = asked.and_then(lambda extraction: self._written(found, question, extraction))
        return answered.or_else(partial(_failed, found)).then(lambda done: gone + done)

    def _written(self, found: Sequence[Unread], question: ExtractInput, extraction: Extraction) -> Plan[BackfillReport]:
        stated, notes = _stated(found, question, extraction)
        works = [partial(self._say, memory, triples) for memory, triples in zip(found, stated, strict=True)]
        told = BackfillReport(notes=(*extraction.notes, *notes), usage=extraction.usage)
        return Plan.apart(partial(self.database.write_each, works)).then(lambda ends: told + _counted(ends))

    def _say(self, memory: Unread, triples: tuple[Triple, ...], connection: Connection) -> Change | None:
        """What one memory states; `None` where it is not as it was read."""
        # Contract: the mark and the relations are one transaction, and who sets the mark first writes. So nothing is written
        # twice, whoever reads beside or after somebody who was killed. tests/knowledge/test_backfill.py::
        # test_two_who_read_at_once_write_everything_once.
        if not hints.was_read(connection, memory):
            return None
        nothing = Decision("NONE", memory.id, memory.text, _WHY, time=memory.since, relations=triples)
        if not triples:
            return Change(memory.id, memory.text, "NONE", reason=_WHY)
        return self.carry_out(connection, Write((nothing,), within=memory.scope))[0]


# ── batches ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def batches_of(rows: Iterable[tuple[object, int, int]], size: int, most: int) -> Iterator[list[int]]:
    """Pks of texts that are read together: neighbours with the same key, *size* at most, and not too many letters.

    *rows*: key, pk and letters of each.
    """
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


# ── asking ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _question(found: Sequence[Unread], names: KnownNames) -> ExtractInput:
    about = _about(found[0].role)
    turns = tuple(Turn(about, memory.text, _speaker(memory) or about, memory.since, dated=True) for memory in found)
    return ExtractInput(turns, about, turns[-1].time.date(), graph=names, kept=True, must_read=True)


def _speaker(memory: Unread) -> str:
    return named_speaker(memory.actor, memory.role, memory.scope)


def _stated(
    found: Sequence[Unread], question: ExtractInput, extraction: Extraction
) -> tuple[list[tuple[Triple, ...]], list[str]]:
    """What each memory states; two in the same words state the same, and a request to forget states nothing."""
    said: dict[tuple[str, str], dict[Triple, None]] = {}
    notes: list[str] = []
    for fact, triple in [(each, one) for each in extraction.facts for one in each.relations]:
        memory = found[fact.turn] if _placed(fact, question) else _naming(triple, found)
        if memory is None:
            notes.append(_UNPLACED)
        elif not fact.text.startswith(FORGET):
            (named,) = name_speaker([_of_its_subject(triple, memory.text)], _speaker(memory), question.about)
            said.setdefault((memory.text, _speaker(memory)), {})[named] = None
    return [tuple(said.get((memory.text, _speaker(memory)), ())) for memory in found], notes


def _of_its_subject(triple: Triple, text: str) -> Triple:
    """A relation that a model puts down to the user, of whom the memory says it: "Tom lives in Rome" is about Tom."""
    stated = [one for one in read(text).relations if entity_key(one.target) == entity_key(triple.target)]
    is_own = triple.source not in {SELF, ASSISTANT} or any(one.source == SELF for one in stated)
    return triple if is_own or not stated else replace(triple, source=stated[0].source)


def _placed(fact: Fact, question: ExtractInput) -> bool:
    """Whether a fact is known to be of its turn: what belongs to a whole conversation has all of it as its context."""
    return question.turns[fact.turn].text.startswith(fact.context)


def _naming(triple: Triple, found: Sequence[Unread]) -> Unread | None:
    """The one memory that names both ends of a relation, if it is one; the scope's own go without a name."""
    names = [name for name in (triple.source, triple.target) if name not in {SELF, ASSISTANT}]
    telling = [memory for memory in found if all(mentions_whole_name(memory.text, name) for name in names)]
    return telling[0] if len(telling) == 1 else None


def _failed(found: Sequence[Unread], error: Exception) -> Plan[BackfillReport] | None:
    if not isinstance(error, ModelReplyError):
        return None
    lost = FailedBatch(tuple(memory.id for memory in found), str(error))
    return Plan.known(BackfillReport(left=len(found), failed=(lost,)))


def _counted(ends: Sequence[Change | LangmemAdapterError | None]) -> BackfillReport:
    for end in ends:
        if isinstance(end, LangmemAdapterError):
            raise end
    read = [end for end in ends if isinstance(end, Change)]
    events = [change.event for end in read for change in end.relations]
    return BackfillReport(
        read=len(read),
        relations=sum(bool(end.relations) for end in read),
        added=events.count("ADD"),
        ended=events.count("END"),
        skipped=len(ends) - len(read),
    )
