"""Relations of what is told late: the same, with the same dates, whatever was told first."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import pytest

from langmem_adapter.storage import memories

if TYPE_CHECKING:
    from tests.storage.graph.small_graph import Graph

HOMES = {2018: "Kyoto", 2020: "Lyon", 2023: "Oslo"}


def tell(graph: Graph, memory_id: str, when: int, *also: str) -> None:
    """As whoever compares does: what is newer changes the memory, what is older takes its place before."""
    with graph.ledger.database.read() as connection:
        is_newer = memories.get(connection, memory_id).updated_at.year < when
    said = f"user lives_in {HOMES[when]}", *also
    text = f"Lives in {HOMES[when]}"
    if is_newer:
        graph.decide("UPDATE", memory_id, text, *said, when=when)
    else:
        graph.decide("ADD", None, text, *said, when=when, past_of=memory_id)


@pytest.mark.parametrize("order", list(permutations(HOMES)))
def test_homes_told_in_any_order_have_the_same_dates(graph: Graph, order: tuple[int, ...]) -> None:
    first, *rest = order
    home = graph.add(f"Lives in {HOMES[first]}", f"user lives_in {HOMES[first]}", when=first)
    for when in rest:
        tell(graph, home, when)
    assert graph.now() == [
        "alice lives_in Kyoto 2018-2020",
        "alice lives_in Lyon 2020-2023",
        "alice lives_in Oslo 2023-",
    ]
    [(relation_id, oslo)] = [(id_, words) for words, id_ in graph.ids().items() if "Oslo" in words]
    assert oslo.endswith("2023-")
    assert graph.sayers(relation_id) == {home}


def test_what_a_closed_memory_says_besides_ends_with_it(graph: Graph) -> None:
    home = graph.add("Lives in Oslo", "user lives_in Oslo", when=2023)
    tell(graph, home, 2020, "user lives_with Ana")
    assert graph.now() == [
        "alice lives_in Lyon 2020-2023",
        "alice lives_in Oslo 2023-",
        "alice lives_with Ana 2020-2023",
    ]
    graph.decide("DELETE", home, None, when=None)
    assert graph.now() == ["alice lives_in Lyon 2020-2023", "alice lives_with Ana 2020-2023"]


def test_said_again_with_an_earlier_date_it_began_earlier(graph: Graph) -> None:
    home = graph.add("Lives in Oslo", "user lives_in Oslo", when=2023)
    graph.decide("NONE", home, "Lives in Oslo", "user lives_in Oslo", when=2018, dated=True)
    assert graph.now() == ["alice lives_in Oslo 2018-"]
    tell(graph, home, 2020)
    assert graph.now() == [
        "alice lives_in Lyon 2020-2023",
        "alice lives_in Oslo 2018-2020",
        "alice lives_in Oslo 2023-",
    ]
