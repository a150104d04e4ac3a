"""API keys of the server, and sessions of the web page.

Of a key only a keyed hash is kept. Its secret is 256 random bits, so a fast hash is as good as a slow one; the hash's own key
lies in the database, so that hashes of two databases say nothing about each other.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import delete, insert, select, update

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import check_text, quoted
from langmem_adapter.storage import meta
from langmem_adapter.storage.scopes import owner_of
from langmem_adapter.storage.tables import api_keys, sessions

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import Connection

    from langmem_adapter.records.scope import Scope

RIGHTS: Final = ("read", "write", "admin")
"""What a key may allow; `admin` is what concerns everybody: lists of scopes, reset, other keys."""

_PREFIX: Final = "lma"
_PEPPER: Final = "key_pepper"  # key in `meta`


@dataclass(frozen=True, slots=True)
class Key:
    """A key, without its secret.

    Attributes:
        id: What it is called in lists and logs; no secret.
        scope: What it reaches; `None` for everything.
        rights: Of `RIGHTS`.
    """

    id: str
    name: str
    scope: Scope | None
    rights: frozenset[str]
    created_at: datetime
    revoked_at: datetime | None = None


def create(connection: Connection, name: str, scope: Scope | None, rights: Collection[str]) -> tuple[Key, str]:
    """Make a key, within a write transaction, and the text that a program sends, which is not kept.

    Raises:
        InvalidInputError: The name is blank, or a right unknown.
    """
    if not check_text(name, "name").strip():
        raise InvalidInputError("name is blank; say what the key is for")
    if not rights or not {*rights} <= {*RIGHTS}:
        raise InvalidInputError(f"rights are some of {', '.join(RIGHTS)}, not {quoted(sorted(rights))}")
    number, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    now = datetime.now(UTC)
    row = {"id": number, "digest": digest(connection, secret), "name": name, "created_at": now}
    named = {} if scope is None else scope.named
    connection.execute(insert(api_keys).values(**row, **named, rights=" ".join(sorted({*rights}))))
    return Key(number, name, scope, frozenset(rights), now), f"{_PREFIX}_{number}_{secret}"


def find(connection: Connection, shown: str) -> Key | None:
    """The key that a program sends, unless there is none, or it is revoked; which of these it is takes equally long to say."""
    _, _, rest = shown.partition(f"{_PREFIX}_")
    number, _, secret = rest.partition("_")
    row = connection.execute(select(api_keys).where(api_keys.c.id == number[:16])).first()
    kept = "" if row is None else row.digest
    same = hmac.compare_digest(kept, kept_digest(connection, secret))
    return of_row(row) if same and row is not None and row.revoked_at is None else None


def listed(connection: Connection) -> list[Key]:
    """Every key, the latest first."""
    query = select(api_keys).order_by(api_keys.c.created_at.desc(), api_keys.c.id)
    return [of_row(row) for row in connection.execute(query)]


def revoke(connection: Connection, key_id: str) -> bool:
    """Make a key worth nothing from now on, within a write transaction; whether it was worth something."""
    which = (api_keys.c.id == key_id, api_keys.c.revoked_at.is_(None))
    return bool(connection.execute(update(api_keys).where(*which).values(revoked_at=datetime.now(UTC))).rowcount)


def digest(connection: Connection, secret: str) -> str:
    """What is kept of a secret, within a write transaction; the first one makes the hash's own key."""
    if meta.get(connection, _PEPPER) is None:
        meta.put(connection, _PEPPER, secrets.token_hex(32))
    return kept_digest(connection, secret)


def kept_digest(connection: Connection, secret: str) -> str:
    """What is kept of a secret, if anything is: without the hash's own key, which is made with the first, nothing is."""
    pepper = bytes.fromhex(meta.get(connection, _PEPPER) or "")
    return blake2b(secret.encode(errors="replace"), key=pepper, digest_size=32).hexdigest()


def of_row(row: Any) -> Key:
    """A row of `tables.api_keys` as a key."""
    return Key(row.id, row.name, owner_of(row), frozenset(row.rights.split()), row.created_at, row.revoked_at)


LASTS: Final = timedelta(hours=12)
"""How long a login is good for."""


def begin(connection: Connection, key: Key) -> str:
    """Begin a session with the rights of a key: the text that a browser keeps. Those that are over are forgotten."""
    now, secret = datetime.now(UTC), secrets.token_urlsafe(32)
    connection.execute(delete(sessions).where(sessions.c.ends_at <= now))
    row = {"digest": digest(connection, secret), "key_id": key.id, "ends_at": now + LASTS}
    connection.execute(insert(sessions).values(row))
    return secret


def find_session(connection: Connection, secret: str) -> Key | None:
    """The key that a session stands for, unless the session is over, or the key revoked."""
    query = select(api_keys).join(sessions, sessions.c.key_id == api_keys.c.id)
    alive = (sessions.c.digest == kept_digest(connection, secret), sessions.c.ends_at > datetime.now(UTC))
    row = connection.execute(query.where(*alive, api_keys.c.revoked_at.is_(None))).first()
    return None if row is None else of_row(row)


def end(connection: Connection, secret: str) -> None:
    """End a session, within a write transaction."""
    connection.execute(delete(sessions).where(sessions.c.digest == kept_digest(connection, secret)))
