"""Mem0's filters in, and Mem0's dicts out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, SupportsIndex, TypeAlias, overload

from langmem_adapter.arguments import bounded, parse_time
from langmem_adapter.errors import FilterError, InvalidInputError, ScopeError
from langmem_adapter.filters import LOGIC, parse_filter
from langmem_adapter.records.checks import DEEPEST, quoted
from langmem_adapter.records.scope import SCOPE_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from langmem_adapter.records.graph import GraphChanges, Relation
    from langmem_adapter.records.results import Change, Hit, MemoryItem, Revision

Id: TypeAlias = str | int | None
"""A user, an agent or a run: a number means its digits, blanks around it do not count."""

_ELSEWHERE: Final = {
    "data": "called 'text' here",
    "expiration_date": "called 'expires_at' here, which is a time",
    "hash": "made of other parts here; compare the 'text'",
}
_ANYBODY: Final = (
    "leave it out beside another id, or give {'exists': True}, for any; {'eq': '*'} for the one of that name"
)
_LONGEST: Final = 10**512  # an id has no more letters


def named(user_id: Any, agent_id: Any, run_id: Any) -> dict[str, Any]:
    """The fields of a scope as the engine takes them."""
    return dict(zip(SCOPE_FIELDS, map(_id, (user_id, agent_id, run_id)), strict=True))


def _id(value: Any) -> Any:
    digits = isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LONGEST
    return str(value) if digits else value.strip() if isinstance(value, str) else value


def tidy(filters: Any) -> Any:
    """Filters, with ids as `named` makes them; too deep ones are a `FilterError`, the id `"*"` is a `ScopeError`."""
    try:
        return _tidied(filters, "AND")
    except RecursionError:
        raise FilterError(f"a filter may be nested {DEEPEST} deep; flatten it") from None


def _tidied(part: Any, key: str) -> Any:
    if isinstance(part, Mapping):
        if stars := [name for name in SCOPE_FIELDS if key in LOGIC and _id(part.get(name)) == "*"]:
            raise ScopeError(f"filters: {stars[0]!r} is '*', which may mean two things: {_ANYBODY}")
        return {name: _tidied(each, key if key in SCOPE_FIELDS else name) for name, each in part.items()}
    if isinstance(part, list | tuple):
        return [_tidied(each, key) for each in part]
    return _id(part) if key in SCOPE_FIELDS else part


def scoped(filters: Mapping[str, Any] | None, *, user_id: Id, agent_id: Id, run_id: Id) -> dict[str, Any]:
    """Scope and filters as the engine takes them, from arguments and `filters` together.

    The scope is what surely holds: scope fields that are to be equal, at the top or within `AND`. Everything else is the
    engine's own filter language, which is also Mem0's. Contradictions are errors, never settled by the last one.

    Raises:
        FilterError: It is no filter (give it to `tidy` first), or names a field that has another name here.
        ScopeError: Two places name different scopes.
    """
    scope = {name: value for name, value in named(user_id, agent_id, run_id).items() if value is not None}
    wanted = parse_filter(filters, objects=False)
    for key in wanted.fields & _ELSEWHERE.keys():
        raise FilterError(
            f"filters: {key!r} is {_ELSEWHERE[key]}; a key of the metadata of this name is 'metadata.{key}'"
        )
    for condition in wanted.conditions:
        if condition.key in SCOPE_FIELDS and condition.operator == "eq":
            _join(scope, condition.key, condition.operand)
    return {**scope, "filters": filters}


def beyond_scope(filters: Mapping[str, Any] | None) -> bool:
    """Whether filters ask for more than a scope, so that of the graph only what the memories found say can be shown."""
    wanted = parse_filter(filters, objects=False)
    known = {condition.key for condition in wanted.conditions if condition.operator == "eq"}
    return not wanted.fields <= known & {*SCOPE_FIELDS}


def _join(scope: dict[str, Any], key: str, value: Any) -> None:
    if value is None:
        raise ScopeError(f"filters: {quoted(key)} is None; leave it out or give the id")
    if scope.setdefault(key, value) != value:
        raise ScopeError(f"{key} is said twice, as {quoted(scope[key])} and as {quoted(value)}; nothing can be both")


def count(limit: int | None, top_k: int | None, default: int) -> int:
    """How many rows, 0 to 10,000: `limit` of Mem0 1.x or `top_k` of 2.x, which may not differ."""
    number = either("limit", limit, "top_k", top_k)
    return default if number is None else bounded(number, "top_k" if limit is None else "limit", least=0)


def dated(metadata: Mapping[str, Any] | None, timestamp: Any) -> tuple[Mapping[str, Any] | None, Any]:
    """Metadata and timestamp of an add: `created_at` in the metadata is the time of the conversation."""
    if not isinstance(metadata, Mapping) or metadata.get("created_at") is None:
        return metadata, timestamp
    if timestamp is not None:
        raise InvalidInputError("timestamp and metadata['created_at'] both date the memory; give one of them")
    return {key: value for key, value in metadata.items() if key != "created_at"}, metadata["created_at"]


def either(name: str, value: Any, other: str, same: Any) -> Any:
    """The one that is given of two arguments that mean the same thing, and may not differ."""
    if value is not None and same is not None and value != same:
        raise InvalidInputError(f"{name} and {other} mean the same thing and differ; give one of them")
    return same if value is None else value


def expiry(expiration_date: date | str | None) -> datetime | None:
    """When a memory stops being shown: after its last day, which in Mem0 is a day of UTC; a time is meant exactly."""
    if expiration_date is None or isinstance(expiration_date, datetime):
        return expiration_date
    if isinstance(expiration_date, date):
        return _end(expiration_date)
    if not isinstance(expiration_date, str):
        raise InvalidInputError(f"expiration_date is a day like '2029-12-31', not {quoted(expiration_date)}")
    try:
        day = date.fromisoformat(expiration_date)
    except ValueError:
        return parse_time(expiration_date, "expiration_date")
    return _end(day)


def _end(day: date) -> datetime:
    if day == date.max:
        raise InvalidInputError(
            f"expiration_date={day.isoformat()} has no day after it; leave it out to keep the memory"
        )
    return datetime.combine(day + timedelta(days=1), datetime.min.time(), UTC)


_TEXT: Final = "text"  # what Mem0 0.0.x called "memory"
_DAY: Final = timedelta(days=1)
_SPEAKERS: Final = ("user", "assistant")


class Row(dict[str, Any]):
    """One memory as Mem0 shows it; `row["text"]` answers `row["memory"]`, as rows did in Mem0 0.0.x.

    It is a plain dict of Mem0's keys in everything else: `text` is no key of it, not in JSON either.

    Example:
        >>> row = Row(id="1", memory="Likes tea")
        >>> row["text"], row.get("text"), "text" in row
        ('Likes tea', 'Likes tea', False)
    """

    __slots__ = ()

    def __missing__(self, key: str) -> Any:
        """The old name of the text."""
        if key == _TEXT:
            return self["memory"]
        raise KeyError(key)

    def get(self, key: str, default: Any = None) -> Any:
        """As `dict.get`, for the old name too."""
        return super().get("memory" if key == _TEXT else key, default)


class Results(dict[str, Any]):
    """`{"results": [rows]}` of Mem0 1.x and 2.x, which is also walked and counted like the list of rows of Mem0 0.0.x.

    As a dict: `[...]`, `get`, `in`, `keys`, `items`, `|`, `**`, `dict()`, `copy`, `json`, pydantic and pickle see the key
    `"results"`, and `"relations"` where there is a knowledge graph. As a list: `for`, `len`, a number or slice in `[...]`, and
    `==` with a list see the rows. Truth is Mem0's
    own, a dict with a key, and so true without rows: Python's JSON encoder writes a dict that is false as `{}`, and the
    key would be lost. Ask `len(result)` or `result["results"]`; with `version="v1.0"` it is a list in everything.

    Args:
        rows: What it holds.
        relations: What the graph says, in the dicts of each method; `None` where there is none.

    Example:
        >>> result = Results([Row(id="1", memory="Likes tea")])
        >>> [row["text"] for row in result], len(result), result["results"] == result[:]
        (['Likes tea'], 1, True)
        >>> import json
        >>> json.dumps(Results([])), list(Results([]))
        ('{"results": []}', [])
    """

    __slots__ = ()

    def __init__(self, rows: Iterable[Row], relations: Any = None) -> None:
        super().__init__(results=list(rows), **({} if relations is None else {"relations": relations}))

    def __iter__(self) -> Iterator[Any]:
        return iter(self["results"])

    def __len__(self) -> int:
        return len(self["results"])

    def __bool__(self) -> bool:
        """Always true, as the dict is for Mem0; a false one would be `{}` in JSON."""
        return True

    @overload
    def __getitem__(self, key: str) -> Any: ...
    @overload
    def __getitem__(self, key: SupportsIndex) -> Row: ...
    @overload
    def __getitem__(self, key: slice) -> list[Row]: ...
    def __getitem__(self, key: str | SupportsIndex | slice) -> Any:
        return super().__getitem__(key) if isinstance(key, str) else super().__getitem__("results")[key]

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) if isinstance(key, str) else key in self["results"]

    def __eq__(self, other: object) -> bool:
        return self["results"] == other if isinstance(other, list) else super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # as any dict

    def __reduce__(self) -> tuple[type[Results], tuple[list[Row], Any]]:
        return type(self), (self["results"], self.get("relations"))


# ── memories ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def one(item: MemoryItem) -> Row:
    """A memory as `get` shows it."""
    return _row(item, {"score": None})


def listed(items: Iterable[MemoryItem]) -> list[Row]:
    """Memories as `get_all` shows them."""
    return [_row(item, {}) for item in items]


def found(hits: Iterable[Hit], *, threshold: float | None = None, reranked: bool = False) -> list[Row]:
    """Memories as `search` shows them: by relevance, which is the score, or in a reranker's order; with the parts on demand."""
    if reranked:
        return [_row(hit.item, {**_scores(hit, threshold), "rerank_score": hit.score}) for hit in hits]
    return [_row(hit.item, _scores(hit, threshold)) for hit in sorted(hits, key=lambda hit: -hit.relevance)]


def _scores(hit: Hit, threshold: float | None) -> dict[str, Any]:
    explanation = hit.explanation
    if explanation is None:
        return {"score": hit.relevance}
    details = {
        "semantic_score": explanation.meaning,
        "bm25_score": explanation.words / (1 + explanation.words),
        "entity_boost": explanation.parts.get("graph", 0.0),
        "raw_score": hit.score,
        "max_possible_score": 1.0,
        "final_score": hit.relevance,
        "threshold": threshold,
        "parts": dict(explanation.parts),
    }
    return {"score": hit.relevance, "score_details": details}


def _row(item: MemoryItem, score: dict[str, Any]) -> Row:
    optional = {
        **item.scope.named,
        "actor_id": _named(item),
        "role": item.role,
        "attributed_to": item.role if item.role in _SPEAKERS else None,
        "expiration_date": expiry_shown(item.expires_at),
    }
    return Row(
        id=item.id,
        memory=item.text,
        hash=item.hash,
        metadata=_metadata(item),
        **score,
        created_at=item.created_at.isoformat(),
        updated_at=(item.updated_at if item.revision > 1 else item.created_at).isoformat(),
        **{key: value for key, value in optional.items() if value is not None},
    )


def _named(said: MemoryItem | Revision) -> str | None:
    # Of a speaker without a name the engine keeps the role.
    return None if said.actor_id == said.role else said.actor_id


def _metadata(item: MemoryItem) -> dict[str, Any] | None:
    kind = {} if item.memory_type is None else {"memory_type": item.memory_type}
    return {**item.metadata, **kind} or None


def expiry_shown(expires_at: datetime | None) -> str | None:
    """Mem0's `expiration_date`: the last day on which the memory is shown, or the exact time where it is none of midnight."""
    if expires_at is None:
        return None
    at = expires_at.astimezone(UTC)
    midnight = at == datetime.combine(at.date(), datetime.min.time(), UTC)
    return (at.date() - _DAY).isoformat() if midnight else at.isoformat()


# ── what was done ─────────────────────────────────────────────────────────────────────────────────────────────────────


def changes(made: Iterable[Change]) -> list[Row]:
    """What an `add` changed. A fact that changed nothing (NONE) is not listed: Mem0 does not list it either."""
    return [_change(change) for change in made if change.event != "NONE"]


def _change(change: Change) -> Row:
    row = Row(id=change.id, memory=change.text, event=change.event)
    return Row(row, previous_memory=change.previous_text) if change.event == "UPDATE" else row


def revision(step: Revision) -> dict[str, Any]:
    """One row of `history`, with the columns of the table."""
    return {
        "id": step.id,
        "memory_id": step.memory_id,
        "old_memory": step.old_text,
        "new_memory": step.new_text,
        "event": step.event,
        "created_at": step.stated_at.isoformat(),
        "updated_at": (step.stated_at if step.event == "ADD" else step.created_at).isoformat(),
        "is_deleted": int(step.is_deleted),
        "actor_id": _named(step),
        "role": step.role,
    }


def verbatim(rows: Sequence[Row], steps: Sequence[Revision]) -> list[Row]:
    """Rows of an `add(infer=False)`: also who spoke, and in which role."""
    return [Row(row, actor_id=_named(step), role=step.role) for row, step in zip(rows, steps, strict=True)]


# ── the knowledge graph ───────────────────────────────────────────────────────────────────────────────────────────────


def related(made: GraphChanges) -> dict[str, list[list[dict[str, str]]]]:
    """What an `add` changed in the graph: a list for each relation, since Mem0 gives the rows of a query for each."""
    return {
        "deleted_entities": [[_triple(relation, "target")] for relation in made.ended],
        "added_entities": [[_triple(relation, "target")] for relation in made.added],
    }


def relations(found: Iterable[Relation], *, target: str) -> list[dict[str, str]]:
    """Relations as `search` shows them (*target* `"destination"`), or `get_all` (`"target"`)."""
    return [_triple(relation, target) for relation in found]


def _triple(relation: Relation, target: str) -> dict[str, str]:
    return {"source": relation.source, "relationship": relation.relation, target: relation.target}
