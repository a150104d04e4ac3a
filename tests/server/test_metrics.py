from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.storage import jobs
from langmem_adapter.testing import ScriptedChatModel
from tests.server.conftest import ALICE, client, key

if TYPE_CHECKING:
    from pathlib import Path

    from fastapi.testclient import TestClient

PREFIX = "langmem_adapter_"


def told(http: TestClient, **headers: str) -> dict[str, float]:
    """Each sample by its name and labels, as Prometheus reads them."""
    answer = http.get("/metrics", headers=headers)
    assert answer.status_code == 200
    samples = [each for family in text_string_to_metric_families(answer.text) for each in family.samples]
    return {
        " ".join(
            [each.name.removeprefix(PREFIX), *(f"{name}={value}" for name, value in sorted(each.labels.items()))]
        ): each.value
        for each in samples
    }


def test_metrics_count_requests_operations_jobs_and_index_without_names() -> None:
    with Memory(":memory:") as memory:
        http = client(memory, auth="local", metrics=True)
        http.post("/memories", json={"messages": "I like zebrafish.", "user_id": "zebrafish", "infer": False})
        http.get("/zebrafish?user_id=zebrafish")
        http.request("ZEBRAFISH", "/memories")
        memory.parts.database.write(
            partial(jobs.submit, requests=[{"messages": "I like tea.", "user_id": "zebrafish"}], most=9)
        )
        answer, found = http.get("/metrics").text, told(http)
    assert found["http_request_duration_seconds_count method=POST route=/memories status=200"] == 1
    assert found["http_request_duration_seconds_count method=GET route= status=404"] == 1
    assert found["http_request_duration_seconds_count method=_OTHER route=/memories status=405"] == 1
    assert found["operation_duration_seconds_count error= operation=create_memory"] == 1
    assert (found["records_total operation=create_memory"], found["database_up"]) == (1, 1)
    assert (found["jobs state=waiting"], found["jobs state=running"]) == (1, 0)
    assert found["oldest_job_age_seconds"] >= 0
    assert (found["index_vectors"], found["index_lag_changes"]) == (0, 1)
    assert "process_resident_memory_bytes" in found
    assert "zebrafish" not in answer.lower()


def test_metrics_count_tokens_and_errors_of_adds() -> None:
    model = ScriptedChatModel(replies=['{"facts": [{"text": "Likes tea", "turn": 0}]}', RuntimeError("out")])
    with Memory(":memory:", model=model) as memory:
        http = client(memory, auth="local", metrics=True, loud=False)
        for status in (200, 502):
            body = {"messages": "I like tea.", "user_id": "ann"}
            assert http.post("/memories", json=body).status_code == status
        found = told(http)
    assert (found["model_calls_total"], found["records_total operation=upsert_memory"]) == (1, 1)
    assert found["operation_duration_seconds_count error=ModelError operation=upsert_memory"] == 1


def test_metrics_need_an_admin_of_everything(memory: Memory) -> None:
    http = client(memory, metrics=True)
    for shown, status in (
        ({}, 401),
        (key(memory, ALICE), 403),
        (key(memory, ALICE, "admin"), 403),
        (key(memory, None), 403),
        (key(memory, None, "admin"), 200),
    ):
        assert http.get("/metrics", headers=shown).status_code == status
    assert client(memory, auth="local").get("/metrics").status_code == 404


def test_metrics_show_database_up() -> None:
    memory = Memory(":memory:")
    http = client(memory, auth="local", metrics=True)
    http.get("/v1/health")
    memory.close()
    found = told(http)
    assert found["database_up"] == 0
    assert found["http_request_duration_seconds_count method=GET route=/v1/health status=200"] == 1


def test_metrics_refuse_a_folder_that_is_not_writable(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="metrics must be"):
        client(memory, auth="local", metrics="yes")
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path / "missing"))
    with pytest.raises(InvalidInputError, match=r"PROMETHEUS_MULTIPROC_DIR names .*missing.* make it"):
        client(memory, auth="local", metrics=True)
