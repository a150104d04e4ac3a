"""Relations from elsewhere (a file, another graph), taken in batch by batch, with a report of what was not.

Whoever reads them gives each as `Told`: where it stands there, and the relation with the scope it shall have, or why it is none
(`RefusedRow`), or that nobody believes it there any more (`PastRelation`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from langmem_adapter.records.graph import Triple
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.ledger import Ledger

__all__ = ["GraphImportReport", "PastRelation", "RefusedRow", "Stated", "Told", "take_in"]

_BATCH: Final = 500
"""Relations of one transaction: others wait for it."""
_LISTED: Final = 1_000
"""Refusals that a report lists; all of them are counted, and told one by one to whoever asks."""
_ONE: Final = "source and target are one and the same; nothing is related to itself"


@dataclass(frozen=True, slots=True)
class Stated:
    """A relation that is told elsewhere."""

    where: str  # its place there: `"line 7"`
    begins: str  # how it begins there, for a report
    scope: Scope  # the exact scope that it shall have
    triple: Triple  # the relation


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """Something that is no relation, or none that may be taken in.

    Attributes:
        where: Where it stands: `"line 7"`.
        begins: How it begins.
        reason: Why it was refused.
    """

    where: str
    begins: str
    reason: str


@dataclass(frozen=True, slots=True)
class PastRelation:
    """A relation that nobody believes any more where it is told.

    Attributes:
        where: Where it stands.
    """

    where: str


Told: TypeAlias = Stated | RefusedRow | PastRelation


@dataclass(frozen=True, slots=True)
class GraphImportReport:
    """What became of relations from elsewhere; the counts add up to `read`.

    Attributes:
        read: How many were told.
        added: Those that are new.
        widened: Those that were known, and of which more is known now: other dates, more mentions.
        known: Those of which all was known; nothing was written.
        past: Those that nobody believes any more where they were told. What was believed, and when, is the own past of each
            database, which none can take over from another.
        refused: How many were refused.
        refusals: The first thousand of these, with the reasons.
    """

    read: int = 0
    added: int = 0
    widened: int = 0
    known: int = 0
    past: int = 0
    refused: int = 0
    refusals: tuple[RefusedRow, ...] = ()


def take_in(
    ledger: Ledger,
    told: Iterable[Told],
    *,
    refused: Callable[[RefusedRow], object] | None = None,
    progress: Callable[[int], object] | None = None,
) -> GraphImportReport:
    """Take relations in, 500 of them in one transaction, so that however many are told, only these are held.

    Taken in again, they are known: what is known only grows (see `storage.graph.imports`). So whoever was broken off begins
    anew.

    Args:
        ledger: Writes them.
        told: What is told, in order.
        refused: Gets each that is refused, as it comes.
        progress: Gets the number of those that were read, after each transaction.
    """
    counts, refusals, source = Counter[str](), list[RefusedRow](), iter(told)
    while batch := list(islice(source, _BATCH)):
        for became, each in _taken(ledger, batch):
            counts[became] += 1
            if isinstance(each, RefusedRow):
                refusals.extend([each] if len(refusals) < _LISTED else [])
                if refused is not None:
                    refused(each)
        if progress is not None:
            progress(counts.total())
    return GraphImportReport(read=counts.total(), **counts, refusals=tuple(refusals))


def _taken(ledger: Ledger, batch: Sequence[Told]) -> Iterator[tuple[str, Told]]:
    """Take some in, and say of each what became of it."""
    stated: defaultdict[Scope, list[Stated]] = defaultdict(list)
    for each in batch:
        if isinstance(each, Stated):
            stated[each.scope].append(each)
        else:
            yield "past" if isinstance(each, PastRelation) else "refused", each
    for scope, some in stated.items():
        for each, became in zip(some, ledger.take_in(scope, [one.triple for one in some]), strict=True):
            yield ("refused", RefusedRow(each.where, each.begins, _ONE)) if became == "same" else (became, each)
