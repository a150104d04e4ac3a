"""Lists of checkpoints, page by page: a list may be long, and whoever reads it may take his time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import or_, select, tuple_

from langmem_adapter.storage.checkpoints import WHOLE, Checkpoint, Loaded, Packed, checkpoint_of, checkpoints, load

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import ColumnElement, Connection

__all__ = ["Selection", "page"]

_PAGE: Final = 32  # checkpoints read in one go: each may bring a whole state with it


@dataclass(frozen=True, slots=True)
class Selection:
    """Which checkpoints are wanted; `None` leaves a field free.

    Attributes:
        thread_id: Of this thread.
        ns: In this namespace.
        id: This one.
        before: Older than the one with this id.
        run_id: Written by this run.
    """

    thread_id: str | None = None
    ns: str | None = None
    id: str | None = None
    before: str | None = None
    run_id: str | None = None


def page(
    connection: Connection,
    wanted: Selection,
    *,
    after: Checkpoint | None = None,
    keep: Callable[[Packed], bool] | None = None,
    most: int | None = None,
) -> tuple[list[Loaded], Checkpoint | None]:
    """Some of the checkpoints that are wanted, newest first.

    Args:
        connection: In any transaction.
        wanted: Which ones.
        after: Where the page before ended.
        keep: Looks at the metadata and says whether to take the checkpoint.
        most: How many are wanted at most.

    Returns:
        They, and where this page ended; `None` where nothing can follow.
    """
    size = min(_PAGE, most) if keep is None and most is not None else _PAGE
    order = (checkpoints.c.id.desc(), checkpoints.c.thread_id, checkpoints.c.ns)
    query = select(checkpoints).where(WHOLE, *_conditions(wanted), *_beyond(after)).order_by(*order).limit(size)
    scanned = [checkpoint_of(row) for row in connection.execute(query)]
    kept = [one for one in scanned if keep is None or keep(one.metadata)][:most]
    done = len(scanned) < size or len(kept) == most
    return load(connection, kept), None if done else scanned[-1]


def _conditions(wanted: Selection) -> list[ColumnElement[bool]]:
    named = {name: getattr(wanted, name) for name in ("thread_id", "ns", "id", "run_id")}
    equal = [checkpoints.c[name] == value for name, value in named.items() if value is not None]
    return [*equal, checkpoints.c.id < wanted.before] if wanted.before is not None else equal


def _beyond(last: Checkpoint | None) -> list[ColumnElement[bool]]:
    if last is None:
        return []
    row = checkpoints.c  # a copied thread has the ids of its original: they are told apart by the rest of the key
    others = tuple_(row.thread_id, row.ns) > tuple_(last.space.thread_id, last.space.ns)
    return [row.id <= last.id, or_(row.id < last.id, others)]
