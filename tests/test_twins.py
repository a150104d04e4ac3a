"""Methods written once: the sync and the async one that a plan becomes."""

from __future__ import annotations

import asyncio
import inspect
import threading
from functools import partial
from typing import Any

import pytest

from langmem_adapter.errors import InvalidInputError, UnknownArgumentError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.twins import Plan, PlanSteps, aattempt, attempt, awaited, planned, steps


class Kettle:
    """Boils water, sync and async."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    @planned
    def boil(self, litres: float, *, kelvin: int = 373, tea: str | None = None) -> Plan[str]:
        """Boil some water."""
        if litres <= 0:
            raise InvalidInputError("there is no water")
        return Plan(partial(self._boiled, litres, kelvin, tea))

    aboil = awaited(boil)

    @planned
    def whistle(self) -> Plan[str]:
        """Whistle."""

        async def arun() -> str:
            await asyncio.sleep(0)
            return "tweet"

        return Plan(lambda: "TWEET", arun)

    awhistle = awaited(whistle)

    def _boiled(self, litres: float, kelvin: int, tea: str | None) -> str:
        self.threads.append(threading.get_ident())
        if tea == "coffee":
            raise InvalidInputError("that is no tea")
        return f"{litres} l at {kelvin} K, {tea}"


async def test_both_twins_give_the_same() -> None:
    kettle = Kettle()
    assert kettle.boil(1.5, kelvin=360, tea="oolong") == await kettle.aboil(1.5, kelvin=360, tea="oolong")
    assert kettle.boil(1) == "1 l at 373 K, None"


async def test_work_without_an_async_way_leaves_the_event_loop_alone() -> None:
    kettle = Kettle()
    await kettle.aboil(1)
    kettle.boil(1)
    assert kettle.threads[0] != threading.get_ident() == kettle.threads[1]


@pytest.mark.parametrize("arguments", [{"litres": 0}, {"litres": 1, "tea": "coffee"}])
async def test_both_twins_raise_the_same(arguments: Any) -> None:
    kettle = Kettle()
    with pytest.raises(InvalidInputError) as sync:
        kettle.boil(**arguments)
    with pytest.raises(InvalidInputError) as twin:
        await kettle.aboil(**arguments)
    assert str(sync.value) == str(twin.value)


async def test_nothing_is_checked_or_done_before_the_twin_is_awaited() -> None:
    waiting = Kettle().aboil(0)
    assert inspect.iscoroutine(waiting)
    with pytest.raises(InvalidInputError, match="no water"):
        await waiting


async def test_an_unknown_argument_is_named_with_what_was_meant() -> None:
    kettle: Any = Kettle()
    with pytest.raises(UnknownArgumentError, match=r"^boil\(\) has no argument 'kelvins'; did you mean 'kelvin'\?$"):
        kettle.boil(1, kelvins=300)
    with pytest.raises(
        UnknownArgumentError, match=r"^aboil\(\) has no argument 'milk'; known are kelvin, litres, tea$"
    ):
        await kettle.aboil(1, milk=True)
    with pytest.raises(TypeError):  # one and the same for those who catch the builtin
        kettle.whistle(loud=True)


def test_a_twin_says_what_it_is() -> None:
    assert inspect.iscoroutinefunction(Kettle.aboil) and not inspect.iscoroutinefunction(Kettle.boil)
    assert inspect.signature(Kettle.boil) == inspect.signature(Kettle.aboil)
    assert str(inspect.signature(Kettle.boil)) == (
        "(self, litres: 'float', *, kelvin: 'int' = 373, tea: 'str | None' = None) -> 'str'"
    )
    assert (Kettle.boil.__name__, Kettle.aboil.__name__) == ("boil", "aboil")
    assert Kettle.aboil.__qualname__ == "Kettle.aboil"
    assert Kettle.boil.__doc__ == "Boil some water."
    assert Kettle.aboil.__doc__ == "The async twin of `boil`: the same arguments, results and errors."
    assert Kettle.boil.__module__ == Kettle.aboil.__module__ == __name__


@steps
def boil_again(kettle: Kettle, litres: float) -> PlanSteps[str]:
    try:
        first = yield from Plan.calling(kettle.boil, kettle.aboil, litres)
    except InvalidInputError:
        first = "nothing"
    return first + (yield from Plan.calling(kettle.whistle, kettle.awhistle))


async def test_steps_run_one_after_the_other_and_an_error_is_raised_where_it_was_asked_for() -> None:
    kettle = Kettle()
    for litres, first in ((1, "1 l at 373 K, None"), (0, "nothing")):
        plan = boil_again(kettle, litres)
        assert (plan.run(), await plan.arun(), plan.run()) == (f"{first}TWEET", f"{first}tweet", f"{first}TWEET")


class TestOutcome:
    @pytest.mark.parametrize(
        "error", [ValueError("no"), KeyboardInterrupt(), SystemExit(3), StopIteration(), GeneratorExit()]
    )
    def test_an_outcome_keeps_every_error(self, error: BaseException) -> None:
        def fail() -> int:
            raise error

        async def afail() -> int:
            raise error

        assert attempt(fail).error is error
        if not isinstance(error, StopIteration):  # which no coroutine can raise
            assert asyncio.run(aattempt(afail)).error is error

    def test_a_result_is_kept_as_it_is(self) -> None:
        async def answer() -> list[int]:
            return given

        given = [1]
        assert attempt(lambda: given).result is given
        assert asyncio.run(aattempt(answer)).result is given


def test_a_short_misspelled_argument_gets_a_hint() -> None:
    with Memory(":memory:") as memory:
        for wrong, meant in (("run", "run_id"), ("zone", "timezone"), ("top_k", "k")):
            with pytest.raises(UnknownArgumentError, match=f"did you mean '{meant}'"):
                memory.search("tea", user_id="a", **{wrong: "x"})  # type: ignore[arg-type]
