"""Calibrated meaning: whatever constant a model puts into all its vectors, the same is found, in the same order."""

from __future__ import annotations

import asyncio
import json
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.embeddings import Embeddings
from sqlalchemy import select

from langmem_adapter import Memory, Settings
from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.maintenance.reindex import reindex
from langmem_adapter.storage.tables import meta
from langmem_adapter.testing import CountingEmbeddings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from langmem_adapter.records.results import SearchResults

SAID = (
    "I live in Lyon, close to the old bridge.",
    "My sister Jesica plays the cello in Oslo.",
    "I have been allergic to peanuts since I was a child.",
    "The database of our shop runs on Postgres.",
    "I cook Sichuan food on Sundays.",
    "Last summer we walked through the Alps for two weeks.",
    "我在上海的一家医院当护士。",
    "我养了两只猫和一只老狗。",
)
QUESTIONS = (
    "Where is my home?",
    "What instrument does my sister play?",
    "Which food must I not eat?",
    "postgres database",
    "What do I cook?",
    "Where did we walk?",
    "我在哪里工作？",
    "我养了什么宠物？",
)


class Shifted(Embeddings):
    """Other embeddings with a constant before each vector: cosines become share + (1 - share) · cosine."""

    def __init__(self, inner: Embeddings, share: float) -> None:
        self.inner, self.share = inner, share
        self.fingerprint = f"shifted/{share}"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        vectors = self.inner.embed_documents(texts)
        return [[self.share**0.5, *((1 - self.share) ** 0.5 * np.array(vector))] for vector in vectors]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


@cache
def remembering(share: float, dimensions: int) -> Memory:
    memory = Memory(":memory:", embeddings=Shifted(HashEmbeddings(dimensions), share))
    memory.add(list(SAID), user_id="alice", infer=False)
    return memory


def told(hits: SearchResults) -> dict[str, tuple[float, float, float]]:
    return {hit.text: (hit.score, hit.relevance, hit.explanation.meaning) for hit in hits if hit.explanation}


@given(
    st.sampled_from([0.3, 0.8, 0.9]),
    st.sampled_from([64, 512]),
    st.sampled_from(QUESTIONS),
    st.sampled_from([None, "mmr"]),
)
def test_a_constant_in_all_vectors_changes_nothing(share: float, dimensions: int, question: str, rerank: Any) -> None:
    how: dict[str, Any] = {"user_id": "alice", "explain": True, "rerank": rerank}
    plain = told(remembering(0.0, dimensions).search(question, **how))
    shifted = told(remembering(share, dimensions).search(question, **how))
    assert plain.keys() == shifted.keys()
    for text, numbers in plain.items():
        assert shifted[text] == pytest.approx(numbers, abs=1e-4)
    scores = [plain[text][0] for text in shifted]
    assert rerank or all(first >= second - 1e-4 for first, second in pairwise(scores))


def rows(memory: Memory) -> list[dict[str, float]]:
    with memory.parts.database.read() as connection:
        query = select(meta.c.value).where(meta.c.key.like("calibration/%")).order_by(meta.c.key)
        return [json.loads(value) for value in connection.execute(query).scalars()]


class Elsewhere(CountingEmbeddings):
    """Embeddings that are asked over a network, as far as anybody can tell."""

    def __init__(self, share: float, meanwhile: Callable[[], Any] = list) -> None:
        super().__init__(Shifted(HashEmbeddings(64), share))
        self.meanwhile = meanwhile

    @property
    def fingerprint(self) -> str:
        return "elsewhere"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.meanwhile()
        return super().embed_documents(texts)


async def test_a_model_is_measured_once_for_each_database_and_kind_of_letters(tmp_path: Path) -> None:
    for opened in range(2):
        embeddings = Elsewhere(0.8)
        with Memory(tmp_path / "memory.db", embeddings=embeddings) as memory:
            memory.add(f"I live in Lyon {opened}.", user_id="alice", infer=False)
            assert len(rows(memory)) == 2 * opened  # adding asks for no scale
            before = embeddings.texts
            for question in ("Where do I live?", "Who lives in Lyon?", "我住在哪里？"):
                assert memory.search(question, user_id="alice") == await memory.asearch(question, user_id="alice")
            assert embeddings.texts - before == (3 if opened else 3 + 2 * (8 + 8))
            assert [round(row["unrelated"], 1) for row in rows(memory)] == [0.8, 0.8]


def test_all_processes_go_by_the_scale_that_was_kept_first(tmp_path: Path) -> None:
    path, asked = tmp_path / "memory.db", "Who lives in Lyon?"
    with Memory(path, embeddings=Elsewhere(0.8)) as first:
        first.add("I live in Lyon.", user_id="alice", infer=False)
        # While the second measures, with other numbers, the first keeps its own.
        embeddings = Elsewhere(0.5, lambda: first.search(asked, user_id="alice"))
        with Memory(path, embeddings=embeddings) as second:
            (hit,) = second.search(asked, user_id="alice", explain=True)
        (kept,) = rows(first)
        assert kept["unrelated"] > 0.75 and hit.explanation is not None
        cosine = np.dot(embeddings.embed_query(asked), first.parts.embedder.vectors(["I live in Lyon."])[0])
        assert hit.explanation.meaning == pytest.approx(
            (cosine - kept["unrelated"]) / (1 - kept["unrelated"]), abs=1e-5
        )


def test_another_model_is_measured_anew(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    for share in (0.8, 0.3):
        embeddings = CountingEmbeddings(Shifted(HashEmbeddings(64), share))
        reindex(path, embeddings)
        with Memory(path, embeddings=embeddings) as memory:
            memory.add("I live in Lyon.", user_id="alice")
            memory.search("Where do I live?", user_id="alice")
            measured = {round(row["unrelated"], 1) for row in rows(memory)}
    assert measured == {0.8, 0.3}


class Failing(Elsewhere):
    """A model that fails at the texts of this package alone."""

    def embed_query(self, text: str) -> list[float]:
        self.refuse(text)
        return super().embed_query(text)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        for text in texts:
            self.refuse(text)
        return super().embed_documents(texts)

    def refuse(self, text: str) -> None:
        if "Lyon" not in text:
            raise ConnectionError("the model is away")


async def test_a_model_that_cannot_be_measured_is_searched_with_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    embeddings = Failing(0.0)
    with Memory(":memory:", embeddings=embeddings, settings=Settings(model_retries=0)) as memory:
        memory.add("I live in Lyon.", user_id="alice", infer=False)
        for _ in range(3):
            (hit,) = memory.search("Who lives in Lyon?", user_id="alice")
            assert [hit] == await memory.asearch("Who lives in Lyon?", user_id="alice")
        assert rows(memory) == []
    assert [record.getMessage().partition(";")[0] for record in caplog.records] == [
        "the embedding model could not be calibrated"
    ]


async def test_those_who_need_a_scale_at_the_same_time_wait_for_one_of_them(tmp_path: Path) -> None:
    embeddings = Elsewhere(0.8)
    with Memory(tmp_path / "memory.db", embeddings=embeddings) as memory:
        memory.add("I live in Lyon.", user_id="alice", infer=False)
        before = embeddings.texts
        searches = (memory.asearch(f"Who lives in Lyon number {n}?", user_id="alice") for n in range(8))
        assert all(await asyncio.gather(*searches))
        assert embeddings.texts - before == 8 + 8 + 8


def test_a_model_that_says_the_same_of_everything_makes_nothing_relevant() -> None:
    class Constant(Elsewhere):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [[1.0, 0.0]] * len(texts)

        def embed_query(self, text: str) -> list[float]:  # noqa: ARG002 - of a model
            return [1.0, 0.0]

    with Memory(":memory:", embeddings=Constant(0.0)) as memory:
        memory.add("I live in Lyon.", user_id="alice", infer=False)
        assert memory.search("Who won the race?", user_id="alice", threshold=0.31) == []
