"""A write: what the ledger is asked to carry out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.storage.scopes import id_within

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from langmem_adapter.records.scope import Scope
    from langmem_adapter.records.work import Decision
    from langmem_adapter.storage.traces import TraceDraft

__all__ = ["Write"]


@dataclass(frozen=True, slots=True, eq=False)
class Write:
    """A list of decisions, and what the ledger needs to carry them out.

    Attributes:
        decisions: In order; no memory is changed by two of them.
        scope: The exact scope of new memories, and of the run; only needed where there is an ADD, a key or a trace.
        within: Fields that every memory named must match; `None` where the ids were found another way.
        vectors: The unit vector (float32) of every text that is added or put in place of another.
        seen: Number of the last change that the decisions took into account; `None` for what was compared with nothing.
        key: Names the run within *scope*; a second write of the same key changes nothing and gives the first one's result.
        trace: What to keep of the run that led here; it is written even where nothing else is, and needs a key.
        related: Whether the texts have been read for relations, so that they need not be read again.
        thread: The thread of the messages that the run remembers, as *scope* knows it.
        digests: Those messages: what each says, by its id; see `storage.sources`.
    """

    decisions: tuple[Decision, ...]
    scope: Scope | None = None
    within: Scope | None = None
    vectors: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    seen: int | None = None
    key: str | None = None
    trace: TraceDraft | None = None
    related: bool = False
    thread: str | None = None
    digests: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a run that could not be found again."""
        if (self.key is None or self.scope is None) and not (self.key is None and self.trace is None):
            raise InvalidInputError("a run and its trace are named by a key within a scope; give both")

    @property
    def run(self) -> str | None:
        """The id of the run, and of its trace; `None` where it has no name."""
        return None if self.key is None or self.scope is None else id_within(self.scope, self.key)
