"""The operations of one batch, checked before anything is done."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
    validate_op_namespace,
)

from langmem_adapter.adapters.store.fields import as_bytes
from langmem_adapter.arguments import bounded, each_of
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.filters import Filter, parse
from langmem_adapter.records.checks import check_text, json_object, quoted
from langmem_adapter.storage.item_writes import Put
from langmem_adapter.storage.namespaces import encode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langgraph.store.base import Op

    from langmem_adapter.adapters.store.fields import FieldIndex
    from langmem_adapter.embedding.embedder import UnitVectors

__all__ = ["Operations", "ReadOp", "asked", "check_ttl"]

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
        self.filters: Final[dict[int, Filter]] = {place: parse(op.filter, fields=()) for place, op in searches.items()}
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
