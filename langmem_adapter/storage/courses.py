"""The course of a memory: what was true when, as all its statements together say.

Every row of the history says what was true from its `valid_from` on: from the date of a statement, or from the moment of an
edit by hand; a deletion says that it was over. The course of a memory are its own rows and those whose `past_of` names it:
statements that were told when a later one stood already. What was true at a moment is what the row says that begins last,
among those that do not begin after it; of two that begin together, that which was written last. So the order in which
statements of different dates are told does not matter. The memory that stands is the end of its course: nothing is written
to it that begins before its `updated_at`, which is the `valid_from` of its last row.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import func, or_, select

from langmem_adapter.storage.prepared_statements import any_of
from langmem_adapter.storage.tables import history

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from sqlalchemy import Connection

__all__ = ["COURSE", "CourseRows", "courses"]

COURSE: Final = func.coalesce(history.c.past_of, history.c.memory_id)
"""The memory that a row of the history belongs to the course of."""

_READ: Final = (
    select(COURSE.label("course"), *(history.c[name] for name in ("memory_id", "valid_from", "seq", "new_memory")))
    .where(or_(any_of(history.c.memory_id, "ids"), any_of(history.c.past_of, "ids")))
    .order_by(history.c.valid_from, history.c.seq)
)
_BEGINS: Final = attrgetter("valid_from")
_ORDER: Final = attrgetter("valid_from", "seq")


class Step(NamedTuple):
    """A row of a course; where it is a deletion it has no text."""

    memory_id: str
    valid_from: datetime
    seq: int
    text: str | None


@dataclass(slots=True)
class CourseRows:
    """The rows of a course, in the order of what they say."""

    steps: list[Step] = field(default_factory=list)

    @property
    def began(self) -> datetime | None:
        """The date of its first statement."""
        return next((step.valid_from for step in self.steps if step.text is not None), None)

    @property
    def last(self) -> datetime | None:
        """The date of its last one."""
        return self.steps[-1].valid_from if self.steps else None

    def at(self, moment: datetime) -> Step | None:
        """What it says of a moment."""
        place = bisect_right(self.steps, moment, key=_BEGINS)
        return self.steps[place - 1] if place else None

    def after(self, moment: datetime) -> datetime | None:
        """The date of the next statement after a moment."""
        place = bisect_right(self.steps, moment, key=_BEGINS)
        return self.steps[place].valid_from if place < len(self.steps) else None

    def until(self, valid_from: datetime, seq: int) -> datetime | None:
        """When that was over which a row says: with the row that comes next."""
        place = bisect_right(self.steps, (valid_from, seq), key=_ORDER)
        return self.steps[place].valid_from if place < len(self.steps) else None

    def said(self, moment: datetime, text: str | None) -> Step | None:
        """The row of a date that says this."""
        return next((step for step in self.steps if (step.valid_from, step.text) == (moment, text)), None)

    def put(self, row: Mapping[str, Any], valid_from: datetime, text: str | None) -> None:
        """Give a new row its place."""
        insort(self.steps, Step(row["id"], valid_from, row["seq"], text), key=_ORDER)


def courses(connection: Connection, ids: Collection[str]) -> dict[str, CourseRows]:
    """The courses of some memories; an empty one for what is not known."""
    found = {memory_id: CourseRows() for memory_id in ids}
    for row in connection.execute(_READ, {"ids": ids}) if ids else ():
        if row.course in found:
            found[row.course].steps.append(Step(row.memory_id, row.valid_from, row.seq, row.new_memory))
    return found
