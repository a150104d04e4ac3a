"""How a stage of the pipeline waits."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import RunnableLambda

from langmem_adapter.pipeline.state import Ask, thinking
from langmem_adapter.tracing import PlanNode

if TYPE_CHECKING:
    from langmem_adapter.pipeline.state import PipelineState


def test_a_stage_thinks_beside_the_event_loop_before_and_after_it_asks() -> None:
    threads: list[int] = []

    def here(value: object) -> Any:
        threads.append(threading.get_ident())
        return value

    def plan(state: PipelineState) -> Ask:
        return Ask(RunnableLambda(here), [here("asked")], lambda answers: here({"result": answers, **state}))

    async def staged() -> Any:
        return await PlanNode(thinking(plan)).ainvoke({})

    assert asyncio.run(staged()) == {"result": ["asked"]}
    assert len(threads) == 3 and threading.get_ident() not in threads
