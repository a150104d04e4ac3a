"""Snapshots come back bit by bit, or are refused; never anything between."""

from __future__ import annotations

import json
import os
import resource
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xxhash

from langmem_adapter.errors import StorageError
from langmem_adapter.index.build import open_index
from langmem_adapter.index.snapshot import Draft, Label, SnapshotError, load, save, snapshot_path, sweep
from tests.cases import each

if TYPE_CHECKING:
    from pathlib import Path

    from langmem_adapter.index.base import VectorIndex

D = 12
LABEL = Label("hash:12", 4711, b"\x00\x01nonce\xff")


@pytest.fixture
def index(make_vectors: Any, make_batch: Any) -> VectorIndex:
    made = open_index("faiss", D)
    made.update(make_batch(range(5, 55), (i % 3 for i in range(50)), make_vectors(50, D)))
    return made


@pytest.fixture
def file(index: VectorIndex, tmp_path: Path) -> Path:
    path = tmp_path / "memory.index"
    save(path, index, LABEL)
    return path


class TestRoundTrip:
    def test_gives_back_every_bit(self, index: VectorIndex, file: Path) -> None:
        snapshot = load(file, "hash:12")
        assert snapshot is not None
        assert snapshot.label == LABEL
        assert snapshot.newest == LABEL
        assert sorted(snapshot.pks.tolist()) == index.pks().tolist()
        np.testing.assert_array_equal(snapshot.scopes, index.scopes_of(snapshot.pks))
        assert snapshot.vectors.tobytes() == index.vectors(snapshot.pks).tobytes()
        assert snapshot.pks.dtype == np.int64
        assert snapshot.vectors.dtype == np.float32

    def test_keeps_more_rows_than_are_written_in_one_go(
        self, tmp_path: Path, make_vectors: Any, make_batch: Any
    ) -> None:
        vectors = make_vectors(10_000, D)
        index = open_index("exact", D)
        index.update(make_batch(range(10_000), [1] * 10_000, vectors))
        save(tmp_path / "x", index, LABEL)
        snapshot = load(tmp_path / "x", "hash:12")
        assert snapshot is not None
        np.testing.assert_array_equal(snapshot.vectors, vectors)

    def test_an_empty_index_is_kept_too(self, tmp_path: Path) -> None:
        save(tmp_path / "x", open_index("exact", D), LABEL)
        snapshot = load(tmp_path / "x", "hash:12")
        assert snapshot is not None
        assert snapshot.vectors.shape == (0, D)

    def test_no_file_is_no_snapshot(self, tmp_path: Path) -> None:
        assert load(tmp_path / "none", "hash:12") is None

    def test_only_its_owner_may_read_it(self, file: Path) -> None:
        assert file.stat().st_mode & 0o777 == 0o600

    def test_two_embedding_models_have_two_files(self, tmp_path: Path) -> None:
        one, other = (snapshot_path(tmp_path / "memory.db", name) for name in ("hash:12", "openai:small"))
        assert one != other
        assert {one.parent, other.parent} == {tmp_path}


def _damages() -> dict[str, Any]:
    size = _START + _header_length() + 50 * (16 + 4 * D) + 32
    cuts = {f"cut to {n}": lambda data, n=n: data[:n] for n in (0, 1, 7, 8, 15, 16, 40, size // 2, size - 16, size - 1)}
    rng = np.random.default_rng(0)
    places = [*range(_START), *rng.integers(0, size, 40).tolist(), size - 17, size - 16, size - 1]
    flips = {f"bit flipped in {n}": lambda data, n=n: _flipped(data, n) for n in places}
    longer = {f"{n} bytes more": lambda data, n=n: data + b"\0" * n for n in (1, 16, 4096)}
    others = {
        "twice": lambda data: data + data,
        "empty lines": lambda _: b"\n" * 5000,
        "zeros": lambda data: bytes(len(data)),
        "two rows swapped": lambda data: data[:-116] + data[-74:-32] + data[-116:-74] + data[-32:],
    }
    return cuts | flips | longer | others


_START = 16


def _header_length() -> int:
    header = {"fingerprint": "hash:12", "applied": 4711, "nonce": LABEL.nonce.hex(), "count": 50, "dimensions": D}
    return len(json.dumps(header))


def _flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :]


DAMAGES = _damages()


class TestDamage:
    @each("name", DAMAGES)
    def test_is_refused(self, file: Path, name: str) -> None:
        damaged = file.with_name("damaged.index")
        damaged.write_bytes(DAMAGES[name](file.read_bytes()))
        with pytest.raises(SnapshotError, match=damaged.name):
            load(damaged, "hash:12")

    def test_a_foreign_embedding_model_is_refused(self, file: Path) -> None:
        with pytest.raises(SnapshotError, match=r"'hash:12'.*'openai:x'"):
            load(file, "openai:x")

    @each(
        "header",
        [
            b"[]",
            b"null",
            b"{}",
            b"\xff\xfe",
            b"[" * 60_000,
            {"count": 1 << 60},
            {"count": -1},
            {"count": True},
            {"count": 50.0},
            {"dimensions": 0},
            {"dimensions": 1 << 40, "count": 0},
            {"applied": 0},
            {"applied": "4711"},
            {"nonce": "00"},
            {"nonce": 5},
            {"nonce": "xyz"},
            {"fingerprint": None},
        ],
    )
    def test_a_crafted_header_with_a_right_checksum_is_refused(self, file: Path, header: Any) -> None:
        honest = {"fingerprint": "hash:12", "applied": 4711, "nonce": LABEL.nonce.hex(), "count": 50, "dimensions": D}
        text = header if isinstance(header, bytes) else json.dumps(honest | header).encode()
        body = file.read_bytes()[_START + _header_length() : -16]
        data = struct.pack("<8sII", b"LMAINDEX", 2, len(text)) + text + body
        file.write_bytes(data + xxhash.xxh3_128_digest(data))
        with pytest.raises(SnapshotError):
            load(file, "hash:12")

    def test_links_pipes_and_folders_are_refused(self, file: Path) -> None:
        link, pipe = file.with_name("link"), file.with_name("pipe")
        link.symlink_to(file)
        os.mkfifo(pipe)
        for path in (link, pipe, file.parent):
            with pytest.raises(SnapshotError):
                load(path, "hash:12")

    def test_the_error_is_a_storage_error(self) -> None:
        assert issubclass(SnapshotError, StorageError)


class TestWriting:
    def test_an_unpublished_draft_leaves_the_previous_one_and_nothing_else(
        self, index: VectorIndex, file: Path
    ) -> None:
        before = file.read_bytes()
        with Draft(file) as draft:
            draft.write(index, LABEL)
        assert file.read_bytes() == before
        assert list(file.parent.iterdir()) == [file]

    def test_a_full_disk_leaves_the_previous_one_and_nothing_else(self, index: VectorIndex, file: Path) -> None:
        before, limits = file.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))  # Python ignores SIGXFSZ: a write fails with EFBIG
        try:
            with pytest.raises(OSError, match="too large"):
                save(file, index, LABEL)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert file.read_bytes() == before
        assert list(file.parent.iterdir()) == [file]

    def test_a_missing_folder_is_an_os_error(self, index: VectorIndex, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            save(tmp_path / "no" / "x.index", index, LABEL)

    def test_a_link_in_its_place_is_replaced_and_not_followed(self, index: VectorIndex, tmp_path: Path) -> None:
        victim, link = tmp_path / "victim", tmp_path / "x.index"
        victim.write_text("mine")
        link.symlink_to(victim)
        save(link, index, LABEL)
        assert victim.read_text() == "mine"
        assert not link.is_symlink()

    def test_leftovers_of_killed_writers_are_swept_and_nothing_else(self, index: VectorIndex, file: Path) -> None:
        orphan = file.with_name(f".{file.name}.abc.tmp")
        orphan.write_bytes(b"half")
        stranger = file.with_name(".other.index.abc.tmp")
        stranger.write_bytes(b"not ours")
        with Draft(file) as draft:
            draft.write(index, LABEL)
            assert sweep(file) == 1  # the orphan, not the file that is being written
            draft.publish(LABEL)
        assert sorted(file.parent.iterdir()) == sorted([file, stranger])
        assert load(file, "hash:12") is not None
