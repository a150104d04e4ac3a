"""SQLite files: creating and opening them, and what protects them when a process forks.

SQLite's locks belong to a process and are not inherited; a forked child inherits SQLite's belief that it has them. One open
connection is enough: the child's connections to that file then write without locks, and the parent, closing, takes itself for
the last and removes the write-ahead log into which the child writes (sqlite.org/howtocorrupt.html, 2.7). So idle connections
are closed before a fork, and a file that is in use at that moment is not opened in the child.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import re
import sqlite3
import struct
import sys
import threading
import time
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import WeakSet

from sqlalchemy import StaticPool, create_engine, event
from sqlalchemy.exc import DisconnectionError

from langmem_adapter.errors import StorageError

if sys.platform == "linux":
    import fcntl

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine

Identity: TypeAlias = "tuple[int, int] | None"
"""Which file lies at a path: device and inode; `None` where there is none."""

LONGEST: Final = 2_147_483.0
"""Seconds, some 24 days: the longest wait that SQLite and Postgres can count in milliseconds."""
_NO_END: Final = int(LONGEST * 1000)
_PAUSE: Final = 0.02
_PRAGMAS: Final = ("synchronous=FULL", "foreign_keys=ON", "secure_delete=ON")

# Contract: opening, taking and closing a connection need the gate, and a fork has it until parent and child go on. So the child
# knows of every connection whether it was idle, hence closed, or in use. tests/test_forks.py.
_GATE: Final = threading.RLock()
_OPEN: Final[WeakSet[FileConnection]] = WeakSet()
_IN_USE: Final[list[FileConnection]] = []  # in use while the process forks
# Contract: what the child inherits in use is never closed there: SQLite would give back the parent's place in the log.
# `test_what_was_in_use_is_never_closed_in_the_child`, `test_a_file_that_was_in_use_is_not_opened_in_the_child`
# Nor is a connection closed here after its -shm was replaced (`FileConnection.close`).
_UNUSABLE: Final[list[tuple[FileConnection, str]]] = []
_FORKED: Final = (
    "this process was forked while its parent was using the file, and SQLite's locks do not survive that: what is written here "
    "could be lost. Fork when no call is running, or start processes with the method spawn or forkserver"
)
_REPLACED: Final = (
    "FILE-shm was replaced while the file was open in this process; end this process, then open the file again"
)
_LOST: Final = (
    "while it was open here, so the last write may be lost; close this memory, open it again and look. "
    "Never remove, shorten or copy over FILE-wal or FILE-shm while a program runs"
)
_UNSEEN: Final = (
    "the database is locked by a process that uses another FILE-wal or FILE-shm than the ones beside this file: they were "
    "removed while it ran, or it opened the file by another name; end that process, then open the file again"
)


class FileConnection(sqlite3.Connection):
    """A connection to an SQLite file that knows whether it is in use."""

    path = ""
    file: Identity = None
    log: Identity = None  # the write-ahead log
    shm: Identity = None  # the shared memory with the locks of the log
    descriptor: int | None = None  # SQLite's own of the shared memory, open as long as this connection
    lent = True  # in use
    _closed = False

    def loss(self, *, writes: bool = False) -> str:
        """Why what it writes may be lost: others do not see its log or its locks; empty where they do."""
        if self.shm != identity(f"{self.path}-shm"):
            return f"{self.path}: its shared memory (FILE-shm) was removed or replaced {_LOST}"
        if self.log != identity(f"{self.path}-wal"):
            return f"{self.path}: its write-ahead log was removed or replaced {_LOST}"
        return f"{self.path}: its write-ahead log was shortened {_LOST}" if writes and self._is_shortened() else ""

    def _is_shortened(self) -> bool:
        """Whether the log is shorter than what is committed in it."""
        if self.descriptor is None or identity(self.descriptor) != self.shm:
            return False
        # Contract: with the write lock, the page size and the number of frames in the -shm are those of the last writer
        # (https://www.sqlite.org/walformat.html#the_wal_index_header), and no checkpoint shortens the log meanwhile.
        # `test_add_is_refused_once_the_log_is_gone`
        page, frames = struct.unpack("=HI", os.pread(self.descriptor, 6, 14))
        committed: int = frames and 32 + frames * (24 + (page if page > 1 else 65_536))
        return os.stat(f"{self.path}-wal").st_size < committed  # noqa: PTH116 - see `identity`

    def is_replaced(self) -> bool:
        """Whether others use a new -shm."""
        return self.shm is not None and identity(f"{self.path}-shm") not in {None, self.shm}

    def take(self) -> bool:
        """Use it; not if a fork has closed it meanwhile."""
        with _GATE:
            self.lent = not self._closed
            return self.lent

    def give_back(self) -> None:
        self.lent = False

    def close(self) -> None:
        with _GATE:
            if self._closed:
                return
            self._closed, self.lent = True, False
            _OPEN.discard(self)
            # Contract: the last close copies the log into the file and removes the log. After the -shm was replaced, that log
            # also has what others wrote since. So the connection stays open until the process ends, and its lock on the file
            # keeps the log. `test_close_keeps_what_others_wrote_after_the_shm_was_replaced`
            if self.is_replaced():
                _UNUSABLE.append((self, _REPLACED))
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))  # the interpreter would close it at its end
                return
            # Contract: SQLite leaves the log of a file that was moved at the old path, where it would be read into the file
            # that lies there next; so it is emptied. `test_close_empties_the_log_of_a_file_that_was_moved`
            if self.file != identity(self.path):
                with suppress(sqlite3.Error):
                    self.executescript("PRAGMA busy_timeout=0; PRAGMA wal_checkpoint(TRUNCATE)")
            super().close()


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def identity(path: Path | str | int) -> Identity:
    """Which file lies at a path."""
    try:
        status = os.stat(path)  # noqa: PTH116 - several times per commit, and `Path` costs more than the call
    except OSError:
        return None
    return status.st_dev, status.st_ino


def open_file(path: Path, *, timeout: float) -> FileConnection:
    """Open a file, for any thread and without the driver's own transactions; a new file is readable by its user alone."""
    with _GATE:
        _make(path)
        file = identity(path)
        for unusable, reason in _UNUSABLE:
            if unusable.file == file:
                raise StorageError(f"{path}: {reason}")
        connection = sqlite3.connect(
            path, timeout=min(timeout, LONGEST), check_same_thread=False, isolation_level=None, factory=FileConnection
        )
        connection.path, connection.file = str(path), file
        _OPEN.add(connection)
    return connection


def open_wal(path: Path, *, timeout: float) -> FileConnection:
    """Open a database file: with a write-ahead log, durable, with deleted rows overwritten."""
    with suppress(OSError):  # SQLite says why it cannot be opened
        if path.exists() and not path.is_file():
            raise StorageError(
                f"{path}: this is a folder or a device; give the path of a file, such as FOLDER/memory.db"
            )
    refuse_links(path)
    _refuse_mount_point(path)
    end = time.monotonic() + timeout
    while True:
        # Contract: all connections of a process use the -shm that the first of them opened, whatever lies there now. So a
        # connection is used only if the others of its process have the -shm that it finds at the path.
        # `test_add_is_refused_once_the_shm_is_gone`
        others = _shms(path)
        if not others:
            _refuse_unseen_users(path, end)
            _refuse_log_of_another(path, end)
        connection = _open_log(path, timeout, end)
        if {connection.shm} == others | _shms(path):
            return connection
        connection.close()
        if time.monotonic() > end:
            raise StorageError(f"{path}: its shared memory (FILE-shm) was removed or replaced {_LOST}")
        time.sleep(_PAUSE)


def refuse_links(path: Path) -> None:
    """Raise a `StorageError` where a file has several names."""
    with suppress(OSError):  # SQLite says why it cannot be opened
        if (count := path.stat().st_nlink) > 1:
            raise StorageError(
                f"{path}: the file has {count} names (hard links), and SQLite keeps a log for each name, so writes by one name "
                "destroy those by another; remove the other names, and make copies with langmem-adapter backup"
            )


def sync_folder(folder: Path) -> None:
    """Wait until the disk has the names of the files in a folder."""
    if hasattr(os, "O_DIRECTORY"):  # where folders cannot be opened, the system keeps renames by itself
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _refuse_mount_point(path: Path) -> None:
    # Not `os.path.ismount`, which does not see a bind mount on the same file system.
    try:
        mounts = os.fsdecode(Path("/proc/self/mountinfo").read_bytes())
    except OSError:  # not Linux
        return
    # https://man7.org/linux/man-pages/man5/proc_pid_mountinfo.5.html
    points = re.findall(r"^(?:[^ \n]+ ){4}([^ \n]+)", mounts, re.MULTILINE)
    if str(path) in (re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), point) for point in points):
        raise StorageError(
            f"{path}: the file itself is a mount point, so FILE-wal and FILE-shm lie elsewhere than beside the mounted file; "
            "mount the folder"
        )


def _shms(path: Path) -> set[Identity]:
    """The shared memory that the connections of this process use; more than one is an error."""
    file = identity(path)
    with _GATE:
        return {connection.shm for connection in _OPEN if connection.shm is not None and connection.file == file}


def _refuse_unseen_users(path: Path, end: float) -> None:
    # Contract: a process that has the file open has a lock on it, a log and a -shm. Where one of these is missing, it uses
    # others than the ones that would be made now, and neither sees the other's writes. So the file must be free for a moment.
    # `test_two_processes_lose_nothing_that_add_acknowledged`
    while not (identity(f"{path}-wal") and identity(f"{path}-shm")):
        with closing(open_file(path, timeout=0)) as lone:
            try:
                lone.execute("PRAGMA locking_mode=EXCLUSIVE")  # needs no -shm
                lone.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorname == "SQLITE_IOERR_LOCK":  # the file can only be read
                    return
                if "locked" not in str(error):
                    raise
            else:
                return
        if time.monotonic() > end:  # until then, it may be opening or closing
            raise StorageError(f"{path}: {_UNSEEN}", transient=True)
        time.sleep(_PAUSE)


def _refuse_log_of_another(path: Path, end: float) -> None:
    # Contract: a user of a -shm has a lock on its file. Without one at this path, the log beside it is that of a file
    # that was here before, and would be read into this one. `test_a_backup_is_not_opened_with_the_log_of_the_file_before`
    # https://www.sqlite.org/walformat.html#wal_locks https://www.sqlite.org/lockingv3.html
    while _is_locked(f"{path}-shm", 128, 1) and not _is_locked(str(path), 0x4000_0002, 510):
        if time.monotonic() > end:
            advice = "are in use with another file, which this one replaced; close that program, and remove them if they stay"
            raise StorageError(f"{path}: FILE-wal and FILE-shm {advice}", transient=True)
        time.sleep(_PAUSE)


def _is_locked(path: str, start: int, length: int) -> bool:
    """Whether a connection, also one of this process, has a lock on these bytes."""
    with ExitStack() as undo, suppress(OSError):
        if sys.platform == "linux" and (file := identity(path)) is not None:
            # Contract: closing a file ends all locks of this process on it. `test_open_wal_keeps_locks_of_this_process`
            if (descriptor := _descriptor(file)) is None:
                undo.callback(os.close, descriptor := os.open(path, os.O_RDONLY))
            lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
            kind: int = struct.unpack_from("h", fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, lock))[0]
            return kind != fcntl.F_UNLCK
    return False


def _descriptor(file: Identity) -> int | None:
    """A descriptor by which this process has a file open; `None` where it has none, or on other systems than Linux."""
    with suppress(OSError):
        return next((int(each.name) for each in Path("/proc/self/fd").iterdir() if identity(each) == file), None)
    return None


def _open_log(path: Path, timeout: float, end: float) -> FileConnection:
    with ExitStack() as undo:
        connection = undo.enter_context(closing(open_file(path, timeout=timeout)))
        _to_wal(connection, end)
        _set_up(connection)
        connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()  # opens the log and the -shm
        connection.log, connection.shm = identity(f"{path}-wal"), identity(f"{path}-shm")
        connection.descriptor = _descriptor(connection.shm)
        undo.pop_all()
    return connection


def _make(path: Path) -> None:
    # SQLite gives the file the mode of the umask, and the log that of the file: other users of the machine could read them.
    # Contract: a file that exists is never opened here, since closing any descriptor of it ends all locks that this process
    # has on it; hence O_EXCL. SQLite reports why a file cannot be created. tests/storage/test_sqlite.py.
    with suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _to_wal(connection: sqlite3.Connection, end: float) -> None:
    # Contract: SQLite does not wait here: while another process recovers the log of a killed one, or closes it, this fails at
    # once; so it is tried again. `test_prepare_by_six_processes_at_once`
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(_PAUSE)
        else:
            return


# ── engines ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def create(url: URL, path: Path | None, *, timeout: float) -> Engine:
    """An engine with our pragmas. Its connections wait *timeout* seconds for others; *path* is `None` in memory."""
    if path is None:
        arguments = {"check_same_thread": False, "isolation_level": None}
        engine = create_engine(url, connect_args=arguments, poolclass=StaticPool, hide_parameters=True)
        event.listen(engine, "connect", _set_up)
    else:
        opener = partial(open_wal, path, timeout=timeout)
        engine = create_engine(url, creator=opener, pool_size=16, max_overflow=64, hide_parameters=True)
        event.listen(engine, "checkout", _take)
        event.listen(engine, "checkin", _give_back)
    event.listen(engine, "begin", _begin)
    return engine


def _set_up(connection: Any, *_: object) -> None:
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")


def _take(connection: Any, *_: object) -> None:
    if not connection.take():
        raise DisconnectionError


def _give_back(connection: Any, _: object) -> None:
    if connection is not None:  # it was not invalidated
        connection.give_back()


def _begin(connection: Connection) -> None:
    # Contract: the driver's own transaction handling is off, since it begins too late and commits around DDL: a block reads one
    # state. `test_search_goes_on_beside_a_half_transaction`
    options = connection.get_execution_options()
    with closing(connection.connection.cursor()) as cursor, ExitStack() as undo:
        if (waits := options.get("sqlite_waits")) is not None:  # milliseconds of this transaction, and of any other
            cursor.execute(f"PRAGMA busy_timeout = {waits[0] or _NO_END}")
            undo.callback(cursor.execute, f"PRAGMA busy_timeout = {waits[1] or _NO_END}")
        cursor.execute(f"BEGIN {options.get('sqlite_begin', 'DEFERRED')}")


# ── forks ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _before_fork() -> None:
    _GATE.acquire()
    for connection in list(_OPEN):
        if connection.lent:
            _IN_USE.append(connection)
        else:
            connection.close()


def _in_parent() -> None:
    _IN_USE.clear()
    _GATE.release()


def _in_child() -> None:
    _UNUSABLE.extend((connection, _FORKED) for connection in _IN_USE)
    _OPEN.clear()
    _in_parent()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)


@atexit.register
def _at_exit() -> None:
    # Many programs never close their memory, and the interpreter closes connections without calling `close`.
    for connection in list(_OPEN):
        if connection.is_replaced() or connection.file != identity(connection.path):
            connection.close()
