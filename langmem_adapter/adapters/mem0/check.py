"""Report on programs and configurations written for Mem0: `python -m langmem_adapter.adapters.mem0.check FILE…`.

Nothing is run, opened or changed. Each line that concerns Mem0 is listed: it runs as it is, it is mapped to something else, or
it is refused, with the reason. Files that end in `.py` are programs; JSON and YAML are configurations.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from langmem_adapter.adapters.mem0.configs.base import ELSEWHERE as CONFIG_ELSEWHERE
from langmem_adapter.adapters.mem0.configs.base import MemoryConfig
from langmem_adapter.adapters.mem0.memory import ELSEWHERE, Memory
from langmem_adapter.adapters.mem0.providers import Provider, provider_row, providers, read_graph_store
from langmem_adapter.adapters.threads import check_keys
from langmem_adapter.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_HERE: Final = "langmem_adapter.adapters.mem0"
_TABLES: Final = ("llm", "embedder", "reranker", "vector_store")
_KEYS: Final = tuple(inspect.signature(MemoryConfig).parameters)[:-1]
_JSON: Final = {"true": True, "false": False, "null": None}


class Finding(NamedTuple):
    """What becomes of one line."""

    line: int
    outcome: str  # "runs", "mapped" or "refused"
    text: str


def check(path: Path) -> list[Finding]:
    """What becomes of each line of a file that concerns Mem0, in their order."""
    text = path.read_text(encoding="utf-8")
    if path.suffix in {".yaml", ".yml"}:
        text = repr(importlib.import_module("yaml").safe_load(text))
    nodes = list(ast.walk(ast.parse(text, str(path))))
    memories = {ast.unparse(target) for node in nodes for target in _memories(node)}
    return sorted({finding for node in nodes for finding in _findings(node, memories)})


def main(files: list[str]) -> int:
    """Print what becomes of some files; 1 where something is refused."""
    findings = [(name, *finding) for name in files for finding in check(Path(name))]
    sys.stdout.writelines(f"{name}:{line}: {outcome}: {text}\n" for name, line, outcome, text in findings)
    return int(any(outcome == "refused" for _, _, outcome, _ in findings))


def _memories(node: ast.AST) -> list[ast.expr]:
    """What an assignment gives a memory to."""
    call = ast.unparse(node.value).partition("(")[0] if isinstance(node, ast.Assign) else ""
    return node.targets if isinstance(node, ast.Assign) and call.removesuffix(".from_config").endswith("Memory") else []


def _findings(node: ast.AST, memories: set[str]) -> Iterator[Finding]:
    if isinstance(node, ast.ImportFrom) and (module := node.module or "").partition(".")[0] == "mem0":
        for alias in node.names:
            yield _tried(node.lineno, partial(_import, f"{_HERE}{module.removeprefix('mem0')}", alias.name))
    elif isinstance(node, ast.Dict):
        entries = _entries(node)
        if any(name in _TABLES and "provider" in _entries(value) for name, value in entries.items()):
            for name, value in entries.items():
                yield from _option(name, value)
    elif isinstance(node, ast.Call):
        if ast.unparse(node.func).endswith("MemoryConfig"):
            for keyword in node.keywords:
                yield from _option(str(keyword.arg), keyword.value)
        elif isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) in memories:
            yield _tried(node.lineno, partial(_call, node, node.func.attr))


def _entries(node: ast.expr) -> dict[str, ast.expr]:
    pairs = zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ()
    return {str(key.value): value for key, value in pairs if isinstance(key, ast.Constant)}


def _tried(line: int, judge: Callable[[], tuple[str, str]]) -> Finding:
    """The outcome and text that *judge* gives, or the refusal that it raises."""
    try:
        return Finding(line, *judge())
    except (InvalidInputError, ImportError, AttributeError) as error:
        return Finding(line, "refused", str(error))


def _import(module: str, name: str) -> tuple[str, str]:
    getattr(importlib.import_module(module), name)
    return "mapped", f"from {module} import {name}"


def _option(name: str, node: ast.expr) -> Iterator[Finding]:
    """What becomes of a key of the configuration, and of the keys of its section."""
    entries = _entries(node)
    provider = _value(entries["provider"], "") if "provider" in entries else None
    finding = _tried(node.lineno, partial(_section, name, provider, node))
    yield finding
    if finding.outcome != "refused" and name in _TABLES and provider in providers(name):
        for key, value in _entries(entries.get("config", node)).items():
            if key not in {"provider", "config", "collection_name"}:
                yield _tried(value.lineno, partial(_argument, provider_row(str(provider), name), name, key, value))


def _section(name: str, provider: Any, node: ast.expr) -> tuple[str, str]:
    check_keys({name: None}, _KEYS, "config", CONFIG_ELSEWHERE)
    if name == "graph_store":
        read_graph_store(_value(node, {"provider": "sql"}))
    if name not in _TABLES or provider in {None, "", "langchain"}:
        return "runs", name
    row = provider_row(str(provider), name)
    package = f" (pip install {row.package})" if row.package else ""
    return "mapped" if row.target or row.package else "runs", f"{name}: {provider}{package}"


def _argument(row: Provider, name: str, key: str, node: ast.expr) -> tuple[str, str]:
    where, argument = f"config.{name}.config", row.names.get(key, key)
    row.arguments({key: _value(node, row.values.get(key, ["…"])[0])}, where, complete=False)
    if key in row.idle:
        return "mapped", f"{where}.{key} changes nothing: {row.idle[key]}"
    return ("runs", f"{where}.{key}") if argument == key else ("mapped", f"{where}.{key} → {argument}")


def _call(node: ast.Call, method: str) -> tuple[str, str]:
    names = {keyword.arg: None for keyword in node.keywords if keyword.arg is not None}
    check_keys(names, tuple(inspect.signature(getattr(Memory, method)).parameters)[1:], f"{method}()", ELSEWHERE)
    return "runs", f"{method}({', '.join(names)})"


def _value(node: ast.expr, otherwise: Any) -> Any:
    """What an expression is, or *otherwise* where only the running program knows."""
    if isinstance(node, ast.Name) and node.id in _JSON:
        return _JSON[node.id]
    try:
        return ast.literal_eval(node)
    except ValueError:
        return otherwise


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
