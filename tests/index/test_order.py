"""How rows lie in memory: in order after loading and compacting, never twice, and what is in order is told."""

from __future__ import annotations

import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.index.base import Batch, Compactable, Loadable
from langmem_adapter.index.build import open_index
from langmem_adapter.index.faiss import FaissIndex
from langmem_adapter.index.snapshot import Label, load, save

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from langmem_adapter.index.base import Vectors

D = 64
MANY = 20_000
NOBODY = np.empty(0, np.int64)
LABEL = Label("hash:64", 7, b"12345678")


@pytest.fixture(scope="module")
def vectors(make_vectors: Any) -> Vectors:
    made: Vectors = make_vectors(MANY, D)
    return made


def scattered(vectors: Vectors) -> FaissIndex:
    """Twenty scopes whose memories came by turns."""
    index = FaissIndex(D)
    pks = np.arange(MANY)
    for start in range(0, MANY, 7):
        part = pks[start : start + 7]
        index.update(Batch(part, part % 20, vectors[part], NOBODY))
    return index


def peak(work: Callable[[], object]) -> float:
    """The most memory that *work* held at once, in sizes of the vectors."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / (MANY * D * 4)
    finally:
        tracemalloc.stop()


def test_many_small_updates_put_rows_out_of_order_and_compacting_puts_them_back(vectors: Vectors) -> None:
    index = scattered(vectors)
    before = [index.search(vectors[5], 30, scopes=[scope]) for scope in range(20)]
    assert index.fragmented
    steps = list(index.compact())
    assert not index.fragmented
    assert steps[-1] == MANY
    for scope, found in enumerate(before):
        again = index.search(vectors[5], 30, scopes=[scope])
        assert again.pks.tolist() == found.pks.tolist()
        assert again.scores.tobytes() == found.scores.tobytes(), "equal vectors have equal scores wherever they lie"


def test_a_score_is_the_same_bit_by_bit_alone_in_a_block_and_scattered(vectors: Vectors) -> None:
    index = scattered(vectors)
    list(index.compact())
    pks = np.arange(3, MANY, 20)
    together = index.search(vectors[1], MANY, scopes=[3])
    order = np.argsort(together.pks)
    assert together.scores[order].tobytes() == index.scores(vectors[1], pks).tobytes()
    beside = index.search(vectors[1], MANY, scopes=[3], pks=pks)
    assert together.scores.tobytes() == beside.scores.tobytes()


def test_a_loaded_index_is_in_order_and_deleting_much_takes_it_out_of_order(vectors: Vectors) -> None:
    index = FaissIndex(D)
    pks = np.arange(MANY)
    index.adopt(Batch(pks.copy(), pks // 1000, vectors.copy(), NOBODY))
    assert not index.fragmented
    index.update(Batch(NOBODY, NOBODY, vectors[:0], pks[: MANY // 2].copy()))
    assert index.fragmented
    index.update(Batch(pks[:100], pks[:100] // 1000, vectors[:100], NOBODY))
    assert index.search(vectors[50], 1, scopes=[0]).pks.tolist() == [50]
    assert index.search(vectors[MANY - 1], 1, scopes=[19]).pks.tolist() == [MANY - 1]


def test_searches_and_changes_go_on_beside_compacting(vectors: Vectors) -> None:
    index, done = scattered(vectors), threading.Event()

    def search() -> int:
        rounds = 0
        while not done.is_set():
            for place in (0, 7_777, 15_000):
                assert index.search(vectors[place], 1, scopes=[place % 20]).pks.tolist() == [place]
            rounds += 1
        return rounds

    def change() -> None:
        for place in range(10, MANY, 500):
            index.update(Batch(NOBODY, NOBODY, vectors[:0], np.array([place])))
            index.update(Batch(np.array([place]), np.array([place % 20]), vectors[place : place + 1], NOBODY))

    with ThreadPoolExecutor(2) as pool:
        searching, changing = pool.submit(search), pool.submit(change)
        try:
            for _ in range(5):
                for _ in index.compact():
                    done.wait(0.001)
            changing.result(30)
        finally:
            done.set()
        assert searching.result(30) > 0
    np.testing.assert_array_equal(index.pks(), np.arange(MANY))
    np.testing.assert_array_equal(index.vectors(np.arange(MANY)), vectors)


def test_growing_never_holds_the_vectors_twice(vectors: Vectors) -> None:
    assert peak(lambda: scattered(vectors)) < 1.5  # short vectors: the numbers beside them take a quarter as much


def test_loading_a_snapshot_never_holds_the_vectors_twice(tmp_path: Path, vectors: Vectors) -> None:
    save(tmp_path / "x.index", scattered(vectors), LABEL)

    def open_it() -> None:
        snapshot = load(tmp_path / "x.index", "hash:64")
        assert snapshot is not None
        index = FaissIndex(D)
        index.adopt(Batch(snapshot.pks, snapshot.scopes, snapshot.vectors, NOBODY))
        assert not index.fragmented

    assert peak(open_it) < 1.5


def test_nor_does_changing_what_was_loaded(tmp_path: Path, vectors: Vectors) -> None:
    save(tmp_path / "x.index", scattered(vectors), LABEL)

    def opened() -> FaissIndex:
        snapshot, index = load(tmp_path / "x.index", "hash:64"), FaissIndex(D)
        assert snapshot is not None
        index.adopt(Batch(snapshot.pks, snapshot.scopes, snapshot.vectors, NOBODY))
        return index

    assert peak(lambda: opened().update(Batch(np.array([MANY]), np.array([1]), vectors[:1], NOBODY))) < 1.5


CHANGES: dict[str, Callable[[FaissIndex, Vectors], object]] = {
    "grow": lambda index, vectors: index.update(
        Batch(np.arange(200, 5_000), np.ones(4_800, int), vectors[200:5_000], NOBODY)
    ),
    "overwrite": lambda index, vectors: index.update(Batch(np.arange(9), np.ones(9, int), vectors[300:309], NOBODY)),
    "delete": lambda index, _: index.update(Batch(NOBODY, NOBODY, np.empty((0, D), np.float32), np.arange(150))),
    "compact": lambda index, _: list(index.compact()),
    "clear": lambda index, _: index.clear(),
}


@pytest.mark.parametrize("kept", ["views", "batch", "both"])
@pytest.mark.parametrize("change", CHANGES)
def test_views_of_a_batch_outlive_its_adoption(vectors: Vectors, change: str, kept: str) -> None:
    index, rows = FaissIndex(D), np.arange(200)
    batch = Batch(rows.copy(), rows[::-1] % 7, vectors[:200].copy(), NOBODY)
    arrays = (batch.pks, batch.scopes, batch.vectors)
    views = [array[10:20] for array in arrays] if kept != "batch" else []
    before = [array[10:20].copy() for array in arrays]
    index.adopt(batch)
    held = batch if kept != "views" else None
    del batch, arrays
    CHANGES[change](index, vectors)
    hit = index.search(vectors[180], 5, scopes=range(10))
    found: list[Any] = [hit.pks, hit.scores, index.vectors(np.array([0, 180])), index.pks()]
    copies = [array.copy() for array in found]
    CHANGES["grow"](index, vectors)
    index.clear()
    if held is not None:
        views += [array[10:20] for array in (held.pks, held.scopes, held.vectors)]
    for view, was in zip(views, before * 2, strict=False):
        np.testing.assert_array_equal(view, was)
    for given, was in zip(found, copies, strict=True):
        np.testing.assert_array_equal(given, was)


@pytest.mark.parametrize("kind", ["faiss", "exact"])
def test_adopting_replaces_everything_or_refuses_and_changes_nothing(kind: Any, vectors: Vectors) -> None:
    index = open_index(kind, D)
    assert isinstance(index, Loadable)
    assert isinstance(index, Compactable) is (kind == "faiss")
    index.adopt(Batch(np.array([9, 4]), np.array([1, 0]), vectors[:2].copy(), NOBODY))
    with pytest.raises(InvalidInputError):
        index.adopt(Batch(np.array([5, 5]), np.array([1, 0]), vectors[:2].copy(), NOBODY))
    assert index.pks().tolist() == [4, 9]
    shared = vectors[2:4]  # a view of somebody else's memory
    index.adopt(Batch(np.array([1, 2]), np.array([3, 3]), shared, NOBODY))
    index.update(Batch(np.arange(10, 3000), np.full(2990, 3), vectors[10:3000], NOBODY))
    assert index.search(vectors[3], 1, scopes=[3]).pks.tolist() == [2]
    assert len(index) == 2992
