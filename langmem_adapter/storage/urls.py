"""Which database an address names."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Final

from sqlalchemy import URL, Engine, make_url
from sqlalchemy.exc import ArgumentError

from langmem_adapter.addresses import ENCODED, SCHEMES, shown
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import check_text, quoted

__all__ = ["UNREADABLE", "expanded", "path_of", "url_of"]

UNREADABLE: Final = (
    "not a database URL; write it like sqlite:///folder/memory.db or postgresql+psycopg://user:password@host:5432/name, "
    f"{ENCODED}"
)
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
_MODEL: Final = re.compile(
    r"(hash|openai|azure_openai|azure_ai|anthropic|anthropic_bedrock|bedrock|bedrock_converse|google_genai|google_vertexai|"
    r"google_anthropic_vertex|cohere|deepseek|fireworks|groq|huggingface|ibm|litellm|mistralai|nvidia|ollama|openrouter|"
    r"perplexity|together|upstage|xai):[^/\\]"
)  # LangChain's names for providers


def url_of(where: str | Path | URL | Engine) -> URL:
    """The URL of a database: a path (SQLite), `":memory:"`, a URL as text or SQLAlchemy's own, or an `Engine` for Postgres.

    Raises:
        InvalidInputError: It names no database that is supported, says more than where an SQLite file lies, or cannot be told
            apart from its password; the message shows nothing of it.
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
    if url.get_backend_name() == "sqlite":
        _check_sqlite(url)
    elif url.get_backend_name() == "postgresql":
        _check_postgres(url)
    else:
        raise InvalidInputError(f"{url.get_backend_name()} is not supported; use SQLite or postgresql+psycopg://…")
    return url


def _read(name: str) -> URL:
    if not check_text(name, "the database's name").strip():
        raise InvalidInputError("the database's name is blank; give a path, ':memory:' or an SQLAlchemy URL")
    if (named := _MODEL.match(name)) is not None:
        option = "embeddings" if named[1] == "hash" else "model"
        raise InvalidInputError(f"{shown(name)} names a model, no database; write Memory({option}={shown(name)!r})")
    if _CONNINFO.search(name) or _NO_URL.match(name):
        raise InvalidInputError(UNREADABLE)
    if "://" not in name:
        return URL.create("sqlite", database=name if name == ":memory:" else str(expanded(name)))
    try:
        url = make_url(name)
    except (ArgumentError, ValueError):  # a port that is no number; its text quotes what stands there
        raise InvalidInputError(UNREADABLE) from None
    if _AMBIGUOUS.match(name) and url.get_backend_name() != "sqlite":
        raise InvalidInputError(UNREADABLE)
    return url.set(drivername="postgresql+psycopg") if url.drivername in {"postgres", "postgresql"} else url


def _check_sqlite(url: URL) -> None:
    if url.drivername not in _SQLITE:
        raise InvalidInputError(f"{url.drivername} is not supported; write sqlite:///PATH, or give the path alone")
    more = url.query or url.username or url.password or url.host or url.port
    if more or (url.database or "").startswith("file:"):
        raise InvalidInputError(
            "an SQLite database is named by its path alone, without options and SQLite's own file: URIs; how long to wait "
            "for other processes is the setting busy_timeout"
        )


def _check_postgres(url: URL) -> None:
    if url.drivername.partition("+")[2] in _ASYNC_DRIVERS:
        raise InvalidInputError(f"{url.drivername} is {_ASYNC}")
    if wrong := _NO_PARAMETERS & url.query.keys():
        raise InvalidInputError(f"a database URL cannot say {min(wrong)}; leave it out")
    for part in (url.username, url.password, url.host, url.database, *chain(*url.normalized_query.values())):
        check_text(str(part), "the database URL")  # libpq drops what follows a NUL, errors quote what is no UTF-8


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
