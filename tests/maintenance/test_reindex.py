"""A database changes its embedding model while others use it, and nobody ever gets a wrong answer."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.embeddings import Embeddings
from sqlalchemy import func, select, update

from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.errors import ConflictError, EmbeddingMismatchError, InvalidInputError
from langmem_adapter.maintenance.reindex import Reindexed, reindex
from langmem_adapter.memory.memory import Memory
from langmem_adapter.storage import tables
from langmem_adapter.storage.database import Database
from langmem_adapter.testing import CountingEmbeddings
from tests.programs import python

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Hooked(Embeddings):
    """Embeddings of another model, that let the test act while they work."""

    def __init__(self, hook: Callable[[int], None] = lambda _: None, dimensions: int = 64) -> None:
        self.inner = HashEmbeddings(dimensions)
        self.fingerprint = f"other:{dimensions}"
        self.hook = hook
        self.calls = 0

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.calls += 1
        self.hook(self.calls)
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.inner.embed_query(text[::-1])


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database that can be opened twice."""
    return request.getfixturevalue("postgres_url") if request.param == "postgres" else str(tmp_path / "memory.db")


def fill(url: str, count: int = 30) -> None:
    with Memory(url, embeddings="hash:64") as memory:
        memory.add_many([{"messages": f"Owns boat number {n}", "user_id": "a", "infer": False} for n in range(count)])


def vectors(url: str) -> dict[str, bytes]:
    database = Database(url)
    with database.read() as connection:
        found = dict(connection.execute(select(tables.memories.c.text, tables.memories.c.embedding)).all())
    database.close()
    return found


def count_of(url: str, table: Any) -> int:
    database = Database(url)
    with database.read() as connection:
        found = int(connection.execute(select(func.count()).select_from(table)).scalar_one())
    database.close()
    return found


def fresh(texts: dict[str, bytes], embeddings: Embeddings) -> dict[str, bytes]:
    with Memory(":memory:", embeddings=embeddings) as memory:
        return dict(
            zip(texts, (vector.tobytes() for vector in memory.parts.embedder.vectors(list(texts))), strict=True)
        )


# ── the change ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_reindex_gives_every_memory_a_vector_of_the_new_model(url: str) -> None:
    fill(url)
    steps: list[tuple[int, int]] = []
    done = reindex(url, "hash:128", batch=7, progress=lambda *step: steps.append(step))
    assert done == Reindexed(memories=30, embedded=30, resumed=0, before="hash:64/2", after="hash:128/2")
    assert steps == [(7, 30), (14, 30), (21, 30), (28, 30), (30, 30), (30, 30)]
    kept = vectors(url)
    assert kept == fresh(kept, HashEmbeddings(128))
    assert count_of(url, tables.reembedded) == 0
    with Memory(url, embeddings="hash:128") as memory:
        assert memory.verify().ok and memory.verify().checked == 30
        assert memory.search("boat number 7", user_id="a")[0].text == "Owns boat number 7"
        item = memory.get_all(user_id="a", k=1)[0]
        assert item.revision == 1 and len(memory.history(item.id)) == 1
        memory.add("I like tea.", user_id="a")
    assert reindex(url, "hash:128", progress=None).embedded == 0


def needing_vectors(memory: Memory, memory_id: str) -> tuple[Callable[[], object], ...]:
    return (
        lambda: memory.search("boat", user_id="a"),
        lambda: memory.add("I like tea.", user_id="a"),
        lambda: memory.add("I like tea.", user_id="a", infer=False),
        lambda: memory.update(memory_id, "Owns a canoe"),
        lambda: memory.restore(memory_id, 1),
        memory.verify,
    )


def test_memory_with_other_embeddings_works_without_vectors(url: str) -> None:
    fill(url, 5)
    before = vectors(url)
    with Memory(url, embeddings="hash:128") as memory:
        first, second, *_ = memory.get_all(user_id="a")
        for call in needing_vectors(memory, first.id):
            with pytest.raises(EmbeddingMismatchError, match=r"hash:64, .*hash:128; .* langmem-adapter reindex -d \S+"):
                call()
        assert vectors(url) == before
        assert memory.get(first.id).text == first.text
        assert [revision.event for revision in memory.history(first.id)] == ["ADD"]
        assert memory.update(first.id, metadata={"seen": True}).event == "UPDATE"
        assert memory.delete(second.id).event == "DELETE"
        assert memory.stats().memories == 4
        assert memory.delete_all(user_id="b") >= 0
        erased = memory.purge(user_id="a")
        assert erased.complete, erased.remains
    with Memory(url, embeddings="hash:64") as memory:
        assert memory.verify().ok


@pytest.mark.postgres
def test_embedding_mismatch_error_shows_no_password(postgres_url: str) -> None:
    url = postgres_url.replace("postgres:@", "postgres:s3cret@")  # the test server asks for none
    fill(url, 1)
    with (
        Memory(url, embeddings="hash:128") as memory,
        pytest.raises(EmbeddingMismatchError, match="langmem-adapter reindex -d postgresql") as caught,
    ):
        memory.search("boat", user_id="a")
    assert "s3cret" not in str(caught.value)


def test_reindex_of_an_empty_database(url: str) -> None:
    assert reindex(url, "hash:64") == Reindexed(0, 0, 0, None, "hash:64/2")
    fill(url, 1)
    with Memory(url, embeddings="hash:64") as memory:
        memory.delete_all(user_id="a")
    assert reindex(url, "hash:128").memories == 0
    with Memory(url, embeddings="hash:256") as memory:
        memory.add("I like tea.", user_id="a")


@pytest.mark.parametrize("batch", [0, -1, 10_001, True, "7", 1.5])
def test_reindex_refuses_a_wrong_batch(tmp_path: Path, batch: Any) -> None:
    with pytest.raises(InvalidInputError, match="batch"):
        reindex(tmp_path / "m.db", "hash:64", batch=batch)
    assert not (tmp_path / "m.db").exists()


def test_reindex_removes_index_files_of_the_old_model(tmp_path: Path) -> None:
    fill(str(tmp_path / "m.db"))
    with Memory(tmp_path / "m.db", embeddings="hash:64") as memory:
        memory.search("boat", user_id="a")
    (old,) = tmp_path.glob("*.index")
    reindex(tmp_path / "m.db", "hash:128")
    assert not old.exists()
    with Memory(tmp_path / "m.db", embeddings="hash:128"):
        pass
    (new,) = tmp_path.glob("*.index")
    assert new != old


# ── interrupted ───────────────────────────────────────────────────────────────────────────────────────────────────────

KILLED = """
import os, signal, sys
from langmem_adapter.maintenance.reindex import reindex
def tell(done, total):
    if done == 30:
        os.kill(os.getpid(), signal.SIGKILL)
reindex(sys.argv[1], "hash:128", batch=5, progress=tell)
"""


def test_reindex_killed_goes_on_where_it_stopped(url: str) -> None:
    fill(url, 100)
    python("-c", KILLED, url, code=-9)
    with Memory(url, embeddings="hash:64") as memory:  # nothing has changed for anybody
        assert memory.search("boat number 7", user_id="a")[0].text == "Owns boat number 7"
        assert memory.verify().ok
    steps: list[tuple[int, int]] = []
    done = reindex(url, "hash:128", batch=5, progress=lambda *step: steps.append(step))
    assert (done.memories, done.resumed, done.embedded) == (100, 30, 70)
    assert steps[0] == (35, 100)
    kept = vectors(url)
    assert kept == fresh(kept, HashEmbeddings(128))
    with Memory(url, embeddings="hash:128") as memory:
        assert memory.verify().ok


def test_reindex_with_a_failing_model_keeps_its_work(url: str) -> None:
    def fail(call: int) -> None:
        if call >= 3:
            raise ConnectionError("no answer")

    fill(url)
    with pytest.raises(ConnectionError):
        reindex(url, Hooked(fail), batch=10)
    fill(url, 1)
    done = reindex(url, Hooked(), batch=10)
    assert (done.memories, done.resumed, done.embedded) == (31, 20, 11)


def test_reindex_with_another_model_begins_anew(url: str) -> None:
    def fail(call: int) -> None:
        if call >= 3:
            raise ConnectionError("no answer")

    fill(url)
    for _ in range(2):
        with pytest.raises(ConnectionError):
            reindex(url, Hooked(fail), batch=10)
        assert count_of(url, tables.reembedded) == 20
        assert reindex(url, "hash:64") == Reindexed(30, 0, 0, "hash:64/2", "hash:64/2")
        assert count_of(url, tables.reembedded) == 0
    with pytest.raises(ConnectionError):
        reindex(url, Hooked(fail), batch=10)
    assert reindex(url, "hash:128").resumed == 0
    kept = vectors(url)
    assert kept == fresh(kept, HashEmbeddings(128))


# ── beside others ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_reindex_lets_readers_and_writers_go_on(url: str) -> None:
    fill(url, 20)
    with Memory(url, embeddings="hash:64") as old:
        *_, changing, going = old.get_all(user_id="a")  # the oldest, whose turn was first

        def act(call: int) -> None:
            assert old.search("boat number 7", user_id="a")[0].text == "Owns boat number 7"
            if call == 2:
                old.update(changing.id, "Owns a red canoe")
                old.update(going.id, "Owns a blue canoe")
                old.delete(going.id)
                old.add("Owns a submarine", user_id="a", infer=False)

        done = reindex(url, Hooked(act, 128), batch=5)
        assert (done.memories, done.resumed) == (20, 0)
        assert done.embedded == 22
    kept = vectors(url)
    assert {"Owns a red canoe", "Owns a submarine"} <= kept.keys()
    assert kept == fresh(kept, Hooked(dimensions=128))
    with Memory(url, embeddings=Hooked(dimensions=128)) as memory:
        assert memory.verify().ok
        assert memory.search("Owns a submarine", user_id="a")[0].text == "Owns a submarine"


def test_reindex_ends_beside_steady_writers(url: str) -> None:
    fill(url, 5)
    begun = threading.Event()

    def write() -> None:
        with Memory(url, embeddings="hash:64") as memory:
            for number in count():
                memory.add(f"note {number}", user_id="b", infer=False)
                begun.set()

    with ThreadPoolExecutor() as threads:
        writer = threads.submit(write)
        assert begun.wait(100)
        done = reindex(url, Hooked(), batch=8)
        with pytest.raises(EmbeddingMismatchError):
            writer.result()
    kept = vectors(url)
    assert len(kept) == done.memories
    assert kept == fresh(kept, Hooked())


@pytest.mark.parametrize("dimensions", [64, 128])
def test_reindex_refuses_the_old_model_afterwards(url: str, dimensions: int) -> None:
    fill(url, 5)
    with Memory(url, embeddings="hash:64") as old:
        item = old.get_all(user_id="a")[0]
        assert old.search("boat", user_id="a")
        reindex(url, Hooked(dimensions=dimensions))
        for call in (
            lambda: old.search("boat", user_id="a"),
            lambda: old.search("boat", user_id="a"),
            lambda: old.add("I like tea.", user_id="a"),
            lambda: old.add("I like tea.", user_id="a", infer=False),
            lambda: old.update(item.id, "Owns a canoe"),
            lambda: old.restore(item.id, 1),
            old.verify,
        ):
            with pytest.raises(EmbeddingMismatchError, match=f"open it again with the embeddings other:{dimensions}"):
                call()
        assert old.get(item.id).text == item.text
        assert old.delete(item.id).event == "DELETE"  # needs no vector
    with Memory(url, embeddings=Hooked(dimensions=dimensions)) as new:
        assert new.verify().ok
        assert len(new.get_all(user_id="a")) == 4


@pytest.mark.postgres
@pytest.mark.parametrize("dimensions", [64, 128])
def test_reindex_with_pgvector_refuses_the_old_model(postgres_url: str, dimensions: int) -> None:
    with Memory(postgres_url, embeddings="hash:64", index="pgvector") as old:
        old.add_many([{"messages": f"Owns boat number {n}", "user_id": "a", "infer": False} for n in range(5)])
        assert old.search("boat", user_id="a")
        reindex(postgres_url, Hooked(dimensions=dimensions))
        for _ in range(2):
            with pytest.raises(EmbeddingMismatchError, match="open it again"):
                old.search("boat", user_id="a")
        with Memory(postgres_url, embeddings=Hooked(dimensions=dimensions), index="pgvector") as new:
            assert new.search("Owns boat number 3", user_id="a")[0].text == "Owns boat number 3"
            assert new.verify().ok
            with pytest.raises(EmbeddingMismatchError, match="open it again"):
                old.search("boat", user_id="a")
            assert new.verify().ok


@pytest.mark.postgres
def test_purge_with_pgvector_needs_no_model(postgres_url: str) -> None:
    with Memory(postgres_url, embeddings="hash:64", index="pgvector") as memory:
        memory.add_many([{"messages": "Owns a boat", "user_id": user, "infer": False} for user in ("a", "b")])
    with Memory(postgres_url, embeddings="hash:128", index="pgvector") as memory:
        erased = memory.purge(user_id="a")
        assert erased.complete, erased.remains
        with pytest.raises(EmbeddingMismatchError, match="open it again"):
            memory.search("boat", user_id="b")
    with Memory(postgres_url, embeddings="hash:64", index="pgvector") as memory:
        assert memory.verify().ok
        assert memory.search("boat", user_id="b")


def test_reindex_keeps_no_memory_purged_meanwhile(url: str) -> None:
    fill(url, 10)
    with Memory(url, embeddings="hash:64") as old:
        old.add("I like tea.", user_id="b")

        def erase(call: int) -> None:
            if call == 1:
                old.purge(user_id="a")

        done = reindex(url, Hooked(erase), batch=4)
    assert done.memories == 1
    assert vectors(url).keys() == {"Likes tea"}


def test_reindex_twice_at_once_to_one_model(url: str) -> None:
    fill(url, 40)
    done: list[Reindexed] = []
    both = [threading.Thread(target=lambda: done.append(reindex(url, Hooked(), batch=3))) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert [result.memories for result in done] == [40, 40]
    kept = vectors(url)
    assert kept == fresh(kept, Hooked())


def test_reindex_overtaken_by_another_is_a_conflict(url: str) -> None:
    fill(url)

    def overtake(call: int) -> None:
        if call == 2:
            reindex(url, "hash:128")

    with pytest.raises(ConflictError, match="another reindex"):
        reindex(url, Hooked(overtake), batch=10)
    with Memory(url, embeddings="hash:128") as memory:
        assert memory.verify().ok


def test_reindex_embeds_each_text_once(url: str) -> None:
    fill(url)
    counting = CountingEmbeddings(HashEmbeddings(128))
    reindex(url, counting, batch=8)
    assert (counting.calls, counting.texts) == (4, 30)


def test_reindex_with_a_wrong_vector_changes_nothing(url: str) -> None:
    class Broken(Hooked):
        def embed_query(self, text: str) -> list[float]:  # noqa: ARG002 - LangChain fixes the signature
            return [float("nan")] * 64

    fill(url)
    before = vectors(url)
    with pytest.raises(InvalidInputError, match="no usable vector"):
        reindex(url, Broken())
    assert vectors(url) == before


def test_reindex_uses_no_vector_of_an_older_text(url: str) -> None:
    fill(url, 3)

    def fail(call: int) -> None:
        if call >= 3:
            raise ConnectionError("no answer")

    with pytest.raises(ConnectionError):
        reindex(url, Hooked(fail), batch=1)
    with Memory(url, embeddings="hash:64") as memory:
        for item in memory.get_all(user_id="a"):
            memory.update(item.id, f"{item.text}, sold")
    database = Database(url)
    database.write(lambda c: c.execute(update(tables.reembedded).values(embedding=b"old")))
    database.close()
    assert reindex(url, Hooked()).resumed == 0
    kept = vectors(url)
    assert kept == fresh(kept, Hooked())
