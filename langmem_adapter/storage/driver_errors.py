"""What the drivers raise, as errors of ours that say what to do."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from langmem_adapter.addresses import cleaned
from langmem_adapter.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["translated"]

_HINTS: Final = {
    "database is locked": "another process holds the write lock; raise the setting busy_timeout or look who it is",
    "database or disk is full": "free some space; nothing was written",
    "readonly database": "the file or its folder is not writable for this user; SQLite needs both",
    "unable to open database file": "the folder does not exist or may not be entered by this user",
    "file is not a database": "this file is no SQLite database; give another path",
    "disk image is malformed": "the file is damaged; restore a backup",
    # The write stands in the WAL and was not synced: a process that opens the file after a crash takes it for committed.
    "disk I/O error": "the disk failed; should the process die before its next write, this one may still come true: look first",
}

_TRANSIENT: Final = ("database is locked", "deadlock detected", "could not serialize", "server closed the connection")


@contextmanager
def translated(location: str) -> Iterator[None]:
    """Turn the driver's errors into `StorageError`s that say what to do; our own errors pass unchanged."""
    try:
        yield
    except DBAPIError as error:
        raise _storage_error(location, str(error.orig), lost=error.connection_invalidated) from error
    except sqlite3.Error as error:
        raise _storage_error(location, str(error)) from error
    except SQLAlchemyError as error:
        raise _storage_error(location, str(error)) from error


def _storage_error(location: str, message: str, *, lost: bool = False) -> StorageError:
    hint = next((hint for sign, hint in _HINTS.items() if sign in message), None)
    transient = lost or any(sign in message for sign in _TRANSIENT)
    told = cleaned(message.strip())
    return StorageError(f"{location}: {told}{f' ({hint})' if hint else ''}", transient=transient)
