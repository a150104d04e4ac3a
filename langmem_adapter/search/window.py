"""A question's window of time: which memories were said in it, and which tell of it.

"What did we do on the first weekend of May?", "last week" and 4月28号我们聊了什么 share hardly a word with what answers them. A
memory lies in a window by when it was said, first or last, or by a date that its text tells, which is kept beside its words
(`statements.periods`). This lifts, and cuts nothing off; who names the bounds (`Bounds`) gets what was said between them alone.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING, Final

import numpy as np

from langmem_adapter.search.query import Bounds
from langmem_adapter.statements.periods import LONGEST, Period, days_over, periods
from langmem_adapter.text import meaningful, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import tzinfo

    from numpy.typing import NDArray

    from langmem_adapter.search.query import Query
    from langmem_adapter.search.scope_cache import Floats, Load, ScopeCache

__all__ = ["lift"]


_EVENT: Final = re.compile(r"\b(?:(?P<before>before)|after|since) (?P<event>[^,;?!.]+)", re.IGNORECASE)
_EVENT_CJK: Final = re.compile(r"(?P<event>[^，。、；？！,;?!\s]{2,20}?)(?:的时候)?(?:(?P<before>[之以]前)|[之以]后)")


def lift(query: Query, cache: ScopeCache, load: Load) -> Floats | None:
    """How far each memory of a scope lies in the times that a question names, 0 to 1, by place.

    That is the share of the times that it lies in, the best brought to 1; `None` where the question names none, or nothing lies
    there.
    """
    asked = query.asked_at
    named = periods(query.text, asked.date())
    found = None if named else _event_of(query.text)
    if not named and found is None:
        return None
    lain = np.zeros(len(cache)) if found is None else _around(found, cache, load).astype(np.float64)
    for period in named:
        lain += _lying(list(_meant(period, asked.date(), cache.years)), asked.tzinfo, cache, load)
    best = lain.max(initial=0.0)
    return lain / best if best > 0 else None


def _meant(period: Period, asked: date, years: Sequence[int]) -> Iterator[tuple[date, date]]:
    """The days that are meant: without a year those of any in which something was said, but "since May" is of the latest."""
    found = [period]
    if period.yearly and period.begins and period.ends:
        found = [period.moved(year - period.begins.year) for year in years]
    elif period.yearly and (period.begins or period.ends or asked) > asked:
        found = [period.moved(-1)]
    for each in found:
        yield each.begins or date.min, each.ends or date.max


def _event_of(text: str) -> re.Match[str] | None:
    text = text[:LONGEST]
    return _EVENT.search(text) or (None if text.isascii() else _EVENT_CJK.search(text))


def _around(found: re.Match[str], cache: ScopeCache, load: Load) -> NDArray[np.bool_]:
    """What was said before, or after, something happened: from or up to the day of the memory that speaks of it best."""
    told = words(found["event"], cache.language)
    terms = sorted(meaningful(told, cache.language))
    scores = cache.words(terms, (), related=0, load=load)
    best = int(np.argmax(scores)) if scores.any() else 0
    held = [cache.columns.pks[best] in holders for holders in cache.holders(terms, load)] if scores.any() else []
    if 2 * sum(held) < max(1, len(terms)):  # hardly the same
        return np.zeros(len(cache), np.bool_)
    then = cache.columns.created[best]
    lying: NDArray[np.bool_] = cache.columns.created <= then if found["before"] else cache.columns.created >= then
    return lying


def _lying(spans: Sequence[tuple[date, date]], zone: tzinfo | None, cache: ScopeCache, load: Load) -> NDArray[np.bool_]:
    held = cache.holders([term for span in spans for term in days_over(*span, cache.years)], load)
    lying = np.isin(cache.columns.pks, np.concatenate([np.empty(0, np.int64), *held]))
    for begins, ends in spans:
        within = Bounds(_midnight(begins, zone), _midnight(ends, zone))
        lying |= within.hold(cache.columns.created) | within.hold(cache.columns.updated)
    return lying


def _midnight(day: date, zone: tzinfo | None) -> datetime | None:
    return None if day in {date.min, date.max} else datetime.combine(day, time(), zone or UTC)
