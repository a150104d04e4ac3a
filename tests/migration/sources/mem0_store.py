"""Makes a store of the real Mem0 in a folder, in an environment that has mem0ai: `python mem0_store.py faiss|qdrant FOLDER`.

1,000 memories, 300 updates and 100 deletions, made through `Memory.add`, `update` and `delete`. The models are scripted: a
local server gives four vectors. Ids are counted, so that the recorded file is small. `expected.json` in the folder holds what
`get_all` of that Mem0 answers in the end.
"""

import json
import os
import sys
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any

kind, folder = sys.argv[1], Path(sys.argv[2])
os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(folder / "home"), "OPENAI_API_KEY": "none"}
SIZE = 8


class Models(BaseHTTPRequestHandler):
    """Speaks OpenAI's protocol for embeddings."""

    def do_POST(self) -> None:
        """Answer with one of four vectors for each text."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        vectors = [[float(place == sum(text.encode()) % 4) for place in range(SIZE)] for text in texts]
        rows = [{"object": "embedding", "index": place, "embedding": each} for place, each in enumerate(vectors)]
        reply = json.dumps({"object": "list", "model": "scripted", "data": rows, "usage": {}}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the signature is fixed
        """Say nothing."""


server = ThreadingHTTPServer(("127.0.0.1", 0), Models)
Thread(target=server.serve_forever, daemon=True).start()
numbers = count(1)
uuid.uuid4 = lambda: uuid.UUID(int=next(numbers), version=4)

from mem0 import Memory  # noqa: E402 - the environment must be set first

address = f"http://127.0.0.1:{server.server_port}/v1"
models: dict[str, Any] = {
    "provider": "openai",
    "config": {"api_key": "none", "openai_base_url": address, "model": "scripted"},
}
places: dict[str, Any] = {
    "faiss": {"path": str(folder / "faiss"), "distance_strategy": "cosine"},
    "qdrant": {"path": str(folder / "qdrant"), "on_disk": True},
}
memory = Memory.from_config(
    {
        "vector_store": {
            "provider": kind,
            "config": {"collection_name": "mem0", "embedding_model_dims": SIZE, **places[kind]},
        },
        "embedder": {**models, "config": {**models["config"], "embedding_dims": SIZE}},
        "llm": models,
        "history_db_path": str(folder / "history.db"),
    }
)
is_new = "expiration_date" in Memory.add.__code__.co_varnames
ids = []
for number in range(1000):
    role = "assistant" if number % 10 == 9 else "user"
    said: dict[str, Any] = {
        "role": role,
        "content": f"Statement {number}: the kettle number {number * 7 % 101} is blue",
    }
    if number % 4 == 0:
        said["name"] = "ann" if number % 8 else "bob"
    scope: dict[str, Any] = {"user_id": f"user{number % 20}"}
    scope |= {"agent_id": "guide"} if number % 5 == 0 else {}
    scope |= {"run_id": f"run{number % 3}"} if number % 7 == 0 else {}
    more = {"expiration_date": "2030-01-01"} if is_new and number % 50 == 0 else {}
    metadata = {"topic": f"t{number % 6}", "nested": {"n": number % 2}} if number % 3 == 0 else None
    added = memory.add([said], infer=False, metadata=metadata, **scope, **more)
    ids += [each["id"] for each in added["results"]]
assert len(ids) == len(set(ids)) == 1000
for number in range(300):
    memory.update(ids[number * 3], f"Statement {number * 3}: the kettle is red since update {number}")
for number in range(100):
    memory.delete(ids[number * 10 + 1])
every = []
for number in range(20):
    scope = {"user_id": f"user{number}"}
    how: dict[str, Any] = {"filters": scope, "top_k": 2000} if is_new else {**scope, "limit": 2000}
    every += memory.get_all(**how)["results"]
(folder / "expected.json").write_text(json.dumps(every))
