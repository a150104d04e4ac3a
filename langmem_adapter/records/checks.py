"""Checks of input (text, JSON objects, message content, URLs of servers), and values and URLs in errors without credentials."""

from __future__ import annotations

import json
import re
import reprlib
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from langmem_adapter.errors import InvalidInputError

if TYPE_CHECKING:
    from datetime import tzinfo
ENCODING_HINT: Final = "and in names and passwords @ : / ? # [ ] % as %40 %3A %2F %3F %23 %5B %5D %25"
"""The fix for an address that cannot be read."""

SCHEMES: Final = r"(?i:postgres(?:ql)?|mysql|mariadb|sqlite|file|https?)(?:\+\w+)?:(?!//)"
"""What an address begins with that lacks the slashes, as a pattern."""

HIDDEN: Final = "***"
"""What is shown in place of a secret."""
_WEB: Final = ("http", "https")
_HARMLESS: Final = frozenset(
    ("api-version", "application_name", "client_encoding", "connect_timeout", "host", "port", "sslmode", "version")
)
_SCHEME: Final = re.compile(r"[A-Za-z][\w+.-]*")
_USER: Final = re.compile(r"[^:/?#@&;=]*")
_HOST: Final = re.compile(r"(?:\[[\da-fA-F:.]+\]|[^][:/?#\s]|:\d*(?=[,/?#&;]|\Z))*(?=[/?#]|\Z)")  # a port is a number
_PARAMETER: Final = re.compile(r"(?:[?#&;]|%23)([^?#&;=]*)")
_QUERY: Final = re.compile(r"[?#]|[&;][^&;=]*=")
_BEGUN: Final = re.compile(SCHEMES)
_VALUE: Final = r"[?#&;][^?#&;=\s]*+=|\b(?=\w*pass)\w++\s*+="
_SETTING: Final = re.compile(rf"{_VALUE}|\b(?:host\w*+|dbname)\s*+=")  # in a query, or in libpq's own form
_START: Final = rf"(?<![\w+.-])[\w+.-]*+://|\b{SCHEMES}(?=\S)"
_WITHIN: Final = re.compile(rf"{_START}|{_VALUE}|(?<!\S)(?!\S*://)\S*@")
_OPEN: Final = re.compile(r"[@?#&;=]")
_WORD: Final = re.compile(rf"(?:{_START})\S*")


def redact_url(address: str) -> str:
    """A URL without its secrets; a text that is no URL, such as a path, is left alone.

    Hidden are the password before the host (with `http` the user name as well, which may be a token), the query from the
    first parameter on that is not known to be harmless, and the fragment. A text that looks like a URL but cannot be parsed is
    hidden as a whole: `host=db password=…`, `//ada:…@db`, `postgresql:ada:…@db`.

    Example:
        >>> redact_url("postgresql://ada:s3cret@db.example/app?application_name=bot&sslpassword=x")
        'postgresql://ada:***@db.example/app?application_name=bot&***'
        >>> redact_url("https://token@models.example/v1")
        'https://***@models.example/v1'
    """
    scheme, sign, rest = address.partition("://")
    if not sign:
        before, _, after = address.rpartition("@")
        has_user = "//" in before or (":" in before and "/" in after)
        return HIDDEN if has_user or _BEGUN.match(address.lstrip()) or _SETTING.search(address) else address
    credentials, at, place = rest.rpartition("@")
    if not _SCHEME.fullmatch(scheme) or _QUERY.search(credentials) or not _HOST.match(place):
        return HIDDEN
    user, colon, _ = credentials.partition(":")
    if at and (scheme.lower() in _WEB or not _USER.fullmatch(user)):
        user, colon = HIDDEN, ""
    secret = next((match for match in _PARAMETER.finditer(place) if match[1] not in _HARMLESS), None)
    redacted = place if secret is None else place[: secret.start() + 1] + HIDDEN
    return f"{scheme}://{user}{colon}{colon and HIDDEN}{at}{redacted}"


def redact_urls(text: str) -> str:
    """A text such as a driver's error, with the first URL in it, and all behind it, redacted.

    The end of a URL with a space in its password or query cannot be determined.

    Example:
        >>> redact_urls("404 for url 'http://ada:s3cret@models.example/v1'")
        "404 for url 'http://***@models.example/v1'"
    """

    def redact(word: re.Match[str]) -> str:
        address = word[0].rstrip("'\")]},.:;")
        return redact_url(address) + word[0][len(address) :]

    start = _WITHIN.search(text)
    if start is None:
        return text
    before, rest = text[: start.start()], text[start.start() :]
    return before + (redact_url(rest) if _OPEN.search(rest) else _WORD.sub(redact, rest))


def check_server_url(address: object, name: str = "") -> str:
    """Return the URL of a web server if every client parses it alike; the error begins with *name*."""
    try:
        parts = urlsplit(address) if isinstance(address, str) else urlsplit("")
        is_server = parts.scheme in _WEB and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, brackets that do not match
        is_server = False
    if not isinstance(address, str) or not is_server or not address.isprintable() or " " in address:
        raise InvalidInputError(
            f"{name}no address of a server; write it like http://localhost:11434/v1, {ENCODING_HINT}"
        )
    return address


DEEPEST: Final = 64
"""Levels of nested objects and lists: what is read must not exhaust the stack of its reader."""
LARGEST: Final = 10_000_000
"""Values in an object with all that it holds."""

_JSON: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, default=dict
)  # mappings that are no dicts become such


class _Quote(reprlib.Repr):
    """Hides secrets before it cuts, since half an address cannot be read."""

    def repr_str(self, x: str, level: int) -> str:
        return super().repr_str(redact_url(x), level)

    def repr_instance(self, x: Any, level: int) -> str:
        text = redact_urls(super().repr_instance(x, level))
        return text if len(text) <= self.maxstring else f"{text[: self.maxstring // 2]}..."


_QUOTE: Final = _Quote()
_QUOTE.maxstring, _QUOTE.maxother = 200, sys.maxsize


def quoted(value: object) -> str:
    """The `repr` of a value for an error: without the secrets of URLs, cut where it is long."""
    try:
        return _QUOTE.repr(value)
    except ValueError:  # Python writes no number of more than 4,300 digits
        return f"a {type(value).__name__} of thousands of digits"


def as_text(value: object, name: str) -> str:
    """The `str()` of a value, if Python writes it; *name* is its name in the error."""
    try:
        return str(value)
    except ValueError:  # Python writes no number of more than 4,300 digits
        raise InvalidInputError(f"{name} cannot be written as text: it is {quoted(value)}") from None


def check_text(value: object, name: str) -> str:
    """Return *value* if it is a text that both databases can keep: without NUL characters and lone surrogates."""
    if not isinstance(value, str):
        raise InvalidInputError(f"{name} must be a str, not {type(value).__name__}")
    if "\x00" in value:
        raise InvalidInputError(f"{name} holds a NUL character, which databases cannot keep; remove it")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"{name} holds a lone surrogate at position {error.start}, which is not text; decode the source properly"
        ) from None
    return value


def parse_timezone(timezone: object, default: str | None = None) -> tzinfo | None:
    """The time zone of an IANA name, else of the *default*; `None` is the system's. Unknown is an `InvalidInputError`."""
    name = default if timezone is None else timezone
    if name is None:
        return None
    try:
        return ZoneInfo(check_text(name, "timezone"))
    except (ValueError, OSError, LookupError):
        raise InvalidInputError(
            f"timezone={quoted(name)} is no known time zone; write an IANA name like 'Asia/Shanghai' or 'UTC'"
        ) from None


def check_metadata(value: object) -> dict[str, Any]:
    """Return a copy of *value* as a JSON object, if both databases can keep it: no NaN, at most `DEEPEST` levels."""
    copy: dict[str, Any] = json.loads(json_object(value, "metadata"))
    return copy


def json_object(value: object, name: str) -> str:
    """The same object as JSON text; the error calls it *name*."""
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"{name} must be a mapping, not {type(value).__name__}")
    check_nesting(value, name)
    try:
        return check_text(_JSON.encode(_strict(value, name)), name)
    except InvalidInputError:
        raise
    except ValueError as error:
        raise InvalidInputError(f"{name} cannot be kept as JSON: {error}") from None


def check_nesting(value: object, name: str) -> None:
    """Refuse a value with more levels of objects and lists in each other than `DEEPEST`; the error calls it *name*.

    Also one that is too large when it is written out: lists that hold one another can double with each level.
    """
    # Contract: a value is looked at once for each level that it lies on, however many lists share it.
    # tests/test_nesting.py::test_metadata_of_lists_that_share_lists_is_refused
    sizes: dict[tuple[int, int], tuple[object, int]] = {}  # the value is kept, so that its id stays its own

    def size(part: object, levels: int) -> int:
        if not isinstance(part, Mapping | list | tuple):
            return 1
        if not levels:
            raise InvalidInputError(f"{name} is nested deeper than {DEEPEST} levels of objects and lists; flatten it")
        key = id(part), levels
        if key not in sizes:
            inner = part.values() if isinstance(part, Mapping) else part
            sizes[key] = part, 1 + sum(size(each, levels - 1) for each in inner)
        return sizes[key][1]

    if size(value, DEEPEST) > LARGEST:
        raise InvalidInputError(f"{name} has more than {LARGEST:,} values when it is written out; keep less of it")


def _strict(value: object, name: str) -> object:
    # json.dumps turns keys into text and tuples into lists without a word; only the second is harmless.
    if isinstance(value, Mapping):
        for key, part in value.items():
            check_text(key, f"a key of {name}")
            _strict(part, name)
    elif isinstance(value, list | tuple):
        for part in value:
            _strict(part, name)
    elif isinstance(value, str):
        check_text(value, name)
    elif value is not None and not isinstance(value, bool | int | float):
        raise InvalidInputError(
            f"{name} holds a {type(value).__name__}, which is no JSON; convert it, to text for example"
        )
    return value


_REASONING: Final = ("reasoning", "reasoning_content", "thinking", "thought", "redacted_thinking", "summary_text")
_WRAPPERS: Final = ("document", "guardContent", "citationsContent", "audio")


def plain_content(content: Any) -> Any:
    """Content of a message with each part that holds text, whatever its type, as LangChain's text part; no reasoning.

    Example:
        >>> plain_content([{"text": "I live in Oslo."}, {"type": "reasoning", "text": "Hm."}])
        [{'type': 'text', 'text': 'I live in Oslo.'}, {'type': 'reasoning', 'text': 'Hm.'}]
    """
    return [_plain_part(part) for part in content] if isinstance(content, list) else content


def _plain_part(part: Any) -> Any:
    if not isinstance(part, Mapping) or part.get("type") in _REASONING or part.get("thought") is True:
        return part
    if part.get("type") == "text" and isinstance(part.get("text"), str):
        return part
    inner = next((part[key] for key in _WRAPPERS if isinstance(part.get(key), Mapping)), part)
    holder = inner["source"] if isinstance(inner.get("source"), Mapping) else inner
    data = holder.get("data") if holder.get("type") == "text" else None if holder is part else holder.get("content")
    text = next((each for each in (holder.get("text"), holder.get("transcript"), data) if each is not None), None)
    if isinstance(text, Mapping):  # OpenAI's assistants and Bedrock's guardrails nest it
        text = text.get("value", text.get("text"))
    if isinstance(text, list):
        texts = [each.get("text") if isinstance(each, Mapping) else each for each in text]
        text = "\n".join(each for each in texts if isinstance(each, str)) or None
    return {"type": "text", "text": text} if isinstance(text, str) else part
