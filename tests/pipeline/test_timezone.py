"""The user's day: "today", "yesterday" and the day of a memory are counted at the UTC offset of who speaks."""

from __future__ import annotations

import itertools
import json
import sqlite3
import time
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableLambda
from langgraph.graph import MessagesState, StateGraph

from langmem_adapter import Memory, MemoryContext, MemoryMiddleware, Settings
from langmem_adapter.adapters.classic import ConversationMemory
from langmem_adapter.adapters.nodes import recall_node, remember_node
from langmem_adapter.adapters.retriever import format_hit
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.testing import ScriptedChatModel
from tests.benchmarks.material import requested
from tests.cases import each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ZONES: Final = (
    "Pacific/Kiritimati Pacific/Auckland Pacific/Chatham Australia/Lord_Howe Australia/Adelaide Asia/Tokyo Asia/Shanghai "
    "Asia/Kolkata Asia/Kathmandu Asia/Karachi Asia/Tehran Asia/Dubai Europe/Moscow Europe/Istanbul Africa/Nairobi "
    "Africa/Cairo Europe/Berlin Europe/London Africa/Casablanca UTC Atlantic/Azores America/Sao_Paulo America/St_Johns "
    "America/New_York America/Chicago America/Denver America/Los_Angeles America/Anchorage Pacific/Honolulu Pacific/Pago_Pago"
).split()
USERS: Final = map(str, itertools.count())


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    with Memory(":memory:", settings=Settings(trace_days=0)) as opened:
        yield opened


def own_time(text: str, value: object) -> dict[str, Any]:
    return {"messages": {"role": "user", "content": text, "timestamp": value}}


FORMS: Final[tuple[Callable[[str, datetime, str], dict[str, Any]], ...]] = (
    lambda text, at, _: {"messages": text, "timestamp": at},
    lambda text, at, _: {"messages": text, "timestamp": at.isoformat()},
    lambda text, at, _: {"messages": text, "timestamp": at.isoformat(), "timezone": "America/Lima"},
    lambda text, at, zone: {"messages": text, "timestamp": at.timestamp(), "timezone": zone},
    lambda text, at, zone: {"messages": text, "timestamp": at.replace(tzinfo=None), "timezone": zone},
    lambda text, at, zone: {**own_time(text, at.replace(tzinfo=None).isoformat()), "timezone": zone},
    lambda text, at, _: own_time(text, at.isoformat()),
)


@given(
    day=st.dates(date(2000, 1, 2), date(2039, 12, 30)),
    hour=st.integers(0, 23),
    zone=st.sampled_from(ZONES),
    said=st.sampled_from([("I quit smoking yesterday.", -1), ("I visited Rome today.", 0), ("我昨天搬到了上海。", -1)]),
    form=st.sampled_from(FORMS),
)
def test_add_counts_days_from_the_local_day_whatever_the_timezone(
    memory: Memory, day: date, hour: int, zone: str, said: tuple[str, int], form: Callable[..., dict[str, Any]]
) -> None:
    at = datetime(day.year, day.month, day.day, hour, 30, tzinfo=ZoneInfo(zone))
    (change,) = memory.add(**form(said[0], at, zone), user_id=(user := next(USERS))).results
    assert str(day + timedelta(days=said[1])) in change.text
    created = memory.get(change.id or "").created_at
    assert created.date() == day
    assert created == at or at.utcoffset() != at.replace(fold=1).utcoffset() or not _exists(at)
    memory.purge(user_id=user)


@given(
    day=st.dates(date(2000, 1, 2), date(2039, 12, 30)),
    hour=st.integers(0, 23),
    zone=st.sampled_from(ZONES),
)
def test_timezone_search_get_all_and_prompts_show_a_memory_under_its_speakers_day(
    memory: Memory, day: date, hour: int, zone: str
) -> None:
    user = next(USERS)
    at = datetime(day.year, day.month, day.day, hour, 30, tzinfo=ZoneInfo(zone))
    text, next_day = "Saw a heron yesterday.", day + timedelta(days=1)
    (change,) = memory.add(text, user_id=user, infer=False, timestamp=at.isoformat()).results
    cases: tuple[dict[str, Any], ...] = {}, {"known_at": "2999-01-01"}
    for then in cases:
        for asked in (
            f"What happened on {day:%B} {day.day}, {day.year}?",
            f"What did I see on {day - timedelta(days=1)}?",
        ):
            (hit,) = memory.search(asked, user_id=user, explain=True, **then)
            assert hit.explanation and hit.explanation.parts["window"] and format_hit(hit) == f"{text} ({day})"
        assert not memory.search(f"What happened on {next_day}?", user_id=user, threshold="auto", **then)
        for begins, ends in ((str(day), str(next_day)), (day, next_day)):
            assert memory.search("heron", user_id=user, after=begins, before=ends, **then)
            assert memory.search("heron", user_id=user, filters={"created_at": {"gte": begins, "lt": ends}}, **then)
            assert memory.get_all(user_id=user, filters={"updated_at": {"gte": begins, "lt": ends}}, **then).items
            outside: list[dict[str, Any]] = [{"before": begins}, {"after": ends}]
            outside += [{"filters": {"created_at": bound}} for bound in ({"lt": begins}, {"gte": ends})]
            for bounds in outside:
                assert not memory.search("heron", user_id=user, **bounds, **then)
    assert memory.history(change.id or "")[0].valid_from.date() == day
    memory.purge(user_id=user)


def _exists(at: datetime) -> bool:
    return at.astimezone(UTC).astimezone(at.tzinfo).hour == at.hour


@pytest.fixture
def far_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A system whose day has begun long before that of UTC."""
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("far_east")
def test_add_takes_the_timezone_of_the_call_then_the_setting_then_the_system() -> None:
    def stored(memory: Memory, **more: Any) -> str:
        return memory.add("I visited Rome today.", user_id=next(USERS), **more).results[0].text.split()[-1]

    noon = datetime(2026, 6, 11, 12, tzinfo=UTC).timestamp()
    with Memory(":memory:") as memory:
        assert stored(memory) == str(datetime.now(ZoneInfo("Pacific/Kiritimati")).date())
        assert stored(memory, timestamp=noon) == "2026-06-12"
        assert stored(memory, timestamp=noon, timezone="Asia/Tokyo") == "2026-06-11"
    with Memory(":memory:", settings=Settings(timezone="Asia/Tokyo")) as memory:
        assert stored(memory, timestamp=noon) == "2026-06-11"
        assert stored(memory, timestamp=noon, timezone="Pacific/Kiritimati") == "2026-06-12"
        assert memory.add("I like tea.", user_id="naive", timestamp="2026-06-12", expires_at="2999-01-01").results
        (item,) = memory.get_all(user_id="naive")
        assert item.created_at == datetime(2026, 6, 11, 15, tzinfo=UTC)
        assert item.expires_at == datetime(2998, 12, 31, 15, tzinfo=UTC)
        assert not memory.get_all(user_id="naive", as_of="2026-06-11T23:59").items
        assert memory.get_all(user_id="naive", as_of="2026-06-12").items
        assert memory.update(item.id, expires_at="2999-01-01", user_id="naive")
        assert memory.get(item.id).expires_at == item.expires_at


@each("name", ["Mars/Base", "Europe", "", "../../etc/passwd", "a\x00b", 5, "+08:00"])
def test_add_and_search_refuse_an_unknown_timezone(name: Any) -> None:
    with Memory(":memory:") as memory:
        for call in (lambda: memory.add("I like tea.", user_id="u", timezone=name),
                     lambda: memory.search("tea", user_id="u", timezone=name)):  # fmt: skip
            with pytest.raises(InvalidInputError, match="timezone"):
                call()
    with pytest.raises(InvalidInputError, match="timezone"):
        Settings(timezone=name)


LATE: Final = "2026-06-12T00:30:00+08:00"


def test_timezone_a_prompts_today_and_dates_are_the_users_and_a_relation_of_today_holds_at_once() -> None:
    shown: list[dict[str, Any]] = []

    def reply(messages: list[Any]) -> str:
        shown.append(requested(messages))
        link = {"source": "user", "relation": "lives_in", "target": "Oslo", "valid_from": "2026-06-12"}
        fact = {"text": "Lives in Oslo", "turn": 1, "date": None, "relations": [link]}
        decided = {"fact": 0, "event": "ADD", "id": "", "text": "Lives in Oslo", "old_memory": None, "reason": ""}
        return json.dumps({"facts": [fact]} if "conversation" in shown[-1] else {"memory": [decided]})

    earlier = {"role": "assistant", "content": "Where to?", "timestamp": "2026-06-11T23:50:00+08:00"}
    with Memory(":memory:", model=ScriptedChatModel(replies=[reply] * 9), graph=True) as memory:
        memory.add("Has a cat.", user_id="u", infer=False, timestamp="2026-06-11T00:10:00+08:00")
        memory.add([earlier, "I moved to Oslo today."], user_id="u", timestamp=LATE)
        assert (shown[0]["today"], shown[0]["weekday"]) == ("2026-06-12", "Friday")
        assert [turn.get("date") for turn in shown[0]["conversation"]] == ["2026-06-11", None]
        assert shown[1]["memories"][0]["date"] == "2026-06-11"
        (relation,) = memory.graph.relations(user_id="u", as_of=LATE)
        assert relation.valid_from == datetime.fromisoformat(LATE)


def test_timezone_valid_from_is_the_local_day_in_the_rules_graph() -> None:
    with Memory(":memory:", graph=True) as memory:
        (change,) = memory.add("I started at Acme yesterday.", user_id="u", timestamp=LATE).results
        starts = change.relations[0].relation.valid_from
        assert starts is not None and str(starts.date()) == "2026-06-11"


def test_search_counts_last_night_from_the_day_of_its_timezone(memory: Memory) -> None:
    user = next(USERS)
    for text, at in (("Walked by the river.", "2026-06-11T00:20"), ("Walked to the castle.", "2026-06-10T23:40")):
        memory.add(text, user_id=user, infer=False, timestamp=at, timezone="Asia/Tokyo")
    asked: dict[str, Any] = {"user_id": user, "explain": True}
    tokyo = {"timezone": "Asia/Tokyo"}
    unix = datetime(2026, 6, 11, 15, tzinfo=UTC).timestamp()
    for when in (
        {"reference_date": "2026-06-12T00:10", **tokyo},
        {"reference_date": "2026-06-12T00:10:00+09:00"},
        {"reference_date": date(2026, 6, 12), **tokyo},
        {"reference_date": unix, **tokyo},
    ):
        best, *_ = memory.search("Where did I walk yesterday?", **asked, **when)
        assert best.text == "Walked by the river." and best.explanation and best.explanation.parts["window"]
    for bound in ("2026-06-11", date(2026, 6, 11)):
        within = memory.search("walk", **asked, after=bound, timezone="Asia/Tokyo")
        assert [hit.text for hit in within] == ["Walked by the river."]


def test_timezone_graph_backfill_counts_yesterday_from_the_day_of_who_spoke() -> None:
    with Memory(":memory:", graph=True) as memory:
        memory.add("I started at Acme yesterday.", user_id="u", timestamp=LATE, infer=False)
        assert memory.graph.backfill(user_id="u").added == 1
        (relation,) = memory.graph.relations(user_id="u", as_of=LATE)
        assert str(relation.valid_from)[:10] == "2026-06-11"


@pytest.mark.usefixtures("far_east")
def test_timezone_update_and_restore_keep_the_day_of_who_spoke_and_a_memory_without_an_offset_has_the_day_of_the_system(
    tmp_path: Path,
) -> None:
    path = tmp_path / "memory.db"
    with Memory(path) as memory:
        (change,) = memory.add("I live in Oslo.", user_id="u", timestamp="2026-06-12T00:30:00+08:00").results
        memory.add("I live in Rome.", user_id="u", timestamp="2026-06-13T23:30:00-05:00")
        item = memory.get(str(change.id))
        assert (item.text, item.updated_at.isoformat()) == ("Lives in Rome", "2026-06-13T23:30:00-05:00")
        assert [str(step.valid_from.date()) for step in memory.history(item.id)] == ["2026-06-12", "2026-06-13"]
        (past,) = memory.get_all(user_id="u", as_of="2026-06-13T00:00Z")
        assert (past.text, str(past.updated_at.date())) == ("Lives in Oslo", "2026-06-12")
        memory.update(item.id, "Lives in Milan", user_id="u")
        assert memory.get(item.id).updated_at.utcoffset() == timedelta(hours=-5)
        memory.delete(item.id, user_id="u")
        memory.restore(item.id, 2, user_id="u")
        assert memory.get(item.id).updated_at.utcoffset() == timedelta(hours=-5)
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("UPDATE memories SET utc_offset = NULL, updated_at = '2026-06-11 12:00:00.000000'")
    with Memory(path) as memory:
        (item,) = memory.get_all(user_id="u")
        assert item.updated_at.isoformat() == "2026-06-12T02:00:00+14:00"
        (hit,) = memory.search("What happened on June 12, 2026?", user_id="u", explain=True)
        assert hit.explanation and hit.explanation.parts["window"]


@each(("own", "named"), [("UTC", "Asia/Tokyo"), ("Asia/Tokyo", None)])
def test_every_integration_takes_the_timezone_of_its_call_then_that_of_its_constructor(
    monkeypatch: pytest.MonkeyPatch, own: str, named: str | None
) -> None:
    taken: list[tuple[str, object]] = []
    add, search = Memory.add, Memory.search

    def adding(self: Memory, *given: Any, **how: Any) -> Any:
        taken.append(("add", how.get("timezone")))
        return add(self, *given, **how)

    def searching(self: Memory, *given: Any, **how: Any) -> Any:
        taken.append(("search", how.get("timezone")))
        return search(self, *given, **how)

    monkeypatch.setattr(Memory, "add", adding)
    monkeypatch.setattr(Memory, "search", searching)
    both = [("search", "Asia/Tokyo"), ("add", "Asia/Tokyo")]
    context = MemoryContext(user_id="u", timezone=named)
    config: Any = {"configurable": {"user_id": "u", "timezone": named}}
    with Memory(":memory:") as memory:
        model = ScriptedChatModel(replies=["Noted."])
        agent = create_agent(model, middleware=[MemoryMiddleware(memory, timezone=own)], context_schema=MemoryContext)
        agent.invoke({"messages": [HumanMessage("I visited Rome today.")]}, context=context)
        assert taken == both
        taken.clear()
        graph = StateGraph(MessagesState, context_schema=MemoryContext)
        graph.add_sequence([("recall", recall_node(memory, output_key="messages", timezone=own).with_config()),
                            ("remember", remember_node(memory, timezone=own))]).set_entry_point("recall")  # fmt: skip
        graph.compile().invoke({"messages": [HumanMessage("I met Ann today.")]}, context=context)
        assert taken == both
        taken.clear()
        memory.recall(timezone=own).invoke("Whom did I meet?", config)
        memory.recall(timezone="Asia/Tokyo", user_id="u").invoke("Whom did I meet?")
        memory.as_retriever(timezone=own).invoke("Whom did I meet?", config)
        memory.as_retriever(timezone="Asia/Tokyo", user_id="u").invoke("Whom did I meet?")
        memory.tools(timezone=own)[0].invoke({"query": "Whom did I meet?"}, config)
        assert taken == [("search", "Asia/Tokyo")] * 5
        taken.clear()
        memory.tools(infer=True, timezone=own)[1].invoke({"content": "I met Bo today."}, config)
        assert taken == [("add", "Asia/Tokyo")]
        taken.clear()
        classic = ConversationMemory(memory=memory, timezone=own)
        recalling = RunnableLambda[dict[str, str], Any](classic.load_memory_variables)
        keeping = RunnableLambda[dict[str, str], Any](lambda given: classic.save_context(given, {"output": "Fine."}))
        recalling.invoke({"input": "Whom did I meet?"}, config)
        keeping.invoke({"input": "I met Cy."}, config)
        assert taken == both


def test_background_writes_keep_the_timezone() -> None:
    with Memory(":memory:") as memory, memory.background(after=0.01) as writer:
        told = writer.add("I visited Rome today.", user_id="b", timezone="Pacific/Kiritimati").result(timeout=30)
        assert str(datetime.now(ZoneInfo("Pacific/Kiritimati")).date()) in told.results[0].text
