"""What nobody chose is said: hash embeddings beside a chat model, the offline rules beside a key."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from langmem_adapter import Memory, Settings
from langmem_adapter.cli.app import app
from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.testing import ScriptedChatModel

if TYPE_CHECKING:
    from pathlib import Path

HASHES, RULES = "found by hash embeddings", "OPENAI_API_KEY is set"


def told(**parts: Any) -> list[str]:
    """The warnings of opening a memory."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Memory(":memory:", **parts).close()
    assert all(warning.filename == __file__ for warning in caught)
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize("key", ["", "sk-x"])
def test_what_nobody_chose_is_said_with_the_line_that_changes_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, key: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    model = ScriptedChatModel(replies=[])
    (said,) = told(model=model)
    assert HASHES in said and 'embeddings="openai:text-embedding-3-small"' in said
    assert said in caplog.text
    said = "".join(told())
    assert (RULES in said and "LANGMEM_ADAPTER_MODEL=openai:gpt-5-mini" in said) == bool(key)
    for chosen in (
        {"model": model, "embeddings": "hash:512"},
        {"model": model, "embeddings": HashEmbeddings(8)},
        {"model": model, "settings": Settings(embeddings="hash:512")},
        {"model": "offline"},
        {"settings": Settings(model="offline")},
    ):
        assert told(**chosen) == []


def test_the_command_line_says_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    monkeypatch.setenv("LANGMEM_ADAPTER_DATABASE", str(tmp_path / "m.db"))
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        added = CliRunner().invoke(app, ["add", "I like tea", "-u", "ada"])
        looked = CliRunner().invoke(app, ["doctor", "--json"])
    assert " ".join(added.stderr.split()).count(RULES) == 1
    (line,) = (check for check in json.loads(looked.stdout)["data"] if check["name"] == "defaults")
    assert line["status"] == "WARN" and RULES in line["detail"] and "LANGMEM_ADAPTER_MODEL" in line["fix"]
    assert RULES not in looked.stderr
