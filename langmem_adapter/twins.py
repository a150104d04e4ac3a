"""Methods written once, called sync and async.

A public method is written as a plan: it checks its arguments and says what is to be done, as a `Plan` with a sync and an
async way to the same result. `planned` makes the sync method of it and `awaited` the async twin, so that signatures,
docstrings and checks exist once. Work without an async variant (storage is synchronous) runs in a worker thread. A plan of
several steps is a generator (`steps`).
"""

from __future__ import annotations

import asyncio
import difflib
import functools
import inspect
from collections.abc import Mapping
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import dataclass, replace
from threading import Thread
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, TypeAlias, TypeVar, cast

from langmem_adapter.errors import InvalidInputError, UnknownArgumentError
from langmem_adapter.records.checks import quoted
from langmem_adapter.records.scope import ScopeArguments

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable

__all__ = [
    "Outcome",
    "Plan",
    "PlanSteps",
    "aattempt",
    "arguments_of",
    "attempt",
    "awaited",
    "declare_options",
    "in_thread",
    "planned",
    "refuse_unknown",
    "run_in_executor",
    "run_in_new_thread",
    "steps",
]

P = ParamSpec("P")
S = TypeVar("S")
R = TypeVar("R")
T = TypeVar("T")

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_NAMES_ELSEWHERE: Final = {"limit": "k", "top_k": "k"}
"""What other libraries call some of our arguments."""


class Plan(Generic[R]):
    """A call that *run* carries out and blocks, and *arun* without blocking the event loop: by default in a worker thread."""

    __slots__ = ("arun", "run")

    def __init__(self, run: Callable[[], R], arun: Callable[[], Awaitable[R]] | None = None) -> None:
        self.run = run
        self.arun = arun or functools.partial(run_in_executor, run)

    @classmethod
    def of(cls, result: R) -> Plan[R]:
        """A plan with nothing left to do."""

        async def arun() -> R:
            return result

        return cls(lambda: result, arun)

    @classmethod
    def in_new_thread(cls, run: Callable[[], R]) -> Plan[R]:
        """A plan that takes long, or waits for others (see `run_in_new_thread`)."""
        return cls(run, functools.partial(run_in_new_thread, run))

    @staticmethod
    def calling(run: Callable[P, T], arun: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> Plan[T]:
        """A plan that calls a method, or its async twin, with these arguments."""
        return Plan(functools.partial(run, *args, **kwargs), functools.partial(arun, *args, **kwargs))

    def __iter__(self) -> Generator[Plan[Any], Any, R]:
        """A step of another plan: `result = yield from plan`, see `steps`."""
        result: R = yield self
        return result

    @staticmethod
    def late(make: Callable[[], Plan[T]]) -> Plan[T]:
        """A plan that is made when it is carried out, so that its runs are children of the current run."""
        return Plan.of(None).and_then(lambda _: make())

    @classmethod
    def each(cls, make: Callable[[T], Plan[R]], items: Iterable[T]) -> Plan[list[R]]:
        """The plans that *make* gives, one after the other; each is made when its turn has come."""

        async def arun() -> list[R]:
            return [await make(item).arun() for item in items]

        return Plan(lambda: [make(item).run() for item in items], arun)

    def then(self, use: Callable[[R], T]) -> Plan[T]:
        """This plan, with *use* (quick, no I/O) making something of its result."""

        async def arun() -> T:
            return use(await self.arun())

        return Plan(lambda: use(self.run()), arun)

    def or_else(self, use: Callable[[Exception], Plan[R] | None]) -> Plan[R]:
        """This plan; where it fails, the one that *use* makes of the error, or the error itself where that is `None`."""

        def instead(outcome: Outcome[R]) -> Plan[R]:
            other = use(outcome.error) if isinstance(outcome.error, Exception) else None
            return Plan.of(outcome).then(Outcome.unwrap) if other is None else other

        return self._outcome().and_then(instead)

    def tap(self, use: Callable[[Outcome[R]], object]) -> Plan[R]:
        """This plan; *use* (quick, no I/O) gets its outcome first, also an interruption."""

        def pass_on(outcome: Outcome[R]) -> R:
            use(outcome)
            return outcome.unwrap()

        return self._outcome().then(pass_on)

    def _outcome(self) -> Plan[Outcome[R]]:
        return Plan(functools.partial(attempt, self.run), functools.partial(aattempt, self.arun))

    def and_then(self, use: Callable[[R], Plan[T]]) -> Plan[T]:
        """This plan, and after it the one that *use* makes of its result."""

        async def arun() -> T:
            return await use(await self.arun()).arun()

        return Plan(lambda: use(self.run()).run(), arun)


PlanSteps: TypeAlias = "Generator[Plan[Any], Any, R]"


def steps(function: Callable[P, PlanSteps[R]]) -> Callable[P, Plan[R]]:
    """A plan written as a generator, in which `result = yield from plan` carries out another plan.

    Between two plans it computes on the event loop, so that must be quick: slow work is a plan. An error of a plan is raised
    where it was asked for.
    """

    @functools.wraps(function)
    def make(*args: P.args, **kwargs: P.kwargs) -> Plan[R]:
        begin = functools.partial(function, *args, **kwargs)
        return Plan(functools.partial(_drive, begin), functools.partial(_adrive, begin))

    return make


def _drive(begin: Callable[[], PlanSteps[R]]) -> R:
    generator = begin()
    try:
        plan = next(generator)
        while True:
            try:
                result = plan.run()
            except BaseException as error:  # noqa: BLE001 - see the contract below
                plan = generator.throw(error)
            else:
                plan = generator.send(result)
    except StopIteration as end:
        return cast("R", end.value)


async def _adrive(begin: Callable[[], PlanSteps[R]]) -> R:
    generator = begin()
    try:
        plan = next(generator)
        while True:
            try:
                result = await plan.arun()
            except BaseException as error:  # noqa: BLE001 - the same
                plan = generator.throw(error)
            else:
                plan = generator.send(result)
    except StopIteration as end:
        return cast("R", end.value)


def planned(
    method: Callable[Concatenate[S, P], Plan[R]], *, elsewhere: Mapping[str, str] = _NOTHING
) -> Callable[Concatenate[S, P], R]:
    """The sync method of a plan; an unknown keyword argument is an error that says what is meant, or done *elsewhere*."""
    names = _keywords(method)

    @functools.wraps(method)
    def sync(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        refuse_unknown(method.__name__, kwargs, names, elsewhere)
        return method(self, *args, **kwargs).run()

    _sign(sync, method, method.__name__, method.__doc__)
    return sync


def awaited(
    method: Callable[Concatenate[S, P], R], *, name: str | None = None, elsewhere: Mapping[str, str] = _NOTHING
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """The async twin of a method made by `planned`; its name is the method's with an `a` in front, unless another is given."""
    plan: Callable[Concatenate[S, P], Plan[R]] = inspect.unwrap(method)
    names = _keywords(plan)
    name = name or f"a{plan.__name__}"

    @functools.wraps(plan)
    async def twin(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        refuse_unknown(name, kwargs, names, elsewhere)
        return await plan(self, *args, **kwargs).arun()

    _sign(twin, plan, name, f"The async twin of `{plan.__name__}`: the same arguments, results and errors.")
    return twin


# ── threads ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def run_in_executor(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run blocking work off the event loop, like `asyncio.to_thread`, also after the loop's executor was shut down."""
    call = functools.partial(copy_context().run, functools.partial(work, *args, **kwargs))
    try:
        answer = asyncio.get_running_loop().run_in_executor(None, call)
    except RuntimeError:  # it takes no more work
        answer = asyncio.wrap_future(in_thread(call))
    return await answer


async def run_in_new_thread(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run work that takes long or waits for others in a new thread: the loop's executor has few, which reads need."""
    return await asyncio.wrap_future(in_thread(functools.partial(work, *args, **kwargs)))


def in_thread(work: Callable[[], R]) -> Future[R]:
    """Begin some work, which cannot be cancelled, in a new thread; it sees the caller's context variables (traces)."""
    answer: Future[R] = Future()
    answer.set_running_or_notify_cancel()
    # Contract: a daemon, unlike the threads of concurrent.futures: work that never ends keeps no interpreter from ending.
    # tests/test_limits.py::test_a_model_that_never_answers_keeps_no_interpreter_from_ending
    Thread(target=copy_context().run, args=(_work, work, answer), daemon=True, name="langmem_adapter").start()
    return answer


def _work(work: Callable[[], R], answer: Future[R]) -> None:
    outcome = attempt(work)
    if isinstance(outcome.error, StopIteration):  # no coroutine can raise it, and asyncio never hands it on
        error = RuntimeError("StopIteration was raised where an answer was due")
        error.__cause__ = outcome.error
        outcome = replace(outcome, error=error)
    outcome.settle(answer)


# ── outcomes ────────────────────────────────────────────────────────────────────────────────────────────────────────

# Contract: in this module alone any error is caught, whatever it is: the drivers of `steps` raise it in the generator. The
# caller of an outcome passes its error to those that wait for the result, or raises it: nothing is swallowed.
# tests/test_twins.py::test_an_outcome_keeps_every_error


@dataclass(frozen=True, slots=True)
class Outcome(Generic[R]):
    """What came of a call: its result, which is of no meaning where there is an error."""

    result: R
    error: BaseException | None = None

    def unwrap(self) -> R:
        """The result; raises the error."""
        if self.error is not None:
            raise self.error
        return self.result

    def settle(self, answer: Future[R]) -> None:
        """Set the result or the error of a future."""
        if self.error is None:
            answer.set_result(self.result)
        else:
            answer.set_exception(self.error)


def attempt(call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Outcome[R]:
    """Call a function and return its result or error as an outcome."""
    try:
        return Outcome(call(*args, **kwargs))
    except BaseException as error:  # noqa: BLE001 - see the contract above
        return Outcome(cast("R", None), error)


async def aattempt(call: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> Outcome[R]:
    """The async twin of `attempt`."""
    try:
        return Outcome(await call(*args, **kwargs))
    except BaseException as error:  # noqa: BLE001 - see the contract above
        return Outcome(cast("R", None), error)


# ── signatures ───────────────────────────────────────────────────────────────────────────────────────────────────────


def full_signature(method: Callable[..., Any], options: Any = ScopeArguments, **defaults: Any) -> inspect.Signature:
    """The signature of a method, with the keyword arguments that it takes as `**name: Unpack[…]` in its place."""
    signature = inspect.signature(method)
    *own, last = signature.parameters.values() or [None]
    if last is None or last.kind is not last.VAR_KEYWORD or last.annotation != f"Unpack[{options.__name__}]":
        return signature
    declared = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=defaults.get(name),
            annotation=getattr(kind, "__forward_arg__", kind),
        )
        for name, kind in options.__annotations__.items()
    ]
    return signature.replace(parameters=[*own, *declared])


def _sign(function: Any, plan: Callable[..., Any], name: str, doc: str | None) -> None:
    signature = full_signature(plan)
    result = str(signature.return_annotation).removeprefix("Plan[").removesuffix("]")
    function.__signature__ = signature.replace(return_annotation=result)
    function.__annotations__ = {**plan.__annotations__, "return": result}
    function.__name__, function.__doc__ = name, doc
    function.__qualname__ = plan.__qualname__.removesuffix(plan.__name__) + name


def _keywords(method: Callable[..., Any]) -> frozenset[str]:
    return frozenset(full_signature(method).parameters)


def declare_options(options: Any = ScopeArguments, **defaults: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare the keyword arguments that a function takes as `**options: Unpack[…]`, with defaults other than `None`.

    `inspect.signature` names each of them; a misspelled one is a `TypeError` with a hint.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = full_signature(function, options, **defaults)
        name, names = function.__qualname__.removesuffix(".__init__"), frozenset(signature.parameters)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            refuse_unknown(name, kwargs, names)
            return function(*args, **{**defaults, **kwargs})

        call.__signature__ = signature  # type: ignore[attr-defined]
        return call

    return decorate


def refuse_unknown(
    name: str, arguments: Mapping[str, object], names: frozenset[str], elsewhere: Mapping[str, str] = _NOTHING
) -> None:
    """Refuse keyword arguments that a method does not have, with a hint at the one that was meant."""
    if arguments.keys() <= names:
        return
    unknown = next(name for name in arguments if name not in names)
    word = quoted(unknown)  # no text, where a mapping of arguments came from JSON or YAML
    near = [each for each in names if each == _NAMES_ELSEWHERE.get(unknown)]
    near = near or difflib.get_close_matches(word.strip("'"), names, n=1)
    every = ", ".join(sorted(names - {"self"}))
    hint = elsewhere.get(unknown, f"did you mean {near[0]!r}?" if near else f"known are {every}")
    raise UnknownArgumentError(f"{name}() has no argument {word}; {hint}")


def arguments_of(item: object, name: str, names: frozenset[str]) -> Mapping[str, Any]:
    """An item of a list of some method's arguments, if it is a mapping of what that method has."""
    if not isinstance(item, Mapping):
        raise InvalidInputError(f"give a mapping of {name}'s arguments, not a {type(item).__name__}")
    refuse_unknown(name, item, names)
    return item
