"""Data that lies beside the checkout and is no part of it; what needs it skips where it is absent."""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["DATA", "LOCOMO"]

DATA: Final = Path(__file__).resolve().parents[2] / "shared" / "data"
LOCOMO: Final = DATA / "locomo-dev.json"
