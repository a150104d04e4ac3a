import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from typer.testing import CliRunner, Result

from langmem_adapter.cli.app import app

Cli: TypeAlias = Callable[..., Result]
Process: TypeAlias = Callable[..., "subprocess.CompletedProcess[str]"]

COMMAND = [sys.executable, "-c", "from langmem_adapter.cli.app import main; main()"]


@pytest.fixture(autouse=True)
def clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.upper().startswith(("LANGMEM_ADAPTER_", "LANGSMITH_", "LANGCHAIN_", "OPENAI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def cli(database: Path) -> Cli:
    """Runs a command in this process, on the test's own database."""

    def run(*arguments: object, input: str | bytes | None = None, code: int = 0) -> Result:  # noqa: A002 - as Typer has it
        result = CliRunner().invoke(app, ["-d", str(database), *map(str, arguments)], input=input)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture
def data(cli: Cli) -> Callable[..., dict[str, Any]]:
    """Runs a command with --json and gives the envelope."""

    def run(*arguments: object, input: str | bytes | None = None, code: int = 0) -> dict[str, Any]:  # noqa: A002 - the same
        envelope: dict[str, Any] = json.loads(cli(*arguments, "--json", input=input, code=code).stdout)
        assert envelope["ok"] == ("error" not in envelope)
        return envelope

    return run


@pytest.fixture
def process(database: Path) -> Process:
    """Runs a command in a process of its own."""

    def run(*arguments: object, input: str | None = None, code: int = 0) -> subprocess.CompletedProcess[str]:  # noqa: A002 - the same
        done = subprocess.run(
            [*COMMAND, "-d", str(database), *map(str, arguments)],
            input=input, capture_output=True, text=True, check=False, timeout=100, encoding="utf-8",
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return run
