"""A chain of langchain-classic that remembers its users: facts, and the latest messages word for word.

LangChain calls these chains deprecated and warns once. New programs use create_agent and MemoryMiddleware.
"""

from langchain_classic.chains import ConversationChain

from langmem_adapter import Memory
from langmem_adapter.adapters.classic import ConversationMemory
from langmem_adapter.testing import ScriptedChatModel

model = ScriptedChatModel(replies=["Welcome, Ann!", "Welcome, Bob!", lambda messages: messages[-1].text])

with Memory() as memory:
    chain = ConversationChain(llm=model, memory=ConversationMemory(memory=memory))
    chain.invoke("I am vegetarian.", {"configurable": {"user_id": "ann@example.com"}})
    chain.invoke("I love steak.", {"configurable": {"user_id": "bob@example.com"}})
    answer = chain.invoke("What shall I cook?", {"configurable": {"user_id": "ann@example.com"}})
    print("The model reads:", answer["response"].partition("Current conversation:")[2], sep="\n")
