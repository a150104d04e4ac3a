"""An agent that remembers from one conversation to the next: `MemoryMiddleware` in LangChain's `create_agent`.

A scripted model replaces a chat model, so that the program runs offline. Put "openai:gpt-5-mini" or another model in its place.
"""

from langchain.agents import create_agent
from langchain_core.messages import HumanMessage

from langmem_adapter import Memory, MemoryContext, MemoryMiddleware
from langmem_adapter.testing import ScriptedChatModel

with Memory(":memory:") as memory:
    model = ScriptedChatModel(replies=["Noted.", lambda messages: f"I read:\n{messages[-1].text}"])
    agent = create_agent(model, middleware=[MemoryMiddleware(memory)], context_schema=MemoryContext)
    for text in ("I am vegetarian and I live in Lyon.", "What shall I cook tonight?"):
        answer = agent.invoke({"messages": [HumanMessage(text)]}, context=MemoryContext(user_id="alice@example.com"))
        print(f"{text}\n  {answer['messages'][-1].text}\n")
