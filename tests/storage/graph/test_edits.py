"""Edits by hand: relations that are ended or withdrawn, entities that are merged and split again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select

from langmem_adapter.errors import EntityNotFoundError, InvalidInputError, RelationNotFoundError
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage.graph import edits
from langmem_adapter.storage.tables import entities, entity_names
from tests.storage.graph.small_graph import Graph, by_hand, triple, year


def beliefs(graph: Graph) -> set[tuple[Any, ...]]:
    """All of what is believed but its row numbers and when it was recorded; and who says it."""
    return {
        (
            row.id,
            row.source_pk,
            row.relation,
            row.target_pk,
            row.valid_from,
            row.valid_to,
            row.mentions,
            row.confidence,
            frozenset(graph.sayers(row.id)),
        )
        for row in graph.rows()
        if row.retired_at is None
    }


def people(graph: Graph) -> set[tuple[Any, ...]]:
    """Names, and how often each was mentioned."""
    query = select(entity_names.c.key, entities.c.pk, entities.c.mentions, entities.c.merged_into)
    scope_ids = {row.scope_id for row in graph.rows()}
    with graph.ledger.database.read() as connection:
        joined = query.join_from(entity_names, entities, entities.c.pk == entity_names.c.entity_pk)
        return {tuple(row) for row in connection.execute(joined.where(entities.c.scope_id.in_(scope_ids)))}


# ── one relation ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_end_of_a_relation_at_a_moment_and_earlier(graph: Graph) -> None:
    graph.said("user works_at Acme", 2019)
    (relation_id,) = graph.ids().values()
    then = datetime.now(UTC)
    assert graph.told((by_hand(graph.ledger, edits.end, relation_id, at=year(2022)),)) == [
        "END alice works_at Acme 2019-2022"
    ]
    by_hand(graph.ledger, edits.end, relation_id, at=year(2021), within=graph.scope)
    assert graph.now() == ["alice works_at Acme 2019-2021"]
    assert graph.known(then) == ["alice works_at Acme 2019-"]
    assert set(graph.ids().values()) == {relation_id}
    with pytest.raises(InvalidInputError, match="ended by then"):
        by_hand(graph.ledger, edits.end, relation_id, at=year(2021))


def test_end_before_the_begin_withdraws_a_relation(graph: Graph) -> None:
    graph.said("user works_at Acme", 2019)
    (relation_id,) = graph.ids().values()
    assert by_hand(graph.ledger, edits.end, relation_id, at=year(2019)).event == "DELETE"
    assert graph.now() == []


def test_end_is_now_by_default(graph: Graph) -> None:
    graph.said("user works_at Acme", 2019)
    by_hand(graph.ledger, edits.end, *graph.ids().values())
    assert graph.now() == [f"alice works_at Acme 2019-{datetime.now(UTC).year}"]


def test_withdraw_retires_a_relation_once_and_known_at_keeps_it(graph: Graph) -> None:
    memory = graph.add("Works at Acme", "user works_at Acme", when=2019)
    (relation_id,) = graph.ids().values()
    then = datetime.now(UTC)
    change = by_hand(graph.ledger, edits.withdraw, relation_id)
    assert (change.event, change.relation.memory_ids) == ("DELETE", (memory,))
    assert change.relation.retired_at is not None
    assert (graph.now(), graph.known(then)) == ([], ["alice works_at Acme 2019-"])
    with pytest.raises(RelationNotFoundError):
        by_hand(graph.ledger, edits.withdraw, relation_id)
    graph.decide("NONE", memory, "Works at Acme", "user works_at Acme", when=2021)
    assert graph.now() == ["alice works_at Acme 2021-"]


def test_end_and_withdraw_refuse_a_relation_outside_the_scope(graph: Graph) -> None:
    graph.said("user works_at Acme", 2019)
    (relation_id,) = graph.ids().values()
    other = Scope(user_id="somebody else")
    for edit in (edits.end, edits.withdraw):
        with pytest.raises(RelationNotFoundError):
            by_hand(graph.ledger, edit, relation_id, within=other)
        with pytest.raises(RelationNotFoundError):
            by_hand(graph.ledger, edit, "unknown")
    assert graph.now() == ["alice works_at Acme 2019-"]


def test_withdraw_all_retires_the_relations_of_one_scope(graph: Graph) -> None:
    run, other = Graph(graph.ledger, Scope(user_id=graph.scope.user_id, run_id="r")), Graph(graph.ledger)
    for each in (graph, run, other):
        each.said("user likes tea", 2019)
    graph.said("user likes jazz", 2019, valid_to=year(2020))
    assert by_hand(graph.ledger, edits.withdraw_all, graph.scope) == 3
    assert (graph.now(), other.now()) == ([], ["alice likes tea 2019-"])
    assert by_hand(graph.ledger, edits.withdraw_all, graph.scope) == 0


# ── two entities ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_merge_gives_the_winner_both_names(graph: Graph) -> None:
    graph.said("Bob works_at Acme", 2019)
    graph.said("Ann knows Bob", 2019)
    graph.said("Robert likes tea", 2019)
    ids = set(graph.ids().values())
    assert by_hand(graph.ledger, edits.merge, "bob", "Robert", within=graph.scope) == 2
    assert graph.now() == ["Ann knows Robert 2019-", "Robert likes tea 2019-", "Robert works_at Acme 2019-"]
    assert set(graph.ids().values()) == ids
    assert graph.said("Bob works_at Bell", 2021) == [
        "END Robert works_at Acme 2019-2021",
        "ADD Robert works_at Bell 2021-",
    ]
    assert graph.said("BOB likes tea", 2021) == ["NONE Robert likes tea 2019-"]
    assert graph.said("Bob knows Robert", 2021) == []


def test_merge_joins_relations_with_one_triple(graph: Graph) -> None:
    memories = {
        graph.add("Bob likes tea", "Bob likes tea", when=2019),
        graph.add("Robert too", "Robert likes tea", when=2021),
    }
    graph.said("Bob knows Robert", 2020)
    before, named = beliefs(graph), people(graph)
    assert by_hand(graph.ledger, edits.merge, "Bob", "Robert", within=graph.scope) == 2
    assert graph.now() == ["Robert likes tea 2019-"]
    assert graph.sayers(*graph.ids().values()) == memories
    assert [row.mentions for row in graph.rows() if row.retired_at is None] == [2]
    assert by_hand(graph.ledger, edits.split, "Bob", within=graph.scope) == 2
    assert (beliefs(graph), people(graph)) == (before, named)


def test_merge_joins_a_relation_that_covers_two_others(graph: Graph) -> None:
    for first, last in ((2010, 2012), (2014, 2016)):
        graph.said("Robert likes tea", 2020, valid_from=year(first), valid_to=year(last))
    graph.said("Bob likes tea", 2020, valid_from=year(2011), valid_to=year(2015))
    before = beliefs(graph)
    by_hand(graph.ledger, edits.merge, "Bob", "Robert", within=graph.scope)
    assert graph.now() == ["Robert likes tea 2010-2016"]
    by_hand(graph.ledger, edits.split, "Bob", within=graph.scope)
    assert beliefs(graph) == before


def test_merge_into_a_new_entity(graph: Graph) -> None:
    graph.said("Bob likes tea", 2019)
    by_hand(graph.ledger, edits.merge, "Bob", "Robert", within=graph.scope)
    assert graph.now() == ["Robert likes tea 2019-"]
    by_hand(graph.ledger, edits.split, "Bob", within=graph.scope)
    assert graph.now() == ["Bob likes tea 2019-"]


def test_merge_keeps_contradicting_relations(graph: Graph) -> None:
    graph.said("Bob lives_in Paris", 2019)
    graph.said("Robert lives_in Rome", 2020)
    by_hand(graph.ledger, edits.merge, "Bob", "Robert", within=graph.scope)
    assert graph.now() == ["Robert lives_in Paris 2019-", "Robert lives_in Rome 2020-"]
    graph.said("Robert lives_in Paris", 2021)
    assert graph.now() == ["Robert lives_in Paris 2019-", "Robert lives_in Rome 2020-2021"]


def test_merge_needs_two_entities(graph: Graph) -> None:
    graph.said("Bob likes tea", 2019)
    rows = graph.rows()
    with pytest.raises(EntityNotFoundError, match="Nobody"):
        by_hand(graph.ledger, edits.merge, "Nobody", "Bob", within=graph.scope)
    with pytest.raises(InvalidInputError, match="the same already"):
        by_hand(graph.ledger, edits.merge, "Bob", "BOB.", within=graph.scope)
    with pytest.raises(EntityNotFoundError):
        by_hand(graph.ledger, edits.merge, "Bob", "tea", within=Scope(user_id="somebody else"))
    with pytest.raises(EntityNotFoundError):
        by_hand(graph.ledger, edits.split, "Bob", within=graph.scope)
    assert graph.rows() == rows


def test_merge_and_split_in_each_scope_of_a_user(graph: Graph) -> None:
    runs = [Graph(graph.ledger, Scope(user_id=graph.scope.user_id, run_id=name)) for name in ("one", "two")]
    for run in runs:
        run.said("Bob likes tea", 2019)
    other = Graph(graph.ledger)
    other.said("Bob likes tea", 2019)
    assert by_hand(graph.ledger, edits.merge, "Bob", "Robert", within=graph.scope) == 2
    assert graph.now() == ["Robert likes tea 2019-"] * 2
    assert other.now() == ["Bob likes tea 2019-"]
    assert by_hand(graph.ledger, edits.split, "Bob", within=runs[0].scope) == 1
    assert graph.now() == ["Bob likes tea 2019-", "Robert likes tea 2019-"]


def test_split_brings_relations_back_with_later_changes(graph: Graph) -> None:
    memory = graph.add("Bob likes jazz", "Bob likes jazz", when=2019)
    graph.said("Bob works_at Acme", 2019)
    graph.said("Robert likes tea", 2019)
    by_hand(graph.ledger, edits.merge, "Bob", "Robert", within=graph.scope)
    graph.said("Bob works_at Bell", 2021)
    graph.decide("DELETE", memory, None, when=None)
    by_hand(graph.ledger, edits.split, "Bob", within=graph.scope)
    assert graph.now() == ["Bob works_at Acme 2019-2021", "Robert likes tea 2019-", "Robert works_at Bell 2021-"]


def test_split_brings_no_relation_of_a_deleted_memory_back(graph: Graph) -> None:
    memory = graph.add("Bob likes tea", "Bob likes tea", when=2019)
    graph.add("Robert too", "Robert likes tea", when=2021)
    by_hand(graph.ledger, edits.merge, "Bob", "Robert", within=graph.scope)
    graph.decide("DELETE", memory, None, when=None)
    by_hand(graph.ledger, edits.split, "Bob", within=graph.scope)
    assert graph.now() == ["Robert likes tea 2021-"]


def test_split_undoes_merges_in_any_order(graph: Graph) -> None:
    graph.said("Ann knows Bob", 2019)
    before = graph.now()
    by_hand(graph.ledger, edits.merge, "Ann", "Cid", within=graph.scope)
    by_hand(graph.ledger, edits.merge, "Bob", "Dan", within=graph.scope)
    assert graph.now() == ["Cid knows Dan 2019-"]
    by_hand(graph.ledger, edits.split, "Ann", within=graph.scope)
    assert graph.now() == ["Ann knows Dan 2019-"]
    by_hand(graph.ledger, edits.split, "Bob", within=graph.scope)
    assert graph.now() == before


def test_split_undoes_a_chain_of_merges_from_its_end(graph: Graph) -> None:
    graph.said("Bob likes tea", 2019)
    for name, into in (("Bob", "Rob"), ("Rob", "Robert")):
        by_hand(graph.ledger, edits.merge, name, into, within=graph.scope)
    assert graph.said("Bob likes tea", 2020) == ["NONE Robert likes tea 2019-"]
    by_hand(graph.ledger, edits.split, "Bob", within=graph.scope)
    assert graph.now() == ["Rob likes tea 2019-"]
    by_hand(graph.ledger, edits.split, "Bob", within=graph.scope)
    assert graph.now() == ["Bob likes tea 2019-"]


def test_merge_of_entities_with_many_relations(graph: Graph) -> None:
    many = [triple(f"{name} visited place{number}") for name in ("Bob", "Robert") for number in range(300)]
    graph.ledger.relate(graph.scope, many, time=year(2019))
    assert by_hand(graph.ledger, edits.merge, "Bob", "Robert", within=graph.scope) == 300
    assert len(graph.now()) == 300
    assert by_hand(graph.ledger, edits.split, "Bob", within=graph.scope) == 300
    assert len(graph.now()) == 600
