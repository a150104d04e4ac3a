"""What traces see of the memory: an add or a search is one run with a name, its stages stand below it.

They are LangChain runs, so that LangSmith, `astream_events` and every other callback handler show them, and a run that began
inside an agent or a chain hangs there. Where nobody listens, nothing is made: a search pays about ten microseconds for asking.
What a run shows is chosen here; vectors are never in it. Texts are, for a trace without them shows little; LangSmith's own
`LANGSMITH_HIDE_INPUTS=true` and `LANGSMITH_HIDE_OUTPUTS=true` keep them out, of the prompts that memories end up in as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from langchain_core.callbacks import CallbackManager
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.runnables.config import RunnableConfig, var_child_runnable_config

from langmem_adapter.twins import Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from langmem_adapter.records.results import Hit
    from langmem_adapter.records.scope import Scope

__all__ = ["OneRun", "PlanNode", "is_heard", "run_config", "shown", "stage", "traced"]

Q = TypeVar("Q")
R = TypeVar("R")


def run_config(name: str, scope: Scope, mode: str) -> RunnableConfig:
    """How a run is called, and what traces may be searched by: the tag `langmem_adapter`, the scope's fields, `memory_mode`."""
    # nostream: a graph that streams tokens shows those of its own model, not those of a model that works on the memory.
    return {
        "run_name": name,
        "tags": ["langmem_adapter", "nostream"],
        "metadata": {**scope.named, "memory_mode": mode},
    }


def traced(
    plan: Plan[R], config: RunnableConfig, *, inputs: Mapping[str, Any], shown: Callable[[R], Mapping[str, Any]]
) -> Plan[R]:
    """A plan as one run, if anybody listens: with these *inputs*, and what is *shown* of its result."""
    around = var_child_runnable_config.get()
    listening = CallbackManager.configure(around.get("callbacks") if around else None).handlers
    return _recorded(plan, config, inputs, shown) if listening else plan


def stage(plan: Plan[R], name: str, *, inputs: Mapping[str, Any], shown: Callable[[R], Mapping[str, Any]]) -> Plan[R]:
    """A plan as a run below the present one, like `traced`; as it is where there is none that anybody listens to."""
    return _recorded(plan, {"run_name": name}, inputs, shown) if is_heard() else plan


def is_heard() -> bool:
    """Whether anybody listens to the present run."""
    around = var_child_runnable_config.get()
    callbacks: Any = around.get("callbacks") if around else None
    return bool(getattr(callbacks, "handlers", callbacks))


class PlanNode(Runnable[Q, R], Generic[Q, R]):
    """A plan as a Runnable that leaves no run of its own in a trace: the plan's calls appear right below its caller."""

    def __init__(self, plan: Callable[[Q, RunnableConfig | None], Plan[R]]) -> None:
        self._plan = plan

    def invoke(self, input: Q, config: RunnableConfig | None = None, **_: Any) -> R:  # noqa: A002 - LangChain's name
        """The plan's result."""
        return self._plan(input, config).run()

    async def ainvoke(self, input: Q, config: RunnableConfig | None = None, **_: Any) -> R:  # noqa: A002 - LangChain's name
        """The same without blocking the event loop."""
        return await self._plan(input, config).arun()


class OneRun(PlanNode[Q, R]):
    """A plan as a Runnable that is one run in a trace; what the plan calls stands right below it.

    Args:
        plan: From the input to what is done.
        name: Of the run.
        inputs: What the run shows of its input.
        shown: What it shows of its output.
    """

    def __init__(
        self,
        plan: Callable[[Q], Plan[R]],
        name: str,
        *,
        inputs: Callable[[Q], Mapping[str, Any]],
        shown: Callable[[R], Mapping[str, Any]],
    ) -> None:
        def recorded(given: Q, config: RunnableConfig | None) -> Plan[R]:
            return _recorded(plan(given), {"run_name": name, **(config or {})}, inputs(given), shown)

        super().__init__(recorded)
        self.name = name


def shown(hits: Sequence[Hit]) -> dict[str, Any]:
    """What a run shows of memories that were found."""
    return {
        "memories": [{"id": hit.id, "text": hit.text, "score": hit.score, "relevance": hit.relevance} for hit in hits]
    }


def _recorded(
    plan: Plan[R], config: RunnableConfig, inputs: Mapping[str, Any], shown: Callable[[R], Mapping[str, Any]]
) -> Plan[R]:
    """The run shows what it is told to, the caller gets the result itself."""

    def recorded() -> Plan[R]:
        kept: list[R] = []

        def keep(result: R) -> Mapping[str, Any]:
            kept.append(result)
            return shown(result)

        body = plan.then(keep)
        runnable = RunnableLambda(lambda _: body.run(), lambda _: body.arun())
        return Plan.calling(runnable.invoke, runnable.ainvoke, inputs, config).then(lambda _: kept[0])

    return Plan.late(recorded)
