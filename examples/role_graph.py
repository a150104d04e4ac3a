"""A role as a LangGraph graph: it runs only on new messages, and remembers them."""

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph import END, MessagesState, StateGraph

from langmem_adapter import Memory
from langmem_adapter.adapters.roles import RoleNodes


class State(MessagesState, total=False):
    """The messages, and which of them are new."""

    news: list[AnyMessage]


with Memory(":memory:") as memory:
    role = RoleNodes(memory, "engineer", user_id="alice")
    graph = StateGraph(State).add_node("look", role.find_news).add_node("keep", role.keep)
    graph.add_node("work", lambda state: {"messages": [AIMessage(f"done: {state['news'][-1].text}")]})
    graph.add_conditional_edges("look", role.has_news, {"news": "work", "nothing new": END}).add_edge("work", "keep")
    engineer = graph.set_entry_point("look").compile()
    for text in ("Write a snake game", "write a snake game!", "Write a 2048 web game"):
        messages = engineer.invoke({"messages": [HumanMessage(text)]})["messages"]
        print(text, "->", messages[-1].text if len(messages) > 1 else "nothing new")
