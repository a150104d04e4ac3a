import re
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from langmem_adapter import errors
from langmem_adapter.cli.output import ExitCode, failure_of
from langmem_adapter.providers import Limits
from tests.cases import each
from tests.openai_server import Failure, OpenAIServer, Page, Stalled

Data = Callable[..., dict[str, Any]]


@each("name", errors.__all__)
def test_every_error_has_a_code_and_an_exit_code(name: str) -> None:
    kind = getattr(errors, name)
    error = kind("pack", extra="x") if kind is errors.MissingDependencyError else kind("what went wrong")
    failure = failure_of(error)
    assert re.fullmatch("[a-z_]+", failure.code)
    assert failure.message
    assert failure.exit_code not in {ExitCode.OK, ExitCode.UNEXPECTED}


def test_unknown_setting_and_model_without_a_key_are_configuration_errors(
    data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert data("add", "x", "-u", "a", "--model", "openai:gpt-5-mini", code=4)["error"]["code"] == "configuration"
    monkeypatch.setenv("LANGMEM_ADAPTER_MODLE", "x")
    error = data("add", "I like tea", "-u", "a", code=4)["error"]
    assert error["code"] == "configuration" and "'model'" in error["message"]


def test_file_that_is_no_database_ends_with_5(data: Data, database: Path) -> None:
    database.write_bytes(b"this is no database, but a text that is long enough to be looked at" * 50)
    error = data("list", "-u", "a", code=5)["error"]
    assert (error["code"], error["hint"]) == ("storage", "langmem-adapter doctor")  # to be copied as it is


def test_model_that_does_not_answer_ends_with_5(data: Data, monkeypatch: pytest.MonkeyPatch, database: Path) -> None:
    monkeypatch.setenv("LANGMEM_ADAPTER_BASE_URL", "http://127.0.0.1:9/v1")
    error = data("add", "I like tea", "-u", "a", "--model", "openai:any", code=5)["error"]
    assert error["code"] == "model_unreachable"
    assert re.match("openai:any at http://127.0.0.1:9/v1 cannot be reached: .*refused", error["message"])
    assert "is the server running?" in error["hint"]
    monkeypatch.delenv("LANGMEM_ADAPTER_BASE_URL")
    assert data("list", "-u", "a")["data"] == []


QUOTA = Failure(429, "insufficient_quota: you exceeded your current quota")
HINTS = {
    **dict.fromkeys((400, 422), "another model"),
    **dict.fromkeys((401, 403), "LANGMEM_ADAPTER_API_KEY, the only one that a LANGMEM_ADAPTER_BASE_URL gets"),
    404: "name of the model",
    **dict.fromkeys((408, 429, 500, 503), "it answered, but cannot do this now"),
}
ANSWERS = [
    *(
        (Failure(status), 4, "model_configuration", (str(status), HINTS[status]))
        for status in (400, 401, 403, 404, 422)
    ),
    *((Failure(status), 5, "model_unreachable", (str(status), HINTS[status])) for status in (408, 429, 500, 503)),
    (QUOTA, 5, "model_unreachable", ("quota", "billing")),
    (Page(), 4, "model_configuration", ("no answer that can be read", "HTML")),
]


@pytest.mark.parametrize("part", ["model", "embeddings"])
@pytest.mark.parametrize(("answer", "exit_code", "code", "told"), ANSWERS)
def test_model_error_names_provider_model_and_address(
    data: Data,
    monkeypatch: pytest.MonkeyPatch,
    part: str,
    answer: Failure | Page,
    exit_code: int,
    code: str,
    told: tuple[str, str],
) -> None:
    with OpenAIServer(lambda _: answer, vectors=answer) as server:
        monkeypatch.setenv("LANGMEM_ADAPTER_BASE_URL", server.url.replace("//", "//me:secret@"))
        error = data("add", "I like tea", "-u", "a", f"--{part}", "openai:any", code=exit_code)["error"]
    assert error["code"] == code
    assert error["message"].startswith(f"openai:any at {server.url} ") and told[0] in error["message"]
    assert "secret" not in str(error) and told[1] in error["hint"]


def test_model_timeout_ends_with_5(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    held = threading.Event()
    with OpenAIServer(lambda _: Stalled(held)) as server:
        monkeypatch.setenv("LANGMEM_ADAPTER_BASE_URL", server.url)
        monkeypatch.setenv("LANGMEM_ADAPTER_MODEL_TIMEOUT", "0.3")
        error = data("add", "I like tea", "-u", "a", "--model", "openai:any", code=5)["error"]
        held.set()
    assert error["code"] == "model_unreachable"
    assert error["message"].startswith(f"openai:any at {server.url} did not answer within 0.3 seconds")


class ClientError(Exception):
    """As the clients of vendors raise it: the status is theirs, their response's, or that of their cause."""

    def __init__(self, cause: Exception | None = None, **told: Any) -> None:
        super().__init__("no")
        self.__cause__ = cause
        vars(self).update(told)


REQUEST = SimpleNamespace(url="https://api.vendor.example/v1/messages?key=secret")
SHAPES = [
    ClientError(status_code=401, request=REQUEST),
    ClientError(response=SimpleNamespace(status_code=401, _request=REQUEST)),
    ClientError(ClientError(code=401, status="UNAUTHENTICATED", _request=REQUEST)),
    ClientError(http_status=401, request=REQUEST),
    ClientError(response={"ResponseMetadata": {"HTTPStatusCode": 401}}, request=REQUEST),
]


@pytest.mark.parametrize("error", SHAPES, ids=["anthropic", "httpx", "google", "voyage", "botocore"])
def test_model_errors_are_mapped_by_status(error: ClientError) -> None:
    def refused() -> None:
        raise error

    try:
        Limits("vendor:any").plan(refused).run()
    except errors.ModelError as caught:
        failure = failure_of(caught)
    assert (failure.code, failure.exit_code) == ("model_configuration", ExitCode.CONFIGURATION)
    assert failure.message == "vendor:any at https://api.vendor.example/v1/messages answered 401: no"


def test_json_error_has_code_message_and_hint(data: Data) -> None:
    data("add", "I like tea", "-u", "a")
    for arguments, code in ((("list", "-k", "0"), 2), (("update", "no-such-id", "x"), 3)):
        assert data(*arguments, code=code).keys() == {"ok", "command", "error"}


def test_errors_on_stderr_have_no_traceback(cli: Callable[..., Any]) -> None:
    result = cli("add", "x", "--metadata", "[1]", "-u", "a", code=2)
    assert result.stdout == ""
    assert result.stderr.startswith("error: --metadata must be a JSON object")
