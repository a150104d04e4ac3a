"""Migration from LangGraph: items of `SqliteStore` and `PostgresStore`, with LangMem's memories, and threads of its savers.

Store tables are read with SQL, since `BaseStore` does not say how long an item lives. Threads go through LangGraph's protocol.
"""

from __future__ import annotations

import json
from contextlib import closing, contextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid5

from langchain_core.runnables import RunnableConfig
from sqlalchemy import inspect, text

from langmem_adapter.adapters.checkpointer import check_serializer
from langmem_adapter.errors import InvalidInputError, MissingDependencyError
from langmem_adapter.migration.writer import (
    DAMAGE,
    ItemRow,
    MemoryRow,
    RevisionRow,
    SkippedRow,
    open_source,
    owner_of,
    read_only,
    row_or_rejection,
    time_of,
)
from langmem_adapter.records.checks import check_text
from langmem_adapter.storage.drivers import path_of, url_of
from langmem_adapter.storage.items import encode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

    from langmem_adapter.adapters.checkpointer import SQLAlchemySaver
    from langmem_adapter.migration.writer import Migration, SourceRow
    from langmem_adapter.records.scope import Scope

_LABELS: Final = {f"{{{name}}}": f"{name}_id" for name in ("user", "agent", "run")}
_MADE: Final = UUID("9d5e4c0a-3a57-5f0e-9b0c-6d6967726174")
_TTL: Final = ("expires_at", "ttl_minutes")


def store_rows(address: str, namespace: str | None, path: str | None, owner: Scope | None) -> Iterator[SourceRow]:
    """The rows of a store's table, in the order of their last change.

    Items of a *namespace* like `memories/{user}` are memories: {user}, {agent} and {run} are labels that name the scope; where
    the namespace has none of these they get the *owner*. *path* is the field with the text, as `content.text`; `None` knows
    LangMem's two formats.
    """
    pattern = None if namespace is None else tuple(namespace.strip("/").split("/"))
    if pattern is not None and owner is None and not _LABELS.keys() & set(pattern):
        raise InvalidInputError("--namespace names no user: write {user} for the label of the user, or give -u NAME")
    with open_source(address) as connection:
        reader = inspect(connection)
        if not reader.has_table("store"):
            raise InvalidInputError("there is no table of a LangGraph store in it; for threads use migrate threads")
        columns = {column["name"] for column in reader.get_columns("store")}
        more = ", ".join(name if name in columns else f"NULL AS {name}" for name in _TTL)
        query = f"SELECT prefix, key, value, created_at, updated_at, {more} FROM store ORDER BY updated_at, prefix, key"  # noqa: S608 - our own names
        for row in connection.execute(text(query)):
            place = f"item {row.prefix}/{row.key}"
            yield row_or_rejection(place, "items", partial(_row, row, place, pattern, path, owner))


def _row(row: Any, place: str, pattern: Sequence[str] | None, path: str | None, owner: Scope | None) -> SourceRow:
    value = row.value if isinstance(row.value, dict) else json.loads(row.value)
    if not isinstance(value, dict):
        raise InvalidInputError("its value is no object")
    labels, key = tuple(str(row.prefix).split(".")), check_text(row.key, "key")
    encode(labels)  # refuses what cannot be kept
    dates: dict[str, Any] = {name: time_of(getattr(row, name)) for name in ("created_at", "updated_at", "expires_at")}
    if dates["created_at"] is None or dates["updated_at"] is None:
        raise InvalidInputError("it has no date")
    fields = _scope_fields(pattern, labels)
    scope = None if fields is None else owner_of(fields, owner)
    content = None if scope is None else _text_of(value, path)
    if scope is None or content is None:
        ttl = None if row.ttl_minutes is None else float(row.ttl_minutes)
        return ItemRow(place=place, namespace=labels, key=key, value=value, ttl=ttl, **dates)
    try:
        id_ = str(UUID(key))
    except ValueError:
        id_ = str(uuid5(_MADE, f"{row.prefix}/{key}"))
    metadata = {name: each for name, each in value.items() if path is not None and name != path.split(".")[0]}
    added = RevisionRow("ADD", content, dates["updated_at"], reason=f"migrated from the store, namespace {row.prefix}")
    return MemoryRow(place=place, id=id_, scope=scope, revisions=[added], metadata=metadata, **dates)


def _scope_fields(pattern: Sequence[str] | None, labels: Sequence[str]) -> dict[str, str] | None:
    """What the labels of a namespace name; `None` where it is another one."""
    if pattern is None or len(pattern) != len(labels):
        return None
    pairs = list(zip(pattern, labels, strict=True))
    if any(part != label for part, label in pairs if part not in _LABELS):
        return None
    return {_LABELS[part]: label for part, label in pairs if part in _LABELS}


def _text_of(value: Mapping[str, Any], path: str | None) -> str | None:
    """The text of a memory: at a path, or in one of LangMem's two formats; `None` where the value is something else."""
    inner: Any = value
    if path is None:
        is_kind = value.keys() == {"kind", "content"} and value["kind"] == "Memory"
        inner = value["content"] if is_kind else value
        if not isinstance(inner, dict) or inner.keys() != {"content"}:
            return None
        path = "content"
    for name in path.split("."):
        inner = inner.get(name) if isinstance(inner, dict) else None
    return inner if isinstance(inner, str) and inner.strip() else None


def copy_threads(
    address: str, target: SQLAlchemySaver, migration: Migration, allow: Collection[tuple[str, ...]] = ()
) -> None:
    """Copy the checkpoints of every thread, the oldest first, with pending writes and interrupts.

    *allow* names types of the state that LangGraph does not know, by module and name.
    """
    target = target.with_allowlist(allow) if allow else target
    with open_source(address) as connection:
        if not inspect(connection).has_table("checkpoints"):
            raise InvalidInputError("there are no threads of a LangGraph checkpointer in it")
        query = text("SELECT DISTINCT thread_id FROM checkpoints ORDER BY thread_id")
        threads = connection.execute(query).scalars().all()
    with _saver(address, check_serializer(target.serde)) as source:
        for thread_id in threads:
            migration.step()
            place, config = f"thread {thread_id}", RunnableConfig(configurable={"thread_id": thread_id})
            try:
                rows, here = list(source.list(config)), {_key(each) for each in target.list(config)}
                if not here <= {_key(each) for each in rows}:
                    migration.skip(SkippedRow(place, "thread that went on here", "threads"))
                    continue
                is_gone = migration.is_marked(place) and not here  # deleted here since
                for each in reversed(rows):
                    is_new = not is_gone and _key(each) not in here
                    if is_new and not migration.report.is_dry_run:
                        _copy(each, target)
                    migration.count("checkpoints", is_new=is_new)
                migration.mark([place])
            except DAMAGE as error:
                is_refused = isinstance(error, InvalidInputError)
                reason = f"{error}; --allow MODULE:NAME allows a type" if is_refused else f"it is damaged: {error}"
                migration.skip(SkippedRow(place, reason, "threads", is_rejected=True))


def _key(each: CheckpointTuple) -> tuple[str, str]:
    return each.config["configurable"].get("checkpoint_ns", ""), each.checkpoint["id"]


def _copy(each: CheckpointTuple, target: SQLAlchemySaver) -> None:
    """Copy a checkpoint."""
    tasks: dict[str, list[tuple[str, Any]]] = {}
    for task_id, channel, value in each.pending_writes or ():
        tasks.setdefault(task_id, []).append((channel, value))
    # Contract: a checkpoint that is here has what its tasks wrote, also where a copy was killed: that is written before it.
    # tests/migration/test_langgraph.py::test_migrate_threads_that_broke_off_completes_pending_writes
    for task_id, writes in tasks.items():
        target.put_writes(each.config, writes, task_id)
    parent = (each.parent_config or {}).get("configurable", {}).get("checkpoint_id")
    config: Any = {"configurable": {**each.config["configurable"], "checkpoint_id": parent}}
    target.put(config, each.checkpoint, each.metadata, each.checkpoint["channel_versions"])


@contextmanager
def _saver(address: str, serde: Any) -> Iterator[BaseCheckpointSaver[Any]]:
    """LangGraph's own saver, on a connection that cannot write."""
    path = path_of(url_of(address))
    name, kind = ("sqlite", "SqliteSaver") if path is not None else ("postgres", "PostgresSaver")
    try:
        saver = getattr(import_module(f"langgraph.checkpoint.{name}"), kind)
    except ImportError as error:
        raise MissingDependencyError(f"langgraph-checkpoint-{name}") from error
    if path is not None:
        with closing(read_only(path)) as connection:
            yield saver(connection, serde=serde)
        return
    import psycopg  # noqa: PLC0415 - an extra
    from psycopg.rows import dict_row  # noqa: PLC0415 - the same

    url = url_of(address).set(drivername="postgresql").render_as_string(hide_password=False)
    how: dict[str, Any] = {
        "autocommit": True,
        "row_factory": dict_row,
        "options": "-c default_transaction_read_only=on",
    }
    with psycopg.connect(url, **how) as connection:
        yield saver(connection, serde=serde)
