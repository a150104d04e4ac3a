from __future__ import annotations

import uuid
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.graph import Entity, Relation, Triple
from langmem_adapter.records.results import Decision
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.graph import edits
from langmem_adapter.storage.graph import reads as graph_entities
from langmem_adapter.storage.graph import reads as graph_reads
from langmem_adapter.storage.graph.reads import NOW, EntityGroups, GraphTime, find_entities
from langmem_adapter.storage.ledger import Ledger
from langmem_adapter.storage.migrations import prepare
from langmem_adapter.storage.scopes import expand
from langmem_adapter.storage.tables import relations
from langmem_adapter.storage.write import Write
from tests.cases import each
from tests.storage.graph.small_graph import by_hand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from langmem_adapter.records.graph import RelationChange
    from langmem_adapter.records.results import Paged

ALICE = Scope(user_id="alice")
START = datetime(2020, 1, 1, tzinfo=UTC)


def day(number: int) -> datetime:
    return START + timedelta(days=number)


class Book:
    """Writes relations of one scope, and reads them back."""

    def __init__(self, database: Database, scope: Scope = ALICE) -> None:
        self.database = database
        self.scope = scope
        self.ledger = Ledger(database, fingerprint="hash:64/1")

    def state(self, source: str, relation: str, target: str, **fields: Any) -> RelationChange:
        return self.ledger.relate(self.scope, [Triple(source, relation, target, **fields)])[-1]

    def remember(self, text: str, *triples: Triple) -> str:
        memory_id = str(uuid.uuid4())
        decision = Decision("ADD", memory_id, text, relations=triples)
        vectors = {text: HashEmbeddings(64).vector(text)}
        self.ledger.apply(Write((decision,), scope=self.scope, vectors=vectors))
        return memory_id

    def forget(self, memory_id: str) -> None:
        self.ledger.apply(Write((Decision("DELETE", memory_id, None),)))

    def read(self, when: GraphTime = NOW, *, k: int = 1_000, **how: Any) -> list[Relation]:
        with self.database.read() as connection:
            return list(graph_reads.page(connection, self.scope, when, k=k, **how))

    def texts(self, when: GraphTime = NOW, **how: Any) -> list[str]:
        return [relation.text for relation in self.read(when, **how)]

    def entities(self, when: GraphTime = NOW, *, k: int = 1_000, **how: Any) -> list[Entity]:
        with self.database.read() as connection:
            return list(graph_entities.entity_page(connection, self.scope, when, k=k, **how))


@pytest.fixture
def book(database: Database) -> Book:
    return Book(database)


def pages(read: Callable[[str | None], Paged[Any]]) -> Iterator[Paged[Any]]:
    after: str | None = None
    for _ in range(200):
        page = read(after)
        yield page
        if (after := page.next) is None:
            return
    pytest.fail("the pages do not end")


# ── relations ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_relations_are_read_as_written(book: Book) -> None:
    told = {"source_type": "person", "target_type": "city", "valid_from": day(1), "valid_to": day(9), "confidence": 0.5}
    written = book.state("Anna", "lives_in", "Lyon", **told).relation
    assert book.read() == [written]
    assert (written.source_type, written.target_type, written.scope, written.confidence) == (
        "person",
        "city",
        ALICE,
        0.5,
    )
    assert (written.valid_from, written.valid_to, written.retired_at) == (day(1), day(9), None)


def test_relations_and_entities_of_an_empty_graph(book: Book) -> None:
    assert book.read() == [] and book.entities() == []
    assert book.read(GraphTime(START, START, history=True), entity="Anna", relation="likes") == []


def test_relations_of_another_scope_are_not_read(database: Database) -> None:
    owners = [Scope("alice"), Scope("Alice"), Scope("bob"), Scope(None, "alice"), Scope(None, None, "alice")]
    for number, scope in enumerate(owners):
        Book(database, scope).state("Anna", "likes", f"thing {number}")
    for number, scope in enumerate(owners):
        each = Book(database, scope)
        assert each.texts() == [f"Anna likes thing {number}"]
        assert each.texts(entity="anna") == each.texts(GraphTime(history=True)) == each.texts()
        assert {entity.name for entity in each.entities()} == {"Anna", f"thing {number}"}


def test_relations_of_all_scopes_with_the_named_fields_newest_first(database: Database) -> None:
    parts = [Book(database, Scope("alice", run_id=run)) for run in ("1", "2", None)]
    for number in range(6):
        parts[number % 3].state("Anna", "likes", f"thing {number}")
    assert Book(database).texts() == [f"Anna likes thing {number}" for number in reversed(range(6))]
    assert parts[0].texts() == ["Anna likes thing 3", "Anna likes thing 0"]


def test_relations_by_entity_and_by_relation(book: Book) -> None:
    for triple in ("Anna likes tea", "Ben likes Anna", "Ben dislikes tea"):
        book.state(*triple.split())
    assert book.texts(entity="Anna") == ["Ben likes Anna", "Anna likes tea"]
    assert book.texts(relation="likes") == ["Ben likes Anna", "Anna likes tea"]
    assert book.texts(entity="tea", relation="dislikes") == ["Ben dislikes tea"]
    assert book.texts(entity="nobody") == book.texts(relation="knows") == []


HOW: list[dict[str, Any]] = [{}, {"entity": "Anna"}, {"relation": "likes"}, {"entity": "anna", "relation": "knows"}]


def test_pages_of_relations_hold_each_once(database: Database) -> None:
    for number in range(10):
        part = Book(database, Scope("alice", run_id=str(number % 2)))
        part.state(("Anna", "Ben")[number % 3 > 0], ("likes", "knows")[number % 2], f"thing {number}")
        part.state(f"thing {number}", "knows", "Anna")
    for how, k in product(HOW, (1, 3, 100)):
        whole = Book(database).read(**how)
        with database.read() as connection:
            read = partial(graph_reads.page, connection, ALICE, NOW, k=k, **how)
            seen = list(pages(lambda after, read=read: read(after=after)))  # type: ignore[misc]
        assert [relation for page in seen for relation in page] == whole
        assert len({relation.id for relation in whole}) == len(whole) > 3
        assert all(len(page) == k for page in seen[:-1])


def test_relations_of_many_scopes_are_in_the_same_order(database: Database) -> None:
    for number in range(70):
        Book(database, Scope("alice", run_id=str(number))).state("Anna", "likes", f"thing {number}")
    expected = [f"Anna likes thing {number}" for number in reversed(range(70))]
    assert Book(database).texts() == Book(database).texts(entity="ANNA") == expected
    assert Book(database).texts(k=5) == expected[:5]
    anna = Book(database).entities(k=1)
    assert [(entity.name, entity.mentions) for entity in anna] == [("Anna", 70)]


def test_after_refuses_a_strange_cursor(book: Book) -> None:
    for after in ("nonsense", "", "e30=", "WzEsMl0=", "WyIxIl0=", "W3RydWVd", "Wzk5OTk5OTk5OTk5OTk5OTk5OTk5OTld"):
        with pytest.raises(InvalidInputError, match="cursor"):
            book.read(after=after)


# ── times ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_as_of_and_known_at_differ(book: Book) -> None:
    before = datetime.now(UTC)
    book.state("Anna", "lives_in", "Lyon", valid_from=day(0))
    believed_lyon = datetime.now(UTC)
    book.state("Anna", "lives_in", "Oslo", valid_from=day(100))
    assert book.texts(GraphTime(day(50))) == ["Anna lives in Lyon"]
    assert book.texts(GraphTime(day(100))) == ["Anna lives in Oslo"]  # half-open: on that day no longer Lyon
    assert book.texts(GraphTime(day(-1))) == []
    assert book.texts(GraphTime(day(150), believed_lyon)) == ["Anna lives in Lyon"]
    assert book.texts(GraphTime(day(150), before)) == []
    assert len(book.read()) == 2  # what is believed now about any time
    beliefs = book.read(GraphTime(history=True))
    assert [(belief.target, belief.retired_at is None) for belief in beliefs].count(("Lyon", False)) == 1
    assert len(beliefs) == 3
    assert book.texts(GraphTime(known_at=believed_lyon, history=True)) == ["Anna lives in Lyon"]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["state", "state", "state", "end", "withdraw", "merge", "split"]),
        st.sampled_from(["Anna", "Ben", "小红"]),
        st.sampled_from(["lives_in", "likes"]),
        st.sampled_from(["Lyon", "Oslo", "北京"]),
        st.integers(0, 6),
        st.integers(0, 6),
    ),
    min_size=1,
    max_size=10,
)


def _step(book: Book, step: tuple[str, str, str, str, int, int]) -> None:
    word, source, relation, target, first, last = step
    standing = book.read()
    if word == "state":
        book.state(source, relation, target, valid_from=day(first), valid_to=day(last) if first < last else None)
    elif word == "withdraw" and standing:
        by_hand(book.ledger, edits.withdraw, standing[first % len(standing)].id)
    elif word == "end" and standing:
        chosen = standing[first % len(standing)]
        if chosen.valid_to is None or chosen.valid_to > day(last):
            by_hand(book.ledger, edits.end, chosen.id, at=day(last))
    elif word == "merge":
        with suppress(LookupError, InvalidInputError):
            by_hand(book.ledger, edits.merge, "Ben", "Anna", within=book.scope)
    elif word == "split":
        with suppress(LookupError):
            by_hand(book.ledger, edits.split, "Ben", within=book.scope)


def _naive(database: Database, scope_ids: tuple[int, ...], when: GraphTime) -> list[int]:
    """The same by looking at every row."""
    with database.read() as connection:
        rows = connection.execute(select(relations).where(relations.c.scope_id.in_(scope_ids))).all()
    return sorted((row.pk for row in rows if _believed(row, when) and _held(row, when)), reverse=True)


def _believed(row: Any, when: GraphTime) -> bool:
    if when.known_at is not None and row.recorded_at > when.known_at:
        return False
    if when.history or row.retired_at is None:
        return True
    return when.known_at is not None and bool(row.retired_at > when.known_at)


def _held(row: Any, when: GraphTime) -> bool:
    if when.as_of is None:
        return True
    return (row.valid_from is None or row.valid_from <= when.as_of) and (
        row.valid_to is None or row.valid_to > when.as_of
    )


@pytest.fixture
def shared(shared_url: Callable[[str], str], request: pytest.FixtureRequest) -> Iterator[Database]:
    opened = Database(shared_url(request.param))
    prepare(opened)
    yield opened
    opened.close()


KINDS = pytest.mark.parametrize(
    "shared", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)


@KINDS
@given(steps=STEPS)
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_as_of_and_known_at_give_what_every_row_says(
    shared: Database, steps: list[tuple[str, str, str, str, int, int]]
) -> None:
    book = Book(shared, Scope(uuid.uuid4().hex))
    shown = [(datetime.now(UTC), book.texts())]
    for step in steps:
        _step(book, step)
        shown.append((datetime.now(UTC), book.texts()))
    for moment, texts in shown:
        assert book.texts(GraphTime(known_at=moment)) == texts
    with shared.read() as connection:
        scope_ids = expand(connection, book.scope)
    moments: list[datetime | None] = [None, *(moment for moment, _ in shown[:: max(1, len(shown) // 3)])]
    with shared.read() as connection:
        for known in moments:
            for held in (None, day(0), day(3), day(6), datetime.now(UTC)):
                for history in (False, True):
                    when = GraphTime(held, known, history)
                    assert graph_reads.newest(connection, book.scope, when, k=1_000) == _naive(shared, scope_ids, when)


# ── who says so ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_memory_ids_of_a_relation_now_and_known_at_a_moment(book: Book) -> None:
    triple = Triple("Anna", "lives_in", "Lyon")
    first = book.remember("Anna lives in Lyon", triple)
    second = book.remember("Anna's home is Lyon", triple)
    both = datetime.now(UTC)
    assert [relation.memory_ids for relation in book.read()] == [(first, second)]
    book.forget(first)
    assert [relation.memory_ids for relation in book.read()] == [(second,)]
    assert [relation.memory_ids for relation in book.read(GraphTime(known_at=both))] == [(first, second)]
    assert {relation.memory_ids for relation in book.read(GraphTime(history=True))} == {(first, second)}
    with book.database.read() as connection:
        said = graph_reads.of_memories(connection, [first, second], NOW)
    assert list(said) == [second]
    book.forget(second)
    assert book.read() == []
    assert [relation.memory_ids for relation in book.read(GraphTime(known_at=both))] == [(first, second)]


# ── who is whom ───────────────────────────────────────────────────────────────────────────────────────────────────────


@each("name", ["Dr. Chen", "dr chen", "CHEN", "Ｃｈｅｎ", " chen. "])
def test_find_entities_by_any_spelling(book: Book, name: str) -> None:
    book.state("Dr. Chen", "works_at", "the Clinic")
    book.state("小红", "住在", "北京")
    assert book.texts(entity=name) == ["Dr. Chen works at the Clinic"]
    assert book.texts(entity="北京") == ["小红 住在 北京"]
    assert book.texts(entity="...") == book.texts(entity="Chen's") == []


def test_find_entities_by_words_for_the_user_and_the_agent(database: Database) -> None:
    alice, bot = Book(database, Scope("alice", "bot")), Book(database, Scope("bob", "bot"))
    alice.state("user", "likes", "tea")
    bot.state("user", "likes", "coffee")
    bot.state("assistant", "named", "Max")
    assert alice.texts(entity="我") == ["alice likes tea"] == alice.texts(entity="I")
    assert Book(database, Scope(agent_id="bot")).texts(entity="user") == ["bob likes coffee", "alice likes tea"]
    assert bot.texts(entity="the assistant") == ["bot named Max"]
    lone = Book(database, Scope(run_id="1"))
    lone.state("user", "likes", "cake")
    assert lone.texts(entity="me") == ["user likes cake"]


def test_find_entities_by_either_name_after_merge(book: Book) -> None:
    book.state("Bob", "likes", "tea")
    book.state("Robert", "likes", "cake")
    apart = datetime.now(UTC)
    by_hand(book.ledger, edits.merge, "Bob", "Robert", within=ALICE)
    for name in ("bob", "Robert"):
        assert sorted(book.texts(entity=name)) == ["Robert likes cake", "Robert likes tea"]
        assert sorted(book.texts(GraphTime(known_at=apart), entity=name)) == ["Bob likes tea", "Robert likes cake"]
    (robert,) = (entity for entity in book.entities() if entity.name == "Robert")
    assert robert.aliases == ("Bob",) and robert.mentions == 2
    assert {entity.name for entity in book.entities(GraphTime(known_at=apart))} == {"Robert", "tea", "cake"}
    by_hand(book.ledger, edits.split, "Bob", within=ALICE)
    assert book.texts(entity="Bob") == ["Bob likes tea"]
    assert {entity.name for entity in book.entities()} == {"Bob", "Robert", "tea", "cake"}


def test_entities_with_one_name_in_two_scopes_are_one(database: Database) -> None:
    first, second = (Book(database, Scope("alice", run_id=run)) for run in "12")
    first.state("Robert", "likes", "tea", source_type="person")
    first.state("Bob", "likes", "cake")
    by_hand(first.ledger, edits.merge, "Bob", "Robert", within=first.scope)
    second.state("Bob", "lives_in", "Oslo")
    whole = Book(database)
    assert whole.texts(entity="Robert") == whole.texts(entity="bob")
    assert len(whole.read(entity="Robert")) == 3
    assert len(first.read(entity="Bob")) == 2 and len(second.read(entity="Robert")) == 0
    robert = whole.entities()[0]
    assert (robert.name, robert.type, robert.aliases, robert.mentions) == ("Robert", "person", ("Bob",), 3)
    assert robert.scope == first.scope
    with database.read() as connection:
        people = EntityGroups(connection, expand(connection, ALICE))
        pks = find_entities(connection, ALICE, expand(connection, ALICE), "Bob")
        assert len(pks) == 2 and len({people.first(pk) for pk in pks}) == 1
        assert set(pks) < set(people.all_members(pks[:1])) == set(people.members(pks[1]))


# ── entities ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_entities_have_a_relation_that_holds(book: Book) -> None:
    book.state("Anna", "lives_in", "Lyon", valid_from=day(0), valid_to=day(9), source_type="person", target_type="city")
    believed = datetime.now(UTC)
    book.state("Anna", "likes", "tea", valid_from=day(0))
    by_hand(book.ledger, edits.withdraw, book.read(entity="Lyon")[0].id)

    def names(when: GraphTime = NOW, **how: Any) -> set[str]:
        return {entity.name for entity in book.entities(when, **how)}

    assert names(GraphTime(day(5))) == {"Anna", "tea"} == names()
    assert names(GraphTime(day(5), believed)) == {"Anna", "Lyon"}
    assert names(GraphTime(day(9), believed)) == set()
    assert names(unrelated=True) == {"Anna", "tea", "Lyon"}
    assert names(unrelated=True, kind="city") == {"Lyon"} and names(kind="city") == set()
    assert names(GraphTime(history=True), kind="person") == {"Anna"}


@pytest.mark.parametrize("runs", [1, 3])
def test_pages_of_entities_hold_each_once_most_mentioned_first(database: Database, runs: int) -> None:
    for number in range(24):
        part = Book(database, Scope("alice", run_id=str(number % runs)))
        part.state(f"person {number % 5}", "likes", f"thing {number}")
    whole = Book(database).entities()
    with database.read() as connection:
        seen = list(pages(lambda after: graph_entities.entity_page(connection, ALICE, NOW, k=4, after=after)))
    assert [entity for page in seen for entity in page] == whole
    assert len({entity.id for entity in whole}) == len(whole) == 29
    mentions = [entity.mentions for entity in whole]
    assert mentions == sorted(mentions, reverse=True) and mentions[0] == 5


# ── around ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_around_gives_the_newest_relations_in_both_directions(book: Book) -> None:
    for number in range(5):
        book.state("Anna", "likes", f"thing {number}")
        book.state(f"person {number}", "knows", "Anna")
    book.state("Anna", "dislikes", "cake", valid_to=day(0))
    with book.database.read() as connection:
        pks = find_entities(connection, ALICE, expand(connection, ALICE), "Anna")
        everything = graph_reads.around(connection, pks, GraphTime(datetime.now(UTC)))
        newest = graph_reads.around(connection, pks, GraphTime(datetime.now(UTC)), most=2)
        assert graph_reads.around(connection, [], NOW) == []
        twice = graph_reads.around(connection, [end for edge in everything for end in edge[1:]], NOW)
        assert len(graph_reads.around(connection, pks, GraphTime(history=True))) == 11
    assert len(everything) == 10 and everything == sorted(everything, reverse=True)
    assert newest == [edge for edge in everything if edge in newest]
    assert len(newest) == 3  # two to Anna, and of the two newest from her the one that holds
    assert len(twice) == 11
