"""One run of the pipeline, from the caller's side: arguments in, results out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.arguments import filled, flag
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.pipeline.parse import (
    OF_ITEM,
    ParsedConversation,
    as_list,
    conversation_of,
    is_verbatim,
    key_of,
    message_of,
)
from langmem_adapter.pipeline.state import cost_of, known_texts
from langmem_adapter.records.checks import check_text, quoted
from langmem_adapter.records.results import PROCEDURAL, AddResult, Change, Decision, Turn, Usage
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope
from langmem_adapter.storage.sources import MessageThread
from langmem_adapter.twins import arguments_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from langchain_core.messages import BaseMessage

    from langmem_adapter.arguments import Longest
    from langmem_adapter.storage.traces import Trace

_OF_RUN: Final = ("infer", "memory_type", "prompt", "idempotency_key", "thread_id")
_KNOWN: Final = frozenset((*SCOPE_FIELDS, *OF_ITEM, *_OF_RUN))


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of the pipeline is given."""

    scope: Scope
    infer: bool
    memory_type: str | None
    prompt: str | None
    key: str  # names the run within its scope; new ids derive from both
    repeatable: bool  # whether the caller named the run, so that it may have happened before
    conversations: list[ParsedConversation]  # what was said, read
    thread: MessageThread | None = None  # of a single add: the thread that the messages belong to
    digests: Mapping[str, str] = field(default_factory=dict)  # what each message of the thread says, by its id

    def state(self) -> dict[str, Any]:
        """The graph's input."""
        how = {name: getattr(self, name) for name in ("infer", "memory_type", "prompt", "key")}
        return {"items": self.conversations, "scope": self.scope.named, **how}

    def results(self, output: Mapping[str, Any]) -> list[AddResult]:
        """One result per item, in order, from the graph's output."""
        result = output["result"]
        changes: list[list[Change]] = [[] for _ in self.conversations]
        for change, item in zip(result["results"], result["items"], strict=True):
            changes[item].append(Change.from_json(change))
        usage = Usage.from_json(result["usage"])
        return [
            AddResult(
                results=tuple(own),
                mode=result["mode"],
                usage=usage,
                notes=tuple(notes),
                trace_id=result["trace_id"],
            )
            for own, notes in zip(changes, result["notes"], strict=True)
        ]


def run_of(arguments: object, longest: Longest, *, many: bool = False) -> Run:
    """The run of one `add`, or of an item of *many*."""
    arguments = arguments_of(arguments, "add", _KNOWN)
    scope = Scope(**{name: arguments.get(name) for name in SCOPE_FIELDS})
    infer, prompt, named = arguments.get("infer", True), arguments.get("prompt"), arguments.get("idempotency_key")
    if prompt is not None:
        check_text(prompt, "prompt")
    memory_type = _memory_type(arguments.get("memory_type"), scope)
    infer = flag(infer, "infer")
    read = conversation_of(arguments, scope=scope, longest=longest, verbatim=is_verbatim(infer, memory_type))
    run = Run(scope, infer, memory_type, prompt, key_of(named, "idempotency_key"), named is not None, [read])
    if (thread_id := arguments.get("thread_id")) is None:
        return run
    if many:
        raise InvalidInputError("add_many takes no thread_id; give it to an add of its own")
    thread = MessageThread(scope, filled(thread_id, "thread_id"))
    digests = {each.id: thread.digest(each.content) for each in _messages(read) if each.id}
    return replace(run, thread=thread, digests=digests)


def select_new(run: Run, longest: Longest, known_ids: Collection[str]) -> Run | None:
    """A run of a thread without the messages that were remembered before (*known_ids*), which become context.

    The last version of a message counts. `None` where only answers to those are left.
    """
    conversation, messages = run.conversations[0], _messages(run.conversations[0])
    versions = {message.id or place: place for place, message in enumerate(messages)}
    places = [versions[name] for name in dict.fromkeys(message.id or place for place, message in enumerate(messages))]
    new = [place for place in places if messages[place].id not in known_ids]
    if not new or (known_ids and not any(messages[place].type == "human" for place in new)):
        return None
    if new != [*range(len(messages))]:
        verbatim = is_verbatim(run.infer, run.memory_type)
        before = [*as_list(conversation["context"])] if conversation["context"] else []
        before += [messages[place] for place in places if place not in new and not verbatim]
        messages_left = [as_list(conversation["messages"])[place] for place in new]
        narrowed = {**conversation, "messages": messages_left, "context": before}
        conversation = conversation_of(narrowed, scope=run.scope, longest=longest, verbatim=verbatim)
    ids = [messages[place].id for place in new]
    thread_id = None if run.thread is None else run.thread.thread_id
    conversation.thread = {"thread": thread_id, "digests": {id_: run.digests[id_] for id_ in ids if id_}}
    return replace(run, conversations=[conversation])


def _messages(conversation: Mapping[str, Any]) -> list[BaseMessage]:
    return [message_of(message, number) for number, message in enumerate(as_list(conversation["messages"]), start=1)]


def grouped(runs: Iterable[tuple[int, Run]]) -> list[tuple[list[int], Run]]:
    """Runs that may share one transaction, joined: same scope, same instructions, no name of their own.

    Each comes with its place among the caller's items, and goes with the places of all that it joins.
    """
    joined: dict[object, tuple[list[int], Run]] = {}
    for place, run in runs:
        group = place if run.repeatable else (run.scope, run.infer, run.memory_type, run.prompt)
        places, first = joined.setdefault(group, ([], run))
        places.append(place)
        if first is not run:
            first.conversations.extend(run.conversations)
    return list(joined.values())


def _memory_type(memory_type: object, scope: Scope) -> str | None:
    if memory_type is not None and memory_type != PROCEDURAL:
        raise InvalidInputError(f"memory_type must be {PROCEDURAL!r} or left out, not {quoted(memory_type)}")
    if memory_type == PROCEDURAL and scope.agent_id is None:
        raise InvalidInputError("a procedural memory is a record of what an agent did; give agent_id")
    return PROCEDURAL if memory_type else None


# ── once more, as a dry run ────────────────────────────────────────────────────────────────────────────────────────────


def said_again(trace: Trace) -> dict[str, Any]:
    """The graph's input that gives the turns of a trace once more, under a name of its own."""
    state, task = trace.state, trace.state["task"]
    if not trace.turns:
        raise InvalidInputError("there is nothing to remember: the trace has no turns")
    before = [Turn.from_json(turn) for turn in state.get("before", [])]
    items = []
    for place, item in enumerate(task["items"]):
        said = [replace(turn, dated=True) for turn in trace.turns if turn.item == place]  # they are not said today
        given = {**item, "messages": [turn.text for turn in said]}
        items.append(ParsedConversation(given, [turn for turn in before if turn.item == place], said))
    return {"items": items, **{name: task[name] for name in ("scope", "infer", "memory_type", "prompt")}}


def would_be(output: Mapping[str, Any], mode: str) -> AddResult:
    """What a run that ended before apply would have done."""
    known = known_texts(output)
    decisions = [Decision.from_json(decision) for decision in output["decisions"]]
    return AddResult(
        results=tuple(_change(decision, known) for decision in decisions),
        mode=mode,
        usage=cost_of(output["work"]),
        notes=("a dry run: nothing was written",),
    )


def _change(decision: Decision, known: Mapping[str, str]) -> Change:
    before = known.get(str(decision.memory_id))
    return Change(
        id=decision.memory_id,
        text=before if decision.event == "DELETE" and before is not None else decision.text or "",
        event=decision.event,
        previous_text=before if decision.event == "UPDATE" else None,
        reason=decision.reason,
    )
