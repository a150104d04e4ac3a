"""Periods that a text names: days, months, seasons, years and parts of them, and what lies before and after them.

English and Chinese. What is told from today ("last week", 上周) is put into dates first (`dates.dated`). A word alone is no
time: a month is one where a day, a year or a word like "in" stands beside it, so that nobody's "may" or "march" is one.
"""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import TYPE_CHECKING, Final

from langmem_adapter.statements.chinese_dates import chinese_number, dated_chinese
from langmem_adapter.statements.dates import MONTHS, dated
from langmem_adapter.statements.tables import patterns

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator, Mapping

__all__ = ["LONGEST", "Period", "days_over", "days_told", "periods"]

LONGEST: Final = 2_000
"""Letters of a text that are read."""

_P: Final = patterns("periods", {"MONTHS": "|".join(MONTHS)})
_SEASONS: Final = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12, "春": 3, "夏": 6, "秋": 9, "冬": 12}
_NTH: Final = {"first": 0, "second": 1, "third": 2, "fourth": 3, "last": -1}
_NTH_CHINESE: Final = {"第一": 0, "第二": 1, "第三": 2, "第四": 3, "最后一": -1}
_DAYS: Final = {"day": 1, "week": 7, "month": 30, "year": 365}
_FEW: Final = 7  # days, weeks, months: what "a few" can be
_SATURDAY: Final = 5
_WEEK: Final = 7  # days: of a longer time its days are no marks
_MOST_DAYS: Final = 100  # a season; of a longer time its months are none


@dataclass(frozen=True, slots=True)
class Period:
    """A stretch of days, half-open.

    Attributes:
        begins: Its first day; `None` where it has no beginning ("before May").
        ends: The day after its last; `None` where it has no end.
        yearly: Whether no year was named: these days of this year stand for those of any.
    """

    begins: date | None
    ends: date | None
    yearly: bool = False

    def moved(self, years: int) -> Period:
        """The same days so many years later."""
        return Period(_moved(self.begins, years), _moved(self.ends, years), self.yearly)


def _moved(day: date | None, years: int) -> date | None:
    if day is None or not date.min.year <= day.year + years <= date.max.year:
        return None
    return day.replace(year=day.year + years, day=min(day.day, monthrange(day.year + years, day.month)[1]))


def periods(text: str, today: date) -> list[Period]:
    """The periods that a text names, in order; days that no calendar has are none.

    Args:
        text: A question, or what was said; its first 2,000 letters are read.
        today: When it is asked or was said.

    Example:
        >>> from datetime import date
        >>> [period] = periods("What did I do last month?", date(2025, 5, 1))
        >>> str(period.begins), str(period.ends)
        ('2025-04-01', '2025-05-01')
        >>> periods("May I march to the second house?", date(2025, 5, 1)), periods("2月30日", date(2025, 5, 1))
        ([], [])
    """
    text = text[:LONGEST]
    if not _P["ANY"].search(text):
        return []
    text = dated_chinese(dated(text, today), today)
    found = [*_read(text, "ENGLISH", _english, today), *_read(text, "CHINESE", _chinese, today)]
    return [period for _, period in sorted(found, key=lambda each: each[0])]


# ── as marks of what is kept ────────────────────────────────────────────────────────────────────────────────────────


def days_told(text: str, said: date) -> set[str]:
    """The dates that a text tells of, as marks that no word looks like: years and months, and few days.

    Example:
        >>> from datetime import date
        >>> sorted(days_told("I saw her yesterday", date(2025, 5, 1)))
        ['@2025', '@2025-04', '@2025-04-30']
    """
    marks: set[str] = set()
    for period in periods(text, said):
        nearest = min(map(period.moved, (0, -1, 1)), key=lambda each: _apart(each, said)) if period.yearly else period
        if nearest.begins is not None and nearest.ends is not None:
            marks |= _marks(nearest.begins, nearest.ends)
    return marks


def _apart(period: Period, day: date) -> int:
    return abs(((period.begins or period.ends or day) - day).days)


def _marks(begins: date, ends: date) -> set[str]:
    days = [begins + timedelta(number) for number in range(min((ends - begins).days, _MOST_DAYS))]
    if (ends - begins).days > _WEEK:
        months = {f"@{day:%Y-%m}" for day in days} if len(days) < _MOST_DAYS else set()
        return months | {f"@{year:04}" for year in {begins.year, (ends - timedelta(1)).year}}
    return {mark for day in days for mark in (f"@{day:%Y}", f"@{day:%Y-%m}", f"@{day}")}


def days_over(begins: date, ends: date, years: Iterable[int]) -> list[str]:
    """Marks of what is told of the days from *begins* to before *ends*, in some years: whole years, then months, then days.

    Example:
        >>> from datetime import date
        >>> days_over(date(2025, 4, 29), date(2025, 6, 1), [2024, 2025])
        ['@2025-04-29', '@2025-04-30', '@2025-05']
    """
    marks: list[str] = []
    for year in years:
        day, last = (
            max(begins, date(year, 1, 1)),
            min(ends, date(year, 12, 31) + timedelta(1) if year < date.max.year else ends),
        )
        if (day, last) == (date(year, 1, 1), date(year + 1, 1, 1)):
            marks.append(f"@{year:04}")
            continue
        while day < last:
            after = _months(day, 1)
            whole = day.day == 1 and after <= last
            marks.append(f"@{day:%Y-%m}" if whole else f"@{day}")
            day = after if whole else day + timedelta(1)
    return marks


def _read(
    text: str, name: str, understood: Callable[[re.Match[str], str, str, date], Period | None], today: date
) -> Iterator[tuple[int, Period]]:
    """Each period with its place; two that are joined ("from May to July") are one."""
    join, open_range = (_P["JOIN"], _P["RANGE"]) if name == "ENGLISH" else (_P["CHINESE_JOIN"], None)
    last: tuple[int, int, Period, bool] | None = None
    for found in _P[name].finditer(text):
        before, after = text[max(0, found.start() - 40) : found.start()], text[found.end() : found.end() + 12]
        try:
            period = understood(found, before, after, today)
        except (ValueError, OverflowError):  # no such day, or beyond the calendar
            continue
        if period is None:
            continue
        ranged = open_range is None or open_range.search(before) is not None
        if last is not None and last[3] and join.fullmatch(text[last[1] : found.start()]) and last[2].begins:
            last = (last[0], found.end(), _joined(last[2], period), False)
            continue
        if last is not None:
            yield last[0], last[2]
        last = (found.start(), found.end(), period, ranged)
    if last is not None:
        yield last[0], last[2]


def _joined(first: Period, last: Period) -> Period:
    """From the beginning of one to the end of another, which has the year where only one is named."""
    if first.begins is None or last.begins is None:
        return last
    years = last.begins.year - first.begins.year
    if first.yearly != last.yearly:
        first, last = (first.moved(years), last) if first.yearly else (first, last.moved(-years))
    return Period(first.begins, last.ends, first.yearly and last.yearly)


# ── English ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _english(found: re.Match[str], before: str, after: str, today: date) -> Period | None:
    said, part = found.groupdict(), _P["PART"].search(before)
    led = _P["LED"].search(before) or part
    if (long := said["long"]) and not (said["y5"] or led or (long[:1].isupper() and _P["ALSO"].search(before))):
        return None
    if said["y6"] and not (led or _P["ALSO"].search(before)):
        return None
    whole = _named(said, today)
    if part is not None:
        whole = _part(whole, part["part"].partition(" ")[0].lower(), part["nth"], part["unit"])
    elif within := _P["WITHIN"].search(before):
        whole = _around(whole, within["unit"])
    elif within := _P["CHINESE_WITHIN"].match(after):
        whole, after = _around(whole, "weekend" if "末" in within[0] else "week"), after[within.end() :]
    if bound := _P["CHINESE_BOUND"].match(after):
        return _side(whole, bound)
    return _bounded(whole, before[: part.start()] if part else before)


def _named(said: Mapping[str, str | None], today: date) -> Period:
    year = next((int(said[name] or 0) for name in ("y1", "y2", "y3", "y4", "y5", "y6") if said[name]), None)
    if said["a"] and said["b"]:
        first, second = int(said["a"]), int(said["b"])
        month, day = (first, second) if second > 12 else (second, first)  # noqa: PLR2004 - there is no thirteenth month
        return _of(today, year, month, day)
    if long := (said["long"] or "").lower():
        return _season(today, year, _SEASONS[long]) if long in _SEASONS else _of(today, year, _month(long))
    if named := said["m3"] or said["m4"]:
        return _of(today, year, _month(named), int(said["d3"] or said["d4"] or 0))
    return _of(today, year, int(said["m1"] or 0), int(said["d1"] or 0))


def _month(name: str) -> int:
    return next(number for number, month in enumerate(MONTHS, 1) if month[:3].lower() == name[:3].lower())


def _bounded(whole: Period, before: str) -> Period:
    """What lies before or after a period, where that is said."""
    if whole.begins is not None and (few := _P["FEW"].search(before)):
        unit = _DAYS[few["unit"].lower()]
        count = 1 if (few["few"] or "the").lower() == "the" else _FEW
        return replace(whole, begins=whole.begins - timedelta(unit * count), ends=whole.begins)
    bound = None if _P["RANGE"].search(before) else _P["BOUND"].search(before)
    return whole if bound is None else _side(whole, bound)


def _side(whole: Period, bound: re.Match[str]) -> Period:
    if bound["before"]:
        return Period(None, whole.begins, whole.yearly)
    return Period(whole.ends if bound["after"] else whole.begins, None, whole.yearly)


# ── Chinese ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _chinese(found: re.Match[str], _: str, after: str, today: date) -> Period | None:
    said = found.groupdict()
    year = next((int(said[name] or 0) for name in ("y2", "y3", "y4") if said[name]), None)
    if said["long"]:
        whole = _season(today, year, _SEASONS[said["long"]])
    else:
        whole = _of(today, year, chinese_number(said["m2"] or "0"), chinese_number(said["d2"] or "0"))
    if part := _P["CHINESE_PART"].match(after):
        name = "early" if part["early"] else "mid" if part["mid"] else "late"
        unit = "weekend" if part["unit"] == "周末" else "week"
        nth = next((word for word, place in _NTH.items() if place == _NTH_CHINESE.get(part["nth"] or "")), None)
        whole, after = _part(whole, name, nth, unit), after[part.end() :]
    bound = _P["CHINESE_BOUND"].match(after)
    return whole if bound is None else _side(whole, bound)


# ── the calendar ────────────────────────────────────────────────────────────────────────────────────────────────────


def _of(today: date, year: int | None, month: int = 0, day: int = 0) -> Period:
    """A year, month or day; without a year this year's."""
    begins = date(today.year if year is None else year, month or 1, day or 1)
    if day:
        return Period(begins, begins + timedelta(1), year is None)
    return Period(begins, _months(begins, 1 if month else 12), year is None)


def _season(today: date, year: int | None, month: int) -> Period:
    begins = date(today.year if year is None else year, month, 1)
    return Period(begins, _months(begins, 3), year is None)


def _months(day: date, count: int) -> date:
    years, month = divmod(day.year * 12 + day.month - 1 + count, 12)
    return date(years, month + 1, 1)


def _around(whole: Period, unit: str) -> Period:
    """The week, or the weekend of the week, in which a period begins."""
    if whole.begins is None:
        return whole
    monday = whole.begins - timedelta(whole.begins.weekday())
    return replace(whole, begins=monday + timedelta(5 if unit == "weekend" else 0), ends=monday + timedelta(7))


def _part(whole: Period, name: str, nth: str | None, unit: str | None) -> Period:
    """The beginning, middle or end of a period, or one of its weeks and weekends."""
    if whole.begins is None or whole.ends is None:
        return whole
    if nth is not None:
        return _counted(whole, whole.begins, whole.ends, _NTH[nth.lower()], unit or "week")
    third = (whole.ends - whole.begins) / 3
    first = 1 if name == "mid" or "middle" in name else 2 if name.removeprefix("the ") in {"late", "end"} else 0
    begins = whole.begins + first * third
    return replace(whole, begins=begins, ends=whole.ends if first == 2 else begins + third)  # noqa: PLR2004 - the last third


def _counted(whole: Period, begins: date, ends: date, place: int, unit: str) -> Period:
    if unit == "half":
        half = begins + (ends - begins) / 2
        return replace(whole, begins=begins if place == 0 else half, ends=half if place == 0 else ends)
    if unit == "week":
        first = begins + timedelta(7 * place) if place >= 0 else ends - timedelta(7)
        return replace(whole, begins=first, ends=first + timedelta(7))
    saturday = begins + timedelta((_SATURDAY - begins.weekday()) % 7 + 7 * max(place, 0))
    if place < 0:
        saturday = ends - timedelta((ends.weekday() - _SATURDAY) % 7 or 7)
    return replace(whole, begins=saturday, ends=saturday + timedelta(2))
