"""Requests made from what `/openapi.json` says.

None of them breaks the server, every answer is one that the document tells of, and none is served without a key.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.core.result import Ok
from schemathesis.python.asgi import shutdown_lifespans
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from langmem_adapter.memory.memory import Memory
from langmem_adapter.server.app import create_app
from langmem_adapter.server.auth import NobodyError, Principal
from tests.server.conftest import ALICE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from schemathesis import APIOperation, BaseSchema, Case, CheckFunction
    from starlette.requests import HTTPConnection

KEY: Final = {"X-API-Key": "hers"}
ANY_TEXT: Final = {"POST /v1/import"}
EXAMPLES: Final = 50 if os.environ.get("FAULTS") == "long" else 4


async def authenticate(connection: HTTPConnection) -> Principal:
    """By one key, which has all rights in its scope, and which no purge takes."""
    if connection.headers.get("x-api-key") != KEY["X-API-Key"]:
        raise NobodyError("give a valid key")
    return Principal("hers", ALICE, frozenset({"read", "write", "admin"}))


@schemathesis.serializer("application/x-ndjson")
def lines(_: object, value: Any) -> bytes:
    return str(value).encode(errors="replace")


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    with Memory(":memory:", graph=True) as memory:
        yield memory


@pytest.fixture(scope="module")
def document(memory: Memory) -> Iterator[BaseSchema]:
    document = schemathesis.openapi.from_asgi("/openapi.json", create_app(memory, auth=authenticate))
    document.config.analysis.constants.enabled = False  # what is sent follows from the document alone
    yield document
    shutdown_lifespans()


# LangGraph draws the ids of its steps from `random`, in the server's thread, while the next request is made.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module:hypothesis.errors.HypothesisDeprecationWarning")
def test_every_request_gets_a_response_of_the_openapi_document(
    document: BaseSchema, memory: Memory, subtests: pytest.Subtests
) -> None:
    for found in document.get_all_operations():
        assert isinstance(found, Ok), found
        operation = found.ok()
        with subtests.test(operation.label):
            _check(operation, lambda: _known(memory))


def _check(operation: APIOperation[Any, Any, Any, Any], known: Callable[[], dict[str, str]]) -> None:
    cases = (operation.as_strategy(generation_mode=mode) for mode in GenerationMode)
    # What no schema says is refused as well, such as a scope without a name.
    unsaid: list[CheckFunction] = [positive_data_acceptance]
    unsaid += [negative_data_rejection] if operation.label in ANY_TEXT else []

    @settings(max_examples=EXAMPLES, derandomize=True, suppress_health_check=[*HealthCheck])
    @given(case=st.one_of(*cases), of_something=st.booleans())
    def holds(case: Case[Any], *, of_something: bool) -> None:
        if of_something:
            case.path_parameters |= {name: i for name, i in known().items() if name in case.path_parameters}
        case.validate_response(case.call(headers=KEY), excluded_checks=unsaid, headers=KEY)

    holds()


def _known(memory: Memory) -> dict[str, str]:
    """Ids of what there is; those that are made up are of nothing."""
    added = memory.add("I like tea.", user_id="alice", infer=False)
    return {"memory_id": str(added.results[0].id), "trace_id": str(added.trace_id)}
