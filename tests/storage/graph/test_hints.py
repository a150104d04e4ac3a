"""Names that a model is shown, to be used again."""

from __future__ import annotations

from langmem_adapter.storage.graph import edits
from langmem_adapter.storage.graph.hints import known_names
from tests.storage.graph.small_graph import Graph, by_hand


def test_what_is_named_comes_first_then_what_is_stated_most(graph: Graph) -> None:
    for number in range(60):
        graph.said(f"Thing{number} is_in Box{number % 3}")
    graph.said("Ann has_role nurse", target_type="profession")
    with graph.ledger.database.read() as connection:
        names, relations = known_names(connection, graph.scope, ["Does Ann keep thing59?", "她是nurse吗"])
    assert set(names[:3]) == {("Ann", ""), ("nurse", "profession"), ("Thing59", "")}
    assert {name for name, _ in names[3:6]} == {"Box0", "Box1", "Box2"}
    assert len(names) <= 40
    assert relations == ("is_in", "has_role")


def test_others_names_are_not_shown(graph: Graph) -> None:
    graph.said("Ann likes tea")
    other = Graph(graph.ledger)
    with graph.ledger.database.read() as connection:
        assert known_names(connection, other.scope, ["Ann likes tea"]) == ((), ())


def test_a_merged_entity_goes_by_the_name_of_the_one_that_stayed(graph: Graph) -> None:
    graph.said("Bob likes tea")
    graph.said("Robert likes milk")
    by_hand(graph.ledger, edits.merge, "Bob", "Robert", within=graph.scope)
    with graph.ledger.database.read() as connection:
        names, _ = known_names(connection, graph.scope, ["What does Bob like?"])
    assert {name for name, _ in names} == {"Robert", "tea", "milk"}


def test_a_long_talk_is_looked_through(graph: Graph) -> None:
    graph.said("Ann likes tea")
    with graph.ledger.database.read() as connection:
        names, _ = known_names(connection, graph.scope, ["word " * 100_000, "Ann"])
    assert names[0] == ("Ann", "")
