"""The stand-ins that users test their own programs with."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage

from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.testing import CountingEmbeddings, ScriptedChatModel

SCHEMA = {"title": "answer", "type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}


def test_replies_come_in_order_in_every_form() -> None:
    def last(messages: list[BaseMessage]) -> str:
        return f"you said {messages[-1].content}"

    model = ScriptedChatModel(replies=["one", AIMessage("two"), last])
    assert [model.invoke(said).content for said in ("a", "b", "c")] == ["one", "two", "you said c"]
    assert [messages[-1].content for messages in model.calls] == ["a", "b", "c"]


def test_an_exception_in_the_script_is_raised() -> None:
    error = TimeoutError("slow")
    model = ScriptedChatModel(replies=[error, lambda _: error])
    for _ in range(2):
        with pytest.raises(TimeoutError) as caught:
            model.invoke("a")
        assert caught.value is error


def test_a_script_that_ran_out_says_so() -> None:
    model = ScriptedChatModel(replies=["one"])
    model.invoke("a")
    with pytest.raises(RuntimeError, match="the script has 1 replies; this is call 2: 'b'"):
        model.invoke("b")


def test_usage_is_reported_and_a_messages_own_is_kept() -> None:
    usage: Any = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    model = ScriptedChatModel(replies=["one two three", AIMessage("x", usage_metadata=usage)])
    counted = model.invoke("a long question").usage_metadata
    assert counted is not None
    assert counted["input_tokens"] > 0
    assert model.invoke("a").usage_metadata == usage


def test_bind_tools_with_tool_choice_and_include_raw_follow_the_modes() -> None:
    tool = {"name": "answer", "description": "Answer.", "parameters": SCHEMA}
    plain = ScriptedChatModel()
    with pytest.raises(NotImplementedError):
        plain.bind_tools([tool])
    with pytest.raises(NotImplementedError):
        plain.with_structured_output(SCHEMA)
    tools = ScriptedChatModel(replies=["x"], modes="tools")
    tools.bind_tools([tool], tool_choice="any").invoke("a")
    assert tools.options[0]["tools"][0]["function"]["name"] == "answer"
    schema = ScriptedChatModel(replies=['{"x": 1}'], modes="json_schema")
    assert schema.with_structured_output(SCHEMA).invoke("a") == {"x": 1}
    assert schema.options[0]["response_format"] == SCHEMA


async def test_counting_embeddings_count_and_change_nothing() -> None:
    counting, plain = CountingEmbeddings(HashEmbeddings(64)), HashEmbeddings(64)
    assert counting.embed_documents(["a", "b"]) == plain.embed_documents(["a", "b"])
    assert await counting.aembed_documents(["c"]) == plain.embed_documents(["c"])
    assert counting.embed_query("q") == await counting.aembed_query("q") == plain.embed_query("q")
    assert (counting.calls, counting.texts) == (4, 5)
    assert counting.documents == [["a", "b"], ["c"]]
    assert counting.queries == ["q", "q"]
