"""The one search, against real databases: complete, current, and blind for others' memories."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_adapter.embedding.embedder import Embedder
from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.filters import parse_filter
from langmem_adapter.index.indexer import Indexer, open_index
from langmem_adapter.records.ranking import Ranking
from langmem_adapter.records.results import Decision
from langmem_adapter.records.scope import Scope
from langmem_adapter.search.query import Query
from langmem_adapter.search.relevance import Calibration
from langmem_adapter.search.searcher import Neighbourhood, Searcher, candidate_budget
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.feed import last_seq
from langmem_adapter.storage.ledger import Ledger
from langmem_adapter.storage.migrations import prepare
from langmem_adapter.storage.write import Write
from langmem_adapter.testing import CountingEmbeddings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from langmem_adapter.records.results import SearchResults

ALICE, BOB = Scope(user_id="alice"), Scope(user_id="bob")
MARK = "hash:256/2"
MONDAY = datetime(2026, 6, 1, tzinfo=UTC)


class Interrupted(Indexer):
    """An indexer after whose pull somebody else may commit, before the search reads."""

    after_pull: Callable[[], object] | None = None

    def pull(self, *arguments: Any) -> int:
        """Pull, then let the other one act, once."""
        done = super().pull(*arguments)
        if self.after_pull is not None:
            action, self.after_pull = self.after_pull, None
            action()
        return done


class Desk:
    """A database with all that is needed to write to it and to search it."""

    def __init__(self, database: Database, *, words: float = 0.5) -> None:
        self.database = database
        self.ledger = Ledger(database, fingerprint=MARK)
        self.embeddings = CountingEmbeddings(HashEmbeddings(256))
        self.embedder = Embedder(self.embeddings, dimensions=256)
        self.indexer = Interrupted(database, partial(open_index, "faiss"), fingerprint=MARK, dimensions=256)
        weights = Ranking.plain(words)
        calibration = Calibration(database, self.embedder, "test")
        self.searcher = Searcher(database, self.indexer, self.embedder, calibration, weights=weights)
        self.vectors = HashEmbeddings(256)

    def put(self, *texts: str, scope: Scope = ALICE, **fields: Any) -> list[str]:
        """Write texts as memories; their ids."""
        decisions = [Decision("ADD", str(uuid.uuid4()), text, **fields) for text in texts]
        self._apply(*decisions, scope=scope)
        return [str(decision.memory_id) for decision in decisions]

    def change(self, memory_id: str, text: str, **fields: Any) -> None:
        self._apply(Decision("UPDATE", memory_id, text, **fields))

    def delete(self, memory_id: str) -> None:
        self._apply(Decision("DELETE", memory_id, None))

    def _apply(self, *decisions: Decision, scope: Scope = ALICE) -> None:
        vectors = {d.text: self.vectors.vector(d.text) for d in decisions if d.text is not None}
        self.ledger.apply(Write(decisions, scope=scope, vectors=vectors))

    def find(self, text: str, scope: Scope = ALICE, **options: Any) -> list[str]:
        return [hit.text for hit in self.hits(text, scope, **options)]

    def hits(self, text: str, scope: Scope = ALICE, **options: Any) -> SearchResults:
        return self.searcher.search(Query(text, scope, **options))


@pytest.fixture
def desk(database: Database) -> Desk:
    return Desk(database)


PAST: Any = {"expires_at": datetime.now(UTC) - timedelta(seconds=1), "keep_expiry": False}
FUTURE: Any = {"expires_at": datetime.now(UTC) + timedelta(days=1), "keep_expiry": False}


# ── searching ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_empty_database_has_no_hits_and_no_neighbours(desk: Desk) -> None:
    assert desk.find("tea") == []
    hood = around(desk, "Likes tea")
    assert (hood.seen, hood.known, hood.shown, hood.equal) == (0, (), 0, ((),))


def test_no_scope_is_too_small_to_be_found_in_a_crowd(desk: Desk) -> None:
    desk.put(*(f"Likes green tea number {n}" for n in range(300)), scope=BOB)
    desk.put("Owns a teapot")
    assert desk.find("green tea") == ["Owns a teapot"]
    assert desk.find("green tea", k=500) == ["Owns a teapot"]
    assert len(desk.find("green tea", BOB, k=500)) == 300


def test_what_shares_words_is_found_however_many_are_nearer_in_meaning(desk: Desk) -> None:
    # A hundred memories are nearer in letters than the one that has the very word, which is no candidate by meaning.
    desk.put(*(f"zebr zebrx zebry {n % 7}" for n in range(100)))
    desk.put("Saw a zebra once in the great and wide plains of the far south, long after the rain was over")
    assert desk.find("zebra", k=1)[0].startswith("Saw a zebra")


def test_search_sees_every_commit_before_it(desk: Desk) -> None:
    other = Desk(desk.database)
    (memory_id,) = other.put("Likes tea")
    assert desk.find("tea") == ["Likes tea"]
    other.change(memory_id, "Likes coffee")
    assert desk.find("tea") == ["Likes coffee"]
    other.delete(memory_id)
    assert desk.find("tea") == []


def test_a_memory_committed_between_pull_and_read_comes_with_the_next_search(desk: Desk) -> None:
    other = Desk(desk.database)
    desk.put("Likes tea")
    desk.indexer.after_pull = lambda: other.put("Likes green tea")
    assert desk.find("green tea") == ["Likes tea"]
    assert desk.find("green tea") == ["Likes green tea", "Likes tea"]


def test_a_memory_deleted_between_pull_and_read_leaves_its_place_to_the_next(desk: Desk) -> None:
    other = Desk(desk.database)
    first, *_ = desk.put("Likes green tea", "Likes tea", "Owns a teapot")
    desk.indexer.after_pull = lambda: other.delete(first)
    assert desk.find("green tea", k=1) == ["Likes tea"]


def test_a_memory_changed_between_pull_and_read_is_shown_as_it_now_stands(desk: Desk) -> None:
    other = Desk(desk.database)
    (memory_id,) = desk.put("Likes green tea")
    desk.indexer.after_pull = lambda: other.change(memory_id, "Likes coffee")
    assert desk.find("green tea") == ["Likes coffee"]


def test_expired_memories_are_hidden_and_eat_no_place(desk: Desk) -> None:
    desk.put(*(f"Likes green tea {n}" for n in range(100)), **PAST)
    desk.put("Likes tea", **FUTURE)
    desk.put("Owns a teapot")
    assert desk.find("green tea", k=2) == ["Likes tea", "Owns a teapot"]


def test_search_with_filters_or_memory_type_narrows_what_is_searched(desk: Desk) -> None:
    desk.put(*(f"Likes green tea {n}" for n in range(200)), metadata={"kind": "many"})
    desk.put("Owns a teapot", metadata={"kind": "one", "n": 1}, memory_type="procedural_memory")
    assert desk.find("green tea", k=3, filters=parse_filter({"kind": "one"})) == ["Owns a teapot"]
    assert desk.find("green tea", k=3, memory_type="procedural_memory") == ["Owns a teapot"]
    assert desk.find("green tea", filters=parse_filter({"kind": "none"})) == []
    assert desk.find("green tea", filters=parse_filter({"kind": "one", "n": True})) == []


def test_a_threshold_cuts_on_relevance(desk: Desk) -> None:
    desk.put("Likes green tea", "Likes tea", "Owns a bicycle")
    told = {hit.text: hit.relevance for hit in desk.hits("green tea")}
    assert 0 <= told["Owns a bicycle"] < 0.1 < told["Likes tea"] < told["Likes green tea"] <= 1
    for least in (0.0, 0.1, 0.5, 0.99):
        found = desk.hits("green tea", threshold=least)
        assert {hit.text for hit in found} == {text for text, relevance in told.items() if relevance >= least}
        assert (found.abstained is None) == bool(found)


@pytest.fixture(scope="module")
def crowd() -> Iterator[Desk]:
    database = Database(":memory:")
    prepare(database)
    desk = Desk(database)
    words = "tea green black milk cup pot".split()
    for place, scope in enumerate((ALICE, BOB, Scope(user_id="alice", run_id="r"))):
        texts = [f"{words[n % 6]} {words[n * 7 % 5]} {n}" for n in range(place, 60)]
        desk.put(*texts, scope=scope, metadata={"odd": place % 2})
    yield desk
    database.close()


WORDS = st.lists(st.sampled_from(["tea", "green", "pot", "3", "zebra", "OR", '"']), max_size=3).map(
    lambda words: " ".join(["cup", *words])
)


@given(WORDS, st.integers(1, 70), st.sampled_from([ALICE, BOB, Scope(run_id="r"), Scope(user_id="nobody")]))
def test_a_search_is_the_head_of_all_that_can_be_found(crowd: Desk, text: str, k: int, scope: Scope) -> None:
    everything, hits = crowd.hits(text, scope, k=10_000), crowd.hits(text, scope, k=k)
    assert len(hits) == min(k, len(everything))
    assert all(scope.covers(hit.item.scope) for hit in everything)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert len(everything) == {"alice": 118, "bob": 59, None: 58, "nobody": 0}[scope.user_id]


# ── neighbours ────────────────────────────────────────────────────────────────────────────────────────────────────────


def around(desk: Desk, *facts: str, tokens: int = 2_000) -> Neighbourhood:
    return desk.searcher.neighbours(facts, ALICE, tokens=tokens)


def shown(hood: Neighbourhood) -> list[str]:
    return [known.text for known in hood.known[: hood.shown]]


def books(desk: Desk, count: int = 300) -> list[str]:
    return desk.put(*(f"Owns the book number {n} of the shelf" for n in range(count)))


def test_a_scope_that_fits_is_shown_whole_by_age_with_its_last_changes(desk: Desk) -> None:
    tea, bike = desk.put("Likes tea", "Owns a bicycle", time=MONDAY)
    desk.put("Lives in Porto", time=MONDAY - timedelta(days=1))
    desk.change(bike, "Owns a red bicycle", time=MONDAY)
    hood = around(desk, "Bought a house in Braga", "xyzzy")
    assert shown(hood) == ["Lives in Porto", "Likes tea", "Owns a red bicycle"]
    assert [(known.id, known.seq) for known in hood.known[1:]] == [(tea, 1), (bike, 4)]
    assert (hood.seen, hood.equal) == (4, ((), ()))
    assert desk.embeddings.documents == []  # nothing has to be nearer than anything else


@settings(max_examples=8)
@given(
    texts=st.lists(st.sampled_from(["Likes tea", "住在里斯本的一个小公寓", "Owns a book " * 90]), max_size=200),
    tokens=st.integers(1_000, 3_000),
    facts=st.integers(1, 25),
)
def test_what_is_shown_takes_no_more_than_its_room_and_is_something_wherever_something_is_known(
    texts: list[str], tokens: int, facts: int
) -> None:
    database = Database(":memory:")
    prepare(database)
    desk = Desk(database)
    desk.put(*texts)
    hood = around(desk, *(f"Likes the number {n}" for n in range(facts)), tokens=tokens)
    assert sum(len(text.encode()) / 4 + 10 for text in shown(hood)) <= candidate_budget(tokens, facts)
    assert bool(hood.shown) == bool(texts)
    assert [known.seq for known in hood.known] == sorted(known.seq for known in hood.known)
    database.close()


@pytest.mark.parametrize("fact", ["Likes tea with a friend", "Divorced in May"])
def test_in_a_crowd_words_and_related_words_find_what_is_shown(desk: Desk, fact: str) -> None:
    old = desk.put("Drinks green tea", "Is married to Ana")
    books(desk)
    found = {known.id for known in around(desk, fact).known}
    assert found.intersection(old) and len(found) < 150


def test_in_a_crowd_the_newest_are_shown(desk: Desk) -> None:
    first, *_ = books(desk)
    desk.change(first, "Plays chess")
    assert "Plays chess" in shown(around(desk, "Owns the book number 299 of the shelf again"))


def test_in_a_crowd_each_fact_has_its_share(desk: Desk) -> None:
    desk.put("Lives in Porto")
    books(desk)
    facts = [f"Owns the other book number {n}" for n in range(9)]
    assert "Lives in Porto" in shown(around(desk, *facts, "Lives in Braga"))


def test_in_a_crowd_long_texts_are_cut(desk: Desk) -> None:
    books(desk)
    desk.put("Likes tea " * 100)
    (cut,) = [text for text in shown(around(desk, "Likes tea")) if "tea" in text]
    assert cut == ("Likes tea " * 100)[:399] + "…"


def test_the_same_words_are_found_as_equal_even_where_they_are_not_shown(desk: Desk) -> None:
    said = [f"{'Likes tea ' * 39}{n}" for n in range(10)]
    ids = desk.put(*said, *said)
    hood = around(desk, *(f"{text}!" for text in said), "Likes milk", tokens=500)
    assert [[hood.known[number].id for number in each] for each in hood.equal] == [*([each] for each in ids[:10]), []]
    assert hood.shown < 10 <= len(hood.known)


def test_equal_words_of_others_or_of_the_past_do_not_count(desk: Desk) -> None:
    desk.put("Likes tea", scope=BOB)
    desk.put("Likes tea", **PAST)
    hood = around(desk, "Likes tea")
    assert (hood.known, hood.shown, hood.equal) == ((), 0, ((),))


def test_a_newcomer_between_pull_and_read_is_left_to_the_check_at_the_end(desk: Desk) -> None:
    other = Desk(desk.database)
    books(desk)
    desk.indexer.after_pull = lambda: other.put("Likes green tea")
    hood = around(desk, "Likes green tea")
    with desk.database.read() as connection:
        assert hood.seen < last_seq(connection)
    assert hood.equal[0] and hood.known[hood.equal[0][0]].text == "Likes green tea"


def test_a_neighbour_that_vanishes_between_pull_and_read_is_left_out(desk: Desk) -> None:
    other = Desk(desk.database)
    first, *_ = desk.put("Likes green tea")
    books(desk)
    desk.indexer.after_pull = lambda: other.delete(first)
    assert "Likes green tea" not in shown(around(desk, "Likes green tea"))


def test_all_facts_are_embedded_in_one_batch(desk: Desk) -> None:
    books(desk)
    for _ in range(2):
        around(desk, "Likes tea", "Likes milk", "Likes tea")
        assert desk.embeddings.documents == [["Likes tea", "Likes milk"]]
    assert desk.embeddings.queries == []


def test_meaning_is_that_of_the_exact_product(desk: Desk) -> None:
    texts = [f"Likes {taste} tea {n}" for n in range(50) for taste in ("green", "black")]
    desk.put(*texts)
    searcher = Desk(desk.database, words=0.0).searcher
    matrix = np.stack([desk.vectors.vector(text) for text in texts])
    best = np.argsort(-(matrix @ desk.vectors.vector("green tea 7")), kind="stable")[:10]
    assert [hit.text for hit in searcher.search(Query("green tea 7", ALICE))] == [texts[place] for place in best]
