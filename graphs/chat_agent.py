"""An agent that remembers whom it talks to, as a deployable graph.

Give it messages, and say who speaks: `context={"user_id": "alice"}`; on a server with authentication that is known. Database,
model and embeddings come from the settings. Without a model it answers from its memories alone, and says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from langmem_adapter.adapters.middleware import INTRODUCTION, MemoryContext, MemoryMiddleware
from langmem_adapter.adapters.serving import shared_memory
from langmem_adapter.reasoning.llm import named_model

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph

    from langmem_adapter.memory.memory import Memory

__all__ = ["NoModel", "graph", "make_graph"]

_PROMPT: Final = "You are a helpful assistant who remembers the people you talk to. Answer briefly."
_NOTE: Final = "- "


class NoModel(BaseChatModel):
    """Stands in where no model is set: it shows what is remembered that bears on the question, and claims nothing more."""

    @property
    def _llm_type(self) -> str:
        return "none"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        asked = next((message.text for message in reversed(messages) if isinstance(message, HumanMessage)), "")
        recalled = asked.partition(INTRODUCTION)[2]
        notes = [line.removeprefix(_NOTE) for line in recalled.splitlines() if line.startswith(_NOTE)]
        said = f"What I remember about that: {'; '.join(notes)}" if notes else "I remember nothing about that."
        return ChatResult(generations=[ChatGeneration(message=AIMessage(f"(no model) {said}"))])


def make_graph(memory: Memory) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The agent, answered by the memory's model; checkpointer and store come from whoever runs it."""
    offline = memory.mode == "offline"
    model = NoModel() if offline else named_model(memory.settings.model, memory.settings)
    return create_agent(
        model,
        system_prompt=_PROMPT,
        middleware=[MemoryMiddleware(memory, tools=not offline)],
        context_schema=MemoryContext,
        name="chat_agent",
    )


graph = make_graph(shared_memory())
