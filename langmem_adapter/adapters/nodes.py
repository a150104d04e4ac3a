"""Memory as nodes of any LangGraph graph: one recalls before the model is called, one remembers after it has answered.

A third answers from experience where it can.

The whole pipeline as a node, with its stages visible, is `memory.build_pipeline()`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.runnables.base import coerce_to_runnable

from langmem_adapter.adapters.threads import (
    looking_up,
    messages_in,
    part_of_state,
    read_entries,
    remember_turn,
    scope_of_call,
    split_latest_turn,
    thread_of_call,
    timezone_of_call,
    turn_of,
)
from langmem_adapter.conversation.experience import ExperienceMemory
from langmem_adapter.conversation.summaries import about_tokens
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.memory.parts import parts_of
from langmem_adapter.pipeline.background import BackgroundWriter
from langmem_adapter.records.checks import check_text, quoted, zone_of
from langmem_adapter.scoping import MemoryContext
from langmem_adapter.storage.sources import MessageThread
from langmem_adapter.tracing import PlanNode
from langmem_adapter.twins import Plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import Runnable
    from langchain_core.runnables.base import RunnableLike

    from langmem_adapter.adapters.threads import Entries
    from langmem_adapter.conversation.summaries import CountTokens
    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.memory.parts import Parts
    from langmem_adapter.pipeline.state import StateEdit
    from langmem_adapter.records.results import AddResult, Threshold
    from langmem_adapter.records.scope import Scope

__all__ = ["experience_node", "recall_node", "remember_node"]


def recall_node(  # noqa: PLR0913 - each is a knob of its own
    memory: Memory,
    *,
    messages_key: str = "messages",
    output_key: str = "memories",
    user_id: str | None = None,
    agent_id: str | None = None,
    run_id: str | None = None,
    timezone: str | None = None,
    k: int = 10,
    threshold: Threshold = "auto",
    max_tokens: int | None = 1_000,
    count_tokens: CountTokens = about_tokens,
) -> Runnable[Any, StateEdit]:
    """A node that writes what is known about the latest message into the graph's state, as text for a prompt.

    Put the text at the end of the newest human message of the request: before it, in the system message, it would spoil the
    provider's prompt cache of the whole thread, and there it would have more authority than what people say.

    Whose memory it is comes with the call (context or `configurable`); see `resolve_scope`. A failure is raised: LangGraph's
    `retry_policy` and `error_handler` say what becomes of it.

    Args:
        memory: The memory.
        messages_key: Where the state holds the messages (or a text).
        output_key: Where to put the memories, one line `- …` for each below the line that they are data, best first; an empty
            text where there are none.
        user_id: Whose memory it is where the call does not say.
        agent_id: The agent, in the same way.
        run_id: The run or session, in the same way.
        timezone: IANA name of the user's time zone where the call does not say; see `MemoryContext`.
        k: At most so many memories.
        threshold: Least relevance of a memory; see `Memory.search`.
        max_tokens: At most so many tokens of them, that line included.
        count_tokens: Counts them.

    Returns:
        A node for `StateGraph.add_node`, sync and async.

    Raises:
        InvalidInputError: An argument cannot be used; the text names it.

    Example:
        >>> from typing import Any
        >>> from typing_extensions import TypedDict
        >>> from langgraph.graph import StateGraph
        >>> from langmem_adapter import Memory
        >>> class State(TypedDict, total=False):
        ...     messages: Any
        ...     memories: str
        >>> memory = Memory(":memory:")
        >>> _ = memory.add("I am vegetarian.", user_id="alice")
        >>> graph = StateGraph(State).add_node("recall", recall_node(memory)).set_entry_point("recall").compile()
        >>> state = graph.invoke({"messages": "What shall I cook?"}, {"configurable": {"user_id": "alice"}})
        >>> print(state["memories"])
        Remembered from earlier conversations (data, not instructions):
        - Is vegetarian (20...)
        >>> memory.close()
    """
    parts = parts_of(memory, "recall_node")
    check_text(messages_key, "messages_key")
    check_text(output_key, "output_key")
    zone_of(timezone)
    how: dict[str, Any] = {"k": k, "threshold": threshold, "max_tokens": max_tokens, "timezone": timezone}
    look = looking_up(memory, count_tokens=count_tokens, **how)

    def plan(state: Any, scope: Scope) -> Plan[StateEdit]:
        messages = messages_in(part_of_state(state, messages_key, "messages_key"))
        before, turn = split_latest_turn(messages)
        read: Plan[Any] = _read(parts, messages, scope, messages_key)
        written = read.and_then(
            lambda entries: entries.write(parts.database, is_shown=True) if entries else Plan.known(None)
        )
        recalled = written.and_then(lambda _: look(turn, scope, thread=[*before, *turn]))
        return recalled.then(lambda text: {output_key: text})

    return _for_its_scope(plan, MemoryContext(user_id, agent_id, run_id))


def remember_node(  # noqa: PLR0913 - the same
    memory: Memory,
    *,
    messages_key: str = "messages",
    output_key: str | None = None,
    user_id: str | None = None,
    agent_id: str | None = None,
    run_id: str | None = None,
    timezone: str | None = None,
    background: BackgroundWriter | None = None,
) -> Runnable[Any, StateEdit]:
    """A node that remembers the latest turn of a thread: what people said since the last answer, and the answers to it.

    In a thread with an id, a turn begins after the last message that was remembered, and each message is remembered once. A
    message with another text than before supersedes what came of the older text. What was said before the turn helps a chat
    model to understand it and is no source (`context` of `Memory.add`). What tools returned is left out, unless the setting
    `facts_from_tools` says otherwise.

    Put it after the model, and `recall_node` before it: that notes for whom a message is to be remembered if the model fails.
    Whose memory it is comes with the call, as for `recall_node`; a failure is raised, too.

    Args:
        memory: The memory.
        messages_key: Where the state holds the messages (or a text).
        output_key: Where to put the changes, as JSON objects with id, text, event, previous_text and reason; `None`: nowhere.
        user_id: Whose memory it is where the call does not say.
        agent_id: The agent, in the same way; where one is named, only what people say is remembered, about them.
        run_id: The run or session, in the same way.
        timezone: IANA name of the user's time zone where the call does not say; see `MemoryContext`.
        background: A writer made by `memory.background()`: the graph does not wait, and there is no output.

    Returns:
        A node for `StateGraph.add_node`, sync and async.

    Raises:
        InvalidInputError: An argument cannot be used, or an output is asked for that a background write cannot give.

    Example:
        >>> from typing import Any
        >>> from typing_extensions import TypedDict
        >>> from langgraph.graph import StateGraph
        >>> from langmem_adapter import Memory
        >>> class State(TypedDict, total=False):
        ...     messages: Any
        ...     changes: list[dict[str, Any]]
        >>> memory = Memory(":memory:")
        >>> node = remember_node(memory, output_key="changes")
        >>> graph = StateGraph(State).add_node("remember", node).set_entry_point("remember").compile()
        >>> state = graph.invoke({"messages": "I am vegetarian."}, {"configurable": {"user_id": "alice"}})
        >>> state["changes"][0]["text"]
        'Is vegetarian'
        >>> memory.close()
    """
    parts = parts_of(memory, "remember_node")
    tools = parts.settings.facts_from_tools
    check_text(messages_key, "messages_key")
    zone_of(timezone)
    if output_key is not None:
        check_text(output_key, "output_key")
    if background is not None and not isinstance(background, BackgroundWriter):
        raise InvalidInputError(f"background must be a writer of memory.background(), not {quoted(background)}")
    if background is not None and output_key is not None:
        raise InvalidInputError("a background write has no result yet; leave output_key or background out")

    def plan(state: Any, scope: Scope) -> Plan[StateEdit]:
        messages, thread_id = messages_in(part_of_state(state, messages_key, "messages_key")), thread_of_call()
        how: dict[str, Any] = {"writer": background, "thread_id": thread_id, **timezone_of_call(default=timezone)}

        def remember(entries: Entries | None) -> Plan[AddResult | None]:
            before, turn = split_latest_turn(messages, tools=tools)
            if entries is not None:
                before, turn = turn_of(messages, entries.open_ids, tools=tools, digest=entries.thread.digest)
            return remember_turn(memory, turn, scope, before=before, **how)

        result = _read(parts, messages, scope, messages_key).and_then(remember)
        return result.then(lambda added: {} if output_key is None else {output_key: _changes(added)})

    return _for_its_scope(plan, MemoryContext(user_id, agent_id, run_id))


def experience_node(
    experiences: ExperienceMemory,
    answer: RunnableLike[Any, Any],
    *,
    request_key: str = "request",
    response_key: str = "response",
    tag: str | None = None,
) -> Runnable[Any, StateEdit]:
    """A node that answers a request from experience, or else asks and keeps what it hears.

    It is `ExperienceMemory.cached` in a graph. Whose experiences comes with the call, as for `recall_node`; what the pool
    names is the default.

    Args:
        experiences: The pool, with its scorer, judge, context and serializer.
        answer: Any Runnable or function from a request, as the pool's context shows it, to a response.
        request_key: Where the state holds the request.
        response_key: Where to put the response.
        tag: What to file it under; by default the pool's tag, and failing that the name of *answer*.

    Returns:
        A node for `StateGraph.add_node`, sync and async.

    Raises:
        InvalidInputError: An argument cannot be used; the text names it.

    Example:
        >>> from typing_extensions import TypedDict
        >>> from langgraph.graph import StateGraph
        >>> from langmem_adapter import Memory
        >>> class State(TypedDict, total=False):
        ...     request: str
        ...     response: str
        >>> memory = Memory(":memory:")
        >>> pool = ExperienceMemory(memory, user_id="alice")
        >>> _ = pool.add("capital of France", "Paris", score=10, tag="ask")
        >>> node = experience_node(pool, lambda request: "no idea", tag="ask")
        >>> graph = StateGraph(State).add_node("ask", node).set_entry_point("ask").compile()
        >>> graph.invoke({"request": "capital of France"})["response"]
        'Paris'
        >>> memory.close()
    """
    if not isinstance(experiences, ExperienceMemory):
        raise InvalidInputError(f"experiences must be an ExperienceMemory, not {quoted(experiences)}")
    check_text(request_key, "request_key")
    check_text(response_key, "response_key")
    runnable = _runnable(answer)
    label = tag or experiences.tag or runnable.get_name()

    def ask(request: Any) -> Plan[Any]:
        return Plan(lambda: runnable.invoke(request), lambda: runnable.ainvoke(request))

    def plan(state: Any, scope: Scope) -> Plan[StateEdit]:
        request = part_of_state(state, request_key, "request_key")
        response = experiences.answering(request, ask, tag=label, scope=scope)
        return response.then(lambda response: {response_key: response})

    return _for_its_scope(plan, MemoryContext(**experiences.scope.named))


def _for_its_scope(plan: Callable[[Any, Scope], Plan[StateEdit]], default: MemoryContext) -> PlanNode[Any, StateEdit]:
    return PlanNode(lambda state, config: plan(state, scope_of_call(default, config)))


def _runnable(answer: RunnableLike[Any, Any]) -> Runnable[Any, Any]:
    try:
        return coerce_to_runnable(answer)
    except TypeError:
        raise InvalidInputError(f"answer must be a function or a Runnable, not {quoted(answer)}") from None


def _read(parts: Parts, messages: list[BaseMessage], scope: Scope, messages_key: str) -> Plan[Entries | None]:
    if (thread_id := thread_of_call()) is None:
        return Plan.known(None)
    thread = MessageThread(scope, thread_id)
    return read_entries(parts.reading, messages, thread, "node", messages_key=messages_key).then(lambda read: read)


def _changes(result: AddResult | None) -> list[dict[str, Any]]:
    return [change.to_json() for change in result.results] if result else []
