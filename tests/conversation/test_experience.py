"""Experience memory: the cases G1 to G12 of MetaGPT's tests, and what was wrong there."""

from __future__ import annotations

import inspect
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.graph import StateGraph

from langmem_adapter.adapters.nodes import experience_node
from langmem_adapter.conversation.experience import (
    MASK,
    Experience,
    ExperienceMemory,
    Messages,
    Score,
    in_context,
    in_messages,
    numbered,
    perfect,
)
from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.errors import InvalidInputError, ScopeError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.results import EXPERIENCE
from langmem_adapter.scoping import MemoryContext
from langmem_adapter.settings import Settings
from langmem_adapter.testing import CountingEmbeddings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig

    Pool = Callable[..., ExperienceMemory]

ASKED = "Write a snake game."
WROTE = "import pygame"


@pytest.fixture(scope="module")
def memory(shared_url: Callable[[str], str]) -> Iterator[Memory]:
    with Memory(shared_url("sqlite")) as opened:
        yield opened


@pytest.fixture(scope="module")
def on_server(shared_url: Callable[[str], str]) -> Iterator[Memory]:
    with Memory(shared_url("postgres")) as opened:
        yield opened


@pytest.fixture
def pool(memory: Memory) -> Pool:
    """Makes pools of an agent that nobody else has."""
    return partial(ExperienceMemory, memory, agent_id=str(uuid4()))


@pytest.fixture(params=["memory", pytest.param("on_server", marks=pytest.mark.postgres)])
def anywhere(request: pytest.FixtureRequest) -> Pool:
    """The same on each kind of database: for what its SQL or its locks decide."""
    return partial(ExperienceMemory, request.getfixturevalue(request.param), agent_id=str(uuid4()))


def ten(request: str, response: str) -> Score:
    return Score(10, f"{request} gave {response}")


class Work:
    """A function that counts what it does."""

    def __init__(self, answer: Any = WROTE) -> None:
        self.answer = answer
        self.asked: list[Any] = []

    def __call__(self, *, req: Any) -> Any:
        self.asked.append(req)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def later(self, *, req: Any) -> Any:
        return self(req=req)


def experience(request: str = ASKED, response: str = WROTE, score: int | None = 8) -> Experience:
    return Experience("1", request, response, "", None if score is None else Score(score), None, datetime.now(UTC))


# ── G1 to G4: keeping and asking ──────────────────────────────────────────────────────────────────────────────────────


def test_g1_a_pool_that_is_not_writable_keeps_nothing_and_says_so(pool: Pool) -> None:
    change = pool(writable=False).add(ASKED, WROTE)
    assert (change.event, change.reason) == ("NONE", "these experiences are read-only")
    assert pool().count() == 0
    assert pool().add(ASKED, WROTE).event == "ADD"
    assert pool().count() == 1
    with pytest.raises(InvalidInputError, match="writable=True"):
        pool(writable=False).delete_all()
    assert pool().count() == 1


def test_g2_a_pool_that_is_not_readable_finds_nothing(pool: Pool) -> None:
    pool().add(ASKED, WROTE, score=10)
    assert pool(readable=False).query(ASKED) == pool(readable=False).query(ASKED, exact=True) == []
    assert [found.response for found in pool().query(ASKED)] == [WROTE]


def test_g3_an_exact_query_finds_its_request_and_a_tag_those_under_it(anywhere: Pool) -> None:
    """In MetaGPT both look among the two nearest only, so what lies behind them is missed."""
    experiences = anywhere()
    for number in range(12):
        experiences.add(f"{ASKED} {number}", "nearer by words", tag="game")
        experiences.add(ASKED, f"answer {number}", score=number % 10 + 1, tag=f"t{number}")
    exact = experiences.query(ASKED, k=100, exact=True)
    assert {found.request for found in exact} == {ASKED}
    assert [found.score.value for found in exact if found.score] == sorted([*range(1, 11), 1, 2], reverse=True)
    assert [found.response for found in experiences.query(ASKED, exact=True, tag="t7")] == ["answer 7"]
    assert [found.response for found in experiences.query(ASKED, k=2, tag="t7")] == ["answer 7"]
    assert {found.tag for found in experiences.query(ASKED, k=20, tag="game")} == {"game"}
    assert experiences.query(ASKED.upper(), exact=True) == experiences.query(ASKED, exact=True, tag="*") == []


# ── G5 to G10: around a function ──────────────────────────────────────────────────────────────────────────────────────


def test_g6_without_a_perfect_hit_the_function_works_and_its_answer_is_kept(pool: Pool) -> None:
    """It sees what is known, and what is kept is the request as it was given."""
    work, experiences = Work(), pool()
    experiences.add(ASKED, "print('snake')", score=4, tag="solve")
    assert experiences.cached(work, tag="solve")(req=ASKED) == WROTE
    assert "We can get the response: print('snake'), which scored: 4." in work.asked[0]
    assert work.asked[0].endswith(ASKED)
    assert {(found.request, found.response) for found in experiences.query(ASKED, exact=True)} == {
        (ASKED, "print('snake')"),
        (ASKED, WROTE),
    }


def test_g7_a_perfect_hit_is_given_without_work_and_without_a_vector(tmp_path: Path) -> None:
    embeddings, work = CountingEmbeddings(HashEmbeddings(64)), Work()
    with Memory(tmp_path / "m.db", embeddings=embeddings) as memory:
        experiences = ExperienceMemory(memory, user_id="u", scorer=ten)
        solve = experiences.cached(work, tag="solve")
        assert solve(req=ASKED) == WROTE
        asked = len(embeddings.queries) + len(embeddings.documents)
        assert solve(req=ASKED) == WROTE
        assert len(embeddings.queries) + len(embeddings.documents) == asked
        assert work.asked == [ASKED]
        assert experiences.count() == 1


@pytest.mark.parametrize(
    ("request_", "score", "again"),
    [(ASKED, 10, True), (ASKED, 9, False), ("Write another game.", 10, False), (ASKED, None, False)],
)
def test_g8_perfect_is_the_same_request_with_the_best_score(request_: str, score: int | None, *, again: bool) -> None:
    assert perfect(ASKED, experience(request_, score=score)) is again


def test_g9_the_request_is_a_keyword(pool: Pool) -> None:
    work = Work()
    solve: Any = pool().cached(work, tag="solve")
    with pytest.raises(ValueError, match=r"write solve\(req="):
        solve("game")
    assert work.asked == []


def test_g9_the_tag_is_the_name_of_the_function_or_of_class_and_method(pool: Pool) -> None:
    experiences = pool()

    class TestClass:
        @experiences.cached
        def test_method(self, *, req: str) -> str:
            return req.upper()

        @experiences.cached(tag="chosen")
        def other(self, *, req: str) -> str:
            return req

    @experiences.cached
    def solve(*, req: str) -> str:
        return req

    assert TestClass().test_method(req="a") == "A"
    TestClass().other(req="b")
    solve(req="c")
    experiences.cached(lambda *, req: req)(req="d")
    pool("mine").cached(lambda *, req: req)(req="e")
    found = {request: experiences.query(request, exact=True)[0].tag for request in "abcde"}
    assert found == {"a": "TestClass.test_method", "b": "chosen", "c": "solve", "d": "<lambda>", "e": "mine"}


async def test_g10_sync_stays_sync_and_async_stays_async(pool: Pool) -> None:
    experiences, work = pool(scorer=ten), Work()
    solve, later = experiences.cached(work, tag="sync"), experiences.cached(work.later, tag="async")
    assert not inspect.iscoroutinefunction(solve)
    assert inspect.iscoroutinefunction(later)
    assert [solve(req=ASKED), solve(req=ASKED)] == [WROTE, WROTE]
    assert [await later(req=ASKED), await later(req=ASKED)] == [WROTE, WROTE]
    assert len(work.asked) == 2
    assert await experiences.acount() == 2
    assert await experiences.aquery(ASKED, exact=True) == experiences.query(ASKED, exact=True)
    assert (await experiences.aadd(ASKED, WROTE, score=3, tag="async")).event == "UPDATE"
    assert await experiences.adelete_all(tag="sync") == 1


# ── G11, G12: how they are shown and written down ─────────────────────────────────────────────────────────────────────


def test_g11_experiences_are_numbered() -> None:
    told = numbered([experience(score=8), experience("写一个贪吃蛇游戏。", "好的", None)])
    assert told.splitlines() == [
        f"1. Given the request: {ASKED}, We can get the response: {WROTE}, which scored: 8.",
        "2. Given the request: 写一个贪吃蛇游戏。, We can get the response: 好的.",
    ]


def test_g11_the_context_is_the_request_where_nothing_is_known() -> None:
    """MetaGPT asks the model to consider experiences that are not there."""
    assert [in_context(request, []) for request in (ASKED, "")] == [ASKED, ""]
    assert in_context("", [experience()]).splitlines()[2].startswith("1. Given the request")


def test_g11_in_a_list_of_messages_the_mask_is_replaced() -> None:
    asked = [SystemMessage("You write games."), HumanMessage(f"Experiences: {MASK} Now write.")]
    before = [message.model_copy() for message in asked]
    assert in_messages([], [experience()]) == []
    assert in_messages(asked, []) is asked
    shown = in_messages(asked, [experience()])
    assert shown[-1].text == f"Experiences: {numbered([experience()])} Now write."
    assert asked == before


def test_g12_of_messages_those_are_kept_that_belong_to_the_request() -> None:
    read = Messages(keep=lambda message: "file_path" in message.text)
    asked = [("user", "Read it."), ("assistant", "Editor.read: file_path='a.py'"), ("user", "Go on.")]
    assert read.request(asked) == '[["ai", "Editor.read: file_path=\'a.py\'"]]'
    assert read.request([]) == read.request(asked[:1]) == ""
    assert Messages().response(AIMessage("Done.")) == "Done."


# ── what is kept ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_same_experience_is_kept_once_with_its_last_score(memory: Memory, pool: Pool) -> None:
    experiences = pool()
    added = experiences.add(ASKED, WROTE, score=Score(3, "it crashes"), seconds=2)
    assert experiences.add(ASKED, WROTE).event == "NONE"
    assert experiences.add(ASKED, WROTE, score=10).event == "UPDATE"
    assert experiences.add(ASKED, "another").event == "ADD"
    kept, _ = experiences.query(ASKED, exact=True)
    assert (kept.id, kept.score, kept.seconds) == (added.id, Score(10), 2)
    assert [revision.event for revision in memory.history(kept.id)] == ["ADD", "UPDATE"]


def test_an_experience_that_many_keep_at_once_is_one(anywhere: Pool) -> None:
    with ThreadPoolExecutor(8) as threads:
        events = list(threads.map(lambda score: anywhere().add(ASKED, WROTE, score=score).event, [5] * 16))
    assert sorted(events) == ["ADD", *["UPDATE"] * 15]
    assert anywhere().count() == 1


@pytest.mark.parametrize("failure", [RuntimeError("boom"), ValueError("no req")])
async def test_what_fails_leaves_nothing(pool: Pool, failure: Exception) -> None:
    work = Work(failure)
    with pytest.raises(type(failure)):
        pool().cached(work, tag="solve")(req=ASKED)
    with pytest.raises(type(failure)):
        await pool().cached(work.later, tag="solve")(req=ASKED)
    assert pool().count() == 0


@pytest.mark.parametrize("score", [0, 11, True, 8.5, "10"])
def test_what_is_no_score_is_refused(pool: Pool, score: Any) -> None:
    with pytest.raises(InvalidInputError, match="from 1 to 10"):
        pool().add(ASKED, WROTE, score=score)
    with pytest.raises(InvalidInputError, match="from 1 to 10"):
        pool(scorer=lambda *_: score).cached(Work())(req=ASKED)
    assert pool().count() == 0


def test_a_pool_belongs_to_somebody_and_takes_what_can_be_kept(memory: Memory, pool: Pool) -> None:
    nobodies: tuple[dict[str, Any], ...] = {}, {"user_id": " "}
    for nobody in nobodies:
        with pytest.raises(ScopeError):
            ExperienceMemory(memory, **nobody)
    for bad in ("", " ", "a\0b"):
        with pytest.raises(InvalidInputError, match="request"):
            pool().add(bad, WROTE)
    with pytest.raises(InvalidInputError, match="tag is empty"):
        pool("")
    wrong: Any = "solve"
    with pytest.raises(InvalidInputError, match="a tag is given as tag="):
        pool().cached(wrong)


# ── as memories ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_experiences_are_searched_and_deleted_as_memories(memory: Memory, pool: Pool) -> None:
    experiences = pool()
    whose: Any = experiences.scope.named
    experiences.add(ASKED, WROTE, tag="a")
    experiences.add("Bake bread.", "Flour and water.", tag="b")
    assert memory.search("snake", k=1, **whose)[0].text == ASKED
    assert {hit.item.memory_type for hit in memory.search("snake", memory_type=EXPERIENCE, **whose)} == {EXPERIENCE}
    fact = memory.add("Likes snakes", infer=False, **whose).results[0].id
    assert experiences.delete_all(tag="b") == 1
    assert (experiences.count(), experiences.delete_all(), experiences.count()) == (1, 1, 0)
    assert [item.id for item in memory.get_all(**whose)] == [fact]
    change = experiences.add(ASKED, WROTE, tag="a")
    assert [each.event for each in memory.history(str(change.id))] == ["ADD", "DELETE", "ADD"]
    assert [found.request for found in experiences.query("snake game")] == [ASKED]


# ── in a graph ────────────────────────────────────────────────────────────────────────────────────────────────────────


class State(TypedDict, total=False):
    request: str
    response: str


def graph_of(node: Any) -> Any:
    return StateGraph(State, context_schema=MemoryContext).add_node("solve", node).set_entry_point("solve").compile()


async def test_a_node_answers_from_the_experience_of_who_calls(memory: Memory) -> None:
    asked: list[tuple[str, str]] = []

    def solve(request: str, config: RunnableConfig) -> str:
        asked.append((request, config["configurable"]["job"]))
        return f"answer {len(asked)}"

    users = [MemoryContext(user_id=str(uuid4())) for _ in range(2)]
    graph = graph_of(experience_node(ExperienceMemory(memory, agent_id="solver", scorer=ten), solve))
    config = {"configurable": {"job": "seven"}}
    told = [graph.invoke({"request": ASKED}, config, context=user)["response"] for user in (*users, *users)]
    assert told == ["answer 1", "answer 2", "answer 1", "answer 2"]
    assert (await graph.ainvoke({"request": ASKED}, config, context=users[0]))["response"] == "answer 1"
    assert (await graph.ainvoke({"request": "More."}, config, context=users[0]))["response"] == "answer 3"
    assert [job for _, job in asked] == ["seven"] * 3
    (kept,) = ExperienceMemory(memory, user_id=users[0].user_id).query(ASKED, exact=True)
    assert kept.tag == "solve"
    with pytest.raises(ScopeError, match="user_id is missing"):
        graph.invoke({"request": ASKED}, config)


@pytest.mark.parametrize(
    "edit",
    [{"score": 99}, {"score": "10"}, {"reason": 3}, {"response": None}, {"response": [1]}, {"tag": None}],
    ids=str,
)
def test_an_edit_by_hand_hides_no_other_experience_and_is_never_given_as_the_best_answer(
    memory: Memory, edit: dict[str, Any]
) -> None:
    pool = ExperienceMemory(memory, agent_id=uuid4().hex)
    kept = pool.add(ASKED, WROTE, score=10)
    pool.add(ASKED, "something else", score=9)
    memory.update(str(kept.id), metadata=edit)
    found = pool.query(ASKED, exact=True)
    assert {each.id for each in pool.query(ASKED)} == {each.id for each in found}
    assert len(found) == 2
    (edited,) = (each for each in found if each.id == kept.id)
    assert perfect(ASKED, edited) == (edited.response == WROTE and "score" not in edit)


def test_g5_a_disabled_pool_is_not_asked(tmp_path: Path) -> None:
    embeddings, work = CountingEmbeddings(HashEmbeddings(64)), Work()
    with Memory(tmp_path / "m.db", embeddings=embeddings) as memory:
        solve = ExperienceMemory(memory, user_id="u", readable=False, writable=False).cached(work, tag="solve")
        assert [solve(req=ASKED) for _ in range(2)] == [WROTE, WROTE]
        assert work.asked == [ASKED, ASKED]
        assert not embeddings.queries and not embeddings.documents
        assert memory.get_all(user_id="u").items == ()


def test_g8_nothing_is_perfect_by_default(pool: Pool) -> None:
    """MetaGPT lets the model score its own answer, and its 10 is given again for ever."""
    work = Work()
    solve = pool().cached(work, tag="solve")
    for _ in range(3):
        solve(req=ASKED)
    assert len(work.asked) == 3
    (kept,) = pool().query(ASKED, exact=True)
    assert kept.score is None


def test_scorer_gives_score_and_reason_that_are_kept_with_the_time(pool: Pool) -> None:
    experiences = pool(scorer=lambda _, response: Score(7, f"{len(response)} letters"))
    experiences.cached(Work(), tag="solve")(req=ASKED)
    (kept,) = experiences.query(ASKED)
    assert kept.score == Score(7, "13 letters")
    assert kept.seconds is not None and kept.seconds >= 0


def test_a_request_too_long_to_be_kept_is_refused_before_anything_is_done() -> None:
    work = Work()
    with Memory(":memory:", settings=Settings(max_text=20)) as memory:
        solve = ExperienceMemory(memory, user_id="u").cached(work, tag="solve")
        with pytest.raises(InvalidInputError, match="max_text"):
            solve(req="x" * 21)
    assert work.asked == []


@settings(max_examples=settings().max_examples // 2)
@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", "A", "甲"]), st.sampled_from("xy"), st.none() | st.integers(1, 10)),
        max_size=8,
    )
)
def test_what_is_kept_is_each_pair_with_its_last_score(
    memory: Memory, given_: list[tuple[str, str, int | None]]
) -> None:
    expected: dict[tuple[str, str], int | None] = {}
    experiences = ExperienceMemory(memory, user_id=str(uuid4()))
    for request, response, score in given_:
        experiences.add(request, response, score=score)
        expected[request, response] = expected.get((request, response)) if score is None else score
    found = [each for request in {pair[0] for pair in expected} for each in experiences.query(request, exact=True)]
    assert {(each.request, each.response): each.score and each.score.value for each in found} == expected
    assert experiences.count() == len(found)


def test_experiences_outlive_the_process_and_the_index_and_end_with_a_purge(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with Memory(path) as memory:
        ExperienceMemory(memory, user_id="u").add("写一个贪吃蛇游戏。", "好的", score=10, tag="solve")
    with Memory(path, index="exact") as memory:
        experiences, work = ExperienceMemory(memory, user_id="u"), Work()
        assert [found.response for found in experiences.query("贪吃蛇")] == ["好的"]
        assert experiences.cached(work, tag="solve")(req="写一个贪吃蛇游戏。") == "好的"
        assert work.asked == []
        assert memory.verify().ok
        memory.purge(user_id="u")
        assert (experiences.count(), experiences.query("贪吃蛇")) == (0, [])
        assert experiences.add("写一个贪吃蛇游戏。", "好的").event == "ADD"
        memory.purge(user_id="u")
    assert not any("贪吃蛇".encode() in file.read_bytes() for file in tmp_path.iterdir() if file.is_file())


def test_experience_node_names_a_missing_request_key_and_response_key(memory: Memory) -> None:
    wrong: Any = memory
    with pytest.raises(InvalidInputError, match="must be an ExperienceMemory"):
        experience_node(wrong, lambda request: request)
    node = experience_node(ExperienceMemory(memory, user_id="u"), lambda request: request, request_key="question")
    with pytest.raises(InvalidInputError, match="request_key="):
        graph_of(node).invoke({"request": ASKED})
