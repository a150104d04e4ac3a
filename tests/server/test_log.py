"""What the server writes down, and what it does not."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Final

import pytest

from langmem_adapter.memory.memory import Memory
from langmem_adapter.server.log import JSONLines
from langmem_adapter.testing import ScriptedChatModel
from tests.server.conftest import client, key, remembered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.requests import HTTPConnection

    from langmem_adapter.server.auth import Principal

    Lines = Callable[[], list[dict[str, Any]]]

CANARY: Final = "zebrafish"


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[Lines]:
    with caplog.at_level(logging.INFO, "langmem_adapter.server"):
        yield lambda: [json.loads(JSONLines().format(record)) for record in caplog.records]


def test_log_line_of_a_request_has_no_names_and_no_texts(memory: Memory, lines: Lines) -> None:
    memory_id, headers = remembered(memory, CANARY), key(memory)
    http = client(memory)
    http.get(f"/memories/{memory_id}?user_id={CANARY}", headers=headers | {"X-Request-ID": "mine"})
    http.get(f"/{CANARY}")
    http.get("/docs", headers={"Host": f"{CANARY}.example"})
    first, unknown, refused = [line for line in lines() if line["message"] == "request"]
    assert (first["route"], first["status"], first["request_id"]) == ("/memories/{memory_id}", 200, "mine")
    assert first["caller"] == headers["X-API-Key"].split("_")[1]
    assert (unknown["route"], unknown["status"], refused["status"]) == (None, 404, 421)
    told = json.dumps(lines())
    assert CANARY not in told and memory_id not in told and headers["X-API-Key"] not in told


def test_unexpected_error_is_logged_by_number_without_its_text(memory: Memory, lines: Lines) -> None:
    async def broken(connection: HTTPConnection) -> Principal:
        raise KeyError(CANARY)

    answer = client(memory, auth=broken, loud=False).get("/memories")
    number = answer.headers["x-request-id"]
    assert (answer.status_code, number in answer.json()["detail"]) == (500, True)
    (told,) = [line for line in lines() if line["level"] == "ERROR"]
    assert told["error"] == "KeyError" and number in told["message"]
    assert any(place.endswith(" broken") for place in told["raised"])
    assert CANARY not in json.dumps(lines()) + answer.text


@pytest.mark.parametrize("replies", [[RuntimeError(f"401: {CANARY}")], [CANARY, CANARY]])
def test_failing_chat_model_is_a_502_without_its_words(replies: list[Any], lines: Lines) -> None:
    with Memory(":memory:", model=ScriptedChatModel(replies=replies), on_bad_reply="raise") as memory:
        answer = client(memory, auth="local", loud=False).post("/memories", json={"messages": "Hi", "user_id": "a"})
        assert not memory.get_all(user_id="a")
    assert answer.status_code == 502
    assert CANARY not in json.dumps(lines())
    assert "401:" not in answer.text  # digits alone stand in the number of a request, too
