"""A vector index in one file, so that a large one need not be read out of the database at every start.

    magic 8 bytes | version u32 | length of the header u32 | header (JSON) | pks int64 | scopes int64 | vectors float32 |
    newest change i64 | its nonce 8 bytes | XXH3-128 of everything before, 16 bytes                  (all little-endian)

FAISS' own format is not used: its reader takes flipped bits for data, and crafted files have crashed it. The checksum finds
damage, not malice; whether the content belongs to a database is told by the nonce of the change that it goes up to, which
stands in that database alone. A snapshot is only a copy: whoever cannot load it rebuilds.

Rows are sorted by scope, so that a loaded index reads a scope as one block. The index may change while it is written down:
every change after the one in the label is applied again after loading, whatever of it the file already shows, and the row of
a memory that went meanwhile holds NaN and is left out (the fuzzy checkpoint of databases; Mohan et al. 1992). Hence the newest
change that a row may show: a backup restored from in between does not know it, and the file is then of no use.
"""

from __future__ import annotations

import json
import os
import re
import stat
import struct
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Self

import numpy as np
import xxhash

from langmem_adapter.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from langmem_adapter.index.base import Pks, VectorIndex, Vectors

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows refuses to remove a file that is open, which serves as well
    fcntl = None  # type: ignore[assignment]

__all__ = ["Draft", "Label", "Snapshot", "SnapshotError", "erase", "load", "save", "snapshot_path", "sweep"]

_MAGIC: Final = b"LMAINDEX"
_VERSION: Final = 2
_START: Final = struct.Struct("<8sII")
_END: Final = struct.Struct("<q8s")
_DIGEST: Final = 16
_LONGEST_HEADER: Final = 65_536
_MOST_DIMENSIONS: Final = 1_000_000
_NONCE: Final = 8
_CHUNK: Final = 4096  # rows written in one go
_PIECE: Final = 1 << 20  # bytes read in one go
_SUFFIX: Final = ".tmp"
_PAUSE: Final = 0.05  # seconds
# Never through a link, never waiting for a pipe's other end; the flags that a platform lacks are 0.
_FLAGS: Final = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))


class SnapshotError(StorageError):
    """A snapshot is damaged, of another version, or belongs to other embeddings; the index must be rebuilt."""


@dataclass(frozen=True, slots=True)
class Label:
    """A state of the database that an index was made from.

    Attributes:
        fingerprint: Of the embedding model.
        applied: Number of the last change that is contained for certain, at least 1.
        nonce: That change's nonce, 8 bytes.
    """

    fingerprint: str
    applied: int
    nonce: bytes


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """What a snapshot holds.

    Attributes:
        label: What it was made from.
        newest: The last change that a row may already show, the label's own or a later one.
        pks: Shape (n,).
        scopes: Shape (n,).
        vectors: Shape (n, dimensions).
    """

    label: Label
    newest: Label
    pks: Pks
    scopes: Pks
    vectors: Vectors


def snapshot_path(database: Path, fingerprint: str) -> Path:
    """Where the snapshot of an SQLite file lies: beside it, one for each embedding model.

    Example:
        >>> from pathlib import Path
        >>> snapshot_path(Path("memory.db"), "hash:512").name
        'memory.db.ac859cc6fbd99e77.index'
    """
    return database.with_name(f"{database.name}.{xxhash.xxh3_64_hexdigest(fingerprint.encode())}.index")


# ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Draft:
    """A snapshot being written: whole, or not at all.

    `write` ends in the system's memory, `publish` waits for the disk; searches and changes go on during both.

    Args:
        path: The file; a previous one is replaced in one step.

    Raises:
        OSError: From every method: the disk is full, the folder is missing or may not be written, and so on. The previous
            file is untouched, and nothing else is left behind.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Self:
        """Open a temporary file beside the target, for this user only."""
        descriptor, self._name = tempfile.mkstemp(dir=self._path.parent, prefix=_prefix(self._path), suffix=_SUFFIX)
        self._file = os.fdopen(descriptor, "wb")
        self._digest = xxhash.xxh3_128()
        _lock(descriptor)  # tells `sweep` that its writer lives
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the temporary file if it did not become the snapshot."""
        try:
            self._file.close()
        finally:
            with suppress(FileNotFoundError):
                os.unlink(self._name)  # noqa: PTH108 - mkstemp speaks in names

    def write(self, index: VectorIndex, label: Label) -> None:
        """Write everything down. *label* must tell no later change than the index contained when this was called."""
        pks = index.pks()
        scopes = index.scopes_of(pks)
        order = np.argsort(scopes, kind="stable")
        pks = pks[order]
        header = json.dumps(_header(label, len(pks), index.dimensions)).encode()
        self._put(_START.pack(_MAGIC, _VERSION, len(header)))
        self._put(header)
        self._put(_bytes(pks.astype("<i8", copy=False)))
        self._put(_bytes(scopes[order].astype("<i8", copy=False)))
        for start in range(0, len(pks), _CHUNK):
            self._put(_bytes(index.vectors(pks[start : start + _CHUNK]).astype("<f4", copy=False)))

    def publish(self, newest: Label) -> None:
        """Make it the snapshot, also through a power loss. *newest* is the last change that the index contained till now."""
        self._put(_END.pack(newest.applied, newest.nonce))
        self._file.write(self._digest.digest())
        self._file.flush()
        os.fsync(self._file.fileno())
        os.replace(self._name, self._path)  # noqa: PTH105 - mkstemp speaks in names
        _sync_folder(self._path.parent)

    def _put(self, part: bytes | memoryview) -> None:
        self._digest.update(part)
        self._file.write(part)


def save(path: Path, index: VectorIndex, label: Label) -> None:
    """Write a snapshot of an index that stands still.

    Raises:
        OSError: See `Draft`.
    """
    with Draft(path) as draft:
        draft.write(index, label)
        draft.publish(label)


def _header(label: Label, count: int, dimensions: int) -> dict[str, Any]:
    return {
        "fingerprint": label.fingerprint,
        "applied": label.applied,
        "nonce": label.nonce.hex(),
        "count": count,
        "dimensions": dimensions,
    }


def _sync_folder(folder: Path) -> None:
    if hasattr(os, "O_DIRECTORY"):  # where folders cannot be opened, the system keeps renames by itself
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sweep(path: Path) -> int:
    """Remove what writers of *path* left behind when they were killed.

    Returns:
        How many files.

    Raises:
        OSError: The folder cannot be read or written.
    """
    left = [p for p in path.parent.iterdir() if p.name.startswith(_prefix(path)) and p.name.endswith(_SUFFIX)]
    return sum(_remove_orphan(file) for file in left)


def erase(database: Path, *, patience: float = 5.0) -> tuple[int, int]:
    """Remove every snapshot of an SQLite file, of whatever embedding model, and what is left of unfinished ones.

    Args:
        database: The SQLite file.
        patience: Seconds to wait for snapshots that are being written, or cannot be removed at the moment.

    Returns:
        How many files were removed, and how many are left.

    Raises:
        OSError: The folder cannot be read.
    """
    removed, end = 0, time.monotonic() + patience
    while True:
        done, drafts = _snapshots_of(database)
        gone = [_gone(partial(file.unlink, missing_ok=True)) for file in done]
        gone += [_gone(partial(_remove_orphan, file)) for file in drafts]
        removed += sum(gone)
        if all(gone) or time.monotonic() > end:
            return removed, gone.count(False)
        time.sleep(_PAUSE)


def _gone(remove: Callable[[], bool | None]) -> bool:
    try:
        return remove() is not False
    except OSError:  # the others can go all the same
        return False


def _snapshots_of(database: Path) -> tuple[list[Path], list[Path]]:
    name = re.escape(database.name)
    files = list(database.parent.iterdir())
    done = [file for file in files if re.fullmatch(rf"{name}\.[0-9a-f]{{16}}\.index", file.name)]
    drafts = [file for file in files if re.fullmatch(rf"\.{name}\.[0-9a-f]{{16}}\.index\..*\{_SUFFIX}", file.name)]
    return done, drafts


def _remove_orphan(path: Path) -> bool:
    try:
        descriptor = os.open(path, _FLAGS)
    except FileNotFoundError:  # its writer has just finished
        return False
    try:
        if not _lock(descriptor):
            return False
        path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)
    return True


def _lock(descriptor: int) -> bool:
    """Whether the file is ours alone until it is closed; on file systems without locks nothing is."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _prefix(path: Path) -> str:
    return f".{path.name}."


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def load(path: Path, fingerprint: str) -> Snapshot | None:
    """Read a snapshot; `None` where there is none.

    Args:
        path: The file; links are not followed.
        fingerprint: Of the embedding model in use.

    Raises:
        SnapshotError: It cannot be read, is damaged, or was made with another embedding model.
    """
    try:
        with _opened(path) as (file, size):
            return _read(file, size, fingerprint)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SnapshotError(f"{path}: {error.strerror}") from error
    except SnapshotError as error:
        raise SnapshotError(f"{path}: {error}") from None


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, int]]:
    with open(path, "rb", opener=_open) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise SnapshotError("is no regular file")
        yield file, status.st_size


def _open(path: str, _: int) -> int:
    return os.open(path, _FLAGS)


def _read(file: BinaryIO, size: int, fingerprint: str) -> Snapshot:
    digest = xxhash.xxh3_128()
    start = _exactly(file, _START.size)
    magic, version, length = _START.unpack(start)
    if magic != _MAGIC or version != _VERSION or length > _LONGEST_HEADER:
        raise SnapshotError("is no index snapshot of this version")
    header = _exactly(file, length)
    digest.update(start + header)
    label, count, dimensions = _parsed(header)
    # Nothing is allocated on a file's word: the bytes must be there.
    if size != _START.size + length + count * (8 + 8 + 4 * dimensions) + _END.size + _DIGEST:
        raise SnapshotError("has another size than it says: cut off, or something was added")
    if label.fingerprint != fingerprint:
        raise SnapshotError(f"was made with the embeddings {label.fingerprint!r}, in use are {fingerprint!r}")
    pks, scopes = np.empty(count, "<i8"), np.empty(count, "<i8")
    vectors = np.empty((count, dimensions), "<f4")
    for array in (pks, scopes, vectors):
        _fill(file, array, digest)
    end = _exactly(file, _END.size)
    digest.update(end)
    if _exactly(file, _DIGEST) != digest.digest():
        raise SnapshotError("is damaged: the checksum differs")
    return _without_gone(
        Snapshot(
            label,
            _newest(label, *_END.unpack(end)),
            pks.astype(np.int64, copy=False),
            scopes.astype(np.int64, copy=False),
            vectors.astype(np.float32, copy=False),
        )
    )


def _newest(label: Label, applied: int, nonce: bytes) -> Label:
    if applied < label.applied:
        raise SnapshotError("has an impossible end")
    return Label(label.fingerprint, applied, nonce)


def _without_gone(snapshot: Snapshot) -> Snapshot:
    """Leave out memories that went while the snapshot was written; an index holds neither NaN nor a scope below 0."""
    gone = (snapshot.scopes < 0) | np.isnan(snapshot.vectors[:, 0])
    if not gone.any():
        return snapshot
    rows = (snapshot.pks[~gone], snapshot.scopes[~gone], snapshot.vectors[~gone])
    return Snapshot(snapshot.label, snapshot.newest, *rows)


def _exactly(file: BinaryIO, length: int) -> bytes:
    data = file.read(length)
    if len(data) != length:
        raise SnapshotError("is cut off")
    return data


def _fill(file: BinaryIO, array: NDArray[Any], digest: xxhash.xxh3_128) -> None:
    # Each piece is checked while it is still in the processor's cache.
    whole = _bytes(array)
    for start in range(0, len(whole), _PIECE):
        piece = whole[start : start + _PIECE]
        if file.readinto(piece) != len(piece):  # type: ignore[attr-defined]  # missing in typing's BinaryIO
            raise SnapshotError("is cut off")
        digest.update(piece)


def _bytes(array: NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _parsed(header: bytes) -> tuple[Label, int, int]:
    try:
        data = json.loads(header)
        label = Label(data["fingerprint"], data["applied"], bytes.fromhex(data["nonce"]))
        count, dimensions = data["count"], data["dimensions"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise SnapshotError("has an unreadable header") from None
    numbers = ((label.applied, 1), (count, 0), (dimensions, 1))
    if any(type(number) is not int or number < least for number, least in numbers):
        raise SnapshotError("has an impossible header")
    if not isinstance(label.fingerprint, str) or len(label.nonce) != _NONCE or dimensions > _MOST_DIMENSIONS:
        raise SnapshotError("has an impossible header")
    return label, count, dimensions
