"""A mirror that is kept up to date by a thread of its own, for as long as a memory is open."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from langmem_adapter.errors import StorageError

if TYPE_CHECKING:
    from langmem_adapter.mirror.mirror import Mirror

__all__ = ["Following"]

_log = logging.getLogger("langmem_adapter")

_EVERY: Final = 1.0  # seconds between two looks at the change feed
_PATIENCE: Final = 5.0  # seconds that closing waits for the last run
