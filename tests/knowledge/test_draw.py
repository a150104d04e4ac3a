from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, get_args
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.knowledge.draw import DrawForm, check_form, drawing
from langmem_adapter.knowledge.walk import MOST_NODES
from langmem_adapter.records.graph import Relation
from langmem_adapter.records.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Sequence

NOW = datetime(2026, 5, 1, tzinfo=UTC)
FORMS: Sequence[DrawForm] = get_args(DrawForm)
NAMES = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=40),
    st.sampled_from(
        [
            'x"] --> n0["',
            "a --> b",
            "]]>",
            "<!-- -->",
            '"; n9 [label="x',
            "back\\",
            '\\"',
            "line\nbreak\r\n%% comment",
            "`code`",
            "</data></node>",
            "&amp;#quot;",
            "#quot;",
            "subgraph end",
            "1. list",
            "\u202eturned",
            "北京",
            "end",
            "\x1b[0m",
        ]
    ),
)


def relation(source: str, name: str, target: str, number: int = 0, **fields: Any) -> Relation:
    told: dict[str, Any] = {
        "source_type": "",
        "target_type": "",
        "scope": Scope("alice"),
        "valid_from": None,
        "valid_to": None,
        "recorded_at": NOW,
        "retired_at": None,
        "mentions": 1,
        "confidence": 1.0,
        "memory_ids": (),
    }
    return Relation(id=f"r{number}", source=source, relation=name, target=target, **{**told, **fields})


def parsed(text: str) -> tuple[list[dict[str, str]], list[tuple[int, int, dict[str, str]]]]:
    """Nodes and edges of a GraphML text, with their data."""
    space = "{http://graphml.graphdrawing.org/xmlns}"
    graph = ET.fromstring(text).find(f"{space}graph")  # noqa: S314 - our own text
    assert graph is not None

    def data(part: ET.Element) -> dict[str, str]:
        return {each.get("key", ""): each.text or "" for each in part.findall(f"{space}data")}

    nodes = [data(node) for node in graph.findall(f"{space}node")]
    edges = [
        (int(edge.get("source", "")[1:]), int(edge.get("target", "")[1:]), data(edge))
        for edge in graph.findall(f"{space}edge")
    ]
    return nodes, edges


def test_draw_mermaid_dashes_ended_relations() -> None:
    first, last = NOW - timedelta(days=900), NOW - timedelta(days=1)
    relations = [
        relation("Anna", "lives_in", "Oslo", valid_from=last),
        relation("anna", "lives_in", "里昂", valid_from=first, valid_to=last),
    ]
    assert drawing(relations, "mermaid", NOW).splitlines() == [
        "flowchart LR",
        '  n0["anna"]',
        '  n1["里昂"]',
        '  n2["Oslo"]',
        f'  n0 -.->|"lives in, {first.date()} – {last.date()}"| n1',
        '  n0 -->|"lives in"| n2',
    ]


def test_draw_dot_dashes_ended_relations() -> None:
    relations = [relation('say "hi"', "knows", "a\\b", valid_from=NOW + timedelta(days=1))]
    assert drawing(relations, "dot", NOW).splitlines() == [
        "digraph memory {",
        "  rankdir=LR;",
        '  n0 [label="say \\"hi\\""];',
        '  n1 [label="a\\\\b"];',
        '  n0 -> n1 [label="knows, 2026-05-02 – ", style=dashed];',
        "}",
    ]


def test_draw_graphml_is_read_back() -> None:
    told = {"source_type": "person", "valid_from": NOW, "mentions": 3, "confidence": 0.5}
    nodes, edges = parsed(drawing([relation("小红 & <co>", "住在", "北京", 7, **told)], "graphml", NOW))
    assert nodes == [{"node_name": "小红 & <co>", "node_type": "person"}, {"node_name": "北京"}]
    data = {"edge_id": "r7", "edge_relation": "住在", "edge_valid_from": NOW.isoformat(), "edge_holds": "true"}
    assert edges == [(0, 1, {**data, "edge_mentions": "3", "edge_confidence": "0.5"})]


@pytest.mark.parametrize("form", FORMS)
def test_draw_of_an_empty_graph(form: DrawForm) -> None:
    text = drawing([], form, NOW)
    assert text.endswith("\n") and "cut" not in text
    assert form != "graphml" or parsed(text) == ([], [])


@given(triples=st.lists(st.tuples(NAMES, NAMES, NAMES, st.booleans()), min_size=1, max_size=5))
def test_draw_escapes_every_name(triples: list[tuple[str, str, str, bool]]) -> None:
    over = NOW - timedelta(days=1)
    relations = [
        relation(source, name, target, number, valid_to=over if ended else None, source_type=target)
        for number, (source, name, target, ended) in enumerate(triples)
    ]
    nodes, edges = parsed(drawing(relations, "graphml", NOW))
    assert len(edges) == len(triples)
    for line in drawing(relations, "mermaid", NOW).splitlines()[1:]:
        assert re.fullmatch(r'  n\d+(\["[^"\[\]<>|`]+"\]| (-->|-\.->)\|"[^"\[\]<>|`]+"\| n\d+)', line)
    lines = drawing(relations, "dot", NOW).splitlines()
    for line in lines[2:-1]:
        assert re.fullmatch(r'  n\d+( -> n\d+)? \[label="([^"\\]|\\["\\])*"(, style=dashed)?\];', line)
    assert len(lines) == 3 + len(nodes) + len(edges)
    for form in FORMS:
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e]", drawing(relations, form, NOW))


@pytest.mark.parametrize(("form", "comment"), [("mermaid", "  %% cut"), ("dot", "  // cut"), ("graphml", "<!-- cut")])
def test_draw_cuts_a_large_graph_and_says_so(form: DrawForm, comment: str) -> None:
    newest_first = [relation("hub", "knows", f"name {number}", number) for number in reversed(range(MOST_NODES + 50))]
    text = drawing(newest_first, form, NOW)
    assert any(line.startswith(comment) for line in text.splitlines())
    assert "name 449" in text and "name 60" in text and "name 50" not in text
    assert not any(line.startswith(comment) for line in drawing(newest_first[:300], form, NOW).splitlines())
    assert any(line.startswith(comment) for line in drawing(newest_first[:300], form, NOW, cut=True).splitlines())
    if form == "graphml":
        assert len(parsed(text)[0]) == MOST_NODES


def test_draw_refuses_an_unknown_format() -> None:
    with pytest.raises(InvalidInputError, match="'mermaid', 'dot', 'graphml', not 'svg'"):
        check_form("svg")
