"""One memory and one trace, as they reach a browser: what they show, what their forms do, and to whom."""

from __future__ import annotations

import json
import re
from html import unescape
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import pytest

from langmem_adapter.conversation import BrainMemory
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.scope import Scope
from langmem_adapter.settings import Settings
from langmem_adapter.testing import ScriptedChatModel
from tests.server.conftest import client, key, remembered
from tests.server.page.test_entrance import logged_in, token

if TYPE_CHECKING:
    from pathlib import Path

    from fastapi.testclient import TestClient

INLINE: Final = re.compile(r"</?(?:span|bdi|ins|del|a|time|strong|code)\b[^>]*>")
TAG: Final = re.compile(r"<[^>]*>")
TRACE: Final = re.compile(r'href="(/ui/traces/[^"]*)"')
COUNT: Final = count(1)
HOSTILE: Final = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "\u202eabc",
    "中" * 5_000,
    "{{ 7 * 7 }}",
)


def words(page: str) -> str:
    """What one reads of a page: its text, with single blanks."""
    return read(f"<main{page.partition('<main')[2]}")


def read(html: str) -> str:
    return " ".join(unescape(TAG.sub(" ", INLINE.sub("", html))).split())


def steps(page: str) -> list[str]:
    """The timeline of a memory, a text each."""
    timeline = page.partition('class="steps"')[2].partition("</ol>")[0]
    return [read(step) for step in timeline.split('<li id="v')[1:]]


def sent(http: TestClient, view: str, action: str = "", **form: Any) -> Any:
    """The answer to a form of a view."""
    given = {"csrf": token(http, view), **form}
    return http.post(f"{view.partition('?')[0]}{action}", data=given, follow_redirects=False)


def as_kept(memory: Memory, memory_id: str) -> dict[str, str]:
    """What the form of a memory holds before anybody edits."""
    item = memory.get(memory_id)
    metadata = json.dumps(dict(item.metadata), ensure_ascii=False, indent=2) if item.metadata else ""
    return {"text": item.text, "metadata": metadata, "revision": str(item.revision)}


@pytest.fixture
def user() -> str:
    """Somebody whom no other test knows."""
    return f"u{next(COUNT)}"


@pytest.fixture
def home(memory: Memory, user: str) -> str:
    """The view of a memory that two adds and an edit made."""
    change = memory.add("I live in Kyoto.", user_id=user, timestamp="2024-05-01").results[0]
    memory.add("Now I live in Lyon.", user_id=user, timestamp="2025-06-01")
    memory.update(str(change.id), "Lives in Lyon, near the river")
    return f"/ui/memories/{change.id}"


def test_memory_page_shows_every_revision_with_its_difference(http: TestClient, home: str, user: str) -> None:
    page = http.get(home).text
    third, second, first = steps(page)
    assert "Lives in Lyon<ins>, near the river</ins>" in page and "Lives in <del>Kyoto</del><ins>Lyon</ins>" in page
    assert third.startswith('3"> v3 ~ UPDATE') and "edited by hand" in third and "→ now" in third
    assert "true 2025-06-01 → " in second and "true 2024-05-01 → 2025-06-01" in first
    assert "Lives in Kyoto" in first and "+ ADD" in first and "Restore version v1" in first
    assert "Restore" not in third
    assert page.count("<h1") == 1 and ">Lives in Lyon, near the river</h1>" in page
    for fact in (f"user {user}", "kind fact", "version 3", "first said 2024-05-01", "expires never"):
        assert fact in words(page)


def test_memory_page_shows_the_source(memory: Memory, http: TestClient, user: str) -> None:
    said = [("user", "Where shall we go?"), ("assistant", "Tell me of you."), ("user", "I am vegetarian.")]
    memory.add(said, user_id=user)
    page = http.get(f"/ui/memories/{memory.get_all(user_id=user)[0].id}").text
    assert "message 3 of 3" in words(page)
    told = [read(turn) for turn in page.split("<blockquote")[1:]]
    assert [text in turn for (_, text), turn in zip(said, told, strict=True)] == [True] * 3
    traces = set(TRACE.findall(page))
    assert len(traces) == 1 and f"user_id={user}" in min(traces)
    assert "Is vegetarian" in words(http.get(min(traces)).text)


def test_memory_page_shows_stored_words_without_a_trace(tmp_path: Path, user: str) -> None:
    with Memory(tmp_path / "m.db", settings=Settings(trace_days=0)) as memory, client(memory, auth="local") as http:
        change = memory.add([("assistant", "And food?"), ("user", "I am vegetarian.")], user_id=user).results[0]
        page = http.get(f"/ui/memories/{change.id}").text
        assert not TRACE.search(page)
        assert "I am vegetarian And food? version 1 kept with the memory" in words(page)
        assert "switched of" in words(http.get(f"/ui/traces?user_id={user}").text)


def test_memory_page_shows_a_long_history_page_by_page(memory: Memory, http: TestClient, user: str) -> None:
    home = remembered(memory, user)
    memory.update_many([{"memory_id": home, "text": f"Number {number}"} for number in range(54)])
    page = http.get(f"/ui/memories/{home}").text
    assert len(steps(page)) == 50
    older = re.search(r'href="([^"]*before=6[^"]*)"', page)
    assert older is not None
    assert [step.partition('"')[0] for step in steps(http.get(unescape(older[1])).text)] == list("54321")


def test_memory_page_shows_relations_and_similar_memories_on_request(
    memory: Memory, http: TestClient, user: str
) -> None:
    change = memory.add("I live in Lyon.", user_id=user).results[0]
    for other in (user, "bob"):
        memory.add("I live near Lyon.", user_id=other, infer=False)
    page = http.get(f"/ui/memories/{change.id}").text
    assert f"Relations {user} lives in Lyon" in words(page) and "similar=true" in page
    assert f"/ui/graph?user_id={user}&amp;entity=Lyon" in page
    page = http.get(f"/ui/memories/{change.id}?similar=true").text
    assert words(page).count("I live near Lyon.") == 1 and "hx-get" not in page


@pytest.mark.parametrize(
    ("form", "text", "metadata", "expires"),
    [
        ({"text": "Says\r\nthat"}, "Says\nthat", {"a": 1, "b": "x"}, None),
        ({"metadata": '{"b": "y", "c": [1]}'}, "Says this", {"b": "y", "c": [1]}, None),
        ({"metadata": ""}, "Says this", {}, None),
        ({"metadata": '{"a": true, "b": "x"}'}, "Says this", {"a": True, "b": "x"}, None),
        ({"expires": "2090-01-02T03:04"}, "Says this", {"a": 1, "b": "x"}, "2090-01-02T03:04:00+00:00"),
    ],
)
def test_memory_page_edits_text_metadata_and_expiry(
    memory: Memory,
    http: TestClient,
    form: dict[str, str],
    text: str,
    metadata: dict[str, Any],
    expires: str | None,
    user: str,
) -> None:
    change = memory.add("Says this", user_id=user, infer=False, metadata={"a": 1, "b": "x"}).results[0]
    home, whole = f"/ui/memories/{change.id}", {**as_kept(memory, str(change.id)), **form}
    answer = sent(http, home, **whole, user_id=user)
    assert answer.headers["location"] == f"{home}?user_id={user}&done=edited"
    assert "Saved." in words(http.get(answer.headers["location"]).text)
    item = memory.get(str(change.id))
    assert (item.text, dict(item.metadata), item.revision) == (text, metadata, 2)
    assert (item.expires_at and item.expires_at.isoformat()) == expires


def test_memory_page_writes_nothing_without_a_change(memory: Memory, http: TestClient, user: str) -> None:
    text = "\nTwo\nlines"
    change = memory.add(text, user_id=user, infer=False, metadata={"名": "值"}).results[0]
    home = f"/ui/memories/{change.id}"
    form = {name: value.replace("\n", "\r\n") for name, value in as_kept(memory, str(change.id)).items()}
    assert f">\n{memory.get(str(change.id)).text}</textarea>" in http.get(home).text
    assert "done=unchanged" in sent(http, home, **form).headers["location"]
    assert memory.get(str(change.id)).revision == 1


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({"metadata": "{broken"}, "the metadata is no JSON:"),
        ({"metadata": "[" * 100_000}, "the metadata is no JSON:"),
        ({"metadata": "[1]"}, "no JSON object"),
        ({"text": " "}, "text"),
        ({"expires": "yesterday"}, "expires='yesterday' is no point in time"),
    ],
)
def test_memory_page_keeps_invalid_input_in_the_form(
    memory: Memory, http: TestClient, form: dict[str, str], told: str, user: str
) -> None:
    home = remembered(memory, user)
    typed = {"text": "Typed for an hour", **form}
    answer = sent(http, f"/ui/memories/{home}", **{**as_kept(memory, home), **typed})
    assert answer.status_code == 422
    assert told in words(answer.text) and typed["text"] in answer.text and " open>" in answer.text
    assert memory.get(home).revision == 1


def test_memory_page_refuses_an_edit_of_an_old_revision(memory: Memory, http: TestClient, user: str) -> None:
    home = remembered(memory, user)
    form = as_kept(memory, home)
    memory.update(home, "Changed meanwhile")
    answer = sent(http, f"/ui/memories/{home}", **{**form, "text": "Mine"})
    assert answer.status_code == 409 and "this memory has changed meanwhile" in answer.text
    assert memory.get(home).text == "Changed meanwhile"


def test_memory_page_deletes_and_restores(memory: Memory, http: TestClient, home: str, user: str) -> None:
    answer = sent(http, home, "/delete", user_id=user)
    gone = http.get(answer.headers["location"]).text
    assert "Deleted." in words(gone) and "searches do not find it any more" in words(gone)
    assert "− DELETE" in steps(gone)[0] and "<del>Lives in Lyon, near the river</del>" in gone
    assert memory.get_all(user_id=user).items == ()
    answer = sent(http, home, "/restore", revision=1, user_id=user)
    assert "Restored" in words(http.get(answer.headers["location"]).text)
    assert [item.text for item in memory.get_all(user_id=user)] == ["Lives in Kyoto"]


def test_memory_page_shows_a_memory_of_the_past(memory: Memory, http: TestClient, user: str) -> None:
    memory.add("I live in Lyon.", user_id=user, timestamp="2026-01-01")
    late = memory.add("I live in Kyoto.", user_id=user, timestamp="2020-01-01").results[0]
    memory.update(str(memory.get_all(user_id=user)[0].id), expires_at="2020-01-01")
    page = words(http.get(f"/ui/memories/{late.id}").text)
    assert "had ended before it was added" in page and "true 2020-01-01 → 2026-01-01" in page and "Restore" in page


def test_traces_page_lists_adds_page_by_page(memory: Memory, http: TestClient, user: str) -> None:
    memory.add("Hello there!", user_id=user)
    memory.add_many([{"messages": f"Number {n}.", "user_id": user, "run_id": str(n)} for n in range(50)])
    memory.add("I like tea.", user_id="bob")
    page = http.get(f"/ui/traces?user_id={user}").text
    assert page.count("data-entry") == 50 and "I like tea." not in page
    older = re.search(r'href="([^"]*after=[^"]*)"', page)
    assert older is not None
    told = words(http.get(unescape(older[1])).text)
    assert "Hello there! no fact" in told
    assert "No traces" in words(http.get("/ui/traces?user_id=nobody").text)


def test_trace_page_shows_the_five_stages(memory: Memory, http: TestClient, home: str, user: str) -> None:
    (update, *_) = TRACE.findall(http.get(home).text)
    page = http.get(unescape(update)).text
    assert re.findall(r"<h2>(\w+)</h2>", page) == ["parse", "extract", "retrieve", "decide", "apply"]
    told = words(page)
    assert "“Now I live in Lyon.”" in told and "~ 1 UPDATE" in told and "offline: rules" in told
    assert "compared with this one. Lives in Kyoto" in told
    assert "Lives in <del>Kyoto</del><ins>Lyon</ins>" in page
    assert f'href="{home}?user_id={user}"' in page


def test_trace_page_shows_prompts_and_replies(tmp_path: Path, user: str) -> None:
    facts = json.dumps({"facts": [f"Likes tea number {number}" for number in range(30)]})
    with Memory(tmp_path / "m.db", model=ScriptedChatModel(replies=[facts]), embeddings="hash:512") as memory:
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
        said = [{"role": "user", "content": [{"type": "text", "text": "<b>Tea!</b>"}, image]}]
        added = memory.add(said, user_id=user, context="We talked of drinks.")
        with client(memory, auth="local") as http:
            page = http.get(f"/ui/traces/{added.trace_id}").text
    told = words(page)
    assert "1 call" in told and re.search(r"[\d,]+ → [\d,]+ tokens", told)
    assert "Chat model, call 1: facts_found" in told and facts in told
    assert "We talked of drinks." in told and "was not looked at" in told
    assert all(f"Likes tea number {number}" in told for number in range(30))
    assert "18 more facts" in told and "<b>" not in page


def test_trace_page_shows_a_summary(tmp_path: Path) -> None:
    model = ScriptedChatModel(replies=["They talked of apples."] * 9)
    with Memory(tmp_path / "m.db", model=model, embeddings="hash:512") as memory:
        brain = BrainMemory(memory, "monday", user_id="alice", window=200, max_tokens=100)
        for number in range(9):
            brain.add_talk(f"Lily number {number} has {number} {'green ' * 20} apples.")
        brain.summarize()
        with client(memory, auth="local") as http:
            (trace,) = set(TRACE.findall(http.get("/ui/traces?user_id=alice").text))
            told = words(http.get(unescape(trace)).text)
    assert "Trace of a summary" in told and "They talked of apples." in told and "extract" not in told


def test_trace_page_shows_verbatim_messages_once(memory: Memory, http: TestClient, user: str) -> None:
    turns = [("user", f"Message {number}.") for number in range(50)]
    added = memory.add([("system", "Be kind."), *turns], user_id=user, agent_id="guide", infer=False)
    told = words(http.get(f"/ui/traces/{added.trace_id}").text)
    assert "Kept word for word" in told and "50 memories to add" in told and "retrieve left out" in told
    assert "43 more messages" in told and told.count("Message 49.") == 2


def test_what_anybody_said_stays_text(memory: Memory, http: TestClient) -> None:
    for text in HOSTILE:
        added = memory.add(text, user_id=text[:9], infer=False, metadata={text[:30]: text})
        memory.update(str(added.results[0].id), f"{text} {text}")
        for view in (f"memories/{added.results[0].id}", f"traces/{added.trace_id}", "traces", "memories"):
            page = http.get(f"/ui/{view}", params={"user_id": text[:9], "similar": True, "q": text}).text
            assert "<script>alert" not in page and "<img" not in page and page.count("<h1") == 1
            assert text[:100] in unescape(page)


def test_trace_of_a_wider_scope_is_hidden_from_a_narrower_key(memory: Memory, guarded: TestClient, user: str) -> None:
    change = memory.add("I live in Kyoto.", user_id=user, agent_id="guide").results[0]
    memory.add("My secret is blue. I live in Lyon.", user_id=user)
    assert memory.get(str(change.id)).text == "Lives in Lyon"
    logged_in(guarded, key(memory, Scope(user_id=user, agent_id="guide"))["X-API-Key"])
    page = guarded.get(f"/ui/memories/{change.id}").text
    assert "secret" not in page and "Lives in Lyon" in page
    links = TRACE.findall(page)
    assert links and all(guarded.get(unescape(link)).status_code == 200 for link in links)
