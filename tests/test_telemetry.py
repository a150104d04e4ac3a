from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from langmem_adapter.errors import MemoryNotFoundError, ModelError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.settings import Settings
from langmem_adapter.testing import ScriptedChatModel
from tests.programs import python
from tests.spans import recorded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from langmem_adapter.tracing import Observed

CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
COUNT, RECORD = "gen_ai.memory.record.count", "gen_ai.memory.record.id"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    monkeypatch.delenv(CONTENT, raising=False)
    with recorded(monkeypatch) as kept:
        yield kept


def taken(spans: InMemorySpanExporter) -> list[ReadableSpan]:
    found = list(spans.get_finished_spans())
    spans.clear()
    return found


def test_each_operation_is_one_span_by_the_conventions_without_a_text_or_a_name(spans: InMemorySpanExporter) -> None:
    with Memory(":memory:") as memory:
        sister = memory.add("I have a sister named Jesica. I like tea.", user_id="alice").results[0].id
        assert sister is not None
        memory.add("Word for word", user_id="alice", infer=False)
        memory.add_many([{"messages": "I like jazz.", "user_id": "bob"}, {"messages": "Nobody's"}])
        memory.search("sister", user_id="alice", k=2)
        memory.update(sister, "Has a sister named Ann")
        memory.restore(sister, 1)
        memory.delete(sister)
        memory.delete_many([sister, "none"])
        memory.delete_all(user_id="alice")
        memory.purge(user_id="bob")
        location = memory.location
    found = taken(spans)
    assert [(span.name, (span.attributes or {}).get(RECORD), (span.attributes or {}).get(COUNT)) for span in found] == [
        ("upsert_memory", None, 2),
        ("create_memory", None, 1),
        ("upsert_memory", None, 1),
        ("search_memory", None, 2),
        ("update_memory", sister, 1),
        ("update_memory", sister, 1),
        ("delete_memory", sister, 1),
        ("delete_memory", None, 2),
        ("delete_memory", None, 2),
        ("delete_memory", None, 1),
    ]
    for span in found:
        assert (span.attributes or {})["gen_ai.operation.name"] == span.name
        assert (span.attributes or {})["gen_ai.memory.store.id"] == location
        assert (span.kind, span.status.status_code) == (SpanKind.INTERNAL, StatusCode.UNSET)
        assert not any(word in span.to_json() for word in ("Jesica", "jazz", "alice", "bob"))


async def test_async_operations_are_spans_too_and_stand_below_the_one_around_them(spans: InMemorySpanExporter) -> None:
    from opentelemetry import trace

    tracer = trace.get_tracer_provider().get_tracer("a program")
    with Memory(":memory:") as memory, tracer.start_as_current_span("turn") as around:
        await memory.aadd("我喜欢绿茶。", user_id="alice")
        await memory.asearch("绿茶", user_id="alice")
    added, found, _ = taken(spans)
    assert (added.name, found.name) == ("upsert_memory", "search_memory")
    assert {span.parent and span.parent.span_id for span in (added, found)} == {around.get_span_context().span_id}


def test_whose_memory_it_is_and_what_it_says_is_told_where_each_is_asked_for(
    spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Memory(":memory:", settings=Settings(otel_scopes=True)) as memory:
        memory.add("我喜欢绿茶。", user_id="alice", agent_id="bot", run_id="7")
        (span,) = taken(spans)
        named = {"user.id": "alice", "gen_ai.agent.id": "bot", "gen_ai.conversation.id": "7"}
        assert named.items() <= dict(span.attributes or {}).items() and "绿茶" not in str(span.attributes)
        monkeypatch.setenv(CONTENT, "SPAN_ONLY")
        hit = memory.search("绿茶", user_id="alice")[0]
        attributes = taken(spans)[0].attributes or {}
        assert attributes["gen_ai.memory.query.text"] == "绿茶"
        assert json.loads(str(attributes["gen_ai.memory.records"])) == [
            {"id": hit.id, "content": hit.text, "score": hit.score}
        ]


def test_an_operation_that_fails_tells_the_kind_of_the_error_alone(spans: InMemorySpanExporter) -> None:
    broken = ScriptedChatModel(replies=[RuntimeError("the secret bicycle")])
    with Memory(":memory:", model=broken) as memory:
        with pytest.raises(ModelError):
            memory.add("My secret is a bicycle.", user_id="alice")
        with pytest.raises(MemoryNotFoundError):
            memory.delete("none")
    failed, absent = taken(spans)
    assert [(span.attributes or {})["error.type"] for span in (failed, absent)] == [
        "ModelError",
        "MemoryNotFoundError",
    ]
    assert failed.status.status_code is StatusCode.ERROR
    assert "bicycle" not in failed.to_json()


def test_observers_are_told_what_an_operation_cost_once_for_a_run_that_items_share() -> None:
    seen: list[Observed] = []
    replies = [f'{{"facts": [{{"text": "Likes {what}", "turn": 0}}]}}' for what in ("tea", "go")]
    with Memory(":memory:", model=ScriptedChatModel(replies=replies)) as memory:
        memory.parts.telemetry.observers.append(seen.append)
        results = memory.add_many([{"messages": text, "user_id": "ann"} for text in ("I like tea.", "I like go.")])
    assert all(not isinstance(result, Exception) for result in results)
    assert [(each.name, each.error, each.usage.model_calls) for each in seen] == [("upsert_memory", None, 2)]


def test_without_opentelemetry_it_works_and_imports_none_of_it() -> None:
    code = """
import sys

class Refuse:
    def find_spec(self, name, *_):
        if name.partition(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(name, name=name)

for name in [name for name in sys.modules if name.partition(".")[0] == "opentelemetry"]:
    del sys.modules[name]
sys.meta_path.insert(0, Refuse())
from langmem_adapter import Memory
with Memory(":memory:") as memory:
    memory.add("I like tea.", user_id="bob")
    print(memory.search("tea", user_id="bob")[0].text)
"""
    assert python("-c", code).stdout == "Likes tea\n"
