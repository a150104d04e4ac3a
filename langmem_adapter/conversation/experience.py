"""Experience memory: requests, their answers and scores; and a summary of a person.

Each of these can be replaced by a function (or, for the last, an object) of one's own; what is here are the defaults, and those
for requests that are lists of messages.

After MetaGPT's experience pool. An experience is a memory of the type `"experience"`: its text is the request, its metadata the
rest, so it is searched, shown, exported, versioned and purged like every other, and no fact of an `add` touches it. What is
otherwise here is a mend: equal requests are looked up in the database instead of among the two nearest, a tag narrows before
anything is cut off, nothing scores itself, times are measured, and what fails leaves nothing.

After MetaGPT's Stanford town, whose agents reflect on nodes of subject, predicate and object. No model is asked here.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeAlias, TypeVar, cast, overload, runtime_checkable

from langchain_core.messages import BaseMessage, convert_to_messages

from langmem_adapter.arguments import bounded, filled, flag, seconds
from langmem_adapter.errors import ConflictError, InvalidInputError, MemoryNotFoundError
from langmem_adapter.filters import parse_filter
from langmem_adapter.memory.parts import parts_of
from langmem_adapter.records.checks import check_text, quoted
from langmem_adapter.records.escapes import escape
from langmem_adapter.records.results import EXPERIENCE, Change, Decision
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage import memories
from langmem_adapter.storage.scopes import id_within
from langmem_adapter.storage.writes import Write
from langmem_adapter.text import is_cjk
from langmem_adapter.twins import Plan, awaited, planned

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.records.graph import Relation
    from langmem_adapter.records.results import Hit, MemoryItem

BEST: Final = 10
"""The best score; the worst is 1."""
MASK: Final = "{experiences}"
"""What `in_messages` replaces."""
_TEXTS: Final = ("response", "tag", "reason")


@dataclass(frozen=True, slots=True)
class Score:
    """How good a response is.

    Args:
        value: From 1 to 10.
        reason: Why.

    Raises:
        InvalidInputError: It is no such number, or the reason no text.
    """

    value: int
    reason: str = ""

    def __post_init__(self) -> None:
        """Refuse what is no score."""
        bounded(self.value, "a score", most=BEST)
        check_text(self.reason, "the reason of a score")


@dataclass(frozen=True, slots=True)
class Experience:
    """A request and what it was answered with.

    Attributes:
        id: Of the memory that keeps it.
        request: As it was given, as text.
        response: What came of it, as text.
        tag: What it is filed under.
        score: How good that was; `None` where nobody said.
        seconds: How long the answer took; `None` where nobody measured.
        created_at: When it was first kept.
    """

    id: str
    request: str
    response: str
    tag: str
    score: Score | None
    seconds: float | None
    created_at: datetime

    @classmethod
    def of(cls, item: MemoryItem) -> Self:
        """As it stands in a memory. What an edit by hand left of it is shown; without a response it has no score."""
        data = item.metadata
        response, tag, reason = (told if isinstance(told := data.get(name), str) else "" for name in _TEXTS)
        value = data.get("score") if isinstance(data.get("response"), str) else None
        score = Score(value, reason) if type(value) is int and 1 <= value <= BEST else None
        return cls(item.id, item.text, response, tag, score, data.get("seconds"), item.created_at)


Scorer: TypeAlias = "Callable[[str, str], Score | None]"
"""From a request and a response to how good that is, or `None`: by running it, by comparing it, by asking a person.

The model that wrote the response is no judge of it: MetaGPT lets it score itself, its 10 becomes a hit of the cache, and a
wrong answer is given again for ever.
"""
Judge: TypeAlias = "Callable[[str, Experience], bool]"
"""Whether an experience answers a request so well that nothing has to be done again."""
Context: TypeAlias = "Callable[[Any, Sequence[Experience]], Any]"
"""A request as the function gets it, with experiences beside it; the one that was given is not changed."""


@runtime_checkable
class Serializer(Protocol):
    """Turns requests and responses into texts, and texts of responses back."""

    def request(self, value: Any, /) -> str:
        """A request as text; a blank one is answered and not kept."""

    def response(self, value: Any, /) -> str:
        """A response as text."""

    def parse(self, text: str, /) -> Any:
        """The response that a text stands for."""


class Texts:
    """The plain serializer: `str()` of requests and responses; what was kept comes back as text.

    Example:
        >>> Texts().request(7), Texts().parse(Texts().response("Paris"))
        ('7', 'Paris')
    """

    def request(self, value: Any, /) -> str:
        """The request's `str()`."""
        return _text(value)

    def response(self, value: Any, /) -> str:
        """The response's `str()`."""
        return _text(value)

    def parse(self, text: str, /) -> Any:
        """The text itself."""
        return text


TEXTS: Final = Texts()
"""The default serializer."""


def perfect(request: str, experience: Experience, /) -> bool:
    """The default judge: the very same request, answered with the best score."""
    return experience.request == request and experience.score is not None and experience.score.value == BEST


def numbered(experiences: Sequence[Experience]) -> str:
    """Experiences as text, a line for each."""
    return "\n".join(f"{number}. {_told(each)}" for number, each in enumerate(experiences, 1))


def _told(experience: Experience) -> str:
    text = escape(f"Given the request: {experience.request}, We can get the response: {experience.response}")
    return f"{text}." if experience.score is None else f"{text}, which scored: {experience.score.value}."


def in_context(request: Any, experiences: Sequence[Experience], /) -> Any:
    """The default context: the request under the experiences; without any, the request as it is.

    Example:
        >>> in_context("Sort [2, 1]", [])
        'Sort [2, 1]'
    """
    if not experiences:
        return request
    return f"# Experiences\n\n{numbered(experiences)}\n\n# Request\n\n{request}"


class Messages(Texts):
    """The serializer for requests that are lists of messages (LangChain's, or dicts with role and content).

    Args:
        keep: Says of a message whether it belongs to the request; by default all do. What changes from call to call, like a
            clock in the system message, would keep equal requests from meeting.

    Example:
        >>> Messages(keep=lambda message: message.type == "human").request([("system", "It is noon."), ("user", "Hi")])
        '[["human", "Hi"]]'
        >>> Messages().request([])
        ''
    """

    def __init__(self, *, keep: Callable[[BaseMessage], bool] | None = None) -> None:
        self._keep = keep

    def request(self, value: Any, /) -> str:
        """The messages that belong to it, each with type and text, as JSON; blank where there are none."""
        messages = [each for each in convert_to_messages(value) if self._keep is None or self._keep(each)]
        return json.dumps([[each.type, each.text] for each in messages], ensure_ascii=False) if messages else ""

    def response(self, value: Any, /) -> str:
        """The text of a message; of anything else its `str()`."""
        return value.text if isinstance(value, BaseMessage) else _text(value)


def in_messages(request: Any, experiences: Sequence[Experience], /) -> Any:
    """The context for lists of messages: experiences in the place of `MASK` in the last one; without any, the list as it is.

    Example:
        >>> in_messages([], [])
        []
    """
    if not request or not experiences:
        return request
    *before, last = convert_to_messages(request)
    return [*before, last.model_copy(update={"content": last.text.replace(MASK, numbered(experiences))})]


def _text(value: object) -> str:
    try:
        return str(value)
    except ValueError:  # Python writes no number of more than 4,300 digits
        raise InvalidInputError(f"{quoted(value)} has no text; give the experiences a serializer of your own") from None


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
        how: Any = {"filters": parse_filter(_conditions(self._filed(tag))), "memory_type": EXPERIENCE}
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
        filters = parse_filter({"memory_type": EXPERIENCE, **_conditions(self._filed(tag))})
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
        raise InvalidInputError(f"the {name} of experiences cannot be {quoted(part)}; see {__name__}")
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


_READ: Final = 1_000  # facts with the letters of a name, among which those that name it are looked for


@dataclass(frozen=True, slots=True)
class Acquaintance:
    """A relation between two, with its id and those of the memories that say so; none where it was written by hand."""

    subject: str
    predicate: str
    object: str
    id: str
    filling: tuple[str, ...]

    def summary(self) -> tuple[str, str, str]:
        """Subject, predicate and object."""
        return self.subject, self.predicate, self.object


@dataclass(frozen=True, slots=True)
class Reflection:
    """What is known about somebody.

    Attributes:
        about: Who or what.
        nodes: The relations that hold, the latest first.
        hits: The facts that name it, best first.
    """

    about: str
    nodes: tuple[Acquaintance, ...]
    hits: tuple[Hit, ...]

    @property
    def text(self) -> str:
        """A line for each, with its id; what a relation rests on behind it."""
        told = [f"- {' '.join(node.summary())} [{', '.join((node.id, *node.filling))}]" for node in self.nodes]
        return "\n".join([*told, *(f"- {hit.text} [{hit.id}]" for hit in self.hits)])


@planned
def reflect(
    memory: Memory,
    about: str,
    *,
    user_id: str | None = None,
    agent_id: str | None = None,
    run_id: str | None = None,
    k: int = 10,
) -> Plan[Reflection]:
    """What is known about somebody or something, now.

    Args:
        memory: Where to look; relations are there with `Memory(graph=True)`, or written by hand.
        about: A name; that of the user or the agent means all that is known, since their facts rarely name them.
        user_id: Whose memory; at least one of the three is needed, the others are then free.
        agent_id: The agent.
        run_id: The run or session.
        k: At most so many facts, and so many relations.

    Raises:
        ScopeError: No field of the scope is given, or one is blank.
        InvalidInputError: An argument cannot be used.

    Example:
        >>> from langmem_adapter import Memory
        >>> from langmem_adapter.conversation import reflect
        >>> memory = Memory(":memory:")
        >>> _ = memory.graph.add("Klaus", "knows", "Maria", agent_id="town")
        >>> _ = memory.add("Klaus paints.", agent_id="town", infer=False)
        >>> print(reflect(memory, "Klaus", agent_id="town").text)
        - Klaus knows Maria [...]
        - Klaus paints. [...]
        >>> memory.close()
    """
    parts_of(memory, "reflect")
    scope, who, most, graph = Scope(user_id, agent_id, run_id), filled(about, "about"), bounded(k), memory.graph
    own = who in {scope.user_id, scope.agent_id}
    where = {"memory_type": None} if own else {"memory_type": None, "text": {"icontains": who}}
    named: dict[str, Any] = scope.named
    wide = most if own else max(most, _READ)
    found = Plan.calling(memory.search, memory.asearch, who, filters=where, k=wide, **named)
    name = re.compile(
        re.escape(who) if is_cjk(who) else rf"(?<!\w){re.escape(who)}(?!\w)", re.IGNORECASE
    )  # Ann, no Anna

    def put_together(known: Sequence[Relation]) -> Plan[Reflection]:
        nodes = tuple(Acquaintance(each.source, each.relation, each.target, each.id, each.memory_ids) for each in known)
        told = found.then(lambda hits: [hit for hit in hits if own or name.search(hit.text)][:most])
        return told.then(lambda hits: Reflection(who, nodes, tuple(hits)))

    related = Plan.calling(graph.relations, graph.arelations, entity=who, k=most, **named)
    return related.and_then(put_together)


areflect = awaited(reflect)
