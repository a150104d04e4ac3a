"""Which failures of a stage are worth another try.

LangGraph's own rule knows connection errors and server errors, but neither "too many requests" nor a locked database; and
it must not repeat what will fail again (a reply that stayed unreadable, a bad argument).
"""

from __future__ import annotations

from typing import Final

from langgraph.types import RetryPolicy

from langmem_adapter.errors import LangmemAdapterError, StorageError

__all__ = ["RETRIES", "worth_another_try"]

_TOO_MANY: Final = 429
_SERVER: Final = 500
_DEFAULT: Final = RetryPolicy().retry_on


def worth_another_try(error: Exception) -> bool:
    """Whether the same call may well succeed in a moment.

    Example:
        >>> worth_another_try(StorageError("locked", transient=True)), worth_another_try(ValueError("bad"))
        (True, False)
    """
    if isinstance(error, LangmemAdapterError):
        return isinstance(error, StorageError) and error.transient
    status = getattr(error, "status_code", None) or getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(status, int):
        return status == _TOO_MANY or status >= _SERVER
    if isinstance(error, TimeoutError | ConnectionError):
        return True
    return callable(_DEFAULT) and bool(_DEFAULT(error))


RETRIES: Final = RetryPolicy(initial_interval=0.2, max_interval=5.0, max_attempts=3, retry_on=worth_another_try)
"""Three tries, 0.2 seconds and more between them; the chat model's own client has its own on top."""
