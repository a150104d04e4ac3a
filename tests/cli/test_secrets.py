"""What the command line neither shows (passwords) nor follows (the file of somebody else's folder)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from langmem_adapter.cli.app import app

if TYPE_CHECKING:
    from pathlib import Path

Data = Callable[..., dict[str, Any]]
Cli = Callable[..., Result]

SECRET = "zQ7v"  # noqa: S105 - not one


@pytest.fixture
def folder(database: Path) -> Path:
    """The file of the working directory: it names a model, which has no key, and a database."""
    file = database.parent / "langmem_adapter.toml"
    file.write_text(
        f'model = "openai:any"\ndatabase = "postgresql://ada:{SECRET}@127.0.0.1:9/db"\nranking = {{ graph = 0.3 }}\n'
    )
    return file


@hypothesis_settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(within=st.text(st.sampled_from("@:/?#[]%&= éß龍"), max_size=8), as_json=st.booleans())
def test_doctor_shows_no_password(cli: Cli, within: str, *, as_json: bool) -> None:
    password = quote(f"{SECRET}{within}{SECRET}", safe="")
    url = f"postgresql://ada:{password}@127.0.0.1:9/db?sslpassword={password}"
    result = cli("doctor", "-d", url, *["--json"] * as_json, code=5)
    assert "postgresql+psycopg://ada:***@127.0.0.1:9/db?***" in result.stdout
    assert SECRET not in result.output


@pytest.mark.parametrize(
    "where",
    [
        f"host=127.0.0.1 password={SECRET}",
        f"postgresql:/ada:{SECRET}@127.0.0.1:9/db",
        f"//ada:{SECRET}@h/db",
        f"file:x.db?password={SECRET}",
        f"sqlite+aiosqlite:///x.db?k={SECRET}",
        f"postgresql://127.0.0.1:9/db?nosuchoption={SECRET}",
    ],
)
def test_no_command_repeats_a_refused_database(database: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    monkeypatch.chdir(database.parent)
    for command in (("list", "-u", "a"), ("add", "I like tea", "-u", "a", "--json"), ("doctor",)):
        result = CliRunner().invoke(app, ["-d", where, *command])
        assert isinstance(result.exception, SystemExit) and result.exit_code
        assert SECRET not in result.output


def test_misplaced_or_unreadable_address_is_not_repeated(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for shape in ([], ["--json"]):
        assert SECRET not in cli("doctor", f"postgresql://ada:{SECRET}@127.0.0.1/db", *shape, code=2).output
    monkeypatch.setenv("LANGMEM_ADAPTER_BASE_URL", f"http://ada:{SECRET}/@127.0.0.1:9/v1")
    for command in (("doctor",), ("add", "I like tea", "-u", "a", "--model", "openai:any")):
        assert SECRET not in cli(*command, code=4).output


@pytest.mark.filterwarnings("default::UserWarning")
def test_file_of_the_folder_is_ignored_without_trust_folder(data: Data, cli: Cli, folder: Path) -> None:
    assert data("add", "I like tea", "-u", "a")["mode"] == "offline"
    result = cli("list", "-u", "a", "--json")
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"warning: {folder}: ignored, because")
    assert SECRET not in result.output
    (check,) = (check for check in data("doctor")["data"] if check["name"] == "folder")
    assert check["status"] == "WARN" and check["detail"].startswith(f"{folder}: ignored, because")
    assert check["fix"].startswith("export LANGMEM_ADAPTER_TRUST_FOLDER=true")


@pytest.mark.parametrize("before", [True, False])
def test_trust_folder_reads_the_file(data: Data, folder: Path, *, before: bool) -> None:
    command = ("add", "I like tea", "-u", "a")
    told = data("--trust-folder", *command, code=4) if before else data(*command, "--trust-folder", code=4)
    assert "openai:any" in told["error"]["message"]


def test_wrong_settings_are_one_error_in_every_command(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGMEM_ADAPTER_TRUST_FOLDER", "perhaps")
    for command in (("reindex",), ("list", "-u", "a")):
        assert data(*command, code=4)["error"]["code"] == "configuration"
