import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from langmem_adapter.cli.app import app

Data = Callable[..., dict[str, Any]]


def test_demo_shows_every_event_and_leaves_its_database() -> None:
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 0
    for event in ("+ ADD", "~ UPDATE", "- DELETE", "= NONE", "found no fact", "connected: ada has sister Mia"):
        assert event in result.stdout
    assert "offline: rules decide" in result.stdout
    assert "-0.00" not in result.stdout
    found = re.search(r"LANGMEM_ADAPTER_DATABASE=(\S+)", result.stdout)
    assert found is not None
    assert Path(found[1]).exists()
    listed = CliRunner().invoke(app, ["list", "-d", found[1], "-u", "ada", "--json"])
    count = json.loads(listed.stdout)["count"]
    assert f"{count} memories" in result.stdout


def test_demo_json_equals_the_database(data: Data) -> None:
    envelope = data("demo")
    told = [change for step in envelope["data"] for change in step["changes"]]
    kept = {item["id"]: item["text"] for item in data("list", "-u", "ada")["data"]}
    last = {change["id"]: change for change in told if change["event"] != "NONE"}
    assert kept == {id_: change["text"] for id_, change in last.items() if change["event"] != "DELETE"}
    assert {change["event"] for change in told} == {"ADD", "UPDATE", "DELETE", "NONE"}
    assert [revision["revision"] for revision in envelope["history"]] == [1, 2, 3]
    assert all(question["hits"] for question in envelope["questions"])
    related = {(row["source"], row["relation"], row["target"]): row["valid_to"] for row in envelope["relations"]}
    assert related["ada", "lives_in", "Lyon"] is None and related["ada", "lives_in", "Kyoto"] is not None


def test_demo_fits_its_terminal(cli: Callable[..., Any]) -> None:
    lines = cli("demo").stdout.splitlines()
    assert "= NONE" in cli("demo").stdout  # on the same database
    assert all(line == line.rstrip() for line in lines)
    prose = [line for line in lines if "/" not in line and "langmem-adapter" not in line]
    assert max(map(len, prose)) <= 80


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_demo_installs_the_package_alone() -> None:
    command = ["make", "--dry-run", "--always-make", "demo"]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True, timeout=60
    )
    (installed,) = re.findall(r"pip install (.*)", done.stdout)
    assert installed.endswith("--editable .")
    assert "--group" not in installed
