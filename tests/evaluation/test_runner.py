from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import pytest

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.evaluation.questions import EvalQuestion, read_conversations
from langmem_adapter.evaluation.runner import (
    MemoryOrigin,
    QuestionResult,
    ask,
    check,
    differences,
    ingest,
    ndcg,
    read_run,
    recall,
    reciprocal_rank,
    silence,
    summarise,
)
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.scope import Scope
from langmem_adapter.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ADA = Scope("ada")


def mine(text: str, **more: Any) -> EvalQuestion:
    return EvalQuestion(text, ADA, "line 1", **more)


def said(memory: Memory, *texts: str) -> list[str]:
    """Memories of Ada's, word for word; their ids."""
    added = [memory.add(text, user_id="ada", infer=False).results[0].id for text in texts]
    return [str(memory_id) for memory_id in added]


def test_ingest_stores_turns_with_speaker_and_date(memory: Memory, locomo_file: Callable[..., Path]) -> None:
    (talk,) = read_conversations(locomo_file())
    steps: list[int] = []
    sources = ingest(memory, [talk], progress=steps.append)
    kept = {item.id: item for item in memory.get_all(user_id="talk-1")}
    turns = {turn.id: (turn, session.time) for session in talk.sessions for turn in session.turns}
    assert sources.keys() == kept.keys()
    for memory_id, source in sources.items():
        (turn_id,) = source.turns
        turn, when = turns[turn_id]
        item = kept[memory_id]
        assert (item.text, item.actor_id, item.created_at) == (turn.text, turn.speaker, when)
    assert steps == [2, 2]


def test_ingest_infer_maps_repeated_and_updated_facts(
    memory: Memory, locomo_file: Callable[..., Path], sample: dict[str, Any]
) -> None:
    for number, text in ((1, "I live in Oslo. I like tea."), (2, "I like tea."), (3, "I live in Rome.")):
        sample["conversation"][f"session_{number}"] = [{"speaker": "Mira", "dia_id": f"D{number}:1", "text": text}]
    sources = ingest(memory, read_conversations(locomo_file()), infer=True)
    turns = {item.text: sources[item.id].turns for item in memory.get_all(user_id="talk-1")}
    assert turns == {"Likes tea": {"D1:1", "D2:1"}, "Lives in Rome": {"D3:1"}}


def test_ingest_refuses_a_database_with_these_users(memory: Memory, locomo_file: Callable[..., Path]) -> None:
    talks = read_conversations(locomo_file())
    ingest(memory, talks)
    with pytest.raises(InvalidInputError, match="has memories of talk-1 already"):
        ingest(memory, talks)


def test_ingest_infer_needs_traces(locomo_file: Callable[..., Path]) -> None:
    with Memory(":memory:", settings=Settings(trace_days=0)) as memory:
        talks = read_conversations(locomo_file())
        with pytest.raises(InvalidInputError, match="trace_days"):
            ingest(memory, talks, infer=True)


def test_ask_finds_the_turn_with_the_answer(memory: Memory, locomo_file: Callable[..., Path]) -> None:
    (talk,) = read_conversations(locomo_file())
    steps: list[int] = []
    answers = ask(memory, talk.questions, sources=ingest(memory, [talk]), progress=steps.append)
    assert [len(answer.ranks) for answer in answers] == [1, 2, 1, 1]  # there are only four turns
    assert answers[0].ranks == (1,)
    assert all(answer.tokens > 0 and answer.milliseconds > 0 for answer in answers)
    assert steps == [1] * 4


def test_ask_matches_memories_by_id_and_by_contained_texts_within_the_scope(memory: Memory) -> None:
    oslo, boat, _, _ = said(memory, "I live in  OSLO", "The boat is called Sparrow", "Tea is nice", "我住在北京")
    (answer,) = ask(memory, [mine("What is the boat called?", evidence=(oslo, boat))], cuts=(1, 4))
    assert (answer.metrics["recall@1"], answer.metrics["recall@4"], len(answer.ranks)) == (0.5, 1, 2)
    contained = mine("Where do I live?", contains=("in oslo", "京", "Rome"))
    foreign = EvalQuestion("Where do I live?", Scope("ben"), "line 1", contains=("Oslo",))
    assert [len(each.ranks) for each in ask(memory, [contained, foreign])] == [2, 0]


def test_check_names_missing_memories(memory: Memory) -> None:
    (there,) = said(memory, "I live in Oslo")
    check(memory, [mine("?", evidence=(there,))])
    gone = [EvalQuestion("?", ADA, f"line {n}", evidence=(f"no-{n}",)) for n in range(1, 8)]
    with pytest.raises(InvalidInputError, match=r"line 1: no-1; .*line 5: no-5, and 2 more"):
        check(memory, gone)
    with pytest.raises(InvalidInputError, match="line 1"):
        check(memory, [EvalQuestion("?", Scope("ben"), "line 1", evidence=(there,))])


def answer(
    ranks: tuple[int, ...], pieces: int, category: str = "", *, apart: bool = False, ms: float = 1
) -> QuestionResult:
    metrics = {f"recall@{k}": recall(ranks, pieces, k) for k in (5, 10)}
    metrics |= {"mrr": reciprocal_rank(ranks), "ndcg@10": ndcg(ranks, pieces)}
    return QuestionResult("line 1", "Where?", "ada", category, apart, pieces, ranks, metrics, 0.5, 100, ms)


def test_summarise_has_a_row_per_category_and_overall() -> None:
    answers = [
        answer((1,), 1, "place", ms=1),
        answer((), 1, "place", ms=2),
        answer((2, 6), 2, "name", ms=3),
        answer((1,), 1, "trick", apart=True, ms=40),
        answer((4,), 1),
    ]
    report = summarise(answers)
    assert [(row["category"], row["questions"], row["apart"]) for row in report.scores] == [
        ("name", 1, False), ("place", 2, False), ("overall", 4, False), ("trick", 1, True),
    ]  # fmt: skip
    assert (report["overall"]["recall@5"], report["overall"]["recall@10"]) == (2.5 / 4, 3 / 4)
    assert (report["place"]["mrr"], report["name"]["recall@5"]) == (0.5, 0.5)
    assert report["overall"]["mrr"] == pytest.approx((1 + 0 + 1 / 2 + 1 / 4) / 4, abs=1e-4)
    assert [(row["category"], row["questions"]) for row in report.conversations] == [("ada", 4)]
    low, high = report.intervals["recall@10"]
    assert 0 <= low < 3 / 4 < high <= 1
    assert (report.tokens, report.p50, report.p95) == (100, 2, 40)
    assert [each.missed for each in report.questions] == [False, True, False, False, False]
    assert [row["category"] for row in summarise([answers[3]]).scores] == ["trick"]
    with pytest.raises(InvalidInputError, match="no question"):
        summarise([])


def test_ask_measures_session_recall(memory: Memory) -> None:
    (first, second) = said(memory, "I live in Oslo", "The boat is called Sparrow")
    sources = {first: MemoryOrigin({"D1:1"}, {0}), second: MemoryOrigin({"D2:1"}, {1})}
    asked = [mine("Where is Oslo?", evidence=("D1:1",), sessions=wanted) for wanted in ((0,), (0, 1), (1, 2))]
    rows = [each.metrics for each in ask(memory, asked, sources=sources)]
    assert [row["first session"] for row in rows] == [1, 1, 0]
    assert [row["session recall"] for row in rows] == [1, 1, 0.5]
    assert "session recall" not in ask(memory, [mine("Oslo?", evidence=(first,))])[0].metrics


def test_ask_measures_a_token_budget(memory: Memory) -> None:
    houses = (f"House {n} in Oslo has {n} windows, {n + 1} doors" for n in range(90))
    *oslo, tea = said(memory, *houses, f"Tea is nice, {'and nicer ' * 9}")
    asked = [mine("Which house in Oslo has 7 windows?", evidence=(each,)) for each in (oslo[7], tea)]
    assert [each.metrics["recall@500 tokens"] for each in ask(memory, asked)] == [1, 0]


def run(*hits: int) -> list[QuestionResult]:
    """One question for each hit: whether it was found."""
    return [replace(answer((1,) * hit, 1), question=f"question {n}") for n, hit in enumerate(hits)]


def test_differences_compares_two_runs_by_question(tmp_path: Path) -> None:
    before, now = run(*[0, 1] * 50, 1), run(*[1, 1] * 50)
    file = tmp_path / "before.json"
    file.write_text(json.dumps({"questions": [asdict(each) for each in before]}), encoding="utf-8")
    assert read_run(file) == before
    rows = {row["metric"]: row for row in differences(now, before)}
    assert rows["recall@10"]["difference"] == 0.5
    assert 0.35 < rows["recall@10"]["low"] < 0.5 < rows["recall@10"]["high"] < 0.65
    assert all(row["low"] == row["high"] == 0 for row in differences(now, now))
    assert rows["mrr"]["questions"] == 100


def test_differences_refuses_runs_without_common_questions(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="no question in common"):
        differences(run(1), [])
    file = tmp_path / "before.json"
    for text in ("{", "[]", '{"questions": [{}]}', '{"data": []}'):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(InvalidInputError, match="is no earlier run: write it with"):
            read_run(file)


def test_silence_asks_foreign_questions_with_names_replaced(
    memory: Memory, locomo_file: Callable[..., Path], sample: dict[str, Any]
) -> None:
    told = json.dumps(sample).replace("Mira", "Ada").replace("Theo", "Ben").replace("Sparrow", "Lark")
    talks = read_conversations(locomo_file(sample, {**json.loads(told), "sample_id": "talk-2"}))
    answers = ask(memory, [each for talk in talks for each in talk.questions], sources=ingest(memory, talks))
    steps: list[tuple[int, int]] = []
    asked, replaced = silence(memory, talks, answers, others=3, progress=lambda *step: steps.append(step))
    assert (asked["names"], asked["own"], asked["foreign"], replaced["names"]) == ("as asked", 6, 6, "replaced")
    assert steps == [(done, 12) for done in range(1, 13)]
    assert asked["auroc"] > replaced["auroc"] > 0.4  # the two tell the same: only names tell them apart
    assert silence(memory, talks[:1], answers, others=3) == []
    assert silence(memory, talks, answers, others=0) == []
