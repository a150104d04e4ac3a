"""LangGraph's own suite for checkpointers, driven through the async methods as it is, and through the sync ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES

from langmem_adapter.adapters.checkpointer import SQLAlchemySaver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from langgraph.checkpoint.conformance.report import CapabilityReport

TESTS = 81  # in langgraph-checkpoint-conformance 0.0.2


class CalledSync(BaseCheckpointSaver[str]):
    """The suite calls async methods only: here they are the sync ones of another saver."""

    def __init__(self, saver: SQLAlchemySaver) -> None:
        super().__init__(serde=saver.serde)
        self.saver = saver

    async def aget_tuple(self, config: Any) -> Any:
        return self.saver.get_tuple(config)

    async def alist(self, config: Any, **options: Any) -> AsyncIterator[Any]:
        for found in self.saver.list(config, **options):
            yield found

    async def aput(self, *arguments: Any) -> Any:
        return self.saver.put(*arguments)

    async def aput_writes(self, *arguments: Any, **options: Any) -> None:
        self.saver.put_writes(*arguments, **options)

    async def adelete_thread(self, thread_id: str) -> None:
        self.saver.delete_thread(thread_id)

    async def adelete_for_runs(self, run_ids: Any) -> None:
        self.saver.delete_for_runs(run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self.saver.copy_thread(source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Any, *, strategy: str = "keep_latest") -> None:
        self.saver.prune(thread_ids, strategy=strategy)


def assert_all_passed(report: CapabilityReport) -> None:
    failures = [failure for result in report.results.values() for failure in result.failures]
    assert failures == []
    assert {name for name, result in report.results.items() if result.detected} == {
        one.value for one in ALL_CAPABILITIES
    }
    assert all(result.passed for result in report.results.values())
    assert sum(result.tests_passed for result in report.results.values()) == TESTS


@pytest.mark.parametrize("called", ["async", "sync"])
async def test_every_capability_is_detected_and_every_test_passes(database_url: str, called: str) -> None:
    @checkpointer_test(name=f"SQLAlchemySaver, {called}")
    async def savers() -> AsyncIterator[BaseCheckpointSaver[str]]:
        async with SQLAlchemySaver.from_conn_string(database_url) as saver:
            yield saver if called == "async" else CalledSync(saver)

    assert_all_passed(await validate(savers))
