"""The checkpointer beside its graphs: opening, sharing, bad input, many at once, other processes, a killed one."""

from __future__ import annotations

import asyncio
import inspect
import operator
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated, Any, TypedDict
from uuid import UUID, uuid4

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.graph import START, StateGraph
from sqlalchemy import create_engine

from langmem_adapter.adapters.checkpointer import SQLAlchemySaver
from langmem_adapter.errors import InvalidInputError, StorageError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.storage.database import Database
from tests.cases import each
from tests.programs import Program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig
    from langgraph.graph.state import CompiledStateGraph


class State(TypedDict):
    count: Annotated[int, operator.add]


def counting(saver: BaseCheckpointSaver[str]) -> CompiledStateGraph[Any, Any, Any, Any]:
    builder = StateGraph(State)
    builder.add_node("add", lambda _: {"count": 1})
    builder.add_edge(START, "add")
    return builder.compile(checkpointer=saver)


def thread(thread_id: Any, **more: Any) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, **more}}


def put(saver: SQLAlchemySaver, config: RunnableConfig, **metadata: Any) -> RunnableConfig:
    return saver.put(config, empty_checkpoint(), {"source": "loop", "step": 0, **metadata}, {})  # type: ignore[typeddict-item]


@pytest.fixture
def saver(database_url: str) -> Iterator[SQLAlchemySaver]:
    with SQLAlchemySaver(database_url) as opened:
        yield opened


@pytest.fixture(scope="module")
def memory_saver() -> Iterator[SQLAlchemySaver]:
    with SQLAlchemySaver(":memory:") as opened:
        yield opened


# ── opening ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_it_overrides_every_method_of_the_interface() -> None:
    methods = {name for name, _ in inspect.getmembers(BaseCheckpointSaver, inspect.isfunction)}
    ours = {name for name in methods if getattr(SQLAlchemySaver, name) is not getattr(BaseCheckpointSaver, name)}
    assert methods - ours == {"get", "aget", "__init_subclass__", "__class_getitem__"} & methods | {"get", "aget"}
    for name in sorted(ours - {"__init__", "with_allowlist"}):
        theirs = list(inspect.signature(getattr(BaseCheckpointSaver, name)).parameters)
        assert list(inspect.signature(getattr(SQLAlchemySaver, name)).parameters) == theirs, name


async def test_from_conn_string_opens_in_with_and_async_with(database_url: str) -> None:
    async with SQLAlchemySaver.from_conn_string(database_url) as saver:
        await saver.setup()
        assert (await counting(saver).ainvoke({"count": 0}, thread("t")))["count"] == 1
    with SQLAlchemySaver.from_conn_string(database_url) as saver:
        saver.setup()
        assert counting(saver).invoke({"count": 0}, thread("t"))["count"] == (1 if database_url == ":memory:" else 2)
    with pytest.raises(StorageError, match="closed"):
        saver.get_tuple(thread("t"))


@pytest.mark.postgres
def test_an_engine_is_taken_for_postgres(postgres_url: str) -> None:
    engine = create_engine(postgres_url)
    with SQLAlchemySaver(engine) as saver:
        assert counting(saver).invoke({"count": 0}, thread("t"))["count"] == 1


def test_it_shares_the_database_of_a_memory_and_leaves_it_open(tmp_path: Path) -> None:
    with Memory(tmp_path / "m.db", index="exact") as memory:
        with SQLAlchemySaver(memory) as saver:
            counting(saver).invoke({"count": 0}, thread("t"))
        memory.add("I live in Lyon.", user_id="ada")
    with SQLAlchemySaver(tmp_path / "m.db") as again:
        assert counting(again).get_state(thread("t")).values == {"count": 1}


# ── what it is given ──────────────────────────────────────────────────────────────────────────────────────────────────

CALLS: dict[str, Callable[[SQLAlchemySaver, Any], Any]] = {
    "get_tuple": lambda saver, config: saver.get_tuple(config),
    "list": lambda saver, config: saver.list(config),
    "put": put,
    "put_writes": lambda saver, config: saver.put_writes(config, [("a", 1)], "task"),
    "history": lambda saver, config: saver.get_delta_channel_history(config=config, channels=["a"]),
}


@each("call", CALLS.values())
@each("config", [{}, {"configurable": {}}, thread(""), thread(None), thread(None, checkpoint_ns="x")])
def test_missing_thread_id_is_an_error_that_names_the_fix(
    memory_saver: SQLAlchemySaver, call: Callable[[SQLAlchemySaver, Any], Any], config: Any
) -> None:
    with pytest.raises(InvalidInputError, match=r'thread_id is missing: give config=\{"configurable": \{"thread_id"'):
        call(memory_saver, config)


@each("call", CALLS.values())
@each(
    ("config", "problem"),
    [
        (thread("a\x00b"), "thread_id holds a NUL"),
        (thread("a\ud800"), "thread_id holds a lone surrogate"),
        (thread(b"a"), "thread_id must be a str"),
        (thread("a" * 513), "use a hash"),
        (thread("a", checkpoint_ns="x\x00"), "checkpoint_ns holds a NUL"),
        (thread("a", checkpoint_id="x\x00"), "checkpoint_id holds a NUL"),
    ],
)
def test_ids_that_a_database_cannot_keep_are_refused(
    memory_saver: SQLAlchemySaver, call: Callable[[SQLAlchemySaver, Any], Any], config: Any, problem: str
) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        call(memory_saver, config)


def test_other_bad_input_is_refused(memory_saver: SQLAlchemySaver) -> None:
    saver, config = memory_saver, thread("t", checkpoint_id="c")
    unversioned: Any = empty_checkpoint() | {"channel_versions": {"a": None}}
    for call, problem in (
        (lambda: saver.put_writes(thread("t"), [("a", 1)], "task"), "needs a checkpoint_id"),
        (lambda: saver.put_writes(config, [("a\x00", 1)], "task"), "a channel holds a NUL"),
        (lambda: saver.put_writes(config, [("a", 1)], "ta\x00sk"), "task_id holds a NUL"),
        (lambda: saver.put_writes(config, [("a", 1)], "task", "pa\x00th"), "task_path holds a NUL"),
        (lambda: saver.list(None, limit=-1), "limit must be a whole number from 0, not -1"),
        (lambda: saver.prune(["t"], strategy="keep_all"), "strategy is one of .keep_latest., .delete., not"),
        (lambda: saver.prune("t"), "thread_ids must be a list"),
        (lambda: saver.delete_for_runs("r"), "run_ids must be a list"),
        (lambda: saver.delete_thread(""), "thread_id is missing"),
        (lambda: saver.put(thread("t"), unversioned, {}, {}), "has version None"),
    ):
        with pytest.raises(InvalidInputError, match=problem):
            call()
    assert list(saver.list(thread("t"))) == []


def test_thread_id_may_be_a_number_or_uuid(saver: SQLAlchemySaver) -> None:
    number = UUID(int=7)
    for thread_id in (7, number):
        counting(saver).invoke({"count": 0}, thread(thread_id))
        assert counting(saver).get_state(thread(str(thread_id))).values == {"count": 1}


def test_metadata_is_compared_by_value_and_type(saver: SQLAlchemySaver) -> None:
    for score in (1, "1", None, True, 1.5, [1, 2], {"a": 1}, "ü'\"%_"):
        put(saver, thread("t"), score=score, run_id=str(score))
    for wanted in ("1", 1.5, [1, 2], {"a": 1}, "ü'\"%_"):
        assert [one.metadata for one in saver.list(None, filter={"score": wanted})] == [
            {"source": "loop", "step": 0, "score": wanted, "run_id": str(wanted)}
        ]
    for wanted in ("%", 2, "None", "1.5"):
        assert list(saver.list(None, filter={"score": wanted})) == []
    assert len(list(saver.list(None, filter={"run_id": "1"}))) == 2
    assert len(list(saver.list(None, filter={"run_id": "1", "score": "1"}))) == 1


def test_a_thread_with_checkpoints_is_not_copied_over(memory_saver: SQLAlchemySaver) -> None:
    for thread_id in ("a", "b"):
        counting(memory_saver).invoke({"count": 0}, thread(thread_id))
    with pytest.raises(
        InvalidInputError, match=r"thread 'b' has checkpoints or writes already; copy into a new thread"
    ):
        memory_saver.copy_thread("a", "b")


def test_nor_is_one_to_which_a_task_wrote_late(memory_saver: SQLAlchemySaver) -> None:
    counting(memory_saver).invoke({"count": 0}, thread("a"))
    place = memory_saver.get_tuple(thread("a"))
    assert place is not None
    late: Any = {"configurable": {**place.config["configurable"], "thread_id": "b"}}
    for config in (place.config, late):
        memory_saver.put_writes(config, [("count", 1)], "task")
    with pytest.raises(InvalidInputError, match="delete_thread"):
        memory_saver.copy_thread("a", "b")


def test_get_next_version_grows_and_is_unique(memory_saver: SQLAlchemySaver) -> None:
    version, seen = None, []
    for _ in range(20):
        version = memory_saver.get_next_version(version, None)
        seen.append(version)
    assert seen == sorted(seen)
    assert memory_saver.get_next_version(seen[3], None) != seen[4]
    assert memory_saver.get_next_version(41, None).startswith(f"{42:032}.")  # type: ignore[arg-type]


# ── many at once ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_many_threads_share_a_saver(saver: SQLAlchemySaver) -> None:
    graph, start = counting(saver), threading.Barrier(8)

    def work(number: int) -> Any:
        start.wait(30)
        return [graph.invoke({"count": 0}, thread(f"t{number}"))["count"] for _ in range(4)][-1]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [4] * 8


def test_a_list_may_be_read_while_others_write(saver: SQLAlchemySaver) -> None:
    for _ in range(40):
        put(saver, thread("t"))
    found = []
    for one in saver.list(thread("t")):
        found.append(one.checkpoint["id"])
        put(saver, thread("t"))
    assert len(found) == len(set(found)) == 40
    assert found == sorted(found, reverse=True)


PROGRAM = """
import operator, os, signal, sys
from typing import Annotated, TypedDict
from langgraph.graph import START, StateGraph
from langmem_adapter.adapters.checkpointer import SQLAlchemySaver

class State(TypedDict):
    count: Annotated[int, operator.add]

def die(state):
    if sys.argv[3] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return {"count": 100}

builder = StateGraph(State)
builder.add_node("add", lambda _: {"count": 1})
builder.add_node("die", die)
builder.add_edge(START, "add")
builder.add_edge("add", "die")
with SQLAlchemySaver(sys.argv[1]) as saver:
    graph = builder.compile(checkpointer=saver)
    for turn in range(5):
        config = {"configurable": {"thread_id": sys.argv[2]}}
        print(graph.invoke({"count": 0}, config, durability="sync")["count"], flush=True)
"""


def test_processes_share_a_file_and_what_a_killed_one_had_done_is_there(tmp_path: Path) -> None:
    path = tmp_path / "threads.db"
    other, killed = Program("-c", PROGRAM, path, "other", "live"), Program("-c", PROGRAM, path, "killed", "die")
    with SQLAlchemySaver(path) as saver:
        while other.runs():
            counting(saver).invoke({"count": 0}, thread("here"))
    done = other.end()
    assert (done.stdout, done.stderr) == ("101\n202\n303\n404\n505\n", "")
    assert killed.end().returncode == -9
    with SQLAlchemySaver(path) as saver:
        state = counting(saver).get_state(thread("killed"))
        assert state.values == {"count": 1}
        assert state.metadata is not None and state.metadata["step"] == 1
        assert {one.config["configurable"]["thread_id"] for one in saver.list(None)} == {"other", "killed", "here"}


async def test_a_write_that_was_cancelled_before_its_turn_is_not_there(saver: SQLAlchemySaver) -> None:
    config = thread(str(uuid4()))
    task = asyncio.create_task(saver.aput(config, empty_checkpoint(), {}, {}))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await saver.aget_tuple(config) is None


def test_writers_that_share_a_commit_get_their_own_errors(tmp_path: Path) -> None:
    database = Database(tmp_path / "x.db")
    database.close()
    with SQLAlchemySaver(tmp_path / "x.db") as saver:
        counting(saver).invoke({"count": 0}, thread("a"))

        async def both() -> Any:
            calls = (saver.acopy_thread("a", "a"), saver.acopy_thread("a", "b"), saver.acopy_thread("nobody", "c"))
            return await asyncio.gather(*calls, return_exceptions=True)

        refused, *fine = asyncio.run(both())
        assert isinstance(refused, InvalidInputError)
        assert fine == [None, None]
        assert len(list(saver.list(thread("b")))) == len(list(saver.list(thread("a"))))
