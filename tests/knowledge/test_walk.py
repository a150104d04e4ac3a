from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_adapter.knowledge.walk import pagerank, reach, shortest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langmem_adapter.knowledge.walk import Hop

ENDS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=30)


class Plane:
    """A graph in memory, which counts how often somebody's relations are asked for."""

    def __init__(self, ends: Sequence[tuple[int, int]]) -> None:
        self.edges = [(100 + place, *pair) for place, pair in enumerate(ends)][::-1]
        self.asked: list[int] = []

    def around(self, some: Sequence[int]) -> list[Hop]:
        self.asked += some
        return [edge for edge in self.edges if not set(some).isdisjoint(edge[1:])]

    def distances(self, start: int) -> dict[int, int]:
        """By relaxing every edge as often as there are entities."""
        found = {start: 0}
        for _ in range(13):
            for _, one, two in self.edges:
                for near, far in ((one, two), (two, one)):
                    if near in found:
                        found[far] = min(found.get(far, 99), found[near] + 1)
        return found


@given(ends=ENDS, start=st.integers(0, 12), hops=st.integers(1, 5))
def test_reach_gives_all_within_some_hops(ends: list[tuple[int, int]], start: int, hops: int) -> None:
    plane = Plane(ends)
    expected = {far: hop for far, hop in plane.distances(start).items() if 0 < hop <= hops}
    found = reach(plane.around, [start], hops=hops, most=100)
    assert {far: each.hops for far, each in found.items()} == expected
    assert len(set(plane.asked)) == len(plane.asked)  # nobody twice
    distances = plane.distances(start)
    leading = {far: set[int]() for far in expected}
    for pk, one, two in plane.edges:
        for near, far in ((one, two), (two, one)):
            if far in leading and distances[near] == distances[far] - 1:
                leading[far].add(pk)
    assert {far: set(each.relations) for far, each in found.items()} == leading
    assert all(len(set(each.relations)) == len(each.relations) for each in found.values())


@given(ends=ENDS, most=st.integers(1, 6))
def test_reach_that_is_cut_keeps_the_nearest(ends: list[tuple[int, int]], most: int) -> None:
    plane = Plane(ends)
    whole, cut = (reach(plane.around, [0], hops=5, most=size) for size in (100, most))
    assert list(cut) == list(whole)[:most]
    assert {far: each.hops for far, each in cut.items()} == {far: whole[far].hops for far in cut}


def test_reach_from_nowhere_is_empty() -> None:
    assert reach(Plane([(0, 1)]).around, [], hops=3, most=9) == {}
    assert reach(Plane([(0, 0)]).around, [0], hops=3, most=9) == {}


@given(ends=ENDS, start=st.integers(0, 12), goal=st.integers(0, 12), most=st.integers(1, 6))
def test_shortest_gives_a_shortest_path(ends: list[tuple[int, int]], start: int, goal: int, most: int) -> None:
    plane = Plane(ends)
    way = shortest(plane.around, [start], [goal], most=most)
    distance = plane.distances(start).get(goal, 99)
    assert len(way) == (distance if distance <= most else 0)
    here = start
    for pk in way:
        _, one, two = next(edge for edge in plane.edges if edge[0] == pk)
        assert here in {one, two}
        here = two if here == one else one
    assert not way or here == goal
    assert way == shortest(plane.around, [start], [goal], most=most)


def test_shortest_takes_the_newer_relations() -> None:
    plane = Plane([(0, 1), (1, 3), (0, 2), (2, 3)])
    assert shortest(plane.around, [0], [3], most=4) == [102, 103]
    assert shortest(plane.around, [0], [], most=4) == shortest(plane.around, [0], [0, 3], most=4) == []


@given(
    ends=ENDS,
    seeds=st.lists(st.floats(0, 10), min_size=13, max_size=13),
    damping=st.sampled_from([0.0, 0.3, 0.5, 0.85]),
)
def test_pagerank_is_where_the_walk_settles(ends: list[tuple[int, int]], seeds: list[float], damping: float) -> None:
    pairs = np.array(ends, np.int64).reshape(-1, 2)
    begins = np.array(seeds)
    ranks = pagerank(pairs[:, 0], pairs[:, 1], begins, damping=damping, rounds=200)
    if not begins.any():
        assert not ranks.any()
        return
    back = begins / begins.sum()
    move = np.zeros((13, 13))
    for one, two in ends:
        move[two, one] += 1
        move[one, two] += 1
    degrees = move.sum(axis=0)
    move = np.where(degrees > 0, move / np.where(degrees > 0, degrees, 1), back[:, None])
    settled = np.linalg.solve(np.eye(13) - damping * move, (1 - damping) * back)
    np.testing.assert_allclose(ranks, settled, atol=1e-9)
    assert ranks.sum() == pytest.approx(1)


def test_pagerank_of_no_relations_stays_where_it_begins() -> None:
    none = np.empty(0, np.int64)
    assert pagerank(none, none, np.array([0.0, 2.0])).tolist() == [0, 1]
    assert pagerank(none, none, np.empty(0)).tolist() == []
