"""What the command line does not show: passwords."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import quote

from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from typer.testing import Result

if TYPE_CHECKING:
    import pytest

Cli = Callable[..., Result]

SECRET = "zQ7v"  # noqa: S105 - not one


@hypothesis_settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(within=st.text(st.sampled_from("@:/?#[]%&= éß龍"), max_size=8), as_json=st.booleans())
def test_the_doctor_shows_no_password(cli: Cli, within: str, *, as_json: bool) -> None:
    password = quote(f"{SECRET}{within}{SECRET}", safe="")
    url = f"postgresql://ada:{password}@127.0.0.1:9/db?sslpassword={password}"
    result = cli("doctor", "-d", url, *["--json"] * as_json, code=5)
    assert "postgresql+psycopg://ada:***@127.0.0.1:9/db?sslpassword=***" in result.stdout
    assert SECRET not in result.output


def test_a_server_that_cannot_be_read_is_not_repeated(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGMEM_ADAPTER_BASE_URL", f"http://ada:{SECRET}/@127.0.0.1:9/v1")
    for command in (("doctor",), ("add", "I like tea", "-u", "a", "--model", "openai:any")):
        assert SECRET not in cli(*command, code=4).output


def test_a_misplaced_address_is_not_repeated(cli: Cli) -> None:
    for shape in ([], ["--json"]):
        assert SECRET not in cli("doctor", f"postgresql://ada:{SECRET}@127.0.0.1/db", *shape, code=2).output
