from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text, update

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.maintenance.checkup import checkup
from langmem_adapter.memory.memory import Memory
from langmem_adapter.storage.tables import memories
from langmem_adapter.testing import ScriptedChatModel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from langmem_adapter.maintenance.checkup import Check

FACTS = '{"facts": ["Name is Ada", "Lives in Lyon"]}'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def model() -> ScriptedChatModel:
    return ScriptedChatModel(replies=[FACTS])


@pytest.fixture
def memory(path: Path, model: ScriptedChatModel) -> Iterator[Memory]:
    with Memory(path, model=model, embeddings="hash:64") as memory:
        memory.add("I like tea", user_id="a", infer=False)
        yield memory


def found(memory: Memory, *, ask: bool = False) -> dict[str, Check]:
    return {check.name: check for check in checkup(memory, ask=ask)}


def test_checkup_of_a_healthy_memory_writes_nothing(memory: Memory, model: ScriptedChatModel) -> None:
    before = memory.stats()
    checks = found(memory)
    assert set(checks) == {"python", "packages", "telemetry", "disk", "database", "index"}
    assert {checks[name].status for name in ("python", "disk", "database", "index")} == {"OK"}
    assert "memories 1" in checks["database"].detail
    assert (model.calls, memory.stats()) == ([], before)


def test_checkup_ask_calls_the_models(memory: Memory, model: ScriptedChatModel) -> None:
    before = memory.stats()
    asked = found(memory, ask=True)
    assert asked["embeddings"].detail.startswith("hash:64: a vector of 64 numbers, ")
    assert asked["embeddings"].detail.endswith(f"reindex -d {memory.location} --embeddings static")
    assert (asked["model"].status, len(model.calls)) == ("OK", 1)
    assert "2 facts" in asked["model"].detail
    silent = found(memory, ask=True)  # no reply is left
    assert (silent["model"].status, silent["model"].cause, silent["index"].status) == ("FAIL", "unreachable", "OK")
    assert memory.stats() == before


def test_checkup_names_wrong_vectors_and_dates(memory: Memory) -> None:
    vector = bytes(64 * 4)
    memory.search("tea", user_id="a")
    memory.parts.database.write(lambda c: c.execute(update(memories).values(embedding=vector)))
    memory.parts.database.write(lambda c: c.execute(text("UPDATE memories SET created_at = 'soon'")))
    checks = found(memory)
    assert (checks["index"].status, checks["dates"].status) == ("FAIL", "FAIL")
    assert "1 differing" in checks["index"].detail and ".index" in checks["index"].fix
    assert "'soon'" in checks["dates"].detail


def test_checkup_names_a_deleted_file(memory: Memory, path: Path) -> None:
    path.rename(path.with_suffix(".elsewhere"))
    checks = found(memory)
    assert (checks["database"].status, "index" in checks) == ("FAIL", False)
    assert "gone" in checks["database"].detail
    path.with_suffix(".elsewhere").rename(path)


def test_checkup_refuses_what_is_no_memory() -> None:
    with pytest.raises(InvalidInputError, match="takes a Memory"):
        list(checkup("memory.db"))  # type: ignore[arg-type]
