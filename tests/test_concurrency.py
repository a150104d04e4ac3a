"""Many adds for one scope at once, in tasks, threads and processes, end as if one came after the other."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.errors import ConflictError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.testing import CountingEmbeddings, ScriptedChatModel
from tests.benchmarks.material import requested
from tests.faults.processes import call

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

THINGS = "tea chess jazz hiking sushi".split()
FRIENDS = "Ann Bob Cy Dee".split()
FACTS = [f"Likes {thing} with {friend}" for thing in THINGS for friend in FRIENDS]
ADDS = 3 * len(FACTS)


def answer(messages: list[Any]) -> str:
    """Finds the message itself as the fact, and adds every fact that it is asked about."""
    shown = json.loads(next(line for line in str(messages[-1].content).splitlines() if line.startswith("{")))
    if "conversation" in shown:
        text = shown["conversation"][0]["text"]
        return json.dumps({"facts": [text], **(graph_of(text) if "known_entities" in shown else {})})
    added = [{"id": f"n{fact['number']}", "text": fact["text"], "event": "ADD"} for fact in shown["facts"]]
    return json.dumps({"memory": added})


def graph_of(text: str) -> dict[str, Any]:
    _, thing, _, friend = text.split()
    said = [("likes", thing), ("knows", friend)]
    return {
        "entities": [{"name": name, "type": "thing"} for _, name in said],
        "relations": [{"source": "user", "relation": verb, "target": name, "fact": 0} for verb, name in said],
    }


def model() -> ScriptedChatModel:
    return ScriptedChatModel(replies=[answer] * 20_000)


async def add_all(path: Path, start: int = 0, count: int = ADDS, *, graph: bool = False) -> None:
    async with Memory(path, model=model(), graph=graph) as memory:
        said = (FACTS[(start + i) % len(FACTS)] for i in range(count))
        results = await asyncio.gather(*(memory.aadd(text, user_id="a") for text in said))
        assert all(len(result.results) == 1 for result in results)


def add_in_a_process(path: Path, start: int) -> None:
    asyncio.run(add_all(path, start, graph=True))


def check(path: Path, adds: int, *, graph: bool) -> None:
    with Memory(path) as memory:
        assert sorted(item.text for item in memory.get_all(user_id="a", k=1000)) == sorted(FACTS)
        assert len(memory.history(memory.get_all(user_id="a")[0].id)) == 1
        assert memory.stats().revisions == len(FACTS)
        assert memory.verify().ok
        relations = memory.graph.relations(user_id="a", k=1000)
        said = {(relation.relation, relation.target, len(relation.memory_ids)) for relation in relations}
        expected = {("likes", thing, len(FRIENDS)) for thing in THINGS} | {
            ("knows", friend, len(THINGS)) for friend in FRIENDS
        }
        assert said == (expected if graph else set())
        assert len(relations) == len(said)
        assert sum(relation.mentions for relation in relations) == (2 * adds if graph else 0)


@pytest.mark.parametrize("graph", [False, True], ids=["memories", "graph"])
async def test_many_tasks_with_a_few_facts_end_with_each_once(tmp_path: Path, graph: bool) -> None:  # noqa: FBT001 - a parameter of the test
    await add_all(tmp_path / "m.db", graph=graph)
    check(tmp_path / "m.db", ADDS, graph=graph)


def test_two_processes_with_a_few_facts_end_with_each_once(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with ThreadPoolExecutor(2) as both:
        list(both.map(lambda start: call(add_in_a_process, path, start, seconds=110), (0, len(FACTS) // 2)))
    check(path, 2 * ADDS, graph=True)


def test_a_slow_model_of_one_scope_keeps_no_other_waiting(tmp_path: Path) -> None:
    released, reached = threading.Event(), threading.Event()

    def slowly(messages: list[Any]) -> str:
        if "slow" in str(messages[-1].content):
            reached.set()
            assert released.wait(timeout=100)
        return answer(messages)

    with Memory(tmp_path / "m.db", model=ScriptedChatModel(replies=[slowly] * 9)) as memory:
        waiting = threading.Thread(target=memory.add, args=("slow",), kwargs={"user_id": "a"})
        waiting.start()
        assert reached.wait(timeout=100)
        assert memory.add("quick", user_id="b").results[0].event == "ADD"
        assert waiting.is_alive()
        released.set()
        waiting.join()


@pytest.mark.parametrize("infer", [True, False])
def test_two_writers_on_one_file_lose_nothing(tmp_path: Path, infer: bool) -> None:  # noqa: FBT001 - a parameter of the test
    with Memory(tmp_path / "m.db") as one, Memory(tmp_path / "m.db") as two:
        errors: list[BaseException | None] = []

        def work(memory: Memory, name: str) -> None:
            for i in range(20):
                memory.add(f"I own the book {name}{i}x{i}.", user_id="a", infer=infer)
            errors.append(None)

        threads = [threading.Thread(target=work, args=pair) for pair in ((one, "Left"), (two, "Right"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == [None, None]
        assert len(one.get_all(user_id="a", k=1000)) == len(two.get_all(user_id="a", k=1000)) == 40
        assert one.search("book", user_id="a", k=100).__len__() == 40


class Meanwhile(CountingEmbeddings):
    """Embeddings that let something else happen first: between what an edit reads and what it writes."""

    def __init__(self) -> None:
        super().__init__(HashEmbeddings())
        self.first: Callable[[], object] = lambda: None

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.first()
        return super().embed_documents(texts)


def deleted(url: str) -> str:
    with Memory(url) as memory:
        memory_id = str(memory.add("I like tea.", user_id="ann").results[0].id)
        memory.delete(memory_id)
    return memory_id


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def lasting(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.getfixturevalue("postgres_url") if request.param == "postgres" else tmp_path / "m.db")


def test_of_several_who_restore_a_memory_at_once_one_succeeds(lasting: str) -> None:
    memory_id, embeddings, together = deleted(lasting), Meanwhile(), threading.Barrier(4, timeout=60)
    embeddings.first = together.wait  # nobody writes before all have read
    with Memory(lasting, embeddings=embeddings) as memory, ThreadPoolExecutor(4) as pool:
        done = [pool.submit(memory.restore, memory_id, 1) for _ in range(4)]
        failed = [type(each.exception()) for each in done if each.exception() is not None]
        assert failed == [ConflictError] * 3
        assert [revision.event for revision in memory.history(memory_id)] == ["ADD", "DELETE", "ADD"]
        assert [item.id for item in memory.get_all(user_id="ann")] == [memory_id]


def test_what_is_purged_while_it_is_restored_stays_gone(lasting: str) -> None:
    memory_id, embeddings = deleted(lasting), Meanwhile()
    with Memory(lasting, embeddings=embeddings) as memory, Memory(lasting) as other:
        embeddings.first = lambda: other.purge(user_id="ann")
        with pytest.raises(ConflictError, match="try again"):
            memory.restore(memory_id, 1)
        assert memory.scopes() == [] and memory.stats().revisions == 0


# ── what others write meanwhile ─────────────────────────────────────────────────────────────────────────────────────────


def moves_to_braga(url: str) -> None:
    with Memory(url, model=model()) as memory:
        memory.add("Bought a house in Braga", user_id="ann")


def deciding(meanwhile: Callable[[], object]) -> tuple[ScriptedChatModel, list[set[str]]]:
    """A model that lets something happen before its first decision, and the memories that it is shown in each."""
    shown: list[set[str]] = []

    def decides(messages: list[Any]) -> str:
        if '"memories"' in str(messages[-1].content):
            shown.append({memory["text"] for memory in requested(messages)["memories"]})
            if len(shown) == 1:
                meanwhile()
        return answer(messages)

    return ScriptedChatModel(replies=[decides] * 9), shown


def test_adds_of_two_processes_at_once_that_share_no_word_are_compared(lasting: str) -> None:
    scripted, shown = deciding(lambda: call(moves_to_braga, lasting))
    with Memory(lasting, model=scripted) as memory:
        memory.add("Plays chess", user_id="ann", infer=False)
        memory.add("Rents a flat near Porto", user_id="ann")
    assert shown == [{"Plays chess"}, {"Plays chess", "Bought a house in Braga"}]


def test_whoever_stores_turns_as_they_are_keeps_no_add_from_its_end(lasting: str) -> None:
    with Memory(lasting) as other:
        scripted, shown = deciding(lambda: other.add("Rents a flat near Porto", user_id="ann", infer=False))
        with Memory(lasting, model=scripted) as memory:
            memory.add("Plays chess", user_id="ann", infer=False)
            assert memory.add("Rents a flat near Porto", user_id="ann").results[0].event == "ADD"
            assert len(memory.get_all(user_id="ann")) == 3
    assert len(shown) == 1


# ── tasks that wait ─────────────────────────────────────────────────────────────────────────────────────────────────────

WAITING = {
    "memories of a scope are deleted": lambda memory: memory.adelete_all(user_id="b"),
    "some memories are deleted": lambda memory: memory.adelete_many([str(uuid4())]),
    "a scope is purged": lambda memory: memory.apurge(user_id="b"),
    "a relation is stated": lambda memory: memory.graph.aadd("Ann", "knows", "Bob", user_id="b"),
    "relations of a scope are withdrawn": lambda memory: memory.graph.adelete_all(user_id="b"),
}


@pytest.mark.parametrize("wait", WAITING.values(), ids=WAITING.keys())
async def test_tasks_read_while_others_wait_for_the_write_lock(tmp_path: Path, wait: Any) -> None:
    path = tmp_path / "memory.db"
    async with Memory(path) as memory:
        await memory.aadd("I like tea.", user_id="a")
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        with closing(sqlite3.connect(path, isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            writing = [asyncio.create_task(wait(memory)) for _ in range(3)]
            await asyncio.sleep(0)  # they are in front
            async with asyncio.timeout(20):  # less than the lock is waited for
                found = await memory.asearch("tea", user_id="a")
            assert not any(task.done() for task in writing)
        await asyncio.gather(*writing)
    assert [hit.text for hit in found] == ["Likes tea"]
