"""Every public async method of `Memory` and `Memory.graph` gives what its sync twin gives."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from langmem_adapter import Memory
from langmem_adapter.knowledge.memory import GraphMemory

if TYPE_CHECKING:
    from pathlib import Path

Results: TypeAlias = dict[str, Any]
Step: TypeAlias = tuple[str, Callable[[Results], tuple[Any, ...]], dict[str, Any]]

USER = {"user_id": "u"}
_CHANGING = re.compile(
    r"[0-9a-f]{8}-[0-9a-f-]{27}|datetime\.datetime\([^)]*\)|\d{4}-\d\d-[\dT :.+]+|milliseconds=[^)]*|\b[0-9a-f]{16,}|\d+\.\d+"
)
"""Ids, times, hashes, and scores that depend on the time."""


def _given(*arguments: Any) -> Callable[[Results], tuple[Any, ...]]:
    return lambda _: arguments


def _first_id(results: Results) -> tuple[Any, ...]:
    return (results["add"].results[0].id,)


def _relation_id(results: Results) -> tuple[Any, ...]:
    return (results["graph.relations"].items[0].id,)


def _steps(folder: Path) -> list[Step]:
    """One call of each method, in an order in which each has something to do."""
    item, file = {"messages": "I live in Lyon.", **USER}, folder / "graph.jsonl"
    return [
        ("add", _given("My name is Ana and I have a dog called Rex."), USER),
        ("add_many", _given([item, {**item, "messages": "I like tea."}]), {}),
        ("search", _given("Where does she live?"), USER),
        ("get", _first_id, {}),
        ("get_all", _given(), USER),
        ("update", lambda results: (*_first_id(results), "Name is Anna"), {}),
        ("update_many", lambda results: ([{"memory_id": _first_id(results)[0], "text": "Name is Annabel"}],), {}),
        ("history", _first_id, {}),
        ("restore", lambda results: (*_first_id(results), 1), {}),
        ("trace", lambda results: (results["add"].trace_id,), {}),
        ("traces", _given(), USER),
        ("replay", lambda results: (results["add"].trace_id,), {}),
        ("scopes", _given(), {}),
        ("stats", _given(), {}),
        ("backup", _given(folder / "backup.db"), {}),
        ("verify", _given(), {}),
        ("sweep", _given(), {}),
        ("graph.add", _given("Ana", "works_at", "Acme"), USER),
        ("graph.relations", _given(), USER),
        ("graph.entities", _given(), USER),
        ("graph.search", _given("Acme"), USER),
        ("graph.neighbours", _given("Acme"), USER),
        ("graph.path", _given("Ana", "Acme"), USER),
        ("graph.draw", _given(), USER),
        ("graph.to_networkx", _given(), USER),
        ("graph.suggest_merges", _given(), USER),
        ("graph.merge", _given("Acme", "Acme Ltd"), USER),
        ("graph.split", _given("Acme"), USER),
        ("graph.backfill", _given(), USER),
        ("graph.export", _given(file), USER),
        ("graph.load", _given(file), {"user_id": "v"}),
        ("graph.end", _relation_id, USER),
        ("graph.delete", _relation_id, USER),
        ("graph.delete_all", _given(), USER),
        ("export", _given(), USER),
        ("import_", lambda results: (results["export"],), {}),
        ("delete", _first_id, {}),
        ("delete_many", _given(["00000000-0000-4000-8000-000000000000"]), {}),
        ("delete_all", _given(), USER),
        ("purge", _given(), USER),
        ("reset", _given(), {}),
        ("close", _given(), {}),
    ]


def _plain(result: Any) -> str:
    if isinstance(result, list) and result and isinstance(result[0], bytes):  # an export, sorted by ids
        return str(sorted(str(json.loads(line).get("kind")) for line in result))
    return _CHANGING.sub("…", repr(sorted(result.nodes) if hasattr(result, "nodes") else result))


def _twins() -> set[str]:
    """Public methods with a twin whose name begins with `a`."""
    return {
        prefix + name
        for cls, prefix in ((Memory, ""), (GraphMemory, "graph."))
        for name, member in inspect.getmembers(cls, callable)
        if not name.startswith("_") and hasattr(cls, f"a{name}")
    }


async def test_every_async_method_gives_what_its_sync_twin_gives(tmp_path: Path) -> None:
    steps = [_steps(tmp_path / name) for name in ("sync", "async")]
    assert _twins() == {name for name, *_ in steps[0]}
    public = {name for name, _ in inspect.getmembers(Memory, inspect.isfunction) if not name.startswith("_")}
    alone = {name for name in public if not {name, name[1:]} & _twins()}
    assert alone == {"build_pipeline", "background", "recall", "as_retriever", "tools"}
    for name in ("sync", "async"):
        (tmp_path / name).mkdir()
    memories = [
        Memory(tmp_path / name / "m.db", model="offline", embeddings="hash", graph=True) for name in ("sync", "async")
    ]
    results: tuple[Results, Results] = ({}, {})
    for (name, arguments, options), (_, aarguments, _) in zip(*steps, strict=True):
        owners = [memory.graph if name.startswith("graph.") else memory for memory in memories]
        method = name.removeprefix("graph.")
        results[0][name] = getattr(owners[0], method)(*arguments(results[0]), **options)
        awaitable = getattr(owners[1], f"a{method}")(*aarguments(results[1]), **options)
        if name == "export":
            results[0][name], results[1][name] = [*results[0][name]], [line async for line in await awaitable]
        else:
            results[1][name] = await awaitable
        assert _plain(results[0][name]) == _plain(results[1][name]).replace("/async/", "/sync/"), name
