import subprocess
import sys

import pytest

import langmem_adapter
import langmem_adapter.memory
from tests.cases import each

HEAVY = (
    "faiss langgraph langchain langchain_core sqlalchemy alembic numpy pydantic_settings pydantic typer rich".split()
)


@each("name", langmem_adapter.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(langmem_adapter, name) is not None


def test_what_is_listed_is_what_is_visible() -> None:
    assert dir(langmem_adapter) == sorted(langmem_adapter.__all__)
    assert len(set(langmem_adapter.__all__)) == len(langmem_adapter.__all__)


def test_the_list_is_sorted() -> None:
    assert langmem_adapter.__all__ == sorted(langmem_adapter.__all__)


def test_the_names_are_those_of_the_rooms() -> None:
    from langmem_adapter import errors
    from langmem_adapter.memory import memory
    from langmem_adapter.records import scope

    assert set(errors.__all__) <= set(langmem_adapter.__all__)
    assert langmem_adapter.Memory is langmem_adapter.memory.Memory is memory.Memory
    assert langmem_adapter.Scope is scope.Scope


def test_an_unknown_name_is_an_attribute_error() -> None:
    for room in (langmem_adapter, langmem_adapter.memory):
        with pytest.raises(AttributeError, match="Memmory"):
            _ = room.Memmory


def test_what_lives_elsewhere_is_an_import_error_that_says_where() -> None:
    for name in langmem_adapter._INTEGRATIONS:
        with pytest.raises(ImportError, match=f"write: from [a-z0-9_.]+ import {name}$") as told:
            exec(f"from langmem_adapter import {name}")  # noqa: S102 - what a user writes
        exec(str(told.value).partition("write: ")[2])  # noqa: S102 - the advice


def test_importing_the_package_imports_nothing_heavy() -> None:
    import_ = "import langmem_adapter, langmem_adapter.errors, langmem_adapter.memory"
    code = f"import sys; {import_}; print([n for n in {HEAVY!r} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
