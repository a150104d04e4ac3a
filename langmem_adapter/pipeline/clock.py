"""How long each stage took, and word of it to whoever streams the run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from langgraph.config import get_stream_writer

if TYPE_CHECKING:
    from langmem_adapter.pipeline.state import PipelineState

__all__ = ["finished", "started"]


def started() -> dict[str, Any]:
    """The part of the state that a run begins its clock with."""
    return {"clock": time.time(), "milliseconds": {}}


def finished(state: PipelineState, stage: str, **progress: Any) -> dict[str, Any]:
    """The part of a stage's update that says how long it took, since the stage before ended.

    The same goes to `stream_mode="custom"`, with what the stage has to tell.

    Args:
        state: As the stage got it.
        stage: Its name.
        progress: What it did, in numbers.
    """
    now = time.time()
    spent = round((now - state.get("clock", now)) * 1000, 3)
    before = state.get("milliseconds", {})
    get_stream_writer()({"stage": stage, "milliseconds": spent, **progress})
    return {"clock": now, "milliseconds": {**before, stage: round(before.get(stage, 0) + spent, 3)}}
