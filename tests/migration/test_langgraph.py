"""`migrate langgraph` and `migrate threads`: real `SqliteStore`, `PostgresStore`, `SqliteSaver` and `PostgresSaver`."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from dataclasses import dataclass
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send, interrupt
from sqlalchemy import make_url

from langmem_adapter.adapters.checkpointer import SQLAlchemySaver
from langmem_adapter.adapters.store import MemoryStore
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.migration.langgraph import copy_threads, store_rows
from langmem_adapter.migration.mem0 import find_store, memory_rows
from langmem_adapter.migration.writer import Migration, time_of
from langmem_adapter.records.scope import Scope
from tests.migration.conftest import digests
from tests.store_kinds import expiry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.store.base import BaseStore


KINDS = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
ITEMS = 500


@pytest.fixture(params=KINDS)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where another program keeps its data."""
    if request.param == "sqlite":
        yield str(tmp_path / "theirs" / "theirs.db")
        return
    with request.getfixturevalue("new_postgres")() as url:
        yield url


@contextmanager
def theirs(address: str, what: str) -> Iterator[Any]:
    """LangGraph's own store or saver at an address."""
    if "://" in address:
        kind = getattr(
            pytest.importorskip(f"langgraph.{what}.postgres"), f"Postgres{'Store' if what == 'store' else 'Saver'}"
        )
        plain = make_url(address).set(drivername="postgresql").render_as_string(hide_password=False)
        with kind.from_conn_string(plain) as opened:
            opened.setup()
            yield opened
        return
    kind = getattr(pytest.importorskip(f"langgraph.{what}.sqlite"), f"Sqlite{'Store' if what == 'store' else 'Saver'}")
    Path(address).parent.mkdir(exist_ok=True)
    with kind.from_conn_string(address) as opened:
        opened.setup()
        yield opened


def fill(store: BaseStore) -> None:
    """500 items: LangMem's two formats, a schema of its user's, and others; every fifth one with a lifetime."""
    for number in range(ITEMS):
        user = f"user{number % 10}"
        values: list[dict[str, Any]] = [
            {"content": f"Likes tea number {number}"},
            {"kind": "Memory", "content": {"content": f"Likes jam number {number}"}},
            {"kind": "Trip", "content": {"to": "Lyon", "days": number}},
            {"title": f"Größe {number}", "tags": [1, 2.5, None, {"deep": True}]},
        ]
        value = values[number % 4]
        namespace = ("memories", user) if number % 4 < 3 else ("notes", user, "x")
        ttl: dict[str, Any] = {} if number % 5 else {"ttl": 60 + number}
        store.put(
            namespace, f"{number:08x}-0000-4000-8000-000000000000" if number % 2 else f"key {number}", value, **ttl
        )
    store.put(("memories", "user0"), "key 0", {"content": "Likes tea, and put again"}, ttl=60)


def migrate(memory: Memory, address: str, namespace: str | None = None, text: str | None = None, **how: Any) -> Any:
    migration = Migration(memory, **how)
    return migration.take(store_rows(address, namespace, text, None))


def read(store: BaseStore) -> dict[tuple[Any, ...], Any]:
    found = {}
    for namespace in store.list_namespaces(limit=1_000):
        for item in store.search(namespace, limit=1_000, refresh_ttl=False):
            if tuple(item.namespace) == tuple(namespace):
                dates = [time_of(each) for each in (item.created_at, item.updated_at)]
                found[*item.namespace, item.key] = item.value, dates
    return found


def test_migrate_langgraph_makes_the_same_items_with_dates_and_lifetimes(
    address: str, memory: Memory, tmp_path: Path
) -> None:
    with theirs(address, "store") as store:
        fill(store)
        wanted = read(store)
        before = digests(tmp_path / "theirs")
        report = migrate(memory, address, dry_run=True)
        assert report.added["items"] == ITEMS and MemoryStore(memory).search(()) == []
        assert migrate(memory, address).added["items"] == ITEMS
        assert digests(tmp_path / "theirs") == before
    ours = MemoryStore(memory)
    assert read(ours) == wanted
    born = next(dates for (*_, key), (_, dates) in wanted.items() if key == "key 0")
    assert expiry(ours, "key 0") is not None and (expiry(ours, "key 0") - born[1]).total_seconds() == pytest.approx(
        3600, abs=2
    )
    assert expiry(ours, "key 4") is None
    assert ours.search(("notes", "user3"), query="Größe 3")[0].score is not None
    ours.put(("memories", "user0"), "key 0", {"content": "mine"})
    again = migrate(memory, address)
    assert again.unchanged["items"] == ITEMS and again.added.total() == 0
    assert ours.get(("memories", "user0"), "key 0").value == {"content": "mine"}  # type: ignore[union-attr]


def test_migrate_langgraph_makes_memories_of_langmems_formats(address: str, memory: Memory) -> None:
    with theirs(address, "store") as store:
        fill(store)
        wanted = read(store)
    report = migrate(memory, address, "memories/{user}")
    assert (report.added["memories"], report.added["items"]) == (250, 250)
    assert migrate(memory, address, "memories/{user}").unchanged.total() == ITEMS
    assert report.users["user=user0"] == 25
    for number in (0, 1, 4, 5, 101):
        user = f"user{number % 10}"
        key = f"{number:08x}-0000-4000-8000-000000000000" if number % 2 else f"key {number}"
        value, dates = wanted["memories", user, key]
        text = value["content"] if isinstance(value["content"], str) else value["content"]["content"]
        (item,) = [each for each in memory.get_all(user_id=user, k=1_000) if each.text == text]
        assert [item.created_at, item.updated_at] == dates and (number % 2 == 0 or item.id == key)
        assert (item.expires_at is None) == bool(number % 5)
    assert MemoryStore(memory).get(("memories", "user2"), "key 2") is not None, "a schema of the user's is no memory"
    more = migrate(memory, address, "memories/{user}", "content.to")
    assert more.added["memories"] == 125
    item = next(each for each in memory.get_all(user_id="user2", k=1_000) if each.text == "Lyon")
    assert dict(item.metadata) == {"kind": "Trip"}


def test_migrate_langgraph_gives_memories_that_name_no_user_to_the_owner(memory: Memory, tmp_path: Path) -> None:
    address = str(tmp_path / "theirs" / "theirs.db")
    with theirs(address, "store") as store:
        store.put(("memories", "bob"), "1", {"content": "Likes tea"})
        store.put(("memories",), "2", {"content": "Likes jam"})
    for namespace in ("memories/{agent}", "memories"):
        Migration(memory).take(store_rows(address, namespace, None, Scope(user_id="ann")))
    assert [item.text for item in memory.get_all(agent_id="bob")] == ["Likes tea"]
    assert [item.text for item in memory.get_all(user_id="ann")] == ["Likes jam"]


def test_migrate_langgraph_leaves_items_and_threads_alone_that_were_deleted(address: str, memory: Memory) -> None:
    with theirs(address, "store") as store, theirs(address, "checkpoint") as saver:
        fill(store)
        for number in range(2):
            graph(saver).invoke({"said": ["hello"]}, thread(number))
    ours, target = MemoryStore(memory), SQLAlchemySaver(memory)
    migrate(memory, address)
    copy_threads(address, target, Migration(memory))
    ours.delete(("memories", "user0"), "key 0")
    target.delete_thread("thread 0")
    with theirs(address, "store") as store:
        store.put(("memories", "user0"), "key new", {"content": "Likes figs"})
    for dry_run in (True, False):
        again, threads = migrate(memory, address, dry_run=dry_run), Migration(memory, dry_run=dry_run)
        copy_threads(address, target, threads)
        assert (again.added["items"], again.unchanged["items"]) == (1, ITEMS)
        assert threads.report.added.total() == 0 and threads.report.unchanged["checkpoints"] > 0
    assert ours.get(("memories", "user0"), "key 0") is None and ours.get(("memories", "user0"), "key new") is not None
    assert [states(graph(target), number) == [None] for number in range(2)] == [True, False]


def test_migrate_langgraph_refuses_what_it_cannot_read(memory: Memory, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="there is no file"):
        migrate(memory, str(tmp_path / "none.db"))
    with sqlite3.connect(tmp_path / "theirs.db") as connection:
        connection.execute("CREATE TABLE other (x)")
    with pytest.raises(InvalidInputError, match="no table of a LangGraph store"):
        migrate(memory, str(tmp_path / "theirs.db"))
    with pytest.raises(InvalidInputError, match=r"write \{user\}"):
        migrate(memory, str(tmp_path / "theirs.db"), "memories")
    with sqlite3.connect(tmp_path / "theirs.db") as connection:
        connection.execute("CREATE TABLE store (prefix, key, value, created_at, updated_at)")
        rows = [("a", "1", "{}", "2025-01-01"), ("a", "2", "junk", "2025-01-01"), ("a", "3", "{}", "never")]
        connection.executemany("INSERT INTO store VALUES (?, ?, ?, ?4, ?4)", rows)
    kept: list[Any] = []
    report = migrate(memory, str(tmp_path / "theirs.db"), rejected=kept.append)
    assert (report.added["items"], report.rejected) == (1, 2)
    assert sorted(row.place for row in kept) == ["item a/2", "item a/3"]


# ── threads ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class State(TypedDict, total=False):
    said: Annotated[list[str], add]
    answer: str


def graph(saver: BaseCheckpointSaver[Any]) -> Any:
    """A graph with a subgraph that asks, and a fan-out."""
    inner = StateGraph(State)
    inner.add_node("ask", lambda _: {"answer": interrupt("May I?"), "said": ["asked"]})
    inner.add_edge(START, "ask")
    outer = StateGraph(State)
    outer.add_node("begin", lambda _: {"said": ["begun"]})
    outer.add_node("part", lambda state: {"said": [f"part {state['answer']}"]})
    outer.add_node("inner", inner.compile(checkpointer=True))
    outer.add_node("end", lambda state: {"said": [f"end {state['answer']}"]})
    outer.add_edge(START, "begin")
    outer.add_conditional_edges("begin", lambda _: [Send("part", {"answer": str(n)}) for n in range(3)], ["part"])
    outer.add_edge("part", "inner")
    outer.add_edge("inner", "end")
    return outer.compile(checkpointer=saver)


def thread(number: int) -> dict[str, Any]:
    return {"configurable": {"thread_id": f"thread {number}"}}


def states(compiled: Any, number: int) -> list[Any]:
    """The history of a thread, without the order of tasks that ran side by side, and the state of its subgraph."""
    inner = compiled.get_state(thread(number), subgraphs=True)
    return [*compiled.get_state_history(thread(number)), inner.tasks[0].state if inner.tasks else None]


def test_migrate_threads_keeps_history_and_interrupts_resume(address: str, memory: Memory, tmp_path: Path) -> None:
    with theirs(address, "checkpoint") as saver:
        old = graph(saver)
        for number in range(20):
            old.invoke({"said": [f"hello {number}"]}, thread(number))
            if number % 4 == 0:
                old.invoke(Command(resume="yes"), thread(number))
        before = digests(tmp_path / "theirs")
        target = SQLAlchemySaver(memory)
        dry = Migration(memory, dry_run=True)
        copy_threads(address, target, dry)
        assert list(target.list(None)) == []
        first, second = Migration(memory), Migration(memory)
        copy_threads(address, target, first)
        assert digests(tmp_path / "theirs") == before
        copy_threads(address, target, second)
        assert first.report.added == dry.report.added == second.report.unchanged
        assert first.report.added["checkpoints"] == sum(1 for _ in saver.list(None))
        new = graph(target)
        for number in range(20):
            assert states(new, number) == states(old, number)
        for number in (1, 2, 3):
            resumed = new.invoke(Command(resume="no"), thread(number))
            assert resumed == old.invoke(Command(resume="no"), thread(number))
            assert resumed["said"][-1] == "end no"


def test_migrate_threads_leaves_a_thread_that_went_on_here(memory: Memory, tmp_path: Path) -> None:
    address, target = str(tmp_path / "theirs" / "theirs.db"), SQLAlchemySaver(memory)
    with theirs(address, "checkpoint") as saver:
        graph(saver).invoke({"said": ["hello"]}, thread(0))
        copy_threads(address, target, Migration(memory))
        ended = graph(target).invoke(Command(resume="yes"), thread(0))
        graph(saver).invoke(Command(resume="no"), thread(0))
        again = Migration(memory)
        copy_threads(address, target, again)
    assert again.report.left_out == {"thread that went on here": 1} and not again.report.added["checkpoints"]
    assert graph(target).get_state(thread(0)).values["said"] == ended["said"]


def test_migrate_threads_that_broke_off_completes_pending_writes(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = str(tmp_path / "theirs" / "theirs.db")
    with theirs(address, "checkpoint") as saver:
        graph(saver).invoke({"said": ["hello"]}, thread(0))
    target, put = SQLAlchemySaver(memory), SQLAlchemySaver.put
    calls: list[int] = []

    def broken(*given: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return put(*given)

    monkeypatch.setattr(SQLAlchemySaver, "put", broken)
    with pytest.raises(KeyboardInterrupt):
        copy_threads(address, target, Migration(memory))
    copy_threads(address, target, Migration(memory))
    resumed = graph(target).invoke(Command(resume="yes"), thread(0))
    assert resumed["said"][-1] == "end yes"


@dataclass
class Place:
    """A type of a program's own."""

    name: str


def test_migrate_threads_names_a_type_that_it_does_not_know(memory: Memory, tmp_path: Path) -> None:
    address = str(tmp_path / "theirs" / "theirs.db")
    with theirs(address, "checkpoint") as saver:
        builder = StateGraph(State)
        builder.add_node("go", lambda _: {"answer": Place("Lyon")})
        builder.add_edge(START, "go")
        compiled: Any = builder.compile(checkpointer=saver)
        compiled.invoke({"said": []}, thread(0))
    kept: list[Any] = []
    migration = Migration(memory, rejected=kept.append)
    copy_threads(address, SQLAlchemySaver(memory), migration)
    assert migration.report.rejected == 1 and "Place" in kept[0].reason and "--allow MODULE:NAME" in kept[0].reason
    allowed = Migration(memory)
    copy_threads(address, SQLAlchemySaver(memory), allowed, [(Place.__module__, "Place")])
    assert allowed.report.rejected == 0


@pytest.mark.postgres
def test_migrate_into_postgres_makes_the_same_memories_items_threads_and_messages(
    postgres_url: str, mem0_stores: Path, tmp_path: Path
) -> None:
    """All kinds of rows into one database on a server, which other programs write to as well."""
    address = str(tmp_path / "theirs" / "theirs.db")
    with theirs(address, "store") as store, theirs(f"{address}.threads", "checkpoint") as saver:
        fill(store)
        wanted, old = read(store), graph(saver)
        old.invoke({"said": ["hello"]}, thread(0))
        with Memory(postgres_url, model="offline", embeddings="hash:64") as memory:
            memory.add("I live in Lyon", user_id="user2")
            migration = Migration(memory)
            migration.take(memory_rows(find_store(mem0_stores / "mem0-2-faiss"), None, migration.report.lost))
            migration.take(store_rows(address, None, None, None))
            copy_threads(f"{address}.threads", SQLAlchemySaver(memory), migration)
            assert migration.report.added == {"memories": 900, "revisions": 1170, "items": ITEMS, "checkpoints": 6}
            assert read(MemoryStore(memory)) == wanted
            assert states(graph(SQLAlchemySaver(memory)), 0) == states(old, 0)
            memory.add("I live in Oslo now", user_id="user2")
            assert memory.search("Where does the user live?", user_id="user2", k=1)[0].text == "Lives in Oslo"
            assert memory.verify().ok


def test_migrate_langgraph_rejects_a_damaged_item_alone(memory: Memory, tmp_path: Path) -> None:
    value = '{"content": "Ann likes tea"}'
    good = {"prefix": "memories.ann", "key": "k", "value": value, "ttl_minutes": None}
    damage: list[dict[str, Any]] = [
        *({"key": key} for key in (None, b"\xff", "nul\0")),
        *({"value": text} for text in (None, 5, "[" * 100_000, '{"a": "half\\ud800"}', '{"a": NaN}')),
        *({"prefix": prefix} for prefix in ("nul\0.b", "a." * 2_000)),
        *({"ttl_minutes": minutes} for minutes in (float("inf"), "never", 1e18)),
    ]
    with sqlite3.connect(tmp_path / "s.db") as connection:
        connection.execute("CREATE TABLE store (prefix, key, value, created_at, updated_at, ttl_minutes)")
        for row in [*({**good, **each} for each in damage), {**good, "key": "good"}]:
            times = "'2025-01-01 00:00:00', '2025-01-01 00:00:00'"
            write = f"INSERT INTO store VALUES (:prefix, :key, :value, {times}, :ttl_minutes)"
            connection.execute(write, row)
        connection.execute(f"INSERT INTO store VALUES ('a', CAST(x'ff' AS TEXT), '{{}}', {times}, NULL)")
    migration = Migration(memory)
    report = migration.take(store_rows(str(tmp_path / "s.db"), None, None, None))
    assert (report.rejected, report.added["items"]) == (len(damage) + 1, 1)
    report = Migration(memory).take(store_rows(str(tmp_path / "s.db"), "memories/{user}", None, None))
    assert report.added["memories"] >= 1


def test_migrate_threads_rejects_a_damaged_thread_alone(memory: Memory, tmp_path: Path) -> None:
    address = str(tmp_path / "theirs" / "theirs.db")
    damage = ["checkpoint = x'c1ff'", "checkpoint = NULL", "checkpoint = x'01'", "type = 'pickle'", "metadata = '{'"]
    with theirs(address, "checkpoint") as saver:
        for number in range(len(damage) + 1):
            config: Any = {"configurable": {"thread_id": str(number), "checkpoint_ns": ""}}
            saver.put(config, empty_checkpoint(), {"source": "input", "step": 1}, {})
    with sqlite3.connect(address) as connection:
        for number, each in enumerate(damage):
            connection.execute(f"UPDATE checkpoints SET {each} WHERE thread_id = '{number}'")
    migration = Migration(memory)
    copy_threads(address, SQLAlchemySaver(memory), migration)
    assert (migration.report.rejected, migration.report.added["checkpoints"]) == (len(damage), 1)
