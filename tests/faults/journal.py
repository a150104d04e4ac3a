"""What a process meant to do and what it was told was done, written down outside the database.

A line is on the disk before the next step is taken, so a process killed at any moment leaves: operations that were
acknowledged, operations that were refused, and at most one open operation for each of its threads.
"""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["Evidence", "Journal", "Operation", "count", "lines", "read"]

Evidence: TypeAlias = "tuple[str, str]"
"""What one row of the history must show: the event, and the text (ADD, UPDATE) or the id (DELETE, RESTORE)."""


class Journal:
    """The journal of one process; its threads share it.

    Args:
        path: The file; it belongs to this process alone.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._lock = threading.Lock()
        self._count = 0

    def intend(self, evidence: Sequence[Evidence]) -> int:
        """Note what is about to be asked for; all of it or nothing must happen. Returns the operation's number."""
        with self._lock:
            self._count += 1
            number = self._count
        self._put(say="intend", number=number, evidence=evidence)
        return number

    def done(self, number: int, ids: Sequence[str | None]) -> None:
        """Note that the engine acknowledged it."""
        self._put(say="done", number=number, ids=ids)

    def refused(self, number: int, error: Exception) -> None:
        """Note that the engine said it was not done."""
        self._put(say="refused", number=number, error=repr(error))

    def problem(self, text: str) -> None:
        """Note something that should never have been seen."""
        self._put(say="problem", text=text)

    def _put(self, **line: Any) -> None:
        data = json.dumps(line).encode() + b"\n"
        with self._lock:
            os.write(self._file, data)
            os.fsync(self._file)


@dataclass(slots=True)
class Operation:
    """One operation as the journal tells it: `outcome` is `"done"`, `"refused"`, or `"open"` when the process was killed."""

    evidence: list[Evidence]
    outcome: str = "open"
    ids: list[str] = field(default_factory=list)


def lines(path: Path) -> list[dict[str, Any]]:
    """The complete lines of a journal."""
    whole = path.read_bytes() if path.exists() else b""
    return [json.loads(line) for line in whole[: whole.rfind(b"\n") + 1].splitlines()]


def read(path: Path) -> tuple[list[Operation], list[str]]:
    """The operations of a journal, and the problems that its process saw."""
    operations: dict[int, Operation] = {}
    problems: list[str] = []
    for line in lines(path):
        match line["say"]:
            case "intend":
                operations[line["number"]] = Operation([(event, what) for event, what in line["evidence"]])
            case "problem":
                problems.append(f"{path.name}: {line['text']}")
            case outcome:
                operations[line["number"]].outcome = outcome
                operations[line["number"]].ids = line.get("ids", [])
    return list(operations.values()), problems


def count(operations: Sequence[Operation], outcome: str) -> Counter[Evidence]:
    """How often each piece of evidence belongs to an operation of that outcome."""
    return Counter(piece for operation in operations if operation.outcome == outcome for piece in operation.evidence)
