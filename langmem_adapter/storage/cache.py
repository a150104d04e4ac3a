"""A cache of conversations in Redis: a copy beside the truth, read only where its version is that of the truth.

Nothing needs it. Where Redis cannot be reached, the database answers, and the log says so once, until it is reached again.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from langmem_adapter.errors import InvalidInputError, MissingDependencyError, StorageError
from langmem_adapter.records.checks import redact_url
from langmem_adapter.records.scope import SCOPE_FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.conversations import Conversation

TTL: Final = 1_800
"""Seconds for which a copy is kept."""

_log = logging.getLogger("langmem_adapter")
_PREFIX: Final = "langmem_adapter"
_PATIENCE: Final = 1.0
_CHUNK: Final = 500  # keys of one command: Redis answers nobody else meanwhile


def redis_key(*parts: str) -> str:
    """A key of parts, each escaped, so that no two lists of parts share one.

    Example:
        >>> redis_key("chats", "ada:1", "2"), redis_key("chats", "ada", "1:2")
        ('chats:ada%3A1:2', 'chats:ada:1%3A2')
    """
    return ":".join(quote(part, safe="") for part in parts)


class Cache:
    """Copies of conversations in Redis, by user and chat, for half an hour each."""

    def __init__(self, url: str) -> None:
        try:
            import redis  # noqa: PLC0415 - an extra
            from redis.backoff import NoBackoff  # noqa: PLC0415
            from redis.retry import Retry  # noqa: PLC0415
        except ImportError:
            raise MissingDependencyError("redis", extra="redis") from None
        self._where: Final = redact_url(url)
        self._errors: Final = (redis.RedisError, ValueError)  # the second: what is no answer of Redis
        limits: dict[str, Any] = {"socket_timeout": _PATIENCE, "socket_connect_timeout": _PATIENCE}
        try:
            self._client: Final[Any] = redis.Redis.from_url(
                url, decode_responses=True, retry=Retry(NoBackoff(), 1), **limits
            )
        except ValueError:  # its text would repeat the address
            raise InvalidInputError(
                f"redis_url: no address of a Redis server: {self._where}; write it like redis://localhost:6379/0"
            ) from None
        self._silent = False

    def get(self, conversation: Conversation, version: str) -> str | None:
        """The copy of a version, if there is one."""
        kept = self._tried(partial(self._client.hget, _key(conversation), version))
        return kept if isinstance(kept, str) else None

    def put(self, conversation: Conversation, version: str, value: str) -> None:
        """Keep the copy of a version in place of any other."""
        key = _key(conversation)
        pipe = self._client.pipeline()
        pipe.delete(key)
        pipe.hset(key, version, value)
        pipe.expire(key, TTL)
        self._tried(pipe.execute)

    def drop(self, conversation: Conversation) -> None:
        """Forget a conversation."""
        self._tried(partial(self._client.delete, _key(conversation)))

    def erase(self, scope: Scope | None) -> None:
        """Forget every conversation within a scope; `None` means everybody's.

        Raises:
            StorageError: Redis did not answer; a copy is gone after half an hour in any case.
        """
        try:
            keys = [*self._client.scan_iter(match=f"{_owner(scope, '*')}:*", count=_CHUNK)]
            for start in range(0, len(keys), _CHUNK):
                self._client.unlink(*keys[start : start + _CHUNK])
        except self._errors as error:
            raise StorageError(f"Redis at {self._where}: {error}", transient=True) from None

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _tried(self, work: Callable[[], object]) -> object:
        try:
            answer = work()
        except UnicodeDecodeError:  # a value that is no text, hence none of ours
            return None
        except self._errors as error:
            if not self._silent:
                _log.warning(
                    "Redis at %s does not answer (%s); conversations are read from the database", self._where, error
                )
            self._silent = True
            return None
        self._silent = False
        return answer


def _key(conversation: Conversation) -> str:
    return f"{_owner(conversation.scope, '')}:{quote(conversation.session, safe='')}"


def _owner(scope: Scope | None, unnamed: str) -> str:
    named = {} if scope is None else scope.named
    return f"{_PREFIX}:" + "/".join(quote(named[f], safe="") if f in named else unnamed for f in SCOPE_FIELDS)
