"""The window of time that a query names: which memories were written in it, and which speak of it.

"What did we do on the first weekend of May?", "last week" and 4月28号我们聊了什么 share hardly a word with what answers them. A
memory lies in a window by the day of its speaker on which it was first or last written, or by a date that its text names, which
is stored beside its words (`statements.periods`). A window ranks, it does not filter; bounds (`Bounds`) filter.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING, Final

import numpy as np

from langmem_adapter.search.ranking import QueryWindow
from langmem_adapter.search.smalltalk import names_topic
from langmem_adapter.statements.dates import SEASONS, WEEKDAYS
from langmem_adapter.statements.periods import days_over, split_periods
from langmem_adapter.text import words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langmem_adapter.search.query import Query
    from langmem_adapter.search.question import Question
    from langmem_adapter.search.scope_cache import Load, ScopeCache
    from langmem_adapter.statements.periods import Period

__all__ = ["read_window"]


_ENDLESS: Final = {date.min: -np.inf, date.max: np.inf}
_NO_PKS: Final = np.empty(0, np.int64)
_MOST: Final = 20  # times of one query; more are a list of dates
_REQUEST: Final = re.compile(
    r"^\W*(?:(?:please|can you|could you|would you|will you|help me|let's)\W+)*"
    r"(?:write|draft|compose|draw|paint|sing|invent|create|generate|design|make up|tell me a (?:story|joke))\b"
    r"|^\W*(?:请|麻烦)?你?(?:帮我|给我|替我|为我|帮忙)?(?:写|画|编|创作|生成|设计)",
    re.IGNORECASE,
)
_UNDATED: Final = re.compile(
    rf"(?<!last )(?<!this )(?<!next )\b(?:{'|'.join((*SEASONS, *WEEKDAYS))}|christmas|halloween|new year's eve)\b(?! \d)"
    "|(?<![去今明前]年)[春夏秋冬][天季]|(?<![上下这本])(?:周|星期)[一二三四五六日天]|圣诞节|元旦",
    re.IGNORECASE,
)


def read_window(query: Query, asked: Question, cache: ScopeCache, load: Load) -> QueryWindow | None:
    """The window that a query names; `None` where it names none, or one beside a topic in which nothing lies.

    A season or a day in a request ("write a poem about autumn") is no window.
    """
    if not len(cache):
        return None
    text, moment = asked.text, query.asked_at
    times, rest = split_periods(_UNDATED.sub(" ", text) if _REQUEST.match(text) else text, moment.date())
    if not times:
        return None
    lying, said = np.zeros(len(cache)), cache.columns.local(moment)
    marks = [f"@{year:04}" for year in cache.years]
    years = [year for year, held in zip(cache.years, cache.holders(marks, load), strict=True) if len(held)]
    for period in list(dict.fromkeys(times))[:_MOST]:
        spans = _meant(period, moment.date(), cache.years)
        held = cache.holders([term for span in spans for term in days_over(*span, years)], load)
        lying += _said(spans, said) | np.isin(cache.columns.pks, np.concatenate([_NO_PKS, *held]))
    topic = (
        asked.terms.intersection(words(rest, asked.language)) if names_topic(rest, asked.language) else frozenset[str]()
    )
    best = lying.max(initial=0.0)
    return QueryWindow(lying / max(best, 1.0), topic) if best > 0 or not topic else None


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


def _said(spans: list[tuple[date, date]], said: NDArray[np.float64]) -> NDArray[np.bool_]:
    """What was said, first or last, on any of some days of its speaker: more of them have begun by then than have ended."""
    begins, ends = (np.sort([_second(day) for day in days]) for days in zip(*spans, strict=True))
    first, last = begins.searchsorted(said, "right") > ends.searchsorted(said, "right")
    lying: NDArray[np.bool_] = first | last
    return lying


def _second(day: date) -> float:
    return _ENDLESS.get(day) or datetime.combine(day, time(), UTC).timestamp()
