import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from langmem_adapter._version import __version__
from langmem_adapter.cli.app import app
from langmem_adapter.reasoning.prompts import TASKS, instructions
from tests.cases import each

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
COMMANDS = (
    "init demo add search list show history users trace update delete restore purge export import refine reindex backup"
    " copy doctor config prompts serve mcp"
).split()
HEAVY = (
    "faiss langgraph langchain langchain_core sqlalchemy alembic numpy pydantic_settings pydantic openai httpx"
).split()


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        (["--help"], ""),
        (["--version"], ""),
        (["add", "--help"], "pydantic"),  # Typer's own: it reads the options of a single command with it
        (["demo", "-h"], "pydantic"),
        (["eval", "conversations", "--help"], "pydantic"),
    ],
)
def test_help_imports_nothing_heavy(arguments: list[str], allowed: str) -> None:
    heavy = [name for name in HEAVY if name != allowed]
    code = f"""
import sys
from langmem_adapter.cli.app import main
sys.argv = ["langmem-adapter", *{arguments!r}]
try:
    main()
except SystemExit as end:
    assert not end.code
print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr.strip() == "[]"


GROUPED = [
    f"{group.name} {info.name}"
    for group in app.registered_groups
    for info in (group.typer_instance or app).registered_commands
]


@each("command", [*COMMANDS, *GROUPED])
def test_help_of_every_command_has_examples_and_fits_80_columns(command: str) -> None:
    assert sorted(str(info.name) for info in app.registered_commands) == sorted(COMMANDS)
    result = CliRunner().invoke(app, [*command.split(), "--help"], env={"COLUMNS": "80", "TERM": "dumb"})
    assert result.exit_code == 0
    assert "Examples" in result.stdout
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    assert all(len(line) <= 80 for line in lines)
    assert any(line.startswith(f" $ langmem-adapter {command.removesuffix(' show')}") for line in lines)
    assert "--json" in result.stdout


class _Impatient:
    """Somebody who presses Ctrl-C while the command is being imported."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "langmem_adapter.cli.app":
            raise KeyboardInterrupt


def test_interrupt_during_import_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module, name = tomllib.loads(PROJECT.read_text())["project"]["scripts"]["langmem-adapter"].split(":")
    monkeypatch.delitem(sys.modules, "langmem_adapter.cli.app")
    monkeypatch.setattr(sys, "meta_path", [_Impatient(), *sys.meta_path])
    with pytest.raises(SystemExit) as end:  # as the script does: it imports the module, then it calls the name
        getattr(import_module(module), name)()
    assert (end.value.code, capsys.readouterr().err) == (130, "error: interrupted\n")


def test_usage_version_and_json_before_the_command(data: Callable[..., dict[str, Any]]) -> None:
    result = CliRunner().invoke(app, [])
    assert result.exit_code == 2 and "Usage" in result.output
    assert __version__ in CliRunner().invoke(app, ["--version"]).stdout
    envelope = data("search", code=2)
    assert (envelope["command"], envelope["error"]["code"]) == ("search", "usage")
    result = CliRunner().invoke(app, ["--json", "-d", "nowhere.db", "list", "-u", "a"])
    assert (json.loads(result.stdout)["error"]["code"], result.exit_code) == ("no_database", 3)


@each("task", TASKS)
def test_prompts_prints_the_instructions(task: str) -> None:
    assert CliRunner().invoke(app, ["prompts", task]).stdout == instructions(task)
    shown = json.loads(CliRunner().invoke(app, ["prompts", task, "--json"]).stdout)
    assert shown["data"] == [{"text": instructions(task), "task": task}]
