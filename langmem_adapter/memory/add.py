"""Adding conversations: `add`, `add_many`, background writes, traces and replays."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from langmem_adapter.arguments import bounded, each_of, memory_id_of, optional_scope
from langmem_adapter.memory.parts import MemoryMixin, each_or_refused
from langmem_adapter.pipeline.background import BackgroundWriter
from langmem_adapter.pipeline.run import Run, dry_run_result, grouped, replay_state, run_of
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage import traces
from langmem_adapter.storage.traces import TracePage
from langmem_adapter.tracing import ADDED, ADDED_EACH, Operation, run_config
from langmem_adapter.twins import Plan, awaited, planned

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from langchain_core.runnables import RunnableConfig

    from langmem_adapter.pipeline.background import FailedWrite
    from langmem_adapter.records.results import AddResult
    from langmem_adapter.records.scope import ScopeArguments
    from langmem_adapter.storage.traces import Trace


class AddMethods(MemoryMixin):
    """The methods of `Memory` that add."""

    @planned
    def add(
        self,
        messages: Any,
        *,
        context: Any = None,
        metadata: Mapping[str, Any] | None = None,
        infer: bool = True,
        memory_type: str | None = None,
        prompt: str | None = None,
        expires_at: datetime | str | None = None,
        timestamp: datetime | str | float | None = None,
        timezone: str | None = None,
        idempotency_key: str | None = None,
        thread_id: str | None = None,
        **fields: Unpack[ScopeArguments],
    ) -> Plan[AddResult]:
        """Add a conversation: extract its facts, compare them with the scope's memories, and store the result.

        Each fact ends as ADD, UPDATE, DELETE or NONE with a reason, all in one transaction. "Please forget that I …" deletes
        the memories that state it. The stages follow Mem0 (arXiv:2504.19413).

        Args:
            messages: A `str` (the user's words), a dict with `role` and `content`, a LangChain message, or a list of these. A
                dict may have `name` and `timestamp`; its own `user_id`, `agent_id` or `run_id` must equal that of the call.
                Facts of a speaker with another `name` are stored under that name and never change another speaker's.
            context: Earlier messages, in the same forms. They help a chat model to understand ("Her name is …") and are no
                source of facts; offline mode ignores them. At most the latest 20 and about 1,000 tokens are used; only the
                trace keeps them. An error with `infer=False`.
            metadata: A JSON object stored with every memory of this add; merged into memories that it updates.
            infer: `False` stores each non-system message verbatim as a new memory, without relations (`Memory.graph.backfill`
                finds these later).
            memory_type: `"procedural_memory"` makes one step-by-step record of what the agent did; needs *agent_id*.
            prompt: Replaces the extraction instructions (or those of the record) for this call; an error without a chat
                model.
            expires_at: When the new memories expire; datetime or ISO 8601. Memories that exist keep their own, with a note.
            timestamp: When the conversation took place; datetime, ISO 8601 or Unix seconds; default now. "Yesterday" is
                relative to its day at its UTC offset.
            timezone: IANA name of the zone of "today" and of times without an offset, as `"Asia/Shanghai"`; default: the
                setting `timezone`, then the system's.
            idempotency_key: Name of this add. A second call with the same key and scope changes nothing and returns the same
                result.
            thread_id: The thread of the messages. A message with an `id` is then added once. The same id with another text
                is an
                edit: memories that came only of the older text end, and what it changed is restored.
            **fields: `user_id`, `agent_id`, `run_id`: the scope; at least one. If the assistant speaks in *messages* and
                *agent_id* is set, its facts are about the agent.

        Returns:
            One `Change` per fact, changed relations if there is a knowledge graph, the mode, the usage, and notes.

        Raises:
            InvalidInputError: An argument or message is not acceptable, or longer than `max_message` or `max_text` allow.
            ModelReplyError: With `on_bad_reply="raise"`, the chat model's reply stayed unusable; nothing was written.
            ModelTimeoutError: The chat model or the embeddings did not answer in time; nothing was written.
            ConflictError: Other writers changed the same memories each time; nothing was written.

        Example:
            >>> from langmem_adapter import Memory
            >>> memory = Memory(":memory:")
            >>> [change.text for change in memory.add("My name is Desmond. I like chess.", user_id="d").results]
            ['Name is Desmond', 'Likes chess']
            >>> earlier = [("user", "I have a sister."), ("assistant", "What is her name?")]
            >>> [change.text for change in memory.add("I play the cello.", context=earlier, user_id="d").results]
            ['Plays the cello']
            >>> memory.close()
        """
        arguments = {
            "messages": messages,
            "context": context,
            "metadata": metadata,
            "infer": infer,
            "memory_type": memory_type,
            "prompt": prompt,
            "expires_at": expires_at,
            "timestamp": timestamp,
            "timezone": timezone,
            "idempotency_key": idempotency_key,
            "thread_id": thread_id,
            **fields,
        }
        run = run_of(arguments, self.parts.longest)
        operation = Operation("upsert_memory" if run.infer else "create_memory", run.scope)
        return self.parts.telemetry.observed(self.parts.add(run), operation, ADDED)

    aadd = awaited(add)

    @planned
    def add_many(self, items: Sequence[Mapping[str, Any]]) -> Plan[list[AddResult | Exception]]:
        """Add many conversations: those of one scope in one run and one transaction, different scopes at the same time.

        A chat model decides fifty facts of a scope at a time; the next fifty see the result.

        Args:
            items: Each a mapping of `add`'s arguments, without *thread_id*.

        Returns:
            For each item, in order, its result or its error. An error in the run of a scope concerns all its items, and none
            of them is written; `usage` is that of the whole run.

        Example:
            >>> from langmem_adapter import Memory
            >>> memory = Memory(":memory:")
            >>> bob, unnamed = memory.add_many(
            ...     [{"messages": "I like tea.", "user_id": "bob"}, {"messages": "I like tea."}]
            ... )
            >>> bob.results[0].text, type(unnamed).__name__
            ('Likes tea', 'ScopeError')
            >>> memory.close()
        """
        read = partial(run_of, longest=self.parts.longest, many=True)
        checked = each_or_refused("add_many", read, each_of(items, "items"))
        errors = {place: error for place, error in enumerate(checked) if not isinstance(error, Run)}
        groups = grouped((place, run) for place, run in enumerate(checked) if isinstance(run, Run))
        inputs = [run.state() for _, run in groups]
        configs = [run_config("memory.add_many", run.scope, self.parts.reasoner.mode) for _, run in groups]
        graph = self.parts.pipeline
        ran = Plan.calling(graph.batch, graph.abatch, inputs, configs, return_exceptions=True)
        plan = (ran if inputs else Plan.of([])).then(partial(_collect, len(checked), groups, errors))
        return self.parts.telemetry.observed(plan, Operation("upsert_memory"), ADDED_EACH)

    aadd_many = awaited(add_many)

    def background(
        self,
        *,
        after: float = 2.0,
        at_most: float | None = None,
        on_error: Callable[[FailedWrite], None] | None = None,
    ) -> BackgroundWriter:
        """A writer that adds the messages of a chat in the background, once the chat is quiet.

        Args:
            after: Seconds of quiet; `math.inf` writes only at `drain` and `close`.
            at_most: Seconds after which a chat is written even if it is not quiet; default ten times *after*.
            on_error: Called with each write that failed; without it, the writer's `close` raises the errors.

        Returns:
            A context manager with `add` (as here, but it returns a `Future`), `drain` and `close`. It is closed with this
            memory and at the end of the program.

        Raises:
            InvalidInputError: A time is not a number of seconds from 0, *at_most* is less than *after*, or *on_error* is not
                callable.
            StorageError: This memory is closed, or was opened before the process forked.

        Example:
            >>> from langmem_adapter import Memory
            >>> memory = Memory(":memory:")
            >>> with memory.background(after=0.01) as writer:
            ...     _ = writer.add("I have a sister.", user_id="d")
            ...     later = writer.add("Her name is Jesica.", user_id="d")
            >>> [change.text for change in later.result().by_event("ADD")]
            ['Has a sister named Jesica']
            >>> memory.close()
        """
        with self.parts.database.read():  # raises if the memory cannot be used
            writer = BackgroundWriter(self.add, self.parts.longest, after=after, at_most=at_most, on_error=on_error)
        self.parts.writers.add(writer)
        return writer

    # ── looking back ────────────────────────────────────────────────────────────────────────────────────────────────

    @planned
    def trace(self, trace_id: str, **fields: Unpack[ScopeArguments]) -> Plan[Trace]:
        """The trace of one add: messages, facts, compared memories, decisions, prompts, raw replies, times.

        Args:
            trace_id: The `trace_id` of its result; traces are kept for `Settings.trace_days`.
        """
        return self._trace(trace_id, optional_scope(fields))

    atrace = awaited(trace)

    @planned
    def traces(self, *, k: int = 50, after: str | None = None, **fields: Unpack[ScopeArguments]) -> Plan[TracePage]:
        """Summaries of the adds of a scope, newest first, page by page; `trace` has the details of one.

        Args:
            k: Adds of a page, 1 to 10,000.
            after: The `next` of the page before.

        Returns:
            A sequence of `TraceSummary`, with `next` where there are more.

        Example:
            >>> from langmem_adapter import Memory
            >>> memory = Memory(":memory:")
            >>> result = memory.add("I like tea. I have a dog.", user_id="d")
            >>> [(add.said, add.facts, add.events) for add in memory.traces(user_id="d")]
            [('I like tea. I have a dog.', 2, {'ADD': 2})]
            >>> memory.close()
        """
        read = partial(self.parts.reading, traces.page, Scope(**fields), k=bounded(k), after=after)
        return Plan(read).then(lambda page: TracePage(tuple(page[0]), page[1]))

    atraces = awaited(traces)

    @planned
    def replay(self, trace_id: str, **fields: Unpack[ScopeArguments]) -> Plan[AddResult]:
        """Run an add again as a dry run, with the current model and the current memories; nothing is written.

        Args:
            trace_id: The `trace_id` of its result.

        Returns:
            The result of adding the same messages now; a memory that it would add has no id.

        Raises:
            ModelReplyError: The chat model's reply stayed unreadable.
        """
        config: RunnableConfig = {"run_name": "memory.replay", "tags": ["langmem_adapter"]}
        graph, read = self.parts.dry_pipeline, self._trace(trace_id, optional_scope(fields))
        ran = read.and_then(lambda trace: Plan.calling(graph.invoke, graph.ainvoke, replay_state(trace), config))
        return ran.then(partial(dry_run_result, mode=self.parts.reasoner.mode))

    areplay = awaited(replay)

    def _trace(self, trace_id: str, scope: Scope | None) -> Plan[Trace]:
        return Plan(partial(self.parts.reading, traces.read, memory_id_of(trace_id, name="a trace's id"), scope))


def _collect(
    count: int,
    groups: Sequence[tuple[list[int], Run]],
    errors: Mapping[int, Exception],
    outputs: Sequence[Mapping[str, Any] | Exception],
) -> list[AddResult | Exception]:
    outcomes: dict[int, AddResult | Exception] = dict(errors)
    for (places, run), output in zip(groups, outputs, strict=True):
        results = [output] * len(places) if isinstance(output, Exception) else run.results(output)
        outcomes.update(zip(places, results, strict=True))
    return [outcomes[place] for place in range(count)]
