"""An import that is killed goes on where it was, and nothing is lost, doubled or numbered anew."""

from __future__ import annotations

import os
import random
import signal
from typing import TYPE_CHECKING

from sqlalchemy import Engine, event

from langmem_adapter.storage.lossless import imports
from tests.faults.processes import start
from tests.lossless import EVERYTHING, Story, body, consistent, emptied, open_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.faults.conftest import Bound


def import_until_killed(url: str, file: str, seed: int) -> None:
    """Import a file in small batches, and die at a random line or before a random commit."""
    dice = random.Random(seed)
    imports._BATCH = 3  # type: ignore[misc]  # a child's
    memory = open_memory(url)
    with open(file, "rb") as stream:  # noqa: PTH123 - a child's
        lines = stream.readlines()
    at, commits = dice.randrange(len(lines) * 2), [dice.randrange(1, 12)]

    @event.listens_for(Engine, "commit")
    def commit(_: object) -> None:
        commits[0] -= 1
        if at >= len(lines) and not commits[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    def read() -> Iterator[bytes]:
        for number, line in enumerate(lines):
            if number == at:
                os.kill(os.getpid(), signal.SIGKILL)
            yield line

    memory.import_(read())
    memory.close()


def test_an_import_that_is_killed_goes_on_where_it_was(
    database_url: str, tmp_path: Path, bound: Bound, measured: Callable[[str], None]
) -> None:
    file, kills, ended, resumed, seed = tmp_path / "all.jsonl", 0, 0, 0, 0
    with open_memory(":memory:") as source:
        Story(source).tell(EVERYTHING)
        lines = list(source.export(everything=True))
    file.write_bytes(b"".join(lines))
    with open_memory(database_url) as target:
        while kills < bound(4, long=50):
            seed += 1
            child = start(import_until_killed, database_url, str(file), seed)
            child.join()
            kills += child.exitcode == -signal.SIGKILL
            assert consistent(target)
            if child.exitcode == 0 or seed % 3 == 0 or kills == bound(4, long=50):
                report = target.import_(lines)
                ended, resumed = ended + 1, resumed + bool(report.resumed_at)
                assert report.complete and body(target) == lines[1:] and target.verify().ok
                emptied(target)
        measured(
            f"{kills} imports killed, {resumed} of {ended} that were ended then went on where one had stopped: the same lines"
        )
