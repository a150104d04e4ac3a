"""What a stage of the pipeline is: a plan, and perhaps somebody to ask.

A stage looks at the state and either knows its update, or names a Runnable to ask and what to make of the answers. How one
waits for the answers, on a thread or on an event loop, is decided here, once for all stages. A stage leaves no run of its own
in a trace: the node does, and whoever was asked stands right below it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from langchain_core.runnables import Runnable

from langmem_adapter.twins import beside

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.types import Command

    from langmem_adapter.pipeline.state import PipelineState

__all__ = ["Ask", "AskingStage", "Step", "Update", "WorkingStage"]

Update: TypeAlias = dict[str, Any]
Step: TypeAlias = "Update | Command[Any]"
"""An update, and perhaps where to go with it."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Questions, whom to ask, and what to make of the answers.

    Attributes:
        whom: Answers each question.
        questions: Any number of them; they are asked side by side.
        then: Answers, in order, to the stage's update, or to what is to be asked next.
    """

    whom: Runnable[Any, Any]
    questions: Sequence[Any]
    then: Callable[[list[Any]], Step | Ask]


class AskingStage(Runnable["PipelineState", Step]):
    """A node that thinks, and may ask somebody.

    Args:
        plan: From the state to its update, or to an `Ask`. It and what is made of the answers run in a worker thread where
            there is an event loop: both take as long as the conversation is.
        look: What has to be looked up first; the plan then gets what it found as well.
    """

    def __init__(self, plan: Callable[..., Step | Ask], *, look: Callable[[PipelineState], Any] | None = None) -> None:
        self._plan = plan
        self._look = look

    def invoke(self, input: PipelineState, config: RunnableConfig | None = None, **_: Any) -> Step:  # noqa: A002 - LangChain's name
        """The stage's update."""
        planned = self._planned(input)
        while isinstance(planned, Ask):
            planned = planned.then(planned.whom.batch(list(planned.questions), config))
        return planned

    async def ainvoke(self, input: PipelineState, config: RunnableConfig | None = None, **_: Any) -> Step:  # noqa: A002 - LangChain's name
        """The same without blocking the event loop."""
        planned = await beside(self._planned, input)
        while isinstance(planned, Ask):
            planned = await beside(planned.then, await planned.whom.abatch(list(planned.questions), config))
        return planned

    def _planned(self, state: PipelineState) -> Step | Ask:
        return self._plan(state) if self._look is None else self._plan(state, self._look(state))


class WorkingStage(Runnable["PipelineState", Step]):
    """A node that embeds, searches or writes.

    Args:
        run: From the state to its update, blocking.
        arun: The same without blocking the event loop.
    """

    def __init__(self, run: Callable[[PipelineState], Step], arun: Callable[[PipelineState], Awaitable[Step]]) -> None:
        self._run = run
        self._arun = arun

    def invoke(self, input: PipelineState, config: RunnableConfig | None = None, **_: Any) -> Step:  # noqa: A002, ARG002 - LangChain's names
        """The stage's update."""
        return self._run(input)

    async def ainvoke(self, input: PipelineState, config: RunnableConfig | None = None, **_: Any) -> Step:  # noqa: A002, ARG002 - LangChain's names
        """The same without blocking the event loop."""
        return await self._arun(input)
