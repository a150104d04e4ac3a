"""Real classes of Mem0's providers, Milvus Lite, and stores of the real Mem0: `make providers`, in an environment of its own.

`make test` does not collect this module: its packages are no part of the development environment.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from langmem_adapter.adapters.mem0 import Memory
from langmem_adapter.adapters.mem0.providers import Section, chat_model, embeddings, providers, reranker
from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.testing import ScriptedChatModel
from tests import mem0_blocks

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.filterwarnings("ignore")

SERVER = "http://localhost:9/v1"
AZURE = {"azure_deployment": "d", "api_version": "2024-10-21", "azure_endpoint": "https://x.openai.azure.com"}
LOGIN = {"aws_access_key_id": "a", "aws_secret_access_key": "s", "aws_region": "eu-west-1"}
KEYS = "OPENAI GROQ GOOGLE ANTHROPIC DEEPSEEK TOGETHER XAI MISTRAL FIREWORKS MINIMAX SARVAM".split()
OPENAI = {"model_name": "m", "temperature": 0.3, "max_tokens": 77, "top_p": 0.9}
AZURE_MODEL = {
    **OPENAI,
    "deployment_name": "d",
    "azure_endpoint": AZURE["azure_endpoint"],
    "openai_api_version": "2024-10-21",
}
# provider → (its own options, class, what the object has); all are given those of `test_chat_model…` that they know
CHAT: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    **{
        name: ({f"{key}_base_url": SERVER}, "ChatOpenAI", {**OPENAI, "openai_api_base": SERVER})
        for name, key in (
            ("openai", "openai"),
            ("openai_structured", "openai"),
            ("lmstudio", "lmstudio"),
            ("vllm", "vllm"),
            ("minimax", "minimax"),
            ("sarvam", "sarvam"),
        )
    },
    "azure_openai": ({"azure_kwargs": {**AZURE, "api_key": "k"}}, "AzureChatOpenAI", AZURE_MODEL),
    "azure_openai_structured": ({"azure_kwargs": {**AZURE, "api_key": "k"}}, "AzureChatOpenAI", AZURE_MODEL),
    "anthropic": (
        {"anthropic_base_url": SERVER, "http_client_proxies": SERVER},
        "ChatAnthropic",
        {
            "model": "m",
            "temperature": 0.3,
            "max_tokens": 77,
            "top_k": 3,
            "anthropic_api_url": SERVER,
            "anthropic_proxy": SERVER,
        },
    ),
    "gemini": ({}, "ChatGoogleGenerativeAI", {"temperature": 0.3, "max_output_tokens": 77, "top_p": 0.9, "top_k": 3}),
    "vertexai": (
        {"project": "p", "location": "us-central1"},
        "ChatVertexAI",
        {"project": "p", "location": "us-central1", "temperature": 0.3, "max_output_tokens": 77, "top_k": 3},
    ),
    "aws_bedrock": (
        LOGIN,
        "ChatBedrockConverse",
        {"model_id": "m", "temperature": 0.3, "max_tokens": 77, "region_name": "eu-west-1"},
    ),
    "groq": ({}, "ChatGroq", {"model_name": "m", "max_tokens": 77, "model_kwargs": {"top_p": 0.9}}),
    "deepseek": ({"deepseek_base_url": SERVER}, "ChatDeepSeek", {**OPENAI, "api_base": SERVER}),
    "together": ({"http_client_proxies": SERVER}, "ChatTogether", {**OPENAI, "openai_proxy": SERVER}),
    "xai": ({"xai_base_url": SERVER}, "ChatXAI", {**OPENAI, "xai_api_base": SERVER}),
    "ollama": (
        {"ollama_base_url": SERVER},
        "ChatOllama",
        {"model": "m", "num_predict": 77, "top_k": 3, "base_url": SERVER},
    ),
    "litellm": ({}, "ChatLiteLLM", {"model": "m", "temperature": 0.3, "max_tokens": 77, "top_p": 0.9}),
    "mistralai": ({}, "ChatMistralAI", {"model": "m", "temperature": 0.3, "max_tokens": 77, "top_p": 0.9}),
    "fireworks": ({}, "ChatFireworks", {"model_name": "m", "max_tokens": 77, "model_kwargs": {"top_p": 0.9}}),
}
VECTORS: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "openai": ({"openai_base_url": SERVER, "embedding_dims": 16}, "OpenAIEmbeddings", {"dimensions": 16}),
    "lmstudio": ({"lmstudio_base_url": SERVER}, "OpenAIEmbeddings", {"openai_api_base": SERVER}),
    "together": ({}, "OpenAIEmbeddings", {"openai_api_base": "https://api.together.xyz/v1"}),
    "huggingface": ({"huggingface_base_url": SERVER}, "OpenAIEmbeddings", {"openai_api_base": SERVER}),
    "azure_openai": ({"azure_kwargs": {**AZURE, "api_key": "k"}}, "AzureOpenAIEmbeddings", {"deployment": "d"}),
    "ollama": ({"ollama_base_url": SERVER}, "OllamaEmbeddings", {"base_url": SERVER}),
    "gemini": ({"embedding_dims": 16}, "GoogleGenerativeAIEmbeddings", {"output_dimensionality": 16}),
    "aws_bedrock": (LOGIN, "BedrockEmbeddings", {"model_id": "m", "region_name": "eu-west-1"}),
}


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in KEYS:
        monkeypatch.setenv(f"{name}_API_KEY", "sk-x")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("MEM0_TELEMETRY", "False")
    monkeypatch.setenv("MEM0_DIR", str(tmp_path / "mem0"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def held(made: Any, wanted: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {name: getattr(made, name, None) for name in wanted}
    return {
        name: value.get_secret_value() if hasattr(value, "get_secret_value") else value
        for name, value in values.items()
    }


def test_the_table_of_this_module_has_every_chat_model() -> None:
    assert CHAT.keys() == providers("llm").keys()


@pytest.mark.parametrize("provider", CHAT)
def test_chat_model_is_of_its_real_class_and_has_what_it_was_given(provider: str) -> None:
    own, name, wanted = CHAT[provider]
    known = providers("llm")[provider].names
    common = {"model": "m", "temperature": 0.3, "max_tokens": 77, "top_p": 0.9, "top_k": 3}
    made = chat_model(Section(provider, {**{key: value for key, value in common.items() if key in known}, **own}))
    assert type(made).__name__ == name and held(made, wanted) == wanted


@pytest.mark.parametrize("provider", VECTORS)
def test_embeddings_are_of_their_real_class_and_have_what_they_were_given(provider: str) -> None:
    own, name, wanted = VECTORS[provider]
    made = embeddings(Section(provider, {"model": "m", **own}))
    assert type(made).__name__ == name and held(made, wanted) == wanted


def test_embeddings_of_vertexai_need_a_login() -> None:
    with pytest.raises(InvalidInputError, match=r"cannot use config\.embedder vertexai"):
        embeddings(Section("vertexai", {"model": "m"}))


def test_rerankers_of_a_service_are_of_their_real_class() -> None:
    cohere = reranker(Section("cohere", {"model": "m", "api_key": "k", "top_k": 5}), None)
    zerank = reranker(Section("zero_entropy", {"model": "m", "api_key": "k", "top_k": 5}), None)
    assert [type(cohere).__name__, type(zerank).__name__] == ["CohereRerank", "ZeroEntropyRerank"]
    assert (
        held(cohere, {"model": 0, "top_n": 0}) == held(zerank, {"model": 0, "top_n": 0}) == {"model": "m", "top_n": 5}
    )


def test_rerankers_that_download_a_model_are_made_with_what_they_were_given(monkeypatch: pytest.MonkeyPatch) -> None:
    downloads: list[tuple[str, dict[str, Any]]] = []
    module = ModuleType("sentence_transformers")  # in the place of the package that downloads the model
    vars(module)["CrossEncoder"] = lambda name, **options: downloads.append((name, options))
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    one = reranker(Section("sentence_transformer", {"device": "cpu", "batch_size": 8, "top_k": 3}), None)
    reranker(Section("huggingface", {"model": "x", "max_length": 256, "normalize": True}), None)
    assert type(one).__name__ == "CrossEncoderReranker" and held(one, {"top_n": 0}) == {"top_n": 3}
    assert downloads == [("cross-encoder/ms-marco-MiniLM-L-6-v2", {"device": "cpu"}), ("x", {"max_length": 256})]


@pytest.mark.skipif("MEM0_CHECKOUT" not in os.environ, reason="MEM0_CHECKOUT names no checkout of Mem0's repository")
def test_the_provider_blocks_of_mem0s_documentation_build_the_real_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Memory, "add", lambda *_, **__: {"results": []})  # what follows would ask the provider
    pages = [
        page
        for page in mem0_blocks.blocks(Path(os.environ["MEM0_CHECKOUT"]))
        if page[0].page.startswith("docs/components/")
    ]
    outcomes = [
        outcome
        for page in pages
        if "/models/" in page[0].page and "/rerankers/" not in page[0].page
        for outcome in mem0_blocks.run(page)
    ]
    for outcome in outcomes:
        print(f"{outcome.kind:9} {outcome.block.name}: {outcome.text[:200]}")  # noqa: T201 - shown by pytest -s
    kinds = [outcome.kind for outcome in outcomes]
    print(f"{kinds.count('runs')} of {len(kinds)} build the real class")  # noqa: T201 - the same
    assert kinds.count("runs") >= 20 and "raw" not in kinds


# ── vector stores ────────────────────────────────────────────────────────────────────────────────────────────────────


def ours(store: dict[str, Any]) -> Memory:
    vectors = {"provider": "langchain", "config": {"model": HashEmbeddings(64)}}
    return Memory.from_config({"vector_store": store, "embedder": vectors})


def test_milvus_lite_is_fed_with_our_vectors_and_searched(tmp_path: Path) -> None:
    store = {
        "provider": "milvus",
        "config": {"url": str(tmp_path / "milvus.db"), "collection_name": "test", "metric_type": "L2"},
    }
    for number in (2, 4):
        with ours(store) as memory:
            memory.add(["I like tea.", "I live in Lyon."], user_id="a", infer=False)
            assert len(memory.get_all(user_id="a")) == number and memory.engine.verify().ok
            assert memory.search("tea", filters={"user_id": "a"})[0]["memory"] == "I like tea."
            gone = memory.get_all(user_id="a")[0]["id"]
            memory.delete(gone)
            memory.add("I like figs.", user_id="a", infer=False)
            verification = memory.engine.verify()
            assert verification.ok and verification.checked == number and not verification.unchecked
    assert (tmp_path / "milvus.db_langmem_adapter" / "test.db").is_file()


def _dims(store: dict[str, Any]) -> dict[str, int]:
    return {} if store["provider"] == "chroma" else {"embedding_model_dims": 64}


def theirs(store: dict[str, Any], tmp_path: Path) -> Any:
    from mem0 import Memory as Mem0

    return Mem0.from_config(
        {
            "vector_store": {**store, "config": {**_dims(store), **store["config"]}},
            "embedder": {"provider": "langchain", "config": {"model": HashEmbeddings(64)}},
            "llm": {"provider": "langchain", "config": {"model": ScriptedChatModel(replies=[])}},
            "history_db_path": str(tmp_path / "history.db"),
        }
    )


STORES = pytest.mark.parametrize(
    ("provider", "key", "path"), [("qdrant", "path", "q"), ("chroma", "path", "c"), ("milvus", "url", "m.db")]
)


class Peer:
    """Collections of the real Mem0 in one place; its client is closed each time, as local engines have one at a time."""

    def __init__(self, provider: str, place: dict[str, Any], tmp_path: Path) -> None:
        # Without `on_disk` Mem0 empties the folder of Qdrant when it opens it.
        self._provider, self._place, self._folder = (
            provider,
            {**place, **({"on_disk": True} if provider == "qdrant" else {})},
            tmp_path,
        )

    def __call__(self, collection: str, text: str = "") -> Any:
        """Add a text, if one is given, and read everything that the collection holds."""
        config = {"collection_name": collection, **self._place}
        memory = theirs({"provider": self._provider, "config": config}, self._folder)
        if text:
            memory.add(text, user_id="a", infer=False)
        rows = memory.get_all(filters={"user_id": "a"})["results"]
        memory.close()
        if hasattr(memory.vector_store.client, "close"):
            memory.vector_store.client.close()
        return rows


@STORES
def test_a_collection_of_mem0_itself_is_never_written(provider: str, key: str, path: str, tmp_path: Path) -> None:
    place = {key: str(tmp_path / path)}
    peer, store = (
        Peer(provider, place, tmp_path),
        {"provider": provider, "config": {**place, "collection_name": "shop"}},
    )
    before = peer("shop", "I like tea.")
    with ours(store) as memory:  # in a collection beside it
        memory.add("I live in Lyon.", user_id="a", infer=False)
        memory.reset()
        memory.add("I live in Oslo.", user_id="a", infer=False)
        assert memory.search("Oslo", filters={"user_id": "a"})[0]["memory"] == "I live in Oslo."
        assert memory.engine.verify().ok
    assert [row["memory"] for row in before] == ["I like tea."] and peer("shop") == before


@STORES
def test_a_collection_of_mem0_under_our_name_is_refused_and_left_as_it_is(
    provider: str, key: str, path: str, tmp_path: Path
) -> None:
    place = {key: str(tmp_path / path)}
    peer = Peer(provider, place, tmp_path)
    before = peer("shop_langmem_adapter", "I like tea.")
    for _ in range(2):
        with pytest.raises(InvalidInputError, match="shop_langmem_adapter' holds entries of another program"):
            ours({"provider": provider, "config": {**place, "collection_name": "shop"}})
    assert [row["memory"] for row in before] == ["I like tea."] and peer("shop_langmem_adapter") == before
