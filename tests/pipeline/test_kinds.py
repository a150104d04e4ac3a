"""Procedural memory and vision."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langmem_adapter.adapters.nodes import remember_node
from langmem_adapter.errors import InvalidInputError, ModelReplyError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.results import PROCEDURAL
from langmem_adapter.settings import Settings
from langmem_adapter.testing import ScriptedChatModel

if TYPE_CHECKING:
    from pathlib import Path

WORK = [
    SystemMessage("You scrape blogs."),
    HumanMessage("Collect the titles."),
    AIMessage("Opened the home page"),
    ToolMessage("Found 5 links", tool_call_id="1"),
]
PNG = "data:image/png;base64,iVBORw0KGgo="


# ── procedural ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_memory_type_a_record_is_one_memory_without_fences(tmp_path: Path) -> None:
    model = ScriptedChatModel(replies=["```markdown\n**Task Objective**: titles\n1. Opened the home page\n```"])
    with Memory(tmp_path / "m.db", model=model) as memory:
        result = memory.add(WORK, agent_id="g", memory_type=PROCEDURAL, metadata={"job": 7})
        (item,) = memory.get_all(agent_id="g")
        assert item.text.startswith("**Task Objective**: titles\n1. Opened the home page\n**Action Result**")
        assert (item.memory_type, item.metadata) == (PROCEDURAL, {"job": 7})
        assert [change.event for change in result.results] == ["ADD"]
        assert result.usage.model_calls == 1
        sent = str(model.calls[0])
        assert "Found 5 links" in sent and "You scrape blogs" in sent
        assert [hit.id for hit in memory.search("home page", agent_id="g", memory_type=PROCEDURAL)] == [item.id]


def test_memory_type_a_record_has_every_tool_result_word_for_word_and_no_sentence_of_the_instructions() -> None:
    reply = "**Task Objective**: 天气\nLeave out no step, and add nothing that did not happen. 1. 查了天气: 24 °C\n2. bad JSON"
    with Memory(":memory:", model=ScriptedChatModel(replies=[reply])) as memory:
        memory.add(TOOL_WORK, agent_id="g", memory_type=PROCEDURAL)
        (item,) = memory.get_all(agent_id="g")
    assert item.text.splitlines() == [
        "**Task Objective**: 天气",
        "1. 查了天气: 24 °C",
        "2. bad JSON",
        "**Action Result** (weather): 晴，24 °C",
    ]


def test_memory_type_a_prompt_replaces_the_instructions(tmp_path: Path) -> None:
    model = ScriptedChatModel(replies=["done"])
    with Memory(tmp_path / "m.db", model=model) as memory:
        memory.add(WORK, agent_id="g", memory_type=PROCEDURAL, prompt="Write a haiku.")
    assert model.calls[0][0].content == "Write a haiku."


def test_memory_type_a_prompt_that_nobody_would_read_is_refused_on_every_way_in() -> None:
    state = {"messages": "I like tea.", "scope": {"user_id": "u"}, "prompt": "Only numbers."}
    with Memory(":memory:") as memory:
        with pytest.raises(InvalidInputError, match="prompt is an instruction for a chat model"):
            memory.add("I like tea.", user_id="u", prompt="Only numbers.")
        with pytest.raises(InvalidInputError, match="chat model"):
            memory.pipeline.invoke(state)
        refused, _ = memory.add_many(
            [{"messages": "I like tea.", "user_id": "u", "prompt": "x"}, {"messages": "I like tea.", "user_id": "b"}]
        )
        assert isinstance(refused, InvalidInputError)
        assert [count.memories for count in memory.scopes()] == [1]
    model = ScriptedChatModel(replies=[])
    with Memory(":memory:", model=model) as memory, pytest.raises(InvalidInputError, match="infer=False"):
        memory.add("I like tea.", user_id="u", prompt="Only numbers.", infer=False)


def test_memory_type_offline_the_record_is_what_was_said_step_by_step(tmp_path: Path) -> None:
    with Memory(tmp_path / "m.db") as memory:
        memory.add(WORK, agent_id="g", memory_type=PROCEDURAL)
        (item,) = memory.get_all(agent_id="g")
    assert item.text.splitlines()[0] == "**Task Objective**: Collect the titles."
    assert item.text.splitlines()[-1] == "3. **Action Result**: Found 5 links"


def call(name: str, arguments: str, id_: str) -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


TOOL_WORK: list[Any] = [
    SystemMessage("只用中文回答。"),
    HumanMessage("里昂和巴黎的天气？"),
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [call("weather", '{"city":  "里昂"}', "c1"), call("weather", '{"city": "Par', "c2")],
    },
    {"role": "tool", "content": "bad JSON", "tool_call_id": "c2", "status": "error"},
    ToolMessage("晴，24 °C", tool_call_id="c1", artifact={"rows": 7}),
    AIMessage("再试一次", tool_calls=[{"name": "weather", "args": {"city": "Paris"}, "id": "c3"}]),
]


def test_memory_type_a_record_reads_calls_their_arguments_and_results_and_system_turns() -> None:
    model = ScriptedChatModel(replies=["1. 查了天气"])
    with Memory(":memory:", model=model) as memory:
        assert memory.add(TOOL_WORK, agent_id="g", memory_type=PROCEDURAL).notes == ()
    _, asked = model.calls[0]
    told = json.loads(asked.text[asked.text.index("{") : asked.text.rindex("}") + 1])["conversation"]
    assert [turn["role"] for turn in told] == ["system", "user", "assistant", "tool", "tool", "assistant"]
    assert [each["arguments"] for each in told[2]["calls"]] == ['{"city":  "里昂"}', '{"city": "Par']
    assert [(turn["answers"], turn.get("status")) for turn in told[3:5]] == [("c2", "error"), ("c1", None)]
    assert (told[5]["text"], told[5]["calls"][0]["name"]) == ("再试一次", "weather")


def test_memory_type_offline_the_record_holds_calls_and_results_word_for_word() -> None:
    with Memory(":memory:") as memory:
        memory.add(TOOL_WORK, agent_id="g", memory_type=PROCEDURAL)
        (item,) = memory.get_all(agent_id="g")
    assert item.text.splitlines() == [
        "**Task Objective**: 里昂和巴黎的天气？",
        "**Instructions**: 只用中文回答。",
        "",
        "1. **Request**: 里昂和巴黎的天气？",
        '2. **Agent Action**: weather({"city":  "里昂"})',
        '3. **Agent Action**: weather({"city": "Par)',
        "4. **Errors of step 3**: bad JSON",
        "5. **Action Result of step 2**: 晴，24 °C",
        "6. **Agent Action**: 再试一次",
        '7. **Agent Action**: weather({"city": "Paris"})',
    ]


def test_memory_type_a_replay_of_a_record_reads_the_same_calls() -> None:
    model = ScriptedChatModel(replies=["1. done"] * 2)
    with Memory(":memory:", model=model) as memory:
        result = memory.add(TOOL_WORK, agent_id="g", memory_type=PROCEDURAL)
        memory.replay(str(result.trace_id))
    first, again = ([message.text for message in asked] for asked in model.calls)
    assert first == again


@pytest.mark.parametrize("model", [None, ScriptedChatModel(replies=['{"facts": []}'])], ids=["rules", "model"])
def test_memory_type_a_conversation_of_calls_alone_is_no_error_and_no_source(model: ScriptedChatModel | None) -> None:
    with Memory(":memory:", model=model) as memory:
        result = memory.add(TOOL_WORK[2], user_id="u")
        assert (result.results, result.notes) == ((), ("found no fact worth keeping in 1 message",))
        kept = memory.add(["Weather?", TOOL_WORK[2]], user_id="u", infer=False)
        assert [change.text for change in kept.results] == ["Weather?"]
        assert kept.notes == ("calls of tools are kept by memory_type='procedural_memory' only",)


def test_memory_type_an_agent_that_only_calls_tools_has_not_spoken_of_itself() -> None:
    with Memory(":memory:") as memory:
        added = memory.add(["I like tea.", TOOL_WORK[2]], user_id="u", agent_id="g")
        assert [change.text for change in added.results] == ["Likes tea"]


RESULT: list[Any] = ["Book it.", TOOL_WORK[2], ToolMessage("I live in Oslo.", tool_call_id="c1", name="crm")]


@pytest.mark.parametrize("wanted", [False, True])
def test_memory_type_facts_from_tool_results_are_taken_only_where_asked_for(*, wanted: bool) -> None:
    def reply(messages: list[Any]) -> str:
        assert "I live in Oslo." in messages[-1].text  # shown, since it helps to understand
        assert ("is a source as well" in messages[-1].text) == wanted
        return '{"facts": ["Lives in Oslo"]}'

    settings = Settings(facts_from_tools=wanted)
    with Memory(":memory:", settings=settings) as memory:
        added = memory.add(RESULT, user_id="u")
        assert [change.text for change in added.results] == ["Lives in Oslo"] * wanted
        assert [(item.role, item.actor_id) for item in memory.get_all(user_id="u")] == [("tool", "crm")] * wanted
        node = remember_node(memory, output_key="changes", user_id="v")
        assert len(node.invoke({"messages": RESULT})["changes"]) == wanted
    with Memory(":memory:", model=ScriptedChatModel(replies=[reply] * 2), settings=settings) as memory:
        memory.add(RESULT, user_id="u")
        alone = memory.add(RESULT[2:], user_id="w")  # without a source nobody is asked
        assert alone.usage.model_calls == wanted


def test_memory_type_a_fact_that_names_a_tools_result_is_refused_unless_asked_for() -> None:
    home = '"relations": [{"source": "user", "relation": "lives_in", "target": "Oslo"}]'
    own = '{"text": "Wants it booked", "turn": 0, "relations": []}'
    reply = f'{{"facts": [{{"text": "Lives in Oslo", "turn": 2, {home}}}, {own}]}}'
    with Memory(":memory:", model=ScriptedChatModel(replies=[reply] * 2), graph=True) as memory:
        added = memory.add(RESULT, user_id="u")  # there is one turn of the user's, and still the fact is not his
        assert [change.text for change in added.results] == ["Wants it booked"]
        assert "what a tool returned" in added.notes[0]
        assert not [*memory.graph.relations(user_id="u")]
    settings = Settings(facts_from_tools=True)
    with Memory(":memory:", model=ScriptedChatModel(replies=[reply]), settings=settings) as memory:
        assert len(memory.add(RESULT, user_id="u").results) == 2


def test_memory_type_without_an_agent_or_with_another_type_it_is_refused(tmp_path: Path) -> None:
    with Memory(tmp_path / "m.db") as memory:
        with pytest.raises(InvalidInputError, match="agent_id"):
            memory.add(WORK, user_id="u", memory_type=PROCEDURAL)
        with pytest.raises(InvalidInputError, match="procedural_memory"):
            memory.add(WORK, agent_id="g", memory_type="semantic")
        assert memory.stats().changes == 0


@pytest.mark.parametrize(
    "reply", ["", "```\n```", "<think>hm</think>", AIMessage("", additional_kwargs={"refusal": "no"})]
)
def test_memory_type_an_empty_record_is_an_error(tmp_path: Path, reply: Any) -> None:
    with Memory(tmp_path / "m.db", model=ScriptedChatModel(replies=[reply])) as memory:
        with pytest.raises(ModelReplyError):
            memory.add(WORK, agent_id="g", memory_type=PROCEDURAL)
        assert memory.stats().changes == 0


# ── vision ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def seeing(*facts: str) -> ScriptedChatModel:
    def answer(messages: list[Any]) -> str:
        content = messages[-1].content
        if isinstance(content, list):
            return f"a dog on a beach ({content[1]['image_url']['url'][-6:]})"
        return json.dumps({"facts": list(facts)})

    return ScriptedChatModel(replies=[answer] * 9)


@pytest.mark.parametrize(
    "content",
    [
        {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}},
        [{"type": "image_url", "image_url": PNG}],
        [{"type": "image", "base64": "iVBORw0KGgo=", "mime_type": "image/png"}],
        [{"type": "input_image", "image_url": PNG}],
        [{"type": "image", "url": PNG}],
    ],
)
def test_memory_type_an_image_in_any_form_becomes_words_with_one_call(tmp_path: Path, content: Any) -> None:
    model = seeing("Has a dog")
    with Memory(tmp_path / "m.db", model=model, vision=True) as memory:
        result = memory.add({"role": "user", "content": content}, user_id="a")
        assert (result.notes, result.usage.model_calls) == ((), 2)
        trace = memory.trace(str(result.trace_id))
    assert trace.turns[0].text == "[image: a dog on a beach (0KGgo=)]"
    assert model.calls[0][-1].content[1]["image_url"]["url"] == PNG  # type: ignore[index]


def test_memory_type_several_images_and_text_keep_their_order_and_repeats_cost_nothing(tmp_path: Path) -> None:
    parts: list[str | dict[Any, Any]] = [
        {"type": "text", "text": "Look at this:"},
        {"type": "image_url", "image_url": {"url": "https://example.com/one111"}},
        {"type": "image_url", "image_url": {"url": "https://example.com/two222"}},
        {"type": "text", "text": "Nice?"},
    ]
    model = seeing()
    with Memory(tmp_path / "m.db", model=model, vision=True) as memory:
        result = memory.add([HumanMessage(parts), HumanMessage(parts[1:2])], user_id="a")
        turns = memory.trace(str(result.trace_id)).turns
    assert turns[0].text.split("\n") == [
        "Look at this:",
        "[image: a dog on a beach (one111)]",
        "[image: a dog on a beach (two222)]",
        "Nice?",
    ]
    assert turns[1].text == "[image: a dog on a beach (one111)]"
    assert len(model.calls) == 3


def test_memory_type_a_description_that_fails_is_an_error_and_nothing_is_written(tmp_path: Path) -> None:
    with Memory(tmp_path / "m.db", model=ScriptedChatModel(replies=[""]), vision=True) as memory:
        with pytest.raises(ModelReplyError):
            memory.add({"role": "user", "content": {"type": "image_url", "image_url": {"url": PNG}}}, user_id="a")
        assert memory.stats().changes == 0


def test_memory_type_verbatim_turns_have_their_images_described_as_well(tmp_path: Path) -> None:
    with Memory(tmp_path / "m.db", model=seeing(), vision=True) as memory:
        memory.add(
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": PNG}}]}, user_id="a", infer=False
        )
        assert memory.get_all(user_id="a")[0].text.startswith("[image: a dog")


def test_memory_type_vision_needs_a_model() -> None:
    with pytest.raises(InvalidInputError, match="chat model"):
        Memory(":memory:", vision=True)
