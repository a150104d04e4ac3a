"""A LangGraph thread that waits for an answer, and continues in another process."""

from tempfile import TemporaryDirectory

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from langmem_adapter.adapters.checkpointer import SQLAlchemySaver


def book(state: MessagesState) -> MessagesState:
    """Ask before booking."""
    return {"messages": [AIMessage(f"{state['messages'][-1].content} Booked: {interrupt('Book the hotel?')}.")]}


builder = StateGraph(MessagesState).add_node("book", book).add_edge(START, "book")
question = MessagesState(messages=[HumanMessage("A hotel in Lyon!")])
thread = RunnableConfig(configurable={"thread_id": "ada@example.com"})
with TemporaryDirectory() as folder, SQLAlchemySaver(f"{folder}/threads.db") as saver:  # or a Postgres URL, or a Memory
    print(builder.compile(checkpointer=saver).invoke(question, thread)["__interrupt__"][0].value)
    with SQLAlchemySaver(f"{folder}/threads.db") as another:  # as in another process
        state = builder.compile(checkpointer=another).invoke(Command(resume="yes"), thread)
        print(state["messages"][-1].content, f"{len(list(another.list(thread)))} checkpoints", sep="\n")
