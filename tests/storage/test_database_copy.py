"""`copy`: everything is in the target, or nothing; a target in use is followed."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.vectorstores import InMemoryVectorStore
from sqlalchemy import text

from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.errors import InvalidInputError, StorageError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.settings import Settings
from langmem_adapter.storage.backup import copy
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.meta import put
from langmem_adapter.storage.migrations import prepare
from tests.cases import each
from tests.pooler import pooled
from tests.storage.copies import LEFT_OUT, Rows, copied, fill, open_memory, rows_of, talk

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with rows in every table; it is only read."""
    path = tmp_path_factory.mktemp("filled") / "memory.db"
    fill(str(path))
    return path


def check_same(source: Rows, target: Rows) -> None:
    """Every table is equal, but for what belongs to the programs of the source, and the last change's nonce."""
    assert all(source.values()), f"no rows in {[name for name, rows in source.items() if not rows]}"
    assert {job[5] for job in source["jobs"]} == {"waiting", "running"} and len(target["jobs"]) == 1
    assert copied(target) == copied(source)
    assert not any(target[name] for name in LEFT_OUT)
    changes, last = ({row[0]: row for row in rows["changes"]} for rows in (source, target)), max(source["changes"])[0]
    before, after = changes
    assert before.keys() == after.keys()
    assert [number for number in before if before[number] != after[number]] == [last]
    assert before[last][2:] == after[last][2:]


def check_usable(database: str) -> None:
    """What the database numbers itself goes on, as does everything else."""
    with open_memory(database) as memory:
        assert memory.verify().ok
        memory.parts.database.write(talk)
        memory.add("I have a dog named Rex.", user_id="ada")
        memory.graph.add("Rex", "likes", "Cleo", user_id="ada")
        assert {hit.text for hit in memory.search("What is the dog called?", user_id="ada")} >= {"Has a dog named Rex"}
        assert memory.verify().ok


@pytest.mark.postgres
def test_copy_to_postgres_and_back_keeps_every_table(filled: Path, postgres_url: str, tmp_path: Path) -> None:
    back, source = str(tmp_path / "back.db"), rows_of(str(filled))
    report = copy(filled, postgres_url)
    server = rows_of(postgres_url)
    check_same(source, server)
    assert "***" in report.location or "@" not in report.location
    assert (report.memories, report.changes) == (len(source["memories"]), max(source["changes"])[0])
    assert copy(postgres_url, back).memories == report.memories
    returned = rows_of(back)
    assert {name for name in server if server[name] != returned[name]} == {"changes"}
    for database in (postgres_url, back):
        check_usable(database)


@pytest.mark.postgres
def test_copy_numbers_on_from_the_last_row_that_was_deleted(postgres_url: str, tmp_path: Path) -> None:
    path, back = tmp_path / "m.db", str(tmp_path / "back.db")
    database = Database(path)
    prepare(database)
    last = [database.write(talk) for _ in range(3)][-1]
    database.write(lambda connection: connection.execute(text("DELETE FROM notes")))
    database.close()
    copy(path, postgres_url)
    copy(postgres_url, back)
    for url in (postgres_url, back):
        with closing(Database(url)) as copied:
            assert copied.write(talk) == last + 1


@pytest.mark.postgres
def test_copy_to_postgres_through_pgbouncer(filled: Path, postgres_url: str) -> None:
    with pooled(postgres_url, size=2) as pooler:
        copy(filled, pooler.update_query_dict({"prepare_threshold": "None"}))
    check_same(rows_of(str(filled)), rows_of(postgres_url))


def test_copy_names_what_is_in_the_target(filled: Path, database_url: str) -> None:
    with open_memory(database_url) as memory:
        memory.add("I like tea.", user_id="bob")
        before = rows_of(database_url)
        with pytest.raises(InvalidInputError, match=r"not empty.*memories 1\b.*--replace"):
            copy(filled, database_url)
        assert rows_of(database_url) == before


@pytest.mark.parametrize("longer", [False, True])
def test_copy_replace_is_followed_by_open_memories(
    filled: Path, database_url: str, tmp_path: Path, *, longer: bool
) -> None:
    store = InMemoryVectorStore(HashEmbeddings(64))
    copy(filled, database_url)
    with open_memory(database_url) as memory, Memory(database_url, embeddings="hash:64", index=store) as other:
        memory.add_many(
            [{"messages": f"note {n}", "user_id": "bob", "infer": False} for n in range(60 if longer else 1)]
        )
        for each_memory in (memory, other):
            assert each_memory.search("note", user_id="bob")
        before = memory.stats().changes
        report = copy(filled, database_url, replace=True)
        assert memory.stats().changes > before and report.changes < memory.stats().changes
        for each_memory in (memory, other):
            assert each_memory.search("note", user_id="bob") == []
            assert "Lives in Kyoto" in {hit.text for hit in each_memory.search("Where?", user_id="ada")}
            assert each_memory.verify().ok
    source, target = rows_of(str(filled)), rows_of(database_url)
    assert copied(target) == copied(source)
    check_usable(database_url)


def test_copy_replace_is_followed_where_the_source_has_more_changes(filled: Path, database_url: str) -> None:
    with open_memory(database_url) as memory:
        memory.add("I like tea.", user_id="bob")
        assert memory.search("tea", user_id="bob")
        copy(filled, database_url, replace=True)
        assert memory.search("tea", user_id="bob") == [] and memory.verify().ok
        assert "Lives in Kyoto" in {hit.text for hit in memory.search("Where?", user_id="ada")}


def test_copy_that_is_interrupted_leaves_the_target_as_it_was(
    filled: Path, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("langmem_adapter.storage.backup._STEPS", 100)

    def stop_at(percent: int) -> Callable[[int, int], None]:
        def progress(done: int, total: int) -> None:
            if done >= percent * total // 100:
                raise KeyboardInterrupt

        return progress

    empty = rows_of_new(database_url)
    for percent in (10, 90):
        with pytest.raises(KeyboardInterrupt):
            copy(filled, database_url, progress=stop_at(percent))
        assert rows_of(database_url) == empty
    with pytest.raises(KeyboardInterrupt):
        copy(filled, tmp_path / "new.db", progress=stop_at(0))
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith("memory.db")] == []
    copy(filled, database_url)
    with closing(Database(database_url)) as database:
        [database.write(talk) for _ in range(3)]
    before = rows_of(database_url)
    with pytest.raises(KeyboardInterrupt):
        copy(filled, database_url, replace=True, progress=stop_at(98))
    assert rows_of(database_url) == before
    check_usable(database_url)


def rows_of_new(database: str) -> Rows:
    with closing(Database(database)) as opened:
        prepare(opened)
    return rows_of(database)


def damage(path: Path) -> None:
    """Overwrite a page in the middle."""
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 8192 * 4096)
        file.write(b"\xff" * 4096)


def run_sql(*statements: str) -> Callable[[Path], None]:
    def run(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            for statement in statements:
                connection.execute(statement)
            connection.commit()

    return run


def begin_anew(path: Path) -> None:
    path.unlink()
    run_sql("CREATE TABLE t (x)")(path)


def write_text(path: Path) -> None:
    path.write_text("a text, no database")


REFUSED: list[tuple[str, Callable[[Path], Any], str]] = [
    ("missing", Path.unlink, "there is no database at"),
    ("empty", lambda path: path.write_bytes(b""), "no database of langmem_adapter"),
    ("foreign", begin_anew, "no database of langmem_adapter"),
    ("text", write_text, "no SQLite database"),
    ("newer", run_sql("UPDATE alembic_version SET version_num = '9999'"), "newer langmem_adapter"),
    ("damaged", damage, "damaged|malformed"),
    ("schema", run_sql("PRAGMA writable_schema=ON", "DELETE FROM sqlite_schema WHERE name='meta'"), "malformed"),
    ("incomplete", run_sql("DROP TABLE changes"), "no database of langmem_adapter"),
]


@pytest.mark.postgres
@each(("case", "harm", "message"), REFUSED)
def test_copy_refuses_a_source_before_it_writes_anything(
    filled: Path, postgres_url: str, tmp_path: Path, case: str, harm: Callable[[Path], Any], message: str
) -> None:
    path, before = tmp_path / f"{case}.db", rows_of(postgres_url)
    for target in (str(tmp_path / "target.db"), postgres_url):
        shutil.copy(filled, path)
        harm(path)
        with pytest.raises(StorageError, match=message):
            copy(path, target, replace=True)
    assert not (tmp_path / "target.db").exists() and rows_of(postgres_url) == before


@pytest.mark.postgres
def test_copy_refuses_dates_that_the_other_database_cannot_hold(
    filled: Path, postgres_url: str, tmp_path: Path
) -> None:
    path, before = tmp_path / "m.db", rows_of(postgres_url)
    shutil.copy(filled, path)
    run_sql("UPDATE memories SET expires_at = 'soon' WHERE expires_at IS NOT NULL")(path)
    with pytest.raises(StorageError, match=r"1 dates.*memories.expires_at of .*'soon'"):
        copy(path, postgres_url)
    assert rows_of(postgres_url) == before
    copy(path, tmp_path / "copy.db")  # which keeps it as it is


def test_copy_keeps_tables_of_other_programs(filled: Path, tmp_path: Path, database_url: str) -> None:
    copy(filled, database_url)
    with closing(Database(database_url)) as database:
        database.write(lambda connection: connection.execute(text("CREATE TABLE others AS SELECT 1 AS x")))
        copy(filled, database_url, replace=True)
        with database.read() as reading:
            assert reading.execute(text("SELECT x FROM others")).scalars().all() == [1]
    foreign = tmp_path / "foreign.db"
    run_sql("CREATE TABLE others (x)", "INSERT INTO others VALUES (1)")(foreign)
    content = foreign.read_bytes()
    with pytest.raises(StorageError, match="another program"):
        copy(filled, foreign, replace=True)
    assert foreign.read_bytes() == content


def test_copy_refuses_targets_that_cannot_be_one(filled: Path) -> None:
    for target in (filled, ":memory:"):
        with pytest.raises(InvalidInputError, match="cannot be the target"):
            copy(filled, target, replace=True)


@pytest.mark.postgres
def test_copy_upgrades_a_database_of_an_older_version(tmp_path: Path, postgres_url: str) -> None:
    path = tmp_path / "old.db"
    schema = Path(__file__).parent / "schema" / "0100.sqlite.sql"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(schema.read_text(encoding="utf-8"))
        connection.execute("INSERT INTO alembic_version VALUES ('0100')")
        connection.commit()
    for target in (str(tmp_path / "new.db"), postgres_url):
        assert copy(path, target).memories == 0
        check_usable(target)


def test_copy_replace_gives_up_beside_an_open_writer(filled: Path, tmp_path: Path) -> None:
    path, begun, over = tmp_path / "m.db", threading.Event(), threading.Event()
    copy(filled, path)
    before = rows_of(str(path))

    def write() -> None:
        with closing(Database(path)) as database:

            def work(connection: Any) -> None:
                put(connection, "held", "x")
                begun.set()
                over.wait(100)

            database.write(work)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert begun.wait(100)
        with pytest.raises(StorageError, match=r"locked.*busy_timeout"):
            copy(filled, path, replace=True, settings=Settings(busy_timeout=0.05))
        assert rows_of(str(path)) == before
    finally:
        over.set()
        writer.join()
    copy(filled, path, replace=True)
    check_usable(str(path))
