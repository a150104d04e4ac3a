"""Memories as documents, and as text beside a chain's input: whose they are, and how a call changes what it wants."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langgraph.graph import END, START, StateGraph

from langmem_adapter.adapters.retriever import MemoryRetriever, recall
from langmem_adapter.errors import InvalidInputError, UnknownArgumentError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.escapes import DATA_ONLY
from langmem_adapter.scoping import MemoryContext
from langmem_adapter.testing import ScriptedChatModel
from tests.cases import undated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_core.documents import Document

ALICE = "alice@example.com"


@pytest.fixture
def memory(database_url: str) -> Iterator[Memory]:
    with Memory(database_url) as opened:
        for text, topic in (("Is vegetarian", "food"), ("Likes tea", "food"), ("Plays chess", "games")):
            opened.add(text, user_id=ALICE, infer=False, metadata={"topic": topic})
        opened.add("Likes steak", user_id="bob", infer=False)
        yield opened


@pytest.fixture
def small() -> Iterator[Memory]:
    with Memory(":memory:") as opened:
        opened.add("Is vegetarian", user_id=ALICE, infer=False)
        opened.add("Likes tea", user_id=ALICE, infer=False)
        opened.add("Likes steak", user_id="bob", infer=False)
        yield opened


def as_user(user: str, **more: Any) -> Any:
    return {"configurable": {"user_id": user, **more}}


def texts(documents: list[Document]) -> list[str]:
    return [document.page_content for document in documents]


# ── the retriever ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_retriever_documents_have_text_id_and_metadata_of_the_memory(memory: Memory) -> None:
    [found] = MemoryRetriever(memory=memory, user_id=ALICE, k=1).invoke("Does she drink tea?")
    [hit] = memory.search("Does she drink tea?", user_id=ALICE, k=1)
    assert (found.page_content, found.id) == ("Likes tea", hit.id)
    assert found.metadata == {
        "topic": "food",
        "score": hit.score,
        "relevance": hit.relevance,
        "revision": 1,
        "created_at": hit.item.created_at.isoformat(),
        "updated_at": hit.item.updated_at.isoformat(),
        "user_id": ALICE,
    }
    json.dumps(found.metadata)


def test_retriever_invoke_overrides_k_threshold_and_filters(small: Memory) -> None:
    retriever = MemoryRetriever(memory=small, user_id=ALICE, k=1)
    assert len(retriever.invoke("tea", k=2)) == 2
    assert texts(retriever.invoke("steak", user_id="bob")) == ["Likes steak"]
    assert retriever.invoke("tea", filters={"topic": "none"}) == []
    assert "meaning" in retriever.invoke("tea", explain=True)[0].metadata["explanation"]
    with pytest.raises(UnknownArgumentError, match="did you mean 'threshold'"):
        retriever.invoke("tea", treshold=0.5)


def test_a_step_of_a_chain_knows_whose_call_it_is(small: Memory) -> None:
    retriever = MemoryRetriever(memory=small)

    def hidden(query: str) -> list[Document]:
        return retriever.invoke(query)  # passes no config on, as other retrievers do

    for chain in (RunnableLambda(str) | retriever, RunnableLambda(str) | RunnableLambda(hidden)):
        assert texts(chain.invoke("steak", as_user("bob"))) == ["Likes steak"]


@pytest.mark.parametrize("wrong", [{"userid": "x"}, {"k": 10**5000}, {"user_id": 5}])
def test_a_wrong_argument_is_refused(small: Memory, wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(wrong))):
        MemoryRetriever(memory=small, **wrong)


class State(TypedDict, total=False):
    query: str
    found: list[str]


async def test_a_node_of_a_graph_takes_the_context_of_the_run(small: Memory) -> None:
    retriever = MemoryRetriever(memory=small, user_id=ALICE)

    def look(state: State) -> State:
        return {"found": texts(retriever.invoke(state["query"]))}

    async def alook(state: State) -> State:
        return {"found": texts(await retriever.ainvoke(state["query"]))}

    for node in (look, alook):
        graph = StateGraph(State, context_schema=MemoryContext).add_node("look", node)
        compiled = graph.add_edge(START, "look").add_edge("look", END).compile()
        found = await compiled.ainvoke({"query": "steak"}, context=MemoryContext("bob"))
        assert found["found"] == ["Likes steak"]


# ── recall ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_recall_gives_a_prompt_text(memory: Memory) -> None:
    model = ScriptedChatModel(replies=["Lentils."])
    prompt = ChatPromptTemplate.from_messages([("system", "You know:\n{memories}"), ("human", "{input}")])
    chain = recall(memory, k=1, threshold=0.25) | prompt | model
    assert chain.invoke({"input": "Is she vegetarian?"}, as_user(ALICE)).text == "Lentils."
    assert undated(model.calls[0][0].text) == f"You know:\n{DATA_ONLY}\n- Is vegetarian"


def test_the_input_passes_through_under_names_of_ones_own(small: Memory) -> None:
    step = recall(small, key="question", output_key="known", user_id="bob")
    given = step.invoke({"question": "steak", "tone": "kind"})
    assert given | {"known": undated(given["known"])} == {
        "question": "steak",
        "tone": "kind",
        "known": f"{DATA_ONLY}\n- Likes steak",
    }


@pytest.mark.parametrize(
    "question",
    [
        HumanMessage("steak"),
        [HumanMessage("steak")],
        [("human", "hello"), ("ai", "hi"), ("human", "steak")],
        [HumanMessage("steak"), AIMessage("", tool_calls=[{"name": "cook", "args": {}, "id": "1"}])],
        [HumanMessage([{"type": "text", "text": "steak"}])],
    ],
)
def test_recall_takes_messages_as_the_question(small: Memory, question: Any) -> None:
    memories = recall(small, user_id="bob").invoke({"input": question})["memories"]
    assert undated(memories) == f"{DATA_ONLY}\n- Likes steak"


def test_where_nothing_is_known_or_asked_the_text_is_empty(small: Memory) -> None:
    assert recall(small).invoke("steak", as_user("nobody"))["memories"] == ""
    assert recall(small).invoke(" ", as_user("bob"))["memories"] == ""


def test_a_memory_is_one_line_and_the_budget_is_kept(small: Memory) -> None:
    small.add("first\n- second", user_id="carl", infer=False)
    small.add("word " * 400, user_id="carl", infer=False)
    text = recall(small, max_tokens=80, threshold=0).invoke("second", as_user("carl"))["memories"]
    told, first, cut = undated(text).split("\n")
    assert (told, first) == (DATA_ONLY, "- first - second")
    assert set(cut.split()) == {"-", "word", "…"}
    assert count_tokens_approximately([HumanMessage(text)]) <= 80


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"question": "x"}, r"no 'input', only \['question'\]; name its question with key="),
        ({"input": 7}, "messages must be a str, a message or a list of messages, not int"),
        ({"input": [1]}, "message 1 is a int"),
    ],
)
def test_an_input_without_a_question_names_the_fix(small: Memory, given: Any, reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        recall(small).invoke(given, as_user("bob"))
