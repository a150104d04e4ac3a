"""Values of a graph's state to bytes and back, unchanged or not at all.

LangGraph's serializer gives back the bare fields of an object, as a dict, where its strict mode does not know the type or
where it cannot find the class again. A graph then goes on with something else than it put in. Here that is an error, when the
value is written and when it is read.
"""

from __future__ import annotations

import copy
import sys
from collections import deque
from collections.abc import Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.event_hooks import register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import EXT_PYDANTIC_V2, JsonPlusSerializer

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import quoted
from langmem_adapter.twins import attempt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from langgraph.checkpoint.serde.base import SerializerProtocol
    from langgraph.checkpoint.serde.event_hooks import SerdeEvent

_LAST_TYPED: Final = EXT_PYDANTIC_V2  # msgpack extensions up to this number carry the name of a type


def checked(serde: SerializerProtocol) -> SerializerProtocol:
    """A serializer whose values come back as they were, or not at all.

    Raises:
        InvalidInputError: It falls back to pickle.
    """
    if isinstance(serde, EncryptedSerializer):
        outer = copy.copy(serde)
        outer.serde = checked(serde.serde)
        return outer
    if not isinstance(serde, JsonPlusSerializer):
        return serde
    if serde.pickle_fallback:
        raise InvalidInputError(
            "pickle_fallback runs code from the database; leave it out, and allow types with allowed_msgpack_modules"
        )
    return _Checked(serde)


class _Checked:
    """LangGraph's serializer with errors where it changes values.

    A type is looked at closely when it comes up for the first time: a value that holds it is read again at once.
    """

    def __init__(self, serde: JsonPlusSerializer) -> None:
        self._serde = serde
        self._proven: frozenset[tuple[str, str]] = frozenset()

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        try:
            kind, data = self._serde.dumps_typed(obj)
        except TypeError as error:
            raise InvalidInputError(
                f"a {type(obj).__name__} in the graph's state cannot be kept ({error}); keep plain data in the state, or "
                "annotate that key with UntrackedValue, which is not kept"
            ) from error
        if kind == "msgpack" and not _types(data) <= self._proven:
            self.loads_typed((kind, data))
        return kind, data

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        with _watching() as blocked:
            value = self._serde.loads_typed(data)
        if blocked:
            raise InvalidInputError(_advice(blocked))
        if data[0] == "msgpack" and (new := _types(data[1]) - self._proven):
            _refuse_lost(new)
            self._proven |= new
        return value


def path_to_problem(value: Any, serde: SerializerProtocol) -> str:
    """Where in a value that cannot be kept the reason lies, as `['trips'][3].guide`."""
    path, part = "", value
    while part is not None:
        errors = ((step, inner, attempt(serde.dumps_typed, inner).error) for step, inner in _parts(part))
        step, part = next(((step, inner) for step, inner, error in errors if error is not None), ("", None))
        path += step
    return path


def _parts(value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return ((f"[{quoted(key)}]", part) for key, part in value.items())
    if isinstance(value, list | tuple | set | frozenset | deque):
        return ((f"[{place}]", part) for place, part in enumerate(value))
    fields: Iterable[str] = getattr(value, "__pydantic_fields__", getattr(value, "__dataclass_fields__", ()))
    return ((f".{name}", getattr(value, name)) for name in fields)


def _types(data: bytes) -> set[tuple[str, str]]:
    """The types that msgpack data names, by module and name, without making anything of them."""
    found: set[tuple[str, str]] = set()

    def note(code: int, inner: bytes) -> None:
        part = reader.loads_typed(("msgpack", inner))
        if code <= _LAST_TYPED:
            found.add((part[0], part[1]))

    reader = JsonPlusSerializer(__unpack_ext_hook__=note)
    reader.loads_typed(("msgpack", data))
    return found


def _refuse_lost(types: set[tuple[str, str]]) -> None:
    for module, name in sorted(types):
        if not hasattr(sys.modules.get(module), name):
            raise InvalidInputError(
                f"the graph's state holds a {module}.{name}, and there is no such name at the top level of that module: define "
                "the class there (or keep the old name as an alias), else it would come back as its bare fields"
            )


# ── what LangGraph's serializer reports ───────────────────────────────────────────────────────────────────────────────


_BLOCKED: Final[ContextVar[list[SerdeEvent] | None]] = ContextVar("blocked", default=None)
"""What it has blocked while something is read here; `None` while nothing is."""


def _listen(event: SerdeEvent) -> None:
    blocked = _BLOCKED.get()
    if blocked is not None and event["kind"] in {"msgpack_blocked", "msgpack_method_blocked"}:
        blocked.append(event)


register_serde_event_listener(_listen)


@contextmanager
def _watching() -> Iterator[list[SerdeEvent]]:
    blocked: list[SerdeEvent] = []
    token = _BLOCKED.set(blocked)
    try:
        yield blocked
    finally:
        _BLOCKED.reset(token)


def _advice(blocked: list[SerdeEvent]) -> str:
    types = sorted({(event["module"], event["name"]) for event in blocked})
    names = ", ".join(".".join(one) for one in types)
    if any("method" in event for event in blocked):
        return f"the graph's state holds {names}, made by a method that is never allowed; convert it to a plain type"
    return (
        f"the graph's state holds {names}, which strict msgpack does not read; allow it: serde=JsonPlusSerializer("
        f"allowed_msgpack_modules={types}), the only way behind a LangGraph server (see adapters.serving.checkpointer); "
        f"elsewhere saver.with_allowlist({types}) does it, too, or LANGGRAPH_STRICT_MSGPACK=true, with which LangGraph allows "
        "the types that a graph's state schema names"
    )
