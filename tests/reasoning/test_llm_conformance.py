"""What holds for every reasoner, with scripted models of several temperaments behind it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from langmem_adapter.reasoning.llm import LLMReasoner
from langmem_adapter.testing import ScriptedChatModel
from tests.reasoning.reasoner_conformance import ReasonerConformance

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_core.messages import BaseMessage

    from langmem_adapter.reasoning.base import Reasoner

ENOUGH = 200


def data_of(messages: list[BaseMessage]) -> Any:
    return json.loads(next(line for line in str(messages[1].content).splitlines() if line.startswith("{")))


def diligent(messages: list[BaseMessage]) -> str:
    """Repeats what was said as facts, and adds every fact."""
    data = data_of(messages)
    if "conversation" in data:
        return json.dumps({"facts": [said["text"] for said in data["conversation"] if said["role"] == "user"]})
    kept = [{**known, "event": "NONE"} for known in data["memories"]]
    added = [{"id": "new", "text": fact["text"], "event": "ADD", "fact": fact["number"]} for fact in data["facts"]]
    return json.dumps({"memory": [*kept, *added]})


def idle(messages: list[BaseMessage]) -> str:
    """Finds nothing and decides nothing."""
    return '{"facts": []}' if "conversation" in data_of(messages) else '{"memory": []}'


def rewriting(messages: list[BaseMessage]) -> str:
    """Rewrites every memory, deletes the last one, in bad JSON."""
    data = data_of(messages)
    if "conversation" in data:
        return 'Sure! {"facts": ["Is here",],}'
    *first, last = data["memories"]
    changed = [{"id": known["id"], "text": f"{known['text']}, really", "event": "update", "fact": 0} for known in first]
    decided = json.dumps([*changed, {"id": last["id"], "event": "delete", "fact": 0}])
    return f'```json\n{{"memory": {decided},}}\n```'


class TestLLMReasoner(ReasonerConformance):
    @pytest.fixture(params=[diligent, idle, rewriting], ids=lambda answer: answer.__name__)
    def reasoner(self, request: pytest.FixtureRequest) -> Reasoner:
        answer: Callable[[list[BaseMessage]], str] = request.param
        return LLMReasoner(ScriptedChatModel(replies=[answer] * ENOUGH))
