"""Names that a model is shown, to be used again."""

from __future__ import annotations

from langmem_adapter.storage.graph import edits
from langmem_adapter.storage.graph.hints import load_names
from tests.storage.graph.small_graph import Graph, by_hand


def test_load_names_lists_named_entities_then_the_most_mentioned(graph: Graph) -> None:
    for number in range(60):
        graph.said(f"Thing{number} is_in Box{number % 3}")
    graph.said("Ann has_role nurse", target_type="profession")
    with graph.ledger.database.read() as connection:
        names, relations = load_names(connection, graph.scope, ["Does Ann keep thing59?", "她是nurse吗"])
    assert set(names[:3]) == {("Ann", ""), ("nurse", "profession"), ("Thing59", "")}
    assert {name for name, _ in names[3:6]} == {"Box0", "Box1", "Box2"}
    assert len(names) <= 40
    assert relations == ("is_in", "has_role")


def test_load_names_of_another_scope_are_not_shown(graph: Graph) -> None:
    graph.said("Ann likes tea")
    other = Graph(graph.ledger)
    with graph.ledger.database.read() as connection:
        assert load_names(connection, other.scope, ["Ann likes tea"]) == ((), ())


def test_load_names_after_merge(graph: Graph) -> None:
    graph.said("Bob likes tea")
    graph.said("Robert likes milk")
    by_hand(graph.ledger, edits.merge, "Bob", "Robert", within=graph.scope)
    with graph.ledger.database.read() as connection:
        names, _ = load_names(connection, graph.scope, ["What does Bob like?"])
    assert {name for name, _ in names} == {"Robert", "tea", "milk"}


def test_load_names_of_a_long_text(graph: Graph) -> None:
    graph.said("Ann likes tea")
    with graph.ledger.database.read() as connection:
        names, _ = load_names(connection, graph.scope, ["word " * 100_000, "Ann"])
    assert names[0] == ("Ann", "")
