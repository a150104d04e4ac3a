"""Dates in short English and Chinese statements."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

from langmem_adapter.statements.tables import patterns, verb_form

MONTHS: Final = tuple("January February March April May June July August September October November December".split())
MONTH_NAMES: Final = "|".join((*MONTHS, *(month[:3] for month in MONTHS), "Sept"))
"""What months are called, cut to three letters or not, as alternatives of a pattern."""
SEASONS: Final = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
"""Seasons with the month that they begin in."""
WEEKDAYS: Final = tuple("Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split())
NUMBERS: Final = (
    {
        word: n
        for n, word in enumerate(
            "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
            " eighteen nineteen".split()
        )
    }
    | {"a": 1, "an": 1}
    | {word: 10 * n for n, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), 2)}
)
TIME_WORDS: Final = frozenset(
    f"{' '.join(MONTHS)} {' '.join(WEEKDAYS)} today tomorrow tonight yesterday weekend morning afternoon evening night noon"
    " christmas easter".lower().split()
)
"""Words of time: never a person's name, and no head of a compound noun."""

SHORT_DAYS: Final = {day[:length].lower(): day for day in WEEKDAYS for length in (3, 4, 5, 9)}
"""The days of the week, by their names and what these are cut to."""
_NAMES: Final = {"MONTHS": MONTHS, "WEEKDAYS": WEEKDAYS, "DAYS": (*WEEKDAYS, *MONTHS, *SHORT_DAYS)}
_P: Final = patterns("times", {name: "|".join(words) for name, words in _NAMES.items()} | {"MONTH_NAMES": MONTH_NAMES})
_MONTH: Final = re.compile(rf"\b(?:{MONTH_NAMES})\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class StatedSpan:
    """When something holds, as far as a statement says so.

    Attributes:
        since: From when on.
        until: Until when.
        at: The date of a single event, "in 2019".
        lasting: Whether it says that it lasts: "since 2019", "for five years".
        partly: Whether it is said of some times only: "every Sunday", "at night".
    """

    since: datetime | None = None
    until: datetime | None = None
    at: datetime | None = None
    lasting: bool = False
    partly: bool = False

    def bounds(self, *, over: bool, begins: bool) -> tuple[datetime | None, datetime | None]:
        """From when until when something holds that is *over*, or that *begins* at the date."""
        if over and self.since and not self.until:
            return None, self.since
        since, until = self.since or (self.at if begins else None), self.until or (self.at if over else None)
        return (None, None) if since and until and until <= since else (since, until)


def timed(text: str) -> tuple[str, StatedSpan] | None:
    """A statement without the times at its end, and those times; `None` where they lie ahead.

    Example:
        >>> timed("Plays chess every Sunday since 2019")
        ('Plays chess', StatedSpan(since=datetime.datetime(2019, 1, 1, 0, 0, ...), ..., lasting=True, partly=True))
        >>> timed("Moves to Rome next week") is None
        True
    """
    times: dict[str, datetime | None] = {}
    lasting = partly = False
    while _P["LAST_WORD"].fullmatch(text, _word(text, 1)) and (match := _P["CLOSING"].search(text, _word(text, 8))):
        if match["ahead"]:
            return None
        dates = {name: day(match[name]) for name in ("since", "begin", "end", "until", "at") if match[name]}
        times = {**dates, **times}
        lasting, partly = lasting or bool(match["goes"]), partly or bool(match["partly"])
        text = text[: match.start()].rstrip(" ,")
    since, until = times.get("since") or times.get("begin"), times.get("until") or times.get("end")
    return text, StatedSpan(since, until, times.get("at"), lasting, partly)


def _word(text: str, number: int) -> int:
    """The place of the blank before one of the last words."""
    before, *last = text.rsplit(" ", number)
    return len(before) if len(last) == number else 0


def day(text: str) -> datetime | None:
    """The first moment of a year, month or day, in UTC."""
    if iso := re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)", text):
        return moment(int(iso[1]), int(iso[2]), int(iso[3]))
    year = _P["YEAR"].search(text)
    if year is None:
        return None
    rest = (text[: year.start()] + text[year.end() :]).lower()
    number = re.search(r"\d{1,2}", rest)
    return moment(int(year[0]), month_of(rest) or 1, int(number[0]) if number else 1)


def moment(year: int, month: int, number: int) -> datetime | None:
    """The first moment of a day, in UTC; none where the calendar has no such day."""
    try:
        return datetime(year, month, number, tzinfo=UTC)
    except ValueError:  # 30 February: said, but no date
        return None


def month_of(text: str) -> int | None:
    """The number of the first month that a text names."""
    match = _MONTH.search(text)
    return match and next(number for number, month in enumerate(MONTHS, 1) if month.startswith(match[0][:3].title()))


def months_on(day: date, count: int) -> date:
    """The first day of the month so many months after a day's."""
    years, month = divmod(day.year * 12 + day.month - 1 + count, 12)
    return date(years, month + 1, 1)


def monday(day: date) -> date:
    """That of a day's week."""
    return day - timedelta(day.weekday())


def is_date(text: str) -> bool:
    """Whether a text is a day, with or without its year, or a year."""
    return _P["DAY_OF_YEAR"].fullmatch(text) is not None and any(map(str.isdigit, text))


_DAYS: Final = {
    "the day before yesterday": -2, "yesterday": -1, "last night": -1, "today": 0, "tonight": 0, "tomorrow": 1,
    "the day after tomorrow": 2,
}  # fmt: skip


def dated(text: str, today: date) -> str:
    """Put dates for "tomorrow", "last week" and their like, since a memory is read on other days than it was written.

    Example:
        >>> from datetime import date
        >>> dated("Flying to Rome tomorrow", date(2025, 5, 1)), dated("Moved to Oslo last month", date(2025, 5, 1))
        ('Flying to Rome on 2025-05-02', 'Moved to Oslo in April 2025')
    """
    is_past = verb_form(text.partition(" ")[0])[1] == "past"
    text = (
        _P["ON_DAY"].sub(rf"{'last' if is_past else 'this'} \1", text)
        if is_past or _P["AHEAD_VERB"].match(text)
        else text
    )
    try:
        return _P["RELATIVE"].sub(lambda match: _put(match, today), text)
    except (OverflowError, ValueError):  # the calendar ends there; the words stay as they were said
        return text


def _put(match: re.Match[str], today: date) -> str:
    if match["day"] or match["now"]:
        word = (match["day"] or "").lower()
        part = match["now"] or match["part"] or {"tonight": "evening", "last night": "night"}.get(word, "")
        then = today + timedelta(days=_DAYS.get(word, 0))
        link, when = "on", f"the {part.lower()} of {then.isoformat()}" if part else then.isoformat()
    elif match["count"]:
        link, when = _ago(match["count"].lower(), match["units"].lower(), today)
    else:
        link, when = _unit(match["way"].lower().split()[-1], match["unit"].lower(), today)
    return f"{match['before'] or (link and f'{link} ')}{when}"


def _ago(count: str, unit: str, today: date) -> tuple[str, str]:
    number = int(count) if count.isdecimal() else NUMBERS.get(count)
    if number is None:
        before = today.isoformat() if unit in {"day", "week"} else _of_month(today, 0)
        return "", f"{count} {unit}s before {today.year if unit == 'year' else before}"
    if unit == "day":
        return "on", (today - timedelta(days=number)).isoformat()
    if unit == "week":
        return "in", _week(today - timedelta(weeks=number))
    if unit == "month":
        return "in", _of_month(today, -number)
    return "in", str(today.year - number)


def _unit(way: str, unit: str, today: date) -> tuple[str, str]:
    step = {"last": -1, "past": -1, "next": 1, "coming": 1}.get(way, 0)
    if unit == "weekend":
        return "on", f"the weekend of {_saturday(today, way).isoformat()}"
    week = _week(today + timedelta(weeks=step))
    whole = {"week": week, "month": _of_month(today, step), "year": str(today.year + step)}
    return ("in", whole[unit]) if unit in whole else _named(step, SHORT_DAYS.get(unit, unit).capitalize(), today)


def _named(step: int, name: str, today: date) -> tuple[str, str]:
    """A weekday, a month or a season, before or after today."""
    if name in WEEKDAYS:
        ahead = (WEEKDAYS.index(name) - today.weekday()) % 7
        return "on", (today + timedelta(days=ahead - 7 if step < 0 else ahead or 7 * step)).isoformat()
    begins = SEASONS.get(name.lower()) or MONTHS.index(name) + 1
    ends = begins + (1 if name in MONTHS else 3)
    late = (step < 0 and today.month < ends) or (step > 0 and today.month >= begins)
    return "in", f"{name if name in MONTHS else name.lower()} {today.year + (step if late else 0)}"


def _saturday(today: date, way: str) -> date:
    this = today + timedelta(days=(5 - today.weekday()) if today.weekday() < 6 else -1)  # noqa: PLR2004 - a Sunday's is yesterday
    return this + timedelta(weeks={"last": -1, "past": 0 if this <= today else -1, "next": 1}.get(way, 0))


def _week(within: date) -> str:
    return f"the week of {monday(within).isoformat()}"


def _of_month(today: date, count: int) -> str:
    month = months_on(today, count)
    return f"{MONTHS[month.month - 1]} {month.year}"


_DIGITS: Final = {"两": 2} | {digit: number for number, digit in enumerate("零一二三四五六七八九")}
_WEEKDAYS: Final = "一二三四五六日"
_CHINESE_DAYS: Final = {"大前": -3, "前": -2, "昨": -1, "今": 0, "明": 1, "后": 2, "大后": 3}
_YEARS: Final = {"前": -2, "去": -1, "今": 0, "明": 1, "后": 2}
_STEPS: Final = {"上上": -2, "上": -1, "这": 0, "本": 0, "下": 1, "下下": 2}
_CHINESE: Final = patterns("chinese-dates", {}, flags=0)
WHEN: Final = _CHINESE.texts["WHEN"]
"""A time with which a clause opens."""


def chinese_number(text: str) -> int:
    """The number that Chinese or western digits write, up to 999."""
    if text.isdecimal():
        return int(text)
    total, last = 0, 0
    for sign in text:
        unit = {"百": 100, "十": 10}.get(sign)
        total, last = (total + (last or 1) * unit, 0) if unit else (total, _DIGITS.get(sign, 0))
    return total + last


def dated_chinese(text: str, today: date) -> str:
    """Put dates for times that count from today, since a memory is read on other days than it was written.

    Example:
        >>> from datetime import date
        >>> dated_chinese("上周五搬到了南京", date(2025, 5, 1)), dated_chinese("去年三月结婚了", date(2025, 5, 1))
        ('2025-04-25搬到了南京', '2024年3月结婚了')
    """

    def put(match: re.Match[str]) -> str:
        try:
            return _date_chinese(match, today)
        except (ValueError, OverflowError):  # no such day, or beyond the calendar: as it was said
            return match.group()

    return _CHINESE["RELATIVE"].sub(put, text)


def _date_chinese(match: re.Match[str], today: date) -> str:
    if near := match["day"] or match["part"]:
        part = {"晚": "晚上", "早": "早上"}.get((match["time"] or "")[:1], "")
        return f"{today + timedelta(_CHINESE_DAYS[near])}{part}"
    if match["week"]:
        return _chinese_week(today + timedelta(7 * _STEPS[match["week"]]), match["weekday"])
    if match["month"]:
        return _month(today, _STEPS[match["month"]], match["of"])
    if match["year"]:
        return _year(today.year + _YEARS[match["year"]], match["in"], match["on"])
    return (
        _month(today, -6, None) if match["half"] else _chinese_ago(today, chinese_number(match["count"]), match["unit"])
    )


def _chinese_week(somewhen: date, weekday: str | None) -> str:
    first = monday(somewhen)
    if weekday == "末":
        return f"{first + timedelta(5)}那个周末"
    day = _WEEKDAYS.index(weekday.replace("天", "日")) if weekday else 0
    return f"{first + timedelta(day)}" if weekday else f"{first}那周"


def _month(today: date, steps: int, day: str | None) -> str:
    month = months_on(today, steps)
    return str(month.replace(day=chinese_number(day))) if day else f"{month.year}年{month.month}月"


def _year(year: int, month: str | None, day: str | None) -> str:
    if day and month:
        return str(date(year, chinese_number(month), chinese_number(day)))
    return f"{year}年{chinese_number(month)}月" if month else f"{year}年"


def _chinese_ago(today: date, count: int, unit: str) -> str:
    if unit == "天":
        return str(today - timedelta(count))
    if unit == "年":
        return f"{today.year - count}年"
    return _month(today, -count, None) if unit.endswith("月") else _chinese_week(today - timedelta(7 * count), None)


def chinese_span(text: str) -> tuple[str, StatedSpan]:
    """A statement without its dates, and these."""
    dates: dict[str, datetime | None] = {}
    for name in ("FROM_TO", "SINCE", "AT"):
        if match := _CHINESE[name].search(text):
            dates |= {key: _day(value) for key, value in match.groupdict().items() if value}
            text = text[: match.start()] + text[match.end() :]
    return text, StatedSpan(dates.get("since") or dates.get("then"), dates.get("until"), dates.get("at"))


def _day(text: str) -> datetime | None:
    return moment(*(*map(int, re.findall(r"\d+", text)), 1, 1)[:3])
