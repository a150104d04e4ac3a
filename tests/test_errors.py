"""The error tree: as drawn, catchable as the builtin one would expect, and fit for a process pool."""

from __future__ import annotations

import pickle
import re
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING

import pytest

from langmem_adapter import errors
from tests.cases import each

if TYPE_CHECKING:
    from collections.abc import Iterator

SAMPLES = [
    errors.LangmemAdapterError("base"),
    errors.ScopeError("user_id is missing"),
    errors.InvalidInputError("no"),
    errors.UnknownArgumentError("add() has no argument 'user'"),
    errors.FilterError("no filter"),
    errors.MemoryNotFoundError("4711"),
    errors.MemoryNotFoundError("4711", "trace"),
    errors.RelationNotFoundError("4711"),
    errors.EntityNotFoundError("Ann"),
    errors.ModelError("answered 503", hint="try again", status=503, transient=True, brief="it is down"),
    errors.ModelUnreachableError("connection refused", transient=True),
    errors.ModelReplyError("unreadable", reply="<think>"),
    errors.ModelContextError("too long", prompt_tokens=9_000, context_tokens=8_192),
    errors.ModelTimeoutError("no answer"),
    errors.EmbeddingMismatchError("other model"),
    errors.ConflictError("changed meanwhile"),
    errors.StorageError("locked", transient=True),
    errors.GraphServerError("refused the login"),
    errors.MissingDependencyError("psycopg", extra="postgres"),
    errors.MissingDependencyError("langchain-anthropic"),
]


def drawn() -> Iterator[tuple[str, set[str]]]:
    """Each class of the module docstring's tree with the bases that it is drawn with."""
    ancestors: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"^    ([│├└─ ]*)(\w+)(?:\((\w+)\))?", line)
        if found is None:
            continue
        depth = len(found[1]) // 4
        ancestors[depth:] = [found[2]]
        yield found[2], {*ancestors[depth - 1 : depth], *([found[3]] if found[3] else [])}


def actual() -> dict[str, set[str]]:
    """Each public error class with its direct bases."""
    return {name: {base.__name__ for base in getattr(errors, name).__bases__} for name in errors.__all__}


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    tree = dict(drawn())
    assert tree.pop("LangmemAdapterError") == set()
    assert tree == {name: bases for name, bases in actual().items() if name != "LangmemAdapterError"} | {
        name: bases | {"LangmemAdapterError"} for name, bases in tree.items() if "LangmemAdapterError" in bases
    }
    assert set(tree) | {"LangmemAdapterError"} == set(errors.__all__)


def test_every_error_derives_from_the_one_base() -> None:
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), errors.LangmemAdapterError)


@each("error", SAMPLES)
@each("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_survives_pickling_with_all_that_it_knows(error: Exception, protocol: int) -> None:
    again = pickle.loads(pickle.dumps(error, protocol))  # noqa: S301 - our own bytes
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.args == error.args
    assert vars(again) == vars(error)
    for name in dir(error):
        if not name.startswith("_") and not callable(getattr(error, name, callable)):
            assert getattr(again, name) == getattr(error, name), name


def test_every_error_class_has_a_sample_here() -> None:
    assert {type(sample).__name__ for sample in SAMPLES} == set(errors.__all__)


def test_an_error_comes_back_from_another_process() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        error = pool.submit(pickle.dumps, SAMPLES[-2]).result(timeout=60)
    assert vars(pickle.loads(error)) == vars(SAMPLES[-2])  # noqa: S301 - our own bytes


def test_a_missing_memory_is_named_and_its_tenant_is_not() -> None:
    error = errors.MemoryNotFoundError("4711")
    assert error.memory_id == "4711"
    assert "4711" in str(error) and "scope" in str(error)


def test_an_unreadable_reply_is_kept_but_not_at_any_length() -> None:
    assert errors.ModelReplyError("unreadable", reply="x" * 10_000).reply == "x" * 2_000
    assert errors.ModelReplyError("unreadable").reply == ""


@pytest.mark.parametrize(
    ("error", "command"),
    [
        (
            errors.MissingDependencyError("psycopg", extra="postgres"),
            "pip install 'langchain-langmem-adapter[postgres]'",
        ),
        (errors.MissingDependencyError("langchain-anthropic"), "pip install langchain-anthropic"),
    ],
)
def test_a_missing_package_comes_with_the_command_that_brings_it(
    error: errors.MissingDependencyError, command: str
) -> None:
    assert command in str(error)


def test_a_failure_is_lasting_unless_said_otherwise() -> None:
    assert not errors.StorageError("disk full").transient
    assert errors.StorageError("locked", transient=True).transient
