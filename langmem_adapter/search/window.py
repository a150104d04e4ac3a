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

from langmem_adapter.statements.periods import LONGEST, Period, days_over, periods
from langmem_adapter.text import meaningful, words

if TYPE_CHECKING:
    from datetime import tzinfo

    from numpy.typing import NDArray

    from langmem_adapter.search.query import Query
    from langmem_adapter.search.scope_cache import Floats, Load, ScopeCache

__all__ = ["lift"]


_ENDLESS: Final = {date.min: -np.inf, date.max: np.inf}
_NOBODY: Final = np.empty(0, np.int64)
_EVENT: Final = re.compile(r"\b(?:(?P<before>before)|after|since) (?P<event>[^,;?!.]+)", re.IGNORECASE)
_MOST: Final = 20  # times of one question; who names more lists dates
_EVENT_CJK: Final = re.compile(r"(?P<event>[^，。、；？！,;?!\s]{2,20}?)(?:的时候)?(?:(?P<before>[之以]前)|[之以]后)")


def lift(query: Query, cache: ScopeCache, load: Load) -> Floats | None:
    """How far each memory of a scope lies in the times that a question names, 0 to 1, by place.

    That is the share of the times (the first twenty, each once) that it lies in, the best brought to 1; `None` where the
    question names none, or nothing lies there.
    """
    if not len(cache):
        return None
    asked = query.asked_at
    named = list(dict.fromkeys(periods(query.text, asked.date())))[:_MOST]
    found = None if named else _event_of(query.text)
    if not named and found is None:
        return None
    lain = np.zeros(len(cache)) if found is None else _around(found, cache, load).astype(np.float64)
    marks = [f"@{year:04}" for year in cache.years] if named else []
    told = [year for year, held in zip(cache.years, cache.holders(marks, load), strict=False) if len(held)]
    for period in named:
        spans = _meant(period, asked.date(), cache.years)
        held = cache.holders([term for span in spans for term in days_over(*span, told)], load)
        lain += _said(spans, asked.tzinfo, cache) | np.isin(cache.columns.pks, np.concatenate([_NOBODY, *held]))
    best = lain.max(initial=0.0)
    return lain / best if best > 0 else None


def _meant(period: Period, asked: date, years: list[int]) -> list[tuple[date, date]]:
    """The days that are meant: without a year those of any in which something was said, but "since May" is of the latest."""
    if period.yearly and period.begins and period.ends:
        later = period.ends.year - period.begins.year
        return list(zip(_each(period.begins, years), _each(period.ends, years, later), strict=True))
    if period.yearly and (period.begins or period.ends or asked) > asked:
        period = period.moved(-1)
    return [(period.begins or date.min, period.ends or date.max)]


def _each(day: date, years: list[int], later: int = 0) -> list[date]:
    """A day in each of some years, or so many years later; 29 February is 1 March in most, as in `Period.moved`."""
    months = (np.clip(np.array(years) + later, date.min.year, date.max.year) - 1970) * 12 + day.month - 1
    days: list[date] = (months.astype("datetime64[M]").astype("datetime64[D]") + (day.day - 1)).tolist()
    return days


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


def _said(spans: list[tuple[date, date]], zone: tzinfo | None, cache: ScopeCache) -> NDArray[np.bool_]:
    """What was said, first or last, on any of some days: more of them have begun by then than have ended."""
    begins, ends = (np.sort([_second(day, zone) for day in days]) for days in zip(*spans, strict=True))
    said = np.array([cache.columns.created, cache.columns.updated])
    first, last = begins.searchsorted(said, "right") > ends.searchsorted(said, "right")
    lying: NDArray[np.bool_] = first | last
    return lying


def _second(day: date, zone: tzinfo | None) -> float:
    return _ENDLESS.get(day) or datetime.combine(day, time(), zone or UTC).timestamp()
