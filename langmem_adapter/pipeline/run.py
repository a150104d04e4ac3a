"""The pipeline as a compiled LangGraph graph, with an optional human review, and one run of it: arguments in, results out.

The review stops the graph (LangGraph's `interrupt`) with the decisions as its value, and goes on with the answer: accepted,
edited or rejected, one by one. It is before apply, so nothing is written while the run waits, and the node may run twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from langgraph.graph import END, START, StateGraph
from langgraph.types import RetryPolicy, interrupt

from langmem_adapter.arguments import filled, flag
from langmem_adapter.errors import InvalidInputError, StorageError
from langmem_adapter.names import mentions_name
from langmem_adapter.pipeline.apply import apply_stage
from langmem_adapter.pipeline.decide import decide_stage
from langmem_adapter.pipeline.extract import extract_stage
from langmem_adapter.pipeline.parse import (
    OF_ITEM,
    ParsedConversation,
    as_list,
    conversation_of,
    is_verbatim,
    key_of,
    message_of,
    parse_stage,
)
from langmem_adapter.pipeline.retrieve import Queue, in_queue, queue_of, retrieve_stage
from langmem_adapter.pipeline.state import (
    PipelineInput,
    PipelineOutput,
    PipelineState,
    begin_run,
    cost_of,
    finish_stage,
    for_caller,
    memory_texts,
    resume_run,
)
from langmem_adapter.records.checks import check_text, quoted
from langmem_adapter.records.results import PROCEDURAL, AddResult, Change, Decision, Turn, Usage
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope
from langmem_adapter.storage.sources import MessageThread
from langmem_adapter.tracing import PlanNode
from langmem_adapter.twins import Plan, arguments_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from langchain_core.messages import BaseMessage
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.types import Checkpointer

    from langmem_adapter.arguments import Longest
    from langmem_adapter.pipeline.state import Planner, StageParts
    from langmem_adapter.storage.traces import Trace


_OF_RUN: Final = ("infer", "memory_type", "prompt", "idempotency_key", "thread_id")
_ARGUMENTS: Final = frozenset((*SCOPE_FIELDS, *OF_ITEM, *_OF_RUN))


@dataclass(frozen=True, slots=True)
class Run:
    """The input of one run of the pipeline."""

    scope: Scope
    infer: bool
    memory_type: str | None
    prompt: str | None
    key: str  # names the run within its scope; new ids derive from both
    repeatable: bool  # whether the caller named the run, so that it may have happened before
    conversations: list[ParsedConversation]  # the messages, read
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
        mode, usage, trace_id = result["mode"], Usage.from_json(result["usage"]), result["trace_id"]
        pairs = zip(changes, result["notes"], strict=True)
        return [AddResult(tuple(own), mode, usage, tuple(notes), trace_id) for own, notes in pairs]


def run_of(arguments: object, longest: Longest, *, many: bool = False) -> Run:
    """The run of one `add`, or of an item of *many*: the one place where its arguments are checked."""
    arguments = arguments_of(arguments, "add", _ARGUMENTS)
    scope = Scope(**{name: arguments.get(name) for name in SCOPE_FIELDS})
    prompt, name, memory_type = (arguments.get(each) for each in ("prompt", "idempotency_key", "memory_type"))
    if prompt is not None:
        check_text(prompt, "prompt")
    if memory_type is not None and memory_type != PROCEDURAL:
        raise InvalidInputError(f"memory_type must be {PROCEDURAL!r} or left out, not {quoted(memory_type)}")
    if memory_type == PROCEDURAL and scope.agent_id is None:
        raise InvalidInputError("a procedural memory is a record of what an agent did; give agent_id")
    infer = flag(arguments.get("infer", True), "infer")
    read = conversation_of(arguments, scope=scope, longest=longest, verbatim=is_verbatim(infer, memory_type))
    run = Run(scope, infer, memory_type, prompt, key_of(name, "idempotency_key"), name is not None, [read])
    if (thread_id := arguments.get("thread_id")) is None:
        return run
    if many:
        raise InvalidInputError("add_many takes no thread_id; call add for each thread")
    thread = MessageThread(scope, filled(thread_id, "thread_id"))
    digests = {each.id: thread.digest(each.content) for each in _messages(read) if each.id}
    return replace(run, thread=thread, digests=digests)


def select_new(run: Run, longest: Longest, remembered_ids: Collection[str]) -> Run | None:
    """A run of a thread without its remembered messages, which become context; `None` where only answers to those are left.

    The last version of a message counts.
    """
    conversation, messages = run.conversations[0], _messages(run.conversations[0])
    versions = {message.id or place: place for place, message in enumerate(messages)}
    places = [versions[name] for name in dict.fromkeys(message.id or place for place, message in enumerate(messages))]
    new = [place for place in places if messages[place].id not in remembered_ids]
    if not new or (remembered_ids and not any(messages[place].type == "human" for place in new)):
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
    """Runs with their places, those joined that may share one transaction: same scope, same instructions, no name."""
    joined: dict[object, tuple[list[int], Run]] = {}
    for place, run in runs:
        group = place if run.repeatable else (run.scope, run.infer, run.memory_type, run.prompt)
        places, first = joined.setdefault(group, ([], run))
        places.append(place)
        if first is not run:
            first.conversations.extend(run.conversations)
    return list(joined.values())


# ── replay, as a dry run ────────────────────────────────────────────────────────────────────────────────────────────


def replay_state(trace: Trace) -> dict[str, Any]:
    """The graph's input for the turns of a trace, under a new name."""
    state, task = trace.state, trace.state["task"]
    if not trace.turns:
        raise InvalidInputError("there is nothing to remember: the trace has no turns")
    before = [Turn.from_json(turn) for turn in state.get("before", [])]
    items = []
    for place, item in enumerate(task["items"]):
        turns = [replace(turn, dated=True) for turn in trace.turns if turn.item == place]  # they are not said today
        messages = {**item, "messages": [turn.text for turn in turns]}
        items.append(ParsedConversation(messages, [turn for turn in before if turn.item == place], turns))
    return {"items": items, **{name: task[name] for name in ("scope", "infer", "memory_type", "prompt")}}


def dry_run_result(output: Mapping[str, Any], mode: str) -> AddResult:
    """What a run that ended before apply would have done."""
    texts, changes = memory_texts(output), list[Change]()
    for decision in map(Decision.from_json, output["decisions"]):
        before = texts.get(str(decision.memory_id))
        text = before if decision.event == "DELETE" and before is not None else decision.text or ""
        previous = before if decision.event == "UPDATE" else None
        changes.append(Change(decision.memory_id, text, decision.event, previous_text=previous, reason=decision.reason))
    notes = ("a dry run: nothing was written",)
    return AddResult(tuple(changes), mode, cost_of(output["work"]), notes)


# ── the graph ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_ACTIONS: Final = ("accept", "reject", "edit")


def review_stage(state: PipelineState) -> dict[str, Any]:
    """Stop with the decisions, resume with what became of them.

    The interrupt's value is `{"decisions": [{"number", "event", "text", "previous_text", "memory_id", "reason",
    "relations"}, …]}`. Resume with `Command(resume=…)`: `"accept"` or `"reject"` for all, or a mapping from number, as text,
    to `"accept"`, `"reject"` or `{"action": "edit", "text": …}`, which keeps the relations that the new text still speaks
    of; what is not named is accepted. A rejected decision becomes NONE. Another answer stops the run again, with what is
    wrong as `"error"` in the value.
    """
    decisions = [Decision.from_json(decision) for decision in state["decisions"]]
    open_ones = [number for number, decision in enumerate(decisions) if decision.event != "NONE"]
    if not open_ones:
        return finish_stage(state, "review")
    texts, names = memory_texts(state), ("event", "text", "memory_id", "reason", "relations")
    open_decisions = [
        {"number": number, **{name: state["decisions"][number][name] for name in names}}
        | {"previous_text": texts.get(str(decisions[number].memory_id))}
        for number in open_ones
    ]
    value: dict[str, Any] = {"decisions": open_decisions}
    answer = interrupt(value)
    while True:
        try:
            actions = _actions(answer, open_ones)
            reviewed = [_reviewed(each, actions.get(number, "accept")) for number, each in enumerate(decisions)]
        except InvalidInputError as error:
            # An error would end the node, and the answer that caused it would be replayed at every resume: ask again.
            answer = interrupt({**value, "error": str(error)})
        else:
            return {"decisions": [each.to_json() for each in reviewed], **finish_stage(state, "review")}


def _actions(answer: object, numbers: list[int]) -> dict[int, Any]:
    if isinstance(answer, str) and answer in {"accept", "reject"}:
        return dict.fromkeys(numbers, answer)
    if not isinstance(answer, Mapping):
        raise InvalidInputError(f"resume a review with 'accept', 'reject' or a mapping by number, not {answer!r}")
    for key in answer:
        if str(key) not in map(str, numbers):
            raise InvalidInputError(f"there is no decision {key!r} to review; the numbers are {numbers}")
    return {int(str(key)): action for key, action in answer.items()}


def _reviewed(decision: Decision, action: object) -> Decision:
    match action:
        case "accept" | {"action": "accept"}:
            return decision
        case "reject" | {"action": "reject"}:
            return Decision(
                "NONE", decision.memory_id, decision.text, "rejected in review", fact=decision.fact, seen=decision.seen
            )
        case {"action": "edit", "text": str(text)} if text.strip() and decision.event != "DELETE":
            relations = tuple(
                each
                for each in decision.relations
                if mentions_name(text, each.target) or mentions_name(text, each.source)
            )
            reason = f"{decision.reason}; edited in review"
            return replace(decision, text=check_text(text, "text"), reason=reason, relations=relations)
    raise InvalidInputError(
        f"a review answers each decision with one of {_ACTIONS}, an edit as {{'action': 'edit', 'text': '…'}} and never of a "
        f"DELETE; got {action!r}"
    )


_DESTINATIONS: Final = {"extract": ("retrieve", "decide"), "apply": ("retrieve", END)}  # of those that choose their own


def build_pipeline(
    parts: StageParts,
    *,
    review: bool = False,
    dry: bool = False,
    served: bool = False,
    checkpointer: Checkpointer = None,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Compile the five stages into a LangGraph graph; see `Memory.build_pipeline`.

    A *dry* one ends after decide and writes nothing. One that is *served* is run by others than `Memory.add`, so each stage
    checks the scope of the call.
    """
    graph = StateGraph(
        PipelineState, input_schema=PipelineInput, output_schema=PipelineState if dry else PipelineOutput
    )
    for name, stage in _stages(parts, dry=dry, review=review).items():
        node = for_caller(stage, begin_run if name == "parse" else resume_run) if served else stage
        graph.add_node(name, PlanNode(node), retry_policy=RETRIES, destinations=_DESTINATIONS.get(name))
    graph.add_edge(START, "parse")
    graph.add_edge("parse", "extract")
    graph.add_edge("retrieve", "decide")
    if review:
        graph.add_edge("decide", "review")
        graph.add_edge("review", "apply")
    elif not dry:
        graph.add_edge("decide", "apply")
    compiled = graph.compile(checkpointer=checkpointer, name="memory_pipeline")
    # Without it LangGraph fails to run it within a graph that is called with durability="sync".
    alone = {"__pregel_durability": "async"} if checkpointer is False else {}
    return compiled.with_config(recursion_limit=10 + 4 * parts.settings.attempts, configurable=alone)


def _stages(parts: StageParts, *, dry: bool, review: bool) -> dict[str, Planner]:
    """What the graph consists of, by name."""
    waits = not (dry or review)  # no run waits for one that never writes, nor for a person
    queue = queue_of(parts.ledger.database) if waits else Queue()
    lease = 2.5 * parts.settings.model_timeout if waits else 0.0  # decide and its repair are two calls
    stages = {
        "parse": parse_stage(parts.describer, parts.longest),
        "extract": extract_stage(parts),
        "retrieve": in_queue(retrieve_stage(parts, queue, lease=lease), queue),
        "decide": in_queue(decide_stage(parts.reasoner, graph=parts.uses_graph), queue, last=dry),
    }
    if review:
        stages["review"] = lambda state, _: Plan(partial(review_stage, state))
    if not dry:
        stages["apply"] = in_queue(apply_stage(parts), queue, last=True)
    return stages


def _worth_another_try(error: Exception) -> bool:
    # Models are asked again in `providers`. What has waited for a lock has used up `busy_timeout`, the deadline of all tries.
    return isinstance(error, StorageError) and error.transient and not error.waited


RETRIES: Final = RetryPolicy(initial_interval=0.2, max_interval=5.0, max_attempts=3, retry_on=_worth_another_try)
"""Of a failure of the database that may pass (a lost connection): three tries, 0.2 seconds and more between them."""
