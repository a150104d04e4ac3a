"""Experience memory: requests, what they were answered with, and how good that was.

After MetaGPT's experience pool. An experience is a memory of the type `"experience"`: its text is the request, its metadata the
rest, so it is searched, shown, exported, versioned and purged like every other, and no fact of an `add` touches it. What is
otherwise here is a mend: equal requests are looked up in the database instead of among the two nearest, a tag narrows before
anything is cut off, nothing scores itself, times are measured, and what fails leaves nothing.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from functools import partial, wraps
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, overload

from langmem_adapter.arguments import bounded, filled, flag, seconds
from langmem_adapter.conversation import appraisal
from langmem_adapter.conversation.appraisal import (
    TEXTS,
    Experience,
    Score,
    Serializer,
    in_context,
    perfect,
)
from langmem_adapter.errors import ConflictError, InvalidInputError, MemoryNotFoundError
from langmem_adapter.filters import parse
from langmem_adapter.memory.parts import parts_of
from langmem_adapter.records.checks import check_text, quoted
from langmem_adapter.records.scope import Scope
from langmem_adapter.records.work import EXPERIENCE, Change, Decision
from langmem_adapter.storage import memories
from langmem_adapter.storage.scopes import id_within
from langmem_adapter.storage.writes import Write
from langmem_adapter.twins import Plan, awaited, planned

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langmem_adapter.conversation.appraisal import Context, Judge, Scorer
    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.records.results import MemoryItem

__all__ = ["ExperienceMemory"]

_SHOWN: Final = 2  # experiences beside a request
_OVERTAKEN: Final = (ConflictError, MemoryNotFoundError)

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")


class ExperienceMemory:
    """What requests were answered with, to be used again or to learn from.

    A function with `cached` around it gives the kept response where the very same request was answered with the best score;
    else it sees the most similar experiences beside its request, and what it answers is kept. Nothing is scored unless a
    scorer is given, or `add` is called with a score, so by default nothing is given again unseen. Every method has an async
    twin with an `a` in front of its name, but `cached`, which makes what it is given.

    Args:
        memory: Where experiences are kept.
        tag: What they are filed under where a call does not say; `None` files those of a function under its name, and asks
            about all.
        user_id: Whose experiences; at least one of the three is needed. Reads leave the others free.
        agent_id: The agent, likewise.
        run_id: The run or session, likewise.
        readable: `False` finds nothing.
        writable: `False` keeps nothing.
        scorer: Says how good a response is; `None` leaves it open. It works beside the event loop. The model that wrote a
            response is no judge of it: see `appraisal.Scorer`.
        judge: Says whether an experience may be used instead of an answer.
        context: Shows experiences beside a request.
        serializer: Turns requests and responses into texts.

    Raises:
        ScopeError: No field of the scope is given, or one is blank.
        InvalidInputError: Another argument cannot be used.

    Example:
        >>> from langmem_adapter import Memory
        >>> from langmem_adapter.conversation import ExperienceMemory, Score
        >>> memory = Memory(":memory:")
        >>> pool = ExperienceMemory(memory, agent_id="solver", scorer=lambda request, response: Score(10, "it ran"))
        >>> @pool.cached
        ... def solve(*, req):
        ...     print("thinking")
        ...     return str(eval(req))
        >>> solve(req="6 * 7"), solve(req="6 * 7")
        thinking
        ('42', '42')
        >>> pool.query("6 * 7")[0].score
        Score(value=10, reason='it ran')
        >>> memory.close()
    """

    def __init__(
        self,
        memory: Memory,
        tag: str | None = None,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        readable: bool = True,
        writable: bool = True,
        scorer: Scorer | None = None,
        judge: Judge = perfect,
        context: Context = in_context,
        serializer: Serializer = TEXTS,
    ) -> None:
        self._parts = parts_of(memory, type(self).__name__)
        self._memory = memory
        self.tag: Final = None if tag is None else filled(tag, "tag")
        self.scope: Final = Scope(user_id, agent_id, run_id)
        self.readable = flag(readable, "readable")
        self.writable = flag(writable, "writable")
        self._scorer = None if scorer is None else _usable(scorer, Callable, "scorer")
        self._judge, self._context = _usable(judge, Callable, "judge"), _usable(context, Callable, "context")
        self._serializer = _usable(serializer, Serializer, "serializer")

    @planned
    def add(
        self,
        request: Any,
        response: Any,
        *,
        score: Score | int | None = None,
        seconds: float | None = None,
        tag: str | None = None,
    ) -> Plan[Change]:
        """Keep an experience; the same request with the same response is kept once, with the score that was given last.

        Args:
            request: What was asked for.
            response: What came of it.
            score: How good that was, 1 to 10, or a `Score` with a reason.
            seconds: How long it took.
            tag: What to file it under.

        Returns:
            ADD, UPDATE for a new score, or NONE with the reason.

        Raises:
            InvalidInputError: The request is blank or too long, or an argument cannot be used.
        """
        told, filed = filled(self._told(request), "request"), self._filed(tag) or ""
        heard = check_text(self._serializer.response(response), "response")
        return self._adding(self.scope, filed, told, heard, score, seconds)

    aadd = awaited(add)

    @planned
    def query(
        self, request: Any, *, k: int = _SHOWN, exact: bool = False, tag: str | None = None
    ) -> Plan[list[Experience]]:
        """The experiences with a request, or with similar ones, best first.

        Args:
            request: What is asked for.
            k: At most so many, 1 to 10,000.
            exact: Only those with this very request, the best score first and of equal ones the newest.
            tag: Only those filed under it.

        Returns:
            None at all where the pool is not readable.
        """
        told = filled(self._told(request), "request")
        most, filed = bounded(k), self._filed(tag)
        if flag(exact, "exact"):
            return self._equal(self.scope, told, filed).then(lambda found: found[:most])
        return self._similar(self.scope, told, filed, most)

    aquery = awaited(query)

    @planned
    def count(self, *, tag: str | None = None) -> Plan[int]:
        """How many experiences there are.

        Args:
            tag: Only those filed under it.
        """
        how: Any = {"filters": parse(_conditions(self._filed(tag))), "memory_type": EXPERIENCE}
        return Plan(lambda: len(self._parts.reading(memories.matching, self.scope, **how)))

    acount = awaited(count)

    @planned
    def delete_all(self, *, tag: str | None = None) -> Plan[int]:
        """Delete the experiences, in one transaction; their history stays (`Memory.purge` erases it).

        Args:
            tag: Only those filed under it.

        Returns:
            How many there were.

        Raises:
            InvalidInputError: The pool is not writable.
        """
        if not self.writable:
            raise InvalidInputError("these experiences are for reading only; delete them with writable=True")
        filters = parse({"memory_type": EXPERIENCE, **_conditions(self._filed(tag))})
        reason, ledger = "all experiences were deleted by hand", self._parts.ledger
        return Plan.calling(ledger.delete_all, ledger.adelete_all, self.scope, reason=reason, filters=filters)

    adelete_all = awaited(delete_all)

    @overload
    def cached(self, function: F, /, *, tag: str | None = None) -> F: ...
    @overload
    def cached(self, function: None = None, /, *, tag: str | None = None) -> Callable[[F], F]: ...
    def cached(self, function: F | None = None, /, *, tag: str | None = None) -> F | Callable[[F], F]:
        """Put the experiences around a function, as `@pool.cached` or `@pool.cached(tag=...)`.

        The function takes its request as the keyword `req`, and gets it as `context` shows it. What it raises is raised and
        leaves nothing. A sync function stays one, an async one too. Where the pool neither reads nor writes, it is called as
        it is.

        Args:
            function: The function, or a method in its class.
            tag: What to file its experiences under; by default the pool's tag, and failing that "function" or "Class.method".

        Raises:
            InvalidInputError: It is no function; or at a call (as a `ValueError`): `req` is no keyword of it.
        """
        if function is None:
            return partial(self.cached, tag=tag)
        if not callable(function):
            raise InvalidInputError(
                f"experiences go around a function, not {quoted(function)}; a tag is given as tag=..."
            )
        filed = self._filed(tag) or _name(function)

        def plan(args: Sequence[Any], named: dict[str, Any]) -> Plan[Any]:
            if not (self.readable or self.writable):
                return _called(function, *args, **named)
            if "req" not in named:
                raise InvalidInputError(
                    f"{filed}() takes its request as the keyword req: define it with that parameter, and write {filed}(req=...)"
                )
            return self.answering(
                named["req"], lambda req: _called(function, *args, **{**named, "req": req}), tag=filed
            )

        @wraps(function)
        def sync(*args: Any, **named: Any) -> Any:
            return plan(args, named).run()

        @wraps(function)
        async def twin(*args: Any, **named: Any) -> Any:
            return await plan(args, named).arun()

        return cast("F", twin if inspect.iscoroutinefunction(function) else sync)

    def answering(
        self, request: Any, ask: Callable[[Any], Plan[Any]], *, tag: str | None = None, scope: Scope | None = None
    ) -> Plan[Any]:
        """A plan that answers a request from experience, or else asks, and keeps what it hears; `cached` is made of it.

        Args:
            request: What is asked for; where it is blank, it is only asked.
            ask: Makes a plan of the answer from the request as `context` shows it.
            tag: What to file it under.
            scope: Whose experiences; `None` for the pool's own.
        """
        whose, told, filed = scope or self.scope, self._told(request), self._filed(tag)
        if not told.strip():
            return ask(request)

        def fresh(found: Sequence[Experience]) -> Plan[Any]:
            answer, began = ask(self._context(request, found)), perf_counter()
            return answer.and_then(lambda heard: self._heard(whose, filed or "", told, heard, perf_counter() - began))

        def nearest(found: Sequence[Experience]) -> Plan[Any]:
            return self._again(told, found) or fresh(found)

        def equal(found: Sequence[Experience]) -> Plan[Any]:
            return self._again(told, found) or self._similar(whose, told, filed, _SHOWN).and_then(nearest)

        return self._equal(whose, told, filed).and_then(equal)

    def _told(self, request: Any) -> str:
        told = check_text(self._serializer.request(request), "request")
        self._parts.longest.check_text(told, "request")  # before anything is done for what could not be kept
        return told

    def _filed(self, tag: str | None) -> str | None:
        return self.tag if tag is None else filled(tag, "tag")

    def _equal(self, scope: Scope, request: str, tag: str | None) -> Plan[list[Experience]]:
        if not self.readable:
            return Plan.known([])
        read = partial(self._parts.reading, memories.with_text, scope, request, EXPERIENCE)
        return Plan(read).then(partial(_ranked, tag=tag))

    def _similar(self, scope: Scope, request: str, tag: str | None, k: int) -> Plan[list[Experience]]:
        if not self.readable:
            return Plan.known([])
        wanted: Any = {"k": k, "memory_type": EXPERIENCE, "filters": _conditions(tag), **scope.named}
        found = Plan.calling(self._memory.search, self._memory.asearch, request, **wanted)
        return found.then(lambda hits: [Experience.of(hit.item) for hit in hits])

    def _again(self, request: str, found: Iterable[Experience]) -> Plan[Any] | None:
        best = next((each for each in found if self._judge(request, each)), None)
        return None if best is None else Plan.known(self._serializer.parse(best.response))

    def _heard(self, scope: Scope, tag: str, request: str, response: Any, took: float) -> Plan[Any]:
        if not self.writable:
            return Plan.known(response)
        told, scorer = check_text(self._serializer.response(response), "response"), self._scorer
        scored = Plan[Any].known(None) if scorer is None else Plan(partial(scorer, request, told))
        kept = scored.and_then(lambda score: self._adding(scope, tag, request, told, score, took))
        return kept.then(lambda _: response)

    def _adding(
        self, scope: Scope, tag: str, request: str, response: str, score: Score | int | None, took: float | None
    ) -> Plan[Change]:
        if not self.writable:
            return Plan.known(Change(None, request, "NONE", reason="these experiences are for reading only"))
        said = _said(score)
        measured = {} if took is None else {"seconds": seconds(took, "seconds")}
        new = _decision("ADD", scope, tag, request, response, {"tag": tag, "response": response, **said, **measured})
        changed = {"reason": None, **said, **measured}  # of an older score no reason is left
        known = _decision("UPDATE" if said else "NONE", scope, tag, request, response, changed)

        def write() -> Write:
            exists = new.memory_id in self._parts.reading(memories.sequence_numbers, [str(new.memory_id)])
            return Write((known if exists else new,), scope=scope, within=scope)

        # Contract: of several who keep the same experience at once one adds it, and the others find it known; who looked before
        # it was written, or deleted, looks again.
        # tests/conversation/test_experience.py::test_an_experience_that_many_keep_at_once_is_one
        edit = self._parts.edit
        return edit(write).or_else(lambda error: edit(write) if isinstance(error, _OVERTAKEN) else None)


def _usable(part: R, kind: Any, name: str) -> R:
    if not isinstance(part, kind):
        raise InvalidInputError(f"the {name} of experiences cannot be {quoted(part)}; see {appraisal.__name__}")
    return part


def _decision(event: Any, scope: Scope, tag: str, request: str, response: str, metadata: dict[str, Any]) -> Decision:
    memory_id = id_within(scope, json.dumps([EXPERIENCE, tag, request, response]))
    reason = {"ADD": "an experience", "UPDATE": "scored anew", "NONE": "known already, with the same response"}[event]
    text = None if event == "UPDATE" else request
    return Decision(event, memory_id, text, reason, metadata=metadata, memory_type=EXPERIENCE)


def _said(score: Score | int | None) -> dict[str, Any]:
    if score is None:
        return {}
    score = score if isinstance(score, Score) else Score(score)
    return {"score": score.value} | ({"reason": score.reason} if score.reason else {})


def _conditions(tag: str | None) -> dict[str, Any]:
    return {} if tag is None else {"metadata.tag": {"eq": tag}}


def _ranked(items: Iterable[MemoryItem], *, tag: str | None) -> list[Experience]:
    found = [each for each in map(Experience.of, items) if tag is None or each.tag == tag]
    return sorted(found, key=lambda each: 0 if each.score is None else -each.score.value)


def _name(function: Callable[..., Any]) -> str:
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return str(name).rpartition("<locals>.")[2]


def _called(function: Callable[..., Any], *args: Any, **named: Any) -> Plan[Any]:
    call = partial(function, *args, **named)  # only one of the two ways is gone: that of the function
    return Plan(call, call)
