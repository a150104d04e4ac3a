"""What LangGraph hands over with a call, checked: threads, namespaces and checkpoints that a config names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from langmem_adapter.arguments import each_of
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import check_text, quoted
from langmem_adapter.storage.checkpoints import ThreadSpace
from langmem_adapter.storage.cursors import HIGHEST

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_core.runnables import RunnableConfig

    from langmem_adapter.storage.checkpoints import Version

__all__ = [
    "as_text",
    "checked_limit",
    "checked_versions",
    "config_of",
    "listed",
    "place_of",
    "selection_of",
    "thread_id_of",
]

_LONGEST_ID: Final = 512  # in UTF-8 it still fits into an index row of Postgres, beside the rest of the key
_WHICH: Final = 'which thread? give config={"configurable": {"thread_id": "..."}}'


def place_of(config: RunnableConfig) -> tuple[ThreadSpace, str | None]:
    """The thread and namespace that a config names (by default that of the graph), and the checkpoint where it names one."""
    named = _configurable(config)
    ns = check_text(named.get("checkpoint_ns") or "", "checkpoint_ns")
    return ThreadSpace(thread_id_of(named.get("thread_id")), ns), _checkpoint_id(named)


def config_of(space: ThreadSpace, checkpoint_id: str) -> RunnableConfig:
    """The config that names a checkpoint."""
    return {"configurable": {"thread_id": space.thread_id, "checkpoint_ns": space.ns, "checkpoint_id": checkpoint_id}}


def selection_of(
    config: RunnableConfig | None, before: RunnableConfig | None, equal: Mapping[str, Any] | None
) -> tuple[dict[str, str], str | None]:
    """Which checkpoints a list is wanted of: what their rows hold, and the id that they are older than; errors as `place_of`.

    What *config* does not name is left free. Of the values that the metadata must have, a run is looked up by its index.
    """
    named = {} if config is None else _configurable(config)
    if not isinstance(equal, Mapping | None):
        raise InvalidInputError(f"filter is a dict of values that the metadata must have, not {quoted(equal)}")
    ns, run_id = named.get("checkpoint_ns"), (equal or {}).get("run_id")
    wanted = {
        "thread_id": None if config is None else thread_id_of(named.get("thread_id")),
        "ns": None if ns is None else check_text(ns, "checkpoint_ns"),
        "id": _checkpoint_id(named),
        "run_id": check_text(run_id, "run_id") if isinstance(run_id, str) else None,
    }
    older_than = None if before is None else _checkpoint_id(_configurable(before))
    return {name: value for name, value in wanted.items() if value is not None}, older_than


def thread_id_of(value: object) -> str:
    """A thread's id as text, neither blank nor too long; numbers and UUIDs are taken, too."""
    value = as_text(value)
    if value is None or value == "":
        raise InvalidInputError(_WHICH)
    thread_id = check_text(value, "thread_id")
    if len(thread_id) > _LONGEST_ID:
        raise InvalidInputError(
            f"thread_id has {len(thread_id)} characters; {_LONGEST_ID} are allowed, use a hash of it"
        )
    return thread_id


def as_text(value: object) -> object:
    """An id as text where it is a UUID or a number, which LangGraph's savers take, too; what is neither stays as it is."""
    is_number = isinstance(value, int) and abs(value) < 10**_LONGEST_ID
    return str(value) if is_number or isinstance(value, UUID) else value


def listed(values: Iterable[str], name: str) -> list[str]:
    """Several values as a list; one text is an error, since nobody means its letters."""
    if isinstance(values, str):
        raise InvalidInputError(f"{name} must be a list; write {name}=[{quoted(values)}]")
    return each_of(values, name)


def checked_limit(limit: int | None) -> int | None:
    """How many at most: a whole number from 0."""
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise InvalidInputError(
            f"limit={quoted(limit)} is no number from 0; give how many checkpoints you want at most, or None for all"
        )
    return min(limit, HIGHEST)


def checked_versions(versions: Mapping[str, Version]) -> dict[str, Version]:
    """The versions of channels: text or numbers."""
    for channel, version in versions.items():
        if not isinstance(version, str | int | float):
            raise InvalidInputError(
                f"channel {channel!r} has version {quoted(version)}; a version is a str, an int or a float"
            )
    return dict(versions)


def _configurable(config: RunnableConfig | None) -> Mapping[str, Any]:
    named = config.get("configurable") if isinstance(config, Mapping) else None
    if not named or not isinstance(named, Mapping):
        raise InvalidInputError(_WHICH)
    return named


def _checkpoint_id(named: Mapping[str, Any]) -> str | None:
    found = named.get("checkpoint_id")
    return check_text(found, "checkpoint_id") if found else None
