"""Records: what they refuse, and that they travel as JSON without loss."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from langmem_adapter.errors import InvalidInputError, ScopeError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.checks import check_metadata, check_text
from langmem_adapter.records.escapes import escape_cell, unescape_cell
from langmem_adapter.records.results import (
    EVENTS,
    AddResult,
    Change,
    Decision,
    Fact,
    Hit,
    MemoryItem,
    ModelCall,
    Page,
    SearchResults,
    Turn,
    Usage,
)
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope
from tests.cases import each

KEPT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=30)
MAYBE = st.none() | KEPT
NUMBERS = st.integers(0, 2**40)
TIMES = st.datetimes(timezones=st.just(UTC))
NUMBER = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBER | KEPT,
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(KEPT, parts, max_size=3),
    max_leaves=8,
)
METADATA: st.SearchStrategy[dict[str, Any]] = st.dictionaries(KEPT, JSON_VALUES, max_size=4)
CALLS = st.builds(ModelCall, KEPT, st.lists(st.tuples(KEPT, KEPT), max_size=3).map(tuple), KEPT)
USAGES = st.builds(
    Usage,
    NUMBERS,
    NUMBERS,
    NUMBERS,
    st.dictionaries(st.sampled_from(["parse", "extract"]), st.floats(0, 1e6)),
    st.lists(CALLS, max_size=2).map(tuple),
)
RECORDS = st.one_of(
    st.builds(Turn, KEPT, KEPT, KEPT, TIMES, NUMBERS, st.lists(KEPT, max_size=3).map(tuple)),
    st.builds(Fact, KEPT, NUMBERS, KEPT, st.booleans()),
    st.builds(Change, MAYBE, KEPT, st.sampled_from(EVENTS), MAYBE, KEPT),
    CALLS,
    USAGES,
    st.builds(
        Decision,
        st.sampled_from(EVENTS),
        MAYBE,
        MAYBE,
        KEPT,
        fact=st.none() | NUMBERS,
        context=MAYBE,
        metadata=st.none() | METADATA,
        memory_type=MAYBE,
        actor_id=MAYBE,
        role=MAYBE,
        time=st.none() | TIMES,
        expires_at=st.none() | TIMES,
        keep_expiry=st.booleans(),
        replace_metadata=st.booleans(),
        seen=st.none() | NUMBERS,
    ),
)


@given(RECORDS)
def test_a_record_travels_as_json_and_comes_back_equal(record: Any) -> None:
    data = record.to_json()
    assert json.loads(json.dumps(data)) == data
    assert type(record).from_json(json.loads(json.dumps(data))) == record


def test_a_record_without_its_later_fields_can_still_be_read() -> None:
    time = datetime(2024, 5, 1, tzinfo=UTC)
    assert Turn.from_json({"role": "user", "text": "x", "actor": "a", "time": time.isoformat()}).notes == ()
    assert Usage.from_json({}) == Usage()
    assert Change.from_json({"id": None, "text": "x", "event": "NONE"}).reason == ""


def test_the_time_of_a_decision_keeps_its_utc_offset() -> None:
    here = datetime(2024, 5, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    again = Decision.from_json(Decision("ADD", "1", "x", time=here).to_json())
    assert again.time == here and again.time is not None and again.time.utcoffset() == timedelta(hours=2)


@each("kind", [Scope, Turn, Fact, Decision, Change, ModelCall, Usage, AddResult, MemoryItem, Hit, Page])
def test_records_are_frozen_and_slotted(kind: type[Any]) -> None:
    assert dataclasses.is_dataclass(kind) and "__slots__" in vars(kind)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(object.__new__(kind), dataclasses.fields(kind)[0].name, "other")


# ── scopes ────────────────────────────────────────────────────────────────────────────────────────────────────────────

IDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=20).filter(
    str.strip
)
FIELDS = st.none() | st.sampled_from(["a", "b", "*", "%"])
SCOPES = st.tuples(FIELDS, FIELDS, FIELDS).filter(any).map(lambda parts: Scope(*parts))
ODD = st.sampled_from([1, "x", None, b"b", float("nan"), object()])
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    ODD, lambda parts: st.lists(parts) | st.dictionaries(st.text() | st.integers(), parts), max_leaves=6
)


@given(st.lists(st.none() | IDS, min_size=3, max_size=3).filter(any))
def test_a_scope_names_what_it_was_given_in_order(parts: list[str | None]) -> None:
    scope = Scope(*parts)
    assert list(scope.named.items()) == [(n, v) for n, v in zip(SCOPE_FIELDS, parts, strict=True) if v is not None]
    assert Scope(**scope.named) == scope
    assert scope.covers(scope)


@given(SCOPES, SCOPES)
def test_a_scope_covers_exactly_those_that_agree_in_its_fields(wide: Scope, narrow: Scope) -> None:
    assert wide.covers(narrow) == (wide.named.items() <= narrow.named.items())
    if wide.covers(narrow) and narrow.covers(wide):
        assert wide == narrow


@each("blank", ["", " ", "\t\n", "\u3000"])
@each("name", SCOPE_FIELDS)
def test_a_blank_field_of_a_scope_is_refused_by_name(name: str, blank: str) -> None:
    with pytest.raises(ScopeError, match=f"{name} is blank"):
        Scope(**{name: blank})


@pytest.mark.parametrize("value", [7, b"a", ["a"], True, 1.5])
def test_a_run_id_that_is_no_text_is_refused(value: Any) -> None:
    with pytest.raises(ScopeError, match=r"write run_id=str\(...\)"):
        Scope(run_id=value)


@pytest.mark.parametrize("value", ["nul\x00", "lone\ud800", "x" * 513])
def test_a_scope_that_no_database_could_keep_is_refused(value: str) -> None:
    with pytest.raises(ScopeError, match="user_id"):
        Scope(user_id=value)
    assert Scope(user_id="x" * 512).user_id == "x" * 512


def test_no_scope_at_all_names_the_fix() -> None:
    with pytest.raises(ScopeError, match="user_id is missing"):
        Scope()


# ── texts and metadata ────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.text(st.characters(exclude_categories=[]), max_size=20))
def test_a_text_passes_if_and_only_if_it_can_be_kept(text: str) -> None:
    if "\x00" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        with pytest.raises(InvalidInputError, match=r"^it holds a "):
            check_text(text, "it")
    else:
        assert check_text(text, "it") == text


@given(METADATA)
def test_metadata_comes_back_as_a_copy_of_its_own(value: dict[str, Any]) -> None:
    copy = check_metadata(value)
    assert copy == value
    assert copy is not value


def test_metadata_is_cut_off_from_what_the_caller_does_later() -> None:
    inner = [1]
    copy = check_metadata({"a": inner, "b": (1, 2)})
    inner.append(2)
    assert copy == {"a": [1], "b": [1, 2]}


@each("value", [None, "x", [1], {1: "x"}, {"x": {None: 1}}, {"x": float("nan")}, {"x": float("-inf")}, {"x": {1, 2}},
     {"x": b"b"}, {"x": datetime.now(UTC)}, {"x": ["\x00"]}, {"\x00": 1}, {"\ud800": 1}, {"x": "\udfff"}])  # fmt: skip
def test_metadata_that_is_no_json_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInputError, match="metadata"):
        check_metadata(value)


@given(ANYTHING)
def test_metadata_of_any_kind_is_kept_or_refused_but_never_breaks(value: Any) -> None:
    with contextlib.suppress(InvalidInputError):
        assert json.dumps(check_metadata(value), allow_nan=False)


# ── results ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(USAGES, USAGES, USAGES)
def test_usage_adds_up_in_any_grouping(one: Usage, two: Usage, three: Usage) -> None:
    left, right = (one + two) + three, one + (two + three)
    assert (left.model_calls, left.input_tokens, left.output_tokens) == (
        right.model_calls, right.input_tokens, right.output_tokens,
    )  # fmt: skip
    assert left.calls == right.calls == one.calls + two.calls + three.calls
    assert left.milliseconds.keys() == right.milliseconds.keys()
    assert left.milliseconds == pytest.approx(right.milliseconds)
    assert one + Usage() == one == Usage() + one


def test_an_add_without_facts_is_falsy_and_changes_are_told_apart() -> None:
    changes = (Change("1", "a", "ADD"), Change("2", "b", "NONE"), Change("3", "c", "ADD"))
    result = AddResult(changes, "offline")
    assert result and len(result) == 3
    assert result.by_event("ADD") == (changes[0], changes[2]) and result.by_event("DELETE") == ()
    assert not AddResult((), "offline")


def test_a_page_is_a_sequence() -> None:
    time = datetime(2024, 5, 1, tzinfo=UTC)
    items = tuple(
        MemoryItem(str(n), f"fact {n}", Scope("a"), {}, None, None, None, time, time, None, 1, "") for n in range(3)
    )
    page = Page(items, "more")
    assert (len(page), page[0], page[-1], page[1:]) == (3, items[0], items[2], items[1:])
    assert items[1] in page and list(page) == list(items) and page.index(items[2]) == 2
    assert not Page() and Page().next is None


@given(st.text(st.sampled_from("=+-@\uff1d;\t\r\n' a,")))
@example(";=1+1").via("a semicolon separates cells in many countries")
@example("\t=1+1").via("a tab does in what is pasted")
@example("'\t'=1")
def test_harmless_cells_hold_no_formula_however_they_are_split_and_plain_gives_them_back(text: str) -> None:
    assert unescape_cell(escape_cell(text)) == text
    assert not [cell for cell in re.split(r"[;\t\r\n]", escape_cell(text)) if cell.startswith(tuple("=+-@\uff1d"))]


def test_repr_is_one_line_and_repr_html_is_an_escaped_table() -> None:
    with Memory(":memory:", graph=True) as memory:
        result = memory.add("I live in Lyon. My sister is called <b>.", user_id="ann")
        hits, page = memory.search("Lyon", user_id="ann"), memory.get_all(user_id="ann")
        relations, history = memory.graph.relations(user_id="ann"), memory.history(str(result.results[0].id))
    assert repr(hits[0]).startswith("Hit('Lives in Lyon', relevance=")
    for shown in (*result.results, *hits, *page, *history, *relations):
        assert len(repr(shown)) < 200 and "\n" not in repr(shown)
    for table in (result, hits, page, history, relations):
        html = table._repr_html_()
        assert html.startswith("<table>") and "<b>" not in html and "Lyon" in html
    assert SearchResults()._repr_html_() == "<p>no results</p>"
