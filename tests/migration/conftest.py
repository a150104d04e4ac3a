"""Stores of other programs: recorded ones, and memories that take them."""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from langmem_adapter.memory.memory import Memory

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCES = Path(__file__).parent / "sources"


@pytest.fixture(scope="module")
def mem0_stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders that the real Mem0 wrote: `mem0-0-faiss`, `mem0-0-qdrant`, `mem0-2-faiss`, `mem0-2-qdrant`; `make sources`."""
    folder = tmp_path_factory.mktemp("mem0")
    with tarfile.open(SOURCES / "mem0.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Memory]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with Memory(":memory:", model="offline", embeddings="hash:64") as opened:
        yield opened


def digests(folder: Path) -> dict[str, str]:
    """The bytes of every file in a folder, by its path; without the shared memory in which SQLite notes who reads."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith("-shm"))
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
