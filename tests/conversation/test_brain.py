"""Brain memory: a conversation of any length within a fixed number of tokens."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler

from langmem_adapter import InvalidInputError, Memory, MemoryNotFoundError, ModelReplyError, Settings
from langmem_adapter.conversation import BrainMemory
from langmem_adapter.conversation.summaries import about_tokens
from langmem_adapter.testing import ScriptedChatModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

BUDGET = 400


def asked_for(messages: list[BaseMessage]) -> str:
    data = json.loads(str(messages[1].content).split("\n\n")[1])
    return str(data.get("text", data))


def scripted(answer: Callable[[str], str] = lambda text: f"So far: {text[:60]}", calls: int = 500) -> ScriptedChatModel:
    return ScriptedChatModel(replies=[lambda messages: answer(asked_for(messages))] * calls)


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory(":memory:") as opened:
        yield opened


@pytest.fixture
def thinking() -> Iterator[Callable[..., BrainMemory]]:
    """Makes brains on one database, with the model that the first of them is given."""
    with _brains(":memory:") as brain:
        yield brain


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.getfixturevalue("postgres_url")) if request.param == "postgres" else str(tmp_path / "m.db")


@pytest.fixture
def anywhere(where: str) -> Iterator[Callable[..., BrainMemory]]:
    """The same on a file and on a server, which lock in ways of their own."""
    with _brains(where) as brain:
        yield brain


@contextmanager
def _brains(url: str) -> Iterator[Callable[..., BrainMemory]]:
    opened: list[Memory] = []

    def brain(model: ScriptedChatModel | None = None) -> BrainMemory:
        if not opened:
            opened.append(Memory(url, model=model or scripted()))
        return BrainMemory(opened[0], "monday", user_id="alice", window=200, max_tokens=100)

    yield brain
    for each in opened:
        each.close()


def talk(brain: BrainMemory, turns: int = 100, first: int = 0) -> None:
    for number in range(first, first + turns):
        (brain.add_answer if number % 2 else brain.add_talk)(f"Lily number {number} has {number} green apples.")


# ── MetaGPT's own cases ──────────────────────────────────────────────────────────────────────────────────────────────


def test_e1_talks_and_answers_are_kept_and_saved(memory: Memory) -> None:
    """E1; what is saved is loaded into another conversation, for nothing needs to be saved in its own."""
    brain = BrainMemory(memory, "1", user_id="alice")
    assert not brain.is_history_available
    assert brain.history_text == ""
    spoken = AIMessage("talk", id="1", name="ann")
    assert brain.add_talk(spoken)
    assert brain.add_answer(HumanMessage("answer", id="2"))
    assert [(message.type, message.text, message.id) for message in brain.history] == [
        ("human", "talk", "1"),
        ("ai", "answer", "2"),
    ]
    assert spoken.type == "ai"
    assert brain.history[0].name == "ann"
    assert brain.exists("talk")
    assert not brain.exists("tal")
    assert BrainMemory.to_int("1", 0) == 1
    brain.last_talk = "AAA"
    assert brain.last_talk == "AAA"
    assert [brain.pop_last_talk(), brain.pop_last_talk(), brain.last_talk] == ["AAA", None, None]
    assert brain.is_history_available
    assert brain.history_text == "talk"
    copy = BrainMemory(memory, "2", user_id="alice")
    copy.loads(brain.dumps())
    assert copy.history == brain.history
    assert BrainMemory(memory, "1", user_id="alice").history == brain.history


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("[TALK]:Hello", ("TALK", "Hello")),
        ("Hello", (None, "Hello")),
        ("[TALK]Hello", (None, "[TALK]Hello")),
        ("[SKILL]: 画一个\n苹果\n", ("SKILL", "画一个\n苹果\n")),
    ],
)
def test_e2_h22_extract_info_reads_a_tag_and_every_line_behind_it(text: str, parts: tuple[str | None, str]) -> None:
    """H22: MetaGPT cut the text at its first line."""
    assert BrainMemory.extract_info(text) == parts


def test_e3_is_related_text1_text2_rewrite_summarize_and_get_title_without_a_model(memory: Memory) -> None:
    brain = BrainMemory(memory, "1", user_id="alice")
    brain.add_talk("Lily is a girl.\n" * 500)
    assert not brain.is_related("apple", "moon")
    assert "Lily" in brain.rewrite("apple Lily eating", "")
    title = brain.get_title()
    assert "Lily" in title
    assert brain.is_history_available
    assert brain.summarize().startswith("user: Lily is a girl.")
    assert brain.get_title()
    assert brain.is_history_available


def test_e4_loads_of_a_dict_is_dumped_again(memory: Memory) -> None:
    data = {
        "history": [{"type": "human", "data": {"content": "Can you draw an apple?", "type": "human"}}],
        "historical_summary": "Ann likes apples.",
        "knowledge": ["tulin is a scientist."],
        "last_talk": "Do you have a friend named Bob?",
    }
    brain = BrainMemory(memory, "1", user_id="alice")
    brain.loads(data)
    again = json.loads(brain.dumps())
    assert again["history"][0]["data"]["content"] == "Can you draw an apple?"
    assert {name: value for name, value in again.items() if name != "history"} == {
        name: value for name, value in data.items() if name != "history"
    }
    assert (brain.knowledge, brain.get_knowledge()) == (["tulin is a scientist."], "tulin is a scientist.")
    assert brain.pop_last_talk() == "Do you have a friend named Bob?"
    with pytest.raises(InvalidInputError, match="has begun already"):
        brain.loads(data)


@pytest.mark.parametrize(
    "data",
    [
        *("no JSON", "[" * 100_000, "[]", {}, {"history": 3}, json.dumps({"history": [], "knowledge": []})),
        {"history": [], "historical_summary": "", "knowledge": "apples", "last_talk": None},
    ],
    ids=range(7),
)
def test_loads_refuses_what_dumps_did_not_give(memory: Memory, data: Any) -> None:
    with pytest.raises(InvalidInputError, match="not what dumps gave"):
        BrainMemory(memory, "1", user_id="alice").loads(data)


# ── cases of ours ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_h10_no_mixture_of_ids_loses_anything(memory: Memory) -> None:
    """MetaGPT dropped every id that was no larger number than the last, and each uuid behind a number."""

    @settings(max_examples=settings().max_examples // 2)
    @given(st.lists(st.sampled_from(["1", "2", "3", "10", "b7", "f81d4fae7dec", None]), max_size=8))
    def holds(ids: list[str | None]) -> None:
        brain = BrainMemory(memory, uuid4().hex, user_id="alice")
        new = [brain.add_history(HumanMessage(f"{given} says so", id=given)) for given in ids]
        assert new == [given is None or given not in ids[:place] for place, given in enumerate(ids)]
        assert len(brain.history) == sum(new)

    holds()


def test_h10_what_is_summed_up_is_known_still(memory: Memory) -> None:
    brain = BrainMemory(memory, "1", user_id="alice")
    brain.add_talk(HumanMessage("one", id="7"))
    brain.summarize()
    assert not brain.add_talk(HumanMessage("one", id="7"))
    assert brain.history == []


def test_h11_a_title_changes_nothing_and_is_kept_until_its_source_changes(memory: Memory) -> None:
    """MetaGPT made a summary for it, cleared the history and forgot the title."""
    model = ScriptedChatModel(replies=['"Apples"', "Lily's pears"])
    with Memory(":memory:", model=model) as thinking:
        brain = BrainMemory(thinking, "1", user_id="alice")
        brain.add_talk("I like apples.")
        before = brain.dumps()
        assert [brain.get_title(), brain.get_title()] == ["Apples", "Apples"]
        assert brain.dumps() == before
        assert len(model.calls) == 1
        brain.set_history_summary("Lily likes pears.")
        assert [brain.get_title(), brain.get_title()] == ["Lily's pears", "Lily's pears"]
        assert [note.text for note in brain.notes("title")] == ["Apples", "Lily's pears"]


def test_h12_an_empty_conversation_has_no_summary_and_a_title(memory: Memory) -> None:
    brain = BrainMemory(memory, "1", user_id="alice")
    assert (brain.summarize(), brain.get_title(), brain.history_text, brain.context()) == ("", "New", "", [])
    assert brain.notes("summary") == brain.notes("title") == []


def test_h13_a_model_that_never_shortens_is_asked_twice_and_nothing_changes(
    thinking: Callable[..., BrainMemory],
) -> None:
    model = scripted(lambda text: text)
    brain = thinking(model)
    talk(brain)
    before = brain.dumps()
    for ask in (brain.summarize, brain.context):
        calls = len(model.calls)
        with pytest.raises(ModelReplyError, match="max_tokens"):
            ask(100)
        assert len(model.calls) == calls + 2
    assert brain.dumps() == before
    assert brain.notes("window") == brain.notes("summary") == []


@pytest.mark.parametrize("reply", ["", OSError("no such host"), "<think>…</think>"])
def test_h14_a_model_that_fails_changes_nothing(thinking: Callable[..., BrainMemory], reply: Any) -> None:
    steps: list[Any] = [lambda messages: asked_for(messages)[:40]] * 2
    brain = thinking(ScriptedChatModel(replies=[*steps, reply]))
    talk(brain)
    before = brain.dumps()
    with pytest.raises((ModelReplyError, OSError)):
        brain.summarize(100)
    assert brain.dumps() == before
    assert brain.notes("window") == []


def test_h15_a_dump_holds_no_setting_and_no_secret() -> None:
    settings = Settings(api_key="sk-secret", model="offline")
    with Memory(":memory:", settings=settings) as memory:
        brain = BrainMemory(memory, "1", user_id="alice")
        brain.add_talk("Hi")
        assert {*json.loads(brain.dumps())} == {"history", "historical_summary", "knowledge", "last_talk"}
        assert "secret" not in brain.dumps()


names = st.text(st.sampled_from("a:/%*?[]\\ 里"), max_size=5)


@given(st.tuples(names, names, names), st.tuples(names, names, names))
def test_h16_to_redis_key_gives_each_user_and_chat_id_its_own_key(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    assert (BrainMemory.to_redis_key(*one) == BrainMemory.to_redis_key(*other)) == (one == other)


def test_h21_whether_texts_are_related_is_judged_not_searched_for() -> None:
    replies = ['{"related": "UNTRUE"}', '{"related": "true"}', "FALSE, not TRUE", '{"related": false}']
    with Memory(":memory:", model=ScriptedChatModel(replies=replies)) as thinking:
        brain = BrainMemory(thinking, "1", user_id="alice")
        assert [brain.is_related("apple", "moon") for _ in range(3)] == [False, True, False]


def test_h23_of_two_writers_none_loses_anything(anywhere: Callable[..., BrainMemory]) -> None:
    """Both sum up the same at once; one commits, the other sees that and begins again."""
    together = threading.Barrier(2, timeout=20)
    first = threading.local()

    def answer(text: str) -> str:
        if not hasattr(first, "met"):  # each thread's first call waits for the other's
            first.met = True
            together.wait()
        return f"So far: {text[:40]}"

    model = scripted(answer)
    brain = anywhere(model)
    talk(brain, 20)
    with ThreadPoolExecutor(2) as threads:
        one, other = (threads.submit(anywhere(model).summarize, 60) for _ in range(2))
        texts = {one.result(), other.result()}
    assert len(texts) == 1
    (note,) = brain.notes("summary")
    assert (note.covers_from, note.covers_to, note.text) == (1, 20, brain.historical_summary)
    windows = brain.notes("window")
    assert (windows[0].covers_from, windows[-1].covers_to) == (1, 20)
    assert all(one.covers_to + 1 == other.covers_from for one, other in pairwise(windows))


def test_h23_writers_on_one_chat_lose_no_message(anywhere: Callable[..., BrainMemory]) -> None:
    anywhere()

    def work(writer: int) -> None:
        brain = anywhere()
        for number in range(12):
            brain.add_talk(HumanMessage(f"Writer {writer} says number {number} of many.", id=f"{writer}-{number}"))
            if number % 6 == writer:
                brain.summarize(60)

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(work, range(3)))
    brain = anywhere()
    brain.summarize(60)
    covered = [position for note in brain.notes("window") for position in range(note.covers_from, note.covers_to + 1)]
    assert len(covered) == len({*covered})
    assert brain.notes("summary")[-1].covers_to == 36
    assert brain.history == []


# ── context ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_context_fits_at_every_turn_and_ends_with_the_latest(thinking: Callable[..., BrainMemory]) -> None:
    brain = thinking()
    for number in range(60):
        text = f"Number {number} of {'apples ' * (number % 17)}"
        brain.add_talk(text)
        context = brain.context(BUDGET)
        assert about_tokens(context) <= BUDGET
        assert context[-1].text == text
        shown = context[1:] if isinstance(context[0], SystemMessage) else context
        assert [message.text for message in shown] == [message.text for message in brain.history]
    last = brain.notes("summary")[-1]
    assert (last.covers_from, last.covers_to) == (1, 60 - len(brain.history))


def test_what_is_read_does_not_grow_with_the_conversation(memory: Memory) -> None:
    brain = BrainMemory(memory, "1", user_id="alice", window=200, max_tokens=100)
    lengths = []
    for number in range(80):
        brain.add_talk(f"Number {number} of many apples.")
        brain.context(BUDGET)
        lengths.append(len(brain.history))
    assert max(lengths[40:]) <= max(lengths[:40])


def call(number: int) -> list[BaseMessage]:
    wanted = {"name": "look_up", "args": {"city": f"city {number}"}, "id": f"c{number}"}
    return [AIMessage("", tool_calls=[wanted]), ToolMessage("sunny " * 5, tool_call_id=f"c{number}", name="look_up")]


def test_calls_of_tools_are_never_parted_from_their_answers(memory: Memory) -> None:
    @settings(max_examples=settings().max_examples // 5)
    @given(st.lists(st.sampled_from(["talk", "call", "two"]), min_size=5, max_size=25), st.integers(300, 500))
    def holds(kinds: list[str], budget: int) -> None:
        brain = BrainMemory(memory, uuid4().hex, user_id="alice", window=200, max_tokens=100)
        for number, kind in enumerate(kinds):
            two = [*call(number), *call(-number - 1)]
            said: dict[str, list[BaseMessage]] = {
                "talk": [HumanMessage("Weather? " * 5)],
                "call": two[:2],
                "two": two,
            }
            for message in said[kind]:
                brain.add_history(message)
                context = brain.context(budget)
                assert about_tokens(context) <= budget
                asked = {one["id"] for each in context if isinstance(each, AIMessage) for one in each.tool_calls}
                assert {each.tool_call_id for each in context if isinstance(each, ToolMessage)} <= asked

    holds()


def test_an_answer_that_comes_when_its_call_is_summed_up_is_told_as_text(memory: Memory) -> None:
    brain = BrainMemory(memory, "late", user_id="alice", window=200, max_tokens=100)
    wanted, answer = call(1)
    brain.add_history(wanted)
    talk(brain, 60)
    brain.context(BUDGET)
    assert wanted not in brain.history
    brain.add_history(answer)
    latest = brain.context(BUDGET)[-1]
    assert isinstance(latest, HumanMessage)
    assert latest.text.startswith("look_up: sunny")
    assert brain.history[-1].text == answer.text  # as it was said


def test_a_call_that_waits_for_its_answer_is_not_summed_up(memory: Memory) -> None:
    brain = BrainMemory(memory, "1", user_id="alice", window=200, max_tokens=100)
    talk(brain, 30)
    wanted, answer = call(1)
    wanted = wanted.model_copy(update={"content": "Let me see. " * 50})
    brain.add_history(wanted)
    assert brain.context(BUDGET)[-1] == wanted
    assert brain.summarize()
    assert brain.history == [wanted]
    brain.add_history(answer)
    assert brain.context(BUDGET)[-2:] == [wanted, answer]
    brain.summarize()
    assert brain.history == []


def test_a_call_that_waits_and_does_not_fit_is_told(memory: Memory) -> None:
    brain = BrainMemory(memory, "1", user_id="alice")
    brain.add_history(AIMessage("", tool_calls=[{"name": "look_up", "args": {"text": "x" * 4_000}, "id": "1"}]))
    with pytest.raises(InvalidInputError, match="waits for its tool"):
        brain.context(BUDGET)


def test_one_message_longer_than_the_budget_is_summed_up_in_parts(thinking: Callable[..., BrainMemory]) -> None:
    brain = thinking()
    brain.add_talk("Lily has a green apple. " * 500)
    context = brain.context(BUDGET)
    assert [message.type for message in context] == ["system"]
    assert len(brain.notes("window")) > 1
    assert {(note.covers_from, note.covers_to) for note in brain.notes("window")} == {(1, 1)}


@pytest.mark.parametrize(
    "text", ["莉莉有很多绿色的苹果，住在杭州的西湖边。", "Lily has many green apples at the lake."]
)
def test_chinese_works_as_english_does(memory: Memory, text: str) -> None:
    brain = BrainMemory(memory, "1", user_id="爱丽丝", window=200, max_tokens=100)
    for number in range(60):
        brain.add_talk(f"{number}. {text}")
    context = brain.context(BUDGET)
    assert about_tokens(context) <= BUDGET
    assert text in context[0].text
    assert brain.get_title() in text
    assert brain.is_related(text, f"{text} 0")


def letters(messages: list[BaseMessage]) -> int:
    return sum(len(message.text) for message in messages)


SAID = st.lists(st.sampled_from(["苹果", "apples", "😀", "are green."]), min_size=1, max_size=90).map(" ".join)


@pytest.mark.parametrize("count", [about_tokens, letters])
def test_a_title_is_made_of_a_beginning_as_long_as_the_count_allows(count: Any) -> None:
    model = scripted(calls=1_000)

    @given(st.lists(SAID, min_size=1, max_size=9))
    def holds(said: list[str]) -> None:
        brain = BrainMemory(opened, uuid4().hex, user_id="alice", max_tokens=100, count_tokens=count)
        for text in said:
            brain.add_talk(text)
        assert brain.get_title()
        whole, shown = "\n".join(f"user: {text}" for text in said), asked_for(model.calls[-1])
        assert whole.startswith(shown)
        assert count([HumanMessage(shown)]) <= 100
        assert count([HumanMessage(shown)]) > 90 or shown == whole

    with Memory(":memory:", model=model) as opened:
        holds()


# ── summaries ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_below_the_limit_all_of_it_is_given_as_it_is(memory: Memory) -> None:
    brain = BrainMemory(memory, "1", user_id="alice")
    brain.add_talk("I like tea.")
    assert brain.summarize(limit=1_000) == "user: I like tea."
    assert len(brain.history) == 1
    assert brain.summarize() == "user: I like tea."
    assert brain.history == []
    assert brain.notes("summary")[0].made_by == ""


def test_the_running_summary_goes_into_the_next_one(thinking: Callable[..., BrainMemory]) -> None:
    brain = thinking()
    talk(brain, 30)
    first = brain.summarize(60)
    talk(brain, 30, first=30)
    second = brain.summarize(60)
    assert first != second
    one, other = brain.notes("summary")
    assert [(one.covers_from, one.covers_to), (other.covers_from, other.covers_to)] == [(1, 30), (1, 60)]
    assert {note.made_by for note in brain.notes("window")} == {"scripted"}
    assert one.source != other.source
    assert brain.summarize(60) == second
    assert len(brain.notes("summary")) == 2


def test_set_history_summary_covers_all_messages(memory: Memory) -> None:
    brain = BrainMemory(memory, "1", user_id="alice")
    brain.add_talk("I like tea.")
    brain.set_history_summary("Alice likes tea.")
    brain.set_history_summary("Alice likes tea.")
    assert (brain.history, brain.historical_summary) == ([], "Alice likes tea.")
    assert [(note.covers_from, note.covers_to, note.made_by) for note in brain.notes("summary")] == [(1, 1, "")]
    brain.add_talk("And milk.")
    brain.add_answer("Fine.")
    assert brain.history_text == "Alice likes tea.\nAnd milk."


def test_a_model_may_think_what_no_database_keeps(anywhere: Callable[..., BrainMemory]) -> None:
    brain = anywhere(ScriptedChatModel(replies=[AIMessage("<think>\x00\ud800</think>So far.")] * 100))
    talk(brain)
    assert "So far." in brain.context(BUDGET)[0].text


def test_summaries_and_titles_leave_traces() -> None:
    model = ScriptedChatModel(replies=[*[lambda messages: asked_for(messages)[:60]] * 4, "Lily"])
    with Memory(":memory:", model=model) as memory:
        brain = BrainMemory(memory, "1", user_id="alice", window=200, max_tokens=100)
        talk(brain, 60)
        brain.summarize(60)
        trace = memory.trace(brain.notes("summary")[0].trace_id, user_id="alice")
        assert [turn.text for turn in trace.turns][:1] == ["Lily number 0 has 0 green apples."]
        assert len(trace.turns) == 60
        assert [call.task for call in trace.calls] == ["summarize"] * 4
        assert trace.result.usage.model_calls == len(model.calls) == 4
        assert brain.get_title() == memory.trace(brain.notes("title")[0].trace_id).calls[0].reply == "Lily"
        with pytest.raises(MemoryNotFoundError):
            memory.trace(brain.notes("summary")[0].trace_id, user_id="bob")


def test_a_summary_is_one_run_with_its_calls_below() -> None:
    """Inside of a program that is traced, as an agent or a chain is."""
    with Memory(":memory:", model=scripted()) as thinking:
        brain = BrainMemory(thinking, "1", user_id="alice", window=200, max_tokens=100)
        talk(brain, 30)
        program: RunnableLambda[None, list[str]] = RunnableLambda(
            lambda _: [brain.summarize(60), brain.get_title(), brain.rewrite("Hers?", "A dog.")]
        )
        collector = RunCollectorCallbackHandler()
        summary, *_ = program.invoke(None, {"callbacks": [collector]})
    runs = collector.traced_runs[0].child_runs
    assert [run.name for run in runs] == ["brain.summarize", "brain.get_title", "brain.rewrite"]
    assert [{child.name for child in run.child_runs} for run in runs] == [{"summarize"}, {"give a title"}, {"rewrite"}]
    assert runs[0].outputs == {"summary": summary}
    assert runs[0].extra["metadata"]["user_id"] == "alice"


def test_what_is_purged_meanwhile_is_not_kept(where: str) -> None:
    """The model answers after the purge: no summary of what was erased may come back, nor a title."""

    def purging(messages: list[BaseMessage]) -> str:
        opened.purge(user_id="alice")
        return "Alice has a secret."

    with Memory(where, model=ScriptedChatModel(replies=[purging] * 3)) as opened:
        brain = BrainMemory(opened, "1", user_id="alice", window=200, max_tokens=100)
        talk(brain, 12)
        assert brain.summarize(30) == ""
        brain.add_talk("I have a secret.")
        brain.get_title()
        assert brain.notes("title") == brain.notes("summary") == []
        assert opened.purge(user_id="alice").notes == 0


def test_a_purge_takes_notes_and_traces_with_it(memory: Memory) -> None:
    brain = BrainMemory(memory, "1", user_id="alice", window=200, max_tokens=100)
    talk(brain)
    brain.context(BUDGET)
    brain.get_title()
    trace = brain.notes("summary")[0].trace_id
    erased = memory.purge(user_id="alice")
    assert erased.notes > 2
    assert erased.traces == 2
    assert brain.context() == []
    with pytest.raises(MemoryNotFoundError):
        memory.trace(trace)


@pytest.mark.parametrize(
    "arguments", [{"window": 10}, {"max_tokens": 0}, {"window": "many"}, {"max_tokens": True}], ids=str
)
def test_max_words_window_and_max_tokens_out_of_range_are_refused(memory: Memory, arguments: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"window|max_tokens"):
        BrainMemory(memory, "1", user_id="alice", **arguments)
    with pytest.raises(InvalidInputError, match="max_tokens"):
        BrainMemory(memory, "1", user_id="alice").context(5)
