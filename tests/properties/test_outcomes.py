"""Whatever a model says: every fact has an outcome or the add is an error, ids never change, history replays to the present."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_adapter.errors import ModelReplyError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.testing import ScriptedChatModel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WORDS = ["tea", "green tea", "chess", "jazz", "Rome"]
FACT = st.sampled_from([f"{verb} {word}" for verb in ("Likes", "Hates", "Sells") for word in WORDS])
ENTRY = st.fixed_dictionaries(
    {
        "id": st.sampled_from(["0", "1", "2", "9", "x"]),
        "text": FACT,
        "event": st.sampled_from(["ADD", "UPDATE", "DELETE", "NONE"]),
    },
    optional={"fact": st.integers(0, 3), "old_memory": FACT},
)
ROUND = st.tuples(st.lists(FACT, min_size=1, max_size=3, unique=True), st.lists(ENTRY, max_size=5))


class Scripts:
    """A model whose next answers are set by the test."""

    facts: list[str]
    entries: list[dict[str, Any]]

    def __call__(self, messages: list[Any]) -> str:
        if '"conversation"' in str(messages[1].content):
            return json.dumps({"facts": self.facts})
        return json.dumps({"memory": self.entries})


SCRIPT = Scripts()


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    path: Path = tmp_path_factory.mktemp("outcomes") / "m.db"
    with Memory(path, model=ScriptedChatModel(replies=[SCRIPT] * 100_000), model_profile="full") as opened:
        yield opened


@given(rounds=st.lists(ROUND, min_size=1, max_size=5))
@settings(max_examples=25)
def test_every_fact_has_an_outcome_and_the_history_replays_to_the_present(
    memory: Memory, rounds: list[tuple[list[str], list[dict[str, Any]]]]
) -> None:
    user = str(uuid.uuid4())
    lives: dict[str, str] = {}
    for facts, entries in rounds:
        SCRIPT.facts, SCRIPT.entries = facts, entries
        before = memory.stats().changes
        try:
            result = memory.add("something", user_id=user)
        except ModelReplyError:
            assert memory.stats().changes == before
            continue
        trace = memory.trace(str(result.trace_id))
        assert {decision.fact for decision in trace.decisions} == set(range(len(facts)))
        assert all(change.reason for change in result.results)
        for change in result.results:
            if change.event == "DELETE":
                del lives[str(change.id)]
            elif change.event != "NONE":
                assert (change.event == "ADD") == (change.id not in lives)
                lives[str(change.id)] = change.text
    assert {item.id: item.text for item in memory.get_all(user_id=user)} == lives
    for memory_id, text in lives.items():
        revisions = memory.history(memory_id)
        assert revisions[-1].new_text == text
        assert [revision.revision for revision in revisions] == list(range(1, len(revisions) + 1))
