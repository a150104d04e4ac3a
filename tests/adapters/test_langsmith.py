"""What LangSmith is sent: recorded by a local server that the real client posts to."""

from __future__ import annotations

import json
import re
import threading
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langsmith import Client, tracing_context
from langsmith import utils as langsmith_utils

from langmem_adapter.adapters.middleware import MemoryContext, MemoryMiddleware
from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.errors import ModelError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.testing import ScriptedChatModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_VECTOR = re.compile(r"(-?\d+\.\d+(e-?\d+)?\s*,\s*){6}")


class LangSmith(ThreadingHTTPServer):
    """Takes runs as LangSmith does, and keeps them."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Taking)
        self.bodies: list[bytes] = []
        self.requests = 0
        self.runs: dict[str, dict[str, Any]] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def take(self, content_type: str, body: bytes) -> None:
        self.bodies.append(body)
        message = message_from_bytes(f"Content-Type: {content_type}\r\n\r\n".encode() + body)
        for part in message.walk():
            name = str(part.get_param("name", header="content-disposition") or "")
            if name.startswith(("post.", "patch.")):
                _, run_id, *key = name.split(".")
                content = json.loads(part.get_payload(decode=True) or b"null")  # type: ignore[arg-type]
                self.runs.setdefault(run_id, {}).update({key[0]: content} if key else content)

    def tree(self) -> list[tuple[str, ...]]:
        """The path of names down to every run, in the order in which they began."""
        runs = sorted(self.runs.items(), key=lambda pair: str(pair[1]["dotted_order"]))
        return [self._path(run_id) for run_id, _ in runs]

    def named(self, *path: str) -> dict[str, Any]:
        (found,) = [run for run_id, run in self.runs.items() if self._path(run_id) == path]
        return found

    def _path(self, run_id: str) -> tuple[str, ...]:
        run = self.runs[run_id]
        above = self._path(run["parent_run_id"]) if run.get("parent_run_id") else ()
        return (*above, run["name"])


class Down(HashEmbeddings):
    """Embeddings whose server does not answer questions."""

    def embed_query(self, text: str) -> list[float]:
        raise ConnectionError(f"the embedding server is down: {len(text)} letters wait")


class _Taking(BaseHTTPRequestHandler):
    server: LangSmith

    def do_GET(self) -> None:
        sizes = {"size_limit": 100, "size_limit_bytes": 20_000_000, "scale_up_qsize_trigger": 1_000}
        threads = {"scale_up_nthreads_limit": 1, "scale_down_nempty_trigger": 4}
        self._answer({"version": "0", "batch_ingest_config": {"use_multipart_endpoint": True, **sizes, **threads}})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.take(self.headers["Content-Type"], body)
        self._answer({})

    def log_message(self, *_: Any) -> None:
        """Be quiet."""

    def _answer(self, content: dict[str, Any]) -> None:
        self.server.requests += 1
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def langsmith() -> Iterator[LangSmith]:
    server = LangSmith()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def trace(langsmith: LangSmith) -> Callable[..., Any]:
    """Runs something with tracing on, and waits until all of it is sent."""

    async def watched(do: Callable[[], Any], **how: Any) -> None:
        client = Client(api_url=langsmith.url, api_key="test", **how)
        with tracing_context(enabled=True, client=client, project_name="test"):
            done = do()
            if hasattr(done, "__await__"):
                await done
        client.flush()
        client.close()

    return watched


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Sets variables of the environment, which LangSmith reads once and remembers."""
    forget: Callable[[], None] = langsmith_utils.get_env_var.cache_clear  # type: ignore[attr-defined]

    def set_(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        forget()

    yield set_
    monkeypatch.undo()
    forget()


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory(":memory:") as opened:
        yield opened


STAGES = ["parse", "extract", "retrieve", "decide", "apply"]


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_an_add_is_one_run_with_its_stages(memory: Memory, langsmith: LangSmith, trace: Any, mode: str) -> None:
    add = memory.add if mode == "sync" else memory.aadd
    await trace(lambda: add("I live in Lyon.", user_id="alice", run_id="r"))
    assert [path for path in langsmith.tree() if len(path) < 3] == [
        ("memory.add",),
        *(("memory.add", stage) for stage in STAGES),
    ]
    run = langsmith.named("memory.add")
    assert "langmem_adapter" in run["tags"]
    given = run["inputs"]
    assert (given["scope"], given["infer"]) == ({"user_id": "alice", "run_id": "r"}, True)
    assert [item["messages"] for item in given["items"]] == ["I live in Lyon."]
    metadata = run["extra"]["metadata"]
    assert (metadata["user_id"], metadata["run_id"], metadata["memory_mode"]) == ("alice", "r", "offline")
    assert langsmith.named("memory.add", "retrieve", "embed")["outputs"] == {"vectors": 1}


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_a_search_is_one_run_with_its_stages(memory: Memory, langsmith: LangSmith, trace: Any, mode: str) -> None:
    memory.add("I live in Lyon.", user_id="alice")
    search = memory.search if mode == "sync" else memory.asearch
    await trace(lambda: search("Where does she live?", user_id="alice", k=3))
    assert langsmith.tree() == [("memory.search",), ("memory.search", "embed"), ("memory.search", "find")]
    run = langsmith.named("memory.search")
    assert run["inputs"] == {"query": "Where does she live?", "k": 3}
    assert [found["text"] for found in run["outputs"]["memories"]] == ["Lives in Lyon"]
    assert run["extra"]["metadata"]["user_id"] == "alice" and "langmem_adapter" in run["tags"]


async def test_a_failing_search_shows_its_error(langsmith: LangSmith, trace: Any) -> None:
    with Memory(":memory:", embeddings=Down(64)) as failing:

        def search() -> None:
            with pytest.raises(ConnectionError):
                failing.search("Where does she live?", user_id="alice")

        await trace(search)
    for path in (("memory.search",), ("memory.search", "embed")):
        assert "the embedding server is down" in langsmith.named(*path)["error"]


FOUND = '{"facts": ["Lives in Oslo"]}'
MOVED = '{"memory": [{"id": "0", "text": "Lives in Oslo", "event": "UPDATE", "reason": "moved"}]}'
CAT = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1/cat.png"}}]}
RECORD = {"agent_id": "b", "memory_type": "procedural_memory"}
MODELS: list[tuple[list[str], Any, dict[str, Any], list[tuple[str, str, int, dict[str, Any], dict[str, Any]]]]] = [
    (
        ["what?", FOUND, MOVED],
        "I live in Oslo.",
        {"context": ("assistant", "Where do you live?")},
        [
            (
                "extract",
                "extract facts",
                2,
                {
                    "before": [{"role": "assistant", "name": "assistant", "text": "Where do you live?"}],
                    "turns": [{"role": "user", "name": "user", "text": "I live in Oslo."}],
                    "about": "user",
                },
                {"facts": [{"text": "Lives in Oslo", "turn": 0}]},
            ),
            (
                "decide",
                "compare facts",
                1,
                {"facts": ["Lives in Oslo"], "memories": {"0": "Lives in Rome"}},
                {
                    "decisions": [
                        {
                            "fact": 0,
                            "event": "UPDATE",
                            "number": 0,
                            "text": "Lives in Oslo",
                            "reason": "moved",
                        }
                    ]
                },
            ),
        ],
    ),
    (
        ["A cat.", '{"facts": []}'],
        [CAT],
        {},
        [("parse", "describe image", 1, {"image": "http://127.0.0.1/cat.png"}, {"text": "A cat."})],
    ),
    (
        ["1. Opened it."],
        "I opened it.",
        RECORD,
        [
            (
                "extract",
                "record steps",
                1,
                {"turns": [{"role": "user", "name": "user", "text": "I opened it."}], "about": "procedure"},
                {"facts": [{"text": "1. Opened it.", "turn": 0}]},
            )
        ],
    ),
]


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize(("replies", "said", "how", "asked"), MODELS, ids=["facts", "image", "record"])
async def test_a_model_stands_two_levels_below_its_stage_and_what_it_is_asked_is_readable(
    langsmith: LangSmith, trace: Any, mode: str, replies: list[str], said: Any, how: dict[str, Any], asked: list[Any]
) -> None:
    with Memory(":memory:", model=ScriptedChatModel(replies=replies), vision=True) as memory:
        memory.add("Lives in Rome", user_id="a", infer=False)
        add = memory.add if mode == "sync" else memory.aadd
        await trace(lambda: add(said, user_id="a", **how))
    tree = langsmith.tree()
    for stage, name, calls, inputs, outputs in asked:
        assert [path for path in tree if path[1:2] == (stage,)] == [
            ("memory.add", stage),
            ("memory.add", stage, name),
            *[("memory.add", stage, name, "ScriptedChatModel")] * calls,
        ]
        run = langsmith.named("memory.add", stage, name)
        assert (run["inputs"], run["outputs"]) == (inputs, outputs)


async def test_a_models_error_is_seen_on_its_own_run_and_on_those_above(langsmith: LangSmith, trace: Any) -> None:
    def add() -> None:
        model = ScriptedChatModel(replies=[ValueError("no mood")])
        with Memory(":memory:", model=model) as memory, pytest.raises(ModelError, match="no mood"):
            memory.add("I live in Oslo.", user_id="a")

    await trace(add)
    path = ("memory.add", "extract", "extract facts", "ScriptedChatModel")
    assert all("no mood" in langsmith.named(*path[: depth + 1])["error"] for depth in range(4))


async def test_in_an_agent_memory_hangs_where_it_works(memory: Memory, langsmith: LangSmith, trace: Any) -> None:
    memory.add("I like tea.", user_id="alice")
    agent: Any = create_agent(
        ScriptedChatModel(replies=["Tea."]), middleware=[MemoryMiddleware(memory)], context_schema=MemoryContext
    )
    await trace(lambda: agent.ainvoke({"messages": "What do I like?"}, context=MemoryContext("alice")))
    paths = [path[1:] for path in langsmith.tree()]
    assert ("model", "LangmemAdapterMemory.awrap_model_call", "memory.search", "find") in paths
    assert ("LangmemAdapterMemory.after_agent", "memory.add", "extract") in paths
    assert {path[0] for path in langsmith.tree()} == {"LangGraph"}


async def test_vectors_are_never_sent(memory: Memory, langsmith: LangSmith, trace: Any) -> None:
    def work() -> None:
        memory.add("I live in Lyon. I like tea.", user_id="alice")
        memory.search("Where does she live?", user_id="alice", explain=True)
        memory.add("I live in Kyoto now.", user_id="alice")

    await trace(work)
    sent = b"".join(langsmith.bodies).decode(errors="replace")
    assert "Lyon" in sent
    assert _VECTOR.search(sent) is None


@pytest.mark.parametrize("by", ["client", "environment"])
async def test_texts_are_not_sent_where_langsmith_is_told_to_hide_them(
    memory: Memory, langsmith: LangSmith, trace: Any, environment: Any, by: str
) -> None:
    model = ScriptedChatModel(replies=["Fine."])
    agent: Any = create_agent(model, middleware=[MemoryMiddleware(memory)], context_schema=MemoryContext)

    def work() -> None:
        memory.add("I live in Lyon. I like tea.", user_id="alice")
        thinking.add("I do.", context="Tea in Lyon?", user_id="alice")
        assert "Tea in Lyon?" in thinks.calls[0][-1].text
        memory.search("Lyon?", user_id="alice")
        agent.invoke({"messages": "What of Lyon?"}, context=MemoryContext("alice"))

    if by == "environment":
        environment(LANGSMITH_HIDE_INPUTS="true", LANGSMITH_HIDE_OUTPUTS="true")
    thinks = ScriptedChatModel(replies=['{"facts": []}'])
    with Memory(":memory:", model=thinks) as thinking:
        thinking.add("Is in Lyon for the tea", user_id="alice", infer=False)
        await trace(work, **({"hide_inputs": True, "hide_outputs": True} if by == "client" else {}))
    sent = b"".join(langsmith.bodies).decode(errors="replace")
    assert ("memory.search", "find") in langsmith.tree() and "alice" in sent
    assert "Lyon" not in sent and "tea" not in sent.lower()


@pytest.mark.parametrize("off", [{}, {"LANGSMITH_TRACING": "false"}])
async def test_nothing_is_sent_while_tracing_is_off(
    memory: Memory, langsmith: LangSmith, environment: Any, off: dict[str, str]
) -> None:
    environment(LANGSMITH_ENDPOINT=langsmith.url, LANGSMITH_API_KEY="test", **off)
    memory.add("I live in Lyon.", user_id="alice")
    memory.search("Lyon?", user_id="alice")
    await memory.aadd("I like tea.", user_id="alice")
    await memory.asearch("tea?", user_id="alice")
    with tracing_context(enabled=False):
        memory.search("Lyon?", user_id="alice")
    assert langsmith.requests == 0
