"""Migration from Mem0, versions 0.1 to 2.x: its FAISS files, its local Qdrant folder or the JSON of `get_all`, and its history.

Mem0 itself is not needed, and nothing of a pickle runs: the unpickler knows two names, as classes without methods. Vectors
stay unread, since the target computes its own. A history row of a deleted memory names no user: it goes to the scope that
the caller names, or is left out.
"""

from __future__ import annotations

import json
import os
import pickle
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import md5
from io import BytesIO
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import NAMESPACE_URL, uuid5

from sqlalchemy import text

from langmem_adapter.errors import InvalidInputError, LangmemAdapterError
from langmem_adapter.migration.writer import MemoryRow, RevisionRow, SkippedRow, open_source, time_of
from langmem_adapter.records.checks import quoted
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Mapping, Sequence

    from langmem_adapter.migration.writer import SourceRow

_TELEMETRY: Final = "mem0migrations"
_OWN_FIELDS: Final = (
    f"id data memory hash metadata created_at updated_at role actor_id memory_type expiration_date score \
    text_lemmatized {' '.join(SCOPE_FIELDS)}".split()
)
_DAMAGE: Final = (
    pickle.UnpicklingError,
    AttributeError,
    EOFError,
    IndexError,
    KeyError,
    MemoryError,
    OverflowError,
    TypeError,
    ValueError,
)
_QDRANT: Final = "qdrant_client.http.models.models"
_COLUMNS: Final = "id memory_id old_memory new_memory new_value event created_at updated_at actor_id role".split()
_LINES: Final = frozenset({".jsonl", ".ndjson"})
_NO_STORE: Final = (
    "there is no Mem0 store in {}: a folder with NAME.faiss and NAME.json or NAME.pkl, a local Qdrant folder, or a "
    "JSON file of get_all; for another vector store write the JSON of Memory.get_all to a file, and give that"
)


class Mem0Store(NamedTuple):
    """Where a store of Mem0 lies: its memories ("faiss", "qdrant" or "json"), and its history where there is one."""

    memories: Path
    kind: str
    history: Path | None


def find_store(where: Path | None, history: Path | None = None, collection: str | None = None) -> Mem0Store:
    """Find the one store in a folder or JSON file, else in your own default folders of Mem0, and its history."""
    home = Path(os.environ.get("MEM0_DIR") or "~/.mem0").expanduser()
    places = [Path("/tmp/qdrant"), Path("/tmp/faiss"), home] if where is None else [where]  # noqa: S108 - Mem0's own
    if where is None:
        owner = os.getuid() if hasattr(os, "getuid") else 0  # a folder in /tmp may be another user's
        places = [place for place in places if not place.exists() or place.stat().st_uid == owner]
    stores = sorted({store for place in places for store in _stores_in(place)})
    stores = [
        (path, kind) for path, kind in stores if collection in {None, path.stem if kind == "faiss" else path.name}
    ]
    if not stores:
        raise InvalidInputError(_NO_STORE.format(" or ".join(map(str, places))))
    if len(stores) > 1:
        listed = ", ".join(str(path) for path, _ in stores)
        raise InvalidInputError(f"there are several stores, name the folder or the collection of one: {listed}")
    if history is not None and not history.is_file():
        raise InvalidInputError(f"there is no file {history}")
    path, kind = stores[0]
    folders = [*path.parents][: 1 if kind == "json" else 4]
    near = (each / "history.db" for each in (*folders, home))
    return Mem0Store(path, kind, history or next((each for each in near if each.is_file()), None))


def _stores_in(place: Path) -> Iterator[tuple[Path, str]]:
    if place.is_file():
        yield place, "json"
    yield from ((path, "faiss") for path in place.rglob("*.faiss") if path.stem != _TELEMETRY)
    for path in place.rglob("collection/*/storage.sqlite"):
        if path.parent.name != _TELEMETRY and not path.parent.name.endswith("_entities"):
            yield path.parent, "qdrant"


def memory_rows(store: Mem0Store, scope: Scope | None, lost: Counter[str]) -> Iterator[SourceRow]:
    """The memories of a store with their histories, the oldest change first; *lost* counts what has no place here.

    Memories that name no user, deleted ones among them, get the *scope*; without one they are left out.
    """
    payloads = {"faiss": _faiss, "qdrant": _qdrant, "json": _json}[store.kind](store.memories)
    damaged: list[SkippedRow] = []
    history = {} if store.history is None else _history(store.history, damaged)
    yield from damaged
    rows: list[MemoryRow] = []
    for place, id_, payload in payloads:
        changes = history.pop(id_, [])
        try:
            row, skipped = _memory(place, id_, payload, changes, scope, lost)
        except (LangmemAdapterError, ValueError, OverflowError) as error:
            row, skipped = None, _skip(changes, "history of a memory that was rejected")
            skipped.append(SkippedRow(place, str(error), "memories", is_rejected=True))
        yield from skipped
        rows += [] if row is None else [row]
    for id_, changes in history.items():
        if changes[-1].event != "DELETE":
            yield from _skip(changes, "history of a memory that is not in this store")
        elif scope is None:
            yield from _skip(changes, "history of a deleted memory, which names no user; -u NAME takes it")
        else:
            revisions, skipped = _revisions(changes)
            yield from skipped
            dates: dict[str, Any] = {"created_at": changes[0].time, "updated_at": changes[-1].time}
            if revisions:
                rows.append(MemoryRow(place=f"history of {id_}", id=id_, scope=scope, revisions=revisions, **dates))
    yield from sorted(rows, key=lambda row: row.updated_at)


def _skip(changes: Sequence[RevisionRow], reason: str) -> list[SkippedRow]:
    return [SkippedRow(f"history row {each.id}", reason, "revisions") for each in changes]


def _memory(
    place: str,
    id_: str,
    payload: Mapping[str, Any],
    changes: list[RevisionRow],
    scope: Scope | None,
    lost: Counter[str],
) -> tuple[MemoryRow | None, list[SkippedRow]]:
    content, metadata = payload.get("data", payload.get("memory")), payload.get("metadata")
    if not isinstance(content, str) or not content.strip():
        raise InvalidInputError("it has no text")
    fields = {**metadata} if isinstance(metadata, dict) else {}
    fields |= {name: value for name, value in payload.items() if value is not None}
    named = {name: str(fields[name]) for name in SCOPE_FIELDS if fields.get(name)}
    owner = Scope(**named) if named else scope
    if owner is None:
        reason = "that names no user, agent or run; -u NAME takes it"
        return None, [
            SkippedRow(place, f"memory {reason}", "memories"),
            *_skip(changes, f"history of a memory {reason}"),
        ]
    if fields.get("hash", digest := md5(content.encode(), usedforsecurity=False).hexdigest()) != digest:
        lost["text that does not fit its hash; it is taken as it is"] += 1
    revisions, skipped = _revisions(changes)
    created, updated = time_of(fields.get("created_at")), time_of(fields.get("updated_at"))
    created = created or (revisions[0].time if revisions else updated)
    if created is None:
        raise InvalidInputError("it has no date")
    updated = max(updated or created, created)
    if revisions and revisions[-1].event == "DELETE":
        lost["deleted memory that Mem0 left in its vectors; it stays deleted"] += 1
        updated = revisions[-1].time
    elif revisions and revisions[-1].text == content:
        revisions[-1] = replace(revisions[-1], time=updated)
    else:
        why = "" if changes else "taken from Mem0, without its history"
        revisions.append(RevisionRow("UPDATE" if revisions else "ADD", content, updated, reason=why))
    day = time_of(fields.get("expiration_date"))
    more: dict[str, Any] = {name: fields.get(name) for name in ("memory_type", "actor_id", "role")}
    more["metadata"] = {name: value for name, value in fields.items() if name not in _OWN_FIELDS}
    more |= {
        "created_at": created,
        "updated_at": updated,
        "expires_at": None if day is None else day + timedelta(days=1),
    }
    return MemoryRow(place=place, id=id_, scope=owner, revisions=_in_order(revisions), **more), skipped


def _revisions(changes: Sequence[RevisionRow]) -> tuple[list[RevisionRow], list[SkippedRow]]:
    """The history rows that follow each other, and those that do not."""
    revisions: list[RevisionRow] = []
    skipped: list[SkippedRow] = []
    for change in changes:
        is_alive = bool(revisions) and revisions[-1].event != "DELETE"
        fits = {"ADD": not is_alive, "UPDATE": is_alive, "DELETE": is_alive}.get(change.event, False)
        if fits and (change.text is not None or change.event == "DELETE"):
            revisions.append(change)
        else:
            skipped += _skip([change], f"{change.event} that does not follow from the rows before it")
    return _in_order(revisions), skipped


def _in_order(revisions: Sequence[RevisionRow]) -> list[RevisionRow]:
    times = accumulate((each.time for each in revisions), max)
    return [replace(each, time=time) for each, time in zip(revisions, times, strict=True)]


def _history(path: Path, damaged: list[SkippedRow]) -> dict[str, list[RevisionRow]]:
    """The rows of `history.db` by memory, in their order; versions differ in their columns."""
    changes: defaultdict[str, list[RevisionRow]] = defaultdict(list)
    with open_source(path) as connection:
        columns = {row.name for row in connection.exec_driver_sql("PRAGMA table_info(history)")}
        if not {"memory_id", "event"} <= columns:
            raise InvalidInputError(f"{path} has no history of Mem0")
        names = ", ".join(name if name in columns else f"NULL AS {name}" for name in _COLUMNS)
        latest = datetime.fromtimestamp(0, UTC)
        for row in connection.execute(text(f"SELECT {names} FROM history ORDER BY rowid")):  # noqa: S608 - our own names
            # A deletion of 0.1 has no date; rows are in the order of events, so it was not before the row above it.
            try:
                dates = time_of(row.created_at), time_of(row.updated_at)
            except InvalidInputError as error:
                damaged.append(SkippedRow(f"history row {row.id}", str(error), "revisions", is_rejected=True))
                continue
            latest = max(filter(None, (latest, *dates)))
            content = row.new_memory if row.new_memory is not None else row.new_value
            more = row.id, row.actor_id, row.role
            changes[str(row.memory_id)].append(
                RevisionRow(row.event, content, dates[row.event != "ADD"] or latest, *more)
            )
    return changes


def _faiss(path: Path) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    json_file, pickle_file = path.with_suffix(".json"), path.with_suffix(".pkl")
    if json_file.is_file():  # Mem0 2 reads it, and nothing else where both are there
        docstore = _parsed(json_file, json_file.read_bytes())
        docstore = docstore.get("docstore") if isinstance(docstore, dict) else None
    elif pickle_file.is_file():
        docstore = _unpickled(pickle_file.read_bytes(), pickle_file.name)
        docstore = docstore[0] if isinstance(docstore, tuple) and docstore else None
    else:
        raise InvalidInputError(f"beside {path} there is neither {json_file.name} nor {pickle_file.name}")
    if not isinstance(docstore, dict):
        raise InvalidInputError(f"beside {path} there is no list of memories")
    for id_, payload in docstore.items():
        yield f"memory {id_}", str(id_), payload if isinstance(payload, dict) else {}


def _qdrant(path: Path) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    with open_source(path / "storage.sqlite") as connection:
        for number, row in enumerate(connection.execute(text("SELECT point FROM points ORDER BY rowid")), 1):
            fields = getattr(_unpickled(row.point, f"point {number}"), "fields", {})
            payload = fields.get("payload")
            yield f"point {number}", str(fields.get("id")), payload if isinstance(payload, dict) else {}


def _json(path: Path) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    content = path.read_bytes()
    lines = [line for line in content.split(b"\n") if line.strip()]
    rows = [_line(path, line) for line in lines] if path.suffix in _LINES else _parsed(path, content)
    rows = rows.get("results") if isinstance(rows, dict) else rows
    if not isinstance(rows, list):
        raise InvalidInputError(f'{path} is not what get_all gives: a list of memories, or one under "results"')
    for number, row in enumerate(rows, 1):
        payload = row if isinstance(row, dict) else {}
        made = uuid5(NAMESPACE_URL, json.dumps(payload, sort_keys=True))
        yield f"row {number}", str(payload.get("id") or made), payload


def _line(path: Path, content: bytes) -> Any:
    with suppress(InvalidInputError):
        return _parsed(path, content)
    return None  # a row without text, which is rejected


def _parsed(path: Path, content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{path} is no JSON: {error}") from None


class _Stub:
    """What stands for Qdrant's `PointStruct` and `SparseVector` in a pickle: their fields, and nothing that runs."""

    def __setstate__(self, state: Any) -> None:
        self.fields = dict(state["__dict__"])


class _Unpickler(pickle.Unpickler):
    # Contract: a pickle that names anything else, or calls anything, is refused before it has an effect.
    # tests/migration/test_mem0.py::test_migrate_mem0_refuses_a_pickle_that_calls_anything
    def find_class(self, module: str, name: str) -> type[_Stub]:
        if module == _QDRANT and name in {"PointStruct", "SparseVector"}:
            return _Stub
        raise InvalidInputError(f"it names {quoted(f'{module}.{name}')}, which is no part of a store")


def _unpickled(content: bytes, name: str) -> Any:
    try:
        value = _Unpickler(BytesIO(content)).load()
        # Contract: reading a value takes time linear in its pickle: lists that hold one another are refused, since written out
        # they double with each level. tests/migration/test_mem0.py::test_migrate_mem0_refuses_a_pickle_that_wants_all_memory
        parts, count = [value], 0
        while parts:
            part, count = parts.pop(), count + 1
            if count > len(content):
                raise ValueError("written out it is larger than its file")
            part = part.fields if isinstance(part, _Stub) else part
            parts += part.values() if isinstance(part, dict) else part if isinstance(part, list | tuple) else ()
    except _DAMAGE as error:
        raise InvalidInputError(f"{name} is refused, since it is damaged or no pickle of a store: {error}") from None
    return value
