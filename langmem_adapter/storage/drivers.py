"""Database URLs, and the errors of database drivers as typed errors."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import URL, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError, SQLAlchemyError, StatementError

from langmem_adapter.errors import UNUSABLE, InvalidInputError, StorageError
from langmem_adapter.records.checks import ENCODING_HINT, SCHEMES, check_text, quoted, redact_url, redact_urls

if TYPE_CHECKING:
    from collections.abc import Iterator

UNREADABLE: Final = (
    "not a database URL; write it like sqlite:///folder/memory.db or postgresql+psycopg://user:password@host:5432/name, "
    f"{ENCODING_HINT}"
)
SQLITE_HEADER: Final = b"SQLite format 3\0"
"""What a file of SQLite begins with."""
_SQLITE: Final = ("sqlite", "sqlite+pysqlite")
_ASYNC: Final = "for asyncio alone; write postgresql+psycopg://…, which the async methods use as well"
_ASYNC_DRIVERS: Final = ("aiopg", "asyncpg", "psycopg_async")
# What psycopg takes beside the parameters of libpq; from a URL it would come as text.
_NO_PARAMETERS: Final = frozenset(("autocommit", "context", "cursor_factory", "row_factory"))
# Where half a password would be taken for something else: SQLAlchemy sees another @ behind the password, or a query in it.
_AMBIGUOUS: Final = re.compile(r"[\w+]+://(?:(?>[^:/]*(?::[^@]*)?@).*@|[^:/]*:[^@]*\?[^@]*=[^@]*@)", re.DOTALL)
_CONNINFO: Final = re.compile(r"^(?!\S+://).*\b(?:host|dbname|password)=")  # libpq's own form, no file of that name
# Of a URL without its slashes a folder or a file would be made, named like the password.
_NO_URL: Final = re.compile(rf"\s*+(?:(?!file:){SCHEMES}|(?://)?[^/\\:@]*+:[^/\\@]*+@)")
_MODEL: Final = re.compile(r"[a-z_]{2,}:[^/\\]")  # as LangChain names models: PROVIDER:MODEL


def url_of(where: str | Path | URL | Engine) -> URL:
    """The URL of a database: a path (SQLite), `":memory:"`, a URL as text or SQLAlchemy's own, or an `Engine` for Postgres.

    Where a name cannot be told apart from its password, the error shows nothing of it.
    """
    if isinstance(where, Mapping):
        raise InvalidInputError("a mapping is no database; Mem0's configurations are for langmem_adapter.adapters.mem0")
    if getattr(getattr(where, "dialect", None), "is_async", False):
        raise InvalidInputError(f"this Engine is {_ASYNC}")
    if isinstance(where, Engine):
        if where.url.get_backend_name() == "sqlite":
            raise InvalidInputError("an Engine is taken for Postgres only; for SQLite give its path or URL")
        where = where.url
    if not isinstance(where, str | Path | URL):
        raise InvalidInputError(f"{quoted(where)} is no database; give a path, ':memory:' or an SQLAlchemy URL")
    url = where if isinstance(where, URL) else _read(str(where))
    _check_url(url)
    return url


def _check_url(url: URL) -> None:
    if url.get_backend_name() == "sqlite":
        if url.drivername not in _SQLITE:
            raise InvalidInputError(f"{url.drivername} is not supported; write sqlite:///PATH, or give the path alone")
        more = url.query or url.username or url.password or url.host or url.port
        if more or (url.database or "").startswith("file:"):
            raise InvalidInputError(
                "an SQLite database is named by its path alone, without options and SQLite's own file: URIs; how long to wait "
                "for other processes is the setting busy_timeout"
            )
        return
    if url.get_backend_name() != "postgresql":
        raise InvalidInputError(f"{url.get_backend_name()} is not supported; use SQLite or postgresql+psycopg://…")
    if url.drivername.partition("+")[2] in _ASYNC_DRIVERS:
        raise InvalidInputError(f"{url.drivername} is {_ASYNC}")
    if wrong := _NO_PARAMETERS & url.query.keys():
        raise InvalidInputError(f"a database URL cannot say {min(wrong)}; leave it out")
    for part in (url.username, url.password, url.host, url.database, *chain(*url.normalized_query.values())):
        check_text(str(part), "the database URL")  # libpq drops what follows a NUL, errors quote what is no UTF-8


def _read(name: str) -> URL:
    if not check_text(name, "the database's name").strip():
        raise InvalidInputError("the database's name is blank; give a path, ':memory:' or an SQLAlchemy URL")
    if _CONNINFO.search(name) or _NO_URL.match(name):
        raise InvalidInputError(UNREADABLE)
    if _MODEL.match(name) and name != ":memory:":
        plain = redact_url(name)
        raise InvalidInputError(f"{plain} is no database: pass a model as model=… or embeddings=…, a file as ./{plain}")
    if "://" not in name:
        return URL.create("sqlite", database=name if name == ":memory:" else str(expanded(name)))
    try:
        url = make_url(name)
    except (ArgumentError, ValueError):  # a port that is no number; the error quotes it
        raise InvalidInputError(UNREADABLE) from None
    if _AMBIGUOUS.match(name) and url.get_backend_name() != "sqlite":
        raise InvalidInputError(UNREADABLE)
    return url.set(drivername="postgresql+psycopg") if url.drivername in {"postgres", "postgresql"} else url


def path_of(url: URL) -> Path | None:
    """The file of an SQLite database; `None` in memory and on a server."""
    database = url.database
    if url.get_backend_name() != "sqlite" or not database or database == ":memory:":
        return None
    return Path(os.path.realpath(database))  # unlike `Path.resolve` it takes links that lead in a circle


def expanded(path: str | Path) -> Path:
    """A path with the folder of the user that its `~` names."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise InvalidInputError(f"{quoted(str(path))} names a user without a home here; write the whole path") from None


_LOCKED: Final = "another process holds the write lock: raise the setting busy_timeout, or find that process"
_NO_CONNECTION: Final = (
    "the server or this role has no connection left: lower the settings pool_size and max_overflow, so that calls wait for one "
    "another, or allow more connections there"
)
_HINTS: Final = {
    "database is locked": _LOCKED,
    "database or disk is full": "free some space; nothing was written",
    "readonly database": "the file or its folder is not writable for this user; SQLite needs both",
    "unable to open database file": "the folder is missing or may not be entered, the file may not be read, or too many files "
    "are open",
    "file is not a database": "this file is no SQLite database: give another path",
    "disk image is malformed": "the file is damaged: restore a backup",
    # The write is in the WAL and was not synced: a process that opens the file after a crash takes it for committed.
    "disk I/O error": "the disk failed; if the process ends before its next write, this one may still be stored: check first",
    "QueuePool limit": "on Postgres raise the settings pool_size, max_overflow or pool_timeout, or make fewer calls at once",
    "invalid connection option": "libpq has no such parameter; pool_size, max_overflow and pool_timeout are settings",
    "too many connections": _NO_CONNECTION,
    "too many clients": _NO_CONNECTION,
    "remaining connection slots": _NO_CONNECTION,
    "no more connections allowed": _NO_CONNECTION,
    # Of PgBouncer, which speaks English alone.
    "unsupported startup parameter": "a pooler refuses what the URL asks for: leave it out and let ALTER ROLE … SET do it, or "
    "let PgBouncer pass it over (ignore_startup_parameters)",
    "statement pooling mode": "transactions are needed: set PgBouncer's pool_mode to transaction",
}
"""What to do, by a part of a message in English: of SQLite, SQLAlchemy and PgBouncer, and where Postgres sends no code."""
_PERMANENT: Final = ("unsupported startup parameter", "statement pooling mode")  # PgBouncer's code says connection lost

# The texts of Postgres are in the server's language: https://www.postgresql.org/docs/current/errcodes-appendix.html
LOCK_TIMEOUT: Final = "55P03"
"""SQLSTATE of a lock that did not come in time."""
_TRANSIENT: Final = ("08", "40", "53300", LOCK_TIMEOUT, "57P01", "57P02", "57P03", "57P05")
_POOLER: Final = (
    "a pooler such as PgBouncer in transaction mode does not keep prepared statements: add ?prepare_threshold=None to the URL, "
    "or set prepare_threshold to none; an Engine takes connect_args={'prepare_threshold': None}"
)
_STATES: Final = {
    LOCK_TIMEOUT: _LOCKED,
    "53300": _NO_CONNECTION,
    "22P05": "the database cannot hold this text: create one with ENCODING 'UTF8'",
    "25006": "a standby, or set so: add ?target_session_attrs=read-write to the URL, or see default_transaction_read_only",
    "26000": _POOLER,
    "42P05": _POOLER,
    "42501": "let an owner GRANT this role what it lacks: SELECT, INSERT, UPDATE and DELETE on the tables, USAGE on sequences "
    "and the schema, CREATE where tables are made or changed; or see the policies of row-level security",
    "3F000": "search_path names no schema that exists: CREATE SCHEMA, or ALTER ROLE … SET search_path",
    "57014": "statement_timeout or an administrator ended it: ALTER ROLE … SET statement_timeout gives more time",
}
"""What to do, by SQLSTATE."""
# A refused connection has no code, only this word; with one of these texts it will succeed in a moment.
_REFUSED: Final = "FATAL:"
_NOT_YET: Final = re.compile(
    "starting up|shutting down|recovery mode|not yet accepting|too many|connection slots|no more connections|"
    "terminating connection"
)
_LOST_OR_WAITING: Final = {
    "8s2b",
    "3o7r",
}  # SQLAlchemy: a statement after the connection was lost; no connection of the pool
_LOST: Final = "the database ended the connection, or does not answer: try again in a moment"


@contextmanager
def translated(location: str) -> Iterator[None]:
    """Turn the driver's errors into `StorageError`s that say what to do; our own errors pass unchanged."""
    try:
        yield
    except DBAPIError as error:
        state: str | None = getattr(error.orig, "sqlstate", None)
        if state is None:
            of_postgres, text = hasattr(error.orig, "sqlstate"), str(error.orig)
            is_lost = _REFUSED not in text or _NOT_YET.search(text) is not None
            transient = isinstance(error, OperationalError) and of_postgres and is_lost
        else:
            transient = state.startswith(_TRANSIENT)
        hint = _STATES.get(state or "")
        transient = transient or error.connection_invalidated
        raise _storage_error(location, without_rows(error), transient=transient, hint=hint) from error
    except sqlite3.Error as error:
        raise _storage_error(location, str(error)) from error
    except SQLAlchemyError as error:
        raise _storage_error(location, without_rows(error), transient=error.code in _LOST_OR_WAITING) from error


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


def _storage_error(location: str, message: str, *, transient: bool = False, hint: str | None = None) -> StorageError:
    sign = next((sign for sign in _HINTS if sign in message), None)
    hint = hint or _HINTS.get(sign or "")
    transient = sign not in _PERMANENT and (transient or sign == "database is locked")
    waited, end = hint == _LOCKED, f" ({hint})" if hint else ""
    brief = f"{sign or 'the database is locked'}{end}" if waited or sign else _LOST if transient else UNUSABLE
    text = f"{location}: {redact_urls(message.strip())}{end}"
    return StorageError(text, transient=transient, waited=waited, brief=brief)
