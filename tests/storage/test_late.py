"""A statement that is told late is a memory of the past: it is found there, and stands nowhere else."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from langmem_adapter.errors import ConflictError, InvalidInputError, MemoryNotFoundError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.results import Change, Decision
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage.write import Write

if TYPE_CHECKING:
    from collections.abc import Iterator


def year(number: int) -> datetime:
    return datetime(number, 5, 1, tzinfo=UTC)


@pytest.fixture
def memory(database_url: str) -> Iterator[Memory]:
    with Memory(database_url) as opened:
        yield opened


def apply(memory: Memory, *decisions: Decision, **options: Any) -> tuple[Change, ...]:
    embed = memory.parts.embedder.vectors
    texts = [decision.text for decision in decisions if decision.text and decision.past_of is None]
    vectors = dict(zip(texts, embed(texts), strict=True))
    return memory.parts.ledger.apply(Write(decisions, **{"scope": Scope("ann"), "vectors": vectors, **options}))


def home_of(memory: Memory) -> str:
    added = memory.add("Lives in Oslo", user_id="ann", infer=False, timestamp=year(2026))
    return str(added.results[0].id)


def late(home: str, text: str = "Lives in Kyoto", when: int = 2020, **more: Any) -> Decision:
    return Decision("ADD", None, text, "told late", time=year(when), past_of=home, **more)


def texts(memory: Memory, **when: Any) -> list[str]:
    return [item.text for item in memory.get_all(user_id="ann", **when)]


def test_as_of_finds_a_late_statement_only_in_its_time(memory: Memory) -> None:
    home = home_of(memory)
    (change,) = apply(memory, late(home, metadata={"from": "a letter"}, actor_id="Bob"))
    assert (change.event, change.text, change.reason) == ("ADD", "Lives in Kyoto", "told late")
    assert change.valid_to == year(2026)
    assert Change.from_json(change.to_json()) == change
    assert texts(memory) == ["Lives in Oslo"]
    assert texts(memory, as_of=year(2019)) == []
    [then] = memory.get_all(user_id="ann", as_of=year(2021), filters={"from": "a letter"})
    assert (then.id, then.text, then.actor_id) == (change.id, "Lives in Kyoto", "Bob")
    assert [hit.text for hit in memory.search("Kyoto", user_id="ann", as_of=year(2021))] == ["Lives in Kyoto"]
    assert [hit.text for hit in memory.search("Kyoto", user_id="ann")] == ["Lives in Oslo"]
    with pytest.raises(MemoryNotFoundError):
        memory.get(str(change.id))


def test_search_finds_a_memory_by_the_date_of_a_late_statement(memory: Memory) -> None:
    home = home_of(memory)
    seen = memory.search("May 2020", user_id="ann", explain=True)[0].explanation
    apply(memory, late(home))
    item = memory.get(home)
    assert (item.created_at, item.updated_at, item.revision) == (year(2020), year(2026), 1)
    found = memory.search("May 2020", user_id="ann", explain=True)[0].explanation
    assert seen is not None and found is not None
    assert found.words > seen.words
    assert memory.verify().ok


def test_restore_does_not_begin_before_the_deletion(memory: Memory) -> None:
    added = memory.add("Lives in Oslo", user_id="ann", infer=False, timestamp=year(2100))
    home = str(added.results[0].id)
    memory.update(home, metadata={"seen": True})
    memory.delete(home)
    memory.restore(home, 2)
    assert [revision.valid_from for revision in memory.history(home)] == [year(2100)] * 4
    assert memory.get_all(user_id="ann", known_at=year(2099)).items == memory.get_all(user_id="ann").items


def test_past_of_is_compared_with_seen(memory: Memory) -> None:
    home = home_of(memory)
    seen = memory.history(home)[-1].seq
    apply(memory, late(home, seen=seen))
    with pytest.raises(ConflictError):
        apply(memory, late(home, "Lives in Nara", 2021, seen=seen))
    with pytest.raises(MemoryNotFoundError):
        apply(memory, late(home), within=Scope("bob"))
    with pytest.raises(MemoryNotFoundError):
        apply(memory, late("nobody"))


@pytest.mark.parametrize("when", [2026, 2027])
def test_past_of_refuses_a_statement_that_is_not_older(memory: Memory, when: int) -> None:
    home = home_of(memory)
    for decision in (late(home, when=when), Decision("DELETE", home, None, past_of=home, time=year(when))):
        with pytest.raises(InvalidInputError, match="not before the last statement"):
            apply(memory, decision)
    with pytest.raises(InvalidInputError, match="date"):
        apply(memory, Decision("ADD", None, "Lives in Kyoto", past_of=home))
