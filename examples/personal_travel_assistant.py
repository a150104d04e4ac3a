"""A travel assistant that remembers its travellers, with any LangChain chat model.

Without a model (the default) it answers with its memories, and says so. With a model:

    LANGMEM_ADAPTER_MODEL=openai:gpt-5-mini python examples/personal_travel_assistant.py

Type a question, or something about yourself; q, exit or the end of the input ends it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from langchain.chat_models import init_chat_model
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langmem_adapter import Memory, Settings

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

ROLE = "You are a personal travel assistant. Answer briefly. Notes about the traveller follow the question."


class PersonalTravelAssistant:
    """Answers questions with the memories of a traveller, and adds what the traveller states.

    Args:
        memory: The memory.
        model: Any LangChain chat model; `None` answers with the memories.
    """

    def __init__(self, memory: Memory, model: BaseChatModel | None = None) -> None:
        self.memory = memory
        self.model = model
        self.messages: defaultdict[str, list[BaseMessage]] = defaultdict(list)  # by traveller

    def ask_question(self, question: str, user_id: str) -> str:
        """Answer, then add the question to the memory."""
        notes = self.search_memories(question, user_id=user_id)
        answer = self._from_memories(notes) if self.model is None else self._from_model(question, notes, user_id)
        self.memory.add(question, user_id=user_id)
        return answer

    def get_memories(self, user_id: str) -> list[str]:
        """All memories of a traveller."""
        return [item.text for item in self.memory.get_all(user_id=user_id)]

    def search_memories(self, query: str, user_id: str) -> list[str]:
        """The memories of a traveller that match *query*, best first."""
        return [hit.text for hit in self.memory.search(query, user_id=user_id, k=5)]

    def _from_model(self, question: str, notes: list[str], user_id: str) -> str:
        assert self.model is not None  # noqa: S101 - for the type checker
        conversation = self.messages[user_id]
        message = HumanMessage("\n".join([question, "", "Notes:", *(f"- {text}" for text in notes or ["nothing yet"])]))
        answer = self.model.invoke([SystemMessage(ROLE), *conversation, message]).text
        conversation.extend([HumanMessage(question), AIMessage(answer)])
        return answer

    def _from_memories(self, notes: list[str]) -> str:
        if not notes:
            return "(no model) I remember nothing about that."
        return f"(no model) What I remember about that: {'; '.join(notes)}."


def main() -> None:
    """Talk until q, exit or the end of the input."""
    name = Settings().model
    with Memory() as memory:
        assistant = PersonalTravelAssistant(memory, None if name == "offline" else init_chat_model(name))
        print(f"mode: {memory.mode}, data: {memory.location}")
        while (question := _ask()) is not None:
            print(f"Answer: {assistant.ask_question(question, user_id='traveler_123')}")
            print("Memories:", *assistant.get_memories(user_id="traveler_123"), sep="\n- ")
            print("-----")
    print("Exiting...")


def _ask() -> str | None:
    try:
        question = input("Question: ").strip()
    except EOFError:
        return None
    return None if question.lower() in {"q", "exit"} else question or _ask()


if __name__ == "__main__":
    main()
