"""The graph around one entity, as it reaches a http: the table, the data of the picture, and whose they are."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.memory.memory import Memory
from tests.server.conftest import client, remembered

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

GRAPH: Final = "/ui/graph"
ROW: Final = re.compile(r'<tr class="(\w+)"( hidden)?>(.*?)</tr>', re.DOTALL)
CELL: Final = re.compile(r"<t[hd][^>]*>(.*?)</t[hd]>", re.DOTALL)
DATA: Final = re.compile(r'<script type="application/json" id="graph-data">(.*?)</script>', re.DOTALL)
HOSTILE: Final = (
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{ 7 * 7 }} & Söhne",
    "\u202etxt.exe",
    "北京市朝阳区" * 30,
    "W" * 200,
)


def page(http: TestClient, **query: Any) -> str:
    answer = http.get(GRAPH, params=query)
    assert answer.status_code == 200
    return str(answer.text)


def table(shown: str) -> list[tuple[str, ...]]:
    """The relations that a reader of the table sees: source, relation, target, since, until."""
    rows = [CELL.findall(row) for _, hidden, row in ROW.findall(shown) if not hidden]
    return [tuple(plain(cell) for cell in row[:5]) for row in rows]


def plain(html: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "", html)).strip()


def picture(shown: str) -> dict[str, Any]:
    (data,) = DATA.findall(shown)
    told: dict[str, Any] = json.loads(data)
    return told


def status(shown: str) -> str:
    return plain(re.findall(r'<span id="told"[^>]*>(.*?)</span>', shown)[0])


def related(memory: Memory, *triples: tuple[str, str, str], **given: Any) -> None:
    for source, relation, target in triples:
        memory.graph.add(source, relation, target, **{"user_id": "alice", "single": False, **given})


def test_graph_page_shows_relations_with_their_memories(memory: Memory, http: TestClient) -> None:
    memory.add("I live in Lyon.", user_id="alice", timestamp="2024-05-01T12:00:00Z")
    (fact,) = memory.get_all(user_id="alice")
    shown = page(http)
    assert table(shown)[0][:4] == ("alice", "lives in", "Lyon", "2024-05-01")
    assert f'href="/ui/memories/{fact.id}?user_id=alice">1 memory</a>' in shown
    assert f'href="/ui/memories/{fact.id}?user_id=alice"><bdi>Lives in Lyon</bdi></a>' in shown
    assert status(shown) == "now: 1 relation holds, 0 ended"
    memory.update(fact.id, expires_at="2020-01-01")
    assert "<bdi>Lives in Lyon</bdi>" not in page(http, user_id="alice")


def test_graph_page_takes_as_of(memory: Memory, http: TestClient) -> None:
    remembered(memory, "alice")
    related(memory, ("I", "works at", "Acme"), valid_from="2020-01-01", valid_to="2023-01-01")
    related(memory, ("I", "works at", "Globex"), valid_from="2023-01-01")
    acme, globex = ("alice", "works at", "Acme"), ("alice", "works at", "Globex")
    seen = {moment: table(page(http, as_of=moment)) for moment in ("2019-12-31", "2020-01-01", "2023-01-01T00:00:00Z")}
    assert seen["2019-12-31"] == []
    assert seen["2020-01-01"] == [(*acme, "2020-01-01", "2023-01-01 ended")]
    assert {row[:3] for row in seen["2023-01-01T00:00:00Z"]} == {acme, globex}
    shown = page(http, as_of="2022-05-01")
    assert [name for name, *_ in ROW.findall(shown)] == ["later", "holds"]
    assert status(shown) == "2022-05-01 00:00: 1 relation holds, 0 ended"
    stops = [(stop["title"], stop["iso"][:10]) for stop in picture(shown)["stops"]][:-1]
    assert stops == [("2020-01-01", "2020-01-01"), ("2023-01-01", "2023-01-01")]


def test_graph_picture_has_the_rows_of_the_table(memory: Memory, http: TestClient) -> None:
    remembered(memory, "alice")
    related(memory, ("I", "knows", "Ben"), ("Ben", "married to", "Cleo"), ("Cleo", "works at", "Acme"))
    shown = page(http, hops=3)
    data = picture(shown)
    names = [node["name"] for node in data["nodes"]]
    assert names == ["alice", "Ben", "Cleo", "Acme"] and [node["hops"] for node in data["nodes"]] == [0, 1, 2, 3]
    told = [(names[tie["source"]], tie["name"], names[tie["target"]]) for tie in data["ties"]]
    assert told == [row[:3] for row in table(shown)]
    assert [node["name"] for node in picture(page(http, hops=1))["nodes"]] == ["alice", "Ben"]
    assert [node["name"] for node in picture(page(http, entity="acme", hops=1))["nodes"]] == ["Acme", "Cleo"]


def test_graph_page_without_a_user_shows_the_most_mentioned_entity(memory: Memory, http: TestClient) -> None:
    related(memory, ("Ben", "knows", "Cleo"), ("Ben", "knows", "Dan"), user_id=None, run_id="r1")
    related(memory, ("Cleo", "knows", "Eva"), user_id=None, run_id="r1")
    related(memory, ("BEN", "knows", "Finn"), user_id="alice", run_id="r1")
    nodes = picture(page(http, run_id="r1", hops=1))["nodes"]
    assert nodes[0]["name"] == "Ben" and {node["name"] for node in nodes[1:]} == {"Cleo", "Dan", "Finn"}


def test_graph_page_limits_a_large_graph(memory: Memory, http: TestClient) -> None:
    remembered(memory, "alice")
    related(memory, *(("I", "knows", f"Friend {number}") for number in range(12)))
    shown = page(http, most=5)
    assert "5 of 13 entities shown" in shown and "most=55" in shown
    assert [node["name"] for node in picture(shown)["nodes"]][1:] == [f"Friend {number}" for number in (11, 10, 9, 8)]
    assert len(table(shown)) == 4
    assert "13 entities" in page(http) and "show next" not in page(http, most=13)


def test_graph_page_escapes_names(memory: Memory, http: TestClient) -> None:
    remembered(memory, "alice")
    related(memory, *(("I", "knows", name) for name in HOSTILE))
    shown = page(http)
    assert {node["name"] for node in picture(shown)["nodes"]} == {"alice", *HOSTILE}
    assert "<script>alert" not in shown and "<img" not in shown and 'style="' not in shown
    links = re.findall(r'<td><a data-keeps href="([^"]*)">', shown)
    met = {picture(str(http.get(unescape(link)).text))["nodes"][0]["name"] for link in links}
    assert met == set(HOSTILE)


def test_graph_page_proposes_entities_for_an_unknown_name(memory: Memory, http: TestClient) -> None:
    remembered(memory, "alice")
    related(memory, ("I", "knows", "Ben"))
    related(memory, ("I", "knows", "Mallory"), user_id="bob")
    shown = page(http, user_id="alice", entity="Mallory")
    assert "nothing called “<bdi>Mallory</bdi>”" in shown and "<bdi>Ben</bdi>" in shown
    assert not DATA.search(shown)


def test_graph_page_without_relations_says_how_to_add_them(memory: Memory, http: TestClient) -> None:
    assert "serve --graph" not in page(http) and "No relations yet" in page(http)
    with Memory(":memory:") as plain, client(plain, auth="local") as without:
        assert "langmem-adapter serve --graph" in page(without)
        remembered(plain, "alice")
        assert "langmem-adapter serve --graph" in page(without)
        related(plain, ("I", "knows", "Ben"))
        assert "New memories add no relations" in page(without) and picture(page(without))["ties"]


def test_bad_addresses_say_what_is_wrong(memory: Memory, http: TestClient) -> None:
    remembered(memory, "alice")
    wrong = {"as_of=yesterday": 400, "as_of=0001-01-01T00:00%2B14:00": 400, "entity=%00": 400, "user_id=%00": 400}
    for query, code in {**wrong, "hops=9": 422, "most=100000": 422}.items():
        answer = http.get(f"{GRAPH}?{query}")
        assert (query, answer.status_code) == (query, code) and '<div class="hero narrow">' in answer.text
