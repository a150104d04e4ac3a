"""`langgraph dev` for real: started from its own environment, talked to with `langgraph_sdk`, and ended."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest
from langgraph_sdk import get_sync_client

from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage import keys
from tests.cases import undated

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parents[2]
LANGGRAPH: Final = ROOT / ".venv-dev-server" / "bin" / "langgraph"
START: Final = 60.0  # seconds; it takes three on a quiet machine

AUTH: Final = """
from langgraph_sdk import Auth

auth = Auth()


@auth.authenticate
async def who(authorization: str | None) -> str:
    if not authorization:
        raise Auth.exceptions.HTTPException(status_code=401, detail="sign in")
    return authorization.removeprefix("Bearer ")
"""

pytestmark = [
    pytest.mark.xdist_group("langgraph-dev"),
    pytest.mark.timeout(180),
    pytest.mark.skipif(
        not LANGGRAPH.exists() and os.environ.get("CI") != "true",
        reason="there is no .venv-dev-server beside the checkout; `make dev-server` makes it",
    ),
]


@contextmanager
def served(folder: Path, database: Path | None = None, **more: Any) -> Iterator[str]:
    """The address of a server of our `langgraph.json` (and *more*); it is ended, with all its processes, whatever happens."""
    config = json.loads((ROOT / "langgraph.json").read_text(encoding="utf-8"))
    (folder / "langgraph.json").write_text(json.dumps({**config, **more}))  # it writes beside it: not into the checkout
    shutil.copytree(ROOT / "graphs", folder / "graphs", ignore=shutil.ignore_patterns("__pycache__"))
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("LANGSMITH_", "LANGCHAIN_"))}
    env = clean | {
        "LANGMEM_ADAPTER_DATABASE": str(database or folder / "memory.db"),
        "LANGSMITH_TRACING": "false",
        "LANGGRAPH_CLI_NO_ANALYTICS": "1",
        "PYTHONPATH": str(ROOT),
    }
    port = _free_port()
    command = [str(LANGGRAPH), "dev", "--no-browser", "--no-reload", "--port", str(port)]
    with (folder / "server.log").open("w") as log:
        server = subprocess.Popen(
            command, cwd=folder, env=env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            yield _ready(f"http://127.0.0.1:{port}", server, folder / "server.log")
        finally:
            _end(server)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _ready(url: str, server: subprocess.Popen[bytes], log: Path) -> str:
    until = time.monotonic() + START
    while time.monotonic() < until and server.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/ok", timeout=5):  # noqa: S310 - our own server
                return url
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(0.2)
    pytest.fail(f"langgraph dev did not start within {START:.0f} s:\n{log.read_text(errors='replace')[-4000:]}")


def _end(server: subprocess.Popen[bytes]) -> None:
    for wish in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(server.pid, wish)
            server.wait(10)
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            pass
        return


def _says(said: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": said}]}


def _asked(url: str, user: str | None = None, **headers: str) -> httpx.Response:
    asked = {"query": "What shall I cook?", **({} if user is None else {"user_id": user})}
    return httpx.post(f"{url}/memory/v1/search", json=asked, headers=headers, timeout=60)


def _found(url: str, **headers: str) -> list[str]:
    return [hit["text"] for hit in _asked(url, **headers).json()["results"]]


def test_langgraph_dev_serves_the_graphs_and_a_server_with_authentication_goes_on_with_their_threads(
    tmp_path: Path,
) -> None:
    with served(tmp_path) as url, get_sync_client(url=url) as client:
        assert {found["graph_id"] for found in client.assistants.search()} == {
            "chat_agent",
            "consolidate",
            "memory_pipeline",
        }
        context = {"user_id": "alice@example.com"}
        thread = client.threads.create()["thread_id"]
        for said in ("I am vegetarian.", "What shall I cook?"):
            state: Any = client.runs.wait(thread, "chat_agent", input=_says(said), context=context)
        assert undated(state["messages"][-1]["content"]) == "(no model) What I remember about that: Is vegetarian"
        kept: Any = client.threads.get_state(thread)["values"]
        assert len(kept["messages"]) == 4
        told: dict[str, Any] = {"messages": "I live in Lyon.", "scope": context}
        stages = [part.data for part in client.runs.stream(None, "memory_pipeline", input=told, stream_mode="updates")]
        assert [next(iter(stage)) for stage in stages if "run_id" not in stage] == [
            "parse",
            "extract",
            "retrieve",
            "decide",
            "apply",
        ]
        tidied: Any = client.runs.wait(None, "consolidate", input={}, context=context)
        assert tidied["changes"] == []
        with pytest.raises(Exception, match="user_id is missing"):
            client.runs.wait(None, "chat_agent", input=_says("What shall I cook?"))
        client.store.put_item(["alice", "notes"], "1", {"text": "The violin lesson is on Monday"})
        client.store.put_item(["alice", "notes"], "2", {"text": "Buy bread and olives"})
        assert _asked(url, "alice@example.com").status_code == 401  # nobody is signed in here, so a key is needed
        with Memory(tmp_path / "memory.db") as memory:
            scope = Scope(user_id="alice@example.com")
            _, key = memory.parts.database.write(lambda c: keys.create(c, "test", scope, ["read"]))
        assert sorted(_found(url, **{"X-API-Key": key})) == ["Is vegetarian", "Lives in Lyon"]
    _goes_on_with_authentication(tmp_path, thread, kept)


def _goes_on_with_authentication(tmp_path: Path, thread: str, kept: Any) -> None:
    """Another server of the same database, where everybody has their own memory."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "auth.py").write_text(AUTH)
    names = "alice@example.com", "bob"
    with served(folder, tmp_path / "memory.db", auth={"path": "./auth.py:auth"}) as url, ExitStack() as stack:
        alice, bob = (
            stack.enter_context(get_sync_client(url=url, headers={"Authorization": f"Bearer {name}"})) for name in names
        )
        alice.threads.create(thread_id=thread, graph_id="chat_agent")
        assert alice.threads.get_state(thread)["values"] == kept
        hers: Any = alice.runs.wait(thread, "chat_agent", input=_says("What shall I cook?"))
        assert len(hers["messages"]) == 6
        found = alice.store.search_items(["alice"], query="When do I play the violin?")["items"]
        assert [item["key"] for item in found] == ["1", "2"]
        his: Any = bob.runs.wait(None, "chat_agent", input=_says("What shall I cook?"))
        assert "Is vegetarian" in hers["messages"][-1]["content"]
        assert his["messages"][-1]["content"].endswith("nothing about that.")
        for name, given in (("chat_agent", _says("Hi")), ("consolidate", {}), ("memory_pipeline", {"messages": "Hi"})):
            with pytest.raises(Exception, match="signed in"):
                bob.runs.wait(None, name, input=given, context={"user_id": "alice@example.com"})
        assert sorted(_found(url, Authorization="Bearer alice@example.com")) == ["Is vegetarian", "Lives in Lyon"]
        assert _found(url, Authorization="Bearer bob") == []
        assert _asked(url, "alice@example.com", Authorization="Bearer bob").status_code == 403
        assert _asked(url).status_code == 401
        for name in ("consolidate", "memory_pipeline"):
            poison: dict[str, Any] = {"messages": "I like poison.", "scope": {"user_id": "alice@example.com"}}
            with pytest.raises(Exception, match="signed in"):
                bob.runs.wait(None, name, input=poison)
