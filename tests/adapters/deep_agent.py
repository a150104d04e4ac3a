"""A deep agent with a memory, and its requests as the clients of Anthropic and Gemini put them; prints JSON.

`test_deepagents.py` runs it in `.venv-dev-server`, where these packages are.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from deepagents import create_deep_agent
from deepagents.backends.utils import create_file_data
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, SystemMessage
from langchain_google_genai import ChatGoogleGenerativeAI

from langmem_adapter.adapters.middleware import MemoryContext, MemoryMiddleware
from langmem_adapter.memory.memory import Memory
from langmem_adapter.testing import ScriptedChatModel

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

ANTHROPIC: Any = ChatAnthropic(model_name="claude-sonnet-5", api_key="none")
GEMINI: Any = ChatGoogleGenerativeAI(model="gemini-3-pro", api_key="none")


def listing(*calls: str) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": "ls", "args": {"path": "/"}, "id": call} for call in calls])


def put(call: list[BaseMessage]) -> dict[str, Any]:
    """A request: what the system message says, and the messages as each client sends them."""
    gemini = GEMINI._prepare_request(call)["contents"]
    return {
        "system": call[0].text if isinstance(call[0], SystemMessage) else "",
        "anthropic": ANTHROPIC._get_request_payload(call)["messages"],
        "gemini": [content.model_dump(mode="json", exclude_none=True, warnings=False) for content in gemini],
    }


def main() -> None:
    with Memory(":memory:") as memory:
        memory.add("I like tea.", user_id="alice")
        model = ScriptedChatModel(
            replies=[listing("1", "2"), listing("3"), "Tea.", listing("4"), "None."], modes="tools"
        )
        agent: Any = create_deep_agent(
            model, memory=["/AGENTS.md"], middleware=[MemoryMiddleware(memory)], context_schema=MemoryContext
        )
        state: dict[str, Any] = {"messages": [], "files": {"/AGENTS.md": create_file_data("Answer in one word.")}}
        for said in ("What tea do I like?", [{"type": "text", "text": "And what do I drink?"}]):
            asked = {**state, "messages": [*state["messages"], {"role": "user", "content": said}]}
            state = agent.invoke(asked, context=MemoryContext("alice"))
    thread = [str(message.content) for message in state["messages"]]
    told = {"nodes": sorted(agent.nodes), "thread": thread, "requests": [put(call) for call in model.calls]}
    print(json.dumps(told))  # noqa: T201 - what the test reads


main()
