"""Dockerfile and compose.yaml, as far as they can be read without a Docker daemon."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

import pytest
import typer
import yaml

from langmem_adapter.cli.app import app
from langmem_adapter.memory.memory import Memory
from langmem_adapter.server.app import create_app
from langmem_adapter.settings import Settings
from langmem_adapter.storage.drivers import url_of
from tests.guide import parse_command

ROOT: Final = Path(__file__).resolve().parents[1]
COMPOSE: Final[dict[str, Any]] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: Final = COMPOSE["services"]


def steps() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, each with its words."""
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.startswith("#")]
    whole = "\n".join(lines).replace("\\\n", " ")
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in whole.splitlines() if line)]


STEPS: Final = steps()
LAST: Final = STEPS[max(place for place, (name, _) in enumerate(STEPS) if name == "FROM") :]


def said(name: str) -> str:
    (rest,) = [rest for each, rest in LAST if each == name]
    return rest


def shown() -> list[list[str]]:
    """The arguments of `docker compose run memory …` in the guide and in compose.yaml."""
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in ("examples/guide/operation.md", "compose.yaml")]
    found = re.findall(r"docker compose run --rm memory (.+)", "\n".join(texts))
    return [shlex.split(line) for line in found]


@pytest.mark.parametrize("arguments", [json.loads(said("CMD")), SERVICES["memory"]["command"], *shown()], ids=" ".join)
def test_each_command_is_one_of_ours_with_options_that_it_has(arguments: list[str]) -> None:
    assert json.loads(said("ENTRYPOINT")) == ["langmem-adapter"]
    parse_command(typer.main.get_command(app), arguments)


def test_the_image_runs_as_nobody_in_particular_and_says_whether_it_is_well() -> None:
    assert said("USER") not in {"root", "0"}
    test = json.loads(said("HEALTHCHECK").partition("CMD ")[2])
    (port, path) = re.findall(r"http://127\.0\.0\.1:(\d+)([^']+)'", test[-1])[0]
    assert port == said("EXPOSE") == json.loads(said("CMD"))[-1]
    with Memory(":memory:") as memory:
        assert path in create_app(memory, auth="keys").openapi()["paths"]
    assert said("VOLUME") == str(Path(re.findall(r"LANGMEM_ADAPTER_DATABASE=(\S+)", said("ENV"))[0]).parent)


def test_what_is_copied_and_installed_exists() -> None:
    copied = [
        word for name, rest in STEPS if name == "COPY" and not rest.startswith("--from") for word in rest.split()[:-1]
    ]
    let_in = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert sorted(copied) == sorted(let_in)
    assert all((ROOT / name).exists() for name in copied)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    (installed,) = [re.findall(r'"\.\[(.+)\]"', rest)[0] for name, rest in STEPS if "pip install" in rest]
    assert set(installed.split(",")) <= set(extras)


def test_no_secret_stands_in_either_file() -> None:
    for service in SERVICES.values():
        secrets = {
            name: value
            for name, value in service["environment"].items()
            if fnmatch(name, "*PASSWORD*") or "KEY" in name
        }
        assert secrets and all(value.startswith("${") for value in secrets.values())
    assert not re.search(r"(?i)password|secret|api_key|lma_", " ".join(rest for _, rest in STEPS))


def test_the_settings_of_the_service_are_settings_and_the_database_is_reached_by_its_name() -> None:
    environment = SERVICES["memory"]["environment"]
    prefix = "LANGMEM_ADAPTER_"
    ours = {name.removeprefix(prefix).lower() for name in environment if name.startswith(prefix)}
    assert ours <= set(Settings.model_fields)
    url = url_of(environment[f"{prefix}DATABASE"])
    database = SERVICES["database"]["environment"]
    assert (url.host, url.username, url.database) == ("database", database["POSTGRES_USER"], database["POSTGRES_DB"])
    assert url.password is None and environment["PGPASSWORD"] == database["POSTGRES_PASSWORD"]
    assert SERVICES["memory"]["depends_on"] == {"database": {"condition": "service_healthy"}}
    assert {volume.partition(":")[0] for volume in SERVICES["database"]["volumes"]} == set(COMPOSE["volumes"])
