"""The real OpenAI client against a local server: every way of asking, retries, failures."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from langmem_adapter.errors import InvalidInputError, MissingDependencyError, ModelError, ModelReplyError
from langmem_adapter.reasoning.base import Comparison, ExtractInput, KnownMemory
from langmem_adapter.reasoning.llm import resolve_model
from langmem_adapter.records.results import Fact, Turn, Usage
from langmem_adapter.settings import Settings
from tests.openai_server import Failure, OpenAIServer

QUESTION = ExtractInput(
    (Turn("user", "I love tea and I moved to Graz.", "user", datetime(2026, 3, 4, tzinfo=UTC)),),
    "user",
    date(2026, 3, 4),
)
COMPARISON = Comparison((Fact("Loves green tea", 0),), (KnownMemory(0, "Loves tea"),))
FACTS = {"facts": ["Loves tea", "Moved to Graz"]}


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)


def at(server: OpenAIServer) -> Settings:
    return Settings(base_url=server.url)


WAYS = [
    pytest.param(("response_format", "tools"), 1, id="json_schema"),
    pytest.param(("tools",), 2, id="tools"),
    pytest.param((), 3, id="plain"),
]


@pytest.mark.parametrize(("supports", "first_requests"), WAYS)
def test_model_every_way_of_asking_is_found_once_and_remembered(supports: tuple[str, ...], first_requests: int) -> None:
    with OpenAIServer(lambda _: FACTS, supports=supports) as server:
        reasoner = resolve_model("openai:gpt-5-mini", at(server))
        first = reasoner.extract.invoke(QUESTION)
        assert len(server.requests) == first_requests
        second = reasoner.extract.invoke(QUESTION)
        assert len(server.requests) == first_requests + 1
    assert [fact.text for fact in first.facts] == [fact.text for fact in second.facts] == FACTS["facts"]
    assert first.usage == Usage(1, 10, 5)
    assert reasoner.mode == "gpt-5-mini"


def test_openai_is_asked_with_a_strict_schema() -> None:
    with OpenAIServer([FACTS]) as server:
        resolve_model("openai:gpt-5-mini", at(server)).extract.invoke(QUESTION)
        asked = server.requests[0].body["response_format"]["json_schema"]
    assert asked["strict"] is True
    assert asked["schema"]["required"] == ["facts"]
    assert asked["schema"]["additionalProperties"] is False


def test_model_a_server_of_the_settings_gets_no_key_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    with OpenAIServer([FACTS]) as server:
        resolve_model("openai:gpt-5-mini", at(server)).extract.invoke(QUESTION)
        assert "sk-secret" not in server.requests[0].headers["authorization"]


def test_model_the_key_of_the_settings_is_sent() -> None:
    with OpenAIServer([FACTS]) as server:
        resolve_model("openai:gpt-5-mini", Settings(base_url=server.url, api_key="mine")).extract.invoke(QUESTION)
        assert server.requests[0].headers["authorization"] == "Bearer mine"


def test_model_a_429_is_asked_again() -> None:
    with OpenAIServer([429, FACTS]) as server:
        found = resolve_model("openai:gpt-5-mini", at(server)).extract.invoke(QUESTION)
        assert len(server.requests) == 2
    assert len(found.facts) == 2


def test_a_500_for_ever_is_a_model_error_and_is_not_held_against_the_way_of_asking() -> None:
    down = True
    with OpenAIServer(lambda _: 500 if down else FACTS) as server:
        reasoner = resolve_model("openai:gpt-5-mini", at(server))
        with pytest.raises(ModelError, match="answered 500"):
            reasoner.extract.invoke(QUESTION)
        assert all("response_format" in request.body for request in server.requests)
        down = False
        reasoner.extract.invoke(QUESTION)
        assert "response_format" in server.requests[-1].body


def test_a_400_about_anything_else_is_a_model_error_from_the_first_call() -> None:
    too_long = Failure(400, "This model's maximum context length is 8 tokens, 5 in the functions; reduce the length")
    with OpenAIServer(lambda _: too_long) as server:
        with pytest.raises(ModelError, match="maximum context length"):
            resolve_model("openai:gpt-5-mini", at(server)).extract.invoke(QUESTION)
        assert len(server.requests) == 1


@pytest.mark.filterwarnings("ignore:This model does not support OpenAI")
def test_model_openais_own_words_for_no_structured_output_lead_to_tools() -> None:
    def serve(body: dict[str, Any]) -> Failure | dict[str, Any]:
        if "response_format" in body:
            return Failure(400, "'response_format' of type 'json_schema' is not supported with this model")
        return FACTS

    with OpenAIServer(serve) as server:
        assert len(resolve_model("openai:gpt-5-mini", at(server)).extract.invoke(QUESTION).facts) == 2
        assert "tools" in server.requests[-1].body


@pytest.mark.parametrize("supports", [("response_format",), ("tools",), ()], ids=["json_schema", "tools", "plain"])
@pytest.mark.parametrize(
    "bad",
    [
        {"content": '{"facts": ["Loves', "finish_reason": "length"},
        {"content": "", "finish_reason": "stop"},
        {"content": "I cannot find a JSON."},
        {"content": None, "tool_calls": []},
    ],
    ids=["cut off", "empty", "prose", "null"],
)
def test_model_bad_replies_are_repaired_once(supports: tuple[str, ...], bad: dict[str, Any]) -> None:
    if supports == ("tools",) and bad.get("finish_reason") == "length":
        bad = {"tool_calls": [_call('{"facts": ["Loves')], "finish_reason": "length"}
    with OpenAIServer([bad, FACTS], supports=supports) as server:
        found = resolve_model("openai:gpt-5-mini", at(server)).extract.invoke(QUESTION)
    assert len(found.facts) == 2
    assert found.usage == Usage(2, 20, 10)


def test_model_a_server_that_encodes_arguments_twice_is_asked_without_tools() -> None:
    twice = {"tool_calls": [_call('"{\\"facts\\": [\\"Loves tea\\"]}"')]}
    with OpenAIServer([twice, FACTS, FACTS], supports=("tools",)) as server:
        reasoner = resolve_model("openai:gpt-5-mini", at(server))
        assert [len(reasoner.extract.invoke(QUESTION).facts) for _ in range(2)] == [2, 2]
        assert ["tools" in request.body for request in server.requests[1:]] == [True, False, False]


@pytest.mark.parametrize("reply", [{"refusal": "I will not."}, {"content": "", "finish_reason": "content_filter"}])
def test_model_a_refusal_is_an_error_without_a_second_call(reply: dict[str, Any]) -> None:
    with OpenAIServer([reply, FACTS]) as server:
        settings = at(server).replace_with(on_bad_reply="raise")
        with pytest.raises(ModelReplyError, match="declined"):
            resolve_model("openai:gpt-5-mini", settings).extract.invoke(QUESTION)
        assert len(server.requests) == 1


def test_model_a_decision_travels_through_the_real_client() -> None:
    reply = {
        "memory": [
            {
                "id": "0",
                "text": "Loves green tea",
                "event": "UPDATE",
                "old_memory": "Loves tea",
                "fact": 0,
                "reason": "more",
            }
        ]
    }
    for supports in (("response_format",), ("tools",), ()):
        with OpenAIServer([reply], supports=supports) as server:
            (decision,) = resolve_model("openai:gpt-5-mini", at(server)).decide.invoke(COMPARISON).decisions
        assert (decision.event, decision.number, decision.text, decision.reason) == (
            "UPDATE",
            0,
            "Loves green tea",
            "more",
        )


def test_model_streaming_callers_get_the_same_facts() -> None:
    from langchain_openai import ChatOpenAI

    from langmem_adapter.reasoning.llm import LLMReasoner

    for supports in (("response_format",), ("tools",), ()):
        with OpenAIServer([FACTS], supports=supports) as server:
            model = ChatOpenAI(model="gpt-5-mini", base_url=server.url, api_key="none", streaming=True)  # type: ignore[arg-type]
            assert len(LLMReasoner(model).extract.invoke(QUESTION).facts) == 2


def test_model_a_missing_key_is_named() -> None:
    with pytest.raises(InvalidInputError, match="OPENAI_API_KEY"):
        resolve_model("openai:gpt-5-mini", Settings())


@pytest.mark.parametrize("name", ["nobody:model", "nonsense", "", "openai:", ":x"])
def test_an_unknown_model_names_the_fix(name: str) -> None:
    with pytest.raises(InvalidInputError, match=r"openai:gpt-5-mini"):
        resolve_model(name, Settings(base_url="http://127.0.0.1:9/v1"))


def test_model_a_missing_package_is_named() -> None:
    with pytest.raises(MissingDependencyError, match="pip install langchain-anthropic") as caught:
        resolve_model("anthropic:claude-x", Settings())
    assert isinstance(caught.value, ImportError)


def test_prompts_without_a_model_are_refused() -> None:
    for prompt in ("fact_extraction_prompt", "graph_prompt"):
        with pytest.raises(InvalidInputError, match="chat model"):
            resolve_model("offline", Settings(), **{prompt: "Find numbers."})


def _call(arguments: str) -> dict[str, Any]:
    return {"id": "call_1", "type": "function", "function": {"name": "facts_found", "arguments": arguments}}
