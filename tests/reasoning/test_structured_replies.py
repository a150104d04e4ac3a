"""What weak models send, each with its outcome, asked in all three ways."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from langmem_adapter.errors import ModelReplyError
from langmem_adapter.reasoning.base import Comparison, DecideOutput, ExtractInput, KnownMemory
from langmem_adapter.reasoning.llm import LLMReasoner
from langmem_adapter.reasoning.replies import FactsReply, UnusableReplyError, json_values
from langmem_adapter.reasoning.structured_output import read_reply
from langmem_adapter.records.results import Fact, Turn
from langmem_adapter.testing import ScriptedChatModel
from tests.cases import each

if TYPE_CHECKING:
    from collections.abc import Sequence

Mode = Literal["json_schema", "tools", "plain"]
MODES: tuple[Mode, ...] = ("json_schema", "tools", "plain")
TURN = Turn("user", "I like tea, I have a dog.", "user", datetime(2026, 3, 4, tzinfo=UTC))
QUESTION = ExtractInput((TURN,), "user", date(2026, 3, 4))
GOOD = '{"facts": ["repaired"]}'
TEA, DOG = "Likes tea", "Has a dog"

READ: list[tuple[str, str, list[str]]] = [
    ("clean", '{"facts": ["Likes tea", "Has a dog"]}', [TEA, DOG]),
    ("none", '{"facts": []}', []),
    ("chinese", '{"facts": ["喜欢茶", "有一条狗"]}', ["喜欢茶", "有一条狗"]),
    ("fence", '```json\n{"facts": ["Likes tea"]}\n```', [TEA]),
    ("fence without language", '```\n{"facts": ["Likes tea"]}\n```', [TEA]),
    ("unclosed fence", '```json\n{"facts": ["Likes tea"]}', [TEA]),
    ("fence with prose", 'Sure, here you are:\n```json\n{"facts": ["Likes tea"]}\n```\nAnything else?', [TEA]),
    ("fence inside a fact", 'Here: {"facts": ["Writes ```code``` daily"]}', ["Writes ```code``` daily"]),
    ("think", '<think>The user {likes} tea.</think>{"facts": ["Likes tea"]}', [TEA]),
    ("think with a draft", '<think>{"facts": ["wrong"]}</think>\n{"facts": ["Likes tea"]}', [TEA]),
    ("think, opening tag in the template", 'maybe {"facts": ["wrong"]}\n</think>\n{"facts": ["Likes tea"]}', [TEA]),
    ("thinking in capitals", '<Thinking>hm</Thinking> {"facts": ["Likes tea"]}', [TEA]),
    ("think tag inside a fact", 'So: {"facts": ["Asked what </think> means"]}', ["Asked what </think> means"]),
    ("prose before", 'The facts are: {"facts": ["Likes tea"]}', [TEA]),
    ("prose after", '{"facts": ["Likes tea"]} Hope that helps!', [TEA]),
    ("brackets in prose", 'I found [1] fact (see [the list]): {"facts": ["Likes tea"]}', [TEA]),
    ("trailing comma", '{"facts": ["Likes tea", "Has a dog",],}', [TEA, DOG]),
    ("comment signs in a fact", '{"facts": ["See http://x.y/*z*/, ok",]}', ["See http://x.y/*z*/, ok"]),
    ("braces of a template", '{{"facts" : ["Likes tea"]}}', [TEA]),
    ("comments", '{"facts": ["Likes tea", // a drink\n "Has a dog" /* a pet */]}', [TEA, DOG]),
    ("raw newline in a string", '{"facts": ["Likes\ntea"]}', ["Likes\ntea"]),
    ("byte order mark", '\ufeff{"facts": ["Likes tea"]}', [TEA]),
    ("list as a string", '{"facts": "[\\"Likes tea\\", \\"Has a dog\\"]"}', [TEA, DOG]),
    ("null", '{"facts": null}', []),
    ("key in capitals", '{"FACTS": ["Likes tea"]}', [TEA]),
    ("more keys", '{"thoughts": "none", "facts": ["Likes tea"], "language": "en"}', [TEA]),
    ("objects", '{"facts": [{"fact": "Likes tea"}, {"text": "Has a dog", "kind": "pet"}]}', [TEA, DOG]),
    ("tool call as text", '{"name": "facts_found", "arguments": {"facts": ["Likes tea"]}}', [TEA]),
    ("said twice", '{"facts": ["Likes tea"]}\n{"facts": ["Likes tea"]}', [TEA]),
    ("equal facts", '{"facts": ["Likes tea", "likes  tea.", "Has a dog"]}', [TEA, DOG]),
    ("nulls and blanks among facts", '{"facts": [null, "Likes tea", "", "  "]}', [TEA]),
    (
        "a thousand facts",
        json.dumps({"facts": [f"Owns book {n}" for n in range(1000)]}),
        [f"Owns book {n}" for n in range(1000)],
    ),
]

REFUSED: list[tuple[str, str, str]] = [
    ("empty", "", "empty"),
    ("blank", "  \n", "empty"),
    ("text under two names", '{"facts": [{"fact": "Likes tea", "text": "Has a dog"}]}', 'one "text"'),
    ("a broken comment", '{"facts": ["Likes tea"] /* a drink }', "broken or not complete"),
    ("bad JSON with more behind it", '{"facts": ["Likes tea",]} or {"facts": ["Has a dog"]}', "more follows"),
    ("prose", "I could not find anything.", 'the key "facts"'),
    ("apology", "As a language model I cannot store memories.", 'the key "facts"'),
    ("no key", "{}", 'the key "facts"|empty'),
    ("another object", '{"answer": 42}', 'the key "facts"'),
    ("a number", "7", 'the key "facts"'),
    ("null root", "null", 'the key "facts"'),
    ("cut in a string", '{"facts": ["Likes tea", "Has a d', "broken or not complete"),
    ("cut between facts", '{"facts": ["Likes tea",', "broken or not complete"),
    ("cut with single quotes", "{'facts': ['Likes tea', 'Has a d", "broken or not complete"),
    ("cut in a list of objects", '[{"facts": ["Likes tea"]}, {"facts": ["Has a d', "broken or not complete"),
    ("cut in a list of python objects", "[{'facts': ['Likes tea']}, {'facts': ['Has a d", "broken or not complete"),
    ("cut in fenced lines", '{"fact": "Likes tea"}\n{"fact": "Has a', "broken or not complete"),
    ("missing comma", '{"facts": ["Likes tea" "Has a dog"]}', "broken or not complete"),
    ("unquoted fact", '{"facts": [Likes tea]}', "broken or not complete"),
    ("apostrophe in single quotes", "{'facts': ['She's fond of tea']}", "broken or not complete"),
    ("thoughts without end", '<think>Perhaps {"facts": ["Likes tea"]}', "thoughts"),
    ("two answers", '{"facts": ["Likes tea"]} or rather {"facts": ["Has a dog"]}', "several"),
    ("key twice", '{"facts": ["Likes tea"], "facts": ["Has a dog"]}', "twice"),
    ("key in two cases", '{"facts": ["Likes tea"], "Facts": ["Has a dog"]}', "case"),
    ("number as a fact", '{"facts": ["Likes tea", 7]}', 'one "text"'),
    ("list as a fact", '{"facts": [["Likes tea"]]}', "must be a string"),
    ("number as list", '{"facts": 3}', "valid list"),
    ("several lines as one", '{"facts": "- Likes tea\\n- Has a dog"}', "valid list"),
    ("attributes", '{"facts": {"drink": "tea", "pet": "dog"}}', "valid list"),
    ("the schema itself", '{"type": "object", "properties": {"facts": {"type": "array"}}}', 'the key "facts"'),
    ("NUL", '{"facts": ["Likes \\u0000 tea"]}', "NUL"),
    ("lone surrogate", '{"facts": ["Likes \\ud83d tea"]}', "valid string"),
    ("too many facts", json.dumps({"facts": [str(n) for n in range(1001)]}), "at most 1000"),
    ("a fact like a book", json.dumps({"facts": ["x" * 20_000]}), "at most 1000"),
    ("a megabyte", json.dumps({"facts": ["y" * 1_000_000]}), "500,000 are read|at most 10000"),
    ("two hundred thousand brackets", "[" * 210_000, "broken or not complete"),
    ("brackets without end", "[x] " * 1000, 'the key "facts"'),
    ("nested deeply", "[" * 5000 + "]" * 5000, "broken or not complete"),
    ("huge number", '{"facts": [' + "9" * 5000 + "]}", "broken or not complete"),
    ("not a number", '{"facts": [NaN]}', "broken or not complete|must be a string"),
    ("single quotes", "{'facts': ['Likes tea', 'Has a dog']}", "broken or not complete"),
    ("single quotes, escaped", "{'facts': ['It\\'s \"tea\" time']}", "broken or not complete"),
    ("mixed quotes", "{'facts': [\"She's fond of tea\"]}", "broken or not complete"),
    ("python constants", "{'facts': ['Likes tea'], 'done': True, 'error': None}", "broken or not complete"),
    ("bare keys", '{facts: ["Likes tea"]}', "broken or not complete"),
    ("encoded twice", json.dumps('{"facts": ["Likes tea"]}'), 'the key "facts"'),
    ("encoded three times", json.dumps(json.dumps('{"facts": ["Likes tea"]}')), 'the key "facts"'),
    ("one fact as a string", '{"facts": "Likes tea"}', "valid list"),
    ("list root", '["Likes tea", "Has a dog"]', 'the key "facts"'),
    ("empty list root", "[]", 'the key "facts"'),
    ("blank string", '{"facts": ""}', "valid list"),
    ("key fact", '{"fact": ["Likes tea"]}', 'the key "facts"'),
    ("key memories", '{"memories": ["Likes tea"]}', 'the key "facts"'),
    ("key results", '{"results": ["Likes tea"]}', 'the key "facts"'),
    ("one object", '{"facts": {"fact": "Likes tea"}}', "valid list"),
    ("by kind", '{"facts": {"tastes": ["Likes tea"], "personal": ["Has a dog"], "work": []}}', "valid list"),
    ("numbered", '{"facts": {"1": "Likes tea", "2": "Has a dog"}}', "valid list"),
    ("one object per line", '{"fact": "Likes tea"}\n{"fact": "Has a dog"}', 'the key "facts"'),
    ("wrapped", '{"response": {"facts": ["Likes tea"]}}', 'the key "facts"'),
    ("wrapped as a string", '{"output": "{\\"facts\\": [\\"Likes tea\\"]}"}', 'the key "facts"'),
    ("tool name as key", '{"facts_found": {"facts": ["Likes tea"]}}', 'the key "facts"'),
    ("in a list", '[{"facts": ["Likes tea"]}]', 'the key "facts"'),
    ("several in a list", '[{"facts": ["Likes tea"]}, {"facts": ["Has a dog"]}]', 'the key "facts"'),
]


def scripted(mode: Mode, replies: Sequence[Any]) -> tuple[ScriptedChatModel, LLMReasoner]:
    model = ScriptedChatModel(replies=[sent(mode, reply) for reply in replies], modes=mode)
    return model, LLMReasoner(model)


def sent(mode: Mode, reply: Any) -> Any:
    """As a client hands it over: JSON objects as tool calls where tools were asked for, all else as text."""
    if mode != "tools" or not isinstance(reply, str) or "\\ud" in reply:
        return reply
    try:
        arguments = json.loads(reply)
    except (ValueError, RecursionError):
        return reply
    if not isinstance(arguments, dict) or reply.count('"facts"') > 1:
        return reply
    return AIMessage("", tool_calls=[{"name": "facts_found", "args": arguments, "id": "1"}])


@pytest.mark.parametrize("mode", MODES)
@each(("reply", "facts"), [row[1:] for row in READ])
def test_model_salvaged_in_one_call(mode: Mode, reply: str, facts: list[str]) -> None:
    model, reasoner = scripted(mode, [reply])
    found = reasoner.extract.invoke(QUESTION)
    assert [fact.text for fact in found.facts] == facts
    assert len(model.calls) == found.usage.model_calls == 1


@pytest.mark.parametrize("mode", MODES)
@each(("reply", "problem"), [row[1:] for row in REFUSED])
def test_model_refused_told_why_and_repaired(mode: Mode, reply: str, problem: str) -> None:
    model, reasoner = scripted(mode, [reply, GOOD])
    found = reasoner.extract.invoke(QUESTION)
    assert [fact.text for fact in found.facts] == ["repaired"]
    first, second = model.calls
    assert found.usage.model_calls == 2
    assert second[: len(first)] == first
    quoted, told = second[len(first) :]
    assert len(str(quoted.content)) < 10_000
    assert told.content
    with pytest.raises(ModelReplyError, match=problem):
        scripted(mode, [reply, reply])[1].extract.invoke(QUESTION)


MESSAGES: list[tuple[str, AIMessage, list[str] | None]] = [
    (
        "text blocks",
        AIMessage([{"type": "text", "text": '{"facts": ['}, {"type": "text", "text": '"Likes tea"]}'}]),
        [TEA],
    ),
    (
        "reasoning block",
        AIMessage([{"type": "reasoning", "reasoning": "{draft"}, {"type": "text", "text": '{"facts": []}'}]),
        [],
    ),
    ("strings as blocks", AIMessage(['{"facts": ', '["Likes tea"]}']), [TEA]),
    (
        "other tool name",
        AIMessage("", tool_calls=[{"name": "FactsFound", "args": {"facts": ["Likes tea"]}, "id": "1"}]),
        [TEA],
    ),
    (
        "parallel calls",
        AIMessage("", tool_calls=[{"name": "f", "args": {"facts": [text]}, "id": text} for text in (TEA, DOG)]),
        [TEA, DOG],
    ),
    (
        "list inside a call as a string",
        AIMessage("", tool_calls=[{"name": "f", "args": {"facts": '["Likes tea"]'}, "id": "1"}]),
        [TEA],
    ),
    (
        "call without arguments",
        AIMessage('{"facts": ["Likes tea"]}', tool_calls=[{"name": "f", "args": {}, "id": "1"}]),
        [TEA],
    ),
    (
        "invalid call",
        AIMessage(
            "", invalid_tool_calls=[{"name": "f", "args": '{"facts": ["Likes tea",]}', "id": "1", "error": "no"}]
        ),
        [TEA],
    ),
    (
        "one good and one broken call",
        AIMessage(
            "",
            tool_calls=[{"name": "f", "args": {"facts": [TEA]}, "id": "1"}],
            invalid_tool_calls=[{"name": "f", "args": '{"facts": ["Has', "id": "2", "error": "no"}],
        ),
        None,
    ),
    (
        "complete though cut off later",
        AIMessage('{"facts": []} and', response_metadata={"finish_reason": "length"}),
        [],
    ),
    ("cut off", AIMessage('{"facts": ["L', response_metadata={"finish_reason": "length"}), None),
    ("cut off, anthropic", AIMessage("", response_metadata={"stop_reason": "max_tokens"}), None),
    (
        "cut off call that the client completed",
        AIMessage(
            "",
            tool_calls=[{"name": "f", "args": {"facts": [TEA]}, "id": "1"}],
            response_metadata={"done_reason": "length"},
        ),
        None,
    ),
]


@each(("message", "facts"), [row[1:] for row in MESSAGES])
def test_model_every_part_of_a_message_is_read(message: AIMessage, facts: list[str] | None) -> None:
    if facts is None:
        with pytest.raises(UnusableReplyError):
            read_reply(message, FactsReply)
    else:
        assert [item.text for item in read_reply(message, FactsReply).facts] == facts


@pytest.mark.parametrize(
    "message",
    [
        AIMessage("", additional_kwargs={"refusal": "I must not"}),
        AIMessage([{"type": "refusal", "refusal": "I must not"}]),
        AIMessage("", response_metadata={"finish_reason": "content_filter"}),
    ],
)
def test_model_a_refusal_is_final(message: AIMessage) -> None:
    model = ScriptedChatModel(replies=[message, GOOD])
    with pytest.raises(ModelReplyError, match="declined"):
        LLMReasoner(model).extract.invoke(QUESTION)
    assert len(model.calls) == 1


COMPARISON = Comparison(
    (Fact("Loves tea", 0), Fact("Has a cat", 0)), (KnownMemory(0, "Likes tea"), KnownMemory(1, "Has a dog"))
)
UPDATED = [("UPDATE", 0, "Loves tea"), ("ADD", None, "Has a cat")]
UPDATE = {"id": "0", "text": "Loves tea", "event": "UPDATE"}
ADD = {"id": "2", "text": "Has a cat", "event": "ADD"}
NONE = {"id": "1", "text": "Has a dog", "event": "NONE"}
DELETE = {"id": "1", "text": "Has a dog", "event": "DELETE"}


def outcomes(answer: DecideOutput) -> list[tuple[str, int | None, str]]:
    return [(decision.event, decision.number, decision.text) for decision in answer.decisions]


def memory(*entries: Any) -> str:
    return json.dumps({"memory": list(entries)}, ensure_ascii=False)


def but(entry: dict[str, str], **other: Any) -> dict[str, Any]:
    """The entry with other members; `...` takes one out."""
    return {key: value for key, value in {**entry, **other}.items() if value is not ...}


DECISIONS: list[tuple[str, str]] = [
    ("clean", memory(UPDATE, ADD)),
    ("numbers as ids", memory(but(UPDATE, id=0), but(ADD, id=2.0))),
    ("case of keys", memory({key.title(): value for key, value in UPDATE.items()}, ADD)),
    ("case of events", memory(but(UPDATE, event="update"), but(ADD, event=" Add "))),
    ("mem0's word for NONE", memory(but(NONE, event="NOOP"), UPDATE, ADD)),
    ("an invented id for ADD", memory(UPDATE, but(ADD, id="3f2b-new"))),
    ("the id of another for ADD", memory(UPDATE, but(ADD, id="1"))),
    ("no id for ADD", memory(UPDATE, but(ADD, id=...))),
    ("one entry, and a string", json.dumps({"memory": json.dumps([UPDATE, ADD])})),
    ("others listed", memory(UPDATE, NONE, ADD)),
    ("NONE of an unknown memory", memory(but(NONE, id="17"), UPDATE, ADD)),
    ("said twice", memory(UPDATE, UPDATE, ADD, ADD)),
    ("facts by number", memory(but(UPDATE, fact=0), but(ADD, fact="1"))),
    ("no numbers but null", memory(but(UPDATE, fact=None), but(ADD, fact="new"))),
    ("text left to the fact's number", memory(UPDATE, but(ADD, text=..., fact=1))),
    ("old text told", memory(but(UPDATE, old_memory="Likes tea"), but(ADD, old_memory=None))),
]
UNUSABLE: list[tuple[str, str, str]] = [
    ("fact numbers out of range", memory(but(UPDATE, fact=9), but(ADD, fact=-1)), "no fact 9.*no fact -1"),
    ("facts counted from 1", memory(but(UPDATE, fact=1), but(ADD, fact=2)), "no fact 2"),
    ("our own form", memory({"fact": 0, "event": "ADD", "id": "...", "text": "..."}, ADD), "in the instructions"),
    ("id out of range", memory(but(UPDATE, id="7"), ADD), "not among the memories"),
    ("negative id", memory(but(DELETE, id="-1"), ADD), "not among the memories"),
    ("invented id", memory(but(DELETE, id="3f2b"), ADD), "not among the memories"),
    ("no id", memory(but(UPDATE, id=...), ADD), "not among the memories"),
    ("digits of another script", memory(but(UPDATE, id="²"), ADD), "not among the memories"),
    ("unknown event", memory(but(UPDATE, event="DESTROY"), ADD), "Input should be 'ADD'"),
    ("no event", memory(but(UPDATE, event=...), ADD), "Field required"),
    ("update without text", memory(but(UPDATE, text=None), ADD), "no text"),
    ("add without text", memory(UPDATE, but(ADD, text=" ")), "no text"),
    ("changed twice", memory(UPDATE, but(UPDATE, text="Loves all tea"), ADD), "changed twice"),
    ("updated and deleted", memory(UPDATE, but(DELETE, id="0", text=""), ADD), "changed twice"),
    ("the old text of another", memory(but(UPDATE, id="1", old_memory="Likes tea"), ADD), "which one"),
    ("the text of another deleted", memory(but(DELETE, id="0"), ADD), "which one"),
    ("deleted and added again", memory(UPDATE, DELETE, but(ADD, text="has a dog.")), "added again"),
    ("an entry is a text", memory("Loves tea"), "valid dictionary"),
    ("the list is a number", '{"memory": 3}', "valid list"),
    ("NUL", memory(but(UPDATE, text="Loves \0"), ADD), "NUL"),
    ("a book", memory(but(UPDATE, text="x" * 20_000), ADD), "at most 1000"),
    ("six thousand entries", memory(*[{"id": "1", "event": "NONE"}] * 6_001), "at most 6000"),
    ("an addition nobody asked for", memory(UPDATE, ADD, but(ADD, text="Pays ransom gladly")), "names no fact"),
    ("a full stop behind an event", memory(UPDATE, but(ADD, event="Add.")), "Input should be 'ADD'"),
    ("synonyms", memory(but(UPDATE, event="MODIFY"), but(ADD, event="INSERT")), "Input should be 'ADD'"),
    (
        "other keys",
        memory(but(UPDATE, event=..., action="edit"), but(ADD, event=..., operation="create")),
        "Field required",
    ),
    ("text under memory", memory(but(UPDATE, text=..., memory="Loves tea"), ADD), "has no text"),
    ("chinese events", memory(but(UPDATE, event="更新"), but(ADD, event="新增")), "Input should be 'ADD'"),
    ("decorated ids", memory(but(UPDATE, id="#0"), but(ADD, id="[2]")), "not among the memories"),
    ("by id", json.dumps({"memory": {"0": but(UPDATE, id=...), "2": but(ADD, id=...)}}), "valid list"),
    ("entries as strings", memory(json.dumps(UPDATE), json.dumps(ADD)), "valid dictionary"),
    ("list root", json.dumps([UPDATE, ADD]), 'the key "memory"'),
    ("lines", f"{json.dumps(UPDATE)}\n{json.dumps(ADD)}", 'the key "memory"'),
    ("key results", json.dumps({"results": [UPDATE, ADD]}), 'the key "memory"'),
    ("python", repr({"memory": [UPDATE, ADD]}), "broken or not complete"),
    (
        "others listed in many words",
        memory(but(NONE, event="NO_CHANGE"), but(NONE, event="noop"), UPDATE, ADD),
        "Input should be 'ADD'",
    ),
    ("no event for nothing", memory(but(NONE, event=None), UPDATE, ADD), "Input should be 'ADD'"),
    ("the fact itself for its number", memory(UPDATE, but(ADD, text=..., fact="Has a cat")), "has no text"),
]


@pytest.mark.parametrize("mode", MODES)
@each("reply", [row[1] for row in DECISIONS])
def test_model_decisions_are_salvaged_in_one_call(mode: Mode, reply: str) -> None:
    model, reasoner = scripted(mode, [reply])
    answer = reasoner.decide.invoke(COMPARISON)
    assert outcomes(answer) == UPDATED
    assert len(model.calls) == 1


@pytest.mark.parametrize("mode", MODES)
@each(("reply", "problem"), [row[1:] for row in UNUSABLE])
def test_model_an_unusable_decision_is_told_why_and_then_an_error(mode: Mode, reply: str, problem: str) -> None:
    model, reasoner = scripted(mode, [reply, reply])
    with pytest.raises(ModelReplyError, match=problem):
        reasoner.decide.invoke(COMPARISON)
    assert len(model.calls) == 2
    answer = scripted(mode, [reply, memory(UPDATE, ADD)])[1].decide.invoke(COMPARISON)
    assert outcomes(answer) == UPDATED
    assert answer.usage.model_calls == 2


@given(st.text(max_size=300))
def test_model_no_text_whatever_raises_anything_but_our_error(text: str) -> None:
    with contextlib.suppress(UnusableReplyError):
        json_values(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_model_no_json_whatever_raises_anything_but_our_error(value: Any) -> None:
    for wrapped in (value, {"facts": value}, [value]):
        with contextlib.suppress(UnusableReplyError):
            read_reply(AIMessage(json.dumps(wrapped)), FactsReply)


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=40), max_size=6),
    st.data(),
)
def test_model_a_cut_reply_never_loses_a_fact_silently(facts: list[str], data: st.DataObject) -> None:
    whole = json.dumps({"facts": facts}, ensure_ascii=False)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with pytest.raises(UnusableReplyError):
        read_reply(AIMessage(cut), FactsReply)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40), max_size=6))
def test_model_prose_and_fences_around_do_not_change_the_facts(facts: list[str]) -> None:
    wanted = [fact.strip() for fact in facts if fact.strip()]
    reply = f"Here you are:\n```json\n{json.dumps({'facts': facts}, ensure_ascii=False)}\n```\nDone."
    assert [item.text for item in read_reply(AIMessage(reply), FactsReply).facts if item.text] == wanted
