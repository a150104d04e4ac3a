"""A writer for chats that must not wait: messages are taken at once and remembered once the thread falls quiet.

What people say in one breath belongs together ("I have a sister." "Her name is Jesica."), so the messages of a thread are
gathered and go through the pipeline as one conversation, after a pause. Threads do not wait for each other; within one, order
is kept.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.pipeline.run import run_of

if TYPE_CHECKING:
    from types import TracebackType

    from langmem_adapter.records.results import AddResult

__all__ = ["BackgroundWriter", "FailedWrite"]

_log = logging.getLogger("langmem_adapter")

_WORKERS: Final = 4
_SHARED: Final = ("user_id", "agent_id", "run_id", "infer", "memory_type", "prompt")


@dataclass(frozen=True, slots=True)
class FailedWrite:
    """A conversation that could not be remembered, as it was given, so that it can be tried again.

    Attributes:
        arguments: Those of `Memory.add`.
        error: What went wrong.
    """

    arguments: Mapping[str, Any]
    error: BaseException


@dataclass(slots=True, eq=False)
class _Thread:
    """What one thread of a chat has said since it was last remembered."""

    arguments: dict[str, Any]
    first: float
    due: float
    messages: list[Any] = field(default_factory=list)
    waiting: list[Future[AddResult]] = field(default_factory=list)


class BackgroundWriter:
    """Gathers the messages of each thread and remembers them together, once it falls quiet.

    A thread is told by its scope and options. What was taken lives in this process until it is written: close the writer (or
    the memory) to write the rest. A failed write reaches everybody who waits for it, `on_error`, and at last `close`.

    Args:
        add: `Memory.add`.
        after: Seconds of quiet after which a thread is written.
        at_most: Seconds after which it is written even if it does not fall quiet; default ten times *after*.
        on_error: Called with each failed write, on a worker thread; without it `close` raises them.

    Raises:
        InvalidInputError: A time is negative.
    """

    def __init__(
        self,
        add: Callable[..., AddResult],
        *,
        after: float,
        at_most: float | None = None,
        on_error: Callable[[FailedWrite], None] | None = None,
    ) -> None:
        if after < 0 or (at_most is not None and at_most < after):
            raise InvalidInputError("after is a number of seconds from 0, at_most is not less")
        self._write = add
        self._after = after
        self._at_most = 10 * after if at_most is None else at_most
        self._on_error = on_error
        self._changed = threading.Condition()
        self._threads: dict[tuple[Any, ...], _Thread] = {}
        self._busy: set[tuple[Any, ...]] = set()
        self._failed: list[FailedWrite] = []
        self._closing = False
        self._draining = 0
        self._workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="langmem-background")
        self._clock = threading.Thread(target=self._watch, name="langmem-background-clock", daemon=True)
        self._clock.start()

    def add(self, messages: Any, **arguments: Any) -> Future[AddResult]:
        """Take messages and return at once.

        Args:
            messages: As for `Memory.add`.
            arguments: Those of `Memory.add`, the scope among them; `idempotency_key` is not possible here, since the write
                is not this call's alone.

        Returns:
            The result of the write that these messages will be part of; wait for it or not.

        Raises:
            ScopeError: No scope is named.
            InvalidInputError: Something cannot be used, or the writer is closed.
        """
        if arguments.get("idempotency_key") is not None:
            raise InvalidInputError("a background write joins several adds; idempotency_key cannot name one of them")
        run_of({**arguments, "messages": messages})
        future: Future[AddResult] = Future()
        with self._changed:
            if self._closing:
                raise InvalidInputError("this background writer is closed; make a new one")
            now = time.monotonic()
            thread = self._threads.setdefault(_key(arguments), _Thread(dict(arguments), now, now))
            thread.messages += _listed(messages)
            thread.waiting.append(future)
            thread.due = min(now + self._after, thread.first + self._at_most)
            self._changed.notify_all()
        return future

    def drain(self) -> None:
        """Write what was taken so far, without waiting for quiet, and return when it is done."""
        with self._changed:
            self._draining += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._threads and not self._busy)
            self._draining -= 1

    def close(self) -> None:
        """Write the rest and stop.

        Raises:
            ExceptionGroup: Writes failed and nobody was told through `on_error`; `failed` has what they were given.
        """
        with self._changed:
            if self._closing:
                return
            self._closing = True
        self.drain()
        with self._changed:
            self._changed.notify_all()
        self._clock.join()
        self._workers.shutdown()
        errors = [failed.error for failed in self._failed if isinstance(failed.error, Exception)]
        if errors and self._on_error is None:
            raise ExceptionGroup("background writes failed; see the writer's `failed`", errors)

    @property
    def failed(self) -> tuple[FailedWrite, ...]:
        """What could not be remembered so far."""
        with self._changed:
            return tuple(self._failed)

    def __enter__(self) -> Self:
        """Use it in a `with` statement: the end writes the rest."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    # ── the clock ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _watch(self) -> None:
        with self._changed:
            while not (self._closing and not self._threads and not self._busy):
                for key in self._ready():
                    self._start(key, self._threads.pop(key))
                self._changed.wait(self._until_next())

    def _ready(self) -> list[tuple[Any, ...]]:
        now = time.monotonic()
        hurried = bool(self._draining)
        return [key for key, said in self._threads.items() if key not in self._busy and (hurried or said.due <= now)]

    def _until_next(self) -> float | None:
        # A busy thread wakes the clock when it is done.
        due = [said.due for key, said in self._threads.items() if key not in self._busy]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _start(self, key: tuple[Any, ...], thread: _Thread) -> None:
        self._busy.add(key)
        running = self._workers.submit(self._write, thread.messages, **thread.arguments)
        running.add_done_callback(partial(self._ended, key, thread))

    def _ended(self, key: tuple[Any, ...], thread: _Thread, running: Future[AddResult]) -> None:
        error = running.exception()
        for future in thread.waiting:
            if not future.set_running_or_notify_cancel():
                continue
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(running.result())
        with self._changed:
            if error is not None:
                self._failed.append(FailedWrite({**thread.arguments, "messages": thread.messages}, error))
            self._busy.discard(key)
            self._changed.notify_all()
        if error is not None:  # last: whatever `on_error` does, everybody else has been served
            _log.error("a background write failed: %s", type(error).__name__)
            if self._on_error is not None:
                self._on_error(FailedWrite({**thread.arguments, "messages": thread.messages}, error))


def _key(arguments: Mapping[str, Any]) -> tuple[Any, ...]:
    rest = {name: value for name, value in arguments.items() if name not in _SHARED}
    return (*(arguments.get(name) for name in _SHARED), repr(sorted(rest.items())))


def _listed(messages: Any) -> list[Any]:
    return list(messages) if isinstance(messages, Sequence) and not isinstance(messages, str) else [messages]
