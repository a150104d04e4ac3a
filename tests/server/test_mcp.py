"""MCP, driven by the real client: in this process, over standard input and output, and over HTTP."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from fastapi.testclient import TestClient
from httpx import ASGITransport, AsyncClient
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.memory import create_connected_server_and_client_session as connected

from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.scope import Scope
from langmem_adapter.server.app import create_app
from langmem_adapter.server.auth import Principal
from langmem_adapter.server.log import JSONLines
from langmem_adapter.server.mcp import create_mcp
from langmem_adapter.storage import keys
from tests.cases import each
from tests.programs import COMMAND, python
from tests.server.conftest import key

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

USERS = ("alice", "bob")
ALICE = Principal("alice", Scope(user_id="alice"), frozenset({"read", "write"}))


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "memory.db", graph=True) as memory:
        yield memory


async def call(client: ClientSession, tool: str, **arguments: Any) -> Any:
    answer = await client.call_tool(tool, arguments)
    said = [part.text for part in answer.content if part.type == "text"]
    return {"error": said[0]} if answer.isError else (answer.structuredContent or {}).get("result")


async def found(client: ClientSession, query: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.call_tool("search_memories", {"query": query, **arguments})
    return dict(answer.structuredContent or {})


async def with_client(memory: Memory, use: Callable[[ClientSession], Awaitable[Any]], who: Principal = ALICE) -> Any:
    async with connected(create_mcp(memory, lambda _: who)._mcp_server) as client:
        return await use(client)


def test_create_mcp_lists_relations_with_a_graph_only_and_leaves_logging_unchanged(memory: Memory) -> None:
    root = logging.getLogger()
    before = [*root.handlers], root.level
    with Memory(":memory:") as plain:
        for each, has_graph in ((memory, True), (plain, False)):
            tools = asyncio.run(create_mcp(each, lambda _: ALICE).list_tools())
            assert ("relations" in {tool.name for tool in tools}) is has_graph
    assert ([*root.handlers], root.level) == before


def test_mcp_tools_search_add_update_and_delete(memory: Memory) -> None:
    async def use(client: ClientSession) -> None:
        (added,) = await call(client, "add_memory", text="我住在里昂。")
        assert added["event"] == "ADD"
        [hit] = (await found(client, "她住在哪里？"))["memories"]
        assert hit["id"] == added["id"]
        await client.call_tool("update_memory", {"memory_id": hit["id"], "text": "住在奥斯陆"})
        assert [step["event"] for step in await call(client, "memory_history", memory_id=hit["id"])] == [
            "ADD",
            "UPDATE",
        ]
        listed = (await client.read_resource("memory://memories")).contents[0]  # type: ignore[arg-type]  # a URL
        assert [item["text"] for item in json.loads(listed.text)] == ["住在奥斯陆"]  # type: ignore[union-attr]
        await client.call_tool("delete_memory", {"memory_id": hit["id"]})
        assert await found(client, "家") == {"memories": [], "nothing": "no memory to search"}

    asyncio.run(with_client(memory, use))


def test_add_memory_and_search_memories_take_a_timezone(memory: Memory) -> None:
    far = "Pacific/Kiritimati"

    async def use(client: ClientSession) -> None:
        (added,) = await call(client, "add_memory", text="I visited Rome today.", timezone=far)
        assert added["text"] == f"Visited Rome on {datetime.now(ZoneInfo(far)).date()}"
        assert (await found(client, "Tom", timezone=far))["memories"]
        refused = await client.call_tool("search_memories", {"query": "Tom", "timezone": "Mars/Base"})
        assert refused.isError and "Mars/Base" in str(refused.content)

    asyncio.run(with_client(memory, use))


def test_mcp_errors_are_words_and_stay_within_the_scope(memory: Memory) -> None:
    bobs = str(memory.add("I live in Oslo.", user_id="bob").results[0].id)

    async def use(client: ClientSession) -> None:
        assert (await found(client, "Oslo"))["memories"] == []
        for tool, more in (("memory_history", {}), ("delete_memory", {}), ("update_memory", {"text": "x"})):
            assert bobs in (await call(client, tool, memory_id=bobs, **more))["error"]
        assert "bob" not in str(await found(client, "x", user_id="bob"))

    asyncio.run(with_client(memory, use))


@pytest.mark.parametrize(
    ("principal", "said"),
    [
        (Principal("reader", ALICE.scope, frozenset({"read"})), "right to write"),
        (Principal("admin", None, frozenset({"read", "write", "admin"})), "bound to a user"),
    ],
)
def test_mcp_needs_rights_and_a_scope(memory: Memory, principal: Principal, said: str) -> None:
    answer = asyncio.run(with_client(memory, lambda client: call(client, "add_memory", text="I like tea."), principal))
    assert said in answer["error"] and memory.stats().memories == 0


class Careless(HashEmbeddings):
    """Says more than it should where it fails."""

    def embed_query(self, text: str) -> list[float]:
        if text.endswith("?"):
            raise OSError(f"no answer to {text!r} from user:hunter2@host")
        return super().embed_query(text)


def test_mcp_writes_unexpected_errors_to_the_log_only(caplog: pytest.LogCaptureFixture) -> None:
    with Memory(":memory:", embeddings=Careless(64)) as memory:
        memory.add("I like tea.", user_id="alice")
        answer = asyncio.run(with_client(memory, lambda client: call(client, "search_memories", query="What tea?")))
    number = answer["error"].rpartition(" ")[2]
    assert "hunter2" not in answer["error"] and number in caplog.text


def test_mcp_client_starts_the_command(tmp_path: Path) -> None:
    where: Any = {"transport": "stdio", "command": sys.executable, "cwd": str(tmp_path)}
    arguments = [*COMMAND, "mcp", "-u", "alice", "-d", "memory.db"]

    async def use() -> None:
        connections: Any = {"memory": {**where, "args": arguments, "env": {**os.environ}}}
        client = MultiServerMCPClient(connections)
        async with client.session("memory") as session:
            tools = {tool.name: tool for tool in await load_mcp_tools(session)}
            assert "ADD" in str(await tools["add_memory"].ainvoke({"text": "I live in Lyon."}))
            assert "Lives in Lyon" in str(await tools["search_memories"].ainvoke({"query": "Where does she live?"}))

    asyncio.run(use())


def test_mcp_on_standard_input_needs_no_fastapi(tmp_path: Path) -> None:
    """The extra `mcp` alone is enough."""
    code = """
import sys

class Refuse:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in {"fastapi", "jinja2"}:
            raise ModuleNotFoundError(name, name=name)

for name in [name for name in sys.modules if name.startswith(("fastapi", "jinja2", "langmem_adapter.server"))]:
    del sys.modules[name]
sys.meta_path.insert(0, Refuse())
from langmem_adapter.cli.app import main
main()
"""
    where = ("-d", tmp_path / "m.db", "mcp", "-u", "alice")
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    said = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
    done = python("-c", code, *where, said=f"{said}\n")
    assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == "langmem_adapter"


def test_mcp_configuration_starts_the_command(tmp_path: Path) -> None:
    done = python(*COMMAND, "mcp", "-u", "爱丽丝", "-d", tmp_path / "m.db", "--read-only", "--configuration")
    (entry,) = json.loads(done.stdout)["mcpServers"].values()
    assert entry["args"] == ["mcp", "--user", "爱丽丝", "--database", str(tmp_path / "m.db"), "--read-only"]
    assert Path(entry["command"]).is_absolute()  # clients with windows do not have the PATH of a shell
    refused = python(*COMMAND, "mcp", code=2, LANGMEM_ADAPTER_USER="")
    assert "-u USER" in refused.stderr


def test_mcp_over_http_takes_the_scope_of_the_key(memory: Memory) -> None:
    write = memory.parts.database.write
    shown = {
        user: write(partial(keys.create, name=user, scope=Scope(user_id=user), rights=["read", "write"]))[1]
        for user in USERS
    }
    memory.add("I live in Oslo.", user_id="bob")

    async def use() -> None:
        app = create_app(memory, auth="keys", mcp=True)
        async with app.router.lifespan_context(app):
            for user, known in (("alice", []), ("bob", ["Lives in Oslo"])):
                http = AsyncClient(transport=ASGITransport(app), headers={"X-API-Key": shown[user]})
                async with (
                    http,
                    streamable_http_client("http://localhost/mcp", http_client=http) as (read, write, _),
                    ClientSession(read, write) as client,
                ):
                    await client.initialize()
                    assert [hit["text"] for hit in (await found(client, "home"))["memories"]] == known
            async with AsyncClient(transport=ASGITransport(app), base_url="http://localhost") as nobody:
                assert (await nobody.post("/mcp", json={})).status_code == 401
                for method in ("GET", "DELETE"):  # an open stream would hold the server's end, and outlive its key
                    assert (await nobody.request(method, "/mcp")).status_code == 405

    asyncio.run(use())


def test_mcp_log_quotes_nothing_of_a_wrong_call(memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        ("tools/call", {"arguments": {"text": "hunter2"}}),
        ("tools/call", {"name": "hunter2"}),
        ("resources/read", {"uri": "memory://memories/hunter2"}),
        ("hunter2", {}),
    )
    headers = {**key(memory), "Accept": "application/json, text/event-stream"}
    with TestClient(create_app(memory, auth="keys", mcp=True)) as http:
        for method, params in calls:
            sent = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            assert http.post("/mcp", json=sent, headers=headers).status_code == 200
    lines = [JSONLines().format(record) for record in caplog.records]
    assert "hunter2" in caplog.text
    assert lines and not any("hunter2" in line for line in lines)


@each(
    ("body", "status"),
    [
        *((b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": {"a": %b}}}' % deep, status)
          for depth, status in ((100, 200), (300, 400), (975, 400), (1_000, 400), (100_000, 400))
          for deep in (b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth)),
        (b"[" * 100_000, 400),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"a": %b}}' % (b"1" * 5_000), 400),
        (b'{"jsonrpc": "2.0", "id": "\xff", "method": "tools/list"}', 400),
        ('{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'.encode("utf-16"), 400),
        (b"", 400),
        (b" " * 3_000_000, 413),
    ],
)  # fmt: skip
def test_unreadable_body_of_mcp_is_a_400(memory: Memory, body: bytes, status: int) -> None:
    headers = {**key(memory), "Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    app = create_app(memory, auth="keys", mcp=True, max_body=2_000_000)
    with TestClient(app, raise_server_exceptions=False) as http:
        assert http.post("/mcp", content=body, headers=headers).status_code == status


def test_log_line_names_the_caller_of_mcp(memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    headers = {**key(memory), "Accept": "application/json, text/event-stream"}
    app = create_app(memory, auth="keys", mcp=True)
    with caplog.at_level(logging.INFO, "langmem_adapter.server"), TestClient(app) as http:
        for shown in (headers, {}):
            http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers=shown)
    lines = [json.loads(JSONLines().format(record)) for record in caplog.records if record.getMessage() == "request"]
    known = headers["X-API-Key"].split("_")[1]
    assert [(line["caller"], line["status"]) for line in lines] == [(known, 200), (None, 401)]
