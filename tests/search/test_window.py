"""The time that a question names: what was said in it, and what tells of it, comes first; bounds that a caller names cut."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_adapter import Memory
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.statements.periods import LONGEST, days_over, days_told, periods
from tests.cases import each

TODAY = date(2023, 9, 1)  # a Friday
NOW = "2023-09-01T10:00"
WALKS = [
    ("2022-05-14", "Walked along the river with Sam."),
    ("2023-01-28", "Walked over the frozen lake."),
    ("2023-05-06", "Walked through the old harbour."),
    ("2023-06-18", "Yesterday I walked up to the castle."),
    ("2023-08-24", "Walked in the rain, all alone."),
    ("2023-08-31", "Walked home from the cinema."),
]
ASKED = {
    "Where did I walk last week?": 4,
    "Where did I walk yesterday?": 5,
    "Where did I walk on the first weekend of May?": 2,
    "Where did I walk in May 2022?": 0,
    "Where did I walk at the beginning of this year?": 1,
    "Where did I walk on June 17th?": 3,
    "Where did I walk between March and May 2023?": 2,
    "Where did I walk before 2023?": 0,
}
CHINESE = [
    "和小李沿着河边散步。",
    "在结冰的湖上散步。",
    "散步经过老港口。",
    "昨天散步到城堡。",
    "一个人冒着雨散步。",
    "看完电影走路回家。",
]
ASKED_CHINESE = {
    "上周我在哪里散步？": 4,
    "2022年5月我在哪里散步？": 0,
    "今年一月我在哪里散步？": 1,
    "6月17号我在哪里散步？": 3,
    "2023年之前我在哪里散步？": 0,
    "五月的第一个周末我在哪里散步？": 2,
}


@pytest.fixture(scope="module")
def memory() -> Any:
    with Memory(":memory:") as memory:
        for (day, text), chinese in zip(WALKS, CHINESE, strict=True):
            memory.add(text, user_id="ann", timestamp=f"{day}T12:00", infer=False)
            memory.add(chinese, user_id="lin", timestamp=f"{day}T12:00", infer=False)
        yield memory


def first(memory: Memory, question: str, **how: Any) -> str:
    return memory.search(question, user_id="ann", **{"reference_date": NOW, **how})[0].text


@each(("question", "place"), ASKED.items())
def test_what_was_said_then_or_tells_of_it_comes_first(memory: Memory, question: str, place: int) -> None:
    assert first(memory, question) == WALKS[place][1]


@each(("question", "place"), ASKED_CHINESE.items())
def test_in_chinese_as_well(memory: Memory, question: str, place: int) -> None:
    assert memory.search(question, user_id="lin", reference_date=NOW)[0].text == CHINESE[place]


@pytest.mark.parametrize("question", ["What happened in May?", "What did we do in winter?", "4月28号我们聊了什么？"])
def test_where_nothing_is_left_to_be_found_a_time_finds_nothing(question: str) -> None:
    with Memory(":memory:") as memory:
        memory.add(["I bought a boat.", "I sold a car."], user_id="ben", infer=False)
        memory.add("We painted the fence in May.", user_id="ada", infer=False)
        memory.delete_all(user_id="ada")
        assert not memory.search(question, user_id="ada")
        assert not memory.search(question, user_id="ben", as_of="2010-01-01")


TIME_ALONE = {
    "What did we talk about last week?": [4],
    "What happened over the past three days?": [5],
    "What have we done since August 20?": [4, 5],
    "Summarise May 2022": [0],
    "What did I do in 1999?": [],
}


@each(("query", "places"), TIME_ALONE.items())
def test_threshold_auto_gives_a_query_for_a_time_alone_what_lies_in_it(
    memory: Memory, query: str, places: list[int]
) -> None:
    for budget in (None, 2_000):
        hits = memory.search(query, user_id="ann", reference_date=NOW, threshold="auto", max_tokens=budget)
        assert {hit.text for hit in hits} == {WALKS[place][1] for place in places}


@each(
    "query", ["write a poem about autumn", "Can you write a story about a Sunday in winter?", "帮我写一首关于秋天的诗"]
)
def test_a_season_or_a_day_in_a_request_is_no_window(query: str) -> None:
    with Memory(":memory:") as memory:
        memory.add(["I bought a boat.", "我买了一条船。"], user_id="ben", infer=False, timestamp="2026-10-04")
        hits = memory.search(query, user_id="ben", explain=True, reference_date="2026-10-07")
        assert not any(hit.explanation.parts.get("window") for hit in hits if hit.explanation)
        assert memory.search(query, user_id="ben", threshold="auto", max_tokens=20, reference_date="2026-10-07") == []


def test_the_reference_date_is_the_as_of_moment(memory: Memory) -> None:
    assert first(memory, "Where did I walk yesterday?", reference_date=None, as_of="2023-05-07T08:00") == WALKS[2][1]
    assert first(memory, "Where did I walk yesterday?", reference_date="2023-01-29", as_of=NOW) == WALKS[1][1]


def test_search_counts_yesterday_from_the_reference_date_and_takes_the_days_of_who_spoke(memory: Memory) -> None:
    memory.add("Nightly walk.", user_id="eve", timestamp="2023-08-31T00:30:00+08:00", infer=False)
    memory.add("Walk at noon.", user_id="eve", timestamp="2023-08-30T12:00:00+00:00", infer=False)
    asked = datetime(2023, 9, 1, 9, tzinfo=timezone(timedelta(hours=8)))
    assert memory.search("walk yesterday", user_id="eve", reference_date=asked)[0].text == "Nightly walk."
    assert memory.search("walk on August 30", user_id="eve", reference_date=asked)[0].text == "Walk at noon."


def test_after_and_before_cut_by_created_at(memory: Memory) -> None:
    for how in ({}, {"as_of": NOW}):
        found = memory.search("walk", user_id="ann", after="2023-05-06T12:00", before="2023-08-24T12:00", **how)  # type: ignore[arg-type]
        assert {hit.text for hit in found} == {WALKS[2][1], WALKS[3][1]}
    assert not memory.search("walk", user_id="ann", after="2030-01-01")


def test_a_date_as_after_or_before_is_a_day_of_who_spoke(memory: Memory) -> None:
    for text, time in (("Late walk.", "2023-04-30T23:30:00+00:00"), ("Early walk.", "2023-05-01T00:30:00+08:00")):
        memory.add(text, user_id="fay", timestamp=time, infer=False)
    day, there = date(2023, 5, 1), datetime(2023, 6, 1, tzinfo=timezone(timedelta(hours=8)))
    for reference in (None, date(2023, 6, 1), there):
        hits = memory.search("walk", user_id="fay", after=day, before=date(2023, 5, 2), reference_date=reference)
        assert [hit.text for hit in hits] == ["Early walk."]
    retriever = memory.as_retriever(user_id="fay", before=day)
    assert [each.page_content for each in retriever.invoke("walk")] == ["Late walk."]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"after": "soon"}, "after='soon' is no point in time"),
        ({"before": 5}, "before must be a datetime, a date or ISO 8601 text like 2026-05-01, not 5"),
        ({"before": "2023-02-30"}, "before='2023-02-30' is no point in time"),
        ({"after": "2023-05-02", "before": "2023-05-01"}, "nothing lies between after=2023-05-02"),
        ({"reference_date": "13月"}, "reference_date='13月' is no point in time"),
    ],
)
def test_a_bound_that_is_none_names_the_fix(memory: Memory, wrong: Any, reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        memory.search("walk", user_id="ann", **wrong)


def test_in_a_large_scope_the_few_of_a_day_are_found() -> None:
    said = [{"role": "user", "content": f"Chapter {number} of the novel is done."} for number in range(1_100)]
    with Memory(":memory:") as memory:
        memory.add(said, user_id="ann", timestamp="2023-05-02", infer=False)
        memory.add("I ate plums.", user_id="ann", timestamp="2023-05-04", infer=False)
        for query in ("5月4号我写了什么？", "What happened on May 4th?"):
            assert memory.search(query, user_id="ann")[0].text == "I ate plums."


PLAIN = [
    "Which book may I like?", "When did they march to the second house?", "Does June like April?", "Can you recommend 3 films?",
    "Did May call in 12 days?", "我一共有几只猫？", "你觉得我该学几个月英语？", "What did I buy for 2023 dollars?", "13月45号",
    "on February 30", "May I ask about the fall of the empire?", "in 0000", "", "每周六上课", "Is there anything on Sundays?",
    "附近三年级的学生", "a new year of school",
]  # fmt: skip
NAMED = {
    "last month": ("2023-08-01", "2023-09-01"),
    "on 15/10/2023": ("2023-10-15", "2023-10-16"),
    "in the second week of November": ("2023-11-08", "2023-11-15"),
    "the last weekend of October 2022": ("2022-10-29", "2022-10-31"),
    "in the week before 16 November 2023": ("2023-11-09", "2023-11-16"),
    "a few days ago": ("2023-08-25", "2023-09-01"),
    "in mid-June": ("2023-06-11", "2023-06-21"),
    "since May 2021": ("2021-05-01", None),
    "from May to July 2022": ("2022-05-01", "2022-08-01"),
    "在2022年5月初": ("2022-05-01", "2022-05-11"),
    "去年十一月": ("2022-11-01", "2022-12-01"),
    "2023年2月之前": (None, "2023-02-01"),
    "三个星期前": ("2023-08-08", "2023-08-15"),
    "What did I do on Sunday?": ("2023-08-27", "2023-08-28"),
    "What is planned on Sunday?": ("2023-09-03", "2023-09-04"),
    "What will we do on Sunday?": ("2023-09-03", "2023-09-04"),
    "since Monday": ("2023-08-28", None),
    "a week ago": ("2023-08-22", "2023-08-29"),
    "two weeks ago": ("2023-08-15", "2023-08-22"),
    "over the past three days": ("2023-08-29", "2023-09-02"),
    "in the last 2 weeks": ("2023-08-18", "2023-09-02"),
    "earlier this week": ("2023-08-28", "2023-09-04"),
    "What did we eat over the weekend?": ("2023-08-26", "2023-08-28"),
    "on New Year’s Eve": ("2023-12-31", "2024-01-01"),
    "on New Year's Eve 2021": ("2021-12-31", "2022-01-01"),
    "at Christmas": ("2023-12-25", "2023-12-26"),
    "over the past 999 years": ("1900-01-01", "2023-09-02"),
    "周日我们去了哪里？": ("2023-08-27", "2023-08-28"),
    "周日我们去哪里？": ("2023-09-03", "2023-09-04"),
    "过去三天": ("2023-08-29", "2023-09-02"),
    "最近两周": ("2023-08-18", "2023-09-02"),
    "元旦": ("2023-01-01", "2023-01-02"),
    "五月的第一个周末": ("2023-05-06", "2023-05-08"),
    "2022年3月到5月": ("2022-03-01", "2022-06-01"),
    "2021年夏天": ("2021-06-01", "2021-09-01"),
}


@each("text", PLAIN)
def test_plain_words_are_no_periods(text: str) -> None:
    assert periods(text, TODAY) == []


@each(("text", "days"), NAMED.items())
def test_periods_are_read(text: str, days: tuple[str | None, str | None]) -> None:
    [period] = periods(text, TODAY)
    assert (period.begins and str(period.begins), period.ends and str(period.ends)) == days


@settings(max_examples=150, deadline=None)
@given(st.dates(max_value=date(9990, 1, 1)), st.integers(1, 800))
def test_a_day_that_is_told_lies_in_every_window_around_it(day: date, length: int) -> None:
    over = days_over(day, day + timedelta(length), range(day.year, day.year + 4))
    read = 1900 <= day.year < 2100  # the years that are taken for years
    assert days_told(f"It was on {day}.", day).isdisjoint(over) != read


@each(("text", "said"), {"on February 29": date(2024, 2, 29), "2月29日": date(2024, 2, 29)}.items())
def test_a_day_of_leap_years_is_found_from_any_year(text: str, said: date) -> None:
    with Memory(":memory:") as memory:
        for day, what in ((said - timedelta(1), "eve"), (said, "leap"), (said.replace(year=2023, day=28), "plain")):
            memory.add(f"I called it {what}.", user_id="ann", timestamp=str(day), infer=False)
        for year in range(2022, 2030):
            hits = memory.search(f"What did I do {text}?", user_id="ann", k=1, reference_date=f"{year}-05-01")
            assert hits[0].text == "I called it leap."
            assert f"@{said.year}-02-29" in days_told(text, said) and days_told(text, date(year, 5, 1))


def test_a_time_named_often_is_one_and_of_many_the_first_count() -> None:
    with Memory(":memory:") as memory:
        noted = [(f"Note {year}.", f"{year}-06-01") for year in range(1100, 2000, 4)]  # years that no one lives
        noted += [("Note of rain.", "1503-05-09"), ("Note that I was born in May 1950.", "1951-06-01")]
        memory.add_many([{"messages": text, "user_id": "ann", "infer": False, "timestamp": day} for text, day in noted])

        def lifted(question: str) -> set[str]:
            hits = memory.search(question, user_id="ann", k=1000, explain=True)
            return {hit.text for hit in hits if hit.explanation and hit.explanation.parts.get("window")}

        in_may = {"Note of rain.", "Note that I was born in May 1950."}
        assert lifted("note in May") == lifted("note " + "in May " * 250) == lifted("note" + "5月" * 900) == in_may
        years = "".join(f"in {year} " for year in range(1900, 1996, 4))
        assert lifted(f"note {years}") == {f"Note {year}." for year in range(1900, 1980, 4)}


def test_of_a_huge_text_the_beginning_is_read() -> None:
    assert days_told(f"{'Tea. ' * LONGEST}1 May 2023", TODAY) == set()
    assert days_told("1 May 2023, " * LONGEST, TODAY) == {"@2023", "@2023-05", "@2023-05-01"}


@settings(max_examples=80, deadline=None)
@given(
    st.text(st.sampled_from("0123456789-/ 年月日号前上周末第一个May of before and the last week end"), max_size=60),
    st.dates(),
)
def test_no_text_and_no_clock_breaks_it(text: str, today: date) -> None:
    for period in periods(text, today):
        assert period.begins is not None or period.ends is not None


def test_a_wrong_clock_does_no_harm() -> None:
    with Memory(":memory:") as memory:
        for moment in (
            datetime(1, 1, 1, tzinfo=UTC),
            datetime(9999, 12, 31, tzinfo=UTC),
            datetime(2023, 5, 4, tzinfo=UTC),
        ):
            memory.add(f"It is {moment.year}.", user_id="ann", timestamp=moment, infer=False)
        assert memory.search("What was it in May?", user_id="ann")[0].text == "It is 2023."
        for moment in (datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, tzinfo=UTC)):
            assert len(memory.search("last week, before May, in December", user_id="ann", reference_date=moment)) == 3
