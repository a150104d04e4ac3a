"""What was known at a moment is what a reader was shown at that moment."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select, update

from langmem_adapter.memory.memory import Memory
from langmem_adapter.storage.tables import history

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection


# ── any life of any memories ──────────────────────────────────────────────────────────────────────────────────────────

TEXTS = st.sampled_from(["Likes tea", "Likes coffee", "Lives in Oslo"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), TEXTS, st.integers(-2, 2)),
        st.tuples(st.just("update"), TEXTS, st.integers(0, 5)),
        st.tuples(st.just("describe"), TEXTS, st.integers(0, 5)),
        st.tuples(st.just("delete"), TEXTS, st.integers(0, 5)),
        st.tuples(st.just("restore"), TEXTS, st.integers(0, 5)),
        st.tuples(st.just("clear"), TEXTS, st.just(0)),
    ),
    min_size=2,
    max_size=8,
)


@pytest.fixture
def memory(database_url: str) -> Iterator[Memory]:
    with Memory(database_url) as opened:
        yield opened


def _step(memory: Memory, user: str, ids: list[str], step: tuple[str, str, int]) -> None:
    word, text, number = step
    living = [item.id for item in memory.get_all(user_id=user)]
    if word == "add":
        time = datetime.now(UTC) + timedelta(days=number)
        added = memory.add(text, user_id=user, infer=False, timestamp=time, metadata={"n": number})
        ids.extend(str(change.id) for change in added.results)
    elif word == "clear":
        memory.delete_all(user_id=user)
    elif word == "restore" and ids:
        memory_id = ids[number % len(ids)]
        kept = [revision for revision in memory.history(memory_id) if revision.new_text is not None]
        memory.restore(memory_id, kept[number % len(kept)].revision)
    elif living and word in {"update", "describe", "delete"}:
        memory_id = living[number % len(living)]
        changes: dict[str, Any] = {"update": {"text": text}, "describe": {"metadata": {"n": number}}}
        memory.delete(memory_id) if word == "delete" else memory.update(memory_id, **changes[word])


def test_known_at_leaves_out_what_had_expired(memory: Memory) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    added = memory.add("Is in a meeting", user_id="alice", infer=False, expires_at=soon)
    before = datetime.now(UTC)
    assert memory.get_all(user_id="alice", known_at=soon).items == ()
    memory.update(str(added.results[0].id), metadata={"long": True}, expires_at=None)
    assert [item.expires_at for item in memory.get_all(user_id="alice", known_at=before)] == [soon]


@given(steps=STEPS, clocks=st.lists(st.integers(0, 3), min_size=8, max_size=8))
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_known_at_works_where_clocks_of_writers_disagree(
    memory: Memory, steps: list[tuple[str, str, int]], clocks: list[int]
) -> None:
    user, ids, start = uuid.uuid4().hex, list[str](), datetime(2024, 1, 1, tzinfo=UTC)
    for step in steps:
        _step(memory, user, ids, step)

    def spoil(connection: Connection) -> None:
        seqs = connection.execute(select(history.c.seq).where(history.c.memory_id.in_(ids)).order_by(history.c.seq))
        for number, seq in enumerate(seqs.scalars().all()):
            recorded = start + timedelta(hours=clocks[number % len(clocks)])
            connection.execute(update(history).where(history.c.seq == seq).values(recorded_at=recorded))

    memory.parts.database.write(spoil)
    for hour in range(4):
        moment, known = start + timedelta(hours=hour), dict[str, str | None]()
        for memory_id in ids:
            written = [each for each in memory.history(memory_id) if each.created_at <= moment]
            if written and not written[-1].is_deleted:
                known[memory_id] = written[-1].new_text
        first = memory.get_all(user_id=user, known_at=moment, k=1)
        rest = memory.get_all(user_id=user, known_at=moment, after=first.next) if first.next else []
        assert {item.id: item.text for item in (*first, *rest)} == known
        assert {hit.id: hit.text for hit in memory.search("tea", user_id=user, known_at=moment)} == known
