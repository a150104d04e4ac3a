from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from langmem_adapter.storage.graph.rows import Span

DAYS: Final = range(-1, 7)  # the first and the last stand for all that is earlier and later


def date(day: int) -> datetime:
    return datetime(2020, 1, 1, tzinfo=UTC) + timedelta(days=day)


def span(start: int | None, end: int | None) -> Span:
    return Span(None if start is None else date(start), None if end is None else date(end))


def days(of: Span) -> set[int]:
    """The days that lie in it."""
    return {day for day in DAYS if of.begins <= _moment(day) < of.ends}


def _moment(day: int) -> datetime:
    return {DAYS[0]: date(-5000), DAYS[-1]: date(5000)}.get(day, date(day))


ENDS = st.none() | st.integers(0, 6)
SPANS = st.builds(span, ENDS, ENDS).filter(lambda each: each.begins < each.ends)
OTHERS = st.lists(SPANS, max_size=3).filter(
    lambda spans: not any(one.overlaps(other) for place, one in enumerate(spans) for other in spans[:place])
)


@given(one=SPANS, other=SPANS)
def test_span_overlaps_meets_and_joins_as_its_days(one: Span, other: Span) -> None:
    assert one.overlaps(other) == other.overlaps(one) == bool(days(one) & days(other))
    near = {day + step for day in days(one) for step in (-1, 0, 1)}
    assert one.meets(other) == other.meets(one) == bool(near & days(other))
    parts = one.without(other)
    assert [day for part in parts for day in sorted(days(part))] == sorted(days(one) - days(other))
    assert not any(part.begins >= part.ends for part in parts)
    assert len(parts) < 2 or not parts[0].meets(parts[1])
    if one.meets(other):
        assert days(one.joined(other)) == days(one) | days(other) == days(other.joined(one))


@given(one=SPANS, day=st.integers(0, 6))
def test_span_until_and_since_a_moment(one: Span, day: int) -> None:
    before, after = one.until(date(day)), one.since(date(day))
    assert days(before) == {each for each in days(one) if each < day}
    assert days(after) == {each for each in days(one) if each >= day}


def test_span_without_a_moment_overlaps_nothing() -> None:
    nothing = span(3, 3)
    assert nothing.begins >= nothing.ends
    assert not nothing.overlaps(span(0, 6))
    assert span(0, 6).without(nothing) == (span(0, 6),)


@given(one=SPANS, others=OTHERS, at_start=st.booleans(), at_end=st.booleans())
def test_span_giving_way_keeps_stated_ends(one: Span, others: list[Span], *, at_start: bool, at_end: bool) -> None:
    left = one.giving_way(others, at_start=at_start, at_end=at_end)
    taken = {day for other in others for day in days(other)}
    if left is None:
        assert at_start and at_end and days(one) <= taken
        return
    assert days(left) and days(left) <= days(one)
    if not at_start:
        assert left.start == one.start
    if not at_end:
        assert left.end == one.end
    if at_start and at_end:
        assert not days(left) & taken
        assert max(days(left)) == max(days(one) - taken)
    elif at_end:  # it stops before the first that begins within it
        assert not any(left.begins < other.begins < left.ends for other in others)
    elif at_start:
        assert not any(left.begins < other.ends < left.ends for other in others)
    else:
        assert left == one
