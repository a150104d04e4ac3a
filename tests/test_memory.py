"""`Memory` through its public names, on every kind of database."""

from __future__ import annotations

import asyncio
import inspect
import json
import shutil
import sqlite3
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.errors import (
    EmbeddingMismatchError,
    FilterError,
    InvalidInputError,
    MemoryNotFoundError,
    ScopeError,
    StorageError,
    UnknownArgumentError,
)
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.results import AddResult
from langmem_adapter.testing import CountingEmbeddings, ScriptedChatModel
from tests.cases import each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SISTER = ["Hi, my name is Desmond.", "I have a sister.", "Her name is Jesica.", "She has a dog."]


@pytest.fixture
def memory(database_url: str) -> Iterator[Memory]:
    with Memory(database_url) as opened:
        yield opened


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def untouched(request: pytest.FixtureRequest, shared_url: Callable[[str], str]) -> Iterator[Memory]:
    """One for all tests that write nothing."""
    with Memory(shared_url(request.param)) as opened:
        yield opened


def texts(memory: Memory, **scope: Any) -> set[str]:
    return {item.text for item in memory.get_all(**scope)}


def written(memory: Memory) -> tuple[int, int, int]:
    stats = memory.stats()
    return stats.memories, stats.revisions, stats.changes


# ── seed 001 ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def seed_answer(messages: list[Any]) -> str:
    """Replies in the seed's formats and knows no more than it is shown: "She has a dog." gives "Has a dog"."""
    shown = json.loads(next(line for line in str(messages[-1].content).splitlines() if line.startswith("{")))
    if "conversation" in shown:
        said = shown["conversation"][0]["text"]
        found = {"Desmond": "Name is Desmond", "Jesica": "Name is Jesica", "sister": "Has a sister", "dog": "Has a dog"}
        return json.dumps({"facts": [next(fact for word, fact in found.items() if word in said)]})
    known = {memory["text"]: memory["id"] for memory in shown["memories"]}
    if shown["facts"][0]["text"] == "Name is Jesica":
        entry = {
            "id": known["Has a sister"],
            "text": "Has a sister named Jesica",
            "event": "UPDATE",
            "old_memory": "Has a sister",
        }
    else:
        text = shown["facts"][0]["text"]
        assert "Has a sister named Jesica" in known or text != "Has a dog"
        entry = {"id": "9", "text": text.replace("Has a dog", "Jesica has a dog"), "event": "ADD"}
    kept = [{"id": number, "text": text, "event": "NONE"} for text, number in known.items() if number != entry["id"]]
    return json.dumps({"memory": [*kept, entry]})


def test_the_seeds_dialogue_gives_the_seeds_four_history_rows(tmp_path: Path) -> None:
    model = ScriptedChatModel(replies=[seed_answer] * 8)
    with Memory(tmp_path / "m.db", model=model) as memory:
        for message in SISTER:
            memory.add(message, user_id="desmond")
    assert len(model.calls) == 2 * len(SISTER) - 1  # no decision where nothing is known
    connection = sqlite3.connect(tmp_path / "m.db")
    rows = connection.execute("select memory_id, old_memory, new_memory, event from history").fetchall()
    connection.close()
    assert [row[1:] for row in rows] == [
        (None, "Name is Desmond", "ADD"),
        (None, "Has a sister", "ADD"),
        ("Has a sister", "Has a sister named Jesica", "UPDATE"),
        (None, "Jesica has a dog", "ADD"),
    ]
    assert rows[1][0] == rows[2][0]
    assert len({row[0] for row in rows}) == 3


def test_the_same_dialogue_offline_ends_in_the_same_three_memories(memory: Memory) -> None:
    for message in SISTER:
        memory.add(message, user_id="desmond")
    assert texts(memory, user_id="desmond") == {"Name is Desmond", "Has a sister named Jesica", "Jesica has a dog"}


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("Hi.", []),
        ("你好。", []),
        ("Hi, my name is John. I am a software engineer.", ["Name is John", "Is a software engineer"]),
        ("你好，我叫John。我是一名软件工程师。", ["名字是John", "是一名软件工程师"]),
        ("Yesterday, I had a meeting with John. We danced.", ["Yesterday, I had a meeting with John. We danced."]),
        ("昨天，我下午3点和John开了会。", ["昨天，我下午3点和John开了会。"]),
    ],
)
def test_add_offline_keeps_what_is_stated(memory: Memory, said: str, kept: list[str]) -> None:
    result = memory.add(said, user_id="u")
    assert [change.text for change in result.results] == kept
    assert bool(result.notes) == (not kept)
    assert {item.text: item.is_verbatim for item in memory.get_all(user_id="u")} == {
        text: text == said for text in kept
    }


# ── scopes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("call", ["add", "search", "get_all", "delete_all"])
def test_without_a_scope_the_fix_is_named_and_nothing_is_written(memory: Memory, call: str) -> None:
    before = written(memory)
    arguments = ["I like tea."] if call in {"add", "search"} else []
    with pytest.raises(ScopeError, match="user_id is missing"):
        getattr(memory, call)(*arguments)
    for blank in ("", "   ", "\t"):
        with pytest.raises(ScopeError, match="blank"):
            getattr(memory, call)(*arguments, user_id=blank)
    with pytest.raises(ScopeError, match="str"):
        getattr(memory, call)(*arguments, user_id=7)
    assert written(memory) == before


def test_named_fields_must_be_equal_and_unnamed_ones_are_free(memory: Memory) -> None:
    memory.add("I like tea.", user_id="a", infer=False)
    memory.add("I like coffee.", user_id="a", agent_id="g", infer=False)
    memory.add("I like milk.", user_id="a", agent_id="g", run_id="r", infer=False)
    assert len(memory.get_all(user_id="a")) == 3
    assert len(memory.get_all(agent_id="g")) == 2
    assert texts(memory, user_id="a", run_id="r") == {"I like milk."}
    assert memory.search("milk", run_id="r")[0].item.scope.named == {"user_id": "a", "agent_id": "g", "run_id": "r"}
    assert not memory.search("milk", user_id="a", agent_id="other")


def test_an_add_compares_within_the_fields_it_was_given(memory: Memory) -> None:
    (first,) = memory.add("I live in Paris.", user_id="a", run_id="monday").results
    (second,) = memory.add("I live in Rome.", user_id="a").results
    assert (second.event, second.id, second.previous_text) == ("UPDATE", first.id, "Lives in Paris")
    assert memory.get(str(first.id)).scope.run_id == "monday"
    assert memory.add("I live in Oslo.", user_id="a", run_id="tuesday").results[0].event == "ADD"


# ── adding ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_outcome_has_a_reason(memory: Memory) -> None:
    told = [
        memory.add(text, user_id="a").results
        for text in (
            "I love cheese pizza.",
            "I love cheese pizza!",
            "I live in Paris.",
            "I live in Rome.",
            "I hate cheese pizza.",
        )
    ]
    assert [[change.event for change in changes] for changes in told] == [
        ["ADD"],
        ["NONE"],
        ["ADD"],
        ["UPDATE"],
        ["DELETE", "ADD"],
    ]
    assert all(change.reason for changes in told for change in changes)
    assert texts(memory, user_id="a") == {"Lives in Rome", "Hates cheese pizza"}


def test_verbatim_turns_are_kept_as_said_one_change_each(memory: Memory) -> None:
    said = [
        SystemMessage("be kind"),
        HumanMessage("I like tea.", name="Ann"),
        AIMessage("Good to know."),
        {"role": "user", "content": "I like tea.", "timestamp": "2024-05-01T10:00:00+02:00"},
    ]
    result = memory.add(said, user_id="a", infer=False, metadata={"source": "chat"}, timestamp="2023-01-02")
    assert [change.event for change in result.results] == ["ADD"] * 3
    assert result.notes == ("system messages are never stored",)
    items = [memory.get(str(change.id)) for change in result.results]
    assert [(i.text, i.role, i.actor_id) for i in items] == [
        ("I like tea.", "user", "Ann"),
        ("Good to know.", "assistant", "assistant"),
        ("I like tea.", "user", "user"),
    ]
    assert [i.created_at for i in items[1:]] == [datetime(2023, 1, 2, tzinfo=UTC), datetime(2024, 5, 1, 8, tzinfo=UTC)]
    assert {i.metadata["source"] for i in items} == {"chat"}


def test_the_assistant_is_the_subject_where_an_agent_speaks(memory: Memory) -> None:
    said = [{"role": "user", "content": "I am John."}, {"role": "assistant", "content": "I am Alex."}]
    assert [c.text for c in memory.add(said, agent_id="g").results] == ["Name is Alex"]
    assert [c.text for c in memory.add(said, user_id="u").results] == ["Name is John"]


def test_images_are_named_and_not_silently_lost(memory: Memory) -> None:
    parts = [
        {"type": "text", "text": "I like this."},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
    ]
    assert any("image" in note for note in memory.add({"role": "user", "content": parts}, user_id="a").notes)
    lone = memory.add({"role": "user", "content": parts[1]}, user_id="a")
    assert "an image in message 1 was not looked at" in lone.notes[0]


@each("messages", [None, "", "  \n", [], [None], 7, b"bytes", [{"role": "user"}], [{"role": "user", "content": None}],
     [{"role": "pirate", "content": "arr"}], ["", " "], {"role": "user", "content": "nul \x00"},
     {"role": "user", "content": "lone \ud800"}, [{"role": "user", "content": "x", "timestamp": "soon"}]])  # fmt: skip
def test_messages_that_are_none_are_refused_and_nothing_is_written(untouched: Memory, messages: object) -> None:
    for infer in (True, False):
        with pytest.raises(InvalidInputError):
            untouched.add(messages, user_id="a", infer=infer)
    assert written(untouched) == (0, 0, 0)


@each("arguments", [{"metadata": {"x": float("nan")}}, {"metadata": {1: "x"}}, {"metadata": {"x": object()}}, {"metadata": "x"},
     {"metadata": {"x": "nul \x00"}}, {"expires_at": "tomorrow"}, {"timestamp": True}, {"infer": "yes"},
     {"idempotency_key": " "}, {"prompt": 7}, {"metadata": {"x": float("inf")}}])  # fmt: skip
def test_bad_arguments_of_add_are_refused_and_nothing_is_written(untouched: Memory, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        untouched.add("I like tea.", user_id="a", **arguments)
    assert written(untouched) == (0, 0, 0)


def test_metadata_may_be_deep_but_not_bottomless(memory: Memory) -> None:
    deep: dict[str, Any] = {}
    for _ in range(50_000):
        deep = {"d": deep}
    with pytest.raises(InvalidInputError, match="deep"):
        memory.add("I like tea.", user_id="a", metadata=deep)


def test_unknown_arguments_are_named_with_what_was_meant(memory: Memory) -> None:
    call: Any = memory.search
    with pytest.raises(UnknownArgumentError, match="did you mean 'user_id'"):
        call("tea", user="a")
    for name in ("limit", "top_k"):
        with pytest.raises(TypeError, match=f"no argument '{name}'; did you mean 'k'"):
            call("tea", user_id="a", **{name: 3})


def test_a_named_add_happens_once(memory: Memory) -> None:
    first = memory.add("I like tea.", user_id="a", idempotency_key="request-1")
    again = memory.add("I like something else.", user_id="a", idempotency_key="request-1")
    assert (again.results, written(memory)) == (first.results, (1, 1, 1))
    assert memory.add("I like milk.", user_id="b", idempotency_key="request-1").results[0].text == "Likes milk"


def test_many_adds_give_a_result_or_an_error_each_in_order(memory: Memory) -> None:
    items = [
        {"messages": "I like tea.", "user_id": "a"},
        {"messages": "I like tea."},
        {"messages": "I like milk.", "user_id": "b", "metadata": {"n": 1}},
        {"messages": "", "user_id": "a"},
        {"messages": "I live in Rome.", "user_id": "a", "metadata": {"n": 2}},
        {"messages": "I like tea!", "user_id": "a"},
        "no mapping",
        {"messages": "x", "user_id": "a", "colour": 1},
    ]
    got = memory.add_many(items)  # type: ignore[arg-type]
    assert [type(result).__name__ for result in got] == [
        "AddResult", "ScopeError", "AddResult", "InvalidInputError", "AddResult", "AddResult", "InvalidInputError",
        "UnknownArgumentError",
    ]  # fmt: skip
    events = [[change.event for change in result.results] for result in got if isinstance(result, AddResult)]
    assert events == [["ADD"], ["ADD"], ["ADD"], ["NONE"]]
    assert [item.metadata for item in memory.get_all(user_id="a", filters={"n": 2})] == [{"n": 2}]
    assert memory.add_many([]) == []
    assert [str(got[place]).split(": ", 2)[:2] for place in (1, 3, 6, 7)] == [
        ["add_many", f"item {place + 1}"] for place in (1, 3, 6, 7)
    ]
    assert str(got[6]) == "add_many: item 7: give a mapping of add's arguments, not a str"


def test_many_verbatim_adds_of_a_scope_are_one_transaction(memory: Memory) -> None:
    got = memory.add_many([{"messages": f"turn {i}", "user_id": "a", "infer": False} for i in range(100)])
    assert len(got) == 100
    assert len({change.id for result in got if isinstance(result, AddResult) for change in result.results}) == 100
    assert memory.parts.database.commits <= 3


def test_a_chat_model_that_fails_leaves_nothing_behind(memory: Memory, database_url: str) -> None:
    model = ScriptedChatModel(replies=["no json at all", "still none"])
    with Memory(":memory:", model=model, on_bad_reply="raise") as other:
        with pytest.raises(ValueError, match="reply"):
            other.add("I like tea.", user_id="a")
        assert written(other) == (0, 0, 0)
    with Memory(":memory:", model=ScriptedChatModel(replies=[ConnectionError("down")] * 3)) as other:
        with pytest.raises(ConnectionError):
            other.add("I like tea.", user_id="a")
        assert written(other) == (0, 0, 0)


def test_the_texts_of_an_add_are_embedded_in_one_batch() -> None:
    counting = CountingEmbeddings(HashEmbeddings(64))
    with Memory(":memory:", embeddings=counting) as memory:
        memory.add("I like tea. I live in Rome. My name is Ann.", user_id="a")
        assert [len(batch) for batch in counting.documents] == [3]
        counting.documents.clear()
        memory.add("I like tea.", user_id="a")
        assert counting.documents == []


# ── searching ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_search_finds_by_words_and_by_letters_in_any_script(memory: Memory) -> None:
    for text in (
        "Likes hiking in the Alps",
        "Works at a bakery in Lyon",
        "喜欢喝绿茶",
        "Préfère le café",
        "Owns a bicycle",
    ):
        memory.add(text, user_id="a", infer=False)
    best = {
        query: memory.search(query, user_id="a")[0].text
        for query in ("alps hike", "bakeries", "绿茶", "cafe", 'bicycle" OR *')
    }
    assert best == {
        "alps hike": "Likes hiking in the Alps",
        "bakeries": "Works at a bakery in Lyon",
        "绿茶": "喜欢喝绿茶",
        "cafe": "Préfère le café",
        'bicycle" OR *': "Owns a bicycle",
    }


def test_scores_fall_and_can_be_explained(memory: Memory) -> None:
    memory.add_many(
        [{"messages": f"Likes {x}", "user_id": "a", "infer": False} for x in ("tea", "green tea", "chess", "go")]
    )
    hits = memory.search("green tea", user_id="a", explain=True)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert hits[0].text == "Likes green tea"
    assert hits[0].explanation is not None
    assert hits[0].explanation.meaning > 0.5 and hits[0].explanation.words > 0
    assert memory.search("green tea", user_id="a")[0].explanation is None
    assert [hit.text for hit in memory.search("green tea", user_id="a", threshold=0.9)] in ([], ["Likes green tea"])
    assert len(memory.search("green tea", user_id="a", k=1)) == 1


def test_a_filter_narrows_what_is_searched_and_not_what_was_found(memory: Memory) -> None:
    memory.add_many(
        [
            {"messages": f"Likes tea number {i}", "user_id": "a", "infer": False, "metadata": {"n": i}}
            for i in range(150)
        ]
    )
    assert [hit.item.metadata["n"] for hit in memory.search("tea", user_id="a", k=3, filters={"n": 149})] == [149]
    assert memory.search("tea", user_id="a", filters={"n": True}) == []
    assert memory.search("tea", user_id="a", filters={"x') OR ('1'='1": 1}) == []


@each("k", [0, -1, 10**9, 1.5, "3", True, None])
def test_a_k_out_of_range_is_refused(untouched: Memory, k: Any) -> None:
    with pytest.raises(InvalidInputError, match="k must be"):
        untouched.search("tea", user_id="a", k=k)
    with pytest.raises(InvalidInputError, match="k must be"):
        untouched.get_all(user_id="a", k=k)


@each(
    "arguments", [{"threshold": 2}, {"threshold": "x"}, {"filters": [1]}, {"query": ""}, {"query": None}, {"query": 3}]
)
def test_bad_arguments_of_search_are_refused(untouched: Memory, arguments: dict[str, Any]) -> None:
    call: Any = untouched.search
    with pytest.raises(FilterError if "filters" in arguments else InvalidInputError):
        call(**{"query": "tea", "user_id": "a", **arguments})


def test_a_huge_query_is_just_text(memory: Memory) -> None:
    memory.add("I like tea.", user_id="a")
    assert memory.search("tea OR " * 50_000, user_id="a")[0].text == "Likes tea"


def test_expired_memories_are_hidden_without_include_expired(memory: Memory) -> None:
    past = datetime.now(UTC) - timedelta(days=1)
    memory.add_many(
        [{"messages": f"Likes tea {i}", "user_id": "a", "infer": False, "expires_at": past} for i in range(90)]
        + [{"messages": "Owns a teapot for tea", "user_id": "a", "infer": False}]
    )
    assert [hit.text for hit in memory.search("tea", user_id="a", k=1)] == ["Owns a teapot for tea"]
    assert texts(memory, user_id="a") == {"Owns a teapot for tea"}
    assert len(memory.get_all(user_id="a", include_expired=True)) == 91
    memory.update(memory.get_all(user_id="a", include_expired=True)[5].id, expires_at=None)
    assert len(memory.get_all(user_id="a")) == 2


def test_what_is_known_keeps_its_expiry_and_the_result_says_so(memory: Memory) -> None:
    end = "2999-01-01"
    memory.add("I like tea.", user_id="a")
    again, other = memory.add_many(
        [{"messages": f"I like {what}.", "user_id": "a", "expires_at": end} for what in ("tea", "chess")]
    )
    assert isinstance(again, AddResult) and isinstance(other, AddResult)
    assert [change.event for change in (*again.results, *other.results)] == ["NONE", "ADD"]
    assert ["keep their expiry" in "".join(result.notes) for result in (again, other)] == [True, False]
    assert memory.add("I like tea.", user_id="a").notes == ()
    assert {item.text: item.expires_at for item in memory.get_all(user_id="a")}["Likes tea"] is None


# ── reading and editing ───────────────────────────────────────────────────────────────────────────────────────────────


def test_pages_hold_everything_once(memory: Memory) -> None:
    memory.add_many([{"messages": f"fact {i}", "user_id": "a", "infer": False, "timestamp": i % 7} for i in range(25)])
    seen: list[str] = []
    page = memory.get_all(user_id="a", k=10)
    while True:
        seen += [item.text for item in page]
        if page.next is None:
            break
        page = memory.get_all(user_id="a", k=10, after=page.next)
    assert len(seen) == 25 and set(seen) == {f"fact {i}" for i in range(25)}
    with pytest.raises(InvalidInputError, match="cursor"):
        memory.get_all(user_id="a", after="nonsense")


def test_a_memory_can_be_edited_deleted_and_brought_back(memory: Memory) -> None:
    (added,) = memory.add("I like tea.", user_id="a", metadata={"a": 1, "b": 2}).results
    memory_id = str(added.id)
    memory.update(memory_id, metadata={"b": None, "c": [1, {"d": None}]})
    assert memory.update(memory_id, "Likes green tea", user_id="a").previous_text == "Likes tea"
    item = memory.get(memory_id)
    assert (item.text, item.metadata, item.revision) == ("Likes green tea", {"a": 1, "c": [1, {"d": None}]}, 3)
    assert memory.search("green tea", user_id="a")[0].id == memory_id
    assert memory.delete(memory_id).event == "DELETE"
    with pytest.raises(MemoryNotFoundError):
        memory.get(memory_id)
    assert memory.search("green tea", user_id="a") == []
    assert memory.restore(memory_id, 1, user_id="a").event == "ADD"
    assert memory.restore(memory_id, 3).event == "UPDATE"
    item = memory.get(memory_id)
    assert (item.text, item.metadata, item.revision, item.scope.user_id) == (
        "Likes green tea", {"a": 1, "c": [1, {"d": None}]}, 6, "a",
    )  # fmt: skip
    assert [(r.revision, r.event, r.is_deleted) for r in memory.history(memory_id)] == [
        (1, "ADD", False), (2, "UPDATE", False), (3, "UPDATE", False),
        (4, "DELETE", True), (5, "ADD", False), (6, "UPDATE", False),
    ]  # fmt: skip
    for revision in (0, 4, 99, "1"):
        with pytest.raises(InvalidInputError):
            memory.restore(memory_id, revision)  # type: ignore[arg-type]


def test_edits_of_nothing_are_refused(memory: Memory) -> None:
    (added,) = memory.add("I like tea.", user_id="a").results
    before = written(memory)
    with pytest.raises(InvalidInputError, match="nothing to change"):
        memory.update(str(added.id))
    for text in ("", "  ", 7):
        with pytest.raises(InvalidInputError):
            memory.update(str(added.id), text)  # type: ignore[arg-type]
    for bad in ("", None, 7, "nul\x00"):
        with pytest.raises(InvalidInputError):
            memory.get(bad)  # type: ignore[arg-type]
    for call in (memory.get, memory.delete, memory.history):
        with pytest.raises(MemoryNotFoundError):
            call("no-such-id")
    assert written(memory) == before


def test_delete_all_and_reset(memory: Memory) -> None:
    memory.add("I like tea.", user_id="a")
    memory.add("I like tea.", user_id="b")
    assert memory.delete_all(user_id="a") == 1
    assert memory.delete_all(user_id="a") == 0
    assert memory.reset().memories == 1
    assert memory.search("tea", user_id="b") == []
    assert memory.verify().ok
    assert memory.add("I like tea.", user_id="a").results[0].event == "ADD"


# ── embeddings ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Broken(Embeddings):
    """Returns what a broken server may return."""

    def __init__(self, vector: list[float]) -> None:
        self.vector = vector

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.vector for _ in texts]

    def embed_query(self, text: str) -> list[float]:  # noqa: ARG002 - LangChain fixes the signature
        return self.vector


@pytest.mark.parametrize("vector", [[float("nan"), 1.0], [float("inf"), 1.0], [0.0, 0.0], []])
def test_vectors_that_are_none_are_refused_and_nothing_is_written(vector: list[float]) -> None:
    with Memory(":memory:", embeddings=Broken(vector)) as memory:
        for infer in (True, False):
            with pytest.raises(InvalidInputError):
                memory.add("I like tea.", user_id="a", infer=infer)
        with pytest.raises(InvalidInputError):
            memory.search("tea", user_id="a")
        assert written(memory) == (0, 0, 0)


def test_another_dimension_or_another_model_is_refused(tmp_path: Path) -> None:
    broken = Broken([1.0, 2.0, 3.0])
    with Memory(tmp_path / "m.db", embeddings=broken) as memory:
        memory.add("I like tea.", user_id="a")
        broken.vector = [1.0, 2.0]
        for call in (memory.add, memory.search):
            with pytest.raises(EmbeddingMismatchError):
                call("I like milk.", user_id="a")
        assert written(memory) == (1, 1, 1)
    with Memory(tmp_path / "m.db") as memory, pytest.raises(EmbeddingMismatchError, match="Broken"):
        memory.search("milk", user_id="a")


# ── more than one of us ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_second_opening_sees_everything_and_loses_nothing(tmp_path: Path) -> None:
    with Memory(tmp_path / "m.db") as one, Memory(tmp_path / "m.db", index="exact") as two:
        (added,) = one.add("I like tea.", user_id="a").results
        assert two.search("tea", user_id="a")[0].id == added.id
        two.update(str(added.id), "Likes green tea")
        assert one.search("tea", user_id="a")[0].text == "Likes green tea"
        two.delete(str(added.id))
        assert one.search("tea", user_id="a") == []
        one.add("I like milk.", user_id="a")
    with Memory(tmp_path / "m.db") as again:
        assert texts(again, user_id="a") == {"Likes milk"}
        assert again.verify().ok


async def test_the_async_twins_do_the_same(memory: Memory) -> None:
    result = await memory.aadd("I like tea. I live in Rome.", user_id="a")
    memory_id = str(result.results[0].id)
    assert (await memory.aget(memory_id)).text == "Likes tea"
    assert (await memory.asearch("Where does she live?", user_id="a"))[0].text == "Lives in Rome"
    await memory.aupdate(memory_id, "Likes green tea")
    assert [r.new_text for r in await memory.ahistory(memory_id)] == ["Likes tea", "Likes green tea"]
    await memory.arestore(memory_id, 1)
    await memory.adelete(memory_id)
    assert len(await memory.aget_all(user_id="a")) == 1
    got = await memory.aadd_many([{"messages": "I like milk.", "user_id": "b"}, {"messages": 1, "user_id": "b"}])
    assert [type(result).__name__ for result in got] == ["AddResult", "InvalidInputError"]
    assert await memory.adelete_all(user_id="b") == 1
    assert (await memory.averify()).ok
    with pytest.raises(ScopeError):
        await memory.aadd("I like tea.")
    with pytest.raises(UnknownArgumentError, match="asearch"):
        await memory.asearch("x", user="a")  # type: ignore[call-arg]


async def test_the_async_twins_work_where_the_loop_has_no_executor_any_more(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "m.db", graph=True)
    await asyncio.get_running_loop().shutdown_default_executor()
    key: dict[str, Any] = {"idempotency_key": "k", "user_id": "a"}
    async with asyncio.timeout(100):
        added = (await memory.aadd("I like tea.", **key)).results[0]
        assert (await memory.aadd("I like tea.", **key)).results[0].id == added.id
        assert (await memory.aupdate(str(added.id), "Likes green tea")).event == "UPDATE"
        assert [hit.text for hit in await memory.asearch("tea", user_id="a")] == ["Likes green tea"]
        changes = await memory.aadd_many([{"messages": "I like coffee.", "user_id": "b"}])
        assert not isinstance(changes[0], Exception)
        await memory.aclose()
    with pytest.raises(StorageError, match="closed"):
        memory.stats()


async def test_two_hundred_gathered_adds_share_few_commits(tmp_path: Path) -> None:
    async with Memory(tmp_path / "m.db") as memory:
        before = memory.parts.database.commits
        results = await asyncio.gather(
            *(memory.aadd(f"turn {i}", user_id=f"u{i % 10}", infer=False) for i in range(200))
        )
        assert len({result.results[0].id for result in results}) == 200
        assert memory.stats().memories == 200
        assert memory.parts.database.commits - before <= 60


def test_every_public_method_has_its_async_twin_with_the_same_signature() -> None:
    public = [name for name, _ in inspect.getmembers(Memory, inspect.isfunction) if not name.startswith("_")]
    plain = [name for name in public if f"a{name}" in public]
    assert {
        "add",
        "search",
        "get",
        "get_all",
        "update",
        "delete",
        "delete_all",
        "history",
        "restore",
        "reset",
        "close",
    } <= set(plain)
    alone = {"build_pipeline", "background", "recall", "as_retriever", "tools"}
    assert set(public) == {*plain, *(f"a{name}" for name in plain), *alone}
    for name in plain:
        assert inspect.signature(getattr(Memory, name)) == inspect.signature(getattr(Memory, f"a{name}"))
        assert inspect.iscoroutinefunction(getattr(Memory, f"a{name}"))
        assert getattr(Memory, name).__doc__


@pytest.mark.parametrize("gone", [False, True])
def test_closing_says_nothing_where_nothing_is_left_to_write(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, gone: bool
) -> None:
    (tmp_path / "db").mkdir()
    memory = Memory(tmp_path / "db" / "memory.db")
    memory.add("I like tea.", user_id="ada", infer=False)
    if gone:
        shutil.rmtree(tmp_path / "db")
    memory.close()
    memory.close()
    assert not caplog.records


def test_a_closed_memory_says_so(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "m.db")
    memory.close()
    for call in (
        lambda: memory.add("I like tea.", user_id="a"),
        lambda: memory.search("tea", user_id="a"),
        memory.stats,
    ):
        with pytest.raises(StorageError, match="closed"):
            call()
    memory.close()


# ── many at once ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_many_edits_share_a_commit_and_each_ends_on_its_own(memory: Memory) -> None:
    ids = [memory.add(f"fact {n}", user_id="a", infer=False).results[0].id for n in range(5)]
    before = memory.parts.database.commits
    done = memory.update_many(
        [
            {"memory_id": ids[0], "text": "changed"},
            {"memory_id": ids[1], "metadata": {"topic": "x"}, "user_id": "a"},
            {"memory_id": ids[2], "text": "theirs", "user_id": "b"},
            {"memory_id": ids[3]},
            {"memory_id": ids[3], "txt": "x"},
            {"memory_id": "nobody", "text": "x"},
            {"memory_id": ids[0], "text": "changed again"},
        ]
    )
    assert memory.parts.database.commits == before + 1
    assert [type(end).__name__ for end in done] == [
        "Change", "Change", "MemoryNotFoundError", "InvalidInputError", "UnknownArgumentError", "MemoryNotFoundError", "Change",
    ]  # fmt: skip
    assert [revision.new_text for revision in memory.history(str(ids[0]))] == ["fact 0", "changed", "changed again"]
    assert memory.get(str(ids[1])).metadata == {"topic": "x"}
    assert memory.get(str(ids[2])).text == "fact 2"
    assert str(done[4]).startswith("update_many: item 5: update() has no argument 'txt'; ")


async def test_many_are_deleted_at_once(memory: Memory) -> None:
    ids = [str(memory.add(f"fact {n}", user_id="a", infer=False).results[0].id) for n in range(3)]
    done = await memory.adelete_many([*ids[:2], "nobody", ""], user_id="a")
    assert [type(end).__name__ for end in done] == ["Change", "Change", "MemoryNotFoundError", "InvalidInputError"]
    assert [item.id for item in memory.get_all(user_id="a")] == ids[2:]
    assert memory.delete_many([]) == [] and str(done[3]).startswith("delete_many: item 4: ")
    assert memory.verify().ok


def test_a_memory_in_memory_says_so() -> None:
    with Memory(":memory:") as memory:
        assert repr(memory) == "Memory(':memory:', mode='offline')"


def test_a_misspelled_argument_of_the_constructor_gets_a_hint() -> None:
    with pytest.raises(TypeError, match=r"Memory\(\) has no argument 'embedding'; did you mean 'embeddings'"):
        Memory(":memory:", embedding="hash")  # type: ignore[call-arg]
