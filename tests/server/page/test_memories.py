"""The list of memories, as it reaches a browser."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tests.server.page.test_entrance import token

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

    from langmem_adapter.memory.memory import Memory

MEMORIES: Final = "/ui/memories"
TITLE: Final = re.compile(r"data-entry>([^<]*)</a>")


def titles(http: TestClient, query: str = "") -> list[str]:
    return TITLE.findall(http.get(f"{MEMORIES}?{query}").text)


def test_memories_page_lists_the_newest_first(memory: Memory, http: TestClient) -> None:
    for number in range(60):
        memory.add(f"Number {number}.", user_id="alice", infer=False)
    first = http.get(MEMORIES).text
    assert TITLE.findall(first) == [f"Number {number}." for number in range(59, 9, -1)]
    older = re.search(r'href="([^"]*after=[^"]*)"', first)
    assert older is not None
    second = http.get(older[1].replace("&amp;", "&")).text
    assert TITLE.findall(second) == [f"Number {number}." for number in range(9, -1, -1)]
    assert "60 memories" in first


def test_memories_page_shows_hits_with_their_evidence(memory: Memory, http: TestClient) -> None:
    memory.add("I live in Lyon.", user_id="alice", timestamp="2024-05-01T00:00:00Z")
    memory.add("I like jazz.", user_id="alice", timestamp="2024-05-02T00:00:00Z")
    page = http.get(f"{MEMORIES}?q=where+does+she+live").text
    assert TITLE.findall(page)[0] == "Lives in Lyon"
    assert re.search(r"</i>words 0\.\d\d", page) and '<rect class="part-words"' in page
    nearest = "none has these words"
    assert nearest not in page and nearest in http.get(f"{MEMORIES}?q=zebra").text
    assert titles(http, "as_of=2024-05-01") == ["Lives in Lyon"]
    assert "No memory of this scope" in http.get(f"{MEMORIES}?q=x&type=procedural_memory").text


def test_memories_page_has_title_and_colour_of_all_evidence(memory: Memory, http: TestClient) -> None:
    memory.add("I live in Lyon.", user_id="alice", timestamp="2023-05-01", infer=False)
    page = http.get("/ui/memories?user_id=alice&q=Where did I live in May 2023?").text
    told = dict(re.findall(r'class="legend part-(\w+)" title="([^"]*)"', page))
    assert {"window", "words"} <= told.keys() and all(told.values())
    (sheet,) = re.findall(r'href="([^"]*page\.css[^"]*)"', page)
    colours = http.get(sheet).text
    assert all(f".part-{name} " in colours for name in told)


def test_memories_page_without_memories_offers_examples(memory: Memory, http: TestClient) -> None:
    page = http.get(MEMORIES).text
    assert "Nothing is remembered yet" in page and memory.location in page  # where a program finds the same memories
    sent = {"text": "I live in Lyon.", "user_id": "ada", "csrf": token(http, MEMORIES)}
    answer = http.post(MEMORIES, data=sent, follow_redirects=False)
    assert re.fullmatch(r"/ui/traces/[\w-]+\?user_id=ada", answer.headers["location"])
    http.post(MEMORIES, data={**sent, "text": "I am at noon.", "verbatim": "true"}, follow_redirects=False)
    assert titles(http, "user_id=ada") == ["I am at noon.", "Lives in Lyon"]


def test_bad_addresses_say_what_is_wrong(memory: Memory, http: TestClient) -> None:
    memory.add("I live in Lyon.", user_id="alice")
    for query in ("as_of=yesterday", "after=nonsense", "user_id=%00"):
        answer = http.get(f"{MEMORIES}?{query}")
        assert answer.status_code == 400 and "<h1>Bad Request</h1>" in answer.text
    assert http.get("/ui/nowhere").status_code == 404
