"""Input of `add`: text, a JSON conversation or JSON lines, from an argument, a file or a pipe.

The format is recognized by the content. Every message becomes an `Item` with its place in the input, also a line that cannot
be read, so that errors can name it.
"""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby, pairwise
from select import select
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_LONG: Final = 8_000  # characters from which on plain text is stored paragraph by paragraph
_PARAGRAPHS: Final = 4_000
_LINES: Final = frozenset({".jsonl", ".ndjson"})
STDIN: Final = "-"
"""The name of a file that means the standard input."""


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to add."""

    unit: str  # what it is in the input: "line", "message" or "input"
    first: int  # its number there, from 1
    last: int  # the number of its last one, where several were joined
    messages: Any  # what `Memory.add` takes
    whole: bool = False  # whether it is a complete conversation, not to be joined with its neighbours
    error: InvalidInputError | None = None  # why it cannot be added; `messages` is `None` then

    @property
    def where(self) -> str:
        """Its place in words: "line 3", "lines 3-9"."""
        if self.unit == "input":
            return "the input"
        return self.begin if self.first == self.last else f"{self.unit}s {self.first}-{self.last}"

    @property
    def begin(self) -> str:
        """Its beginning in words."""
        return "the beginning" if self.unit == "input" else f"{self.unit} {self.first}"

    @property
    def size(self) -> int:
        """The number of messages; a complete conversation counts as one."""
        return 1 if self.whole else self.last - self.first + 1


def joined(items: Iterable[Item], most: int) -> Iterator[Item]:
    """Neighbouring messages as one conversation of at most *most*, so that each is understood in context."""
    for free, run in groupby(items, lambda item: not item.whole and item.error is None):
        neighbours = list(run)
        size = most if free else 1
        for start in range(0, len(neighbours), size):
            part = neighbours[start : start + size]
            first, last = part[0], part[-1]
            messages = [item.messages for item in part]
            yield first if first is last else Item(first.unit, first.first, last.last, messages)


def read_source(argument: str | None, file: Path | None) -> tuple[str, bool]:
    """The raw text: the argument, else the file, else what is piped in; and whether its name says that it holds JSON lines."""
    if argument is not None and file is not None:
        raise InvalidInputError("give the text or --file, not both")
    if argument is not None:
        return argument, False
    if file is not None and str(file) != STDIN:
        if _piped():
            raise InvalidInputError(
                "give --file or pipe something in, not both; in a loop that reads: add … < /dev/null"
            )
        with of_file(file, "read"):
            return _decode(file.read_bytes()), file.suffix.lower() in _LINES
    if sys.stdin.isatty():
        raise InvalidInputError("nothing to add: give a text, --file PATH, or pipe something in")
    return _decode(sys.stdin.buffer.read()), False


@contextmanager
def of_file(name: object, what: str) -> Iterator[None]:
    """Work on a file; an `OSError` becomes an `InvalidInputError`."""
    try:
        yield
    except BrokenPipeError:  # the reader has ended
        raise
    except OSError as error:
        raise InvalidInputError(f"cannot {what} {name}: {error.strerror}") from None


def items_of(text: str, *, lines: bool = False) -> list[Item]:
    """Split an input into items, in order.

    Args:
        text: Plain text; a JSON message, list of messages or `{"messages": [...]}`; or one of these per line.
        lines: Take it as JSON lines, whatever it looks like.
    """
    if not text.strip():
        raise InvalidInputError("the input is empty")
    if lines:
        return list(_json_lines(text))
    whole = _try_json(text)
    if _is_conversation(whole):
        return _conversation(whole)
    if any(_is_conversation(_try_json(line)) for line in text.split("\n")):
        return list(_json_lines(text))
    _refuse_broken_json(text)
    return _plain(text)


def _conversation(data: Any) -> list[Item]:
    messages = data["messages"] if isinstance(data, dict) and "messages" in data else data
    if messages is not data and len(data) > 1:
        others = ", ".join(sorted(set(data) - {"messages"}))
        raise InvalidInputError(f'beside "messages" there is {others}, which has no place here; remove it')
    listed = [messages] if isinstance(messages, dict) else messages
    return [Item("message", number, number, message) for number, message in enumerate(listed, 1)]


def _json_lines(text: str) -> Iterator[Item]:
    # Not splitlines(): JSON texts may hold U+2028 and its kin, which are no line ends there.
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield _json_line(number, line)


def _json_line(number: int, line: str) -> Item:
    try:
        messages = _messages(_json(line, "column {0.colno}"))
    except InvalidInputError as error:
        return Item("line", number, number, None, error=error)
    return Item("line", number, number, messages, whole=isinstance(messages, list))


def _json(text: str, place: str = "line {0.lineno}, column {0.colno}") -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidInputError(f"broken JSON at {place.format(error)}: {error.msg}") from None
    except RecursionError:
        raise InvalidInputError("JSON nested too deeply") from None


def _messages(data: Any) -> Any:
    if not _is_conversation(data):
        raise InvalidInputError('no message: expected {"role": …, "content": …} or a list of these')
    return [item.messages for item in _conversation(data)] if "messages" in data else data


def _try_json(text: str) -> Any:
    if text.lstrip()[:1] in {"{", "["}:
        with suppress(InvalidInputError):
            return _json(text)
    return None


def _is_conversation(data: Any) -> bool:
    if isinstance(data, dict):
        is_message = bool(data.keys() & {"role", "content", "from", "type", "parts"})
        return is_message or isinstance(data.get("messages"), list)
    return isinstance(data, list) and bool(data) and all(isinstance(part, dict | str) for part in data)


def _refuse_broken_json(text: str) -> None:
    # "[laughs] I moved" is a sentence; '{"role": …' and '[{…' are broken JSON.
    if "".join(text[:200].split()).startswith(('{"', "[{")):
        _json(text)
        raise InvalidInputError(
            'this JSON holds no message: expected {"role": …, "content": …}, a list of these, or "messages"'
        )


def _plain(text: str) -> list[Item]:
    if len(text) <= _LONG:
        return [Item("input", 1, 1, text.strip(), whole=True)]
    lines = text.split("\n")
    breaks = [0, *(n for n, line in enumerate(lines) if not line.strip()), len(lines)]
    items: list[Item] = []
    begun, size = 0, 0
    for start, end in pairwise(breaks):
        length = sum(len(line) + 1 for line in lines[start:end])
        if size and size + length > _PARAGRAPHS:
            items.append(_piece(lines, begun, start))
            begun, size = start, 0
        size += length
    items.append(_piece(lines, begun, len(lines)))
    return [item for item in items if item.messages]


def _piece(lines: list[str], start: int, end: int) -> Item:
    return Item("line", start + 1, end, "\n".join(lines[start:end]).strip(), whole=True)


def _piped() -> bool:
    """Whether stdin holds something; what cron and CI leave open without input holds nothing."""
    if sys.stdin is None or sys.stdin.isatty():  # closed, or a person
        return False
    try:
        return bool(select([sys.stdin], [], [], 0)[0]) and bool(sys.stdin.buffer.read(1))
    except OSError:  # Windows can ask none but sockets
        return False


def _decode(raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InvalidInputError(f"line {line} is not UTF-8; convert the input to UTF-8 first") from None
