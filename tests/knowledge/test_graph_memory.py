from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import Engine, event

from langmem_adapter.errors import (
    EntityNotFoundError,
    InvalidInputError,
    RelationNotFoundError,
    ScopeError,
    UnknownArgumentError,
)
from langmem_adapter.knowledge.memory import GraphMemory
from langmem_adapter.knowledge.walk import MOST_NODES
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.graph import Triple
from langmem_adapter.records.scope import Scope
from tests.cases import each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from langmem_adapter.records.graph import Relation

ALICE: dict[str, Any] = {"user_id": "alice"}


@pytest.fixture
def memory(database_url: str) -> Iterator[Memory]:
    with Memory(database_url) as opened:
        yield opened


@pytest.fixture
def graph(memory: Memory) -> GraphMemory:
    engine = memory.parts
    return GraphMemory(engine.database, engine.ledger, engine.searcher)


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def untouched(request: pytest.FixtureRequest, shared_url: Callable[[str], str]) -> Iterator[GraphMemory]:
    """One for all tests that write nothing."""
    with Memory(shared_url(request.param)) as opened:
        yield GraphMemory(opened.parts.database, opened.parts.ledger, opened.parts.searcher)


def texts(relations: Iterable[Relation]) -> list[str]:
    return [relation.text for relation in relations]


def write(graph: GraphMemory, *lines: str, **scope: str) -> None:
    """Relations from lines like "Anna|lives in|Lyon", at once."""
    triples = [Triple(source, relation.replace(" ", "_"), target) for source, relation, target in map(_parts, lines)]
    graph._ledger.relate(Scope(**(scope or ALICE)), triples)


def _parts(line: str) -> Sequence[str]:
    return line.split("|")


# ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_add_relations_end_and_delete_of_a_relation(graph: GraphMemory) -> None:
    added = graph.add("Anna", "Lives in", "Lyon", **ALICE, source_type="person", valid_from="2020-01-01")
    assert added.event == "ADD" and added.relation.text == "Anna lives in Lyon"
    assert graph.add("anna", "resides_in", "LYON", **ALICE).event == "NONE"
    (known,) = graph.relations(**ALICE)
    assert (known.id, known.mentions, known.source_type) == (added.relation.id, 2, "person")
    ended = graph.end(known.id, at="2024-06-01", **ALICE)
    assert (ended.event, ended.relation.valid_to) == ("END", datetime(2024, 6, 1, tzinfo=UTC))
    assert texts(graph.relations(**ALICE)) == []
    assert texts(graph.relations(**ALICE, as_of="2024-05-31")) == ["Anna lives in Lyon"]
    assert graph.delete(known.id).event == "DELETE"
    assert texts(graph.relations(**ALICE, as_of="2024-05-31")) == []
    assert len(graph.relations(**ALICE, history=True)) == 2


def test_add_ends_the_last_relation_of_a_single_one(graph: GraphMemory) -> None:
    graph.add("me", "lives in", "Lyon", **ALICE, valid_from="2020-01-01")
    change = graph.add("I", "lives in", "Oslo", **ALICE, valid_from="2024-01-01")
    assert (change.event, change.relation.text) == ("ADD", "alice lives in Oslo")
    for food in ("pizza", "burger"):
        graph.add("user", "likes", food, **ALICE)
    graph.add("我", "drives", "Volvo", **ALICE)
    assert graph.add("我", "drives", "Tesla", **ALICE, single=True).event == "ADD"
    held = {"alice lives in Oslo", "alice likes pizza", "alice likes burger", "alice drives Tesla"}
    assert set(texts(graph.relations(**ALICE))) == held
    assert set(texts(graph.relations(**ALICE, entity="我"))) == held


@each(
    ("wrong", "message"),
    [
        ({"source": ""}, "source is empty"),
        ({"source": "..."}, "nothing but punctuation"),
        ({"target": "x" * 201}, "201 characters; a name has at most 200"),
        ({"target": 7}, "target must be a str"),
        ({"target": "a\x00"}, "NUL"),
        ({"target": "ANNA"}, "the same entity"),
        ({"relation": " - "}, "holds no word"),
        ({"relation": "x" * 101}, "at most 100"),
        ({"confidence": 0}, "confidence"),
        ({"confidence": True}, "confidence"),
        ({"confidence": None}, "confidence"),
        ({"confidence": float("nan")}, "confidence"),
        ({"valid_from": "soon"}, "valid_from='soon' is no point in time"),
        ({"valid_from": "2024-01-02", "valid_to": "2024-01-02"}, "valid_from must lie before valid_to"),
        ({"source_type": 3}, "source_type must be a str"),
    ],
)
def test_add_refuses_unusable_arguments(untouched: GraphMemory, wrong: dict[str, Any], message: str) -> None:
    given = {"source": "Anna", "relation": "knows", "target": "Ben", **ALICE, **wrong}
    with pytest.raises(InvalidInputError, match=message):
        untouched.add(**given)
    assert len(untouched.entities(**ALICE, unrelated=True)) == 0


def test_methods_of_graph_need_a_scope(graph: GraphMemory) -> None:
    calls: list[tuple[str, tuple[str, ...]]] = [
        ("add", ("a", "b", "c")),
        ("relations", ()),
        ("entities", ()),
        ("neighbours", ("a",)),
        ("path", ("a", "b")),
        ("search", ("a",)),
        ("merge", ("a", "b")),
        ("split", ("a",)),
        ("delete_all", ()),
        ("draw", ()),
    ]
    for name, arguments in calls:
        with pytest.raises(ScopeError, match="user_id is missing"):
            getattr(graph, name)(*arguments)
        with pytest.raises(UnknownArgumentError, match="user_id"):
            getattr(graph, name)(*arguments, userid="a")


def test_end_delete_merge_and_split_refuse_what_is_not_there(graph: GraphMemory) -> None:
    known = graph.add("Anna", "knows", "Ben", **ALICE).relation.id
    for scope in ({"user_id": "bob"}, {"user_id": "alice", "run_id": "1"}):
        for change in (graph.end, graph.delete):
            with pytest.raises(RelationNotFoundError):
                change(known, **scope)
    with pytest.raises(RelationNotFoundError):
        graph.delete("no such id")
    with pytest.raises(InvalidInputError, match="a relation's id is a text"):
        graph.end("")
    with pytest.raises(EntityNotFoundError):
        graph.merge("nobody", "Anna", **ALICE)
    with pytest.raises(EntityNotFoundError):
        graph.split("Anna", **ALICE)
    assert len(graph.relations(**ALICE)) == 1


def test_merge_joins_two_names_and_split_undoes_that(graph: GraphMemory) -> None:
    write(graph, "Bob|works at|Acme", "Robert|likes|tea")
    assert graph.merge("bob", "Robert", **ALICE) == 1
    assert texts(graph.relations(**ALICE, entity="Bob")) == ["Robert works at Acme", "Robert likes tea"]
    assert graph.entities(**ALICE)[0].aliases == ("Bob",)
    assert graph.split("BOB", **ALICE) == 1
    assert texts(graph.relations(**ALICE, entity="Bob")) == ["Bob works at Acme"]
    write(graph, "alice|likes|cake", "Ally|likes|cats")
    graph.merge("Ally", "me", **ALICE)
    assert set(texts(graph.relations(**ALICE, entity="ally"))) == {"alice likes cake", "alice likes cats"}


def test_delete_all_withdraws_a_scope_and_no_other(graph: GraphMemory) -> None:
    write(graph, "Anna|knows|Ben", "Ben|knows|Eva")
    write(graph, "Anna|knows|Ben", user_id="bob")
    believed = datetime.now(UTC)
    assert graph.delete_all(**ALICE) == 2
    assert len(graph.relations(**ALICE)) == len(graph.entities(**ALICE)) == 0
    assert len(graph.relations(**ALICE, known_at=believed)) == 2
    assert len(graph.relations(user_id="bob")) == 1


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_after_pages_through_relations_and_entities(graph: GraphMemory) -> None:
    write(graph, *(f"person {number % 4}|knows|thing {number}" for number in range(11)))
    page = graph.relations(**ALICE, k=4)
    seen = list(page)
    while page.next is not None:
        page = graph.relations(**ALICE, k=4, after=page.next)
        seen += page
    assert seen == list(graph.relations(**ALICE)) and len(seen) == 11
    people = graph.entities(**ALICE, k=2)
    assert [entity.name for entity in people] == ["person 2", "person 1"]
    assert [entity.name for entity in graph.entities(**ALICE, k=1, after=people.next)] == ["person 0"]


def test_neighbours_come_nearest_first_with_what_leads_to_them(graph: GraphMemory) -> None:
    write(
        graph, "Anna|married to|Ben", "Ben|works at|Acme", "Acme|based in|Oslo", "Ben|friend of|Anna", "Eva|knows|Ida"
    )
    near = graph.neighbours("anna", hops=3, **ALICE)
    assert [(each.entity.name, each.hops) for each in near] == [("Ben", 1), ("Acme", 2), ("Oslo", 3)]
    assert texts(near[0].relations) == ["Ben friend of Anna", "Anna married to Ben"]
    assert texts(near[2].relations) == ["Acme lives in Oslo"]
    assert [each.entity.name for each in graph.neighbours("Oslo", **ALICE)] == ["Acme"]
    assert [each.entity.name for each in graph.neighbours("Anna", hops=5, k=2, **ALICE)] == ["Ben", "Acme"]
    assert graph.neighbours("nobody", **ALICE) == graph.neighbours("Anna", user_id="bob") == []


def test_neighbours_and_path_as_of_and_known_at(graph: GraphMemory) -> None:
    graph.add("Anna", "works at", "Acme", **ALICE, valid_from="2020-01-01", valid_to="2022-01-01")
    graph.add("Ben", "works at", "Acme", **ALICE, valid_from="2021-01-01")
    assert graph.path("Anna", "Ben", **ALICE) == []
    assert texts(graph.path("Anna", "Ben", **ALICE, as_of="2021-06-01")) == ["Anna works at Acme", "Ben works at Acme"]
    assert graph.path("Anna", "Ben", **ALICE, as_of="2020-06-01") == []
    before = datetime.now(UTC) - timedelta(minutes=1)
    assert graph.neighbours("Ben", **ALICE, known_at=before) == []
    assert [each.entity.name for each in graph.neighbours("Acme", **ALICE, as_of="2020-06-01")] == ["Anna"]


def test_path_is_shortest_within_max_hops(graph: GraphMemory) -> None:
    write(
        graph, "a1|knows|a2", "a3|knows|a2", "a3|knows|a4", "a4|knows|a5", "a5|knows|a6", "a1|knows|b1", "b1|knows|a4"
    )
    assert texts(graph.path("A1", "A4", **ALICE)) == ["a1 knows b1", "b1 knows a4"]
    assert len(graph.path("a1", "a6", **ALICE)) == 4
    assert graph.path("a1", "a6", **ALICE, max_hops=3) == graph.path("a1", "a1", **ALICE) == []
    assert graph.path("a1", "nobody", **ALICE) == graph.path("a1", "a4", user_id="bob") == []


def test_path_crosses_scopes_where_names_are_equal(graph: GraphMemory) -> None:
    write(graph, "Anna|knows|Ben", user_id="alice", run_id="1")
    write(graph, "BEN|works at|Acme", user_id="alice", run_id="2")
    write(graph, "Acme|based in|Rome", user_id="bob")
    assert texts(graph.path("Anna", "Acme", **ALICE)) == ["Anna knows Ben", "BEN works at Acme"]
    assert [each.entity.name for each in graph.neighbours("Anna", hops=5, **ALICE)] == ["Ben", "Acme"]
    assert graph.path("Anna", "Acme", **ALICE, run_id="1") == []


def test_neighbours_of_a_hub_are_the_newest(graph: GraphMemory) -> None:
    write(graph, *(f"hub|knows|person {number}" for number in range(300)))
    near = graph.neighbours("hub", k=5, **ALICE)
    assert [each.entity.name for each in near] == [f"person {number}" for number in range(299, 294, -1)]
    assert len(graph.neighbours("person 7", hops=2, k=250, **ALICE)) == 250
    assert len(graph.neighbours("person 7", hops=2, k=1_000, **ALICE)) == 300


@each(
    "wrong",
    [
        {"hops": 0},
        {"hops": 6},
        {"hops": True},
        {"k": 0},
        {"k": 10_001},
        {"as_of": "x"},
        {"known_at": []},
        {"entity": " "},
    ],
)
def test_neighbours_and_path_refuse_unusable_arguments(untouched: GraphMemory, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(wrong))):
        untouched.neighbours(**{"entity": "Anna", **ALICE, **wrong})


def test_relations_reads_compile_no_statement_twice(memory: Memory, graph: GraphMemory) -> None:
    write(graph, "Anna|knows|Ben", "Ben|lives in|Lyon")
    write(graph, "Ben|likes|tea", user_id="alice", run_id="r1")
    moment = datetime.now(UTC)
    times: list[dict[str, Any]] = [{}, {"as_of": moment}, {"known_at": moment}, {"as_of": moment, "known_at": moment}]
    anew: list[object] = []

    def note(_: object, statement: object, *_more: object) -> None:
        anew.append(statement)

    event.listen(Engine, "before_execute", note)
    try:
        memory.get_all(**ALICE)
        assert anew  # this is how it would be seen
        anew.clear()
        for when in times:
            for scope in (ALICE, {**ALICE, "run_id": "r1"}):
                assert graph.relations(entity="Ben", relation="likes", **scope, **when)
                assert graph.entities(**scope, **when)
                assert graph.neighbours("Ben", hops=2, **scope, **when)
                assert graph.path("Ben", "tea", **scope, **when)
                assert graph.draw(**scope, **when)
    finally:
        event.remove(Engine, "before_execute", note)
    assert not anew


# ── searching ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_search_finds_by_names_by_words_and_by_memories(memory: Memory, graph: GraphMemory) -> None:
    write(graph, "Anna|married to|Ben", "Ben|works at|Acme", "小红|住在|北京", "Eva|plays|violin")
    graph.add("Ben", "plays", "chess", **ALICE, valid_to="2020-01-01")
    assert texts(graph.search("Tell me about Acme", **ALICE))[0] == "Ben works at Acme"
    assert texts(graph.search("Who plays an instrument?", **ALICE))[0] == "Eva plays violin"
    assert texts(graph.search("小红住在哪里？", **ALICE))[0] == "小红 住在 北京"
    assert "Ben plays chess" not in texts(graph.search("Ben plays chess", **ALICE, k=100))
    assert len(graph.search("Anna Ben Acme Eva", **ALICE, k=2)) == 2
    assert graph.search("Acme", user_id="bob") == []


def test_search_of_relations_uses_the_memories(memory: Memory, graph: GraphMemory) -> None:
    write(graph, "Eva|plays|violin")
    said = memory.add("The piano has been her instrument since school", infer=False, **ALICE).results[0]
    _say(memory, "She adores Chopin's nocturnes", Triple("Eva", "fan_of", "Frédéric"))
    assert texts(graph.search("nocturnes by Chopin", **ALICE))[0] == "Eva fan of Frédéric"
    assert said.id is not None


def _say(memory: Memory, text: str, triple: Triple) -> None:
    from langmem_adapter.records.results import Decision
    from langmem_adapter.storage.write import Write

    vectors = {text: memory.parts.embedder.vectors([text])[0]}
    decision = Decision("ADD", "00000000-0000-4000-8000-000000000000", text, relations=(triple,))
    memory.parts.ledger.apply(Write((decision,), scope=Scope("alice"), vectors=vectors))


# ── drawing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_draw_shows_current_relations_and_dashes_ended_ones(graph: GraphMemory) -> None:
    graph.add("Anna", "lives in", "Lyon", **ALICE, valid_from="2020-01-01")
    graph.add("Anna", "lives in", "Oslo", **ALICE, valid_from="2024-01-01")
    text = graph.draw(**ALICE)
    assert '-.->|"lives in, 2020-01-01 – 2024-01-01"|' in text and '-->|"lives in"|' in text
    assert "Oslo" not in graph.draw(**ALICE, as_of="2021-01-01")
    assert graph.draw(user_id="bob") == "flowchart LR\n"
    assert graph.draw(format="dot", **ALICE, known_at="2019-01-01").count("label") == 0
    with pytest.raises(InvalidInputError, match="format is one of"):
        graph.draw(format="svg", **ALICE)  # type: ignore[arg-type]


def test_draw_around_an_entity(graph: GraphMemory) -> None:
    write(graph, "Anna|knows|Ben", "Anna|knows|Eva", "Ben|likes|Eva", "Eva|knows|Ida", "Ida|knows|Ole", "Ole|knows|Zoe")
    one, two = (graph.draw(format="dot", entity="anna", hops=hops, **ALICE) for hops in (1, 2))
    assert one.count("->") == 3 and "Ida" not in one
    assert two.count("->") == 4 and "Ole" not in two
    assert graph.draw(entity="nobody", **ALICE) == "flowchart LR\n"


def test_draw_around_a_hub_is_cut_and_says_so(graph: GraphMemory) -> None:
    write(graph, *(f"hub|knows|person {number}" for number in range(MOST_NODES + 9)))
    for entity in (None, "hub", "person 3"):
        text = graph.draw(**ALICE, entity=entity)
        assert text.count('["') == MOST_NODES + 1  # the note that it is cut
        assert f"cut to {MOST_NODES}" in text
    assert '["person 3"]' in text
