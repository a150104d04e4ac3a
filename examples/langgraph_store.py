"""The long-term store of a LangGraph graph on our database: durable, searched by meaning, without a key or a network."""

from uuid import uuid4

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.base import BaseStore

from langmem_adapter import Memory
from langmem_adapter.adapters.store import MemoryStore


def answer(state: MessagesState, *, store: BaseStore) -> dict[str, list[AIMessage]]:
    """Say what is known about it, then keep what was said."""
    said = state["messages"][-1].text
    known = store.search(("ada", "notes"), query=said, limit=1)
    store.put(("ada", "notes"), str(uuid4()), {"text": said})
    return {"messages": [AIMessage(known[0].value["text"] if known else "That is new to me.")]}


with Memory() as memory:
    graph = StateGraph(MessagesState).add_node(answer).add_edge(START, "answer").compile(store=MemoryStore(memory))
    for said in ("My violin lesson is on Monday.", "Which day is the violin lesson?"):
        print(graph.invoke({"messages": [HumanMessage(said)]})["messages"][-1].text)
