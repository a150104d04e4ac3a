"""The memory pipeline as a node of a larger graph, streamed stage by stage."""

from typing import Any

from langgraph.graph import StateGraph
from typing_extensions import TypedDict

from langmem_adapter import Memory


class State(TypedDict, total=False):
    """What the graph shares with the pipeline in it: the input and the result."""

    messages: str
    scope: dict[str, str]
    result: dict[str, Any]


with Memory(":memory:") as memory:
    graph: Any = StateGraph(State).add_node("memory", memory.build_pipeline()).set_entry_point("memory").compile()
    inputs: State = {"messages": "I live in Lyon. I have a cat named Tom.", "scope": {"user_id": "alice"}}
    for where, step in graph.stream(inputs, stream_mode="updates", subgraphs=True):
        for stage, update in step.items():
            print("  " * len(where) + stage, "->", ", ".join(update))
    print([f"{change['event']} {change['text']}" for change in update["result"]["results"]])
