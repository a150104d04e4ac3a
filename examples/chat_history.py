"""The messages of a session in the database of the memories, for RunnableWithMessageHistory.

LangChain calls that class deprecated and warns once. New programs use create_agent with a checkpointer.
"""

from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables.history import RunnableWithMessageHistory

from langmem_adapter import Memory
from langmem_adapter.adapters.chat_history import SQLChatMessageHistory
from langmem_adapter.testing import ScriptedChatModel

model = ScriptedChatModel(replies=["Hello Ann!", lambda messages: f"You said: {messages[0].text}"])
prompt = ChatPromptTemplate.from_messages([("placeholder", "{history}"), ("human", "{input}")])

with Memory() as memory:
    chat = RunnableWithMessageHistory(
        prompt | model,
        lambda session_id: SQLChatMessageHistory(session_id, memory, user_id="ann@example.com"),
        input_messages_key="input",
        history_messages_key="history",
    )
    for text in ("I am Ann.", "What did I say?"):
        print(chat.invoke({"input": text}, {"configurable": {"session_id": "monday"}}).text)
