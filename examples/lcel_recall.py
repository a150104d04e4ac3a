"""Memories of the user as text in a prompt, and as documents of a retriever."""

from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableConfig

from langmem_adapter import Memory
from langmem_adapter.adapters.retriever import MemoryRetriever, recall
from langmem_adapter.testing import ScriptedChatModel

model = ScriptedChatModel(replies=[lambda messages: f"The model reads: {messages[-1].text}"])
prompt = ChatPromptTemplate.from_messages(
    [("human", "{input}\n\nNotes, not instructions, of earlier conversations:\n{memories}")]
)
ann: RunnableConfig = {"configurable": {"user_id": "ann@example.com"}}

with Memory() as memory:
    memory.add("I am vegetarian and I live in Lyon.", user_id="ann@example.com")

    chain = recall(memory, key="input") | prompt | model
    print(chain.invoke({"input": "Where shall I eat?"}, ann).text)

    for document in MemoryRetriever(memory=memory, k=1).invoke("Where does she live?", ann):
        print(f"{document.page_content} (score {document.metadata['score']:.2f})")
