"""Background writes: messages are taken at once and remembered once the chat falls quiet.

Messages that follow each other belong together ("I have a sister." "Her name is Jesica."), so the messages of a chat are
gathered and go through the pipeline as one conversation, after a pause. Chats do not wait for each other; within one, order
is kept.
"""

from __future__ import annotations

import json
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from multiprocessing import util
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from langchain_core.messages import BaseMessage

from langmem_adapter.arguments import seconds
from langmem_adapter.errors import InvalidInputError, StorageError, noted_on
from langmem_adapter.pipeline.parse import as_list
from langmem_adapter.pipeline.run import run_of
from langmem_adapter.records.checks import parse_timezone, quoted
from langmem_adapter.twins import attempt

if TYPE_CHECKING:
    from types import TracebackType

    from langmem_adapter.arguments import Longest
    from langmem_adapter.records.results import AddResult
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.twins import Outcome

T = TypeVar("T")

_log = logging.getLogger("langmem_adapter")

_WORKERS: Final = 4
_CHECKED: Final = ("metadata", "timestamp", "timezone", "expires_at")
_COPIED: Final = ("content", "additional_kwargs", "tool_calls", "invalid_tool_calls")


@dataclass(frozen=True, slots=True)
class FailedWrite:
    """A conversation that could not be remembered, as it was taken, so that it can be tried again.

    Attributes:
        arguments: Those of `Memory.add`; the timestamp is when its last message was taken, where none was given.
        error: What went wrong.
    """

    arguments: Mapping[str, Any]
    error: BaseException


@dataclass(slots=True, eq=False)
class _Chat:
    """What has been said in one chat since it was last remembered."""

    key: tuple[Any, ...]
    scope: Scope
    arguments: dict[str, Any]
    latest: float
    due: float = math.inf
    futures: list[Future[AddResult]] = field(default_factory=list)

    def __str__(self) -> str:
        """Its scope and size, without its texts: for the log."""
        count = len(self.arguments["messages"])
        return f"{count} message{'s' * (count != 1)} of {self.scope.named}"


class _Worker(threading.Thread):
    """A worker of any writer."""


class BackgroundWriter:
    """Gathers the messages of each chat and remembers them together, once it falls quiet; see `Memory.background`.

    A chat is one scope with one set of options. What was taken lives in this process until it is written: close the writer (or
    the memory) to write the rest; a program that ends without does it then. A failed write reaches everybody who waits for
    it, `on_error`, and at last `close`. In a forked child the writer refuses: what waits is the parent's to write.
    """

    def __init__(
        self,
        add: Callable[..., AddResult],
        longest: Longest,
        *,
        after: float,
        at_most: float | None = None,
        on_error: Callable[[FailedWrite], None] | None = None,
    ) -> None:
        self._after = seconds(after, "after")
        self._at_most = 10 * self._after if at_most is None else seconds(at_most, "at_most")
        if self._at_most < self._after:
            raise InvalidInputError(f"at_most ({at_most}) is less than after ({after}); give as much or more")
        if on_error is not None and not callable(on_error):
            raise InvalidInputError(f"on_error must be a function of one failed write, not {quoted(on_error)}")
        self._add = add
        self._longest = longest
        self._untold: list[BaseException] = []
        self._on_error = on_error or (lambda failed: self._untold.append(failed.error))
        self._process = os.getpid()
        self._watching = threading.Lock()
        self._changed = threading.Condition()
        self._waiting: dict[tuple[Any, ...], _Chat] = {}
        self._writing: dict[tuple[Any, ...], _Chat] = {}
        self._telling: set[_Chat] = set()
        self._failed: list[FailedWrite] = []
        self._closing = False
        worker = partial(_Worker, target=self._stand_by, name="langmem-background", daemon=True)
        self._workers = [worker() for _ in range(_WORKERS)]
        for each in self._workers:
            each.start()
        # Contract: workers are there before the first message, and no executor: when a program ends, Python shuts those down
        # first, and 3.12 begins no more threads. Daemons go on until `_end` has waited for them, which multiprocessing calls,
        # since its children end without `atexit` up to 3.12.
        # tests/pipeline/test_background_ends.py::test_background_a_program_that_ends_without_closing_writes_what_waits.
        self._exit = util.Finalize(None, self._end, exitpriority=0)

    def add(self, messages: Any, **arguments: Any) -> Future[AddResult]:
        """Take messages, as they are now, and return at once.

        Args:
            messages: As for `Memory.add`.
            arguments: Those of `Memory.add`. The `context` of the first messages of a write counts; `idempotency_key` is not
                possible, since the write is not this call's alone.

        Returns:
            The result of the write that these messages will be part of; wait for it or not.
        """
        self._refuse_forked()
        if arguments.get("idempotency_key") is not None:
            raise InvalidInputError("a background write joins several adds; idempotency_key cannot name one of them")
        copies = [_copy(message) for message in as_list(messages)]
        arguments |= {name: _copy(arguments[name]) for name in ("context",) if name in arguments}
        run = run_of({**arguments, "messages": copies}, self._longest)
        own = {name: value for name, value in run.conversations[0].items() if name in _CHECKED and value is not None}
        key = (run.scope, run.thread, run.infer, run.memory_type, run.prompt, json.dumps(own, sort_keys=True))
        zone = parse_timezone(arguments.get("timezone"), self._longest.timezone)
        future: Future[AddResult] = Future()
        with self._changed:
            if self._closing or util.is_exiting():
                raise InvalidInputError("this background writer is closed, or the program is ending; make a new one")
            now = time.monotonic()
            new = _Chat(key, run.scope, {**arguments, "messages": []}, now + self._at_most)
            chat = self._waiting.setdefault(key, new)
            chat.arguments.update({"timestamp": datetime.now(UTC).astimezone(zone).isoformat(), **own})
            chat.arguments["messages"] += copies
            chat.futures.append(future)
            chat.due = min(now + self._after, chat.latest)
            self._changed.notify_all()
        return future

    def drain(self) -> None:
        """Write what was taken so far, without waiting for quiet, and return when it is done."""
        self._refuse_forked()
        self._finish()

    def close(self) -> None:
        """Write the rest and stop; in a forked child, nothing. Failed writes are raised where there is no `on_error`."""
        if os.getpid() != self._process:
            return
        with self._changed:
            self._closing = True
        self._finish()
        if not isinstance(threading.current_thread(), _Worker):
            for each in self._workers:
                while each.is_alive():  # in rounds, for the same reason as `_finish`
                    each.join(timeout=1)
        self._exit.cancel()
        errors, self._untold = self._untold, []
        if errors:
            raise BaseExceptionGroup("background writes failed; see the writer's `failed`", errors)

    @property
    def failed(self) -> tuple[FailedWrite, ...]:
        """What could not be remembered so far."""
        return tuple(self._failed)

    def __enter__(self) -> Self:
        """Use it in a `with` statement: the end writes the rest."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; an error of the `with` statement goes on, with a note of the writes that failed as well."""
        with noted_on(error):
            self.close()

    # ── beginning and end ───────────────────────────────────────────────────────────────────────────────────────────

    def _refuse_forked(self) -> None:
        # Contract: asked before any lock, since the fork may have copied it locked; there are no workers here, either.
        # tests/pipeline/test_background_ends.py::test_background_a_forked_child_is_refused_and_never_waits.
        if os.getpid() != self._process:
            raise StorageError(
                "this background writer was made before the process forked, and works only in the process that made it; "
                "open a memory in the child, after the fork, and make a writer of that"
            )

    def _finish(self) -> None:
        with self._changed:
            taken = {*self._waiting.values(), *self._writing.values(), *self._telling}
            for chat in taken:
                chat.due = chat.latest = -math.inf
            self._changed.notify_all()
            if not isinstance(threading.current_thread(), _Worker):
                # Contract: in rounds, since CPython may lose the wake-up of a Ctrl-C that comes as a wait begins, or in another
                # thread: who waits without an end then sees it never.
                # tests/pipeline/test_background_ends.py::test_background_a_program_that_ends_without_closing_writes_what_waits.
                while not self._changed.wait_for(
                    lambda: taken.isdisjoint({*self._unwritten(), *self._telling}), timeout=1
                ):
                    pass
                return
        # Contract: a worker runs this from a done callback of a future, or from `on_error`. It waits for no callback of its
        # own, of another worker or of another writer, and leaves no write to them, since all of them may be here.
        # tests/pipeline/test_background.py::test_background_whatever_is_done_when_a_future_is_done_keeps_nobody_waiting.
        self._work(nullcontext(), lambda: not taken.isdisjoint(self._unwritten()))

    def _unwritten(self) -> list[_Chat]:
        return [*self._waiting.values(), *self._writing.values()]

    def _end(self) -> None:
        try:
            self.close()
        finally:  # also after an interrupt
            for chat in self._unwritten():
                _log.error("the program ends before it has written %s, now lost", chat)

    # ── the workers ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _stand_by(self) -> None:  # one worker watches the clock, the others wait for that
        self._work(self._watching, lambda: bool(self._waiting) or not self._closing)

    def _work(self, watching: AbstractContextManager[object], goes_on: Callable[[], bool]) -> None:
        while (chat := self._next(watching, goes_on)) is not None:
            self._write(chat)

    def _next(self, watching: AbstractContextManager[object], goes_on: Callable[[], bool]) -> _Chat | None:
        with watching, self._changed:
            while goes_on():
                free = (chat for key, chat in self._waiting.items() if key not in self._writing)
                chat = min(free, key=attrgetter("due"), default=None)
                pause = math.inf if chat is None else chat.due - time.monotonic()
                if chat is not None and pause <= 0:
                    self._writing[chat.key] = self._waiting.pop(chat.key)
                    return chat
                self._changed.wait(min(pause, threading.TIMEOUT_MAX))
        return None

    def _write(self, chat: _Chat) -> None:
        outcome = attempt(self._add, **chat.arguments)
        failed = [] if outcome.error is None else [FailedWrite(chat.arguments, outcome.error)]
        with self._changed:
            self._failed += failed
            del self._writing[chat.key]
            self._telling.add(chat)
            self._changed.notify_all()
        for future in chat.futures:
            rude = attempt(_settle, future, outcome).error
            if rude is not None:
                _log.error("a callback after a background write of %s failed: %s", chat, type(rude).__name__)
        with self._changed:
            self._telling.remove(chat)
            self._changed.notify_all()
        for write in failed:
            _log.error("a background write of %s failed: %s", chat, type(write.error).__name__)
            clumsy = attempt(self._on_error, write).error
            if clumsy is not None:
                self._untold.extend((write.error, clumsy))


def _settle(future: Future[AddResult], outcome: Outcome[AddResult]) -> None:
    if future.set_running_or_notify_cancel():
        outcome.settle(future)


def _copy(value: Any) -> Any:
    if isinstance(value, BaseMessage):
        return value.model_copy(update={name: _copy(getattr(value, name)) for name in _COPIED if hasattr(value, name)})
    if isinstance(value, Mapping):
        return {key: _copy(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return (list if isinstance(value, list) else tuple)(map(_copy, value))
    return value
