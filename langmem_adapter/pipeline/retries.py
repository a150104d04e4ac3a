"""Which failures of a stage are worth another try.

Those of a database that may pass (a lock, a lost connection). Chat models and embeddings are asked again where they are
called (`langmem_adapter.limits`): two that count would multiply. What stayed unreadable, or is a bad argument, will fail again.
"""

from __future__ import annotations

from typing import Final

from langgraph.types import RetryPolicy

from langmem_adapter.errors import StorageError

__all__ = ["RETRIES", "worth_another_try"]


def worth_another_try(error: Exception) -> bool:
    """Whether the same stage may well succeed in a moment.

    Example:
        >>> worth_another_try(StorageError("locked", transient=True)), worth_another_try(ValueError("bad"))
        (True, False)
    """
    return isinstance(error, StorageError) and error.transient


RETRIES: Final = RetryPolicy(initial_interval=0.2, max_interval=5.0, max_attempts=3, retry_on=worth_another_try)
"""Three tries, 0.2 seconds and more between them."""
