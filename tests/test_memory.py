"""`Memory` through its public names, on every kind of database."""

from __future__ import annotations

import asyncio
import json
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


# ── scopes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


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


def test_the_texts_of_an_add_are_embedded_in_one_batch() -> None:
    counting = CountingEmbeddings(HashEmbeddings(64))
    with Memory(":memory:", embeddings=counting) as memory:
        memory.add("I like tea. I live in Rome. My name is Ann.", user_id="a")
        assert [len(batch) for batch in counting.documents] == [3]
        counting.documents.clear()
        memory.add("I like tea.", user_id="a")
        assert counting.documents == []


# ── searching ─────────────────────────────────────────────────────────────────────────────────────────────────────────


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


def test_a_misspelled_argument_of_the_constructor_gets_a_hint() -> None:
    with pytest.raises(TypeError, match=r"Memory\(\) has no argument 'embedding'; did you mean 'embeddings'"):
        Memory(":memory:", embedding="hash")  # type: ignore[call-arg]
