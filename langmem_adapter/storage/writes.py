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

    from langmem_adapter.records.results import Decision
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.traces import TraceDraft


@dataclass(frozen=True, slots=True, eq=False)
class Write:
    """A list of decisions, and what the ledger needs to carry them out."""

    decisions: tuple[Decision, ...]  # in order; no memory is changed by two of them
    scope: Scope | None = None  # of new memories and of the run; needed where there is an ADD, a key or a trace
    within: Scope | None = None  # fields that every memory must match; `None` where the ids were found another way
    vectors: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)  # unit vectors of all new texts
    seen: int | None = None  # number of the last change that was taken into account; `None`: compared with nothing
    key: str | None = None  # names the run within `scope`; a second write of it gives the first one's result
    trace: TraceDraft | None = None  # what to keep of the run, even where nothing else is written; it needs a key
    related: bool = False  # whether the texts have been read for relations, so that they need not be read again
    thread: str | None = None  # the thread of the messages that the run remembers
    digests: Mapping[str, str] = field(default_factory=dict)  # of those messages, by their ids: see `storage.sources`

    def __post_init__(self) -> None:
        """Refuse a run that could not be found again."""
        if (self.key is None or self.scope is None) and not (self.key is None and self.trace is None):
            raise InvalidInputError("a run and its trace are named by a key within a scope; give both")

    @property
    def run(self) -> str | None:
        """The id of the run, and of its trace; `None` where it has no name."""
        return None if self.key is None or self.scope is None else id_within(self.scope, self.key)
