"""Whole graphs, out and in."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import re
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, get_args
from xml.etree import ElementTree as ET

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_adapter.errors import InvalidInputError, MissingDependencyError
from langmem_adapter.knowledge.draw import CUT
from langmem_adapter.knowledge.exchange import write_graph, writing
from langmem_adapter.knowledge.imports import PastRelation, RefusedRow, StatedRelation, read_rows
from langmem_adapter.knowledge.walk import Edge
from langmem_adapter.memory.memory import Memory
from langmem_adapter.names import entity_key, owner_role
from langmem_adapter.records.graph import Entity, ExportFormat, Relation
from langmem_adapter.records.scope import Scope
from tests.cases import each

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from langmem_adapter.records.graph import LineFormat

ALICE: dict[str, Any] = {"user_id": "alice"}
DAY = datetime(2019, 5, 1, tzinfo=UTC)
HOSTILE = [
    "O'Neil \\",
    'say "hi", twice',
    "`}) DETACH DELETE n //",
    "\\u0027}) DETACH DELETE n //",
    "\\\\u0060 \\U0027",
    "two\nlines\r\nand\ttabs",
    "=HYPERLINK(A1)",
    "'=1",
    "-5",
    "</data></script><b>&amp;",
    "小红，北京",
    "a\u2028 \u202e \x1b[31m",
    "null",
    "a,b;c",
    "a" * 190,
]
NAMES = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=30)
    .map(str.strip)
    .filter(lambda name: entity_key(name) and owner_role(name) is None),
)
TIMES = st.none() | st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - hypothesis takes bounds without a zone
RELATIONS = st.builds(
    Relation,
    id=st.uuids().map(str),
    source=NAMES,
    relation=st.sampled_from(["lives_in", "住在", "has_sister"]),
    target=NAMES,
    source_type=st.sampled_from(["", "person", "=type"]),
    target_type=st.just(""),
    scope=st.builds(Scope, st.just("alice"), st.none(), st.none() | st.sampled_from(["r1", "=r2"])),
    valid_from=TIMES,
    valid_to=st.none(),
    recorded_at=st.just(DAY),
    retired_at=st.none(),
    mentions=st.integers(1, 10**6),
    confidence=st.floats(0.001, 1),
    memory_ids=st.just(("m1", "m2")),
)


@pytest.fixture
def memory(database_url: str) -> Iterator[Memory]:
    with Memory(database_url) as opened:
        yield opened


@pytest.fixture
def other() -> Iterator[Memory]:
    with Memory(":memory:") as opened:
        yield opened


def edges(relations: Iterable[Relation]) -> list[Edge]:
    return [Edge(row, f"e{row}a", f"e{row}b", relation) for row, relation in enumerate(relations)]


def text_of(form: ExportFormat, parts: Iterable[Edge | Entity]) -> str:
    pieces: list[str] = []
    write_graph(form, parts, DAY, pieces.append)
    return "".join(pieces)


def facts(relations: Iterable[Relation]) -> Counter[tuple[Any, ...]]:
    """All that a relation is, but for what is its database's own: its id, when it was written, which memories say it."""
    names = (
        "source",
        "relation",
        "target",
        "source_type",
        "target_type",
        "scope",
        "valid_from",
        "valid_to",
        "mentions",
        "confidence",
    )
    return Counter(tuple(getattr(each, name) for name in names) for each in relations)


def believed(memory: Memory) -> list[Relation]:
    """All that is believed, whenever it holds."""
    page = memory.graph.relations(**ALICE, history=True, k=10_000)
    rest = memory.graph.relations(**ALICE, history=True, k=10_000, after=page.next) if page.next else ()
    return [relation for relation in [*page, *rest] if relation.retired_at is None]


def lines(*rows: dict[str, Any] | str) -> io.BytesIO:
    return io.BytesIO("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows).encode())


def triple(source: str, relation: str, target: str, **more: Any) -> dict[str, Any]:
    return {"source": source, "relation": relation, "target": target, **more}


# ── out and in ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_export_and_load_of_thousands_of_relations(tmp_path: Path, other: Memory) -> None:
    chance = random.Random(17)
    names = [*HOSTILE, *(f"Person {number}" for number in range(800))]
    told = [
        triple(
            *(
                names[(number + 7) % len(names)],
                chance.choice(["knows", "likes", "works_at", "住在"]),
                f"{chance.choice(names)}·{number}",
            ),
            valid_from=start if chance.random() < 0.9 else None,
            valid_to=chance.choice([None, start + timedelta(days=300)]),
            target_type=chance.choice(["", "person"]),
            mentions=chance.randint(1, 9),
            confidence=chance.random() or 1,
            run_id=chance.choice([None, "r1"]),
        )
        for number in range(2_500)
        for start in [DAY + timedelta(days=chance.randrange(3_000), microseconds=chance.randrange(10**6))]
    ]
    with Memory(":memory:") as memory:
        source = io.StringIO("\n".join(json.dumps(row, default=str) for row in told))
        assert memory.graph.load(source, format="jsonl", **ALICE).added == 2_500
        for relation in list(memory.graph.relations(**ALICE, k=10)):
            memory.graph.delete(relation.id)
        for relation in list(memory.graph.relations(**ALICE, as_of=DAY + timedelta(days=3_400), k=10)):
            memory.graph.end(relation.id, at=DAY + timedelta(days=4_000))
        known = believed(memory)
        out = memory.graph.export(tmp_path / "all.jsonl", history=True, **ALICE)
        assert (out.relations, len(known)) == (2_500 + 10, 2_500 - 10)
        done = other.graph.load(tmp_path / "all.jsonl", **ALICE)
        assert (done.added, done.past, done.refused, done.read) == (2_500 - 10, 20, 0, out.relations)
        assert facts(believed(other)) == facts(known)

        counts = memory.graph.export(tmp_path / "graph.graphml", **ALICE)
        graph = nx.read_graphml(tmp_path / "graph.graphml")
        assert (graph.number_of_nodes(), graph.number_of_edges()) == (counts.entities, counts.relations)
        assert counts.relations == len(known)
        assert counts.entities == len({name for each in known for name in (each.source, each.target)})


def test_export_and_load_of_csv_twice(memory: Memory, other: Memory) -> None:
    for number, name in enumerate(HOSTILE):
        memory.graph.add(name, "knows", HOSTILE[number - 1], valid_from=DAY, source_type="=1", **ALICE, run_id="r1")
    memory.graph.add("me", "lives in", "Lyon", valid_to=DAY, confidence=0.1, **ALICE)
    memory.graph.add("me", "lives in", "Oslo", **ALICE)
    file = io.BytesIO()
    memory.graph.export(file, format="csv", **ALICE)
    for target in (other, memory):
        done = target.graph.load(io.BytesIO(file.getvalue()), format="csv", **ALICE)
        assert (done.added, done.known) == ((17, 0) if target is other else (0, 17))
        assert target.graph.load(io.BytesIO(file.getvalue()), format="csv").known == 17
    assert facts(believed(other)) == facts(believed(memory))
    assert memory.graph.relations(**ALICE, entity="me")[0].target == "Oslo"
    assert other.graph.relations(**ALICE, entity="alice")[0].target == "Oslo"


@settings(max_examples=60)
@given(relations=st.lists(RELATIONS, max_size=4), form=st.sampled_from(["jsonl", "csv"]))
def test_load_reads_any_relation_that_export_writes(relations: list[Relation], form: LineFormat) -> None:
    told = list(read_rows(io.BytesIO(text_of(form, edges(relations)).encode()), form, Scope("alice")))
    assert len(told) == len(relations)
    for relation, one in zip(relations, told, strict=True):
        assert isinstance(one, StatedRelation)
        assert one.scope == relation.scope
        for name in ("source", "relation", "target", "source_type", "valid_from", "valid_to", "mentions", "confidence"):
            assert getattr(one.triple, name) == getattr(relation, name), name


# ── other programs ──────────────────────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=60)
@given(relations=st.lists(RELATIONS, min_size=1, max_size=4))
def test_export_escapes_every_name(relations: list[Relation]) -> None:
    entities = [
        Entity(f"e{row}{end}", name, each.source_type, each.scope, (name, "alias"), 1, DAY, DAY)
        for row, each in enumerate(relations)
        for end, name in (("a", each.source), ("b", each.target))
    ]
    parts: list[Entity | Edge] = [*entities, *edges(relations)]
    space = "{http://graphml.graphdrawing.org/xmlns}"
    root = ET.fromstring(text_of("graphml", parts).encode())  # noqa: S314 - our own text
    assert len(root.findall(f".//{space}edge")) == len(relations)
    shown = [node.findtext(f"{space}data[@key='node_name']") for node in root.iter(f"{space}node")]
    assert shown == [re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", "\ufffd", entity.name) for entity in entities]

    statements = text_of("cypher", parts).split(";\n")
    literal = r"'(?:[^'\\]|\\[\\'nrt])*'"
    texts = [re.sub(literal, "T", statement) for statement in statements]
    assert len(statements) == 1 + len(parts) + 1
    assert not any(re.search(r"\\[uU]", statement) for statement in statements)
    for text in texts[1:-1]:
        assert re.fullmatch(
            r"(MERGE \(n:Entity|MATCH \(a:Entity \{id: T\}\), \(b:Entity \{id: T\}\) MERGE)[\w\s(){}\[\]:=.,+<>`-]*",
            text,
        )
    for text, entity in zip(texts[1:], entities, strict=False):
        known = ["name", "type", "aliases", "mentions", *entity.scope.named, "created", "updated"]
        assert re.findall(r"\bn\.(\w+) =", text) == known
    named = [_value(re.search(rf"n\.name = (\({literal}(?: \+ {literal})*\)|{literal})", each)) for each in statements]
    assert [name for name in named if name is not None] == [entity.name for entity in entities]

    rows = list(csv.reader(io.StringIO(text_of("csv", parts), newline="")))
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) for row in rows for cell in row)
    page = text_of("html", parts)
    assert page.count("</script>") == 4
    data = json.loads(page.partition('id="graph-data">')[2].partition("</script>")[0])
    assert {tie["name"] for tie in data["ties"]} == {each.relation.replace("_", " ") for each in relations}


def _value(found: re.Match[str] | None) -> str | None:
    """The text that a Cypher expression of literals stands for."""
    if found is None:
        return None
    escapes = {"n": "\n", "r": "\r", "t": "\t"}
    parts = re.findall(r"'((?:[^'\\]|\\[\\'nrt])*)'", found[1])
    return "".join(re.sub(r"\\(.)", lambda one: escapes.get(one[1], one[1]), part) for part in parts)


def test_to_networkx_has_names_dates_and_parallel_relations(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    for relation in ("knows", "likes"):
        memory.graph.add("Anna", relation, "Ben", valid_from=DAY, **ALICE)
    memory.graph.merge("Ben", "Benjamin", **ALICE)
    graph = memory.graph.to_networkx(**ALICE)
    assert sorted(dict(graph.nodes(data="name")).values()) == ["Anna", "Benjamin"]
    assert sorted(relation for *_, relation in graph.edges(data="relation")) == ["knows", "likes"]
    assert memory.graph.to_networkx(**ALICE, history=True).number_of_edges() == 4
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(MissingDependencyError, match="pip install networkx"):
        memory.graph.to_networkx(**ALICE)


def test_export_of_one_scope_as_of_and_known_at(memory: Memory) -> None:
    memory.graph.add("Anna", "lives in", "Lyon", valid_from=DAY, valid_to=DAY + timedelta(days=9), **ALICE)
    memory.graph.add("Anna", "lives in", "Oslo", valid_from=DAY + timedelta(days=9), **ALICE)
    memory.graph.add("Anna", "lives in", "Rome", user_id="bob")
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({}, ["Lyon", "Oslo"]),
        ({"as_of": DAY}, ["Lyon"]),
        ({"known_at": DAY}, []),
    ]
    for how, targets in cases:
        file = io.StringIO()
        memory.graph.export(file, format="jsonl", **ALICE, **how)
        assert [json.loads(line)["target"] for line in file.getvalue().splitlines()] == targets


def test_export_writes_a_whole_file_or_none(tmp_path: Path) -> None:
    path = tmp_path / "graph.jsonl"
    path.write_text("before")

    def broken_off() -> None:
        with writing(path) as write:
            write("half of it")
            raise KeyError

    with pytest.raises(KeyError):
        broken_off()
    assert path.read_text() == "before"
    with writing(path) as write:
        write("after")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("graph.jsonl", "after")]
    assert path.stat().st_mode & 0o077 == 0


@each("form", get_args(ExportFormat))
def test_export_of_an_empty_graph(form: ExportFormat, tmp_path: Path) -> None:
    with Memory(":memory:") as memory:
        done = memory.graph.export(tmp_path / "graph", format=form, **ALICE)
    assert (done.format, done.entities, done.relations) == (form, 0, 0)
    text = (tmp_path / "graph").read_text("utf-8")
    assert form != "graphml" or nx.parse_graphml(text).number_of_nodes() == 0
    assert form not in {"jsonl", "csv"} or list(read_rows(io.StringIO(text), form, None)) == []


def test_draw_of_a_part_names_export(memory: Memory) -> None:
    rows = [triple("hub", "knows", f"name {number}") for number in range(450)]
    memory.graph.load(lines(*rows), format="jsonl", **ALICE)
    assert CUT in memory.graph.draw(**ALICE)
    page, graphml = io.StringIO(), io.StringIO()
    assert memory.graph.export(page, format="html", **ALICE).relations == 450
    assert "the newest 399 of 450 relations, 400 entities" in page.getvalue()
    assert not re.search(r"""(src|href)=["']?(https?:|//)|url\(\s*["']?(https?:|//)""", page.getvalue())
    memory.graph.export(graphml, format="graphml", **ALICE)
    assert graphml.getvalue().count("<edge ") == 450


# ── in ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_load_reports_each_refused_line(other: Memory) -> None:
    bad: list[tuple[dict[str, Any] | str, str]] = [
        ('{"source": "A", ', "broken JSON at column"),
        ("[1]", "a relation is an object"),
        ("[" * 100_000, "nested too deeply"),
        (triple("", "knows", "B"), "source is missing"),
        (triple("?!", "knows", "B"), "nothing but punctuation"),
        (triple("A", "!", "B"), "holds no word"),
        (triple("a" * 201, "knows", "B"), "at most 200"),
        (triple("A\x00", "knows", "B"), "NUL"),
        (triple("A\ud800", "knows", "B"), "surrogate"),
        (triple("Anna", "knows", "the anna"), "the same entity"),
        (triple("A", "knows", "B", valid_from="2020", valid_to="soon"), "no point in time"),
        (triple("A", "knows", "B", valid_from="2020-01-02", valid_to="2020-01-01"), "valid_from must lie before"),
        (triple("A", "knows", "B", confidence=2), "confidence is a number"),
        (triple("A", "knows", "B", mentions=0), "mentions must be a whole number"),
        (triple("A", "knows", "B", weight=3), "'weight' has no place"),
        (triple("A", "knows", "B", scope={"team": 1}), "scope is an object"),
        (triple("A", "knows", "B", user_id="bob"), "lies outside user_id='alice'"),
        (triple("A", "knows", "B", run_id=" "), "run_id is blank"),
        ("x" * 1_000_001, "longer than 1,000,000 bytes"),
    ]
    file = lines(*(row for one, _ in bad for row in (one, "", triple("Anna", "likes", "tea"))))
    seen: list[RefusedRow] = []
    done = other.graph.load(file, format="jsonl", refused=seen.append, **ALICE)
    assert (done.read, done.added, done.known, done.refused) == (2 * len(bad), 1, len(bad) - 1, len(bad))
    assert done.refusals == tuple(seen)
    told = {one.where: one for one in seen}
    for number, (row, reason) in enumerate(bad):
        one = told[f"line {1 + 3 * number}"]
        assert reason in one.reason
        assert len(one.begins) <= 61 and one.begins[:5] in (row if isinstance(row, str) else json.dumps(row))


@each(
    ("table", "reasons"),
    [
        (
            "source;relation;target;mentions\nA;knows;B;2\nA;knows\nA;knows;C;x\n",
            ["2 cells, where", "mentions is a whole"],
        ),
        ("\ufeffsource,relation,target\r\nA,knows,B\r\n\r\n,knows,B\r\n", ["source is missing"]),
        ('source,relation,target\nA,knows,B\nA,knows,"' + "x\n" * 70_000, ["broken CSV", "cells, where"]),
        ("source\trelation\ttarget\nA\tknows\tB\n", []),
    ],
)
def test_load_reads_csv_of_spreadsheets(table: str, reasons: list[str]) -> None:
    told = list(read_rows(io.BytesIO(table.encode()), "csv", Scope("alice")))
    assert isinstance(told[0], StatedRelation) and (told[0].where, told[0].triple.target) == ("line 2", "B")
    refused = [one for one in told[1:] if isinstance(one, RefusedRow)]
    assert len(refused) == len(told) - 1
    assert all(any(reason in one.reason for one in refused) for reason in reasons)
    assert bool(refused) == bool(reasons)


@each(
    ("begins", "form", "reason"),
    [
        (gzip.compress(b"{}"), "jsonl", "gunzip"),
        (b"PK\x03\x04", "csv", "save the sheet as CSV"),
        ("source,relation,target\n".encode("utf-16"), "csv", "save it as UTF-8"),
        (b"source,relation,target\rA,knows,B\r", "csv", "line feed"),
        (b"source,relation,target," + b"x" * 200_000, "csv", "field limit"),
    ],
)
def test_load_refuses_other_files(begins: bytes, form: LineFormat, reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        list(read_rows(io.BytesIO(begins), form, Scope("alice")))


def test_load_of_an_open_quote_says_how_far_it_reaches() -> None:
    table = 'source,relation,target\nA,knows,B\n"C,knows,D\nE,knows,F\n'
    told = list(read_rows(io.BytesIO(table.encode()), "csv", Scope("alice")))
    assert [one.where for one in told] == ["line 2", "lines 3 to 4"] and isinstance(told[1], RefusedRow)


def test_load_bounds_mentions(database_url: str) -> None:
    most = 2**31 - 1
    rows = [triple("Anna", "knows", name, mentions=most) for name in ("Ben", "Carla")]
    with Memory(database_url) as memory:
        assert memory.graph.load(lines(*rows), format="jsonl", **ALICE).added == 2
        memory.graph.merge("Carla", "Ben", **ALICE)
        memory.graph.add("Anna", "knows", "Ben", **ALICE)
        assert [entity.mentions for entity in memory.graph.entities(**ALICE)] == [most, most]
        assert [relation.mentions for relation in memory.graph.relations(**ALICE)] == [most]


def test_load_refuses_lines_in_another_encoding() -> None:
    told = list(
        read_rows(
            io.BytesIO("source,relation,target\nZoë,knows,B\nAnna,knows,B\n".encode("latin-1")), "csv", Scope("a")
        )
    )
    assert [type(one) for one in told] == [RefusedRow, StatedRelation]


def test_load_needs_columns_and_a_format(other: Memory, tmp_path: Path) -> None:
    for header, reason in (
        ("source,target", "missing: relation"),
        ("source,relation,target,weight", "'weight' has no"),
    ):
        with pytest.raises(InvalidInputError, match=reason):
            other.graph.load(io.StringIO(header + "\n"), format="csv", **ALICE)
    with pytest.raises(
        InvalidInputError, match=r"graph.graphml' has no known ending: give format, one of 'jsonl', 'csv'"
    ):
        other.graph.load(tmp_path / "graph.graphml", **ALICE)
    with pytest.raises(InvalidInputError, match=r"format is one of .*, not 'svg'"):
        other.graph.export(tmp_path / "graph.csv", format="svg", **ALICE)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_load_reads_a_stream_as_it_goes() -> None:
    row = json.dumps(triple("A", "knows", "B")).encode() + b"\n"
    file = io.BytesIO(row * 100_000)
    told = read_rows(file, "jsonl", Scope("alice"))
    assert isinstance(next(told), StatedRelation)
    assert file.tell() < 100 * len(row)


def test_load_only_adds_to_what_is_known(memory: Memory) -> None:
    memory.graph.add("Anna", "lives in", "Lyon", valid_from="2019-01-01", valid_to="2021-01-01", **ALICE)
    memory.graph.add("Anna", "lives in", "Oslo", valid_from="2021-01-01", **ALICE)

    def load(*rows: dict[str, Any]) -> tuple[int, int, int]:
        done = memory.graph.load(lines(*rows), format="jsonl", **ALICE)
        return done.added, done.widened, done.known

    # Without dates it is known, whatever they are.
    assert load(triple("anna", "lives in", "LYON"), triple("Anna", "lives_in", "Oslo")) == (0, 0, 2)
    # Another home ends none.
    assert load(triple("Anna", "lives in", "Rome", valid_from="2022-01-01")) == (1, 0, 0)
    # Told from earlier on, and more often.
    assert load(triple("Anna", "lives in", "Lyon", valid_from="2018-01-01", valid_to="2020-01-01", mentions=7)) == (
        0,
        1,
        0,
    )
    # An end there ends nothing here; what lies apart is another time.
    assert load(triple("Anna", "lives in", "Oslo", valid_to="2023-01-01")) == (0, 0, 1)
    assert load(triple("Anna", "lives in", "Lyon", valid_from="2024-01-01")) == (1, 0, 0)
    # Undated, it bridges no gap.
    assert load(triple("Anna", "lives in", "Lyon")) == (0, 0, 1)
    # Two that are known become one.
    assert load(triple("Anna", "lives in", "Lyon", valid_from="2020-06-01", valid_to="2024-06-01")) == (0, 1, 0)
    told = [
        (each.target, each.valid_from and each.valid_from.year, each.valid_to, each.mentions)
        for each in believed(memory)
    ]
    assert sorted(told) == [("Lyon", 2018, None, 8), ("Oslo", 2021, None, 1), ("Rome", 2022, None, 1)]


YEARS = st.none() | st.integers(1, 9).map(lambda year: f"200{year}-01-01")
ROWS = st.builds(
    triple,
    st.sampled_from(["Anna", "ANNA", "Ben", "Ben Wu"]),
    st.sampled_from(["lives in", "married to", "likes"]),
    st.sampled_from(["Ben", "Anna", "Lyon"]),
    valid_from=YEARS,
    valid_to=YEARS,
    mentions=st.integers(1, 5),
    confidence=st.sampled_from([0.25, 0.5, 1]),
)


@settings(max_examples=50)
@given(rows=st.lists(ROWS, max_size=12), batch=st.integers(1, 5))
def test_load_twice_changes_nothing(rows: list[dict[str, Any]], batch: int) -> None:
    """Whatever the lines are, in however many files; and what was loaded goes out and comes in the same."""
    with Memory(":memory:") as memory, Memory(":memory:") as other:
        for start in range(0, len(rows), batch):
            memory.graph.load(lines(*rows[start : start + batch]), format="jsonl", **ALICE)
        once = memory.graph.relations(**ALICE, history=True)
        again = memory.graph.load(lines(*rows), format="jsonl", **ALICE)
        assert (again.added, again.widened) == (0, 0)
        assert memory.graph.relations(**ALICE, history=True) == once
        file = io.StringIO()
        memory.graph.export(file, format="jsonl", **ALICE)
        assert other.graph.load(io.StringIO(file.getvalue()), format="jsonl").widened == 0
        assert facts(believed(other)) == facts(believed(memory))


def test_load_by_two_at_once_writes_once(memory: Memory) -> None:
    rows = [triple("Anna", "knows", f"name {number}", valid_from="2020-01-01") for number in range(700)]
    with ThreadPoolExecutor() as pool:
        done = list(pool.map(lambda _: memory.graph.load(lines(*rows), format="jsonl", **ALICE), range(2)))
    assert sum(one.added for one in done) == sum(one.known for one in done) == len(rows)
    assert len(believed(memory)) == len(rows)


def test_load_again_after_an_interruption(other: Memory) -> None:
    rows = [triple("Anna", "knows", f"name {number}") for number in range(700)]

    class Breaking(io.BytesIO):
        def readline(self, size: int | None = -1, /) -> bytes:
            line = super().readline(size)
            if b"name 650" in line:
                raise OSError("the disk is gone")
            return line

    with pytest.raises(OSError, match="gone"):
        other.graph.load(Breaking(lines(*rows).getvalue()), format="jsonl", **ALICE)
    done = other.graph.load(lines(*rows), format="jsonl", **ALICE)
    assert (done.known, done.added) == (500, 200)


def test_load_of_a_known_relation_keeps_its_memory_ids() -> None:
    with Memory(":memory:", graph=True) as memory:
        [change] = memory.add("I live in Lyon.", **ALICE).results
        file = io.StringIO()
        memory.graph.export(file, format="jsonl", **ALICE)
        assert memory.graph.load(io.StringIO(file.getvalue()), format="jsonl", **ALICE).known == 1
        memory.delete(str(change.id))
        assert believed(memory) == []


def test_load_takes_scope_fields_of_lines_within_the_arguments(other: Memory) -> None:
    rows = [triple("me", "likes", "tea", user_id="alice"), triple("me", "likes", "wine", user_id="bob", run_id="r1")]
    assert other.graph.load(lines(*rows), format="jsonl", user_id="bob").refused == 1
    assert [each.scope for each in other.graph.relations(user_id="bob")] == [Scope("bob", None, "r1")]
    assert other.graph.load(lines(*rows, triple("A", "knows", "B")), format="jsonl").refused == 1
    assert [each.text for each in other.graph.relations(**ALICE)] == ["alice likes tea"]


def test_load_leaves_retired_relations_out() -> None:
    told = list(read_rows(lines(triple("A", "knows", "B", retired_at="2020-01-01")), "jsonl", Scope("alice")))
    assert told == [PastRelation("line 1")]
