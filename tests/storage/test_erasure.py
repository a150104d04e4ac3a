"""What is purged is in no table, no log, no free page, no file of the index; what has expired goes by itself."""

from __future__ import annotations

import asyncio
import gc
import json
import math
import re
import shutil
import sqlite3
import sys
import threading
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import _lru_cache_wrapper
from multiprocessing import Pipe
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import create_engine, func, insert, select, text

from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.errors import MemoryNotFoundError, ScopeError
from langmem_adapter.index.generations import Generations, erase_index_files
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.scope import Scope
from langmem_adapter.settings import Settings
from langmem_adapter.storage import tables
from langmem_adapter.storage.erasure import Erasure, clean, remove
from langmem_adapter.testing import ScriptedChatModel
from langmem_adapter.text import stemmer, subjects
from tests.faults.processes import call, start
from tests.programs import python

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from multiprocessing.connection import Connection
    from pathlib import Path

SECRET, CHINESE = "Xylophonist-Quagmire", "麒麟貔貅饕餮"
FACT = f"Is called {SECRET} {CHINESE}"


def scan(folder: Path, needles: Sequence[bytes]) -> dict[str, int]:
    """How many of the needles each file of a folder holds."""
    # A process of its own: closing a file that SQLite has open drops the locks that SQLite holds on it in the same process.
    found: dict[str, int] = call(count_in, folder, needles)
    return found


def count_in(folder: Path, needles: Sequence[bytes]) -> dict[str, int]:
    data = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    counts = {name: sum(needle in content for needle in needles) for name, content in data.items()}
    return {name: count for name, count in counts.items() if count}


def needles_of(*texts: str, embeddings: HashEmbeddings) -> list[bytes]:
    plain = [form for t in (SECRET, SECRET.lower(), "quagmir", CHINESE, "貔貅") for form in (t.encode(), escaped(t))]
    return plain + [embeddings.vector(t).tobytes() for t in texts]


def escaped(plain: str) -> bytes:
    return json.dumps(plain)[1:-1].encode()


def count_of(memory: Memory, table: Any) -> int:
    with memory.parts.database.read() as connection:
        return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


def reply(*facts: str, relations: Sequence[dict[str, Any]] = ()) -> str:
    return json.dumps({"facts": list(facts), "entities": [], "relations": list(relations)})


CALLED = {"source": "user", "relation": "is called", "target": SECRET, "fact": 0}
FEEDS = {"source": SECRET, "relation": f"feeds {SECRET}", "target": CHINESE, "fact": 0}


def tell_secrets(memory: Memory, user_id: str = f"{SECRET}@{CHINESE}") -> None:
    """The secret in a text, its context, metadata, prompts and replies, names, relations, reasons, history and words."""
    said = f"My name is {SECRET} {CHINESE}, by the way."
    where: dict[str, Any] = {"user_id": user_id, "run_id": f"run {SECRET}"}
    (change,) = memory.add(said, context=f"{SECRET}, {CHINESE}?", **where, metadata={SECRET: [CHINESE]}).results
    memory.update(str(change.id), f"{FACT} junior", metadata={"note": CHINESE})
    (gone,) = memory.add(f"I know {SECRET}", user_id=user_id, infer=False, idempotency_key=SECRET).results
    memory.delete(str(gone.id))
    memory.graph.add(f"{SECRET} senior", "knows", CHINESE, user_id=user_id, source_type=SECRET)
    memory.graph.merge(f"{SECRET} senior", SECRET, user_id=user_id)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "data"
    place.mkdir()
    return place


@pytest.fixture
def memory(folder: Path) -> Iterator[Memory]:
    replies = [reply(FACT, relations=[CALLED, FEEDS]), reply("Likes tea")]
    opened = Memory(folder / "memory.db", model=ScriptedChatModel(replies=replies), embeddings="hash:64", graph=True)
    with opened:
        yield opened


# ── files ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_after_a_purge_no_file_holds_a_byte_of_it(folder: Path, memory: Memory) -> None:
    needles = needles_of(FACT, f"{FACT} junior", f"I know {SECRET}", embeddings=HashEmbeddings(64))
    tell_secrets(memory)
    memory.add("I like tea.", user_id="bob")
    memory.parts.indexer.write_segment()
    assert scan(folder, needles).keys() >= {"memory.db-wal", segment_of(folder).name}
    erased = memory.purge(user_id=f"{SECRET}@{CHINESE}")
    assert (erased.memories, erased.revisions, erased.traces, erased.scopes) == (1, 4, 2, 2)
    assert erased.words and erased.runs == 2 and erased.files == 2 and erased.freed > 0
    assert (erased.relations, erased.entities) == (3, 6)
    assert erased.complete and erased.remains == ()
    assert scan(folder, needles) == {}
    assert [item.text for item in memory.get_all(user_id="bob")] == ["Likes tea"]
    assert memory.verify().ok
    memory.close()
    assert scan(folder, needles) == {}


def caches_that_hold(word: str) -> set[str]:
    """Our functions with a cache of functools' that knows a word."""
    ours = [module for name, module in list(sys.modules.items()) if name.startswith("langmem_adapter.")]
    caches: dict[str, object] = {
        name: each for module in ours for name, each in vars(module).items() if isinstance(each, _lru_cache_wrapper)
    }
    caches["stem"] = stemmer("english")
    return {name for name, each in caches.items() if word in repr(gc.get_referents(each)).lower()}


def test_after_a_purge_no_cache_of_the_process_knows_a_word_of_it(memory: Memory) -> None:
    told = f"My budget at {SECRET} in {CHINESE} is 500 euro"
    for said in (told, f"{told} now"):
        memory.add(said, user_id=f"ann {SECRET}", infer=False)
    memory.search(f"What is my budget at {SECRET}?", user_id=f"ann {SECRET}")
    assert caches_that_hold("quagmir") >= {"stem", "_grams", "_scope"}
    memory.purge(user_id=f"ann {SECRET}")
    assert caches_that_hold("quagmir") == caches_that_hold("貔貅") == set()


def test_subjects_cache_does_not_grow_with_the_number_of_texts() -> None:
    kept: set[int] = set()
    for number in range(40):
        subjects(f"plan {number} " + "of the kitchen " * 10_000)
        kept.add(sum(len(each) for each in gc.get_referents(subjects) if isinstance(each, str)))
    assert max(kept) < 3_000_000


def test_a_reset_leaves_nothing_of_anybody(folder: Path, memory: Memory) -> None:
    needles = needles_of(FACT, f"{FACT} junior", embeddings=HashEmbeddings(64))
    tell_secrets(memory)
    memory.add("I like tea.", user_id="bob")
    erased = memory.reset()
    assert (erased.memories, erased.complete) == (2, True)
    assert scan(folder, [*needles, b"bob", b"Likes tea"]) == {}
    for table in tables.metadata.sorted_tables:
        assert count_of(memory, table) == 0 or table in {tables.meta, tables.changes, tables.cursors}, table
    assert replace(memory.reset(), freed=0, files=0) == Erasure()
    assert memory.verify().ok


def test_purge_erases_what_an_unsafe_deletion_left_in_pages(folder: Path, memory: Memory) -> None:
    with closing(sqlite3.connect(folder / "memory.db", isolation_level=None)) as careless:
        careless.execute("PRAGMA secure_delete = OFF")
        careless.executemany("INSERT INTO meta VALUES (?, ?)", [(f"k{n}", f"{SECRET} {n} " * n) for n in range(300)])
        careless.execute("DELETE FROM meta WHERE key LIKE 'k%'")
        careless.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert scan(folder, [SECRET.encode()]) == {"memory.db": 1}
    assert memory.purge(user_id="nobody").complete
    assert scan(folder, [SECRET.encode()]) == {}


def segment_of(folder: Path) -> Path:
    (found,) = folder.glob("memory.db.*.faiss")
    return found


def test_files_of_other_models_and_of_killed_writers_are_swept(folder: Path, memory: Memory) -> None:
    tell_secrets(memory)
    memory.parts.indexer.write_segment()
    own, segment = Generations.for_database(folder / "memory.db", "hash:64/2").manifest, segment_of(folder)
    other = Generations.for_database(folder / "memory.db", "another model").manifest
    shutil.copy(own, other)
    shutil.copy(segment, other.with_suffix(".7.faiss"))
    shutil.copy(own, folder / f".{own.name}.k1ll3d.tmp")
    mine = folder / "memory.db.backup.index"
    mine.write_bytes(b"somebody else's")
    assert memory.purge(user_id=f"{SECRET}@{CHINESE}").files == 5
    assert sorted(file.name for file in folder.glob("*.index")) == [mine.name, own.name]
    assert scan(folder, [HashEmbeddings(64).vector(f"{FACT} junior").tobytes()]) == {}


def test_erase_index_files_waits_for_a_merge_and_reports_it(folder: Path) -> None:
    files = Generations.for_database(folder / "m.db", "x")
    with files.merging():
        draft = files.manifest.with_suffix(".1.faiss")
        draft.write_bytes(b"half")
        assert erase_index_files(folder / "m.db", patience=0.1) == (1, 1)
    assert erase_index_files(folder / "m.db", patience=20) == (0, 0)
    assert not draft.exists()


def test_purge_is_not_undone_by_an_old_generation(folder: Path, memory: Memory) -> None:
    tell_secrets(memory)
    memory.add("I like tea.", user_id="bob")
    memory.parts.indexer.write_segment()
    own, segment = Generations.for_database(folder / "memory.db", "hash:64/2").manifest, segment_of(folder)
    for file in (own, segment):
        shutil.copy(file, folder.parent / file.name)
    memory.purge(user_id=f"{SECRET}@{CHINESE}")
    memory.close()
    for file in (own, segment):  # what a process killed between writing and looking leaves behind
        shutil.copy(folder.parent / file.name, file)
    with Memory(folder / "memory.db", embeddings="hash:64") as again:
        assert not segment.exists()
        assert again.verify().ok
    assert scan(folder, [HashEmbeddings(64).vector(f"{FACT} junior").tobytes()]) == {}


SCAN = """
import json, pathlib, sys
folder, needles = json.load(sys.stdin)
files = {file.name: file.read_bytes() for file in pathlib.Path(folder).iterdir() if file.is_file()}
print(json.dumps([name for name, data in files.items() if any(bytes.fromhex(needle) in data for needle in needles)]))
"""
# With so many descriptors left over, each erasure of one user's secret; then one with as many as it likes.
STARVED = """
import json, os, resource, subprocess, sys
from langmem_adapter.errors import StorageError
from langmem_adapter.memory.memory import Memory
folder, scan, text, vector = sys.argv[1:]
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
def limited(spare):
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    held = []
    try:
        while True:
            held.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        for descriptor in held[:spare]:
            os.close(descriptor)
    return held[spare:]
def traces():
    asked = json.dumps([folder, [text.encode().hex(), vector]])
    return json.loads(subprocess.run([sys.executable, "-c", scan], input=asked, capture_output=True, text=True).stdout)
with Memory(os.path.join(folder, "memory.db"), embeddings="hash:64") as memory:
    for spare in range(4):
        user = f"user {spare}"
        memory.add(text, user_id=user, infer=False)
        memory.parts.indexer.write_segment()
        held = limited(spare)
        try:
            erased = memory.purge(user_id=user)
            told = [erased.memories, len(erased.remains)]
        except StorageError:
            told = None
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        left, again = traces(), memory.purge(user_id=user)
        print(json.dumps([told, left, again.memories, again.complete, traces(), memory.verify().ok]), flush=True)
"""


def test_a_purge_without_descriptors_says_what_remains_and_another_finishes_it(folder: Path) -> None:
    vector = HashEmbeddings(64).vector(SECRET).tobytes().hex()
    done = python("-c", STARVED, folder, SCAN, SECRET, vector)
    rounds = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rounds) == 4, done.stderr
    for told, left, again, complete, afterwards, agrees in rounds:
        if told is None:  # the call failed: nothing was removed
            assert again == 1
        else:
            memories, remains = told
            assert (memories, again) == (1, 0) and (remains or not left)  # what is left in files, the caller has learnt
        assert (complete, afterwards, agrees) == (True, [], True)
    assert any(told and told[1] and left for told, left, *_ in rounds) and rounds[-1][0] == [1, 0]


# ── other processes ───────────────────────────────────────────────────────────────────────────────────────────────────


def attend(pipe: Connection, path: str, user_id: str) -> None:
    """Have the database open, tell what one knows, and do what one hears."""
    with Memory(path, embeddings="hash:64") as memory:
        reading = ExitStack()
        asked: str = "search"
        while asked != "close":
            if asked == "hold":
                connection = reading.enter_context(memory.parts.database.read())
                pipe.send(len(connection.exec_driver_sql("SELECT * FROM memories").all()))
            elif asked == "let go":
                reading.close()
                pipe.send("gone")
            else:
                pipe.send(len(memory.search("who is called so?", user_id=user_id)))
            asked = pipe.recv()
    pipe.send("closed")


class Other:
    """Another process that has the database open."""

    def __init__(self, path: Path, user_id: str) -> None:
        self._pipe, theirs = Pipe()
        self._process = start(attend, theirs, str(path), user_id)
        theirs.close()

    def hear(self) -> Any:
        assert self._pipe.poll(60)
        return self._pipe.recv()

    def ask(self, what: str) -> Any:
        self._pipe.send(what)
        return self.hear()

    def close(self) -> None:
        self._pipe.close()
        self._process.kill()
        self._process.join()
        self._process.close()


def test_another_process_forgets_at_its_next_pull_and_writes_nothing_back(folder: Path, memory: Memory) -> None:
    needles = needles_of(FACT, f"{FACT} junior", embeddings=HashEmbeddings(64))
    user = f"{SECRET}@{CHINESE}"
    tell_secrets(memory)
    with closing(Other(folder / "memory.db", user)) as silent, closing(Other(folder / "memory.db", user)) as other:
        assert silent.hear() == other.hear() == 1
        erased = memory.purge(user_id=user)
        assert erased.complete
        assert scan(folder, needles) == {}
        assert other.ask("search") == 0
        assert other.ask("close") == silent.ask("close") == "closed"  # the silent one has not looked since
        assert scan(folder, needles) == {}


def test_purge_reports_a_reader_that_keeps_the_log(folder: Path, memory: Memory) -> None:
    needles = needles_of(FACT, embeddings=HashEmbeddings(64))
    user = f"{SECRET}@{CHINESE}"
    tell_secrets(memory)
    with closing(Other(folder / "memory.db", user)) as other:
        other.hear()
        assert other.ask("hold") == 1
        erased = clean(memory.parts.database, remove(memory.parts.database, Scope(user)), patience=0.2)
        assert erased.memories == 1
        assert not erased.complete and "purge again" in erased.remains[0]
        assert scan(folder, needles)
        assert other.ask("let go") == "gone"
        again = memory.purge(user_id=user)
        assert (again.memories, again.complete) == (0, True)
        assert scan(folder, needles) == {}


def test_purging_beside_writers_loses_nothing_of_theirs(folder: Path) -> None:
    errors: list[BaseException] = []
    with Memory(folder / "m.db", embeddings="hash:64", settings=Settings(merge_after=1)) as memory:

        def write(owner: str) -> None:
            try:
                for number in range(15):
                    memory.add(f"{owner} note {number}", user_id=owner, infer=False)
            except BaseException as error:  # noqa: BLE001 - a thread's error must reach the test
                errors.append(error)

        threads = [threading.Thread(target=write, args=(owner,)) for owner in ("alice", "bob")]
        for thread in threads:
            thread.start()
        for _ in range(4):
            memory.search("note", user_id="alice")
            memory.purge(user_id="alice")
        for thread in threads:
            thread.join()
        assert errors == []
        assert len(memory.get_all(user_id="bob")) == 15
        memory.purge(user_id="alice")
        needles = [HashEmbeddings(64).vector(f"alice note {number}").tobytes() for number in range(15)]
        assert scan(folder, [b"alice note", *needles]) == {}
        assert memory.verify().ok


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def everything(memory: Memory) -> str:
    with memory.parts.database.read() as connection:
        rows = [row for table in tables.metadata.sorted_tables for row in connection.execute(select(table))]
    return "\n".join(str(row._mapping) for row in rows)


def test_purge_leaves_nothing_in_any_table(database_url: str) -> None:
    model = ScriptedChatModel(replies=[reply(FACT, relations=[CALLED, FEEDS]), reply("Likes tea")])
    with Memory(database_url, model=model, embeddings="hash:64", graph=True) as memory:
        tell_secrets(memory)
        memory.add("I like tea.", user_id="bob")
        vector = repr(HashEmbeddings(64).vector(f"{FACT} junior").tobytes())
        assert all(part in everything(memory) for part in (SECRET, CHINESE, vector))
        erased = memory.purge(user_id=f"{SECRET}@{CHINESE}")
        assert (erased.memories, erased.revisions, erased.runs, erased.traces, erased.scopes) == (1, 4, 2, 2, 2)
        assert (erased.relations, erased.entities) == (3, 6)
        assert erased.complete
        found = everything(memory)
        assert not [part for part in (SECRET, SECRET.lower(), "quagmir", CHINESE, "貔貅", vector) if part in found]
        assert memory.search("tea", user_id="bob")[0].text == "Likes tea"
        assert memory.verify().ok
        assert memory.purge(user_id=f"{SECRET}@{CHINESE}").revisions == 0


def test_a_purge_names_fields_as_a_read_does(database_url: str) -> None:
    with Memory(database_url, embeddings="hash:64") as memory:
        memory.add("Likes tea", user_id="a", run_id="1", infer=False)
        memory.add("Likes tea", user_id="a", infer=False)
        memory.add("Likes tea", user_id="b", run_id="1", infer=False)
        with pytest.raises(ScopeError):
            memory.purge()
        with pytest.raises(ScopeError):
            memory.purge(user_id=" ")
        assert memory.purge(user_id="a%").scopes == 0
        assert memory.purge(user_id="a", run_id="1").memories == 1
        assert [count.scope.named for count in memory.scopes()] == [{"user_id": "a"}, {"user_id": "b", "run_id": "1"}]
        assert memory.purge(run_id="1").memories == 1
        assert memory.purge(user_id="a").memories == 1
        assert memory.stats().scopes == 0


def test_what_an_add_of_a_wider_scope_saw_of_it_goes_as_well(database_url: str) -> None:
    with Memory(database_url, embeddings="hash:64") as memory:
        memory.add(f"I live in {SECRET}.", user_id="alice", agent_id="bot")
        seen = memory.add(
            "I live in Rome.", agent_id="bot", idempotency_key="k"
        )  # compares with alice's, and changes it
        assert seen.results[0].event in {"UPDATE", "DELETE"}
        other = memory.add("I have a sister.", agent_id="else")
        erased = memory.purge(user_id="alice")
        assert (erased.traces, erased.runs, erased.scopes) == (2, 2, 1)
        assert SECRET not in everything(memory)
        again = memory.add("I live in Rome.", agent_id="bot", idempotency_key="k")
        assert [(change.event, change.text) for change in again.results if change.id == seen.results[0].id] == [
            (seen.results[0].event, "")
        ]
        assert memory.trace(str(other.trace_id)).turns
        with pytest.raises(MemoryNotFoundError):
            memory.trace(str(seen.trace_id))


def test_an_add_that_found_nothing_leaves_no_trace_either(database_url: str) -> None:
    with Memory(database_url, embeddings="hash:64") as memory:
        assert not memory.add(f"What is the weather like in {SECRET}?", user_id="a").results
        assert SECRET in everything(memory)
        assert memory.purge(user_id="a").traces == 1
        assert SECRET not in everything(memory)


# ── the knowledge graph of others ─────────────────────────────────────────────────────────────────────────────────────


def told(fact: str, source: str, relation: str, target: str) -> str:
    return reply(fact, relations=[{"source": source, "relation": relation, "target": target, "fact": 0}])


def test_purge_erases_traces_of_a_wider_scope_that_show_a_name(database_url: str) -> None:
    replies = [told("Lives there", "user", "lives in", SECRET), *[reply("Likes tea")] * 3]
    with Memory(database_url, model=ScriptedChatModel(replies=replies), embeddings="hash:64", graph=True) as memory:
        memory.add("I live there.", user_id="alice", agent_id="bot")
        memory.add("I like tea.", agent_id="other")
        shown = memory.add("I like tea.", agent_id="bot", run_id="1")  # sees nothing of alice's
        prompted = memory.add("I like tea.", agent_id="bot")
        assert SECRET in json.dumps(memory.trace(str(prompted.trace_id)).state)
        erased = memory.purge(user_id="alice")
        assert (erased.traces, erased.relations, erased.entities) == (2, 1, 2)
        assert SECRET not in everything(memory)
        assert memory.trace(str(shown.trace_id)).turns
        assert {item.text for item in memory.get_all(agent_id="bot")} == {"Likes tea"}


def test_purge_erases_relations_from_results_of_a_wider_scope(database_url: str) -> None:
    added = {"memory": [{"id": "9", "text": "Anna lives in Rome", "event": "ADD"}]}
    replies = [
        told("Anna lives there", "Anna", "lives in", SECRET),
        told("Anna lives in Rome", "Anna", "lives in", "Rome"),
        json.dumps(added),
    ]
    with Memory(database_url, model=ScriptedChatModel(replies=replies), embeddings="hash:64", graph=True) as memory:
        memory.add("Anna lives there.", user_id="alice", agent_id="bot")
        result = memory.add("Anna lives in Rome.", agent_id="bot", idempotency_key="k")
        assert [relation.target for relation in result.relations.ended] == [SECRET]
        erased = memory.purge(user_id="alice")
        assert (erased.traces, erased.runs, erased.relations, erased.entities) == (2, 2, 1, 2)
        assert SECRET not in everything(memory)
        (again,) = memory.add("Anna lives in Rome.", agent_id="bot", idempotency_key="k").results
        assert again.text == "Anna lives in Rome"
        assert [(change.event, change.relation.target) for change in again.relations] == [("ADD", "Rome")]


def renamed(messages: list[Any]) -> str:
    """What a model decides that takes "Has a dog named Rex" for a new version of "Has a dog"."""
    (known,) = re.findall(r'"id": "(\d+)", "text": "Has a dog"', str(messages[-1].content))
    return json.dumps({"memory": [{"id": known, "text": "Has a dog named Rex", "event": "UPDATE"}]})


def said_from_a_run(memory: Memory) -> str:
    """A memory of alice's run that comes to say a relation of alice's own; gives its id."""
    (dog,) = memory.add("I have a dog.", user_id="alice", run_id="1").results
    memory.add("My dog is called Rex, I like him.", user_id="alice")
    (relation,) = memory.graph.relations(user_id="alice", relation="likes")
    assert dog.id in relation.memory_ids
    return relation.id


LIKES_REX = told("Likes Rex", "user", "likes", "Rex")
HAS_A_DOG = [told("Has a dog", "user", "has", "dog"), told("Has a dog named Rex", "user", "likes", "Rex"), renamed]


def test_purge_ends_a_relation_that_only_the_purged_run_states(database_url: str) -> None:
    model = ScriptedChatModel(replies=[LIKES_REX, *HAS_A_DOG])
    with Memory(database_url, model=model, embeddings="hash:64", graph=True) as memory:
        (mine,) = memory.add("I like Rex.", user_id="alice").results
        relation_id = said_from_a_run(memory)
        memory.delete(str(mine.id))
        assert memory.graph.relations(user_id="alice", relation="likes")[0].id == relation_id
        assert memory.purge(user_id="alice", run_id="1").relations == 1  # "has", of the run itself
        assert not memory.graph.relations(user_id="alice")
        (once,) = memory.graph.relations(user_id="alice", history=True)
        assert once.id == relation_id and once.retired_at is not None


@pytest.mark.parametrize("by_hand", [False, True])
def test_purge_keeps_a_relation_of_others_or_by_hand(database_url: str, *, by_hand: bool) -> None:
    model = ScriptedChatModel(replies=[*([] if by_hand else [LIKES_REX]), *HAS_A_DOG])
    with Memory(database_url, model=model, embeddings="hash:64", graph=True) as memory:
        if by_hand:
            memory.graph.add("alice", "likes", "Rex", user_id="alice")
        else:
            memory.add("I like Rex.", user_id="alice")
        relation_id = said_from_a_run(memory)
        memory.purge(user_id="alice", run_id="1")
        (relation,) = memory.graph.relations(user_id="alice")
        assert relation.id == relation_id
        assert len(relation.memory_ids) == (0 if by_hand else 1)


def test_stats_counts_entities_and_relations(database_url: str) -> None:
    with Memory(database_url, embeddings="hash:64") as memory:
        assert (memory.stats().entities, memory.stats().relations) == (0, 0)
        for city in ("Lyon", "Oslo"):
            memory.graph.add("Anna", "lives in", city, user_id="alice")
        memory.graph.add("Annie", "likes", "tea", user_id="alice")
        memory.graph.merge("Annie", "Anna", user_id="alice")
        assert (memory.stats().entities, memory.stats().relations) == (4, 3)  # one of the relations has ended
        memory.graph.delete_all(user_id="alice")
        assert (memory.stats().entities, memory.stats().relations) == (4, 0)
        assert memory.reset().relations == 3
        assert (memory.stats().entities, memory.stats().relations) == (0, 0)


def test_a_run_that_added_nothing_is_erased_too(database_url: str) -> None:
    with Memory(database_url, embeddings="hash:64", settings=Settings(trace_days=0)) as memory:
        memory.add("I like tea.", user_id="a")
        memory.add("I like tea.", user_id="a", run_id="r")  # NONE for what a knows or an ADD of its own
        memory.add("I like tea.", user_id="a", idempotency_key="again")
        assert memory.purge(user_id="a").runs == count_of(memory, tables.runs) + 3


def test_vectors_that_a_reindex_has_prepared_go_as_well(database_url: str) -> None:
    with Memory(database_url, embeddings="hash:64") as memory:
        for owner in ("a", "b"):
            memory.add("I like tea.", user_id=owner)
        row = {"seq": 1, "embedding": b"prepared"}

        def prepare(connection: Any) -> None:
            pks = connection.execute(select(tables.memories.c.pk)).scalars().all()
            connection.execute(insert(tables.reembedded), [{**row, "pk": pk} for pk in [*pks, 999]])

        memory.parts.database.write(prepare)
        memory.purge(user_id="a")
        assert count_of(memory, tables.reembedded) == 1


@pytest.mark.postgres
def test_purge_empties_a_pgvector_table_without_a_follower(postgres_url: str) -> None:
    with Memory(postgres_url, embeddings="hash:64", index="pgvector") as memory:
        memory.add("I like tea.", user_id="a")
        memory.add("I like milk.", user_id="b")
        memory.search("tea", user_id="a")
    with Memory(postgres_url, embeddings="hash:64", index="faiss") as memory:
        assert memory.purge(user_id="a").complete
    engine = create_engine(postgres_url)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM vectors_memories_64")).scalar() == 1
    engine.dispose()
    with Memory(postgres_url, embeddings="hash:64", index="pgvector") as memory:
        assert memory.verify().ok


# ── what has expired ──────────────────────────────────────────────────────────────────────────────────────────────────


def past(**how: float) -> datetime:
    return datetime.now(UTC) - timedelta(**how)


def test_a_sweep_deletes_what_has_expired_and_keeps_its_history(database_url: str) -> None:
    with Memory(database_url, embeddings="hash:64") as memory:
        (old,) = memory.add("old news", user_id="a", infer=False, expires_at=past(days=1)).results
        memory.add("news", user_id="a", infer=False, expires_at=past(days=-1))
        memory.add("for ever", user_id="a", infer=False)
        assert memory.sweep() == 1
        assert memory.sweep() == 0
        assert {item.text for item in memory.get_all(user_id="a", include_expired=True)} == {"news", "for ever"}
        steps = memory.history(str(old.id))
        assert [(step.event, step.reason) for step in steps] == [("ADD", "stored as said"), ("DELETE", "expired")]
        assert memory.verify().ok
        assert memory.restore(str(old.id), 1).event == "ADD"


def test_sweep_takes_several_transactions(tmp_path: Path) -> None:
    with Memory(tmp_path / "m.db", embeddings="hash:64", settings=Settings(trace_days=0)) as memory:
        items = [{"messages": f"n{i}", "user_id": "a", "infer": False, "expires_at": past(days=1)} for i in range(1203)]
        memory.add_many(items)
        assert memory.sweep() == 1203
        assert memory.stats().memories == 0


def test_sweep_minutes_delays_the_sweep_at_opening(tmp_path: Path) -> None:
    def listed(minutes: float) -> int:
        with Memory(tmp_path / "m.db", embeddings="hash:64", settings=Settings(sweep_minutes=minutes)) as memory:
            return len(memory.get_all(user_id="a", include_expired=True))

    with Memory(tmp_path / "m.db", embeddings="hash:64") as memory:
        memory.add("old news", user_id="a", infer=False, expires_at="2001-01-01")
    assert listed(60) == 1  # written a moment ago
    assert [listed(never) for never in (0, math.inf, 1e300, 1.1e9)] == [1] * 4
    assert listed(1e-6) == 0


async def test_it_is_swept_beside_writes_as_well(tmp_path: Path) -> None:
    async with Memory(tmp_path / "m.db", embeddings="hash:64", settings=Settings(sweep_minutes=1e-6)) as memory:
        memory.add("old news", user_id="a", infer=False, expires_at=past(days=1))
        await asyncio.sleep(0.01)
        await memory.aadd("news", user_id="a", infer=False, expires_at=past(days=1))
        await asyncio.sleep(0.01)
        assert [item.text for item in memory.get_all(user_id="a", include_expired=True)] == ["news"]
        memory.add("more", user_id="a", infer=False)
        assert memory.stats().memories == 1


def test_add_does_not_compare_with_expired_memories(memory: Memory) -> None:
    memory = Memory(":memory:", embeddings="hash:64")
    (old,) = memory.add("I like tea.", user_id="a", expires_at=past(minutes=1)).results
    for said in ("I like tea.", "I like green tea."):
        result = memory.add(said, user_id="a")
        assert old.id not in {change.id for change in result.results}
        assert str(old.id) not in json.dumps(memory.trace(str(result.trace_id)).candidates["known"])
    memory.sweep()
    assert memory.search("tea", user_id="a")
    memory.close()
