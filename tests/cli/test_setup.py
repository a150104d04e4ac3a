"""`config` and `init`."""

from __future__ import annotations

import stat
import tomllib
from typing import TYPE_CHECKING, Any

from typer.testing import CliRunner

from langmem_adapter.cli.app import app
from langmem_adapter.settings import user_file
from tests.cli.conftest import on_a_terminal
from tests.programs import COMMAND

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_config_names_each_value_and_its_source_without_secrets(data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    user_file().parent.mkdir(parents=True)
    user_file().write_text("trace_days = 7\n")
    monkeypatch.setenv("LANGMEM_ADAPTER_API_KEY", "sk-secret")
    monkeypatch.setenv("LANGMEM_ADAPTER_REDIS_URL", "redis://:secret@localhost/0")
    monkeypatch.setenv("LANGMEM_ADAPTER_USER", "ann")
    envelope = data("config", "--embeddings", "hash:64")
    assert "secret" not in str(envelope)
    rows = {row["name"]: (row["value"], row["source"]) for row in envelope["data"]}
    assert rows["trace_days"] == (7, "file") and rows["api_key"] == ("set", "environment")
    assert rows["embeddings"] == ("hash:64", "argument") and rows["model"] == ("offline", "default")
    assert rows["database"][1] == "argument" and rows["user"] == ("ann", "environment")


def test_init_asks_three_questions_and_writes_the_users_file(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = on_a_terminal([*COMMAND, "init"], "memory.db\n\nhash:64\n")  # a path from here
    assert "Where are memories kept?" in said and "Which chat model" in said and "OK" in said
    assert tomllib.loads(user_file().read_text()) == {
        "database": str(database), "model": "offline", "embeddings": "hash:64",
    }  # fmt: skip
    assert stat.S_IMODE(user_file().stat().st_mode) == 0o600
    assert CliRunner().invoke(app, ["add", "I like tea", "-u", "ann"]).exit_code == 0
    assert database.exists()
    again = CliRunner().invoke(app, ["init"])
    assert again.exit_code == 2 and "there is a configuration already" in again.output
    user_file().unlink()
    odd = str(database.with_name("a\x7fb.db"))
    assert CliRunner().invoke(app, ["init", "-d", odd, "--model", "offline", "--embeddings", "hash:64"]).exit_code == 0
    assert tomllib.loads(user_file().read_text())["database"] == odd
