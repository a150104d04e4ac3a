"""How a stage of the pipeline waits."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import RunnableLambda

from langmem_adapter.pipeline.state import Ask, thinking
from langmem_adapter.tracing import PlanNode

if TYPE_CHECKING:
    from langmem_adapter.pipeline.state import PipelineState, Thoughts


def test_a_stage_thinks_beside_the_event_loop_before_and_after_it_asks() -> None:
    threads: list[int] = []

    def here(value: object) -> Any:
        threads.append(threading.get_ident())
        return value

    def think(state: PipelineState) -> Thoughts:
        answers = yield Ask(RunnableLambda(here), [here("asked")])
        return here({"result": answers, **state})  # type: ignore[no-any-return]

    async def staged() -> Any:
        return await PlanNode(thinking(think)).ainvoke({})

    assert asyncio.run(staged()) == {"result": ["asked"]}
    assert len(threads) == 3 and threading.get_ident() not in threads
