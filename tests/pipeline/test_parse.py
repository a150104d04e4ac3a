"""Parse: whatever a program calls a message becomes turns, or is refused by its number."""

from __future__ import annotations

import traceback
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

import langmem_adapter
from langmem_adapter import Memory
from langmem_adapter.adapters.threads import latest_turn
from langmem_adapter.arguments import Longest, parse_time
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.pipeline import parse
from langmem_adapter.pipeline.parse import turns_of
from langmem_adapter.records.results import Turn
from langmem_adapter.records.scope import Scope
from tests.cases import each

NOW = datetime(2024, 5, 1, 12, tzinfo=UTC)
ADA = Scope("ada", run_id="r")
CALL = {"name": "weather", "args": {"city": "Lyon"}, "id": "1"}
OPENAI_CALL = {"id": "1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
IMAGE_BLOCK = {"type": "image", "url": "https://example.org/cat.png"}


def turns(messages: object) -> list[Turn]:
    return turns_of(messages, scope=ADA, time=NOW)


def told(messages: object) -> list[tuple[str, str, str]]:
    return [(turn.role, turn.actor, turn.text) for turn in turns(messages)]


# ── who speaks ────────────────────────────────────────────────────────────────────────────────────────────────────────


@each(
    "message",
    [
        "I like tea.",
        {"role": "user", "content": "I like tea."},
        {"role": "human", "content": "I like tea."},
        {"type": "human", "content": "I like tea."},
        {"content": "I like tea."},
        HumanMessage("I like tea."),
        HumanMessageChunk(content="I like tea."),
        HumanMessage([{"type": "text", "text": "I like tea."}]),
        ChatMessage(content="I like tea.", role="user"),
        {"role": "user", "content": ["I like tea."]},
        {"role": "user", "content": [{"type": "input_text", "text": "I like tea."}]},
        {"role": "user", "content": {"type": "text", "text": "I like tea."}},
        "  I like tea.\n",
    ],
)
def test_messages_one_statement_of_the_user_in_every_form(message: object) -> None:
    expected = Turn("user", "I like tea.", "user", NOW)
    assert turns(message) == turns([message]) == turns((message,)) == [expected]


@each(
    ("message", "role"),
    [
        ({"role": "assistant", "content": "x"}, "assistant"),
        ({"role": "ai", "content": "x"}, "assistant"),
        ({"type": "ai", "content": "x"}, "assistant"),
        (AIMessage("x"), "assistant"),
        (AIMessageChunk(content="x"), "assistant"),
        (AIMessage([{"type": "output_text", "text": "x"}]), "assistant"),
        (("assistant", "x"), "assistant"),
        (("human", "x"), "user"),
        (SystemMessage("x"), "system"),
        ({"role": "system", "content": "x"}, "system"),
        ({"role": "developer", "content": "x"}, "system"),
        (ToolMessage("x", tool_call_id="1"), "tool"),
        ({"role": "tool", "content": "x", "tool_call_id": "1"}, "tool"),
        (FunctionMessage(content="x", name="f"), "tool"),
        (ChatMessage(content="x", role="Assistant"), "assistant"),
    ],
)
def test_messages_each_role_is_known_by_all_its_names(message: object, role: str) -> None:
    (turn,) = turns([message])
    assert (turn.role, turn.text) == (role, "x")


def test_messages_a_speakers_name_is_the_actor_and_failing_that_the_role() -> None:
    assert told(
        [
            HumanMessage("a", name="Ann"),
            {"role": "user", "content": "b", "name": "Bob"},
            ToolMessage("c", tool_call_id="1", name="weather"),
            AIMessage("d", name=""),
            {"role": "user", "content": "e", "name": None},
        ]
    ) == [
        ("user", "Ann", "a"),
        ("user", "Bob", "b"),
        ("tool", "weather", "c"),
        ("assistant", "assistant", "d"),
        ("user", "user", "e"),
    ]


def test_messages_a_conversation_keeps_its_order() -> None:
    said = turns_of(["a", AIMessage("b"), ("user", "c")], scope=ADA, time=NOW)
    assert [turn.text for turn in said] == ["a", "b", "c"]


# ── messages without words ────────────────────────────────────────────────────────────────────────────────────────────


RAW = '{"city":  "里昂"}'  # as a model wrote it
FUNCTION = {"name": "weather", "arguments": RAW}
BROKEN = '{"city": "Ly'


@each(("call", "arguments"), [
        (AIMessage("", tool_calls=[CALL]), '{"city": "Lyon"}'),
        (AIMessage([], tool_calls=[CALL]), '{"city": "Lyon"}'),
        (AIMessage("", tool_calls=[{**CALL, "args": {}}]), "{}"),
        (AIMessage("", invalid_tool_calls=[{**CALL, "args": BROKEN, "error": "no JSON"}]), BROKEN),
        (AIMessage("", additional_kwargs={"tool_calls": [OPENAI_CALL]}), "{}"),
        (AIMessage("", additional_kwargs={"function_call": FUNCTION}), RAW),
        (AIMessage([{"type": "tool_use", "id": "1", "name": "weather", "input": {"city": "Lyon"}}]), '{"city": "Lyon"}'),
        (AIMessage(content_blocks=[{"type": "tool_call", **CALL}]), '{"city": "Lyon"}'),  # type: ignore[list-item]
        (AIMessageChunk(content="", tool_call_chunks=[{"name": "weather", "args": BROKEN, "id": "1", "index": 0}]), None),
        ({"role": "assistant", "content": None, "tool_calls": [OPENAI_CALL]}, "{}"),
        ({"role": "assistant", "tool_calls": [{**OPENAI_CALL, "function": FUNCTION}]}, RAW),
        ({"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "weather", "arguments": BROKEN}}]}, BROKEN),
        ({"role": "assistant", "content": "", "tool_calls": [CALL]}, '{"city": "Lyon"}'),
        ({"role": "assistant", "content": None, "function_call": FUNCTION}, RAW),
        ({"role": "assistant", "content": [{"type": "function_call", "call_id": "1", "id": "x", **FUNCTION}]}, RAW),
        (AIMessage("", tool_calls=[CALL]).model_dump(), '{"city": "Lyon"}'),
    ])  # fmt: skip
def test_messages_a_tool_call_without_words_is_a_turn_with_the_call_as_it_was_written(
    call: Any, arguments: str | None
) -> None:
    said = turns([HumanMessage("Weather?"), call, ToolMessage("Sunny", tool_call_id="1"), AIMessage("It is sunny.")])
    assert [turn.text for turn in said] == ["Weather?", "", "Sunny", "It is sunny."]
    assert {turn.notes for turn in said} == {()}
    (called,) = said[1].calls
    assert called.name == "weather" and called.id in {"1", ""} and called.arguments == (arguments or called.arguments)
    assert [turn.answers for turn in said] == ["", "", "1", ""]
    assert [turn.role for turn in turns(call)] == ["assistant"]


def test_messages_words_and_several_calls_stand_in_one_turn_each_call_once() -> None:
    parts = [
        {"type": "reasoning", "reasoning": "hm"},
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "1", "name": "weather", "input": {}},
        {"type": "server_tool_call", "id": "2", "name": "web_search", "args": {"q": "Lyon"}},
    ]
    (turn,) = turns(AIMessage(parts, tool_calls=[CALL]))  # type: ignore[arg-type]
    assert turn.text == "Let me look."
    assert [(call.id, call.arguments) for call in turn.calls] == [("1", '{"city": "Lyon"}'), ("2", '{"q": "Lyon"}')]
    assert turn.notes == ("a part of type 'reasoning' in message 1 was not read",)


def test_messages_a_result_says_what_it_answers_and_whether_that_failed() -> None:
    fine, failed = turns([
        {"role": "tool", "content": [{"type": "text", "text": "Sunny"}], "tool_call_id": "1"},
        ToolMessage("no such city", tool_call_id="2", status="error", artifact=object()),
    ])  # fmt: skip
    assert [(turn.text, turn.answers, turn.failed) for turn in (fine, failed)] == [
        ("Sunny", "1", False), ("no such city", "2", True)
    ]  # fmt: skip
    assert Turn.from_json(failed.to_json()) == failed


ANTHROPIC: list[Any] = [
    {"role": "user", "content": "Weather?", "timestamp": "2020-01-01"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "weather", "input": {"city": "Lyon"}}]},
    {
        "role": "user",
        "timestamp": "2020-01-01",
        "content": [
            {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "Sunny"}]},
            {"type": "tool_result", "tool_use_id": "2", "content": "broken", "is_error": True},
            {"type": "text", "text": "And then?"},
        ],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "3"}]},
]


def test_messages_results_of_tools_among_what_a_person_says_are_the_tools() -> None:
    _, _, *said = turns(ANTHROPIC)
    assert [(turn.role, turn.text, turn.answers, turn.failed) for turn in said] == [
        ("tool", "Sunny", "1", False),
        ("tool", "broken", "2", True),
        ("user", "And then?", "", False),
        ("tool", "", "3", False),
    ]
    assert [turn.time.year for turn in said] == [2020, 2020, 2020, NOW.year]
    assert said[3].notes == ("message 4 has no text",)
    assert [message.text for message in latest_turn(ANTHROPIC[:3])] == ["Weather?", "And then?"]
    with pytest.raises(InvalidInputError, match="a tool's result in message 1 cannot be read"):
        turns({"role": "user", "content": [{"type": "tool_result", "content": "x"}]})
    with pytest.raises(InvalidInputError, match="message 2 has 9 letters"):
        turns_of(["x", ANTHROPIC[2]], scope=ADA, time=NOW, longest=Longest(message=8))


DEEP: Any = "x"
for _ in range(100):
    DEEP = [DEEP]


@each("calls", ["x", {"a": 1}, ["x"], [7], [{"function": "weather"}], [{**CALL, "name": 7}], [{**CALL, "args": {1, 2}}],
     [{**CALL, "args": {"x": DEEP}}], [{**CALL, "args": "nul\x00"}], [{**CALL, "args": {"x": "\ud800"}}],
     [{**CALL, "id": 7}]])  # fmt: skip
def test_a_call_that_is_none_is_refused_by_the_number_of_its_message(calls: Any) -> None:
    message = AIMessage("")
    message.tool_calls = calls
    for spelled in (message, {"role": "assistant", "content": "", "tool_calls": calls}):
        with pytest.raises(InvalidInputError, match=r"tool calls? (of|in) message 2"):
            turns(["x", spelled])


def test_calls_count_for_the_length_of_a_message() -> None:
    call = AIMessage("x" * 10, tool_calls=[{**CALL, "args": {"city": "里" * 30}}])
    assert turns_of(call, scope=ADA, time=NOW, longest=Longest(message=100))
    with pytest.raises(InvalidInputError, match=r"message 1, with its tool calls, has 59 letters, .* max_message"):
        turns_of(call, scope=ADA, time=NOW, longest=Longest(message=58))


@each("messages", ["", " \n", [], [""], ["", HumanMessage(" ")], {"role": "user", "content": []}, AIMessage("", tool_calls=[]),
     {"role": "user", "content": [{"type": "text", "text": ""}]}, {"role": "user", "content": [{"type": "text"}]},
     {"role": "user", "content": [{"type": "text", "text": None}]}, {"role": "user"},
     {"role": "user", "content": None}, {"role": "assistant", "content": None, "refusal": "No."}])  # fmt: skip
def test_messages_a_conversation_without_any_word_is_refused(messages: object) -> None:
    with pytest.raises(InvalidInputError, match="nothing to remember"):
        turns(messages)


# ── content parts ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("content", "text", "images"),
    [
        (IMAGE, "", 1),
        ([IMAGE], "", 1),
        ([IMAGE, IMAGE_BLOCK], "", 2),
        (["Look:", IMAGE, {"type": "text", "text": "my cat"}], "Look:\nmy cat", 1),
        ([{"type": "image_url", "image_url": "https://example.org/cat.png"}], "", 1),
        ([{"type": "input_image", "image_url": "https://example.org/cat.png"}, "mine"], "mine", 1),
    ],
)
def test_messages_images_that_nobody_described_are_noted_each(content: Any, text: str, images: int) -> None:
    (turn,) = turns({"role": "user", "content": content})
    assert turn.text == text
    assert len(turn.notes) == images
    assert all(note.startswith("an image in message 1 was not looked at") for note in turn.notes)


def test_messages_images_that_were_described_are_words_in_their_place() -> None:
    message = {"role": "user", "content": ["Look:", IMAGE, "nice", IMAGE_BLOCK]}
    described = {IMAGE["image_url"]["url"]: "a red bicycle"}  # type: ignore[index]
    (turn,) = turns_of(message, scope=ADA, time=NOW, descriptions=described)
    assert turn.text == "Look:\n[image: a red bicycle]\nnice"
    assert len(turn.notes) == 1


@pytest.mark.parametrize("kind", ["input_audio", "file", "thinking", "reasoning", "tool_use", None])
def test_messages_parts_that_are_not_read_are_named(kind: str | None) -> None:
    (turn,) = turns({"role": "user", "content": ["words", {"type": kind, "data": "AA"}]})
    assert turn.text == "words"
    assert turn.notes == (f"a part of type {kind!r} in message 1 was not read",)


# ── when ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@each("key", ["timestamp", "created_at", "create_time"])
@each(
    ("value", "expected"),
    [
        ("2023-05-08T13:56:00+02:00", datetime(2023, 5, 8, 13, 56, tzinfo=timezone(timedelta(hours=2)))),
        ("2023-05-08", datetime(2023, 5, 8, tzinfo=UTC)),
        (1_683_547_200, datetime(2023, 5, 8, 12, tzinfo=UTC)),
        (1_683_547_200.5, datetime(2023, 5, 8, 12, 0, 0, 500_000, tzinfo=UTC)),
        *[(datetime(2023, 5, 8, 12, tzinfo=timezone(timedelta(hours=-1))),) * 2],
        (datetime(2023, 5, 8, 12), datetime(2023, 5, 8, 12, tzinfo=UTC)),  # noqa: DTZ001 - without an offset, the zone's
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (-0.5, datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC)),
        (-14_182_980, datetime(1969, 7, 20, 20, 17, tzinfo=UTC)),
        (-62_135_596_800, datetime(1, 1, 1, tzinfo=UTC)),
        ("1066-10-14", datetime(1066, 10, 14, tzinfo=UTC)),
        (None, NOW),
    ],
)
def test_a_messages_own_time_goes_before_that_of_the_conversation(key: str, value: Any, expected: datetime) -> None:
    for message in ({"role": "user", "content": "x", key: value}, HumanMessage("x", additional_kwargs={key: value})):
        (turn,) = turns(message)
        assert turn.time.isoformat() == expected.isoformat() == turn.to_json()["time"]


@pytest.mark.parametrize("value", ["soon", float("nan"), float("inf"), 10**20, True, [], "2023-13-01", ""])
def test_messages_a_time_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInputError, match="message 1"):
        turns({"role": "user", "content": "x", "timestamp": value})


@each("value", [1_683_547_200_000, 1_683_547_200_123.4, 1_683_547_200_000_000, -1_683_547_200_000])
def test_messages_a_timestamp_in_milliseconds_is_refused_with_a_question(value: float) -> None:
    with pytest.raises(InvalidInputError, match=r"message 1.*is it in milliseconds\? A Unix time is in seconds"):
        turns({"role": "user", "content": "x", "timestamp": value})


def test_a_messages_time_is_the_first_that_is_there() -> None:
    (turn,) = turns({"role": "user", "content": "x", "timestamp": None, "create_time": 0})
    assert turn.time == datetime(1970, 1, 1, tzinfo=UTC)


@given(st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.datetimes(timezones=st.timezones()))
def test_messages_any_value_is_a_time_in_utc_or_refused(value: object) -> None:
    try:
        time = parse_time(value, "it")
    except InvalidInputError as error:
        assert str(error).startswith("it")  # noqa: PT017 - either of two ends is right
    else:
        assert time.tzinfo is UTC


# ── whose it is ───────────────────────────────────────────────────────────────────────────────────────────────────────


FORMS = [
    lambda **own: {"role": "user", "content": "x", **own},
    lambda **own: {"role": "user", "content": "x", "additional_kwargs": own},
    lambda **own: HumanMessage("x", additional_kwargs=own),
    lambda **own: HumanMessage("x", **own),
    lambda **own: AIMessageChunk(content="x", additional_kwargs=own),
]


@pytest.mark.parametrize("form", FORMS)
def test_a_message_that_names_its_owner_is_filed_for_nobody_else(form: Any) -> None:
    for own in ({"user_id": "ada"}, {"user_id": "ada", "run_id": "r", "agent_id": None}, {"user": "bob"}):
        assert turns(["fine", form(**own)])[1].text == "x"
    for field, value in [("user_id", "bob"), ("run_id", "s"), ("user_id", 7), ("user_id", ""), ("agent_id", "guide")]:
        with pytest.raises(InvalidInputError, match=f"message 2 names {field} .* or remove the field"):
            turns(["fine", form(**{field: value})])


# ── what is no message ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("messages", [None, 7, b"bytes", {"a", "b"}, iter(["x"]), object()])
def test_messages_what_is_no_conversation_is_refused(messages: object) -> None:
    with pytest.raises(InvalidInputError, match="messages must be a str, a message or a list"):
        turns(messages)


@each("message", [None, 7, b"x", ["nested"], object(), {}, {"name": "Ann"},
     {"role": "user", "content": 7}, {"role": "user", "content": [7]}, {"role": "pirate", "content": "arr"},
     {"role": 7, "content": "x"}, {"role": None, "content": "x"}, {"type": "pirate", "text": "arr"},
     {"role": "user", "content": "x", "name": 7}, {"role": "user", "content": "nul\x00"},
     {"role": "user", "content": ["nul\x00"]}, {"role": "user", "content": "lone\ud800"},
     {"role": "user", "content": "x", "name": "nul\x00"}, ChatMessage(content="x", role="narrator"), RemoveMessage("1"),
     ("pirate", "arr"), ("user",), ("user", "x", "y")])  # fmt: skip
def test_what_is_no_message_is_refused_by_its_number(message: object) -> None:
    with pytest.raises(InvalidInputError, match="message 2"):
        turns(["fine", message])


LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just(IMAGE)
PARTS = st.sampled_from(
    "type text source document data content toolUse toolResult functionCall transcript thought tool_use_id".split()
)
NAMES = PARTS | st.text(max_size=5)
VALUES = st.recursive(LEAVES, lambda p: st.lists(p, max_size=3) | st.dictionaries(NAMES, p, max_size=3))
KEYS = st.sampled_from(
    "role content name type timestamp tool_calls id text from value parts lc kwargs data output audio call_id".split()
)
WILD = st.dictionaries(
    KEYS,
    VALUES | st.sampled_from(["user", "ai", "tool", "human", "function_call", "reasoning", "tool_output"]),
    max_size=5,
)


@given(st.lists(WILD | VALUES | st.tuples(st.text(max_size=5), VALUES), max_size=3) | VALUES)
def test_messages_whatever_is_sent_is_read_or_refused_but_never_breaks(messages: object) -> None:
    try:
        said = turns(messages)
    except InvalidInputError:
        return
    assert all(turn.role in {"user", "assistant", "system", "tool"} and turn.actor for turn in said)
    assert all(turn.text or turn.notes for turn in said)


def test_add_reaches_parse_within_eight_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    depths: list[int] = []

    def counted(original: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            package = str(Path(langmem_adapter.__file__).parent)
            depths.append(sum(frame.filename.startswith(package) for frame in traceback.extract_stack()))
            return original(*args, **kwargs)

        return call

    for name in ("message_of", "_parsed"):
        monkeypatch.setattr(parse, name, counted(getattr(parse, name)))
    with Memory(":memory:") as memory:
        memory.add({"role": "user", "content": "I live in Rome"}, user_id="u")

    assert len(depths) == 2 and max(depths) <= 8
