"""Keep a LangGraph thread: stop for a question, go on in another process. Run: python examples/checkpointer.py."""

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from langmem_adapter.adapters.checkpointer import SQLAlchemySaver


def book(state: MessagesState) -> MessagesState:
    """Ask before booking."""
    return {"messages": [AIMessage(f"{state['messages'][-1].content} Booked: {interrupt('Book the hotel?')}.")]}


builder, thread = StateGraph(MessagesState), RunnableConfig(configurable={"thread_id": "ada@example.com"})
builder.add_node("book", book).add_edge(START, "book")
with SQLAlchemySaver("threads.db") as saver:  # or a postgresql+psycopg:// URL, or the Memory whose database it shares
    state = builder.compile(checkpointer=saver).invoke({"messages": [HumanMessage("A hotel in Lyon!")]}, thread)
    print(state["__interrupt__"][0].value)
with SQLAlchemySaver("threads.db") as saver:  # as another process would
    graph = builder.compile(checkpointer=saver)
    print(graph.invoke(Command(resume="yes"), thread)["messages"][-1].content)
    print(len(list(graph.get_state_history(thread))), "checkpoints")
