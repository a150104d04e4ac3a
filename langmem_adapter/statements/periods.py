"""Periods that a text names: days, months, seasons, years and parts of them, and what lies before and after them.

English and Chinese. Expressions relative to today ("last week", 上周, "on Sunday") are replaced by dates first
(`dates.dated`). A word alone is no time: a month is one where a day, a year or a word like "in" is beside it, so that no "may"
or "march" is one.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from calendar import isleap
from dataclasses import dataclass, replace
from datetime import date, timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from langmem_adapter.statements.dates import (
    MONTH_NAMES,
    NUMBERS,
    SEASONS,
    SHORT_DAYS,
    WEEKDAYS,
    chinese_number,
    dated,
    dated_chinese,
    monday,
    month_of,
    months_on,
)
from langmem_adapter.statements.tables import patterns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

LONGEST: Final = 2_000
"""Letters of a text that are read."""

_P: Final = patterns("periods", {"MONTHS": MONTH_NAMES, "WEEKDAYS": "|".join(WEEKDAYS)})
_SEASONS: Final = SEASONS | {"春": 3, "夏": 6, "秋": 9, "冬": 12}
_NTH: Final = {"first": 0, "second": 1, "third": 2, "fourth": 3, "last": -1} | {
    "第一": 0, "第二": 1, "第三": 2, "第四": 3, "最后一": -1,
}  # fmt: skip
_DAYS: Final = {"day": 1, "week": 7, "month": 30, "year": 365}
_FEW: Final = 7  # days, weeks, months: what "a few" can be
_SATURDAY: Final = 5
_LEAP_DAY: Final = (2, 29)
_LEAP_YEARS: Final = 8  # from one to the next, at most
_WEEK: Final = 7  # days: of a longer time its days are no marks
_MOST_DAYS: Final = 100  # a season; of a longer time its months are none

_WORD: Final = re.compile("[a-z]+")
_A_YEAR: Final = re.compile(r"(?:19|20)\d\d")
_NAMES: Final = frozenset({*MONTH_NAMES.lower().split("|"), *SEASONS})
_NEAR: Final = frozenset("yesterday today tonight tomorrow ago".split())
_HOLIDAY_WORDS: Final = frozenset("christmas halloween valentine new".split())
_SPOKEN: Final = _HOLIDAY_WORDS.union("past last ago weekend".split(), map(str.lower, WEEKDAYS))
_HOLIDAYS: Final = {
    "new year's eve": "December 31", "new year's day": "January 1", "christmas eve": "December 24",
    "christmas": "December 25", "christmas day": "December 25", "halloween": "October 31",
    "valentine's day": "February 14", "元旦": "1月1日", "跨年夜": "12月31日", "新年前夜": "12月31日",
    "平安夜": "12月24日", "圣诞节": "12月25日", "国庆节": "10月1日", "劳动节": "5月1日", "情人节": "2月14日",
}  # fmt: skip
_CHINESE_WEEKDAYS: Final = "一二三四五六日"
_FRAME: Final = 40  # letters before a period that can belong to it
_FIRST: Final = date(1900, 1, 1)  # before it no number is read as a year
_AROUND: Final = 3  # days before and after "a week ago" that it can mean
_STEPS: Final = frozenset("last next this".split())
_STEPPED: Final = _NAMES | {*SHORT_DAYS, *"week weekend month year night morning afternoon evening".split()}


@dataclass(frozen=True, slots=True)
class Period:
    """A stretch of days, half-open.

    Attributes:
        begins: Its first day; `None` where it has no beginning ("before May").
        ends: The day after its last; `None` where it has no end.
        yearly: Whether no year was named: these days, of this year or the nearest that has them, mean those of any.
    """

    begins: date | None
    ends: date | None
    yearly: bool = False

    def moved(self, years: int) -> Period:
        """The same days so many years later; 29 February has none in most years, and the period no day there."""
        return Period(_moved(self.begins, years), _moved(self.ends, years), self.yearly)


def _moved(day: date | None, years: int) -> date | None:
    if day is None or not date.min.year <= day.year + years <= date.max.year:
        return None
    leap_day = (day.month, day.day) == _LEAP_DAY and not isleap(day.year + years)
    return date(day.year + years, 3, 1) if leap_day else day.replace(year=day.year + years)


def periods(text: str, today: date) -> list[Period]:
    """The periods that a text names, in order; days that no calendar has are none.

    Args:
        text: A question, or a message; its first 2,000 letters are read.
        today: When it is asked or said.

    Example:
        >>> from datetime import date
        >>> [period] = periods("What did I do last month?", date(2025, 5, 1))
        >>> str(period.begins), str(period.ends)
        ('2025-04-01', '2025-05-01')
        >>> periods("May I march to the second gate?", date(2025, 5, 1)), periods("2月30日", date(2025, 5, 1))
        ([], [])
    """
    return split_periods(text, today)[0]


def split_periods(text: str, today: date) -> tuple[list[Period], str]:
    """The periods that a text names, and the text without them.

    Example:
        >>> from datetime import date
        >>> split_periods("What did we do last week?", date(2025, 5, 1))[1]
        'What did we do in the  ?'
    """
    text = text[:LONGEST].replace("’", "'")
    words = frozenset(_WORD.findall(text.lower()))
    # The patterns take longer than all else that is done with a text: most need none of them.
    if not words.isdisjoint(_SPOKEN):
        text = _P["SPOKEN"].sub(lambda match: _date_spoken(match, today), text)
        words |= {"this"} & frozenset(text.split())
    if not words.isdisjoint(_NEAR) or not (words.isdisjoint(_STEPS) or words.isdisjoint(_STEPPED)):
        text = dated(text, today)
    matches: list[_Match] = []
    if not text.isascii():
        text = dated_chinese(_P["CHINESE_SPOKEN"].sub(lambda match: _date_spoken_chinese(match, today), text), today)
        matches += _read(text, "CHINESE", _chinese, today)
    if not words.isdisjoint(_NAMES | _HOLIDAY_WORDS) or _A_YEAR.search(text):
        matches += _read(text, "ENGLISH", _english, today)
    matches.sort(key=attrgetter("place"))
    ends = [0, *(each.ends for each in matches)]
    begins = [*(each.place for each in matches), len(text)]
    pieces = (text[first:last] for first, last in zip(ends, begins, strict=True))
    return [each.period for each in matches], " ".join(map(_without_frame, pieces))


def _without_frame(text: str) -> str:
    """The text between two periods without the words that belong to them: "the first weekend of", 的第一个周末."""
    if part := _P["CHINESE_PART"].match(text):
        text = text[part.end() :]
    before = text[-_FRAME:]
    frames = [match.start() for name in ("PART", "WITHIN", "FEW", "LED") if (match := _P[name].search(before))]
    return text[: len(text) - len(before) + min(frames)] if frames else text


def _date_spoken(match: re.Match[str], today: date) -> str:
    """Dates for a holiday, "on Sunday", "a week ago" and "the past three days"."""
    if holiday := match["holiday"]:
        return _HOLIDAYS[holiday.lower()]
    if unit := match["unit"]:
        count = (match["count"] or "one").lower()
        days = _DAYS[unit.lower()] * (int(count) if count.isdecimal() else NUMBERS.get(count, _FEW))
        return _between(today, days, 0)
    if weeks := match["weeks"]:
        return _weeks_ago(today, int(weeks) if weeks.isdecimal() else NUMBERS[weeks.lower()])
    is_past = match["link"].lower() == "since" or _P["PAST"].search(match.string, *_sentence(match)) is not None
    if match["weekday"] is None:
        return f"{match['link']} this past weekend" if is_past else f"{match['link']} this weekend"
    return f"{match['link']} {_day_of_week(WEEKDAYS.index(match['weekday'].capitalize()), today, is_past=is_past)}"


def _date_spoken_chinese(match: re.Match[str], today: date) -> str:
    """The same in Chinese: 元旦, 周日, 过去三天."""
    if holiday := match["holiday"]:
        return _HOLIDAYS[holiday]
    if unit := match["unit"]:
        days = {"天": 1, "周": 7, "月": 30, "年": 365}.get(unit[-1], 7) * chinese_number(match["count"])
        return _between(today, days, 0)
    if weeks := match["weeks"]:
        return _weeks_ago(today, chinese_number(weeks))
    is_past = _P["CHINESE_PAST"].search(match.string, *_sentence(match)) is not None
    return _day_of_week(_CHINESE_WEEKDAYS.index(match["weekday"].replace("天", "日")), today, is_past=is_past)


def _sentence(match: re.Match[str]) -> tuple[int, int]:
    """Where the words around a match begin and end that decide whether it is past."""
    return max(0, match.start() - 60), match.end() + 60


def _day_of_week(number: int, today: date, *, is_past: bool) -> str:
    ahead = (number - today.weekday()) % 7
    return f"{today + timedelta(ahead - 7 if is_past else ahead)}"


def _weeks_ago(today: date, weeks: int) -> str:
    days = _DAYS["week"] * weeks
    return _between(today, days + _AROUND, days - _AROUND)


def _between(today: date, before: int, after: int) -> str:
    first = max(today.toordinal() - before, min(today, _FIRST).toordinal())
    return f" from {date.fromordinal(first)} to {today - timedelta(after)}"


def days_told(text: str, day: date) -> set[str]:
    """The dates that a text tells of, as marks that no word looks like: years and months, and few days.

    Example:
        >>> from datetime import date
        >>> sorted(days_told("I saw her yesterday", date(2025, 5, 1)))
        ['@2025', '@2025-04', '@2025-04-30']
    """
    marks: set[str] = set()
    for period in periods(text, day):
        moved = (each for each in map(period.moved, (0, -1, 1)) if each.begins != each.ends)
        closest = min(moved, key=lambda each: abs(((each.begins or each.ends or day) - day).days), default=period)
        nearest = closest if period.yearly else period
        if nearest.begins is not None and nearest.ends is not None:
            marks |= _marks(nearest.begins, nearest.ends)
    return marks


def _marks(begins: date, ends: date) -> set[str]:
    days = [begins + timedelta(number) for number in range(min((ends - begins).days, _MOST_DAYS))]
    if (ends - begins).days > _WEEK:
        months = {f"@{day:%Y-%m}" for day in days} if len(days) < _MOST_DAYS else set()
        return months | {f"@{year:04}" for year in {begins.year, (ends - timedelta(1)).year}}
    return {mark for day in days for mark in (f"@{day:%Y}", f"@{day:%Y-%m}", f"@{day}")}


def days_over(begins: date, ends: date, years: Sequence[int]) -> list[str]:
    """Marks of the days from *begins* to before *ends*, in some years before 9999, ascending.

    Example:
        >>> from datetime import date
        >>> days_over(date(2025, 4, 29), date(2025, 6, 1), [2024, 2025])
        ['@2025-04-29', '@2025-04-30', '@2025-05']
    """
    marks: list[str] = []
    for year in years[bisect_left(years, begins.year) : bisect_right(years, ends.year)]:
        first, after = date(year, 1, 1), date(year + 1, 1, 1)
        day, last = max(begins, first), min(ends, after)
        if (day, last) == (first, after):
            marks.append(f"@{year:04}")
            continue
        while day < last:
            whole = day.day == 1 and months_on(day, 1) <= last
            marks.append(f"@{day:%Y-%m}" if whole else f"@{day}")
            day = months_on(day, 1) if whole else day + timedelta(1)
    return marks


_Understood: TypeAlias = "Callable[[re.Match[str], str, str, date], Period | None]"


class _Match(NamedTuple):
    place: int
    ends: int
    period: Period
    ranged: bool  # whether it may be the beginning of a longer one


def _read(text: str, name: str, understood: _Understood, today: date) -> list[_Match]:
    """Each period; two that are joined ("from May to July") are one."""
    runs: list[_Match] = []
    for match in _P[name].finditer(text):
        before, after = text[max(0, match.start() - _FRAME) : match.start()], text[match.end() : match.end() + 12]
        try:
            period = understood(match, before, after, today)
        except (ValueError, OverflowError):  # no such day, or beyond the calendar
            period = None
        if period is None:
            continue
        begun = runs[-1] if runs and runs[-1].ranged else None
        if begun is not None and _P[f"{name}_JOIN"].fullmatch(text[begun.ends : match.start()]):
            runs[-1] = begun._replace(ends=match.end(), period=_joined(begun.period, period), ranged=False)
        else:
            ranged = understood is _chinese or _P["RANGE"].search(before) is not None
            runs.append(_Match(match.start(), match.end(), period, ranged))
    return runs


def _joined(first: Period, last: Period) -> Period:
    """From the beginning of one to the end of another, which has the year where only one is named."""
    if first.begins is None or last.begins is None:
        return last
    years = last.begins.year - first.begins.year
    if first.yearly != last.yearly:
        first, last = (first.moved(years), last) if first.yearly else (first, last.moved(-years))
    return Period(first.begins, last.ends, first.yearly and last.yearly)


def _english(match: re.Match[str], before: str, after: str, today: date) -> Period | None:
    groups, part = match.groupdict(), _P["PART"].search(before)
    led = _P["LED"].search(before) or part
    if (long := groups["long"]) and not (groups["y5"] or led or (long[:1].isupper() and _P["ALSO"].search(before))):
        return None
    if groups["y6"] and not (led or _P["ALSO"].search(before)):
        return None
    whole = _named(groups, today)
    if part is not None:
        place = _NTH[part["nth"].lower()] if part["nth"] else None
        whole = _part(whole, part["part"].partition(" ")[0].lower(), place, part["unit"])
    elif within := _P["WITHIN"].search(before):
        whole = _around(whole, within["unit"])
    elif within := _P["CHINESE_WITHIN"].match(after):
        whole, after = _around(whole, "weekend" if "末" in within[0] else "week"), after[within.end() :]
    if bound := _P["CHINESE_BOUND"].match(after):
        return _side(whole, bound)
    return _bounded(whole, before[: part.start()] if part else before)


def _named(groups: Mapping[str, str | None], today: date) -> Period:
    year = next((int(groups[name] or 0) for name in ("y1", "y2", "y3", "y4", "y5", "y6") if groups[name]), None)
    if groups["a"] and groups["b"]:
        first, second = int(groups["a"]), int(groups["b"])
        month, day = (first, second) if second > 12 else (second, first)  # noqa: PLR2004 - there is no thirteenth month
        return _of(today, year, month, day)
    if long := (groups["long"] or "").lower():
        return _of(today, year, _SEASONS[long], months=3) if long in _SEASONS else _of(today, year, month_of(long) or 0)
    if named := groups["m3"] or groups["m4"]:
        return _of(today, year, month_of(named) or 0, int(groups["d3"] or groups["d4"] or 0))
    return _of(today, year, int(groups["m1"] or 0), int(groups["d1"] or 0))


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


def _chinese(match: re.Match[str], _: str, after: str, today: date) -> Period | None:
    groups = match.groupdict()
    year = next((int(groups[name] or 0) for name in ("y2", "y3", "y4") if groups[name]), None)
    if groups["long"]:
        whole = _of(today, year, _SEASONS[groups["long"]], months=3)
    else:
        whole = _of(today, year, chinese_number(groups["m2"] or "0"), chinese_number(groups["d2"] or "0"))
    if part := _P["CHINESE_PART"].match(after):
        name = "early" if part["early"] else "mid" if part["mid"] else "late"
        unit = "weekend" if part["unit"] == "周末" else "week"
        whole, after = _part(whole, name, _NTH.get(part["nth"]), unit), after[part.end() :]
    bound = _P["CHINESE_BOUND"].match(after)
    return whole if bound is None else _side(whole, bound)


def _of(today: date, year: int | None, month: int = 0, day: int = 0, months: int = 1) -> Period:
    """A year, some months or a day; without a year this year's, or the nearest's that has it."""
    near = today.year
    if (month, day) == _LEAP_DAY:
        near = min(
            filter(isleap, range(near - _LEAP_YEARS, near + _LEAP_YEARS)), key=lambda leap: abs(leap - today.year)
        )
    begins = date(near if year is None else year, month or 1, day or 1)
    if day:
        return Period(begins, begins + timedelta(1), year is None)
    return Period(begins, months_on(begins, months if month else 12), year is None)


def _around(whole: Period, unit: str) -> Period:
    """The week, or the weekend of the week, in which a period begins."""
    if whole.begins is None:
        return whole
    first = monday(whole.begins)
    return replace(whole, begins=first + timedelta(5 if unit == "weekend" else 0), ends=first + timedelta(7))


def _part(whole: Period, name: str, place: int | None, unit: str | None) -> Period:
    """The beginning, middle or end of a period, or one of its weeks and weekends."""
    if whole.begins is None or whole.ends is None:
        return whole
    if place is not None:
        return _counted(whole, whole.begins, whole.ends, place, unit or "week")
    third = (whole.ends - whole.begins) / 3
    if name in {"late", "end"}:
        return replace(whole, begins=whole.begins + 2 * third)
    begins = whole.begins + (third if name in {"mid", "middle"} else timedelta())
    return replace(whole, begins=begins, ends=begins + third)


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
