"""An agent that searches and saves memories with tools; the user comes with the call, not from the model."""

from langchain.agents import create_agent
from langchain_core.messages import AIMessage

from langmem_adapter import Memory
from langmem_adapter.adapters.tools import create_memory_tools
from langmem_adapter.scoping import MemoryContext
from langmem_adapter.testing import ScriptedChatModel

save = {"name": "save_memory", "args": {"content": "The user's dog is called Rex."}, "id": "1"}
search = {"name": "search_memory", "args": {"query": "the user's dog"}, "id": "2"}
replies = [
    AIMessage("", tool_calls=[save]),
    "I will remember Rex.",
    AIMessage("", tool_calls=[search]),
    lambda messages: f"I found: {messages[-1].text.partition(': ')[2]}",
]

with Memory() as memory:
    tools = create_memory_tools(memory)
    agent = create_agent(ScriptedChatModel(replies=replies, modes="tools"), tools, context_schema=MemoryContext)
    for text in ("My dog is called Rex.", "What is my dog called?"):
        message = {"role": "user", "content": text}
        print(agent.invoke({"messages": [message]}, context=MemoryContext("ann@example.com"))["messages"][-1].text)
