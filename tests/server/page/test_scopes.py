"""Whose memories there are, taken away, and forgotten."""

from __future__ import annotations

import csv
import io
import re
from html import unescape
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.scope import Scope
from langmem_adapter.settings import Settings
from tests.server.conftest import ALICE, client, key, remembered
from tests.server.page.test_entrance import logged_in, token

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

SCOPES: Final = "/ui/scopes"
FORGET: Final = "/ui/scopes/forget"
NAME: Final = re.compile(r"data-entry title=\"[^\"]*\"><bdi>([^<]*)</bdi>")
FIGURE: Final = re.compile(r"<dt>([^<]*)</dt><dd>([\d,]+)</dd>")
HREF: Final = re.compile(r'href="([^"]*)"')
DANGEROUS: Final = "=HYPERLINK(A1)"


def names(page: str) -> list[str]:
    return [unescape(name) for name in NAME.findall(page)]


def figures(page: str) -> dict[str, int]:
    return {name: int(number.replace(",", "")) for name, number in FIGURE.findall(page)}


def link(page: str, text: str) -> str:
    """Where the first link with this text leads."""
    found = re.search(rf'href="([^"]*)"[^>]*>{text}', page)
    assert found is not None, text
    return unescape(found[1])


def forget(http: TestClient, name: str, how: str, **whose: str) -> Any:
    sent = {"csrf": token(http, f"{FORGET}?{'&'.join(f'{k}={v}' for k, v in whose.items())}"), "name": name, "how": how}
    return http.post(FORGET, data={**sent, **whose})


def test_scopes_page_lists_and_sorts_users_agents_and_runs(memory: Memory, http: TestClient) -> None:
    for user, number in (("ann", 1), ("Bob", 3), ("小明", 2)):
        for _ in range(number):
            remembered(memory, user, agent_id="guide")
    page = http.get(SCOPES).text
    assert names(page) == ["Bob", "小明", "ann"]
    assert names(http.get(link(page, "User<")).text) == ["Bob", "ann", "小明"]
    assert re.findall(r'aria-sort="(\w+)"', page) == ["descending"]
    assert names(http.get(link(page, "Memories<span")).text) == ["ann", "小明", "Bob"]
    assert names(http.get(link(page, "Agents")).text) == ["guide"]
    assert names(http.get(SCOPES, params={"begins": "小"}).text) == ["小明"]
    assert "No match" in http.get(SCOPES, params={"begins": "b"}).text
    assert "No run yet" in http.get(SCOPES, params={"by": "run"}).text
    assert link(page, "Graph<span").endswith("/ui/graph?user_id=Bob")


def test_scopes_page_shows_thousands_page_by_page(memory: Memory, http: TestClient) -> None:
    memory.add_many([{"messages": "tea", "user_id": f"user-{n:02}", "infer": False} for n in range(60)])
    first = http.get(SCOPES, params={"sort": "name"}).text
    assert "1 to 50 of 60 users" in first and names(first)[-1] == "user-49"
    assert names(http.get(link(first, "Next")).text) == [f"user-{n}" for n in range(50, 60)]
    assert "Its first page" in http.get(SCOPES, params={"page": "9"}).text


def test_scopes_page_escapes_names(memory: Memory, http: TestClient) -> None:
    hostile = ["<script>alert(1)</script>", "x" * 512, "a\u202eb", 'a"b&c=d', "a\nb"]
    for name in hostile:
        remembered(memory, name)
    page = http.get(SCOPES).text
    assert "<script>alert" not in page and {*names(page)} == {*hostile}
    for place in (unescape(each) for each in HREF.findall(page) if "user_id=" in each):
        assert place.split("?")[0] == "/ui/graph" or http.get(place).status_code == 200, place


def test_scopes_page_shows_other_keys_their_own_scope(memory: Memory, guarded: TestClient) -> None:
    remembered(memory, "alice")
    remembered(memory, "bob")
    logged_in(guarded, key(memory, ALICE, "read")["X-API-Key"])
    page = guarded.get(SCOPES).text
    assert names(page) == ["alice"] and "bob" not in page and "Forget" not in page
    assert guarded.get(f"{SCOPES}?user_id=bob").status_code == 403
    logged_in(guarded, key(memory, None, "read")["X-API-Key"])
    page = guarded.get(SCOPES).text
    assert "Name a scope" in page and "bob" not in page
    for view in ("memories", "graph", "traces"):  # none of them shows whoever has most
        answer = guarded.get(f"/ui/{view}", follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (303, SCOPES) and "bob" not in answer.text


def test_scopes_page_shows_an_agents_admin_its_users(memory: Memory, guarded: TestClient) -> None:
    remembered(memory, "alice", agent_id="guide")
    remembered(memory, "alice")
    remembered(memory, "bob")
    logged_in(guarded, key(memory, Scope(agent_id="guide"), "admin")["X-API-Key"])
    page = guarded.get(SCOPES).text
    assert names(page) == ["alice"] and link(page, "Graph<span").endswith("?agent_id=guide&user_id=alice")
    assert '<td class="number">1</td>' in page


def test_page_export_equals_the_rest_export(memory: Memory, http: TestClient) -> None:
    memory.add("我喜欢喝茶。", user_id="小明/..", infer=False, metadata={"from": "chat"})
    page = http.get("/ui/export", params={"user_id": "小明/.."})
    assert page.content == http.get("/v1/export", params={"user_id": "小明/.."}).content
    name = "attachment; filename=\"memories.jsonl\"; filename*=UTF-8''memories-%E5%B0%8F%E6%98%8E_...jsonl"
    assert page.headers["content-disposition"] == name
    assert http.get("/ui/export").status_code == 400


def test_page_export_csv_has_no_formula(memory: Memory, http: TestClient) -> None:
    for text in ("\uff1d1+1", DANGEROUS, 'He said "tea,\ncoffee"', "茶"):
        memory.add(text, user_id="@bob", infer=False, metadata={"from": "chat"})
    answer = http.get("/ui/export", params={"user_id": "@bob", "format": "csv"})
    rows = [*csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"), newline=""))]
    assert [row["text"] for row in rows] == ["茶", 'He said "tea,\ncoffee"', f"'{DANGEROUS}", "'\uff1d1+1"]
    assert {(row["user_id"], row["metadata"], row["run_id"]) for row in rows} == {("'@bob", '{"from": "chat"}', "")}


def test_forget_page_counts_and_asks_for_the_name(memory: Memory, http: TestClient) -> None:
    memory.add("I live in Lyon. I like tea.", user_id="alice")
    asked = figures(http.get(f"{FORGET}?user_id=alice").text)
    assert (asked["memories"], asked["versions"], asked["trace"]) == (2, 2, 1)
    for wrong in ("", "Alice", "alic"):
        answer = forget(http, wrong, "erase", user_id="alice")
        assert (answer.status_code, "Nothing was changed" in answer.text) == (422, True)
    assert len(memory.get_all(user_id="alice")) == 2
    assert http.get(FORGET).status_code == 400


def test_forget_page_delete_can_be_restored(memory: Memory, http: TestClient) -> None:
    number = remembered(memory, "alice")
    assert "1 memory deleted" in forget(http, " alice ", "delete", user_id="alice").text
    assert not memory.get_all(user_id="alice") and "history only" in http.get(SCOPES).text
    memory.restore(number, 1)
    assert len(memory.get_all(user_id="alice")) == 1


def test_forget_page_erase_leaves_nothing(memory: Memory, http: TestClient) -> None:
    memory.add("I live in Lyon. I like tea.", user_id="alice")
    remembered(memory, "bob")
    page = forget(http, "alice", "erase", user_id="alice").text
    assert "Erased for good" in page and figures(page)["memories"] == 2
    assert names(http.get(SCOPES).text) == ["bob"]
    assert "There was nothing left of it" in forget(http, "alice", "erase", user_id="alice").text


def test_forget_page_shows_what_remains_and_asks_for_a_word_that_can_be_typed() -> None:
    lonely = Settings(redis_url="redis://127.0.0.1:1/0")
    with Memory(":memory:", settings=lonely) as memory, client(memory, auth="local") as http:
        for name in ("a\u202eb", "x" * 512, "a\u200bb"):
            remembered(memory, name)
            assert "1 memory deleted" in forget(http, "forget", "delete", user_id=name).text
        page = forget(http, "forget", "erase", user_id=name).text
        assert "Erased, but something remains" in page and "left in Redis" in page


def test_forget_page_needs_rights(memory: Memory, guarded: TestClient) -> None:
    remembered(memory, "alice")
    logged_in(guarded, key(memory, ALICE, "read")["X-API-Key"])
    assert guarded.get(FORGET).status_code == 403
    logged_in(guarded, key(memory, ALICE, "write")["X-API-Key"])
    page = guarded.get(FORGET).text
    assert 'value="delete"' in page and 'value="erase"' not in page
    assert forget(guarded, "alice", "erase", user_id="alice").status_code == 403
    assert forget(guarded, "bob", "delete", user_id="alice").status_code == 422
    assert len(memory.get_all(user_id="alice")) == 1


def test_forget_page_answers_after_erasing_the_callers_key(memory: Memory, guarded: TestClient) -> None:
    remembered(memory, "alice")
    logged_in(guarded, key(memory, ALICE, "admin")["X-API-Key"])
    page = forget(guarded, "alice", "erase", user_id="alice").text
    assert (figures(page)["memory"], figures(page)["key of a program"]) == (1, 1)
    assert guarded.get(SCOPES, follow_redirects=False).headers["location"].startswith("/ui/login")
