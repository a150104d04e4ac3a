"""Times in Chinese: 上周五 and 三年前 become dates, and a statement's own dates say since when it holds."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import Final

from langmem_adapter.statements.dates import StatedSpan, moment, monday, months_on
from langmem_adapter.statements.tables import patterns

__all__ = ["WHEN", "chinese_number", "chinese_span", "dated_chinese"]

_DIGITS: Final = {"两": 2} | {digit: number for number, digit in enumerate("零一二三四五六七八九")}
_WEEKDAYS: Final = "一二三四五六日"
_DAYS: Final = {"大前": -3, "前": -2, "昨": -1, "今": 0, "明": 1, "后": 2, "大后": 3}
_YEARS: Final = {"前": -2, "去": -1, "今": 0, "明": 1, "后": 2}
_STEPS: Final = {"上上": -2, "上": -1, "这": 0, "本": 0, "下": 1, "下下": 2}
_P: Final = patterns("chinese-dates", {}, flags=0)
WHEN: Final = _P.texts["WHEN"]
"""A time with which a clause opens."""


def chinese_number(text: str) -> int:
    """The number that Chinese or western digits write, up to 999.

    Example:
        >>> chinese_number("二十九"), chinese_number("30"), chinese_number("十")
        (29, 30, 10)
    """
    if text.isdecimal():
        return int(text)
    total, last = 0, 0
    for sign in text:
        unit = {"百": 100, "十": 10}.get(sign)
        total, last = (total + (last or 1) * unit, 0) if unit else (total, _DIGITS.get(sign, 0))
    return total + last


def dated_chinese(text: str, today: date) -> str:
    """Put dates for times that are told from today, since a memory is read on other days than it was written.

    Example:
        >>> from datetime import date
        >>> dated_chinese("上周五搬到了南京", date(2025, 5, 1)), dated_chinese("去年三月结婚了", date(2025, 5, 1))
        ('2025-04-25搬到了南京', '2024年3月结婚了')
    """

    def put(found: re.Match[str]) -> str:
        try:
            return _told(found, today)
        except (ValueError, OverflowError):  # no such day, or beyond the calendar: as it was said
            return found.group()

    return _P["RELATIVE"].sub(put, text)


def _told(found: re.Match[str], today: date) -> str:
    if near := found["day"] or found["part"]:
        part = {"晚": "晚上", "早": "早上"}.get((found["time"] or "")[:1], "")
        return f"{today + timedelta(_DAYS[near])}{part}"
    if found["week"]:
        return _week(today + timedelta(7 * _STEPS[found["week"]]), found["weekday"])
    if found["month"]:
        return _month(today, _STEPS[found["month"]], found["of"])
    if found["year"]:
        return _year(today.year + _YEARS[found["year"]], found["in"], found["on"])
    return _month(today, -6, None) if found["half"] else _ago(today, chinese_number(found["count"]), found["unit"])


def _week(somewhen: date, weekday: str | None) -> str:
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


def _ago(today: date, count: int, unit: str) -> str:
    if unit == "天":
        return str(today - timedelta(count))
    if unit == "年":
        return f"{today.year - count}年"
    return _month(today, -count, None) if unit.endswith("月") else _week(today - timedelta(7 * count), None)


def chinese_span(text: str) -> tuple[str, StatedSpan]:
    """A statement without its dates, and these.

    Example:
        >>> told, span = chinese_span("自2019年住在杭州")
        >>> told, span.since.year
        ('住在杭州', 2019)
    """
    dates: dict[str, datetime | None] = {}
    for name in ("FROM_TO", "SINCE", "AT"):
        if found := _P[name].search(text):
            dates |= {key: _day(value) for key, value in found.groupdict().items() if value}
            text = text[: found.start()] + text[found.end() :]
    return text, StatedSpan(dates.get("since") or dates.get("then"), dates.get("until"), dates.get("at"))


def _day(text: str) -> datetime | None:
    return moment(*(*map(int, re.findall(r"\d+", text)), 1, 1)[:3])
