# ruff: noqa: E501 - a shape a line
"""Messages in the forms in which vendors and libraries write them, through `Memory.add` and REST."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from langchain_core.load import dumpd
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    messages_to_dict,
)

from langmem_adapter.adapters.chat_history import SQLChatMessageHistory
from langmem_adapter.adapters.classic import ConversationMemory
from langmem_adapter.adapters.nodes import recall_node
from langmem_adapter.adapters.threads import latest_turn
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.pipeline.parse import turns_of
from langmem_adapter.records.scope import Scope
from langmem_adapter.settings import Settings
from tests.cases import each
from tests.pipeline.test_parse import NOW
from tests.server.conftest import client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastapi.testclient import TestClient

OSLO: Final = "I live in Oslo."
USER: Final = {"role": "user", "content": OSLO}
ARGS: Final = {"city": "Oslo"}
RAW: Final = json.dumps(ARGS)
CALL: Final = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": RAW}}
PNG: Final = "iVBORw0KGgo="
ANSWER: Final = AIMessage("Noted.", tool_calls=[{"name": "weather", "args": ARGS, "id": "c1"}])

SAID: Final = f"user: {OSLO}"
CALLED: Final = f"assistant: weather({RAW})#c1"
SUNNY: Final = "tool: Sunny@c1"

# What is given, what is read of it (role, text, calls, what a result answers), and what its notes tell of.
Shape = tuple[str, Any, list[str], str]
SHAPES: Final[list[Shape]] = [
    # OpenAI, chat completions
    ("openai", [USER, {"role": "assistant", "content": "Noted."}], [SAID, "assistant: Noted."], ""),
    ("openai developer", [{"role": "developer", "content": "Be brief."}, USER], ["system: Be brief.", SAID], ""),
    ("openai parts", [{"role": "user", "content": [{"type": "text", "text": OSLO}]}], [SAID], ""),
    ("openai refusal", [USER, {"role": "assistant", "content": None, "refusal": "I can't."}], [SAID, "assistant: "], "no text"),
    (
        "openai refusal part",
        [USER, {"role": "assistant", "content": [{"type": "refusal", "refusal": "I can't."}]}],
        [SAID, "assistant: "],
        "'refusal'",
    ),
    (
        "openai null with calls",
        [USER, {"role": "assistant", "content": None, "tool_calls": [CALL]}, {"role": "tool", "tool_call_id": "c1", "content": "Sunny"}],
        [SAID, CALLED, SUNNY],
        "",
    ),
    ("openai missing key with calls", [USER, {"role": "assistant", "tool_calls": [CALL]}], [SAID, CALLED], ""),
    ("openai nothing at all", [USER, {"role": "assistant"}], [SAID, "assistant: "], "no text"),
    ("openai null tool result", [USER, {"role": "tool", "tool_call_id": "c1", "content": None}], [SAID, "tool: @c1"], "no text"),
    (
        "openai function",
        [USER, {"role": "assistant", "content": None, "function_call": CALL["function"]}, {"role": "function", "name": "weather", "content": "Sunny"}],
        [SAID, f"assistant: weather({RAW})#", "tool: Sunny@"],
        "",
    ),
    (
        "openai audio answer",
        [USER, {"role": "assistant", "content": None, "audio": {"id": "a", "data": PNG, "transcript": "Lovely town."}}],
        [SAID, "assistant: Lovely town."],
        "",
    ),
    ("openai audio question", [{"role": "user", "content": [OSLO, {"type": "input_audio", "input_audio": {"data": PNG, "format": "wav"}}]}], [SAID], "'input_audio'"),
    ("openai realtime", [{"type": "message", "role": "user", "content": [{"type": "input_audio", "transcript": OSLO}]}], [SAID], ""),
    ("openai assistants", [{"role": "user", "content": [{"type": "text", "text": {"value": OSLO, "annotations": []}}]}], [SAID], ""),
    ("openai file", [{"role": "user", "content": [{"type": "text", "text": OSLO}, {"type": "file", "file": {"file_id": "f"}}]}], [SAID], "'file'"),
    ("openrouter reasoning", [USER, {"role": "assistant", "content": "", "reasoning": "Hm.", "reasoning_details": []}], [SAID, "assistant: "], "no text"),
    ("openai choice", [USER, {"index": 0, "message": {"role": "assistant", "content": "Noted."}, "finish_reason": "stop"}], [SAID, "assistant: Noted."], ""),
    ("tool of another status", [USER, {"role": "tool", "tool_call_id": "c1", "content": "Sunny", "status": "completed"}], [SAID, SUNNY], ""),
    # OpenAI, Responses
    (
        "responses input",
        [{"role": "user", "content": [{"type": "input_text", "text": OSLO}, {"type": "input_image", "image_url": "data:image/png;base64,AA"}]}],
        [SAID],
        "an image",
    ),
    (
        "responses output",
        [
            USER,
            {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "Hm."}], "encrypted_content": "x"},
            {"type": "function_call", "id": "fc", "call_id": "c1", "name": "weather", "arguments": RAW, "status": "completed"},
            {"type": "function_call_output", "call_id": "c1", "output": "Sunny", "status": "completed"},
            {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "Sun.", "annotations": []}]},
        ],
        [SAID, "assistant: ", CALLED, SUNNY, "assistant: Sun."],
        "'reasoning'",
    ),
    ("responses parts as output", [USER, {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "Sunny"}]}], [SAID, SUNNY], ""),
    ("responses web search", [USER, {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search"}}], [SAID, "assistant: "], "'web_search_call'"),
    ("responses item reference", [USER, {"type": "item_reference", "id": "msg_1"}], [SAID, "assistant: "], "'item_reference'"),
    ("responses custom tool", [USER, {"type": "custom_tool_call", "call_id": "c1", "name": "weather", "input": RAW}, {"type": "custom_tool_call_output", "call_id": "c1", "output": "Sunny"}], [SAID, CALLED, SUNNY], ""),
    ("responses screenshot", [USER, {"type": "computer_call_output", "call_id": "c1", "output": {"type": "computer_screenshot", "image_url": "x"}}], [SAID, "tool: @c1"], "'computer_screenshot'"),
    # Anthropic
    ("anthropic", [{"role": "user", "content": [{"type": "text", "text": OSLO, "cache_control": {"type": "ephemeral"}}]}], [SAID], ""),
    (
        "anthropic thinking and tools",
        [
            USER,
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": "x"}, {"type": "tool_use", "id": "c1", "name": "weather", "input": ARGS}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "Sunny"}]}]},
        ],
        [SAID, CALLED, SUNNY],
        "'thinking'",
    ),
    ("anthropic text document", [{"role": "user", "content": [{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": OSLO}, "title": "Me"}]}], [SAID], ""),
    ("anthropic content document", [{"role": "user", "content": [{"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": OSLO}]}}]}], [SAID], ""),
    ("anthropic pdf", [{"role": "user", "content": [{"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PNG}}, {"type": "text", "text": OSLO}]}], [SAID], "'document'"),
    ("anthropic redacted", [USER, {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}, {"type": "text", "text": "Yes."}]}], [SAID, "assistant: Yes."], "'redacted_thinking'"),
    ("anthropic image", [{"role": "user", "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}, {"type": "text", "text": OSLO}]}], [SAID], "an image"),
    # Google
    ("google", [{"role": "user", "parts": [{"text": OSLO}]}, {"role": "model", "parts": [{"text": "Noted."}]}], [SAID, "assistant: Noted."], ""),
    ("google texts", [{"role": "user", "parts": [OSLO]}], [SAID], ""),
    ("google no role", [{"parts": [{"text": OSLO}]}], [SAID], ""),
    (
        "google thoughts and calls",
        [
            {"role": "user", "parts": [{"text": OSLO}]},
            {"role": "model", "parts": [{"text": "Hm.", "thought": True}, {"functionCall": {"id": "c1", "name": "weather", "args": ARGS}, "thoughtSignature": "x"}]},
            {"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "weather", "response": {"result": "Sunny"}}}]},
        ],
        [SAID, CALLED, 'tool: {"result": "Sunny"}@c1'],
        "'text'",
    ),
    ("google dump", [{"role": "user", "parts": [{"text": OSLO, "thought": None, "function_call": None, "inline_data": None}]}], [SAID], ""),
    ("google image", [{"role": "user", "parts": [{"text": OSLO}, {"inlineData": {"mimeType": "image/png", "data": PNG}}]}], [SAID], "'inlineData'"),
    # Amazon Bedrock, Converse
    ("bedrock", [{"role": "user", "content": [{"text": OSLO}]}, {"role": "assistant", "content": [{"text": "Noted."}]}], [SAID, "assistant: Noted."], ""),
    (
        "bedrock tools",
        [
            {"role": "user", "content": [{"text": OSLO}, {"cachePoint": {"type": "default"}}]},
            {"role": "assistant", "content": [{"reasoningContent": {"reasoningText": {"text": "Hm."}}}, {"toolUse": {"toolUseId": "c1", "name": "weather", "input": ARGS}}]},
            {"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": "Sunny"}], "status": "success"}}]},
        ],
        [SAID, CALLED, SUNNY],
        "'reasoningContent'",
    ),
    ("bedrock document", [{"role": "user", "content": [{"document": {"format": "txt", "name": "me", "source": {"text": OSLO}}}]}], [SAID], ""),
    ("bedrock guarded", [{"role": "user", "content": [{"guardContent": {"text": {"text": OSLO, "qualifiers": ["query"]}}}]}], [SAID], ""),
    ("bedrock citations", [USER, {"role": "assistant", "content": [{"citationsContent": {"content": [{"text": "Yes."}], "citations": []}}]}], [SAID, "assistant: Yes."], ""),
    # Mistral, Ollama, DeepSeek, Cohere
    ("mistral thinking", [USER, {"role": "assistant", "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, {"type": "text", "text": "Yes."}], "prefix": False}], [SAID, "assistant: Yes."], "'thinking'"),
    ("mistral tool", [USER, {"role": "tool", "name": "weather", "tool_call_id": "c1", "content": [{"type": "text", "text": "Sunny"}]}], [SAID, SUNNY], ""),
    ("ollama", [{"role": "user", "content": OSLO, "images": [PNG]}, {"role": "assistant", "content": "", "thinking": "Hm.", "tool_calls": [{"function": {"name": "weather", "arguments": ARGS}}]}, {"role": "tool", "tool_name": "weather", "content": "Sunny"}], [SAID, f"assistant: weather({RAW})#", "tool: Sunny@"], ""),
    ("deepseek", [USER, {"role": "assistant", "content": None, "reasoning_content": "Hm."}], [SAID, "assistant: "], "no text"),
    ("cohere v1", [{"role": "USER", "message": OSLO}, {"role": "CHATBOT", "message": "Noted."}], [SAID, "assistant: Noted."], ""),
    ("cohere v2", [USER, {"role": "assistant", "tool_plan": "Look.", "tool_calls": [CALL], "content": None}, {"role": "tool", "tool_call_id": "c1", "content": [{"type": "document", "document": {"id": "0", "data": "Sunny"}}]}], [SAID, CALLED, "tool: @c1"], "'document'"),
    # Vercel's AI SDK
    ("vercel ui", [{"id": "1", "role": "user", "parts": [{"type": "text", "text": OSLO}]}, {"id": "2", "role": "assistant", "parts": [{"type": "step-start"}, {"type": "reasoning", "text": "Hm."}, {"type": "text", "text": "Noted.", "state": "done"}]}], [SAID, "assistant: Noted."], "'reasoning'"),
    ("vercel ui 4", [{"role": "user", "content": OSLO, "parts": [{"type": "text", "text": OSLO}]}], [SAID], ""),
    ("vercel ui tool", [USER, {"role": "assistant", "parts": [{"type": "tool-weather", "toolCallId": "c1", "state": "output-available", "input": ARGS, "output": "Sunny"}]}], [SAID, "assistant: "], "'tool-weather'"),
    ("vercel model", [USER, {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "c1", "toolName": "weather", "input": ARGS}]}, {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c1", "toolName": "weather", "output": {"type": "text", "value": "Sunny"}}]}], [SAID, CALLED, SUNNY], ""),
    # Data sets and other frameworks
    ("sharegpt", [{"from": "system", "value": "Be brief."}, {"from": "human", "value": OSLO}, {"from": "gpt", "value": "Noted."}], ["system: Be brief.", SAID, "assistant: Noted."], ""),
    ("sharegpt tools", [{"from": "human", "value": OSLO}, {"from": "observation", "value": "Sunny"}], [SAID, "tool: Sunny@"], ""),
    ("llamaindex", [{"role": "user", "additional_kwargs": {}, "blocks": [{"block_type": "text", "text": OSLO}]}], [SAID], ""),
    ("haystack", [{"role": "user", "meta": {}, "name": None, "content": [{"text": OSLO}]}], [SAID], ""),
    # LangChain
    ("pair", [("user", OSLO), ["assistant", "Noted."]], [SAID, "assistant: Noted."], ""),
    ("pair of parts", [("human", [{"text": OSLO}])], [SAID], ""),
    ("messages", [SystemMessage("Be brief."), HumanMessage(OSLO), ANSWER, ToolMessage("Sunny", tool_call_id="c1")], ["system: Be brief.", SAID, f"assistant: Noted. weather({RAW})#c1", SUNNY], ""),
    ("v1 blocks", [HumanMessage(content_blocks=[{"type": "text", "text": OSLO}, {"type": "text-plain", "text": "In Norway.", "mime_type": "text/plain"}])], [f"{SAID}\nIn Norway."], ""),
    ("v1 answer", [HumanMessage(OSLO), AIMessage(content_blocks=[{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "Yes."}, {"type": "tool_call", "name": "weather", "args": ARGS, "id": "c1"}])], [SAID, f"assistant: Yes. weather({RAW})#c1"], "'reasoning'"),
    ("old text file", [HumanMessage([{"type": "file", "source_type": "text", "text": OSLO}])], [SAID], ""),
    ("bedrock parts", [HumanMessage([{"text": OSLO}])], [SAID], ""),
    ("audio of an answer", [HumanMessage(OSLO), AIMessage("", additional_kwargs={"audio": {"id": "a", "transcript": "Yes."}})], [SAID, "assistant: Yes."], ""),
    ("reasoning of deepseek", [HumanMessage(OSLO), AIMessage("", additional_kwargs={"reasoning_content": "Hm."})], [SAID, "assistant: "], "no text"),
    ("chunk", [HumanMessage(OSLO), AIMessageChunk(content=[{"type": "text", "text": "Yes.", "index": 0}])], [SAID, "assistant: Yes."], ""),
    ("model_dump", [HumanMessage(OSLO).model_dump(), ANSWER.model_dump()], [SAID, f"assistant: Noted. weather({RAW})#c1"], ""),
    ("chunk's model_dump", [USER, AIMessageChunk(content="Yes.").model_dump()], [SAID, "assistant: Yes."], ""),
    ("dumpd", [dumpd(HumanMessage(OSLO)), dumpd(ANSWER), dumpd(ToolMessage("Sunny", tool_call_id="c1"))], [SAID, f"assistant: Noted. weather({RAW})#c1", SUNNY], ""),
    ("langchain js", [{"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", "HumanMessage"], "kwargs": {"content": OSLO, "additional_kwargs": {}}}], [SAID], ""),
    ("messages_to_dict", messages_to_dict([HumanMessage(OSLO), ANSWER, FunctionMessage(content="Sunny", name="weather")]), [SAID, f"assistant: Noted. weather({RAW})#c1", "tool: Sunny@"], ""),
]  # fmt: skip


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    with Memory(":memory:", settings=Settings(trace_days=0)) as opened:
        yield opened


@pytest.fixture(scope="module")
def http(memory: Memory) -> Iterator[TestClient]:
    with client(memory, auth="local") as opened:
        yield opened


@each(("name", "messages", "said", "noted"), SHAPES)
def test_add_reads_messages_of_all_vendors(
    memory: Memory, http: TestClient, name: str, messages: list[Any], said: list[str], noted: str
) -> None:
    turns = turns_of(messages, scope=Scope(name), time=NOW)
    assert [_shown(turn) for turn in turns] == said
    notes = " ".join(note for turn in turns for note in turn.notes)
    assert noted in notes and bool(noted) == bool(notes)
    texts = [turn.text for turn in turns if turn.text and turn.role != "system"]
    result = memory.add(messages, user_id=name, infer=False)
    assert [change.text for change in result.results] == texts
    assert noted in " ".join(result.notes)
    assert "Lives in Oslo" in [change.text for change in memory.add(messages, user_id=f"{name} inferred").results]
    if not any(isinstance(message, BaseMessage) for message in messages):
        body = {"messages": messages, "user_id": f"{name} by REST", "infer": False}
        answer = http.post("/v1/memories", json=body)
        assert [change["text"] for change in answer.json()["results"]] == texts, answer.text
    asked = [f"user: {each.text}" for each in latest_turn(messages) if each.type == "human"]
    assert asked == [text.replace("\n", "") for text in said if text.startswith("user: ")]  # LangChain joins so


def _shown(turn: Any) -> str:
    calls = [f"{call.name}({call.arguments})#{call.id}" for call in turn.calls]
    text = f"{turn.role}: {' '.join(filter(None, [turn.text, *calls]))}"
    return f"{text}@{turn.answers}" if turn.role == "tool" else text


def test_add_refuses_only_an_input_that_is_empty_as_a_whole(memory: Memory, http: TestClient) -> None:
    empty: Any = [{"role": "assistant", "content": None, "refusal": "No."}, {"role": "user"}]
    with pytest.raises(InvalidInputError, match="every message is empty"):
        memory.add(empty, user_id="empty")
    assert http.post("/v1/memories", json={"messages": empty, "user_id": "empty"}).status_code == 400
    assert memory.add([*empty, OSLO], user_id="empty").results


def test_messages_recall_conversation_memory_and_chat_history_read_parts_of_all_vendors(memory: Memory) -> None:
    parts: list[Any] = [{"text": OSLO}, {"type": "reasoning", "text": "Hm."}]
    classic = ConversationMemory(memory=memory, user_id="parts", input_key="asked")
    classic.save_context({"asked": HumanMessage(parts)}, {"output": AIMessage([{"text": "Noted."}])})
    assert OSLO in classic.load_memory_variables({"asked": [HumanMessage([{"text": "Where do I live?"}])]})["history"]
    question = {"messages": [{"role": "user", "parts": [{"text": "Where do I live?"}]}]}
    found = recall_node(memory).invoke(question, {"configurable": {"user_id": "parts"}})
    assert "Lives in Oslo" in found["memories"]
    history = SQLChatMessageHistory("s", memory, user_id="parts")
    history.add_messages([HumanMessage(parts)])
    assert history.messages == [HumanMessage(parts)]
