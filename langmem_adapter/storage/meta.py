"""Facts about the database: its embedding model, its languages, and which model replies were usable."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from sqlalchemy import bindparam, delete, func, insert, select, update

from langmem_adapter.errors import EmbeddingMismatchError, InvalidInputError, StorageError
from langmem_adapter.records.checks import redact_url
from langmem_adapter.storage import lexical
from langmem_adapter.storage.conversations import conversations, notes, turns
from langmem_adapter.storage.feed import VECTORS, last_seq
from langmem_adapter.storage.migrations.runner import migrate
from langmem_adapter.storage.tables import entities, history, memories, meta, relations, scopes
from langmem_adapter.text import ENGLISH, TOKENIZER, check_language

if TYPE_CHECKING:
    from re import Match

    from sqlalchemy import ColumnElement, Connection, Table

    from langmem_adapter.storage.database import Database
    from langmem_adapter.storage.feed import Space

EMBEDDINGS: Final = VECTORS.model
LANGUAGE: Final = "language"
"""Key of the language by whose rules the words were stemmed."""
_TOKENIZER: Final = "tokenizer"
_OURS: Final = re.compile(r"^(hash:\d+|static)/\w+$")
# A length behind it cannot be written there.
_CLASS: Final = re.compile(r"^langchain_(\w+)\.(\w+):(?=[^:]+(?::\D[^:]*)?$)")
_VALUE: Final = select(meta.c.value).where(meta.c.key == bindparam("name"))


@dataclass(frozen=True, slots=True)
class Stats:
    """How much there is.

    Attributes:
        memories: Current memories.
        scopes: Scopes that were ever written to.
        revisions: Rows of the history.
        changes: Number of the last change.
        size: Bytes of the database's files; `None` in memory and on a server.
        entities: Entities of the knowledge graph; those that were merged are one.
        relations: Relations of it that are believed, those that have ended among them.
        conversations: Conversations that are kept word for word.
        turns: Their messages.
        notes: What was made of them: summaries, titles.
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


def prepare(database: Database, language: str | None = None) -> None:
    """Make a database ready: schema, and words of today's tokenizer in the right language.

    Another *language* than the database has writes all its words anew, in one transaction. Other processes that have it open
    follow: writers and searches go by the language in the database. `None` keeps it; a new database is English.

    Raises:
        InvalidInputError: No such language.
        StorageError: It cannot be opened, belongs to another program, or is newer than this code.
    """
    wanted = None if language is None else check_language(language)
    migrate(database)
    with database.read() as connection:
        ready = _is_ready(connection, wanted or language_of(connection))
    if not ready:
        database.write(partial(_tokenize, wanted=wanted))


def language_of(connection: Connection) -> str:
    """The language in which the words of a database are stemmed."""
    kept = get(connection, LANGUAGE) or ENGLISH
    try:
        return check_language(kept)
    except InvalidInputError:
        raise StorageError(
            f"the words of this database are stemmed as {kept}, which the snowballstemmer installed here does not know; "
            f"upgrade it (pip install -U snowballstemmer), or open the database with another language"
        ) from None


def get(connection: Connection, key: str) -> str | None:
    """The value of a key."""
    return connection.execute(_VALUE, {"name": key}).scalar()


def put(connection: Connection, key: str, value: str) -> None:
    """Set the value of a key, within a write transaction."""
    if connection.execute(update(meta).where(meta.c.key == key).values(value=value)).rowcount == 0:
        connection.execute(insert(meta).values(key=key, value=value))


def drop(connection: Connection, key: str) -> None:
    """Remove a key, within a write transaction."""
    connection.execute(delete(meta).where(meta.c.key == key))


def dimensions(connection: Connection) -> int | None:
    """Length of the vectors kept; `None` while there is no memory."""
    length = connection.execute(select(func.length(memories.c.embedding)).limit(1)).scalar()
    return None if length is None else int(length) // 4


def check_embeddings(connection: Connection, fingerprint: str, space: Space = VECTORS) -> bool:
    """Whether the database names this embedding model; an error where its vectors come from another one."""
    return fits(connection, get(connection, space.model), fingerprint, space)


def fits(connection: Connection, kept: str | None, fingerprint: str, space: Space = VECTORS) -> bool:
    """The same as `check_embeddings`, for a caller who has read the fingerprint already."""
    if kept is None or not _foreign(connection, kept, fingerprint, space):
        return kept == fingerprint
    there, here = spelled(kept, fingerprint)
    named = "" if there == kept else f" (--embeddings {there}, LANGMEM_ADAPTER_EMBEDDINGS={there}, or in Settings)"
    raise EmbeddingMismatchError(
        f"the vectors of the {space.name} in this database are now those of {there}, which cannot be compared with "
        f"those of {here}; open it again with the embeddings {there}{named}, or re-embed: "
        + space.remedy.format(location=_location(connection))
    )


def comparable(database: Database, fingerprint: str, space: Space = VECTORS) -> bool:
    """Whether vectors of this embedding model can be compared with those kept."""
    with database.read() as connection:
        kept = get(connection, space.model)
        return kept is None or not _foreign(connection, kept, fingerprint, space)


def spelled(*fingerprints: str) -> list[str]:
    """Embedding models as `--embeddings` writes them; as their fingerprints, where that would not tell them apart.

    Example:
        >>> spelled("hash:512/2", "langchain_openai.OpenAIEmbeddings:text-embedding-3-small")
        ['hash:512', 'openai:text-embedding-3-small']
        >>> spelled("hash:512/1", "hash:512/2")
        ['hash:512/1', 'hash:512/2']
    """
    names = [_CLASS.sub(_provider, _OURS.sub(r"\1", mark)) for mark in fingerprints]
    return names if len({*names}) == len({*fingerprints}) else [*fingerprints]


def _provider(named: Match[str]) -> str:
    return "azure_openai:" if named[2].startswith("AzureOpenAI") else f"{named[1]}:"


def _foreign(connection: Connection, kept: str, fingerprint: str, space: Space) -> bool:
    return kept != fingerprint and connection.execute(select(space.pk).limit(1)).scalar() is not None


def stats(database: Database) -> Stats:
    """How much a database holds."""
    with database.read() as connection:
        tables = (memories, scopes, history, conversations, turns, notes)
        counted = {table.name: _count(connection, table) for table in tables}
        counted["entities"] = _count(connection, entities, entities.c.merged_into.is_(None))
        counted["relations"] = _count(connection, relations, relations.c.retired_at.is_(None))
        last = last_seq(connection)
    return Stats(revisions=counted.pop(history.name), changes=last, size=_size(database), **counted)


def _count(connection: Connection, table: Table, *conditions: ColumnElement[bool]) -> int:
    return int(connection.execute(select(func.count()).select_from(table).where(*conditions)).scalar_one())


def _is_ready(connection: Connection, wanted: str) -> bool:
    return (get(connection, _TOKENIZER), get(connection, LANGUAGE)) == (TOKENIZER, wanted)


def _tokenize(connection: Connection, wanted: str | None) -> None:
    wanted = wanted or language_of(connection)
    # Contract: asked again within the write transaction, since of several who open a file at once another may have been faster.
    # `test_six_processes_may_open_a_new_file_at_once`
    if _is_ready(connection, wanted):
        return
    lexical.rebuild(connection, wanted)
    put(connection, _TOKENIZER, TOKENIZER)
    put(connection, LANGUAGE, wanted)


def _location(connection: Connection) -> str:
    url = connection.engine.url
    plain = url.database if url.get_backend_name() == "sqlite" else None
    return plain or redact_url(str(url))


def _size(database: Database) -> int | None:
    if database.path is None:
        return None
    size = 0
    for file in database.path.parent.glob(f"{database.path.name}*"):
        with suppress(FileNotFoundError):  # whoever merges an index takes files away
            size += file.stat().st_size
    return size


_KEY: Final = "replies of "
_COUNTED, _POOR, _BAD = 10, 3, "x"


class ReplyLog:
    """The last ten replies of a model."""

    def __init__(self, database: Database, model: str) -> None:
        name = model.encode(errors="replace").decode().replace("\x00", "?")  # as databases keep it
        self._database, self._key = database, f"{_KEY}{name}"[:64]
        with database.read() as connection:
            self._recent = get(connection, self._key) or ""

    @property
    def is_clean(self) -> bool:
        """Whether all of them could be used."""
        return _BAD not in self._recent

    @property
    def is_poor(self) -> bool:
        """Whether three or more could not."""
        return self._recent.count(_BAD) >= _POOR

    def note(self, usable: bool) -> None:  # noqa: FBT001 - what there is to say
        """Add a reply."""
        self._recent = self._database.write(partial(self._add, "." if usable else _BAD))

    def _add(self, reply: str, connection: Connection) -> str:
        # Contract: a reply is read and written in one transaction, so that none of another process is lost.
        # tests/reasoning/test_profiles.py::test_replies_of_two_at_once_are_all_counted
        recent = f"{get(connection, self._key) or ''}{reply}"[-_COUNTED:]
        put(connection, self._key, recent) if _BAD in recent else drop(connection, self._key)
        return recent


def poor_models(connection: Connection) -> dict[str, int]:
    """The models of whose last ten replies three or more could not be used, and how many."""
    rows = connection.execute(select(meta.c.key, meta.c.value).where(meta.c.key.startswith(_KEY))).all()
    return {key.removeprefix(_KEY): value.count(_BAD) for key, value in rows if value.count(_BAD) >= _POOR}
