"""Memory as two nodes of your LangGraph graph: recall before the answer, remember after it."""

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import MessagesState, StateGraph

from langmem_adapter import Memory
from langmem_adapter.adapters.nodes import recall_node, remember_node


class State(MessagesState, total=False):
    """The thread, and the memories about its latest message."""

    memories: str


with Memory(":memory:") as memory:
    graph = StateGraph(State)
    graph.add_node("recall", recall_node(memory))
    graph.add_node("answer", lambda state: {"messages": [AIMessage(f"I remember: {state['memories'] or 'nothing'}")]})
    graph.add_node("remember", remember_node(memory))
    graph.add_edge("recall", "answer").add_edge("answer", "remember")
    chat = graph.set_entry_point("recall").compile()
    for text in ("I love jazz.", "What music do I like?"):
        state = chat.invoke({"messages": [HumanMessage(text)]}, {"configurable": {"user_id": "alice"}})
        print(text, "->", state["messages"][-1].text)
