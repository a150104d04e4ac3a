"""A graph called the sync or the async way, so that one test tells about both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.types import StateSnapshot

Way = Literal["sync", "async"]


def thread(thread_id: str, **configurable: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, **configurable}}


class Calls:
    """The methods of a compiled graph that need its checkpointer."""

    def __init__(self, graph: CompiledStateGraph[Any, Any, Any, Any], way: Way) -> None:
        self.graph = graph
        self.sync = way == "sync"

    async def invoke(self, given: Any, config: RunnableConfig, **options: Any) -> dict[str, Any]:
        state: dict[str, Any]
        if self.sync:
            state = self.graph.invoke(given, config, **options)
        else:
            state = await self.graph.ainvoke(given, config, **options)
        return state

    async def state(self, config: RunnableConfig, **options: Any) -> StateSnapshot:
        return self.graph.get_state(config, **options) if self.sync else await self.graph.aget_state(config, **options)

    async def history(self, config: RunnableConfig, **options: Any) -> list[StateSnapshot]:
        if self.sync:
            return list(self.graph.get_state_history(config, **options))
        return [state async for state in self.graph.aget_state_history(config, **options)]

    async def update(self, config: RunnableConfig, values: Any, **options: Any) -> RunnableConfig:
        if self.sync:
            return self.graph.update_state(config, values, **options)
        return await self.graph.aupdate_state(config, values, **options)
