"""The files of a vector index: generations, each a segment and its manifest.

    memory.db.<model>.index              the manifest: which segment, which rows, up to which change, a checksum of each block
    memory.db.<model>.<number>.faiss     the segment: a standard file of FAISS

A file is never written in place. A new generation has a new name; its manifest replaces the previous one last, so a reader
finds one of the two, whole. The nonce of its last change tells to which database it belongs. The files are only a copy: without
them the database is read.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import struct
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import numpy as np
import xxhash

from langmem_adapter.index.segment import (
    Catalogue,
    Digests,
    FileRows,
    Segment,
    SegmentError,
    block_rows,
    file_size,
    header,
)
from langmem_adapter.storage.feed import Cursor
from langmem_adapter.storage.sqlite import sync_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

    from langmem_adapter.index.segment import Contents

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows refuses to remove a file that is open, which serves as well
    fcntl = None  # type: ignore[assignment]

_MAGIC: Final = b"LMAINDEX"
_VERSION: Final = 3
_START: Final = struct.Struct("<8sII")
_DIGEST: Final = 16
_SPARE: Final = 1 << 24  # bytes that a disk must have free beside a generation
_TRIES: Final = 5  # to open a generation while others put newer ones in its place
_PAUSE: Final = 0.05  # seconds
_SUFFIX: Final = ".tmp"
# Never through a link, never waiting for a pipe's other end; the flags that a platform lacks are 0.
_FLAGS: Final = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))


@dataclass(frozen=True, slots=True, eq=False)
class Generation:
    """A segment, and the state of the database that it was made from."""

    cursor: Cursor
    segment: Segment


class Generations:
    """The files of one index, beside an SQLite file; segments are mapped, or read into memory (for network disks)."""

    def __init__(self, manifest: Path, *, mapped: bool = True) -> None:
        self.manifest: Final = manifest
        self._mapped = mapped
        self._seen: tuple[int, ...] = ()

    @classmethod
    def for_database(cls, database: Path, mark: str, *, mapped: bool = True) -> Generations:
        """Those beside an SQLite file, of one embedding model."""
        digest = xxhash.xxh3_64_hexdigest(mark.encode())
        return cls(database.with_name(f"{database.name}.{digest}.index"), mapped=mapped)

    def changed(self) -> bool:
        """Whether another manifest lies there than the one that was opened or written last."""
        return self._stamp() not in (self._seen, ())

    def latest(self, fingerprint: str) -> Generation | None:
        """The latest generation; `None` where there is none, or another process removes it."""
        for _ in range(_TRIES):
            try:
                self._seen = self._stamp()
                return self._opened(fingerprint)
            except FileNotFoundError:
                # Contract: a file that is gone is news, no failure: another process erases, or a newer generation lies there.
                # `test_who_merges_beside_who_erases_keeps_silent_and_loses_nothing`
                if self._stamp() == self._seen:
                    return None
            except OSError as error:
                raise SegmentError(f"{self.manifest}: {error.strerror}") from error
            except SegmentError as error:
                raise SegmentError(f"{self.manifest} {error}") from None
        return None

    def _opened(self, fingerprint: str) -> Generation:
        manifest = _read(self.manifest)
        if manifest.cursor.fingerprint != fingerprint:
            made = manifest.cursor.fingerprint
            raise SegmentError(f"was made with the embeddings {made!r}, in use are {fingerprint!r}")
        path = self._segment(manifest.generation)
        rows = FileRows(_open_regular(path), len(manifest.catalogue), manifest.dimensions, manifest.digests)
        segment = Segment(rows, manifest.catalogue)
        return Generation(manifest.cursor, segment if self._mapped else segment.loaded())

    def _stamp(self) -> tuple[int, ...]:
        try:
            stat_ = self.manifest.stat(follow_symlinks=False)
        except OSError:
            return ()
        return stat_.st_ino, stat_.st_mtime_ns, stat_.st_size

    def merging(self) -> AbstractContextManager[bool]:
        """Be the only one, of all processes, who writes a generation; gives whether that is so."""
        return _locked(self.manifest.with_name(f"{self.manifest.name}.lock"))

    def publish(self, contents: Contents, cursor: Cursor) -> None:
        """Write the next generation, while `merging`; searches and changes go on meanwhile.

        Where it fails, with an `OSError` or a `SegmentError`, the previous generation stays and nothing else is left behind.
        """
        dimensions = contents.tail.vectors.shape[1]
        needed, folder = file_size(contents.count, dimensions) + 32 * contents.count, self.manifest.parent
        if (free := shutil.disk_usage(folder).free) < needed + _SPARE:
            raise OSError(28, f"the vector index needs {needed:,} bytes, {free:,} are free", str(folder))
        generation = max(self._segments(self.manifest.parent.iterdir()), default=0) + 1
        path = self._segment(generation)
        # Contract: the segment is on the disk before the manifest names it, and the manifest is renamed last. A process that
        # opens it finds the old generation or this. `test_a_full_disk_leaves_the_previous_generation_and_nothing_else`
        with ExitStack() as undo:
            undo.callback(path.unlink, missing_ok=True)
            catalogue, digests = _write_segment(path, contents, dimensions)
            manifest = _Manifest(cursor, generation, dimensions, catalogue, digests)
            _replace(self.manifest, manifest.pieces())
            undo.pop_all()
        self._seen = self._stamp()
        self.sweep(keep=generation)

    def _segment(self, generation: int) -> Path:
        return self.manifest.with_suffix(f".{generation}.faiss")

    def _segments(self, beside: Iterable[Path]) -> dict[int, Path]:
        name = re.compile(rf"{re.escape(self.manifest.stem)}\.(\d+)\.faiss")
        return {int(match[1]): path for path in beside if (match := name.fullmatch(path.name))}

    def sweep(self, keep: int | None = None) -> None:
        """Remove segments and drafts that no manifest names any more, while `merging`; what is in use goes the next time."""
        if keep is None:
            with suppress(OSError, SegmentError):
                keep = _read(self.manifest).generation
        beside = list(self.manifest.parent.iterdir())
        drafts = [path for path in beside if path.name.startswith(f".{self.manifest.name}.")]
        old = [path for number, path in self._segments(beside).items() if number != keep]
        for path in (*drafts, *old):
            with suppress(OSError):
                path.unlink()

    def remove(self) -> None:
        self.manifest.unlink(missing_ok=True)
        self.sweep(keep=-1)


def erase_index_files(database: Path, *, patience: float = 5.0) -> tuple[int, int]:
    """Remove every generation of every index of an SQLite file; returns how many files were removed, and how many are left.

    Waits *patience* seconds for a process that writes one, and for files that cannot be removed at the moment.
    """
    name = re.escape(database.name)
    ours = re.compile(rf"\.?{name}\.[0-9a-f]{{16}}\.(?:index(?:\..*\{_SUFFIX})?|\d+\.faiss)")
    lock = re.compile(rf"{name}\.[0-9a-f]{{16}}\.index\.lock")  # these stay
    removed, end = 0, time.monotonic() + patience
    while True:
        beside = list(database.parent.iterdir())
        files, locks = ([path for path in beside if each.fullmatch(path.name)] for each in (ours, lock))
        left = len(files)
        for path in files:
            with suppress(OSError):  # the others can go all the same
                path.unlink(missing_ok=True)
                removed, left = removed + 1, left - 1
        for path in locks:  # a part of a generation may lie there without a name that we know
            with _locked(path) as alone:
                left += not alone
        if not left or time.monotonic() > end:
            return removed, left
        time.sleep(_PAUSE)


# ── the manifest ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, eq=False)
class _Manifest:
    """What a generation is.

    magic 8 bytes | version u32 | length of the header u32 | header (JSON) | pks int64 | scopes int64 | their starts int64 |
    sorted pks int64 | their rows u32 | checksums of blocks u64 | XXH3-128 of all before, 16 bytes         (little-endian)
    """

    cursor: Cursor
    generation: int
    dimensions: int
    catalogue: Catalogue
    digests: Digests

    def pieces(self) -> Iterator[bytes]:
        catalogue, cursor = self.catalogue, self.cursor
        head = json.dumps(
            {
                "fingerprint": cursor.fingerprint,
                "applied": cursor.applied,
                "nonce": cursor.nonce.hex(),
                "generation": self.generation,
                "dimensions": self.dimensions,
                "count": len(catalogue),
                "scopes": len(catalogue.scopes),
                "blocks": len(self.digests),
            }
        ).encode()
        arrays = (catalogue.pks, catalogue.scopes, catalogue.starts, catalogue.sorted_pks, catalogue.rows, self.digests)
        digest = xxhash.xxh3_128()
        for piece in (_START.pack(_MAGIC, _VERSION, len(head)), head, *(array.tobytes() for array in arrays)):
            digest.update(piece)
            yield piece
        yield digest.digest()


def _read(path: Path) -> _Manifest:
    with os.fdopen(_open_regular(path), "rb") as file:
        data = file.read()
    if xxhash.xxh3_128_digest(data[:-_DIGEST]) != data[-_DIGEST:]:
        raise SegmentError("is damaged: the checksum differs")
    magic, version, length = _START.unpack_from(data)
    if (magic, version) != (_MAGIC, _VERSION):
        raise SegmentError("is no manifest of this version")
    at = _START.size + length
    head = json.loads(data[_START.size : at])
    cursor = Cursor(head["applied"], bytes.fromhex(head["nonce"]), head["fingerprint"])
    count, scopes = head["count"], head["scopes"]
    arrays: list[Any] = []
    sizes = (count, scopes, scopes + 1, count, count, head["blocks"])
    for size, kind in zip(sizes, ("<i8", "<i8", "<i8", "<i8", "<u4", "<u8"), strict=True):
        arrays.append(np.frombuffer(data, kind, size, at).copy())  # aligned
        at += arrays[-1].nbytes
    *catalogue, digests = arrays
    return _Manifest(cursor, head["generation"], head["dimensions"], Catalogue(*catalogue), digests)


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _write_segment(path: Path, contents: Contents, dimensions: int) -> tuple[Catalogue, Digests]:
    digests: list[int] = []
    catalogue, blocks = contents.merged(block_rows(dimensions))
    with os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600), "wb"
    ) as file:
        file.write(header(contents.count, dimensions))
        for block in blocks:
            data = np.ascontiguousarray(block, "<f4").reshape(-1).view(np.uint8).data
            digests.append(xxhash.xxh3_64_intdigest(data))
            file.write(data)
        _kept(file)
    return catalogue, np.array(digests, np.uint64)


def _replace(path: Path, pieces: Iterator[bytes]) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=_SUFFIX)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(pieces)
            _kept(file)
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)
    sync_folder(path.parent)


def _kept(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _open_regular(path: Path) -> int:
    descriptor = os.open(path, _FLAGS)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise SegmentError("is no regular file")
    return descriptor


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Whether a file is ours alone, of all processes, for a while; on file systems without locks nothing is."""
    descriptor, alone = os.open(path, os.O_RDWR | os.O_CREAT, 0o600), True
    try:
        # Contract: an OS lock, which dies with its holder, on a file that is never renamed or removed. It is let go of by name:
        # a child that was forked meanwhile has the file open as long as it lives. `test_only_one_process_writes_at_a_time`,
        # `test_a_child_forked_during_a_merge_keeps_nobody_from_the_next`
        if fcntl is not None:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                alone = False
        yield alone
    finally:
        if alone and fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)
