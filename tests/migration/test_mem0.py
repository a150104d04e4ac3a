"""`migrate mem0`: stores that the real Mem0 0.1.118 and 2.2.1 wrote, with 1,000 memories, 300 updates and 100 deletions."""

from __future__ import annotations

import json
import os
import pickle
import sqlite3
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.migration.mem0 import find_store, memory_rows
from langmem_adapter.migration.writer import Migration
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope
from tests.cases import each
from tests.migration.conftest import digests

if TYPE_CHECKING:
    from pathlib import Path

    from langmem_adapter.migration.writer import MigrationReport, SkippedRow
    from langmem_adapter.records.results import MemoryItem

STORES = ["mem0-0-faiss", "mem0-0-qdrant", "mem0-2-faiss", "mem0-2-qdrant"]
NOBODY = "history of a deleted memory, which names no user; -u NAME takes it"


def migrate(memory: Memory, where: Path, scope: Scope | None = None, **how: Any) -> MigrationReport:
    migration = Migration(memory, **how)
    return migration.take(memory_rows(find_store(where), scope, migration.report.lost))


def scope_of(item: MemoryItem) -> dict[str, Any]:
    return dict(item.scope.named)


def every(memory: Memory) -> dict[str, MemoryItem]:
    found: dict[str, MemoryItem] = {}
    for user in range(20):
        found |= {item.id: item for item in memory.get_all(user_id=f"user{user}", k=1_000, include_expired=True)}
    return found


def history_of(folder: Path) -> list[dict[str, Any]]:
    with sqlite3.connect(folder / "history.db") as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute("SELECT * FROM history ORDER BY rowid")]


@each("name", STORES)
def test_migrate_mem0_keeps_text_dates_actor_metadata_and_history(mem0_stores: Path, tmp_path: Path, name: str) -> None:
    folder = mem0_stores / name
    before, rows = digests(folder), history_of(folder)
    deleted = {row["memory_id"] for row in rows if row["event"] == "DELETE"}
    theirs = [row for row in json.loads((folder / "expected.json").read_bytes()) if row["id"] not in deleted]
    with Memory(tmp_path / f"{name}.db", model="offline", embeddings="hash:64") as memory:
        dry = migrate(memory, folder, dry_run=True)
        assert dry.is_dry_run and memory.stats().memories == 0
        report = migrate(memory, folder)
        assert (dry.read, dry.added, dry.left_out) == (report.read, report.added, report.left_out)
        ours = every(memory)
        assert len(theirs) == len(ours) == memory.stats().memories == 900
        for row in theirs:
            item = ours[row["id"]]
            assert item.text == row["memory"]
            assert item.scope.named == {field: row[field] for field in SCOPE_FIELDS if row.get(field)}
            assert item.created_at == datetime.fromisoformat(row["created_at"])
            assert item.updated_at == datetime.fromisoformat(row["updated_at"] or row["created_at"])
            assert (item.actor_id, item.role, item.memory_type) == (row.get("actor_id"), row.get("role"), None)
            metadata = dict(row.get("metadata") or {})
            expires = metadata.pop("expiration_date", row.get("expiration_date"))
            assert dict(item.metadata) == metadata
            day = None if expires is None else datetime.fromisoformat(f"{expires}T00:00+00:00") + timedelta(days=1)
            assert item.expires_at == day
        some = {row["memory_id"] for row in rows if row["memory_id"] in ours and row["event"] == "UPDATE"}
        changed = {row["id"]: row for row in rows if row["memory_id"] in some}
        revisions = {told.id: told for id_ in some for told in memory.history(id_)}
        assert revisions.keys() == changed.keys()
        for id_, row in changed.items():
            told = revisions[id_]
            assert (told.event, told.old_text, told.new_text) == (row["event"], row["old_memory"], row["new_memory"])
            assert told.actor_id == row["actor_id"]
        first = next(row for row in rows if row["event"] == "UPDATE" and row["memory_id"] in ours)
        then = datetime.fromisoformat(first["updated_at"]) - timedelta(microseconds=1)
        past = memory.get_all(as_of=then, k=1_000, **scope_of(ours[first["memory_id"]]))
        assert first["old_memory"] in {item.text for item in past}
        # Every row of the history is a revision, or counted with its reason.
        assert report.read["revisions"] == len(rows) == 1_400
        assert report.added["revisions"] + report.left_out.total() == 1_400 and report.left_out.keys() == {NOBODY}
        again = migrate(memory, folder)
        assert again.added.total() == 0 and again.unchanged == report.added
        assert memory.verify().ok
    assert digests(folder) == before


def test_migrate_mem0_leaves_alone_what_changed_here_and_takes_what_names_nobody(
    mem0_stores: Path, memory: Memory
) -> None:
    folder = mem0_stores / "mem0-2-qdrant"
    memory.add("I live in Lyon", user_id="user2")  # a scope with memories of its own
    migrate(memory, folder)
    one, other = [item for item in every(memory).values() if "kettle" in item.text][:2]
    memory.update(one.id, "The kettle is mine", **scope_of(one))
    memory.delete(other.id, **scope_of(other))
    report = migrate(memory, folder, Scope(user_id="ann"))
    assert report.added["memories"] == 100 and not report.left_out
    assert memory.get(one.id).text == "The kettle is mine" and other.id not in every(memory)
    assert len(memory.get_all(user_id="ann")) == 0, "deleted memories have a history and are not found"
    assert [hit.text for hit in memory.search("Where do I live?", user_id="user2", k=1)] == ["Lives in Lyon"]


def test_migrate_mem0_reads_the_json_of_get_all_and_names_what_it_rejects(memory: Memory, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {
            "id": "a" * 8,
            "memory": "Likes tea",
            "user_id": "ann",
            "created_at": "2025-05-01T10:00:00-07:00",
            "metadata": {"topic": "drinks", "memory_type": "procedural_memory", "expiration_date": "2031-02-03"},
        },
        {"id": "b" * 8, "memory": "Likes jam", "created_at": "2025-05-01"},
        {"id": "c" * 8, "memory": " ", "user_id": "ann", "created_at": "2025-05-01"},
        {"id": "d" * 8, "memory": "Likes figs", "user_id": "ann", "created_at": "never"},
        {"id": "a" * 8, "memory": "Likes rum", "user_id": "ann", "created_at": "2025-06-01"},
    ]
    file, lines = tmp_path / "all.json", tmp_path / "all.jsonl"
    file.write_text(json.dumps({"results": rows}))
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    kept: list[SkippedRow] = []
    report = migrate(memory, file, rejected=kept.append)
    assert [row.place for row in kept] == ["row 3", "row 4", "row 5"] and report.rejected == 3
    assert report.left_out == {"memory that names no user, agent or run; -u NAME takes it": 1}
    (item,) = memory.get_all(user_id="ann", include_expired=True)
    assert (item.text, dict(item.metadata), item.memory_type) == ("Likes tea", {"topic": "drinks"}, "procedural_memory")
    assert item.created_at == datetime.fromisoformat("2025-05-01T17:00:00+00:00")
    assert item.expires_at == datetime.fromisoformat("2031-02-04T00:00:00+00:00")
    assert migrate(memory, lines, Scope(user_id="bob")).added["memories"] == 1


def test_migrate_mem0_leaves_the_source_unchanged_while_mem0_holds_its_lock(
    mem0_stores: Path, memory: Memory, tmp_path: Path
) -> None:
    qdrant_client = pytest.importorskip("qdrant_client")
    folder = mem0_stores / "mem0-2-qdrant"
    client = qdrant_client.QdrantClient(path=str(folder / "qdrant"))
    try:
        before = digests(folder)
        assert migrate(memory, folder).added["memories"] == 900
        assert digests(folder) == before
    finally:
        client.close()
    journal = tmp_path / "wal.db"
    with sqlite3.connect(journal) as connection:
        connection.executescript("PRAGMA journal_mode=WAL; CREATE TABLE history (memory_id TEXT, event TEXT)")
    connection.close()
    found = find_store(mem0_stores / "mem0-0-faiss", journal)
    assert sum(1 for _ in memory_rows(found, None, Migration(memory).report.lost)) == 925
    assert [path.name for path in tmp_path.glob("wal.db*")] == ["wal.db"]


def test_migrate_mem0_rejects_a_damaged_qdrant_point_alone(mem0_stores: Path, memory: Memory, tmp_path: Path) -> None:
    folder = tmp_path / "collection" / "mem0"
    folder.mkdir(parents=True)
    (folder / "storage.sqlite").write_bytes(
        (mem0_stores / "mem0-2-qdrant/qdrant/collection/mem0/storage.sqlite").read_bytes()
    )
    with sqlite3.connect(folder / "storage.sqlite") as connection:
        points = [row for (row,) in connection.execute("SELECT rowid FROM points LIMIT 3")]
        damage = [b"\x80\x04cut", None, pickle.dumps(_Call())]
        connection.executemany("UPDATE points SET point = ? WHERE rowid = ?", zip(damage, points, strict=True))
    rejected: list[SkippedRow] = []
    report = migrate(memory, tmp_path, rejected=rejected.append)
    assert (report.rejected, report.added["memories"]) == (3, report.read["memories"] - 3)
    assert tuple(rejected) == report.rejections and all("point " in row.place for row in rejected)
    assert not (tmp_path / "called").exists()


class _Call:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch called",)


def test_migrate_mem0_refuses_a_pickle_that_calls_anything(memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "mem0.faiss").touch()
    harmful: list[Any] = [_Call(), ({"a": {"data": _Call()}}, {})]
    for harm in harmful:
        (tmp_path / "mem0.pkl").write_bytes(pickle.dumps(harm))
        with pytest.raises(InvalidInputError, match=r"'posix\.system'"):
            migrate(memory, tmp_path)
    for damage in (b"", b"junk", pickle.dumps(({}, {}))[:-3], b"\x80\x04cos\nsystem\n.", b"Pid\n."):
        (tmp_path / "mem0.pkl").write_bytes(damage)
        with pytest.raises(InvalidInputError):
            migrate(memory, tmp_path)
    assert not (tmp_path / "called").exists()


def test_migrate_mem0_names_the_stores_that_it_finds(mem0_stores: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="there are several stores"):
        find_store(mem0_stores)
    with pytest.raises(InvalidInputError, match="there is no Mem0 store in"):
        find_store(tmp_path)
    with pytest.raises(InvalidInputError, match="there is no file"):
        find_store(mem0_stores / "mem0-0-faiss", tmp_path / "history.db")
    assert find_store(mem0_stores / "mem0-0-faiss", collection="mem0").history is not None


def test_migrate_mem0_rejects_a_damaged_row_alone(memory: Memory, tmp_path: Path) -> None:
    good = {"id": "good", "memory": "Ann likes tea", "user_id": "ann", "created_at": "2025-01-01T00:00:00+00:00"}
    damage: list[dict[str, Any]] = [
        *({"id": id_} for id_ in ("nul\0", "half\ud800")),
        *({"memory": content} for content in ("nul\0", "half\ud800", None, 7)),
        *({"user_id": name} for name in ("nul\0", "half\ud800", "u" * 1_000)),
        *({"created_at": time} for time in ("yesterday", 1e300, [1])),
        {"expiration_date": "9999-12-31"},
        {"metadata": {"half\ud800": 1}},
    ]
    file = tmp_path / "all.jsonl"
    rows = [{**good, "id": f"m{number}", **each} for number, each in enumerate(damage)]
    file.write_text("\n".join(["{broken", *map(json.dumps, [*rows, good])]))
    rejected: list[SkippedRow] = []
    report = migrate(memory, file, rejected=rejected.append)
    assert (report.rejected, len(rejected), report.added["memories"]) == (len(damage) + 1, len(damage) + 1, 1)
    assert [item.id for item in memory.get_all(user_id="ann")] == ["good"]
    file.write_bytes(b'[{"memory":"\xe9"}]')
    with pytest.raises(InvalidInputError, match="is no JSON"):
        migrate(memory, file.rename(tmp_path / "all.json"))


def test_migrate_mem0_rejects_a_damaged_history_row_alone(memory: Memory, tmp_path: Path) -> None:
    good = {"memory": "Ann likes tea", "user_id": "ann", "created_at": "2025-01-01T00:00:00+00:00"}
    (tmp_path / "all.json").write_text(json.dumps([{**good, "id": id_} for id_ in ("date", "bytes", "one", "two")]))
    columns = "id, memory_id, old_memory, new_memory, event, created_at, updated_at"
    day = "2025-01-01T00:00:00+00:00"
    with sqlite3.connect(tmp_path / "history.db") as connection:
        connection.execute(f"CREATE TABLE history ({columns})")
        connection.execute("INSERT INTO history VALUES ('h1', 'date', NULL, 'Ann likes tea', 'ADD', 'yesterday', NULL)")
        connection.execute(
            "INSERT INTO history VALUES ('h2', 'bytes', NULL, CAST(x'ff' AS TEXT), 'ADD', ?, NULL)", (day,)
        )
        for id_ in ("one", "two"):  # one number of history for two memories
            connection.execute(
                "INSERT INTO history VALUES ('h3', ?, NULL, 'Ann likes tea', 'ADD', ?, NULL)", (id_, day)
            )
    report = migrate(memory, tmp_path / "all.json")
    assert (report.rejected, report.added["memories"]) == (2, 3)
    assert {item.id for item in memory.get_all(user_id="ann")} == {"date", "one", "two"}
    assert len({each.id for id_ in ("one", "two") for each in memory.history(id_, user_id="ann")}) == 2


DOUBLED = ["x"]
for _ in range(40):
    DOUBLED = [DOUBLED, DOUBLED]  # type: ignore[list-item]
LARGE = [
    *(b"\x80\x04Nr\xff\xff\xff\x7f.", b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\x00\x00x."),
    *(
        pickle.dumps(7),
        pickle.dumps(({"m": {"data": "hi", "user_id": "ann", "created_at": "2025-01-01", "x": DOUBLED}}, {})),
    ),
]


@each("content", LARGE)
def test_migrate_mem0_refuses_a_pickle_that_wants_all_memory(memory: Memory, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.faiss").write_bytes(b"")
    (tmp_path / "a.pkl").write_bytes(content)
    with pytest.raises(InvalidInputError):
        migrate(memory, tmp_path)
