"""Docstrings are true: their examples run, and every public name is documented and listed."""

from __future__ import annotations

import ast
import doctest
import inspect
import pkgutil
import re
import tempfile
import types
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import langmem_adapter
from tests.cases import each

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(langmem_adapter.__path__, "langmem_adapter.")
    if not module.name.rpartition(".")[2].startswith("_")
)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)


# ── docstrings ────────────────────────────────────────────────────────────────────────────────────────────────────────


@each("name", ["langmem_adapter", *MODULES])
def test_the_examples_of_a_module_are_true(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tempfile.mkdtemp(dir=tmp_path))
    failed, _ = doctest.testmod(import_module(name), optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert failed == 0, "see the captured output"


@each("name", MODULES)
def test_a_module_says_what_it_is_and_lists_what_is_public(name: str) -> None:
    module = import_module(name)
    assert (module.__doc__ or "").strip()
    listed = getattr(module, "__all__", [])
    assert len(set(listed)) == len(listed)
    assert all(hasattr(module, public) for public in listed)


SELF_EXPLANATORY = (
    "langmem_adapter.server.page.",  # a summary or a template says what each is for
    "langmem_adapter.server.mem0",
    "langmem_adapter.testing.store_contract",  # of a test, its name
    "langmem_adapter.storage.",  # internal: a name that says what it does needs no sentence
    "langmem_adapter.index.",
    "langmem_adapter.mirror.",
)


@each("name", [name for name in MODULES if not name.startswith(SELF_EXPLANATORY)])
def test_every_public_name_of_a_module_is_documented(name: str) -> None:
    module = import_module(name)
    bare = [path for path, thing in _public(module) if not _documented(thing)]
    assert bare == []


@each("name", MODULES)
def test_the_arguments_that_a_docstring_names_exist(name: str) -> None:
    wrong = {
        path: surplus
        for path, thing in _public(import_module(name))
        if (told := _described(thing)) and (surplus := told - _accepted(thing))
    }
    assert wrong == {}


def _defined(module: types.ModuleType) -> list[str]:
    """The public names that a module defines itself."""
    tree = ast.parse(inspect.getsource(module))
    names: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names += [target.id for target in targets if isinstance(target, ast.Name)]
    return [name for name in names if not name.startswith("_")]


def _public(module: types.ModuleType) -> Iterator[tuple[str, Any]]:
    """The public classes, functions and methods that a module defines, with their paths."""
    for name in getattr(module, "__all__", None) or _defined(module):
        thing = inspect.getattr_static(module, name) if hasattr(type(module), name) else getattr(module, name)
        if getattr(thing, "__module__", None) != module.__name__:
            continue
        if inspect.isclass(thing):
            yield name, thing
            yield from ((f"{name}.{part}", value) for part, value in vars(thing).items() if _is_method(part, value))
        elif inspect.isroutine(thing):
            yield name, thing


def _is_method(name: str, value: object) -> bool:
    kinds = (types.FunctionType, property, classmethod, staticmethod)
    return not name.startswith("_") and (isinstance(value, kinds) or type(value).__name__ == "cached_property")


def _documented(thing: Any) -> bool:
    doc = (inspect.unwrap(thing) if inspect.isfunction(thing) else thing).__doc__ or ""
    return bool(doc.strip()) and not doc.startswith(f"{getattr(thing, '__name__', '')}(")


def _described(thing: Any) -> set[str]:
    """The names in the `Args:` section of a docstring."""
    section = re.search(r"^Args:\n((?:    .*\n|\n)+)", f"{inspect.getdoc(thing) or ''}\n", re.MULTILINE)
    return set(re.findall(r"^    (\w+)(?: \([^)]*\))?:", section[1], re.MULTILINE)) if section else set()


def _accepted(thing: Any) -> set[str]:
    function = getattr(thing, "__func__", thing)  # of a class method or static method
    return set(inspect.signature(function).parameters) | set(getattr(thing, "model_fields", ()))


# ── the table for those who come from MetaGPT ─────────────────────────────────────────────────────────────────────────

METAGPT = """
    cause_by sent_from send_to instruct_content storage index ignore_id add add_batch get get_by_role get_by_content
    try_remember delete_newest delete clear count find_news get_by_action get_by_actions get_by_position important_memory
    working_memory model_dump recover_memory persist is_initialized search_similar clean mem_ttl threshold history knowledge
    historical_summary last_history_id is_dirty last_talk cacheable add_talk add_answer get_knowledge loads dumps to_redis_key
    set_history_summary add_history exists to_int pop_last_talk summarize get_title is_related rewrite extract_info split_texts
    is_history_available history_text memory_k create_exp query_exps delete_all_exps get_exps_count exp_cache summary
"""
"""The operations of seed 002, of MetaGPT's experience pool and of its town."""


def _from_metagpt() -> list[tuple[list[str], list[str]]]:
    page = (ROOT / "examples" / "guide" / "metagpt.md").read_text(encoding="utf-8")
    rows = [row.split(" | ") for row in page.splitlines() if row.startswith("| `")]
    return [(re.findall("`(.+?)`", theirs), re.findall("`(.+?)`", ours)) for theirs, ours, _ in rows]


def test_every_operation_of_metagpt_has_a_row_of_its_own() -> None:
    named = {name for theirs, _ in _from_metagpt() for name in theirs}
    assert set(METAGPT.split()) - named == set()


@each(("theirs", "ours"), _from_metagpt())
def test_what_takes_the_place_of_metagpts_names_exists(theirs: list[str], ours: list[str]) -> None:
    rooms = ("langmem_adapter", "langmem_adapter.conversation", "langmem_adapter.adapters.metagpt")
    places = [import_module(name) for name in (*rooms, "langmem_adapter.conversation.experience")]
    things = {name: next(getattr(place, name) for place in places if hasattr(place, name)) for name in _roots(ours)}
    wanted = [f"{ours[0]}.{name}" for name in theirs] if len(ours) == 1 and "." not in ours[0] else ours
    missing = [path for path in wanted if "." in path and not _has(things[path.split(".")[0]], path.split(".")[1])]
    assert missing == []


def _roots(paths: list[str]) -> list[str]:
    return [path.split(".")[0] for path in paths]


def _has(thing: Any, name: str) -> bool:
    """Whether a class has it, as something of its own, as a field or as an argument."""
    return hasattr(thing, name) or name in _accepted(thing)
