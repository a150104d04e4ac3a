"""A reply of a chat model that cannot be used loses nothing: `on_bad_reply`, facts without a source, lists cut off."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage

from langmem_adapter.embedding.models import has_static_embeddings
from langmem_adapter.errors import InvalidInputError, ModelReplyError, ModelTimeoutError, ModelUnreachableError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.settings import Settings
from langmem_adapter.testing import ScriptedChatModel
from tests.cases import each

if TYPE_CHECKING:
    from langmem_adapter.records.results import AddResult


def facts(*items: Any) -> str:
    return json.dumps({"facts": items}, ensure_ascii=False)


def entry(event: str, fact: int = 0, number: str | None = None, text: str = "") -> dict[str, Any]:
    return {"fact": fact, "event": event, "id": number, "text": text}


def decision(*entries: dict[str, Any]) -> str:
    return json.dumps({"memory": entries})


def added(*replies: Any, message: Any = "Tom is a teacher.", known: tuple[str, ...] = (), **options: Any) -> AddResult:
    """The result of one add, and `known` behind it as it stands then."""
    context = options.pop("context", None)
    with Memory(":memory:", model=ScriptedChatModel(replies=replies), embeddings="hash:64", **options) as memory:
        for text in known:
            memory.add(text, user_id="u", infer=False)
        result = memory.add(message, user_id="u", context=context)
        texts = {item.text for item in memory.get_all(user_id="u")}
        assert {change.text for change in result.results if change.event in {"ADD", "UPDATE"}} <= texts
    return result


def events(result: AddResult) -> list[tuple[str, str]]:
    return [(change.event, change.text) for change in result.results]


TOM, ANA = "Tom is a teacher in Boston", "Ana is a nurse in Porto"
UNUSABLE = decision(entry("ADD", 0, "0", ANA), entry("UPDATE", 1, "1", TOM))
DELETES = decision(*(entry("DELETE", 0, str(number)) for number in range(4)))
MANY = tuple(f"Likes {name}" for name in ("tea", "jazz", "chess", "rain"))
DECISIONS: list[tuple[tuple[str, ...], str, list[str], list[tuple[str, str]]]] = [
    ((ANA,), facts(TOM), [UNUSABLE, UNUSABLE], [("ADD", TOM)]),
    ((ANA,), facts(TOM), ["no json", "no json"], [("ADD", TOM)]),
    ((ANA,), facts(TOM), [decision(entry("ADD", 0, "0", ANA))], [("ADD", TOM)]),
    ((ANA,), facts(TOM), [decision(entry("NONE", 0, "0"))] * 2, [("ADD", TOM)]),
    (
        ("Likes tea",),
        facts("Is allergic to tea"),
        [decision(entry("NONE", 0, "0"))] * 2,
        [("ADD", "Is allergic to tea")],
    ),
    ((ANA,), facts("Forget: Tom"), ["no json", "no json"], [("NONE", "Forget: Tom")]),
    (MANY, facts("Is bored"), [DELETES, DELETES], [("ADD", "Is bored")]),
    (MANY, facts("Forget: everything"), [DELETES], [("DELETE", text) for text in MANY]),
]


@each(("known", "found", "decided", "expected"), DECISIONS)
def test_on_bad_reply_a_decision_that_stays_unusable_loses_no_fact_and_no_memory(
    known: tuple[str, ...], found: str, decided: list[str], expected: list[tuple[str, str]]
) -> None:
    message = "Tom is a teacher in Boston. Tea makes me ill, I'm allergic. I'm bored. Forget everything, forget Tom."
    result = added(found, *decided, message=message, known=known)
    assert events(result) == expected
    if len(decided) > 1 and expected[0][0] == "ADD":
        assert result.results[0].reason


@pytest.mark.parametrize(("embeddings", "calls"), [("static", 1), ("hash:64", 2)])
def test_on_bad_reply_none_counts_where_embeddings_take_the_memory_for_the_same_statement(
    embeddings: str, calls: int
) -> None:
    if embeddings == "static" and not has_static_embeddings():
        pytest.skip("the extra static is not installed")
    none = decision(entry("NONE", 0, "0"))
    model = ScriptedChatModel(replies=[facts("Has a sibling called Tom"), none, none])
    with Memory(":memory:", model=model, embeddings=embeddings) as memory:
        memory.add("Brother is Tom", user_id="u", infer=False)
        (change,) = memory.add("I have a sibling called Tom.", user_id="u").results
    assert (change.event, len(model.calls)) == ("NONE" if calls == 1 else "ADD", 1 + calls)


def test_on_bad_reply_a_note_says_that_a_decision_could_not_be_used() -> None:
    result = added(facts(TOM), UNUSABLE, UNUSABLE, message="Tom is a teacher in Boston.", known=(ANA,))
    assert "what is new was added, and nothing was changed" in result.notes[0]
    assert result.usage.model_calls == 3


def test_on_bad_reply_raise_is_an_error_and_writes_nothing() -> None:
    for options in ({"on_bad_reply": "raise"}, {"settings": Settings(on_bad_reply="raise")}):
        model = ScriptedChatModel(replies=["no json", "no json"])
        with Memory(":memory:", model=model, embeddings="hash:64", **options) as memory:
            assert memory.settings.on_bad_reply == "raise"
            with pytest.raises(ModelReplyError):
                memory.add("I like tea.", user_id="u")
            assert memory.stats().memories == 0
    with pytest.raises(InvalidInputError, match="on_bad_reply': Input should be 'keep' or 'raise'"):
        Memory(":memory:", on_bad_reply="no")  # type: ignore[arg-type]


CUT = '{"facts": [{"text": "My name is Lena"}, {"text": "My name is Lena"}, {"text": "Likes tea"}, {"text": "Likes cof'
EXTRACTIONS: list[tuple[list[Any], list[tuple[str, bool]]]] = [
    (
        [AIMessage(CUT, response_metadata={"finish_reason": "length"})] * 2,
        [("My name is Lena", False), ("Likes tea", False)],
    ),
    (["no json"] * 2, [("Name is Lena", False), ("Tea is what keeps me going", True)]),
    (
        [AIMessage("", additional_kwargs={"refusal": "no"})],
        [("Name is Lena", False), ("Tea is what keeps me going", True)],
    ),
]


@each(("replies", "kept"), EXTRACTIONS)
def test_on_bad_reply_an_extraction_that_stays_unusable_keeps_complete_items_or_the_words_for_refine(
    replies: list[Any], kept: list[tuple[str, bool]]
) -> None:
    with Memory(
        ":memory:", model=ScriptedChatModel(replies=[*replies, "no json", "no json"]), embeddings="hash:64"
    ) as memory:
        result = memory.add("My name is Lena. Tea is what keeps me going.", user_id="u")
        assert "could not be used" in result.notes[0] and "send the same" not in result.notes[0]
        assert ("one repair" in result.notes[0]) is (result.usage.model_calls == 2)
        items = {item.text.rstrip("."): item.is_verbatim for item in memory.get_all(user_id="u")}
    assert items == dict(kept)


@each(("error", "kind"), [(TimeoutError("late"), ModelTimeoutError), (ConnectionError("down"), ModelUnreachableError)])
def test_on_bad_reply_an_unreachable_model_is_an_error_with_nothing_written(
    error: Exception, kind: type[Exception]
) -> None:
    with Memory(":memory:", model=ScriptedChatModel(replies=[error] * 3), embeddings="hash:64") as memory:
        with pytest.raises(kind):
            memory.add("I like tea.", user_id="u")
        assert memory.stats().memories == 0


# ── sources ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

LYON = "I am vegetarian and live in Lyon."
BOT = "I'm not a vegetarian, but I can help you with your questions."
SOURCES: list[tuple[Any, Any, list[Any], list[str]]] = [
    ([("user", LYON), ("assistant", BOT)], None, [BOT, "Lives in Lyon"], ["Lives in Lyon"]),
    ([("user", LYON), ("assistant", "Noted.")], None, [{"text": "Is a helpful bot", "turn": 1}], []),
    ("Yes, very much.", [("assistant", "Do you like jazz?")], ["Likes jazz"], ["Likes jazz"]),
    ("Exactly.", [("assistant", "So you can't eat cashews.")], ["Can't eat cashews"], ["Can't eat cashews"]),
    ("Thanks!", [("assistant", "Canberra is the capital. I can tell you more.")], ["Canberra is the capital"], []),
    ("I do.", [("user", "My sister plays the cello.")], ["Sister plays the cello"], []),
    ("She has a dog.", [("user", "My sister plays the cello.")], ["Sister has a dog"], ["Sister has a dog"]),
]


@each(("message", "context", "found", "kept"), SOURCES)
def test_on_bad_reply_a_fact_that_only_another_message_says_is_left_out_with_a_note(
    message: Any, context: Any, found: list[Any], kept: list[str]
) -> None:
    result = added(facts(*found), message=message, context=context)
    assert [change.text for change in result.results] == kept
    assert any("is not what the user says" in note for note in result.notes) == (len(kept) < len(found))


def test_on_bad_reply_an_example_of_the_users_own_prompt_is_no_fact() -> None:
    prompt = 'Find tastes.\nInput: I adore salmon with dill.\nOutput: {"facts": ["Adores salmon with dill"]}'
    replies = [facts("Adores salmon", "Likes tea")] * 2
    result = added(*replies, message="I like tea.", fact_extraction_prompt=prompt)
    assert [change.text for change in result.results] == ["Likes tea"]
    assert "is in the instructions to the model, and no message says it" in result.notes[0]
