from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "checkpointer.py"


def test_a_thread_goes_on_where_it_stopped(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=100,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )  # fmt: skip
    assert done.stdout.splitlines() == ["Book the hotel?", "A hotel in Lyon! Booked: yes.", "3 checkpoints"], (
        done.stderr
    )
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) <= 25
