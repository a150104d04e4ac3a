"""A thread that stays short: a node replaces older messages by a summary, here by rules, else by the chat model."""

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState, StateGraph

from langmem_adapter import Memory
from langmem_adapter.adapters.summarizing import summarize_node

with Memory(":memory:") as memory:
    graph = StateGraph(MessagesState).add_node("shorten", summarize_node(memory, max_tokens=200))
    graph.add_node("answer", lambda _: {"messages": [AIMessage("Noted.")]})
    chat = graph.set_entry_point("shorten").add_edge("shorten", "answer").compile(checkpointer=InMemorySaver())
    for number in range(1, 101):
        message = HumanMessage(f"Today I walked {number} miles along the Loire.")
        state = chat.invoke({"messages": [message]}, {"configurable": {"thread_id": "walk"}})
    print(state["messages"][0].text)
    print("messages left of 200:", len(state["messages"]))
