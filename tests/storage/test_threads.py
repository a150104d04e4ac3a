"""Rows of checkpoints: what is written once, what is shared, and that nothing stays behind."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import event, func, select

from langmem_adapter.storage import checkpoints
from langmem_adapter.storage import checkpoints as threads
from langmem_adapter.storage.checkpoints import Packed, ThreadSpace, slots_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from langmem_adapter.storage.database import Database

TABLES = (checkpoints.checkpoints, checkpoints.channel_values, checkpoints.task_writes)
SPACE = ThreadSpace("t", "")


def row_of(space: ThreadSpace, checkpoint_id: str, parent_id: str | None, **more: object) -> dict[str, object]:
    kinds = {"state_kind": "msgpack", "metadata_kind": "msgpack", "state": b"\x80", "metadata": b"\x80"}
    row = {**space._asdict(), **kinds, "id": checkpoint_id, "parent_id": parent_id, "run_id": None, "versions": "{}"}
    return row | more


def task_write(space: ThreadSpace, checkpoint_id: str, task_id: str, channel: str, body: bytes) -> dict[str, object]:
    place = {**space._asdict(), "checkpoint_id": checkpoint_id, "task_id": task_id, "idx": 0, "task_path": ""}
    return {**place, "channel": channel, "kind": "bytes", "body": body}


def keep(
    connection: Connection, thread_id: str, number: int, changed: dict[str, int], versions: dict[str, int]
) -> None:
    parent_id = f"{number - 1:03}" if number else None
    more = {"run_id": f"run {number % 2}", "versions": json.dumps(versions)}
    values = {slot: Packed("bytes", str(changed[name]).encode()) for name, slot in slots_of(changed).items()}
    space, one = ThreadSpace(thread_id, ""), f"{number:03}"
    checkpoints.put(connection, row_of(space, one, parent_id, **more), values)
    checkpoints.put_writes(connection, [task_write(space, one, "task", "log", b"x")])


def fill(connection: Connection, thread_id: str = "t", length: int = 6) -> None:
    versions: dict[str, int] = {}
    for number in range(length):
        changed = {"log": number, **({"topic": number} if number % 3 == 0 else {})}
        versions |= changed
        keep(connection, thread_id, number, changed, versions)


def counted(database: Database) -> list[int]:
    with database.read() as connection:
        return [connection.execute(select(func.count()).select_from(table)).scalar_one() for table in TABLES]


def test_put_stores_a_shared_value_once(database: Database) -> None:
    database.write(fill)
    assert counted(database) == [6, 8, 6]
    with database.read() as connection:
        loaded = checkpoints.get(connection, SPACE, "004")
    assert loaded is not None
    assert {name: value.body for name, value in loaded.values.items()} == {"log": b"4", "topic": b"3"}


def test_keep_latest_and_delete_runs_leave_no_rows(database: Database) -> None:
    database.write(fill)
    database.write(lambda connection: threads.delete_runs(connection, ["run 1"]))
    assert counted(database) == [3, 3 + 2, 3]
    database.write(lambda connection: threads.keep_latest(connection, "t"))
    assert counted(database) == [1, 2, 1]
    database.write(lambda connection: threads.delete_thread(connection, "t"))
    assert counted(database) == [0, 0, 0]


def test_copy_thread_and_keep_latest_take_any_number_of_rows(database: Database) -> None:
    database.write(lambda connection: fill(connection, length=1_200))
    database.write(lambda connection: threads.copy_thread(connection, "t", "copy"))
    database.write(lambda connection: threads.keep_latest(connection, "t"))
    assert counted(database) == [1_201, 1_600 + 2, 1_201]


def delta(connection: Connection, length: int = 6) -> None:
    """A channel with a value at the second checkpoint, and a version there only; written to at the fourth."""
    for number in range(length):
        keep(connection, "t", number, {"delta": 1} if number == 1 else {}, {"delta": 1} if number == 1 else {})
    checkpoints.put_writes(connection, [task_write(SPACE, f"{length - 3:03}", "other", "delta", b"y")])


def test_keep_latest_keeps_what_a_delta_channel_is_rebuilt_from(database: Database) -> None:
    database.write(delta)
    database.write(lambda connection: threads.keep_latest(connection, "t"))
    assert counted(database) == [5, 1, 1 + 1]  # of the steps only what was written to that channel
    with database.read() as connection:
        assert [checkpoints.get(connection, SPACE, f"{number:03}") for number in range(5)] == [None] * 5
        seed, writes = threads.histories(connection, SPACE, "005", ["delta"])["delta"]
    assert seed == Packed("bytes", b"1")
    assert [write.body for write in writes] == [b"y"]


@pytest.mark.parametrize(
    ("make", "work"),
    [
        (delta, lambda connection: threads.keep_latest(connection, "t")),
        (fill, lambda connection: threads.delete_runs(connection, ["run 0"])),
    ],
    ids=["keep_latest", "delete_runs"],
)
def test_keep_latest_and_delete_runs_need_a_fixed_number_of_statements(
    database: Database, make: Callable[..., None], work: Callable[[Connection], None]
) -> None:
    def statements(length: int) -> int:
        def counted(connection: Connection) -> int:
            make(connection, length=length)
            said: list[str] = []
            event.listen(connection, "before_cursor_execute", lambda *given: said.append(given[2]))
            work(connection)
            threads.delete_thread(connection, "t")
            return len(said)

        return database.write(counted)

    assert statements(6) == statements(60) > 0


def test_delete_runs_removes_bare_steps_with_the_last_checkpoint(database: Database) -> None:
    database.write(delta)
    database.write(lambda connection: threads.keep_latest(connection, "t"))
    database.write(lambda connection: threads.delete_runs(connection, ["run 1"]))
    assert counted(database) == [0, 0, 0]


def test_histories_end_on_a_circle_of_checkpoints(database: Database) -> None:
    def loop(connection: Connection) -> None:
        fill(connection)
        checkpoints.put(connection, row_of(SPACE, "000", "005"), {})

    database.write(loop)
    with database.read() as connection:
        history = threads.histories(connection, SPACE, None, ["never"])
    assert history["never"][0] is None
    database.write(lambda connection: threads.keep_latest(connection, "t"))
    assert counted(database)[0] == 1
