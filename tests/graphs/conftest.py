"""The graphs of the folder `graphs/`, loaded by path as a server loads them, each over a database of the test's own."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from langmem_adapter.adapters.serving import checkpointer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
async def load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Callable[[str], Any]]:
    """Import a module of `graphs/`; the memory that they share is closed in the end, as a server does it."""
    monkeypatch.setenv("LANGMEM_ADAPTER_DATABASE", str(tmp_path / "memory.db"))

    def load_(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"served_{name}", ROOT / "graphs" / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)  # LangGraph looks types up by their module
        spec.loader.exec_module(module)
        return module

    async with checkpointer():
        yield load_
