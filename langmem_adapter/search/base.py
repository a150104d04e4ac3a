"""What else may speak for memories than their own words: the seam for evidence from elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

__all__ = ["EvidenceSource"]


class EvidenceSource(Protocol):
    """Leads from a question, and from the memories that answer it best so far, to others."""

    def leads(
        self, connection: Connection, scope_ids: Sequence[int], text: str, best: Mapping[int, float]
    ) -> Mapping[int, float]:
        """Memories that speak to a question, besides what their own words say.

        Args:
            connection: A read transaction.
            scope_ids: Where to look.
            text: The question, as it was asked.
            best: The memories that answer it best so far, by their numbers, with their scores.

        Returns:
            How much each speaks for, above 0 and at most 1, by its number; only of the searched scopes.
        """
