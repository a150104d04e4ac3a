"""Memory in an agent of `deepagents`, and the order of roles that Anthropic's and Gemini's clients make of its requests."""

from __future__ import annotations

import json
import os
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from langmem_adapter.adapters.middleware import INTRODUCTION

ROOT: Final = Path(__file__).resolve().parents[2]
PROGRAM: Final = Path(__file__).with_name("deep_agent.py")
ENVIRONMENT: Final = ROOT / ".venv-dev-server"  # deepagents pins versions that collide with those of the tests
THERE: Final = any(ENVIRONMENT.glob("lib/*/site-packages/deepagents"))

pytestmark = [
    pytest.mark.xdist_group("deepagents"),
    pytest.mark.skipif(
        not THERE and os.environ.get("CI") != "true",
        reason="there is no .venv-dev-server with deepagents beside the checkout; `make dev-server` makes it",
    ),
]


@pytest.fixture(scope="module")
def told() -> Any:
    """What the program says: the agent's nodes, its thread after two turns, and its five requests."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("LANGSMITH_", "LANGCHAIN_"))}
    command = [str(ENVIRONMENT / "bin" / "python"), str(PROGRAM)]
    done = subprocess.run(
        command, env=clean | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_memory_of_deepagents_and_ours_work_side_by_side(told: Any) -> None:
    assert {"LangmemAdapterMemory.before_agent", "MemoryMiddleware.before_agent"} <= set(told["nodes"])
    for request in told["requests"]:
        assert "Answer in one word." in request["system"] and INTRODUCTION not in request["system"]
        assert "- Likes tea" in json.dumps(request["anthropic"])
    assert not any(INTRODUCTION in text for text in told["thread"]) and len(told["thread"]) == 11


@pytest.mark.parametrize(("client", "model"), [("anthropic", "assistant"), ("gemini", "model")])
def test_roles_alternate_and_each_request_of_a_turn_begins_with_the_one_before(
    told: Any, client: str, model: str
) -> None:
    requests = [request[client] for request in told["requests"]]
    for request, place in zip(requests, (0, 0, 0, 6, 6), strict=True):
        roles = [message["role"] for message in request]
        assert roles == [("user", model)[number % 2] for number in range(len(roles))]
        assert [number for number, each in enumerate(request) if INTRODUCTION in json.dumps(each)] == [place]
    for turn in (requests[:3], requests[3:]):
        texts = [json.dumps(request).removesuffix("]") for request in turn]
        assert all(later.startswith(earlier) for earlier, later in pairwise(texts))
