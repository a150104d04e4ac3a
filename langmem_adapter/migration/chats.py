"""Migration of conversations: ChatGPT's and Claude's exports, LangChain's messages and `message_store` tables, JSON lines.

A file is read a conversation at a time, so an export of any size needs little memory. Messages are kept word for word.
"""

from __future__ import annotations

import json
import re
import zipfile
import zlib
from contextlib import ExitStack, contextmanager, suppress
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
from langmem_adapter.migration.writer import ChatRow, SkippedRow, open_source, time_of
from langmem_adapter.reasoning.prompts import instructions
from langmem_adapter.records.checks import quoted
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope
from langmem_adapter.storage.conversations import Conversation, drafts_of

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from langchain_core.messages import BaseMessage

    from langmem_adapter.migration.writer import SourceRow


_MADE: Final = UUID("0c1f2b52-6c0f-5a0e-8f0e-6d6573736167")
_WINDOW: Final = 20  # messages that are read as one conversation
_CHUNK: Final = 1 << 20  # characters
_LONGEST: Final = 64 << 20  # characters of one conversation
_ROLES: Final = {"user": "user", "human": "user", "assistant": "assistant", "ai": "assistant"}
_FIELDS: Final = ("role", "content", "name", "tool_calls", "tool_call_id")
_SQLITE: Final = b"SQLite format 3\0"
_UNREADABLE: Final = AttributeError, KeyError, NotImplementedError, TypeError, ValueError
_BROKEN: Final = EOFError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error  # RuntimeError: encrypted
_PICTURE: Final = "picture or file of a message"
_FORMATS: Final = (
    "it is none of: conversations.json of ChatGPT or Claude, or the zip with it; a JSON list of LangChain's messages; an "
    'SQLite file or Postgres URL with a table message_store; JSON lines with "role" and "content"'
)


class _Reader:
    """Makes rows of messages; remembers the conversation, and the date of the message before, for one that has none."""

    def __init__(self, scope: Scope | None, session: str, lost: Counter[str]) -> None:
        self.scope = scope
        self.session = session
        self.lost = lost
        self._latest: datetime | None = None

    def begin(self, session: object, time: object = None) -> None:
        """A conversation begins, of a file that names no user."""
        if self.scope is None:
            raise InvalidInputError("these conversations name no user: give -u NAME")
        self.session, self._latest = str(session or ""), None
        with suppress(InvalidInputError):  # its messages have their own dates
            self._latest = time_of(time)

    def row(self, place: str, message: BaseMessage, id_: object, time: object, scope: Scope | None = None) -> ChatRow:
        """A row of a message; its id is the source's, the message's, or a digest of its place and text."""
        owner = scope or self.scope
        if owner is None:
            raise InvalidInputError("it names no user; give -u NAME")
        id_ = id_ or message.id or uuid5(_MADE, f"{self.session}:{place}:{message.type}:{message.text}")
        self._latest = time_of(time) or self._latest or datetime.now(UTC)
        named = message.model_copy(update={"id": str(id_)})
        return ChatRow(place=place, session=self.session, scope=owner, message=named, created_at=self._latest)

    def content(self, place: str, role: object, content: str, id_: object, time: object) -> SourceRow:
        """A row of what a person or a model says; left out where it is another role, or nothing."""
        if str(role) not in _ROLES or not content:
            return SkippedRow(place, "without text" if str(role) in _ROLES else f"of the role {role}")
        (message,) = convert_to_messages([{"role": _ROLES[str(role)], "content": content}])
        return self.row(place, message, id_, time)


def chat_rows(source: str, scope: Scope | None, lost: Counter[str]) -> Iterator[SourceRow]:
    """The messages of a chat export, and those that are left out; *lost* counts parts that have no place here."""
    path = Path(source)
    if "://" not in source and not path.is_file():
        raise InvalidInputError(f"there is no file {path}")
    reader = _Reader(scope, path.stem, lost)
    with ExitStack() as opened, _readable():
        file = None if "://" in source else opened.enter_context(path.open("rb"))
        if file is None or file.read(len(_SQLITE)) == _SQLITE:
            yield from _table(source, reader)
            return
        file.seek(0)
        files: list[IO[bytes]] = [file]
        if zipfile.is_zipfile(path):
            archive = opened.enter_context(zipfile.ZipFile(path))
            names = sorted(name for name in archive.namelist() if re.fullmatch(r"(.*/)?conversations[^/]*\.json", name))
            if not names:
                raise InvalidInputError("there is no conversations.json in the zip")
            files = [opened.enter_context(archive.open(name)) for name in names]
        for each in files:
            yield from _file(each, reader)


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except (*_BROKEN, OSError) as error:
        raise InvalidInputError(f"it cannot be read: {error}") from None


def _file(file: IO[bytes], reader: _Reader) -> Iterator[SourceRow]:
    stream = TextIOWrapper(file, encoding="utf-8-sig")
    try:
        begin = stream.read(_CHUNK)
        if begin.lstrip()[:1] == "[":
            parts = ((f"element {number}", read) for number, read in enumerate(_elements(begin, stream), 1))
        else:
            # Contract: a line of any length needs no more memory than the longest one that is read.
            # tests/migration/test_chats.py::test_migrate_chat_reads_a_line_without_end_in_pieces
            rest = iter(partial(stream.readline, _LONGEST), "")
            lines = chain(StringIO(begin + stream.readline(_LONGEST)), rest)
            parts = ((f"line {number}", _parsed(line)) for number, line in enumerate(lines, 1) if line.strip())
        for place, read in parts:
            if isinstance(read, dict) and isinstance(read.get("mapping"), dict):
                yield from _chatgpt(read, reader)
            elif isinstance(read, dict) and isinstance(read.get("chat_messages"), list):
                yield from _claude(read, reader)
            else:
                yield _message(place, read, reader)
    except UnicodeDecodeError:
        raise InvalidInputError("it is not UTF-8; convert it first") from None
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


def _message(place: str, read: Any, reader: _Reader) -> SourceRow:
    """A message of LangChain's form, or with role and content."""
    try:
        if not isinstance(read, dict) or not ({"role", "content"} <= read.keys() or {"type", "data"} <= read.keys()):
            raise InvalidInputError(_FORMATS)
        if "data" in read:
            (message,) = messages_from_dict([read])
            return reader.row(place, message, None, read.get("timestamp"))
        (message,) = convert_to_messages([{name: read[name] for name in _FIELDS if name in read}])
        own = {name: str(read[name]) for name in SCOPE_FIELDS if read.get(name)}
        if reader.scope is not None and not own.items() <= reader.scope.named.items():
            raise InvalidInputError("it names another user, agent or run than the command")
        reader.session = str(read.get("session") or read.get("session_id") or reader.session)
        return reader.row(place, message, read.get("id"), read.get("timestamp"), Scope(**own) if own else None)
    except _UNREADABLE as error:
        return SkippedRow(place, str(error), is_rejected=True)


def _chatgpt(read: Mapping[str, Any], reader: _Reader) -> Iterator[SourceRow]:
    """The branch of a conversation that is shown; regenerated answers and edited questions are other branches."""
    nodes = {id_: node for id_, node in read["mapping"].items() if isinstance(node, dict)}
    session, current = read.get("conversation_id") or read.get("id") or read.get("title"), read.get("current_node")
    if not isinstance(current, str) or current not in nodes:  # the latest leaf, as the page shows it
        current = next((id_ for id_ in reversed(nodes) if not nodes[id_].get("children")), None)
    branch: dict[Any, None] = {}
    while isinstance(current, str) and current in nodes and current not in branch:
        branch[current] = None
        current = nodes[current].get("parent")
    reader.begin(session, read.get("create_time"))
    for id_ in [*reversed(branch), *(id_ for id_ in nodes if id_ not in branch)]:
        if (message := nodes[id_].get("message")) is not None:
            place = f"conversation {session}, message {id_}"
            try:
                yield _chatgpt_message(place, id_, message, reader, is_shown=id_ in branch)
            except _UNREADABLE as error:
                yield SkippedRow(place, f"it cannot be read: {error}", is_rejected=True)


def _chatgpt_message(place: str, id_: str, message: Any, reader: _Reader, *, is_shown: bool) -> SourceRow:
    content, metadata = message.get("content") or {}, message.get("metadata") or {}
    kind, parts = content.get("content_type"), content.get("parts") or []
    is_hidden = metadata.get("is_visually_hidden_from_conversation") or message.get("weight") == 0
    reasons = {
        "of another branch: a regenerated answer or an edited question": not is_shown,
        f"content of the type {kind}": kind not in {"text", "multimodal_text"},
        "not shown in the chat": is_hidden,
        "sent to a tool": message.get("recipient", "all") != "all",
    }
    if any(reasons.values()):
        return SkippedRow(place, next(reason for reason, holds in reasons.items() if holds))
    reader.lost[_PICTURE] += sum(not isinstance(part, str) for part in parts)
    texts = "\n".join(part for part in parts if isinstance(part, str) and part)
    role = (message.get("author") or {}).get("role")
    return reader.content(place, role, texts, message.get("id") or id_, message.get("create_time"))


def _claude(read: Mapping[str, Any], reader: _Reader) -> Iterator[SourceRow]:
    reader.begin(read.get("uuid") or read.get("name"))
    for number, message in enumerate(read["chat_messages"], 1):
        place = f"conversation {reader.session}, message {number}"
        try:
            blocks = [each for each in message.get("content") or [] if isinstance(each, dict)]
            content = message.get("text") or "\n".join(each["text"] for each in blocks if each.get("type") == "text")
            reader.lost[_PICTURE] += sum(len(message.get(name) or ()) for name in ("attachments", "files"))
            yield reader.content(place, message.get("sender"), content, message.get("uuid"), message.get("created_at"))
        except _UNREADABLE as error:
            yield SkippedRow(place, f"it cannot be read: {error}", is_rejected=True)


def _table(source: str, reader: _Reader) -> Iterator[SourceRow]:
    """The rows of LangChain's `SQLChatMessageHistory` and `PostgresChatMessageHistory`."""
    with open_source(source) as connection:
        look = inspect(connection)
        if not look.has_table("message_store"):
            raise InvalidInputError("there is no table message_store in it")
        columns = {column["name"] for column in look.get_columns("message_store")}
        date = "created_at" if "created_at" in columns else "NULL AS created_at"
        for row in connection.execute(text(f"SELECT id, session_id, message, {date} FROM message_store ORDER BY id")):  # noqa: S608 - our own names
            read = row.message if isinstance(row.message, dict) else _parsed(row.message)
            if reader.session != str(row.session_id):
                reader.begin(row.session_id)
            yield _message(
                f"row {row.id}", {**read, "timestamp": row.created_at} if isinstance(read, dict) else read, reader
            )


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
