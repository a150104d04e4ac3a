"""The operations of a store batch: checked, read, and the fields that are embedded."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import groupby, islice, takewhile
from math import inf
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, cast

from langchain_core.embeddings import Embeddings
from langgraph.store.base import (
    GetOp,
    IndexConfig,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchItem,
    SearchOp,
    ensure_embeddings,
    get_text_at_path,
    tokenize_path,
    validate_op_namespace,
)

from langmem_adapter.adapters.threads import check_keys
from langmem_adapter.arguments import bounded, each_of
from langmem_adapter.embedding.embedder import Embedder
from langmem_adapter.embedding.models import embedding_limits, fingerprint, resolve_embeddings
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.filters import Filter, parse_filter
from langmem_adapter.records.checks import check_text, json_object, quoted
from langmem_adapter.storage import items
from langmem_adapter.storage.items import PLACES, Put, decode, encode, moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from langgraph.store.base import Op
    from sqlalchemy import Connection

    from langmem_adapter.embedding.embedder import UnitVectors
    from langmem_adapter.index.base import VectorView
    from langmem_adapter.memory.parts import Parts

Index: TypeAlias = Literal[False] | list[str] | None
"""What a put says about its item: the store's own fields, none, or these paths."""

_WHOLE: Final = "$"
_KEYS: Final = tuple(IndexConfig.__annotations__)


class FieldIndex:
    """The paths of a value that are embedded, and the model that does it.

    Args:
        embedder: Makes the vectors.
        mark: Fingerprint of its model.
        fields: Paths as LangGraph writes them: `"$"` for the whole value as JSON, `"title"`, `"notes[*].text"`.
    """

    def __init__(self, embedder: Embedder, mark: str, fields: object) -> None:
        self.embedder: Final = embedder
        self.mark: Final = mark
        self._fields: Final = _paths(fields, "index['fields']")
        self._written: Final[Any] = fields

    @property
    def config(self) -> IndexConfig:
        """It as LangGraph writes it; `dims` only where they are known already."""
        config = IndexConfig(embed=self.embedder.embeddings, fields=list(self._written))
        if self.embedder.dimensions is not None:
            config["dims"] = self.embedder.dimensions
        return config

    def texts(self, value: Mapping[str, Any], index: Index, name: str) -> list[str]:
        """What is embedded of a value: a text for each path, and for each element that a path finds.

        Paths that find nothing, and blank texts, have no vector; *index* are paths instead of the store's own.

        Raises:
            InvalidInputError: *index* is not understood, or there are too many.
        """
        paths = self._fields if index is None else [] if index is False else _paths(index, "index")
        found = [text for path in paths for text in get_text_at_path(value, path) if text.strip()]
        if len(found) > PLACES:
            raise InvalidInputError(
                f"{name} would have {len(found):,} vectors, {PLACES:,} are allowed; index less of it"
            )
        return found


def field_index(parts: Parts, index: IndexConfig | Literal[False] | None) -> FieldIndex | None:
    """What a store embeds, from its configuration; `None` where it embeds nothing."""
    if index is False:
        return None
    if index is None:
        return FieldIndex(parts.embedder, parts.fingerprint, [_WHOLE])
    if not isinstance(index, Mapping):
        raise InvalidInputError(
            f"index must be None (the memory's own embeddings), False (no vectors) or a mapping, not {type(index).__name__}"
        )
    check_keys(index, _KEYS, "index")
    fields, dims = index.get("fields") or [_WHOLE], index.get("dims")
    if (embed := index.get("embed")) is None:
        if dims is not None:
            raise InvalidInputError(
                "index['dims'] belongs to index['embed']; give both, or neither for the memory's own"
            )
        return FieldIndex(parts.embedder, parts.fingerprint, fields)
    if dims is not None and (isinstance(dims, bool) or not isinstance(dims, int) or dims < 1):
        raise InvalidInputError(f"index['dims'] must be the number of dimensions, at least 1, not {quoted(dims)}")
    vectors, mark = _embeddings(embed, parts, dims)
    limits = embedding_limits(embed, vectors, parts.settings)
    return FieldIndex(Embedder(vectors, dimensions=dims, limits=limits), mark, fields)


def as_bytes(vector: UnitVectors) -> bytes:
    """A vector as it is kept."""
    return vector.astype("<f4", copy=False).tobytes()


def _embeddings(embed: object, parts: Parts, dims: int | None) -> tuple[Embeddings, str]:
    if isinstance(embed, Embeddings | str):
        vectors = resolve_embeddings(embed, parts.settings)
        return vectors, fingerprint(vectors)
    if not callable(embed):
        raise InvalidInputError(
            f"index['embed'] must be Embeddings, a name like 'openai:text-embedding-3-small' or a function of texts, "
            f"not {type(embed).__name__}"
        )
    return ensure_embeddings(embed), _mark_of(embed, dims)


def _mark_of(function: Callable[..., Any], dims: int | None) -> str:
    """A function is known by its name, unless it says otherwise: where it lies changes with every tidying up."""
    own = getattr(function, "fingerprint", None)
    name = getattr(function, "__name__", type(function).__name__)
    return own if isinstance(own, str) else f"function:{name}:{dims or 'any'}"


def _paths(fields: object, name: str) -> list[str | list[str]]:
    if not isinstance(fields, list | tuple) or not all(isinstance(path, str) and path.strip() for path in fields):
        raise InvalidInputError(f"{name} must be a list of paths like ['title', 'notes[*].text'], not {quoted(fields)}")
    return [path if path == _WHOLE else tokenize_path(path) for path in fields]


M = TypeVar("M", bound=Callable[..., Any])

ReadOp: TypeAlias = "GetOp | SearchOp | ListNamespacesOp"

_MOST: Final = 1_000_000_000
_MINUTE: Final = 60_000_000  # microseconds
_LONGEST_TTL: Final = 1e9  # minutes; some 1,900 years, which a datetime can still hold


class Operations:
    """The operations of one `batch`; of several puts of one item the last one counts, as in LangGraph's own stores.

    Raises:
        InvalidInputError: One of them cannot be carried out; so do `InvalidNamespaceError` (LangGraph's) and `FilterError`.
    """

    def __init__(self, ops: Iterable[Op], fields: FieldIndex | None) -> None:
        checked = [_checked(op) for op in each_of(ops, "ops")]
        self.count: Final = len(checked)
        # By their place: those that read, and what a search asks of the values.
        self.readings: Final = {place: op for place, op in enumerate(checked) if not isinstance(op, PutOp)}
        searches = {place: op for place, op in self.readings.items() if isinstance(op, SearchOp)}
        self.filters: Final[dict[int, Filter]] = {
            place: parse_filter(op.filter, fields=()) for place, op in searches.items()
        }
        wanted = (op.query for op in searches.values() if fields is not None and op.query is not None)
        self.queries: Final[list[str]] = list(dict.fromkeys(wanted))
        last = {(op.namespace, op.key): op for op in checked if isinstance(op, PutOp)}
        self._puts: Final = [_prepared(op, fields) for op in last.values()]
        self.texts: Final = [text for _, texts in self._puts for text in texts]

    def puts(self, vectors: UnitVectors) -> list[Put]:
        """The puts and deletions, given the vectors of `texts`."""
        remaining = iter(vectors)
        return [replace(put, vectors=[as_bytes(next(remaining)) for _ in texts]) for put, texts in self._puts]


def _prepared(op: PutOp, fields: FieldIndex | None) -> tuple[Put, list[str]]:
    """One put without its vectors, and what is embedded of its value."""
    name = f"the item {op.key!r}"
    value = None if op.value is None else json_object(op.value, f"the value of {name}")
    texts = [] if fields is None or value is None else fields.texts(json.loads(value), op.index, name)
    index = None if op.index is None else json.dumps(op.index or [])
    ttl = None if op.ttl is None else max(1, round(op.ttl * _MINUTE))
    return Put(op.namespace, op.key, value, index, ttl=ttl), texts


def check_ttl(ttl: object, name: str) -> float | None:
    """Return a lifetime in minutes, a positive number and not too long, or `None`."""
    if ttl is None:
        return None
    if isinstance(ttl, bool) or not isinstance(ttl, int | float) or not 0 < ttl <= _LONGEST_TTL:
        raise InvalidInputError(f"{name} is a number of minutes, above 0, not {quoted(ttl)}; None means for ever")
    return float(ttl)


def asked(method: M) -> M:
    """A method of LangGraph's `BaseStore`, whose place is checked before that writes it into texts of its own."""
    signature = inspect.signature(method)

    def check(*given: Any, **named: Any) -> None:
        arguments = signature.bind(*given, **named).arguments
        for name in ("namespace", "namespace_prefix", "prefix", "suffix"):
            if name in arguments and (arguments[name] is not None or name.startswith("namespace")):
                _labels(arguments[name])
        try:
            str(arguments.get("key"))
        except ValueError:  # Python writes no number of more than 4,300 digits
            raise InvalidInputError(f"a key is a text, not {quoted(arguments['key'])}") from None

    @functools.wraps(method)
    def call(*given: Any, **named: Any) -> Any:
        check(*given, **named)
        return method(*given, **named)

    @functools.wraps(method)
    async def acall(*given: Any, **named: Any) -> Any:
        check(*given, **named)
        return await method(*given, **named)

    return cast("M", acall if inspect.iscoroutinefunction(method) else call)


def _checked(op: Op) -> Op:
    match op:
        case GetOp():
            return op._replace(namespace=_namespace(op.namespace), key=check_text(op.key, "a key"))
        case PutOp():
            return _checked_put(op)
        case SearchOp():
            _check_page(op)
            query = None if op.query is None or not check_text(op.query, "query").strip() else op.query
            return op._replace(namespace_prefix=_namespace(op.namespace_prefix), query=query)
        case ListNamespacesOp():
            return _checked_listing(op)
        case _:
            raise InvalidInputError(
                f"a store carries out get, put, search and list operations, not {type(op).__name__}"
            )


def _checked_put(op: PutOp) -> PutOp:
    namespace = _namespace(op.namespace)
    if not namespace:
        raise InvalidNamespaceError("Namespace cannot be empty.")
    if op.index is not None and op.index is not False and not isinstance(op.index, list | tuple):
        raise InvalidInputError(f"index must be None, False or a list of paths, not {quoted(op.index)}")
    return op._replace(namespace=namespace, key=check_text(op.key, "a key"), ttl=check_ttl(op.ttl, "ttl"))


def _checked_listing(op: ListNamespacesOp) -> ListNamespacesOp:
    _check_page(op)
    if op.max_depth is not None:
        bounded(op.max_depth, "max_depth", most=inf)
    return op._replace(match_conditions=tuple(map(_condition, each_of(op.match_conditions or (), "match_conditions"))))


def _condition(condition: object) -> MatchCondition:
    if not isinstance(condition, MatchCondition) or condition.match_type not in ("prefix", "suffix"):
        raise InvalidInputError(f"namespaces match by 'prefix' or 'suffix', not by {quoted(condition)}")
    path = (condition.path,) if isinstance(condition.path, str) else condition.path
    return MatchCondition(condition.match_type, _namespace(path))


def _check_page(op: SearchOp | ListNamespacesOp) -> None:
    bounded(op.limit, "limit", least=0, most=_MOST)
    bounded(op.offset, "offset", least=0, most=_MOST)


def _namespace(labels: Iterable[str]) -> tuple[str, ...]:
    namespace = _labels(labels)
    validate_op_namespace(GetOp(namespace, ""))
    encode(namespace)
    return namespace


def _labels(namespace: object) -> tuple[str, ...]:
    labels = tuple(each_of(namespace, "a namespace"))
    for label in labels:
        if not isinstance(label, str):
            raise InvalidNamespaceError(f"a label of a namespace is a text, not {quoted(label)}")
    return labels


Candidates: TypeAlias = Mapping[int, float | None]
"""Numbers of items and their scores, best first."""

_MORE: Final = 4  # times as many candidates, when those that were looked at did not suffice
_FILTERED: Final = 8  # times as many from the beginning, where a filter will drop some
_DECODE: Final = json.JSONDecoder().raw_decode  # nothing stands around what we wrote ourselves
_MOST_READ: Final = 2_000  # rows fetched at a time


class Reader:
    """Answers the operations of one batch from one state of the database.

    Args:
        connection: In a read transaction.
        index: The vectors, brought up to date; `None` where nothing is searched by meaning.
        now: The time of the batch.
        omit_expired: Leave expired items out, though no sweep has deleted them yet.
    """

    def __init__(self, connection: Connection, index: VectorView | None, *, now: int, omit_expired: bool) -> None:
        self.touched: Final[dict[int, Any]] = {}  # rows of items that were read and live on because of it
        self._connection = connection
        self._index = index
        self._now = now
        self._omit_expired = omit_expired

    def get(self, op: GetOp) -> Item | None:
        """One item."""
        row = items.by_key(self._connection, op.namespace, op.key)
        if row is None or not self._lives(row):
            return None
        self._touch(op, [row])
        return Item(value=_value(row), **_named(row))

    def search(self, op: SearchOp, condition: Filter, vector: UnitVectors | None) -> list[SearchItem]:
        """The items under a prefix that meet a condition: nearest first, or those that changed last first.

        A page is cut from the whole ranking; nothing is left out because a filter, or several vectors of one item, took its
        place among too few candidates.
        """
        wanted = op.offset + op.limit
        ids = items.expand(self._connection, op.namespace_prefix)
        if not op.limit or not ids:
            return []
        first = wanted * _FILTERED if condition else wanted
        matching = self._matching(self._candidates(ids, first, vector), condition)
        found = list(islice(matching, op.offset, wanted))
        rows = items.by_pks(self._connection, [pk for pk, _, _ in found])
        self._touch(op, list(rows.values()))
        return [SearchItem(value=value, score=score, **_named(rows[pk])) for pk, value, score in found]

    def namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        """The namespaces that have items, in order; those that are alike up to `max_depth` once."""
        conditions = op.match_conditions or ()
        now = self._now if self._omit_expired else None
        every = items.listed(self._connection, _beginning(conditions), now=now)
        matching = (namespace for namespace in every if all(_matches(each, namespace) for each in conditions))
        distinct = (namespace for namespace, _ in groupby(matching, lambda namespace: namespace[: op.max_depth]))
        return list(islice(distinct, op.offset, op.offset + op.limit))

    # ── candidates ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _candidates(self, ids: Sequence[int], first: int, vector: UnitVectors | None) -> Iterator[Candidates]:
        if vector is not None:
            yield from self._scored(ids, first, vector)
        for pks in items.newest(self._connection, ids, first=first, unindexed=vector is not None):
            yield dict.fromkeys(pks)

    def _scored(self, ids: Sequence[int], first: int, vector: UnitVectors) -> Iterator[Candidates]:
        seen: set[int] = set()
        count = first
        while self._index is not None:
            found = self._index.search(vector, count, scopes=ids)
            pks, scores = (found.pks // PLACES).tolist(), found.scores.tolist()
            # The nearest of an item's vectors has the last word.
            best = dict(zip(reversed(pks), reversed(scores), strict=True))
            yield {pk: best[pk] for pk in pks if pk not in seen}
            if len(pks) < count:
                return
            seen.update(pks)
            count *= _MORE

    def _matching(
        self, candidates: Iterator[Candidates], condition: Filter
    ) -> Iterator[tuple[int, dict[str, Any], float | None]]:
        for scores in candidates:
            remaining = iter(scores)
            while chosen := list(islice(remaining, _MOST_READ)):
                for row in items.values_by_pks(self._connection, chosen):
                    if self._lives(row):
                        value = _value(row)
                        if condition.matches(value):
                            yield row.pk, value, scores[row.pk]

    # ── lifetimes ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _lives(self, row: Any) -> bool:
        return not self._omit_expired or row.expires_at is None or row.expires_at > self._now

    def _touch(self, op: GetOp | SearchOp, rows: Sequence[Any]) -> None:
        if op.refresh_ttl:
            self.touched.update((row.pk, row) for row in rows if row.ttl is not None)


def _value(row: Any) -> dict[str, Any]:
    value: dict[str, Any] = _DECODE(row.value)[0]
    return value


def _named(row: Any) -> dict[str, Any]:
    return {
        "key": row.key,
        "namespace": decode(row.path),
        "created_at": moment(row.created_at),
        "updated_at": moment(row.updated_at),
    }


def _beginning(conditions: Sequence[MatchCondition]) -> tuple[str, ...]:
    """The labels that every namespace in question begins with."""
    prefixes = [each.path for each in conditions if each.match_type == "prefix"]
    known = [tuple(takewhile(lambda label: label != "*", path)) for path in prefixes]
    return max(known, key=len, default=())


def _matches(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    path = tuple(condition.path)
    if len(path) > len(namespace):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(asked in ("*", label) for asked, label in zip(path, part, strict=True))
