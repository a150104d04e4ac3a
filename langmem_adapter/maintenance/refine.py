"""Refinement of texts that offline mode stored verbatim: a chat model extracts facts from them.

Marked memories (`MemoryItem.is_verbatim`) are read, oldest first, in batches of one exact scope, each with its speaker and its
day. A batch passes through the pipeline like an `add` of these messages at their dates. Facts and records are not touched.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import func, select, update

from langmem_adapter.arguments import bounded, flag
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.knowledge.backfill import batches_of
from langmem_adapter.memory.parts import parts_of
from langmem_adapter.pipeline.parse import ParsedConversation
from langmem_adapter.pipeline.run import Run
from langmem_adapter.records.results import Change, Decision, Turn, Usage
from langmem_adapter.records.scope import Scope, as_iso, shallow
from langmem_adapter.storage.memories import by_pks, lasting
from langmem_adapter.storage.scopes import ids_within
from langmem_adapter.storage.tables import memories
from langmem_adapter.storage.write import Write
from langmem_adapter.tracing import run_config

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import Connection

    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.memory.parts import Parts
    from langmem_adapter.records.results import MemoryItem

_LETTERS: Final = 12_000  # of one batch, about 3,000 tokens
_MOST: Final = 200
_READ: Final = 2  # in `memories.related`: the text was read, and is not read again until it changes
_PENDING: Final = (
    memories.c.is_verbatim,
    memories.c.memory_type.is_(None),
    func.coalesce(memories.c.related, 0) < _READ,
)


@dataclass(frozen=True, slots=True)
class Refined:
    """What a refinement did, or what a dry run says it would take.

    Attributes:
        memories: Kept texts that were read, in a dry run those that would be.
        facts: Facts that the model found in them.
        ended: Kept texts that ended, since facts state them now.
        kept: Kept texts that stay: the model found no fact, or *keep* was given.
        skipped: Kept texts that others changed meanwhile.
        left: Kept texts that are still to be read.
        calls: Calls of the model; in a dry run at most so many, without repairs.
        usage: Model calls and tokens.
        mode: The chat model's name.
        is_dry_run: Whether nothing was done.
    """

    memories: int = 0
    facts: int = 0
    ended: int = 0
    kept: int = 0
    skipped: int = 0
    left: int = 0
    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    mode: str = ""
    is_dry_run: bool = False

    def __add__(self, other: Refined) -> Refined:
        """Both together, with the name of the first."""
        mine, its = shallow(self), shallow(other)
        return Refined(
            **{name: mine[name] if name in {"mode", "is_dry_run"} else mine[name] + its[name] for name in mine}
        )


def refine(  # noqa: PLR0913 - each is keyword-only
    memory: Memory,
    *,
    user_id: str | None = None,
    agent_id: str | None = None,
    run_id: str | None = None,
    batch: int = 20,
    limit: int | None = None,
    keep: bool = False,
    dry_run: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> Refined:
    """Let the chat model extract facts from texts that offline mode stored verbatim.

    Where it finds facts, they are added, compared and dated like those of an `add`, and the text ends with the revision "stated
    as n facts" (`Memory.history` and `as_of` still show it). Where it finds none, the text stays and is not read again. Others
    may read and write meanwhile; an interrupted refinement goes on where it stopped when it is called again.

    Args:
        memory: A memory with a chat model.
        user_id: The user; at least one of the three is needed, the others are then free.
        agent_id: The agent.
        run_id: The run or session.
        batch: Texts read in one call, 1 to 200; fewer where they are long. Those of two exact scopes are never shown together.
        limit: Read at most so many; by default all.
        keep: Leave the texts beside their facts.
        dry_run: Say how many texts there are and how many calls they take, and do nothing.
        progress: Called after each batch with the number of texts done and of all.

    Raises:
        ScopeError: No field of the scope is given, or one is blank.
        InvalidInputError: An argument cannot be used, or the memory has no chat model.
        ModelReplyError: A reply stayed unreadable; what was refined before stays refined.

    Example:
        >>> from langmem_adapter import Memory
        >>> memory = Memory(":memory:")
        >>> refine(memory, user_id="alice")
        Traceback (most recent call last):
        ...
        langmem_adapter.errors.InvalidInputError: refine asks a chat model, and there is none; give model='openai:…' or the like
        >>> memory.close()
    """
    parts, scope = parts_of(memory, "refine"), Scope(user_id, agent_id, run_id)
    if not parts.reasoner.calls_model:
        raise InvalidInputError("refine asks a chat model, and there is none; give model='openai:…' or the like")
    size, most = bounded(batch, "batch", most=_MOST), None if limit is None else bounded(limit, "limit", most=10**9)
    with parts.database.read() as connection:
        pending = _pending(connection, scope)
    chosen = pending[:most]
    rows = (
        (each[:3], each.pk, each.letters) for each in chosen
    )  # of one exact scope, with the same metadata and expiry
    batches = list(batches_of(rows, size, _LETTERS))
    nothing = Refined(left=len(pending) - len(chosen), mode=parts.reasoner.mode, is_dry_run=flag(dry_run, "dry_run"))
    if dry_run:
        return replace(nothing, memories=len(chosen), calls=2 * len(batches))
    done, total = 0, nothing
    for pks in batches:
        total += _refine_batch(parts, pks, keep=keep)
        done += len(pks)
        if progress is not None:
            progress(done, len(chosen))
    return total


def _pending(connection: Connection, scope: Scope) -> Sequence[Any]:
    """The texts to be read: those of one exact scope together, oldest statement first."""
    columns = memories.c["scope_id", "metadata", "expires_at", "pk"]
    query = select(*columns, func.length(memories.c.text).label("letters"))
    query = query.where(memories.c.scope_id.in_(ids_within(scope)), lasting(), *_PENDING)
    return connection.execute(query.order_by(memories.c.scope_id, memories.c.updated_at, memories.c.pk)).all()


def _refine_batch(parts: Parts, pks: Sequence[int], *, keep: bool) -> Refined:
    """Read one batch, write its facts, then end the texts that these state."""
    with parts.database.read() as connection:
        rows = by_pks(connection, pks)
        query = select(memories.c.pk, memories.c.seq).where(memories.c.pk.in_(pks), *_PENDING)
        seen = {row.pk: row.seq for row in connection.execute(query)}
    items = {pk: rows[pk] for pk in pks if pk in seen and pk in rows}
    skipped = Refined(skipped=len(pks) - len(items))
    if not items:
        return skipped
    run = _run(list(items.values()))
    config = run_config("memory.refine", run.scope, parts.reasoner.mode)
    output = parts.pipeline.invoke(run.state(), config)
    counts, confirmed = _stated(output)
    usage = Usage.from_json(output["result"]["usage"])
    # Contract: facts are committed before the text that states them ends: who is killed in between asks once more, and equal
    # facts are NONE. tests/maintenance/test_refine.py::test_refine_that_is_interrupted_goes_on.
    ends: list[Write] = []
    stays: list[int] = []
    for place, (pk, item) in enumerate(items.items()):
        if counts[place] and not keep and item.id not in confirmed:
            reason = f"stated as {counts[place]} fact{'s' if counts[place] > 1 else ''}"
            ends.append(Write((Decision("DELETE", item.id, None, reason, seen=seen[pk]),), within=item.scope))
        else:
            stays.append(pk)
    gone = sum(isinstance(outcome, tuple) for outcome in parts.ledger.apply_each(ends)) if ends else 0
    if stays:
        mark = update(memories).where(memories.c.pk.in_(stays), *_PENDING).values(related=_READ)
        parts.database.write(lambda connection: connection.execute(mark))
    return skipped + Refined(
        memories=len(items),
        facts=counts.total(),
        ended=gone,
        kept=len(stays),
        skipped=len(ends) - gone,
        calls=usage.model_calls,
        usage=usage,
    )


def _run(items: Sequence[MemoryItem]) -> Run:
    """The messages of a batch at their own dates, as one add, which repeated adds nothing twice."""
    speakers = [(item.role or "user", item.actor_id or item.role or "user") for item in items]
    turns = [
        Turn(role, item.text, actor, item.updated_at, dated=True)
        for item, (role, actor) in zip(items, speakers, strict=True)
    ]
    arguments: dict[str, Any] = {
        "context": None,
        "timestamp": None,
        "messages": [turn.text for turn in turns],
        "metadata": dict(items[0].metadata) or None,
        "expires_at": as_iso(items[0].expires_at),
    }
    key = blake2b("\n".join(f"{item.id} {item.revision}" for item in items).encode(), digest_size=16).hexdigest()
    conversation = ParsedConversation(arguments, [], turns)
    conversation.thread = {"on_bad_reply": "raise"}  # the words are kept already
    return Run(items[0].scope, True, None, None, f"refine {key}", True, [conversation])  # noqa: FBT003 - as `Run` names them


def _stated(output: Mapping[str, Any]) -> tuple[Counter[int], set[str | None]]:
    """The number of facts of each turn, and the memories that state one in the same words."""
    counts: Counter[int] = Counter()
    confirmed: set[str | None] = set()
    changes = [Change.from_json(change) for change in output["result"]["results"]]
    for decision, change in zip(output["decisions"], changes, strict=False):
        if change.id is not None and change.event != "DELETE" and decision["fact"] is not None:
            counts[output["facts"][decision["fact"]]["turn"]] += 1
            confirmed |= {change.id} if change.event == "NONE" else set()
    return counts, confirmed
