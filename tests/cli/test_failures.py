import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from langmem_adapter import errors
from langmem_adapter.cli.failures import ExitCode, failure_of, known_errors

Data = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_of_ours_has_a_code_and_an_exit_code(name: str) -> None:
    kind = getattr(errors, name)
    error = kind("pack", extra="x") if kind is errors.MissingDependencyError else kind("what went wrong")
    failure = failure_of(error)
    assert isinstance(error, known_errors())
    assert re.fullmatch("[a-z_]+", failure.code)
    assert failure.message
    assert failure.exit_code not in {ExitCode.OK, ExitCode.UNEXPECTED}


def test_an_unknown_setting_is_a_configuration_error(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGMEM_ADAPTER_MODLE", "x")
    error = data("add", "I like tea", "-u", "a", code=4)["error"]
    assert error["code"] == "configuration"
    assert "'model'" in error["message"]


def test_a_model_that_cannot_be_had_is_a_configuration_error(data: Data) -> None:
    assert data("add", "x", "-u", "a", "--model", "openai:gpt-5-mini", code=4)["error"]["code"] == "configuration"


def test_a_database_that_is_none_is_unreachable(data: Data, database: Path) -> None:
    database.write_bytes(b"this is no database, but a text that is long enough to be looked at" * 50)
    assert data("list", "-u", "a", code=5)["error"]["code"] == "storage"


def test_a_model_that_does_not_answer_is_unreachable(
    data: Data, monkeypatch: pytest.MonkeyPatch, database: Path
) -> None:
    monkeypatch.setenv("LANGMEM_ADAPTER_BASE_URL", "http://127.0.0.1:9/v1")
    error = data("add", "I like tea", "-u", "a", "--model", "openai:any", code=5)["error"]
    assert error["code"] == "model_unreachable"
    monkeypatch.delenv("LANGMEM_ADAPTER_BASE_URL")
    assert data("list", "-u", "a")["data"] == []


def test_errors_are_readable_on_stderr_without_a_traceback(cli: Callable[..., Any]) -> None:
    result = cli("add", "x", "--metadata", "[1]", "-u", "a", code=2)
    assert result.stdout == ""
    assert result.stderr.startswith("error: --metadata must be a JSON object")
