"""`python -m langmem_adapter.adapters.mem0.check`: a report on a program before anything is changed."""

from __future__ import annotations

import sys
from subprocess import run
from typing import TYPE_CHECKING, Any

from langmem_adapter.adapters.mem0.check import check, main
from langmem_adapter.adapters.mem0.configs import LlmConfig, MemoryConfig, RerankerConfig
from langmem_adapter.adapters.mem0.configs.base import MemoryConfig as Base
from langmem_adapter.adapters.mem0.exceptions import MemoryError, ValidationError, VectorStoreError  # noqa: A004
from langmem_adapter.errors import InvalidInputError, ScopeError, StorageError

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PROGRAM = """\
import os
from mem0 import AsyncMemory, Memory, MemoryClient
from mem0.configs.base import MemoryConfig
from mem0.embeddings.openai import OpenAIEmbedding

config = {
    "llm": {"provider": "openai", "config": {
        "model": "gpt-5-mini",
        "api_key": os.environ["KEY"],
        "openai_base_url": "http://localhost/v1",
        "route": "fallback",
    }},
    "embedder": {"provider": "langchain", "config": {"model": object()}},
    "vector_store": {
        "provider": "qdrant",
        "config": {
            "host": "localhost", "collection_name": "shop",
            "embedding_model_dims": 1536,
        },
    },
    "reranker": {"provider": "jina"},
    "version": "v1.1",
    "custom_prompt": "Only drinks.",
}
other = MemoryConfig(
    vector_store={"provider": "faiss",
        "config": {"normalize_L2": False}},
)

class Shop:
    def __init__(self):
        self.memory = Memory.from_config(config)

    async def ask(self, query):
        memory = await AsyncMemory.from_config(config)
        await memory.add(query, user_id="a", output_format="v1.1")
        memory.embed(query)
        return self.memory.search(query, filters={"user_id": "a"}, top_k=3)
"""
EXPECTED = [
    (2, "mapped", "import AsyncMemory"),
    (2, "mapped", "import Memory"),
    (2, "refused", "MemoryClient is not here"),
    (3, "mapped", f"from {MemoryConfig.__module__} import MemoryConfig"),
    (4, "refused", "embeddings"),
    (7, "mapped", "llm: openai"),
    (8, "runs", "model"),
    (9, "runs", "api_key"),
    (10, "mapped", "openai_base_url → base_url"),
    (11, "refused", "'route'"),
    (13, "runs", "embedder"),
    (14, "mapped", "qdrant (pip install langchain-qdrant)"),
    (17, "runs", "host"),
    (18, "mapped", "embedding_model_dims changes nothing: the embedder decides"),
    (21, "refused", "'jina' is not here"),
    (22, "runs", "version"),
    (23, "refused", "custom_fact_extraction_prompt"),
    (26, "runs", "faiss"),
    (27, "refused", "normalize_L2=False cannot be honoured"),
    (36, "refused", "output_format"),
    (37, "refused", "no attribute 'embed'"),
    (38, "runs", "search(filters, top_k)"),
]


def test_check_says_of_each_line_of_a_program_what_becomes_of_it(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    findings = check(path)
    assert [(line, outcome) for line, outcome, _ in findings] == [(line, outcome) for line, outcome, _ in EXPECTED]
    for finding, (_, _, text) in zip(findings, EXPECTED, strict=True):
        assert text in finding.text
    program = [sys.executable, "-m", "langmem_adapter.adapters.mem0.check", str(path)]
    told = run(program, capture_output=True, text=True, check=False)
    assert told.returncode == 1 and told.stdout.splitlines()[-1].startswith(f"{path}:38: runs: ")


def test_check_reads_configurations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = tmp_path / "a.json", tmp_path / "b.yaml"
    one.write_text(
        '{"vector_store": {"provider": "pgvector",\n "config": {"hnsw": true, "maxconn": null,\n "diskann": true}}}'
    )
    other.write_text("reranker:\n  provider: cohere\n  config:\n    top_k: 5\n")
    assert main([str(other)]) == 0 and "top_k → top_n" in capsys.readouterr().out
    assert main([str(one), str(other)]) == 1
    assert f"{one}:3: refused: config.vector_store.config.diskann=True" in capsys.readouterr().out


def test_configuration_classes_and_exceptions_have_mem0s_names() -> None:
    config: Any = MemoryConfig(llm=LlmConfig(config={"model": "m"}), reranker=RerankerConfig(provider="llm_reranker"))
    assert config.llm.provider == "openai" and config.llm.config == {"model": "m"} and Base is MemoryConfig
    assert (
        issubclass(ScopeError, MemoryError)
        and ValidationError is InvalidInputError
        and VectorStoreError is StorageError
    )
