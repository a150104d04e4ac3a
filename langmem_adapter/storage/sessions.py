"""Logins to the page: each stands for a key, ends by itself, and is worth nothing once its key is."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from sqlalchemy import delete, insert, select

from langmem_adapter.storage import keys
from langmem_adapter.storage.tables import api_keys, sessions

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["LASTS", "begin", "end", "find"]

LASTS: Final = timedelta(hours=12)
"""How long a login is good for."""


def begin(connection: Connection, key: keys.Key) -> str:
    """Begin a session with the rights of a key: the text that a browser keeps. Those that are over are forgotten."""
    now, secret = datetime.now(UTC), secrets.token_urlsafe(32)
    connection.execute(delete(sessions).where(sessions.c.ends_at <= now))
    row = {"digest": keys.digest(connection, secret), "key_id": key.id, "ends_at": now + LASTS}
    connection.execute(insert(sessions).values(row))
    return secret


def find(connection: Connection, secret: str) -> keys.Key | None:
    """The key that a session stands for, unless the session is over, or the key revoked."""
    query = select(api_keys).join(sessions, sessions.c.key_id == api_keys.c.id)
    alive = (sessions.c.digest == keys.kept_digest(connection, secret), sessions.c.ends_at > datetime.now(UTC))
    row = connection.execute(query.where(*alive, api_keys.c.revoked_at.is_(None))).first()
    return None if row is None else keys.of_row(row)


def end(connection: Connection, secret: str) -> None:
    """End a session, within a write transaction."""
    connection.execute(delete(sessions).where(sessions.c.digest == keys.kept_digest(connection, secret)))
