"""A relation stands as long as a memory says it: however memories are added, rewritten, deleted, restored."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import event, select

from langmem_adapter.records.results import Decision
from langmem_adapter.storage.erasure import Sweeper
from langmem_adapter.storage.graph import edits
from langmem_adapter.storage.tables import changes, entities, entity_names, relation_memories, relations
from tests.storage.graph.small_graph import Graph, by_hand, triple, year

if TYPE_CHECKING:
    from collections.abc import Callable


def test_update_of_a_memory_ends_relations_that_it_states_no_longer(graph: Graph) -> None:
    memory = graph.add("Lives in Paris with Ann", "user lives_in Paris", "user lives_with Ann", when=2019)
    change = graph.decide("UPDATE", memory, "Lives in Rome with Ann", "user lives_in Rome", when=2021)
    assert graph.told(change.relations) == ["END alice lives_in Paris 2019-2021", "ADD alice lives_in Rome 2021-"]
    assert graph.now() == ["alice lives_in Paris 2019-2021", "alice lives_in Rome 2021-", "alice lives_with Ann 2019-"]


def test_update_ends_a_relation_where_its_successor_began(graph: Graph) -> None:
    memory = graph.add("Lives in Paris", "user lives_in Paris", when=2021)
    moved = triple("user lives_in Rome", valid_from=year(2020))
    change = graph.decide("UPDATE", memory, "Moved to Rome in 2020", moved, when=2022)
    assert graph.told(change.relations) == ["DELETE alice lives_in Paris 2021-", "ADD alice lives_in Rome 2020-"]
    assert graph.now() == ["alice lives_in Rome 2020-"]


def test_past_of_a_memory_bounds_its_other_relations(graph: Graph) -> None:
    home = graph.add("Lives in Oslo", "user lives_in Oslo", when=2023)
    graph.decide("NONE", home, "Lives in Oslo", "user lives_in Oslo", when=2018, dated=True)
    assert graph.now() == ["alice lives_in Oslo 2018-"]
    said = "user lives_in Lyon", "user lives_with Ana"
    graph.decide("ADD", None, "Lives in Lyon", *said, when=2020, past_of=home)
    past = ["alice lives_in Lyon 2020-2023", "alice lives_with Ana 2020-2023"]
    assert graph.now() == [past[0], "alice lives_in Oslo 2018-2020", "alice lives_in Oslo 2023-", past[1]]
    graph.decide("DELETE", home, None, when=None)
    assert graph.now() == past


def test_delete_and_add_end_a_relation_where_its_successor_began(graph: Graph) -> None:
    memory = graph.add("Lives in Paris", "user lives_in Paris", when=2021)
    moved = graph.decision(
        "ADD", str(uuid.uuid4()), "Moved", triple("user lives_in Rome", valid_from=year(2020)), when=2022
    )
    graph.apply(graph.decision("DELETE", memory, None, when=2022), moved)
    assert graph.now() == ["alice lives_in Rome 2020-"]


def test_update_ends_a_relation_although_the_texts_share_a_word(graph: Graph) -> None:
    memory = graph.add("Likes green tea", "user likes green_tea", when=2019)
    graph.decide("UPDATE", memory, "Likes black tea", "user likes black_tea", when=2021)
    assert graph.now() == ["alice likes black_tea 2021-", "alice likes green_tea 2019-2021"]


def test_update_in_other_words_keeps_the_relation(graph: Graph) -> None:
    memory = graph.add("Works at Acme", "user works_at Acme", when=2019)
    change = graph.decide("UPDATE", memory, "Works at the firm of his uncle", "user works_at Acme", when=2021)
    assert graph.told(change.relations) == ["NONE alice works_at Acme 2019-"]
    assert graph.now() == ["alice works_at Acme 2019-"]


def test_update_keeps_a_relation_that_the_text_never_named(graph: Graph) -> None:
    memory = graph.add("Is a nurse", "user works_in healthcare", when=2019)
    graph.decide("UPDATE", memory, "Is a nurse since 2010", when=2021)
    assert graph.now() == ["alice works_in healthcare 2019-"]


def test_delete_by_the_pipeline_ends_the_relation(graph: Graph) -> None:
    memory = graph.add("Lives in Paris", "user lives_in Paris", when=2019)
    change = graph.decide("DELETE", memory, None, triple("user lives_in Paris", ended=True), when=2021)
    assert graph.told(change.relations) == ["END alice lives_in Paris 2019-2021"]
    assert graph.now() == ["alice lives_in Paris 2019-2021"]


def test_delete_ends_a_relation_at_its_valid_to(graph: Graph) -> None:
    memory = graph.add("Lives in Paris", "user lives_in Paris", when=2015)
    over = triple("user lives_in Paris", ended=True, valid_to=year(2018))
    assert graph.told(graph.decide("DELETE", memory, None, over, when=2021).relations) == [
        "END alice lives_in Paris 2015-2018"
    ]


def test_decision_none_adds_a_mention_by_the_same_memory(graph: Graph) -> None:
    memory = graph.add("Lives in Paris", "user lives_in Paris", when=2019)
    change = graph.decide("NONE", memory, "Lives in Paris", "user lives_in Paris", "user likes Paris", when=2021)
    assert graph.told(change.relations) == ["NONE alice lives_in Paris 2019-", "ADD alice likes Paris 2021-"]
    assert all(graph.sayers(each) == {memory} for each in graph.ids().values())


def test_decision_none_without_a_memory_states_no_relation(graph: Graph) -> None:
    assert graph.decide("NONE", None, "Hello", "user likes tea", when=2021).relations == ()
    assert graph.now() == []


def test_delete_of_one_of_two_memories_keeps_their_relation(graph: Graph) -> None:
    one = graph.add("Lives in Paris", "user lives_in Paris", when=2019)
    other = graph.add("Has a flat in Paris", "user lives_in Paris", when=2020)
    rows = graph.rows()
    assert graph.decide("DELETE", one, None, when=None).relations == ()
    assert graph.rows() == rows
    assert graph.sayers(rows[0].id) == {other}
    assert graph.told(graph.decide("DELETE", other, None, when=None).relations) == ["DELETE alice lives_in Paris 2019-"]
    assert graph.now() == []


@pytest.mark.parametrize("when", [None, 2021])
def test_restore_of_a_memory_brings_its_relations_back(graph: Graph, when: int | None) -> None:
    memory = graph.add("Lives in Paris, as a nurse", "user lives_in Paris", "user works_in healthcare", when=2019)
    ids = graph.ids()
    graph.decide("DELETE", memory, None, when=when)
    assert all(words.endswith("-2021") for words in graph.now())
    graph.decide("ADD", memory, "Lives in Paris, as a nurse", when=2019)
    assert graph.ids() == ids
    assert [row.mentions for row in graph.rows()] == [1] * len(graph.rows())
    graph.decide("DELETE", memory, None, when=None)
    assert graph.now() == []


def test_restore_of_a_memory_supports_the_joined_relation(graph: Graph) -> None:
    one = graph.add("Likes tea", "user likes tea", when=2015)
    graph.decide("DELETE", one, None, when=2017)
    other = graph.add("Likes tea", "user likes tea", when=2018)
    graph.decide("DELETE", other, None, when=2020)
    graph.decide("ADD", one, "Likes tea", when=2015)  # from then on, the years of the other among them
    graph.decide("ADD", other, "Likes tea", when=2018)
    (relation_id,) = graph.ids().values()
    assert graph.sayers(relation_id) == {one, other}


def test_restore_of_an_older_text_brings_its_relations_back(graph: Graph) -> None:
    memory = graph.add("Has a sister Ann", "user sister_of Ann", when=2019)
    graph.decide("UPDATE", memory, "Has a sister Ann in Rome", "Ann lives_in Rome", when=2020)
    graph.decide("DELETE", memory, None, when=None)
    graph.decide("ADD", memory, "Has a sister Ann", when=2019)
    assert graph.now() == ["alice sister_of Ann 2019-"]
    graph.decide("UPDATE", memory, "Has a sister Ann in Rome", when=None)
    assert graph.now() == ["Ann lives_in Rome 2020-", "alice sister_of Ann 2019-"]


def test_update_by_hand_withdraws_a_relation_and_brings_it_back(graph: Graph) -> None:
    memory = graph.add("Lives in Paris", "user lives_in Paris", when=2019)
    ids = graph.ids()
    assert graph.told(graph.decide("UPDATE", memory, "Lives in Parma", when=None).relations) == [
        "DELETE alice lives_in Paris 2019-"
    ]
    assert graph.now() == []
    assert graph.told(graph.decide("UPDATE", memory, "Lives in Paris", when=None).relations) == [
        "ADD alice lives_in Paris 2019-"
    ]
    assert graph.ids() == ids


def test_restore_keeps_relations_that_were_withdrawn_or_ended_by_hand(graph: Graph) -> None:
    memory = graph.add("Likes tea and jazz", "user likes tea", "user likes jazz", when=2019)
    by_hand(graph.ledger, edits.withdraw, graph.ids()["alice likes tea 2019-"])
    by_hand(graph.ledger, edits.end, graph.ids()["alice likes jazz 2019-"], at=year(2020))
    graph.decide("DELETE", memory, None, when=2022)
    assert graph.now() == ["alice likes jazz 2019-2020"]
    graph.decide("ADD", memory, "Likes tea and jazz", when=2019)
    assert graph.now() == ["alice likes jazz 2019-2020"]


def test_restore_supports_a_relation_of_another_memory(graph: Graph) -> None:
    one, other = (graph.add(f"Likes tea {place}", "user likes tea", when=2019) for place in range(2))
    graph.decide("DELETE", one, None, when=None)
    graph.decide("ADD", one, "Likes tea 0", when=2019)
    assert graph.sayers(graph.ids()["alice likes tea 2019-"]) == {one, other}
    graph.decide("DELETE", other, None, when=None)
    assert graph.now() == ["alice likes tea 2019-"]


@pytest.mark.parametrize("first", [0, 1])
def test_restore_of_either_memory_brings_their_relation_back(graph: Graph, first: int) -> None:
    both = [graph.add(f"Likes tea {place}", "user likes tea", when=2019) for place in range(2)]
    ids = graph.ids()
    for memory in both:
        graph.decide("DELETE", memory, None, when=None)
    graph.decide("ADD", both[first], f"Likes tea {first}", when=2019)
    assert graph.ids() == ids
    assert graph.sayers(ids["alice likes tea 2019-"]) == {both[first]}


def test_restore_gives_way_to_newer_relations(graph: Graph) -> None:
    memory = graph.add("Lives in Paris", "user lives_in Paris", when=2019)
    graph.decide("DELETE", memory, None, when=None)
    graph.add("Lives in Rome", "user lives_in Rome", when=2021)
    graph.decide("ADD", memory, "Lives in Paris", when=2019)
    assert graph.now() == ["alice lives_in Paris 2019-2021", "alice lives_in Rome 2021-"]


def test_restore_joins_a_newer_relation_with_the_same_triple(graph: Graph) -> None:
    memory = graph.add("Likes tea", "user likes tea", when=2019)
    graph.decide("DELETE", memory, None, when=None)
    later = graph.add("Loves tea", "user likes tea", when=2021)
    graph.decide("ADD", memory, "Likes tea", when=2019)
    assert graph.now() == ["alice likes tea 2019-"]
    assert graph.sayers(graph.ids()["alice likes tea 2019-"]) == {memory, later}


def test_restore_after_merge_gives_the_relation_to_the_winner(graph: Graph) -> None:
    memory = graph.add("Bob likes tea", "Bob likes tea", when=2019)
    graph.said("Robert knows Ann", 2019)
    graph.decide("DELETE", memory, None, when=None)
    by_hand(graph.ledger, edits.merge, "Bob", "Robert", within=graph.scope)
    graph.decide("ADD", memory, "Bob likes tea", when=2019)
    assert graph.now() == ["Robert knows Ann 2019-", "Robert likes tea 2019-"]


def test_the_successor_id_of_a_deleted_memory_takes_over_its_relations(graph: Graph) -> None:
    one, other, third = (
        graph.add(f"Likes tea {place}", *said, when=2019) for place, said in enumerate([["user likes tea"], [], []])
    )
    rows = graph.rows()
    graph.apply(
        graph.decision("DELETE", one, None, successor_id=other),
        graph.decision("DELETE", other, None, successor_id=third),
    )
    assert graph.rows() == rows
    assert graph.sayers(rows[0].id) == {third}
    graph.decide("DELETE", third, None, when=None)
    assert graph.now() == []


def test_delete_all_memories_retires_their_relations(graph: Graph) -> None:
    for place in range(3):
        graph.add(f"Likes tea {place}", "user likes tea", f"user likes tea{place}", when=2019)
    graph.said("user likes jazz", 2019)
    graph.ledger.delete_all(graph.scope, reason="asked for")
    assert graph.now() == ["alice likes jazz 2019-"]  # nobody said it but the user


def test_delete_of_a_memory_keeps_a_relation_written_by_hand(graph: Graph) -> None:
    graph.said("Ann likes tea", 2019)
    memory = graph.add("Ann likes tea", "Ann likes tea", when=2020)
    graph.decide("DELETE", memory, None, when=2021)
    assert graph.now() == ["Ann likes tea 2019-"]
    [relation_id] = graph.ids().values()
    assert graph.told((by_hand(graph.ledger, edits.withdraw, relation_id),)) == ["DELETE Ann likes tea 2019-"]


def test_expires_at_ends_the_relations_of_a_memory(graph: Graph) -> None:
    soon = datetime.now(UTC) - timedelta(hours=1)
    memory = graph.add("Is in Paris", "user is_in Paris", when=2019)
    graph.apply(Decision("UPDATE", memory, None, expires_at=soon, keep_expiry=False))
    assert graph.now() == ["alice is_in Paris 2019-"]
    Sweeper(graph.ledger.database, graph.ledger, minutes=0).sweep()
    (row,) = [row for row in graph.rows() if row.retired_at is None]
    assert row.valid_to == soon


def test_change_feed_names_every_row_of_a_relation(graph: Graph) -> None:
    memory = graph.add("Lives in Paris", "user lives_in Paris", when=2019)
    graph.decide("UPDATE", memory, "Lives in Rome", "user lives_in Rome", when=2021)
    old, ended, new = graph.rows()
    with graph.ledger.database.read() as connection:
        query = select(changes.c.row, changes.c.op).where(changes.c.space == "relations", changes.c.seq >= old.pk)
        told = [tuple(row) for row in connection.execute(query.order_by(changes.c.seq))]
    assert (old.pk, "put") == told[0]
    assert {(old.pk, "delete"), (ended.pk, "put"), (new.pk, "put")} <= set(told)


# ── without a graph ─────────────────────────────────────────────────────────────────────────────────────────────────────


def counted(graph: Graph, write: Callable[[], object]) -> list[str]:
    """The statements that the driver of SQLite runs meanwhile, transactions left out."""
    found: list[str] = []

    def trace(connection: object, *_: object) -> None:
        connection.set_trace_callback(found.append)  # type: ignore[attr-defined]

    engine = graph.ledger.database._engine
    event.listen(engine, "checkout", trace)
    try:
        write()
    finally:
        event.remove(engine, "checkout", trace)
    return [
        statement for statement in found if statement.split()[0] in {"SELECT", "INSERT", "UPDATE", "DELETE", "WITH"}
    ]


def test_add_without_relations_runs_no_statement_on_the_graph(graph: Graph) -> None:
    if graph.ledger.database.dialect != "sqlite":
        pytest.skip("statements are counted by SQLite's driver")
    tables = [table.name for table in (entities, entity_names, relations, relation_memories)]
    graph.add("first", when=2019)
    plain = counted(graph, lambda: graph.add("Likes tea", when=2019))
    assert plain
    assert not [statement for statement in plain if any(f" {name}" in statement for name in tables)]
    assert graph.rows() == []
    told = counted(graph, lambda: graph.add("Likes jazz", "user likes jazz", "Ann likes jazz", when=2019))
    more = counted(graph, lambda: graph.add("Likes much", *(f"user likes thing{n}" for n in range(50)), when=2019))
    asked = [[s for s in each if s.startswith("SELECT")] for each in (told, more)]
    assert len(asked[1]) <= len(asked[0]) + 1  # however many relations
