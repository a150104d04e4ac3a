"""The house keeps its own rules: contracts name their proof, and any error is caught in one place alone."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = ROOT / "langmem_adapter"
FEW_CONTRACTS: Final = 40  # in the two rooms where threads, processes and files meet


def contracts() -> Iterator[tuple[str, str]]:
    """Where each comment that states a contract stands, and all of it."""
    for path in sorted(PACKAGE.rglob("*.py")):
        found = re.finditer(r"^ *# Contract:.*\n(?: *#.*\n)*", path.read_text(encoding="utf-8"), re.MULTILINE)
        for block in found:
            yield str(path.relative_to(PACKAGE)), re.sub(r"\s*#\s*", " ", block[0])


def test_every_contract_names_a_test_that_is_there() -> None:
    files = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")]
    tests = {name for text in files for name in re.findall(r"def (test_\w+)", text)}
    for where, contract in contracts():
        named = set(re.findall(r"\b(test_\w+)(?!\.py)\b", contract))
        modules = [ROOT / module for module in re.findall(r"tests/[\w/]+\.py", contract)]
        assert named & tests or any(module.exists() for module in modules), f"{where}: {contract}"
    assert sum(where.startswith(("storage", "index")) for where, _ in contracts()) >= FEW_CONTRACTS


def test_any_error_is_caught_in_one_module_alone() -> None:
    catching = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or (isinstance(node.type, ast.Name) and node.type.id in {"Exception", "BaseException"}))
    }
    assert catching == {"twins.py"}
