"""Any order of writing, forgetting, reopening, damaging and restoring ends where a plain dict does."""

from __future__ import annotations

import copy
import os
import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from langmem_adapter.errors import InvalidInputError, MemoryNotFoundError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.settings import Settings
from tests.faults.campaign import copy_database
from tests.faults.processes import call

if TYPE_CHECKING:
    from langmem_adapter.records.results import Change

LONG: Final = os.environ.get("FAULTS") == "long"
LONG_AGO: Final = "2020-01-01T00:00:00+00:00"
USERS: Final = ("alice", "bob")
WHO, USER, PLACE = st.integers(0, 1), st.sampled_from(USERS), st.integers(0, 40)
TEXT = st.lists(st.sampled_from("tea chess jazz 绿茶 opera cactus".split()), min_size=1, max_size=4).map(" ".join)


def open_memory(path: Path) -> Memory:
    return Memory(path, embeddings="hash:32", settings=Settings(merge_after=3, trace_days=0))


def add_elsewhere(path: Path, user: str, text: str) -> str:
    """What another process does."""
    with open_memory(path) as memory:
        return str(memory.add(text, user_id=user, infer=False).results[0].id)


@dataclass(slots=True)
class Life:
    """What a memory went through: event, text (`None` where it ended), and whether it was expired from then on."""

    user: str
    past: list[tuple[str, str | None, bool]] = field(default_factory=list)

    @property
    def text(self) -> str | None:
        return self.past[-1][1]

    @property
    def expired(self) -> bool:
        return self.past[-1][2]


class Machine(RuleBasedStateMachine):
    """Two `Memory` objects on one file, sometimes another process, and a dict that knows better."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="machine-")
        self.path, self.backup = Path(self.folder.name) / "memory.db", Path(self.folder.name) / "backup.db"
        self.memories = [open_memory(self.path), open_memory(self.path)]
        self.lives: dict[str, Life] = {}
        self.known: list[str] = []  # also those that a restored backup has undone
        self.saved: dict[str, Life] | None = None

    def teardown(self) -> None:
        for memory in self.memories:
            memory.close()
        self.folder.cleanup()

    # ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @rule(who=WHO, user=USER, text=TEXT)
    def add(self, who: int, user: str, text: str) -> None:
        (change,) = self.memories[who].add(text, user_id=user, infer=False).results
        self._born(str(change.id), user, text)

    @rule(user=USER, text=TEXT)
    def add_in_another_process(self, user: str, text: str) -> None:
        self._born(call(add_elsewhere, self.path, user, text), user, text)

    @precondition(lambda self: self.known)
    @rule(who=WHO, place=PLACE, text=TEXT)
    def update(self, who: int, place: int, text: str) -> None:
        memory_id, life = self._target(place)
        self._changed(life, ("UPDATE", text), lambda: self.memories[who].update(memory_id, text))

    @precondition(lambda self: self.known)
    @rule(who=WHO, place=PLACE, expired=st.booleans())
    def expire(self, who: int, place: int, expired: bool) -> None:  # noqa: FBT001 - Hypothesis passes by name
        memory_id, life = self._target(place)
        when, now = (LONG_AGO if expired else None), life.text if life else None
        change = lambda: self.memories[who].update(memory_id, expires_at=when)  # noqa: E731 - it is called there
        self._changed(life, ("UPDATE", now), change, expired=expired)

    @precondition(lambda self: self.known)
    @rule(who=WHO, place=PLACE)
    def delete(self, who: int, place: int) -> None:
        memory_id, life = self._target(place)
        self._changed(life, ("DELETE", None), lambda: self.memories[who].delete(memory_id))

    @precondition(lambda self: self.known)
    @rule(who=WHO, place=PLACE, back=st.integers(1, 3))
    def restore(self, who: int, place: int, back: int) -> None:
        memory_id, life = self._target(place)
        number = max(1, len(life.past) + 1 - back) if life else 1
        if life is None or life.past[number - 1][1] is None:
            with pytest.raises(MemoryNotFoundError if life is None else InvalidInputError):
                self.memories[who].restore(memory_id, number)
            return
        _, text, expired = life.past[number - 1]
        event = "ADD" if life.text is None else "UPDATE"
        assert self.memories[who].restore(memory_id, number).event == event
        life.past.append((event, text, expired))

    @rule(who=WHO, user=USER)
    def delete_all(self, who: int, user: str) -> None:
        living = [life for life in self.lives.values() if life.user == user and life.text is not None]
        assert self.memories[who].delete_all(user_id=user) == len(living)
        for life in living:
            life.past.append(("DELETE", None, life.expired))

    # ── what happens to files ───────────────────────────────────────────────────────────────────────────────────────

    @rule(who=WHO)
    def snapshot(self, who: int) -> None:
        self.memories[who].parts.indexer.write_segment()

    @rule(who=WHO)
    def reopen(self, who: int) -> None:
        self.memories[who].close()
        self.memories[who] = open_memory(self.path)

    @rule(seed=st.integers(0, 1000), who=WHO)
    def damage_the_snapshot_and_reopen(self, seed: int, who: int) -> None:
        dice = random.Random(seed)
        self.memories[who].close()
        for path in (*self.path.parent.glob("*.index"), *self.path.parent.glob("*.faiss")):
            damaged = path.with_name("damaged")  # put in its place: others have the honest one open
            damaged.write_bytes(_damaged(path.read_bytes(), dice))
            damaged.replace(path)
        self.memories[who] = open_memory(self.path)

    @rule()
    def back_up(self) -> None:
        copy_database(self.path, self.backup)
        self.saved = copy.deepcopy(self.lives)

    @precondition(lambda self: self.saved is not None)
    @rule()
    def put_the_backup_back(self) -> None:
        copy_database(self.backup, self.path)
        self.lives = copy.deepcopy(self.saved or {})

    # ── what must hold ──────────────────────────────────────────────────────────────────────────────────────────────

    @invariant()
    def everybody_sees_the_same(self) -> None:
        for memory in self.memories:
            for user in USERS:
                lives = {id_: life for id_, life in self.lives.items() if life.user == user and life.text is not None}
                shown = {id_: life.text for id_, life in lives.items() if not life.expired}
                listed = memory.get_all(user_id=user, k=1000, include_expired=True)
                assert {item.id: item.text for item in listed} == {id_: life.text for id_, life in lives.items()}
                assert {item.id: item.text for item in memory.get_all(user_id=user, k=1000)} == shown
                found = memory.search("green tea", user_id=user, k=1000)
                assert {hit.id: hit.text for hit in found} == shown
            assert memory.verify().ok

    @invariant()
    def the_history_tells_every_step(self) -> None:
        for id_, life in self.lives.items():
            told = [(revision.event, revision.new_text) for revision in self.memories[0].history(id_)]
            assert told == [(event, text) for event, text, _ in life.past]

    # ── inside ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _born(self, memory_id: str, user: str, text: str) -> None:
        assert memory_id not in self.known
        self.known.append(memory_id)
        self.lives[memory_id] = Life(user, [("ADD", text, False)])

    def _target(self, place: int) -> tuple[str, Life | None]:
        memory_id = self.known[place % len(self.known)]
        return memory_id, self.lives.get(memory_id)

    def _changed(
        self, life: Life | None, step: tuple[str, str | None], change: Any, *, expired: bool | None = None
    ) -> None:
        if life is None or life.text is None:
            with pytest.raises(MemoryNotFoundError):
                change()
            return
        done: Change = change()
        assert done.event == step[0]
        life.past.append((*step, life.expired if expired is None else expired))


def _damaged(data: bytes, dice: random.Random) -> bytes:
    place = dice.randrange(len(data) + 1)
    kinds = (
        data[:place],
        data[:place] + b"\xff" + data[place + 1 :],
        data + b"more",
        bytes(len(data)),
        dice.randbytes(100),
    )
    return dice.choice(kinds)


TestMachine = Machine.TestCase
TestMachine.settings = settings(
    max_examples=50 if LONG else 4,
    stateful_step_count=30 if LONG else 20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestMachine = pytest.mark.timeout(1800)(TestMachine)
