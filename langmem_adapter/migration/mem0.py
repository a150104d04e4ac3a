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
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import md5
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from uuid import NAMESPACE_URL, uuid5

from sqlalchemy import text

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.migration.writer import (
    DAMAGE,
    HISTORY_OF_REJECTED,
    NO_OWNER,
    MemoryRow,
    RevisionRow,
    SkippedRow,
    open_source,
    owner_of,
    time_of,
)
from langmem_adapter.records.checks import check_text, quoted
from langmem_adapter.records.scope import SCOPE_FIELDS

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Mapping, Sequence

    from langmem_adapter.migration.writer import SourceRow
    from langmem_adapter.records.scope import Scope

    Payload: TypeAlias = Mapping[str, Any] | InvalidInputError | None
    """The fields of a memory, or why they cannot be read; `None` where only its history is left."""

_TELEMETRY: Final = "mem0migrations"
_OWN_FIELDS: Final = (
    f"id data memory hash metadata created_at updated_at role actor_id memory_type expiration_date score \
    text_lemmatized {' '.join(SCOPE_FIELDS)}".split()
)
_BROKEN: Final = (*DAMAGE, pickle.UnpicklingError, EOFError, MemoryError)
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
    stores = sorted({store for place in places for store in _stores_in(place, collection)})
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


def _stores_in(place: Path, collection: str | None) -> Iterator[tuple[Path, str]]:
    if place.is_file():
        yield place, "json"
    stores = [(path, "faiss", path.stem) for path in place.rglob("*.faiss")]
    stores += [(path.parent, "qdrant", path.parent.name) for path in place.rglob("collection/*/storage.sqlite")]
    for path, kind, name in stores:
        if collection == name or (collection is None and name != _TELEMETRY and not name.endswith("_entities")):
            yield path, kind


def memory_rows(store: Mem0Store, owner: Scope | None, lost: Counter[str]) -> Iterator[SourceRow]:
    """The memories of a store with their histories, the oldest change first; *lost* counts what has no place here.

    Memories that name no user, deleted ones among them, get the *owner*; without one they are left out.
    """
    changes: defaultdict[str, list[RevisionRow]] = defaultdict(list)
    if store.history is not None:
        yield from _read_history(store.history, changes)
    payloads = {"faiss": _faiss, "qdrant": _qdrant, "json": _json}[store.kind](store.memories)
    rows: list[MemoryRow] = []
    for place, id_, payload in chain(payloads, _deleted(changes)):
        own = changes.pop(id_, [])
        try:
            row, skipped = _memory(place, id_, payload, own, owner, lost)
        except DAMAGE as error:
            row, skipped = None, _skip(own, HISTORY_OF_REJECTED)
            skipped.append(SkippedRow(place, str(error), "memories", is_rejected=True))
        yield from skipped
        rows += [] if row is None else [row]
    yield from sorted(rows, key=lambda row: row.updated_at)


def _deleted(changes: Mapping[str, Sequence[RevisionRow]]) -> Iterator[tuple[str, str, Payload]]:
    """Memories of which only the history is left, when all others are read."""
    yield from ((f"history of {id_}", id_, None) for id_ in list(changes))


def _skip(changes: Sequence[RevisionRow], reason: str) -> list[SkippedRow]:
    return [SkippedRow(f"history row {each.id}", reason, "revisions") for each in changes]


def _memory(
    place: str, id_: str, payload: Payload, changes: list[RevisionRow], owner: Scope | None, lost: Counter[str]
) -> tuple[MemoryRow | None, list[SkippedRow]]:
    """A memory with its history, and the rows of the history that have no place in it."""
    if isinstance(payload, InvalidInputError):
        raise payload
    if payload is None and changes[-1].event != "DELETE":
        return None, _skip(changes, "history of a memory that is not in this store")
    content, fields = (None, dict[str, Any]()) if payload is None else _read_payload(payload, lost)
    scope = owner_of(fields, owner)
    if scope is None and payload is None:
        return None, _skip(changes, "history of a deleted memory, which names no user; -u NAME takes it")
    if scope is None:
        skipped = _skip(changes, f"history of a memory {NO_OWNER}")
        return None, [SkippedRow(place, f"memory {NO_OWNER}", "memories"), *skipped]
    revisions, skipped = _split_history(changes)
    if payload is None and not revisions:
        return None, skipped
    created, updated = time_of(fields.get("created_at")), time_of(fields.get("updated_at"))
    created = created or (revisions[0].time if revisions else updated)
    if created is None:
        raise InvalidInputError("it has no date")
    updated = max(updated or created, created)
    if revisions and revisions[-1].event == "DELETE":
        updated = revisions[-1].time
        if payload is not None:
            lost["deleted memory that Mem0 left in its vectors; it stays deleted"] += 1
    elif revisions and revisions[-1].text == content:
        revisions[-1] = replace(revisions[-1], time=updated)
    else:
        why = "" if changes else "taken from Mem0, without its history"
        revisions.append(RevisionRow("UPDATE" if revisions else "ADD", content, updated, reason=why))
    day = time_of(fields.get("expiration_date"))
    more: dict[str, Any] = {name: fields.get(name) for name in ("memory_type", "actor_id", "role")}
    more["metadata"] = {name: value for name, value in fields.items() if name not in _OWN_FIELDS}
    more |= {"created_at": created, "updated_at": updated, "expires_at": day and day + timedelta(days=1)}
    return MemoryRow(place=place, id=check_text(id_, "id"), scope=scope, revisions=revisions, **more), skipped


def _read_payload(payload: Mapping[str, Any], lost: Counter[str]) -> tuple[str, dict[str, Any]]:
    """The text of a memory, and its other fields with the metadata among them."""
    content, metadata = payload.get("data", payload.get("memory")), payload.get("metadata")
    if not isinstance(content, str) or not content.strip():
        raise InvalidInputError("it has no text")
    fields = {**metadata} if isinstance(metadata, dict) else {}
    fields |= {name: value for name, value in payload.items() if value is not None}
    if fields.get("hash", digest := md5(content.encode(), usedforsecurity=False).hexdigest()) != digest:
        lost["text that does not fit its hash; it is taken as it is"] += 1
    return content, fields


def _split_history(changes: Sequence[RevisionRow]) -> tuple[list[RevisionRow], list[SkippedRow]]:
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
    return revisions, skipped


def _read_history(path: Path, changes: defaultdict[str, list[RevisionRow]]) -> Iterator[SkippedRow]:
    """Read `history.db` by memory, in the order of its rows, and give those that are damaged; versions differ in columns."""
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
                yield SkippedRow(f"history row {row.id}", str(error), "revisions", is_rejected=True)
                continue
            latest = max(filter(None, (latest, *dates)))
            content = row.new_memory if row.new_memory is not None else row.new_value
            time, more = dates[row.event != "ADD"] or latest, (str(row.id or ""), row.actor_id, row.role)
            changes[str(row.memory_id)].append(RevisionRow(row.event, content, time, *more))


def _faiss(path: Path) -> Iterator[tuple[str, str, Payload]]:
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


def _qdrant(path: Path) -> Iterator[tuple[str, str, Payload]]:
    with open_source(path / "storage.sqlite") as connection:
        for number, row in enumerate(connection.execute(text("SELECT point FROM points ORDER BY rowid")), 1):
            place = f"point {number}"
            try:
                fields = getattr(_unpickled(row.point, place), "fields", {})
                payload = fields.get("payload")
                yield place, str(fields.get("id")), payload if isinstance(payload, dict) else {}
            except InvalidInputError as error:
                yield place, "", error


def _json(path: Path) -> Iterator[tuple[str, str, Payload]]:
    content = path.read_bytes()
    if path.suffix in _LINES:
        rows: Any = [_line(path, line) for line in content.split(b"\n") if line.strip()]
    else:
        rows = _parsed(path, content)
        rows = rows.get("results") if isinstance(rows, dict) else rows
    if not isinstance(rows, list):
        raise InvalidInputError(f'{path} is not what get_all gives: a list of memories, or one under "results"')
    for number, row in enumerate(rows, 1):
        id_ = row.get("id") if isinstance(row, dict) else None
        made = uuid5(NAMESPACE_URL, json.dumps(row, sort_keys=True, default=str))
        yield f"row {number}", str(id_ or made), row if isinstance(row, dict | InvalidInputError) else {}


def _line(path: Path, content: bytes) -> Any:
    try:
        return _parsed(path, content)
    except InvalidInputError as error:
        return error


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
    except _BROKEN as error:
        raise InvalidInputError(f"{name} is refused, since it is damaged or no pickle of a store: {error}") from None
    return value
