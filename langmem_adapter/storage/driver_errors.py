"""What the drivers raise, as errors of ours that say what to do."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError

from langmem_adapter.addresses import cleaned
from langmem_adapter.errors import UNUSABLE, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["translated"]

_HELD: Final = "another process holds the write lock; raise the setting busy_timeout or look who it is"
_NOT_OPENED: Final = "the folder is missing or may not be entered, the file may not be read, or too many files are open"
_HINTS: Final = {
    "database is locked": _HELD,
    "database or disk is full": "free some space; nothing was written",
    "readonly database": "the file or its folder is not writable for this user; SQLite needs both",
    "unable to open database file": _NOT_OPENED,
    "file is not a database": "this file is no SQLite database; give another path",
    "disk image is malformed": "the file is damaged; restore a backup",
    # The write stands in the WAL and was not synced: a process that opens the file after a crash takes it for committed.
    "disk I/O error": "the disk failed; should the process die before its next write, this one may still come true: look first",
}
_LOST: Final = "the database broke this off, or does not answer; try again in a moment"
_TRANSIENT: Final = ("database is locked",)

# Of Postgres, whose texts come in the server's language: https://www.postgresql.org/docs/current/errcodes-appendix.html
_LOCK_TIMEOUT: Final = "55P03"
_PASSING: Final = ("08", "40", "53300", _LOCK_TIMEOUT, "57P01", "57P02", "57P03", "57P05")
# Whom the server turned away has no code, only this word; and these will be let in in a moment.
_REFUSED: Final = "FATAL:"
_NOT_YET: Final = (
    "starting up",
    "shutting down",
    "recovery mode",
    "not yet accepting",
    "too many",
    "terminating connection",
)
_RECONNECT: Final = "8s2b"  # SQLAlchemy's code for a statement that came after the connection was lost


@contextmanager
def translated(location: str) -> Iterator[None]:
    """Turn the driver's errors into `StorageError`s that say what to do; our own errors pass unchanged."""
    try:
        yield
    except DBAPIError as error:
        passing = error.connection_invalidated or _is_passing(error)
        held = getattr(error.orig, "sqlstate", None) == _LOCK_TIMEOUT
        raise _storage_error(location, str(error.orig), passing=passing, hint=_HELD if held else None) from error
    except sqlite3.Error as error:
        raise _storage_error(location, str(error)) from error
    except SQLAlchemyError as error:
        raise _storage_error(location, str(error), passing=error.code == _RECONNECT) from error


def _is_passing(error: DBAPIError) -> bool:
    state: str | None = getattr(error.orig, "sqlstate", None)
    if state is not None:
        return state.startswith(_PASSING)
    lost, told = isinstance(error, OperationalError) and hasattr(error.orig, "sqlstate"), str(error.orig)
    return lost and (_REFUSED not in told or any(sign in told for sign in _NOT_YET))


def _storage_error(location: str, message: str, *, passing: bool = False, hint: str | None = None) -> StorageError:
    sign = next((sign for sign in _HINTS if sign in message), None)
    hint = hint or _HINTS.get(sign or "")
    transient = passing or any(sign in message for sign in _TRANSIENT)
    end = f" ({hint})" if hint else ""
    brief = f"{sign or 'the database is locked'}{end}" if hint else _LOST if transient else UNUSABLE
    return StorageError(f"{location}: {cleaned(message.strip())}{end}", transient=transient, brief=brief)
