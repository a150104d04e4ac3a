"""A LangGraph store in the database of the memories: durable, searched by meaning, without a key or a network."""

from uuid import uuid4

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.base import BaseStore

from langmem_adapter import Memory
from langmem_adapter.adapters.store import MemoryStore


def answer(state: MessagesState, *, store: BaseStore) -> dict[str, list[AIMessage]]:
    """Answer with the nearest note, then store the message."""
    text = state["messages"][-1].text
    notes = store.search(("ada", "notes"), query=text, limit=1)
    store.put(("ada", "notes"), str(uuid4()), {"text": text})
    return {"messages": [AIMessage(notes[0].value["text"] if notes else "That is new to me.")]}


with Memory() as memory:
    graph = StateGraph(MessagesState).add_node(answer).add_edge(START, "answer").compile(store=MemoryStore(memory))
    for text in ("My violin lesson is on Monday.", "Which day is the violin lesson?"):
        print(graph.invoke({"messages": [HumanMessage(text)]})["messages"][-1].text)
