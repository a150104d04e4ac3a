"""A role's long-term memory as nodes of a LangGraph graph: news goes on, what is no news ends there.

As MetaGPT's roles observe, think and act: look for news before the work, keep the messages after it. A run that dies between
the two has kept nothing, so that its messages are news again when it is resumed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from langchain_core.messages import convert_to_messages

from langmem_adapter.adapters.threads import read_state, resolve_call
from langmem_adapter.arguments import bounded
from langmem_adapter.conversation.long_term import MONTH, LongTermMemory
from langmem_adapter.conversation.working import parse_causes
from langmem_adapter.records.checks import check_text
from langmem_adapter.scoping import MemoryContext
from langmem_adapter.tracing import PlanNode
from langmem_adapter.twins import Plan

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import timedelta

    from langchain_core.runnables import RunnableConfig

    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.pipeline.state import StateEdit

__all__ = ["RoleNodes"]


class RoleNodes:
    """The nodes `find_news` and `keep`, and between them the edge `has_news`.

    The scope comes with the call (context or `configurable`); see `resolve_scope`. A failure is raised: LangGraph's
    `retry_policy` and `error_handler` say what becomes of it.

    `find_news` puts into the state which of its messages are news to the role; nothing is kept yet. `keep` keeps all messages
    of the state, those of the work as well, each once.

    Args:
        memory: The memory.
        role_id: The role, as the `agent_id` of its messages and memories, where the call does not say; likewise *user_id* and
            *run_id*. For *watch*, *threshold* and *ttl* see `LongTermMemory`.
        limit: At most so much news, the first of it; `None` for all.
        messages_key: Where the state has the messages.
        news_key: Where to put those that are news.

    Example:
        >>> from langchain_core.messages import AIMessage
        >>> from langgraph.graph import END, MessagesState, StateGraph
        >>> from langmem_adapter import Memory
        >>> class State(MessagesState):
        ...     news: list
        >>> memory = Memory(":memory:")
        >>> role = RoleNodes(memory, "engineer", user_id="alice")
        >>> graph = StateGraph(State).add_node("look", role.find_news).add_node("keep", role.keep)
        >>> _ = graph.add_node("work", lambda state: {"messages": AIMessage(f"Done: {state['news'][-1].text}")})
        >>> _ = graph.add_conditional_edges("look", role.has_news, {"news": "work", "nothing new": END})
        >>> compiled = graph.set_entry_point("look").add_edge("work", "keep").compile()
        >>> compiled.invoke({"messages": "Write a snake game"})["messages"][-1].text
        'Done: Write a snake game'
        >>> compiled.invoke({"messages": "Write a snake game"})["messages"][-1].text
        'Write a snake game'
        >>> memory.close()
    """

    def __init__(  # noqa: PLR0913 - each is one option
        self,
        memory: Memory,
        role_id: str,
        *,
        user_id: str | None = None,
        run_id: str | None = None,
        watch: Iterable[object] | None = None,
        threshold: float = 0.95,
        ttl: timedelta | None = MONTH,
        limit: int | None = None,
        messages_key: str = "messages",
        news_key: str = "news",
    ) -> None:
        role: Any = partial(LongTermMemory, memory, watch=parse_causes(watch), threshold=threshold, ttl=ttl)
        role(role_id)  # refuses now what it would refuse later
        default = MemoryContext(user_id, role_id, run_id)
        most = None if limit is None else bounded(limit, "limit")
        check_text(messages_key, "messages_key")
        self._news_key = check_text(news_key, "news_key")

        def open_role(state: Any, config: RunnableConfig | None) -> tuple[LongTermMemory, Any]:
            scope = resolve_call(default, config).scope
            messages = convert_to_messages(read_state(state, messages_key, "messages_key"))
            return role(scope.agent_id, user_id=scope.user_id, run_id=scope.run_id), messages

        def find_news(state: Any, config: RunnableConfig | None) -> Plan[StateEdit]:
            log, messages = open_role(state, config)
            news = Plan.calling(log.find_news, log.afind_news, messages, limit=most)
            return news.then(lambda news: {news_key: [*news]})

        def keep(state: Any, config: RunnableConfig | None) -> Plan[StateEdit]:
            log, messages = open_role(state, config)
            return Plan.calling(log.add_batch, log.aadd_batch, messages).then(lambda _: {})

        self.find_news: Final = PlanNode(find_news)
        self.keep: Final = PlanNode(keep)

    def has_news(self, state: Any) -> Literal["news", "nothing new"]:
        """Where to go on from `find_news`, for `StateGraph.add_conditional_edges`."""
        return "news" if read_state(state, self._news_key, "news_key") else "nothing new"
