"""How the server is, as it reaches a browser."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any, Final

from pydantic import SecretStr
from sqlalchemy import update

from langmem_adapter.index.base import Batch
from langmem_adapter.memory.memory import Memory
from langmem_adapter.settings import Settings
from langmem_adapter.storage import jobs, tables
from tests.server.conftest import ALICE, client, key, remembered
from tests.server.page.test_entrance import logged_in, token

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from fastapi.testclient import TestClient

HEALTH: Final = "/ui/health"
INDEX: Final = "/ui/health/index"
CHECK: Final = re.compile(r'<span class="status">(\w+)</span> <span class="what">(\w+)</span>')
SETTING: Final = re.compile(r"<code>(\w+)</code></th><td>(?:<bdi>)?([^<]*).*?</td><td>(\w+)</td>")


def told(http: TestClient, path: str, **form: str) -> str:
    """The view that answers a form."""
    answer = http.post(path, data={"csrf": token(http, INDEX), **form})
    assert answer.status_code == 200
    return answer.text


def rebuilt(http: TestClient) -> str:
    page = told(http, f"{HEALTH}/rebuild")
    give_up = time.monotonic() + 30
    while "<progress" in page and time.monotonic() < give_up:
        assert 'http-equiv="refresh"' in page and 'hx-get="/ui/health/index"' in page
        page = http.get(INDEX).text
    return page


def test_health_page_shows_the_checks(memory: Memory, http: TestClient) -> None:
    remembered(memory, "alice")
    quick = http.get(HEALTH).text
    assert {name: status for status, name in CHECK.findall(quick)}.keys() >= {"python", "packages", "telemetry", "disk"}
    whole = {name: status for status, name in CHECK.findall(told(http, HEALTH))}
    assert (whole["database"], whole["index"]) == ("OK", "OK") and "model" not in whole
    assert {"embeddings", "model"} <= {name for _, name in CHECK.findall(told(http, HEALTH, ask="true"))}


def test_health_page_shows_failures_with_their_fix(
    memory: Memory, http: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    remembered(memory, "alice")
    _empty(memory)
    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    page = http.get(HEALTH).text
    assert "It works, with a warning" in page and "<code>unset LANGSMITH_TRACING</code>" in page
    page = told(http, HEALTH)
    assert "Something is broken" in page and ("FAIL", "index") in CHECK.findall(page)


def test_health_page_shows_the_origin_of_every_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGMEM_ADAPTER_TRACE_DAYS", "7")
    settings = Settings(api_key=SecretStr("sk-very-secret"), base_url="http://ada:hush@models.example/v1")
    with Memory(tmp_path / "m.db", settings=settings, graph=True) as memory, client(memory, auth="local") as http:
        page = http.get(HEALTH).text
    found = {name: (value, origin) for name, value, origin in SETTING.findall(page)}
    assert found.keys() == Settings.model_fields.keys()
    assert (found["trace_days"], found["attempts"]) == (("7.0", "environment"), ("20", "default"))
    assert (found["api_key"], found["graph"]) == (("set", "argument"), ("yes", "argument"))
    assert found["database"] == (str(tmp_path / "m.db"), "argument")
    assert (found["model"], found["embeddings"]) == (("offline", "default"), ("hash:512", "default"))
    assert "sk-very-secret" not in page and "hush" not in page


def test_health_page_counts_the_queue(memory: Memory, http: TestClient) -> None:
    assert "No adds wait" in http.get(HEALTH).text
    requests, write = [{"messages": "I like tea.", "user_id": "alice"}], memory.parts.database.write
    write(lambda connection: [jobs.submit(connection, requests, 10), jobs.take(connection, "another", lease=600)])
    assert "<dt>under way</dt><dd>1</dd>" in http.get(HEALTH).text


def test_index_page_verifies_and_rebuilds(memory: Memory, http: TestClient) -> None:
    number = remembered(memory, "alice")
    assert "1 vector compared" in told(http, f"{HEALTH}/verify")
    _empty(memory)
    assert "1 only in the database" in told(http, f"{HEALTH}/verify")
    assert "Rebuilt from 1 memory" in rebuilt(http)
    assert "equal to the database" in told(http, f"{HEALTH}/verify")
    remembered(memory, "bob")
    cut = update(tables.memories).where(tables.memories.c.id == number).values(embedding=b"\0\0\0\0")
    memory.parts.database.write(lambda connection: connection.execute(cut))
    assert "It was not rebuilt" in rebuilt(http)


def _empty(memory: Memory) -> None:
    """Damage the index as no program of ours does."""
    memory.parts.indexer.pull()
    index: Any = memory.parts.indexer.index
    index.adopt(Batch.empty(index.dimensions))


def test_health_page_shows_other_keys_that_it_is_alive(memory: Memory, guarded: TestClient) -> None:
    remembered(memory, "bob")
    for scope, rights in ((ALICE, ["read"]), (ALICE, ["admin"]), (None, ["read", "write"])):
        logged_in(guarded, key(memory, scope, *rights)["X-API-Key"])
        page = guarded.get(HEALTH).text
        assert "Alive" in page and str(memory.location) not in page and "Configuration" not in page
        assert guarded.get(INDEX).status_code == 403
        for path in (HEALTH, f"{HEALTH}/verify", f"{HEALTH}/rebuild"):
            assert guarded.post(path, data={"csrf": token(guarded, HEALTH)}).status_code == 403
