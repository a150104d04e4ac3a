import os
import sqlite3
import sys
import threading
import tomllib
from collections.abc import Callable
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from langmem_adapter._version import DISTRIBUTION
from tests.openai_server import OpenAIServer, Stalled

Data = Callable[..., dict[str, Any]]


def statuses(envelope: dict[str, Any]) -> dict[str, str]:
    return {check["name"]: check["status"] for check in envelope["data"]}


PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, *, name: str, wanted: list[str]) -> None:
    """What pip notes of an installed distribution, before anything that is noted in this environment."""
    note = folder / f"site/{name.replace('-', '_')}-0.1.0.dist-info/METADATA"
    note.parent.mkdir(parents=True)
    lines = [f"Name: {name}", "Version: 0.1.0", *(f"Requires-Dist: {part}" for part in wanted)]
    note.write_text("\n".join(["Metadata-Version: 2.4", *lines, ""]))
    monkeypatch.syspath_prepend(str(folder / "site"))


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, name=PROJECT["name"], wanted=PROJECT["dependencies"])


def test_doctor_is_ok_for_a_healthy_memory(data: Data) -> None:
    data("add", "I like tea", "-u", "a")
    found = statuses(data("doctor"))
    assert found == dict.fromkeys(found, "OK")
    assert {"python", "packages", "telemetry", "disk", "database", "index", "embeddings", "model"} <= set(found)


def test_doctor_names_the_memory_of_a_wrong_date(data: Data, database: Path) -> None:
    added = data("add", "I like tea", "-u", "a")["data"][0]["id"]
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE memories SET created_at = 'soon'")
    found = {check["name"]: check for check in data("doctor", code=5)["data"]}
    assert found["dates"]["status"] == "FAIL"
    assert added in found["dates"]["detail"]
    assert "'soon'" in found["dates"]["detail"]
    assert "update" in found["dates"]["fix"]
    assert found["index"]["status"] == "OK"
    data("update", added, "Likes green tea")
    assert "dates" not in statuses(data("doctor"))


def test_doctor_names_the_distribution() -> None:
    assert PROJECT["name"] == DISTRIBUTION == "langchain-langmem-adapter"
    assert PROJECT["optional-dependencies"]["all"] == [
        f"{DISTRIBUTION}[classic,postgres,redis,server,mcp,metrics,otel,neo4j]",
        f"{DISTRIBUTION}[static]; platform_machine != 'aarch64' and python_version < '3.14'",
    ]


@pytest.mark.parametrize(
    ("wanted", "fix"),
    [
        ("sqlalchemy<1,>=0.9", "pip install 'sqlalchemy<1,>=0.9'"),
        ("langmem-absent>=1", "pip install 'langmem-absent>=1'"),
    ],
)
def test_doctor_names_the_package_to_install(
    data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: str, fix: str
) -> None:
    install(tmp_path / "other", monkeypatch, name=DISTRIBUTION, wanted=["rich", wanted])
    checks = data("doctor", code=4 if "absent" in wanted else 0)["data"]
    assert next(check["fix"] for check in checks if check["name"] == "packages") == fix


def test_doctor_recommends_static_embeddings(data: Data, database: Path) -> None:
    def told(*options: str, code: int = 0) -> str:
        checks = data("doctor", *options, code=code)["data"]
        (detail,) = (check["detail"] for check in checks if check["name"] == "embeddings")
        return str(detail)

    assert told().endswith(f"langmem-adapter reindex -d {database} --embeddings static")
    assert (f"pip install '{DISTRIBUTION}[static]'" in told()) == (find_spec("wordllama") is None)
    assert told("--embeddings", "static") == "static: a vector of 256 numbers"
    data("add", "I like tea", "-u", "a", "--embeddings", "static")
    assert told(code=4) == "hash:512: a vector of 512 numbers"  # there is nothing to gain, but an option to give
    refused = data("search", "tea", "-u", "a", code=4)["error"]["message"]
    assert "(--embeddings static, LANGMEM_ADAPTER_EMBEDDINGS=static, or in Settings)" in refused


def test_doctor_makes_no_database_and_ends_with_5_for_a_broken_one(data: Data, database: Path) -> None:
    assert statuses(data("doctor"))["database"] == "OK"
    assert not database.exists()
    data("add", "I like tea", "-u", "a")
    other = data("doctor", "--embeddings", "hash:64", code=4)
    database.write_bytes(b"no database at all, only text " * 100)
    broken = data("doctor", code=5)
    assert statuses(other)["database"] == statuses(broken)["database"] == "FAIL" and statuses(broken)["model"] == "OK"
    assert not [check for envelope in (other, broken) for check in envelope["data"] if "doctor" in check["fix"]]


def test_doctor_ends_with_4_for_wrong_settings(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGMEM_ADAPTER_INDX", "exact")
    assert statuses(data("doctor", code=4))["settings"] == "FAIL"


@pytest.mark.parametrize("part", ["model", "embeddings"])
def test_doctor_ends_with_4_for_a_part_without_its_key(data: Data, part: str) -> None:
    data("add", "I like tea", "-u", "a")
    envelope = data("doctor", f"--{part}", "openai:any", code=4)
    (failed,) = (check for check in envelope["data"] if check["status"] == "FAIL")
    assert failed["name"] == part and "OPENAI_API_KEY" in failed["detail"]


def test_doctor_ends_with_5_for_a_model_that_does_not_answer(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGMEM_ADAPTER_BASE_URL", "http://127.0.0.1:9/v1")
    assert statuses(data("doctor", "--model", "openai:any", code=5))["model"] == "FAIL"


@pytest.mark.parametrize("part", ["model", "embeddings"])
def test_doctor_ends_with_5_for_a_server_that_stops(
    cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    held, seen = threading.Event(), []

    def stall(_: object) -> Stalled:
        runner: Any = sys.stdout.buffer  # Click's
        seen.append(runner.getvalue().decode())
        return Stalled(held)

    with OpenAIServer(stall, vectors=Stalled(held)) as server:
        monkeypatch.setenv("LANGMEM_ADAPTER_BASE_URL", server.url)
        monkeypatch.setenv("LANGMEM_ADAPTER_MODEL_TIMEOUT", "0.5")
        told = cli("doctor", f"--{part}", "openai:any", code=5).stdout
        held.set()
    rows = dict(row.split("\t")[1::-1] for row in told.splitlines())
    assert {name for name, status in rows.items() if status == "FAIL"} == {part}
    assert f"openai:any at {server.url} did not answer" in told
    assert all("OK\tpython" in before and f"\t{part}\t" not in before for before in seen)


def test_doctor_warns_of_tracing(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    monkeypatch.setenv("LANGSMITH_ENDPOINT", "http://127.0.0.1:9")
    (check,) = (check for check in data("doctor", "-d", "nowhere/else.db")["data"] if check["name"] == "telemetry")
    assert check["status"] == "WARN"
    assert check["fix"] == "unset LANGSMITH_TRACING"


def test_doctor_rebuilds_a_lost_index_file(data: Data, database: Path) -> None:
    data("add", "I like tea", "-u", "a")
    data("search", "tea", "-u", "a")  # reads the changes; closing then writes the file
    files = list(database.parent.glob("*.index"))
    assert files
    for file in files:
        file.unlink()
    assert statuses(data("doctor"))["index"] == "OK"
    assert data("search", "tea", "-u", "a")["count"] == 1


def test_doctor_with_model_says_what_the_model_can_do(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    def reply(body: dict[str, Any]) -> Any:
        if "tools" in body:
            return "I would rather not."
        return {"facts": ["Lives in Lyon"]} if "facts" in str(body.get("response_format")) else {"city": "Lyon"}

    with OpenAIServer(reply) as server:
        monkeypatch.setenv("LANGMEM_ADAPTER_BASE_URL", server.url)
        monkeypatch.setenv("LANGMEM_ADAPTER_API_KEY", "key")
        checks = {check["name"]: check for check in data("doctor", "--model", "openai:scripted")["data"]}
        assert len(server.requests) == 3
    assert checks["model"]["detail"].endswith("profile auto")
    assert checks["schema"]["status"] == "OK"
    assert checks["tools"]["status"] == "WARN"
    assert checks["context"]["detail"] == "the server does not say how long it is"


def test_doctor_fix_makes_an_index_again_that_differs(data: Data, database: Path) -> None:
    for number in range(30):
        data("add", f"Statement {number}", "--no-infer", "-u", "a")
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE memories SET embedding = zeroblob(length(embedding)) WHERE pk % 2 = 0")
    assert statuses(data("doctor", code=5))["index"] == "FAIL"
    mended = next(check for check in data("doctor", "--fix")["data"] if check["name"] == "index")
    assert mended["status"] == "OK" and "made again" in mended["detail"]
    assert statuses(data("doctor"))["index"] == "OK"


def test_doctor_fix_makes_a_read_only_database_writable(data: Data, database: Path) -> None:
    data("add", "I like tea", "-u", "a")
    database.chmod(0o400)
    if os.geteuid():  # root may write everywhere
        assert statuses(data("doctor", code=5))["database"] == "FAIL"
    data("doctor", "--fix")
    assert database.stat().st_mode & 0o200


def test_doctor_fix_leaves_a_file_alone_that_is_no_database(data: Data, database: Path) -> None:
    database.write_text("letters")
    database.chmod(0o400)
    data("doctor", "--fix", code=5)
    assert not database.stat().st_mode & 0o200
