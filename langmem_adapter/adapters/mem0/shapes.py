"""Mem0's filters and scope arguments in, and Mem0's result dicts out."""

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
_TEXT: Final = "text"  # what Mem0 0.0.x called "memory"
_DAY: Final = timedelta(days=1)
_SPEAKERS: Final = ("user", "assistant")


def scope_fields(user_id: Any, agent_id: Any, run_id: Any) -> dict[str, Any]:
    """The fields of a scope as the engine takes them."""
    return dict(zip(SCOPE_FIELDS, map(_normalize_id, (user_id, agent_id, run_id)), strict=True))


def _normalize_id(value: Any) -> Any:
    is_number = isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LONGEST
    return str(value) if is_number else value.strip() if isinstance(value, str) else value


def normalize_filters(filters: Any) -> Any:
    """Filters, with ids as in `scope_fields`; too deep ones are a `FilterError`, the id `"*"` is a `ScopeError`."""
    try:
        return _normalize(filters, "AND")
    except RecursionError:
        raise FilterError(f"a filter may be nested {DEEPEST} deep; flatten it") from None


def _normalize(part: Any, key: str) -> Any:
    if isinstance(part, Mapping):
        if stars := [name for name in SCOPE_FIELDS if key in LOGIC and _normalize_id(part.get(name)) == "*"]:
            raise ScopeError(f"filters: {stars[0]!r} is '*', which may mean two things: {_ANYBODY}")
        return {name: _normalize(each, key if key in SCOPE_FIELDS else name) for name, each in part.items()}
    if isinstance(part, list | tuple):
        return [_normalize(each, key) for each in part]
    return _normalize_id(part) if key in SCOPE_FIELDS else part


def merge_scope(filters: Mapping[str, Any] | None, *, user_id: Id, agent_id: Id, run_id: Id) -> dict[str, Any]:
    """Scope and filters as the engine takes them; fields that have to be equal, at the top or within `AND`, are the scope."""
    scope = {name: value for name, value in scope_fields(user_id, agent_id, run_id).items() if value is not None}
    wanted = parse_filter(filters, objects=False)
    for key in wanted.fields & _ELSEWHERE.keys():
        raise FilterError(
            f"filters: {key!r} is {_ELSEWHERE[key]}; a key of the metadata of this name is 'metadata.{key}'"
        )
    for condition in wanted.conditions:
        key, value = condition.key, condition.operand
        if key not in SCOPE_FIELDS or condition.operator != "eq":
            continue
        if value is None:
            raise ScopeError(f"filters: {quoted(key)} is None; leave it out or give the id")
        if scope.setdefault(key, value) != value:
            raise ScopeError(
                f"{key} is named twice, as {quoted(scope[key])} and as {quoted(value)}; nothing can be both"
            )
    return {**scope, "filters": filters}


def beyond_scope(filters: Mapping[str, Any] | None) -> bool:
    """Whether filters name more than a scope, so that of the graph only what the memories say can be shown."""
    wanted = parse_filter(filters, objects=False)
    equal = {condition.key for condition in wanted.conditions if condition.operator == "eq"}
    return not wanted.fields <= equal & {*SCOPE_FIELDS}


def check_count(limit: int | None, top_k: int | None, default: int) -> int:
    """How many rows, 0 to 10,000: `limit` of Mem0 1.x or `top_k` of 2.x, which may not differ."""
    number = one_of_two("limit", limit, "top_k", top_k)
    return default if number is None else bounded(number, "top_k" if limit is None else "limit", least=0)


def split_date(metadata: Mapping[str, Any] | None, timestamp: Any) -> tuple[Mapping[str, Any] | None, Any]:
    """Metadata and timestamp of an add: `created_at` in the metadata is the time of the conversation."""
    if not isinstance(metadata, Mapping) or metadata.get("created_at") is None:
        return metadata, timestamp
    if timestamp is not None:
        raise InvalidInputError("timestamp and metadata['created_at'] both date the memory; give one of them")
    return {key: value for key, value in metadata.items() if key != "created_at"}, metadata["created_at"]


def one_of_two(name: str, value: Any, other: str, same: Any) -> Any:
    """The value of two arguments that mean the same thing, and may not differ."""
    if value is not None and same is not None and value != same:
        raise InvalidInputError(f"{name} and {other} mean the same thing and differ; give one of them")
    return same if value is None else value


def parse_expiry(expiration_date: date | str | None) -> datetime | None:
    """When a memory stops being shown: after its last day, which in Mem0 is a day of UTC; a time is taken exactly."""
    day = expiration_date
    if isinstance(day, str):
        try:
            day = date.fromisoformat(day)
        except ValueError:
            return parse_time(expiration_date, "expiration_date")
    if day is None or isinstance(day, datetime):
        return day
    if not isinstance(day, date):
        raise InvalidInputError(f"expiration_date is a day like '2029-12-31', not {quoted(day)}")
    if day == date.max:
        raise InvalidInputError(
            f"expiration_date={day.isoformat()} has no day after it; leave it out to keep the memory"
        )
    return datetime.combine(day + _DAY, datetime.min.time(), UTC)


class Row(dict[str, Any]):
    """One memory as Mem0 shows it; `row["text"]` answers `row["memory"]`, as rows did in Mem0 0.0.x, and is no key of it."""

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
    """`{"results": [rows]}` of Mem0 1.x and 2.x, which is also iterated and counted like the list of rows of Mem0 0.0.x.

    As a dict: `[...]`, `get`, `in`, `keys`, `items`, `|`, `**`, `dict()`, `copy`, `json`, pydantic and pickle see the key
    `"results"`, and `"relations"` where there is a knowledge graph. As a list: `for`, `len`, a number or slice in `[...]`, and
    `==` with a list see the rows. It is true without rows, as in Mem0: Python's JSON encoder writes a false dict as `{}`.

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


def format_item(item: MemoryItem) -> Row:
    """A memory as `get` shows it."""
    return _row(item, {"score": None})


def format_items(items: Iterable[MemoryItem]) -> list[Row]:
    """Memories as `get_all` shows them."""
    return [_row(item, {}) for item in items]


def format_hits(hits: Iterable[Hit], *, threshold: float | None = None, reranked: bool = False) -> list[Row]:
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
        "actor_id": _actor(item),
        "role": item.role,
        "attributed_to": item.role if item.role in _SPEAKERS else None,
        "expiration_date": format_expiry(item.expires_at),
    }
    kind = {} if item.memory_type is None else {"memory_type": item.memory_type}
    return Row(
        id=item.id,
        memory=item.text,
        hash=item.hash,
        metadata={**item.metadata, **kind} or None,
        **score,
        created_at=item.created_at.isoformat(),
        updated_at=(item.updated_at if item.revision > 1 else item.created_at).isoformat(),
        **{key: value for key, value in optional.items() if value is not None},
    )


def _actor(item: MemoryItem | Revision) -> str | None:
    # Of a speaker without a name the engine keeps the role.
    return None if item.actor_id == item.role else item.actor_id


def format_expiry(expires_at: datetime | None) -> str | None:
    """Mem0's `expiration_date`: the last day on which the memory is shown, or the exact time where it is not midnight."""
    if expires_at is None:
        return None
    at = expires_at.astimezone(UTC)
    midnight = at == datetime.combine(at.date(), datetime.min.time(), UTC)
    return (at.date() - _DAY).isoformat() if midnight else at.isoformat()


def format_changes(changes: Iterable[Change]) -> list[Row]:
    """What an `add` changed. A fact that changed nothing (NONE) is not listed: Mem0 does not list it either."""
    rows = []
    for change in changes:
        if change.event != "NONE":
            previous = {"previous_memory": change.previous_text} if change.event == "UPDATE" else {}
            rows.append(Row(id=change.id, memory=change.text, event=change.event, **previous))
    return rows


def format_revision(step: Revision) -> dict[str, Any]:
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
        "actor_id": _actor(step),
        "role": step.role,
    }


def add_speakers(rows: Sequence[Row], histories: Sequence[Sequence[Revision]]) -> list[Row]:
    """Rows of an `add(infer=False)`: also who spoke, and in which role."""
    steps = (history[0] for history in histories)
    return [Row(row, actor_id=_actor(step), role=step.role) for row, step in zip(rows, steps, strict=True)]


# ── the knowledge graph ───────────────────────────────────────────────────────────────────────────────────────────────


def format_graph_changes(changes: GraphChanges) -> dict[str, list[list[dict[str, str]]]]:
    """What an `add` changed in the graph: a list for each relation, since Mem0 gives the rows of a query for each."""
    lists = {"deleted_entities": changes.ended, "added_entities": changes.added}
    return {name: [format_relations([each], target="target") for each in lists[name]] for name in lists}


def format_relations(relations: Iterable[Relation], *, target: str) -> list[dict[str, str]]:
    """Relations as `search` shows them (*target* `"destination"`), or `get_all` (`"target"`)."""
    return [{"source": each.source, "relationship": each.relation, target: each.target} for each in relations]
