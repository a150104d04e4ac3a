"""Tables of cases that one test goes through: an item of pytest, and its fixtures, cost more than most cases do."""

from __future__ import annotations

import functools
import inspect
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = ["each", "undated"]

_LONGEST: Final = 300
_DAY: Final = re.compile(r" \(20\d\d-\d\d-\d\d\)")


def undated(text: str) -> str:
    """A text without the days that integrations show behind each memory: "Likes tea (2026-05-01)"."""
    return _DAY.sub("", text)


def each(names: str | Sequence[str], cases: Iterable[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Run a test with each of some cases, to the last one, and tell all that failed together.

    It stands where `pytest.mark.parametrize` would, for cases that share the test's fixtures without harm.

    Args:
        names: The parameter that a case is, or the parameters whose values it is.
        cases: At least one.
    """
    table = [{names: case} if isinstance(names, str) else dict(zip(names, case, strict=True)) for case in cases]
    assert table, "a test without a case proves nothing"

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(test)
        def run(*arguments: Any, **fixtures: Any) -> None:
            with _together(len(table)) as case:
                for values in table:
                    with case(values):
                        test(*arguments, **fixtures, **values)

        @functools.wraps(test)
        async def arun(*arguments: Any, **fixtures: Any) -> None:
            with _together(len(table)) as case:
                for values in table:
                    with case(values):
                        await test(*arguments, **fixtures, **values)

        chosen: Callable[..., Any] = arun if inspect.iscoroutinefunction(test) else run
        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in table[0]]
        chosen.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return chosen

    return decorate


@contextmanager
def _together(count: int) -> Iterator[Callable[[dict[str, Any]], Any]]:
    failed: list[BaseException] = []

    @contextmanager
    def case(values: dict[str, Any]) -> Iterator[None]:
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - it is raised below
            text = ", ".join(f"{name}={value!r}" for name, value in values.items())
            error.add_note(f"with {text if len(text) <= _LONGEST else f'{text[:_LONGEST]}…'}")
            failed.append(error)

    yield case
    if failed:
        raise BaseExceptionGroup(f"{len(failed)} of {count} cases", failed)
