"""Mem0's configuration: what is honoured, and that nothing else passes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from langmem_adapter.adapters.mem0 import AsyncMemory, Memory, MemoryConfig
from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.errors import (
    EmbeddingMismatchError,
    InvalidInputError,
    MissingDependencyError,
    ModelError,
    ModelUnreachableError,
)
from langmem_adapter.testing import CountingEmbeddings, ScriptedChatModel
from tests.cases import each
from tests.openai_server import Failure, OpenAIServer, Page

if TYPE_CHECKING:
    from pathlib import Path

IN_MEMORY = {"history_db_path": ":memory:"}
FACTS = {"facts": ["Likes tea"]}


def openai_config(server: OpenAIServer, **llm: Any) -> dict[str, Any]:
    return {
        **IN_MEMORY,
        "llm": {"provider": "openai", "config": {"model": "gpt-4o", "openai_base_url": server.url, **llm}},
        "embedder": {
            "provider": "openai",
            "config": {"model": "text-embedding-3-small", "embedding_dims": 32, "openai_base_url": server.url},
        },
    }


# ── models ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_openai_model_and_its_embeddings_are_asked_with_what_the_configuration_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    with OpenAIServer(lambda _: FACTS) as server:
        config = openai_config(server, temperature=0.5, max_tokens=77, top_p=0.9, api_key="sk-of-the-config")
        with Memory.from_config(config) as memory:
            assert [row["memory"] for row in memory.add("I like tea.", user_id="a")] == ["Likes tea"]
            assert memory.engine.mode == "gpt-4o"
        chat = next(request for request in server.requests if request.path.endswith("/chat/completions"))
        vectors = next(request for request in server.requests if request.path.endswith("/embeddings"))
    assert chat.body["model"] == "gpt-4o" and chat.body["temperature"] == 0.5 and chat.body["top_p"] == 0.9
    assert 77 in {chat.body.get("max_tokens"), chat.body.get("max_completion_tokens")}
    assert vectors.body["model"] == "text-embedding-3-small" and vectors.body["dimensions"] == 32
    assert vectors.body["input"] == ["Likes tea"]
    assert chat.headers["authorization"] == "Bearer sk-of-the-config"
    assert vectors.headers["authorization"] == "Bearer no-key"  # a key of the environment goes to no server of a config


@each(
    ("part", "failure", "kind", "status", "advice"),
    [
        ("llm", None, ModelUnreachableError, None, "is the server running"),
        ("embedder", Failure(401), ModelError, 401, "check the key"),
        ("llm", Page(), ModelError, None, "is it HTML.*the base URL that you gave"),
        ("embedder", Page(), ModelError, None, "is it HTML.*the base URL that you gave"),
    ],
)
async def test_a_failure_of_the_provider_is_a_model_error_in_both_classes(
    part: str, failure: Failure | Page | None, kind: type[ModelError], status: int | None, advice: str
) -> None:
    with OpenAIServer(lambda _: failure or FACTS, vectors=failure) as server:
        address = "http://127.0.0.1:9/v1" if failure is None else server.url
        section = openai_config(server)[part]
        config = {**IN_MEMORY, part: {**section, "config": {**section["config"], "openai_base_url": address}}}
        with Memory.from_config(config) as memory:
            with pytest.raises(kind, match=f"{address} .*{advice}") as caught:
                memory.add("I like tea.", user_id="a")
            assert caught.value.status == status
            assert memory.get_all(user_id="a")["results"] == []
        async with AsyncMemory.from_config(config) as twin:
            with pytest.raises(kind, match=f"{address} .*{advice}"):
                await twin.add("I like tea.", user_id="a")


@pytest.mark.parametrize("provider", ["lmstudio", "vllm"])
def test_a_server_of_ones_own_is_asked_at_its_address(provider: str) -> None:
    with OpenAIServer(lambda _: FACTS) as server:
        llm = {"provider": provider, "config": {"model": "local", f"{provider}_base_url": server.url}}
        with Memory.from_config({**IN_MEMORY, "llm": llm}) as memory:
            assert len(memory.add("I like tea.", user_id="a")) == 1
        assert len(server.requests) == 1


def test_langchain_objects_are_used_as_they_are() -> None:
    model = ScriptedChatModel(replies=[json.dumps(FACTS)])
    vectors = CountingEmbeddings(HashEmbeddings(64))
    config = {
        **IN_MEMORY,
        "llm": {"provider": "langchain", "config": {"model": model}},
        "embedder": {"provider": "langchain", "config": {"model": vectors}},
    }
    with Memory.from_config(config) as memory:
        memory.add("I like tea.", user_id="a")
    assert len(model.calls) == 1 and vectors.documents == [["Likes tea"]]


@pytest.mark.parametrize("key", ["custom_fact_extraction_prompt", "custom_instructions"])
def test_custom_fact_extraction_prompt_custom_instructions_and_custom_update_memory_prompt_reach_the_model(
    key: str,
) -> None:
    replies = [
        FACTS,
        {"facts": ["Likes green tea"]},
        {"memory": [{"id": "0", "text": "Likes tea", "event": "NONE", "fact": 0}]},
    ]
    model = ScriptedChatModel(replies=[json.dumps(reply) for reply in replies])
    config = {
        **IN_MEMORY,
        "llm": {"provider": "langchain", "config": {"model": model}},
        key: "Only beverages.",
        "custom_update_memory_prompt": "Never delete.",
    }
    with Memory.from_config(config) as memory:
        memory.add("I like tea.", user_id="a")
        memory.add("I like green tea.", user_id="a")
    said = [" ".join(str(message.content) for message in call) for call in model.calls]
    assert ["Only beverages." in text for text in said] == [True, True, False]
    assert ["Never delete." in text for text in said] == [False, False, True]


def test_prompts_without_a_model_to_follow_them_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="chat model"):
        Memory.from_config({**IN_MEMORY, "custom_fact_extraction_prompt": "Only beverages."})


IMAGE = {"type": "image_url", "image_url": {"url": "https://example.com/lyon.jpg"}}


@pytest.mark.parametrize("content", [IMAGE, [{"type": "text", "text": "Look:"}, IMAGE]], ids=["one", "in a list"])
def test_images_are_described_where_vision_is_enabled(content: Any) -> None:
    with OpenAIServer(["The old town of Lyon", FACTS]) as server:
        config = openai_config(server, enable_vision=True)
        with Memory.from_config(config) as memory:
            memory.add([{"role": "user", "content": content}], user_id="a")
        asked = [json.dumps(request.body) for request in server.requests if "chat" in request.path]
    assert "lyon.jpg" in asked[0] and "The old town of Lyon" in asked[1]


def test_without_a_configuration_it_is_offline_whatever_keys_lie_around(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    with pytest.warns(UserWarning, match="the offline rules.*from_config.*openai") as caught:
        memory = Memory()
    assert len(caught) == 1
    with memory:
        assert memory.engine.mode == "offline"
        memory.add("I like tea.", user_id="a")
    monkeypatch.delenv("OPENAI_API_KEY")
    with Memory() as again:
        assert [row["text"] for row in again.get_all(user_id="a")] == ["Likes tea"]


# ── where the data lie ────────────────────────────────────────────────────────────────────────────────────────────────


def store(**options: Any) -> dict[str, Any]:
    return {"vector_store": {"provider": "faiss", "config": options}}


def test_history_db_path_is_the_file_of_everything(tmp_path: Path) -> None:
    config = {"history_db_path": str(tmp_path / "new" / "history.db")}
    with Memory.from_config(config) as memory:
        memory.add("I like tea.", user_id="a")
    assert (tmp_path / "new" / "history.db").is_file()
    with Memory.from_config(config) as memory:
        assert len(memory.get_all(user_id="a")) == 1


def test_collections_in_one_folder_are_files_of_their_own(tmp_path: Path) -> None:
    with (
        Memory.from_config(store(path=str(tmp_path), collection_name="one")) as one,
        Memory.from_config(store(path=tmp_path, collection_name="two")) as two,
    ):
        one.add("I like tea.", user_id="a")
        assert len(one.get_all(user_id="a")) == 1 and len(two.get_all(user_id="a")) == 0
    assert {file.name for file in tmp_path.glob("*.db")} == {"one.db", "two.db"}


def test_the_history_may_lie_in_the_folder_of_the_store(tmp_path: Path) -> None:
    config = {"history_db_path": str(tmp_path / "h.db"), **store(path=str(tmp_path))}
    Memory.from_config(config).close()
    assert (tmp_path / "h.db").is_file() and not (tmp_path / "mem0.db").exists()


def test_what_only_confirms_our_way_passes(tmp_path: Path) -> None:
    config = store(path=tmp_path, distance_strategy="cosine", normalize_L2=True, embedding_model_dims=32)
    with OpenAIServer() as server:
        Memory.from_config({**openai_config(server), "history_db_path": None, **config}).close()
    assert (tmp_path / "mem0.db").is_file()


@pytest.mark.postgres
def test_an_address_of_postgres_serves_as_the_history_path(postgres_url: str) -> None:
    with Memory.from_config({"history_db_path": postgres_url}) as memory:
        memory.add("I like tea.", user_id="a", metadata={"topic": "food"})
        assert [row["text"] for row in memory.get_all(user_id="a", filters={"topic": "food"})] == ["Likes tea"]
    with pytest.raises(InvalidInputError, match="give one of the two"):
        Memory.from_config({"history_db_path": postgres_url, **store(path="/x")})


def test_other_embeddings_than_those_of_the_file_are_refused(tmp_path: Path) -> None:
    def config(dimensions: int) -> dict[str, Any]:
        vectors = {"provider": "langchain", "config": {"model": HashEmbeddings(dimensions)}}
        return {"history_db_path": str(tmp_path / "m.db"), "embedder": vectors}

    with Memory.from_config(config(64)) as memory:
        memory.add("I like tea.", user_id="a")
    with Memory.from_config(config(128)) as memory, pytest.raises(EmbeddingMismatchError):
        memory.search("tea", user_id="a")


# ── what is refused ───────────────────────────────────────────────────────────────────────────────────────────────────


def llm(provider: str = "openai", **config: Any) -> dict[str, Any]:
    return {"llm": {"provider": provider, "config": {"model": "gpt-4o", "api_key": "sk-x", **config}}}


def embedder(provider: str = "openai", **config: Any) -> dict[str, Any]:
    return {"embedder": {"provider": provider, "config": {"model": "text-embedding-3-small", **config}}}


def server(provider: str = "neo4j", **config: Any) -> dict[str, Any]:
    login = {"url": "bolt://127.0.0.1:1", "username": "ada", "password": "x"}
    return {"graph_store": {"provider": provider, "config": {**login, **config}}}


REFUSED = [
    ({"graph_store": {"provider": "kuzu"}}, "graph_store.*kuzu.*'provider': 'sql'.*'neo4j'"),
    (server(url="localhost"), "write it like bolt://localhost:7687"),
    (server(url="bolt://ada:s3cret@localhost"), r"login does not belong in the address bolt://ada:\*\*\*@localhost"),
    (server(url=None), "graph_store.config.url is missing.*bolt://"),
    (server(url=7687), "graph_store.config.url must be a text"),
    (server(password=None), "needs username and password"),
    (server(uri="bolt://x"), "has no 'uri' here: did you mean 'url'"),
    (server(base_label="Node"), "base_label must be True or False"),
    (server("memgraph", database="x"), "'database'.*known are url, username, password"),
    ({"graph_store": {"config": {"url": "x"}}}, "graph_store.*provider is missing"),
    ({"graph_store": {"provider": "sql", "config": {"url": "x"}}}, "graph_store.config.*'url'.*leave it out"),
    *(
        ({"graph_store": {"provider": "sql", "threshold": given}}, "graph_store.threshold=.*names.*leave it out")
        for given in (0.7, True, "1")
    ),
    ({"graph_store": {"provider": "sql", "llm": {}}}, "graph_store.llm.*provider is missing"),
    ({"graph_store": {"provider": "sql", "custom_prompt": "x"}}, "chat model"),
    ({"graph_store": {"provider": "sql", "custom_prompt": 7}}, "graph_store.custom_prompt must be a text"),
    ({"graph_store": "neo4j"}, "config.graph_store must be"),
    ({"reranker": {"provider": "jina"}}, "reranker.*jina.*'provider': 'langchain'.*cohere"),
    ({"collection_name": "x"}, "collection_name.*vector_store"),
    ({"embedding_model_dims": 5}, "embedding_model_dims.*embedding_dims"),
    ({"embeder": {}}, "embeder.*did you mean 'embedder'"),
    ({"zzz": 1}, "zzz.*known are llm, embedder"),
    ({"version": "v2"}, "version.*v1.0.*v1.1"),
    ({"llm": "openai"}, "config.llm must be"),
    ({"llm": {"config": {}}}, "config.llm.*provider is missing"),
    ({"llm": {"provider": "openai", "config": []}}, "config.llm.*list"),
    ({"llm": {"provider": "openai", "options": {}}}, "options.*known are provider, config"),
    (llm("mistralai", model=None), "config.llm.config.model must be the name"),
    (llm("nonsense"), "nonsense.*langchain"),
    (llm(top_k=1), "top_k.*leave it out"),
    (llm(temprature=1), "temprature.*did you mean 'temperature'"),
    (llm(vision_details="low"), "vision_details.*each image"),
    (llm(enable_vision="yes"), "enable_vision must be True or False"),
    (llm(base_url="http://a", openai_base_url="http://b"), "twice"),
    ({"llm": {"provider": "langchain", "config": {"model": "gpt-4o"}}}, "LangChain chat model"),
    (llm("langchain", temperature=1), "has no 'api_key' here.*on the object"),
    (embedder("voyage"), "voyage.*langchain"),
    (embedder(memory_add_embedding_type="x"), "memory_add_embedding_type"),
    ({"embedder": {"provider": "langchain", "config": {"model": "x"}}}, "LangChain embeddings"),
    ({"vector_store": {"provider": "neptune"}}, "neptune.*'provider': 'langchain'.*qdrant"),
    (store(distance_strategy="jaccard"), "distance_strategy.*cosine"),
    (store(normalize_L2=False), "normalize_L2.*True"),
    (store(host="x"), "'host'.*known are path"),
    (store(path=":memory:"), 'give history_db_path=":memory:" instead'),
    (store(path="/x", collection_name="../x"), "plain name"),
    ({"history_db_path": ""}, "history_db_path must be"),
    ({"history_db_path": "/a/h.db", **store(path="/b")}, "give one of the two"),
]


@each(("config", "told"), REFUSED)
@pytest.mark.parametrize("kind", [Memory, AsyncMemory])
def test_what_cannot_be_honoured_is_refused_with_the_way_to_do_it(
    kind: type[Memory | AsyncMemory], config: dict[str, Any], told: str
) -> None:
    with pytest.raises(InvalidInputError, match=told):
        kind.from_config({**({} if "history_db_path" in config or "vector_store" in config else IN_MEMORY), **config})


@pytest.mark.parametrize("config", [None, "x", [("version", "v1.0")], {1: 2}])
def test_what_is_no_configuration_is_refused(config: Any) -> None:
    with pytest.raises(InvalidInputError, match="a configuration is a dict"):
        Memory.from_config(config)


def test_the_object_is_as_strict_as_the_dict() -> None:
    with pytest.raises(InvalidInputError, match="graph_store"):
        MemoryConfig(graph_store={"provider": "kuzu"})


def test_a_missing_key_and_a_missing_package_say_what_to_do() -> None:
    with pytest.raises(InvalidInputError, match="OPENAI_API_KEY"):
        Memory.from_config({**IN_MEMORY, "llm": {"provider": "openai", "config": {"model": "gpt-4o"}}})
    for provider, package in (("ollama", "ollama"), ("anthropic", "anthropic"), ("gemini", "google-genai")):
        with pytest.raises(MissingDependencyError, match=rf"pip install langchain-{package}$"):
            Memory.from_config({**IN_MEMORY, "llm": {"provider": provider, "config": {"model": "m"}}})
    with pytest.raises(MissingDependencyError, match=r"pip install langchain-ollama$"):
        Memory.from_config({**IN_MEMORY, "embedder": {"provider": "ollama", "config": {"model": "m"}}})


# ── rerankers ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def ranked(*replies: Any, **options: Any) -> tuple[Memory, ScriptedChatModel]:
    model = ScriptedChatModel(replies=list(replies))
    llm = {"provider": "langchain", "config": {"model": model}}
    memory = Memory.from_config({**IN_MEMORY, "llm": llm, "reranker": {"provider": "llm_reranker", "config": options}})
    memory.add(["I like tea.", "I like green tea."], user_id="a", infer=False)
    return memory, model


async def test_llm_reranker_orders_the_rows_with_one_call_of_the_chat_model() -> None:
    memory, model = ranked('```json\n{"scores": [0.25, 5]}\n```', scoring_prompt="Only green drinks count.")
    plain = [row["memory"] for row in memory.search("I like tea.", user_id="a", rerank=False)]
    result = memory.search("I like tea.", user_id="a")
    assert [(row["memory"], row["rerank_score"]) for row in result] == [(plain[1], 1.0), (plain[0], 0.25)]
    assert "notes" not in result and len(model.calls) == 1
    asked = [str(message.content) for message in model.calls[0]]
    assert asked[0] == "Only green drinks count." and all(text in asked[1] for text in plain)
    memory.close()


@pytest.mark.parametrize("reply", ["Certainly!", '{"scores": [1]}', '{"scores": "high"}', ModelError("away")])
def test_llm_reranker_keeps_the_order_and_adds_a_note_where_the_reply_is_broken(reply: Any) -> None:
    memory, model = ranked(reply, json.dumps({"scores": [0, 1]}), top_k=1)
    first = memory.search("I like tea.", user_id="a", rerank=False)[0]["memory"]
    result = memory.search("I like tea.", user_id="a", rerank=True)
    assert [row["memory"] for row in result] == [first] and "order of the search" in result["notes"][0]
    again = memory.search("I like tea.", user_id="a")
    assert [row["memory"] for row in again] != [first] and "notes" not in again and len(model.calls) == 2
    memory.close()
