"""The calls and configurations that Mem0 documents, from 0.0 to 2.2: each runs, or is refused by an error that says the way.

In the tables a call or configuration stands beside `RUNS`, or beside a word that its refusal must hold. The hosted
platform's client is no part of it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

import pytest

from langmem_adapter.adapters.mem0 import Memory
from langmem_adapter.errors import LangmemAdapterError, ScopeError

if TYPE_CHECKING:
    from collections.abc import Mapping


RUNS: Final = ""
IMAGE = {"type": "image_url", "image_url": {"url": "https://example.com/menu.jpg"}}
TALK = [
    {"role": "user", "content": "I am planning to watch a movie tonight."},
    {"role": "assistant", "content": "How about a thriller?"},
    {"role": "user", "content": "I love sci-fi movies."},
]
# m: the memory, old: the id of a memory of alice's, TALK and IMAGE as above
CALLS: Final = {
    # 0.0
    'm.add("I like cricket.", user_id="alice", metadata={"category": "hobbies"})': RUNS,
    'm.add("I like tea.", "alice")': RUNS,
    'm.add("I like tea.", "alice", "guide", "run-1", {"category": "drinks"}, None, None)': RUNS,
    'm.add("I like tea.", "alice", None, None, None, {"category": "drinks"})': "no filters",
    'm.add(data="I like tea.", user_id="alice")': RUNS,
    'm.add("I like tea.", user_id="alice", prompt="Only drinks.")': "chat model",
    "m.get_all()": "user_id",
    'm.get_all("alice")': RUNS,
    'm.get_all("alice", None, None, 10)': RUNS,
    'm.search("tea", "alice", None, None, 3, {"category": "drinks"})': RUNS,
    'm.search(query="What are my hobbies?", user_id="alice")': RUNS,
    "m.get(old)": RUNS,
    'm.get("m1")': RUNS,
    'm.update(old, "Likes tennis")': RUNS,
    'm.update(memory_id=old, data="Likes tennis")': RUNS,
    'm.update(memory_id="m1", data="Likes tennis")': "m1",
    "m.history(memory_id=old)": RUNS,
    'm.history("m1")': RUNS,
    "m.delete(memory_id=old)": RUNS,
    'm.delete("m1")': "m1",
    'm.delete_all(user_id="alice")': RUNS,
    "m.reset()": RUNS,
    'm.chat("Hello?")': "search",
    # 0.1 and 1.0
    'm.add(TALK, user_id="alice", metadata={"category": "movies"})': RUNS,
    'm.add(messages=TALK, user_id="alice")': RUNS,
    'm.add(TALK, user_id="alice", metadata={"category": "movies"}, infer=False)': RUNS,
    'm.add(TALK, user_id="alice", agent_id="guide")': RUNS,
    'm.add(TALK, user_id="alice", run_id="run-1")': RUNS,
    'm.add(TALK, agent_id="guide")': RUNS,
    'm.add({"role": "user", "content": "I like tea."}, user_id="alice")': RUNS,
    'm.add(TALK, agent_id="guide", memory_type="procedural_memory")': RUNS,
    'm.add(TALK, user_id="alice", agent_id="guide", memory_type="procedural_memory")': RUNS,
    'm.add(TALK, agent_id="guide", memory_type="semantic_memory")': "procedural_memory",
    'm.add(TALK, user_id="alice", memory_type="procedural_memory")': "agent_id",
    'm.add([TALK[0], {"role": "user", "content": IMAGE}], user_id="alice")': RUNS,
    'm.add([{"role": "user", "content": [{"type": "text", "text": "I like it."}, IMAGE]}], user_id="alice")': RUNS,
    'm.add("I like tea.", user_id="alice", metadata={"topics": ["ui"], "context": {"session": "a"}})': RUNS,
    'm.add("I like tea.", user_id="alice", enable_graph=False)': "graph_store",
    'm.add("I like tea.", user_id="alice", output_format="v1.1")': "version",
    'm.add("I like tea.", user_id="alice", version="v1.0")': "version",
    'm.add("I like tea.", user_id="alice", unknown_param="value")': "unknown_param",
    'm.add("I like tea.")': "user_id",
    'm.add(TALK, agent_id="guide", memory_type="procedural_memory", llm=object())': "llm in the configuration",
    'm.get_all(user_id="alice")': RUNS,
    'm.get_all(user_id="alice", agent_id="guide", run_id="run-1")': RUNS,
    'm.get_all(user_id="alice", limit=50)': RUNS,
    'm.get_all(user_id="alice", filters={"category": "movies"})': RUNS,
    'm.search("movies", user_id="alice", limit=3)': RUNS,
    'm.search("movies", user_id="alice", agent_id="guide", run_id="run-1")': RUNS,
    'm.search("movies", agent_id="guide", threshold=0.3)': RUNS,
    'm.search("movies", user_id="alice", rerank=False)': RUNS,
    'm.search("movies", user_id="alice", limit=3, rerank=True)': RUNS,
    'm.search("movies", user_id="alice", filters={"category": "movies", "status": "active"})': RUNS,
    'm.search("movies", user_id="alice", filters={"metadata.category": "movies"})': RUNS,
    'm.search("movies", user_id="alice", filters={"confidence": {"lt": 0.9}, "rating": {"lte": 3}})': RUNS,
    'm.search("movies", user_id="alice", filters={"status": {"eq": "active"}, "archived": {"ne": True}})': RUNS,
    'm.search("movies", user_id="alice", filters={"a": {"in": ["x", "y"]}, "b": {"nin": ["z"]}})': RUNS,
    'm.search("movies", user_id="alice", filters={"a": {"contains": "x"}, "b": {"icontains": "y"}})': RUNS,
    'm.search("movies", user_id="alice", filters={"category": "*"})': RUNS,
    'm.search("movies", user_id="alice", filters={"NOT": [{"a": "x"}, {"b": "y"}]})': RUNS,
    'm.search("movies", user_id="alice", filters={"AND": [{"OR": [{"a": "x"}]}, {"NOT": [{"b": 1}]}]})': RUNS,
    'm.search("movies", agent_id="guide", filters={"created_date": {"gte": "2024-01-01"}})': RUNS,
    'm.delete_all(user_id="alice", agent_id="guide")': RUNS,
    'm.delete_all(agent_id="guide")': RUNS,
    "m.delete_all()": "user_id",
    'm.delete_all(user_id="*", agent_id="*", app_id="*", run_id="*")': "app_id",
    # 2.0 to 2.2
    'm.add("I like tea.", user_id=7)': RUNS,
    'm.add("I like tea.", user_id=" alice ")': RUNS,
    'm.add("I like tea.", user_id="   ")': "user_id is blank",
    'm.add("I like tea.", user_id="alice", expiration_date="2100-12-31")': RUNS,
    'm.add("I like tea.", user_id="alice", expiration_date="soon")': "expiration_date",
    'm.add("I like tea.", user_id="alice", timestamp=1700000000)': RUNS,
    'm.get_all(filters={"user_id": "alice"})': RUNS,
    'm.get_all(filters={"user_id": "alice"}, top_k=20)': RUNS,
    'm.get_all(filters={"user_id": "alice"}, show_expired=True)': RUNS,
    'm.get_all(filters={"user_id": "alice"}, top_k=0)': RUNS,
    'm.get_all(filters={"AND": [{"user_id": "alice"}, {"run_id": "*"}]})': "{'exists': True}",
    'm.get_all(filters={"AND": [{"user_id": "alice"}, {"run_id": {"exists": True}}]})': RUNS,
    'm.get_all(filters={"user_id": "*"})': "user_id",
    'm.search("movies", filters={"user_id": "alice"})': RUNS,
    'm.search("movies", filters={"user_id": "alice"}, top_k=20, threshold=0.1, rerank=False)': RUNS,
    'm.search("movies", filters={"user_id": "alice"}, rerank=True)': RUNS,
    'm.search("movies", filters={"user_id": "alice"}, explain=True)': RUNS,
    'm.search("movies", filters={"user_id": "alice"}, show_expired=True)': RUNS,
    'm.search("movies", filters={"user_id": "alice"}, reference_date="2024-07-01")': RUNS,
    'm.search("movies", filters={"user_id": "alice"}, reference_date="soon")': "reference_date",
    'm.search("movies", filters={"user_id": "alice", "categories": {"contains": "diet"}})': RUNS,
    'm.search("movies", filters={"user_id": "alice", "agent_id": "guide", "run_id": "run-1"})': RUNS,
    'm.search("movies", filters={"AND": [{"user_id": "alice"}, {"date": {"gte": "2024-01-01"}}]})': RUNS,
    'm.search("movies", filters={"OR": [{"user_id": "alice"}, {"agent_id": "guide"}]})': "user_id",
    'm.search("movies", top_k=5)': "user_id",
    'm.search("", filters={"user_id": "alice"})': "query",
    'm.update(old, text="Likes tennis", metadata={"category": "sports"})': RUNS,
    'm.update(old, expiration_date="2100-12-31")': RUNS,
    "m.update(old)": "expiration_date",
}


def llm(provider: str, **config: Any) -> dict[str, Any]:
    return {"llm": {"provider": provider, "config": {"model": "m", "temperature": 0.1, "max_tokens": 2000, **config}}}


def embedder(provider: str, **config: Any) -> dict[str, Any]:
    return {"embedder": {"provider": provider, "config": {"model": "m", **config}}}


def store(provider: str, **config: Any) -> dict[str, Any]:
    return {"vector_store": {"provider": provider, "config": config}}


LOGIN: Final = {"url": "bolt://127.0.0.1:1", "username": "neo4j", "password": "x"}  # nobody listens there


def graph(provider: str, **config: Any) -> dict[str, Any]:
    return {"graph_store": {"provider": provider, "config": config}}


def reranker(provider: str, /, **config: Any) -> dict[str, Any]:
    return {"reranker": {"provider": provider, "config": {"model": "m", **config}}}


OBJECT: Final = "'provider': 'langchain'"
AZURE: Final = {
    "azure_deployment": "d",
    "api_version": "2024-10-21",
    "azure_endpoint": "https://x.openai.azure.com",
    "api_key": "k",
    "default_headers": {"A": "b"},
}
CONFIGS: Final[list[tuple[dict[str, Any], str]]] = [
    ({}, RUNS),
    ({"version": "v1.0"}, RUNS),
    (llm("openai"), RUNS),
    (llm("openai", api_key="sk-x", top_p=0.9, openai_base_url="http://localhost:1/v1"), RUNS),
    (llm("openai", enable_vision=True, vision_details="auto"), RUNS),
    (llm("openai", enable_vision=True, vision_details="high"), "'detail'"),
    (llm("openai", extra_headers={"Helicone-Auth": "x"}), OBJECT),
    (llm("openai", site_url="x", app_name="y"), OBJECT),
    (llm("openai", models=["a", "b"], route="fallback"), OBJECT),
    (llm("openai", openrouter_base_url="http://localhost:1/v1"), "openai_base_url"),
    (llm("openai", response_callback=print), OBJECT),
    (llm("openai", http_client_proxies={}), RUNS),
    (llm("openai", http_client_proxies={"http://": "http://localhost:1", "https://": "http://localhost:1"}), RUNS),
    (
        llm("openai", http_client_proxies={"http://": "http://localhost:1", "https://": "http://localhost:2"}),
        "one address",
    ),
    (llm("openai", store=True, is_reasoning_model=True, reasoning_effort="low"), RUNS),
    (llm("openai_structured"), RUNS),
    (llm("lmstudio", lmstudio_base_url="http://localhost:1234/v1", lmstudio_response_format={"type": "json"}), RUNS),
    (llm("vllm", vllm_base_url="http://localhost:8000/v1"), RUNS),
    *(({"llm": {"provider": p}}, RUNS) for p in ("openai", "lmstudio", "vllm", "minimax", "sarvam")),
    (llm("sarvam", model={"name": "sarvam-m", "reasoning_effort": "high", "seed": 4}), RUNS),
    (llm("azure_openai", azure_kwargs=AZURE), RUNS),
    (llm("azure_openai_structured", azure_kwargs=AZURE), RUNS),
    (llm("azure_openai", azure_kwargs={**AZURE, "region": "x"}), "'azure_kwargs.region'"),
    (llm("azure_openai", azure_kwargs={}), "azure_openai"),
    *(
        (llm(provider), f"pip install langchain-{provider}")
        for provider in "anthropic groq ollama together deepseek xai litellm mistralai fireworks".split()
    ),
    (llm("gemini"), "pip install langchain-google-genai"),
    (llm("vertexai"), "pip install langchain-google-vertexai"),
    (llm("aws_bedrock", aws_region="eu-west-1"), "pip install langchain-aws"),
    (llm("ollama", ollama_base_url="http://localhost:11434"), "pip install langchain-ollama"),
    (llm("google_ai"), OBJECT),
    ({"llm": {"provider": "langchain", "config": {"model": "gpt-4o"}}}, "LangChain chat model"),
    ({"llm": {"provider": "mistralai"}}, "config.llm.config.model"),
    (embedder("openai"), RUNS),
    (embedder("openai", embedding_dims=1536, api_key="sk-x"), RUNS),
    (embedder("lmstudio", lmstudio_base_url="http://localhost:1234/v1"), RUNS),
    ({"embedder": {"provider": "lmstudio"}}, RUNS),
    (embedder("ollama", ollama_base_url="http://localhost:11434", embedding_dims=768), "pip install langchain-ollama"),
    (embedder("huggingface"), "pip install langchain-huggingface"),
    (embedder("huggingface", huggingface_base_url="http://localhost:3000/v1"), RUNS),
    (embedder("huggingface", model_kwargs={}), "pip install langchain-huggingface"),
    (embedder("gemini", embedding_dims=768), "pip install langchain-google-genai"),
    (embedder("azure_openai", azure_kwargs=AZURE), RUNS),
    (embedder("vertexai", memory_add_embedding_type="RETRIEVAL_DOCUMENT"), "pip install langchain-google-vertexai"),
    (embedder("vertexai", memory_add_embedding_type="CLUSTERING"), "leave it out"),
    (embedder("vertexai", vertex_credentials_json="x.json"), "GOOGLE_APPLICATION_CREDENTIALS"),
    (embedder("together"), RUNS),
    (embedder("aws_bedrock"), "pip install langchain-aws"),
    (embedder("fastembed"), "pip install langchain-community fastembed"),
    (store("faiss", collection_name="test", path="faiss_memories"), RUNS),
    (store("faiss", collection_name="test", path="faiss_memories", distance_strategy="euclidean"), RUNS),
    (store("faiss", path="faiss_memories", distance_strategy="jaccard"), "cosine"),
    (store("faiss", path="faiss_memories", embedding_model_dims=1536), RUNS),
    (store("faiss", collection_name="alone"), RUNS),
    (store("qdrant", path="qdrant", collection_name="test", on_disk=True), RUNS),
    (store("qdrant", path=":memory:", embedding_model_dims=1536), RUNS),
    (store("qdrant", host="127.0.0.1", port=9), "the vector store qdrant failed"),
    (store("chroma", path="chroma", collection_name="test"), RUNS),
    (store("pgvector", user="test", password="123", host="127.0.0.1", port="9"), "127.0.0.1"),  # noqa: S106
    (store("pgvector", user="test", maxconn=5), "pool_size"),
    ({**store("pgvector", user="test"), "history_db_path": "x.db"}, "leave it out"),
    (store("supabase"), "connection_string is missing"),
    (store("langchain", client=object()), "LangChain VectorStore"),
    *(
        (store(provider, collection_name="test", **options), f"pip install {package}")
        for provider, package, options in (
            ("milvus", "langchain-milvus", {"url": "127.0.0.1", "token": "x", "db_name": "y", "metric_type": "L2"}),
            ("pinecone", "langchain-pinecone", {"namespace": "x", "metric": "cosine"}),
            ("mongodb", "langchain-mongodb", {"db_name": "x", "mongo_uri": "mongodb://localhost"}),
            ("redis", "langchain-redis", {"redis_url": "redis://localhost"}),
            ("valkey", "langchain-aws", {"valkey_url": "valkey://localhost"}),
            ("elasticsearch", "langchain-elasticsearch", {"host": "localhost", "port": 9200}),
            ("opensearch", "langchain-community opensearch-py", {"host": "localhost"}),
            ("weaviate", "langchain-weaviate", {"cluster_url": "http://localhost:8080", "auth_client_secret": None}),
            ("upstash_vector", "langchain-community", {"url": "https://x", "token": "y"}),
            ("azure_ai_search", "langchain-community", {"service_name": "x", "api_key": "y"}),
            ("s3_vectors", "langchain-aws", {"vector_bucket_name": "x", "distance_metric": "cosine"}),
        )
    ),
    (store("pinecone", serverless_config={"cloud": "aws"}), "serverless_config' here: make the index in Pinecone"),
    (store("upstash_vector", enable_embeddings=True), "the embedder of the configuration"),
    *(
        (store(provider, collection_name="test"), "'provider': 'langchain'")
        for provider in "vertex_ai_vector_search databricks baidu cassandra neptune oracledb turbopuffer azure_mysql".split()
    ),
    *((graph(p, **LOGIN), RUNS) for p in ("neo4j", "memgraph")),
    (graph("neo4j", **LOGIN, database="neo4j", base_label=True), RUNS),
    (graph("neo4j", url="bolt://127.0.0.1:1"), RUNS),
    *((graph(p, url="x"), "'provider': 'sql'") for p in ("neptune", "neptunedb", "kuzu", "apache_age")),
    ({**llm("openai"), "graph_store": {**graph("neo4j", **LOGIN)["graph_store"], "custom_prompt": "x"}}, RUNS),
    ({"graph_store": {**graph("neo4j", **LOGIN)["graph_store"], "custom_prompt": "x"}}, "chat model"),
    ({"graph_store": {**graph("neo4j", **LOGIN)["graph_store"], **llm("openai")}}, RUNS),
    ({**llm("lmstudio"), "graph_store": {**graph("neo4j", **LOGIN)["graph_store"], **llm("openai")}}, "config.llm"),
    ({"graph_store": {**graph("neo4j", **LOGIN)["graph_store"], "threshold": 1.0}}, RUNS),
    ({"graph_store": {**graph("neo4j", **LOGIN)["graph_store"], "threshold": 0.7}}, "graph_store.threshold"),
    ({"enable_graph": True}, "graph_store"),
    (reranker("cohere", top_k=5, return_documents=False, max_chunks_per_doc=None), "pip install langchain-cohere"),
    (reranker("cohere", max_chunks_per_doc=3), "max_chunks_per_doc"),
    (
        reranker("sentence_transformer", device="cpu", batch_size=32, show_progress_bar=False),
        "pip install langchain-classic",
    ),
    (reranker("huggingface", max_length=256, normalize=True), "pip install langchain-classic"),
    (reranker("zero_entropy", api_key="x", top_k=5), "pip install langchain-zerank"),
    (reranker("llm_reranker", provider="openai", top_k=5, scoring_prompt="x", temperature=0.0, max_tokens=100), RUNS),
    (reranker("llm_reranker", llm=llm("openai")["llm"]), RUNS),
    ({**llm("openai"), "reranker": {"provider": "llm_reranker"}}, RUNS),
    ({"reranker": {"provider": "llm_reranker"}}, "asks a chat model"),
    (reranker("jina"), OBJECT),
    ({"rerank": {"provider": "cohere"}}, "write reranker"),
    ({"history_db_path": "history.db"}, RUNS),
    ({**llm("openai"), "custom_fact_extraction_prompt": "x", "custom_update_memory_prompt": "y"}, RUNS),
    ({**llm("openai"), "custom_fact_extraction_prompt": "x", "custom_instructions": "y"}, "give one of them"),
    ({"custom_instructions": "Only drinks."}, "chat model"),
    ({"custom_prompt": "x"}, "custom_fact_extraction_prompt"),
    ({"collection_name": "x"}, "vector_store.config"),
]


def said(table: Mapping[str, str], told: Mapping[str, str]) -> None:
    runs = sum(not error for error in told.values())
    print(f"{len(table)} documented: {runs} run, {len(table) - runs} are refused by name")  # noqa: T201 - shown by pytest -s
    wrong = {
        line: told[line] for line, word in table.items() if (word not in told[line]) or bool(word) != bool(told[line])
    }
    assert not wrong, "\n".join(f"{line}: {told}" for line, told in wrong.items())


def test_each_documented_call_runs_or_says_the_way() -> None:
    memory, told = Memory.from_config({"history_db_path": ":memory:"}), {}
    for line in CALLS:
        (first,) = memory.add("I like chess.", user_id="alice", infer=False)
        known = {"m": memory, "old": first["id"], "TALK": TALK, "IMAGE": IMAGE}
        try:
            eval(line, known)  # noqa: S307 - the table above
        except (LangmemAdapterError, NotImplementedError) as error:
            told[line] = str(error)
        else:
            told[line] = RUNS
    memory.close()
    said(CALLS, told)


def test_each_documented_configuration_opens_or_says_the_way(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    monkeypatch.setenv("LANGMEM_ADAPTER_MODEL", "offline")  # chosen, so that no key beside it is warned of
    monkeypatch.chdir(tmp_path)
    told = {}
    for config, _ in CONFIGS:
        try:
            Memory.from_config(config_dict=config).close()
        except LangmemAdapterError as error:
            told[repr(config)] = str(error)
        else:
            told[repr(config)] = RUNS
    said({repr(config): word for config, word in CONFIGS}, told)


@pytest.mark.parametrize("name", ["MemoryClient", "AsyncMemoryClient", "Mem0"])
def test_names_that_are_not_here_say_where_to_go(name: str) -> None:
    with pytest.raises(ImportError, match=f"^{name} is not here: "):
        exec(f"from langmem_adapter.adapters.mem0 import {name}")  # noqa: S102 - an import of a name that varies
    with pytest.raises(AttributeError, match="Nothing"):
        _ = importlib.import_module("langmem_adapter.adapters.mem0").Nothing


def test_ids_are_coerced_and_trimmed_wherever_they_stand() -> None:
    memory = Memory.from_config({"history_db_path": ":memory:"})
    memory.add("I like tea.", user_id=7, run_id=" r ")
    for options in (
        {"user_id": "7"},
        {"user_id": " 7 ", "filters": {"run_id": "r "}},
        {"filters": {"user_id": 7}},
        {"filters": {"AND": [{"user_id": {"eq": 7}}, {"run_id": {"in": ["x", " r"]}}]}},
        {"user_id": 7, "filters": {"NOT": [{"run_id": " x"}]}},
    ):
        for rows in (memory.get_all(**options), memory.search("tea", **options)):
            assert [(row["user_id"], row["run_id"]) for row in rows] == [("7", "r")]
    assert len(memory.get_all(user_id=7, filters={"size": 7})) == 0
    nobody: list[Any] = [True, 7.0, ["7"]]
    for wrong in nobody:
        with pytest.raises(ScopeError, match="user_id"):
            memory.get_all(user_id=wrong)
    memory.delete_all(user_id=7)
    assert len(memory.get_all(user_id="7")) == 0
    memory.close()


def test_a_search_explains_its_scores_only_where_asked() -> None:
    memory = Memory.from_config({"history_db_path": ":memory:"})
    memory.add("I like tea.", user_id="a")
    (row,) = memory.search("tea", user_id="a", explain=True, threshold=0.05)
    details = row["score_details"]
    assert details["raw_score"] == pytest.approx(sum(details["parts"].values()))
    assert details["threshold"] == 0.05 <= details["final_score"] == row["score"] <= 1
    assert all(0 <= details[name] <= 1 for name in ("semantic_score", "bm25_score", "entity_boost"))
    assert details["semantic_score"] > 0 and details["bm25_score"] > 0 and details["max_possible_score"] == 1
    assert "score_details" not in (memory.search("tea", user_id="a"))[0]
    memory.close()
