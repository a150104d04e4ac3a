"""Metadata of the database: its embedding model and language, statistics, unreadable values, and usable model replies."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Text, bindparam, cast, delete, func, insert, not_, select, type_coerce, update

from langmem_adapter.errors import EmbeddingMismatchError, InvalidInputError, StorageError
from langmem_adapter.records.checks import redact_url
from langmem_adapter.storage.conversations import conversations, notes, turns
from langmem_adapter.storage.feed import VECTORS, last_seq
from langmem_adapter.storage.tables import entities, history, memories, meta, relations, scopes
from langmem_adapter.storage.timestamps import COUNTED, EPOCH, FIRST, LAST, UTCDateTime
from langmem_adapter.text import ENGLISH, check_language

if TYPE_CHECKING:
    from collections.abc import Iterator
    from re import Match

    from sqlalchemy import Connection, MetaData

    from langmem_adapter.storage.database import Database
    from langmem_adapter.storage.feed import Space

EMBEDDINGS: Final = VECTORS.model
LANGUAGE: Final = "language"
"""Key of the language that the words were stemmed for."""
_OURS: Final = re.compile(r"^(hash:\d+|static)/\w+$")
# A length behind it cannot be written there.
_CLASS: Final = re.compile(r"^langchain_(\w+)\.(\w+):(?=[^:]+(?::\D[^:]*)?$)")
_VALUE: Final = select(meta.c.value).where(meta.c.key == bindparam("name"))


@dataclass(frozen=True, slots=True)
class Stats:
    """What a database holds.

    Attributes:
        memories: Current memories.
        scopes: Scopes that were ever written to.
        revisions: Rows of the history.
        changes: Number of the last change.
        size: Bytes of the database's files; `None` in memory and on a server.
        entities: Entities of the knowledge graph; merged ones are one.
        relations: Its relations, current and ended ones.
        conversations: Conversations.
        turns: Their messages.
        notes: Their summaries and titles.
    """

    memories: int
    scopes: int
    revisions: int
    changes: int
    size: int | None
    entities: int
    relations: int
    conversations: int
    turns: int
    notes: int


def language_of(connection: Connection) -> str:
    """The language in which the words of a database are stemmed."""
    language = get(connection, LANGUAGE) or ENGLISH
    try:
        return check_language(language)
    except InvalidInputError:
        raise StorageError(
            f"the words of this database are stemmed as {language}, which the installed snowballstemmer does not know: "
            f"upgrade it (pip install -U snowballstemmer), or open the database with another language"
        ) from None


def get(connection: Connection, key: str) -> str | None:
    return connection.execute(_VALUE, {"name": key}).scalar()


def put(connection: Connection, key: str, value: str) -> None:
    if connection.execute(update(meta).where(meta.c.key == key).values(value=value)).rowcount == 0:
        connection.execute(insert(meta).values(key=key, value=value))


def drop(connection: Connection, key: str) -> None:
    connection.execute(delete(meta).where(meta.c.key == key))


def dimensions(connection: Connection) -> int | None:
    """The length of the stored vectors; `None` while there is no memory."""
    length = connection.execute(select(func.length(memories.c.embedding)).limit(1)).scalar()
    return None if length is None else int(length) // 4


def check_embeddings(connection: Connection, fingerprint: str, space: Space = VECTORS) -> bool:
    """Whether the database names this embedding model; an error where its vectors come from another one."""
    return fits(connection, get(connection, space.model), fingerprint, space)


def fits(connection: Connection, stored: str | None, fingerprint: str, space: Space = VECTORS) -> bool:
    """The same as `check_embeddings`, for a caller who has read the fingerprint already."""
    if stored is None or not _differs(connection, stored, fingerprint, space):
        return stored == fingerprint
    there, here = spelled(stored, fingerprint)
    options = "" if there == stored else f" (--embeddings {there}, LANGMEM_ADAPTER_EMBEDDINGS={there}, or in Settings)"
    url = connection.engine.url
    file = url.database if url.get_backend_name() == "sqlite" else None
    raise EmbeddingMismatchError(
        f"the vectors of the {space.name} in this database are now those of {there}, which cannot be compared with "
        f"those of {here}; open it again with the embeddings {there}{options}, or re-embed: "
        + space.remedy.format(location=file or redact_url(str(url)))
    )


def comparable(database: Database, fingerprint: str, space: Space = VECTORS) -> bool:
    """Whether vectors of this embedding model can be compared with the stored ones."""
    with database.read() as connection:
        stored = get(connection, space.model)
        return stored is None or not _differs(connection, stored, fingerprint, space)


def spelled(*fingerprints: str) -> list[str]:
    """Embedding models as `--embeddings` takes them; as their fingerprints, where those names would be equal.

    Example:
        >>> spelled("hash:512/2", "langchain_openai.OpenAIEmbeddings:text-embedding-3-small")
        ['hash:512', 'openai:text-embedding-3-small']
        >>> spelled("hash:512/1", "hash:512/2")
        ['hash:512/1', 'hash:512/2']
    """

    def provider(match: Match[str]) -> str:
        return "azure_openai:" if match[2].startswith("AzureOpenAI") else f"{match[1]}:"

    names = [_CLASS.sub(provider, _OURS.sub(r"\1", mark)) for mark in fingerprints]
    return names if len({*names}) == len({*fingerprints}) else [*fingerprints]


def _differs(connection: Connection, stored: str, fingerprint: str, space: Space) -> bool:
    return stored != fingerprint and connection.execute(select(space.pk).limit(1)).scalar() is not None


def stats(database: Database) -> Stats:
    queries = {
        table.name: select(func.count()).select_from(table) for table in (memories, scopes, conversations, turns, notes)
    }
    queries["revisions"] = select(func.count()).select_from(history)
    queries["entities"] = select(func.count()).where(entities.c.merged_into.is_(None))
    queries["relations"] = select(func.count()).where(relations.c.retired_at.is_(None))
    with database.read() as connection:
        counts = {name: int(connection.execute(query).scalar_one()) for name, query in queries.items()}
        changes = last_seq(connection)
    size = None if database.path is None else 0
    for file in () if database.path is None else database.path.parent.glob(f"{database.path.name}*"):
        with suppress(FileNotFoundError):  # a merge of an index removes files
            size = (size or 0) + file.stat().st_size
    return Stats(changes=changes, size=size, **counts)


# ── values that cannot be read ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A stored value that Python cannot read: its table and column, the columns that name its row, and its text."""

    table: str
    column: str
    row: dict[str, Any]
    stored: str

    def __str__(self) -> str:
        row = ", ".join(f"{name} {value}" for name, value in self.row.items())
        return f"{self.table}.{self.column} of {row}: {self.stored!r}"


def unreadable_dates(connection: Connection, metadata: MetaData) -> Iterator[Unreadable]:
    """Every date in the tables that Python cannot hold."""
    on_sqlite = connection.dialect.name == "sqlite"
    for table in metadata.sorted_tables:
        names = [column for column in table.c if column.primary_key or column.name in {"id", "memory_id"}]
        for column in table.c:
            limits: list[Any] = [(limit - EPOCH) // timedelta(microseconds=1) for limit in (FIRST, LAST)]
            text: Any = type_coerce(column, Text) if on_sqlite else cast(column, Text)
            query = select(*names, text).where(column.is_not(None))
            if column.info is COUNTED:
                query = query.where(not_(column.between(*limits)))
            elif not isinstance(column.type, UTCDateTime):
                continue
            elif not on_sqlite:
                query = query.where(not_(column.between(FIRST, LAST)))
            with connection.execute(query, execution_options={"yield_per": 1000}) as rows:
                for *row, stored in rows:  # of SQLite every text is read: SQL knows other dates than Python
                    with suppress(ValueError):
                        if on_sqlite and column.info is not COUNTED and datetime.fromisoformat(f"{stored}Z"):
                            continue
                    by_name = {name.name: value for name, value in zip(names, row, strict=True)}
                    yield Unreadable(table.name, column.name, by_name, str(stored))


def unreadable_messages(connection: Connection) -> Iterator[Unreadable]:
    """Every stored message that LangChain cannot read."""
    from langchain_core.messages import messages_from_dict  # noqa: PLC0415 - commands that list memories start without it

    query = select(turns.c.conversation_id, turns.c.position, turns.c.message)
    with connection.execute(query, execution_options={"yield_per": 1000}) as rows:
        for row in rows:
            try:
                messages_from_dict([json.loads(row.message)])
            except (ValueError, TypeError, KeyError):
                place = {"conversation_id": row.conversation_id, "position": row.position}
                yield Unreadable("turns", "message", place, row.message)


# ── replies of models ───────────────────────────────────────────────────────────────────────────────────────────────────

_KEY: Final = "replies of "
_LENGTH, _POOR, _BAD = 10, 3, "x"


class ReplyLog:
    """The last ten replies of a model."""

    def __init__(self, database: Database, model: str) -> None:
        name = model.encode(errors="replace").decode().replace("\x00", "?")  # as databases store it
        self._database, self._key = database, f"{_KEY}{name}"[:64]
        with database.read() as connection:
            self._recent = get(connection, self._key) or ""

    @property
    def is_clean(self) -> bool:
        return _BAD not in self._recent

    @property
    def is_poor(self) -> bool:
        """Whether three or more were not."""
        return self._recent.count(_BAD) >= _POOR

    def note(self, usable: bool) -> None:  # noqa: FBT001 - the one thing to note
        def add(connection: Connection) -> str:
            # Contract: the log is read and written in one transaction, so that no reply of another process is lost.
            # tests/reasoning/test_profiles.py::test_model_profile_replies_of_two_at_once_are_all_counted
            recent = f"{get(connection, self._key) or ''}{'.' if usable else _BAD}"[-_LENGTH:]
            put(connection, self._key, recent) if _BAD in recent else drop(connection, self._key)
            return recent

        self._recent = self._database.write(add)


def poor_models(connection: Connection) -> dict[str, int]:
    """The models with three or more unusable replies among the last ten, and how many."""
    rows = connection.execute(select(meta.c.key, meta.c.value).where(meta.c.key.startswith(_KEY))).all()
    return {key.removeprefix(_KEY): value.count(_BAD) for key, value in rows if value.count(_BAD) >= _POOR}
