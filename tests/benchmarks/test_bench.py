"""The benchmarks run and say what they measured; how fast it was is no matter of tests."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.beside import DATA

PROGRAM = Path(__file__).with_name("run.py")


@pytest.mark.timeout(1_000)
def test_every_line_is_a_measurement_with_goal_and_verdict(tmp_path: Path) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LANGMEM_ADAPTER_")}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--quick"],
        capture_output=True, text=True, check=False, timeout=1_000, cwd=tmp_path, env=clean,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) >= 12
    assert len({line["name"] for line in lines}) == len(lines)
    for line in lines:
        assert set(line) == {"name", "value", "unit", "goal", "verdict"}
        assert math.isfinite(line["value"]) and line["unit"]
        assert (line["goal"] is None) == (line["verdict"] == "none")
        assert line["verdict"] in {"met", "missed", "none"}
    goals = {
        None,
        *"<= 4|<= 3|<= 2.3|<= 2|<= 1.3|<= 1.2|>= 8|<= 2.5|<= 0.1|<= 0.2|<= 5|>= 100".split("|"),
        *">= 5|<= 1|>= 1.2|>= 0.8|>= 0.65|>= 1".split("|"),
        *"<= 0|<= 2450|<= 2782.5|>= 0.6|>= 0.5".split("|"),
    }
    recall = {">= 0.79", ">= 0.59", ">= 0.935", ">= 0.96", ">= 0.98"}  # of the data beside the checkout
    assert {line["goal"] for line in lines} == goals | (recall if DATA.exists() else set())


def test_the_make_target_runs_this_program() -> None:
    makefile = (PROGRAM.parents[2] / "Makefile").read_text(encoding="utf-8")
    assert "tests/benchmarks/run.py" in makefile
