"""An index and its database side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from langmem_adapter.index.base import Verification
from langmem_adapter.storage.feed import all_rows

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from langmem_adapter.index.base import VectorView
    from langmem_adapter.storage.feed import Space

__all__ = ["compared"]


def compared(index: VectorView | None, connection: Connection, space: Space) -> Verification:
    """Compare an index with what a transaction sees, row by row and bit by bit; `None` stands for an empty one."""
    seen, lacking, differing = [np.empty(0, np.int64)], [], []
    for rows in all_rows(connection, space):
        pks = np.array([row.pk for row in rows], np.int64)
        seen.append(pks)
        if index is None:
            lacking += pks.tolist()
            continue
        for row, scope, vector in zip(rows, index.scopes_of(pks), index.vectors(pks).astype("<f4"), strict=True):
            if scope < 0:
                lacking.append(row.pk)
            elif scope != row.scope_id or vector.tobytes() != row.embedding:
                differing.append(row.pk)
    known = np.concatenate(seen)
    extra = [] if index is None else np.setdiff1d(index.pks(), known).tolist()
    return Verification(len(known), tuple(extra), tuple(lacking), tuple(differing))
