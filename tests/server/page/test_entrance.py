"""The way into the page: who is let in, what a browser keeps of it, and which forms are taken."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest
from sqlalchemy import update

from langmem_adapter.storage import keys, tables
from tests.server.conftest import ALICE, client, key, remembered

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

    from langmem_adapter.memory.memory import Memory

MEMORIES: Final = "/ui/memories"
TOKEN: Final = re.compile(r'name="csrf" value="([0-9a-f]+)"')


def token(http: TestClient, path: str) -> str:
    """What the forms of a view carry."""
    found = TOKEN.search(http.get(path).text)
    assert found is not None
    return found[1]


def logged_in(http: TestClient, shown: str, **form: Any) -> Any:
    sent = {"csrf": token(http, "/ui/login"), "key": shown, **form}
    return http.post("/ui/login", data=sent, follow_redirects=False)


def test_login_leads_back_to_the_view(memory: Memory, guarded: TestClient) -> None:
    remembered(memory, "alice")
    asked = guarded.get(f"{MEMORIES}?q=tea", follow_redirects=False)
    assert (asked.status_code, asked.headers["location"]) == (303, "/ui/login?to=%2Fui%2Fmemories%3Fq%3Dtea")
    for home in ("/ui", "/ui/"):
        assert guarded.get(home, follow_redirects=False).headers["location"].startswith("/ui/login")
    shown = guarded.get(asked.headers["location"])
    assert 'name="to" value="/ui/memories?q=tea"' in shown.text
    refused = logged_in(guarded, "lma_wrong", to="/ui/memories?q=tea")
    assert refused.status_code == 401 and "not valid here" in refused.text and "lma_wrong" not in refused.text
    assert 'name="to" value="/ui/memories?q=tea"' in refused.text
    entered = logged_in(guarded, key(memory)["X-API-Key"], to="/ui/memories?q=tea")
    assert (entered.status_code, entered.headers["location"]) == (303, "/ui/memories?q=tea")
    assert "I am alice and I like tea." in guarded.get(entered.headers["location"]).text


def test_session_cookie_is_httponly_and_same_site(memory: Memory, guarded: TestClient) -> None:
    shown = key(memory)["X-API-Key"]
    cookie = logged_in(guarded, shown).headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/ui"} <= {part.strip() for part in cookie.split(";")}
    assert shown.split("_", 2)[2] not in cookie
    with client(memory, hosts=["testserver"]) as encrypted:
        encrypted.base_url = "https://testserver"
        assert "Secure" in logged_in(encrypted, shown).headers["set-cookie"]


@pytest.mark.parametrize("ends", ["logout", "revoked", "time", "purge"])
def test_session_ends_with_logout_key_and_time(memory: Memory, guarded: TestClient, ends: str) -> None:
    remembered(memory, "alice")
    shown = key(memory)["X-API-Key"]
    logged_in(guarded, shown)
    kept = dict(guarded.cookies)
    assert guarded.get(MEMORIES).status_code == 200
    write = memory.parts.database.write
    match ends:
        case "logout":
            guarded.post("/ui/logout", data={"csrf": token(guarded, MEMORIES)})
        case "revoked":
            write(lambda connection: keys.revoke(connection, keys.listed(connection)[0].id))
        case "time":
            past = datetime.now(UTC) - timedelta(seconds=1)
            write(lambda connection: connection.execute(update(tables.sessions).values(ends_at=past)))
            with client(memory) as another:
                logged_in(another, shown)  # which deletes those that have ended
            assert write(lambda connection: len(connection.execute(tables.sessions.select()).all())) == 1
        case _:
            memory.purge(user_id="alice")
    guarded.cookies.clear()
    guarded.cookies.update(kept)
    assert guarded.get(MEMORIES, follow_redirects=False).headers["location"].startswith("/ui/login")


@pytest.mark.parametrize("sent", [{}, {"csrf": ""}, {"csrf": "0" * 64}, {"csrf": "钥匙"}])
def test_form_without_its_token_changes_nothing(memory: Memory, http: TestClient, sent: dict[str, str]) -> None:
    remembered(memory, "alice")
    http.get(MEMORIES)
    answer = http.post(MEMORIES, data={"text": "I like coffee.", "user_id": "alice", **sent})
    assert answer.status_code == 403 and "load the page again" in answer.text
    assert [item.text for item in memory.get_all(user_id="alice")] == ["I am alice and I like tea."]


def test_form_of_another_browser_or_site_is_refused(memory: Memory, http: TestClient) -> None:
    remembered(memory, "alice")
    sent = {"text": "x", "user_id": "alice", "csrf": token(http, MEMORIES)}
    for origin in ("https://evil.example", "null"):
        assert http.post(MEMORIES, data=sent, headers={"Origin": origin}).status_code == 403
    with client(memory, auth="local") as another:
        another.get(MEMORIES)
        assert another.post(MEMORIES, data=sent).status_code == 403


@pytest.mark.parametrize(
    "to", ["https://evil.example/", "//evil.example", "/ui//evil.example", "/ui\\evil", "javascript:x"]
)
def test_login_leads_to_no_other_site(memory: Memory, guarded: TestClient, to: str) -> None:
    entered = logged_in(guarded, key(memory)["X-API-Key"], to=to)
    assert entered.headers["location"] == MEMORIES


def test_key_without_the_right_sees_no_form_and_cannot_send_one(memory: Memory, guarded: TestClient) -> None:
    remembered(memory, "alice")
    logged_in(guarded, key(memory, ALICE, "read")["X-API-Key"])
    assert "Remember something" not in guarded.get(MEMORIES).text
    sent = {"text": "I like coffee.", "csrf": token(guarded, MEMORIES)}
    assert guarded.post(MEMORIES, data=sent).status_code == 403


def test_refused_page_says_what_to_do(memory: Memory, http: TestClient) -> None:
    answer = http.get(MEMORIES, headers={"X-Forwarded-For": "10.0.0.1"})
    assert answer.status_code == 401 and "keys create" in answer.text
    with client(memory) as guarded:
        answer = guarded.get(MEMORIES, headers={"HX-Request": "true"})
    assert (answer.status_code, answer.text) == (401, "")
    assert answer.headers["hx-redirect"].startswith("/ui/login")


def test_error_page_keeps_the_scope(memory: Memory, http: TestClient) -> None:
    remembered(memory, "alice")
    lost = http.get(f"{MEMORIES}/nothing", params={"user_id": "alice"})
    assert lost.status_code == 404 and f'href="{MEMORIES}?user_id=alice"' in lost.text


def test_theme_is_kept_in_a_cookie(memory: Memory, http: TestClient) -> None:
    remembered(memory, "alice")
    for theme, told in (("dark", "dark"), ("light", "light"), ("pink", "auto")):
        sent = {"theme": theme, "csrf": token(http, MEMORIES), "to": "/ui/memories?q=tea"}
        page = http.post("/ui/theme", data=sent)
        assert page.url.query == b"q=tea"
        assert f'data-theme="{told}"' in page.text
