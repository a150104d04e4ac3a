"""The house keeps its own rules: contracts name their proof, errors are caught in one place, one word has one meaning."""

from __future__ import annotations

import ast
import inspect
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from sqlalchemy import false

import langmem_adapter
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage.erasure import belongs
from langmem_adapter.storage.tables import metadata

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = ROOT / "langmem_adapter"
FEW_CONTRACTS: Final = 40  # in the two rooms where threads, processes and files meet

SHARED_NAMES: Final = {"Memory"}  # ours, and the one that stands in for Mem0's under Mem0's own name
GERUNDS: Final = {
    "hashing",
    "ranking",
    "scoping",
    "serving",
    "spelling",
    "summarizing",
    "testing",
    "tracing",
    "working",
}
"""Names of a subject ("working memory"), not of somebody at work."""
NOBODYS: Final = {
    "changes": "numbers only, which tell every index what to forget",
    "cursors": "numbers only",
    "meta": "of the database",
    "items": "LangGraph's, which know no scopes: erased where everything is",
    "item_vectors": "the same",
    "namespaces": "the same",
    "thread_checkpoints": "the same",
    "thread_values": "the same",
    "thread_writes": "the same",
    "reembedded": "erased as a copy of the vectors of memories",
    "sessions": "go with their key, by its foreign key",
    "source_memories": "go with their message, by its foreign key",
}
"""Tables that hold nothing of a scope which an erasure would have to find there, and why."""
RIDDLES: Final = {"around", "found", "given", "roll", "said", "shelf", "shelves", "strays", "told", "town", "whose"}


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
        assert "Prove" not in contract, f"{where}: a contract names its test, no more"
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


def kinds() -> Iterator[tuple[str, str, str]]:
    """Each class, alias of a type and made type of a module: its name, where it stands, and how it is made, if in one line."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            where = str(path.relative_to(PACKAGE))
            if isinstance(node, ast.ClassDef):
                yield node.name, where, where
            elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
                if isinstance(target, ast.Name) and re.match("_?[A-Z]+[a-z]", target.id):
                    yield target.id, where, ast.unparse(node.value)


def test_no_two_public_kinds_share_a_name_and_none_is_made_twice() -> None:
    places: dict[str, list[str]] = {}
    made: dict[tuple[str, str], list[str]] = {}
    for name, where, how in kinds():
        made.setdefault((name.lstrip("_"), how), []).append(where)
        if not name.startswith("_"):
            places.setdefault(name, []).append(where)
    assert {name: where for name, where in places.items() if len(where) > 1 and name not in SHARED_NAMES} == {}
    assert {name: where for name, where in made.items() if len(where) > 1 and len({*where}) > 1} == {}


def test_modules_are_named_after_their_subject() -> None:
    names = {path.stem: path for path in PACKAGE.rglob("*.py")}
    assert RIDDLES.isdisjoint(names)
    participles = {name for name in names if re.search(r"[a-z](?:ed|ing)$", name) and not name.endswith("feed")}
    assert participles <= GERUNDS


def test_every_name_in_backticks_that_is_ours_is_there() -> None:
    """What begins with a room, a module or a class of ours, or with `memory`, `mirror` as one of these."""
    classes = {
        node.name: ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and {"mem0", "server"}.isdisjoint(path.parts)
    }
    rooms = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    for path in sorted(PACKAGE.rglob("*.py")):
        for name in re.findall(r"`(?:langmem_adapter\.)?(\w+(?:\.\w+)+)[`(]", path.read_text(encoding="utf-8")):
            first, rest = name.split(".", 1)
            meant = [f"{classes[first]}.{name}"] if first in classes else [name] if first in rooms else []
            meant += [f"{classes[kind]}.{kind}.{rest}"] if (kind := first.capitalize()) in {"Memory", "Mirror"} else []
            assert not meant or any(map(_is_there, meant)), f"{path.relative_to(PACKAGE)}: `{name}`"


def _is_there(name: str) -> bool:
    found: object = langmem_adapter
    for part in name.split("."):
        within = f"{getattr(found, '__name__', '')}.{part}"
        if part in getattr(found, "__annotations__", {}) or not isinstance(found, type | ModuleType):
            return True  # of an instance, or of a property
        if isinstance(found, ModuleType) and hasattr(found, "__path__") and find_spec(within):
            found = import_module(within)
        elif hasattr(found, part):
            found = getattr(found, part)
        else:
            return False
    return True


def test_every_table_is_erased_with_its_scope_or_says_why_not() -> None:
    unscoped = {rows.name for rows in metadata.sorted_tables if belongs(rows, Scope("ann")).compare(false())}
    assert unscoped == NOBODYS.keys()


def test_k_finds_a_test_for_every_parameter_of_memory() -> None:
    """`pytest -k NAME` finds something for each parameter of `Memory` and its methods."""
    tests = " ".join(
        re.findall(r"def (test_\w+)", "".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py")))
    )
    methods = [method for name, method in inspect.getmembers(Memory, callable) if not name.startswith("_")]
    parameters = {name for method in (Memory.__init__, *methods) for name in inspect.signature(method).parameters}
    assert {name for name in parameters - {"self"} if name not in tests} == set()
