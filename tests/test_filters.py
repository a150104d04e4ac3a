"""The filter language: what each operator says of each kind of value, and what is no filter."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_adapter.errors import FilterError
from langmem_adapter.filters import EVERYTHING, FIELDS, Condition, filter_values, parse_filter, parse_moment
from langmem_adapter.records.results import MemoryItem
from langmem_adapter.records.scope import Scope
from tests.cases import each
from tests.filter_language import JSON, OPERATORS, VALUES, dollars, filters, holds

NEW_YEAR = datetime(2024, 1, 1, tzinfo=UTC)
MISSING: Any = object()
SAMPLES: dict[str, Any] = {
    "missing": MISSING,
    "null": None,
    "true": True,
    "one": 1,
    "float": 1.0,
    "two": 2,
    "text": "ab",
    "digit": "1",
    "list": ["ab", 1],
    "object": {"a": 1},
    "date": "2024-01-01",
    "later": "2024-01-01T02:00:00+01:00",
    "time": NEW_YEAR,
}

# Names of the samples that each condition holds for; all others it does not hold for.
TABLE: list[tuple[Any, str]] = [
    ({"eq": 1}, "one float list"),
    ({"eq": 1.0}, "one float list"),
    ({"eq": True}, "true"),
    ({"eq": None}, "missing null"),
    ({"eq": "ab"}, "text list"),
    ({"eq": "1"}, "digit"),
    ({"eq": ["ab", 1.0]}, "list"),
    ({"eq": ["ab", True]}, ""),
    ({"eq": {"a": 1}}, "object"),
    ({"eq": "2024-01-01"}, "date time"),
    ({"eq": "2024-01-01T00:00:00Z"}, "time"),
    ({"eq": NEW_YEAR}, "date time"),
    ({"eq": date(2024, 1, 1)}, "date time"),
    ({"ne": 1}, "missing null true two text digit object date later time"),
    ({"ne": None}, "true one float two text digit list object date later time"),
    ({"gt": 1}, "two"),
    ({"gte": 1}, "one float two"),
    ({"lt": 2}, "one float"),
    ({"lte": 1.5}, "one float"),
    ({"gt": "a"}, "text"),
    ({"lt": "b"}, "text digit date later"),
    ({"gt": "2024-01-01"}, "later text"),
    ({"gte": "2024-01-01T00:00:00Z"}, "date later time text"),
    ({"gt": NEW_YEAR}, "later"),
    ({"gte": NEW_YEAR}, "date later time"),
    ({"lt": "2024-01-01T00:30:00"}, "date time digit"),
    ({"in": [1, "ab"]}, "one float text list"),
    ({"in": [True, None]}, "missing null true"),
    ({"in": [["ab", 1]]}, "list"),
    ({"in": []}, ""),
    ({"nin": []}, " ".join(SAMPLES)),
    ({"nin": [1, "ab", None]}, "true two digit object date later time"),
    ({"contains": "b"}, "text"),
    ({"contains": "B"}, ""),
    ({"contains": 1}, "list"),
    ({"contains": "ab"}, "text list"),
    ({"contains": True}, ""),
    ({"contains": ""}, "text digit date later"),
    ({"icontains": "B"}, "text"),
    ({"icontains": "AB"}, "text list"),
    ({"exists": True}, "true one float two text digit list object date later time"),
    ({"exists": False}, "missing null"),
    ("*", "true one float two text digit list object date later time"),
    ({"eq": "*"}, ""),
    (None, "missing null"),
    ("ab", "text list"),
    (1, "one float list"),
    (True, "true"),
    (["ab", 1], "one float text list"),
    ({"a": 1}, "object"),
    ({"a": {"gt": 0}}, "object"),
    ({"a": 2}, ""),
    ({}, "object"),
    ({"gte": 1, "lt": 2}, "one float"),
    ({"OR": [{"a": 1}, {"b": 1}]}, "object"),
]


@each(("condition", "names"), TABLE)
def test_a_condition_holds_for_these_values_and_no_others(condition: Any, names: str) -> None:
    for wanted in ({"key": condition}, dollars({"key": condition})):
        found = [
            name
            for name, value in SAMPLES.items()
            if parse_filter(wanted).matches({} if value is MISSING else {"key": value, "other": 1})
        ]
        assert sorted(found) == sorted(names.split())


@each(
    ("wanted", "values", "expected"),
    [
        ({"a.b": 1}, {"a": {"b": 1}}, True),
        ({"a.b": 1}, {"a.b": 2, "a": {"b": 1}}, False),
        ({"a.b.c": 1}, {"a": {"b": {"c": 1}}}, True),
        ({"a.b.c": 1}, {"a": {"b.c": 1}}, True),
        ({"a.b": None}, {"a": 3}, True),
        ({"a.": 1}, {"a": {"": 1}}, True),
        ({".": 1}, {"": {"": 1}}, True),
        ({"a": {"b.c": 1}}, {"a": {"b": {"c": 1}}}, True),
        ({"a.gtee": 1}, {"a": {"gtee": 1}}, True),
        ({"a.range": 1}, {"a": {"range": 1}}, True),
        ({"a": {"eq": {"gtee": 1}}}, {"a": {"gtee": 1}}, True),
        ({"a": "x"}, {"a": [["x"]]}, False),
        ({"a": {"b": "x"}}, {"a": {"b": ["x", "y"]}}, True),
        ({"a": {"eq": {"b": 1}}}, {"a": [{"b": 1}, 2]}, True),
        ({"a": ["x", "z"]}, {"a": ["x", "y"]}, True),
        ({"a": {"nin": ["x", "z"]}}, {"a": ["x", "y"]}, False),
        ({"text.lang": "no"}, {"text": "x", "text.lang": "no"}, True),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, True),
        ({"a": {"eq": {"b": 1}}}, {"a": {"b": 1, "c": 2}}, False),
        ({"a": {"gt": 1, "lt": 3}}, {"a": 3}, False),
        ({"tags": {"contains": {"a": 1.0}}}, {"tags": [{"a": 1}]}, True),
        ({"name": {"icontains": "STRASSE"}}, {"name": "Hauptstraße 1"}, True),
        ({"n": {"gt": 10**400}}, {"n": 1.5}, False),
    ],
)
def test_paths_and_objects(wanted: dict[str, Any], values: dict[str, Any], expected: bool) -> None:  # noqa: FBT001
    assert parse_filter(wanted).matches(values) is expected


ADULT, OSLO = {"age": {"gte": 18}}, {"city": "Oslo"}


def _deep(levels: int) -> dict[str, Any]:
    wanted: dict[str, Any] = {"a": 1}
    for _ in range(levels):
        wanted = {"NOT": wanted}
    return wanted


def _object(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


ITSELF: list[Any] = []
ITSELF.append(ITSELF)


@each(
    ("wanted", "named"),
    [
        ([1], "mapping"),
        ("topic", "mapping"),
        ({1: 2}, "text, not int"),
        ({None: 2}, "text, not None"),
        ({"a": {1: 2}}, "text, not int"),
        ({"a\x00": 1}, "NUL"),
        ({"a": "\x00"}, "NUL"),
        ({"a": "\ud800"}, "surrogate"),
        ({"a": {"eq": {"\x00": 1}}}, "NUL"),
        ({"a": {"$gtt": 1}}, r"did you mean '\$gt'"),
        ({"a": {"$not_in": [1]}}, r"did you mean '\$nin'"),
        ({"a": {"$GT": 1}}, r"did you mean '\$gt'"),
        ({"a": {"gte": 1, "less": 2}}, "'less' is no operator"),
        ({"a": {"gtee": 3}}, "did you mean 'gte'.*a key of that name is 'a.gtee'"),
        ({"a": {"b": {"GTE": 3}}}, "did you mean 'gte'"),
        ({"a": {"greater_than": 3}}, "did you mean 'gt'"),
        ({"a": {"greaterThanOrEqual": 3, "b": 1}}, "did you mean 'gte'"),
        ({"a": {">=": 3}}, "did you mean 'gte'"),
        ({"a": {"not_equal": 3}}, "did you mean 'ne'"),
        ({"a": {"ge": 3}}, "did you mean 'gte'.*a key of that name is 'a.ge'"),
        ({"a": {"le": 3}}, "did you mean 'lte'"),
        ({"a": {"range": [3, 5]}}, "did you mean 'gte'"),
        ({"a": {"between": [3, 5]}}, "did you mean 'gte'"),
        ({"a": {"contain": "x"}}, "did you mean 'contains'"),
        ({"a": {"$regex": "x"}}, "no operator"),
        ({"a": {"regex": "x"}}, "'regex' is no operator, did you mean 'icontains'"),
        ({"a": {"starts_with": "x"}}, "'starts_with' is no operator, did you mean 'icontains'"),
        ({"a": {"isNull": True}}, "'isNull' is no operator, did you mean 'exists'"),
        ({"and": [{"a": 1}]}, "'and' is no operator: write AND, OR, NOT, or for a key {'and': {'eq': …}}"),
        ({"Or": [{"a": 1}, {"a": 2}]}, "'Or' is no operator"),
        ({"not": {"a": 1}}, "'not' is no operator"),
        ({"nor": [{"a": 1}]}, "'nor' is no operator"),
        ({"AND": [{"or": [{"a": 1}]}]}, "'or' is no operator"),
        ({"a": {"$": 1}}, "no operator"),
        ({"$gt": 1}, "under the key"),
        ({"$nor": [{"a": 1}]}, r"did you mean '\$or'"),
        ({"$where": "1"}, r"\$and, \$or, \$not"),
        ({"user_id": {"equals": "x"}}, "no operator"),
        ({"created_at": {"after": "2024-01-01"}}, "no operator"),
        ({"created_at": "yesterday"}, "compares a time"),
        ({"updated_at": {"gt": 3}}, "compares a time"),
        ({"expires_at": {"in": ["2024-01-01", "x"]}}, "compares a time"),
        ({"created_at": {"contains": "2024"}}, "compares a time"),
        ({"created_at": ["soon"]}, "compares a time"),
        ({"AND": []}, "none empty"),
        ({"OR": []}, "none empty"),
        ({"NOT": []}, "none empty"),
        ({"NOT": {}}, "none empty"),
        ({"AND": [{}]}, "none empty"),
        ({"AND": {"a": 1}}, "AND takes a list"),
        ({"AND": ["a"]}, "AND takes a list"),
        ({"OR": "a"}, "OR takes a list"),
        ({"a": {"in": "abc"}}, "takes a list"),
        ({"a": {"nin": {"a": 1}}}, "takes a list"),
        ({"a": {"gt": None}}, "not None"),
        ({"a": {"gt": True}}, "not bool"),
        ({"a": {"lt": [1]}}, "not list"),
        ({"a": {"exists": 1}}, "True or False"),
        ({"a": {"icontains": 1}}, "use 'contains'"),
        ({"a": float("nan")}, "NaN"),
        ({"a": {"in": [float("nan")]}}, "NaN"),
        ({"a": object()}, "plain JSON"),
        ({"a": b"x"}, "not bytes"),
        ({"a": {"eq": [datetime.now(UTC)]}}, "not datetime"),
        ({"a": datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))}, "calendar"),
        ({"a": ITSELF}, "nested"),
        (_deep(65), "nested"),
        (_deep(100_000), "nested"),
        ({"a": {"eq": _object(66)}}, "nested"),
        ({"a": _object(100_000)}, "nested"),
        ({"OR": [{"a": n} for n in range(1001)]}, "1,000 conditions"),
        ({f"k{n}": 1 for n in range(1001)}, "1,000 conditions"),
        ({"a": {"in": list(range(10_001))}}, "10,000 values"),
        ({"a": {"$" + "x" * 100_000: 1}}, "no operator"),
        ({"x" * 100_000: {"$y": 1}}, "no operator"),
    ],
)
def test_what_is_no_filter_is_refused_with_the_fix(wanted: Any, named: str) -> None:
    with pytest.raises(FilterError, match=named) as caught:
        parse_filter(wanted)
    assert len(str(caught.value)) < 400


def test_what_is_large_but_allowed_is_read() -> None:
    assert parse_filter(_deep(64)).matches({"a": 1})
    assert parse_filter({"OR": [{"a": n} for n in range(1000)]}).matches({"a": 999})
    assert parse_filter({"a": {"in": list(range(10_000))}}).matches({"a": 9_999})


def test_keys_that_look_like_words_are_reached_by_a_path() -> None:
    item = _item(metadata={"role": "boss", "OR": "Oregon", "$x": 1, "metadata": 2, "in": 3})
    for wanted in ({"metadata.role": "boss"}, {"metadata.OR": "Oregon"}, {"metadata.$x": 1}, {"metadata.metadata": 2}):
        assert parse_filter(wanted).matches(filter_values(item))
    assert parse_filter({"in": 3}).matches(filter_values(item))
    assert parse_filter({"metadata": {"role": "boss"}}).matches(filter_values(item))


def test_a_field_of_the_memory_comes_before_the_metadata() -> None:
    item = _item(metadata={"role": "boss", "user_id": "bob"})
    assert parse_filter({"role": "user", "user_id": "alice", "agent_id": None}).matches(filter_values(item))
    assert not parse_filter({"role": "boss"}).matches(filter_values(item))
    assert not parse_filter({"user_id": "bob"}).matches(filter_values(item))


def test_every_field_of_a_memory_can_be_asked_for() -> None:
    values = filter_values(_item(metadata={"topic": "food"}))
    assert set(FIELDS) < set(values)
    for name in FIELDS:
        assert parse_filter({name: {"exists": True}}).matches(values) is (
            name not in {"agent_id", "run_id", "expires_at"}
        )
    assert parse_filter({"created_at": {"gte": "2024-01-01", "lt": "2024-01-02"}}).matches(values)
    assert parse_filter({"created_at": NEW_YEAR, "expires_at": None}).matches(values)
    assert parse_filter({"created_at": [NEW_YEAR, "2023-01-01"]}).matches(values)


def test_where_other_things_are_filtered_the_fields_mean_nothing() -> None:
    assert parse_filter({"created_at": "yesterday", "user_id": {"name": "x"}}, fields=()).matches(
        {"created_at": "yesterday", "user_id": {"name": "x"}}
    )


def _item(**fields: Any) -> MemoryItem:
    plain: dict[str, Any] = {
        "id": "1",
        "text": "Likes tea",
        "scope": Scope(user_id="alice"),
        "memory_type": "fact",
        "actor_id": "alice",
        "role": "user",
        "created_at": NEW_YEAR,
        "updated_at": NEW_YEAR,
        "expires_at": None,
        "revision": 1,
        "hash": "",
    }
    return MemoryItem(**{**plain, **fields})


def test_a_filter_tells_what_it_reads_and_what_must_hold() -> None:
    wanted = parse_filter({"a": 1, "AND": [{"b": {"gt": 2}}, {"c.d": "*"}], "OR": [{"e": 1}, {"f": 2}], "g": {"h": 1}})
    assert wanted.fields == frozenset({"a", "b", "c.d", "e", "f", "g"})
    assert [(c.key, c.operator, c.operand) for c in wanted.conditions] == [
        ("a", "eq", 1),
        ("b", "gt", 2),
        ("c.d", "exists", True),
    ]
    assert isinstance(wanted.conditions[0], Condition)


def test_a_filter_that_asks_for_nothing_is_false_and_holds() -> None:
    empty: list[dict[str, Any] | None] = [None, {}]
    for nothing in empty:
        assert not parse_filter(nothing)
        assert parse_filter(nothing).matches({"a": 1})
    assert not EVERYTHING
    assert parse_filter({"a": None})
    assert parse_filter(None) == EVERYTHING


def test_a_filter_is_a_copy() -> None:
    tags = ["a"]
    wanted = parse_filter({"a": {"eq": tags}})
    tags.append("b")
    assert wanted.matches({"a": ["a"]})


@pytest.mark.parametrize(
    "text", ["2024", "2024-01", "20240101", "2024-W01-1", "12:00", "2024-01-32", "2024-01-01T25:00", ""]
)
def test_a_text_that_is_no_whole_date_is_no_time(text: str) -> None:
    assert parse_moment(text) is None


@given(filters(), VALUES)
@settings(max_examples=250)
def test_it_agrees_with_the_plain_reading(wanted: dict[str, Any], values: dict[str, Any]) -> None:
    assert parse_filter(wanted).matches(values) == holds(wanted, values)


@given(filters(), filters(), VALUES)
def test_de_morgan_and_double_negation(one: dict[str, Any], other: dict[str, Any], values: dict[str, Any]) -> None:
    def said(wanted: dict[str, Any]) -> bool:
        return parse_filter(wanted).matches(values)

    neither = {"AND": [{"NOT": one}, {"NOT": other}]}
    assert said({"NOT": {"OR": [one, other]}}) == said(neither) == said({"NOT": [one, other]})
    assert said({"NOT": {"AND": [one, other]}}) == said({"OR": [{"NOT": one}, {"NOT": other}]})
    assert said({"NOT": {"NOT": one}}) == said(one) != said({"NOT": one})


@given(filters(), VALUES)
def test_words_with_a_dollar_mean_the_same(wanted: dict[str, Any], values: dict[str, Any]) -> None:
    assert parse_filter(dollars(wanted)).matches(values) == parse_filter(wanted).matches(values)


@given(JSON, JSON)
def test_an_operator_and_its_contrary_share_out_all_values(operand: Any, value: Any) -> None:
    def said(name: str, what: Any = operand) -> bool:
        return parse_filter({"a": {name: what}}).matches({"a": value})

    assert said("eq") != said("ne")
    assert said("in", [operand]) == said("eq") != said("nin", [operand])
    assert said("exists", what=True) != said("exists", what=False)


WILD = st.recursive(
    st.one_of(
        JSON,
        st.text(max_size=3),
        st.floats(),
        st.integers(),
        st.binary(max_size=2),
        st.datetimes(timezones=st.none() | st.timezones()),
        st.dates(),
        st.just(object()),
    ),
    lambda parts: st.one_of(
        st.lists(parts, max_size=3),
        st.sets(st.integers(), max_size=2),
        st.dictionaries(
            st.sampled_from([*OPERATORS, *FIELDS, "$gt", "$in", "AND", "OR", "NOT", "$and", "a", "a.b"])
            | st.text(max_size=2),
            parts,
            max_size=3,
        ),
        st.dictionaries(st.integers() | st.none(), parts, max_size=1),
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*FIELDS, "AND", "OR", "NOT", "$or", "a"]), WILD, max_size=3), VALUES)
@settings(max_examples=100)
def test_anything_else_is_a_filter_error_or_a_filter(wanted: dict[str, Any], values: dict[str, Any]) -> None:
    try:
        read = parse_filter(wanted)
    except FilterError:
        return
    assert isinstance(read.matches({**values, **filter_values(_item(metadata=values))}), bool)
