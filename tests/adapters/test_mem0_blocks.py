"""Every Python block of Mem0's documentation that uses `Memory`, from the checkout that `MEM0_CHECKOUT` names."""

from __future__ import annotations

import os
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import chromadb
import pytest
import qdrant_client
from langchain_openai import ChatOpenAI

from langmem_adapter.adapters.mem0.configs import base as config
from langmem_adapter.embedding.models import HashEmbeddings
from tests import mem0_blocks
from tests.openai_server import OpenAIServer

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKOUT = os.environ.get("MEM0_CHECKOUT", "")

pytestmark = pytest.mark.skipif(not CHECKOUT, reason="MEM0_CHECKOUT names no checkout of Mem0's repository")


def facts(body: dict[str, Any]) -> Any:
    """What the scripted model answers: one fact, no comparison, or scores for a reranker."""
    text = str(body["messages"])
    if "one score from 0.0 to 1.0" in text:
        return {"scores": [0.5]}
    return {"facts": ["Loves sci-fi movies"]} if "tools" in body or "response_format" in body else "Hello."


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Chat models and embeddings by name are a scripted one, whatever their provider; so are clients of OpenAI's protocol."""
    with OpenAIServer(facts) as server:
        model = partial(ChatOpenAI, model="scripted", base_url=server.url)
        monkeypatch.setattr("langchain.chat_models.init_chat_model", lambda *_, **__: model())
        monkeypatch.setattr("langchain.embeddings.init_embeddings", lambda *_, **__: HashEmbeddings(64))
        for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE"):
            monkeypatch.setenv(name, server.url)
        for name in ("OPENAI_API_KEY", "XAI_API_KEY"):
            monkeypatch.setenv(name, "sk-x")
        yield server.url


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> None:
    """Qdrant and Chroma in this process where a block names a server of them."""
    client = qdrant_client.QdrantClient

    def qdrant(**options: Any) -> Any:
        return client(**options) if options.keys() <= {"path", "location"} else client(":memory:")

    monkeypatch.setattr(qdrant_client, "QdrantClient", qdrant)
    monkeypatch.setattr(chromadb, "HttpClient", lambda *_, **__: chromadb.EphemeralClient())


def _local(is_postgres: Any, url: str, store: Any) -> str | None:
    return url if is_postgres(store) else None


@pytest.mark.postgres
@pytest.mark.timeout(1800)
def test_the_blocks_of_mem0s_documentation_run_or_are_refused_by_name(
    scripted: str, local: None, new_postgres: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: list[mem0_blocks.Outcome] = []
    is_postgres = config.StoreSection.url.fget  # type: ignore[attr-defined]
    for number, page in enumerate(mem0_blocks.blocks(Path(CHECKOUT))):
        folder = tmp_path / str(number)
        folder.mkdir()
        with monkeypatch.context() as patch, new_postgres() as url:
            patch.chdir(folder)
            patch.setenv("XDG_DATA_HOME", str(folder / "data"))
            patch.setenv("DATABASE_URL", url)
            patch.setattr(config.StoreSection, "url", property(partial(_local, is_postgres, url)))
            outcomes += mem0_blocks.run(page)
    kinds = Counter(outcome.kind for outcome in outcomes)
    for outcome in sorted(outcomes, key=lambda outcome: outcome.kind):
        print(f"{outcome.kind:9} {outcome.block.name}: {outcome.text[:200]}")  # noqa: T201 - shown by pytest -s
    print(len(outcomes), dict(kinds))  # noqa: T201 - the same
    assert not kinds["raw"] and kinds["runs"] >= 60


PROGRAMS = {  # and a part of what each prints
    "examples/misc/movie_recommendation_grok3.py": "",
    "examples/misc/vllm_example.py": "demo completed successfully",
    "examples/graph-db-demo/neo4j-example.ipynb": "sci-fi",
    "examples/graph-db-demo/memgraph-example.ipynb": "sci-fi",
    "docs/cookbooks/companions/local-companion-ollama.mdx": "",
    "docs/cookbooks/operations/team-task-agent.mdx": "",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_whole_programs_of_mem0_run(
    name: str, scripted: str, local: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    answers = iter(["Where shall I go?", "q", "exit", "quit"])
    monkeypatch.setattr("builtins.input", lambda *_: next(answers))
    (outcome,) = mem0_blocks.run([mem0_blocks.program(Path(CHECKOUT) / name, scripted)], "__main__")
    assert outcome.kind == "runs" and PROGRAMS[name] in outcome.text, outcome.text
