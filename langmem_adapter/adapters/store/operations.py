"""The operations of one batch, checked before anything is done."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    PutOp,
    SearchOp,
    validate_op_namespace,
)

from langmem_adapter.adapters.store.fields import as_bytes
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.filters import Filter, parse
from langmem_adapter.records.checks import check_text, json_object
from langmem_adapter.storage.item_writes import Put
from langmem_adapter.storage.namespaces import encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langgraph.store.base import Op

    from langmem_adapter.adapters.store.fields import FieldIndex
    from langmem_adapter.embedding.embedder import UnitVectors

__all__ = ["Operations", "Reading", "check_ttl"]

Reading: TypeAlias = "GetOp | SearchOp | ListNamespacesOp"

_MOST: Final = 1_000_000_000
_MINUTE: Final = 60_000_000  # microseconds
_LONGEST_TTL: Final = 1e9  # minutes; some 1,900 years, which a datetime can still hold


class Operations:
    """What one `batch` was asked for.

    Of several puts of one item the last one counts, as in LangGraph's own stores.

    Args:
        ops: LangGraph's operations.
        fields: What the store embeds, if anything.

    Attributes:
        count: How many there are.
        readings: Those that read, by their place.
        filters: What a search asks of the values, by its place.
        queries: The texts that searches look for, each once.
        texts: What has to be embedded of the values.

    Raises:
        InvalidInputError: One of them cannot be carried out; so do LangGraph's own `InvalidNamespaceError`, and
            `FilterError`.
    """

    def __init__(self, ops: Iterable[Op], fields: FieldIndex | None) -> None:
        checked = [_checked(op) for op in ops]
        self.count: Final = len(checked)
        self.readings: Final[dict[int, Reading]] = {
            place: op for place, op in enumerate(checked) if not isinstance(op, PutOp)
        }
        searches = {place: op for place, op in self.readings.items() if isinstance(op, SearchOp)}
        self.filters: Final[dict[int, Filter]] = {place: parse(op.filter, fields=()) for place, op in searches.items()}
        wanted = (op.query for op in searches.values() if fields is not None and op.query is not None)
        self.queries: Final[list[str]] = list(dict.fromkeys(wanted))
        last = {(op.namespace, op.key): op for op in checked if isinstance(op, PutOp)}
        self._puts: Final = [_Prepared(op, fields) for op in last.values()]
        self.texts: Final[list[str]] = [text for put in self._puts for text in put.texts]

    def puts(self, vectors: UnitVectors) -> list[Put]:
        """The puts and deletions, given the vectors of `texts`."""
        remaining = iter(vectors)
        return [put.with_vectors([next(remaining) for _ in put.texts]) for put in self._puts]


class _Prepared:
    """One put: its value as it is kept, and what is embedded of it."""

    def __init__(self, op: PutOp, fields: FieldIndex | None) -> None:
        name = f"the item {op.key!r}"
        self._op = op
        self._value = None if op.value is None else json_object(op.value, f"the value of {name}")
        embedded = fields is not None and self._value is not None
        self.texts = fields.texts(json.loads(self._value), op.index, name) if embedded else []  # type: ignore[union-attr,arg-type]

    def with_vectors(self, vectors: Sequence[Any]) -> Put:
        op = self._op
        fields = None if op.index is None else json.dumps(op.index or [])
        ttl = None if op.ttl is None else max(1, round(op.ttl * _MINUTE))
        return Put(op.namespace, op.key, self._value, fields, list(map(as_bytes, vectors)), ttl)


def check_ttl(ttl: object, name: str) -> float | None:
    """Return a lifetime in minutes, or `None`.

    Raises:
        InvalidInputError: It is no positive number, or too long.
    """
    if ttl is None:
        return None
    if isinstance(ttl, bool) or not isinstance(ttl, int | float) or math.isnan(ttl) or not 0 < ttl <= _LONGEST_TTL:
        raise InvalidInputError(f"{name} is a number of minutes, above 0, not {ttl!r}; None means for ever")
    return float(ttl)


def _checked(op: Op) -> Op:
    validate_op_namespace(op)
    match op:
        case GetOp():
            return op._replace(namespace=_namespace(op.namespace), key=_key(op.key))
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
    if not op.namespace:
        raise InvalidNamespaceError("Namespace cannot be empty.")
    if op.index is not None and op.index is not False and not isinstance(op.index, list | tuple):
        raise InvalidInputError(f"index must be None, False or a list of paths, not {op.index!r}")
    return op._replace(namespace=_namespace(op.namespace), key=_key(op.key), ttl=check_ttl(op.ttl, "ttl"))


def _checked_listing(op: ListNamespacesOp) -> ListNamespacesOp:
    _check_page(op)
    if op.max_depth is not None and not _is_count(op.max_depth, least=1):
        raise InvalidInputError(f"max_depth must be a whole number from 1 on, not {op.max_depth!r}")
    for condition in op.match_conditions or ():
        if condition.match_type not in {"prefix", "suffix"}:
            raise InvalidInputError(f"namespaces match by 'prefix' or 'suffix', not by {condition.match_type!r}")
        _namespace(condition.path)
    return op


def _check_page(op: SearchOp | ListNamespacesOp) -> None:
    for name, number in (("limit", op.limit), ("offset", op.offset)):
        if not _is_count(number, least=0) or number > _MOST:
            raise InvalidInputError(f"{name} must be a whole number from 0 to {_MOST:,}, not {number!r}")


def _is_count(number: object, *, least: int) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= least


def _namespace(labels: Iterable[str]) -> tuple[str, ...]:
    namespace = tuple(labels)
    encode(namespace)
    return namespace


def _key(key: object) -> str:
    return check_text(key, "a key")
