"""Faults that the kernel makes for us: refused system calls, a small disk, a lost privilege. Linux, no compiler, no tool.

`refuse` puts a seccomp filter on one thread: what that thread asks of the kernel fails with the error of our choice, as on a
broken or full disk, while the other threads of the same process go on. A filter cannot be taken off, it ends with its thread.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import signal
import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

__all__ = ["SYNCS", "WRITES", "bind_mount", "die_with_parent", "obey_modes", "small_disk", "under_faults"]

T = TypeVar("T")

WRITES: Final = ("write", "pwrite64", "pwritev", "ftruncate", "fallocate")
SYNCS: Final = ("fsync", "fdatasync")

_NUMBERS: Final = {
    "x86_64": dict(write=1, pwrite64=18, fsync=74, fdatasync=75, ftruncate=77, fallocate=285, pwritev=296),  # noqa: C408
    "aarch64": dict(write=64, pwrite64=68, fsync=82, fdatasync=83, ftruncate=46, fallocate=47, pwritev=70),  # noqa: C408
}
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 1, 38, 22, 2
_LOAD, _IF_EQUAL, _IF_ABOVE, _RETURN = 0x20, 0x15, 0x25, 0x06  # BPF
_CALL, _FIRST_ARGUMENT = 0, 16  # where they stand in struct seccomp_data
_REFUSED, _ALLOWED = 0x00050000, 0x7FFF0000
_STANDARD_ERROR: Final = 2
_NEW_MOUNTS, _PRIVATE, _RECURSIVE, _BIND = 0x00020000, 1 << 18, 1 << 14, 1 << 12
_CAPABILITIES_VERSION: Final = 0x20080522
_BYPASS_MODES: Final = 0b110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH


def under_faults(calls: Sequence[str], number: int, work: Callable[[], T]) -> T:
    """Run *work* in a thread whose system calls fail.

    Args:
        calls: Their names, of `WRITES` and `SYNCS`; standard output and error still work.
        number: What they fail with, an `errno`.
        work: Any function.

    Returns:
        What *work* returned.
    """
    with ThreadPoolExecutor(1, initializer=_refuse, initargs=(calls, number)) as thread:
        return thread.submit(work).result()


def _refuse(calls: Sequence[str], number: int) -> None:
    numbers = _NUMBERS[platform.machine()]
    code = [_step(_LOAD, _FIRST_ARGUMENT), _step(_IF_ABOVE, _STANDARD_ERROR, otherwise=2 * len(calls) + 1)]
    code.append(_step(_LOAD, _CALL))
    for name in calls:
        code += [_step(_IF_EQUAL, numbers[name], otherwise=1), _step(_RETURN, _REFUSED | number)]
    code.append(_step(_RETURN, _ALLOWED))
    program = ctypes.create_string_buffer(b"".join(code))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    _checked(_LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    pointer = Program(len(code), ctypes.cast(program, ctypes.c_void_p))
    _checked(_LIBC.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(pointer)))


def _step(code: int, value: int, otherwise: int = 0) -> bytes:
    return struct.pack("HBBI", code, 0, otherwise, value)


def die_with_parent(parent: int) -> None:
    """Have this process killed when its parent, of that number, dies, also if it stands still then or the parent is dead."""
    if sys.platform == "linux":
        _checked(_LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
        if os.getppid() != parent:  # nobody tells of a death that came before
            os.kill(os.getpid(), signal.SIGKILL)


def small_disk(folder: Path, size: int) -> Callable[[], None]:
    """Give this process a disk of *size* bytes at *folder*, half of it taken; it vanishes with the process.

    Where mounting is not allowed, no file may become larger than half of that: SQLite then reports an I/O error.

    Returns:
        What gives the other half back.
    """
    try:
        _mount(folder, size)
    except PermissionError:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, resource.RLIM_INFINITY))
        return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    ballast = folder / "ballast"
    ballast.write_bytes(bytes(size // 2))
    return ballast.unlink


def bind_mount(source: Path, target: Path) -> None:
    """Show a file or folder at another place too, for this process alone.

    Raises:
        PermissionError: Mounting is not allowed.
    """
    _own_mounts()
    _checked(_LIBC.mount(os.fsencode(source), os.fsencode(target), None, _BIND, None))


def _mount(folder: Path, size: int) -> None:
    _own_mounts()
    _checked(_LIBC.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, f"size={size}".encode()))


def _own_mounts() -> None:
    _checked(_LIBC.unshare(_NEW_MOUNTS))
    _checked(_LIBC.mount(b"none", b"/", None, _PRIVATE | _RECURSIVE, None))


def obey_modes() -> None:
    """Make files and folders without write permission read-only for this thread, also if it is root's."""

    class Header(ctypes.Structure):
        _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))

    class Sets(ctypes.Structure):
        _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))

    header, sets = Header(_CAPABILITIES_VERSION, 0), (Sets * 2)()
    _checked(_LIBC.capget(ctypes.byref(header), sets))
    sets[0].effective &= ~_BYPASS_MODES
    _checked(_LIBC.capset(ctypes.byref(header), sets))


def _checked(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        kind = PermissionError if number in {errno.EPERM, errno.EACCES} else OSError
        raise kind(number, os.strerror(number))
