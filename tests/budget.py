"""The size of the package, compared with the table in CONTRIBUTING by `make lint`, and its contracts and bare participles."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = ROOT / "langmem_adapter"
_ROW: Final = re.compile(r"^\| `(\w+)` \| ([\d,]+) \| [^|]+ \|$", re.MULTILINE)
_OWN: Final = "modules"  # of the package itself, outside its packages
_PARTICIPLE: Final = re.compile("_?(told|found|said|known(?!_at$)|given|asked|meant|held|shown)(_|$)", re.IGNORECASE)
MOST_PARTICIPLES: Final = 10


def budget() -> dict[str, int]:
    """The lines that each package may have."""
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return {package: int(lines.replace(",", "")) for package, lines in _ROW.findall(table)}


def lines() -> dict[str, int]:
    """The lines that each package has."""
    sizes: dict[str, int] = {}
    for path in PACKAGE.rglob("*.py"):
        inside = path.relative_to(PACKAGE).parts
        package = inside[0] if len(inside) > 1 else _OWN
        sizes[package] = sizes.get(package, 0) + len(path.read_text(encoding="utf-8").splitlines())
    return sizes


def excess(sizes: Mapping[str, int], allowed: Mapping[str, int]) -> list[str]:
    """A line for each package that is over its budget, or has none."""
    return [
        f"{package}: {count:,} lines, its budget in CONTRIBUTING is {allowed.get(package, 0):,}"
        for package, count in sorted(sizes.items())
        if count > allowed.get(package, 0)
    ]


def participles() -> Iterator[str]:
    """Each name that is or begins with a bare participle, with its place."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = node.name
            elif isinstance(node, ast.arg):
                name = node.arg
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                name = node.id
            else:
                continue
            if _PARTICIPLE.match(name):
                yield f"{path.relative_to(ROOT)}:{node.lineno}: {name}"


def main() -> int:
    """Print what is over its budget, how many contracts there are, and with an argument every bare participle in that path."""
    wrong = excess(lines(), budget())
    names = list(participles())
    if len(names) > MOST_PARTICIPLES:
        wrong.append(f"{len(names)} names are or begin with a bare participle, at most {MOST_PARTICIPLES} may")
    texts = [path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")]
    contracts = sum(text.count("# Contract:") for text in texts)
    total = (
        f"{sum(lines().values()):,} lines in {len(texts)} modules, {contracts} contracts, {len(names)} bare participles"
    )
    listed = [name for name in names if sys.argv[1:] and name.startswith(sys.argv[1])]
    sys.stdout.writelines(f"{line}\n" for line in [*listed, *wrong, total])
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
