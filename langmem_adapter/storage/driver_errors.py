"""What the drivers raise, as errors of ours that say what to do."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError, StatementError

from langmem_adapter.addresses import cleaned
from langmem_adapter.errors import UNUSABLE, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LOCK_TIMEOUT", "translated", "without_rows"]

_HELD: Final = "another process holds the write lock; raise the setting busy_timeout or look who it is"
_POOL: Final = (
    "a pooler such as PgBouncer in transaction mode does not keep prepared statements: add ?prepare_threshold=None to the URL, "
    "or set prepare_threshold to none; an Engine takes connect_args={'prepare_threshold': None}"
)
_MANY: Final = (
    "the server or this role has no connection left: lower the settings pool_size and max_overflow, so that calls wait for one "
    "another, or allow more connections there"
)
_NOT_OPENED: Final = "the folder is missing or may not be entered, the file may not be read, or too many files are open"
_UTF8: Final = "the database cannot hold this text: make one with ENCODING 'UTF8'"
_COPY: Final = (
    "a standby, or set so: add ?target_session_attrs=read-write to the URL, or see default_transaction_read_only"
)
_RIGHTS: Final = (
    "let an owner GRANT this role what it lacks: SELECT, INSERT, UPDATE and DELETE on the tables, USAGE on sequences and the "
    "schema, CREATE where tables are made or changed; or see the policies of row-level security"
)
_SCHEMA: Final = "search_path names no schema that exists: CREATE SCHEMA, or ALTER ROLE … SET search_path"
_ENDED: Final = "statement_timeout or an administrator ended it: ALTER ROLE … SET statement_timeout gives more time"
_HINTS: Final = {
    "database is locked": _HELD,
    "database or disk is full": "free some space; nothing was written",
    "readonly database": "the file or its folder is not writable for this user; SQLite needs both",
    "unable to open database file": _NOT_OPENED,
    "file is not a database": "this file is no SQLite database; give another path",
    "disk image is malformed": "the file is damaged; restore a backup",
    # The write stands in the WAL and was not synced: a process that opens the file after a crash takes it for committed.
    "disk I/O error": "the disk failed; should the process die before its next write, this one may still come true: look first",
    "QueuePool limit": "on Postgres raise the settings pool_size, max_overflow or pool_timeout, or make fewer calls at once",
    "invalid connection option": "libpq has no such parameter; pool_size, max_overflow and pool_timeout are settings",
    "too many connections": _MANY,
    "too many clients": _MANY,
    "remaining connection slots": _MANY,
    "no more connections allowed": _MANY,
    # Of PgBouncer, which speaks English alone.
    "unsupported startup parameter": "a pooler refuses what the URL asks for: leave it out and let ALTER ROLE … SET do it, or "
    "let PgBouncer pass it over (ignore_startup_parameters)",
    "statement pooling mode": "transactions are needed: set PgBouncer's pool_mode to transaction",
}
_LOST: Final = "the database broke this off, or does not answer; try again in a moment"
# PgBouncer's code for these is a lost connection.
_SETTINGS: Final = ("unsupported startup parameter", "statement pooling mode")
_POOL_EXHAUSTED: Final = "3o7r"  # SQLAlchemy's code for a call that got no connection of its pool

# Of Postgres, whose texts come in the server's language: https://www.postgresql.org/docs/current/errcodes-appendix.html
LOCK_TIMEOUT: Final = "55P03"
"""SQLSTATE of a lock that was not to be had in time."""
_PASSING: Final = ("08", "40", "53300", LOCK_TIMEOUT, "57P01", "57P02", "57P03", "57P05")
_STATES: Final = {LOCK_TIMEOUT: _HELD, "53300": _MANY, "22P05": _UTF8, "25006": _COPY, "26000": _POOL, "42P05": _POOL}
_STATES.update({"42501": _RIGHTS, "3F000": _SCHEMA, "57014": _ENDED})
# Whom the server turned away has no code, only this word; and these will be let in in a moment.
_REFUSED: Final = "FATAL:"
_NOT_YET: Final = (
    "starting up",
    "shutting down",
    "recovery mode",
    "not yet accepting",
    "too many",
    "connection slots",
    "no more connections",
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
        hint = _STATES.get(getattr(error.orig, "sqlstate", None) or "")
        raise _storage_error(location, without_rows(error), passing=passing, hint=hint) from error
    except sqlite3.Error as error:
        raise _storage_error(location, str(error)) from error
    except SQLAlchemyError as error:
        passing = error.code in {_RECONNECT, _POOL_EXHAUSTED}
        raise _storage_error(location, without_rows(error), passing=passing) from error


def without_rows(error: BaseException) -> str:
    """A driver's error as text, which names no value of a row; so does a traceback of it from then on.

    Postgres quotes rows in the fields DETAIL and CONTEXT, also those of other tenants, and SQLAlchemy the parameters.
    """
    link: BaseException | None = error
    while link is not None:
        if isinstance(link, StatementError):
            link.params = None
        else:
            link.__dict__.pop("detail", None)  # of asyncpg, which vector stores make use of
        primary = getattr(getattr(getattr(link, "orig", link), "diag", None), "message_primary", None)
        if link.args and isinstance(link.args[0], str):
            link.args = (primary or link.args[0].partition("\nDETAIL:")[0], *link.args[1:])
        link = link.__cause__ or link.__context__
    if isinstance(error, DBAPIError):
        return str(error.orig)
    return str(error.args[0] if isinstance(error, StatementError) else error)


def _is_passing(error: DBAPIError) -> bool:
    state: str | None = getattr(error.orig, "sqlstate", None)
    if state is not None:
        return state.startswith(_PASSING)
    lost, told = isinstance(error, OperationalError) and hasattr(error.orig, "sqlstate"), str(error.orig)
    return lost and (_REFUSED not in told or any(sign in told for sign in _NOT_YET))


def _storage_error(location: str, message: str, *, passing: bool = False, hint: str | None = None) -> StorageError:
    sign = next((sign for sign in _HINTS if sign in message), None)
    hint = hint or _HINTS.get(sign or "")
    transient = sign not in _SETTINGS and (passing or sign == "database is locked")
    end = f" ({hint})" if hint else ""
    waited = hint == _HELD
    brief = f"{sign or 'the database is locked'}{end}" if waited or sign else _LOST if transient else UNUSABLE
    return StorageError(f"{location}: {cleaned(message.strip())}{end}", transient=transient, waited=waited, brief=brief)
