"""What an export carries, and what an import takes: lines as they are, damaged, renamed, known, of another history."""

from __future__ import annotations

import json
import random
import re
from contextlib import suppress
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import Boolean, func, select

from langmem_adapter.adapters.store import MemoryStore
from langmem_adapter.errors import ConflictError, EntityNotFoundError, InvalidInputError, ScopeError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope
from langmem_adapter.storage.items import PLACES
from langmem_adapter.storage.lossless.kinds import KINDS, text_of
from langmem_adapter.storage.sources import MessageThread
from langmem_adapter.storage.tables import metadata
from tests.cases import each
from tests.lossless import EVERYTHING, Story, body, consistent, open_memory, signed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def source() -> Iterator[Memory]:
    """A memory with a row in every table that is carried."""
    with open_memory(":memory:") as memory:
        Story(memory).tell(EVERYTHING)
        yield memory


@pytest.fixture(scope="module")
def lines(source: Memory) -> list[bytes]:
    return list(source.export(everything=True))


@pytest.fixture
def target() -> Iterator[Memory]:
    with open_memory(":memory:") as memory:
        yield memory


def changed(lines: list[bytes], kind: str, change: Callable[[dict[str, Any]], object], place: int = 0) -> list[bytes]:
    """The same lines, one of a kind changed."""
    places = [number for number, line in enumerate(lines) if json.loads(line).get("kind") == kind]
    line = json.loads(lines[places[place]])
    change(line)
    return [*lines[: places[place]], json.dumps(line).encode() + b"\n", *lines[places[place] + 1 :]]


NOT_CARRIED = {
    "api_keys": "keys belong to a server",
    "changes": "the change feed numbers the rows of one database",
    "cursors": "how far the indexes of one database have come",
    "item_vectors": "in the line of the item, with vectors",
    "jobs": "work of one server",
    "meta": "facts about one database",
    "namespaces": "in the line of the item",
    "reembedded": "vectors under way",
    "runs": "idempotency keys",
    "sessions": "logins",
    "thread_checkpoints": "checkpoints",
    "thread_values": "checkpoints",
    "thread_writes": "checkpoints",
    "traces": "what an add saw and did",
    "words": "made from the texts",
}
"""Tables that an export leaves out, and why; `copy` carries them."""
OMITTED = {
    "entities": {"merged_into"},  # the field winner
    "items": {"pk", "namespace_id", "vectors"},  # the fields born, namespace, vectors
    "memories": {"pk", "embedding"},  # that of its last ADD, and the field vector
    "merges": {"moved"},  # the fields rows, links, keys
    "scopes": {"id", "word_count", "compared"},  # as the rows need it, made from the texts, of writes under way
}
"""Columns that are not carried as such."""


def test_export_carries_every_column_or_says_why_not(source: Memory) -> None:
    carried = {kind.table: kind for kind in KINDS.values()}
    carried |= {kind.child.table: kind.child for kind in KINDS.values() if kind.child is not None}
    for table in metadata.sorted_tables:
        assert (table in carried) != (table.name in NOT_CARRIED), table.name
        if table in carried:
            kind = carried[table]
            columns = {column.key for column in kind.columns} - {kind.order}
            # A number of this database means nothing in another one.
            numbers = {c.key for c in table.c if c.foreign_keys or c.key in {"pk", "seq"} or c.key.endswith("_pk")}
            assert not columns & numbers, table.name
            named = {kind.order, kind.group, "scope_id", *kind.parents, *kind.references, *OMITTED.get(table.name, ())}
            assert set(table.c.keys()) <= columns | named, table.name
            assert all(isinstance(c.type, Boolean) for c in kind.columns if c.server_default is not None), table.name
            with source.parts.database.read() as connection:
                assert connection.execute(select(func.count()).select_from(table)).scalar_one(), table.name


def test_export_fields_are_documented() -> None:
    text = (files("langmem_adapter.storage.lossless") / "FORMAT.md").read_text(encoding="utf-8")
    told = {match[1]: match[2] for match in re.finditer(r"^- `(\w+)`: ((?:.+\n)+?)(?=- `|\n)", text, re.MULTILINE)}
    for kind in KINDS.values():
        own = [name for name in kind.fields if name not in {"kind", "id", *SCOPE_FIELDS}]
        assert [name for name in own if f"`{name}`" not in told[kind.name]] == [], kind.name


def test_export_lines_are_sorted_counted_and_signed(source: Memory, lines: list[bytes]) -> None:
    first, *inner, last = map(json.loads, lines)
    keys = [(line["kind"], line["id"]) for line in inner]
    assert keys == sorted(set(keys))
    assert {name: [key[0] for key in keys].count(name) for name in KINDS} == first["counts"]
    assert last == {"kind": "end", "lines": len(inner), "sha256": sha256(b"".join(lines[1:-1])).hexdigest()}
    assert list(first) == ["format", "version", "exported_at", "scopes", "counts"]
    assert {tuple(line) for line in inner if line["kind"] == "memory"} == {
        tuple(next(i for i in inner if i["kind"] == "memory"))
    }
    own = [json.loads(line) for line in source.export(user_id="ann")]
    assert own[0]["scopes"] == [{"user_id": "ann"}] and own[0]["counts"]["item"] == 0
    assert {line["user_id"] for line in own if "user_id" in line} == {"ann"}


def test_export_takes_a_scope_or_everything(source: Memory) -> None:
    with pytest.raises(ScopeError):
        source.export()
    with pytest.raises(InvalidInputError, match="not both"):
        source.export(user_id="ann", everything=True)


async def test_aexport_gives_the_same_lines_and_aimport_takes_them(lines: list[bytes], target: Memory) -> None:
    assert (await target.aimport_(lines)).complete
    assert [line async for line in await target.aexport(everything=True)][1:] == lines[1:]


def test_export_shows_one_moment_and_blocks_no_writer(database_url: str) -> None:
    with open_memory(database_url) as memory:
        for number in range(3):
            memory.add(f"one {number}", user_id="ann", infer=False)
        reading = memory.export(everything=True)
        first = json.loads(next(reading))
        memory.add("another", user_id="ann", infer=False)
        memory.delete_all(user_id="ann")
        rest = [json.loads(line) for line in reading]
        assert first["counts"]["memory"] == 3 == sum(line["kind"] == "memory" for line in rest)
        assert memory.stats().memories == 0


def test_indexes_follow_import_while_others_write(tmp_path: Path, lines: list[bytes]) -> None:
    url = str(tmp_path / "memory.db")
    with open_memory(url) as memory, open_memory(url) as other:
        other.add("before", user_id="dan", infer=False)

        def written() -> Iterator[bytes]:
            for number, line in enumerate(lines):
                if number % 20 == 7:
                    other.add(f"beside {number}", user_id="dan", infer=False)
                    assert other.search("beside", user_id="dan")
                yield line

        assert memory.import_(written()).complete
        assert other.search("opera", user_id="ann")[0].text == "opera"
        assert other.verify().ok and memory.verify().ok
        memory.add("I live in Paris.", user_id="ann")
        assert "Lives in Paris" in {each.text for each in memory.get_all(user_id="ann")}


@pytest.mark.postgres
def test_import_moves_what_sqlite_has_to_postgres_and_back(
    lines: list[bytes], postgres_url: str, target: Memory
) -> None:
    with open_memory(postgres_url) as server:
        server.add("before", user_id="dan", infer=False)
        server.purge(user_id="dan")
        assert server.import_(lines).complete and body(server) == lines[1:]
        Story(server).tell([*EVERYTHING[:1], ("talk", "ann", "s9", 1), ("note", "ann", "s9"), ("put", "jazz", "k", {})])
        assert target.import_(server.export(everything=True)).complete and body(target) == body(server)


def test_import_announce_counts_texts_without_vectors_of_the_same_model(source: Memory, tmp_path: Path) -> None:
    with_vectors = list(source.export(everything=True, vectors=True))
    assert json.loads(with_vectors[0])["vectors"]["memory"] == "hash:32/2"
    announced: list[int] = []
    with open_memory(str(tmp_path / "a.db")) as same:
        report = same.import_(with_vectors, announce=announced.append)
        assert report.complete and not report.embedded and not announced
        assert body(same, vectors=True) == with_vectors[1:]
        assert same.verify().ok
    with Memory(str(tmp_path / "b.db"), embeddings="hash:64") as another:
        report = another.import_(with_vectors, announce=announced.append)
        assert report.complete and report.embedded == report.kinds["memory"] and announced == [report.embedded]
        assert another.verify().ok and another.search("opera", user_id="ann")[0].text == "opera"


def test_import_of_a_known_scope_adds_nothing_to_its_history(lines: list[bytes], target: Memory) -> None:
    target.add("a history of its own", user_id="bea", infer=False)
    report = target.import_(lines)
    others = [
        line
        for line in map(json.loads, lines)
        if line.get("user_id") == "bea" and line["kind"] in {"memory", "revision"}
    ]
    reasons = {rejection.reason for rejection in report.rejections}
    assert report.rejected >= len(others) and any("another history" in reason for reason in reasons)
    assert [each.text for each in target.get_all(user_id="bea")] == ["a history of its own"]
    assert target.get_all(user_id="ann")


def test_import_takes_lines_as_text_with_a_byte_order_mark_and_a_blank_last_one(
    lines: list[bytes], target: Memory
) -> None:
    first, *rest = (line.decode() for line in lines)
    assert target.import_([f"\ufeff{first}", *rest, "\n"]).complete


def test_import_of_one_file_twice_at_the_same_time_is_a_conflict(lines: list[bytes], tmp_path: Path) -> None:
    with open_memory(str(tmp_path / "memory.db")) as memory:

        def read() -> Iterator[bytes]:
            yield from lines[:-1]
            assert memory.import_(lines).complete
            yield lines[-1]

        with pytest.raises(ConflictError, match="another process"):
            memory.import_(read())
        assert body(memory) == lines[1:] and memory.import_(lines).complete


def test_import_goes_on_where_something_was_erased_meanwhile(lines: list[bytes], target: Memory) -> None:
    target.import_(lines[:-2])
    target.purge(user_id="bea")
    assert target.import_(lines).complete and body(target) == lines[1:]
    target.import_(lines[:-3])
    target.reset()
    assert target.import_(lines).complete and body(target) == lines[1:]
    assert target.verify().ok and consistent(target)


def test_import_takes_a_mended_file_on(lines: list[bytes], target: Memory) -> None:
    broken = signed(changed(lines, "revision", lambda line: line.update(valid_from="soon")))
    assert target.import_(broken).rejected
    report = target.import_(lines)
    assert report.complete and report.added and report.known
    assert body(target) == lines[1:]


def test_import_takes_a_file_of_before_a_column_was_added(lines: list[bytes], target: Memory) -> None:
    newer = re.compile(rb',"(is_shown|is_verbatim|utc_offset)":(true|false|null|-?\d+)')
    older = [newer.sub(b"", line) for line in lines]
    assert target.import_(signed(older)).complete
    assert target.import_(signed(older)).known == len(lines) - 2


@each("cut", [0.3, 0.6, 0.95])
def test_import_of_a_file_without_its_end_takes_what_is_there_and_goes_on(lines: list[bytes], cut: float) -> None:
    with open_memory(":memory:") as target:
        whole = b"".join(lines)
        part = whole[: int(len(whole) * cut)].splitlines(keepends=True)
        report = target.import_(part)
        assert "last line" in report.problem and report.added and not report.rejected
        assert target.verify().ok and consistent(target)
        report = target.import_(lines)
        assert report.complete and report.resumed_at > 1 and report.added == len(lines) - 2
        assert body(target) == lines[1:]


def test_import_as_scope_gives_new_ids(source: Memory, target: Memory) -> None:
    own = list(source.export(user_id="ann"))
    for known in (0, 1):
        report = target.import_(own, as_scope={"user_id": "bob"})
        assert not report.rejected and not report.problem and bool(report.known) == bool(known)
    assert [each.text for each in target.get_all(user_id="bob")] == [
        each.text for each in source.get_all(user_id="ann")
    ]
    assert target.get_all(user_id="bob")[0].id != source.get_all(user_id="ann")[0].id
    told = [relation.text for relation in source.graph.relations(user_id="ann")]
    assert [relation.text for relation in target.graph.relations(user_id="bob")] == [
        text.replace("ann ", "bob ") for text in told
    ]
    assert target.import_(own).complete, "beside the original"
    assert target.import_(source.export(everything=True), as_scope={"user_id": "eve"}).rejected
    with pytest.raises(InvalidInputError, match="as_scope"):
        target.import_(own, as_scope={"user": "x"})


def test_import_dry_run_counts_and_writes_nothing(lines: list[bytes], target: Memory) -> None:
    report = target.import_(lines, dry_run=True)
    assert report.is_dry_run and report.complete and report.added == len(lines) - 2
    assert len(body(target)) == 1 and target.stats().changes == 0
    assert target.import_(lines).complete
    assert target.import_(lines, dry_run=True).known == len(lines) - 2


def test_import_within_a_scope_rejects_other_lines(lines: list[bytes], target: Memory) -> None:
    report = target.import_(lines, user_id="ann")
    assert report.rejected and {scope.scope for scope in target.scopes()} >= {Scope("ann")}
    assert report.embedded == report.kinds["memory"]
    assert {json.loads(line).get("user_id", "ann") for line in body(target)[:-1]} == {"ann"}


def test_import_within_a_scope_leaves_the_position_of_other_imports(lines: list[bytes], target: Memory) -> None:
    assert target.import_(lines[:-2], user_id="eve").rejected
    report = target.import_(lines)
    assert report.complete and not report.resumed_at and body(target) == lines[1:]


def test_import_within_a_scope_joins_no_message_to_a_memory_of_another_one(lines: list[bytes], target: Memory) -> None:
    target.import_(lines)
    row = next(line for line in map(json.loads, lines) if line.get("kind") == "source")
    thread = MessageThread(Scope("eve"), "t").key
    row |= {"id": f"{thread}/m", "user_id": "eve", "agent_id": None, "thread_id": "t", "message_id": "m"}
    row["memories"] = [{"memory_id": memory_of(lines[1:], "ann"), "order": 1}]
    report = target.import_(signed([lines[0], json.dumps(row).encode(), lines[-1]]), user_id="eve")
    assert report.rejected and body(target) == lines[1:]


def test_import_takes_no_memory_that_stands_for_relations_made_by_hand(target: Memory) -> None:
    with open_memory(":memory:") as forger:
        (memory_id,) = {change.id or "" for change in forger.add("I live in Lyon.", user_id="eve").results}
        forged = [line.replace(memory_id.encode(), b"") for line in forger.export(user_id="eve")]
    target.graph.add("tea", "knows", "Cid", user_id="bob")
    assert target.import_(signed(forged), user_id="eve").rejected
    target.delete_all(user_id="eve")
    assert target.graph.relations(user_id="bob")


def test_import_within_a_scope_tells_nothing_of_rows_of_another_one(lines: list[bytes], target: Memory) -> None:
    """Ids of scopes, conversations and threads can be computed; an import is no way to learn which are here."""
    forged = [{**json.loads(line), "agent_id": None, "run_id": None} for line in lines[1:-1]]
    forged = [line for line in forged if line["kind"] in {"conversation", "message", "note", "scope", "source"}]
    forged = [{**line, "user_id": "eve"} if "session" in line or "thread_id" in line else line for line in forged]
    forged = [{**line, "user_id": "eve"} if line["kind"] == "scope" else line for line in forged]
    own = signed([lines[0], *(json.dumps(line).encode() for line in forged), lines[-1]])
    reports = [target.import_(own, user_id="eve")]
    target.import_(lines)
    reports.append(target.import_(own, user_id="eve"))
    assert reports[0].rejected == reports[0].lines and reports[0].rejections == reports[1].rejections


@each("content", ['"\\ud800"', "[" * 900 + "]" * 900, "NaN"])
def test_import_takes_no_message_that_a_conversation_would_not_keep(content: str, lines: list[bytes]) -> None:
    bad = changed(lines, "message", lambda line: line.update(message=line["message"].replace('"hi"', content)))
    with open_memory(":memory:") as target:
        assert [each.reason for each in target.import_(signed(bad)).rejections] == [
            "message is not the JSON of a LangChain message"
        ]


@each("vectors", [7, None, ["YWJj"], ["AADAfw=="], [text_of(bytes(64))], [text_of(bytes(128))] * (PLACES + 1)])
def test_import_takes_only_vectors_that_a_store_can_search(vectors: Any, source: Memory) -> None:
    with_vectors = list(source.export(everything=True, vectors=True))
    bad = changed(with_vectors, "item", lambda line: line.update(vectors=vectors), -1)
    with open_memory(":memory:") as target:
        assert target.import_(signed(bad)).rejected == 1
        assert MemoryStore(target).search((), query="x")
    head = {**json.loads(with_vectors[0]), "vectors": {"item": ["a"]}}
    with open_memory(":memory:") as target, pytest.raises(InvalidInputError, match="vectors must be a str"):
        target.import_([json.dumps(head), *with_vectors[1:]])


def test_import_goes_on_only_with_the_same_lines(lines: list[bytes], target: Memory) -> None:
    target.import_(lines[:-10])
    other = changed(lines, "conversation", lambda line: line.update(last=9))
    for edited in (other, signed(lines[:-20] + lines[-1:])):
        with pytest.raises(InvalidInputError, match="has changed since"):
            target.import_(edited)
        target.import_(lines[:-10])
    assert target.import_(lines).complete


# ── damage ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def flipped(lines: list[bytes]) -> list[bytes]:
    dice = random.Random(7)
    whole = bytearray(b"".join(lines))
    for _ in range(60):
        whole[dice.randrange(len(lines[0]), len(whole))] ^= 1 << dice.randrange(8)
    return bytes(whole).splitlines(keepends=True)


def shuffled(lines: list[bytes]) -> list[bytes]:
    inner = lines[1:-1]
    random.Random(3).shuffle(inner)
    return [lines[0], *inner, lines[-1]]


def memory_of(lines: list[bytes], user: str) -> str:
    """The id of a memory of somebody."""
    return str(
        next(line["id"] for line in map(json.loads, lines) if line["kind"] == "memory" and line["user_id"] == user)
    )


def joined(lines: list[bytes], kind: str, **values: Any) -> list[bytes]:
    """The first line of a user that is of a kind, or of a past, joined with a memory of another one."""
    of_ann = [line for line in map(json.loads, lines) if line.get("kind") == kind]
    place = next(
        place for place, line in enumerate(of_ann) if line["user_id"] == "ann" and line.get("past_of", "") is not None
    )
    return changed(lines, kind, lambda line: line.update(values), place)


ENDED = {"valid_from": "2000-01-01T00:00:00Z", "valid_to": "1900-01-01T00:00:00Z"}
FOREIGN = (
    b"",
    b"{}\n",
    b"[1]\n",
    b"not JSON\n",
    b'{"format": "langmem_adapter", "version": 2}\n',
    b'{"format": "langmem_adapter", "version": 1, "counts": []}\n',
)
DAMAGE: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "bits flipped": flipped,
    "lines shuffled": shuffled,
    "a line twice": lambda lines: [*lines[:40], *lines[39:]],
    "every second line": lambda lines: [lines[0], *lines[1:-1:2], lines[-1]],
    "no revisions": lambda lines: [line for line in lines if b'"kind":"revision"' not in line],
    "no memories": lambda lines: [line for line in lines if b'"kind":"memory"' not in line],
    "no entities": lambda lines: [line for line in lines if b'"kind":"entity"' not in line],
    "no conversations": lambda lines: [line for line in lines if b'"kind":"conversation"' not in line],
    "line ends of another system": lambda lines: [line.replace(b"\n", b"\r\n") for line in lines],
    "no UTF-8": lambda lines: [*lines[:9], lines[9][:30] + b"\xff\xfe" + lines[9][30:], *lines[10:]],
    "a zero in a text": lambda lines: changed(lines, "memory", lambda line: line.update(text="a\0b")),
    "half a letter": lambda lines: changed(lines, "memory", lambda line: line.update(text="a\ud800b")),
    "nested without end": lambda lines: [*lines[:3], b'{"kind":' + b"[" * 100_000 + b"\n", *lines[3:]],
    "a number of 5,000 digits": lambda lines: [*lines[:3], b'{"kind":' + b"9" * 5_000 + b"}\n", *lines[3:]],
    "a number for a time": lambda lines: changed(lines, "revision", lambda line: line.update(valid_from=7)),
    "a time without an offset": lambda lines: changed(lines, "memory", lambda line: line.update(created_at="2020-01-01")),
    "the year 10,000": lambda lines: changed(lines, "memory", lambda line: line.update(created_at="10000-01-01T00:00:00Z")),
    "an end before a start": lambda lines: changed(lines, "relation", lambda line: line.update(ENDED)),
    "two orders alike": lambda lines: changed(lines, "revision", lambda line: line.update(order=2), -1),
    "an order out of range": lambda lines: changed(lines, "entity", lambda line: line.update(order=10**18)),
    "counts of nonsense": lambda lines: [lines[0].replace(b'"revision":', b'"revision":-'), *lines[1:]],
    "a field too many": lambda lines: changed(lines, "source", lambda line: line.update(more=1)),
    "a field of another kind": lambda lines: changed(lines, "merge", lambda line: line.update(rows=[["x"]], links=7)),
    "names that are none": lambda lines: changed(lines, "entity", lambda line: line.update(names={"a": 1})),
    "a message that is none": lambda lines: changed(lines, "message", lambda line: line.update(message="{}")),
    "labels that are none": lambda lines: changed(lines, "item", lambda line: line.update(namespace=[{}])),
    "a value that is none": lambda lines: changed(lines, "item", lambda line: line.update(value="[1]")),
    "another scope in a chain": lambda lines: changed(lines, "revision", lambda line: line.update(user_id="mallory")),
    "a past of another scope": lambda lines: joined(lines, "revision", past_of=memory_of(lines[1:], "bea")),
    "a relation of a memory of another scope": lambda lines: joined(
        lines,
        "relation",
        memories=[{"memory_id": memory_of(lines[1:], "bea"), "created_at": ENDED["valid_to"], "dropped_at": None}],
    ),
    "a revision with the id of another memory's": lambda lines: changed(
        lines, "revision", lambda line: line.update(memory_id=memory_of(lines[1:], "bea"))
    ),
    "a row with the id of another relation's": lambda lines: changed(
        lines, "relation", lambda line: line.update(relation_id="other")
    ),
    "deleted and not": lambda lines: changed(lines, "revision", lambda line: line.update(is_deleted=1 - line["is_deleted"])),
    "a blank scope": lambda lines: changed(lines, "memory", lambda line: line.update(user_id=" ")),
    "no kind": lambda lines: changed(lines, "note", lambda line: line.update(kind=None)),
    "lines behind the end": lambda lines: [*lines, lines[5]],
}  # fmt: skip


@each("name", sorted(DAMAGE))
def test_import_of_damaged_lines_keeps_what_is_whole(name: str, lines: list[bytes]) -> None:
    damaged = DAMAGE[name](lines)
    told: list[int] = []
    with open_memory(":memory:") as target:
        report = target.import_(damaged, rejected=lambda each: told.append(each.line))
        assert not report.complete and (report.rejected or report.problem)
        assert len(told) == report.rejected and all(each.reason for each in report.rejections)
        assert target.verify().ok and consistent(target)
        list(target.export(everything=True))
        target.add("I live in Paris.", user_id="ann")
        with suppress(EntityNotFoundError):
            target.graph.split("Cy", user_id="ann")


@each("first", FOREIGN)
def test_import_of_something_else_is_refused(first: bytes, target: Memory) -> None:
    with pytest.raises(InvalidInputError):
        target.import_([first])
