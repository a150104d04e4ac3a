"""The index read anew from the database, in a thread of its own, while the server goes on."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final

from langmem_adapter.errors import LangmemAdapterError
from langmem_adapter.twins import in_thread

if TYPE_CHECKING:
    from concurrent.futures import Future

    from langmem_adapter.memory.memory import Memory

__all__ = ["RebuildProgress", "Rebuilding"]

_log: Final = logging.getLogger("langmem_adapter.server")


@dataclass(frozen=True, slots=True)
class RebuildProgress:
    """How far it is: memories read, of how many (0 while that is unknown), and why it failed."""

    running: bool
    done: int = 0
    total: int = 0
    error: str = ""


class Rebuilding:
    """Rebuilds the index of a memory, one time after the other."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._lock = Lock()
        self.standing: RebuildProgress | None = None

    def begin(self) -> None:
        """Begin, unless it is under way."""
        with self._lock:
            if self.standing is None or not self.standing.running:
                self._tell(0, 0)
                in_thread(self._rebuild).add_done_callback(self._end)

    def _rebuild(self) -> int:
        indexer = self._memory.parts.indexer
        number = indexer.rebuild(self._tell)
        indexer.write_segment()  # the file beside the database may be what was wrong
        return number

    def _tell(self, done: int, total: int) -> None:
        self.standing = RebuildProgress(running=True, done=done, total=total)

    def _end(self, work: Future[int]) -> None:
        error = work.exception()
        if error is None:
            self.standing = RebuildProgress(running=False, done=work.result())
            return
        _log.error("the index was not rebuilt: %s", type(error).__name__, exc_info=error)
        told = str(error) if isinstance(error, LangmemAdapterError) else "something went wrong here; the log has it"
        self.standing = RebuildProgress(running=False, error=told)
