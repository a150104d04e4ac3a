"""Whatever happened to a database: an export makes the same one again, byte for byte and answer for answer."""

from __future__ import annotations

import json
import os
import random
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from langmem_adapter.adapters.store import MemoryStore
from langmem_adapter.storage.conversations import listed, read
from tests.lossless import EVERYTHING, STEPS, USERS, Story, body, consistent, emptied, open_memory, signed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.records.results import Revision
    from langmem_adapter.storage.conversations import ConversationInfo

LONG: Final = os.environ.get("FAULTS") == "long"


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def two(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Memory, Memory]]:
    """Two memories of one kind."""
    with ExitStack() as undo:
        folder = tmp_path_factory.mktemp("two")
        urls = [str(folder / f"{name}.db") for name in "ab"]
        if request.param == "postgres":
            new: Callable[[], AbstractContextManager[str]] = request.getfixturevalue("new_postgres")
            urls = [undo.enter_context(new()) for _ in urls]
        one, other = (undo.enter_context(open_memory(url)) for url in urls)
        yield one, other


def answers(memory: Memory) -> dict[str, Any]:
    """What a memory says of all that a story may have told it."""
    told: dict[str, Any] = {}
    moments = [None, "2004-06-01T00:00:00Z", "2026-01-01T00:00:00Z"]
    for user in USERS:
        for moment in moments:
            told[f"all {user} {moment}"] = list(memory.get_all(user_id=user, as_of=moment))
            told[f"graph {user} {moment}"] = list(memory.graph.relations(user_id=user, as_of=moment))
        told[f"known {user}"] = list(memory.graph.relations(user_id=user, history=True))
        told[f"entities {user}"] = list(memory.graph.entities(user_id=user, unrelated=True))
    for info in talks(memory):
        told[f"talk {info}"] = memory.parts.reading(read, info.conversation)
    store = MemoryStore(memory)
    told["items"] = [store.search(space) for space in store.list_namespaces()]
    return told


def talks(memory: Memory) -> list[ConversationInfo]:
    """Every conversation."""
    return memory.parts.reading(listed, None, k=100)[0]


def past(memory: Memory, memory_id: str) -> list[Revision]:
    """What a memory was, without the numbers of its database."""
    return [replace(each, seq=0) for each in memory.history(memory_id)]


@settings(
    max_examples=200 if LONG else 10,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@example(EVERYTHING)
@given(STEPS)
def test_export_and_import_make_the_same_database(two: tuple[Memory, Memory], steps: Sequence[Any]) -> None:
    one, other = map(emptied, two)
    story = Story(one)
    story.tell(steps)
    exported = list(one.export(everything=True))

    report = other.import_(exported)

    assert report.complete, report
    assert body(other) == exported[1:]
    assert answers(other) == answers(one)
    for memory_id in story.ids:
        assert past(other, memory_id) == past(one, memory_id)
        moment = past(one, memory_id)[-1].created_at
        assert other.get_all(user_id="ann", known_at=moment) == one.get_all(user_id="ann", known_at=moment)
    assert other.verify().ok
    again = other.import_(exported)
    assert (again.known, again.added, again.rejected) == (len(exported) - 2, 0, 0)
    assert body(other) == exported[1:]


@pytest.fixture(scope="module")
def whole() -> list[bytes]:
    """An export with a row in every table."""
    with open_memory(":memory:") as memory:
        Story(memory).tell(EVERYTHING)
        return list(memory.export(everything=True))


def mixed(whole: list[bytes], dice: random.Random) -> list[bytes]:
    """Lines whose values have moved to others of their kind, or became something else; some lines are gone."""
    lines = [json.loads(line) for line in whole]
    for _ in range(dice.randint(1, 5)):
        line = dice.choice(lines[1:-1])
        other = dice.choice([each for each in lines if each.get("kind") == line["kind"]])
        name = dice.choice(sorted(line))
        line[name] = dice.choice(
            [other.get(name), other.get(name), None, "1999-01-01T00:00:00Z", 0, 10**20, [], {}, "x"]
        )
    kept = [line for line in lines[1:-1] if dice.random() > 0.03]
    return signed([whole[0], *(json.dumps(line).encode() + b"\n" for line in kept), whole[-1]])


@settings(max_examples=400 if LONG else 12, deadline=None, phases=[Phase.generate])
@given(st.integers(0, 2**32))
def test_import_takes_no_row_that_breaks_a_guarantee_of_the_ledger(whole: list[bytes], seed: int) -> None:
    with open_memory(":memory:") as target:
        report = target.import_(mixed(whole, random.Random(seed)))
        assert report.added + report.known + report.rejected == report.lines
        assert consistent(target) and target.verify().ok
        exported = list(target.export(everything=True))
        again = target.import_(exported)
        assert again.complete and again.known == len(exported) - 2, again
