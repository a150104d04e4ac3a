"""API keys of the server, and sessions of the web page.

Of a key only a keyed hash is stored. Its secret is 256 random bits, so a fast hash is as good as a slow one. The key of the
hash is in the database, so hashes of two databases cannot be compared.
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
"""What a key may allow; `admin` is for all scopes: their list, reset, other keys."""

_PREFIX: Final = "lma"
_PEPPER: Final = "key_pepper"  # key in `meta`


@dataclass(frozen=True, slots=True)
class Key:
    """A key without its secret; its id is no secret."""

    id: str
    name: str
    scope: Scope | None  # `None` for all
    rights: frozenset[str]
    created_at: datetime
    revoked_at: datetime | None = None


def create(connection: Connection, name: str, scope: Scope | None, rights: Collection[str]) -> tuple[Key, str]:
    """Create a key, within a write transaction, and the text that a program sends, which is not stored."""
    if not check_text(name, "name").strip():
        raise InvalidInputError("name is blank: say what the key is for")
    if not rights or not {*rights} <= {*RIGHTS}:
        raise InvalidInputError(f"rights are some of {', '.join(RIGHTS)}, not {quoted(sorted(rights))}")
    id_, secret, now = secrets.token_hex(6), secrets.token_urlsafe(32), datetime.now(UTC)
    row = {"id": id_, "digest": _new_digest(connection, secret), "name": name, "created_at": now}
    names = {} if scope is None else scope.named
    connection.execute(insert(api_keys).values(**row, **names, rights=" ".join(sorted({*rights}))))
    return Key(id_, name, scope, frozenset(rights), now), f"{_PREFIX}_{id_}_{secret}"


def find(connection: Connection, text: str) -> Key | None:
    """The key of the text that a program sends; `None` for an unknown or revoked one, in the same time."""
    id_, _, secret = text.partition(f"{_PREFIX}_")[2].partition("_")
    row = connection.execute(select(api_keys).where(api_keys.c.id == id_[:16])).first()
    is_same = hmac.compare_digest("" if row is None else row.digest, _digest(connection, secret))
    return _key(row) if is_same and row is not None and row.revoked_at is None else None


def listed(connection: Connection) -> list[Key]:
    """Every key, the latest first."""
    query = select(api_keys).order_by(api_keys.c.created_at.desc(), api_keys.c.id)
    return [_key(row) for row in connection.execute(query)]


def revoke(connection: Connection, key_id: str) -> bool:
    which = (api_keys.c.id == key_id, api_keys.c.revoked_at.is_(None))
    return bool(connection.execute(update(api_keys).where(*which).values(revoked_at=datetime.now(UTC))).rowcount)


def _new_digest(connection: Connection, secret: str) -> str:
    if meta.get(connection, _PEPPER) is None:
        meta.put(connection, _PEPPER, secrets.token_hex(32))
    return _digest(connection, secret)


def _digest(connection: Connection, secret: str) -> str:
    pepper = bytes.fromhex(meta.get(connection, _PEPPER) or "")
    return blake2b(secret.encode(errors="replace"), key=pepper, digest_size=32).hexdigest()


def _key(row: Any) -> Key:
    return Key(row.id, row.name, owner_of(row), frozenset(row.rights.split()), row.created_at, row.revoked_at)


LASTS: Final = timedelta(hours=12)
"""The lifetime of a session."""


def begin(connection: Connection, key: Key) -> str:
    """Begin a session with the rights of a key, within a write transaction, and return the secret for the browser."""
    now, secret = datetime.now(UTC), secrets.token_urlsafe(32)
    connection.execute(delete(sessions).where(sessions.c.ends_at <= now))
    row = {"digest": _new_digest(connection, secret), "key_id": key.id, "ends_at": now + LASTS}
    connection.execute(insert(sessions).values(row))
    return secret


def find_session(connection: Connection, secret: str) -> Key | None:
    """The key of a session; `None` where the session has ended or the key is revoked."""
    query = select(api_keys).join(sessions, sessions.c.key_id == api_keys.c.id)
    is_valid = (sessions.c.digest == _digest(connection, secret), sessions.c.ends_at > datetime.now(UTC))
    row = connection.execute(query.where(*is_valid, api_keys.c.revoked_at.is_(None))).first()
    return None if row is None else _key(row)


def end(connection: Connection, secret: str) -> None:
    connection.execute(delete(sessions).where(sessions.c.digest == _digest(connection, secret)))
