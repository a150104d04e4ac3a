"""What the rooms of the house may hold: `make lint` compares them with the table in CONTRIBUTING, and counts contracts."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = ROOT / "langmem_adapter"
_ROW: Final = re.compile(r"^\| `(\w+)` \| ([\d,]+) \| [^|]+ \|$", re.MULTILINE)
_OWN: Final = "modules"  # of the package itself, which lie in no room


def budget() -> dict[str, int]:
    """The lines that each room may have."""
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return {room: int(lines.replace(",", "")) for room, lines in _ROW.findall(table)}


def lines() -> dict[str, int]:
    """The lines that each room has."""
    found: dict[str, int] = {}
    for path in PACKAGE.rglob("*.py"):
        inside = path.relative_to(PACKAGE).parts
        room = inside[0] if len(inside) > 1 else _OWN
        found[room] = found.get(room, 0) + len(path.read_text(encoding="utf-8").splitlines())
    return found


def told(found: Mapping[str, int], allowed: Mapping[str, int]) -> list[str]:
    """A line for each room that is over its budget, or has none."""
    return [
        f"{room}: {count:,} lines, its budget in CONTRIBUTING is {allowed.get(room, 0):,}"
        for room, count in sorted(found.items())
        if count > allowed.get(room, 0)
    ]


def main() -> int:
    """Print what is over its budget, and how many contracts there are."""
    over = told(lines(), budget())
    contracts = sum(path.read_text(encoding="utf-8").count("# Contract:") for path in PACKAGE.rglob("*.py"))
    sys.stdout.writelines(f"{line}\n" for line in [*over, f"{sum(lines().values()):,} lines, {contracts} contracts"])
    return int(bool(over))


if __name__ == "__main__":
    sys.exit(main())
