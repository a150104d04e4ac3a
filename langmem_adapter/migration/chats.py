"""Migration of conversations: ChatGPT's and Claude's exports, LangChain's messages and `message_store` tables, JSON lines.

A file is read a conversation at a time, so an export of any size needs little memory. Messages are kept word for word.
"""

from __future__ import annotations

import json
import re
import zipfile
import zlib
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from functools import partial
from io import StringIO, TextIOWrapper
from itertools import chain, groupby, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final
from uuid import UUID, uuid5

from langchain_core.messages import convert_to_messages, messages_from_dict
from sqlalchemy import inspect, text

from langmem_adapter.errors import InvalidInputError, LangmemAdapterError
from langmem_adapter.migration.writer import (
    NO_OWNER,
    ChatRow,
    SkippedRow,
    open_source,
    owner_of,
    row_or_rejection,
    time_of,
)
from langmem_adapter.reasoning.prompts import instructions
from langmem_adapter.records.checks import quoted
from langmem_adapter.storage.conversations import Conversation, drafts_of
from langmem_adapter.storage.drivers import SQLITE_HEADER

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from langchain_core.messages import BaseMessage

    from langmem_adapter.migration.writer import SourceRow
    from langmem_adapter.records.scope import Scope

_MADE: Final = UUID("0c1f2b52-6c0f-5a0e-8f0e-6d6573736167")
_WINDOW: Final = 20  # messages that are read as one conversation
_CHUNK: Final = 1 << 20  # characters
_LONGEST: Final = 64 << 20  # characters of one conversation
_ROLES: Final = {"user": "user", "human": "user", "assistant": "assistant", "ai": "assistant"}
_FIELDS: Final = ("role", "content", "name", "tool_calls", "tool_call_id")
_BROKEN: Final = (
    EOFError,
    NotImplementedError,
    OSError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)  # encrypted: RuntimeError
_PICTURE: Final = "picture or file of a message"
_BRANCH: Final = "of another branch: a regenerated answer or an edited question"
_FORMATS: Final = (
    "it is none of: conversations.json of ChatGPT or Claude, or the zip with it; a JSON list of LangChain's messages; an "
    'SQLite file or Postgres URL with a table message_store; JSON lines with "role" and "content"'
)


def chat_rows(source: str, owner: Scope | None, lost: Counter[str]) -> Iterator[SourceRow]:
    """The messages of a chat export, and those that are left out; *lost* counts parts that have no place here.

    Messages that name no user get the *owner*; without one they are left out.
    """
    path = Path(source)
    if "://" not in source and not path.is_file():
        raise InvalidInputError(f"there is no file {path}")
    reader = _Reader(path.stem, owner, lost)
    try:
        for place, read in _parts(source, path):
            yield from reader.rows(place, read)
    except UnicodeDecodeError:
        raise InvalidInputError("it is not UTF-8; convert it first") from None
    except _BROKEN as error:
        raise InvalidInputError(f"it cannot be read: {error}") from None


def _parts(source: str, path: Path) -> Iterator[tuple[str, Any]]:
    """The rows of a table, or the elements or lines of a file or of the files in a zip, with their places."""
    with ExitStack() as opened:
        file = None if "://" in source else opened.enter_context(path.open("rb"))
        if file is None or file.read(len(SQLITE_HEADER)) == SQLITE_HEADER:
            yield from _table(source)
        elif not zipfile.is_zipfile(path):
            file.seek(0)
            yield from _file(file)
        else:
            archive = opened.enter_context(zipfile.ZipFile(path))
            names = sorted(name for name in archive.namelist() if re.fullmatch(r"(.*/)?conversations[^/]*\.json", name))
            if not names:
                raise InvalidInputError("there is no conversations.json in the zip")
            for name in names:
                yield from _file(opened.enter_context(archive.open(name)))


def _table(source: str) -> Iterator[tuple[str, Any]]:
    """The rows of LangChain's `SQLChatMessageHistory` and `PostgresChatMessageHistory`."""
    with open_source(source) as connection:
        look = inspect(connection)
        if not look.has_table("message_store"):
            raise InvalidInputError("there is no table message_store in it")
        columns = {column["name"] for column in look.get_columns("message_store")}
        date = "created_at" if "created_at" in columns else "NULL AS created_at"
        query = f"SELECT id, session_id, message, {date} FROM message_store ORDER BY id"  # noqa: S608 - our own names
        for row in connection.execute(text(query)):
            read = row.message if isinstance(row.message, dict) else _parsed(row.message)
            more = {"session": row.session_id, "timestamp": row.created_at}
            yield f"row {row.id}", {**read, **more} if isinstance(read, dict) else read


def _file(file: IO[bytes]) -> Iterator[tuple[str, Any]]:
    stream = TextIOWrapper(file, encoding="utf-8-sig")
    try:
        begin = stream.read(_CHUNK)
        if begin.lstrip()[:1] == "[":
            yield from ((f"element {number}", read) for number, read in enumerate(_elements(begin, stream), 1))
            return
        # Contract: a line of any length needs no more memory than the longest one that is read.
        # tests/migration/test_chats.py::test_migrate_chat_reads_a_line_without_end_in_pieces
        rest = iter(partial(stream.readline, _LONGEST), "")
        lines = chain(StringIO(begin + stream.readline(_LONGEST)), rest)
        yield from ((f"line {number}", _parsed(line)) for number, line in enumerate(lines, 1) if line.strip())
    finally:
        stream.detach()


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except (TypeError, ValueError, RecursionError):
        return None


def _elements(buffer: str, stream: IO[str]) -> Iterator[Any]:
    """The elements of a JSON list, one after the other, however long the list is; the stream goes on behind the buffer."""
    # Contract: no more than one element and a chunk is in memory.
    # tests/migration/test_chats.py::test_migrate_chat_reads_a_large_export_a_conversation_at_a_time
    decode, place = json.JSONDecoder().raw_decode, buffer.index("[") + 1
    while True:
        while buffer[place : place + 1] in {" ", "\t", "\r", "\n", ","}:
            place += 1
        if buffer[place : place + 1] == "]":
            return
        try:
            read, place = decode(buffer, place)
        except (ValueError, RecursionError) as error:
            more = stream.read(max(_CHUNK, len(buffer) - place))
            if not more or len(buffer) - place > _LONGEST or isinstance(error, RecursionError):
                raise InvalidInputError(
                    f"the JSON is damaged, or ends too early, in {quoted(buffer[place:])}"
                ) from None
            buffer, place = buffer[place:] + more, 0
        else:
            yield read


class _Reader:
    """Makes rows of messages; remembers the conversation, and the date of the message before, for one that has none."""

    def __init__(self, session: str, owner: Scope | None, lost: Counter[str]) -> None:
        self._session = session
        self._owner = owner
        self._lost = lost
        self._latest: datetime | None = None

    def rows(self, place: str, read: Any) -> Iterator[SourceRow]:
        """The rows of a conversation, or of one message."""
        if isinstance(read, dict) and isinstance(read.get("mapping"), dict):
            yield from self._chatgpt(read)
        elif isinstance(read, dict) and isinstance(read.get("chat_messages"), list):
            yield from self._claude(read)
        else:
            yield row_or_rejection(place, "messages", partial(self._message, place, read))

    def _begin(self, session: object, time: object = None) -> None:
        """A conversation begins, of a file that names no user."""
        if self._owner is None:
            raise InvalidInputError("these conversations name no user: give -u NAME")
        self._session, self._latest = str(session or ""), None
        with suppress(InvalidInputError):  # its messages have their own dates
            self._latest = time_of(time)

    def _row(self, place: str, owner: Scope | None, message: BaseMessage, id_: object, time: object) -> SourceRow:
        """A row of a message; its id is the source's, the message's, or a digest of its place and text."""
        if owner is None:
            return SkippedRow(place, f"message {NO_OWNER}")
        id_ = id_ or message.id or uuid5(_MADE, f"{self._session}:{place}:{message.type}:{message.text}")
        self._latest = time_of(time) or self._latest or datetime.now(UTC)
        named = message.model_copy(update={"id": str(id_)})
        return ChatRow(place=place, session=self._session, scope=owner, message=named, created_at=self._latest)

    def _text(self, place: str, role: object, content: str, id_: object, time: object) -> SourceRow:
        """A row of what a person or a model says; left out where it is another role, or nothing."""
        if str(role) not in _ROLES or not content:
            return SkippedRow(place, "without text" if str(role) in _ROLES else f"of the role {role}")
        (message,) = convert_to_messages([{"role": _ROLES[str(role)], "content": content}])
        return self._row(place, self._owner, message, id_, time)

    def _message(self, place: str, read: Any) -> SourceRow:
        """A message of LangChain's form, or with role and content."""
        if not isinstance(read, dict) or not ({"role", "content"} <= read.keys() or {"type", "data"} <= read.keys()):
            raise InvalidInputError(_FORMATS)
        session = str(read.get("session") or read.get("session_id") or self._session)
        if session != self._session:
            self._session, self._latest = session, None
        if "data" in read:
            (message,) = messages_from_dict([read])
        else:
            (message,) = convert_to_messages([{name: read[name] for name in _FIELDS if name in read}])
        return self._row(place, owner_of(read, self._owner), message, read.get("id"), read.get("timestamp"))

    def _chatgpt(self, read: Mapping[str, Any]) -> Iterator[SourceRow]:
        """The branch of a conversation that is shown; regenerated answers and edited questions are other branches."""
        nodes = {id_: node for id_, node in read["mapping"].items() if isinstance(node, dict)}
        session, current = read.get("conversation_id") or read.get("id") or read.get("title"), read.get("current_node")
        if not isinstance(current, str) or current not in nodes:  # the latest leaf, as the page shows it
            current = next((id_ for id_ in reversed(nodes) if not nodes[id_].get("children")), None)
        branch: dict[Any, None] = {}
        while isinstance(current, str) and current in nodes and current not in branch:
            branch[current] = None
            current = nodes[current].get("parent")
        self._begin(session, read.get("create_time"))
        for id_ in [*reversed(branch), *(id_ for id_ in nodes if id_ not in branch)]:
            if (message := nodes[id_].get("message")) is not None:
                place = f"conversation {session}, message {id_}"
                make = partial(self._chatgpt_message, place, id_, message, is_shown=id_ in branch)
                yield row_or_rejection(place, "messages", make)

    def _chatgpt_message(self, place: str, id_: str, message: Any, *, is_shown: bool) -> SourceRow:
        content, metadata = message.get("content") or {}, message.get("metadata") or {}
        kind, parts = content.get("content_type"), content.get("parts") or []
        is_hidden = metadata.get("is_visually_hidden_from_conversation") or message.get("weight") == 0
        reasons = {
            _BRANCH: not is_shown,
            f"content of the type {kind}": kind not in {"text", "multimodal_text"},
            "not shown in the chat": is_hidden,
            "sent to a tool": message.get("recipient", "all") != "all",
        }
        if any(reasons.values()):
            return SkippedRow(place, next(reason for reason, holds in reasons.items() if holds))
        self._lost[_PICTURE] += sum(not isinstance(part, str) for part in parts)
        texts = "\n".join(part for part in parts if isinstance(part, str) and part)
        role = (message.get("author") or {}).get("role")
        return self._text(place, role, texts, message.get("id") or id_, message.get("create_time"))

    def _claude(self, read: Mapping[str, Any]) -> Iterator[SourceRow]:
        self._begin(read.get("uuid") or read.get("name"))
        for number, message in enumerate(read["chat_messages"], 1):
            place = f"conversation {self._session}, message {number}"
            yield row_or_rejection(place, "messages", partial(self._claude_message, place, message))

    def _claude_message(self, place: str, message: Any) -> SourceRow:
        blocks = [each for each in message.get("content") or [] if isinstance(each, dict)]
        content = message.get("text") or "\n".join(each["text"] for each in blocks if each.get("type") == "text")
        self._lost[_PICTURE] += sum(len(message.get(name) or ()) for name in ("attachments", "files"))
        return self._text(place, message.get("sender"), content, message.get("uuid"), message.get("created_at"))


def _can_keep(row: ChatRow) -> bool:
    with suppress(LangmemAdapterError):  # it was rejected as a message
        return bool(row.message.text and drafts_of([row.message]) and Conversation(row.session, row.scope))
    return False


def windows(rows: Iterable[SourceRow]) -> Iterator[list[ChatRow]]:
    """What people and models say, in groups of one conversation that are added together."""
    messages = (row for row in rows if isinstance(row, ChatRow) and row.message.type in _ROLES and _can_keep(row))
    for _, group in groupby(messages, key=lambda row: (row.scope, row.session)):
        while window := list(islice(group, _WINDOW)):
            yield window


def cost_of(groups: Iterable[Sequence[ChatRow]], mode: str) -> tuple[int, int, int]:
    """How many adds, model calls and tokens groups take at most: two calls an add; a token has about four letters."""
    letters = [sum(len(row.message.text) for row in group) for group in groups]
    instructions_size = sum(len(instructions(task)) for task in ("user", "decide"))
    calls = 0 if mode == "offline" else 2 * len(letters)
    return len(letters), calls, (len(letters) * instructions_size + 2 * sum(letters)) // 4 if calls else 0


def remembered(window: Sequence[ChatRow]) -> dict[str, Any]:
    """The arguments of `Memory.add` for a group; done again it changes nothing."""
    first, last = window[0], window[-1]
    messages = [
        {"role": _ROLES[row.message.type], "content": row.message.text, "timestamp": row.created_at.isoformat()}
        for row in window
    ]
    key = f"migrate:{first.session}:{first.message.id}:{last.message.id}"
    return {"messages": messages, "idempotency_key": key, **first.scope.named}
