"""What the knowledge graph leads a search to."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.graph import Triple
from langmem_adapter.records.ranking import Ranking
from langmem_adapter.records.results import Decision
from langmem_adapter.records.scope import Scope
from langmem_adapter.settings import Settings
from langmem_adapter.storage.write import Write
from tests.benchmarks.families import families, remember

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ALICE = Scope(user_id="alice")
BOB = Scope(user_id="bob")
TOLD = families()


def found(memory: Memory, asked: Sequence[tuple[str, str]], k: int = 10, user_id: str = "alice") -> float:
    hits = [answer in [hit.text for hit in memory.search(text, user_id=user_id, k=k)] for text, answer in asked]
    return sum(hits) / len(hits)


def tell(memory: Memory, scope: Scope, *facts: tuple[str, Triple | None]) -> list[str]:
    texts = [text for text, _ in facts]
    vectors = dict(zip(texts, memory.parts.embedder.vectors(texts), strict=True))
    now = datetime.now(UTC)
    decisions = tuple(
        Decision("ADD", str(uuid.uuid4()), text, time=now, relations=() if said is None else (said,))
        for text, said in facts
    )
    changes = memory.parts.ledger.apply(Write(decisions, scope=scope, within=scope, vectors=vectors))
    return [str(change.id) for change in changes]


def test_search_with_graph_finds_answers_two_relations_away() -> None:
    with Memory(":memory:", graph=True) as memory:
        remember(memory, ALICE, TOLD)
        with_it = found(memory, TOLD.far)
    with Memory(":memory:", graph=True, settings=Settings(ranking=Ranking(graph=0))) as memory:
        remember(memory, ALICE, TOLD)
        without = found(memory, TOLD.far)
    assert with_it >= 0.8
    assert without <= 0.4


def test_search_with_graph_finds_the_rest_as_before() -> None:
    with Memory(":memory:", graph=True) as memory:
        remember(memory, ALICE, TOLD)
        assert found(memory, TOLD.near, k=1) == 1


def test_search_with_graph_among_thousands_of_memories(tmp_path: Path) -> None:
    # Beyond a thousand memories only the nearest are compared in full; what the graph leads to joins them.
    with Memory(tmp_path / "m.db", graph=True) as memory:
        tell(
            memory, ALICE,
            ("Has a sister named Jesica", Triple("user", "has_sister", "Jesica")),
            ("Jesica is married to Tomasz", Triple("Jesica", "married_to", "Tomasz")),
            ("Tomasz repairs violins", Triple("Tomasz", "repairs", "violins")),
        )  # fmt: skip
        tell(memory, ALICE, *((f"Sister ship number {n} was sold to a firm", None) for n in range(1500)))
        [hit] = [
            hit
            for hit in memory.search("What is done by the husband of Jesica, my sister?", user_id="alice", explain=True)
            if hit.text == "Tomasz repairs violins"
        ]
        assert hit.explanation is not None
        assert hit.explanation.parts["graph"] > 0
        assert sum(hit.explanation.parts.values()) == pytest.approx(hit.score)


def test_search_with_graph_uses_no_relation_of_another_scope() -> None:
    # The same names, in somebody else's memory: they must change nothing here.
    asked = "Where does the husband of Jesica work?"
    alone = [
        ("Jesica is married to Tom", Triple("Jesica", "married_to", "Tom")),
        ("Tom works at Acme", Triple("Tom", "works_at", "Acme")),
        ("Ben works at Beta", Triple("Ben", "works_at", "Beta")),
    ]
    with Memory(":memory:", graph=True) as memory:
        tell(memory, ALICE, *alone)
        before = [(hit.text, hit.score) for hit in memory.search(asked, user_id="alice")]
        tell(memory, BOB, ("Jesica is married to Ben", Triple("Jesica", "married_to", "Ben")))
        memory.parts.ledger.relate(BOB, [Triple("Jesica", "married_to", "Ben"), Triple("Ben", "works_at", "Beta")])
        assert [(hit.text, hit.score) for hit in memory.search(asked, user_id="alice")] == before


def test_search_with_graph_takes_an_entity_as_one_in_all_run_ids() -> None:
    with Memory(":memory:", graph=True) as memory:
        tell(
            memory,
            Scope(user_id="alice", run_id="1"),
            ("Jesica is married to Tom", Triple("Jesica", "married_to", "Tom")),
        )
        tell(
            memory, Scope(user_id="alice", run_id="2"),
            ("Tom repairs violins", Triple("Tom", "repairs", "violins")),
            ("Ben repairs organs", Triple("Ben", "repairs", "organs")),
        )  # fmt: skip
        hits = memory.search("Jesica's spouse", user_id="alice", k=3, explain=True)
        led = {hit.text: hit.explanation.parts.get("graph", 0) for hit in hits if hit.explanation}
        assert led["Tom repairs violins"] > 0 == led["Ben repairs organs"]


def test_search_with_graph_uses_no_retired_relation() -> None:
    with Memory(":memory:", graph=True) as memory:
        ids = tell(
            memory, ALICE,
            ("Jesica is married to Tom", Triple("Jesica", "married_to", "Tom")),
            ("Tom repairs violins", Triple("Tom", "repairs", "violins")),
        )  # fmt: skip

        def led() -> float:
            hits = memory.search("Jesica's spouse", user_id="alice", explain=True)
            return next(hit.explanation.parts.get("graph", 0) for hit in hits if hit.id == ids[1] and hit.explanation)

        assert led() > 0
        memory.delete(ids[0])
        assert led() == 0


def test_search_with_graph_does_not_lead_through_the_user() -> None:
    # Everything is said of her: nothing is near to a question because it is near to her.
    with Memory(":memory:", graph=True) as memory:
        tell(memory, ALICE, *((f"Owns the lamp number {n}", Triple("user", "owns", f"lamp {n}")) for n in range(50)))
        hits = memory.search("What does alice think of violins?", user_id="alice", k=50, explain=True)
        assert all(hit.explanation.parts.get("graph", 0) == 0 for hit in hits if hit.explanation)


def test_search_with_graph_of_an_empty_memory() -> None:
    with Memory(":memory:", graph=True) as memory:
        assert memory.search("anything", user_id="alice") == []
        tell(memory, ALICE, ("Likes tea", None))
        assert [hit.text for hit in memory.search("tea", user_id="alice")] == ["Likes tea"]


def test_search_with_graph_follows_chinese_names() -> None:
    with Memory(":memory:", graph=True) as memory:
        tell(
            memory, ALICE,
            ("有一个妹妹叫小红", Triple("user", "妹妹", "小红")),
            ("小红的丈夫是王强", Triple("小红", "丈夫", "王强")),
            ("王强在腾讯工作", Triple("王强", "工作于", "腾讯")),
            *((f"同事{n}在公司{n}工作", Triple(f"同事{n}", "工作于", f"公司{n}")) for n in range(60)),
        )  # fmt: skip
        assert "王强在腾讯工作" in [hit.text for hit in memory.search("小红的丈夫在哪里工作？", user_id="alice", k=5)]
