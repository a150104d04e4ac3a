"""Facts, decisions and changes of an add, and the results that callers get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime  # noqa: TC003
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, overload

from langmem_adapter.records.display import OneLine, Table, html_table
from langmem_adapter.records.graph import Entity, GraphChanges, Relation, RelationChange, Triple
from langmem_adapter.records.scope import LIST, LOCAL_TIME, MAPPING, TIME, Form, Portable, forms, several

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langmem_adapter.records.scope import Scope
_BYTES: Final = 4  # of UTF-8 in a token: about right for scripts without an alphabet, too


@dataclass(frozen=True, slots=True)
class ModelCall(Portable):
    """One call of the chat model: what was asked, and what came back.

    Attributes:
        task: What it was for: `"facts_found"`, `"memory_decided"`, `"record steps"`, `"describe image"`, …
        messages: Role and text of each message sent.
        reply: The raw reply as text.
    """

    task: str
    messages: tuple[tuple[str, str], ...]
    reply: str

    _forms = forms(messages=Form(lambda messages: list(map(list, messages)), lambda data: tuple(map(tuple, data))))


@dataclass(frozen=True, slots=True)
class Usage(Portable):
    """What one add cost.

    Attributes:
        model_calls: Answered calls of the chat model, repairs included.
        input_tokens: Tokens sent, as far as the model reports them.
        output_tokens: Tokens received, likewise.
        milliseconds: Time spent in each stage, by its name.
        calls: The calls themselves; only within the pipeline and in traces, results leave them out.
    """

    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    milliseconds: Mapping[str, float] = field(default_factory=dict)
    calls: tuple[ModelCall, ...] = field(default=(), compare=False)

    _forms = forms(milliseconds=MAPPING, calls=several(ModelCall))

    def __add__(self, other: Usage) -> Usage:
        """Both together."""
        stages = {**self.milliseconds, **other.milliseconds}
        return Usage(
            self.model_calls + other.model_calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            {name: self.milliseconds.get(name, 0) + other.milliseconds.get(name, 0) for name in stages},
            self.calls + other.calls,
        )


def tokens_in(text: str) -> int:
    """About how many tokens a text has.

    Example:
        >>> tokens_in("Lives in Lyon"), tokens_in("住在里昂，喜欢绿茶")
        (4, 7)
    """
    return -(-len(text.encode()) // _BYTES)


def take_fitting_texts(texts: Iterable[str], *, each: int, most: int) -> list[str]:
    """The first of some texts, the most important first, as many as fit into *most* tokens; each is cut to *each* tokens."""
    kept: list[str] = []
    for text in texts:
        cut = text if tokens_in(text) <= each else f"{text.encode()[: _BYTES * (each - 1)].decode(errors='ignore')}…"
        most -= tokens_in(cut)
        if most < 0:
            break
        kept.append(cut)
    return kept


Event = Literal["ADD", "UPDATE", "DELETE", "NONE"]
EVENTS: Final[tuple[Event, ...]] = ("ADD", "UPDATE", "DELETE", "NONE")
PROCEDURAL: Final = "procedural_memory"
"""The `memory_type` of a step-by-step record of what an agent did (seed 004 §1.3)."""
MESSAGE: Final = "message"
"""That of a message of a conversation, kept word for word."""
EXPERIENCE: Final = "experience"
"""That of a request and what it was answered with.

A memory of any type is a record: facts, which have none, are never compared with it, and neither change nor end it.
"""

FORGET: Final = "Forget: "
"""How a fact begins that asks to forget what follows; it deletes memories and never becomes one."""
UNCLEAR: Final = "no memory matches the forget request"
"""Why such a fact changes nothing."""


@dataclass(frozen=True, slots=True)
class ToolCall(Portable):
    """A tool that was called."""

    name: str
    arguments: str  # JSON text, as the model wrote it; it may be broken
    id: str = ""  # of the call, which its result names; may be empty


@dataclass(frozen=True, slots=True)
class Turn(Portable):
    """One message of a conversation, reduced to what a memory can come from."""

    role: str  # `"user"`, `"assistant"`, `"system"` or `"tool"`
    text: str  # images are already replaced by words
    actor: str  # the speaker's name, or the role where no name is known
    time: datetime  # with the speaker's UTC offset
    item: int = 0  # which item of an `add_many` it belongs to; 0 for a single `add`
    notes: tuple[str, ...] = ()  # what could not be used of the message, in words (an image without `vision=True`)
    calls: tuple[ToolCall, ...] = ()  # the tools that were called in it
    answers: str = ""  # the id of the call that a tool's turn is the result of; empty where none is named
    failed: bool = False  # whether that call failed
    dated: bool = False  # whether its time was given; else that is when the add began
    id: str = ""  # of the message; empty where it has none

    _forms = forms(time=LOCAL_TIME, notes=LIST, calls=several(ToolCall))


@dataclass(frozen=True, slots=True)
class Fact(Portable):
    """One short statement worth remembering, before it is compared with what is known."""

    text: str  # the statement, in the language of the conversation
    turn: int  # index of the turn that it came from
    context: str = ""  # the words of that turn, where no other fact came from it: evidence, and words to find it by
    verbatim: bool = False  # stored as it is, without comparison (`infer=False` and procedural records)
    relations: tuple[Triple, ...] = ()  # what it says of things and their relations, for the knowledge graph
    date: str | None = None  # the day that it speaks of, in ISO 8601, where one is said
    speaker: str = ""  # the named speaker, where that is another one than the scope's own; else blank
    unattributed: bool = False  # several people speak, and it is unknown which of them says it
    is_quotation: bool = False  # the user's own words: compared with equal texts only (`MemoryItem.is_verbatim`)

    _forms = forms(relations=several(Triple))


@dataclass(frozen=True, slots=True)
class Decision(Portable):
    """What to do with one fact or memory: the only input of `ledger.apply`.

    Attributes:
        memory_id: The memory that is changed, removed or confirmed. Only an ADD that restores a memory names one.
        text: The new text (ADD, UPDATE; `None` keeps the present one), or the fact (DELETE, NONE).
        fact: Index of the fact that it answers; `None` for direct edits.
        context: Texts around it, nearest first (`storage.lexical.join_context`); `None` keeps the present ones.
        metadata: Keys to merge into the memory's metadata (a value of `None` removes a key); `None` keeps them.
        time: The date of the statement, at the speaker's UTC offset: the new text is true from then on; what is deleted, and
            relations that the memory no longer states, end then. Without it, that is now, and those relations are withdrawn.
        seen: Number of the memory's last change when it was decided; a later change is a conflict. `None`: not checked.
        relations: The relations that the fact states; the memory that holds it then supports them.
        successor_id: The memory that takes over the relations of a deleted one.
        past_of: The current memory, if the statement is older: an ADD becomes a closed memory with a new id, true from
            *time* until the next statement of the same memory; a DELETE ends at *time* what was true then. The current memory
            stays. Needs *time*.
        after: The same, for the memory that the fact of this index in the same list results in; if it results in none, the last
            decision that names it becomes the current one. A NONE confirms it at its own date.
        dated: A NONE confirms at *time* what the memory says, and that is recorded.
        source: The id of the message that states it, if it has one.
        is_verbatim: The new text is the user's own words, see `MemoryItem`.
        utc_offset: The speaker's in minutes, if *time* does not have it.
    """

    event: Event
    memory_id: str | None
    text: str | None
    reason: str = ""
    fact: int | None = None
    context: str | None = None
    metadata: Mapping[str, Any] | None = None
    memory_type: str | None = None
    actor_id: str | None = None
    role: str | None = None
    time: datetime | None = None
    expires_at: datetime | None = None
    keep_expiry: bool = True
    replace_metadata: bool = False
    seen: int | None = None
    relations: tuple[Triple, ...] = ()
    successor_id: str | None = None
    past_of: str | None = None
    after: int | None = None
    dated: bool = False
    source: str | None = None
    is_verbatim: bool = False
    utc_offset: int | None = None

    _forms = forms(relations=several(Triple), metadata=MAPPING, time=LOCAL_TIME, expires_at=TIME)


@dataclass(frozen=True, slots=True, repr=False)
class Change(OneLine, Portable):
    """What became of one fact.

    Attributes:
        id: The memory concerned; `None` only for a NONE that concerns no memory, and for an ADD in a dry run.
        text: Its text now (ADD, UPDATE), its last text (DELETE), or the fact that changed nothing (NONE).
        event: `"ADD"`, `"UPDATE"`, `"DELETE"` or `"NONE"`.
        previous_text: The text before an UPDATE.
        reason: Why.
        relations: What became of relations of the knowledge graph with it.
        valid_to: When the fact ended, where it had ended already. It is in the history only: `Memory.search(as_of=…)` finds it,
            `Memory.restore` makes it current.
    """

    id: str | None
    text: str
    event: Event
    previous_text: str | None = None
    reason: str = ""
    relations: tuple[RelationChange, ...] = ()
    valid_to: datetime | None = None

    _forms = forms(relations=several(RelationChange), valid_to=TIME)

    def cells(self) -> Mapping[str, Any]:
        """The fields to display."""
        return {"text": self.text, "event": self.event, "previous_text": self.previous_text, "id": self.id}


T = TypeVar("T")


@dataclass(frozen=True, slots=True, repr=False)
class AddResult:
    """What one `add` did. Every fact that was found has its `Change`, a fact that changed nothing as well.

    Attributes:
        results: One `Change` per fact, in order.
        mode: `"offline"` or the chat model's name: who decided.
        usage: Model calls, tokens and time.
        notes: What was seen and not used, in words.
        trace_id: Give it to `Memory.trace`; `None` where traces are switched off.
    """

    results: tuple[Change, ...]
    mode: str
    usage: Usage = Usage()
    notes: tuple[str, ...] = ()
    trace_id: str | None = None

    def __len__(self) -> int:
        """The number of changes, so that an empty result is falsy."""
        return len(self.results)

    @property
    def relations(self) -> GraphChanges:
        """What it did to the knowledge graph: relations `added`, relations `ended`; empty without `graph=True`."""
        changes = [change for result in self.results for change in result.relations]
        return GraphChanges(
            added=tuple(change.relation for change in changes if change.event == "ADD"),
            ended=tuple(change.relation for change in changes if change.event in {"END", "DELETE"}),
        )

    def __repr__(self) -> str:
        """The changes, the mode and the notes."""
        notes = f", notes={self.notes}" if self.notes else ""
        return f"AddResult({[*self.results]}, mode={self.mode!r}{notes})"

    def _repr_html_(self) -> str:
        return html_table({**change.cells(), "reason": change.reason} for change in self.results)

    def by_event(self, event: Event) -> tuple[Change, ...]:
        """The changes of one kind, in order."""
        return tuple(change for change in self.results if change.event == event)


@dataclass(frozen=True, slots=True, repr=False)
class MemoryItem(OneLine):
    """One memory in its current state.

    `created_at` and `updated_at` have the UTC offset of the speaker of its last statement: their `date()` is the speaker's day.

    Attributes:
        id: A UUID in text form; it never changes.
        text: The short fact.
        scope: Its scope.
        metadata: The user's own JSON object.
        memory_type: `None` for facts, `"procedural_memory"` for step-by-step records.
        actor_id: The speaker.
        role: The speaker's role.
        created_at: The date of its first statement, however late it was added.
        updated_at: Since when it is true: the date of its last statement, or the moment of the last edit.
        expires_at: From when on it is no longer shown.
        revision: Counts its own changes, from 1.
        hash: Of the text as `text.text_hash` reads it; equal hashes mean the same statement.
        is_verbatim: Whether the text is the user's own words, kept as they were because no fact was made of them. Facts,
            records and texts that were edited are not; nor is what `infer=False` stores.
    """

    id: str
    text: str
    scope: Scope
    metadata: Mapping[str, Any]
    memory_type: str | None
    actor_id: str | None
    role: str | None
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    revision: int
    hash: str
    is_verbatim: bool = False

    def cells(self) -> Mapping[str, Any]:
        """The fields to display."""
        return {"text": self.text, **self.scope.named, "created_at": self.created_at, "id": self.id}


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a hit has its rank.

    Attributes:
        meaning: Calibrated cosine of query and memory, whichever embedding model it is: 0 where they have nothing to do with
            each other, 1 where they are the same.
        words: BM25 score of the words they share, 0 or more, not bounded.
        strategy: How the lists were searched and joined.
        parts: What each kind of evidence added to the score: meaning, words, speaker, time, window (of time that the query
            names), graph, newer (a newer or older value of one attribute in its place), recency (where all that is known is
            asked for). They sum up to the score.
        ranks: Its rank among those that were compared, from 1, by "meaning" and by "words" alone; each only where it was
            compared, or a word is shared.
    """

    meaning: float
    words: float
    strategy: str
    parts: Mapping[str, float] = field(default_factory=dict)
    ranks: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, repr=False)
class Hit(OneLine):
    """One result of a search.

    Attributes:
        item: The memory.
        score: Orders the hits of one query, higher first; it compares with no other query's.
        relevance: How well it answers the query, 0 to 1; it compares between queries, and `threshold` cuts on it.
        explanation: The parts of the score, where `explain=True`.
        cut: The passage of its text that answers, with `…` where something is left out; `None` where `max_tokens` had room for
            all of it.
    """

    item: MemoryItem
    score: float
    relevance: float
    explanation: Explanation | None = None
    cut: str | None = None

    def cells(self) -> Mapping[str, Any]:
        """The fields to display."""
        relevance, created_at = self.relevance, self.item.created_at
        return {
            "text": self.passage,
            "relevance": relevance,
            "score": self.score,
            "created_at": created_at,
            "id": self.id,
        }

    @property
    def id(self) -> str:
        """The memory's id."""
        return self.item.id

    @property
    def text(self) -> str:
        """The memory's text, all of it."""
        return self.item.text

    @property
    def is_verbatim(self) -> bool:
        """Whether the text is the user's own words, see `MemoryItem`."""
        return self.item.is_verbatim

    @property
    def passage(self) -> str:
        """What is shown of it: its text, or the passage that it was cut to."""
        return self.item.text if self.cut is None else self.cut


Threshold: TypeAlias = float | Literal["auto"] | None
"""The least relevance of a hit, see `Memory.search`."""

NoHit: TypeAlias = Literal["empty", "nothing matches", "small talk", "below threshold", "reranked away", "no room"]
"""Why a search gives nothing, see `Abstained`."""


@dataclass(frozen=True, slots=True)
class Abstained:
    """Why a search gave nothing.

    Attributes:
        reason: `"empty"`: there was no memory to search; `"nothing matches"`: there are, and none passes the filters, the type
            and the bounds of the search; `"small talk"`: the query has no word that asks for anything; `"below threshold"`:
            what there is answers it too little; `"reranked away"`: the reranker dropped every hit; `"no room"`: nothing of
            any hit fits into `max_tokens`.
        nearest: The best hit that was not given, `None` where there was none.
        threshold: What it was compared with.
        narrowed: What the search was narrowed to, in words, where that left nothing.
    """

    reason: NoHit
    nearest: Hit | None = None
    threshold: float | None = None
    narrowed: str = ""

    def __str__(self) -> str:
        """The same for a reader, as in "nothing above 0.35; nearest (0.21): Lives in Lyon"."""
        if self.nearest is None or self.threshold is None:
            return self.brief
        return f"{self.brief}; nearest ({self.nearest.relevance:.2f}): {self.nearest.text}"

    @property
    def brief(self) -> str:
        """The same without the text of any memory."""
        return _WHY[self.reason].format(self.narrowed if self.threshold is None else f"{self.threshold:g}")


_WHY: Final[Mapping[NoHit, str]] = {
    "empty": "no memory to search",
    "nothing matches": "no memory passes {}",
    "small talk": "the query asks for nothing",
    "below threshold": "nothing above {}",
    "reranked away": "the reranker dropped every hit",
    "no room": "nothing fits into max_tokens",
}


class SearchResults(list[Hit], Table):
    """The hits of a search, best first: a list, and where it is empty, why.

    Args:
        hits: The hits.
        abstained: Why there are none.

    Attributes:
        abstained: Why nothing was given; `None` where something was.

    Example:
        >>> from langmem_adapter import Memory
        >>> memory = Memory(":memory:")
        >>> added = memory.add("I live in Lyon.", user_id="alice")
        >>> memory.search("thanks!", user_id="alice").abstained.reason
        'small talk'
        >>> memory.search("Where do I live?", user_id="alice").abstained is None
        True
        >>> memory.close()
    """

    __slots__ = ("abstained",)

    def __init__(self, hits: Iterable[Hit] = (), *, abstained: Abstained | None = None) -> None:
        super().__init__(hits)
        self.abstained = abstained


@dataclass(frozen=True, slots=True, repr=False)
class Revision(OneLine):
    """One entry of the history of a memory; its times have the speaker's UTC offset.

    Attributes:
        seq: Number of the change in the whole database; it orders all revisions.
        memory_id: The memory.
        event: `"ADD"`, `"UPDATE"`, `"DELETE"`, or `"NONE"` if it was stated again with a date.
        old_text: The text before, `None` for an ADD.
        new_text: The text after, `None` for a DELETE.
        created_at: When the change was made.
        actor_id: The speaker.
        role: The speaker's role.
        is_deleted: Whether the memory was deleted by it.
        reason: The reason.
        revision: Counts this memory's changes, from 1.
        id: Id of this row of the history.
        stated_at: The date of the statement that the memory began with.
        valid_from: Since when it is true; of a deletion, when it ended.
        valid_to: When it ended: the next statement of the same memory; `None` while it is true.
    """

    seq: int
    memory_id: str
    event: Event
    old_text: str | None
    new_text: str | None
    created_at: datetime
    actor_id: str | None
    role: str | None
    is_deleted: bool
    reason: str
    revision: int
    id: str
    stated_at: datetime
    valid_from: datetime
    valid_to: datetime | None

    def cells(self) -> Mapping[str, Any]:
        """The fields to display."""
        text, number = self.new_text or self.old_text or "", self.revision
        return {
            "text": text,
            "event": self.event,
            "revision": number,
            "created_at": self.created_at,
            "reason": self.reason,
        }


class History(list[Revision], Table):
    """The revisions of a memory, in the order of writing."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Paged(Sequence[T], Table):
    """Some records, and where the next page begins.

    Attributes:
        items: The records of this page.
        next: Give it as `after` to read on; `None` on the last page.
    """

    items: tuple[T, ...] = field(default=())
    next: str | None = None

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        """A record of this page."""
        return self.items[index]

    def __len__(self) -> int:
        """How many records this page has."""
        return len(self.items)


class Page(Paged[MemoryItem]):
    """Some memories, and where the next page begins."""

    __slots__ = ()


class RelationPage(Paged[Relation]):
    """Some relations, and where the next page begins."""

    __slots__ = ()


class EntityPage(Paged[Entity]):
    """Some entities, and where the next page begins."""

    __slots__ = ()
