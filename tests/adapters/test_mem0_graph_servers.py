"""Mem0's `graph_store` with a graph server: what its users wrote for Neo4j goes on, and what lies there comes in.

Mem0's Cypher stands here as Mem0 sends it, and runs as it is. A mirror shows what held and was believed once, too, where Mem0
deleted: whoever wants what holds now adds `WHERE r.retired_at IS NULL AND r.valid_to IS NULL`.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from langmem_adapter import InvalidInputError, Memory, StorageError
from langmem_adapter.adapters.mem0 import AsyncMemory, aimport_graph, import_graph
from langmem_adapter.adapters.mem0 import Memory as Mem0
from langmem_adapter.cli.app import app
from langmem_adapter.testing import ScriptedChatModel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from langmem_adapter.knowledge.imports import RefusedRow
    from tests.bolt import GraphServer

pytestmark = pytest.mark.xdist_group("bolt")

# What `_search_graph_db` of Mem0 sends, with `base_label`.
LOOK_UP = """
MATCH (n :`__Entity__`)
WHERE n.embedding IS NOT NULL AND n.user_id = $user_id
WITH n, round(2 * vector.similarity.cosine(n.embedding, $n_embedding) - 1, 4) AS similarity
WHERE similarity >= $threshold
CALL (n) {
    MATCH (n)-[r]->(m)
    RETURN
        n.name AS source, elementId(n) AS source_id,
        type(r) AS relationship, elementId(r) AS relation_id,
        m.name AS destination, elementId(m) AS destination_id
    UNION
    MATCH (m)-[r]->(n)
    RETURN
        m.name AS source, elementId(m) AS source_id,
        type(r) AS relationship, elementId(r) AS relation_id,
        n.name AS destination, elementId(n) AS destination_id
}
WITH distinct source, source_id, relationship, relation_id, destination, destination_id, similarity
RETURN source, source_id, relationship, relation_id, destination, destination_id, similarity
ORDER BY similarity DESC
LIMIT $limit
"""
# What `get_all` of Mem0 sends.
ALL = """
MATCH (n :`__Entity__` {user_id: $user_id})-[r]->(m :`__Entity__` {user_id: $user_id})
RETURN n.name AS source, type(r) AS relationship, m.name AS target
LIMIT $limit
"""
NOW = ALL.replace("RETURN", "WHERE r.retired_at IS NULL AND r.valid_to IS NULL RETURN")


def at(server: GraphServer, **more: Any) -> dict[str, Any]:
    login = {"url": server.uri, "username": server.username, "password": server.password}
    return {"provider": "neo4j", "config": {**login, "database": server.database, **more}}


@pytest.mark.parametrize("kind", [Mem0, AsyncMemory])
def test_the_configuration_of_mem0_runs_and_its_look_ups_find_what_was_added(
    kind: type[Mem0 | AsyncMemory], bolt_server: GraphServer
) -> None:
    who = f"desmond-{kind.__name__}"
    memory = kind.from_config({"history_db_path": ":memory:", "graph_store": at(bolt_server, base_label=True)})
    engine = memory.engine
    engine.add("I live in Lyon. I have a sister named Jesica.", user_id=who)
    engine.add("I moved to Oslo.", user_id=who)
    engine.add("I live in Rome.", user_id="somebody else")
    vector = engine.parts.embedder.vectors(["Jesica"])[0].tolist()
    memory.close()
    lives, sister = [who, "lives_in", "Oslo"], [who, "has_sister", "Jesica"]
    assert sorted(bolt_server.ask(NOW, user_id=who, limit=100)) == sorted([lives, sister])
    assert [who, "lives_in", "Lyon"] in bolt_server.ask(ALL, user_id=who, limit=100)
    found = bolt_server.ask(LOOK_UP, user_id=who, n_embedding=vector, threshold=0.7, limit=100)
    assert [(row[0], row[2], row[4], row[6]) for row in found] == [(*sister, 1.0)]
    ended = "MATCH ({user_id: $user_id})-[r:lives_in]->({name: 'Lyon'}) WHERE r.retired_at IS NULL RETURN r.valid_to"
    assert [[until is not None] for (until,) in bolt_server.ask(ended, user_id=who)] == [[True]]


def test_what_is_reset_is_gone_there_as_well(bolt_server: GraphServer) -> None:
    with Mem0.from_config({"history_db_path": ":memory:", "graph_store": at(bolt_server)}) as memory:
        memory.add("I live in Lyon.", user_id="reset-1")
        memory.reset(user_id="reset-1")
        memory.add("I live in Kyoto.", user_id="reset-2")
    assert bolt_server.ask("MATCH (n:Entity) WHERE n.user_id = 'reset-1' RETURN n.name") == []
    assert len(bolt_server.ask("MATCH (n:Entity) WHERE n.user_id = 'reset-2' RETURN n.name")) == 2


def test_a_server_that_is_not_there_stops_nothing_and_is_told_of(
    tmp_path: Path, bolt_server: GraphServer, caplog: pytest.LogCaptureFixture
) -> None:
    path = str(tmp_path / "memory.db")
    away = {**at(bolt_server), "provider": "memgraph"}
    away["config"] = {"url": "bolt://127.0.0.1:1", "username": "ada", "password": "s3cret"}
    with Mem0.from_config({"history_db_path": path, "graph_store": away}) as memory:
        added = memory.add("I live in Lyon.", user_id="away")
        assert added["relations"]["added_entities"] and memory.search("Lyon", user_id="away")["relations"]
    (told,) = {record.getMessage() for record in caplog.records if record.levelname == "WARNING"}
    assert "the graph is not mirrored" in told and "127.0.0.1:1 cannot be reached" in told and "s3cret" not in told
    with Mem0.from_config({"history_db_path": path, "graph_store": at(bolt_server)}):
        pass  # whoever opens it next brings the server up to date
    assert len(bolt_server.ask("MATCH ({user_id: 'away'})-[r]->() RETURN type(r)")) == 1


def test_the_model_for_relations_and_what_it_is_told() -> None:
    facts = {"facts": [{"text": "Has a sister, Jesica", "turn": 0, "date": None, "relations": []}]}
    model = ScriptedChatModel(replies=[json.dumps(facts)])
    llm = {"provider": "langchain", "config": {"model": model}}
    store = {"provider": "sql", "custom_prompt": "Only kinship.", "threshold": 1.0, "llm": llm}
    with Mem0.from_config({"history_db_path": ":memory:", "graph_store": store}) as memory:
        memory.add("I have a sister, Jesica.", user_id="alice")
        assert memory.engine.mode == "scripted"
    (call,) = model.calls
    assert "Of the relations heed this above all:\nOnly kinship." in str(call[0].content)
    same = {"history_db_path": ":memory:", "graph_store": store, "llm": llm}
    Mem0.from_config(same).close()
    with pytest.raises(InvalidInputError, match=r"graph_store\.llm is another model than config.llm"):
        Mem0.from_config({**same, "llm": {"provider": "openai", "config": {"model": "gpt-5-mini"}}})


# ── what Mem0 kept there ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def kept(bolt_server: GraphServer) -> Iterator[GraphServer]:
    """The server, on which only what Mem0 kept there is looked at by whoever reads everything."""
    bolt_server.ask("MATCH (n) WHERE n.lineage IS NULL AND n.name IS NOT NULL DETACH DELETE n")
    yield bolt_server
    bolt_server.ask("MATCH (n) WHERE n.lineage IS NULL AND n.name IS NOT NULL DETACH DELETE n")


def put(server: GraphServer, source: str, relation: str, target: str, **more: Any) -> None:
    """Add a relation by the Cypher of Mem0 1.0, once as `_add_entities` sends it with neither node there."""
    ids = {"user_id": "alice", **more.pop("ids", {})}
    whose = ", ".join(f"{name}: ${name}" for name, value in ids.items() if value is not None)
    source_label, target_label = more.pop("labels", ("`__User__`", "`__User__`"))
    told = "".join(f", r.{name} = ${name}" for name in more)
    merge = f"""
    MERGE (source:{source_label} {{name: $source_name, {whose}}})
    ON CREATE SET source.created = timestamp(), source.mentions = 1, source.embedding = [0.1, 0.2]
    ON MATCH SET source.mentions = coalesce(source.mentions, 0) + 1
    WITH source
    MERGE (destination:{target_label} {{name: $destination_name, {whose}}})
    ON CREATE SET destination.created = timestamp(), destination.mentions = 1
    ON MATCH SET destination.mentions = coalesce(destination.mentions, 0) + 1
    WITH source, destination
    MERGE (source)-[r:`{relation}`]->(destination)
    ON CREATE SET r.created_at = timestamp(), r.updated_at = timestamp(), r.mentions = 1{told}
    ON MATCH SET r.mentions = coalesce(r.mentions, 0) + 1
    RETURN source.name AS source, type(r) AS relationship, destination.name AS target
    """
    server.ask(merge, source_name=source, destination_name=target, **{**ids, **more})


def login_of(server: GraphServer) -> dict[str, Any]:
    return {"username": server.username, "password": server.password, "database": server.database}


YEAR_2024 = datetime(2024, 1, 1, tzinfo=UTC)


async def test_what_mem0_kept_comes_in_with_its_scopes_dates_and_mentions(kept: GraphServer) -> None:
    put(kept, "alice", "lives_in", "lyon", labels=("person", "city"), created_at=int(YEAR_2024.timestamp() * 1_000))
    put(kept, "alice", "lives_in", "lyon", labels=("person", "city"))
    put(kept, "alice", "lives_in", "oslo", created=int(YEAR_2024.timestamp() * 1_000_000))  # Memgraph counts so
    put(kept, "user_id:_alice,_agent_id:_guide", "loves_to_eat", "披萨", ids={"agent_id": "guide"})
    put(kept, "alice_smith", "knows", "bob", ids={"user_id": "Alice Smith"}, labels=("`__Entity__`:person", "人"))
    put(kept, "alice", "works_at", "acme", valid=False, invalidated_at=datetime(2100, 1, 1, tzinfo=UTC))
    put(kept, "alice", "owns", "car", valid=True, invalidated_at=None)
    with Memory(":memory:") as memory:
        done = import_graph(memory, kept.uri, **login_of(kept))
        assert (done.read, done.added, done.refused) == (6, 6, 0)
        again = await aimport_graph(memory, kept.uri, **login_of(kept))
        assert (again.read, again.known) == (6, 6)
        told = {(each.source, each.relation, each.target): each for each in memory.graph.relations(user_id="alice")}
        assert set(told) == {
            ("alice", "lives_in", "lyon"),
            ("alice", "lives_in", "oslo"),  # Mem0 believes both: nothing is ended for what comes in
            ("alice", "loves_to_eat", "披萨"),
            ("alice", "works_at", "acme"),
            ("alice", "owns", "car"),
        }
        lyon = told["alice", "lives_in", "lyon"]
        assert (lyon.valid_from, lyon.valid_to, lyon.mentions) == (YEAR_2024, None, 2)
        assert (lyon.source_type, lyon.target_type) == ("person", "city")
        assert told["alice", "works_at", "acme"].valid_to == datetime(2100, 1, 1, tzinfo=UTC)
        assert told["alice", "loves_to_eat", "披萨"].scope.agent_id == "guide"
        (other,) = memory.graph.relations(user_id="Alice Smith")
        assert (other.source, other.target, other.target_type) == ("Alice Smith", "bob", "人")
        me = memory.graph.neighbours("me", user_id="alice")
        assert {near.entity.name for near in me} == {"lyon", "oslo", "披萨", "acme", "car"}


def test_what_cannot_be_taken_is_told_and_what_is_not_mem0s_is_not_read(kept: GraphServer) -> None:
    put(kept, "alice", "knows", "bob")
    put(kept, "x" * 201, "knows", "bob")
    put(kept, "alice", "__", "bob")
    put(kept, "alice", "is", "alice")
    put(kept, "alice", "liked", "tea", valid=False)
    put(kept, "alice", "was_born", "yesterday", created_at="no date")
    put(kept, "alice", "was_born", "one day", created_at=2**62)
    put(kept, "alice", "was_born", "once", created_at=float("nan"))
    kept.ask("CREATE (:Movie {name: 'Heat'})-[:directed_by]->(:Person {name: 'Mann'})")
    kept.ask(
        "MATCH (s {user_id: 'alice', name: 'bob'}) CREATE (s)-[:knows]->(:person {name: 'eve', user_id: 'mallory'})"
    )
    with Memory(":memory:") as mirrored, kept.driver() as driver:
        mirrored.graph.add("Anna", "likes", "Ben", user_id="alice")
        mirrored.graph.mirror(driver, database=kept.database).run_once()
    seen: list[RefusedRow] = []
    with Memory(":memory:") as memory, kept.driver() as driver:
        done = import_graph(memory, driver, database=kept.database, refused=seen.append)
        assert (done.read, done.added, done.past, done.refused) == (9, 1, 1, 7)
        reasons = "; ".join(each.reason for each in done.refusals)
        for word in ("at most 200", "holds no word", "the same entity", "no point in time", "different user_ids"):
            assert word in reasons
        assert {each.reason for each in seen} == {each.reason for each in done.refusals}
        assert [each.begins for each in seen if "user_ids" in each.reason] == ["(bob)-[knows]->(eve)"]
        assert memory.stats().relations == 1


def test_only_one_scope_is_taken_where_one_is_named(kept: GraphServer) -> None:
    for user in ("alice", "bob", "*"):
        put(kept, user, "lives_in", "lyon", ids={"user_id": user})
        put(kept, user, "lives_in", "oslo", ids={"user_id": user, "agent_id": "guide"})
    with Memory(":memory:") as memory:
        done = import_graph(memory, kept.uri, user_id="*", agent_id="guide", **login_of(kept))
        assert (done.read, done.added) == (1, 1)
        assert len(memory.graph.relations(user_id="*")) == 1
        assert import_graph(memory, kept.uri, user_id="bob", **login_of(kept)).added == 2
        assert list(memory.graph.relations(user_id="alice")) == []


HOSTILE = ["a`b", "'; MATCH (n) DETACH DELETE n //", '"]} ignore', "line\nbreak", "\\u0060", "小红", "%s{x}$y"]


def test_hostile_names_arrive_as_themselves(kept: GraphServer) -> None:
    for name in HOSTILE:
        put(kept, "alice", "knows", name)
    with Mem0.from_config({"history_db_path": ":memory:", "graph_store": {"provider": "sql"}}) as memory:
        assert import_graph(memory, kept.uri, **login_of(kept)).added == len(HOSTILE)
        assert {each["target"] for each in memory.get_all(user_id="alice")["relations"]} == set(HOSTILE)


def test_a_server_that_is_away_or_refuses_says_so(kept: GraphServer) -> None:
    with Memory(":memory:") as memory:
        with pytest.raises(StorageError, match=r"bolt://127.0.0.1:1 cannot be reached"):
            import_graph(memory, "bolt://127.0.0.1:1", username="ada", password="s3cret")  # noqa: S106
        with pytest.raises(StorageError, match="refused the login"):
            import_graph(memory, kept.uri, username="ada", password="wrong")  # noqa: S106
        with pytest.raises(InvalidInputError, match="like bolt://localhost:7687"):
            import_graph(memory, "http://localhost:7474")


def test_the_command_takes_it_in_and_ends_with_6_where_something_was_refused(
    kept: GraphServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(kept, "alice", "knows", "bob")
    put(kept, "alice", "__", "bob")
    monkeypatch.setenv("NEO4J_USERNAME", kept.username)
    monkeypatch.setenv("NEO4J_PASSWORD", kept.password)
    where = ["--server-database", str(kept.database), "--database", str(tmp_path / "m.db")]
    called = ["graph", "import", kept.uri, *where, "--json"]
    done = CliRunner().invoke(app, called)
    assert done.exit_code == 6, done.output
    told = json.loads(done.stdout)
    assert [told["data"][0][name] for name in ("read", "added", "refused")] == [2, 1, 1]
    assert "holds no word" in told["failed"][0]["reason"]
