"""Experience memory: requests, their answers and scores; and a summary of a person (`reflect`).

After MetaGPT's experience pool. An experience is a memory of the type `"experience"`: its text is the request, its metadata the
rest, so it is searched, exported, versioned and purged like every other, and no fact of an `add` touches it. Unlike there,
equal requests are looked up in the database, a tag filters before ranking, and no model scores its own answers.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar, Unpack, cast, overload

from langchain_core.messages import BaseMessage, convert_to_messages

from langmem_adapter.arguments import bounded, filled, flag
from langmem_adapter.arguments import seconds as check_seconds
from langmem_adapter.errors import ConflictError, InvalidInputError, MemoryNotFoundError
from langmem_adapter.filters import parse_filter
from langmem_adapter.memory.parts import parts_of
from langmem_adapter.records.checks import as_text, check_text, quoted
from langmem_adapter.records.escapes import escape
from langmem_adapter.records.results import EXPERIENCE, Change, Decision
from langmem_adapter.records.scope import Scope, ScopeArguments
from langmem_adapter.storage import memories
from langmem_adapter.storage.scopes import id_within
from langmem_adapter.storage.write import Write
from langmem_adapter.text import is_cjk
from langmem_adapter.twins import Plan, awaited, declare_options, planned

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.records.graph import Relation
    from langmem_adapter.records.results import Hit, MemoryItem

F = TypeVar("F", bound=Callable[..., Any])

BEST: Final = 10
"""The best score; the worst is 1."""
MASK: Final = "{experiences}"
"""What `in_messages` replaces."""
_EXAMPLES: Final = 2  # experiences beside a request
_CANDIDATES: Final = 1_000  # facts with the letters of a name, among which those that name it are looked for


@dataclass(frozen=True, slots=True)
class Score:
    """How good a response is: a *value* from 1 to 10, and the *reason*."""

    value: int
    reason: str = ""

    def __post_init__(self) -> None:
        """Refuse what is no score."""
        bounded(self.value, "a score", most=BEST)
        check_text(self.reason, "the reason of a score")


@dataclass(frozen=True, slots=True)
class Experience:
    """A request and its response, as texts, with the *id* of their memory; score and seconds where they are known."""

    id: str
    request: str
    response: str
    tag: str
    score: Score | None
    seconds: float | None
    created_at: datetime

    @classmethod
    def of(cls, item: MemoryItem) -> Self:
        """The experience of a memory. What an edit by hand left of it is shown; without a response it has no score."""
        data = item.metadata
        texts = [data.get(name) for name in ("response", "tag", "reason")]
        response, tag, reason = (text if isinstance(text, str) else "" for text in texts)
        value = data.get("score") if isinstance(texts[0], str) else None
        score = Score(value, reason) if type(value) is int and 1 <= value <= BEST else None
        return cls(item.id, item.text, response, tag, score, data.get("seconds"), item.created_at)


Scorer: TypeAlias = "Callable[[str, str], Score | None]"
"""From a request and a response to a score, or `None`: by running it, by comparing it, by asking a person; not by the model
that wrote it: its 10 would make a wrong answer the cached one."""
Judge: TypeAlias = "Callable[[str, Experience], bool]"
"""Whether an experience answers a request so well that nothing has to be done again."""
Context: TypeAlias = "Callable[[Any, Sequence[Experience]], Any]"
"""A request as the function gets it, with experiences beside it; the original is not changed."""


class Serializer:
    """Turns requests and responses into texts, by default with `str()`; a response comes back as text.

    A blank request is answered and not kept.
    """

    def request(self, value: Any, /) -> str:
        """A request as text."""
        return as_text(value, "a request")

    def response(self, value: Any, /) -> str:
        """A response as text."""
        return as_text(value, "a response")

    def parse(self, text: str, /) -> Any:
        """The response that a text represents."""
        return text


class Messages(Serializer):
    """The serializer for requests that are lists of messages (LangChain's, or dicts with role and content).

    Args:
        keep: Whether a message belongs to the request; by default all do. What changes from call to call, like a clock in the
            system message, would keep requests from being equal.

    Example:
        >>> Messages(keep=lambda message: message.type == "human").request([("system", "It is noon."), ("user", "Hi")])
        '[["human", "Hi"]]'
    """

    def __init__(self, *, keep: Callable[[BaseMessage], bool] | None = None) -> None:
        self._keep = keep

    def request(self, value: Any, /) -> str:
        """The messages that belong to it, each with type and text, as JSON; blank where there are none."""
        messages = [each for each in convert_to_messages(value) if self._keep is None or self._keep(each)]
        return json.dumps([[each.type, each.text] for each in messages], ensure_ascii=False) if messages else ""

    def response(self, value: Any, /) -> str:
        """The text of a message; of anything else its `str()`."""
        return value.text if isinstance(value, BaseMessage) else str(value)


def perfect(request: str, experience: Experience, /) -> bool:
    """The default judge: the very same request, answered with the best score."""
    return experience.request == request and experience.score is not None and experience.score.value == BEST


def numbered(experiences: Sequence[Experience]) -> str:
    """Experiences as text, a line for each."""
    lines = []
    for number, each in enumerate(experiences, 1):
        text = escape(f"Given the request: {each.request}, We can get the response: {each.response}")
        score = "" if each.score is None else f", which scored: {each.score.value}"
        lines.append(f"{number}. {text}{score}.")
    return "\n".join(lines)


def in_context(request: Any, experiences: Sequence[Experience], /) -> Any:
    """The default context: the request below the experiences; without any, the request as it is."""
    if not experiences:
        return request
    return f"# Experiences\n\n{numbered(experiences)}\n\n# Request\n\n{request}"


def in_messages(request: Any, experiences: Sequence[Experience], /) -> Any:
    """The context for lists of messages: experiences in place of `MASK` in the last one; without any, the list as it is."""
    if not request or not experiences:
        return request
    *before, last = convert_to_messages(request)
    return [*before, last.model_copy(update={"content": last.text.replace(MASK, numbered(experiences))})]


class ExperienceMemory:
    """Responses to requests, to be used again or to learn from.

    A function with `cached` around it gives the kept response where the very same request was answered with the best score;
    else it gets the most similar experiences beside its request, and its answer is kept. Without a *scorer*, or a score given
    to `add`, no answer is used again. Every method but `cached` has an async twin with an `a` in front of its name.

    Args:
        memory: Where experiences are kept.
        tag: What they are filed under where a call does not say; `None`: the name of the function.
        readable: `False` finds nothing.
        writable: `False` keeps nothing.
        scorer: Scores a response, in a worker thread; see `Scorer`.
        judge: Whether an experience may be used instead of an answer.
        context: Shows experiences beside a request; `in_messages` is for lists of messages.
        serializer: Turns requests and responses into texts; `Messages()` is for lists of messages.
        user_id: The user; likewise *agent_id* and *run_id*; at least one is needed. Reads leave the others free.

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

    @declare_options(ScopeArguments)
    def __init__(
        self,
        memory: Memory,
        tag: str | None = None,
        *,
        readable: bool = True,
        writable: bool = True,
        scorer: Scorer | None = None,
        judge: Judge = perfect,
        context: Context = in_context,
        serializer: Serializer | None = None,
        **scope: Unpack[ScopeArguments],
    ) -> None:
        self._parts = parts_of(memory, type(self).__name__)
        self._memory = memory
        self.tag: Final = None if tag is None else filled(tag, "tag")
        self.scope: Final = Scope(**scope)
        self.readable = flag(readable, "readable")
        self.writable = flag(writable, "writable")
        self._scorer, self._judge, self._context = scorer, judge, context
        self._serializer = Serializer() if serializer is None else serializer

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
        """Keep an experience; the same request with the same response is kept once, with the latest score.

        The *score* is 1 to 10, or a `Score` with a reason; *seconds* are how long the response took. The change is ADD, UPDATE
        for a new score, or NONE.
        """
        texts = filled(self._request_text(request), "request"), self._response_text(response)
        return self._keep(self.scope, self._tag(tag), *texts, score, seconds)

    aadd = awaited(add)

    @planned
    def query(
        self, request: Any, *, k: int = _EXAMPLES, exact: bool = False, tag: str | None = None
    ) -> Plan[list[Experience]]:
        """The experiences with a request, or with similar ones, best first; none where the pool is not readable.

        With *exact* only those with this very request are found, the best score first and of equal ones the newest; with *tag*
        only those filed under it.
        """
        text, most = filled(self._request_text(request), "request"), bounded(k)
        if flag(exact, "exact"):
            return self._find_equal(self.scope, text, self._tag(tag)).then(lambda equal: equal[:most])
        return self._find_similar(self.scope, text, self._tag(tag), most)

    aquery = awaited(query)

    @planned
    def count(self, *, tag: str | None = None) -> Plan[int]:
        """How many experiences there are, or how many of a *tag*."""
        how: Any = {"filters": parse_filter(_conditions(self._tag(tag))), "memory_type": EXPERIENCE}
        return Plan(lambda: len(self._parts.reading(memories.matching, self.scope, **how)))

    acount = awaited(count)

    @planned
    def delete_all(self, *, tag: str | None = None) -> Plan[int]:
        """Delete the experiences, or those of a *tag*, and count them; their history stays (`Memory.purge` erases it).

        Raises:
            InvalidInputError: The pool is not writable.
        """
        if not self.writable:
            raise InvalidInputError("these experiences are read-only; delete them with writable=True")
        filters = parse_filter({"memory_type": EXPERIENCE, **_conditions(self._tag(tag))})
        reason, ledger = "all experiences were deleted by hand", self._parts.ledger
        return Plan.calling(ledger.delete_all, ledger.adelete_all, self.scope, reason=reason, filters=filters)

    adelete_all = awaited(delete_all)

    @overload
    def cached(self, function: F, /, *, tag: str | None = None) -> F: ...
    @overload
    def cached(self, function: None = None, /, *, tag: str | None = None) -> Callable[[F], F]: ...
    def cached(self, function: F | None = None, /, *, tag: str | None = None) -> F | Callable[[F], F]:
        """Put the experiences around a function, sync or async, as `@pool.cached` or `@pool.cached(tag=...)`.

        The function takes its request as the keyword `req`, and gets it as `context` shows it. A failure keeps nothing. Its
        experiences are filed under *tag*; by default the pool's, and failing that "function" or "Class.method".

        Raises:
            InvalidInputError: It is no function; or at a call (as a `ValueError`): `req` is no keyword of it.
        """
        if function is None:
            return partial(self.cached, tag=tag)
        if not callable(function):
            raise InvalidInputError(
                f"experiences go around a function, not {quoted(function)}; a tag is given as tag=..."
            )
        name = str(getattr(function, "__qualname__", type(function).__qualname__)).rpartition("<locals>.")[2]
        label = self._tag(tag) or name

        def plan(args: Sequence[Any], named: dict[str, Any]) -> Plan[Any]:
            def call(request: dict[str, Any]) -> Plan[Any]:
                run = partial(function, *args, **{**named, **request})
                return Plan(run, run)  # only the way of the function is used, sync or async

            if not (self.readable or self.writable):
                return call({})
            if "req" not in named:
                raise InvalidInputError(
                    f"{label}() takes its request as the keyword req: define it with that parameter, and write {label}(req=...)"
                )
            return self.answering(named["req"], lambda req: call({"req": req}), tag=label)

        @wraps(function)
        def run(*args: Any, **named: Any) -> Any:
            return plan(args, named).run()

        @wraps(function)
        async def arun(*args: Any, **named: Any) -> Any:
            return await plan(args, named).arun()

        return cast("F", arun if inspect.iscoroutinefunction(function) else run)

    def answering(
        self, request: Any, ask: Callable[[Any], Plan[Any]], *, tag: str | None = None, scope: Scope | None = None
    ) -> Plan[Any]:
        """A plan that answers a request from experience, or else asks and keeps the response; `cached` is made of it.

        *ask* makes a plan of the response from the request as `context` shows it; a blank request is only asked.
        """
        scope, text, label = scope or self.scope, self._request_text(request), self._tag(tag)
        if not text.strip():
            return ask(request)

        def reuse(experiences: Sequence[Experience]) -> Plan[Any] | None:
            best = next((each for each in experiences if self._judge(text, each)), None)
            return None if best is None else Plan.of(self._serializer.parse(best.response))

        def ask_beside(similar: Sequence[Experience]) -> Plan[Any]:
            answer, began = ask(self._context(request, similar)), perf_counter()
            return answer.and_then(lambda response: keep(response, perf_counter() - began))

        def keep(response: Any, took: float) -> Plan[Any]:
            if not self.writable:
                return Plan.of(response)
            answer = self._response_text(response)
            score = Plan[Any].of(None) if self._scorer is None else Plan(partial(self._scorer, text, answer))
            kept = score.and_then(lambda score: self._keep(scope, label, text, answer, score, took))
            return kept.then(lambda _: response)

        def widen(equal: Sequence[Experience]) -> Plan[Any]:
            similar = self._find_similar(scope, text, label, _EXAMPLES)
            return reuse(equal) or similar.and_then(lambda similar: reuse(similar) or ask_beside(similar))

        return self._find_equal(scope, text, label).and_then(widen)

    def _request_text(self, request: Any) -> str:
        text = check_text(self._serializer.request(request), "request")
        self._parts.longest.check_text(text, "request")  # before anything is done for what could not be kept
        return text

    def _response_text(self, response: Any) -> str:
        return check_text(self._serializer.response(response), "response")

    def _tag(self, tag: str | None) -> str | None:
        return self.tag if tag is None else filled(tag, "tag")

    def _find_equal(self, scope: Scope, request: str, tag: str | None) -> Plan[list[Experience]]:
        if not self.readable:
            return Plan.of([])

        def rank(items: Sequence[MemoryItem]) -> list[Experience]:
            equal = [each for each in map(Experience.of, items) if tag is None or each.tag == tag]
            return sorted(equal, key=lambda each: 0 if each.score is None else -each.score.value)

        return Plan(partial(self._parts.reading, memories.with_text, scope, request, EXPERIENCE)).then(rank)

    def _find_similar(self, scope: Scope, request: str, tag: str | None, k: int) -> Plan[list[Experience]]:
        if not self.readable:
            return Plan.of([])
        search: Any = {"k": k, "memory_type": EXPERIENCE, "filters": _conditions(tag), **scope.named}
        hits = Plan.calling(self._memory.search, self._memory.asearch, request, **search)
        return hits.then(lambda hits: [Experience.of(hit.item) for hit in hits])

    def _keep(
        self, scope: Scope, tag: str | None, request: str, response: str, score: Score | int | None, took: float | None
    ) -> Plan[Change]:
        if not self.writable:
            return Plan.of(Change(None, request, "NONE", reason="these experiences are read-only"))
        marks: dict[str, Any] = {} if took is None else {"seconds": check_seconds(took, "seconds")}
        if score is not None:
            score = score if isinstance(score, Score) else Score(score)
            marks |= {"score": score.value} | ({"reason": score.reason} if score.reason else {})
        memory_id = id_within(scope, json.dumps([EXPERIENCE, tag or "", request, response]))
        decide = partial(Decision, memory_type=EXPERIENCE)
        metadata = {"tag": tag or "", "response": response, **marks}
        new = decide("ADD", memory_id, request, "an experience", metadata=metadata)
        marks = {"reason": None, **marks}  # of an older score no reason is left
        if score is None:
            old = decide("NONE", memory_id, request, "known already, with the same response", metadata=marks)
        else:
            old = decide("UPDATE", memory_id, None, "scored anew", metadata=marks)

        def write() -> Write:
            exists = memory_id in self._parts.reading(memories.sequence_numbers, [memory_id])
            return Write((old if exists else new,), scope=scope, within=scope)

        # Contract: of several writers of the same experience one adds it, and the others find it; who looked before it was
        # written, or deleted, looks again.
        # tests/conversation/test_experience.py::test_an_experience_that_many_keep_at_once_is_one
        edit, overtaken = self._parts.edit, (ConflictError, MemoryNotFoundError)
        return edit(write).or_else(lambda error: edit(write) if isinstance(error, overtaken) else None)


def _conditions(tag: str | None) -> dict[str, Any]:
    return {} if tag is None else {"metadata.tag": {"eq": tag}}


# ── a summary of a person ─────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Reflection:
    """What is known about a name: the relations that hold (*nodes*), the latest first, and facts (*hits*), best first."""

    about: str
    nodes: tuple[Relation, ...]
    hits: tuple[Hit, ...]

    @property
    def text(self) -> str:
        """A line for each, with its id and those of its memories."""
        lines = [f"- {node.text} [{', '.join((node.id, *node.memory_ids))}]" for node in self.nodes]
        return "\n".join([*lines, *(f"- {hit.text} [{hit.id}]" for hit in self.hits)])


@planned
def reflect(memory: Memory, about: str, *, k: int = 10, **fields: Unpack[ScopeArguments]) -> Plan[Reflection]:
    """What is known about a person or thing, now; after MetaGPT's Stanford town, without a model.

    Args:
        memory: Where to look; relations are there with `Memory(graph=True)`, or written by hand.
        about: A name; the user's or agent's own means all facts, since these rarely contain it.
        k: At most so many facts, and so many relations.
        user_id: The user; likewise *agent_id* and *run_id*; at least one is needed, the others are then free.

    Example:
        >>> from langmem_adapter import Memory
        >>> memory = Memory(":memory:")
        >>> _ = memory.add("Klaus paints.", agent_id="town", infer=False)
        >>> print(reflect(memory, "Klaus", agent_id="town").text)
        - Klaus paints. [...]
        >>> memory.close()
    """
    parts_of(memory, "reflect")
    scope, name, most, graph = Scope(**fields), filled(about, "about"), bounded(k), memory.graph
    named: dict[str, Any] = scope.named
    search: dict[str, Any] = {"filters": {"memory_type": None}, "k": most, **named}
    pattern = re.compile("")
    if name not in {scope.user_id, scope.agent_id}:
        search |= {"filters": {"memory_type": None, "text": {"icontains": name}}, "k": max(most, _CANDIDATES)}
        word = re.escape(name) if is_cjk(name) else rf"(?<!\w){re.escape(name)}(?!\w)"  # Ann, not Anna
        pattern = re.compile(word, re.IGNORECASE)

    def add_facts(relations: Sequence[Relation]) -> Plan[Reflection]:
        hits = Plan.calling(memory.search, memory.asearch, name, **search)
        facts = hits.then(lambda hits: [hit for hit in hits if pattern.search(hit.text)][:most])
        return facts.then(lambda facts: Reflection(name, tuple(relations), tuple(facts)))

    return Plan.calling(graph.relations, graph.arelations, entity=name, k=most, **named).and_then(add_facts)


areflect = awaited(reflect)
