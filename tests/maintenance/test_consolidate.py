"""Tidying: what is merged, what goes, what stays, and that a second run finds nothing to do."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_adapter.maintenance.consolidate import Tidied, Tidier
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.scope import Scope
from langmem_adapter.testing import ScriptedChatModel

if TYPE_CHECKING:
    from collections.abc import Iterator

ALICE = Scope("alice")


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory(":memory:") as opened:
        yield opened


def tell(memory: Memory, *texts: str, **how: Any) -> list[str]:
    given: dict[str, Any] = {"user_id": "alice", **how}
    return [str(memory.add(text, infer=False, **given).results[0].id) for text in texts]


def tidy(memory: Memory, *, scope: Scope = ALICE, dry_run: bool = False) -> Tidied:
    tidier, done = Tidier(memory), Tidied()
    for memory_id in tidier.pending(scope):
        done += tidier.tidy(memory_id, scope, dry_run=dry_run, without=done.ids if dry_run else ())
    return done


def texts(memory: Memory, **scope: Any) -> list[str]:
    return sorted(item.text for item in memory.get_all(**scope or {"user_id": "alice"}))


def test_tidy_merges_equal_texts_into_the_oldest(memory: Memory) -> None:
    first, second, third = tell(memory, "Likes tea", "likes tea!", "Likes tea.")
    done = tidy(memory)
    assert [(change.event, change.id) for change in done.changes] == [("DELETE", second), ("DELETE", third)]
    assert memory.get(first).text == "Likes tea"
    assert memory.history(second)[-1].is_deleted


@pytest.mark.parametrize("on_bad_reply", ["keep", "raise"])
def test_consolidate_skips_a_memory_for_which_the_reply_cannot_be_used(on_bad_reply: Any) -> None:
    said = json.dumps({"memory": [{"fact": 0, "event": "NONE", "id": "0"}]})
    model = ScriptedChatModel(replies=["no json", "no json", said])
    with Memory(":memory:", model=model, on_bad_reply=on_bad_reply) as memory:
        _, second, third = tell(memory, "Likes tea", "Has a dog", "Likes tea a lot")
        done = tidy(memory)
        assert done.skipped == (second,) and [change.id for change in done.changes] == [third]


def test_tidy_updates_by_a_later_memory(memory: Memory) -> None:
    first, second = tell(memory, "Lives in Kyoto", "Lives in Lyon")
    done = tidy(memory)
    assert [(change.event, change.id, change.text) for change in done.changes] == [
        ("UPDATE", first, "Lives in Lyon"),
        ("DELETE", second, "Lives in Lyon"),
    ]
    assert memory.get(first).text == "Lives in Lyon"
    assert memory.search("Lives in Lyon", user_id="alice")[0].id == first


def test_tidy_compares_by_updated_at(memory: Memory) -> None:
    for year, home in (("2020", "Kyoto"), ("2026", "Lyon")):
        memory.add(f"I live in {home}.", user_id="alice", timestamp=f"{year}-05-01")
    tell(memory, "Lives in Rome", timestamp="2023-05-01")
    tidy(memory)
    [item] = memory.get_all(user_id="alice")
    assert (item.text, item.updated_at.year) == ("Lives in Lyon", 2026)
    assert tidy(memory).changes == ()


def test_tidy_keeps_different_memories(memory: Memory) -> None:
    tell(memory, "Likes tea", "Has a cat", "Works as a nurse")
    assert tidy(memory).changes == ()
    assert len(texts(memory)) == 3


def test_tidy_ignores_forget_requests(memory: Memory) -> None:
    tell(memory, "Buy milk", "Forget: buy milk")
    assert tidy(memory).changes == ()


def test_tidy_rewrites_no_excerpt() -> None:
    update = json.dumps({"memory": [{"fact": 0, "event": "UPDATE", "id": "0", "text": "Lives in Lyon"}]})
    with Memory(":memory:", model=ScriptedChatModel(replies=[update])) as memory:
        tell(memory, "Lives in Kyoto. " + "Likes tea. " * 900)
        (moved,) = tell(memory, "Lives in Lyon")
        assert Tidier(memory).tidy(moved, ALICE).changes == ()


def test_tidy_dry_run_writes_nothing(memory: Memory) -> None:
    tell(memory, "Lives in Kyoto", "Lives in Lyon", "Likes tea", "likes tea!")
    foretold = tidy(memory, dry_run=True)
    assert len(texts(memory)) == 4
    assert tidy(memory).changes == foretold.changes
    assert texts(memory) == ["Likes tea", "Lives in Lyon"]


def test_tidy_stays_within_an_exact_scope(memory: Memory) -> None:
    tell(memory, "Likes tea")
    tell(memory, "Likes tea", "Likes tea", run_id="r")
    tell(memory, "Likes tea", user_id="bob")
    assert len(tidy(memory).changes) == 1
    assert texts(memory) == ["Likes tea", "Likes tea"]
    assert texts(memory, user_id="bob") == ["Likes tea"]


def test_tidy_keeps_metadata_and_the_later_expiry(memory: Memory) -> None:
    soon, late = datetime(2100, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
    (first,) = tell(memory, "Likes tea", metadata={"from": "chat"}, expires_at=soon)
    tell(memory, "Likes tea", metadata={"from": "mail", "sure": True}, expires_at=late)
    tidy(memory)
    kept = memory.get(first)
    assert (kept.metadata, kept.expires_at) == ({"from": "chat", "sure": True}, late)
    tell(memory, "Likes tea")
    tidy(memory)
    assert memory.get(first).expires_at is None


def test_tidy_leaves_records_alone(memory: Memory) -> None:
    for _ in range(2):
        memory.add("Open the door.", agent_id="guide", memory_type="procedural_memory")
    assert tidy(memory, scope=Scope(agent_id="guide")) == Tidied()


def test_tidy_asks_the_chat_model_for_every_memory_with_an_older_one() -> None:
    model = ScriptedChatModel(
        replies=[_verdict("UPDATE", "Likes green tea a lot"), _verdict("ADD", "Works as a nurse")]
    )
    with Memory(":memory:", model=model) as memory:
        first, *_ = tell(memory, "Likes green tea", "Likes green tea a lot", "Works as a nurse")
        done = tidy(memory)
        assert texts(memory) == ["Likes green tea a lot", "Works as a nurse"]
        assert memory.get(first).text == "Likes green tea a lot"
        assert (done.compared, done.usage.model_calls, len(model.calls)) == (2, 2, 2)


def test_tidy_skips_memories_that_changed_meanwhile() -> None:
    def meddling(_: Any) -> str:
        memory.update(first, "Likes black tea")
        return _verdict("NONE", "Likes green tea a lot")

    model = ScriptedChatModel(replies=[meddling])
    with Memory(":memory:", model=model) as memory:
        first, second = tell(memory, "Likes green tea", "Likes green tea a lot")
        done = tidy(memory)
        assert (done.changes, done.skipped, done.compared) == ((), (second,), 1)
        assert texts(memory) == ["Likes black tea", "Likes green tea a lot"]


def _verdict(event: str, text: str) -> str:
    return json.dumps({"memory": [{"id": "0", "text": text, "event": event, "fact": 0}]})


_SAYINGS = [
    "Likes tea",
    "likes tea!",
    "Lives in Kyoto",
    "Lives in Lyon",
    "Has a cat",
    "Has a cat named Tom",
    "喜欢喝茶",
]


@given(st.lists(st.sampled_from(_SAYINGS), max_size=6))
@settings(max_examples=6)
def test_tidy_twice_changes_nothing(said: list[str]) -> None:
    with Memory(":memory:") as memory:
        tell(memory, *said)
        tidy(memory)
        before = texts(memory) if said else []
        assert tidy(memory).changes == ()
        assert (texts(memory) if said else []) == before
