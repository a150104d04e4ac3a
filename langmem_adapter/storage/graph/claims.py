"""What one decision says of relations, and what it unsays: its names, its dates, its text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from langmem_adapter.names import End, end_of, entity_key, gives_up, is_single, relation_name, says_all
from langmem_adapter.storage.graph.spans import Span

if TYPE_CHECKING:
    from datetime import datetime

    from langmem_adapter.records.graph import Triple
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.graph.beliefs import Belief, Home

__all__ = ["Claims", "dates", "ends", "normal", "relates_two", "single", "still_said", "unsaid"]


@dataclass(frozen=True, slots=True)
class Claims:
    """What one decision says and unsays."""

    home: Home  # the scope of its memory; where it states relations without a memory, their scope
    time: datetime  # the date of the statement
    triples: tuple[Triple, ...] = ()  # what is stated
    memory_id: str | None = None  # by which memory; `None` for relations that are written by hand
    before: str | None = None  # the memory's text before; `None` where it is new
    after: str | None = None  # its text after; `None` where it is deleted
    by_hand: bool = False  # edited or deleted by hand: what it no longer says was never true, instead of being over
    returns: bool = False  # it was there before, and comes back
    heir: str | None = None  # the memory that says from now on what this one said
    gap: Span | None = None  # when the memory said something else, or nothing, before it began to say what it says now
    speaker: str = ""  # the named speaker of the memory (`names.named_speaker`), who is not in its text

    @property
    def unsays(self) -> bool:
        """Whether the memory may no longer say what it said, or say again what it did not."""
        changes = self.returns or self.gap is not None or self.before not in {None, self.after}
        return self.memory_id is not None and changes


def normal(triple: Triple) -> Triple:
    """A triple whose relation has the form in which it is kept."""
    return replace(triple, relation=relation_name(triple.relation))


def ends(triple: Triple, scope: Scope) -> tuple[End, End]:
    """A triple's two ends."""
    return end_of(triple.source, scope), end_of(triple.target, scope)


def relates_two(triple: Triple, scope: Scope) -> bool:
    """Whether its ends are two things; nothing is related to itself."""
    source, target = ends(triple, scope)
    return source.key != target.key


def single(triple: Triple) -> bool:
    """Whether its source has one such target at a time."""
    return is_single(triple.relation) if triple.single is None else triple.single


def dates(triple: Triple, time: datetime) -> tuple[Span, bool, bool]:
    """When a triple holds; whether somebody said since when, and until when."""
    start, stop = triple.valid_from, triple.valid_to
    if triple.ended:
        over = stop or time
        start = start if start is not None and start < over else None
        return Span(start, over), start is not None, stop is not None
    if stop is None or (start is not None and start >= stop):
        return Span(start or time, None), True, False
    since = start or (time if time < stop else None)
    return Span(since, stop), since is not None, True


# ── its text ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def unsaid(said: Claims, belief: Belief | None) -> bool:
    """Whether the memory says no longer what it said; where that is not believed any more, only its end tells."""
    if said.after is None:
        return True
    if belief is None:
        return False
    return any(gives_up(said.before or "", said.after, name) for name in _named(said, belief))


def still_said(said: Claims, text: str | None, belief: Belief) -> bool:
    """Whether a text says what another one said; what that did not say by name is said where both are the same."""
    return said.after == text or all(says_all(said.after or "", name) for name in _named(said, belief))


def _named(said: Claims, belief: Belief) -> list[str]:
    """The names by which a text would speak of a relation; a user, an agent or the speaker goes without."""
    speaker = entity_key(said.speaker)
    return [each.name for each in (belief.source, belief.target) if each.owner is None and each.key != speaker]
