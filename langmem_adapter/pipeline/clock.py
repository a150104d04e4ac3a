"""How long each stage took, and word of it to whoever streams the run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from langgraph.config import get_stream_writer

if TYPE_CHECKING:
    from langmem_adapter.pipeline.state import PipelineState, Work

__all__ = ["begun", "finished"]


def begun() -> Work:
    """The work of a run that begins now."""
    return {
        "usage": {},
        "clock": time.time(),
        "milliseconds": {},
        "compared": None,
        "attempts": 0,
        "notes": [],
    }


def finished(state: PipelineState, stage: str, changed: Work | None = None, **progress: Any) -> dict[str, Work]:
    """The part of a stage's update that says what it has cost: its time, and what else has *changed* of the work.

    The same goes to `stream_mode="custom"`, with what the stage has to tell.

    Args:
        state: As the stage got it.
        stage: Its name.
        changed: What else to say of the work.
        progress: What the stage did, in numbers.
    """
    now, work = time.time(), state["work"]
    spent = round((now - work["clock"]) * 1000, 3)
    total = round(work["milliseconds"].get(stage, 0) + spent, 3)
    get_stream_writer()({"stage": stage, "milliseconds": spent, **progress})
    times = {**work["milliseconds"], stage: total}
    return {"work": {**work, **(changed or {}), "clock": now, "milliseconds": times}}
