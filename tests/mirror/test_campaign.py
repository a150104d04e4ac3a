"""A long history, mirrored by processes that are killed again and again, read back over Bolt."""

from __future__ import annotations

import multiprocessing
import os
import random
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from langmem_adapter import Memory, StorageError
from langmem_adapter.mirror.mirror import Mirror
from langmem_adapter.storage.database import Database
from tests.faults.processes import start
from tests.mirror.same import assert_same
from tests.mirror.script import USERS, History

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

    from tests.bolt import GraphServer

pytestmark = pytest.mark.xdist_group("bolt")

LONG = os.environ.get("FAULTS") == "long"
CHANGES, KILLS = (2_000, 50) if LONG else (200, 5)


def mirror_for_ever(path: str, server: GraphServer, done: Connection) -> None:
    with closing(Database(path)) as database, server.driver() as driver:
        mirror = Mirror(database, driver, name=server.database)
        while True:
            try:
                done.send(mirror.run_once().applied)
            except StorageError as error:  # the server may still be at what the process before had begun
                if not error.transient:
                    raise


class Mirroring:
    """A process that mirrors until it is killed, at some moment after its first run."""

    def __init__(self, path: Path, server: GraphServer) -> None:
        self._done, sending = multiprocessing.Pipe(duplex=False)
        self._process = start(mirror_for_ever, str(path), server, sending)
        sending.close()

    def kill(self) -> int:
        """Kill it; how far it had come."""
        applied = int(self._done.recv())
        while self._done.poll():
            applied = self._done.recv()
        self._process.kill()
        self._process.join()
        self._process.close()
        self._done.close()
        return applied


@pytest.mark.timeout(1800)
def test_mirror_equals_the_database_after_many_kills(
    bolt_server: GraphServer, tmp_path: Path, record_property: Any
) -> None:
    seed, path = random.Random().randrange(10_000) if LONG else 17, tmp_path / "memory.db"
    kills = set(random.Random(seed).sample(range(1, CHANGES), KILLS))
    with Memory(path, graph=True) as memory:
        history = History(memory, seed)
        history.step()
        mirroring, ways = Mirroring(path, bolt_server), []
        for number in range(1, CHANGES):
            history.step()
            if number == CHANGES // 2:
                memory.purge(user_id=USERS[0])
            if number in kills:
                ways.append(mirroring.kill())
                mirroring = Mirroring(path, bolt_server)
        ways.append(mirroring.kill())
        with bolt_server.driver() as driver, memory.graph.mirror(driver, database=bolt_server.database) as mirror:
            behind = mirror.run_once()
            assert not behind.rebuilt and not mirror.run_once().changed and ways == sorted(ways) and ways[0] < ways[-1]
        entities, ties = assert_same(memory, bolt_server, USERS)
        counts = f"{CHANGES} changes, {KILLS} kills, seed {seed}: {entities} entities, {ties} relations"
        record_property("measured", f"{counts} as in the database; the last run wrote {behind.relations} of them")
