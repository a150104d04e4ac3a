"""Long-term memory: the cases C, D and F of MetaGPT's tests, and what was wrong or unfinished there (H)."""

from __future__ import annotations

import asyncio
import signal
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langmem_adapter.conversation import LongTermMemory, carried, stamp
from langmem_adapter.errors import EmbeddingMismatchError, InvalidInputError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.testing import CountingEmbeddings
from tests.programs import Program, python

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ASKED = "UserRequirement"
SNAKE, AGAIN, OTHER = "Write a cli snake game", "Write a snake game for the terminal", "Write a 2048 web game"


class Placed(Embeddings):
    """Texts about a snake are alike, and those about anything else are like nothing."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        place = 0 if "snake" in text or "贪吃蛇" in text else 1 + crc32(text.encode()) % 499
        return [float(place == axis) for axis in range(500)]


def said(text: str, number: str, cause: str | None = ASKED) -> BaseMessage:
    message = HumanMessage(text, id=number)
    return message if cause is None else stamp(message, cause_by=cause)


@pytest.fixture
def counting() -> CountingEmbeddings:
    return CountingEmbeddings(Placed())


@pytest.fixture
def memory(tmp_path: Path, counting: CountingEmbeddings) -> Iterator[Memory]:
    with Memory(tmp_path / "memory.db", embeddings=counting) as memory:
        yield memory


@pytest.fixture
def role(memory: Memory) -> LongTermMemory:
    return LongTermMemory(memory, "engineer", watch=[ASKED], user_id="alice")


def texts(messages: Any) -> list[str]:
    return [message.text for message in messages]


# ── C and D: news, and what is similar ───────────────────────────────────────────────────────────────────────────────


def test_c1_c2_c3_find_news_leaves_out_observed_messages_that_are_similar(role: LongTermMemory) -> None:
    first = said(SNAKE, "1")
    assert role.find_news([first]) == [first]
    role.add(first)
    news = role.find_news([first, said(AGAIN, "2"), said(OTHER, "3")])
    assert texts(news) == [OTHER]
    assert [(seen.message.text, seen.why) for seen in news.seen] == [(SNAKE, "exact"), (AGAIN, "similar")]
    assert news.seen[1].like is not None
    assert news.seen[1].like.message == first
    assert news.seen[1].like.cosine == pytest.approx(1)


def test_c4_h2_what_is_deleted_or_cleared_is_never_recalled_again(memory: Memory, role: LongTermMemory) -> None:
    """There `delete` and `clear` left the vector, and a restart brought the text back."""
    role.add_batch([said(SNAKE, "1"), said(OTHER, "2")])
    role.delete(said(SNAKE, "1"))
    with Memory(memory.parts.database.path, embeddings=Placed()) as restarted:
        again = LongTermMemory(restarted, "engineer", user_id="alice")
        assert again.search_similar(AGAIN) == []
        assert texts(restarted.get_all(agent_id="engineer")) == [OTHER]
        assert again.delete_newest() is not None
        assert texts(restarted.get_all(agent_id="engineer")) == []
    role.add(said(SNAKE, "3"))
    role.clear()
    assert (role.count(), role.search_similar(SNAKE), texts(memory.get_all(agent_id="engineer"))) == (0, [], [])


def test_d1_d4_a_role_is_known_from_its_recovery_until_it_is_cleaned(memory: Memory) -> None:
    """There adding before `recover_memory` failed halfway, and `clean` left what a later `persist` brought back."""
    role = LongTermMemory(memory, user_id="alice")
    assert not role.is_initialized
    with pytest.raises(InvalidInputError, match="recover_memory"):
        role.add(said(SNAKE, "1"))
    assert role.recover_memory("engineer") == (True, 0)
    assert role.add(said(SNAKE, "1"))
    assert role.is_initialized
    role.persist()
    role.clean()
    assert not role.is_initialized
    assert role.recover_memory("engineer", watch=["Nothing"]) == (True, 0)
    assert role.watch == {"Nothing"}


def test_d2_d3_similar_messages_come_back_whole(role: LongTermMemory) -> None:
    planned = stamp(AIMessage("a snake needs a board", id="9"), cause_by=ASKED, payload={"fields": ["snake", 2]})
    role.add_batch([said(SNAKE, "1"), planned, said(OTHER, "2")])
    assert [found.message.id for found in role.search_similar(said(AGAIN, "3"))] == ["1", "9"]
    assert role.search_similar("a snake", k=1)[0].message == said(SNAKE, "1")
    assert carried(role.search_similar(AGAIN)[1].message).payload == {"fields": ["snake", 2]}
    assert role.search_similar("nothing of the kind") == []


# ── F: what a role is shown ──────────────────────────────────────────────────────────────────────────────────────────


def test_f1_f4_f5_each_watched_message_is_remembered_once_whatever_the_capacity(
    memory: Memory, role: LongTermMemory
) -> None:
    """There what fell out of a list of 200 was copied on each add, a repeated message twice, and only one of an overfull list;
    nothing falls out here, so nothing has to be transferred."""
    assert role.add_batch([said(f"wish {place}", str(place)) for place in range(201)]) == 201
    role.add(said("wish 200", "200"))
    assert len(memory.get_all(agent_id="engineer", k=1_000)) == 201


@pytest.mark.parametrize(
    ("k", "last", "recalls"),
    [
        (0, said(AGAIN, "z"), False),
        (1, AIMessage(AGAIN, id="z"), False),
        (9, said(AGAIN, "z"), False),
        (1, said(AGAIN, "z"), True),
    ],
    ids=["all is shown", "no question", "nothing before", "a question"],
)
def test_f2_f6_f7_a_person_s_question_recalls_what_is_out_of_sight(
    role: LongTermMemory, k: int, last: BaseMessage, *, recalls: bool
) -> None:
    role.add_batch([said(SNAKE, "1"), said("thanks", "2", None), last])
    expected = [SNAKE, AGAIN] if recalls else texts(role.get(k))
    assert texts(role.context(k, recalled=1)) == expected
    assert texts(role.context(1, query=SNAKE, recalled=1))[0] == SNAKE


@pytest.mark.parametrize("k", [1, 2, 3, 5, 8])
def test_f3_f8_f9_h20_what_is_recalled_comes_first_in_order_without_gap_or_overlap(
    role: LongTermMemory, k: int
) -> None:
    """There messages between the two lists were in neither, or in both."""
    role.add_batch([said(f"snake {place}", str(place)) for place in range(8)])
    shown = texts(role.context(k, recalled=8))
    assert shown == [f"snake {place}" for place in range(8)]


# ── H: what was wrong or unfinished ──────────────────────────────────────────────────────────────────────────────────


def test_h1_a_repeated_add_writes_nothing_and_embeds_nothing(
    memory: Memory, role: LongTermMemory, counting: CountingEmbeddings
) -> None:
    assert [role.add(said(SNAKE, "1")), role.add(said(SNAKE, "1"))] == [True, False]
    assert texts(memory.get_all(agent_id="engineer")) == [SNAKE]
    assert counting.texts == 1


def test_only_what_is_watched_is_remembered_for_good(memory: Memory, role: LongTermMemory) -> None:
    call = AIMessage("", id="2", tool_calls=[{"name": "look", "args": {}, "id": "c"}])
    role.add_batch([said("yes", "1", None), stamp(call, cause_by=ASKED), said(SNAKE, "3")])
    assert role.count() == 3
    assert texts(role.important_memory()) == ["", SNAKE]
    assert texts(memory.get_all(agent_id="engineer", filters={"cause_by": ASKED})) == [SNAKE]
    assert texts(role.find_news([said("yes", "7", None)])) == ["yes"]  # not compared by meaning: it may be said again
    everything = LongTermMemory(memory, "listener", user_id="alice")
    everything.add_batch([said("yes", "1", None), call])
    assert texts(memory.get_all(agent_id="listener")) == ["yes"]


ROLE = """
import os, signal, sys, threading
from langchain_core.messages import HumanMessage
from langmem_adapter.conversation import LongTermMemory
from langmem_adapter.memory.memory import Memory
path, patience = sys.argv[1:]
role = LongTermMemory(Memory(path), user_id="alice")
print("known", role.recover_memory("engineer").messages, flush=True)
killing = threading.Timer(float(patience), os.kill, (os.getpid(), signal.SIGKILL))
for number in range(100_000):
    role.add(HumanMessage(f"愿望 {number}", id=str(number)))
    print(number, flush=True)
    if not killing.ident:
        killing.start()
"""


def test_h3_h4_a_role_killed_at_any_point_sees_each_message_once(tmp_path: Path) -> None:
    path, known = tmp_path / "memory.db", 0
    for patience in (0, 0.03, 0.1):
        said = python("-c", ROLE, path, patience, code=-signal.SIGKILL).stdout.split()
        assert int(said[1]) >= known  # what was acknowledged is there
        known = max([known, *(int(number) + 1 for number in said[2:])])
    with Memory(path) as memory:
        role = LongTermMemory(memory, user_id="alice")
        first, kept = role.recover_memory("engineer")
        assert (first, kept >= known) == (False, True)
        assert texts(role.get()) == [f"愿望 {number}" for number in range(kept)]
        assert sorted(texts(memory.get_all(agent_id="engineer", k=10_000))) == sorted(texts(role.get()))
        assert memory.verify().ok


def test_h4_a_recovered_role_embeds_nothing_again(
    memory: Memory, role: LongTermMemory, counting: CountingEmbeddings
) -> None:
    role.add(said(SNAKE, "1"))
    again = LongTermMemory(memory, user_id="alice")
    assert again.recover_memory("engineer") == (False, 1)
    assert again.get() == [said(SNAKE, "1")]
    assert counting.texts == 1


def test_h5_the_window_and_the_limit_are_two_things_and_nothing_is_dropped(role: LongTermMemory) -> None:
    role.add_batch([said("one", "1", None), said("two", "2", None)])
    observed = [said("one", "1", None), said("two", "2", None), said("three", "3", None), said("four", "4", None)]
    news = role.find_news(observed, k=1, limit=2)
    assert (texts(news), texts(news.later)) == (["one", "three"], ["four"])


def test_h17_a_memory_ends_with_its_time_and_the_log_stays(memory: Memory) -> None:
    role = LongTermMemory(memory, "engineer", ttl=timedelta(microseconds=1))
    role.add(said(SNAKE, "1"))
    assert role.search_similar(AGAIN) == []
    assert texts(role.get()) == [SNAKE]
    for ttl in (timedelta(), timedelta.max):
        with pytest.raises(InvalidInputError, match="ttl"):
            LongTermMemory(memory, "engineer", ttl=ttl)


def test_h18_another_embedding_model_is_noticed(memory: Memory, role: LongTermMemory) -> None:
    role.add(said(SNAKE, "1"))
    with Memory(memory.parts.database.path, embeddings="hash:64") as other:
        stranger = LongTermMemory(other, "engineer", user_id="alice")
        assert texts(stranger.get()) == [SNAKE]
        with pytest.raises(EmbeddingMismatchError):
            stranger.search_similar(SNAKE)
        with pytest.raises(EmbeddingMismatchError):
            stranger.add(said(OTHER, "2"))
        assert stranger.count() == 1


@pytest.mark.parametrize("name", ["../x", "a/b", "C:\\x", "角色", "%_", "a:b"])
def test_h19_the_id_of_a_role_is_data(memory: Memory, tmp_path: Path, name: str) -> None:
    before = sorted(tmp_path.parent.iterdir())
    role = LongTermMemory(memory, name)
    role.add(said(SNAKE, "1"))
    assert texts(LongTermMemory(memory, name).get()) == [SNAKE]
    assert LongTermMemory(memory, name + "x").count() == 0
    assert sorted(tmp_path.parent.iterdir()) == before


def test_h23_two_processes_that_add_the_same_keep_it_once(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with Memory(path) as memory:
        program = f"""
from langchain_core.messages import HumanMessage
from langmem_adapter.conversation import LongTermMemory
from langmem_adapter.memory.memory import Memory
with Memory({str(path)!r}) as memory:
    role = LongTermMemory(memory, "engineer")
    for number in range(12):
        role.add(HumanMessage(f"愿望 {{number}}", id=str(number)))
"""
        programs = [Program("-c", program) for _ in range(2)]
        assert [each.end().returncode for each in programs] == [0, 0]
        role = LongTermMemory(memory, "engineer")
        assert texts(role.get()) == [f"愿望 {number}" for number in range(12)]
        assert len(memory.get_all(agent_id="engineer", k=100)) == 12


def test_what_other_scopes_or_nobody_remembers_takes_no_place_of_a_role_s_own(memory: Memory) -> None:
    """A role of nobody reads within all roles of its name; and a memory may come back by hand without its message."""
    role = LongTermMemory(memory, "engineer")
    for user in range(9):
        LongTermMemory(memory, "engineer", user_id=str(user)).add(said(SNAKE, "1"))
    gone = said("a snake that is gone", "1")
    role.add(gone)
    (kept,) = (item.id for item in memory.get_all(agent_id="engineer", k=100) if item.text == gone.text)
    role.delete(gone)
    memory.restore(kept, 1)
    role.add_batch([said(AGAIN, "2"), said("later", "3", None)])
    assert [found.message.id for found in role.search_similar(SNAKE, k=1)] == ["2"]
    assert texts(role.find_news([said(SNAKE, "9")])) == []
    assert texts(role.context(1, query=SNAKE, recalled=1)) == [AGAIN, "later"]


def test_what_is_under_way_stays_with_the_role_that_it_began_for(memory: Memory) -> None:
    async def use() -> None:
        role = LongTermMemory(memory, "engineer", user_id="alice")
        under_way = [asyncio.ensure_future(role.aadd(said(SNAKE, "1")))]
        await asyncio.sleep(0)
        await role.arecover_memory("architect")
        await asyncio.gather(*under_way)
        assert await role.acount() == 0
        assert texts(memory.get_all(agent_id="architect")) == []
        await role.arecover_memory("engineer")
        assert texts(await role.aget()) == [SNAKE]

    asyncio.run(use())
