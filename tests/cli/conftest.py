import json
import os
import pty
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, TypeAlias

import pytest
import typer.testing
from typer.main import get_command
from typer.testing import CliRunner, Result

from langmem_adapter.cli.app import app
from tests.programs import COMMAND, Program, python

Cli: TypeAlias = Callable[..., Result]
Process: TypeAlias = Callable[..., "CompletedProcess[str]"]

# Typer would build the tree of all commands anew for each call, which takes as long as most commands do.
typer.testing._get_command = cache(get_command)  # type: ignore[attr-defined]


def stopped(signal: str, count: int, times: int = 1) -> str:
    """The program `langmem-adapter`, which sends itself a signal before the commit of so many memories."""
    return f"""
import os, signal
from sqlalchemy import Engine, event
from langmem_adapter.cli.app import main

sent = []

@event.listens_for(Engine, "commit")
def stop(connection):
    tables = connection.exec_driver_sql("SELECT name FROM sqlite_master").scalars().all()
    if not sent and "memories" in tables and connection.exec_driver_sql("SELECT count(*) FROM memories").scalar() == {count}:
        sent.append({count})
        for _ in range({times}):
            os.kill(os.getpid(), signal.{signal})

main()
"""


def on_a_terminal(arguments: list[str], answer: str = "", **environment: str) -> str:
    """What a program of Python, given by its arguments, says on a terminal, where somebody answers it."""
    ours, theirs = pty.openpty()
    os.write(ours, answer.encode())
    looks = {"COLUMNS": "100", "TERM": "xterm-256color", **environment}
    with ThreadPoolExecutor(1) as reader:
        said = reader.submit(_read, ours)
        code = Program(*arguments, terminal=os.ttyname(theirs), **looks).end().returncode
        os.close(theirs)
    os.close(ours)
    assert code == 0, said.result()
    return said.result()


def _read(terminal: int) -> str:
    said = b""
    with suppress(OSError):  # Linux says so when the other end is closed
        while part := os.read(terminal, 65536):
            said += part
    return said.decode()


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

    def run(*arguments: object, input: str = "", code: int = 0) -> CompletedProcess[str]:  # noqa: A002 - as `cli` has it
        return python(*COMMAND, "-d", database, *arguments, said=input, code=code)

    return run
