"""Names of embeddings, the real OpenAI client against a local server, and fingerprints."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_openai import OpenAIEmbeddings

from langmem_adapter.embedding.embedder import Embedder
from langmem_adapter.embedding.models import HashEmbeddings, fingerprint, resolve_embeddings
from langmem_adapter.errors import InvalidInputError, MissingDependencyError
from langmem_adapter.settings import Settings
from langmem_adapter.testing import CountingEmbeddings
from tests.openai_server import OpenAIServer

NAME = "openai:text-embedding-3-small"


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(("spec", "dimensions"), [("hash", 512), ("hash:512", 512), ("hash:64", 64)])
def test_hash_embeddings_by_name(spec: str, dimensions: int) -> None:
    found = resolve_embeddings(spec, Settings())
    assert isinstance(found, HashEmbeddings)
    assert found.dimensions == dimensions


@pytest.mark.parametrize("spec", ["nobody:model", "nonsense", "", "openai:", "hash:", "hash:x", "hash:3"])
def test_an_unknown_name_names_the_fix(spec: str) -> None:
    with pytest.raises(InvalidInputError, match=r"hash:512|dimensions"):
        resolve_embeddings(spec, Settings(base_url="http://127.0.0.1:9/v1"))


def test_static_embeddings_have_one_size() -> None:
    with pytest.raises(InvalidInputError, match="no size to choose, as 'static:64' would; write 'static'"):
        resolve_embeddings("static:64", Settings())


def test_something_else_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="Embeddings"):
        resolve_embeddings(len, Settings())  # type: ignore[arg-type]


def test_a_missing_key_is_named() -> None:
    with pytest.raises(InvalidInputError, match="OPENAI_API_KEY"):
        resolve_embeddings(NAME, Settings())


def test_a_missing_package_is_named() -> None:
    with pytest.raises(MissingDependencyError, match="pip install langchain-cohere"):
        resolve_embeddings("cohere:embed-x", Settings())


def test_a_server_of_ones_own_needs_no_key_and_sees_the_texts() -> None:
    with OpenAIServer(dimensions=32) as server:
        embedder = Embedder(resolve_embeddings(NAME, Settings(base_url=server.url)), dimensions=None)
        vectors = embedder.vectors(["Likes tea", "有一条狗"])
        assert np.allclose(vectors[0], HashEmbeddings(32).vector("Likes tea"), atol=1e-6)
        assert server.requests[0].body["input"] == ["Likes tea", "有一条狗"]
        assert len(server.requests) == 1


def test_a_server_of_the_settings_gets_no_key_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    with OpenAIServer() as server:
        resolve_embeddings(NAME, Settings(base_url=server.url)).embed_query("tea")
        resolve_embeddings(NAME, Settings(base_url=server.url, api_key="mine")).embed_query("tea")
        sent = [request.headers["authorization"] for request in server.requests]
    assert "sk-secret" not in sent[0]
    assert sent[1] == "Bearer mine"


def test_fingerprints_tell_models_and_dimensions_apart() -> None:
    def openai_like(model: str, dimensions: int | None = None) -> Embeddings:
        return OpenAIEmbeddings(model=model, dimensions=dimensions, api_key="none")  # type: ignore[arg-type]

    every = [
        fingerprint(embeddings)
        for embeddings in (
            HashEmbeddings(64),
            HashEmbeddings(512),
            DeterministicFakeEmbedding(size=64),
            DeterministicFakeEmbedding(size=512),
            openai_like("text-embedding-3-small"),
            openai_like("text-embedding-3-large"),
            openai_like("text-embedding-3-small", 256),
        )
    ]
    assert len(set(every)) == len(every)
    assert every[1] == "hash:512/2"
    assert every[4] == "langchain_openai.OpenAIEmbeddings:text-embedding-3-small"
    assert not any(" at 0x" in each for each in every)


def test_a_fingerprint_does_not_depend_on_server_or_key() -> None:
    first, second = (
        OpenAIEmbeddings(model="m", base_url=f"http://127.0.0.1:{port}/v1", api_key=str(port))  # type: ignore[arg-type]
        for port in (1, 2)
    )
    assert fingerprint(first) == fingerprint(second)


def test_a_wrapper_may_give_its_own_fingerprint() -> None:
    assert fingerprint(CountingEmbeddings(HashEmbeddings(64))) == "hash:64/2"


def test_resolving_hash_embeddings_imports_no_langchain() -> None:
    code = (
        "import sys; from langmem_adapter.embedding.models import resolve_embeddings, fingerprint; "
        "from langmem_adapter.settings import Settings; print(fingerprint(resolve_embeddings('hash:64', Settings())), "
        "'langchain' in sys.modules, 'openai' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["hash:64/2", "False", "False"]
