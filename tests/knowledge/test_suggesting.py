"""Entities that may be one: which are suggested, which never, and what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.embeddings import Embeddings

from langmem_adapter.knowledge.suggestions import CROWD
from langmem_adapter.memory.memory import Memory
from langmem_adapter.names import entity_key
from langmem_adapter.records.graph import Triple
from langmem_adapter.records.scope import Scope
from tests.cases import each
from tests.knowledge.name_pairs import DIFFERENT, SAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ALICE: dict[str, Any] = {"user_id": "alice"}
MISSED = [("e-mail", "email"), ("U.S.", "US"), ("Tiffany & Co", "Tiffany and Co")]
WRONG = [("año", "ano"), ("résumé", "resume"), ("sin", "sín")]  # words that an accent tells apart


@pytest.fixture
def memory(database_url: str) -> Iterator[Memory]:
    with Memory(database_url) as opened:
        yield opened


def write(memory: Memory, *lines: str, **scope: str) -> None:
    """Relations from lines like "Anna|lives in|Lyon|city", at once."""
    parts = [line.split("|") for line in lines]
    triples = [Triple(s, r.replace(" ", "_"), t, target_type="".join(kind)) for s, r, t, *kind in parts]
    memory.parts.ledger.relate(Scope(**(scope or ALICE)), triples)


def suggested(memory: Memory, **scope: str) -> list[tuple[str, str]]:
    return [(found.source, found.into) for found in memory.graph.suggest_merges(**(scope or ALICE), k=100)]


def found_of(memory: Memory, pairs: Sequence[tuple[str, str]], kind: str) -> list[tuple[str, str]]:
    """Those of some pairs that are suggested, each in a graph of its own."""
    for number, (one, other) in enumerate(pairs):
        write(memory, f"this|mentions|{one}", f"that|mentions|{other}", user_id=f"{kind}{number}")
    return [pair for number, pair in enumerate(pairs) if suggested(memory, user_id=f"{kind}{number}")]


# ── by their names ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_suggest_merges_of_known_pairs_of_names(tmp_path: Any) -> None:
    with Memory(tmp_path / "memory.db") as memory:
        found = found_of(memory, SAME, "same")
        assert [pair for pair in SAME if pair not in found] == MISSED
        assert found_of(memory, DIFFERENT, "different") == WRONG


def test_suggest_merges_keeps_the_full_name_or_the_most_mentioned(memory: Memory) -> None:
    write(memory, *["Anna|knows|J. Smith"] * 3, "Ben|knows|John Smith", "Anna|likes|Google", "Ben|likes|Google Inc.")
    write(memory, "Ben|visits|Google Inc.", "Anna|visits|José's", "Ben|visits|Jose's", "Eve|visits|Jose's")
    found = memory.graph.suggest_merges(**ALICE)
    assert [(each.source, each.into) for each in found] == [
        ("José's", "Jose's"),
        ("Google", "Google Inc."),
        ("J. Smith", "John Smith"),
    ]
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    assert [each.why.rpartition(" ")[2] for each in found] == ["spelling", "company", "initials"]
    assert memory.graph.suggest_merges(**ALICE, k=1) == found[:1]


def test_suggest_merges_does_not_repeat_a_split_pair(memory: Memory) -> None:
    write(memory, "Anna|knows|J. Smith", "Ben|knows|John Smith")
    (found,) = memory.graph.suggest_merges(**ALICE)
    assert memory.graph.merge(found.source, found.into, **ALICE) == 1
    assert suggested(memory) == []
    memory.graph.split(found.source, **ALICE)
    assert suggested(memory) == []


@each(
    ("lines", "why"),
    [
        (["Anna|knows|J. Smith", "Anna|knows|John Smith", "Anna|knows|Jane Smith"], "it may be either"),
        (["Anna|likes|Acme", "Anna|likes|Acme Inc.", "Anna|likes|Acme GmbH"], "it may be either"),
        (["J. Smith|knows|John Smith"], "they are related"),
        (["Google|owns|Google Inc."], "they are related"),
        (["José|lives in|Lyon", "Jose|lives in|Oslo"], "they live in two places"),
        (["José|married to|Anna", "Eve|married to|Jose"], "each is married to somebody else"),
        (["Anna|likes|Alice", "Anna|likes|Álice", "alice|likes|tea", "Anna|likes|user"], "only names are compared"),
    ],
)
def test_suggest_merges_leaves_out_contradicted_pairs(lines: list[str], why: str) -> None:
    with Memory(":memory:") as memory:
        write(memory, *lines)
        assert "alice" not in {name for pair in suggested(memory) for name in pair}, why
        assert why == "only names are compared" or suggested(memory) == [], why


def test_suggest_merges_of_the_only_possible_pair(memory: Memory) -> None:
    write(memory, "Anna|knows|J. Smith", "Anna|knows|John Smith", "J. Smith|sister of|Jane Smith")
    assert suggested(memory) == [("J. Smith", "John Smith")]


def test_suggest_merges_of_relations_at_other_times(memory: Memory) -> None:
    memory.graph.add("José", "lives in", "Lyon", valid_from="2019-01-01", valid_to="2020-01-01", **ALICE)
    memory.graph.add("Jose", "lives in", "Oslo", valid_from="2021-01-01", **ALICE)
    assert suggested(memory) == [("Jose", "José")]


def test_suggest_merges_within_a_scope(memory: Memory) -> None:
    write(memory, "Anna|knows|José", user_id="bob")
    write(memory, "Anna|knows|José", user_id="alice", agent_id="one")
    write(memory, "Anna|knows|Jose", "Ben|knows|Jose", user_id="alice", agent_id="two")
    assert suggested(memory, user_id="bob") == []
    assert suggested(memory, user_id="alice", agent_id="one") == []
    assert suggested(memory) == [("José", "Jose")]
    assert memory.graph.merge("José", "Jose", **ALICE) == 1


def test_suggest_merges_ignores_crowded_keys(memory: Memory) -> None:
    write(memory, *(f"Anna|knows|J. {letter}a Smith" for letter in "bcdfghjklmnpqrstvwxyz"[: CROWD + 1]))
    write(memory, "Anna|knows|J. Smith")
    assert suggested(memory) == []


_JUNK = st.text(st.sampled_from("aAbJé. -'&张氏株式会社\u0301\u200b\u3000ＩI1#\n\\`\"İßﬁ"), min_size=1, max_size=12)


@given(names=st.lists(_JUNK.filter(entity_key), min_size=2, max_size=12))
def test_suggest_merges_can_all_be_merged(names: list[str]) -> None:
    with Memory(":memory:") as memory:
        write(memory, *(f"it{number}|mentions|{name}" for number, name in enumerate(names)))
        for _ in names:
            found = memory.graph.suggest_merges(**ALICE)
            if not found:
                return
            assert not any(sign.isdigit() or sign == "#" for each in found for sign in each.source + each.into)
            memory.graph.merge(found[0].source, found[0].into, **ALICE)
        assert memory.graph.suggest_merges(**ALICE) == []


# ── by their meanings ─────────────────────────────────────────────────────────────────────────────────────────────────


class Meanings(Embeddings):
    """Vectors that say how near names are: those of one group have a given cosine to its first."""

    def __init__(self) -> None:
        self.cosines = {"Robert": 1.0, "Bob": 0.95, "Bert": 0.7, "Rob": 0.93}
        self.asked: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.asked += texts
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        cosine = self.cosines.get(text, 0.0)
        return [cosine, (1 - cosine**2) ** 0.5, 0.01]


def test_suggest_merges_by_embeddings(tmp_path: Any) -> None:
    vectors = Meanings()
    with Memory(tmp_path / "memory.db", embeddings=vectors) as memory:
        write(memory, "Robert|works at|Acme", "Bob|works at|Acme", "Bert|works at|Acme", "Elsewhere|likes|tea")
        (found,) = memory.graph.suggest_merges(**ALICE)
        assert {found.source, found.into} == {"Robert", "Bob"}
        assert "0.95" in found.why
        assert set(vectors.asked) == {"Robert", "Bob", "Bert"}  # who shares nothing is not asked about
        write(memory, "Rob|works at|Acme")
        assert suggested(memory) == []  # by no margin
